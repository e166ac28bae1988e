#include "colony/ask.h"

#include "base/cleanup.h"

/* Field numbers of agent.proto that all query calls share. */
enum {
    WIRE_VARINT = 0,
    WIRE_BYTES = 2,
    STREAM_FIELD = 3,         /* of QueryRecordsRequest */
    METRIC_TYPES_FIELD = 4,   /* of QueryEbpfMetricsRequest */
    INCLUDE_TRACES_FIELD = 5, /* of QueryEbpfMetricsRequest */
    POINT_MAX = 64,           /* bytes of an encoded point */
    POSITION_MAX = 8192,      /* bytes of an encoded position: 32 points and two names */
    WAIT_MAX_MS = 60000,      /* what agents accept */
};

static tide_status put_varint(tide_buffer *out, uint32_t field, uint64_t value)
{
    if (value == 0)
        return TIDE_OK;
    TIDE_TRY(tide_buffer_append_varint(out, (uint64_t)field << 3 | WIRE_VARINT));
    return tide_buffer_append_varint(out, value);
}

static tide_status put_number(tide_buffer *out, uint32_t field, int64_t value)
{
    return put_varint(out, field, value > 0 ? (uint64_t)value : 0);
}

static tide_status put_bytes(tide_buffer *out, uint32_t field, tide_view bytes)
{
    TIDE_TRY(tide_buffer_append_varint(out, (uint64_t)field << 3 | WIRE_BYTES));
    TIDE_TRY(tide_buffer_append_varint(out, bytes.len));
    return tide_buffer_append_view(out, bytes);
}

static tide_status put_text(tide_buffer *out, uint32_t field, const char *text)
{
    return text && *text ? put_bytes(out, field, tide_view_of(text)) : TIDE_OK;
}

static tide_status put_point(tide_buffer *out, const tide_feed_point *point)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer bytes = tide_buffer_of(POINT_MAX);
    TIDE_TRY(put_number(&bytes, 1, point->seq));
    TIDE_TRY(put_bytes(&bytes, 2, tide_view_bytes(point->digest, sizeof point->digest)));
    TIDE_TRY(put_number(&bytes, 3, point->epoch));
    return put_bytes(out, 3, tide_buffer_view(&bytes));
}

static int64_t clamp(int64_t value, int64_t most)
{
    return value < most ? value : most;
}

static tide_status put_position(tide_buffer *out, const tide_ask *ask)
{
    const int64_t max_bytes = ask->max_bytes > 0 ? ask->max_bytes : TIDE_ASK_BYTES_DEFAULT;
    TIDE_TRY(put_text(out, 1, ask->session_id));
    TIDE_TRY(put_number(out, 2, ask->epoch));
    for (int i = 0; i < ask->point_count; i++)
        TIDE_TRY(put_point(out, &ask->points[i]));
    TIDE_TRY(put_text(out, 4, ask->reader));
    TIDE_TRY(put_number(out, 5, ask->lease_token));
    TIDE_TRY(put_number(out, 6, ask->last_seq));
    TIDE_TRY(put_number(out, 7, clamp(max_bytes, TIDE_ASK_BYTES_MAX)));
    TIDE_TRY(put_number(out, 8, clamp(ask->wait_us / 1000, WAIT_MAX_MS)));
    return put_text(out, 10, ask->epoch_id);
}

/* eBPF's call asks for four streams at once: the others are left out by naming a type. Traces name one that
 * nobody has. */
static tide_status put_selection(tide_buffer *out, const tide_ask *ask)
{
    const tide_stream_kind kind = ask->type->stream->kind;
    if (kind == TIDE_STREAM_OPAQUE)
        return put_text(out, STREAM_FIELD, ask->data_type);
    const bool is_traces = kind == TIDE_STREAM_BEYLA_TRACES;
    if (ask->type->metric_type == 0 && !is_traces)
        return TIDE_OK;
    const uint8_t type = (uint8_t)ask->type->metric_type;
    TIDE_TRY(put_bytes(out, METRIC_TYPES_FIELD, tide_view_bytes(&type, 1)));
    return put_varint(out, INCLUDE_TRACES_FIELD, is_traces);
}

static tide_status put_request(tide_buffer *out, const tide_ask *ask)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer position = tide_buffer_of(POSITION_MAX);
    TIDE_TRY(put_selection(out, ask));
    const int64_t start_seq = ask->overlap_seq > 0 ? ask->overlap_seq - 1 : ask->start_seq;
    const int64_t max_records = ask->max_records + (ask->start_seq - start_seq);
    TIDE_TRY(put_number(out, ask->type->start_field, start_seq));
    TIDE_TRY(put_number(out, ask->type->max_field, clamp(max_records, TIDE_FEED_PAGE_RECORDS_MAX)));
    TIDE_TRY(put_position(&position, ask));
    return put_bytes(out, ask->type->position_field, tide_buffer_view(&position));
}

tide_status tide_ask_encode(tide_buffer *out, const tide_ask *ask, tide_error *err)
{
    if (ask->start_seq < 0 || ask->point_count < 0 || ask->point_count > TIDE_FEED_POINTS_MAX)
        return tide_fail(err, TIDE_E_INVALID,
                         "a question for %s from a negative number, or with %d"
                         " points",
                         ask->data_type, ask->point_count);
    const size_t before_len = out->len;
    const tide_status status = put_request(out, ask);
    if (status == TIDE_OK)
        return TIDE_OK;
    tide_buffer_truncate(out, before_len);
    return tide_fail(err, status, "a question for %s does not fit a buffer of %zu bytes",
                     ask->data_type, out->max);
}
