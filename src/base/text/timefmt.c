#include "base/text/timefmt.h"

#include <stdbool.h>
#include <string.h>

static const int64_t SECOND_US = 1000000;
static const int64_t DAY_SECONDS = 86400;

typedef struct civil_date {
    int64_t year;
    int64_t month; /* 1..12 */
    int64_t day;   /* 1..31 */
} civil_date;

/* Days and dates are converted over years that begin on 1 March, so that the leap day comes last,
 * and over eras of 400 years = 146097 days, after which the calendar repeats. The years that reach
 * us are 1..9999, so that every division here is of a number that is not negative. 719468 is the
 * number of days from 0000-03-01 to 1970-01-01. */
static const int64_t ERA_DAYS = 146097;
static const int64_t EPOCH_DAYS = 719468;

static int64_t days_of_date(civil_date date)
{
    const int64_t year = date.month <= 2 ? date.year - 1 : date.year;
    const int64_t era = year / 400;
    const int64_t year_of_era = year % 400;
    const int64_t month_from_march = (date.month + 9) % 12;
    const int64_t day_of_year = (153 * month_from_march + 2) / 5 + date.day - 1;
    const int64_t day_of_era =
        year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    return era * ERA_DAYS + day_of_era - EPOCH_DAYS;
}

static civil_date date_of_days(int64_t days)
{
    const int64_t shifted = days + EPOCH_DAYS;
    const int64_t era = shifted / ERA_DAYS;
    const int64_t day_of_era = shifted % ERA_DAYS;
    const int64_t year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
    const int64_t day_of_year =
        day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    const int64_t month_from_march = (5 * day_of_year + 2) / 153;
    const int64_t month = month_from_march < 10 ? month_from_march + 3 : month_from_march - 9;
    return (civil_date){
        .year = era * 400 + year_of_era + (month <= 2 ? 1 : 0),
        .month = month,
        .day = day_of_year - (153 * month_from_march + 2) / 5 + 1,
    };
}

static bool is_leap_year(int64_t year)
{
    return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
}

static bool is_real_date(civil_date date)
{
    static const int64_t MONTH_DAYS[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    if (date.year < 1 || date.month < 1 || date.month > 12 || date.day < 1)
        return false;
    int64_t last = MONTH_DAYS[date.month - 1];
    if (date.month == 2 && is_leap_year(date.year))
        last = 29;
    return date.day <= last;
}

static char *write_digits(char *at, int64_t number, int count)
{
    for (int i = count - 1; i >= 0; i--) {
        at[i] = (char)('0' + number % 10);
        number /= 10;
    }
    return at + count;
}

tide_status tide_time_format(int64_t us, char out[TIDE_TIME_TEXT_SIZE])
{
    if (us < TIDE_TIME_MIN_US || us > TIDE_TIME_MAX_US) {
        out[0] = '\0';
        return TIDE_E_INVALID;
    }
    const int64_t since_min_us = us - TIDE_TIME_MIN_US; /* not negative: divisions round down */
    const int64_t since_min_s = since_min_us / SECOND_US;
    const int64_t second_of_day = since_min_s % DAY_SECONDS;
    const int64_t first_day = TIDE_TIME_MIN_US / SECOND_US / DAY_SECONDS;
    const civil_date date = date_of_days(first_day + since_min_s / DAY_SECONDS);

    char *at = write_digits(out, date.year, 4);
    *at++ = '-';
    at = write_digits(at, date.month, 2);
    *at++ = '-';
    at = write_digits(at, date.day, 2);
    *at++ = ' ';
    at = write_digits(at, second_of_day / 3600, 2);
    *at++ = ':';
    at = write_digits(at, second_of_day / 60 % 60, 2);
    *at++ = ':';
    at = write_digits(at, second_of_day % 60, 2);
    *at++ = '.';
    at = write_digits(at, since_min_us % SECOND_US, 6);
    *at = '\0';
    return TIDE_OK;
}

/* The unread rest of a text. */
typedef struct scanner {
    const char *at;
    const char *end;
} scanner;

static bool scan_char(scanner *s, char wanted)
{
    if (s->at == s->end || *s->at != wanted)
        return false;
    s->at++;
    return true;
}

static bool is_digit_next(const scanner *s)
{
    return s->at < s->end && *s->at >= '0' && *s->at <= '9';
}

/* Exactly count digits. */
static bool scan_digits(scanner *s, int count, int64_t *out)
{
    int64_t number = 0;
    for (int i = 0; i < count; i++) {
        if (!is_digit_next(s))
            return false;
        number = number * 10 + (*s->at++ - '0');
    }
    *out = number;
    return true;
}

static bool scan_date(scanner *s, civil_date *date)
{
    return scan_digits(s, 4, &date->year) && scan_char(s, '-') && scan_digits(s, 2, &date->month) &&
           scan_char(s, '-') && scan_digits(s, 2, &date->day) && is_real_date(*date);
}

/* .f to .fffffffff, as microseconds. No dot: 0. */
static bool scan_fraction(scanner *s, int64_t *us)
{
    *us = 0;
    if (!scan_char(s, '.'))
        return true;
    int64_t weight = SECOND_US / 10;
    int count = 0;
    for (; is_digit_next(s); count++) {
        *us += (*s->at++ - '0') * weight;
        weight /= 10;
    }
    return count >= 1 && count <= 9;
}

static bool scan_clock(scanner *s, int64_t *us)
{
    int64_t hour;
    int64_t minute;
    int64_t second;
    int64_t fraction_us;
    if (!scan_digits(s, 2, &hour) || !scan_char(s, ':') || !scan_digits(s, 2, &minute) ||
        !scan_char(s, ':') || !scan_digits(s, 2, &second) || !scan_fraction(s, &fraction_us))
        return false;
    *us = (hour * 3600 + minute * 60 + second) * SECOND_US + fraction_us;
    return hour <= 23 && minute <= 59 && second <= 59;
}

/* Z, +HH:MM, -HH:MM or nothing; east of Greenwich is positive. */
static bool scan_zone(scanner *s, int64_t *offset_us)
{
    *offset_us = 0;
    if (s->at == s->end || scan_char(s, 'Z'))
        return true;
    const int64_t sign = scan_char(s, '-') ? -1 : 1;
    if (sign > 0 && !scan_char(s, '+'))
        return false;
    int64_t hour;
    int64_t minute;
    if (!scan_digits(s, 2, &hour) || !scan_char(s, ':') || !scan_digits(s, 2, &minute))
        return false;
    *offset_us = sign * (hour * 3600 + minute * 60) * SECOND_US;
    return hour <= 23 && minute <= 59;
}

tide_status tide_time_parse(int64_t *us, tide_view text)
{
    if (text.len == 0)
        return TIDE_E_INVALID;
    scanner s = {.at = text.ptr, .end = text.ptr + text.len};
    civil_date date;
    if (!scan_date(&s, &date))
        return TIDE_E_INVALID;

    int64_t clock_us = 0;
    int64_t offset_us = 0;
    if (s.at < s.end) {
        if (!scan_char(&s, ' ') && !scan_char(&s, 'T'))
            return TIDE_E_INVALID;
        if (!scan_clock(&s, &clock_us) || !scan_zone(&s, &offset_us) || s.at < s.end)
            return TIDE_E_INVALID;
    }
    const int64_t time_us = days_of_date(date) * DAY_SECONDS * SECOND_US + clock_us - offset_us;
    if (time_us < TIDE_TIME_MIN_US || time_us > TIDE_TIME_MAX_US)
        return TIDE_E_INVALID;
    *us = time_us;
    return TIDE_OK;
}

typedef struct unit {
    const char *name;
    int64_t factor;
} unit;

/* A whole number followed by the name of a unit; the table ends with a NULL name. */
static tide_status parse_quantity(int64_t *out, const char *text, const unit *units)
{
    int64_t number = 0;
    const char *at = text;
    for (; *at >= '0' && *at <= '9'; at++) {
        if (__builtin_mul_overflow(number, 10, &number) ||
            __builtin_add_overflow(number, *at - '0', &number))
            return TIDE_E_INVALID;
    }
    if (at == text)
        return TIDE_E_INVALID;
    for (; units->name; units++) {
        if (strcmp(at, units->name) != 0)
            continue;
        if (__builtin_mul_overflow(number, units->factor, &number))
            return TIDE_E_INVALID;
        *out = number;
        return TIDE_OK;
    }
    return TIDE_E_INVALID;
}

tide_status tide_duration_parse(int64_t *us, const char *text)
{
    static const unit UNITS[] = {
        {"us", 1},
        {"ms", INT64_C(1000)},
        {"s", INT64_C(1000000)},
        {"m", INT64_C(60000000)},
        {"h", INT64_C(3600000000)},
        {"d", INT64_C(86400000000)},
        {NULL, 0},
    };
    if (strcmp(text, "0") == 0) {
        *us = 0;
        return TIDE_OK;
    }
    return parse_quantity(us, text, UNITS);
}

tide_status tide_size_parse(int64_t *bytes, const char *text)
{
    static const unit UNITS[] = {
        {"", 1},
        {"KiB", INT64_C(1) << 10},
        {"MiB", INT64_C(1) << 20},
        {"GiB", INT64_C(1) << 30},
        {"TiB", INT64_C(1) << 40},
        {NULL, 0},
    };
    return parse_quantity(bytes, text, UNITS);
}
