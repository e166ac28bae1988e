/* change_know.c - what a change knows of its base.
 *
 * Reads are local (tide_store_read_local): the commit makes sure that the base is on disk, and what is visible at a snapshot never changes. What is kept beyond the
 * change (known.h) is read durably. */
#include "lake/change_parts.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/list.h"
#include "lake/known.h"
#include "store/statement.h"
#include "tidemark_lake_sql.h"

lake_thing *lake_add_thing(tide_lake_change *change)
{
    lake_thing *thing = tide_arena_alloc(&change->memory, sizeof *thing);
    if (!thing)
        return NULL;
    memset(thing, 0, sizeof *thing);
    thing->next = change->things;
    change->things = thing;
    return thing;
}

static lake_thing *known_by_id(const tide_lake_change *change, tide_lake_kind kind, int64_t id)
{
    for (lake_thing *thing = change->things; thing; thing = thing->next)
        if (thing->is.seen.kind == kind && thing->is.seen.id == id)
            return thing;
    return NULL;
}

/* A row of the base becomes a thing, unless it is one already. Takes over the row's text. */
static tide_status know(tide_lake_change *change, lake_thing *schema, tide_lake_object_row *row,
                        lake_thing **out, tide_error *err)
{
    lake_thing *thing = known_by_id(change, row->seen.kind, row->seen.id);
    if (thing) {
        free(row->seen.sql);
        row->seen.sql = NULL;
    } else {
        thing = lake_add_thing(change);
        if (!thing) {
            free(row->seen.sql);
            return lake_fail_memory(change, err);
        }
        thing->schema = schema;
        thing->was_there = true;
        thing->is_there = true;
        thing->was = *row;
        thing->is = *row;
    }
    *out = thing;
    return TIDE_OK;
}

typedef struct lookup {
    const tide_lake_change *change;
    const tide_sql *sql;
    int64_t schema_id; /* 0: the statement has none */
    int64_t table_id;
    const char *name; /* folded; NULL: the statement has none */
    tide_lake_object_row row;
} lookup;

static tide_status look_up(tide_tx *tx, void *arg, tide_error *err)
{
    lookup *l = arg;
    TIDE_QUERY(query, tx, l->sql, err, tide_bind_i64("catalog_id", l->change->catalog.catalog_id),
               tide_bind_i64("snapshot", l->change->base),
               TIDE_BIND_IF(l->sql == TIDE_LAKE_SQL_LAKE_OBJECT_FIND,
                            tide_bind_i64("schema_id", l->schema_id)),
               TIDE_BIND_IF(l->sql == TIDE_LAKE_SQL_LAKE_TABLE_GET,
                            tide_bind_i64("table_id", l->table_id)),
               TIDE_BIND_IF(l->name, tide_bind_text("name", l->name)));
    free(l->row.seen.sql);
    l->row.seen.sql = NULL;
    return tide_lake_object_row_find(query, &l->row, err);
}

/* From what the process knows already, or from the store. */
static tide_status look_for(lookup *l, tide_lake_kind kind, tide_error *err)
{
    tide_lake_known_all *all = &l->change->lake->known;
    const lake_known_question question = {.catalog_id = l->change->catalog.catalog_id,
                                          .version = l->change->version,
                                          .kind = kind,
                                          .name = l->name,
                                          .schema_id = l->schema_id,
                                          .id = l->table_id};
    lake_known *known = lake_known_find(all, &question);
    if (known) {
        l->row = known->row;
        lake_known_release(all, known);
        return TIDE_OK;
    }
    const tide_status status = tide_store_read(l->change->store, look_up, l, err);
    if (status == TIDE_OK)
        lake_known_put(all, &(lake_known){.catalog_id = question.catalog_id,
                                          .version = question.version,
                                          .row = l->row});
    return status;
}

/* schema NULL: is it a schema? */
static bool is_within(const lake_thing *thing, const lake_thing *schema)
{
    const bool is_schema = thing->is.seen.kind == TIDE_LAKE_SCHEMA;
    return schema ? !is_schema && thing->is.seen.schema_id == schema->is.seen.id : is_schema;
}

/* By name: what the change has made or changed comes first; then the base, unless the change has taken the name away. */
static tide_status find_named(tide_lake_change *change, lake_thing *schema, const char *name,
                              lake_thing **out, tide_error *err)
{
    char folded[TIDE_LAKE_NAME_MAX + 1];
    if (strlen(name) > TIDE_LAKE_NAME_MAX)
        return TIDE_NONE;
    for (lake_thing *thing = change->things; thing; thing = thing->next) {
        if (is_within(thing, schema) && thing->is_there &&
            tide_lake_same_name(thing->is.seen.name, name)) {
            thing->schema = schema;
            *out = thing;
            return TIDE_OK;
        }
    }
    if (schema && !schema->was_there)
        return TIDE_NONE;
    tide_lake_fold(folded, name);
    lookup l = {.change = change,
                .sql = schema ? TIDE_LAKE_SQL_LAKE_OBJECT_FIND : TIDE_LAKE_SQL_LAKE_SCHEMA_FIND,
                .schema_id = schema ? schema->is.seen.id : 0,
                .name = folded};
    const tide_status status = look_for(&l, schema ? TIDE_LAKE_TABLE : TIDE_LAKE_SCHEMA, err);
    if (status != TIDE_OK) {
        free(l.row.seen.sql);
        return status;
    }
    lake_thing *thing = known_by_id(change, l.row.seen.kind, l.row.seen.id);
    if (thing) { /* dropped or renamed by this change */
        free(l.row.seen.sql);
        return TIDE_NONE;
    }
    return know(change, schema, &l.row, out, err);
}

tide_status lake_find_schema_thing(tide_lake_change *change, const char *schema, lake_thing **out,
                                   tide_error *err)
{
    return find_named(change, NULL, schema, out, err);
}

tide_status lake_find_thing(tide_lake_change *change, lake_thing *schema, const char *name,
                            lake_thing **out, tide_error *err)
{
    return find_named(change, schema, name, out, err);
}

tide_status lake_need_schema(tide_lake_change *change, const char *schema, lake_thing **out,
                             tide_error *err)
{
    const tide_status status = find_named(change, NULL, schema, out, err);
    if (status == TIDE_NONE)
        return tide_fail(err, TIDE_E_NOT_FOUND,
                         "catalog %s has no schema '%.100s': make it with 'tidemark lake schema "
                         "create %s.%.100s'",
                         change->catalog.name, schema, change->catalog.name, schema);
    return status;
}

static tide_status need(tide_lake_change *change, const char *schema, const char *name,
                        tide_lake_kind kind, lake_thing **out, tide_error *err)
{
    lake_thing *in = NULL;
    TIDE_TRY(lake_check_open(change, err));
    TIDE_TRY(lake_need_schema(change, schema, &in, err));
    const tide_status status = find_named(change, in, name, out, err);
    TIDE_TRY(status);
    const char *what = kind == TIDE_LAKE_TABLE ? "table" : "view";
    if (status == TIDE_NONE)
        return tide_fail(
            err, TIDE_E_NOT_FOUND,
            "there is no %s %s.%.100s.%.100s: 'tidemark lake table ls %s.%.100s' lists "
            "what there is",
            what, change->catalog.name, schema, name, change->catalog.name, schema);
    if ((*out)->is.seen.kind != kind)
        return tide_fail(err, TIDE_E_INVALID, "%s.%.100s.%.100s is a %s, not a %s: name another",
                         change->catalog.name, schema, name,
                         kind == TIDE_LAKE_TABLE ? "view" : "table", what);
    return TIDE_OK;
}

tide_status lake_need_table(tide_lake_change *change, const char *schema, const char *table,
                            lake_thing **out, tide_error *err)
{
    return need(change, schema, table, TIDE_LAKE_TABLE, out, err);
}

tide_status lake_need_view(tide_lake_change *change, const char *schema, const char *view,
                           lake_thing **out, tide_error *err)
{
    return need(change, schema, view, TIDE_LAKE_VIEW, out, err);
}

tide_status lake_need_table_id(tide_lake_change *change, int64_t table_id, lake_thing **out,
                               tide_error *err)
{
    TIDE_TRY(lake_check_open(change, err));
    *out = known_by_id(change, TIDE_LAKE_TABLE, table_id);
    if (!*out) {
        lookup l = {.change = change, .sql = TIDE_LAKE_SQL_LAKE_TABLE_GET, .table_id = table_id};
        const tide_status status = look_for(&l, TIDE_LAKE_TABLE, err);
        TIDE_TRY(status);
        if (status == TIDE_OK)
            TIDE_TRY(know(change, NULL, &l.row, out, err));
    }
    if (!*out || !(*out)->is_there)
        return tide_fail(err, TIDE_E_NOT_FOUND,
                         "catalog %s has no table with the number %" PRId64 " at snapshot %" PRId64,
                         change->catalog.name, table_id, change->base);
    return TIDE_OK;
}

/* ---- everything in a schema ---- */

typedef struct object_list {
    const tide_lake_change *change;
    int64_t schema_id;
    tide_lake_object_row *rows;
    int count;
} object_list;

static void clear_list(object_list *list)
{
    for (int i = 0; i < list->count; i++)
        free(list->rows[i].seen.sql);
    list->count = 0;
}

static tide_status list_objects(tide_tx *tx, void *arg, tide_error *err)
{
    object_list *list = arg;
    clear_list(list);
    TIDE_QUERY(query, tx, TIDE_LAKE_SQL_LAKE_OBJECT_LIST, err,
               tide_bind_i64("catalog_id", list->change->catalog.catalog_id),
               tide_bind_i64("snapshot", list->change->base),
               tide_bind_i64("schema_id", list->schema_id));
    TIDE_EACH(tide_query_step(query, err)) {
        TIDE_TRY(tide_list_room(&list->rows, list->count, sizeof *list->rows, TIDE_LIST_MAX, err));
        TIDE_TRY(tide_lake_object_row_read(query, &list->rows[list->count], err));
        list->count++;
    }
    return TIDE_OK;
}

tide_status lake_know_all(tide_lake_change *change, lake_thing *schema, tide_error *err)
{
    object_list list = {.change = change, .schema_id = schema->is.seen.id};
    if (!schema->was_there)
        return TIDE_OK;
    tide_status status = tide_store_read_local(change->store, list_objects, &list, err);
    for (int i = 0; status >= TIDE_OK && i < list.count; i++) {
        lake_thing *ignored = NULL;
        status = know(change, schema, &list.rows[i], &ignored, err);
        list.rows[i].seen.sql = NULL;
    }
    clear_list(&list);
    free(list.rows);
    return status;
}

/* ---- columns ---- */

typedef struct column_request {
    const tide_lake_change *change;
    lake_thing *table;
} column_request;

static tide_status read_columns(tide_tx *tx, void *arg, tide_error *err)
{
    const column_request *request = arg;
    lake_thing *table = request->table;
    const int64_t catalog_id = request->change->catalog.catalog_id;
    free(table->columns_were);
    table->columns_were = NULL;
    TIDE_TRY(tide_lake_column_rows(tx, catalog_id, request->change->base, table->was.seen.id,
                                   &table->columns_were, &table->columns_were_count, err));
    return tide_lake_partition_row(tx, catalog_id, request->change->base, table->was.seen.id,
                                   &table->partition_was, &table->partition_owner_id, err);
}

/* Columns that the process knows already. TIDE_NONE: it does not. */
static tide_status recall_columns(const tide_lake_change *change, lake_thing *table,
                                  tide_error *err)
{
    tide_lake_known_all *all = &change->lake->known;
    const lake_known_question question = {.catalog_id = change->catalog.catalog_id,
                                          .version = change->version,
                                          .kind = TIDE_LAKE_TABLE,
                                          .id = table->was.seen.id};
    lake_known *known = lake_known_find(all, &question);
    tide_status status = known && known->has_columns ? TIDE_OK : TIDE_NONE;
    if (status == TIDE_OK && known->column_count > 0) {
        const size_t size = (size_t)known->column_count * sizeof *known->columns;
        table->columns_were = malloc(size);
        if (table->columns_were)
            memcpy(table->columns_were, known->columns, size);
        else
            status = tide_no_memory(err);
    }
    if (status == TIDE_OK) {
        table->columns_were_count = known->column_count;
        table->partition_was = known->partition;
        table->partition_owner_id = known->partition_owner_id;
    }
    lake_known_release(all, known);
    return status;
}

static tide_status get_columns(tide_lake_change *change, lake_thing *table, tide_error *err)
{
    const tide_status status = recall_columns(change, table, err);
    if (status != TIDE_NONE)
        return status;
    column_request request = {.change = change, .table = table};
    TIDE_TRY(tide_store_read(change->store, read_columns, &request, err));
    lake_known_put(&change->lake->known,
                   &(lake_known){.catalog_id = change->catalog.catalog_id,
                                 .version = change->version,
                                 .row = table->was,
                                 .has_columns = true,
                                 .columns = table->columns_were,
                                 .column_count = table->columns_were_count,
                                 .partition = table->partition_was,
                                 .partition_owner_id = table->partition_owner_id});
    return TIDE_OK;
}

tide_status lake_know_columns(tide_lake_change *change, lake_thing *table, tide_error *err)
{
    if (table->has_columns)
        return TIDE_OK;
    TIDE_TRY(get_columns(change, table, err));
    table->columns = tide_arena_alloc(&change->memory,
                                      (size_t)table->columns_were_count * sizeof *table->columns);
    if (!table->columns)
        return lake_fail_memory(change, err);
    if (table->columns_were_count > 0)
        memcpy(table->columns, table->columns_were,
               (size_t)table->columns_were_count * sizeof *table->columns);
    table->column_count = table->columns_were_count;
    table->partition = table->partition_was;
    table->has_columns = true;
    return TIDE_OK;
}
