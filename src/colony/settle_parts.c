#include "colony/settle_parts.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/list.h"

/* ---- a change ---- */

tide_status tide_settling_begin(tide_settling *s, tide_change *change, const tide_position *at,
                                int64_t now_us, tide_error *err)
{
    *s = (tide_settling){
        .change = change, .at = at, .to = &change->to, .now_us = now_us, .limit = INT64_MAX};
    memset(change, 0, sizeof *change);
    TIDE_TRY(tide_position_copy(&change->from, at, err));
    TIDE_TRY(tide_position_copy(&change->to, at, err));
    if (change->to.created_at_us == 0)
        change->to.created_at_us = now_us;
    change->to.updated_at_us = now_us;
    change->to.cursor.hole_max = TIDE_POSITION_HOLES_MAX;
    return TIDE_OK;
}

void tide_change_done(tide_change *change)
{
    tide_position_done(&change->from);
    tide_position_done(&change->to);
    tide_position_done(&change->closed);
    free(change->rows);
    free(change->dead);
    free(change->gaps);
    memset(change, 0, sizeof *change);
}

/* ---- rows and dead letters ---- */

static tide_status add_dead(tide_settling *s, const tide_reply_record *record, int64_t seq,
                            tide_error *err)
{
    tide_change *change = s->change;
    if (!change->dead) {
        TIDE_ALLOC(change->dead, (size_t)s->reply->record_count, err);
    }
    change->dead[change->dead_count++] =
        (tide_dead_letter){.seq = seq, .reason = record->reason, .bytes = record->bytes};
    return TIDE_OK;
}

tide_status tide_settling_take(tide_settling *s, const tide_reply_record *record, int64_t seq,
                               tide_error *err)
{
    tide_change *change = s->change;
    if (record->is_dead) {
        TIDE_TRY(add_dead(s, record, seq, err));
        s->to->dead++;
        return TIDE_OK;
    }
    if (!change->rows) {
        change->rows = calloc((size_t)s->reply->record_count, sizeof(void *));
        TIDE_NEED_MEMORY(change->rows, err);
    }
    change->rows[change->row_count++] = record;
    s->to->stored++;
    change->stored++;
    return TIDE_OK;
}

tide_status tide_settling_keep_unnumbered(tide_settling *s, const tide_reply_record *record,
                                          tide_error *err)
{
    return add_dead(s, record, 0, err);
}

/* ---- gap records ---- */

static tide_status add_gap(tide_settling *s, const tide_gap *gap, tide_error *err)
{
    tide_change *change = s->change;
    TIDE_TRY(
        tide_list_room(&change->gaps, change->gap_count, sizeof *change->gaps, TIDE_LIST_MAX, err));
    change->gaps[change->gap_count++] = *gap;
    return TIDE_OK;
}

static void count_end(tide_change *change, tide_gap_status status)
{
    change->recovered += status == TIDE_GAP_RECOVERED;
    change->permanent += status == TIDE_GAP_PERMANENT;
    change->voided += status == TIDE_GAP_VOID;
}

tide_status tide_settling_open_gap(tide_settling *s, tide_interval numbers, tide_gap_status status,
                                   const char *reason, tide_error *err)
{
    const tide_position *to = s->to;
    tide_gap gap = {
        .epoch = to->epoch,
        .source_id = to->source_id,
        .start_seq = numbers.first,
        .end_seq = numbers.last,
        .status = status,
        .detected_at_us = s->now_us,
        .recovered_at_us = status == TIDE_GAP_RECOVERED ? s->now_us : 0,
        .settled_at_us = tide_gap_is_open(status) ? 0 : s->now_us,
    };
    memcpy(gap.agent_id, to->agent_id, sizeof gap.agent_id);
    memcpy(gap.data_type, to->data_type, sizeof gap.data_type);
    memcpy(gap.session_id, to->session_id, sizeof gap.session_id);
    (void)snprintf(gap.reason, sizeof gap.reason, "%s", reason);
    s->change->detected++;
    count_end(s->change, status);
    return add_gap(s, &gap, err);
}

bool tide_settling_next(const tide_cursor *cursor, int64_t after, int64_t last, tide_interval *out)
{
    if (after >= last)
        return false;
    const int64_t highest = tide_cursor_highest(cursor);
    if (tide_cursor_next_hole(cursor, after, out) != TIDE_OK) {
        if (highest >= last)
            return false;
        *out = (tide_interval){(after > highest ? after : highest) + 1, last};
        return true;
    }
    if (out->first > last)
        return false;
    if (out->last > last)
        out->last = last;
    return true;
}

tide_status tide_settling_open_gaps(tide_settling *s, int64_t after, int64_t last,
                                    tide_gap_status status, const char *reason, tide_error *err)
{
    tide_interval piece;
    while (tide_settling_next(&s->to->cursor, after, last, &piece)) {
        TIDE_TRY(tide_settling_open_gap(s, piece, status, reason, err));
        after = piece.last;
    }
    return TIDE_OK;
}

tide_status tide_settling_give_up(tide_settling *s, int64_t after, int64_t last,
                                  tide_gap_status status, const char *reason, tide_error *err)
{
    if (after >= last)
        return TIDE_OK;
    TIDE_TRY(tide_settling_open_gaps(s, after, last, status, reason, err));
    return tide_cursor_add(&s->to->cursor, after + 1, last, NULL, err);
}

/* ---- holes of the cursor ---- */

void tide_settling_decide_first(tide_settling *s)
{
    tide_position *to = s->to;
    tide_interval hole;
    if (to->first > 0)
        return;
    to->first = 1;
    if (tide_cursor_next_hole(&to->cursor, 0, &hole) == TIDE_OK && hole.first == 1) {
        to->first = hole.last + 1;
        (void)tide_cursor_raise(&to->cursor, hole.last);
    }
}

tide_status tide_settling_trim(tide_settling *s, tide_error *err)
{
    tide_interval hole;
    while (s->to->cursor.hole_count > TIDE_POSITION_HELD_MAX &&
           tide_cursor_next_hole(&s->to->cursor, 0, &hole) == TIDE_OK) {
        if (s->to->first == 0 && hole.first == 1)
            tide_settling_decide_first(s);
        else
            TIDE_TRY(tide_settling_give_up(s, hole.first - 1, hole.last, TIDE_GAP_DETECTED,
                                           "missing", err));
    }
    return TIDE_OK;
}

/* ---- gaps that are taken apart ---- */

void tide_gap_pieces_begin(tide_gap_pieces *pieces, tide_settling *s, const tide_gap *gap)
{
    *pieces = (tide_gap_pieces){.s = s, .gap = gap, .through = gap->start_seq - 1};
}

static bool has_piece(const tide_gap_pieces *pieces)
{
    return pieces->through >= pieces->gap->start_seq;
}

static tide_status flush(tide_gap_pieces *pieces, tide_error *err)
{
    if (!has_piece(pieces))
        return TIDE_OK;
    tide_gap *piece = &pieces->piece;
    piece->end_seq = pieces->through;
    if (piece->status != pieces->gap->status)
        count_end(pieces->s->change, piece->status);
    return add_gap(pieces->s, piece, err);
}

static void start_piece(tide_gap_pieces *pieces, tide_gap_status status, const char *reason)
{
    const bool is_first = !has_piece(pieces);
    const tide_gap *gap = pieces->gap;
    const int64_t now_us = pieces->s->now_us;
    tide_gap *piece = &pieces->piece;
    *piece = *gap;
    piece->id = is_first ? gap->id : 0;
    piece->start_seq = pieces->through + 1;
    piece->status = status;
    if (reason)
        (void)snprintf(piece->reason, sizeof piece->reason, "%s", reason);
    if (status != gap->status)
        piece->settled_at_us = tide_gap_is_open(status) ? 0 : now_us;
    if (status == TIDE_GAP_RECOVERED)
        piece->recovered_at_us = now_us;
}

tide_status tide_gap_pieces_put(tide_gap_pieces *pieces, int64_t last, tide_gap_status status,
                                const char *reason, tide_error *err)
{
    if (last <= pieces->through)
        return TIDE_OK;
    const tide_gap *piece = &pieces->piece;
    const char *wanted = reason ? reason : pieces->gap->reason;
    const bool grows =
        has_piece(pieces) && piece->status == status && strcmp(piece->reason, wanted) == 0;
    if (!grows) {
        TIDE_TRY(flush(pieces, err));
        start_piece(pieces, status, reason);
    }
    pieces->through = last;
    return TIDE_OK;
}

tide_status tide_gap_pieces_end(tide_gap_pieces *pieces, tide_error *err)
{
    if (!pieces->gap)
        return TIDE_OK;
    TIDE_TRY(tide_gap_pieces_put(pieces, pieces->gap->end_seq, pieces->gap->status, NULL, err));
    TIDE_TRY(flush(pieces, err));
    pieces->gap = NULL;
    return TIDE_OK;
}

/* ---- closing ---- */

tide_status tide_settling_close(tide_settling *s, int64_t common, const char *reason,
                                tide_error *err)
{
    tide_change *change = s->change;
    assert(s->to == &change->to);
    change->closed = change->to;
    tide_position_init(&change->to, change->closed.agent_id, change->closed.data_type);
    change->to.created_at_us = change->to.updated_at_us = s->now_us;
    change->is_closing = true;
    s->to = &change->closed;

    tide_position *closed = &change->closed;
    tide_settling_decide_first(s);
    const int64_t head = closed->head;
    const int64_t below = common < head ? common : head;
    TIDE_TRY(tide_settling_open_gaps(s, 0, below, TIDE_GAP_DETECTED, "missing", err));
    TIDE_TRY(tide_settling_open_gaps(s, below, head, TIDE_GAP_PERMANENT, reason, err));
    (void)tide_cursor_raise(&closed->cursor, head);
    closed->last_seq = tide_cursor_contiguous(&closed->cursor);
    closed->closed_at_us = s->now_us;
    (void)snprintf(closed->closed_reason, sizeof closed->closed_reason, "%s", reason);
    free(closed->held);
    closed->held = NULL;
    closed->held_count = 0;
    return TIDE_OK;
}
