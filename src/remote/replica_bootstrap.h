/* replica_bootstrap.h - a node that is below its peer's floor fetches a snapshot, and goes on from there: tide_sync_options.bootstrap.
 *
 * The newest snapshot is read piece by piece into DB-bootstrap-<id>.part beside the database, each piece checked by its digest; where the peer has none it makes one, and
 * is asked until it is there. A transfer that breaks off is gone on with: what is there is checked chunk by chunk, what is not sound is cut off, and reading goes
 * on behind it. The whole file's digest must be the one that was listed; then it is restored (own events stay, and go out with the sync), and the
 * file is removed. The sync then pulls the tail.
 *
 * Survives: kill -9 at any point leaves the part, or the restored node (replica/snapshot.h). One process at a time fetches for a database.
 * Threads: as the remote: one at a time. */
#ifndef TIDE_REMOTE_REPLICA_BOOTSTRAP_H
#define TIDE_REMOTE_REPLICA_BOOTSTRAP_H

#include "remote/replica_peer.h"
#include "replica/snapshot.h"

typedef struct tide_bootstrap {
    tide_node *node;
    tide_remote *remote;
    const tide_snapshot_watch *watch; /* NULL: nobody looks on */
    int64_t wait_us;                  /* for the peer to make one; 0: 30 min */
    tide_snapshot_restored restored;  /* afterwards */
    int64_t resumed_at;               /* bytes that were there already */
    int64_t bytes;                    /* of the snapshot */
} tide_bootstrap;

/* TIDE_E_NOT_FOUND: the peer has none and makes none. TIDE_E_TIMEOUT, TIDE_E_BUSY: another process fetches. As tide_snapshot_restore, and
 * failures of the remote. */
TIDE_MUST_CHECK tide_status tide_bootstrap_run(tide_bootstrap *bootstrap, tide_error *err);

#endif
