#include "lake/data/data_fixture.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "lake/lake_parts.h"
#include "lake/types.h"

#include "colony/duckdb/duckdb_place.h"

void data_reopen(data_test *t, int64_t file_bytes)
{
    tide_lake_data_close(t->data);
    t->data = NULL;
    const tide_lake_data_options options = {
        .threads = 2, .memory_max = INT64_C(512) << 20, .file_bytes = file_bytes};
    assert_ok_err(tide_lake_data_open(&t->data, t->data_dir, &options, &t->err), &t->err);
}

int data_setup(void **state)
{
    data_test *t = calloc(1, sizeof *t);
    duckdb_place();
    assert_ok_err(tempdir_make(&t->dir, &t->err), &t->err);
    tempdir_join(&t->dir, "data", t->data_dir);
    assert_int_equal(mkdir(t->data_dir, 0777), 0);
    tide_arena_init(&t->memory, 64 << 20);
    tide_buffer_init(&t->answer, 64 << 20);
    t->next_id = 1;
    t->row_max = 100000;
    t->timeout_us = 60000000;
    data_reopen(t, 0);
    *state = t;
    return 0;
}

int data_teardown(void **state)
{
    data_test *t = *state;
    tide_lake_data_close(t->data);
    tide_lake_written_done(&t->last);
    tide_arena_done(&t->memory);
    tide_buffer_done(&t->answer);
    tempdir_remove(&t->dir, &t->err);
    free(t);
    return 0;
}

/* ---- the table ---- */

void data_add_column(data_test *t, const char *name, const char *type, const char *initial)
{
    tide_lake_column *column = &t->columns[t->table.column_count++];
    *column = (tide_lake_column){.id = t->next_id++, .nulls_allowed = true};
    (void)snprintf(column->name, sizeof column->name, "%s", name);
    assert_ok_err(tide_lake_type_parse(column->type, type, &t->err), &t->err);
    (void)snprintf(column->initial_default, sizeof column->initial_default, "%s", initial);
    (void)snprintf(column->default_value, sizeof column->default_value, "%s", initial);
}

void data_drop_column(data_test *t, const char *name)
{
    for (int i = 0; i < t->table.column_count; i++) {
        if (strcmp(t->columns[i].name, name) != 0)
            continue;
        t->table.column_count--;
        memmove(&t->columns[i], &t->columns[i + 1],
                (size_t)(t->table.column_count - i) * sizeof t->columns[0]);
        return;
    }
    fail_msg("no column %s", name);
}

void data_table(data_test *t, const char *columns)
{
    t->files = (tide_lake_files){.all = t->all};
    t->table = (tide_lake_table_seen){.columns = t->columns};
    t->table.table = (tide_lake_object){.kind = TIDE_LAKE_TABLE, .id = 7};
    (void)snprintf(t->table.table.name, sizeof t->table.table.name, "t");
    (void)snprintf(t->table.table.path, sizeof t->table.table.path, "main/t/");
    tide_lake_column_def *defs = NULL;
    int count = 0;
    assert_ok_err(tide_lake_columns_parse(columns, &defs, &count, &t->err), &t->err);
    for (int i = 0; i < count; i++) {
        tide_lake_column *column = &t->columns[t->table.column_count++];
        *column = (tide_lake_column){.id = t->next_id++, .nulls_allowed = !defs[i].is_not_null};
        (void)snprintf(column->name, sizeof column->name, "%s", defs[i].name);
        (void)snprintf(column->type, sizeof column->type, "%s", defs[i].type);
        (void)snprintf(column->initial_default, sizeof column->initial_default, "NULL");
        (void)snprintf(column->default_value, sizeof column->default_value, "%s",
                       defs[i].default_value ? defs[i].default_value : "NULL");
    }
    tide_lake_column_defs_free(defs, count);
}

void data_partition(data_test *t, const char *column, const char *transform)
{
    tide_lake_partition *partition = &t->table.partition;
    partition->id = 3;
    for (int i = 0; i < t->table.column_count; i++) {
        if (strcmp(t->columns[i].name, column) != 0)
            continue;
        tide_lake_partition_key *key = &partition->keys[partition->count++];
        key->column_id = t->columns[i].id;
        (void)snprintf(key->transform, sizeof key->transform, "%s", transform);
    }
}

/* ---- sources ---- */

const char *data_path(data_test *t, const char *name)
{
    static char path[TEMPDIR_PATH_MAX];
    tempdir_join(&t->dir, name, path);
    return path;
}

const char *data_file(data_test *t, const char *name, const char *text)
{
    const char *path = data_path(t, name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, strlen(text), file), strlen(text));
    assert_int_equal(fclose(file), 0);
    return path;
}

const char *data_parquet(data_test *t, const char *name, const char *select)
{
    const char *path = data_path(t, name);
    TIDE_CLEANUP(tide_buffer_done) tide_buffer text = {0};
    tide_buffer_init(&text, 1 << 20);
    assert_ok(tide_buffer_printf(&text, "COPY (%s) TO '%s' (FORMAT parquet)", select, path));
    TIDE_CLEANUP(tide_duck_query_endp) tide_duck_query *query = NULL;
    assert_ok_err(tide_duck_query_begin_made(&query, t->data->duck, "a source",
                                             tide_buffer_text(&text), &t->err),
                  &t->err);
    assert_ok_err(tide_duck_query_run(query, NULL, &t->err), &t->err);
    return path;
}

/* ---- changes ---- */

static char *keep(data_test *t, const char *dir, const char *name)
{
    char *path = tide_lake_join(&t->memory, dir, name);
    assert_non_null(path);
    return path;
}

static void commit_files(data_test *t)
{
    for (int i = 0; i < t->last.count; i++) {
        const tide_lake_new_file *file = &t->last.files[i];
        assert_true(t->files.count < DATA_FILES_MAX);
        t->files.all[t->files.count++] = (tide_lake_file_seen){
            .data_file_id = t->files.count,
            .path = keep(t, t->table.table.path, file->path),
            .delete_path = "",
            .sha256 = keep(t, "", file->sha256),
            .record_count = file->record_count,
            .file_size_bytes = file->file_size_bytes,
        };
    }
}

tide_status data_try(data_test *t, const char *path)
{
    tide_lake_written_done(&t->last);
    return tide_lake_write_rows(t->data, &t->table, path, TIDE_LAKE_BY_NAME, &t->last, &t->err);
}

void data_append(data_test *t, const char *path)
{
    assert_ok_err(data_try(t, path), &t->err);
    commit_files(t);
}

void data_append_rows(data_test *t, const char *csv)
{
    data_append(t, data_file(t, "rows.csv", csv));
}

static void commit_deletes(data_test *t, const int *which)
{
    for (int i = 0; i < t->last.count; i++) {
        tide_lake_file_seen *file = &t->files.all[which[i]];
        if (!*t->last.files[i].path) {
            file->path = NULL;
            continue;
        }
        file->delete_path = keep(t, t->table.table.path, t->last.files[i].path);
        file->delete_count = t->last.files[i].record_count;
        file->delete_file_id = ++t->next_id + DATA_FILES_MAX;
        file->delete_sha256 = keep(t, "", t->last.files[i].sha256);
    }
    int kept = 0;
    for (int i = 0; i < t->files.count; i++)
        if (t->files.all[i].path)
            t->files.all[kept++] = t->files.all[i];
    t->files.count = kept;
}

static tide_status run_delete(data_test *t, const char *condition, int64_t *rows)
{
    int which[DATA_FILES_MAX];
    tide_lake_written_done(&t->last);
    const tide_status status = tide_lake_find_deletes(t->data, &t->table, &t->files, condition,
                                                      &t->last, which, rows, &t->err);
    if (status == TIDE_OK)
        commit_deletes(t, which);
    return status;
}

tide_status data_try_delete(data_test *t, const char *condition)
{
    int64_t rows = 0;
    return run_delete(t, condition, &rows);
}

int64_t data_delete(data_test *t, const char *condition)
{
    int64_t rows = 0;
    assert_ok_err(run_delete(t, condition, &rows), &t->err);
    return rows;
}

void data_compact(data_test *t)
{
    tide_lake_written_done(&t->last);
    assert_ok_err(tide_lake_rewrite(t->data, &t->table, &t->files, &t->last, &t->err), &t->err);
    t->files.count = 0;
    commit_files(t);
}

/* ---- questions ---- */

static tide_status take_columns(void *arg, const char *const *names, int count, tide_error *err)
{
    (void)arg;
    (void)names;
    (void)count;
    (void)err;
    return TIDE_OK;
}

static void put_cell(tide_buffer *out, const tide_sql_value *cell)
{
    switch (cell->kind) {
    case TIDE_SQL_VALUE_NULL:
    case TIDE_SQL_VALUE_TIME:
        assert_ok(tide_buffer_append_text(out, "NULL"));
        break;
    case TIDE_SQL_VALUE_BOOL:
        assert_ok(tide_buffer_append_text(out, cell->i64 ? "true" : "false"));
        break;
    case TIDE_SQL_VALUE_I64:
        assert_ok(tide_buffer_printf(out, "%lld", (long long)cell->i64));
        break;
    case TIDE_SQL_VALUE_F64:
        assert_ok(tide_buffer_printf(out, "%.17g", cell->f64));
        break;
    case TIDE_SQL_VALUE_TEXT:
        assert_ok(tide_buffer_append_view(out, cell->bytes));
        break;
    case TIDE_SQL_VALUE_BLOB:
        for (size_t i = 0; i < cell->bytes.len; i++)
            assert_ok(tide_buffer_printf(out, "%02x", (unsigned char)cell->bytes.ptr[i]));
        break;
    }
}

static tide_status take_row(void *arg, const tide_sql_value *cells, int count, tide_error *err)
{
    data_test *t = arg;
    (void)err;
    for (int i = 0; i < count; i++) {
        if (i > 0)
            assert_ok(tide_buffer_append_byte(&t->answer, '|'));
        put_cell(&t->answer, &cells[i]);
    }
    assert_ok(tide_buffer_append_byte(&t->answer, '\n'));
    return TIDE_OK;
}

tide_status data_try_ask(data_test *t, const char *text)
{
    tide_buffer_clear(&t->answer);
    const tide_lake_shown shown = {.catalog = "lake",
                                   .schema = "main",
                                   .table = &t->table,
                                   .files = &t->files,
                                   .is_default = true};
    const tide_lake_ask ask = {.text = text,
                               .row_max = t->row_max,
                               .bytes_max = 32 << 20,
                               .timeout_us = t->timeout_us,
                               .columns = take_columns,
                               .row = take_row,
                               .arg = t};
    return tide_lake_ask_shown(t->data, &shown, 1, &ask, &t->err);
}

const char *data_ask(data_test *t, const char *text)
{
    assert_ok_err(data_try_ask(t, text), &t->err);
    return tide_buffer_text(&t->answer);
}

static int seen_files;

static int count_one(const char *path, const struct stat *there, int kind, struct FTW *where)
{
    (void)path;
    (void)there;
    (void)where;
    seen_files += kind == FTW_F;
    return 0;
}

int data_count_files(data_test *t)
{
    seen_files = 0;
    assert_int_equal(nftw(t->data_dir, count_one, 16, FTW_PHYS), 0);
    return seen_files;
}
