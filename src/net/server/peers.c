#include "net/server/peers.h"

#include <assert.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "base/lock.h"

enum { FIRST_SLOTS = 64 };

void tide_peers_init(tide_peers *peers)
{
    *peers = (tide_peers){0};
    (void)pthread_mutex_init(&peers->lock, NULL);
}

void tide_peers_done(tide_peers *peers)
{
    free(peers->slots);
    (void)pthread_mutex_destroy(&peers->lock);
}

bool tide_peer_key_of(tide_peer_key *out, const struct sockaddr *address)
{
    *out = (tide_peer_key){0};
    if (address->sa_family == AF_INET) {
        struct sockaddr_in v4;
        memcpy(&v4, address, sizeof v4);
        out->bytes[0] = 4;
        memcpy(out->bytes + 1, &v4.sin_addr, 4);
        return true;
    }
    if (address->sa_family == AF_INET6) {
        struct sockaddr_in6 v6;
        memcpy(&v6, address, sizeof v6);
        const bool is_v4 = IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr);
        out->bytes[0] = is_v4 ? 4 : 6;
        memcpy(out->bytes + 1, v6.sin6_addr.s6_addr + (is_v4 ? 12 : 0), is_v4 ? 4 : 8);
        return true;
    }
    return false;
}

/* FNV-1a; a peer that finds collisions slows down the search among its own addresses. */
static size_t hash_key(const tide_peer_key *key)
{
    uint64_t hash = UINT64_C(14695981039346656037);
    for (size_t i = 0; i < sizeof key->bytes; i++)
        hash = (hash ^ key->bytes[i]) * UINT64_C(1099511628211);
    return (size_t)(hash ^ hash >> 32);
}

/* The key's slot, or the free one where it belongs. */
static tide_peer_slot *find_slot(const tide_peers *peers, const tide_peer_key *key)
{
    const size_t mask = peers->slot_count - 1;
    size_t at = hash_key(key) & mask;
    while (peers->slots[at].count > 0 && memcmp(&peers->slots[at].key, key, sizeof *key) != 0)
        at = (at + 1) & mask;
    return &peers->slots[at];
}

/* At most half full, so that searches end soon. */
static bool make_room(tide_peers *peers)
{
    if (peers->used * 2 < peers->slot_count)
        return true;
    tide_peers grown = {.slot_count = peers->slot_count ? peers->slot_count * 2 : FIRST_SLOTS};
    grown.slots = calloc(grown.slot_count, sizeof *grown.slots);
    if (!grown.slots)
        return false;
    for (size_t i = 0; i < peers->slot_count; i++) {
        if (peers->slots[i].count > 0)
            *find_slot(&grown, &peers->slots[i].key) = peers->slots[i];
    }
    free(peers->slots);
    peers->slots = grown.slots;
    peers->slot_count = grown.slot_count;
    return true;
}

bool tide_peers_enter(tide_peers *peers, const tide_peer_key *key, int64_t max)
{
    TIDE_HOLD(&peers->lock);
    bool is_in = make_room(peers);
    if (is_in) {
        tide_peer_slot *slot = find_slot(peers, key);
        is_in = slot->count < max;
        if (is_in && slot->count == 0) {
            slot->key = *key;
            peers->used++;
        }
        slot->count += is_in;
    }
    return is_in;
}

/* Close the hole that a free slot would leave in the searches of those behind it. */
static void free_slot(tide_peers *peers, size_t hole)
{
    const size_t mask = peers->slot_count - 1;
    for (size_t at = (hole + 1) & mask; peers->slots[at].count > 0; at = (at + 1) & mask) {
        const size_t home = hash_key(&peers->slots[at].key) & mask;
        if (((at - home) & mask) >= ((at - hole) & mask)) {
            peers->slots[hole] = peers->slots[at];
            peers->slots[at].count = 0;
            hole = at;
        }
    }
    peers->used--;
}

void tide_peers_leave(tide_peers *peers, const tide_peer_key *key)
{
    TIDE_HOLD(&peers->lock);
    tide_peer_slot *slot = find_slot(peers, key);
    assert(slot->count > 0);
    if (--slot->count == 0)
        free_slot(peers, (size_t)(slot - peers->slots));
}
