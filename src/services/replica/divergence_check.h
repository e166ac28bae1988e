/* divergence_check.h - do two nodes with the same logs show the same tables? What a daemon asks itself now and then; `replica verify --repair` puts it right.
 *
 * Threads: as the node and the remote. */
#pragma once

#include "remote/replica_peer.h"

/* Compare the digests of all tables that both have, if nothing moves meanwhile. TIDE_OK: *differing of them differ. TIDE_NONE: the logs are not equal,
 * or something moved: it cannot be told. */
TIDE_MUST_CHECK tide_status tide_replica_compare(tide_node *node, tide_peer *here,
                                                 tide_remote *there, int *differing,
                                                 tide_error *err);
