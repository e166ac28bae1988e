#include "lake_fixture.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/text/uuid.h"
#include "store/engine.h"

void lake_data_dir(store_test *t, char out[TEMPDIR_PATH_MAX])
{
    tempdir_join(&t->dir, "data", out);
}

lake_case lake_case_open(void **state)
{
    lake_case l = {.t = *state};
    char data[TEMPDIR_PATH_MAX];
    lake_data_dir(l.t, data);
    assert_ok_err(tide_lake_init(l.t->store, data, NULL, &l.err), &l.err);
    assert_ok_err(tide_lake_open(&l.lake, l.t->store, &l.err), &l.err);
    return l;
}

static void say_finding(void *arg, const tide_lake_finding *finding)
{
    (void)arg;
    print_error("history: %s: catalog %" PRId64 ", snapshot %" PRId64 ": %s\n", finding->rule,
                finding->catalog_id, finding->snapshot_id, finding->words);
}

void lake_assert_sound(lake_case *l)
{
    tide_lake_checked checked;
    assert_ok_err(tide_lake_check_history(l->lake, NULL, say_finding, NULL, &checked, &l->err),
                  &l->err);
}

void lake_case_done(lake_case *l)
{
    lake_assert_sound(l);
    tide_lake_closep(&l->lake);
}

int64_t lake_catalog(lake_case *l, const char *name)
{
    tide_lake_created made;
    assert_ok_err(tide_lake_create_catalog(l->lake, name, false, NULL, &made, &l->err), &l->err);
    return made.catalog_id;
}

tide_lake_change *lake_begin(lake_case *l, const char *catalog)
{
    tide_lake_change *change = NULL;
    assert_ok_err(tide_lake_begin(&change, l->lake, catalog, 0, &l->err), &l->err);
    return change;
}

tide_status lake_try_commit(lake_case *l, tide_lake_change *change)
{
    tide_lake_committed done;
    const tide_status status = tide_lake_commit(change, NULL, &done, &l->err);
    tide_lake_drop_change(change);
    return status;
}

int64_t lake_commit(lake_case *l, tide_lake_change *change)
{
    tide_lake_committed done = {0};
    const tide_status status = tide_lake_commit(change, NULL, &done, &l->err);
    tide_lake_drop_change(change);
    assert_status_err(TIDE_OK, status, &l->err);
    return done.snapshot_id;
}

/* ---- operations ---- */

void lake_op_table(lake_case *l, tide_lake_change *change, const char *schema, const char *table)
{
    static const tide_lake_column_def columns[] = {{.name = "id", .type = "int64"},
                                                   {.name = "name", .type = "varchar"}};
    assert_ok_err(tide_lake_create_table(change, schema, table, columns, 2, &l->err), &l->err);
}

static void name_file(lake_case *l, char out[64])
{
    tide_uuid uuid;
    char text[TIDE_UUID_TEXT_SIZE];
    (void)l;
    tide_uuid_v4(tide_env_system(), &uuid);
    tide_uuid_format(&uuid, text);
    (void)snprintf(out, 64, "%s.parquet", text);
}

void lake_op_insert(lake_case *l, tide_lake_change *change, const char *schema, const char *table,
                    int64_t rows)
{
    char path[64];
    name_file(l, path);
    TIDE_CLEANUP(tide_lake_table_done) tide_lake_table_seen seen = {0};
    assert_ok_err(tide_lake_change_table(change, schema, table, &seen, &l->err), &l->err);
    const tide_lake_column_stats stats = {.column_id = seen.columns[0].id,
                                          .size_bytes = 10,
                                          .value_count = rows,
                                          .min_value = "1",
                                          .max_value = "9"};
    const tide_lake_new_file file = {.path = path,
                                     .record_count = rows,
                                     .file_size_bytes = 100 * rows,
                                     .footer_size = 40,
                                     .stats = &stats,
                                     .stat_count = 1};
    assert_ok_err(tide_lake_add_file(change, seen.table.id, &file, &l->err), &l->err);
}

enum { SEEN_MAX = 64 };

typedef struct file_list {
    int64_t catalog_id;
    int64_t snapshot;
    int64_t table_id;
    tide_lake_file_seen all[SEEN_MAX];
    int count;
} file_list;

static tide_status keep_file(void *arg, const tide_lake_file_seen *file, tide_error *err)
{
    (void)err;
    file_list *list = arg;
    if (list->count < SEEN_MAX) {
        list->all[list->count] = *file;
        list->all[list->count].path = "";
        list->all[list->count++].delete_path = "";
    }
    return TIDE_OK;
}

static tide_status list_files(tide_tx *tx, void *arg, tide_error *err)
{
    file_list *list = arg;
    list->count = 0;
    return tide_lake_each_file(tx, list->catalog_id, list->snapshot, list->table_id, keep_file,
                               list, err);
}

static void read_files(lake_case *l, tide_lake_change *change, const char *schema,
                       const char *table, file_list *out)
{
    TIDE_CLEANUP(tide_lake_table_done) tide_lake_table_seen seen = {0};
    assert_ok_err(tide_lake_change_table(change, schema, table, &seen, &l->err), &l->err);
    out->catalog_id = tide_lake_change_catalog(change)->catalog_id;
    out->snapshot = tide_lake_change_base(change);
    out->table_id = seen.table.id;
    assert_ok_err(tide_store_read(l->t->store, list_files, out, &l->err), &l->err);
    assert_true(out->count > 0);
}

void lake_op_delete_of(lake_case *l, tide_lake_change *change, const char *schema,
                       const char *table, int which, bool whole)
{
    file_list list;
    char path[64];
    name_file(l, path);
    read_files(l, change, schema, table, &list);
    const tide_lake_new_file file = {.path = path,
                                     .record_count = list.all[which].delete_count + 1,
                                     .file_size_bytes = 20,
                                     .footer_size = 7};
    assert_ok_err(tide_lake_delete_rows(change, list.table_id, &list.all[which],
                                        whole ? NULL : &file, &l->err),
                  &l->err);
}

void lake_op_delete(lake_case *l, tide_lake_change *change, const char *schema, const char *table,
                    bool whole)
{
    lake_op_delete_of(l, change, schema, table, 0, whole);
}

void lake_op_compact(lake_case *l, tide_lake_change *change, const char *schema, const char *table)
{
    file_list list;
    char path[64];
    int64_t rows = 0;
    name_file(l, path);
    read_files(l, change, schema, table, &list);
    for (int i = 0; i < list.count; i++)
        rows += list.all[i].record_count - list.all[i].delete_count;
    const tide_lake_new_file file = {.path = path, .record_count = rows, .file_size_bytes = 50};
    assert_ok_err(
        tide_lake_compact_files(change, list.table_id, list.all, list.count, &file, 1, &l->err),
        &l->err);
}

int64_t lake_table(lake_case *l, const char *catalog, const char *schema, const char *table)
{
    tide_lake_change *change = lake_begin(l, catalog);
    lake_op_table(l, change, schema, table);
    return lake_commit(l, change);
}

int64_t lake_insert(lake_case *l, const char *catalog, const char *schema, const char *table,
                    int64_t rows)
{
    tide_lake_change *change = lake_begin(l, catalog);
    lake_op_insert(l, change, schema, table, rows);
    return lake_commit(l, change);
}

int64_t lake_drop(lake_case *l, const char *catalog, const char *schema, const char *table)
{
    tide_lake_change *change = lake_begin(l, catalog);
    assert_ok_err(tide_lake_drop_table(change, schema, table, &l->err), &l->err);
    return lake_commit(l, change);
}

int64_t lake_fork_of(lake_case *l, const char *parent, const char *child, const char *at)
{
    tide_lake_created made;
    assert_ok_err(tide_lake_fork(l->lake, parent, child, at, NULL, &made, &l->err), &l->err);
    return made.snapshot_id;
}

/* ---- what is there ---- */

typedef struct question {
    const char *catalog;
    const char *at;
    const char *schema;
    const char *table;
    tide_lake_catalog found;
    int64_t files;
    int64_t rows;
} question;

static tide_status count_file(void *arg, const tide_lake_file_seen *file, tide_error *err)
{
    (void)err;
    question *q = arg;
    q->files++;
    q->rows += file->record_count - file->delete_count;
    return TIDE_OK;
}

static tide_status ask(tide_tx *tx, void *arg, tide_error *err)
{
    question *q = arg;
    int64_t snapshot = 0;
    tide_lake_object schema;
    tide_lake_object table;
    q->files = 0;
    q->rows = 0;
    TIDE_TRY(tide_lake_find_catalog(tx, q->catalog, &q->found, err));
    TIDE_TRY(tide_lake_find_snapshot(tx, &q->found, q->at, &snapshot, err));
    if (!q->schema)
        return TIDE_OK;
    tide_status status =
        tide_lake_find_schema(tx, q->found.catalog_id, snapshot, q->schema, &schema, err);
    if (status == TIDE_OK)
        status = tide_lake_find_object(tx, q->found.catalog_id, snapshot, schema.id, q->table,
                                       &table, err);
    if (status != TIDE_OK) {
        q->files = -1;
        q->rows = -1;
        return status < TIDE_OK ? status : TIDE_OK;
    }
    return tide_lake_each_file(tx, q->found.catalog_id, snapshot, table.id, count_file, q, err);
}

int64_t lake_files(lake_case *l, const char *catalog, const char *at, const char *schema,
                   const char *table)
{
    question q = {.catalog = catalog, .at = at, .schema = schema, .table = table};
    assert_ok_err(tide_store_read(l->t->store, ask, &q, &l->err), &l->err);
    return q.files;
}

int64_t lake_rows(lake_case *l, const char *catalog, const char *at, const char *schema,
                  const char *table)
{
    question q = {.catalog = catalog, .at = at, .schema = schema, .table = table};
    assert_ok_err(tide_store_read(l->t->store, ask, &q, &l->err), &l->err);
    return q.rows;
}

tide_lake_catalog lake_find(lake_case *l, const char *catalog)
{
    question q = {.catalog = catalog, .at = ""};
    assert_ok_err(tide_store_read(l->t->store, ask, &q, &l->err), &l->err);
    return q.found;
}

int64_t lake_head(lake_case *l, const char *catalog)
{
    return lake_find(l, catalog).head;
}

/* ---- states as text ---- */

typedef struct portrait {
    const char *catalog;
    const char *at;
    tide_buffer text;
    tide_tx *tx;
    int64_t catalog_id;
    int64_t snapshot;
} portrait;

static tide_status draw_file(void *arg, const tide_lake_file_seen *file, tide_error *err)
{
    (void)err;
    portrait *p = arg;
    return tide_buffer_printf(&p->text,
                              "    file %" PRId64 " %s rows %" PRId64 " from %" PRId64
                              " deletes %s %" PRId64 "\n",
                              file->data_file_id, file->path, file->record_count,
                              file->row_id_start, file->delete_path, file->delete_count);
}

static tide_status draw_object(void *arg, const tide_lake_object *object, tide_error *err)
{
    portrait *p = arg;
    TIDE_TRY(tide_buffer_printf(&p->text, "  %d %" PRId64 " %s %s %s\n", object->kind, object->id,
                                object->name, object->uuid, object->sql ? object->sql : ""));
    if (object->kind != TIDE_LAKE_TABLE)
        return TIDE_OK;
    TIDE_CLEANUP(tide_freep) tide_lake_column *columns = NULL;
    int count = 0;
    tide_lake_partition partition;
    TIDE_TRY(tide_lake_read_columns(p->tx, p->catalog_id, p->snapshot, object->id, &columns, &count,
                                    err));
    for (int i = 0; i < count; i++)
        TIDE_TRY(tide_buffer_printf(&p->text, "    column %" PRId64 " %s %s %s %d\n", columns[i].id,
                                    columns[i].name, columns[i].type, columns[i].initial_default,
                                    columns[i].nulls_allowed));
    TIDE_TRY(
        tide_lake_read_partition(p->tx, p->catalog_id, p->snapshot, object->id, &partition, err));
    TIDE_TRY(tide_buffer_printf(&p->text, "    partition %" PRId64 "\n", partition.id));
    return tide_lake_each_file(p->tx, p->catalog_id, p->snapshot, object->id, draw_file, p, err);
}

static tide_status draw_schema(void *arg, const tide_lake_object *object, tide_error *err)
{
    portrait *p = arg;
    TIDE_TRY(tide_buffer_printf(&p->text, "schema %" PRId64 " %s %s\n", object->id, object->name,
                                object->path));
    return tide_lake_each_object(p->tx, p->catalog_id, p->snapshot, object->id, draw_object, p,
                                 err);
}

static tide_status draw(tide_tx *tx, void *arg, tide_error *err)
{
    portrait *p = arg;
    tide_lake_catalog catalog;
    p->tx = tx;
    tide_buffer_clear(&p->text);
    TIDE_TRY(tide_lake_find_catalog(tx, p->catalog, &catalog, err));
    p->catalog_id = catalog.catalog_id;
    TIDE_TRY(tide_lake_find_snapshot(tx, &catalog, p->at, &p->snapshot, err));
    return tide_lake_each_schema(tx, p->catalog_id, p->snapshot, draw_schema, p, err);
}

char *lake_state(lake_case *l, const char *catalog, const char *at)
{
    portrait p = {.catalog = catalog, .at = at};
    tide_buffer_init(&p.text, 16 << 20);
    assert_ok_err(tide_store_read(l->t->store, draw, &p, &l->err), &l->err);
    char *text = strdup(tide_buffer_text(&p.text));
    tide_buffer_done(&p.text);
    return text;
}

/* ---- plain statements ---- */

static tide_status run_text(tide_tx *tx, void *arg, tide_error *err)
{
    return tide_tx_script(tx, arg, err);
}

void lake_sql(lake_case *l, const char *text)
{
    assert_ok_err(tide_store_write(l->t->store, run_text, (char *)text, &l->err), &l->err);
}
