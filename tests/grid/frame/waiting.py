"""Waiting for events, with limits that count the machine's slowness and not the wall clock alone.

A limit of 10 s means 10 s of an idle machine. Beside other work a thread gets only a part of a
processor: slowness() is how much longer a piece of work takes than its own processor time, and
every limit is multiplied by it. A disk that others keep busy stalls everybody: stall() is how long
a small write of ours has waited for it, and limits grow by a multiple of that."""

import os
import tempfile
import threading
import time

_STEP = 0.02
SLOWNESS_MAX = 8  # beyond that a machine is not slow but broken
_SPIN = 0.002
_PROBE_PERIOD = 0.5
_STALL_WEIGHT = 8  # syncs that what we wait for does one after the other
_lock = threading.Lock()
_recent = []
_probes = []  # (begin, end or None) of small synced writes
_probe_thread = None


class TooLate(Exception):
    """Something did not happen within its limit."""


def _measure():
    begin, cpu = time.monotonic(), time.thread_time()
    while time.thread_time() - cpu < _SPIN:
        pass
    return (time.monotonic() - begin) / (time.thread_time() - cpu)


def slowness():
    """1 on an idle machine; 3 where every thread gets a third of a processor; at most 8."""
    ratio = _measure()
    with _lock:
        _recent.append(ratio)
        del _recent[:-50]
        return min(SLOWNESS_MAX, max(1.0, sum(_recent) / len(_recent), *_recent[-3:]))


def watch_disk():
    """From here on stall() knows how long the disk of temporary files lets a writer wait."""
    global _probe_thread
    if _probe_thread is None:
        _probe_thread = threading.Thread(target=_probe, daemon=True)
        _probe_thread.start()


def _probe():
    with tempfile.TemporaryFile(buffering=0) as file:
        while True:
            probe = [time.monotonic(), None]
            with _lock:
                _probes.append(probe)
                del _probes[:-500]
            os.pwrite(file.fileno(), b"x", 0)
            os.fsync(file.fileno())
            probe[1] = time.monotonic()
            time.sleep(_PROBE_PERIOD)


def stall(since):
    """Seconds that the longest small write has waited for the disk since a time."""
    now = time.monotonic()
    with _lock:
        waits = [(end or now) - begin for begin, end in _probes if (end or now) >= since]
    return max(waits, default=0.0)


def delay(pid):
    """Seconds that the threads of a process have been ready to run and had no processor, together.
    Beside other work a request that passes several threads waits for each of them; on an idle
    machine this hardly grows."""
    total = 0
    try:
        tasks = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return 0.0  # it has ended
    for task in tasks:
        try:
            with open(f"/proc/{pid}/task/{task}/schedstat", encoding="ascii") as file:
                total += int(file.read().split()[1])
        except (OSError, IndexError):
            pass
    return total / 1e9


def allowance(limit, begin):
    """The seconds that a limit amounts to on this machine, for something that began at a time."""
    return limit * slowness() + _STALL_WEIGHT * stall(begin)


def wait_for(condition, limit, what):
    """Return the first true value of condition(); TooLate names what did not happen."""
    begin = time.monotonic()
    while True:
        value = condition()
        if value:
            return value
        waited = time.monotonic() - begin
        if waited > limit and waited > allowance(limit, begin):
            raise TooLate(f"{what}: not within {limit:g} s")
        time.sleep(_STEP)
