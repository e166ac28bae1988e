"""Every checker accepts a sound history, and rejects it with one planted fault of each kind.

A case is a sound history, a change of it, and the verdict: the rule that is violated, "sound" or
"unreadable". The checkers run as they do everywhere: as programs over a file.
"""

import copy
import json
import os
import random
import resource
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
SEED = int(os.environ.get("TIDEMARK_SEED", "20261117"), 0)
LINES = 200000
CPU_SECONDS_MAX = 40  # for LINES; a few seconds on an idle machine

results = []


def report(name, is_fine, text=""):
    results.append(is_fine)
    print(f"{'ok' if is_fine else 'not ok'} {len(results)} - {name}", flush=True)
    for line in text.splitlines() if not is_fine else ():
        print(f"# {line}", flush=True)


def write_lines(path, lines):
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(
            line if isinstance(line, str) else json.dumps(line) + "\n" for line in lines
        )


def run(checker, *arguments):
    command = [sys.executable, os.path.join(HERE, checker + ".py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def judge(checker, lines):
    """The verdict, and everything it said."""
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "history.jsonl")
        write_lines(path, lines)
        done = run(checker, "--json", path)
        plain = run(checker, path)
    text = f"exit {done.returncode}: {done.stdout}{done.stderr}"
    if done.returncode != plain.returncode:
        return "unstable", text
    try:
        verdict = json.loads(done.stdout)
    except ValueError:
        return "no verdict", text
    if (done.returncode, verdict["verdict"]) == (0, "sound"):
        return ("sound" if plain.stdout.startswith("sound: ") else "no text"), text
    if (done.returncode, verdict["verdict"]) == (8, "violated"):
        is_told = plain.stdout.startswith(verdict["rule"] + ": ")
        return (verdict["rule"] if is_told else "no text"), text
    if (done.returncode, verdict["verdict"]) == (2, "unreadable"):
        return ("unreadable" if not plain.stdout and plain.stderr else "no text"), text
    return "no verdict", text


def line(process, operation, begin, end, result="ok", **members):
    common = {
        "process": process,
        "operation": operation,
        "begin": begin,
        "end": end,
        "result": result,
    }
    return {**common, **members}


def expect(checker, name, history, change, verdict):
    changed = copy.deepcopy(history)
    if change is not None:
        replaced = change(changed)
        changed = changed if replaced is None else replaced
    got, text = judge(checker, changed)
    report(f"{checker}: {name}", got == verdict, f"want {verdict}, got {got}\n{text}")


def find(history, operation, **members):
    """The line with these members."""
    return next(
        each
        for each in history
        if each["operation"] == operation and all(each.get(k) == v for k, v in members.items())
    )


def without(operation, **members):
    def change(history):
        history.remove(find(history, operation, **members))

    return change


def having(operation, changes, **members):
    def change(history):
        find(history, operation, **members).update(changes)

    return change


def adding(*lines):
    def change(history):
        history.extend(lines)

    return change


def both(*changes):
    def change(history):
        for each in changes:
            each(history)

    return change


def only(*operations):
    def change(history):
        return [each for each in history if each["operation"] in operations]

    return change


# ---- sequences ----


def take(begin, end, value, number=None, result="ok", process="w1", **members):
    if number is not None:
        members["number"] = number
    return line(process, "take", begin, end, result, sequence="s", value=value, **members)


def row(number, value, **members):
    return line("end", "row", 1000, 1001, sequence="s", number=number, value=value, **members)


def page(begin, end, after, values, more=False, **members):
    numbers = list(range(after + 1, after + 1 + len(values)))
    return line(
        "r1",
        "read",
        begin,
        end,
        sequence="s",
        after=after,
        numbers=numbers,
        values=values,
        more=more,
        **members,
    )


def sequences():
    history = [
        take(10, 20, "a", 1),
        take(15, 30, "b", 2, process="w2"),
        take(40, 50, "c", 3),
        take(42, None, "d", result="unknown", process="w2"),
        take(42, 55, "d", 4, process="w2"),
        take(60, 70, "e", result="fail"),
        take(61, 71, "f", result="unknown", process="w2"),
        take(80, 90, "g", 6),
        take(81, None, "h", result="unknown", process="w3"),
        page(32, 35, 0, ["a", "b"]),
        page(56, 58, 2, ["c", "d"]),
        page(92, 93, 4, ["f"], more=True),
        row(1, "a", at=1),
        row(2, "b", at=2),
        row(3, "c", at=2),
        row(4, "d", at=3),
        row(5, "f", at=4),
        row(6, "g", at=5),
        line("end", "rows", 1000, 1001, sequence="s", count=6),
    ]
    takes = [each for each in history if each["operation"] == "take"]

    def case(name, change, verdict):
        expect("sequences", name, history, change, verdict)

    case("a sound history", None, "sound")
    case("an unknown take may have happened", adding(row(7, "h", at=6)), "lost")  # rows says 6
    case(
        "an unknown take that happened",
        both(adding(row(7, "h", at=6)), having("rows", {"count": 7})),
        "sound",
    )
    case("one number given to two writers", having("take", {"number": 3}, value="g"), "unique")
    case("one value with two numbers", adding(take(95, 96, "a", 8)), "unique")
    case("one number found twice", adding(row(6, "h")), "lost")
    case(
        "one number found twice, and counted so",
        both(adding(row(6, "h")), having("rows", {"count": 7})),
        "unique",
    )
    case(
        "one value found under two numbers",
        both(adding(row(7, "a")), having("rows", {"count": 7})),
        "unique",
    )
    case(
        "a number that no row has",
        both(without("row", number=5), having("rows", {"count": 5})),
        "gap",
    )
    case("a page that skips a number", having("read", {"numbers": [3, 5]}, after=2), "gap")
    case("a page that goes back", having("read", {"numbers": [3, 3]}, after=2), "order")
    case(
        "a number lower than one that was acknowledged before",
        both(having("take", {"number": 3}, value="a"), having("take", {"number": 1}, value="c")),
        "order",
    )
    case(
        "a number lower than one that was read before",
        both(having("take", {"begin": 93, "end": 95}, value="c")),
        "order",
    )
    case(
        "a read that misses an acknowledged number",
        having("read", {"numbers": [1], "values": ["a"]}, after=0),
        "stale",
    )
    case(
        "an acknowledged value that is gone",
        both(without("row", value="g"), having("rows", {"count": 5})),
        "lost",
    )
    case(
        "a value acknowledged without its number that is gone",
        adding(take(98, 99, "n")),
        "lost",
    )
    case(
        "a value acknowledged without its number that is there",
        both(adding(take(98, 99, "n"), row(7, "n", at=9)), having("rows", {"count": 7})),
        "sound",
    )
    case("a table that was emptied", lambda h: [e for e in h if e["operation"] != "row"], "lost")
    case(
        "an acknowledged value under another number",
        having("take", {"number": 7}, value="g"),
        "changed",
    )
    case(
        "an acknowledged number with another value",
        having("row", {"value": "h"}, value="g"),
        "changed",
    )
    case("a row that was read and changed", having("read", {"values": ["x"]}, after=4), "changed")
    unread = without("read", after=4)
    case(
        "a refused value that is there",
        both(unread, having("row", {"value": "e"}, value="f")),
        "phantom",
    )
    case(
        "a value that nobody asked for",
        both(unread, having("row", {"value": "z"}, value="f")),
        "phantom",
    )
    case("times that go back", having("row", {"at": 1}, number=5), "order")
    case(
        "takes without rows: a gap that no unknown take explains",
        lambda h: takes[:3] + [take(80, 90, "g", 7)],
        "gap",
    )
    case("takes without rows: a gap that unknown takes explain", lambda h: takes, "sound")
    case(
        "takes of two epochs", lambda h: [take(1, 2, "a", 1), take(3, 4, "b", 1, epoch=2)], "sound"
    )
    case(
        "an epoch that came back",
        lambda h: [take(1, 2, "a", 1), take(3, 4, "b", 1, epoch=2), take(5, 6, "c", 2)],
        "epoch",
    )
    case(
        "a session that came back",
        lambda h: [
            take(1, 2, "a", 1, session="S"),
            take(3, 4, "b", 1, session="T"),
            take(5, 6, "c", 2, session="S"),
        ],
        "epoch",
    )
    restored = [
        take(1, 2, "a", 1),
        take(3, 4, "b", 2),
        take(5, 6, "c", 3),
        line("test", "cut", 7, 8, sequence="s", head=1),
        take(9, 10, "d", 2, epoch=2),
        row(1, "a"),
        row(2, "d"),
    ]
    case("a restored copy loses what lies behind it", lambda h: restored, "sound")
    case(
        "the same without the restore",
        lambda h: [e for e in restored if e["operation"] != "cut"],
        "changed",
    )
    case(
        "a restore loses more than lies behind the copy",
        lambda h: [having("cut", {"head": 2})(restored), restored][1],
        "changed",
    )
    trimmed = [
        take(1, 2, "a", 1),
        take(3, 4, "b", 2),
        line("t", "trim", 5, 6, sequence="s", upto=1),
        row(2, "b"),
    ]
    case("retention removed the beginning", lambda h: trimmed, "sound")
    case("retention removed more than it reported", lambda h: trimmed[:3] + [row(3, "b")], "gap")


# ---- leases ----


def lease(process, operation, begin, end, token, result="ok", item="i", **members):
    return line(process, operation, begin, end, result, item=item, token=token, **members)


def effect(token, kind, item="i"):
    return line("end", "effect", 1000, 1001, item=item, token=token, kind=kind)


def leases():
    history = [
        line("boss", "add", 1, 2, item="i"),
        lease("a", "claim", 10, 12, 7),
        lease("a", "renew", 14, 15, 7),
        lease("b", "claim", 30, 32, 8),
        lease("a", "renew", 33, 34, 7, "fail"),
        lease("a", "finish", 35, 36, 7, "fail"),
        lease("b", "finish", 40, None, 8, "unknown", adds=["f"], effects=["checkpoint"]),
        lease("b", "finish", 40, 42, 8, adds=["f"], effects=["checkpoint"]),
        lease("b", "finish", 43, 44, 8),
        effect(8, "checkpoint"),
        line(
            "end",
            "item",
            1000,
            1001,
            item="i",
            status="completed",
            token=8,
            attempts=2,
            attempts_max=3,
            must_end=True,
        ),
        lease("b", "claim", 50, 51, 3, item="f"),
        lease("b", "finish", 52, 53, 3, "unknown", item="f"),
        line(
            "end",
            "item",
            1000,
            1001,
            item="f",
            status="failed",
            attempts=2,
            attempts_max=2,
            exhausted=True,
        ),
    ]

    def case(name, change, verdict):
        expect("leases", name, history, change, verdict)

    case("a sound history", None, "sound")
    case(
        "an unknown finish that happened",
        having("item", {"status": "completed", "token": 3}, item="f"),
        "sound",
    )
    case("two claims with one token", having("claim", {"token": 8}, token=7), "token")
    case("a token below the one before", having("claim", {"token": 9}, token=7), "token")
    case("a renewal under an old token", having("renew", {"result": "ok"}, result="fail"), "fenced")
    case("a guarded write under an old token", adding(lease("a", "write", 38, 39, 7)), "fenced")
    case("a finish under an old token", having("finish", {"result": "ok"}, token=7), "fenced")
    case(
        "a renewal under an old token that overlaps with the claim",
        having("renew", {"result": "ok", "begin": 31}, result="fail"),
        "sound",
    )
    case(
        "a write after the release",
        adding(lease("b", "release", 45, 46, 8), lease("b", "write", 47, 48, 8)),
        "fenced",
    )
    case(
        "two finishes under two tokens",
        lambda h: [
            lease("a", "claim", 1, 9, 1),
            lease("b", "claim", 2, 9, 2),
            lease("a", "finish", 3, 9, 1),
            lease("b", "finish", 3, 9, 2),
        ],
        "finished",
    )
    case("a claim of a finished item", adding(lease("c", "claim", 60, 61, 9)), "finished")
    case("an effect that is there twice", adding(effect(8, "checkpoint")), "effect")
    case("an effect of a token that did not finish", having("effect", {"token": 7}), "effect")
    case("an effect that is missing", without("effect"), "effect")
    case(
        "an effect of an item that was not finished",
        both(
            adding(effect(4, "checkpoint", "g")),
            adding(
                line("boss", "add", 1, 2, item="g"),
                line("end", "item", 1000, 1001, item="g", status="pending"),
            ),
        ),
        "effect",
    )
    case("an effect that nobody wanted", adding(effect(8, "mail")), "effect")
    case("an acknowledged item that is gone", adding(line("boss", "add", 3, 4, item="z")), "lost")
    case(
        "an acknowledged finish that did not last",
        having("item", {"status": "pending", "token": None}, item="i"),
        "lost",
    )
    case("a finish that another token has replaced", having("item", {"token": 7}, item="i"), "lost")
    case(
        "an item that nobody added",
        adding(line("end", "item", 1000, 1001, item="z", status="pending")),
        "phantom",
    )
    case(
        "a completed item that nobody finished",
        lambda h: [e for e in h if e["operation"] not in ("finish", "effect")],
        "phantom",
    )
    case(
        "an item found twice",
        adding(line("end", "item", 1000, 1001, item="i", status="completed", token=8)),
        "twice",
    )
    case("more attempts than allowed", having("item", {"attempts": 4}, item="i"), "attempts")
    case("given up with attempts left", having("item", {"attempts": 1}, item="f"), "attempts")
    case(
        "an item that never ended",
        having("item", {"status": "pending", "must_end": True, "exhausted": False}, item="f"),
        "ended",
    )
    remade = [
        lease("a", "claim", 1, 2, 1),
        lease("a", "finish", 3, 4, 1),
        lease("b", "claim", 5, 6, 9),
        lease("b", "finish", 7, 8, 9),
    ]
    forgot = line("end", "forgot", 1000, 1001, below=5)
    case("a finish that a failover was permitted to lose", lambda h: [*remade, forgot], "sound")
    case("a finish that no failover lost", lambda h: remade, "finished")
    case(
        "two finishes behind a failover",
        lambda h: [
            *remade,
            lease("c", "claim", 9, 10, 10),
            lease("c", "finish", 11, 12, 10),
            forgot,
        ],
        "finished",
    )
    case(
        "a finish that a failover lost, of an item that is pending",
        lambda h: [
            *remade[:2],
            line("end", "item", 1000, 1001, item="i", status="pending"),
            forgot,
        ],
        "sound",
    )
    case("only refused calls", lambda h: [lease("a", "claim", 1, 2, 1, "fail")], "unreadable")


# ---- delivery ----


def stored(number, value, epoch=1, session="S", stream="load"):
    return line(
        "end",
        "stored",
        1000,
        1001,
        source="a",
        stream=stream,
        session=session,
        epoch=epoch,
        number=number,
        value=value,
    )


def send(begin, end, value, number, result="ok", epoch=1, session="S"):
    if number is None:
        return line("w", "send", begin, end, result, source="a", stream="load", value=value)
    return line(
        "w",
        "send",
        begin,
        end,
        result,
        source="a",
        stream="load",
        value=value,
        session=session,
        epoch=epoch,
        number=number,
    )


def gap(first, last, status, reason="restored", epoch=1):
    return line(
        "end",
        "gap",
        1000,
        1001,
        source="a",
        stream="load",
        session="S",
        epoch=epoch,
        first=first,
        last=last,
        status=status,
        reason=reason,
    )


def sample(begin, number, version, epoch=1):
    return line(
        "s",
        "position",
        begin,
        begin + 1,
        source="a",
        stream="load",
        session="S",
        epoch=epoch,
        number=number,
        version=version,
    )


def delivery():
    ledger = {
        "first": 1,
        "head": 6,
        "stored": 3,
        "dead": 1,
        "filtered": 0,
        "void": 1,
        "lost": 0,
        "pending": 1,
    }
    history = [
        send(1, 2, "a1", 1),
        send(3, 4, "a2", 2),
        send(5, 6, "a3", None, "unknown"),
        send(7, 8, "a4", None, "fail"),
        send(9, 10, "a5", None, "unknown"),
        sample(20, 1, 1),
        sample(30, 2, 2),
        sample(40, 2, 2),
        stored(1, "a1"),
        stored(2, "a2"),
        stored(3, "a3"),
        gap(4, 4, "void", ""),
        line(
            "end", "ledger", 1000, 1001, source="a", stream="load", session="S", epoch=1, **ledger
        ),
    ]

    def case(name, change, verdict):
        expect("delivery", name, history, change, verdict)

    case("a sound history", None, "sound")
    case("a ledger that does not balance", having("ledger", {"pending": 0}), "ledger")
    case("a ledger with a negative part", having("ledger", {"pending": -1, "dead": 3}), "ledger")
    case(
        "a ledger that claims another sum of gaps",
        having("ledger", {"void": 0, "lost": 1}),
        "ledger",
    )
    case(
        "a ledger that claims more rows than there are",
        having("ledger", {"stored": 4, "pending": 0}),
        "ledger",
    )
    case("an acknowledged record that is not there", without("stored", value="a2"), "lost")
    case(
        "reported lost, and nothing happened to the source",
        both(
            without("stored", value="a2"),
            adding(gap(2, 2, "lost")),
            having("ledger", {"stored": 2, "lost": 1}),
        ),
        "lost",
    )
    case("lost without a reason", adding(gap(5, 5, "lost", "")), "lost")
    case("a record that is there twice", adding(stored(5, "a2")), "twice")
    case("a record that was never sent", adding(stored(5, "zz")), "phantom")
    case("a refused record that is there", adding(stored(5, "a4")), "phantom")
    case("a record of another agent", having("stored", {"source": "b"}, value="a1"), "phantom")
    case("a record under another number", having("stored", {"number": 5}, value="a2"), "changed")
    case("a record in another epoch", having("stored", {"epoch": 2}, value="a2"), "changed")
    case("a position that went back", having("position", {"number": 0}, begin=40), "position")
    case(
        "a version that went back",
        having("position", {"version": 1, "number": 3}, begin=40),
        "position",
    )
    case(
        "an epoch that came back",
        both(
            having("position", {"epoch": 2}, begin=30), having("position", {"version": 3}, begin=40)
        ),
        "position",
    )
    wiped = [
        send(1, 2, "a1", 1),
        send(3, 4, "a2", 2),
        line("t", "backup", 3, 3, source="a", stream="load", head=1),
        line("t", "cut", 5, 6, source="a", kind="restore"),
        stored(1, "a1"),
        gap(2, 2, "lost"),
        line(
            "end",
            "met",
            1000,
            1001,
            source="a",
            stream="load",
            session="S",
            epoch=1,
            first=1,
            head=2,
        ),
    ]
    case("lost with a copy that was restored", lambda h: wiped, "sound")
    case(
        "lost though the restored copy had it",
        lambda h: [having("backup", {"head": 2})(wiped), wiped][1],
        "lost",
    )
    having("backup", {"head": 1})(wiped)
    case(
        "lost in silence after a restore",
        lambda h: [e for e in wiped if e["operation"] != "gap"],
        "lost",
    )
    case(
        "unknown to the sink when the store was wiped",
        lambda h: [
            send(1, 2, "a1", 1),
            line("t", "cut", 5, 6, source="a", kind="wipe"),
            sample(20, 0, 1),
        ],
        "sound",
    )
    case(
        "sent after the wipe, and lost",
        lambda h: [
            send(7, 8, "a1", 1),
            line("t", "cut", 5, 6, source="a", kind="wipe"),
            sample(20, 0, 1),
        ],
        "lost",
    )
    forgotten = [
        send(1, 2, "a1", 1),
        line("t", "forget", 0, 0, source="a"),
        gap(1, 1, "lost", "expired"),
        line(
            "end",
            "met",
            1000,
            1001,
            source="a",
            stream="load",
            session="S",
            epoch=1,
            first=1,
            head=1,
        ),
    ]
    case("dropped unread by a source that forgets", lambda h: forgotten, "sound")
    case(
        "dropped unread and not reported",
        lambda h: [e for e in forgotten if e["operation"] != "gap"],
        "lost",
    )
    case(
        "dropped unread by a source that must not",
        lambda h: [e for e in forgotten if e["operation"] != "forget"],
        "lost",
    )


# ---- convergence ----


def transaction(begin, end, value, new, gone=(), result="ok", node="a"):
    return line(
        "w",
        "transaction",
        begin,
        end,
        result,
        node=node,
        value=value,
        new=list(new),
        gone=list(gone),
    )


def convergence():
    history = [
        transaction(1, 2, "t1", ["t|1|c|text:'x'"]),
        transaction(3, 4, "t2", ["t|1|c|text:'y'"], ["t|1|c|text:'x'"], node="b"),
        transaction(5, 6, "t3", ["t|1|c|text:'z'"], node="c"),
        transaction(7, None, "t4", ["t|2|c|text:'u'"], result="unknown"),
        transaction(8, 9, "t5", ["t|3|c|text:'v'"], result="fail"),
    ]
    for node in "abc":
        history += [
            line("end", "state", 1000, 1001, node=node, rows=["t|1|z"], cells=["t|1|c|text:'z'"]),
            line("end", "listed", 1000, 1001, node=node, cells=["t|1|c|text:'y'"]),
            line("end", "verify", 1000, 1001, node=node, name="integrity_check"),
            line("s", "vector", 50, 51, node=node, vector={"a": 1, "b": 1}),
            line("s", "vector", 60, 61, node=node, vector={"a": 1, "b": 2}),
        ]

    def case(name, change, verdict):
        expect("convergence", name, history, change, verdict)

    case("a sound history", None, "sound")
    case("a node with another row", having("state", {"rows": ["t|1|y"]}, node="b"), "diverged")
    case("a node with a row less", having("state", {"rows": []}, node="c"), "diverged")
    case(
        "a node with a row twice",
        having("state", {"rows": ["t|1|z", "t|1|z"]}, node="c"),
        "diverged",
    )
    case(
        "an acknowledged value that no node shows",
        having("listed", {"cells": []}, node="b"),
        "lost",
    )
    case(
        "a value that nobody wrote",
        having("state", {"cells": ["t|1|c|text:'z'", "t|9|c|text:'q'"]}, node="a"),
        "phantom",
    )
    case(
        "a value of a refused transaction",
        having("state", {"cells": ["t|1|c|text:'z'", "t|3|c|text:'v'"]}, node="a"),
        "phantom",
    )
    case(
        "a value of a transaction of unknown outcome",
        having("state", {"cells": ["t|1|c|text:'z'", "t|2|c|text:'u'"]}, node="a"),
        "sound",
    )
    case("a file that is damaged", having("verify", {"result": "fail"}, node="b"), "verify")
    case(
        "a version vector that went back",
        having("vector", {"vector": {"a": 1}}, node="b", begin=60),
        "vector",
    )
    case(
        "a version vector that went back with its file",
        both(
            having("vector", {"vector": {"a": 1}}, node="b", begin=60),
            adding(line("t", "cut", 55, 56, node="b")),
        ),
        "sound",
    )
    case("the state of one node", lambda h: [e for e in h if e["node"] == "a"], "unreadable")


# ---- catalog ----


def commit(begin, end, key, snapshot=None, result="ok", base=None, writes=(), **members):
    if snapshot is not None:
        members["snapshot"] = snapshot
    return line(
        "w" + key,
        "commit",
        begin,
        end,
        result,
        catalog="c",
        key=key,
        base=base,
        writes=list(writes),
        **members,
    )


def snapshot(number, parent, key=None, digest=None, base=None, writes=(), at=0, **members):
    return line(
        "end",
        "snapshot",
        1000,
        1001,
        catalog="c",
        snapshot=number,
        parent=parent,
        key=key,
        digest=digest or f"d{number}",
        base=base,
        writes=list(writes),
        at=at,
        **members,
    )


def catalog():
    history = [
        commit(1, 10, "k1", 2, base=1, writes=["t:1"]),
        commit(2, 11, "k2", 3, base=1, writes=["t:2"]),
        commit(12, 20, "k3", result="fail", base=1, writes=["t:1"]),
        commit(13, None, "k4", result="unknown"),
        commit(21, 30, "k5", 4, base=3, writes=["t:1"]),
        line("r", "head", 31, 32, catalog="c", snapshot=4),
        line("r", "sight", 12, 13, catalog="c", snapshot=3, digest="d3"),
        line("r", "sight", 33, 34, catalog="c", snapshot=3, digest="d3"),
        snapshot(1, None, at=1),
        snapshot(2, 1, "k1", base=1, writes=["t:1"], at=2),
        snapshot(3, 2, "k2", base=1, writes=["t:2"], at=3),
        snapshot(4, 3, "k5", base=3, writes=["t:1"], at=3),
    ]

    def case(name, change, verdict):
        expect("catalog", name, history, change, verdict)

    case("a sound history", None, "sound")
    case("an unknown commit that happened", adding(snapshot(5, 4, "k4", base=4, at=4)), "sound")
    case("a snapshot that changed", having("sight", {"digest": "dx"}, begin=33), "immutable")
    case(
        "a snapshot whose rows changed after it was seen",
        having("snapshot", {"digest": "dx"}, snapshot=3),
        "immutable",
    )
    case(
        "a snapshot below one that was known",
        having("commit", {"begin": 31, "end": 33}, key="k2"),
        "order",
    )
    case("a head below a commit that was known", having("head", {"snapshot": 3}), "order")
    case("times that go back", having("snapshot", {"at": 1}, snapshot=4), "order")
    case("two snapshots of one parent", having("snapshot", {"parent": 2}, snapshot=4), "linear")
    case(
        "a snapshot in the line that nobody has",
        both(without("commit", key="k2"), without("snapshot", snapshot=3)),
        "linear",
    )
    case(
        "an acknowledged commit that is not there",
        both(without("snapshot", snapshot=4)),
        "lost",
    )
    case(
        "an acknowledged snapshot that is of another",
        having("snapshot", {"key": "k4"}, snapshot=4),
        "lost",
    )
    case("a refused commit that is there", adding(snapshot(5, 4, "k3", base=4, at=4)), "phantom")
    case("a commit that nobody asked for", adding(snapshot(5, 4, "k9", base=4, at=4)), "phantom")
    case("one request with two snapshots", adding(commit(40, 41, "k1", 5)), "twice")
    case("one request found twice", adding(snapshot(5, 4, "k1", base=4, at=4)), "twice")
    case("one snapshot given to two requests", having("commit", {"snapshot": 2}, key="k2"), "twice")
    case("a conflict that was lost", having("snapshot", {"base": 1}, snapshot=4), "conflict")
    case(
        "a conflict that was lost, without snapshots",
        lambda h: [having("commit", {"base": 1}, key="k5")(h), only("commit")(h)][1],
        "conflict",
    )
    case(
        "an overlap by what it must not meet",
        both(having("snapshot", {"conflicts_with": ["t:1"]}, snapshot=3)),
        "conflict",
    )


# ---- unreadable histories, and the command line ----


def unreadable():
    fine = [take(1, 2, "a", 1)]
    for name, lines in (
        ("an empty file", []),
        ("only operations of other checkers", [line("a", "other", 1, 2)]),
        ("only refused takes", [take(1, 2, "a", result="fail")]),
        ("a line that is not JSON", fine + ["nonsense\n"]),
        ("two objects on a line", fine + [json.dumps(fine[0]) + json.dumps(fine[0]) + "\n"]),
        ("an empty line", fine + ["\n"]),
        ("a line that is no object", fine + ["[1]\n"]),
        ("a last line without its end", fine + [json.dumps(take(3, 4, "b", 2))]),
        (
            "a line without a process",
            fine + [{"operation": "take", "begin": 1, "end": 2, "result": "ok"}],
        ),
        ("a time that is no integer", fine + [take(1.5, 2, "b", 2)]),
        ("an end before its begin", fine + [take(5, 4, "b", 2)]),
        ("a result of another name", fine + [take(5, 6, "b", 2, "maybe")]),
        ("an acknowledgement without an end", fine + [take(5, None, "b", 2)]),
        ("a take without its value", fine + [line("w", "take", 5, 6, sequence="s", number=2)]),
        ("a number that is a text", fine + [take(5, 6, "b", "2")]),
    ):
        expect("sequences", f"unreadable: {name}", lines, None, "unreadable")
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "history.jsonl")
        write_lines(path, fine + ['{"process":"w1","oper'])
        done = run("sequences", "--killed", path)
        piece = '{"process":"w1","operation":"take","beg'
        write_lines(path, fine + [piece + json.dumps(take(3, 4, "b", 2)) + "\n"])
        strict = run("sequences", path).returncode
        cut = run("sequences", "--killed", path)
        is_fine = strict == 2 and cut.returncode == 0 and "2 takes" in cut.stdout
        report("sequences: --killed passes over a piece of a line", is_fine, cut.stdout + cut.stderr)
        report(
            "sequences: --killed passes over a last line in part", done.returncode == 0, done.stderr
        )
    done = run("sequences", "/nonexistent/history")
    report(
        "sequences: unreadable: no file",
        done.returncode == 2 and not done.stdout,
        done.stdout + done.stderr,
    )
    done = run("sequences")
    report("sequences: unreadable: no argument", done.returncode == 2, done.stdout + done.stderr)


def examples():
    for checker in ("sequences", "leases", "delivery", "convergence", "catalog"):
        text = run(checker, "--help").stdout
        example = [json.loads(each) for each in text.splitlines() if each.startswith("{")]
        got, said = judge(checker, example)
        report(f"{checker}: the example of --help is sound", got == "sound", said)


def writers():
    sys.path.insert(0, HERE)
    from history import History  # pylint: disable=import-outside-toplevel

    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "h.jsonl")
        history = History(path)
        history.call("a", "take", sequence="s", value="x").announce().ok(number=1)
        history.call("a", "take", sequence="s", value="y").announce()
        history.call("a", "take", sequence="s", value="z").fail()
        history.call("b", "take", sequence="s", value="w").unknown()
        history.found("end", "row", sequence="s", number=1, value="x")
        history.found("end", "row", sequence="s", number=2, value="y")
        history.close()
        done = run("sequences", path)
    is_fine = done.returncode == 0 and "1 takes" in done.stdout and "2 rows" in done.stdout
    report("history.py writes what a checker reads", is_fine, done.stdout + done.stderr)


def large():
    """Sorting is enough: time grows with the number of lines."""
    chance = random.Random(SEED)
    lines = []
    begin = 0
    for number in range(1, LINES + 1):
        begin += chance.randrange(5)
        lines.append(
            take(begin, begin + chance.randrange(3), f"v{number}", number, process=f"w{number % 8}")
        )
    # calls that overlap may be answered in any order, so the file is in none
    chance.shuffle(lines)
    ordered = sorted(lines, key=lambda each: each["number"])
    for before, after in zip(ordered, ordered[1:]):
        if before["end"] < before["begin"] or after["end"] < before["begin"]:
            after["end"] = before["begin"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "h.jsonl")
        write_lines(path, lines)
        done = run("sequences", path)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    text = f"seed {SEED}: {seconds:.1f} s of CPU: {done.stdout}{done.stderr}"
    report(
        f"{LINES} lines within {CPU_SECONDS_MAX} s of CPU",
        done.returncode == 0 and seconds < CPU_SECONDS_MAX,
        text,
    )
    print(f"# {text.strip()}")


def main():
    for part in (
        sequences,
        leases,
        delivery,
        convergence,
        catalog,
        unreadable,
        examples,
        writers,
        large,
    ):
        part()
    print(f"1..{len(results)}")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
