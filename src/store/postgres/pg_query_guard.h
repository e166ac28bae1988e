/* pg_query_guard.h - what the SQL of a caller may use on PostgreSQL (readonly_query.h).
 *
 * In a read-only transaction a statement can still read files of the server, lock, change the
 * session, or call a function that does so with the rights of another role. Two checks prevent
 * that:
 *
 *     names    The statement becomes the body of a function that is never called and is rolled
 *              back. The server itself has resolved every function and table in it, so no spelling,
 *              quoting or search path leads around the check.
 *     role     The statement runs as tidemark_query, a role without login and powers that may read
 *              the store's tables alone. It is created if it is missing and the store's user may
 *              create roles. The owner of another table admits it by GRANT SELECT ON TABLE TO
 *              tidemark_query.
 *
 * Without the role the names alone are checked. Needs PostgreSQL 14 and TEMPORARY on the database.
 *
 * Threads: as the connection. */
#pragma once

#include "store/postgres/pg_connection.h"

/* By its first keyword the statement reads. *inner is the part whose names are checked: all of it,
 * what EXPLAIN is about, or NULL (SHOW).
 * TIDE_E_INVALID: no statement begins so. TIDE_E_DENIED: it does more than read. */
TIDE_MUST_CHECK tide_status tide_pg_query_guard_text(const char *sql, const char **inner,
                                                     tide_error *err);

/* Outside of transactions and of pipeline mode. *has_role: the statement can run as tidemark_query.
 * TIDE_E_DENIED: names what is refused. TIDE_E_INVALID: not SQL, or not one statement. */
TIDE_MUST_CHECK tide_status tide_pg_query_guard_names(tide_pg_connection *connection,
                                                      const char *inner, int64_t timeout_us,
                                                      bool *has_role, tide_error *err);
