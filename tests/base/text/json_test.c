#include "base/text/json.h"

#include <float.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "support/check.h"
#include "support/prng.h"

/* Commas and colons where they belong, at every depth. */
static void a_document_is_written_piece_by_piece(void **state)
{
    (void)state;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer out;
    tide_buffer_init(&out, 1000);
    tide_json json;
    tide_json_init(&json, &out);
    tide_json_object_begin(&json);
    tide_json_key(&json, "name");
    tide_json_text(&json, "orders");
    tide_json_key(&json, "numbers");
    tide_json_array_begin(&json);
    tide_json_i64(&json, INT64_MIN);
    tide_json_i64(&json, INT64_MAX);
    tide_json_array_begin(&json);
    tide_json_array_end(&json);
    tide_json_object_begin(&json);
    tide_json_object_end(&json);
    tide_json_double(&json, 0.5);
    tide_json_array_end(&json);
    tide_json_key(&json, "ok");
    tide_json_bool(&json, true);
    tide_json_key(&json, "bad");
    tide_json_bool(&json, false);
    tide_json_key(&json, "none");
    tide_json_null(&json);
    tide_json_key(&json, "absent");
    tide_json_text(&json, NULL);
    tide_json_key(&json, "view");
    tide_json_view(&json, tide_view_bytes("abc", 2));
    tide_json_object_end(&json);
    assert_ok(tide_json_finish(&json));
    assert_string_equal(tide_buffer_text(&out),
                        "{\"name\":\"orders\",\"numbers\":[-9223372036854775808,"
                        "9223372036854775807,[],{},0.5],\"ok\":true,\"bad\":false,\"none\":null,"
                        "\"absent\":null,\"view\":\"ab\"}");
}

static void expect_quoted(tide_view text, const char *want)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer out;
    tide_buffer_init(&out, 1000);
    assert_ok(tide_json_append_string(&out, text));
    assert_string_equal(tide_buffer_text(&out), want);
}

/* RFC 8259, 7: quotes, backslashes and control characters; never anything that is not UTF-8. */
static void strings_are_escaped(void **state)
{
    (void)state;
    expect_quoted((tide_view){0}, "\"\"");
    expect_quoted(tide_view_of("a\"b\\c/d"), "\"a\\\"b\\\\c/d\"");
    expect_quoted(tide_view_of("\n\r\t\b\x1F\x7F"), "\"\\n\\r\\t\\u0008\\u001f\\u007f\"");
    expect_quoted(tide_view_bytes("a\0b", 3), "\"a\\u0000b\"");
    expect_quoted(tide_view_of("\xC3\xBC\xF0\x9F\x8C\x8A"), "\"\xC3\xBC\xF0\x9F\x8C\x8A\"");
    expect_quoted(tide_view_of("x\xFFy\xE2\x82"), "\"x\xEF\xBF\xBDy\xEF\xBF\xBD\"");
}

static void expect_double(double number, const char *want)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer out;
    tide_buffer_init(&out, 100);
    assert_ok(tide_json_append_double(&out, number));
    assert_string_equal(tide_buffer_text(&out), want);
}

/* The fewest digits that read back as the same value. */
static void doubles_are_as_short_as_they_can_be(void **state)
{
    (void)state;
    expect_double(0, "0");
    expect_double(-0.0, "-0");
    expect_double(0.1, "0.1");
    expect_double(1.0 / 3, "0.3333333333333333");
    expect_double(0.1 + 0.2, "0.30000000000000004");
    expect_double(100, "100");
    expect_double(1e15, "1e+15");
    expect_double(123456, "123456");
    expect_double(DBL_MAX, "1.7976931348623157e+308");
    expect_double(5e-324, "5e-324");
    expect_double(NAN, "null");
    expect_double(INFINITY, "null");
    expect_double(-INFINITY, "null");
}

static void shortest(char text[64], double number)
{
    for (int digits = 1; digits <= 17; digits++) {
        (void)snprintf(text, 64, "%.*g", digits, number);
        if (strtod(text, NULL) == number)
            break;
    }
}

/* Few decimals are written by another way than many: the digits are the same. */
static void few_decimals_are_as_short_as_many(void **state)
{
    (void)state;
    static const double powers[] = {10, 100, 1e3, 1e4, 1e5, 1e6, 1e7};
    uint64_t seed = 1;
    for (int i = 0; i < 200000; i++) {
        char want[64];
        seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        const int64_t digits = (int64_t)(seed >> 11) >> (seed % 50);
        double number = (double)digits / powers[i % 7];
        if (i % 3 == 1)
            number = nextafter(number, 0);
        if (i % 2 == 1)
            number = -number;
        if (fabs(number) < 1e15 && floor(number) == number)
            continue;
        shortest(want, number);
        expect_double(number, want);
    }
    expect_double(0.001, "0.001");
    expect_double(-0.5, "-0.5");
    expect_double(999999999.5, "999999999.5");
}

/* No double changes on its way. */
static void random_doubles_come_back(void **state)
{
    (void)state;
    prng random;
    prng_init(&random, prng_seed_from_env(17));
    for (int i = 0; i < 5000; i++) {
        const uint64_t bits = prng_u64(&random);
        double number;
        memcpy(&number, &bits, sizeof number);
        if (!isfinite(number))
            continue;
        TIDE_CLEANUP(tide_buffer_done) tide_buffer out;
        tide_buffer_init(&out, 100);
        assert_ok(tide_json_append_double(&out, number));
        const double again = strtod(tide_buffer_text(&out), NULL);
        assert_memory_equal(&again, &number, sizeof number);
    }
}

/* JSON knows one decimal point, whatever the user's language has. */
static void a_locale_does_not_change_the_decimal_point(void **state)
{
    (void)state;
    static const char *const locales[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8",
                                          "ps_AF.UTF-8"};
    for (size_t i = 0; i < sizeof locales / sizeof locales[0]; i++) {
        if (setlocale(LC_NUMERIC, locales[i]))
            expect_double(-1234.5, "-1234.5");
    }
    assert_non_null(setlocale(LC_NUMERIC, "C"));
    expect_double(-1234.5, "-1234.5");
}

/* One check at the end is enough: the first failure stays. */
static void a_full_buffer_is_reported_at_the_end(void **state)
{
    (void)state;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer out;
    tide_buffer_init(&out, 10);
    tide_json json;
    tide_json_init(&json, &out);
    tide_json_array_begin(&json);
    tide_json_text(&json, "far too long for it");
    tide_json_i64(&json, 1);
    tide_json_double(&json, 1);
    tide_json_null(&json);
    tide_json_object_begin(&json);
    tide_json_key(&json, "k");
    tide_json_bool(&json, true);
    tide_json_object_end(&json);
    tide_json_array_end(&json);
    assert_status(TIDE_E_LIMIT, tide_json_finish(&json));
    assert_true(out.len <= 10);
}

/* As deep as promised. */
static void levels_may_be_as_deep_as_the_limit(void **state)
{
    (void)state;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer out;
    tide_buffer_init(&out, 1000);
    tide_json json;
    tide_json_init(&json, &out);
    for (int i = 0; i < TIDE_JSON_DEPTH_MAX / 2; i++) {
        tide_json_object_begin(&json);
        tide_json_key(&json, "k");
        tide_json_array_begin(&json);
        tide_json_i64(&json, 1);
    }
    for (int i = 0; i < TIDE_JSON_DEPTH_MAX / 2; i++) {
        tide_json_array_end(&json);
        tide_json_object_end(&json);
    }
    assert_ok(tide_json_finish(&json));
    /* {"k":[1 and ]} per pair of levels, and commas between the pairs */
    const size_t pairs = TIDE_JSON_DEPTH_MAX / 2;
    assert_int_equal(out.len, pairs * 9 + pairs - 1);
    assert_memory_equal(out.ptr, "{\"k\":[1,{\"k\":[1,{", 17);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_document_is_written_piece_by_piece),
        cmocka_unit_test(strings_are_escaped),
        cmocka_unit_test(doubles_are_as_short_as_they_can_be),
        cmocka_unit_test(few_decimals_are_as_short_as_many),
        cmocka_unit_test(random_doubles_come_back),
        cmocka_unit_test(a_locale_does_not_change_the_decimal_point),
        cmocka_unit_test(a_full_buffer_is_reported_at_the_end),
        cmocka_unit_test(levels_may_be_as_deep_as_the_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
