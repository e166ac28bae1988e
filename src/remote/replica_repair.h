/* replica_repair.h - the node behind a tide_remote, as the other side of a repair (replica/repair.h).
 *
 * Threads: as remote.h. */
#ifndef TIDE_REMOTE_REPLICA_REPAIR_H
#define TIDE_REMOTE_REPLICA_REPAIR_H

#include "remote/replica_peer.h"
#include "replica/repair.h"

/* The remote must outlive it. */
tide_repair_peer tide_repair_of_remote(tide_remote *remote);

#endif
