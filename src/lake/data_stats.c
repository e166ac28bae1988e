/* What DuckDB says of the files it has written, in DuckLake's form. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text/utf8.h"
#include "lake/data_parts.h"
#include "lake/quote.h"
#include "tidemark_lake_duck.h"

tide_status tide_lake_written_init(tide_lake_written *out, tide_error *err)
{
    *out = (tide_lake_written){.memory = malloc(sizeof *out->memory)};
    TIDE_NEED_MEMORY(out->memory, err);
    tide_arena_init(out->memory, TIDE_LAKE_ARENA_MAX);
    return TIDE_OK;
}

void tide_lake_written_done(tide_lake_written *written)
{
    if (written->memory) {
        tide_arena_done(written->memory);
        free(written->memory);
    }
    *written = (tide_lake_written){0};
}

void tide_lake_written_discard(tide_lake_data *data, const tide_lake_object *table,
                               const tide_lake_written *written)
{
    for (int i = 0; i < written->count; i++)
        if (written->files[i].path && *written->files[i].path)
            tide_lake_unlink(data, table, written->files[i].path);
}

tide_lake_new_file *tide_lake_written_add(tide_lake_written *out)
{
    /* Room doubles where the count is a power of two; what was before stays in the arena until its end. */
    if ((out->count & (out->count - 1)) == 0) {
        const size_t room = out->count ? (size_t)out->count * 2 : 1;
        tide_lake_new_file *files = tide_arena_alloc(out->memory, room * sizeof *files);
        if (!files)
            return NULL;
        if (out->count)
            memcpy(files, out->files, (size_t)out->count * sizeof *files);
        out->files = files;
    }
    tide_lake_new_file *file = &out->files[out->count++];
    memset(file, 0, sizeof *file);
    return file;
}

/* ---- statistics ---- */

typedef struct reader {
    const tide_lake_table_seen *table;
    const char **names; /* of the columns, as statistics write them */
    tide_lake_column_stats *stats;
    tide_arena *arena;
    int last; /* pairs of one column come together */
} reader;

static int find_column(reader *r, tide_view name)
{
    const int count = r->table->column_count;
    for (int i = 0; i < count; i++) {
        const int column = (r->last + i) % count;
        if (tide_view_equal(name, tide_view_of(r->names[column])))
            return r->last = column;
    }
    return -1;
}

static int64_t number_of(tide_view text)
{
    char digits[32];
    if (text.len >= sizeof digits)
        return 0;
    memcpy(digits, text.ptr, text.len);
    digits[text.len] = '\0';
    return strtoll(digits, NULL, 10);
}

/* A bound that a metabase cannot hold as text is none: cut off, it would be a wrong one. */
static tide_status take_bound(const char **out, reader *r, tide_view text, tide_error *err)
{
    if (!tide_utf8_valid(text))
        return TIDE_OK;
    *out = tide_arena_text(r->arena, text);
    return *out ? TIDE_OK : tide_no_memory(err);
}

static bool is_key(tide_view key, const char *name)
{
    return tide_view_equal(key, tide_view_of(name));
}

static tide_status take_pair(void *arg, tide_view outer, tide_view key, tide_view value,
                             tide_error *err)
{
    reader *r = arg;
    const int column = find_column(r, outer);
    if (column < 0)
        return TIDE_OK;
    tide_lake_column_stats *stats = &r->stats[column];
    if (is_key(key, "min"))
        return take_bound(&stats->min_value, r, value, err);
    if (is_key(key, "max"))
        return take_bound(&stats->max_value, r, value, err);
    if (is_key(key, "null_count"))
        stats->null_count = number_of(value);
    else if (is_key(key, "num_values"))
        stats->value_count = number_of(value);
    else if (is_key(key, "column_size_bytes"))
        stats->size_bytes = number_of(value);
    else if (is_key(key, "has_nan")) {
        stats->has_nan_known = true;
        stats->contains_nan = is_key(value, "true");
    }
    return TIDE_OK;
}

static tide_status begin_stats(reader *r, tide_error *err)
{
    const size_t count = (size_t)r->table->column_count;
    r->names = tide_arena_alloc(r->arena, (count + 1) * sizeof *r->names);
    r->stats = tide_arena_alloc(r->arena, (count + 1) * sizeof *r->stats);
    TIDE_NEED_MEMORY(r->names && r->stats, err);
    for (size_t i = 0; i < count; i++) {
        r->stats[i] = (tide_lake_column_stats){.column_id = r->table->columns[i].id};
        r->names[i] = tide_lake_quote_name(r->arena, r->table->columns[i].name);
        TIDE_NEED_MEMORY(r->names[i], err);
    }
    return TIDE_OK;
}

tide_status tide_lake_read_copied(tide_duck_query *query, const tide_lake_table_seen *table,
                                  tide_lake_written *out, tide_error *err)
{
    reader r = {.table = table, .arena = out->memory};
    TIDE_TRY(begin_stats(&r, err));
    const char *path = tide_arena_text(out->memory, tide_duck_col_text(query));
    tide_lake_new_file *file = path ? tide_lake_written_add(out) : NULL;
    TIDE_NEED_MEMORY(file, err);
    file->path = path;
    file->record_count = tide_duck_col_i64(query);
    file->file_size_bytes = tide_duck_col_i64(query);
    file->footer_size = tide_duck_col_i64(query);
    TIDE_TRY(tide_duck_col_maps(query, take_pair, &r, err));
    file->stats = r.stats;
    file->stat_count = table->column_count;
    out->rows += file->record_count;
    out->bytes += file->file_size_bytes;
    return TIDE_OK;
}

/* ---- what the writer leaves out ---- */

static tide_status read_counts(tide_duck_query *query, tide_lake_column_stats *stats,
                               const int *which, int count, int64_t records, tide_error *err)
{
    const tide_status status = tide_duck_query_step(query, err);
    TIDE_TRY(status);
    for (int i = 0; status == TIDE_OK && i < count; i++) {
        stats[which[i]].null_count = tide_duck_col_i64(query);
        stats[which[i]].value_count = records;
    }
    return TIDE_OK;
}

tide_status tide_lake_count_nulls(tide_lake_data *data, const tide_lake_table_seen *table,
                                  tide_lake_new_file *file, tide_arena *arena, tide_error *err)
{
    tide_lake_column_stats *stats = (tide_lake_column_stats *)file->stats; /* ours, in the arena */
    const size_t room = (size_t)table->column_count + 1;
    tide_template_item *items = tide_arena_alloc(arena, room * sizeof *items);
    int *which = tide_arena_alloc(arena, room * sizeof *which);
    char *quoted = tide_lake_quote_text(arena, file->path);
    TIDE_NEED_MEMORY(items && which && quoted, err);
    int count = 0;
    for (int i = 0; i < table->column_count; i++) {
        if (stats[i].value_count == file->record_count)
            continue;
        which[count] = i;
        items[count++] = (tide_template_item){.name = table->columns[i].name};
    }
    if (count == 0)
        return TIDE_OK;
    const tide_template_list lists[] = {{.hole = "columns", .items = items, .count = count},
                                        TIDE_LAKE_PIECE("file", quoted)};
    const tide_template_context context = {.lists = lists, .list_count = 2};
    TIDE_DUCK_QUERY_BY(query, tide_lake_made, data->duck, TIDE_TEMPLATE_DUCK_NULL_COUNTS, &context,
                       err);
    return read_counts(query, stats, which, count, file->record_count, err);
}
