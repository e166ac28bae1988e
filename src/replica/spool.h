/* spool.h - batches that have not arrived whole: kept in the log, merged when their last event is here.
 *
 * A batch is a union of whole transactions of its origin. One that is larger than a page comes in several; one may come before another
 * that it builds upon. Its events are stored in the log as they come, unprocessed, and their numbers are settled: a transfer that breaks off goes on
 * behind them. When nothing up to its end is missing any more, all of it is merged in one transaction: what anybody reads of an origin is
 * a state that the origin has had.
 *
 *     tide_replica_spool    the batches that wait, by the number that they end with
 *
 * A merge of many pages takes the write lock for as long as it lasts; its memory is bounded: rows are settled every TIDE_SPOOL_STEP events.
 *
 * Survives: a crash at any point: the last page's transaction did all of it or nothing, and the page comes again.
 * Threads: as the transaction. */
#pragma once

#include "replica/log.h"

enum { TIDE_SPOOL_STEP = 10000 };

/* Is everything up to the end of the batch here? */
bool tide_spool_is_whole(const tide_log_origin *origin, int64_t cut);
/* Does a part of it wait? */
TIDE_MUST_CHECK tide_status tide_spool_has(bool *out, tide_foreign_tx *tx,
                                           const tide_log_origin *origin, int64_t cut,
                                           tide_error *err);
/* An event of it is in the log, and not merged. */
TIDE_MUST_CHECK tide_status tide_spool_put(tide_foreign_tx *tx, const tide_event *event,
                                           int64_t now_us, tide_error *err);
/* Merge every batch of this origin that waits and is whole. Adds to *applied. The caller's own desk is settled by then. */
TIDE_MUST_CHECK tide_status tide_spool_release(tide_node *node, tide_foreign_tx *tx,
                                               const tide_log_origin *origin, tide_applied *applied,
                                               tide_error *err);

/* The same for all origins: after a prefix was raised otherwise (a snapshot). */
TIDE_MUST_CHECK tide_status tide_spool_release_all(tide_node *node, tide_foreign_tx *tx,
                                                   tide_error *err);

/* How far an origin's epoch is merged without a gap: the end of the last batch below every one that waits; INT64_MAX: none waits. */
TIDE_MUST_CHECK tide_status tide_spool_bound(int64_t *out, tide_foreign_tx *tx,
                                             const tide_node_id *origin, int64_t epoch,
                                             tide_error *err);
