/* poller_take.c - a page's answer becomes rows.
 *
 * The sink accepts a change only in place of the version it was made from. When somebody else (recovery, an operator) was first, the
 * position is loaded again; as long as the same question would be asked again the answer is settled a second time. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "colony/poller_parts.h"

enum { SETTLE_TRIES = 4 };

/* Where a position stands: two that are equal would be asked the same question. */
typedef struct place {
    char session_id[TIDE_POSITION_ID_MAX + 1];
    int64_t epoch;
    int64_t last_seq;
    int64_t highest;
    int64_t head;
    int64_t pending;
} place;

static place place_of(const tide_position *at)
{
    place p = {.epoch = at->epoch,
               .last_seq = at->last_seq,
               .highest = at->cursor.highest,
               .head = at->head,
               .pending = tide_cursor_pending(&at->cursor)};
    memcpy(p.session_id, at->session_id, sizeof p.session_id);
    return p;
}

static bool is_same_place(const place *a, const place *b)
{
    return strcmp(a->session_id, b->session_id) == 0 && a->epoch == b->epoch &&
           a->last_seq == b->last_seq && a->highest == b->highest && a->head == b->head &&
           a->pending == b->pending;
}

/* An agent that we did not write may answer less than was asked for: it has no more when an answer brings nothing new. Of another session
 * nothing has been read yet; but one that has another session each time is not asked in a loop. */
static void look_for_more(tide_poll_stream *stream, const place *before)
{
    const place after = place_of(&stream->position);
    const bool is_turn = *before->session_id && strcmp(before->session_id, after.session_id) != 0;
    stream->is_more = is_turn ? !stream->is_turned : !is_same_place(before, &after);
    stream->is_turned = is_turn;
}

/* What the answer says of its stream beyond its records. */
static void note_state(tide_poller *poller, tide_poll_stream *stream, const place *before,
                       const tide_reply *reply)
{
    memcpy(poller->session_id, reply->session_id, sizeof poller->session_id);
    stream->page_us = tide_poller_mono(poller);
    if (!reply->has_state) {
        look_for_more(stream, before);
        return;
    }
    stream->is_more = reply->has_more;
    stream->is_told = true;
    stream->head = reply->head_seq;
    stream->epoch = reply->epoch;
    stream->arrived_ms = reply->next_arrived_ms;
    stream->now_ms = reply->now_ms;
    stream->retention_ms = reply->retention_ms;
    stream->told_us = tide_poller_mono(poller);
    tide_poller_note_clock(poller, reply->now_ms);
}

/* The change was applied: its position is the stream's now. */
static void adopt(tide_poller *poller, tide_poll_stream *stream, tide_change *change,
                  const tide_gap_list *ended)
{
    const tide_poller_events *events = &poller->options.events;
    tide_poller_report_change(&poller->options.reporter, change, ended);
    if (events->applied)
        events->applied(events->arg, change);
    if (change->row_count > 0 || change->is_closing) {
        poller->idle_watches = 0;
        poller->watch_us = 0;
    }
    if (change->is_closing) {
        free(stream->past);
        stream->past = NULL;
    }
    tide_poller_replace(stream, &change->to);
}

static void tell_not_stored(tide_poller *poller, tide_poll_stream *stream, tide_status status,
                            const char *text)
{
    const tide_poller_events *events = &poller->options.events;
    if (events->not_stored)
        events->not_stored(events->arg, poller->agent.agent_id, stream->name, status, text);
}

/* ---- a session that was here before ---- */

typedef struct search {
    const tide_reply *reply;
    tide_position found;
    bool is_found;
} search;

static void search_done(search *s)
{
    tide_position_done(&s->found);
}

static bool is_present_epoch(const tide_position *position, const tide_reply *reply)
{
    return position->epoch == reply->epoch && strcmp(position->epoch_id, reply->epoch_id) == 0;
}

/* Of its epochs the one that the agent is in; else the last that there was, so that the agent is shown its number and begins none that was
 * there already. */
static tide_status match_position(void *arg, const tide_position *position,
                                  const tide_gap_sums *gaps, tide_error *err)
{
    (void)gaps;
    search *s = arg;
    if (position->closed_at_us == 0 || strcmp(position->session_id, s->reply->session_id) != 0 ||
        (s->is_found &&
         (is_present_epoch(&s->found, s->reply) ||
          (position->epoch <= s->found.epoch && !is_present_epoch(position, s->reply)))))
        return TIDE_OK;
    tide_position_done(&s->found);
    TIDE_TRY(tide_position_copy(&s->found, position, err));
    s->is_found = true;
    return TIDE_OK;
}

/* ---- epochs that were here before ---- */

typedef struct past {
    tide_sink *sink;
    tide_poll_stream *stream;
    const tide_reply *reply;
    int64_t through;
    int64_t epoch;
    int64_t told_epoch;    /* the latest that the agent tells of */
    int64_t matched;       /* of it, as its points have told; 0: not known */
    tide_poll_past unsure; /* the same, when they have to be asked about; epoch 0: they need not */
} past;

static bool is_told(const tide_reply *reply, const tide_position *position)
{
    for (int i = 0; i < reply->epoch_count; i++)
        if (reply->epochs[i].epoch == position->epoch && *position->epoch_id &&
            strcmp(reply->epochs[i].epoch_id, position->epoch_id) == 0)
            return true;
    return false;
}

/* The latest of our closed epochs that the agent tells of has all that was before it. But the agent has perhaps written on in it since a copy was put
 * back: then the points of it must tell how far it is ours. */
static void note_unsure(past *p, const tide_position *position, int64_t through)
{
    const tide_poll_past *known = p->stream->past;
    const int count = position->point_count;
    if (position->epoch <= p->told_epoch || !is_told(p->reply, position))
        return;
    p->told_epoch = position->epoch;
    p->matched = 0;
    p->unsure = (tide_poll_past){.epoch = 0};
    if (count == 0 || position->points[count - 1].seq <= through)
        return;
    if (known && known->is_known && strcmp(known->epoch_id, position->epoch_id) == 0) {
        p->matched = known->through;
        return;
    }
    p->unsure.epoch = position->epoch;
    p->unsure.point_count = count;
    memcpy(p->unsure.epoch_id, position->epoch_id, sizeof p->unsure.epoch_id);
    memcpy(p->unsure.points, position->points, (size_t)count * sizeof p->unsure.points[0]);
}

static tide_status ask_past(tide_poll_stream *stream, const tide_poll_past *unsure, tide_error *err)
{
    if (!stream->past)
        stream->past = malloc(sizeof *stream->past);
    TIDE_NEED_MEMORY(stream->past, err);
    *stream->past = *unsure;
    stream->past->is_asking = true;
    return TIDE_OK;
}

/* The points of that epoch were shown: this is how far they match. */
static void take_past(tide_poll_past *shown, const tide_reply *reply)
{
    shown->is_asking = false;
    shown->is_known = true;
    shown->through = reply->standing == TIDE_FEED_STANDING_DIVERGED
                         ? reply->matched_seq
                         : shown->points[shown->point_count - 1].seq;
}

static bool is_asking_past(const tide_poll_stream *stream)
{
    return stream->past && stream->past->is_asking;
}

static tide_status note_past(void *arg, const tide_position *position, const tide_gap_sums *sums,
                             tide_error *err)
{
    (void)sums;
    past *p = arg;
    tide_gap_list one = {0};
    const bool is_known = tide_settle_note_past(&one, &p->stream->position, position, p->reply);
    if (one.past_epoch > p->epoch) {
        p->epoch = one.past_epoch;
        p->stream->past_epoch = position->epoch;
        memcpy(p->stream->past_epoch_id, position->epoch_id, sizeof p->stream->past_epoch_id);
    }
    if (position->closed_at_us != 0 && strcmp(position->session_id, p->reply->session_id) == 0)
        note_unsure(p, position, one.past_through);
    if (!is_known || one.past_through <= p->through)
        return TIDE_OK;
    TIDE_CLEANUP(tide_gap_list_done) tide_gap_list gaps = {0};
    TIDE_TRY(tide_sink_gaps_in(p->sink, position, position->first, one.past_through, &gaps, err));
    tide_settle_lower_past(&one, gaps.gaps, gaps.count);
    if (one.past_through > p->through)
        p->through = one.past_through;
    return TIDE_OK;
}

/* What the closed positions of the session say; the stream remembers the highest epoch among them. */
static tide_status look_back(tide_poller *poller, tide_poll_stream *stream, const tide_reply *reply,
                             tide_gap_list *out, tide_error *err)
{
    tide_sink *sink = poller->options.sink;
    const tide_position *at = &stream->position;
    past p = {.sink = sink, .stream = stream, .reply = reply};
    TIDE_TRY(sink->ops->positions(sink, at->agent_id, at->data_type, true, note_past, &p, err));
    out->past_through = p.matched > p.through ? p.matched : p.through;
    out->past_epoch = p.epoch;
    return p.unsure.epoch > 0 ? ask_past(stream, &p.unsure, err) : TIDE_OK;
}

/* ---- settling ---- */

/* What the answer means, whichever history it is of. */
static tide_status compute(tide_poller *poller, tide_poll_stream *stream, const tide_reply *reply,
                           tide_change *out, bool *is_sink, tide_error *err)
{
    tide_env *env = poller->options.env;
    tide_sink *sink = poller->options.sink;
    const tide_position *at = &stream->position;
    *is_sink = true;
    /* Never polled and stored all the same: the agent had been removed, and is back. */
    const bool has_history = *at->session_id || at->version > 0;
    if (has_history && strcmp(at->session_id, reply->session_id) != 0) {
        TIDE_CLEANUP(search_done) search s = {.reply = reply};
        tide_position_init(&s.found, "", "");
        TIDE_TRY(
            sink->ops->positions(sink, at->agent_id, at->data_type, true, match_position, &s, err));
        *is_sink = false;
        if (s.is_found)
            return tide_settle_return(out, at, &s.found, reply, env->wall_us(env), err);
    }
    TIDE_CLEANUP(tide_gap_list_done) tide_gap_list gaps = {0};
    tide_interval range;
    *is_sink = true;
    if (tide_settle_wants_gaps(at, &poller->ask, reply, &range))
        TIDE_TRY(tide_sink_gaps_in(sink, at, range.first, range.last, &gaps, err));
    if (tide_settle_wants_past(at, reply))
        TIDE_TRY(look_back(poller, stream, reply, &gaps, err));
    *is_sink = false;
    if (is_asking_past(stream))
        return TIDE_NONE; /* the answer is looked at again when that is known */
    return tide_settle(out, at, &gaps, &poller->ask, reply, poller->options.grace_us,
                       env->wall_us(env), env->mono_us(env), err);
}

tide_status tide_poller_apply(tide_poller *poller, tide_poll_stream *stream, tide_change *change,
                              tide_error *err)
{
    TIDE_CLEANUP(tide_gap_list_done) tide_gap_list ended = {0};
    change->lease_name = poller->agent.token > 0 ? poller->lease_name : NULL;
    change->lease_token = poller->agent.token;
    TIDE_TRY(tide_poller_find_ended(poller->options.sink, change, &ended, err));
    TIDE_TRY(tide_sink_apply(poller->options.sink, change, err));
    change->permanent += tide_poller_count_ended(change, &ended);
    adopt(poller, stream, change, &ended);
    return TIDE_OK;
}

/* TIDE_OK: settled, applied or nothing to apply. TIDE_E_CONFLICT: somebody else was first. *is_sink says whose failure it is. */
static tide_status settle_once(tide_poller *poller, tide_poll_stream *stream,
                               const tide_reply *reply, bool *is_sink, tide_error *err)
{
    TIDE_CLEANUP(tide_change_done) tide_change change = {0};
    *is_sink = true;
    TIDE_TRY(tide_poller_load(poller, stream, err));
    TIDE_OK_IF_NONE(compute(poller, stream, reply, &change, is_sink, err));
    *is_sink = true;
    const tide_status status = tide_poller_apply(poller, stream, &change, err);
    if (status == TIDE_OK && change.is_closing) {
        stream->refused = 0;
        tide_poller_note_closed(poller, stream, &change, reply);
    }
    /* The session is of another agent: the response's failure. */
    *is_sink = status != TIDE_E_EXISTS;
    return status;
}

/* Settle and apply; again, when the position has moved under us and the answer still fits. */
static tide_status settle(tide_poller *poller, tide_poll_stream *stream, const tide_reply *reply,
                          bool *is_sink, tide_error *err)
{
    const place asked_at = place_of(&stream->position);
    for (int i = 1;; i++) {
        const tide_status status = settle_once(poller, stream, reply, is_sink, err);
        if (!*is_sink || (status != TIDE_E_CONFLICT && status != TIDE_E_OUTCOME_UNKNOWN))
            return status;
        tell_not_stored(poller, stream, status, err->text);
        stream->is_loaded = false;
        TIDE_TRY(tide_poller_load(poller, stream, err));
        const place now_at = place_of(&stream->position);
        if (!is_same_place(&asked_at, &now_at))
            return TIDE_OK; /* asked again from where it stands now */
        if (i < SETTLE_TRIES)
            continue;
        /* Not somebody else's doing: what shall begin was here before. The agent is shown the highest epoch there was from now on. */
        if (status == TIDE_E_CONFLICT) {
            tide_gap_list ignored = {0};
            *is_sink = false;
            stream->is_sink_hold = true;
            TIDE_IGNORE(look_back(poller, stream, reply, &ignored, &(tide_error){.text = ""}));
        }
        return status;
    }
}

/* The sink could not take it: everything waits, for what it could not take now it will not take from another stream. */
static void hold_for_sink(tide_poller *poller, tide_poll_stream *stream, tide_status status,
                          const tide_error *why)
{
    tell_not_stored(poller, stream, status, why->text);
    if (status == TIDE_E_LEASE_LOST) {
        poller->is_lease_lost = true;
        return;
    }
    stream->is_loaded = false;
    stream->is_sink_hold = true;
    tide_poller_hold_stream(poller, stream, status, why->text);
    poller->retry_us = stream->retry_us;
}

/* Did the answer lead anywhere? If the same question comes next, it comes later. */
static void look_for_progress(tide_poller *poller, tide_poll_stream *stream, const place *before)
{
    const place after = place_of(&stream->position);
    tide_ask next;
    tide_poll_plan_ask(poller, stream, &next);
    const bool is_stuck = is_same_place(before, &after) &&
                          next.start_seq == poller->ask.start_seq &&
                          tide_poll_plan_is_unread(poller, stream);
    if (is_stuck) {
        tide_poller_hold_stream(poller, stream, TIDE_E_FAILED,
                                "the agent tells of records that it does not give");
        return;
    }
    stream->failures = 0;
    stream->retry_us = 0;
}

/* What came of a look below `first`, which was this: is there more to be had at once? */
static void follow_lead(tide_poller *poller, tide_poll_stream *stream, int64_t first,
                        const tide_reply *reply)
{
    const tide_position *at = &stream->position;
    const int64_t top = reply->record_count > 0 ? reply->records[reply->record_count - 1].seq : 0;
    stream->failures = 0;
    stream->retry_us = 0;
    if (at->first > 0 && at->first < first && strcmp(at->session_id, reply->session_id) == 0)
        stream->lead_through = first - 1;
    const bool has_more = top > stream->lead_seq && top < stream->lead_through;
    stream->lead_seq = has_more ? top : 0;
    stream->lead_through = has_more ? stream->lead_through : 0;
    stream->lead_us = has_more ? 0 : tide_poller_mono(poller) + TIDE_POLLER_LEAD_US;
}

static tide_status take_reply(tide_poller *poller, tide_poll_stream *stream,
                              const tide_reply *reply, tide_error *err)
{
    const place before = place_of(&stream->position);
    const int64_t first = stream->position.first;
    bool is_sink = false;
    tide_status status =
        tide_poller_check_session(poller, &stream->position, reply->session_id, err);
    if (status == TIDE_NONE) {
        tide_poller_ask_again(poller, stream);
        return TIDE_OK;
    }
    if (status == TIDE_OK)
        status = settle(poller, stream, reply, &is_sink, err);
    if (status == TIDE_E_NOMEM)
        return status;
    if (status < TIDE_OK) {
        if (is_sink)
            hold_for_sink(poller, stream, status, err);
        else
            tide_poller_hold_stream(poller, stream, status, err->text);
        return TIDE_OK;
    }
    stream->is_sink_hold = false;
    stream->is_met = true;
    if (!stream->is_anew)
        stream->refused = 0;
    stream->is_anew = false;
    note_state(poller, stream, &before, reply);
    if (poller->is_lead) {
        follow_lead(poller, stream, first, reply);
        return TIDE_OK;
    }
    const bool is_first = *before.session_id == '\0';
    stream->settled = poller->ask.reader || is_first ? poller->ask.start_seq : -1;
    look_for_progress(poller, stream, &before);
    stream->due_us = tide_poll_plan_due(poller, stream, tide_poller_mono(poller));
    tide_poller_slow(poller, stream);
    return TIDE_OK;
}

tide_status tide_poller_take_page(tide_poller *poller, tide_poll_stream *stream, tide_view answer,
                                  int64_t elapsed_us, tide_error *err)
{
    const tide_poller_events *events = &poller->options.events;
    TIDE_CLEANUP(tide_reply_done) tide_reply reply = {0};
    poller->failures = 0;
    poller->retry_us = 0;
    stream->is_absent = false;
    const tide_status status = tide_reply_read(&reply, stream->type, answer, err);
    if (status == TIDE_E_NOMEM)
        return status;
    if (status < TIDE_OK) {
        tide_poller_hold_stream(poller, stream, status, err->text);
        return TIDE_OK;
    }
    tide_poller_note_session(poller, reply.session_id);
    if (events->polled)
        events->polled(events->arg, poller->agent.agent_id, stream->name, elapsed_us,
                       reply.record_count, (int64_t)answer.len);
    for (int i = 0; i < reply.record_count; i++)
        stream->came_bytes += (int64_t)reply.records[i].bytes.len;
    stream->came_records += reply.record_count;
    if (stream->is_skipping)
        return tide_poll_skip_fits(poller, stream, &reply, err);
    if (is_asking_past(stream) && poller->ask.points == stream->past->points &&
        strcmp(reply.session_id, stream->position.session_id) == 0) {
        take_past(stream->past, &reply);
        return TIDE_OK;
    }
    if (stream->is_forking)
        return tide_poll_fork_take(poller, stream, &reply, err);
    if (tide_poll_overlap_differs(poller, stream, &reply))
        return TIDE_OK;
    stream->is_too_large = false;
    tide_poll_page_grow(&stream->page, elapsed_us);
    return take_reply(poller, stream, &reply, err);
}
