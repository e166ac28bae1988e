/* duckdb_cord.c - one pull stops everything that hangs on a cord. */
#include <stdatomic.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/cond_wait.h"
#include "base/lock.h"
#include "base/thread.h"
#include "store/duckdb/duckdb_internal.h"

struct tide_duck_cord {
    pthread_mutex_t lock;
    pthread_cond_t loosened;
    pthread_t puller;
    bool has_puller;
    tide_duck *first; /* leaving takes the lock: no interruption after that */
    atomic_bool is_pulled;
};

tide_status tide_duck_cord_new(tide_duck_cord **out, tide_error *err)
{
    TIDE_NEW(tide_duck_cord, cord, err);
    (void)pthread_mutex_init(&cord->lock, NULL);
    (void)pthread_cond_init(&cord->loosened, NULL);
    *out = cord;
    return TIDE_OK;
}

void tide_duck_cord_free(tide_duck_cord *cord)
{
    if (!cord)
        return;
    tide_duck_cord_loosen(cord);
    (void)pthread_cond_destroy(&cord->loosened);
    (void)pthread_mutex_destroy(&cord->lock);
    free(cord);
}

static void interrupt_all(tide_duck_cord *cord)
{
    for (tide_duck *duck = cord->first; duck; duck = duck->next)
        tide_duck_interrupt(duck);
}

/* Goes on pulling until it is loosened. */
static void *pull_on(void *arg)
{
    tide_duck_cord *cord = arg;
    TIDE_HOLD(&cord->lock);
    while (atomic_load(&cord->is_pulled)) {
        interrupt_all(cord);
        (void)!tide_cond_wait(&cord->loosened, &cord->lock, tide_cond_until(TIDE_DUCK_AGAIN_US));
    }
    return NULL;
}

void tide_duck_cord_pull(tide_duck_cord *cord)
{
    TIDE_HOLD(&cord->lock);
    if (!atomic_exchange(&cord->is_pulled, true)) {
        interrupt_all(cord);
        cord->has_puller = tide_thread_start(&cord->puller, pull_on, cord, NULL) == TIDE_OK;
    }
}

void tide_duck_cord_loosen(tide_duck_cord *cord)
{
    (void)pthread_mutex_lock(&cord->lock);
    atomic_store(&cord->is_pulled, false);
    const bool has_puller = cord->has_puller;
    cord->has_puller = false;
    (void)pthread_cond_signal(&cord->loosened);
    (void)pthread_mutex_unlock(&cord->lock);
    if (has_puller)
        (void)pthread_join(cord->puller, NULL);
}

bool tide_duck_cord_is_pulled(const tide_duck_cord *cord)
{
    return cord && atomic_load(&cord->is_pulled);
}

void tide_duck_cord_join(tide_duck *duck)
{
    tide_duck_cord *cord = duck->db->cord;
    if (!cord)
        return;
    TIDE_HOLD(&cord->lock);
    duck->next = cord->first;
    cord->first = duck;
}

void tide_duck_cord_leave(tide_duck *duck)
{
    tide_duck_cord *cord = duck->db->cord;
    if (!cord)
        return;
    TIDE_HOLD(&cord->lock);
    tide_duck **at = &cord->first;
    while (*at && *at != duck)
        at = &(*at)->next;
    if (*at)
        *at = duck->next;
}

tide_status tide_duck_cord_check(const tide_duck *duck, tide_error *err)
{
    return tide_duck_cord_is_pulled(duck->db->cord)
               ? tide_fail(err, TIDE_E_INTERRUPTED, "it was stopped before it was done")
               : TIDE_OK;
}
