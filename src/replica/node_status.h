/* node_status.h - what keeps a node from being like its peers: its clock, events that wait or were
 * not sent, tables that differ, orphans.
 *
 * Differences are found by comparing digests (replica run, replica verify) and remembered in the
 * file, by the peer's name, until a later comparison finds the tables equal.
 *
 * Threads: any. */
#pragma once

#include "replica/node.h"

typedef struct tide_node_status {
    int64_t clock_ahead_us; /* of the node's stamps before its wall clock; 0: they are not ahead */
    int64_t unsent;         /* events of this node that no peer has acknowledged */
    int64_t floor;          /* of this node's own log: events at or below it were collected */
    int64_t orphans;        /* rows without their parent, by references that hold nothing back */
} tide_node_status;

TIDE_MUST_CHECK tide_status tide_node_get_status(tide_node *node, tide_node_status *out,
                                                 tide_error *err);

typedef struct tide_waiting {
    tide_node_id origin;
    int64_t events;
    tide_view reason; /* of quarantine.h; "batch": for the rest of their transaction */
    int64_t until_us; /* when the last of them may be merged, of the reason "drift"; 0: not known */
} tide_waiting;

/* Events that are here and in no table, by origin and reason. Views until fn returns. */
typedef tide_status tide_waiting_fn(void *arg, const tide_waiting *waiting, tide_error *err);
TIDE_MUST_CHECK tide_status tide_node_list_waiting(tide_node *node, tide_waiting_fn *fn, void *arg,
                                                   tide_error *err);

/* Remember which tables differ from a peer's; a JSON array of names, empty: none. */
TIDE_MUST_CHECK tide_status tide_node_note_divergence(tide_node *node, const char *peer,
                                                      const char *tables, tide_error *err);

typedef tide_status tide_divergence_fn(void *arg, tide_view peer, tide_view table, tide_error *err);
TIDE_MUST_CHECK tide_status tide_node_list_divergence(tide_node *node, tide_divergence_fn *fn,
                                                      void *arg, tide_error *err);
