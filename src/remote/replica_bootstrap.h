/* replica_bootstrap.h - a node below the floor of its peer restores a snapshot of that peer:
 * tide_sync_options.bootstrap.
 *
 * The newest snapshot is read in pieces into DB-bootstrap-<id>.part beside the database, each
 * checked by its digest. A peer without a snapshot makes one, and is polled until it exists. A
 * broken transfer continues: what the file contains is checked chunk by chunk, cut behind the last
 * sound one, and read on from there. The digest of the whole file must be the listed one. Then it
 * is restored (own events stay, and are sent by the sync), and the file is deleted. The sync pulls
 * the events behind it.
 *
 * Survives: kill -9 at any point leaves the part, or the restored node (replica/snapshot.h). One
 * process at a time fetches for a database.
 * Threads: as the remote: one at a time. */
#pragma once

#include "remote/replica_peer.h"
#include "replica/snapshot.h"

typedef struct tide_bootstrap {
    tide_node *node;
    tide_remote *remote;
    const tide_snapshot_watch *watch; /* NULL: none */
    int64_t wait_us;                  /* for the peer to make one; 0: 30 min */
    tide_snapshot_restored restored;  /* afterwards */
    int64_t resumed_at;               /* bytes that were there already */
    int64_t bytes;                    /* of the snapshot */
} tide_bootstrap;

/* TIDE_E_NOT_FOUND: the peer has none and makes none. TIDE_E_TIMEOUT, TIDE_E_BUSY: another process
 * fetches. As tide_snapshot_restore, and failures of the remote. */
TIDE_MUST_CHECK tide_status tide_bootstrap_run(tide_bootstrap *bootstrap, tide_error *err);
