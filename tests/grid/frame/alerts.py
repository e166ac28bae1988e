"""Do the shipped alert rules fire? Asked of promtool (Debian package prometheus).

The scraped samples of a cell become the input of `promtool test rules`, one per 15 seconds: five
minutes of the sample from before the fault, then what was scraped during the fault (until the cell
had looked whether it is noticed), then the last of these for two hours, so that `for:` and ages
above a limit can pass. What grows with the time while the fault lasts (an age, a lag in seconds)
goes on growing; everything else stays as it was last seen. Each daemon has the series `up` that
Prometheus itself makes: 0 while the cell has stopped it."""

import json
import math
import os
import re
import subprocess

from . import service

STEP = 15
HEALTHY_STEPS = 20
FAULT_STEPS_MAX = 40
HELD_STEPS = 480
HEALTHY_AT = STEP * HEALTHY_STEPS
_LOOKS = [HEALTHY_AT + minutes * 60 for minutes in (1, 5, 11, 20, 40, 75, 110)]

_ALERT = re.compile(r"\{([^{}]*)\}")
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"')


def _number(value):
    """As promtool reads it; None and what is no number are missing samples."""
    return "_" if value is None or not math.isfinite(value) else f"{value:.6f}"


def _held(value, count, step=0):
    number = _number(value)
    return f"_x{count}" if number == "_" else f"{number}+{step}x{count - 1}"


def _values(before, during, now_grows):
    """The values of one series as promtool writes them."""
    last = during[-1] if during else before
    words = [_held(before, HEALTHY_STEPS)] + [_number(value) for value in during]
    return " ".join(words + [_held(last, HELD_STEPS, STEP if now_grows else 0)])


def _grows_with_time(series, scrapes):
    """Whether a gauge of seconds rose as fast as the clock between two scrapes of the fault."""
    if not series.name.endswith("_seconds"):
        return False
    seen = [(s.begin, s.samples[series]) for s in scrapes if s.samples and series in s.samples]
    if len(seen) < 2:
        return False
    (first_at, first), (last_at, last) = seen[0], seen[-1]
    return last > first and (last - first) >= 0.5 * (last_at - first_at)


def series_of(watch, fault_at, fault_end=None):
    """The input series of one daemon: [{"series": ..., "values": ...}]."""
    before = [s for s in watch.scrapes if s.begin < fault_at and s.samples is not None]
    during = [s for s in watch.scrapes
              if s.begin >= fault_at and (fault_end is None or s.begin <= fault_end)]
    if len(during) > FAULT_STEPS_MAX:
        during = during[:: len(during) // FAULT_STEPS_MAX + 1] + during[-1:]
    healthy = before[-1].samples if before else {}
    names = set(healthy)
    for scrape in during:
        names |= set(scrape.samples or {})
    label = (("instance", watch.daemon.name), ("job", "tidemark"))
    rows = []
    for series in sorted(names):
        if series.name.startswith(("process_", "tidemark_net_")):
            continue
        full = service.Series((series.name, tuple(sorted(series[1] + label))))
        values = [(s.samples or {}).get(series) for s in during]
        rows.append({"series": str(full),
                     "values": _values(healthy.get(series), values,
                                       _grows_with_time(series, during))})
    ups = [1.0 if s.samples is not None else 0.0 for s in during]
    rows.append({"series": str(service.Series(("up", label))), "values": _values(1.0, ups, False)})
    return rows


def firing(rules_file, watches, fault_at, fault_end, directory):
    """Alerts that fire: (before the fault, during it), as lists of their labels."""
    rows = [row for watch in watches for row in series_of(watch, fault_at, fault_end)]
    looks = [HEALTHY_AT - STEP] + _LOOKS
    test = {
        "rule_files": [os.path.abspath(rules_file)],
        "evaluation_interval": f"{STEP}s",
        "tests": [{"interval": f"{STEP}s", "input_series": rows,
                   "promql_expr_test": [
                       {"expr": 'ALERTS{alertstate="firing"}', "eval_time": f"{at}s",
                        "exp_samples": []} for at in looks]}],
    }
    path = os.path.join(directory, "alerts.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(test, file)
    ended = subprocess.run(["promtool", "test", "rules", path], capture_output=True, text=True,
                           check=False)
    text = ended.stdout + ended.stderr
    if ended.returncode not in (0, 1) or "FAILED" not in text and "SUCCESS" not in text:
        raise RuntimeError(f"promtool: {text[-500:]}")
    before, during = [], []
    for part in re.split(r"(?=expr: )", text):
        at = re.search(r"time: (\S+?),", part)
        got = re.search(r"got:(.*)", part, re.S)
        if not at or not got:
            if "parse" in part.lower() and "error" in part.lower():
                raise RuntimeError(f"promtool: {part[-500:]}")
            continue
        alerts = [dict(_LABEL.findall(labels)) for labels in _ALERT.findall(got.group(1))]
        (before if _seconds(at.group(1)) < HEALTHY_AT else during).extend(alerts)
    return before, during


def _seconds(text):
    """Go's form of a duration: 1h2m3s."""
    units = {"h": 3600, "m": 60, "s": 1}
    return sum(float(number) * units[unit] for number, unit in re.findall(r"([\d.]+)([hms])", text))
