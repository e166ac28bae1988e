"""A store, a `tidemark serve` in front of it, and clients: what most states of work and journal
have in common. The faults of the columns, planted in this world.

    client --- network --- serve --- network --- store (SQLite file or PostgreSQL server)

`Sqlite` and `Postgres` have the same methods, so a cell names the engine and the fault only."""

import os

from . import proxy, service


class World:
    """What both engines share. `serve` is the daemon, `client` the network in front of it."""

    def __init__(self, g):
        self.g = g
        self.serve = None
        self.front = None
        self.clock = None
        self.call_limit = 90

    def start_serve(self):
        environment = self.serve_environment()
        self.serve = self.g.serve(self.url, environment=environment)
        return self.serve

    def serve_environment(self):
        return self.clock.environment(self.g.environment) if self.clock else None

    def call(self, method, message=None, limit=None):
        return self.serve.call(method, message, limit or self.call_limit, address=self.address)

    @property
    def address(self):
        return self.front.address if self.front else self.serve.address

    def must_call(self, method, message=None):
        answer = self.call(method, message)
        self.g.require(answer.is_ok, f"{method}: {answer}")
        return answer.json

    def put_network_in_front(self):
        """From here on clients reach serve through a network that can be cut."""
        self.front = self.g.proxy(self.serve)

    def lose_next_answer(self):
        """The next answer of serve does not reach its caller."""
        if self.front is None:
            self.put_network_in_front()
        self.front.lose_answer(proxy.ANY_ANSWER)

    def begin_fault(self, *names, known=(), may_vanish=False):
        self.g.begin_fault([self.serve], names, known, may_vanish)

    def noticed(self, metric, **options):
        self.g.noticed([self.serve], metric, **options)

    def unready(self):
        """For noticed(told=...): /readyz says that serve is not well."""
        address = self.serve.address
        return (lambda: service.request(address, "GET", "/readyz", limit=2).status == 503,
                "/readyz does not report that the store is away")

    def identity(self):
        """session_id, epoch and epoch_id, as a status command prints them."""
        found = self.g.must_json("store", "info", store=self.direct_url)
        return found["session_id"], found["epoch"], found["epoch_id"]


class Sqlite(World):
    """serve over a SQLite file."""

    def __init__(self, g, name="work.db", disk_size=0, hours=None, start=True):
        super().__init__(g)
        self.disk = g.disk(disk_size) if disk_size else None
        self.url = os.path.join(self.disk.path if self.disk else g.dir, name)
        self.direct_url = self.url
        self.backup_path = g.path(name + ".backup")
        self.clock = g.clock(hours) if hours is not None else None
        if start:
            self.start_serve()

    def backup(self):
        self.g.copy_store(self.url, self.backup_path)

    def restore(self):
        """Stop, put the backup in place, start."""
        self.replace_by(self.backup_path)

    def replace_by(self, path):
        self.serve.stop()
        self.g.put_file(path, self.url)
        self.serve.restart()

    def wipe(self):
        self.serve.stop()
        self.g.wipe(self.url)
        self.serve.restart()


class Postgres(World):
    """serve over a PostgreSQL server, which may have a standby, and a network between them."""

    def __init__(self, g, hours=None, standby=False, settings=(), start=True, directory=None):
        super().__init__(g)
        self.clock = None
        self.server_clock = g.clock(hours) if hours is not None else None
        self.server = g.cluster(settings, directory)
        self.standby = self.server.standby(g.path("standby")) if standby else None
        environment = None
        if self.server_clock:
            environment = self.server_clock.environment(dict(os.environ))
        self.server.start(environment)
        if self.standby:
            self.standby.start()
        self.net = g.proxy(self.server)
        self.direct_url = self.server.url()
        self.url = self.server.url(port=self.net.port)
        self.backup_path = g.path("pg-backup")
        if start:
            self.start_serve()

    def away(self):
        """The server crashes: connections break off, new ones are refused."""
        self.net.refuse()
        self.server.crash()

    def back(self):
        self.server.start()
        self.net.allow()

    def hang(self):
        self.server.pause()

    def unhang(self):
        self.server.resume()

    def backup(self):
        """A cold copy of the server's files."""
        self.net.refuse()
        self.server.shutdown()
        self.server.copy_data(self.backup_path)
        self.server.start()
        self.net.allow()

    def restore(self):
        """The copy in the place of the files. serve goes on running."""
        self.net.refuse()
        self.server.shutdown()
        self.server.restore_data(self.backup_path)
        self.server.start()
        self.net.allow()

    def lose_commit(self, name, all_connections=True, refuse=False):
        """The answer to the next COMMIT of a transaction that names an object is lost, and
        connections with it."""
        self.net.lose_answer(proxy.PG_COMMITTED, all_connections, refuse, name.encode())

    def fail_over(self, caught_up=True):
        """The primary dies, the standby is promoted, and the network leads there. A standby that
        was shut down before is started: it does not have what was written since."""
        if caught_up:
            self.server.wait_caught_up(self.standby)
        self.net.refuse()
        self.server.crash()
        if not self.standby.process.is_running:
            self.standby.start()
        self.standby.promote()
        self.net.target = self.standby.port
        self.direct_url = self.standby.url()
        self.net.allow()

    def return_old_primary(self):
        """The network leads back to the old primary, which knows nothing of the promotion."""
        self.server.start()
        self.net.cut()
        self.net.target = self.server.port
        self.direct_url = self.server.url()

    def lead_to_standby(self):
        """The network leads to the promoted standby again."""
        self.net.cut()
        self.net.target = self.standby.port
        self.direct_url = self.standby.url()


