/* snapshot_merge.c - one row of a snapshot meets the row that is here: see snapshot.h. */
#include <stdlib.h>

#include "base/cleanup.h"
#include "replica/conflict.h"
#include "replica/quarantine.h"
#include "replica/snapshot_conflict.h"
#include "replica/snapshot_parts.h"
#include "tidemark_templates.h"

static bool is_key(const tide_table *table, int column)
{
    for (int i = 0; i < table->key_count; i++)
        if (table->key[i] == column)
            return true;
    return false;
}

static bool is_same(const tide_stamp *a, const tide_stamp *b)
{
    return tide_stamp_compare(a, b) == 0;
}

/* ---- the row ---- */

static bool is_clock_equal(const tide_row_clock *a, const tide_row_clock *b)
{
    if (!is_same(&a->created.stamp, &b->created.stamp) ||
        !is_same(&a->deleted.stamp, &b->deleted.stamp) || a->column_count != b->column_count)
        return false;
    for (int i = 0; i < a->column_count; i++)
        if (a->columns[i].column != b->columns[i].column ||
            !is_same(&a->columns[i].write.stamp, &b->columns[i].write.stamp))
            return false;
    return true;
}

static int compare_columns(const void *a, const void *b)
{
    const tide_column_clock *x = a;
    const tide_column_clock *y = b;
    return (x->column > y->column) - (x->column < y->column);
}

/* Their clock in terms of our columns. */
static tide_status translate(tide_row_clock *out, const tide_snapshot_target *target,
                             const tide_row_clock *theirs, tide_error *err)
{
    *out = *theirs;
    out->columns = calloc((size_t)theirs->column_count + 1, sizeof *out->columns);
    TIDE_NEED_MEMORY(out->columns, err);
    for (int i = 0; i < theirs->column_count; i++)
        out->columns[i] =
            (tide_column_clock){.column = theirs->columns[i].column == TIDE_ROW_CLOCK_LOST
                                              ? TIDE_ROW_CLOCK_LOST
                                              : target->map[theirs->columns[i].column],
                                .write = theirs->columns[i].write};
    if (out->column_count > 1)
        qsort(out->columns, (size_t)out->column_count, sizeof *out->columns, compare_columns);
    return TIDE_OK;
}

/* Values follow their stamps, and prints their values: what stays as it was written unseen is still found by a scan. */
static tide_status take_values(const tide_snapshot_meeting *m, tide_error *err)
{
    tide_desk_row *row = m->row;
    for (int i = 0; i < row->table->column_count; i++) {
        const tide_row_write ours = tide_row_clock_of(&row->clock, i);
        const tide_row_write theirs = tide_row_clock_of(m->theirs, i);
        const int order = tide_stamp_compare(&theirs.stamp, &ours.stamp);
        if (is_key(row->table, i) || !m->values[i] || order < 0 || (order == 0 && row->has[i]))
            continue;
        tide_desk_print(row, i, m->values[i]);
        if (row->has[i] && tide_sql_value_equal(m->values[i], &row->values[i]))
            continue;
        TIDE_TRY(tide_desk_keep(&row->values[i], m->r->desk, m->values[i], err));
        row->has[i] = true;
        row->is_stale = true;
        row->is_changed = true;
    }
    return TIDE_OK;
}

static tide_status meet(tide_snapshot_meeting *m, tide_error *err)
{
    const tide_snapshot_row *given = m->given;
    const bool is_changed = !is_clock_equal(m->joined, &m->row->clock);
    const bool is_equal = !is_changed && is_clock_equal(m->joined, m->theirs);
    if (!is_equal || m->r->has_conflicts || given->conflict_count > 0 || given->known_count > 0)
        TIDE_TRY(tide_snapshot_settle_conflicts(m, err));
    TIDE_TRY(take_values(m, err));
    m->row->is_changed = m->row->is_changed || is_changed;
    return TIDE_OK;
}

tide_status tide_snapshot_merge_row(tide_restoring *r, const tide_snapshot_row *given,
                                    tide_error *err)
{
    const tide_snapshot_target *target = &r->targets[given->table];
    const tide_snapshot_table *from = &r->decoder->tables[given->table];
    tide_desk_row *row = NULL;
    if (!given->has_clock)
        TIDE_TRY(tide_snapshot_merge_absent(r, target, given->key, err));
    TIDE_TRY(tide_desk_row_get(&row, r->desk, target->table, given->key, err));
    TIDE_CLEANUP(tide_row_clock_done) tide_row_clock theirs = {.columns = NULL};
    TIDE_CLEANUP(tide_row_clock_done) tide_row_clock joined = {.columns = NULL};
    TIDE_CLEANUP(tide_freep)
    const tide_sql_value **values =
        (const tide_sql_value **)calloc((size_t)target->table->column_count, sizeof(void *));
    TIDE_NEED_MEMORY(values, err);
    for (int i = 0; i < from->column_count; i++)
        values[target->map[i]] = given->has[i] ? &given->values[i] : NULL;
    for (int i = 0; given->clock.created.stamp.time != 0 && i < target->table->column_count; i++)
        if (tide_snapshot_target_default(target, i))
            values[i] = tide_snapshot_target_default(target, i);
    TIDE_TRY(translate(&theirs, target, &given->clock, err));
    TIDE_TRY(tide_row_clock_join(&joined, &row->clock, &theirs, err));
    tide_snapshot_meeting m = {.r = r,
                               .row = row,
                               .given = given,
                               .theirs = &theirs,
                               .joined = &joined,
                               .values = values,
                               .is_here = tide_row_clock_exists(&row->clock),
                               .is_theirs = tide_row_clock_exists(&theirs),
                               .is_shown = tide_row_clock_exists(&joined)};
    TIDE_TRY(meet(&m, err));
    tide_row_clock_done(&row->clock);
    row->clock = joined;
    joined = (tide_row_clock){.columns = NULL};
    return TIDE_OK;
}

/* ---- rows that the maker does not have ---- */

static tide_status strip(bool *is_stripped, tide_restoring *r, tide_row_write *write,
                         tide_error *err)
{
    *is_stripped = false;
    if (write->stamp.time == 0)
        return TIDE_OK;
    TIDE_TRY(tide_snapshot_maker_has(is_stripped, r, &write->stamp, err));
    if (*is_stripped)
        *write = (tide_row_write){.stamp.time = 0};
    return TIDE_OK;
}

/* What is left of a clock without the writes that the maker had. */
static tide_status strip_clock(tide_row_clock *out, tide_restoring *r, const tide_row_clock *clock,
                               tide_error *err)
{
    bool is_stripped = false;
    *out = *clock;
    out->column_count = 0;
    out->columns = calloc((size_t)clock->column_count + 1, sizeof *out->columns);
    TIDE_NEED_MEMORY(out->columns, err);
    TIDE_TRY(strip(&is_stripped, r, &out->created, err));
    TIDE_TRY(strip(&is_stripped, r, &out->deleted, err));
    for (int i = 0; i < clock->column_count; i++) {
        tide_column_clock column = clock->columns[i];
        TIDE_TRY(strip(&is_stripped, r, &column.write, err));
        if (!is_stripped)
            out->columns[out->column_count++] = column;
    }
    return TIDE_OK;
}

static bool is_empty(const tide_row_clock *clock)
{
    return clock->created.stamp.time == 0 && clock->deleted.stamp.time == 0 &&
           clock->column_count == 0;
}

static tide_status remember_forgotten(tide_restoring *r, const tide_desk_row *row, tide_error *err)
{
    if (tide_buffer_append_u64(&r->forgotten, (uint64_t)row->table->id) < TIDE_OK ||
        tide_buffer_append_u32(&r->forgotten, (uint32_t)row->key.len) < TIDE_OK ||
        tide_buffer_append_view(&r->forgotten, row->key) < TIDE_OK)
        return tide_no_memory(err);
    r->out->forgotten++;
    return TIDE_OK;
}

/* It was created among what the maker had, and the maker has nothing of it: it was deleted there, and the tombstone collected. What was written here and
 * never got there is kept, as the maker will keep it when it comes: beside a row that does not exist, and listed. */
tide_status tide_snapshot_merge_absent(tide_restoring *r, const tide_snapshot_target *target,
                                       tide_view key, tide_error *err)
{
    tide_desk_row *row = NULL;
    TIDE_TRY(tide_desk_row_get(&row, r->desk, target->table, key, err));
    TIDE_CLEANUP(tide_row_clock_done) tide_row_clock left = {.columns = NULL};
    TIDE_TRY(strip_clock(&left, r, &row->clock, err));
    if (is_clock_equal(&left, &row->clock) || left.created.stamp.time != 0)
        return TIDE_OK;
    const tide_row_clock nothing = {.columns = NULL};
    tide_snapshot_meeting m = {.r = r,
                               .row = row,
                               .theirs = &nothing,
                               .joined = &left,
                               .is_here = tide_row_clock_exists(&row->clock)};
    TIDE_TRY(tide_snapshot_settle_conflicts(&m, err));
    for (int i = 0; i < row->table->column_count; i++) {
        const tide_row_write kept = tide_row_clock_of(&left, i);
        if (!is_key(row->table, i) && kept.stamp.time == 0)
            row->has[i] = false;
    }
    row->is_changed = true;
    if (is_empty(&left))
        TIDE_TRY(remember_forgotten(r, row, err));
    tide_row_clock_done(&row->clock);
    row->clock = left;
    left = (tide_row_clock){.columns = NULL};
    return TIDE_OK;
}

/* ---- what our own further events knew ---- */

static tide_status keep_bases(tide_restoring *r, const tide_event *event, tide_error *err)
{
    tide_view key;
    tide_hold why = TIDE_HOLD_NOT;
    const tide_table *table = tide_desk_table(r->desk, event->table);
    if (!table || event->key_count != table->key_count)
        return TIDE_OK;
    TIDE_CLEANUP(tide_event_done) tide_event ours;
    ours.columns = NULL;
    TIDE_TRY(tide_quarantine_translate(&why, &ours, r->desk, table, event, err));
    if (why != TIDE_HOLD_NOT)
        return TIDE_OK;
    TIDE_TRY(tide_desk_key(&key, r->desk, event->key, event->key_count, err));
    tide_desk_row row = {.table = table, .key = key};
    const tide_snapshot_meeting m = {.r = r, .row = &row};
    if (event->kind == TIDE_ROW_DELETE)
        TIDE_TRY(tide_snapshot_mark_known(&m, TIDE_CONFLICT_ROW, &event->base, err));
    for (int i = 0; i < ours.column_count; i++)
        TIDE_TRY(tide_snapshot_mark_known(&m, ours.columns[i].column, &ours.columns[i].base, err));
    return TIDE_OK;
}

tide_status tide_snapshot_note_held(tide_restoring *r, const tide_event *event, bool is_merged,
                                    tide_error *err)
{
    if (tide_buffer_append(&r->held, &event->stamp, sizeof event->stamp) < TIDE_OK)
        return tide_no_memory(err);
    r->is_held_sorted = false;
    return is_merged ? keep_bases(r, event, err) : TIDE_OK;
}

tide_status tide_snapshot_keep_knowledge(tide_restoring *r, tide_error *err)
{
    for (int i = 0; i < r->here_count; i++) {
        const int64_t cut = tide_snapshot_cut_of(r, &r->here[i].origin, r->here[i].epoch);
        TIDE_FOREIGN_QUERY(
            query, r->tx, TIDE_TEMPLATE_SNAPSHOT_EVENTS_ABOVE->text, err,
            tide_bind_blob("origin", tide_view_bytes(r->here[i].origin.bytes, TIDE_NODE_LEN)),
            tide_bind_i64("epoch", r->here[i].epoch), tide_bind_i64("after", cut < 0 ? 0 : cut));
        TIDE_EACH(tide_foreign_step(query, err)) {
            TIDE_CLEANUP(tide_event_done) tide_event event = {.columns = NULL};
            TIDE_TRY(tide_event_decode(&event, tide_foreign_col_bytes(query), err));
            TIDE_TRY(keep_bases(r, &event, err));
        }
    }
    return TIDE_OK;
}
