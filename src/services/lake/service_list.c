/* service_list.c - what a catalog holds at a snapshot, and what differs between two: ListSchemas, ListTables, Diff. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/list.h"
#include "services/lake/service.h"

typedef struct look {
    tide_buffer *out;
    const char *catalog;
    const char *schema; /* "": all */
    const char *at;
    bool with_columns;
    /* of this run */
    tide_lake_catalog found;
    int64_t snapshot;
} look;

static tide_status find_place(tide_tx *tx, look *l, tide_error *err)
{
    tide_buffer_clear(l->out); /* it may run again */
    TIDE_TRY(tide_lake_find_catalog(tx, l->catalog, &l->found, err));
    return tide_lake_find_snapshot(tx, &l->found, l->at, &l->snapshot, err);
}

/* ---- schemas ---- */

static tide_status put_schema(void *arg, const tide_lake_object *schema, tide_error *err)
{
    LAKE(Schema) row;
    tide_lake_message_schema(&row, schema);
    return tide_rpc_put_message(arg, 2, &row.base, err);
}

static tide_status list_schemas(tide_tx *tx, void *arg, tide_error *err)
{
    look *l = arg;
    TIDE_TRY(find_place(tx, l, err));
    return tide_lake_each_schema(tx, l->found.catalog_id, l->snapshot, put_schema, l->out, err);
}

tide_status tide_laked_list_schemas(tide_lake_turn *turn, const ProtobufCMessage *request,
                                    tide_error *err)
{
    const LAKE(ListSchemasRequest) *given = (const LAKE(ListSchemasRequest) *)request;
    look l = {.out = &turn->out, .catalog = given->catalog, .at = given->at};
    TIDE_TRY(tide_store_read(turn->laked->store, list_schemas, &l, err));
    LAKE(ListSchemasResponse) rest = LAKE_INIT(LIST_SCHEMAS_RESPONSE);
    rest.snapshot_id = l.snapshot;
    return tide_rpc_pack(&turn->out, &rest.base, err);
}

/* ---- tables ---- */

/* Names are gathered first: their columns are asked for within the same transaction. */
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

static char *copy_text(const char *text)
{
    return text ? strdup(text) : NULL;
}

static tide_status keep_object(void *arg, const tide_lake_object *object, tide_error *err)
{
    object_list *list = arg;
    TIDE_TRY(tide_list_room(&list->all, list->count, sizeof *list->all, TIDE_LIST_MAX, err));
    list->all[list->count] = *object;
    list->all[list->count].sql = copy_text(object->sql);
    if (object->sql && !list->all[list->count].sql)
        return tide_no_memory(err);
    list->count++;
    return TIDE_OK;
}

static tide_status put_table(const look *l, tide_tx *tx, const char *schema,
                             const tide_lake_object *object, tide_error *err)
{
    enum { TABLES_FIELD = 2 };
    TIDE_CLEANUP(tide_freep) tide_lake_column *columns = NULL;
    int count = 0;
    if (object->kind == TIDE_LAKE_TABLE && l->with_columns)
        TIDE_TRY(tide_lake_read_columns(tx, l->found.catalog_id, l->snapshot, object->id, &columns,
                                        &count, err));
    TIDE_CLEANUP(tide_buffer_done) tide_buffer bytes = tide_buffer_of(TIDE_RPC_RESPONSE_MAX);
    TIDE_TRY(tide_lake_encode_table(&bytes, schema, object, columns, count, err));
    return tide_rpc_put_bytes(l->out, TABLES_FIELD, tide_buffer_view(&bytes), err);
}

static tide_status put_tables(const look *l, tide_tx *tx, const tide_lake_object *schema,
                              tide_error *err)
{
    TIDE_CLEANUP(object_list_done) object_list objects = {.all = NULL};
    TIDE_TRY(tide_lake_each_object(tx, l->found.catalog_id, l->snapshot, schema->id, keep_object,
                                   &objects, err));
    for (int i = 0; i < objects.count; i++)
        TIDE_TRY(put_table(l, tx, schema->name, &objects.all[i], err));
    return TIDE_OK;
}

static tide_status find_schema(const look *l, tide_tx *tx, tide_lake_object *out, tide_error *err)
{
    const tide_status status =
        tide_lake_find_schema(tx, l->found.catalog_id, l->snapshot, l->schema, out, err);
    if (status == TIDE_NONE)
        return tide_fail(err, TIDE_E_NOT_FOUND,
                         "catalog %s has no schema '%.255s' at snapshot %" PRId64, l->found.name,
                         l->schema, l->snapshot);
    return status;
}

static tide_status list_tables(tide_tx *tx, void *arg, tide_error *err)
{
    look *l = arg;
    TIDE_TRY(find_place(tx, l, err));
    TIDE_CLEANUP(object_list_done) object_list schemas = {.all = NULL};
    if (l->schema[0]) {
        tide_lake_object schema = {0};
        TIDE_TRY(find_schema(l, tx, &schema, err));
        return put_tables(l, tx, &schema, err);
    }
    TIDE_TRY(
        tide_lake_each_schema(tx, l->found.catalog_id, l->snapshot, keep_object, &schemas, err));
    for (int i = 0; i < schemas.count; i++)
        TIDE_TRY(put_tables(l, tx, &schemas.all[i], err));
    return TIDE_OK;
}

tide_status tide_laked_list_tables(tide_lake_turn *turn, const ProtobufCMessage *request,
                                   tide_error *err)
{
    const LAKE(ListTablesRequest) *given = (const LAKE(ListTablesRequest) *)request;
    look l = {.out = &turn->out,
              .catalog = given->catalog,
              .schema = given->schema,
              .at = given->at,
              .with_columns = !given->without_columns};
    TIDE_TRY(tide_store_read(turn->laked->store, list_tables, &l, err));
    LAKE(ListTablesResponse) rest = LAKE_INIT(LIST_TABLES_RESPONSE);
    rest.snapshot_id = l.snapshot;
    return tide_rpc_pack(&turn->out, &rest.base, err);
}

/* ---- differences ---- */

typedef struct comparison {
    tide_buffer *out;
    const LAKE(DiffRequest) * given;
    int64_t limit;
    /* of this run */
    int64_t ends[2];
    int64_t count;
} comparison;

static tide_status put_difference(void *arg, const tide_lake_difference *difference,
                                  tide_error *err)
{
    enum { DIFFERENCES_FIELD = 3 };
    comparison *c = arg;
    if (++c->count > c->limit)
        return TIDE_OK; /* counted, to say that there are more */
    LAKE(Difference) row;
    tide_lake_message_difference(&row, difference);
    return tide_rpc_put_message(c->out, DIFFERENCES_FIELD, &row.base, err);
}

static tide_status compare(tide_tx *tx, void *arg, tide_error *err)
{
    comparison *c = arg;
    tide_lake_catalog catalog;
    tide_buffer_clear(c->out); /* it may run again */
    c->count = 0;
    TIDE_TRY(tide_lake_find_catalog(tx, c->given->catalog, &catalog, err));
    TIDE_TRY(tide_lake_find_snapshot(tx, &catalog, c->given->from, &c->ends[0], err));
    TIDE_TRY(tide_lake_find_snapshot(tx, &catalog, c->given->to, &c->ends[1], err));
    return tide_lake_diff(tx, catalog.catalog_id, c->ends[0], c->ends[1], put_difference, c, err);
}

tide_status tide_laked_diff(tide_lake_turn *turn, const ProtobufCMessage *request, tide_error *err)
{
    enum { STANDARD = 10000 };
    comparison c = {.out = &turn->out, .given = (const LAKE(DiffRequest) *)request};
    TIDE_TRY(tide_laked_bound(&c.limit, c.given->limit, STANDARD, TIDE_LAKED_DIFFERENCES_MAX,
                              "limit", err));
    TIDE_TRY(tide_store_read(turn->laked->store, compare, &c, err));
    LAKE(DiffResponse) rest = LAKE_INIT(DIFF_RESPONSE);
    rest.from_snapshot_id = c.ends[0];
    rest.to_snapshot_id = c.ends[1];
    rest.cut = c.count > c.limit;
    return tide_rpc_pack(&turn->out, &rest.base, err);
}
