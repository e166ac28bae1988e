#!/usr/bin/env python3
"""replica_writes.py DB file RECURSIVE - run replica_writes.sql statement by statement, as a program with Python's own SQLite would.
replica_writes.py DB random RECURSIVE SEED COUNT - random writes of all forms to the same tables.
"""

import os
import random
import sqlite3
import sys


def statements(text):
    pending = ""
    for line in text.splitlines():
        if line.startswith("--"):
            continue
        pending += line + "\n"
        if sqlite3.complete_statement(pending):
            yield pending
            pending = ""


def run_file(db):
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "replica_writes.sql")
    with open(path, encoding="utf-8") as text:
        for statement in statements(text.read()):
            db.execute(statement).fetchall()


def value(r):
    return r.choice([None, r.randrange(10), r.random(), -0.0, "t%d" % r.randrange(10), "", b"", bytes([r.randrange(256)]), 2**62, "nul\0inside", "é"])


def one(db, r):
    how = r.choice(["INSERT", "INSERT OR REPLACE", "INSERT OR IGNORE", "REPLACE"])
    kind = r.randrange(12)
    if kind < 3:
        db.execute(f"{how} INTO plain (id, a, b, c, u, v) VALUES (?, ?, ?, ?, ?, ?)",
                   (r.randrange(40), value(r), r.random(), value(r), r.choice([None, "u%d" % r.randrange(8)]), r.choice([None, r.randrange(-3, 8)])))
    elif kind < 5:
        db.execute(f"{how} INTO uniq VALUES (?, ?, ?, ?, ?)",
                   ("k%d" % r.randrange(20), r.choice([None, "m%d" % r.randrange(6)]), r.choice([None, "Tag%d" % r.randrange(6), "tag%d" % r.randrange(6)]),
                    r.randrange(9), r.choice([0, 50, 101 + r.randrange(4)])))
    elif kind == 5:
        db.execute(f"UPDATE {r.choice(['', 'OR REPLACE ', 'OR IGNORE '])}plain SET u = ?, v = ? WHERE id = ?",
                   ("u%d" % r.randrange(8), r.randrange(8), r.randrange(40)))
    elif kind == 6:
        db.execute(f"UPDATE {r.choice(['', 'OR REPLACE ', 'OR IGNORE '])}plain SET id = ? WHERE id = ?", (r.randrange(40), r.randrange(40)))
    elif kind == 7:
        db.execute(f"UPDATE {r.choice(['', 'OR REPLACE ', 'OR IGNORE '])}uniq SET tag = ?, big = ? WHERE id = ?",
                   ("Tag%d" % r.randrange(6), 101 + r.randrange(4), "k%d" % r.randrange(20)))
    elif kind == 8:
        db.execute(f"{how} INTO pair VALUES (?, ?, ?)", (r.choice("abAB"), r.randrange(5), value(r)))
        db.execute(f"UPDATE OR REPLACE pair SET a = ?, b = ? WHERE a = ? AND b = ?", (r.choice("ab"), r.randrange(5), r.choice("ab"), r.randrange(5)))
    elif kind == 9:
        db.execute(f"{how} INTO parent VALUES (?, ?)", (r.randrange(6), value(r)))
        db.execute("INSERT OR REPLACE INTO child (id, parent, other) SELECT ?, id, id FROM parent ORDER BY id * ? % 7, id LIMIT 1",
                   (r.randrange(12), r.randrange(1, 7)))
    elif kind == 10:
        db.execute(r.choice(["DELETE FROM parent WHERE id = ?", "UPDATE OR REPLACE parent SET id = id + 1 WHERE id = ?", "DELETE FROM plain WHERE id = ?",
                             "DELETE FROM child WHERE id = ?"]), (r.randrange(12),))
    else:
        db.execute("INSERT INTO plain (id, a, u) VALUES (?, 'up', ?) ON CONFLICT (id) DO UPDATE SET a = a || '+' ON CONFLICT (u) DO UPDATE SET id = ?, v = NULL",
                   (r.randrange(40), "u%d" % r.randrange(8), r.randrange(40)))


def run_random(db, r, count):
    refused = 0
    for _ in range(count):
        db.execute(f"PRAGMA recursive_triggers = {r.choice(['ON', 'OFF'])}")
        db.execute("BEGIN IMMEDIATE")
        for _ in range(r.randrange(1, 5)):
            try:
                one(db, r)
            except sqlite3.IntegrityError:
                refused += 1
        if r.randrange(8) == 0:
            db.execute("ROLLBACK")
            continue
        try:
            db.execute("COMMIT")
        except sqlite3.IntegrityError:
            db.execute("ROLLBACK")
    print("refused", refused)


def main(path, what, recursive, *rest):
    db = sqlite3.connect(path, timeout=60, isolation_level=None)
    db.execute("PRAGMA foreign_keys = ON")
    db.execute(f"PRAGMA recursive_triggers = {recursive}")
    if what == "file":
        run_file(db)
    else:
        run_random(db, random.Random(int(rest[0])), int(rest[1]))


main(*sys.argv[1:])
