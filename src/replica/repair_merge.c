/* repair_merge.c - what one node takes over of what another knows of rows: see repair.h. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "replica/again.h"
#include "replica/capture.h"
#include "replica/fold.h"
#include "replica/repair_parts.h"
#include "tidemark_templates.h"

/* A row as another node has it, decoded. */
typedef struct other_row {
    tide_row_clock clock;
    tide_sql_value *values;
    bool *has;
    bool is_altered;
    tide_node_id node;
} other_row;

static void other_done(other_row *other)
{
    tide_row_clock_done(&other->clock);
    free(other->values);
    free(other->has);
}

static tide_status decode_values(other_row *out, const tide_table *table, tide_view bytes,
                                 tide_error *err)
{
    tide_reader from = tide_reader_of(bytes);
    const size_t count = (size_t)table->column_count;
    out->values = calloc(count, sizeof *out->values);
    out->has = calloc(count, sizeof *out->has);
    TIDE_NEED_MEMORY(out->values && out->has, err);
    while (tide_reader_left(&from) > 0) {
        uint64_t column = 0;
        if (tide_reader_varint_shortest(&from, &column) < TIDE_OK || column >= count ||
            tide_sql_value_decode(&out->values[column], &from) < TIDE_OK)
            return tide_fail(err, TIDE_E_INVALID, "a row of table %s is damaged", table->name);
        out->has[column] = true;
    }
    return TIDE_OK;
}

static tide_status decode_other(other_row *out, const tide_table *table,
                                const tide_row_state *state, tide_error *err)
{
    if (state->clock.len > 0 && tide_row_clock_decode(&out->clock, state->clock, err) < TIDE_OK)
        return tide_fail(err, TIDE_E_INVALID, "the clock of a row of table %s is damaged",
                         table->name);
    for (int i = 0; i < out->clock.column_count; i++)
        if (out->clock.columns[i].column >= table->column_count)
            return tide_fail(err, TIDE_E_INVALID, "table %s has no column %d", table->name,
                             out->clock.columns[i].column);
    out->is_altered = state->is_altered;
    return decode_values(out, table, state->values, err);
}

/* No stamp from the future, and none of ours that we have not given. */
static bool can_be(tide_desk *desk, const tide_stamp *stamp)
{
    if (stamp->time == 0)
        return true;
    if (memcmp(&stamp->node, &desk->node, sizeof desk->node) == 0)
        return stamp->time <= desk->clock.last;
    return tide_hybrid_meet(&desk->clock, desk->now_us, stamp) == TIDE_OK;
}

static bool is_possible(tide_desk *desk, const tide_row_clock *clock)
{
    bool is_fine = can_be(desk, &clock->created.stamp) && can_be(desk, &clock->deleted.stamp);
    for (int i = 0; is_fine && i < clock->column_count; i++)
        is_fine = can_be(desk, &clock->columns[i].write.stamp);
    return is_fine;
}

static tide_status merge_part(tide_desk *desk, tide_desk_row *row, tide_event *event,
                              const tide_row_write *write, tide_change_kind kind, tide_error *err)
{
    event->kind = kind;
    event->stamp = write->stamp;
    event->origin = write->stamp.node;
    event->base = write->base;
    return tide_desk_merge(desk, row, event, err);
}

static bool is_above(const tide_stamp *a, const tide_stamp *b)
{
    return tide_stamp_compare(a, b) > 0;
}

/* The row's creation, as far as its values are known: what wrote the columns that have no stamp of their own. */
static tide_status merge_creation(tide_desk *desk, tide_desk_row *row, tide_event *event,
                                  const other_row *other, tide_error *err)
{
    int next = 0;
    event->column_count = 0;
    for (int i = 0; i < row->table->column_count; i++) {
        while (next < other->clock.column_count && other->clock.columns[next].column < i)
            next++;
        const bool is_own =
            next < other->clock.column_count && other->clock.columns[next].column == i;
        const tide_row_write mine = tide_row_clock_of(&row->clock, i);
        if (is_own || tide_repair_is_key_column(row->table, i) ||
            !is_above(&other->clock.created.stamp, &mine.stamp))
            continue;
        if (!other->has[i])
            return TIDE_OK; /* not whole: the stamp alone would say that it is */
        event->columns[event->column_count++] = (tide_event_column){
            .column = i, .value = other->values[i], .base = other->clock.created.base};
    }
    return merge_part(desk, row, event, &other->clock.created, TIDE_ROW_CREATE, err);
}

/* As if the events that made what is greater in the other's clock had come; merging does not depend on their order. What is lower was merged here
 * when its event came, or will be. */
static tide_status merge_clock(tide_desk *desk, tide_desk_row *row, const other_row *other,
                               tide_error *err)
{
    const tide_table *table = row->table;
    TIDE_CLEANUP(tide_event_done) tide_event event = {.key_count = table->key_count};
    TIDE_ALLOC(event.columns, (size_t)table->column_count + 1, err);
    TIDE_TRY(tide_desk_key_values(event.key, table->key_count, row->key, err));
    if (is_above(&other->clock.created.stamp, &row->clock.created.stamp))
        TIDE_TRY(merge_creation(desk, row, &event, other, err));
    for (int i = 0; i < other->clock.column_count; i++) {
        const tide_column_clock *column = &other->clock.columns[i];
        const tide_row_write mine = tide_row_clock_of(&row->clock, column->column);
        if (!other->has[column->column] || !is_above(&column->write.stamp, &mine.stamp))
            continue;
        event.column_count = 1;
        event.columns[0] = (tide_event_column){.column = column->column,
                                               .value = other->values[column->column],
                                               .base = column->write.base};
        TIDE_TRY(merge_part(desk, row, &event, &column->write, TIDE_ROW_UPDATE, err));
    }
    event.column_count = 0;
    if (!is_above(&other->clock.deleted.stamp, &row->clock.deleted.stamp))
        return TIDE_OK;
    return merge_part(desk, row, &event, &other->clock.deleted, TIDE_ROW_DELETE, err);
}

/* ---- one stamp, two values ---- */

static tide_status keep_lost(tide_desk *desk, const tide_desk_row *row, int column,
                             const tide_sql_value *value, const tide_node_id *holder,
                             tide_error *err)
{
    tide_stamp stamp;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer bytes = tide_buffer_of(TIDE_REPAIR_VALUES_MAX);
    if (tide_sql_value_encode(&bytes, value) < TIDE_OK)
        return tide_no_memory(err);
    TIDE_TRY(tide_hybrid_next(&desk->clock, desk->now_us, &stamp, err));
    TIDE_TRY(tide_foreign_exec(
        desk->tx, TIDE_TEMPLATE_REPAIR_CONFLICT_PUT->text, NULL, err,
        tide_bind_i64("table", row->table->id), tide_bind_blob("key", row->key),
        tide_bind_i64("col", column), tide_bind_i64("time", (int64_t)stamp.time),
        tide_bind_blob("node", tide_view_bytes(holder->bytes, TIDE_NODE_LEN)),
        tide_bind_blob("value", tide_buffer_view(&bytes)), tide_bind_i64("now", desk->now_us)));
    desk->conflicts++;
    return TIDE_OK;
}

static tide_status compare_values(int *out, const tide_sql_value *a, const tide_sql_value *b,
                                  tide_error *err)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer x = tide_buffer_of(TIDE_REPAIR_VALUES_MAX);
    TIDE_CLEANUP(tide_buffer_done) tide_buffer y = tide_buffer_of(TIDE_REPAIR_VALUES_MAX);
    if (tide_sql_value_encode(&x, a) < TIDE_OK || tide_sql_value_encode(&y, b) < TIDE_OK)
        return tide_no_memory(err);
    *out = memcmp(x.ptr, y.ptr, x.len < y.len ? x.len : y.len);
    if (*out == 0)
        *out = (x.len > y.len) - (x.len < y.len);
    return TIDE_OK;
}

static tide_status choose(tide_desk *desk, tide_desk_row *row, const other_row *other, int column,
                          bool is_altered, tide_error *err)
{
    int order = is_altered == other->is_altered ? 0 : (is_altered ? -1 : 1);
    tide_sql_value *mine = &row->values[column];
    const tide_sql_value *theirs = &other->values[column];
    if (order == 0)
        TIDE_TRY(compare_values(&order, mine, theirs, err));
    if (order > 0)
        return keep_lost(desk, row, column, theirs, &other->node, err);
    TIDE_TRY(keep_lost(desk, row, column, mine, &desk->node, err));
    row->is_stale = true;
    tide_desk_print(row, column, theirs);
    return tide_desk_keep(mine, desk, theirs, err);
}

/* What the stamps did not decide: values that are missing here, and such as differ under one stamp. */
static tide_status settle_values(tide_repaired *out, tide_desk *desk, tide_desk_row *row,
                                 const other_row *other, bool is_altered, tide_error *err)
{
    bool was_missing = false;
    for (int i = 0; i < row->table->column_count; i++) {
        const tide_row_write mine = tide_row_clock_of(&row->clock, i);
        const tide_row_write theirs = tide_row_clock_of(&other->clock, i);
        if (tide_repair_is_key_column(row->table, i) || !other->has[i] || mine.stamp.time == 0 ||
            tide_stamp_compare(&mine.stamp, &theirs.stamp) != 0)
            continue;
        if (!row->has[i]) {
            TIDE_TRY(tide_desk_keep(&row->values[i], desk, &other->values[i], err));
            row->has[i] = true;
            row->is_stale = true;
            was_missing = true;
        } else if (!tide_sql_value_equal(&row->values[i], &other->values[i])) {
            TIDE_TRY(choose(desk, row, other, i, is_altered, err));
            out->chosen++;
        }
    }
    if (was_missing)
        out->restored++;
    return TIDE_OK;
}

static bool has_all(const tide_desk_row *row)
{
    for (int i = 0; i < row->table->column_count; i++)
        if (!row->has[i])
            return false;
    return true;
}

static tide_status take_row(tide_repair_call *call, tide_desk *desk, const tide_table *table,
                            const tide_row_state *state, tide_error *err)
{
    tide_desk_row *row = NULL;
    tide_sql_value *loose = NULL;
    bool is_altered = false;
    TIDE_CLEANUP(other_done) other_row other = {.node = call->theirs->node};
    TIDE_TRY(tide_repair_check_key(table, state->key, err));
    TIDE_TRY(decode_other(&other, table, state, err));
    TIDE_TRY(tide_desk_row_get(&row, desk, table, state->key, err));
    TIDE_TRY(tide_repair_find_loose(&loose, desk, row, err));
    if (loose) { /* a write that was not captured: the log is where it belongs */
        call->repaired.captured++;
        return tide_capture_log(desk->tx, table, TIDE_ROW_CREATE, loose, NULL, err);
    }
    if (state->is_loose)
        return TIDE_OK; /* the other makes an event of it */
    if (!is_possible(desk, &other.clock)) {
        call->repaired.refused++;
        return TIDE_OK;
    }
    TIDE_TRY(tide_repair_look_altered(&is_altered, desk, row, err));
    TIDE_TRY(merge_clock(desk, row, &other, err));
    call->repaired.newer += row->is_changed;
    TIDE_TRY(settle_values(&call->repaired, desk, row, &other, is_altered, err));
    /* Placed anew, and its digest recorded; a row that exists and of which values are missing stays as it is. */
    row->is_changed = has_all(row) || !tide_row_clock_exists(&row->clock);
    if (tide_row_clock_newest(&row->clock).time == 0 && row->clock.deleted.stamp.time == 0)
        row->is_changed = false; /* nobody knows it */
    else if (call->theirs->is_again)
        tide_again_mark(desk, row);
    return TIDE_OK;
}

static tide_status take_rows(tide_foreign_tx *tx, void *arg, tide_error *err)
{
    tide_repair_call *call = arg;
    const tide_table *table = NULL;
    int64_t folded = 0;
    call->repaired = (tide_repaired){.rows = 0};
    TIDE_TRY(tide_fold_turn(call->node, tx, &folded, &call->is_behind, err));
    if (call->is_behind)
        return TIDE_OK;
    TIDE_CLEANUP(tide_desk_done) tide_desk desk = {.tx = NULL};
    TIDE_TRY(tide_desk_init(&desk, call->node, tx, err));
    TIDE_TRY(tide_repair_find_table(&table, &desk, call, err));
    for (int i = 0; i < call->theirs->count; i++)
        TIDE_TRY(take_row(call, &desk, table, &call->theirs->rows[i], err));
    TIDE_TRY(tide_desk_settle(&desk, err));
    call->repaired.rows = desk.rows;
    call->repaired.conflicts = desk.conflicts;
    return TIDE_OK;
}

tide_status tide_node_merge_states(tide_node *node, const char *table, uint64_t schema,
                                   const tide_row_states *theirs, tide_repaired *out,
                                   tide_error *err)
{
    tide_repair_call call = {.node = node, .table = table, .schema = schema, .theirs = theirs};
    TIDE_TRY(tide_repair_run(&call, take_rows, err));
    *out = call.repaired;
    return TIDE_OK;
}
