/* Rows become files: COPY into a directory of its own, a look at what was written, sync, and then their names in the table's directory. */
#include <ctype.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "lake/data_parts.h"
#include "lake/quote.h"
#include "lake/types.h"
#include "tidemark_lake_duck.h"

/* ---- the row that failed ---- */

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

static tide_status lake_source_blame(const tide_lake_source *source, tide_lake_data *data,
                                     const tide_lake_table_seen *table, tide_status status,
                                     tide_error *err)
{
    if (status != TIDE_E_INVALID || find_value(source, data, table, err) == TIDE_OK)
        return status;
    return tide_fail_context(err, status, "%s", source->shown);
}

/* The first row without a value in a column: words into err. */
static tide_status lake_source_blame_null(const tide_lake_source *source, tide_lake_data *data,
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

/* ---- partitions ---- */

static int find_column(const tide_lake_table_seen *table, int64_t id)
{
    for (int i = 0; i < table->column_count; i++)
        if (table->columns[i].id == id)
            return i;
    return -1;
}

/* DuckLake's names are DuckDB's functions: the year, month, day or hour as a number. */
static bool is_function(const char *transform)
{
    static const char *const functions[] = {"year", "month", "day", "hour"};
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++)
        if (strcmp(transform, functions[i]) == 0)
            return true;
    return false;
}

/* The number that stands behind a prefix: "bucket(16)", "decimal(38,2)"; 0: none. *end is behind it. */
static long number_in(const char *text, const char *prefix, const char **end)
{
    const size_t len = strlen(prefix);
    if (strncmp(text, prefix, len) != 0 || !isdigit((unsigned char)text[len]))
        return 0;
    char *after = NULL;
    const long number = strtol(text + len, &after, 10);
    *end = after;
    return number <= INT32_MAX ? number : 0;
}

/* bucket(16): 16; 0: not that. */
static int64_t bucket_count(const char *transform)
{
    const char *end = "";
    const long count = number_in(transform, "bucket(", &end);
    return strcmp(end, ")") == 0 ? count : 0;
}

/* Types that DuckDB keeps neither in 8 bytes nor as bytes. */
static bool is_hashed_as_text(const char *type)
{
    static const char *const types[] = {"uint8",  "uint16",  "uint32", "uint64",
                                        "int128", "uint128", "uuid",   "interval"};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (strcmp(type, types[i]) == 0)
            return true;
    const char *end = NULL;
    return number_in(type, "decimal(", &end) > 18;
}

static tide_status bucket_sql(const char *value, const char *type, int64_t count, const char **out,
                              tide_arena *arena, tide_error *err)
{
    const tide_template_list list = TIDE_LAKE_PIECE("value", value);
    const tide_template_value buckets = {.hole = "buckets", .number = count};
    const tide_template_context context = {.values = &buckets,
                                           .value_count = 1,
                                           .lists = &list,
                                           .list_count = 1,
                                           .flags = is_hashed_as_text(type) ? "text" : ""};
    return tide_lake_fill(out, arena, TIDE_TEMPLATE_DUCK_BUCKET, &context, err);
}

static tide_status function_sql(const char *function, const char *value, const char **out,
                                tide_arena *arena, tide_error *err)
{
    const tide_template_list lists[] = {TIDE_LAKE_PIECE("function", function),
                                        TIDE_LAKE_PIECE("value", value)};
    const tide_template_context context = {.lists = lists, .list_count = 2};
    return tide_lake_fill(out, arena, TIDE_TEMPLATE_DUCK_YEAR_OR_SUCH, &context, err);
}

static tide_status one_key(const tide_lake_table_seen *table, const tide_lake_partition_key *key,
                           const char *const *expressions, const char **out, tide_arena *arena,
                           tide_error *err)
{
    const int column = find_column(table, key->column_id);
    if (column < 0)
        return tide_fail(err, TIDE_E_DAMAGED, "table %s is partitioned by a column that it lacks",
                         table->table.name);
    const char *value = expressions[column];
    const int64_t buckets = bucket_count(key->transform);
    if (strcmp(key->transform, "identity") == 0) {
        *out = value;
        return TIDE_OK;
    }
    if (is_function(key->transform))
        return function_sql(key->transform, value, out, arena, err);
    if (buckets > 0)
        return bucket_sql(value, table->columns[column].type, buckets, out, arena, err);
    return tide_fail(err, TIDE_E_UNSUPPORTED,
                     "column %s is partitioned by %s; identity, year, month, day, hour and "
                     "bucket(n) are known",
                     table->columns[column].name, key->transform);
}

static tide_status lake_partition_sql(const tide_lake_table_seen *table,
                                      const char *const *expressions, const char **out,
                                      tide_arena *arena, tide_error *err)
{
    if (table->partition.count < 0 || table->partition.count > TIDE_LAKE_PARTITION_KEYS_MAX)
        return tide_fail(err, TIDE_E_DAMAGED, "table %s has %d partition keys", table->table.name,
                         table->partition.count);
    for (int i = 0; i < table->partition.count; i++)
        TIDE_TRY(one_key(table, &table->partition.keys[i], expressions, &out[i], arena, err));
    return TIDE_OK;
}

static tide_status read_values(tide_duck_query *query, const char **values, int count,
                               tide_arena *arena, tide_error *err)
{
    const tide_status status = tide_duck_query_step(query, err);
    TIDE_TRY(status);
    for (int i = 0; status == TIDE_OK && i < count; i++) {
        const bool is_null = tide_duck_col_is_null(query);
        const tide_view text = tide_duck_col_text(query);
        values[i] = is_null ? NULL : tide_arena_text(arena, text);
        if (!is_null && !values[i])
            return tide_no_memory(err);
    }
    return TIDE_OK;
}

/* What a written file's first row says of its partition. */
static tide_status lake_partition_values(tide_lake_data *data, const tide_lake_table_seen *table,
                                         tide_lake_new_file *file, tide_arena *arena,
                                         tide_error *err)
{
    const int count = table->partition.count;
    if (count == 0)
        return TIDE_OK;
    const size_t room = (size_t)table->column_count + 1;
    const char **names = tide_arena_alloc(arena, room * sizeof *names);
    const char **values = tide_arena_alloc(arena, TIDE_LAKE_PARTITION_KEYS_MAX * sizeof *values);
    char *quoted = tide_lake_quote_text(arena, file->path);
    TIDE_NEED_MEMORY(names && values && quoted, err);
    for (int i = 0; i < table->column_count; i++) {
        names[i] = tide_lake_quote_name(arena, table->columns[i].name);
        TIDE_NEED_MEMORY(names[i], err);
    }
    const char *keys[TIDE_LAKE_PARTITION_KEYS_MAX] = {0};
    TIDE_TRY(lake_partition_sql(table, names, keys, arena, err));
    tide_template_item items[TIDE_LAKE_PARTITION_KEYS_MAX] = {0};
    for (int i = 0; i < count; i++)
        items[i].sql = keys[i];
    const tide_template_list lists[] = {{.hole = "keys", .items = items, .count = count},
                                        TIDE_LAKE_PIECE("file", quoted)};
    const tide_template_context context = {.lists = lists, .list_count = 2};
    TIDE_DUCK_QUERY_BY(query, tide_lake_made, data->duck, TIDE_TEMPLATE_DUCK_PARTITION_VALUES,
                       &context, err);
    TIDE_TRY(read_values(query, values, count, arena, err));
    file->partition_values = values;
    file->partition_id = table->partition.id;
    return TIDE_OK;
}

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
    TIDE_TRY(lake_partition_sql(j->table, j->rows->expressions, values, &j->arena, err));
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
        TIDE_TRY(lake_partition_values(j->data, j->table, file, j->out->memory, err));
    }
    return TIDE_OK;
}

static tide_status place_files(job *j, tide_error *err)
{
    const tide_lake_object *table = &j->table->table;
    for (; j->placed < j->out->count; j->placed++) {
        tide_lake_new_file *file = &j->out->files[j->placed];
        TIDE_TRY(tide_lake_place(j->data, table, file, j->out->memory, err));
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

/* Write them below the table's directory, synced; on failure nothing is left. */
static tide_status lake_copy_rows(tide_lake_data *data, const tide_lake_table_seen *table,
                                  const tide_lake_rows *rows, tide_lake_written *out,
                                  tide_error *err)
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
    const tide_status status = lake_copy_rows(data, table, &rows, out, err);
    if (status < TIDE_OK)
        return lake_source_blame(&opened, data, table, status, err);
    int column = 0;
    if (check_nulls(table, out, &column) == TIDE_OK)
        return TIDE_OK;
    tide_lake_written_discard(data, &table->table, out);
    tide_lake_written_done(out);
    return lake_source_blame_null(&opened, data, table, column, err);
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
    return lake_copy_rows(data, table, &rows, out, err);
}
