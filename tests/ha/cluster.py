"""cluster.py - three PostgreSQL servers under Patroni, each a host of its own.

A switch, etcd, three nodes and the clients are network namespaces that exist as long as the
cluster. A node can be cut off from some of the others while it goes on running. Servers run as
user postgres, on a disk, with fsync.

Survives: nothing; stop() ends the processes that were started here, by pid, and deletes the
namespaces. A killed run leaves namespaces named ha-PID-*; `ip netns delete` removes them.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

BIN = "/usr/lib/postgresql/{}/bin"
NETWORK = "10.77.0."
HOSTS = {"switch": 0, "etcd": 1, "n1": 11, "n2": 12, "n3": 13, "clients": 20}
NODES = ("n1", "n2", "n3")
PORT = 5432
PASSWORD = "ha"

CONFIGURATION = """\
scope: ha
name: {name}
restapi: {{listen: {address}:8008, connect_address: {address}:8008}}
etcd3: {{hosts: {etcd}:2379}}
bootstrap:
  dcs:
    ttl: 10
    loop_wait: 1
    retry_timeout: 3
    maximum_lag_on_failover: 1048576
    synchronous_mode: {is_synchronous}
    postgresql:
      use_pg_rewind: true
      parameters:
        max_connections: 60
        shared_buffers: 32MB
        wal_keep_size: 256MB
        max_wal_senders: 8
        max_replication_slots: 8
        hot_standby: 'on'
        wal_log_hints: 'on'
        fsync: 'on'
  initdb: [{{encoding: UTF8}}, {{locale: C}}, data-checksums]
  pg_hba:
  - local all all trust
  - host replication replicator {network}0/24 trust
  - host all all {network}0/24 trust
  - host all all 127.0.0.1/32 trust
postgresql:
  listen: {address},127.0.0.1:{port}
  connect_address: {address}:{port}
  data_dir: {data}
  bin_dir: {bin}
  pgpass: {directory}/pgpass
  authentication:
    superuser: {{username: postgres, password: {password}}}
    replication: {{username: replicator, password: {password}}}
    rewind: {{username: rewinder, password: {password}}}
  parameters: {{unix_socket_directories: '{directory}'}}
watchdog: {{mode: 'off'}}
tags: {{}}
"""


POOLER_PORT = 6432
POOLER = """\
[databases]
* = host=127.0.0.1 port={server}
[pgbouncer]
listen_addr = {address}
listen_port = {port}
unix_socket_dir = {directory}
auth_type = trust
auth_file = {directory}/users.txt
pool_mode = {mode}
default_pool_size = {pool_size}
max_client_conn = 500
ignore_startup_parameters = extra_float_digits
"""


def run(*words, check=True, **options):
    return subprocess.run(words, check=check, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, **options)


def address(host):
    return NETWORK + str(HOSTS[host])


class Cluster:
    def __init__(self, is_synchronous, version=None):
        self.version = version or sorted(os.listdir("/usr/lib/postgresql"), key=float)[-1]
        self.is_synchronous = is_synchronous
        self.prefix = f"ha-{os.getpid()}-"
        self.directory = tempfile.mkdtemp(prefix="tidemark-ha-")
        os.chmod(self.directory, 0o755)
        self.processes = {}
        self.client_port = PORT

    # ---- hosts ----

    def space(self, host):
        return self.prefix + host

    def inside(self, host, *words):
        return ["ip", "netns", "exec", self.space(host), *words]

    def make_network(self):
        for host in HOSTS:
            run("ip", "netns", "add", self.space(host))
            run(*self.inside(host, "ip", "link", "set", "lo", "up"))
        run(*self.inside("switch", "ip", "link", "add", "bridge", "type", "bridge"))
        run(*self.inside("switch", "ip", "link", "set", "bridge", "up"))
        for host, number in HOSTS.items():
            if host == "switch":
                continue
            port = "port" + str(number)
            run(*self.inside("switch", "ip", "link", "add", port, "type", "veth", "peer", "name",
                             "eth0", "netns", self.space(host)))
            run(*self.inside("switch", "ip", "link", "set", port, "master", "bridge", "up"))
            run(*self.inside(host, "ip", "address", "add", address(host) + "/24", "dev", "eth0"))
            run(*self.inside(host, "ip", "link", "set", "eth0", "up"))

    def cut(self, node, others):
        """Packets between a node and the others are dropped, in both directions."""
        rules = "".join(
            f"add rule inet ha {chain} ip {side} {address(other)} drop\n"
            for other in others for chain, side in (("in", "saddr"), ("out", "daddr")))
        run(*self.inside(node, "nft", "-f", "-"), input=(
            "add table inet ha\n"
            "add chain inet ha in { type filter hook input priority 0 ; }\n"
            "add chain inet ha out { type filter hook output priority 0 ; }\n" + rules))

    def heal(self, node):
        run(*self.inside(node, "nft", "delete", "table", "inet", "ha"), check=False)

    # ---- processes ----

    def start(self, name, host, *words, user=None):
        log = open(os.path.join(self.directory, name + ".log"), "ab")
        if user:
            words = ("setpriv", "--reuid", user, "--regid", user, "--init-groups", "--reset-env",
                     "--", *words)
        self.processes[name] = subprocess.Popen(
            self.inside(host, *words), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            cwd=self.directory, start_new_session=True)
        log.close()
        return self.processes[name]

    def path(self, node, *parts):
        return os.path.join(self.directory, node, *parts)

    def start_node(self, node):
        self.start("patroni-" + node, node, "/usr/bin/patroni", self.path(node, "patroni.yml"),
                   user="postgres")

    def make_node(self, node):
        os.mkdir(self.path(node))
        with open(self.path(node, "patroni.yml"), "w", encoding="utf-8") as file:
            file.write(CONFIGURATION.format(
                name=node, address=address(node), etcd=address("etcd"), network=NETWORK, port=PORT,
                data=self.path(node, "data"), directory=self.path(node), password=PASSWORD,
                bin=BIN.format(self.version), is_synchronous=str(self.is_synchronous).lower()))
        shutil.chown(self.path(node), "postgres", "postgres")

    def start_poolers(self, program, mode):
        """A PgBouncer on each node in front of its own server; clients reach the servers by these.
        In session mode each of their connections has one to the server for as long as it lives."""
        pool_size = 10 if mode == "transaction" else 45
        for node in NODES:
            path = self.path(node, "pgbouncer.ini")
            with open(self.path(node, "users.txt"), "w", encoding="utf-8") as file:
                file.write('"postgres" ""\n')
            with open(path, "w", encoding="utf-8") as file:
                file.write(POOLER.format(address=address(node), port=POOLER_PORT, server=PORT, mode=mode,
                                         directory=self.path(node), pool_size=pool_size))
            self.start("pgbouncer-" + node, node, os.path.abspath(program), path, user="postgres")
        self.client_port = POOLER_PORT

    def postmaster(self, node):
        with open(self.path(node, "data", "postmaster.pid"), encoding="utf-8") as file:
            return int(file.readline())

    def kill_patroni(self, node):
        """kill -9 of Patroni alone: the server runs on, and nothing looks after it."""
        patroni = self.processes.pop("patroni-" + node)
        patroni.kill()
        patroni.wait()

    def kill_node(self, node):
        """kill -9 of Patroni and of the server: the machine is gone."""
        self.kill_patroni(node)
        os.kill(self.postmaster(node), signal.SIGKILL)

    # ---- state ----

    def members(self):
        """Of each node that answers: its role as Patroni reports it."""
        found = {}
        for node in NODES:
            done = run(*self.inside("clients", "curl", "-s", "-m", "2",
                                    f"http://{address(node)}:8008/patroni"), check=False)
            try:
                found[node] = json.loads(done.stdout)
            except ValueError:
                continue
        return found

    def primary(self):
        for node, state in self.members().items():
            if state.get("role") in ("master", "primary") and state.get("state") == "running":
                return node
        return None

    def wait(self, what, is_reached, limit_s=120):
        end = time.monotonic() + limit_s
        while not is_reached():
            if time.monotonic() > end:
                raise TimeoutError(f"{what}: not within {limit_s} s; logs are in {self.directory}")
            time.sleep(0.2)

    def is_complete(self):
        """One primary, two standbys that stream, and one of them synchronous where that is asked."""
        primary = self.primary()
        if not primary:
            return False
        states = self.sql(primary, "SELECT coalesce(string_agg(sync_state, ' '), '') "
                          "FROM pg_stat_replication WHERE state = 'streaming'").split()
        return len(states) == 2 and (not self.is_synchronous or "sync" in states)

    def sql(self, node, statement, database="postgres", check=False):
        done = run(*self.inside("clients", "psql", "-XAtq", "-v", "ON_ERROR_STOP=1", "-c", statement,
                                f"postgresql://postgres@{address(node)}:{PORT}/{database}"
                                "?connect_timeout=5"), check=check)
        return done.stdout.strip() if done.returncode == 0 else ""

    def url(self, database, nodes=NODES, options="target_session_attrs=read-write&connect_timeout=2"):
        hosts = ",".join(f"{address(node)}:{self.client_port}" for node in nodes)
        return f"postgres://postgres@{hosts}/{database}?{options}"

    # ---- life ----

    def begin(self):
        self.make_network()
        etcd = f"http://{address('etcd')}"
        self.start("etcd", "etcd", "etcd", "--data-dir", os.path.join(self.directory, "etcd"),
                   "--listen-client-urls", etcd + ":2379", "--advertise-client-urls", etcd + ":2379",
                   "--listen-peer-urls", etcd + ":2380", "--enable-v2=false")
        for node in NODES:
            self.make_node(node)
        self.start_node("n1")
        self.wait("a primary", self.primary)
        for node in NODES[1:]:
            self.start_node(node)
        self.wait("two standbys", self.is_complete)

    def candidates(self, primary):
        """The standbys that may take over without a loss; without synchronous mode all of them."""
        done = run(*self.inside("clients", "curl", "-s", "-m", "5",
                                f"http://{address(primary)}:8008/cluster"), check=False)
        role = "sync_standby" if self.is_synchronous else "replica"
        try:
            members = json.loads(done.stdout)["members"]
        except ValueError:
            return []
        return [m["name"] for m in members if m["role"] == role and m["state"] in
                ("running", "streaming")]

    def request_switchover(self, primary):
        """Patroni refuses until the standby that it has recorded as synchronous is one."""
        for target in self.candidates(primary):
            done = run(*self.inside("clients", "curl", "-s", "-m", "60", "-XPOST", "-d",
                                    json.dumps({"leader": primary, "candidate": target}),
                                    f"http://{address(primary)}:8008/switchover"), check=False)
            if done.stdout.startswith("Success"):
                return target
        return None

    def switchover(self):
        primary = self.primary()
        self.wait("the switchover", lambda: self.request_switchover(primary))
        self.wait("the new primary", lambda: self.primary() not in (None, primary))

    def stop(self):
        for node in NODES:
            try:
                os.kill(self.postmaster(node), signal.SIGKILL)
            except (OSError, ValueError):
                pass
        for process in self.processes.values():
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()
        for host in HOSTS:
            run("ip", "netns", "delete", self.space(host), check=False)

    def remove(self):
        shutil.rmtree(self.directory, ignore_errors=True)


if __name__ == "__main__":
    sys.exit("run tests/ha/run")
