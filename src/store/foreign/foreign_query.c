/* app_query.c - statements of an application's file: see app_file.h. */
#include "store/foreign/foreign_db.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/digest.h"
#include "store/foreign/foreign_internal.h"

static size_t find_slot(const char *text)
{
    const tide_digest128 digest = tide_digest128_of(tide_view_of(text));
    return (size_t)(digest.bytes[0] << 8 | digest.bytes[1]) % TIDE_FOREIGN_SLOTS;
}

static void free_statement(tide_foreign_statement *statement)
{
    (void)sqlite3_finalize(statement->handle);
    free(statement->text);
    free(statement);
}

static void drop_statements(tide_foreign_connection *connection, bool with_busy)
{
    for (size_t i = 0; i < TIDE_FOREIGN_SLOTS; i++) {
        tide_foreign_statement **at = &connection->slots[i];
        while (*at) {
            tide_foreign_statement *statement = *at;
            if (statement->is_busy && !with_busy) {
                at = &statement->next;
                continue;
            }
            *at = statement->next;
            connection->statement_count--;
            free_statement(statement);
        }
    }
}

void tide_foreign_statements_done(tide_foreign_connection *connection)
{
    drop_statements(connection, true);
}

static tide_status prepare(sqlite3_stmt **out, tide_foreign_connection *connection,
                           const char *text, tide_error *err)
{
    const char *tail = NULL;
    const int code =
        sqlite3_prepare_v3(connection->db, text, -1, SQLITE_PREPARE_PERSISTENT, out, &tail);
    if (code != SQLITE_OK)
        return tide_foreign_fail(err, connection, code);
    assert(*out && "a statement has a text");
    assert(tail[strspn(tail, " \n\t;")] == '\0' && "one statement at a time");
    return TIDE_OK;
}

/* The cached statement of a text, prepared if need be; NULL: it is in use. */
static tide_status find_statement(tide_foreign_statement **out, tide_foreign_connection *connection,
                                  const char *text, tide_error *err)
{
    *out = NULL;
    const size_t slot = find_slot(text);
    for (tide_foreign_statement *at = connection->slots[slot]; at; at = at->next) {
        if (strcmp(at->text, text) != 0)
            continue;
        *out = at->is_busy ? NULL : at;
        return TIDE_OK;
    }
    if (connection->statement_count >= TIDE_FOREIGN_STATEMENTS_MAX)
        drop_statements(connection, false);
    tide_foreign_statement *fresh = calloc(1, sizeof *fresh);
    char *copy = strdup(text);
    if (!fresh || !copy) {
        free(copy);
        free(fresh);
        return tide_no_memory(err);
    }
    const tide_status status = prepare(&fresh->handle, connection, text, err);
    if (status < TIDE_OK) {
        free(copy);
        free(fresh);
        return status;
    }
    fresh->text = copy;
    fresh->next = connection->slots[slot];
    connection->slots[slot] = fresh;
    connection->statement_count++;
    *out = fresh;
    return TIDE_OK;
}

tide_status tide_foreign_begin(tide_foreign_query **out, tide_foreign_tx *tx, const char *text,
                               tide_error *err)
{
    *out = NULL;
    tide_foreign_statement *statement = NULL;
    TIDE_TRY(find_statement(&statement, tx->connection, text, err));
    tide_foreign_query *query = calloc(1, sizeof *query);
    if (!query)
        return tide_no_memory(err);
    if (statement) {
        statement->is_busy = true;
        query->cached = statement;
        query->handle = statement->handle;
    } else {
        const tide_status status = prepare(&query->handle, tx->connection, text, err);
        if (status < TIDE_OK) {
            free(query);
            return status;
        }
    }
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
    if (query->cached) {
        (void)sqlite3_reset(query->handle);
        (void)sqlite3_clear_bindings(query->handle);
        query->cached->is_busy = false;
    } else {
        (void)sqlite3_finalize(query->handle);
    }
    free(query);
}

void tide_foreign_endp(tide_foreign_query **query)
{
    tide_foreign_end(*query);
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

/* Whoever binds in the order of the statement is spared the search. */
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

/* What does not fit is stored as NULL by SQLite and told by the step: the only failure of a bind is memory or size. */
void tide_foreign_bind_at(tide_foreign_query *query, int position, const tide_foreign_value *value)
{
    sqlite3_stmt *handle = query->handle;
    const char *bytes = value->bytes.ptr ? value->bytes.ptr : "";
    switch (value->class) {
    case SQLITE_INTEGER:
        (void)sqlite3_bind_int64(handle, position, value->integer);
        break;
    case SQLITE_FLOAT:
        (void)sqlite3_bind_double(handle, position, value->real);
        break;
    case SQLITE_TEXT:
        (void)sqlite3_bind_text64(handle, position, bytes, value->bytes.len, SQLITE_TRANSIENT,
                                  SQLITE_UTF8);
        break;
    case SQLITE_BLOB:
        (void)sqlite3_bind_blob64(handle, position, bytes, value->bytes.len, SQLITE_TRANSIENT);
        break;
    default:
        (void)sqlite3_bind_null(handle, position);
    }
}

static void bind(tide_foreign_query *query, const char *name, const tide_foreign_value *value)
{
    tide_foreign_bind_at(query, find_parameter(query, name), value);
}

void tide_foreign_bind_null(tide_foreign_query *query, const char *name)
{
    bind(query, name, &(tide_foreign_value){.class = SQLITE_NULL});
}

void tide_foreign_bind_i64(tide_foreign_query *query, const char *name, int64_t value)
{
    bind(query, name, &(tide_foreign_value){.class = SQLITE_INTEGER, .integer = value});
}

void tide_foreign_bind_f64(tide_foreign_query *query, const char *name, double value)
{
    bind(query, name, &(tide_foreign_value){.class = SQLITE_FLOAT, .real = value});
}

void tide_foreign_bind_text(tide_foreign_query *query, const char *name, tide_view value)
{
    bind(query, name, &(tide_foreign_value){.class = SQLITE_TEXT, .bytes = value});
}

void tide_foreign_bind_blob(tide_foreign_query *query, const char *name, tide_view value)
{
    bind(query, name, &(tide_foreign_value){.class = SQLITE_BLOB, .bytes = value});
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

tide_status tide_foreign_script(tide_foreign_tx *tx, const char *text, tide_error *err)
{
    assert(tx->is_write);
    return tide_foreign_exec(tx->connection, text, err);
}

/* ---- values out ---- */

int tide_foreign_col_class(const tide_foreign_query *query)
{
    return sqlite3_column_type(query->handle, query->column);
}

int64_t tide_foreign_col_i64(tide_foreign_query *query)
{
    return sqlite3_column_int64(query->handle, query->column++);
}

double tide_foreign_col_f64(tide_foreign_query *query)
{
    return sqlite3_column_double(query->handle, query->column++);
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

tide_foreign_value tide_foreign_col(tide_foreign_query *query)
{
    tide_foreign_value value = {.class = tide_foreign_col_class(query)};
    if (value.class == SQLITE_INTEGER)
        value.integer = tide_foreign_col_i64(query);
    else if (value.class == SQLITE_FLOAT)
        value.real = tide_foreign_col_f64(query);
    else if (value.class == SQLITE_NULL)
        query->column++;
    else
        value.bytes = tide_foreign_col_bytes(query);
    return value;
}
