#include "colony/settle.h"

#include <string.h>

#include "base/cleanup.h"
#include "colony/settle_parts.h"

bool tide_settle_wants_gaps(const tide_position *at, const tide_ask *asked, const tide_reply *reply,
                            tide_interval *range)
{
    *range = (tide_interval){0, 0};
    if (strcmp(at->session_id, reply->session_id) != 0)
        return false;
    for (int i = 0; i < reply->record_count; i++) {
        const int64_t seq = reply->records[i].seq;
        if (seq <= asked->start_seq || seq < at->first || !tide_cursor_has(&at->cursor, seq))
            continue;
        if (range->first == 0)
            range->first = seq;
        range->last = seq;
    }
    return range->first > 0;
}

static bool is_same_cursor(const tide_cursor *a, const tide_cursor *b)
{
    return a->contiguous == b->contiguous && a->highest == b->highest &&
           a->hole_count == b->hole_count &&
           (a->hole_count == 0 ||
            memcmp(a->holes, b->holes, a->hole_count * sizeof *a->holes) == 0);
}

static int64_t get_top_point(const tide_position *position)
{
    return position->point_count > 0 ? position->points[position->point_count - 1].seq : 0;
}

/* Is there something to be stored? What only describes the agent's clock and retention is not worth a transaction; nor are letters without
 * a number that come again and again. That holes begin to be held is: their age must not be forgotten. */
static bool has_changed(const tide_change *change)
{
    const tide_position *from = &change->from;
    const tide_position *to = &change->to;
    return change->is_closing || change->row_count > 0 || change->gap_count > 0 ||
           strcmp(from->session_id, to->session_id) != 0 ||
           strcmp(from->epoch_id, to->epoch_id) != 0 || from->dead != to->dead ||
           from->filtered != to->filtered || from->first != to->first ||
           from->last_seq != to->last_seq || from->head != to->head ||
           from->is_foreign != to->is_foreign || from->held_count != to->held_count ||
           get_top_point(from) != get_top_point(to) || !is_same_cursor(&from->cursor, &to->cursor);
}

static tide_status settle(tide_settling *s, tide_error *err)
{
    if (*s->at->session_id == '\0')
        return tide_settling_begin_contact(s, err);
    if (strcmp(s->at->session_id, s->reply->session_id) != 0)
        return tide_settling_change_session(s, err);
    return s->reply->has_state ? tide_settling_follow(s, err) : tide_settling_page(s, err);
}

tide_status tide_settle(tide_change *out, const tide_position *at, const tide_gap_list *gaps,
                        const tide_ask *asked, const tide_reply *reply, int64_t grace_us,
                        int64_t now_us, int64_t mono_us, tide_error *err)
{
    memset(out, 0, sizeof *out);
    if (at->closed_at_us != 0)
        return tide_fail(err, TIDE_E_INVALID, "%s of %s: a closed position is not read on",
                         at->data_type, at->agent_id);
    TIDE_CLEANUP(tide_change_done) tide_change change = {.note = ""};
    tide_settling s;
    TIDE_TRY(tide_settling_begin(&s, &change, at, now_us, err));
    s.asked = asked;
    s.reply = reply;
    s.gaps = gaps;
    s.grace_us = grace_us;
    s.mono_us = mono_us;
    TIDE_TRY(settle(&s, err));
    if (!has_changed(&change))
        return TIDE_NONE;
    change.to.last_poll_us = now_us;
    if (change.is_closing)
        change.closed.last_poll_us = now_us;
    *out = change;
    memset(&change, 0, sizeof change);
    return TIDE_OK;
}
