/* sqlite_query.c - running a query on SQLite. */
#include "store/sqlite/sqlite_connection.h"

#include <assert.h>

#include "base/text/timefmt.h"

static tide_sqlite_connection *connection_of(const tide_query *query)
{
    return query->tx->connection;
}

static tide_status compile(sqlite3_stmt **out, const tide_query *query, tide_error *err)
{
    sqlite3 *db = connection_of(query)->db;
    const int code =
        sqlite3_prepare_v3(db, query->text->text, -1, SQLITE_PREPARE_PERSISTENT, out, NULL);
    if (code != SQLITE_OK)
        return tide_sqlite_fail(err, db, code, query->sql->name);
    return TIDE_OK;
}

tide_status tide_sqlite_prepare(tide_query *query, tide_error *err)
{
    tide_statement_map *statements = &connection_of(query)->statements;
    if (tide_statement_map_find(statements, query->sql))
        return TIDE_OK;
    sqlite3_stmt *statement = NULL;
    TIDE_TRY(compile(&statement, query, err));
    if (tide_statement_map_put(statements, query->sql, statement))
        return TIDE_OK;
    (void)sqlite3_finalize(statement);
    return tide_no_memory(err);
}

static int bind_one(sqlite3_stmt *statement, int at, const tide_value *value)
{
    char text[TIDE_TIME_TEXT_SIZE];
    switch (value->kind) {
    case TIDE_VALUE_NULL:
        return sqlite3_bind_null(statement, at);
    case TIDE_VALUE_I64:
    case TIDE_VALUE_BOOL:
        return sqlite3_bind_int64(statement, at, value->as.i64);
    case TIDE_VALUE_F64:
        return sqlite3_bind_double(statement, at, value->as.f64);
    case TIDE_VALUE_TEXT:
        return sqlite3_bind_text64(statement, at, value->as.bytes.ptr, value->as.bytes.len,
                                   SQLITE_STATIC, SQLITE_UTF8);
    case TIDE_VALUE_BLOB:
        return sqlite3_bind_blob64(statement, at, value->as.bytes.ptr, value->as.bytes.len,
                                   SQLITE_STATIC);
    case TIDE_VALUE_TIME:
        if (tide_time_format(value->as.i64, text) != TIDE_OK)
            return SQLITE_MISUSE; /* tide_query_bind_time has looked already */
        return sqlite3_bind_text(statement, at, text, TIDE_TIME_TEXT_SIZE - 1, SQLITE_TRANSIENT);
    }
    return SQLITE_MISUSE;
}

/* The kept statement may be in the middle of another query's rows. */
static tide_status choose_statement(tide_query *query, tide_error *err)
{
    sqlite3_stmt *kept = tide_statement_map_find(&connection_of(query)->statements, query->sql);
    if (!sqlite3_stmt_busy(kept)) {
        query->statement = kept;
        return TIDE_OK;
    }
    sqlite3_stmt *spare = NULL;
    TIDE_TRY(compile(&spare, query, err));
    query->statement = spare;
    query->is_spare_statement = true;
    return TIDE_OK;
}

static tide_status start(tide_query *query, tide_error *err)
{
    TIDE_TRY(choose_statement(query, err));
    for (int i = 0; i < query->text->param_count; i++) {
        const int code = bind_one(query->statement, i + 1, &query->values[i]);
        if (code != SQLITE_OK)
            return tide_sqlite_fail(err, NULL, code, query->sql->name);
    }
    return TIDE_OK;
}

/* Give the statement back as soon as it has ended: another query may want it. */
static void release_statement(tide_query *query)
{
    if (query->is_spare_statement)
        (void)sqlite3_finalize(query->statement);
    else if (query->statement)
        (void)sqlite3_reset(query->statement);
    query->statement = NULL;
    query->is_spare_statement = false;
}

tide_status tide_sqlite_step(tide_query *query, tide_error *err)
{
    if (!query->is_started)
        TIDE_TRY(start(query, err));
    sqlite3 *db = connection_of(query)->db;
    const int code = sqlite3_step(query->statement);
    if (code == SQLITE_ROW)
        return TIDE_OK;
    tide_status status = TIDE_NONE;
    if (code == SQLITE_DONE)
        query->changed = sqlite3_stmt_readonly(query->statement) ? 0 : sqlite3_changes64(db);
    else
        status = tide_sqlite_fail(err, db, code, query->sql->name);
    release_statement(query);
    return status;
}

tide_value tide_sqlite_value(sqlite3_stmt *statement, int at)
{
    tide_value value = {.kind = TIDE_VALUE_NULL};
    switch (sqlite3_column_type(statement, at)) {
    case SQLITE_INTEGER:
        value.kind = TIDE_VALUE_I64;
        value.as.i64 = sqlite3_column_int64(statement, at);
        break;
    case SQLITE_FLOAT:
        value.kind = TIDE_VALUE_F64;
        value.as.f64 = sqlite3_column_double(statement, at);
        break;
    case SQLITE_TEXT:
        value.kind = TIDE_VALUE_TEXT;
        value.as.bytes.ptr = (const char *)sqlite3_column_text(statement, at);
        value.as.bytes.len = (size_t)sqlite3_column_bytes(statement, at);
        break;
    case SQLITE_BLOB:
        value.kind = TIDE_VALUE_BLOB;
        value.as.bytes.ptr = sqlite3_column_blob(statement, at);
        value.as.bytes.len = (size_t)sqlite3_column_bytes(statement, at);
        break;
    default:
        break;
    }
    return value;
}

tide_status tide_sqlite_keep(tide_query *query, tide_error *err)
{
    const int width = sqlite3_column_count(query->statement);
    tide_value *row = tide_arena_alloc(&query->arena, (size_t)width * sizeof *row);
    if (!row)
        return tide_no_memory(err);
    for (int i = 0; i < width; i++) {
        row[i] = tide_sqlite_value(query->statement, i);
        if (row[i].kind != TIDE_VALUE_TEXT && row[i].kind != TIDE_VALUE_BLOB)
            continue;
        row[i].as.bytes.ptr = tide_arena_text(&query->arena, row[i].as.bytes);
        if (!row[i].as.bytes.ptr)
            return tide_no_memory(err);
    }
    const tide_status status = tide_sqlite_step(query, err);
    if (status == TIDE_OK)
        return tide_query_several(query, err);
    query->result = row;
    return status < TIDE_OK ? status : TIDE_OK;
}

tide_value tide_sqlite_column(const tide_query *query, int index)
{
    if (query->result)
        return ((const tide_value *)query->result)[index];
    assert(index < sqlite3_column_count(query->statement));
    return tide_sqlite_value(query->statement, index);
}

void tide_sqlite_reset(tide_query *query)
{
    release_statement(query);
}
