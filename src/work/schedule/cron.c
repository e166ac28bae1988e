#include "work/schedule/cron.h"

#include <assert.h>
#include <stddef.h>

#include <tidemark/view.h>

#include "base/text/timefmt.h"

static const int64_t MINUTE_US = INT64_C(60) * 1000000;
enum { DAY_MINUTES = 1440, FIELD_COUNT = 5, SHOWN_MAX = 40 };

/* --- reading --- */

typedef struct field {
    const char *label;
    int lowest;
    int highest;
    const char *names; /* three letters each; the first means `lowest` */
} field;

enum { MINUTE, HOUR, DAY, MONTH, WEEKDAY };

static const field FIELDS[FIELD_COUNT] = {
    [MINUTE] = {"minute", 0, 59, ""},
    [HOUR] = {"hour", 0, 23, ""},
    [DAY] = {"day of month", 1, 31, ""},
    [MONTH] = {"month", 1, 12, "janfebmaraprmayjunjulaugsepoctnovdec"},
    [WEEKDAY] = {"day of week", 0, 7, "sunmontuewedthufrisat"},
};

/* One item of a list: every step-th value of first..last. */
typedef struct item {
    int first;
    int last;
    int step;
} item;

/* The unread rest of a field. */
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

static int shown_len(tide_view text)
{
    return (int)(text.len < SHOWN_MAX ? text.len : SHOWN_MAX);
}

static tide_status fail_field(const field *f, tide_view text, const char *why, tide_error *err)
{
    return tide_fail(err, TIDE_E_INVALID, "cron: %s '%.*s': %s", f->label, shown_len(text),
                     text.ptr, why);
}

/* Digits, capped far above every limit. False: there are none. */
static bool scan_number(scanner *s, int *out)
{
    const char *start = s->at;
    *out = 0;
    for (; s->at < s->end && *s->at >= '0' && *s->at <= '9'; s->at++) {
        if (*out < 10000)
            *out = *out * 10 + (*s->at - '0');
    }
    return s->at > start;
}

static bool scan_name(scanner *s, const field *f, int *out)
{
    if (s->end - s->at < 3)
        return false;
    for (int i = 0; f->names[3 * i]; i++) {
        const char *name = f->names + 3 * (ptrdiff_t)i;
        bool is_equal = true;
        for (int k = 0; k < 3; k++)
            is_equal = is_equal && (s->at[k] | 0x20) == name[k];
        if (is_equal) {
            s->at += 3;
            *out = f->lowest + i;
            return true;
        }
    }
    return false;
}

static bool scan_value(scanner *s, const field *f, int *out)
{
    return scan_number(s, out) || scan_name(s, f, out);
}

static bool is_within(const field *f, int value)
{
    return value >= f->lowest && value <= f->highest;
}

/* Behind the first value of a range: the dash is read. Sunday ends a week as well as it begins
 * one. */
static tide_status scan_range_end(scanner *s, const field *f, item *out, tide_view text,
                                  tide_error *err)
{
    if (!scan_value(s, f, &out->last))
        return fail_field(f, text, "a range without an end", err);
    if (f == &FIELDS[WEEKDAY] && out->last == 0 && out->first > 0)
        out->last = 7;
    if (out->last < out->first)
        return fail_field(f, text, "a range that runs backwards", err);
    return TIDE_OK;
}

static tide_status scan_item(scanner *s, const field *f, item *out, tide_view text, tide_error *err)
{
    *out = (item){.step = 1};
    bool is_range = true;
    if (scan_char(s, '*')) {
        out->first = f->lowest;
        out->last = f == &FIELDS[WEEKDAY] ? 6 : f->highest;
    } else {
        if (!scan_value(s, f, &out->first))
            return fail_field(f, text, "want numbers, names or *", err);
        out->last = out->first;
        is_range = scan_char(s, '-');
        if (is_range)
            TIDE_TRY(scan_range_end(s, f, out, text, err));
    }
    if (!is_within(f, out->first) || !is_within(f, out->last))
        return tide_fail(err, TIDE_E_INVALID, "cron: %s '%.*s': want %d..%d", f->label,
                         shown_len(text), text.ptr, f->lowest, f->highest);
    if (!scan_char(s, '/'))
        return TIDE_OK;
    if (!is_range)
        return fail_field(f, text, "a step needs a range or * in front of it", err);
    if (!scan_number(s, &out->step) || out->step < 1 || out->step > f->highest)
        return tide_fail(err, TIDE_E_INVALID, "cron: %s '%.*s': want a step of 1..%d", f->label,
                         shown_len(text), text.ptr, f->highest);
    return TIDE_OK;
}

static tide_status parse_field(uint64_t *bits, const field *f, tide_view text, tide_error *err)
{
    *bits = 0;
    scanner s = {.at = text.ptr, .end = text.ptr + text.len};
    do {
        item i;
        TIDE_TRY(scan_item(&s, f, &i, text, err));
        for (int value = i.first; value <= i.last; value += i.step)
            *bits |= UINT64_C(1) << value;
    } while (scan_char(&s, ','));
    if (s.at < s.end)
        return fail_field(f, text, "want a comma or the end behind a value", err);
    return TIDE_OK;
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t';
}

/* The next word of *rest; empty at the end. */
static tide_view take_word(const char **rest)
{
    while (is_space(**rest))
        (*rest)++;
    const char *start = *rest;
    while (**rest && !is_space(**rest))
        (*rest)++;
    return tide_view_bytes(start, (size_t)(*rest - start));
}

/* What a word that begins with @ is short for. NULL: nothing. */
static const char *find_macro(tide_view word)
{
    static const char *const MACROS[][2] = {{"@hourly", "0 * * * *"},   {"@daily", "0 0 * * *"},
                                            {"@midnight", "0 0 * * *"}, {"@weekly", "0 0 * * 0"},
                                            {"@monthly", "0 0 1 * *"},  {"@yearly", "0 0 1 1 *"},
                                            {"@annually", "0 0 1 1 *"}};
    for (size_t i = 0; i < sizeof MACROS / sizeof MACROS[0]; i++) {
        if (tide_view_equal(word, tide_view_of(MACROS[i][0])))
            return MACROS[i][1];
    }
    return NULL;
}

static tide_status parse_fields(tide_cron *out, const char *text, tide_error *err)
{
    uint64_t bits[FIELD_COUNT];
    bool is_star[FIELD_COUNT];
    for (int i = 0; i < FIELD_COUNT; i++) {
        const tide_view word = take_word(&text);
        if (word.len == 0)
            return tide_fail(err, TIDE_E_INVALID,
                             "cron: %s is missing: want minute, hour, day of month, month, "
                             "day of week",
                             FIELDS[i].label);
        TIDE_TRY(parse_field(&bits[i], &FIELDS[i], word, err));
        is_star[i] = word.ptr[0] == '*';
    }
    const tide_view more = take_word(&text);
    if (more.len > 0)
        return tide_fail(err, TIDE_E_INVALID, "cron: '%.*s' follows the five fields",
                         shown_len(more), more.ptr);
    if (bits[WEEKDAY] >> 7 & 1)
        bits[WEEKDAY] |= 1;
    *out = (tide_cron){
        .minutes = bits[MINUTE],
        .hours = (uint32_t)bits[HOUR],
        .days = (uint32_t)bits[DAY],
        .months = (uint16_t)bits[MONTH],
        .weekdays = (uint8_t)(bits[WEEKDAY] & 0x7F),
        .is_either_day = !is_star[DAY] && !is_star[WEEKDAY],
    };
    return TIDE_OK;
}

tide_status tide_cron_parse(tide_cron *out, const char *text, tide_error *err)
{
    const char *rest = text;
    const tide_view word = take_word(&rest);
    if (word.len == 0 || word.ptr[0] != '@')
        return parse_fields(out, text, err);
    const char *fields = find_macro(word);
    if (!fields || take_word(&rest).len > 0)
        return tide_fail(err, TIDE_E_INVALID,
                         "cron: '%.*s': want @hourly, @daily, @weekly, @monthly or @yearly alone",
                         shown_len(tide_view_of(text)), text);
    return parse_fields(out, fields, err);
}

/* --- asking --- */

typedef struct calendar_day {
    int64_t number; /* days since 1970-01-01 */
    int year;
    int month; /* 1..12 */
    int day;   /* 1..31 */
} calendar_day;

static int64_t divide_down(int64_t number, int64_t by)
{
    return number / by - (number % by < 0 ? 1 : 0);
}

static int read_digits(const char *digits, int count)
{
    int number = 0;
    for (int i = 0; i < count; i++)
        number = number * 10 + (digits[i] - '0');
    return number;
}

/* The calendar is timefmt's. */
static calendar_day day_of(int64_t number)
{
    char text[TIDE_TIME_TEXT_SIZE];
    const tide_status status = tide_time_format(number * DAY_MINUTES * MINUTE_US, text);
    assert(status == TIDE_OK); /* the caller asks within the years */
    return (calendar_day){
        .number = number,
        .year = read_digits(text, 4),
        .month = read_digits(text + 5, 2),
        .day = read_digits(text + 8, 2),
    };
}

static int month_days(int year, int month)
{
    static const int DAYS[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    const bool is_leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    return month == 2 && is_leap ? 29 : DAYS[month - 1];
}

static calendar_day first_of_next_month(calendar_day day)
{
    return (calendar_day){
        .number = day.number + month_days(day.year, day.month) - day.day + 1,
        .year = day.month == 12 ? day.year + 1 : day.year,
        .month = day.month == 12 ? 1 : day.month + 1,
        .day = 1,
    };
}

static calendar_day next_day(calendar_day day)
{
    if (day.day == month_days(day.year, day.month))
        return first_of_next_month(day);
    day.number++;
    day.day++;
    return day;
}

static bool is_month_fit(const tide_cron *cron, calendar_day day)
{
    return (cron->months >> day.month & 1) != 0;
}

static bool is_day_fit(const tide_cron *cron, calendar_day day)
{
    const int64_t since_sunday = day.number + 4; /* 1970-01-01 was a Thursday */
    const int weekday = (int)(since_sunday - divide_down(since_sunday, 7) * 7);
    const bool fits_day = (cron->days >> day.day & 1) != 0;
    const bool fits_weekday = (cron->weekdays >> weekday & 1) != 0;
    return cron->is_either_day ? fits_day || fits_weekday : fits_day && fits_weekday;
}

/* The first fitting minute of a day at or behind `from`; -1 if there is none. */
static int find_minute(const tide_cron *cron, int from)
{
    for (int hour = from / 60; hour < 24; hour++) {
        const int first = hour == from / 60 ? from % 60 : 0;
        const uint64_t left = cron->minutes >> first << first;
        if ((cron->hours >> hour & 1) != 0 && left != 0)
            return hour * 60 + __builtin_ctzll(left);
    }
    return -1;
}

tide_status tide_cron_next(const tide_cron *cron, int64_t after_us, int64_t *next_us)
{
    if (after_us < TIDE_TIME_MIN_US)
        after_us = TIDE_TIME_MIN_US - 1;
    const int64_t last = divide_down(TIDE_TIME_MAX_US, MINUTE_US); /* minute there is */
    const int64_t first = divide_down(after_us, MINUTE_US) + 1;
    if (first > last)
        return TIDE_NONE;

    const int64_t last_day = last / DAY_MINUTES;
    calendar_day day = day_of(divide_down(first, DAY_MINUTES));
    const int64_t first_day = day.number;
    int from = (int)(first - first_day * DAY_MINUTES);
    while (day.number <= last_day && day.number - first_day <= TIDE_CRON_HORIZON_DAYS) {
        if (!is_month_fit(cron, day)) {
            day = first_of_next_month(day);
            from = 0;
            continue;
        }
        const int minute = is_day_fit(cron, day) ? find_minute(cron, from) : -1;
        if (minute >= 0) {
            *next_us = (day.number * DAY_MINUTES + minute) * MINUTE_US;
            return TIDE_OK;
        }
        day = next_day(day);
        from = 0;
    }
    return TIDE_NONE;
}
