/* change_ddl.c - operations on schemas, tables and views as a whole. */
#include "lake/change_parts.h"

#include <stdio.h>
#include <string.h>

#include "base/text/utf8.h"
#include "lake/types.h"

enum { VIEW_SQL_MAX = 1 << 20 };

/* ---- schemas ---- */

tide_status tide_lake_create_schema(tide_lake_change *change, const char *schema, tide_error *err)
{
    lake_thing *there = NULL;
    TIDE_TRY(lake_check_open(change, err));
    TIDE_TRY(tide_lake_check_name(schema, "schema", err));
    const tide_status status = lake_find_schema_thing(change, schema, &there, err);
    TIDE_TRY(status);
    if (status == TIDE_OK)
        return tide_fail(err, TIDE_E_EXISTS,
                         "catalog %s has a schema '%.100s' already: choose another name",
                         change->catalog.name, there->is.seen.name);
    return lake_new_thing(change, TIDE_LAKE_SCHEMA, NULL, schema, &there, err);
}

tide_status tide_lake_drop_schema(tide_lake_change *change, const char *schema, bool cascade,
                                  tide_error *err)
{
    lake_thing *dropped = NULL;
    TIDE_TRY(lake_check_open(change, err));
    TIDE_TRY(lake_need_schema(change, schema, &dropped, err));
    TIDE_TRY(lake_know_all(change, dropped, err));
    const char *first = NULL;
    int count = 0;
    for (const lake_thing *thing = change->things; thing; thing = thing->next) {
        if (thing->is.seen.kind != TIDE_LAKE_SCHEMA && thing->is_there &&
            thing->is.seen.schema_id == dropped->is.seen.id) {
            first = thing->is.seen.name;
            count++;
        }
    }
    if (first && !cascade)
        return tide_fail(
            err, TIDE_E_CONFLICT,
            "schema %s.%.100s holds %d table%s or views ('%.100s'): drop them first, or "
            "give --cascade",
            change->catalog.name, schema, count, count == 1 ? "" : "s", first);
    for (lake_thing *thing = change->things; thing; thing = thing->next)
        if (thing->is.seen.kind != TIDE_LAKE_SCHEMA &&
            thing->is.seen.schema_id == dropped->is.seen.id)
            thing->is_there = false;
    dropped->is_there = false;
    return TIDE_OK;
}

/* ---- names within a schema ---- */

/* The schema in which a new name is free. */
static tide_status find_room(tide_lake_change *change, const char *schema, const char *name,
                             const char *what, lake_thing **out, tide_error *err)
{
    lake_thing *there = NULL;
    TIDE_TRY(lake_check_open(change, err));
    TIDE_TRY(tide_lake_check_name(name, what, err));
    TIDE_TRY(lake_need_schema(change, schema, out, err));
    const tide_status status = lake_find_thing(change, *out, name, &there, err);
    TIDE_TRY(status);
    if (status == TIDE_OK)
        return tide_fail(
            err, TIDE_E_EXISTS, "%s.%.100s has a %s '%.100s' already: choose another name",
            change->catalog.name, schema, there->is.seen.kind == TIDE_LAKE_TABLE ? "table" : "view",
            there->is.seen.name);
    return TIDE_OK;
}

/* ---- tables ---- */

static tide_status check_columns(const tide_lake_column_def *columns, int count, tide_error *err)
{
    char type[256];
    if (count < 1 || count > TIDE_LAKE_COLUMN_MAX)
        return tide_fail(err, TIDE_E_INVALID, "a table has 1 to %d columns, not %d",
                         TIDE_LAKE_COLUMN_MAX, count);
    for (int i = 0; i < count; i++) {
        TIDE_TRY(tide_lake_check_name(columns[i].name, "column", err));
        if (tide_lake_type_duckdb(type, columns[i].type, NULL) != TIDE_OK)
            return tide_fail(err, TIDE_E_INVALID, "column %s: '%.60s' is not a type of DuckLake's",
                             columns[i].name, columns[i].type);
        if (columns[i].default_value && strlen(columns[i].default_value) >= TIDE_LAKE_TEXT_SIZE)
            return tide_fail(err, TIDE_E_INVALID,
                             "column %s: its default has more than %d bytes: choose a shorter one",
                             columns[i].name, TIDE_LAKE_TEXT_SIZE - 1);
        for (int j = 0; j < i; j++)
            if (tide_lake_same_name(columns[i].name, columns[j].name))
                return tide_fail(err, TIDE_E_INVALID,
                                 "two columns are called %s: give one another name",
                                 columns[i].name);
    }
    return TIDE_OK;
}

static void fill_column(tide_lake_column_row *row, const tide_lake_column_def *def, int64_t id,
                        int order, int64_t owner_id)
{
    memset(row, 0, sizeof *row);
    tide_lake_column *seen = &row->seen;
    seen->id = id;
    seen->order = order;
    seen->nulls_allowed = !def->is_not_null;
    row->owner_id = owner_id;
    row->has_default = true;
    (void)snprintf(seen->name, sizeof seen->name, "%s", def->name);
    (void)snprintf(seen->type, sizeof seen->type, "%s", def->type);
    (void)snprintf(seen->initial_default, sizeof seen->initial_default, "NULL");
    (void)snprintf(seen->default_value, sizeof seen->default_value, "%s",
                   def->default_value ? def->default_value : "NULL");
}

tide_status tide_lake_create_table(tide_lake_change *change, const char *schema, const char *table,
                                   const tide_lake_column_def *columns, int count, tide_error *err)
{
    lake_thing *in = NULL;
    lake_thing *made = NULL;
    TIDE_TRY(find_room(change, schema, table, "table", &in, err));
    TIDE_TRY(check_columns(columns, count, err));
    tide_lake_column_row *rows =
        tide_arena_alloc(&change->memory, (size_t)count * sizeof *made->columns);
    int64_t *ids = tide_arena_alloc(&change->memory, (size_t)count * sizeof *ids);
    if (!rows || !ids)
        return lake_fail_memory(change, err);
    TIDE_TRY(tide_lake_spend_ids(change->lake, TIDE_LAKE_COLUMN_IDS, 0, count, ids, err));
    TIDE_TRY(lake_new_thing(change, TIDE_LAKE_TABLE, in, table, &made, err));
    for (int i = 0; i < count; i++)
        fill_column(&rows[i], &columns[i], ids[i], i, change->catalog.catalog_id);
    made->columns = rows;
    made->column_count = count;
    return TIDE_OK;
}

tide_status tide_lake_drop_table(tide_lake_change *change, const char *schema, const char *table,
                                 tide_error *err)
{
    lake_thing *dropped = NULL;
    TIDE_TRY(lake_need_table(change, schema, table, &dropped, err));
    dropped->is_there = false;
    return TIDE_OK;
}

tide_status tide_lake_rename_table(tide_lake_change *change, const char *schema, const char *table,
                                   const char *new_name, tide_error *err)
{
    lake_thing *in = NULL;
    lake_thing *renamed = NULL;
    TIDE_TRY(lake_need_table(change, schema, table, &renamed, err));
    if (!tide_lake_same_name(renamed->is.seen.name, new_name))
        TIDE_TRY(find_room(change, schema, new_name, "table", &in, err));
    TIDE_TRY(tide_lake_check_name(new_name, "table", err));
    (void)snprintf(renamed->is.seen.name, sizeof renamed->is.seen.name, "%s", new_name);
    return TIDE_OK;
}

/* ---- views ---- */

static tide_status check_view(const char *sql, tide_error *err)
{
    const tide_view text = tide_view_of(sql);
    if (text.len == 0 || text.len > VIEW_SQL_MAX || !tide_utf8_valid(text))
        return tide_fail(err, TIDE_E_INVALID, "a view is a SELECT of 1 to %d bytes of UTF-8",
                         VIEW_SQL_MAX);
    return TIDE_OK;
}

tide_status tide_lake_create_view(tide_lake_change *change, const char *schema, const char *view,
                                  const char *sql, tide_error *err)
{
    lake_thing *in = NULL;
    lake_thing *made = NULL;
    TIDE_TRY(find_room(change, schema, view, "view", &in, err));
    TIDE_TRY(check_view(sql, err));
    char *text = tide_arena_text(&change->memory, tide_view_of(sql));
    if (!text)
        return lake_fail_memory(change, err);
    TIDE_TRY(lake_new_thing(change, TIDE_LAKE_VIEW, in, view, &made, err));
    made->is.seen.sql = text;
    (void)snprintf(made->is.dialect, sizeof made->is.dialect, "duckdb");
    return TIDE_OK;
}

tide_status tide_lake_alter_view(tide_lake_change *change, const char *schema, const char *view,
                                 const char *sql, tide_error *err)
{
    lake_thing *altered = NULL;
    TIDE_TRY(lake_need_view(change, schema, view, &altered, err));
    TIDE_TRY(check_view(sql, err));
    char *text = tide_arena_text(&change->memory, tide_view_of(sql));
    if (!text)
        return lake_fail_memory(change, err);
    altered->is.seen.sql = text;
    return TIDE_OK;
}

tide_status tide_lake_drop_view(tide_lake_change *change, const char *schema, const char *view,
                                tide_error *err)
{
    lake_thing *dropped = NULL;
    TIDE_TRY(lake_need_view(change, schema, view, &dropped, err));
    dropped->is_there = false;
    return TIDE_OK;
}
