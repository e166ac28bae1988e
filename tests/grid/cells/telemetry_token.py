"""colony-token: the highest lease token that an agent has seen of a colony. The other side is the
colony's store, which issues tokens. Contact is a poll after a restart of the colony: it comes with
a new token."""

import os

from frame import colony_faults, colony_world
from frame.colony_faults import FAILED, Reading
from frame.colony_world import Colony
from frame.table import Mark, cell

STATE = "colony-token"
NO_LOG = "log: no line"
LOCKED_OUT = ("verdict: refuses exit 6", "heal: all records are read", "data: delivery: lost")
ABSENT = ("alert: no shipped rule",)


class Token(Reading):
    """A colony that has taken its agent several times."""

    heal_limit = 20
    names = ()  # the colony restarts, and its series with it

    def establish(self):
        super().establish()
        self.renew()

    def renew(self):
        """The colony takes a new lease of the agent, with a higher token."""
        self.colony.take_again()


@cell(STATE, "other-older", "continues")
def other_older(g):
    return colony_faults.colony_older(g, Token)


@cell(STATE, "other-older", "continues", variant="rolled-back", limit=300)
def other_older_rolled_back(g):
    """The volume is restored from a snapshot; the store issues tokens that the agent has seen."""
    return colony_faults.colony_rolled_back(g, Token)


@cell(STATE, "this-older", "begins an epoch")
def this_older(g):
    return colony_faults.agent_older(g, Token)


@cell(STATE, "other-wiped", "continues", effect="none",
      reason="an empty store is a reader with a name of its own, and reads what the agent has")
def other_wiped(g):
    """The colony's store is deleted; a new one begins with low tokens."""
    state = Token(g)
    state.establish()
    state.begin()
    state.colony.wipe()
    state.more()
    return state.end(state.contact())


@cell(STATE, "other-copied", "continues", limit=300,
      mark=Mark("telemetry", *LOCKED_OUT, NO_LOG, "answer: colony agent ls", "metric: no metric"))
def other_copied(g):
    """A copy of the colony's store is started on another host; the original goes on."""
    state = Token(g)
    agent, colony = state.agent, state.colony
    state.establish()
    colony.backup()
    copy = Colony(g, [agent], name="copy", start=False)
    os.rename(colony.store + ".backup", copy.store)
    environment = {**g.environment, "TIDEMARK_STATE_DIR": g.path("other-host")}
    state.begin()
    epoch = colony_world.store_epoch(colony)
    copy.daemon = g.daemon("copy", *copy.words, store=copy.store, environment=environment)
    agent.must_send(5)
    copy.wait_read()
    state.more()
    ended = state.contact()
    colony_world.noticed(g, [colony], FAILED + "|reader", log=agent.name,
                         told=colony_world.agent_is_unhealthy(colony, agent, epoch))
    return state.end(ended)


@cell(STATE, "promoted", "continues")
def promoted(g):
    return colony_faults.colony_promoted(g, Token)


@cell(STATE, "promoted", "refuses exit 4", variant="returned", effect="holds")
def returned(g):
    return colony_faults.colony_returned(g, Token)


@cell(STATE, "away-before", "continues", effect="holds")
def away_before(g):
    return colony_faults.colony_away_before(g, Token)


@cell(STATE, "away-during", "continues", effect="holds", mark=Mark("telemetry", *ABSENT))
def away_during(g):
    return colony_faults.colony_away_during(g, Token)


@cell(STATE, "hung", "continues", effect="holds", mark=Mark("telemetry", *ABSENT))
def hung(g):
    return colony_faults.colony_hung(g, Token)


@cell(STATE, "answer-lost", "continues", effect="none",
      reason="the agent has noted the token; the same token is good when it is asked again")
def answer_lost(g):
    """The agent notes a new token, and its answer is lost."""
    state = Token(g)
    agent, colony = state.agent, state.colony
    state.establish()
    state.begin()
    colony.daemon.stop()
    agent.net.lose_answer(state.next_value().encode(), all_connections=True)
    state.more()
    colony.daemon.restart()
    g.wait(agent.net.lost.is_set, 30, "an answer was lost")
    return state.end(state.contact())


@cell(STATE, "disk-full", "continues", effect="holds",
      mark=Mark("telemetry", "alert: no shipped rule", "answer: /readyz of web-1"))
def disk_full(g):
    """The agent's disk is full when a new token comes: reading goes on, and makes room."""
    state = Token(g, agent={"disk_size": 48 << 20, "words": ("--keep-for", "1s")})
    agent, colony = state.agent, state.colony
    state.establish()
    state.begin()
    colony.daemon.stop()
    agent.disk.fill()
    refused = press(g, agent)
    g.answers(refused.status == 503, f"a client that sends is not asked to come again: {refused}")
    colony_world.noticed(g, [agent], r'tidemark_rpc_calls_total\{code="[1-9]|refused|full',
                         log="full|space|store", told=colony_world.daemon_is_unready(agent))
    colony.daemon.restart()
    ended = state.contact()
    agent.disk.free()
    g.healed(lambda: agent.send(1).is_ok, "the agent takes records again", 60)
    return state.end(ended)


def press(g, agent):
    """Send until the agent refuses: its reserve is used up."""
    for _ in range(400):
        answer = agent.send(20, size=20_000)
        if not answer.is_ok:
            return answer
    g.require(False, "a full disk refuses records")
    return None


@cell(STATE, "clock-ahead", "continues", effect="none",
      reason="a token is no time; the colony's clock is judged by colony-position")
def clock_ahead(g):
    return clock(g, 1)


@cell(STATE, "clock-behind", "continues", effect="none",
      reason="a token is no time; the colony's clock is judged by colony-position")
def clock_behind(g):
    return clock(g, -1)


def clock(g, hours):
    """The wall clock of the colony jumps, and it takes a new lease."""
    state = Token(g, colony={"hours": 0})
    state.establish()
    state.begin()
    state.colony.clock.set(hours)
    state.renew()
    state.more()
    return state.end(state.contact())
