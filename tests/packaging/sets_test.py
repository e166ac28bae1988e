#!/usr/bin/env python3
"""scripts/setup/build.txt against what a build uses.

Used is a package that owns a pkg-config file which meson asked for, a library or program that it
found, a header directory or shared library behind these, or a command that the build's scripts call.
The set must name nothing else, and everything in it must follow from the packages it names.
"""

import json
import os
import re
import subprocess
import sys

SOURCE = os.environ["TIDEMARK_SOURCE_DIR"]
BUILD = os.environ["TIDEMARK_BUILD_DIR"]
# Installed with every Debian, or by every package manager that could install the others.
ESSENTIAL_PRIORITIES = {"required", "important"}


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def owners(paths):
    """The packages that own these files, followed through links."""
    found = set()
    for path in paths:
        for candidate in {path, os.path.realpath(path), path.replace("/usr/lib/", "/lib/")}:
            result = subprocess.run(["dpkg-query", "-S", candidate], capture_output=True, text=True, check=False)
            found |= {line.split(":")[0] for line in result.stdout.splitlines() if not line.startswith("diversion")}
    return found


def named_packages():
    """Every package of the set, whether or not its command is there already."""
    with open(f"{SOURCE}/scripts/setup/build.txt", encoding="utf-8") as lines:
        entries = [line.split()[0] for line in lines if line.strip() and not line.startswith("#")]
    return {re.split(r"[?|]", entry)[0] for entry in entries}


def meson_log():
    with open(f"{BUILD}/meson-logs/meson-log.txt", encoding="utf-8", errors="replace") as text:
        return text.read()


def files_of_the_build():
    """Files by which the configured build found what it uses, without those that only tests use."""
    log = meson_log()
    files = set()
    tests_only = {"cmocka", "jansson", "node", "python3-grpcio", "sqlite3"}
    for dependency in json.loads(run("meson", "introspect", "--dependencies", BUILD)):
        name = dependency["name"]
        if name in tests_only:
            continue
        directory = subprocess.run(
            ["pkg-config", "--variable=pcfiledir", name], capture_output=True, text=True, check=False
        ).stdout.strip()
        if directory:
            files.add(f"{directory}/{name}.pc")
    for name, path in re.findall(r"Program (\S+) found: YES \(([^)\s]+)", log):
        if os.path.basename(name) not in tests_only and not path.startswith(SOURCE):
            files.add(path)
    for name in re.findall(r"Library (\S+) found: YES", log):
        found = run("cc", f"-print-file-name=lib{name}.so").strip()
        if found.startswith("/"):
            files.add(os.path.normpath(found))
    files.add(run("sh", "-c", "command -v pkg-config").strip())
    files.add(run("sh", "-c", "command -v meson").strip())
    files.add(run("sh", "-c", "command -v cc").strip())
    files.add("/usr/include/stdio.h")
    return files


def commands_of_the_scripts():
    """Commands of packages that the scripts of the build call by name."""
    text = ""
    for folder in ("scripts/setup", "scripts/build"):
        for name in os.listdir(f"{SOURCE}/{folder}"):
            with open(f"{SOURCE}/{folder}/{name}", encoding="utf-8") as script:
                text += script.read() if not name.endswith(".txt") else ""
    return text


def needed_libraries():
    """Packages of the shared libraries that the built files need."""
    files = set()
    for name in ("tidemark", "libtidemark.so", "tidemark_sqlite.so"):
        path = os.path.realpath(f"{BUILD}/{name}")
        if not os.path.exists(path):
            continue
        resolved = dict(re.findall(r"(\S+) => (\S+)", run("ldd", path)))
        for library in re.findall(r"NEEDED.*\[(.+)\]", run("readelf", "-d", path)):
            if library in resolved and not resolved[library].startswith(SOURCE):
                files.add(resolved[library])
    return owners(files)


def closure(packages):
    """The packages and what they depend on."""
    listing = run(
        "apt-cache", "depends", "--recurse", "--important", "--no-recommends", "--no-suggests", "--no-conflicts",
        "--no-breaks", "--no-replaces", "--no-enhances", *sorted(packages),
    )
    return {line.split(":")[0].strip() for line in listing.splitlines() if line and not line.startswith((" ", "<"))}


def essential():
    rows = run("dpkg-query", "-W", "-f", "${Package} ${Priority} ${Essential}\n").splitlines()
    return {row.split()[0] for row in rows if row.split()[1] in ESSENTIAL_PRIORITIES or row.endswith("yes")}


def direct_dependencies(package):
    text = run("dpkg-query", "-W", "-f", "${Depends}, ${Pre-Depends}", package)
    return set(re.findall(r"[a-z0-9][a-z0-9+.-]+", text))


def unused(named, used):
    """Names of the set that own nothing used, neither themselves nor by what they directly bring."""
    calls = commands_of_the_scripts()
    by_command = {
        "npm": "npm ci", "nodejs": "npm ci", "make": "make", "ca-certificates": "npm ci",
    }
    result = set()
    for package in named:
        # Debian 13 renamed libraries for 64-bit times; libcurl4t64 provides libcurl4.
        if {package, f"{package}t64"} & used or (package in by_command and by_command[package] in calls):
            continue
        installed = subprocess.run(["dpkg-query", "-W", package], capture_output=True, check=False).returncode == 0
        if installed and direct_dependencies(package) & used and package in {"gcc", "libc6-dev"}:
            continue
        result.add(package)
    return result


# What the packages' control file calls differently: it is provided by this one, or comes with it.
PROVIDERS = {"debhelper-compat": "debhelper", "dh-sequence-installsysusers": "debhelper",
             "pkg-config": "pkgconf", "python3": "meson"}


def build_depends():
    """The packages without which dpkg-buildpackage refuses to start."""
    with open(f"{SOURCE}/packaging/debian/control", encoding="utf-8") as control:
        field = re.search(r"^Build-Depends:\n((?: .*\n)+)", control.read(), re.M)[1]
    names = re.findall(r"^ ([a-z0-9][a-z0-9+.-]*)", field, re.M)
    return {PROVIDERS.get(name, name) for name in names} | {"build-essential"}  # never written down


def main():
    cases = []

    def case(name, problems):
        cases.append(not problems)
        print(f"{'ok' if not problems else 'not ok'} {len(cases)} - {name}")
        for problem in sorted(problems):
            print(f"# {problem}")

    named = named_packages()
    used = owners(files_of_the_build())
    case("every package of the set build is used by a build", unused(named, used | needed_libraries()))
    brought = closure(named) | essential()
    case("every program, library and header that a build finds is in a package of the set", used - brought)
    case("every shared library of what is built is in a package that the set brings", needed_libraries() - brought)
    brought_by_sets = set(run(f"{SOURCE}/scripts/setup/packages", "--print", "build", "deb").split())
    case("the sets build and deb bring what a build of the packages demands", build_depends() - brought_by_sets)
    # The same rules notice a package too many and one too few.
    case("a package that nothing uses is noticed", set() if "cowsay" in unused(named | {"cowsay"}, used) else {"cowsay passed"})
    without = closure(named - {"libzstd-dev"}) | essential()
    case("a missing package is noticed", set() if "libzstd-dev" in used - without else {"libzstd-dev is not missed"})
    return 0 if all(cases) else 1


if __name__ == "__main__":
    sys.exit(main())
