"""The world of one cell: what a cell function is given as `g`."""

import json
import os
import re
import shutil
import signal

from . import clock, disk, history, oracle, postgres, processes, proxy, service, waiting, watch

BUILD_DIR = os.environ.get("TIDEMARK_BUILD_DIR", "build")
SOURCE_DIR = os.path.abspath(os.environ.get(
    "TIDEMARK_SOURCE_DIR", os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../..")))
COMMAND_LIMIT = 60

WORK = "tidemark.work.v1.WorkService/"
KEYS = "tidemark.work.v1.IdempotencyService/"
JOURNAL = "tidemark.journal.v1.JournalService/"
AGENT = "tidemark.agent.v1.AgentService/"
COLONY = "tidemark.colony.v1.ColonyService/"
LAKE = "tidemark.lake.v1.LakeService/"


class Unmet(Exception):
    """What a cell builds upon is not so: a defect of the cell, not of the program."""


class Daemon(processes.Process):
    """A daemon of the built program. `name` is its instance in metrics; address is its HTTP port,
    via is a proxy in front of it, if there is one."""

    def __init__(self, name, argv, path, environment):
        self.name = name
        self.address = ""
        self.watch = None
        super().__init__(argv, path, environment, death=signal.SIGKILL)

    def ready(self, limit=processes.READY_LIMIT):
        """Wait for its ready line, and read the address from it."""
        line = self.wait_for_out(r"^ready .*$", limit).group(0)
        found = re.findall(r"(?:http|listen|grpc)=(127\.0\.0\.1:\d+)", line)
        if not found:
            raise Unmet(f"no address in {line!r}")
        self.address = found[-1]
        self.addresses = dict(re.findall(r"(\w+)=(127\.0\.0\.1:\d+)", line))
        # A restarted daemon comes back where it was.
        for at, word in enumerate(self.argv):
            if word == "127.0.0.1:0":
                self.argv[at] = self.addresses.get(self.argv[at - 1].lstrip("-"), self.address)
        return self

    def restart(self, limit=processes.READY_LIMIT):
        """Start it again after kill() or stop(), on the same address."""
        self.start()
        self.ready(limit)
        if self.watch:
            self.watch.is_expected = True
        return self

    def kill(self):
        if self.watch:
            self.watch.is_expected = False
        return super().kill()

    def stop(self, signum=signal.SIGTERM, limit=60):
        if self.watch:
            self.watch.is_expected = False
        return super().stop(signum, limit)

    def pause(self):
        if self.watch:
            self.watch.is_expected = False
        super().pause()

    def resume(self):
        super().resume()
        if self.watch:
            self.watch.is_expected = True

    def call(self, method, message=None, limit=60, address=None, headers=None):
        return service.call(address or self.address, method, message, limit, headers)

    def get(self, path, limit=60):
        return service.request(self.address, "GET", path, limit=limit)

    def readyz(self):
        return self.get("/readyz")


class Grid(oracle.Oracle):
    """Starts processes, plants faults, and is the oracle."""

    def __init__(self, directory, template):
        super().__init__(SOURCE_DIR, directory)
        self.dir = directory
        self.template = template
        self.disks = []
        self.proxies = []
        self.count = 0
        self.tidemark_path = os.path.abspath(os.path.join(BUILD_DIR, "tidemark"))
        self.history = history.History(self.path("history.jsonl"))
        self.checkers = []
        self.environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith("TIDEMARK_")},
            "TIDEMARK_STATE_DIR": self.path("state"),
            "HOME": self.dir,
            "TMPDIR": self.dir,
        }
        for name in ("TIDEMARK_DUCKDB",):
            if name in os.environ:
                self.environment[name] = os.environ[name]
        self.environment.setdefault(
            "TIDEMARK_DUCKDB", os.path.abspath(os.path.join(BUILD_DIR, "deps/duckdb/libduckdb.so")))

    # ---- places ----

    def path(self, name):
        return os.path.join(self.dir, name)

    def new_name(self, prefix):
        self.count += 1
        return f"{prefix}-{self.count}"

    def copy_store(self, source, target):
        """A backup of a SQLite store by the program itself, while it may be open."""
        if os.path.exists(target):
            os.remove(target)
        self.must("store", "backup", target, store=source)

    @staticmethod
    def put_file(source, target):
        """Put a backup in the place of a SQLite file that no process has open."""
        for suffix in ("", "-wal", "-shm", "-journal"):
            if os.path.exists(target + suffix):
                os.remove(target + suffix)
        shutil.copyfile(source, target)

    @staticmethod
    def wipe(path):
        """Delete a SQLite file and its side files."""
        for suffix in ("", "-wal", "-shm", "-journal"):
            if os.path.exists(path + suffix):
                os.remove(path + suffix)

    # ---- the program ----

    def _argv(self, words, store):
        return ([self.tidemark_path] + [str(word) for word in words] +
                (["--store", store] if store else []))

    def tidemark(self, *words, store=None, limit=COMMAND_LIMIT, environment=None, stdin=None):
        """Run a command to its end."""
        return processes.run(self._argv(words, store), limit=limit, stdin=stdin, cwd=self.dir,
                             environment=environment or self.environment)

    def must(self, *words, **options):
        """Run a command that has to succeed; what it printed."""
        ended = self.tidemark(*words, **options)
        if ended.code != 0:
            raise Unmet(f"tidemark {' '.join(map(str, words[:4]))}: {ended}")
        return ended.out.strip()

    def must_json(self, *words, **options):
        """The same with --json; the object that it printed, the first if several."""
        out = self.must(*words, "--json", **options)
        return json.loads(out.splitlines()[0]) if out else None

    def start(self, *words, store=None, environment=None):
        """Start a command and go on."""
        return processes.Process(self._argv(words, store), self.path(self.new_name("command")),
                                 environment or self.environment, cwd=self.dir)

    @staticmethod
    def ended(process, limit=COMMAND_LIMIT):
        """The end of a command that was started."""
        code = process.wait(limit)
        return processes.Ended(code, process.out(), process.log(), 0)

    def daemon(self, name, *words, store=None, environment=None, watched=True):
        """Start a daemon, wait until it is ready, and watch its /metrics."""
        daemon = Daemon(name, self._argv(words, store), self.path(self.new_name(name)),
                        environment or self.environment)
        daemon.ready()
        if watched:
            self.watch(daemon)
        return daemon

    def serve(self, store, name="serve", environment=None, watched=True, words=()):
        """tidemark serve: tasks, work, checkpoints, idempotency keys."""
        return self.daemon(name, "serve", "--listen", "127.0.0.1:0", *words, store=store,
                           environment=environment, watched=watched)

    def watch(self, daemon):
        daemon.watch = self.watches[daemon] = watch.Watch(daemon)
        daemon.watch.wait_next()

    # ---- faults ----

    def proxy(self, target):
        """A network of its own in front of a port, or of a daemon or a cluster."""
        port = target if isinstance(target, int) else (
            target.port if isinstance(target, postgres.Cluster)
            else int(target.address.rsplit(":", 1)[1]))
        made = proxy.Proxy(port)
        self.proxies.append(made)
        return made

    def disk(self, size, name=None):
        made = disk.Disk(self.path(name or self.new_name("disk")), size)
        self.disks.append(made)
        return made

    def clock(self, hours=0):
        return clock.Clock(self.path(self.new_name("clock")), hours)

    def cluster(self, settings=(), directory=None):
        """An empty PostgreSQL cluster, not started."""
        return postgres.Cluster(self.template, directory or self.path(self.new_name("pg")),
                                settings)

    def postgres(self, settings=(), environment=None, directory=None):
        """A running PostgreSQL server."""
        return self.cluster(settings, directory).start(environment)

    # ---- judging ----

    @staticmethod
    def verdict_of(result):
        """The verdict of a command's end or a service's answer."""
        if isinstance(result, service.Answer):
            if result.is_ok:
                return "continues"
            return f"refuses {result.code or result}"
        return "continues" if result.code == 0 else f"refuses exit {result.code}"

    @staticmethod
    def wait(condition, limit, what):
        """Wait for an event; TooLate names what did not happen."""
        return waiting.wait_for(condition, limit, what)

    def require(self, condition, text):
        """What the cell builds upon."""
        if not condition:
            raise Unmet(text)

    def check(self, checker):
        """Let a checker of tests/check judge the history at the end of the cell."""
        if checker not in self.checkers:
            self.checkers.append(checker)

    def data(self, is_sound, text):
        """A data check of the cell itself."""
        if not is_sound:
            self.find(f"data: {text}")

    def close(self):
        """End everything of this cell."""
        for one in self.watches.values():
            one.stop()
        for one in self.proxies:
            one.close()
        processes.kill_descendants(os.getpid())
        for one in self.disks:
            one.unmount()


def wait_for(condition, limit, what):
    return waiting.wait_for(condition, limit, what)


def make_template(directory):
    """The empty PostgreSQL cluster that all cells copy."""
    postgres.make_template(directory)
    return os.path.join(directory, "data")


