"""postgres-identity: what a process knows of its PostgreSQL server: cluster, timeline, epoch.
Contact is a claim through `tidemark serve`: the token tells in which epoch it was given."""

import random

from frame import store_faults
from frame.grid import WORK
from frame.store_faults import FAILED_CALL, STORE
from frame.store_world import Postgres
from frame.table import cell

TYPE = "grid-identity"
EPOCH = r"tidemark_store_(epoch|session)"
EPOCH_LINE = "epoch|timeline|failover|restored"


class Known(store_faults.State):
    """A serve that has worked with its server."""

    known = (TYPE,)
    names = (TYPE,)

    def __init__(self, w):
        super().__init__(w)
        self.task = w.must_call(WORK + "CreateTask", {"title": "grid"})["task_id"]
        self.g.check("leases")
        for n in range(8):
            item = f"grid-item-{n}"
            w.must_call(WORK + "AddItems", {"items": [
                {"work_item_id": item, "task_id": self.task, "work_type": TYPE,
                 "input_data": {}}]})
            self.g.history.found("adder", "add", item=item)
        self.epoch = 0

    @property
    def in_request(self):
        return TYPE

    def establish(self):
        answer = self.contact()
        self.g.require(answer.is_ok and self.epoch == 1, f"a claim of epoch {self.epoch}: {answer}")

    def contact(self):
        """A claim. The epoch is the upper part of the token."""
        call = self.g.history.call("worker", "claim")
        answer = self.w.call(WORK + "Claim", {
            "worker": "w1", "work_types": [TYPE], "lease_ms": 600_000})
        if answer.is_ok and answer.json["items"]:
            item = answer.json["items"][0]
            self.epoch = int(item["lease_token"]) >> 40
            self.g.history.note(call, answer, item=item["work_item_id"],
                                token=int(item["lease_token"]))
        return answer

    def settled(self):
        """A contact, after the connections that broke off are made again."""
        answer = self.contact()
        for _ in range(30):
            if answer.is_ok or answer.code not in ("E_UNAVAILABLE", "E_BUSY"):
                break
            answer = self.contact()
        return answer

    def epoch_verdict(self, answer, before=1):
        if not answer.is_ok:
            return self.g.verdict_of(answer)
        return "begins an epoch" if self.epoch > before else "continues"


def start(g, **options):
    w = Postgres(g, **options)
    known = Known(w)
    known.establish()
    return w, known


def is_epoch(w, number):
    found = w.identity()
    return found[1] >= number, f"store info reports epoch {found[1]}"


@cell("postgres-identity", "other-older", "begins an epoch")
def other_older(g):
    """The server's files are restored from a copy, under a serve that goes on running."""
    w = Postgres(g)
    known = Known(w)
    w.backup()
    g.wait(lambda: known.contact().is_ok, 30, "serve has connected again")
    known.establish()
    w.begin_fault(TYPE)
    w.restore()
    answer = known.settled()
    w.noticed(EPOCH, log=EPOCH_LINE)
    g.answers(*is_epoch(w, 2))
    return known.epoch_verdict(answer)


@cell("postgres-identity", "this-older", "begins an epoch")
def this_older(g):
    """Another process has begun an epoch; serve has the old one in memory."""
    w, known = start(g)
    w.begin_fault(TYPE)
    g.must("store", "new-epoch", "--why", "grid", store=w.direct_url)
    answer = known.contact()
    w.noticed(EPOCH, log=EPOCH_LINE)
    g.answers(*is_epoch(w, 2))
    return known.epoch_verdict(answer)


@cell("postgres-identity", "other-wiped", "refuses E_MISMATCH")
def other_wiped(g):
    """The tables are dropped under a running serve."""
    w, known = start(g)
    w.begin_fault(TYPE, may_vanish=True)
    w.server.sql("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    w.net.cut()
    answer = known.settled()
    w.noticed(FAILED_CALL, log=f"{EPOCH_LINE}|session|{STORE}", told=w.unready())
    return known.epoch_verdict(answer)


@cell("postgres-identity", "other-copied", "refuses E_MISMATCH")
def other_copied(g):
    """The address leads to a server with another store."""
    other = g.postgres()
    g.must("sequence", "next", "orders", store=other.url())
    w, known = start(g)
    w.begin_fault(TYPE, may_vanish=True)
    w.net.cut()
    w.net.target = other.port
    answer = known.settled()
    w.noticed(FAILED_CALL, log=f"{EPOCH_LINE}|session|{STORE}", told=w.unready())
    w.net.cut()
    w.net.target = w.server.port
    g.healed(lambda: known.settled().is_ok, "the old server is worked with", 30)
    return known.epoch_verdict(answer)


@cell("postgres-identity", "promoted", "begins an epoch")
def promoted(g):
    """The primary dies, and the standby is promoted."""
    w, known = start(g, standby=True)
    w.begin_fault(TYPE)
    w.fail_over()
    answer = known.settled()
    w.noticed(EPOCH, log=EPOCH_LINE)
    g.answers(*is_epoch(w, 2))
    return known.epoch_verdict(answer)


@cell("postgres-identity", "promoted", "refuses E_MISMATCH", variant="returned")
def returned(g):
    """serve has worked with epoch 2 on the new primary; then the name leads to the old one."""
    w, known = start(g, standby=True)
    w.fail_over()
    g.require(known.settled().is_ok and known.epoch == 2, "serve works in epoch 2")
    w.begin_fault(TYPE)
    w.return_old_primary()
    answer = known.settled()
    w.noticed(FAILED_CALL, log=EPOCH_LINE, told=w.unready())
    w.lead_to_standby()
    g.healed(lambda: known.settled().is_ok and known.epoch == 2, "epoch 2 is worked with", 30)
    return known.epoch_verdict(answer, 2) if answer.is_ok else g.verdict_of(answer)


@cell("postgres-identity", "promoted", "begins an epoch", variant="host-list")
def host_list(g):
    """A standby is promoted under connections that were made while it was a standby."""
    w = Postgres(g, standby=True)
    known = Known(w)
    known.establish()
    w.server.wait_caught_up(w.standby)
    w.serve.stop()
    w.url = (f"postgres://postgres@127.0.0.1:{w.standby.port},127.0.0.1:{w.server.port}/postgres")
    w.serve.watch.stop()
    g.watches.pop(w.serve)
    w.start_serve()
    reading = w.call(WORK + "Stats")
    g.require(reading.is_ok, f"serve reads on the standby: {reading}")
    w.begin_fault(TYPE)
    w.server.crash()
    w.standby.promote()
    w.direct_url = w.standby.url()
    answer = known.settled()
    w.noticed(EPOCH, log=EPOCH_LINE)
    g.answers(*is_epoch(w, 2))
    return known.epoch_verdict(answer)


@cell("postgres-identity", "away-before", "refuses exit 6")
def away_before(g):
    """serve is started while its server is away."""
    server = g.postgres()
    g.must("sequence", "next", "orders", store=server.url())
    server.crash()
    g.begin_fault([], (TYPE,))
    g.without_daemon("serve does not come up: its exit code and message are all there is")
    ended = g.tidemark("serve", "--listen", "127.0.0.1:0", store=server.url())
    g.answers("127.0.0.1" in ended.err, f"the message does not name the server: {ended}")
    server.start()
    serve = g.serve(server.url())
    g.healed(lambda: serve.readyz().is_ok, "serve is ready", 20)
    return g.verdict_of(ended)


@cell("postgres-identity", "away-during", "continues")
def away_during(g):
    """The server crashes and comes back between two calls: it is the same history."""
    w, known = start(g)
    w.begin_fault(TYPE, known=known.known)
    w.away()
    w.noticed(FAILED_CALL, log=STORE, told=w.unready())
    w.back()
    answer = known.settled()
    g.data(w.identity()[1] == 1, "an epoch begins, though no history was cut")
    return known.epoch_verdict(answer)


@cell("postgres-identity", "hung", "refuses E_OUTCOME_UNKNOWN", effect="holds", limit=240)
def hung(g):
    return store_faults.hung(g, Known)


@cell("postgres-identity", "answer-lost", "refuses E_OUTCOME_UNKNOWN")
def answer_lost(g):
    """The answer to COMMIT is lost with its connection. A claim has no id to be found by."""
    w, known = start(g)
    w.begin_fault(TYPE, known=known.known)
    w.lose_commit(TYPE, all_connections=False)
    answer = known.contact()
    g.require(w.net.lost.is_set(), "an answer was lost")
    w.noticed(FAILED_CALL, log=STORE)
    g.healed(lambda: known.settled().is_ok, "items can be claimed", 20)
    g.data(w.identity()[1] == 1, "an epoch begins, though no history was cut")
    return known.epoch_verdict(answer)


@cell("postgres-identity", "disk-full", "refuses E_FULL", effect="holds", limit=240)
def disk_full(g):
    """The server's disk is full."""
    disk = g.disk(220 << 20)
    w = Postgres(g, directory=disk.path + "/pg")
    known = Known(w)
    known.establish()
    w.begin_fault(TYPE, known=known.known)
    disk.fill()

    def refused():
        answer = w.call(WORK + "CreateTask",
                        {"title": "x", "metadata": {"a": _noise(100_000)}})
        return None if answer.is_ok else answer

    answer = g.wait(refused, 60, "the store refuses a write")
    w.noticed(FAILED_CALL, log="full|space|" + STORE, told=w.unready())
    disk.free()
    if not w.server.process.is_running:
        w.server.start()
    g.healed(lambda: known.settled().is_ok, "the call succeeds", 40)
    return g.verdict_of(answer)


def _noise(length):
    """Text that does not compress."""
    return "".join(random.choices("abcdefghijklmnopqrstuvwxyz0123456789", k=length))


@cell("postgres-identity", "clock-ahead", "continues", effect="none",
      reason="identity is counted, not measured; what leases make of a clock is worker-run's")
def clock_ahead(g):
    return clock(g, 1)


@cell("postgres-identity", "clock-behind", "continues", effect="none",
      reason="identity is counted, not measured; what leases make of a clock is worker-run's")
def clock_behind(g):
    return clock(g, -1)


def clock(g, hours):
    """The server's clock jumps, and it is started again."""
    w = Postgres(g, hours=0)
    known = Known(w)
    known.establish()
    w.begin_fault(TYPE, known=known.known)
    w.server_clock.set(hours)
    w.net.cut()
    answer = known.settled()
    return known.epoch_verdict(answer)
