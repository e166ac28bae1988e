/* commit_rows.c - rows that begin and end with a commit. All of it is deferred: it runs behind the head's lock, where lake_head has the number. */
#include "lake/change_parts.h"

#include <string.h>

#include "base/cleanup.h"
#include "store/statement.h"
#include "tidemark_lake_sql.h"

/* ---- ends ---- */

static const tide_sql *end_statement(tide_lake_kind kind)
{
    switch (kind) {
    case TIDE_LAKE_SCHEMA:
        return TIDE_LAKE_SQL_LAKE_END_SCHEMA;
    case TIDE_LAKE_TABLE:
        return TIDE_LAKE_SQL_LAKE_END_TABLE;
    case TIDE_LAKE_VIEW:
        return TIDE_LAKE_SQL_LAKE_END_VIEW;
    case TIDE_LAKE_COLUMN:
        return TIDE_LAKE_SQL_LAKE_END_COLUMN;
    case TIDE_LAKE_DATA_FILE:
        return TIDE_LAKE_SQL_LAKE_END_DATA_FILE;
    case TIDE_LAKE_DELETE_FILE_KIND:
        return TIDE_LAKE_SQL_LAKE_END_DELETE_FILE;
    case TIDE_LAKE_PARTITION:
        break;
    }
    return TIDE_LAKE_SQL_LAKE_END_PARTITION;
}

/* An own row in place; an ancestor's beside it, for this catalog alone. */
tide_status lake_end_row(tide_tx *tx, int64_t catalog_id, tide_lake_kind kind, int64_t id,
                         int64_t sub_id, int64_t begin, int64_t owner_id, tide_error *err)
{
    const bool is_own = owner_id == catalog_id;
    return tide_tx_defer(
        tx, is_own ? end_statement(kind) : TIDE_LAKE_SQL_LAKE_END_INHERITED, err,
        tide_bind_i64("catalog_id", catalog_id), tide_bind_i64("id", id),
        tide_bind_i64("begin", begin), TIDE_BIND_IF(!is_own, tide_bind_i64("kind", kind)),
        TIDE_BIND_IF(!is_own || kind == TIDE_LAKE_COLUMN, tide_bind_i64("sub_id", sub_id)));
}

/* ---- schemas, tables, views ---- */

tide_status lake_add_object(tide_tx *tx, int64_t catalog_id, const tide_lake_object_row *row,
                            tide_error *err)
{
    const tide_lake_object *seen = &row->seen;
    const tide_sql *sql = seen->kind == TIDE_LAKE_SCHEMA  ? TIDE_LAKE_SQL_LAKE_ADD_SCHEMA
                          : seen->kind == TIDE_LAKE_TABLE ? TIDE_LAKE_SQL_LAKE_ADD_TABLE
                                                          : TIDE_LAKE_SQL_LAKE_ADD_VIEW;
    TIDE_QUERY(
        query, tx, sql, err, tide_bind_i64("catalog_id", catalog_id), tide_bind_i64("id", seen->id),
        tide_bind_text("uuid", seen->uuid), tide_bind_text("name", seen->name),
        TIDE_BIND_IF(seen->kind != TIDE_LAKE_SCHEMA, tide_bind_i64("schema_id", seen->schema_id)));
    if (seen->kind == TIDE_LAKE_VIEW) {
        tide_query_bind_text(query, "dialect", row->dialect);
        tide_query_bind_text(query, "sql", seen->sql);
    } else {
        tide_query_bind_text(query, "path", row->path);
        tide_query_bind_bool(query, "is_relative", row->is_relative);
    }
    return tide_query_defer(&query, err);
}

static tide_status add_column(tide_tx *tx, int64_t catalog_id, int64_t table_id,
                              const tide_lake_column_row *row, tide_error *err)
{
    return tide_tx_defer(
        tx, TIDE_LAKE_SQL_LAKE_ADD_COLUMN, err, tide_bind_i64("catalog_id", catalog_id),
        tide_bind_i64("table_id", table_id), tide_bind_i64("id", row->seen.id),
        tide_bind_i64("order", row->seen.order), tide_bind_text("name", row->seen.name),
        tide_bind_text("type", row->seen.type),
        tide_bind_text("initial_default", row->has_initial ? row->seen.initial_default : NULL),
        tide_bind_text("default_value", row->has_default ? row->seen.default_value : NULL),
        tide_bind_bool("nulls_allowed", row->seen.nulls_allowed));
}

static tide_status add_partition(tide_tx *tx, int64_t catalog_id, int64_t table_id,
                                 const tide_lake_partition *partition, tide_error *err)
{
    TIDE_QUERY(query, tx, TIDE_LAKE_SQL_LAKE_ADD_PARTITION, err,
               tide_bind_i64("catalog_id", catalog_id), tide_bind_i64("table_id", table_id),
               tide_bind_i64("id", partition->id));
    TIDE_TRY(tide_query_defer(&query, err));
    for (int i = 0; i < partition->count; i++) {
        TIDE_TRY(tide_query_start(&query, tx, TIDE_LAKE_SQL_LAKE_ADD_PARTITION_KEY, err,
                                  tide_bind_i64("catalog_id", catalog_id),
                                  tide_bind_i64("table_id", table_id),
                                  tide_bind_i64("id", partition->id), tide_bind_i64("index", i),
                                  tide_bind_i64("column_id", partition->keys[i].column_id),
                                  tide_bind_text("transform", partition->keys[i].transform)));
        TIDE_TRY(tide_query_defer(&query, err));
    }
    return TIDE_OK;
}

static tide_status write_columns(tide_tx *tx, int64_t catalog_id, const lake_thing *table,
                                 tide_error *err)
{
    const int64_t id = table->is.seen.id;
    for (int i = 0; i < table->columns_were_count; i++) {
        const tide_lake_column_row *was = &table->columns_were[i];
        const tide_lake_column_row *is =
            lake_column_of(table->columns, table->column_count, was->seen.id);
        if (!is || lake_column_changed(was, is))
            TIDE_TRY(lake_end_row(tx, catalog_id, TIDE_LAKE_COLUMN, id, was->seen.id,
                                  was->seen.begin_snapshot, was->owner_id, err));
    }
    for (int i = 0; i < table->column_count; i++) {
        const tide_lake_column_row *is = &table->columns[i];
        const tide_lake_column_row *was =
            lake_column_of(table->columns_were, table->columns_were_count, is->seen.id);
        if (!was || lake_column_changed(was, is))
            TIDE_TRY(add_column(tx, catalog_id, id, is, err));
    }
    if (table->partition_was.id == table->partition.id)
        return TIDE_OK;
    if (table->partition_was.id > 0)
        TIDE_TRY(lake_end_row(tx, catalog_id, TIDE_LAKE_PARTITION, table->partition_was.id, 0,
                              table->partition_was.begin_snapshot, table->partition_owner_id, err));
    return table->partition.id > 0 ? add_partition(tx, catalog_id, id, &table->partition, err)
                                   : TIDE_OK;
}

static tide_status add_schema_version(tide_tx *tx, int64_t catalog_id, int64_t table_id,
                                      tide_error *err)
{
    return tide_tx_defer(tx, TIDE_LAKE_SQL_LAKE_ADD_SCHEMA_VERSION, err,
                         tide_bind_i64("catalog_id", catalog_id),
                         tide_bind_i64("table_id", table_id));
}

static bool is_row_changed(const lake_thing *thing)
{
    return lake_thing_renamed(thing) ||
           (thing->is.seen.kind == TIDE_LAKE_VIEW && thing->was_there && thing->is_there &&
            strcmp(thing->was.seen.sql, thing->is.seen.sql) != 0);
}

/* Dropped tables and views: commit_drop.c. */
static tide_status end_thing(tide_tx *tx, int64_t catalog_id, const lake_thing *thing,
                             tide_error *err)
{
    const tide_lake_object *was = &thing->was.seen;
    const bool is_schema_gone =
        was->kind == TIDE_LAKE_SCHEMA && thing->was_there && !thing->is_there;
    if (is_schema_gone || is_row_changed(thing))
        TIDE_TRY(lake_end_row(tx, catalog_id, was->kind, was->id, 0, was->begin_snapshot,
                              was->owner_id, err));
    return TIDE_OK;
}

static tide_status begin_thing(tide_tx *tx, int64_t catalog_id, const lake_thing *thing,
                               tide_error *err)
{
    if (!thing->is_there)
        return TIDE_OK;
    const bool is_begun = is_row_changed(thing) || !thing->was_there;
    if (is_begun)
        TIDE_TRY(lake_add_object(tx, catalog_id, &thing->is, err));
    if (thing->has_columns)
        TIDE_TRY(write_columns(tx, catalog_id, thing, err));
    if (thing->is.seen.kind == TIDE_LAKE_TABLE && (is_begun || lake_table_altered(thing)))
        TIDE_TRY(add_schema_version(tx, catalog_id, thing->is.seen.id, err));
    return TIDE_OK;
}

/* What ends comes first: its name may be somebody else's from here on. */
tide_status lake_write_things(tide_tx *tx, const tide_lake_change *change, tide_error *err)
{
    const int64_t catalog_id = change->catalog.catalog_id;
    for (const lake_thing *thing = change->things; thing; thing = thing->next)
        TIDE_TRY(end_thing(tx, catalog_id, thing, err));
    for (const lake_thing *thing = change->things; thing; thing = thing->next)
        TIDE_TRY(begin_thing(tx, catalog_id, thing, err));
    return TIDE_OK;
}

/* ---- publishing ---- */

static void bind_words(tide_query *query, const lake_publication *what)
{
    const tide_lake_commit_options *options = what->options;
    tide_query_bind_text(query, "changes", what->changes);
    tide_query_bind_text(query, "author", options ? options->author : NULL);
    tide_query_bind_text(query, "message", options ? options->message : NULL);
    tide_query_bind_text(query, "extra", options ? options->extra : NULL);
}

static void bind_commit(tide_query *query, const lake_publication *what)
{
    tide_query_bind_text(query, "key", what->key);
    tide_query_bind_text(query, "attempt", what->attempt);
    if (what->hash.len > 0)
        tide_query_bind_blob(query, "hash", what->hash);
    tide_query_bind_i64(query, "rows", what->rows);
    if (what->base > 0)
        tide_query_bind_i64(query, "base", what->base);
}

static void tell_parent(tide_query *query, void *arg)
{
    *(int64_t *)arg = tide_query_col_i64(query);
}

tide_status lake_publish(tide_tx *tx, const lake_publication *what, tide_error *err)
{
    *what->parent = TIDE_LAKE_UNANSWERED;
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    if (tide_store_engine(tide_tx_store(tx)) == TIDE_ENGINE_POSTGRES) {
        TIDE_TRY(tide_query_start(&query, tx, TIDE_LAKE_SQL_LAKE_PUBLISH, err,
                                  tide_bind_i64("catalog_id", what->catalog_id),
                                  tide_bind_text("marks", what->marks)));
        bind_words(query, what);
        bind_commit(query, what);
        return tide_query_defer_rows(&query, tell_parent, what->parent, err);
    }
    TIDE_TRY(tide_query_start(&query, tx, TIDE_LAKE_SQL_LAKE_PUBLISH_SNAPSHOT, err,
                              tide_bind_i64("catalog_id", what->catalog_id)));
    TIDE_TRY(tide_query_defer(&query, err));
    TIDE_TRY(tide_query_start(&query, tx, TIDE_LAKE_SQL_LAKE_PUBLISH_CHANGES, err,
                              tide_bind_i64("catalog_id", what->catalog_id)));
    bind_words(query, what);
    TIDE_TRY(tide_query_defer(&query, err));
    TIDE_TRY(tide_query_start(&query, tx, TIDE_LAKE_SQL_LAKE_PUBLISH_MARKS, err,
                              tide_bind_i64("catalog_id", what->catalog_id),
                              tide_bind_text("marks", what->marks)));
    TIDE_TRY(tide_query_defer(&query, err));
    TIDE_TRY(tide_query_start(&query, tx, TIDE_LAKE_SQL_LAKE_PUBLISH_COMMIT, err,
                              tide_bind_i64("catalog_id", what->catalog_id)));
    bind_commit(query, what);
    return tide_query_defer_rows(&query, tell_parent, what->parent, err);
}
