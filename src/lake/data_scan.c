/* A table's rows as a statement: its files, columns by field id, without what was deleted. */
#include <string.h>

#include "base/cleanup.h"
#include "lake/data_parts.h"
#include "lake/file_digest.h"
#include "lake/quote.h"
#include "tidemark_lake_duck.h"

void tide_lake_scan_done(tide_lake_scan *scan)
{
    tide_arena_done(&scan->arena);
    tide_buffer_done(&scan->text);
    *scan = (tide_lake_scan){0};
}

/* What the template's lists are made of. */
typedef struct pieces {
    tide_template_item *columns;
    tide_template_item *types;
    tide_template_item *plain;
    tide_template_item *deleted;
    tide_template_item *deletes;
    int plain_count;
    int deleted_count;
} pieces;

/* {name: 'c1', type: 'BIGINT', default_value: NULL} */
static const char *describe_column(tide_arena *arena, const tide_lake_column *column, int number,
                                   const char *type)
{
    const bool has_default = strcmp(column->initial_default, "NULL") != 0;
    const char *quoted_type = tide_lake_quote_text(arena, type);
    const char *value = has_default ? tide_lake_quote_text(arena, column->initial_default) : "NULL";
    if (!quoted_type || !value)
        return NULL;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer text = {0};
    tide_buffer_init(&text, 64 << 10);
    if (tide_buffer_printf(&text, "{name: 'c%d', type: %s, default_value: %s}", number, quoted_type,
                           value) < TIDE_OK)
        return NULL;
    return tide_arena_text(arena, tide_buffer_view(&text));
}

static tide_status fill_columns(tide_lake_scan *scan, pieces *p, const tide_lake_table_seen *table,
                                tide_error *err)
{
    TIDE_CLEANUP(tide_freep) char(*types)[256] = NULL;
    TIDE_TRY(tide_lake_column_types(table, &types, err));
    for (int i = 0; i < table->column_count; i++) {
        const tide_lake_column *column = &table->columns[i];
        p->columns[i] = (tide_template_item){.name = column->name, .n = i + 1, .p = column->id};
        p->columns[i].sql = describe_column(&scan->arena, column, i + 1, types[i]);
        p->types[i] = (tide_template_item){.name = column->name};
        p->types[i].sql = tide_arena_text(&scan->arena, tide_view_of(types[i]));
        TIDE_NEED_MEMORY(p->columns[i].sql && p->types[i].sql, err);
    }
    return TIDE_OK;
}

/* One more path that is read, quoted. Its file is compared with its digest when it is first read. */
static tide_status add_path(tide_lake_scan *scan, const tide_lake_data *data, int64_t file_id,
                            const char *path, const char *sha256, tide_template_item *out,
                            tide_error *err)
{
    const char *whole = tide_lake_whole_path(&scan->arena, data, path);
    const char *quoted = whole ? tide_lake_quote_text(&scan->arena, whole) : NULL;
    TIDE_NEED_MEMORY(quoted, err);
    if (tide_lake_is_pattern(whole))
        return tide_fail(err, TIDE_E_UNSUPPORTED,
                         "the file %s has one of *?[ in its name, which DuckDB takes for a pattern",
                         whole);
    TIDE_TRY(tide_lake_seen_files_check(data->seen, file_id, whole, sha256, err));
    scan->paths[scan->path_count++] = whole;
    *out = (tide_template_item){.sql = quoted};
    return TIDE_OK;
}

static tide_status fill_files(tide_lake_scan *scan, pieces *p, const tide_lake_data *data,
                              const tide_lake_files *files, tide_error *err)
{
    for (int i = 0; i < files->count; i++) {
        const tide_lake_file_seen *file = &files->all[i];
        if (!file->delete_path || !*file->delete_path) {
            scan->plain[p->plain_count] = i;
            TIDE_TRY(add_path(scan, data, file->data_file_id, file->path, file->sha256,
                              &p->plain[p->plain_count++], err));
            continue;
        }
        scan->deleted[p->deleted_count] = i;
        TIDE_TRY(add_path(scan, data, file->data_file_id, file->path, file->sha256,
                          &p->deleted[p->deleted_count], err));
        TIDE_TRY(add_path(scan, data, file->delete_file_id, file->delete_path, file->delete_sha256,
                          &p->deletes[p->deleted_count++], err));
    }
    return TIDE_OK;
}

static tide_status make_room(tide_lake_scan *scan, pieces *p, size_t columns, size_t files,
                             tide_error *err)
{
    tide_arena *arena = &scan->arena;
    p->columns = tide_arena_alloc(arena, (columns + 1) * sizeof *p->columns);
    p->types = tide_arena_alloc(arena, (columns + 1) * sizeof *p->types);
    p->plain = tide_arena_alloc(arena, (files + 1) * sizeof *p->plain);
    p->deleted = tide_arena_alloc(arena, (files + 1) * sizeof *p->deleted);
    p->deletes = tide_arena_alloc(arena, (files + 1) * sizeof *p->deletes);
    scan->paths = tide_arena_alloc(arena, (2 * files + 1) * sizeof *scan->paths);
    scan->plain = tide_arena_alloc(arena, (files + 1) * sizeof *scan->plain);
    scan->deleted = tide_arena_alloc(arena, (files + 1) * sizeof *scan->deleted);
    const bool is_whole = p->columns && p->types && p->plain && p->deleted && p->deletes &&
                          scan->paths && scan->plain && scan->deleted;
    return is_whole ? TIDE_OK : tide_no_memory(err);
}

static const char *flags_of(const pieces *p, bool with_places)
{
    static const char *const flags[2][4] = {
        {"none", "plain", "deleted", "plain both deleted"},
        {"none places", "plain places", "deleted places", "plain both deleted places"},
    };
    return flags[with_places][(p->plain_count > 0) + 2 * (p->deleted_count > 0)];
}

tide_status tide_lake_scan_make(tide_lake_scan *out, const tide_lake_data *data,
                                const tide_lake_table_seen *table, const tide_lake_files *files,
                                bool with_places, tide_error *err)
{
    tide_arena_init(&out->arena, TIDE_LAKE_ARENA_MAX);
    tide_buffer_init(&out->text, TIDE_LAKE_TEXT_MAX);
    pieces p = {0};
    TIDE_TRY(make_room(out, &p, (size_t)table->column_count, (size_t)files->count, err));
    TIDE_TRY(fill_columns(out, &p, table, err));
    TIDE_TRY(fill_files(out, &p, data, files, err));
    tide_lake_free_name(out->group, table, "tide_group");
    tide_lake_free_name(out->file, table, "tide_file");
    tide_lake_free_name(out->row, table, "tide_row");
    const tide_template_list lists[] = {
        {.hole = "columns", .items = p.columns, .count = table->column_count},
        {.hole = "types", .items = p.types, .count = table->column_count},
        {.hole = "plain", .items = p.plain, .count = p.plain_count},
        {.hole = "deleted", .items = p.deleted, .count = p.deleted_count},
        {.hole = "deletes", .items = p.deletes, .count = p.deleted_count},
    };
    const tide_template_value values[] = {
        {.hole = "group", .name = out->group},
        {.hole = "file", .name = out->file},
        {.hole = "row", .name = out->row},
    };
    const tide_template_context context = {.values = values,
                                           .value_count = 3,
                                           .lists = lists,
                                           .list_count = 5,
                                           .flags = flags_of(&p, with_places)};
    return tide_template_fill(&out->text, TIDE_TEMPLATE_DUCK_SCAN, &context, err);
}
