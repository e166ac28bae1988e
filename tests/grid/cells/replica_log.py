"""replica-log: what node b has logged of an application's rows: events and clocks. The other side
is the rows. They are compared when captured changes become events, and by digests: `verify` and the
comparison of `replica run`."""

import subprocess

from frame.replica_world import EPOCHS, SYNCS, TABLE, Node, Pair, behind
from frame.table import Mark, cannot, cell

SMALL_DISK = 24 << 20
NO_LOG = "log: no line of level warn or above names"
NO_METRIC = "metric: no metric"
DIFFERS = "tidemark_replica_differing_tables"
ONE_FILE = "an application's rows and the log of them are in one file"


def write_unseen(node, *statements):
    """An application writes on a connection without triggers, or a disk alters rows."""
    text = ".dbconfig enable_trigger off\n" + "".join(one + ";\n" for one in statements)
    subprocess.run(["sqlite3", "-bail", "-cmd", ".timeout 30000", node.path], input=text, text=True,
                   check=True, stdout=subprocess.DEVNULL)


def differing(g, statements):
    """Rows of b change past the log. It is reported as divergence, and repaired by `--repair`."""
    w = Pair(g)
    w.b.write("r1", "of b")
    w.wait_equal()
    expected = w.a.rows()
    w.begin_fault(w.peer, TABLE)
    write_unseen(w.b, *statements)
    g.require(w.b.rows() != expected, "the rows differ")
    ended = w.b.run("verify", w.peer, "--json")
    g.answers(TABLE in ended.out, f"verify does not name the table: {ended}")
    w.noticed(DIFFERS, log="differ")
    w.b.must("verify", w.peer, "--repair")
    w.heals()
    w.note()
    return g.verdict_of(ended)


@cell("replica-log", "other-older", "refuses exit 8", mark=Mark("replica", NO_LOG, NO_METRIC))
def other_older(g):
    """A row is restored to what it was."""
    return differing(g, (f"UPDATE {TABLE} SET title = 'row 1' WHERE id = 'r1'",))


@cell("replica-log", "this-older", "begins an epoch",
      mark=Mark("replica", NO_LOG, "series: tidemark_replica_proven_age"))
def this_older(g):
    """The file is restored with its log; the application then loads its newest rows again."""
    w = Pair(g)
    w.b.backup()
    w.b.write("r1", "of b, after the backup")
    w.b.write("new", "of b, after the backup")
    w.wait_equal()
    newest = w.b.rows()
    identity, epoch = w.epoch_of(w.b)
    w.begin_fault()
    w.net.refuse()
    w.b.note_cut()
    w.b.restore()
    for key, title in newest:
        w.b.write(key, title)
    w.net.allow()
    w.noticed(EPOCHS, log="epoch|restored|" + identity)
    w.heals()
    g.data(w.b.title("new") == w.b.title("r1") == "of b, after the backup",
           "a row that was loaded again is lost")
    w.note()
    after = w.epoch_of(w.b)
    g.answers(after == (identity, epoch + 1), f"status reports no new epoch: {after}")
    return "begins an epoch" if after[1] > epoch else "continues"


@cell("replica-log", "other-wiped", "refuses exit 8", mark=Mark("replica", NO_LOG, NO_METRIC))
def other_wiped(g):
    """All rows are gone, and no trigger saw it."""
    return differing(g, (f"DELETE FROM {TABLE}",))


@cell("replica-log", "other-copied", "refuses exit 8", mark=Mark("replica", NO_LOG, NO_METRIC))
def other_copied(g):
    """The values of one row are in another."""
    return differing(g, (f"UPDATE {TABLE} SET title = (SELECT title FROM {TABLE} WHERE id = 'r0') "
                         "WHERE id = 'r2'",))


cannot("replica-log", "promoted",
       "a node is a SQLite file: there is no standby that could be promoted")
cannot("replica-log", "away-before", ONE_FILE + ": neither can be away from the other")


@cell("replica-log", "away-during", "continues", effect="none",
      reason="captured changes become events in one transaction, which SQLite undoes")
def away_during(g):
    """b is killed while many captured changes become events."""
    w = Pair(g, check=False)
    w.begin_fault()
    w.fill(w.b, 20_000)
    g.wait(lambda: any(one["origin"] == one_id(w) for one in w.a.status()["logs"]), 20,
           "a has heard of the log of b")
    w.b.daemon.kill()
    w.b.restart()
    w.heals(limit=60)
    g.data(len(w.a.rows()) == 20_005, f"a shows {len(w.a.rows())} rows, and not 20005")
    ended = w.contact()
    return g.verdict_of(ended)


def one_id(w):
    return w.b.status()["node"]


@cell("replica-log", "hung", "continues", effect="none",
      reason="an application that reads keeps neither ingest nor apply from writing")
def hung(g):
    """An application hangs inside a transaction that reads."""
    w = Pair(g)
    w.begin_fault()
    reader = w.b.connect()
    reader.execute("BEGIN")
    before = reader.execute(f"SELECT count(*) FROM {TABLE}").fetchone()
    w.heals()
    g.data(reader.execute(f"SELECT count(*) FROM {TABLE}").fetchone() == before,
           "a transaction that reads sees changes of others")
    reader.close()
    ended = w.contact()
    w.note()
    return g.verdict_of(ended)


@cell("replica-log", "answer-lost", "continues", effect="none",
      reason="events that are in the log settle by their identity")
def answer_lost(g):
    """b is killed behind the commit of what it pulled, before it tells anybody."""
    w = Pair(g)
    w.begin_fault()
    w.net.lose_answer_after(lambda: w.b.title("pulled") is not None)
    w.a.write("pulled", "of a")
    g.wait(lambda: w.b.title("pulled") is not None, 20, "b has pulled")
    w.b.daemon.kill()
    w.net.condition = None
    w.b.restart()
    w.heals()
    w.note()
    return g.verdict_of(w.contact())


@cell("replica-log", "disk-full", "refuses exit 6", effect="holds",
      mark=Mark("replica", "verdict: refuses exit 7"))
def disk_full(g):
    """The disk is full when captured changes are to become events."""
    w = Pair(g, b=Node(g, "b", disk_size=SMALL_DISK), check=False)
    w.begin_fault()
    w.b.daemon.pause()
    w.fill(w.b, 4000)
    w.b.disk.fill()
    w.b.daemon.resume()
    ended = w.contact()
    g.answers("full" in ended.err, f"sync does not report the full disk: {ended}")
    w.noticed(SYNCS, log="full")
    g.end_fault()
    w.b.disk.free()
    w.heals()
    g.data(len(w.a.rows()) == 4005, f"a shows {len(w.a.rows())} rows, and not 4005")
    return g.verdict_of(ended)


@cell("replica-log", "clock-ahead", "continues", effect="holds",
      mark=Mark("replica", "heal: both nodes", NO_LOG))
def clock_ahead(g):
    """The clock of b is an hour ahead when changes become events: they wait at a. Once it is right,
    b gives them new timestamps."""
    w = Pair(g, b=Node(g, "b", hours=0))
    w.begin_fault()
    w.b.clock.set(1)
    w.b.write("ahead", "of b")
    g.wait(lambda: w.a.status()["waiting"], 20, "a has the event, and it waits")
    ended = w.contact()
    g.answers('"peer_waiting":0' not in ended.out, f"sync does not report what waits: {ended}")
    w.noticed(r"tidemark_replica_(clock_ahead|quarantined)", log="clock|ahead|wait")
    g.end_fault()
    w.b.clock.set(0)
    w.heals(limit=15)
    if g.has_healed:
        w.note()
    else:
        g.checkers.clear()
    return g.verdict_of(ended)


@cell("replica-log", "clock-behind", "continues", effect="holds", mark=Mark("replica", NO_LOG))
def clock_behind(g):
    """The clock of b is an hour behind. What it writes is shown everywhere; what others write
    seems to be of the future, and waits at b until its clock is right."""
    w = Pair(g, b=Node(g, "b", hours=0))
    w.a.write("both", "of a")
    w.wait_equal()
    return behind(g, w, w.b, w.a)
