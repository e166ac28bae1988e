/* profiles_test.c - profiles of OTLP: a dictionary, and samples that refer to it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "otlp_fixture.h"

/* Who numbers frames: from 101 on, and remembers what it was asked. */
typedef struct numbering {
    char asked[256];
    int calls;
    tide_status status;
} numbering;

static numbering names;

static tide_status number(void *arg, const tide_view *given, uint64_t *ids, int count,
                          tide_error *err)
{
    numbering *n = arg;
    n->calls++;
    n->asked[0] = '\0';
    for (int i = 0; i < count; i++) {
        const size_t len = strlen(n->asked);
        (void)snprintf(n->asked + len, sizeof n->asked - len, "%.*s,", (int)given[i].len,
                       given[i].ptr);
        ids[i] = 101 + (uint64_t)i;
    }
    return n->status == TIDE_OK ? TIDE_OK : tide_fail(err, n->status, "no numbers");
}

static int begin(void **state)
{
    static otlp_test t;
    names = (numbering){.status = TIDE_OK};
    const tide_otlp_options options = {
        .frames = {.number = number, .arg = &names}, .sample_fraction = 1, .hash_seed = 7};
    otlp_test_begin(&t, &options);
    *state = &t;
    return 0;
}

static int end(void **state)
{
    otlp_test_end(*state);
    return 0;
}

/* Texts: 1 main, 2 work, 3 samples, 4 count, 5 alloc_space, 6 bytes, 7 cpu, 8 nanoseconds, 9 build id, 10 /usr/bin/shop,
 * 11 process.pid, 12 alloc_objects. Locations: 1 main, 2 work inlined into main, 3 an address. Stacks: 1 work < main, 2 the address, 3 nowhere. */
#define DICTIONARY                                                                                 \
    "2{1{} 1{4#10 5[#1]} 2{} 2{1#1 2#64 3{1#1}} 2{1#1 2#80 3{1#2}3{1#1}} 2{1#1 2#48879} 2{3{1#9}}" \
    "3{} 3{1#1} 3{1#2} 5'' 5'main' 5'work' 5'samples' 5'count' 5'alloc_space' 5'bytes' 5'cpu' "    \
    "5'nanoseconds' 5'process.executable.build_id.gnu' 5'/usr/bin/shop' 5'process.pid' "           \
    "5'alloc_objects' 6{} 6{1#9 2{1'abc123'}} 6{1#11 2{3#42}} 7{} 7{1[#2]} 7{1[#3]} 7{1[#4]} "     \
    "7{1[#77]}}"
#define SERVICE "1{1{1'service.name'2{1'shop'}}}"
#define SAMPLES "1{1#3 2#4} "

static const char *show_cpu(otlp_test *t)
{
    return otlp_show(t, TIDE_STREAM_CPU_PROFILE);
}

static void a_sample_fills_every_column(void **state)
{
    otlp_test *t = *state;
    assert_ok_err(otlp_decode_notation(t, TIDE_OTLP_PROFILES,
                                       "1{" SERVICE "2{2{" SAMPLES
                                       "2{1#1 2[#2] 4[#7]} 3@1700000000000000000}}}" DICTIONARY),
                  &t->err);
    const char *shown = show_cpu(t);
    assert_non_null(strstr(shown, "{\"timestamp\":1700000000000,\"service_id\":\"shop\","
                                  "\"build_id\":\"abc123\",\"tgid\":42,\"stack_hash\":"));
    assert_non_null(strstr(shown, "\"stack_frame_ids\":[102,101],\"sample_count\":7}\n"));
    assert_string_equal(names.asked, "main,work,");
    assert_int_equal(names.calls, 1);
}

/* A location that nobody has symbolised is named by its file and address. */
static void an_address_is_a_frame(void **state)
{
    otlp_test *t = *state;
    assert_ok(
        otlp_decode_notation(t, TIDE_OTLP_PROFILES, "1{2{2{" SAMPLES "2{1#2 4[#1]}}}}" DICTIONARY));
    assert_string_equal(names.asked, "shop+0xbeef,");
    assert_non_null(strstr(show_cpu(t), "\"timestamp\":1700000009000"));
}

/* Times without values count one each; the record has the first of them. */
static void times_are_counted(void **state)
{
    otlp_test *t = *state;
    assert_ok(otlp_decode_notation(
        t, TIDE_OTLP_PROFILES,
        "1{2{2{" SAMPLES
        "2{1#1 5[@1700000001000000000 @1700000002000000000 @1700000003000000000]}}}}" DICTIONARY));
    assert_non_null(strstr(show_cpu(t), "\"timestamp\":1700000001000"));
    assert_non_null(strstr(show_cpu(t), "\"sample_count\":3"));
}

static void cpu_time_becomes_samples_by_its_period(void **state)
{
    otlp_test *t = *state;
    assert_ok(otlp_decode_notation(
        t, TIDE_OTLP_PROFILES,
        "1{2{2{1{1#7 2#8} 2{1#1 4[#50000000]} 2{1#2 4[#3]} 6#10000000}}}" DICTIONARY));
    assert_non_null(strstr(show_cpu(t), "\"sample_count\":5"));
    assert_non_null(strstr(show_cpu(t), "\"sample_count\":1}"));
}

/* Converters of pprof tell the same samples by count and by time. */
static void samples_that_are_told_twice_count_once(void **state)
{
    otlp_test *t = *state;
    assert_ok(otlp_decode_notation(t, TIDE_OTLP_PROFILES,
                                   "1{2{2{1{1#7 2#8} 2{1#1 4[#50000000]} 6#10000000} 2{" SAMPLES
                                   "2{1#1 4[#5]}}}}" DICTIONARY));
    assert_int_equal(t->output.batches[TIDE_STREAM_CPU_PROFILE].count, 1);
    assert_int_equal(t->output.unchanged, 1);
    assert_int_equal(t->output.rejected, 0);
}

static void allocations_are_bytes_and_objects(void **state)
{
    otlp_test *t = *state;
    assert_ok(otlp_decode_notation(
        t, TIDE_OTLP_PROFILES,
        "1{2{2{1{1#5 2#6} 2{1#1 4[#4096]}} 2{1{1#12 2#4} 2{1#1 4[#3]}}}}" DICTIONARY));
    const char *shown = otlp_show(t, TIDE_STREAM_MEMORY_PROFILE);
    assert_non_null(strstr(shown, "\"alloc_bytes\":4096,\"alloc_objects\":0"));
    assert_non_null(strstr(shown, "\"alloc_bytes\":0,\"alloc_objects\":3"));
    assert_int_equal(t->output.batches[TIDE_STREAM_CPU_PROFILE].count, 0);
}

static void json_gives_the_same_records(void **state)
{
    (void)state;
    otlp_assert_same(
        TIDE_OTLP_PROFILES,
        "1{" SERVICE "2{2{" SAMPLES "2{1#1 2[#2] 4[#7]} 3@1700000000000000000}}}" DICTIONARY,
        "{\"resourceProfiles\":[{\"resource\":{\"attributes\":[{\"key\":\"service.name\",\"value\":"
        "{"
        "\"stringValue\":\"shop\"}}]},\"scopeProfiles\":[{\"profiles\":[{\"sampleType\":{"
        "\"typeStrindex\":3,\"unitStrindex\":4},\"samples\":[{\"stackIndex\":1,"
        "\"attributeIndices\":[2],\"values\":[\"7\"]}],\"timeUnixNano\":\"1700000000000000000\"}]}]"
        "}],"
        "\"dictionary\":{\"mappingTable\":[{},{\"filenameStrindex\":10,\"attributeIndices\":[1]}],"
        "\"locationTable\":[{},{\"mappingIndex\":1,\"lines\":[{\"functionIndex\":1}]},"
        "{\"mappingIndex\":1,\"address\":\"80\",\"lines\":[{\"functionIndex\":2},{"
        "\"functionIndex\":1}]},"
        "{}],\"functionTable\":[{},{\"nameStrindex\":1},{\"nameStrindex\":2}],\"stringTable\":["
        "\"\","
        "\"m\\u0061in\",\"work\",\"samples\",\"count\",\"\",\"\",\"\",\"\","
        "\"process.executable.build_id.gnu\",\"\",\"process.pid\"],\"attributeTable\":[{},{"
        "\"keyStrindex\":9,\"value\":{\"stringValue\":\"abc123\"}},{\"keyStrindex\":11,\"value\":{"
        "\"intValue\":\"42\"}}],\"stackTable\":[{},{\"locationIndices\":[2]}]}}");
}

/* OTLP 1.10: resources may refer to the dictionary's texts. */
static void keys_and_values_may_be_references(void **state)
{
    otlp_test *t = *state;
    assert_ok(otlp_decode_notation(t, TIDE_OTLP_PROFILES,
                                   "1{1{1{3#11 2{8#2}} 1{1'service.name' 2{8#1}}} 2{2{" SAMPLES
                                   "2{1#1 4[#1]}}}}" DICTIONARY));
    assert_non_null(strstr(show_cpu(t), "\"service_id\":\"main\""));
}

static void assert_rejected(otlp_test *t, const char *profile, tide_otlp_reason reason)
{
    char request[2048];
    (void)snprintf(request, sizeof request, "1{2{2{%s}}}%s", profile, DICTIONARY);
    names.calls = 0;
    assert_ok_err(otlp_decode_notation(t, TIDE_OTLP_PROFILES, request), &t->err);
    assert_int_equal(t->output.rejected, 1);
    assert_int_equal(t->output.reasons[reason], 1);
    assert_int_equal(t->output.batches[TIDE_STREAM_CPU_PROFILE].count, 0);
    assert_int_equal(names.calls, 0); /* it leaves no frame behind */
}

/* A profile is taken whole or not at all. */
static void what_refers_to_nothing_is_rejected(void **state)
{
    otlp_test *t = *state;
    assert_rejected(t, SAMPLES "2{1#1 4[#1]} 2{1#9 4[#1]}", TIDE_OTLP_REASON_REFERENCE);
    assert_rejected(t, SAMPLES "2{1#3 4[#1]}", TIDE_OTLP_REASON_REFERENCE);
    assert_rejected(t, SAMPLES "2{1#4 4[#1]}", TIDE_OTLP_REASON_REFERENCE);
    assert_rejected(t, SAMPLES "2{1#-1 4[#1]}", TIDE_OTLP_REASON_REFERENCE);
    assert_rejected(t, SAMPLES "2{1#1 2[#99] 4[#1]}", TIDE_OTLP_REASON_REFERENCE);
    assert_rejected(t, SAMPLES "2{1#1 4[#1]} 11[#99]", TIDE_OTLP_REASON_REFERENCE);
}

static void what_has_no_amount_is_rejected(void **state)
{
    otlp_test *t = *state;
    assert_rejected(t, SAMPLES "2{1#1}", TIDE_OTLP_REASON_NO_VALUE);
    assert_rejected(t, SAMPLES "2{1#1 4[#-1]}", TIDE_OTLP_REASON_NO_VALUE);
    assert_rejected(t, SAMPLES "2{1#1 4[#9223372036854775807 #1]}", TIDE_OTLP_REASON_NO_VALUE);
    assert_rejected(t, SAMPLES "2{1#1 4[#1] 5[@1 @2]}", TIDE_OTLP_REASON_NO_VALUE);
}

static void types_without_a_stream_are_rejected(void **state)
{
    otlp_test *t = *state;
    assert_rejected(t, "1{1#1 2#4} 2{1#1 4[#1]}", TIDE_OTLP_REASON_PROFILE_TYPE);
    assert_rejected(t, "2{1#1 4[#1]}", TIDE_OTLP_REASON_PROFILE_TYPE);
    char text[TIDE_OTLP_MESSAGE_MAX];
    tide_otlp_describe(TIDE_OTLP_PROFILES, &t->output, text);
    assert_string_equal(
        text,
        "1 profiles rejected: 1 of a type other than samples, cpu, alloc_space, alloc_objects");
}

/* 2,048 frames are a stack, one more is not. */
static void a_stack_has_a_limit(void **state)
{
    otlp_test *t = *state;
    for (int frames = TIDE_OTLP_STACK_MAX; frames <= TIDE_OTLP_STACK_MAX + 1; frames++) {
        TIDE_CLEANUP(tide_buffer_done) tide_buffer notation;
        tide_buffer_init(&notation, 1 << 16);
        assert_ok(tide_buffer_append_text(&notation, "1{2{2{1{1#1}2{1#0 4[#1]}}}}2{2{3{}}3{}"
                                                     "5''5'samples'7{1["));
        for (int i = 0; i < frames; i++)
            assert_ok(tide_buffer_append_text(&notation, "#0 "));
        assert_ok(tide_buffer_append_text(&notation, "]}}"));
        assert_ok(otlp_decode_notation(t, TIDE_OTLP_PROFILES, tide_buffer_text(&notation)));
        assert_int_equal(t->output.reasons[TIDE_OTLP_REASON_STACK], frames > TIDE_OTLP_STACK_MAX);
    }
}

static void repeat(tide_buffer *out, int count, const char *text)
{
    for (int i = 0; i < count; i++)
        assert_ok(tide_buffer_append_text(out, text));
}

/* Attributes of a binary are looked through once, however many samples and locations refer to it: a look at each of them for every location of every sample
 * would be 80,000,000,000 looks, and would not end. */
static void a_request_is_read_in_a_time_that_its_length_bounds(void **state)
{
    otlp_test *t = *state;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer notation;
    tide_buffer_init(&notation, 1 << 20);
    assert_ok(tide_buffer_append_text(&notation, "1{2{2{1{1#1}"));
    repeat(&notation, 2000, "2{1#0 4[#1]}");
    assert_ok(tide_buffer_append_text(&notation, "}}}2{2{3{}}3{}5''5'samples'6{}1{5["));
    repeat(&notation, 20000, "#0 ");
    assert_ok(tide_buffer_append_text(&notation, "]}7{1["));
    repeat(&notation, TIDE_OTLP_STACK_MAX, "#0 ");
    assert_ok(tide_buffer_append_text(&notation, "]}}"));
    assert_ok_err(otlp_decode_notation(t, TIDE_OTLP_PROFILES, tide_buffer_text(&notation)),
                  &t->err);
    assert_int_equal(t->output.batches[TIDE_STREAM_CPU_PROFILE].count, 2000);
}

static void a_dictionary_has_a_limit(void **state)
{
    otlp_test *t = *state;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer tables;
    tide_buffer_init(&tables, 1 << 22);
    for (int i = 0; i <= TIDE_OTLP_TABLE_MAX; i++)
        assert_ok(tide_buffer_append(&tables, "\x2a\x00", 2)); /* an empty text */
    tide_buffer_clear(&t->request);
    assert_ok(tide_buffer_append_byte(&t->request, 2 << 3 | 2));
    assert_ok(tide_buffer_append_varint(&t->request, tables.len));
    assert_ok(tide_buffer_append_view(&t->request, tide_buffer_view(&tables)));
    assert_status(TIDE_E_LIMIT, otlp_decode_bytes(t, TIDE_OTLP_PROFILES, TIDE_OTLP_PROTOBUF,
                                                  tide_buffer_view(&t->request)));
}

/* Whatever breaks, nothing of the request is there, and no frame has a number. */
static void a_broken_request_leaves_nothing(void **state)
{
    otlp_test *t = *state;
    tide_buffer_clear(&t->request);
    otlp_write(&t->request, "1{" SERVICE "2{2{" SAMPLES "2{1#1 4[#7]}}}}" DICTIONARY);
    TIDE_CLEANUP(tide_buffer_done) tide_buffer whole;
    tide_buffer_init(&whole, 1 << 16);
    assert_ok(tide_buffer_append_view(&whole, tide_buffer_view(&t->request)));
    int failed = 0;
    for (size_t len = 0; len < whole.len; len++) {
        names.calls = 0;
        const tide_status status = otlp_decode_bytes(t, TIDE_OTLP_PROFILES, TIDE_OTLP_PROTOBUF,
                                                     tide_view_bytes(whole.ptr, len));
        assert_true(status == TIDE_OK || status == TIDE_E_INVALID);
        failed += status != TIDE_OK;
        assert_int_equal(names.calls, 0);
        assert_int_equal(t->output.batches[TIDE_STREAM_CPU_PROFILE].count, 0);
    }
    assert_true(failed > 100);
}

static void without_numbers_nothing_is_taken(void **state)
{
    otlp_test *t = *state;
    names.status = TIDE_E_LIMIT;
    assert_status(
        TIDE_E_LIMIT,
        otlp_decode_notation(t, TIDE_OTLP_PROFILES, "1{2{2{" SAMPLES "2{1#1 4[#1]}}}}" DICTIONARY));
    assert_int_equal(t->output.received, 0);
}

static void names_are_made_valid_and_cut(void **state)
{
    otlp_test *t = *state;
    assert_ok(otlp_decode_notation(t, TIDE_OTLP_PROFILES,
                                   "1{2{2{1{1#1}2{1#0 4[#1]}}}}2{2{3{1#0}3{1#1}} 3{1#2}3{} "
                                   "5''5'samples'5'a\\ff\\00' 7{1[#0]}}"));
    assert_string_equal(names.asked, "a\xef\xbf\xbd\xef\xbf\xbd,[unknown],");
    assert_int_equal(t->output.replaced, 2);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, begin, end)

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        CASE(a_sample_fills_every_column),
        CASE(an_address_is_a_frame),
        CASE(times_are_counted),
        CASE(cpu_time_becomes_samples_by_its_period),
        CASE(samples_that_are_told_twice_count_once),
        CASE(allocations_are_bytes_and_objects),
        CASE(json_gives_the_same_records),
        CASE(keys_and_values_may_be_references),
        CASE(what_refers_to_nothing_is_rejected),
        CASE(what_has_no_amount_is_rejected),
        CASE(types_without_a_stream_are_rejected),
        CASE(a_stack_has_a_limit),
        CASE(a_request_is_read_in_a_time_that_its_length_bounds),
        CASE(a_dictionary_has_a_limit),
        CASE(a_broken_request_leaves_nothing),
        CASE(without_numbers_nothing_is_taken),
        CASE(names_are_made_valid_and_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
