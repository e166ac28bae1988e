#include "replica/merge.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

enum { CLOCK_VERSION = 2 };

/* ---- clocks ---- */

void tide_row_clock_done(tide_row_clock *clock)
{
    free(clock->columns);
    *clock = (tide_row_clock){.columns = NULL};
}

static const tide_column_clock *find_column(const tide_row_clock *clock, int column)
{
    int low = 0;
    int high = clock->column_count;
    while (low < high) {
        const int middle = low + (high - low) / 2;
        if (clock->columns[middle].column < column)
            low = middle + 1;
        else
            high = middle;
    }
    return low < clock->column_count && clock->columns[low].column == column ? &clock->columns[low]
                                                                             : NULL;
}

tide_row_write tide_row_clock_of(const tide_row_clock *clock, int column)
{
    const tide_column_clock *own = find_column(clock, column);
    return own ? own->write : clock->created;
}

tide_stamp tide_row_clock_newest(const tide_row_clock *clock)
{
    tide_stamp newest = clock->created.stamp;
    for (int i = 0; i < clock->column_count; i++)
        if (tide_stamp_compare(&clock->columns[i].write.stamp, &newest) > 0)
            newest = clock->columns[i].write.stamp;
    return newest;
}

bool tide_row_clock_exists(const tide_row_clock *clock)
{
    const tide_stamp newest = tide_row_clock_newest(clock);
    return clock->created.stamp.time != 0 && tide_stamp_compare(&newest, &clock->deleted.stamp) > 0;
}

/* ---- encoding ---- */

static tide_status put_write(tide_buffer *out, const tide_row_write *write)
{
    TIDE_TRY(tide_buffer_append_varint(out, write->stamp.time));
    if (write->stamp.time == 0)
        return TIDE_OK;
    TIDE_TRY(tide_buffer_append(out, write->stamp.node.bytes, TIDE_NODE_LEN));
    return tide_base_encode(out, &write->base, &write->stamp.node);
}

tide_status tide_row_clock_encode(tide_buffer *out, const tide_row_clock *clock)
{
    const uint8_t version = CLOCK_VERSION;
    TIDE_TRY(tide_buffer_append(out, &version, 1));
    TIDE_TRY(put_write(out, &clock->created));
    TIDE_TRY(put_write(out, &clock->deleted));
    TIDE_TRY(tide_buffer_append_varint(out, (uint64_t)clock->column_count));
    int before = -1;
    for (int i = 0; i < clock->column_count; i++) {
        TIDE_TRY(tide_buffer_append_varint(out, (uint64_t)(clock->columns[i].column - before - 1)));
        TIDE_TRY(put_write(out, &clock->columns[i].write));
        before = clock->columns[i].column;
    }
    return TIDE_OK;
}

static bool read_write(tide_reader *from, tide_row_write *out)
{
    tide_view node;
    *out = (tide_row_write){.stamp.time = 0};
    if (tide_reader_varint_shortest(from, &out->stamp.time) < TIDE_OK)
        return false;
    if (out->stamp.time == 0)
        return true;
    if (tide_reader_bytes(from, TIDE_NODE_LEN, &node) < TIDE_OK)
        return false;
    memcpy(out->stamp.node.bytes, node.ptr, TIDE_NODE_LEN);
    return tide_base_decode(from, &out->base, &out->stamp.node);
}

static bool read_columns(tide_reader *from, tide_row_clock *out, int count)
{
    int64_t before = -1;
    for (int i = 0; i < count; i++) {
        uint64_t gap = 0;
        tide_column_clock *to = &out->columns[i];
        if (tide_reader_varint_shortest(from, &gap) < TIDE_OK || gap >= TIDE_EVENT_COLUMNS_MAX ||
            !read_write(from, &to->write) || to->write.stamp.time == 0)
            return false;
        before += (int64_t)gap + 1;
        if (before >= TIDE_EVENT_COLUMNS_MAX)
            return false;
        to->column = (int)before;
        out->column_count = i + 1;
    }
    return true;
}

tide_status tide_row_clock_decode(tide_row_clock *out, tide_view bytes, tide_error *err)
{
    tide_reader from = tide_reader_of(bytes);
    TIDE_CLEANUP(tide_row_clock_done) tide_row_clock found = {.columns = NULL};
    uint8_t version = 0;
    uint64_t count = 0;
    const bool is_head = tide_reader_byte(&from, &version) >= TIDE_OK && version == CLOCK_VERSION &&
                         read_write(&from, &found.created) && read_write(&from, &found.deleted) &&
                         tide_reader_varint_shortest(&from, &count) >= TIDE_OK &&
                         count <= TIDE_EVENT_COLUMNS_MAX;
    if (is_head && count > 0) {
        TIDE_ALLOC(found.columns, count, err);
    }
    if (!is_head || !read_columns(&from, &found, (int)count) || tide_reader_left(&from) > 0)
        return tide_fail(err, TIDE_E_DAMAGED, "these bytes are not a row's clock");
    *out = found;
    found.columns = NULL;
    return TIDE_OK;
}

/* ---- merging ---- */

static bool is_above(const tide_stamp *a, const tide_stamp *b)
{
    return tide_stamp_compare(a, b) > 0;
}

/* Is the lower of two writes lost without its loser having been known? */
static bool is_lost_unseen(const tide_row_write *lower, const tide_row_write *greater)
{
    return is_above(&lower->stamp, &greater->base);
}

static void set_column(tide_row_clock *clock, int column, const tide_row_write *write)
{
    int at = clock->column_count;
    while (at > 0 && clock->columns[at - 1].column >= column)
        at--;
    if (at == clock->column_count || clock->columns[at].column != column) {
        memmove(&clock->columns[at + 1], &clock->columns[at],
                (size_t)(clock->column_count - at) * sizeof *clock->columns);
        clock->column_count++;
    }
    clock->columns[at] = (tide_column_clock){.column = column, .write = *write};
}

/* A creation wrote every column: those with a lower stamp have its own from now on. */
static void drop_below(tide_row_clock *clock)
{
    int kept = 0;
    for (int i = 0; i < clock->column_count; i++)
        if (is_above(&clock->columns[i].write.stamp, &clock->created.stamp))
            clock->columns[kept++] = clock->columns[i];
    clock->column_count = kept;
}

static void merge_column(tide_merge *out, const tide_row_clock *stored, const tide_event *event,
                         int index)
{
    const tide_event_column *given = &event->columns[index];
    const tide_row_write write = {.stamp = event->stamp, .base = given->base};
    const tide_row_write here = tide_row_clock_of(stored, given->column);
    tide_column_merge *verdict = &out->columns[index];
    const int order = tide_stamp_compare(&write.stamp, &here.stamp);
    if (order == 0)
        return;
    out->is_known = false;
    verdict->is_written = order > 0;
    if (here.stamp.time != 0)
        verdict->is_conflict =
            order > 0 ? is_lost_unseen(&here, &write) : is_lost_unseen(&write, &here);
    if (verdict->is_written && event->kind == TIDE_ROW_UPDATE)
        set_column(&out->clock, given->column, &write);
}

static void merge_create(tide_merge *out, const tide_event *event)
{
    const tide_row_write write = {.stamp = event->stamp, .base = event->base};
    if (!is_above(&write.stamp, &out->clock.created.stamp))
        return;
    out->is_known = false;
    out->clock.created = write;
    drop_below(&out->clock);
}

/* A delete that did not know the row's newest write, or a write that did not know the delete. */
static void merge_delete(tide_merge *out, const tide_row_clock *stored, const tide_event *event)
{
    const tide_row_write write = {.stamp = event->stamp, .base = event->base};
    const tide_stamp newest = tide_row_clock_newest(stored);
    out->is_known = !is_above(&write.stamp, &stored->deleted.stamp);
    if (out->is_known)
        return;
    out->clock.deleted = write;
    const bool is_outlived = is_above(&newest, &write.stamp);
    out->is_conflict = newest.time != 0 && (is_outlived || is_above(&newest, &write.base));
}

static tide_status copy_clock(tide_row_clock *out, const tide_row_clock *from, int room,
                              tide_error *err)
{
    *out = *from;
    TIDE_ALLOC(out->columns, (size_t)(from->column_count + room) + 1, err);
    if (from->column_count > 0)
        memcpy(out->columns, from->columns, (size_t)from->column_count * sizeof *out->columns);
    return TIDE_OK;
}

static const tide_row_write *greater(const tide_row_write *a, const tide_row_write *b)
{
    return is_above(&b->stamp, &a->stamp) ? b : a;
}

tide_status tide_row_clock_join(tide_row_clock *out, const tide_row_clock *a,
                                const tide_row_clock *b, tide_error *err)
{
    tide_row_clock joined = {.created = *greater(&a->created, &b->created),
                             .deleted = *greater(&a->deleted, &b->deleted)};
    TIDE_ALLOC(joined.columns, (size_t)(a->column_count + b->column_count) + 1, err);
    for (int i = 0, k = 0; i < a->column_count || k < b->column_count;) {
        const bool is_a = k == b->column_count ||
                          (i < a->column_count && a->columns[i].column <= b->columns[k].column);
        const int column = is_a ? a->columns[i].column : b->columns[k].column;
        const tide_row_write x = tide_row_clock_of(a, column);
        const tide_row_write y = tide_row_clock_of(b, column);
        joined.columns[joined.column_count++] =
            (tide_column_clock){.column = column, .write = *greater(&x, &y)};
        i += i < a->column_count && a->columns[i].column == column;
        k += k < b->column_count && b->columns[k].column == column;
    }
    drop_below(&joined);
    *out = joined;
    return TIDE_OK;
}

static tide_row_fate get_fate(const tide_merge *merge, const tide_row_clock *stored,
                              const tide_event *event)
{
    const bool was = tide_row_clock_exists(stored);
    const bool is = tide_row_clock_exists(&merge->clock);
    if (was != is)
        return is ? TIDE_FATE_INSERT : TIDE_FATE_DELETE;
    for (int i = 0; is && i < event->column_count; i++)
        if (merge->columns[i].is_written)
            return TIDE_FATE_UPDATE;
    return TIDE_FATE_NOTHING;
}

tide_status tide_merge_event(tide_merge *out, const tide_row_clock *stored, const tide_event *event,
                             tide_error *err)
{
    assert(event->stamp.time != 0);
    TIDE_CLEANUP(tide_merge_done) tide_merge merge = {.is_known = true};
    TIDE_TRY(copy_clock(&merge.clock, stored, event->column_count, err));
    TIDE_ALLOC(merge.columns, (size_t)event->column_count + 1, err);
    for (int i = 0; i < event->column_count; i++)
        merge_column(&merge, stored, event, i);
    if (event->kind == TIDE_ROW_CREATE)
        merge_create(&merge, event);
    else if (event->kind == TIDE_ROW_DELETE)
        merge_delete(&merge, stored, event);
    merge.fate = get_fate(&merge, stored, event);
    *out = merge;
    merge = (tide_merge){.columns = NULL};
    return TIDE_OK;
}

void tide_merge_done(tide_merge *merge)
{
    free(merge->columns);
    merge->columns = NULL;
    tide_row_clock_done(&merge->clock);
}
