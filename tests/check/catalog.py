#!/usr/bin/env python3
"""Judge a history of lake catalogs: immutable snapshots, in order, linear, no lost conflict."""

import sys
from operator import itemgetter

from history import Checker, Unreadable, main

EXAMPLE = """\
{"process":"w","operation":"commit","begin":1,"end":4,"result":"ok",\
"catalog":"c","key":"k1","base":1,"snapshot":2,"writes":["table:7"]}
{"process":"r","operation":"sight","begin":5,"end":6,"result":"ok",\
"catalog":"c","snapshot":2,"digest":"d2"}
{"process":"r","operation":"snapshot","begin":9,"end":9,"result":"ok",\
"catalog":"c","snapshot":2,"parent":1,"key":"k1","digest":"d2","base":1,"writes":["table:7"]}
"""

BEGIN, END, SNAPSHOT, KEY, POSITION = 0, 1, 2, 3, 4


class Found:
    """A snapshot as it was found in the end."""

    def __init__(self, line, position):
        self.snapshot = line["snapshot"] + 0
        self.parent = line["parent"]
        self.key = line.get("key")
        self.at = line.get("at")
        self.base = line.get("base")
        self.writes = line.get("writes")
        self.conflicts_with = line.get("conflicts_with", self.writes)
        self.position = position


class Catalog:
    def __init__(self):
        self.commits = []  # (begin, end, snapshot, key, position), acknowledged
        self.open = set()  # keys of unknown outcome
        self.refused = {}
        self.heads = []  # (begin, end, snapshot, key, position)
        self.digests = {}  # snapshot -> (digest, position)
        self.found = []
        self.claimed = []  # Found of acknowledged commits, for the conflicts


class Catalogs(Checker):
    subject = "key"

    def __init__(self):
        super().__init__()
        self.catalogs = {}
        self.is_final = False
        self.sights = 0
        self.operations = {
            "commit": self.commit,
            "head": self.head,
            "sight": self.sight,
            "snapshot": self.snapshot,
        }

    def catalog(self, line):
        name = line["catalog"]
        found = self.catalogs.get(name)
        if found is None:
            found = self.catalogs[name] = Catalog()
        return found

    # ---- reading ----

    def commit(self, line, position):
        catalog = self.catalog(line)
        key = line["key"]
        if line["result"] == "ok":
            catalog.commits.append(
                (line["begin"], line["end"], line["snapshot"] + 0, key, position)
            )
            if line.get("base") is not None and line.get("writes") is not None:
                catalog.claimed.append(Found({"parent": None, **line}, position))
        elif line["result"] == "unknown":
            catalog.open.add(key)
        else:
            catalog.refused[key] = position

    def head(self, line, position):
        if line["result"] == "ok":
            head = (line["begin"], line["end"], line["snapshot"] + 0, None, position)
            self.catalog(line).heads.append(head)

    def sight(self, line, position):
        if line["result"] == "ok":
            self.sights += 1
            self.note_digest(line, position)

    def note_digest(self, line, position):
        digests = self.catalog(line).digests
        snapshot, digest = line["snapshot"], line["digest"]
        before, where = digests.setdefault(snapshot, (digest, position))
        if before != digest:
            self.violate(
                "immutable",
                f"{line['catalog']}: snapshot {snapshot} was {before} and is {digest}",
                where,
                position,
            )

    def snapshot(self, line, position):
        self.is_final = True
        self.catalog(line).found.append(Found(line, position))
        if line.get("digest") is not None:
            self.note_digest(line, position)

    # ---- judging ----

    def judge(self):
        commits = found = 0
        for name, catalog in self.catalogs.items():
            commits += len(catalog.commits)
            found += len(catalog.found)
            self.judge_order(name, catalog)
            self.judge_keys(name, catalog)
            if self.is_final:
                self.judge_line(name, catalog)
                self.judge_found(name, catalog)
            self.judge_conflicts(name, catalog.found or catalog.claimed)
        if commits + found + self.sights == 0:
            raise Unreadable("no commit, sight or snapshot: there is nothing to judge")
        return {
            "catalogs": len(self.catalogs),
            "commits": commits,
            "snapshots": found,
            "sights": self.sights,
        }

    def judge_order(self, name, catalog):
        """What begins after a snapshot was known is newer; a head is at least as new."""
        known = sorted(catalog.commits + catalog.heads, key=itemgetter(END))
        greatest, at = None, 0
        calls = [(call, True) for call in catalog.commits] + [
            (call, False) for call in catalog.heads
        ]
        for call, is_commit in sorted(calls, key=lambda each: each[0][BEGIN]):
            while at < len(known) and known[at][END] < call[BEGIN]:
                if greatest is None or known[at][SNAPSHOT] > greatest[SNAPSHOT]:
                    greatest = known[at]
                at += 1
            if greatest is None or call[SNAPSHOT] > greatest[SNAPSHOT]:
                continue
            if call[SNAPSHOT] == greatest[SNAPSHOT] and (
                not is_commit or call[KEY] == greatest[KEY]
            ):
                continue  # the same snapshot seen again, or a request answered again
            what = "committed" if is_commit else "shown as the head"
            self.violate(
                "order",
                f"{name}: {call[SNAPSHOT]} was {what} after {greatest[SNAPSHOT]} was known",
                greatest[POSITION],
                call[POSITION],
            )

    def judge_keys(self, name, catalog):
        snapshots, keys = {}, {}
        for _, _, snapshot, key, position in catalog.commits:
            first = snapshots.setdefault(key, (snapshot, position))
            if first[0] != snapshot:
                self.violate(
                    "twice",
                    f"{name}: {key} has snapshots {first[0]} and {snapshot}",
                    first[1],
                    position,
                )
            owner = keys.setdefault(snapshot, (key, position))
            if owner[0] != key:
                self.violate(
                    "twice",
                    f"{name}: snapshot {snapshot} was given to {owner[0]} and to {key}",
                    owner[1],
                    position,
                )

    def judge_line(self, name, catalog):
        catalog.found.sort(key=lambda found: found.snapshot)
        before = None
        for found in catalog.found:
            if before is not None:
                if found.snapshot == before.snapshot or found.parent != before.snapshot:
                    self.violate(
                        "linear",
                        f"{name}: the parent of {found.snapshot} is {found.parent}, not "
                        f"{before.snapshot}",
                        before.position,
                        found.position,
                    )
                if found.at is not None and before.at is not None and found.at < before.at:
                    self.violate(
                        "order", f"{name}: the time of {found.snapshot} goes back", found.position
                    )
            before = found

    def judge_found(self, name, catalog):
        by_snapshot = {found.snapshot: found for found in catalog.found}
        by_key = {}
        for found in catalog.found:
            if found.key is None:
                continue
            first = by_key.setdefault(found.key, found)
            if first is not found:
                self.violate(
                    "twice",
                    f"{name}: {found.key} was found as {first.snapshot} and as {found.snapshot}",
                    first.position,
                    found.position,
                )
        for _, _, snapshot, key, position in catalog.commits:
            found = by_snapshot.get(snapshot)
            if found is None or (found.key is not None and found.key != key):
                other = f"is of {found.key}" if found else "was not found"
                self.violate(
                    "lost", f"{name}: {key} was acknowledged as {snapshot}, which {other}", position
                )
        asked = {commit[KEY] for commit in catalog.commits} | catalog.open
        if not asked and not catalog.refused:
            return
        for key, found in by_key.items():
            if key not in asked:
                what = "was refused" if key in catalog.refused else "was asked for by nobody"
                self.violate(
                    "phantom",
                    f"{name}: {key} {what} and was found as {found.snapshot}",
                    catalog.refused.get(key),
                    found.position,
                )

    def judge_conflicts(self, name, found):
        """Between a commit's base and its snapshot no other wrote what it must not overlap."""
        writers = {}  # conflict key -> last commit that wrote it
        for commit in sorted(found, key=lambda each: each.snapshot):
            for key in commit.conflicts_with or () if commit.base is not None else ():
                before = writers.get(key)
                if before is not None and before.snapshot > commit.base:
                    self.violate(
                        "conflict",
                        f"{name}: {commit.snapshot} on base {commit.base} overlaps with "
                        f"{before.snapshot} in {key}",
                        before.position,
                        commit.position,
                    )
            for key in commit.writes or ():
                writers[key] = commit


if __name__ == "__main__":
    sys.exit(main(Catalogs, EXAMPLE))
