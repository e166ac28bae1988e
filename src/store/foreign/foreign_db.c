#include "store/foreign/foreign_db.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/lock.h"
#include "store/foreign/foreign_internal.h"
#include "store/sqlite/sqlite_connection.h"
#include "store/sqlite/sqlite_file.h"

enum {
    WAIT_US = 10000000,
    FRAME_HEAD = 24,
    CHECKPOINT_FRAMES = 800,
    CACHE_KIB = 8192,
};

tide_status tide_foreign_fail(tide_error *err, const tide_foreign_connection *connection, int code)
{
    if (code == SQLITE_CONSTRAINT_DATATYPE) /* of a STRICT table: here no sum of ours */
        return tide_fail(err, TIDE_E_INVALID, "%s: %s", connection->app->name,
                         sqlite3_errmsg(connection->db));
    return tide_sqlite_fail(err, connection->db, code, connection->app->name);
}

tide_status tide_foreign_run_script(tide_foreign_connection *connection, const char *text,
                                    tide_error *err)
{
    const int code = sqlite3_exec(connection->db, text, NULL, NULL, NULL);
    return code == SQLITE_OK
               ? TIDE_OK
               : tide_foreign_fail(err, connection, sqlite3_extended_errcode(connection->db));
}

tide_status tide_foreign_number_of(tide_foreign_connection *connection, const char *text,
                                   int64_t *out, tide_error *err)
{
    sqlite3_stmt *statement = NULL;
    int code = sqlite3_prepare_v2(connection->db, text, -1, &statement, NULL);
    if (code == SQLITE_OK)
        code = sqlite3_step(statement);
    *out = code == SQLITE_ROW ? sqlite3_column_int64(statement, 0) : 0;
    while (code == SQLITE_ROW)
        code = sqlite3_step(statement);
    const tide_status status =
        code == SQLITE_DONE ? TIDE_OK : tide_foreign_fail(err, connection, code);
    (void)sqlite3_finalize(statement);
    return status;
}

/* ---- connections ---- */

static int wait_for_lock(void *arg, int tries)
{
    const tide_foreign_connection *connection = arg;
    return tide_sqlite_spin(connection->app->env, connection->busy_until_us, tries);
}

static void set_deadline(tide_foreign_connection *connection)
{
    const tide_foreign_db *app = connection->app;
    connection->busy_until_us = app->env->mono_us(app->env) + app->options.wait_us;
}

/* A REAL as a text has 17 digits since SQLite 3.52, 15 before. Indexes of expressions and generated
 * columns hold such texts: an application with an older SQLite would find ours damaged. */
static void write_reals_as_ever(sqlite3 *db)
{
#ifdef SQLITE_DBCONFIG_FP_DIGITS
    (void)sqlite3_db_config(db, SQLITE_DBCONFIG_FP_DIGITS, 15, NULL);
#else
    (void)db;
#endif
}

static bool is_ours(const char *table)
{
    return sqlite3_strnicmp(table, "tide_", 5) == 0 ||
           sqlite3_strnicmp(table, "replication_", 12) == 0 ||
           sqlite3_strnicmp(table, "sqlite_", 7) == 0;
}

/* Set once per connection, because SQLite prepares all statements again when an authorizer is set.
 * What a guarded transaction prepares is in a cache of its own. */
static int authorize(void *arg, int action, const char *first, const char *second,
                     const char *database, const char *trigger)
{
    tide_foreign_connection *connection = arg;
    (void)second;
    (void)database;
    if (tide_foreign_is_collecting(connection))
        return tide_foreign_collect(connection, action, first, trigger);
    if (!connection->is_guarded)
        return SQLITE_OK;
    switch (action) {
    case SQLITE_INSERT:
    case SQLITE_UPDATE:
    case SQLITE_DELETE:
    case SQLITE_DROP_TABLE:
        return is_ours(first) ? SQLITE_OK : SQLITE_DENY;
    case SQLITE_ALTER_TABLE:
        return SQLITE_DENY;
    default:
        return SQLITE_OK;
    }
}

static tide_status configure(tide_foreign_connection *connection, bool is_writer, tide_error *err)
{
    sqlite3 *db = connection->db;
    write_reals_as_ever(db);
    (void)sqlite3_extended_result_codes(db, 1);
    (void)sqlite3_busy_handler(db, wait_for_lock, connection);
    (void)sqlite3_set_authorizer(db, authorize, connection);
    (void)sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL);
    (void)sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_FKEY, 0, NULL);
    (void)sqlite3_db_config(db, SQLITE_DBCONFIG_DQS_DDL, 1, NULL);
    (void)sqlite3_db_config(db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    set_deadline(connection);
    char text[256];
    (void)snprintf(text, sizeof text,
                   "PRAGMA synchronous=FULL; PRAGMA wal_autocheckpoint=0; PRAGMA cache_size=-%d;"
                   "PRAGMA temp_store=MEMORY;%s",
                   CACHE_KIB, is_writer ? "" : "PRAGMA query_only=ON;");
    return tide_foreign_run_script(connection, text, err);
}

void tide_foreign_disconnect(tide_foreign_connection *connection)
{
    if (!connection)
        return;
    tide_sqlite_statements_done(&connection->statements);
    tide_sqlite_statements_done(&connection->guarded);
    tide_foreign_triggers_free(connection->triggers);
    (void)sqlite3_close(connection->db);
    free(connection);
}

tide_status tide_foreign_connect(tide_foreign_connection **out, tide_foreign_db *app,
                                 bool is_writer, tide_error *err)
{
    TIDE_NEW(tide_foreign_connection, connection, err);
    connection->app = app;
    const bool is_read_only = app->options.is_as_is && access(app->path, W_OK) != 0;
    char *uri = is_read_only && tide_sqlite_is_still(app->path)
                    ? tide_sqlite_immutable_uri(app->path)
                    : NULL;
    const int flags = (is_read_only ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE) |
                      (app->options.is_new && is_writer ? SQLITE_OPEN_CREATE : 0) |
                      (uri ? SQLITE_OPEN_URI : 0) | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
    const int code = sqlite3_open_v2(uri ? uri : app->path, &connection->db, flags, app->vfs);
    sqlite3_free(uri);
    tide_status status = code == SQLITE_OK ? TIDE_OK : tide_foreign_fail(err, connection, code);
    if (status == TIDE_OK)
        status = configure(connection, is_writer, err);
    if (status < TIDE_OK) {
        tide_foreign_disconnect(connection);
        return status;
    }
    *out = connection;
    return TIDE_OK;
}

void tide_foreign_checkpoint(tide_foreign_connection *connection)
{
    char log[4096];
    struct stat info;
    if (snprintf(log, sizeof log, "%s-wal", connection->app->path) >= (int)sizeof log ||
        stat(log, &info) != 0)
        return;
    int64_t page_size = 0;
    if (tide_foreign_number_of(connection, "PRAGMA page_size", &page_size, NULL) < TIDE_OK ||
        info.st_size < CHECKPOINT_FRAMES * (page_size + FRAME_HEAD))
        return;
    (void)sqlite3_wal_checkpoint_v2(connection->db, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
}

/* ---- opening ---- */

static tide_status check_kind(const char *path, bool is_new, tide_error *err)
{
    struct stat info;
    if (stat(path, &info) != 0) {
        if (errno != ENOENT && errno != ENOTDIR)
            return tide_fail(err, TIDE_E_DENIED, "cannot open %s: %s", path, strerror(errno));
        if (!is_new)
            return tide_fail(err, TIDE_E_NOT_FOUND, "there is no database %s", path);
        return tide_sqlite_check_directory(path, err);
    }
    if (!S_ISREG(info.st_mode))
        return tide_fail(err, TIDE_E_INVALID, "%s is %s, not a database", path,
                         S_ISDIR(info.st_mode) ? "a directory" : "no plain file");
    if (info.st_nlink > 1)
        return tide_fail(err, TIDE_E_INVALID,
                         "%s has several names (hard links), and SQLite keeps a log for each",
                         path);
    return TIDE_OK;
}

/* Readable, not a store of our own, in WAL mode unless nothing may change. */
static tide_status check_inside(tide_foreign_db *app, tide_error *err)
{
    tide_foreign_connection *writer = app->writer;
    int64_t tables = 0;
    int64_t id = 0;
    TIDE_TRY(tide_foreign_number_of(writer, "SELECT count(*) FROM sqlite_master", &tables, err));
    TIDE_TRY(tide_foreign_number_of(writer, "PRAGMA application_id", &id, err));
    if (id == TIDE_SQLITE_APPLICATION_ID)
        return tide_fail(err, TIDE_E_FOREIGN,
                         "%s is a store of Tidemark's own, not an application's database",
                         app->name);
    sqlite3_stmt *statement = NULL;
    int code = sqlite3_prepare_v2(
        writer->db, app->options.is_as_is ? "PRAGMA encoding" : "PRAGMA journal_mode=WAL", -1,
        &statement, NULL);
    if (code == SQLITE_OK)
        code = sqlite3_step(statement);
    const char *mode = code == SQLITE_ROW ? (const char *)sqlite3_column_text(statement, 0) : NULL;
    const bool is_wal = app->options.is_as_is || (mode && strcmp(mode, "wal") == 0);
    while (code == SQLITE_ROW)
        code = sqlite3_step(statement);
    const tide_status status = code == SQLITE_DONE ? TIDE_OK : tide_foreign_fail(err, writer, code);
    (void)sqlite3_finalize(statement);
    if (status == TIDE_OK && !is_wal)
        return tide_fail(err, TIDE_E_UNSUPPORTED, "%s cannot be switched to a write-ahead log",
                         app->name);
    return status;
}

static tide_status prepare_app(tide_foreign_db *app, const char *path,
                               const tide_foreign_options *options, tide_error *err)
{
    if (options)
        app->options = *options;
    app->env = app->options.env ? app->options.env : tide_env_system();
    if (app->options.wait_us == 0)
        app->options.wait_us = WAIT_US;
    app->watch_fd = -1;
    /* A closure that writes to its own file would wait for itself: it fails instead. */
    pthread_mutexattr_t kind;
    (void)pthread_mutexattr_init(&kind);
    (void)pthread_mutexattr_settype(&kind, PTHREAD_MUTEX_ERRORCHECK);
    (void)pthread_mutex_init(&app->write_lock, &kind);
    (void)pthread_mutexattr_destroy(&kind);
    (void)pthread_mutex_init(&app->pool_lock, NULL);
    (void)pthread_mutex_init(&app->watch_lock, NULL);
    app->name = strdup(path);
    app->path = tide_sqlite_full_path(path);
    if (app->options.vfs)
        app->vfs = strdup(app->options.vfs);
    if (app->options.state_dir)
        app->state_dir = strdup(app->options.state_dir);
    if (!app->name || (app->options.vfs && !app->vfs) ||
        (app->options.state_dir && !app->state_dir))
        return tide_no_memory(err);
    if (!app->path)
        return tide_fail(err, TIDE_E_NOT_FOUND, "there is no database %s", path);
    return TIDE_OK;
}

tide_status tide_foreign_open(tide_foreign_db **out, const char *path,
                              const tide_foreign_options *options, tide_error *err)
{
    *out = NULL;
    const bool is_new = options && options->is_new;
    if (!(options && options->vfs))
        TIDE_TRY(check_kind(path, is_new, err));
    TIDE_CLEANUP(tide_foreign_closep) TIDE_NEW(tide_foreign_db, app, err);
    TIDE_TRY(prepare_app(app, path, options, err));
    TIDE_TRY(tide_foreign_connect(&app->writer, app, true, err));
    TIDE_TRY(check_inside(app, err));
    *out = TIDE_TAKE(app);
    return TIDE_OK;
}

void tide_foreign_close(tide_foreign_db *app)
{
    if (!app)
        return;
    while (app->readers) {
        tide_foreign_connection *reader = app->readers;
        app->readers = reader->next;
        tide_foreign_disconnect(reader);
    }
    tide_foreign_disconnect(app->watcher);
    tide_foreign_disconnect(app->writer);
    if (app->watch_fd >= 0)
        (void)close(app->watch_fd);
    (void)pthread_mutex_destroy(&app->write_lock);
    (void)pthread_mutex_destroy(&app->pool_lock);
    (void)pthread_mutex_destroy(&app->watch_lock);
    tide_identity_marker_close(app->marker);
    free(app->vfs);
    free(app->state_dir);
    free(app->path);
    free(app->name);
    free(app);
}

const char *tide_foreign_path(const tide_foreign_db *app)
{
    return app->path;
}

tide_env *tide_foreign_env(const tide_foreign_db *app)
{
    return app->env;
}

tide_foreign_db *tide_foreign_of(tide_foreign_tx *tx)
{
    return tx->connection->app;
}

/* ---- transactions ---- */

static void roll_back(tide_foreign_connection *connection)
{
    if (!sqlite3_get_autocommit(connection->db))
        (void)sqlite3_exec(connection->db, "ROLLBACK", NULL, NULL, NULL);
}

static tide_status commit(tide_foreign_connection *connection, tide_error *err)
{
    const int code = sqlite3_exec(connection->db, "COMMIT", NULL, NULL, NULL);
    if (code == SQLITE_OK)
        return TIDE_OK;
    const int extended = sqlite3_extended_errcode(connection->db);
    tide_error cause = {.status = TIDE_OK};
    const tide_status status = tide_foreign_fail(&cause, connection, extended);
    const bool is_whole = !sqlite3_get_autocommit(connection->db);
    roll_back(connection);
    /* Busy, and the transaction still stands: nothing was written. */
    if (status == TIDE_E_BUSY && is_whole)
        return tide_fail(err, TIDE_E_BUSY, "%s", cause.text);
    return tide_fail(err, TIDE_E_OUTCOME_UNKNOWN, "commit: %s", cause.text);
}

tide_status tide_foreign_try_write(tide_foreign_db *app, tide_foreign_fn *fn, void *arg,
                                   tide_error *err)
{
    tide_foreign_connection *writer = app->writer;
    tide_foreign_tx tx = {.connection = writer, .is_write = true};
    TIDE_TRY(tide_foreign_run_script(writer, "BEGIN IMMEDIATE", err));
    const int64_t changes = sqlite3_total_changes64(writer->db);
    tide_status status = tide_foreign_recheck(&tx, err);
    if (status >= TIDE_OK)
        status = fn(&tx, arg, err);
    tide_foreign_end_all(&tx);
    tide_foreign_guard(&tx, false);
    const bool is_undone = sqlite3_get_autocommit(writer->db) != 0;
    if (is_undone || status < TIDE_OK)
        tide_foreign_triggers_end(writer, false);
    if (status >= TIDE_OK && is_undone)
        return tide_fail(err, TIDE_E_FULL, "%s: SQLite has undone the transaction", app->name);
    const tide_status done = status;
    if (status >= TIDE_OK && sqlite3_total_changes64(writer->db) != changes)
        status = tide_foreign_mark(&tx, err);
    if (status < TIDE_OK) {
        tide_foreign_triggers_end(writer, false);
        roll_back(writer);
        return status;
    }
    status = commit(writer, err);
    tide_foreign_triggers_end(writer, status >= TIDE_OK);
    TIDE_TRY(status);
    tide_foreign_write_marker(app, &tx);
    return done;
}

tide_status tide_foreign_write(tide_foreign_db *app, tide_foreign_fn *fn, void *arg,
                               tide_error *err)
{
    const int locked = pthread_mutex_lock(&app->write_lock);
    assert(locked == 0 && "a closure does not write to its own file");
    (void)locked;
    set_deadline(app->writer);
    tide_status status = TIDE_OK;
    do
        status = tide_foreign_try_write(app, fn, arg, err);
    while (status == TIDE_E_BUSY && app->env->mono_us(app->env) < app->writer->busy_until_us);
    if (status >= TIDE_OK)
        tide_foreign_checkpoint(app->writer);
    (void)pthread_mutex_unlock(&app->write_lock);
    return status;
}

static tide_status acquire_reader(tide_foreign_connection **out, tide_foreign_db *app,
                                  tide_error *err)
{
    (void)pthread_mutex_lock(&app->pool_lock);
    tide_foreign_connection *reader = app->readers;
    if (reader)
        app->readers = reader->next;
    (void)pthread_mutex_unlock(&app->pool_lock);
    *out = reader;
    return reader ? TIDE_OK : tide_foreign_connect(out, app, false, err);
}

static void give_reader(tide_foreign_connection *reader)
{
    tide_foreign_db *app = reader->app;
    TIDE_HOLD(&app->pool_lock);
    reader->next = app->readers;
    app->readers = reader;
}

tide_status tide_foreign_read(tide_foreign_db *app, tide_foreign_fn *fn, void *arg, tide_error *err)
{
    tide_foreign_connection *reader = NULL;
    TIDE_TRY(acquire_reader(&reader, app, err));
    set_deadline(reader);
    tide_foreign_tx tx = {.connection = reader};
    tide_status status = tide_foreign_run_script(reader, "BEGIN", err);
    if (status == TIDE_OK)
        status = fn(&tx, arg, err);
    tide_foreign_end_all(&tx);
    roll_back(reader);
    give_reader(reader);
    return status;
}
