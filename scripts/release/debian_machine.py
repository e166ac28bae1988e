"""debian_machine - disposable Debian machines: a debootstrap minbase in namespaces of its own.

    tarball = base_of("bookworm", mirrors_of("bookworm", None), cache)
    ...unpack it at root, write_settings(root, mirrors)
    with contextlib.closing(Machine(root)) as machine:
        command = Command(machine, "make run", log, environment=environment_of(None))

A machine has mount, process, IPC and UTS namespaces of its own and the network of this machine.
Mirrors, proxies, certificates and npm's settings are those of this machine. What is mounted and
what runs in a machine ends with the process that made it, however that ends. Needs root.
"""

import contextlib
import fcntl
import functools
import os
import pathlib
import queue
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

BASE_PACKAGES = ["git", "make"]
BASE_DAYS = 7  # a cached minbase older than this is made again
USER = "builder"  # an ordinary user in every machine
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
CERTIFICATES = "/etc/fresh-machine.crt"  # in the machine: what this machine trusts
PROXIES = ["http_proxy", "https_proxy", "ftp_proxy", "all_proxy", "no_proxy"]
NPM_SETTINGS = ["registry", "proxy", "https-proxy", "noproxy", "strict-ssl"]

# Runs in the new namespaces: mounts, then waits as process 1 until its stdin ends. What it has
# mounted and everything that runs in the machine end with it.
INSIDE = r"""
set -e
root=$1
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount -t sysfs -o ro sysfs "$root/sys"
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
for name in null zero full random urandom tty; do
    touch "$root/dev/$name"
    mount --bind "/dev/$name" "$root/dev/$name"
done
mkdir "$root/dev/pts" "$root/dev/shm"
mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts"
mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
ln -s pts/ptmx "$root/dev/ptmx"
ln -s /proc/self/fd "$root/dev/fd"
mount -t tmpfs -o mode=755 tmpfs "$root/run"
hostname fresh
mkdir -p "$root/.outside"
cd "$root"
pivot_root . .outside
exec chroot . bash -c 'umount -l /.outside && rmdir /.outside && echo up && read -r'
"""


class Failure(Exception):
    """A command in the machine did not do what it should: exit status 1."""


class Refusal(Exception):
    """The machine cannot be made: exit status 2."""


def say(text):
    print(f"{pathlib.Path(sys.argv[0]).name}: {text}", file=sys.stderr, flush=True)


def output_of(*words, **options):
    """What a program on this machine prints, or None where it fails or is missing."""
    try:
        done = subprocess.run(words, capture_output=True, text=True, **options)
    except FileNotFoundError:
        return None
    return done.stdout if done.returncode == 0 else None


# ---- this machine's settings ----


def release_here():
    for line in pathlib.Path("/etc/os-release").read_text().splitlines():
        if line.startswith("VERSION_CODENAME="):
            return line.partition("=")[2].strip('"')
    return ""


def source_entries():
    """(addresses, suites) of every source of binary packages in /etc/apt."""
    apt = pathlib.Path("/etc/apt")
    files = [apt / "sources.list", *(apt / "sources.list.d").glob("*")]
    for file in sorted(file for file in files if file.is_file()):
        if file.suffix == ".sources":
            for stanza in re.split(r"\n\s*\n", file.read_text()):
                fields = dict(re.findall(r"^([A-Za-z-]+):[ \t]*(.*)$", stanza, re.M))
                if "deb" in fields.get("Types", "").split() and fields.get("Enabled") != "no":
                    yield fields.get("URIs", "").split(), fields.get("Suites", "").split()
        elif file.suffix == ".list":
            for line in file.read_text().splitlines():
                words = re.sub(r"\[[^]]*\]", "", line.split("#")[0]).split()
                if len(words) >= 3 and words[0] == "deb":
                    yield [words[1]], [words[2]]


def mirrors_of(release, mirror):
    """(address, suites) for the release, from the sources of this machine's own release."""
    if mirror:
        return [(mirror, [release])]
    here = release_here()
    found = []
    for addresses, suites in source_entries():
        wanted = [release + suite[len(here):] for suite in suites
                  if here and (suite == here or suite.startswith(f"{here}-"))]
        if addresses and wanted:
            found.append((addresses[0].rstrip("/"), wanted))
    if not any(release in suites for _, suites in found):
        raise Refusal("no Debian mirror in /etc/apt; pass --mirror URL")
    return found


def apt_settings():
    """Lines of apt.conf: proxies, certificates and the like."""
    dump = output_of("apt-config", "dump") or ""
    names = r"Acquire::(?:(?:http|https)::[^\"]*|Check-Valid-Until|Retries|ForceIPv[46])"
    lines = [line for line in dump.splitlines() if re.match(rf"{names} \"", line)]
    return [line for line in lines if "Auto-Detect" not in line and "::Ca" not in line]


def has_own_certificates():
    return "NODE_EXTRA_CA_CERTS" in os.environ or any(
        pathlib.Path("/usr/local/share/ca-certificates").rglob("*.crt"))


@functools.cache
def carried_environment():
    """Variables of this machine that say how to reach the network."""
    carried = {}
    for name, value in os.environ.items():
        if name.lower() in PROXIES or name.lower().startswith("npm_config_"):
            carried[name] = value
    for name in NPM_SETTINGS:
        value = (output_of("npm", "config", "get", name, cwd="/") or "").strip()
        if value not in ("", "null", "undefined"):
            carried.setdefault(f"npm_config_{name.replace('-', '_')}", value)
    if has_own_certificates():
        carried["NODE_EXTRA_CA_CERTS"] = CERTIFICATES
        carried["npm_config_cafile"] = CERTIFICATES
    return carried


def write_settings(root, mirrors):
    """Lets the machine at root reach the network as this one does."""
    sources = [f"Types: deb\nURIs: {address}\nSuites: {' '.join(suites)}\nComponents: main\n"
               f"Signed-By: {KEYRING}\n" for address, suites in mirrors]
    (root / "etc/apt/sources.list").unlink(missing_ok=True)
    (root / "etc/apt/sources.list.d/debian.sources").write_text("\n".join(sources))
    settings = apt_settings()
    if any(address.startswith("https:") for address, _ in mirrors) and has_own_certificates():
        settings.append(f'Acquire::https::CaInfo "{CERTIFICATES}";')
    (root / "etc/apt/apt.conf.d/90fresh-machine").write_text("\n".join([*settings, ""]))
    for name in ["resolv.conf", "hosts"]:
        shutil.copyfile(f"/etc/{name}", root / "etc" / name)
    if has_own_certificates():
        shutil.copyfile("/etc/ssl/certs/ca-certificates.crt", root / CERTIFICATES[1:])
        local = root / "usr/local/share/ca-certificates"
        local.mkdir(parents=True, exist_ok=True)
        for file in pathlib.Path("/usr/local/share/ca-certificates").rglob("*.crt"):
            shutil.copyfile(file, local / file.name)
    # Packages start no daemon: there is no init here, and the network is the host's.
    policy = root / "usr/sbin/policy-rc.d"
    policy.write_text("#!/bin/sh\nexit 101\n")
    policy.chmod(0o755)


# ---- machine ----


class Machine:
    """Namespaces over a root directory; commands run in them until close()."""

    def __init__(self, root):
        self.root = pathlib.Path(root)
        words = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--uts", "--ipc",
                 "bash", "-c", INSIDE, "inside", str(self.root)]
        self.outer = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                      text=True, start_new_session=True)
        if self.outer.stdout.readline() != "up\n":
            self.close()
            raise Refusal("cannot create namespaces; run on a machine or in a privileged container")
        task = pathlib.Path(f"/proc/{self.outer.pid}/task/{self.outer.pid}")
        self.init = int((task / "children").read_text().split()[0])
        self.namespace = os.readlink(f"/proc/{self.init}/ns/pid")

    def close(self):
        self.outer.stdin.close()
        self.outer.wait()
        self.outer.stdout.close()

    def words(self, command, environment, user=None, folder="/", no_network=False):
        """The command line on this machine that runs a shell command in that one."""
        alone = ["unshare", "--net", sys.executable, "-c", LOOPBACK_ALONE] if no_network else []
        enter = ["nsenter", "-t", str(self.init), "--mount", "--pid", "--uts", "--ipc",
                 "--root", "--wd"]
        as_user = ["--userspec", f"{user}:{user}", "--groups="] if user else []
        variables = [f"{name}={value}" for name, value in environment.items()]
        run = f"cd {shlex.quote(folder)} || exit 1\n{command}"
        return [*alone, *enter, "chroot", *as_user, "/", "env", "-i", *variables, "bash", "-c", run]

    def processes(self):
        """Process numbers, as this machine counts them, of everything that runs in that one."""
        for name in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                if os.readlink(f"/proc/{name}/ns/pid") == self.namespace:
                    yield int(name)


class Command:
    """A shell command in the machine, its output line by line, its wall and processor time."""

    def __init__(self, machine, command, log, answers=None, **where):
        self.machine = machine
        self.log = log
        self.lines = queue.Queue()
        self.printed = []
        self.has_ended = False  # its output has
        self.used = None
        self.cpu_before = sum(map(cpu_of, machine.processes()))
        self.started = time.monotonic()
        self.process = subprocess.Popen(
            machine.words(command, **where), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True)
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(answers or "")
            self.process.stdin.close()
        threading.Thread(target=self.read_lines, daemon=True).start()

    def read_lines(self):
        for line in self.process.stdout:
            self.lines.put(line.rstrip())
        self.lines.put(None)

    def next_line(self, timeout_s):
        """The next line; "" where none came in time; None at the end."""
        if self.has_ended:
            return None
        try:
            line = self.lines.get(timeout=timeout_s)
        except queue.Empty:
            return ""
        self.has_ended = line is None
        if line is not None:
            self.printed.append(line)
            print(f"{self.wall():9.1f} {line}", file=self.log, flush=True)
            print(f"  | {line}", file=sys.stderr, flush=True)
        return line

    def wall(self):
        return time.monotonic() - self.started

    def cpu(self):
        """Processor seconds of the command and all that it has started, so far."""
        if self.used is not None:
            return self.used
        pids = [self.process.pid, *self.machine.processes()]
        return sum(map(cpu_of, pids)) - self.cpu_before

    def finish(self, timeout_s):
        """Waits for the end; the exit status."""
        deadline = time.monotonic() + timeout_s
        while self.next_line(max(0.1, deadline - time.monotonic())) is not None:
            if time.monotonic() > deadline:
                raise Failure(f"not done after {timeout_s} s")
        _, status, used = os.wait4(self.process.pid, 0)
        inside = sum(map(cpu_of, self.machine.processes())) - self.cpu_before
        self.used = used.ru_utime + used.ru_stime + inside
        self.process.returncode = os.waitstatus_to_exitcode(status)
        return self.process.returncode

    def interrupt(self):
        """What Ctrl-C in the command's terminal would do."""
        for pid in self.machine.processes():
            with contextlib.suppress(ProcessLookupError):
                if os.getpgid(pid) == self.process.pid:
                    os.kill(pid, signal.SIGINT)


# Gives the program that follows a network with loopback alone: its own namespace, interface up.
LOOPBACK_ALONE = r"""
import fcntl, os, socket, struct, sys
s = socket.socket()
up = 0x1 | 0x40  # IFF_UP, IFF_RUNNING
fcntl.ioctl(s, 0x8914, struct.pack("16sh14x", b"lo", up))  # SIOCSIFFLAGS
s.close()
os.execvp(sys.argv[1], sys.argv[1:])
"""


def cpu_of(pid):
    """Processor seconds of a process and of those children that it has waited for."""
    try:
        stat = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return sum(map(int, stat.rpartition(")")[2].split()[11:15])) / os.sysconf("SC_CLK_TCK")


# ---- minbase ----


def architecture():
    return output_of("dpkg", "--print-architecture").strip()


def make_base(release, mirrors, tarball):
    """Writes the tarball: debootstrap's minbase with git and make, up to date, without lists."""
    address = next(address for address, suites in mirrors if release in suites)
    included = BASE_PACKAGES + (["ca-certificates"] if address.startswith("https:") else [])
    log_path = tarball.with_suffix(".log")
    say(f"debootstrap {release} (log: {log_path})")
    folder = pathlib.Path(tempfile.mkdtemp(dir=tarball.parent, prefix="base-"))
    root = folder / "root"

    def logged(words, what):
        with open(log_path, "a") as log:
            done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        if done.returncode != 0:
            raise Refusal(f"cannot {what} {release}:\n{tail(log_path)}")

    log_path.write_text("")
    try:
        # A namespace of its own, so that nothing debootstrap mounts is left behind.
        logged(["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc",
                "debootstrap", "--variant=minbase", f"--include={','.join(included)}",
                f"--keyring={KEYRING}", release, str(root), address], "debootstrap")
        write_settings(root, mirrors)
        with contextlib.closing(Machine(root)) as machine:
            command = ("apt-get -q update && apt-get -q -y dist-upgrade && apt-get clean && "
                       "rm -rf /var/lib/apt/lists/* && "
                       f"useradd --create-home --shell /bin/bash {USER}")
            logged(machine.words(command, apt_environment()), "bring up to date")
        partial = tarball.with_suffix(".partial")
        subprocess.run(["tar", "--numeric-owner", "-C", root, "-cf", partial, "."], check=True)
        partial.rename(tarball)
    finally:
        remove(folder)


def tail(path, count=15):
    return "\n".join(f"  {line}" for line in path.read_text(errors="replace").splitlines()[-count:])


def base_of(release, mirrors, cache):
    """The tarball of minbase, made if it is missing or old. One process at a time makes it."""
    tarball = cache / f"{release}-{architecture()}.tar"
    with open(tarball.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not tarball.exists() or time.time() - tarball.stat().st_mtime > BASE_DAYS * 86400:
            make_base(release, mirrors, tarball)
    return tarball


def remove(folder):
    subprocess.run(["rm", "-rf", "--one-file-system", str(folder)], check=True)


def environment_of(user):
    """The environment of a login there, with this machine's ways to the network."""
    return {
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": f"/home/{user}" if user else "/root",
        "USER": user or "root",
        "LOGNAME": user or "root",
        "SHELL": "/bin/bash",
        "TERM": "dumb",
        "LANG": "C.UTF-8",
        **carried_environment(),
    }


def apt_environment():
    return {**environment_of(None), "LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive"}
