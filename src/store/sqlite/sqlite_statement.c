#include "store/sqlite/sqlite_statement.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/digest.h"
#include "base/text/timefmt.h"

/* ---- the cache ---- */

static tide_sqlite_statement **find_slot(tide_sqlite_statements *cache, const char *text)
{
    const tide_digest128 digest = tide_digest128_of(tide_view_of(text));
    return &cache->slots[(size_t)(digest.bytes[0] << 8 | digest.bytes[1]) % TIDE_SQLITE_SLOTS];
}

static void free_statement(tide_sqlite_statement *statement)
{
    (void)sqlite3_finalize(statement->handle);
    free(statement->text);
    free(statement);
}

static void drop_statements(tide_sqlite_statements *cache, bool with_lent)
{
    for (size_t i = 0; i < TIDE_SQLITE_SLOTS; i++) {
        tide_sqlite_statement **at = &cache->slots[i];
        while (*at) {
            tide_sqlite_statement *statement = *at;
            if (statement->is_lent && !with_lent) {
                at = &statement->next;
                continue;
            }
            *at = statement->next;
            cache->count--;
            free_statement(statement);
        }
    }
}

void tide_sqlite_statements_done(tide_sqlite_statements *cache)
{
    drop_statements(cache, true);
}

static int compile(tide_sqlite_statement **out, sqlite3 *db, const char *text)
{
    tide_sqlite_statement *fresh = calloc(1, sizeof *fresh);
    if (!fresh)
        return SQLITE_NOMEM;
    const char *tail = NULL;
    const int code =
        sqlite3_prepare_v3(db, text, -1, SQLITE_PREPARE_PERSISTENT, &fresh->handle, &tail);
    if (code != SQLITE_OK) {
        free(fresh);
        return code;
    }
    /* Empty, or several statements. */
    if (!fresh->handle || tail[strspn(tail, " \n\t;")] != '\0') {
        free_statement(fresh);
        return SQLITE_MISUSE;
    }
    *out = fresh;
    return SQLITE_OK;
}

/* The cached statement of a text, lent or not; compiled if need be. */
static int find_statement(tide_sqlite_statement **out, tide_sqlite_statements *cache, sqlite3 *db,
                          const char *text)
{
    tide_sqlite_statement **slot = find_slot(cache, text);
    for (tide_sqlite_statement *at = *slot; at; at = at->next)
        if (strcmp(at->text, text) == 0) {
            *out = at;
            return SQLITE_OK;
        }
    if (cache->count >= TIDE_SQLITE_STATEMENTS_MAX)
        drop_statements(cache, false);
    char *copy = strdup(text);
    const int code = copy ? compile(out, db, text) : SQLITE_NOMEM;
    if (code != SQLITE_OK) {
        free(copy);
        return code;
    }
    (*out)->text = copy;
    (*out)->next = *slot;
    *slot = *out;
    cache->count++;
    return SQLITE_OK;
}

int tide_sqlite_statements_prepare(tide_sqlite_statements *cache, sqlite3 *db, const char *text)
{
    tide_sqlite_statement *found = NULL;
    return find_statement(&found, cache, db, text);
}

int tide_sqlite_statements_lend(tide_sqlite_statement **out, tide_sqlite_statements *cache,
                                sqlite3 *db, const char *text)
{
    tide_sqlite_statement *found = NULL;
    int code = find_statement(&found, cache, db, text);
    if (code == SQLITE_OK && found->is_lent)
        code = compile(&found, db, text);
    if (code != SQLITE_OK)
        return code;
    found->is_lent = true;
    *out = found;
    return SQLITE_OK;
}

void tide_sqlite_statement_return(tide_sqlite_statement *statement)
{
    if (!statement)
        return;
    if (!statement->text) {
        free_statement(statement);
        return;
    }
    (void)sqlite3_reset(statement->handle);
    (void)sqlite3_clear_bindings(statement->handle);
    statement->is_lent = false;
}

/* ---- values ---- */

int tide_sqlite_bind(sqlite3_stmt *handle, int position, const tide_sql_value *value,
                     bool is_static)
{
    char time[TIDE_TIME_TEXT_SIZE];
    const sqlite3_destructor_type keep = is_static ? SQLITE_STATIC : SQLITE_TRANSIENT;
    switch (value->kind) {
    case TIDE_SQL_VALUE_NULL:
        return sqlite3_bind_null(handle, position);
    case TIDE_SQL_VALUE_I64:
    case TIDE_SQL_VALUE_BOOL:
        return sqlite3_bind_int64(handle, position, value->i64);
    case TIDE_SQL_VALUE_F64:
        return sqlite3_bind_double(handle, position, value->f64);
    case TIDE_SQL_VALUE_TEXT: /* empty is not NULL: SQLite reads a NULL pointer as NULL */
        return sqlite3_bind_text64(handle, position, value->bytes.ptr ? value->bytes.ptr : "",
                                   value->bytes.len, keep, SQLITE_UTF8);
    case TIDE_SQL_VALUE_BLOB:
        return sqlite3_bind_blob64(handle, position, value->bytes.ptr ? value->bytes.ptr : "",
                                   value->bytes.len, keep);
    case TIDE_SQL_VALUE_TIME:
        if (tide_time_format(value->i64, time) != TIDE_OK)
            return SQLITE_MISUSE;
        return sqlite3_bind_text(handle, position, time, TIDE_TIME_TEXT_SIZE - 1, SQLITE_TRANSIENT);
    }
    return SQLITE_MISUSE;
}

tide_sql_value tide_sqlite_value(sqlite3_stmt *handle, int column)
{
    tide_sql_value value = {.kind = TIDE_SQL_VALUE_NULL};
    switch (sqlite3_column_type(handle, column)) {
    case SQLITE_INTEGER:
        value.kind = TIDE_SQL_VALUE_I64;
        value.i64 = sqlite3_column_int64(handle, column);
        return value;
    case SQLITE_FLOAT:
        value.kind = TIDE_SQL_VALUE_F64;
        value.f64 = sqlite3_column_double(handle, column);
        return value;
    case SQLITE_TEXT:
        value.kind = TIDE_SQL_VALUE_TEXT;
        value.bytes.ptr = (const char *)sqlite3_column_text(handle, column);
        break;
    case SQLITE_BLOB:
        value.kind = TIDE_SQL_VALUE_BLOB;
        value.bytes.ptr = sqlite3_column_blob(handle, column);
        break;
    default:
        return value;
    }
    /* The pointer is asked for before the length: that order is SQLite's rule. Without a pointer it
     * is an empty BLOB, or no memory, which the next step reports. */
    value.bytes.len = value.bytes.ptr ? (size_t)sqlite3_column_bytes(handle, column) : 0;
    if (!value.bytes.ptr)
        value.bytes.ptr = "";
    return value;
}
