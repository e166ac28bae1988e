/* legacy_pull.h - events of a peer that cannot state cursors: asked for by time, with overlap, settled by their identity.
 *
 * Such a peer serves TableEvents and nothing else (an older version, another implementation of the same document): GetMarks is UNIMPLEMENTED. Nobody
 * knows how far it is, so nothing can be proven, and nothing is pushed: it has to pull from us.
 *
 *     for each tracked table    what is later than the latest event that this peer has shown, minus TIDE_TABLE_EVENTS_OVERLAP_MS; everything, the
 *                               first time. What the table's cursors say goes along: a peer that understands them leaves out what is here
 *     all tables side by side   in the order of their logs, so that a log's numbers come as they were given
 *     events                    are applied as any others; what is known settles by its position, so overlap changes nothing
 *     a table whose events      name predecessors that are not here (prev_seq) was not read completely: it is read once more from
 *                               the beginning, and what is still missing then is told
 *
 * A time is not a cursor: what reaches such a peer by relay, later than the overlap and as the last of its origin and table, is seen when the next event
 * of that origin comes. That is what cursors are for.
 *
 * Survives: pages are applied as of sync.h; the time is kept when all pages were.
 * Threads: as the node. */
#ifndef TIDE_REMOTE_LEGACY_PULL_H
#define TIDE_REMOTE_LEGACY_PULL_H

#include "remote/replica_messages.h"
#include "remote/replica_peer.h"

#define TIDE_TABLE_EVENTS_OVERLAP_MS INT64_C(900000) /* 15 min: three times the drift bound */

/* Whom to ask. The answer belongs to the source, until the next question. */
typedef struct tide_table_events_source {
    void *arg;
    const char *name;
    tide_status (*ask)(void *arg, const REPLICA(TableEventsRequest) * request,
                       const REPLICA(TableEventsResponse) * *out, tide_error *err);
} tide_table_events_source;

typedef struct tide_table_events_pulled {
    tide_applied applied;
    int64_t read; /* events that came */
    int64_t
        bodyless; /* that came without what is needed to apply them, and were left; asked for again the next time */
    bool is_full;     /* it was read from the beginning */
    bool has_missing; /* events name predecessors that did not come */
    int64_t
        held; /* batches that wait for events which did not come, of tables that are not tracked here, say: not applied */
} tide_table_events_pulled;

/* Pull all tracked tables. TIDE_E_DAMAGED, TIDE_E_INVALID: what came cannot be; failures of the source. *out tells what was done in any case. */
TIDE_MUST_CHECK tide_status tide_table_events_pull(tide_node *node,
                                                   const tide_table_events_source *source,
                                                   tide_table_events_pulled *out, tide_error *err);

/* As tide_sync with a node behind a network; where that cannot state cursors, its events are pulled by time (unless options say push only).
 * TIDE_E_UNSUPPORTED: so it was done, and nothing is proven; the text says how much came. */
TIDE_MUST_CHECK tide_status tide_remote_sync(tide_node *node, tide_peer *here, tide_remote *there,
                                             const tide_sync_options *options,
                                             tide_sync_result *out, tide_error *err);

#endif
