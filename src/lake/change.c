/* change.c - a change begins, and knows things. */
#include "lake/change_parts.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/uuid.h"
#include "tidemark_lake_sql.h"

/* ---- life ---- */

static tide_status read_base(tide_tx *tx, void *arg, tide_error *err)
{
    tide_lake_change *change = arg;
    char name[TIDE_LAKE_NAME_MAX + 1];
    (void)snprintf(name, sizeof name, "%s", change->catalog.name);
    TIDE_TRY(tide_lake_find_catalog(tx, name, &change->catalog, err));
    if (change->base == 0)
        return TIDE_OK;
    char at[24];
    int64_t found = 0;
    (void)snprintf(at, sizeof at, "%" PRId64, change->base);
    TIDE_TRY(tide_lake_find_snapshot(tx, &change->catalog, at, &found, err));
    if (change->base < change->catalog.created_snapshot)
        return tide_fail(err, TIDE_E_INVALID,
                         "snapshot %" PRId64 " is from before the fork %s: a change begins at one "
                         "of its own, %" PRId64 " or later",
                         change->base, change->catalog.name, change->catalog.created_snapshot);
    return TIDE_OK;
}

tide_status tide_lake_begin(tide_lake_change **out, tide_lake *lake, const char *catalog,
                            int64_t base, tide_error *err)
{
    TIDE_TRY(tide_lake_check_name(catalog, "catalog", err));
    TIDE_CLEANUP(tide_lake_drop_changep) tide_lake_change *change = calloc(1, sizeof *change);
    if (!change)
        return tide_fail(err, TIDE_E_NOMEM, "no memory for a change");
    change->lake = lake;
    change->store = tide_lake_store(lake);
    tide_arena_init(&change->memory, TIDE_LAKE_CHANGE_BYTES_MAX);
    (void)snprintf(change->catalog.name, sizeof change->catalog.name, "%s", catalog);
    change->base = base;
    TIDE_TRY(tide_read(change->store, read_base, change, err));
    if (change->base == 0)
        change->base = change->catalog.head;
    *out = TIDE_TAKE(change);
    return TIDE_OK;
}

void tide_lake_drop_change(tide_lake_change *change)
{
    if (!change)
        return;
    for (lake_thing *thing = change->things; thing; thing = thing->next) {
        free(thing->was.seen.sql);
        free(thing->columns_were);
    }
    tide_arena_done(&change->memory);
    free(change);
}

void tide_lake_drop_changep(tide_lake_change **change)
{
    tide_lake_drop_change(*change);
    *change = NULL;
}

const tide_lake_catalog *tide_lake_change_catalog(const tide_lake_change *change)
{
    return &change->catalog;
}

int64_t tide_lake_change_base(const tide_lake_change *change)
{
    return change->base;
}

tide_status lake_fail_memory(const tide_lake_change *change, tide_error *err)
{
    const bool is_over = change->memory.used_len * 2 > TIDE_LAKE_CHANGE_BYTES_MAX;
    return tide_fail(err, is_over ? TIDE_E_LIMIT : TIDE_E_NOMEM,
                     is_over ? "too many operations in one change: commit some first"
                             : "no memory for a change");
}

tide_status lake_check_open(const tide_lake_change *change, tide_error *err)
{
    if (change->is_committed)
        return tide_fail(err, TIDE_E_INVALID, "this change is committed: begin another");
    return TIDE_OK;
}

/* ---- ids ---- */

typedef struct id_request {
    tide_lake_counter counter;
    int count;
    int64_t *ids;
} id_request;

static tide_status take_ids(tide_tx *tx, void *arg, tide_error *err)
{
    id_request *request = arg;
    return tide_lake_next_ids(tx, request->counter, request->count, request->ids, err);
}

tide_status lake_take_ids(tide_lake_change *change, tide_lake_counter counter, int count,
                          int64_t *ids, tide_error *err)
{
    id_request request = {.counter = counter, .count = count, .ids = ids};
    return tide_write(change->store, take_ids, &request, err);
}

/* ---- knowing ---- */

static lake_thing *add_thing(tide_lake_change *change)
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
        thing = add_thing(change);
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
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    TIDE_TRY(tide_query_begin(&query, tx, l->sql, err));
    tide_bind_i64(query, "catalog_id", l->change->catalog.catalog_id);
    tide_bind_i64(query, "snapshot", l->change->base);
    if (l->sql == TIDE_LAKE_SQL_LAKE_OBJECT_FIND)
        tide_bind_i64(query, "schema_id", l->schema_id);
    if (l->sql == TIDE_LAKE_SQL_LAKE_TABLE_GET)
        tide_bind_i64(query, "table_id", l->table_id);
    if (l->name)
        tide_bind_text(query, "name", l->name);
    free(l->row.seen.sql);
    l->row.seen.sql = NULL;
    return tide_lake_object_row_find(query, &l->row, err);
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
    const tide_status status = tide_read(change->store, look_up, &l, err);
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
        const tide_status status = tide_read(change->store, look_up, &l, err);
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
    int capacity;
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
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    TIDE_TRY(tide_query_begin(&query, tx, TIDE_LAKE_SQL_LAKE_OBJECT_LIST, err));
    tide_bind_i64(query, "catalog_id", list->change->catalog.catalog_id);
    tide_bind_i64(query, "snapshot", list->change->base);
    tide_bind_i64(query, "schema_id", list->schema_id);
    tide_status status = TIDE_OK;
    while ((status = tide_query_step(query, err)) == TIDE_OK) {
        if (list->count == list->capacity) {
            list->capacity = list->capacity > 0 ? list->capacity * 2 : 16;
            tide_lake_object_row *more =
                realloc(list->rows, (size_t)list->capacity * sizeof *list->rows);
            if (!more)
                return tide_fail(err, TIDE_E_NOMEM, "no memory for a schema's tables");
            list->rows = more;
        }
        TIDE_TRY(tide_lake_object_row_read(query, &list->rows[list->count], err));
        list->count++;
    }
    return status < TIDE_OK ? status : TIDE_OK;
}

tide_status lake_know_all(tide_lake_change *change, lake_thing *schema, tide_error *err)
{
    object_list list = {.change = change, .schema_id = schema->is.seen.id};
    if (!schema->was_there)
        return TIDE_OK;
    tide_status status = tide_read(change->store, list_objects, &list, err);
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

tide_status lake_know_columns(tide_lake_change *change, lake_thing *table, tide_error *err)
{
    if (table->has_columns)
        return TIDE_OK;
    column_request request = {.change = change, .table = table};
    TIDE_TRY(tide_read(change->store, read_columns, &request, err));
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

/* ---- new things ---- */

static void name_paths(tide_lake_change *change, lake_thing *thing)
{
    tide_lake_object_row *row = &thing->is;
    char own[96];
    tide_lake_directory(own, row->seen.name, row->seen.uuid);
    row->is_relative = true;
    if (row->seen.kind == TIDE_LAKE_SCHEMA) {
        char catalog[96];
        tide_lake_directory(catalog, change->catalog.name, change->catalog.uuid);
        (void)snprintf(row->path, sizeof row->path, "%s%s", catalog, own);
        (void)snprintf(row->seen.path, sizeof row->seen.path, "%s", row->path);
    } else {
        (void)snprintf(row->path, sizeof row->path, "%s", own);
        (void)snprintf(row->seen.path, sizeof row->seen.path, "%.900s%s",
                       thing->schema->is.seen.path, own);
    }
}

tide_status lake_new_thing(tide_lake_change *change, tide_lake_kind kind, lake_thing *schema,
                           const char *name, lake_thing **out, tide_error *err)
{
    int64_t id = 0;
    TIDE_TRY(lake_take_ids(change, TIDE_LAKE_OBJECT_IDS, 1, &id, err));
    lake_thing *thing = add_thing(change);
    if (!thing)
        return lake_fail_memory(change, err);
    tide_uuid uuid;
    tide_uuid_v4(tide_store_env(change->store), &uuid);
    tide_lake_object *seen = &thing->is.seen;
    tide_uuid_format(&uuid, seen->uuid);
    seen->kind = kind;
    seen->id = id;
    seen->schema_id = schema ? schema->is.seen.id : id;
    seen->owner_id = change->catalog.catalog_id;
    (void)snprintf(seen->name, sizeof seen->name, "%s", name);
    thing->schema = schema;
    thing->is_there = true;
    thing->has_columns = kind == TIDE_LAKE_TABLE;
    if (kind != TIDE_LAKE_VIEW)
        name_paths(change, thing);
    *out = thing;
    return TIDE_OK;
}
