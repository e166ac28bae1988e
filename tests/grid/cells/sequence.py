"""sequence-position: what a taker of numbers knows: session, epoch, number. There is no service for
sequences: the commands `sequence next` and `store info` are the contact."""

import json

from frame import proxy
from frame.table import cell

NAME = "orders"
COMMANDS_ONLY = "sequences have commands only: no process lives on that could log or be scraped"


class Taker:
    """Takes numbers by command, and keeps what it was told."""

    def __init__(self, g, store, environment=None, direct=None, label=NAME):
        self.g = g
        self.store = store
        self.label = label  # in histories: the same name in two stores is two sequences
        self.direct = direct or store
        self.environment = environment
        self.count = 0
        self.known = None  # (session, epoch, number)
        g.check("sequences")

    def call(self):
        """The line of a take; its value names it."""
        self.count += 1
        where = {"session": self.known[0]} if self.known else {}
        return self.g.history.call("taker", "take", sequence=self.label, value=f"v{self.count}",
                                   **where)

    def next(self, environment=None):
        """One number."""
        call = self.call()
        ended = self.g.tidemark("sequence", "next", NAME, "--json", store=self.store,
                                environment=environment or self.environment)
        return self.note(call, ended)

    def note(self, call, ended):
        if ended.code != 0:
            self.g.history.note(call, ended)
            return ended
        session, epoch = self.identity()
        number = json.loads(ended.out)["last"]
        self.g.history.note(call, ended, session=session, epoch=epoch, number=number)
        self.known = (session, epoch, number)
        return ended

    def identity(self):
        info = self.g.must_json("store", "info", store=self.direct)
        return info["session_id"], info["epoch"]

    def take(self, count):
        for _ in range(count):
            ended = self.next()
            self.g.require(ended.code == 0, f"sequence next: {ended}")

    def verdict(self, ended):
        """What a taker that knew `before` concludes from the next contact."""
        if ended.code != 0:
            return self.g.verdict_of(ended)
        return "continues"

    def compare(self, before):
        if self.known[:2] != before[:2]:
            return "begins an epoch"
        self.g.data(self.known[2] > before[2], f"{before} was known, and then {self.known}")
        return "continues"


def begin(g):
    g.begin_fault([], (NAME,))
    g.without_daemon(COMMANDS_ONLY)


@cell("sequence-position", "other-older", "begins an epoch", quick=True)
def other_older(g):
    taker = Taker(g, g.path("a.db"))
    taker.take(3)
    g.copy_store(taker.store, g.path("backup.db"))
    taker.take(2)
    before = taker.known
    begin(g)
    g.put_file(g.path("backup.db"), taker.store)
    g.history.found("operator", "cut", sequence=NAME, session=before[0], head=3)
    taker.take(1)
    epochs = g.must("store", "epochs", "--json", store=taker.store).splitlines()
    g.answers(len(epochs) == 2, f"store epochs reports {epochs}")
    return taker.compare(before)


@cell("sequence-position", "this-older", "continues", effect="none",
      reason="a taker that forgot its last numbers is given higher ones all the same")
def this_older(g):
    taker = Taker(g, g.path("a.db"))
    taker.take(2)
    before = taker.known
    taker.take(2)
    begin(g)
    taker.known = before
    taker.take(1)
    g.data(taker.known[2] == 5, f"the fifth number is {taker.known[2]}")
    return taker.compare(before)


@cell("sequence-position", "other-wiped", "begins an epoch", quick=True)
def other_wiped(g):
    taker = Taker(g, g.path("a.db"))
    taker.take(3)
    before = taker.known
    begin(g)
    g.wipe(taker.store)
    taker.take(1)
    g.answers(taker.identity()[0] != before[0], "store info reports the session of the wiped store")
    return taker.compare(before)


@cell("sequence-position", "other-copied", "begins an epoch", quick=True)
def other_copied(g):
    other = Taker(g, g.path("b.db"), label="other")
    other.take(4)
    taker = Taker(g, g.path("a.db"))
    taker.take(3)
    before = taker.known
    begin(g)
    g.copy_store(other.store, g.path("backup.db"))
    g.put_file(g.path("backup.db"), taker.store)
    # The copy is a history of its own from here on: its epoch is not that of the other store.
    taker.take(1)
    info = taker.identity()
    g.answers(info[0] == other.known[0] and info[1] > other.known[1],
              f"store info reports {info} for a copy of {other.known}")
    other.take(1)
    return taker.compare(before)


@cell("sequence-position", "promoted", "begins an epoch", quick=True)
def promoted(g):
    """The primary dies with numbers that the standby does not have."""
    primary = g.cluster()
    standby = primary.standby(g.path("standby"))
    primary.start()
    standby.start()
    taker = Taker(g, primary.url())
    taker.take(3)
    primary.wait_caught_up(standby)
    standby.shutdown()
    taker.take(2)
    before = taker.known
    begin(g)
    primary.crash()
    standby.start()
    standby.promote()
    g.history.found("operator", "cut", sequence=NAME, session=before[0], head=3)
    taker.store = taker.direct = standby.url()
    taker.take(1)
    g.answers(taker.known[1] == 2, f"store info reports epoch {taker.known[1]}")
    return taker.compare(before)


@cell("sequence-position", "promoted", "refuses exit 4", variant="returned")
def returned(g):
    """Epoch 2 was seen on the new primary; then the name leads to the old one."""
    primary = g.cluster()
    standby = primary.standby(g.path("standby"))
    primary.start()
    standby.start()
    taker = Taker(g, primary.url())
    taker.take(3)
    primary.wait_caught_up(standby)
    primary.crash()
    standby.promote()
    taker.store = taker.direct = standby.url()
    taker.take(2)
    begin(g)
    primary.start()
    taker.store = taker.direct = primary.url()
    return taker.verdict(taker.next())


@cell("sequence-position", "away-before", "refuses exit 6", quick=True)
def away_before(g):
    server = g.postgres()
    taker = Taker(g, server.url())
    taker.take(2)
    begin(g)
    server.crash()
    ended = taker.next()
    g.answers("127.0.0.1" in ended.err or "PostgreSQL" in ended.err,
              f"the message does not name the server: {ended}")
    server.start()
    g.healed(lambda: taker.next().code == 0, "a number can be taken", 20)
    return taker.verdict(ended)


@cell("sequence-position", "away-during", "refuses exit 6", quick=True)
def away_during(g):
    server = g.postgres()
    net = g.proxy(server)
    taker = Taker(g, server.url(port=net.port), direct=server.url())
    taker.take(2)
    begin(g)
    net.hold()
    call = taker.call()
    command = g.start("sequence", "next", NAME, "--json", store=taker.store)
    g.wait(net.held.is_set, 20, "the command speaks to the server")
    net.refuse()
    server.crash()
    net.release()
    ended = taker.note(call, g.ended(command))
    server.start()
    net.allow()
    g.healed(lambda: taker.next().code == 0, "a number can be taken", 20)
    return taker.verdict(ended)


@cell("sequence-position", "hung", "refuses exit 6", limit=200, quick=True)
def hung(g):
    """The server hangs: the command ends within its deadline of 30 s, and names the reason."""
    server = g.postgres()
    taker = Taker(g, server.url())
    taker.take(2)
    begin(g)
    server.pause()
    call = taker.call()
    command = g.start("sequence", "next", NAME, "--json", store=taker.store)
    try:
        ended = g.ended(command, 45)
        verdict = taker.verdict(taker.note(call, ended))
    except Exception:
        command.kill()
        call.unknown()
        verdict = "refuses no end within 45 s"
    server.resume()
    g.healed(lambda: taker.next().code == 0, "a number can be taken", 20)
    return verdict


@cell("sequence-position", "answer-lost", "refuses exit 7")
def answer_lost(g):
    """A take has no id by which it could be found: its outcome is unknown, and that is said."""
    server = g.postgres()
    net = g.proxy(server)
    taker = Taker(g, server.url(port=net.port), direct=server.url())
    taker.take(2)
    begin(g)
    net.lose_answer(proxy.PG_COMMITTED, all_connections=True, refuse=True, request=NAME.encode())
    ended = taker.next()
    g.require(net.lost.is_set(), "an answer was lost")
    net.allow()
    g.healed(lambda: taker.next().code == 0, "a number can be taken", 20)
    return taker.verdict(ended)


@cell("sequence-position", "disk-full", "refuses exit 6")
def disk_full(g):
    disk = g.disk(16 << 20)
    taker = Taker(g, disk.path + "/a.db")
    taker.take(2)
    begin(g)
    disk.fill()
    ended = taker.next()
    g.answers("space" in ended.err or "full" in ended.err, f"the message gives no reason: {ended}")
    disk.free()
    g.healed(lambda: taker.next().code == 0, "a number can be taken", 20)
    return taker.verdict(ended)


def clock(g, hours):
    taker = Taker(g, g.path("a.db"))
    taker.take(2)
    before = taker.known
    begin(g)
    taker.environment = g.clock(hours).environment(g.environment)
    taker.take(2)
    taker.environment = None
    taker.take(1)
    return taker.compare(before)


@cell("sequence-position", "clock-ahead", "continues", effect="none",
      reason="the order of numbers does not depend on a clock")
def clock_ahead(g):
    return clock(g, 1)


@cell("sequence-position", "clock-behind", "continues", effect="none",
      reason="the order of numbers does not depend on a clock")
def clock_behind(g):
    return clock(g, -1)
