/* h2_response.c - HTTP/2 for calls: answers, time, and the end of a connection. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "net/http/h2_session.h"

enum {
    RESPONSE_FIELDS_MAX = 512,
    RESPONSE_HEAD_MAX = 131072,
    /* bytes that a reader must take within write_us, however long it waited */
    PROGRESS_LEN = 65536,
};

static int64_t earlier(int64_t a_us, int64_t b_us)
{
    return a_us < b_us ? a_us : b_us;
}

void tide_h2_credit(tide_h2_stream *stream)
{
    if (stream->uncredited == 0 || (stream->call && tide_call_is_congested(stream->call)))
        return;
    (void)nghttp2_session_consume_stream(stream->h2->session, stream->id, stream->uncredited);
    stream->uncredited = 0;
}

static nghttp2_nv make_nv(const char *name, size_t name_len, const char *value, size_t value_len)
{
    /* nghttp2 copies both and changes neither; its type does not say so. */
    nghttp2_nv nv = {.namelen = name_len, .valuelen = value_len, .flags = NGHTTP2_NV_FLAG_NONE};
    memcpy(&nv.name, &name, sizeof nv.name);
    memcpy(&nv.value, &value, sizeof nv.value);
    return nv;
}

static size_t add_fields(nghttp2_nv *nvs, size_t count, const tide_headers *head)
{
    for (size_t i = 0; i < head->count && count < RESPONSE_FIELDS_MAX; i++) {
        const tide_header_field *field = &head->fields[i];
        nvs[count++] = make_nv(field->name, field->name_len, field->value, field->value_len);
    }
    return count;
}

static int submit_trailers(tide_h2_stream *stream)
{
    TIDE_CLEANUP(tide_headers_done) tide_headers trailers;
    tide_headers_init(&trailers, RESPONSE_HEAD_MAX);
    if (tide_call_trailers(stream->call, &trailers) != TIDE_OK)
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    nghttp2_nv nvs[RESPONSE_FIELDS_MAX];
    return nghttp2_submit_trailer(stream->h2->session, stream->id, nvs,
                                  add_fields(nvs, 0, &trailers));
}

static void note_progress(tide_h2_stream *stream, size_t len)
{
    stream->moved_len += len;
    stream->busy_len += len;
    if (stream->moved_len < PROGRESS_LEN)
        return;
    stream->moved_len = 0;
    stream->stalled_us = stream->h2->now_us;
}

static ssize_t read_response(nghttp2_session *session, int32_t stream_id, uint8_t *out, size_t size,
                             uint32_t *flags, nghttp2_data_source *source, void *arg)
{
    (void)session;
    (void)stream_id;
    (void)arg;
    tide_h2_stream *stream = source->ptr;
    bool is_end;
    const size_t len = tide_call_read(stream->call, out, size, &is_end);
    note_progress(stream, len);
    if (len == 0 && !is_end) {
        stream->is_waiting = true;
        return NGHTTP2_ERR_DEFERRED;
    }
    if (!is_end)
        return (ssize_t)len;
    if (tide_call_is_torn(stream->call))
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE; /* RST_STREAM: not a complete body */
    *flags |= NGHTTP2_DATA_FLAG_EOF;
    if (stream->call->form == TIDE_FORM_GRPC) {
        *flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
        const int failed = submit_trailers(stream);
        if (failed)
            return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    }
    return (ssize_t)len;
}

static int submit_response(tide_h2_stream *stream, const tide_response *answer)
{
    nghttp2_nv nvs[RESPONSE_FIELDS_MAX];
    char status[16];
    char length[32];
    (void)snprintf(status, sizeof status, "%d", answer->http_code);
    nvs[0] = make_nv(":status", strlen(":status"), status, strlen(status));
    size_t count = add_fields(nvs, 1, answer->head);
    TIDE_CLEANUP(tide_headers_done) tide_headers trailers;
    tide_headers_init(&trailers, RESPONSE_HEAD_MAX);
    if (answer->is_trailers_only) {
        if (tide_call_trailers(stream->call, &trailers) != TIDE_OK)
            return NGHTTP2_ERR_NOMEM;
        count = add_fields(nvs, count, &trailers);
    } else if (stream->call->form != TIDE_FORM_GRPC && answer->is_whole &&
               count < RESPONSE_FIELDS_MAX) {
        (void)snprintf(length, sizeof length, "%zu", answer->body_len);
        nvs[count++] = make_nv("content-length", strlen("content-length"), length, strlen(length));
    }
    const bool has_body =
        !answer->is_trailers_only && !stream->call->is_head &&
        !(answer->is_whole && answer->body_len == 0 && stream->call->form != TIDE_FORM_GRPC);
    const nghttp2_data_provider provider = {.source = {.ptr = stream},
                                            .read_callback = read_response};
    return nghttp2_submit_response(stream->h2->session, stream->id, nvs, count,
                                   has_body ? &provider : NULL);
}

static void step_response(tide_h2_stream *stream)
{
    tide_h2 *h2 = stream->h2;
    tide_response answer;
    if (!tide_call_response(stream->call, &answer))
        return;
    if (!stream->is_answered) {
        stream->is_answered = true;
        if (submit_response(stream, &answer) != 0)
            (void)nghttp2_submit_rst_stream(h2->session, NGHTTP2_FLAG_NONE, stream->id,
                                            NGHTTP2_INTERNAL_ERROR);
    } else if (stream->is_waiting && (answer.is_whole || answer.body_len > 0)) {
        stream->is_waiting = false;
        (void)nghttp2_session_resume_data(h2->session, stream->id);
    }
    if (answer.body_len == 0) {
        stream->stalled_us = stream->busy_us = INT64_MAX;
    } else if (stream->stalled_us == INT64_MAX) {
        stream->stalled_us = stream->busy_us = h2->now_us;
        stream->moved_len = 0;
        stream->busy_len = 0;
        stream->crowd = 0;
    }
    stream->crowd = stream->crowd > h2->stream_count ? stream->crowd : h2->stream_count;
}

/* A reader that lets its answer lie is given up, one that takes it too slowly as well: those that
 * share a connection share what is asked of it. */
static int64_t step_stall(tide_h2_stream *stream)
{
    tide_h2 *h2 = stream->h2;
    if (stream->stalled_us == INT64_MAX)
        return INT64_MAX;
    const tide_net_limits *limits = &h2->context->limits;
    const int64_t until_us = earlier(
        stream->stalled_us + limits->write_us,
        stream->busy_us + tide_net_limits_patience_us(limits, stream->busy_len, stream->crowd));
    if (h2->now_us < until_us)
        return until_us;
    tide_count(&h2->context->counters.timeouts_write, 1);
    stream->stalled_us = stream->busy_us = INT64_MAX;
    (void)nghttp2_submit_rst_stream(h2->session, NGHTTP2_FLAG_NONE, stream->id, NGHTTP2_CANCEL);
    return INT64_MAX;
}

/* Answered long ago, and still sending. */
static int64_t step_refusal(tide_h2_stream *stream)
{
    if (stream->is_input_over || stream->refuse_us > stream->h2->now_us)
        return stream->is_input_over ? INT64_MAX : stream->refuse_us;
    stream->refuse_us = INT64_MAX;
    (void)nghttp2_submit_rst_stream(stream->h2->session, NGHTTP2_FLAG_NONE, stream->id,
                                    NGHTTP2_NO_ERROR);
    return INT64_MAX;
}

static void terminate(tide_h2 *h2, uint32_t code)
{
    (void)nghttp2_session_terminate_session(h2->session, code);
    h2->is_broken = true;
}

/* Connections that keep us waiting. Returns when to look again. */
static int64_t step_patience(tide_h2 *h2)
{
    const tide_net_limits *limits = &h2->context->limits;
    int64_t since_us = h2->has_settings ? h2->head_since_us : h2->opened_us;
    if (since_us != INT64_MAX) {
        if (h2->now_us - since_us >= limits->header_us) {
            tide_count(&h2->context->counters.timeouts_header, 1);
            terminate(h2, NGHTTP2_SETTINGS_TIMEOUT);
            return INT64_MAX;
        }
        return since_us + limits->header_us;
    }
    if (h2->stream_count > 0)
        return INT64_MAX;
    if (h2->is_draining) {
        terminate(h2, NGHTTP2_NO_ERROR);
        return INT64_MAX;
    }
    if (h2->now_us - h2->last_call_us >= limits->idle_us) {
        tide_count(&h2->context->counters.timeouts_idle, 1);
        terminate(h2, NGHTTP2_NO_ERROR);
        return INT64_MAX;
    }
    return h2->last_call_us + limits->idle_us;
}

static int64_t step_h2(tide_conn *conn, int64_t now_us)
{
    tide_h2 *h2 = (tide_h2 *)conn;
    h2->now_us = now_us;
    int64_t next_us = INT64_MAX;
    for (tide_h2_stream *stream = h2->streams; stream; stream = stream->next) {
        if (!stream->call)
            continue;
        next_us = earlier(next_us, tide_call_step(stream->call, now_us));
        tide_h2_credit(stream);
        step_response(stream);
        next_us = earlier(next_us, step_stall(stream));
        next_us = earlier(next_us, step_refusal(stream));
    }
    if (!h2->is_broken)
        next_us = earlier(next_us, step_patience(h2));
    return next_us;
}

static bool receive(tide_h2 *h2, tide_view bytes)
{
    const ssize_t taken =
        bytes.len == 0
            ? 0
            : nghttp2_session_mem_recv(h2->session, (const uint8_t *)bytes.ptr, bytes.len);
    if (taken == (ssize_t)bytes.len)
        return true;
    if (taken == NGHTTP2_ERR_FLOODED || taken == NGHTTP2_ERR_TOO_MANY_CONTINUATIONS)
        tide_h2_end_flood(h2);
    return false;
}

/* Follow the frames, up to the first byte behind the next complete head of one. Returns how many
 * bytes that is; 0: no head is complete in these bytes. */
static size_t find_frame(tide_h2 *h2, tide_view bytes)
{
    size_t at = 0;
    while (at < bytes.len) {
        if (h2->payload_left > 0) {
            const size_t left = bytes.len - at;
            const size_t step = left < h2->payload_left ? left : h2->payload_left;
            h2->payload_left -= step;
            at += step;
            continue;
        }
        h2->frame_head[h2->frame_head_len++] = (uint8_t)bytes.ptr[at++];
        if (h2->frame_head_len == TIDE_H2_FRAME_HEAD_LEN)
            return at;
    }
    return 0;
}

/* The library gets whole frames as they are found, because what may follow depends on what it made
 * of them. */
static bool receive_frames(tide_h2 *h2, tide_view bytes)
{
    for (size_t end = find_frame(h2, bytes); end > 0; end = find_frame(h2, bytes)) {
        const uint8_t *head = h2->frame_head;
        const size_t begin = end > TIDE_H2_FRAME_HEAD_LEN ? end - TIDE_H2_FRAME_HEAD_LEN : 0;
        const size_t len = (size_t)head[0] << 16 | (size_t)head[1] << 8 | head[2];
        const uint32_t id = (uint32_t)(head[5] & 0x7F) << 24 | (uint32_t)head[6] << 16 |
                            (uint32_t)head[7] << 8 | head[8];
        if (!receive(h2, tide_view_bytes(bytes.ptr, begin)))
            return false;
        tide_h2_check_frame(h2, head[3], (int32_t)id, len);
        if (h2->end_code != 0 || !receive(h2, tide_view_bytes(bytes.ptr + begin, end - begin)))
            return false;
        h2->frame_head_len = 0;
        h2->payload_left = len;
        bytes = tide_view_bytes(bytes.ptr + end, bytes.len - end);
    }
    return receive(h2, bytes);
}

static size_t feed_h2(tide_conn *conn, tide_view bytes, int64_t now_us)
{
    tide_h2 *h2 = (tide_h2 *)conn;
    tide_net_counters *counters = &h2->context->counters;
    h2->now_us = now_us;
    if (h2->is_broken || receive_frames(h2, bytes))
        return bytes.len;
    const bool is_bomb = h2->end_code == NGHTTP2_ENHANCE_YOUR_CALM;
    if (!h2->is_flooded) /* which is counted already */
        tide_count(is_bomb ? &counters->refused_headers : &counters->refused_malformed, 1);
    h2->conn.is_hostile = h2->is_flooded;
    const uint32_t code = h2->end_code != 0 ? h2->end_code : NGHTTP2_PROTOCOL_ERROR;
    terminate(h2, h2->is_flooded ? NGHTTP2_ENHANCE_YOUR_CALM : code);
    return bytes.len;
}

static tide_view pull_h2(tide_conn *conn)
{
    tide_h2 *h2 = (tide_h2 *)conn;
    const uint8_t *bytes = NULL;
    const ssize_t len = nghttp2_session_mem_send(h2->session, &bytes);
    if (len < 0) {
        h2->is_broken = true;
        return tide_view_bytes(NULL, 0);
    }
    return tide_view_bytes(bytes, (size_t)len);
}

/* The peer learns it in two steps, so that calls on their way are still taken: a notice now, and
 * the last stream's number when no call runs any more (step_patience). */
static void drain_h2(tide_conn *conn)
{
    tide_h2 *h2 = (tide_h2 *)conn;
    if (h2->is_draining)
        return;
    h2->is_draining = true;
    (void)nghttp2_submit_shutdown_notice(h2->session);
}

static bool is_h2_over(const tide_conn *conn)
{
    const tide_h2 *h2 = (const tide_h2 *)conn;
    if (nghttp2_session_want_write(h2->session))
        return false;
    return h2->is_broken || h2->is_flooded || !nghttp2_session_want_read(h2->session);
}

static void free_h2(tide_conn *conn)
{
    tide_h2 *h2 = (tide_h2 *)conn;
    while (h2->streams)
        tide_h2_forget(h2->streams);
    nghttp2_session_del(h2->session);
    tide_h2_closed_done(&h2->closed);
    free(h2->peer);
    free(h2->certificate);
    tide_server_context_release(h2->context);
    free(h2);
}

static int64_t get_h2_idle_since(const tide_conn *conn)
{
    const tide_h2 *h2 = (const tide_h2 *)conn;
    const bool is_idle =
        h2->has_settings && h2->head_since_us == INT64_MAX && h2->stream_count == 0;
    return is_idle ? h2->last_call_us : INT64_MAX;
}

const tide_conn_class tide_h2_class = {
    .free = free_h2,
    .feed = feed_h2,
    .pull = pull_h2,
    .step = step_h2,
    .drain = drain_h2,
    .is_over = is_h2_over,
    .idle_since_us = get_h2_idle_since,
};
