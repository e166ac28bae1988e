/* sim_clock.h - an actor's view of its machine: the true time seen through a wrong clock.
 *
 * The world has one true time; the clocks of an actor run too fast or too slow by drift_ppm, its
 * wall clock is off by an offset, its boot clock starts at its own boot. A sleep inside a step
 * moves the actor ahead of the world, up to busy_until_us. Only the files of sim use it.
 *
 * Threads: none. */
#pragma once

#include <stdint.h>

#include <tidemark/env.h>

#include "support/prng.h"

typedef struct sim_clock {
    tide_env env;            /* first: a tide_env * given out is also a sim_clock * */
    const int64_t *world_us; /* the true time */
    int64_t wall_offset_us;
    int64_t drift_ppm;
    int64_t booted_us;     /* true time at which its boot clock read 0 */
    int64_t busy_until_us; /* true time to which it has slept inside a step */
    char boot_id[TIDE_BOOT_ID_SIZE];
    prng random;
} sim_clock;

/* A machine that booted at true time 0, with right clocks. world_us must live as long. */
void sim_clock_init(sim_clock *c, const int64_t *world_us, uint64_t seed);

/* Boot anew at a true time: a new boot id, clocks at 0. */
void sim_clock_reboot(sim_clock *c, int64_t at_us);

/* The first true time at which the actor's clock shows local_us or more. */
int64_t sim_clock_true_us(const sim_clock *c, int64_t local_us);
