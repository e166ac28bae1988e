"""The faults of the columns for states that a client keeps about a metabase behind `lake serve`.

As store_faults.py, for a state like this:

    State(w)        in the world w (lake_world.py)
    establish()     the state comes into being
    contact()       the call that uses it. A service's answer
    expected        the numbers that the table has after a contact that was acknowledged
    is_repeatable   the contact may be repeated, and does its work once"""

import threading

from . import proxy
from .lake_world import FAILED, PostgresLake, SqliteLake
from .store_faults import EPOCH, NO_LOG, NO_METRIC

STORE = "store|postgres|metabase"
SMALL_DISK = 24 << 20
CALL_LIMIT = 45
RESTORED = "epoch|restored"

# What is red today, for marks.
STORE_AWAY = (NO_LOG, NO_METRIC, "answer: /readyz does not report", "alert: no shipped rule fires",
              "scrape: /metrics of lake took", "scrape: /metrics of lake was not answered",
              "series: tidemark_lake_")
NO_ANSWER = "verdict: refuses no answer"


class State:
    names = ("books",)

    def __init__(self, w):
        self.w = w
        self.g = w.g
        self.expected = [1, 2, 3]

    def establish(self):
        pass

    def after_fault(self):
        """After healing: a contact that is acknowledged, or was already."""
        return self.contact()


def _begin(w, state, may_vanish=False):
    w.begin_fault(*state.names, may_vanish=may_vanish)


def _end(g, state):
    g.healed(lambda: state.after_fault().is_ok, "the call succeeds", 30)
    state.w.note(state.expected)


def away_before(g, make):
    w = PostgresLake(g)
    state = make(w)
    state.establish()
    _begin(w, state)
    w.away()
    answer = state.contact()
    w.noticed(FAILED, log=STORE, told=w.unready())
    g.end_fault()
    w.back()
    _end(g, state)
    return g.verdict_of(answer)


def away_during(g, make):
    """PostgreSQL crashes while the call is under way: what serve sent did not reach it."""
    w = PostgresLake(g)
    state = make(w)
    state.establish()
    _begin(w, state)
    w.net.hold()
    answers = []
    thread = threading.Thread(target=lambda: answers.append(state.contact()), daemon=True)
    thread.start()
    g.wait(w.net.held.is_set, 10, "serve speaks to PostgreSQL")
    w.away()
    w.net.release()
    g.wait(lambda: not thread.is_alive(), 90, "the call is answered")
    w.noticed(FAILED, log=STORE, told=w.unready())
    g.end_fault()
    w.back()
    _end(g, state)
    return g.verdict_of(answers[0])


def hung(g, make):
    w = PostgresLake(g)
    state = make(w)
    state.establish()
    _begin(w, state)
    w.hang()
    w.call_limit = CALL_LIMIT
    answer = state.contact()
    w.noticed(FAILED, log=STORE, told=w.unready())
    g.end_fault()
    w.unhang()
    _end(g, state)
    return g.verdict_of(answer)


def answer_lost(g, make):
    """The answer to the COMMIT of the change is lost, with all connections."""
    w = PostgresLake(g)
    state = make(w)
    state.establish()
    _begin(w, state)
    w.net.lose_answer(proxy.PG_COMMITTED, True, False, state.in_request.encode())
    answer = state.contact()
    g.require(w.net.lost.is_set(), "an answer was lost")
    w.noticed(FAILED, log=STORE)
    g.end_fault()
    _end(g, state)
    return g.verdict_of(answer)


def client_answer_lost(g, make):
    """lake serve's answer does not reach the client, which repeats the call."""
    w = SqliteLake(g)
    state = make(w)
    state.establish()
    _begin(w, state)
    w.lose_next_answer()
    first = state.contact()
    g.require(first.status == 0, f"the answer was lost: {first}")
    answer = state.after_fault()
    w.note(state.expected)
    return g.verdict_of(answer)


def disk_full(g, make):
    """The disk with the metabase and the files is full."""
    w = SqliteLake(g, disk_size=SMALL_DISK)
    state = make(w)
    state.establish()
    _begin(w, state)
    w.disk.fill()
    answer = state.contact()
    w.noticed(FAILED, log="full|space|" + STORE, told=w.unready())
    g.end_fault()
    w.disk.free()
    _end(g, state)
    return g.verdict_of(answer)


def clock(g, make, hours):
    """The wall clock of lake serve jumps."""
    w = SqliteLake(g, hours=0)
    state = make(w)
    state.establish()
    _begin(w, state)
    w.clock.set(hours)
    answer = state.contact()
    w.note(state.expected)
    return g.verdict_of(answer)


def promoted(g, make):
    """The primary dies, the standby is promoted, nothing is lost; an epoch begins."""
    w = PostgresLake(g, standby=True)
    state = make(w)
    state.establish()
    before = w.identity()
    _begin(w, state)
    w.fail_over()
    answer = state.contact()
    for _ in range(20):
        if answer.is_ok or answer.code not in ("E_UNAVAILABLE", "E_BUSY"):
            break
        answer = state.after_fault()
    w.noticed(EPOCH, log="epoch|failover|promoted")
    after = w.identity()
    g.answers(after[1] > before[1], f"store info reports no new epoch: {before} and then {after}")
    w.note(state.expected)
    return g.verdict_of(answer)


def serve_of_wiped(g, w):
    """The metabase is deleted: lake serve does not start. How it ended."""
    g.without_daemon("lake serve does not start without a metabase, and cannot be scraped")
    w.backup()
    w.begin_fault(w.url, may_vanish=True)
    w.serve.stop()
    g.wipe(w.url)
    ended = w.g.tidemark("lake", "serve", "--listen", w.serve.address, store=w.url, limit=30)
    g.answers(w.url in ended.err, f"the message does not name the metabase: {ended}")
    w.g.wipe(w.url)
    w.g.put_file(w.backup_path, w.url)
    w.serve.restart()
    g.healed(lambda: w.append([90]).is_ok, "the restored metabase takes appends", 20)
    return ended
