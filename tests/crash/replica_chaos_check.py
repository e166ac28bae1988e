#!/usr/bin/env python3
"""replica_chaos_check.py DIRECTORY NODE...: the journals against the files, without any code of ours.

Every file shows the same rows, byte for byte. Every acknowledged value is shown, was removed by a transaction that had seen it, or is
listed as a conflict, or kept aside with its row; on every node. A transaction whose writer was killed before the answer
may have happened or not.
"""
import glob
import json
import os
import sqlite3
import struct
import sys

SCHEMA = {
    "people": (["id"], ["name", "city", "age"]),
    "notes": (["k"], ["owner", "body"]),
    "pairs": (["a", "b"], ["c", "d"]),
}
failures = []


def fail(text):
    failures.append(text)


def quote(value):
    """As SQLite's typeof and quote."""
    if value is None:
        return "null:NULL"
    if isinstance(value, int):
        return f"integer:{value}"
    if isinstance(value, float):
        return "real:" + sqlite3.connect(":memory:").execute("SELECT quote(?)", (value,)).fetchone()[0]
    if isinstance(value, bytes):
        return f"blob:X'{value.hex().upper()}'"
    return "text:'" + value.replace("'", "''") + "'"


def read_varint(data, at):
    number = shift = 0
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return number, at


def read_value(data, at):
    """One value as it stands in conflicts and images: class, then its bytes."""
    kind = data[at]
    at += 1
    if kind == 0:
        return None, at
    if kind == 1:
        number, at = read_varint(data, at)
        return (number >> 1) ^ -(number & 1), at
    if kind == 2:
        return struct.unpack("<d", data[at:at + 8])[0], at + 8
    length, at = read_varint(data, at)
    data = data[at:at + length]
    return (data.decode() if kind == 3 else bytes(data)), at + length


def key_text(data):
    at, parts = 0, []
    while at < len(data):
        value, at = read_value(data, at)
        parts.append(quote(value).split(":", 1)[1])
    return ",".join(parts)


def open_file(directory, node):
    return sqlite3.connect(f"file:{directory}/{node}/app.db?mode=ro", uri=True)


def rows_of(db):
    lines = []
    for table, (key, columns) in SCHEMA.items():
        cells = ", ".join(f"typeof({c}), quote({c})" for c in key + columns)
        order = ", ".join(f"quote({k})" for k in key)
        lines += [(table,) + row for row in db.execute(f"SELECT {cells} FROM {table} ORDER BY {order}")]
    return lines


def cells_of(db):
    cells = set()
    for table, (key, columns) in SCHEMA.items():
        text = "||','||".join(f"quote({k})" for k in key)
        for column in columns:
            cells.update(row[0] for row in db.execute(
                f"SELECT '{table}|'||{text}||'|{column}|'||typeof({column})||':'||quote({column}) FROM {table}"))
    return cells


def listed_in(db):
    """What is listed as lost, and the rows that a constraint keeps out."""
    names = {
        (table, position): name for table, position, name in
        db.execute("SELECT table_id, position, name FROM tide_replica_columns")
    }
    tables = dict(db.execute("SELECT id, name FROM tide_replica_tables"))
    cells = set()
    for table, key, column, value in db.execute(
            "SELECT table_id, key, col, value FROM tide_replica_conflicts WHERE col >= 0"):
        cells.add(f"{tables[table]}|{key_text(key)}|{names[table, column]}|{quote(read_value(value, 0)[0])}")
    for table, key, image in db.execute("SELECT table_id, key, image FROM tide_replica_clocks WHERE aside > 0"):
        at = 0
        while at < len(image):
            column, at = read_varint(image, at)
            value, at = read_value(image, at)
            cells.add(f"{tables[table]}|{key_text(key)}|{names[table, column]}|{quote(value)}")
    return cells


def read_journals(directory):
    tries, acks = {}, set()
    for path in glob.glob(os.path.join(directory, "journal.*")):
        with open(path, "rb") as file:
            for line in file:
                if not line.endswith(b"\n"):
                    continue
                entry = json.loads(line)
                if "ack" in entry:
                    acks.add(entry["ack"])
                else:
                    tries[entry["try"]] = entry
    return tries, acks


def main():
    directory, nodes = sys.argv[1], sys.argv[2:]
    tries, acks = read_journals(directory)
    gone = {cell for entry in tries.values() for cell in entry["gone"]}
    new = {cell: identity for identity, entry in tries.items() if identity in acks for cell in entry["new"]}
    files = {node: open_file(directory, node) for node in nodes}
    first = rows_of(files[nodes[0]])
    conflicts = 0
    for node, db in files.items():
        rows = rows_of(db)
        if rows != first:
            difference = sorted(set(map(str, rows)) ^ set(map(str, first)))
            fail(f"{node} and {nodes[0]} show different rows: {difference[:6]}")
        for check, wanted in (("PRAGMA integrity_check", [("ok",)]), ("PRAGMA foreign_key_check", [])):
            found = db.execute(check).fetchall()
            if found != wanted:
                fail(f"{node}: {check}: {found[:3]}")
        held = db.execute("SELECT count(*) FROM tide_replica_quarantine").fetchone()[0]
        if held:
            fail(f"{node} holds {held} events")
        state, listed = cells_of(db), listed_in(db)
        conflicts = len(listed)
        for cell, identity in new.items():
            if cell not in gone and cell not in state and cell not in listed:
                fail(f"{node} has lost '{cell}' of transaction {identity}")
    print(f"{len(acks)} transactions acknowledged, {len(tries) - len(acks)} unknown, {len(new)} values, "
          f"{len(first)} rows, {conflicts} values listed as lost")
    if len(acks) < 50 or not first:
        fail(f"only {len(acks)} transactions, {len(first)} rows")
    if failures:
        sys.exit("\n".join(failures[:20]))


main()
