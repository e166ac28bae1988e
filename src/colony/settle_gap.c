/* settle_gap.c - what became of one gap: recovery, number by number. See settle.h. */
#include "colony/settle_parts.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"

typedef struct recovery {
    tide_settling s;
    const tide_gap *gap;
    tide_gap tried; /* the gap with this attempt counted */
    tide_gap_pieces pieces;
    int attempt_max;
    int64_t begin; /* the answer speaks of begin..end of the gap; begin > end: of nothing */
    int64_t end;
    int next_record;     /* first one at or above begin */
    int unnumbered;      /* records without a number */
    int next_unnumbered; /* that takes the next missing number */
    bool is_assigned;    /* there are as many of them as numbers are missing: they are those */
    bool has_lower;      /* the answer has numbers below the gap */
} recovery;

static tide_status check_gap(const tide_position *at, const tide_gap *gap, tide_error *err)
{
    if (gap->source_id != at->source_id || gap->start_seq < 1 || gap->end_seq < gap->start_seq)
        return tide_fail(err, TIDE_E_INVALID,
                         "gap %" PRId64 " (%" PRId64 "..%" PRId64 ") is none of this position",
                         gap->id, gap->start_seq, gap->end_seq);
    if (gap->status == TIDE_GAP_RECOVERED)
        return tide_fail(err, TIDE_E_INVALID, "gap %" PRId64 " is recovered already", gap->id);
    return TIDE_OK;
}

static tide_status begin(recovery *r, tide_change *change, const tide_position *at,
                         const tide_gap *gap, int64_t now_us, tide_error *err)
{
    memset(r, 0, sizeof *r);
    TIDE_TRY(check_gap(at, gap, err));
    TIDE_TRY(tide_settling_begin(&r->s, change, at, now_us, err));
    r->gap = gap;
    r->tried = *gap;
    if (r->tried.attempts < INT32_MAX)
        r->tried.attempts++;
    r->tried.last_attempt_us = now_us;
    tide_gap_pieces_begin(&r->pieces, &r->s, &r->tried);
    return TIDE_OK;
}

/* The gap goes on as it is, or as it was before somebody began with it. */
static tide_gap_status get_resting(const tide_gap *gap)
{
    return gap->status == TIDE_GAP_RECOVERING ? TIDE_GAP_DETECTED : gap->status;
}

/* ---- the whole gap ends ---- */

static tide_status end_whole(recovery *r, tide_gap_status status, const char *reason,
                             tide_error *err)
{
    TIDE_TRY(tide_gap_pieces_put(&r->pieces, r->gap->end_seq, status, reason, err));
    return tide_gap_pieces_end(&r->pieces, err);
}

/* What no answer of this agent can bring any more; an ended gap stays as it ended. */
static tide_status lose_whole(recovery *r, const char *reason, tide_error *err)
{
    if (!tide_gap_is_open(r->gap->status))
        return end_whole(r, r->gap->status, NULL, err);
    return end_whole(r, TIDE_GAP_PERMANENT, reason, err);
}

/* ---- number by number ---- */

/* What the answer speaks of. An agent with state says so; a foreign one has shown everything up to its highest record,
 * and with an empty answer that there is nothing at all. */
static tide_status find_range(recovery *r, tide_error *err)
{
    const tide_reply *reply = r->s.reply;
    const int64_t start = r->s.asked->start_seq;
    if (start >= r->gap->end_seq)
        return tide_fail(err, TIDE_E_INVALID,
                         "asked for numbers above %" PRId64 ", the gap ends at %" PRId64, start,
                         r->gap->end_seq);
    int unnumbered = 0;
    while (unnumbered < reply->record_count && reply->records[unnumbered].seq == 0)
        unnumbered++;
    r->unnumbered = unnumbered;
    const bool is_empty = unnumbered == reply->record_count;
    const int64_t lowest = is_empty ? 0 : reply->records[unnumbered].seq;
    const int64_t top = is_empty ? 0 : reply->records[reply->record_count - 1].seq;
    if (!is_empty && lowest <= start)
        return tide_fail(err, TIDE_E_CONFLICT,
                         "asked for numbers above %" PRId64 ", the answer has %" PRId64, start,
                         lowest);
    if (reply->has_state)
        r->end = reply->scanned_through_seq;
    else
        r->end = reply->record_count == 0 ? INT64_MAX : top;
    if (r->end > r->gap->end_seq)
        r->end = r->gap->end_seq;
    if (r->end > r->s.limit)
        r->end = r->s.limit;
    r->begin = start < r->gap->start_seq ? r->gap->start_seq : start + 1;
    r->next_record = unnumbered;
    r->has_lower = !is_empty && lowest < r->gap->start_seq;
    while (r->next_record < reply->record_count && reply->records[r->next_record].seq < r->begin)
        r->next_record++;
    return TIDE_OK;
}

static void match_unnumbered(recovery *r)
{
    const tide_reply *reply = r->s.reply;
    if (!reply->has_state || r->unnumbered == 0 || r->begin > r->end)
        return;
    int64_t missing = r->end - r->begin + 1;
    for (int i = r->next_record; i < reply->record_count && reply->records[i].seq <= r->end; i++)
        missing--;
    for (int i = 0; i < reply->hole_count; i++) {
        const int64_t first =
            reply->holes[i].first_seq > r->begin ? reply->holes[i].first_seq : r->begin;
        const int64_t last = reply->holes[i].last_seq < r->end ? reply->holes[i].last_seq : r->end;
        missing -= first <= last ? last - first + 1 : 0;
    }
    r->is_assigned = missing == r->unnumbered;
}

/* An agent with state has said all there is to say. */
static bool is_final(const recovery *r)
{
    return r->s.reply->has_state || r->tried.attempts >= r->attempt_max;
}

/* Up to last nothing came and nothing was told. */
static tide_status settle_missing(recovery *r, int64_t last, tide_error *err)
{
    const tide_gap *gap = r->gap;
    while (r->is_assigned && r->pieces.through < last) {
        const int64_t seq = r->pieces.through + 1;
        const tide_reply_record *record = &r->s.reply->records[r->next_unnumbered++];
        TIDE_TRY(tide_settling_take(&r->s, record, seq, err));
        TIDE_TRY(tide_gap_pieces_put(&r->pieces, seq, TIDE_GAP_RECOVERED, NULL, err));
    }
    if (!tide_gap_is_open(gap->status))
        return tide_gap_pieces_put(&r->pieces, last, gap->status, NULL, err);
    if (is_final(r) && r->unnumbered > 0)
        return tide_gap_pieces_put(&r->pieces, last, TIDE_GAP_PERMANENT, "undecodable", err);
    if (r->s.reply->has_state)
        return tide_gap_pieces_put(&r->pieces, last, TIDE_GAP_VOID, "rolled back", err);
    if (!is_final(r))
        return tide_gap_pieces_put(&r->pieces, last, TIDE_GAP_DETECTED, NULL, err);
    if (r->has_lower)
        return tide_gap_pieces_put(&r->pieces, last, TIDE_GAP_VOID, "presumed", err);
    return tide_gap_pieces_put(&r->pieces, last, TIDE_GAP_PERMANENT, "retention", err);
}

static tide_status settle_told(recovery *r, const tide_reply_hole *hole, tide_error *err)
{
    const int64_t last = hole->last_seq < r->end ? hole->last_seq : r->end;
    const bool is_void = strcmp(hole->reason, "void") == 0;
    if (!tide_gap_is_open(r->gap->status))
        return tide_gap_pieces_put(&r->pieces, last, r->gap->status, NULL, err);
    return tide_gap_pieces_put(&r->pieces, last, is_void ? TIDE_GAP_VOID : TIDE_GAP_PERMANENT,
                               hole->reason, err);
}

/* Records and holes of the answer inside begin..end, in the order of their numbers. */
static tide_status walk(recovery *r, tide_error *err)
{
    const tide_reply *reply = r->s.reply;
    int hole = 0;
    while (r->pieces.through < r->end) {
        while (hole < reply->hole_count && reply->holes[hole].last_seq <= r->pieces.through)
            hole++;
        const tide_reply_record *record =
            r->next_record < reply->record_count && reply->records[r->next_record].seq <= r->end
                ? &reply->records[r->next_record]
                : NULL;
        const tide_reply_hole *told =
            hole < reply->hole_count && reply->holes[hole].first_seq <= r->end ? &reply->holes[hole]
                                                                               : NULL;
        if (told && record && record->seq < told->first_seq)
            told = NULL;
        if (!record && !told)
            return settle_missing(r, r->end, err);
        TIDE_TRY(settle_missing(r, (told ? told->first_seq : record->seq) - 1, err));
        if (told) {
            TIDE_TRY(settle_told(r, told, err));
            continue;
        }
        TIDE_TRY(tide_settling_take(&r->s, record, record->seq, err));
        TIDE_TRY(tide_gap_pieces_put(&r->pieces, record->seq, TIDE_GAP_RECOVERED, NULL, err));
        r->next_record++;
    }
    return TIDE_OK;
}

/* What the answer did not reach stays open. Tries count only where nothing came at all: a wide gap is worked on in steps. */
static tide_status settle_rest(recovery *r, tide_error *err)
{
    const tide_gap *gap = r->gap;
    tide_gap_status status = get_resting(gap);
    const char *reason = NULL;
    const bool has_moved = r->begin <= r->end;
    if (has_moved && r->s.reply->has_state)
        r->tried.attempts = 0;
    else if (r->s.reply->has_state && tide_gap_is_open(gap->status) &&
             r->tried.attempts >= r->attempt_max) {
        status = TIDE_GAP_PERMANENT;
        reason = "unanswered";
    }
    if (r->s.limit < gap->end_seq && tide_gap_is_open(gap->status)) {
        const int64_t known = r->s.limit > r->pieces.through ? r->s.limit : r->pieces.through;
        TIDE_TRY(tide_gap_pieces_put(&r->pieces, known, status, reason, err));
        status = TIDE_GAP_PERMANENT;
        reason = "restored";
    }
    TIDE_TRY(tide_gap_pieces_put(&r->pieces, gap->end_seq, status, reason, err));
    return tide_gap_pieces_end(&r->pieces, err);
}

static tide_status recover(recovery *r, tide_error *err)
{
    const tide_reply *reply = r->s.reply;
    const tide_position *at = r->s.at;
    if (strcmp(reply->session_id, at->session_id) != 0)
        return lose_whole(r, "session changed", err);
    if (reply->has_state && at->epoch > 0) {
        if (reply->epoch < at->epoch)
            return tide_fail(err, TIDE_E_CONFLICT,
                             "the agent is in epoch %" PRId64 ", the gap is of epoch %" PRId64,
                             reply->epoch, at->epoch);
        if (reply->standing == TIDE_FEED_STANDING_DIVERGED && reply->matched_seq < r->gap->end_seq)
            return lose_whole(r, "diverged", err);
        const int64_t next = tide_settling_next_epoch(reply, at->epoch, NULL);
        r->s.limit = next < INT64_MAX ? next - 1 : next;
    }
    TIDE_TRY(find_range(r, err));
    match_unnumbered(r);
    /* Below what was asked for nothing is known. */
    TIDE_TRY(tide_gap_pieces_put(&r->pieces,
                                 r->begin - 1 < r->gap->end_seq ? r->begin - 1 : r->gap->end_seq,
                                 get_resting(r->gap), NULL, err));
    TIDE_TRY(walk(r, err));
    for (int i = 0; i < r->unnumbered && !r->is_assigned && is_final(r); i++)
        TIDE_TRY(tide_settling_keep_unnumbered(&r->s, &reply->records[i], err));
    return settle_rest(r, err);
}

static tide_status hand_out(tide_change *out, tide_change *change)
{
    *out = *change;
    memset(change, 0, sizeof *change);
    return TIDE_OK;
}

tide_status tide_settle_gap(tide_change *out, const tide_position *at, const tide_gap *gap,
                            const tide_ask *asked, const tide_reply *reply, int attempt_max,
                            int64_t now_us, tide_error *err)
{
    memset(out, 0, sizeof *out);
    TIDE_CLEANUP(tide_change_done) tide_change change = {.note = ""};
    recovery r;
    TIDE_TRY(begin(&r, &change, at, gap, now_us, err));
    r.s.asked = asked;
    r.s.reply = reply;
    r.attempt_max = attempt_max;
    TIDE_TRY(recover(&r, err));
    change.frames = reply->frames;
    change.frame_count = reply->frame_count;
    return hand_out(out, &change);
}

tide_status tide_settle_miss(tide_change *out, const tide_position *at, const tide_gap *gap,
                             const char *why, int attempt_max, int64_t give_up_us, int64_t now_us,
                             tide_error *err)
{
    memset(out, 0, sizeof *out);
    TIDE_CLEANUP(tide_change_done) tide_change change = {.note = ""};
    recovery r;
    TIDE_TRY(begin(&r, &change, at, gap, now_us, err));
    (void)snprintf(r.tried.evidence, sizeof r.tried.evidence, "%s", why);
    const bool is_over = tide_gap_is_open(gap->status) && r.tried.attempts >= attempt_max &&
                         now_us - gap->detected_at_us >= give_up_us;
    TIDE_TRY(end_whole(&r, is_over ? TIDE_GAP_PERMANENT : get_resting(gap),
                       is_over ? "unreachable" : NULL, err));
    return hand_out(out, &change);
}
