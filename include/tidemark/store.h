/* store.h - durable transactions on SQLite and PostgreSQL.
 *
 * A store is opened by URL and changed by closures: tide_store_write runs a function inside one
 * transaction and returns when everything it wrote, and everything it read, is on disk.
 * tide_store_read runs a function over one consistent snapshot and returns when everything it read
 * is on disk. So nothing that leaves the store can be taken back by a crash.
 *
 *     closure --- statements --- counters (in key order) --- deferred rows --- COMMIT --- flush
 *                 any order      the last locks             carry the numbers
 *
 * Numbers: a closure *declares* the counters it needs (tide_tx_declare_counter, or
 * tide_sequence_declare above it) and *defers* the statements that carry the numbers
 * (tide_query_defer). The runner takes all counters after the closure's other work, in key order,
 * so that no answer crosses the network while a counter is locked and no two closures can deadlock
 * on counters. Transactions that take numbers of one counter become visible in number order. A
 * closure that must know its numbers in C settles them earlier with tide_tx_take_counters.
 *
 * A closure may run on another thread and may run more than once (a serialization failure, a lost
 * connection, a group that must be taken apart): it keeps no state from an earlier run. What it
 * hands out counts only when tide_store_write returned success. A closure that returns a failure
 * changes nothing.
 *
 * A closure that calls tide_store_write or tide_store_read on its own store again gets
 * TIDE_E_INVALID, and closing the store does nothing there.
 *
 * A failed statement dooms its transaction: later calls on it return the same failure, and so does
 * tide_store_write, whatever the closure returns. Expected collisions are written as ON CONFLICT.
 *
 * Survives: a crash at any point; what tide_store_write answered with success is on disk.
 * TIDE_E_OUTCOME_UNKNOWN means the commit was under way when the disk or the connection failed:
 * look before repeating.
 * Threads: a tide_store is safe from any thread; a tide_tx and its queries belong to the closure.
 * Processes: after fork() a child opens its own store; calls on the parent's are refused. */
#ifndef TIDEMARK_STORE_H
#define TIDEMARK_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tidemark/env.h>
#include <tidemark/error.h>
#include <tidemark/export.h>
#include <tidemark/view.h>

TIDE_BEGIN_DECLS

typedef struct tide_store tide_store;
typedef struct tide_tx tide_tx;
typedef struct tide_query tide_query;

typedef enum tide_engine {
    TIDE_ENGINE_SQLITE,
    TIDE_ENGINE_POSTGRES,
} tide_engine;

enum {
    TIDE_ENGINE_COUNT = 2,
    TIDE_QUERY_PARAM_MAX = 48,
    TIDE_TX_TAKE_MAX = 64,        /* counters one transaction may take */
    TIDE_TX_KEY_MAX = 160,        /* bytes of a counter's key, without the terminator */
    TIDE_TX_BYTES_MAX = 64 << 20, /* bytes bound by a statement and those deferred before it */
};

/* One statement of a catalogue, as written by tools/sqlgen. */
typedef struct tide_sql_text {
    const char *text;          /* parameters are ?1.. or $1..; NULL: not for this engine */
    const char *const *params; /* names, without the colon */
    int param_count;
} tide_sql_text;

typedef struct tide_sql {
    size_t size; /* TIDE_SQL_INIT */
    const char *name;
    bool is_bulk; /* many rows at once: for statements of the library alone */
    tide_sql_text engine[TIDE_ENGINE_COUNT];
} tide_sql;
#define TIDE_SQL_INIT .size = sizeof(tide_sql)

typedef enum tide_store_mode {
    TIDE_STORE_CREATE,   /* create what is missing, migrate what is older */
    TIDE_STORE_EXISTING, /* TIDE_E_NOT_FOUND when there is no store; migrate what is older */
    TIDE_STORE_AS_IS,    /* like EXISTING, but change nothing: no migration, no new epoch */
} tide_store_mode;

/* What stands between this process and a PostgreSQL server. */
typedef enum tide_pg_pooler {
    TIDE_PG_POOLER_AUTO,        /* recognised when a connection is made */
    TIDE_PG_POOLER_NONE,        /* nothing, or a pooler in session mode */
    TIDE_PG_POOLER_TRANSACTION, /* a pooler that may change the server between transactions */
} tide_pg_pooler;

/* Zero means the default everywhere. */
typedef struct tide_store_options {
    size_t size;          /* TIDE_STORE_OPTIONS_INIT */
    tide_env *env;        /* tide_env_system() */
    tide_store_mode mode; /* TIDE_STORE_CREATE */
    int64_t wait_us;      /* for the write lock or a connection, before TIDE_E_BUSY; 10 s */
    int64_t closure_us;   /* time budget of one closure's statements; 30 s */
    /* PostgreSQL: time budget of one call, waits and repeats included; 30 s, or closure_us if that
     * is more. */
    int64_t timeout_us;
    tide_pg_pooler pg_pooler;
    /* Open a store that lacks an epoch which was seen before (TIDE_E_MISMATCH otherwise): to look
     * at it, or to begin an epoch above. */
    bool is_mismatch_allowed;
    int connection_max; /* readers on SQLite, connections on PostgreSQL; 16 */
    int queue_max;      /* closures waiting for the writer; 4096 */
    int64_t wal_max;    /* SQLite: write-ahead log bytes before writers are held back; 1 GiB */
    bool is_inline;     /* SQLite: no writer thread; closures run on the caller's thread */
    bool is_env_clock;  /* PostgreSQL: tide_tx_now comes from env, not from the server (tests) */
    const char *sqlite_vfs; /* the default VFS */
    const char *state_dir;  /* where the identity marker lives; "" for none; see identity.h */
} tide_store_options;
#define TIDE_STORE_OPTIONS_INIT .size = sizeof(tide_store_options)

/* Open by URL: `sqlite:PATH`, a bare path, `postgres://...` or `postgresql://...`. options may be
 * NULL.
 * TIDE_E_INVALID: a malformed URL or an unknown engine. TIDE_E_NOT_FOUND: nothing there.
 * TIDE_E_DENIED: not permitted. TIDE_E_FOREIGN: not ours. TIDE_E_NEWER: made by a newer program.
 * TIDE_E_DAMAGED: unreadable.
 * TIDE_E_UNAVAILABLE: the server is away. Each failure leaves things as they were. */
TIDE_API TIDE_MUST_CHECK tide_status tide_store_open(tide_store **out, const char *url,
                                                     const tide_store_options *options,
                                                     tide_error *err);

/* Waits for running closures; takes NULL. In a child process of fork it does nothing. */
TIDE_API void tide_store_close(tide_store *store);
TIDE_API void tide_store_closep(tide_store **store);

TIDE_API tide_engine tide_store_engine(const tide_store *store);
TIDE_API tide_env *tide_store_env(const tide_store *store);

/* The URL without a password, for messages. Borrowed until close. */
TIDE_API const char *tide_store_name(const tide_store *store);

/* ---- looking after a store ---- */

/* One fact about a store: engine, version, schema, durability settings; names are stable, for
 * --json. */
typedef void tide_store_describe_fn(void *arg, const char *name, const char *value);
TIDE_API TIDE_MUST_CHECK tide_status tide_store_describe(tide_store *store,
                                                         tide_store_describe_fn *fn, void *arg,
                                                         tide_error *err);

/* Read everything and look for damage. fn is called per finding. TIDE_OK: sound. TIDE_E_DAMAGED:
 * there were findings. */
typedef void tide_store_finding_fn(void *arg, const char *finding);
TIDE_API TIDE_MUST_CHECK tide_status tide_store_verify(tide_store *store, tide_store_finding_fn *fn,
                                                       void *arg, tide_error *err);

/* Stored values that were compared with their digests (tide_idempotency_verify,
 * tide_work_verify). */
typedef struct tide_values_checked {
    int64_t checked;
    int64_t unchecked; /* written by plain SQL, or before there were digests */
    int64_t damaged;
} tide_values_checked;

/* Write a consistent copy to path, which must not exist, while others go on writing. The copy
 * appears under its name only when it is complete, checked and synced; opening it starts a new
 * epoch. SQLite only: TIDE_E_UNSUPPORTED on PostgreSQL, whose own tools do this. */
TIDE_API TIDE_MUST_CHECK tide_status tide_store_backup(tide_store *store, const char *path,
                                                       tide_error *err);

/* ---- transactions ---- */

typedef tide_status tide_tx_fn(tide_tx *tx, void *arg, tide_error *err);

/* Run fn in one durable transaction; returns what fn returned, or why it could not be done. */
TIDE_API TIDE_MUST_CHECK tide_status tide_store_write(tide_store *store, tide_tx_fn *fn, void *arg,
                                                      tide_error *err);

/* As tide_store_write, for a closure that carries an id by which it recognises that it has run
 * before (an item's, a checkpoint's, an idempotency key), or that may run twice (a renewal under a
 * token). When the outcome of its commit is not known, it runs again in the same epoch, until it is
 * known or the call's time is up. Then: TIDE_E_UNAVAILABLE where the caller has the id and can
 * repeat the call, and says so (is_callers_id), otherwise TIDE_E_OUTCOME_UNKNOWN. */
TIDE_API TIDE_MUST_CHECK tide_status tide_store_write_by_id(tide_store *store, tide_tx_fn *fn,
                                                            void *arg, bool is_callers_id,
                                                            tide_error *err);

/* Run fn over one consistent, durable snapshot. */
TIDE_API TIDE_MUST_CHECK tide_status tide_store_read(tide_store *store, tide_tx_fn *fn, void *arg,
                                                     tide_error *err);

/* The named exception: what fn sees may not be on disk yet (PostgreSQL), so it must not leave the
 * store. */
TIDE_API TIDE_MUST_CHECK tide_status tide_store_read_local(tide_store *store, tide_tx_fn *fn,
                                                           void *arg, tide_error *err);

TIDE_API tide_store *tide_tx_store(tide_tx *tx);
TIDE_API bool tide_tx_is_write(const tide_tx *tx);

/* The transaction's time, read once: the server's clock on PostgreSQL, the env's elsewhere. */
TIDE_API TIDE_MUST_CHECK tide_status tide_tx_now(tide_tx *tx, int64_t *now_us, tide_error *err);

/* Declare a counter: query (bound, not started; taken over) locks it, raises it and returns one
 * int64. It runs after the closure's other statements; counters are locked in the order of their
 * keys, which are unique within a transaction. *value is written when the counter is taken, and is
 * final only when tide_store_write succeeds. Needs a write transaction that has not settled. */
TIDE_API TIDE_MUST_CHECK tide_status tide_tx_declare_counter(tide_tx *tx, const char *key,
                                                             tide_query **query, int64_t *value,
                                                             tide_error *err);

/* Take all declared counters now. From here on only statements that carry the numbers should
 * follow: on PostgreSQL other transactions that want these counters wait until the commit. */
TIDE_API TIDE_MUST_CHECK tide_status tide_tx_take_counters(tide_tx *tx, tide_error *err);

/* ---- statements ---- */

/* Prepare a statement in this transaction. Ends with tide_query_end, or at the latest with the
 * closure. */
TIDE_API TIDE_MUST_CHECK tide_status tide_query_begin(tide_query **out, tide_tx *tx,
                                                      const tide_sql *sql, tide_error *err);
TIDE_API void tide_query_end(tide_query *query);
TIDE_API void tide_query_endp(tide_query **query);

/* Bind by name. Bytes are copied. A failure (too many bytes, a time outside the years 1 to 9999) is
 * kept and returned by the next step. An unknown name dooms the transaction with TIDE_E_INVALID.
 * Unbound parameters are NULL. */
TIDE_API void tide_query_bind_null(tide_query *query, const char *name);
TIDE_API void tide_query_bind_i64(tide_query *query, const char *name, int64_t value);
TIDE_API void tide_query_bind_f64(tide_query *query, const char *name, double value);
TIDE_API void tide_query_bind_bool(tide_query *query, const char *name, bool value);
TIDE_API void tide_query_bind_text(tide_query *query, const char *name, const char *value);
TIDE_API void tide_query_bind_text_view(tide_query *query, const char *name, tide_view value);
TIDE_API void tide_query_bind_blob(tide_query *query, const char *name, tide_view value);
TIDE_API void tide_query_bind_time(tide_query *query, const char *name, int64_t us);

/* The time to put beside a number: the transaction's time where the env is the clock; NULL where
 * the server's clock is to be read after the counter's lock is held. */
TIDE_API TIDE_MUST_CHECK tide_status tide_query_bind_clock(tide_query *query, const char *name,
                                                           tide_error *err);

/* The next row: TIDE_OK, or TIDE_NONE at the end. */
TIDE_API TIDE_MUST_CHECK tide_status tide_query_step(tide_query *query, tide_error *err);

/* Exactly one row (TIDE_OK) or none (TIDE_NONE); the statement is run to its end. Its columns stay
 * readable until the query ends. A second row is E_DAMAGED: the database has two where one may
 * exist. */
TIDE_API TIDE_MUST_CHECK tide_status tide_query_one(tide_query *query, tide_error *err);

/* Run to the end; *changed (may be NULL) is the number of rows inserted, updated or deleted. */
TIDE_API TIDE_MUST_CHECK tide_status tide_query_run(tide_query *query, int64_t *changed,
                                                    tide_error *err);

/* Hand the statement over: it runs after the counters are taken, in the order of the calls, and on
 * PostgreSQL travels together with them and the COMMIT. Its rows are dropped. */
TIDE_API TIDE_MUST_CHECK tide_status tide_query_defer(tide_query **query, tide_error *err);

/* The same, and each row of its answer is given to fn, before tide_store_write returns; what fn
 * learns is final only when tide_store_write succeeds. So a closure of one statement takes one
 * round trip. The rows tell every change: where none comes, nothing was changed, and nothing has to
 * be brought to disk. In a read it is the same: what is deferred travels with the end of the
 * transaction. */
typedef void tide_row_fn(tide_query *query, void *arg);
TIDE_API TIDE_MUST_CHECK tide_status tide_query_defer_rows(tide_query **query, tide_row_fn *fn,
                                                           void *arg, tide_error *err);

/* Use the statement again with other values: forgets row and binds. */
TIDE_API void tide_query_reset(tide_query *query);

/* Columns of the current row, read in order; each call moves to the next column. Views are valid
 * until the next step, reset or end. A NULL reads as 0, false or an empty view; ask
 * tide_query_col_is_null first. Reading a column without a row, or as another type than it has,
 * dooms the transaction with TIDE_E_INVALID. */
TIDE_API bool tide_query_col_is_null(const tide_query *query); /* does not move */
TIDE_API int64_t tide_query_col_i64(tide_query *query);
TIDE_API double tide_query_col_f64(tide_query *query);
TIDE_API bool tide_query_col_bool(tide_query *query);
TIDE_API tide_view tide_query_col_text(tide_query *query);
TIDE_API tide_view tide_query_col_blob(tide_query *query);
TIDE_API int64_t
tide_query_col_time(tide_query *query); /* INT64_MIN when the stored text is not a time */

TIDE_END_DECLS

#endif
