#include "net/codec/protobuf_wire.h"

#include <string.h>

#include "base/cleanup.h"
#include "support/check.h"

static tide_status next_of(const char *bytes, size_t len, tide_wire_field *field, tide_error *err)
{
    tide_reader reader = tide_reader_of(tide_view_bytes(bytes, len));
    return tide_wire_next(&reader, field, err);
}

#define NEXT_OF(literal, field, err) next_of(literal, sizeof(literal) - 1, field, err)

/* What the writers write is read back as it was. */
static void fields_written_are_read_again(void **state)
{
    (void)state;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer out;
    tide_buffer_init(&out, 1000);
    assert_ok(tide_wire_append_varint(&out, 1, UINT64_MAX));
    assert_ok(tide_wire_append_fixed64(&out, 2, 0x0102030405060708));
    assert_ok(tide_wire_append_fixed32(&out, 3, 0x01020304));
    assert_ok(tide_wire_append_text(&out, 536870911, "tide"));

    tide_reader reader = tide_reader_of(tide_buffer_view(&out));
    tide_wire_field field;
    assert_ok(tide_wire_next(&reader, &field, NULL));
    assert_true(field.number == 1 && field.type == TIDE_WIRE_VARINT && field.value == UINT64_MAX);
    assert_ok(tide_wire_next(&reader, &field, NULL));
    assert_true(field.type == TIDE_WIRE_FIXED64 && field.value == 0x0102030405060708);
    assert_ok(tide_wire_next(&reader, &field, NULL));
    assert_true(field.type == TIDE_WIRE_FIXED32 && field.value == 0x01020304);
    assert_ok(tide_wire_next(&reader, &field, NULL));
    assert_true(field.number == 536870911 && field.type == TIDE_WIRE_BYTES);
    assert_true(tide_view_equal(field.bytes, tide_view_of("tide")));
    assert_status(TIDE_NONE, tide_wire_next(&reader, &field, NULL));
}

/* A bracket's length comes in front of its content, however long that became. */
static void brackets_nest_and_carry_their_length(void **state)
{
    (void)state;
    const size_t lens[] = {0, 1, 127, 128, 16383, 16384, 300000};
    for (size_t i = 0; i < sizeof lens / sizeof lens[0]; i++) {
        TIDE_CLEANUP(tide_buffer_done) tide_buffer out;
        tide_buffer_init(&out, 1 << 20);
        size_t outer_at;
        size_t inner_at;
        assert_ok(tide_wire_begin(&out, 1, &outer_at));
        assert_ok(tide_wire_begin(&out, 2, &inner_at));
        for (size_t n = 0; n < lens[i]; n++)
            assert_ok(tide_buffer_append_byte(&out, (uint8_t)n));
        assert_ok(tide_wire_end(&out, inner_at));
        assert_ok(tide_wire_append_varint(&out, 3, 7));
        assert_ok(tide_wire_end(&out, outer_at));

        tide_reader reader = tide_reader_of(tide_buffer_view(&out));
        tide_wire_field outer;
        assert_ok(tide_wire_next(&reader, &outer, NULL));
        assert_status(TIDE_NONE, tide_wire_next(&reader, &outer, NULL));
        tide_reader inside = tide_reader_of(outer.bytes);
        tide_wire_field field;
        assert_ok(tide_wire_next(&inside, &field, NULL));
        assert_int_equal(lens[i], field.bytes.len);
        for (size_t n = 0; n < lens[i]; n++)
            assert_int_equal((uint8_t)n, (uint8_t)field.bytes.ptr[n]);
        assert_ok(tide_wire_next(&inside, &field, NULL));
        assert_int_equal(7, field.value);
    }
}

/* A field that does not fit leaves no half of itself behind. */
static void a_full_buffer_keeps_whole_fields_only(void **state)
{
    (void)state;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer out;
    tide_buffer_init(&out, 5);
    assert_ok(tide_wire_append_varint(&out, 1, 1));
    assert_status(TIDE_E_LIMIT, tide_wire_append_text(&out, 2, "long"));
    assert_status(TIDE_E_LIMIT, tide_wire_append_fixed64(&out, 2, 1));
    assert_status(TIDE_E_LIMIT, tide_wire_append_fixed32(&out, 2, 1));
    assert_int_equal(2, out.len);
    assert_ok(tide_wire_append_text(&out, 2, "x"));
}

/* Groups, number 0, tags and lengths of six bytes, numbers of eleven, lengths beyond the end. */
static void what_is_not_protobuf_is_refused_with_a_reason(void **state)
{
    (void)state;
    tide_error err;
    tide_wire_field field;
    assert_status(TIDE_E_INVALID, NEXT_OF("\x0B", &field, &err));
    assert_contains(err.text, "group");
    assert_status(TIDE_E_INVALID, NEXT_OF("\x0C", &field, &err));
    assert_contains(err.text, "group");
    assert_status(TIDE_E_INVALID, NEXT_OF("\x0F", &field, &err));
    assert_contains(err.text, "wire type");
    assert_status(TIDE_E_INVALID, NEXT_OF("\x00\x01", &field, &err));
    assert_contains(err.text, "number 0");
    assert_status(TIDE_E_INVALID, NEXT_OF("\x88\x80\x80\x80\x80\x00\x01", &field, &err));
    assert_contains(err.text, "tag");
    assert_status(TIDE_E_INVALID, NEXT_OF("\x0A\x81\x80\x80\x80\x80\x00x", &field, &err));
    assert_contains(err.text, "length");
    assert_status(TIDE_E_INVALID, NEXT_OF("\x0A\x05"
                                          "four",
                                          &field, &err));
    assert_contains(err.text, "beyond the end");
    assert_status(TIDE_E_INVALID,
                  NEXT_OF("\x08\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x02", &field, &err));
    assert_contains(err.text, "does not end");
    assert_status(TIDE_E_INVALID, NEXT_OF("\x09\x01\x02", &field, &err));
    assert_status(TIDE_E_INVALID, NEXT_OF("\x0D\x01\x02", &field, &err));
    assert_status(TIDE_E_INVALID, NEXT_OF("\x08", &field, &err));
}

/* Numbers of records are padded to ten bytes. */
static void a_padded_number_is_read(void **state)
{
    (void)state;
    tide_wire_field field;
    assert_ok(NEXT_OF("\x08\x85\x80\x80\x80\x80\x80\x80\x80\x80\x00", &field, NULL));
    assert_int_equal(5, field.value);
}

static void zigzag_goes_both_ways(void **state)
{
    (void)state;
    const int64_t numbers[] = {0, -1, 1, -2, INT64_MAX, INT64_MIN};
    const uint64_t coded[] = {0, 1, 2, 3, UINT64_MAX - 1, UINT64_MAX};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        assert_true(tide_wire_zigzag(numbers[i]) == coded[i]);
        assert_true(tide_wire_unzigzag(coded[i]) == numbers[i]);
    }
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fields_written_are_read_again),
        cmocka_unit_test(brackets_nest_and_carry_their_length),
        cmocka_unit_test(a_full_buffer_keeps_whole_fields_only),
        cmocka_unit_test(what_is_not_protobuf_is_refused_with_a_reason),
        cmocka_unit_test(a_padded_number_is_read),
        cmocka_unit_test(zigzag_goes_both_ways),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
