/* replicas.h - replicated databases of `tidemark up` (`--replica NAME=FILE`), several on one
 * listener.
 *
 *     /replica/NAME/tidemark.replica.v1.ReplicaService/...   each; the address for
 *                                                            peers: http://HOST:PORT/replica/NAME
 *     /tidemark.replica.v1.ReplicaService/...                the first, as well
 *     tidemark.up.v1.UpService/ListReplicas                  which there are
 *
 * A peer is an address, or the name of another database of this process. Everything else is as
 * `tidemark replica run` (services/replica/daemon.h).
 *
 * Survives: everything is in the files. Threads: as listener.h. Limits: TIDE_UP_REPLICAS_MAX
 * databases, TIDE_UP_PEERS_MAX peers each. */
#pragma once

#include "runtime/listener.h"

enum { TIDE_UP_REPLICAS_MAX = 16, TIDE_UP_PEERS_MAX = 8, TIDE_UP_REPLICA_NAME_MAX = 64 };

typedef struct tide_up_replica {
    const char *name; /* letters, digits and -_. */
    const char *file; /* made if missing */
    const char *peers[TIDE_UP_PEERS_MAX];
    int peer_count;
} tide_up_replica;

typedef struct tide_replicas_options {
    tide_up_replica replicas[TIDE_UP_REPLICAS_MAX];
    int count;
    int64_t every_us;          /* between syncs when nothing changes; 0: 5 s */
    int64_t collect_us;        /* between collections; 0: 1 h */
    int64_t snapshot_every_us; /* 0: 24 h */
    bool is_tls;               /* the listener's port speaks it */
    tide_env *env;
    tide_log *log;
} tide_replicas_options;

typedef struct tide_replicas tide_replicas;

/* Add them to a listener that is not serving yet. What the options point to must outlive it.
 * TIDE_E_INVALID: a bad name, or one twice. As tide_node_open. */
TIDE_MUST_CHECK tide_status tide_replicas_open(tide_replicas **out, tide_listener *listener,
                                               const tide_replicas_options *options,
                                               tide_error *err);
/* After tide_listener_stop, before tide_listener_close. Takes NULL. */
void tide_replicas_close(tide_replicas *replicas);

/* Rises when a file has news, or a sync has ended. From any thread. */
uint64_t tide_replicas_version(const tide_replicas *replicas);
