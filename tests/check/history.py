"""history.py - histories of clients: write them, read them, and report a verdict.

The format is described in README.md beside this file. A client writes with History. A checker is a
class with the members that check() uses; it collects facts in read() and judges them in judge().

Survives: a killed client leaves whole lines only, because each is written by one write(2).
Threads: calls of one History may be made from several threads.
"""

import argparse
import gc
import json
import os
import sys
import time

SOUND, UNREADABLE, VIOLATED = 0, 2, 8
RESULTS = frozenset(("ok", "fail", "unknown"))
BLOCK = 1 << 22  # bytes that are parsed at once: joining lines saves half of the time


# ---- writing ----


class Call:
    """One call of a client: made before it, ended by ok, fail or unknown."""

    def __init__(self, history, process, operation, members):
        self.history = history
        self.line = {"process": process, "operation": operation, "begin": time.monotonic_ns()}
        self.members = members

    def announce(self):
        """Write the line that stands for the call if this process is killed before it ends."""
        self.history.write({**self.line, "end": None, "result": "unknown", **self.members})
        return self

    def end(self, result, **members):
        self.history.write(
            {**self.line, "end": time.monotonic_ns(), "result": result, **self.members, **members}
        )

    def ok(self, **members):
        self.end("ok", **members)

    def fail(self, **members):
        self.end("fail", **members)

    def unknown(self, **members):
        self.end("unknown", **members)


class History:
    """A file of lines, appended to; several processes may append to one."""

    def __init__(self, path):
        self.file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def close(self):
        os.close(self.file)

    def call(self, process, operation, **members):
        return Call(self, process, operation, members)

    def found(self, process, operation, begin=None, **members):
        """An observation that ends now."""
        end = time.monotonic_ns()
        self.write(
            {
                "process": process,
                "operation": operation,
                "begin": end if begin is None else begin,
                "end": end,
                "result": "ok",
                **members,
            }
        )

    def write(self, line):
        data = (json.dumps(line, separators=(",", ":")) + "\n").encode()
        if os.write(self.file, data) != len(data):
            raise OSError("a line of a history was written in part")


# ---- reading ----


class Unreadable(Exception):
    """The history cannot be judged."""


class Violation(Exception):
    """A history that no correct system produces."""

    def __init__(self, rule, text, lines=()):
        super().__init__(text)
        self.rule = rule
        self.text = text
        self.lines = [line for line in lines if line]


def parse_line(line, is_killed):
    """One line. The kernel may end the write of a killed client at a page's end, and another client
    then appends its own line to the piece."""
    start = line.rfind(b'{"process":') if is_killed else 0
    return json.loads(line[start:] if start > 0 else line)


def parse_block(block, first, path, is_killed):
    """The objects of some whole lines; first is the number of the first of them."""
    lines = block.split(b"\n")
    lines.pop()  # behind the last newline
    try:
        found = json.loads(b"[" + b",".join(lines) + b"]")
        if len(found) == len(lines):
            return found
    except ValueError:
        pass
    found = []
    for number, line in enumerate(lines, first):
        try:
            found.append(parse_line(line, is_killed))
        except ValueError as error:
            raise Unreadable(f"{path}:{number}: {error}") from error
    return found


def parse_file(path, is_killed):
    """Yield (line number, object) of each line."""
    number = 1
    rest = b""
    try:
        with open(path, "rb") as file:
            while data := file.read(BLOCK):
                end = data.rfind(b"\n") + 1
                if end == 0:
                    rest += data
                    continue
                found = parse_block(rest + data[:end], number, path, is_killed)
                rest = data[end:]
                yield from enumerate(found, number)
                number += len(found)
    except OSError as error:
        raise Unreadable(f"{path}: {error.strerror}") from error
    if rest and not is_killed:
        raise Unreadable(f"{path}:{number}: the last line has no end: it was written in part")


class Reader:
    """Reads files line by line, and knows where it is."""

    def __init__(self, is_killed):
        self.is_killed = is_killed
        self.path = None
        self.number = 0
        self.files = []
        self.base = 0  # lines of the files before this one

    def lines(self, paths):
        for self.path in paths:
            self.files.append((self.base, self.path))
            for self.number, line in parse_file(self.path, self.is_killed):
                yield line
            self.base += self.number
            self.number = 0

    def position(self):
        """A line as one integer, for all files together."""
        return self.base + self.number

    def name(self, position):
        for base, path in reversed(self.files):
            if position > base:
                return f"{os.path.basename(path)}:{position - base}"
        return "?"

    def fail(self, text):
        raise Unreadable(f"{self.path}:{self.number}: {text}")


def validate(line, reader):
    """The members that every line has."""
    try:
        begin, end, result = line["begin"], line.get("end"), line["result"]
        process, _ = line["process"], line["operation"]
    except (TypeError, KeyError, AttributeError) as error:
        reader.fail(f"want an object with process, operation, begin and result: {error}")
    if type(begin) is not int or (end is not None and type(end) is not int):
        reader.fail("begin and end are integers (nanoseconds)")
    if end is not None and end < begin:
        reader.fail("ends before it begins")
    if result not in RESULTS:
        reader.fail(f"result {result!r}, want ok, fail or unknown")
    if end is None and result != "unknown":
        reader.fail(f"result {result} without an end")
    if type(process) is not str:
        reader.fail("process is a string")


def read_history(checker, paths, is_killed):
    """Hand every line of the checker's operations to it; returns how many there were."""
    reader = Reader(is_killed)
    checker.reader = reader
    readers = checker.operations
    subject = checker.subject
    announced = {}  # (process, operation, begin, subject) -> lines without an end
    answered = set()
    count = 0
    line = None
    try:
        for line in reader.lines(paths):
            validate(line, reader)
            read = readers.get(line["operation"])
            if read is None:
                continue
            count += 1
            if line.get("end") is None:
                key = (line["process"], line["operation"], line["begin"], line.get(subject))
                announced[key] = (reader.position(), line, read)
                continue
            if announced:
                key = (line["process"], line["operation"], line["begin"], line.get(subject))
                answered.add(key)
            read(line, reader.position())
        for key, (position, line, read) in announced.items():
            if key not in answered:
                read(line, position)
    except KeyError as error:
        reader.fail(f"operation {line['operation']}: member {error} is missing")
    except (TypeError, AttributeError, ValueError) as error:
        reader.fail(f"operation {line['operation']}: {error}")
    return count


# ---- the frame of a checker ----


class Checker:
    """What a checker has. operations: a method for each operation that it judges. subject: the
    member that tells lines of one call apart."""

    subject = "value"

    def __init__(self):
        self.reader = None
        self.operations = {}

    def violate(self, rule, text, *positions):
        raise Violation(rule, text, [self.reader.name(p) for p in positions if p])

    def judge(self):
        """Raise Violation, or return the counts of what was judged."""
        raise NotImplementedError


def check(checker, paths, is_killed=False):
    """Read and judge. Returns the counts; raises Unreadable or Violation."""
    gc.disable()  # millions of small tuples, none of which is in a cycle
    if read_history(checker, paths, is_killed) == 0:
        names = ", ".join(sorted(checker.operations))
        raise Unreadable(f"no operation to judge: want one of {names}")
    return checker.judge()


def main(checker_class, example):
    """The command line of a checker."""
    name = os.path.basename(sys.argv[0])
    parser = argparse.ArgumentParser(
        prog=name,
        description=sys.modules["__main__"].__doc__,
        epilog=f"exit status: 0 sound, 8 violated, 2 unreadable\n\nexample:\n{example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--json", action="store_true", help="print the verdict as a JSON object")
    parser.add_argument(
        "--killed",
        action="store_true",
        help="clients were killed: pass over lines that were written in part",
    )
    parser.add_argument("files", nargs="+", metavar="FILE", help="a history: JSON lines")
    arguments = parser.parse_args()
    try:
        counts = check(checker_class(), arguments.files, arguments.killed)
    except Violation as violation:
        if arguments.json:
            verdict = {"verdict": "violated", "rule": violation.rule, "text": violation.text}
            print(json.dumps({**verdict, "lines": violation.lines}))
        else:
            where = f" ({', '.join(violation.lines)})" if violation.lines else ""
            print(f"{violation.rule}: {violation.text}{where}")
        return VIOLATED
    except Unreadable as error:
        if arguments.json:
            print(json.dumps({"verdict": "unreadable", "text": str(error)}))
        print(f"{name}: {error}", file=sys.stderr)
        return UNREADABLE
    if arguments.json:
        print(json.dumps({"verdict": "sound", "counts": counts}))
    else:
        print("sound: " + ", ".join(f"{count} {what}" for what, count in counts.items()))
    return SOUND
