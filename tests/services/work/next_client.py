"""next_client.py ADDRESS - WorkService/Next of a running service: what is finished, refused, claimed and waited for."""

import json
import sys
import threading
import urllib.error
import urllib.request

ADDRESS = sys.argv[1]


def call(method, **request):
    """The response, or the HTTP status of a refusal."""
    question = urllib.request.Request(
        f"http://{ADDRESS}/tidemark.work.v1.{method}", data=json.dumps(request).encode(), headers={"content-type": "application/json"}
    )
    try:
        with urllib.request.urlopen(question, timeout=120) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as refusal:
        return refusal.code


def expect(wanted, found):
    if wanted != found:
        sys.exit(f"want {wanted!r}, found {found!r}")


def next_items(results, **claim):
    finished = [{"lease": {"work_item_id": i, "lease_token": t}, "output_data": o} for i, t, o in results]
    return call("WorkService/Next", results=finished, claim={"worker": "w", "work_types": ["job"], **claim})


def add(*ids):
    expect(len(ids), len(call("WorkService/AddItems", items=[{"work_item_id": i, "task_id": "t", "work_type": "job"} for i in ids])["items"]))


def ids(response):
    return [item["work_item_id"] for item in response["items"]]


call("WorkService/CreateTask", task_id="t")
add("a", "b", "c")
first = next_items([])
expect(["a"], ids(first))
token = first["items"][0]["lease_token"]

# One is finished, one refused; two are claimed.
second = next_items([("a", token, {"n": 1}), ("nobody", 5, None)], limit=2)
expect(["b", "c"], ids(second))
expect([{"work_item_id": "nobody", "lease_token": 5}], second["lost"])
expect({"n": 1}, call("WorkService/GetItem", work_item_id="a")["output_data"])

# Nothing is there: what was finished is finished at once, and the answer waits for an item.
b, c = (item["lease_token"] for item in second["items"])
nothing = next_items([("b", b, None)])
expect([], ids(nothing))
expect([], nothing["lost"])
waited = []
waiter = threading.Thread(target=lambda: waited.append(next_items([("c", c, None)], wait_ms=60000)))
waiter.start()
while call("WorkService/GetItem", work_item_id="c")["status"] != "completed":
    pass
add("d")
waiter.join()
expect(["d"], ids(waited[0]))

# Bad input changes nothing.
expect(400, call("WorkService/Next", results=[]))
expect(400, next_items([("d", waited[0]["items"][0]["lease_token"], None)] * 2))
expect(400, next_items([], wait_ms=-1))
expect(400, next_items([("d", 1, None)] * 1001))
expect("in_progress", call("WorkService/GetItem", work_item_id="d")["status"])
