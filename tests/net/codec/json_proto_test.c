#include "net/codec/json_proto.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/text/json_canon.h"
#include "net/codec/protobuf_wire.h"
#include "net/codec/random_message.h"
#include "sample.pb-c.h"
#include "support/alloc_fault.h"
#include "support/check.h"
#include "support/prng.h"
#include "tidemark_agent_v1_agent.pb-c.h"

#define NUMBERS (&tidemark__sample__v1__numbers__descriptor)
#define LISTS (&tidemark__sample__v1__lists__descriptor)
#define MAPS (&tidemark__sample__v1__maps__descriptor)
#define NODE (&tidemark__sample__v1__node__descriptor)
#define CHOICE (&tidemark__sample__v1__choice__descriptor)
#define EVERYTHING (&tidemark__sample__v1__everything__descriptor)
#define REQUEST (&tidemark__agent__v1__query_telemetry_request__descriptor)

enum { MIB = 1 << 20 };

/* JSON to protobuf and back: the JSON that comes out is what the message says. */
static void check_reads_as(const ProtobufCMessageDescriptor *descriptor, const char *json,
                           const char *again)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer bytes;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer text;
    tide_buffer_init(&bytes, MIB);
    tide_buffer_init(&text, MIB);
    tide_error err = {0};
    assert_ok_err(tide_json_to_proto(descriptor, tide_view_of(json), &bytes, &err), &err);
    const tide_json_proto_options proto_names = {.has_proto_names = true};
    assert_ok_err(
        tide_proto_to_json_with(descriptor, tide_buffer_view(&bytes), &proto_names, &text, &err),
        &err);
    assert_contains(tide_buffer_text(&text), again);
}

static void check_bytes(const ProtobufCMessageDescriptor *descriptor, const char *json,
                        const char *bytes, size_t len)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer out;
    tide_buffer_init(&out, MIB);
    tide_error err = {0};
    assert_ok_err(tide_json_to_proto(descriptor, tide_view_of(json), &out, &err), &err);
    assert_int_equal(len, out.len);
    if (len > 0)
        assert_memory_equal(bytes, out.ptr, len);
}

#define CHECK_BYTES(descriptor, json, literal)                                                     \
    check_bytes(descriptor, json, literal, sizeof(literal) - 1)

static void check_json(const ProtobufCMessageDescriptor *descriptor, const char *bytes, size_t len,
                       const char *json)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer out;
    tide_buffer_init(&out, MIB);
    tide_error err = {0};
    assert_ok_err(tide_proto_to_json(descriptor, tide_view_bytes(bytes, len), &out, &err), &err);
    assert_string_equal(json, tide_buffer_text(&out));
}

#define CHECK_JSON(descriptor, literal, json)                                                      \
    check_json(descriptor, literal, sizeof(literal) - 1, json)

/* The words say where, and name what is wrong. */
static void check_refused(const ProtobufCMessageDescriptor *descriptor, const char *json,
                          const char *words)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer out;
    tide_buffer_init(&out, MIB);
    assert_ok(tide_buffer_append_text(&out, "kept"));
    tide_error err = {0};
    assert_status(TIDE_E_INVALID, tide_json_to_proto(descriptor, tide_view_of(json), &out, &err));
    assert_contains(err.text, words);
    assert_contains(err.text, "line 1, column ");
    assert_string_equal("kept", tide_buffer_text(&out));
}

/* --- from JSON --- */

static void both_forms_of_a_name_are_known(void **state)
{
    (void)state;
    CHECK_BYTES(REQUEST, "{\"max_records\": 7}", "\x28\x07");
    CHECK_BYTES(REQUEST, "{\"maxRecords\": 7}", "\x28\x07");
    CHECK_BYTES(REQUEST, "{\"\\u006daxRecords\": 7}", "\x28\x07");
    CHECK_BYTES(EVERYTHING, "{\"lastOneHERE\": true, \"x1Y\": \"a\"}",
                "\x30\x01\x3A\x01"
                "a");
    CHECK_BYTES(REQUEST, " { } ", "");
}

static void an_unknown_field_is_refused_with_the_nearest_name(void **state)
{
    (void)state;
    check_refused(REQUEST, "{\"maxRecord\": 1}",
                  "has no field \"maxRecord\"; did you mean \"maxRecords\"?");
    check_refused(REQUEST, "{\"start_sequence\": 1}", "did you mean \"start");
    check_refused(REQUEST, "{\"zzzzzzzzz\": 1}",
                  "tidemark.agent.v1.QueryTelemetryRequest has no field \"zzzzzzzzz\"");
    check_refused(REQUEST, "{\"position\": {\"reeder\": \"a\"}}", "did you mean \"reader\"?");
    check_refused(REQUEST, "{\"\": 1}", "has no field \"\"");
    check_refused(REQUEST, "{\"max__Records\": 1}", "did you mean \"maxRecords\"?");
}

static void unknown_fields_can_be_ignored_whatever_they_hold(void **state)
{
    (void)state;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer out;
    tide_buffer_init(&out, MIB);
    const tide_json_proto_options options = {.is_unknown_ignored = true};
    assert_ok(tide_json_to_proto_with(
        NUMBERS,
        tide_view_of("{\"a\": {\"b\": [1, {}, [null]]}, \"int32Value\": 5, \"c\": [], \"d\": null,"
                     " \"color\": \"COLOR_OF_TOMORROW\"}"),
        &options, &out, NULL));
    assert_int_equal(2, out.len);
    assert_memory_equal("\x08\x05", out.ptr, 2);
    tide_buffer_clear(&out);
    /* Of lists and maps, the unknown names alone are left out. */
    assert_ok(tide_json_to_proto_with(
        LISTS, tide_view_of("{\"colors\": [\"COLOR_RED\", \"COLOR_OF_TOMORROW\", 2]}"), &options,
        &out, NULL));
    assert_int_equal(4, out.len);
    assert_memory_equal("\x32\x02\x01\x02", out.ptr, 4);
    tide_buffer_clear(&out);
    assert_ok(tide_json_to_proto_with(
        MAPS, tide_view_of("{\"colorByFlag\": {\"true\": \"COLOR_OF_TOMORROW\"}}"), &options, &out,
        NULL));
    assert_int_equal(0, out.len);
}

/* Whole numbers are exact over their whole range, as numbers and as strings. */
static void whole_numbers_are_exact(void **state)
{
    (void)state;
    check_reads_as(NUMBERS, "{\"int64Value\": \"-9223372036854775808\"}",
                   "\"int64_value\":\"-9223372036854775808\"");
    check_reads_as(NUMBERS, "{\"int64Value\": 9223372036854775807}",
                   "\"int64_value\":\"9223372036854775807\"");
    check_reads_as(NUMBERS, "{\"uint64Value\": 18446744073709551615}",
                   "\"uint64_value\":\"18446744073709551615\"");
    check_reads_as(NUMBERS, "{\"uint64Value\": \"1.8446744073709551615e19\"}",
                   "\"uint64_value\":\"18446744073709551615\"");
    check_reads_as(NUMBERS, "{\"int32Value\": -2147483648, \"uint32Value\": 4294967295}",
                   "\"int32_value\":-2147483648");
    check_reads_as(NUMBERS, "{\"sint32Value\": -2147483648}", "\"sint32_value\":-2147483648");
    check_reads_as(NUMBERS, "{\"sint64Value\": -9223372036854775808}",
                   "\"sint64_value\":\"-9223372036854775808\"");
    check_reads_as(NUMBERS, "{\"sfixed32Value\": -1, \"sfixed64Value\": \"-1\"}",
                   "\"sfixed64_value\":\"-1\"");
    check_reads_as(NUMBERS, "{\"fixed32Value\": 4294967295}", "\"fixed32_value\":4294967295");
    check_reads_as(NUMBERS, "{\"fixed64Value\": 18446744073709551615}",
                   "\"fixed64_value\":\"18446744073709551615\"");
    check_reads_as(NUMBERS, "{\"int32Value\": 12.0}", "\"int32_value\":12");
    check_reads_as(NUMBERS, "{\"int32Value\": 1.2e1}", "\"int32_value\":12");
    check_reads_as(NUMBERS, "{\"int32Value\": 1200e-2}", "\"int32_value\":12");
    check_reads_as(NUMBERS, "{\"int32Value\": \"-0\"}", "\"int32_value\":0");
    check_reads_as(NUMBERS, "{\"int32Value\": 0.000e999999999999}", "\"int32_value\":0");
}

static void numbers_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    check_refused(NUMBERS, "{\"int32Value\": 2147483648}", "int32_value: the number is out of");
    check_refused(NUMBERS, "{\"int32Value\": -2147483649}", "out of range");
    check_refused(NUMBERS, "{\"uint32Value\": 4294967296}", "out of range");
    check_refused(NUMBERS, "{\"uint32Value\": -1}", "out of range");
    check_refused(NUMBERS, "{\"uint64Value\": 18446744073709551616}", "out of range");
    check_refused(NUMBERS, "{\"int64Value\": 9223372036854775808}", "out of range");
    check_refused(NUMBERS, "{\"int64Value\": -9223372036854775809}", "out of range");
    check_refused(NUMBERS, "{\"int64Value\": 1e300}", "out of range");
    check_refused(NUMBERS, "{\"int32Value\": 1.5}", "a whole number is wanted");
    check_refused(NUMBERS, "{\"int32Value\": 1e-1}", "a whole number is wanted");
    check_refused(NUMBERS, "{\"int32Value\": \"\"}", "not a number");
    check_refused(NUMBERS, "{\"int32Value\": \" 1\"}", "not a number");
    check_refused(NUMBERS, "{\"int32Value\": \"1x\"}", "not a number");
    check_refused(NUMBERS, "{\"int32Value\": true}", "a number is wanted");
    check_refused(NUMBERS, "{\"int32Value\": {}}", "a number is wanted");
    check_refused(NUMBERS, "{\"floatValue\": 1e39}", "out of range");
    check_refused(NUMBERS, "{\"doubleValue\": \"1e400\"}", "not a number");
    check_refused(NUMBERS, "{\"doubleValue\": \"nan\"}", "not a number");
}

static void real_numbers_keep_their_value(void **state)
{
    (void)state;
    check_reads_as(NUMBERS, "{\"doubleValue\": 0.1}", "\"double_value\":0.1");
    check_reads_as(NUMBERS, "{\"doubleValue\": \"0.1\"}", "\"double_value\":0.1");
    check_reads_as(NUMBERS, "{\"doubleValue\": \"NaN\"}", "\"double_value\":\"NaN\"");
    check_reads_as(NUMBERS, "{\"doubleValue\": \"-Infinity\"}", "\"double_value\":\"-Infinity\"");
    check_reads_as(NUMBERS, "{\"floatValue\": \"Infinity\"}", "\"float_value\":\"Infinity\"");
    check_reads_as(NUMBERS, "{\"floatValue\": 0.1}", "\"float_value\":0.1,");
    check_reads_as(NUMBERS, "{\"floatValue\": 16777216}", "\"float_value\":16777216");
    check_reads_as(NUMBERS, "{\"doubleValue\": -0.0}", "\"double_value\":-0.0");
    check_reads_as(NUMBERS, "{\"doubleValue\": 1e308}", "\"double_value\":1e+308");
}

static void enums_are_known_by_name_and_number(void **state)
{
    (void)state;
    check_reads_as(NUMBERS, "{\"color\": \"COLOR_DEEP_BLUE\"}", "\"color\":\"COLOR_DEEP_BLUE\"");
    check_reads_as(NUMBERS, "{\"color\": 1}", "\"color\":\"COLOR_RED\"");
    check_reads_as(NUMBERS, "{\"color\": \"1\"}", "\"color\":\"COLOR_RED\"");
    check_reads_as(NUMBERS, "{\"color\": -5}", "\"color\":\"COLOR_NEGATIVE\"");
    check_reads_as(NUMBERS, "{\"color\": 77}", "\"color\":77");
    check_refused(NUMBERS, "{\"color\": \"COLOR_DEEP_BLEU\"}",
                  "\"COLOR_DEEP_BLEU\" is not a value of tidemark.sample.v1.Color; did you mean "
                  "\"COLOR_DEEP_BLUE\"?");
    check_refused(NUMBERS, "{\"color\": false}", "a name or a number");
    check_refused(NUMBERS, "{\"color\": 1.5}", "whole number");
    check_refused(NUMBERS, "{\"color\": 2147483648}", "out of range");
}

static void bytes_come_in_every_base64(void **state)
{
    (void)state;
    CHECK_BYTES(NUMBERS, "{\"data\": \"+/8=\"}", "\x82\x01\x02\xFB\xFF");
    CHECK_BYTES(NUMBERS, "{\"data\": \"-_8=\"}", "\x82\x01\x02\xFB\xFF");
    CHECK_BYTES(NUMBERS, "{\"data\": \"-_8\"}", "\x82\x01\x02\xFB\xFF");
    CHECK_BYTES(NUMBERS, "{\"data\": \"\\u002b/8\"}", "\x82\x01\x02\xFB\xFF");
    CHECK_BYTES(NUMBERS, "{\"data\": \"\"}", "");
    check_refused(NUMBERS, "{\"data\": \"a\"}", "data: not base64");
    check_refused(NUMBERS, "{\"data\": \"ab c\"}", "not base64");
    check_refused(NUMBERS, "{\"data\": 5}", "a string is wanted");
}

static void text_is_unescaped(void **state)
{
    (void)state;
    CHECK_BYTES(NUMBERS, "{\"text\": \"a\\n\\\"\\\\\\/\\b\\f\\r\\t\\u00e9\\ud83c\\udf0a\\u0041\"}",
                "\x7A\x10"
                "a\n\"\\/\b\f\r\t\xC3\xA9\xF0\x9F\x8C\x8A"
                "A");
    CHECK_BYTES(NUMBERS, "{\"text\": \"\\u0000\"}", "\x7A\x01\x00");
    check_refused(NUMBERS, "{\"text\": 5}", "text: a string is wanted");
    check_refused(NUMBERS, "{\"text\": [\"a\"]}", "a string is wanted");
}

static void default_values_are_not_written(void **state)
{
    (void)state;
    CHECK_BYTES(NUMBERS,
                "{\"int32Value\": 0, \"doubleValue\": 0.0, \"text\": \"\", \"boolValue\": false,"
                " \"color\": \"COLOR_UNSPECIFIED\", \"data\": \"\"}",
                "");
    /* In lists, maps and oneofs they are values like others. */
    CHECK_BYTES(LISTS, "{\"int32Values\": [0, 0], \"texts\": [\"\"]}", "\x0A\x02\x00\x00\x3A\x00");
    CHECK_BYTES(MAPS, "{\"textByText\": {\"\": \"\"}}", "\x0A\x04\x0A\x00\x12\x00");
    CHECK_BYTES(CHOICE, "{\"number\": \"0\"}", "\x10\x00");
    CHECK_BYTES(CHOICE, "{\"text\": \"\"}", "\x0A\x00");
}

static void null_is_the_same_as_nothing_but_not_in_lists_and_maps(void **state)
{
    (void)state;
    CHECK_BYTES(EVERYTHING, "{\"numbers\": null, \"lists\": null, \"choices\": null}", "");
    CHECK_BYTES(CHOICE, "{\"text\": null, \"number\": 1, \"flag\": null}", "\x10\x01");
    check_refused(LISTS, "{\"texts\": [\"a\", null]}", "null is no element");
    check_refused(LISTS, "{\"int32Values\": [null]}", "null is no element");
    check_refused(MAPS, "{\"textByText\": {\"a\": null}}", "null is no value");
}

static void lists_are_packed_where_they_can_be(void **state)
{
    (void)state;
    CHECK_BYTES(LISTS, "{\"int32Values\": [1, \"2\", 300]}", "\x0A\x04\x01\x02\xAC\x02");
    CHECK_BYTES(LISTS, "{\"int32Values\": []}", "");
    CHECK_BYTES(LISTS, "{\"boolValues\": [true, false]}", "\x2A\x02\x01\x00");
    CHECK_BYTES(LISTS, "{\"sint64Values\": [-1]}", "\x12\x01\x01");
    CHECK_BYTES(LISTS, "{\"fixed32Values\": [1]}", "\x1A\x04\x01\x00\x00\x00");
    CHECK_BYTES(LISTS, "{\"numbers\": [{}, {\"int32Value\": 1}]}", "\x4A\x00\x4A\x02\x08\x01");
    check_refused(LISTS, "{\"int32Values\": 1}", "int32_values: an array is wanted");
    check_refused(LISTS, "{\"int32Values\": [[1]]}", "a number is wanted");
    check_refused(LISTS, "{\"numbers\": [1]}", "an object is wanted");
}

static void maps_are_objects_with_typed_keys(void **state)
{
    (void)state;
    CHECK_BYTES(MAPS, "{\"textByText\": {\"k\": \"v\"}}", "\x0A\x06\x0A\x01k\x12\x01v");
    CHECK_BYTES(MAPS, "{\"numberByNumber\": {\"-1\": \"5\"}}",
                "\x12\x0D\x08\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01\x10\x05");
    CHECK_BYTES(MAPS, "{\"colorByFlag\": {\"true\": \"COLOR_RED\"}}", "\x1A\x04\x08\x01\x10\x01");
    CHECK_BYTES(MAPS, "{\"numbersByText\": {\"a\": {\"int32Value\": 1}}}",
                "\x22\x07\x0A\x01"
                "a\x12\x02\x08\x01");
    check_refused(MAPS, "{\"numberByNumber\": {\"x\": 1}}", "not a number");
    check_refused(MAPS, "{\"colorByFlag\": {\"1\": 1}}", "true or false");
    check_refused(MAPS, "{\"textByText\": []}", "text_by_text: an object is wanted");
    check_refused(MAPS, "{\"textByText\": {\"a\": 1}}", "a string is wanted");
}

/* Readers disagree about what comes twice, so it is refused. */
static void nothing_may_come_twice(void **state)
{
    (void)state;
    check_refused(REQUEST, "{\"maxRecords\": 1, \"maxRecords\": 1}", "appears a second time");
    check_refused(REQUEST, "{\"maxRecords\": 1, \"max_records\": 1}", "appears a second time");
    check_refused(REQUEST, "{\"maxRecords\": null, \"max_records\": null}", "a second time");
    check_refused(MAPS, "{\"textByText\": {\"a\": \"1\", \"b\": \"2\", \"\\u0061\": \"3\"}}",
                  "line 1, column 37: text_by_text: this key appears a second time");
    check_refused(MAPS, "{\"numberByNumber\": {\"1\": 1, \"1.0\": 2}}", "a second time");
    /* Inner maps are maps of their own. */
    check_reads_as(MAPS,
                   "{\"mapsByText\": {\"a\": {\"textByText\": {\"x\": \"1\"}},"
                   " \"b\": {\"textByText\": {\"x\": \"1\"}}}, \"textByText\": {\"x\": \"1\"}}",
                   "\"text_by_text\":{\"x\":\"1\"}");
    check_refused(MAPS,
                  "{\"mapsByText\": {\"a\": {\"textByText\": {\"x\": \"1\"}}, \"c\": {},"
                  " \"a\": {}}}",
                  "maps_by_text: this key");
}

static void members_of_a_oneof_exclude_each_other(void **state)
{
    (void)state;
    check_refused(CHOICE, "{\"text\": \"a\", \"number\": 1}",
                  "number: text is given already, and they exclude each other");
    check_refused(CHOICE, "{\"flag\": false, \"numbers\": {}}", "exclude each other");
    check_reads_as(CHOICE, "{\"flag\": false}", "{\"flag\":false}");
}

static void what_is_not_a_json_object_is_refused(void **state)
{
    (void)state;
    check_refused(REQUEST, "[]", "an object is wanted");
    check_refused(REQUEST, "null", "an object is wanted");
    check_refused(REQUEST, "", "the text ends");
    check_refused(REQUEST, "{} {}", "something follows");
    check_refused(REQUEST, "{\"position\": {}", "missing");
    check_refused(REQUEST, "{\"position\": 5}", "position: an object is wanted");
}

static void depth_and_size_are_bounded(void **state)
{
    (void)state;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer json;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer out;
    tide_buffer_init(&json, MIB);
    tide_buffer_init(&out, 1000);
    for (int i = 0; i < 20000; i++)
        assert_ok(tide_buffer_append_text(&json, "{\"child\":"));
    tide_error err = {0};
    assert_status(TIDE_E_INVALID, tide_json_to_proto(NODE, tide_buffer_view(&json), &out, &err));
    assert_contains(err.text, "nested too deeply");

    tide_buffer_done(&out);
    tide_buffer_init(&out, 100);
    assert_status(TIDE_E_LIMIT,
                  tide_json_to_proto(NODE,
                                     tide_view_of("{\"name\": \"0123456789012345678901234567890123"
                                                  "4567890123456789012345678901234567890123456789"
                                                  "01234567890123456789012345678\"}"),
                                     &out, &err));
    assert_contains(err.text, "larger than 100 bytes");
    assert_int_equal(0, out.len);
}

/* --- to JSON --- */

static void every_field_is_printed_with_its_default(void **state)
{
    (void)state;
    CHECK_JSON(REQUEST, "",
               "{\"startTime\":\"0\",\"endTime\":\"0\",\"serviceNames\":[],\"startSeqId\":\"0\","
               "\"maxRecords\":0}");
    CHECK_JSON(MAPS, "",
               "{\"textByText\":{},\"numberByNumber\":{},\"colorByFlag\":{},\"numbersByText\":{},"
               "\"dataById\":{},\"doubleBySigned\":{},\"mapsByText\":{}}");
    CHECK_JSON(NUMBERS, "",
               "{\"int32Value\":0,\"sint32Value\":0,\"sfixed32Value\":0,\"int64Value\":\"0\","
               "\"sint64Value\":\"0\",\"sfixed64Value\":\"0\",\"uint32Value\":0,"
               "\"fixed32Value\":0,\"uint64Value\":\"0\",\"fixed64Value\":\"0\",\"floatValue\":0,"
               "\"doubleValue\":0,\"boolValue\":false,\"color\":\"COLOR_UNSPECIFIED\","
               "\"text\":\"\",\"data\":\"\"}");
    CHECK_JSON(CHOICE, "", "{}");
}

static void names_can_be_those_of_the_proto(void **state)
{
    (void)state;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer out;
    tide_buffer_init(&out, MIB);
    const tide_json_proto_options options = {.has_proto_names = true};
    assert_ok(tide_proto_to_json_with(NODE, tide_view_bytes("\x0A\x01x", 3), &options, &out, NULL));
    assert_string_equal("{\"name\":\"x\",\"children\":[]}", tide_buffer_text(&out));
    tide_buffer_clear(&out);
    assert_ok(tide_proto_to_json_with(EVERYTHING, (tide_view){0}, &options, &out, NULL));
    assert_string_equal("{\"choices\":[],\"last_one_HERE\":false,\"x_1_y\":\"\"}",
                        tide_buffer_text(&out));
}

/* Fields may come in any order, lists in pieces, packed and loose. */
static void order_and_pieces_do_not_matter(void **state)
{
    (void)state;
    CHECK_JSON(NODE,
               "\x1A\x03\x0A\x01q\x0A\x01"
               "a\x1A\x03\x0A\x01r\x0A\x01"
               "b",
               "{\"name\":\"b\",\"children\":[{\"name\":\"q\",\"children\":[]},"
               "{\"name\":\"r\",\"children\":[]}]}");
    TIDE_CLEANUP(tide_buffer_done) tide_buffer out;
    tide_buffer_init(&out, MIB);
    assert_ok(tide_proto_to_json(
        LISTS, tide_view_bytes("\x0A\x02\x01\x02\x08\x03\x2A\x01\x01\x0A\x01\x04", 12), &out,
        NULL));
    assert_contains(tide_buffer_text(&out), "\"int32Values\":[1,2,3,4]");
    assert_contains(tide_buffer_text(&out), "\"boolValues\":[true]");
}

/* A message given in parts is merged; of a oneof the last member counts. */
static void parts_are_merged_and_the_last_member_counts(void **state)
{
    (void)state;
    CHECK_JSON(NODE, "\x12\x03\x0A\x01x\x0A\x01n\x12\x02\x1A\x00",
               "{\"name\":\"n\",\"child\":{\"name\":\"x\",\"children\":[{\"name\":\"\","
               "\"children\":[]}]},\"children\":[]}");
    CHECK_JSON(CHOICE, "\x0A\x01x\x10\x05", "{\"number\":\"5\"}");
    CHECK_JSON(CHOICE, "\x10\x05\x0A\x01x", "{\"text\":\"x\"}");
}

static void of_equal_keys_the_last_entry_counts_and_keys_are_in_order(void **state)
{
    (void)state;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer out;
    tide_buffer_init(&out, MIB);
    assert_ok(tide_proto_to_json(MAPS,
                                 tide_view_bytes("\x0A\x06\x0A\x01"
                                                 "b\x12\x01"
                                                 "1\x0A\x06\x0A\x01"
                                                 "a\x12\x01"
                                                 "2\x0A\x06\x0A\x01"
                                                 "b\x12\x01"
                                                 "3\x22\x02\x0A\x00\x12\x02\x10\x07",
                                                 32),
                                 &out, NULL));
    assert_contains(tide_buffer_text(&out), "\"textByText\":{\"a\":\"2\",\"b\":\"3\"}");
    assert_contains(tide_buffer_text(&out), "\"numberByNumber\":{\"0\":\"7\"}");
    assert_contains(tide_buffer_text(&out), "\"numbersByText\":{\"\":{\"int32Value\":0,");
}

/* A varint may carry more bits than its type has: as protobuf reads them, both keys are 1, and both true. */
static void keys_that_differ_only_on_the_wire_are_one_key(void **state)
{
    (void)state;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer out;
    tide_buffer_init(&out, MIB);
    static const char bytes[] = "\x12\x04\x08\x01\x10\x05"
                                "\x12\x08\x08\x81\x80\x80\x80\x10\x10\x06"
                                "\x1A\x04\x08\x01\x10\x00"
                                "\x1A\x04\x08\x02\x10\x01";
    assert_ok(tide_proto_to_json(MAPS, tide_view_bytes(bytes, sizeof bytes - 1), &out, NULL));
    assert_contains(tide_buffer_text(&out), "\"numberByNumber\":{\"1\":\"6\"}");
    const char *flags = strstr(tide_buffer_text(&out), "\"colorByFlag\":{\"true\":");
    assert_non_null(flags);
    assert_null(strstr(flags + strlen("\"colorByFlag\":{\"true\":"), "\"true\""));
}

/* Each is printed, so that nothing is gone unseen; who reads them back is told that they are one. */
static void keys_of_broken_text_may_become_one_and_are_both_printed(void **state)
{
    (void)state;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer out;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer again;
    tide_buffer_init(&out, MIB);
    tide_buffer_init(&again, MIB);
    static const char bytes[] = "\x0A\x08\x0A\x03"
                                "a\x00\xFF\x12\x01"
                                "1\x0A\x08\x0A\x03"
                                "a\x00\xFE\x12\x01"
                                "2";
    assert_ok(tide_proto_to_json(MAPS, tide_view_bytes(bytes, sizeof bytes - 1), &out, NULL));
    assert_contains(tide_buffer_text(&out), "\"textByText\":{\"a\\u0000\xEF\xBF\xBD\":\"2\","
                                            "\"a\\u0000\xEF\xBF\xBD\":\"1\"}");
    tide_error err = {0};
    assert_status(TIDE_E_INVALID, tide_json_to_proto(MAPS, tide_buffer_view(&out), &again, &err));
    assert_contains(err.text, "this key appears a second time");
}

/* What has another form than its type is not this field; what is unknown is not printed. */
static void unknown_fields_are_left_out(void **state)
{
    (void)state;
    CHECK_JSON(NODE, "\x08\x05\xA8\x06\x01\x0A\x01x", "{\"name\":\"x\",\"children\":[]}");
}

static void bad_protobuf_and_bad_text_are_told_apart(void **state)
{
    (void)state;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer out;
    tide_buffer_init(&out, MIB);
    assert_ok(tide_buffer_append_text(&out, "kept"));
    tide_error err = {0};
    assert_status(TIDE_E_INVALID,
                  tide_proto_to_json(NODE, tide_view_bytes("\x0A\x05x", 3), &out, &err));
    assert_status(TIDE_E_INVALID,
                  tide_proto_to_json(NODE, tide_view_bytes("\x12\x02\x0A\x05", 4), &out, &err));
    assert_status(TIDE_E_INVALID,
                  tide_proto_to_json(LISTS, tide_view_bytes("\x0A\x01\x80", 3), &out, &err));
    assert_contains(err.text, "int32_values");
    assert_string_equal("kept", tide_buffer_text(&out));
    CHECK_JSON(NODE,
               "\x0A\x03"
               "a\xFF"
               "b",
               "{\"name\":\"a\xEF\xBF\xBD"
               "b\",\"children\":[]}");
    CHECK_JSON(NODE, "\x0A\x05\"\\\n\x01\x00",
               "{\"name\":\"\\\"\\\\\\n\\u0001\\u0000\","
               "\"children\":[]}");
}

static void to_json_is_bounded_in_depth_and_size(void **state)
{
    (void)state;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer bytes;
    tide_buffer_init(&bytes, MIB);
    for (int i = 0; i < 16000; i++) {
        TIDE_CLEANUP(tide_buffer_done) tide_buffer inner = bytes;
        tide_buffer_init(&bytes, MIB);
        assert_ok(tide_wire_append_bytes(&bytes, 2, tide_buffer_view(&inner)));
    }
    TIDE_CLEANUP(tide_buffer_done) tide_buffer out;
    tide_buffer_init(&out, MIB);
    tide_error err = {0};
    assert_status(TIDE_E_LIMIT, tide_proto_to_json(NODE, tide_buffer_view(&bytes), &out, &err));
    assert_contains(err.text, "100 levels");
    assert_int_equal(0, out.len);

    tide_buffer_clear(&bytes);
    while (bytes.len + 2 <= bytes.max)
        assert_ok(tide_wire_append_bytes(&bytes, 3, tide_view_of("")));
    assert_status(TIDE_E_LIMIT, tide_proto_to_json(NODE, tide_buffer_view(&bytes), &out, &err));
    assert_contains(err.text, "bytes as JSON");
}

/* --- both --- */

/* JSON, protobuf, JSON: the same JSON, and valid JSON, for whatever an encoder may write. */
static void random_messages_survive_the_round_trip(void **state)
{
    (void)state;
    prng random;
    prng_init(&random, prng_seed_from_env(5));
    for (int i = 0; i < 1000; i++) {
        TIDE_CLEANUP(tide_buffer_done) tide_buffer bytes;
        TIDE_CLEANUP(tide_buffer_done) tide_buffer json;
        TIDE_CLEANUP(tide_buffer_done) tide_buffer again;
        TIDE_CLEANUP(tide_buffer_done) tide_buffer third;
        tide_buffer_init(&bytes, MIB);
        tide_buffer_init(&json, 64 * MIB);
        tide_buffer_init(&again, 64 * MIB);
        tide_buffer_init(&third, 64 * MIB);
        random_message(&random, EVERYTHING, 4, &bytes);
        const tide_json_proto_options options = {.has_proto_names = prng_chance(&random, 1, 2)};
        tide_error err = {0};
        assert_ok_err(
            tide_proto_to_json_with(EVERYTHING, tide_buffer_view(&bytes), &options, &json, &err),
            &err);
        assert_ok_err(tide_json_check(tide_buffer_view(&json), &err), &err);
        assert_ok_err(tide_json_to_proto(EVERYTHING, tide_buffer_view(&json), &again, &err), &err);
        assert_ok_err(
            tide_proto_to_json_with(EVERYTHING, tide_buffer_view(&again), &options, &third, &err),
            &err);
        assert_true(tide_view_equal(tide_buffer_view(&json), tide_buffer_view(&third)));
    }
}

static void convert_both_ways(tide_view bytes)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer json;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer again;
    tide_buffer_init(&json, MIB);
    tide_buffer_init(&again, MIB);
    tide_error err = {0};
    tide_status status = tide_proto_to_json(EVERYTHING, bytes, &json, &err);
    if (status == TIDE_OK)
        status = tide_json_to_proto(EVERYTHING, tide_buffer_view(&json), &again, &err);
    if (alloc_fault_hit() > 0)
        assert_status_err(TIDE_E_NOMEM, status, &err);
    else
        assert_ok_err(status, &err);
}

static void every_failed_allocation_is_told(void **state)
{
    (void)state;
    prng random;
    prng_init(&random, prng_seed_from_env(3));
    TIDE_CLEANUP(tide_buffer_done) tide_buffer bytes;
    tide_buffer_init(&bytes, 4096);
    random_message(&random, EVERYTHING, 3, &bytes);
    for (int64_t nth = 1; nth < 10000; nth++) {
        alloc_fault_at(nth);
        convert_both_ways(tide_buffer_view(&bytes));
        alloc_fault_off();
        if (alloc_fault_hit() == 0) {
            assert_true(nth > 5);
            return;
        }
    }
    fail();
}

static int disarm(void **state)
{
    (void)state;
    alloc_fault_off();
    return 0;
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_forms_of_a_name_are_known),
        cmocka_unit_test(an_unknown_field_is_refused_with_the_nearest_name),
        cmocka_unit_test(unknown_fields_can_be_ignored_whatever_they_hold),
        cmocka_unit_test(whole_numbers_are_exact),
        cmocka_unit_test(numbers_that_do_not_fit_are_refused),
        cmocka_unit_test(real_numbers_keep_their_value),
        cmocka_unit_test(enums_are_known_by_name_and_number),
        cmocka_unit_test(bytes_come_in_every_base64),
        cmocka_unit_test(text_is_unescaped),
        cmocka_unit_test(default_values_are_not_written),
        cmocka_unit_test(null_is_the_same_as_nothing_but_not_in_lists_and_maps),
        cmocka_unit_test(lists_are_packed_where_they_can_be),
        cmocka_unit_test(maps_are_objects_with_typed_keys),
        cmocka_unit_test(nothing_may_come_twice),
        cmocka_unit_test(members_of_a_oneof_exclude_each_other),
        cmocka_unit_test(what_is_not_a_json_object_is_refused),
        cmocka_unit_test(depth_and_size_are_bounded),
        cmocka_unit_test(every_field_is_printed_with_its_default),
        cmocka_unit_test(names_can_be_those_of_the_proto),
        cmocka_unit_test(order_and_pieces_do_not_matter),
        cmocka_unit_test(parts_are_merged_and_the_last_member_counts),
        cmocka_unit_test(of_equal_keys_the_last_entry_counts_and_keys_are_in_order),
        cmocka_unit_test(keys_that_differ_only_on_the_wire_are_one_key),
        cmocka_unit_test(keys_of_broken_text_may_become_one_and_are_both_printed),
        cmocka_unit_test(unknown_fields_are_left_out),
        cmocka_unit_test(bad_protobuf_and_bad_text_are_told_apart),
        cmocka_unit_test(to_json_is_bounded_in_depth_and_size),
        cmocka_unit_test(random_messages_survive_the_round_trip),
        cmocka_unit_test_teardown(every_failed_allocation_is_told, disarm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
