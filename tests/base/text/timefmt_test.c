#include "base/text/timefmt.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "support/check.h"
#include "support/prng.h"

static const struct {
    int64_t us;
    const char *text;
} KNOWN[] = {
    {0, "1970-01-01 00:00:00.000000"},
    {-1, "1969-12-31 23:59:59.999999"},
    {1, "1970-01-01 00:00:00.000001"},
    {INT64_C(951782400000000), "2000-02-29 00:00:00.000000"},
    {INT64_C(1709210096789012), "2024-02-29 12:34:56.789012"},
    {INT64_C(4107542400000000), "2100-03-01 00:00:00.000000"},
    {INT64_C(-2203891200000000), "1900-03-01 00:00:00.000000"},
    {INT64_C(253402300799999999), "9999-12-31 23:59:59.999999"},
    {INT64_C(-62135596800000000), "0001-01-01 00:00:00.000000"},
};

/* The one written form, and back. */
static void known_times_have_known_texts(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof KNOWN / sizeof KNOWN[0]; i++) {
        char text[TIDE_TIME_TEXT_SIZE];
        assert_ok(tide_time_format(KNOWN[i].us, text));
        assert_string_equal(text, KNOWN[i].text);
        int64_t us;
        assert_ok(tide_time_parse(&us, tide_view_of(KNOWN[i].text)));
        assert_true(us == KNOWN[i].us);
    }
}

/* Beyond four digits of year a text would no longer sort. */
static void times_outside_the_calendar_are_refused(void **state)
{
    (void)state;
    static const int64_t outside[] = {TIDE_TIME_MAX_US + 1, TIDE_TIME_MIN_US - 1, INT64_MAX,
                                      INT64_MIN};
    for (size_t i = 0; i < sizeof outside / sizeof outside[0]; i++) {
        char text[TIDE_TIME_TEXT_SIZE] = "before";
        assert_status(TIDE_E_INVALID, tide_time_format(outside[i], text));
        assert_string_equal(text, "");
    }
}

/* Against the C library's own arithmetic: every day of the 400 years after which the calendar
 * repeats, every eleventh of the others. */
static void days_agree_with_the_c_library(void **state)
{
    (void)state;
    const int64_t day_us = INT64_C(86400000000);
    const int64_t era_us = 146097 * day_us;
    int64_t step_us;
    for (int64_t us = TIDE_TIME_MIN_US; us <= TIDE_TIME_MAX_US; us += step_us) {
        step_us = us >= 0 && us < era_us ? day_us : 11 * day_us;
        char text[TIDE_TIME_TEXT_SIZE];
        assert_ok(tide_time_format(us, text));
        const time_t seconds = (time_t)(us / 1000000);
        struct tm tm;
        assert_non_null(gmtime_r(&seconds, &tm));
        char want[64];
        (void)snprintf(want, sizeof want, "%04d-%02d-%02d 00:00:00.000000", tm.tm_year + 1900,
                       tm.tm_mon + 1, tm.tm_mday);
        if (strcmp(text, want) != 0)
            fail_msg("%s, want %s", text, want);
        int64_t again;
        assert_ok(tide_time_parse(&again, tide_view_bytes(text, 10)));
        assert_true(again == us);
    }
}

/* Random instants come back from their text, and texts sort as the times do. */
static void random_times_come_back_and_sort(void **state)
{
    (void)state;
    prng random;
    prng_init(&random, prng_seed_from_env(20240229));
    int64_t last_us = 0;
    char last_text[TIDE_TIME_TEXT_SIZE] = "1970-01-01 00:00:00.000000";
    for (int i = 0; i < 20000; i++) {
        const uint64_t span = (uint64_t)(TIDE_TIME_MAX_US - TIDE_TIME_MIN_US) + 1;
        const int64_t us = TIDE_TIME_MIN_US + (int64_t)prng_below(&random, span);
        char text[TIDE_TIME_TEXT_SIZE];
        int64_t again;
        assert_ok(tide_time_format(us, text));
        assert_ok(tide_time_parse(&again, tide_view_of(text)));
        assert_true(again == us);
        assert_true((strcmp(text, last_text) < 0) == (us < last_us));
        last_us = us;
        memcpy(last_text, text, sizeof text);
    }
}

/* What other programs write. */
static void foreign_forms_of_one_instant_are_equal(void **state)
{
    (void)state;
    static const char *const forms[] = {
        "2024-02-29 12:30:00",         "2024-02-29T12:30:00",
        "2024-02-29T12:30:00Z",        "2024-02-29 12:30:00.0",
        "2024-02-29T12:30:00.000000Z", "2024-02-29T12:30:00.000000999Z",
        "2024-02-29T14:30:00+02:00",   "2024-02-29 07:00:00.000-05:30",
        "2024-03-01T02:30:00.0+14:00", "2024-02-29T12:30:00-00:00",
    };
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        int64_t us;
        if (tide_time_parse(&us, tide_view_of(forms[i])) != TIDE_OK)
            fail_msg("refused: %s", forms[i]);
        assert_true(us == INT64_C(1709209800000000));
    }
    int64_t us;
    assert_ok(tide_time_parse(&us, tide_view_of("1969-12-31 23:59:59.9999999")));
    assert_true(us == -1);
    assert_ok(tide_time_parse(&us, tide_view_of("1970-01-01 00:00:00.12")));
    assert_true(us == 120000);
}

/* Anything else is refused, and the result untouched. */
static void malformed_times_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        "now",
        "2024",
        "2024-02",
        "2024-2-29",
        "2024-02-30",
        "2023-02-29",
        "1900-02-29",
        "2024-13-01",
        "2024-00-01",
        "2024-01-00",
        "2024-04-31",
        "0000-01-01",
        "-001-01-01",
        "+2024-01-01",
        "10000-01-01",
        "2024/01/01",
        " 2024-01-01",
        "2024-01-01 ",
        "2024-01-01Z",
        "2024-01-01T",
        "2024-01-01 12:30",
        "2024-01-01 24:00:00",
        "2024-01-01 12:60:00",
        "2024-01-01 23:59:60",
        "2024-01-01  12:30:00",
        "2024-01-01t12:30:00",
        "2024-01-01 12:30:00.",
        "2024-01-01 12:30:00.Z",
        "2024-01-01 12:30:00.1234567890",
        "2024-01-01 12:30:00,5",
        "2024-01-01 12:30:00z",
        "2024-01-01 12:30:00 Z",
        "2024-01-01 12:30:00+00",
        "2024-01-01 12:30:00+0000",
        "2024-01-01 12:30:00+24:00",
        "2024-01-01 12:30:00+00:60",
        "2024-01-01 12:30:00+-1:00",
        "2024-01-01 12:30:00Z0",
        "2024-01-01 12:30:00+00:00Z",
        "0001-01-01 00:00:00+00:01",
        "9999-12-31 23:59:59-00:01",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        int64_t us = 77;
        if (tide_time_parse(&us, tide_view_of(bad[i])) != TIDE_E_INVALID)
            fail_msg("accepted: '%s'", bad[i]);
        assert_true(us == 77);
    }
    int64_t us;
    assert_status(TIDE_E_INVALID, tide_time_parse(&us, (tide_view){0}));
    assert_status(TIDE_E_INVALID, tide_time_parse(&us, tide_view_bytes("2024-01-01\0", 11)));
}

typedef tide_status parse_function(int64_t *out, const char *text);

static void expect_number(parse_function *parse, const char *text, int64_t want)
{
    int64_t got = -1;
    if (parse(&got, text) != TIDE_OK || got != want)
        fail_msg("'%s' read as %lld", text, (long long)got);
}

static void expect_refused(parse_function *parse, const char *const *texts)
{
    for (; *texts; texts++) {
        int64_t got = 77;
        if (parse(&got, *texts) != TIDE_E_INVALID || got != 77)
            fail_msg("accepted: '%s'", *texts);
    }
}

static tide_status parse_duration(int64_t *out, const char *text)
{
    return tide_duration_parse(out, text);
}

static tide_status parse_size(int64_t *out, const char *text)
{
    return tide_size_parse(out, text);
}

/* A number without a unit would be read differently by every reader. */
static void durations_have_a_unit(void **state)
{
    (void)state;
    static const char *const bad[] = {"",    "s",  "5",  "-5s",  "+5s",  "1.5s", " 5s", "5 s",
                                      "5s ", "5S", "5w", "0x5s", "5sec", "5ms5", NULL};
    static const char *const beyond[] = {"9223372036854775808us", "99999999999999999999s",
                                         "106751992d", NULL};
    expect_number(parse_duration, "0", 0);
    expect_number(parse_duration, "0s", 0);
    expect_number(parse_duration, "10us", 10);
    expect_number(parse_duration, "250ms", 250000);
    expect_number(parse_duration, "30s", 30000000);
    expect_number(parse_duration, "5m", 300000000);
    expect_number(parse_duration, "1h", INT64_C(3600000000));
    expect_number(parse_duration, "7d", INT64_C(604800000000));
    expect_number(parse_duration, "9223372036854775807us", INT64_MAX);
    expect_number(parse_duration, "106751991d", INT64_C(106751991) * 86400 * 1000000);
    expect_refused(parse_duration, bad);
    expect_refused(parse_duration, beyond);
}

/* Bytes, or binary units; decimal ones are ambiguous. */
static void sizes_are_bytes_or_binary_units(void **state)
{
    (void)state;
    static const char *const bad[] = {"",     "KiB",   "-1",     "1KB",   "1K",
                                      "1kib", "1 KiB", "1.5MiB", "1KiB ", NULL};
    static const char *const beyond[] = {"9223372036854775808", "8388608TiB", NULL};
    expect_number(parse_size, "0", 0);
    expect_number(parse_size, "4096", 4096);
    expect_number(parse_size, "64KiB", 65536);
    expect_number(parse_size, "16MiB", 16777216);
    expect_number(parse_size, "1GiB", 1073741824);
    expect_number(parse_size, "2TiB", INT64_C(2199023255552));
    expect_number(parse_size, "8388607TiB", INT64_C(8388607) << 40);
    expect_number(parse_size, "9223372036854775807", INT64_MAX);
    expect_refused(parse_size, bad);
    expect_refused(parse_size, beyond);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_times_have_known_texts),
        cmocka_unit_test(times_outside_the_calendar_are_refused),
        cmocka_unit_test(days_agree_with_the_c_library),
        cmocka_unit_test(random_times_come_back_and_sort),
        cmocka_unit_test(foreign_forms_of_one_instant_are_equal),
        cmocka_unit_test(malformed_times_are_refused),
        cmocka_unit_test(durations_have_a_unit),
        cmocka_unit_test(sizes_are_bytes_or_binary_units),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
