/* sqlite_connection.h - one SQLite connection: settings, statements, time limits, errors as
 * statuses.
 *
 * Every connection runs in WAL mode with synchronous=FULL, foreign keys on, and no automatic
 * checkpoint: the writer is the one checkpointer. The last connection to be closed, of all
 * processes, empties the log into the file, so that a store that nobody uses is one file.
 * Statements are prepared once and kept. A query binds its values when it starts, so several
 * queries of one statement can wait for their turn; if the kept statement is busy, the query
 * prepares one of its own.
 *
 * Times: text `YYYY-MM-DD HH:MM:SS.ffffff`, which sorts as the times do.
 *
 * Threads: a connection belongs to one thread at a time (SQLite is built threadsafe=2). */
#pragma once

#include <sqlite3.h>

#include "store/engine.h"
#include "store/sqlite/sqlite_statement.h"

typedef struct tide_sqlite_connection {
    tide_store *store;
    sqlite3 *db;
    tide_sqlite_statements statements;
    tide_query_pool pool;
    tide_tx tx;              /* the one running transaction */
    int64_t busy_until_us;   /* monotonic; a busy lock is waited for until then */
    int64_t budget_until_us; /* monotonic; a statement running beyond it is stopped; 0: no limit */
    int64_t wal_frames;      /* of the last commit made here */
    bool is_checkpoint_wanted;           /* the schema has changed */
    struct tide_sqlite_connection *next; /* in the pool of readers */
} tide_sqlite_connection;

typedef enum tide_sqlite_role {
    TIDE_SQLITE_WRITER,
    TIDE_SQLITE_READER,
} tide_sqlite_role;

TIDE_MUST_CHECK tide_status tide_sqlite_connection_open(tide_sqlite_connection **out,
                                                        tide_store *store, const char *path,
                                                        tide_sqlite_role role, tide_error *err);
void tide_sqlite_connection_close(tide_sqlite_connection *connection);

/* Run statements that return nothing we want: BEGIN, COMMIT, pragmas. */
TIDE_MUST_CHECK tide_status tide_sqlite_exec(tide_sqlite_connection *connection, const char *text,
                                             tide_error *err);

/* The one value that a pragma or a short query answers, as text. */
enum { TIDE_SQLITE_VALUE_SIZE = 64 };
TIDE_MUST_CHECK tide_status tide_sqlite_ask(tide_sqlite_connection *connection, const char *text,
                                            char out[TIDE_SQLITE_VALUE_SIZE], tide_error *err);

/* Start the budget of a transaction's statements. */
void tide_sqlite_set_limits(tide_sqlite_connection *connection);

/* What an error code means for us; fills *err with SQLite's own words in front. */
tide_status tide_sqlite_fail(tide_error *err, sqlite3 *db, int code, const char *what);

/* For busy handlers. A foreign program's lock: short spins, then 0 at the stated monotonic time. */
int tide_sqlite_spin(tide_env *env, int64_t until_us, int tries);

/* The queries' half of tide_sqlite_ops (sqlite_query.c). */
tide_status tide_sqlite_prepare(tide_query *query, tide_error *err);
tide_status tide_sqlite_step(tide_query *query, tide_error *err);
tide_status tide_sqlite_keep(tide_query *query, tide_error *err);
void tide_sqlite_reset(tide_query *query);
int tide_sqlite_width(const tide_query *query);
tide_sql_value tide_sqlite_column(const tide_query *query, int index);

/* sqlite_bulk.c, sqlite_readonly_query.c: their part of tide_sqlite_ops. */
tide_status tide_sqlite_bulk_begin(tide_bulk *bulk, tide_error *err);
tide_status tide_sqlite_bulk_row(tide_bulk *bulk, const tide_sql_value *values, tide_error *err);
tide_status tide_sqlite_bulk_end(tide_bulk *bulk, bool is_kept, tide_error *err);
tide_status tide_sqlite_readonly_query(tide_store *store, const tide_readonly_query *query,
                                       tide_error *err);
