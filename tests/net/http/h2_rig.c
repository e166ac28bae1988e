#include "net/http/h2_rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "grpc_testing_messages.pb-c.h"
#include "net/http/grpc.h"
#include "support/check.h"

enum { FIELDS_MAX = 256, BUFFER_MAX = 512 << 20 };

static void note_wake(void *arg)
{
    h2_rig *rig = arg;
    rig->is_woken = true;
}

static h2_exchange *exchange_of(nghttp2_session *session, int32_t id)
{
    return nghttp2_session_get_stream_user_data(session, id);
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_len, const uint8_t *value, size_t value_len, uint8_t flags,
                     void *arg)
{
    (void)flags;
    (void)arg;
    h2_exchange *exchange = exchange_of(session, frame->hd.stream_id);
    if (!exchange)
        return 0;
    tide_buffer *lines =
        frame->headers.cat == NGHTTP2_HCAT_RESPONSE ? &exchange->head : &exchange->trailers;
    assert_ok(tide_buffer_printf(lines, "%.*s: %.*s\n", (int)name_len, (const char *)name,
                                 (int)value_len, (const char *)value));
    return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *data,
                   size_t len, void *arg)
{
    (void)flags;
    h2_rig *rig = arg;
    h2_exchange *exchange = exchange_of(session, id);
    if (exchange)
        assert_ok(tide_buffer_append(&exchange->body, data, len));
    if (!rig->holds_windows)
        (void)nghttp2_session_consume(session, id, len);
    return 0;
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
    (void)session;
    h2_rig *rig = arg;
    if (frame->hd.type == NGHTTP2_GOAWAY) {
        rig->is_goaway = true;
        rig->goaway_code = frame->goaway.error_code;
        rig->goaway_stream = frame->goaway.last_stream_id;
    }
    return 0;
}

static int on_close(nghttp2_session *session, int32_t id, uint32_t code, void *arg)
{
    (void)arg;
    h2_exchange *exchange = exchange_of(session, id);
    if (exchange) {
        exchange->is_closed = true;
        exchange->code = code;
    }
    return 0;
}

static nghttp2_session *make_client(h2_rig *rig)
{
    nghttp2_session_callbacks *callbacks;
    nghttp2_option *option;
    nghttp2_session *session = NULL;
    assert_int_equal(0, nghttp2_session_callbacks_new(&callbacks));
    assert_int_equal(0, nghttp2_option_new(&option));
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
    nghttp2_option_set_no_auto_window_update(option, 1);
    nghttp2_option_set_peer_max_concurrent_streams(option, 100000);
    assert_int_equal(0, nghttp2_session_client_new2(&session, callbacks, rig, option));
    nghttp2_option_del(option);
    nghttp2_session_callbacks_del(callbacks);
    assert_int_equal(0, nghttp2_submit_settings(session, NGHTTP2_FLAG_NONE, NULL, 0));
    return session;
}

void h2_rig_init(h2_rig *rig, const tide_net_limits *limits, bool has_auth)
{
    *rig = (h2_rig){0};
    tide_error err;
    virtual_env_init(&rig->env, 1);
    assert_ok_err(tide_routes_new(&rig->routes, &err), &err);
    assert_ok_err(test_service_add(&rig->service, rig->routes, &err), &err);
    assert_ok_err(tide_server_context_new(&rig->context, &rig->env.env, limits, rig->routes, &err),
                  &err);
    rig->service.counters = &rig->context->counters;
    if (has_auth)
        rig->context->authorise = test_service_authorise;
    const tide_conn_setup setup = {
        .context = rig->context, .peer = "192.0.2.1:5", .wake = note_wake, .wake_arg = rig};
    rig->conn = tide_h2_new(&setup, rig->env.mono_us);
    assert_non_null(rig->conn);
    rig->client = make_client(rig);
}

void h2_rig_done(h2_rig *rig)
{
    rig->conn->class->free(rig->conn);
    nghttp2_session_del(rig->client);
    for (size_t i = 0; i < rig->exchange_count; i++) {
        tide_buffer_done(&rig->exchanges[i]->request);
        tide_buffer_done(&rig->exchanges[i]->head);
        tide_buffer_done(&rig->exchanges[i]->body);
        tide_buffer_done(&rig->exchanges[i]->trailers);
        free(rig->exchanges[i]);
    }
    /* Nothing of any request is held any more, and nothing runs. */
    assert_int_equal(0, tide_budget_used(&rig->context->budget));
    assert_int_equal(0, tide_budget_used(&rig->context->answers));
    assert_int_equal(0, tide_counted(&rig->context->counters.calls_running));
    tide_server_context_release(rig->context);
    tide_routes_free(rig->routes);
    virtual_env_done(&rig->env);
}

static bool move_to_server(h2_rig *rig)
{
    const uint8_t *bytes;
    const ssize_t len = nghttp2_session_mem_send(rig->client, &bytes);
    assert_true(len >= 0);
    if (len == 0)
        return false;
    h2_rig_feed(rig, bytes, (size_t)len);
    return true;
}

void h2_rig_feed(h2_rig *rig, const void *bytes, size_t len)
{
    assert_int_equal(
        len, rig->conn->class->feed(rig->conn, tide_view_bytes(bytes, len), rig->env.mono_us));
}

static bool move_to_client(h2_rig *rig)
{
    rig->is_woken = false;
    rig->next_us = rig->conn->class->step(rig->conn, rig->env.mono_us);
    bool has_moved = false;
    for (;;) {
        const tide_view bytes = rig->conn->class->pull(rig->conn);
        if (bytes.len == 0)
            return has_moved || rig->is_woken;
        assert_int_equal(bytes.len, nghttp2_session_mem_recv(
                                        rig->client, (const uint8_t *)bytes.ptr, bytes.len));
        has_moved = true;
    }
}

void h2_rig_run(h2_rig *rig)
{
    bool is_moving = true;
    while (is_moving) {
        is_moving = false;
        while (move_to_server(rig))
            is_moving = true;
        is_moving = move_to_client(rig) || is_moving;
    }
}

static ssize_t read_request(nghttp2_session *session, int32_t id, uint8_t *out, size_t size,
                            uint32_t *flags, nghttp2_data_source *source, void *arg)
{
    (void)session;
    (void)id;
    (void)arg;
    h2_exchange *exchange = source->ptr;
    const size_t len = exchange->request.len < size ? exchange->request.len : size;
    if (len > 0) {
        memcpy(out, exchange->request.ptr, len);
        memmove(exchange->request.ptr, exchange->request.ptr + len, exchange->request.len - len);
        tide_buffer_truncate(&exchange->request, exchange->request.len - len);
    }
    if (exchange->request.len == 0 && exchange->is_request_over)
        *flags |= NGHTTP2_DATA_FLAG_EOF;
    else if (len == 0) {
        exchange->is_waiting = true;
        return NGHTTP2_ERR_DEFERRED;
    }
    return (ssize_t)len;
}

static nghttp2_nv make_nv(const char *name, const char *value)
{
    nghttp2_nv nv = {.namelen = strlen(name), .valuelen = strlen(value)};
    memcpy(&nv.name, &name, sizeof nv.name);
    memcpy(&nv.value, &value, sizeof nv.value);
    return nv;
}

h2_exchange *h2_open(h2_rig *rig, const char *method, const char *path, const char *const *fields)
{
    assert_true(rig->exchange_count < H2_RIG_STREAMS_MAX);
    h2_exchange *exchange = calloc(1, sizeof *exchange);
    assert_non_null(exchange);
    rig->exchanges[rig->exchange_count++] = exchange;
    tide_buffer_init(&exchange->request, BUFFER_MAX);
    tide_buffer_init(&exchange->head, BUFFER_MAX);
    tide_buffer_init(&exchange->body, BUFFER_MAX);
    tide_buffer_init(&exchange->trailers, BUFFER_MAX);
    nghttp2_nv nvs[FIELDS_MAX];
    size_t count = 0;
    nvs[count++] = make_nv(":method", method);
    nvs[count++] = make_nv(":scheme", "http");
    nvs[count++] = make_nv(":path", path);
    nvs[count++] = make_nv(":authority", "test");
    for (; fields && fields[0]; fields += 2)
        nvs[count++] = make_nv(fields[0], fields[1]);
    const nghttp2_data_provider provider = {.source = {.ptr = exchange},
                                            .read_callback = read_request};
    exchange->id = nghttp2_submit_request(rig->client, NULL, nvs, count,
                                          strcmp(method, "POST") == 0 ? &provider : NULL, exchange);
    assert_true(exchange->id > 0);
    h2_rig_run(rig);
    return exchange;
}

void h2_write(h2_rig *rig, h2_exchange *exchange, tide_view bytes, bool is_last)
{
    assert_ok(tide_buffer_append_view(&exchange->request, bytes));
    exchange->is_request_over = is_last;
    if (exchange->is_waiting)
        (void)nghttp2_session_resume_data(rig->client, exchange->id);
    exchange->is_waiting = false;
    h2_rig_run(rig);
}

void h2_reset(h2_rig *rig, h2_exchange *exchange)
{
    assert_int_equal(
        0, nghttp2_submit_rst_stream(rig->client, NGHTTP2_FLAG_NONE, exchange->id, NGHTTP2_CANCEL));
    h2_rig_run(rig);
}

void h2_frame(tide_buffer *out, bool is_compressed, tide_view message)
{
    uint8_t prefix[TIDE_GRPC_PREFIX_LEN];
    tide_grpc_prefix_encode(prefix, is_compressed, (uint32_t)message.len);
    assert_ok(tide_buffer_append(out, prefix, sizeof prefix));
    assert_ok(tide_buffer_append_view(out, message));
}

h2_exchange *h2_call(h2_rig *rig, const char *path, tide_view message)
{
    static const char *const fields[] = {"content-type", "application/grpc", "te", "trailers",
                                         NULL};
    tide_buffer bytes;
    tide_buffer_init(&bytes, BUFFER_MAX);
    h2_frame(&bytes, false, message);
    h2_exchange *exchange = h2_open(rig, "POST", path, fields);
    h2_write(rig, exchange, tide_buffer_view(&bytes), true);
    tide_buffer_done(&bytes);
    return exchange;
}

h2_exchange *h2_post(h2_rig *rig, const char *path, const char *type, tide_view body)
{
    const char *const fields[] = {"content-type", type, NULL};
    h2_exchange *exchange = h2_open(rig, "POST", path, fields);
    h2_write(rig, exchange, body, true);
    return exchange;
}

const char *h2_field(const tide_buffer *lines, const char *name)
{
    static char value[65536];
    const size_t len = strlen(name);
    for (const char *line = tide_buffer_text(lines); *line; line = strchr(line, '\n') + 1) {
        if (strncmp(line, name, len) != 0 || line[len] != ':')
            continue;
        (void)snprintf(value, sizeof value, "%.*s", (int)strcspn(line + len + 2, "\n"),
                       line + len + 2);
        return value;
    }
    return "";
}

static tide_view pack_into(tide_buffer *out, const ProtobufCMessage *message)
{
    tide_buffer_clear(out);
    const size_t len = protobuf_c_message_get_packed_size(message);
    assert_ok(tide_buffer_reserve(out, len));
    out->len = protobuf_c_message_pack(message, (uint8_t *)out->ptr);
    return tide_buffer_view(out);
}

tide_view h2_simple_request(tide_buffer *out, int32_t response_size)
{
    Grpc__Testing__SimpleRequest request = GRPC__TESTING__SIMPLE_REQUEST__INIT;
    request.response_size = response_size;
    return pack_into(out, &request.base);
}

tide_view h2_output_request(tide_buffer *out, const int32_t *sizes, size_t count)
{
    Grpc__Testing__StreamingOutputCallRequest request =
        GRPC__TESTING__STREAMING_OUTPUT_CALL_REQUEST__INIT;
    Grpc__Testing__ResponseParameters *rows = calloc(count, sizeof *rows);
    Grpc__Testing__ResponseParameters **links = calloc(count, sizeof(void *));
    for (size_t i = 0; i < count; i++) {
        rows[i] = (Grpc__Testing__ResponseParameters)GRPC__TESTING__RESPONSE_PARAMETERS__INIT;
        rows[i].size = sizes[i];
        links[i] = &rows[i];
    }
    request.n_response_parameters = count;
    request.response_parameters = links;
    const tide_view bytes = pack_into(out, &request.base);
    free(rows);
    free(links);
    return bytes;
}
