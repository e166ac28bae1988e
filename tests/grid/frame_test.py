#!/usr/bin/env python3
"""The frame of the grid, judged by planted faults: an oracle that finds nothing proves nothing."""

import http.server
import os
import socket
import sys
import tempfile
import threading
import time
import unittest
from importlib.machinery import SourceFileLoader
from unittest import mock

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support", "program"))
sys.dont_write_bytecode = True

from frame import alerts, grid, history, oracle, proxy, run_cell, service  # noqa: E402
from frame import table, watch  # noqa: E402
import tap  # noqa: E402

run = SourceFileLoader("grid_run", os.path.join(os.path.dirname(__file__), "run")).load_module()

RULES = """
groups:
  - name: test
    rules:
      - alert: Lost
        expr: lost_total > 0
      - alert: Behind
        expr: age_seconds > 900
        for: 5m
      - alert: Gone
        expr: absent(known{object="a"})
      - alert: Down
        expr: up == 0
        for: 2m
"""


class FakeDaemon:
    """A daemon whose /metrics is a text, for the oracle alone."""

    def __init__(self, name, text, seconds=0):
        self.name = name
        self.text = text
        self.seconds = seconds
        self.lines = []
        daemon = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):  # noqa: N802
                time.sleep(daemon.seconds)
                body = daemon.text.encode()
                self.send_response(200)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def log_size(self):
        return len(self.lines)

    def warnings(self, since=0):
        return self.lines[since:]


class OracleTest(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.oracle = oracle.Oracle(self.directory.name, self.directory.name)
        self.daemon = FakeDaemon("d", 'known{object="a"} 1\nfailures_total 0\nage_seconds 1\n')
        os.makedirs(os.path.join(self.directory.name, os.path.dirname(oracle.RULES)))
        with open(os.path.join(self.directory.name, oracle.RULES), "w", encoding="utf-8") as file:
            file.write(RULES)
        self.oracle.watches[self.daemon] = watch.Watch(self.daemon)

    def tearDown(self):
        for one in self.oracle.watches.values():
            one.stop()
        self.daemon.server.shutdown()
        self.daemon.server.server_close()
        self.directory.cleanup()

    def begin(self):
        self.oracle.begin_fault([self.daemon], ("a",))

    def look(self, **options):
        self.oracle.noticed([self.daemon], "failures_total", limit=1.5, **options)
        return " ".join(self.oracle.findings)

    def test_a_silent_fault_has_both_findings(self):
        self.begin()
        found = self.look()
        self.assertIn("metric: ", found)
        self.assertIn("log: ", found)

    def test_a_reported_fault_has_none(self):
        self.begin()
        self.daemon.text = self.daemon.text.replace("failures_total 0", "failures_total 1")
        self.daemon.lines.append('level=warn msg="cannot reach a"')
        self.assertEqual(self.look(), "")

    def test_a_warning_from_before_the_fault_does_not_count(self):
        self.daemon.lines.append('level=warn msg="cannot reach a"')
        self.begin()
        self.daemon.text = self.daemon.text.replace("failures_total 0", "failures_total 1")
        self.assertIn("log: ", self.look())

    def test_an_answer_that_is_not_given_is_found(self):
        self.begin()
        self.assertIn("answer: not told", self.look(told=(lambda: False, "not told")))

    def test_a_series_that_vanishes_is_found(self):
        self.begin()
        self.daemon.text = "failures_total 0\n"
        self.oracle.watches[self.daemon].wait_next()
        self.oracle.check_scrapes()
        self.assertIn("series: known", " ".join(self.oracle.findings))

    def test_a_scrape_that_is_late_is_found(self):
        self.begin()
        with mock.patch.object(watch.waiting, "allowance", lambda limit, begin: limit), \
                mock.patch.object(watch.waiting, "delay", lambda pid: 0):
            self.daemon.seconds = watch.ANSWER_LIMIT + 1
            self.oracle.watches[self.daemon].wait_next()
        self.oracle.check_scrapes()
        self.assertIn("scrape: ", " ".join(self.oracle.findings))

    def test_a_scrape_that_waits_for_a_processor_is_not_late(self):
        self.begin()
        with mock.patch.object(watch.waiting, "allowance", lambda limit, begin: limit), \
                mock.patch.object(watch.waiting, "delay", lambda pid: time.monotonic()):
            self.daemon.seconds = watch.ANSWER_LIMIT + 1
            self.oracle.watches[self.daemon].wait_next()
        self.oracle.check_scrapes()
        self.assertEqual(self.oracle.findings, [])

    def test_what_does_not_heal_is_found(self):
        self.oracle.healed(lambda: False, "it works", 0.1)
        self.assertIn("heal: it works", " ".join(self.oracle.findings))

    def alerts_after(self, text):
        self.begin()
        self.daemon.text = text
        self.oracle.watches[self.daemon].wait_next()
        time.sleep(2 * watch.PERIOD)
        return alerts.firing(os.path.join(self.directory.name, oracle.RULES),
                             list(self.oracle.watches.values()), self.oracle.fault_at, None,
                             self.directory.name)

    def names(self, found):
        return {alert["alertname"] for alert in found}

    def test_no_alert_fires_where_nothing_is_wrong(self):
        before, during = self.alerts_after(self.daemon.text)
        self.assertEqual((before, during), ([], []))

    def test_an_alert_fires_for_a_counter(self):
        before, during = self.alerts_after(self.daemon.text + 'lost_total{object="a"} 2\n')
        self.assertEqual((before, self.names(during)), ([], {"Lost"}))

    def test_an_alert_fires_for_a_series_that_is_gone(self):
        _, during = self.alerts_after("failures_total 0\n")
        self.assertEqual(self.names(during), {"Gone"})

    def test_an_age_that_stays_is_no_alert_and_one_that_grows_is(self):
        begin = time.monotonic()
        self.begin()
        for _ in range(4):
            self.daemon.text = f'known{{object="a"}} 1\nage_seconds {time.monotonic() - begin}\n'
            self.oracle.watches[self.daemon].wait_next()
        _, during = alerts.firing(os.path.join(self.directory.name, oracle.RULES),
                                  list(self.oracle.watches.values()), self.oracle.fault_at, None,
                                  self.directory.name)
        self.assertEqual(self.names(during), {"Behind"})

    def test_a_missing_alert_is_a_finding(self):
        self.begin()
        self.oracle.check_alerts()
        self.assertIn("alert: no shipped rule fires", self.oracle.findings)


class MarkTest(unittest.TestCase):
    def row(self, mark):
        return table.Cell("s", "hung", "continues", "reports", "", mark, False, 1, "", print)

    def test_a_cell_without_findings_passes(self):
        self.assertEqual(run.judge(self.row(None), []), (True, ""))

    def test_a_cell_with_findings_fails(self):
        self.assertFalse(run.judge(self.row(None), ["log: x"])[0])

    def test_a_marked_cell_passes_while_it_is_red_for_the_stated_reason(self):
        self.assertTrue(run.judge(self.row(table.Mark("work", "log: x")), ["log: xyz"])[0])

    def test_a_marked_cell_that_passes_fails_the_run(self):
        self.assertFalse(run.judge(self.row(table.Mark("work", "log: x")), [])[0])

    def test_a_marked_cell_that_is_red_for_another_reason_fails_the_run(self):
        mark = table.Mark("work", "log: x")
        self.assertFalse(run.judge(self.row(mark), ["log: x", "data: y"])[0])

    def test_an_exception_in_a_cell_is_an_error_that_no_mark_explains(self):
        def broken(_):
            raise grid.Unmet("planted")

        row = table.Cell("s", "hung", "continues", "reports", "", table.Mark("work", "log: "),
                         False, 1, "", broken)
        with tempfile.TemporaryDirectory() as directory:
            findings, _ = run_cell.run(row, directory, "")
        self.assertIn("error: ", findings[0])
        self.assertFalse(run.judge(row, findings)[0])

    def test_a_cell_that_plants_no_fault_or_does_not_look_is_an_error(self):
        row = table.Cell("s", "hung", "continues", "reports", "", None, False, 1, "",
                         lambda g: "continues")
        with tempfile.TemporaryDirectory() as directory:
            findings, _ = run_cell.run(row, directory, "")
        self.assertEqual(len([f for f in findings if f.startswith("error: ")]), 2)


class ProxyTest(unittest.TestCase):
    def setUp(self):
        self.got = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self.serve, daemon=True).start()
        self.proxy = proxy.Proxy(self.listener.getsockname()[1])

    def tearDown(self):
        self.proxy.close()
        self.listener.close()

    def serve(self):
        while True:
            try:
                peer, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.echo, args=(peer,), daemon=True).start()

    def echo(self, peer):
        try:
            while data := peer.recv(100):
                self.got.append(data)
                peer.sendall(b"did " + data)
        except OSError:
            pass

    def connect(self):
        return socket.create_connection(("127.0.0.1", self.proxy.port), timeout=5)

    def test_an_answer_is_lost_behind_the_work_and_only_on_the_connection_that_asked(self):
        with self.connect() as one, self.connect() as two:
            self.proxy.lose_answer(rb"did", request=b"B")
            one.sendall(b"A")
            self.assertEqual(one.recv(100), b"did A")
            two.sendall(b"B")
            with self.assertRaises(OSError):
                if two.recv(100) == b"":
                    raise ConnectionResetError
            self.assertTrue(self.proxy.lost.is_set())
            self.assertIn(b"B", self.got)
            one.sendall(b"C")
            self.assertEqual(one.recv(100), b"did C")

    def test_a_refusing_proxy_serves_nobody_and_an_allowing_one_again(self):
        self.proxy.refuse()
        with self.assertRaises(OSError), self.connect() as one:
            one.sendall(b"A")
            if one.recv(100) == b"":
                raise ConnectionResetError
        self.proxy.allow()
        with self.connect() as one:
            one.sendall(b"A")
            self.assertEqual(one.recv(100), b"did A")

    def test_held_bytes_arrive_after_the_release(self):
        with self.connect() as one:
            self.proxy.hold()
            one.sendall(b"A")
            self.assertTrue(self.proxy.held.wait(5))
            self.assertEqual(self.got, [])
            self.proxy.release()
            self.assertEqual(one.recv(100), b"did A")


class ServiceTest(unittest.TestCase):
    def test_metrics_are_read_with_their_labels(self):
        found = service.parse_metrics('a{b="c d",e="f\\"g"} 2.5\n# HELP x y\nup 1\n')
        self.assertEqual(found[service.Series(("a", (("b", "c d"), ("e", 'f"g'))))], 2.5)
        self.assertEqual(found[service.Series(("up", ()))], 1)

    def test_a_refusal_names_its_status_and_no_answer_is_an_unknown_outcome(self):
        body = '{"code":9,"message":"m","details":[{"reason":"LEASE_LOST"}]}'
        refused = service.Answer(412, body, 0)
        self.assertEqual(grid.Grid.verdict_of(refused), "refuses E_LEASE_LOST")
        self.assertEqual(history.result_of(refused), "fail")
        self.assertEqual(history.result_of(service.Answer(0, "timed out", 0)), "unknown")


if __name__ == "__main__":
    tap.main()
