/* Rows that meet a condition become positions in delete files.
 *
 * The condition is a text of a caller. It runs in a sandbox (query_sandbox.h), which returns positions.
 * The files are written here. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text/uuid.h"
#include "lake/data_parts.h"
#include "lake/quote.h"
#include "tidemark_lake_duck.h"

/* As long as a call may last; its caller's leaving ends it before. */
#define CONDITION_US INT64_C(86400000000)

typedef struct job {
    tide_lake_data *data;
    const tide_lake_table_seen *table;
    const tide_lake_files *files;
    const char *condition; /* with a line's end behind it */
    tide_lake_scan scan;
    tide_duck_appender *rows; /* positions, while the condition runs */
    int plain_count;          /* files without deletes */
    int64_t *found;           /* per file: rows that are newly deleted */
    tide_lake_written *out;
    int *which;
    tide_arena arena;
    char stage[4096];
    int placed;
} job;

/* ---- the condition ---- */

static tide_status parse(job *j, const tide_template *template, bool *is_one, tide_error *err)
{
    const tide_template_list list = TIDE_LAKE_PIECE("condition", j->condition);
    const tide_template_context context = {.lists = &list, .list_count = 1};
    const char *text = NULL;
    bool is_statement = false;
    TIDE_TRY(tide_lake_fill(&text, &j->arena, template, &context, err));
    TIDE_TRY(tide_lake_sandbox_parse(j->data, text, &is_statement, err));
    *is_one = *is_one && is_statement;
    return TIDE_OK;
}

/* A text that stands between round brackets as well as between square ones leaves neither: it is an expression. */
static tide_status check_condition(job *j, const char *condition, tide_error *err)
{
    j->condition = tide_lake_join(&j->arena, condition, "\n");
    TIDE_NEED_MEMORY(j->condition, err);
    bool is_one = true;
    TIDE_TRY(parse(j, TIDE_TEMPLATE_DUCK_IS_ROUND, &is_one, err));
    TIDE_TRY(parse(j, TIDE_TEMPLATE_DUCK_IS_SQUARE, &is_one, err));
    if (is_one)
        return TIDE_OK;
    return tide_fail(
        err, TIDE_E_INVALID,
        "'%.100s' is not a condition: want an SQL expression over the table's columns, "
        "as in a > 1 AND b = 'x'",
        condition);
}

static tide_status fill_find(job *j, const char **out, tide_error *err)
{
    const tide_template_list lists[] = {TIDE_LAKE_PIECE("scan", tide_buffer_text(&j->scan.text)),
                                        TIDE_LAKE_PIECE("condition", j->condition)};
    const tide_template_value values[] = {{.hole = "group", .name = j->scan.group},
                                          {.hole = "file", .name = j->scan.file},
                                          {.hole = "row", .name = j->scan.row},
                                          {.hole = "table", .name = j->table->table.name}};
    const tide_template_context context = {
        .values = values, .value_count = 4, .lists = lists, .list_count = 2};
    return tide_lake_fill(out, &j->arena, TIDE_TEMPLATE_DUCK_FIND, &context, err);
}

static tide_status ignore_columns(void *arg, const char *const *names, int count, tide_error *err)
{
    (void)arg;
    (void)names;
    return count == 3 ? TIDE_OK
                      : tide_fail(err, TIDE_E_FAILED, "%d columns of positions, want 3", count);
}

/* Which of the scan's files a position is of; -1: none. A sandbox is not trusted with indexes. */
static int file_of(const job *j, const tide_sql_value *cells)
{
    const int64_t index = cells[1].i64;
    const bool is_plain = cells[0].i64 == 0;
    const int count = is_plain ? j->plain_count : j->files->count - j->plain_count;
    if (index < 0 || index >= count)
        return -1;
    return is_plain ? j->scan.plain[index] : j->scan.deleted[index];
}

/* Positions stream from the sandbox into a table of this process. */
static tide_status append_position(void *arg, const tide_sql_value *cells, int count,
                                   tide_error *err)
{
    job *j = arg;
    (void)count;
    const int file = file_of(j, cells);
    const int64_t position = cells[2].i64;
    if (file < 0 || position < 0)
        return tide_fail(err, TIDE_E_FAILED, "the query returned a position outside of the files");
    j->found[file]++;
    tide_duck_put_i64(j->rows, file);
    tide_duck_put_i64(j->rows, position);
    tide_duck_end_row(j->rows);
    return TIDE_OK;
}

static tide_status find_rows(job *j, tide_error *err)
{
    const char *text = NULL;
    TIDE_TRY(fill_find(j, &text, err));
    TIDE_TRY(tide_lake_run_made(j->data->duck, TIDE_TEMPLATE_DUCK_FOUND, NULL, err));
    TIDE_CLEANUP(tide_duck_append_dropp) tide_duck_appender *rows = NULL;
    TIDE_TRY(tide_duck_append_begin(&rows, j->data->duck, "tide_found", err));
    j->rows = rows;
    for (int i = 0; i < j->files->count; i++)
        j->plain_count += !j->files->all[i].delete_path || !*j->files->all[i].delete_path;
    const tide_lake_sandbox_query query = {
        .text = text,
        .is_checked = true,
        .paths = j->scan.paths,
        .path_count = j->scan.path_count,
        .row_max = INT64_MAX,
        .bytes_max = INT64_MAX,
        .timeout_us = CONDITION_US,
        .columns = ignore_columns,
        .row = append_position,
        .arg = j,
    };
    TIDE_TRY(tide_lake_sandbox_run(j->data, &query, err));
    return tide_duck_append_end(&rows, err);
}

/* ---- the files ---- */

static tide_status name_file(job *j, const char **out, tide_error *err)
{
    tide_uuid uuid;
    char text[TIDE_UUID_TEXT_SIZE];
    char name[64];
    tide_uuid_v4(j->data->env, &uuid);
    tide_uuid_format(&uuid, text);
    (void)snprintf(name, sizeof name, "/%s-delete.parquet", text);
    *out = tide_lake_join(&j->arena, j->stage, name);
    return *out ? TIDE_OK : tide_no_memory(err);
}

static tide_status begin_write(job *j, int index, tide_duck_query **query, tide_error *err)
{
    const tide_lake_file_seen *file = &j->files->all[index];
    const bool has_older = file->delete_path && *file->delete_path;
    const char *target = NULL;
    TIDE_TRY(name_file(j, &target, err));
    char *path = tide_lake_whole_path(&j->arena, j->data, file->path);
    char *older = has_older ? tide_lake_whole_path(&j->arena, j->data, file->delete_path) : "";
    char *quoted_path = path ? tide_lake_quote_text(&j->arena, path) : NULL;
    char *quoted_older = older ? tide_lake_quote_text(&j->arena, older) : NULL;
    char *quoted_target = tide_lake_quote_text(&j->arena, target);
    TIDE_NEED_MEMORY(quoted_path && quoted_older && quoted_target, err);
    const tide_template_item item = {.sql = quoted_older};
    const tide_template_list lists[] = {
        TIDE_LAKE_PIECE("path", quoted_path),
        TIDE_LAKE_PIECE("target", quoted_target),
        {.hole = "older", .items = &item, .count = has_older},
    };
    const tide_template_value value = {.hole = "index", .number = index};
    const tide_template_context context = {
        .values = &value, .value_count = 1, .lists = lists, .list_count = 3};
    return tide_lake_made(query, j->data->duck, TIDE_TEMPLATE_DUCK_DELETE_FILE, &context, err);
}

static tide_status write_one(job *j, int index, tide_error *err)
{
    const tide_lake_file_seen *file = &j->files->all[index];
    const int64_t older = file->delete_path && *file->delete_path ? file->delete_count : 0;
    if (j->found[index] + older >= file->record_count) { /* no row is left: the file itself ends */
        tide_lake_new_file *made = tide_lake_written_add(j->out);
        TIDE_NEED_MEMORY(made, err);
        made->path = "";
        return TIDE_OK;
    }
    TIDE_CLEANUP(tide_duck_query_endp) tide_duck_query *query = NULL;
    TIDE_TRY(begin_write(j, index, &query, err));
    const tide_status status = tide_duck_query_step(query, err);
    if (status != TIDE_OK)
        return status < TIDE_OK ? status
                                : tide_fail(err, TIDE_E_FAILED, "DuckDB has written no file");
    const tide_lake_table_seen no_columns = {0};
    return tide_lake_read_copied(query, &no_columns, j->out, err);
}

static tide_status write_all(job *j, tide_error *err)
{
    TIDE_TRY(tide_lake_stage_make(j->data, &j->table->table, j->stage, err));
    for (int i = 0; i < j->files->count; i++) {
        if (j->found[i] == 0)
            continue;
        j->which[j->out->count] = i;
        TIDE_TRY(write_one(j, i, err));
    }
    for (; j->placed < j->out->count; j->placed++) {
        tide_lake_new_file *file = &j->out->files[j->placed];
        if (!*file->path)
            continue;
        TIDE_TRY(tide_lake_place(j->data, &j->table->table, file, j->out->memory, err));
    }
    return j->out->count ? tide_lake_sync_table(j->data, &j->table->table, err) : TIDE_OK;
}

static tide_status run(job *j, const char *condition, int64_t *rows, tide_error *err)
{
    TIDE_TRY(check_condition(j, condition, err));
    TIDE_TRY(tide_lake_scan_make(&j->scan, j->data, j->table, j->files, true, err));
    TIDE_TRY(find_rows(j, err));
    for (int i = 0; i < j->files->count; i++)
        *rows += j->found[i];
    return *rows ? write_all(j, err) : TIDE_OK;
}

static void end(job *j, tide_status status)
{
    TIDE_IGNORE(tide_lake_run_made(j->data->duck, TIDE_TEMPLATE_DUCK_FOUND_DROP, NULL, NULL));
    tide_lake_stage_remove(j->stage);
    if (status < TIDE_OK) {
        for (int i = 0; i < j->placed; i++)
            if (*j->out->files[i].path)
                tide_lake_unlink(j->data, &j->table->table, j->out->files[i].path);
        tide_lake_written_done(j->out);
    }
    tide_lake_scan_done(&j->scan);
    tide_arena_done(&j->arena);
    free(j->found);
}

tide_status tide_lake_find_deletes(tide_lake_data *data, const tide_lake_table_seen *table,
                                   const tide_lake_files *files, const char *condition,
                                   tide_lake_written *out,
                                   int *which, /* NOLINT(readability-non-const-parameter): filled */
                                   int64_t *rows, tide_error *err)
{
    TIDE_TRY(tide_lake_written_init(out, err));
    *rows = 0;
    job j = {.data = data, .table = table, .files = files, .out = out, .which = which};
    tide_arena_init(&j.arena, TIDE_LAKE_ARENA_MAX);
    j.found = calloc((size_t)files->count + 1, sizeof *j.found);
    tide_status status = j.found ? run(&j, condition, rows, err) : tide_no_memory(err);
    status = tide_lake_blame_files(j.scan.paths, j.scan.path_count, status, err);
    if (status < TIDE_OK)
        *rows = 0;
    end(&j, status);
    return status;
}
