#include "base/buffer.h"

#include <string.h>

#include "base/cleanup.h"
#include "support/check.h"

enum { BIG = 1 << 20 };

/* The maximum is exact, and a refused append changes nothing. */
static void a_buffer_never_grows_past_its_maximum(void **state)
{
    (void)state;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer b;
    tide_buffer_init(&b, 10);
    assert_ok(tide_buffer_append(&b, "12345678", 8));
    assert_status(TIDE_E_LIMIT, tide_buffer_append(&b, "abc", 3));
    assert_status(TIDE_E_LIMIT, tide_buffer_printf(&b, "%s", "abc"));
    assert_status(TIDE_E_LIMIT, tide_buffer_append_u32(&b, 1));
    assert_string_equal(tide_buffer_text(&b), "12345678");
    assert_ok(tide_buffer_printf(&b, "%d", 90));
    assert_string_equal(tide_buffer_text(&b), "1234567890");
    assert_status(TIDE_E_LIMIT, tide_buffer_append_byte(&b, 'x'));
    assert_ok(tide_buffer_append(&b, NULL, 0));
    assert_status(TIDE_E_LIMIT, tide_buffer_reserve(&b, SIZE_MAX));
}

/* No byte at all is also a maximum. */
static void a_maximum_of_nothing_holds_nothing(void **state)
{
    (void)state;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer b;
    tide_buffer_init(&b, 0);
    assert_string_equal(tide_buffer_text(&b), "");
    assert_ok(tide_buffer_append(&b, NULL, 0));
    assert_status(TIDE_E_LIMIT, tide_buffer_append_byte(&b, 1));
    assert_int_equal(tide_buffer_view(&b).len, 0);
}

/* Growing keeps every byte, and a terminator stands behind the last. */
static void growing_keeps_the_bytes(void **state)
{
    (void)state;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer b;
    tide_buffer_init(&b, BIG);
    for (size_t i = 0; i < 5000; i++) {
        assert_ok(tide_buffer_append_byte(&b, (uint8_t)i));
        assert_int_equal(b.ptr[b.len], 0);
    }
    assert_int_equal(b.len, 5000);
    for (size_t i = 0; i < 5000; i++)
        assert_int_equal((uint8_t)b.ptr[i], (uint8_t)i);
}

/* Clear and truncate forget; done makes it as new. */
static void a_buffer_can_be_used_again(void **state)
{
    (void)state;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer b;
    tide_buffer_init(&b, 100);
    assert_ok(tide_buffer_append_text(&b, "one two"));
    tide_buffer_truncate(&b, 3);
    assert_string_equal(tide_buffer_text(&b), "one");
    tide_buffer_clear(&b);
    assert_string_equal(tide_buffer_text(&b), "");
    tide_buffer_done(&b);
    assert_ok(tide_buffer_append_text(&b, "again"));
    assert_string_equal(tide_buffer_text(&b), "again");
}

/* Little endian, whatever the machine. */
static void fixed_integers_are_little_endian(void **state)
{
    (void)state;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer b;
    tide_buffer_init(&b, 100);
    assert_ok(tide_buffer_append_u32(&b, 0x01020304U));
    assert_ok(tide_buffer_append_u64(&b, 0x1112131415161718U));
    assert_memory_equal(b.ptr, "\x04\x03\x02\x01\x18\x17\x16\x15\x14\x13\x12\x11", 12);

    tide_reader r = tide_reader_of(tide_buffer_view(&b));
    uint32_t u32;
    uint64_t u64;
    assert_ok(tide_reader_u32(&r, &u32));
    assert_ok(tide_reader_u64(&r, &u64));
    assert_int_equal(u32, 0x01020304U);
    assert_true(u64 == 0x1112131415161718U);
    assert_int_equal(tide_reader_left(&r), 0);
}

static void decimals_are_those_of_printf(void **state)
{
    (void)state;
    static const int64_t numbers[] = {0, 7, -1, 10, -99, 1000000007, INT64_MAX, INT64_MIN};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        TIDE_CLEANUP(tide_buffer_done) tide_buffer got;
        TIDE_CLEANUP(tide_buffer_done) tide_buffer want;
        tide_buffer_init(&got, BIG);
        tide_buffer_init(&want, BIG);
        assert_ok(tide_buffer_append_decimal(&got, numbers[i]));
        assert_ok(tide_buffer_printf(&want, "%lld", (long long)numbers[i]));
        assert_true(tide_view_equal(tide_buffer_view(&want), tide_buffer_view(&got)));
    }
}

/* Known encodings: 7 bits per byte, lowest first. */
static void varints_have_their_known_bytes(void **state)
{
    (void)state;
    static const struct {
        uint64_t number;
        const char *bytes;
        size_t len;
    } rows[] = {
        {0, "\x00", 1},
        {127, "\x7F", 1},
        {128, "\x80\x01", 2},
        {300, "\xAC\x02", 2},
        {INT64_MAX, "\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x7F", 9},
        {UINT64_MAX, "\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01", 10},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        TIDE_CLEANUP(tide_buffer_done) tide_buffer b;
        tide_buffer_init(&b, 10);
        assert_ok(tide_buffer_append_varint(&b, rows[i].number));
        assert_int_equal(b.len, rows[i].len);
        assert_memory_equal(b.ptr, rows[i].bytes, rows[i].len);
        uint64_t number;
        tide_reader r = tide_reader_of(tide_buffer_view(&b));
        assert_ok(tide_reader_varint(&r, &number));
        assert_true(number == rows[i].number);
        r = tide_reader_of(tide_buffer_view(&b));
        assert_ok(tide_reader_varint_shortest(&r, &number));
        assert_true(number == rows[i].number);
        assert_int_equal(tide_reader_left(&r), 0);
    }
}

/* Small numbers of either sign are short; the ends of the range come back. */
static void zigzag_brings_back_every_sign(void **state)
{
    (void)state;
    static const int64_t numbers[] = {0, -1, 1, -64, 63, 64, INT64_MAX, INT64_MIN};
    TIDE_CLEANUP(tide_buffer_done) tide_buffer b;
    tide_buffer_init(&b, 100);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        assert_ok(tide_buffer_append_zigzag(&b, numbers[i]));
    assert_memory_equal(b.ptr, "\x00\x01\x02\x7F\x7E\x80\x01", 7);
    tide_reader r = tide_reader_of(tide_buffer_view(&b));
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        int64_t number;
        assert_ok(tide_reader_zigzag(&r, &number));
        assert_true(number == numbers[i]);
    }
    assert_int_equal(tide_reader_left(&r), 0);
}

static void refuse_varint(const char *bytes, size_t len)
{
    tide_reader r = tide_reader_of(tide_view_bytes(bytes, len));
    uint64_t number = 99;
    assert_status(TIDE_E_DAMAGED, tide_reader_varint(&r, &number));
    assert_int_equal(r.offset, 0);
    assert_true(number == 99);
}

/* No end, an 11th byte, a 65th bit: refused, and the reader stays. */
static void malformed_varints_are_refused(void **state)
{
    (void)state;
    refuse_varint(NULL, 0);
    refuse_varint("\x80", 1);
    refuse_varint("\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF", 9);
    refuse_varint("\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x02", 10);
    refuse_varint("\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x00", 11);
}

/* Padding is read, except where equal values must have equal bytes. */
static void padded_varints_are_read_but_not_as_shortest(void **state)
{
    (void)state;
    const tide_view padded = tide_view_bytes("\x85\x80\x80\x80\x80\x80\x80\x80\x80\x00", 10);
    uint64_t number = 99;
    tide_reader r = tide_reader_of(padded);
    assert_status(TIDE_E_DAMAGED, tide_reader_varint_shortest(&r, &number));
    assert_int_equal(r.offset, 0);
    assert_true(number == 99);
    assert_ok(tide_reader_varint(&r, &number));
    assert_int_equal(number, 5);
    assert_int_equal(tide_reader_left(&r), 0);
}

/* What is not there is not read. */
static void reading_past_the_end_is_damage(void **state)
{
    (void)state;
    tide_reader r = tide_reader_of(tide_view_bytes("abc", 3));
    tide_view bytes = tide_view_of("before");
    uint32_t u32 = 7;
    uint64_t u64 = 7;
    uint8_t byte;
    assert_status(TIDE_E_DAMAGED, tide_reader_bytes(&r, 4, &bytes));
    assert_status(TIDE_E_DAMAGED, tide_reader_bytes(&r, SIZE_MAX, &bytes));
    assert_status(TIDE_E_DAMAGED, tide_reader_u32(&r, &u32));
    assert_status(TIDE_E_DAMAGED, tide_reader_u64(&r, &u64));
    assert_string_equal(bytes.ptr, "before");
    assert_int_equal(u32 + u64, 14);
    assert_ok(tide_reader_bytes(&r, 2, &bytes));
    assert_true(tide_view_equal(bytes, tide_view_of("ab")));
    assert_ok(tide_reader_byte(&r, &byte));
    assert_int_equal(byte, 'c');
    assert_status(TIDE_E_DAMAGED, tide_reader_byte(&r, &byte));
    assert_ok(tide_reader_bytes(&r, 0, &bytes));
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_buffer_never_grows_past_its_maximum),
        cmocka_unit_test(a_maximum_of_nothing_holds_nothing),
        cmocka_unit_test(growing_keeps_the_bytes),
        cmocka_unit_test(a_buffer_can_be_used_again),
        cmocka_unit_test(fixed_integers_are_little_endian),
        cmocka_unit_test(decimals_are_those_of_printf),
        cmocka_unit_test(varints_have_their_known_bytes),
        cmocka_unit_test(zigzag_brings_back_every_sign),
        cmocka_unit_test(malformed_varints_are_refused),
        cmocka_unit_test(padded_varints_are_read_but_not_as_shortest),
        cmocka_unit_test(reading_past_the_end_is_damage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
