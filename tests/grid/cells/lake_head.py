"""lake-head: the snapshot that a writer's change is based on. The other side is the metabase, with
the newest snapshot. Contact is an append with the base."""

from frame import lake_faults
from frame.grid import LAKE
from frame.lake_faults import NO_LOG, RESTORED, STORE_AWAY
from frame.lake_world import CATALOG, FAILED, SqliteLake
from frame.store_faults import EPOCH
from frame.table import Mark, cell


class Base(lake_faults.State):
    """A writer that knows a snapshot."""

    in_request = ".parquet"  # the change itself, and not the search for its key

    def establish(self):
        self.base = self.w.head()

    def contact(self):
        """Under a request key, so that it can be repeated."""
        answer = self.w.append([4], key="key-base", base=self.base)
        if answer.is_ok:
            self.expected = [1, 2, 3, 4]
        return answer


@cell("lake-head", "other-older", "refuses E_NOT_FOUND",
      mark=Mark("lake", NO_LOG, "verdict: continues", "data: snapshot"))
def other_older(g):
    """The metabase is restored to before the base. Its number is not given to another snapshot."""
    w = SqliteLake(g)
    w.backup()
    base = int(w.must_append([4])["snapshot_id"])
    before = w.identity()
    w.begin_fault(CATALOG, may_vanish=True)
    w.restore()
    other = w.must_append([5], writer="w2")
    answer = w.append([6], base=base)
    w.noticed(FAILED + "|" + EPOCH, log=RESTORED)
    after = w.identity()
    g.answers(after[1] > before[1], f"store info reports no new epoch: {before} and then {after}")
    g.data(int(other["snapshot_id"]) != base, f"snapshot {base} was given to two commits")
    return g.verdict_of(answer)


@cell("lake-head", "this-older", "refuses E_CONFLICT")
def this_older(g):
    """Another writer has altered the table since."""
    w = SqliteLake(g)
    base = w.head()
    w.begin_fault(CATALOG)
    altered = w.must_call(LAKE + "AlterTable", {
        "catalog": CATALOG, "operation": {"schema": "main", "table": "t",
                                          "add_column": "c BIGINT"}})
    answer = w.append([4], base=base)
    g.answers(str(altered["snapshot_id"]) in answer.text,
              f"the refusal does not name the snapshot in the way: {answer}")
    w.noticed("tidemark_lake_conflicts_total")
    g.healed(lambda: w.append([5], base=w.head()).is_ok, "with the newest base it succeeds", 10)
    w.note([1, 2, 3, 5])
    return g.verdict_of(answer)


@cell("lake-head", "this-older", "continues", effect="none", variant="append", quick=True,
      reason="appends do not conflict with each other")
def this_older_append(g):
    w = SqliteLake(g)
    base = w.head()
    w.begin_fault(CATALOG)
    w.must_append([4], writer="w2")
    answer = w.append([5], base=base)
    w.note([1, 2, 3, 4, 5])
    return g.verdict_of(answer)


@cell("lake-head", "other-wiped", "refuses exit 3")
def other_wiped(g):
    return g.verdict_of(lake_faults.serve_of_wiped(g, SqliteLake(g)))


@cell("lake-head", "other-copied", "refuses E_NOT_FOUND")
def other_copied(g):
    """The metabase becomes a copy of another one, which does not have the base."""
    other = SqliteLake(g, name="other.db")
    other.backup()
    other.serve.stop()
    w = SqliteLake(g)
    base = int(w.must_append([4])["snapshot_id"])
    before = w.identity()
    w.begin_fault(CATALOG, may_vanish=True)
    w.replace_by(other.backup_path)
    answer = w.append([5], base=base)
    w.noticed(FAILED + "|" + EPOCH, log="session|copied|another metabase")
    g.answers(w.identity()[0] != before[0], "store info reports no new session")
    return g.verdict_of(answer)


@cell("lake-head", "promoted", "continues")
def promoted(g):
    return lake_faults.promoted(g, Base)


@cell("lake-head", "away-before", "refuses E_UNAVAILABLE", effect="holds")
def away_before(g):
    return lake_faults.away_before(g, Base)


@cell("lake-head", "away-during", "refuses E_UNAVAILABLE", effect="holds")
def away_during(g):
    return lake_faults.away_during(g, Base)


@cell("lake-head", "hung", "refuses E_TIMEOUT", effect="holds", limit=240)
def hung(g):
    return lake_faults.hung(g, Base)


@cell("lake-head", "answer-lost", "continues", limit=180)
def answer_lost(g):
    return lake_faults.answer_lost(g, Base)


@cell("lake-head", "disk-full", "refuses E_FULL", effect="holds", mark=Mark("lake", *STORE_AWAY))
def disk_full(g):
    return lake_faults.disk_full(g, Base)


@cell("lake-head", "clock-ahead", "continues", effect="none",
      reason="the order of snapshots is that of their numbers, not of their times")
def clock_ahead(g):
    return lake_faults.clock(g, Base, 1)


@cell("lake-head", "clock-behind", "continues", effect="none",
      reason="the order of snapshots is that of their numbers, not of their times")
def clock_behind(g):
    return lake_faults.clock(g, Base, -1)
