/* portion.h - the records of a commit as the batches that they become.
 *
 * What fits into one batch is one; more is cut where a batch is full. The times and services of all records of a stream stand for those of
 * each of its batches: they say what may be there.
 *
 * Threads: pure. */
#pragma once

#include <tidemark/feed.h>

/* Stream by stream, in the order of the records; bytes, stream and services are borrowed from them. */
typedef struct tide_portions {
    tide_feed_records *list;
    int count;
} tide_portions;

/* Into zeroed portions. TIDE_E_INVALID: bytes that are not as many whole records as they say. */
TIDE_MUST_CHECK tide_status tide_portions_cut(tide_portions *p, const tide_feed_records *records,
                                              int count, tide_error *err);
void tide_portions_done(tide_portions *p);

/* Tell the records the numbers that their batches got. */
void tide_portions_number(const tide_portions *p, tide_feed_records *records, int count);
