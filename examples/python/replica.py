#!/usr/bin/env python3
"""replica.py DB PEER WHO - an application with a SQLite file of its own, which shares its table with others.

    tidemark replica serve other.db --listen 127.0.0.1:4321 &       # any node; ready grpc=127.0.0.1:4321
    ./replica.py notes.db 127.0.0.1:4321 ann

The application writes plain SQL and knows nothing of replication: triggers log its changes in its own transactions.
"""

import json
import os
import sqlite3
import subprocess
import sys
import time

TIDEMARK = os.environ.get("TIDEMARK", "tidemark")
UNAVAILABLE = 6  # exit codes: docs/reference/errors.md


def tidemark(*arguments):
    return subprocess.run([TIDEMARK, *arguments], stdout=subprocess.PIPE, encoding="utf-8", check=False)


def write(path, who):
    connection = sqlite3.connect(path, timeout=10)
    # Keys that no two nodes make: an INTEGER PRIMARY KEY counted up on each of them would name different notes alike.
    connection.execute("CREATE TABLE IF NOT EXISTS notes (id TEXT NOT NULL PRIMARY KEY, author TEXT, text TEXT)")
    tidemark("replica", "track", path, "notes").check_returncode()  # again: nothing, or triggers are put right
    with connection:  # one transaction here is one transaction at the peers
        for number in range(1, 4):
            connection.execute(
                "INSERT INTO notes VALUES (?, ?, ?) ON CONFLICT (id) DO UPDATE SET text = excluded.text",
                (f"{who}-{number}", who, f"note {number} of {who}"),
            )
    connection.close()


def sync(path, peer):
    """0 means proven: everything that either side had when it began is at both. Otherwise nothing is lost: it goes on next time."""
    for attempt in range(5):
        result = tidemark("replica", "sync", path, peer, "--json")
        if result.returncode != UNAVAILABLE:
            result.check_returncode()
            return json.loads(result.stdout.splitlines()[-1])
        time.sleep(0.1 * 2**attempt)
    sys.exit(f"{peer} is away; changes stay in the log until it is back")


def main(path, peer, who):
    write(path, who)
    told = sync(path, peer)
    print(f"pulled {told['pulled']} pushed {told['pushed']}")
    connection = sqlite3.connect(path)
    for author, count in connection.execute("SELECT author, count(*) FROM notes GROUP BY author ORDER BY author"):
        print(f"{author}: {count} notes")
    connection.close()
    # Each column goes to its last writer; what lost is kept for people.
    for line in tidemark("replica", "conflicts", path, "--json").stdout.splitlines():
        print("conflict", line)


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
