/* daemon.h - `tidemark replica serve` and `run`: a node behind a front, and the syncs that keep it up to date.
 *
 * One thread looks after the peers: when something was committed to the file, by anybody, and every every_us in any case, it syncs with each (anti-entropy
 * goes on for ever, not only at the start, R17). Now and then it collects what nobody needs any more, and makes snapshots
 * (snapshot_service.h); a peer below whose floor this node has come is asked for one (bootstrap.h). /readyz is 200 once every
 * peer was synced with to a proven cut; without peers at once.
 *
 * Survives: everything is in the file. Threads: as front.h. */
#ifndef TIDE_REPLICAD_DAEMON_H
#define TIDE_REPLICAD_DAEMON_H

#include "daemon/front.h"
#include "replica/node.h"
#include "replicad/remote.h"

enum { TIDE_REPLICA_PEERS_MAX = 64 };

typedef struct tide_replica_options {
    tide_front_options front; /* port_count 0: nobody is served */
    tide_node *node;          /* must outlive it */
    tide_remote_options remotes[TIDE_REPLICA_PEERS_MAX];
    int remote_count;
    int64_t every_us;          /* between syncs when nothing changes */
    int64_t collect_us;        /* between collections */
    int64_t snapshot_every_us; /* between snapshots; 0: only when one is needed */
    const char *snapshot_dir;  /* NULL: DB-snapshots */
} tide_replica_options;

/* Runs until SIGTERM. */
TIDE_MUST_CHECK tide_status tide_replica_run(const tide_replica_options *options, tide_error *err);

#endif
