#!/usr/bin/env python3
"""lake_history.py - what is in a metabase, as lines of a history for tests/check/catalog.py.

    lake_history.py sights URL HISTORY             the state of every snapshot, from the rows
    lake_history.py snapshots URL HISTORY          the commits: what they wrote and must not meet
    lake_history.py stress URL HISTORY DIRECTORY   the logs of the writers of a stress run

Reads the tables by SQL alone: Python's sqlite3, or psql. Sights that were taken at different times
show whether a snapshot has changed. What a commit wrote comes from its marks; what it must not meet
follows from the matrix below, which is written down here once more on purpose.
"""

import glob
import hashlib
import os
import re
import sqlite3
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "check"))
from history import History  # noqa: E402  pylint: disable=wrong-import-position

# Tables whose rows live from begin_snapshot to before end_snapshot, and the columns that say what
# a row is.
LIVING = {
    "ducklake_schema": "schema_id, schema_name, path",
    "ducklake_table": "table_id, schema_id, table_name, path",
    "ducklake_view": "view_id, schema_id, view_name, sql",
    "ducklake_column": "column_id, table_id, column_order, column_name, column_type",
    "ducklake_data_file": "data_file_id, table_id, path, record_count, file_size_bytes",
    "ducklake_delete_file": "delete_file_id, table_id, data_file_id, path, delete_count",
}

# What a commit that left this mark must not have missed since its base; {} is what the mark names.
MEETS = {
    "name-schema": ["name-schema {}"],
    "drop-schema": ["drop-schema {}", "create-in {}"],
    "create-in": ["drop-schema {}"],
    "name": ["name {}"],
    "drop": ["drop {}"],
    "alter": ["drop {}", "alter {}"],
    "insert": ["drop {}", "alter {}", "delete {}"],
    "delete": ["drop {}", "alter {}", "compact {}", "insert {}"],
    "delete-file": ["delete-file {}"],
    "compact": ["drop {}", "delete {}", "compact {}"],
}

UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")  # a key that no client chose
CREATE_CATALOG, FORK = 7, 8  # acts of a stress run that make a catalog


def select(url, query):
    """Rows as tuples of texts; NULL is None."""
    if not url.startswith("postgres"):
        path = url.removeprefix("sqlite:")
        connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=60)
        rows = connection.execute(query).fetchall()
        connection.close()
        return [tuple(None if cell is None else str(cell) for cell in row) for row in rows]
    done = subprocess.run(
        ["psql", "-X", "-q", "-d", url, "-c", f"COPY ({query}) TO STDOUT"],
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    )
    lines = (line.split("\t") for line in done.stdout.splitlines())
    return [tuple(None if cell == "\\N" else cell for cell in line) for line in lines]


def number(text):
    return None if text is None else int(text)


def catalogs(url):
    return dict(select(url, "SELECT catalog_id, catalog_name FROM lake_catalog"))


def write_sights(url, history):
    """The digest of a snapshot is the sum of the digests of the rows that live in it. Rows of
    ancestors count for the ancestor."""
    begin = time.monotonic_ns()
    names = catalogs(url)
    points = {
        catalog: [] for catalog in names
    }  # snapshots that were there before the rows were read
    for catalog, snapshot in select(url, "SELECT catalog_id, snapshot_id FROM lake_commit"):
        points.setdefault(catalog, []).append(int(snapshot))
    changes = {catalog: {} for catalog in points}
    for table, columns in LIVING.items():
        query = f"SELECT catalog_id, begin_snapshot, end_snapshot, {columns} FROM {table}"
        for catalog, first, end, *row in select(url, query):
            text = "|".join([table] + [str(cell) for cell in row])
            digest = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little")
            change = changes.setdefault(catalog, {})
            change[int(first)] = change.get(int(first), 0) + digest
            if end is not None:
                change[int(end)] = change.get(int(end), 0) - digest
    for catalog, snapshots in points.items():
        total = 0
        steps = sorted(changes[catalog].items())
        for snapshot in sorted(snapshots):
            while steps and steps[0][0] <= snapshot:
                total += steps.pop(0)[1]
            history.found(
                "observer",
                "sight",
                begin,
                catalog=names.get(catalog, catalog),
                snapshot=snapshot,
                digest=f"{total % (1 << 64):016x}",
            )


def meets(mark):
    kind, _, what = mark.partition(" ")
    return [text.format(what) for text in MEETS.get(kind, [])]


def write_snapshots(url, history):
    names = catalogs(url)
    marks = {}
    for snapshot, mark in select(url, "SELECT snapshot_id, mark FROM lake_mark"):
        marks.setdefault(snapshot, []).append(mark)
    for snapshot, catalog, parent, base, key in select(
        url,
        "SELECT snapshot_id, catalog_id, parent_snapshot_id, base_snapshot_id, request_key "
        "FROM lake_commit",
    ):
        writes = marks.get(snapshot, [])
        history.found(
            "end",
            "snapshot",
            catalog=names.get(catalog, catalog),
            snapshot=int(snapshot),
            parent=int(parent),
            base=number(base),
            key=None if key is None or UUID.match(key) else key,
            writes=writes,
            conflicts_with=sorted({each for mark in writes for each in meets(mark)}),
        )


class Request:
    """A request of a stress run: asked once or more, under one key."""

    def __init__(self, writer, words, time_ns):
        self.writer = writer
        act, catalog, name = int(words[2]), words[3], words[4]
        self.key = words[1]
        self.catalog = name if act in (CREATE_CATALOG, FORK) else catalog
        self.begin = time_ns
        self.end = None
        self.result = "unknown"
        self.snapshot = None

    def answer(self, words, time_ns):
        self.end = time_ns
        if words[0] == "A":
            self.result, self.snapshot = "ok", int(words[3])
        elif words[0] == "R":
            self.result = "fail"

    def write(self, history):
        line = {
            "process": self.writer,
            "operation": "commit",
            "begin": self.begin,
            "end": self.end,
            "result": self.result,
            "catalog": self.catalog,
            "key": self.key,
        }
        if self.snapshot is not None:
            line["snapshot"] = self.snapshot
        history.write(line)


def write_stress(url, directory, history):
    """I: asked. A: acknowledged. R: refused. U: unknown. Each line ends with its time."""
    names = catalogs(url)
    for catalog, key in select(
        url,
        "SELECT catalog_id, request_key FROM lake_commit WHERE request_key LIKE '%-prepare-%'",
    ):  # of the program itself, before its writers start
        history.call("prepare", "commit", catalog=names[catalog], key=key).unknown()
    for path in sorted(glob.glob(os.path.join(directory, "writer-*.log"))):
        writer = os.path.basename(path).removesuffix(".log")
        requests = {}
        with open(path, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                words = line.split()
                if not line.endswith("\n") or len(words) < 3 or not words[-1].startswith("@"):
                    continue  # written in part: its writer was killed, and another asks again
                time_ns = int(words[-1][1:]) * 1000
                if words[0] == "I":
                    requests[words[1]] = Request(writer, words, time_ns)
                elif words[0] in "ARU":
                    requests[words[1]].answer(words, time_ns)
        for request in requests.values():
            request.write(history)


def main():
    what, url, path = sys.argv[1:4]
    history = History(path)
    if what == "sights":
        write_sights(url, history)
    elif what == "snapshots":
        write_snapshots(url, history)
    elif what == "stress":
        write_stress(url, sys.argv[4], history)
    else:
        sys.exit(__doc__)


main()
