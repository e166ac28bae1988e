/* sqlite_engine.h - what the files of the SQLite engine share: the engine itself and its
 * readers. */
#pragma once

#include "store/sqlite/sqlite_connection.h"
#include "store/sqlite/sqlite_watch.h"
#include "store/sqlite/sqlite_writer.h"

typedef struct tide_sqlite_engine {
    char *path;
    tide_sqlite_place place;    /* the file when it was opened; readers do not look at its log */
    char log_damage[160];       /* found before it was opened; "": none */
    tide_sqlite_writer *writer; /* NULL: opened as is */
    pthread_mutex_t lock;       /* of the readers */
    pthread_cond_t has_reader;
    tide_sqlite_connection *idle;
    int reader_count;
    tide_sqlite_watcher watcher;
} tide_sqlite_engine;

/* A connection for reading, with its limits started. TIDE_E_BUSY: all are in use for too long. */
TIDE_MUST_CHECK tide_status tide_sqlite_take_reader(tide_sqlite_connection **out, tide_store *store,
                                                    tide_error *err);
void tide_sqlite_give_reader(tide_sqlite_connection *reader);

/* One read transaction on a reader. */
TIDE_MUST_CHECK tide_status tide_sqlite_read_on(tide_sqlite_connection *reader, tide_tx_fn *fn,
                                                void *arg, tide_error *err);

/* sqlite_admin.c: the part of tide_sqlite_ops that looks after a store. */
tide_status tide_sqlite_describe(tide_store *store, tide_store_describe_fn *fn, void *arg,
                                 tide_error *err);
tide_status tide_sqlite_check(tide_store *store, tide_store_finding_fn *fn, void *arg,
                              tide_error *err);
tide_status tide_sqlite_backup(tide_store *store, const char *path, tide_error *err);
