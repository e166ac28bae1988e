/* settle_page.c - a page of the history that we follow. See settle.h. */
#include "colony/settle_parts.h"

#include "colony/poll/record_digest.h"

#include <inttypes.h>
#include <string.h>

/* ---- does it fit the question? ---- */

static int count_unnumbered(const tide_reply *reply)
{
    int count = 0;
    while (count < reply->record_count && reply->records[count].seq == 0)
        count++;
    return count;
}

static int64_t get_top(const tide_reply *reply)
{
    return reply->record_count > 0 ? reply->records[reply->record_count - 1].seq : 0;
}

static tide_status check_range(const tide_settling *s, tide_error *err)
{
    const tide_reply *reply = s->reply;
    const int first = count_unnumbered(reply);
    if (first < reply->record_count && reply->records[first].seq <= s->asked->start_seq)
        return tide_fail(err, TIDE_E_CONFLICT,
                         "asked for numbers above %" PRId64 ", the answer has %" PRId64,
                         s->asked->start_seq, reply->records[first].seq);
    if (!reply->has_state)
        return TIDE_OK;
    if (s->asked->last_seq > 0 && get_top(reply) > s->asked->last_seq)
        return tide_fail(err, TIDE_E_CONFLICT,
                         "asked for numbers up to %" PRId64 ", the answer has %" PRId64,
                         s->asked->last_seq, get_top(reply));
    if (reply->hole_count > 0 && reply->holes[0].first_seq <= s->asked->start_seq)
        return tide_fail(err, TIDE_E_INVALID,
                         "hole %" PRId64 "..%" PRId64
                         " lies below what was asked for, numbers above %" PRId64,
                         reply->holes[0].first_seq, reply->holes[0].last_seq, s->asked->start_seq);
    return TIDE_OK;
}

/* Every number between start and scanned_through is a record: only then we know what the chain is made of. */
static bool is_gapless(const tide_settling *s)
{
    const tide_reply *reply = s->reply;
    return reply->record_count > 0 && reply->records[0].seq - 1 == s->asked->start_seq &&
           get_top(reply) == reply->scanned_through_seq &&
           reply->record_count == reply->scanned_through_seq - s->asked->start_seq;
}

static tide_status check_chain(const tide_settling *s, tide_error *err)
{
    const tide_reply *reply = s->reply;
    const unsigned char *before = tide_position_digest(s->at, s->asked->start_seq);
    if (!reply->has_chain || !before || !is_gapless(s))
        return TIDE_OK;
    tide_digest128 digest;
    memcpy(digest.bytes, before, sizeof digest.bytes);
    for (int i = 0; i < reply->record_count; i++)
        digest = tide_record_chain(digest, reply->records[i].bytes);
    if (memcmp(digest.bytes, reply->chain, sizeof reply->chain) == 0)
        return TIDE_OK;
    return tide_fail(err, TIDE_E_DAMAGED,
                     "the records %" PRId64 "..%" PRId64
                     " do not have the digest that the agent states for them",
                     s->asked->start_seq + 1, reply->scanned_through_seq);
}

/* ---- numbers that come again ---- */

typedef struct again {
    tide_settling *s;
    int at; /* in the list of gaps */
    tide_gap_pieces pieces;
} again;

/* A settled number: it recovers the gap it lies in, or is stored already. Numbers ascend. */
static tide_status see_again(again *seen, const tide_reply_record *record, int64_t seq,
                             tide_error *err)
{
    tide_settling *s = seen->s;
    const tide_gap_list *list = s->gaps;
    while (list && seen->at < list->count && list->gaps[seen->at].end_seq < seq)
        seen->at++;
    const tide_gap *gap = list && seen->at < list->count ? &list->gaps[seen->at] : NULL;
    if (!gap || gap->start_seq > seq || gap->status == TIDE_GAP_RECOVERED) {
        s->change->repeated++;
        return TIDE_OK;
    }
    if (seen->pieces.gap != gap) {
        TIDE_TRY(tide_gap_pieces_end(&seen->pieces, err));
        tide_gap_pieces_begin(&seen->pieces, s, gap);
    }
    TIDE_TRY(tide_gap_pieces_put(&seen->pieces, seq - 1, gap->status, NULL, err));
    TIDE_TRY(tide_gap_pieces_put(&seen->pieces, seq, TIDE_GAP_RECOVERED, NULL, err));
    return tide_settling_take(s, record, seq, err);
}

/* ---- an agent with state: everything up to scanned_through is final ---- */

typedef struct page_scan {
    tide_settling *s;
    again seen;
    int64_t through;     /* what is scanned and belongs to this position */
    int next_unnumbered; /* records without a number that take the missing ones */
    bool is_filtered;    /* the missing numbers were filtered */
    bool is_assigned;    /* they are the records without a number */
} page_scan;

static tide_status begin_scan(page_scan *scan, tide_settling *s, tide_error *err)
{
    const tide_reply *reply = s->reply;
    const int unnumbered = count_unnumbered(reply);
    *scan = (page_scan){.s = s, .seen = {.s = s}, .through = reply->scanned_through_seq};
    if (scan->through > s->limit)
        scan->through = s->limit;
    int64_t missing = reply->scanned_through_seq > s->asked->start_seq
                          ? reply->scanned_through_seq - s->asked->start_seq
                          : 0;
    missing -= reply->record_count - unnumbered;
    for (int i = 0; i < reply->hole_count; i++)
        missing -= reply->holes[i].last_seq - reply->holes[i].first_seq + 1;
    if (reply->filtered > missing)
        return tide_fail(err, TIDE_E_INVALID,
                         "%" PRId64 " records filtered, but only %" PRId64 " are missing",
                         reply->filtered, missing);
    scan->is_filtered = reply->filtered > 0 && reply->filtered == missing;
    scan->is_assigned = reply->filtered == 0 && unnumbered > 0 && unnumbered == missing;
    return TIDE_OK;
}

static tide_status settle_record(page_scan *scan, const tide_reply_record *record, int64_t seq,
                                 tide_error *err)
{
    return tide_cursor_has(&scan->s->to->cursor, seq)
               ? see_again(&scan->seen, record, seq, err)
               : tide_settling_take(scan->s, record, seq, err);
}

/* Numbers after+1..last that are neither records nor told. */
static tide_status settle_missing(page_scan *scan, int64_t after, int64_t last, tide_error *err)
{
    tide_settling *s = scan->s;
    tide_interval piece;
    if (scan->is_assigned) {
        for (int64_t seq = after; seq < last; seq++)
            TIDE_TRY(
                settle_record(scan, &s->reply->records[scan->next_unnumbered++], seq + 1, err));
        return TIDE_OK;
    }
    if (!scan->is_filtered)
        return tide_settling_open_gaps(s, after, last, TIDE_GAP_DETECTED, "missing", err);
    while (tide_settling_next(&s->to->cursor, after, last, &piece)) {
        s->to->filtered += piece.last - piece.first + 1;
        after = piece.last;
    }
    return TIDE_OK;
}

static int64_t lower(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Records, holes told and what is missing between them, in the order of their numbers. */
static tide_status walk_scanned(page_scan *scan, tide_error *err)
{
    tide_settling *s = scan->s;
    const tide_reply *reply = s->reply;
    int record = count_unnumbered(reply);
    int hole = 0;
    int64_t after = s->asked->start_seq;
    while (after < scan->through) {
        const int64_t seq = record < reply->record_count ? reply->records[record].seq : INT64_MAX;
        const tide_reply_hole *told = hole < reply->hole_count ? &reply->holes[hole] : NULL;
        const bool is_record = record < reply->record_count;
        const bool is_hole = told && (!is_record || told->first_seq < seq);
        const int64_t next = is_hole ? told->first_seq : seq;
        const bool is_item = is_hole || is_record;
        const int64_t missing = is_item ? lower(next - 1, scan->through) : scan->through;
        TIDE_TRY(settle_missing(scan, after, missing, err));
        if (!is_item || next > scan->through)
            break;
        if (is_hole) {
            const bool is_void = strcmp(told->reason, "void") == 0;
            after = lower(told->last_seq, scan->through);
            TIDE_TRY(tide_settling_open_gaps(s, next - 1, after,
                                             is_void ? TIDE_GAP_VOID : TIDE_GAP_PERMANENT,
                                             told->reason, err));
            hole++;
        } else {
            TIDE_TRY(settle_record(scan, &reply->records[record], seq, err));
            record++;
            after = seq;
        }
    }
    return tide_gap_pieces_end(&scan->seen.pieces, err);
}

static tide_status keep_unnumbered(tide_settling *s, tide_error *err)
{
    const int count = count_unnumbered(s->reply);
    for (int i = 0; i < count; i++)
        TIDE_TRY(tide_settling_keep_unnumbered(s, &s->reply->records[i], err));
    return TIDE_OK;
}

/* Points inside of what was settled of a page, at distances from its end that double, and at the end itself: an agent whose history was cut within it can then
 * say nearly where. They are computed from the records, and believed if they lead to the digest that the agent states; where numbers are missing
 * they cannot be. */
static void keep_points_inside(tide_settling *s, int64_t through)
{
    enum { DISTANCES = 24 };
    const tide_reply *reply = s->reply;
    const int64_t start = s->asked->start_seq;
    const unsigned char *before = tide_position_digest(s->to, start);
    tide_digest128 digest;
    tide_feed_point kept[DISTANCES + 1]; /* descending */
    int count = 0;
    if (!before || count_unnumbered(reply) > 0 ||
        reply->record_count != reply->scanned_through_seq - start)
        return;
    memcpy(digest.bytes, before, sizeof digest.bytes);
    for (int64_t step = 0; count < DISTANCES + 1 && through - step > start;
         step = step == 0 ? 1 : 2 * step)
        kept[count++].seq = through - step;
    for (int i = 0, at = count - 1; i < reply->record_count; i++) {
        if (reply->records[i].seq != start + 1 + i)
            return;
        digest = tide_record_chain(digest, reply->records[i].bytes);
        if (at >= 0 && reply->records[i].seq == kept[at].seq)
            memcpy(kept[at--].digest, digest.bytes, sizeof digest.bytes);
    }
    if (memcmp(digest.bytes, reply->chain, sizeof digest.bytes) != 0)
        return;
    while (count-- > 0)
        tide_position_point(s->to, kept[count].seq, kept[count].digest);
}

static tide_status settle_scanned(tide_settling *s, int64_t *covered, tide_error *err)
{
    page_scan scan;
    TIDE_TRY(begin_scan(&scan, s, err));
    TIDE_TRY(walk_scanned(&scan, err));
    if (!scan.is_assigned)
        TIDE_TRY(keep_unnumbered(s, err));
    *covered = scan.through;
    if (scan.through <= s->asked->start_seq)
        return TIDE_OK;
    TIDE_TRY(tide_cursor_add(&s->to->cursor, s->asked->start_seq + 1, scan.through, NULL, err));
    if (s->reply->has_chain)
        keep_points_inside(s, scan.through);
    if (s->reply->has_chain && scan.through == s->reply->scanned_through_seq)
        tide_position_point(s->to, scan.through, s->reply->chain);
    return TIDE_OK;
}

/* ---- a foreign agent: what it shows is there, what it does not show may still come ---- */

/* Held holes that this answer has looked at and that are old enough. A question that was sent before the time was over proves nothing. */
static tide_status give_up_old(tide_settling *s, int64_t covered, tide_error *err)
{
    tide_position *to = s->to;
    const int64_t asked_us = s->asked->sent_us > 0 ? s->asked->sent_us : s->mono_us;
    for (int i = 0; i < to->held_count; i++) {
        const tide_held_hole *held = &to->held[i];
        const tide_interval hole = held->numbers;
        if (asked_us - held->since_us < s->grace_us || hole.first <= s->asked->start_seq ||
            hole.last > covered)
            continue;
        if (to->first == 0 && hole.first == 1)
            tide_settling_decide_first(s);
        else
            TIDE_TRY(tide_settling_give_up(s, hole.first - 1, hole.last, TIDE_GAP_DETECTED,
                                           "missing", err));
    }
    return TIDE_OK;
}

/* Records below `first` after all: they had not committed when we decided that nothing below it was to come. Our time begins with the lowest of
 * them, what is missing behind it is a gap; each is in a gap record, so that who has gone on already (export) learns of it. */
static tide_status take_from_before(tide_settling *s, int *next, tide_error *err)
{
    const tide_reply *reply = s->reply;
    const int64_t first = s->to->first;
    int64_t through = 0; /* of the lower numbers: what is accounted for */
    while (*next < reply->record_count && reply->records[*next].seq < first) {
        tide_interval run = {reply->records[*next].seq, reply->records[*next].seq - 1};
        if (through == 0)
            s->to->first = run.first;
        else
            TIDE_TRY(tide_settling_open_gap(s, (tide_interval){through + 1, run.first - 1},
                                            TIDE_GAP_DETECTED, "missing", err));
        for (; *next < reply->record_count && reply->records[*next].seq == run.last + 1 &&
               run.last + 1 < first;
             (*next)++, run.last++)
            TIDE_TRY(tide_settling_take(s, &reply->records[*next], run.last + 1, err));
        TIDE_TRY(tide_settling_open_gap(s, run, TIDE_GAP_RECOVERED, "missing", err));
        through = run.last;
    }
    if (through == 0 || through + 1 == first)
        return TIDE_OK;
    return tide_settling_open_gap(s, (tide_interval){through + 1, first - 1}, TIDE_GAP_DETECTED,
                                  "missing", err);
}

/* Digests of records, at distances from the page's end that double: one of them overlaps the next
 * page, and the others tell where a history has parted. */
static void keep_shown_points(tide_settling *s)
{
    enum { STEPS = 24 };
    const tide_reply *reply = s->reply;
    tide_position *to = s->to;
    const int64_t top = to->point_count > 0 ? to->points[to->point_count - 1].seq : 0;
    if (get_top(reply) <= top)
        return;
    for (int step = STEPS; step >= 0; step--) {
        const int64_t back = step == 0 ? 0 : INT64_C(1) << (step - 1);
        const int64_t i = reply->record_count - 1 - back;
        unsigned char digest[TIDE_FEED_DIGEST_SIZE];
        if (i < 0 || reply->records[i].seq <= top || reply->records[i].is_dead ||
            !tide_record_fields_digest(reply->records[i].message, digest))
            continue;
        tide_position_point(to, reply->records[i].seq, digest);
    }
}

static tide_status settle_shown(tide_settling *s, int64_t *covered, tide_error *err)
{
    const tide_reply *reply = s->reply;
    tide_cursor *cursor = &s->to->cursor;
    again seen = {.s = s};
    int next = count_unnumbered(reply);
    TIDE_TRY(take_from_before(s, &next, err));
    for (int i = next; i < reply->record_count; i++) {
        const tide_reply_record *record = &reply->records[i];
        if (tide_cursor_has(cursor, record->seq)) {
            TIDE_TRY(see_again(&seen, record, record->seq, err));
            continue;
        }
        TIDE_TRY(tide_cursor_add(cursor, record->seq, record->seq, NULL, err));
        TIDE_TRY(tide_settling_take(s, record, record->seq, err));
    }
    TIDE_TRY(tide_gap_pieces_end(&seen.pieces, err));
    TIDE_TRY(keep_unnumbered(s, err));
    if (tide_cursor_has(cursor, 1) && s->to->first == 0)
        s->to->first = 1;
    keep_shown_points(s);
    *covered = reply->record_count > 0 ? get_top(reply) : INT64_MAX;
    TIDE_TRY(tide_position_hold(s->to, s->mono_us, err));
    return give_up_old(s, *covered, err);
}

/* ---- both ---- */

void tide_settling_describe(tide_position *to, const tide_reply *reply)
{
    to->is_foreign = !reply->has_state;
    if (!reply->has_state)
        return;
    to->oldest = reply->oldest_seq;
    to->next_arrived_ms = reply->next_arrived_ms;
    to->head_arrived_ms = reply->head_arrived_ms;
    to->agent_now_ms = reply->now_ms;
    to->retention_ms = reply->retention_ms;
}

/* Reading goes on at the prefix; after a reset, where this answer has come to. */
static void move_last(tide_settling *s, int64_t covered)
{
    tide_position *to = s->to;
    const int64_t contiguous = tide_cursor_contiguous(&to->cursor);
    if (s->at->last_seq >= tide_cursor_contiguous(&s->at->cursor))
        to->last_seq = contiguous;
    else if (s->asked->start_seq <= to->last_seq && covered > to->last_seq)
        to->last_seq = lower(covered, contiguous);
}

tide_status tide_settling_page(tide_settling *s, tide_error *err)
{
    tide_position *to = s->to;
    int64_t covered = 0;
    TIDE_TRY(check_range(s, err));
    if (s->reply->has_state) {
        TIDE_TRY(check_chain(s, err));
        TIDE_TRY(settle_scanned(s, &covered, err));
    } else {
        TIDE_TRY(settle_shown(s, &covered, err));
    }
    TIDE_TRY(tide_settling_trim(s, err));
    TIDE_TRY(tide_position_hold(to, s->mono_us, err));
    move_last(s, covered);
    const int64_t highest = tide_cursor_highest(&to->cursor);
    const int64_t stated = s->reply->has_state ? lower(s->reply->head_seq, s->limit) : 0;
    if (to->head < highest)
        to->head = highest;
    if (to->head < stated)
        to->head = stated;
    s->change->frames = s->reply->frames;
    s->change->frame_count = s->reply->frame_count;
    tide_settling_describe(to, s->reply);
    return TIDE_OK;
}
