"""lake-request-key: the key under which a caller asked for a commit. The other side is the
metabase, which keeps the key with the commit. Contact is the same request under the same key."""

from frame import lake_faults
from frame.lake_faults import NO_LOG, RESTORED, STORE_AWAY
from frame.lake_world import CATALOG, FAILED, SqliteLake
from frame.store_faults import EPOCH
from frame.table import Mark, cell

KEY = "key-of-caller"


class Key(lake_faults.State):
    """A caller that repeats its request until it is answered."""

    in_request = ".parquet"  # the change itself, and not the search for its key
    snapshot = 0

    def contact(self):
        answer = self.w.append([4], key=KEY)
        if answer.is_ok:
            self.expected = [1, 2, 3, 4]
            snapshot = int(answer.json["snapshot_id"])
            self.g.data(self.snapshot in (0, snapshot),
                        f"snapshot {snapshot} under a key that had {self.snapshot}")
            self.snapshot = snapshot
        return answer


def is_replayed(g, w, first, answer):
    g.answers(answer.is_ok and answer.json["replayed"] and
              answer.json["snapshot_id"] == first["snapshot_id"],
              f"the answer is not the first one, replayed: {answer}")


@cell("lake-request-key", "other-older", "continues")
def other_older(g):
    """The metabase is restored to before the commit: the request is done anew, once."""
    w = SqliteLake(g)
    w.backup()
    w.must_append([4], key=KEY)
    before = w.identity()
    w.begin_fault(CATALOG, may_vanish=True)
    w.restore()
    answer = w.append([4], key=KEY)
    w.noticed(FAILED + "|" + EPOCH, log=RESTORED)
    after = w.identity()
    g.answers(after[1] > before[1], f"store info reports no new epoch: {before} and then {after}")
    g.healed(lambda: w.numbers() == [1, 2, 3, 4], "the rows are there once", 10)
    g.data(w.is_sound(), "lake verify finds a broken rule")
    return g.verdict_of(answer)


@cell("lake-request-key", "this-older", "refuses E_CONFLICT")
def this_older(g):
    """The caller has forgotten what it used the key for, and asks for something else."""
    w = SqliteLake(g)
    w.must_append([4], key=KEY)
    w.begin_fault(KEY)
    answer = w.append([5], key=KEY, writer="w2")
    g.answers(KEY in answer.text, f"the refusal does not name the key: {answer}")
    w.noticed(FAILED)
    g.healed(lambda: w.append([5], key="another").is_ok, "under another key it is done", 10)
    w.note([1, 2, 3, 4, 5])
    return g.verdict_of(answer)


@cell("lake-request-key", "other-wiped", "refuses exit 3")
def other_wiped(g):
    """Without a metabase a repeated request is refused, and makes none."""
    w = SqliteLake(g)
    w.must_append([4], key=KEY)
    g.without_daemon("lake serve does not start without a metabase, and cannot be scraped")
    w.backup()
    w.begin_fault(w.url, may_vanish=True)
    w.serve.stop()
    g.wipe(w.url)
    with open(g.path("rows.csv"), "w", encoding="utf-8") as file:
        file.write("a,b\n4,row 4\n")
    ended = w.lake("table", "append", "books.main.t", g.path("rows.csv"), "--request-key", KEY)
    g.answers(w.url in ended.err, f"the message does not name the metabase: {ended}")
    g.wipe(w.url)
    g.put_file(w.backup_path, w.url)
    w.serve.restart()
    answer = w.append([4], key=KEY)
    g.healed(lambda: answer.is_ok and answer.json["replayed"],
             "the restored metabase knows the key", 10)
    w.note([1, 2, 3, 4])
    return g.verdict_of(ended)


@cell("lake-request-key", "other-copied", "continues")
def other_copied(g):
    """The metabase becomes a copy of another one: the key is not known there."""
    other = SqliteLake(g, name="other.db")
    other.backup()
    other.serve.stop()
    w = SqliteLake(g)
    w.must_append([4], key=KEY)
    before = w.identity()
    w.begin_fault(CATALOG, may_vanish=True)
    w.replace_by(other.backup_path)
    answer = w.append([4], key=KEY)
    g.answers(answer.is_ok and not answer.json["replayed"],
              f"a key of another metabase is taken for its own: {answer}")
    w.noticed(FAILED + "|" + EPOCH, log="session|copied|epoch")
    g.answers(w.identity()[0] != before[0], "store info reports no new session")
    return g.verdict_of(answer)


@cell("lake-request-key", "promoted", "continues")
def promoted(g):
    return lake_faults.promoted(g, Key)


@cell("lake-request-key", "away-before", "refuses E_UNAVAILABLE", effect="holds")
def away_before(g):
    return lake_faults.away_before(g, Key)


@cell("lake-request-key", "away-during", "refuses E_UNAVAILABLE", effect="holds")
def away_during(g):
    return lake_faults.away_during(g, Key)


@cell("lake-request-key", "hung", "refuses E_TIMEOUT", effect="holds", limit=240)
def hung(g):
    return lake_faults.hung(g, Key)


@cell("lake-request-key", "answer-lost", "continues", limit=180)
def answer_lost(g):
    return lake_faults.answer_lost(g, Key)


@cell("lake-request-key", "answer-lost", "continues", effect="none", variant="client", quick=True,
      reason="lake serve has done its work and cannot know; the same key gets the same answer")
def answer_lost_client(g):
    return lake_faults.client_answer_lost(g, Key)


@cell("lake-request-key", "disk-full", "refuses E_FULL", effect="holds",
      mark=Mark("lake", *STORE_AWAY))
def disk_full(g):
    return lake_faults.disk_full(g, Key)


def clock(g, hours):
    """The key is found whatever the time is."""
    w = SqliteLake(g, hours=0)
    first = w.must_append([4], key=KEY)
    w.begin_fault(CATALOG)
    w.clock.set(hours)
    answer = w.append([4], key=KEY)
    is_replayed(g, w, first, answer)
    w.note([1, 2, 3, 4])
    return g.verdict_of(answer)


@cell("lake-request-key", "clock-ahead", "continues", effect="none",
      reason="a key is kept as long as its snapshot, and has no time of its own")
def clock_ahead(g):
    return clock(g, 1)


@cell("lake-request-key", "clock-behind", "continues", effect="none",
      reason="a key is kept as long as its snapshot, and has no time of its own")
def clock_behind(g):
    return clock(g, -1)
