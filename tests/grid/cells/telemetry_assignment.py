"""agent-assignment: which colony polls which agent, as the registry of a store knows it by leases.
The other side is the memory of each colony. Contact is a commit under the lease's token. Two
colonies share the agents of a PostgreSQL store, each with a network of its own to it."""

from frame import colony_faults, colony_world, service
from frame.colony_faults import NOT_STORED, STORE, Reading
from frame.colony_world import Agent, Colony
from frame.store_world import Postgres
from frame.table import Mark, cannot, cell

STATE = "agent-assignment"
NO_LOG = "log: no line"
MOVED = r'tidemark_colony_agents|checkpoint_lag_seconds\{agent_id='


class Fleet:
    """Two agents, and two colonies that share them."""

    def __init__(self, g, hours=None, standby=False, second="colony-b"):
        self.g = g
        self.pg = Postgres(g, hours=hours, standby=standby, start=False)
        self.agents = [Agent(g, "web-1"), Agent(g, "web-2")]
        self.colonies = []
        self.nets = []
        for name in ("colony-a", second):
            self.add(name)
        self.send()
        self.wait_read()
        g.wait(self.is_shared, 60, "each colony has an agent")

    def add(self, name):
        net = self.g.proxy(self.pg.server)
        self.nets.append(net)
        colony = Colony(self.g, self.agents, "postgres", name=name, pg=self.pg, start=False)
        colony.store = self.pg.server.url(port=net.port)
        self.colonies.append(colony.start())
        return colony

    def holders(self):
        """{agent: colony}, as the registry has it."""
        rows = self.colonies[0].query(
            "SELECT replace(name, 'colony/agent/', ''), holder FROM leases WHERE name LIKE "
            "'colony/agent/%' AND holder IS NOT NULL")
        return {name: holder for name, holder in rows}

    def is_shared(self):
        return len(set(self.holders().values())) == 2

    def holder_of(self, agent):
        """(the colony that holds it, the other one, the holder's network)"""
        name = self.holders()[agent.name]
        for at, colony in enumerate(self.colonies):
            if name == colony.name:
                return colony, self.colonies[1 - at], self.nets[at]
        raise RuntimeError(f"nobody is called {name}")

    def send(self, count=5):
        for agent in self.agents:
            agent.must_send(count)

    def has_read(self):
        return all(self.colonies[0].has_read(agent) for agent in self.agents)

    def wait_read(self):
        self.g.wait(self.has_read, 60, "all agents are read to their heads")

    def begin(self, *names):
        colony_world.begin_fault(self.g, self.agents + self.colonies, *names)

    def end(self, limit=60):
        """All records are there once."""
        self.g.healed(self.has_read, "all agents are read to their heads", limit)
        self.colonies[0].note()
        return "continues" if not any(self.colonies[0].lost(a) for a in self.agents) else \
            "gap in the ledger"


def is_taken_over(g, agent, holder, other):
    """The other colony polls the agent, says so, and is named as its holder."""

    def look():
        found = other.agent(agent.name)
        return found is not None and found.get("holder") == other.name

    colony_world.noticed(g, [other], f'agent_id="{agent.name}"', log=f"{agent.name}|{holder.name}",
                         told=(look, f"colony agent ls does not name {other.name} as the holder"))


cannot(STATE, "other-older", "the other side is the memory of a process, which no backup has; "
       "a colony that slept past its lease is the cell hung")


@cell(STATE, "this-older", "continues", mark=Mark("telemetry", "verdict: refuses exit 6"))
def this_older(g):
    """The registry is restored to a backup from before the lease was taken."""
    return colony_faults.colony_older(g, Reading)


@cell(STATE, "this-older", "continues", variant="running", effect="holds", limit=400,
      mark=Mark("telemetry", NO_LOG, "metric: no metric",
                "alert: no shipped", "series: checkpoint_lag_seconds",
                "scrape: /metrics of colony"))
def this_older_running(g):
    """The same on PostgreSQL, while the colonies run."""
    fleet = Fleet(g)
    for net in fleet.nets:
        net.refuse()
    fleet.pg.backup()
    for net in fleet.nets:
        net.allow()
    fleet.send()
    fleet.wait_read()
    fleet.begin("web-1", "web-2")
    for net in fleet.nets:
        net.refuse()
    fleet.pg.restore()
    for net in fleet.nets:
        net.allow()
    fleet.send()
    colony_world.noticed(g, fleet.colonies, "epoch", log="epoch|restored")
    return fleet.end()


@cell(STATE, "other-wiped", "continues", effect="none",
      reason="a colony begins without memory at every start, and takes its agents by leases")
def other_wiped(g):
    """The colony is killed and started again: its lease of before is another process's."""
    state = Reading(g)
    state.establish()
    colony_world.begin_fault(g, [state.agent, state.colony])
    state.colony.daemon.kill()
    state.more()
    state.colony.daemon.restart()
    g.healed(state.is_well, "all records are read", 30)
    state.colony.note()
    return "continues"


@cell(STATE, "other-copied", "continues")
def other_copied(g):
    """A second colony of the same name is started on the same store."""
    fleet = Fleet(g)
    fleet.begin("web-1", "web-2")
    twin = fleet.add("colony-a")
    fleet.send()
    colony_world.noticed(g, fleet.colonies, MOVED, log="colony-a")
    g.answers(twin.daemon.is_running, "the second one has ended")
    return fleet.end()


@cell(STATE, "promoted", "continues", effect="holds",
      mark=Mark("telemetry", "metric: no metric", NO_LOG, "alert: no shipped",
                "series: checkpoint_lag_seconds", "scrape: /metrics of colony"))
def promoted(g):
    """The standby of the registry is promoted."""
    fleet = Fleet(g, standby=True)
    fleet.begin("web-1", "web-2")
    fleet.pg.server.wait_caught_up(fleet.pg.standby)
    for net in fleet.nets:
        net.refuse()
    fleet.pg.fail_over()
    for net in fleet.nets:
        net.target = fleet.pg.standby.port
        net.allow()
    fleet.send()
    colony_world.noticed(g, fleet.colonies, "epoch", log="epoch|failover|promoted")
    return fleet.end()


@cell(STATE, "away-before", "continues")
def away_before(g):
    """A colony is killed; the other takes its agent when the lease has run out."""
    fleet = Fleet(g)
    agent = fleet.agents[0]
    holder, other, _ = fleet.holder_of(agent)
    fleet.begin()
    holder.daemon.kill()
    fleet.send()
    is_taken_over(g, agent, holder, other)
    got = fleet.end()
    holder.daemon.restart()
    g.healed(fleet.is_shared, "each colony has an agent", 30)
    return got


@cell(STATE, "away-before", "continues", effect="holds", variant="store", limit=300)
def away_before_store(g):
    """The registry itself is away: PostgreSQL is stopped."""
    return store_fault(g, lambda pg: pg.away(), lambda pg: pg.back())


@cell(STATE, "away-before", "continues", effect="holds", variant="start", limit=300)
def away_before_start(g):
    """The registry is away when the colony starts: the colony reports it, and waits."""
    state = Reading(g, colony={"engine": "postgres"})
    colony = state.colony
    state.establish()
    colony_world.begin_fault(g, [state.agent, colony])
    colony.daemon.stop()
    colony.pg.away()
    colony.daemon.restart()
    state.more()
    colony_world.noticed(g, [colony], "tidemark_colony_store_up", log=STORE,
                         told=colony_world.colony_is_unready(colony))
    health = service.request(colony.daemon.address, "GET", "/healthz", limit=5)
    g.answers(health.status == 200, f"/healthz of the colony: {health}")
    colony.pg.back()
    state.heal()
    colony.note()
    return state.verdict(state.contact())


@cell(STATE, "hung", "continues", effect="holds", variant="store", limit=300)
def hung_store(g):
    """The registry itself hangs: PostgreSQL gets SIGSTOP."""
    return store_fault(g, lambda pg: pg.hang(), lambda pg: pg.unhang())


def store_fault(g, begin, end):
    state = Reading(g, colony={"engine": "postgres"})
    colony = state.colony
    state.establish()
    state.begin()
    begin(colony.pg)
    state.more()
    colony_world.noticed(g, [colony], NOT_STORED + "|lag", log=STORE,
                         told=colony_world.colony_is_unready(colony))
    health = service.request(colony.daemon.address, "GET", "/healthz", limit=5)
    g.answers(health.status == 200, f"/healthz of the colony: {health}")
    end(colony.pg)
    state.heal()
    colony.note()
    return state.verdict(state.contact())


@cell(STATE, "away-during", "continues")
def away_during(g):
    """A colony is killed while its commit is under way; the other one takes over."""
    fleet = Fleet(g)
    agent = fleet.agents[0]
    holder, other, net = fleet.holder_of(agent)
    fleet.begin()
    net.hold()
    fleet.send()
    g.wait(net.held.is_set, 30, "the colony speaks to PostgreSQL")
    holder.daemon.kill()
    net.release()
    is_taken_over(g, agent, holder, other)
    return fleet.end()


@cell(STATE, "hung", "continues", mark=Mark("telemetry", NO_LOG))
def hung(g):
    """A colony hangs past its lease; the other takes over, and the first changes nothing more."""
    fleet = Fleet(g)
    agent = fleet.agents[0]
    holder, other, _ = fleet.holder_of(agent)
    fleet.begin()
    holder.daemon.pause()
    fleet.send()
    is_taken_over(g, agent, holder, other)
    g.wait(fleet.has_read, 60, "the other colony reads")
    holder.daemon.resume()
    fleet.send()
    g.healed(fleet.is_shared, "each colony has an agent", 30)
    return fleet.end()


@cell(STATE, "answer-lost", "continues",
      mark=Mark("telemetry", NO_LOG, "series: checkpoint_lag_seconds"))
def answer_lost(g):
    """The answer to a colony's COMMIT is lost, with its connections."""
    fleet = Fleet(g)
    holder, _, net = fleet.holder_of(fleet.agents[0])
    fleet.begin("web-1", "web-2")
    net.lose_answer(rb"C\x00\x00\x00\x0bCOMMIT\x00", all_connections=True)
    fleet.send()
    g.wait(net.lost.is_set, 30, "an answer was lost")
    colony_world.noticed(g, [holder], NOT_STORED + "|lease", log=STORE)
    return fleet.end()


@cell(STATE, "disk-full", "refuses exit 6", effect="holds")
def disk_full(g):
    """The registry's disk is full for longer than a lease."""
    return colony_faults.colony_disk_full(g, Reading)


@cell(STATE, "clock-ahead", "continues", effect="none",
      reason="leases are taken over as fast as before: the answer is the same")
def clock_ahead(g):
    return clock(g, 1)


@cell(STATE, "clock-behind", "continues", effect="none",
      reason="leases are taken over as fast as before: the answer is the same")
def clock_behind(g):
    return clock(g, -1)


def clock(g, hours):
    """The clock of the PostgreSQL server jumps; then a colony dies, and the other takes over."""
    fleet = Fleet(g, hours=0)
    agent = fleet.agents[0]
    holder, _, _ = fleet.holder_of(agent)
    fleet.begin()
    fleet.pg.server_clock.set(hours)
    fleet.send()
    g.wait(fleet.has_read, 60, "reading goes on")
    # A lease from before the jump lasts as long as the clock went back. The holder renews it.
    g.wait(lambda: fleet.pg.server.sql(
        "SELECT bool_and(expires_at < clock_timestamp() + interval '1 minute') FROM leases "
        "WHERE holder IS NOT NULL") == "t", 30, "leases are renewed by the new time")
    holder.daemon.kill()
    fleet.send()
    return fleet.end(30)
