/* Rows become files: COPY into a directory of its own, a look at what was written, sync, and then their names in the table's directory. */
#include <limits.h>
#include <string.h>

#include "base/cleanup.h"
#include "lake/data_parts.h"
#include "lake/quote.h"
#include "lake/types.h"
#include "tidemark_lake_duck.h"

typedef struct job {
    tide_lake_data *data;
    const tide_lake_table_seen *table;
    const tide_lake_rows *rows;
    tide_lake_written *out;
    tide_arena arena;
    char stage[PATH_MAX];
    int placed; /* files that have their names */
} job;

static tide_status fill_columns(job *j, tide_template_item **out, tide_error *err)
{
    const size_t count = (size_t)j->table->column_count;
    tide_template_item *items = tide_arena_alloc(&j->arena, (count + 1) * sizeof *items);
    TIDE_NEED_MEMORY(items, err);
    for (size_t i = 0; i < count; i++)
        items[i] = (tide_template_item){.name = j->table->columns[i].name,
                                        .n = j->table->columns[i].id,
                                        .sql = j->rows->expressions[i]};
    *out = items;
    return TIDE_OK;
}

/* What rows of one partition have in common, as the name of a directory. */
static tide_status fill_keys(job *j, tide_template_item *items, tide_error *err)
{
    const char *values[TIDE_LAKE_PARTITION_KEYS_MAX] = {0};
    TIDE_TRY(tide_lake_partition_sql(j->table, j->rows->expressions, values, &j->arena, err));
    for (int i = 0; i < j->table->partition.count; i++) {
        const tide_template_list list = TIDE_LAKE_PIECE("value", values[i]);
        const tide_template_context context = {.lists = &list, .list_count = 1};
        TIDE_TRY(tide_lake_fill(&items[i].sql, &j->arena, TIDE_TEMPLATE_DUCK_PARTITION_KEY,
                                &context, err));
        char stem[] = "tide_key_0";
        stem[sizeof stem - 2] = (char)('0' + i);
        char *name = tide_arena_alloc(&j->arena, 64);
        TIDE_NEED_MEMORY(name, err);
        items[i].name = name;
        tide_lake_free_name(name, j->table, stem);
    }
    return TIDE_OK;
}

static tide_status begin_copy(job *j, tide_duck_query **query, tide_error *err)
{
    tide_template_item *columns = NULL;
    TIDE_TRY(fill_columns(j, &columns, err));
    tide_template_item keys[TIDE_LAKE_PARTITION_KEYS_MAX] = {0};
    TIDE_TRY(fill_keys(j, keys, err));
    char *target = tide_lake_quote_text(&j->arena, j->stage);
    TIDE_NEED_MEMORY(target, err);
    const tide_template_list lists[] = {
        {.hole = "columns", .items = columns, .count = j->table->column_count},
        {.hole = "keys", .items = keys, .count = j->table->partition.count},
        TIDE_LAKE_PIECE("source", j->rows->source),
        TIDE_LAKE_PIECE("target", target),
    };
    const tide_template_value size = {.hole = "file_bytes", .number = j->data->file_bytes};
    const tide_template_context context = {
        .values = &size,
        .value_count = 1,
        .lists = lists,
        .list_count = 4,
        .flags = j->table->partition.count > 0 ? "parts" : "",
    };
    return tide_lake_made(query, j->data->duck, TIDE_TEMPLATE_DUCK_COPY, &context, err);
}

static tide_status read_files(job *j, tide_duck_query *query, tide_error *err)
{
    TIDE_EACH(tide_duck_query_step(query, err))
        TIDE_TRY(tide_lake_read_copied(query, j->table, j->out, err));
    return TIDE_OK;
}

/* While they lie in their own directory: what the writer did not say of them. */
static tide_status complete_files(job *j, tide_error *err)
{
    for (int i = 0; i < j->out->count; i++) {
        tide_lake_new_file *file = &j->out->files[i];
        TIDE_TRY(tide_lake_count_nulls(j->data, j->table, file, j->out->memory, err));
        TIDE_TRY(tide_lake_partition_values(j->data, j->table, file, j->out->memory, err));
    }
    return TIDE_OK;
}

static tide_status place_files(job *j, tide_error *err)
{
    const tide_lake_object *table = &j->table->table;
    for (; j->placed < j->out->count; j->placed++) {
        tide_lake_new_file *file = &j->out->files[j->placed];
        TIDE_TRY(tide_lake_place(j->data, table, file->path, err));
        file->path = strrchr(file->path, '/') + 1;
    }
    return tide_lake_sync_table(j->data, table, err);
}

/* A stock client's table may have them. */
static tide_status check_types(const tide_lake_table_seen *table, tide_error *err)
{
    for (int i = 0; i < table->column_count; i++)
        if (tide_lake_type_is_too_wide(table->columns[i].type))
            return tide_fail(
                err, TIDE_E_UNSUPPORTED,
                "column %s is of type %s, which Parquet keeps as a double and so loses "
                "digits: use DECIMAL(38,0)",
                table->columns[i].name, table->columns[i].type);
    return TIDE_OK;
}

static tide_status write_files(job *j, tide_error *err)
{
    TIDE_TRY(check_types(j->table, err));
    TIDE_TRY(tide_lake_stage_make(j->data, &j->table->table, j->stage, err));
    TIDE_CLEANUP(tide_duck_query_endp) tide_duck_query *query = NULL;
    TIDE_TRY(begin_copy(j, &query, err));
    TIDE_TRY(read_files(j, query, err));
    TIDE_TRY(complete_files(j, err));
    return place_files(j, err);
}

tide_status tide_lake_copy_rows(tide_lake_data *data, const tide_lake_table_seen *table,
                                const tide_lake_rows *rows, tide_lake_written *out, tide_error *err)
{
    TIDE_TRY(tide_lake_written_init(out, err));
    job j = {.data = data, .table = table, .rows = rows, .out = out};
    tide_arena_init(&j.arena, TIDE_LAKE_ARENA_MAX);
    const tide_status status = write_files(&j, err);
    tide_lake_stage_remove(j.stage);
    if (status < TIDE_OK) {
        for (int i = 0; i < j.placed; i++)
            tide_lake_unlink(data, &table->table, out->files[i].path);
        tide_lake_written_done(out);
    }
    tide_arena_done(&j.arena);
    return status;
}

/* ---- rows of a source ---- */

static tide_status check_nulls(const tide_lake_table_seen *table, const tide_lake_written *written,
                               int *column)
{
    for (int i = 0; i < written->count; i++)
        for (int k = 0; k < written->files[i].stat_count; k++)
            if (!table->columns[k].nulls_allowed && written->files[i].stats[k].null_count > 0) {
                *column = k;
                return TIDE_E_INVALID;
            }
    return TIDE_OK;
}

tide_status tide_lake_write_rows(tide_lake_data *data, const tide_lake_table_seen *table,
                                 const char *source, tide_lake_format format,
                                 tide_lake_written *out, tide_error *err)
{
    *out = (tide_lake_written){0};
    TIDE_CLEANUP(tide_lake_source_done) tide_lake_source opened = {0};
    const tide_status found = tide_lake_source_open(&opened, data, table, source, format, err);
    TIDE_TRY(found);
    if (found == TIDE_NONE) /* an empty file of lines */
        return tide_lake_written_init(out, err);
    const tide_lake_rows rows = {.source = opened.rows_sql, .expressions = opened.expressions};
    const tide_status status = tide_lake_copy_rows(data, table, &rows, out, err);
    if (status < TIDE_OK)
        return tide_lake_source_blame(&opened, data, table, status, err);
    int column = 0;
    if (check_nulls(table, out, &column) == TIDE_OK)
        return TIDE_OK;
    tide_lake_written_discard(data, &table->table, out);
    tide_lake_written_done(out);
    return tide_lake_source_blame_null(&opened, data, table, column, err);
}

tide_status tide_lake_rewrite(tide_lake_data *data, const tide_lake_table_seen *table,
                              const tide_lake_files *files, tide_lake_written *out, tide_error *err)
{
    *out = (tide_lake_written){0};
    TIDE_CLEANUP(tide_lake_scan_done) tide_lake_scan scan = {0};
    TIDE_TRY(tide_lake_scan_make(&scan, data, table, files, false, err));
    const size_t count = (size_t)table->column_count;
    const char **expressions = tide_arena_alloc(&scan.arena, (count + 1) * sizeof *expressions);
    char *source = tide_arena_alloc(&scan.arena, scan.text.len + 3);
    TIDE_NEED_MEMORY(expressions && source, err);
    for (size_t i = 0; i < count; i++) {
        expressions[i] = tide_lake_quote_name(&scan.arena, table->columns[i].name);
        TIDE_NEED_MEMORY(expressions[i], err);
    }
    source[0] = '(';
    memcpy(source + 1, scan.text.ptr, scan.text.len);
    memcpy(source + 1 + scan.text.len, ")", 2);
    const tide_lake_rows rows = {.source = source, .expressions = expressions};
    return tide_lake_copy_rows(data, table, &rows, out, err);
}
