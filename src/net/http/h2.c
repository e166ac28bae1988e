/* h2.c - HTTP/2 for calls, on nghttp2: what a frame means.
 *
 * Flood protection, beside nghttp2's own (resets, continuations, unanswered pings): frames that
 * cost us work and the peer nothing (PING, SETTINGS, PRIORITY, empty DATA) fill a bucket that leaks
 * at control_rate.
 *
 * Windows: bytes of a message that is being gathered are credited at once, because the budget
 * bounds them; while complete messages wait for a slow receiver nothing is credited, so a peer can
 * be at most one window ahead.
 *
 * An answer may be complete before its request is (refused at the headers, too large). RFC 9113 8.1
 * lets us say so with RST_STREAM(NO_ERROR), but clients lose the answer when the reset meets them
 * sending. So what they send is thrown away, and credited, until they have sent everything (a PING
 * then makes them look at their socket); the reset comes when that takes longer than LINGER_US or
 * is more than a request may have. */
#include "net/http/h2.h"

#include <stdlib.h>
#include <string.h>

#include "net/http/h2_session.h"

#define UNCOUNTED UINT64_C(1000000000)
#define LINGER_US (5 * TIDE_NET_SECOND)

static const char PREFACE[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

tide_preface tide_preface_find(tide_view bytes)
{
    const size_t len = bytes.len < sizeof PREFACE - 1 ? bytes.len : sizeof PREFACE - 1;
    if (memcmp(bytes.ptr, PREFACE, len) != 0)
        return TIDE_PREFACE_HTTP1;
    return len == sizeof PREFACE - 1 ? TIDE_PREFACE_H2 : TIDE_PREFACE_UNDECIDED;
}

int tide_h2_end_flood(tide_h2 *h2)
{
    if (!h2->is_flooded)
        tide_count(&h2->context->counters.refused_flood, 1);
    h2->is_flooded = true;
    h2->conn.is_hostile = true;
    return nghttp2_session_terminate_session(h2->session, NGHTTP2_ENHANCE_YOUR_CALM);
}

/* One more drop: does the bucket, which leaks rate drops a second, overflow? */
static bool fill_bucket(tide_h2_bucket *bucket, int64_t now_us, int64_t burst, int64_t rate)
{
    const int64_t passed_us = now_us - bucket->since_us;
    const int64_t leaked =
        passed_us > 3600 * TIDE_NET_SECOND ? bucket->count : passed_us * rate / TIDE_NET_SECOND;
    if (leaked > 0) {
        bucket->count = bucket->count > leaked ? bucket->count - leaked : 0;
        bucket->since_us = now_us;
    }
    return ++bucket->count > burst;
}

static int count_control(tide_h2 *h2)
{
    const tide_net_limits *limits = &h2->context->limits;
    if (fill_bucket(&h2->control, h2->now_us, limits->control_burst, limits->control_rate))
        return tide_h2_end_flood(h2);
    return 0;
}

/* Resets, by the peer or because of what the peer sent. */
static int count_reset(tide_h2 *h2)
{
    const tide_net_limits *limits = &h2->context->limits;
    if (fill_bucket(&h2->resets, h2->now_us, limits->reset_burst, limits->reset_rate))
        return tide_h2_end_flood(h2);
    return 0;
}

/* A reset of what is over already takes nothing back. libcurl 7.88 sends one after every answer;
 * more of them than answers are a flood like any other. */
static int count_late_reset(tide_h2 *h2)
{
    if (h2->unreset_count == 0)
        return count_control(h2);
    h2->unreset_count--;
    return 0;
}

/* A callback's way to end the connection: nothing behind the bytes at hand is parsed (feed_h2). */
static int end_with(tide_h2 *h2, uint32_t code)
{
    h2->end_code = code;
    return NGHTTP2_ERR_CALLBACK_FAILURE;
}

void tide_h2_check_frame(tide_h2 *h2, uint8_t type, int32_t stream_id, size_t len)
{
    if (h2->opening_id != 0) /* the library refused it: more of it may be on its way */
        tide_h2_closed_reset(&h2->closed, h2->opening_id, TIDE_H2_STREAM_WINDOW);
    h2->opening_id = 0;
    const bool is_headers = type == NGHTTP2_HEADERS;
    if ((!is_headers && type != NGHTTP2_DATA) || stream_id % 2 == 0)
        return;
    if (is_headers && tide_h2_closed_open(&h2->closed, stream_id)) {
        h2->opening_id = stream_id;
        return;
    }
    if (stream_id > h2->closed.highest ||
        nghttp2_session_get_stream_user_data(h2->session, stream_id))
        return;
    if (is_headers && tide_h2_closed_is_gap(&h2->closed, stream_id))
        h2->end_code = NGHTTP2_PROTOCOL_ERROR;
    else if (!tide_h2_closed_tolerates(&h2->closed, stream_id, len))
        h2->end_code = NGHTTP2_STREAM_CLOSED;
}

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
    tide_h2 *h2 = arg;
    h2->block_len = 0;
    h2->opening_id = 0;
    if (h2->head_since_us == INT64_MAX)
        h2->head_since_us = h2->now_us;
    if (frame->headers.cat != NGHTTP2_HCAT_REQUEST)
        return 0;
    tide_h2_stream *stream = calloc(1, sizeof *stream);
    if (!stream) {
        tide_h2_closed_reset(&h2->closed, frame->hd.stream_id, TIDE_H2_STREAM_WINDOW);
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    }
    stream->h2 = h2;
    stream->id = frame->hd.stream_id;
    stream->stalled_us = stream->busy_us = stream->refuse_us = INT64_MAX;
    tide_headers_init(&stream->head, (size_t)h2->context->limits.header_list_len);
    stream->next = h2->streams;
    if (stream->next)
        stream->next->link = &stream->next;
    stream->link = &h2->streams;
    h2->streams = stream;
    h2->stream_count++;
    return nghttp2_session_set_stream_user_data(session, stream->id, stream);
}

/* Every decoded field counts, whether it is used or not: decoding is what costs. */
static int count_decoded(tide_h2 *h2, size_t name_len, size_t value_len)
{
    h2->block_len += name_len + value_len + TIDE_HEADERS_FIELD_COST;
    if (h2->block_len <= TIDE_H2_BLOCK_PART * (size_t)h2->context->limits.header_list_len)
        return 0;
    return end_with(h2, NGHTTP2_ENHANCE_YOUR_CALM);
}

static int on_invalid_header(nghttp2_session *session, const nghttp2_frame *frame,
                             const uint8_t *name, size_t name_len, const uint8_t *value,
                             size_t value_len, uint8_t flags, void *arg)
{
    (void)session;
    (void)frame;
    (void)name;
    (void)value;
    (void)flags;
    return count_decoded(arg, name_len, value_len);
}

/* Pseudo fields count like the others, and are kept under their own names. */
static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_len, const uint8_t *value, size_t value_len, uint8_t flags,
                     void *arg)
{
    (void)flags;
    const int failed = count_decoded(arg, name_len, value_len);
    if (failed)
        return failed;
    tide_h2_stream *stream = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
    if (!stream || stream->call)
        return 0; /* trailers of a request say nothing to us */
    if (stream->is_head_too_large)
        return 0;
    const tide_status status = tide_headers_add(&stream->head, tide_view_bytes(name, name_len),
                                                tide_view_bytes(value, value_len));
    if (status == TIDE_E_LIMIT)
        stream->is_head_too_large = true;
    return status == TIDE_E_NOMEM ? NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE : 0;
}

static const char *text_or(const tide_headers *head, const char *name, const char *otherwise)
{
    const char *text = tide_headers_text(head, name);
    return text ? text : otherwise;
}

static int open_call(tide_h2 *h2, tide_h2_stream *stream)
{
    char *method = strdup(text_or(&stream->head, ":method", "GET"));
    char *target = strdup(text_or(&stream->head, ":path", "/"));
    if (method && target) {
        const tide_call_origin origin = {
            .method = method,
            .target = target,
            .peer = h2->peer,
            .owner = h2->owner,
            .certificate = h2->certificate,
            .is_h2 = true,
            .is_head_too_large = stream->is_head_too_large,
            .head = &stream->head,
            .wake = h2->wake,
            .wake_arg = h2->wake_arg,
        };
        stream->call = tide_call_open(h2->context, &origin);
    }
    free(method);
    free(target);
    if (!stream->call)
        return nghttp2_submit_rst_stream(h2->session, NGHTTP2_FLAG_NONE, stream->id,
                                         NGHTTP2_INTERNAL_ERROR);
    return 0;
}

static int end_input(tide_h2_stream *stream, const nghttp2_frame *frame)
{
    if (!(frame->hd.flags & NGHTTP2_FLAG_END_STREAM))
        return 0;
    stream->is_input_over = true;
    if (stream->call)
        tide_call_feed_end(stream->call);
    /* libcurl 7.88 had its answer while it sent, and looks at it when something else comes. */
    if (stream->refuse_us != INT64_MAX)
        return nghttp2_submit_ping(stream->h2->session, NGHTTP2_FLAG_NONE, NULL);
    return 0;
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
    tide_h2 *h2 = arg;
    tide_h2_stream *stream = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
    switch (frame->hd.type) {
    case NGHTTP2_HEADERS:
        h2->head_since_us = INT64_MAX;
        h2->last_call_us = h2->now_us;
        if (stream && !stream->call && frame->headers.cat == NGHTTP2_HCAT_REQUEST) {
            const int failed = open_call(h2, stream);
            if (failed)
                return failed;
        }
        return stream ? end_input(stream, frame) : 0;
    case NGHTTP2_DATA:
        if (frame->hd.length == 0 && !(frame->hd.flags & NGHTTP2_FLAG_END_STREAM))
            return count_control(h2);
        return stream ? end_input(stream, frame) : 0;
    case NGHTTP2_SETTINGS:
        if (!(frame->hd.flags & NGHTTP2_FLAG_ACK))
            h2->has_settings = true;
        return count_control(h2);
    case NGHTTP2_PING:
    case NGHTTP2_PRIORITY:
        return count_control(h2);
    case NGHTTP2_RST_STREAM:
        return stream ? count_reset(h2) : count_late_reset(h2);
    default:
        return 0;
    }
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t stream_id, const uint8_t *data,
                   size_t len, void *arg)
{
    (void)flags;
    (void)arg;
    tide_h2_stream *stream = nghttp2_session_get_stream_user_data(session, stream_id);
    if (stream && stream->call) {
        tide_call_feed(stream->call, tide_view_bytes(data, len));
        stream->uncredited += len;
        if (stream->refuse_us != INT64_MAX)
            stream->refused_len += len;
        if (stream->refused_len > (size_t)stream->h2->context->limits.message_len)
            stream->refuse_us = 0;
        else
            tide_h2_credit(stream);
    }
    /* A slow receiver holds back its own stream, never the others. */
    return nghttp2_session_consume_connection(session, len);
}

static int on_close(nghttp2_session *session, int32_t stream_id, uint32_t code, void *arg)
{
    tide_h2 *h2 = arg;
    tide_h2_stream *stream = nghttp2_session_get_stream_user_data(session, stream_id);
    if (!stream)
        return 0;
    if (code == NGHTTP2_NO_ERROR)
        h2->unreset_count++;
    tide_h2_forget(stream);
    return 0;
}

/* The answer is out, the request is not in: nobody wants the rest, but its sender has to hear us
 * out. */
static int on_sent(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
    if (frame->hd.type == NGHTTP2_RST_STREAM)
        tide_h2_closed_reset(&((tide_h2 *)arg)->closed, frame->hd.stream_id, TIDE_H2_STREAM_WINDOW);
    if (frame->hd.type == NGHTTP2_RST_STREAM)
        return frame->rst_stream.error_code == NGHTTP2_NO_ERROR ? 0 : count_reset(arg);
    tide_h2_stream *stream = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
    if (!stream || !(frame->hd.flags & NGHTTP2_FLAG_END_STREAM) || stream->is_input_over ||
        (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA))
        return 0;
    stream->refuse_us = stream->h2->now_us + LINGER_US;
    return 0;
}

void tide_h2_forget(tide_h2_stream *stream)
{
    tide_h2 *h2 = stream->h2;
    *stream->link = stream->next;
    if (stream->next)
        stream->next->link = stream->link;
    h2->stream_count--;
    h2->last_call_us = h2->now_us;
    (void)nghttp2_session_set_stream_user_data(h2->session, stream->id, NULL);
    if (stream->call)
        tide_call_leave(stream->call);
    tide_headers_done(&stream->head);
    free(stream);
}

static nghttp2_session *make_session(tide_h2 *h2)
{
    const tide_net_limits *limits = &h2->context->limits;
    nghttp2_session_callbacks *callbacks = NULL;
    nghttp2_option *option = NULL;
    nghttp2_session *session = NULL;
    if (nghttp2_session_callbacks_new(&callbacks) == 0 && nghttp2_option_new(&option) == 0) {
        nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin_headers);
        nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
        nghttp2_session_callbacks_set_on_invalid_header_callback(callbacks, on_invalid_header);
        nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
        nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
        nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
        nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, on_sent);
        nghttp2_option_set_no_auto_window_update(option, 1);
        /* The library counts resets of what is over like any other: count_reset() counts for it. */
        nghttp2_option_set_stream_reset_rate_limit(option, UNCOUNTED, UNCOUNTED);
        nghttp2_option_set_max_continuations(option, (size_t)limits->continuations);
        nghttp2_option_set_max_outbound_ack(option, (size_t)limits->control_burst);
        nghttp2_option_set_no_closed_streams(option, 1);
        nghttp2_option_set_server_fallback_rfc7540_priorities(option, 1);
        (void)nghttp2_session_server_new2(&session, callbacks, h2, option);
    }
    nghttp2_option_del(option);
    nghttp2_session_callbacks_del(callbacks);
    return session;
}

static bool greet(tide_h2 *h2)
{
    const tide_net_limits *limits = &h2->context->limits;
    const nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, (uint32_t)limits->streams},
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, TIDE_H2_STREAM_WINDOW},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, (uint32_t)limits->header_list_len},
    };
    return nghttp2_submit_settings(h2->session, NGHTTP2_FLAG_NONE, settings, 3) == 0 &&
           nghttp2_session_set_local_window_size(h2->session, NGHTTP2_FLAG_NONE, 0,
                                                 TIDE_H2_CONNECTION_WINDOW) == 0;
}

tide_conn *tide_h2_new(const tide_conn_setup *setup, int64_t now_us)
{
    tide_h2 *h2 = calloc(1, sizeof *h2);
    if (!h2)
        return NULL;
    h2->conn.class = &tide_h2_class;
    h2->context = setup->context;
    tide_server_context_hold(h2->context);
    h2->peer = strdup(setup->peer);
    h2->owner = setup->owner;
    h2->certificate = setup->certificate ? strdup(setup->certificate) : NULL;
    h2->wake = setup->wake;
    h2->wake_arg = setup->wake_arg;
    h2->now_us = h2->opened_us = h2->last_call_us = now_us;
    h2->control.since_us = h2->resets.since_us = now_us;
    h2->head_since_us = INT64_MAX;
    h2->payload_left = sizeof PREFACE - 1;
    h2->session = make_session(h2);
    if (!h2->session || !h2->peer || (setup->certificate && !h2->certificate) || !greet(h2)) {
        tide_h2_class.free(&h2->conn);
        return NULL;
    }
    return &h2->conn;
}
