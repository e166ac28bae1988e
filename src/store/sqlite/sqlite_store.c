/* sqlite_store.c - a store in a SQLite file: opening, closing, writers and readers.
 *
 * Readers have connections of their own and never wait for the writer: WAL gives each a snapshot.
 * What they see is on disk, because with synchronous=FULL a commit is synced before it becomes
 * visible. */
#include <tidemark/store.h>

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cond_wait.h"
#include "store/identity_marker.h"
#include "store/sqlite/sqlite_engine.h"
#include "store/sqlite/sqlite_file.h"
#include "store/sqlite/sqlite_wal.h"

/* ---- opening ---- */

/* The file is asked again, after the connection has read it: opening may have rolled a hot journal
 * back. */
static tide_status ask_claimed(bool *is_claimed, tide_sqlite_connection *connection,
                               const char *path, tide_error *err)
{
    char mark[TIDE_SQLITE_VALUE_SIZE];
    char tables[TIDE_SQLITE_VALUE_SIZE];
    TIDE_TRY(tide_sqlite_ask(connection, "SELECT count(*) FROM sqlite_master", tables, err));
    TIDE_TRY(tide_sqlite_ask(connection, "PRAGMA application_id", mark, err));
    const bool is_ours = strtol(mark, NULL, 10) == TIDE_SQLITE_APPLICATION_ID;
    if (!is_ours && strcmp(tables, "0") != 0)
        return tide_fail(err, TIDE_E_FOREIGN, "%s is a SQLite database of another program",
                         connection->store->name);
    TIDE_TRY(tide_sqlite_file_is_wal(is_claimed, path, err));
    *is_claimed = *is_claimed && is_ours;
    return TIDE_OK;
}

/* The mark goes into the header before WAL mode, so that a look at the first 100 bytes tells whose
 * file it is. A crash in between leaves a marked file in another mode: the next open finishes the
 * work. Free pages can be given back (PRAGMA incremental_vacuum) only if that is said before the
 * first write. */
static tide_status claim_file(tide_sqlite_connection *connection, const char *path, tide_error *err)
{
    char text[64];
    TIDE_TRY(tide_sqlite_exec(connection, "PRAGMA auto_vacuum=INCREMENTAL", err));
    (void)snprintf(text, sizeof text, "PRAGMA application_id=%d", TIDE_SQLITE_APPLICATION_ID);
    TIDE_TRY(tide_sqlite_exec(connection, text, err));
    TIDE_TRY(tide_sqlite_exec(connection, "PRAGMA journal_mode=WAL", err));
    bool is_wal = false;
    TIDE_TRY(tide_sqlite_file_is_wal(&is_wal, path, err));
    if (!is_wal) {
        /* After a power cut the beginning of a log can exist, and the switch to WAL mode be undone
         * by its journal. SQLite opens a log that it finds, and takes the file for switched. */
        TIDE_TRY(tide_sqlite_exec(connection, "PRAGMA journal_mode=DELETE", err));
        TIDE_TRY(tide_sqlite_exec(connection, "PRAGMA journal_mode=WAL", err));
        TIDE_TRY(tide_sqlite_file_is_wal(&is_wal, path, err));
    }
    if (!is_wal)
        return tide_fail(err, TIDE_E_BUSY, "%s could not be switched to WAL mode",
                         connection->store->name);
    return TIDE_OK;
}

static tide_status claim_when_new(tide_sqlite_connection *connection, const char *path,
                                  tide_error *err)
{
    bool is_claimed = false;
    TIDE_TRY(ask_claimed(&is_claimed, connection, path, err));
    return is_claimed ? TIDE_OK : claim_file(connection, path, err);
}

static tide_status open_writer(tide_store *store, tide_sqlite_engine *engine, tide_error *err)
{
    TIDE_TRY(tide_sqlite_writer_open(&engine->writer, store, engine->path, err));
    tide_sqlite_connection *connection = tide_sqlite_writer_connection(engine->writer);
    bool is_claimed = false;
    tide_sqlite_set_limits(connection);
    TIDE_TRY(ask_claimed(&is_claimed, connection, engine->path, err));
    if (is_claimed)
        return TIDE_OK;
    tide_env *env = store->env;
    tide_sqlite_door *door = tide_sqlite_writer_door(engine->writer);
    TIDE_TRY(tide_sqlite_door_enter(door, env, env->mono_us(env) + store->options.wait_us, err));
    const tide_status status = claim_when_new(connection, engine->path, err);
    tide_sqlite_door_leave(door);
    return status;
}

/* A log that SQLite will not read to its end is copied first: SQLite overwrites it. Whether
 * something was lost is proven by the log itself, or told by the identity marker. */
static tide_status check_log(tide_sqlite_engine *engine, bool is_as_is, tide_error *err)
{
    tide_sqlite_wal wal;
    const tide_status status = tide_sqlite_wal_scan(&wal, engine->path, err);
    if (status != TIDE_OK)
        return status < TIDE_OK ? status : TIDE_OK;
    tide_error copy_err;
    const bool is_cut = wal.is_header_bad || wal.bad_frame > 0;
    const tide_status copied = wal.is_damaged || (is_cut && !is_as_is)
                                   ? tide_sqlite_wal_copy(engine->path, &copy_err)
                                   : TIDE_OK;
    if (!wal.is_damaged)
        return TIDE_OK;
    if (copied < TIDE_OK && !is_as_is) {
        *err = copy_err;
        return copied;
    }
    if (wal.is_header_bad)
        (void)snprintf(engine->log_damage, sizeof engine->log_damage,
                       "the header of the log was damaged, before %" PRId64 " frames", wal.frames);
    else
        (void)snprintf(engine->log_damage, sizeof engine->log_damage,
                       "frame %" PRId64 " of %" PRId64 " of the log was damaged, %" PRId64
                       " were whole",
                       wal.bad_frame, wal.frames, wal.good);
    return TIDE_OK;
}

static void sqlite_keep_log(tide_store *store, int64_t epoch)
{
    tide_sqlite_engine *engine = store->engine;
    tide_sqlite_wal_keep(engine->path, epoch);
    engine->log_damage[0] = '\0'; /* it has its epoch now */
}

static tide_status sqlite_open(tide_store *store, const char *target, tide_error *err)
{
    const bool is_as_is = store->options.mode == TIDE_STORE_AS_IS;
    tide_sqlite_kind kind = TIDE_SQLITE_ABSENT;
    TIDE_TRY(tide_sqlite_inspect(&kind, target, is_as_is, err));
    if (kind == TIDE_SQLITE_ABSENT && store->options.mode != TIDE_STORE_CREATE)
        return tide_fail(err, TIDE_E_NOT_FOUND, "there is no Tidemark store at %s", target);
    tide_sqlite_engine *engine = calloc(1, sizeof *engine);
    if (!engine)
        return tide_no_memory(err);
    (void)pthread_mutex_init(&engine->lock, NULL);
    (void)pthread_cond_init(&engine->has_reader, NULL);
    store->engine = engine;
    engine->path = tide_sqlite_full_path(target);
    engine->watcher.path = engine->path; /* before any thread could look */
    if (!engine->path)
        return tide_fail(err, TIDE_E_INVALID, "cannot find out where %s is: %s", target,
                         strerror(errno));
    TIDE_TRY(check_log(engine, is_as_is, err));
    if (!is_as_is)
        TIDE_TRY(open_writer(store, engine, err));
    engine->place.file = tide_sqlite_place_of(engine->path).file;
    return TIDE_OK;
}

static void sqlite_close(tide_store *store)
{
    tide_sqlite_engine *engine = store->engine;
    tide_watcher_stop(&engine->watcher.watcher);
    tide_sqlite_writer_close(engine->writer);
    while (engine->idle) {
        tide_sqlite_connection *reader = engine->idle;
        engine->idle = reader->next;
        tide_sqlite_connection_close(reader);
    }
    /* The last to close it, of all processes, has emptied the log into the file. */
    char log[PATH_MAX];
    (void)snprintf(log, sizeof log, "%s-wal", engine->path ? engine->path : "");
    if (store->marker && access(log, F_OK) != 0)
        tide_identity_marker_set_logged(store->marker, false);
    (void)pthread_cond_destroy(&engine->has_reader);
    (void)pthread_mutex_destroy(&engine->lock);
    free(engine->path);
    free(engine);
}

/* ---- transactions ---- */

static tide_status sqlite_write(tide_store *store, tide_tx_fn *fn, void *arg, tide_error *err)
{
    return tide_sqlite_writer_submit(((tide_sqlite_engine *)store->engine)->writer, fn, arg, err);
}

tide_status tide_sqlite_take_reader(tide_sqlite_connection **out, tide_store *store,
                                    tide_error *err)
{
    tide_sqlite_engine *engine = store->engine;
    const int64_t until_us = tide_cond_until(store->options.wait_us);
    bool is_patient = true;
    (void)pthread_mutex_lock(&engine->lock);
    while (!engine->idle && engine->reader_count >= store->options.connection_max && is_patient)
        is_patient = tide_cond_wait(&engine->has_reader, &engine->lock, until_us);
    if (!engine->idle && engine->reader_count >= store->options.connection_max) {
        (void)pthread_mutex_unlock(&engine->lock);
        return tide_fail(err, TIDE_E_BUSY, "all %d readers of %s have been in use for too long",
                         store->options.connection_max, store->name);
    }
    tide_sqlite_connection *reader = engine->idle;
    if (reader)
        engine->idle = reader->next;
    else
        engine->reader_count++;
    (void)pthread_mutex_unlock(&engine->lock);
    if (reader) {
        *out = reader;
        return TIDE_OK;
    }
    const tide_status status =
        tide_sqlite_connection_open(out, store, engine->path, TIDE_SQLITE_READER, err);
    if (status < TIDE_OK) {
        (void)pthread_mutex_lock(&engine->lock);
        engine->reader_count--;
        (void)pthread_cond_signal(&engine->has_reader);
        (void)pthread_mutex_unlock(&engine->lock);
    }
    return status;
}

void tide_sqlite_give_reader(tide_sqlite_connection *reader)
{
    tide_sqlite_engine *engine = reader->store->engine;
    (void)pthread_mutex_lock(&engine->lock);
    reader->next = engine->idle;
    engine->idle = reader;
    (void)pthread_cond_signal(&engine->has_reader);
    (void)pthread_mutex_unlock(&engine->lock);
}

tide_status tide_sqlite_read_on(tide_sqlite_connection *reader, tide_tx_fn *fn, void *arg,
                                tide_error *err)
{
    tide_store *store = reader->store;
    tide_status status = tide_sqlite_exec(reader, "BEGIN", err);
    if (status >= TIDE_OK) {
        tide_tx_init(&reader->tx, store, reader, &reader->pool, false);
        status = tide_tx_run(&reader->tx, fn, arg, err);
        if (status >= TIDE_OK) {
            const tide_status completed = tide_tx_complete_plainly(&reader->tx, err);
            if (completed < TIDE_OK)
                status = completed;
        }
        tide_tx_done(&reader->tx);
        tide_error ignored;
        TIDE_IGNORE(tide_sqlite_exec(reader, "ROLLBACK", &ignored));
    }
    return status;
}

static tide_status sqlite_read(tide_store *store, tide_tx_fn *fn, void *arg, bool is_local,
                               tide_error *err)
{
    (void)is_local; /* visible means synced here */
    const tide_sqlite_engine *engine = store->engine;
    /* A reader of a file that was replaced would follow a history that has ended, without
     * noticing. */
    if (tide_sqlite_place_is_left(&engine->place, engine->path))
        return tide_fail(err, TIDE_E_DAMAGED,
                         "%s was moved, replaced or deleted while open; open it again",
                         store->name);
    tide_sqlite_connection *reader = NULL;
    TIDE_TRY(tide_sqlite_take_reader(&reader, store, err));
    assert(reader);
    tide_sqlite_set_limits(reader);
    const tide_status status = tide_sqlite_read_on(reader, fn, arg, err);
    tide_sqlite_give_reader(reader);
    return status;
}

static tide_status sqlite_watch(tide_store *store, tide_error *err)
{
    tide_sqlite_engine *engine = store->engine;
    return tide_watcher_start(&engine->watcher.watcher, store, tide_sqlite_watch, err);
}

static tide_status sqlite_now(tide_tx *tx, tide_error *err)
{
    (void)err;
    tx->now_us = tx->store->env->wall_us(tx->store->env);
    return TIDE_OK;
}

static tide_status sqlite_script(tide_tx *tx, const char *text, tide_error *err)
{
    tide_sqlite_connection *connection = tx->connection;
    /* A schema belongs into the file itself: a copy made without the log is then old, and not
     * empty. */
    connection->is_checkpoint_wanted = true;
    const int code = sqlite3_exec(connection->db, text, NULL, NULL, NULL);
    return code == SQLITE_OK ? TIDE_OK : tide_sqlite_fail(err, connection->db, code, "script");
}

static tide_status sqlite_host(tide_tx *tx, tide_host *out, tide_error *err)
{
    const tide_sqlite_engine *engine = tx->store->engine;
    if (!tide_sqlite_file_host(engine->path, out->text, sizeof out->text))
        return tide_fail(err, TIDE_E_IO, "cannot look at %s: %s", engine->path, strerror(errno));
    out->is_standby = false;
    memcpy(out->log_damage, engine->log_damage, sizeof out->log_damage);
    return TIDE_OK;
}

const tide_engine_ops tide_sqlite_ops = {
    .engine = TIDE_ENGINE_SQLITE,
    .name = "sqlite",
    .open = sqlite_open,
    .close = sqlite_close,
    .write = sqlite_write,
    .read = sqlite_read,
    .now = sqlite_now,
    .take_counters = tide_tx_take_counters_plainly,
    .script = sqlite_script,
    .keep_log = sqlite_keep_log,
    .host = sqlite_host,
    .describe = tide_sqlite_describe,
    .check = tide_sqlite_check,
    .backup = tide_sqlite_backup,
    .watch = sqlite_watch,
    .prepare = tide_sqlite_prepare,
    .step = tide_sqlite_step,
    .keep = tide_sqlite_keep,
    .reset = tide_sqlite_reset,
    .width = tide_sqlite_width,
    .column = tide_sqlite_column,
    .bulk_begin = tide_sqlite_bulk_begin,
    .bulk_row = tide_sqlite_bulk_row,
    .bulk_end = tide_sqlite_bulk_end,
    .readonly_query = tide_sqlite_readonly_query,
};
