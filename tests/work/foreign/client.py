"""A foreign client of a Tidemark store: Python's own sqlite3 and nothing of ours.

Each case gets a fresh copy of a store that the program under test has made, and connections of its own. A case is a
function; @case makes it one. run(argv) runs them all, or those named, and tells which failed.

Environment: TIDEMARK_BIN, the program; TMPDIR, where the files go.
"""

import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import traceback

CASES = []


def case(*switches):
    """Register a case, run once per combination of connection settings given."""

    def register(function):
        for setting in switches or [{}]:
            CASES.append((function, setting))
        return function

    return register


# Foreign keys and recursive triggers are the client's choice; the promises hold with any.
EVERY_SETTING = [
    {"foreign_keys": keys, "recursive_triggers": recursive} for keys in (0, 1) for recursive in (0, 1)
]


# A checkpoint of the task "task-1": id, type, number.
ADD_CHECKPOINT = ("INSERT INTO checkpoints (checkpoint_id, task_id, checkpoint_type, sequence_number, snapshot_data) "
       "VALUES (?, 'task-1', ?, ?, '{}')")


class Client:
    """One store, and a connection to it in autocommit mode."""

    def __init__(self, path, setting):
        self.path = path
        self.setting = setting
        self.db = self.connect()

    def connect(self):
        db = sqlite3.connect(self.path, isolation_level=None, timeout=10)
        for name, value in self.setting.items():
            db.execute("PRAGMA %s=%d" % (name, value))
        return db

    def run(self, statement, *values):
        """The rows of a statement; how many it changed is in self.changed."""
        cursor = self.db.execute(statement, values)
        rows = cursor.fetchall()
        self.changed = cursor.rowcount
        return rows

    def script(self, script):
        self.db.executescript(script)

    def one(self, statement, *values):
        rows = self.run(statement, *values)
        assert len(rows) == 1, "want one row, got %r: %s" % (rows, statement)
        return rows[0]

    def value(self, statement, *values):
        return self.one(statement, *values)[0]

    def item(self, columns, work_item_id="work-01KG4ABC"):
        return self.one("SELECT %s FROM work_items WHERE work_item_id = ?" % columns, work_item_id)

    def refuse(self, statement, *values, why=None):
        """The store refuses, with its own words (why), and nothing has changed."""
        before = self.fingerprint()
        try:
            self.db.execute(statement, values).fetchall()
        except sqlite3.IntegrityError as error:
            assert why is None or why in str(error), "refused with other words: %s: %s" % (error, statement)
        else:
            raise AssertionError("accepted: %s %r" % (statement, values))
        if self.db.in_transaction:
            self.db.execute("ROLLBACK")
        assert self.fingerprint() == before, "refused, and yet something has changed: " + statement

    def fingerprint(self):
        tables = [row[0] for row in self.db.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")]
        return {table: self.db.execute('SELECT * FROM "%s"' % table).fetchall() for table in tables}

    def pretend_library(self, statement, *values):
        """What a statement of the library looks like to the store: it raises revision."""
        return self.run(statement, *values)


def add_items(client, count=1, task="task-1"):
    client.run("INSERT OR ROLLBACK INTO tasks (task_id, title, status) VALUES (?, 'T', 'running')", task)
    for i in range(1, count + 1):
        client.run("INSERT INTO work_items (work_item_id, task_id, work_type) VALUES (?, ?, 'tool')", "w%d" % i, task)


def claim_by_library(client, work_item_id, token_step=1, minutes=5):
    """A claim as the library makes it."""
    client.pretend_library(
        """UPDATE work_items SET status = 'in_progress', lease_holder = 'lib', lease_via = 'api',
           lease_acquired_at = datetime('now'), heartbeat_at = datetime('now'),
           lease_expires_at = datetime('now', ? || ' minutes'), revision = revision + 1, updated_at = datetime('now'),
           lease_token = max(lease_token + ?, (SELECT (CAST(value AS INTEGER) << 40) + 1 FROM db_metadata
                                               WHERE key = 'epoch'))
           WHERE work_item_id = ?""",
        "%+d" % minutes, token_step, work_item_id)


def make_store(path):
    program = os.environ["TIDEMARK_BIN"]
    environment = dict(os.environ, TIDEMARK_STATE_DIR=os.path.dirname(path))
    subprocess.run([program, "--store", path, "sequence", "next", "made"], check=True, env=environment,
                   stdout=subprocess.DEVNULL)


def run(names):
    failed = 0
    with tempfile.TemporaryDirectory(prefix="tidemark-foreign-") as directory:
        made = os.path.join(directory, "made.db")
        make_store(made)
        for number, (function, setting) in enumerate(CASES):
            if names and function.__name__ not in names:
                continue
            path = os.path.join(directory, "case%d.db" % number)
            shutil.copy(made, path)
            client = Client(path, setting)
            try:
                function(client)
                damage = client.value("PRAGMA integrity_check")
                assert damage == "ok", damage
                assert client.run("PRAGMA foreign_key_check") == [], "a row refers to nothing"
            except Exception:  # a case that fails must not hide the others
                failed += 1
                print("FAILED: %s %s" % (function.__name__, setting))
                traceback.print_exc(file=sys.stdout)
            client.db.close()
            os.unlink(path)
    print("%d cases, %d failed, SQLite %s" % (len(CASES), failed, sqlite3.sqlite_version))
    return 1 if failed else 0
