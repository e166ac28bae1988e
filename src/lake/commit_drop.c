/* commit_drop.c - what a dropped table or view takes along.
 *
 * Others may have inserted into it, or altered it, since the base: that is no conflict, the drop comes behind. So what ends is what lives when the head is
 * locked, and its part of the state's digest is computed there. */
#include "lake/change_parts.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "store/statement.h"
#include "tidemark_lake_sql.h"

typedef struct dropping {
    tide_tx *tx;
    int64_t catalog_id;
    int64_t id;
    tide_lake_digest gone;
    tide_error *err;
} dropping;

static tide_status begin_live(tide_query **query, const dropping *d, const tide_sql *sql)
{
    return tide_query_start(query, d->tx, sql, d->err, tide_bind_i64("catalog_id", d->catalog_id),
                            tide_bind_i64("table_id", d->id));
}

static tide_status drop_row(dropping *d, tide_lake_kind kind)
{
    tide_lake_object_row row = {.seen = {.sql = NULL}};
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    TIDE_TRY(tide_query_start(&query, d->tx,
                              kind == TIDE_LAKE_TABLE ? TIDE_LAKE_SQL_LAKE_TABLE_GET
                                                      : TIDE_LAKE_SQL_LAKE_VIEW_GET,
                              d->err, tide_bind_i64("catalog_id", d->catalog_id),
                              tide_bind_i64("snapshot", INT64_MAX))); /* what has no end */
    tide_query_bind_i64(query, kind == TIDE_LAKE_TABLE ? "table_id" : "view_id", d->id);
    tide_status status = tide_lake_object_row_find(query, &row, d->err);
    if (status == TIDE_OK) {
        tide_lake_digest digest;
        status = tide_lake_object_digest(&row, &digest, d->err);
        tide_lake_digest_add(&d->gone, &digest);
    }
    free(row.seen.sql);
    if (status !=
        TIDE_OK) /* nothing lives: the conflict check has seen to it that somebody's drop is refused */
        return status;
    return lake_end_row(d->tx, d->catalog_id, kind, d->id, 0, row.seen.begin_snapshot,
                        row.seen.owner_id, d->err);
}

static tide_status count_columns(dropping *d)
{
    TIDE_QUERY_BY(query, begin_live, d, TIDE_LAKE_SQL_LAKE_LIVE_COLUMNS);
    TIDE_EACH(tide_query_step(query, d->err)) {
        tide_lake_column_row row = {.seen = {.id = tide_query_col_i64(query)}};
        row.seen.order = tide_query_col_i64(query);
        TIDE_TRY(tide_lake_copy(row.seen.name, sizeof row.seen.name, tide_query_col_text(query),
                                "a name", d->err));
        TIDE_TRY(tide_lake_copy(row.seen.type, sizeof row.seen.type, tide_query_col_text(query),
                                "a type", d->err));
        row.has_initial = !tide_query_col_is_null(query);
        TIDE_TRY(tide_lake_copy(row.seen.initial_default, sizeof row.seen.initial_default,
                                tide_query_col_text(query), "a default", d->err));
        row.has_default = !tide_query_col_is_null(query);
        TIDE_TRY(tide_lake_copy(row.seen.default_value, sizeof row.seen.default_value,
                                tide_query_col_text(query), "a default", d->err));
        row.seen.nulls_allowed = tide_query_col_bool(query);
        tide_lake_digest digest;
        TIDE_TRY(tide_lake_column_digest(d->id, &row, &digest, d->err));
        tide_lake_digest_add(&d->gone, &digest);
    }
    return TIDE_OK;
}

static tide_status count_files(dropping *d, bool is_delete)
{
    TIDE_QUERY_BY(query, begin_live, d,
                  is_delete ? TIDE_LAKE_SQL_LAKE_LIVE_DELETES : TIDE_LAKE_SQL_LAKE_LIVE_FILES);
    TIDE_EACH(tide_query_step(query, d->err)) {
        tide_lake_file_row row = {.id = tide_query_col_i64(query), .table_id = d->id};
        if (is_delete)
            row.data_file_id = tide_query_col_i64(query);
        row.path = tide_query_col_text(query);
        row.is_relative = tide_query_col_bool(query);
        row.records = tide_query_col_i64(query);
        row.bytes = tide_query_col_i64(query);
        row.has_footer = !is_delete && !tide_query_col_is_null(query);
        if (!is_delete)
            row.footer = tide_query_col_i64(query);
        tide_lake_digest digest;
        TIDE_TRY(is_delete ? tide_lake_delete_file_digest(&row, &digest, d->err)
                           : tide_lake_data_file_digest(&row, &digest, d->err));
        tide_lake_digest_add(&d->gone, &digest);
    }
    return TIDE_OK;
}

static tide_status count_partition(dropping *d)
{
    tide_lake_partition row;
    TIDE_TRY(tide_lake_partition_row(d->tx, d->catalog_id, INT64_MAX, d->id, &row, NULL, d->err));
    if (row.id == 0)
        return TIDE_OK;
    tide_lake_digest digest;
    TIDE_TRY(tide_lake_partition_digest(d->id, &row, &digest, d->err));
    tide_lake_digest_add(&d->gone, &digest);
    return TIDE_OK;
}

static tide_status end_by(const dropping *d, const tide_sql *const *statements)
{
    for (; *statements; statements++) {
        TIDE_QUERY_BY(query, begin_live, d, *statements);
        TIDE_TRY(tide_query_defer(&query, d->err));
    }
    return TIDE_OK;
}

/* A table's tags, a view's: stock clients make them, on PostgreSQL. */
static tide_status end_tags(const dropping *d)
{
    static const tide_sql *const statements[] = {
        TIDE_LAKE_SQL_LAKE_DROP_INHERITED_TAGS,
        TIDE_LAKE_SQL_LAKE_DROP_TAGS,
        TIDE_LAKE_SQL_LAKE_DROP_COLUMN_TAGS,
        NULL,
    };
    const bool may_be = tide_store_engine(tide_tx_store(d->tx)) == TIDE_ENGINE_POSTGRES;
    return may_be ? end_by(d, statements) : TIDE_OK;
}

static tide_status end_contents(const dropping *d)
{
    static const tide_sql *const statements[] = {
        TIDE_LAKE_SQL_LAKE_DROP_INHERITED,
        TIDE_LAKE_SQL_LAKE_DROP_COLUMNS,
        TIDE_LAKE_SQL_LAKE_DROP_FILES,
        TIDE_LAKE_SQL_LAKE_DROP_DELETES,
        TIDE_LAKE_SQL_LAKE_DROP_PARTITIONS,
        TIDE_LAKE_SQL_LAKE_DROP_SORTS,
        NULL,
    };
    return end_by(d, statements);
}

static tide_status drop_thing(dropping *d, tide_lake_kind kind)
{
    TIDE_TRY(drop_row(d, kind));
    TIDE_TRY(end_tags(d));
    if (kind == TIDE_LAKE_VIEW)
        return TIDE_OK;
    TIDE_TRY(count_columns(d));
    TIDE_TRY(count_files(d, false));
    TIDE_TRY(count_files(d, true));
    TIDE_TRY(count_partition(d));
    return end_contents(d);
}

tide_status lake_write_drops(tide_tx *tx, const tide_lake_change *change, tide_error *err)
{
    dropping d = {.tx = tx, .catalog_id = change->catalog.catalog_id, .err = err};
    for (const lake_thing *thing = change->things; thing; thing = thing->next) {
        if (!thing->was_there || thing->is_there || thing->is.seen.kind == TIDE_LAKE_SCHEMA)
            continue;
        d.id = thing->is.seen.id;
        TIDE_TRY(drop_thing(&d, thing->is.seen.kind));
    }
    tide_lake_digest less = {{0, 0}};
    tide_lake_digest_subtract(&less, &d.gone);
    return tide_tx_defer(tx, TIDE_LAKE_SQL_LAKE_HEAD_DIGEST, err,
                         tide_bind_i64("catalog_id", d.catalog_id),
                         tide_bind_i64("digest_a", (int64_t)less.sums[0]),
                         tide_bind_i64("digest_b", (int64_t)less.sums[1]));
}
