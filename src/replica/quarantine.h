/* quarantine.h - events that are here and cannot be merged yet, and why: visible, never in the way of others.
 *
 *     table     of a table that is not tracked here
 *     column    of columns, or of a schema, that this node does not know
 *     key       whose key does not fit the table's
 *     drift     stamped further ahead of this node's clock than TIDE_STAMP_DRIFT_US
 *     size      of this node, without a value that an event cannot carry (TIDE_EVENT_BYTES_MAX): the value stays here alone,
 *               until it is replaced by one that fits or the row goes
 *     null      of this node, of a row whose key is NULL: it stays here alone, until it gets a key or goes
 *
 * They stay in the log (peers get them from us), their numbers are settled, and they are merged as soon as they can be: merging does not depend
 * on order. Each turn of fold tries some that may have become possible.
 *
 * Threads: as the transaction. */
#pragma once

#include "replica/desk.h"

typedef enum tide_hold {
    TIDE_HOLD_NOT,
    TIDE_HOLD_TABLE,
    TIDE_HOLD_COLUMN,
    TIDE_HOLD_KEY,
    TIDE_HOLD_DRIFT,
    TIDE_HOLD_SIZE,
    TIDE_HOLD_NULL,
} tide_hold;

/* Merge an event that is in the log, or say why it has to wait. */
TIDE_MUST_CHECK tide_status tide_quarantine_merge(tide_hold *why, tide_desk *desk,
                                                  const tide_event *event, tide_error *err);
/* An event in terms of this node's columns, without the key's; or why it cannot be. Columns are memory of *out, values of the event or the desk. */
TIDE_MUST_CHECK tide_status tide_quarantine_translate(tide_hold *why, tide_event *out,
                                                      tide_desk *desk, const tide_table *table,
                                                      const tide_event *event, tide_error *err);
TIDE_MUST_CHECK tide_status tide_quarantine_put(tide_desk *desk, const tide_event *event,
                                                tide_hold why, tide_error *err);
/* An own event, in the log, that goes without its largest value. */
TIDE_MUST_CHECK tide_status tide_quarantine_put_size(const tide_desk *desk, const tide_event *event,
                                                     const char *column, size_t len,
                                                     tide_error *err);
/* An own event, in the log, replaces what columns (or the row, column NULL) were held for. */
TIDE_MUST_CHECK tide_status tide_quarantine_end_size(const tide_desk *desk, const tide_event *event,
                                                     const char *column, tide_error *err);
/* One of the rows of this table without a key is gone, or has got one. */
TIDE_MUST_CHECK tide_status tide_quarantine_end_null(const tide_desk *desk, const tide_event *event,
                                                     tide_error *err);
/* Try up to limit of those that may have become possible: the clock has come nearer, or the tables and schemas that are known here are others than when
 * they were tried last (schemas.h). *merged: how many wait no more; *more: there may be further ones. */
TIDE_MUST_CHECK tide_status tide_quarantine_retry(int64_t *merged, bool *more, tide_desk *desk,
                                                  int64_t limit, tide_error *err);
