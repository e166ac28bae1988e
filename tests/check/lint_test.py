"""The lints of the source tree accept it, and report a planted breach of each rule."""

import os
import subprocess
import sys

ROOT = os.environ["TIDEMARK_SOURCE_DIR"]
CASES = [("lint-includes", []), ("lint-includes", ["--self-test"]),
         ("lint-structure", []), ("lint-structure", ["--self-test"]),
         ("lint-words", []), ("lint-words", ["--self-test"])]


def main():
    failed = False
    print(f"1..{len(CASES)}")
    for number, (name, args) in enumerate(CASES, 1):
        script = os.path.join(ROOT, "scripts", "check", name)
        run = subprocess.run([sys.executable, script, *args], capture_output=True, text=True, check=False)
        is_ok = run.returncode == 0
        failed = failed or not is_ok
        print(f"{'ok' if is_ok else 'not ok'} {number} - {' '.join([name, *args])}")
        for line in (run.stdout + run.stderr).splitlines():
            print(f"# {line}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
