"""The faults of the columns for states between a colony and an agent (colony_world.py).

A state is a class like Reading. The functions below plant a fault between its establishing and the
next contact, look whether it is noticed, heal it, and return the verdict that they observed. Those
that begin with agent_ hit the agent, those with colony_ the colony or its store."""

from . import colony_world, waiting
from .colony_world import Agent, Colony, begin_fault, noticed

FAILED = r'tidemark_colony_failures_total\{agent_id="web-1"'
NOT_STORED = r"checkpoint_update_failures_total|tidemark_colony_(failures|store)"
EPOCH = r"epoch|session|position|sequence_gaps"
LOSS = r'sequence_gaps_permanent_total\{agent_id="web-1"'
CLOCK = r"clock"
STORE = "store|postgres"
SMALL_DISK = 32 << 20
LONG_LEASE = "60s"


class Reading:
    """An agent, a colony that has read it, and clients that send on."""

    heal_limit = 60

    def __init__(self, g, agent=None, colony=None):
        self.g = g
        self.agent = Agent(g, **(agent or {}))
        self.colony = Colony(g, [self.agent], **(colony or {}))
        self.before = None

    def establish(self):
        self.agent.must_send(10)
        self.colony.wait_read()
        self.before = self.colony.position(self.agent)

    def begin(self):
        """The fault begins here."""
        begin_fault(self.g, [self.agent, self.colony], *self.names)

    @property
    def names(self):
        return (self.agent.name,)

    def renew(self):
        """What happens to the state between a backup and its use."""

    def connect(self):
        """Contact becomes possible, where the state was made without one."""

    def next_value(self):
        """The record that the next contact brings."""
        return f"{self.agent.name}.{self.agent.sent + 1:06d}"

    def contact(self):
        return self.colony.poll()

    def more(self):
        """Records that come while the fault lasts."""
        self.agent.must_send(5)

    def is_well(self):
        return self.colony.has_read(self.agent)

    def heal(self):
        self.g.healed(self.is_well, "all records are read", self.heal_limit)

    def verdict(self, ended):
        """What became of the position."""
        lost = self.colony.lost(self.agent)
        if lost:
            return f"gap {lost[0][6]}"
        if ended.code != 0:
            return f"refuses exit {ended.code}"
        after = self.colony.position(self.agent)
        return "continues" if after[:2] == self.before[:2] else "begins an epoch"

    def end(self, ended):
        """Heal, note what is found, and give the verdict."""
        self.heal()
        self.colony.note()
        return self.verdict(ended)


# ---- the agent ----


def agent_older(g, make):
    """The agent is restored to a backup; the colony has read more than it has now."""
    state = make(g)
    agent, colony = state.agent, state.colony
    state.establish()
    agent.backup()
    state.renew()
    state.more()
    colony.wait_read()
    state.before = colony.position(agent)
    state.begin()
    agent.restore()
    state.more()
    ended = state.contact()
    noticed(g, [colony], EPOCH, log=agent.name)
    return state.end(ended)


def agent_wiped(g, make):
    """The agent's store is deleted; all of it had been read."""
    state = make(g)
    state.establish()
    state.begin()
    state.agent.wipe()
    state.more()
    state.connect()
    ended = state.contact()
    noticed(g, [state.colony], EPOCH, log=state.agent.name)
    return state.end(ended)


def agent_away_before(g, make):
    """The agent cannot be reached, and takes records."""
    state = make(g)
    agent, colony = state.agent, state.colony
    state.establish()
    state.begin()
    agent.unplug()
    state.more()
    ended = state.contact()
    g.answers(agent.name in ended.err, f"the command does not name the agent: {ended}")
    noticed(g, [colony], FAILED, log=agent.name,
            told=colony_world.agent_is_told(colony, agent))
    agent.plug()
    return state.end(ended)


def agent_away_during(g, make):
    """The agent is killed while it is asked."""
    state = make(g)
    agent, colony = state.agent, state.colony
    state.establish()
    state.begin()
    agent.net.hold()
    state.more()
    state.connect()
    command = g.start("colony", "poll", "--once", "--address", colony.daemon.address)
    waiting.wait_for(agent.net.held.is_set, 30, "the colony asks the agent")
    agent.daemon.kill()
    agent.net.release()
    ended = g.ended(command)
    g.answers(agent.name in ended.err, f"the command does not name the agent: {ended}")
    noticed(g, [colony], FAILED, log=agent.name,
            told=colony_world.agent_is_told(colony, agent))
    agent.daemon.restart()
    return state.end(ended)


def agent_hung(g, make):
    """The agent hangs: it accepts connections and answers nothing."""
    state = make(g)
    agent, colony = state.agent, state.colony
    state.establish()
    state.more()
    state.begin()
    agent.daemon.pause()
    state.connect()
    ended = state.contact()
    g.answers(agent.name in ended.err, f"the command does not name the agent: {ended}")
    noticed(g, [colony], FAILED, log=agent.name,
            told=colony_world.agent_is_told(colony, agent))
    agent.daemon.resume()
    return state.end(ended)


def agent_answer_lost(g, make):
    """The agent's answer to a poll does not reach the colony, which asks again. Its lease is not
    the matter here, and must not run out when a busy machine renews it late: then the series of the
    agent would vanish until the colony has it again."""
    state = make(g, colony={"lease": LONG_LEASE})
    agent = state.agent
    state.establish()
    state.begin()
    agent.net.lose_answer(state.next_value().encode(), all_connections=True)
    state.more()
    state.connect()
    waiting.wait_for(agent.net.lost.is_set, 30, "an answer was lost")
    ended = state.contact()
    return state.end(ended)


def agent_clock(g, make, hours):
    """The agent's wall clock jumps."""
    state = make(g, agent={"hours": 0})
    state.establish()
    state.begin()
    state.agent.clock.set(hours)
    state.more()
    state.connect()
    ended = state.contact()
    noticed(g, [state.colony, state.agent], CLOCK, log="clock")
    return state.end(ended)


# ---- the colony and its store ----


def colony_older(g, make, **options):
    """The colony's store is restored to a backup."""
    state = make(g, **options)
    agent, colony = state.agent, state.colony
    agent.must_send(1)
    colony.wait_read()
    colony.backup()
    state.renew()
    state.establish()
    begin_fault(g, [agent, colony])  # a colony that restarts begins its series anew
    colony.restore()
    state.more()
    ended = state.contact()
    noticed(g, [colony], EPOCH + "|repeated|stored_records", log="epoch|restored")
    return state.end(ended)


def colony_rolled_back(g, make):
    """The colony's volume is restored from a snapshot; nothing on the host shows it."""
    state = make(g)
    agent, colony = state.agent, state.colony
    agent.must_send(1)
    colony.wait_read()
    colony.snapshot()
    state.renew()
    state.establish()
    begin_fault(g, [agent, colony])
    epoch = colony_world.store_epoch(colony)
    colony.roll_back()
    state.more()
    ended = state.contact()
    noticed(g, [colony], EPOCH + "|reader|failures", log=agent.name,
            told=colony_world.agent_is_unhealthy(colony, agent, epoch))
    return state.end(ended)


def colony_commit_lost(g, make):
    """PostgreSQL commits what a poll brought; the answer is lost, with all connections."""
    state = make(g, colony={"engine": "postgres"})
    colony = state.colony
    state.establish()
    state.begin()
    colony.pg.lose_commit(state.agent.name + ".0")  # the records that clients sent
    state.more()
    state.connect()
    waiting.wait_for(colony.pg.net.lost.is_set, 30, "an answer was lost")
    ended = state.contact()
    noticed(g, [colony], NOT_STORED, log=STORE)
    return state.end(ended)


def press_colony(state):
    """Records come until the colony cannot store them."""

    def is_full():
        state.agent.must_send(50, size=20_000)
        return _failures(state.colony) > 0

    waiting.wait_for(is_full, 60, "the colony cannot store what it reads")


def _failures(colony):
    samples = colony.daemon.watch.newest() or {}
    return sum(value for series, value in samples.items()
               if series.name == "checkpoint_update_failures_total")


def colony_disk_full(g, make):
    """The disk of the colony's store is full."""
    state = make(g, colony={"disk_size": SMALL_DISK})
    colony = state.colony
    state.establish()
    state.begin()
    colony.disk.fill()
    state.connect()
    press_colony(state)
    ended = state.contact()
    noticed(g, [colony], NOT_STORED, log="full|space|" + STORE,
            told=colony_world.colony_is_unready(colony))
    colony.disk.free()
    return state.end(ended)


def colony_clock(g, make, hours):
    """The colony's wall clock jumps."""
    state = make(g, colony={"hours": 0})
    state.establish()
    state.begin()
    state.colony.clock.set(hours)
    state.more()
    state.connect()
    ended = state.contact()
    noticed(g, [state.colony], CLOCK, log="clock")
    return state.end(ended)


def colony_promoted(g, make):
    """The primary of the colony's store dies, the standby is promoted; nothing is lost."""
    state = make(g, colony={"engine": "postgres", "standby": True})
    colony = state.colony
    state.establish()
    state.begin()
    colony.pg.fail_over()
    state.more()
    state.connect()
    ended = _contact_until_answered(state)
    noticed(g, [colony], EPOCH, log="epoch|failover|promoted")
    return state.end(ended)


def colony_returned(g, make):
    """The old primary returns, without the epoch that the colony works in: it is refused until the
    network leads to the new one again."""
    state = make(g, colony={"engine": "postgres", "standby": True})
    colony = state.colony
    state.establish()
    colony.pg.fail_over()
    state.more()
    colony.wait_read()
    state.begin()
    colony.pg.return_old_primary()
    state.more()
    ended = state.contact()
    noticed(g, [colony], r'tidemark_store_failures_total\{.*"E_MISMATCH"', log="epoch",
            told=colony_world.colony_is_unready(colony))
    refused = state.verdict(ended)
    colony.pg.lead_to_standby()
    state.end(state.contact())
    return refused


def _contact_until_answered(state):
    """A poll may be refused while the colony finds its store again."""
    ended = state.contact()
    for _ in range(5):
        if ended.code == 0:
            break
        ended = state.contact()
    return ended


def is_missed(state):
    """The colony cannot report that it is gone. The agent's command shows what its reader has not
    read, and alert rules must fire."""
    g, agent = state.g, state.agent
    g.is_missed(state.colony.daemon, "the colony is gone: its supervisor logs that, not the agent")
    shown = g.must_json("feed", "show", colony_world.STREAM, store=agent.store)
    g.answers(shown["lag"] > 0, f"feed show reports no lag of a reader: {shown}")


def colony_away_before(g, make):
    """The colony is killed; records come meanwhile."""
    state = make(g)
    colony = state.colony
    state.establish()
    begin_fault(g, [state.agent, colony])
    colony.daemon.kill()
    state.more()
    is_missed(state)
    colony.daemon.restart()
    return state.end(state.contact())


def colony_away_during(g, make):
    """The colony is killed while it is answered."""
    state = make(g)
    agent, colony = state.agent, state.colony
    state.establish()
    begin_fault(g, [state.agent, colony])
    agent.net.lose_answer(state.next_value().encode())
    state.more()
    waiting.wait_for(agent.net.lost.is_set, 30, "the agent has answered")
    colony.daemon.kill()
    is_missed(state)
    colony.daemon.restart()
    return state.end(state.contact())


def colony_hung(g, make):
    """The colony hangs; records come meanwhile."""
    state = make(g)
    colony = state.colony
    state.establish()
    state.begin()
    colony.daemon.pause()
    state.more()
    is_missed(state)
    colony.daemon.resume()
    return state.end(state.contact())
