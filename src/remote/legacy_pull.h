/* legacy_pull.h - pull events by time from a peer that cannot report a version vector.
 *
 * Such a peer serves TableEvents and nothing else (an older version, or another implementation):
 * GetMarks is UNIMPLEMENTED. Its version vector is unknown, so nothing can be proven, and nothing
 * is pushed: the peer has to pull.
 *
 *     for each tracked table   events later than the latest one that this peer has returned, minus
 *                              TIDE_TABLE_EVENTS_OVERLAP_MS; all events at first. The request
 *                              carries our cursors, by which a newer peer leaves out known events
 *     all tables in parallel   in the order of their logs, so that numbers of a log arrive in order
 *     events                   are applied as others; a known event changes nothing
 *     missing predecessors     (prev_seq) show that a table was not read completely: it is read
 *                              again from the beginning, and what is still missing is reported
 *
 * A time is not a cursor. An event that such a peer received by relay, later than the overlap and
 * as the last of its origin and table, is found with the next event of that origin.
 *
 * Survives: pages are applied as of sync.h; the time is stored when all pages were applied.
 * Threads: as the node. */
#pragma once

#include "remote/replica_messages.h"
#include "remote/replica_peer.h"

#define TIDE_TABLE_EVENTS_OVERLAP_MS INT64_C(900000) /* 15 min: three times the drift bound */

/* The peer. A response belongs to the source until the next request. */
typedef struct tide_table_events_source {
    void *arg;
    const char *name;
    tide_status (*ask)(void *arg, const REPLICA(TableEventsRequest) * request,
                       const REPLICA(TableEventsResponse) * *out, tide_error *err);
} tide_table_events_source;

typedef struct tide_table_events_pulled {
    tide_applied applied;
    int64_t read; /* events that came */
    /* Skipped, because they lack what is needed to apply them; requested again by the next pull. */
    int64_t bodyless;
    bool is_full;     /* it was read from the beginning */
    bool has_missing; /* events name predecessors that did not come */
    /* Batches not applied, because events are missing: of tables that are not tracked here, for
     * example. */
    int64_t held;
} tide_table_events_pulled;

/* Pull all tracked tables. TIDE_E_DAMAGED, TIDE_E_INVALID: an impossible response. Else the
 * failures of the source. *out is filled in any case. */
TIDE_MUST_CHECK tide_status tide_table_events_pull(tide_node *node,
                                                   const tide_table_events_source *source,
                                                   tide_table_events_pulled *out, tide_error *err);

/* As tide_sync with a node behind a network; where that cannot state cursors, its events are pulled
 * by time (unless options say push only).
 * TIDE_E_UNSUPPORTED: so it was done, and nothing is proven; the text says how much came. */
TIDE_MUST_CHECK tide_status tide_remote_sync(tide_node *node, tide_peer *here, tide_remote *there,
                                             const tide_sync_options *options,
                                             tide_sync_result *out, tide_error *err);
