/* poller_plan.c - what is asked next.
 *
 * An agent with state has told each stream's head and epoch; a stream is unread while they are not those of its position. So the
 * same rule finds new records, a new session, a new epoch, a history that became shorter, and an operator's reset.
 *
 * What a foreign agent did not show below its first record was before our time, once the grace is over; or it commits even later. So for as long as
 * void gaps are asked for again, its lowest record is asked for now and then: one record from the start. If it is below `first`, it is stored and
 * `first` goes down; what lies between is a gap, which is read next, and where that does not help recovered like any other. */
#include <string.h>

#include "colony/poller_parts.h"
#include "colony/recover_parts.h"

static bool is_foreign(const tide_poller *poller)
{
    return poller->mode == TIDE_POLLER_FOREIGN;
}

bool tide_poll_plan_is_unread(const tide_poller *poller, const tide_poll_stream *stream)
{
    const tide_position *at = &stream->position;
    if (!stream->is_met || stream->is_anew || stream->is_forking)
        return true;
    if (is_foreign(poller))
        return stream->is_more || at->last_seq < at->cursor.contiguous;
    if (strcmp(at->session_id, poller->session_id) != 0)
        return true;
    if (stream->is_told && (at->epoch != stream->epoch || at->cursor.highest != stream->head))
        return true;
    return at->last_seq < at->cursor.contiguous;
}

/* May numbers below `first` still come? */
static bool has_lead(const tide_poller *poller, const tide_poll_stream *stream)
{
    const tide_position *at = &stream->position;
    tide_env *env = poller->options.env;
    return is_foreign(poller) && stream->is_loaded && stream->is_met && !stream->is_skipping &&
           at->is_foreign &&
           (stream->lead_seq > 0 ||
            (at->first > 1 && env->wall_us(env) - at->created_at_us < TIDE_RECOVER_PRESUMED_US));
}

bool tide_poll_plan_wants_lead(const tide_poller *poller, const tide_poll_stream *stream)
{
    return has_lead(poller, stream) && !tide_poll_plan_is_unread(poller, stream) &&
           tide_poller_mono(poller) >= stream->lead_us;
}

bool tide_poll_plan_is_settled(const tide_poller *poller, const tide_poll_stream *stream)
{
    return stream->is_ignored || stream->is_absent ||
           (stream->is_loaded && stream->failures == 0 && stream->position.cursor.hole_count == 0 &&
            !tide_poll_plan_is_unread(poller, stream) &&
            !tide_poll_plan_wants_lead(poller, stream));
}

int64_t tide_poll_plan_loss_us(const tide_poll_stream *stream, int64_t mono_us)
{
    if (!stream->is_told || stream->retention_ms <= 0)
        return INT64_MAX;
    const int64_t retention_us =
        stream->retention_ms < INT64_MAX / 1000 ? stream->retention_ms * 1000 : INT64_MAX / 2;
    /* Ages are between two times of the agent's clock; what has passed since is measured on ours. */
    const int64_t age_ms = stream->arrived_ms > 0 && stream->now_ms > stream->arrived_ms
                               ? stream->now_ms - stream->arrived_ms
                               : 0;
    if (age_ms >= stream->retention_ms)
        return 0;
    const int64_t passed_us = mono_us - stream->told_us;
    const int64_t left_us = retention_us - age_ms * 1000;
    return passed_us >= left_us ? 0 : left_us - passed_us;
}

static bool has_held(const tide_poll_stream *stream)
{
    return stream->position.cursor.hole_count > 0;
}

/* When this stream wants to be asked; INT64_MAX: not before there is news. */
static int64_t wants_at(const tide_poller *poller, const tide_poll_stream *stream)
{
    if (stream->is_ignored)
        return INT64_MAX;
    int64_t at_us = INT64_MAX;
    /* A failure ends with the next response, also where nothing is unread any more. */
    if (tide_poll_plan_is_unread(poller, stream) || stream->failures > 0)
        at_us = 0;
    else if (has_held(stream) || (is_foreign(poller) && !poller->options.is_once))
        at_us = stream->due_us;
    else if (stream->settled != stream->position.last_seq && !poller->options.is_once)
        at_us = stream->asked_us + TIDE_POLLER_TELL_US;
    if (stream->lead_us < at_us && has_lead(poller, stream))
        at_us = stream->lead_us;
    return at_us < stream->retry_us ? stream->retry_us : at_us;
}

/* The smaller time until loss first; where that does not decide, who waits longest. */
static bool is_before(const tide_poll_stream *a, const tide_poll_stream *b, int64_t mono_us)
{
    const int64_t loss_a = tide_poll_plan_loss_us(a, mono_us);
    const int64_t loss_b = tide_poll_plan_loss_us(b, mono_us);
    return loss_a != loss_b ? loss_a < loss_b : a->asked_us < b->asked_us;
}

int tide_poll_plan_choose(const tide_poller *poller, int64_t mono_us, int64_t *wake_us)
{
    int chosen = -1;
    *wake_us = INT64_MAX;
    for (int i = 0; i < poller->count; i++) {
        const tide_poll_stream *stream = &poller->streams[i];
        const int64_t at_us = wants_at(poller, stream);
        if (at_us > mono_us) {
            *wake_us = at_us < *wake_us ? at_us : *wake_us;
            continue;
        }
        if (chosen < 0 || is_before(stream, &poller->streams[chosen], mono_us))
            chosen = i;
    }
    return chosen;
}

static int64_t jittered(const tide_poller *poller, int64_t us)
{
    uint32_t random;
    poller->options.env->random(poller->options.env, &random, sizeof random);
    return us - us / 10 + (int64_t)(random % 1024) * (us / 5) / 1024;
}

int64_t tide_poll_plan_due(const tide_poller *poller, const tide_poll_stream *stream,
                           int64_t mono_us)
{
    const int64_t interval_us = jittered(poller, stream->type->interval_us);
    if (!has_held(stream))
        return mono_us + interval_us;
    /* A hole may fill at any moment, and is given up when its time is over, neither later nor sooner. */
    const int64_t grace_us = poller->options.grace_us;
    int64_t due_us = mono_us + grace_us / 4 + 1;
    for (int i = 0; i < stream->position.held_count; i++) {
        const int64_t over_us = stream->position.held[i].since_us + grace_us;
        if (over_us > mono_us && over_us < due_us)
            due_us = over_us;
    }
    return due_us;
}

static bool is_other_session(const tide_poller *poller, const tide_position *at)
{
    return *poller->session_id && *at->session_id &&
           strcmp(at->session_id, poller->session_id) != 0;
}

/* Nothing is read yet, and the first record's digest does not follow from 0: one record is asked for, and its digest begins the chain. Otherwise a
 * first page would have no point inside, and a history that is cut within it would be read again as a whole. */
static bool is_unchained(const tide_poll_stream *stream)
{
    const tide_position *at = &stream->position;
    const bool is_unread = at->cursor.hole_count == 0 && at->point_count == 0 &&
                           at->cursor.highest < (at->first > 0 ? at->first : 1);
    return stream->is_told && is_unread && (at->last_seq > 0 || stream->oldest > 1);
}

void tide_poll_plan_ask(const tide_poller *poller, const tide_poll_stream *stream, tide_ask *out)
{
    const tide_position *at = &stream->position;
    *out = (tide_ask){.type = stream->type,
                      .data_type = stream->name,
                      .max_records = stream->page.records,
                      .max_bytes = stream->page.bytes,
                      .session_id = ""};
    const tide_poll_past *past = stream->past;
    if (past && past->is_asking && !stream->is_anew && !is_other_session(poller, at)) {
        out->start_seq = 0;
        out->max_records = 1;
        out->session_id = at->session_id;
        out->epoch = past->epoch;
        out->epoch_id = past->epoch_id;
        out->points = past->points;
        out->point_count = past->point_count;
        return;
    }
    if (stream->is_anew || is_other_session(poller, at)) {
        /* Who is it? Nothing is noted for the reader: our number means nothing in a history that is not ours. */
        out->start_seq = 0;
        out->max_records = 1;
        return;
    }
    out->start_seq = at->last_seq;
    /* Before the sink has accepted the session the agent may be another's, whose reader has our name. */
    if (*at->session_id) {
        out->reader = poller->reader;
        out->lease_token = poller->agent.token;
    }
    out->session_id = at->session_id;
    out->epoch = at->epoch;
    out->epoch_id = at->epoch_id;
    /* An epoch that comes back is read to its end; then the agent begins one above all that there were. */
    if (stream->past_epoch > at->epoch && at->last_seq >= at->cursor.contiguous) {
        out->epoch = stream->past_epoch;
        out->epoch_id = stream->past_epoch_id;
    }
    if (!at->is_foreign) {
        out->points = at->points;
        out->point_count = at->point_count;
    }
    if (!is_foreign(poller) && is_unchained(stream))
        out->max_records = 1;
    if (tide_poll_plan_wants_lead(poller, stream)) {
        const int64_t width = stream->lead_through - stream->lead_seq;
        out->start_seq = stream->lead_seq;
        if (stream->lead_seq == 0)
            out->max_records = 1;
        else if (width < out->max_records)
            out->max_records = width;
        out->reader = NULL;
        return;
    }
    /* Behind a hole that is held the rest of a backlog is read on; the hole is looked at again when its time comes. */
    if (is_foreign(poller) && stream->is_more && has_held(stream))
        out->start_seq = at->cursor.highest;
    if (is_foreign(poller))
        tide_poll_overlap_ask(stream, out);
}
