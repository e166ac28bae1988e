/* HTTP/1.1, without a socket: what is answered, refused, timed out; how requests cannot be smuggled. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "net/codec/inflate.h"
#include "net/http/http1_rig.h"
#include "net/server/auth.h"
#include "support/check.h"

typedef http1_rig fixture;

static int set_up(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    http1_rig_init(f);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    http1_rig_done(*state);
    free(*state);
    return 0;
}

static void assert_begins(const char *text, const char *with)
{
    if (strncmp(text, with, strlen(with)) != 0)
        fail_msg("want '%s', got '%.200s'", with, text);
}

/* Host and Origin reach who decides: see auth_test.c for what it decides. */
static void a_page_of_another_host_is_refused(void **state)
{
    fixture *f = *state;
    tide_error err;
    tide_auth *auth = NULL;
    const tide_auth_options options = {.env = &f->env.env, .local_role = TIDE_ROLE_ADMIN};
    assert_ok_err(tide_auth_open(&auth, &options, &err), &err);
    http1_rig_open(f, false);
    f->context->authorise = tide_auth_check;
    f->context->authorise_arg = auth;
    http1_rig_reopen(f, "127.0.0.1:5");
    assert_begins(http1_rig_ask(f, "GET /files/a HTTP/1.1\r\nHost: localhost:1\r\n\r\n"),
                  "HTTP/1.1 200 ");
    const char *said = http1_rig_ask(f, "GET /files/a HTTP/1.1\r\nHost: evil.example:1\r\n\r\n");
    assert_begins(said, "HTTP/1.1 403 ");
    assert_contains(said, "evil.example:1");
    assert_contains(said, "\"reason\":\"DENIED\""); /* as every status is called in errors */
    assert_begins(http1_rig_ask(f, "GET /files/a HTTP/1.1\r\nHost: localhost:1\r\n"
                                   "Origin: http://evil.example\r\n\r\n"),
                  "HTTP/1.1 403 ");
    assert_begins(http1_rig_ask(f, "GET /healthz HTTP/1.1\r\nHost: evil.example\r\n\r\n"),
                  "HTTP/1.1 200 ");
    assert_int_equal(2, tide_counted(&f->context->counters.refused_denied));
    tide_auth_close(auth);
}

static void a_get_is_answered_and_the_connection_kept(void **state)
{
    fixture *f = *state;
    http1_rig_open(f, false);
    for (int i = 0; i < 3; i++) {
        const char *answer = http1_rig_ask(f, "GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_begins(answer, "HTTP/1.1 200 OK\r\n");
        assert_contains(answer, "content-length: 3\r\n");
        assert_contains(answer, "\r\n\r\nok\n");
        assert_false(http1_rig_is_over(f));
    }
}

static void a_head_has_the_length_and_no_body(void **state)
{
    fixture *f = *state;
    http1_rig_open(f, false);
    const char *answer = http1_rig_ask(f, "HEAD /healthz HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_contains(answer, "content-length: 3\r\n");
    assert_string_equal("\r\n\r\n", answer + strlen(answer) - 4);
}

/* A fuzzer found that the pieces in which such a line arrives decided what became of it. */
static void an_empty_line_between_requests_may_come_in_two_pieces(void **state)
{
    static const char *const pieces[][2] = {{"\r\n", ""}, {"\r", "\n"}};
    for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++) {
        fixture *f = *state;
        if (i == 0)
            http1_rig_open(f, false);
        assert_begins(http1_rig_ask(f, "GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"),
                      "HTTP/1.1 200 OK\r\n");
        assert_string_equal("", http1_rig_ask(f, pieces[i][0]));
        assert_string_equal("", http1_rig_ask(f, pieces[i][1]));
        assert_begins(http1_rig_ask(f, "GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"),
                      "HTTP/1.1 200 OK\r\n");
        assert_false(http1_rig_is_over(f));
    }
}

static void a_request_may_come_byte_by_byte(void **state)
{
    fixture *f = *state;
    http1_rig_open(f, false);
    const char request[] = "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
                           "3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nTrailer: x\r\n\r\n";
    for (size_t i = 0; i < sizeof request - 2; i++)
        assert_string_equal("", http1_rig_ask_bytes(f, tide_view_bytes(request + i, 1)));
    assert_contains(http1_rig_ask(f, "\n"), "\r\n\r\nabcde");
}

/* One at a time, in order. */
static void pipelined_requests_are_answered_in_order(void **state)
{
    fixture *f = *state;
    http1_rig_open(f, false);
    const char *answer = http1_rig_ask(f, "GET /files/1 HTTP/1.1\r\nHost: a\r\n\r\n"
                                          "GET /files/2 HTTP/1.1\r\nHost: a\r\n\r\n"
                                          "GET /never HTTP/1.1\r\nHost: a\r\n\r\n"
                                          "GET /files/3 HTTP/1.1\r\nHost: a\r\n\r\n");
    const char *first = strstr(answer, "/files/1");
    const char *second = strstr(answer, "/files/2");
    assert_true(first && second && first < second);
    assert_null(strstr(answer, "/files/3"));
    assert_true(f->input.len > 0); /* it stays with whoever drives us */
}

static void http_1_0_is_closed_unless_it_asks(void **state)
{
    fixture *f = *state;
    http1_rig_open(f, false);
    const char *answer =
        http1_rig_ask(f, "GET /healthz HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    assert_contains(answer, "connection: keep-alive\r\n");
    assert_false(http1_rig_is_over(f));
    assert_contains(http1_rig_ask(f, "GET /healthz HTTP/1.0\r\n\r\n"), "connection: close\r\n");
    assert_true(http1_rig_is_over(f));
}

static void an_answer_of_unknown_length_is_chunked(void **state)
{
    fixture *f = *state;
    http1_rig_open(f, false);
    const char *answer = http1_rig_ask(f, "GET /stream?40 HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_contains(answer, "transfer-encoding: chunked\r\n");
    assert_memory_equal("\r\n0\r\n\r\n", f->output.ptr + f->output.len - 7, 7);
    assert_in_range(f->output.len, 40 * 65536, 40 * 65536 + 20000);
    assert_false(http1_rig_is_over(f));
}

static void one_hundred_continue_is_sent_after_authorisation(void **state)
{
    fixture *f = *state;
    http1_rig_open(f, true);
    const char *answer =
        http1_rig_ask(f, "POST /echo HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer reader\r\n"
                         "Expect: 100-continue\r\nContent-Length: 2\r\n\r\n");
    assert_string_equal("HTTP/1.1 100 Continue\r\n\r\n", answer);
    assert_contains(http1_rig_ask(f, "hi"), "\r\n\r\nhi");
    answer = http1_rig_ask(f, "POST /echo HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n"
                              "Content-Length: 2\r\n\r\n");
    assert_begins(answer, "HTTP/1.1 401 ");
    assert_contains(answer, "www-authenticate: Bearer\r\n");
    assert_contains(answer, "{\"code\":16,");
    assert_true(http1_rig_is_over(f)); /* its body was never asked for */
}

static void a_role_that_is_too_low_is_403(void **state)
{
    fixture *f = *state;
    http1_rig_open(f, true);
    const char *answer =
        http1_rig_ask(f, "POST /grpc.testing.TestService/CacheableUnaryCall HTTP/1.1\r\n"
                         "Host: a\r\nAuthorization: Bearer reader\r\n"
                         "Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}");
    assert_begins(answer, "HTTP/1.1 403 ");
}

static void what_is_not_there_is_404_405_or_415(void **state)
{
    fixture *f = *state;
    http1_rig_open(f, false);
    const char *answer = http1_rig_ask(f, "GET /nothing HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_begins(answer, "HTTP/1.1 404 ");
    assert_contains(answer, "{\"code\":12,\"message\":\"nothing at /nothing\"}");
    answer = http1_rig_ask(f, "DELETE /healthz HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_begins(answer, "HTTP/1.1 405 ");
    assert_contains(answer, "allow: GET, HEAD\r\n");
    answer = http1_rig_ask(f, "POST /grpc.testing.TestService/UnaryCall HTTP/1.1\r\nHost: a\r\n"
                              "Content-Type: application/grpc\r\nContent-Length: 1\r\n\r\n");
    assert_begins(answer, "HTTP/1.1 415 ");
}

static void methods_take_json_and_protobuf(void **state)
{
    fixture *f = *state;
    http1_rig_open(f, false);
    const char *answer =
        http1_rig_ask(f, "POST /grpc.testing.TestService/UnaryCall HTTP/1.1\r\nHost: a\r\n"
                         "Content-Type: application/json; charset=utf-8\r\n"
                         "Content-Length: 19\r\n\r\n{\"responseSize\": 3}");
    assert_begins(answer, "HTTP/1.1 200 ");
    assert_contains(answer, "content-type: application/json\r\n");
    assert_contains(answer, "\"body\":\"AAAA\"");
    answer = http1_rig_ask(
        f, "POST /grpc.testing.TestService/UnaryCall HTTP/1.1\r\nHost: a\r\n"
           "Content-Type: application/x-protobuf\r\nContent-Length: 2\r\n\r\n\x10\x03");
    assert_begins(answer, "HTTP/1.1 200 ");
    assert_memory_equal("\x0a\x05\x12\x03\0\0\0", f->output.ptr + f->output.len - 7, 7);
    answer = http1_rig_ask(f, "POST /grpc.testing.TestService/UnaryCall HTTP/1.1\r\nHost: a\r\n"
                              "Content-Type: application/proto\r\nContent-Length: 1\r\n\r\n\xff");
    assert_begins(answer, "HTTP/1.1 400 ");
    assert_contains(answer, "content-type: application/x-protobuf\r\n"); /* google.rpc.Status */
}

/* Limit compress_min_len, and gzip both ways. */
static void gzip_goes_both_ways(void **state)
{
    fixture *f = *state;
    http1_rig_open(f, false);
    char *text = malloc(100001);
    memset(text, 'x', 100000);
    text[100000] = '\0';
    TIDE_CLEANUP(tide_buffer_done) tide_buffer packed;
    tide_buffer_init(&packed, 100000);
    assert_ok(tide_gzip_append(&packed, tide_view_of(text), 6, NULL));
    char head[300];
    (void)snprintf(head, sizeof head,
                   "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Encoding: gzip\r\n"
                   "Accept-Encoding: gzip;q=0.5, br\r\nContent-Length: %zu\r\n\r\n",
                   packed.len);
    (void)http1_rig_ask(f, head);
    const char *answer = http1_rig_ask_bytes(f, tide_buffer_view(&packed));
    assert_begins(answer, "HTTP/1.1 200 ");
    assert_contains(answer, "content-encoding: gzip\r\n");
    assert_true(f->output.len < 2000);
    answer = http1_rig_ask(f, "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Encoding: br\r\n"
                              "Content-Length: 1\r\n\r\n");
    assert_begins(answer, "HTTP/1.1 415 ");
    assert_contains(answer, "accept-encoding: ");
    free(text);
}

/* Limit message_len: as announced, in chunks, and after decompression. */
static void a_body_above_the_limit_is_413(void **state)
{
    fixture *f = *state;
    f->limits.message_len = 1024;
    http1_rig_open(f, false);
    const char *answer =
        http1_rig_ask(f, "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 1025\r\n\r\n");
    assert_begins(answer, "HTTP/1.1 413 ");
    assert_true(http1_rig_is_over(f));
}

static void chunks_above_the_limit_are_413(void **state)
{
    fixture *f = *state;
    f->limits.message_len = 1024;
    http1_rig_open(f, false);
    (void)http1_rig_ask(f, "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    char chunk[700];
    memset(chunk, 'a', sizeof chunk);
    memcpy(chunk, "200\r\n", 5);
    memcpy(chunk + 5 + 512, "\r\n", 2);
    for (int i = 0; i < 2; i++)
        assert_string_equal("", http1_rig_ask_bytes(f, tide_view_bytes(chunk, 5 + 512 + 2)));
    assert_begins(http1_rig_ask_bytes(f, tide_view_bytes(chunk, 6)), "HTTP/1.1 413 ");
    assert_true(http1_rig_is_over(f));
}

static void a_gzip_bomb_is_413(void **state)
{
    fixture *f = *state;
    f->limits.message_len = 65536;
    http1_rig_open(f, false);
    char *zeros = calloc(1, 10 << 20);
    TIDE_CLEANUP(tide_buffer_done) tide_buffer packed;
    tide_buffer_init(&packed, 100000);
    assert_ok(tide_gzip_append(&packed, tide_view_bytes(zeros, 10 << 20), 9, NULL));
    free(zeros);
    char head[300];
    (void)snprintf(head, sizeof head,
                   "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Encoding: gzip\r\n"
                   "Content-Length: %zu\r\n\r\n",
                   packed.len);
    (void)http1_rig_ask(f, head);
    assert_begins(http1_rig_ask_bytes(f, tide_buffer_view(&packed)), "HTTP/1.1 413 ");
}

/* Limit header_list_len. */
static void a_long_head_is_431(void **state)
{
    fixture *f = *state;
    http1_rig_open(f, false);
    char line[1020];
    memset(line, 'a', sizeof line);
    memcpy(line, "X: ", 3);
    memcpy(line + sizeof line - 3, "\r\n", 3);
    const char *answer = http1_rig_ask(f, "GET /healthz HTTP/1.1\r\nHost: a\r\n");
    for (int i = 0; i < 20 && !http1_rig_is_over(f); i++)
        answer = http1_rig_ask(f, line);
    assert_begins(answer, "HTTP/1.1 431 ");
    assert_int_equal(1, tide_counted(&f->context->counters.refused_headers));
}

/* Limit header_us is a total: a byte now and then does not help (slowloris). */
static void headers_that_drip_are_408(void **state)
{
    fixture *f = *state;
    http1_rig_open(f, false);
    const char request[] = "GET /healthz HTTP/1.1\r\nHost: aaaaaaaaaaaaaaaaaaaaaa";
    const char *answer = "";
    for (size_t i = 0; i < sizeof request - 1 && !http1_rig_is_over(f); i++) {
        answer = http1_rig_ask_bytes(f, tide_view_bytes(request + i, 1));
        virtual_env_advance(&f->env, 1000000);
    }
    http1_rig_run(f);
    assert_true(http1_rig_is_over(f));
    assert_contains(answer, "HTTP/1.1 408 ");
    assert_int_equal(1, tide_counted(&f->context->counters.timeouts_header));
}

static void a_connection_that_says_nothing_is_closed(void **state)
{
    fixture *f = *state;
    http1_rig_open(f, false);
    http1_rig_run(f);
    assert_int_equal(f->env.mono_us + f->limits.header_us, f->next_us);
    virtual_env_advance(&f->env, f->limits.header_us);
    http1_rig_run(f);
    assert_true(http1_rig_is_over(f));
    assert_int_equal(0, f->output.len);
}

/* Limit body_us. */
static void a_body_that_drips_is_408(void **state)
{
    fixture *f = *state;
    http1_rig_open(f, false);
    (void)http1_rig_ask(f, "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n");
    const char *answer = "";
    for (int i = 0; i < 100 && !http1_rig_is_over(f); i++) {
        answer = http1_rig_ask(f, "a");
        virtual_env_advance(&f->env, 1000000);
    }
    assert_contains(answer, "HTTP/1.1 408 ");
    assert_int_equal(1, tide_counted(&f->context->counters.timeouts_body));
}

/* Limit idle_us. */
static void a_kept_connection_is_closed_in_the_end(void **state)
{
    fixture *f = *state;
    http1_rig_open(f, false);
    (void)http1_rig_ask(f, "GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n");
    virtual_env_advance(&f->env, f->limits.idle_us - 1);
    http1_rig_run(f);
    assert_false(http1_rig_is_over(f));
    virtual_env_advance(&f->env, 1);
    http1_rig_run(f);
    assert_true(http1_rig_is_over(f));
}

/* Limit budget_len. */
static void a_body_above_the_budget_is_503_with_advice(void **state)
{
    fixture *f = *state;
    f->limits.budget_len = 65536;
    http1_rig_open(f, false);
    (void)http1_rig_ask(f, "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n");
    char *zeros = calloc(1, 100000);
    const char *answer = http1_rig_ask_bytes(f, tide_view_bytes(zeros, 100000));
    assert_begins(answer, "HTTP/1.1 503 ");
    assert_contains(answer, "retry-after: 1\r\n");
    free(zeros);
}

static void draining_ends_after_the_answer(void **state)
{
    fixture *f = *state;
    http1_rig_open(f, false);
    (void)http1_rig_ask(f, "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n");
    f->conn->class->drain(f->conn);
    http1_rig_run(f);
    assert_false(http1_rig_is_over(f));
    const char *answer = http1_rig_ask(f, "hi");
    assert_contains(answer, "connection: close\r\n");
    assert_contains(answer, "\r\n\r\nhi");
    assert_true(http1_rig_is_over(f));
}

static void leaving_cancels_the_call(void **state)
{
    fixture *f = *state;
    http1_rig_open(f, false);
    (void)http1_rig_ask(f, "GET /never HTTP/1.1\r\nHost: a\r\n\r\n");
    http1_rig_reopen(f, "x");
    assert_int_equal(1, atomic_load(&f->service.cancelled));
}

/* Both name the same coding: only their number is wrong. */
static const char CHUNKED_TWICE[] =
    "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n"
    "Transfer-Encoding: chunked\r\n\r\n";

/* Requests that two programs could read differently are refused, each with 400 and the end of the connection. */
static void what_could_be_smuggled_is_400(void **state)
{
    fixture *f = *state;
    static const char *const requests[] = {
        "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
        "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n",
        "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, identity\r\n\r\n",
        "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n",
        CHUNKED_TWICE,
        "POST /echo HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n",
        "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: +1\r\n\r\n",
        "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 1,1\r\n\r\n",
        "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 0x1\r\n\r\n",
        "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999\r\n\r\n",
        "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length : 1\r\n\r\n",
        "GET /healthz HTTP/1.1\r\nHost: a\r\nX: a\r\n b\r\n\r\n",
        "GET /healthz HTTP/1.1\r\nHost: a\r\n X: a\r\n\r\n",
        "GET /healthz HTTP/1.1\nHost: a\n\n",
        "GET /healthz HTTP/1.1\r\nHost: a\nX: b\r\n\r\n",
        "GET /healthz HTTP/1.1\r\nHost: a\r\n\n",
        "GET /healthz HTTP/1.1\r\nHost: a\rX: b\r\n\r\n",
        "GET /healthz HTTP/1.1\r\n\r\n",
        "GET /healthz HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        "GET  /healthz HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /healthz  HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /healthz HTTP/1.2\r\nHost: a\r\n\r\n",
        "GET /healthz HTTP/2.0\r\nHost: a\r\n\r\n",
        "GET /healthz\r\nHost: a\r\n\r\n",
        "get /healthz HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /a\tb HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /healthz HTTP/1.1\r\nHost: a\r\n: x\r\n\r\n",
        "GET /healthz HTTP/1.1\r\nHost: a\r\nX(y: x\r\n\r\n",
        "GET /healthz HTTP/1.1\r\nHost: a\r\nX\x80: x\r\n\r\n",
        "GET /healthz HTTP/1.1\r\nHost: a\r\nX: \x01\r\n\r\n",
        "\r\nGET /healthz HTTP/1.1\r\nHost: a\r\n\r\n",
        "FOO /healthz HTTP/1.1\r\nHost: a\r\n\r\n",
    };
    http1_rig_open(f, false);
    for (size_t i = 0; i < sizeof requests / sizeof requests[0]; i++) {
        http1_rig_reopen(f, "x");
        const char *answer = http1_rig_ask(f, requests[i]);
        if (strncmp(answer, "HTTP/1.1 400 ", 13) != 0 || !http1_rig_is_over(f))
            fail_msg("'%s' was answered with '%.100s'", requests[i], answer);
        assert_contains(answer, "{\"code\":3,\"message\":\"");
    }
}

static void malformed_chunks_are_400(void **state)
{
    fixture *f = *state;
    static const char *const bodies[] = {"x\r\n",        "\r\n",       "1\nab\r\n",      "1\r\nab",
                                         "1 \r\na\r\n",  "123456789",  "1;\na\r\n0\r\n", "1\r\na\n",
                                         "0\r\nX\n\r\n", "0\r\n X: a", "-1\r\n",         "0x1\r\n"};
    http1_rig_open(f, false);
    for (size_t i = 0; i < sizeof bodies / sizeof bodies[0]; i++) {
        http1_rig_reopen(f, "x");
        (void)http1_rig_ask(f,
                            "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
        const char *answer = http1_rig_ask(f, bodies[i]);
        if (strncmp(answer, "HTTP/1.1 400 ", 13) != 0 || !http1_rig_is_over(f))
            fail_msg("'%s' was answered with '%.100s'", bodies[i], answer);
    }
}

/* What a proxy sends is as good as a path. */
static void an_absolute_target_is_its_path(void **state)
{
    fixture *f = *state;
    http1_rig_open(f, false);
    assert_begins(http1_rig_ask(f, "GET http://a:80/healthz?x=1 HTTP/1.1\r\nHost: a\r\n\r\n"),
                  "HTTP/1.1 200 ");
    assert_begins(http1_rig_ask(f, "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n"), "HTTP/1.1 404 ");
}

/* Who meant to speak something else does not understand an answer either. */
static void bytes_that_are_no_http_are_not_answered(void **state)
{
    fixture *f = *state;
    http1_rig_open(f, false);
    assert_string_equal("", http1_rig_ask(f, "INVALID CONNECTION PREFACE\r\n\r\n"));
    assert_true(http1_rig_is_over(f));
    assert_int_equal(1, tide_counted(&f->context->counters.refused_malformed));
}

#define HTTP1_CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        HTTP1_CASE(a_page_of_another_host_is_refused),
        HTTP1_CASE(a_get_is_answered_and_the_connection_kept),
        HTTP1_CASE(a_head_has_the_length_and_no_body),
        HTTP1_CASE(an_empty_line_between_requests_may_come_in_two_pieces),
        HTTP1_CASE(a_request_may_come_byte_by_byte),
        HTTP1_CASE(pipelined_requests_are_answered_in_order),
        HTTP1_CASE(http_1_0_is_closed_unless_it_asks),
        HTTP1_CASE(an_answer_of_unknown_length_is_chunked),
        HTTP1_CASE(one_hundred_continue_is_sent_after_authorisation),
        HTTP1_CASE(a_role_that_is_too_low_is_403),
        HTTP1_CASE(what_is_not_there_is_404_405_or_415),
        HTTP1_CASE(methods_take_json_and_protobuf),
        HTTP1_CASE(gzip_goes_both_ways),
        HTTP1_CASE(a_body_above_the_limit_is_413),
        HTTP1_CASE(chunks_above_the_limit_are_413),
        HTTP1_CASE(a_gzip_bomb_is_413),
        HTTP1_CASE(a_long_head_is_431),
        HTTP1_CASE(headers_that_drip_are_408),
        HTTP1_CASE(a_connection_that_says_nothing_is_closed),
        HTTP1_CASE(a_body_that_drips_is_408),
        HTTP1_CASE(a_kept_connection_is_closed_in_the_end),
        HTTP1_CASE(a_body_above_the_budget_is_503_with_advice),
        HTTP1_CASE(draining_ends_after_the_answer),
        HTTP1_CASE(leaving_cancels_the_call),
        HTTP1_CASE(what_could_be_smuggled_is_400),
        HTTP1_CASE(malformed_chunks_are_400),
        HTTP1_CASE(an_absolute_target_is_its_path),
        HTTP1_CASE(bytes_that_are_no_http_are_not_answered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
