/* cron_test.c - which expressions are accepted, and which time comes next. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/text/timefmt.h"
#include "support/check.h"
#include "support/prng.h"
#include "work/schedule/cron.h"

static const int64_t MINUTE_US = INT64_C(60000000);

static tide_cron parse(const char *text)
{
    tide_cron cron;
    tide_error err;
    assert_ok_err(tide_cron_parse(&cron, text, &err), &err);
    return cron;
}

static int64_t time_of(const char *text)
{
    int64_t us;
    assert_ok(tide_time_parse(&us, tide_view_of(text)));
    return us;
}

/* The times that follow `after`, one after the other; a list ended by NULL. */
static void expect_times(const char *expression, const char *after, const char *const *want)
{
    const tide_cron cron = parse(expression);
    int64_t us = time_of(after);
    for (; *want; want++) {
        assert_ok(tide_cron_next(&cron, us, &us));
        char text[TIDE_TIME_TEXT_SIZE];
        assert_ok(tide_time_format(us, text));
        assert_memory_equal(text + 16, ":00.000000", 10);
        text[16] = '\0';
        if (strcmp(text, *want) != 0)
            fail_msg("%s: want %s, got %s", expression, *want, text);
    }
}

#define EXPECT_TIMES(expression, after, ...)                                                       \
    expect_times(expression, after, (const char *const[]){__VA_ARGS__, NULL})

static void expect_none(const char *expression, const char *after)
{
    const tide_cron cron = parse(expression);
    int64_t us = 42;
    assert_status(TIDE_NONE, tide_cron_next(&cron, time_of(after), &us));
    assert_int_equal(us, 42);
}

/* Minutes and hours: strictly after, also by a microsecond. */
static void the_next_time_is_strictly_later(void **state)
{
    (void)state;
    EXPECT_TIMES("* * * * *", "2024-05-05 10:00:00", "2024-05-05 10:01", "2024-05-05 10:02");
    EXPECT_TIMES("* * * * *", "2024-05-05 10:00:59.999999", "2024-05-05 10:01");
    EXPECT_TIMES("* * * * *", "2024-05-05 10:00:00.000001", "2024-05-05 10:01");
    EXPECT_TIMES("0 10 * * *", "2024-05-05 09:59:59.999999", "2024-05-05 10:00",
                 "2024-05-06 10:00");
    EXPECT_TIMES("0 10 * * *", "2024-05-05 10:00:00", "2024-05-06 10:00");
    EXPECT_TIMES("59 23 * * *", "2024-12-31 23:58:00", "2024-12-31 23:59", "2025-01-01 23:59");
    EXPECT_TIMES("0 0 * * *", "2024-12-31 23:59:59", "2025-01-01 00:00");
}

/* Lists, ranges and steps. */
static void lists_ranges_and_steps_are_understood(void **state)
{
    (void)state;
    EXPECT_TIMES("*/15 * * * *", "2024-05-05 10:07:00", "2024-05-05 10:15", "2024-05-05 10:30",
                 "2024-05-05 10:45", "2024-05-05 11:00");
    EXPECT_TIMES("*/25 * * * *", "2024-05-05 10:00:00", "2024-05-05 10:25", "2024-05-05 10:50",
                 "2024-05-05 11:00");
    EXPECT_TIMES("5,10-12,50-59/4 3 * * *", "2024-05-05 00:00:00", "2024-05-05 03:05",
                 "2024-05-05 03:10", "2024-05-05 03:11", "2024-05-05 03:12", "2024-05-05 03:50",
                 "2024-05-05 03:54", "2024-05-05 03:58", "2024-05-06 03:05");
    EXPECT_TIMES("30 9-17/4 * * *", "2024-05-05 13:30:00", "2024-05-05 17:30", "2024-05-06 09:30",
                 "2024-05-06 13:30");
    EXPECT_TIMES("0 0 */10 * *", "2024-01-01 00:00:00", "2024-01-11 00:00", "2024-01-21 00:00",
                 "2024-01-31 00:00", "2024-02-01 00:00");
    EXPECT_TIMES("0 0 1 */5 *", "2024-01-01 00:00:00", "2024-06-01 00:00", "2024-11-01 00:00",
                 "2025-01-01 00:00");
    EXPECT_TIMES("  0\t12   1\t1,7 *  ", "2024-01-01 12:00:00", "2024-07-01 12:00",
                 "2025-01-01 12:00");
}

/* Names in any case; 0 and 7 are Sunday, which may also end a range. 2024-05-05 was a Sunday. */
static void names_and_both_sundays_are_understood(void **state)
{
    (void)state;
    static const char *const sundays[] = {"0 0 * * 0",   "0 0 * * 7",   "0 0 * * sun",
                                          "0 0 * * SUN", "0 0 * * 7-7", "0 0 * * 0,7"};
    for (size_t i = 0; i < sizeof sundays / sizeof sundays[0]; i++)
        EXPECT_TIMES(sundays[i], "2024-05-01 00:00:00", "2024-05-05 00:00", "2024-05-12 00:00");
    static const char *const weekends[] = {"0 0 * * sat-sun", "0 0 * * 6-7", "0 0 * * 6,0",
                                           "0 0 * * 6-0", "0 0 * * Sat,Sun"};
    for (size_t i = 0; i < sizeof weekends / sizeof weekends[0]; i++)
        EXPECT_TIMES(weekends[i], "2024-05-01 00:00:00", "2024-05-04 00:00", "2024-05-05 00:00",
                     "2024-05-11 00:00");
    EXPECT_TIMES("0 8 * * mon-FRI", "2024-05-03 08:00:00", "2024-05-06 08:00", "2024-05-07 08:00",
                 "2024-05-08 08:00", "2024-05-09 08:00", "2024-05-10 08:00", "2024-05-13 08:00");
    EXPECT_TIMES("0 0 * * */2", "2024-05-05 00:00:00", "2024-05-07 00:00", "2024-05-09 00:00",
                 "2024-05-11 00:00", "2024-05-12 00:00");
    EXPECT_TIMES("0 0 1 jan,Jun-AUG,dec *", "2024-01-01 00:00:00", "2024-06-01 00:00",
                 "2024-07-01 00:00", "2024-08-01 00:00", "2024-12-01 00:00", "2025-01-01 00:00");
    static const char *const months[] = {"jan", "feb", "mar", "apr", "may", "jun",
                                         "jul", "aug", "sep", "oct", "nov", "dec"};
    for (size_t i = 0; i < sizeof months / sizeof months[0]; i++) {
        char expression[32];
        char want[32];
        (void)snprintf(expression, sizeof expression, "0 0 1 %s *", months[i]);
        (void)snprintf(want, sizeof want, "2024-%02zu-01 00:00", i + 1);
        EXPECT_TIMES(expression, "2023-12-31 00:00:00", want);
    }
    static const char *const days[] = {"sun", "mon", "tue", "wed", "thu", "fri", "sat"};
    for (size_t i = 0; i < sizeof days / sizeof days[0]; i++) {
        char expression[32];
        char want[32];
        (void)snprintf(expression, sizeof expression, "0 0 * * %s", days[i]);
        (void)snprintf(want, sizeof want, "2024-05-%02zu 00:00", i + 5);
        EXPECT_TIMES(expression, "2024-05-04 00:00:00", want);
    }
}

/* Both day fields restricted: one of them is enough. One of them with a star: both. */
static void either_day_is_enough_when_both_are_restricted(void **state)
{
    (void)state;
    EXPECT_TIMES("0 0 13 * fri", "2024-09-01 00:00:00", "2024-09-06 00:00", "2024-09-13 00:00",
                 "2024-09-20 00:00", "2024-09-27 00:00", "2024-10-04 00:00", "2024-10-11 00:00",
                 "2024-10-13 00:00");
    EXPECT_TIMES("0 0 13 * *", "2024-09-01 00:00:00", "2024-09-13 00:00", "2024-10-13 00:00");
    EXPECT_TIMES("0 0 * * fri", "2024-09-01 00:00:00", "2024-09-06 00:00", "2024-09-13 00:00");
    /* a star with a step restricts nothing in this sense: odd days that are Fridays */
    EXPECT_TIMES("0 0 */2 * fri", "2024-09-01 00:00:00", "2024-09-13 00:00", "2024-09-27 00:00",
                 "2024-10-11 00:00");
    EXPECT_TIMES("0 0 13 * */5", "2024-09-01 00:00:00", "2024-09-13 00:00", "2024-10-13 00:00",
                 "2024-12-13 00:00");
    EXPECT_TIMES("0 0 30 feb mon", "2024-02-27 00:00:00", "2025-02-03 00:00"); /* only Mondays */
}

/* Months end where they end, in leap years and others. */
static void month_ends_and_leap_years_are_right(void **state)
{
    (void)state;
    EXPECT_TIMES("0 0 31 * *", "2024-01-31 00:00:00", "2024-03-31 00:00", "2024-05-31 00:00",
                 "2024-07-31 00:00", "2024-08-31 00:00", "2024-10-31 00:00", "2024-12-31 00:00",
                 "2025-01-31 00:00");
    EXPECT_TIMES("0 0 30 * *", "2023-01-30 00:00:00", "2023-03-30 00:00", "2023-04-30 00:00");
    EXPECT_TIMES("0 0 29 * *", "2023-01-29 00:00:00", "2023-03-29 00:00");
    EXPECT_TIMES("0 0 29 2 *", "2023-01-01 00:00:00", "2024-02-29 00:00", "2028-02-29 00:00");
    EXPECT_TIMES("0 0 29 2 *", "1999-01-01 00:00:00", "2000-02-29 00:00", "2004-02-29 00:00");
    EXPECT_TIMES("0 0 29 2 *", "1896-02-28 23:59:00", "1896-02-29 00:00", "1904-02-29 00:00");
    EXPECT_TIMES("0 0 29 2 *", "2096-02-29 00:00:00", "2104-02-29 00:00");
    EXPECT_TIMES("59 23 29 2 *", "2096-02-29 23:59:00", "2104-02-29 23:59");
    EXPECT_TIMES("0 0 1 3 *", "2024-02-29 12:00:00", "2024-03-01 00:00");
    EXPECT_TIMES("0 0 * * *", "2023-02-28 00:00:00", "2023-03-01 00:00");
    EXPECT_TIMES("0 0 * * *", "2024-02-28 00:00:00", "2024-02-29 00:00", "2024-03-01 00:00");
    EXPECT_TIMES("0 0 * * *", "1900-02-28 00:00:00", "1900-03-01 00:00");
    EXPECT_TIMES("0 0 31 12 *", "2024-12-31 00:00:00", "2025-12-31 00:00");
}

/* Times before 1970 are times too, down to the year 1. */
static void times_before_1970_are_times_too(void **state)
{
    (void)state;
    EXPECT_TIMES("* * * * *", "1969-12-31 23:58:30", "1969-12-31 23:59", "1970-01-01 00:00",
                 "1970-01-01 00:01");
    EXPECT_TIMES("0 0 * * thu", "1969-12-24 00:00:00", "1969-12-25 00:00", "1970-01-01 00:00");
    EXPECT_TIMES("0 0 * * mon", "0001-01-01 00:00:00", "0001-01-08 00:00"); /* 0001-01-01 was one */
    const tide_cron cron = parse("0 0 * * *");
    int64_t us = 0;
    assert_ok(tide_cron_next(&cron, INT64_MIN, &us));
    assert_int_equal(us, TIDE_TIME_MIN_US);
    assert_ok(tide_cron_next(&cron, TIDE_TIME_MIN_US - 1, &us));
    assert_int_equal(us, TIDE_TIME_MIN_US);
    assert_ok(tide_cron_next(&cron, TIDE_TIME_MIN_US, &us));
    assert_int_equal(us, TIDE_TIME_MIN_US + 1440 * MINUTE_US);
}

/* Years end at 9999. */
static void there_is_nothing_after_the_year_9999(void **state)
{
    (void)state;
    EXPECT_TIMES("* * * * *", "9999-12-31 23:57:00", "9999-12-31 23:58", "9999-12-31 23:59");
    expect_none("* * * * *", "9999-12-31 23:59:00");
    expect_none("* * * * *", "9999-12-31 23:59:59.999999");
    expect_none("0 0 1 1 *", "9999-01-01 00:00:00");
    expect_none("0 0 29 2 *", "9996-02-29 00:00:00");
    EXPECT_TIMES("59 23 31 12 *", "9999-12-31 23:58:59", "9999-12-31 23:59");
    const tide_cron cron = parse("* * * * *");
    int64_t us = 42;
    assert_status(TIDE_NONE, tide_cron_next(&cron, INT64_MAX, &us));
    assert_int_equal(us, 42);
}

/* Days that never come. */
static void days_that_do_not_exist_never_come(void **state)
{
    (void)state;
    expect_none("0 0 30 2 *", "2024-01-01 00:00:00");
    expect_none("0 0 31 2,4,6,9,11 *", "2024-01-01 00:00:00");
    expect_none("0 0 31 feb *", "0001-01-01 00:00:00");
}

/* Short for the usual ones. */
static void macros_mean_their_fields(void **state)
{
    (void)state;
    static const char *const macros[][2] = {
        {"@hourly", "0 * * * *"},     {"@daily", "0 0 * * *"},   {"@midnight", "0 0 * * *"},
        {"@weekly", "0 0 * * sun"},   {"@monthly", "0 0 1 * *"}, {"@yearly", "0 0 1 1 *"},
        {" @annually ", "0 0 1 1 *"},
    };
    for (size_t i = 0; i < sizeof macros / sizeof macros[0]; i++) {
        const tide_cron macro = parse(macros[i][0]);
        const tide_cron fields = parse(macros[i][1]);
        assert_int_equal(macro.minutes, fields.minutes);
        assert_int_equal(macro.hours, fields.hours);
        assert_int_equal(macro.days, fields.days);
        assert_int_equal(macro.months, fields.months);
        assert_int_equal(macro.weekdays, fields.weekdays);
        assert_int_equal(macro.is_either_day, fields.is_either_day);
    }
}

typedef struct refusal {
    const char *text;
    const char *words;
} refusal;

/* Each refusal names its field; nothing is written. */
static void bad_expressions_are_refused_by_field(void **state)
{
    (void)state;
    static const refusal refusals[] = {
        {"", "minute is missing"},
        {"  ", "minute is missing"},
        {"*", "hour is missing"},
        {"* * * *", "day of week is missing"},
        {"* * * * * *", "'*' follows the five fields"},
        {"60 * * * *", "minute '60': want 0..59"},
        {"* 24 * * *", "hour '24': want 0..23"},
        {"* * 0 * *", "day of month '0': want 1..31"},
        {"* * 32 * *", "day of month '32': want 1..31"},
        {"* * * 0 *", "month '0': want 1..12"},
        {"* * * 13 *", "month '13': want 1..12"},
        {"* * * * 8", "day of week '8': want 0..7"},
        {"* * * * mon-8", "day of week 'mon-8': want 0..7"},
        {"99999999999999999999 * * * *", "minute '99999999999999999999': want 0..59"},
        {"-1 * * * *", "minute '-1': want numbers"},
        {"1- * * * *", "minute '1-': a range without an end"},
        {"5-1 * * * *", "minute '5-1': a range that runs backwards"},
        {"* * * * fri-mon", "day of week 'fri-mon': a range that runs backwards"},
        {"* * * dec-jan *", "month 'dec-jan': a range that runs backwards"},
        {"1,,2 * * * *", "minute '1,,2': want numbers"},
        {"1, * * * *", "minute '1,': want numbers"},
        {",1 * * * *", "minute ',1': want numbers"},
        {"*/0 * * * *", "minute '*/0': want a step of 1..59"},
        {"*/60 * * * *", "minute '*/60': want a step of 1..59"},
        {"*/ * * * *", "minute '*/': want a step"},
        {"*/-1 * * * *", "minute '*/-1': want a step"},
        {"* */24 * * *", "hour '*/24': want a step of 1..23"},
        {"5/15 * * * *", "minute '5/15': a step needs a range"},
        {"** * * * *", "minute '**': want a comma"},
        {"*5 * * * *", "minute '*5': want a comma"},
        {"1-2-3 * * * *", "minute '1-2-3': want a comma"},
        {"*/5/5 * * * *", "minute '*/5/5': want a comma"},
        {"mon * * * *", "minute 'mon': want numbers"},
        {"* * * mon *", "month 'mon': want numbers"},
        {"* * * * monday", "day of week 'monday': want a comma"},
        {"* * * * mo", "day of week 'mo': want numbers"},
        {"* * * * m\x0f\x0e", "day of week"},
        {"* * ? * *", "day of month '?': want numbers"},
        {"* * L * *", "day of month 'L': want numbers"},
        {"1.5 * * * *", "minute '1.5': want a comma"},
        {"*\n* * * *", "minute"},
        {"@reboot", "want @hourly"},
        {"@", "want @hourly"},
        {"@daily x", "want @hourly"},
        {"@DAILY", "want @hourly"},
        {"* @daily * * *", "hour '@daily': want numbers"},
    };
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        tide_error err = {0};
        tide_cron cron;
        memset(&cron, 0x5A, sizeof cron);
        const tide_cron before = cron;
        if (tide_cron_parse(&cron, refusals[i].text, &err) != TIDE_E_INVALID)
            fail_msg("accepted: %s", refusals[i].text);
        assert_contains(err.text, refusals[i].words);
        assert_contains(err.text, "cron: ");
        assert_memory_equal(&cron, &before, sizeof cron);
        assert_status(TIDE_E_INVALID, tide_cron_parse(&cron, refusals[i].text, NULL));
    }
}

/* --- a slower way to the same answer --- */

static int number_below(prng *random, int limit)
{
    return (int)prng_below(random, (uint64_t)limit);
}

static void make_field(prng *random, char *out, size_t size, int lowest, int highest)
{
    const int a = lowest + number_below(random, highest - lowest + 1);
    const int b = a + number_below(random, highest - a + 1);
    switch (prng_below(random, 6)) {
    case 0:
        (void)snprintf(out, size, "%d", a);
        return;
    case 1:
        (void)snprintf(out, size, "%d-%d", a, b);
        return;
    case 2:
        (void)snprintf(out, size, "*/%d", 1 + number_below(random, highest));
        return;
    case 3:
        (void)snprintf(out, size, "%d,%d-%d/2", b, a, b);
        return;
    default:
        (void)snprintf(out, size, "*");
        return;
    }
}

typedef struct expression {
    char fields[5][32];
    bool fits[5][64]; /* of each field: does the value fit? */
} expression;

/* The number behind a sign, if the sign is there; *at moves behind it. */
static int read_after(const char **at, char sign, int otherwise)
{
    if (**at != sign)
        return otherwise;
    char *end;
    const long number = strtol(*at + 1, &end, 10);
    *at = end;
    return (int)number;
}

static bool item_fits(const char *part, int value, int lowest)
{
    int first = lowest;
    int last = 99;
    if (*part == '*') {
        part++;
    } else {
        char *end;
        first = (int)strtol(part, &end, 10);
        part = end;
        last = read_after(&part, '-', first);
    }
    const int step = read_after(&part, '/', 1);
    return value >= first && value <= last && (value - first) % step == 0;
}

static bool field_fits(const char *field, int value, int lowest)
{
    for (const char *part = field; part; part = strchr(part, ',')) {
        part += part[0] == ',' ? 1 : 0;
        if (item_fits(part, value, lowest))
            return true;
    }
    return false;
}

static void make_expression(prng *random, expression *e)
{
    static const int lowest[5] = {0, 0, 1, 1, 0};
    static const int highest[5] = {59, 23, 31, 12, 7};
    for (int i = 0; i < 5; i++) {
        make_field(random, e->fields[i], sizeof e->fields[i], lowest[i], highest[i]);
        for (int value = 0; value < 64; value++)
            e->fits[i][value] = field_fits(e->fields[i], value, lowest[i]);
    }
    if (e->fields[4][0] != '*' && e->fits[4][7])
        e->fits[4][0] = true;
}

/* Whether a time fits, by the C library's calendar. */
static bool is_fit(const expression *e, int64_t us)
{
    const time_t seconds = (time_t)(us / 1000000);
    struct tm tm;
    assert_non_null(gmtime_r(&seconds, &tm));
    const bool is_either = e->fields[2][0] != '*' && e->fields[4][0] != '*';
    const bool fits_day = e->fits[2][tm.tm_mday];
    const bool fits_weekday = e->fits[4][tm.tm_wday];
    return e->fits[0][tm.tm_min] && e->fits[1][tm.tm_hour] && e->fits[3][tm.tm_mon + 1] &&
           (is_either ? fits_day || fits_weekday : fits_day && fits_weekday);
}

/* Minute by minute over 40 days finds the same time, for random expressions and times. */
static void walking_minute_by_minute_finds_the_same_time(void **state)
{
    (void)state;
    prng random;
    prng_init(&random, prng_seed_from_env(5));
    int found = 0;
    for (int round = 0; round < 400; round++) {
        expression e;
        make_expression(&random, &e);
        char text[200];
        (void)snprintf(text, sizeof text, "%s %s %s %s %s", e.fields[0], e.fields[1], e.fields[2],
                       e.fields[3], e.fields[4]);
        const tide_cron cron = parse(text);
        /* 1950 to 2110 */
        const int64_t after =
            ((int64_t)prng_below(&random, 160 * 525960) - 20 * 525960) * MINUTE_US +
            (int64_t)prng_below(&random, 2) * 1234567;
        int64_t want = after - (after % MINUTE_US + MINUTE_US) % MINUTE_US;
        int left = 40 * 1440;
        do
            want += MINUTE_US;
        while (--left > 0 && !is_fit(&e, want));
        int64_t got = 0;
        const tide_status status = tide_cron_next(&cron, after, &got);
        if (left > 0) {
            found++;
            assert_ok(status);
            if (got != want)
                fail_msg("%s: want %" PRId64 ", got %" PRId64, text, want, got);
        } else {
            assert_true(status == TIDE_NONE || got >= want);
        }
    }
    assert_true(found > 100);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_next_time_is_strictly_later),
        cmocka_unit_test(lists_ranges_and_steps_are_understood),
        cmocka_unit_test(names_and_both_sundays_are_understood),
        cmocka_unit_test(either_day_is_enough_when_both_are_restricted),
        cmocka_unit_test(month_ends_and_leap_years_are_right),
        cmocka_unit_test(times_before_1970_are_times_too),
        cmocka_unit_test(there_is_nothing_after_the_year_9999),
        cmocka_unit_test(days_that_do_not_exist_never_come),
        cmocka_unit_test(macros_mean_their_fields),
        cmocka_unit_test(bad_expressions_are_refused_by_field),
        cmocka_unit_test(walking_minute_by_minute_finds_the_same_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
