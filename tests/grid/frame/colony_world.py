"""Agents, a colony that polls them, and clients that send records: the world of telemetry cells.

    client --- agent (SQLite) --- network --- colony --- [network] --- store

The store of a colony is a SQLite file, a PostgreSQL server behind a network, or a DuckDB file.
What clients sent, and what is found in the colony's store in the end, goes into the history for
tests/check/delivery.py. Rows are read by sqlite3 and psql, not by the program (but for DuckDB)."""

import base64
import json
import os
import shutil
import sqlite3
import time

from . import service, waiting
from .grid import AGENT, COLONY
from .store_world import Postgres

STREAM = "load"
LEASE = 2  # seconds of an idle machine; on a busy one a colony renews later, as all limits grow
_PACE = 0.1  # seconds between two looks that cost several calls
_GAP_STATUS = {"permanent": "lost", "void": "void", "recovered": "recovered",
               "detected": "pending", "recovering": "pending"}
_LEDGER = ("first", "head", "stored", "dead", "filtered", "void", "lost", "pending")


class Snapshots:
    """What can happen to the SQLite file of a daemon; `daemon` and `store` are the user's."""

    def backup(self):
        """A backup by the program itself."""
        self.g.copy_store(self.store, self.store + ".backup")

    def snapshot(self):
        """A snapshot of the volume: the files as they are, and all that the host knows of them."""
        self.daemon.stop()
        for suffix in ("", "-wal"):
            if os.path.exists(self.store + suffix):
                shutil.copyfile(self.store + suffix, self.store + ".snapshot" + suffix)
        self._keep_state("snapshot")
        self.daemon.restart()

    def roll_back(self):
        """The volume is as it was: same file, same inode, the host's notes with it."""
        self.daemon.stop()
        for suffix in ("-wal", "-shm"):
            if os.path.exists(self.store + suffix):
                os.remove(self.store + suffix)
        with open(self.store + ".snapshot", "rb") as source, open(self.store, "r+b") as target:
            target.truncate(0)
            shutil.copyfileobj(source, target)
        if os.path.exists(self.store + ".snapshot-wal"):
            shutil.copyfile(self.store + ".snapshot-wal", self.store + "-wal")
        self._keep_state("state", "snapshot")
        self.daemon.restart()

    def _keep_state(self, target, source="state"):
        shutil.rmtree(self.g.path(target), ignore_errors=True)
        if os.path.exists(self.g.path(source)):
            shutil.copytree(self.g.path(source), self.g.path(target))

    def replace_by(self, path):
        """Stop, put another file in place, start."""
        self.daemon.stop()
        self.g.put_file(path, self.store)
        self.daemon.restart()

    def restore(self):
        self.replace_by(self.store + ".backup")

    def wipe(self):
        self.daemon.stop()
        self.g.wipe(self.store)
        self.daemon.restart()


class Agent(Snapshots):
    """An agent and the network in front of its gRPC port."""

    def __init__(self, g, name="web-1", words=(), disk_size=0, hours=None):
        self.g = g
        self.name = name
        self.words = words
        self.disk = g.disk(disk_size) if disk_size else None
        self.store = os.path.join(self.disk.path if self.disk else g.dir, f"{name}.db")
        self.clock = g.clock(hours) if hours is not None else None
        self.sent = 0
        self.daemon = g.daemon(
            name, "agent", "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0", "--name", name,
            "--collect", "0s", *words, store=self.store,
            environment=self.clock.environment(g.environment) if self.clock else None)
        self.net = g.proxy(int(self.daemon.addresses["grpc"].rsplit(":", 1)[1]))

    @property
    def option(self):
        return f"{self.name}={self.net.address}"

    def send(self, count=1, size=0, limit=60):
        """A client gives records to the agent, in one request. Its answer."""
        values = [f"{self.name}.{self.sent + at:06d}" for at in range(1, count + 1)]
        self.sent += count
        calls = [self.g.history.call("client", "send", source=self.name, stream=STREAM, value=value)
                 for value in values]
        answer = self.daemon.call(AGENT + "IngestRecords", {"stream": STREAM, "records": [
            {"data": base64.b64encode((value + " " + "x" * size).encode()).decode()}
            for value in values]}, limit)
        got = answer.json if answer.is_ok else {}
        for at, call in enumerate(calls):
            self.g.history.note(call, answer, session=got.get("sessionId"),
                                epoch=int(got.get("epoch", 0)),
                                number=int(got.get("firstSeqId", 0)) + at)
        return answer

    def must_send(self, count=1, size=0):
        answer = self.send(count, size)
        self.g.require(answer.is_ok, f"the agent takes records: {answer}")
        return answer.json

    def read(self, after=0, limit=60, max_records=0, **position):
        """A client reads the stream by number."""
        return self.daemon.call(AGENT + "QueryRecords", {
            "stream": STREAM, "start_seq_id": after, "max_records": max_records,
            "position": position}, limit)

    def must_read(self, after=0, **position):
        answer = self.read(after, **position)
        self.g.require(answer.is_ok, f"the agent answers: {answer}")
        return answer.json

    def state(self):
        """What the agent says of the stream."""
        answer = self.daemon.call(AGENT + "ListStreams")
        self.g.require(answer.is_ok, f"the agent lists its streams: {answer}")
        found = [s for s in answer.json.get("streams", []) if s.get("stream") == STREAM]
        return found[0] if found else {}

    def head(self):
        return int(self.state().get("headSeqId", 0))

    # ---- faults, and what the history has to know of them ----

    def backup(self):
        head = self.head()
        super().backup()
        self.g.history.found("operator", "backup", source=self.name, stream=STREAM, head=head)

    def snapshot(self):
        head = self.head()
        super().snapshot()
        self.g.history.found("operator", "backup", source=self.name, stream=STREAM, head=head)

    def restore(self):
        super().restore()
        self.g.history.found("operator", "cut", source=self.name, kind="restore")

    def roll_back(self):
        super().roll_back()
        self.g.history.found("operator", "cut", source=self.name, kind="rollback")

    def wipe(self):
        super().wipe()
        self.g.history.found("operator", "cut", source=self.name, kind="wipe")

    def forgets(self):
        """For the history: this agent drops what was not read in time."""
        self.g.history.found("operator", "forget", source=self.name)

    def unplug(self):
        """Cut off from the colony: connections are refused."""
        self.net.refuse()

    def plug(self):
        self.net.allow()

    def stop_before(self, number):
        """The answer that has this record is lost, and the agent cannot be reached from then on: a
        colony has read a part, and knows of the rest."""
        self.net.lose_answer(f"{self.name}.{number:06d}".encode(), all_connections=True,
                             refuse=True)


class Colony(Snapshots):
    """A colony and its store."""

    def __init__(self, g, agents, engine="sqlite", name="colony", words=(), disk_size=0, hours=None,
                 standby=False, pg=None, start=True, lease=None):
        self.g = g
        self.name = name
        self.agents = list(agents)
        self.engine = engine
        self.pg = pg
        self.disk = g.disk(disk_size) if disk_size else None
        self.clock = g.clock(hours) if hours is not None else None
        place = self.disk.path if self.disk else g.dir
        if engine == "postgres":
            self.pg = pg or Postgres(g, standby=standby, start=False)
            self.store = self.pg.url
        elif engine == "duckdb":
            self.store = "duckdb:" + os.path.join(place, f"{name}.duck")
        else:
            self.store = os.path.join(place, f"{name}.db")
        self.words = ["colony", "--http", "127.0.0.1:0", "--name", name,
                      "--lease", lease or f"{round(1000 * LEASE * waiting.slowness())}ms",
                      "--recover-every", "1s", *words]
        for agent in self.agents:
            self.words += ["--agent", agent.option]
        self.daemon = None
        if start:
            self.start()

    def start(self):
        self.daemon = self.g.daemon(
            self.name, *self.words, store=self.store,
            environment=self.clock.environment(self.g.environment) if self.clock else None)
        return self

    def call(self, method, message=None, limit=60):
        return self.daemon.call(COLONY + method, message, limit)

    def query(self, sql):
        """Rows of the colony's store, as lists."""
        if self.engine == "postgres":
            out = self.pg_server().sql(f"SELECT row_to_json(q) FROM ({sql}) q")
            return [list(json.loads(line).values()) for line in out.splitlines()]
        if self.engine == "duckdb":
            out = self.g.must("query", sql, "--json", store=self.store)
            return [list(json.loads(line).values()) for line in out.splitlines()]
        with sqlite3.connect(f"file:{self.store}?mode=ro", uri=True, timeout=20) as connection:
            return [list(row) for row in connection.execute(sql)]

    def pg_server(self):
        return self.pg.standby if self.pg.direct_url != self.pg.server.url() else self.pg.server

    # ---- what it knows ----

    def poll(self, limit=120):
        """The command that waits until everything is read."""
        words = ["colony", "poll", "--once"]
        if self.engine == "postgres":
            words += ["--address", self.daemon.address]
            return self.g.tidemark(*words, limit=limit)
        return self.g.tidemark(*words, store=self.store, limit=limit)

    def agent(self, name, limit=2):
        """An agent as the status command shows it; None if it does not answer."""
        answer = self.call("ListAgents", limit=limit)
        if not answer.is_ok:
            return None
        return next((a for a in answer.json.get("agents", []) if a["agent_id"] == name), None)

    def position(self, agent):
        """(session, epoch, last number, head) of the open position."""
        found = self.query("SELECT session_id, epoch, last_seq_id, head_seq_id FROM "
                           "polling_checkpoints WHERE closed_at IS NULL AND data_type = "
                           f"'{STREAM}' AND agent_id = '{agent.name}'")
        return tuple(found[0]) if found else None

    def gaps(self, agent=None):
        """(agent, session, epoch, first, last, status, reason), by number."""
        rows = self.query("SELECT agent_id, session_id, epoch, start_seq_id, end_seq_id, status, "
                          f"reason FROM sequence_gaps WHERE data_type = '{STREAM}' ORDER BY id")
        return [row for row in rows if agent is None or row[0] == agent.name]

    def lost(self, agent):
        return [gap for gap in self.gaps(agent) if gap[5] == "permanent"]

    def has_read(self, agent):
        """Whether the position is at the agent's head."""
        time.sleep(_PACE)
        try:
            position = self.position(agent)
        except (sqlite3.Error, RuntimeError):
            return False
        state = agent.state()
        return bool(position) and position[2] == int(state.get("headSeqId", 0)) and \
            position[1] == int(state.get("epoch", 0))

    def take_again(self):
        """Stop and start: the colony takes new leases of its agents, with higher tokens."""
        self.daemon.stop()
        self.daemon.restart()
        self.wait_holds()

    def wait_holds(self):
        for agent in self.agents:
            waiting.wait_for(
                lambda agent=agent: (self.agent(agent.name) or {}).get("holder") == self.name, 30,
                f"{self.name} holds {agent.name}")

    def wait_read(self, *agents, limit=60):
        for agent in agents or self.agents:
            waiting.wait_for(lambda agent=agent: self.has_read(agent), limit,
                             f"the colony has read {agent.name} to its head")

    # ---- the end ----

    def note(self):
        """What is in the store, for the checker."""
        history, g = self.g.history, self.g
        text = {"postgres": "convert_from(data, 'UTF8')", "duckdb": "decode(data)"}.get(
            self.engine, "CAST(data AS TEXT)")
        for agent, session, epoch, number, value in self.query(
                f"SELECT agent_id, session_id, epoch, seq_id, {text} AS value FROM records "
                f"WHERE data_type = '{STREAM}'"):
            history.found("sink", "stored", source=agent, stream=STREAM, session=session,
                          epoch=epoch, number=number, value=value.split()[0])
        for agent, session, epoch, first, last, status, reason in self.gaps():
            history.found("sink", "gap", source=agent, stream=STREAM, session=session, epoch=epoch,
                          first=first, last=last, status=_GAP_STATUS[status], reason=reason)
        audit = self.audit()
        for line in audit:
            if line["data_type"] == STREAM:
                history.found("sink", "ledger", source=line["agent_id"], stream=STREAM,
                              session=line["session_id"], epoch=line["epoch"],
                              **{name: line["ledger"][name] for name in _LEDGER})
        g.check("delivery")

    def audit(self):
        store = self.pg.direct_url if self.engine == "postgres" else self.store
        ended = self.g.tidemark("colony", "audit", "--offline", "--json", store=store)
        self.g.require(ended.code in (0, 8), f"colony audit: {ended}")
        lines = [json.loads(line) for line in ended.out.splitlines()]
        bad = [line for line in lines if not line["balanced"]]
        self.g.data(not bad, f"colony audit: {bad[0]['agent_id'] if bad else ''} "
                             f"{bad[0]['finding'] if bad else ''}")
        return lines


def begin_fault(g, daemons, *names, known=()):
    g.begin_fault([one.daemon for one in daemons], names, known)


def noticed(g, parties, metric, **options):
    g.noticed([one.daemon for one in parties], metric, **options)


def agent_is_told(colony, agent):
    """For noticed(told=...): the status command does not call the agent healthy without a word."""

    def look():
        time.sleep(_PACE)
        found = colony.agent(agent.name)
        return found is not None and (found.get("health") != "healthy" or bool(found.get("error")))

    return look, f"colony agent ls calls {agent.name} healthy and names no error"


def store_epoch(colony):
    return colony.g.must_json("store", "info", store=colony.store)["epoch"]


def agent_is_unhealthy(colony, agent, epoch):
    """The same for an agent that refuses the colony: it is not healthy, or the colony has found a
    way, and its store has begun an epoch since."""

    def look():
        time.sleep(_PACE)
        found = colony.agent(agent.name)
        return found is not None and (found.get("health") != "healthy" or
                                      store_epoch(colony) > epoch)

    return look, f"colony agent ls calls {agent.name} healthy"


def colony_is_unready(colony):
    """For noticed(told=...): /readyz of the colony reports that its store is away."""
    return (lambda: service.request(colony.daemon.address, "GET", "/readyz", limit=2).status == 503,
            "/readyz of the colony does not report that the store is away")


def daemon_is_unready(party):
    return (lambda: service.request(party.daemon.address, "GET", "/readyz", limit=2).status == 503,
            f"/readyz of {party.daemon.name} does not report it")
