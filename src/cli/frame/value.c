#include "cli/frame/value.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/timefmt.h"

enum { NAME_SIZE = 32 };

tide_status tide_cli_parse_number(int64_t *out, const char *text, const char *what, int64_t min,
                                  int64_t max, tide_error *err)
{
    const char *digits = text[0] == '-' ? text + 1 : text;
    if (!*digits || digits[strspn(digits, "0123456789")] != '\0')
        return tide_fail(err, TIDE_E_INVALID, "%s '%s' is not a whole number", what, text);
    errno = 0;
    const int64_t number = strtoll(text, NULL, 10);
    if (errno == ERANGE || number < min || number > max)
        return tide_fail(err, TIDE_E_INVALID, "%s %s is out of range, want %" PRId64 " to %" PRId64,
                         what, text, min, max);
    *out = number;
    return TIDE_OK;
}

/* In the largest unit that leaves no rest, as one would write it. */
static const char *name_duration(char text[NAME_SIZE], int64_t us)
{
    static const struct {
        int64_t us;
        const char *name;
    } units[] = {{INT64_C(86400000000), "d"},
                 {INT64_C(3600000000), "h"},
                 {60000000, "m"},
                 {1000000, "s"},
                 {1000, "ms"},
                 {1, "us"}};
    size_t i = 0;
    while (us % units[i].us != 0)
        i++;
    (void)snprintf(text, NAME_SIZE, "%" PRId64 "%s", us / units[i].us, us ? units[i].name : "");
    return text;
}

tide_status tide_cli_parse_duration(int64_t *us, const char *text, const char *what, int64_t min_us,
                                    int64_t max_us, tide_error *err)
{
    int64_t duration_us = 0;
    char least[NAME_SIZE];
    char most[NAME_SIZE];
    if (tide_duration_parse(&duration_us, text) < TIDE_OK)
        return tide_fail(err, TIDE_E_INVALID,
                         "%s '%s' is not a duration like 250ms, 30s, 5m, 24h or 7d", what, text);
    if (duration_us < min_us || duration_us > max_us)
        return tide_fail(err, TIDE_E_INVALID, "%s %s is out of range, want %s to %s", what, text,
                         name_duration(least, min_us), name_duration(most, max_us));
    *us = duration_us;
    return TIDE_OK;
}

/* now, +30s, -1h, 30s: how far from now it is. TIDE_NONE: not of this form. */
static tide_status parse_distance(int64_t *us, const char *text, tide_cli_type type)
{
    *us = 0;
    if (strcmp(text, "now") == 0)
        return TIDE_OK;
    const bool has_sign = text[0] == '+' || text[0] == '-';
    const bool is_back = has_sign ? text[0] == '-' : type == TIDE_CLI_PAST;
    if (tide_duration_parse(us, text + has_sign) < TIDE_OK)
        return TIDE_NONE;
    *us = is_back ? -*us : *us;
    return TIDE_OK;
}

tide_status tide_cli_parse_time(int64_t *us, const char *text, const char *what, tide_cli_type type,
                                int64_t now_us, tide_error *err)
{
    int64_t distance_us = 0;
    int64_t time_us = 0;
    if (parse_distance(&distance_us, text, type) == TIDE_OK) {
        if (__builtin_add_overflow(now_us, distance_us, &time_us) || time_us < TIDE_TIME_MIN_US ||
            time_us > TIDE_TIME_MAX_US)
            return tide_fail(err, TIDE_E_INVALID, "%s %s lies outside the years 1 to 9999", what,
                             text);
    } else if (tide_time_parse(&time_us, tide_view_of(text)) < TIDE_OK) {
        return tide_fail(err, TIDE_E_INVALID,
                         "%s '%s' is not a time like 2024-02-29T12:30:00Z, now, +30s or -1h", what,
                         text);
    }
    *us = time_us;
    return TIDE_OK;
}

static tide_status parse_size(int64_t *bytes, const char *text, const char *what, int64_t min,
                              int64_t max, tide_error *err)
{
    int64_t size = 0;
    if (tide_size_parse(&size, text) < TIDE_OK)
        return tide_fail(err, TIDE_E_INVALID, "%s '%s' is not a size like 100, 64KiB or 1MiB", what,
                         text);
    if (size < min || size > max)
        return tide_fail(err, TIDE_E_INVALID,
                         "%s %s is out of range, want %" PRId64 " to %" PRId64 " bytes", what, text,
                         min, max);
    *bytes = size;
    return TIDE_OK;
}

static tide_status parse_choice(int64_t *position, const char *text, const char *what,
                                const char *choices, tide_error *err)
{
    const size_t len = strlen(text);
    int64_t at = 0;
    for (const char *choice = choices; *choice; at++) {
        const size_t choice_len = strcspn(choice, "|");
        if (choice_len == len && strncmp(choice, text, len) == 0) {
            *position = at;
            return TIDE_OK;
        }
        choice += choice_len + (choice[choice_len] == '|');
    }
    return tide_fail(err, TIDE_E_INVALID, "%s '%s' is none of %s", what, text, choices);
}

tide_status tide_cli_value_check(int64_t *number, const tide_cli_option *option, const char *text,
                                 const char *what, tide_error *err)
{
    int64_t unused_us = 0;
    switch (option->type) {
    case TIDE_CLI_NUMBER:
        return tide_cli_parse_number(number, text, what, option->min, option->max, err);
    case TIDE_CLI_DURATION:
        return tide_cli_parse_duration(number, text, what, option->min, option->max, err);
    case TIDE_CLI_SIZE:
        return parse_size(number, text, what, option->min, option->max, err);
    case TIDE_CLI_CHOICE:
        return parse_choice(number, text, what, option->value, err);
    case TIDE_CLI_FUTURE:
    case TIDE_CLI_PAST:
        /* Its form; what it means needs a clock. */
        return tide_cli_parse_time(&unused_us, text, what, option->type, 0, err);
    case TIDE_CLI_FLAG:
    case TIDE_CLI_TEXT:
    case TIDE_CLI_TEXTS:
        break;
    }
    return TIDE_OK;
}

void tide_cli_value_range(char *out, size_t size, const tide_cli_option *option)
{
    out[0] = '\0';
    if (option->type == TIDE_CLI_NUMBER && option->max < INT64_MAX)
        (void)snprintf(out, size, ", %" PRId64 " to %" PRId64, option->min, option->max);
    else if (option->type == TIDE_CLI_NUMBER)
        (void)snprintf(out, size, ", %" PRId64 " or more", option->min);
    else if (option->type == TIDE_CLI_TEXTS && option->max > 1)
        (void)snprintf(out, size, "; may be given several times");
}
