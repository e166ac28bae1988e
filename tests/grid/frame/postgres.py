"""PostgreSQL servers of a cell: real clusters, run as user postgres, with fsync on.

initdb runs once per run of the grid; every cluster is a copy of its result. A standby is a copy of
the primary's files from before the primary's first start, and streams from it."""

import glob
import os
import shutil
import signal
import socket
import subprocess

from . import processes, waiting

USER = "postgres"
START_LIMIT = 60


def free_port():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


def programs():
    """The directory of postgres, initdb and pg_ctl: the newest that is installed."""
    found = sorted(glob.glob("/usr/lib/postgresql/*/bin/initdb"),
                   key=lambda path: float(path.split("/")[4]))
    if not found:
        raise RuntimeError("PostgreSQL is missing: install the package postgresql")
    return os.path.dirname(found[-1])


def as_server_user():
    return USER if os.geteuid() == 0 else None


def make_template(path):
    """initdb, once: path/data becomes an empty cluster."""
    if os.path.exists(os.path.join(path, "data", "PG_VERSION")):
        return
    os.makedirs(path, exist_ok=True)
    if as_server_user():
        shutil.chown(path, USER, USER)
    ended = processes.run(
        [os.path.join(programs(), "initdb"), "-D", os.path.join(path, "data"), "-U", USER, "-A",
         "trust", "-E", "UTF8", "--locale=C", "--no-sync", "--no-instructions"],
        limit=120, user=as_server_user(), cwd=path)
    if ended.code != 0:
        raise RuntimeError(f"initdb: {ended}")


class Cluster:
    """A server with its data directory. url(db) is what tidemark connects to."""

    def __init__(self, template, directory, settings=()):
        self.directory = directory
        self.data = os.path.join(directory, "data")
        self.settings = list(settings)
        self.port = free_port()
        self.process = None
        self.environment = None
        os.makedirs(directory, exist_ok=True)
        os.chmod(directory, 0o755)
        if as_server_user():
            shutil.chown(directory, USER, USER)
        copy_tree(template, self.data)

    def start(self, environment=None, limit=START_LIMIT):
        """Start the server and wait until it answers."""
        if environment is not None:
            self.environment = environment
        settings = [
            f"port={self.port}", "listen_addresses=127.0.0.1",
            f"unix_socket_directories={self.directory}",
            "fsync=on", "shared_buffers=16MB", "max_connections=100",
            "dynamic_shared_memory_type=mmap", "recovery_init_sync_method=syncfs",
            "max_wal_size=64MB", "min_wal_size=32MB", "wal_level=replica", "hot_standby=on",
            "max_wal_senders=10", "wal_keep_size=64MB", "autovacuum=off", *self.settings]
        argv = [os.path.join(programs(), "postgres"), "-D", self.data]
        for setting in settings:
            argv += ["-c", setting]
        self.process = processes.Process(
            argv, os.path.join(self.directory, "server"), environment=self.environment,
            user=as_server_user(), death=signal.SIGQUIT, cwd=self.directory)
        self.wait_ready(limit)
        return self

    def wait_ready(self, limit=START_LIMIT):
        def is_ready():
            if not self.process.is_running:
                raise waiting.TooLate(f"postgres ended: {self.process.log()[-500:]}")
            return subprocess.run(
                [os.path.join(programs(), "pg_isready"), "-q", "-h", "127.0.0.1", "-p",
                 str(self.port), "-t", "1"], check=False).returncode == 0

        waiting.wait_for(is_ready, limit, "PostgreSQL answers")

    def url(self, database="postgres", port=None):
        return f"postgres://{USER}@127.0.0.1:{port or self.port}/{database}"

    def sql(self, statement, database="postgres", limit=30):
        """The output of psql, without decoration. RuntimeError if it fails."""
        ended = processes.run(
            [os.path.join(programs(), "psql"), "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1",
             "-d", self.url(database), "-c", statement], limit=limit)
        if ended.code != 0:
            raise RuntimeError(f"psql: {ended}")
        return ended.out.strip()

    def shutdown(self):
        """In good order (fast shutdown): nothing is lost."""
        self.process.stop(signal.SIGINT, limit=60)

    def crash(self):
        """kill -9 to the server and all its processes."""
        below = processes.descendants(self.process.pid)
        self.process.kill()
        for pid in below:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        waiting.wait_for(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in below
                                         if not _is_zombie(pid)), 20, "PostgreSQL has ended")

    def pause(self):
        """SIGSTOP to the server and all its processes: it accepts connections, answers nothing."""
        self.process.pause()

    def resume(self):
        self.process.resume()

    def copy_data(self, path):
        """The files of a server that is shut down, for a backup."""
        copy_tree(self.data, path)

    def restore_data(self, path):
        """Put a backup back in place of the files."""
        shutil.rmtree(self.data)
        copy_tree(path, self.data)

    def standby(self, directory, settings=()):
        """A standby of this server, which must not have been started yet. Not started either."""
        other = Cluster(self.data, directory, settings)
        with open(os.path.join(other.data, "standby.signal"), "w", encoding="utf-8"):
            pass
        if as_server_user():
            shutil.chown(os.path.join(other.data, "standby.signal"), USER, USER)
        other.settings.append(
            f"primary_conninfo=host=127.0.0.1 port={self.port} user={USER} "
            f"application_name={os.path.basename(directory)}")
        return other

    def promote(self):
        """Make a standby a primary, and wait until it writes."""
        self.sql("SELECT pg_promote(true, 60)", limit=90)

    def wait_caught_up(self, standby):
        """Until a standby has replayed everything that this server has written."""
        at = self.sql("SELECT pg_current_wal_flush_lsn()")
        waiting.wait_for(
            lambda: standby.sql(f"SELECT pg_last_wal_replay_lsn() >= '{at}'") == "t", 30,
            "the standby has caught up")


def _is_zombie(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True


def copy_tree(source, target):
    subprocess.run(["cp", "-a", "--reflink=auto", source, target], check=True)
