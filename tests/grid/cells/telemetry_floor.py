"""reader-floor: how far an agent knows its readers to be; it keeps what they have not read. The
other side is a reader's own position: here a colony's. Contact is a poll. Agents keep records that
were read for one second only, so that the floor decides."""

from frame import colony_faults, colony_world
from frame.colony_faults import LOSS, Reading
from frame.colony_world import Agent, Colony
from frame.grid import AGENT
from frame.table import Mark, cannot, cell

STATE = "reader-floor"
NO_LOG = "log: no line"
ABSENT = ("alert: no shipped rule",)
KEEP = ("--keep-for", "1s")


class Floor(Reading):
    """An agent that drops soon what everybody has read."""

    def __init__(self, g, agent=None, colony=None, keep=KEEP):
        super().__init__(g, {"words": keep, **(agent or {})}, colony)
        self.agent.forgets()  # what comes before the first read is not waited for

    def wait_dropped(self):
        """Until the agent has dropped all that was read."""
        self.g.wait(lambda: is_dropped(self.agent), 30, "what was read is dropped")


def is_dropped(agent):
    state = agent.state()
    return int(state.get("oldestSeqId", 0)) == int(state.get("headSeqId", 0)) + 1


def wait_retention(g, agent):
    """Until retention has run: a stream that nobody reads is dropped by it."""
    answer = agent.daemon.call(AGENT + "IngestRecords",
                               {"stream": "beacon", "records": [{"data": "YQ=="}]})
    g.require(answer.is_ok, f"the agent takes records: {answer}")

    def is_gone():
        found = [s for s in agent.daemon.call(AGENT + "ListStreams").json["streams"]
                 if s["stream"] == "beacon"]
        return found and int(found[0]["oldestSeqId"]) > int(found[0]["headSeqId"])

    g.wait(is_gone, 30, "retention has run")


@cell(STATE, "other-older", "gap expired", effect="loses")
def other_older(g):
    """The colony is restored to a backup; the agent has dropped what it had read since."""
    state = Floor(g)
    agent, colony = state.agent, state.colony
    agent.must_send(1)
    colony.wait_read()
    colony.backup()
    state.establish()
    state.wait_dropped()
    colony_world.begin_fault(g, [agent, colony])
    colony.restore()
    ended = state.contact()
    colony_world.noticed(g, [colony], LOSS, log=agent.name)
    g.answers(colony.lost(agent), "gaps ls shows no loss")
    state.more()
    return state.end(ended)


@cell(STATE, "this-older", "begins an epoch", mark=Mark("telemetry", "metric: no metric"))
def this_older(g):
    """The agent is restored to a backup, with an older floor."""
    return colony_faults.agent_older(g, Floor)


@cell(STATE, "other-wiped", "continues", effect="none",
      reason="a new reader begins with what is there, and its ledger has what was before")
def other_wiped(g):
    """The colony's store is deleted; the agent has dropped what it had read."""
    state = Floor(g)
    agent, colony = state.agent, state.colony
    state.establish()
    state.wait_dropped()
    colony_world.begin_fault(g, [agent, colony])
    colony.wipe()
    state.more()
    ended = state.contact()
    before = colony.query("SELECT first_seq_id FROM polling_checkpoints WHERE data_type = 'load'")
    g.data(before[0][0] == 11, f"the ledger begins with {before}")
    return state.end(ended)


@cell(STATE, "other-copied", "continues", mark=Mark("telemetry", "metric: no metric", NO_LOG))
def other_copied(g):
    """The colony's store is replaced by a copy of another colony's, which had read less."""
    agent = Agent(g, words=KEEP)
    agent.forgets()
    agent.must_send(10)
    slow = Colony(g, [agent], name="slow")
    slow.wait_read()
    slow.backup()
    slow.daemon.stop()
    colony = Colony(g, [agent])
    agent.must_send(10)
    colony.wait_read()
    wait_retention(g, agent)
    colony_world.begin_fault(g, [agent, colony])
    colony.replace_by(slow.store + ".backup")
    agent.must_send(5)
    ended = colony.poll()
    colony_world.noticed(g, [colony], colony_faults.EPOCH, log="epoch|session|copied")
    g.healed(lambda: colony.has_read(agent), "all records are read", 30)
    colony.note()
    g.data(not colony.lost(agent), f"numbers were lost: {colony.lost(agent)}")
    return g.verdict_of(ended)


cannot(STATE, "promoted", "an agent stores its floor in SQLite: there is no standby of it")


@cell(STATE, "away-before", "continues", effect="holds", mark=Mark("telemetry", *ABSENT))
def away_before(g):
    """The colony is away while records come; the agent keeps them."""
    state = Floor(g)
    agent, colony = state.agent, state.colony
    state.establish()
    colony_world.begin_fault(g, [agent, colony])
    colony.daemon.kill()
    state.more()
    wait_retention(g, agent)
    colony_faults.is_missed(state)
    colony.daemon.restart()
    return state.end(state.contact())


@cell(STATE, "away-before", "gap expired", effect="loses", variant="too-long")
def away_before_too_long(g):
    """The colony is away for longer than the agent keeps unread records: they get a receipt."""
    state = Floor(g, keep=("--keep-for", "1s", "--hard-for", "2s"))
    agent, colony = state.agent, state.colony
    state.establish()
    before = len(colony.lost(agent))  # on a slow machine some expire before the first read
    colony_world.begin_fault(g, [agent, colony])
    colony.daemon.kill()
    state.more()
    g.wait(lambda: is_dropped(agent), 30, "unread records are dropped")
    colony.daemon.restart()
    ended = state.contact()
    colony_world.noticed(g, [colony, agent], LOSS, log=agent.name,
                         told=(lambda: len(colony.lost(agent)) > before, "gaps ls shows no loss"))
    state.more()
    return state.end(ended)


@cell(STATE, "away-during", "continues", effect="holds", mark=Mark("telemetry", *ABSENT))
def away_during(g):
    """The colony is killed before the agent's answer has come: what it had is not read."""
    return colony_faults.colony_away_during(g, Floor)


@cell(STATE, "hung", "continues", effect="holds",
      mark=Mark("telemetry", *ABSENT, "series: checkpoint_lag_seconds"))
def hung(g):
    return colony_faults.colony_hung(g, Floor)


@cell(STATE, "answer-lost", "continues", effect="none", quick=True,
      reason="the floor moves with the next request, not with an answer")
def answer_lost(g):
    return colony_faults.agent_answer_lost(g, Floor)


@cell(STATE, "disk-full", "refuses E_UNAVAILABLE", effect="holds",
      mark=Mark("telemetry", "alert: no shipped rule", "answer: /readyz of web-1"))
def disk_full(g):
    """The agent's disk is full and its reader away: it takes nothing, and drops nothing."""
    state = Floor(g, agent={"disk_size": 48 << 20})
    agent, colony = state.agent, state.colony
    state.establish()
    state.begin()
    agent.unplug()
    agent.disk.fill()
    refused = None
    for _ in range(400):
        refused = agent.send(20, size=20_000)
        if not refused.is_ok:
            break
    colony_world.noticed(g, [agent], r'tidemark_rpc_calls_total\{code="[1-9]|refused|full',
                         log="full|space|store", told=colony_world.daemon_is_unready(agent))
    agent.plug()
    agent.disk.free()
    g.healed(lambda: agent.send(1).is_ok, "the agent takes records again", 60)
    state.heal()
    colony.note()
    g.data(not colony.lost(agent), f"unread records were dropped: {colony.lost(agent)}")
    is_gone = refused.status == 503 and refused.json.get("code") == 14  # gRPC's UNAVAILABLE
    return "refuses E_UNAVAILABLE" if is_gone else g.verdict_of(refused)


@cell(STATE, "clock-ahead", "continues", effect="none",
      reason="retention counts the boot clock of the machine")
def clock_ahead(g):
    return clock(g, 1)


@cell(STATE, "clock-behind", "continues", effect="none",
      reason="retention counts the boot clock of the machine")
def clock_behind(g):
    return clock(g, -1)


def clock(g, hours):
    """The agent's clock jumps while its reader is away: unread records are kept for 50 minutes."""
    state = Floor(g, agent={"hours": 0}, keep=("--keep-for", "1s", "--hard-for", "50m"))
    agent = state.agent
    state.establish()
    state.begin()
    agent.unplug()
    state.more()
    agent.clock.set(hours)
    wait_retention(g, agent)
    agent.plug()
    ended = state.contact()
    for _ in range(5):
        if ended.code == 0:
            break
        ended = state.contact()
    return state.end(ended)
