/* query_pool.h - queries of callers: a bounded queue, a few threads, a query process each.
 *
 * A query waits in a queue of its own and runs on a thread of its own, so that no other call waits
 * for queries. A caller may have half of the queue. What runs on SQLite or over files of a lake
 * runs in a process (query_process.h); a query on PostgreSQL runs on the server.
 *
 *     put  --  queue  --  thread  --  fn  --  tide_query_slot_process  --  process
 *
 * The caller leaves, or its deadline passes: a query that waits is dropped, one that runs is
 * killed.
 *
 * Threads: any may put; open and close as the listener, which has one pool.
 * Limits: rows query_us, query_memory_len, query_processes and query_queue of net/http/limits.h. */
#pragma once

#include "net/call/call.h"
#include "net/http/limits.h"
#include "runtime/query/query_process.h"

enum {
    TIDE_QUERY_PROCESSES_MAX = 64,
    TIDE_QUERY_TARGETS_MAX = 4, /* stores and lakes of one daemon */
};

typedef struct tide_query_pool tide_query_pool;
typedef struct tide_query_slot tide_query_slot; /* a thread and its processes */

typedef struct tide_query_pool_options {
    const tide_net_limits *limits; /* copied */
    const char *program;           /* as tide_query_process_options */
    tide_metrics *metrics;
} tide_query_pool_options;

TIDE_MUST_CHECK tide_status tide_query_pool_open(tide_query_pool **out,
                                                 const tide_query_pool_options *options,
                                                 tide_error *err);
/* Kill what runs, refuse what waits. Takes NULL. */
void tide_query_pool_close(tide_query_pool *pool);

/* Call fn on a thread of the pool; it answers the call. The call's message is taken over. A full
 * queue and a caller with half of it are answered here: gRPC 8, HTTP 503. */
typedef void tide_query_fn(tide_query_slot *slot, tide_call *call, tide_view message, void *arg);
void tide_query_pool_put(tide_query_pool *pool, tide_call *call, tide_query_fn *fn, void *arg);

/* The time limit of a query: given_ms, 0: the default; less where the call's deadline is nearer.
 * TIDE_E_INVALID: above query_us, or negative. */
TIDE_MUST_CHECK tide_status tide_query_slot_timeout(const tide_query_slot *slot,
                                                    const tide_call *call, int64_t given_ms,
                                                    int64_t *timeout_us, tide_error *err);

/* The slot's process for a target, from fn alone. Targets are compared by address, and must outlive
 * the pool. */
TIDE_MUST_CHECK tide_status tide_query_slot_process(tide_query_slot *slot,
                                                    const tide_query_target *target,
                                                    tide_query_process **out, tide_error *err);

/* Readable when the caller of the running query has left. */
int tide_query_slot_cancel_fd(const tide_query_slot *slot);

/* A query that was not run in a process ended so: counted like one that was. */
void tide_query_slot_count(const tide_query_slot *slot, tide_status status);
