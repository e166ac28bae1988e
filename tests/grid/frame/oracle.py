"""The oracle of all cells: nothing is silent.

Within 10 s of a fault a metric moved, a line of the program log of level warn or above names the
object, and the answer, /readyz or a status command reports it. /metrics answers within 2 s
throughout, and no series of a known object vanishes. The shipped alert rules fire where data is
held up or lost. After the fault is healed the system continues without help.

A state of commands only (a sequence that a command reads) has no daemon: no process lives on that
could be scraped or could log. There the exit code and the message are all there is, and they are
what is judged.

Findings are texts that begin with the name of the check: metric, log, answer, alert, scrape,
series, heal, data, verdict. "error: ..." is a defect of the cell, never of the program."""

import os
import re
import time

from . import alerts, waiting

NOTICE_LIMIT = 10
RULES = os.path.join("packaging", "prometheus", "tidemark.rules.yml")

# Labels whose values come and go with what happens, not with the objects that exist.
_PASSING = {"reason", "status", "code", "le", "result", "health", "state", "method", "quantile"}


class Oracle:
    """Collects the findings of one cell."""

    def __init__(self, source_dir, directory):
        self.source_dir = source_dir
        self.directory = directory
        self.findings = []
        self.watches = {}
        self.fault_at = None
        self.fault_end = None
        self.baseline = {}
        self.log_at = {}
        self.names = ()
        self.known = ()
        self.has_noticed = False
        self.notice_reason = None
        self.has_healed = None

    def find(self, text):
        if text not in self.findings:
            self.findings.append(text)

    # ---- the fault ----

    def begin_fault(self, daemons, names, known=(), may_vanish=False):
        """From here on the fault is there. names: of the objects that it is about. known: label
        values of series that must not vanish, besides those with one of the names. may_vanish:
        the objects themselves are gone."""
        self.names = tuple(names)
        self.known = () if may_vanish else tuple(names) + tuple(known)
        for daemon in daemons:
            watch = self.watches.get(daemon)
            if watch is not None:
                self.baseline[daemon] = watch.wait_next()
            self.log_at[daemon] = daemon.log_size()
        self.fault_at = time.monotonic()

    def end_fault(self):
        """The fault is about to be healed: what is scraped from here on is no part of it. noticed()
        says the same."""
        self.fault_end = time.monotonic()

    def noticed(self, daemons, metric, names=None, log=None, told=None, limit=NOTICE_LIMIT):
        """A metric that matches has moved, a warning names the object, and an answer reports it.
        metric: a pattern of its name with labels. log: what the line must hold; the names where
        nothing is given. told: (condition, text of the finding), where the answer is looked for
        here, and not by answers()."""
        self.has_noticed = True
        wanted = re.compile(metric)
        words = [re.escape(name) for name in (names or self.names)]
        line_pattern = re.compile(log or "|".join(words), re.I)
        has_moved = has_line = False
        is_told = told is None

        def look():
            nonlocal has_moved, has_line, is_told
            has_moved = has_moved or any(self._moved(d, wanted) for d in daemons)
            has_line = has_line or any(
                line_pattern.search(line) for d in daemons
                for line in d.warnings(self.log_at.get(d, 0)))
            is_told = is_told or told[0]()
            return has_moved and has_line and is_told

        try:
            waiting.wait_for(look, limit, "a metric and a warning")
        except waiting.TooLate:
            pass
        self._wait_scraped(daemons)
        self.end_fault()
        if not has_moved:
            self.find(f"metric: no metric /{metric}/ moved within {limit} s")
        if not has_line:
            self.find(f"log: no line of level warn or above names {line_pattern.pattern} "
                      f"within {limit} s")
        if not is_told:
            self.find(f"answer: {told[1]} within {limit} s")

    def _wait_scraped(self, daemons):
        """A fault lasts until it was scraped once more: /readyz or a log line may be quicker."""
        for watch in filter(None, map(self.watches.get, daemons)):
            if watch.is_expected:
                try:
                    watch.wait_next(NOTICE_LIMIT)
                except waiting.TooLate:
                    pass

    def _moved(self, daemon, wanted):
        watch = self.watches.get(daemon)
        now = watch.newest() if watch else None
        if now is None:
            return False
        before = self.baseline.get(daemon, {})
        return any(before.get(series, 0) != value for series, value in now.items()
                   if wanted.search(str(series)))

    def without_daemon(self, reason):
        """A state of commands only: the answer is all there is."""
        self.has_noticed = True
        self.notice_reason = reason

    def is_missed(self, daemon, reason):
        """A daemon that the cell has killed or stopped reports nothing itself. Prometheus scrapes
        it in vain, and rules can fire on that; reason says who knows besides."""
        watch = self.watches[daemon]
        begin = len(watch.scrapes)
        waiting.wait_for(lambda: sum(s.is_planned for s in watch.scrapes[begin:]) >= 3,
                         NOTICE_LIMIT, f"{daemon.name} is scraped in vain")
        self.fault_end = time.monotonic()
        self.without_daemon(reason)

    def answers(self, is_told, text):
        """The answer, /readyz or a status command reports the fault."""
        if not is_told:
            self.find(f"answer: {text}")

    def healed(self, condition, what, limit=30):
        """After healing it continues without help."""
        self.has_healed = True
        try:
            waiting.wait_for(condition, limit, what)
        except waiting.TooLate as late:
            self.has_healed = False
            self.find(f"heal: {late}")

    # ---- the end ----

    def check_scrapes(self):
        for daemon, watch in self.watches.items():
            if watch.late:
                self.find(f"scrape: /metrics of {daemon.name} took {max(watch.late):.0f} s, more "
                          f"than 2 s")
            elif any(s.samples is None and not s.is_planned for s in watch.scrapes):
                error = next(s.error for s in watch.scrapes
                             if s.samples is None and not s.is_planned)
                self.find(f"scrape: /metrics of {daemon.name} was not answered: {error[:120]}")
            self._check_series(daemon, watch)

    def _check_series(self, daemon, watch):
        known = {_object_key(series) for series in self.baseline.get(daemon, {})
                 if set(series.labels.values()) & set(self.known)}
        for scrape in watch.scrapes:
            if scrape.samples is None or scrape.begin < (self.fault_at or 0):
                continue
            gone = known - {_object_key(series) for series in scrape.samples}
            if gone:
                name, labels = sorted(gone)[0]
                labels = ",".join(f'{key}="{value}"' for key, value in labels)
                self.find(f"series: {name}{{{labels}}} of {daemon.name} vanished")
                return

    def check_alerts(self, names=None):
        """A shipped rule fires for the object or its daemon, and did not before the fault: while
        the fault lasts as noticed() saw it, or by what is left of it in the end."""
        wanted = set(names or self.known or self.names) | {daemon.name for daemon in self.watches}
        for fault_end in (self.fault_end, None):
            before, during = alerts.firing(
                os.path.join(self.source_dir, RULES), list(self.watches.values()), self.fault_at,
                fault_end, self.directory)
            for alert in before:
                self.find(f"alert: {alert.get('alertname')} fires without a fault")
            if any(set(alert.values()) & wanted for alert in during):
                return
        self.find("alert: no shipped rule fires")


def _object_key(series):
    return series.name, tuple((key, value) for key, value in series[1] if key not in _PASSING)
