"""worker-run: what `tidemark work run` knows of the items that it runs: a token in memory, and a
process group. The other side is the store. Contact is the renewal of the lease, three times in its
length, and the finish.

work run is a command without a port: what it prints about its items is the answer, and there is
nothing to scrape. `lost ITEM: why` is its refusal to go on."""

import fcntl
import json
import os
import re
import sqlite3

from frame import proxy, waiting
from frame.processes import Ended
from frame.table import cell

TYPE = "grid-run"
OUTPUT = "grid-output"
COMMANDS_ONLY = "work run is a command without a port: what it prints is all there is"
SCRIPT = """#!/bin/sh
echo "$TIDEMARK_WORK_ITEM_ID $TIDEMARK_LEASE_TOKEN $$" >> "$GRID_DIR/started"
while [ ! -e "$GRID_DIR/go" ]; do sleep 0.05; done
echo '{"result":"grid-output"}'
"""


def is_writable(path):
    """Whether a writer of this store gets both locks at once (src/store/sqlite_file.h)."""
    with open(path + "-door", "r+b") as door:
        connection = sqlite3.connect(path, timeout=0, isolation_level=None)
        try:
            fcntl.lockf(door, fcntl.LOCK_EX | fcntl.LOCK_NB, 1)
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("ROLLBACK")
            return True
        except (OSError, sqlite3.OperationalError):
            return False
        finally:
            connection.close()


class Run:
    """An item, and a worker process that runs a command for it until go() is called."""

    def __init__(self, g, store, direct=None, lease="3s"):
        self.g = g
        self.store = store
        self.direct = direct or store
        self.lease = lease
        self.process = None
        self.seen = 0
        g.environment["GRID_DIR"] = g.dir
        with open(g.path("command.sh"), "w", encoding="utf-8") as file:
            file.write(SCRIPT)
        os.chmod(g.path("command.sh"), 0o755)
        self.task = g.must("task", "create", "grid", store=self.direct)
        self.item = g.must("work", "add", "--task", self.task, "--type", TYPE, "--input", "{}",
                           store=self.direct)
        g.history.found("adder", "add", item=self.item)
        g.check("leases")

    def start(self, environment=None):
        self.process = self.g.start(
            "work", "run", "--store", self.store, "--type", TYPE, "--lease", self.lease,
            "--worker", "w1", "--", self.g.path("command.sh"), environment=environment)
        return self

    def runs(self):
        """The attempts so far: [(item, token, pid)]. New ones are claims of the history."""
        try:
            with open(self.g.path("started"), encoding="utf-8") as file:
                lines = [line.split() for line in file.read().splitlines()]
        except OSError:
            lines = []
        found = [(item, int(token), int(pid)) for item, token, pid in lines]
        for item, token, _ in found[self.seen:]:
            self.g.history.found(f"w1-{token}", "claim", item=item, token=token)
        self.seen = len(found)
        return found

    def pause_between_writes(self):
        """SIGSTOP at a moment at which it does not write: a process that is stopped inside a
        transaction keeps all others from writing, which is another fault."""

        def look():
            self.process.pause()
            if is_writable(self.store):
                return True
            self.process.resume()
            return False

        self.g.wait(look, 20, "work run is stopped between two writes")

    def wait_started(self, count=1):
        self.g.wait(lambda: len(self.runs()) >= count, 30, f"attempt {count} runs")
        return self.runs()[count - 1]

    def begin(self):
        self.g.begin_fault([], (self.item,))
        self.g.without_daemon(COMMANDS_ONLY)

    def go(self):
        """Let the command end."""
        with open(self.g.path("go"), "w", encoding="utf-8"):
            pass

    def has_said(self, word):
        return re.search(rf"^{word} {self.item}", self.process.log(), re.M) is not None

    def wait_said(self, word, limit=20):
        self.g.wait(lambda: self.has_said(word) or not self.process.is_running, limit,
                    f"work run prints {word}")

    def is_killed(self, pid):
        """Whether the command of an attempt has ended."""
        try:
            with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as stat:
                return stat.read().rsplit(")", 1)[1].split()[0] == "Z"
        except OSError:
            return True

    def status(self):
        ended = self.g.tidemark("work", "show", self.item, "--json", store=self.direct)
        return self.read_json(ended).get("status")

    @staticmethod
    def read_json(ended):
        return json.loads(ended.out.splitlines()[0]) if ended.code == 0 and ended.out else {}

    def note(self):
        """The item as it is found in the end."""
        shown = self.read_json(self.g.tidemark("work", "show", self.item, "--json",
                                            store=self.direct))
        if shown.get("status") == "completed":
            self.g.history.found("w-finisher", "finish", item=self.item,
                                 token=shown["lease_token"], outcome="completed")
        self.g.history.found("reader", "item", item=self.item, status=shown.get("status", "gone"))

    def completes(self, limit=40):
        """After healing the item is completed without help: by work run, and its sweep."""
        self.go()

        def look():
            self.g.tidemark("work", "sweep", store=self.direct)
            self.runs()
            return self.status() == "completed"

        self.g.healed(look, "the item is completed", limit)
        self.note()

    def verdict(self):
        if not self.process.is_running:
            code = self.process.child.returncode
            return "continues" if code == 0 else f"refuses exit {code}"
        return "refuses E_LEASE_LOST" if self.has_said("lost") else "continues"


@cell("worker-run", "other-older", "refuses E_LEASE_LOST")
def other_older(g):
    """PostgreSQL is restored to a copy in which the item is not claimed."""
    server = g.postgres()
    net = g.proxy(server)
    run = Run(g, server.url(port=net.port), server.url())
    server.shutdown()
    server.copy_data(g.path("backup"))
    server.start()
    run.start()
    first = run.wait_started()
    run.begin()
    net.refuse()
    server.shutdown()
    server.restore_data(g.path("backup"))
    server.start()
    net.allow()
    run.wait_said("lost")
    verdict = run.verdict()
    g.wait(lambda: run.is_killed(first[2]), 10, "the command of the lost item is ended")
    run.completes()
    return verdict


@cell("worker-run", "this-older", "refuses E_LEASE_LOST")
def this_older(g):
    """work run is stopped for longer than its lease; another worker has the item."""
    run = Run(g, g.path("a.db"), lease="1s").start()
    first = run.wait_started()
    run.begin()
    run.pause_between_writes()
    g.wait(lambda: g.must("work", "sweep", store=run.store).startswith("1 requeued"), 15,
           "the lease runs out")
    claim = g.must_json("work", "claim", "--type", TYPE, "--worker", "w2", "--lease", "60s",
                        store=run.store)
    g.history.found("w2", "claim", item=run.item, token=claim["lease_token"])
    run.go()
    run.process.resume()
    run.wait_said("lost")
    verdict = run.verdict()
    g.answers(run.has_said("lost"), f"work run prints {run.process.log()!r}")
    g.wait(lambda: run.is_killed(first[2]), 10, "the command of the lost item is ended")
    finished = g.tidemark("work", "finish", run.item, "--token", claim["lease_token"], "--output",
                          "{}", store=run.store)
    g.data(finished.code == 0, f"the new holder cannot finish: {finished}")
    run.note()
    return verdict


def _replaced(g, replace):
    run = Run(g, g.path("a.db"), lease="2s").start()
    first = run.wait_started()
    run.begin()
    replace(run)
    run.wait_said("lost")
    g.answers(run.process.log().count("\n") > 1, "work run prints nothing about its store")
    g.wait(lambda: run.is_killed(first[2]) or not run.process.is_running, 15,
           "the command of the lost item is ended")
    g.wait(lambda: not run.process.is_running, 15, "the next claim is refused, and the command ends")
    g.checkers.clear()  # the item is gone with its store
    return run.verdict()


@cell("worker-run", "other-wiped", "refuses exit 8", quick=True)
def other_wiped(g):
    """The SQLite file is deleted under a running work run."""
    return _replaced(g, lambda run: g.wipe(run.store))


@cell("worker-run", "other-copied", "refuses exit 8")
def other_copied(g):
    """The SQLite file is replaced by a copy of another store, under a running work run."""
    other = g.path("b.db")
    g.must("task", "create", "other", store=other)
    g.copy_store(other, g.path("copy.db"))
    return _replaced(g, lambda run: g.put_file(g.path("copy.db"), run.store))


@cell("worker-run", "promoted", "continues", effect="none",
      reason="the token is in the row of the new primary; the epoch is postgres-identity/promoted")
def promoted(g):
    """The primary dies while the command runs, and the standby is promoted."""
    primary = g.cluster()
    standby = primary.standby(g.path("standby"))
    primary.start()
    standby.start()
    net = g.proxy(primary)
    run = Run(g, primary.url(port=net.port), primary.url(), lease="60s").start()
    first = run.wait_started()
    primary.wait_caught_up(standby)
    run.begin()
    net.refuse()
    primary.crash()
    standby.promote()
    net.target = standby.port
    run.direct = standby.url()
    net.allow()
    run.completes()
    g.data(len(run.runs()) == 1 and run.runs()[0] == first, f"the command ran {run.runs()}")
    return run.verdict()


@cell("worker-run", "away-before", "refuses exit 6")
def away_before(g):
    """work run is started while PostgreSQL is away."""
    server = g.postgres()
    run = Run(g, server.url())
    run.begin()
    server.crash()
    run.start()
    code = run.process.wait(60)
    ended = Ended(code, run.process.out(), run.process.log(), 0)
    g.answers("127.0.0.1" in ended.err, f"the message does not name the server: {ended}")
    server.start()
    run.start()
    run.completes()
    return g.verdict_of(ended)


def _cut_off(g, cut, heal, server, net):
    """The store is away for longer than the lease: the command is ended before the lease is."""
    run = Run(g, server.url(port=net.port), server.url(), lease="6s").start()
    first = run.wait_started()
    run.begin()
    cut()
    _within(g, lambda: run.is_killed(first[2]), 8,
            lambda: g.data(False, "the command still runs after its lease of 6 s has ended"))
    _within(g, lambda: "trouble" in run.process.log() or run.has_said("lost"), 1,
            lambda: g.answers(False, "work run ends the command and prints no reason"))
    run.wait_said("lost", 60)
    verdict = run.verdict()
    heal()
    run.completes(60)
    return verdict


def _within(g, condition, limit, otherwise):
    try:
        g.wait(condition, limit, "it happens")
    except waiting.TooLate:
        otherwise()


@cell("worker-run", "away-during", "refuses E_LEASE_LOST", limit=240)
def away_during(g):
    server = g.postgres()
    net = g.proxy(server)

    def cut():
        net.refuse()
        server.crash()

    def heal():
        server.start()
        net.allow()

    return _cut_off(g, cut, heal, server, net)


@cell("worker-run", "hung", "refuses E_LEASE_LOST", limit=240)
def hung(g):
    server = g.postgres()
    net = g.proxy(server)
    return _cut_off(g, server.pause, server.resume, server, net)


@cell("worker-run", "answer-lost", "continues", effect="none",
      reason="the finish is said again under its token, and is answered as the first time")
def answer_lost(g):
    """The answer to the COMMIT of the finish is lost, with all connections."""
    server = g.postgres()
    net = g.proxy(server)
    run = Run(g, server.url(port=net.port), server.url(), lease="60s").start()
    run.wait_started()
    run.begin()
    net.lose_answer(proxy.PG_COMMITTED, all_connections=True, request=OUTPUT.encode())
    run.completes()
    g.require(net.lost.is_set(), "an answer was lost")
    g.data(len(run.runs()) == 1, f"the command ran {len(run.runs())} times")
    return run.verdict()


@cell("worker-run", "disk-full", "continues")
def disk_full(g):
    """The disk of the store is full when the command ends; its result is kept and stored later."""
    disk = g.disk(24 << 20)
    run = Run(g, disk.path + "/a.db", lease="20s").start()
    run.wait_started()
    run.begin()
    disk.fill()
    while g.tidemark("task", "create", "x" * 200, store=run.store).code == 0:
        pass
    run.go()
    g.wait(lambda: run.process.log().count("\n") > 1, 20, "work run prints that it cannot finish")
    disk.free()
    run.completes()
    return run.verdict()


def clock(g, hours):
    moved = g.clock(0)
    run = Run(g, g.path("a.db"), lease="3s").start(moved.environment(g.environment))
    run.wait_started()
    run.begin()
    moved.set(hours)
    before = run.process.log_size()
    # Two renewals under the new time.
    waits = [0]

    def renewed():
        shown = run.read_json(g.tidemark("work", "show", run.item, "--json", store=run.store))
        at = shown.get("heartbeat_at")
        if at and at != waits[-1]:
            waits.append(at)
        return len(waits) > 3

    g.wait(renewed, 30, "the lease is renewed twice")
    g.data(run.process.log_size() == before, f"work run prints {run.process.log()!r}")
    run.completes()
    g.data(len(run.runs()) == 1, f"the command ran {len(run.runs())} times")
    return run.verdict()


BOOT_CLOCK = "leases of a SQLite store count on the boot clock, the worker on its monotonic clock"


@cell("worker-run", "clock-ahead", "continues", effect="none", reason=BOOT_CLOCK)
def clock_ahead(g):
    return clock(g, 1)


@cell("worker-run", "clock-behind", "continues", effect="none", reason=BOOT_CLOCK)
def clock_behind(g):
    return clock(g, -1)
