/* sqlite_store.c - a store in a SQLite file: opening, readers, description, check, backup.
 *
 * Readers have connections of their own and never wait for the writer: WAL gives each a snapshot. What
 * they see is on disk, because with synchronous=FULL a commit is synced before it becomes visible. */
#include <tidemark/store.h>

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "store/sqlite_connection.h"
#include "store/sqlite_file.h"
#include "store/sqlite_watch.h"
#include "store/sqlite_writer.h"
#include "tidemark_sql.h"

typedef struct sqlite_engine {
    char *path;
    tide_sqlite_writer *writer; /* NULL: opened as is */
    pthread_mutex_t lock;       /* of the readers */
    pthread_cond_t has_reader;
    tide_sqlite_connection *idle;
    int reader_count;
    tide_sqlite_watcher watcher;
} sqlite_engine;

/* ---- opening ---- */

/* The file is asked again, after the connection has read it: opening may have rolled a hot journal back. */
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

/* The mark goes into the header before WAL mode, so that a look at the first 100 bytes tells whose file it is. A
 * crash in between leaves a marked file in another mode: the next open finishes the work. */
static tide_status claim_file(tide_sqlite_connection *connection, const char *path, tide_error *err)
{
    char text[64];
    (void)snprintf(text, sizeof text, "PRAGMA application_id=%d", TIDE_SQLITE_APPLICATION_ID);
    TIDE_TRY(tide_sqlite_exec(connection, text, err));
    TIDE_TRY(tide_sqlite_exec(connection, "PRAGMA journal_mode=WAL", err));
    bool is_wal = false;
    TIDE_TRY(tide_sqlite_file_is_wal(&is_wal, path, err));
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

static tide_status open_writer(tide_store *store, sqlite_engine *engine, tide_error *err)
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

static tide_status sqlite_open(tide_store *store, const char *target, tide_error *err)
{
    const bool is_as_is = store->options.mode == TIDE_STORE_AS_IS;
    tide_sqlite_kind kind = TIDE_SQLITE_ABSENT;
    TIDE_TRY(tide_sqlite_inspect(&kind, target, is_as_is, err));
    if (kind == TIDE_SQLITE_ABSENT && store->options.mode != TIDE_STORE_CREATE)
        return tide_fail(err, TIDE_E_NOT_FOUND, "there is no Tidemark store at %s", target);
    sqlite_engine *engine = calloc(1, sizeof *engine);
    if (!engine)
        return tide_fail(err, TIDE_E_NOMEM, "no memory to open %s", target);
    (void)pthread_mutex_init(&engine->lock, NULL);
    (void)pthread_cond_init(&engine->has_reader, NULL);
    store->engine = engine;
    engine->path = strdup(target);
    if (!engine->path)
        return tide_fail(err, TIDE_E_NOMEM, "no memory to open %s", target);
    return is_as_is ? TIDE_OK : open_writer(store, engine, err);
}

static void sqlite_close(tide_store *store)
{
    sqlite_engine *engine = store->engine;
    tide_watcher_stop(&engine->watcher.watcher);
    tide_sqlite_writer_close(engine->writer);
    while (engine->idle) {
        tide_sqlite_connection *reader = engine->idle;
        engine->idle = reader->next;
        tide_sqlite_connection_close(reader);
    }
    (void)pthread_cond_destroy(&engine->has_reader);
    (void)pthread_mutex_destroy(&engine->lock);
    free(engine->path);
    free(engine);
}

/* ---- transactions ---- */

static tide_status sqlite_write(tide_store *store, tide_tx_fn *fn, void *arg, tide_error *err)
{
    return tide_sqlite_writer_submit(((sqlite_engine *)store->engine)->writer, fn, arg, err);
}

static tide_status take_reader(tide_sqlite_connection **out, tide_store *store, tide_error *err)
{
    sqlite_engine *engine = store->engine;
    (void)pthread_mutex_lock(&engine->lock);
    while (!engine->idle && engine->reader_count >= store->options.connection_max)
        (void)pthread_cond_wait(&engine->has_reader, &engine->lock);
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

static void give_reader(sqlite_engine *engine, tide_sqlite_connection *reader)
{
    (void)pthread_mutex_lock(&engine->lock);
    reader->next = engine->idle;
    engine->idle = reader;
    (void)pthread_cond_signal(&engine->has_reader);
    (void)pthread_mutex_unlock(&engine->lock);
}

static tide_status read_on(tide_sqlite_connection *reader, tide_tx_fn *fn, void *arg,
                           tide_error *err)
{
    tide_store *store = reader->store;
    tide_status status = tide_sqlite_exec(reader, "BEGIN", err);
    if (status >= TIDE_OK) {
        tide_tx_init(&reader->tx, store, reader, &reader->pool, false);
        status = tide_tx_run(&reader->tx, fn, arg, err);
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
    tide_sqlite_connection *reader = NULL;
    TIDE_TRY(take_reader(&reader, store, err));
    tide_sqlite_set_limits(reader);
    const tide_status status = read_on(reader, fn, arg, err);
    give_reader(store->engine, reader);
    return status;
}

static tide_status sqlite_watch(tide_store *store, tide_error *err)
{
    sqlite_engine *engine = store->engine;
    engine->watcher.path = engine->path;
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
    /* A schema belongs into the file itself: a copy made without the log is then old, and not empty. */
    connection->is_checkpoint_wanted = true;
    const int code = sqlite3_exec(connection->db, text, NULL, NULL, NULL);
    return code == SQLITE_OK ? TIDE_OK : tide_sqlite_fail(err, connection->db, code, "script");
}

static tide_status sqlite_host(tide_tx *tx, tide_host *out, tide_error *err)
{
    const sqlite_engine *engine = tx->store->engine;
    if (!tide_sqlite_file_host(engine->path, out->text, sizeof out->text))
        return tide_fail(err, TIDE_E_IO, "cannot look at %s: %s", engine->path, strerror(errno));
    out->is_standby = false;
    return TIDE_OK;
}

/* ---- description ---- */

typedef struct fact {
    const char *name;
    const char *pragma;
} fact;

/* The schema is read first: on a fresh connection PRAGMA journal_mode hides an I/O error behind "delete". */
static const fact pragma_facts[] = {
    {"schema_changes", "PRAGMA schema_version"},
    {"journal_mode", "PRAGMA journal_mode"},
    {"synchronous", "PRAGMA synchronous"},
    {"wal_autocheckpoint", "PRAGMA wal_autocheckpoint"},
    {"foreign_keys", "PRAGMA foreign_keys"},
    {"page_size", "PRAGMA page_size"},
    {"page_count", "PRAGMA page_count"},
    {"freelist_count", "PRAGMA freelist_count"},
};

static const char *name_value(const char *fact_name, const char *value)
{
    static const char *const levels[] = {"off", "normal", "full", "extra"};
    if (strcmp(fact_name, "synchronous") == 0 && value[0] >= '0' && value[0] <= '3')
        return levels[value[0] - '0'];
    return value;
}

static tide_status sqlite_describe(tide_store *store, tide_store_describe_fn *fn, void *arg,
                                   tide_error *err)
{
    fn(arg, "engine_version", sqlite3_libversion());
    tide_sqlite_connection *reader = NULL;
    TIDE_TRY(take_reader(&reader, store, err));
    tide_status status = TIDE_OK;
    for (size_t i = 0; i < sizeof pragma_facts / sizeof pragma_facts[0]; i++) {
        char value[TIDE_SQLITE_VALUE_SIZE];
        status = tide_sqlite_ask(reader, pragma_facts[i].pragma, value, err);
        if (status < TIDE_OK)
            break;
        fn(arg, pragma_facts[i].name, name_value(pragma_facts[i].name, value));
    }
    give_reader(store->engine, reader);
    fn(arg, "group_commit", store->options.is_inline ? "inline" : "writer thread");
    fn(arg, "door_lock", "on");
    return status;
}

/* ---- check ---- */

typedef struct finding_request {
    tide_store_finding_fn *fn;
    void *arg;
    int count;
} finding_request;

static tide_status look_for_damage(tide_tx *tx, void *arg, tide_error *err)
{
    finding_request *request = arg;
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    TIDE_TRY(tide_query_begin(&query, tx, TIDE_SQL_INTEGRITY_CHECK, err));
    tide_status status = TIDE_OK;
    while ((status = tide_query_step(query, err)) == TIDE_OK) {
        char text[512];
        const tide_view found = tide_col_text(query);
        (void)snprintf(text, sizeof text, "%.*s", (int)found.len, found.ptr);
        if (strcmp(text, "ok") == 0)
            continue;
        request->count++;
        request->fn(request->arg, text);
    }
    TIDE_TRY(status);
    TIDE_CLEANUP(tide_query_endp) tide_query *keys = NULL;
    TIDE_TRY(tide_query_begin(&keys, tx, TIDE_SQL_FOREIGN_KEY_CHECK, err));
    while ((status = tide_query_step(keys, err)) == TIDE_OK) {
        char text[512];
        const tide_view table = tide_col_text(keys);
        (void)snprintf(text, sizeof text, "a row of %.*s refers to nothing", (int)table.len,
                       table.ptr);
        request->count++;
        request->fn(request->arg, text);
    }
    return status < TIDE_OK ? status : TIDE_OK;
}

static tide_status sqlite_check(tide_store *store, tide_store_finding_fn *fn, void *arg,
                                tide_error *err)
{
    finding_request request = {.fn = fn, .arg = arg};
    tide_sqlite_connection *reader = NULL;
    TIDE_TRY(take_reader(&reader, store, err));
    tide_sqlite_set_limits(reader);
    reader->budget_until_us = 0; /* a large file takes what it takes */
    const tide_status status = read_on(reader, look_for_damage, &request, err);
    give_reader(store->engine, reader);
    if (status == TIDE_E_FOREIGN || status == TIDE_E_IO)
        return tide_fail_context(err, TIDE_E_DAMAGED, "%s cannot be read", store->name);
    TIDE_TRY(status);
    if (request.count > 0)
        return tide_fail(err, TIDE_E_DAMAGED, "%s: %d findings", store->name, request.count);
    return TIDE_OK;
}

/* ---- backup ---- */

static void closep(const int *fd)
{
    if (*fd >= 0)
        (void)close(*fd);
}

static tide_status sync_path(const char *path, int flags, tide_error *err)
{
    TIDE_CLEANUP(closep) int fd = open(path, flags | O_CLOEXEC);
    if (fd < 0 || fsync(fd) != 0)
        return tide_fail(err, TIDE_E_IO, "cannot sync %s: %s", path, strerror(errno));
    return TIDE_OK;
}

static tide_status sync_directory_of(const char *path, tide_error *err)
{
    TIDE_CLEANUP(tide_freep) char *directory = strdup(path);
    if (!directory)
        return tide_fail(err, TIDE_E_NOMEM, "no memory for a path");
    char *slash = strrchr(directory, '/');
    if (slash)
        slash[slash == directory ? 1 : 0] = '\0';
    return sync_path(slash ? directory : ".", O_RDONLY | O_DIRECTORY, err);
}

/* One statement reads one snapshot: VACUUM INTO writes it, compacted, to a file nobody else knows. */
static tide_status copy_into(tide_store *store, const char *path, tide_error *err)
{
    tide_sqlite_connection *reader = NULL;
    TIDE_TRY(take_reader(&reader, store, err));
    reader->budget_until_us = 0;
    char *text =
        sqlite3_mprintf("PRAGMA query_only=OFF; VACUUM INTO %Q; PRAGMA query_only=ON", path);
    const tide_status status = text ? tide_sqlite_exec(reader, text, err)
                                    : tide_fail(err, TIDE_E_NOMEM, "no memory for a backup");
    sqlite3_free(text);
    give_reader(store->engine, reader);
    return status;
}

/* link(2), not rename(2): it refuses to replace a file that appeared meanwhile. */
static tide_status publish(const char *from, const char *path, tide_error *err)
{
    TIDE_TRY(sync_path(from, O_RDWR, err));
    if (link(from, path) != 0)
        return tide_fail(err, errno == EEXIST ? TIDE_E_EXISTS : TIDE_E_IO,
                         "cannot name the backup %s: %s", path, strerror(errno));
    (void)unlink(from);
    return sync_directory_of(path, err);
}

static tide_status sqlite_backup(tide_store *store, const char *path, tide_error *err)
{
    if (access(path, F_OK) == 0)
        return tide_fail(err, TIDE_E_EXISTS, "%s exists already; a backup never overwrites", path);
    TIDE_TRY(tide_sqlite_check_directory(path, err));
    char part[4096];
    if (!tide_sqlite_backup_part(path, part, sizeof part))
        return tide_fail(err, TIDE_E_INVALID, "the path %.64s... is too long", path);
    (void)unlink(part);
    tide_status status = copy_into(store, part, err);
    if (status >= TIDE_OK)
        status = publish(part, path, err);
    if (status < TIDE_OK)
        (void)unlink(part);
    return status;
}

const tide_engine_ops tide_sqlite_ops = {
    .engine = TIDE_ENGINE_SQLITE,
    .name = "sqlite",
    .open = sqlite_open,
    .close = sqlite_close,
    .write = sqlite_write,
    .read = sqlite_read,
    .now = sqlite_now,
    .settle = tide_tx_settle_plainly,
    .script = sqlite_script,
    .host = sqlite_host,
    .describe = sqlite_describe,
    .check = sqlite_check,
    .backup = sqlite_backup,
    .watch = sqlite_watch,
    .prepare = tide_sqlite_prepare,
    .step = tide_sqlite_step,
    .keep = tide_sqlite_keep,
    .reset = tide_sqlite_reset,
    .column = tide_sqlite_column,
};
