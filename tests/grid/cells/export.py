"""export-manifest: what an export directory knows of a colony's rows: which ranges of numbers are
written as Parquet files. Contact is the next `tidemark export`."""

import glob
import os
import shutil

from frame.colony_world import Agent
from frame.table import cannot, cell

COMMANDS_ONLY = "an export is a command: its exit code and message are all there is"
KNOWN = "ranges of numbers name rows for ever: what is written is recognised, the rest is written"


class Export:
    """An agent, a colony's store that is polled by command, and an export directory."""

    def __init__(self, g, store=None, directory=None, name="web-1"):
        self.g = g
        self.agent = Agent(g, name)
        self.store = store or g.path("colony.db")
        self.directory = directory or g.path("parquet")
        self.environment = None

    def collect(self, count):
        """Records are sent, and polled into the colony's store."""
        self.agent.must_send(count)
        self.poll()

    def poll(self):
        self.g.must("colony", "poll", "--once", "--agent", self.agent.option, store=self.store)

    def run(self, limit=60):
        return self.g.tidemark("export", "--parquet", self.directory, store=self.store,
                               limit=limit, environment=self.environment)

    def must_run(self):
        ended = self.run()
        self.g.require(ended.code == 0, f"export: {ended}")
        return ended

    def start(self):
        return self.g.start("export", "--parquet", self.directory, store=self.store)

    def written(self):
        """{(source, session, epoch): numbers}, of the manifest; a number twice is a finding."""
        found = {}
        with open(os.path.join(self.directory, "manifest.tsv"), encoding="utf-8") as file:
            for line in file:
                fields = line.rstrip("\n").split("\t")
                if fields[0] != "written":
                    continue
                numbers = found.setdefault(tuple(fields[2:5]), [])
                numbers += range(int(fields[5]), int(fields[6]) + 1)
        return found

    def check(self, count, sources=1):
        """Every number is written once, in files that are there, and there are no others."""
        found = self.written()
        for source, numbers in found.items():
            self.g.data(len(numbers) == len(set(numbers)), f"{source} is written twice: {numbers}")
        total = sum(len(set(numbers)) for numbers in found.values())
        self.g.data(total == count and len(found) == sources,
                    f"{count} records of {sources} sources were sent, {found} is written")
        with open(os.path.join(self.directory, "manifest.tsv"), encoding="utf-8") as file:
            lines = sum(line.startswith("written\t") for line in file)
        files = glob.glob(os.path.join(self.directory, "**", "*.parquet"), recursive=True)
        self.g.data(len(files) == lines, f"{lines} files are noted, {len(files)} are there")

    def begin(self):
        self.g.begin_fault([], (self.agent.name,))
        self.g.without_daemon(COMMANDS_ONLY)


@cell("export-manifest", "other-older", "continues", effect="none", reason=KNOWN)
def other_older(g):
    """The colony's store is restored to before the newest rows, which are polled again."""
    export = Export(g)
    export.collect(3)
    g.copy_store(export.store, g.path("backup.db"))
    export.collect(3)
    export.must_run()
    export.begin()
    g.put_file(g.path("backup.db"), export.store)
    export.collect(2)
    ended = export.run()
    export.check(8)
    return g.verdict_of(ended)


@cell("export-manifest", "this-older", "continues", effect="none", reason=KNOWN)
def this_older(g):
    """The export directory is restored to an older state, whole."""
    export = Export(g)
    export.collect(3)
    export.must_run()
    shutil.copytree(export.directory, g.path("backup"))
    export.collect(3)
    export.must_run()
    export.begin()
    shutil.rmtree(export.directory)
    shutil.copytree(g.path("backup"), export.directory)
    ended = export.run()
    export.check(6)
    return g.verdict_of(ended)


@cell("export-manifest", "other-wiped", "continues", effect="none", reason=KNOWN)
def other_wiped(g):
    """The colony's store is wiped, and polls from the beginning what the agent still has."""
    export = Export(g)
    export.collect(3)
    export.must_run()
    export.begin()
    g.wipe(export.store)
    export.collect(2)
    ended = export.run()
    export.check(5)
    return g.verdict_of(ended)


@cell("export-manifest", "other-copied", "continues", effect="none", reason=KNOWN)
def other_copied(g):
    """The colony's store is replaced by a copy of another colony's, with other agents."""
    other = Export(g, g.path("other.db"), name="web-2")
    other.collect(4)
    g.copy_store(other.store, g.path("copy.db"))
    export = Export(g)
    export.collect(3)
    export.must_run()
    export.begin()
    g.put_file(g.path("copy.db"), export.store)
    ended = export.run()
    export.check(7, sources=2)
    return g.verdict_of(ended)


cannot("export-manifest", "promoted",
       "the manifest compares numbers of agents, not the store's epoch: rows that a promotion "
       "loses are those of other-older")


def on_postgres(g):
    server = g.postgres()
    net = g.proxy(server)
    export = Export(g, server.url(port=net.port))
    export.collect(3)
    export.must_run()
    export.collect(3)
    export.begin()
    return server, net, export


@cell("export-manifest", "away-before", "refuses exit 6")
def away_before(g):
    server, net, export = on_postgres(g)
    net.refuse()
    server.crash()
    ended = export.run()
    g.answers("127.0.0.1" in ended.err, f"the message does not name the server: {ended}")
    server.start()
    net.allow()
    g.healed(lambda: export.run().code == 0, "the rest is exported", 30)
    export.check(6)
    return g.verdict_of(ended)


@cell("export-manifest", "away-during", "refuses exit 6")
def away_during(g):
    server, net, export = on_postgres(g)
    net.hold()
    command = export.start()
    g.wait(net.held.is_set, 20, "export speaks to the server")
    net.refuse()
    server.crash()
    net.release()
    ended = g.ended(command)
    g.answers("127.0.0.1" in ended.err, f"the message does not name the server: {ended}")
    server.start()
    net.allow()
    g.healed(lambda: export.run().code == 0, "the rest is exported", 30)
    export.check(6)
    return g.verdict_of(ended)


@cell("export-manifest", "hung", "refuses exit 6", limit=200)
def hung(g):
    server, _, export = on_postgres(g)
    server.pause()
    command = export.start()
    try:
        verdict = g.verdict_of(g.ended(command, 45))
    except Exception:
        command.kill()
        verdict = "refuses no end within 45 s"
    server.resume()
    g.healed(lambda: export.run().code == 0, "the rest is exported", 30)
    export.check(6)
    return verdict


@cell("export-manifest", "answer-lost", "continues", effect="none",
      reason="a file that is complete and not noted is recognised by the next run")
def answer_lost(g):
    """The export died behind the rename of a file, before it was noted as written."""
    export = Export(g)
    export.collect(3)
    export.must_run()
    export.collect(3)
    export.must_run()
    export.begin()
    manifest = os.path.join(export.directory, "manifest.tsv")
    with open(manifest, encoding="utf-8") as file:
        lines = file.readlines()
    g.require(lines[-1].startswith("written\t"), f"the manifest ends with {lines[-1]!r}")
    with open(manifest, "w", encoding="utf-8") as file:
        file.writelines(lines[:-1])
    export.collect(2)
    ended = export.run()
    export.check(8)
    return g.verdict_of(ended)


@cell("export-manifest", "disk-full", "refuses exit 6")
def disk_full(g):
    disk = g.disk(1 << 20)
    export = Export(g, directory=disk.path + "/parquet")
    export.collect(3)
    export.must_run()
    export.collect(3)
    export.begin()
    disk.fill()
    ended = export.run()
    g.answers("space" in ended.err or "full" in ended.err, f"the message gives no reason: {ended}")
    disk.free()
    g.healed(lambda: export.run().code == 0, "the rest is exported", 30)
    export.check(6)
    return g.verdict_of(ended)


def clock(g, hours):
    export = Export(g)
    export.collect(3)
    export.must_run()
    export.collect(3)
    export.begin()
    export.environment = g.clock(hours).environment(g.environment)
    ended = export.run()
    export.environment = None
    export.collect(2)
    export.must_run()
    export.check(8)
    return g.verdict_of(ended)


@cell("export-manifest", "clock-ahead", "continues", effect="none",
      reason="ranges are numbers: a clock does not move them")
def clock_ahead(g):
    return clock(g, 1)


@cell("export-manifest", "clock-behind", "continues", effect="none",
      reason="ranges are numbers: a clock does not move them")
def clock_behind(g):
    return clock(g, -1)
