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

bool tide_refusals_get(tide_refusals *refusals, uint64_t newest, tide_refusal *out)
{
    TIDE_HOLD(&refusals->lock);
    const bool is_there = newest < refusals->count && newest < TIDE_REFUSALS_KEPT;
    if (is_there)
        *out = refusals->kept[(refusals->count - 1 - newest) % TIDE_REFUSALS_KEPT];
    return is_there;
}
