/* sqlite_query.c - running a query on SQLite. */
#include "base/cleanup.h"
#include "store/sqlite/sqlite_connection.h"

#include <assert.h>

static tide_sqlite_connection *connection_of(const tide_query *query)
{
    return query->tx->connection;
}

tide_status tide_sqlite_prepare(tide_query *query, tide_error *err)
{
    tide_sqlite_connection *connection = connection_of(query);
    const int code =
        tide_sqlite_statements_prepare(&connection->statements, connection->db, query->text->text);
    return code == SQLITE_OK ? TIDE_OK
                             : tide_sqlite_fail(err, connection->db, code, query->sql->name);
}

static tide_status start(tide_query *query, tide_error *err)
{
    tide_sqlite_connection *connection = connection_of(query);
    tide_sqlite_statement *statement = NULL;
    int code = tide_sqlite_statements_lend(&statement, &connection->statements, connection->db,
                                           query->text->text);
    if (code != SQLITE_OK)
        return tide_sqlite_fail(err, connection->db, code, query->sql->name);
    query->statement = statement;
    for (int i = 0; i < query->text->param_count; i++) {
        code = tide_sqlite_bind(statement->handle, i + 1, &query->values[i], true);
        if (code != SQLITE_OK)
            return tide_sqlite_fail(err, NULL, code, query->sql->name);
    }
    return TIDE_OK;
}

/* Give the statement back as soon as it has ended: another query may want it. */
static void release_statement(tide_query *query)
{
    tide_sqlite_statement_return(query->statement);
    query->statement = NULL;
}

static sqlite3_stmt *handle_of(const tide_query *query)
{
    const tide_sqlite_statement *statement = query->statement;
    return statement->handle;
}

tide_status tide_sqlite_step(tide_query *query, tide_error *err)
{
    if (!query->is_started)
        TIDE_TRY(start(query, err));
    sqlite3 *db = connection_of(query)->db;
    const int code = sqlite3_step(handle_of(query));
    if (code == SQLITE_ROW)
        return TIDE_OK;
    tide_status status = TIDE_NONE;
    if (code == SQLITE_DONE)
        query->changed = sqlite3_stmt_readonly(handle_of(query)) ? 0 : sqlite3_changes64(db);
    else
        status = tide_sqlite_fail(err, db, code, query->sql->name);
    release_statement(query);
    return status;
}

tide_status tide_sqlite_keep(tide_query *query, tide_error *err)
{
    const int width = sqlite3_column_count(handle_of(query));
    tide_sql_value *row = tide_arena_alloc(&query->arena, (size_t)width * sizeof *row);
    TIDE_NEED_MEMORY(row, err);
    for (int i = 0; i < width; i++) {
        row[i] = tide_sqlite_value(handle_of(query), i);
        if (row[i].kind != TIDE_SQL_VALUE_TEXT && row[i].kind != TIDE_SQL_VALUE_BLOB)
            continue;
        row[i].bytes.ptr = tide_arena_text(&query->arena, row[i].bytes);
        TIDE_NEED_MEMORY(row[i].bytes.ptr, err);
    }
    const tide_status status = tide_sqlite_step(query, err);
    if (status == TIDE_OK)
        return tide_query_several(query, err);
    query->result = row;
    query->row = width;
    return status < TIDE_OK ? status : TIDE_OK;
}

/* A row that was kept has its width in place of a row number. */
int tide_sqlite_width(const tide_query *query)
{
    return query->result ? query->row : sqlite3_column_count(handle_of(query));
}

tide_sql_value tide_sqlite_column(const tide_query *query, int index)
{
    if (query->result)
        return ((const tide_sql_value *)query->result)[index];
    return tide_sqlite_value(handle_of(query), index);
}

void tide_sqlite_reset(tide_query *query)
{
    release_statement(query);
}
