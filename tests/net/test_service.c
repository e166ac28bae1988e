#include "net/test_service.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "grpc_testing_empty.pb-c.h"
#include "grpc_testing_messages.pb-c.h"
#include "net/call/call.h"

enum { PIECE_LEN = 65536, NUMBERS_MAX = 65536, PIECES_MAX = 100000 };

static const char INITIAL[] = "x-grpc-test-echo-initial";
static const char TRAILING[] = "x-grpc-test-echo-trailing-bin";

static void echo_metadata(tide_call *call)
{
    const char *initial = tide_call_metadata(call, INITIAL);
    const tide_view trailing = tide_call_metadata_view(call, TRAILING);
    if (initial)
        tide_call_add_header(call, INITIAL, initial);
    if (trailing.ptr)
        tide_call_add_trailer_view(call, TRAILING, trailing);
}

/* false: the call has ended with the reason. */
static bool decode(tide_call *call, tide_view message, ProtobufCMessage **out)
{
    tide_error err = {0};
    const tide_status status = tide_call_decode(call, message, out, &err);
    if (status != TIDE_OK)
        tide_call_end(call, status, &err);
    return status == TIDE_OK;
}

static bool end_as_asked(tide_call *call, const Grpc__Testing__EchoStatus *wanted)
{
    if (!wanted || wanted->code == 0)
        return false;
    const tide_call_status status = {.grpc_code = wanted->code, .message = wanted->message};
    tide_call_end_with(call, &status);
    return true;
}

static bool is_as_expected(tide_call *call, const Grpc__Testing__BoolValue *expected)
{
    if (!expected || (bool)expected->value == tide_call_was_compressed(call))
        return true;
    tide_error err;
    tide_call_end(call, tide_fail(&err, TIDE_E_INVALID, "compression is not as expected"), &err);
    return false;
}

static void empty_call(tide_call *call, tide_view message, void *arg)
{
    (void)message;
    (void)arg;
    const Grpc__Testing__Empty empty = GRPC__TESTING__EMPTY__INIT;
    tide_call_respond_message(call, &empty.base);
}

static void unary_call(tide_call *call, tide_view message, void *arg)
{
    (void)arg;
    ProtobufCMessage *decoded;
    echo_metadata(call);
    if (!decode(call, message, &decoded))
        return;
    const Grpc__Testing__SimpleRequest *request = (const Grpc__Testing__SimpleRequest *)decoded;
    if (!is_as_expected(call, request->expect_compressed) ||
        end_as_asked(call, request->response_status))
        return;
    if (request->response_compressed)
        tide_call_compress(call, request->response_compressed->value);
    const size_t len = request->response_size > 0 ? (size_t)request->response_size : 0;
    Grpc__Testing__Payload payload = GRPC__TESTING__PAYLOAD__INIT;
    payload.body = (ProtobufCBinaryData){.len = len, .data = calloc(1, len + 1)};
    Grpc__Testing__SimpleResponse response = GRPC__TESTING__SIMPLE_RESPONSE__INIT;
    response.payload = &payload;
    tide_call_respond_message(call, &response.base);
    free(payload.body.data);
}

static bool send_piece(test_service *service, tide_call *call, size_t len)
{
    Grpc__Testing__Payload payload = GRPC__TESTING__PAYLOAD__INIT;
    payload.body = (ProtobufCBinaryData){.len = len, .data = calloc(1, len + 1)};
    Grpc__Testing__StreamingOutputCallResponse response =
        GRPC__TESTING__STREAMING_OUTPUT_CALL_RESPONSE__INIT;
    response.payload = &payload;
    const bool is_sent = tide_call_send_message(call, &response.base);
    free(payload.body.data);
    (void)atomic_fetch_add(&service->streamed, 1);
    return is_sent;
}

/* A download that goes on when its reader has taken enough. Everything happens on the loop. */
typedef struct download {
    test_service *service;
    size_t count;
    size_t next;
    size_t *sizes; /* NULL: raw pieces */
} download;

static void free_download(download *d)
{
    free(d->sizes);
    free(d);
}

static bool send_next(tide_call *call, download *d)
{
    static const char zeros[PIECE_LEN];
    const size_t index = d->next++;
    if (d->sizes)
        return send_piece(d->service, call, d->sizes[index]);
    (void)atomic_fetch_add(&d->service->streamed, 1);
    return tide_call_send(call, tide_view_bytes(zeros, sizeof zeros));
}

static void go_on(tide_call *call, void *arg)
{
    download *d = arg;
    while (d->next < d->count && !tide_call_is_full(call)) {
        if (!send_next(call, d)) {
            if (!tide_call_is_cancelled(call)) /* that is told separately */
                free_download(d);
            return;
        }
    }
    if (d->next < d->count) {
        tide_call_on_drain(call, go_on, d);
        return;
    }
    tide_call_on_cancel(call, NULL, NULL);
    tide_call_end(call, TIDE_OK, NULL);
    free_download(d);
}

static void cancel_download(tide_call *call, void *arg)
{
    (void)call;
    download *d = arg;
    (void)atomic_fetch_add(&d->service->cancelled, 1);
    free_download(d);
}

static void begin_download(tide_call *call, download *d)
{
    tide_call_on_cancel(call, cancel_download, d);
    go_on(call, d);
}

static void streaming_output_call(tide_call *call, tide_view message, void *arg)
{
    ProtobufCMessage *decoded;
    echo_metadata(call);
    if (!decode(call, message, &decoded))
        return;
    const Grpc__Testing__StreamingOutputCallRequest *request =
        (const Grpc__Testing__StreamingOutputCallRequest *)decoded;
    if (end_as_asked(call, request->response_status))
        return;
    download *d = calloc(1, sizeof *d);
    d->service = arg;
    d->count = request->n_response_parameters;
    d->sizes = calloc(d->count + 1, sizeof *d->sizes);
    for (size_t i = 0; i < d->count; i++) {
        const int32_t size = request->response_parameters[i]->size;
        d->sizes[i] = size > 0 ? (size_t)size : 0;
    }
    begin_download(call, d);
}

static void count_input(tide_call *call, tide_view message, void *arg)
{
    int32_t *sum = arg;
    if (!message.ptr) {
        Grpc__Testing__StreamingInputCallResponse response =
            GRPC__TESTING__STREAMING_INPUT_CALL_RESPONSE__INIT;
        response.aggregated_payload_size = *sum;
        tide_call_on_cancel(call, NULL, NULL);
        tide_call_respond_message(call, &response.base);
        free(sum);
        return;
    }
    ProtobufCMessage *decoded;
    if (!decode(call, message, &decoded)) {
        free(sum);
        return;
    }
    const Grpc__Testing__StreamingInputCallRequest *request =
        (const Grpc__Testing__StreamingInputCallRequest *)decoded;
    if (!is_as_expected(call, request->expect_compressed)) {
        free(sum);
        return;
    }
    *sum += request->payload ? (int32_t)request->payload->body.len : 0;
}

static void free_sum(tide_call *call, void *arg)
{
    (void)call;
    free(arg);
}

static void streaming_input_call(tide_call *call, tide_view message, void *arg)
{
    (void)message;
    (void)arg;
    int32_t *sum = calloc(1, sizeof *sum);
    tide_call_on_cancel(call, free_sum, sum);
    tide_call_receive(call, count_input, sum);
}

static void answer_duplex(tide_call *call, tide_view message, void *arg)
{
    if (!message.ptr) {
        tide_call_end(call, TIDE_OK, NULL);
        return;
    }
    ProtobufCMessage *decoded;
    if (!decode(call, message, &decoded))
        return;
    const Grpc__Testing__StreamingOutputCallRequest *request =
        (const Grpc__Testing__StreamingOutputCallRequest *)decoded;
    if (end_as_asked(call, request->response_status))
        return;
    for (size_t i = 0; i < request->n_response_parameters; i++) {
        const int32_t size = request->response_parameters[i]->size;
        if (!send_piece(arg, call, size > 0 ? (size_t)size : 0))
            return;
    }
}

static void full_duplex_call(tide_call *call, tide_view message, void *arg)
{
    (void)message;
    echo_metadata(call);
    tide_call_receive(call, answer_duplex, arg);
}

/* ---- plain routes ---- */

static void tell_health(tide_call *call, tide_view message, void *arg)
{
    (void)message;
    (void)arg;
    tide_call_http_respond(call, 200, "text/plain", tide_view_of("ok\n"));
}

static void tell_numbers(tide_call *call, tide_view message, void *arg)
{
    (void)message;
    const test_service *service = arg;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer text;
    tide_buffer_init(&text, NUMBERS_MAX);
    const tide_net_counters *counters = service->counters;
#define COUNTER(name, ...)                                                                         \
    TIDE_IGNORE(                                                                                   \
        tide_buffer_printf(&text, #name " %lld\n", (long long)tide_counted(&counters->name)));
    if (counters) {
        TIDE_NET_COUNTER_TABLE(COUNTER)
    }
#undef COUNTER
    if (service->server)
        TIDE_IGNORE(tide_buffer_printf(&text, "held_len %zu\nanswers_len %zu\n",
                                       tide_server_held_len(service->server),
                                       tide_server_responses_len(service->server)));
    TIDE_IGNORE(tide_buffer_printf(&text, "running %d\ncancelled %d\nstreamed %d\n",
                                   atomic_load(&service->running), atomic_load(&service->cancelled),
                                   atomic_load(&service->streamed)));
    tide_call_http_respond(call, 200, "text/plain", tide_buffer_view(&text));
}

static void echo_body(tide_call *call, tide_view message, void *arg)
{
    (void)arg;
    tide_call_http_respond(call, 200, tide_call_content_type(call), message);
}

static void stream_pieces(tide_call *call, tide_view message, void *arg)
{
    (void)message;
    download *d = calloc(1, sizeof *d);
    d->service = arg;
    const long count = strtol(tide_call_query(call), NULL, 10);
    d->count = count > 0 && count <= PIECES_MAX ? (size_t)count : 1;
    tide_call_add_header(call, "content-type", "application/octet-stream");
    begin_download(call, d);
}

/* As many bytes as the query says and there is room for. */
static void tell_page(tide_call *call, tide_view message, void *arg)
{
    (void)message;
    (void)arg;
    const size_t len = tide_call_reserve(call, strtoul(tide_call_query(call), NULL, 10));
    char *page = calloc(1, len + 1);
    if (page && len > 0)
        tide_call_http_respond(call, 200, "application/octet-stream", tide_view_bytes(page, len));
    else
        tide_call_end(call, TIDE_E_NOMEM, NULL);
    free(page);
}

static void answer_slowly(tide_call *call, tide_view message, void *arg)
{
    (void)message;
    test_service *service = arg;
    (void)atomic_fetch_add(&service->running, 1);
    const char *wait = tide_call_metadata(call, "x-wait-ms");
    (void)usleep(wait ? (useconds_t)strtoul(wait, NULL, 10) * 1000 : 0);
    tide_call_http_respond(call, 200, "text/plain", tide_view_of("at last\n"));
}

static void count_cancel(tide_call *call, void *arg)
{
    (void)call;
    test_service *service = arg;
    (void)atomic_fetch_add(&service->cancelled, 1);
}

static void never_answer(tide_call *call, tide_view message, void *arg)
{
    (void)message;
    tide_call_on_cancel(call, count_cancel, arg);
}

static void park(tide_call *call, tide_view message, void *arg)
{
    (void)message;
    test_service *service = arg;
    tide_call_hold(call);
    atomic_store(&service->parked, call);
}

void test_service_answer_parked(test_service *service)
{
    tide_call *call = atomic_exchange(&service->parked, NULL);
    if (!call)
        return;
    tide_call_http_respond(call, 200, "text/plain", tide_view_of("late\n"));
    tide_call_release(call);
}

static void tell_path(tide_call *call, tide_view message, void *arg)
{
    (void)message;
    (void)arg;
    tide_call_http_respond(call, 200, "text/plain", tide_view_of(tide_call_path(call)));
}

static const tide_method METHODS[] = {
    {"/grpc.testing.TestService/EmptyCall", TIDE_CALL_UNARY, TIDE_ROLE_READ, false,
     &grpc__testing__empty__descriptor, &grpc__testing__empty__descriptor, empty_call},
    {"/grpc.testing.TestService/UnaryCall", TIDE_CALL_UNARY, TIDE_ROLE_READ, false,
     &grpc__testing__simple_request__descriptor, &grpc__testing__simple_response__descriptor,
     unary_call},
    {"/grpc.testing.TestService/CacheableUnaryCall", TIDE_CALL_UNARY, TIDE_ROLE_WRITE, true,
     &grpc__testing__simple_request__descriptor, &grpc__testing__simple_response__descriptor,
     unary_call},
    {"/grpc.testing.TestService/StreamingOutputCall", TIDE_CALL_SERVER_STREAM, TIDE_ROLE_READ,
     false, &grpc__testing__streaming_output_call_request__descriptor,
     &grpc__testing__streaming_output_call_response__descriptor, streaming_output_call},
    {"/grpc.testing.TestService/StreamingInputCall", TIDE_CALL_CLIENT_STREAM, TIDE_ROLE_READ, false,
     &grpc__testing__streaming_input_call_request__descriptor,
     &grpc__testing__streaming_input_call_response__descriptor, streaming_input_call},
    {"/grpc.testing.TestService/FullDuplexCall", TIDE_CALL_BIDIRECTIONAL, TIDE_ROLE_READ, true,
     &grpc__testing__streaming_output_call_request__descriptor,
     &grpc__testing__streaming_output_call_response__descriptor, full_duplex_call},
    {0},
};

static const tide_route ROUTES[] = {
    {"GET", "/healthz", false, TIDE_ROLE_NONE, false, tell_health},
    {"GET", "/numbers", false, TIDE_ROLE_NONE, false, tell_numbers},
    {"POST", "/echo", false, TIDE_ROLE_READ, false, echo_body},
    {"GET", "/stream", false, TIDE_ROLE_READ, false, stream_pieces},
    {"GET", "/page", false, TIDE_ROLE_READ, false, tell_page},
    {"POST", "/slow", false, TIDE_ROLE_READ, true, answer_slowly},
    {"GET", "/never", false, TIDE_ROLE_READ, false, never_answer},
    {"POST", "/park", false, TIDE_ROLE_READ, false, park},
    {"GET", "/files/", true, TIDE_ROLE_READ, false, tell_path},
    {0},
};

tide_status test_service_add(test_service *service, tide_routes *routes, tide_error *err)
{
    TIDE_TRY(tide_routes_add_methods(routes, METHODS, service, err));
    return tide_routes_add(routes, ROUTES, service, err);
}

tide_status test_service_authorise(void *arg, const tide_credentials *given, tide_caller *out,
                                   tide_error *err)
{
    (void)arg;
    static const struct {
        const char *token;
        tide_call_role role;
    } tokens[] = {
        {"reader", TIDE_ROLE_READ}, {"writer", TIDE_ROLE_WRITE}, {"admin", TIDE_ROLE_ADMIN}};
    for (size_t i = 0; given->token && i < sizeof tokens / sizeof tokens[0]; i++) {
        if (strcmp(given->token, tokens[i].token) == 0) {
            (void)snprintf(out->name, sizeof out->name, "%s", tokens[i].token);
            out->role = tokens[i].role;
            return TIDE_OK;
        }
    }
    if (!given->token && given->certificate) {
        (void)snprintf(out->name, sizeof out->name, "%s", given->certificate);
        out->role = TIDE_ROLE_WRITE;
        return TIDE_OK;
    }
    return tide_fail(err, TIDE_E_UNAUTHENTICATED, "no valid token");
}
