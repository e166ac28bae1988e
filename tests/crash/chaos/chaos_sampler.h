/* chaos_sampler.h - the checkpoints as anybody sees them by SQL, again and again while everything happens.
 *
 * A line of a history per position and look, for tests/check/delivery.py. What was read counts only once the server has flushed
 * everything that was there to be read: a crash may take back what nobody was told. Uses libpq alone.
 *
 * Threads: open and close from one. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "support/process/proc.h"

typedef struct chaos_sampler {
    const char *url;
    int history;
    pthread_t thread;
    atomic_bool is_over;
    atomic_int rounds; /* that were seen to the end */
} chaos_sampler;

TIDE_MUST_CHECK tide_status chaos_sampler_open(chaos_sampler *sampler, const char *url,
                                               const char *path, tide_error *err);
void chaos_sampler_close(chaos_sampler *sampler); /* fine also after a failed open, and twice */
