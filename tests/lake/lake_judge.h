/* lake_judge.h - a metabase judged from outside: its rows as a history (lake_history.py), and
 * tests/check/catalog.py over it.
 *
 * Writers of the test append their commits to <directory>/history.jsonl themselves. Each
 * observation adds the state of every snapshot, so that two of them show whether history has
 * changed. */
#pragma once

#include "support/tempdir.h"

/* Add the present state of every snapshot. A server that is away is no failure: *is_seen is false. */
void lake_observe(const tempdir *dir, const char *url, bool *is_seen);

/* Add the last state, all commits, and the logs of a stress run where there is a directory of them
 * (NULL: none), and judge everything. A violation fails the case. */
void lake_judge(const tempdir *dir, const char *url, const char *stress_dir);
