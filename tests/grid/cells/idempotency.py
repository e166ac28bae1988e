"""idempotency-key: what a caller knows of an operation that it began under a key. Contact is the
end of the operation, with its answer, under the token of the key."""

from frame import store_faults
from frame.grid import KEYS
from frame.store_world import Sqlite
from frame.table import cell

KEY = "grid-charge-17"


class Key(store_faults.State):
    """A key, as its caller knows it."""

    def __init__(self, w, lock_ms=600_000):
        super().__init__(w)
        self.lock_ms = lock_ms
        self.token = 0
        self.names = (KEY,)
        self.item = f"{KEY}@{w.url}"  # the same key in another store is another operation
        self.g.history.found("adder", "add", item=self.item)
        self.g.check("leases")

    def establish(self):
        self.token = self.begin("c1", "NEW")

    def begin(self, holder, outcome):
        call = self.g.history.call(holder, "claim", item=self.item)
        answer = self.w.must_call(KEYS + "Begin", {
            "key": KEY, "request": "charge 17", "holder": holder, "lock_ms": self.lock_ms})
        self.g.require(answer["outcome"] == outcome, f"Begin: {answer}")
        token = int(answer["token"])
        call.ok(token=token)
        return token

    def contact(self, token=None, holder="c1"):
        token = token or self.token
        call = self.g.history.call(holder, "finish", item=self.item, token=token,
                                   outcome="completed")
        answer = self.w.call(KEYS + "Complete", {
            "lock": {"key": KEY, "token": token}, "response": {"charged": 17}})
        return self.g.history.note(call, answer)

    def note(self):
        """Whoever asks from now on is answered from the store."""
        answer = self.w.must_call(KEYS + "Begin", {
            "key": KEY, "request": "charge 17", "holder": "c9", "lock_ms": 1000})
        self.g.data(answer["outcome"] == "REPLAY", f"the operation would run again: {answer}")

    def after_cut(self):
        newer = self.begin("c2", "NEW")
        self.g.data(newer > self.token, f"token {newer} after the cut, {self.token} before it")
        self.g.healed(lambda: self.contact(newer, "c2").is_ok, "the new caller ends it", 10)
        self.note()


BOOT_CLOCK = "locks of keys in a SQLite store count on the boot clock of the machine"

store_faults.store_cells("idempotency-key", Key, {
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
        "reason": "serve has stored the answer and cannot know; the same end again is safe"},
    "disk-full": {"verdict": "refuses E_FULL", "effect": "holds"},
    "clock-ahead": {"verdict": "continues", "effect": "none", "reason": BOOT_CLOCK},
    "clock-behind": {"verdict": "continues", "effect": "none", "reason": BOOT_CLOCK},
})


@cell("idempotency-key", "this-older", "refuses E_LEASE_LOST")
def this_older(g):
    """A caller that slept past its lock ends the operation; another one has taken it over."""
    w = Sqlite(g)
    key = Key(w, lock_ms=500)
    key.establish()
    w.begin_fault(KEY)
    key.lock_ms = 600_000
    call = g.history.call("c2", "claim", item=key.item)
    taken = g.wait(lambda: _take_over(w), 10, "the lock runs out")
    call.ok(token=taken)
    answer = key.contact()
    w.noticed(r'tidemark_rpc_calls_total\{code="[1-9]\d*",method=".*/Complete"')
    g.answers(KEY in answer.text, f"the refusal does not name the key: {answer}")
    g.healed(lambda: key.contact(taken, "c2").is_ok, "the new caller ends it", 10)
    key.note()
    return g.verdict_of(answer)


def _take_over(w):
    answer = w.must_call(KEYS + "Begin", {
        "key": KEY, "request": "charge 17", "holder": "c2", "lock_ms": 600_000})
    return int(answer["token"]) if answer["outcome"] == "TAKEOVER" else 0
