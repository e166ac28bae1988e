"""lake-files: what the metabase knows of the files of its data directory. The other side is the
files. They meet when a table is read, when rows are appended, in clean-up and in verify."""

import os
import shutil
import sqlite3

from frame.lake_faults import NO_LOG
from frame.lake_world import CATALOG, FAILED, TABLE, PostgresLake, SqliteLake
from frame.table import Mark, cannot, cell

UNSEEN = (NO_LOG, "alert: no shipped rule fires", "answer: lake verify reports nothing")
AWAY = (NO_LOG, "alert: no shipped rule fires", "answer: /readyz does not report")
SMALL_DISK = 8 << 20


def missing(g, w, damage, heal):
    """Files that the metabase names are gone: reads are refused and name the file."""
    w.begin_fault(CATALOG)
    damage()
    read = w.numbers()
    answer = w.refusal
    g.data(read is None, f"a table without its files is read: {read}")
    g.answers(".parquet" in answer.text, f"the refusal does not name the file: {answer}")
    ended = w.verify()
    g.answers(ended.code == 8, "lake verify reports nothing")
    w.noticed(FAILED, log="parquet|data file|data directory")
    g.end_fault()
    heal()
    g.healed(lambda: w.numbers() is not None, "the table can be read", 20)
    w.note([1, 2, 3, 4])
    return g.verdict_of(answer)


@cell("lake-files", "other-older", "refuses E_DAMAGED", effect="loses",
      mark=Mark("lake", *UNSEEN, "verdict: refuses E_IO"))
def other_older(g):
    """The directory is restored from a backup that does not have the newest file."""
    w = SqliteLake(g)
    shutil.copytree(w.data, g.path("old-files"))
    w.must_append([4])
    shutil.copytree(w.data, g.path("new-files"))

    def put(source):
        shutil.rmtree(w.data)
        shutil.copytree(g.path(source), w.data)

    return missing(g, w, lambda: put("old-files"), lambda: put("new-files"))


@cell("lake-files", "this-older", "refuses exit 4")
def this_older(g):
    """The metabase is restored: files that it does not name are not removed before it is said that
    it is the one in use."""
    w = SqliteLake(g)
    w.backup()
    w.must_append([4])
    files = w.files()
    w.begin_fault(w.data, CATALOG, may_vanish=True)
    w.restore()
    ended = w.lake("cleanup", "--orphans", "--grace", "0s")
    g.answers(w.data in ended.err and "--force" in ended.err,
              f"the message does not say what to do: {ended}")
    g.data(w.files() == files, "files of the newer metabase were removed")
    w.noticed(FAILED + "|tidemark_store_", log="epoch|restored|" + w.data)
    g.healed(lambda: w.append([5]).is_ok, "the restored metabase takes appends", 10)
    g.data(w.numbers() == [1, 2, 3, 5], f"the table has {w.numbers()}")
    return g.verdict_of(ended)


@cell("lake-files", "other-wiped", "refuses E_DAMAGED", effect="loses",
      mark=Mark("lake", *UNSEEN, "verdict: refuses E_IO"))
def other_wiped(g):
    """All files are gone, and the mark of their owner with them: clean-up refuses, too."""
    w = SqliteLake(g)
    w.must_append([4])
    shutil.copytree(w.data, g.path("kept"))

    def damage():
        shutil.rmtree(w.data)
        os.mkdir(w.data)
        ended = w.lake("cleanup")
        g.answers(ended.code == 3 and w.data in ended.err,
                  f"cleanup does not refuse a directory without an owner: {ended}")

    def heal():
        shutil.rmtree(w.data)
        shutil.copytree(g.path("kept"), w.data)

    return missing(g, w, damage, heal)


@cell("lake-files", "other-copied", "refuses E_DAMAGED", effect="loses",
      mark=Mark("lake", *UNSEEN, "verdict: refuses E_IO"))
def other_copied(g):
    """The directory becomes a copy of that of another lake: clean-up leaves it alone."""
    other = SqliteLake(g, name="other.db")
    other.serve.stop()
    w = SqliteLake(g)
    w.must_append([4])
    shutil.copytree(w.data, g.path("kept"))

    def damage():
        shutil.rmtree(w.data)
        shutil.copytree(other.data, w.data)
        files = w.files()
        ended = w.lake("cleanup", "--orphans", "--grace", "0s")
        g.answers(ended.code == 4, f"cleanup does not refuse files of another lake: {ended}")
        g.data(w.files() == files, "files of another lake were removed")

    def heal():
        shutil.rmtree(w.data)
        shutil.copytree(g.path("kept"), w.data)

    return missing(g, w, damage, heal)


@cell("lake-files", "promoted", "refuses exit 4")
def promoted(g):
    """After a failover clean-up asks first whether this metabase is the one in use."""
    w = PostgresLake(g, standby=True)
    w.must_append([4])
    files = w.files()
    w.begin_fault(CATALOG)
    w.fail_over()
    ended = w.lake("cleanup", "--orphans", "--grace", "0s")
    g.answers("--force" in ended.err, f"the message does not say what to do: {ended}")
    g.data(w.files() == files, "files were removed by a metabase that failed over")
    w.noticed("tidemark_store_(epoch|session)", log="epoch|failover|promoted")
    g.healed(lambda: w.append([5]).is_ok, "appends succeed", 20)
    w.note([1, 2, 3, 4, 5])
    return g.verdict_of(ended)


def away(g, w, verdict_of):
    w.begin_fault(CATALOG)
    os.rename(w.data, w.data + ".away")
    answer = verdict_of(w)
    g.data(not os.path.exists(w.data), "a directory was made in the place of the one that is away")
    w.noticed(FAILED, log="parquet|data directory|" + w.data, told=w.unready())
    g.end_fault()
    shutil.rmtree(w.data, ignore_errors=True)
    os.rename(w.data + ".away", w.data)
    return answer


@cell("lake-files", "away-before", "refuses E_UNAVAILABLE", effect="holds",
      mark=Mark("lake", *AWAY, "verdict: refuses E_IO"))
def away_before(g):
    """The directory is not mounted."""
    w = SqliteLake(g)
    answer = away(g, w, lambda w: w.append([4], key="once"))
    g.healed(lambda: w.append([4], key="once").is_ok, "the append succeeds", 20)
    w.note([1, 2, 3, 4])
    return g.verdict_of(answer)


@cell("lake-files", "away-during", "refuses exit 6", effect="holds",
      mark=Mark("lake", *AWAY, "verdict: refuses exit 3"))
def away_during(g):
    """The directory goes away while a writer has its rows half read."""
    w = SqliteLake(g)
    os.mkfifo(g.path("rows.csv"))
    command = g.start("lake", "table", "append", TABLE, g.path("rows.csv"), "--format", "csv",
                      store=w.direct_url)
    pipe = open(g.path("rows.csv"), "w", encoding="utf-8")
    pipe.write("a,b\n")
    pipe.flush()
    g.wait(lambda: pins(w) > 0, 20, "the writer has begun")

    def go_on(w):
        pipe.write("4,row 4\n")
        pipe.close()
        return g.ended(command)

    ended = away(g, w, go_on)
    g.answers(ended.code != 0 and ended.err.strip(), f"the append reports nothing: {ended}")
    g.healed(lambda: w.append([5]).is_ok, "appends succeed", 20)
    w.note([1, 2, 3, 5])
    return g.verdict_of(ended)


def pins(w):
    connection = sqlite3.connect(w.url, timeout=30)
    try:
        return connection.execute("SELECT count(*) FROM lake_pin").fetchone()[0]
    finally:
        connection.close()


cannot("lake-files", "hung", "files are no process: a file system cannot be stopped by a signal")
cannot("lake-files", "answer-lost", "a file system has no answers that could be lost: a write to a "
       "directory has ended or the process has died")


@cell("lake-files", "disk-full", "refuses E_FULL", effect="holds",
      mark=Mark("lake", *AWAY))
def disk_full(g):
    """The disk of the files is full, that of the metabase is not."""
    w = SqliteLake(g)
    shutil.move(w.data, g.path("moved"))
    small = g.disk(SMALL_DISK, os.path.basename(w.data))
    shutil.copytree(g.path("moved"), w.data, dirs_exist_ok=True)
    g.require(w.numbers() == [1, 2, 3], "the files are on the small disk")
    files = w.files()
    w.begin_fault(CATALOG)
    small.fill()
    answer = w.append([4], key="once")
    w.noticed(FAILED, log="full|space", told=w.unready())
    g.data(w.files() == files, "a refused append leaves files")
    g.end_fault()
    small.free()
    g.healed(lambda: w.append([4], key="once").is_ok, "the append succeeds", 20)
    w.note([1, 2, 3, 4])
    return g.verdict_of(answer)


def clock(g, hours):
    """Clean-up with the clock of the metabase wrong: nothing that is needed is removed."""
    w = SqliteLake(g, hours=0)
    w.must_append([4])
    files = w.files()
    w.begin_fault(CATALOG)
    w.clock.set(hours)
    ended = w.lake("cleanup", "--orphans")
    g.data(w.files() == files, "files were removed that a snapshot needs")
    w.must_append([5])
    w.note([1, 2, 3, 4, 5])
    return g.verdict_of(ended)


@cell("lake-files", "clock-ahead", "continues", effect="none",
      reason="files that no snapshot names are kept for 24 hours by the clock of the file system")
def clock_ahead(g):
    return clock(g, 1)


@cell("lake-files", "clock-behind", "continues", effect="none",
      reason="files that no snapshot names are kept for 24 hours: an hour more does no harm")
def clock_behind(g):
    return clock(g, -1)
