"""replica-capture: the triggers and schemas that node b has recorded of an application's tables.
The other side is the application's tables and triggers, in the same file. Contact is the look at
the file before every sync."""

import signal
import sqlite3
import subprocess
import sys

from frame import processes
from frame.replica_world import SYNCS, TABLE, Node, Pair
from frame.table import Mark, cannot, cell

SMALL_DISK = 24 << 20
LOOKED = r"tidemark_replica_(capture|table_|lost|repaired|pushed)"
OLD = f"{TABLE}_old"
ONE_FILE = "an application's tables and what is recorded of them are in one file"

# An application that opens a transaction, writes, prints a line and waits for its end.
WRITER = """
import sqlite3, sys, time
connection = sqlite3.connect(sys.argv[1], timeout=30, isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
connection.execute("INSERT INTO todos VALUES(?, ?)", (sys.argv[2], sys.argv[3]))
if sys.argv[4] == "commit":
    connection.execute("COMMIT")
print("written", flush=True)
time.sleep(600)
"""


def writer(g, node, key, title, end, environment=None):
    """The application as a process: it has written, and waits with its transaction open, or after
    COMMIT."""
    process = processes.Process([sys.executable, "-c", WRITER, node.path, key, title, end],
                                g.path(g.new_name("writer")), environment or g.environment)
    process.wait_for_out("^written$")
    return process


def rebuilt(g, w, statements, expected):
    """The table is made anew without its triggers; b finds out, and a shows the same."""
    w.begin_fault(w.peer, TABLE)
    w.b.sql(*statements)
    w.noticed(LOOKED, log=TABLE)
    g.healed(lambda: w.b.rows() == expected and w.a.rows() == expected,
             "both nodes show what the application left", 20)
    g.data(w.b.rows() == expected, f"the application's table was changed: {w.b.rows()}")
    g.answers(TABLE in str(w.b.status()["tables"]), "status does not list the table")
    w.heals()
    return g.verdict_of(w.contact())


@cell("replica-capture", "other-older", "continues")
def other_older(g):
    """The application puts an older copy of its table in place: rows and schema, no triggers."""
    w = Pair(g, check=False)
    expected = w.b.rows()
    w.b.sql(f"CREATE TABLE {OLD}(id TEXT PRIMARY KEY NOT NULL, title TEXT)",
            f"INSERT INTO {OLD} SELECT * FROM {TABLE}")
    w.b.write("r0", "changed after the copy")
    w.b.write("new", "made after the copy")
    w.b.remove("r1")
    w.wait_equal()
    return rebuilt(g, w, (f"DROP TABLE {TABLE}", f"ALTER TABLE {OLD} RENAME TO {TABLE}"), expected)


@cell("replica-capture", "this-older", "continues")
def this_older(g):
    """The record is from before a migration: the application has added a column and filled it."""
    w = Pair(g)
    w.begin_fault(w.peer, TABLE)
    w.b.sql(f"ALTER TABLE {TABLE} ADD COLUMN due TEXT", f"UPDATE {TABLE} SET due = 'soon'")
    w.noticed(LOOKED, log=TABLE)
    w.a.sql(f"ALTER TABLE {TABLE} ADD COLUMN due TEXT")

    def due():
        connection = w.a.connect()
        try:
            return connection.execute(f"SELECT count(*) FROM {TABLE} WHERE due = 'soon'"
                                      ).fetchone()[0]
        finally:
            connection.close()

    g.healed(lambda: due() == 3, "the new column has its values at the peer", 20)
    w.heals()
    w.note()
    return g.verdict_of(w.contact())


@cell("replica-capture", "this-older", "continues", variant="rebuilt",
      mark=Mark("replica", "heal: both nodes show what the application left",
                "data: the application's table was changed"))
def this_older_rebuilt(g):
    """Between two looks the application writes, rebuilds its table (copy, drop, rename: the way of
    migrations), and writes again, unseen. The table is the truth."""
    w = Pair(g, check=False)
    w.begin_fault(w.peer, TABLE)
    w.b.daemon.pause()
    w.b.sql(f"UPDATE {TABLE} SET title = 'captured' WHERE id = 'r0'",
            f"INSERT INTO {TABLE} VALUES('new', 'captured'), ('gone', 'captured')",
            f"DELETE FROM {TABLE} WHERE id = 'r1'")
    w.b.sql(f"CREATE TABLE {OLD}(id TEXT PRIMARY KEY NOT NULL, title TEXT)",
            f"INSERT INTO {OLD} SELECT * FROM {TABLE}", f"DROP TABLE {TABLE}",
            f"ALTER TABLE {OLD} RENAME TO {TABLE}")
    w.b.sql(f"UPDATE {TABLE} SET title = 'unseen' WHERE id = 'r0'",
            f"DELETE FROM {TABLE} WHERE id = 'gone'",
            f"INSERT INTO {TABLE} VALUES('r1', 'unseen'), ('late', 'unseen')")
    expected = w.b.rows()
    w.b.daemon.resume()
    w.noticed(LOOKED, log=TABLE)
    g.healed(lambda: w.b.rows() == expected and w.a.rows() == expected,
             "both nodes show what the application left", 20)
    g.data(w.b.rows() == expected, f"the application's table was changed: {w.b.rows()}")
    w.heals()
    return g.verdict_of(w.contact())


@cell("replica-capture", "other-wiped", "continues")
def other_wiped(g):
    """The application drops the table, and makes it again later. What it wrote before goes out."""
    w = Pair(g, check=False)
    w.begin_fault(w.peer, TABLE, may_vanish=True)
    w.net.refuse()
    w.b.write("last", "before the table was dropped")
    w.b.sql(f"DROP TABLE {TABLE}")
    w.net.allow()
    w.noticed(LOOKED, log=TABLE)
    g.healed(lambda: w.a.title("last") == "before the table was dropped",
             "what was written before the table was dropped has reached the peer", 20)
    ended = w.contact()
    g.answers(TABLE in ended.err, f"sync does not report the dropped table: {ended}")
    w.b.sql(f"CREATE TABLE {TABLE}(id TEXT PRIMARY KEY NOT NULL, title TEXT)")
    w.b.sql(f"INSERT INTO {TABLE} VALUES('again', 'of the new table')")
    g.healed(lambda: w.a.title("again") == "of the new table" and w.are_equal(),
             "the table that came back is captured", 20)
    return g.verdict_of(ended)


@cell("replica-capture", "other-copied", "continues")
def other_copied(g):
    """Another table of the same schema takes the place of the tracked one."""
    w = Pair(g, check=False)
    w.b.sql("CREATE TABLE others(id TEXT PRIMARY KEY NOT NULL, title TEXT)",
            "INSERT INTO others VALUES('r0', 'another'), ('z', 'of others')")
    return rebuilt(g, w, (f"DROP TABLE {TABLE}", f"ALTER TABLE others RENAME TO {TABLE}"),
                   [("r0", "another"), ("z", "of others")])


cannot("replica-capture", "promoted",
       "a node is a SQLite file: there is no standby that could be promoted")
cannot("replica-capture", "away-before", ONE_FILE + ": neither can be away from the other")


@cell("replica-capture", "away-during", "continues", effect="none",
      reason="a write and its captured change are one transaction, which SQLite undoes")
def away_during(g):
    """The application is killed inside its transaction."""
    w = Pair(g)
    w.begin_fault()
    one = writer(g, w.b, "open", "of a killed application", "keep open")
    one.kill()
    w.heals()
    g.data(w.b.title("open") is None and w.a.title("open") is None,
           "a transaction that was not committed is there")
    w.note()
    return g.verdict_of(w.contact())


@cell("replica-capture", "hung", "refuses exit 6", effect="holds", limit=180)
def hung(g):
    """The application hangs inside its transaction: nothing can be captured or applied."""
    w = Pair(g)
    w.begin_fault()
    one = writer(g, w.b, "open", "of a hung application", "keep open")
    one.pause()
    w.a.write("meanwhile", "of a")
    command = g.start("replica", "sync", w.b.path, w.peer, environment=w.b.environment)
    w.noticed(SYNCS, log="busy|lock|" + w.peer)
    ended = g.ended(command, 60)
    g.answers("lock" in ended.err or "busy" in ended.err,
              f"sync does not report that the file is locked: {ended}")
    g.end_fault()
    one.resume()
    one.kill()
    w.heals()
    w.note()
    return g.verdict_of(ended)


@cell("replica-capture", "answer-lost", "continues", effect="none",
      reason="the captured change is part of what was committed, and goes out from the file")
def answer_lost(g):
    """The application is killed behind its COMMIT, before it knows of it."""
    w = Pair(g)
    call = g.history.call("killed", "transaction", node="b", value="killed",
                          new=[f"{TABLE}|'open'|title|text:'of a killed application'"], gone=[])
    w.begin_fault()
    one = writer(g, w.b, "open", "of a killed application", "commit")
    one.send(signal.SIGKILL)
    call.unknown()
    g.healed(lambda: w.a.title("open") is not None, "what was committed reaches the peer", 20)
    w.heals()
    w.note()
    return g.verdict_of(w.contact())


@cell("replica-capture", "disk-full", "refuses exit 6", effect="holds",
      mark=Mark("replica", "verdict: refuses exit 7"))
def disk_full(g):
    """The disk of b is full: a write of the application is refused with its captured change."""
    w = Pair(g, b=Node(g, "b", disk_size=SMALL_DISK))
    w.begin_fault()
    w.b.disk.fill()
    for number in range(200):
        try:
            w.b.write(f"large{number}", "x" * 20_000)
        except sqlite3.OperationalError:
            break
    else:
        g.require(False, "a full disk refuses writes")
    g.data(w.b.title(f"large{number}") is None, "a refused write is there")
    w.noticed(SYNCS, log="full")
    ended = w.contact()
    g.answers("full" in ended.err, f"sync does not report the full disk: {ended}")
    g.end_fault()
    w.b.disk.free()
    w.heals()
    w.note()
    return g.verdict_of(ended)


def clock(g, hours):
    """The clock of the application's process is wrong; it overwrites what it has seen."""
    w = Pair(g)
    w.a.write("both", "of a")
    w.wait_equal()
    w.begin_fault()
    skewed = g.clock(hours).environment(g.environment)
    script = ("import sqlite3, sys\nc = sqlite3.connect(sys.argv[1], timeout=30)\n"
              "with c: c.execute(\"UPDATE todos SET title = 'of b, later' WHERE id = 'both'\")\n")
    call = g.history.call("skewed", "transaction", node="b", value="skewed",
                          new=[f"{TABLE}|'both'|title|text:'of b, later'"],
                          gone=[f"{TABLE}|'both'|title|text:'of a'"])
    subprocess.run([sys.executable, "-c", script, w.b.path], env=skewed, check=True)
    call.ok()
    g.healed(lambda: w.a.title("both") == "of b, later", "the later write is shown at the peer", 20)
    w.heals()
    w.note()
    return g.verdict_of(w.contact())


@cell("replica-capture", "clock-ahead", "continues", effect="none",
      reason="a change gets its timestamp from the node, no later than the node's own time")
def clock_ahead(g):
    return clock(g, 1)


@cell("replica-capture", "clock-behind", "continues", effect="none",
      reason="a change gets a timestamp above every one that its node has seen")
def clock_behind(g):
    return clock(g, -1)
