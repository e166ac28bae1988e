/* load_grpc.c - OTLP/gRPC: trace exports over HTTP/2, several under way on one connection. See load.h.
 *
 * On nghttp2 directly: what a client library does around it would take the server's core. The request is encoded once. An export
 * counts when its trailers say grpc-status 0 and its answer is empty, which means that nothing was rejected. */
#include <nghttp2/nghttp2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "load.h"

enum {
    REQUEST_MAX = 8 << 20,
    GRPC_HEAD_LEN = 5,
    GRPC_RESOURCE_EXHAUSTED = 8,
    GRPC_UNAVAILABLE = 14,
};

typedef struct grpc_state {
    nghttp2_session *session;
    tide_buffer request; /* with its five bytes */
} grpc_state;

/* One call. */
typedef struct export
{
    const tide_buffer *request;
    size_t sent_len;
    size_t answer_len;
    int code; /* -1: not told yet */
}
export;

static void must(int code, const char *what)
{
    if (code < 0)
        bench_die("%s: %s", what, nghttp2_strerror(code));
}

static ssize_t read_request(nghttp2_session *session, int32_t stream, uint8_t *out, size_t size,
                            uint32_t *flags, nghttp2_data_source *source, void *arg)
{
    export *call = source->ptr;
    (void)session;
    (void)stream;
    (void)arg;
    const size_t left = call->request->len - call->sent_len;
    const size_t len = left < size ? left : size;
    memcpy(out, call->request->ptr + call->sent_len, len);
    call->sent_len += len;
    if (len == left)
        *flags |= NGHTTP2_DATA_FLAG_EOF;
    return (ssize_t)len;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_len, const uint8_t *value, size_t value_len, uint8_t flags,
                     void *arg)
{
    static const char status[] = "grpc-status";
    export *call = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
    (void)flags;
    (void)arg;
    if (call && name_len == sizeof status - 1 && memcmp(name, status, name_len) == 0 &&
        value_len > 0)
        call->code = (int)strtol((const char *)value, NULL, 10);
    return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t stream, const uint8_t *bytes,
                   size_t len, void *arg)
{
    export *call = nghttp2_session_get_stream_user_data(session, stream);
    (void)flags;
    (void)bytes;
    (void)arg;
    if (call)
        call->answer_len += len;
    return 0;
}

static int on_close(nghttp2_session *session, int32_t stream, uint32_t error, void *arg)
{
    load_connection *c = arg;
    export *call = nghttp2_session_get_stream_user_data(session, stream);
    if (!call)
        return 0;
    c->in_flight -= c->batch;
    if (call->code == GRPC_RESOURCE_EXHAUSTED || call->code == GRPC_UNAVAILABLE)
        c->refused += c->batch;
    else if (call->code == 0 && call->answer_len == GRPC_HEAD_LEN)
        c->acked += c->batch;
    else
        bench_die("an export ended with grpc-status %d, HTTP/2 error %u and %zu bytes", call->code,
                  error, call->answer_len);
    free(call);
    return 0;
}

static void put_output(load_connection *c)
{
    const grpc_state *state = c->state;
    const uint8_t *bytes = NULL;
    for (;;) {
        const ssize_t len = nghttp2_session_mem_send(state->session, &bytes);
        must((int)len, "HTTP/2");
        if (len == 0)
            return;
        load_must(tide_buffer_append(&c->out, bytes, (size_t)len));
    }
}

static void begin(load_connection *c)
{
    grpc_state *state = bench_alloc(sizeof *state);
    nghttp2_session_callbacks *callbacks = NULL;
    must(nghttp2_session_callbacks_new(&callbacks), "HTTP/2");
    c->state = state;
    tide_buffer message;
    tide_buffer_init(&message, REQUEST_MAX);
    load_spans_request(c->spans, c->batch, &message);
    tide_buffer_init(&state->request, REQUEST_MAX);
    load_must(tide_buffer_append_byte(&state->request, 0));
    for (int shift = 24; shift >= 0; shift -= 8)
        load_must(tide_buffer_append_byte(&state->request, (uint8_t)(message.len >> shift)));
    load_must(tide_buffer_append_view(&state->request, tide_buffer_view(&message)));
    tide_buffer_done(&message);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
    must(nghttp2_session_client_new(&state->session, callbacks, c), "HTTP/2");
    nghttp2_session_callbacks_del(callbacks);
    must(nghttp2_submit_settings(state->session, NGHTTP2_FLAG_NONE, NULL, 0), "SETTINGS");
    put_output(c);
}

#define FIELD(field_name, field_value)                                                             \
    {                                                                                              \
        .name = (uint8_t *)(field_name), .value = (uint8_t *)(field_value),                        \
        .namelen = sizeof(field_name) - 1, .valuelen = sizeof(field_value) - 1,                    \
        .flags = NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE                      \
    }

static void fill(load_connection *c)
{
    static const nghttp2_nv fields[] = {
        FIELD(":method", "POST"),
        FIELD(":scheme", "http"),
        FIELD(":path", "/opentelemetry.proto.collector.trace.v1.TraceService/Export"),
        FIELD(":authority", "localhost"),
        FIELD("te", "trailers"),
        FIELD("content-type", "application/grpc"),
    };
    const grpc_state *state = c->state;
    while (c->in_flight + c->batch <= c->window) {
        export *call = bench_alloc(sizeof *call);
        *call = (export){.request = &state->request, .code = -1};
        const nghttp2_data_provider source = {.source.ptr = call, .read_callback = read_request};
        must(nghttp2_submit_request(state->session, NULL, fields, sizeof fields / sizeof fields[0],
                                    &source, call),
             "a request");
        c->in_flight += c->batch;
    }
    put_output(c);
}

static void take(load_connection *c, const char *bytes, size_t len)
{
    const grpc_state *state = c->state;
    must((int)nghttp2_session_mem_recv(state->session, (const uint8_t *)bytes, len), "HTTP/2");
    put_output(c);
}

static void end(load_connection *c)
{
    grpc_state *state = c->state;
    nghttp2_session_del(state->session);
    tide_buffer_done(&state->request);
    free(state);
}

const load_protocol load_grpc = {.begin = begin, .fill = fill, .take = take, .end = end};
