"""The faults of the columns for states that a client keeps about a store behind `tidemark serve`.

A state is a class like this; the functions below plant a fault between its establishing and the
next contact, look whether it is noticed, heal it, and return the verdict that they observed.

    State(w)        prepares what the state is about, in the world w (store_world.py)
    establish()     the state comes into being
    contact()       the call that uses it; repeating it does no harm. A service's answer
    names           of the objects, as the answer and the program log name them
    known           label values of series that must not vanish
    note()          observations at the end, for the checkers
    cut()           the store was just restored from a backup of before establish()
    after_cut()     what the holder does afterwards
    verdict(answer) the verdict of a contact"""

import threading

from . import table, waiting
from .grid import WORK
from .store_world import Postgres, Sqlite

FAILED_CALL = r'tidemark_rpc_calls_total\{code="[1-9]|tidemark_store_'
EPOCH = r"tidemark_store_(epoch|session)"
STORE = "store|postgres"
SMALL_DISK = 24 << 20
CALL_LIMIT = 45  # a call waits 30 s for the store, and then says so


class State:
    """What the states have in common."""

    known = ()
    names = ()

    def __init__(self, w):
        self.w = w
        self.g = w.g

    @property
    def in_request(self):
        """What the statements of a contact carry to PostgreSQL."""
        return self.names[0]

    def verdict(self, answer):
        return self.g.verdict_of(answer)

    def note(self):
        pass

    def cut(self):
        pass

    def after_cut(self):
        pass


# What is red today in the cells of this module, for marks.
NO_LOG = "log: no line of level warn or above names"
NO_METRIC = "metric: no metric"
STORE_AWAY = (NO_LOG, NO_METRIC, "answer: /readyz does not report", "alert: no shipped rule fires",
              "scrape: /metrics of serve took", "series: tidemark_")
# While PostgreSQL is away for a moment, a scrape that comes then waits for it, too.
STORE_BLINKS = (NO_LOG, NO_METRIC, "scrape: /metrics of serve took", "series: tidemark_")
NO_ANSWER = "verdict: refuses no answer"
UNKNOWN = "verdict: refuses E_OUTCOME_UNKNOWN"


def _begin(w, state):
    w.begin_fault(*state.names, known=state.known)


def _begin_without_objects(w, state):
    """For a store that is replaced: the objects go with it, and their series may."""
    w.begin_fault(*state.names, may_vanish=True)


def away_before(g, make):
    """PostgreSQL is away before the call."""
    w = Postgres(g)
    state = make(w)
    state.establish()
    _begin(w, state)
    w.away()
    answer = state.contact()
    w.noticed(FAILED_CALL, log=STORE, told=w.unready())
    w.back()
    g.healed(lambda: state.contact().is_ok, "the call succeeds", 30)
    state.note()
    return state.verdict(answer)


def _contact_in_background(state):
    answers = []
    thread = threading.Thread(target=lambda: answers.append(state.contact()), daemon=True)
    thread.start()
    return thread, answers


def away_during(g, make):
    """PostgreSQL crashes while the call is under way: what serve sent did not reach it."""
    w = Postgres(g)
    state = make(w)
    state.establish()
    _begin(w, state)
    w.net.hold()
    thread, answers = _contact_in_background(state)
    waiting.wait_for(w.net.held.is_set, 10, "serve speaks to PostgreSQL")
    w.away()
    w.net.release()
    waiting.wait_for(lambda: not thread.is_alive(), 90, "the call is answered")
    w.noticed(FAILED_CALL, log=STORE, told=w.unready())
    w.back()
    g.healed(lambda: state.contact().is_ok, "the call succeeds", 30)
    state.note()
    return state.verdict(answers[0])


def hung(g, make):
    """PostgreSQL hangs: it accepts connections and answers nothing."""
    w = Postgres(g)
    state = make(w)
    state.establish()
    _begin(w, state)
    w.hang()
    w.call_limit = CALL_LIMIT
    answer = state.contact()
    w.noticed(FAILED_CALL, log=STORE, told=w.unready())
    w.unhang()
    g.healed(lambda: state.contact().is_ok, "the call succeeds", 30)
    state.note()
    return state.verdict(answer)


def answer_lost(g, make):
    """The answer to COMMIT is lost, with all connections to PostgreSQL, which lives on."""
    w = Postgres(g)
    state = make(w)
    state.establish()
    _begin(w, state)
    w.lose_commit(state.in_request)
    answer = state.contact()
    g.require(w.net.lost.is_set(), "an answer was lost")
    w.noticed(FAILED_CALL + "|retries|outcome", log=STORE)
    g.healed(lambda: state.contact().is_ok, "the call succeeds", 30)
    state.note()
    return state.verdict(answer)


def client_answer_lost(g, make):
    """serve's answer does not reach the client, which repeats the call."""
    w = Sqlite(g)
    state = make(w)
    state.establish()
    _begin(w, state)
    w.lose_next_answer()
    first = state.contact()
    g.require(first.status == 0, f"the answer was lost: {first}")
    answer = state.contact()
    state.note()
    return state.verdict(answer)


def disk_full(g, make):
    """The disk of a SQLite store is full."""
    w = Sqlite(g, disk_size=SMALL_DISK)
    state = make(w)
    state.establish()
    _begin(w, state)
    pressure = Pressure(w)
    w.disk.fill()
    pressure.press()
    answer = state.contact()
    w.noticed(FAILED_CALL, log="full|space|" + STORE, told=w.unready())
    w.disk.free()
    g.healed(lambda: state.contact().is_ok, "the call succeeds", 30)
    state.note()
    return state.verdict(answer)


class Pressure:
    """Writes to a full store until it refuses even the smallest: what is left of the room in its
    log is used up. Made before the disk is full."""

    def __init__(self, w):
        self.w = w
        self.task = w.must_call(WORK + "CreateTask", {"title": "pressure"})["task_id"]
        self.token = int(w.must_call(WORK + "ResumeTask", {
            "task_id": self.task, "holder": "pressure", "lease_ms": 600_000})["lease_token"])

    def _large(self):
        return self.w.call(WORK + "CreateTask", {
            "title": "x" * 100, "metadata": {"a": "y" * 30_000}})

    def _small(self):
        return self.w.call(WORK + "RenewTask", {
            "task_id": self.task, "lease_token": self.token, "lease_ms": 600_000})

    def press(self):
        for write in (self._large, self._small):
            refused = 0
            for _ in range(3000):
                refused = 0 if write().is_ok else refused + 1
                if refused == 3:
                    break
            self.w.g.require(refused == 3, "a full disk refuses writes")


def clock(g, make, hours, engine="sqlite"):
    """A wall clock jumps: of serve over SQLite, or of the PostgreSQL server."""
    w = Sqlite(g, hours=0) if engine == "sqlite" else Postgres(g, hours=0)
    state = make(w)
    state.establish()
    _begin(w, state)
    (w.clock if engine == "sqlite" else w.server_clock).set(hours)
    answer = state.contact()
    state.note()
    return state.verdict(answer)


def other_older(g, make, metric=FAILED_CALL + "|" + EPOCH, log="epoch|restored"):
    """The store is restored from a backup that does not have the state."""
    w = Sqlite(g)
    state = make(w)
    w.backup()
    state.establish()
    before = w.identity()
    _begin_without_objects(w, state)
    w.restore()
    state.cut()
    answer = state.contact()
    w.noticed(metric, log=log)
    after = w.identity()
    g.answers(after[0] == before[0] and after[1] > before[1],
              f"store info reports no new epoch: {before} and then {after}")
    g.healed(lambda: _is_well(w), "the store takes new work", 30)
    state.after_cut()
    return state.verdict(answer)


def other_wiped(g, make, metric=FAILED_CALL + "|" + EPOCH, log="session|epoch|created"):
    """The store is deleted; serve makes a new one."""
    w = Sqlite(g)
    state = make(w)
    state.establish()
    before = w.identity()
    _begin_without_objects(w, state)
    w.wipe()
    answer = state.contact()
    w.noticed(metric, log=log)
    after = w.identity()
    g.answers(after[0] != before[0], f"store info reports no new session: {after}")
    g.healed(lambda: _is_well(w), "the store takes new work", 30)
    return state.verdict(answer)


def other_copied(g, make, metric=FAILED_CALL + "|" + EPOCH, log="session|epoch|copied"):
    """The store is replaced by a copy of another store."""
    other = Sqlite(g, name="other.db")
    stranger = make(other)
    stranger.establish()
    other.backup()
    other.serve.stop()
    w = Sqlite(g)
    state = make(w)
    state.establish()
    before = w.identity()
    _begin_without_objects(w, state)
    w.replace_by(other.backup_path)
    answer = state.contact()
    w.noticed(metric, log=log)
    after = w.identity()
    g.answers(after[0] != before[0], f"store info reports no new session: {after}")
    g.healed(lambda: _is_well(w), "the store takes new work", 30)
    return state.verdict(answer)


def promoted(g, make):
    """The primary dies, the standby is promoted, nothing is lost; an epoch begins."""
    w = Postgres(g, standby=True)
    state = make(w)
    state.establish()
    before = w.identity()
    _begin(w, state)
    w.fail_over()
    answer = state.contact()
    for _ in range(20):
        if answer.is_ok or answer.code not in ("E_UNAVAILABLE", "E_BUSY"):
            break
        answer = state.contact()
    w.noticed(EPOCH, log="epoch|failover|promoted")
    after = w.identity()
    g.answers(after[1] > before[1], f"store info reports no new epoch: {before} and then {after}")
    g.healed(lambda: state.contact().is_ok, "the call succeeds", 30)
    state.note()
    return state.verdict(answer)


def clock_ahead(g, make):
    return clock(g, make, 1)


def clock_behind(g, make):
    return clock(g, make, -1)


FAULTS = {
    "other-older": other_older, "other-wiped": other_wiped, "other-copied": other_copied,
    "promoted": promoted, "away-before": away_before, "away-during": away_during, "hung": hung,
    "answer-lost": answer_lost, "disk-full": disk_full, "clock-ahead": clock_ahead,
    "clock-behind": clock_behind,
}


def store_cells(state, make, rows):
    """Register the cells of a state whose faults are those of this module.

    rows: {fault: options of table.cell}; "answer-lost/client" is client_answer_lost."""
    for name, options in rows.items():
        fault, _, variant = name.partition("/")
        run = client_answer_lost if variant == "client" else FAULTS[fault]
        table.cell(state, fault, variant=variant, **options)(
            lambda g, run=run: run(g, make))


def _is_well(w):
    return w.call(WORK + "CreateTask", {"title": "after"}).is_ok
