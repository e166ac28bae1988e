"""gap-record: numbers that a colony knows to be missing and asks for again. The other side is the
agent that has them, or has them no more. Contact is an attempt to recover the gap: every second."""

from frame import colony_faults, colony_world
from frame.colony_faults import FAILED, LOSS, Reading
from frame.colony_world import Agent
from frame.table import Mark, cell

STATE = "gap-record"
NO_LOG = "log: no line"
HELD = (NO_LOG, "alert: no shipped rule")
FIRST, LAST = 11, 15


class Gap(Reading):
    """A gap of five numbers that an operator has skipped and asks for again. The agent cannot be
    reached until connect()."""

    names = ()  # what is held while the agent is away ends with the contact

    def establish(self):
        g, agent, colony = self.g, self.agent, self.colony
        if agent.sent < 10:
            agent.must_send(10 - agent.sent)
        colony.wait_read()
        colony.daemon.stop()
        agent.must_send(10)
        g.must("colony", "checkpoint", "set", agent.name, colony_world.STREAM, LAST,
               store=colony.store)
        g.must("gaps", "retry", "1", store=colony.store)
        agent.unplug()
        colony.daemon.restart()
        colony.wait_holds()
        gaps = colony.gaps(agent)
        g.require(len(gaps) == 1 and gaps[0][3:6] == [FIRST, LAST, "detected"], f"a gap: {gaps}")
        self.before = colony.position(agent)

    def connect(self):
        self.agent.plug()

    def next_value(self):
        return f"{self.agent.name}.{FIRST:06d}"

    def is_well(self):
        return self.colony.has_read(self.agent) and \
            all(gap[5] == "recovered" for gap in self.colony.gaps(self.agent))


class Lost(Gap):
    """The same; what is missing is gone."""

    def is_well(self):
        return self.colony.has_read(self.agent) and \
            all(gap[5] == "permanent" for gap in self.colony.gaps(self.agent))


def lose(g, state):
    """The numbers are gone for good: the gap becomes a loss, and is filled with nothing else."""
    agent, colony = state.agent, state.colony
    state.more()
    state.connect()
    ended = state.contact()
    colony_world.noticed(g, [colony], LOSS, log=agent.name)
    g.answers(colony.lost(agent), "gaps ls shows no loss")
    return state.end(ended)


@cell(STATE, "other-older", "gap restored", effect="loses")
def other_older(g):
    """The agent is restored to a backup that does not have the numbers. Runs of this
    cell were given either reason, restored or diverged; why it varies is not known."""
    state = Lost(g)
    state.agent.must_send(10)
    state.colony.wait_read()
    state.agent.backup()
    state.establish()
    state.begin()
    state.agent.restore()
    got = lose(g, state)
    return "gap restored" if got == "gap diverged" else got


@cell(STATE, "this-older", "continues", mark=Mark("telemetry", NO_LOG))
def this_older(g):
    """The colony is restored to a backup in which the gap is open."""
    state = Gap(g)
    colony = state.colony
    state.establish()
    g.wait(lambda: colony.query("SELECT count(*) FROM work_items WHERE status = 'completed'")[0][0]
           and not colony.query("SELECT 1 FROM work_items WHERE status = 'in_progress'"), 30,
           "no attempt is under way")
    colony.backup()
    state.connect()
    g.wait(state.is_well, 60, "the gap is recovered")
    state.begin()
    colony.restore()
    state.more()
    ended = state.contact()
    colony_world.noticed(g, [colony], "stored_records|epoch", log="epoch|restored")
    return state.end(ended)


@cell(STATE, "other-wiped", "gap session changed", effect="loses")
def other_wiped(g):
    """The agent's store is deleted."""
    state = Lost(g)
    state.establish()
    state.begin()
    state.agent.wipe()
    return lose(g, state)


@cell(STATE, "other-copied", "gap session changed", effect="loses")
def other_copied(g):
    """The agent's store is replaced by a copy of another's, which has the same numbers."""
    other = Agent(g, "web-2")
    other.must_send(30)
    other.backup()
    state = Lost(g)
    agent, colony = state.agent, state.colony
    state.establish()
    state.begin()
    agent.replace_by(other.store + ".backup")
    state.connect()
    ended = state.contact()
    colony_world.noticed(g, [colony], LOSS, log=agent.name)
    g.answers(colony.lost(agent), "gaps ls shows no loss")
    state.heal()
    rows = colony.query("SELECT seq_id FROM records WHERE session_id = "
                        f"'{state.before[0]}' AND seq_id BETWEEN {FIRST} AND {LAST}")
    g.data(not rows, f"the gap was filled with records of another agent: {rows}")
    colony.audit()
    return state.verdict(ended)


@cell(STATE, "promoted", "continues")
def promoted(g):
    return colony_faults.colony_promoted(g, Gap)


@cell(STATE, "away-before", "refuses exit 6", effect="holds", mark=Mark("telemetry", *HELD))
def away_before(g):
    """The agent is away at more attempts than a gap has."""
    state = Gap(g)
    agent, colony = state.agent, state.colony
    state.establish()
    state.begin()
    state.more()
    ended = state.contact()
    g.answers(agent.name in ended.err, f"the command does not name the agent: {ended}")
    asked = agent.net.accepted
    g.wait(lambda: agent.net.accepted > asked + 4, 60, "the agent is tried five times more")
    colony_world.noticed(g, [colony], FAILED, log=agent.name,
                         told=colony_world.agent_is_told(colony, agent))
    g.data(colony.gaps(agent)[0][5] in ("detected", "recovering"),
           f"the gap was given up: {colony.gaps(agent)}")
    state.connect()
    return state.end(ended)


@cell(STATE, "away-during", "refuses exit 6", effect="holds", mark=Mark("telemetry", *HELD))
def away_during(g):
    return colony_faults.agent_away_during(g, Gap)


@cell(STATE, "hung", "refuses exit 6", effect="holds", mark=Mark("telemetry", *HELD))
def hung(g):
    return colony_faults.agent_hung(g, Gap)


@cell(STATE, "answer-lost", "continues")
def answer_lost(g):
    return colony_faults.colony_commit_lost(g, Gap)


@cell(STATE, "answer-lost", "continues", effect="none", variant="agent",
      reason="a range is asked for again, and nothing else waits for it")
def answer_lost_agent(g):
    return colony_faults.agent_answer_lost(g, Gap)


@cell(STATE, "disk-full", "refuses exit 6", effect="holds",
      mark=Mark("telemetry", *HELD, "answer: /readyz of the colony"))
def disk_full(g):
    return colony_faults.colony_disk_full(g, Gap)


@cell(STATE, "clock-ahead", "continues", mark=Mark("telemetry", "metric: no metric", NO_LOG))
def clock_ahead(g):
    return colony_faults.colony_clock(g, Gap, 1)


@cell(STATE, "clock-behind", "continues", mark=Mark("telemetry", "metric: no metric", NO_LOG))
def clock_behind(g):
    return colony_faults.colony_clock(g, Gap, -1)
