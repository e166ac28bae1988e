/* pg_look_guard.h - what somebody's statement may use on PostgreSQL. See look.h.
 *
 * A read-only transaction still lets a statement read files of the server, take locks, change the session, or call a function that does any of it by
 * another's rights. Two walls stand before that:
 *
 *     the parts of the statement    the server is asked what each name in it means: the statement becomes the body of a function
 *                                   that is never called and rolled back, and functions and tables are read from its tree. So no
 *                                   spelling, quoting or search path leads around it
 *     the role tidemark_query       without login and powers, may read the store's tables alone; made when it is missing and the
 *                                   store's user may make roles. The statement runs under it. A table that is not the store's can be
 *                                   read too when its owner says so: GRANT SELECT ON it TO tidemark_query
 *
 * Where the role cannot be had the first wall stands alone. Needs PostgreSQL 14, and the right to make temporary things.
 *
 * Threads: as the connection. */
#pragma once

#include "store/postgres/pg_connection.h"

/* The statement begins as one that reads, and *inner is what has to be checked: all of it, what EXPLAIN is about, or NULL (SHOW).
 * TIDE_E_INVALID: no statement begins so. TIDE_E_DENIED: one that does more than read. */
TIDE_MUST_CHECK tide_status tide_pg_look_words(const char *sql, const char **inner,
                                               tide_error *err);

/* Outside of a transaction and of pipeline mode. *has_role: the statement can run under tidemark_query. TIDE_E_DENIED: names what is
 * refused. TIDE_E_INVALID: not SQL, or not one statement. */
TIDE_MUST_CHECK tide_status tide_pg_look_guard(tide_pg_connection *connection, const char *inner,
                                               int64_t timeout_us, bool *has_role, tide_error *err);
