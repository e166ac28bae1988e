/* limits_test.c - hostile and broken requests: every limit, every way of being malformed, memory
 * that runs out. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "otlp_fixture.h"
#include "support/alloc_fault.h"
#include "support/prng.h"

#define IDS "1$0102030405060708090a0b0c0d0e0f10 2$1112131415161718 "

enum { SWEEP_MAX = 1000 };

static int begin(void **state)
{
    static otlp_test t;
    otlp_test_begin(&t, NULL);
    *state = &t;
    return 0;
}

static int end(void **state)
{
    alloc_fault_off();
    otlp_test_end(*state);
    return 0;
}

static void append(tide_buffer *out, const char *text)
{
    assert_ok(tide_buffer_append_text(out, text));
}

/* ---- malformed protobuf ---- */

/* A whole-request error names the offset, and nothing of the request is in the output. The bad
 * bytes stand behind a sound span; at counts from there. */
static void expect_malformed(otlp_test *t, const char *bytes, size_t len, size_t at,
                             const char *what)
{
    tide_buffer_clear(&t->request);
    otlp_write(&t->request, "1{2{2{" IDS "}}}");
    char want[128];
    (void)snprintf(want, sizeof want, "not protobuf: %s at byte %zu", what, t->request.len + at);
    assert_ok(tide_buffer_append(&t->request, bytes, len));
    assert_status(TIDE_E_INVALID, otlp_decode_bytes(t, TIDE_OTLP_TRACES, TIDE_OTLP_PROTOBUF,
                                                    tide_buffer_view(&t->request)));
    assert_string_equal(t->err.text, want);
    assert_int_equal(t->output.batches[TIDE_STREAM_TELEMETRY].count, 0);
    assert_int_equal(t->output.received, 0);
}

static void malformed_protobuf_is_refused_as_a_whole(void **state)
{
    otlp_test *t = *state;
    expect_malformed(t, "\x0a", 1, 1, "a bad length");
    expect_malformed(t, "\x0a\x05\x01", 3, 2, "a length beyond the end");
    expect_malformed(t, "\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11, 1, "a bad length");
    expect_malformed(t, "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f", 11, 1,
                     "a number that does not end");
    expect_malformed(t, "\x00", 1, 1, "field number 0");
    expect_malformed(t, "\x0b", 1, 1, "a group (not supported)");
    expect_malformed(t, "\x0f", 1, 1, "an unknown wire type");
    expect_malformed(t, "\x09\x01\x02", 3, 1, "less than eight bytes");
    /* inside: a length that leaves its message, but not the request */
    expect_malformed(t, "\x0a\x04\x12\x09\x12\x00\x00\x00\x00\x00\x00\x00\x00", 13, 4,
                     "a length beyond the end");
}

/* A known number with another wire type, unknown numbers of every wire type: passed over. */
static void unknown_fields_are_passed_over(void **state)
{
    otlp_test *t = *state;
    assert_ok_err(otlp_decode_notation(t, TIDE_OTLP_TRACES,
                                       "7#5 1#1 100'x' 1{9@1 2{2{" IDS
                                       "6'kind' 5@1 77{1{1{}}} 7#3}}}"),
                  &t->err);
    assert_int_equal(t->output.batches[TIDE_STREAM_TELEMETRY].count, 1);
}

/* Every truncation and many mutations of a sound request: an answer, never a crash. */
static void no_bytes_do_harm(void **state)
{
    otlp_test *t = *state;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer sound;
    tide_buffer_init(&sound, 4096);
    otlp_write(&sound, "1{1{1{1'service.name'2{1'api'}}}2{1{1'l'2'1'}2{" IDS "5'n'6#2 7@5 8@6 "
                       "9{1'a'2{5{1{3#1}1{6{1{1'x'2{4~1}}}}}}}11{1@1 2'e'3{1'k'2{2#1}}}15{3#2}}}}");
    for (size_t len = 0; len < sound.len; len++)
        (void)otlp_decode_bytes(t, TIDE_OTLP_TRACES, TIDE_OTLP_PROTOBUF,
                                tide_view_bytes(sound.ptr, len));
    prng p;
    prng_init(&p, prng_seed_from_env(1));
    for (int i = 0; i < 20000; i++) {
        TIDE_CLEANUP(tide_freep) char *bytes = malloc(sound.len + 1); /* never nothing */
        assert_non_null(bytes);
        memcpy(bytes, sound.ptr, sound.len);
        for (int n = 0; n < 3; n++)
            bytes[prng_below(&p, sound.len)] = (char)prng_u64(&p);
        const tide_otlp_signal signal = (tide_otlp_signal)prng_below(&p, 3);
        if (otlp_decode_bytes(t, signal, TIDE_OTLP_PROTOBUF, tide_view_bytes(bytes, sound.len)) ==
            TIDE_OK)
            for (int kind = 0; kind < TIDE_STREAM_BUILT_IN_COUNT; kind++)
                (void)otlp_show(t, (tide_stream_kind)kind);
    }
}

/* ---- malformed JSON ---- */

static void malformed_json_is_refused_as_a_whole(void **state)
{
    otlp_test *t = *state;
    static const struct {
        const char *json;
        const char *what;
    } cases[] = {
        {"", "column 1"},
        {"[]", "an object is missing"},
        {"{\"resourceSpans\":{}}", "an array is missing"},
        {"{\"resourceSpans\":[1]}", "an object is missing"},
        {"{\"resourceSpans\":[{\"scopeSpans\":[{\"spans\":[{\"kind\":\"SPAN_KIND_X\"}]}]}]}",
         "a whole number"},
        {"{\"resourceSpans\":[{\"scopeSpans\":[{\"spans\":[{\"kind\":1.5}]}]}]}", "a whole number"},
        {"{\"resourceSpans\":[{\"scopeSpans\":[{\"spans\":[{\"startTimeUnixNano\":"
         "\"18446744073709551616\"}]}]}]}",
         "a whole number"},
        {"{\"resourceSpans\":[{\"scopeSpans\":[{\"spans\":[{\"name\":1}]}]}]}",
         "a text is missing"},
        {"{\"resourceSpans\":[{\"scopeSpans\":[{\"spans\":[{\"attributes\":[{\"value\":"
         "{\"bytesValue\":\"A*\"}}]}]}]}]}",
         "this is not base64"},
        {"{\"resourceSpans\":[{\"scopeSpans\":[{\"spans\":[{\"attributes\":[{\"value\":"
         "{\"doubleValue\":\"x\"}}]}]}]}]}",
         "a number is missing"},
        {"{\"resourceSpans\":[{\"scopeSpans\":[{\"spans\":[{\"attributes\":[{\"value\":"
         "{\"boolValue\":1}}]}]}]}]}",
         "true or false"},
        {"{\"resourceSpans\":[]} x", "something follows"},
        {"{\"resourceSpans\":[]", "comma or }"},
        {"{\"a\":\"\xff\"}", "invalid UTF-8"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        t->err.text[0] = '\0';
        assert_status_err(TIDE_E_INVALID, otlp_decode_json(t, TIDE_OTLP_TRACES, cases[i].json),
                          &t->err);
        assert_contains(t->err.text, cases[i].what);
        assert_contains(t->err.text, "line 1, column ");
    }
    assert_ok(otlp_decode_json(t, TIDE_OTLP_TRACES, " {} "));
    assert_ok(otlp_decode_bytes(t, TIDE_OTLP_TRACES, TIDE_OTLP_PROTOBUF, tide_view_of("")));
}

/* ---- limits ---- */

static void expect_rejected(otlp_test *t, tide_otlp_reason reason)
{
    assert_int_equal(t->output.received, 2);
    assert_int_equal(t->output.rejected, 1);
    assert_int_equal(t->output.reasons[reason], 1);
    assert_int_equal(t->output.batches[TIDE_STREAM_TELEMETRY].count, 1);
}

/* A request of two spans, of which the first has what is given. */
static void decode_two(otlp_test *t, const char *inside)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer text;
    tide_buffer_init(&text, 64 << 20);
    append(&text, "1{2{2{" IDS);
    append(&text, inside);
    append(&text, "}2{" IDS "}}}");
    assert_ok_err(otlp_decode_notation(t, TIDE_OTLP_TRACES, tide_buffer_text(&text)), &t->err);
}

static void repeat(tide_buffer *out, const char *piece, int count)
{
    tide_buffer_clear(out);
    for (int i = 0; i < count; i++)
        append(out, piece);
}

static void a_record_has_so_many_attributes_and_bytes(void **state)
{
    otlp_test *t = *state;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer text;
    tide_buffer_init(&text, 64 << 20);
    repeat(&text, "9{1'k'2{1'v'}}", TIDE_OTLP_ATTRIBUTES_MAX);
    decode_two(t, tide_buffer_text(&text));
    assert_int_equal(t->output.rejected, 0);
    repeat(&text, "9{1'k'2{1'v'}}", TIDE_OTLP_ATTRIBUTES_MAX + 1);
    decode_two(t, tide_buffer_text(&text));
    expect_rejected(t, TIDE_OTLP_REASON_ATTRIBUTES);

    TIDE_CLEANUP(tide_freep) char *large = malloc((2 << 20) + 64);
    assert_non_null(large);
    const struct {
        size_t len;
        bool is_name;
        tide_otlp_reason reason;
    } cases[] = {
        {TIDE_OTLP_ATTRIBUTE_BYTES_MAX - 1, false, TIDE_OTLP_REASON_NONE},
        {TIDE_OTLP_ATTRIBUTE_BYTES_MAX, false, TIDE_OTLP_REASON_ATTRIBUTE_BYTES},
        {TIDE_OTLP_RECORD_BYTES_MAX, true, TIDE_OTLP_REASON_NONE},
        {TIDE_OTLP_RECORD_BYTES_MAX + 1, true, TIDE_OTLP_REASON_RECORD_BYTES},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const int head = snprintf(large, 64, cases[i].is_name ? "5'" : "9{1'k'2{1'");
        memset(large + head, 'x', cases[i].len);
        (void)snprintf(large + head + cases[i].len, 32, cases[i].is_name ? "'" : "'}}");
        decode_two(t, large);
        if (cases[i].reason == TIDE_OTLP_REASON_NONE)
            assert_int_equal(t->output.rejected, 0);
        else
            expect_rejected(t, cases[i].reason);
    }
}

/* What a resource has too much of, each of its records has. */
static void a_resource_beyond_the_limits_takes_its_records_with_it(void **state)
{
    otlp_test *t = *state;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer text;
    tide_buffer_init(&text, 64 << 20);
    append(&text, "1{1{");
    for (int i = 0; i <= TIDE_OTLP_ATTRIBUTES_MAX; i++)
        append(&text, "1{1'k'}");
    append(&text, "}2{2{" IDS "}2{" IDS "}}} 1{2{2{" IDS "}}}");
    assert_ok(otlp_decode_notation(t, TIDE_OTLP_TRACES, tide_buffer_text(&text)));
    assert_int_equal(t->output.reasons[TIDE_OTLP_REASON_ATTRIBUTES], 2);
    assert_int_equal(t->output.batches[TIDE_STREAM_TELEMETRY].count, 1);
}

/* Lists within lists: sixteen are read, more are refused, 16,000 cost nothing. */
static void nested_values_have_a_depth(void **state)
{
    otlp_test *t = *state;
    static const int depths[] = {1, 16, 17, 16000};
    for (size_t i = 0; i < sizeof depths / sizeof depths[0]; i++) {
        TIDE_CLEANUP(tide_buffer_done) tide_buffer value; /* an AnyValue, from the inside out */
        TIDE_CLEANUP(tide_buffer_done) tide_buffer outer;
        tide_buffer_init(&value, 4 << 20);
        tide_buffer_init(&outer, 4 << 20);
        for (int depth = 0; depth < depths[i]; depth++) {
            /* value = AnyValue{array_value{values: value}} */
            TIDE_CLEANUP(tide_buffer_done) tide_buffer list;
            tide_buffer_init(&list, 4 << 20);
            assert_ok(tide_buffer_append_byte(&list, 0x0a));
            assert_ok(tide_buffer_append_varint(&list, value.len));
            assert_ok(tide_buffer_append_view(&list, tide_buffer_view(&value)));
            tide_buffer_clear(&value);
            assert_ok(tide_buffer_append_byte(&value, 0x2a));
            assert_ok(tide_buffer_append_varint(&value, list.len));
            assert_ok(tide_buffer_append_view(&value, tide_buffer_view(&list)));
        }
        append(&outer, "9{1'k'2$");
        for (size_t at = 0; at < value.len; at++)
            assert_ok(tide_buffer_printf(&outer, "%02x", (unsigned)(uint8_t)value.ptr[at]));
        append(&outer, "}");
        decode_two(t, tide_buffer_text(&outer));
        if (depths[i] <= TIDE_OTLP_VALUE_DEPTH_MAX)
            assert_int_equal(t->output.rejected, 0);
        else
            expect_rejected(t, TIDE_OTLP_REASON_DEPTH);
    }
}

/* 2 bytes per span: two million of them are counted, not kept. */
static void millions_of_empty_spans_are_rejected(void **state)
{
    otlp_test *t = *state;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer spans;
    tide_buffer_init(&spans, 8 << 20);
    for (int i = 0; i < 2000000; i++)
        assert_ok(tide_buffer_append(&spans, "\x12\x00", 2));
    TIDE_CLEANUP(tide_buffer_done) tide_buffer request;
    tide_buffer_init(&request, 8 << 20);
    assert_ok(tide_buffer_append_byte(&request, 0x0a));
    assert_ok(tide_buffer_append_varint(&request, spans.len + 5));
    assert_ok(tide_buffer_append_byte(&request, 0x12));
    assert_ok(tide_buffer_append_varint(&request, spans.len));
    assert_ok(tide_buffer_append_view(&request, tide_buffer_view(&spans)));
    assert_ok_err(
        otlp_decode_bytes(t, TIDE_OTLP_TRACES, TIDE_OTLP_PROTOBUF, tide_buffer_view(&request)),
        &t->err);
    assert_int_equal(t->output.received, 2000000);
    assert_int_equal(t->output.rejected, 2000000);
    /* as logs they need no ids, and are taken: more than one batch, and not more than one commit */
    assert_ok_err(
        otlp_decode_bytes(t, TIDE_OTLP_LOGS, TIDE_OTLP_PROTOBUF, tide_buffer_view(&request)),
        &t->err);
    assert_int_equal(t->output.batches[TIDE_STREAM_LOGS].count, 2000000);
}

/* As many as fit into a request of the largest size would not fit into a commit. */
static void more_records_than_a_commit_takes_are_refused(void **state)
{
    otlp_test *t = *state;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer logs;
    tide_buffer_init(&logs, 16 << 20);
    for (int i = 0; i <= TIDE_FEED_COMMIT_RECORDS_MAX; i++)
        assert_ok(tide_buffer_append(&logs, "\x12\x00", 2));
    TIDE_CLEANUP(tide_buffer_done) tide_buffer request;
    tide_buffer_init(&request, 16 << 20);
    assert_ok(tide_buffer_append_byte(&request, 0x0a));
    assert_ok(tide_buffer_append_varint(&request, logs.len + 5));
    assert_ok(tide_buffer_append_byte(&request, 0x12));
    assert_ok(tide_buffer_append_varint(&request, logs.len));
    assert_ok(tide_buffer_append_view(&request, tide_buffer_view(&logs)));
    assert_status(TIDE_E_LIMIT, otlp_decode_bytes(t, TIDE_OTLP_LOGS, TIDE_OTLP_PROTOBUF,
                                                  tide_buffer_view(&request)));
    assert_contains(t->err.text, "in one request");
    assert_int_equal(t->output.batches[TIDE_STREAM_LOGS].count, 0);
}

/* A large resource and many small records: what comes out is bounded, too. */
static void a_request_cannot_grow_without_bound(void **state)
{
    otlp_test *t = *state;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer text;
    tide_buffer_init(&text, 64 << 20);
    append(&text, "1{1{1{1'k'2{1'");
    for (int i = 0; i < 10000; i++)
        append(&text, "0123456789");
    append(&text, "'}}}2{");
    for (int i = 0; i < 2000; i++)
        append(&text, "2{}");
    append(&text, "}}");
    assert_status(TIDE_E_LIMIT, otlp_decode_notation(t, TIDE_OTLP_LOGS, tide_buffer_text(&text)));
    assert_contains(t->err.text, "100663296 bytes of records");
    TIDE_CLEANUP(tide_freep) char *huge = calloc(1, TIDE_OTLP_REQUEST_MAX + 1);
    assert_non_null(huge);
    assert_status(TIDE_E_LIMIT,
                  otlp_decode_bytes(t, TIDE_OTLP_LOGS, TIDE_OTLP_PROTOBUF,
                                    tide_view_bytes(huge, TIDE_OTLP_REQUEST_MAX + 1)));
}

/* Too many buckets in one point. */
static void a_point_has_so_many_buckets(void **state)
{
    otlp_test *t = *state;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer text;
    tide_buffer_init(&text, 64 << 20);
    append(&text, "1{2{2{1'http.server.duration' 9{1{6[");
    for (int i = 0; i <= TIDE_OTLP_BUCKETS_MAX; i++)
        append(&text, "@1 ");
    append(&text, "]7[");
    for (int i = 0; i < TIDE_OTLP_BUCKETS_MAX; i++)
        append(&text, "~1 ");
    append(&text, "]} 1{6[@1]} 2#1}}}}");
    assert_ok(otlp_decode_notation(t, TIDE_OTLP_METRICS, tide_buffer_text(&text)));
    assert_int_equal(t->output.reasons[TIDE_OTLP_REASON_BUCKETS], 1);
    assert_int_equal(t->output.batches[TIDE_STREAM_BEYLA_HTTP].count, 1);
}

/* ---- memory ---- */

typedef struct sweep {
    tide_otlp_signal signal;
    const char *json;
} sweep;

/* Each allocation fails once: an error and an empty output, or everything. Afterwards the same
 * decoder works. */
static void decode_short_of_memory(void *arg)
{
    const sweep *s = arg;
    tide_error err;
    tide_otlp *otlp = NULL;
    const tide_otlp_options options = {.sample_fraction = 1, .started_ms = 1};
    if (tide_otlp_new(&otlp, &options, &err) != TIDE_OK)
        return;
    tide_otlp_output output;
    tide_otlp_output_init(&output);
    const tide_status status =
        tide_otlp_decode(otlp, s->signal, TIDE_OTLP_JSON, tide_view_of(s->json), 1, &output, &err);
    int count = 0;
    for (int kind = 0; kind < TIDE_STREAM_BUILT_IN_COUNT; kind++)
        count += output.batches[kind].count;
    assert_true(status == TIDE_OK || status == TIDE_E_NOMEM);
    assert_true(status == TIDE_OK ? count == 2 : count == 0);
    alloc_fault_off();
    assert_ok(
        tide_otlp_decode(otlp, s->signal, TIDE_OTLP_JSON, tide_view_of(s->json), 2, &output, &err));
    tide_otlp_output_done(&output);
    tide_otlp_free(otlp);
}

static void memory_that_runs_out_is_an_error(void **state)
{
    (void)state;
    sweep traces = {
        TIDE_OTLP_TRACES,
        "{\"resourceSpans\":[{\"resource\":{\"attributes\":[{\"key\":\"a\\n\",\"value\":{"
        "\"intValue\":"
        "5}}]},\"scopeSpans\":[{\"spans\":[{\"traceId\":\"0102030405060708090a0b0c0d0e0f10\","
        "\"spanId\":\"1112131415161718\",\"events\":[{\"name\":\"e\"}],\"attributes\":[{\"key\":"
        "\"l\",\"value\":{\"arrayValue\":{\"values\":[{\"stringValue\":\"x\\t\\u0000\"}]}}},{"
        "\"key\":"
        "\"b\",\"value\":{\"bytesValue\":\"AAAA\"}},{\"key\":\"d\",\"value\":{\"doubleValue\":0.5}}"
        "]},"
        "{\"traceId\":\"0102030405060708090a0b0c0d0e0f10\",\"spanId\":\"1112131415161718\","
        "\"name\":\"\\u0000\",\"links\":[{}]}]}]}]}",
    };
    sweep metrics = {
        TIDE_OTLP_METRICS,
        "{\"resourceMetrics\":[{\"scopeMetrics\":[{\"metrics\":[{\"name\":\"http.server.duration\","
        "\"unit\":\"ms\",\"histogram\":{\"aggregationTemporality\":2,\"dataPoints\":[{"
        "\"startTimeUnixNano\":\"1700000000000000000\",\"timeUnixNano\":\"1700000000000000001\","
        "\"bucketCounts\":[1,2],\"explicitBounds\":[5]}]}}]}]}]}",
    };
    ALLOC_FAULT_SWEEP(decode_short_of_memory, &traces, SWEEP_MAX);
    ALLOC_FAULT_SWEEP(decode_short_of_memory, &metrics, SWEEP_MAX);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(malformed_protobuf_is_refused_as_a_whole, begin, end),
        cmocka_unit_test_setup_teardown(unknown_fields_are_passed_over, begin, end),
        cmocka_unit_test_setup_teardown(no_bytes_do_harm, begin, end),
        cmocka_unit_test_setup_teardown(malformed_json_is_refused_as_a_whole, begin, end),
        cmocka_unit_test_setup_teardown(a_record_has_so_many_attributes_and_bytes, begin, end),
        cmocka_unit_test_setup_teardown(a_resource_beyond_the_limits_takes_its_records_with_it,
                                        begin, end),
        cmocka_unit_test_setup_teardown(nested_values_have_a_depth, begin, end),
        cmocka_unit_test_setup_teardown(millions_of_empty_spans_are_rejected, begin, end),
        cmocka_unit_test_setup_teardown(more_records_than_a_commit_takes_are_refused, begin, end),
        cmocka_unit_test_setup_teardown(a_request_cannot_grow_without_bound, begin, end),
        cmocka_unit_test_setup_teardown(a_point_has_so_many_buckets, begin, end),
        cmocka_unit_test_setup_teardown(memory_that_runs_out_is_an_error, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
