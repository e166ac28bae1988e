#!/usr/bin/env python3
"""Judge a history of deliveries: every acknowledged record exactly once, or its loss explained; and
the ledger: head - first + 1 = stored + dead + filtered + void + lost + pending."""

import sys
from bisect import bisect_right
from collections import Counter, defaultdict

from history import Checker, Unreadable, main

EXAMPLE = """\
{"process":"c","operation":"send","begin":1,"end":2,"result":"ok",\
"source":"a","stream":"s","value":"x","session":"S","epoch":1,"number":1}
{"process":"r","operation":"stored","begin":9,"end":9,"result":"ok",\
"source":"a","stream":"s","value":"x","session":"S","epoch":1,"number":1}
{"process":"r","operation":"ledger","begin":9,"end":9,"result":"ok",\
"source":"a","stream":"s","session":"S","epoch":1,\
"first":1,"head":1,"stored":1,"dead":0,"filtered":0,"void":0,"lost":0,"pending":0}
"""

PARTS = ("stored", "dead", "filtered", "void", "lost", "pending")


class Source:
    """One agent: what was given to it, and what was done to its store."""

    def __init__(self, name):
        self.name = name
        self.sends = (
            []
        )  # (stream, value, begin, end, session, epoch, number, position): acknowledged
        self.events = []  # (time, kind, {stream: head})
        self.forgets = False
        self.losses = []  # (time, kind, time of the copy or None, heads of the copy)

    def prepare(self):
        copied, heads = None, {}
        for time, kind, stream, head in sorted(self.events, key=lambda event: event[0]):
            if kind == "backup":
                if copied != time:
                    heads = {}
                copied = time
                heads[stream] = head
            elif kind == "wipe":
                self.losses.append((time, kind, None, {}))
            else:
                self.losses.append((time, kind, copied, heads))

    def is_rolled_back(self):
        return any(loss[1] == "rollback" for loss in self.losses)


class Gaps:
    """Ranges of one verdict, by first number."""

    def __init__(self):
        self.ranges = []
        self.firsts = None

    def prepare(self):
        self.ranges.sort()
        self.firsts = [first for first, _ in self.ranges]

    def covers(self, number):
        at = bisect_right(self.firsts, number) - 1
        return at >= 0 and number <= self.ranges[at][1]

    def width(self):
        return sum(last - first + 1 for first, last in self.ranges)


class Delivery(Checker):
    def __init__(self):
        super().__init__()
        self.sources = {}
        self.asked = {}  # (stream, value) -> source, of every send that was not refused
        self.refused = {}  # (stream, value) -> position
        self.stored = defaultdict(list)  # (stream, value) -> (source, session, epoch, number, line)
        self.counts = Counter()  # (source, stream, session, epoch) -> rows
        self.gaps = defaultdict(Gaps)  # (source, stream, session, epoch, status)
        self.heads = {}  # (source, stream, session, epoch) -> greatest number the sink was told of
        self.firsts = {}  # ... -> number with which the sink began
        self.ledgers = []
        self.positions = defaultdict(list)
        self.explained = Counter()
        self.listed = set()  # streams of which every record is in the history
        self.told = {}  # (source, stream) -> numbers told lost that no record was matched with
        self.operations = {
            "send": self.send,
            "stored": self.store,
            "gap": self.gap,
            "met": self.met,
            "ledger": self.ledger,
            "position": self.position,
            "backup": self.event,
            "cut": self.event,
            "forget": self.forget,
        }

    def source(self, name):
        found = self.sources.get(name)
        if found is None:
            found = self.sources[name] = Source(name)
        return found

    @staticmethod
    def key(line):
        return (line["source"], line["stream"], line["session"], line["epoch"])

    # ---- reading ----

    def send(self, line, position):
        stream, value, name = line["stream"], line["value"], line["source"]
        if line["result"] == "fail":
            self.refused[stream, value] = position
            return
        owner = self.asked.setdefault((stream, value), name)
        if owner != name:
            raise ValueError(f"{value} was sent to {owner} and to {name}: values name one record")
        if line["result"] == "ok":
            number = line.get("number")
            session, epoch = (
                (line["session"], line["epoch"]) if number is not None else (None, None)
            )
            self.source(name).sends.append(
                (stream, value, line["begin"], line["end"], session, epoch, number, position)
            )

    def store(self, line, position):
        key = self.key(line)
        self.stored[line["stream"], line["value"]].append(
            (key[0], key[2], key[3], line["number"] + 0, position)
        )
        self.counts[key] += 1

    def gap(self, line, position):
        status = line["status"]
        if status not in ("lost", "void", "recovered", "pending"):
            raise ValueError(f"status {status!r} of a gap")
        if status == "lost" and not line["reason"]:
            self.violate(
                "lost", f"{' '.join(map(str, self.key(line)))}: lost without a reason", position
            )
        self.gaps[self.key(line) + (status,)].ranges.append((line["first"], line["last"]))

    def met(self, line, position):
        key = self.key(line)
        self.heads[key] = max(self.heads.get(key, 0), line["head"])
        self.firsts[key] = max(self.firsts.get(key, 0), line["first"])

    def ledger(self, line, position):
        self.met(line, position)
        self.ledgers.append(
            (
                self.key(line),
                line["first"],
                line["head"],
                {part: line[part] for part in PARTS},
                line.get("partial", False),
                position,
            )
        )

    def position(self, line, position):
        if line["result"] == "ok":
            self.positions[line["source"], line["stream"], line["process"]].append(
                (
                    line["end"],
                    line["session"],
                    line["epoch"],
                    line.get("version"),
                    line["number"],
                    position,
                )
            )

    def event(self, line, position):
        if "source" not in line:
            return  # of another checker
        kind = "backup" if line["operation"] == "backup" else line["kind"]
        if kind not in ("backup", "wipe", "restore", "rollback"):
            raise ValueError(f"kind {kind!r} of a cut")
        self.source(line["source"]).events.append(
            (line["end"], kind, line.get("stream"), line.get("head", 0))
        )

    def forget(self, line, position):
        self.source(line["source"]).forgets = True

    # ---- judging ----

    def judge(self):
        for source in self.sources.values():
            source.prepare()
        for gaps in self.gaps.values():
            gaps.prepare()
        acknowledged = sum(len(source.sends) for source in self.sources.values())
        if acknowledged + len(self.stored) + len(self.ledgers) + len(self.positions) == 0:
            raise Unreadable(
                "nothing was acknowledged, stored or reported: there is nothing to judge"
            )
        self.listed = {stream for stream, _ in self.asked}
        self.judge_stored()
        for source in self.sources.values():
            for send in source.sends:
                self.judge_send(source, send)
        for ledger in self.ledgers:
            self.judge_ledger(*ledger)
        for (name, stream, _), samples in self.positions.items():
            self.judge_positions(name, stream, samples)
        return {
            "acknowledged": acknowledged,
            "stored": sum(len(rows) for rows in self.stored.values()),
            "lost and explained": sum(self.explained.values()),
            "ledgers": len(self.ledgers),
            "positions": sum(len(samples) for samples in self.positions.values()),
        }

    def judge_stored(self):
        for key, rows in self.stored.items():
            name = self.asked.get(key)
            for row in rows:
                if name is None and key in self.refused:
                    self.violate("phantom", f"{key[1]} was refused and is stored", row[4])
                if name is None or row[0] != name:
                    self.violate("phantom", f"{key[1]} of {row[0]} was never sent to it", row[4])
            if len(rows) > 1:
                self.judge_copies(self.source(name), key[1], rows)

    def judge_copies(self, source, value, rows):
        """Twice is legal only where history was cut unseen: the same number in two epochs."""
        places = {(row[1], row[3]) for row in rows}
        epochs = {row[2] for row in rows}
        if not source.is_rolled_back() or len(places) > 1 or len(epochs) < len(rows):
            self.violate(
                "twice",
                f"{value} of {source.name} is stored {len(rows)} times",
                rows[0][4],
                rows[1][4],
            )

    def epoch_met(self, name, stream, session, epoch):
        """Numbers of an epoch that the sink never met belong to the next one that it met."""
        if (name, stream, session, epoch) in self.heads:
            return epoch
        later = [k[3] for k in self.heads if k[:3] == (name, stream, session) and k[3] >= epoch]
        return min(later, default=epoch)

    def is_lost(self, name, stream, session, epoch, number):
        gaps = self.gaps.get((name, stream, session, epoch, "lost"))
        return gaps is not None and gaps.covers(number)

    def judge_send(self, source, send):
        stream, value, _, _, session, epoch, number, position = send
        rows = self.stored.get((stream, value))
        if rows and number is not None:
            met = self.epoch_met(source.name, stream, session, epoch)
            for row in rows:
                is_epoch = row[2] == met or (row[2] > epoch and source.is_rolled_back())
                if row[1] != session or row[3] != number or not is_epoch:
                    self.violate(
                        "changed",
                        f"{value} of {source.name} was acknowledged as {session} {epoch} {number} "
                        f"and is stored as {row[1]} {row[2]} {row[3]}",
                        position,
                        row[4],
                    )
        elif not rows:
            reason = self.explain(source, send)
            if reason is None:
                self.violate(
                    "lost",
                    f"{value} of {source.name} {stream} was acknowledged as {session} {epoch} "
                    f"{number}, is not stored, and nothing explains it",
                    position,
                )
            self.explained[reason] += 1

    def explain(self, source, send):
        """Why an acknowledged record may be missing; None: it may not."""
        if send[6] is None:
            return self.explain_unnumbered(source, send)
        stream, _, begin, _, session, epoch, number, _ = send
        if source.forgets and self.is_forgotten(source, stream, session, epoch, number):
            return "dropped unread"
        for time, kind, _, heads in source.losses:
            if begin > time or number <= heads.get(stream, 0):
                continue
            if kind == "rollback":
                return "rolled back"
            if self.is_lost(source.name, stream, session, epoch, number):
                return "reported lost"
            if number > self.heads.get((source.name, stream, session, epoch), 0):
                return "unknown to the sink"
        return None

    def explain_unnumbered(self, source, send):
        stream, _, begin, end = send[:4]
        for time, _, copied, _ in source.losses:
            if begin <= time and (copied is None or end > copied):
                return "store cut"
        if not source.forgets:
            return None
        key = (source.name, stream)
        if key not in self.told:
            gaps = [g for k, g in self.gaps.items() if k[:2] == key and k[4] == "lost"]
            before = [first - 1 for k, first in self.firsts.items() if k[:2] == key and first > 0]
            self.told[key] = sum(gap.width() for gap in gaps) + sum(before)
        if self.told[key] == 0:
            return None
        self.told[key] -= 1
        return "dropped unread"

    def is_forgotten(self, source, stream, session, epoch, number):
        met = self.epoch_met(source.name, stream, session, epoch)
        if number < self.firsts.get((source.name, stream, session, met), 0):
            return True
        epochs = {met}
        if source.is_rolled_back():  # told in the epoch that began when the cut was found
            prefix = (source.name, stream, session)
            epochs |= {k[3] for k in self.heads if k[:3] == prefix and k[3] > met}
        return any(self.is_lost(source.name, stream, session, e, number) for e in epochs)

    # ---- the ledger and positions ----

    def judge_ledger(self, key, first, head, parts, is_partial, position):
        name = " ".join(map(str, key))
        width = head - first + 1 if head >= first > 0 else 0
        total = sum(parts.values())
        if width != total:
            listed = " + ".join(f"{parts[part]} {part}" for part in PARTS)
            self.violate(
                "ledger", f"{name}: {first}..{head} is {width} numbers, not {listed}", position
            )
        for part, count in parts.items():
            if count < 0:
                self.violate("ledger", f"{name}: {count} {part}", position)
        for status in ("lost", "void"):
            gaps = self.gaps.get(key + (status,))
            width = gaps.width() if gaps else 0
            if width != parts[status]:
                self.violate(
                    "ledger", f"{name}: {parts[status]} {status}, and gaps of {width}", position
                )
        if not is_partial and key[1] in self.listed and parts["stored"] != self.counts[key]:
            self.violate(
                "ledger", f"{name}: {parts['stored']} stored, {self.counts[key]} found", position
            )

    def judge_positions(self, name, stream, samples):
        left = set()
        before = None
        for sample in sorted(samples, key=lambda each: each[0]):
            if before is not None and before[1:5] != sample[1:5]:
                self.judge_step(f"{name} {stream}", before, sample, left)
            before = sample

    def judge_step(self, name, before, sample, left):
        _, session, epoch, version, number, position = sample
        if version is not None and before[3] is not None and version <= before[3]:
            self.violate(
                "position", f"{name}: version {before[3]} became {version}", before[5], position
            )
        if before[1:3] == sample[1:3]:
            if number < before[4]:
                self.violate(
                    "position",
                    f"{name}: went back from {before[4]} to {number}",
                    before[5],
                    position,
                )
            return
        left.add(before[1:3])
        if (session, epoch) in left:
            self.violate("position", f"{name}: came back to {session} {epoch}", before[5], position)


if __name__ == "__main__":
    sys.exit(main(Delivery, EXAMPLE))
