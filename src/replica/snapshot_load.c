#include "replica/snapshot_load.h"

#include "base/cleanup.h"
#include "store/foreign/foreign_triggers.h"
#include "tidemark_templates.h"

static tide_status put_values(tide_foreign_tx *tx, const tide_table *table,
                              const tide_snapshot_row *row, tide_error *err)
{
    int columns[TIDE_EVENT_COLUMNS_MAX];
    TIDE_CLEANUP(tide_foreign_endp) tide_foreign_query *query = NULL;
    for (int i = 0; i < table->column_count; i++)
        columns[i] = i;
    TIDE_TRY(tide_table_query_some(&query, tx, table, TIDE_TABLE_ROW_PUT, columns,
                                   table->column_count, err));
    for (int i = 0; i < table->column_count; i++)
        tide_table_bind(query, 'c', i, &row->values[i]);
    return tide_foreign_run_row(query, err);
}

static tide_status put_clock(tide_foreign_tx *tx, const tide_table *table,
                             const tide_snapshot_row *row, tide_error *err)
{
    const tide_row_clock *clock = &row->clock;
    TIDE_CLEANUP(tide_buffer_done)
    tide_buffer prints = tide_buffer_of((size_t)TIDE_TABLE_COLUMNS_MAX * TIDE_TABLE_PRINT_LEN);
    TIDE_FOREIGN_QUERY(query, tx, TIDE_TEMPLATE_APPLY_CLOCK_PUT->text, err,
                       tide_bind_i64("table", table->id), tide_bind_blob("key", row->key),
                       tide_bind_blob("clock", row->clock_bytes),
                       tide_bind_i64("aside", row->aside));
    if (row->is_here) {
        TIDE_TRY(tide_table_prints(&prints, row->values, table->column_count, err));
        tide_foreign_bind_blob(query, "digest", tide_buffer_view(&prints));
    } else {
        tide_foreign_bind_blob(query, "image", row->image);
        if (row->rival.len > 0)
            tide_foreign_bind_blob(query, "rival", row->rival);
    }
    if (!tide_row_clock_exists(clock) && clock->deleted.stamp.time != 0)
        tide_foreign_bind_i64(query, "gone", (int64_t)clock->deleted.stamp.time);
    return tide_foreign_run(query, NULL, err);
}

static tide_status begin_of(tide_foreign_query **out, tide_foreign_tx *tx, const char *text,
                            const tide_table *table, const tide_snapshot_row *row, tide_error *err)
{
    return tide_foreign_start(out, tx, text, err, tide_bind_i64("table", table->id),
                              tide_bind_blob("key", row->key));
}

static tide_status put_conflicts(tide_foreign_tx *tx, const tide_table *table,
                                 const tide_snapshot_row *row, tide_error *err)
{
    for (int i = 0; i < row->conflict_count; i++) {
        const tide_snapshot_conflict *one = &row->conflicts[i];
        TIDE_FOREIGN_QUERY_BY(query, begin_of, tx, TIDE_TEMPLATE_SNAPSHOT_CONFLICT_PUT->text, table,
                              row, err);
        tide_foreign_bind_i64(query, "col", one->column);
        tide_foreign_bind_i64(query, "time", (int64_t)one->stamp.time);
        tide_foreign_bind_blob(query, "node",
                               tide_view_bytes(one->stamp.node.bytes, TIDE_NODE_LEN));
        tide_foreign_bind_i64(query, "found_at", one->found_at_us);
        if (one->has_value)
            tide_foreign_bind_blob(query, "value", one->value);
        TIDE_TRY(tide_foreign_run(query, NULL, err));
    }
    for (int i = 0; i < row->known_count; i++) {
        TIDE_FOREIGN_QUERY_BY(query, begin_of, tx, TIDE_TEMPLATE_APPLY_KNOWN_PUT->text, table, row,
                              err);
        tide_foreign_bind_i64(query, "col", row->knowledge[i].column);
        tide_foreign_bind_i64(query, "time", (int64_t)row->knowledge[i].stamp.time);
        tide_foreign_bind_blob(query, "node",
                               tide_view_bytes(row->knowledge[i].stamp.node.bytes, TIDE_NODE_LEN));
        tide_foreign_bind_i64(query, "now", row->knowledge[i].added_us);
        TIDE_TRY(tide_foreign_run(query, NULL, err));
    }
    return TIDE_OK;
}

tide_status tide_snapshot_load_row(tide_foreign_tx *tx, const tide_snapshot_target *target,
                                   const tide_snapshot_row *row, int64_t *written, tide_error *err)
{
    if (row->is_here) {
        TIDE_TRY(put_values(tx, target->table, row, err));
        ++*written;
    }
    if (row->has_clock)
        TIDE_TRY(put_clock(tx, target->table, row, err));
    return put_conflicts(tx, target->table, row, err);
}
