/* Statements that were made from templates, and what only they give: COPY's statistics. */
#include <assert.h>
#include <string.h>

#include "base/cleanup.h"
#include "store/duckdb/duckdb_internal.h"

/* A failed prepare has no type: its words begin with it. */
static duckdb_error_type type_of(const char *why)
{
    static const struct {
        const char *prefix;
        duckdb_error_type type;
    } kinds[] = {
        {"Permission Error", DUCKDB_ERROR_PERMISSION}, {"IO Error", DUCKDB_ERROR_IO},
        {"Out of Memory", DUCKDB_ERROR_OUT_OF_MEMORY}, {"INTERRUPT", DUCKDB_ERROR_INTERRUPT},
        {"INTERNAL Error", DUCKDB_ERROR_INTERNAL},     {"FATAL Error", DUCKDB_ERROR_FATAL},
    };
    for (size_t i = 0; why && i < sizeof kinds / sizeof kinds[0]; i++)
        if (strncmp(why, kinds[i].prefix, strlen(kinds[i].prefix)) == 0)
            return kinds[i].type;
    return DUCKDB_ERROR_BINDER;
}

tide_status tide_duck_query_begin_made(tide_duck_query **out, tide_duck *duck, const char *name,
                                       const char *text, tide_error *err)
{
    TIDE_CLEANUP(tide_duck_query_endp) tide_duck_query *query = tide_duck_query_new(duck);
    TIDE_NEED_MEMORY(query, err);
    if (duck->api->prepare(duck->handle, text, &query->prepared) == DuckDBError) {
        const char *why = duck->api->prepare_error(query->prepared);
        return tide_duck_fail_text(type_of(why), why, name, err);
    }
    *out = TIDE_TAKE(query);
    return TIDE_OK;
}

bool tide_duck_is_statement(tide_duck *duck, const char *text)
{
    duckdb_extracted_statements statements = NULL;
    const idx_t count = duck->api->extract_statements(duck->handle, text, &statements);
    duck->api->destroy_extracted(&statements);
    return count == 1;
}

/* A map is a list of pairs: struct vectors with the keys and the values. */
typedef struct map_rows {
    duckdb_vector keys;
    duckdb_vector values;
    duckdb_list_entry at;
} map_rows;

static map_rows map_at(const tide_duckdb_api *api, duckdb_vector map, idx_t row)
{
    duckdb_vector pairs = api->list_vector_get_child(map);
    return (map_rows){
        .keys = api->struct_vector_get_child(pairs, 0),
        .values = api->struct_vector_get_child(pairs, 1),
        .at = ((const duckdb_list_entry *)api->vector_get_data(map))[row],
    };
}

static tide_view text_at(const tide_duckdb_api *api, duckdb_vector vector, idx_t row)
{
    return tide_duck_string(&((const duckdb_string_t *)api->vector_get_data(vector))[row]);
}

static tide_status give_pairs(const tide_duckdb_api *api, const map_rows *outer, idx_t row,
                              tide_duck_pair_fn *fn, void *arg, tide_error *err)
{
    const tide_view name = text_at(api, outer->keys, row);
    const map_rows inner = map_at(api, outer->values, row);
    for (idx_t i = inner.at.offset; i < inner.at.offset + inner.at.length; i++)
        if (tide_duck_is_valid(api, inner.values, i))
            TIDE_TRY(
                fn(arg, name, text_at(api, inner.keys, i), text_at(api, inner.values, i), err));
    return TIDE_OK;
}

tide_status tide_duck_col_maps(tide_duck_query *query, tide_duck_pair_fn *fn, void *arg,
                               tide_error *err)
{
    const tide_duckdb_api *api = query->api;
    const int column = query->column++;
    assert(query->chunk && api->get_type_id(query->types[column]) == DUCKDB_TYPE_MAP);
    duckdb_vector vector = api->data_chunk_get_vector(query->chunk, (idx_t)column);
    if (!tide_duck_is_valid(api, vector, query->row))
        return TIDE_OK;
    const map_rows outer = map_at(api, vector, query->row);
    for (idx_t i = outer.at.offset; i < outer.at.offset + outer.at.length; i++)
        if (tide_duck_is_valid(api, outer.values, i))
            TIDE_TRY(give_pairs(api, &outer, i, fn, arg, err));
    return TIDE_OK;
}
