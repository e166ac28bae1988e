"""schema-version: the migrations that the program knows. The other side is the store, with those
that were applied to it. They are compared when a store is opened; contact is the start of `tidemark
serve`, and its first write."""

import glob
import os
import re
import sqlite3

from frame import proxy
from frame.grid import WORK
from frame.store_world import Postgres, Sqlite
from frame.table import cell

NOT_STARTED = "serve does not start, and cannot be scraped: its message is all there is"
SMALL_DISK = 8 << 20
SQL = os.path.join(os.path.dirname(__file__), "..", "..", "..", "sql")


def sql(path, *statements):
    connection = sqlite3.connect(path, timeout=30)
    try:
        with connection:
            for statement in statements:
                connection.execute(statement)
    finally:
        connection.close()


def newest_migration():
    """Number and SQLite text of the newest migration of a store (those of catalogs have versions of
    their own, 1.x)."""
    found = {}
    for path in glob.glob(os.path.join(SQL, "*_schema.sql")):
        with open(path, encoding="utf-8") as file:
            for block in re.split(r"(?m)^(?=-- (?:migration|statement):)", file.read()):
                head = re.match(r"-- migration: (\d+)  version: 0\.\S+  .*engine: sqlite\n", block)
                if head:
                    found[int(head.group(1))] = re.sub(r"(?m)--.*$", "", block[head.end():])
    return max(found.items())


NEWEST, NEWEST_TEXT = newest_migration()


def make_older(path):
    """Undo the newest migration: the store is as an older program made it. What it replaces (DROP,
    then CREATE) may stay."""
    kept = set(re.findall(r"(?m)^DROP \w+ (\w+)", NEWEST_TEXT))
    made = re.findall(r"(?m)^CREATE (?:UNIQUE )?(TABLE|INDEX|TRIGGER) (\w+)", NEWEST_TEXT)
    added = re.findall(r"(?m)^ALTER TABLE (\w+) ADD COLUMN (\w+)", NEWEST_TEXT)
    order = {"TRIGGER": 0, "INDEX": 1, "TABLE": 2}
    sql(path,
        *[f"DROP {kind} IF EXISTS {name}" for kind, name in sorted(made, key=lambda m: order[m[0]])
          if name not in kept],
        *[f"ALTER TABLE {table} DROP COLUMN {column}" for table, column in reversed(added)],
        f"DELETE FROM schema_version WHERE number >= {NEWEST}")


def newer_statements():
    return ("INSERT INTO schema_version(version, number, name, checksum, applied_at) "
            "SELECT '99.0.0', 9999, 'of a newer program', checksum, applied_at FROM schema_version "
            "WHERE number = 1",)


def has_newest(path):
    connection = sqlite3.connect(path, timeout=30)
    try:
        return connection.execute(
            f"SELECT count(*) FROM schema_version WHERE number = {NEWEST}").fetchone()[0] == 1
    finally:
        connection.close()


def start_once(w, limit=60):
    """tidemark serve, when it does not stay: how it ended."""
    return w.g.tidemark("serve", "--listen", "127.0.0.1:0", store=w.url, limit=limit)


def is_well(w):
    return w.call(WORK + "CreateTask", {"title": "after"}).is_ok


def write(w, title="before"):
    return w.must_call(WORK + "CreateTask", {"title": title})["task_id"]


def is_kept(w, task):
    return w.call(WORK + "GetTask", {"task_id": task}).is_ok


@cell("schema-version", "other-older", "continues", effect="none",
      reason="a newer program migrates an older store in one transaction when it opens it")
def other_older(g):
    w = Sqlite(g)
    task = write(w)
    w.begin_fault(w.url)
    w.serve.stop()
    make_older(w.url)
    w.serve.restart()
    g.data(has_newest(w.url), "the store was not migrated")
    g.data(is_kept(w, task), "a task of the older store is lost")
    return g.verdict_of(w.call(WORK + "CreateTask", {"title": "after"}))


@cell("schema-version", "this-older", "refuses exit 1", quick=True)
def this_older(g):
    """The store was migrated by a newer program."""
    w = Sqlite(g)
    task = write(w)
    g.without_daemon(NOT_STARTED)
    w.begin_fault(w.url, may_vanish=True)
    w.serve.stop()
    sql(w.url, *newer_statements())
    ended = start_once(w)
    g.answers("99.0.0" in ended.err and w.url in ended.err,
              f"the message does not name store and schema: {ended}")
    sql(w.url, "DELETE FROM schema_version WHERE number = 9999")
    w.serve.restart()
    g.healed(lambda: is_well(w) and is_kept(w, task), "the program that knows it goes on", 10)
    return g.verdict_of(ended)


@cell("schema-version", "this-older", "continues", effect="none", variant="running",
      reason="the layout is compared when a store is opened; an upgrade stops every process first")
def this_older_running(g):
    """A newer program migrates the store under a running one, against the manual."""
    w = Sqlite(g)
    w.begin_fault(w.url)
    sql(w.url, *newer_statements())
    answer = w.call(WORK + "CreateTask", {"title": "after"})
    ended = g.tidemark("task", "ls", store=w.url)
    g.data(ended.code != 0 and "99.0.0" in ended.err,
           f"a command opens a store that it does not know: {ended}")
    return g.verdict_of(answer)


@cell("schema-version", "other-wiped", "continues", effect="none",
      reason="an empty store gets the layout of the program; identity-marker has the loss")
def other_wiped(g):
    w = Sqlite(g)
    write(w)
    w.begin_fault(w.url, may_vanish=True)
    w.wipe()
    g.data(has_newest(w.url), "the new store does not have the program's layout")
    return g.verdict_of(w.call(WORK + "CreateTask", {"title": "after"}))


@cell("schema-version", "other-copied", "refuses exit 1")
def other_copied(g):
    """The store becomes a copy of another program's database, which counts its own versions."""
    w = Sqlite(g)
    w.backup()
    foreign = g.path("foreign.db")
    sql(foreign, "CREATE TABLE schema_version(id INTEGER PRIMARY KEY, at TEXT)",
        "INSERT INTO schema_version VALUES(1, 'now')")
    with open(foreign, "rb") as file:
        before = file.read()
    g.without_daemon(NOT_STARTED)
    w.begin_fault(w.url, may_vanish=True)
    w.serve.stop()
    g.put_file(foreign, w.url)
    ended = start_once(w)
    g.answers(w.url in ended.err, f"the message does not name the store: {ended}")
    with open(w.url, "rb") as file:
        g.data(file.read() == before, "a database of another program was changed")
    g.put_file(w.backup_path, w.url)
    w.serve.restart()
    g.healed(lambda: is_well(w), "the store takes new work", 10)
    return g.verdict_of(ended)


@cell("schema-version", "promoted", "continues", effect="none",
      reason="the list of migrations is a table like others, and the standby has it")
def promoted(g):
    w = Postgres(g, standby=True)
    task = write(w)
    w.begin_fault()
    w.serve.stop()
    w.fail_over()
    w.serve.restart()
    g.data(is_kept(w, task), "a task is lost")
    return g.verdict_of(w.call(WORK + "CreateTask", {"title": "after"}))


@cell("schema-version", "away-before", "refuses exit 6")
def away_before(g):
    """PostgreSQL is away when the store is opened."""
    w = Postgres(g)
    g.without_daemon(NOT_STARTED)
    w.begin_fault()
    w.serve.stop()
    w.away()
    ended = start_once(w)
    g.answers(str(w.net.port) in ended.err, f"the message does not name the server: {ended}")
    w.back()
    w.serve.restart()
    g.healed(lambda: is_well(w), "the store takes new work", 10)
    return g.verdict_of(ended)


@cell("schema-version", "away-during", "refuses exit 6")
def away_during(g):
    """PostgreSQL crashes while an empty store gets its layout: all of it is there, or nothing."""
    w = Postgres(g, start=False)
    g.without_daemon(NOT_STARTED)
    w.g.begin_fault([], ("postgres",))
    command = g.start("serve", "--listen", "127.0.0.1:0", store=w.url)
    g.wait(lambda: "schema_version" in w.server.sql(
        "SELECT coalesce(string_agg(query, ' '), '') FROM pg_stat_activity") or
        not command.is_running, 20, "the migration has begun")
    w.away()
    ended = g.ended(command)
    g.answers(str(w.net.port) in ended.err, f"the message does not name the server: {ended}")
    w.back()
    w.start_serve()
    g.healed(lambda: is_well(w), "the store takes new work", 20)
    return g.verdict_of(ended)


@cell("schema-version", "hung", "refuses exit 6", limit=240)
def hung(g):
    """PostgreSQL accepts connections and answers nothing when the store is opened."""
    w = Postgres(g)
    g.without_daemon(NOT_STARTED)
    w.begin_fault()
    w.serve.stop()
    w.hang()
    command = g.start("serve", "--listen", w.serve.address, store=w.url)
    ended = g.ended(command, 45)
    g.answers(str(w.net.port) in ended.err, f"the message does not name the server: {ended}")
    w.unhang()
    w.serve.restart()
    g.healed(lambda: is_well(w), "the store takes new work", 20)
    return g.verdict_of(ended)


@cell("schema-version", "answer-lost", "continues", effect="none",
      reason="the layout is there; serve looks again, or is started again by its supervisor")
def answer_lost(g):
    """The answer to the COMMIT of the migrations is lost."""
    w = Postgres(g, start=False)
    g.begin_fault([], ("postgres",))
    w.net.lose_answer(proxy.PG_COMMITTED, True, False, b"CREATE TABLE")
    command = g.start("serve", "--listen", "127.0.0.1:0", store=w.url)
    g.wait(w.net.lost.is_set, 30, "an answer was lost")
    g.wait(lambda: not command.is_running or "ready" in command.out(), 60, "serve starts or ends")
    if command.is_running:
        command.stop()
    w.start_serve()
    return g.verdict_of(w.call(WORK + "CreateTask", {"title": "after"}))


@cell("schema-version", "disk-full", "refuses exit 6")
def disk_full(g):
    """There is no room for the migration of an older store: it stays as it was."""
    w = Sqlite(g, disk_size=SMALL_DISK)
    task = write(w)
    g.without_daemon(NOT_STARTED)
    w.begin_fault(w.url)
    w.serve.stop()
    make_older(w.url)
    w.disk.fill()
    ended = start_once(w)
    g.answers("full" in ended.err or "space" in ended.err,
              f"the message does not name the cause: {ended}")
    w.disk.free()
    g.data(not has_newest(w.url), "a refused migration is there")
    w.serve.restart()
    g.healed(lambda: is_well(w) and is_kept(w, task), "the store takes new work", 10)
    g.data(has_newest(w.url), "the store was not migrated")
    return g.verdict_of(ended)


def clock(g, hours):
    w = Sqlite(g, hours=0)
    task = write(w)
    w.begin_fault(w.url)
    w.serve.stop()
    make_older(w.url)
    w.clock.set(hours)
    w.serve.restart()
    g.data(is_kept(w, task) and has_newest(w.url), "the store was not migrated, or lost a task")
    return g.verdict_of(w.call(WORK + "CreateTask", {"title": "after"}))


@cell("schema-version", "clock-ahead", "continues", effect="none",
      reason="migrations are compared by number and digest; their time is for people")
def clock_ahead(g):
    return clock(g, 1)


@cell("schema-version", "clock-behind", "continues", effect="none",
      reason="migrations are compared by number and digest; their time is for people")
def clock_behind(g):
    return clock(g, -1)
