/* settle_epoch.c - the history that we followed begins, or has ended: sessions, epochs, divergence. See settle.h. */
#include "colony/settle_parts.h"

#include "base/cleanup.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void put_text(char *out, size_t size, const char *text)
{
    (void)snprintf(out, size, "%s", text);
}

/* The epochs that the agent tells; without them the one it is in. */
static int list_epochs(const tide_reply *reply, tide_reply_epoch *alone,
                       const tide_reply_epoch **out)
{
    *out = reply->epochs;
    if (reply->epoch_count > 0)
        return reply->epoch_count;
    *alone = (tide_reply_epoch){.epoch = reply->epoch, .first_seq = reply->epoch_first_seq};
    if (alone->first_seq < 1)
        alone->first_seq = 1;
    put_text(alone->epoch_id, sizeof alone->epoch_id, reply->epoch_id);
    *out = alone;
    return 1;
}

/* Reasons that an agent has evidence for: its history was cut where the epoch began. */
static bool is_evident(const char *reason)
{
    return strcmp(reason, "restored") == 0 || strcmp(reason, "copied") == 0 ||
           strcmp(reason, "failover") == 0;
}

int64_t tide_settling_next_epoch(const tide_reply *reply, int64_t epoch, tide_reply_epoch *next)
{
    tide_reply_epoch alone;
    const tide_reply_epoch *epochs = NULL;
    const int count = list_epochs(reply, &alone, &epochs);
    int at = 0;
    while (at < count && epochs[at].epoch <= epoch)
        at++;
    if (at == count)
        return INT64_MAX;
    /* Of those that began at the same number only the last has numbers; each must have had evidence. */
    const char *doubt = NULL;
    for (;; at++) {
        if (!doubt && !is_evident(epochs[at].reason))
            doubt = epochs[at].reason;
        if (at + 1 == count || epochs[at + 1].first_seq != epochs[at].first_seq)
            break;
    }
    if (next) {
        *next = epochs[at];
        if (doubt)
            put_text(next->reason, sizeof next->reason, doubt);
    }
    return epochs[at].first_seq;
}

/* ---- beginning ---- */

/* A position of this epoch whose first number is first: nothing is read yet. */
static void begin_epoch(tide_position *to, const tide_reply *reply, const tide_reply_epoch *epoch,
                        int64_t first)
{
    put_text(to->session_id, sizeof to->session_id, reply->session_id);
    to->first = first;
    to->last_seq = first - 1;
    to->head = first - 1;
    tide_cursor_done(&to->cursor);
    tide_cursor_init(&to->cursor, first - 1, TIDE_POSITION_HOLES_MAX);
    if (reply->has_state) {
        const int64_t next = tide_settling_next_epoch(reply, epoch->epoch, NULL);
        const int64_t head = reply->head_seq < next - 1 ? reply->head_seq : next - 1;
        to->epoch = epoch->epoch;
        put_text(to->epoch_id, sizeof to->epoch_id, epoch->epoch_id);
        if (to->head < head)
            to->head = head;
    }
    tide_settling_describe(to, reply);
}

tide_status tide_settling_begin_contact(tide_settling *s, tide_error *err)
{
    const tide_reply *reply = s->reply;
    tide_position *to = s->to;
    put_text(s->change->note, sizeof s->change->note, "first contact");
    if (!reply->has_state) {
        put_text(to->session_id, sizeof to->session_id, reply->session_id);
        return tide_settling_page(s, err);
    }
    /* The epoch that owns the oldest number. */
    tide_reply_epoch alone;
    const tide_reply_epoch *epochs = NULL;
    const int count = list_epochs(reply, &alone, &epochs);
    int at = count - 1;
    while (at > 0 && epochs[at].first_seq > reply->oldest_seq)
        at--;
    begin_epoch(to, reply, &epochs[at], reply->oldest_seq);
    s->limit = tide_settling_next_epoch(reply, to->epoch, NULL);
    if (s->limit < INT64_MAX)
        s->limit--;
    return tide_settling_page(s, err);
}

/* ---- ending ---- */

/* What follows has our points up to common: with them the agent can tell whether its history is still ours. */
static void hand_points_on(tide_settling *s, int64_t common)
{
    const tide_position *closed = &s->change->closed;
    tide_position *to = &s->change->to;
    for (int i = 0; i < closed->point_count && closed->points[i].seq <= common; i++)
        to->points[to->point_count++] = closed->points[i];
}

tide_status tide_settling_change_session(tide_settling *s, tide_error *err)
{
    TIDE_TRY(tide_settling_close(s, 0, "session changed", err));
    tide_change *change = s->change;
    change->closes_all_gaps = true;
    put_text(change->note, sizeof change->note, "session changed");
    tide_reply_epoch alone;
    const tide_reply_epoch *epochs = NULL;
    (void)list_epochs(s->reply, &alone, &epochs);
    begin_epoch(&change->to, s->reply, &epochs[0], 1);
    return TIDE_OK;
}

/* Do our points say otherwise than that everything up to through is common to us and the agent, in epochs up to this one? */
static bool is_denied(const tide_position *at, const tide_reply *reply, int64_t through,
                      int64_t epoch)
{
    for (int i = 0; i < at->point_count; i++)
        if (at->points[i].seq > reply->matched_seq && at->points[i].seq <= through &&
            at->points[i].epoch <= epoch)
            return true;
    return false;
}

/* The last number that the agent's history has in common with this epoch, as their ids tell; 0: nothing is known. Who has an epoch has what was
 * before it; and what is in it up to the next one, if that was begun for a reason that the agent had evidence of. */
static int64_t find_common(const tide_position *of, const tide_position *at,
                           const tide_reply *reply)
{
    const tide_reply_epoch *ours = NULL;
    for (int i = 0; i < reply->epoch_count; i++)
        if (reply->epochs[i].epoch == of->epoch && *of->epoch_id &&
            strcmp(reply->epochs[i].epoch_id, of->epoch_id) == 0)
            ours = &reply->epochs[i];
    if (!ours)
        return 0;
    tide_reply_epoch next = {.epoch = 0};
    const int64_t first = tide_settling_next_epoch(reply, of->epoch, &next);
    if (first < INT64_MAX && is_evident(next.reason) && !is_denied(at, reply, first - 1, of->epoch))
        return first - 1;
    return is_denied(at, reply, ours->first_seq - 1, of->epoch) ? 0 : ours->first_seq - 1;
}

static int64_t lower(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Behind the last common number; where that lies before our time, what was dropped before we came stays there: but nothing that is still
 * there, and nothing of the new epoch. */
static int64_t find_first(const tide_settling *s, int64_t common, const tide_reply_epoch *next)
{
    const int64_t began =
        lower(s->change->closed.first, lower(s->reply->oldest_seq, next->first_seq));
    return common + 1 > began ? common + 1 : began;
}

/* Our numbers above common are of a history that the agent does not have; of what it has, everything up to settled is settled. */
static tide_status part_ways(tide_settling *s, int64_t common, int64_t settled,
                             const tide_reply_epoch *next, const char *reason, tide_error *err)
{
    tide_change *change = s->change;
    TIDE_TRY(tide_settling_close(s, common, reason, err));
    change->closes_all_gaps = true;
    change->closes_gaps_above = common;
    (void)snprintf(change->note, sizeof change->note, "%s above %" PRId64, reason, common);
    begin_epoch(&change->to, s->reply, next, find_first(s, settled, next));
    hand_points_on(s, common);
    return TIDE_OK;
}

/* An agent that was put back has what it had dropped before we came: common to both, and never read. It is a gap of the position that closes, whose time
 * begins there then. Of a position with others before it nothing is known: the numbers below may be theirs. */
static tide_status owe_before(tide_settling *s, int64_t common, tide_error *err)
{
    tide_position *closed = &s->change->closed;
    const int64_t oldest = s->reply->oldest_seq;
    const bool is_first = s->gaps && s->gaps->past_epoch == 0;
    if (!is_first || oldest < 1 || oldest >= closed->first || common < closed->first - 1)
        return TIDE_OK;
    const tide_interval before = {oldest, closed->first - 1};
    closed->first = oldest;
    return tide_settling_open_gap(s, before, TIDE_GAP_DETECTED, "missing", err);
}

/* How long an agent takes to pass so many epochs (feed.h): a minute for each eight of them. */
static int64_t get_raise_minutes(int64_t epochs)
{
    return (epochs + 7) / 8 * (TIDE_FEED_RAISE_US / 60000000);
}

static tide_status diverge(tide_settling *s, tide_error *err)
{
    const tide_reply *reply = s->reply;
    const tide_position *at = s->at;
    int64_t epoch = at->epoch;
    if (s->gaps && s->gaps->past_epoch > epoch)
        epoch = s->gaps->past_epoch;
    if (reply->epoch <= epoch)
        return tide_fail(err, TIDE_E_CONFLICT,
                         "the agent's history parted from ours behind %" PRId64
                         ", and it has not begun an epoch above %" PRId64
                         " yet: it begins one within %" PRId64 " min",
                         reply->matched_seq, epoch, get_raise_minutes(epoch - reply->epoch + 1));
    tide_reply_epoch next = {.epoch = 0};
    (void)tide_settling_next_epoch(reply, epoch, &next);
    const int64_t highest = tide_cursor_highest(&at->cursor);
    int64_t common = find_common(at, at, reply);
    if (common < reply->matched_seq)
        common = reply->matched_seq;
    if (common > highest)
        common = highest;
    if (common == INT64_MAX)
        return tide_fail(err, TIDE_E_EXHAUSTED, "no number is left behind the last common one");
    const int64_t past = s->gaps ? s->gaps->past_through : 0;
    TIDE_TRY(part_ways(s, common, past > common ? past : common, &next, "diverged", err));
    return owe_before(s, common, err);
}

/* ---- what was settled before ---- */

bool tide_settle_wants_past(const tide_position *at, const tide_reply *reply)
{
    return reply->has_state && reply->standing == TIDE_FEED_STANDING_DIVERGED &&
           strcmp(at->session_id, reply->session_id) == 0;
}

bool tide_settle_note_past(tide_gap_list *list, const tide_position *at,
                           const tide_position *closed, const tide_reply *reply)
{
    if (closed->closed_at_us == 0 || strcmp(closed->session_id, reply->session_id) != 0)
        return false;
    if (closed->epoch > list->past_epoch)
        list->past_epoch = closed->epoch;
    const int64_t through = lower(find_common(closed, at, reply), closed->head);
    if (through <= list->past_through)
        return false;
    list->past_through = through;
    return true;
}

void tide_settle_lower_past(tide_gap_list *list, const tide_gap *gaps, int count)
{
    for (int i = 0; i < count; i++)
        if (gaps[i].status == TIDE_GAP_PERMANENT && gaps[i].start_seq <= list->past_through &&
            (strcmp(gaps[i].reason, "session changed") == 0 ||
             strcmp(gaps[i].reason, "restored") == 0 || strcmp(gaps[i].reason, "diverged") == 0))
            list->past_through = gaps[i].start_seq - 1;
}

/* ---- a foreign agent ---- */

tide_status tide_settle_fork(tide_change *out, const tide_position *at, int64_t common,
                             int64_t now_us, tide_error *err)
{
    memset(out, 0, sizeof *out);
    TIDE_CLEANUP(tide_change_done) tide_change change = {.note = ""};
    tide_settling s;
    TIDE_TRY(tide_settling_begin(&s, &change, at, now_us, err));
    TIDE_TRY(tide_settling_close(&s, common, "diverged", err));
    change.closes_all_gaps = true;
    change.closes_gaps_above = common;
    (void)snprintf(change.note, sizeof change.note, "diverged above %" PRId64, common);
    tide_position *to = &change.to;
    put_text(to->session_id, sizeof to->session_id, at->session_id);
    to->epoch = at->epoch + 1;
    to->first = common + 1;
    to->last_seq = common;
    to->head = common;
    to->is_foreign = true;
    tide_cursor_done(&to->cursor);
    tide_cursor_init(&to->cursor, common, TIDE_POSITION_HOLES_MAX);
    hand_points_on(&s, common);
    *out = change;
    memset(&change, 0, sizeof change);
    return TIDE_OK;
}

/* Everything of our epoch is settled: the next one begins. */
static tide_status pass_on(tide_settling *s, const tide_reply_epoch *next, tide_error *err)
{
    tide_change *change = s->change;
    const bool is_cut = s->to->head >= next->first_seq;
    TIDE_TRY(
        tide_settling_close(s, next->first_seq - 1, is_cut ? "restored" : "epoch changed", err));
    (void)snprintf(change->note, sizeof change->note, "epoch %" PRId64 " began at %" PRId64,
                   next->epoch, next->first_seq);
    begin_epoch(&change->to, s->reply, next, next->first_seq);
    hand_points_on(s, next->first_seq - 1);
    return TIDE_OK;
}

static tide_status follow_to_next(tide_settling *s, tide_error *err)
{
    tide_reply_epoch next = {.epoch = 0};
    const int64_t first = tide_settling_next_epoch(s->reply, s->at->epoch, &next);
    if (tide_cursor_highest(&s->to->cursor) >= first)
        return part_ways(s, first - 1, first - 1, &next, "restored", err);
    s->limit = first - 1;
    TIDE_TRY(tide_settling_page(s, err));
    if (tide_cursor_contiguous(&s->to->cursor) < first - 1)
        return TIDE_OK;
    return pass_on(s, &next, err);
}

/* A foreign agent has learned to state its epoch: its numbers go on under it. What was held can be asked for now. */
static tide_status adopt(tide_settling *s, tide_error *err)
{
    tide_change *change = s->change;
    const int64_t highest = tide_cursor_highest(&s->to->cursor);
    if (s->reply->head_seq < highest)
        return tide_fail(err, TIDE_E_CONFLICT,
                         "the agent's head is %" PRId64 ", we have read %" PRId64,
                         s->reply->head_seq, highest);
    if (highest == INT64_MAX)
        return tide_fail(err, TIDE_E_EXHAUSTED, "no number is left behind the highest one");
    tide_reply_epoch alone;
    const tide_reply_epoch *epochs = NULL;
    const int count = list_epochs(s->reply, &alone, &epochs);
    int at = count - 1;
    while (at > 0 && epochs[at].first_seq > highest + 1)
        at--;
    TIDE_TRY(tide_settling_close(s, highest, "epoch changed", err));
    (void)snprintf(change->note, sizeof change->note, "the agent states its epoch");
    begin_epoch(&change->to, s->reply, &epochs[at], highest + 1);
    return TIDE_OK;
}

static bool is_other_id(const tide_position *at, const tide_reply *reply)
{
    return reply->epoch == at->epoch && *at->epoch_id && *reply->epoch_id &&
           strcmp(at->epoch_id, reply->epoch_id) != 0;
}

/* Has nothing been read, or given up, in this epoch? */
static bool is_untouched(const tide_position *at)
{
    return tide_cursor_highest(&at->cursor) == at->first - 1 && at->cursor.hole_count == 0;
}

/* Restored twice, and both times the agent gave the new epoch the same number: we had not read anything of the first one, so the
 * second takes its place. */
static void begin_anew(tide_settling *s)
{
    const tide_reply *reply = s->reply;
    tide_position *to = s->to;
    tide_reply_epoch alone;
    const tide_reply_epoch *epochs = NULL;
    const int count = list_epochs(reply, &alone, &epochs);
    const tide_reply_epoch *epoch = &epochs[count - 1];
    begin_epoch(to, reply, epoch, epoch->first_seq < to->first ? epoch->first_seq : to->first);
    (void)snprintf(s->change->note, sizeof s->change->note, "epoch %" PRId64 " is another one",
                   epoch->epoch);
}

static tide_status check_history(const tide_settling *s, tide_error *err)
{
    const tide_position *at = s->at;
    const tide_reply *reply = s->reply;
    if (reply->epoch < at->epoch)
        return tide_fail(err, TIDE_E_CONFLICT,
                         "the agent is in epoch %" PRId64 ", we have read epoch %" PRId64,
                         reply->epoch, at->epoch);
    if (reply->epoch > at->epoch)
        return TIDE_OK;
    if (is_other_id(at, reply) && !is_untouched(at))
        return tide_fail(err, TIDE_E_CONFLICT,
                         "the agent's epoch %" PRId64 " is %s, the one that we have read is %s",
                         at->epoch, reply->epoch_id, at->epoch_id);
    if (!is_other_id(at, reply) && reply->head_seq < tide_cursor_highest(&at->cursor))
        return tide_fail(err, TIDE_E_CONFLICT,
                         "the agent's head is %" PRId64 ", we have read %" PRId64
                         " in the same epoch",
                         reply->head_seq, tide_cursor_highest(&at->cursor));
    return TIDE_OK;
}

tide_status tide_settling_follow(tide_settling *s, tide_error *err)
{
    const tide_reply *reply = s->reply;
    if (s->at->epoch == 0 || s->at->is_foreign)
        return adopt(s, err);
    if (reply->standing == TIDE_FEED_STANDING_DIVERGED)
        return diverge(s, err);
    TIDE_TRY(check_history(s, err));
    if (reply->epoch > s->at->epoch)
        return follow_to_next(s, err);
    if (is_other_id(s->at, reply))
        begin_anew(s);
    if (*s->to->epoch_id == '\0')
        put_text(s->to->epoch_id, sizeof s->to->epoch_id, reply->epoch_id);
    return tide_settling_page(s, err);
}
