"""replica-vector: what node b knows of the logs of all origins. The other side is node a, with its
own log. Contact is a sync: by `replica run` of b, and by the command beside it."""

from frame.replica_world import EPOCHS, SYNCS, Node, Pair, behind
from frame.table import Mark, cannot, cell

SMALL_DISK = 24 << 20
NO_LOG = "log: no line of level warn or above names"


def restored(g, w, node):
    """The node's file is restored; it begins an epoch, and what it lost comes from the other."""
    node.backup()
    w.a.write("later-a", "after the backup")
    w.b.write("later-b", "after the backup")
    w.wait_equal()
    identity, epoch = w.epoch_of(node)
    w.begin_fault()
    node.note_cut()
    node.restore()
    w.noticed(EPOCHS, log="epoch|restored|" + identity)
    g.wait(lambda: w.epoch_of(node)[1] > epoch, 10, "the node is in a new epoch")
    w.heals()
    g.data(node.title("later-a") == node.title("later-b") == "after the backup",
           "what was written after the backup did not come back from the peer")
    w.note()
    after = w.epoch_of(node)
    g.answers(after[0] == identity and after[1] == epoch + 1,
              f"status reports no new epoch: {after}, and before {epoch}")
    return "begins an epoch" if after[1] > epoch else "continues"


@cell("replica-vector", "other-older", "begins an epoch", mark=Mark("replica", NO_LOG))
def other_older(g):
    w = Pair(g)
    return restored(g, w, w.a)


@cell("replica-vector", "this-older", "begins an epoch", mark=Mark("replica", NO_LOG))
def this_older(g):
    w = Pair(g)
    return restored(g, w, w.b)


@cell("replica-vector", "other-wiped", "continues", mark=Mark("replica", NO_LOG))
def other_wiped(g):
    """The file of a is deleted. b has all of its log, and refills it."""
    w = Pair(g)
    identity, _ = w.epoch_of(w.a)
    w.begin_fault(w.peer, may_vanish=True)
    w.a.note_cut()
    w.a.wipe()
    w.noticed(EPOCHS, log="wiped|new node|refill|" + identity)
    g.wait(lambda: w.a.title("r0"), 20, "the wiped node has its rows back")
    g.answers(w.epoch_of(w.a)[0] != identity, "status reports the wiped node under its old id")
    w.heals()
    w.note()
    return g.verdict_of(w.contact())


@cell("replica-vector", "other-wiped", "continues", variant="collected", limit=180,
      mark=Mark("replica", NO_LOG, "heal: the wiped node has its rows", "verdict: refuses exit 3"))
def other_wiped_collected(g):
    """The file of a is deleted, and b has collected the begin of the log: b gives a snapshot."""
    w = Pair(g, is_retained=False)
    w.fill_and_collect(w.a, w.b)
    identity, _ = w.epoch_of(w.a)
    w.begin_fault(w.peer, may_vanish=True)
    w.a.note_cut()
    w.a.wipe()
    w.noticed(EPOCHS, log="wiped|new node|snapshot|" + identity)
    g.healed(lambda: w.are_equal() and w.a.title("r0"), "the wiped node has its rows back", 30)
    if g.has_healed:
        w.heals()
        w.note()
    else:
        g.checkers.clear()
    return g.verdict_of(w.contact())


@cell("replica-vector", "other-copied", "continues", mark=Mark("replica", NO_LOG))
def other_copied(g):
    """The file of a becomes a copy of that of another node, c, which b has never met."""
    w = Pair(g)
    c = Node(g, "c")
    c.must("sync", w.a.daemon.address)
    c.write("of-c", "of c")
    identity, stranger = w.epoch_of(w.a)[0], w.epoch_of(c)[0]
    c.backup()
    w.begin_fault(w.peer, may_vanish=True)
    w.a.note_cut()
    w.a.replace_by(c.backup_path)
    w.noticed(EPOCHS, log="cop(y|ied)|" + identity)
    g.wait(lambda: w.b.title("of-c"), 20, "b has the rows of the copy")
    g.answers(w.epoch_of(w.a)[0] not in (identity, stranger),
              "status reports a copy under the id of another node")
    w.heals()
    w.note()
    return g.verdict_of(w.contact())


cannot("replica-vector", "promoted",
       "a node is a SQLite file: there is no standby that could be promoted")


@cell("replica-vector", "away-before", "refuses exit 6", effect="holds", quick=True)
def away_before(g):
    w = Pair(g)
    w.begin_fault()
    w.a.daemon.kill()
    w.net.refuse()
    w.b.write("meanwhile", "of b")
    ended = w.contact()
    g.answers(w.peer in ended.err + ended.out, f"sync does not name the peer: {ended}")
    w.noticed(SYNCS)
    g.end_fault()
    w.net.allow()
    w.a.daemon.restart()
    w.heals()
    w.note()
    return g.verdict_of(ended)


@cell("replica-vector", "away-before", "refuses exit 6", effect="holds", variant="restarted",
      mark=Mark("replica", "series: tidemark_replica_proven_age", "alert: no shipped rule fires"))
def away_before_restarted(g):
    """b is restarted while a is away: it still reports how long ago it was in sync."""
    w = Pair(g)
    w.begin_fault()
    w.a.daemon.kill()
    w.net.refuse()
    w.b.daemon.stop()
    w.b.restart()
    ended = w.contact()
    g.answers(w.peer in ended.err + ended.out, f"sync does not name the peer: {ended}")
    w.noticed(SYNCS)
    g.end_fault()
    w.net.allow()
    w.a.daemon.restart()
    w.heals()
    w.note()
    return g.verdict_of(ended)


@cell("replica-vector", "away-during", "refuses exit 6", effect="holds")
def away_during(g):
    """a is killed while the answer of a sync is on its way."""
    w = Pair(g)
    w.begin_fault()
    w.net.hold()
    w.a.write("under-way", "of a")
    w.b.write("meanwhile", "of b")
    command = g.start("replica", "sync", w.b.path, w.peer, environment=w.b.environment)
    g.wait(w.net.held.is_set, 10, "b speaks to a")
    w.a.daemon.kill()
    w.net.refuse()
    w.net.release()
    ended = g.ended(command)
    g.answers(w.peer in ended.err, f"sync does not name the peer: {ended}")
    w.noticed(SYNCS)
    g.end_fault()
    w.net.allow()
    w.a.daemon.restart()
    w.heals()
    w.note()
    return g.verdict_of(ended)


@cell("replica-vector", "hung", "refuses exit 6", effect="holds", limit=240,
      mark=Mark("replica", NO_LOG, "metric: no metric"))
def hung(g):
    """a accepts connections and answers nothing."""
    w = Pair(g)
    w.begin_fault()
    w.a.daemon.pause()
    w.b.write("meanwhile", "of b")
    command = g.start("replica", "sync", w.b.path, w.peer, environment=w.b.environment)
    w.noticed(SYNCS)
    ended = g.ended(command, 60)
    g.answers(w.peer in ended.err, f"sync does not name the peer: {ended}")
    g.end_fault()
    w.a.daemon.resume()
    w.heals()
    w.note()
    return g.verdict_of(ended)


@cell("replica-vector", "answer-lost", "continues", effect="none",
      reason="the sync asks again on a new connection; what was pushed settles by identity")
def answer_lost(g):
    """a has taken what b pushed, and the answer is lost."""
    w = Pair(g)
    w.begin_fault()
    w.net.lose_answer_after(lambda: w.a.title("pushed") is not None)
    w.b.write("pushed", "of b")
    g.wait(w.net.lost.is_set, 20, "an answer was lost")
    ended = w.contact()
    g.answers('"proven":true' in ended.out, f"sync does not report a proven cut: {ended}")
    w.heals()
    w.note()
    return g.verdict_of(ended)


@cell("replica-vector", "disk-full", "refuses exit 6", effect="holds",
      mark=Mark("replica", "verdict: refuses exit 7"))
def disk_full(g):
    """The disk of b is full: it cannot take what a has."""
    w = Pair(g, b=Node(g, "b", disk_size=SMALL_DISK))
    w.begin_fault()
    w.b.disk.fill()
    for number in range(30):
        w.a.write(f"large{number}", "x" * 100_000)
    ended = w.contact()
    g.answers("full" in ended.err, f"sync does not report a full disk: {ended}")
    w.noticed(SYNCS)
    g.end_fault()
    w.b.disk.free()
    w.heals()
    w.note()
    return g.verdict_of(ended)


@cell("replica-vector", "clock-ahead", "continues", effect="holds",
      mark=Mark("replica", "heal: both nodes", "log: no line of level warn"))
def clock_ahead(g):
    """The clock of a is an hour ahead: b keeps its events, and shows them when their time comes.
    Once the clock is right, a gives them new timestamps."""
    w = Pair(g, a=Node(g, "a", hours=0))
    w.begin_fault()
    w.a.clock.set(1)
    w.a.write("ahead", "of a")
    g.wait(lambda: w.b.status()["waiting"], 20, "b has the event, and it waits")
    ended = w.contact()
    g.answers('"waiting":0' not in ended.out, f"sync does not report what waits: {ended}")
    w.noticed(r"tidemark_replica_(clock_ahead|quarantined)", log="clock|ahead|wait")
    g.end_fault()
    w.a.clock.set(0)
    w.heals(limit=15)
    if g.has_healed:
        w.note()
    else:
        g.checkers.clear()
    return g.verdict_of(ended)


@cell("replica-vector", "clock-behind", "continues", effect="holds", mark=Mark("replica", NO_LOG))
def clock_behind(g):
    """The clock of a is an hour behind. What it writes is shown by b; what b writes seems to be of
    the future, and waits at a until its clock is right."""
    w = Pair(g, a=Node(g, "a", hours=0))
    w.b.write("both", "of b")
    w.wait_equal()
    return behind(g, w, w.a, w.b)
