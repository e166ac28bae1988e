#include "replica/conflict.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/digest.h"
#include "replica/schemas.h"
#include "replica/stamped.h"
#include "tidemark_templates.h"

/* ---- single records ---- */

static bool is_same(const tide_stamp *a, const tide_stamp *b)
{
    return tide_stamp_compare(a, b) == 0;
}

static tide_status begin(tide_foreign_query **out, tide_desk *desk, const tide_desk_row *row,
                         const char *text, int column, const tide_stamp *stamp, tide_error *err)
{
    return tide_foreign_start(
        out, desk->tx, text, err, tide_bind_i64("table", row->table->id),
        tide_bind_blob("key", row->key), tide_bind_i64("col", column),
        tide_bind_i64("time", (int64_t)stamp->time),
        tide_bind_blob("node", tide_view_bytes(stamp->node.bytes, TIDE_NODE_LEN)));
}

static tide_status mark_known(tide_desk *desk, const tide_desk_row *row, int column,
                              const tide_stamp *stamp, tide_error *err)
{
    TIDE_CLEANUP(tide_foreign_endp) tide_foreign_query *query = NULL;
    if (stamp->time == 0)
        return TIDE_OK;
    TIDE_TRY(begin(&query, desk, row, TIDE_TEMPLATE_APPLY_KNOWN_PUT->text, column, stamp, err));
    tide_foreign_bind_i64(query, "now", desk->now_us);
    return tide_foreign_run(query, NULL, err);
}

static tide_status forget(tide_desk *desk, const tide_desk_row *row, int column,
                          const tide_stamp *stamp, tide_error *err)
{
    TIDE_CLEANUP(tide_foreign_endp) tide_foreign_query *query = NULL;
    if (stamp->time == 0)
        return TIDE_OK;
    TIDE_TRY(
        begin(&query, desk, row, TIDE_TEMPLATE_APPLY_CONFLICT_DELETE->text, column, stamp, err));
    return tide_foreign_run(query, NULL, err);
}

static tide_status is_known(bool *out, tide_desk *desk, const tide_desk_row *row, int column,
                            const tide_stamp *stamp, tide_error *err)
{
    TIDE_FOREIGN_QUERY_BY(query, begin, desk, row, TIDE_TEMPLATE_APPLY_KNOWN_FIND->text, column,
                          stamp, err);
    const tide_status status = tide_foreign_step(query, err);
    TIDE_TRY(status);
    *out = status == TIDE_OK;
    return TIDE_OK;
}

static tide_status put_record(tide_desk *desk, const tide_desk_row *row, int column,
                              const tide_stamp *stamp, const tide_sql_value *value, tide_error *err)
{
    TIDE_CLEANUP(tide_foreign_endp) tide_foreign_query *query = NULL;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer bytes = tide_buffer_of(TIDE_EVENT_BYTES_MAX);
    TIDE_TRY(begin(&query, desk, row, TIDE_TEMPLATE_APPLY_CONFLICT_PUT->text, column, stamp, err));
    tide_foreign_bind_i64(query, "now", desk->now_us);
    if (value) {
        if (tide_sql_value_encode(&bytes, value) < TIDE_OK)
            return tide_no_memory(err);
        tide_foreign_bind_blob(query, "value", tide_buffer_view(&bytes));
    }
    int64_t changed = 0;
    TIDE_TRY(tide_foreign_run(query, &changed, err));
    desk->conflicts += changed;
    return TIDE_OK;
}

/* ---- what nobody wrote ---- */

static tide_status has_other_schema(bool *out, tide_foreign_tx *tx, const tide_table *table,
                                    tide_error *err)
{
    TIDE_FOREIGN_QUERY_BY(query, tide_foreign_first, tx, TIDE_TEMPLATE_SCHEMAS_HAS_OTHER->text, err,
                          tide_bind_text("table_name", table->name),
                          tide_bind_i64("schema", (int64_t)table->schema));
    *out = tide_foreign_col_i64(query) != 0;
    return TIDE_OK;
}

tide_status tide_conflict_is_made_up(bool *out, tide_desk *desk, const tide_table *table,
                                     const tide_row_clock *clock, int column, tide_error *err)
{
    int map[TIDE_EVENT_COLUMNS_MAX];
    tide_stamped creation;
    bool is_migrated = false;
    const tide_row_write write = tide_row_clock_of(clock, column);
    *out = false;
    if (!is_same(&write.stamp, &clock->created.stamp))
        return TIDE_OK;
    TIDE_TRY(has_other_schema(&is_migrated, desk->tx, table, err));
    if (!is_migrated)
        return TIDE_OK;
    tide_status status = tide_stamped_find(&creation, desk->tx, &write.stamp, err);
    if (status != TIDE_OK || creation.schema == table->schema)
        return status < TIDE_OK ? status : TIDE_OK;
    status = tide_schemas_map(map, desk->tx, table, creation.schema, err);
    if (status != TIDE_OK)
        return status < TIDE_OK ? status : TIDE_OK;
    *out = true;
    for (int i = 0; i < TIDE_EVENT_COLUMNS_MAX; i++)
        if (map[i] == column)
            *out = false;
    return TIDE_OK;
}

/* ---- events ---- */

/* A write that the row does not show: did anybody know it? deleted is the row's deletion as it shall be. */
static tide_status is_lost(bool *out, tide_desk *desk, const tide_desk_row *row,
                           const tide_row_write *deleted, int column, const tide_stamp *stamp,
                           tide_error *err)
{
    bool known = column >= 0 && deleted->stamp.time != 0 && is_same(&deleted->base, stamp);
    if (stamp->time != 0 && !known)
        TIDE_TRY(is_known(&known, desk, row, column, stamp, err));
    *out = stamp->time != 0 && !known;
    return TIDE_OK;
}

/* The event's own value. */
static tide_status note_given(tide_desk *desk, const tide_desk_row *row, const tide_event *event,
                              const tide_row_write *deleted, const tide_event_column *given,
                              tide_error *err)
{
    bool lost = false;
    if (given->is_made_up)
        return TIDE_OK;
    TIDE_TRY(is_lost(&lost, desk, row, deleted, given->column, &event->stamp, err));
    return lost ? put_record(desk, row, given->column, &event->stamp, &given->value, err) : TIDE_OK;
}

static const tide_sql_value *value_of(const tide_desk_row *row, int column)
{
    static const tide_sql_value nothing = {.kind = TIDE_SQL_VALUE_NULL};
    if (row->image)
        return &row->image[column];
    return row->has[column] ? &row->values[column] : &nothing;
}

/* What the row had in a column until now. */
static tide_status note_stored(tide_desk *desk, const tide_desk_row *row,
                               const tide_row_write *deleted, int column, tide_error *err)
{
    bool lost = false;
    bool is_made_up = false;
    const tide_row_write here = tide_row_clock_of(&row->clock, column);
    TIDE_TRY(is_lost(&lost, desk, row, deleted, column, &here.stamp, err));
    if (lost)
        TIDE_TRY(tide_conflict_is_made_up(&is_made_up, desk, row->table, &row->clock, column, err));
    return lost && !is_made_up
               ? put_record(desk, row, column, &here.stamp, value_of(row, column), err)
               : TIDE_OK;
}

static tide_status note_column(tide_desk *desk, const tide_desk_row *row, const tide_event *event,
                               const tide_merge *merge, int index, tide_error *err)
{
    const tide_event_column *given = &event->columns[index];
    const tide_row_write here = tide_row_clock_of(&row->clock, given->column);
    const tide_row_write *deleted = &merge->clock.deleted;
    if (tide_stamp_compare(&here.stamp, &event->stamp) == 0)
        return TIDE_OK;
    const bool was_shown = tide_row_clock_exists(&row->clock);
    if (given->base.time != 0 && (!is_same(&given->base, &here.stamp) || !was_shown)) {
        TIDE_TRY(forget(desk, row, given->column, &given->base, err));
        TIDE_TRY(mark_known(desk, row, given->column, &given->base, err));
    }
    if (merge->columns[index].is_written && !is_same(&here.stamp, &given->base))
        TIDE_TRY(note_stored(desk, row, deleted, given->column, err));
    return merge->columns[index].is_written && tide_row_clock_exists(&merge->clock)
               ? TIDE_OK
               : note_given(desk, row, event, deleted, given, err);
}

/* What a delete knew is not lost. */
static tide_status note_knowledge(tide_desk *desk, const tide_desk_row *row,
                                  const tide_event *event, const tide_merge *merge, tide_error *err)
{
    TIDE_TRY(forget(desk, row, TIDE_CONFLICT_ROW, &event->base, err));
    for (int i = 0; i < event->column_count; i++) {
        TIDE_TRY(forget(desk, row, event->columns[i].column, &event->columns[i].base, err));
        TIDE_TRY(mark_known(desk, row, event->columns[i].column, &event->columns[i].base, err));
    }
    if (!merge->is_known) /* the clock keeps one delete's base; another's is kept here */
        return mark_known(desk, row, TIDE_CONFLICT_ROW, &row->clock.deleted.base, err);
    return mark_known(desk, row, TIDE_CONFLICT_ROW, &event->base, err);
}

static bool is_key(const tide_table *table, int column)
{
    for (int i = 0; i < table->key_count; i++)
        if (table->key[i] == column)
            return true;
    return false;
}

/* The row is shown no more: what its columns were, unless the delete knew it. */
static tide_status note_hidden(tide_desk *desk, const tide_desk_row *row, const tide_merge *merge,
                               tide_error *err)
{
    for (int i = 0; i < row->table->column_count; i++)
        if (!is_key(row->table, i))
            TIDE_TRY(note_stored(desk, row, &merge->clock.deleted, i, err));
    return TIDE_OK;
}

/* The row is shown again: what its columns are is not lost. */
static tide_status forget_shown(tide_desk *desk, const tide_desk_row *row, const tide_merge *merge,
                                tide_error *err)
{
    for (int i = 0; i < row->table->column_count; i++) {
        const tide_row_write now = tide_row_clock_of(&merge->clock, i);
        TIDE_TRY(forget(desk, row, i, &now.stamp, err));
    }
    return TIDE_OK;
}

static bool is_empty(const tide_row_clock *clock)
{
    return clock->created.stamp.time == 0 && clock->deleted.stamp.time == 0 &&
           clock->column_count == 0;
}

/* The greatest delete of a row is listed while a write that did not know it keeps that row. (Where the row was created again, the delete has had its
 * way.) */
static tide_status note_outlived(tide_desk *desk, const tide_desk_row *row, const tide_merge *merge,
                                 bool is_shown, tide_error *err)
{
    const tide_stamp *stored = &row->clock.deleted.stamp;
    const tide_stamp *deleted = &merge->clock.deleted.stamp;
    if (stored->time == 0 && deleted->time == 0)
        return TIDE_OK;
    TIDE_TRY(forget(desk, row, TIDE_CONFLICT_DELETE, stored, err));
    if (!is_shown || tide_stamp_compare(&merge->clock.created.stamp, deleted) > 0)
        return TIDE_OK;
    return put_record(desk, row, TIDE_CONFLICT_DELETE, deleted, NULL, err);
}

void tide_conflict_id(char out[TIDE_CONFLICT_ID_SIZE], const char *table, tide_view key,
                      const char *column, const tide_stamp *stamp)
{
    uint8_t time[8];
    for (int i = 0; i < 8; i++)
        time[i] = (uint8_t)(stamp->time >> (8 * i));
    const tide_view parts[] = {tide_view_bytes(table, strlen(table) + 1), key,
                               tide_view_bytes(column, strlen(column) + 1),
                               tide_view_bytes(time, sizeof time),
                               tide_view_bytes(stamp->node.bytes, sizeof stamp->node.bytes)};
    uint8_t digests[sizeof parts / sizeof *parts * sizeof(tide_digest128)];
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        const tide_digest128 digest = tide_digest128_of(parts[i]);
        memcpy(digests + i * sizeof digest, &digest, sizeof digest);
    }
    const tide_digest128 all = tide_digest128_of(tide_view_bytes(digests, sizeof digests));
    tide_hex_encode(out, all.bytes, (TIDE_CONFLICT_ID_SIZE - 1) / 2);
}

tide_status tide_conflict_dismiss(tide_desk *desk, const tide_desk_row *row,
                                  const tide_event *event, tide_error *err)
{
    for (int i = 0; i < event->column_count; i++) {
        const tide_event_column *column = &event->columns[i];
        TIDE_TRY(forget(desk, row, column->column, &column->base, err));
        TIDE_TRY(mark_known(desk, row, column->column, &column->base, err));
    }
    return TIDE_OK;
}

tide_status tide_conflict_note(tide_desk *desk, const tide_desk_row *row, const tide_event *event,
                               const tide_merge *merge, tide_error *err)
{
    const bool was = tide_row_clock_exists(&row->clock);
    const bool is = tide_row_clock_exists(&merge->clock);
    if (event->kind == TIDE_ROW_DELETE) {
        TIDE_TRY(note_knowledge(desk, row, event, merge, err));
        if (was && !is)
            TIDE_TRY(note_hidden(desk, row, merge, err));
    } else {
        for (int i = 0; i < event->column_count; i++)
            if (event->columns[i].column < row->table->column_count)
                TIDE_TRY(note_column(desk, row, event, merge, i, err));
        if (!was && is && !is_empty(&row->clock))
            TIDE_TRY(forget_shown(desk, row, merge, err));
    }
    return note_outlived(desk, row, merge, is, err);
}
