#!/usr/bin/env python3
"""load.py CONFIGURATION - clients that write while servers fail, and what each was answered.

Runs in the network of the clients. Starts `tidemark serve` processes over the store, then threads
that append checkpoints, claim and finish items by JSON over HTTP, and `tidemark sequence next` and
`checkpoint tail --follow` as programs. Every call and its answer is a line of the history
(tests/check/README.md). Ends when its standard input is closed, and drains the queue then.
"""

import http.client
import json
import os
import subprocess
import sys
import threading
import time
import uuid

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "check"))
from history import History  # noqa: E402

CALL_S = 40  # longer than the deadline of a call to the store
REFUSED = (400, 404, 409, 412)  # answered, and nothing was done


class Unknown(Exception):
    """No answer, or one that leaves the outcome open."""


class Refused(Exception):
    """Answered: nothing was done."""

    def __init__(self, status, body):
        super().__init__(f"{status} {body}")
        self.status = status


class Service:
    """A connection to one `tidemark serve`; one call at a time."""

    def __init__(self, port):
        self.port = port
        self.connection = None

    def call(self, method, **request):
        package = "journal" if method.startswith("Journal") else "work"
        try:
            if self.connection is None:
                self.connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=CALL_S)
            self.connection.request("POST", f"/tidemark.{package}.v1.{method}", json.dumps(request),
                                    {"Content-Type": "application/json"})
            answer = self.connection.getresponse()
            body = answer.read()
        except (OSError, http.client.HTTPException) as error:
            if self.connection is not None:
                self.connection.close()
            self.connection = None
            raise Unknown(str(error)) from error
        if answer.status == 200:
            return json.loads(body)
        if answer.status in REFUSED:
            raise Refused(answer.status, body.decode(errors="replace"))
        raise Unknown(f"{answer.status} {body.decode(errors='replace')[:200]}")


def member(row, *names):
    """A member in snake_case or lowerCamelCase; integers may be strings."""
    for name in names:
        head, *rest = name.split("_")
        for spelling in (name, head + "".join(part.title() for part in rest)):
            if spelling in row and row[spelling] is not None:
                return row[spelling]
    return None


class Load:
    def __init__(self, configuration):
        self.configuration = configuration
        self.history = History(configuration["history"])
        self.orders = History(configuration["history"] + ".orders")  # no row carries its numbers
        self.is_over = threading.Event()
        self.is_drained = threading.Event()
        self.lock = threading.Lock()
        self.counts = {"acknowledged": 0, "refused": 0, "unknown": 0}
        self.reasons = {}

    def count(self, what, reason=None):
        with self.lock:
            self.counts[what] += 1
            if reason:
                reason = reason[:160]
                self.reasons[reason] = self.reasons.get(reason, 0) + 1

    # ---- journal ----

    def append(self, name, port, is_keyed):
        """A keyed append is repeated under its id until its outcome is known."""
        service = Service(port)
        while not self.is_over.is_set():
            value = str(uuid.uuid4())
            call = self.history.call(name, "take", sequence="journal", value=value)
            checkpoint = {"task_id": "t", "type": "manual_checkpoint", "snapshot": {},
                          "message": value}
            if is_keyed:
                checkpoint["checkpoint_id"] = value
            while True:
                try:
                    answer = service.call("JournalService/Append", checkpoints=[checkpoint])
                    row = member(answer, "checkpoints")[0]
                    call.ok(number=int(member(row, "global_sequence")),
                            session=member(row, "session_id"), epoch=int(member(row, "epoch")))
                    self.count("acknowledged")
                    break
                except Refused as error:
                    call.fail()
                    self.count("refused", str(error))
                    break
                except Unknown as error:
                    self.count("unknown", str(error))
                    if is_keyed and not self.is_drained.is_set():
                        time.sleep(0.2)
                        continue
                    call.unknown()
                    break
            time.sleep(0.01)

    # ---- work ----

    def add(self, name, port):
        service = Service(port)
        while not self.is_over.is_set():
            item = str(uuid.uuid4())
            call = self.history.call(name, "add", item=item)
            try:
                service.call("WorkService/AddItems", items=[
                    {"work_item_id": item, "task_id": "t", "work_type": "ha"}])
                call.ok()
                self.count("acknowledged")
            except Refused as error:
                call.fail()
                self.count("refused", str(error))
            except Unknown as error:
                call.unknown()
                self.count("unknown", str(error))
            time.sleep(0.05)

    def work(self, name, port):
        """Claims one item at a time; a finish of unknown outcome is repeated with its token."""
        service = Service(port)
        while not self.is_drained.is_set():
            begin = self.history.call(name, "claim")
            try:
                answer = service.call("WorkService/Claim", worker=name, work_types=["ha"], limit=1,
                                      lease_ms=15000)
            except (Refused, Unknown) as error:
                self.count("unknown", str(error))
                time.sleep(0.2)
                continue
            items = member(answer, "items") or []
            if not items:
                time.sleep(0.1)
                continue
            item, token = member(items[0], "work_item_id"), int(member(items[0], "lease_token"))
            begin.members = {"item": item}
            begin.ok(token=token)
            call = self.history.call(name, "finish", item=item, token=token)
            while True:
                try:
                    service.call("WorkService/Finish", lease={"work_item_id": item,
                                 "lease_token": token}, output_data={"token": token})
                    call.ok()
                    self.count("acknowledged")
                    break
                except Refused as error:
                    call.fail()
                    self.count("refused", str(error))
                    break
                except Unknown as error:
                    self.count("unknown", str(error))
                    if self.is_drained.is_set():
                        call.unknown()
                        break
                    time.sleep(0.2)

    # ---- programs ----

    def program(self, *words):
        return [self.configuration["program"], *words, "--store", self.configuration["store"]]

    def take(self, name):
        while not self.is_over.is_set():
            value = str(uuid.uuid4())
            call = self.orders.call(name, "take", sequence="orders", value=value)
            try:
                done = subprocess.run(self.program("sequence", "next", "orders", "--json"),
                                      stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                      timeout=CALL_S * 2)
            except subprocess.TimeoutExpired:
                call.unknown()
                self.count("unknown", "sequence next hangs")
                continue
            if done.returncode == 0:
                row = json.loads(done.stdout)
                call.ok(number=row["first"], session=row["session_id"], epoch=row["epoch"])
                self.count("acknowledged")
            elif done.returncode in (4, 6):
                call.fail()
                self.count("refused", done.stderr)
                time.sleep(0.5)
            else:
                call.unknown()
                self.count("unknown", done.stderr)

    def follow(self, path):
        """A reader that keeps what it was told: rows by number, cut where an epoch says so."""
        process = subprocess.Popen(self.program("checkpoint", "tail", "--follow", "--json"),
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
                                   stderr=open(path + ".err", "w", encoding="utf-8"))
        rows, changes = {}, 0

        def stop():
            self.is_drained.wait()
            deadline = time.monotonic() + 60
            while time.monotonic() < deadline and self.last and self.last not in rows:
                time.sleep(0.1)
            process.terminate()

        stopper = threading.Thread(target=stop)
        stopper.start()
        for line in process.stdout:
            event = json.loads(line)
            if event["event"] == "epoch_changed":
                changes += 1
                rows = {n: v for n, v in rows.items() if n <= event["last_common"]}
            elif event["event"] == "created":
                number = event["checkpoint"]["global_sequence"]
                if number in rows:
                    self.reasons[f"follower: {number} came twice"] = 1
                rows[number] = event["checkpoint"]["message"]
        stopper.join()
        process.wait()
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"rows": rows, "changes": changes}, file)

    # ---- life ----

    def serve(self, number):
        process = subprocess.Popen(
            self.program("serve", "--listen", "127.0.0.1:0", "--log-level", "warn"),
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
            stderr=open(os.path.join(self.configuration["directory"], f"serve-{number}.log"), "w",
                        encoding="utf-8"))
        line = process.stdout.readline()
        if "listen=" not in line:
            sys.exit(f"serve did not start: {line}")
        return process, int(line.split("listen=")[1].split()[0].rsplit(":", 1)[1])

    def run(self):
        self.last = None
        servers = [self.serve(n) for n in range(2)]
        writers, threads = [], []

        def start(fn, *arguments, of=threads):
            of.append(threading.Thread(target=fn, args=arguments))
            of[-1].start()

        for n, (_, port) in enumerate(servers):
            for k in range(2):
                start(self.append, f"append-{n}-{k}", port, k == 0, of=writers)
                start(self.work, f"work-{n}-{k}", port)
            start(self.add, f"add-{n}", port, of=writers)
        start(self.take, "take")
        for k in range(2):
            start(self.follow, os.path.join(self.configuration["directory"], f"follower-{k}.json"))
        print("ready", flush=True)
        sys.stdin.read()  # until the cluster is whole again
        self.is_over.set()
        deadline = time.monotonic() + 90
        for thread in writers:  # a call under way may still add a row or an item
            thread.join(deadline - time.monotonic())
        service = Service(servers[0][1])
        deadline = time.monotonic() + 90
        while time.monotonic() < deadline:  # until nothing is pending
            try:
                rows = member(service.call("WorkService/ListItems", task_id="t", status="pending",
                                           limit=1), "items") or []
                busy = member(service.call("WorkService/ListItems", task_id="t", limit=1,
                                           status="in_progress"), "items") or []
                if not rows and not busy:
                    break
            except (Refused, Unknown):
                pass
            time.sleep(0.5)
        try:
            self.last = int(member(service.call("JournalService/Head"), "global_sequence"))
        except (Refused, Unknown) as error:
            self.count("unknown", str(error))
        self.is_drained.set()
        for thread in writers + threads:
            thread.join()
        for process, _ in servers:
            process.terminate()
            process.wait()
        print(json.dumps({"counts": self.counts, "reasons": self.reasons}), flush=True)


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as given:
        Load(json.load(given)).run()
