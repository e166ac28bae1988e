/* work_check.h - what became of the work, held against what was promised.
 *
 * Reads every item, its attempts and the checkpoints that finishes left, and sees that
 *
 *     every acknowledged item is there
 *     every acknowledged finish stands: completed, by that token
 *     every completed item was finished by somebody who had said that he would, under that token
 *     every finish has one effect: one checkpoint and (of a root) one follow-up, by the same token; no item
 *     that is not completed has any
 *     attempts stay within 1 + max_retries, and who failed by exhaustion has used them all
 *     everything has ended
 *
 * Threads: none. */
#ifndef TIDEMARK_TESTS_CRASH_WORK_CHECK_H
#define TIDEMARK_TESTS_CRASH_WORK_CHECK_H

#include "crash/work_load.h"
#include "support/journal.h"

enum { WORK_CHECK_WHY = 320 };

typedef struct work_found work_found;

/* What stands in the store. */
TIDE_MUST_CHECK tide_status work_found_read(work_found **out, tide_store *store, tide_error *err);
void work_found_free(work_found *found);

/* False says why. */
bool work_found_keeps(const work_found *found, const ack_journal *journal,
                      char why[WORK_CHECK_WHY]);

size_t work_found_count(const work_found *found);
size_t work_found_completed(const work_found *found);

/* TIDE_E_CONFLICT: two live items of one type have the same unique key. */
TIDE_MUST_CHECK tide_status work_check_keys(tide_store *store, tide_error *err);

/* How many items have not ended? */
TIDE_MUST_CHECK tide_status work_count_live(tide_store *store, int64_t *count, tide_error *err);

#endif
