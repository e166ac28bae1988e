#!/usr/bin/env python3
"""Judge a history of sequence numbers: unique, without gaps, in real-time order, per epoch."""

import sys
from collections import defaultdict
from operator import itemgetter

from history import Checker, Unreadable, main

EXAMPLE = """\
{"process":"a","operation":"take","begin":1,"end":5,"result":"ok",\
"sequence":"s","value":"x","number":1}
{"process":"b","operation":"take","begin":2,"end":9,"result":"unknown","sequence":"s","value":"y"}
{"process":"r","operation":"read","begin":6,"end":7,"result":"ok",\
"sequence":"s","after":0,"numbers":[1]}
{"process":"r","operation":"row","begin":20,"end":21,"result":"ok",\
"sequence":"s","number":1,"value":"x"}
"""

BEGIN, END, NUMBER, POSITION = 0, 1, 2, 4  # of a take


class Epoch:
    """What was taken and read under one epoch of a sequence."""

    def __init__(self):
        self.takes = []  # (begin, end, number, value, position), acknowledged
        self.reads = []  # (begin, end, last number shown or None where the page was cut, position)
        self.floors = []  # (end, number, position): later numbers are greater


class Asked:
    """Takes of a sequence, in any session, of which no number is known."""

    def __init__(self):
        self.unnumbered = {}  # value -> line: acknowledged, and its number was not told
        self.unknown = {}
        self.refused = {}


class Group:
    """One sequence in one session."""

    def __init__(self, name, asked):
        self.name = name
        self.asked = asked
        self.epochs = defaultdict(Epoch)
        self.spans = {}  # epoch -> [earliest end, its line, latest begin, its line]
        self.shown = []  # (number, value, position) of pages
        self.rows = []  # (number, value, at, position)
        self.cuts = []  # (end, head)
        self.trimmed = 0
        self.counted = None  # (count, position)


class Sequences(Checker):
    def __init__(self):
        super().__init__()
        self.groups = {}
        self.asked = defaultdict(Asked)
        self.is_final = False
        self.operations = {
            "take": self.take,
            "read": self.read,
            "row": self.row,
            "rows": self.rows,
            "cut": self.cut,
            "trim": self.trim,
        }

    def group(self, line):
        key = (line["sequence"], line.get("session", ""))
        found = self.groups.get(key)
        if found is None:
            found = self.groups[key] = Group(
                " ".join(part for part in map(str, key) if part), self.asked[key[0]]
            )
        return found

    @staticmethod
    def note_span(group, line, epoch, position):
        span = group.spans.get(epoch)
        if span is None:
            group.spans[epoch] = [line["end"], position, line["begin"], position]
            return
        if line["end"] < span[0]:
            span[0], span[1] = line["end"], position
        if line["begin"] > span[2]:
            span[2], span[3] = line["begin"], position

    # ---- reading ----

    def take(self, line, position):
        value = line["value"]
        result = line["result"]
        if result == "ok" and "number" not in line:
            self.asked[line["sequence"]].unnumbered[value] = position
        elif result == "ok":
            group = self.group(line)
            epoch, number = line.get("epoch", 1), line["number"] + 0
            group.epochs[epoch].takes.append((line["begin"], line["end"], number, value, position))
            self.note_span(group, line, epoch, position)
        elif result == "unknown":
            self.asked[line["sequence"]].unknown[value] = position
        else:
            self.asked[line["sequence"]].refused[value] = position

    def read(self, line, position):
        if line["result"] != "ok":
            return
        group = self.group(line)
        after, numbers, values = line["after"], line["numbers"], line.get("values")
        epoch = line.get("epoch", 1)
        last = after
        for number in numbers:
            if number != last + 1:
                what = "gap" if number > last else "order"
                self.violate(what, f"{group.name}: a page goes from {last} to {number}", position)
            last = number
        if values is not None:
            if len(values) != len(numbers):
                raise ValueError("values and numbers differ in length")
            group.shown.extend((n, v, position) for n, v in zip(numbers, values))
        is_whole = not line.get("more", False)
        found = group.epochs[epoch]
        found.reads.append((line["begin"], line["end"], last if is_whole else None, position))
        if numbers:
            found.floors.append((line["end"], last, position))
        self.note_span(group, line, epoch, position)

    def row(self, line, position):
        self.is_final = True
        row = (line["number"] + 0, line["value"], line.get("at"), position)
        self.group(line).rows.append(row)

    def rows(self, line, position):
        self.is_final = True
        self.group(line).counted = (line["count"], position)

    def cut(self, line, position):
        if "sequence" not in line:
            return  # of another checker
        self.group(line).cuts.append((line["end"], line["head"] + 0))

    def trim(self, line, position):
        group = self.group(line)
        group.trimmed = max(group.trimmed, line["upto"])

    # ---- judging ----

    def judge(self):
        takes = rows = reads = 0
        for group in self.groups.values():
            for number, epoch in group.epochs.items():
                takes += len(epoch.takes)
                reads += len(epoch.reads)
                self.judge_unique(group, epoch)
                self.judge_order(group, epoch)
                self.judge_reads(group, epoch)
                if not self.is_final:
                    self.judge_gaps_of_takes(group, number, epoch)
            self.judge_epochs(group)
            rows += len(group.rows)
            if self.is_final:
                self.judge_rows(group)
        if self.is_final:
            self.judge_unnumbered()
        self.judge_sessions()
        takes += sum(len(asked.unnumbered) for asked in self.asked.values())
        if takes + rows + reads == 0:
            raise Unreadable("nothing was acknowledged, read or found: there is nothing to judge")
        return {"takes": takes, "reads": reads, "rows": rows, "sequences": len(self.groups)}

    def judge_unique(self, group, epoch):
        by_number = sorted(epoch.takes, key=itemgetter(NUMBER))
        for before, take in zip(by_number, by_number[1:]):
            if before[NUMBER] == take[NUMBER]:
                self.violate(
                    "unique",
                    f"{group.name}: {take[NUMBER]} was given to {before[3]} and to {take[3]}",
                    before[POSITION],
                    take[POSITION],
                )
        numbers = {}
        for take in epoch.takes:
            first = numbers.setdefault(take[3], take)
            if first is not take:
                self.violate(
                    "unique",
                    f"{group.name}: {take[3]} has the numbers {first[NUMBER]} and {take[NUMBER]}",
                    first[POSITION],
                    take[POSITION],
                )

    def judge_order(self, group, epoch):
        """A number is greater than every number that was known before it was asked for."""
        floors = [(take[END], take[NUMBER], take[POSITION]) for take in epoch.takes] + epoch.floors
        floors.sort()
        greatest, where, at = -1, 0, 0
        for take in sorted(epoch.takes, key=itemgetter(BEGIN)):
            while at < len(floors) and floors[at][0] < take[BEGIN]:
                if floors[at][1] > greatest:
                    greatest, where = floors[at][1], floors[at][2]
                at += 1
            if take[NUMBER] <= greatest:
                self.violate(
                    "order",
                    f"{group.name}: {take[NUMBER]} was taken after {greatest} was known",
                    where,
                    take[POSITION],
                )

    def judge_reads(self, group, epoch):
        """A page that was not cut shows all that was acknowledged or shown before it began."""
        floors = [(take[END], take[NUMBER], take[POSITION]) for take in epoch.takes] + epoch.floors
        floors.sort()
        greatest, where, at = -1, 0, 0
        for begin, _, last, position in sorted(epoch.reads, key=itemgetter(0)):
            while at < len(floors) and floors[at][0] < begin:
                if floors[at][1] > greatest:
                    greatest, where = floors[at][1], floors[at][2]
                at += 1
            if last is not None and last < greatest:
                self.violate(
                    "stale",
                    f"{group.name}: a read ends at {last} after {greatest} was known",
                    where,
                    position,
                )

    def judge_gaps_of_takes(self, group, number, epoch):
        """Without the rows: each missing number needs a take of unknown outcome."""
        if not epoch.takes:
            return
        known = {take[3] for each in group.epochs.values() for take in each.takes}
        open_count = sum(1 for value in group.asked.unknown if value not in known)
        open_count += len(group.asked.unnumbered)
        numbers = sorted(take[NUMBER] for take in epoch.takes)
        missing = numbers[-1] - numbers[0] + 1 - len(numbers)
        if missing > open_count:
            gap = next(a for a, b in zip(numbers, numbers[1:]) if b != a + 1)
            self.violate(
                "gap",
                f"{group.name}: epoch {number}: {missing} numbers are missing, the first behind "
                f"{gap}, and only {open_count} takes are of unknown outcome",
            )

    def judge_epochs(self, group):
        """An epoch that a later one has replaced does not come back."""
        epochs = sorted(group.spans.items())
        for i, (epoch, span) in enumerate(epochs):
            for later, later_span in epochs[i + 1 :]:
                if later_span[0] < span[2]:
                    self.violate(
                        "epoch",
                        f"{group.name}: epoch {epoch} was in use after epoch {later} was known",
                        later_span[1],
                        span[3],
                    )

    def judge_sessions(self):
        """The same for sessions, whose order is that of their first use."""
        sequences = defaultdict(list)
        for (sequence, session), group in self.groups.items():
            if group.spans:
                first = min(span[0] for span in group.spans.values())
                latest = max((span[2], span[3]) for span in group.spans.values())
                sequences[sequence].append((first, session, latest))
        for sequence, sessions in sequences.items():
            sessions.sort()
            for i, (_, session, latest) in enumerate(sessions):
                for first, later, _ in sessions[i + 1 :]:
                    if first < latest[0]:
                        self.violate(
                            "epoch",
                            f"{sequence}: session {session} was in use after {later} was known",
                            latest[1],
                        )

    # ---- what was found in the end ----

    def judge_rows(self, group):
        rows = sorted(group.rows, key=itemgetter(0))
        if group.counted is not None and group.counted[0] != len(rows):
            self.violate(
                "lost",
                f"{group.name}: {group.counted[0]} rows were counted and {len(rows)} listed",
                group.counted[1],
            )
        self.judge_gaps_of_rows(group, rows)
        by_number = {row[0]: row for row in rows}
        by_value = {}
        for row in rows:
            first = by_value.setdefault(row[1], row)
            if first is not row:
                self.violate(
                    "unique",
                    f"{group.name}: {row[1]} was found under {first[0]} and under {row[0]}",
                    first[3],
                    row[3],
                )
        self.judge_acknowledged(group, by_number, by_value)
        self.judge_shown(group, by_number)
        self.judge_phantoms(group, rows)

    def judge_gaps_of_rows(self, group, rows):
        last = rows[0][0] - 1 if group.trimmed and rows else 0
        if rows and last > group.trimmed:
            self.violate("gap", f"{group.name}: rows begin at {last + 1}", rows[0][3])
        at = None
        for number, _, time, position in rows:
            if number == last:
                self.violate("unique", f"{group.name}: number {number} was found twice", position)
            if number != last + 1:
                self.violate("gap", f"{group.name}: behind {last} comes {number}", position)
            if time is not None:
                if at is not None and time < at:
                    self.violate("order", f"{group.name}: the time of {number} goes back", position)
                at = time
            last = number

    @staticmethod
    def is_cut(group, begin, number):
        return any(head < number and begin <= end for end, head in group.cuts)

    def judge_acknowledged(self, group, by_number, by_value):
        for epoch in group.epochs.values():
            for begin, _, number, value, position in epoch.takes:
                row = by_number.get(number)
                if row is not None and row[1] == value:
                    continue
                other = by_value.get(value)
                if other is not None:
                    self.violate(
                        "changed",
                        f"{group.name}: {value} was acknowledged as {number} and is {other[0]}",
                        position,
                        other[3],
                    )
                if number <= group.trimmed or self.is_cut(group, begin, number):
                    continue
                if row is not None:
                    self.violate(
                        "changed",
                        f"{group.name}: {number} was acknowledged as {value} and is {row[1]}",
                        position,
                        row[3],
                    )
                self.violate(
                    "lost",
                    f"{group.name}: {value} was acknowledged as {number} and was not found",
                    position,
                )

    def judge_unnumbered(self):
        for sequence, asked in self.asked.items():
            groups = [group for key, group in self.groups.items() if key[0] == sequence]
            if not asked.unnumbered or any(group.cuts or group.trimmed for group in groups):
                continue
            found = {row[1] for group in groups for row in group.rows}
            for value, position in asked.unnumbered.items():
                if value not in found:
                    self.violate(
                        "lost", f"{sequence}: {value} was acknowledged and was not found", position
                    )

    def judge_shown(self, group, by_number):
        for number, value, position in group.shown:
            row = by_number.get(number)
            if (row is not None and row[1] == value) or number <= group.trimmed:
                continue
            if any(head < number for _, head in group.cuts):
                continue
            found = f"is {row[1]}" if row else "was not found"
            self.violate(
                "changed" if row else "lost",
                f"{group.name}: {number} was read as {value} and {found}",
                position,
                row[3] if row else 0,
            )

    def judge_phantoms(self, group, rows):
        asked = {take[3] for epoch in group.epochs.values() for take in epoch.takes}
        asked.update(group.asked.unknown)
        asked.update(group.asked.unnumbered)
        refused = group.asked.refused
        if not asked and not refused:
            return  # its writers wrote no history
        for number, value, _, position in rows:
            if value in asked:
                continue
            if value in refused:
                text = f"{value} was refused and was found as {number}"
            else:
                text = f"{value} was found as {number} and nobody asked for it"
            self.violate("phantom", f"{group.name}: {text}", refused.get(value), position)


if __name__ == "__main__":
    sys.exit(main(Sequences, EXAMPLE))
