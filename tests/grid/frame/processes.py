"""Real processes of the built program, and their end.

All processes of a cell are descendants of the cell's own process, which is their reaper: ending a
cell ends them all, also those that are stopped or have a parent that died. A process ends with the
cell's process, whatever ends that."""

import ctypes
import os
import re
import signal
import subprocess
import time

from . import waiting

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_libc = ctypes.CDLL(None, use_errno=True)

READY_LIMIT = 30
END_LIMIT = 20

_LEVEL = re.compile(r'(?:^|\s|")level"?[=:]"?(error|warn)\b')


def become_reaper():
    """Orphans of this process become its children."""
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def die_with_parent(signum=signal.SIGKILL):
    """For preexec_fn: the kernel ends the process when the thread that started it ends."""

    def set_it():
        _libc.prctl(_PR_SET_PDEATHSIG, signum, 0, 0, 0)

    return set_it


def descendants(pid):
    """The processes below pid, children first."""
    parents = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as stat:
                fields = stat.read().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if fields[0] != "Z":
            parents.setdefault(int(fields[1]), []).append(int(name))
    found, queue = [], [pid]
    while queue:
        children = parents.get(queue.pop(0), [])
        found += children
        queue += children
    return found


def kill_descendants(pid):
    """SIGKILL to every process below pid, until none is left."""
    for _ in range(100):
        below = descendants(pid)
        if not below:
            return
        for child in below:
            try:
                os.kill(child, signal.SIGKILL)
            except ProcessLookupError:
                pass
        if pid == os.getpid():
            _reap()
        time.sleep(0.01)


def _reap():
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


class Ended:
    """What a command left behind."""

    def __init__(self, code, out, err, seconds):
        self.code = code
        self.out = out
        self.err = err
        self.seconds = seconds

    def __repr__(self):
        return f"exit {self.code}: {(self.err or self.out).strip()[:300]}"


class Process:
    """A process with its output in files: PATH.out and PATH.log."""

    def __init__(self, argv, path, environment=None, user=None, death=signal.SIGKILL, cwd=None,
                 stdin=subprocess.DEVNULL):
        self.argv = argv
        self.path = path
        self.environment = environment
        self.user = user
        self.death = death
        self.cwd = cwd
        self.stdin = stdin
        self.child = None
        self.start()

    def start(self):
        """Start it, or start it again: files are appended to."""
        with open(self.path + ".out", "ab") as out, open(self.path + ".log", "ab") as log:
            self.out_start = out.tell()
            group = {"user": self.user, "group": self.user, "extra_groups": []} if self.user else {}
            self.child = subprocess.Popen(
                self.argv, stdin=self.stdin, stdout=out, stderr=log, env=self.environment,
                cwd=self.cwd, preexec_fn=die_with_parent(self.death), **group)
        return self

    @property
    def pid(self):
        return self.child.pid

    @property
    def is_running(self):
        return self.child is not None and self.child.poll() is None

    def out(self):
        """What it printed since its last start."""
        with open(self.path + ".out", "rb") as file:
            file.seek(self.out_start)
            return file.read().decode(errors="replace")

    def log_size(self):
        return os.path.getsize(self.path + ".log")

    def log(self, since=0):
        with open(self.path + ".log", "rb") as file:
            file.seek(since)
            return file.read().decode(errors="replace")

    def warnings(self, since=0):
        """Lines of the program log of level warn or above."""
        return [line for line in self.log(since).splitlines() if _LEVEL.search(line)]

    def wait_for_out(self, pattern, limit=READY_LIMIT):
        """The match of a pattern in what it prints."""

        def look():
            match = re.search(pattern, self.out(), re.M)
            if not match and not self.is_running:
                raise waiting.TooLate(
                    f"{self.argv[0]} ended with {self.child.returncode}: {self.log()[-500:]}")
            return match

        return waiting.wait_for(look, limit, f"{' '.join(self.argv[:3])} prints {pattern}")

    def send(self, signum):
        os.kill(self.pid, signum)

    def pause(self):
        """SIGSTOP to it and to everything below it: hung."""
        self._send_all(signal.SIGSTOP)

    def resume(self):
        self._send_all(signal.SIGCONT)

    def _send_all(self, signum):
        for pid in [self.pid] + descendants(self.pid):
            try:
                os.kill(pid, signum)
            except ProcessLookupError:
                pass

    def kill(self):
        """SIGKILL, and wait for its end."""
        if self.is_running:
            self.send(signal.SIGKILL)
        return self.child.wait()

    def stop(self, signum=signal.SIGTERM, limit=END_LIMIT):
        """End it in good order; the exit code."""
        if self.is_running:
            self.send(signum)
        waiting.wait_for(lambda: not self.is_running, limit, f"{self.argv[0]} ends")
        return self.child.returncode

    def wait(self, limit=END_LIMIT):
        waiting.wait_for(lambda: not self.is_running, limit, f"{' '.join(self.argv[:3])} ends")
        return self.child.returncode


def run(argv, limit=60, environment=None, user=None, cwd=None, stdin=None):
    """Run a command to its end. TooLate if that does not come."""
    begin = time.monotonic()
    group = {"user": user, "group": user, "extra_groups": []} if user else {}
    child = subprocess.Popen(
        argv, stdin=subprocess.PIPE if stdin is not None else subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, cwd=cwd,
        preexec_fn=die_with_parent(), **group)
    while True:
        try:
            out, err = child.communicate(stdin.encode() if stdin is not None else None, timeout=1)
            break
        except subprocess.TimeoutExpired:
            stdin = None  # it is on its way
            waited = time.monotonic() - begin
            if waited > limit and waited > waiting.allowance(limit, begin):
                child.kill()
                child.communicate()
                raise waiting.TooLate(f"{' '.join(argv[:4])}: not within {limit:g} s") from None
    return Ended(child.returncode, out.decode(errors="replace"), err.decode(errors="replace"),
                 time.monotonic() - begin)
