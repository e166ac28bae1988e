/* sqlite_readonly_query.c - SQL of a caller on SQLite. See readonly_query.h. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "store/readonly_query.h"
#include "store/sqlite/sqlite_engine.h"
#include "store/sqlite/sqlite_function.h"

static bool is_reading_pragma(const char *name, const char *value)
{
    static const char *const with_value[] = {"foreign_key_list", "index_info",   "index_list",
                                             "index_xinfo",      "table_info",   "table_list",
                                             "table_xinfo",      "database_list"};
    static const char *const alone[] = {"page_count", "page_size", "freelist_count",
                                        "user_version"};
    for (size_t i = 0; i < sizeof with_value / sizeof with_value[0]; i++)
        if (sqlite3_stricmp(with_value[i], name) == 0)
            return true;
    for (size_t i = 0; !value && i < sizeof alone / sizeof alone[0]; i++)
        if (sqlite3_stricmp(alone[i], name) == 0)
            return true;
    return false;
}

/* Called for every part of a statement, also inside of views. */
static int authorize(void *arg, int action, const char *first, const char *second,
                     const char *schema, const char *inside)
{
    (void)arg;
    (void)schema;
    (void)inside;
    switch (action) {
    case SQLITE_SELECT:
    case SQLITE_RECURSIVE:
        return SQLITE_OK;
    case SQLITE_READ: /* credentials of callers */
        return sqlite3_stricmp(first, "access_tokens") == 0 ? SQLITE_DENY : SQLITE_OK;
    case SQLITE_FUNCTION: /* code from a file; an address in this process */
        return sqlite3_stricmp(second, "load_extension") == 0 ||
                       sqlite3_stricmp(second, "fts3_tokenizer") == 0
                   ? SQLITE_DENY
                   : SQLITE_OK;
    case SQLITE_PRAGMA:
        return is_reading_pragma(first, second) ? SQLITE_OK : SQLITE_DENY;
    default:
        return SQLITE_DENY;
    }
}

static void finalize(sqlite3_stmt **statement)
{
    (void)sqlite3_finalize(*statement);
}

static tide_status fail_query(tide_error *err, sqlite3 *db, int code,
                              const tide_readonly_query *query)
{
    static const char refused[] = "not authorized"; /* a function, which has no code of its own */
    switch (code & 0xff) {
    case SQLITE_INTERRUPT:
        return tide_fail(err, TIDE_E_TIMEOUT, "the query took longer than %.1f s",
                         (double)query->timeout_us / 1e6);
    case SQLITE_AUTH:
    case SQLITE_READONLY:
        return tide_fail(err, TIDE_E_DENIED, "a query only reads: %s", sqlite3_errmsg(db));
    case SQLITE_ERROR:
        if (strncmp(sqlite3_errmsg(db), refused, sizeof refused - 1) == 0)
            return tide_fail(err, TIDE_E_DENIED, "a query only reads: %s", sqlite3_errmsg(db));
        return tide_fail(err, TIDE_E_INVALID, "%s", sqlite3_errmsg(db));
    case SQLITE_TOOBIG:
        return tide_fail(err, TIDE_E_LIMIT, "a value is longer than %" PRId64 " bytes",
                         query->bytes_max);
    default:
        return tide_sqlite_fail(err, db, code, "query");
    }
}

/* What a value counts against bytes_max. */
static int64_t len_of(const tide_sql_value *value)
{
    const bool has_bytes = value->kind == TIDE_SQL_VALUE_TEXT || value->kind == TIDE_SQL_VALUE_BLOB;
    return 8 + (has_bytes ? (int64_t)value->bytes.len : 0);
}

static tide_status give_columns(const tide_readonly_query *query, sqlite3_stmt *statement,
                                int count, tide_error *err)
{
    const char *names[TIDE_READONLY_QUERY_COLUMNS_MAX];
    for (int i = 0; i < count; i++) {
        names[i] = sqlite3_column_name(statement, i);
        TIDE_NEED_MEMORY(names[i], err);
    }
    return query->columns(query->arg, names, count, err);
}

static tide_status give_rows(const tide_readonly_query *query, sqlite3 *db, sqlite3_stmt *statement,
                             int count, tide_error *err)
{
    tide_sql_value values[TIDE_READONLY_QUERY_COLUMNS_MAX];
    int64_t len = 0;
    int code = SQLITE_OK;
    for (int64_t rows = 0; (code = sqlite3_step(statement)) == SQLITE_ROW; rows++) {
        if (rows == query->row_max)
            return tide_fail(err, TIDE_E_LIMIT, "there are more than %" PRId64 " rows",
                             query->row_max);
        for (int i = 0; i < count; i++) {
            values[i] = tide_sqlite_value(statement, i);
            len += len_of(&values[i]);
        }
        if (len > query->bytes_max)
            return tide_fail(err, TIDE_E_LIMIT, "the answer has more than %" PRId64 " bytes",
                             query->bytes_max);
        TIDE_TRY(query->row(query->arg, values, count, err));
    }
    return code == SQLITE_DONE ? TIDE_OK : fail_query(err, db, code, query);
}

/* Blanks, semicolons and comments may follow the one statement. */
static tide_status check_alone(sqlite3 *db, const char *rest, tide_error *err)
{
    TIDE_CLEANUP(finalize) sqlite3_stmt *second = NULL;
    while (*rest) {
        const char *next = rest;
        const int code = sqlite3_prepare_v2(db, rest, -1, &second, &next);
        if (second || code != SQLITE_OK)
            return tide_fail(err, TIDE_E_INVALID, "a query is one statement");
        if (next == rest)
            break;
        rest = next;
    }
    return TIDE_OK;
}

static tide_status run(const tide_readonly_query *query, sqlite3 *db, tide_error *err)
{
    TIDE_CLEANUP(finalize) sqlite3_stmt *statement = NULL;
    const char *rest = query->sql;
    const int code = sqlite3_prepare_v2(db, query->sql, -1, &statement, &rest);
    if (code != SQLITE_OK)
        return fail_query(err, db, code, query);
    if (!statement)
        return tide_fail(err, TIDE_E_INVALID, "there is no statement in it");
    if (!sqlite3_stmt_readonly(statement))
        return tide_fail(err, TIDE_E_DENIED, "a query only reads");
    TIDE_TRY(check_alone(db, rest, err));
    const int count = sqlite3_column_count(statement);
    if (count > TIDE_READONLY_QUERY_COLUMNS_MAX)
        return tide_fail(err, TIDE_E_LIMIT, "more than %d columns",
                         TIDE_READONLY_QUERY_COLUMNS_MAX);
    TIDE_TRY(give_columns(query, statement, count, err));
    return give_rows(query, db, statement, count, err);
}

/* The authorizer and the length limit are the query's: the connection has other users. */
static tide_status run_guarded(const tide_readonly_query *query, sqlite3 *db, tide_error *err)
{
    const int length_max = query->bytes_max < INT32_MAX ? (int)query->bytes_max : INT32_MAX;
    const int usual = sqlite3_limit(db, SQLITE_LIMIT_LENGTH, length_max);
    (void)sqlite3_set_authorizer(db, authorize, NULL);
    const tide_status status = run(query, db, err);
    (void)sqlite3_set_authorizer(db, NULL, NULL);
    (void)sqlite3_limit(db, SQLITE_LIMIT_LENGTH, usual);
    return status;
}

static tide_status query_inside(tide_tx *tx, void *arg, tide_error *err)
{
    const tide_readonly_query *query = arg;
    tide_sqlite_connection *connection = tx->connection;
    tide_env *env = tx->store->env;
    connection->budget_until_us = env->mono_us(env) + query->timeout_us;
    return run_guarded(query, connection->db, err);
}

tide_status tide_sqlite_readonly_query(tide_store *store, const tide_readonly_query *query,
                                       tide_error *err)
{
    tide_readonly_query once = *query;
    return store->ops->read(store, query_inside, &once, false, err);
}

const char *tide_readonly_query_file(const tide_store *store)
{
    return store->ops == &tide_sqlite_ops ? ((const tide_sqlite_engine *)store->engine)->path
                                          : NULL;
}

/* ---- a file that is opened for queries alone ---- */

enum {
    PROGRESS_OPS = 10000, /* virtual machine steps between two looks at the clock */
    BUSY_MS = 5000,       /* a reader waits only while a write-ahead log is recovered */
};

struct tide_readonly_db {
    sqlite3 *db;
    char *path;
    struct stat opened; /* the file, as it was when it was opened */
    int64_t until_us;
};

static int stop_over_time(void *arg)
{
    const tide_readonly_db *db = arg;
    tide_env *env = tide_env_system();
    return env->mono_us(env) > db->until_us;
}

static tide_status open_file(tide_readonly_db *db, tide_error *err)
{
    const int flags = SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
    int code = sqlite3_open_v2(db->path, &db->db, flags, NULL);
    if (code == SQLITE_OK)
        code = sqlite3_busy_timeout(db->db, BUSY_MS);
    if (code == SQLITE_OK)
        code = sqlite3_exec(db->db, "PRAGMA cell_size_check=ON; PRAGMA temp_store=MEMORY", NULL,
                            NULL, NULL);
    if (code == SQLITE_OK)
        code = tide_sqlite_add_functions(db->db);
    /* Opening is lazy: read a page, so that every file is open before the process is confined. */
    if (code == SQLITE_OK)
        code = sqlite3_exec(db->db, "SELECT count(*) FROM sqlite_schema", NULL, NULL, NULL);
    if (code != SQLITE_OK)
        return tide_sqlite_fail(err, db->db, code, db->path);
    (void)sqlite3_db_config(db->db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    sqlite3_progress_handler(db->db, PROGRESS_OPS, stop_over_time, db);
    return TIDE_OK;
}

tide_status tide_readonly_db_open(tide_readonly_db **out, const char *path, int64_t heap_max,
                                  tide_error *err)
{
    tide_readonly_db *db = calloc(1, sizeof *db);
    if (!db || !(db->path = strdup(path))) {
        tide_readonly_db_close(db);
        return tide_no_memory(err);
    }
    db->until_us = INT64_MAX;
    tide_status status = TIDE_OK;
    if (stat(path, &db->opened) != 0)
        status = tide_fail(err, TIDE_E_NOT_FOUND, "no store %s", path);
    if (heap_max > 0)
        (void)sqlite3_hard_heap_limit64(heap_max);
    if (status == TIDE_OK)
        status = open_file(db, err);
    if (status < TIDE_OK) {
        tide_readonly_db_close(db);
        return status;
    }
    *out = db;
    return TIDE_OK;
}

void tide_readonly_db_close(tide_readonly_db *db)
{
    if (!db)
        return;
    (void)sqlite3_close(db->db);
    free(db->path);
    free(db);
}

bool tide_readonly_db_is_stale(const tide_readonly_db *db)
{
    struct stat now;
    return stat(db->path, &now) != 0 || now.st_dev != db->opened.st_dev ||
           now.st_ino != db->opened.st_ino;
}

tide_status tide_readonly_db_query(tide_readonly_db *db, const tide_readonly_query *query,
                                   tide_error *err)
{
    tide_env *env = tide_env_system();
    const int64_t now_us = env->mono_us(env);
    db->until_us = query->timeout_us < INT64_MAX - now_us ? now_us + query->timeout_us : INT64_MAX;
    return run_guarded(query, db->db, err);
}
