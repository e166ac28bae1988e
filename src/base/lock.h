/* lock.h - a mutex that is held to the end of a scope.
 *
 *     TIDE_HOLD(&metrics->lock);
 *     ...                             every return from here on unlocks it
 *
 * What is returned is computed with the mutex held.
 *
 * Threads: as a mutex. */
#pragma once

#include <pthread.h>

#include "base/cleanup.h"

#define TIDE_HOLD_AT_(mutex, line) TIDE_HOLD_NAMED_(mutex, tide_held_##line)
#define TIDE_HOLD_NAMED_(mutex, name)                                                              \
    __attribute__((unused)) TIDE_CLEANUP(tide_lock_releasep) pthread_mutex_t *const name =         \
        tide_lock_hold(mutex)
#define TIDE_HOLD_LINE_(mutex, line) TIDE_HOLD_AT_(mutex, line)
#define TIDE_HOLD(mutex) TIDE_HOLD_LINE_(mutex, __LINE__)

static inline pthread_mutex_t *tide_lock_hold(pthread_mutex_t *mutex)
{
    (void)pthread_mutex_lock(mutex);
    return mutex;
}

static inline void tide_lock_releasep(pthread_mutex_t *const *held)
{
    (void)pthread_mutex_unlock(*held);
}
