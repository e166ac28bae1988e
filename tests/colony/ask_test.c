/* Questions, read back by the messages of agent.proto. */
#include "colony/ask.h"

#include <string.h>

#include "base/cleanup.h"
#include "support/check.h"
#include "tidemark_agent_v1_agent.pb-c.h"

#define AGENT(type_) Tidemark__Agent__V1__##type_
#define UNPACK(name, bytes)                                                                        \
    tidemark__agent__v1__##name##__unpack(NULL, (bytes)->len, (const uint8_t *)(bytes)->ptr)

static tide_ask ask_of(tide_stream_kind kind, const char *data_type)
{
    return (tide_ask){.type = tide_colony_type_of(kind),
                      .data_type = data_type,
                      .start_seq = 41,
                      .max_records = 500};
}

static void encode(tide_buffer *out, const tide_ask *ask)
{
    tide_error err;
    tide_buffer_init(out, 65536);
    assert_ok_err(tide_ask_encode(out, ask, &err), &err);
}

static void a_question_says_who_asks_and_from_where(void **state)
{
    (void)state;
    tide_feed_point points[TIDE_FEED_POINTS_MAX];
    for (int i = 0; i < TIDE_FEED_POINTS_MAX; i++) {
        points[i] = (tide_feed_point){.seq = 10 + i, .epoch = 3};
        memset(points[i].digest, i, sizeof points[i].digest);
    }
    tide_ask ask = ask_of(TIDE_STREAM_TELEMETRY, "telemetry");
    ask.last_seq = 99;
    ask.max_bytes = INT64_MAX;
    ask.wait_us = INT64_C(999) * 1000000;
    ask.session_id = "s1";
    ask.epoch = 3;
    ask.epoch_id = "three";
    ask.points = points;
    ask.point_count = TIDE_FEED_POINTS_MAX;
    ask.reader = "colony-1";
    ask.lease_token = INT64_C(1) << 41;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer bytes;
    encode(&bytes, &ask);
    AGENT(QueryTelemetryRequest) *got = UNPACK(query_telemetry_request, &bytes);
    assert_non_null(got);
    assert_int_equal(got->start_seq_id, 41);
    assert_int_equal(got->max_records, 500);
    assert_int_equal(got->start_time, 0);
    const AGENT(Position) *position = got->position;
    assert_string_equal(position->session_id, "s1");
    assert_int_equal(position->epoch, 3);
    assert_string_equal(position->epoch_id, "three");
    assert_int_equal(position->last_seq_id, 99);
    assert_int_equal(position->max_bytes, TIDE_ASK_BYTES_MAX);
    assert_int_equal(position->wait_ms, 60000);
    assert_string_equal(position->reader, "colony-1");
    assert_int_equal(position->lease_token, INT64_C(1) << 41);
    assert_int_equal(position->n_points, TIDE_FEED_POINTS_MAX);
    for (int i = 0; i < TIDE_FEED_POINTS_MAX; i++) {
        assert_int_equal(position->points[i]->seq_id, points[i].seq);
        assert_int_equal(position->points[i]->epoch, 3);
        assert_int_equal(position->points[i]->digest.len, TIDE_FEED_DIGEST_SIZE);
        assert_memory_equal(position->points[i]->digest.data, points[i].digest,
                            TIDE_FEED_DIGEST_SIZE);
    }
    tidemark__agent__v1__query_telemetry_request__free_unpacked(got, NULL);
}

/* What nothing is said of is left out; a page has a size all the same. */
static void defaults_cost_nothing(void **state)
{
    (void)state;
    tide_ask ask = ask_of(TIDE_STREAM_LOGS, "logs");
    ask.start_seq = 0;
    ask.max_records = 0;
    ask.session_id = "";
    TIDE_CLEANUP(tide_buffer_done) tide_buffer bytes;
    encode(&bytes, &ask);
    AGENT(QueryLogsRequest) *got = UNPACK(query_logs_request, &bytes);
    assert_non_null(got);
    assert_int_equal(got->start_seq_id, 0);
    assert_int_equal(got->max_records, 0);
    assert_int_equal(got->position->max_bytes, TIDE_ASK_BYTES_DEFAULT);
    assert_string_equal(got->position->reader, "");
    assert_true(bytes.len < 16);
    tidemark__agent__v1__query_logs_request__free_unpacked(got, NULL);
}

/* Each eBPF stream is asked for alone, at its own fields. */
static void ebpf_streams_are_asked_for_one_by_one(void **state)
{
    (void)state;
    const tide_stream_kind kinds[] = {TIDE_STREAM_BEYLA_HTTP, TIDE_STREAM_BEYLA_GRPC,
                                      TIDE_STREAM_BEYLA_SQL, TIDE_STREAM_BEYLA_TRACES};
    for (int i = 0; i < 4; i++) {
        const tide_ask ask = ask_of(kinds[i], "beyla");
        TIDE_CLEANUP(tide_buffer_done) tide_buffer bytes;
        encode(&bytes, &ask);
        AGENT(QueryEbpfMetricsRequest) *got = UNPACK(query_ebpf_metrics_request, &bytes);
        assert_non_null(got);
        const uint64_t starts[] = {got->http_start_seq_id, got->grpc_start_seq_id,
                                   got->sql_start_seq_id, got->traces_start_seq_id};
        const AGENT(Position) * positions[] = {got->http_position, got->grpc_position,
                                               got->sql_position, got->traces_position};
        for (int j = 0; j < 4; j++) {
            assert_int_equal(starts[j], j == i ? 41 : 0);
            assert_int_equal(positions[j] != NULL, j == i);
        }
        assert_int_equal(got->n_metric_types, 1); /* so that the others are left out */
        assert_int_equal(got->metric_types[0], i < 3 ? i + 1 : 0);
        assert_int_equal(got->include_traces, i == 3);
        assert_int_equal(i == 3 ? got->max_traces : got->max_records, 500);
        tidemark__agent__v1__query_ebpf_metrics_request__free_unpacked(got, NULL);
    }
}

static void a_users_stream_is_asked_for_by_name(void **state)
{
    (void)state;
    const tide_ask ask = {.type = tide_colony_type_find("orders"), .data_type = "orders"};
    TIDE_CLEANUP(tide_buffer_done) tide_buffer bytes;
    encode(&bytes, &ask);
    AGENT(QueryRecordsRequest) *got = UNPACK(query_records_request, &bytes);
    assert_non_null(got);
    assert_string_equal(got->stream, "orders");
    tidemark__agent__v1__query_records_request__free_unpacked(got, NULL);
}

/* A buffer without room is as before. */
static void a_question_that_does_not_fit_leaves_nothing(void **state)
{
    (void)state;
    const tide_ask ask = ask_of(TIDE_STREAM_TELEMETRY, "telemetry");
    tide_error err;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer whole;
    encode(&whole, &ask);
    for (size_t room = 0; room < whole.len; room++) {
        TIDE_CLEANUP(tide_buffer_done) tide_buffer bytes;
        tide_buffer_init(&bytes, room + 2);
        assert_ok(tide_buffer_append_text(&bytes, "ab"));
        assert_status(TIDE_E_LIMIT, tide_ask_encode(&bytes, &ask, &err));
        assert_string_equal(tide_buffer_text(&bytes), "ab");
    }
    tide_ask bad = ask;
    bad.start_seq = -1;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer bytes;
    tide_buffer_init(&bytes, 100);
    assert_status(TIDE_E_INVALID, tide_ask_encode(&bytes, &bad, &err));
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_question_says_who_asks_and_from_where),
        cmocka_unit_test(defaults_cost_nothing),
        cmocka_unit_test(ebpf_streams_are_asked_for_one_by_one),
        cmocka_unit_test(a_users_stream_is_asked_for_by_name),
        cmocka_unit_test(a_question_that_does_not_fit_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
