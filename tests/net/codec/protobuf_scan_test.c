#include "net/codec/protobuf_scan.h"

#include <string.h>

#include "base/cleanup.h"
#include "net/codec/protobuf_wire.h"
#include "sample.pb-c.h"
#include "support/check.h"

#define NUMBERS (&tidemark__sample__v1__numbers__descriptor)
#define LISTS (&tidemark__sample__v1__lists__descriptor)
#define NODE (&tidemark__sample__v1__node__descriptor)

static tide_status scan_bytes(const ProtobufCMessageDescriptor *descriptor, const char *bytes,
                              size_t len, tide_error *err)
{
    return tide_protobuf_scan(descriptor, tide_view_bytes(bytes, len), NULL, NULL, err);
}

#define SCAN(descriptor, literal, err) scan_bytes(descriptor, literal, sizeof(literal) - 1, err)

/* Nodes inside nodes, from the innermost outwards. */
static void append_nested(tide_buffer *out, int depth)
{
    tide_buffer_init(out, 1 << 20);
    for (int i = 1; i < depth; i++) {
        TIDE_CLEANUP(tide_buffer_done) tide_buffer inner = *out;
        tide_buffer_init(out, 1 << 20);
        assert_ok(tide_wire_append_bytes(out, 2, tide_buffer_view(&inner)));
    }
}

static void nesting_is_allowed_up_to_the_limit_and_not_beyond(void **state)
{
    (void)state;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer fits;
    append_nested(&fits, TIDE_PROTOBUF_DEPTH_MAX);
    tide_protobuf_facts facts;
    assert_ok(tide_protobuf_scan(NODE, tide_buffer_view(&fits), NULL, &facts, NULL));
    assert_int_equal(TIDE_PROTOBUF_DEPTH_MAX, facts.depth);

    TIDE_CLEANUP(tide_buffer_done) tide_buffer over;
    append_nested(&over, TIDE_PROTOBUF_DEPTH_MAX + 1);
    tide_error err;
    assert_status(TIDE_E_LIMIT,
                  tide_protobuf_scan(NODE, tide_buffer_view(&over), NULL, NULL, &err));
    assert_contains(err.text, "100 levels");

    const tide_protobuf_limits three = {.depth = 3};
    TIDE_CLEANUP(tide_buffer_done) tide_buffer four;
    append_nested(&four, 4);
    assert_status(TIDE_E_LIMIT,
                  tide_protobuf_scan(NODE, tide_buffer_view(&four), &three, NULL, &err));
}

/* 16,000 levels would end protobuf-c's recursion in the stack's guard page. */
static void sixteen_thousand_levels_are_refused(void **state)
{
    (void)state;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer bytes;
    append_nested(&bytes, 16000);
    tide_error err;
    assert_status(TIDE_E_LIMIT,
                  tide_protobuf_scan(NODE, tide_buffer_view(&bytes), NULL, NULL, &err));
}

/* What the descriptor does not know is bytes, and is not looked into. */
static void unknown_fields_are_not_descended_into(void **state)
{
    (void)state;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer nested;
    append_nested(&nested, 16000);
    TIDE_CLEANUP(tide_buffer_done) tide_buffer bytes;
    tide_buffer_init(&bytes, 1 << 20);
    assert_ok(tide_wire_append_bytes(&bytes, 99, tide_buffer_view(&nested)));
    assert_ok(tide_protobuf_scan(NODE, tide_buffer_view(&bytes), NULL, NULL, NULL));
}

/* 4 MB of empty messages: two bytes each on the wire, a struct and a pointer each in memory. */
static void millions_of_empty_messages_are_refused_for_their_memory(void **state)
{
    (void)state;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer bytes;
    tide_buffer_init(&bytes, 4 << 20);
    while (bytes.len + 2 <= bytes.max)
        assert_ok(tide_wire_append_bytes(&bytes, 3, tide_view_of("")));
    tide_error err;
    assert_status(TIDE_E_LIMIT,
                  tide_protobuf_scan(NODE, tide_buffer_view(&bytes), NULL, NULL, &err));
    assert_contains(err.text, "bytes of memory");
}

static void the_number_of_fields_has_a_limit(void **state)
{
    (void)state;
    tide_error err;
    const tide_protobuf_limits limits = {.fields = 3};
    const char bytes[] = "\x08\x01\x08\x02\x08\x03\x08\x04";
    assert_ok(tide_protobuf_scan(NUMBERS, tide_view_bytes(bytes, 6), &limits, NULL, &err));
    assert_status(TIDE_E_LIMIT,
                  tide_protobuf_scan(NUMBERS, tide_view_bytes(bytes, 8), &limits, NULL, &err));
    assert_contains(err.text, "3 fields");
}

/* proto3 strings are UTF-8, and protobuf-c ends them at a NUL. */
static void bad_text_is_refused_with_the_name_of_its_field(void **state)
{
    (void)state;
    tide_error err;
    assert_ok(SCAN(NUMBERS, "\x7A\x02\xC3\xA9", &err));
    assert_status(TIDE_E_INVALID, SCAN(NUMBERS, "\x7A\x02\xC3\x28", &err));
    assert_contains(err.text, "field text of tidemark.sample.v1.Numbers");
    assert_contains(err.text, "UTF-8");
    assert_status(TIDE_E_INVALID, SCAN(NUMBERS,
                                       "\x7A\x03"
                                       "a\0b",
                                       &err));
    assert_contains(err.text, "NUL");
    /* Bytes may be anything. */
    assert_ok(SCAN(NUMBERS, "\x82\x01\x02\xC3\x00", &err));
}

static void a_field_in_another_types_form_is_refused(void **state)
{
    (void)state;
    tide_error err;
    assert_status(TIDE_E_INVALID, SCAN(NUMBERS, "\x0A\x01\x01", &err)); /* int32 as bytes */
    assert_contains(err.text, "int32_value");
    assert_status(TIDE_E_INVALID, SCAN(NUMBERS, "\x78\x01", &err)); /* a text as a number */
    assert_contains(err.text, "field text");
    assert_status(TIDE_E_INVALID, SCAN(NODE, "\x10\x01", &err)); /* a message as a number */
    assert_contains(err.text, "child");
}

static void packed_and_loose_lists_are_both_fine_and_halves_are_not(void **state)
{
    (void)state;
    tide_error err;
    assert_ok(SCAN(LISTS, "\x0A\x03\x01\x80\x01\x08\x05", &err));
    assert_status(TIDE_E_INVALID, SCAN(LISTS, "\x0A\x02\x01\x80", &err));
    assert_contains(err.text, "int32_values");
    assert_status(TIDE_E_INVALID, SCAN(LISTS, "\x1A\x05\x01\x02\x03\x04\x05", &err));
    assert_contains(err.text, "half an element");
    assert_status(TIDE_E_INVALID, SCAN(LISTS, "\x22\x07\x01\x02\x03\x04\x05\x06\x07", &err));
}

/* A message that ends inside of another one's length does not reach into what follows. */
static void a_field_cannot_reach_beyond_its_message(void **state)
{
    (void)state;
    tide_error err;
    assert_status(TIDE_E_INVALID, SCAN(NODE, "\x12\x02\x0A\x01x", &err));
    assert_contains(err.text, "beyond the end");
    assert_ok(SCAN(NODE, "\x12\x03\x0A\x01x\x0A\x01y", &err));
}

static void nothing_is_a_message(void **state)
{
    (void)state;
    tide_protobuf_facts facts;
    assert_ok(tide_protobuf_scan(NODE, (tide_view){0}, NULL, &facts, NULL));
    assert_int_equal(1, facts.depth);
    assert_int_equal(0, facts.fields);
    assert_true(facts.memory_len >= sizeof(Tidemark__Sample__V1__Node));
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nesting_is_allowed_up_to_the_limit_and_not_beyond),
        cmocka_unit_test(sixteen_thousand_levels_are_refused),
        cmocka_unit_test(unknown_fields_are_not_descended_into),
        cmocka_unit_test(millions_of_empty_messages_are_refused_for_their_memory),
        cmocka_unit_test(the_number_of_fields_has_a_limit),
        cmocka_unit_test(bad_text_is_refused_with_the_name_of_its_field),
        cmocka_unit_test(a_field_in_another_types_form_is_refused),
        cmocka_unit_test(packed_and_loose_lists_are_both_fine_and_halves_are_not),
        cmocka_unit_test(a_field_cannot_reach_beyond_its_message),
        cmocka_unit_test(nothing_is_a_message),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
