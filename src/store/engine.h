/* engine.h - what a database engine offers to the store, and what store, transaction and query are
 * made of.
 *
 * The store speaks to SQLite and PostgreSQL through one struct of functions. Everything above it
 * (queries by name, columns in order, doomed transactions, declared counters, deferred rows,
 * migrations, identity) is written once. What differs is how a transaction is brought to the disk:
 *
 *     sqlite_*.c   closures of all threads go to one writer; a group shares one commit and one sync
 *     pg_*.c       closures run on their caller's thread; the last pipeline carries the counters,
 *                  the rows and the COMMIT, of several closures where these wait for the same
 *                  counters; one flusher carries the commits of all callers to disk
 *
 * Threads: ops are called by the thread that owns the transaction. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include <tidemark/identity.h>
#include <tidemark/store.h>

#include "base/arena.h"
#include "base/combiner.h"
#include "base/sql_value.h"
#include "store/migration.h"
#include "store/watch.h"

struct tide_query {
    tide_tx *tx;
    const tide_sql *sql;
    const tide_sql_text *text; /* the engine's variant */
    tide_sql_value values[TIDE_QUERY_PARAM_MAX];
    tide_arena arena;    /* owns the bound bytes */
    tide_status failure; /* of a bind; reported by the next step */
    int column;          /* the next to be read */
    bool is_started;
    bool is_done;
    bool has_row;
    int64_t changed;
    tide_row_fn *on_row; /* of a deferred query: who is given its rows */
    void *on_row_arg;
    /* The engine's part. */
    void *statement;
    void *result;
    int row;
    tide_query *next; /* in the transaction's list, then in the pool */
};

/* Says that the statement gave more rows than one. */
tide_status tide_query_several(const tide_query *query, tide_error *err);

/* Queries are recycled: a pool belongs to one connection. */
typedef struct tide_query_pool {
    tide_query *free;
    int free_count;
} tide_query_pool;

typedef struct tide_take {
    char key[TIDE_TX_KEY_MAX + 1];
    int64_t numbers; /* of a sequence: how many begin at *value; 0: not a row of `sequences` */
    tide_query *query;
    int64_t *value;
} tide_take;

/* A sequence that this transaction raises, for the identity marker. */
enum { TIDE_TX_RAISED_MAX = 8 };
typedef struct tide_raised {
    char name[TIDE_TX_KEY_MAX + 1];
    int64_t last;
} tide_raised;

struct tide_tx {
    tide_store *store;
    void *connection; /* the engine's */
    tide_query_pool *pool;
    bool is_write;
    bool has_counters;
    bool is_now_known;
    int64_t now_us;
    tide_status doom; /* the first failed statement's status; TIDE_OK while sound */
    tide_error doom_error;
    int take_count;
    tide_take takes[TIDE_TX_TAKE_MAX];
    tide_topics topics; /* notified once it is durable */
    int raised_count;
    tide_raised raised[TIDE_TX_RAISED_MAX];
    tide_query *open;           /* begun and not ended */
    tide_query *deferred_first; /* in order */
    tide_query *deferred_last;
    size_t deferred_len; /* bytes bound by deferred statements */
    bool is_told;        /* every change is reported by a row (tide_query_defer_rows) */
    bool has_own_flush;  /* tide_tx_flush_alone */
    bool is_synchronous; /* tide_tx_flush_by_commit */
    bool has_lost_run;   /* tide_tx_has_lost_run */
    bool has_told;       /* ... and there was one */
};

/* bulk.h */
typedef struct tide_bulk {
    tide_tx *tx;
    const tide_sql *sql;
    int width; /* values of a row */
    int64_t rows;
    void *state; /* the engine's */
} tide_bulk;

typedef struct tide_readonly_query tide_readonly_query; /* readonly_query.h */

enum { TIDE_HOST_TIMELINE_SIZE = 9, TIDE_HOST_STARTED_SIZE = 32 };

typedef struct tide_host {
    char text[128]; /* changes when the database was moved, copied, restored or failed over */
    bool is_standby;
    /* PostgreSQL: as in the names of WAL files; "": not known */
    char timeline[TIDE_HOST_TIMELINE_SIZE];
    uint64_t wal;            /* PostgreSQL: a position in the WAL that was reached; 0: not known */
    uint64_t checkpoint_wal; /* PostgreSQL: of the last WAL checkpoint; 0: not known */
    char started[TIDE_HOST_STARTED_SIZE]; /* PostgreSQL: when the server was started, in seconds */
    /* SQLite: what was wrong with the log before it was opened; "": nothing */
    char log_damage[160];
} tide_host;

/* A start of the server of a PostgreSQL store (sql/server_start_schema.sql). */
typedef struct tide_server_start {
    int64_t number; /* 0: none */
    char id[TIDE_SESSION_ID_SIZE];
} tide_server_start;

enum { TIDE_SERVER_STARTS_MAX = 16 };

/* The newest starts of a history, without a gap, the newest first. */
typedef struct tide_server_starts {
    int count;
    tide_server_start list[TIDE_SERVER_STARTS_MAX];
} tide_server_starts;

typedef struct tide_engine_ops {
    tide_engine engine;
    const char *name;
    tide_status (*open)(tide_store *store, const char *target, tide_error *err);
    void (*close)(tide_store *store);
    tide_status (*write)(tide_store *store, tide_tx_fn *fn, void *arg, tide_error *err);
    /* tide_store_write_by_id without its last sentence; NULL: as write. */
    tide_status (*write_by_id)(tide_store *store, tide_tx_fn *fn, void *arg, tide_error *err);
    tide_status (*read)(tide_store *store, tide_tx_fn *fn, void *arg, bool is_local,
                        tide_error *err);

    tide_status (*now)(tide_tx *tx, tide_error *err);           /* fills tx->now_us */
    tide_status (*take_counters)(tide_tx *tx, tide_error *err); /* takes are sorted already */
    tide_status (*script)(tide_tx *tx, const char *text, tide_error *err);
    /* A damaged log was set aside before opening: keep it for the epoch that its loss began, or,
     * with epoch 0, remove it. NULL: there are no such logs. */
    void (*keep_log)(tide_store *store, int64_t epoch);
    tide_status (*host)(tide_tx *tx, tide_host *out, tide_error *err);
    tide_status (*describe)(tide_store *store, tide_store_describe_fn *fn, void *arg,
                            tide_error *err);
    tide_status (*check)(tide_store *store, tide_store_finding_fn *fn, void *arg, tide_error *err);
    tide_status (*backup)(tide_store *store, const char *path, tide_error *err);

    tide_status (*watch)(tide_store *store, tide_error *err); /* starts the thread, once */

    tide_status (*prepare)(tide_query *query, tide_error *err);
    tide_status (*step)(tide_query *query, tide_error *err); /* starts when needed */
    tide_status (*keep)(tide_query *query, tide_error *err); /* keep the row, run to the end */
    void (*reset)(tide_query *query);      /* back to before the first step; nothing stays held */
    int (*width)(const tide_query *query); /* columns of the row */
    tide_sql_value (*column)(const tide_query *query, int index);

    /* bulk.h: many rows of one statement. end gives back what begin took, also after a failure;
     * is_kept false: the rows are given up. */
    tide_status (*bulk_begin)(tide_bulk *bulk, tide_error *err);
    tide_status (*bulk_row)(tide_bulk *bulk, const tide_sql_value *values, tide_error *err);
    tide_status (*bulk_end)(tide_bulk *bulk, bool is_kept, tide_error *err);

    /* readonly_query.h: one statement of a caller, which only reads. */
    tide_status (*readonly_query)(tide_store *store, const tide_readonly_query *query,
                                  tide_error *err);
} tide_engine_ops;

struct tide_store {
    const tide_engine_ops *ops;
    tide_env *env;
    tide_store_options options;       /* defaults filled in */
    char *name;                       /* the URL without a password */
    void *engine;                     /* the engine's own */
    const tide_migration *migrations; /* what its schema is made of */
    bool is_older;                    /* opened as it is, with a schema older than this program's */

    pid_t pid; /* of the process that opened it: threads and locks do not survive fork */
    pthread_mutex_t user_lock;
    pthread_cond_t has_left;
    int users;                   /* calls under way; closing waits for them */
    tide_combiner *combiners[2]; /* statement.h: writes of several callers in one transaction; the
                                    second one for large calls */

    pthread_mutex_t watch_lock; /* of watches */
    tide_watch *watches;

    pthread_mutex_t identity_lock;
    tide_identity identity;
    tide_identity known;             /* the newest epoch that was seen; known epochs never shrink */
    tide_server_starts known_starts; /* PostgreSQL: those that were seen in that epoch */
    tide_host host;                  /* what the identity was checked against */
    struct tide_identity_marker *marker; /* NULL: no identity marker is kept */
    /* SQLite: the store that was at this path before; "": none, or this one. */
    char replaced_session[TIDE_SESSION_ID_SIZE];
    char *epoch_path;              /* PostgreSQL: the newest epoch seen; NULL: not kept */
    int64_t epoch_changes;         /* noticed since the store was opened */
    tide_store_epoch_fn *on_epoch; /* NULL: none */
    void *on_epoch_arg;
    tide_store_failure_fn *on_failure; /* NULL: none */
    void *on_failure_arg;
    atomic_bool is_failing;       /* the last call failed because of the store */
    atomic_bool is_write_failing; /* ... and so did the last write */
    /* PostgreSQL: this role may not record a cut or a start, and so writes nothing. */
    atomic_bool is_unrecorded;
    atomic_bool is_mismatched; /* the server is not the one that this store was opened on */
    int64_t open_until_us;     /* real time by which opening ends; 0: the store is open */
};

extern const tide_engine_ops tide_sqlite_ops;
extern const tide_engine_ops tide_pg_ops;

/* store.c: report to the observer a failure of the store, and of the first success behind one.
 * Called for every call; by an engine for a failure that its caller does not see. */
void tide_store_report_call(tide_store *store, tide_status status, bool is_write,
                            const tide_error *err);

/* tx.c: the engine-independent half of a transaction. */
void tide_tx_init(tide_tx *tx, tide_store *store, void *connection, tide_query_pool *pool,
                  bool is_write);
void tide_tx_done(tide_tx *tx); /* ends every query that is still open or deferred */
/* Remember a statement's failure; returns status. */
tide_status tide_tx_doom(tide_tx *tx, tide_status status, const tide_error *err);
tide_status tide_tx_check_doom(const tide_tx *tx, tide_error *err);
/* This transaction raises a row of `sequences`: the identity marker remembers its last number.
 * Those above TIDE_TX_RAISED_MAX are left out. */
/* ... declared right before, under the key "sequence/NAME": so many numbers from *value on. */
void tide_tx_raises_declared(tide_tx *tx, int64_t numbers);
void tide_tx_raised(tide_tx *tx, const char *sequence, int64_t last);
/* Run takes and deferred statements one by one: what an engine without pipelines does. */
tide_status tide_tx_take_counters_plainly(tide_tx *tx, tide_error *err);
tide_status tide_tx_complete_plainly(tide_tx *tx, tide_error *err);
void tide_tx_sort_takes(tide_tx *tx);
/* Run a closure inside an open transaction and turn a doomed success into its failure. While it
 * runs, this thread is inside of the store: see tide_tx_is_inside. */
tide_status tide_tx_run(tide_tx *tx, tide_tx_fn *fn, void *arg, tide_error *err);

/* Is this thread running a closure of this store? */
bool tide_tx_is_inside(const tide_store *store);

/* Run a text of several statements, a schema say, inside a write transaction. */
TIDE_MUST_CHECK tide_status tide_tx_script(tide_tx *tx, const char *text, tide_error *err);

void tide_query_pool_done(tide_query_pool *pool);

/* sqlite_connection.c: the library at run time ("3.51.3", 3051003), and its header at build
 * time. */
const char *tide_sqlite_version(void);
int tide_sqlite_version_number(void);
const char *tide_sqlite_version_built(void);

/* migrate.c */
tide_status tide_store_migrate(tide_store *store, const tide_migration *migrations,
                               tide_error *err);

/* store.c: tide_store_open with these migrations instead of all of this program's. With the first
 * alone a store has the core's tables and no others: tests that make thousands of stores do not pay
 * for the rest. */
tide_status tide_store_open_with(tide_store **out, const char *url,
                                 const tide_store_options *options,
                                 const tide_migration *migrations, tide_error *err);
