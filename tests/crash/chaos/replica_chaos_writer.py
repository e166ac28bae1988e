#!/usr/bin/env python3
"""replica_chaos_writer.py DATABASE NODE NAME SEED HISTORY [--shell]: an application that writes until it is killed.

It knows nothing of replication: plain SQL through Python's sqlite3, or typed into the sqlite3 shell. The history (tests/check)
gets two lines per transaction: before its COMMIT what it is about to make disappear and appear, and after it that it was
acknowledged.
"""
import os
import random
import sqlite3
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "check"))
from history import History  # noqa: E402

SCHEMA = {
    "people": (["id"], ["name", "city", "age"]),
    "notes": (["k"], ["owner", "body"]),
    "pairs": (["a", "b"], ["c", "d"]),
}


def dump_statement():
    """Every cell as table, key, column, value: in SQL's own notation, with the class."""
    parts = []
    for table, (key, columns) in SCHEMA.items():
        key_text = "||','||".join(f"quote({k})" for k in key)
        parts += [
            f"SELECT '{table}|'||{key_text}||'|{c}|'||typeof({c})||':'||quote({c}) FROM {table}"
            for c in columns
        ]
    return " UNION ALL ".join(parts)


class Refused(Exception):
    """A constraint has spoken."""


class Python:
    def __init__(self, path):
        self.db = sqlite3.connect(path, timeout=30, isolation_level=None)
        self.db.execute("PRAGMA synchronous = FULL")
        self.db.execute("PRAGMA foreign_keys = ON")

    def run(self, statement):
        try:
            return [row[0] for row in self.db.execute(statement).fetchall()]
        except sqlite3.IntegrityError as error:
            raise Refused(str(error)) from error


class Shell:
    END = "~end of answer~"

    def __init__(self, path):
        self.child = subprocess.Popen(
            ["sqlite3", "-batch", path],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, bufsize=1,
        )
        self.run(".timeout 30000")
        self.run("PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON")

    def run(self, statement):
        end = "" if statement.startswith(".") else ";"
        self.child.stdin.write(f"{statement}{end}\n.print {self.END}\n")
        self.child.stdin.flush()
        lines = []
        for line in self.child.stdout:
            line = line.rstrip("\n")
            if line == self.END:
                break
            lines.append(line)
        else:
            sys.exit("the shell has ended")
        for line in lines:
            if "constraint failed" in line:
                raise Refused(line)
            if line.startswith(("Error", "Parse error", "Runtime error")):
                sys.exit(f"{statement}: {line}")
        return lines


def draw_statement(chance, token):
    """Most keys and unique values come from a few, so that nodes clash."""
    i, j, n = chance.randint(1, 8), chance.randint(1, 8), chance.randint(0, 5)
    return chance.choice([
        f"INSERT INTO people (id, name, city, age) VALUES ({i}, 'n{n}', '{token}', {chance.randint(0, 40)})",
        f"INSERT INTO people (id, name, city, age) VALUES ({i}, 'n{n}', '{token}', 1) "
        f"ON CONFLICT (id) DO UPDATE SET city = excluded.city",
        f"REPLACE INTO people (id, name, city, age) VALUES ({i}, 'n{n}', '{token}', 2), ({j}, NULL, '{token}b', 3)",
        f"UPDATE people SET city = '{token}', age = {chance.randint(0, 40)} WHERE id = {i}",
        f"UPDATE OR REPLACE people SET id = {j}, name = 'n{n}' WHERE id = {i}",
        f"DELETE FROM people WHERE id = {i}",
        f"INSERT OR IGNORE INTO notes (k, owner, body) VALUES ('k{i}', {j}, '{token}')",
        f"INSERT OR REPLACE INTO notes (k, owner, body) VALUES ('k{i}', NULL, '{token}')",
        f"UPDATE notes SET body = '{token}' WHERE k = 'k{i}'",
        f"DELETE FROM notes WHERE k = 'k{i}'",
        f"INSERT INTO pairs (a, b, c, d) VALUES ({i}, x'0{n}', '{token}', {j}) "
        f"ON CONFLICT (a, b) DO UPDATE SET c = excluded.c",
        f"UPDATE OR IGNORE pairs SET d = {j / 3!r} WHERE a = {i}",
        f"DELETE FROM pairs WHERE a = {i} AND b = x'0{n}'",
    ])


def main():
    path, node, name, seed, history_path = sys.argv[1:6]
    chance = random.Random(f"{seed} {name}")
    database = Shell(path) if "--shell" in sys.argv else Python(path)
    history = History(history_path)
    dump = dump_statement()
    for number in range(1, 1 << 30):
        database.run("BEGIN IMMEDIATE")
        before = set(database.run(dump))
        refused = False
        for step in range(chance.choice([1, 1, 1, 2, 4])):
            try:
                database.run(draw_statement(chance, f"{name}.{number}.{step}"))
            except Refused:
                refused = True
                break
        if refused and chance.random() < 0.5:
            database.run("ROLLBACK")
            continue
        after = set(database.run(dump))
        call = history.call(
            name, "transaction", node=node, value=f"{name} {number}", gone=sorted(before - after),
            new=sorted(after - before))
        call.announce()
        database.run("COMMIT")
        call.ok()
        time.sleep(chance.random() * 0.06)


main()
