"""Two replicas and an application: what the states of replicas have in common.

    application --- b.db, replica run --- network --- replica serve, a.db --- application

Node b dials node a. Each is a machine of its own, with a state directory, and may have a clock and
a disk of its own. Applications write with the SQLite of Python, which knows nothing of replicas,
and their writes go to the history for the checker `convergence`."""

import json
import os
import shutil
import sqlite3

from . import proxy

TABLE = "todos"
SCHEMA = f"CREATE TABLE {TABLE}(id TEXT PRIMARY KEY NOT NULL, title TEXT)"
SYNCS = r'tidemark_replica_syncs_total\{.*result="(unavailable|failed)"'
EPOCHS = r"tidemark_replica_(log_prefix|pulled|pushed|log_floor|epoch)"


def cell_of(key, column, value):
    quoted = "null:NULL" if value is None else "text:'" + value.replace("'", "''") + "'"
    return f"{TABLE}|'{key}'|{column}|{quoted}"


class Network(proxy.Proxy):
    """A network that can also lose the answer to what has just become true at the other side."""

    def __init__(self, target):
        super().__init__(target)
        self.condition = None

    def lose_answer_after(self, condition):
        """The first answer after condition() is true is lost, and its connection with it."""
        self.lost.clear()
        self.condition = condition

    def must_lose(self, link, data):
        if self.condition is None or not self.condition():
            return super().must_lose(link, data)
        self.condition = None
        link.close()
        self.lost.set()
        return True


class Node:
    """A file with tracked tables, on a machine of its own."""

    def __init__(self, g, name, disk_size=0, hours=None):
        self.g = g
        self.name = name
        self.disk = g.disk(disk_size) if disk_size else None
        self.path = os.path.join(self.disk.path if self.disk else g.dir, name + ".db")
        self.backup_path = g.path(name + ".backup")
        self.clock = g.clock(hours) if hours is not None else None
        base = {**g.environment, "TIDEMARK_STATE_DIR": g.path("state-" + name)}
        self.environment = self.clock.environment(base) if self.clock else base
        self.daemon = None
        self.net = None  # that it dials through
        self.writes = 0

    # ---- the program ----

    def run(self, *words, **options):
        """tidemark replica VERB DB ...: how it ended."""
        return self.g.tidemark("replica", words[0], self.path, *words[1:],
                               environment=self.environment, **options)

    def must(self, *words, **options):
        ended = self.run(*words, **options)
        self.g.require(ended.code == 0, f"replica {' '.join(words)}: {ended}")
        return ended.out

    def status(self):
        return json.loads(self.must("status", "--json"))

    def sync(self, address, **options):
        """One sync by a command: the answer of the cell."""
        return self.run("sync", address, "--json", **options)

    def serve(self):
        self.daemon = self.g.daemon(self.name, "replica", "serve", self.path, "--listen",
                                    "127.0.0.1:0", environment=self.environment)
        return self.daemon

    def run_with(self, address):
        self.daemon = self.g.daemon(self.name, "replica", "run", self.path, "--peer", address,
                                    "--every", "1s", "--listen", "127.0.0.1:0",
                                    environment=self.environment)
        return self.daemon

    def restart(self):
        """Start the daemon again. A node that dials is watched from its first sync on, where its
        peer can be reached: before that its series of the peer are not there."""
        self.daemon.start()
        self.daemon.ready()
        if self.net and not self.net.is_refusing:
            self.g.wait(lambda: "proven_age_seconds{" in self.daemon.get("/metrics").text, 30,
                        f"{self.name} syncs after its restart")
        self.daemon.watch.is_expected = True

    # ---- the file ----

    def backup(self, path=None):
        """A copy of the file as any backup program makes one, while it may be open."""
        path = path or self.backup_path
        if os.path.exists(path):
            os.remove(path)
        source, target = sqlite3.connect(self.path, timeout=60), sqlite3.connect(path)
        with target:
            source.backup(target)
        source.close()
        target.close()
        return path

    def restore(self):
        """Stop, overwrite the file with its backup, start."""
        self.daemon.stop()
        for suffix in ("-wal", "-shm"):
            if os.path.exists(self.path + suffix):
                os.remove(self.path + suffix)
        shutil.copyfile(self.backup_path, self.path)
        self.restart()

    def replace_by(self, path):
        """Stop, put a copy of another file in the place of this one, start."""
        self.daemon.stop()
        self.g.put_file(path, self.path)
        self.restart()

    def wipe(self):
        self.daemon.stop()
        self.g.wipe(self.path)
        shutil.rmtree(self.path + "-snapshots", ignore_errors=True)
        self.restart()

    # ---- the application ----

    def connect(self):
        return sqlite3.connect(self.path, timeout=30)

    def sql(self, *statements):
        """Statements of an application, one transaction."""
        connection = self.connect()
        try:
            with connection:
                for statement in statements:
                    connection.execute(statement)
        finally:
            connection.close()

    def title(self, key):
        """What the table shows; None: no such row."""
        connection = self.connect()
        try:
            row = connection.execute(f"SELECT title FROM {TABLE} WHERE id = ?", (key,)).fetchone()
        except sqlite3.OperationalError:
            return None
        finally:
            connection.close()
        return row[0] if row else None

    def write(self, key, title):
        """An application inserts or overwrites a row."""
        self.writes += 1
        old = self.title(key)
        gone = [cell_of(key, "title", old)] if old is not None and old != title else []
        call = self.g.history.call(self.name, "transaction", node=self.name,
                                   value=f"{self.name} {self.writes}",
                                   new=[cell_of(key, "title", title)], gone=gone)
        connection = self.connect()
        try:
            with connection:
                connection.execute(f"INSERT INTO {TABLE}(id, title) VALUES(?, ?) ON CONFLICT(id) "
                                   "DO UPDATE SET title = excluded.title", (key, title))
            call.ok()
        except sqlite3.OperationalError:
            call.fail()
            raise
        finally:
            connection.close()

    def remove(self, key):
        """An application deletes a row."""
        self.writes += 1
        call = self.g.history.call(self.name, "transaction", node=self.name,
                                   value=f"{self.name} {self.writes}", new=[],
                                   gone=[cell_of(key, "title", self.title(key))])
        self.sql(f"DELETE FROM {TABLE} WHERE id = '{key}'")
        call.ok()

    def rows(self):
        """What the table shows: [(id, title)]; [] where it does not exist."""
        connection = self.connect()
        try:
            return connection.execute(f"SELECT id, title FROM {TABLE} ORDER BY id").fetchall()
        except sqlite3.OperationalError:
            return []
        finally:
            connection.close()

    def note_cut(self):
        self.g.history.found("cutter", "cut", node=self.name)

    def note_state(self):
        """What the file shows in the end, for the checker."""
        rows = self.rows()
        self.g.history.found("reader", "state", node=self.name,
                             rows=[f"{TABLE}|{key}|{title}" for key, title in rows],
                             cells=[cell_of(key, "title", title) for key, title in rows])
        listed = []
        for line in self.must("conflicts", "--json").splitlines():
            one = json.loads(line)
            if one.get("column") and one.get("value") is not None:
                key = one["record_id"]
                key = key[0] if isinstance(key, list) else key
                listed.append(cell_of(str(key).strip('"[]'), one["column"], str(one["value"])))
        self.g.history.found("reader", "listed", node=self.name, cells=listed)


class Pair:
    """Nodes a and b, in sync. a serves, b dials it through a network."""

    def __init__(self, g, a=None, b=None, rows=3, is_retained=True, check=True):
        self.g = g
        self.a = a or Node(g, "a")
        self.b = b or Node(g, "b")
        self.a.sql(SCHEMA)
        self.retain = () if is_retained else ("--retain", "0s")
        self.a.must("track", TABLE, *self.retain)
        for number in range(rows):
            self.a.write(f"r{number}", f"row {number}")
        self.a.serve()
        self.net = Network(int(self.a.daemon.address.rsplit(":", 1)[1]))
        g.proxies.append(self.net)
        self.peer = self.net.address
        self.b.net = self.net
        self.b.run_with(self.peer)
        self.wait_equal()
        if check:
            g.check("convergence")

    @property
    def daemons(self):
        return [self.b.daemon, self.a.daemon]

    def begin_fault(self, *names, may_vanish=False):
        self.g.begin_fault(self.daemons, names or (self.peer,), (TABLE,), may_vanish)

    def noticed(self, metric, **options):
        self.g.noticed(self.daemons, metric, **options)

    def are_equal(self):
        rows = self.a.rows()
        return bool(rows) and rows == self.b.rows()

    def wait_equal(self, limit=30):
        self.g.wait(self.are_equal, limit, "both nodes show the same rows")

    def contact(self, limit=60):
        """A sync by a command, beside the daemon."""
        return self.b.sync(self.peer, limit=limit)

    def unready(self):
        return (lambda: self.b.daemon.readyz().status == 503,
                "/readyz does not report that the peer is away")

    def epoch_of(self, node):
        status = node.status()
        return status["node"], status["epoch"]

    def heals(self, key="healed", limit=30):
        """Without help: a write of each side reaches the other, and both are equal."""
        self.a.write(key + "-a", "of a")
        self.b.write(key + "-b", "of b")
        self.g.healed(lambda: self.are_equal() and self.b.title(key + "-a") == "of a" and
                      self.a.title(key + "-b") == "of b", "both nodes show the same rows", limit)

    def fill(self, node, count=1200):
        """So many events that collection may remove the first of them: 1,000 always stay."""
        prefix = self.g.new_name("x")
        node.sql(f"INSERT INTO {TABLE} WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 "
                 f"FROM n WHERE i < {count}) SELECT '{prefix}-' || i, NULL FROM n")

    def fill_and_collect(self, *nodes):
        """Both nodes have many events; these have collected the first of them."""
        self.fill(self.a)
        self.wait_equal()
        self.b.must("sync", self.peer)
        for node in nodes:
            node.must("track", TABLE, "--retain", "0s")
            node.must("gc")
            self.g.require(floor_of(node) > 0, f"{node.name} has collected events")

    def note(self):
        self.a.note_state()
        self.b.note_state()


def floor_of(node):
    """How far the node has collected the log of any origin."""
    return max(one["floor"] for one in node.status()["logs"])


def behind(g, w, node, other):
    """The clock of a node is an hour behind: it overwrites what the other wrote, and keeps what the
    other writes until its own clock is right."""
    w.begin_fault()
    node.clock.set(-1)
    node.write("both", f"of {node.name}, later")
    g.wait(lambda: other.title("both") == f"of {node.name}, later", 20,
           "the later write is shown at the peer")
    other.write("ahead", f"of {other.name}")
    g.wait(lambda: node.status()["waiting"], 20, "the node has the event, and it waits")
    ended = w.contact()
    g.answers('waiting":1' in ended.out, f"sync does not report what waits: {ended}")
    w.noticed(r"tidemark_replica_(clock_ahead|quarantined)", log="clock|ahead|wait")
    g.end_fault()
    node.clock.set(0)
    w.heals()
    w.note()
    return g.verdict_of(ended)
