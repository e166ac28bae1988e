/* replica_relay.h - a relay between a client and a server of this machine that counts bytes, in both directions.
 *
 * Threads: it has its own; start and stop from one. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

typedef struct replica_relay {
    int listener;
    int target_port;
    int port;
    atomic_llong bytes;
    pthread_t thread;
    atomic_bool is_over;
} replica_relay;

void replica_relay_start(replica_relay *r, int target_port);
void replica_relay_stop(replica_relay *r);
