/* peers.h - how many connections each address has.
 *
 * An IPv6 peer is its /64: one host has as many addresses in it as it likes. Local sockets are
 * nobody's.
 *
 * Threads: safe. Limits: as many entries as there are open connections. */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

typedef struct tide_peer_key {
    uint8_t bytes[9]; /* family, then the address or its first half */
} tide_peer_key;

typedef struct tide_peer_slot {
    tide_peer_key key;
    uint32_t count; /* 0: free */
} tide_peer_slot;

typedef struct tide_peers {
    pthread_mutex_t lock;
    tide_peer_slot *slots; /* open addressing */
    size_t slot_count;     /* a power of two */
    size_t used;
} tide_peers;

void tide_peers_init(tide_peers *peers);
void tide_peers_done(tide_peers *peers);

/* false: a socket that belongs to no address. */
bool tide_peer_key_of(tide_peer_key *out, const struct sockaddr *address);

/* One connection more. false: that would be more than max, or memory is short. */
bool tide_peers_enter(tide_peers *peers, const tide_peer_key *key, int64_t max);
void tide_peers_leave(tide_peers *peers, const tide_peer_key *key);
