/* changes.h - events of a node as rows: the history of a table, and what peers changed.
 *
 * History (tide_node_events) is the event log of one table under all names that it has had, in the
 * order in which events arrived here. What was collected is no longer in it.
 *
 * A watch (tide_node_changes) goes through the event log in the same order and gives the events of
 * other nodes that were merged. An event that waits (for the rest of its batch, for its time, in
 * quarantine) is passed over, and given when it is merged. A place to continue from later is the
 * position of the last change, or the one below the first that still waits: nothing is missed, and
 * what was merged out of order may be given twice. Rows that came in a snapshot have no events:
 * a watch reports where that happened, as it does for events that were collected unread.
 *
 * Threads: any; a watch belongs to one thread at a time. */
#pragma once

#include "replica/node.h"

typedef struct tide_change {
    int64_t position; /* in the order of arrival here, from 1 */
    tide_view id;
    tide_view table_name;
    tide_view operation_type; /* create, update, delete */
    tide_view record_id;
    tide_view data; /* JSON; empty: none */
    int64_t timestamp_ms;
    tide_node_id origin;
    int64_t epoch; /* 0: imported from another implementation */
    int64_t seq;
    bool is_processed; /* merged into the table */
} tide_change;

/* Views until fn returns. TIDE_NONE: enough. */
typedef tide_status tide_change_fn(void *arg, const tide_change *change, tide_error *err);

/* Events of a table behind a position, at most limit. TIDE_E_NOT_FOUND: it was never tracked. */
TIDE_MUST_CHECK tide_status tide_node_events(tide_node *node, const char *table, int64_t after,
                                             int64_t limit, tide_change_fn *fn, void *arg,
                                             tide_error *err);

/* Position of the newest event; 0: there is none. */
TIDE_MUST_CHECK tide_status tide_node_last_position(tide_node *node, int64_t *out, tide_error *err);

typedef struct tide_watch_log tide_watch_log; /* how far a log was given */

typedef struct tide_node_watch {
    int64_t through; /* events up to here were given, or are in waiting */
    int64_t begin;
    tide_buffer waiting; /* JSON array of positions that were passed over */
    tide_watch_log *logs;
    int log_count;
} tide_node_watch;

/* after: a position, 0 for all that is there. */
void tide_node_watch_init(tide_node_watch *watch, int64_t after);
void tide_node_watch_done(tide_node_watch *watch); /* fits TIDE_CLEANUP */

/* Changes of a log that no event tells of: a snapshot brought them, or they were collected unread. */
typedef struct tide_change_gap {
    tide_node_id origin;
    int64_t epoch;
    int64_t last_seq; /* everything up to here, of what was not given */
} tide_change_gap;
typedef tide_status tide_change_gap_fn(void *arg, const tide_change_gap *gap, tide_error *err);

/* What has come since the last call, one read of the file; gaps first. *resume: where a later watch
 * continues. TIDE_NONE: nothing. TIDE_E_LIMIT: too many events wait to be remembered. */
TIDE_MUST_CHECK tide_status tide_node_changes(tide_node *node, tide_node_watch *watch,
                                              int64_t *resume, tide_change_fn *fn,
                                              tide_change_gap_fn *gap_fn, void *arg,
                                              tide_error *err);
