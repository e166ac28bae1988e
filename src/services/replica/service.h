/* service.h - tidemark.replica.v1 over a node.
 *
 * Who may read may look, read events and snapshots; who may write may push events and offer tables, and its marks are kept as acknowledgements.
 *
 * Threads: methods may run side by side. */
#pragma once

#include "net/call/call.h"
#include "replica/peer.h"
#include "services/replica/snapshot_service.h"

/* What the methods work on. */
typedef struct tide_replica_service {
    tide_node *node;
    tide_peer peer;                   /* of the node */
    tide_snapshot_service *snapshots; /* NULL: none are offered */
} tide_replica_service;

/* The argument is a tide_replica_service. */
extern const tide_method tide_replica_methods[];
