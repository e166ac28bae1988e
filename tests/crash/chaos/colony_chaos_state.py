#!/usr/bin/env python3
"""colony_chaos_state.py URL HISTORY: the tables of a colony, for tests/check/delivery.py.

Reads them through psql: records of the stream "load", spans of the service "chaos", gaps, the
epochs that the colony has met, and its ledgers. Knows nothing else of the program.
"""

import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "check"))
from history import History  # noqa: E402

STREAM = "load"
STATUSES = {"permanent": "lost", "void": "void", "recovered": "recovered"}  # others: pending


def select(url, query):
    done = subprocess.run(
        ["psql", "-X", "-q", "-d", url, "-c", f"COPY ({query}) TO STDOUT"],
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    )
    return [line.split("\t") for line in done.stdout.splitlines()]


def place(source, stream, session, epoch):
    return {"source": source, "stream": stream, "session": session, "epoch": int(epoch)}


def write_rows(url, history):
    columns = "agent_id, session_id, epoch, seq_id"
    for stream, query in (
        (
            STREAM,
            f"SELECT {columns}, convert_from(data, 'UTF8') FROM records "
            f"WHERE data_type = '{STREAM}'",
        ),
        ("telemetry", f"SELECT {columns}, span_id FROM spans WHERE service_name = 'chaos'"),
    ):
        for source, session, epoch, number, value in select(url, query):
            where = place(source, stream, session, epoch)
            history.found("tables", "stored", **where, number=int(number), value=value)


def write_gaps(url, history):
    """Returns numbers of each place by status."""
    sums = {}
    for source, stream, session, epoch, first, last, status, reason in select(
        url,
        "SELECT agent_id, data_type, session_id, epoch, start_seq_id, end_seq_id, status, reason "
        "FROM sequence_gaps",
    ):
        status = STATUSES.get(status, "pending")
        where = place(source, stream, session, epoch)
        history.found(
            "tables",
            "gap",
            **where,
            first=int(first),
            last=int(last),
            status=status,
            reason=reason,
        )
        key = (source, stream, session, epoch, status)
        sums[key] = sums.get(key, 0) + int(last) - int(first) + 1
    return sums


def write_epochs(url, history):
    columns = "agent_id, data_type, session_id, epoch, first_seq_id, head_seq_id"
    for source, stream, session, epoch, first, head in select(
        url,
        f"SELECT {columns} FROM polling_checkpoints UNION ALL "
        f"SELECT {columns} FROM polling_checkpoint_history",
    ):
        where = place(source, stream, session, epoch)
        history.found("tables", "met", **where, first=int(first), head=int(head))


def write_ledgers(url, history, sums):
    """Pending is what is held back, what is owed in open gaps, and what was not read yet."""
    for (
        source,
        stream,
        session,
        epoch,
        first,
        highest,
        head,
        held,
        stored,
        dead,
        filtered,
    ) in select(
        url,
        "SELECT agent_id, data_type, session_id, epoch, first_seq_id, highest_seq_id, head_seq_id, "
        "held, stored, dead, filtered FROM polling_checkpoints WHERE closed_at IS NULL",
    ):
        key = (source, stream, session, epoch)
        first = max(1, int(first))
        head = max(int(head), first - 1)
        history.found(
            "tables",
            "ledger",
            **place(*key),
            first=first,
            head=head,
            stored=int(stored),
            dead=int(dead),
            filtered=int(filtered),
            void=sums.get(key + ("void",), 0),
            lost=sums.get(key + ("lost",), 0),
            pending=int(held) + sums.get(key + ("pending",), 0) + max(0, head - int(highest)),
            partial=stream != STREAM,
        )


def main():
    url, path = sys.argv[1:3]
    history = History(path)
    write_rows(url, history)
    sums = write_gaps(url, history)
    write_epochs(url, history)
    write_ledgers(url, history, sums)


main()
