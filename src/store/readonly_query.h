/* readonly_query.h - somebody's own SQL over a store: one statement, which only reads, within limits.
 *
 *     SQLite       a reader's connection. A guard is asked about every part of the statement while it is prepared: reading is
 *                  let through, everything else (writing, settings, other files, extensions) is refused
 *     PostgreSQL   a connection of its own, closed afterwards, in a READ ONLY transaction; one statement (extended protocol) that
 *                  begins as SELECT, WITH, VALUES, TABLE, EXPLAIN or SHOW, names no function that may do something and no table that
 *                  is not ours, and runs under a role without powers where there can be one (pg_look_guard.h)
 *
 * Values have the kinds of the engine's types: integers I64, floating numbers F64, truth values BOOL (PostgreSQL), bytes BLOB; all else,
 * times included ('YYYY-MM-DD HH:MM:SS.ffffff', UTC), TEXT.
 *
 * Survives: nothing to survive. Threads: any. Memory: one row at a time, which is no longer than bytes_max. */
#ifndef TIDE_STORE_READONLY_QUERY_H
#define TIDE_STORE_READONLY_QUERY_H

#include "store/engine.h"

enum { TIDE_LOOK_COLUMNS_MAX = 1000 };

struct tide_readonly_query {
    const char *sql;
    int64_t row_max;
    int64_t bytes_max; /* of all values together */
    int64_t timeout_us;
    /* Once, before the rows; a failure ends the look and is returned. */
    tide_status (*columns)(void *arg, const char *const *names, int count, tide_error *err);
    /* Values are borrowed for the call. */
    tide_status (*row)(void *arg, const tide_sql_value *values, int count, tide_error *err);
    void *arg;
};

/* TIDE_E_INVALID: not one statement, or not SQL. TIDE_E_DENIED: it would do more than read. TIDE_E_TIMEOUT. TIDE_E_LIMIT: there is
 * more than row_max rows or bytes_max bytes; what came before was handed over. */
TIDE_MUST_CHECK tide_status tide_store_look(tide_store *store, const tide_readonly_query *look,
                                            tide_error *err);

#endif
