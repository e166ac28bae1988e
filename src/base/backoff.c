#include "base/backoff.h"

#include <assert.h>

/* base * 2^attempt, without ever computing what would overflow. */
static int64_t get_ceiling(const tide_backoff *policy, int attempt)
{
    int64_t ceiling_us = policy->base_us;
    for (int i = 0; i < attempt; i++) {
        if (ceiling_us > policy->cap_us / 2)
            return policy->cap_us;
        ceiling_us *= 2;
    }
    return ceiling_us;
}

int64_t tide_backoff_next(const tide_backoff *policy, int attempt, tide_env *env)
{
    assert(policy->base_us >= 1 && policy->base_us <= policy->cap_us);

    const int64_t floor_us = policy->base_us / 2;
    const uint64_t choices = (uint64_t)(get_ceiling(policy, attempt) - floor_us) + 1;
    uint64_t random;
    env->random(env, &random, sizeof random);
    /* The bias of the remainder is below choices / 2^64: nothing that a wait could show. */
    return floor_us + (int64_t)(random % choices);
}
