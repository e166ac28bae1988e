/* time_zone_test.c - offsets and local times, compared with the C library's. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/text/time_zone.h"
#include "base/text/timefmt.h"
#include "support/check.h"
#include "support/prng.h"
#include "support/program/test_file.h"

static tide_time_zone *load(const char *name)
{
    tide_time_zone *zone = NULL;
    tide_error err;
    assert_ok_err(tide_time_zone_load(&zone, name, &err), &err);
    return zone;
}

static int64_t seconds(const char *text)
{
    int64_t us = 0;
    assert_ok(tide_time_parse(&us, tide_view_of(text)));
    return us / 1000000;
}

static void assert_found(const char *zone_name, const char *local, const char *utc)
{
    TIDE_CLEANUP(tide_time_zone_freep) tide_time_zone *zone = load(zone_name);
    assert_int_equal(seconds(utc), tide_time_zone_find(zone, seconds(local)));
}

static void a_local_time_that_comes_once_is_found(void **state)
{
    (void)state;
    assert_found("UTC", "2026-03-29 02:30:00", "2026-03-29 02:30:00");
    assert_found("Europe/Berlin", "2026-07-01 12:00:00", "2026-07-01 10:00:00");
    assert_found("Europe/Berlin", "2026-12-01 12:00:00", "2026-12-01 11:00:00");
    assert_found("Asia/Kolkata", "2026-07-01 12:00:00", "2026-07-01 06:30:00");
    assert_found("America/Sao_Paulo", "2026-07-01 12:00:00", "2026-07-01 15:00:00");
}

/* Clocks go from 02:00 to 03:00 on 29 March, at 01:00 UTC; in New York at 07:00 UTC on 8 March. */
static void a_skipped_time_is_the_moment_of_the_change(void **state)
{
    (void)state;
    assert_found("Europe/Berlin", "2026-03-29 02:00:00", "2026-03-29 01:00:00");
    assert_found("Europe/Berlin", "2026-03-29 02:30:00", "2026-03-29 01:00:00");
    assert_found("Europe/Berlin", "2026-03-29 03:00:00", "2026-03-29 01:00:00");
    assert_found("Europe/Berlin", "2026-03-29 01:59:00", "2026-03-29 00:59:00");
    assert_found("America/New_York", "2026-03-08 02:30:00", "2026-03-08 07:00:00");
    /* By the rule behind the last transition of the file, and by the file. */
    assert_found("Europe/Berlin", "2090-03-26 02:30:00", "2090-03-26 01:00:00");
    assert_found("Europe/Berlin", "1999-03-28 02:30:00", "1999-03-28 01:00:00");
}

static void a_doubled_time_is_its_first_occurrence(void **state)
{
    (void)state;
    assert_found("Europe/Berlin", "2026-10-25 02:30:00", "2026-10-25 00:30:00");
    assert_found("Europe/Berlin", "2026-10-25 03:00:00", "2026-10-25 02:00:00");
    assert_found("America/New_York", "2026-11-01 01:30:00", "2026-11-01 05:30:00");
    assert_found("Australia/Lord_Howe", "2026-04-05 01:45:00", "2026-04-04 14:45:00");
}

static void offsets_are_those_of_the_c_library(void **state)
{
    static const char *const names[] = {"Europe/Berlin",       "America/New_York",  "Asia/Kolkata",
                                        "Australia/Lord_Howe", "Africa/Casablanca", "Europe/Dublin",
                                        "Pacific/Apia",        "America/Santiago",  "Asia/Tehran"};
    (void)state;
    prng random;
    prng_init(&random, 7);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        TIDE_CLEANUP(tide_time_zone_freep) tide_time_zone *zone = load(names[i]);
        assert_int_equal(0, setenv("TZ", names[i], 1));
        tzset();
        for (int k = 0; k < 2000; k++) {
            const time_t at = (time_t)(prng_below(&random, 4102444800U)); /* to 2100 */
            struct tm local;
            assert_non_null(localtime_r(&at, &local));
            assert_int_equal(local.tm_gmtoff, tide_time_zone_offset(zone, at));
        }
    }
}

static void what_is_no_zone_is_refused(void **state)
{
    static const char *const bad[] = {"",    "/etc/passwd", "../passwd", "Europe/../x",
                                      "a b", "Europe/",     "x\ny",      NULL};
    (void)state;
    tide_time_zone *zone = NULL;
    tide_error err;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_status(TIDE_E_INVALID, tide_time_zone_load(&zone, bad[i], &err));
    assert_status(TIDE_E_NOT_FOUND, tide_time_zone_load(&zone, "Europe/Atlantis", &err));
    assert_non_null(strstr(err.text, "tzdata"));
    assert_status(TIDE_E_DAMAGED, tide_time_zone_parse(&zone, tide_view_of("TZif2"), &err));
    assert_null(zone);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_local_time_that_comes_once_is_found),
        cmocka_unit_test(a_skipped_time_is_the_moment_of_the_change),
        cmocka_unit_test(a_doubled_time_is_its_first_occurrence),
        cmocka_unit_test(offsets_are_those_of_the_c_library),
        cmocka_unit_test(what_is_no_zone_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
