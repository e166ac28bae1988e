/* feed_load.h - records that name their writer, and the history of what was acknowledged.
 *
 * A writer's nth commit holds 1 to 40 logs; the service is the writer, the body "n i". Each record
 * is a take of a history (tests/check/sequences.py), named "writer n i"; what a feed shows in the
 * end are its rows. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <tidemark/error.h>
#include <tidemark/feed.h>

enum { FEED_LOAD_RECORDS_MAX = 40 };

/* Where takes and rows are written. */
typedef struct feed_load_history {
    int fd;
    const char *sequence; /* one feed, one name */
    bool is_announced;    /* the writer may be killed: its calls are written before they are made */
} feed_load_history;

/* Make and commit the nth batch of a writer. */
TIDE_MUST_CHECK tide_status feed_load_commit(tide_feed *feed, const feed_load_history *history,
                                             int64_t cycle, int64_t child, int64_t n,
                                             int64_t *first, tide_error *err);

/* Write every record of the feed as a row, and see that its chain verifies. TIDE_E_DAMAGED: a
 * hole, or a finding. */
TIDE_MUST_CHECK tide_status feed_load_write(tide_feed *feed, const feed_load_history *history,
                                            tide_error *err);
