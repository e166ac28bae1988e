/* cond_wait.h - waiting on a condition variable, but not for ever.
 *
 * For threads that wait for each other in real time. It is not for anything that a test wants on a
 * virtual clock: a condition variable knows only the machine's.
 *
 * Threads: as pthread_cond_wait. */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include <tidemark/export.h>

/* A moment timeout_us from now, on the machine's monotonic clock. */
int64_t tide_cond_until(int64_t timeout_us);

/* Like pthread_cond_wait. False: the moment has passed. */
TIDE_MUST_CHECK bool tide_cond_wait(pthread_cond_t *condition, pthread_mutex_t *lock,
                                    int64_t until_us);
