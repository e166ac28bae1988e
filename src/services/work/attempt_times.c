#include "services/work/attempt_times.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/lock.h"

typedef struct slot {
    uint64_t hash; /* of item and token; 0: free */
    int64_t begun_us;
    tide_series *running;
} slot;

struct tide_attempt_times {
    tide_metrics *metrics;
    tide_env *env;
    pthread_mutex_t lock; /* of the slots */
    slot slots[TIDE_ATTEMPT_SLOTS];
};

tide_status tide_attempt_times_new(tide_attempt_times **out, tide_metrics *metrics, tide_env *env,
                                   tide_error *err)
{
    TIDE_CLEANUP(tide_freep) TIDE_NEW(tide_attempt_times, times, err);
    times->metrics = metrics;
    times->env = env;
    (void)pthread_mutex_init(&times->lock, NULL);
    *out = TIDE_TAKE(times);
    return TIDE_OK;
}

void tide_attempt_times_free(tide_attempt_times *times)
{
    if (!times)
        return;
    (void)pthread_mutex_destroy(&times->lock);
    free(times);
}

/* FNV-1a. A token alone is not unique: each item has its own. */
static uint64_t hash_of(const char *id, int64_t token)
{
    uint64_t hash = UINT64_C(14695981039346656037);
    for (; *id; id++)
        hash = (hash ^ (unsigned char)*id) * UINT64_C(1099511628211);
    hash = (hash ^ (uint64_t)token) * UINT64_C(1099511628211);
    hash ^= hash >> 32;
    return hash ? hash : 1;
}

void tide_attempt_times_claimed(tide_attempt_times *times, const tide_work_claims *claims)
{
    if (!times)
        return;
    const int64_t now_us = times->env->mono_us(times->env);
    for (int i = 0; i < claims->count; i++) {
        const tide_work_claimed *item = &claims->items[i];
        if (item->attempt == 1)
            tide_series_observe(
                tide_metrics_series(times->metrics, TIDE_METRIC_WORK_WAIT, item->work_type),
                item->waited_us);
        tide_series *running =
            tide_metrics_series(times->metrics, TIDE_METRIC_WORK_RUN, item->work_type);
        const uint64_t hash = hash_of(item->work_item_id, item->lease_token);
        TIDE_HOLD(&times->lock);
        times->slots[hash % TIDE_ATTEMPT_SLOTS] =
            (slot){.hash = hash, .begun_us = now_us, .running = running};
    }
}

void tide_attempt_times_ended(tide_attempt_times *times, const char *work_item_id, int64_t token)
{
    if (!times)
        return;
    const uint64_t hash = hash_of(work_item_id, token);
    slot *s = &times->slots[hash % TIDE_ATTEMPT_SLOTS];
    TIDE_HOLD(&times->lock);
    if (s->hash != hash)
        return;
    tide_series_observe(s->running, times->env->mono_us(times->env) - s->begun_us);
    s->hash = 0;
}
