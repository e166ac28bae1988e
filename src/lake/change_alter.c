/* change_alter.c - operations on a table's columns and its partition. */
#include "lake/change_parts.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lake/types.h"

static tide_status find_column(tide_lake_change *change, const char *schema, const char *table,
                               const char *column, lake_thing **owner, tide_lake_column_row **out,
                               tide_error *err)
{
    TIDE_TRY(lake_need_table(change, schema, table, owner, err));
    TIDE_TRY(lake_know_columns(change, *owner, err));
    for (int i = 0; i < (*owner)->column_count; i++) {
        if (tide_lake_same_name((*owner)->columns[i].seen.name, column)) {
            *out = &(*owner)->columns[i];
            return TIDE_OK;
        }
    }
    return tide_fail(err, TIDE_E_NOT_FOUND, "%s.%.100s.%.100s has no column '%.100s'",
                     change->catalog.name, schema, table, column);
}

static tide_status check_free(const lake_thing *table, const char *name, tide_error *err)
{
    TIDE_TRY(tide_lake_check_name(name, "column", err));
    for (int i = 0; i < table->column_count; i++)
        if (tide_lake_same_name(table->columns[i].seen.name, name))
            return tide_fail(err, TIDE_E_EXISTS,
                             "table %s has a column '%.100s' already: choose another name",
                             table->is.seen.name, table->columns[i].seen.name);
    return TIDE_OK;
}

static tide_status check_added(const lake_thing *table, const tide_lake_column_def *column,
                               tide_error *err)
{
    char type[256];
    TIDE_TRY(check_free(table, column->name, err));
    if (tide_lake_type_duckdb(type, column->type, NULL) != TIDE_OK)
        return tide_fail(err, TIDE_E_INVALID, "column %s: '%.60s' is not a type of DuckLake's",
                         column->name, column->type);
    if (table->column_count == TIDE_LAKE_COLUMN_MAX)
        return tide_fail(err, TIDE_E_LIMIT, "table %s has %d columns already: make another table",
                         table->is.seen.name, TIDE_LAKE_COLUMN_MAX);
    if (column->is_not_null && !column->default_value && table->was_there)
        return tide_fail(err, TIDE_E_INVALID,
                         "column %s may not be NULL, and the rows that are there have no value of "
                         "it: give a DEFAULT",
                         column->name);
    if (column->default_value && strlen(column->default_value) >= TIDE_LAKE_TEXT_SIZE)
        return tide_fail(err, TIDE_E_INVALID,
                         "column %s: its default has more than %d bytes: choose a shorter one",
                         column->name, TIDE_LAKE_TEXT_SIZE - 1);
    return TIDE_OK;
}

tide_status tide_lake_add_column(tide_lake_change *change, const char *schema, const char *table,
                                 const tide_lake_column_def *column, tide_error *err)
{
    lake_thing *owner = NULL;
    TIDE_TRY(lake_need_table(change, schema, table, &owner, err));
    TIDE_TRY(lake_know_columns(change, owner, err));
    TIDE_TRY(check_added(owner, column, err));
    int64_t id = 0;
    int64_t order = 0;
    TIDE_TRY(
        tide_lake_spend_ids(change->lake, TIDE_LAKE_COLUMN_IDS, owner->is.seen.id, 1, &id, err));
    const size_t count = (size_t)owner->column_count;
    tide_lake_column_row *rows =
        tide_arena_alloc(&change->memory, (count + 1) * sizeof *owner->columns);
    if (!rows)
        return lake_fail_memory(change, err);
    for (size_t i = 0; i < count; i++) {
        rows[i] = owner->columns[i];
        order = rows[i].seen.order >= order ? rows[i].seen.order + 1 : order;
    }
    tide_lake_column_row *row = &rows[count];
    *row = (tide_lake_column_row){
        .owner_id = change->catalog.catalog_id,
        .has_initial = column->default_value != NULL,
        .has_default = true,
        .seen = {.id = id, .order = order, .nulls_allowed = !column->is_not_null}};
    const char *value = column->default_value ? column->default_value : "NULL";
    (void)snprintf(row->seen.name, sizeof row->seen.name, "%s", column->name);
    (void)snprintf(row->seen.type, sizeof row->seen.type, "%s", column->type);
    (void)snprintf(row->seen.initial_default, sizeof row->seen.initial_default, "%s", value);
    (void)snprintf(row->seen.default_value, sizeof row->seen.default_value, "%s", value);
    owner->columns = rows;
    owner->column_count++;
    return TIDE_OK;
}

tide_status tide_lake_drop_column(tide_lake_change *change, const char *schema, const char *table,
                                  const char *column, tide_error *err)
{
    lake_thing *owner = NULL;
    tide_lake_column_row *row = NULL;
    TIDE_TRY(find_column(change, schema, table, column, &owner, &row, err));
    assert(owner && row);
    if (owner->column_count == 1)
        return tide_fail(err, TIDE_E_INVALID,
                         "'%s' is the only column of %s: drop the table instead", row->seen.name,
                         owner->is.seen.name);
    for (int i = 0; i < owner->partition.count; i++)
        if (owner->partition.keys[i].column_id == row->seen.id)
            return tide_fail(err, TIDE_E_INVALID,
                             "%s is partitioned by '%s': change its partition first",
                             owner->is.seen.name, row->seen.name);
    const ptrdiff_t at = row - owner->columns;
    memmove(row, row + 1, (size_t)(owner->column_count - at - 1) * sizeof *row);
    owner->column_count--;
    return TIDE_OK;
}

tide_status tide_lake_rename_column(tide_lake_change *change, const char *schema, const char *table,
                                    const char *column, const char *new_name, tide_error *err)
{
    lake_thing *owner = NULL;
    tide_lake_column_row *row = NULL;
    TIDE_TRY(find_column(change, schema, table, column, &owner, &row, err));
    assert(owner && row);
    if (!tide_lake_same_name(row->seen.name, new_name))
        TIDE_TRY(check_free(owner, new_name, err));
    TIDE_TRY(tide_lake_check_name(new_name, "column", err));
    (void)snprintf(row->seen.name, sizeof row->seen.name, "%s", new_name);
    return TIDE_OK;
}

tide_status tide_lake_widen_column(tide_lake_change *change, const char *schema, const char *table,
                                   const char *column, const char *type, tide_error *err)
{
    lake_thing *owner = NULL;
    tide_lake_column_row *row = NULL;
    TIDE_TRY(find_column(change, schema, table, column, &owner, &row, err));
    assert(owner && row);
    if (strcmp(row->seen.type, type) == 0)
        return TIDE_OK;
    if (!tide_lake_type_widens(row->seen.type, type))
        return tide_fail(
            err, TIDE_E_INVALID,
            "column %s is %s and cannot become %.60s: only wider types of its kind are "
            "possible (int32 to int64, float32 to float64, ...); add a column instead",
            row->seen.name, row->seen.type, type);
    (void)snprintf(row->seen.type, sizeof row->seen.type, "%s", type);
    return TIDE_OK;
}

/* ---- partitions ---- */

static bool is_time_type(const char *type, bool with_hours)
{
    return strncmp(type, "timestamp", 9) == 0 || (!with_hours && strcmp(type, "date") == 0);
}

/* bucket(n) */
static bool is_bucket_transform(const char *transform)
{
    static const char word[] = "bucket(";
    char *end = NULL;
    if (strncmp(transform, word, sizeof word - 1) != 0)
        return false;
    const long count = strtol(transform + sizeof word - 1, &end, 10);
    return count >= 1 && count <= INT32_MAX && strcmp(end, ")") == 0;
}

static tide_status check_transform(const tide_lake_column *column, const char *transform,
                                   tide_error *err)
{
    const bool is_date = strcmp(transform, "year") == 0 || strcmp(transform, "month") == 0 ||
                         strcmp(transform, "day") == 0;
    const bool is_hour = strcmp(transform, "hour") == 0;
    const bool is_bucket = is_bucket_transform(transform);
    if (strcmp(transform, "identity") != 0 && !is_date && !is_hour && !is_bucket)
        return tide_fail(
            err, TIDE_E_INVALID,
            "'%.40s' does not partition anything: use identity, year, month, day, hour "
            "or bucket(n)",
            transform);
    if ((is_date || is_hour) && !is_time_type(column->type, is_hour))
        return tide_fail(err, TIDE_E_INVALID, "column %s is %s: it has no %s to partition by",
                         column->name, column->type, transform);
    return TIDE_OK;
}

tide_status tide_lake_partition_table(tide_lake_change *change, const char *schema,
                                      const char *table, const char *const *columns,
                                      const char *const *transforms, int count, tide_error *err)
{
    lake_thing *owner = NULL;
    TIDE_TRY(lake_need_table(change, schema, table, &owner, err));
    TIDE_TRY(lake_know_columns(change, owner, err));
    if (count < 0 || count > TIDE_LAKE_PARTITION_KEYS_MAX)
        return tide_fail(err, TIDE_E_INVALID, "a table is partitioned by 0 to %d keys, not %d",
                         TIDE_LAKE_PARTITION_KEYS_MAX, count);
    tide_lake_partition wanted = {.count = count};
    for (int i = 0; i < count; i++) {
        tide_lake_column_row *row = NULL;
        TIDE_TRY(find_column(change, schema, table, columns[i], &owner, &row, err));
        assert(row && transforms[i]);
        TIDE_TRY(check_transform(&row->seen, transforms[i], err));
        wanted.keys[i].column_id = row->seen.id;
        (void)snprintf(wanted.keys[i].transform, sizeof wanted.keys[i].transform, "%s",
                       transforms[i]);
    }
    if (count > 0)
        TIDE_TRY(tide_lake_spend_ids(change->lake, TIDE_LAKE_PARTITION_IDS, 0, 1, &wanted.id, err));
    owner->partition = wanted;
    return TIDE_OK;
}
