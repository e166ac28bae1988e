/* limits.c - the table of limits as data. */
#include "net/http/limits.h"

#include <inttypes.h>
#include <string.h>

static const tide_net_limit_row rows[] = {
#define TIDE_NET_LIMIT_ROW(name_, standard_, minimum_, maximum_, unit_, help_)                     \
    {.name = #name_,                                                                               \
     .standard = (standard_),                                                                      \
     .minimum = (minimum_),                                                                        \
     .maximum = (maximum_),                                                                        \
     .unit = TIDE_NET_##unit_,                                                                     \
     .help = (help_),                                                                              \
     .offset = offsetof(tide_net_limits, name_)},
    TIDE_NET_LIMIT_TABLE(TIDE_NET_LIMIT_ROW)
#undef TIDE_NET_LIMIT_ROW
};

const tide_net_limit_row *tide_net_limit_rows(size_t *count)
{
    *count = sizeof rows / sizeof rows[0];
    return rows;
}

void tide_net_limits_init(tide_net_limits *limits)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        memcpy((char *)limits + rows[i].offset, &rows[i].standard, sizeof rows[i].standard);
}

int64_t tide_net_limits_patience_us(const tide_net_limits *limits, uint64_t moved_len, size_t crowd)
{
    const double longest_us = 1e15; /* thirty years: far from any overflow */
    const double taken_us = (double)moved_len * (double)crowd / (double)limits->write_rate * 1e6;
    return limits->write_us + (int64_t)(taken_us < longest_us ? taken_us : longest_us);
}

tide_status tide_net_limits_check(const tide_net_limits *limits, tide_error *err)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int64_t value;
        memcpy(&value, (const char *)limits + rows[i].offset, sizeof value);
        if (value < rows[i].minimum || value > rows[i].maximum)
            return tide_fail(err, TIDE_E_INVALID,
                             "limit %s: %" PRId64 ", want %" PRId64 "..%" PRId64, rows[i].name,
                             value, rows[i].minimum, rows[i].maximum);
    }
    return TIDE_OK;
}
