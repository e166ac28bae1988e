/* HTTP/2 and gRPC, without a socket: what is answered, bounded, refused and given up. */
#include <pthread.h>
#include <string.h>

#include "base/cleanup.h"
#include "net/codec/inflate.h"
#include "net/http/h2_case.h"

static const char EMPTY_CALL[] = "/grpc.testing.TestService/EmptyCall";
static const char UNARY_CALL[] = "/grpc.testing.TestService/UnaryCall";
static const char OUTPUT_CALL[] = "/grpc.testing.TestService/StreamingOutputCall";
static const char INPUT_CALL[] = "/grpc.testing.TestService/StreamingInputCall";
static const char DUPLEX_CALL[] = "/grpc.testing.TestService/FullDuplexCall";

static void a_unary_call_is_answered_with_a_message_and_status_0(void **state)
{
    fixture *f = *state;
    h2_rig_init(&f->rig, &f->limits, false);
    const h2_exchange *e = h2_call(&f->rig, EMPTY_CALL, no_message());
    assert_string_equal("200", h2_field(&e->head, ":status"));
    assert_string_equal("application/grpc", h2_field(&e->head, "content-type"));
    assert_int_equal(5, e->body.len);
    assert_string_equal("0", h2_field(&e->trailers, "grpc-status"));
    assert_true(e->is_closed && e->code == NGHTTP2_NO_ERROR);
}

/* An error without a message is one HEADERS frame. */
static void an_unknown_method_is_unimplemented_in_trailers_only(void **state)
{
    fixture *f = *state;
    h2_rig_init(&f->rig, &f->limits, false);
    const h2_exchange *e = h2_call(&f->rig, "/grpc.testing.TestService/Nothing", no_message());
    assert_string_equal("200", h2_field(&e->head, ":status"));
    assert_string_equal("12", h2_field(&e->head, "grpc-status"));
    assert_int_equal(0, e->body.len);
    assert_int_equal(0, e->trailers.len);
}

/* Text outside printable ASCII travels percent-encoded. */
static void a_status_message_is_percent_encoded(void **state)
{
    fixture *f = *state;
    h2_rig_init(&f->rig, &f->limits, false);
    /* SimpleRequest{response_status{code: 9, message: "50 % ü\n"}} */
    const char request[] = "\x3a\x0d\x08\x09\x12\x09\x35\x30 % \xc3\xbc\n!";
    const h2_exchange *e =
        h2_call(&f->rig, UNARY_CALL, tide_view_bytes(request, sizeof request - 1));
    assert_string_equal("9", h2_field(&e->head, "grpc-status"));
    assert_string_equal("50 %25 %C3%BC%0A!", h2_field(&e->head, "grpc-message"));
}

static void bytes_that_are_no_message_are_an_invalid_argument(void **state)
{
    fixture *f = *state;
    h2_rig_init(&f->rig, &f->limits, false);
    const h2_exchange *e = h2_call(&f->rig, UNARY_CALL, tide_view_of("\xff\xff\xff"));
    assert_string_equal("3", h2_field(&e->head, "grpc-status"));
    assert_true(strlen(h2_field(&e->head, "grpc-status-details-bin")) > 0);
}

static void metadata_comes_back_in_headers_and_trailers(void **state)
{
    fixture *f = *state;
    h2_rig_init(&f->rig, &f->limits, false);
    const char *const fields[] = {"content-type",
                                  "application/grpc",
                                  "x-grpc-test-echo-initial",
                                  "hello",
                                  "x-grpc-test-echo-trailing-bin",
                                  "CgsKCwoL",
                                  NULL};
    h2_exchange *e = h2_open(&f->rig, "POST", UNARY_CALL, fields);
    h2_frame(&f->bytes, false, no_message());
    h2_write(&f->rig, e, tide_buffer_view(&f->bytes), true);
    assert_string_equal("hello", h2_field(&e->head, "x-grpc-test-echo-initial"));
    assert_string_equal("CgsKCwoL", h2_field(&e->trailers, "x-grpc-test-echo-trailing-bin"));
}

static void binary_metadata_that_is_not_base64_is_refused(void **state)
{
    fixture *f = *state;
    h2_rig_init(&f->rig, &f->limits, false);
    const char *const fields[] = {"content-type", "application/grpc", "x-a-bin", "****", NULL};
    const h2_exchange *e = h2_open(&f->rig, "POST", UNARY_CALL, fields);
    assert_string_equal("3", h2_field(&e->head, "grpc-status"));
}

static void a_server_stream_sends_its_messages_in_order(void **state)
{
    fixture *f = *state;
    h2_rig_init(&f->rig, &f->limits, false);
    const int32_t sizes[] = {31415, 9, 2653, 58979};
    const tide_view request = h2_output_request(&f->bytes, sizes, 4);
    const h2_exchange *e = h2_call(&f->rig, OUTPUT_CALL, request);
    assert_true(e->body.len > 31415 + 9 + 2653 + 58979 + 20);
    assert_string_equal("0", h2_field(&e->trailers, "grpc-status"));
}

/* A reader that takes nothing gets at most a queue's worth prepared, and the rest when it reads. */
static void a_slow_reader_holds_back_its_own_stream(void **state)
{
    fixture *f = *state;
    f->limits.queue_len = 65536;
    h2_rig_init(&f->rig, &f->limits, false);
    f->rig.holds_windows = true;
    int32_t sizes[500];
    for (size_t i = 0; i < 500; i++)
        sizes[i] = 10000;
    const tide_view request = h2_output_request(&f->bytes, sizes, 500);
    h2_exchange *e = h2_call(&f->rig, OUTPUT_CALL, request);
    const int prepared = atomic_load(&f->rig.service.streamed);
    assert_in_range(prepared, 7, 20); /* 65,535 bytes of window and 64 KiB of queue */
    const h2_exchange *other = h2_call(&f->rig, "/none", no_message());
    assert_string_equal("12", h2_field(&other->head, "grpc-status"));

    f->rig.holds_windows = false;
    assert_int_equal(0, nghttp2_session_consume(f->rig.client, e->id, e->body.len));
    h2_rig_run(&f->rig);
    assert_int_equal(500, atomic_load(&f->rig.service.streamed));
    assert_string_equal("0", h2_field(&e->trailers, "grpc-status"));
}

/* Limit write_us. */
static void a_reader_that_never_reads_is_given_up(void **state)
{
    fixture *f = *state;
    h2_rig_init(&f->rig, &f->limits, false);
    f->rig.holds_windows = true;
    const int32_t sizes[] = {1000000};
    const h2_exchange *e = h2_call(&f->rig, OUTPUT_CALL, h2_output_request(&f->bytes, sizes, 1));
    virtual_env_advance(&f->rig.env, f->limits.write_us - 1);
    h2_rig_run(&f->rig);
    assert_false(e->is_closed);
    virtual_env_advance(&f->rig.env, 1);
    h2_rig_run(&f->rig);
    assert_true(e->is_closed);
    assert_int_equal(NGHTTP2_CANCEL, e->code);
    assert_int_equal(1, tide_counted(&f->rig.context->counters.timeouts_write));
}

static void a_client_stream_is_summed_up_at_its_end(void **state)
{
    fixture *f = *state;
    h2_rig_init(&f->rig, &f->limits, false);
    h2_exchange *e = h2_open(&f->rig, "POST", INPUT_CALL, GRPC);
    const char message[] = "\x0a\x05\x12\x03"
                           "abc"; /* payload{body: 3 bytes} */
    for (int i = 0; i < 4; i++) {
        tide_buffer_clear(&f->bytes);
        h2_frame(&f->bytes, false, tide_view_bytes(message, sizeof message - 1));
        h2_write(&f->rig, e, tide_buffer_view(&f->bytes), i == 3);
    }
    assert_memory_equal("\0\0\0\0\x02\x08\x0c", e->body.ptr, 7);
}

/* Messages may be cut anywhere by frames. */
static void a_message_may_come_byte_by_byte(void **state)
{
    fixture *f = *state;
    h2_rig_init(&f->rig, &f->limits, false);
    h2_exchange *e = h2_open(&f->rig, "POST", DUPLEX_CALL, GRPC);
    const int32_t sizes[] = {1};
    tide_buffer request;
    tide_buffer_init(&request, 1000);
    h2_frame(&f->bytes, false, h2_output_request(&request, sizes, 1));
    h2_frame(&f->bytes, false, tide_buffer_view(&request));
    tide_buffer_done(&request);
    for (size_t i = 0; i < f->bytes.len; i++)
        h2_write(&f->rig, e, tide_view_bytes(f->bytes.ptr + i, 1), i + 1 == f->bytes.len);
    assert_string_equal("0", h2_field(&e->trailers, "grpc-status"));
    assert_int_equal(2, atomic_load(&f->rig.service.streamed));
}

/* A bidirectional client that does not read its answers is not read from either. */
static void messages_wait_while_answers_do(void **state)
{
    fixture *f = *state;
    f->limits.queue_len = 4096;
    h2_rig_init(&f->rig, &f->limits, false);
    f->rig.holds_windows = true;
    h2_exchange *e = h2_open(&f->rig, "POST", DUPLEX_CALL, GRPC);
    const int32_t sizes[] = {5000};
    tide_buffer request;
    tide_buffer_init(&request, 1000);
    h2_frame(&f->bytes, false, h2_output_request(&request, sizes, 1));
    tide_buffer_done(&request);
    for (int i = 0; i < 100; i++)
        h2_write(&f->rig, e, tide_buffer_view(&f->bytes), false);
    assert_in_range(atomic_load(&f->rig.service.streamed), 13, 16);
    f->rig.holds_windows = false;
    assert_int_equal(0, nghttp2_session_consume(f->rig.client, e->id, e->body.len));
    h2_write(&f->rig, e, tide_view_bytes("", 0), true);
    assert_int_equal(100, atomic_load(&f->rig.service.streamed));
    assert_string_equal("0", h2_field(&e->trailers, "grpc-status"));
}

static void a_deadline_ends_the_call_and_tells_the_method(void **state)
{
    fixture *f = *state;
    h2_rig_init(&f->rig, &f->limits, false);
    const char *const fields[] = {"grpc-timeout", "100m", NULL};
    const h2_exchange *e = h2_open(&f->rig, "GET", "/never", fields);
    virtual_env_advance(&f->rig.env, 99999);
    h2_rig_run(&f->rig);
    assert_false(e->is_closed);
    assert_int_equal(f->rig.env.mono_us + 1, f->rig.next_us);
    virtual_env_advance(&f->rig.env, 1);
    h2_rig_run(&f->rig);
    assert_true(e->is_closed);
    assert_string_equal("504", h2_field(&e->head, ":status"));
    assert_int_equal(1, atomic_load(&f->rig.service.cancelled));
}

static void a_grpc_deadline_is_status_4(void **state)
{
    fixture *f = *state;
    h2_rig_init(&f->rig, &f->limits, false);
    const char *const fields[] = {"content-type", "application/grpc", "grpc-timeout", "1S", NULL};
    const h2_exchange *e = h2_open(&f->rig, "POST", DUPLEX_CALL, fields);
    virtual_env_advance(&f->rig.env, 1000000);
    h2_rig_run(&f->rig);
    assert_string_equal("4", h2_field(&e->head, "grpc-status"));
}

static void a_reset_cancels_the_call(void **state)
{
    fixture *f = *state;
    h2_rig_init(&f->rig, &f->limits, false);
    h2_exchange *e = h2_open(&f->rig, "GET", "/never", NULL);
    h2_reset(&f->rig, e);
    assert_int_equal(1, atomic_load(&f->rig.service.cancelled));
    assert_int_equal(0, tide_counted(&f->rig.context->counters.calls_running));
}

static void *answer_parked(void *arg)
{
    test_service_answer_parked(arg);
    return NULL;
}

static void answer_on_another_thread(fixture *f)
{
    pthread_t thread;
    assert_int_equal(0, pthread_create(&thread, NULL, answer_parked, &f->rig.service));
    assert_int_equal(0, pthread_join(thread, NULL));
}

static void another_thread_may_answer_later(void **state)
{
    fixture *f = *state;
    h2_rig_init(&f->rig, &f->limits, false);
    const h2_exchange *e = h2_post(&f->rig, "/park", "text/plain", tide_view_of("x"));
    assert_false(e->is_closed);
    answer_on_another_thread(f);
    assert_true(f->rig.is_woken);
    h2_rig_run(&f->rig);
    assert_string_equal("late\n", tide_buffer_text(&e->body));
}

/* The peer left, the connection is gone: an answer is harmless, and the call still knows everything it needs. */
static void an_answer_after_the_connection_is_gone_is_harmless(void **state)
{
    fixture *f = *state;
    h2_rig_init(&f->rig, &f->limits, false);
    h2_exchange *e = h2_post(&f->rig, "/park", "text/plain", tide_view_of("x"));
    f->rig.conn->class->free(f->rig.conn);
    assert_int_equal(1, tide_counted(&f->rig.context->counters.calls_cancelled));
    f->rig.is_woken = false;
    answer_on_another_thread(f);
    assert_false(f->rig.is_woken);
    assert_false(e->is_closed);
    const tide_conn_setup setup = {.context = f->rig.context, .peer = "x"};
    f->rig.conn = tide_h2_new(&setup, f->rig.env.mono_us);
}

static void gzip_goes_both_ways(void **state)
{
    fixture *f = *state;
    h2_rig_init(&f->rig, &f->limits, false);
    const char *const fields[] = {"content-type",
                                  "application/grpc",
                                  "grpc-encoding",
                                  "gzip",
                                  "grpc-accept-encoding",
                                  "identity,gzip",
                                  NULL};
    tide_buffer plain;
    tide_buffer packed;
    tide_buffer_init(&plain, 1000);
    tide_buffer_init(&packed, 1000);
    tide_error err;
    assert_ok_err(tide_gzip_append(&packed, h2_simple_request(&plain, 100000), 1, &err), &err);
    h2_frame(&f->bytes, true, tide_buffer_view(&packed));
    h2_exchange *e = h2_open(&f->rig, "POST", UNARY_CALL, fields);
    h2_write(&f->rig, e, tide_buffer_view(&f->bytes), true);
    assert_string_equal("gzip", h2_field(&e->head, "grpc-encoding"));
    assert_int_equal(1, e->body.ptr[0]);
    assert_in_range(e->body.len, 50, 2000);
    tide_buffer_done(&plain);
    tide_buffer_done(&packed);
}

static void an_unknown_coding_is_unimplemented_and_names_those_we_know(void **state)
{
    fixture *f = *state;
    h2_rig_init(&f->rig, &f->limits, false);
    const char *const fields[] = {"content-type", "application/grpc", "grpc-encoding", "br", NULL};
    const h2_exchange *e = h2_open(&f->rig, "POST", UNARY_CALL, fields);
    assert_string_equal("12", h2_field(&e->head, "grpc-status"));
    assert_contains(h2_field(&e->head, "grpc-accept-encoding"), "gzip");
}

/* Limit message_len, as announced: refused at the prefix, before a byte of it is kept. */
static void a_message_above_the_limit_is_resource_exhausted(void **state)
{
    fixture *f = *state;
    f->limits.message_len = 100000;
    h2_rig_init(&f->rig, &f->limits, false);
    h2_exchange *e = h2_open(&f->rig, "POST", UNARY_CALL, GRPC);
    h2_write(&f->rig, e, tide_view_bytes("\0\0\x01\x86\xa1", 5), false); /* 100,001 */
    assert_string_equal("8", h2_field(&e->head, "grpc-status"));
    assert_int_equal(1, tide_counted(&f->rig.context->counters.refused_message_len));
}

/* Limit message_len, after decompression: 1 MiB of zeros in 1 KiB. */
static void a_gzip_bomb_stops_at_the_limit(void **state)
{
    fixture *f = *state;
    f->limits.message_len = 100000;
    h2_rig_init(&f->rig, &f->limits, false);
    char *zeros = calloc(1, 1 << 20);
    tide_buffer packed;
    tide_buffer_init(&packed, 100000);
    tide_error err;
    assert_ok_err(tide_gzip_append(&packed, tide_view_bytes(zeros, 1 << 20), 9, &err), &err);
    free(zeros);
    const char *const fields[] = {"content-type", "application/grpc", "grpc-encoding", "gzip",
                                  NULL};
    h2_frame(&f->bytes, true, tide_buffer_view(&packed));
    tide_buffer_done(&packed);
    h2_exchange *e = h2_open(&f->rig, "POST", UNARY_CALL, fields);
    h2_write(&f->rig, e, tide_buffer_view(&f->bytes), true);
    assert_string_equal("8", h2_field(&e->head, "grpc-status"));
}

/* Limit budget_len: what does not fit is refused with advice, what is held stays. */
static void uploads_above_the_budget_are_refused_with_advice(void **state)
{
    fixture *f = *state;
    f->limits.budget_len = 5 << 20;
    h2_rig_init(&f->rig, &f->limits, false);
    char *piece = calloc(1, 3 << 20);
    h2_exchange *first = h2_open(&f->rig, "POST", "/echo", NULL);
    h2_write(&f->rig, first, tide_view_bytes(piece, 3 << 20), false);
    h2_exchange *second = h2_open(&f->rig, "POST", "/echo", NULL);
    h2_write(&f->rig, second, tide_view_bytes(piece, 3 << 20), false);
    assert_string_equal("503", h2_field(&second->head, ":status"));
    assert_string_equal("1", h2_field(&second->head, "retry-after"));
    assert_true(tide_counted(&f->rig.context->counters.refused_budget) == 1);
    h2_write(&f->rig, first, tide_view_bytes(piece, 1000), true);
    assert_string_equal("200", h2_field(&first->head, ":status"));
    assert_int_equal((3 << 20) + 1000, first->body.len);
    free(piece);
}

/* Limit answer_len: an answer that has no room is refused with advice; what waits for its reader stays, and its room is
 * had again when it was read. */
static void answers_above_the_budget_are_refused_with_advice(void **state)
{
    fixture *f = *state;
    f->limits.answer_len = 2 << 20;
    h2_rig_init(&f->rig, &f->limits, false);
    f->rig.holds_windows = true;
    h2_exchange *first = h2_call(&f->rig, UNARY_CALL, h2_simple_request(&f->bytes, 1 << 20));
    const h2_exchange *second = h2_call(&f->rig, UNARY_CALL, tide_buffer_view(&f->bytes));
    assert_string_equal("8", h2_field(&second->head, "grpc-status"));
    assert_string_not_equal("", h2_field(&second->head, "grpc-status-details-bin"));
    const h2_exchange *small = h2_call(&f->rig, EMPTY_CALL, no_message());
    assert_string_equal("", h2_field(&small->head, "grpc-status"));
    const h2_exchange *third = h2_post(&f->rig, UNARY_CALL, "application/json",
                                       tide_view_of("{\"responseSize\":1048576}"));
    assert_string_equal("503", h2_field(&third->head, ":status"));
    assert_string_equal("1", h2_field(&third->head, "retry-after"));
    assert_int_equal(2, tide_counted(&f->rig.context->counters.refused_answers));

    f->rig.holds_windows = false;
    assert_int_equal(0, nghttp2_session_consume(f->rig.client, first->id, first->body.len));
    h2_rig_run(&f->rig);
    assert_string_equal("0", h2_field(&first->trailers, "grpc-status"));
    assert_int_equal(0, tide_budget_used(&f->rig.context->answers));
    const h2_exchange *again = h2_call(&f->rig, UNARY_CALL, h2_simple_request(&f->bytes, 1 << 20));
    assert_string_equal("0", h2_field(&again->trailers, "grpc-status"));
}

/* One answer that is longer than all the room there is, is given: nobody would ever get it otherwise. */
static void an_answer_above_the_budget_is_given_alone(void **state)
{
    fixture *f = *state;
    f->limits.answer_len = 1 << 20;
    f->limits.peer_answer_len = 1 << 19;
    h2_rig_init(&f->rig, &f->limits, false);
    const h2_exchange *e = h2_call(&f->rig, UNARY_CALL, h2_simple_request(&f->bytes, 3 << 20));
    assert_string_equal("0", h2_field(&e->trailers, "grpc-status"));
}

/* A client that opens no window gets no more memory than others: 128 answers of 1 MiB, room for 8. */
static void streams_without_a_window_share_the_budget(void **state)
{
    fixture *f = *state;
    f->limits.answer_len = 8 << 20;
    h2_rig_init(&f->rig, &f->limits, false);
    const nghttp2_settings_entry closed = {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 0};
    assert_int_equal(0, nghttp2_submit_settings(f->rig.client, NGHTTP2_FLAG_NONE, &closed, 1));
    h2_rig_run(&f->rig);
    int refused = 0;
    for (int i = 0; i < 128; i++) {
        const h2_exchange *e = h2_call(&f->rig, UNARY_CALL, h2_simple_request(&f->bytes, 1 << 20));
        refused += strcmp(h2_field(&e->head, "grpc-status"), "8") == 0;
        assert_true(tide_budget_used(&f->rig.context->answers) <= (size_t)f->limits.answer_len);
    }
    assert_int_equal(128 - 7, refused);
}

/* Who asks for room before it makes an answer makes a shorter one while readers are slow, and is not turned away. */
static void slow_readers_get_smaller_pages(void **state)
{
    fixture *f = *state;
    f->limits.answer_len = 16 << 20;
    f->limits.peer_answer_len = 16 << 20;
    h2_rig_init(&f->rig, &f->limits, false);
    const nghttp2_settings_entry closed = {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 0};
    assert_int_equal(0, nghttp2_submit_settings(f->rig.client, NGHTTP2_FLAG_NONE, &closed, 1));
    h2_rig_run(&f->rig);
    long before = 4 << 20;
    for (int i = 0; i < 40; i++) {
        const h2_exchange *e = h2_open(&f->rig, "GET", "/page?4194304", NULL);
        assert_string_equal("200", h2_field(&e->head, ":status"));
        const long len = strtol(h2_field(&e->head, "content-length"), NULL, 10);
        assert_in_range(len, 1, before);
        before = len;
    }
    assert_true(before <= 65536);
    assert_int_equal(0, tide_counted(&f->rig.context->counters.refused_answers));
}

/* Limit write_rate: 64 KiB now and then are not enough to keep a long answer for hours. */
static void a_reader_that_dawdles_is_given_up(void **state)
{
    fixture *f = *state;
    h2_rig_init(&f->rig, &f->limits, false);
    f->rig.holds_windows = true;
    h2_exchange *e = h2_call(&f->rig, UNARY_CALL, h2_simple_request(&f->bytes, 4 << 20));
    for (int i = 0; i < 3 && !e->is_closed; i++) {
        virtual_env_advance(&f->rig.env, f->limits.write_us / 2);
        assert_int_equal(0, nghttp2_session_consume(f->rig.client, e->id, 65536));
        h2_rig_run(&f->rig);
    }
    assert_true(e->is_closed);
    assert_int_equal(NGHTTP2_CANCEL, e->code);
    assert_int_equal(1, tide_counted(&f->rig.context->counters.timeouts_write));
}

/* The same reader at the least rate that is asked for gets everything. */
static void a_reader_at_the_least_rate_is_served(void **state)
{
    fixture *f = *state;
    h2_rig_init(&f->rig, &f->limits, false);
    f->rig.holds_windows = true;
    h2_exchange *e = h2_call(&f->rig, UNARY_CALL, h2_simple_request(&f->bytes, 8 << 20));
    for (int i = 0; i < 200 && !e->is_closed; i++) {
        virtual_env_advance(&f->rig.env, TIDE_NET_SECOND);
        assert_int_equal(0, nghttp2_session_consume(f->rig.client, e->id, 65535));
        h2_rig_run(&f->rig);
    }
    assert_string_equal("0", h2_field(&e->trailers, "grpc-status"));
}

/* RFC 9113 8.1: an answer may be complete before its request. The client may go on sending, so that it hears the answer;
 * what it sends is thrown away. */
static void a_client_that_is_refused_may_finish_its_request(void **state)
{
    fixture *f = *state;
    h2_rig_init(&f->rig, &f->limits, true);
    h2_exchange *e = h2_open(&f->rig, "POST", "/echo", NULL);
    assert_string_equal("401", h2_field(&e->head, ":status"));
    char *piece = calloc(1, 1 << 20);
    for (int i = 0; i < 20; i++) {
        h2_write(&f->rig, e, tide_view_bytes(piece, 1 << 20), i == 19);
        assert_int_equal(0, e->request.len); /* its window is given back */
    }
    assert_true(e->is_closed);
    assert_int_equal(NGHTTP2_NO_ERROR, e->code);
    assert_int_equal(0, tide_budget_used(&f->rig.context->budget));
    free(piece);
}

/* ... but not for ever, and not without end. */
static void a_client_that_is_refused_and_goes_on_is_reset(void **state)
{
    fixture *f = *state;
    f->limits.message_len = 1 << 20;
    h2_rig_init(&f->rig, &f->limits, true);
    h2_exchange *slow = h2_open(&f->rig, "POST", "/echo", NULL);
    h2_exchange *long_one = h2_open(&f->rig, "POST", "/echo", NULL);
    char *piece = calloc(1, 1 << 20);
    h2_write(&f->rig, long_one, tide_view_bytes(piece, 1 << 20), false);
    assert_false(long_one->is_closed);
    h2_write(&f->rig, long_one, tide_view_bytes(piece, 1 << 20), false);
    assert_true(long_one->is_closed);
    assert_int_equal(NGHTTP2_NO_ERROR, long_one->code);
    assert_false(slow->is_closed);
    virtual_env_advance(&f->rig.env, 5 * TIDE_NET_SECOND);
    h2_rig_run(&f->rig);
    assert_true(slow->is_closed);
    assert_int_equal(NGHTTP2_NO_ERROR, slow->code);
    free(piece);
}

/* Limit body_us. */
static void a_body_that_does_not_come_is_timed_out(void **state)
{
    fixture *f = *state;
    h2_rig_init(&f->rig, &f->limits, false);
    h2_exchange *e = h2_open(&f->rig, "POST", "/echo", NULL);
    h2_write(&f->rig, e, tide_view_of("begin"), false);
    virtual_env_advance(&f->rig.env, f->limits.body_us);
    h2_rig_run(&f->rig);
    assert_string_equal("408", h2_field(&e->head, ":status"));
}

/* Limit header_list_len. */
static void a_header_list_above_the_limit_is_431(void **state)
{
    fixture *f = *state;
    h2_rig_init(&f->rig, &f->limits, false);
    char value[9000];
    memset(value, 'a', sizeof value - 1);
    value[sizeof value - 1] = '\0';
    const char *const fields[] = {"x-a", value, "x-b", value, NULL};
    const h2_exchange *e = h2_open(&f->rig, "GET", "/healthz", fields);
    assert_string_equal("431", h2_field(&e->head, ":status"));
    assert_int_equal(1, tide_counted(&f->rig.context->counters.refused_headers));
}

/* Limit streams. */
static void streams_above_the_limit_are_refused(void **state)
{
    fixture *f = *state;
    f->limits.streams = 3;
    h2_rig_init(&f->rig, &f->limits, false);
    h2_rig_run(&f->rig);
    for (int i = 0; i < 3; i++)
        assert_false(h2_open(&f->rig, "GET", "/never", NULL)->is_closed);
    assert_int_equal(3, tide_counted(&f->rig.context->counters.calls_running));
    (void)h2_open(&f->rig, "GET", "/never", NULL); /* the client's library holds it back */
    assert_int_equal(3, tide_counted(&f->rig.context->counters.calls_running));
    h2_reset(&f->rig, f->rig.exchanges[0]);
    assert_int_equal(3, tide_counted(&f->rig.context->counters.calls_running));
}

/* Limits reset_burst and reset_rate: CVE-2023-44487. */
static void rapid_resets_end_the_connection(void **state)
{
    fixture *f = *state;
    f->limits.reset_burst = 100;
    h2_rig_init(&f->rig, &f->limits, false);
    for (int i = 0; i < 100; i++)
        h2_reset(&f->rig, h2_open(&f->rig, "GET", "/never", NULL));
    assert_false(f->rig.is_goaway);
    virtual_env_advance(&f->rig.env, 1000000); /* 33 may come again */
    for (int i = 0; i < 33; i++)
        h2_reset(&f->rig, h2_open(&f->rig, "GET", "/never", NULL));
    assert_false(f->rig.is_goaway);
    h2_reset(&f->rig, h2_open(&f->rig, "GET", "/never", NULL));
    assert_true(f->rig.is_goaway);
    assert_int_equal(NGHTTP2_ENHANCE_YOUR_CALM, f->rig.goaway_code);
    assert_true(f->rig.conn->class->is_over(f->rig.conn));
    assert_int_equal(1, tide_counted(&f->rig.context->counters.refused_flood));
}

static void feed_late_reset(fixture *f, int32_t stream_id)
{
    const unsigned char frame[] = {0,
                                   0,
                                   4,
                                   3,
                                   0,
                                   0,
                                   0,
                                   (unsigned char)(stream_id >> 8),
                                   (unsigned char)stream_id,
                                   0,
                                   0,
                                   0,
                                   NGHTTP2_STREAM_CLOSED};
    h2_rig_feed(&f->rig, (const char *)frame, sizeof frame);
    h2_rig_run(&f->rig);
}

/* As libcurl 7.88 does after every answer. */
static void resets_of_finished_streams_are_nobodys_flood(void **state)
{
    fixture *f = *state;
    f->limits.reset_burst = 10;
    f->limits.control_burst = 50;
    h2_rig_init(&f->rig, &f->limits, false);
    for (int i = 0; i < 200; i++) {
        const h2_exchange *e = h2_open(&f->rig, "GET", "/healthz", NULL);
        assert_true(e->is_closed);
        feed_late_reset(f, e->id);
    }
    assert_false(f->rig.is_goaway);
    assert_int_equal(0, tide_counted(&f->rig.context->counters.refused_flood));
    for (int i = 0; i < 60 && !f->rig.is_goaway; i++)
        feed_late_reset(f, 1);
    assert_int_equal(NGHTTP2_ENHANCE_YOUR_CALM, f->rig.goaway_code);
}

/* Limits control_burst and control_rate. */
static void a_ping_flood_ends_the_connection(void **state)
{
    fixture *f = *state;
    f->limits.control_burst = 50;
    h2_rig_init(&f->rig, &f->limits, false);
    h2_rig_run(&f->rig);
    for (int i = 0; i < 49; i++) {
        assert_int_equal(0, nghttp2_submit_ping(f->rig.client, NGHTTP2_FLAG_NONE, NULL));
        h2_rig_run(&f->rig);
    }
    assert_true(f->rig.is_goaway);
    assert_int_equal(NGHTTP2_ENHANCE_YOUR_CALM, f->rig.goaway_code);
}

static void a_settings_flood_ends_the_connection(void **state)
{
    fixture *f = *state;
    f->limits.control_burst = 50;
    h2_rig_init(&f->rig, &f->limits, false);
    for (int i = 0; i < 60 && !f->rig.is_goaway; i++) {
        assert_int_equal(0, nghttp2_submit_settings(f->rig.client, NGHTTP2_FLAG_NONE, NULL, 0));
        h2_rig_run(&f->rig);
    }
    assert_int_equal(NGHTTP2_ENHANCE_YOUR_CALM, f->rig.goaway_code);
}

/* Limit continuations: CVE-2024-28182. A header block that never ends costs nothing and is cut off. */
static void a_continuation_flood_ends_the_connection(void **state)
{
    fixture *f = *state;
    h2_rig_init(&f->rig, &f->limits, false);
    h2_rig_run(&f->rig);
    /* HEADERS of stream 1 without END_HEADERS, then CONTINUATION frames with one literal field each. */
    h2_rig_feed(&f->rig, "\0\0\x01\x01\x00\0\0\0\x01\x82", 10);
    for (int i = 0; i < 100 && !f->rig.conn->class->is_over(f->rig.conn); i++) {
        h2_rig_feed(&f->rig, "\0\0\x05\x09\x00\0\0\0\x01\x00\x01x\x01y", 14);
        h2_rig_run(&f->rig);
    }
    assert_true(f->rig.conn->class->is_over(f->rig.conn));
    assert_int_equal(1, tide_counted(&f->rig.context->counters.refused_flood));
    assert_int_equal(0, tide_counted(&f->rig.context->counters.calls_running));
}

/* Limit header_us: a header block that is left open. */
static void an_open_header_block_is_timed_out(void **state)
{
    fixture *f = *state;
    h2_rig_init(&f->rig, &f->limits, false);
    h2_rig_run(&f->rig);
    h2_rig_feed(&f->rig, "\0\0\x01\x01\x00\0\0\0\x01\x82", 10);
    virtual_env_advance(&f->rig.env, f->limits.header_us);
    h2_rig_run(&f->rig);
    assert_true(f->rig.conn->class->is_over(f->rig.conn));
    assert_int_equal(1, tide_counted(&f->rig.context->counters.timeouts_header));
}

/* Limit idle_us. */
static void a_connection_without_calls_is_closed_in_the_end(void **state)
{
    fixture *f = *state;
    h2_rig_init(&f->rig, &f->limits, false);
    (void)h2_call(&f->rig, EMPTY_CALL, no_message());
    virtual_env_advance(&f->rig.env, f->limits.idle_us - 1);
    h2_rig_run(&f->rig);
    assert_false(f->rig.is_goaway);
    virtual_env_advance(&f->rig.env, 1);
    h2_rig_run(&f->rig);
    assert_true(f->rig.is_goaway);
    assert_int_equal(NGHTTP2_NO_ERROR, f->rig.goaway_code);
}

static void draining_says_goaway_and_lets_calls_end(void **state)
{
    fixture *f = *state;
    h2_rig_init(&f->rig, &f->limits, false);
    h2_exchange *e = h2_open(&f->rig, "POST", DUPLEX_CALL, GRPC);
    f->rig.conn->class->drain(f->rig.conn);
    h2_rig_run(&f->rig);
    assert_true(f->rig.is_goaway);
    assert_int_equal(INT32_MAX, f->rig.goaway_stream); /* a notice: calls on their way are taken */
    assert_false(f->rig.conn->class->is_over(f->rig.conn));
    h2_write(&f->rig, e, tide_view_bytes("", 0), true);
    assert_string_equal("0", h2_field(&e->head, "grpc-status"));
    assert_true(f->rig.conn->class->is_over(f->rig.conn));
}

/* Authorised at the headers: nothing of a refused body is kept. */
static void without_a_token_a_call_is_refused_before_its_body(void **state)
{
    fixture *f = *state;
    h2_rig_init(&f->rig, &f->limits, true);
    h2_exchange *e = h2_open(&f->rig, "POST", UNARY_CALL, GRPC);
    assert_string_equal("16", h2_field(&e->head, "grpc-status"));
    const char *const good[] = {"content-type", "application/grpc", "authorization",
                                "Bearer reader", NULL};
    e = h2_open(&f->rig, "POST", EMPTY_CALL, good);
    h2_frame(&f->bytes, false, no_message());
    h2_write(&f->rig, e, tide_buffer_view(&f->bytes), true);
    assert_string_equal("0", h2_field(&e->trailers, "grpc-status"));
}

static void a_role_that_is_too_low_is_permission_denied(void **state)
{
    fixture *f = *state;
    h2_rig_init(&f->rig, &f->limits, true);
    const char *const fields[] = {"content-type", "application/grpc", "authorization",
                                  "Bearer reader", NULL};
    const h2_exchange *e =
        h2_open(&f->rig, "POST", "/grpc.testing.TestService/CacheableUnaryCall", fields);
    assert_string_equal("7", h2_field(&e->head, "grpc-status"));
}

/* Limit peer_budget_len: the bytes as sent and as translated are held at one time. What never fits is not to be sent again. */
static void json_that_never_fits_is_413_and_names_the_limit(void **state)
{
    fixture *f = *state;
    enum { BASE64_LEN = 600000 };
    static const char head[] = "{\"payload\":{\"body\":\"";
    static const char tail[] = "\"}}";
    f->limits.message_len = 1 << 20;
    f->limits.budget_len = f->limits.peer_budget_len = 3 << 19;
    h2_rig_init(&f->rig, &f->limits, false);
    char *body = malloc(sizeof head + BASE64_LEN + sizeof tail);
    assert_non_null(body);
    memcpy(body, head, sizeof head - 1);
    memset(body + sizeof head - 1, 'A', BASE64_LEN);
    memcpy(body + sizeof head - 1 + BASE64_LEN, tail, sizeof tail);
    const h2_exchange *e = h2_post(&f->rig, UNARY_CALL, "application/json", tide_view_of(body));
    assert_string_equal("413", h2_field(&e->head, ":status"));
    assert_contains(tide_buffer_text(&e->body), "peer_budget_len");
    free(body);
}

static void json_works_over_http2_too(void **state)
{
    fixture *f = *state;
    h2_rig_init(&f->rig, &f->limits, false);
    const h2_exchange *e =
        h2_post(&f->rig, UNARY_CALL, "application/json", tide_view_of("{\"response_size\":3}"));
    assert_string_equal("200", h2_field(&e->head, ":status"));
    assert_contains(tide_buffer_text(&e->body), "\"body\":\"AAAA\"");
    e = h2_post(&f->rig, UNARY_CALL, "text/plain", tide_view_of("x"));
    assert_string_equal("415", h2_field(&e->head, ":status"));
    e = h2_post(&f->rig, OUTPUT_CALL, "application/json", tide_view_of("{}"));
    assert_string_equal("501", h2_field(&e->head, ":status"));
    e = h2_open(&f->rig, "GET", UNARY_CALL, NULL);
    assert_string_equal("405", h2_field(&e->head, ":status"));
    assert_string_equal("POST", h2_field(&e->head, "allow"));
}

static void bytes_that_are_not_http2_end_the_connection(void **state)
{
    fixture *f = *state;
    h2_rig_init(&f->rig, &f->limits, false);
    h2_rig_feed(&f->rig, "GET / HTTP/1.1\r\n\r\n", 18);
    h2_rig_run(&f->rig);
    assert_true(f->rig.conn->class->is_over(f->rig.conn));
    assert_int_equal(1, tide_counted(&f->rig.context->counters.refused_malformed));
}

static void a_second_message_for_a_unary_call_is_refused(void **state)
{
    fixture *f = *state;
    h2_rig_init(&f->rig, &f->limits, false);
    h2_frame(&f->bytes, false, no_message());
    h2_frame(&f->bytes, false, no_message());
    h2_exchange *e = h2_open(&f->rig, "POST", EMPTY_CALL, GRPC);
    h2_write(&f->rig, e, tide_buffer_view(&f->bytes), true);
    assert_string_equal("3", h2_field(&e->head, "grpc-status"));
    e = h2_open(&f->rig, "POST", EMPTY_CALL, GRPC);
    h2_write(&f->rig, e, tide_view_bytes("\0\0\0", 3), true);
    assert_string_equal("13", h2_field(&e->head, "grpc-status"));
}

/* A proxy may route by one of them while we check the other. */
static void authority_and_host_name_one_host(void **state)
{
    fixture *f = *state;
    h2_rig_init(&f->rig, &f->limits, false);
    static const struct {
        const char *host;
        const char *code;
    } rows[] = {{"test", "200"}, {"TEST:80", "200"}, {"other", "400"}, {"test:evil", "400"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        h2_exchange *exchange =
            h2_open(&f->rig, "GET", "/healthz", (const char *[]){"host", rows[i].host, NULL});
        assert_string_equal(rows[i].code, h2_field(&exchange->head, ":status"));
    }
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        H2_CASE(authority_and_host_name_one_host),
        H2_CASE(a_unary_call_is_answered_with_a_message_and_status_0),
        H2_CASE(an_unknown_method_is_unimplemented_in_trailers_only),
        H2_CASE(a_status_message_is_percent_encoded),
        H2_CASE(bytes_that_are_no_message_are_an_invalid_argument),
        H2_CASE(metadata_comes_back_in_headers_and_trailers),
        H2_CASE(binary_metadata_that_is_not_base64_is_refused),
        H2_CASE(a_server_stream_sends_its_messages_in_order),
        H2_CASE(a_slow_reader_holds_back_its_own_stream),
        H2_CASE(a_reader_that_never_reads_is_given_up),
        H2_CASE(a_client_stream_is_summed_up_at_its_end),
        H2_CASE(a_message_may_come_byte_by_byte),
        H2_CASE(messages_wait_while_answers_do),
        H2_CASE(a_deadline_ends_the_call_and_tells_the_method),
        H2_CASE(a_grpc_deadline_is_status_4),
        H2_CASE(a_reset_cancels_the_call),
        H2_CASE(another_thread_may_answer_later),
        H2_CASE(an_answer_after_the_connection_is_gone_is_harmless),
        H2_CASE(gzip_goes_both_ways),
        H2_CASE(an_unknown_coding_is_unimplemented_and_names_those_we_know),
        H2_CASE(a_message_above_the_limit_is_resource_exhausted),
        H2_CASE(a_gzip_bomb_stops_at_the_limit),
        H2_CASE(uploads_above_the_budget_are_refused_with_advice),
        H2_CASE(answers_above_the_budget_are_refused_with_advice),
        H2_CASE(an_answer_above_the_budget_is_given_alone),
        H2_CASE(streams_without_a_window_share_the_budget),
        H2_CASE(slow_readers_get_smaller_pages),
        H2_CASE(a_reader_that_dawdles_is_given_up),
        H2_CASE(a_reader_at_the_least_rate_is_served),
        H2_CASE(a_client_that_is_refused_may_finish_its_request),
        H2_CASE(a_client_that_is_refused_and_goes_on_is_reset),
        H2_CASE(a_body_that_does_not_come_is_timed_out),
        H2_CASE(a_header_list_above_the_limit_is_431),
        H2_CASE(streams_above_the_limit_are_refused),
        H2_CASE(rapid_resets_end_the_connection),
        H2_CASE(resets_of_finished_streams_are_nobodys_flood),
        H2_CASE(a_ping_flood_ends_the_connection),
        H2_CASE(a_settings_flood_ends_the_connection),
        H2_CASE(a_continuation_flood_ends_the_connection),
        H2_CASE(an_open_header_block_is_timed_out),
        H2_CASE(a_connection_without_calls_is_closed_in_the_end),
        H2_CASE(draining_says_goaway_and_lets_calls_end),
        H2_CASE(without_a_token_a_call_is_refused_before_its_body),
        H2_CASE(a_role_that_is_too_low_is_permission_denied),
        H2_CASE(json_that_never_fits_is_413_and_names_the_limit),
        H2_CASE(json_works_over_http2_too),
        H2_CASE(bytes_that_are_not_http2_end_the_connection),
        H2_CASE(a_second_message_for_a_unary_call_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
