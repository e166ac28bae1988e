/* overlap.c - is the history of an agent that was not written here still the one that was read?
 *
 * Such an agent states no epoch and knows no digests. A restored one gives numbers out again, and what
 * it gives out below the position would never be read. So a position keeps digests of records that
 * were read (record_digest.h) as its points, each request starts one record early, and the record
 * that overlaps is compared with its point:
 *
 *     points    p1 ... p2 .. p3 . p4           last_seq = p4
 *     request                     p4 | p4+1 ...
 *
 * Where it differs, the points below are asked for one by one until one matches. The position closes
 * as diverged behind that one, and reading resumes there, under the position's next epoch. A record
 * that is not there proves nothing: the agent may have dropped it. */
#include <string.h>

#include "base/cleanup.h"
#include "colony/poll/record_digest.h"
#include "colony/poller_parts.h"

enum { OVERLAP_MAX = 64 }; /* numbers behind the point, which come once more */

/* The highest point at or below seq; -1: none. */
static int find_point(const tide_position *at, int64_t seq)
{
    int i = at->point_count - 1;
    while (i >= 0 && at->points[i].seq > seq)
        i--;
    return i;
}

void tide_poll_overlap_ask(const tide_poll_stream *stream, tide_ask *ask)
{
    const tide_position *at = &stream->position;
    const int point = at->is_foreign ? find_point(at, ask->start_seq) : -1;
    if (point < 0 || ask->max_records <= 1 || ask->start_seq - at->points[point].seq >= OVERLAP_MAX)
        return;
    ask->overlap_seq = at->points[point].seq;
}

static const tide_reply_record *find_record(const tide_reply *reply, int64_t seq)
{
    for (int i = 0; i < reply->record_count; i++)
        if (reply->records[i].seq == seq)
            return &reply->records[i];
    return NULL;
}

static bool is_equal(const tide_reply_record *record, const tide_feed_point *point)
{
    unsigned char digest[TIDE_FEED_DIGEST_SIZE];
    return tide_record_fields_digest(record->message, digest) &&
           memcmp(digest, point->digest, sizeof digest) == 0;
}

/* Records that were asked for once more leave the reply. */
static void drop_overlap(tide_reply *reply, const tide_ask *ask)
{
    int kept = 0;
    for (int i = 0; i < reply->record_count; i++) {
        const int64_t seq = reply->records[i].seq;
        if (seq < ask->overlap_seq || seq > ask->start_seq)
            reply->records[kept++] = reply->records[i];
    }
    reply->record_count = kept;
}

bool tide_poll_overlap_differs(tide_poller *poller, tide_poll_stream *stream, tide_reply *reply)
{
    const tide_position *at = &stream->position;
    const tide_ask *ask = &poller->ask;
    if (ask->overlap_seq == 0 || reply->has_state || strcmp(reply->session_id, at->session_id) != 0)
        return false;
    const int point = find_point(at, ask->overlap_seq);
    const tide_reply_record *record = find_record(reply, ask->overlap_seq);
    if (record && point >= 0 && at->points[point].seq == ask->overlap_seq &&
        !is_equal(record, &at->points[point])) {
        stream->is_forking = true;
        stream->fork_point = point - 1;
        return true;
    }
    drop_overlap(reply, ask);
    return false;
}

void tide_poll_fork_ask(const tide_poll_stream *stream, tide_ask *ask)
{
    const tide_position *at = &stream->position;
    ask->start_seq = stream->fork_point >= 0 ? at->points[stream->fork_point].seq - 1 : 0;
    ask->overlap_seq = 0;
    ask->max_records = 1;
    ask->reader = NULL; /* nothing behind it is settled */
}

static tide_status fork_behind(tide_poller *poller, tide_poll_stream *stream, int64_t common,
                               tide_error *err)
{
    tide_env *env = poller->options.env;
    TIDE_CLEANUP(tide_change_done) tide_change change = {0};
    stream->is_forking = false;
    TIDE_TRY(tide_settle_fork(&change, &stream->position, common, env->wall_us(env), err));
    TIDE_TRY(tide_poller_apply(poller, stream, &change, err));
    stream->is_met = true;
    stream->is_more = true;
    stream->failures = 0;
    stream->retry_us = 0;
    return TIDE_OK;
}

tide_status tide_poll_fork_take(tide_poller *poller, tide_poll_stream *stream,
                                const tide_reply *reply, tide_error *err)
{
    const tide_position *at = &stream->position;
    const bool is_known = stream->is_loaded && stream->fork_point < at->point_count &&
                          !reply->has_state && strcmp(reply->session_id, at->session_id) == 0;
    int64_t common = at->first > 0 ? at->first - 1 : 0;
    if (!is_known) {
        stream->is_forking = false; /* begins anew, if it still differs */
        return TIDE_OK;
    }
    if (stream->fork_point >= 0) {
        const tide_feed_point *point = &at->points[stream->fork_point];
        const tide_reply_record *record = find_record(reply, point->seq);
        if (!record || !is_equal(record, point)) {
            stream->fork_point--;
            return TIDE_OK;
        }
        common = point->seq;
    }
    const tide_status status = fork_behind(poller, stream, common, err);
    if (status == TIDE_E_NOMEM)
        return status;
    if (status < TIDE_OK) {
        stream->is_loaded = false;
        tide_poller_hold_stream(poller, stream, status, err->text);
    }
    return TIDE_OK;
}
