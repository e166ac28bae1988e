/* duckdb_pool.h - threads with a DuckDB each, and a bounded queue of calls in front of them.
 *
 * A tide_lake_data belongs to one thread at a time and costs memory. So there are a few, and a call that
 * waits for one occupies no thread of the server. A thread's DuckDB is opened when the first call needs
 * it. Conditions of deletes are texts of callers: they run in a query process of the thread
 * (runtime/query/query_process.h), so that no query holds up a change.
 *
 * When the caller leaves, or its deadline passes, what DuckDB does for the call ends with
 * TIDE_E_INTERRUPTED, and its query process is killed. Such a thread gets a new DuckDB.
 *
 * Threads: any may put.
 * Limits: TIDE_DESK_QUEUE_MAX calls and TIDE_DESK_QUEUE_LEN bytes of requests wait; more are refused with
 * TIDE_E_BUSY. */
#pragma once

#include "lake/data.h"
#include "net/call/call.h"
#include "runtime/metrics.h"

enum {
    TIDE_DESKS_DEFAULT = 3,
    TIDE_DESKS_MAX = 64,
    TIDE_DESK_QUEUE_MAX = 256,
    TIDE_DESK_QUEUE_LEN = 128 << 20,
};
#define TIDE_DESK_MEMORY_DEFAULT (INT64_C(512) << 20)

typedef struct tide_duckdb_pool tide_duckdb_pool;
typedef struct tide_duckdb_thread tide_duckdb_thread;

typedef struct tide_duckdb_pool_options {
    struct tide_lake_seen_files *seen; /* as tide_lake_data_options; must outlive them */
    const char *data_dir;              /* as the library's, must outlive them */
    const char *library;               /* NULL: where it usually is */
    const char *query_program;         /* as tide_query_process_options, must outlive them */
    tide_metrics *metrics;             /* of query processes; NULL: none */
    int count;                         /* 0: the default */
    int64_t memory_max;
    tide_env *env;
} tide_duckdb_pool_options;

TIDE_MUST_CHECK tide_status tide_duckdb_pool_open(tide_duckdb_pool **out,
                                                  const tide_duckdb_pool_options *options,
                                                  tide_error *err);
/* What is being done is stopped, who waits is told to come again. Takes NULL. */
void tide_duckdb_pool_close(tide_duckdb_pool *desks);

/* Have fn called on a desk's thread; it answers the call. message (malloc'ed; may be NULL) is taken over, also on failure. drop (NULL: nothing) is called instead, where
 * the desks close before it is the call's turn. A call that is cancelled before its turn is passed over. */
typedef void tide_duckdb_thread_fn(tide_duckdb_thread *desk, tide_call *call, tide_view message,
                                   void *arg);
typedef void tide_duckdb_thread_drop_fn(tide_call *call, void *arg);
TIDE_MUST_CHECK tide_status tide_duckdb_pool_put(tide_duckdb_pool *desks, tide_call *call,
                                                 char *message, size_t len,
                                                 tide_duckdb_thread_fn *fn,
                                                 tide_duckdb_thread_drop_fn *drop, void *arg,
                                                 tide_error *err);

/* The desk's DuckDB, from fn alone. TIDE_E_UNAVAILABLE: no library; the words say what to do. */
TIDE_MUST_CHECK tide_status tide_duckdb_thread_data(tide_duckdb_thread *desk, tide_lake_data **out,
                                                    tide_error *err);
