/* daemon.h - `tidemark replica serve` and `run`, and databases of `tidemark up`: a node behind a front, and the syncs that keep it up to date.
 *
 * A front may have several, each below a path of its own: /replica/NAME/tidemark.replica.v1.ReplicaService/GetMarks.
 *
 * One thread looks after the peers: when something was committed to the file, by anybody, and every every_us in any case, it syncs with each (anti-entropy
 * goes on for ever, not only at the start). Now and then it collects what nobody needs any more, and makes snapshots
 * (snapshot_service.h); a peer below whose floor this node has come is asked for one (bootstrap.h). /readyz is 200 once every
 * peer was synced with to a proven cut; without peers at once.
 *
 * Survives: everything is in the file. Threads: as front.h. */
#ifndef TIDE_SERVICES_REPLICA_DAEMON_H
#define TIDE_SERVICES_REPLICA_DAEMON_H

#include "remote/replica_peer.h"
#include "replica/node.h"
#include "runtime/listener.h"

enum { TIDE_REPLICA_PEERS_MAX = 64 };

typedef struct tide_replica_options {
    tide_listener_options front; /* port_count 0: nobody is served */
    tide_node *node;             /* must outlive it */
    tide_remote_options remotes[TIDE_REPLICA_PEERS_MAX];
    int remote_count;
    int64_t every_us;          /* between syncs when nothing changes */
    int64_t collect_us;        /* between collections */
    int64_t snapshot_every_us; /* between snapshots; 0: only when one is needed */
    const char *snapshot_dir;  /* NULL: DB-snapshots */
    const char *under;         /* where its service is: "/replica/NAME"; NULL: at the root */
    bool is_at_root;           /* as well, where it is below a path */
    bool is_uncounted;         /* no figures: another node of the front has them */
    bool
        is_kept; /* looked after without peers, too: collected, watched for news; a peer that is away does not make the front unwell */
} tide_replica_options;

typedef struct tide_replicad tide_replicad;

/* Add a node to a front that is not serving yet. The options must outlive it; their front is not looked at, but for env and log. */
TIDE_MUST_CHECK tide_status tide_replicad_open(tide_replicad **out, tide_listener *front,
                                               const tide_replica_options *options,
                                               tide_error *err);
/* After tide_listener_stop, before tide_listener_close. Takes NULL. */
void tide_replicad_close(tide_replicad *replicad);
/* Rises when the file has news, or a sync has ended: for who wants to look again only then. From any thread. */
uint64_t tide_replicad_version(const tide_replicad *replicad);

/* A front with a node alone, until SIGTERM. */
TIDE_MUST_CHECK tide_status tide_replica_run(const tide_replica_options *options, tide_error *err);

#endif
