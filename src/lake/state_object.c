/* state_object.c - schemas, tables, views, columns, partitions as they are at a snapshot. */
#include "lake/state_row.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/list.h"
#include "lake/lake_parts.h"
#include "store/statement.h"
#include "tidemark_lake_sql.h"

/* ---- schemas, tables, views ---- */

tide_status tide_lake_object_row_read(tide_query *query, tide_lake_object_row *out, tide_error *err)
{
    memset(out, 0, sizeof *out);
    tide_lake_object *seen = &out->seen;
    seen->kind = (tide_lake_kind)tide_query_col_i64(query);
    seen->id = tide_query_col_i64(query);
    seen->schema_id = tide_query_col_i64(query);
    seen->owner_id = tide_query_col_i64(query);
    seen->begin_snapshot = tide_query_col_i64(query);
    TIDE_TRY(
        tide_lake_copy(seen->uuid, sizeof seen->uuid, tide_query_col_text(query), "a UUID", err));
    TIDE_TRY(
        tide_lake_copy(seen->name, sizeof seen->name, tide_query_col_text(query), "a name", err));
    TIDE_TRY(
        tide_lake_copy(seen->path, sizeof seen->path, tide_query_col_text(query), "a path", err));
    TIDE_TRY(
        tide_lake_copy(out->path, sizeof out->path, tide_query_col_text(query), "a path", err));
    out->is_relative = tide_query_col_bool(query);
    TIDE_TRY(tide_lake_copy(out->dialect, sizeof out->dialect, tide_query_col_text(query),
                            "a view's dialect", err));
    const tide_view sql = tide_query_col_text(query);
    if (seen->kind != TIDE_LAKE_VIEW)
        return TIDE_OK;
    seen->sql = strndup(sql.ptr, sql.len);
    return seen->sql ? TIDE_OK : tide_no_memory(err);
}

tide_status tide_lake_object_row_find(tide_query *query, tide_lake_object_row *out, tide_error *err)
{
    const tide_status status = tide_query_one(query, err);
    return status == TIDE_OK ? tide_lake_object_row_read(query, out, err) : status;
}

static tide_status begin_at(tide_query **query, tide_tx *tx, const tide_sql *sql,
                            int64_t catalog_id, int64_t snapshot, tide_error *err)
{
    return tide_query_start(query, tx, sql, err, tide_bind_i64("catalog_id", catalog_id),
                            tide_bind_i64("snapshot", snapshot));
}

/* Names that cannot be are not there. */
static bool fold_known(char out[TIDE_LAKE_NAME_MAX + 1], const char *name)
{
    if (strlen(name) > TIDE_LAKE_NAME_MAX)
        return false;
    tide_lake_fold(out, name);
    return true;
}

tide_status tide_lake_find_schema(tide_tx *tx, int64_t catalog_id, int64_t snapshot,
                                  const char *name, tide_lake_object *out, tide_error *err)
{
    char folded[TIDE_LAKE_NAME_MAX + 1];
    if (!fold_known(folded, name))
        return TIDE_NONE;
    tide_lake_object_row row;
    TIDE_QUERY_BY(query, begin_at, tx, TIDE_LAKE_SQL_LAKE_SCHEMA_FIND, catalog_id, snapshot, err);
    tide_query_bind_text(query, "name", folded);
    const tide_status status = tide_lake_object_row_find(query, &row, err);
    if (status == TIDE_OK)
        *out = row.seen;
    return status;
}

tide_status tide_lake_find_object(tide_tx *tx, int64_t catalog_id, int64_t snapshot,
                                  int64_t schema_id, const char *name, tide_lake_object *out,
                                  tide_error *err)
{
    char folded[TIDE_LAKE_NAME_MAX + 1];
    if (!fold_known(folded, name))
        return TIDE_NONE;
    tide_lake_object_row row;
    TIDE_QUERY_BY(query, begin_at, tx, TIDE_LAKE_SQL_LAKE_OBJECT_FIND, catalog_id, snapshot, err);
    tide_query_bind_i64(query, "schema_id", schema_id);
    tide_query_bind_text(query, "name", folded);
    const tide_status status = tide_lake_object_row_find(query, &row, err);
    if (status == TIDE_OK)
        *out = row.seen;
    return status;
}

static tide_status each_object(tide_query *query, tide_lake_object_fn *fn, void *arg,
                               tide_error *err)
{
    TIDE_EACH(tide_query_step(query, err)) {
        tide_lake_object_row row = {.seen = {.sql = NULL}};
        tide_status told = tide_lake_object_row_read(query, &row, err);
        if (told >= TIDE_OK)
            told = fn(arg, &row.seen, err);
        free(row.seen.sql);
        TIDE_TRY(told);
    }
    return TIDE_OK;
}

tide_status tide_lake_each_schema(tide_tx *tx, int64_t catalog_id, int64_t snapshot,
                                  tide_lake_object_fn *fn, void *arg, tide_error *err)
{
    TIDE_QUERY_BY(query, begin_at, tx, TIDE_LAKE_SQL_LAKE_SCHEMA_LIST, catalog_id, snapshot, err);
    return each_object(query, fn, arg, err);
}

tide_status tide_lake_each_object(tide_tx *tx, int64_t catalog_id, int64_t snapshot,
                                  int64_t schema_id, tide_lake_object_fn *fn, void *arg,
                                  tide_error *err)
{
    TIDE_QUERY_BY(query, begin_at, tx, TIDE_LAKE_SQL_LAKE_OBJECT_LIST, catalog_id, snapshot, err);
    tide_query_bind_i64(query, "schema_id", schema_id);
    return each_object(query, fn, arg, err);
}

/* ---- columns ---- */

static tide_status read_column(tide_query *query, tide_lake_column_row *out, tide_error *err)
{
    memset(out, 0, sizeof *out);
    tide_lake_column *seen = &out->seen;
    seen->id = tide_query_col_i64(query);
    seen->begin_snapshot = tide_query_col_i64(query);
    out->owner_id = tide_query_col_i64(query);
    seen->order = tide_query_col_i64(query);
    TIDE_TRY(tide_lake_copy(seen->name, sizeof seen->name, tide_query_col_text(query),
                            "a column's name", err));
    TIDE_TRY(tide_lake_copy(seen->type, sizeof seen->type, tide_query_col_text(query),
                            "a column's type", err));
    out->has_initial = !tide_query_col_is_null(query);
    const tide_view initial = tide_query_col_text(query);
    out->has_default = !tide_query_col_is_null(query);
    const tide_view value = tide_query_col_text(query);
    seen->nulls_allowed = tide_query_col_bool(query);
    TIDE_TRY(tide_lake_copy(seen->initial_default, sizeof seen->initial_default,
                            out->has_initial ? initial : tide_view_of("NULL"), "a default", err));
    return tide_lake_copy(seen->default_value, sizeof seen->default_value,
                          out->has_default ? value : tide_view_of("NULL"), "a default", err);
}

tide_status tide_lake_column_rows(tide_tx *tx, int64_t catalog_id, int64_t snapshot,
                                  int64_t table_id, tide_lake_column_row **out, int *count,
                                  tide_error *err)
{
    TIDE_QUERY_BY(query, begin_at, tx, TIDE_LAKE_SQL_LAKE_COLUMN_LIST, catalog_id, snapshot, err);
    tide_query_bind_i64(query, "table_id", table_id);
    TIDE_CLEANUP(tide_freep) tide_lake_column_row *rows = NULL;
    int used = 0;
    TIDE_EACH(tide_query_step(query, err)) {
        TIDE_TRY(tide_list_room(&rows, used, sizeof *rows, TIDE_LIST_MAX, err));
        TIDE_TRY(read_column(query, &rows[used++], err));
    }
    *out = TIDE_TAKE(rows);
    *count = used;
    return TIDE_OK;
}

tide_status tide_lake_read_columns(tide_tx *tx, int64_t catalog_id, int64_t snapshot,
                                   int64_t table_id, tide_lake_column **out, int *count,
                                   tide_error *err)
{
    TIDE_CLEANUP(tide_freep) tide_lake_column_row *rows = NULL;
    TIDE_TRY(tide_lake_column_rows(tx, catalog_id, snapshot, table_id, &rows, count, err));
    tide_lake_column *columns = calloc((size_t)*count + 1, sizeof *columns);
    TIDE_NEED_MEMORY(columns, err);
    assert(rows || *count == 0);
    for (int i = 0; i < *count; i++)
        columns[i] = rows[i].seen;
    *out = columns;
    return TIDE_OK;
}

/* ---- partitions ---- */

tide_status tide_lake_partition_row(tide_tx *tx, int64_t catalog_id, int64_t snapshot,
                                    int64_t table_id, tide_lake_partition *out, int64_t *owner_id,
                                    tide_error *err)
{
    memset(out, 0, sizeof *out);
    TIDE_QUERY_BY(query, begin_at, tx, TIDE_LAKE_SQL_LAKE_PARTITION_GET, catalog_id, snapshot, err);
    tide_query_bind_i64(query, "table_id", table_id);
    TIDE_EACH(tide_query_step(query, err)) {
        out->id = tide_query_col_i64(query);
        out->begin_snapshot = tide_query_col_i64(query);
        const int64_t owner = tide_query_col_i64(query);
        if (owner_id)
            *owner_id = owner;
        if (tide_query_col_is_null(query))
            continue;
        if (out->count == TIDE_LAKE_PARTITION_KEYS_MAX)
            return tide_fail(err, TIDE_E_LIMIT,
                             "a table is partitioned by more than %d keys: use a stock DuckLake "
                             "client for it",
                             TIDE_LAKE_PARTITION_KEYS_MAX);
        tide_lake_partition_key *key = &out->keys[out->count++];
        key->column_id = tide_query_col_i64(query);
        TIDE_TRY(tide_lake_copy(key->transform, sizeof key->transform, tide_query_col_text(query),
                                "a partition's transform", err));
    }
    return TIDE_OK;
}

tide_status tide_lake_read_partition(tide_tx *tx, int64_t catalog_id, int64_t snapshot,
                                     int64_t table_id, tide_lake_partition *out, tide_error *err)
{
    return tide_lake_partition_row(tx, catalog_id, snapshot, table_id, out, NULL, err);
}
