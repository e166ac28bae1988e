"""work-lease: the fencing token that a worker holds for a work item. The other side is the store,
behind `tidemark serve`. Contact is the finish of the item under the token.
task-lease: the lease of who resumes a task. Contact is its renewal, and a checkpoint of the task,
which decides where the next resumer starts."""

from frame import store_faults
from frame.grid import JOURNAL, WORK
from frame.store_world import Postgres, Sqlite
from frame.table import cell

TYPE = "grid-import"
REFUSED = r'tidemark_rpc_calls_total\{code="[1-9]\d*",method=".*/Finish"'


class Item(store_faults.State):
    """An item, as its worker knows it."""

    known = (TYPE,)

    def __init__(self, w, lease_ms=600_000):
        super().__init__(w)
        self.lease_ms = lease_ms
        self.token = 0
        self.task = w.must_call(WORK + "CreateTask", {"title": "grid"})["task_id"]
        added = w.must_call(WORK + "AddItems", {"items": [
            {"task_id": self.task, "work_type": TYPE, "input_data": {}}]})
        self.id = added["items"][0]["work_item_id"]
        self.names = (self.id,)
        self.g.history.found("adder", "add", item=self.id)
        self.g.check("leases")

    def establish(self):
        self.token = self.claim("w1")

    def claim(self, worker):
        call = self.g.history.call(worker, "claim", item=self.id)
        answer = self.w.must_call(WORK + "Claim", {
            "worker": worker, "work_types": [TYPE], "lease_ms": self.lease_ms})
        self.g.require(answer["items"], "there is an item to claim")
        token = int(answer["items"][0]["lease_token"])
        call.ok(token=token)
        return token

    def contact(self, token=None, worker="w1"):
        token = token or self.token
        call = self.g.history.call(worker, "finish", item=self.id, token=token,
                                   outcome="completed")
        answer = self.w.call(WORK + "Finish", {
            "lease": {"work_item_id": self.id, "lease_token": token}, "output_data": {}})
        return self.g.history.note(call, answer)

    def note(self):
        found = self.w.must_call(WORK + "GetItem", {"work_item_id": self.id})
        self.g.history.found("reader", "item", item=self.id, status=found["status"])

    def after_cut(self):
        """The item is claimed anew; the token is above every one that was given before."""
        newer = self.claim("w2")
        self.g.data(newer > self.token, f"token {newer} after the cut, {self.token} before it")
        self.g.healed(lambda: self.contact(newer, "w2").is_ok, "the new holder finishes", 10)
        self.note()


BOOT_CLOCK = "leases of a SQLite store count on the boot clock of the machine"

store_faults.store_cells("work-lease", Item, {
    "other-older": {"verdict": "refuses E_LEASE_LOST"},
    "other-wiped": {"verdict": "refuses E_NOT_FOUND"},
    "other-copied": {"verdict": "refuses E_NOT_FOUND"},
    "promoted": {"verdict": "continues"},
    "away-before": {"verdict": "refuses E_UNAVAILABLE", "effect": "holds"},
    "away-during": {"verdict": "refuses E_UNAVAILABLE", "effect": "holds"},
    "hung": {"verdict": "refuses E_TIMEOUT", "effect": "holds", "limit": 240},
    "answer-lost": {"verdict": "continues"},
    "answer-lost/client": {
        "verdict": "continues", "effect": "none", "quick": True,
        "reason": "serve has done its work and cannot know; the same finish again is safe"},
    "disk-full": {"verdict": "refuses E_FULL", "effect": "holds"},
    "clock-ahead": {"verdict": "continues", "effect": "none", "quick": True, "reason": BOOT_CLOCK},
    "clock-behind": {"verdict": "continues", "effect": "none", "quick": True,
                     "reason": BOOT_CLOCK},
})


@cell("work-lease", "this-older", "refuses E_LEASE_LOST", quick=True)
def this_older(g):
    """A worker that slept past its lease finishes with its old token; another has the item."""
    w = Sqlite(g)
    item = Item(w, lease_ms=1000)
    item.establish()
    w.begin_fault(item.id, known=item.known)
    g.wait(lambda: w.must_call(WORK + "GetItem", {"work_item_id": item.id})["status"] == "pending",
           10, "the lease runs out, and serve requeues the item")
    item.lease_ms = 600_000
    newer = item.claim("w2")
    answer = item.contact()
    w.noticed(REFUSED)
    g.answers(item.id in answer.text, f"the refusal does not name the item: {answer}")
    g.healed(lambda: item.contact(newer, "w2").is_ok, "the new holder finishes", 10)
    item.note()
    return g.verdict_of(answer)


@cell("work-lease", "clock-ahead", "refuses E_LEASE_LOST", variant="postgres")
def clock_ahead_postgres(g):
    """PostgreSQL's clock jumps ahead: leases that it measures are over."""
    w = Postgres(g, hours=0)
    item = Item(w)
    item.establish()
    w.begin_fault(item.id, known=item.known)
    w.server_clock.set(1)
    answer = item.contact()
    w.noticed(REFUSED)
    g.answers(item.id in answer.text, f"the refusal does not name the item: {answer}")
    w.must_call(WORK + "Sweep")
    newer = item.claim("w2")
    g.healed(lambda: item.contact(newer, "w2").is_ok, "the new holder finishes", 10)
    item.note()
    return g.verdict_of(answer)


@cell("work-lease", "clock-behind", "continues", effect="none", variant="postgres",
      reason="a lease that PostgreSQL measures by a clock that went back is only longer")
def clock_behind_postgres(g):
    return store_faults.clock(g, Item, -1, "postgres")


class TaskLease(store_faults.State):
    """A task, as its resumer knows it."""

    def __init__(self, w, lease_ms=600_000):
        super().__init__(w)
        self.lease_ms = lease_ms
        self.token = 0
        self.task = w.must_call(WORK + "CreateTask", {"title": "grid"})["task_id"]
        self.append({"iteration": 1})
        self.names = self.known = (self.task,)
        self.g.history.found("adder", "add", item=self.task)
        self.g.check("leases")

    def append(self, state):
        return self.w.call(JOURNAL + "Append", {"checkpoints": [
            {"task_id": self.task, "type": "iteration_end",
             "snapshot": state, "token": self.token}]})

    def establish(self):
        self.token = self.resume("r1")

    def resume(self, holder):
        call = self.g.history.call(holder, "claim", item=self.task)
        answer = self.w.must_call(WORK + "ResumeTask", {
            "task_id": self.task, "holder": holder, "lease_ms": self.lease_ms})
        token = int(answer["lease_token"])
        call.ok(token=token)
        return token

    def contact(self, token=None, holder="r1"):
        token = token or self.token
        call = self.g.history.call(holder, "renew", item=self.task, token=token)
        answer = self.w.call(WORK + "RenewTask", {
            "task_id": self.task, "lease_token": token, "lease_ms": self.lease_ms})
        return self.g.history.note(call, answer)

    def after_cut(self):
        newer = self.resume("r2")
        self.g.data(newer > self.token, f"token {newer} after the cut, {self.token} before it")
        self.g.healed(lambda: self.contact(newer, "r2").is_ok, "the new holder renews", 10)


store_faults.store_cells("task-lease", TaskLease, {
    "other-older": {"verdict": "refuses E_LEASE_LOST"},
    "other-wiped": {"verdict": "refuses E_LEASE_LOST"},
    "other-copied": {"verdict": "refuses E_LEASE_LOST"},
    "promoted": {"verdict": "continues"},
    "away-before": {"verdict": "refuses E_UNAVAILABLE", "effect": "holds"},
    "away-during": {"verdict": "refuses E_UNAVAILABLE", "effect": "holds"},
    "hung": {"verdict": "refuses E_TIMEOUT", "effect": "holds", "limit": 240},
    "answer-lost": {"verdict": "continues"},
    "answer-lost/client": {
        "verdict": "continues", "effect": "none",
        "reason": "serve has renewed and cannot know; the same renewal again is safe"},
    "disk-full": {"verdict": "refuses E_FULL", "effect": "holds"},
    "clock-ahead": {"verdict": "continues", "effect": "none", "quick": True, "reason": BOOT_CLOCK},
    "clock-behind": {"verdict": "continues", "effect": "none", "reason": BOOT_CLOCK},
})


@cell("task-lease", "this-older", "refuses E_LEASE_LOST")
def task_this_older(g):
    """A resumer that slept past its lease writes a checkpoint; another one has the task."""
    w = Sqlite(g)
    task = TaskLease(w, lease_ms=500)
    task.establish()
    w.begin_fault(*task.names, known=task.known)
    g.wait(lambda: task.w.call(WORK + "ResumeTask", {
        "task_id": task.task, "holder": "r2", "lease_ms": 600_000}).is_ok, 10, "r2 takes over")
    renewed = task.contact()
    g.data(renewed.code == "E_LEASE_LOST", f"the old lease is renewed: {renewed}")
    answer = task.append({"iteration": 99})
    w.noticed(r'tidemark_rpc_calls_total\{code="[1-9]\d*",method=".*/Append"')
    g.answers(task.task in answer.text,
              f"the refusal does not name the task: {answer}")
    return g.verdict_of(answer)
