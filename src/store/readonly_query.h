/* readonly_query.h - SQL of a caller on a store: one statement, read-only, within limits.
 *
 *     SQLite       a reader's connection. An authorizer permits reading and refuses everything else
 *                  (writing, settings, other files, extensions) while the statement is prepared.
 *     PostgreSQL   a connection of its own, closed afterwards, in a READ ONLY transaction with a
 *                  statement_timeout. One statement (extended protocol) that begins as SELECT,
 *                  WITH, VALUES, TABLE, EXPLAIN or SHOW, names no function with effects and no
 *                  table that is not ours, and runs under a role without privileges where there can
 *                  be one (pg_query_guard.h).
 *
 * A daemon runs statements of callers on SQLite in a query process (runtime/query/query_process.h),
 * which opens the file by tide_readonly_db_open: time, memory and a crash are bounded there. Inside
 * a process nothing bounds the memory of a statement.
 *
 * Values have the kinds of the engine's types: integers I64, floating-point numbers F64, booleans
 * BOOL (PostgreSQL), bytes BLOB. Everything else is TEXT, also times ('YYYY-MM-DD HH:MM:SS.ffffff',
 * UTC).
 *
 * Threads: any; a tide_readonly_db belongs to one thread at a time.
 * Limits: one row is in memory at a time, and is no longer than bytes_max. */
#pragma once

#include "store/engine.h"

enum { TIDE_READONLY_QUERY_COLUMNS_MAX = 1000 };

struct tide_readonly_query {
    const char *sql;
    int64_t row_max;
    int64_t bytes_max; /* of all values together */
    int64_t timeout_us;
    /* PostgreSQL: readable when the caller has left; the statement is cancelled. 0: none. */
    int cancel_fd;
    /* Once, before the rows. A failure ends the query and is returned. */
    tide_status (*columns)(void *arg, const char *const *names, int count, tide_error *err);
    /* Values are borrowed for the call. */
    tide_status (*row)(void *arg, const tide_sql_value *values, int count, tide_error *err);
    void *arg;
};

/* TIDE_E_INVALID: not one statement, or not SQL. TIDE_E_DENIED: not read-only. TIDE_E_TIMEOUT.
 * TIDE_E_INTERRUPTED: cancel_fd became readable. TIDE_E_LIMIT: more than row_max rows or bytes_max
 * bytes; the rows before were handed over. */
TIDE_MUST_CHECK tide_status tide_readonly_query_run(tide_store *store,
                                                    const tide_readonly_query *query,
                                                    tide_error *err);

/* The file of a SQLite store; NULL: another engine. Borrowed. */
const char *tide_readonly_query_file(const tide_store *store);

/* ---- a SQLite file that is opened for queries alone ---- */

typedef struct tide_readonly_db tide_readonly_db;

/* heap_max: bytes that SQLite may allocate in this process; 0: any number. */
TIDE_MUST_CHECK tide_status tide_readonly_db_open(tide_readonly_db **out, const char *path,
                                                  int64_t heap_max, tide_error *err);
void tide_readonly_db_close(tide_readonly_db *db); /* takes NULL */

/* Has the file been replaced since it was opened? Then open it anew. */
bool tide_readonly_db_is_stale(const tide_readonly_db *db);

/* As tide_readonly_query_run. TIDE_E_NOMEM: heap_max. */
TIDE_MUST_CHECK tide_status tide_readonly_db_query(tide_readonly_db *db,
                                                   const tide_readonly_query *query,
                                                   tide_error *err);
