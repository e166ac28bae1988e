"""colony-position: how far a colony has read a stream of an agent. The other side is the agent.
Contact is a poll; `colony poll --once` asks the daemon for one."""

from frame import colony_faults, colony_world
from frame.colony_faults import EPOCH, LOSS, Reading
from frame.colony_world import Agent, Colony
from frame.table import Mark, cell

STATE = "colony-position"
MANY = 5000  # records; a page has 1,000
LATE = 3000  # the number of one that the colony does not read


def unread(g, backup_at):
    """A colony that has read a part of MANY records, and knows of the rest. The agent cannot be
    reached. It was backed up when it had so many records."""
    agent = Agent(g)
    colony = Colony(g, [agent])
    agent.must_send(1)
    colony.wait_read()
    colony_world.begin_fault(g, [agent, colony], agent.name)
    agent.unplug()
    if backup_at > 1:
        agent.must_send(backup_at - 1)
    agent.backup()
    agent.must_send(MANY - backup_at)
    agent.stop_before(LATE)
    agent.plug()
    g.wait(agent.net.lost.is_set, 60, "the colony has read a part")
    read = colony.position(agent)
    g.require(1 < read[2] < LATE and read[3] == MANY, f"a part was read: {read}")
    return agent, colony


def end(g, agent, colony):
    """A loss is on record, and reading goes on."""
    agent.must_send(5)
    colony.poll()
    colony_world.noticed(g, [colony], LOSS)
    lost = colony.lost(agent)
    g.answers(lost, "gaps ls shows no loss")
    g.healed(lambda: colony.has_read(agent), "new records are read", 60)
    colony.note()
    return f"gap {lost[0][6]}" if lost else "continues"


@cell(STATE, "other-older", "begins an epoch")
def other_older(g):
    return colony_faults.agent_older(g, Reading)


class DuckDb(Reading):
    """The same with a colony on DuckDB."""

    def __init__(self, g, agent=None, colony=None):
        super().__init__(g, agent, {"engine": "duckdb", **(colony or {})})


@cell(STATE, "other-older", "begins an epoch", variant="duckdb",
      mark=Mark("telemetry", "metric: no metric"))
def other_older_duckdb(g):
    return colony_faults.agent_older(g, DuckDb)


@cell(STATE, "other-older", "gap restored", effect="loses", variant="unread")
def other_older_unread(g):
    """Numbers that the colony knew of and had not read are gone with the restore."""
    agent, colony = unread(g, backup_at=3500)
    agent.restore()
    agent.plug()
    return end(g, agent, colony)


@cell(STATE, "other-older", "gap diverged", effect="loses", variant="ahead")
def other_older_ahead(g):
    """The same; the colony had read beyond the backup."""
    agent, colony = unread(g, backup_at=1)
    agent.restore()
    agent.plug()
    return end(g, agent, colony)


@cell(STATE, "other-older", "begins an epoch", variant="rolled-back")
def other_older_rolled_back(g):
    """The agent's volume is restored from a snapshot; it cannot notice, digests show it."""
    state = Reading(g)
    agent, colony = state.agent, state.colony
    state.establish()
    agent.snapshot()
    state.more()
    colony.wait_read()
    state.before = colony.position(agent)
    state.begin()
    agent.roll_back()
    agent.must_send(8)
    ended = state.contact()
    colony_world.noticed(g, [colony], EPOCH, log=agent.name)
    return state.end(ended)


@cell(STATE, "this-older", "continues")
def this_older(g):
    return colony_faults.colony_older(g, Reading)


@cell(STATE, "this-older", "continues", variant="rolled-back", limit=300)
def this_older_rolled_back(g):
    return colony_faults.colony_rolled_back(g, LockedOut)


class LockedOut(Reading):
    """A colony whose token its agent refuses: it must find a way within one poll."""

    heal_limit = 20

    def renew(self):
        self.colony.take_again()


@cell(STATE, "other-wiped", "gap session changed", effect="loses")
def other_wiped(g):
    """Numbers that the colony knew of and had not read are gone with the agent's store."""
    agent, colony = unread(g, backup_at=1)
    agent.wipe()
    agent.plug()
    return end(g, agent, colony)


@cell(STATE, "other-wiped", "gap session changed", effect="loses", variant="stream-later",
      limit=300, mark=Mark("telemetry", "verdict: continues", "metric: no metric",
                           "answer: gaps ls shows no loss", "heal: new records are read",
                           "data: delivery: lost", "answer: the command does not end",
                           "alert: no shipped", "answer: the command calls",
                           "series: checkpoint_lag_seconds"))
def other_wiped_stream_later(g):
    """The same; the stream is declared again only after the colony has met the new session."""
    agent, colony = unread(g, backup_at=1)
    agent.wipe()
    agent.plug()
    ended = colony.poll()
    g.answers(ended.code != 0 or colony.lost(agent), "the command calls the agent caught up, "
              "and the numbers of the old session are neither lost nor read")
    g.wait(lambda: "session changed" in colony.daemon.log(), 30, "the colony meets the session")
    agent.must_send(5)
    command = g.start("colony", "poll", "--once", store=colony.store)
    colony_world.noticed(g, [colony], LOSS)
    lost = colony.lost(agent)
    g.answers(lost, "gaps ls shows no loss")
    g.healed(lambda: colony.has_read(agent), "new records are read", 20)
    g.answers(not command.is_running, "the command does not end")
    colony.note()
    return f"gap {lost[0][6]}" if lost else "continues"


@cell(STATE, "other-wiped", "begins an epoch", variant="read")
def other_wiped_read(g):
    return colony_faults.agent_wiped(g, Reading)


@cell(STATE, "other-copied", "refuses exit 6", effect="holds")
def other_copied(g):
    """The agent's store is replaced by a copy of another agent's, which the colony polls, too."""
    agent, other = Agent(g), Agent(g, "web-2")
    colony = Colony(g, [agent, other])
    agent.must_send(10)
    other.must_send(10)
    colony.wait_read()
    before = colony.position(agent)
    other.backup()
    kept = agent.store + ".kept"
    colony_world.begin_fault(g, [colony], agent.name)
    agent.daemon.stop()
    g.put_file(agent.store, kept)
    g.put_file(other.store + ".backup", agent.store)
    agent.daemon.restart()
    ended = colony.poll()
    colony_world.noticed(g, [colony], r"tidemark_colony_(hold|failures)",
                         told=colony_world.agent_is_told(colony, agent))
    after = colony.position(agent)
    g.data(after[:2] == before[:2], f"the position is now in session {after[0]} of {other.name}")
    agent.replace_by(kept)
    agent.must_send(5)
    g.healed(lambda: colony.has_read(agent), "all records are read", 60)
    colony.note()
    if ended.code != 0:
        return f"refuses exit {ended.code}"
    return "continues" if after[:2] == before[:2] else "begins an epoch"


@cell(STATE, "promoted", "continues")
def promoted(g):
    return colony_faults.colony_promoted(g, Reading)


@cell(STATE, "promoted", "refuses exit 4", variant="returned", effect="holds")
def returned(g):
    return colony_faults.colony_returned(g, Reading)


@cell(STATE, "away-before", "refuses exit 6", effect="holds")
def away_before(g):
    return colony_faults.agent_away_before(g, Reading)


@cell(STATE, "away-during", "refuses exit 6", effect="holds")
def away_during(g):
    return colony_faults.agent_away_during(g, Reading)


@cell(STATE, "hung", "refuses exit 6", effect="holds",
      mark=Mark("telemetry", "log: no line", "alert: no shipped rule"))
def hung(g):
    return colony_faults.agent_hung(g, Reading)


@cell(STATE, "answer-lost", "continues")
def answer_lost(g):
    return colony_faults.colony_commit_lost(g, Reading)


@cell(STATE, "answer-lost", "continues", effect="none", variant="agent",
      reason="the agent's answer is asked for again at once, and nothing is held up")
def answer_lost_agent(g):
    return colony_faults.agent_answer_lost(g, Reading)


@cell(STATE, "disk-full", "refuses exit 6", effect="holds",
      mark=Mark("telemetry", "log: no line", "alert: no shipped rule",
                "answer: /readyz of the colony", "series: checkpoint_lag_seconds"))
def disk_full(g):
    return colony_faults.colony_disk_full(g, Reading)


@cell(STATE, "disk-full", "refuses exit 6", effect="holds", variant="duckdb",
      mark=Mark("telemetry", "log: no line", "alert: no shipped rule",
                "answer: /readyz of the colony", "series: checkpoint_lag_seconds"))
def disk_full_duckdb(g):
    return colony_faults.colony_disk_full(g, DuckDb)


@cell(STATE, "clock-ahead", "continues",
      mark=Mark("telemetry", "metric: no metric", "log: no line"))
def clock_ahead(g):
    return colony_faults.colony_clock(g, Reading, 1)


@cell(STATE, "clock-behind", "continues",
      mark=Mark("telemetry", "metric: no metric", "log: no line"))
def clock_behind(g):
    return colony_faults.colony_clock(g, Reading, -1)


@cell(STATE, "clock-ahead", "continues", variant="agent",
      mark=Mark("telemetry", "metric: no metric", "log: no line"))
def clock_ahead_agent(g):
    return colony_faults.agent_clock(g, Reading, 1)


@cell(STATE, "clock-behind", "continues", variant="agent",
      mark=Mark("telemetry", "metric: no metric", "log: no line"))
def clock_behind_agent(g):
    return colony_faults.agent_clock(g, Reading, -1)
