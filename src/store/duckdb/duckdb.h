/* duckdb.h - the one place that speaks to DuckDB: found at run time, opened once, asked by named
 * statements.
 *
 * The library (libduckdb.so) is not linked: it is 70 MB, and only who chooses DuckDB needs it. It
 * is looked for at an explicit path, then in $TIDEMARK_DUCKDB (a path too: where one is named,
 * nothing else is tried), then beside the program (DIR, DIR/deps/duckdb, DIR/../lib/tidemark,
 * DIR/../lib), then where the system keeps its libraries. The first one found serves the whole
 * process.
 *
 *     tide_duckdb        a database file, or one in memory
 *       tide_duck        a connection: one thread at a time, one transaction at a time
 *         tide_duck_query      a statement of sql/duckdb_*.sql (TIDE_DUCKDB_SQL_<NAME>), bound by
 *                              name, read row by row
 *         tide_duck_appender   rows of one table, column by column: the fast way in
 *
 * Statements come from a catalogue of their own, made by tools/sqlgen like the other; DuckDB
 * numbers parameters as PostgreSQL does, so of each entry the PostgreSQL text is used.
 *
 * One process, one handle: DuckDB locks its file against other processes, and we against a second
 * handle in this one (DuckDB would let both write over each other). Who comes second gets
 * TIDE_E_BUSY, and the words name who holds it. The lock is of the kind that goes when any
 * descriptor of the file is closed: nothing in a process that has the file open may open and close
 * it by other means.
 *
 * Survives: when tide_duck_commit has returned TIDE_OK, the transaction is on disk. (Seen with
 * strace on 1.5.6: COMMIT writes FILE.wal and calls fsync on it before it returns; large inserts
 * first go into FILE itself, which is then synced before the log. DuckDB does not sync the
 * directory after it has made a new log, which it does after every checkpoint: commit does it
 * here.) A crash at any point leaves whole transactions: FILE.wal is replayed at the next open. A
 * commit that fails is TIDE_E_OUTCOME_UNKNOWN. After a disk error in the midst of a commit DuckDB
 * refuses everything ("fatal"), until the database is closed and opened again.
 * DuckDB's weak points are left alone: no indexes, no constraints, no upserts, no sequences (one
 * can issue a value twice after a crash). Tables are appended to; old rows are deleted by
 * retention.
 *
 * Threads: a tide_duckdb may be used from any thread; what hangs below it belongs to one thread at
 * a time, except tide_duck_interrupt and cancellations. Writers keep each other out with
 * tide_duckdb_lock: DuckDB itself would let both begin, and refuse one of them at its end.
 * Limits: memory, threads and the space for spilling are options. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <tidemark/store.h>

#include "base/cleanup.h"
#include "base/sql_value.h"

#include "tidemark_duckdb_sql.h"

enum {
    TIDE_DUCKDB_THREADS_DEFAULT = 2,
    TIDE_DUCKDB_COLUMNS_MAX = 1024, /* of a query's answer */
};

#define TIDE_DUCKDB_MEMORY_DEFAULT (INT64_C(1) << 30)
#define TIDE_DUCKDB_TEMP_DEFAULT (INT64_C(8) << 30)
#define TIDE_DUCKDB_CHECKPOINT_DEFAULT (INT64_C(64) << 20)

typedef struct tide_duckdb tide_duckdb;
typedef struct tide_duck tide_duck;
typedef struct tide_duck_query tide_duck_query;
typedef struct tide_duck_appender tide_duck_appender;
typedef struct tide_duck_cancel tide_duck_cancel;

/* Zero means the default everywhere. */
typedef struct tide_duckdb_options {
    const char *library; /* path of libduckdb.so */
    int threads;
    int64_t memory_max;       /* bytes; what needs more is spilled, or refused with TIDE_E_NOMEM */
    const char *temp_dir;     /* where it spills to; FILE.tmp, nowhere for a database in memory */
    int64_t temp_max;         /* bytes there */
    int64_t checkpoint_bytes; /* of FILE.wal, before it is worked into FILE */
    bool is_read_only;
    /* Statements may read and write other files (COPY, read_parquet). Never for a database on which
     * users' own statements run: it holds for all connections. */
    bool may_touch_files;
    /* Rows come out and are written in the order in which they were read; costs memory. */
    bool keeps_order;
    /* Settings may be changed by statements of ours; who opens it locks them (SET
     * lock_configuration) before a user's text runs. */
    bool is_unlocked;
    tide_duck_cancel *cancel; /* of all its connections; NULL: none. Must outlive it */
} tide_duckdb_options;

/* Is the library there? Loads it. library NULL: found as told above; *version is borrowed for ever.
 * TIDE_E_UNAVAILABLE: it is not, or it is not a usable one; the text says what to do. */
TIDE_MUST_CHECK tide_status tide_duckdb_find(const char **version, const char *library,
                                             tide_error *err);

/* path NULL: in memory. TIDE_E_UNAVAILABLE: no libduckdb.so, or not a usable one; the words say
 * what to do. TIDE_E_BUSY: it is open, in another process or in this one. TIDE_E_FOREIGN: a file,
 * but not a DuckDB database. TIDE_E_DAMAGED, TIDE_E_IO, TIDE_E_NOMEM. */
TIDE_MUST_CHECK tide_status tide_duckdb_open(tide_duckdb **out, const char *path,
                                             const tide_duckdb_options *options, tide_error *err);
void tide_duckdb_close(tide_duckdb *db); /* takes NULL; after everything below it */
TIDE_CLEANUP_FN(tide_duckdb_closep, tide_duckdb, tide_duckdb_close)

/* Keep other writers out. Not twice by one thread.
 *     TIDE_CLEANUP(tide_duckdb_unlockp) tide_duckdb *held = tide_duckdb_lock(db);
 *     (void)held; */
tide_duckdb *tide_duckdb_lock(tide_duckdb *db);
void tide_duckdb_unlockp(tide_duckdb **db);

/* ---- connections ---- */

TIDE_MUST_CHECK tide_status tide_duck_connect(tide_duck **out, tide_duckdb *db, tide_error *err);
void tide_duck_close(tide_duck *duck); /* takes NULL; rolls back what is open */
TIDE_CLEANUP_FN(tide_duck_closep, tide_duck, tide_duck_close)

TIDE_MUST_CHECK tide_status tide_duck_begin(tide_duck *duck, tide_error *err);
/* A snapshot in which nothing can be changed. */
TIDE_MUST_CHECK tide_status tide_duck_begin_read(tide_duck *duck, tide_error *err);
/* TIDE_E_OUTCOME_UNKNOWN: look. TIDE_E_SERIALIZATION: nothing was written. */
TIDE_MUST_CHECK tide_status tide_duck_commit(tide_duck *duck, tide_error *err);
/* Fine also when no transaction is open. */
void tide_duck_rollback(tide_duck *duck);

/* Run statements without parameters or rows, one behind the other (a schema). */
TIDE_MUST_CHECK tide_status tide_duck_run(tide_duck *duck, const tide_sql *sql, tide_error *err);

/* Stop what this connection is doing, from any thread: it ends with TIDE_E_INTERRUPTED. */
void tide_duck_interrupt(tide_duck *duck);

/* A cancellation stops all connections that joined it, those of several databases too, from any
 * thread: what they are doing and everything that they begin ends with TIDE_E_INTERRUPTED, until it
 * is cleared. For work of many statements whose caller may leave. */
TIDE_MUST_CHECK tide_status tide_duck_cancel_new(tide_duck_cancel **out, tide_error *err);
/* takes NULL; no connection is joined to it any more */
void tide_duck_cancel_free(tide_duck_cancel *cancel);
void tide_duck_cancel_raise(tide_duck_cancel *cancel);
void tide_duck_cancel_clear(tide_duck_cancel *cancel);
bool tide_duck_cancel_is_raised(const tide_duck_cancel *cancel); /* NULL: it is not */

/* ---- statements ---- */

TIDE_MUST_CHECK tide_status tide_duck_query_begin(tide_duck_query **out, tide_duck *duck,
                                                  const tide_sql *sql, tide_error *err);
/* A user's text: exactly one statement, one that reads (SELECT, EXPLAIN, and what DuckDB turns into
 * them, as SHOW, DESCRIBE); its rows are made while they are fetched. TIDE_E_DENIED: another kind
 * of statement. TIDE_E_INVALID: none, several, or a text that cannot be understood. */
TIDE_MUST_CHECK tide_status tide_duck_query_begin_text(tide_duck_query **out, tide_duck *duck,
                                                       const char *text, tide_error *err);
/* A text that was made from a template (sql_template.h), of any kind; name is for words. No
 * parameters; its rows are all there after the first step. TIDE_E_INVALID: it cannot be understood,
 * or names what is not there; TIDE_E_DENIED, TIDE_E_IO. */
TIDE_MUST_CHECK tide_status tide_duck_query_begin_made(tide_duck_query **out, tide_duck *duck,
                                                       const char *name, const char *text,
                                                       tide_error *err);
/* Is it exactly one statement, as far as its grammar goes? Nothing is looked up. */
bool tide_duck_is_statement(tide_duck *duck, const char *text);
void tide_duck_query_end(tide_duck_query *query); /* takes NULL */
TIDE_CLEANUP_FN(tide_duck_query_endp, tide_duck_query, tide_duck_query_end)

/* As TIDE_QUERY_BY (store/statement.h). */
#define TIDE_DUCK_QUERY_BY(query, begin, ...)                                                      \
    TIDE_CLEANUP(tide_duck_query_endp) tide_duck_query *query = NULL;                              \
    TIDE_TRY(begin(&query, __VA_ARGS__))
#define TIDE_DUCK_QUERY(query, ...) TIDE_DUCK_QUERY_BY(query, tide_duck_query_begin, __VA_ARGS__)

/* By name; an unknown one is a bug and asserts. A failure is kept and returned by the next step.
 * Not bound: NULL. */
void tide_duck_bind_i64(tide_duck_query *query, const char *name, int64_t value);
void tide_duck_bind_text(tide_duck_query *query, const char *name, const char *value);
void tide_duck_bind_time(tide_duck_query *query, const char *name, int64_t us);

/* The next row: TIDE_OK, or TIDE_NONE at the end. Rows of catalogue statements are all there after
 * the first step, so that the connection is free for others. */
TIDE_MUST_CHECK tide_status tide_duck_query_step(tide_duck_query *query, tide_error *err);
/* To the end; *changed (may be NULL): rows inserted, deleted, or copied. */
TIDE_MUST_CHECK tide_status tide_duck_query_run(tide_duck_query *query, int64_t *changed,
                                                tide_error *err);

/* Columns of the current row, in order; each call moves on. The column has the type: BIGINT,
 * INTEGER and UBIGINT (up to 2^63-1), DOUBLE, BOOLEAN, VARCHAR, BLOB, TIMESTAMP (another one is a
 * bug and asserts). NULL reads as 0, "" and false. Views are valid until the next step. */
bool tide_duck_col_is_null(const tide_duck_query *query); /* does not move */
int64_t tide_duck_col_i64(tide_duck_query *query);
bool tide_duck_col_bool(tide_duck_query *query);
tide_view tide_duck_col_text(tide_duck_query *query);
tide_view tide_duck_col_blob(tide_duck_query *query);
int64_t tide_duck_col_time(tide_duck_query *query); /* microseconds since 1970 */
/* A MAP(VARCHAR, MAP(VARCHAR, VARCHAR)), as COPY's statistics are: fn for each pair of each inner
 * map; NULL values are left out. */
typedef tide_status tide_duck_pair_fn(void *arg, tide_view outer, tide_view key, tide_view value,
                                      tide_error *err);
TIDE_MUST_CHECK tide_status tide_duck_col_maps(tide_duck_query *query, tide_duck_pair_fn *fn,
                                               void *arg, tide_error *err);

/* The answer's columns; there after the first step, also of an empty answer. */
int tide_duck_column_count(const tide_duck_query *query);
const char *tide_duck_column_name(const tide_duck_query *query, int column);

/* All columns of the current row; cells has room for them. Bytes until the next step. Times are
 * texts as in timefmt.h (with +00 where DuckDB knows the zone); DECIMAL, UUID, ENUM, INTERVAL,
 * lists, structs, maps are texts; whole numbers beyond 64 bits (HUGEINT, UBIGINT) too, and
 * UHUGEINT. */
TIDE_MUST_CHECK tide_status tide_duck_read_row(tide_duck_query *query, tide_sql_value *cells,
                                               tide_error *err);

/* ---- functions of ours ---- */

/* tide_murmur3(value): the 32-bit Murmur3 hash by which Iceberg and DuckLake make buckets (seed 0),
 * as INTEGER; NULL of NULL. Whole numbers, BOOLEAN, DATE, times and DECIMAL up to 18 digits are
 * hashed as they are stored, as 8 bytes; FLOAT and DOUBLE by the bits of the double; VARCHAR and
 * BLOB by their bytes. Others are TIDE_E_INVALID when they are asked for. For the connection's
 * database. */
TIDE_MUST_CHECK tide_status tide_duck_add_murmur3(tide_duck *duck, tide_error *err);

/* ---- a user's question, with limits ---- */

typedef struct tide_duck_ask {
    const char *text;
    int64_t row_max;
    int64_t bytes_max;
    int64_t timeout_us; /* on the real clock: the statement is interrupted, wherever it is */
    tide_status (*columns)(void *arg, const char *const *names, int count, tide_error *err);
    tide_status (*row)(void *arg, const tide_sql_value *cells, int count, tide_error *err);
    void *arg;
} tide_duck_ask;

/* In a read-only transaction, on a connection of its own. TIDE_E_LIMIT: more rows or bytes than
 * allowed; those before were given. TIDE_E_TIMEOUT, TIDE_E_INVALID; TIDE_E_DENIED: it would change
 * something, or wanted a file. */
TIDE_MUST_CHECK tide_status tide_duckdb_ask(tide_duckdb *db, const tide_duck_ask *ask,
                                            tide_error *err);

/* ---- ranges of rows, of any sink ---- */

struct tide_buffer;

typedef struct tide_duckdb_range {
    const char *table; /* a name of ours */
    const char *agent_id;
    const char *session_id;
    const char *data_type; /* NULL: the table holds one type */
    int64_t epoch;
    int64_t first_seq;
    int64_t last_seq;
    int64_t limit;
} tide_duckdb_range;

/* Append the statement that reads its rows, ascending; it is understood by SQLite, PostgreSQL and
 * DuckDB. TIDE_E_LIMIT, TIDE_E_NOMEM. */
TIDE_MUST_CHECK tide_status tide_duckdb_range_text(struct tide_buffer *out,
                                                   const tide_duckdb_range *range);

/* ---- appending ---- */

/* Rows of a table, inside the connection's transaction. Every row gives every column, in order and
 * of its type (another is a bug and asserts): put_i64 BIGINT and INTEGER, put_u64 UBIGINT, put_time
 * TIMESTAMP, put_ids UBIGINT[]. Texts must be UTF-8. A failure is kept and returned by
 * tide_duck_append_end, which comes before the commit. */
TIDE_MUST_CHECK tide_status tide_duck_append_begin(tide_duck_appender **out, tide_duck *duck,
                                                   const char *table, tide_error *err);
void tide_duck_put_null(tide_duck_appender *appender);
void tide_duck_put_i64(tide_duck_appender *appender, int64_t value);
void tide_duck_put_u64(tide_duck_appender *appender, uint64_t value);
void tide_duck_put_f64(tide_duck_appender *appender, double value);
void tide_duck_put_bool(tide_duck_appender *appender, bool value);
void tide_duck_put_text(tide_duck_appender *appender, tide_view value);
void tide_duck_put_blob(tide_duck_appender *appender, tide_view value);
void tide_duck_put_time(tide_duck_appender *appender, int64_t us);
void tide_duck_put_ids(tide_duck_appender *appender, const uint64_t *ids, int count);
void tide_duck_end_row(tide_duck_appender *appender);
/* Hand the rows over and free the appender, also on failure. Takes a pointer to NULL. */
TIDE_MUST_CHECK tide_status tide_duck_append_end(tide_duck_appender **appender, tide_error *err);
void tide_duck_append_dropp(tide_duck_appender **appender); /* without handing over */
