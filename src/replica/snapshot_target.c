/* snapshot_target.c - a table of a snapshot and the table of that name here: which column is which. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "replica/snapshot_parts.h"

static int find_column(const tide_table *table, const char *name)
{
    for (int i = 0; i < table->column_count; i++)
        if (strcmp(table->columns[i].name, name) == 0)
            return i;
    return -1;
}

static tide_status map_columns(tide_snapshot_target *out, const tide_snapshot_table *from,
                               tide_error *err)
{
    const tide_table *table = out->table;
    out->is_same = table->schema == from->schema && table->column_count == from->column_count;
    TIDE_ALLOC(out->map, (size_t)from->column_count + 1, err);
    for (int i = 0; i < from->column_count; i++) {
        out->map[i] = find_column(table, from->columns[i]);
        if (out->map[i] < 0)
            return tide_fail(err, TIDE_E_CONFLICT,
                             "table %s has no column %s here, but in the snapshot: add it first",
                             from->name, from->columns[i]);
        out->is_same = out->is_same && out->map[i] == i;
    }
    return TIDE_OK;
}

static bool is_mapped(const tide_snapshot_target *target, const tide_snapshot_table *from,
                      int column)
{
    for (int i = 0; i < from->column_count; i++)
        if (target->map[i] == column)
            return true;
    return false;
}

/* A row that was created where a column was not known has that column's default, as if its events had come (quarantine.c, add_defaults). */
static tide_status take_defaults(tide_snapshot_target *out, tide_desk *desk,
                                 const tide_snapshot_table *from, tide_error *err)
{
    const tide_table *table = out->table;
    TIDE_CLEANUP(tide_foreign_endp) tide_foreign_query *query = NULL;
    if (table->column_count == from->column_count)
        return TIDE_OK;
    out->defaults = (const tide_sql_value **)calloc((size_t)table->column_count, sizeof(void *));
    TIDE_NEED_MEMORY(out->defaults, err);
    TIDE_TRY(tide_table_query(&query, desk->tx, table, TIDE_TABLE_DEFAULTS, err));
    TIDE_TRY(tide_foreign_step(query, err));
    for (int i = 0; i < table->column_count; i++) {
        const tide_sql_value value = tide_foreign_col(query);
        if (is_mapped(out, from, i))
            continue;
        tide_sql_value *own = tide_arena_alloc(&desk->arena, sizeof *own);
        TIDE_NEED_MEMORY(own, err);
        TIDE_TRY(tide_desk_keep(own, desk, &value, err));
        out->defaults[i] = own;
    }
    return TIDE_OK;
}

tide_status tide_snapshot_target_init(tide_snapshot_target *out, tide_desk *desk,
                                      const tide_snapshot_table *from, tide_error *err)
{
    const tide_table *table = tide_desk_table(desk, from->name);
    if (!table)
        return tide_fail(err, TIDE_E_CONFLICT,
                         "table %s is here and not tracked: 'tidemark replica track' it first",
                         from->name);
    out->table = table;
    TIDE_TRY(map_columns(out, from, err));
    bool is_key_same = table->key_count == from->key_count;
    for (int i = 0; is_key_same && i < from->key_count; i++)
        is_key_same = out->map[from->key[i]] == table->key[i];
    if (!is_key_same)
        return tide_fail(err, TIDE_E_CONFLICT, "table %s has another key here than in the snapshot",
                         from->name);
    return take_defaults(out, desk, from, err);
}

void tide_snapshot_target_done(tide_snapshot_target *target)
{
    free(target->map);
    free((void *)target->defaults);
    *target = (tide_snapshot_target){.table = NULL};
}

const tide_sql_value *tide_snapshot_target_default(const tide_snapshot_target *target, int column)
{
    return target->defaults ? target->defaults[column] : NULL;
}
