#!/usr/bin/env python3
"""work.py URL add ITEM PAGES - adds an item of so many pages.
work.py URL run EFFECTS_FILE [--name NAME] [--lease-ms N] [--items N] - works on items until it is told to stop, or has done N.

    tidemark serve --store work.db &            # ready listen=127.0.0.1:4319
    ./work.py http://127.0.0.1:4319 add invoice-7 20
    ./work.py http://127.0.0.1:4319 run effects.txt

Stop it, kill it or pull its cable at any point and start another: it goes on behind the last page.
"""

import argparse
import signal
import socket
import sys
import threading
import time

from tidemark_json import Refused, Service

TASK = "invoices"
PAGE_S = 0.05


def add(work, item, pages):
    try:
        work.CreateTask(task_id=TASK, title="invoices of the month")
    except Refused as refusal:
        if refusal.reason != "EXISTS":  # somebody was first: fine
            raise
    # Ids of our own make this repeatable: an item that is there already is not added twice.
    answer = work.AddItems(items=[{"work_item_id": item, "task_id": TASK, "work_type": "invoice", "input_data": {"pages": pages}}])
    print("was there" if answer["items"][0]["is_existing"] else "added")


class LeaseLost(Exception):
    pass


class Keeper(threading.Thread):
    """Keeps a lease by renewing it after a third of its time, until it is stopped. lost is set when the lease is gone."""

    def __init__(self, work, lease, lease_ms):
        super().__init__(daemon=True)
        self.work, self.lease, self.lease_ms = work, lease, lease_ms
        self.lost, self.stopped = threading.Event(), threading.Event()

    def run(self):
        while not self.stopped.wait(self.lease_ms / 3000):
            try:
                if not self.work.Renew(leases=[self.lease], lease_ms=self.lease_ms)["lost"]:
                    continue
            except Refused:
                pass  # it could not be renewed in time: as good as lost
            self.lost.set()
            return


class Worker:
    def __init__(self, url, options):
        self.options = options
        self.work = Service(url, "tidemark.work.v1.WorkService")
        self.keys = Service(url, "tidemark.work.v1.IdempotencyService")
        self.journal = Service(url, "tidemark.journal.v1.JournalService")
        self.stopping = threading.Event()

    def run(self):
        done = 0
        while not self.stopping.is_set() and done != self.options.items:
            self.work.Sweep()  # puts back what lost its worker; any number of workers may do so
            # A claim whose answer is lost costs one lease's time: the item comes back when it has run out.
            claimed = self.work.Claim(worker=self.options.name, work_types=["invoice"], lease_ms=self.options.lease_ms, wait_ms=200)
            for item in claimed["items"]:
                done += self.work_on(item)

    def work_on(self, item):
        """Whether it was finished here."""
        lease = {"work_item_id": item["work_item_id"], "lease_token": item["lease_token"]}
        keeper = Keeper(self.work, lease, self.options.lease_ms)
        keeper.start()
        try:
            page = self.last_page(item)
            print(f"{item['work_item_id']} attempt {item['attempt']} behind page {page}", flush=True)
            while page < item["input_data"]["pages"]:
                if self.stopping.is_set():
                    self.work.Release(lease=lease)  # another goes on, and no attempt is spent
                    print("released", flush=True)
                    return False
                if keeper.lost.is_set():
                    raise LeaseLost
                page += 1
                time.sleep(PAGE_S)  # the work itself
                self.checkpoint(lease, page)
            return self.finish(lease, page)
        except (LeaseLost, Refused) as failure:
            if isinstance(failure, Refused) and failure.reason != "LEASE_LOST":
                self.work.Fail(lease=lease, error=str(failure))  # tried again, with a back-off
                raise
            # Another may be at it by now. Nothing is to be put right: the store has refused what we said too late.
            print(f"{item['work_item_id']} lease lost", flush=True)
            return False
        finally:
            keeper.stopped.set()

    def last_page(self, item):
        found = self.journal.List(work_item_id=item["work_item_id"], type="manual_checkpoint", newest_first=True, limit=1, with_snapshot=True)
        return found["checkpoints"][0]["snapshot_data"]["page"] if found["checkpoints"] else 0

    def checkpoint(self, lease, page):
        # Under an id of our own: sent again after a lost answer, it is there once.
        checkpoint = {"checkpoint_id": f"{lease['work_item_id']}-page-{page}", "type": "manual_checkpoint", "snapshot": {"page": page}}
        self.work.Checkpoint(lease=lease, checkpoint=checkpoint)
        print(f"page {page}", flush=True)

    def finish(self, lease, pages):
        """Does what the outside world sees (a mail, a payment) under an idempotency key; key and item end in one commit. Whether it did."""
        response = {"sent": lease["work_item_id"]}
        begun = self.keys.Begin(scope="invoice", key=lease["work_item_id"], request=pages, holder=self.options.name, lock_ms=self.options.lease_ms)
        key = {}
        if begun["outcome"] in ("NEW", "TAKEOVER"):
            # TAKEOVER: somebody began and did not end. Pass the key on to those who do the deed, that they may recognise it.
            with open(self.options.effects, "a", encoding="utf-8") as file:
                file.write(f"{lease['work_item_id']} {pages} pages\n")
            key = {"idempotency_key": f"invoice/{lease['work_item_id']}", "idempotency_token": begun["token"], "response": response}
        elif begun["outcome"] == "IN_PROGRESS":
            # Another is at it; or we are, and the answer to our Begin was lost. It is over when the lock is: look again then.
            self.work.Release(lease=lease, delay_ms=self.options.lease_ms)
            print(f"{lease['work_item_id']} later", flush=True)
            return False
        elif begun["outcome"] == "MISMATCH":  # the same key for another request: a mistake that repeating does not mend
            raise Refused("MISMATCH", f"the key of {lease['work_item_id']}")
        # The same token with the same output is answered with success again: a lost answer does no harm.
        self.work.Finish(lease=lease, output_data=response, **key)
        print(f"{lease['work_item_id']} finished", flush=True)
        return True


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("url")
    parser.add_argument("verb", choices=["add", "run"])
    parser.add_argument("effects", metavar="ITEM|EFFECTS_FILE")
    parser.add_argument("pages", nargs="?", type=int, default=10)
    parser.add_argument("--name", default=socket.gethostname())
    parser.add_argument("--lease-ms", type=int, default=30000)
    parser.add_argument("--items", type=int, default=-1)
    options = parser.parse_args()
    if options.verb == "add":
        return add(Service(options.url, "tidemark.work.v1.WorkService"), options.effects, options.pages)
    worker = Worker(options.url, options)
    for name in (signal.SIGTERM, signal.SIGINT):
        signal.signal(name, lambda *_: worker.stopping.set())
    return worker.run()


if __name__ == "__main__":
    sys.exit(main())
