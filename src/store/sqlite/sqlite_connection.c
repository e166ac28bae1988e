#include "store/sqlite/sqlite_connection.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "store/sqlite/sqlite_file.h"
#include "store/sqlite/sqlite_function.h"
#include "store/sqlite/sqlite_locks.h"

enum {
    BUSY_SPIN_US = 50,       /* the first waits for somebody else's short write */
    BUSY_SPIN_MAX_US = 1000, /* ... and the longest */
    PROGRESS_OPS = 10000,    /* virtual machine steps between two looks at the clock */
    PAGE_SIZE = 16384,
    CACHE_KIB = 16384,
};

static tide_status status_of(int code)
{
    switch (code & 0xff) {
    case SQLITE_OK:
        return TIDE_OK;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return TIDE_E_BUSY;
    case SQLITE_FULL:
        return TIDE_E_FULL;
    case SQLITE_NOMEM:
        return TIDE_E_NOMEM;
    case SQLITE_CORRUPT:
        return TIDE_E_DAMAGED;
    case SQLITE_NOTADB:
        return TIDE_E_FOREIGN;
    case SQLITE_IOERR:
        return code == SQLITE_IOERR_NOMEM ? TIDE_E_NOMEM : TIDE_E_IO;
    case SQLITE_PERM:
    case SQLITE_AUTH:
    case SQLITE_READONLY:
    case SQLITE_CANTOPEN:
        return TIDE_E_DENIED;
    case SQLITE_INTERRUPT:
        return TIDE_E_TIMEOUT;
    case SQLITE_TOOBIG:
        return TIDE_E_LIMIT;
    case SQLITE_MISUSE: /* of a caller: a text that is not one statement */
    case SQLITE_MISMATCH:
        return TIDE_E_INVALID;
    case SQLITE_CONSTRAINT:
        break;
    default:
        return TIDE_E_FAILED;
    }
    switch (code) {
    case SQLITE_CONSTRAINT_UNIQUE:
    case SQLITE_CONSTRAINT_PRIMARYKEY:
    case SQLITE_CONSTRAINT_ROWID:
        return TIDE_E_EXISTS;
    case SQLITE_CONSTRAINT_DATATYPE: /* an addition beyond 2^63-1 became a REAL */
        return TIDE_E_EXHAUSTED;
    case SQLITE_CONSTRAINT_NOTNULL:
    case SQLITE_CONSTRAINT_CHECK:
        return TIDE_E_INVALID;
    default:
        return TIDE_E_CONFLICT;
    }
}

/* Files that cannot grow fail as an I/O error where SQLite maps them or creates them. */
static bool is_disk_full(sqlite3 *db, int code)
{
    const int kind = code & 0xff;
    const int cause =
        db && (kind == SQLITE_IOERR || kind == SQLITE_CANTOPEN) ? sqlite3_system_errno(db) : 0;
    return cause == ENOSPC || cause == EDQUOT;
}

tide_status tide_sqlite_fail(tide_error *err, sqlite3 *db, int code, const char *what)
{
    if (code == SQLITE_CONSTRAINT_DATATYPE)
        return tide_fail(err, TIDE_E_EXHAUSTED, "%s: beyond 9223372036854775807", what);
    if (tide_sqlite_locks_refused(code))
        return tide_sqlite_locks_fail(err, what);
    if (is_disk_full(db, code))
        return tide_fail(err, TIDE_E_FULL, "%s: no space left on its disk (%s)", what,
                         sqlite3_errmsg(db));
    return tide_fail(err, status_of(code), "%s: %s", what,
                     db && code != SQLITE_NOMEM ? sqlite3_errmsg(db) : sqlite3_errstr(code));
}

tide_status tide_sqlite_exec(tide_sqlite_connection *connection, const char *text, tide_error *err)
{
    const int code = sqlite3_exec(connection->db, text, NULL, NULL, NULL);
    if (code == SQLITE_OK)
        return TIDE_OK;
    return tide_sqlite_fail(err, connection->db, sqlite3_extended_errcode(connection->db),
                            connection->store->name);
}

tide_status tide_sqlite_ask(tide_sqlite_connection *connection, const char *text,
                            char out[TIDE_SQLITE_VALUE_SIZE], tide_error *err)
{
    sqlite3_stmt *statement = NULL;
    int code = sqlite3_prepare_v2(connection->db, text, -1, &statement, NULL);
    if (code == SQLITE_OK)
        code = sqlite3_step(statement);
    const char *value = code == SQLITE_ROW ? (const char *)sqlite3_column_text(statement, 0) : NULL;
    (void)snprintf(out, TIDE_SQLITE_VALUE_SIZE, "%s", value ? value : "");
    while (code == SQLITE_ROW) /* PRAGMA journal_mode=WAL answers before it commits */
        code = sqlite3_step(statement);
    const tide_status status =
        code == SQLITE_DONE ? TIDE_OK
                            : tide_sqlite_fail(err, connection->db, code, connection->store->name);
    (void)sqlite3_finalize(statement);
    return status;
}

int tide_sqlite_spin(tide_env *env, int64_t until_us, int tries)
{
    if (env->mono_us(env) >= until_us)
        return 0;
    const int64_t wait = (int64_t)BUSY_SPIN_US * (1 + tries / 8);
    env->sleep_us(env, wait < BUSY_SPIN_MAX_US ? wait : BUSY_SPIN_MAX_US);
    return 1;
}

static int wait_for_lock(void *arg, int tries)
{
    const tide_sqlite_connection *connection = arg;
    return tide_sqlite_spin(connection->store->env, connection->busy_until_us, tries);
}

static int stop_over_budget(void *arg)
{
    tide_sqlite_connection *connection = arg;
    tide_env *env = connection->store->env;
    return connection->budget_until_us > 0 && env->mono_us(env) > connection->budget_until_us;
}

static int note_frames(void *arg, sqlite3 *db, const char *schema, int frames)
{
    (void)db;
    (void)schema;
    ((tide_sqlite_connection *)arg)->wal_frames = frames;
    return SQLITE_OK;
}

void tide_sqlite_set_limits(tide_sqlite_connection *connection)
{
    tide_env *env = connection->store->env;
    const int64_t now = env->mono_us(env);
    connection->busy_until_us = now + connection->store->options.wait_us;
    connection->budget_until_us = now + connection->store->options.closure_us;
}

static tide_status configure(tide_sqlite_connection *connection, tide_sqlite_role role,
                             tide_error *err)
{
    sqlite3 *db = connection->db;
    (void)sqlite3_extended_result_codes(db, 1);
    (void)sqlite3_busy_handler(db, wait_for_lock, connection);
    sqlite3_progress_handler(db, PROGRESS_OPS, stop_over_budget, connection);
    (void)sqlite3_db_config(db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    (void)sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_FKEY, 1, NULL);
    /* A plan does not depend on bound values: otherwise every statement with LIMIT :n is compiled
     * anew at each run. */
    (void)sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_QPSG, 1, NULL);
    char text[512];
    /* secure_delete: where it is on by default, every page that is freed is written once more, with
     * zeros, and a disk that is full has no room for that. */
    (void)snprintf(text, sizeof text,
                   "PRAGMA page_size=%d; PRAGMA cell_size_check=ON; PRAGMA cache_size=-%d;"
                   "PRAGMA synchronous=FULL; PRAGMA wal_autocheckpoint=0; PRAGMA temp_store=MEMORY;"
                   "PRAGMA journal_size_limit=67108864; PRAGMA secure_delete=FAST;%s",
                   PAGE_SIZE, CACHE_KIB, role == TIDE_SQLITE_READER ? "PRAGMA query_only=ON;" : "");
    tide_sqlite_set_limits(connection);
    TIDE_TRY(tide_sqlite_exec(connection, text, err));
    (void)sqlite3_wal_hook(db, note_frames, connection);
    const int code = tide_sqlite_add_functions(db);
    return code == SQLITE_OK ? TIDE_OK : tide_sqlite_fail(err, db, code, connection->store->name);
}

tide_status tide_sqlite_connection_open(tide_sqlite_connection **out, tide_store *store,
                                        const char *path, tide_sqlite_role role, tide_error *err)
{
    tide_sqlite_connection *connection = calloc(1, sizeof *connection);
    if (!connection)
        return tide_no_memory(err);
    connection->store = store;
    const bool is_read_only =
        store->options.mode == TIDE_STORE_AS_IS && faccessat(AT_FDCWD, path, W_OK, AT_EACCESS) != 0;
    const bool is_creating = store->options.mode == TIDE_STORE_CREATE && role == TIDE_SQLITE_WRITER;
    const int flags = (is_read_only ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE) |
                      (is_creating ? SQLITE_OPEN_CREATE : 0) | SQLITE_OPEN_NOMUTEX |
                      SQLITE_OPEN_EXRESCODE;
    char *uri = is_read_only && tide_sqlite_is_still(path) ? tide_sqlite_immutable_uri(path) : NULL;
    const int code =
        sqlite3_open_v2(uri ? uri : path, &connection->db, flags | (uri ? SQLITE_OPEN_URI : 0),
                        store->options.sqlite_vfs);
    sqlite3_free(uri);
    tide_status status = TIDE_OK;
    if (code != SQLITE_OK)
        status = tide_sqlite_fail(err, connection->db, code, path);
    if (status == TIDE_OK)
        status = configure(connection, role, err);
    if (status < TIDE_OK) {
        tide_sqlite_connection_close(connection);
        return status;
    }
    *out = connection;
    return TIDE_OK;
}

void tide_sqlite_connection_close(tide_sqlite_connection *connection)
{
    if (!connection)
        return;
    tide_sqlite_statements_done(&connection->statements);
    tide_query_pool_done(&connection->pool);
    (void)sqlite3_close(connection->db);
    free(connection);
}

const char *tide_sqlite_version(void)
{
    return sqlite3_libversion();
}

int tide_sqlite_version_number(void)
{
    return sqlite3_libversion_number();
}

const char *tide_sqlite_version_built(void)
{
    return SQLITE_VERSION;
}
