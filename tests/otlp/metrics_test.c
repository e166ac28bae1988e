/* metrics_test.c - data points of OTLP as records: durations bucket by bucket, everything else as
 * system metrics. */
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "otlp_fixture.h"

#define SERVICE "1{1{1'service.name'2{1'api'}}} "
#define T1 "2@1699999990000000000 3@1700000000000000000 "
#define T2 "2@1699999990000000000 3@1700000015000000000 "

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

static void decode(otlp_test *t, const char *metrics)
{
    char notation[4096];
    (void)snprintf(notation, sizeof notation, "1{" SERVICE "2{%s}}", metrics);
    assert_ok_err(otlp_decode_notation(t, TIDE_OTLP_METRICS, notation), &t->err);
}

static void expect(otlp_test *t, tide_stream_kind kind, const char *want)
{
    assert_string_equal(otlp_show(t, kind), want);
}

/* Delta counts are what happened; seconds become milliseconds; empty buckets are left out. */
static void http_durations_are_stored_bucket_by_bucket(void **state)
{
    otlp_test *t = *state;
    decode(t,
           "2{1'http.server.request.duration'3's' 9{1{" T1 "4@7 5~0.5 6[@0 @4 @3] 7[~0.005 ~0.25]"
           "9{1'http.request.method'2{1'GET'}}9{1'http.route'2{1'/u'}}"
           "9{1'http.response.status_code'2{3#200}}} 2#1}}");
    expect(t, TIDE_STREAM_BEYLA_HTTP,
           "{\"timestamp\":1700000000000,\"service_name\":\"api\",\"http_method\":\"GET\","
           "\"http_route\":\"/u\",\"http_status_code\":200,\"latency_bucket_ms\":250,\"count\":4,"
           "\"attributes\":{\"service.name\":\"api\",\"http.request.method\":\"GET\","
           "\"http.route\":\"/u\",\"http.response.status_code\":\"200\","
           "\"otel.metric.name\":\"http.server.request.duration\"}}\n"
           "{\"timestamp\":1700000000000,\"service_name\":\"api\",\"http_method\":\"GET\","
           "\"http_route\":\"/u\",\"http_status_code\":200,\"latency_bucket_ms\":null,\"count\":3,"
           "\"attributes\":{\"service.name\":\"api\",\"http.request.method\":\"GET\","
           "\"http.route\":\"/u\",\"http.response.status_code\":\"200\","
           "\"otel.metric.name\":\"http.server.request.duration\"}}\n");
    expect(t, TIDE_STREAM_SYSTEM_METRICS, "");
    assert_int_equal(t->output.received, 1);
}

/* Every name that Beyla, OBI and the conventions had, with dots and as Prometheus writes them. */
static void durations_are_known_by_name_and_unit(void **state)
{
    otlp_test *t = *state;
    static const struct {
        const char *name;
        const char *unit;
        tide_stream_kind kind;
        const char *bucket; /* of a bound of 2 */
    } cases[] = {
        {"http.server.request.duration", "s", TIDE_STREAM_BEYLA_HTTP, "2000"},
        {"http.server.request.duration", "", TIDE_STREAM_BEYLA_HTTP, "2000"},
        {"http.client.request.duration", "ms", TIDE_STREAM_BEYLA_HTTP, "2"},
        {"http.server.duration", "", TIDE_STREAM_BEYLA_HTTP, "2"},
        {"http.client.duration", "us", TIDE_STREAM_BEYLA_HTTP, "0.002"},
        {"http_server_request_duration_seconds", "", TIDE_STREAM_BEYLA_HTTP, "2000"},
        {"http_server_duration_milliseconds", "", TIDE_STREAM_BEYLA_HTTP, "2"},
        {"rpc.server.duration", "ms", TIDE_STREAM_BEYLA_GRPC, "2"},
        {"rpc.client.duration", "s", TIDE_STREAM_BEYLA_GRPC, "2000"},
        {"rpc.server.call.duration", "", TIDE_STREAM_BEYLA_GRPC, "2000"},
        {"rpc_client_duration_seconds", "s", TIDE_STREAM_BEYLA_GRPC, "2000"},
        {"db.client.operation.duration", "s", TIDE_STREAM_BEYLA_SQL, "2000"},
        {"db_client_operation_duration_seconds", "", TIDE_STREAM_BEYLA_SQL, "2000"},
        {"sql.client.duration", "ns", TIDE_STREAM_BEYLA_SQL, "2e-06"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char metric[512];
        (void)snprintf(metric, sizeof metric, "2{1'%s'3'%s' 9{1{" T1 "6[@1 @0]7[~2]}2#1}}",
                       cases[i].name, cases[i].unit);
        decode(t, metric);
        char want[64];
        (void)snprintf(want, sizeof want, "\"latency_bucket_ms\":%s,", cases[i].bucket);
        const char *shown = otlp_show(t, cases[i].kind);
        if (!strstr(shown, want))
            fail_msg("%s in %s: %s", cases[i].name, cases[i].unit, shown);
    }
    decode(t, "2{1'http.server.request.durations' 9{1{" T1 "6[@1 @0]7[~2]}2#1}}");
    assert_int_equal(t->output.batches[TIDE_STREAM_BEYLA_HTTP].count, 0);
    assert_int_equal(t->output.batches[TIDE_STREAM_SYSTEM_METRICS].count, 2);
}

static void grpc_and_sql_have_columns_of_their_own(void **state)
{
    otlp_test *t = *state;
    decode(t,
           "2{1'rpc.server.duration'3'ms' 9{1{" T1 "6[@1 @0]7[~5] 9{1'rpc.service'2{1'pkg.S'}}"
           "9{1'rpc.method'2{1'Get'}}9{1'rpc.grpc.status_code'2{3#14}}9{1'rpc.system'2{1'grpc'}}}"
           "2#1}}"
           "2{1'db.client.operation.duration'3's' 9{1{" T1 "6[@2 @0]7[~0.001]"
           "9{1'db.operation.name'2{1'SELECT'}}9{1'db.collection.name'2{1'users'}}}2#1}}"
           "2{1'rpc.server.duration' 9{1{" T1 "4@1 6[@1 @0]7[~5] 9{1'rpc.system'2{1'jsonrpc'}}}"
           "2#1}}");
    assert_non_null(strstr(otlp_show(t, TIDE_STREAM_BEYLA_GRPC),
                           "\"grpc_method\":\"pkg.S/Get\",\"grpc_status_code\":14,"
                           "\"latency_bucket_ms\":5,\"count\":1"));
    assert_int_equal(t->output.batches[TIDE_STREAM_BEYLA_GRPC].count, 1);
    assert_non_null(strstr(otlp_show(t, TIDE_STREAM_BEYLA_SQL),
                           "\"sql_operation\":\"SELECT\",\"table_name\":\"users\","
                           "\"latency_bucket_ms\":1,\"count\":2"));
    assert_int_equal(t->output.batches[TIDE_STREAM_SYSTEM_METRICS].count, 2);
}

/* Counts that only grow: what is stored is what came since the point before. */
static void cumulative_counts_are_compared_with_the_point_before(void **state)
{
    otlp_test *t = *state;
#define POINT(times, counts) "2{1'http.server.duration' 9{1{" times "6[" counts "]7[~5 ~10]}2#2}}"
    decode(t, POINT(T1, "@10 @20 @0"));
    expect(t, TIDE_STREAM_BEYLA_HTTP, ""); /* how much of it is stored already is not known */
    assert_int_equal(t->output.unchanged, 1);
    assert_int_equal(t->output.rejected, 0);
    decode(t, POINT(T2, "@10 @23 @1"));
    const char *shown = otlp_show(t, TIDE_STREAM_BEYLA_HTTP);
    assert_int_equal(t->output.batches[TIDE_STREAM_BEYLA_HTTP].count, 2);
    assert_non_null(strstr(shown, "\"latency_bucket_ms\":10,\"count\":3,"));
    assert_non_null(strstr(shown, "\"latency_bucket_ms\":null,\"count\":1,"));
    /* sent again, or overtaken */
    decode(t, POINT(T2, "@10 @23 @1"));
    expect(t, TIDE_STREAM_BEYLA_HTTP, "");
    decode(t, POINT(T1, "@10 @20 @0"));
    expect(t, TIDE_STREAM_BEYLA_HTTP, "");
    /* a new start: all of it is new */
    decode(t, POINT("2@1700000020000000000 3@1700000030000000000 ", "@1 @0 @2"));
    shown = otlp_show(t, TIDE_STREAM_BEYLA_HTTP);
    assert_non_null(strstr(shown, "\"latency_bucket_ms\":5,\"count\":1,"));
    assert_non_null(strstr(shown, "\"latency_bucket_ms\":null,\"count\":2,"));
    /* a count that fell means a start that nobody told of */
    decode(t, POINT("2@1700000020000000000 3@1700000045000000000 ", "@0 @7 @0"));
    shown = otlp_show(t, TIDE_STREAM_BEYLA_HTTP);
    assert_int_equal(t->output.batches[TIDE_STREAM_BEYLA_HTTP].count, 1);
    assert_non_null(strstr(shown, "\"latency_bucket_ms\":10,\"count\":7,"));
#undef POINT
}

/* A route that is called for the first time is new, when its metric was seen before without it. */
static void a_series_that_appears_later_is_new(void **state)
{
    otlp_test *t = *state;
#define POINT(times, route, count) "1{" times "6[" count " @0]7[~5]9{1'http.route'2{1'" route "'}}}"
    decode(t, "2{1'http.server.duration' 9{" POINT(T1, "/a", "@5") "2#2}}");
    assert_int_equal(t->output.batches[TIDE_STREAM_BEYLA_HTTP].count, 0);
    decode(t, "2{1'http.server.duration' 9{" POINT(T2, "/a", "@5") POINT(T2, "/b", "@3") "2#2}}");
    assert_int_equal(t->output.batches[TIDE_STREAM_BEYLA_HTTP].count, 1);
    assert_non_null(strstr(otlp_show(t, TIDE_STREAM_BEYLA_HTTP), "\"http_route\":\"/b\""));
    /* another metric's first time is not */
    decode(t, "2{1'http.client.duration' 9{" POINT(T2, "/b", "@3") "2#2}}");
    assert_int_equal(t->output.batches[TIDE_STREAM_BEYLA_HTTP].count, 0);
#undef POINT
}

/* A process that began after us: its first point is new as a whole. The order of attributes does
 * not matter. */
static void a_series_that_began_after_us_is_new(void **state)
{
    (void)state;
    otlp_test t;
    const tide_otlp_options options = {.sample_fraction = 1, .started_ms = INT64_C(1699999990000)};
    otlp_test_begin(&t, &options);
    decode(&t,
           "2{1'http.server.duration' 9{1{" T1 "6[@2 @0]7[~5]9{1'a'2{1'1'}}9{1'b'2{1'2'}}}2#2}}");
    assert_non_null(strstr(otlp_show(&t, TIDE_STREAM_BEYLA_HTTP), "\"count\":2,"));
    decode(&t,
           "2{1'http.server.duration' 9{1{" T2 "6[@3 @0]7[~5]9{1'b'2{1'2'}}9{1'a'2{1'1'}}}2#2}}");
    assert_non_null(strstr(otlp_show(&t, TIDE_STREAM_BEYLA_HTTP), "\"count\":1,"));
    otlp_test_end(&t);
}

/* Records that could not be stored: the next point is compared with what was stored. */
static void an_undone_request_leaves_the_series_as_they_were(void **state)
{
    otlp_test *t = *state;
#define POINT(times, count) "2{1'http.server.duration' 9{1{" times "6[" count " @0]7[~5]}2#2}}"
    decode(t, POINT(T1, "@10"));
    decode(t, POINT(T2, "@12"));
    assert_non_null(strstr(otlp_show(t, TIDE_STREAM_BEYLA_HTTP), "\"count\":2,"));
    tide_otlp_undo(t->otlp, &t->output);
    decode(t, POINT(T2, "@12")); /* the exporter sends it again */
    assert_non_null(strstr(otlp_show(t, TIDE_STREAM_BEYLA_HTTP), "\"count\":2,"));
    /* also the very first one, and a request that was malformed behind its points */
    decode(t, "2{1'http.client.duration' 9{1{" T1 "6[@1 @0]7[~5]}2#2}}");
    tide_otlp_undo(t->otlp, &t->output);
    decode(t, "2{1'http.client.duration' 9{1{" T2 "6[@4 @0]7[~5]}2#2}}");
    assert_int_equal(t->output.batches[TIDE_STREAM_BEYLA_HTTP].count, 0);
    tide_buffer_clear(&t->request);
    otlp_write(&t->request,
               "1{" SERVICE "2{" POINT("2@1699999990000000000 3@1700000060000000000 ", "@20") "}}");
    assert_ok(tide_buffer_append_text(&t->request, "\x0a\x7f"));
    assert_status(TIDE_E_INVALID, otlp_decode_bytes(t, TIDE_OTLP_METRICS, TIDE_OTLP_PROTOBUF,
                                                    tide_buffer_view(&t->request)));
    assert_int_equal(t->output.batches[TIDE_STREAM_BEYLA_HTTP].count, 0);
    decode(t, POINT("2@1699999990000000000 3@1700000060000000000 ", "@20"));
    assert_non_null(strstr(otlp_show(t, TIDE_STREAM_BEYLA_HTTP), "\"count\":8,"));
#undef POINT
}

/* Exponential buckets: bucket i of scale s reaches to 2^((i + 1) / 2^s); a coarser scale is
 * compared at that scale. */
static void exponential_histograms_have_their_bounds(void **state)
{
    otlp_test *t = *state;
    decode(t, "2{1'http.server.request.duration'3's' 10{1{" T1 "4@7 6%0 7@1 14~0.001 "
              "8{1%-1 2[#2 #0 #3]} 9{1%0 2[#1]}} 2#1}}");
    const char *shown = otlp_show(t, TIDE_STREAM_BEYLA_HTTP);
    assert_int_equal(t->output.batches[TIDE_STREAM_BEYLA_HTTP].count, 3);
    assert_non_null(strstr(shown, "\"latency_bucket_ms\":1,\"count\":2,"));
    assert_non_null(strstr(shown, "\"latency_bucket_ms\":1000,\"count\":2,"));
    assert_non_null(strstr(shown, "\"latency_bucket_ms\":4000,\"count\":3,"));

    decode(t, "2{1'http.client.duration' 10{1{" T1 "6%1 8{1%-3 2[#1 #1 #1 #1 #1]}} 2#2}}");
    assert_int_equal(t->output.batches[TIDE_STREAM_BEYLA_HTTP].count, 0);
    /* scale 1, buckets -3..1 become scale 0, buckets -2 (1), -1 (2), 0 (2) */
    decode(t, "2{1'http.client.duration' 10{1{" T2 "6%0 8{1%-2 2[#1 #2 #5]}} 2#2}}");
    shown = otlp_show(t, TIDE_STREAM_BEYLA_HTTP);
    assert_int_equal(t->output.batches[TIDE_STREAM_BEYLA_HTTP].count, 1);
    assert_non_null(strstr(shown, "\"latency_bucket_ms\":2,\"count\":3,"));
}

/* gauge, counter, delta by kind, temporality and monotonicity. */
static void numbers_become_system_metrics(void **state)
{
    otlp_test *t = *state;
    decode(t, "2{1'g'3'By' 5{1{" T1 "6@-3 7{1'k'2{1'v'}}}}}"
              "2{1'c' 7{1{" T1 "4~1.5} 2#2 3#1}} 2{1'u' 7{1{" T1 "6@2} 2#2}} 2{1'd' 7{1{" T1
              "6@2} 2#1 3#1}}");
    expect(t, TIDE_STREAM_SYSTEM_METRICS,
           "{\"timestamp\":1700000000000,\"metric_name\":\"g\",\"value\":-3,\"unit\":\"By\","
           "\"metric_type\":\"gauge\",\"attributes\":{\"service.name\":\"api\",\"k\":\"v\"}}\n"
           "{\"timestamp\":1700000000000,\"metric_name\":\"c\",\"value\":1.5,\"unit\":\"\","
           "\"metric_type\":\"counter\",\"attributes\":{\"service.name\":\"api\"}}\n"
           "{\"timestamp\":1700000000000,\"metric_name\":\"u\",\"value\":2,\"unit\":\"\","
           "\"metric_type\":\"gauge\",\"attributes\":{\"service.name\":\"api\"}}\n"
           "{\"timestamp\":1700000000000,\"metric_name\":\"d\",\"value\":2,\"unit\":\"\","
           "\"metric_type\":\"delta\",\"attributes\":{\"service.name\":\"api\"}}\n");
}

/* A histogram that is no duration we know, and a summary: several records. */
static void other_histograms_and_summaries_become_several_numbers(void **state)
{
    otlp_test *t = *state;
    decode(t, "2{1'size'3'By' 9{1{" T1 "4@3 5~30 6[@1 @0 @2]7[~5 ~10] 11~1 12~20} 2#2}}");
    const char *shown = otlp_show(t, TIDE_STREAM_SYSTEM_METRICS);
    assert_int_equal(t->output.batches[TIDE_STREAM_SYSTEM_METRICS].count, 6);
    assert_non_null(strstr(shown, "\"metric_name\":\"size.count\",\"value\":3,\"unit\":\"\","
                                  "\"metric_type\":\"counter\""));
    assert_non_null(strstr(shown, "\"metric_name\":\"size.sum\",\"value\":30,\"unit\":\"By\""));
    assert_non_null(strstr(shown, "\"metric_name\":\"size.min\",\"value\":1,\"unit\":\"By\","
                                  "\"metric_type\":\"gauge\""));
    assert_non_null(strstr(shown, "\"metric_name\":\"size.bucket\",\"value\":1,\"unit\":\"\","
                                  "\"metric_type\":\"counter\",\"attributes\":{\"service.name\":"
                                  "\"api\",\"upper_bound\":\"5\"}"));
    assert_non_null(strstr(shown, "\"upper_bound\":\"Infinity\"}"));
    decode(t, "2{1's'3'ms' 11{1{" T1 "4@10 5~99 6{1~0.5 2~7} 6{1~0.99 2~9}}}}");
    shown = otlp_show(t, TIDE_STREAM_SYSTEM_METRICS);
    assert_int_equal(t->output.batches[TIDE_STREAM_SYSTEM_METRICS].count, 4);
    assert_non_null(strstr(shown, "\"metric_name\":\"s.quantile\",\"value\":9,\"unit\":\"ms\","
                                  "\"metric_type\":\"gauge\",\"attributes\":{\"service.name\":"
                                  "\"api\",\"quantile\":\"0.99\"}"));
    assert_int_equal(t->output.received, 1);
}

/* Points that say nothing, or nothing that makes sense. */
static void unusable_points_are_rejected_alone(void **state)
{
    otlp_test *t = *state;
    decode(t, "2{1'g' 5{1{" T1 "} 1{" T1 "8#1} 1{" T1 "4~1}}}"
              "2{1'c' 7{1{" T1 "4~1}}} 2{1'h' 9{1{" T1 "6[@1]7[~1]}2#1}}"
              "2{1'e' 10{1{" T1 "6%1000}2#1}}");
    assert_int_equal(t->output.received, 6);
    assert_int_equal(t->output.rejected, 4);
    assert_int_equal(t->output.unchanged, 1); /* "no recorded value" is no mistake */
    assert_int_equal(t->output.reasons[TIDE_OTLP_REASON_NO_VALUE], 1);
    assert_int_equal(t->output.reasons[TIDE_OTLP_REASON_TEMPORALITY], 1);
    assert_int_equal(t->output.reasons[TIDE_OTLP_REASON_BUCKETS], 2);
    assert_int_equal(t->output.batches[TIDE_STREAM_SYSTEM_METRICS].count, 1);
}

/* Numbers of a list that are not packed, and a name behind its data. */
static void unusual_protobuf_is_read_alike(void **state)
{
    otlp_test *t = *state;
    decode(t, "2{9{1{" T1 "6@1 6@2 7~5} 2#1} 3'ms' 1'http.server.duration'}");
    const char *shown = otlp_show(t, TIDE_STREAM_BEYLA_HTTP);
    assert_non_null(strstr(shown, "\"latency_bucket_ms\":5,\"count\":1,"));
    assert_non_null(strstr(shown, "\"latency_bucket_ms\":null,\"count\":2,"));
}

static void json_gives_the_same_records(void **state)
{
    (void)state;
#define JSON_T1                                                                                    \
    "\"startTimeUnixNano\":\"1699999990000000000\",\"timeUnixNano\":\"1700000000000000000\""
    otlp_assert_same(
        TIDE_OTLP_METRICS,
        "1{" SERVICE "2{1{1'm'} 2{1'g'3'By' 5{1{" T1 "6@-3 7{1'k'2{1'v'}}} 1{" T1 "4~0.25}}}"
        "2{1'c' 7{1{" T1 "4~inf} 2#2 3#1}}"
        "2{1'http.server.request.duration'3's' 9{1{" T1
        "4@7 5~0.5 6[@0 @4 @3] 7[~0.005 ~0.25] 11~0.1 "
        "9{1'http.route'2{1'/u'}}} 2#1}}"
        "2{1'e' 10{1{" T1 "4@6 6%-2 7@1 8{1%-1 2[#2 #0 #3]} 9{2[#1]} 14~0.5} 2#2}}"
        "2{1's' 11{1{" T1 "4@10 5~99 6{1~0.5 2~7}}}}}}",
        "{\"resourceMetrics\":[{\"resource\":{\"attributes\":[{\"key\":\"service.name\",\"value\":"
        "{\"stringValue\":\"api\"}}]},\"scopeMetrics\":[{\"scope\":{\"name\":\"m\"},\"metrics\":["
        "{\"name\":\"g\",\"unit\":\"By\",\"gauge\":{\"dataPoints\":[{" JSON_T1
        ",\"asInt\":\"-3\",\"attributes\":[{\"key\":\"k\",\"value\":{\"stringValue\":\"v\"}}]},"
        "{" JSON_T1 ",\"asDouble\":0.25}]}},"
        "{\"name\":\"c\",\"sum\":{\"dataPoints\":[{" JSON_T1 ",\"asDouble\":\"Infinity\"}],"
        "\"aggregationTemporality\":\"AGGREGATION_TEMPORALITY_CUMULATIVE\",\"isMonotonic\":true}},"
        "{\"histogram\":{\"aggregationTemporality\":1,\"dataPoints\":[{" JSON_T1
        ",\"count\":\"7\",\"sum\":0.5,\"min\":0.1,\"bucketCounts\":[\"0\",4,\"3\"],"
        "\"explicitBounds\":[0.005,0.25],\"attributes\":[{\"key\":\"http.route\",\"value\":"
        "{\"stringValue\":\"/u\"}}]}]},\"unit\":\"s\",\"name\":\"http.server.request.duration\"},"
        "{\"name\":\"e\",\"exponentialHistogram\":{\"aggregationTemporality\":2,\"dataPoints\":["
        "{" JSON_T1 ",\"count\":6,\"scale\":-2,\"zeroCount\":\"1\",\"positive\":{\"offset\":-1,"
        "\"bucketCounts\":[\"2\",\"0\",3]},\"negative\":{\"bucketCounts\":[1]},"
        "\"zeroThreshold\":\"0.5\"}]}},"
        "{\"name\":\"s\",\"summary\":{\"dataPoints\":[{" JSON_T1 ",\"count\":\"10\",\"sum\":99,"
        "\"quantileValues\":[{\"quantile\":0.5,\"value\":7}]}]}}]}]}]}");
#undef JSON_T1
}

/* More series than are remembered: the longest unseen go; what comes back is not taken for new. */
static void forgotten_series_are_not_taken_for_new(void **state)
{
    otlp_test *t = *state;
    for (int round = 0; round < 2; round++) {
        for (int part = 0; part < 20; part++) {
            tide_buffer_clear(&t->request);
            TIDE_CLEANUP(tide_buffer_done) tide_buffer text;
            tide_buffer_init(&text, 1 << 20);
            assert_ok(tide_buffer_append_text(&text, "1{2{2{1'http.server.duration' 9{"));
            for (int i = 0; i < 1000; i++)
                assert_ok(tide_buffer_printf(&text,
                                             "1{2@1 3@%d 6[@%d @0]7[~5]9{1'http.route'2{3#%d}}}",
                                             10 + round, 10 + round, part * 1000 + i));
            assert_ok(tide_buffer_append_text(&text, "2#2}}}}"));
            assert_ok_err(otlp_decode_notation(t, TIDE_OTLP_METRICS, tide_buffer_text(&text)),
                          &t->err);
            assert_int_equal(t->output.batches[TIDE_STREAM_BEYLA_HTTP].count, 0);
        }
    }
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(http_durations_are_stored_bucket_by_bucket, begin, end),
        cmocka_unit_test_setup_teardown(durations_are_known_by_name_and_unit, begin, end),
        cmocka_unit_test_setup_teardown(grpc_and_sql_have_columns_of_their_own, begin, end),
        cmocka_unit_test_setup_teardown(cumulative_counts_are_compared_with_the_point_before, begin,
                                        end),
        cmocka_unit_test_setup_teardown(a_series_that_appears_later_is_new, begin, end),
        cmocka_unit_test(a_series_that_began_after_us_is_new),
        cmocka_unit_test_setup_teardown(an_undone_request_leaves_the_series_as_they_were, begin,
                                        end),
        cmocka_unit_test_setup_teardown(exponential_histograms_have_their_bounds, begin, end),
        cmocka_unit_test_setup_teardown(numbers_become_system_metrics, begin, end),
        cmocka_unit_test_setup_teardown(other_histograms_and_summaries_become_several_numbers,
                                        begin, end),
        cmocka_unit_test_setup_teardown(unusable_points_are_rejected_alone, begin, end),
        cmocka_unit_test_setup_teardown(unusual_protobuf_is_read_alike, begin, end),
        cmocka_unit_test(json_gives_the_same_records),
        cmocka_unit_test_setup_teardown(forgotten_series_are_not_taken_for_new, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
