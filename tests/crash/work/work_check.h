/* work_check.h - what became of the work: items, their attempts and the effects that finishes
 * left.
 *
 * Written to a history for tests/check/leases.py, which holds it against what adders and workers
 * were answered:
 *
 *     every acknowledged item is there, every acknowledged finish stands, by its token
 *     every completed item was finished by a process that had written so, under that token
 *     every finish has one effect: one checkpoint and (of a root) one follow-up, by the same token
 *     attempts stay within 1 + max_retries, and what failed by exhaustion has used them all
 *     everything has ended
 *
 * Threads: none. */
#pragma once

#include "crash/work/work_load.h"

/* Write every item and every effect of the store to a history. */
TIDE_MUST_CHECK tide_status work_check_write(tide_store *store, int history, tide_error *err);

/* TIDE_E_CONFLICT: two live items of one type have the same unique key. */
TIDE_MUST_CHECK tide_status work_check_keys(tide_store *store, tide_error *err);

/* How many items have not ended? */
TIDE_MUST_CHECK tide_status work_count_live(tide_store *store, int64_t *count, tide_error *err);
