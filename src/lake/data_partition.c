/* Partitions: DuckLake's transforms as DuckDB's functions. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "lake/data_parts.h"
#include "lake/quote.h"
#include "tidemark_lake_duck.h"

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

tide_status tide_lake_partition_sql(const tide_lake_table_seen *table,
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

tide_status tide_lake_partition_values(tide_lake_data *data, const tide_lake_table_seen *table,
                                       tide_lake_new_file *file, tide_arena *arena, tide_error *err)
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
    TIDE_TRY(tide_lake_partition_sql(table, names, keys, arena, err));
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
