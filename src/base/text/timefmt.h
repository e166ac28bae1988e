/* timefmt.h - times, durations and sizes as text, and back.
 *
 * A time is int64 microseconds since 1970-01-01 00:00:00 UTC, leap seconds not counted. Its one
 * written form is `YYYY-MM-DD HH:MM:SS.ffffff`, always UTC, always 26 bytes: such texts sort as the
 * times do, and every SQL engine reads them. The calendar is the proleptic Gregorian one, years
 * 0001 to 9999; what lies outside is refused, because its text would no longer sort.
 *
 * Reading accepts what other programs write:
 *
 *     2024-02-29                         midnight UTC
 *     2024-02-29 12:30:00                or with T between date and time
 *     2024-02-29 12:30:00.5              1 to 9 digits; those beyond microseconds are cut off
 *     2024-02-29T12:30:00.123456Z        Z, +HH:MM or -HH:MM; without a suffix it is UTC
 *
 * and nothing else: no spaces around, no lower case, no 24:00, no second 60, no day that does not
 * exist.
 *
 * No locale and no time zone of the machine takes part.
 *
 * Threads: pure. */
#pragma once

#include <stdint.h>

#include <tidemark/export.h>
#include <tidemark/status.h>
#include <tidemark/view.h>

enum { TIDE_TIME_TEXT_SIZE = 27 }; /* with the terminator */

#define TIDE_TIME_MIN_US INT64_C(-62135596800000000) /* 0001-01-01 00:00:00.000000 */
#define TIDE_TIME_MAX_US INT64_C(253402300799999999) /* 9999-12-31 23:59:59.999999 */

/* TIDE_E_INVALID: outside the years 0001 to 9999; out is then the empty string. */
TIDE_MUST_CHECK tide_status tide_time_format(int64_t us, char out[TIDE_TIME_TEXT_SIZE]);

/* TIDE_E_INVALID: no such form, no such day, or outside the years; *us is then untouched. */
TIDE_MUST_CHECK tide_status tide_time_parse(int64_t *us, tide_view text);

/* A whole number and a unit: us, ms, s, m, h or d ("250ms", "7d"). The unit is required, except
 * after 0. TIDE_E_INVALID: anything else, or beyond int64; *us is then untouched. */
TIDE_MUST_CHECK tide_status tide_duration_parse(int64_t *us, const char *text);

/* A whole number of bytes, or of KiB, MiB, GiB or TiB ("64KiB"). Decimal units are refused: no
 * reader knows which KB was meant. TIDE_E_INVALID: anything else, or beyond int64; *bytes is then
 * untouched. */
TIDE_MUST_CHECK tide_status tide_size_parse(int64_t *bytes, const char *text);
