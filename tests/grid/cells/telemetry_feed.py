"""feed-position: how far a client has read a stream of an agent by number. The client keeps
session, epoch, number and a point (number, epoch, digest) in its own notes, and has no name there.
The other side is the agent. Contact is the next read behind the noted number."""

import base64
import threading

from frame import colony_world, proxy, service
from frame.colony_world import Agent
from frame.grid import AGENT
from frame.table import Mark, cannot, cell

STATE = "feed-position"
EPOCH = r"tidemark_(store|feed)_(epoch|session)"
NO_EPOCH = ("metric: no metric", "log: no line")
GONE = "the agent itself is away: the client gets the error, and no other process is concerned"


class Client:
    """Reads a stream and notes how far it is. What it has read goes into the history as stored."""

    def __init__(self, g, agent):
        self.g = g
        self.agent = agent
        self.address = None
        self.session = self.epoch_id = ""
        self.epoch = self.number = 0
        self.points = []
        self.read = []
        g.check("delivery")

    def notes(self):
        return (self.session, self.epoch, self.epoch_id, self.number, list(self.points))

    def take_notes(self, notes):
        self.session, self.epoch, self.epoch_id, self.number, self.points = notes

    def ask(self, wait_ms=0, limit=60):
        return service.call(self.address or self.agent.daemon.address, AGENT + "QueryRecords", {
            "stream": colony_world.STREAM, "start_seq_id": self.number,
            "position": {"session_id": self.session, "epoch": self.epoch, "points": self.points,
                         "epoch_id": self.epoch_id, "wait_ms": wait_ms}}, limit)

    def take(self, answer):
        """Store the records of an answer and note the position behind them."""
        got = answer.json
        state = got["state"]
        for record in got.get("records", []):
            self.read.append((got["sessionId"], int(state["epoch"]), int(record["seqId"]),
                              record["data"]))
        self.session, self.epoch = got["sessionId"], int(state["epoch"])
        self.epoch_id = state.get("epochId", "")
        self.number = int(state.get("scannedThroughSeqId", 0))
        self.points = [{"seq_id": self.number, "epoch": self.epoch, "digest": state["chain"]}]

    def begin(self):
        """Read what is there, and note it."""
        answer = self.ask()
        self.g.require(answer.is_ok, f"the agent answers: {answer}")
        self.take(answer)
        self.g.require(self.number > 0, "something was read")

    def verdict(self, answer):
        """What the answer says of the noted position."""
        if not answer.is_ok:
            return self.g.verdict_of(answer)
        got = answer.json
        state = got["state"]
        if got["sessionId"] != self.session or int(state["epoch"]) != self.epoch or \
                state.get("standing") == "STANDING_DIVERGED":
            return "begins an epoch"
        return "continues"

    def is_current(self):
        """Read on as a client does: on a refusal, or in another epoch, from the last match."""
        answer = self.ask()
        if not answer.is_ok:
            return False
        self.take(answer)
        return self.number == self.agent.head()

    def note(self):
        for session, epoch, number, data in self.read:
            value = base64.b64decode(data).decode().split()[0]
            self.g.history.found("client", "stored", source=self.agent.name,
                                 stream=colony_world.STREAM, session=session, epoch=epoch,
                                 number=number, value=value)


def begin(g, **options):
    agent = Agent(g, **options)
    client = Client(g, agent)
    agent.must_send(10)
    client.begin()
    return agent, client


def start_fault(g, agent):
    colony_world.begin_fault(g, [agent], agent.name)


def end(g, client):
    g.healed(client.is_current, "the client reads to the head", 30)
    client.note()


def end_other(g, client):
    """Another session: the client begins a new position; what it has read stays."""
    client.take_notes(("", 0, "", 0, []))
    end(g, client)


@cell(STATE, "other-older", "begins an epoch")
def other_older(g):
    """The agent is restored to a backup; the client has read more than it has now."""
    agent, client = begin(g)
    agent.backup()
    agent.must_send(5)
    client.begin()
    start_fault(g, agent)
    agent.restore()
    agent.must_send(8)
    answer = client.ask()
    got = client.verdict(answer)
    colony_world.noticed(g, [agent], EPOCH, log="epoch|restored")
    end_restored(g, client, answer)
    return got


def end_restored(g, client, answer):
    """The client goes on behind the last number that both have."""
    if answer.is_ok:
        state = answer.json["state"]
        for begun in state.get("epochs", []):
            if int(begun["epoch"]) > client.epoch:
                client.number = min(client.number, int(begun["firstSeqId"]) - 1)
    client.epoch, client.epoch_id, client.points = 0, "", []
    end(g, client)


@cell(STATE, "this-older", "continues", effect="none",
      reason="a client whose notes are older reads again what it had read, under the same numbers")
def this_older(g):
    """The client's notes are restored: it reads again."""
    agent, client = begin(g)
    older = client.notes()
    rows = list(client.read)
    agent.must_send(5)
    client.begin()
    start_fault(g, agent)
    client.take_notes(older)
    client.read = rows
    answer = client.ask()
    got = client.verdict(answer)
    client.take(answer)
    end(g, client)
    return got


@cell(STATE, "other-wiped", "refuses E_CONFLICT", mark=Mark("telemetry", *NO_EPOCH))
def other_wiped(g):
    """The agent's store is deleted."""
    agent, client = begin(g)
    start_fault(g, agent)
    agent.wipe()
    agent.must_send(5)
    answer = client.ask()
    got = client.verdict(answer)
    colony_world.noticed(g, [agent], EPOCH, log="session|created|empty")
    end_other(g, client)
    return got


@cell(STATE, "other-copied", "refuses E_CONFLICT", mark=Mark("telemetry", *NO_EPOCH))
def other_copied(g):
    """The agent's store is replaced by a copy of another agent's."""
    other, reader = begin(g, name="web-2")
    other.backup()
    agent, client = begin(g)
    start_fault(g, agent)
    agent.replace_by(other.store + ".backup")
    answer = client.ask()
    got = client.verdict(answer)
    colony_world.noticed(g, [agent], EPOCH, log="session|epoch|copied")
    client.note()
    reader.note()
    client.take_notes(("", 0, "", 0, []))
    g.healed(lambda: client.ask().is_ok, "a new position can be begun", 30)
    return got


cannot(STATE, "promoted", "an agent stores its streams in SQLite: there is no standby of it")


@cell(STATE, "away-before", "continues", quick=True)
def away_before(g):
    """The agent is killed before the client asks."""
    agent, client = begin(g)
    agent.must_send(5)
    start_fault(g, agent)
    agent.daemon.kill()
    failed = client.ask(limit=10)
    g.answers(failed.status == 0 and "refused" in failed.text, f"the client was answered: {failed}")
    g.without_daemon(GONE)
    agent.daemon.restart()
    answer = client.ask()
    got = client.verdict(answer)
    end(g, client)
    return got


@cell(STATE, "away-during", "continues")
def away_during(g):
    """The agent is killed while a client waits for news."""
    agent, client = begin(g)
    start_fault(g, agent)
    failed = []
    thread = threading.Thread(target=lambda: failed.append(client.ask(wait_ms=50_000)), daemon=True)
    net = g.proxy(agent.daemon)
    client.address = net.address
    thread.start()
    g.wait(lambda: net.accepted, 10, "the client asks")
    agent.daemon.kill()
    thread.join(30)
    g.answers(failed and failed[0].status == 0, f"the client was answered: {failed}")
    g.without_daemon(GONE)
    agent.daemon.restart()
    agent.must_send(5)
    answer = client.ask()
    got = client.verdict(answer)
    end(g, client)
    return got


@cell(STATE, "hung", "continues")
def hung(g):
    """The agent hangs: it accepts connections and answers nothing."""
    agent, client = begin(g)
    agent.must_send(5)
    start_fault(g, agent)
    agent.daemon.pause()
    failed = client.ask(limit=3)
    g.answers(failed.status == 0, f"the client was answered: {failed}")
    g.without_daemon(GONE)
    agent.daemon.resume()
    answer = client.ask()
    got = client.verdict(answer)
    end(g, client)
    return got


@cell(STATE, "answer-lost", "continues", effect="none",
      reason="a read changes nothing at the agent: the client asks again")
def answer_lost(g):
    """The agent's answer does not reach the client, which asks again."""
    agent, client = begin(g)
    agent.must_send(5)
    net = g.proxy(agent.daemon)
    client.address = net.address
    start_fault(g, agent)
    net.lose_answer(proxy.ANY_ANSWER)
    failed = client.ask()
    g.require(failed.status == 0, f"the answer was lost: {failed}")
    g.wait(net.lost.is_set, 10, "the answer was lost")
    answer = client.ask()
    got = client.verdict(answer)
    end(g, client)
    return got


@cell(STATE, "disk-full", "continues", effect="holds",
      mark=Mark("telemetry", "alert: no shipped", "answer: /readyz of web-1 does not"))
def disk_full(g):
    """The agent's disk is full: what it has is served; it takes nothing more, and says so."""
    agent, client = begin(g, disk_size=48 << 20)
    agent.must_send(5)
    start_fault(g, agent)
    agent.disk.fill()
    refused = press(g, agent)
    answer = client.ask()
    got = client.verdict(answer)
    g.answers(refused.status == 503, f"a client that sends is not asked to come again: {refused}")
    colony_world.noticed(g, [agent], r'tidemark_rpc_calls_total\{code="[1-9]|refused|full',
                         log="full|space|store", told=colony_world.daemon_is_unready(agent))
    agent.disk.free()
    g.healed(lambda: agent.send(1).is_ok, "the agent takes records again", 60)
    end(g, client)
    return got


def press(g, agent):
    """Send until the agent refuses: its reserve is used up."""
    for _ in range(400):
        answer = agent.send(20, size=20_000)
        if not answer.is_ok:
            return answer
    g.require(False, "a full disk refuses records")
    return None


@cell(STATE, "clock-ahead", "continues", effect="none",
      reason="a position is a number: no clock is asked, and retention counts the boot clock")
def clock_ahead(g):
    return clock(g, 1)


@cell(STATE, "clock-behind", "continues", effect="none",
      reason="a position is a number: no clock is asked, and retention counts the boot clock")
def clock_behind(g):
    return clock(g, -1)


def clock(g, hours):
    """The agent's wall clock jumps."""
    agent, client = begin(g, hours=0)
    start_fault(g, agent)
    agent.clock.set(hours)
    agent.must_send(5)
    answer = client.ask()
    got = client.verdict(answer)
    end(g, client)
    return got
