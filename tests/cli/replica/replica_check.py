#!/usr/bin/env python3
"""replica_check.py FILE FILE... - do these SQLite files hold the same tables, byte for byte?

Knows nothing of replication: every table of the application (none that begins with tide_, sqlite_ or replication_) is read with its classes and raw bytes,
in the order of all its columns, and compared with the first file's. Also: integrity_check, foreign_key_check, and no table is empty everywhere. Ends with 0 when
all is equal; otherwise says the first difference.
"""

import sqlite3
import struct
import sys


def raw(value):
    if isinstance(value, float):
        return ("real", struct.pack("<d", value))
    if isinstance(value, bytes):
        return ("blob", value)
    if isinstance(value, int):
        return ("integer", value)
    return ("null",) if value is None else ("text", value)


def read(path):
    db = sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=60)
    tables = {}
    with db:
        db.execute("BEGIN")
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)], f"{path}: damaged"
        bad = db.execute("PRAGMA foreign_key_check").fetchall()
        assert not bad, f"{path}: foreign keys: {bad[:3]}"
        names = [row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")]
        for name in names:
            if name.startswith(("tide_", "sqlite_", "replication_")):
                continue
            quoted = '"' + name.replace('"', '""') + '"'
            columns = [c[1] for c in db.execute(f"PRAGMA table_xinfo({quoted})")]
            fields = ", ".join(
                "typeof({0}), CASE typeof({0}) WHEN 'text' THEN CAST({0} AS BLOB) ELSE {0} END".format('"' + c.replace('"', '""') + '"')
                for c in columns)
            rows = db.execute(f"SELECT {fields} FROM {quoted}").fetchall()
            tables[name] = (columns, sorted([tuple((row[i], raw(row[i + 1])) for i in range(0, len(row), 2)) for row in rows], key=repr))
    return tables


def main(paths):
    first = read(paths[0])
    assert first, "no tables"
    for path in paths[1:]:
        other = read(path)
        assert first.keys() == other.keys(), f"{path}: tables {sorted(other)} are not {sorted(first)}"
        for name, (columns, rows) in first.items():
            assert columns == other[name][0], f"{path}: {name}: columns"
            if rows != other[name][1]:
                mine, theirs = set(rows), set(other[name][1])
                sys.exit(f"{name} differs: only in {paths[0]}: {sorted(mine - theirs, key=repr)[:3]}; only in {path}: "
                         f"{sorted(theirs - mine, key=repr)[:3]}")
    print(", ".join(f"{name}: {len(rows)}" for name, (_, rows) in sorted(first.items())))


main(sys.argv[1:])
