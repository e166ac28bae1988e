"""identity-marker: what the host remembers of a SQLite store, beside it: a file in the state
directory with the store's session, a mark that rises as the store is written, and its epoch.
Contact is the opening of the store, by `tidemark serve`."""

import glob
import os
import shutil
import struct

from frame.grid import JOURNAL, WORK
from frame.store_faults import NO_LOG, NO_METRIC
from frame.store_world import Sqlite
from frame.table import Mark, cannot, cell

EPOCH = r"tidemark_store_(epoch|session)"
NO_CUT = "a marker that is behind the file, or missing, is no evidence of a cut"


# src/store/identity_marker.c: form, session, mark, epoch, is_logged, count of slots; a slot has a
# name and a number.
HEAD = struct.Struct("=8s40sqqqq")
SLOT = struct.Struct("=56sq")
SLOTS_AT = 128


class Marked:
    """A store with a marker, and what was acknowledged in it."""

    def __init__(self, g, hours=None):
        self.g = g
        self.w = Sqlite(g, hours=hours)
        self.task = self.w.must_call(WORK + "CreateTask", {"title": "grid"})["task_id"]
        self.count = 0
        g.check("sequences")
        self.write()

    def marker(self):
        """(path, session, how much commits have raised in it, epoch)"""
        session = self.w.identity()[0]
        for path in glob.glob(self.g.path("state/identity-markers/*")):
            with open(path, "rb") as file:
                page = file.read()
            if len(page) < SLOTS_AT:
                continue
            form, named, mark, epoch, _, count = HEAD.unpack_from(page)
            if form == b"TIDEMRK1" and named.rstrip(b"\0").decode() == session:
                lasts = [SLOT.unpack_from(page, SLOTS_AT + i * SLOT.size)[1] for i in range(count)]
                return path, session, mark + sum(lasts), epoch
        return None

    def write(self):
        self.count += 1
        session, epoch = self.w.identity()[:2]
        value = f"c{self.count}"
        call = self.g.history.call("writer", "take", sequence="journal", session=session,
                                   epoch=epoch, value=value)
        answer = self.w.call(JOURNAL + "Append", {"checkpoints": [
            {"checkpoint_id": value, "task_id": self.task, "type": "manual_checkpoint",
             "snapshot": {}}]})
        number = int(answer.json["checkpoints"][0]["global_sequence"]) if answer.is_ok else 0
        return self.g.history.note(call, answer, number=number)

    def write_until_marked(self, above):
        """Until the marker is above a mark: it rises with a commit, about once a second."""

        def look():
            self.g.require(self.write().is_ok, "the store takes checkpoints")
            found = self.marker()
            return found and found[2] > above

        self.g.wait(look, 20, "the marker rises")

    def verdict(self, before):
        """What opening the store again amounts to."""
        return "continues" if self.w.identity()[:2] == before[:2] else "begins an epoch"


@cell("identity-marker", "other-older", "begins an epoch")
def other_older(g):
    """The file is restored in place: the same inode and birth time. The marker alone knows."""
    marked = Marked(g)
    w = marked.w
    w.backup()
    head = marked.count
    marked.write_until_marked(marked.marker()[2] if marked.marker() else 0)
    marked.write_until_marked(marked.marker()[2])
    before = w.identity()
    w.begin_fault(w.url, may_vanish=True)
    w.serve.stop()
    with open(w.backup_path, "rb") as backup, open(w.url, "r+b") as file:
        file.truncate(0)
        shutil.copyfileobj(backup, file)
    w.serve.restart()
    g.history.found("operator", "cut", sequence="journal", session=before[0], head=head)
    g.require(marked.write().is_ok, "the store takes checkpoints")
    w.noticed(EPOCH, log="epoch|restored")
    after = w.identity()
    g.answers(after[1] > before[1], f"store info reports {after} after {before}")
    return marked.verdict(before)


@cell("identity-marker", "this-older", "continues", effect="none", reason=NO_CUT)
def this_older(g):
    """The state directory is restored to an older state; the store is not."""
    marked = Marked(g)
    marked.write_until_marked(0)
    shutil.copytree(g.path("state"), g.path("state-backup"))
    marked.write_until_marked(marked.marker()[2])
    marked.write_until_marked(marked.marker()[2])
    before = marked.w.identity()
    marked.w.begin_fault(marked.w.url)
    marked.w.serve.stop()
    shutil.rmtree(g.path("state"))
    shutil.copytree(g.path("state-backup"), g.path("state"))
    marked.w.serve.restart()
    g.require(marked.write().is_ok, "the store takes checkpoints")
    return marked.verdict(before)


@cell("identity-marker", "other-wiped", "begins an epoch", mark=Mark("security", NO_LOG, NO_METRIC))
def other_wiped(g):
    """The store is deleted and made anew: a session that the host does not know."""
    marked = Marked(g)
    marked.write_until_marked(0)
    before = marked.w.identity()
    marked.w.begin_fault(marked.w.url, may_vanish=True)
    marked.w.wipe()
    marked.w.noticed(EPOCH, log="session|epoch|created")
    after = marked.w.identity()
    g.answers(after[0] != before[0], f"store info reports {after} after {before}")
    return marked.verdict(before)


@cell("identity-marker", "other-copied", "begins an epoch")
def other_copied(g):
    """The store is replaced by a copy of another one."""
    other = Sqlite(g, name="other.db")
    other.must_call(WORK + "CreateTask", {"title": "other"})
    other.backup()
    other.serve.stop()
    marked = Marked(g)
    marked.write_until_marked(0)
    before = marked.w.identity()
    marked.w.begin_fault(marked.w.url, may_vanish=True)
    marked.w.replace_by(other.backup_path)
    marked.w.noticed(EPOCH, log="session|epoch|copied")
    after = marked.w.identity()
    g.answers(after[0] != before[0] and after[1] == 2,
              f"store info reports {after} for a copy of another store")
    return marked.verdict(before)


@cell("identity-marker", "promoted", "refuses exit 4")
def promoted(g):
    """A fresh process finds the old primary, after this host has seen epoch 2 on the new one."""
    primary = g.cluster()
    standby = primary.standby(g.path("standby"))
    primary.start()
    standby.start()
    g.must("sequence", "next", "orders", store=primary.url())
    primary.wait_caught_up(standby)
    primary.crash()
    standby.promote()
    g.must("sequence", "next", "orders", store=standby.url())
    g.begin_fault([], ("orders",))
    g.without_daemon("a fresh process is a command: its exit code and message are all there is")
    primary.start()
    ended = g.tidemark("sequence", "next", "orders", store=primary.url())
    g.answers("epoch" in ended.err, f"the message names no epoch: {ended}")
    return g.verdict_of(ended)


@cell("identity-marker", "away-before", "continues",
      mark=Mark("security", NO_LOG, NO_METRIC))
def away_before(g):
    """The state directory cannot be written: the store is served, and its owner is warned."""
    with open(g.path("no-directory"), "w", encoding="utf-8"):
        pass
    g.environment["TIDEMARK_STATE_DIR"] = g.path("no-directory/state")
    marked = Marked(g)
    before = marked.w.identity()
    marked.w.begin_fault(marked.w.url)
    marked.w.serve.stop()
    marked.w.serve.restart()
    g.require(marked.write().is_ok, "the store takes checkpoints")
    marked.w.noticed("tidemark_store_(marker|identity)", log="state directory|marker")
    doctor = g.tidemark("doctor", store=marked.w.url)
    g.answers("no-directory" in doctor.out + doctor.err,
              "doctor does not report that the state directory cannot be written")
    return marked.verdict(before)


@cell("identity-marker", "away-during", "continues", effect="none",
      reason="no history was cut; the marker is written again with the next commits",
      mark=Mark("security", "heal: the marker is written again"))
def away_during(g):
    """The state directory is deleted under a running daemon."""
    marked = Marked(g)
    marked.write_until_marked(0)
    before = marked.w.identity()
    marked.w.begin_fault(marked.w.url)
    shutil.rmtree(g.path("state"))
    g.healed(lambda: marked.write().is_ok and marked.marker(), "the marker is written again", 8)
    marked.w.serve.stop()
    marked.w.serve.restart()
    g.require(marked.write().is_ok, "the store takes checkpoints")
    return marked.verdict(before)


cannot("identity-marker", "hung", "the marker is a file of this host: there is no process to stop")


@cell("identity-marker", "answer-lost", "continues", effect="none",
      reason="a marker that is one step behind is what a crash leaves: no history was cut")
def answer_lost(g):
    """The daemon is killed behind COMMIT, before the marker is written."""
    marked = Marked(g)
    marked.write_until_marked(0)
    before = marked.w.identity()
    marked.w.begin_fault(marked.w.url)
    for _ in range(3):
        for _ in range(5):
            g.require(marked.write().is_ok, "the store takes checkpoints")
        marked.w.serve.kill()
        marked.w.serve.restart()
    g.require(marked.write().is_ok, "the store takes checkpoints")
    found = marked.w.must_call(JOURNAL + "List", {"first_global": 1})
    g.data(len(found["checkpoints"]) == marked.count,
           f"{marked.count} checkpoints were acknowledged, {len(found['checkpoints'])} are there")
    return marked.verdict(before)


@cell("identity-marker", "disk-full", "continues",
      mark=Mark("security", NO_LOG, NO_METRIC))
def disk_full(g):
    """The disk of the state directory is full, the store's is not."""
    disk = g.disk(1 << 20)
    g.environment["TIDEMARK_STATE_DIR"] = disk.path + "/state"
    marked = Marked(g)
    before = marked.w.identity()
    marked.w.begin_fault(marked.w.url)
    disk.fill()
    for path in glob.glob(disk.path + "/state/identity-markers/*"):
        os.remove(path)
    disk.fill()
    marked.w.serve.stop()
    marked.w.serve.restart()
    for _ in range(3):
        g.require(marked.write().is_ok, "the store takes checkpoints")
    marked.w.noticed("tidemark_store_(marker|identity)", log="state directory|marker")
    doctor = g.tidemark("doctor", store=marked.w.url)
    g.answers(disk.path in doctor.out + doctor.err,
              "doctor does not report that the state directory is full")
    disk.free()
    return marked.verdict(before)


def clock(g, hours):
    """The clock of the host jumps, and the store is opened again."""
    marked = Marked(g, hours=0)
    marked.write_until_marked(0)
    before = marked.w.identity()
    marked.w.begin_fault(marked.w.url)
    marked.w.clock.set(hours)
    g.require(marked.write().is_ok, "the store takes checkpoints")
    marked.w.serve.stop()
    marked.w.serve.restart()
    g.require(marked.write().is_ok, "the store takes checkpoints")
    return marked.verdict(before)


@cell("identity-marker", "clock-ahead", "continues", effect="none",
      reason="marks are counted, not measured: a clock does not move them")
def clock_ahead(g):
    return clock(g, 1)


@cell("identity-marker", "clock-behind", "continues", effect="none",
      reason="marks are counted, not measured: a clock does not move them")
def clock_behind(g):
    return clock(g, -1)
