/* cron_fuzz.c - eight bytes of a time, then an expression: what it finds is later, fits, and
 * nothing in between does. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/timefmt.h"
#include "work/schedule/cron.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

/* Not assert: it must hold in whatever way the target is built. */
static void require(bool is_true)
{
    if (!is_true)
        abort();
}

/* The found time is the next one also when asked from a microsecond before it, and from between. */
static void check_next(const tide_cron *cron, int64_t after_us)
{
    int64_t next_us = 0;
    if (tide_cron_next(cron, after_us, &next_us) != TIDE_OK)
        return;
    require(next_us > after_us && next_us % 60000000 == 0);
    require(next_us >= TIDE_TIME_MIN_US && next_us <= TIDE_TIME_MAX_US);
    const int64_t minutes = (next_us - TIDE_TIME_MIN_US) / 60000000; /* since a midnight */
    require(cron->minutes >> minutes % 60 & 1);
    require(cron->hours >> minutes / 60 % 24 & 1);
    int64_t again_us = 0;
    require(tide_cron_next(cron, next_us - 1, &again_us) == TIDE_OK && again_us == next_us);
    if (after_us >= TIDE_TIME_MIN_US) {
        const int64_t between_us = after_us + (next_us - 1 - after_us) / 2;
        require(tide_cron_next(cron, between_us, &again_us) == TIDE_OK && again_us == next_us);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    int64_t after_us;
    if (len < sizeof after_us)
        return 0;
    memcpy(&after_us, data, sizeof after_us);
    char *text = calloc(1, len - sizeof after_us + 1);
    if (!text)
        return 0;
    memcpy(text, data + sizeof after_us, len - sizeof after_us);
    tide_cron cron;
    tide_error err;
    if (tide_cron_parse(&cron, text, &err) == TIDE_OK) {
        require(cron.minutes && cron.hours && cron.days && cron.months && cron.weekdays);
        require(cron.minutes >> 60 == 0 && cron.hours >> 24 == 0 && (cron.days & 1) == 0);
        require((cron.months & 1) == 0 && cron.months >> 13 == 0 && cron.weekdays >> 7 == 0);
        check_next(&cron, after_us);
        check_next(&cron, after_us % TIDE_TIME_MAX_US);
    }
    free(text);
    return 0;
}
