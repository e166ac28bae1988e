#include "lake/data_parts.h"
#include "lake/file_digest.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/list.h"
#include "lake/lake_parts.h"
#include "lake/quote.h"
#include "lake/types.h"
#include "tidemark_lake_duck.h"

/* ---- statements ---- */

tide_status tide_lake_made(tide_duck_query **out, tide_duck *duck, const tide_template *template,
                           const tide_template_context *context, tide_error *err)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer text = {0};
    tide_buffer_init(&text, TIDE_LAKE_TEXT_MAX);
    TIDE_TRY(tide_template_fill(&text, template, context, err));
    return tide_duck_query_begin_made(out, duck, "DuckDB", tide_buffer_text(&text), err);
}

tide_status tide_lake_fill(const char **out, tide_arena *arena, const tide_template *template,
                           const tide_template_context *context, tide_error *err)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer text = {0};
    tide_buffer_init(&text, TIDE_LAKE_TEXT_MAX);
    TIDE_TRY(tide_template_fill(&text, template, context, err));
    *out = tide_arena_text(arena, tide_buffer_view(&text));
    return *out ? TIDE_OK : tide_no_memory(err);
}

tide_status tide_lake_run_made(tide_duck *duck, const tide_template *template,
                               const tide_template_context *context, tide_error *err)
{
    const tide_template_context nothing = {0};
    TIDE_DUCK_QUERY_BY(query, tide_lake_made, duck, template, context ? context : &nothing, err);
    return tide_duck_query_run(query, NULL, err);
}

/* ---- handles ---- */

static tide_status open_instance(const tide_lake_data *data, tide_duckdb **db, tide_duck **duck,
                                 tide_error *err)
{
    const tide_duckdb_options options = {
        .library = data->library,
        .threads = data->threads,
        .memory_max = data->memory_max,
        .may_touch_files = true,
        .keeps_order = true,
        .is_unlocked = true,
        .cancel = data->cancel,
    };
    TIDE_CLEANUP(tide_duckdb_closep) tide_duckdb *fresh = NULL;
    TIDE_TRY(tide_duckdb_open(&fresh, NULL, &options, err));
    TIDE_CLEANUP(tide_duck_closep) tide_duck *connection = NULL;
    TIDE_TRY(tide_duck_connect(&connection, fresh, err));
    TIDE_TRY(tide_lake_run_made(connection, TIDE_TEMPLATE_DUCK_UTC, NULL, err));
    *duck = TIDE_TAKE(connection);
    *db = TIDE_TAKE(fresh);
    return TIDE_OK;
}

tide_status tide_lake_open_box(tide_lake_data *data, tide_duckdb **out, tide_duck **duck,
                               tide_error *err)
{
    return open_instance(data, out, duck, err);
}

tide_status tide_lake_seal_box(tide_duck *duck, const char *const *paths, int count,
                               tide_error *err)
{
    TIDE_CLEANUP(tide_arena_done) tide_arena arena = tide_arena_of(TIDE_LAKE_ARENA_MAX);
    tide_template_item *items = tide_arena_alloc(&arena, ((size_t)count + 1) * sizeof *items);
    TIDE_NEED_MEMORY(items, err);
    for (int i = 0; i < count; i++) {
        items[i] = (tide_template_item){.sql = tide_lake_quote_text(&arena, paths[i])};
        TIDE_NEED_MEMORY(items[i].sql, err);
    }
    const tide_template_list list = {.hole = "files", .items = items, .count = count};
    const tide_template_context context = {.lists = &list, .list_count = 1};
    if (count > 0)
        TIDE_TRY(tide_lake_run_made(duck, TIDE_TEMPLATE_DUCK_NO_FILES, &context, err));
    TIDE_TRY(tide_lake_run_made(duck, TIDE_TEMPLATE_DUCK_NO_ACCESS, NULL, err));
    return tide_lake_run_made(duck, TIDE_TEMPLATE_DUCK_LOCK, NULL, err);
}

tide_status tide_lake_blame_files(const char *const *paths, int count, tide_status status,
                                  tide_error *err)
{
    if (status != TIDE_E_DENIED && status != TIDE_E_IO)
        return status;
    for (int i = 0; i < count; i++)
        if (access(paths[i], F_OK) != 0 && errno == ENOENT)
            return tide_fail(err, TIDE_E_IO,
                             "the data file %s is not there, though the catalog has it", paths[i]);
    return status;
}

static tide_status take_directory(tide_lake_data *data, const char *dir, tide_error *err)
{
    char real[PATH_MAX];
    if (!realpath(dir, real))
        return tide_fail(err, TIDE_E_NOT_FOUND, "no data directory %s", dir);
    if (tide_lake_is_pattern(real))
        return tide_fail(err, TIDE_E_INVALID,
                         "the data directory %s has one of *?[ in its name, which DuckDB takes for "
                         "a pattern; choose another",
                         real);
    if (asprintf(&data->data_dir, "%s%s", real, real[1] ? "/" : "") < 0) {
        data->data_dir = NULL;
        return tide_no_memory(err);
    }
    return TIDE_OK;
}

tide_status tide_lake_data_open(tide_lake_data **out, const char *data_dir,
                                const tide_lake_data_options *options, tide_error *err)
{
    const tide_lake_data_options defaults = {0};
    const tide_lake_data_options *chosen = options ? options : &defaults;
    TIDE_CLEANUP(tide_lake_data_closep) TIDE_NEW(tide_lake_data, data, err);
    TIDE_TRY(take_directory(data, data_dir, err));
    if (chosen->library && !(data->library = strdup(chosen->library)))
        return tide_no_memory(err);
    data->threads = chosen->threads;
    data->memory_max = chosen->memory_max;
    data->cancel = chosen->cancel;
    data->file_bytes = chosen->file_bytes > 0 ? chosen->file_bytes : TIDE_LAKE_FILE_BYTES_DEFAULT;
    data->env = chosen->env ? chosen->env : tide_env_system();
    data->runner = chosen->runner;
    if (!chosen->seen)
        TIDE_TRY(tide_lake_seen_files_new(&data->own_seen, err));
    data->seen = chosen->seen ? chosen->seen : data->own_seen;
    if (chosen->is_remote) {
        assert(data->runner);
        *out = TIDE_TAKE(data);
        return TIDE_OK;
    }
    TIDE_TRY(open_instance(data, &data->db, &data->duck, err));
    TIDE_TRY(tide_duck_add_murmur3(data->duck, err));
    TIDE_TRY(tide_lake_run_made(data->duck, TIDE_TEMPLATE_DUCK_LOCK, NULL, err));
    *out = TIDE_TAKE(data);
    return TIDE_OK;
}

void tide_lake_data_close(tide_lake_data *data)
{
    if (!data)
        return;
    tide_lake_box_free(data->box);
    tide_duck_close(data->duck);
    tide_duckdb_close(data->db);
    tide_lake_seen_files_free(data->own_seen);
    free(data->library);
    free(data->synced_dir);
    free(data->data_dir);
    free(data);
}

/* ---- columns ---- */

tide_status tide_lake_column_types(const tide_lake_table_seen *table, char (**types)[256],
                                   tide_error *err)
{
    char(*made)[256] = calloc((size_t)table->column_count + 1, sizeof *made);
    TIDE_NEED_MEMORY(made, err);
    for (int i = 0; i < table->column_count; i++) {
        const tide_status status = tide_lake_type_duckdb(made[i], table->columns[i].type, err);
        if (status < TIDE_OK) {
            free(made);
            return tide_fail_context(err, status, "column %s", table->columns[i].name);
        }
    }
    *types = made;
    return TIDE_OK;
}

static bool has_column(const tide_lake_table_seen *table, const char *name)
{
    for (int i = 0; i < table->column_count; i++)
        if (tide_lake_same_name(name, table->columns[i].name))
            return true;
    return false;
}

void tide_lake_free_name(char out[64], const tide_lake_table_seen *table, const char *stem)
{
    (void)snprintf(out, 64, "%s", stem);
    for (int n = 1; has_column(table, out); n++) /* at most once per column */
        (void)snprintf(out, 64, "%s_%d", stem, n);
}

/* ---- files of a table ---- */

void tide_lake_files_done(tide_lake_files *files)
{
    if (files->memory) {
        tide_arena_done(files->memory);
        free(files->memory);
    }
    free(files->all);
    *files = (tide_lake_files){0};
}

static tide_status keep_file(void *arg, const tide_lake_file_seen *file, tide_error *err)
{
    tide_lake_files *files = arg;
    if (file->is_foreign)
        return tide_fail(err, TIDE_E_UNSUPPORTED,
                         "file %s was written by another client in a form that is not read here "
                         "(columns by name, a deletion vector, encryption): read the table with "
                         "that client, or rewrite it there",
                         file->path);
    TIDE_TRY(tide_list_room(&files->all, files->count, sizeof *files->all, TIDE_LIST_MAX, err));
    tide_lake_file_seen *kept = &files->all[files->count];
    *kept = *file;
    kept->path = tide_arena_text(files->memory, tide_view_of(file->path));
    kept->delete_path =
        tide_arena_text(files->memory, tide_view_of(file->delete_path ? file->delete_path : ""));
    kept->sha256 = tide_arena_text(files->memory, tide_view_of(file->sha256));
    kept->delete_sha256 = tide_arena_text(files->memory, tide_view_of(file->delete_sha256));
    TIDE_NEED_MEMORY(kept->path && kept->delete_path && kept->sha256 && kept->delete_sha256, err);
    files->count++;
    return TIDE_OK;
}

tide_status tide_lake_files_read(tide_tx *tx, int64_t catalog_id, int64_t snapshot,
                                 int64_t table_id, tide_lake_files *out, tide_error *err)
{
    tide_lake_files_done(out);
    out->memory = malloc(sizeof *out->memory);
    TIDE_NEED_MEMORY(out->memory, err);
    tide_arena_init(out->memory, TIDE_LAKE_ARENA_MAX);
    const tide_status status =
        tide_lake_each_file(tx, catalog_id, snapshot, table_id, keep_file, out, err);
    if (status < TIDE_OK)
        tide_lake_files_done(out);
    return status;
}
