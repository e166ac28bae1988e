#!/usr/bin/env python3
"""telemetry.py AGENT_URL POSITION_FILE - sends three spans to an agent, then reads what is new there.

    tidemark agent --store agent.db &           # ready grpc=127.0.0.1:4317 http=127.0.0.1:4318
    ./telemetry.py http://127.0.0.1:4318 position.json

Run it again: it goes on behind the last span that it has read.
"""

import json
import os
import secrets
import sys
import time

from tidemark_json import Service, post


def send(url, names):
    """OTLP as JSON. Answered means on disk at the agent.

    A lost answer is met by sending the same spans again: they may then be there twice, under two numbers, and never be missing. Their
    span ids are the same, so a reader that must count exactly can tell.
    """
    now = time.time_ns()
    trace_id = secrets.token_hex(16)
    spans = [
        {
            "traceId": trace_id,
            "spanId": secrets.token_hex(8),
            "name": name,
            "kind": 2,  # server
            "startTimeUnixNano": str(now),
            "endTimeUnixNano": str(now + 12_000_000),
        }
        for name in names
    ]
    service = {"attributes": [{"key": "service.name", "value": {"stringValue": "checkout"}}]}
    body = {"resourceSpans": [{"resource": service, "scopeSpans": [{"spans": spans}]}]}
    post(url + "/v1/traces", body, {"content-type": "application/json"})


def read_new(url, path):
    """Yields spans behind the stored position. A span that was yielded is not yielded again, also after a restart."""
    agent = Service(url, "tidemark.agent.v1.AgentService")
    position = load(path)
    while True:
        page = agent.QueryTelemetry(
            startSeqId=position["seq"],
            # A reader with a name keeps what it has not read from being dropped. Session and epoch say whose numbers ours are.
            position={"reader": "example-python", "epoch": position["epoch"], "epochId": position["epoch_id"]},
        )
        state = page["state"]
        if position["session"] not in ("", page["sessionId"]) or state["standing"] == "STANDING_DIVERGED":
            print("another history: reading from its beginning", file=sys.stderr)
            position = START
            continue
        for hole in state["holes"]:  # numbers that will never come, and why: a fact, not a guess
            print(f"lost {hole['firstSeqId']}..{hole['lastSeqId']}: {hole['reason']}", file=sys.stderr)
        yield from page["spans"]
        # scannedThrough and not the last span's number: it is right also when the page is empty.
        position = {
            "session": page["sessionId"],
            "epoch": state["epoch"],
            "epoch_id": state["epochId"],
            "seq": state["scannedThroughSeqId"],
        }
        save(path, position)  # behind the work: a crash repeats a page and skips nothing
        if not state["more"]:
            return


START = {"session": "", "epoch": "0", "epoch_id": "", "seq": "0"}


def load(path):
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except FileNotFoundError:
        return START


def save(path, position):
    with open(path + ".new", "w", encoding="utf-8") as file:
        json.dump(position, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(path + ".new", path)  # the old one or the new one, never half of it


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    send(sys.argv[1], ["GET /cart", "POST /order", "GET /receipt"])
    for span in read_new(sys.argv[1], sys.argv[2]):
        print(f"span {span['seqId']} {span['serviceName']} {span['spanName']} {span['durationMs']:g} ms")
