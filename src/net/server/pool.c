#include "net/server/pool.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/thread.h"
#include "net/call/call_core.h"

struct tide_pool {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t *threads;
    size_t thread_count;
    tide_call **queue; /* a ring */
    size_t queue_max;
    size_t first;
    size_t count;
    bool is_stopping;
};

static void lock_pool(tide_pool *pool)
{
    const int failed = pthread_mutex_lock(&pool->lock);
    assert(failed == 0);
    (void)failed;
}

static void unlock_pool(tide_pool *pool)
{
    const int failed = pthread_mutex_unlock(&pool->lock);
    assert(failed == 0);
    (void)failed;
}

/* NULL: the pool ends, and nothing is left. */
static tide_call *next_call(tide_pool *pool)
{
    tide_call *call = NULL;
    lock_pool(pool);
    while (pool->count == 0 && !pool->is_stopping)
        (void)pthread_cond_wait(&pool->changed, &pool->lock);
    if (pool->count > 0) {
        call = pool->queue[pool->first];
        pool->first = (pool->first + 1) % pool->queue_max;
        pool->count--;
    }
    unlock_pool(pool);
    return call;
}

static void *run_calls(void *arg)
{
    tide_pool *pool = arg;
    for (tide_call *call = next_call(pool); call; call = next_call(pool)) {
        tide_call_run(call);
        tide_call_release(call);
    }
    return NULL;
}

void tide_pool_free(tide_pool *pool)
{
    if (!pool)
        return;
    lock_pool(pool);
    pool->is_stopping = true;
    (void)pthread_cond_broadcast(&pool->changed);
    unlock_pool(pool);
    for (size_t i = 0; i < pool->thread_count; i++)
        (void)pthread_join(pool->threads[i], NULL);
    (void)pthread_cond_destroy(&pool->changed);
    (void)pthread_mutex_destroy(&pool->lock);
    free(pool->threads);
    free(pool->queue);
    free(pool);
}

tide_status tide_pool_new(tide_pool **out, size_t threads, size_t queue_max, tide_error *err)
{
    TIDE_NEW(tide_pool, pool, err);
    (void)pthread_mutex_init(&pool->lock, NULL);
    (void)pthread_cond_init(&pool->changed, NULL);
    pool->threads = calloc(threads, sizeof *pool->threads);
    pool->queue = calloc(queue_max, sizeof(void *));
    pool->queue_max = queue_max;
    if (!pool->threads || !pool->queue) {
        tide_pool_free(pool);
        return tide_no_memory(err);
    }
    for (; pool->thread_count < threads; pool->thread_count++) {
        const tide_status status =
            tide_thread_start(&pool->threads[pool->thread_count], run_calls, pool, err);
        if (status < TIDE_OK) {
            tide_pool_free(pool);
            return status;
        }
    }
    *out = pool;
    return TIDE_OK;
}

bool tide_pool_run(void *arg, tide_call *call)
{
    tide_pool *pool = arg;
    lock_pool(pool);
    const bool has_room = pool->count < pool->queue_max && !pool->is_stopping;
    if (has_room) {
        pool->queue[(pool->first + pool->count) % pool->queue_max] = call;
        pool->count++;
        (void)pthread_cond_signal(&pool->changed);
    }
    unlock_pool(pool);
    return has_room;
}
