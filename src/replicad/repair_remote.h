/* repair_remote.h - the node behind a tide_remote, as the other side of a repair (replica/repair.h).
 *
 * Threads: as remote.h. */
#ifndef TIDE_REPLICAD_REPAIR_REMOTE_H
#define TIDE_REPLICAD_REPAIR_REMOTE_H

#include "replica/repair.h"
#include "replicad/remote.h"

/* The remote must outlive it. */
tide_repair_peer tide_repair_of_remote(tide_remote *remote);

#endif
