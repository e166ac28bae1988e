"""token-cache: what a daemon remembers of callers' tokens. The other side is the tokens of the
store. They meet by a token's digest: a good one counts for seconds without a look at the store, and
for a minute while the store is away. Contact is a call with the token."""

import threading

from frame import store_faults
from frame.grid import WORK
from frame.store_faults import EPOCH, STORE
from frame.store_world import Postgres, Sqlite
from frame.table import cannot, cell

NAME = "grid-caller"
REFUSED = "tidemark_auth_failures_total"


class Caller:
    """A caller with a token of the store."""

    def __init__(self, w, *words, is_known=True):
        self.w = w
        self.g = w.g
        environment = w.serve_environment()
        self.token = w.g.must("token", "create", NAME, "--role", "write", *words,
                              store=w.direct_url,
                              **({"environment": environment} if environment else {})).split()[-1]
        self.task = w.must_call(WORK + "CreateTask", {"title": "token"})["task_id"]
        if is_known:
            self.g.require(self.read().is_ok, "the token is good")

    def _call(self, method, message, limit=60):
        return self.w.serve.call(method, message, limit,
                                 headers={"authorization": f"Bearer {self.token}"})

    def read(self, limit=60):
        return self._call(WORK + "GetTask", {"task_id": self.task}, limit)

    def write(self, limit=60):
        return self._call(WORK + "CreateTask", {"title": "with a token"}, limit)


def refused_after(g, w, caller, fault, log):
    """The token is not in the store any more: refused, once the cache is not fresh any more."""
    fault()
    answer = caller.write()
    g.wait(lambda: caller.write().code == "E_UNAUTHENTICATED", 10, "the token is refused")
    answer = caller.write()
    w.noticed(REFUSED, log=log)
    return g.verdict_of(answer)


@cell("token-cache", "other-older", "refuses E_UNAUTHENTICATED")
def other_older(g):
    """The store is restored to before the token was made."""
    w = Sqlite(g)
    w.backup()
    caller = Caller(w)
    before = w.identity()
    w.begin_fault(NAME, may_vanish=True)
    verdict = refused_after(g, w, caller, w.restore, "epoch|restored|" + NAME)
    g.answers(w.identity()[1] > before[1], "store info reports no new epoch")
    return verdict


@cell("token-cache", "other-older", "continues", variant="revoked")
def other_older_revoked(g):
    """The store is restored to before the token was revoked: it is good again, which the new epoch
    reports."""
    w = Sqlite(g)
    caller = Caller(w)
    w.backup()
    g.must("token", "revoke", NAME, store=w.direct_url)
    before = w.identity()
    w.begin_fault(NAME, may_vanish=True)
    w.restore()
    answer = caller.write()
    w.noticed(EPOCH + "|tidemark_rpc_calls_total", log="epoch|restored|" + NAME)
    g.answers(w.identity()[1] > before[1], "store info reports no new epoch")
    return g.verdict_of(answer)


@cell("token-cache", "this-older", "refuses E_UNAUTHENTICATED")
def this_older(g):
    """The daemon remembers a token that was revoked a moment ago, and forgets it within seconds."""
    w = Sqlite(g)
    caller = Caller(w)
    w.begin_fault(NAME)
    verdict = refused_after(
        g, w, caller, lambda: g.must("token", "revoke", NAME, store=w.direct_url), NAME)
    listed = g.must("token", "ls", "--all", "--json", store=w.direct_url)
    g.answers(NAME in listed and "revoked" in listed, "token ls does not report the revocation")
    return verdict


@cell("token-cache", "other-wiped", "refuses E_UNAUTHENTICATED")
def other_wiped(g):
    w = Sqlite(g)
    caller = Caller(w)
    before = w.identity()
    w.begin_fault(NAME, may_vanish=True)
    verdict = refused_after(g, w, caller, w.wipe, "session|epoch|" + NAME)
    g.answers(w.identity()[0] != before[0], "store info reports no new session")
    return verdict


@cell("token-cache", "other-copied", "refuses E_UNAUTHENTICATED")
def other_copied(g):
    """The store becomes a copy of another one, with a token of the same name."""
    other = Sqlite(g, name="other.db")
    Caller(other)
    other.backup()
    other.serve.stop()
    w = Sqlite(g)
    caller = Caller(w)
    before = w.identity()
    w.begin_fault(NAME, may_vanish=True)
    verdict = refused_after(g, w, caller, lambda: w.replace_by(other.backup_path),
                            "session|epoch|copied|" + NAME)
    g.answers(w.identity()[0] != before[0], "store info reports no new session")
    return verdict


@cell("token-cache", "promoted", "continues")
def promoted(g):
    w = Postgres(g, standby=True)
    caller = Caller(w)
    before = w.identity()
    w.begin_fault(NAME)
    w.fail_over()
    answer = caller.write()
    for _ in range(20):
        if answer.is_ok or answer.code not in ("E_UNAVAILABLE", "E_BUSY"):
            break
        answer = caller.write()
    w.noticed(EPOCH, log="epoch|failover|promoted")
    g.answers(w.identity()[1] > before[1], "store info reports no new epoch")
    g.healed(lambda: caller.write().is_ok, "the call succeeds", 20)
    return g.verdict_of(answer)


def store_away(g, w, caller, answer):
    """What holds of every call while the store is away."""
    w.noticed(store_faults.FAILED_CALL, log=STORE, told=w.unready())
    g.end_fault()
    w.back()
    g.healed(lambda: caller.write().is_ok, "the call succeeds", 30)
    return g.verdict_of(answer)


@cell("token-cache", "away-before", "refuses E_UNAVAILABLE", effect="holds")
def away_before(g):
    """The token is remembered: the caller is told that the store is away."""
    w = Postgres(g)
    caller = Caller(w)
    w.begin_fault(NAME)
    w.away()
    return store_away(g, w, caller, caller.write())


@cell("token-cache", "away-before", "refuses E_UNAVAILABLE", effect="holds", variant="unknown")
def away_before_unknown(g):
    """The token was never seen: that nobody can tell is not taken for a refusal."""
    w = Postgres(g)
    caller = Caller(w, is_known=False)
    w.begin_fault(NAME)
    w.away()
    return store_away(g, w, caller, caller.write())


@cell("token-cache", "away-during", "refuses E_UNAVAILABLE", effect="holds")
def away_during(g):
    """The server crashes while the token is looked up."""
    w = Postgres(g)
    caller = Caller(w, is_known=False)
    w.begin_fault(NAME)
    w.net.hold()
    answers = []
    thread = threading.Thread(target=lambda: answers.append(caller.write(90)), daemon=True)
    thread.start()
    g.wait(w.net.held.is_set, 10, "serve speaks to PostgreSQL")
    w.away()
    w.net.release()
    g.wait(lambda: not thread.is_alive(), 90, "the call is answered")
    return store_away(g, w, caller, answers[0])


@cell("token-cache", "hung", "refuses E_UNAVAILABLE", effect="holds", limit=240)
def hung(g):
    w = Postgres(g)
    caller = Caller(w, is_known=False)
    w.begin_fault(NAME)
    w.hang()
    answer = caller.write(store_faults.CALL_LIMIT)
    w.noticed(store_faults.FAILED_CALL, log=STORE, told=w.unready())
    g.end_fault()
    w.unhang()
    g.healed(lambda: caller.write().is_ok, "the call succeeds", 30)
    return g.verdict_of(answer)


cannot("token-cache", "answer-lost",
       "a token is looked up by reading: there is no COMMIT whose answer could be lost")


@cell("token-cache", "disk-full", "continues", effect="none",
      reason="a token is looked up by reading; what is written of its use may be late")
def disk_full(g):
    """Looking up a token that was never seen needs no room; what the call writes does."""
    w = Sqlite(g, disk_size=store_faults.SMALL_DISK)
    caller = Caller(w, is_known=False)
    pressure = store_faults.Pressure(w)
    w.begin_fault(NAME)
    w.disk.fill()
    pressure.press()
    return g.verdict_of(caller.read())


@cell("token-cache", "clock-ahead", "refuses E_UNAUTHENTICATED")
def clock_ahead(g):
    """A token for 30 minutes ends early while the clock is an hour ahead, and no longer."""
    w = Sqlite(g, hours=0)
    caller = Caller(w, "--expires", "30m")
    w.begin_fault(NAME)
    verdict = refused_after(g, w, caller, lambda: w.clock.set(1), NAME)
    w.clock.set(0)
    g.healed(lambda: caller.write().is_ok, "the token is good again", 20)
    return verdict


@cell("token-cache", "clock-behind", "continues", effect="none", quick=True,
      reason="the clock of the daemon says when a token ends, and cannot be judged by it")
def clock_behind(g):
    """A token that has ended is good again while the clock is an hour behind."""
    w = Sqlite(g, hours=0)
    caller = Caller(w, "--expires", "1s", is_known=False)
    g.wait(lambda: caller.write().code == "E_UNAUTHENTICATED", 20, "the token has ended")
    w.begin_fault(NAME)
    w.clock.set(-1)
    answer = caller.write()
    w.clock.set(0)
    g.healed(lambda: caller.write().code == "E_UNAUTHENTICATED", "the token has ended again", 20)
    return g.verdict_of(answer)
