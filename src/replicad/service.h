/* service.h - tidemark.replica.v1 over a node.
 *
 * Who may read may look and read events; who may write may push events and offer tables, and its marks are kept as acknowledgements.
 *
 * Threads: methods may run side by side. */
#ifndef TIDE_REPLICAD_SERVICE_H
#define TIDE_REPLICAD_SERVICE_H

#include "net/call.h"
#include "replica/peer.h"

/* What the methods work on. */
typedef struct tide_replica_service {
    tide_node *node;
    tide_peer peer; /* of the node */
} tide_replica_service;

/* The argument is a tide_replica_service. */
extern const tide_method tide_replica_methods[];

#endif
