/* cmd_lake_list.c - what a catalog holds and how it came to be: schema ls, table ls, snapshots. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/list.h"
#include "cli/lake/cmd_lake.h"

enum { SNAPSHOT_PAGE = 1000 };

/* ---- printing within a read ---- */

typedef struct printing {
    tide_cli *cli;
    tide_tx_fn *fn;
    void *arg;
    FILE *file; /* of this run */
    char *text;
    size_t len;
} printing;

static void forget(printing *p)
{
    if (p->file)
        (void)fclose(p->file);
    free(p->text);
    p->file = NULL;
    p->text = NULL;
    p->len = 0;
}

static tide_status print_anew(tide_tx *tx, void *arg, tide_error *err)
{
    printing *p = arg;
    forget(p);
    p->file = open_memstream(&p->text, &p->len);
    TIDE_NEED_MEMORY(p->file, err);
    FILE *kept = p->cli->out.file;
    p->cli->out.file = p->file;
    const tide_status status = p->fn(tx, p->arg, err);
    p->cli->out.file = kept;
    return status;
}

tide_status tide_cli_lake_print(tide_cli *cli, tide_store *store, tide_tx_fn *fn, void *arg,
                                tide_error *err)
{
    TIDE_CLEANUP(forget) printing p = {.cli = cli, .fn = fn, .arg = arg};
    const tide_status status = tide_store_read(store, print_anew, &p, err);
    if (status < TIDE_OK)
        return status;
    if (fflush(p.file) != 0)
        return tide_no_memory(err);
    (void)fwrite(p.text, 1, p.len, cli->out.file); /* its failure is told at the end */
    return status;
}

/* ---- schemas and tables ---- */

typedef struct object_list {
    tide_lake_object *all;
    int count;
} object_list;

static void object_list_done(object_list *list)
{
    for (int i = 0; i < list->count; i++)
        free(list->all[i].sql);
    free(list->all);
}

static tide_status keep_object(void *arg, const tide_lake_object *object, tide_error *err)
{
    object_list *list = arg;
    TIDE_TRY(tide_list_room(&list->all, list->count, sizeof *list->all, TIDE_LIST_MAX, err));
    tide_lake_object *kept = &list->all[list->count];
    *kept = *object;
    if (object->sql && !(kept->sql = strdup(object->sql)))
        return tide_no_memory(err);
    list->count++;
    return TIDE_OK;
}

typedef struct content_look {
    tide_cli *cli;
    tide_lake_name name; /* schema "": all */
    bool with_objects;
    tide_lake_catalog catalog;
    int64_t snapshot;
    tide_cli_table table;
} content_look;

static tide_status print_object(content_look *look, tide_tx *tx, const char *schema,
                                const tide_lake_object *object, tide_error *err)
{
    tide_cli_output *out = &look->cli->out;
    const bool is_table = object->kind == TIDE_LAKE_TABLE;
    TIDE_CLEANUP(tide_freep) tide_lake_column *columns = NULL;
    int count = 0;
    if (is_table)
        TIDE_TRY(tide_lake_read_columns(tx, look->catalog.catalog_id, look->snapshot, object->id,
                                        &columns, &count, err));
    if (!out->is_json) {
        tide_cli_table_number(&look->table, object->id);
        tide_cli_table_cell(&look->table, schema);
        tide_cli_table_cell(&look->table, object->name);
        tide_cli_table_cell(&look->table, is_table ? "table" : "view");
        tide_cli_table_number(&look->table, count);
        tide_cli_table_number(&look->table, object->begin_snapshot);
        return TIDE_OK;
    }
    TIDE_CLEANUP(tide_buffer_done) tide_buffer bytes = tide_buffer_of(TIDE_CLI_LINE_MAX);
    TIDE_TRY(tide_lake_encode_table(&bytes, schema, object, columns, count, err));
    return tide_cli_print_encoded(out, &tidemark__lake__v1__table__descriptor,
                                  tide_buffer_view(&bytes), err);
}

static tide_status print_schema(content_look *look, const tide_lake_object *schema, tide_error *err)
{
    tide_cli_output *out = &look->cli->out;
    if (!out->is_json) {
        tide_cli_table_number(&look->table, schema->id);
        tide_cli_table_cell(&look->table, schema->name);
        tide_cli_table_number(&look->table, schema->begin_snapshot);
        return TIDE_OK;
    }
    LAKE(Schema) row;
    tide_lake_message_schema(&row, schema);
    return tide_cli_print_message(out, &row.base, err);
}

static tide_status print_objects(content_look *look, tide_tx *tx, const tide_lake_object *schema,
                                 tide_error *err)
{
    TIDE_CLEANUP(object_list_done) object_list objects = {.all = NULL};
    TIDE_TRY(tide_lake_each_object(tx, look->catalog.catalog_id, look->snapshot, schema->id,
                                   keep_object, &objects, err));
    for (int i = 0; i < objects.count; i++)
        TIDE_TRY(print_object(look, tx, schema->name, &objects.all[i], err));
    return TIDE_OK;
}

static tide_status print_content(content_look *look, tide_tx *tx, tide_error *err)
{
    TIDE_CLEANUP(object_list_done) object_list schemas = {.all = NULL};
    if (look->name.schema[0]) {
        tide_lake_object schema;
        const tide_status status = tide_lake_find_schema(
            tx, look->catalog.catalog_id, look->snapshot, look->name.schema, &schema, err);
        if (status == TIDE_NONE)
            return tide_fail(err, TIDE_E_NOT_FOUND,
                             "catalog %s has no schema '%s' at snapshot %" PRId64,
                             look->catalog.name, look->name.schema, look->snapshot);
        TIDE_TRY(status);
        TIDE_TRY(keep_object(&schemas, &schema, err));
    } else {
        TIDE_TRY(tide_lake_each_schema(tx, look->catalog.catalog_id, look->snapshot, keep_object,
                                       &schemas, err));
    }
    for (int i = 0; i < schemas.count; i++)
        TIDE_TRY(look->with_objects ? print_objects(look, tx, &schemas.all[i], err)
                                    : print_schema(look, &schemas.all[i], err));
    return TIDE_OK;
}

static tide_status list_content(tide_tx *tx, void *arg, tide_error *err)
{
    content_look *look = arg;
    const char *at = tide_cli_text(look->cli, TIDE_CLI_AT);
    TIDE_TRY(tide_lake_find_catalog(tx, look->name.catalog, &look->catalog, err));
    TIDE_TRY(tide_lake_find_snapshot(tx, &look->catalog, at ? at : "", &look->snapshot, err));
    tide_cli_table_begin(&look->table, &look->cli->out,
                         look->with_objects ? "ID#,SCHEMA,NAME,KIND,COLUMNS#,SINCE#"
                                            : "ID#,NAME,SINCE#");
    return tide_cli_table_end(&look->table, print_content(look, tx, err), err);
}

tide_status tide_cli_lake_schema_ls(tide_cli *cli, tide_error *err)
{
    content_look look = {.cli = cli};
    TIDE_TRY(tide_lake_name_parse(&look.name, cli->args[0], 1, err));
    TIDE_CLEANUP(tide_cli_close_lake) tide_cli_metabase metabase = {0};
    TIDE_TRY(tide_cli_open_lake(cli, &metabase, 0, err));
    return tide_cli_lake_print(cli, metabase.store, list_content, &look, err);
}

tide_status tide_cli_lake_table_ls(tide_cli *cli, tide_error *err)
{
    content_look look = {.cli = cli, .with_objects = true};
    tide_error ignored;
    if (tide_lake_name_parse(&look.name, cli->args[0], 2, &ignored) < TIDE_OK)
        TIDE_TRY(tide_lake_name_parse(&look.name, cli->args[0], 1, err));
    TIDE_CLEANUP(tide_cli_close_lake) tide_cli_metabase metabase = {0};
    TIDE_TRY(tide_cli_open_lake(cli, &metabase, 0, err));
    return tide_cli_lake_print(cli, metabase.store, list_content, &look, err);
}

/* ---- snapshots ---- */

typedef struct snapshot_look {
    tide_cli *cli;
    tide_lake_name name;
    int64_t after;
    int64_t limit; /* of this page */
    int64_t last;  /* of this run */
    int64_t count;
    tide_cli_table table;
} snapshot_look;

/* What nobody said is nothing, not an empty text. */
static tide_view said(tide_view text)
{
    return text.len > 0 ? text : tide_view_bytes(NULL, 0);
}

static tide_status print_snapshot(void *arg, const tide_lake_snapshot *snapshot, tide_error *err)
{
    snapshot_look *look = arg;
    tide_cli_output *out = &look->cli->out;
    look->last = snapshot->snapshot_id;
    look->count++;
    if (!out->is_json) {
        tide_cli_table_number(&look->table, snapshot->snapshot_id);
        tide_cli_table_time(&look->table, snapshot->time_us);
        tide_cli_table_view(&look->table, said(snapshot->author));
        tide_cli_table_view(&look->table, snapshot->changes_made);
        tide_cli_table_view(&look->table, said(snapshot->message));
        return TIDE_OK;
    }
    TIDE_CLEANUP(tide_buffer_done) tide_buffer bytes = tide_buffer_of(TIDE_CLI_LINE_MAX);
    TIDE_TRY(tide_lake_encode_snapshot(&bytes, snapshot, err));
    return tide_cli_print_encoded(out, &tidemark__lake__v1__snapshot__descriptor,
                                  tide_buffer_view(&bytes), err);
}

static tide_status list_snapshots(tide_tx *tx, void *arg, tide_error *err)
{
    snapshot_look *look = arg;
    tide_lake_catalog catalog;
    look->last = look->after;
    look->count = 0;
    TIDE_TRY(tide_lake_find_catalog(tx, look->name.catalog, &catalog, err));
    tide_cli_table_begin(&look->table, &look->cli->out, "SNAPSHOT#,TIME,AUTHOR,CHANGES,MESSAGE");
    const tide_status status = tide_lake_each_snapshot(tx, catalog.catalog_id, look->after,
                                                       look->limit, print_snapshot, look, err);
    return tide_cli_table_end(&look->table, status, err);
}

tide_status tide_cli_lake_snapshots(tide_cli *cli, tide_error *err)
{
    snapshot_look look = {.cli = cli};
    const bool has_limit = tide_cli_text(cli, TIDE_CLI_LIMIT) != NULL;
    int64_t left = has_limit ? tide_cli_number(cli, TIDE_CLI_LIMIT) : INT64_MAX;
    TIDE_TRY(tide_lake_name_parse(&look.name, cli->args[0], 1, err));
    look.after = tide_cli_text(cli, TIDE_CLI_FROM) ? tide_cli_number(cli, TIDE_CLI_FROM) - 1 : -1;
    TIDE_CLEANUP(tide_cli_close_lake) tide_cli_metabase metabase = {0};
    TIDE_TRY(tide_cli_open_lake(cli, &metabase, 0, err));
    do {
        look.limit = left < SNAPSHOT_PAGE ? left : SNAPSHOT_PAGE;
        TIDE_TRY(tide_cli_lake_print(cli, metabase.store, list_snapshots, &look, err));
        look.after = look.last;
        left -= look.count;
    } while (look.count == SNAPSHOT_PAGE && left > 0);
    return TIDE_OK;
}
