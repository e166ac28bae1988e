/* virtual_env.h - a machine whose time and chance the test holds in its hand.
 *
 * A tide_env with three clocks that move only on request, and random bytes that depend on nothing
 * but the seed. Sleeping moves the clocks and returns at once. What can happen to a real machine
 * can be done to it:
 *
 *                              wall        mono      boot      boot id
 *     advance                  + us        + us      + us      same
 *     suspend                  + us        same      + us      same
 *     set_wall                 jumps       same      same      same
 *     reboot                   same        0         0         new
 *
 * A new one starts at 2025-01-01 00:00:00 UTC, an hour after its boot.
 *
 * Threads: safe; one mutex, so concurrent callers see times that never go back. The order in
 * which threads draw random bytes decides which thread gets which: determinism needs a single
 * thread. */
#pragma once

#include <pthread.h>
#include <stdint.h>

#include <tidemark/env.h>

#include "support/prng.h"

#define VIRTUAL_ENV_WALL_US INT64_C(1735689600000000) /* 2025-01-01 00:00:00 UTC */
#define VIRTUAL_ENV_UP_US INT64_C(3600000000)

typedef struct virtual_env {
    tide_env env; /* first: a tide_env * given out is also a virtual_env * */
    pthread_mutex_t lock;
    int64_t wall_us;
    int64_t mono_us;
    int64_t boot_us;
    char boot_id[TIDE_BOOT_ID_SIZE];
    prng random;
} virtual_env;

void virtual_env_init(virtual_env *v, uint64_t seed);
void virtual_env_done(virtual_env *v);

/* All clocks move on; us must not be negative. */
void virtual_env_advance(virtual_env *v, int64_t us);

/* The machine sleeps: the monotonic clock stops. */
void virtual_env_suspend(virtual_env *v, int64_t us);

/* The wall clock is set, forward or back; nothing else moves. */
void virtual_env_set_wall(virtual_env *v, int64_t wall_us);

/* A new boot id; mono and boot start at 0. Time passes only by virtual_env_advance. */
void virtual_env_reboot(virtual_env *v);

/* A random version 4 UUID as text; the simulator makes boot ids by it too. */
void virtual_env_make_boot_id(prng *random, char out[TIDE_BOOT_ID_SIZE]);
