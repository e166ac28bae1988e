/* The parts of a poller that need neither an agent nor a store: pages and the watch call. */
#include <string.h>

#include "base/cleanup.h"
#include "colony/poller_parts.h"
#include "support/check.h"
#include "tidemark_agent_v1_agent.pb-c.h"

#define AGENT(type_) Tidemark__Agent__V1__##type_

/* ---- pages ---- */

/* A page that was too large is asked for at a quarter, down to one record, and never less. */
static void a_page_shrinks_to_one_record_and_no_further(void **state)
{
    (void)state;
    tide_poll_page page;
    tide_poll_page_init(&page, tide_colony_type_of(TIDE_STREAM_TELEMETRY));
    assert_int_equal(10000, page.records);
    assert_int_equal(TIDE_ASK_BYTES_DEFAULT, page.bytes);
    int steps = 0;
    while (tide_poll_page_shrink(&page))
        steps++;
    assert_int_equal(7, steps); /* 10000, 2500, 625, 156, 39, 9, 2, 1 */
    assert_int_equal(1, page.records);
    assert_true(page.bytes >= TIDE_POLL_PAGE_BYTES_MIN);
    assert_int_equal(TIDE_REPLY_BYTES_MAX, tide_poll_page_message_max(&page));
    assert_false(tide_poll_page_shrink(&page));
    assert_int_equal(1, page.records);
}

/* Each success doubles it, up to the type's page, whatever the type. */
static void a_page_grows_back_to_the_page_of_its_type(void **state)
{
    (void)state;
    for (int kind = 0; kind < TIDE_STREAM_COUNT; kind++) {
        const tide_colony_type *type = tide_colony_type_of((tide_stream_kind)kind);
        tide_poll_page page;
        tide_poll_page_init(&page, type);
        const int64_t full = page.records;
        while (tide_poll_page_shrink(&page))
            continue;
        for (int i = 0; i < 20; i++)
            tide_poll_page_grow(&page, TIDE_POLL_PAGE_AIM_US / 2);
        assert_int_equal(full, page.records);
        assert_int_equal(TIDE_ASK_BYTES_DEFAULT, page.bytes);
        assert_true(tide_poll_page_message_max(&page) >= 16 << 20);
    }
}

/* The aim is a page within a second; while answers come quickly it may have more bytes, not more records. */
static void a_slow_page_is_halved_and_a_quick_one_may_have_more_bytes(void **state)
{
    (void)state;
    tide_poll_page page;
    tide_poll_page_init(&page, tide_colony_type_of(TIDE_STREAM_BEYLA_TRACES));
    tide_poll_page_grow(&page, TIDE_POLL_PAGE_AIM_US + 1);
    assert_int_equal(500, page.records);
    assert_int_equal(TIDE_ASK_BYTES_DEFAULT / 2, page.bytes);
    for (int i = 0; i < 20; i++)
        tide_poll_page_grow(&page, 1000);
    assert_int_equal(1000, page.records);
    assert_int_equal(TIDE_POLL_PAGE_BYTES_MAX, page.bytes);
    for (int i = 0; i < 60; i++)
        tide_poll_page_grow(&page, 2 * TIDE_POLL_PAGE_AIM_US);
    assert_int_equal(1, page.records);
}

/* ---- watch ---- */

/* The agent's own decoder reads what we write. */
static void a_watch_request_says_what_was_seen(void **state)
{
    (void)state;
    tide_error err;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer out = {0};
    tide_buffer_init(&out, 4096);
    const tide_poll_watch_seen seen[] = {{"telemetry", 5}, {"orders", 0}, {"logs", INT64_MAX}};
    assert_ok_err(tide_poll_watch_encode(&out, seen, 3, "s-1", 25000000, &err), &err);
    AGENT(WatchStreamsRequest) *request =
        tidemark__agent__v1__watch_streams_request__unpack(NULL, out.len, (const uint8_t *)out.ptr);
    assert_non_null(request);
    assert_int_equal(3, request->n_seen);
    assert_string_equal("telemetry", request->seen[0]->stream);
    assert_int_equal(5, request->seen[0]->head_seq_id);
    assert_string_equal("orders", request->seen[1]->stream);
    assert_int_equal(0, request->seen[1]->head_seq_id);
    assert_int_equal(INT64_MAX, (int64_t)request->seen[2]->head_seq_id);
    assert_int_equal(25000, request->wait_ms);
    assert_string_equal("s-1", request->session_id);
    tidemark__agent__v1__watch_streams_request__free_unpacked(request, NULL);
}

/* A buffer that is full is a failure, not half a request. */
static void a_watch_request_that_does_not_fit_is_refused(void **state)
{
    (void)state;
    tide_error err;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer out = {0};
    tide_buffer_init(&out, 8);
    const tide_poll_watch_seen seen[] = {{"telemetry", 5}};
    assert_status(TIDE_E_LIMIT, tide_poll_watch_encode(&out, seen, 1, "s-1", 1000, &err));
}

typedef struct told {
    tide_poll_watch_stream streams[4];
    int count;
} told;

static tide_status keep(void *arg, const tide_poll_watch_stream *stream, tide_error *err)
{
    (void)err;
    told *t = arg;
    assert_true(t->count < 4);
    t->streams[t->count++] = *stream;
    return TIDE_OK;
}

static size_t pack_answer(uint8_t *out, const char *session)
{
    AGENT(StreamState) first = TIDEMARK__AGENT__V1__STREAM_STATE__INIT;
    AGENT(StreamState) second = TIDEMARK__AGENT__V1__STREAM_STATE__INIT;
    first.stream = (char *)"telemetry";
    first.epoch = 3;
    first.oldest_seq_id = 2;
    first.head_seq_id = 77;
    first.head_arrived_ms = 1000;
    first.now_ms = 2000;
    first.retention_ms = 3600000;
    second.stream = (char *)"orders";
    AGENT(StreamState) * streams[] = {&first, &second};
    AGENT(ListStreamsResponse) answer = TIDEMARK__AGENT__V1__LIST_STREAMS_RESPONSE__INIT;
    answer.streams = streams;
    answer.n_streams = 2;
    answer.session_id = (char *)session;
    answer.agent = (char *)"a0";
    return tidemark__agent__v1__list_streams_response__pack(&answer, out);
}

/* We read what the agent's own encoder writes. */
static void a_watch_answer_tells_of_every_stream(void **state)
{
    (void)state;
    tide_error err;
    uint8_t bytes[1024];
    char session[TIDE_POSITION_ID_MAX + 1];
    told t = {.count = 0};
    const size_t len = pack_answer(bytes, "s-1");
    assert_ok_err(tide_poll_watch_read(tide_view_bytes(bytes, len), session, keep, &t, &err), &err);
    assert_string_equal("s-1", session);
    assert_int_equal(2, t.count);
    assert_string_equal("telemetry", t.streams[0].stream);
    assert_int_equal(3, t.streams[0].epoch);
    assert_int_equal(2, t.streams[0].oldest_seq);
    assert_int_equal(77, t.streams[0].head_seq);
    assert_int_equal(1000, t.streams[0].head_arrived_ms);
    assert_int_equal(2000, t.streams[0].now_ms);
    assert_int_equal(3600000, t.streams[0].retention_ms);
    assert_string_equal("orders", t.streams[1].stream);
}

/* An answer without a session id is refused, and nothing of it is told. */
static void a_watch_answer_without_a_session_is_refused(void **state)
{
    (void)state;
    tide_error err;
    uint8_t bytes[1024];
    char session[TIDE_POSITION_ID_MAX + 1];
    told t = {.count = 0};
    const size_t len = pack_answer(bytes, "");
    assert_status(TIDE_E_INVALID,
                  tide_poll_watch_read(tide_view_bytes(bytes, len), session, keep, &t, &err));
    assert_int_equal(0, t.count);
}

/* Bad input: whatever single byte is changed or wherever it is cut, nothing is read beyond the end and nothing half is told. */
static void a_damaged_watch_answer_is_refused_or_whole(void **state)
{
    (void)state;
    tide_error err;
    uint8_t bytes[1024];
    char session[TIDE_POSITION_ID_MAX + 1];
    const size_t len = pack_answer(bytes, "s-1");
    for (size_t cut = 0; cut < len; cut++) {
        told t = {.count = 0};
        uint8_t *exact = malloc(cut + 1); /* so that a sanitizer sees a read behind it */
        assert_non_null(exact);
        memcpy(exact, bytes, cut);
        if (tide_poll_watch_read(tide_view_bytes(exact, cut), session, keep, &t, &err) < TIDE_OK)
            assert_int_equal(0, t.count);
        free(exact);
    }
    for (size_t at = 0; at < len; at++)
        for (int flip = 0; flip < 8; flip++) {
            told t = {.count = 0};
            uint8_t changed[1024];
            memcpy(changed, bytes, len);
            changed[at] ^= (uint8_t)(1 << flip);
            if (tide_poll_watch_read(tide_view_bytes(changed, len), session, keep, &t, &err) <
                TIDE_OK)
                assert_int_equal(0, t.count);
        }
}

/* Bad input: numbers above 2^63-1. */
static void a_watch_answer_with_a_number_above_the_last_one_is_refused(void **state)
{
    (void)state;
    tide_error err;
    uint8_t bytes[1024];
    char session[TIDE_POSITION_ID_MAX + 1];
    told t = {.count = 0};
    AGENT(StreamState) only = TIDEMARK__AGENT__V1__STREAM_STATE__INIT;
    only.stream = (char *)"telemetry";
    only.head_seq_id = (uint64_t)INT64_MAX + 1;
    AGENT(StreamState) * streams[] = {&only};
    AGENT(ListStreamsResponse) answer = TIDEMARK__AGENT__V1__LIST_STREAMS_RESPONSE__INIT;
    answer.streams = streams;
    answer.n_streams = 1;
    answer.session_id = (char *)"s-1";
    const size_t len = tidemark__agent__v1__list_streams_response__pack(&answer, bytes);
    assert_status(TIDE_E_DAMAGED,
                  tide_poll_watch_read(tide_view_bytes(bytes, len), session, keep, &t, &err));
}

/* Bad input: more streams than an agent can have. */
static void a_watch_answer_with_too_many_streams_is_refused(void **state)
{
    (void)state;
    tide_error err;
    char session[TIDE_POSITION_ID_MAX + 1];
    told t = {.count = 0};
    TIDE_CLEANUP(tide_buffer_done) tide_buffer out = {0};
    tide_buffer_init(&out, 1 << 20);
    for (int i = 0; i <= TIDE_POLL_WATCH_STREAMS_MAX; i++)
        assert_ok(tide_buffer_append(&out, "\x0a\x03\x7a\x01z", 5)); /* {stream: "z"} */
    assert_ok(tide_buffer_append(&out, "\x12\x01s", 3));
    assert_status(TIDE_E_DAMAGED,
                  tide_poll_watch_read(tide_buffer_view(&out), session, keep, &t, &err));
    assert_int_equal(0, t.count);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_page_shrinks_to_one_record_and_no_further),
        cmocka_unit_test(a_page_grows_back_to_the_page_of_its_type),
        cmocka_unit_test(a_slow_page_is_halved_and_a_quick_one_may_have_more_bytes),
        cmocka_unit_test(a_watch_request_says_what_was_seen),
        cmocka_unit_test(a_watch_request_that_does_not_fit_is_refused),
        cmocka_unit_test(a_watch_answer_tells_of_every_stream),
        cmocka_unit_test(a_watch_answer_without_a_session_is_refused),
        cmocka_unit_test(a_damaged_watch_answer_is_refused_or_whole),
        cmocka_unit_test(a_watch_answer_with_a_number_above_the_last_one_is_refused),
        cmocka_unit_test(a_watch_answer_with_too_many_streams_is_refused),
    };
    return cmocka_run_group_tests_name("colony-poller-internal", tests, NULL, NULL);
}
