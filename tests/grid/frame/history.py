"""Histories of a cell: what its clients did and were answered, for the checkers of tests/check.

README.md there has the format, history.py there the writer. Here: what a command's end or a
service's answer means for a history, and the call of a checker."""

import importlib.util
import os
import subprocess
import sys

CHECK_DIR = os.environ.get("TIDEMARK_CHECK_DIR") or os.path.abspath(
    os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "check"))

_spec = importlib.util.spec_from_file_location("check_history",
                                               os.path.join(CHECK_DIR, "history.py"))
writer = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(writer)

_UNKNOWN = ("E_OUTCOME_UNKNOWN", "E_TIMEOUT", "")


def result_of(ended):
    """ok, fail or unknown, of a service's answer (service.Answer) or a command's end."""
    if hasattr(ended, "status"):
        if ended.is_ok:
            return "ok"
        return "unknown" if ended.status == 0 or ended.code in _UNKNOWN else "fail"
    if ended.code == 0:
        return "ok"
    return "unknown" if ended.code == 7 or ended.code < 0 else "fail"


class History(writer.History):
    """The history of one cell."""

    def __init__(self, path):
        super().__init__(path)
        self.path = path

    def note(self, call, ended, **members):
        """End a call by what it was answered; members belong to an acknowledged one."""
        result = result_of(ended)
        call.end(result, **(members if result == "ok" else {}))
        return ended

    def judge(self, checker):
        """None when the checker finds the history sound, else its first violation."""
        program = os.path.join(CHECK_DIR, checker + ".py")
        ended = subprocess.run([sys.executable, program, self.path], capture_output=True, text=True,
                               check=False)
        if ended.returncode == writer.SOUND:
            return None
        if ended.returncode == writer.VIOLATED:
            return " ".join(ended.stdout.split())[:400] or "a violation"
        raise RuntimeError(
            f"{program} ended with {ended.returncode}: {ended.stderr.strip()[-300:]}")
