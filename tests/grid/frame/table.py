"""The table of the grid: states (states.txt), faults (below), cells (modules of cells/).

A cell is a function with a row above it:

    @cell("work-lease", "hung", "continues", effect="holds", object_name="item")
    def work_lease_hung(g): ...

Its return value is the verdict that it observed; the row has the verdict that must be observed.
A pair that cannot occur has a row, too, with the reason:

    cannot("sequence-position", "hung", "the reader is a command that has ended")
"""

import importlib
import os
import pkgutil
import re

GRID_DIR = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
STATES_FILE = os.path.join(GRID_DIR, "states.txt")

FAULTS = {
    "other-older": "the other side is older: it was restored from a backup",
    "this-older": "this side is older: it was restored from a backup",
    "other-wiped": "the other side was wiped and begins anew",
    "other-copied": "the other side was replaced by a copy of another one",
    "promoted": "PostgreSQL: a standby was promoted, or the old primary returned",
    "away-before": "the other side is away before the call",
    "away-during": "the other side goes away during the call",
    "hung": "the other side hangs (SIGSTOP)",
    "answer-lost": "the answer is lost behind COMMIT",
    "disk-full": "the disk is full",
    "clock-ahead": "a clock is an hour ahead",
    "clock-behind": "a clock is an hour behind",
}

# The open issues that a mark may name.
AREAS = ("postgres", "work", "telemetry", "replica", "lake", "security")

# What a fault does to data. The shipped alert rules must fire for "holds" and "loses".
EFFECTS = {
    "none": "the fault changes nothing that a user could notice: nothing has to be reported",
    "reports": "the fault is reported; no data is held up or lost",
    "holds": "data is held up while the fault lasts",
    "loses": "data is lost, and the loss is on record",
}

VERDICT = re.compile(
    r"^(continues|refuses (E_[A-Z_]+|exit \d+)|begins an epoch|gap [a-z ]+)$")


class Mark:
    """A cell that is red today: the open issue that will turn it green, and the findings that
    make it red. Every finding must match one of the texts (regular expressions, from the start of
    the finding); a finding that none matches fails the run, and so does a cell that passes."""

    def __init__(self, area, *texts):
        self.area = area
        self.texts = texts

    def explains(self, finding):
        return any(re.match(text, finding) for text in self.texts)


class Cell:
    """A row of the table: one state, one fault."""

    def __init__(self, state, fault, verdict, effect, reason, mark, quick, limit, variant, run):
        self.state = state
        self.fault = fault
        self.verdict = verdict
        self.effect = effect
        self.reason = reason  # why it cannot apply, or why an effect of "none" is none
        self.mark = mark
        self.quick = quick
        self.limit = limit
        self.variant = variant
        self.run = run

    @property
    def applies(self):
        return self.run is not None

    @property
    def id(self):
        return "/".join(part for part in (self.state, self.fault, self.variant) if part)


CELLS = []


def cell(state, fault, verdict, effect="reports", reason="", mark=None, quick=False, limit=120,
         variant=""):
    """Register the function below as a cell.

    verdict  what must be observed: continues, begins an epoch, gap REASON, refuses E_CODE (of a
             service) or refuses exit N (of a command)
    effect   a key of EFFECTS
    reason   with effect "none": why nothing has to be reported
    mark     Mark(...) while the cell is red
    quick    part of `make test`
    limit    seconds of an idle machine after which the cell is stopped
    variant  tells several cells of one pair apart"""

    def register(run):
        CELLS.append(Cell(state, fault, verdict, effect, reason, mark, quick, limit, variant, run))
        return run

    return register


def cannot(state, fault, reason):
    """A pair that cannot occur, and why."""
    CELLS.append(Cell(state, fault, "", "none", reason, None, False, 0, "", None))


class State:
    """A line of states.txt."""

    def __init__(self, fields):
        self.id, self.holder, self.here, self.there, self.compared, self.area = fields


def load_states(path=STATES_FILE):
    """The states, by id. Raises ValueError for a line that is none."""
    states = {}
    with open(path, encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            line = line.strip()
            if not line or line.startswith("#"):
                continue
            fields = [field.strip() for field in line.split("|")]
            if len(fields) != 6 or not all(fields):
                raise ValueError(f"{path}:{number}: {len(fields)} fields instead of 6")
            state = State(fields)
            if state.id in states:
                raise ValueError(f"{path}:{number}: state {state.id} appears twice")
            states[state.id] = state
    return states


def load():
    """Import every module of cells/ and return all rows, sorted by state and fault."""
    import cells

    for module in sorted(m.name for m in pkgutil.iter_modules(cells.__path__)):
        importlib.import_module(f"cells.{module}")
    faults = list(FAULTS)
    return sorted(CELLS, key=lambda c: (c.state, faults.index(c.fault) if c.fault in faults else 99,
                                        c.variant))
