/* sqlite_look.c - somebody's own SQL on SQLite. See look.h. */
#include <inttypes.h>
#include <string.h>

#include "base/cleanup.h"
#include "store/readonly_query.h"
#include "store/sqlite/sqlite_engine.h"

static bool is_telling_pragma(const char *name, const char *value)
{
    static const char *const tell[] = {"foreign_key_list", "index_info",   "index_list",
                                       "index_xinfo",      "table_info",   "table_list",
                                       "table_xinfo",      "database_list"};
    static const char *const ask[] = {"page_count", "page_size", "freelist_count", "user_version"};
    for (size_t i = 0; i < sizeof tell / sizeof tell[0]; i++)
        if (sqlite3_stricmp(tell[i], name) == 0)
            return true;
    for (size_t i = 0; !value && i < sizeof ask / sizeof ask[0]; i++)
        if (sqlite3_stricmp(ask[i], name) == 0)
            return true;
    return false;
}

/* SQLite asks about every part, also inside of views. */
static int judge(void *arg, int action, const char *first, const char *second, const char *schema,
                 const char *inside)
{
    (void)arg;
    (void)schema;
    (void)inside;
    switch (action) {
    case SQLITE_SELECT:
    case SQLITE_RECURSIVE:
        return SQLITE_OK;
    case SQLITE_READ: /* who may call this store is nobody's to read */
        return sqlite3_stricmp(first, "access_tokens") == 0 ? SQLITE_DENY : SQLITE_OK;
    case SQLITE_FUNCTION:
        return sqlite3_stricmp(second, "load_extension") == 0 ? SQLITE_DENY : SQLITE_OK;
    case SQLITE_PRAGMA:
        return is_telling_pragma(first, second) ? SQLITE_OK : SQLITE_DENY;
    default:
        return SQLITE_DENY;
    }
}

static void finalize(sqlite3_stmt **statement)
{
    (void)sqlite3_finalize(*statement);
}

static tide_status fail_look(tide_error *err, sqlite3 *db, int code,
                             const tide_readonly_query *look)
{
    static const char refused[] = "not authorized"; /* a function, which has no code of its own */
    switch (code & 0xff) {
    case SQLITE_INTERRUPT:
        return tide_fail(err, TIDE_E_TIMEOUT, "the query took longer than %.1f s",
                         (double)look->timeout_us / 1e6);
    case SQLITE_AUTH:
    case SQLITE_READONLY:
        return tide_fail(err, TIDE_E_DENIED, "a query only reads: %s", sqlite3_errmsg(db));
    case SQLITE_ERROR:
        if (strncmp(sqlite3_errmsg(db), refused, sizeof refused - 1) == 0)
            return tide_fail(err, TIDE_E_DENIED, "a query only reads: %s", sqlite3_errmsg(db));
        return tide_fail(err, TIDE_E_INVALID, "%s", sqlite3_errmsg(db));
    case SQLITE_TOOBIG:
        return tide_fail(err, TIDE_E_LIMIT, "a value is longer than %" PRId64 " bytes",
                         look->bytes_max);
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

static tide_status tell_columns(const tide_readonly_query *look, sqlite3_stmt *statement, int count,
                                tide_error *err)
{
    const char *names[TIDE_LOOK_COLUMNS_MAX];
    for (int i = 0; i < count; i++) {
        names[i] = sqlite3_column_name(statement, i);
        if (!names[i])
            return tide_no_memory(err);
    }
    return look->columns(look->arg, names, count, err);
}

static tide_status tell_rows(const tide_readonly_query *look, sqlite3 *db, sqlite3_stmt *statement,
                             int count, tide_error *err)
{
    tide_sql_value values[TIDE_LOOK_COLUMNS_MAX];
    int64_t len = 0;
    int code = SQLITE_OK;
    for (int64_t rows = 0; (code = sqlite3_step(statement)) == SQLITE_ROW; rows++) {
        if (rows == look->row_max)
            return tide_fail(err, TIDE_E_LIMIT, "there are more than %" PRId64 " rows",
                             look->row_max);
        for (int i = 0; i < count; i++) {
            values[i] = tide_sqlite_value(statement, i);
            len += len_of(&values[i]);
        }
        if (len > look->bytes_max)
            return tide_fail(err, TIDE_E_LIMIT, "the answer has more than %" PRId64 " bytes",
                             look->bytes_max);
        TIDE_TRY(look->row(look->arg, values, count, err));
    }
    return code == SQLITE_DONE ? TIDE_OK : fail_look(err, db, code, look);
}

/* Blanks, semicolons and comments may follow the one statement. */
static tide_status check_alone(const tide_readonly_query *look, sqlite3 *db, const char *rest,
                               tide_error *err)
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
    (void)look;
    return TIDE_OK;
}

static tide_status run(const tide_readonly_query *look, sqlite3 *db, tide_error *err)
{
    TIDE_CLEANUP(finalize) sqlite3_stmt *statement = NULL;
    const char *rest = look->sql;
    const int code = sqlite3_prepare_v2(db, look->sql, -1, &statement, &rest);
    if (code != SQLITE_OK)
        return fail_look(err, db, code, look);
    if (!statement)
        return tide_fail(err, TIDE_E_INVALID, "there is no statement in it");
    if (!sqlite3_stmt_readonly(statement))
        return tide_fail(err, TIDE_E_DENIED, "a query only reads");
    TIDE_TRY(check_alone(look, db, rest, err));
    const int count = sqlite3_column_count(statement);
    if (count > TIDE_LOOK_COLUMNS_MAX)
        return tide_fail(err, TIDE_E_LIMIT, "more than %d columns", TIDE_LOOK_COLUMNS_MAX);
    TIDE_TRY(tell_columns(look, statement, count, err));
    return tell_rows(look, db, statement, count, err);
}

static tide_status look_inside(tide_tx *tx, void *arg, tide_error *err)
{
    const tide_readonly_query *look = arg;
    tide_sqlite_connection *connection = tx->connection;
    tide_env *env = tx->store->env;
    connection->budget_until_us = env->mono_us(env) + look->timeout_us;
    const int length_max = look->bytes_max < INT32_MAX ? (int)look->bytes_max : INT32_MAX;
    const int usual = sqlite3_limit(connection->db, SQLITE_LIMIT_LENGTH, length_max);
    (void)sqlite3_set_authorizer(connection->db, judge, NULL);
    const tide_status status = run(look, connection->db, err);
    (void)sqlite3_set_authorizer(connection->db, NULL, NULL);
    (void)sqlite3_limit(connection->db, SQLITE_LIMIT_LENGTH, usual);
    return status;
}

tide_status tide_sqlite_look(tide_store *store, const tide_readonly_query *look, tide_error *err)
{
    tide_readonly_query once = *look;
    return store->ops->read(store, look_inside, &once, false, err);
}
