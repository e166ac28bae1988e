"""Calls of Tidemark's services as JSON by POST. Needs Python alone.

    work = Service("http://127.0.0.1:4319", "tidemark.work.v1.WorkService", token=None)
    answer = work.Claim(worker="w1", wait_ms=1000)

Members are named as the fields in proto/tidemark/*/v1/*.proto (docs/protocol.md, Plain JSON). tidemark.agent.v1 has protobuf's own mapping:
lowerCamelCase, and 64-bit numbers as decimal texts.

Every call here is sent again when its answer was lost or the service is away. That is safe because the examples make only calls
that may be repeated: with an id, a key or a token that tells the service "this is the same one".
"""

import http.client
import json
import random
import time
import urllib.error
import urllib.request

# Passing trouble, and "it may have happened": both end by asking the same again.
REPEAT = {"UNAVAILABLE", "BUSY", "TIMEOUT", "OUTCOME_UNKNOWN", "SERIALIZATION", "FULL", "NOMEM"}
TRIES = 8


class Refused(Exception):
    """The service has decided. reason: LEASE_LOST, CONFLICT, EXISTS, NOT_FOUND, INVALID, ... (docs/reference/errors.md)."""

    def __init__(self, reason, message):
        super().__init__(f"{reason}: {message}")
        self.reason = reason


class Service:
    def __init__(self, url, name, token=None):
        self.url = f"{url}/{name}/"
        self.headers = {"content-type": "application/json"}
        if token:
            self.headers["authorization"] = f"Bearer {token}"

    def __getattr__(self, method):
        return lambda **fields: post(self.url + method, fields, self.headers)


def post(url, body, headers):
    """One call; waits a little longer before each repetition, and never in step with other clients."""
    for attempt in range(1, TRIES + 1):
        try:
            request = urllib.request.Request(url, json.dumps(body).encode(), headers)
            with urllib.request.urlopen(request, timeout=70) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            failure = refusal_of(error)
            wait_s = float(error.headers.get("retry-after") or 0)
        except (OSError, http.client.HTTPException) as error:  # refused, cut off, timed out: nobody knows whether it was done
            failure, wait_s = Refused("UNAVAILABLE", str(error)), 0
        if failure.reason not in REPEAT or attempt == TRIES:
            raise failure
        time.sleep(max(wait_s, random.uniform(0.5, 1) * 0.05 * 2**attempt))


def refusal_of(error):
    try:
        body = json.load(error)
        reasons = [d["reason"] for d in body.get("details", []) if "reason" in d]
        return Refused(reasons[0] if reasons else f"HTTP_{error.code}", body["message"])
    except (ValueError, KeyError, OSError):  # a proxy's page, perhaps, and no answer of ours
        return Refused("UNAVAILABLE" if error.code >= 500 else f"HTTP_{error.code}", error.reason)
