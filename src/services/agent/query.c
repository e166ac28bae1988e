#include "services/agent/query.h"

#include <inttypes.h>
#include <string.h>

#include "services/api/messages.h"

#define SECONDS_MAX INT64_C(253402300799) /* the year 9999 */

static tide_status check_seq(uint64_t seq, const char *what, tide_error *err)
{
    if (seq > INT64_MAX)
        return tide_fail(err, TIDE_E_INVALID, "%s is %" PRIu64 "; numbers end at %" PRId64, what,
                         seq, INT64_MAX);
    return TIDE_OK;
}

static tide_status read_points(tide_feed_point points[TIDE_FEED_POINTS_MAX],
                               const AGENT(Position) * position, tide_error *err)
{
    if (position->n_points > TIDE_FEED_POINTS_MAX)
        return tide_fail(err, TIDE_E_INVALID, "%zu points, at most %d", position->n_points,
                         TIDE_FEED_POINTS_MAX);
    for (size_t i = 0; i < position->n_points; i++) {
        const AGENT(Point) *given = position->points[i];
        TIDE_TRY(check_seq(given->seq_id, "a point's seq_id", err));
        TIDE_TRY(check_seq(given->epoch, "a point's epoch", err));
        if (given->digest.len != TIDE_FEED_DIGEST_SIZE)
            return tide_fail(err, TIDE_E_INVALID, "a point's digest has %zu bytes, want %d",
                             given->digest.len, TIDE_FEED_DIGEST_SIZE);
        points[i].seq = (int64_t)given->seq_id;
        points[i].epoch = (int64_t)given->epoch;
        memcpy(points[i].digest, given->digest.data, TIDE_FEED_DIGEST_SIZE);
    }
    return TIDE_OK;
}

static tide_status read_position(tide_feed_request *request,
                                 tide_feed_point points[TIDE_FEED_POINTS_MAX],
                                 const AGENT(Position) * position, tide_error *err)
{
    if (!position)
        return TIDE_OK;
    TIDE_TRY(check_seq(position->last_seq_id, "last_seq_id", err));
    TIDE_TRY(check_seq(position->lease_token, "lease_token", err));
    TIDE_TRY(check_seq(position->epoch, "epoch", err));
    TIDE_TRY(read_points(points, position, err));
    TIDE_TRY(check_seq(position->after_seq_id, "after_seq_id", err));
    request->session = tide_rpc_text(position->session_id);
    request->epoch = (int64_t)position->epoch;
    request->epoch_id = tide_rpc_text(position->epoch_id);
    request->last_seq = (int64_t)position->last_seq_id;
    request->max_bytes = position->max_bytes;
    request->reader = tide_rpc_text(position->reader);
    request->lease_token = (int64_t)position->lease_token;
    request->points = points;
    request->point_count = (int)position->n_points;
    if (position->after_seq_id == 0)
        return TIDE_OK;
    /* What a filter by time has passed over is not what a reader has read. */
    if (request->start_seq > 0 || request->reader)
        return tide_fail(err, TIDE_E_INVALID,
                         "after_seq_id goes on with a request by time, not together with %s",
                         request->reader ? "reader" : "start_seq_id");
    request->start_seq = (int64_t)position->after_seq_id;
    return TIDE_OK;
}

static tide_status read_times(tide_feed_request *request, const tide_query_part *part,
                              tide_error *err)
{
    if (part->start_time < 0 || part->start_time > SECONDS_MAX || part->end_time < 0 ||
        part->end_time > SECONDS_MAX)
        return tide_fail(err, TIDE_E_INVALID, "times are Unix seconds, 0 to %" PRId64, SECONDS_MAX);
    const bool is_by_time =
        part->start_seq_id == 0 && (part->start_time != 0 || part->end_time != 0);
    if (!is_by_time)
        return TIDE_OK;
    if (part->end_time != 0 && part->end_time < part->start_time)
        return tide_fail(err, TIDE_E_INVALID, "end_time lies before start_time");
    request->start_time_ms = part->start_time * 1000;
    request->end_time_ms = part->end_time == 0 ? SECONDS_MAX * 1000 : part->end_time * 1000;
    return TIDE_OK;
}

int64_t tide_query_page_len(const tide_query_part *part)
{
    const int64_t wanted = part->position ? part->position->max_bytes : 0;
    if (wanted <= 0)
        return TIDE_FEED_PAGE_BYTES_DEFAULT;
    return wanted < TIDE_FEED_PAGE_BYTES_MAX ? wanted : TIDE_FEED_PAGE_BYTES_MAX;
}

tide_status tide_query_read(const tide_agent_services *services, const tide_query_part *part,
                            tide_feed_answer *answer, tide_error *err)
{
    tide_feed_point points[TIDE_FEED_POINTS_MAX];
    tide_feed_request request = {TIDE_FEED_REQUEST_INIT,
                                 .stream = part->stream,
                                 .start_seq = (int64_t)part->start_seq_id,
                                 .max_records = part->max_records,
                                 .services = (const char *const *)part->services,
                                 .service_count = (int)part->service_count,
                                 .where_column = part->trace_id ? "trace_id" : NULL,
                                 .where_value = part->trace_id};
    TIDE_TRY(check_seq(part->start_seq_id, "start_seq_id", err));
    if (part->service_count > TIDE_FEED_SERVICES_MAX)
        return tide_fail(err, TIDE_E_INVALID, "%zu names to filter by, at most %d",
                         part->service_count, TIDE_FEED_SERVICES_MAX);
    TIDE_TRY(read_times(&request, part, err));
    TIDE_TRY(read_position(&request, points, part->position, err));
    if (part->room_len > 0 && part->room_len < tide_query_page_len(part))
        request.max_bytes = part->room_len;
    const tide_status status = tide_feed_read(services->feed, &request, answer, err);
    const bool is_ahead = status == TIDE_E_CONFLICT ||
                          answer->standing == TIDE_FEED_STANDING_AHEAD ||
                          answer->standing == TIDE_FEED_STANDING_DIVERGED;
    if (services->metrics && is_ahead)
        tide_series_add(
            tide_metrics_series(services->metrics, TIDE_METRIC_FEED_AHEAD, part->stream), 1);
    TIDE_TRY(status);
    if (services->metrics && answer->count > 0)
        tide_series_add(tide_metrics_series(services->metrics, TIDE_METRIC_FEED_READ, part->stream),
                        answer->count);
    return TIDE_OK;
}

static tide_status put_holes(tide_buffer *out, const tide_feed_answer *answer, tide_error *err)
{
    for (int i = 0; i < answer->hole_count; i++) {
        AGENT(Hole) hole = AGENT_INIT(HOLE);
        hole.first_seq_id = (uint64_t)answer->holes[i].first_seq;
        hole.last_seq_id = (uint64_t)answer->holes[i].last_seq;
        hole.reason = tide_rpc_borrow(answer->holes[i].reason);
        TIDE_BUFFER(bytes, 1024);
        TIDE_TRY(tide_rpc_pack(&bytes, &hole.base, err));
        TIDE_TRY(tide_rpc_put_bytes(out, 6, tide_buffer_view(&bytes), err));
    }
    return TIDE_OK;
}

static tide_status put_epochs(tide_buffer *out, const tide_feed_answer *answer, tide_error *err)
{
    for (int i = 0; i < answer->epoch_count; i++) {
        AGENT(EpochStart) start = AGENT_INIT(EPOCH_START);
        start.epoch = (uint64_t)answer->epochs[i].epoch;
        start.first_seq_id = (uint64_t)answer->epochs[i].first_seq;
        start.epoch_id = answer->epochs[i].epoch_id;
        start.reason = answer->epochs[i].reason;
        TIDE_BUFFER(bytes, 1024);
        TIDE_TRY(tide_rpc_pack(&bytes, &start.base, err));
        TIDE_TRY(tide_rpc_put_bytes(out, 19, tide_buffer_view(&bytes), err));
    }
    return TIDE_OK;
}

static AGENT(Standing) standing_of(tide_feed_standing standing)
{
    switch (standing) {
    case TIDE_FEED_STANDING_OK:
        return TIDEMARK__AGENT__V1__STANDING__STANDING_OK;
    case TIDE_FEED_STANDING_DIVERGED:
        return TIDEMARK__AGENT__V1__STANDING__STANDING_DIVERGED;
    case TIDE_FEED_STANDING_UNKNOWN:
        return TIDEMARK__AGENT__V1__STANDING__STANDING_UNKNOWN;
    case TIDE_FEED_STANDING_AHEAD:
        return TIDEMARK__AGENT__V1__STANDING__STANDING_AHEAD;
    case TIDE_FEED_STANDING_NONE:
        break;
    }
    return TIDEMARK__AGENT__V1__STANDING__STANDING_UNSPECIFIED;
}

tide_status tide_query_put_state(const tide_agent_services *services, tide_buffer *out,
                                 uint32_t field, const char *stream, const tide_feed_answer *answer,
                                 tide_error *err)
{
    unsigned char chain[TIDE_FEED_DIGEST_SIZE];
    memcpy(chain, answer->chain, sizeof chain);
    AGENT(StreamState) state = AGENT_INIT(STREAM_STATE);
    state.stream = tide_rpc_borrow(stream);
    state.epoch = (uint64_t)answer->epoch;
    state.epoch_id = tide_rpc_borrow(answer->epoch_id);
    state.epoch_first_seq_id = (uint64_t)answer->epoch_first_seq;
    state.oldest_seq_id = (uint64_t)answer->oldest_seq;
    state.stable_seq_id = (uint64_t)answer->stable_seq;
    state.head_seq_id = (uint64_t)answer->head_seq;
    state.scanned_through_seq_id = (uint64_t)answer->scanned_through_seq;
    state.chain = (ProtobufCBinaryData){.data = chain, .len = sizeof chain};
    state.more = answer->has_more;
    state.next_arrived_ms = answer->next_arrived_us / 1000;
    state.head_arrived_ms = answer->head_arrived_us / 1000;
    state.standing = standing_of(answer->standing);
    state.matched_seq_id = (uint64_t)answer->matched_seq;
    state.now_ms = services->env->wall_us(services->env) / 1000;
    state.retention_ms = services->retention_us / 1000;
    state.filtered_records = (uint64_t)answer->filtered;
    TIDE_BUFFER(bytes, TIDE_RPC_RESPONSE_MAX);
    TIDE_TRY(tide_rpc_pack(&bytes, &state.base, err));
    TIDE_TRY(put_holes(&bytes, answer, err));
    TIDE_TRY(put_epochs(&bytes, answer, err));
    return tide_rpc_put_bytes(out, field, tide_buffer_view(&bytes), err);
}

tide_status tide_query_wait(const tide_query_part *part, int64_t *wait_us, tide_error *err)
{
    const uint32_t wait_ms = part->position ? part->position->wait_ms : 0;
    if (wait_ms > TIDE_QUERY_WAIT_MAX_MS)
        return tide_fail(err, TIDE_E_INVALID, "wait_ms is %u, at most %d", wait_ms,
                         TIDE_QUERY_WAIT_MAX_MS);
    *wait_us = (int64_t)wait_ms * 1000;
    return TIDE_OK;
}
