#!/usr/bin/env python3
"""The part of the fault grid that `make test` runs, as TAP: the lint and the quick cells."""

import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def run(name, *words):
    ended = subprocess.run([sys.executable, os.path.join(HERE, words[0]), *words[1:]], check=False,
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    print(f"{'ok' if ended.returncode == 0 else 'not ok'} - {name}")
    for line in ended.stdout.splitlines():
        print(f"# {line}")
    return ended.returncode == 0


def main():
    passed = run("the table of the grid is complete", "lint")
    passed = run("the lint finds every planted fault", "lint", "--self-test") and passed
    cells = subprocess.run([sys.executable, os.path.join(HERE, "run"), "--quick", "--tap"],
                           check=False)
    return 0 if passed and cells.returncode == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
