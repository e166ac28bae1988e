"""journal-position: where a reader of the journal is. Contact is the next page.
checkpoint-key: the id under which a writer sends a checkpoint. Contact is the append."""


from frame import store_faults
from frame.grid import JOURNAL, WORK
from frame.store_world import Postgres, Sqlite
from frame.table import cell

SEQUENCE = "journal"


class Journal(store_faults.State):
    """A task with checkpoints, and what its writer and its reader know."""

    def __init__(self, w):
        super().__init__(w)
        self.task = w.must_call(WORK + "CreateTask", {"title": "grid"})["task_id"]
        self.names = self.known = (self.task,)
        self.session, self.epoch = w.identity()[:2]
        self.acknowledged = {}
        self.count = 0
        self.append_some(3)
        self.g.check("sequences")

    def where(self):
        return {"sequence": SEQUENCE, "session": self.session, "epoch": self.epoch}

    def send(self, key):
        """Append under a key. A key that was acknowledged before is answered as before."""
        call = self.g.history.call("writer", "take", value=key, **self.where())
        answer = self.w.call(JOURNAL + "Append", {"checkpoints": [
            {"checkpoint_id": key, "task_id": self.task, "type": "manual_checkpoint",
             "snapshot": {"key": key}}]})
        number = int(answer.json["checkpoints"][0]["global_sequence"]) if answer.is_ok else 0
        if answer.is_ok and key in self.acknowledged:
            self.g.data(self.acknowledged[key] == number,
                        f"{key} was acknowledged as {self.acknowledged[key]}, then as {number}")
            return answer
        if answer.is_ok:
            self.acknowledged[key] = number
        return self.g.history.note(call, answer, number=number)

    def append_some(self, count):
        for _ in range(count):
            self.count += 1
            answer = self.send(f"checkpoint-{self.epoch}-{self.count}")
            self.g.require(answer.is_ok, f"Append: {answer}")

    def note(self):
        found = self.w.must_call(JOURNAL + "List", {"first_global": 1})
        for row in found["checkpoints"]:
            self.g.history.found("reader", "row", number=int(row["global_sequence"]),
                                 value=row["checkpoint_id"], **self.where())

    def epoch_verdict(self, answer):
        """Whether the answer tells its caller that history was cut."""
        if not answer.is_ok:
            return self.g.verdict_of(answer)
        told = answer.json
        session = told.get("session_id", told.get("session_id", self.told[0]))
        epoch = int(told.get("epoch", self.told[1]))
        return "continues" if (session, epoch) == self.told else "begins an epoch"

    def cut(self):
        self.told = (self.session, self.epoch)
        self.g.history.found("operator", "cut", sequence=SEQUENCE, session=self.session, head=3)
        self.session, self.epoch = self.w.identity()[:2]
        self.acknowledged = {}


class Key(Journal):
    """checkpoint-key: the writer has chosen an id."""

    def __init__(self, w):
        super().__init__(w)
        self.told = (self.session, self.epoch)

    def establish(self):
        self.key = "grid-checkpoint-key"

    @property
    def in_request(self):
        return self.key

    def contact(self):
        return self.send(self.key)


class AcknowledgedKey(Key):
    """The checkpoint was acknowledged; the writer sends it again, because it is not sure."""

    def establish(self):
        super().establish()
        self.g.require(self.contact().is_ok, "the checkpoint is acknowledged")

    def contact(self):
        if self.w.identity()[:2] != (self.session, self.epoch):
            self.session, self.epoch = self.w.identity()[:2]
            self.acknowledged = {}
        return super().contact()

    def verdict(self, answer):
        return self.epoch_verdict(answer)


class Position(Journal):
    """journal-position: a reader has seen everything up to a number."""

    def establish(self):
        self.append_some(2)
        self.told = (self.session, self.epoch)
        self.position = 0
        self.g.require(self.contact().is_ok, "the reader reads")
        self.g.require(self.position == 5, f"the reader is at {self.position}")

    def contact(self):
        """The next page, as a reader that knows its number only."""
        answer = self.w.call(JOURNAL + "List", {"first_global": self.position + 1})
        if answer.is_ok and answer.json["checkpoints"]:
            self.position = int(answer.json["checkpoints"][-1]["global_sequence"])
        return answer

    def cut(self):
        """Others go on writing in the restored store, under numbers that the reader has seen."""
        super().cut()
        self.append_some(3)

    def after_cut(self):
        self.g.data(self.position == 6, f"the reader is at {self.position}, the head is 6")

    def verdict(self, answer):
        return self.epoch_verdict(answer)


store_faults.store_cells("checkpoint-key", AcknowledgedKey, {
    "other-older": {"verdict": "begins an epoch"},
    "other-wiped": {"verdict": "refuses E_NOT_FOUND"},
    "other-copied": {"verdict": "refuses E_EXISTS"},
    "promoted": {"verdict": "begins an epoch"},
})
store_faults.store_cells("checkpoint-key", Key, {
    "away-before": {"verdict": "refuses E_UNAVAILABLE", "effect": "holds"},
    "away-during": {"verdict": "refuses E_UNAVAILABLE", "effect": "holds"},
    "hung": {"verdict": "refuses E_TIMEOUT", "effect": "holds", "limit": 240},
    "answer-lost": {"verdict": "continues"},
    "answer-lost/client": {
        "verdict": "continues", "effect": "none", "quick": True,
        "reason": "serve has stored it and cannot know; the same key again is the same checkpoint"},
    "disk-full": {"verdict": "refuses E_FULL", "effect": "holds"},
    "clock-ahead": {"verdict": "continues", "effect": "none",
                    "reason": "ids and numbers do not depend on a clock"},
    "clock-behind": {"verdict": "continues", "effect": "none",
                     "reason": "ids and numbers do not depend on a clock"},
})


@cell("checkpoint-key", "this-older", "continues", effect="none", quick=True,
      reason="a writer that sends again what it had sent is answered as the first time")
def key_this_older(g):
    """The writer was restored, and sends a checkpoint again that was acknowledged before."""
    w = Sqlite(g)
    key = AcknowledgedKey(w)
    key.establish()
    key.append_some(2)
    w.begin_fault(*key.names, known=key.known)
    answer = key.contact()
    key.note()
    g.data(answer.is_ok and answer.json["checkpoints"][0]["is_existing"],
           f"the checkpoint is stored a second time: {answer}")
    return g.verdict_of(answer)


store_faults.store_cells("journal-position", Position, {
    "other-older": {"verdict": "begins an epoch"},
    "other-wiped": {"verdict": "begins an epoch"},
    "other-copied": {"verdict": "begins an epoch"},
    "promoted": {"verdict": "begins an epoch"},
    "away-before": {"verdict": "refuses E_UNAVAILABLE", "effect": "holds"},
    "away-during": {"verdict": "refuses E_UNAVAILABLE", "effect": "holds"},
    "hung": {"verdict": "refuses E_TIMEOUT", "effect": "holds", "limit": 240},
    "answer-lost/client": {
        "verdict": "continues", "effect": "none",
        "reason": "a page that did not arrive is asked for again; reading changes nothing"},
    "clock-ahead": {"verdict": "continues", "effect": "none",
                    "reason": "the order of the journal does not depend on a clock"},
    "clock-behind": {"verdict": "continues", "effect": "none",
                     "reason": "the order of the journal does not depend on a clock"},
})


@cell("journal-position", "this-older", "continues", effect="none",
      reason="a reader that was restored reads again what it had read, under the same numbers")
def position_this_older(g):
    w = Sqlite(g)
    reader = Position(w)
    reader.establish()
    w.begin_fault(*reader.names, known=reader.known)
    reader.position = 2
    answer = reader.contact()
    keys = [row["checkpoint_id"] for row in answer.json["checkpoints"]]
    g.data(keys == [f"checkpoint-1-{n}" for n in (3, 4, 5)], f"the reader is given {keys}")
    reader.note()
    return reader.verdict(answer)


@cell("journal-position", "disk-full", "continues", effect="none", quick=True,
      reason="reading needs no room; that writes are refused is checkpoint-key/disk-full")
def position_disk_full(g):
    w = Sqlite(g, disk_size=store_faults.SMALL_DISK)
    reader = Position(w)
    reader.establish()
    w.begin_fault(*reader.names, known=reader.known)
    pressure = store_faults.Pressure(w)
    w.disk.fill()
    pressure.press()
    reader.position = 0
    answer = reader.contact()
    g.data(reader.position == 5, f"the reader is at {reader.position}")
    w.disk.free()
    return reader.verdict(answer)


@cell("journal-position", "promoted", "begins an epoch", variant="follow")
def position_promoted_follow(g):
    """A process that follows the journal, across a failover that loses the newest checkpoints."""
    w = Postgres(g, standby=True)
    journal = Journal(w)
    follower = g.start("checkpoint", "tail", "--follow", "--json", store=w.url)
    g.wait(lambda: len(_followed(follower)) == 3, 20, "the follower has three checkpoints")
    w.server.wait_caught_up(w.standby)
    w.standby.shutdown()
    journal.append_some(2)
    g.wait(lambda: len(_followed(follower)) == 5, 20, "the follower has five checkpoints")
    w.begin_fault(*journal.names, known=journal.known)
    w.fail_over(caught_up=False)
    journal.cut()
    journal.told = (journal.session, journal.epoch)
    g.wait(lambda: _append_after_failover(journal), 30, "serve takes checkpoints")
    w.noticed(store_faults.EPOCH, log="epoch|failover|promoted")

    def has_new():
        return f"checkpoint-{journal.epoch}-6" in follower.out()

    try:
        g.wait(has_new, 15, "the follower has the new checkpoint")
    except Exception:
        g.data(False, f"the follower misses checkpoints of the new primary: {_followed(follower)}")
    events = [line for line in follower.out().splitlines() if "epoch_changed" in line]
    if not follower.is_running:
        return f"refuses exit {follower.child.returncode}"
    return "begins an epoch" if events else "continues"


def _followed(follower):
    return [line for line in follower.out().splitlines() if "checkpoint-" in line]


def _append_after_failover(journal):
    journal.session, journal.epoch = journal.w.identity()[:2]
    return journal.send(f"checkpoint-{journal.epoch}-6").is_ok
