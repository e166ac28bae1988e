#include "base/text/utf8.h"

#include <string.h>

#include "base/cleanup.h"
#include "support/check.h"
#include "support/prng.h"

#define FFFD "\xEF\xBF\xBD"

/* All lengths of character, and the ends of every range. */
static void valid_text_is_left_as_it_is(void **state)
{
    (void)state;
    static const char *const good[] = {
        "",
        "plain",
        "\x7F",
        "\xC2\x80",
        "\xDF\xBF",
        "\xE0\xA0\x80",
        "\xED\x9F\xBF",
        "\xEE\x80\x80",
        "\xEF\xBF\xBF",
        "\xF0\x90\x80\x80",
        "\xF4\x8F\xBF\xBF",
        "gr\xC3\xBC\xC3\x9F\x65 \xF0\x9F\x8C\x8A",
    };
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        TIDE_CLEANUP(tide_buffer_done) tide_buffer out;
        tide_buffer_init(&out, 100);
        size_t replaced = 9;
        assert_true(tide_utf8_valid(tide_view_of(good[i])));
        assert_ok(tide_utf8_clean(&out, tide_view_of(good[i]), &replaced));
        assert_int_equal(replaced, 0);
        assert_string_equal(tide_buffer_text(&out), good[i]);
    }
}

/* Each maximal prefix of a broken character becomes one U+FFFD (Unicode, table 3-8
 * and on). */
static void broken_text_is_replaced_and_counted(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t len;
        const char *clean;
        size_t replaced;
    } rows[] = {
        {"\x80", 1, FFFD, 1},
        {"a\xFF\x62", 3, "a" FFFD "b", 1},
        {"\xC0\xAF", 2, FFFD FFFD, 2},                   /* overlong */
        {"\xE0\x80\xBF", 3, FFFD FFFD FFFD, 3},          /* overlong */
        {"\xED\xA0\x80", 3, FFFD FFFD FFFD, 3},          /* surrogate */
        {"\xF4\x90\x80\x80", 4, FFFD FFFD FFFD FFFD, 4}, /* above U+10FFFF */
        {"\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41", 9, FFFD FFFD FFFD FFFD "A", 4}, /* cut short */
        {"x\xE2\x82", 3, "x" FFFD, 1}, /* cut at the end */
        {"a\0b", 3, "a" FFFD "b", 1},
        {"\0", 1, FFFD, 1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        TIDE_CLEANUP(tide_buffer_done) tide_buffer out;
        tide_buffer_init(&out, 100);
        size_t replaced = 0;
        const tide_view bytes = tide_view_bytes(rows[i].bytes, rows[i].len);
        assert_false(tide_utf8_valid(bytes));
        assert_ok(tide_utf8_clean(&out, bytes, &replaced));
        assert_string_equal(tide_buffer_text(&out), rows[i].clean);
        assert_int_equal(replaced, rows[i].replaced);
    }
}

/* Whatever comes in, what goes out is valid, and cleaning it again changes nothing. */
static void random_bytes_come_out_valid(void **state)
{
    (void)state;
    prng random;
    prng_init(&random, prng_seed_from_env(8));
    for (int round = 0; round < 3000; round++) {
        char bytes[40];
        const size_t len = prng_below(&random, sizeof bytes + 1);
        prng_fill(&random, bytes, len);
        if (prng_chance(&random, 1, 2)) {
            for (size_t i = 0; i < len; i++)
                bytes[i] = "\xF0\x9F\x8C\x8A\xE2\x82\xAC\xED\xA0\x61"[(unsigned char)bytes[i] % 10];
        }
        TIDE_CLEANUP(tide_buffer_done) tide_buffer once;
        TIDE_CLEANUP(tide_buffer_done) tide_buffer twice;
        tide_buffer_init(&once, 1000);
        tide_buffer_init(&twice, 1000);
        size_t replaced;
        assert_ok(tide_utf8_clean(&once, tide_view_bytes(bytes, len), &replaced));
        assert_int_equal(replaced == 0, tide_utf8_valid(tide_view_bytes(bytes, len)));
        assert_true(tide_utf8_valid(tide_buffer_view(&once)));
        assert_ok(tide_utf8_clean(&twice, tide_buffer_view(&once), &replaced));
        assert_int_equal(replaced, 0);
        assert_true(tide_view_equal(tide_buffer_view(&once), tide_buffer_view(&twice)));
    }
}

/* All or nothing. */
static void text_that_does_not_fit_leaves_the_buffer_alone(void **state)
{
    (void)state;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer out;
    tide_buffer_init(&out, 8);
    size_t replaced = 9;
    assert_ok(tide_buffer_append_text(&out, "abc"));
    assert_status(TIDE_E_LIMIT, tide_utf8_clean(&out, tide_view_of("x\xFF\xFF"), &replaced));
    assert_string_equal(tide_buffer_text(&out), "abc");
    assert_int_equal(replaced, 9);
}

/* A cut falls between characters. */
static void a_cut_does_not_split_a_character(void **state)
{
    (void)state;
    const tide_view text = tide_view_of("a\xE2\x82\xAC\x62");
    static const size_t lens[] = {0, 1, 1, 1, 4, 5, 5};
    for (size_t max = 0; max < sizeof lens / sizeof lens[0]; max++)
        assert_int_equal(tide_utf8_cut(text, max).len, lens[max]);
    assert_int_equal(tide_utf8_cut(tide_view_of("\x80\x80\x80\x80\x80\x80\x80\x80"), 7).len, 4);
}

/* Both ends of every length. */
static void a_character_is_written_as_it_is_read(void **state)
{
    (void)state;
    static const uint32_t characters[] = {0x00,  0x7F,   0x80,    0x7FF,
                                          0x800, 0xFFFF, 0x10000, 0x10FFFF};
    for (size_t i = 0; i < sizeof characters / sizeof characters[0]; i++) {
        char bytes[4];
        size_t len = 0;
        const size_t put_len = tide_utf8_put(bytes, characters[i]);
        assert_int_equal(put_len, i / 2 + 1);
        assert_true(tide_utf8_next(tide_view_bytes(bytes, put_len), &len));
        assert_int_equal(len, put_len);
    }
    char bytes[4];
    assert_int_equal(tide_utf8_put(bytes, 0x20AC), 3);
    assert_memory_equal(bytes, "\xE2\x82\xAC", 3);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(valid_text_is_left_as_it_is),
        cmocka_unit_test(broken_text_is_replaced_and_counted),
        cmocka_unit_test(random_bytes_come_out_valid),
        cmocka_unit_test(text_that_does_not_fit_leaves_the_buffer_alone),
        cmocka_unit_test(a_cut_does_not_split_a_character),
        cmocka_unit_test(a_character_is_written_as_it_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
