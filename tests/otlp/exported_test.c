/* exported_test.c - requests that OpenTelemetry's own serializers wrote (export-requests.mjs), in
 * both formats. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "otlp_fixture.h"

enum { FILE_MAX = 1 << 20 };

static void read_exported(tide_buffer *out, const char *name)
{
    char path[1024];
    (void)snprintf(path, sizeof path, "%s/tests/otlp/exported/%s", getenv("TIDEMARK_SOURCE_DIR"),
                   name);
    FILE *in = fopen(path, "rb");
    assert_non_null(in);
    char part[4096];
    for (size_t len = fread(part, 1, sizeof part, in); len > 0;
         len = fread(part, 1, sizeof part, in))
        assert_ok(tide_buffer_append(out, part, len));
    (void)fclose(in);
}

/* Decode name.binpb and name.json; both give the same records, of which shown has those of the
 * stream. */
static void expect(tide_otlp_signal signal, const char *name, tide_stream_kind kind, int count,
                   const char *const *parts)
{
    otlp_test t[2];
    for (int i = 0; i < 2; i++) {
        char file[64];
        (void)snprintf(file, sizeof file, "%s.%s", name, i == 0 ? "binpb" : "json");
        TIDE_CLEANUP(tide_buffer_done) tide_buffer bytes;
        tide_buffer_init(&bytes, FILE_MAX);
        read_exported(&bytes, file);
        otlp_test_begin(&t[i], NULL);
        assert_ok_err(otlp_decode_bytes(&t[i], signal, i == 0 ? TIDE_OTLP_PROTOBUF : TIDE_OTLP_JSON,
                                        tide_buffer_view(&bytes)),
                      &t[i].err);
        assert_int_equal(t[i].output.rejected, 0);
        assert_int_equal(t[i].output.replaced, 0);
        assert_int_equal(t[i].output.batches[kind].count, count);
        const char *shown = otlp_show(&t[i], kind);
        for (const char *const *part = parts; *part; part++)
            assert_contains(shown, *part);
    }
    for (int i = 0; i < TIDE_STREAM_BUILT_IN_COUNT; i++)
        assert_true(tide_view_equal(tide_buffer_view(&t[0].output.batches[i].bytes),
                                    tide_buffer_view(&t[1].output.batches[i].bytes)));
    otlp_test_end(&t[0]);
    otlp_test_end(&t[1]);
}

static void exported_spans_are_read(void **state)
{
    (void)state;
    static const char *const parts[] = {
        "{\"timestamp\":1700000000100,\"trace_id\":\"5b8efff798038103d269b633813fc601\","
        "\"span_id\":\"eee19b7ec3c1b171\",\"parent_span_id\":\"\",\"service_name\":\"checkout\","
        "\"span_kind\":\"server\",\"duration_ms\":25,\"is_error\":false,\"http_status\":200,"
        "\"http_method\":\"GET\",\"http_route\":\"/users/:id\",",
        "\"ratio\":\"0.25\",\"cached\":\"true\",\"hosts\":\"[\\\"a\\\",\\\"b\\\"]\","
        "\"sizes\":\"[1,2,3]\",\"greeting\":\"gr\xC3\xBC\xC3\x9F"
        "e \\\"x\\\"\\n\xF0\x9F\x8C\x8A\"",
        "\"parent_span_id\":\"eee19b7ec3c1b171\",\"service_name\":\"checkout\",\"span_kind\":"
        "\"client\",\"duration_ms\":25,\"is_error\":true,\"http_status\":503,\"http_method\":"
        "\"POST\",\"http_route\":\"/pay\",",
        "\"otel.status_description\":\"no answer\",\"otel.events\":\"[{\\\"time_unix_nano\\\":"
        "\\\"1700000000210000000\\\",\\\"name\\\":\\\"exception\\\",\\\"attributes\\\":{"
        "\\\"exception.type\\\":\\\"Timeout\\\"}}]\",\"otel.links\":\"[{\\\"trace_id\\\":"
        "\\\"5b8efff798038103d269b633813fc603\\\",\\\"span_id\\\":\\\"eee19b7ec3c1b173\\\","
        "\\\"attributes\\\":{\\\"why\\\":\\\"retry\\\"}}]\"",
        NULL,
    };
    expect(TIDE_OTLP_TRACES, "traces", TIDE_STREAM_TELEMETRY, 2, parts);
}

static void exported_metrics_are_read(void **state)
{
    (void)state;
    static const char *const numbers[] = {
        "\"metric_name\":\"process.memory.usage\",\"value\":52428800,\"unit\":\"By\","
        "\"metric_type\":\"gauge\"",
        "\"metric_name\":\"jobs.done\",\"value\":17,\"unit\":\"{job}\",\"metric_type\":\"delta\"",
        NULL,
    };
    expect(TIDE_OTLP_METRICS, "metrics", TIDE_STREAM_SYSTEM_METRICS, 2, numbers);
    static const char *const http[] = {
        "\"http_method\":\"GET\",\"http_route\":\"/users/:id\",\"http_status_code\":200,"
        "\"latency_bucket_ms\":5,\"count\":1,",
        "\"latency_bucket_ms\":25,\"count\":4,", "\"latency_bucket_ms\":null,\"count\":2,", NULL};
    expect(TIDE_OTLP_METRICS, "metrics", TIDE_STREAM_BEYLA_HTTP, 3, http);
    static const char *const grpc[] = {
        "\"grpc_method\":\"pay.v1.Pay/Charge\",\"grpc_status_code\":0,\"latency_bucket_ms\":0,"
        "\"count\":1,",
        "\"latency_bucket_ms\":0.7071067811865476,\"count\":2,",
        "\"latency_bucket_ms\":1.4142135623730951,\"count\":3,", NULL};
    expect(TIDE_OTLP_METRICS, "metrics", TIDE_STREAM_BEYLA_GRPC, 3, grpc);
}

static void exported_logs_are_read(void **state)
{
    (void)state;
    static const char *const parts[] = {
        "{\"timestamp\":1700000000001,\"service_name\":\"checkout\",\"severity_number\":17,"
        "\"severity_text\":\"ERROR\",\"body\":\"{\\\"reason\\\":\\\"card refused\\\",\\\"tries\\\":"
        "3}\",\"trace_id\":\"5b8efff798038103d269b633813fc601\",\"span_id\":\"eee19b7ec3c1b171\"",
        "\"user\":\"u1\",\"bytes\":\"AP8Q\",\"event.name\":\"payment.failed\"}",
        "\"severity_number\":9,\"severity_text\":\"\",\"body\":\"plain text\"",
        NULL,
    };
    expect(TIDE_OTLP_LOGS, "logs", TIDE_STREAM_LOGS, 2, parts);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exported_spans_are_read),
        cmocka_unit_test(exported_metrics_are_read),
        cmocka_unit_test(exported_logs_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
