/* settle_operator.c - what people do by hand, a session that comes back, numbers that cannot be fetched; each is noted in history. See settle.h. */
#include "colony/settle_parts.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"

enum { ACCEPT_NOTE_MAX = 200 }; /* bytes of a note in front of what the loss was */

static tide_status hand_out(tide_change *out, tide_change *change)
{
    *out = *change;
    memset(change, 0, sizeof *change);
    return TIDE_OK;
}

static tide_status check_open(const tide_position *at, tide_error *err)
{
    if (*at->session_id == '\0')
        return tide_fail(err, TIDE_E_INVALID, "%s of %s was never polled", at->data_type,
                         at->agent_id);
    if (at->closed_at_us != 0)
        return tide_fail(err, TIDE_E_INVALID, "%s of %s: this position is closed", at->data_type,
                         at->agent_id);
    return TIDE_OK;
}

/* Behind which number "from the start" begins: what an agent with state had dropped before our time is gone; what a foreign one did not show
 * may have come since. */
static int64_t get_start(const tide_position *at)
{
    return at->first > 0 && !at->is_foreign ? at->first - 1 : 0;
}

tide_status tide_settle_move(tide_change *out, const tide_position *at, int64_t seq, int64_t now_us,
                             tide_error *err)
{
    memset(out, 0, sizeof *out);
    TIDE_TRY(check_open(at, err));
    const int64_t lowest = get_start(at);
    if (seq < 0 || seq > at->head)
        return tide_fail(err, TIDE_E_INVALID,
                         "%" PRId64 " is no number to go on behind: want 0..%" PRId64, seq,
                         at->head);
    if (seq < lowest)
        seq = lowest;
    if (seq == at->last_seq)
        return TIDE_NONE;
    TIDE_CLEANUP(tide_change_done) tide_change change = {.note = ""};
    tide_settling s;
    TIDE_TRY(tide_settling_begin(&s, &change, at, now_us, err));
    tide_position *to = &change.to;
    if (seq > tide_cursor_contiguous(&to->cursor)) {
        tide_settling_decide_first(&s);
        TIDE_TRY(tide_settling_give_up(&s, tide_cursor_contiguous(&to->cursor), seq,
                                       TIDE_GAP_PERMANENT, "operator", err));
        to->last_seq = tide_cursor_contiguous(&to->cursor);
    } else {
        to->last_seq = seq;
    }
    (void)snprintf(change.note, sizeof change.note, "moved from %" PRId64 " to %" PRId64,
                   at->last_seq, to->last_seq);
    /* Those that are left keep their age: no clock is needed for it. */
    TIDE_TRY(tide_position_hold(to, INT64_MAX, err));
    return hand_out(out, &change);
}

tide_status tide_settle_close(tide_change *out, const tide_position *at, const char *reason,
                              int64_t now_us, tide_error *err)
{
    memset(out, 0, sizeof *out);
    TIDE_TRY(check_open(at, err));
    TIDE_CLEANUP(tide_change_done) tide_change change = {.note = ""};
    tide_settling s;
    TIDE_TRY(tide_settling_begin(&s, &change, at, now_us, err));
    TIDE_TRY(tide_settling_close(&s, 0, reason, err));
    change.closes_all_gaps = true;
    (void)snprintf(change.note, sizeof change.note, "closed: %s", reason);
    return hand_out(out, &change);
}

/* What may be left behind: a position that is read, or none. */
static tide_status leave(tide_settling *s, tide_error *err)
{
    if (*s->at->session_id == '\0')
        return TIDE_OK;
    TIDE_TRY(tide_settling_close(s, 0, "session changed", err));
    s->change->closes_all_gaps = true;
    return TIDE_OK;
}

tide_status tide_settle_return(tide_change *out, const tide_position *at,
                               const tide_position *earlier, const tide_reply *reply,
                               int64_t now_us, tide_error *err)
{
    memset(out, 0, sizeof *out);
    if (*at->session_id)
        TIDE_TRY(check_open(at, err));
    if (earlier->closed_at_us == 0 || strcmp(earlier->session_id, reply->session_id) != 0 ||
        strcmp(at->session_id, reply->session_id) == 0)
        return tide_fail(err, TIDE_E_INVALID, "session %s of %s is not one that was left",
                         reply->session_id, at->agent_id);
    TIDE_CLEANUP(tide_change_done) tide_change change = {.note = ""};
    tide_settling s;
    TIDE_TRY(tide_settling_begin(&s, &change, at, now_us, err));
    TIDE_TRY(leave(&s, err));
    tide_position_done(&change.to);
    TIDE_TRY(tide_position_copy(&change.to, earlier, err));
    tide_position *to = &change.to;
    to->last_seq = get_start(to);
    to->closed_at_us = 0;
    to->closed_reason[0] = '\0';
    to->updated_at_us = to->last_poll_us = now_us;
    (void)snprintf(change.note, sizeof change.note, "session came back");
    return hand_out(out, &change);
}

tide_status tide_settle_skip(tide_change *out, const tide_position *at, const tide_reply *reply,
                             int64_t after, int64_t through, const char *reason, int64_t now_us,
                             tide_error *err)
{
    memset(out, 0, sizeof *out);
    if (*at->session_id && strcmp(at->session_id, reply->session_id) != 0)
        return tide_fail(err, TIDE_E_CONFLICT, "the agent has another session now");
    TIDE_CLEANUP(tide_change_done) tide_change change = {.note = ""};
    tide_settling s;
    TIDE_TRY(tide_settling_begin(&s, &change, at, now_us, err));
    tide_position *to = &change.to;
    (void)snprintf(to->session_id, sizeof to->session_id, "%s", reply->session_id);
    tide_settling_describe(to, reply);
    tide_settling_decide_first(&s);
    TIDE_TRY(tide_settling_give_up(&s, after, through, TIDE_GAP_PERMANENT, reason, err));
    to->head = to->head > through ? to->head : through;
    to->last_seq = tide_cursor_contiguous(&to->cursor);
    to->updated_at_us = to->last_poll_us = now_us;
    (void)snprintf(change.note, sizeof change.note, "%s: went on behind %" PRId64, reason, through);
    TIDE_TRY(tide_position_hold(to, INT64_MAX, err));
    return hand_out(out, &change);
}

/* ---- gaps ---- */

static tide_status turn(tide_change *out, const tide_position *at, const tide_gap *gap,
                        tide_gap_status status, const char *reason, const char *evidence,
                        int64_t now_us, tide_error *err)
{
    TIDE_CLEANUP(tide_change_done) tide_change change = {.note = ""};
    tide_settling s;
    TIDE_TRY(tide_settling_begin(&s, &change, at, now_us, err));
    tide_gap turned = *gap;
    if (evidence)
        (void)snprintf(turned.evidence, sizeof turned.evidence, "%s", evidence);
    if (status == TIDE_GAP_DETECTED)
        turned.attempts = 0;
    tide_gap_pieces pieces;
    tide_gap_pieces_begin(&pieces, &s, &turned);
    TIDE_TRY(tide_gap_pieces_put(&pieces, gap->end_seq, status, reason, err));
    TIDE_TRY(tide_gap_pieces_end(&pieces, err));
    (void)snprintf(change.note, sizeof change.note, "gap %" PRId64 " %s by hand", gap->id,
                   status == TIDE_GAP_DETECTED ? "tried again" : "given up");
    return hand_out(out, &change);
}

static tide_status check_gap(const tide_position *at, const tide_gap *gap, tide_error *err)
{
    if (gap->source_id != at->source_id)
        return tide_fail(err, TIDE_E_INVALID, "gap %" PRId64 " is none of this position", gap->id);
    if (gap->status == TIDE_GAP_RECOVERED)
        return tide_fail(err, TIDE_E_INVALID, "gap %" PRId64 " is recovered already", gap->id);
    return TIDE_OK;
}

tide_status tide_settle_retry(tide_change *out, const tide_position *at, const tide_gap *gap,
                              int64_t now_us, tide_error *err)
{
    memset(out, 0, sizeof *out);
    TIDE_TRY(check_gap(at, gap, err));
    if (gap->status == TIDE_GAP_DETECTED && gap->attempts == 0)
        return TIDE_NONE;
    return turn(out, at, gap, TIDE_GAP_DETECTED, "missing", NULL, now_us, err);
}

tide_status tide_settle_accept(tide_change *out, const tide_position *at, const tide_gap *gap,
                               const char *note, int64_t now_us, tide_error *err)
{
    memset(out, 0, sizeof *out);
    TIDE_TRY(check_gap(at, gap, err));
    if (gap->status == TIDE_GAP_VOID ||
        (gap->status == TIDE_GAP_PERMANENT && strcmp(gap->reason, "operator") == 0))
        return TIDE_NONE;
    /* A loss that has ended keeps in its evidence what it was. */
    tide_gap accepted = *gap;
    if (gap->status == TIDE_GAP_PERMANENT)
        (void)snprintf(accepted.evidence, sizeof accepted.evidence, "%.*s%slost: %s",
                       ACCEPT_NOTE_MAX, note ? note : "", note && *note ? "; " : "", gap->reason);
    else if (note)
        (void)snprintf(accepted.evidence, sizeof accepted.evidence, "%s", note);
    return turn(out, at, gap, TIDE_GAP_PERMANENT, "operator", accepted.evidence, now_us, err);
}
