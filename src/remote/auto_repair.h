/* auto_repair.h - after a sync with a peer whose log and ours have different events under the same numbers (replica/self.h): the tables are compared and
 * repaired, once. What was repaired becomes events of this node, and so reaches those who have one of the two logs and will never ask for the other.
 *
 * Survives: a crash at any point; it is done again by the next sync.
 * Threads: as remote.h. */
#ifndef TIDE_REMOTE_AUTO_REPAIR_H
#define TIDE_REMOTE_AUTO_REPAIR_H

#include "remote/replica_peer.h"

TIDE_MUST_CHECK tide_status tide_remote_mend(tide_node *node, tide_remote *there,
                                             const tide_sync_options *options, tide_error *err);

#endif
