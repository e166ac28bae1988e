/* cron.h - when next? Five-field cron expressions over UTC.
 *
 *     minute  hour  day-of-month  month  day-of-week
 *     0-59    0-23  1-31          1-12   0-7 (0 and 7 are Sunday)
 *
 * A field is a list of items, separated by commas. An item is a value (7), a range (9-17) or a star
 * for every value; behind a range or a star, a slash and a step (9-17/2: every second one, from the
 * first on). Months and days of the week also have names of three letters in any case (jan, MON).
 *
 * What would only seem to mean something is refused: a range that runs backwards (but Sunday may
 * end one: sat-sun), a step behind a single value, a step of 0 or above the field's highest value
 * (a star and /60 among the minutes).
 *
 * The days: a day must fit the month, and the day-of-month and the day-of-week. If both of these
 * are restricted (neither field begins with a star), it is enough that it fits one of them:
 * "0 0 13 * fri" is every 13th and every Friday.
 *
 * Short for the usual ones: @hourly, @daily (@midnight), @weekly, @monthly, @yearly (@annually).
 *
 * Times are microseconds since 1970 (timefmt.h), always UTC: there is no summer time in which a
 * time comes twice or never. Whoever runs a schedule asks for the first time after the last one;
 * what to do about those that passed meanwhile is for the caller to decide.
 *
 * Threads: pure. Limits: what has no time within TIDE_CRON_HORIZON_DAYS has none (30 February;
 * 29 February is at most 8 years away, around a year like 1900). */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <tidemark/error.h>
#include <tidemark/export.h>

enum { TIDE_CRON_HORIZON_DAYS = 2922 }; /* 8 years */

/* Bit n: the value n fits. Sunday is bit 0. */
typedef struct tide_cron {
    uint64_t minutes;
    uint32_t hours;
    uint32_t days;
    uint16_t months;
    uint8_t weekdays;
    bool is_either_day; /* a day that fits one of both day fields is enough */
} tide_cron;

/* TIDE_E_INVALID: the words name the field. *out is written only on TIDE_OK. */
TIDE_MUST_CHECK tide_status tide_cron_parse(tide_cron *out, const char *text, tide_error *err);

/* The first time strictly after after_us. TIDE_NONE: there is none within the horizon, or none up
 * to the end of the year 9999. A time before the year 1 counts as its beginning. *next_us is
 * written only on TIDE_OK. */
TIDE_MUST_CHECK tide_status tide_cron_next(const tide_cron *cron, int64_t after_us,
                                           int64_t *next_us);
