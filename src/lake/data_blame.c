/* Which row, which column: looked for when a source was refused. */

#include "base/cleanup.h"
#include "lake/data_parts.h"
#include "tidemark_lake_duck.h"

static tide_status begin_search(const tide_lake_source *source, tide_lake_data *data,
                                const tide_template_item *columns, tide_duck_query **query,
                                tide_error *err)
{
    const tide_template_list lists[] = {
        {.hole = "columns", .items = columns, .count = source->found_count},
        TIDE_LAKE_PIECE("source", source->text_sql),
    };
    const tide_template_context context = {.lists = lists, .list_count = 2};
    return tide_lake_made(query, data->duck, TIDE_TEMPLATE_DUCK_BAD_VALUE, &context, err);
}

/* TIDE_NONE: nothing is wrong with any value. */
static tide_status find_value(const tide_lake_source *source, tide_lake_data *data,
                              const tide_lake_table_seen *table, tide_error *err)
{
    TIDE_CLEANUP(tide_arena_done) tide_arena arena = tide_arena_of(TIDE_LAKE_ARENA_MAX);
    tide_template_item *columns =
        tide_arena_alloc(&arena, ((size_t)source->found_count + 1) * sizeof *columns);
    if (!columns)
        return TIDE_E_NOMEM;
    for (int i = 0; i < source->found_count; i++) {
        const int column = source->column_of[i];
        columns[i] =
            (tide_template_item){.name = source->found[i],
                                 .n = i + 1,
                                 .sql = source->types[column],
                                 .flags = tide_lake_source_is_whole(source, column) ? "whole" : ""};
    }
    TIDE_CLEANUP(tide_duck_query_endp) tide_duck_query *query = NULL;
    tide_error ignored = {0};
    TIDE_TRY(begin_search(source, data, columns, &query, &ignored));
    TIDE_TRY_FOUND(tide_duck_query_step(query, &ignored));
    const int64_t row = tide_duck_col_i64(query);
    const int column = source->column_of[tide_duck_col_i64(query) - 1];
    const tide_view value = tide_duck_col_text(query);
    TIDE_IGNORE(tide_fail(err, TIDE_E_INVALID, "%s, row %lld, column %s: '%.*s' is not a %s",
                          source->shown, (long long)row, table->columns[column].name,
                          (int)value.len, value.ptr, source->types[column]));
    return TIDE_OK;
}

tide_status tide_lake_source_blame(const tide_lake_source *source, tide_lake_data *data,
                                   const tide_lake_table_seen *table, tide_status status,
                                   tide_error *err)
{
    if (status != TIDE_E_INVALID || find_value(source, data, table, err) == TIDE_OK)
        return status;
    return tide_fail_context(err, status, "%s", source->shown);
}

tide_status tide_lake_source_blame_null(const tide_lake_source *source, tide_lake_data *data,
                                        const tide_lake_table_seen *table, int column,
                                        tide_error *err)
{
    const tide_template_list lists[] = {
        TIDE_LAKE_PIECE("value", source->expressions[column]),
        TIDE_LAKE_PIECE("source", source->rows_sql),
    };
    const tide_template_context context = {.lists = lists, .list_count = 2};
    TIDE_CLEANUP(tide_duck_query_endp) tide_duck_query *query = NULL;
    tide_error ignored = {0};
    long long row = 0;
    if (tide_lake_made(&query, data->duck, TIDE_TEMPLATE_DUCK_NULL_ROW, &context, &ignored) ==
            TIDE_OK &&
        tide_duck_query_step(query, &ignored) == TIDE_OK)
        row = (long long)tide_duck_col_i64(query);
    return tide_fail(err, TIDE_E_INVALID, "%s, row %lld: column %s may not be NULL", source->shown,
                     row, table->columns[column].name);
}
