#include "colony/position.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

void tide_position_init(tide_position *position, const char *agent_id, const char *data_type)
{
    memset(position, 0, sizeof *position);
    (void)snprintf(position->agent_id, sizeof position->agent_id, "%s", agent_id);
    (void)snprintf(position->data_type, sizeof position->data_type, "%s", data_type);
    tide_cursor_init(&position->cursor, 0, TIDE_POSITION_HOLES_MAX);
}

void tide_position_done(tide_position *position)
{
    tide_cursor_done(&position->cursor);
    free(position->held);
    position->held = NULL;
    position->held_count = 0;
}

static void *copy_of(const void *items, size_t len)
{
    void *copy = malloc(len);
    if (copy)
        memcpy(copy, items, len);
    return copy;
}

tide_status tide_position_copy(tide_position *out, const tide_position *from, tide_error *err)
{
    tide_position copy = *from;
    copy.cursor.holes = NULL;
    copy.cursor.hole_capacity = copy.cursor.hole_count;
    copy.held = NULL;
    if (from->cursor.hole_count > 0)
        copy.cursor.holes =
            copy_of(from->cursor.holes, from->cursor.hole_count * sizeof *copy.cursor.holes);
    if (from->held_count > 0)
        copy.held = copy_of(from->held, (size_t)from->held_count * sizeof *copy.held);
    if ((from->cursor.hole_count > 0 && !copy.cursor.holes) ||
        (from->held_count > 0 && !copy.held)) {
        free(copy.cursor.holes);
        free(copy.held);
        return tide_no_memory(err);
    }
    *out = copy;
    return TIDE_OK;
}

/* ---- held holes ---- */

/* Since when the oldest part of this hole has been held; *at moves up over what lies below it. */
static int64_t find_since(const tide_position *position, tide_interval hole, int *at,
                          int64_t mono_us)
{
    while (*at < position->held_count && position->held[*at].numbers.last < hole.first)
        (*at)++;
    if (*at == position->held_count || position->held[*at].numbers.first > hole.last)
        return mono_us;
    /* After a restart of the machine the clock begins anew. */
    const int64_t since_us = position->held[*at].since_us;
    return since_us < mono_us ? since_us : mono_us;
}

tide_status tide_position_hold(tide_position *position, int64_t mono_us, tide_error *err)
{
    size_t count = 0;
    const tide_interval *holes = tide_cursor_holes(&position->cursor, &count);
    tide_held_hole *held = NULL;
    if (count > 0) {
        TIDE_ALLOC(held, count, err);
    }
    int at = 0;
    for (size_t i = 0; i < count; i++)
        held[i] = (tide_held_hole){.numbers = holes[i],
                                   .since_us = find_since(position, holes[i], &at, mono_us)};
    free(position->held);
    position->held = held;
    position->held_count = (int)count;
    return TIDE_OK;
}

/* ---- points ---- */

static int find_point(const tide_position *position, int64_t seq)
{
    int at = 0;
    while (at < position->point_count && position->points[at].seq < seq)
        at++;
    return at;
}

static void remove_point(tide_position *position, int at)
{
    position->point_count--;
    memmove(position->points + at, position->points + at + 1,
            (size_t)(position->point_count - at) * sizeof position->points[0]);
}

/* Of the points behind the newest ones, the one whose neighbours lie closest together for their distance from the top: without it the
 * distances double best. */
static int choose_victim(const tide_position *position)
{
    const int last_old = position->point_count - TIDE_POSITION_RECENT_POINTS - 1;
    const int64_t top = position->points[position->point_count - 1].seq;
    int victim = last_old > 0 ? 1 : 0;
    double smallest = 2.0;
    for (int i = 1; i <= last_old; i++) {
        const int64_t below = position->points[i - 1].seq;
        const int64_t above = position->points[i + 1].seq;
        const double spread = (double)(above - below) / (double)(top - below);
        if (spread < smallest) {
            smallest = spread;
            victim = i;
        }
    }
    return victim;
}

void tide_position_point(tide_position *position, int64_t seq,
                         const unsigned char digest[TIDE_FEED_DIGEST_SIZE])
{
    assert(seq > 0);
    int at = find_point(position, seq);
    const bool is_known = at < position->point_count && position->points[at].seq == seq;
    if (!is_known && position->point_count == TIDE_FEED_POINTS_MAX) {
        remove_point(position, choose_victim(position));
        at = find_point(position, seq);
    }
    if (!is_known) {
        memmove(position->points + at + 1, position->points + at,
                (size_t)(position->point_count - at) * sizeof position->points[0]);
        position->point_count++;
    }
    position->points[at].seq = seq;
    position->points[at].epoch = position->epoch;
    memcpy(position->points[at].digest, digest, TIDE_FEED_DIGEST_SIZE);
}

const unsigned char *tide_position_digest(const tide_position *position, int64_t seq)
{
    static const unsigned char nothing[TIDE_FEED_DIGEST_SIZE];
    if (seq == 0)
        return nothing; /* d(0) */
    const int at = find_point(position, seq);
    return at < position->point_count && position->points[at].seq == seq
               ? position->points[at].digest
               : NULL;
}

/* ---- ledger ---- */

int64_t tide_position_unread(const tide_position *position, int64_t head)
{
    const int64_t highest = tide_cursor_highest(&position->cursor);
    return head > highest ? head - highest : 0;
}

void tide_position_ledger(const tide_position *position, const tide_gap_sums *gaps,
                          tide_ledger *out)
{
    const int64_t first = position->first > 0 ? position->first : 1;
    const int64_t head = position->head > first - 1 ? position->head : first - 1;
    *out = (tide_ledger){
        .head = head,
        .first = first,
        .before = first - 1,
        .stored = position->stored,
        .dead = position->dead,
        .filtered = position->filtered,
        .voided = gaps->voided + position->folded_void,
        .lost = gaps->permanent + position->folded_lost,
        .held = tide_cursor_pending(&position->cursor),
        .open_gaps = gaps->open,
        .unread = tide_position_unread(position, head),
    };
    out->pending = out->held + out->open_gaps + out->unread;
    out->unexplained = (head - first + 1) - (out->stored + out->dead + out->filtered + out->voided +
                                             out->lost + out->pending);
}
