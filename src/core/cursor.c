#include <tidemark/cursor.h>

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/bytes/crc32c.h"
#include "base/cleanup.h"
#include "base/interface/caller.h"
#include "base/list.h"

enum {
    ENCODING_VERSION = 1,
    CRC_LEN = 4,
    HOLES_FIRST_CAPACITY = 8,
};

void tide_cursor_init(tide_cursor *cursor, int64_t settled_through, size_t hole_max)
{
    if (!cursor)
        return;
    const int64_t from = settled_through < 0 ? 0 : settled_through;
    *cursor = (tide_cursor){
        .contiguous = from,
        .highest = from,
        .hole_max = hole_max,
    };
}

void tide_cursor_done(tide_cursor *cursor)
{
    if (!cursor)
        return;
    free(cursor->holes);
    *cursor = (tide_cursor){0};
}

/* The first hole that ends at or above number; hole_count if there is none. */
static size_t find_hole(const tide_cursor *cursor, int64_t number)
{
    size_t low = 0;
    size_t high = cursor->hole_count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (cursor->holes[middle].last < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static int64_t width_of(tide_interval interval)
{
    return interval.last - interval.first + 1; /* 1 .. 2^63-1, since first >= 1 */
}

/* A change to the holes: those from `at` on, `removed` of them, give way to `kept_count` others. */
typedef struct splice {
    size_t at;
    size_t removed;
    tide_interval kept[2];
    size_t kept_count;
    int64_t added; /* numbers that become settled */
} splice;

/* Settling beyond highest opens a hole in front, if it leaves one. */
static splice plan_beyond(const tide_cursor *cursor, int64_t first, int64_t last)
{
    splice plan = {.at = cursor->hole_count, .added = last - first + 1};
    if (first - 1 > cursor->highest)
        plan.kept[plan.kept_count++] = (tide_interval){cursor->highest + 1, first - 1};
    return plan;
}

/* Settling at or below highest shortens, splits or removes the holes it meets; what reaches above
 * highest only lengthens the last settled run. */
static splice plan_within(const tide_cursor *cursor, int64_t first, int64_t last)
{
    splice plan = {.at = find_hole(cursor, first)};
    if (last > cursor->highest)
        plan.added = last - cursor->highest;
    for (size_t i = plan.at; i < cursor->hole_count && cursor->holes[i].first <= last; i++) {
        const tide_interval hole = cursor->holes[i];
        plan.removed++;
        plan.added += width_of(hole);
        if (hole.first < first) {
            const tide_interval left = {hole.first, first - 1};
            plan.kept[plan.kept_count++] = left;
            plan.added -= width_of(left);
        }
        if (hole.last > last) {
            const tide_interval right = {last + 1, hole.last};
            plan.kept[plan.kept_count++] = right;
            plan.added -= width_of(right);
        }
    }
    return plan;
}

/* 1 <= first <= last, and contiguous < last. */
static splice plan_settling(const tide_cursor *cursor, int64_t first, int64_t last)
{
    if (first <= cursor->contiguous)
        first = cursor->contiguous + 1;
    return first > cursor->highest ? plan_beyond(cursor, first, last)
                                   : plan_within(cursor, first, last);
}

static void apply_splice(tide_cursor *cursor, const splice *plan, int64_t last)
{
    const size_t tail_at = plan->at + plan->removed;
    const size_t tail_count = cursor->hole_count - tail_at;
    if (tail_count > 0 && plan->kept_count != plan->removed)
        memmove(cursor->holes + plan->at + plan->kept_count, cursor->holes + tail_at,
                tail_count * sizeof *cursor->holes);
    for (size_t i = 0; i < plan->kept_count; i++)
        cursor->holes[plan->at + i] = plan->kept[i];
    cursor->hole_count = cursor->hole_count - plan->removed + plan->kept_count;

    if (last > cursor->highest)
        cursor->highest = last;
    cursor->contiguous = cursor->hole_count > 0 ? cursor->holes[0].first - 1 : cursor->highest;
}

static tide_status make_room(tide_cursor *cursor, size_t count, tide_error *err)
{
    if (count > cursor->hole_max)
        return tide_fail(err, TIDE_E_LIMIT,
                         "cursor at %" PRId64
                         " has %zu holes, the most it may keep: fill or give up "
                         "holes from %" PRId64 " on before settling more, or allow more holes",
                         cursor->contiguous, cursor->hole_count,
                         cursor->hole_count > 0 ? cursor->holes[0].first : cursor->highest + 1);
    if (count <= cursor->hole_capacity)
        return TIDE_OK;

    size_t capacity = cursor->hole_capacity > 0 ? cursor->hole_capacity : HOLES_FIRST_CAPACITY;
    if (capacity < count)
        capacity = cursor->hole_capacity * 2; /* count rises by one at a time */
    if (capacity > cursor->hole_max)
        capacity = cursor->hole_max;
    assert(capacity >= count && count > 0);
    TIDE_TRY(tide_list_resize(&cursor->holes, capacity, sizeof *cursor->holes, err));
    cursor->hole_capacity = capacity;
    return TIDE_OK;
}

tide_status tide_cursor_add(tide_cursor *cursor, int64_t first, int64_t last, int64_t *added,
                            tide_error *err)
{
    TIDE_NEED(cursor, err);
    if (first < 1 || last < first)
        return tide_fail(err, TIDE_E_INVALID,
                         "range %" PRId64 "..%" PRId64 ", want 1 <= first <= last", first, last);
    int64_t count = 0;
    if (last > cursor->contiguous) {
        const splice plan = plan_settling(cursor, first, last);
        if (plan.kept_count > plan.removed)
            TIDE_TRY(make_room(cursor, cursor->hole_count + 1, err));
        apply_splice(cursor, &plan, last);
        count = plan.added;
    }
    if (added)
        *added = count;
    return TIDE_OK;
}

int64_t tide_cursor_raise(tide_cursor *cursor, int64_t through)
{
    if (!cursor || through <= cursor->contiguous)
        return 0;
    /* From 1 on, no hole is opened or split: at most one is kept of those removed. */
    const splice plan = plan_settling(cursor, 1, through);
    assert(plan.kept_count <= plan.removed);
    apply_splice(cursor, &plan, through);
    return plan.added;
}

int64_t tide_cursor_contiguous(const tide_cursor *cursor)
{
    return cursor ? cursor->contiguous : 0;
}

int64_t tide_cursor_highest(const tide_cursor *cursor)
{
    return cursor ? cursor->highest : 0;
}

bool tide_cursor_has(const tide_cursor *cursor, int64_t number)
{
    if (!cursor || number < 1 || number > cursor->highest)
        return false;
    const size_t at = find_hole(cursor, number);
    return at == cursor->hole_count || cursor->holes[at].first > number;
}

const tide_interval *tide_cursor_holes(const tide_cursor *cursor, size_t *count)
{
    if (count)
        *count = cursor ? cursor->hole_count : 0;
    return cursor ? cursor->holes : NULL;
}

int64_t tide_cursor_pending(const tide_cursor *cursor)
{
    int64_t pending = 0; /* below highest - contiguous, since holes do not overlap */
    for (size_t i = 0; cursor && i < cursor->hole_count; i++)
        pending += width_of(cursor->holes[i]);
    return pending;
}

tide_status tide_cursor_next_hole(const tide_cursor *cursor, int64_t after, tide_interval *hole)
{
    if (!cursor || !hole)
        return TIDE_E_INVALID;
    if (after == INT64_MAX)
        return TIDE_NONE;
    const size_t at = find_hole(cursor, after + 1);
    if (at == cursor->hole_count)
        return TIDE_NONE;
    *hole = cursor->holes[at];
    if (hole->first <= after)
        hole->first = after + 1;
    return TIDE_OK;
}

/* Where the settled run behind hole i ends. */
static int64_t get_run_end(const tide_cursor *cursor, size_t i)
{
    return i + 1 < cursor->hole_count ? cursor->holes[i + 1].first - 1 : cursor->highest;
}

static tide_status append_encoding(const tide_cursor *cursor, tide_buffer *out)
{
    const size_t start = out->len;
    TIDE_TRY(tide_buffer_append_byte(out, ENCODING_VERSION));
    TIDE_TRY(tide_buffer_append_varint(out, (uint64_t)cursor->contiguous));
    TIDE_TRY(tide_buffer_append_varint(out, cursor->hole_count));
    for (size_t i = 0; i < cursor->hole_count; i++) {
        const tide_interval hole = cursor->holes[i];
        TIDE_TRY(tide_buffer_append_varint(out, (uint64_t)width_of(hole)));
        TIDE_TRY(tide_buffer_append_varint(out, (uint64_t)(get_run_end(cursor, i) - hole.last)));
    }
    return tide_buffer_append_u32(out,
                                  tide_crc32c(tide_view_bytes(out->ptr + start, out->len - start)));
}

tide_status tide_cursor_encode(const tide_cursor *cursor, tide_buffer *out, tide_error *err)
{
    TIDE_NEED(cursor && out, err);
    const size_t before_len = out->len;
    const tide_status status = append_encoding(cursor, out);
    if (status == TIDE_OK)
        return TIDE_OK;
    tide_buffer_truncate(out, before_len);
    return tide_fail(err, status, "a cursor with %zu holes does not fit a buffer of %zu bytes",
                     cursor->hole_count, out->max);
}

static tide_status fail_damaged(tide_error *err, const char *what)
{
    return tide_fail(err, TIDE_E_DAMAGED, "stored cursor: %s", what);
}

/* Check the checksum and take it off. */
static tide_status open_envelope(tide_view bytes, tide_reader *body, tide_error *err)
{
    if (bytes.len <= CRC_LEN)
        return fail_damaged(err, "too short");
    const size_t body_len = bytes.len - CRC_LEN;
    tide_reader tail = {.view = bytes, .offset = body_len};
    uint32_t stored;
    TIDE_TRY(tide_reader_u32(&tail, &stored));
    const uint32_t computed = tide_crc32c(tide_view_bytes(bytes.ptr, body_len));
    if (stored != computed)
        return tide_fail(err, TIDE_E_DAMAGED,
                         "stored cursor: checksum %08" PRIx32 ", its bytes have %08" PRIx32, stored,
                         computed);
    *body = tide_reader_of(tide_view_bytes(bytes.ptr, body_len));
    return TIDE_OK;
}

/* A width takes *position up, never beyond 2^63-1. */
static tide_status read_width(tide_reader *body, int64_t *position, tide_error *err)
{
    uint64_t width;
    if (tide_reader_varint_shortest(body, &width) != TIDE_OK || width == 0 ||
        width > (uint64_t)(INT64_MAX - *position))
        return fail_damaged(err, "a hole or run of impossible width");
    *position += (int64_t)width;
    return TIDE_OK;
}

/* Reads all holes; keeps them where holes is not NULL. */
static tide_status read_holes(tide_reader body, tide_cursor *cursor, tide_interval *holes,
                              tide_error *err)
{
    int64_t position = cursor->contiguous;
    for (size_t i = 0; i < cursor->hole_count; i++) {
        const int64_t before = position;
        TIDE_TRY(read_width(&body, &position, err));
        if (holes)
            holes[i] = (tide_interval){before + 1, position};
        TIDE_TRY(read_width(&body, &position, err));
    }
    cursor->highest = position;
    return tide_reader_left(&body) == 0 ? TIDE_OK : fail_damaged(err, "bytes behind its end");
}

static tide_status read_head(tide_reader *body, int64_t *contiguous, uint64_t *hole_count,
                             tide_error *err)
{
    uint8_t version;
    if (tide_reader_byte(body, &version) != TIDE_OK || version == 0)
        return fail_damaged(err, "no version");
    if (version != ENCODING_VERSION)
        return tide_fail(err, TIDE_E_NEWER, "stored cursor: version %u, this program knows %d",
                         (unsigned)version, ENCODING_VERSION);
    uint64_t settled;
    if (tide_reader_varint_shortest(body, &settled) != TIDE_OK || settled > INT64_MAX)
        return fail_damaged(err, "an impossible position");
    if (tide_reader_varint_shortest(body, hole_count) != TIDE_OK)
        return fail_damaged(err, "an impossible number of holes");
    *contiguous = (int64_t)settled;
    return TIDE_OK;
}

tide_status tide_cursor_decode(tide_cursor *cursor, tide_view bytes, size_t hole_max,
                               tide_error *err)
{
    TIDE_NEED(cursor && (bytes.ptr || bytes.len == 0), err);
    tide_reader body;
    TIDE_TRY(open_envelope(bytes, &body, err));
    int64_t contiguous = 0;
    uint64_t hole_count = 0;
    TIDE_TRY(read_head(&body, &contiguous, &hole_count, err));
    /* A hole takes two bytes or more: a count that the bytes cannot hold must not reach malloc. */
    if (hole_count > tide_reader_left(&body) / 2)
        return fail_damaged(err, "more holes than bytes for them");
    if (hole_count > hole_max)
        return tide_fail(err, TIDE_E_LIMIT,
                         "stored cursor: %" PRIu64
                         " holes, at most %zu are allowed: allow more holes",
                         hole_count, hole_max);

    /* First everything is checked, then memory is asked for. */
    tide_cursor decoded;
    tide_cursor_init(&decoded, contiguous, hole_max);
    decoded.hole_count = decoded.hole_capacity = (size_t)hole_count;
    TIDE_TRY(read_holes(body, &decoded, NULL, err));
    if (hole_count > 0) {
        TIDE_ALLOC(decoded.holes, hole_count, err);
        const tide_status status = read_holes(body, &decoded, decoded.holes, err);
        assert(status == TIDE_OK); /* the same bytes a second time */
    }
    *cursor = decoded;
    return TIDE_OK;
}
