"""Every acknowledged record is in the colony's tables exactly once, or its loss is explained.

    colony_chaos_check.py DIRECTORY URL

Reads the journals of those who wrote (DIRECTORY/a*/journal: see chaos_sender.h), the samples of the checkpoints (DIRECTORY/samples:
see chaos_sampler.h) and the tables, through psql. Knows nothing else of the program: SQL and the standard library.
Ends with 0, or with 1 and what is wrong on stderr.
"""
import glob
import os
import subprocess
import sys
from collections import Counter, defaultdict

STREAM = "load"
findings = []
explained = Counter()


def find(text):
    findings.append(text)


def select(url, query):
    done = subprocess.run(["psql", "-X", "-q", "-d", url, "-c", f"COPY ({query}) TO STDOUT"],
                          stdout=subprocess.PIPE, check=True, text=True)
    return [line.split("\t") for line in done.stdout.splitlines()]


class Item:
    """A record or a span that somebody sent."""
    def __init__(self, text, generation):
        self.text = text
        self.sent = generation       # before the call
        self.acknowledged = None     # when the answer was there
        self.position = None         # (session, epoch, number)


class Agent:
    def __init__(self, name, path):
        self.name = name
        self.items = {"r": {}, "s": {}}
        self.events = []             # (what, generation, head)
        self.is_forgetful = False
        with open(path) as lines:
            for line in lines:
                self.read(line.split())

    def read(self, words):
        if words[0] == "I":
            self.items[words[1]][int(words[2])] = Item(words[4], int(words[3]))
        elif words[0] == "A":
            item = self.items[words[1]][int(words[2])]
            item.acknowledged = int(words[3])
            if words[1] == "r":
                item.position = (words[4], int(words[5]), int(words[6]))
        elif words[0] == "F":
            self.is_forgetful = True
        else:
            self.events.append((words[1], int(words[2]), int(words[4])))

    def acknowledged(self, kind):
        return [item for item in self.items[kind].values() if item.acknowledged is not None]

    def losses(self):
        """What was done to the store: (what, generation, generation of the copy or -1, head of the copy or 0)."""
        copied = (-1, 0)
        for what, generation, head in self.events:
            if what == "backup":
                copied = (generation, head)
            elif what == "wipe":
                yield what, generation, -1, 0
            else:
                yield what, generation, copied[0], copied[1]

    def rolled_back(self):
        return any(what == "rollback" for what, *_ in self.losses())


class Tables:
    def __init__(self, url):
        self.rows = defaultdict(list)      # text -> (agent, session, epoch, number)
        self.spans = defaultdict(list)
        for agent, session, epoch, number, text in select(
                url, "SELECT agent_id, session_id, epoch, seq_id, convert_from(data, 'UTF8') FROM records "
                     f"WHERE data_type = '{STREAM}'"):
            self.rows[text].append((agent, session, int(epoch), int(number)))
        for agent, session, epoch, number, span in select(
                url, "SELECT agent_id, session_id, epoch, seq_id, span_id FROM spans WHERE service_name = 'chaos'"):
            self.spans[span].append((agent, session, int(epoch), int(number)))
        self.gaps = [(agent, stream, session, int(epoch), int(first), int(last), status, reason)
                     for agent, stream, session, epoch, first, last, status, reason in select(
                         url, "SELECT agent_id, data_type, session_id, epoch, start_seq_id, end_seq_id, status, reason "
                              "FROM sequence_gaps")]
        self.heads = defaultdict(int)      # (agent, stream, session, epoch) -> greatest number the agent ever told
        self.firsts = {}                   # ... -> the number with which the colony began
        columns = "agent_id, data_type, session_id, epoch, first_seq_id, head_seq_id"
        for agent, stream, session, epoch, first, head in select(
                url, f"SELECT {columns} FROM polling_checkpoints UNION ALL SELECT {columns} FROM polling_checkpoint_history"):
            key = (agent, stream, session, int(epoch))
            self.heads[key] = max(self.heads[key], int(head))
            self.firsts[key] = max(self.firsts.get(key, 0), int(first))

    def epoch_met(self, agent, stream, session, epoch):
        """Numbers of an earlier epoch belong to the one in which the colony has met them, if it never met the earlier one."""
        later = [key[3] for key in self.heads if key[:3] == (agent, stream, session) and key[3] >= epoch]
        return min(later, default=epoch)

    def is_told_lost(self, agent, stream, session, epoch, number):
        return any(gap[:4] == (agent, stream, session, epoch) and gap[4] <= number <= gap[5] and gap[6] == "permanent"
                   for gap in self.gaps)

    def count_told_lost(self, agent, stream):
        lost = sum(gap[5] - gap[4] + 1 for gap in self.gaps if gap[:2] == (agent, stream) and gap[6] == "permanent")
        return lost + sum(first - 1 for key, first in self.firsts.items() if key[:2] == (agent, stream) and first > 0)


def is_forgotten(agent, item, tables):
    """Dropped before it was read, and told; or before the colony's time."""
    session, epoch, number = item.position
    epoch = tables.epoch_met(agent.name, STREAM, session, epoch)
    if not agent.is_forgetful:
        return False
    if number < tables.firsts.get((agent.name, STREAM, session, epoch), 0):
        return True
    # A number that was given twice is told as lost in the epoch that began when the cut was found.
    told_in = {key[3] for key in tables.heads if key[:3] == (agent.name, STREAM, session) and key[3] > epoch}
    return any(tables.is_told_lost(agent.name, STREAM, session, told, number)
               for told in {epoch} | (told_in if agent.rolled_back() else set()))


def check_loss_of_record(agent, item, tables):
    """A record is not there: may it be?"""
    session, epoch, number = item.position
    if is_forgotten(agent, item, tables):
        explained[f"{agent.name}: dropped unread"] += 1
        return
    for what, generation, _, head in agent.losses():
        if item.sent > generation or number <= head:
            continue
        told = tables.heads.get((agent.name, STREAM, session, epoch), 0)
        reason = ("rolled back" if what == "rollback" else  # nobody could know
                  "told as lost" if tables.is_told_lost(agent.name, STREAM, session, epoch, number) else
                  "never told of" if number > told else None)
        if reason:
            explained[f"{agent.name} {what}: {reason}"] += 1
            return
    find(f"{agent.name} {STREAM} {item.text}: acknowledged as {item.position}, sent in generation {item.sent}, and not there; "
         f"what was done to the store: {list(agent.losses())}, greatest number told "
         f"{tables.heads.get((agent.name, STREAM, session, epoch))}")


def check_loss_of_span(agent, item, tables):
    for _, generation, copied, _ in agent.losses():
        if item.sent <= generation and item.acknowledged > copied:
            return
    if agent.is_forgetful and tables.told_spans[agent.name] > 0:
        tables.told_spans[agent.name] -= 1
        return
    find(f"{agent.name} span {item.text}: acknowledged in generation {item.acknowledged}, and not there; what was done to the "
         f"store: {list(agent.losses())}")


def check_copies(agent, text, rows):
    """Twice is allowed only where history was cut unseen: the same number, in two epochs."""
    if len(rows) < 2:
        return
    numbers = {(row[1], row[3]) for row in rows}
    epochs = {row[2] for row in rows}
    if not agent.rolled_back() or len(numbers) > 1 or len(epochs) < len(rows):
        find(f"{agent.name} {text} is there {len(rows)} times: {rows}")


def check_place(agent, item, rows, tables):
    """Under the number that it was acknowledged with."""
    session, epoch, number = item.position
    for row in rows:
        is_epoch = (row[2] == tables.epoch_met(agent.name, STREAM, session, epoch) or
                    (row[2] > epoch and agent.rolled_back()))
        if row[0] != agent.name or row[1] != session or row[3] != number or not is_epoch:
            find(f"{agent.name} {item.text}: acknowledged as {item.position}, stored as {row}")


def check_agent(agent, tables):
    for item in agent.acknowledged("r"):
        rows = tables.rows.get(item.text)
        if rows:
            check_place(agent, item, rows, tables)
        else:
            check_loss_of_record(agent, item, tables)
    for item in agent.acknowledged("s"):
        if item.text not in tables.spans:
            check_loss_of_span(agent, item, tables)


def check_everything_was_sent(agents, tables):
    owners = {kind: {item.text: agent for agent in agents for item in agent.items[kind].values()} for kind in "rs"}
    for kind, rows_of in (("r", tables.rows), ("s", tables.spans)):
        for text, rows in rows_of.items():
            agent = owners[kind].get(text)
            if agent is None or any(row[0] != agent.name for row in rows):
                find(f"{text} is there and was never sent to that agent: {rows}")
            else:
                check_copies(agent, text, rows)


def check_samples(path):
    """A checkpoint never goes back, and a session or epoch that was left does not come again."""
    seen = {}
    left = set()
    count = 0
    with open(path) as lines:
        for line in lines:
            _, agent, stream, session, epoch, version, last = line.split()
            count += 1
            stand = (session, int(epoch), int(version), int(last))
            before = seen.get((agent, stream))
            seen[agent, stream] = stand
            if before is None or before == stand:
                continue
            if before[2] >= stand[2]:
                find(f"{agent} {stream}: version went from {before} to {stand}")
            if before[:2] == stand[:2]:
                if before[3] > stand[3]:
                    find(f"{agent} {stream}: the checkpoint went back from {before} to {stand}")
            else:
                left.add((agent, stream) + before[:2])
                if (agent, stream) + stand[:2] in left:
                    find(f"{agent} {stream}: came back to {stand}")
    return count


def check_unexplained(url):
    """Numbers of the rows, gaps and dead letters of every source add up, told by SQL alone."""
    for agent, session, epoch, first, last, stored, rows in select(
            url, "SELECT c.agent_id, c.session_id, c.epoch, c.first_seq_id, c.last_seq_id, c.stored, "
                 "(SELECT count(*) FROM records_rows r WHERE r.source_id = c.source_id) "
                 f"FROM polling_checkpoints c WHERE c.data_type = '{STREAM}'"):
        if int(stored) != int(rows):
            find(f"{agent} {STREAM} {session} {epoch}: {stored} stored, {rows} rows")
        ended = select(url, f"SELECT coalesce(sum(end_seq_id - start_seq_id + 1), 0) FROM sequence_gaps WHERE agent_id = '{agent}' "
                            f"AND data_type = '{STREAM}' AND session_id = '{session}' AND epoch = {epoch} "
                            "AND status IN ('permanent', 'void')")
        width = int(last) - int(first) + 1 if int(last) else 0
        if width > int(rows) + int(ended[0][0]):
            find(f"{agent} {STREAM} {session} {epoch}: {first}..{last} has {rows} rows and {ended[0][0]} told lost or void")


def main(directory, url):
    agents = [Agent(os.path.basename(os.path.dirname(path)), path)
              for path in sorted(glob.glob(os.path.join(directory, "a*", "journal")))]
    tables = Tables(url)
    tables.told_spans = {agent.name: tables.count_told_lost(agent.name, "telemetry") for agent in agents}
    for agent in agents:
        check_agent(agent, tables)
    check_everything_was_sent(agents, tables)
    samples = check_samples(os.path.join(directory, "samples"))
    check_unexplained(url)
    acknowledged = sum(len(agent.acknowledged(kind)) for agent in agents for kind in "rs")
    print(f"checked: {acknowledged} acknowledged of {len(agents)} agents, {len(tables.rows)} records and {len(tables.spans)} spans "
          f"stored, {len(tables.gaps)} gaps, {samples} samples; lost records: "
          f"{dict(explained)}")
    if acknowledged == 0 or samples == 0:
        find("nothing was there to check")
    for text in findings[:40]:
        print(text, file=sys.stderr)
    if len(findings) > 40:
        print(f"and {len(findings) - 40} more", file=sys.stderr)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
