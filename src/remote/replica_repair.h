/* replica_repair.h - the node behind a tide_remote, as the other side of a repair
 * (replica/repair.h).
 *
 * Threads: as replica_peer.h. */
#pragma once

#include "remote/replica_peer.h"
#include "replica/repair.h"

/* The remote must outlive it. */
tide_repair_peer tide_repair_of_remote(tide_remote *remote);

/* After a sync with a peer whose log and ours have different events under the same numbers
 * (replica/self.h): the tables are compared and repaired, once. What was repaired becomes events of
 * this node, and so reaches the nodes that have one of the two logs and will never request the
 * other. A crash at any point is harmless; the next sync does it again. */
TIDE_MUST_CHECK tide_status tide_remote_mend(tide_node *node, tide_remote *there,
                                             const tide_sync_options *options, tide_error *err);
