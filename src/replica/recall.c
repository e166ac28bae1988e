#include "replica/recall.h"

#include "base/cleanup.h"
#include "replica/quarantine.h"
#include "tidemark_templates.h"

/* The event of a stamp. *out borrows from memory of the desk. TIDE_NONE: it is not here. */
static tide_status find_event(tide_event *out, tide_desk *desk, const tide_stamp *stamp,
                              tide_error *err)
{
    TIDE_FOREIGN_QUERY_ONE(
        query, desk->tx, TIDE_TEMPLATE_APPLY_EVENT_OF_STAMP->text, err,
        tide_bind_blob("origin", tide_view_bytes(stamp->node.bytes, TIDE_NODE_LEN)),
        tide_bind_i64("timestamp", tide_stamp_us(stamp) / 1000),
        tide_bind_i64("stamp", (int64_t)stamp->time));
    const tide_view body = tide_foreign_col_bytes(query);
    const char *copy = tide_arena_copy(&desk->arena, body.ptr, body.len);
    TIDE_NEED_MEMORY(copy, err);
    return tide_event_decode(out, tide_view_bytes(copy, body.len), err);
}

/* Every column whose clock names this stamp. */
static tide_status take_columns(tide_desk *desk, tide_desk_row *row, const tide_stamp *stamp,
                                tide_error *err)
{
    tide_hold why = TIDE_HOLD_NOT;
    TIDE_CLEANUP(tide_event_done) tide_event event = {.columns = NULL};
    TIDE_CLEANUP(tide_event_done) tide_event ours = {.columns = NULL};
    TIDE_OK_IF_NONE(find_event(&event, desk, stamp, err));
    if (event.kind == TIDE_ROW_DELETE || row->table->is_absent)
        return TIDE_OK;
    TIDE_TRY(tide_quarantine_translate(&why, &ours, desk, row->table, &event, err));
    for (int i = 0; why == TIDE_HOLD_NOT && i < ours.column_count; i++) {
        const int column = ours.columns[i].column;
        if (column >= row->table->column_count || row->has[column])
            continue;
        const tide_row_write write = tide_row_clock_of(&row->clock, column);
        if (tide_stamp_compare(&write.stamp, stamp) != 0)
            continue;
        TIDE_TRY(tide_desk_keep(&row->values[column], desk, &ours.columns[i].value, err));
        row->has[column] = true;
    }
    return TIDE_OK;
}

tide_status tide_recall(tide_desk *desk, tide_desk_row *row, tide_error *err)
{
    tide_stamp last = {.time = 0};
    for (int i = 0; i < row->table->column_count; i++) {
        const tide_row_write write = tide_row_clock_of(&row->clock, i);
        if (row->has[i] || write.stamp.time == 0 || tide_stamp_compare(&write.stamp, &last) == 0)
            continue;
        last = write.stamp;
        TIDE_TRY(take_columns(desk, row, &last, err));
    }
    return TIDE_OK;
}
