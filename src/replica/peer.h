/* peer.h - a node of this process, as others see it (sync.h): what it tells, what it takes, and who its peers are.
 *
 * Before it tells its marks it looks at its file: captured changes become events, lost capture is put back. Marks of others are kept as
 * acknowledgements, with a lease: a peer that was not seen for TIDE_PEER_LEASE_US no longer bounds what may be collected; when it comes
 * back it gets a snapshot.
 *
 * Tables of others are created as they say, if they say nothing else: one CREATE TABLE of that name, CREATE INDEX on it. It is done in one
 * transaction and compared with what SQLite then knows; anything else is TIDE_E_INVALID, and nothing has happened.
 *
 * Threads: as the node. */
#pragma once

#include "replica/sync.h"

#define TIDE_PEER_LEASE_US INT64_C(604800000000) /* 7 d */

/* The node must outlive it; name is borrowed. */
tide_peer tide_peer_of_node(tide_node *node, const char *name);

/* Captured changes become events, all that are there now. *found may be NULL: what the look at the triggers and schemas brought to light. */
TIDE_MUST_CHECK tide_status tide_peer_look(tide_node *node, tide_capture_found *found,
                                           tide_error *err);

/* The tracked tables and how they are created, into marks. */
TIDE_MUST_CHECK tide_status tide_peer_tables(tide_node *node, tide_peer_marks *out,
                                             tide_error *err);

/* Create and track a table that is not here. TIDE_NONE: there is one of that name, which stays as it is. */
TIDE_MUST_CHECK tide_status tide_peer_create(tide_node *node, const tide_peer_table *table,
                                             tide_error *err);

typedef struct tide_peer_seen {
    tide_node_id node;
    char name[256];
    int64_t seen_at_us;
    int64_t expires_at_us;
    char unlike
        [TIDE_SYNC_UNLIKE_MAX]; /* tables that were made otherwise there, as this node synced with it last; "": none */
} tide_peer_seen;
typedef tide_status tide_peer_seen_fn(void *arg, const tide_peer_seen *peer, tide_error *err);
typedef tide_status tide_peer_mark_fn(void *arg, const tide_node_id *peer,
                                      const tide_node_id *origin, int64_t epoch, int64_t mark,
                                      tide_error *err);
/* Each peer, followed by its marks. */
TIDE_MUST_CHECK tide_status tide_peer_list(tide_node *node, tide_peer_seen_fn *fn,
                                           tide_peer_mark_fn *mark_fn, void *arg, tide_error *err);

/* How far a table is, by log: tide_cursor of the numbers that are its. */
typedef tide_status tide_peer_cursor_fn(void *arg, const char *table, const tide_node_id *origin,
                                        int64_t epoch, const tide_cursor *cursor, tide_error *err);
TIDE_MUST_CHECK tide_status tide_peer_cursors(tide_node *node, tide_peer_cursor_fn *fn, void *arg,
                                              tide_error *err);
