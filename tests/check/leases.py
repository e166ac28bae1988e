#!/usr/bin/env python3
"""Judge a history of leases and finishes: token order, one effective holder, one effect."""

import sys
from collections import Counter
from operator import itemgetter

from history import Checker, Unreadable, main

EXAMPLE = """\
{"process":"a","operation":"claim","begin":1,"end":2,"result":"ok","item":"i","token":7}
{"process":"b","operation":"claim","begin":9,"end":10,"result":"ok","item":"i","token":8}
{"process":"a","operation":"finish","begin":11,"end":12,"result":"fail","item":"i","token":7}
{"process":"b","operation":"finish","begin":13,"end":14,"result":"ok","item":"i","token":8}
{"process":"r","operation":"effect","begin":20,"end":21,"result":"ok",\
"item":"i","token":8,"kind":"checkpoint"}
{"process":"r","operation":"item","begin":20,"end":21,"result":"ok",\
"item":"i","status":"completed","token":8}
"""

BEGIN, END, TOKEN = 0, 1, 2  # of claims, uses and finishes
ENDED = frozenset(("completed", "failed"))


class Item:
    """What was done to one leased item."""

    __slots__ = ("added", "claims", "uses", "finishes", "tried", "effects", "found")

    def __init__(self):
        self.added = None  # line of an acknowledged add; 0: nobody knows its outcome
        self.claims = []  # (begin, end, token, position), acknowledged
        self.uses = []  # (begin, end, token, operation, position), acknowledged
        self.finishes = []  # (begin, end, token, outcome, effects, position), acknowledged
        self.tried = set()  # tokens of finishes that were not refused
        self.effects = []  # (kind, token, position)
        self.found = None  # (line, position)


class Leases(Checker):
    subject = "item"

    def __init__(self):
        super().__init__()
        self.items = {}
        self.is_final = False
        self.is_added = False
        self.forgotten_below = 0
        self.operations = {
            "add": self.add,
            "claim": self.claim,
            "renew": self.use,
            "write": self.use,
            "release": self.use,
            "finish": self.finish,
            "effect": self.effect,
            "item": self.item,
            "forgot": self.forgot,
        }

    def get(self, name):
        found = self.items.get(name)
        if found is None:
            found = self.items[name] = Item()
        return found

    # ---- reading ----

    def add(self, line, position):
        self.is_added = True
        if line["result"] == "ok":
            self.get(line["item"]).added = position
        elif line["result"] == "unknown":
            self.expect(line["item"])

    def expect(self, name):
        item = self.get(name)
        if item.added is None:
            item.added = 0

    def claim(self, line, position):
        if line["result"] == "ok":
            claim = (line["begin"], line["end"], line["token"] + 0, position)
            self.get(line["item"]).claims.append(claim)

    def use(self, line, position):
        if line["result"] == "ok":
            use = (line["begin"], line["end"], line["token"] + 0, line["operation"], position)
            self.get(line["item"]).uses.append(use)

    def finish(self, line, position):
        if line["result"] == "fail":
            return
        item = self.get(line["item"])
        token = line["token"] + 0
        outcome = line.get("outcome", "completed")
        if outcome == "completed":
            item.tried.add(token)
        for name in line.get("adds", ()):
            self.expect(name)
        if line["result"] == "ok":
            effects = line.get("effects")
            finish = (line["begin"], line["end"], token, outcome, effects, position)
            item.finishes.append(finish)
            item.uses.append((line["begin"], line["end"], token, "finish", position))

    def effect(self, line, position):
        self.get(line["item"]).effects.append((line["kind"], line["token"] + 0, position))

    def item(self, line, position):
        self.is_final = True
        item = self.get(line["item"])
        if item.found is not None:
            self.violate("twice", f"{line['item']} was found twice", item.found[2], position)
        item.found = (line["status"], line, position)

    def forgot(self, line, position):
        self.forgotten_below = max(self.forgotten_below, line["below"])

    # ---- judging ----

    def drop_forgotten(self, item):
        """A finish that the store may have forgotten, and that it shows not to know."""
        later = [use[TOKEN] for use in item.claims + item.uses if use[TOKEN] >= self.forgotten_below]
        known = {token for _, token, _ in item.effects}
        if item.found is not None:
            known.add(item.found[1].get("token"))
            if item.found[0] in ENDED and not later and known == {None}:
                return
        dropped = [
            finish
            for finish in item.finishes
            if finish[TOKEN] < self.forgotten_below and (later or finish[TOKEN] not in known)
        ]
        item.finishes = [finish for finish in item.finishes if finish not in dropped]
        if item.found is None and item.added:
            item.added = 0

    def judge(self):
        claims = finishes = effects = found = 0
        for name, item in self.items.items():
            if self.forgotten_below:
                self.drop_forgotten(item)
            claims += len(item.claims)
            finishes += len(item.finishes)
            effects += len(item.effects)
            found += item.found is not None
            self.judge_tokens(name, item)
            self.judge_uses(name, item)
            self.judge_finishes(name, item)
            if self.is_final:
                self.judge_found(name, item)
            self.judge_effects(name, item)
        if claims + finishes + found + effects == 0:
            raise Unreadable("no claim, finish or found item: there is nothing to judge")
        return {
            "items": len(self.items),
            "claims": claims,
            "finishes": finishes,
            "effects": effects,
            "found": found,
        }

    def judge_tokens(self, name, item):
        if len(item.claims) < 2:
            return
        by_token = sorted(item.claims, key=itemgetter(TOKEN))
        for before, claim in zip(by_token, by_token[1:]):
            if before[TOKEN] == claim[TOKEN]:
                self.violate(
                    "token",
                    f"{name}: two claims have the token {claim[TOKEN]}",
                    before[3],
                    claim[3],
                )
        for _, greatest, token, position, where in self.sweep(item.claims, item.claims):
            if greatest > token:
                self.violate(
                    "token", f"{name}: token {token} was given after {greatest}", where, position
                )

    @staticmethod
    def sweep(calls, claims):
        """For each call (begin, end, token, ..., position): the greatest token given before."""
        ends = sorted(claims, key=itemgetter(END))
        greatest, where, at = -1, 0, 0
        for call in sorted(calls, key=itemgetter(BEGIN)):
            while at < len(ends) and ends[at][END] < call[BEGIN]:
                if ends[at][TOKEN] > greatest:
                    greatest, where = ends[at][TOKEN], ends[at][3]
                at += 1
            yield call[BEGIN], greatest, call[TOKEN], call[-1], where

    def judge_uses(self, name, item):
        """No call is accepted under a token that a greater one has replaced."""
        for _, greatest, token, position, where in self.sweep(item.uses, item.claims):
            if greatest > token:
                self.violate(
                    "fenced",
                    f"{name}: a call under token {token} was accepted after {greatest} was given",
                    where,
                    position,
                )
        released = {use[TOKEN]: use for use in item.uses if use[3] == "release"}
        for use in item.uses if released else ():
            release = released.get(use[TOKEN])
            if release is not None and use[3] != "release" and release[END] < use[BEGIN]:
                self.violate(
                    "fenced",
                    f"{name}: {use[3]} under token {use[TOKEN]} was accepted after its release",
                    release[4],
                    use[4],
                )

    def judge_finishes(self, name, item):
        if not item.finishes:
            return
        first = min(item.finishes, key=lambda finish: finish[1])
        for finish in item.finishes:
            if finish[2] != first[2]:
                self.violate(
                    "finished",
                    f"{name}: finished under token {first[2]} and under {finish[2]}",
                    first[5],
                    finish[5],
                )
        for claim in item.claims:
            if claim[0] > first[1]:
                self.violate(
                    "finished", f"{name}: claimed after it was finished", first[5], claim[3]
                )

    def judge_found(self, name, item):
        if item.found is None:
            position = item.added or (item.finishes and item.finishes[0][5])
            if position:
                self.violate("lost", f"{name}: acknowledged, and was not found", position)
            return
        status, line, position = item.found
        token = line.get("token")
        for finish in item.finishes:
            if status != finish[3]:
                self.violate(
                    "lost", f"{name}: finished as {finish[3]}, and is {status}", finish[5], position
                )
            if token is not None and status == "completed" and token != finish[2]:
                self.violate(
                    "lost",
                    f"{name}: finished under token {finish[2]}, and is so under {token}",
                    finish[5],
                    position,
                )
        if self.is_added and item.added is None:
            self.violate("phantom", f"{name}: found, and nobody added it", position)
        if status == "completed" and (token not in item.tried if token else not item.tried):
            self.violate(
                "phantom",
                f"{name}: completed under token {token}, and nobody finished it",
                position,
            )
        if line.get("must_end") and status not in ENDED:
            self.violate("ended", f"{name}: is {status} when everything has ended", position)
        self.judge_attempts(name, line, position)

    def judge_attempts(self, name, line, position):
        attempts, most = line.get("attempts"), line.get("attempts_max")
        if attempts is None or most is None:
            return
        if attempts > most:
            self.violate("attempts", f"{name}: {attempts} attempts of {most}", position)
        if line.get("exhausted") and attempts < most:
            self.violate(
                "attempts", f"{name}: given up with {attempts} attempts of {most}", position
            )

    def judge_effects(self, name, item):
        status = item.found[0] if item.found else None
        line = item.found[1] if item.found else {}
        is_finished = bool(item.finishes) or status in ENDED
        token = item.finishes[0][2] if item.finishes else line.get("token")
        counts = Counter(kind for kind, _, _ in item.effects)
        for kind, by, position in item.effects:
            if counts[kind] > 1:
                self.violate("effect", f"{name}: has {counts[kind]} effects {kind}", position)
            if token is not None and is_finished and by != token:
                self.violate(
                    "effect", f"{name}: finished under {token}, its {kind} is of {by}", position
                )
            if (item.found or not item.tried) and not is_finished:
                self.violate("effect", f"{name}: not finished, and has the effect {kind}", position)
        wanted = line.get("effects")
        if wanted is None and item.finishes:
            wanted = item.finishes[0][4]
        if wanted is None:
            return
        for kind in wanted:
            if is_finished and counts[kind] == 0:
                where = item.finishes[0][5] if item.finishes else item.found[2]
                self.violate("effect", f"{name}: finished, and its {kind} is missing", where)
        for kind, _, position in item.effects:
            if kind not in wanted:
                self.violate(
                    "effect", f"{name}: has an effect {kind} that it must not have", position
                )


if __name__ == "__main__":
    sys.exit(main(Leases, EXAMPLE))
