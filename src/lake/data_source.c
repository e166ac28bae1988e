/* A file's columns, matched with the table's by name. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "lake/data_parts.h"
#include "lake/lake_parts.h"
#include "lake/quote.h"
#include "tidemark_lake_duck.h"

void tide_lake_source_done(tide_lake_source *source)
{
    if (source->spool)
        tide_lake_stage_remove(source->spool);
    free(source->spool);
    free(source->types);
    free(source->column_of);
    tide_arena_done(&source->arena);
    *source = (tide_lake_source){0};
}

/* ---- what the file has ---- */

static tide_status fill_reader(const tide_lake_source *source, tide_arena *arena,
                               const tide_template *template, const tide_template_item *found,
                               const char **out, tide_error *err)
{
    const tide_template_list lists[] = {
        TIDE_LAKE_PIECE("path", source->quoted),
        TIDE_LAKE_PIECE("delimiter", source->has_tabs ? "'\t'" : "','"),
        {.hole = "found", .items = found, .count = source->found_count},
    };
    const tide_template_context context = {.lists = lists, .list_count = 3};
    return tide_lake_fill(out, arena, template, &context, err);
}

static tide_status head_sql(tide_lake_source *source, const char **out, tide_error *err)
{
    const tide_template *template = source->format == TIDE_LAKE_CSV ? TIDE_TEMPLATE_DUCK_CSV_HEAD
                                    : source->format == TIDE_LAKE_JSON
                                        ? TIDE_TEMPLATE_DUCK_JSON_HEAD
                                        : TIDE_TEMPLATE_DUCK_PARQUET;
    return fill_reader(source, &source->arena, template, NULL, out, err);
}

static tide_status read_names(tide_lake_source *source, tide_duck_query *query, tide_error *err)
{
    source->found =
        tide_arena_alloc(&source->arena, TIDE_DUCKDB_COLUMNS_MAX * sizeof *source->found);
    TIDE_NEED_MEMORY(source->found, err);
    TIDE_EACH(tide_duck_query_step(query, err)) {
        if (source->found_count == TIDE_DUCKDB_COLUMNS_MAX)
            return tide_fail(err, TIDE_E_LIMIT, "%s has more than %d columns", source->shown,
                             TIDE_DUCKDB_COLUMNS_MAX);
        const char *name = tide_arena_text(&source->arena, tide_duck_col_text(query));
        TIDE_NEED_MEMORY(name, err);
        source->found[source->found_count++] = name;
    }
    return TIDE_OK;
}

static tide_status find_columns(tide_lake_source *source, tide_lake_data *data, tide_error *err)
{
    const char *head = NULL;
    TIDE_TRY(head_sql(source, &head, err));
    const tide_template_list list = TIDE_LAKE_PIECE("source", head);
    const tide_template_context context = {.lists = &list, .list_count = 1};
    TIDE_CLEANUP(tide_duck_query_endp) tide_duck_query *query = NULL;
    tide_status status =
        tide_lake_made(&query, data->duck, TIDE_TEMPLATE_DUCK_SOURCE_COLUMNS, &context, err);
    if (status == TIDE_OK)
        status = read_names(source, query, err);
    return status < TIDE_OK ? tide_fail_context(err, status, "%s", source->shown) : TIDE_OK;
}

/* ---- which column of the table it is ---- */

static int find_in_table(const tide_lake_table_seen *table, const char *name)
{
    for (int i = 0; i < table->column_count; i++)
        if (tide_lake_same_name(table->columns[i].name, name))
            return i;
    return -1;
}

static tide_status list_columns(tide_buffer *out, const tide_lake_table_seen *table)
{
    for (int i = 0; i < table->column_count && out->len < 200; i++)
        TIDE_TRY(tide_buffer_printf(out, "%s%s", i > 0 ? ", " : "", table->columns[i].name));
    return TIDE_OK;
}

static tide_status fail_unknown(const tide_lake_source *source, const tide_lake_table_seen *table,
                                const char *name, tide_error *err)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer columns = {0};
    tide_buffer_init(&columns, 1024);
    TIDE_IGNORE(list_columns(&columns, table));
    return tide_fail(err, TIDE_E_INVALID,
                     "%s has a column '%.100s' that table %s does not have (its columns: %s)",
                     source->shown, name, table->table.name, tide_buffer_text(&columns));
}

static tide_status match_columns(tide_lake_source *source, const tide_lake_table_seen *table,
                                 int *place, tide_error *err)
{
    TIDE_ALLOC(source->column_of, (size_t)source->found_count + 1, err);
    for (int i = 0; i < table->column_count; i++)
        place[i] = -1;
    for (int i = 0; i < source->found_count; i++) {
        const int column = find_in_table(table, source->found[i]);
        if (column < 0)
            return fail_unknown(source, table, source->found[i], err);
        if (place[column] >= 0)
            return tide_fail(err, TIDE_E_INVALID, "%s has column '%.100s' twice", source->shown,
                             source->found[i]);
        place[column] = i;
        source->column_of[i] = column;
    }
    return TIDE_OK;
}

/* ---- expressions ---- */

/* JSON has few types; what it cannot say is read as text and cast. */
static bool is_json_type(const char *type)
{
    static const char *const known[] = {"BOOLEAN", "TINYINT",   "SMALLINT", "INTEGER", "BIGINT",
                                        "FLOAT",   "DOUBLE",    "UTINYINT", "VARCHAR", "JSON",
                                        "DATE",    "USMALLINT", "UINTEGER", "UBIGINT"};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strcmp(type, known[i]) == 0)
            return true;
    return false;
}

bool tide_lake_source_is_whole(const tide_lake_source *source, int column)
{
    static const char *const known[] = {"TINYINT",  "SMALLINT",  "INTEGER",  "BIGINT",
                                        "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT"};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strcmp(source->types[column], known[i]) == 0)
            return source->format != TIDE_LAKE_PARQUET;
    return false;
}

/* The type in which the reader gives a column. */
static const char *reader_type(const tide_lake_source *source, int column)
{
    const char *type = source->types[column];
    const bool is_odd = source->format == TIDE_LAKE_JSON && !is_json_type(type);
    return is_odd || tide_lake_source_is_whole(source, column) ? "VARCHAR" : type;
}

static tide_status make_readers(tide_lake_source *source, tide_error *err)
{
    const size_t room = (size_t)source->found_count + 1;
    tide_template_item *typed = tide_arena_alloc(&source->arena, room * sizeof *typed);
    tide_template_item *texts = tide_arena_alloc(&source->arena, room * sizeof *texts);
    TIDE_NEED_MEMORY(typed && texts, err);
    for (int i = 0; i < source->found_count; i++) {
        const int column = source->column_of[i];
        const bool is_json = strcmp(source->types[column], "JSON") == 0;
        typed[i] = (tide_template_item){.name = source->found[i]};
        typed[i].sql = tide_lake_quote_text(&source->arena, reader_type(source, column));
        texts[i] = (tide_template_item){.name = source->found[i]};
        texts[i].sql = is_json && source->format == TIDE_LAKE_JSON ? "'JSON'" : "'VARCHAR'";
        TIDE_NEED_MEMORY(typed[i].sql, err);
    }
    const tide_template *template = source->format == TIDE_LAKE_CSV    ? TIDE_TEMPLATE_DUCK_CSV
                                    : source->format == TIDE_LAKE_JSON ? TIDE_TEMPLATE_DUCK_JSON
                                                                       : TIDE_TEMPLATE_DUCK_PARQUET;
    TIDE_TRY(fill_reader(source, &source->arena, template, typed, &source->rows_sql, err));
    return fill_reader(source, &source->arena, template, texts, &source->text_sql, err);
}

static tide_status cast_sql(tide_lake_source *source, const tide_template *template,
                            const char *value, int column, tide_error *err)
{
    const tide_template_list lists[] = {TIDE_LAKE_PIECE("value", value),
                                        TIDE_LAKE_PIECE("type", source->types[column])};
    const tide_template_context context = {.lists = lists, .list_count = 2};
    return tide_lake_fill(&source->expressions[column], &source->arena, template, &context, err);
}

/* A column that the source does not have. */
static tide_status default_sql(tide_lake_source *source, const tide_lake_table_seen *table,
                               int column, tide_error *err)
{
    const tide_lake_column *missing = &table->columns[column];
    const bool has_default = strcmp(missing->default_value, "NULL") != 0;
    if (!has_default && !missing->nulls_allowed)
        return tide_fail(err, TIDE_E_INVALID,
                         "%s has no column %s, which may not be NULL and has no default",
                         source->shown, missing->name);
    const char *value =
        has_default ? tide_lake_quote_text(&source->arena, missing->default_value) : "NULL";
    TIDE_NEED_MEMORY(value, err);
    return cast_sql(source, TIDE_TEMPLATE_DUCK_CAST, value, column, err);
}

static tide_status make_expressions(tide_lake_source *source, const tide_lake_table_seen *table,
                                    const int *place, tide_error *err)
{
    source->expressions = tide_arena_alloc(&source->arena, ((size_t)table->column_count + 1) *
                                                               sizeof *source->expressions);
    TIDE_NEED_MEMORY(source->expressions, err);
    for (int i = 0; i < table->column_count; i++) {
        if (place[i] < 0) {
            TIDE_TRY(default_sql(source, table, i, err));
            continue;
        }
        const char *name = tide_lake_quote_name(&source->arena, source->found[place[i]]);
        TIDE_NEED_MEMORY(name, err);
        TIDE_TRY(cast_sql(source,
                          tide_lake_source_is_whole(source, i) ? TIDE_TEMPLATE_DUCK_WHOLE
                                                               : TIDE_TEMPLATE_DUCK_CAST,
                          name, i, err));
    }
    return TIDE_OK;
}

tide_status tide_lake_source_open(tide_lake_source *out, tide_lake_data *data,
                                  const tide_lake_table_seen *table, const char *path,
                                  tide_lake_format format, tide_error *err)
{
    tide_arena_init(&out->arena, TIDE_LAKE_ARENA_MAX);
    TIDE_TRY(tide_lake_column_types(table, &out->types, err));
    TIDE_TRY_FOUND(tide_lake_source_find(out, data, table, path, format, err));
    out->quoted = tide_lake_quote_path(&out->arena, out->path);
    TIDE_NEED_MEMORY(out->quoted, err);
    TIDE_TRY(find_columns(out, data, err));
    int *place = tide_arena_alloc(&out->arena, ((size_t)table->column_count + 1) * sizeof *place);
    TIDE_NEED_MEMORY(place, err);
    TIDE_TRY(match_columns(out, table, place, err));
    TIDE_TRY(make_readers(out, err));
    return make_expressions(out, table, place, err);
}
