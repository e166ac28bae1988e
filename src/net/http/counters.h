/* counters.h - what the server counts, once; `/metrics` and tests derive from the table.
 *
 * Requests by method and code are counted per route (route.h).
 *
 * Threads: atomics, relaxed: each number is right, two read together may be of different
 * moments. */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

/* X(name, kind, help); a gauge goes up and down, a counter only up */
#define TIDE_NET_COUNTER_TABLE(X)                                                                  \
    X(connections_open, GAUGE, "open connections")                                                 \
    X(connections_accepted, COUNTER, "connections accepted")                                       \
    X(calls_running, GAUGE, "calls that have not ended")                                           \
    X(bytes_received, COUNTER, "bytes read from connections")                                      \
    X(bytes_sent, COUNTER, "bytes handed to connections")                                          \
    X(calls_cancelled, COUNTER, "calls whose peer left or whose deadline passed")                  \
    X(refused_connections, COUNTER, "connections above the limit of all")                          \
    X(refused_peer_connections, COUNTER, "connections above the limit of one address")             \
    X(refused_unauthenticated, COUNTER, "requests without valid credentials")                      \
    X(refused_denied, COUNTER, "requests whose role was too low, and those of web pages")          \
    X(refused_guessing, COUNTER, "requests of addresses that had sent too many bad tokens")        \
    X(refused_unchecked, COUNTER,                                                                  \
      "requests whose token could not be checked, the store being away")                           \
    X(refused_message_len, COUNTER, "messages above the limit, also after decompression")          \
    X(refused_budget, COUNTER, "requests for which the memory budget had no room")                 \
    X(refused_answers, COUNTER, "answers for which the memory of all readers had no room")         \
    X(refused_headers, COUNTER, "header lists above the limit")                                    \
    X(refused_flood, COUNTER, "connections closed for resets, continuations or control frames")    \
    X(refused_malformed, COUNTER, "connections closed for bytes that are no HTTP")                 \
    X(refused_workers, COUNTER, "calls for which the queue of threads had no room")                \
    X(timeouts_header, COUNTER, "connections closed for headers that did not come")                \
    X(timeouts_body, COUNTER, "requests whose body did not come")                                  \
    X(timeouts_write, COUNTER, "readers that did not read")                                        \
    X(timeouts_idle, COUNTER, "connections closed for silence")                                    \
    X(closed_for_others, COUNTER, "idle connections closed because new ones needed their places")

typedef struct tide_net_counters {
#define TIDE_NET_COUNTER_FIELD(name, ...) atomic_int_fast64_t name;
    TIDE_NET_COUNTER_TABLE(TIDE_NET_COUNTER_FIELD)
#undef TIDE_NET_COUNTER_FIELD
} tide_net_counters;

static inline void tide_count(atomic_int_fast64_t *counter, int64_t by)
{
    (void)atomic_fetch_add_explicit(counter, by, memory_order_relaxed);
}

static inline int64_t tide_counted(const atomic_int_fast64_t *counter)
{
    return (int64_t)atomic_load_explicit((atomic_int_fast64_t *)counter, memory_order_relaxed);
}
