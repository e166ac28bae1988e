/* logs_test.c - log records of OTLP, and the answers of all signals. */
#include <string.h>

#include "base/cleanup.h"
#include "otlp_fixture.h"

static int begin(void **state)
{
    static otlp_test t;
    otlp_test_begin(&t, NULL);
    *state = &t;
    return 0;
}

static int end(void **state)
{
    otlp_test_end(*state);
    return 0;
}

static void a_log_record_fills_every_column(void **state)
{
    otlp_test *t = *state;
    assert_ok_err(otlp_decode_notation(
                      t, TIDE_OTLP_LOGS,
                      "1{1{1{1'service.name'2{1'api'}}}2{1{1'lib'}2{1@1700000000000000000 2#17 "
                      "3'ERROR' 5{1'it broke'} 6{1'k'2{2#1}} 9$0102030405060708090a0b0c0d0e0f10 "
                      "10$1112131415161718 11@1700000001000000000 12'crash'}}}"),
                  &t->err);
    assert_string_equal(otlp_show(t, TIDE_STREAM_LOGS),
                        "{\"timestamp\":1700000000000,\"service_name\":\"api\","
                        "\"severity_number\":17,\"severity_text\":\"ERROR\",\"body\":\"it broke\","
                        "\"trace_id\":\"0102030405060708090a0b0c0d0e0f10\","
                        "\"span_id\":\"1112131415161718\",\"attributes\":{\"service.name\":\"api\","
                        "\"otel.scope.name\":\"lib\",\"k\":\"true\",\"event.name\":\"crash\"}}\n");
}

/* The time of the event, else that of its observation, else that of its receipt. Ids are not
 * needed. */
static void what_is_missing_is_made_up_for(void **state)
{
    otlp_test *t = *state;
    assert_ok(otlp_decode_notation(t, TIDE_OTLP_LOGS,
                                   "1{2{2{11@1700000001000000000 5{6{1{1'a'2{3#1}}}}} 2{}"
                                   "2{9$00000000000000000000000000000000 10$01}}}"));
    const char *shown = otlp_show(t, TIDE_STREAM_LOGS);
    assert_int_equal(t->output.batches[TIDE_STREAM_LOGS].count, 3);
    assert_int_equal(t->output.rejected, 0);
    assert_non_null(strstr(shown, "\"timestamp\":1700000001000"));
    assert_non_null(strstr(shown, "\"timestamp\":1700000009000"));
    assert_non_null(strstr(shown, "\"body\":\"{\\\"a\\\":1}\""));
    assert_null(strstr(shown, "\"trace_id\":\"0"));
}

static void json_gives_the_same_records(void **state)
{
    (void)state;
    otlp_assert_same(
        TIDE_OTLP_LOGS,
        "1{1{1{1'service.name'2{1'api'}}}2{2{1@1700000000000000000 2#9 3'INFO' 5{5{1{1'x'}1{3#2}}}"
        "6{1'k'2{4~1e300}} 9$0102030405060708090a0b0c0d0e0f10 10$1112131415161718 12'e'}}}",
        "{\"resourceLogs\":[{\"resource\":{\"attributes\":[{\"key\":\"service.name\",\"value\":"
        "{\"stringValue\":\"api\"}}]},\"scopeLogs\":[{\"logRecords\":[{\"timeUnixNano\":"
        "\"1700000000000000000\",\"severityNumber\":\"SEVERITY_NUMBER_INFO\",\"severityText\":"
        "\"INFO\",\"body\":{\"arrayValue\":{\"values\":[{\"stringValue\":\"x\"},{\"intValue\":"
        "\"2\"}"
        "]}},\"attributes\":[{\"key\":\"k\",\"value\":{\"doubleValue\":1e300}}],\"traceId\":"
        "\"0102030405060708090a0b0c0d0e0f10\",\"spanId\":\"1112131415161718\",\"eventName\":\"e\"}"
        "]}]}]}");
}

/* ---- answers ---- */

static void expect_answer(otlp_test *t, tide_otlp_signal signal, const char *json,
                          const char *notation)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer out;
    tide_buffer_init(&out, 4096);
    assert_ok(tide_otlp_answer(&out, signal, TIDE_OTLP_JSON, &t->output));
    assert_string_equal(tide_buffer_text(&out), json);
    tide_buffer_clear(&out);
    assert_ok(tide_otlp_answer(&out, signal, TIDE_OTLP_PROTOBUF, &t->output));
    tide_buffer_clear(&t->request);
    otlp_write(&t->request, notation);
    assert_int_equal(out.len, t->request.len);
    if (out.len > 0)
        assert_memory_equal(out.ptr, t->request.ptr, out.len);
}

/* OTLP: partial_success is left unset when everything was taken. */
static void the_answer_says_what_was_rejected(void **state)
{
    otlp_test *t = *state;
    expect_answer(t, TIDE_OTLP_LOGS, "{}", "");
    assert_ok(otlp_decode_notation(t, TIDE_OTLP_TRACES, "1{2{2{}2{}}}"));
    expect_answer(
        t, TIDE_OTLP_TRACES,
        "{\"partialSuccess\":{\"rejectedSpans\":\"2\",\"errorMessage\":\"2 spans rejected: 2 "
        "without a valid trace_id and span_id\"}}",
        "1{1#2 2'2 spans rejected: 2 without a valid trace_id and span_id'}");
    assert_ok(otlp_decode_notation(t, TIDE_OTLP_METRICS, "1{2{2{5{1{}1{4~1}}}2{7{1{4~1}}}}}"));
    expect_answer(
        t, TIDE_OTLP_METRICS,
        "{\"partialSuccess\":{\"rejectedDataPoints\":\"2\",\"errorMessage\":\"2 data points "
        "rejected: 1 without a value, 1 without an aggregation temporality\"}}",
        "1{1#2 2'2 data points rejected: 1 without a value, 1 without an aggregation "
        "temporality'}");
}

/* Every reason at once still fits. */
static void the_longest_answer_fits(void **state)
{
    otlp_test *t = *state;
    t->output.rejected = INT64_MAX;
    for (int i = 0; i < TIDE_OTLP_REASON_COUNT; i++)
        t->output.reasons[i] = INT64_MAX;
    char text[TIDE_OTLP_MESSAGE_MAX];
    tide_otlp_describe(TIDE_OTLP_METRICS, &t->output, text);
    assert_true(strlen(text) < sizeof text);
    TIDE_CLEANUP(tide_buffer_done) tide_buffer out;
    tide_buffer_init(&out, 4096);
    assert_ok(tide_otlp_answer(&out, TIDE_OTLP_LOGS, TIDE_OTLP_PROTOBUF, &t->output));
    TIDE_CLEANUP(tide_buffer_done) tide_buffer narrow;
    tide_buffer_init(&narrow, 10);
    assert_status(TIDE_E_LIMIT,
                  tide_otlp_answer(&narrow, TIDE_OTLP_LOGS, TIDE_OTLP_PROTOBUF, &t->output));
    assert_int_equal(narrow.len, 0);
    assert_status(TIDE_E_LIMIT,
                  tide_otlp_answer(&narrow, TIDE_OTLP_LOGS, TIDE_OTLP_JSON, &t->output));
    assert_int_equal(narrow.len, 0);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_log_record_fills_every_column, begin, end),
        cmocka_unit_test_setup_teardown(what_is_missing_is_made_up_for, begin, end),
        cmocka_unit_test(json_gives_the_same_records),
        cmocka_unit_test_setup_teardown(the_answer_says_what_was_rejected, begin, end),
        cmocka_unit_test_setup_teardown(the_longest_answer_fits, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
