/* feed_load.h - records that tell who wrote them, and the check that they are where it was said.
 *
 * A writer's nth commit holds 1 to 40 logs; the service is the writer, the body "n i". An acknowledgement is the line
 * "ack CYCLE CHILD n first last". */
#ifndef TIDEMARK_TESTS_CRASH_FEED_LOAD_H
#define TIDEMARK_TESTS_CRASH_FEED_LOAD_H

#include <tidemark/feed.h>

#include "support/journal.h"

enum { FEED_LOAD_RECORDS_MAX = 40, FEED_LOAD_WHY_SIZE = 256 };

/* The writer's nth commit: how many records it has. */
int feed_load_count(int64_t cycle, int64_t child, int64_t n);

/* Make and commit it. */
tide_status feed_load_commit(tide_feed *feed, int64_t cycle, int64_t child, int64_t n,
                             int64_t *first, int64_t *last, tide_error *err);

/* Every acknowledged record is there under its number, numbers go from 1 to the head without a gap, and the chain verifies. False: *why says
 * what is wrong. Lines have the five numbers above. */
bool feed_load_check(tide_feed *feed, const ack_journal *journal, char why[FEED_LOAD_WHY_SIZE]);

#endif
