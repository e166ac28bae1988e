#include "store/duckdb/duckdb.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/lock.h"
#include "store/duckdb/duckdb_internal.h"

/* ---- what went wrong ---- */

static tide_status status_of(duckdb_error_type type, const char *text)
{
    if (strstr(text, "No space left") || strstr(text, "Disk quota exceeded"))
        return TIDE_E_FULL;
    switch ((int)type) {
    case DUCKDB_ERROR_OUT_OF_MEMORY:
        return TIDE_E_NOMEM;
    case DUCKDB_ERROR_IO:
        return TIDE_E_IO;
    case DUCKDB_ERROR_INTERRUPT:
        return TIDE_E_INTERRUPTED;
    case DUCKDB_ERROR_PERMISSION:
        return TIDE_E_DENIED;
    case DUCKDB_ERROR_TRANSACTION:
    case DUCKDB_ERROR_SERIALIZATION:
        return strstr(text, "onflict") ? TIDE_E_SERIALIZATION : TIDE_E_FAILED;
    case DUCKDB_ERROR_PARSER:
    case DUCKDB_ERROR_SYNTAX:
    case DUCKDB_ERROR_BINDER:
    case DUCKDB_ERROR_CATALOG:
    case DUCKDB_ERROR_CONVERSION:
    case DUCKDB_ERROR_OUT_OF_RANGE:
    case DUCKDB_ERROR_MISMATCH_TYPE:
    case DUCKDB_ERROR_DIVIDE_BY_ZERO:
    case DUCKDB_ERROR_INVALID_INPUT:
    case DUCKDB_ERROR_INVALID_TYPE:
    case DUCKDB_ERROR_NOT_IMPLEMENTED:
    case DUCKDB_ERROR_EXPRESSION:
    case DUCKDB_ERROR_PARAMETER_NOT_RESOLVED:
    case DUCKDB_ERROR_PARAMETER_NOT_ALLOWED:
    case DUCKDB_ERROR_MISSING_EXTENSION:
        return TIDE_E_INVALID;
    default:
        return TIDE_E_FAILED;
    }
}

tide_status tide_duck_fail_text(duckdb_error_type type, const char *text, const char *what,
                                tide_error *err)
{
    const char *words = text && *text ? text : "no reason given";
    /* Behind the first line DuckDB repeats the statement and points into it. Of a CSV file it says
     * there what is wrong. */
    size_t len = strcspn(words, "\n");
    const char *more = strstr(words, "CSV Error on Line") ? strstr(words, "\n\n") : NULL;
    if (more)
        len = (size_t)(more - words);
    const tide_status status =
        tide_fail(err, status_of(type, words), "%s: %.*s", what, (int)len, words);
    for (size_t i = 0; err && err->text[i]; i++)
        if (err->text[i] == '\n')
            err->text[i] = ' ';
    return status;
}

tide_status tide_duck_fail(const tide_duckdb_api *api, duckdb_result *result, const char *what,
                           tide_error *err)
{
    return tide_duck_fail_text(api->result_error_type(result), api->result_error(result), what,
                               err);
}

/* The library has no error type for a failed open: its words decide. */
static tide_status fail_open(const char *path, const char *text, tide_error *err)
{
    const char *words = text ? text : "no reason given";
    const int len = (int)strcspn(words, "\n");
    tide_status status = TIDE_E_IO;
    if (strstr(words, "onflicting lock")) {
        const char *holder = strstr(words, "held in ");
        const char *end = holder ? strstr(holder, ". See also") : NULL;
        if (end)
            return tide_fail(err, TIDE_E_BUSY,
                             "%s is open in another process (%.*s); DuckDB admits one at a time",
                             path, (int)(end - holder - 8), holder + 8);
        status = TIDE_E_BUSY;
    } else if (strstr(words, "not a valid DuckDB database")) {
        status = TIDE_E_FOREIGN;
    } else if (strstr(words, "orrupt") || strstr(words, "checksum")) {
        status = TIDE_E_DAMAGED;
    } else if (strstr(words, "newer version") || strstr(words, "Could not read storage version")) {
        status = TIDE_E_NEWER;
    } else if (strstr(words, "No space left")) {
        status = TIDE_E_FULL;
    } else if (strstr(words, "Permission denied")) {
        status = TIDE_E_DENIED;
    } else if (strstr(words, "Invalid Input") || strstr(words, "unrecognized")) {
        status = TIDE_E_INVALID;
    }
    return tide_fail(err, status, "cannot open %s: %.*s", path, len, words);
}

/* ---- databases ---- */

/* DuckDB's lock on a file keeps other processes out, not other handles of this one: two would write
 * over each other. So those that are open here are known. Opening holds the lock from the look to
 * the note. */
static pthread_mutex_t open_lock = PTHREAD_MUTEX_INITIALIZER;
static tide_duckdb *open_files;

static bool is_open_here(const char *path)
{
    struct stat file;
    if (stat(path, &file) != 0)
        return false;
    for (const tide_duckdb *db = open_files; db; db = db->next)
        if (db->device == file.st_dev && db->inode == file.st_ino)
            return true;
    return false;
}

static void note_open(tide_duckdb *db, const char *path)
{
    struct stat file;
    if (stat(path, &file) != 0)
        return; /* removed meanwhile: it cannot be opened a second time */
    db->device = file.st_dev;
    db->inode = file.st_ino;
    db->next = open_files;
    open_files = db;
}

static void forget_open(const tide_duckdb *db)
{
    TIDE_HOLD(&open_lock);
    for (tide_duckdb **at = &open_files; *at; at = &(*at)->next) {
        if (*at == db) {
            *at = db->next;
            break;
        }
    }
}

static tide_status configure(const tide_duckdb_api *api, duckdb_config config, const char *path,
                             const tide_duckdb_options *options, tide_error *err)
{
    char threads[16];
    char memory[32];
    char temp[32];
    char checkpoint[32];
    (void)snprintf(threads, sizeof threads, "%d",
                   options->threads > 0 ? options->threads : TIDE_DUCKDB_THREADS_DEFAULT);
    (void)snprintf(memory, sizeof memory, "%" PRId64 "B",
                   options->memory_max > 0 ? options->memory_max : TIDE_DUCKDB_MEMORY_DEFAULT);
    (void)snprintf(temp, sizeof temp, "%" PRId64 "B",
                   options->temp_max > 0 ? options->temp_max : TIDE_DUCKDB_TEMP_DEFAULT);
    (void)snprintf(checkpoint, sizeof checkpoint, "%" PRId64 "B",
                   options->checkpoint_bytes > 0 ? options->checkpoint_bytes
                                                 : TIDE_DUCKDB_CHECKPOINT_DEFAULT);
    const char *const settings[][2] = {
        {"threads", threads},
        {"memory_limit", memory},
        {"max_temp_directory_size", temp},
        {"checkpoint_threshold", checkpoint},
        {"access_mode", options->is_read_only ? "READ_ONLY" : "AUTOMATIC"},
        {"temp_directory", options->temp_dir ? options->temp_dir
                           : path            ? NULL
                                             : ""},
        /* Nothing is ever fetched from a network, and rows need no order unless a query asks for
         * one. */
        {"autoinstall_known_extensions", "false"},
        {"autoload_known_extensions", "false"},
        {"preserve_insertion_order", options->keeps_order ? "true" : "false"},
        {"enable_external_access", options->may_touch_files ? "true" : "false"},
        {"lock_configuration", options->is_unlocked ? "false" : "true"},
    };
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++)
        if (settings[i][1] &&
            api->set_config(config, settings[i][0], settings[i][1]) == DuckDBError)
            return tide_fail(err, TIDE_E_UNAVAILABLE, "this DuckDB refuses the setting %s=%s",
                             settings[i][0], settings[i][1]);
    return TIDE_OK;
}

/* Where the log lies, so that its directory entry can be synced. */
static tide_status find_directory(tide_duckdb *db, const char *path, tide_error *err)
{
    if (asprintf(&db->wal_path, "%s.wal", path) < 0) {
        db->wal_path = NULL;
        return tide_no_memory(err);
    }
    TIDE_CLEANUP(tide_freep) char *dir = strdup(path);
    TIDE_NEED_MEMORY(dir, err);
    char *slash = strrchr(dir, '/');
    if (slash)
        slash[slash == dir ? 1 : 0] = '\0';
    db->dir_fd = open(slash ? dir : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (db->dir_fd < 0)
        return tide_fail(err, TIDE_E_IO, "cannot open the directory of %s: %s", path,
                         strerror(errno));
    return TIDE_OK;
}

static tide_status open_file(tide_duckdb *db, const char *path, const tide_duckdb_options *options,
                             tide_error *err)
{
    duckdb_config config = NULL;
    if (db->api->create_config(&config) == DuckDBError)
        return tide_no_memory(err);
    tide_status status = configure(db->api, config, path, options, err);
    char *words = NULL;
    if (status == TIDE_OK && db->api->open_ext(path, &db->handle, config, &words) == DuckDBError) {
        db->handle = NULL;
        status = fail_open(path ? path : "a database in memory", words, err);
    }
    if (words)
        db->api->free(words);
    db->api->destroy_config(&config);
    return status;
}

static tide_status open_alone(tide_duckdb *db, const char *path, const tide_duckdb_options *options,
                              tide_error *err)
{
    if (!path)
        return open_file(db, NULL, options, err);
    TIDE_HOLD(&open_lock);
    tide_status status;
    if (is_open_here(path))
        status = tide_fail(err, TIDE_E_BUSY, "%s is open already in this process", path);
    else
        status = open_file(db, path, options, err);
    if (status == TIDE_OK)
        note_open(db, path);
    return status;
}

tide_status tide_duckdb_open(tide_duckdb **out, const char *path,
                             const tide_duckdb_options *options, tide_error *err)
{
    const tide_duckdb_options defaults = {0};
    const tide_duckdb_options *chosen = options ? options : &defaults;
    const tide_duckdb_api *api = NULL;
    TIDE_TRY(tide_duckdb_load(&api, chosen->library, err));
    TIDE_CLEANUP(tide_duckdb_closep) TIDE_NEW(tide_duckdb, db, err);
    db->api = api;
    db->dir_fd = -1;
    db->cancel = chosen->cancel;
    (void)pthread_mutex_init(&db->lock, NULL);
    (void)pthread_mutex_init(&db->guard, NULL);
    if (path)
        TIDE_TRY(find_directory(db, path, err));
    TIDE_TRY(open_alone(db, path, chosen, err));
    if (db->dir_fd >= 0 && fsync(db->dir_fd) != 0)
        return tide_fail(err, TIDE_E_IO, "cannot sync the directory of %s: %s", path,
                         strerror(errno));
    *out = TIDE_TAKE(db);
    return TIDE_OK;
}

void tide_duckdb_close(tide_duckdb *db)
{
    if (!db)
        return;
    if (db->handle)
        db->api->close(&db->handle);
    forget_open(db);
    if (db->dir_fd >= 0)
        (void)close(db->dir_fd);
    (void)pthread_mutex_destroy(&db->guard);
    (void)pthread_mutex_destroy(&db->lock);
    free(db->wal_path);
    free(db);
}

tide_duckdb *tide_duckdb_lock(tide_duckdb *db)
{
    (void)pthread_mutex_lock(&db->lock);
    return db;
}

void tide_duckdb_unlockp(tide_duckdb **db)
{
    if (*db)
        (void)pthread_mutex_unlock(&(*db)->lock);
    *db = NULL;
}

/* ---- connections and transactions ---- */

tide_status tide_duck_connect(tide_duck **out, tide_duckdb *db, tide_error *err)
{
    TIDE_CLEANUP(tide_freep) TIDE_NEW(tide_duck, duck, err);
    duck->db = db;
    duck->api = db->api;
    if (db->api->connect(db->handle, &duck->handle) == DuckDBError)
        return tide_fail(err, TIDE_E_NOMEM, "DuckDB gives no connection");
    tide_duck_cancel_join(duck);
    *out = TIDE_TAKE(duck);
    return TIDE_OK;
}

void tide_duck_close(tide_duck *duck)
{
    if (!duck)
        return;
    tide_duck_cancel_leave(duck);
    tide_duck_rollback(duck);
    duck->api->disconnect(&duck->handle);
    free(duck);
}

static tide_status run_text(tide_duck *duck, const char *text, tide_error *err)
{
    duckdb_result result;
    const duckdb_state state = duck->api->query(duck->handle, text, &result);
    const tide_status status =
        state == DuckDBError ? tide_duck_fail(duck->api, &result, "DuckDB", err) : TIDE_OK;
    duck->api->destroy_result(&result);
    return status;
}

tide_status tide_duck_begin(tide_duck *duck, tide_error *err)
{
    assert(!duck->is_open);
    TIDE_TRY(run_text(duck, "BEGIN TRANSACTION", err));
    duck->is_open = true;
    return TIDE_OK;
}

tide_status tide_duck_begin_read(tide_duck *duck, tide_error *err)
{
    assert(!duck->is_open);
    TIDE_TRY(run_text(duck, "BEGIN TRANSACTION READ ONLY", err));
    duck->is_open = true;
    return TIDE_OK;
}

/* DuckDB syncs its log, but not the directory in which it made a new one. */
static tide_status sync_entry(tide_duckdb *db, tide_error *err)
{
    struct statx log;
    if (!db->wal_path || statx(AT_FDCWD, db->wal_path, 0, STATX_INO | STATX_BTIME, &log) != 0)
        return TIDE_OK; /* worked into the file already, and that was synced */
    /* An inode's number is used again, with a later birth. */
    const bool has_birth = (log.stx_mask & STATX_BTIME) != 0;
    const int64_t birth_ns =
        has_birth ? log.stx_btime.tv_sec * INT64_C(1000000000) + log.stx_btime.tv_nsec : 0;
    (void)pthread_mutex_lock(&db->guard);
    const bool is_known = has_birth && db->wal_inode == log.stx_ino && db->wal_birth_ns == birth_ns;
    (void)pthread_mutex_unlock(&db->guard);
    if (is_known)
        return TIDE_OK;
    if (fsync(db->dir_fd) != 0)
        return tide_fail(err, TIDE_E_OUTCOME_UNKNOWN, "cannot sync the directory of %s: %s",
                         db->wal_path, strerror(errno));
    (void)pthread_mutex_lock(&db->guard);
    db->wal_inode = log.stx_ino;
    db->wal_birth_ns = birth_ns;
    (void)pthread_mutex_unlock(&db->guard);
    return TIDE_OK;
}

tide_status tide_duck_commit(tide_duck *duck, tide_error *err)
{
    assert(duck->is_open);
    duck->is_open = false;
    const tide_status status = run_text(duck, "COMMIT", err);
    if (status == TIDE_E_SERIALIZATION)
        return status;
    if (status < TIDE_OK)
        return tide_fail_context(err, TIDE_E_OUTCOME_UNKNOWN, "commit");
    return sync_entry(duck->db, err);
}

void tide_duck_rollback(tide_duck *duck)
{
    if (!duck->is_open)
        return;
    duck->is_open = false;
    TIDE_IGNORE(run_text(duck, "ROLLBACK", NULL));
}

tide_status tide_duck_run(tide_duck *duck, const tide_sql *sql, tide_error *err)
{
    const tide_status status = run_text(duck, sql->engine[TIDE_ENGINE_POSTGRES].text, err);
    return status < TIDE_OK ? tide_fail_context(err, status, "%s", sql->name) : TIDE_OK;
}

void tide_duck_interrupt(tide_duck *duck)
{
    duck->api->interrupt(duck->handle);
}
