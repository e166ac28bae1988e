#include "services/lake/recent_conflicts.h"

#include "base/lock.h"

void tide_refusals_init(tide_refusals *refusals)
{
    (void)pthread_mutex_init(&refusals->lock, NULL);
}

void tide_refusals_done(tide_refusals *refusals)
{
    (void)pthread_mutex_destroy(&refusals->lock);
}

void tide_refusals_add(tide_refusals *refusals, const tide_refusal *refusal)
{
    TIDE_HOLD(&refusals->lock);
    refusals->kept[refusals->count++ % TIDE_REFUSALS_KEPT] = *refusal;
}

int64_t tide_refusals_admit_line(tide_refusals *refusals, int64_t now_us)
{
    enum { LINE_US = 100000 };
    TIDE_HOLD(&refusals->lock);
    if (refusals->logged_us != 0 && now_us - refusals->logged_us < LINE_US) {
        refusals->omitted++;
        return -1;
    }
    const int64_t omitted = refusals->omitted;
    refusals->logged_us = now_us;
    refusals->omitted = 0;
    return omitted;
}

bool tide_refusals_get(tide_refusals *refusals, uint64_t newest, tide_refusal *out)
{
    TIDE_HOLD(&refusals->lock);
    const bool is_there = newest < refusals->count && newest < TIDE_REFUSALS_KEPT;
    if (is_there)
        *out = refusals->kept[(refusals->count - 1 - newest) % TIDE_REFUSALS_KEPT];
    return is_there;
}
