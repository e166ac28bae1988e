/* foreign_query.c - statements of an application's file: see foreign_db.h. */
#include "store/foreign/foreign_db.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "store/foreign/foreign_internal.h"

tide_status tide_foreign_begin(tide_foreign_query **out, tide_foreign_tx *tx, const char *text,
                               tide_error *err)
{
    *out = NULL;
    TIDE_NEW(tide_foreign_query, query, err);
    tide_foreign_connection *connection = tx->connection;
    tide_sqlite_statements *cache =
        connection->is_guarded ? &connection->guarded : &connection->statements;
    const int code = tide_sqlite_statements_lend(&query->statement, cache, connection->db, text);
    if (code != SQLITE_OK) {
        free(query);
        const tide_status status = tide_foreign_fail(err, connection, code);
        assert(status < TIDE_OK);
        return status;
    }
    query->handle = query->statement->handle;
    query->tx = tx;
    query->next = tx->queries;
    query->previous = &tx->queries;
    if (query->next)
        query->next->previous = &query->next;
    tx->queries = query;
    *out = query;
    return TIDE_OK;
}

void tide_foreign_end(tide_foreign_query *query)
{
    if (!query)
        return;
    *query->previous = query->next;
    if (query->next)
        query->next->previous = query->previous;
    tide_sqlite_statement_return(query->statement);
    free(query);
}

void tide_foreign_end_all(tide_foreign_tx *tx)
{
    while (tx->queries)
        tide_foreign_end(tx->queries);
}

void tide_foreign_reset(tide_foreign_query *query)
{
    (void)sqlite3_reset(query->handle);
    (void)sqlite3_clear_bindings(query->handle);
    query->column = 0;
    query->parameter = 0;
}

/* ---- values in ---- */

/* Binding in the order of the statement needs no search. */
static int find_parameter(tide_foreign_query *query, const char *name)
{
    char with_colon[64];
    const char *next = sqlite3_bind_parameter_name(query->handle, query->parameter + 1);
    if (next && strcmp(next + 1, name) == 0)
        return ++query->parameter;
    const size_t len = strlen(name);
    assert(len + 2 <= sizeof with_colon);
    with_colon[0] = ':';
    memcpy(with_colon + 1, name, len + 1);
    const int position = sqlite3_bind_parameter_index(query->handle, with_colon);
    assert(position > 0 && "the statement has no such parameter");
    query->parameter = position;
    return position;
}

/* A value that cannot be bound is bound as NULL. That happens without memory or beyond SQLite's
 * limits, and the step reports it. */
void tide_foreign_bind_at(tide_foreign_query *query, int position, tide_sql_value value)
{
    (void)tide_sqlite_bind(query->handle, position, &value, false);
}

void tide_foreign_bind(tide_foreign_query *query, const char *name, tide_sql_value value)
{
    tide_foreign_bind_at(query, find_parameter(query, name), value);
}

void tide_foreign_bind_null(tide_foreign_query *query, const char *name)
{
    tide_foreign_bind(query, name, (tide_sql_value){.kind = TIDE_SQL_VALUE_NULL});
}

void tide_foreign_bind_i64(tide_foreign_query *query, const char *name, int64_t value)
{
    tide_foreign_bind(query, name, (tide_sql_value){.kind = TIDE_SQL_VALUE_I64, .i64 = value});
}

void tide_foreign_bind_text(tide_foreign_query *query, const char *name, tide_view value)
{
    tide_foreign_bind(query, name, (tide_sql_value){.kind = TIDE_SQL_VALUE_TEXT, .bytes = value});
}

void tide_foreign_bind_blob(tide_foreign_query *query, const char *name, tide_view value)
{
    tide_foreign_bind(query, name, (tide_sql_value){.kind = TIDE_SQL_VALUE_BLOB, .bytes = value});
}

/* ---- running ---- */

tide_status tide_foreign_step(tide_foreign_query *query, tide_error *err)
{
    query->column = 0;
    const int code = sqlite3_step(query->handle);
    if (code == SQLITE_ROW)
        return TIDE_OK;
    if (code == SQLITE_DONE)
        return TIDE_NONE;
    const tide_status status = tide_foreign_fail(err, query->tx->connection, code);
    (void)sqlite3_reset(query->handle);
    return status;
}

tide_status tide_foreign_run(tide_foreign_query *query, int64_t *changed, tide_error *err)
{
    tide_status status = TIDE_OK;
    while ((status = tide_foreign_step(query, err)) == TIDE_OK) {
    }
    if (status < TIDE_OK)
        return status;
    if (changed)
        *changed = sqlite3_changes64(query->tx->connection->db);
    return TIDE_OK;
}

tide_status tide_foreign_start_binds(tide_foreign_query **out, tide_foreign_tx *tx,
                                     const char *text, const tide_bind *binds, tide_error *err)
{
    TIDE_TRY(tide_foreign_begin(out, tx, text, err));
    for (; binds->kind != TIDE_BIND_END; binds++) {
        assert(binds->kind == TIDE_BIND_VALUE || binds->kind == TIDE_BIND_NOTHING);
        if (binds->kind == TIDE_BIND_VALUE)
            tide_foreign_bind(*out, binds->name, binds->value);
    }
    return TIDE_OK;
}

tide_status tide_foreign_exec_binds(tide_foreign_tx *tx, const char *text, int64_t *changed,
                                    const tide_bind *binds, tide_error *err)
{
    TIDE_FOREIGN_QUERY_BY(query, tide_foreign_start_binds, tx, text, binds, err);
    return tide_foreign_run(query, changed, err);
}

tide_status tide_foreign_first_binds(tide_foreign_query **out, tide_foreign_tx *tx,
                                     const char *text, const tide_bind *binds, tide_error *err)
{
    TIDE_TRY(tide_foreign_start_binds(out, tx, text, binds, err));
    return tide_foreign_step(*out, err);
}

tide_status tide_foreign_number_binds(int64_t *out, tide_foreign_tx *tx, const char *text,
                                      const tide_bind *binds, tide_error *err)
{
    TIDE_CLEANUP(tide_foreign_endp) tide_foreign_query *query = NULL;
    TIDE_TRY_FOUND(tide_foreign_first_binds(&query, tx, text, binds, err));
    if (tide_foreign_col_is_null(query))
        return TIDE_NONE;
    *out = tide_foreign_col_i64(query);
    return TIDE_OK;
}

void tide_foreign_guard(tide_foreign_tx *tx, bool is_guarded)
{
    tx->connection->is_guarded = is_guarded;
}

tide_status tide_foreign_script(tide_foreign_tx *tx, const char *text, tide_error *err)
{
    assert(tx->is_write);
    return tide_foreign_run_script(tx->connection, text, err);
}

/* ---- values out ---- */

bool tide_foreign_col_is_null(const tide_foreign_query *query)
{
    return sqlite3_column_type(query->handle, query->column) == SQLITE_NULL;
}

int64_t tide_foreign_col_i64(tide_foreign_query *query)
{
    return sqlite3_column_int64(query->handle, query->column++);
}

tide_view tide_foreign_col_bytes(tide_foreign_query *query)
{
    const int column = query->column++;
    /* As a text only where it is one: asking for a BLOB's text would convert it. */
    const void *bytes = sqlite3_column_type(query->handle, column) == SQLITE_BLOB
                            ? sqlite3_column_blob(query->handle, column)
                            : sqlite3_column_text(query->handle, column);
    const int len = sqlite3_column_bytes(query->handle, column);
    return tide_view_bytes(bytes ? bytes : "", bytes ? (size_t)len : 0);
}

tide_sql_value tide_foreign_col(tide_foreign_query *query)
{
    return tide_sqlite_value(query->handle, query->column++);
}
