#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "store/duckdb/duckdb_internal.h"

enum { CELL_TEXT_MAX = 64 << 20 }; /* of the rendered cells of one row */

/* ---- statements ---- */

tide_duck_query *tide_duck_query_new(tide_duck *duck)
{
    tide_duck_query *query = calloc(1, sizeof *query);
    if (!query)
        return NULL;
    query->duck = duck;
    query->api = duck->api;
    tide_buffer_init(&query->text, CELL_TEXT_MAX);
    return query;
}

tide_status tide_duck_query_begin(tide_duck_query **out, tide_duck *duck, const tide_sql *sql,
                                  tide_error *err)
{
    TIDE_CLEANUP(tide_duck_query_endp) tide_duck_query *query = tide_duck_query_new(duck);
    TIDE_NEED_MEMORY(query, err);
    query->sql = &sql->engine[TIDE_ENGINE_POSTGRES];
    if (duck->api->prepare(duck->handle, query->sql->text, &query->prepared) == DuckDBError)
        return tide_duck_fail_text(DUCKDB_ERROR_INVALID, duck->api->prepare_error(query->prepared),
                                   sql->name, err);
    *out = TIDE_TAKE(query);
    return TIDE_OK;
}

/* Is it one that only reads? What a SELECT calls is kept in bounds by the read-only transaction. */
static bool is_reading(duckdb_statement_type type)
{
    return type == DUCKDB_STATEMENT_TYPE_SELECT || type == DUCKDB_STATEMENT_TYPE_EXPLAIN;
}

static tide_status prepare_text(tide_duck_query *query, duckdb_extracted_statements statements,
                                idx_t count, tide_error *err)
{
    const tide_duckdb_api *api = query->api;
    if (count == 0) {
        const char *why = api->extract_statements_error(statements);
        return tide_fail(err, TIDE_E_INVALID, "%.*s", (int)strcspn(why ? why : "", "\n"),
                         why ? why : "");
    }
    if (count > 1)
        return tide_fail(err, TIDE_E_INVALID, "%d statements, want one", (int)count);
    if (api->prepare_extracted_statement(query->duck->handle, statements, 0, &query->prepared) ==
        DuckDBError) {
        const char *why = api->prepare_error(query->prepared);
        const bool is_denied = why && strncmp(why, "Permission Error", 16) == 0;
        return tide_duck_fail_text(is_denied ? DUCKDB_ERROR_PERMISSION : DUCKDB_ERROR_BINDER, why,
                                   "query", err);
    }
    if (!is_reading(api->prepared_statement_type(query->prepared)))
        return tide_fail(err, TIDE_E_DENIED, "only statements that read are allowed here");
    return TIDE_OK;
}

tide_status tide_duck_query_begin_text(tide_duck_query **out, tide_duck *duck, const char *text,
                                       tide_error *err)
{
    TIDE_CLEANUP(tide_duck_query_endp) tide_duck_query *query = tide_duck_query_new(duck);
    TIDE_NEED_MEMORY(query, err);
    query->is_streaming = true;
    duckdb_extracted_statements statements = NULL;
    const idx_t count = duck->api->extract_statements(duck->handle, text, &statements);
    const tide_status status = prepare_text(query, statements, count, err);
    duck->api->destroy_extracted(&statements);
    TIDE_TRY(status);
    *out = TIDE_TAKE(query);
    return TIDE_OK;
}

void tide_duck_query_end(tide_duck_query *query)
{
    if (!query)
        return;
    if (query->chunk)
        query->api->destroy_data_chunk(&query->chunk);
    for (int i = 0; query->types && i < query->column_count; i++)
        query->api->destroy_logical_type(&query->types[i]);
    free(query->types);
    if (query->has_result)
        query->api->destroy_result(&query->result);
    if (query->prepared)
        query->api->destroy_prepare(&query->prepared);
    tide_buffer_done(&query->text);
    free(query);
}

/* ---- parameters ---- */

static idx_t find_param(const tide_duck_query *query, const char *name)
{
    assert(query->sql && !query->has_result);
    for (int i = 0; i < query->sql->param_count; i++)
        if (strcmp(query->sql->params[i], name) == 0)
            return (idx_t)i + 1;
    abort(); /* no parameter of the statement: a bug */
}

void tide_duck_bind_i64(tide_duck_query *query, const char *name, int64_t value)
{
    if (query->api->bind_int64(query->prepared, find_param(query, name), value) == DuckDBError)
        query->has_failed_bind = true;
}

void tide_duck_bind_text(tide_duck_query *query, const char *name, const char *value)
{
    const idx_t param = find_param(query, name);
    const duckdb_state state = value ? query->api->bind_varchar(query->prepared, param, value)
                                     : query->api->bind_null(query->prepared, param);
    if (state == DuckDBError)
        query->has_failed_bind = true;
}

void tide_duck_bind_time(tide_duck_query *query, const char *name, int64_t us)
{
    const duckdb_timestamp time = {.micros = us};
    if (query->api->bind_timestamp(query->prepared, find_param(query, name), time) == DuckDBError)
        query->has_failed_bind = true;
}

/* ---- rows ---- */

static tide_status know_columns(tide_duck_query *query, tide_error *err)
{
    const idx_t count = query->api->column_count(&query->result);
    if (count > TIDE_DUCKDB_COLUMNS_MAX)
        return tide_fail(err, TIDE_E_LIMIT, "an answer of %d columns, at most %d are read",
                         (int)count, TIDE_DUCKDB_COLUMNS_MAX);
    query->types = calloc(count + 1, sizeof(duckdb_logical_type));
    TIDE_NEED_MEMORY(query->types, err);
    query->column_count = (int)count;
    for (idx_t i = 0; i < count; i++)
        query->types[i] = query->api->column_logical_type(&query->result, i);
    return TIDE_OK;
}

static duckdb_state execute_streaming(tide_duck_query *query, tide_error *err)
{
    duckdb_pending_result pending = NULL;
    duckdb_state state = query->api->pending_prepared_streaming(query->prepared, &pending);
    if (state == DuckDBError) {
        TIDE_IGNORE(tide_duck_fail_text(DUCKDB_ERROR_BINDER, query->api->pending_error(pending),
                                        "query", err));
    } else {
        state = query->api->execute_pending(pending, &query->result);
        query->has_result = true;
    }
    query->api->destroy_pending(&pending);
    return state;
}

static tide_status execute(tide_duck_query *query, tide_error *err)
{
    if (query->has_failed_bind)
        return tide_fail(err, TIDE_E_FAILED, "a value could not be bound");
    TIDE_TRY(tide_duck_cancel_check(query->duck, err));
    if (query->is_streaming) {
        if (execute_streaming(query, err) == DuckDBError)
            return query->has_result ? tide_duck_fail(query->api, &query->result, "query", err)
                                     : TIDE_E_INVALID;
        return know_columns(query, err);
    }
    const duckdb_state state = query->api->execute_prepared(query->prepared, &query->result);
    query->has_result = true;
    if (state == DuckDBError)
        return tide_duck_fail(query->api, &query->result, "query", err);
    return know_columns(query, err);
}

static tide_status fetch(tide_duck_query *query, tide_error *err)
{
    do {
        if (query->chunk)
            query->api->destroy_data_chunk(&query->chunk);
        query->chunk = query->api->fetch_chunk(query->result);
        if (!query->chunk) {
            query->is_at_end = true;
            const char *why = query->api->result_error(&query->result);
            return why && *why ? tide_duck_fail(query->api, &query->result, "query", err)
                               : TIDE_NONE;
        }
        query->chunk_size = query->api->data_chunk_get_size(query->chunk);
    } while (query->chunk_size == 0);
    query->row = 0;
    return TIDE_OK;
}

tide_status tide_duck_query_step(tide_duck_query *query, tide_error *err)
{
    if (query->is_at_end)
        return TIDE_NONE;
    query->column = 0;
    tide_buffer_clear(&query->text);
    if (!query->has_result) {
        const tide_status status = execute(query, err);
        query->is_at_end = status < TIDE_OK;
        TIDE_TRY(status);
    } else if (++query->row < query->chunk_size) {
        return TIDE_OK;
    }
    return fetch(query, err);
}

tide_status tide_duck_query_run(tide_duck_query *query, int64_t *changed, tide_error *err)
{
    TIDE_TRY(execute(query, err));
    query->is_at_end = true;
    if (changed)
        *changed = (int64_t)query->api->rows_changed(&query->result);
    return TIDE_OK;
}

/* ---- columns ---- */

static duckdb_vector vector_of(const tide_duck_query *query, int column)
{
    assert(query->chunk && column < query->column_count);
    return query->api->data_chunk_get_vector(query->chunk, (idx_t)column);
}

static bool is_null_at(const tide_duck_query *query, int column)
{
    return !tide_duck_is_valid(query->api, vector_of(query, column), query->row);
}

bool tide_duck_col_is_null(const tide_duck_query *query)
{
    return is_null_at(query, query->column);
}

/* The values of the next column, if it is one of these types; NULL: the value is NULL. */
static const void *next_values(tide_duck_query *query, duckdb_type type, duckdb_type other,
                               duckdb_type *found)
{
    const int column = query->column++;
    *found = query->api->get_type_id(query->types[column]);
    assert(*found == type || *found == other ||
           (type == DUCKDB_TYPE_BIGINT && *found == DUCKDB_TYPE_UBIGINT));
    if (is_null_at(query, column))
        return NULL;
    return query->api->vector_get_data(vector_of(query, column));
}

int64_t tide_duck_col_i64(tide_duck_query *query)
{
    duckdb_type type;
    const void *values = next_values(query, DUCKDB_TYPE_BIGINT, DUCKDB_TYPE_INTEGER, &type);
    if (!values)
        return 0;
    return type == DUCKDB_TYPE_INTEGER ? ((const int32_t *)values)[query->row]
                                       : ((const int64_t *)values)[query->row];
}

bool tide_duck_col_bool(tide_duck_query *query)
{
    duckdb_type type;
    const bool *values = next_values(query, DUCKDB_TYPE_BOOLEAN, DUCKDB_TYPE_BOOLEAN, &type);
    return values ? values[query->row] : false;
}

static tide_view next_string(tide_duck_query *query, duckdb_type want)
{
    duckdb_type type;
    const duckdb_string_t *values = next_values(query, want, want, &type);
    return values ? tide_duck_string(&values[query->row]) : tide_view_of("");
}

tide_view tide_duck_col_text(tide_duck_query *query)
{
    return next_string(query, DUCKDB_TYPE_VARCHAR);
}

tide_view tide_duck_col_blob(tide_duck_query *query)
{
    return next_string(query, DUCKDB_TYPE_BLOB);
}

int64_t tide_duck_col_time(tide_duck_query *query)
{
    duckdb_type type;
    const duckdb_timestamp *values =
        next_values(query, DUCKDB_TYPE_TIMESTAMP, DUCKDB_TYPE_TIMESTAMP, &type);
    return values ? values[query->row].micros : 0;
}

int tide_duck_column_count(const tide_duck_query *query)
{
    return query->column_count;
}

const char *tide_duck_column_name(const tide_duck_query *query, int column)
{
    /* The library's signature is not const; it changes nothing. */
    return query->api->column_name((duckdb_result *)&query->result, (idx_t)column);
}

static bool read_number(tide_sql_value *out, duckdb_type type, const void *values, idx_t row)
{
    out->kind = TIDE_SQL_VALUE_I64;
    switch ((int)type) {
    case DUCKDB_TYPE_BOOLEAN:
        out->kind = TIDE_SQL_VALUE_BOOL;
        out->i64 = ((const bool *)values)[row];
        return true;
    case DUCKDB_TYPE_TINYINT:
        out->i64 = (int64_t)((
            const int8_t *)values)[row]; /* NOLINT(bugprone-signed-char-misuse,cert-str34-c) */
        return true;
    case DUCKDB_TYPE_SMALLINT:
        out->i64 = ((const int16_t *)values)[row];
        return true;
    case DUCKDB_TYPE_INTEGER:
        out->i64 = ((const int32_t *)values)[row];
        return true;
    case DUCKDB_TYPE_BIGINT:
        out->i64 = ((const int64_t *)values)[row];
        return true;
    case DUCKDB_TYPE_UTINYINT:
        out->i64 = ((const uint8_t *)values)[row];
        return true;
    case DUCKDB_TYPE_USMALLINT:
        out->i64 = ((const uint16_t *)values)[row];
        return true;
    case DUCKDB_TYPE_UINTEGER:
        out->i64 = ((const uint32_t *)values)[row];
        return true;
    case DUCKDB_TYPE_UBIGINT:
        out->i64 = (int64_t)((const uint64_t *)values)[row];
        return out->i64 >= 0;
    case DUCKDB_TYPE_HUGEINT: /* what sum() of whole numbers is */
        out->i64 = (int64_t)((const duckdb_hugeint *)values)[row].lower;
        return ((const duckdb_hugeint *)values)[row].upper == (out->i64 < 0 ? -1 : 0);
    case DUCKDB_TYPE_FLOAT:
        out->kind = TIDE_SQL_VALUE_F64;
        out->f64 = (double)((const float *)values)[row];
        return true;
    case DUCKDB_TYPE_DOUBLE:
        out->kind = TIDE_SQL_VALUE_F64;
        out->f64 = ((const double *)values)[row];
        return true;
    default:
        return false;
    }
}

static tide_status read_cell(tide_duck_query *query, int column, tide_sql_value *out,
                             tide_error *err)
{
    *out = (tide_sql_value){.kind = TIDE_SQL_VALUE_NULL};
    duckdb_vector vector = vector_of(query, column);
    if (!tide_duck_is_valid(query->api, vector, query->row))
        return TIDE_OK;
    const duckdb_type type = query->api->get_type_id(query->types[column]);
    const void *values = query->api->vector_get_data(vector);
    if (read_number(out, type, values, query->row))
        return TIDE_OK;
    out->kind = type == DUCKDB_TYPE_BLOB ? TIDE_SQL_VALUE_BLOB : TIDE_SQL_VALUE_TEXT;
    if (type == DUCKDB_TYPE_VARCHAR || type == DUCKDB_TYPE_BLOB) {
        out->bytes = tide_duck_string(&((const duckdb_string_t *)values)[query->row]);
        return TIDE_OK;
    }
    const size_t at = query->text.len;
    const tide_status status =
        tide_duck_render(query->api, &query->text, query->types[column], vector, query->row);
    if (status == TIDE_E_NOMEM)
        return tide_buffer_check(status, err);
    if (status < TIDE_OK)
        return tide_fail(err, TIDE_E_LIMIT, "a row of more than %d bytes", CELL_TEXT_MAX);
    out->bytes = tide_view_bytes(query->text.ptr + at, query->text.len - at);
    return TIDE_OK;
}

tide_status tide_duck_read_row(tide_duck_query *query, tide_sql_value *cells, tide_error *err)
{
    /* Rendered cells lie in one buffer, which moves while it grows: read them until it has stood
     * still. */
    const char *before;
    do {
        before = query->text.ptr;
        tide_buffer_clear(&query->text);
        for (int i = 0; i < query->column_count; i++)
            TIDE_TRY(read_cell(query, i, &cells[i], err));
    } while (query->text.ptr != before);
    return TIDE_OK;
}
