"""Runs one cell in a process of its own and judges it."""

import json
import os
import shutil
import sys
import tempfile
import time
import traceback

from . import disk, grid, processes, table, waiting


def judge(g, row, observed):
    """All that holds for every cell, after the cell function has returned."""
    if observed != row.verdict:
        g.find(f"verdict: {observed}, and not: {row.verdict}")
    if row.effect != "none" and not g.has_noticed:
        g.find("error: the cell did not look whether the fault was noticed")
    if row.effect in ("holds", "loses"):
        if not g.watches:
            g.find("error: no daemon is watched, and alert rules are asked for")
        else:
            g.check_alerts()
    g.check_scrapes()
    if g.fault_at is None:
        g.find("error: the cell planted no fault")
    for checker in g.checkers:
        violation = g.history.judge(checker)
        if violation:
            g.find(f"data: {checker}: {violation}")


def run(row, directory, template):
    """(findings, seconds): what is wrong with a cell."""
    begin = time.monotonic()
    g = grid.Grid(directory, template)
    try:
        observed = row.run(g)
        judge(g, row, observed)
    except Exception as error:  # a defect of the cell, or a world that did not come up
        last = traceback.extract_tb(error.__traceback__)
        place = next((f"{os.path.basename(f.filename)}:{f.lineno}" for f in reversed(last)
                      if f"{os.sep}cells{os.sep}" in f.filename), "frame")
        g.find(f"error: {place}: {type(error).__name__}: {error}")
        if os.environ.get("TIDEMARK_GRID_KEEP"):
            traceback.print_exc()
    findings = list(g.findings)
    g.close()
    return findings, time.monotonic() - begin


def main(cell_id, template, result_path):
    """The body of a cell's process."""
    processes.become_reaper()
    disk.have_own_mounts()
    waiting.watch_disk()
    row = next(row for row in table.load() if row.id == cell_id)
    keeps = bool(os.environ.get("TIDEMARK_GRID_KEEP"))
    # Below the directory of the run, which is removed even if this process is killed.
    directory = tempfile.mkdtemp(prefix="tg-", dir=None if keeps else os.path.dirname(result_path))
    os.chmod(directory, 0o755)
    try:
        findings, seconds = run(row, directory, template)
    finally:
        if keeps:
            print(f"kept: {directory}", file=sys.stderr)
        else:
            shutil.rmtree(directory, ignore_errors=True)
    with open(result_path, "w", encoding="utf-8") as file:
        json.dump({"findings": findings, "seconds": seconds}, file)
