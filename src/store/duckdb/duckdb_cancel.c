/* duckdb_cancel.c - cancellation of everything that runs on several connections. */
#include <stdatomic.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/cond_wait.h"
#include "base/lock.h"
#include "base/thread.h"
#include "store/duckdb/duckdb_internal.h"

struct tide_duck_cancel {
    pthread_mutex_t lock;
    pthread_cond_t cleared;
    pthread_t repeater;
    bool has_repeater;
    tide_duck *first; /* leaving takes the lock: no interruption after that */
    atomic_bool is_raised;
};

tide_status tide_duck_cancel_new(tide_duck_cancel **out, tide_error *err)
{
    TIDE_NEW(tide_duck_cancel, cancel, err);
    (void)pthread_mutex_init(&cancel->lock, NULL);
    (void)pthread_cond_init(&cancel->cleared, NULL);
    *out = cancel;
    return TIDE_OK;
}

void tide_duck_cancel_free(tide_duck_cancel *cancel)
{
    if (!cancel)
        return;
    tide_duck_cancel_clear(cancel);
    (void)pthread_cond_destroy(&cancel->cleared);
    (void)pthread_mutex_destroy(&cancel->lock);
    free(cancel);
}

static void interrupt_all(tide_duck_cancel *cancel)
{
    for (tide_duck *duck = cancel->first; duck; duck = duck->next)
        tide_duck_interrupt(duck);
}

/* Interrupts again and again: what begins meanwhile ends as well. */
static void *interrupt_again(void *arg)
{
    tide_duck_cancel *cancel = arg;
    TIDE_HOLD(&cancel->lock);
    while (atomic_load(&cancel->is_raised)) {
        interrupt_all(cancel);
        (void)!tide_cond_wait(&cancel->cleared, &cancel->lock, tide_cond_until(TIDE_DUCK_AGAIN_US));
    }
    return NULL;
}

void tide_duck_cancel_raise(tide_duck_cancel *cancel)
{
    TIDE_HOLD(&cancel->lock);
    if (!atomic_exchange(&cancel->is_raised, true)) {
        interrupt_all(cancel);
        cancel->has_repeater =
            tide_thread_start(&cancel->repeater, interrupt_again, cancel, NULL) == TIDE_OK;
    }
}

void tide_duck_cancel_clear(tide_duck_cancel *cancel)
{
    (void)pthread_mutex_lock(&cancel->lock);
    atomic_store(&cancel->is_raised, false);
    const bool has_repeater = cancel->has_repeater;
    cancel->has_repeater = false;
    (void)pthread_cond_signal(&cancel->cleared);
    (void)pthread_mutex_unlock(&cancel->lock);
    if (has_repeater)
        (void)pthread_join(cancel->repeater, NULL);
}

bool tide_duck_cancel_is_raised(const tide_duck_cancel *cancel)
{
    return cancel && atomic_load(&cancel->is_raised);
}

void tide_duck_cancel_join(tide_duck *duck)
{
    tide_duck_cancel *cancel = duck->db->cancel;
    if (!cancel)
        return;
    TIDE_HOLD(&cancel->lock);
    duck->next = cancel->first;
    cancel->first = duck;
}

void tide_duck_cancel_leave(tide_duck *duck)
{
    tide_duck_cancel *cancel = duck->db->cancel;
    if (!cancel)
        return;
    TIDE_HOLD(&cancel->lock);
    tide_duck **at = &cancel->first;
    while (*at && *at != duck)
        at = &(*at)->next;
    if (*at)
        *at = duck->next;
}

tide_status tide_duck_cancel_check(const tide_duck *duck, tide_error *err)
{
    return tide_duck_cancel_is_raised(duck->db->cancel)
               ? tide_fail(err, TIDE_E_INTERRUPTED, "it was stopped before it was done")
               : TIDE_OK;
}
