"""lake-pin: the snapshots that readers have in use, as the metabase keeps them. The other side is a
reader, a query under way. Contact is expiry with clean-up, which ask for live pins, and the end of
the reader's query."""

import json
import sqlite3

from frame import lake_faults
from frame.lake_faults import NO_LOG
from frame.grid import LAKE
from frame.lake_world import CATALOG, FAILED, TABLE, PostgresLake, SqliteLake
from frame.table import Mark, cannot, cell

# Some seconds of work, so that the query is under way when the fault comes.
SLOW = (f"SELECT sum(a) AS n FROM {TABLE} WHERE a + (SELECT count(*) FROM range(400000000) r(i) "
        "WHERE i % 7 = 3 AND sqrt(i) < 0) > 0")
AN_HOUR = "a pin ends by itself within an hour, and keeps files for so long"


class Reader:
    """A query by a command, under way at the snapshot with the numbers 1 to 3."""

    def __init__(self, w):
        self.w = w
        self.g = w.g
        self.command = w.g.start("lake", "query", SLOW, "--json", store=w.url,
                                 **w.as_serve())
        w.g.wait(lambda: pins(w) > 0, 20, "the reader has its pin")

    def end(self):
        ended = self.g.ended(self.command, 120)
        if ended.code == 0:
            found = json.loads(ended.out)
            self.g.data(found["n"] in (6, "6"), f"the reader saw {found}, and not the sum 6")
        return ended


def pins(w):
    if isinstance(w, PostgresLake):
        return int(w.server.sql("SELECT count(*) FROM lake_pin") or 0)
    connection = sqlite3.connect(w.url, timeout=30)
    try:
        return connection.execute("SELECT count(*) FROM lake_pin").fetchone()[0]
    finally:
        connection.close()


def replace_rows(w):
    """The files of the first rows are needed by older snapshots only."""
    w.must_lake("table", "delete", TABLE, "--where", "true")
    w.must_append([7])


def expire(w, *words):
    """Forget all but the newest snapshot, and remove what is not needed any more."""
    w.must_lake("expire", CATALOG, "--keep", "1", "--older-than", "0s")
    return w.lake("cleanup", *words)


@cell("lake-pin", "other-older", "refuses E_NOT_FOUND", mark=Mark("lake", NO_LOG))
def other_older(g):
    """The reader asks for a snapshot that has expired: it had no pin for it."""
    w = SqliteLake(g)
    replace_rows(w)
    w.begin_fault(CATALOG)
    expire(w, "--grace", "0s")
    g.data(w.numbers(at=w.first) is None, "an expired snapshot is read")
    answer = w.refusal
    g.answers(str(w.first) in answer.text, f"the refusal does not name the snapshot: {answer}")
    w.noticed(FAILED)
    g.healed(lambda: w.numbers() == [7], "the newest snapshot is read", 10)
    return g.verdict_of(answer)


@cell("lake-pin", "this-older", "refuses exit 4")
def this_older(g):
    """The metabase is restored to before the pin: clean-up refuses, and the reader is not hurt."""
    w = SqliteLake(g)
    w.backup()
    reader = Reader(w)
    reader.command.pause()
    w.begin_fault(CATALOG, may_vanish=True)
    w.restore()
    replace_rows(w)
    ended = expire(w, "--grace", "0s")
    g.answers("--force" in ended.err, f"the message does not say what to do: {ended}")
    w.noticed(FAILED + "|tidemark_store_", log="epoch|restored")
    reader.command.resume()
    g.data(reader.end().code == 0, "the reader's query failed")
    return g.verdict_of(ended)


cannot("lake-pin", "other-wiped",
       "a reader keeps its pin in memory only: without it the process is gone, see away-during")
cannot("lake-pin", "other-copied", "a reader keeps its pin in memory, which is copied by nobody")


@cell("lake-pin", "promoted", "continues")
def promoted(g):
    """The standby has the pin: after the failover the snapshot does not expire."""
    w = PostgresLake(g, standby=True)
    reader = Reader(w)
    reader.command.pause()
    w.begin_fault(CATALOG)
    w.fail_over()
    g.wait(lambda: w.lake("table", "delete", TABLE, "--where", "true").code == 0, 20,
           "the promoted server takes changes")
    w.must_lake("expire", CATALOG, "--keep", "1", "--older-than", "0s")
    g.data(w.numbers(at=w.first) == [1, 2, 3], "a pinned snapshot has expired")
    w.noticed("tidemark_store_(epoch|session)", log="epoch|failover|promoted")
    reader.command.resume()
    ended = reader.end()
    g.healed(lambda: w.append([8]).is_ok, "appends succeed", 20)
    return g.verdict_of(ended)


class Pinned(lake_faults.State):
    """A reader by the service: it takes a pin, reads, and gives the pin back."""

    in_request = "query"

    def contact(self):
        return self.w.call(LAKE + "Query", {"sql": f"SELECT a FROM {TABLE}"})


@cell("lake-pin", "away-before", "refuses E_UNAVAILABLE", effect="holds")
def away_before(g):
    """The metabase is away when the reader wants a pin."""
    return lake_faults.away_before(g, Pinned)


@cell("lake-pin", "away-during", "continues", effect="none", reason=AN_HOUR)
def away_during(g):
    """The reader is killed: its pin holds the snapshot, and nothing else is held up."""
    w = SqliteLake(g)
    reader = Reader(w)
    w.begin_fault(CATALOG)
    reader.command.kill()
    replace_rows(w)
    ended = expire(w, "--grace", "0s")
    g.data(w.numbers(at=w.first) == [1, 2, 3], "a pinned snapshot has expired")
    g.data(w.numbers() == [7], "the newest snapshot is not read")
    g.data(w.is_sound(), "lake verify finds a broken rule")
    return g.verdict_of(ended)


@cell("lake-pin", "hung", "continues", effect="none", reason=AN_HOUR)
def hung(g):
    """The reader hangs; expiry and clean-up leave its snapshot alone, and it goes on."""
    w = SqliteLake(g)
    reader = Reader(w)
    w.begin_fault(CATALOG)
    reader.command.pause()
    replace_rows(w)
    g.require(expire(w, "--grace", "0s").code == 0, "clean-up succeeds")
    g.data(w.numbers(at=w.first) == [1, 2, 3], "a pinned snapshot has expired")
    reader.command.resume()
    ended = reader.end()
    g.healed(lambda: pins(w) == 0, "the reader has given its pin back", 10)
    g.data(w.is_sound(), "lake verify finds a broken rule")
    return g.verdict_of(ended)


@cell("lake-pin", "hung", "refuses E_TIMEOUT", effect="holds", variant="metabase", limit=240)
def hung_metabase(g):
    """The metabase hangs when the reader wants a pin."""
    return lake_faults.hung(g, Pinned)


@cell("lake-pin", "answer-lost", "continues")
def answer_lost(g):
    """The pin is there, and the reader does not know: it takes another one."""
    return lake_faults.answer_lost(g, Pinned)


@cell("lake-pin", "disk-full", "refuses E_FULL", effect="holds")
def disk_full(g):
    """The metabase cannot write the pin."""
    return lake_faults.disk_full(g, Pinned)


def clock(g, hours):
    w = SqliteLake(g, hours=0)
    reader = Reader(w)
    w.begin_fault(CATALOG)
    reader.command.pause()
    w.clock.set(hours)
    replace_rows(w)
    g.require(expire(w).code == 0, "clean-up succeeds")
    reader.command.resume()
    ended = reader.end()
    g.data(w.is_sound(), "lake verify finds a broken rule")
    return g.verdict_of(ended)


@cell("lake-pin", "clock-ahead", "continues", effect="none",
      reason="files of a snapshot whose pin ended early are kept for another hour")
def clock_ahead(g):
    return clock(g, 1)


@cell("lake-pin", "clock-behind", "continues", effect="none",
      reason="a pin that ends later keeps files longer, and nothing else")
def clock_behind(g):
    return clock(g, -1)
