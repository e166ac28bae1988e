"""replica-peers: what node a keeps about its peer b: how far b is in every log, and until when
that counts. Collection at a removes what b has, and nothing else. The other side is b, which dials
a. Contact is a collection at a, and the next sync of b."""

from frame.replica_world import EPOCHS, Node, Pair, floor_of
from frame.table import Mark, cannot, cell

SMALL_DISK = 24 << 20
NO_LOG = "log: no line of level warn or above names"
MAY_BE_AWAY = ("a peer that dials may be away for days: its version vector holds collection back "
               "until it expires")


def known_of_peer(w):
    """How much a knows that its peer has, of all logs."""
    connection = w.a.connect()
    try:
        return connection.execute("SELECT sum(mark) FROM tide_replica_peer_marks").fetchone()[0]
    finally:
        connection.close()


def collect(g, w):
    """gc at a while b lacks events: nothing of them is removed."""
    before = floor_of(w.a)
    ended = w.a.run("gc", "--json")
    g.data(floor_of(w.a) == before, "a has collected events that its peer lacks")
    return ended


@cell("replica-peers", "other-older", "begins an epoch", mark=Mark("replica", NO_LOG))
def other_older(g):
    """b is restored to a state below the floor of a, and begins with a snapshot."""
    w = Pair(g, is_retained=False)
    w.b.backup()
    w.b.write("later", "of b, after the backup")
    w.wait_equal()
    w.fill_and_collect(w.a)
    identity, epoch = w.epoch_of(w.b)
    w.begin_fault()
    w.b.note_cut()
    w.b.restore()
    w.noticed(EPOCHS + "|snapshot", log="epoch|restored|snapshot|" + identity)
    w.heals()
    g.data(w.b.title("later") == "of b, after the backup", "a write before the restore is lost")
    w.note()
    after = w.epoch_of(w.b)
    g.answers(after == (identity, epoch + 1), f"status reports no new epoch: {after}")
    return "begins an epoch" if after[1] > epoch else "continues"


@cell("replica-peers", "this-older", "begins an epoch", mark=Mark("replica", NO_LOG))
def this_older(g):
    """a is restored: it knows its peer as it was, and collects no more than that peer has."""
    w = Pair(g, is_retained=False)
    w.a.backup()
    w.fill_and_collect(w.a)
    identity, epoch = w.epoch_of(w.a)
    w.begin_fault()
    w.a.note_cut()
    w.b.daemon.stop()
    w.a.restore()
    w.fill(w.a)
    collect(g, w)
    w.b.restart()
    w.noticed(EPOCHS, log="epoch|restored|" + identity)
    w.heals()
    w.note()
    after = w.epoch_of(w.a)
    g.answers(after == (identity, epoch + 1), f"status reports no new epoch: {after}")
    return "begins an epoch" if after[1] > epoch else "continues"


@cell("replica-peers", "other-wiped", "continues", mark=Mark("replica", NO_LOG))
def other_wiped(g):
    """b begins anew, below the floor of a: under a new id, with a snapshot."""
    w = Pair(g, is_retained=False)
    w.fill_and_collect(w.a)
    identity, _ = w.epoch_of(w.b)
    w.begin_fault(w.peer, may_vanish=True)
    w.b.note_cut()
    w.b.wipe()
    w.noticed(EPOCHS + "|snapshot|peer", log="wiped|new node|snapshot|" + identity)
    w.heals()
    peers = {one["node"] for one in w.a.status()["peers"]}
    g.answers(w.epoch_of(w.b)[0] != identity and w.epoch_of(w.b)[0] in peers,
              "status of a does not report the new peer")
    w.note()
    return g.verdict_of(w.contact())


@cell("replica-peers", "other-copied", "continues", mark=Mark("replica", NO_LOG))
def other_copied(g):
    """b becomes a copy of c, which a knows, too: a peer of its own, and neither of the two."""
    w = Pair(g)
    c = Node(g, "c")
    c.must("sync", w.a.daemon.address)
    c.write("of-c", "of c")
    c.backup()
    known = {w.epoch_of(w.b)[0], w.epoch_of(c)[0]}
    w.begin_fault(w.peer, may_vanish=True)
    w.b.note_cut()
    w.b.replace_by(c.backup_path)
    w.noticed(EPOCHS + "|peer", log="cop(y|ied)|new node")
    w.heals()
    peers = {one["node"] for one in w.a.status()["peers"]}
    g.answers(w.epoch_of(w.b)[0] in peers - known,
              "status of a does not report the copy as a peer of its own")
    w.note()
    return g.verdict_of(w.contact())


cannot("replica-peers", "promoted",
       "a node is a SQLite file: there is no standby that could be promoted")


@cell("replica-peers", "away-before", "continues", effect="none", reason=MAY_BE_AWAY)
def away_before(g):
    w = Pair(g, is_retained=False)
    w.begin_fault()
    w.b.daemon.kill()
    w.fill(w.a)
    ended = collect(g, w)
    w.b.restart()
    w.heals()
    w.note()
    return g.verdict_of(ended)


@cell("replica-peers", "away-during", "continues", effect="none", reason=MAY_BE_AWAY)
def away_during(g):
    """b is killed while its sync is under way: what a has heard from it counts, and no more."""
    w = Pair(g, is_retained=False)
    w.begin_fault()
    w.fill(w.a)
    w.net.hold()
    g.wait(w.net.held.is_set, 10, "b speaks to a")
    w.b.daemon.kill()
    w.net.cut()
    w.net.release()
    w.fill(w.a)
    ended = collect(g, w)
    w.b.restart()
    w.heals()
    w.note()
    return g.verdict_of(ended)


@cell("replica-peers", "hung", "continues", effect="none", reason=MAY_BE_AWAY)
def hung(g):
    w = Pair(g, is_retained=False)
    w.begin_fault()
    w.b.daemon.pause()
    w.fill(w.a)
    ended = collect(g, w)
    w.b.daemon.resume()
    w.heals()
    w.note()
    return g.verdict_of(ended)


@cell("replica-peers", "answer-lost", "continues", effect="none",
      reason="the version vector of a peer only rises: an answer that is lost is asked for again")
def answer_lost(g):
    """What a answered to b is lost once b's vector is stored."""
    w = Pair(g, is_retained=False)
    before = known_of_peer(w)
    w.begin_fault()
    w.net.lose_answer_after(lambda: known_of_peer(w) > before)
    w.a.write("news", "of a")
    g.wait(w.net.lost.is_set, 20, "an answer was lost")
    ended = w.a.run("gc", "--json")
    w.heals()
    w.note()
    return g.verdict_of(ended)


@cell("replica-peers", "disk-full", "refuses exit 6", effect="holds", limit=180,
      mark=Mark("replica", NO_LOG, "verdict: refuses exit 1"))
def disk_full(g):
    """The disk of a is full: it can neither note what peers have nor take what they push."""
    w = Pair(g, a=Node(g, "a", disk_size=SMALL_DISK), is_retained=False)
    w.fill(w.a)
    w.wait_equal()
    w.begin_fault()
    w.a.disk.fill()
    for number in range(30):
        w.b.write(f"large{number}", "x" * 100_000)
    ended = w.contact()
    g.answers("full" in ended.err, f"sync does not report the full disk: {ended}")
    g.noticed([w.a.daemon], r'tidemark_rpc_calls_total\{code="[1-9]', log="full")
    g.end_fault()
    w.a.disk.free()
    w.heals()
    w.note()
    return g.verdict_of(ended)


def clock(g, hours):
    w = Pair(g, a=Node(g, "a", hours=0), is_retained=False, check=False)
    w.begin_fault()
    w.b.daemon.stop()
    w.a.clock.set(hours)
    w.fill(w.a)
    ended = collect(g, w)
    peers = w.a.status()["peers"]
    g.data(len(peers) == 1, f"a keeps {len(peers)} peers, and not one")
    return ended


@cell("replica-peers", "clock-ahead", "continues", effect="none",
      reason="a peer counts for seven days after its last sync: an hour ends none")
def clock_ahead(g):
    return g.verdict_of(clock(g, 1))


@cell("replica-peers", "clock-behind", "continues", effect="none",
      reason="a peer counts for seven days after its last sync: an hour more keeps events longer")
def clock_behind(g):
    return g.verdict_of(clock(g, -1))
