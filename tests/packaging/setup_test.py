#!/usr/bin/env python3
"""What a person sees of the set-up: one line that names what is wrong, exit 2, nothing half-done.

Each case runs the scripts of a copy of the tree whose set `build` also names a package that is not
installed. Faults are real: no network (a network namespace), a small disk (tmpfs), another machine
(setarch), an old meson (a program of that name).
"""

import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

SOURCE = os.environ["TIDEMARK_SOURCE_DIR"]
ABSENT = "tidemark-test-absent-package"


class Tree:
    """A copy of what the set-up reads."""

    def __init__(self, root):
        self.root = root
        for name in ("scripts", "deps"):
            shutil.copytree(f"{SOURCE}/{name}", f"{root}/{name}")
        shutil.copy(f"{SOURCE}/Makefile", root)
        os.makedirs(f"{root}/build")
        os.chmod(root, 0o777)
        os.chmod(f"{root}/build", 0o777)

    def name_absent_package(self):
        with open(f"{self.root}/scripts/setup/build.txt", "a", encoding="utf-8") as text:
            text.write(f"{ABSENT}   for a test\n")

    def run(self, *command, before=(), **environment):
        began = time.monotonic()
        done = subprocess.run(
            [*before, *command], cwd=self.root, env={**os.environ, **environment}, text=True,
            capture_output=True, stdin=subprocess.DEVNULL, check=False,
        )
        return done.returncode, done.stderr.strip().splitlines(), time.monotonic() - began


def expect(condition, what):
    if not condition:
        raise AssertionError(what)


def as_a_user_one_apt_command_is_printed_and_nothing_is_installed(tree):
    tree.name_absent_package()
    code, lines, _ = tree.run(
        "scripts/setup/packages", "--install", "build", before=("setpriv", "--reuid=65534", "--clear-groups"))
    expect(code == 2, f"exit {code}")
    commands = [line for line in lines if "apt-get install" in line]
    expect(len(commands) == 1 and ABSENT in commands[0], lines)
    expect("sudo" not in "".join(lines), lines)


def without_a_network_the_mirror_is_named_in_one_line(tree):
    tree.name_absent_package()
    code, lines, _ = tree.run("scripts/setup/packages", "--install", "build", before=("unshare", "-n"))
    expect(code == 2 and len(lines) == 1, (code, lines))
    expect(lines[0].startswith("cannot reach the Debian mirror http") and "run the same command again" in lines[0], lines)


def without_a_network_the_registry_is_named_in_one_line(tree):
    code, lines, _ = tree.run(
        "scripts/setup/npm", "--deps", "build/deps", "build", before=("unshare", "-n"),
        npm_config_cache=f"{tree.root}/cache")
    expect(code == 2 and len(lines) == 1, (code, lines))
    expect(lines[0].startswith("cannot reach the npm registry: ") and "run the same command again" in lines[0], lines)
    expect(not os.path.exists(f"{tree.root}/build/deps/web"), "half a download is there")


def with_everything_present_no_network_is_touched(tree):
    code, lines, _ = tree.run("scripts/setup/packages", "--install", "build", before=("unshare", "-n"))
    expect(code == 0 and lines == [], (code, lines))


def another_machine_is_named(tree):
    code, lines, _ = tree.run("scripts/setup/setup", "build", before=("setarch", "i686"))
    expect(code == 2, code)
    expect(lines == ["this machine is Linux i686; Tidemark builds on Linux x86_64 and aarch64"], lines)


def an_old_meson_is_named_also_behind_its_warnings(tree):
    os.makedirs(f"{tree.root}/bin")
    with open(f"{tree.root}/bin/meson", "w", encoding="utf-8") as program:
        program.write("#!/bin/sh\necho 'WARNING: Running this is deprecated'\necho 0.56.2\n")
    os.chmod(f"{tree.root}/bin/meson", 0o755)
    code, lines, _ = tree.run("scripts/build/build", "program", PATH=f"{tree.root}/bin:{os.environ['PATH']}")
    expect(code == 2, code)
    expect(lines[-1].startswith("meson 0.56.2 is too old; 1.0.0 or later is needed"), lines)


def after_the_program_alone_everything_includes_the_tests(tree):
    shutil.copy(f"{SOURCE}/meson.build", tree.root)
    os.makedirs(f"{tree.root}/bin")
    for name, text in {
        "meson": 'case $1 in --version) echo 1.0.1 ;; *) echo "$@" >>"$TREE/asked"; touch "$TREE/build/build.ninja" ;; esac',
        "ninja": "exit 0",
    }.items():
        with open(f"{tree.root}/bin/{name}", "w", encoding="utf-8") as program:
            program.write(f"#!/bin/sh\n{text}\n")
        os.chmod(f"{tree.root}/bin/{name}", 0o755)
    for group, folder in (("build", "web"), ("duckdb", "duckdb")):  # what npm would have downloaded
        os.makedirs(f"{tree.root}/build/deps/{folder}")
        subprocess.run(
            f"cat deps/{group}-npm/package.json deps/{group}-npm/package-lock.json deps/sha256sums | "
            f"sha256sum >build/deps/{folder}/.recipe", shell=True, cwd=tree.root, check=True)
    asked = []
    for what in ("program", "everything", "program"):
        code, lines, _ = tree.run("scripts/build/build", what, "--sets", "build", TREE=tree.root,
                                  PATH=f"{tree.root}/bin:{os.environ['PATH']}")
        expect(code == 0, (what, code, lines))
        with open(f"{tree.root}/asked", encoding="utf-8") as text:
            asked.append(text.read().splitlines()[-1])
    expect("-Dtests=false" in asked[0], asked)
    expect("-Dtests=true" in asked[1] and "-Dbench=true" in asked[1], asked)
    expect("-Dtests=false" not in asked[2], "a directory with tests loses them")


def plain_ninja_builds_neither_tests_nor_benchmarks(_tree):
    done = subprocess.run(["ninja", "-C", os.environ["TIDEMARK_BUILD_DIR"], "-t", "query", "all"],
                          capture_output=True, text=True, check=True)
    inputs = done.stdout.partition("outputs:")[0].split()
    expect("tidemark" in inputs, inputs)
    expect(not [i for i in inputs if i.startswith(("tests", "bench")) or "prereq" in i], inputs)


def a_small_disk_is_named(tree):
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", f"{tree.root}/build"], check=True)
    try:
        code, lines, _ = tree.run("scripts/build/build", "program")
    finally:
        subprocess.run(["umount", "-l", f"{tree.root}/build"], check=True)
    expect(code == 2, code)
    expect(lines[-1].startswith("not enough space for the build: 700 MB are needed"), lines)


def a_set_that_does_not_exist_is_answered_with_those_that_do(tree):
    code, lines, _ = tree.run("scripts/setup/packages", "--print", "nonsense")
    expect(code == 2, code)
    there = sorted(name[:-4] for name in os.listdir(f"{tree.root}/scripts/setup") if name.endswith(".txt"))
    expect({"build", "check", "deb", "test"} <= set(there), there)
    expect(f"no set nonsense; there are: {' '.join(there)}" in lines[-1], lines)


STEP = r'''
. scripts/build/steps.sh
TIDEMARK_STEPS=4 step compile ninja sh -c 'for i in 1 2 3; do echo "[$i/3] Compiling"; sleep 0.5; done'
'''


def in_a_file_a_step_is_one_line(tree):
    code, lines, _ = tree.run("bash", "-c", STEP)
    expect(code == 0, code)
    expect(len(lines) == 1 and re.fullmatch(r"\[3/4\] compile    3/3  0:0[1-9]", lines[0]), lines)
    with open(f"{tree.root}/build/steps.jsonl", encoding="utf-8") as text:
        expect(re.fullmatch(r'\{"name":"compile","wall_s":[\d.]+,"cpu_s":[\d.]+\}\n', text.read()), "steps.jsonl")


def on_a_terminal_a_step_is_a_line_that_moves(tree):
    master, slave = pty.openpty()
    done = subprocess.Popen(["bash", "-c", STEP], cwd=tree.root, stderr=slave, stdin=subprocess.DEVNULL)
    os.close(slave)
    shown = b""
    while True:
        try:
            piece = os.read(master, 4096)
        except OSError:
            break
        if not piece:
            break
        shown += piece
    expect(done.wait() == 0, done.returncode)
    seen = [line for line in shown.decode().split("\r") if "[3/4] compile" in line]
    expect(any("1/3" in line for line in seen) and any("2/3" in line for line in seen), seen)


def an_interrupt_ends_the_script_even_if_its_child_ends_well(tree):
    """Ctrl-C reaches the whole foreground group, and bash continues after a child that exits 0."""
    script = """
        . scripts/build/steps.sh
        bash -c 'trap "exit 0" INT; touch build/begun; for i in $(seq 100); do sleep 0.1; done'
        echo continued
    """
    done = subprocess.Popen(["bash", "-c", script], cwd=tree.root, stdout=subprocess.PIPE, text=True,
                            start_new_session=True, stdin=subprocess.DEVNULL,
                            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
    end = time.monotonic() + 60
    while not os.path.exists(f"{tree.root}/build/begun") and time.monotonic() < end:
        time.sleep(0.05)
    os.killpg(done.pid, signal.SIGINT)
    said = done.communicate()[0]
    expect(done.returncode == -signal.SIGINT and said == "", (done.returncode, said))


def files_of_another_user_are_named_in_one_line(tree):
    """As after `sudo make run`: the directory is the user's, a file in it root's."""
    with open(f"{tree.root}/build/steps.jsonl", "w", encoding="utf-8"):
        pass
    os.chmod(f"{tree.root}/build/steps.jsonl", 0o644)
    code, lines, _ = tree.run(
        "scripts/build/build", "program", before=("setpriv", "--reuid=65534", "--clear-groups"))
    expect(code == 2 and len(lines) == 1, (code, lines))
    expect("cannot write build/steps.jsonl" in lines[0] and "root" in lines[0] and "chown" in lines[0], lines)


def a_package_list_is_printed_in_a_tree_that_cannot_be_written(tree):
    os.chmod(f"{tree.root}/build", 0o755)
    os.chmod(tree.root, 0o755)
    code, lines, _ = tree.run(
        "scripts/setup/packages", "--print", "build", before=("setpriv", "--reuid=65534", "--clear-groups"))
    expect(code == 0 and lines == [], (code, lines))


def a_package_list_has_names_and_costs(tree):
    tree.name_absent_package()
    done = subprocess.run(["scripts/setup/packages", "--print", "build", "test", "--json"], cwd=tree.root,
                          capture_output=True, text=True, check=True)
    expect(f'"missing":["{ABSENT}"]' in done.stdout and '"download_bytes":' in done.stdout, done.stdout)


CASES = [
    as_a_user_one_apt_command_is_printed_and_nothing_is_installed,
    without_a_network_the_mirror_is_named_in_one_line,
    without_a_network_the_registry_is_named_in_one_line,
    with_everything_present_no_network_is_touched,
    another_machine_is_named,
    an_old_meson_is_named_also_behind_its_warnings,
    after_the_program_alone_everything_includes_the_tests,
    plain_ninja_builds_neither_tests_nor_benchmarks,
    a_small_disk_is_named,
    a_set_that_does_not_exist_is_answered_with_those_that_do,
    in_a_file_a_step_is_one_line,
    on_a_terminal_a_step_is_a_line_that_moves,
    an_interrupt_ends_the_script_even_if_its_child_ends_well,
    files_of_another_user_are_named_in_one_line,
    a_package_list_is_printed_in_a_tree_that_cannot_be_written,
    a_package_list_has_names_and_costs,
]


def main():
    failed = 0
    for number, case in enumerate(CASES, 1):
        with tempfile.TemporaryDirectory() as root:
            try:
                case(Tree(root))
                print(f"ok {number} - {case.__name__}")
            except AssertionError as why:
                failed += 1
                print(f"not ok {number} - {case.__name__}\n# {why}")
        sys.stdout.flush()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
