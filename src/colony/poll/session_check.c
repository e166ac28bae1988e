/* session_check.c - which agent answers: a session is believed when it lasts.
 *
 * A response of another session than the position's has one of three causes:
 *
 *     wiped       the agent has a new store: the session stays
 *     restored    a session that was left is back, and stays
 *     in turn     two agents answer at one address: a load balancer, an address that changes hands
 *
 * So a session is followed when CONFIRM responses in a row have stated it. One that was left less
 * than LEFT_US ago is a return. The first return is followed like any other session, later ones
 * after it has been stated alone for RETURN_US, which doubles with each. While sessions alternate
 * faster than that, nothing is stored or closed, and the stream is held with the reason.
 *
 * An agent that begins epochs is followed EPOCH_BURST times, and then once per EPOCH_US and stream.
 * Only epochs that it had not begun before count: those that it lists are walked at once. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "colony/poller_parts.h"

enum {
    CONFIRM = 3,
    TURNS_MAX = 2,
    RETURNS_MAX = 6, /* the wait doubles so often at most */
    EPOCH_BURST = 10,
};

#define AGAIN_US INT64_C(50000)
#define LEFT_US INT64_C(3600000000)
#define RETURN_US INT64_C(20000000)
#define EPOCH_US INT64_C(60000000)

void tide_poller_note_session(tide_poller *poller, const char *session_id)
{
    tide_poll_stated *stated = &poller->stated;
    if (strcmp(stated->session_id, session_id) == 0) {
        stated->count += stated->count < CONFIRM;
        if (stated->count == CONFIRM)
            stated->turns = 0;
        return;
    }
    if (*stated->session_id && stated->count < CONFIRM && stated->turns <= TURNS_MAX)
        stated->turns++;
    memcpy(stated->before, stated->session_id, sizeof stated->before);
    (void)snprintf(stated->session_id, sizeof stated->session_id, "%s", session_id);
    stated->count = 1;
    stated->since_us = tide_poller_mono(poller);
}

static tide_status fail_in_turn(const char *one, const char *other, tide_error *err)
{
    return tide_fail(err, TIDE_E_MISMATCH,
                     "sessions %s and %s answer in turn at this address: give each agent an "
                     "address of its own",
                     one, other);
}

/* How long a session must be stated alone before it is followed again. */
static int64_t get_return_us(const tide_poller *poller, const char *session_id)
{
    const tide_poll_stated *stated = &poller->stated;
    if (stated->returns == 0 || strcmp(stated->left, session_id) != 0)
        return 0;
    return RETURN_US << (stated->returns - 1);
}

tide_status tide_poller_check_session(const tide_poller *poller, const tide_position *at,
                                      const char *session_id, tide_error *err)
{
    const tide_poll_stated *stated = &poller->stated;
    if (stated->turns >= TURNS_MAX)
        return fail_in_turn(stated->before, stated->session_id, err);
    if (*at->session_id == '\0' || strcmp(at->session_id, session_id) == 0)
        return TIDE_OK;
    if (stated->count < CONFIRM)
        return TIDE_NONE;
    if (tide_poller_mono(poller) - stated->since_us < get_return_us(poller, session_id))
        return fail_in_turn(at->session_id, session_id, err);
    return TIDE_OK;
}

void tide_poller_ask_again(tide_poller *poller, tide_poll_stream *stream)
{
    stream->is_more = true;
    stream->retry_us = tide_poller_mono(poller) + AGAIN_US;
}

/* ---- what was followed ---- */

static void note_left(tide_poller *poller, const char *left, const char *followed)
{
    tide_poll_stated *stated = &poller->stated;
    const int64_t now_us = tide_poller_mono(poller);
    const bool is_recent = *stated->left && now_us - stated->left_us < LEFT_US;
    /* Each stream leaves the session once. */
    if (is_recent && strcmp(stated->left, left) == 0)
        return;
    if (!is_recent)
        stated->returns = 0;
    else if (strcmp(stated->left, followed) == 0 && stated->returns < RETURNS_MAX)
        stated->returns++;
    (void)snprintf(stated->left, sizeof stated->left, "%s", left);
    stated->left_us = now_us;
}

static void note_epoch(const tide_poller *poller, tide_poll_stream *stream, int64_t epoch)
{
    const int64_t now_us = tide_poller_mono(poller);
    if (epoch == stream->begun_epoch)
        return;
    stream->begun_epoch = epoch;
    const int64_t passed = (now_us - stream->begun_us) / EPOCH_US;
    if (stream->begun_count == 0 || passed > 0) {
        stream->begun_count -= passed < stream->begun_count ? (int)passed : stream->begun_count;
        stream->begun_us = now_us;
    }
    stream->begun_count += stream->begun_count <= EPOCH_BURST;
}

void tide_poller_note_closed(tide_poller *poller, tide_poll_stream *stream,
                             const tide_change *change, const tide_reply *reply)
{
    const char *left = change->closed.session_id;
    if (*left && strcmp(left, reply->session_id) != 0)
        note_left(poller, left, reply->session_id);
    else if (reply->has_state)
        note_epoch(poller, stream, reply->epoch);
}

void tide_poller_slow(tide_poller *poller, tide_poll_stream *stream)
{
    if (stream->begun_count <= EPOCH_BURST)
        return;
    const int64_t until_us = stream->begun_us + EPOCH_US;
    char text[128];
    (void)snprintf(text, sizeof text,
                   "the agent has begun epoch %" PRId64
                   ": more epochs than one a minute are followed once a minute",
                   stream->begun_epoch);
    stream->begun_count = EPOCH_BURST;
    tide_poller_hold_stream(poller, stream, TIDE_E_BUSY, text);
    if (stream->retry_us < until_us)
        stream->retry_us = until_us;
}
