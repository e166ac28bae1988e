/* walk.h - batches of a stream in the order of their numbers, heads first. */
#pragma once

#include "feed/batch.h"
#include "feed/parts.h"

/* Heads of batches that end above after; step, then read. A query that fails with TIDE_E_DAMAGED met a page of the file that
 * cannot be read. */
TIDE_MUST_CHECK tide_status tide_feed_walk_begin(tide_query **out, tide_tx *tx, int64_t stream_id,
                                                 int64_t after, tide_error *err);
/* The current row. services are borrowed until the next step. */
void tide_feed_walk_read(tide_query *query, tide_batch_head *out);

/* d(seq) of a number inside a batch, whose records are raw and have been checked. */
tide_digest128 tide_feed_walk_digest(const tide_stream_type *type, const tide_batch_head *head,
                                     tide_view raw, int64_t seq);

/* Insert a batch as it is; its head is sealed. */
TIDE_MUST_CHECK tide_status tide_feed_walk_add(tide_tx *tx, const tide_batch_head *head,
                                               tide_view body, tide_error *err);

/* The stream's epoch begins with this number. */
TIDE_MUST_CHECK tide_status tide_feed_epoch_add(tide_tx *tx, const tide_stream_state *state,
                                                int64_t first_seq, tide_error *err);

/* The stream's counter stands at last_seq at least, which was given at this time. */
TIDE_MUST_CHECK tide_status tide_feed_sequence_raise(tide_tx *tx, const tide_stream_state *state,
                                                     int64_t last_seq, int64_t at_us,
                                                     tide_error *err);
