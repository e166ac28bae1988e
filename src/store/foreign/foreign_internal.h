/* foreign_internal.h - what the files of foreign_db.h share. */
#pragma once

#include <pthread.h>
#include <sqlite3.h>

#include "store/foreign/foreign_db.h"
#include "store/identity_marker.h"
#include "store/sqlite/sqlite_statement.h"

enum { TIDE_FOREIGN_ID_SIZE = 37 };

typedef struct tide_foreign_triggers tide_foreign_triggers; /* foreign_triggers.c */

typedef struct tide_foreign_connection {
    tide_foreign_db *app;
    sqlite3 *db;
    int64_t busy_until_us;
    tide_sqlite_statements statements;
    tide_sqlite_statements guarded;       /* prepared while is_guarded */
    bool is_guarded;                      /* tables of the application are not written */
    tide_foreign_triggers *triggers;      /* NULL: none were copied yet */
    struct tide_foreign_connection *next; /* in the pool of readers */
} tide_foreign_connection;

struct tide_foreign_query {
    tide_foreign_tx *tx;
    tide_sqlite_statement *statement;
    sqlite3_stmt *handle; /* the statement's */
    int column;
    int parameter;                   /* that was bound last */
    struct tide_foreign_query *next; /* open ones of the transaction */
    struct tide_foreign_query **previous;
};

struct tide_foreign_tx {
    tide_foreign_connection *connection;
    bool is_write;
    tide_foreign_query *queries;
    int64_t mark; /* what the file says after the commit; 0: nothing was marked */
    int64_t epoch;
};

struct tide_foreign_db {
    char *path;
    char *name; /* as it was given */
    tide_env *env;
    tide_foreign_options options;
    char *vfs;
    char *state_dir;
    pthread_mutex_t write_lock;
    tide_foreign_connection *writer;
    pthread_mutex_t pool_lock;
    tide_foreign_connection *readers;
    pthread_mutex_t watch_lock;
    tide_foreign_connection *watcher; /* NULL: no wait so far */
    int watch_fd;
    int64_t watch_version;
    /* written under write_lock */
    char file_id[TIDE_FOREIGN_ID_SIZE]; /* "": not settled */
    tide_identity_marker *marker;       /* NULL: none is kept */
    char host[TIDE_FOREIGN_NOTE_SIZE];  /* of the file that was settled */
    int64_t seen_mark;                  /* after our last commit */
    int64_t seen_epoch;
    tide_foreign_fn *on_returned;
    void *on_returned_arg;
};

tide_status tide_foreign_fail(tide_error *err, const tide_foreign_connection *connection, int code);
TIDE_MUST_CHECK tide_status tide_foreign_connect(tide_foreign_connection **out,
                                                 tide_foreign_db *app, bool is_writer,
                                                 tide_error *err);
void tide_foreign_disconnect(tide_foreign_connection *connection);
TIDE_MUST_CHECK tide_status tide_foreign_run_script(tide_foreign_connection *connection,
                                                    const char *text, tide_error *err);
/* The one number that a short query answers; 0 where it answers nothing. */
TIDE_MUST_CHECK tide_status tide_foreign_number_of(tide_foreign_connection *connection,
                                                   const char *text, int64_t *out, tide_error *err);
/* One try, under write_lock: BEGIN IMMEDIATE, the closure, the mark, COMMIT. */
TIDE_MUST_CHECK tide_status tide_foreign_try_write(tide_foreign_db *app, tide_foreign_fn *fn,
                                                   void *arg, tide_error *err);
/* Empty a long log into the file, as far as readers allow. */
void tide_foreign_checkpoint(tide_foreign_connection *connection);

void tide_foreign_end_all(tide_foreign_tx *tx);

/* Is a write prepared only to see what its triggers write (foreign_triggers.c)? */
bool tide_foreign_is_collecting(const tide_foreign_connection *connection);
int tide_foreign_collect(tide_foreign_connection *connection, int action, const char *table,
                         const char *by);
/* A write transaction has ended. */
void tide_foreign_triggers_end(tide_foreign_connection *connection, bool is_committed);
void tide_foreign_triggers_free(tide_foreign_triggers *all);

/* At the beginning of a write transaction: is it still the file that was settled, and no older? */
TIDE_MUST_CHECK tide_status tide_foreign_recheck(tide_foreign_tx *tx, tide_error *err);
/* Raise the mark of a file that was settled; at the end of a write transaction. */
TIDE_MUST_CHECK tide_status tide_foreign_mark(tide_foreign_tx *tx, tide_error *err);
/* ... and repeat it outside, after the commit. */
void tide_foreign_write_marker(tide_foreign_db *app, const tide_foreign_tx *tx);
