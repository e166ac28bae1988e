/* daemon.h - `tidemark replica serve` and `run`, and databases of `tidemark up`: a node behind a listener, and the syncs that keep it up to date.
 *
 * A listener may have several, each below a path of its own: /replica/NAME/tidemark.replica.v1.ReplicaService/GetMarks.
 *
 * Its steps (runtime/ticker.h) have a thread for each node. One syncs with each peer after every commit to the file, and every every_us in any
 * case: anti-entropy does not end with the start. Others collect events that every peer has, compare tables with peers, and make
 * snapshots (snapshot_service.h); a peer below whose floor this node has come is asked for one (remote/replica_bootstrap.h). /readyz is 200 once every
 * peer was synced with to a proven cut; without peers at once.
 *
 * Survives: everything is in the file. Threads: as listener.h. */
#pragma once

#include "remote/replica_peer.h"
#include "replica/node.h"
#include "runtime/listener.h"
#include "services/replica/snapshot_service.h"

enum { TIDE_REPLICA_PEERS_MAX = 64 };

/* Steps of the component, and of the daemon. */
extern const tide_step tide_step_replica_sync;
extern const tide_step tide_step_replica_collect;
extern const tide_step tide_step_replica_compare;
#define TIDE_REPLICA_STEPS                                                                         \
    &tide_step_replica_sync, &tide_step_replica_collect, &tide_step_replica_compare,               \
        &tide_step_replica_snapshot
extern const tide_step *const tidemark_replica_steps[];

typedef struct tide_replicad_options {
    tide_listener_options listener; /* port_count 0: nobody is served */
    tide_node *node;                /* must outlive it */
    tide_remote_options remotes[TIDE_REPLICA_PEERS_MAX];
    int remote_count;
    int64_t every_us;          /* between syncs when nothing changes */
    int64_t collect_us;        /* between collections */
    int64_t snapshot_every_us; /* between snapshots; 0: only when one is needed */
    const char *snapshot_dir;  /* NULL: DB-snapshots */
    const char *
        instance; /* in the names of its steps, where there are several nodes; NULL: the only one */
    const char *under; /* where its service is: "/replica/NAME"; NULL: at the root */
    bool is_at_root;   /* as well, where it is below a path */
    bool is_uncounted; /* no metrics: another node of the listener has them */
    bool
        is_kept; /* looked after without peers, too: collected, watched for news; a peer that is away does not make the listener unwell */
} tide_replicad_options;

typedef struct tide_replicad tide_replicad;

/* Add a node to a listener that is not serving yet. The options must outlive it; their listener is not looked at, but for env and log. */
TIDE_MUST_CHECK tide_status tide_replicad_open(tide_replicad **out, tide_listener *listener,
                                               const tide_replicad_options *options,
                                               tide_error *err);
/* After tide_listener_stop, before tide_listener_close. Takes NULL. */
void tide_replicad_close(tide_replicad *replicad);
/* Rises when the file has news, or a sync has ended: for who wants to look again only then. From any thread. */
uint64_t tide_replicad_version(const tide_replicad *replicad);

/* A listener with a node alone, until SIGTERM. */
TIDE_MUST_CHECK tide_status tide_replica_run(const tide_replicad_options *options, tide_error *err);
