#include "base/text/time_zone.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/file.h"

enum {
    FILE_MAX = 256 << 10,
    HEADER_LEN = 44,
    TRANSITIONS_MAX = 4000,
    TYPES_MAX = 256,
    DAY_S = 86400,
    OFFSET_MAX_S = 26 * 3600, /* RFC 9636: -25 h to 26 h */
};

/* When clocks change in a year: month, week (5: the last), weekday; or the day of the year. */
typedef struct change_rule {
    char kind; /* 'M', 'J' (1 to 365, 29 February does not count), 'D' (0 to 365) */
    int month, week, day;
    int64_t at_s; /* local time of the day; may be negative or above a day */
} change_rule;

typedef struct zone_rule {
    bool is_given;
    bool has_summer;
    int64_t offset_s, summer_s;
    change_rule begin, end; /* of summer time */
} zone_rule;

struct tide_time_zone {
    int count;
    int64_t *at_s;     /* of each transition */
    int64_t *offset_s; /* from then on */
    int64_t first_s;   /* before the first */
    zone_rule rule;    /* behind the last */
};

void tide_time_zone_free(tide_time_zone *zone)
{
    if (!zone)
        return;
    free(zone->at_s);
    free(zone->offset_s);
    free(zone);
}

/* ---- the rule at the end of a file (POSIX TZ) ---- */

static bool skip_name(const char **at)
{
    const char *p = *at;
    if (*p == '<') {
        while (*p && *p != '>')
            p++;
        if (*p != '>')
            return false;
        *at = p + 1;
        return true;
    }
    while (isalpha((unsigned char)*p))
        p++;
    const bool is_name = p - *at >= 3;
    *at = p;
    return is_name;
}

static bool read_number(const char **at, int max, int *out)
{
    int value = 0;
    const char *p = *at;
    while (isdigit((unsigned char)*p) && value <= max)
        value = value * 10 + (*p++ - '0');
    if (p == *at || value > max)
        return false;
    *out = value;
    *at = p;
    return true;
}

/* [+-]hh[:mm[:ss]] in seconds. */
static bool read_clock(const char **at, int64_t *out)
{
    const bool is_negative = **at == '-';
    int parts[3] = {0, 0, 0};
    if (**at == '-' || **at == '+')
        (*at)++;
    if (!read_number(at, 167, &parts[0]))
        return false;
    for (int i = 1; i < 3 && **at == ':'; i++) {
        (*at)++;
        if (!read_number(at, 59, &parts[i]))
            return false;
    }
    const int64_t value = parts[0] * INT64_C(3600) + parts[1] * INT64_C(60) + parts[2];
    *out = is_negative ? -value : value;
    return true;
}

static bool read_change(const char **at, change_rule *out)
{
    *out = (change_rule){.kind = 'D', .at_s = 2 * INT64_C(3600)};
    if (*(*at)++ != ',')
        return false;
    if (**at == 'M') {
        (*at)++;
        out->kind = 'M';
        if (!read_number(at, 12, &out->month) || *(*at)++ != '.' ||
            !read_number(at, 5, &out->week) || *(*at)++ != '.' || !read_number(at, 6, &out->day) ||
            out->month < 1 || out->week < 1)
            return false;
    } else {
        if (**at == 'J') {
            (*at)++;
            out->kind = 'J';
        }
        if (!read_number(at, 365, &out->day) || (out->kind == 'J' && out->day < 1))
            return false;
    }
    if (**at != '/')
        return true;
    (*at)++;
    return read_clock(at, &out->at_s);
}

static bool read_rule(const char *text, zone_rule *out)
{
    const char *at = text;
    *out = (zone_rule){.is_given = true};
    if (!skip_name(&at) || !read_clock(&at, &out->offset_s))
        return false;
    out->offset_s = -out->offset_s; /* POSIX counts west of UTC */
    if (*at == '\0')
        return true;
    out->has_summer = true;
    out->summer_s = out->offset_s + 3600;
    if (!skip_name(&at))
        return false;
    if (*at != ',') {
        if (!read_clock(&at, &out->summer_s))
            return false;
        out->summer_s = -out->summer_s;
    }
    return read_change(&at, &out->begin) && read_change(&at, &out->end) && *at == '\0';
}

/* ---- calendar ---- */

static bool is_leap(int64_t year)
{
    return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
}

/* Days from 1970-01-01 to the first of a month, proleptic Gregorian. */
static int64_t day_of(int64_t year, int month)
{
    const int64_t y = month <= 2 ? year - 1 : year;
    const int64_t era = (y >= 0 ? y : y - 399) / 400;
    const int64_t of_era = y - era * 400;
    const int64_t of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5;
    return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

static int64_t year_of(int64_t utc_s)
{
    int64_t days = utc_s / DAY_S - (utc_s % DAY_S < 0);
    int64_t year = 1970 + days * 400 / 146097;
    while (day_of(year, 1) > days)
        year--;
    while (day_of(year + 1, 1) <= days)
        year++;
    return year;
}

/* Local time, as seconds since 1970, at which the clocks change. */
static int64_t change_in(const change_rule *rule, int64_t year)
{
    int64_t day = day_of(year, 1);
    if (rule->kind == 'J') {
        day += rule->day - 1 + (is_leap(year) && rule->day > 59);
    } else if (rule->kind == 'D') {
        day += rule->day;
    } else {
        const int64_t first = day_of(year, rule->month);
        const int64_t next =
            rule->month == 12 ? day_of(year + 1, 1) : day_of(year, rule->month + 1);
        const int64_t weekday = ((first + 4) % 7 + 7) % 7; /* 1970 began on a Thursday */
        day = first + (rule->day - weekday + 7) % 7 + (rule->week - 1) * 7;
        while (day >= next)
            day -= 7;
    }
    return day * DAY_S + rule->at_s;
}

static int64_t offset_by_rule(const zone_rule *rule, int64_t utc_s)
{
    if (!rule->has_summer)
        return rule->offset_s;
    const int64_t year = year_of(utc_s + rule->offset_s);
    const int64_t begin = change_in(&rule->begin, year) - rule->offset_s;
    const int64_t end = change_in(&rule->end, year) - rule->summer_s;
    const bool is_summer = begin < end ? utc_s >= begin && utc_s < end
                                       : utc_s >= begin || utc_s < end; /* south of the equator */
    return is_summer ? rule->summer_s : rule->offset_s;
}

/* ---- the file ---- */

static int64_t read_i32(const char *p)
{
    const unsigned char *b = (const unsigned char *)p;
    const uint32_t value =
        (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | (uint32_t)b[3];
    return (int32_t)value;
}

static int64_t read_i64(const char *p)
{
    const uint64_t high = (uint64_t)(uint32_t)read_i32(p);
    return (int64_t)(high << 32 | (uint32_t)read_i32(p + 4));
}

typedef struct header {
    int64_t is_utc, is_standard, leaps, times, types, chars;
} header;

static bool read_header(tide_view *file, header *out)
{
    if (file->len < HEADER_LEN || memcmp(file->ptr, "TZif", 4) != 0)
        return false;
    int64_t *const fields[] = {&out->is_utc, &out->is_standard, &out->leaps,
                               &out->times,  &out->types,       &out->chars};
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        *fields[i] = read_i32(file->ptr + 20 + 4 * i);
        if (*fields[i] < 0 || *fields[i] > FILE_MAX)
            return false;
    }
    *file = tide_view_bytes(file->ptr + HEADER_LEN, file->len - HEADER_LEN);
    return out->times <= TRANSITIONS_MAX && out->types >= 1 && out->types <= TYPES_MAX;
}

static size_t block_len(const header *h, int64_t time_len)
{
    return (size_t)(h->times * (time_len + 1) + h->types * 6 + h->chars +
                    h->leaps * (time_len + 4) + h->is_standard + h->is_utc);
}

static bool read_block(tide_time_zone *zone, const char *p, const header *h)
{
    const char *indexes = p + h->times * 8;
    const char *types = indexes + h->times;
    zone->first_s = read_i32(types);
    for (int64_t i = 0; i < h->times; i++) {
        const unsigned char index = (unsigned char)indexes[i];
        if (index >= h->types)
            return false;
        zone->at_s[i] = read_i64(p + i * 8);
        zone->offset_s[i] = read_i32(types + index * 6);
        if (zone->offset_s[i] > OFFSET_MAX_S || zone->offset_s[i] < -OFFSET_MAX_S ||
            (i > 0 && zone->at_s[i] <= zone->at_s[i - 1]))
            return false;
    }
    zone->count = (int)h->times;
    return true;
}

static bool read_footer(tide_time_zone *zone, tide_view rest)
{
    char text[128];
    if (rest.len < 2 || rest.ptr[0] != '\n')
        return false;
    const char *end = memchr(rest.ptr + 1, '\n', rest.len - 1);
    const size_t len = end ? (size_t)(end - rest.ptr - 1) : sizeof text;
    if (len >= sizeof text)
        return false;
    memcpy(text, rest.ptr + 1, len);
    text[len] = '\0';
    return len == 0 || read_rule(text, &zone->rule);
}

/* Version 2 or above: a block of 32 bits for old readers, then one of 64 bits and the rule. */
static bool read_file(tide_time_zone *zone, tide_view file)
{
    header old = {0};
    header now = {0};
    const bool is_versioned = file.len > 4 && file.ptr[4] >= '2';
    if (!is_versioned || !read_header(&file, &old) || file.len < block_len(&old, 4))
        return false;
    file = tide_view_bytes(file.ptr + block_len(&old, 4), file.len - block_len(&old, 4));
    if (!read_header(&file, &now) || file.len < block_len(&now, 8))
        return false;
    zone->at_s = calloc((size_t)now.times + 1, sizeof *zone->at_s);
    zone->offset_s = calloc((size_t)now.times + 1, sizeof *zone->offset_s);
    if (!zone->at_s || !zone->offset_s || !read_block(zone, file.ptr, &now))
        return false;
    return read_footer(
        zone, tide_view_bytes(file.ptr + block_len(&now, 8), file.len - block_len(&now, 8)));
}

tide_status tide_time_zone_parse(tide_time_zone **out, tide_view file, tide_error *err)
{
    TIDE_CLEANUP(tide_time_zone_freep) tide_time_zone *zone = calloc(1, sizeof *zone);
    if (!zone)
        return tide_no_memory(err);
    if (!read_file(zone, file))
        return tide_fail(err, TIDE_E_DAMAGED, "not a TZif file of version 2 or above");
    *out = TIDE_TAKE(zone);
    return TIDE_OK;
}

static bool is_zone_name(const char *name)
{
    const size_t len = name ? strnlen(name, TIDE_TIME_ZONE_NAME_MAX + 1) : 0;
    if (len == 0 || len > TIDE_TIME_ZONE_NAME_MAX || name[0] == '/' || strstr(name, ".."))
        return false;
    for (size_t i = 0; i < len; i++)
        if (!isalnum((unsigned char)name[i]) && !strchr("_+-/", name[i]))
            return false;
    return name[len - 1] != '/';
}

tide_status tide_time_zone_load(tide_time_zone **out, const char *name, tide_error *err)
{
    static const char *const folders[] = {"/usr/share/zoneinfo", "/usr/lib/zoneinfo",
                                          "/etc/zoneinfo"};
    if (!is_zone_name(name))
        return tide_fail(err, TIDE_E_INVALID, "'%s' is no name of a time zone, like Europe/Berlin",
                         name ? name : "");
    if (strcmp(name, "UTC") == 0) {
        *out = calloc(1, sizeof **out);
        return *out ? TIDE_OK : tide_no_memory(err);
    }
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++) {
        char path[TIDE_TIME_ZONE_NAME_MAX + 32];
        tide_error ignored;
        TIDE_CLEANUP(tide_buffer_done) tide_buffer file = tide_buffer_of(FILE_MAX);
        (void)snprintf(path, sizeof path, "%s/%s", folders[i], name);
        if (tide_file_read(&file, path, &ignored) < TIDE_OK)
            continue;
        const tide_status status = tide_time_zone_parse(out, tide_buffer_view(&file), err);
        return status < TIDE_OK ? tide_fail_context(err, status, "%s", path) : TIDE_OK;
    }
    return tide_fail(err, TIDE_E_NOT_FOUND,
                     "time zone %s is not known on this machine: check its name, or install the "
                     "package tzdata",
                     name);
}

/* ---- reading it ---- */

int64_t tide_time_zone_offset(const tide_time_zone *zone, int64_t utc_s)
{
    int low = 0;
    int high = zone->count;
    while (low < high) { /* the first transition behind utc_s */
        const int middle = (low + high) / 2;
        if (zone->at_s[middle] <= utc_s)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == zone->count && zone->rule.is_given)
        return offset_by_rule(&zone->rule, utc_s);
    return low == 0 ? zone->first_s : zone->offset_s[low - 1];
}

/* The first moment in (low, high] with another offset than low has; there is one. */
static int64_t find_change(const tide_time_zone *zone, int64_t low, int64_t high)
{
    const int64_t before = tide_time_zone_offset(zone, low);
    while (high - low > 1) {
        const int64_t middle = low + (high - low) / 2;
        if (tide_time_zone_offset(zone, middle) == before)
            low = middle;
        else
            high = middle;
    }
    return high;
}

int64_t tide_time_zone_find(const tide_time_zone *zone, int64_t local_s)
{
    /* Clocks change at most once in the two days around it, in all zones since 1900. */
    const int64_t early = tide_time_zone_offset(zone, local_s - DAY_S);
    const int64_t late = tide_time_zone_offset(zone, local_s + DAY_S);
    const int64_t by_early = local_s - early;
    const int64_t by_late = local_s - late;
    if (tide_time_zone_offset(zone, by_early) == early)
        return by_early;
    if (tide_time_zone_offset(zone, by_late) == late)
        return by_late;
    return find_change(zone, local_s - DAY_S, local_s + DAY_S);
}
