"""Calls to a daemon over HTTP: methods as JSON, health, metrics."""

import http.client
import json
import re
import socket
import time

_SAMPLE = re.compile(r"^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)")
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"')


class Answer:
    """What a call was answered with. status 0: not at all, and text says why."""

    def __init__(self, status, text, seconds):
        self.status = status
        self.text = text
        self.seconds = seconds

    @property
    def is_ok(self):
        return self.status == 200

    @property
    def json(self):
        return json.loads(self.text)

    @property
    def code(self):
        """The name of the status, E_NOT_FOUND; "" if it was no refusal of the program."""
        if self.is_ok or not self.status:
            return ""
        try:
            for detail in json.loads(self.text).get("details", []):
                if detail.get("reason"):
                    return "E_" + detail["reason"]
        except ValueError:
            pass
        return ""

    def __repr__(self):
        return f"{self.status or 'no answer'}: {self.text.strip()[:300]}"


def request(address, method, path, body=None, limit=30, headers=None):
    """One request on a connection of its own."""
    host, port = address.rsplit(":", 1)
    begin = time.monotonic()
    connection = http.client.HTTPConnection(host, int(port), timeout=limit)
    try:
        connection.request(method, path, body, headers or {})
        response = connection.getresponse()
        text = response.read().decode(errors="replace")
        return Answer(response.status, text, time.monotonic() - begin)
    except (OSError, socket.timeout, http.client.HTTPException) as error:
        return Answer(0, f"{type(error).__name__}: {error}", time.monotonic() - begin)
    finally:
        connection.close()


def call(address, method, message=None, limit=30, headers=None):
    """POST a method: tidemark.work.v1.WorkService/Claim."""
    return request(address, "POST", "/" + method, json.dumps(message or {}), limit,
                   {"content-type": "application/json", **(headers or {})})


class Series(tuple):
    """A metric's name and its labels: ("up", (("instance", "a"),))."""

    @property
    def name(self):
        return self[0]

    @property
    def labels(self):
        return dict(self[1])

    def __str__(self):
        labels = ",".join(f'{key}="{value}"' for key, value in self[1])
        return f"{self[0]}{{{labels}}}" if labels else self[0]


def parse_metrics(text):
    """Prometheus text: {Series: value}."""
    samples = {}
    for line in text.splitlines():
        match = _SAMPLE.match(line)
        if not match:
            continue
        labels = tuple(sorted((key, re.sub(r"\\(.)", _unescape, value))
                              for key, value in _LABEL.findall(match.group(2) or "")))
        samples[Series((match.group(1), labels))] = float(match.group(3))
    return samples


def _unescape(match):
    return "\n" if match.group(1) == "n" else match.group(1)
