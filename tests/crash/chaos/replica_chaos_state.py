#!/usr/bin/env python3
"""replica_chaos_state.py DIRECTORY NODE...: what the files of replicas show, as a history for tests/check/convergence.py.

Reads the files by SQL, without any code of ours: rows, values listed as conflicts, and values of rows that a constraint keeps out.
Writes DIRECTORY/history.end.
"""
import json
import os
import sqlite3
import struct
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "check"))
from history import History  # noqa: E402

SCHEMA = {
    "people": (["id"], ["name", "city", "age"]),
    "notes": (["k"], ["owner", "body"]),
    "pairs": (["a", "b"], ["c", "d"]),
}


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


def write_node(history, node, db):
    """Everything that a node shows and lists, and what its file says of itself."""
    begin = time.monotonic_ns()
    rows = [json.dumps(row) for row in rows_of(db)]
    history.found("end", "state", begin, node=node, rows=rows, cells=sorted(cells_of(db)))
    history.found("end", "listed", begin, node=node, cells=sorted(listed_in(db)))
    held = db.execute("SELECT count(*) FROM tide_replica_quarantine").fetchone()[0]
    for name, found, wanted in (
            ("integrity_check", db.execute("PRAGMA integrity_check").fetchall(), [("ok",)]),
            ("foreign_key_check", db.execute("PRAGMA foreign_key_check").fetchall(), []),
            ("no event is held", held, 0)):
        history.call("end", "verify", node=node, name=name, text=str(found)[:200]).end(
            "ok" if found == wanted else "fail")


def main():
    directory, nodes = sys.argv[1], sys.argv[2:]
    history = History(os.path.join(directory, "history.end"))
    for node in nodes:
        write_node(history, node, open_file(directory, node))


main()
