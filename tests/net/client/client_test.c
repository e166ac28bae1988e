/* Our client against a gRPC server that others made (echo_server.py). */
#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "net/certificates.h"
#include "net/client/client.h"
#include "net/client/client_internal.h"
#include "net/client/echo.h"
#include "support/check.h"
#include "support/process/proc.h"

enum { THREADS = 8, CALLS = 25 };

#define UNARY "/test.Echo/Unary"
#define SECOND INT64_C(1000000)

/* ---- the fixture: one server for all cases ---- */

static echo shared;

static int start_shared(void **state)
{
    (void)state;
    echo_start(&shared, NULL, NULL, NULL);
    return 0;
}

static int stop_shared(void **state)
{
    (void)state;
    echo_stop(&shared);
    return 0;
}

typedef struct client_test {
    tide_client *client;
    tide_client_response reply;
    tide_error err;
} client_test;

static int setup(void **state)
{
    client_test *t = calloc(1, sizeof *t);
    assert_non_null(t);
    tide_client_response_init(&t->reply);
    *state = t;
    return 0;
}

static int teardown(void **state)
{
    client_test *t = *state;
    tide_client_response_done(&t->reply);
    tide_client_close(t->client);
    free(t);
    return 0;
}

static void open_with(client_test *t, const char *scheme, int port, tide_client_options options)
{
    char target[64];
    (void)snprintf(target, sizeof target, "%s://127.0.0.1:%d", scheme, port);
    options.target = target;
    if (options.backoff.base_us == 0)
        options.backoff = (tide_backoff){.base_us = 2000, .cap_us = 20000};
    assert_ok_err(tide_client_open(&t->client, &options, &t->err), &t->err);
}

static void open_client(client_test *t)
{
    open_with(t, "http", shared.grpc_port, (tide_client_options){.token = NULL});
}

#define FIELD(name_, value_)                                                                       \
    {                                                                                              \
        .name = (name_), .value = {(value_), sizeof(value_) - 1 }                                  \
    }

/* A call with up to three fields of metadata. */
static tide_status call(client_test *t, const char *message, bool is_idempotent,
                        const tide_client_field *fields, size_t field_count)
{
    const tide_client_request request = {.path = UNARY,
                                         .message = tide_view_of(message),
                                         .fields = fields,
                                         .field_count = field_count,
                                         .is_idempotent = is_idempotent};
    return tide_client_call(t->client, &request, &t->reply, &t->err);
}

#define CALL(t, message, is_idempotent, ...)                                                       \
    call((t), (message), (is_idempotent), (const tide_client_field[]){__VA_ARGS__},                \
         sizeof((const tide_client_field[]){__VA_ARGS__}) / sizeof(tide_client_field))

/* ---- one message there, one back ---- */

static void a_call_comes_back_with_message_and_metadata(void **state)
{
    client_test *t = *state;
    open_client(t);
    assert_ok_err(CALL(t, "hello", false, FIELD("x-some", "thing")), &t->err);
    assert_string_equal("hello", tide_buffer_text(&t->reply.message));
    assert_int_equal(200, t->reply.http_code);
    assert_int_equal(0, t->reply.grpc_code);
    assert_int_equal(1, t->reply.try_count);
    assert_string_equal("hello", tide_headers_text(&t->reply.head, "x-header"));
    const tide_header_field *binary = tide_headers_find(&t->reply.head, "x-header-bin");
    assert_non_null(binary);
    assert_int_equal(2, binary->value_len);
    assert_memory_equal("\x00\xfe", binary->value, 2);
    assert_ok_err(CALL(t, "", false, FIELD("x-some", "thing")), &t->err);
    assert_int_equal(0, t->reply.message.len);
}

static void what_is_sent_arrives(void **state)
{
    client_test *t = *state;
    open_client(t);
    assert_ok_err(CALL(t, "", false, FIELD("x-show", "1"), FIELD("x-plain", "two words"),
                       FIELD("x-bytes-bin", "\x00\x01\xff\n"), FIELD("x-empty", "")),
                  &t->err);
    const char *text = tide_buffer_text(&t->reply.message);
    assert_contains(text, "x-plain='two words'");
    assert_contains(text, "x-bytes-bin=b'\\x00\\x01\\xff\\n'");
    assert_contains(text, "x-empty=''");
    assert_contains(text, "user-agent='tidemark'");
    assert_contains(text, "left=59."); /* the deadline is told */
    assert_null(strstr(text, "authorization"));
}

static void fields_that_could_break_a_line_are_refused(void **state)
{
    client_test *t = *state;
    open_client(t);
    assert_status(TIDE_E_INVALID, CALL(t, "", false, FIELD("x-bad", "a\r\nx-evil: 1")));
    assert_status(TIDE_E_INVALID, CALL(t, "", false, FIELD("x bad", "a")));
    assert_status(TIDE_E_INVALID, CALL(t, "", false, FIELD("x-bad:", "a")));
    assert_status(TIDE_E_INVALID, CALL(t, "", false, FIELD("X-Bad", "a")));
    assert_status(TIDE_E_INVALID, CALL(t, "", false, FIELD("grpc-status", "0")));
    const tide_client_request request = {.path = "/a b"};
    assert_status(TIDE_E_INVALID, tide_client_call(t->client, &request, &t->reply, &t->err));
    const tide_client_request slashless = {.path = "test.Echo/Unary"};
    assert_status(TIDE_E_INVALID, tide_client_call(t->client, &slashless, &t->reply, &t->err));
}

static void a_failure_has_code_words_and_details(void **state)
{
    client_test *t = *state;
    open_client(t);
    assert_status(TIDE_E_NOT_FOUND,
                  CALL(t, "", false, FIELD("x-code", "5"), FIELD("x-message", "100% not here"),
                       FIELD("x-retry-ms", "1500")));
    assert_string_equal("100% not here", t->err.text);
    assert_int_equal(5, t->reply.grpc_code);
    assert_int_equal(1500000, t->reply.retry_after_us);
    assert_true(t->reply.details.len > 20);
    assert_string_equal("yes", tide_headers_text(&t->reply.trailers, "x-trailer"));
    assert_int_equal(1, t->reply.try_count); /* not a code to try again */
    /* Idempotent, so that an answer which libcurl loses (see client_transfer.c) is asked for again. */
    const tide_client_request unknown = {.path = "/test.Echo/None", .is_idempotent = true};
    assert_status_err(TIDE_E_UNSUPPORTED, tide_client_call(t->client, &unknown, &t->reply, &t->err),
                      &t->err);
}

static void every_code_has_a_status(void **state)
{
    client_test *t = *state;
    open_client(t);
    char code[16];
    for (int i = 1; i < TIDE_GRPC_CODES; i++) {
        (void)snprintf(code, sizeof code, "%d", i);
        const tide_client_field field = {.name = "x-code", .value = tide_view_of(code)};
        const tide_status status = call(t, "", false, &field, 1);
        assert_status(tide_client_status_of(i), status);
        assert_true(status < TIDE_OK);
        assert_int_equal(i, t->reply.grpc_code);
    }
    assert_status(TIDE_E_FAILED, tide_client_status_of(99));
}

static void large_and_compressed_messages_come_back_whole(void **state)
{
    client_test *t = *state;
    open_with(t, "http", shared.grpc_port, (tide_client_options){.is_gzip = true});
    const size_t len = 5 << 20;
    char *message = malloc(len + 1);
    assert_non_null(message);
    uint32_t random = 1; /* half of it can be compressed away */
    for (size_t i = 0; i < len; i++) {
        random = random * 1103515245U + 12345U;
        message[i] = (char)('a' + (random >> 16) % 16);
    }
    message[len] = '\0';
    assert_ok_err(CALL(t, message, false, FIELD("x-gzip", "1")), &t->err);
    assert_int_equal(len, t->reply.message.len);
    assert_memory_equal(message, t->reply.message.ptr, len);
    assert_string_equal("gzip", tide_headers_text(&t->reply.head, "grpc-encoding"));
    free(message);
}

static void messages_above_the_maximum_are_refused_on_both_ways(void **state)
{
    client_test *t = *state;
    open_with(t, "http", shared.grpc_port, (tide_client_options){.message_max = 1000});
    char message[1002];
    memset(message, 'x', sizeof message);
    message[1001] = '\0';
    assert_status(TIDE_E_LIMIT, call(t, message, false, NULL, 0));
    const tide_client_request request = {.path = "/test.Echo/Stream",
                                         .message = tide_view_of("1 1001")};
    assert_status(TIDE_E_LIMIT, tide_client_call(t->client, &request, &t->reply, &t->err));
    assert_contains(t->err.text, "1001 bytes");
    /* A bomb: small as sent, large as unpacked. */
    tide_client_close(t->client);
    t->client = NULL;
    open_with(t, "http", shared.grpc_port,
              (tide_client_options){.message_max = 300000, .is_gzip = true});
    char *zeros = calloc(1, 300001);
    assert_non_null(zeros);
    memset(zeros, 'z', 300000);
    assert_ok_err(CALL(t, zeros, false, FIELD("x-gzip", "1")), &t->err);
    free(zeros);
}

/* ---- deadlines, cancelling, stopping ---- */

static void the_deadline_ends_a_call(void **state)
{
    client_test *t = *state;
    open_client(t);
    const tide_client_field sleep = FIELD("x-sleep-ms", "5000");
    const tide_client_request request = {
        .path = UNARY, .fields = &sleep, .field_count = 1, .timeout_us = 100000};
    const int64_t before_ms = proc_now_ms();
    assert_status(TIDE_E_TIMEOUT, tide_client_call(t->client, &request, &t->reply, &t->err));
    assert_true(proc_now_ms() - before_ms < 3000);
}

typedef struct stopper {
    tide_client *client;
    tide_client_stream *stream;
} stopper;

static void *stop_soon(void *arg)
{
    stopper *s = arg;
    const struct timespec moment = {.tv_nsec = 50000000};
    (void)nanosleep(&moment, NULL); /* so that the call waits already, most of the time */
    if (s->stream)
        tide_client_cancel(s->stream);
    else
        tide_client_stop(s->client);
    return NULL;
}

static void stopping_ends_calls_of_other_threads(void **state)
{
    client_test *t = *state;
    open_client(t);
    pthread_t thread;
    stopper s = {.client = t->client};
    assert_int_equal(0, pthread_create(&thread, NULL, stop_soon, &s));
    const int64_t before_ms = proc_now_ms();
    assert_status(TIDE_E_INTERRUPTED, CALL(t, "", true, FIELD("x-sleep-ms", "10000")));
    assert_true(proc_now_ms() - before_ms < 5000);
    assert_int_equal(0, pthread_join(thread, NULL));
    assert_status(TIDE_E_INTERRUPTED, call(t, "", true, NULL, 0));
}

static void stopping_ends_a_wait_between_tries(void **state)
{
    client_test *t = *state;
    open_with(t, "http", 1, /* nobody listens there */
              (tide_client_options){.backoff = {.base_us = 20 * SECOND, .cap_us = 20 * SECOND}});
    pthread_t thread;
    stopper s = {.client = t->client};
    assert_int_equal(0, pthread_create(&thread, NULL, stop_soon, &s));
    const int64_t before_ms = proc_now_ms();
    assert_status(TIDE_E_INTERRUPTED, call(t, "", true, NULL, 0));
    assert_true(proc_now_ms() - before_ms < 5000);
    assert_int_equal(0, pthread_join(thread, NULL));
}

/* ---- trying again ---- */

static void a_call_that_never_arrived_is_tried_again(void **state)
{
    client_test *t = *state;
    open_with(t, "http", 1, (tide_client_options){.try_max = 3});
    assert_status(TIDE_E_UNAVAILABLE, call(t, "", false, NULL, 0));
    assert_int_equal(3, t->reply.try_count);
    assert_contains(t->err.text, "127.0.0.1:1");
}

static void unavailable_is_tried_again_where_that_is_safe(void **state)
{
    client_test *t = *state;
    open_client(t);
    assert_ok_err(CALL(t, "x", true, FIELD("x-fail", "idempotent:2")), &t->err);
    assert_int_equal(3, t->reply.try_count);
    assert_string_equal("3", tide_headers_text(&t->reply.trailers, "x-tries"));
    assert_status(TIDE_E_UNAVAILABLE, CALL(t, "x", false, FIELD("x-fail", "once:2")));
    assert_int_equal(1, t->reply.try_count);
    /* the server says: again */
    assert_ok_err(CALL(t, "x", false, FIELD("x-fail", "advised:2"), FIELD("x-retry-ms", "10")),
                  &t->err);
    assert_int_equal(3, t->reply.try_count);
    assert_ok(CALL(t, "x", false, FIELD("x-fail", "pushed:1"), FIELD("x-pushback-ms", "5")));
    /* the server says: not again */
    assert_status(TIDE_E_UNAVAILABLE,
                  CALL(t, "x", true, FIELD("x-fail", "refused:2"), FIELD("x-pushback-ms", "-1")));
    assert_int_equal(1, t->reply.try_count);
}

static void advice_beyond_the_deadline_is_not_waited_for(void **state)
{
    client_test *t = *state;
    open_with(t, "http", shared.grpc_port, (tide_client_options){.timeout_us = 2 * SECOND});
    const int64_t before_ms = proc_now_ms();
    assert_status(TIDE_E_LIMIT,
                  CALL(t, "", false, FIELD("x-code", "8"), FIELD("x-retry-ms", "60000")));
    assert_true(proc_now_ms() - before_ms < 1900);
    assert_int_equal(60 * SECOND, t->reply.retry_after_us);
}

/* Nobody knows what became of it: only the caller can say whether that matters. */
static void a_connection_that_breaks_leaves_the_outcome_unknown(void **state)
{
    client_test *t = *state;
    open_with(t, "http", shared.broken_port, (tide_client_options){.try_max = 2});
    assert_status(TIDE_E_OUTCOME_UNKNOWN, call(t, "x", false, NULL, 0));
    assert_int_equal(1, t->reply.try_count);
    assert_status(TIDE_E_UNAVAILABLE, call(t, "x", true, NULL, 0));
    assert_int_equal(2, t->reply.try_count);
}

static void who_does_not_speak_grpc_is_told_so(void **state)
{
    client_test *t = *state;
    open_with(t, "http", shared.http_port, (tide_client_options){.try_max = 1});
    assert_true(call(t, "x", false, NULL, 0) < TIDE_OK);
}

/* ---- streams ---- */

static void messages_of_a_server_stream_come_in_order(void **state)
{
    client_test *t = *state;
    open_with(t, "http", shared.grpc_port, (tide_client_options){.queue_len = 10000});
    const tide_client_request request = {.path = "/test.Echo/Stream",
                                         .message = tide_view_of("2000 100")};
    TIDE_CLEANUP(tide_client_endp) tide_client_stream *stream = NULL;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer message;
    tide_buffer_init(&message, 0);
    assert_ok_err(tide_client_begin(&stream, t->client, &request, &t->err), &t->err);
    for (int i = 0; i < 2000; i++) {
        assert_ok_err(tide_client_next(stream, &message, &t->err), &t->err);
        assert_int_equal(100, message.len);
        assert_int_equal(i, strtol(tide_buffer_text(&message), NULL, 10)); /* and dots */
    }
    assert_status(TIDE_NONE, tide_client_next(stream, &message, &t->err));
    assert_status(TIDE_NONE, tide_client_next(stream, &message, &t->err));
    assert_true(tide_client_is_ready(stream));
    assert_int_equal(0, tide_client_stream_response(stream)->grpc_code);
}

/* While nobody reads, little more than the queue is held here. */
static void a_slow_reader_holds_the_sender_back(void **state)
{
    client_test *t = *state;
    open_with(t, "http", shared.grpc_port, (tide_client_options){.queue_len = 50000});
    const tide_client_request request = {.path = "/test.Echo/Stream",
                                         .message = tide_view_of("3000 10000"),
                                         .timeout_us = 60 * SECOND};
    TIDE_CLEANUP(tide_client_endp) tide_client_stream *stream = NULL;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer message;
    tide_buffer_init(&message, 0);
    assert_ok(tide_client_begin(&stream, t->client, &request, &t->err));
    size_t most_len = 0;
    int count = 0;
    tide_status status = TIDE_OK;
    while ((status = tide_client_next(stream, &message, &t->err)) == TIDE_OK) {
        pthread_mutex_lock(&stream->lock);
        most_len = stream->queued_len > most_len ? stream->queued_len : most_len;
        pthread_mutex_unlock(&stream->lock);
        assert_int_equal(count++, strtol(tide_buffer_text(&message), NULL, 10));
    }
    assert_status_err(TIDE_NONE, status, &t->err);
    assert_int_equal(3000, count);
    assert_true(most_len < 50000 + 20000 + 16384 * 4);
}

static void a_client_stream_is_collected(void **state)
{
    client_test *t = *state;
    open_client(t);
    const tide_client_request request = {.path = "/test.Echo/Collect", .is_open = true};
    TIDE_CLEANUP(tide_client_endp) tide_client_stream *stream = NULL;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer message;
    tide_buffer_init(&message, 0);
    assert_ok(tide_client_begin(&stream, t->client, &request, &t->err));
    char piece[3000];
    memset(piece, 'p', sizeof piece);
    for (int i = 0; i < 1000; i++)
        assert_ok_err(tide_client_send(stream, tide_view_bytes(piece, sizeof piece), &t->err),
                      &t->err);
    tide_client_send_end(stream);
    assert_ok_err(tide_client_next(stream, &message, &t->err), &t->err);
    assert_string_equal("1000 3000000", tide_buffer_text(&message));
    assert_status(TIDE_NONE, tide_client_next(stream, &message, &t->err));
}

static void two_sides_talk_at_the_same_time(void **state)
{
    client_test *t = *state;
    open_client(t);
    const tide_client_request request = {
        .path = "/test.Echo/Chat", .message = tide_view_of("first"), .is_open = true};
    TIDE_CLEANUP(tide_client_endp) tide_client_stream *stream = NULL;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer message;
    tide_buffer_init(&message, 0);
    assert_ok(tide_client_begin(&stream, t->client, &request, &t->err));
    assert_ok_err(tide_client_next(stream, &message, &t->err), &t->err);
    assert_string_equal("first", tide_buffer_text(&message));
    for (int i = 0; i < 50; i++) {
        char text[16];
        (void)snprintf(text, sizeof text, "%d", i);
        assert_ok_err(tide_client_send(stream, tide_view_of(text), &t->err), &t->err);
        assert_ok_err(tide_client_next(stream, &message, &t->err), &t->err);
        assert_string_equal(text, tide_buffer_text(&message));
    }
    tide_client_send_end(stream);
    assert_status(TIDE_NONE, tide_client_next(stream, &message, &t->err));
}

static void a_cancelled_stream_ends_at_once(void **state)
{
    client_test *t = *state;
    open_client(t);
    const tide_client_request request = {.path = "/test.Echo/Chat", .is_open = true};
    tide_client_stream *stream = NULL;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer message;
    tide_buffer_init(&message, 0);
    assert_ok(tide_client_begin(&stream, t->client, &request, &t->err));
    pthread_t thread;
    stopper s = {.stream = stream};
    assert_int_equal(0, pthread_create(&thread, NULL, stop_soon, &s));
    assert_status(TIDE_E_INTERRUPTED, tide_client_next(stream, &message, &t->err));
    assert_int_equal(0, pthread_join(thread, NULL));
    assert_status(TIDE_E_INTERRUPTED, tide_client_send(stream, tide_view_of("x"), &t->err));
    tide_client_end(stream);
    /* given up without a word, in the middle */
    const tide_client_request more = {.path = "/test.Echo/Stream",
                                      .message = tide_view_of("100000 100")};
    assert_ok(tide_client_begin(&stream, t->client, &more, &t->err));
    assert_ok(tide_client_next(stream, &message, &t->err));
    tide_client_end(stream);
    assert_ok_err(call(t, "still here", false, NULL, 0), &t->err);
}

static void a_unary_call_wants_exactly_one_message(void **state)
{
    client_test *t = *state;
    open_client(t);
    tide_client_request request = {.path = "/test.Echo/Stream", .message = tide_view_of("2 10")};
    assert_status(TIDE_E_DAMAGED, tide_client_call(t->client, &request, &t->reply, &t->err));
    request.message = tide_view_of("0 10");
    assert_status(TIDE_E_DAMAGED, tide_client_call(t->client, &request, &t->reply, &t->err));
}

/* ---- many at a time ---- */

typedef struct caller {
    tide_client *client;
    pthread_t thread;
    int number;
    int good_count;
    char peers[CALLS][64];
} caller;

static void *call_often(void *arg)
{
    caller *c = arg;
    tide_client_response reply;
    tide_client_response_init(&reply);
    for (int i = 0; i < CALLS; i++) {
        const tide_client_field show = FIELD("x-show", "1");
        const tide_client_request request = {.path = UNARY, .fields = &show, .field_count = 1};
        if (tide_client_call(c->client, &request, &reply, NULL) != TIDE_OK)
            continue;
        const char *peer = strstr(tide_buffer_text(&reply.message), "peer=");
        (void)snprintf(c->peers[c->good_count++], 64, "%.*s", (int)strcspn(peer, "\n"), peer);
    }
    tide_client_response_done(&reply);
    return NULL;
}

/* HTTP/2 carries them side by side: the server sees few connections. */
static void many_threads_share_few_connections(void **state)
{
    client_test *t = *state;
    open_client(t);
    assert_ok(call(t, "warm", false, NULL, 0));
    static caller callers[THREADS];
    for (int i = 0; i < THREADS; i++) {
        callers[i] = (caller){.client = t->client, .number = i};
        assert_int_equal(0, pthread_create(&callers[i].thread, NULL, call_often, &callers[i]));
    }
    int different = 0;
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(0, pthread_join(callers[i].thread, NULL));
        assert_int_equal(CALLS, callers[i].good_count);
        for (int j = 0; j < CALLS; j++)
            different += strcmp(callers[0].peers[0], callers[i].peers[j]) != 0;
    }
    assert_int_equal(0, different);
}

static void a_unix_socket_is_a_target(void **state)
{
    client_test *t = *state;
    char target[300];
    (void)snprintf(target, sizeof target, "unix:%s", shared.socket_path);
    const tide_client_options options = {.target = target};
    assert_ok_err(tide_client_open(&t->client, &options, &t->err), &t->err);
    assert_ok_err(call(t, "inside", false, NULL, 0), &t->err);
    assert_string_equal("inside", tide_buffer_text(&t->reply.message));
}

/* ---- plain HTTP ---- */

static tide_status post(client_test *t, const char *path, const char *body, bool is_idempotent)
{
    const tide_client_request request = {
        .path = path, .message = tide_view_of(body), .is_idempotent = is_idempotent};
    return tide_client_post(t->client, &request, &t->reply, &t->err);
}

static void a_post_comes_back_with_its_body(void **state)
{
    client_test *t = *state;
    open_with(t, "http", shared.http_port, (tide_client_options){.is_gzip = true});
    assert_ok_err(post(t, "/echo", "{\"a\":1}", false), &t->err);
    assert_string_equal("{\"a\":1}", tide_buffer_text(&t->reply.message));
    assert_string_equal("hello", tide_headers_text(&t->reply.head, "x-header"));
    assert_ok(post(t, "/show", "", false));
    assert_contains(tide_buffer_text(&t->reply.message), "application/json");
    assert_status(TIDE_E_CONFLICT, post(t, "/json", "{}", false));
    assert_contains(t->err.text, "somebody was faster");
    assert_contains(tide_buffer_text(&t->reply.message), "\"code\":10");
    assert_status(TIDE_E_NOT_FOUND, post(t, "/code/404", "{}", true));
    assert_contains(t->err.text, "HTTP 404: as you wish");
    assert_status(TIDE_E_FAILED, post(t, "/code/500", "{}", true));
    assert_int_equal(1, t->reply.try_count);
}

static void posts_are_tried_again_by_the_same_rules(void **state)
{
    client_test *t = *state;
    open_with(t, "http", shared.http_port, (tide_client_options){.try_max = 4});
    assert_ok_err(post(t, "/fail/a/2", "", true), &t->err);
    assert_int_equal(3, t->reply.try_count);
    assert_status(TIDE_E_UNAVAILABLE, post(t, "/fail/b/2", "", false));
    assert_int_equal(1, t->reply.try_count);
    assert_ok_err(post(t, "/retry/c/3", "", false), &t->err);
    assert_int_equal(4, t->reply.try_count);
    assert_status(TIDE_E_UNAVAILABLE, post(t, "/retry/d/9", "", false));
    assert_int_equal(4, t->reply.try_count);
}

static void a_body_above_the_maximum_is_refused(void **state)
{
    client_test *t = *state;
    open_with(t, "http", shared.http_port, (tide_client_options){.message_max = 1000});
    assert_status(TIDE_E_LIMIT, post(t, "/long", "", true));
}

/* ---- security ---- */

typedef struct secured {
    tempdir dir;
    certificates certs;
    echo server;
    char ca[TEMPDIR_PATH_MAX];
    char cert[TEMPDIR_PATH_MAX];
    char key[TEMPDIR_PATH_MAX];
} secured;

static void start_secured(secured *s, bool is_mutual)
{
    char cert[TEMPDIR_PATH_MAX];
    char key[TEMPDIR_PATH_MAX];
    tide_error err = {.status = TIDE_OK};
    assert_ok_err(tempdir_make(&s->dir, &err), &err);
    certificates_init(&s->certs, &s->dir);
    certificates_make(&s->certs, "server",
                      &(certificate_spec){.dns = "localhost", .ip = "127.0.0.1"});
    certificates_make(&s->certs, "client", &(certificate_spec){.common_name = "agent-7"});
    tempdir_join(&s->dir, "server.pem", cert);
    tempdir_join(&s->dir, "server.key", key);
    tempdir_join(&s->dir, "ca.pem", s->ca);
    tempdir_join(&s->dir, "client.pem", s->cert);
    tempdir_join(&s->dir, "client.key", s->key);
    echo_start(&s->server, cert, key, is_mutual ? s->ca : NULL);
}

static void stop_secured(secured *s)
{
    tide_error err = {.status = TIDE_OK};
    echo_stop(&s->server);
    certificates_done(&s->certs);
    (void)tempdir_remove(&s->dir, &err);
}

static void certificates_are_checked_on_both_sides(void **state)
{
    client_test *t = *state;
    secured s;
    start_secured(&s, true);
    open_with(t, "https", s.server.grpc_port,
              (tide_client_options){.ca_file = s.ca, .cert_file = s.cert, .key_file = s.key});
    assert_ok_err(CALL(t, "", false, FIELD("x-show", "1")), &t->err);
    assert_contains(tide_buffer_text(&t->reply.message), "agent-7");
    tide_client_close(t->client);
    t->client = NULL;
    open_with(t, "https", s.server.grpc_port,
              (tide_client_options){.cert_file = s.cert, .key_file = s.key, .try_max = 2});
    assert_status(TIDE_E_DENIED, call(t, "", true, NULL, 0)); /* the system does not know the CA */
    assert_int_equal(1, t->reply.try_count);
    tide_client_close(t->client);
    t->client = NULL;
    open_with(t, "https", s.server.grpc_port, (tide_client_options){.ca_file = s.ca, .try_max = 2});
    assert_true(call(t, "", false, NULL, 0) < TIDE_OK); /* the server wants to see a certificate */
    stop_secured(&s);
}

static void bad_files_are_found_at_once(void **state)
{
    client_test *t = *state;
    const tide_client_options options = {.target = "https://127.0.0.1:1", .ca_file = "/nowhere"};
    assert_status(TIDE_E_NOT_FOUND, tide_client_open(&t->client, &options, &t->err));
    assert_contains(t->err.text, "/nowhere");
}

static void a_token_is_read_anew_when_its_file_changes(void **state)
{
    client_test *t = *state;
    tempdir dir;
    char path[TEMPDIR_PATH_MAX];
    assert_ok_err(tempdir_make(&dir, &t->err), &t->err);
    tempdir_join(&dir, "token", path);
    static const char *const tokens[] = {"first-token", "second-and-longer"};
    open_with(t, "http", shared.grpc_port, (tide_client_options){.token_file = path});
    assert_status(TIDE_E_NOT_FOUND, CALL(t, "", false, FIELD("x-show", "1")));
    for (int i = 0; i < 2; i++) {
        FILE *out = fopen(path, "w");
        assert_non_null(out);
        assert_int_equal(0, fchmod(fileno(out), 0600));
        assert_true(fprintf(out, "%s\n", tokens[i]) > 0);
        assert_int_equal(0, fclose(out));
        assert_ok_err(CALL(t, "", false, FIELD("x-show", "1")), &t->err);
        char expected[64];
        (void)snprintf(expected, sizeof expected, "authorization='Bearer %s'", tokens[i]);
        assert_contains(tide_buffer_text(&t->reply.message), expected);
    }
    (void)tempdir_remove(&dir, &t->err);
}

static void a_token_does_not_travel_in_the_open(void **state)
{
    client_test *t = *state;
    tide_client_options options = {.target = "http://10.0.0.1:4317", .token = "secret"};
    assert_status(TIDE_E_INVALID, tide_client_open(&t->client, &options, &t->err));
    assert_contains(t->err.text, "without TLS");
    assert_null(strstr(t->err.text, "secret"));
    options.target = "http://localhost.example:4317";
    assert_status(TIDE_E_INVALID, tide_client_open(&t->client, &options, &t->err));
    options.is_insecure = true;
    assert_ok_err(tide_client_open(&t->client, &options, &t->err), &t->err);
}

static void targets_that_are_none_are_refused(void **state)
{
    client_test *t = *state;
    static const char *const targets[] = {"",           "localhost:80",
                                          "ftp://a:1",  "http://",
                                          "unix:",      "http://a/b",
                                          "http://u@a", "file:///etc/passwd",
                                          "http://a b", "https://a?x"};
    for (size_t i = 0; i < sizeof targets / sizeof targets[0]; i++) {
        const tide_client_options options = {.target = targets[i]};
        assert_status(TIDE_E_INVALID, tide_client_open(&t->client, &options, &t->err));
    }
}

/* ---- details ---- */

static void advice_is_read_from_any_bytes(void **state)
{
    (void)state;
    /* Status {details: Any {RetryInfo {Duration {seconds = 2, nanos = 500000000}}}} */
    static const char whole[] = "\x08\x0e\x1a\x36\x0a\x28"
                                "type.googleapis.com/google.rpc.RetryInfo"
                                "\x12\x0a\x0a\x08\x08\x02\x10\x80\xca\xb5\xee\x01";
    assert_int_equal(2500000, tide_client_retry_delay(tide_view_bytes(whole, sizeof whole - 1)));
    for (size_t len = 0; len < sizeof whole - 1; len++)
        assert_int_equal(-1, tide_client_retry_delay(tide_view_bytes(whole, len)));
    assert_int_equal(-1, tide_client_retry_delay(tide_view_of("")));
}

#define CLIENT_CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

TEST_FILE()
{
    (void)signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest tests[] = {
        CLIENT_CASE(a_call_comes_back_with_message_and_metadata),
        CLIENT_CASE(what_is_sent_arrives),
        CLIENT_CASE(fields_that_could_break_a_line_are_refused),
        CLIENT_CASE(a_failure_has_code_words_and_details),
        CLIENT_CASE(every_code_has_a_status),
        CLIENT_CASE(large_and_compressed_messages_come_back_whole),
        CLIENT_CASE(messages_above_the_maximum_are_refused_on_both_ways),
        CLIENT_CASE(the_deadline_ends_a_call),
        CLIENT_CASE(stopping_ends_calls_of_other_threads),
        CLIENT_CASE(stopping_ends_a_wait_between_tries),
        CLIENT_CASE(a_call_that_never_arrived_is_tried_again),
        CLIENT_CASE(unavailable_is_tried_again_where_that_is_safe),
        CLIENT_CASE(advice_beyond_the_deadline_is_not_waited_for),
        CLIENT_CASE(a_connection_that_breaks_leaves_the_outcome_unknown),
        CLIENT_CASE(who_does_not_speak_grpc_is_told_so),
        CLIENT_CASE(messages_of_a_server_stream_come_in_order),
        CLIENT_CASE(a_slow_reader_holds_the_sender_back),
        CLIENT_CASE(a_client_stream_is_collected),
        CLIENT_CASE(two_sides_talk_at_the_same_time),
        CLIENT_CASE(a_cancelled_stream_ends_at_once),
        CLIENT_CASE(a_unary_call_wants_exactly_one_message),
        CLIENT_CASE(many_threads_share_few_connections),
        CLIENT_CASE(a_unix_socket_is_a_target),
        CLIENT_CASE(a_post_comes_back_with_its_body),
        CLIENT_CASE(posts_are_tried_again_by_the_same_rules),
        CLIENT_CASE(a_body_above_the_maximum_is_refused),
        CLIENT_CASE(certificates_are_checked_on_both_sides),
        CLIENT_CASE(bad_files_are_found_at_once),
        CLIENT_CASE(a_token_is_read_anew_when_its_file_changes),
        CLIENT_CASE(a_token_does_not_travel_in_the_open),
        CLIENT_CASE(targets_that_are_none_are_refused),
        CLIENT_CASE(advice_is_read_from_any_bytes),
    };
    return cmocka_run_group_tests(tests, start_shared, stop_shared);
}
