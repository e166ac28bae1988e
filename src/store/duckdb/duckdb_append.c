#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "store/duckdb/duckdb_internal.h"

/* Rows are gathered in a chunk, column by column, as DuckDB itself keeps them, and handed over when
 * it is full. */
struct tide_duck_appender {
    const tide_duckdb_api *api;
    duckdb_appender handle;
    duckdb_data_chunk chunk;
    int column_count;
    duckdb_logical_type *types;
    duckdb_type *kinds;
    duckdb_vector *vectors;
    void **values;
    idx_t row;
    idx_t row_max;
    int column;
    bool has_failed;
};

/* Vectors are other ones after a reset. */
static void read_chunk(tide_duck_appender *appender)
{
    for (int i = 0; i < appender->column_count; i++) {
        appender->vectors[i] = appender->api->data_chunk_get_vector(appender->chunk, (idx_t)i);
        appender->values[i] = appender->api->vector_get_data(appender->vectors[i]);
        appender->api->vector_ensure_validity_writable(appender->vectors[i]);
    }
    appender->row = 0;
}

static tide_status make_chunk(tide_duck_appender *appender, tide_error *err)
{
    const tide_duckdb_api *api = appender->api;
    const idx_t count = api->appender_column_count(appender->handle);
    appender->types = calloc(count + 1, sizeof(duckdb_logical_type));
    appender->kinds = calloc(count + 1, sizeof *appender->kinds);
    appender->vectors = calloc(count + 1, sizeof(duckdb_vector));
    appender->values = calloc(count + 1, sizeof(void *));
    TIDE_NEED_MEMORY(appender->types && appender->kinds && appender->vectors && appender->values,
                     err);
    appender->column_count = (int)count;
    for (idx_t i = 0; i < count; i++) {
        appender->types[i] = api->appender_column_type(appender->handle, i);
        appender->kinds[i] = api->get_type_id(appender->types[i]);
    }
    appender->chunk = api->create_data_chunk(appender->types, count);
    appender->row_max = api->vector_size();
    read_chunk(appender);
    return TIDE_OK;
}

tide_status tide_duck_append_begin(tide_duck_appender **out, tide_duck *duck, const char *table,
                                   tide_error *err)
{
    TIDE_CLEANUP(tide_duck_append_dropp) TIDE_NEW(tide_duck_appender, appender, err);
    appender->api = duck->api;
    if (duck->api->appender_create(duck->handle, NULL, table, &appender->handle) == DuckDBError)
        return tide_duck_fail_text(DUCKDB_ERROR_CATALOG,
                                   duck->api->appender_error(appender->handle), table, err);
    TIDE_TRY(make_chunk(appender, err));
    *out = TIDE_TAKE(appender);
    return TIDE_OK;
}

static void hand_over(tide_duck_appender *appender)
{
    if (appender->row == 0 || appender->has_failed)
        return;
    appender->api->data_chunk_set_size(appender->chunk, appender->row);
    if (appender->api->append_data_chunk(appender->handle, appender->chunk) == DuckDBError)
        appender->has_failed = true;
    appender->api->data_chunk_reset(appender->chunk);
    read_chunk(appender);
}

/* The place of the next value; its column has one of these types. */
static void *next_place(tide_duck_appender *appender, duckdb_type kind, duckdb_type other)
{
    assert(appender->column < appender->column_count);
    const int column = appender->column++;
    assert(appender->kinds[column] == kind || appender->kinds[column] == other);
    return appender->values[column];
}

void tide_duck_put_null(tide_duck_appender *appender)
{
    assert(appender->column < appender->column_count);
    duckdb_vector vector = appender->vectors[appender->column++];
    appender->api->validity_set_row_invalid(appender->api->vector_get_validity(vector),
                                            appender->row);
}

void tide_duck_put_i64(tide_duck_appender *appender, int64_t value)
{
    void *values = next_place(appender, DUCKDB_TYPE_BIGINT, DUCKDB_TYPE_INTEGER);
    if (appender->kinds[appender->column - 1] == DUCKDB_TYPE_BIGINT)
        ((int64_t *)values)[appender->row] = value;
    else
        ((int32_t *)values)[appender->row] = (int32_t)value;
}

void tide_duck_put_u64(tide_duck_appender *appender, uint64_t value)
{
    ((uint64_t *)next_place(appender, DUCKDB_TYPE_UBIGINT, DUCKDB_TYPE_UBIGINT))[appender->row] =
        value;
}

void tide_duck_put_f64(tide_duck_appender *appender, double value)
{
    ((double *)next_place(appender, DUCKDB_TYPE_DOUBLE, DUCKDB_TYPE_DOUBLE))[appender->row] = value;
}

void tide_duck_put_bool(tide_duck_appender *appender, bool value)
{
    ((bool *)next_place(appender, DUCKDB_TYPE_BOOLEAN, DUCKDB_TYPE_BOOLEAN))[appender->row] = value;
}

void tide_duck_put_time(tide_duck_appender *appender, int64_t us)
{
    ((int64_t *)next_place(appender, DUCKDB_TYPE_TIMESTAMP, DUCKDB_TYPE_TIMESTAMP))[appender->row] =
        us;
}

static void put_bytes(tide_duck_appender *appender, duckdb_type kind, tide_view value)
{
    (void)next_place(appender, kind, kind);
    appender->api->vector_assign_string_element_len(appender->vectors[appender->column - 1],
                                                    appender->row, value.ptr ? value.ptr : "",
                                                    value.len);
}

void tide_duck_put_text(tide_duck_appender *appender, tide_view value)
{
    put_bytes(appender, DUCKDB_TYPE_VARCHAR, value);
}

void tide_duck_put_blob(tide_duck_appender *appender, tide_view value)
{
    put_bytes(appender, DUCKDB_TYPE_BLOB, value);
}

void tide_duck_put_ids(tide_duck_appender *appender, const uint64_t *ids, int count)
{
    duckdb_list_entry *entries = next_place(appender, DUCKDB_TYPE_LIST, DUCKDB_TYPE_LIST);
    duckdb_vector vector = appender->vectors[appender->column - 1];
    const idx_t first = appender->api->list_vector_get_size(vector);
    const idx_t more = (idx_t)count;
    if (appender->api->list_vector_reserve(vector, first + more) == DuckDBError ||
        appender->api->list_vector_set_size(vector, first + more) == DuckDBError) {
        appender->has_failed = true;
        return;
    }
    uint64_t *child = appender->api->vector_get_data(appender->api->list_vector_get_child(vector));
    if (count > 0)
        memcpy(child + first, ids, more * sizeof *ids);
    entries[appender->row] = (duckdb_list_entry){.offset = first, .length = more};
}

void tide_duck_end_row(tide_duck_appender *appender)
{
    assert(appender->column == appender->column_count);
    appender->column = 0;
    appender->row++;
    if (appender->row == appender->row_max)
        hand_over(appender);
}

static void drop(tide_duck_appender *appender)
{
    if (appender->chunk)
        appender->api->destroy_data_chunk(&appender->chunk);
    for (int i = 0; appender->types && i < appender->column_count; i++)
        appender->api->destroy_logical_type(&appender->types[i]);
    if (appender->handle)
        (void)appender->api->appender_destroy(&appender->handle);
    free(appender->types);
    free(appender->kinds);
    free(appender->vectors);
    free((void *)appender->values);
    free(appender);
}

tide_status tide_duck_append_end(tide_duck_appender **appender, tide_error *err)
{
    tide_duck_appender *own = TIDE_TAKE(*appender);
    if (!own)
        return TIDE_OK;
    hand_over(own);
    tide_status status = TIDE_OK;
    if (own->has_failed || own->api->appender_flush(own->handle) == DuckDBError)
        status = tide_duck_fail_text(DUCKDB_ERROR_INVALID, own->api->appender_error(own->handle),
                                     "append", err);
    drop(own);
    return status;
}

void tide_duck_append_dropp(tide_duck_appender **appender)
{
    tide_duck_appender *own = TIDE_TAKE(*appender);
    if (own)
        drop(own);
}
