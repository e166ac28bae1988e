"""Watches a daemon as Prometheus does: /metrics, again and again, from another thread."""

import os
import threading
import time

from . import service, waiting

PERIOD = 0.4
ANSWER_LIMIT = 2  # seconds, whatever is broken
HOPELESS = 40  # a scrape that is given up


class Scrape:
    """One scrape: when it began, how long it took, the samples (None: no answer). is_planned: the
    cell itself had stopped the daemon; Prometheus would see the same."""

    def __init__(self, begin, seconds, samples, error, is_planned=False):
        self.begin = begin
        self.is_planned = is_planned
        self.seconds = seconds
        self.samples = samples
        self.error = error


class Watch:
    """The scrapes of one daemon since start(). Restarted daemons keep their watch."""

    def __init__(self, daemon):
        self.daemon = daemon
        self.scrapes = []
        self.late = []
        self.ended = threading.Event()
        self.is_expected = True  # False while the cell itself has stopped the daemon
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        while not self.ended.is_set():
            if self.is_expected:
                self._scrape()
            else:
                self.scrapes.append(Scrape(time.monotonic(), 0, None, "stopped by the cell", True))
            self.ended.wait(PERIOD)

    def _scrape(self):
        begin, delayed = time.monotonic(), self._delay()
        address = self.daemon.address
        answer = service.request(address, "GET", "/metrics", limit=HOPELESS)
        seconds = time.monotonic() - begin
        if not self.is_expected or address != self.daemon.address or self.ended.is_set():
            return  # the cell stopped it meanwhile
        samples = service.parse_metrics(answer.text) if answer.is_ok else None
        self.scrapes.append(Scrape(begin, seconds, samples, "" if answer.is_ok else repr(answer)))
        if seconds <= ANSWER_LIMIT:
            return
        delayed = self._delay() - delayed
        if seconds > waiting.allowance(ANSWER_LIMIT, begin) + max(0, delayed):
            self.late.append(seconds)

    def _delay(self):
        """What the daemon and we have waited for a processor; a daemon that was restarted counts
        from 0."""
        pid = getattr(self.daemon, "pid", None)
        return waiting.delay(os.getpid()) + (waiting.delay(pid) if pid else 0)

    def newest(self):
        """The samples of the newest scrape that was answered, or None."""
        for scrape in reversed(self.scrapes):
            if scrape.samples is not None:
                return scrape.samples
        return None

    def wait_next(self, limit=HOPELESS):
        """The samples of a scrape that began after this call."""
        begin = time.monotonic()

        def look():
            for scrape in self.scrapes:
                if scrape.begin >= begin and scrape.samples is not None:
                    return scrape.samples
            return None

        return waiting.wait_for(look, limit, f"/metrics of {self.daemon.name} is answered")

    def stop(self):
        self.ended.set()
