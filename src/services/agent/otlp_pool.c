#include "services/agent/otlp_pool.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/lock.h"

enum { DECODERS = 4, METRICS = DECODERS }; /* the last one is that of metrics */

struct tide_otlp_pool {
    tide_env *env;
    struct {
        pthread_mutex_t lock;
        tide_otlp *otlp;
    } places[DECODERS + 1];
};

static tide_status number_frames(void *arg, const tide_view *names, uint64_t *ids, int count,
                                 tide_error *err)
{
    return tide_feed_frames_put(arg, names, ids, count, err);
}

tide_status tide_otlp_pool_new(tide_otlp_pool **out, tide_env *env, tide_feed *feed,
                               double sample_fraction, tide_error *err)
{
    TIDE_NEW(tide_otlp_pool, pool, err);
    pool->env = env;
    tide_otlp_options options = {.frames = {.number = number_frames, .arg = feed},
                                 .sample_fraction = sample_fraction,
                                 .started_ms = env->wall_us(env) / 1000};
    env->random(env, &options.hash_seed, sizeof options.hash_seed);
    tide_status status = TIDE_OK;
    for (int i = 0; i <= DECODERS; i++) {
        (void)pthread_mutex_init(&pool->places[i].lock, NULL);
        if (status >= TIDE_OK)
            status = tide_otlp_new(&pool->places[i].otlp, &options, err);
    }
    if (status < TIDE_OK) {
        tide_otlp_pool_free(pool);
        return status;
    }
    *out = pool;
    return TIDE_OK;
}

void tide_otlp_pool_free(tide_otlp_pool *pool)
{
    for (int i = 0; pool && i <= DECODERS; i++) {
        tide_otlp_free(pool->places[i].otlp);
        (void)pthread_mutex_destroy(&pool->places[i].lock);
    }
    free(pool);
}

/* A free place, or the first one when it becomes free. Its lock is held. */
static int take_place(tide_otlp_pool *pool, tide_otlp_signal signal)
{
    if (signal == TIDE_OTLP_METRICS) {
        (void)pthread_mutex_lock(&pool->places[METRICS].lock);
        return METRICS;
    }
    for (int i = 0; i < DECODERS; i++)
        if (pthread_mutex_trylock(&pool->places[i].lock) == 0)
            return i;
    (void)pthread_mutex_lock(&pool->places[0].lock);
    return 0;
}

tide_status tide_otlp_pool_decode(tide_otlp_pool *pool, tide_otlp_signal signal,
                                  tide_otlp_format format, tide_view request,
                                  tide_otlp_output *output, tide_error *err)
{
    const int place = take_place(pool, signal);
    const tide_status status = tide_otlp_decode(pool->places[place].otlp, signal, format, request,
                                                pool->env->wall_us(pool->env) / 1000, output, err);
    (void)pthread_mutex_unlock(&pool->places[place].lock);
    return status;
}

void tide_otlp_pool_undo(tide_otlp_pool *pool, tide_otlp_signal signal, tide_otlp_output *output)
{
    if (signal != TIDE_OTLP_METRICS) /* nothing is remembered of others */
        return;
    TIDE_HOLD(&pool->places[METRICS].lock);
    tide_otlp_undo(pool->places[METRICS].otlp, output);
}
