/* traces_test.c - spans of OTLP as records of telemetry and beyla_traces. */
#include <stdio.h>
#include <string.h>

#include "otlp_fixture.h"

#define IDS "1$0102030405060708090a0b0c0d0e0f10 2$1112131415161718 "
#define TIMES "7@1700000000000000000 8@1700000000250000000 "
#define JSON_IDS "\"traceId\":\"0102030405060708090a0b0c0d0e0f10\",\"spanId\":\"1112131415161718\","
#define JSON_TIMES                                                                                 \
    "\"startTimeUnixNano\":\"1700000000000000000\",\"endTimeUnixNano\":1700000000250000000"
#define RESOURCE "1{1{1'service.name'2{1'api'}} 1{1'host.name'2{1'h1'}}} "

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

static void expect_span(otlp_test *t, const char *notation, const char *want)
{
    assert_ok_err(otlp_decode_notation(t, TIDE_OTLP_TRACES, notation), &t->err);
    assert_string_equal(otlp_show(t, TIDE_STREAM_TELEMETRY), want);
}

/* Every column of the data model. */
static void a_span_fills_every_column(void **state)
{
    otlp_test *t = *state;
    expect_span(t,
                "1{" RESOURCE "2{1{1'lib'2'1.2'} 2{" IDS
                "4$2122232425262728 5'GET /users' 6#2 " TIMES
                "9{1'http.request.method'2{1'GET'}} 9{1'http.route'2{1'/users/:id'}}"
                "9{1'http.response.status_code'2{3#503}} 15{2'boom'3#2} 3'a=b'}}}",
                "{\"timestamp\":1700000000000,\"trace_id\":\"0102030405060708090a0b0c0d0e0f10\","
                "\"span_id\":\"1112131415161718\",\"parent_span_id\":\"2122232425262728\","
                "\"service_name\":\"api\",\"span_kind\":\"server\",\"duration_ms\":250,"
                "\"is_error\":true,\"http_status\":503,\"http_method\":\"GET\","
                "\"http_route\":\"/users/:id\",\"attributes\":{\"service.name\":\"api\","
                "\"host.name\":\"h1\",\"otel.scope.name\":\"lib\",\"otel.scope.version\":\"1.2\","
                "\"http.request.method\":\"GET\",\"http.route\":\"/users/:id\","
                "\"http.response.status_code\":\"503\",\"w3c.tracestate\":\"a=b\","
                "\"otel.status_description\":\"boom\"},\"span_name\":\"GET /users\"}\n");
    const tide_record_batch *batch = &t->output.batches[TIDE_STREAM_TELEMETRY];
    assert_int_equal(batch->min_time_ms, INT64_C(1700000000000));
    assert_int_equal(batch->service_count, 1);
    tide_feed_records records[TIDE_STREAM_BUILT_IN_COUNT];
    assert_int_equal(tide_otlp_output_records(&t->output, records), 1);
    assert_string_equal(records[0].stream, "telemetry");
    assert_int_equal(records[0].count, 1);
}

/* A resource that does not name its service, or no resource at all. */
static void a_missing_service_is_unknown_service(void **state)
{
    otlp_test *t = *state;
    assert_ok(otlp_decode_notation(t, TIDE_OTLP_TRACES, "1{2{2{" IDS TIMES "}}}"));
    assert_non_null(strstr(otlp_show(t, TIDE_STREAM_TELEMETRY), "\"unknown_service\""));
    assert_ok(otlp_decode_notation(t, TIDE_OTLP_TRACES,
                                   "1{1{1{1'service.name'2{1''}}} 2{2{" IDS TIMES "}}}"));
    assert_non_null(strstr(otlp_show(t, TIDE_STREAM_TELEMETRY), "\"unknown_service\""));
}

/* Conventions before 1.23: http.method, http.status_code, and a target without its query where
 * there is no route. */
static void old_conventions_are_read_too(void **state)
{
    otlp_test *t = *state;
    assert_ok(otlp_decode_notation(t, TIDE_OTLP_TRACES,
                                   "1{2{2{" IDS TIMES "9{1'http.method'2{1'POST'}}"
                                   "9{1'http.status_code'2{1'201'}}"
                                   "9{1'http.target'2{1'/a/b?token=1'}}}}}"));
    const char *shown = otlp_show(t, TIDE_STREAM_TELEMETRY);
    assert_non_null(strstr(shown, "\"http_status\":201,\"http_method\":\"POST\","
                                  "\"http_route\":\"/a/b\""));
}

/* The record's own attribute wins over its scope's, that over its resource's; the last of a key
 * over the first. */
static void the_nearest_attribute_wins(void **state)
{
    otlp_test *t = *state;
    assert_ok(otlp_decode_notation(
        t, TIDE_OTLP_TRACES,
        "1{1{1{1'a'2{1'resource'}}1{1'b'2{1'resource'}}1{1'c'2{1'resource'}}}"
        "2{1{3{1'b'2{1'scope'}}} 2{" IDS TIMES "9{1'c'2{1'x'}}9{1'c'2{1'span'}}} 2{" IDS TIMES
        "}} 2{2{" IDS TIMES "}}}"));
    const char *shown = otlp_show(t, TIDE_STREAM_TELEMETRY);
    const char *second = strchr(shown, '\n') + 1;
    const char *third = strchr(second, '\n') + 1;
    assert_non_null(strstr(shown, "{\"a\":\"resource\",\"b\":\"scope\",\"c\":\"span\"}"));
    assert_non_null(strstr(second, "{\"a\":\"resource\",\"c\":\"resource\",\"b\":\"scope\"}"));
    assert_non_null(strstr(third, "{\"a\":\"resource\",\"b\":\"resource\",\"c\":\"resource\"}"));
}

/* AnyValue: text, bool, int, double, bytes, list, map, nothing. */
static void every_kind_of_value_becomes_text(void **state)
{
    otlp_test *t = *state;
    assert_ok(otlp_decode_notation(
        t, TIDE_OTLP_TRACES,
        "1{2{2{" IDS TIMES "9{1's'2{1'x'}}9{1'b'2{2#1}}9{1'i'2{3#-7}}9{1'd'2{4~0.1}}"
        "9{1'y'2{7$00ff10}}9{1'n'2{}}9{1'm'}"
        "9{1'l'2{5{1{1'a\"'}1{3#1}1{2#0}1{4~2.5}1{}1{7$ff}}}}"
        "9{1'k'2{6{1{1'x'2{6{1{1'y'2{5{}}}}}}1{2{6{1{2{3#3}}}}1'late'}1{}}}}"
        "9{1'inf'2{4~inf}}}}}"));
    assert_non_null(
        strstr(otlp_show(t, TIDE_STREAM_TELEMETRY),
               "\"attributes\":{\"s\":\"x\",\"b\":\"true\",\"i\":\"-7\",\"d\":\"0.1\","
               "\"y\":\"AP8Q\",\"n\":\"\",\"m\":\"\","
               "\"l\":\"[\\\"a\\\\\\\"\\\",1,false,2.5,null,\\\"/w==\\\"]\","
               "\"k\":\"{\\\"x\\\":{\\\"y\\\":[]},\\\"late\\\":{\\\"\\\":3},\\\"\\\":null}\","
               "\"inf\":\"Infinity\"}"));
}

/* Events and links have no column: they are kept as attributes. */
static void events_and_links_are_kept_as_json(void **state)
{
    otlp_test *t = *state;
    assert_ok(otlp_decode_notation(
        t, TIDE_OTLP_TRACES,
        "1{2{2{" IDS TIMES "11{1@5 2'exception' 3{1'type'2{1'E'}}} 11{2'x'}"
        "13{1$0102030405060708090a0b0c0d0e0f10 2$1112131415161718 4{1'k'2{3#1}}}}}}"));
    const char *shown = otlp_show(t, TIDE_STREAM_TELEMETRY);
    assert_non_null(strstr(shown,
                           "\"otel.events\":\"[{\\\"time_unix_nano\\\":\\\"5\\\",\\\"name\\\":"
                           "\\\"exception\\\",\\\"attributes\\\":{\\\"type\\\":\\\"E\\\"}},"
                           "{\\\"time_unix_nano\\\":\\\"0\\\",\\\"name\\\":\\\"x\\\","
                           "\\\"attributes\\\":{}}]\""));
    assert_non_null(strstr(shown, "\"otel.links\":\"[{\\\"trace_id\\\":"
                                  "\\\"0102030405060708090a0b0c0d0e0f10\\\",\\\"span_id\\\":"
                                  "\\\"1112131415161718\\\",\\\"attributes\\\":{\\\"k\\\":1}}]\""));
}

/* Spans that eBPF saw are told by what the exporter says of itself, and lie in a stream of their
 * own. */
static void ebpf_spans_go_to_beyla_traces(void **state)
{
    otlp_test *t = *state;
    assert_ok(otlp_decode_notation(t, TIDE_OTLP_TRACES,
                                   "1{1{1{1'service.name'2{1'api'}}1{1'telemetry.sdk.name'2{1'"
                                   "beyla'}}1{1'process.pid'2{3#42}}}"
                                   "2{2{" IDS "5'GET /' 6#3 " TIMES
                                   "9{1'http.response.status_code'2{3#200}}15{3#2}}}}"));
    assert_string_equal(otlp_show(t, TIDE_STREAM_TELEMETRY), "");
    assert_string_equal(
        otlp_show(t, TIDE_STREAM_BEYLA_TRACES),
        "{\"trace_id\":\"0102030405060708090a0b0c0d0e0f10\",\"span_id\":\"1112131415161718\","
        "\"parent_span_id\":\"\",\"service_name\":\"api\",\"span_name\":\"GET /\","
        "\"span_kind\":\"client\",\"start_time\":1700000000000,\"duration_us\":250000,"
        "\"status_code\":200,\"process_pid\":42,\"attributes\":{\"service.name\":\"api\","
        "\"telemetry.sdk.name\":\"beyla\",\"process.pid\":\"42\","
        "\"http.response.status_code\":\"200\",\"otel.status_code\":\"ERROR\"}}\n");
    static const char *const scopes[] = {"go.opentelemetry.io/obi", "github.com/grafana/beyla",
                                         "opentelemetry-ebpf-instrumentation"};
    for (size_t i = 0; i < sizeof scopes / sizeof scopes[0]; i++) {
        char notation[512];
        (void)snprintf(notation, sizeof notation,
                       "1{2{1{1'%s'}2{" IDS TIMES "}} 2{1{1'mine'}2{" IDS TIMES "}}}", scopes[i]);
        assert_ok(otlp_decode_notation(t, TIDE_OTLP_TRACES, notation));
        assert_int_equal(t->output.batches[TIDE_STREAM_BEYLA_TRACES].count, 1);
        assert_int_equal(t->output.batches[TIDE_STREAM_TELEMETRY].count, 1);
    }
}

/* OTLP: a span without valid ids is rejected, the others are taken, and the answer says so. */
static void spans_without_ids_are_rejected_alone(void **state)
{
    otlp_test *t = *state;
    assert_ok(otlp_decode_notation(t, TIDE_OTLP_TRACES,
                                   "1{2{2{5'none'}"
                                   "2{1$00000000000000000000000000000000 2$1112131415161718}"
                                   "2{1$0102030405060708090a0b0c0d0e0f10 2$0000000000000000}"
                                   "2{1$0102030405060708090a0b0c0d0e0f 2$1112131415161718}"
                                   "2{1$0102030405060708090a0b0c0d0e0f1011 2$1112131415161718}"
                                   "2{" IDS TIMES "}}}"));
    assert_int_equal(t->output.received, 6);
    assert_int_equal(t->output.rejected, 5);
    assert_int_equal(t->output.reasons[TIDE_OTLP_REASON_IDS], 5);
    assert_int_equal(t->output.batches[TIDE_STREAM_TELEMETRY].count, 1);
}

/* A resource behind its scopes and a scope behind its spans count all the same, in both formats. */
static void owners_may_follow_what_they_own(void **state)
{
    (void)state;
    otlp_assert_same(TIDE_OTLP_TRACES,
                     "1{2{2{" IDS TIMES "}1{1'lib'}} 1{1{1'service.name'2{1'late'}}}}",
                     "{\"resourceSpans\":[{\"scopeSpans\":[{\"spans\":[{" JSON_IDS JSON_TIMES
                     "}],\"scope\":{\"name\":\"lib\"}}],\"resource\":{\"attributes\":[{\"value\":"
                     "{\"stringValue\":\"late\"},\"key\":\"service.name\"}]}}]}");
    otlp_test t;
    otlp_test_begin(&t, NULL);
    assert_ok(otlp_decode_notation(
        &t, TIDE_OTLP_TRACES, "1{2{2{" IDS TIMES "}1{1'lib'}} 1{1{2{1'late'}1'service.name'}}}"));
    const char *shown = otlp_show(&t, TIDE_STREAM_TELEMETRY);
    assert_non_null(strstr(shown, "\"service_name\":\"late\""));
    assert_non_null(strstr(shown, "\"otel.scope.name\":\"lib\""));
    otlp_test_end(&t);
}

/* The same span in JSON: hexadecimal ids, numbers as texts, enums by name or number, unknown
 * fields, escapes. */
static void json_gives_the_same_records(void **state)
{
    (void)state;
    otlp_assert_same(
        TIDE_OTLP_TRACES,
        "1{" RESOURCE "2{1{1'lib'2'1'} 2{" IDS "5'\xC3\xA4\"\\0a\xF0\x9F\x8C\x8A' 6#2 " TIMES
        "9{1'i'2{3#-9007199254740993}}9{1'd'2{4~1.5}}9{1'b'2{2#0}}9{1'y'2{7$00ff10}}"
        "9{1'l'2{5{1{3#1}1{1'two'}}}}9{1'k'2{6{1{1'x'2{4~3}}}}}"
        "11{1@7 2'e' 3{1'a'2{3#1}}} 13{1$0102030405060708090a0b0c0d0e0f10 2$1112131415161718}"
        "15{3#2 2'bad'}}}}",
        "{\"unknown\":{\"a\":[1,{\"b\":2}]},\"resourceSpans\":[{\"resource\":{\"attributes\":["
        "{\"key\":\"service.name\",\"value\":{\"stringValue\":\"api\"}},"
        "{\"key\":\"host.name\",\"value\":{\"stringValue\":\"h1\"}}],\"droppedAttributesCount\":1},"
        "\"schemaUrl\":\"u\",\"scopeSpans\":[{\"scope\":{\"name\":\"lib\",\"version\":\"1\"},"
        "\"spans\":[{" JSON_IDS JSON_TIMES ",\"parentSpanId\":\"\",\"name\":"
        "\"\\u00e4\\\"\\n\\ud83c\\udf0a\",\"kind\":\"SPAN_KIND_SERVER\",\"flags\":257,"
        "\"attributes\":[{\"key\":\"i\",\"value\":{\"intValue\":\"-9007199254740993\"}},"
        "{\"key\":\"d\",\"value\":{\"doubleValue\":1.5}},{\"key\":\"b\",\"value\":{\"boolValue\":"
        "false}},{\"key\":\"y\",\"value\":{\"bytesValue\":\"AP8Q\"}},{\"key\":\"l\",\"value\":"
        "{\"arrayValue\":{\"values\":[{\"intValue\":1},{\"stringValue\":\"two\"}]}}},"
        "{\"key\":\"k\",\"value\":{\"kvlistValue\":{\"values\":[{\"key\":\"x\",\"value\":"
        "{\"doubleValue\":3}}]}}}],\"events\":[{\"name\":\"e\",\"timeUnixNano\":\"7\","
        "\"attributes\":[{\"key\":\"a\",\"value\":{\"intValue\":1}}]}],\"links\":[{"
        "\"traceId\":\"0102030405060708090A0B0C0D0E0F10\",\"spanId\":\"1112131415161718\"}],"
        "\"status\":{\"code\":2,\"message\":\"bad\"}}]}]}]}");
    /* snake_case and null, as protobuf's JSON form allows */
    otlp_assert_same(TIDE_OTLP_TRACES, "1{2{2{" IDS "5'n' 7@5 8@6}}}",
                     "{\"resource_spans\":[{\"resource\":null,\"scope_spans\":[{\"spans\":[null,"
                     "{\"trace_id\":\"0102030405060708090a0b0c0d0e0f10\",\"span_id\":"
                     "\"1112131415161718\",\"name\":\"n\",\"start_time_unix_nano\":5,"
                     "\"end_time_unix_nano\":6e0,\"attributes\":null}]}]}]}");
}

/* OpenTelemetry's JSON exporter for JavaScript writes every number without a fraction as intValue: one that no int64 holds is a double,
 * as its protobuf exporter says, and does not cost the request. */
static void a_whole_number_beyond_64_bits_is_a_double(void **state)
{
    otlp_test *t = *state;
#define JSON_INT(number_)                                                                          \
    "{\"resourceSpans\":[{\"scopeSpans\":[{\"spans\":[{" JSON_IDS JSON_TIMES                       \
    ",\"attributes\":[{\"key\":\"i\",\"value\":{\"intValue\":" number_ "}},"                       \
    "{\"key\":\"l\",\"value\":{\"arrayValue\":{\"values\":[{\"intValue\":" number_ "}]}}}]}]}]}]}"
#define PROTOBUF_DOUBLE(number_)                                                                   \
    "1{2{2{" IDS TIMES "9{1'i'2{4~" number_ "}}9{1'l'2{5{1{4~" number_ "}}}}}}}"
    otlp_assert_same(TIDE_OTLP_TRACES, PROTOBUF_DOUBLE("1e21"), JSON_INT("1e+21"));
    otlp_assert_same(TIDE_OTLP_TRACES, PROTOBUF_DOUBLE("-1e300"), JSON_INT("-1e+300"));
    otlp_assert_same(TIDE_OTLP_TRACES, PROTOBUF_DOUBLE("9223372036854775808"),
                     JSON_INT("9223372036854775808"));
    otlp_assert_same(TIDE_OTLP_TRACES, PROTOBUF_DOUBLE("-9223372036854775808"),
                     JSON_INT("-9223372036854776000"));
    assert_ok(otlp_decode_json(t, TIDE_OTLP_TRACES, JSON_INT("9223372036854775807")));
    assert_non_null(strstr(otlp_show(t, TIDE_STREAM_TELEMETRY), "\"i\":\"9223372036854775807\""));
    assert_ok(otlp_decode_json(t, TIDE_OTLP_TRACES, JSON_INT("-9223372036854775808")));
    assert_non_null(strstr(otlp_show(t, TIDE_STREAM_TELEMETRY), "\"i\":\"-9223372036854775808\""));
    assert_status(TIDE_E_INVALID, otlp_decode_json(t, TIDE_OTLP_TRACES, JSON_INT("1.5")));
#undef JSON_INT
#undef PROTOBUF_DOUBLE
}

/* Errors and slow spans are always kept; of the others a trace is kept as a whole or not. */
static void sampling_keeps_errors_slow_spans_and_whole_traces(void **state)
{
    (void)state;
    otlp_test t;
    const tide_otlp_options half = {.sample_fraction = 0.5};
    otlp_test_begin(&t, &half);
    int kept = 0;
    for (int i = 0; i < 1000; i++) {
        char notation[512];
        (void)snprintf(notation, sizeof notation,
                       "1{2{2{1$0102030405060708090a0b0c0d0e%04x 2$1112131415161718 " TIMES "}"
                       "2{1$0102030405060708090a0b0c0d0e%04x 2$1112131415161719 " TIMES "}}}",
                       i, i);
        assert_ok(otlp_decode_notation(&t, TIDE_OTLP_TRACES, notation));
        const int count = t.output.batches[TIDE_STREAM_TELEMETRY].count;
        assert_true(count == 0 || count == 2);
        assert_int_equal(t.output.sampled_out, 2 - count);
        assert_int_equal(t.output.rejected, 0);
        kept += count / 2;
    }
    assert_true(kept > 400 && kept < 600);
    otlp_test_end(&t);

    const tide_otlp_options none = {.sample_fraction = 0};
    otlp_test_begin(&t, &none);
    assert_ok(otlp_decode_notation(&t, TIDE_OTLP_TRACES,
                                   "1{2{2{" IDS TIMES "15{3#2}}"
                                   "2{" IDS "7@1700000000000000000 8@1700000000500000001}"
                                   "2{" IDS "7@1700000000000000000 8@1700000000500000000}}}"));
    assert_int_equal(t.output.batches[TIDE_STREAM_TELEMETRY].count, 2);
    assert_int_equal(t.output.sampled_out, 1);
    otlp_test_end(&t);
}

/* A clock that went back while the span ran: a duration is never negative. A span without a start
 * has the time of its receipt. */
static void odd_times_do_no_harm(void **state)
{
    otlp_test *t = *state;
    assert_ok(otlp_decode_notation(t, TIDE_OTLP_TRACES,
                                   "1{2{2{" IDS "7@1700000000250000000 8@1700000000000000000}"
                                   "2{" IDS "8@1700000000000000000}"
                                   "2{" IDS "7@18446744073709551615 8@18446744073709551615}}}"));
    const char *shown = otlp_show(t, TIDE_STREAM_TELEMETRY);
    assert_non_null(strstr(shown, "\"timestamp\":1700000000250"));
    assert_non_null(strstr(shown, "\"timestamp\":1700000009000"));
    assert_non_null(strstr(shown, "\"timestamp\":18446744073709"));
    assert_null(strstr(shown, "\"duration_ms\":-"));
}

/* Broken characters and NULs are replaced and counted, wherever they stand. */
static void broken_text_is_replaced_and_counted(void **state)
{
    otlp_test *t = *state;
    assert_ok(otlp_decode_notation(t, TIDE_OTLP_TRACES,
                                   "1{2{2{" IDS TIMES "5'a\\00b' 9{1'k\\ff'2{1'\\c3'}}"
                                   "9{1'l'2{5{1{1'\\ff'}}}}}}}"));
    assert_int_equal(t->output.replaced, 4);
    const char *shown = otlp_show(t, TIDE_STREAM_TELEMETRY);
    assert_non_null(strstr(shown, "\"span_name\":\"a\xEF\xBF\xBD"
                                  "b\""));
    assert_non_null(strstr(shown, "\"k\xEF\xBF\xBD\":\"\xEF\xBF\xBD\""));
    assert_ok(otlp_decode_json(t, TIDE_OTLP_TRACES,
                               "{\"resourceSpans\":[{\"scopeSpans\":[{\"spans\":[{" JSON_IDS
                               "\"name\":\"a\\u0000b\"}]}]}]}"));
    assert_int_equal(t->output.replaced, 1);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_span_fills_every_column, begin, end),
        cmocka_unit_test_setup_teardown(a_missing_service_is_unknown_service, begin, end),
        cmocka_unit_test_setup_teardown(old_conventions_are_read_too, begin, end),
        cmocka_unit_test_setup_teardown(the_nearest_attribute_wins, begin, end),
        cmocka_unit_test_setup_teardown(every_kind_of_value_becomes_text, begin, end),
        cmocka_unit_test_setup_teardown(events_and_links_are_kept_as_json, begin, end),
        cmocka_unit_test_setup_teardown(ebpf_spans_go_to_beyla_traces, begin, end),
        cmocka_unit_test_setup_teardown(spans_without_ids_are_rejected_alone, begin, end),
        cmocka_unit_test(owners_may_follow_what_they_own),
        cmocka_unit_test(json_gives_the_same_records),
        cmocka_unit_test_setup_teardown(a_whole_number_beyond_64_bits_is_a_double, begin, end),
        cmocka_unit_test(sampling_keeps_errors_slow_spans_and_whole_traces),
        cmocka_unit_test_setup_teardown(odd_times_do_no_harm, begin, end),
        cmocka_unit_test_setup_teardown(broken_text_is_replaced_and_counted, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
