#!/usr/bin/env python3
"""A program per public header, built as a stranger would: from what is installed and pkg-config's flags alone, beside the
system's SQLite in one process, with the shared library and with the static one. Arguments: the compiler and its flags."""

import os
import pathlib
import sqlite3
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(os.environ["TIDEMARK_SOURCE_DIR"]) / "tests" / "public"
BUILD = os.environ["TIDEMARK_BUILD_DIR"]
COMPILER = sys.argv[1:] or ["cc"]


def run(*command, **more):
    done = subprocess.run(command, capture_output=True, text=True, check=False, **more)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def build(source, kind, prefix, places, out, *more):
    def flags(*wanted):
        return run("pkg-config", f"--define-variable=prefix={prefix}", *wanted, env=dict(os.environ, **places)).split()

    library = pathlib.Path(places["PKG_CONFIG_PATH"]).parent
    if kind == "shared":
        link = flags("--cflags", "--libs", "tidemark") + [f"-Wl,-rpath,{library}"]
    else:
        link = [str(library / "libtidemark.a") if flag == "-ltidemark" else flag for flag in flags("--static", "--cflags", "--libs", "tidemark")]
    run(*COMPILER, "-std=gnu17", "-Wall", "-Wextra", "-Werror", *more, source, *link, "-lsqlite3", "-o", out)


def check_symbols(library):
    """Only public functions are seen from outside."""
    for command in (("nm", "-g", "--defined-only", library / "libtidemark.a"), ("nm", "-D", "--defined-only", library / "libtidemark.so")):
        rows = [line.split() for line in run(*command).splitlines()]
        names = [row[2] for row in rows if len(row) == 3]
        others = [name for name in names if not name.startswith("tide_")]
        if others or not names:
            raise RuntimeError(f"{command[-1]} shows {len(names)} names, of which not ours: {others[:5]}")


# The only libraries that a program gets with ours; libpq and DuckDB are opened at run time.
NEEDED = {"libm", "libc", "libcrypto", "libxxhash", "libzstd", "liblz4", "ld-linux-x86-64", "ld-linux-aarch64"}
SIZE_MAX = 4000000


def check_weight(library, work):
    """It brings no network stack, and stripped it is below 4 MB. A sanitizer's build is heavier."""
    shared = library / "libtidemark.so"
    if any(word in run("nm", "-D", shared) for word in ("__asan_", "__tsan_", "__sanitizer_")):
        return
    rows = [line for line in run("readelf", "-d", shared).splitlines() if "(NEEDED)" in line]
    others = [row for row in rows if row.split("[")[1].split(".so")[0] not in NEEDED]
    stripped = pathlib.Path(work) / "stripped.so"
    run("strip", "-o", stripped, shared)
    size = stripped.stat().st_size
    if others or size >= SIZE_MAX:
        raise RuntimeError(f"{shared}: {size} bytes stripped, at most {SIZE_MAX - 1}; needs {others}")


def check_misuse(prefix, places, work):
    """Every public function, called by mistake: misuse.py."""
    source, place = pathlib.Path(work) / "misuse.c", pathlib.Path(work) / "misuse"
    place.mkdir()
    source.write_text(run(sys.executable, SOURCE / "misuse.py", SOURCE.parent.parent / "include" / "tidemark"))
    with sqlite3.connect(place / "app.db") as db:
        db.execute("CREATE TABLE notes (id INTEGER PRIMARY KEY, text)")
    build(source, "shared", prefix, places, place / "program", "-Wno-unused-function", "-Wno-unused-parameter")
    run(place / "program", place)


def headers_without_program(names):
    headers = {path.stem for path in (SOURCE.parent.parent / "include" / "tidemark").glob("*.h")}
    return sorted(headers - {"tidemark", "export"} - set(names))


def main():
    version = run("pkg-config", "--modversion", "sqlite3").strip()
    names = sorted(path.stem for path in SOURCE.glob("*.c") if path.stem != "public")
    missing = headers_without_program(names)
    if missing:
        print(f"Bail out! headers without a program in tests/public: {missing}")
        return 1
    failed = 0
    print(f"1..{2 * len(names) + 3}")
    with tempfile.TemporaryDirectory() as work:
        run("meson", "install", "-C", BUILD, "--no-rebuild", "--quiet", "--tags", "devel,runtime", "--destdir", f"{work}/installed")
        found = next(pathlib.Path(work).rglob("tidemark.pc"))
        prefix = str(found)[: str(found).index("/lib/")]
        places = {"PKG_CONFIG_PATH": str(found.parent)}
        checks = [("a mistake is answered with a status", lambda: check_misuse(prefix, places, work)),
                  ("only public functions are seen", lambda: check_symbols(found.parent.parent)),
                  ("few libraries, below 4 MB", lambda: check_weight(found.parent.parent, work))]
        for number, (title, check) in enumerate(checks, 1):
            try:
                check()
                print(f"ok {number} - {title}", flush=True)
            except RuntimeError as error:
                failed += 1
                print(f"not ok {number} - {title}\n# {error}", flush=True)
        for number, (name, kind) in enumerate(((n, k) for n in names for k in ("shared", "static")), 4):
            place = pathlib.Path(work) / f"{name}-{kind}"
            place.mkdir()
            try:
                build(SOURCE / f"{name}.c", kind, prefix, places, place / "program", SOURCE / "public.c")
                run(place / "program", place, version)
                print(f"ok {number} - {name}.h, {kind}", flush=True)
            except RuntimeError as error:
                failed += 1
                print(f"not ok {number} - {name}.h, {kind}")
                print("\n".join(f"# {line}" for line in str(error).splitlines()), flush=True)
    return 1 if failed else 0


sys.exit(main())
