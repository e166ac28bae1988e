#include "support/sim/sim_clock.h"

#include <string.h>

#include "support/clock/virtual_env.h"
#include "support/sim/sim.h"

/* us * ppm / 10^6 without overflow for any time a run can reach. */
static int64_t scale_ppm(int64_t us, int64_t ppm)
{
    return us / SIM_PPM * ppm + us % SIM_PPM * ppm / SIM_PPM;
}

static int64_t to_local(const sim_clock *c, int64_t true_us)
{
    const int64_t up_us = true_us - c->booted_us;
    return up_us + scale_ppm(up_us, c->drift_ppm);
}

int64_t sim_clock_true_us(const sim_clock *c, int64_t local_us)
{
    if (local_us <= 0)
        return c->booted_us;
    if (local_us >= INT64_MAX / 4)
        return INT64_MAX;
    /* Close by, then exact: a local microsecond is between half and twice a true one. */
    const int64_t slowdown_ppm = c->drift_ppm * SIM_PPM / (SIM_PPM + c->drift_ppm);
    int64_t at_us = c->booted_us + local_us - scale_ppm(local_us, slowdown_ppm);
    while (to_local(c, at_us) < local_us)
        at_us += 1 + (local_us - to_local(c, at_us)) / 2;
    while (to_local(c, at_us - 1) >= local_us)
        at_us -= 1 + (to_local(c, at_us - 1) - local_us) / 2;
    return at_us;
}

/* An actor that has slept inside its step is ahead of the world. */
static int64_t true_now(const sim_clock *c)
{
    return c->busy_until_us > *c->world_us ? c->busy_until_us : *c->world_us;
}

static int64_t read_uptime(tide_env *env)
{
    const sim_clock *c = (const sim_clock *)env;
    return to_local(c, true_now(c));
}

static int64_t read_wall(tide_env *env)
{
    const sim_clock *c = (const sim_clock *)env;
    const int64_t now_us = true_now(c);
    return VIRTUAL_ENV_WALL_US + now_us + scale_ppm(now_us, c->drift_ppm) + c->wall_offset_us;
}

static void read_boot_id(tide_env *env, char out[TIDE_BOOT_ID_SIZE])
{
    memcpy(out, ((const sim_clock *)env)->boot_id, TIDE_BOOT_ID_SIZE);
}

static void draw_random(tide_env *env, void *out, size_t len)
{
    prng_fill(&((sim_clock *)env)->random, out, len);
}

static void sleep_ahead(tide_env *env, int64_t us)
{
    sim_clock *c = (sim_clock *)env;
    const int64_t now_us = true_now(c);
    if (us > 0)
        c->busy_until_us = sim_clock_true_us(c, to_local(c, now_us) + us);
}

void sim_clock_init(sim_clock *c, const int64_t *world_us, uint64_t seed)
{
    *c = (sim_clock){.env = {TIDE_ENV_INIT, .wall_us = read_wall, .mono_us = read_uptime,
                             .boot_us = read_uptime, .boot_id = read_boot_id, .random = draw_random,
                             .sleep_us = sleep_ahead},
                     .world_us = world_us};
    prng_init(&c->random, seed);
    virtual_env_make_boot_id(&c->random, c->boot_id);
}

void sim_clock_reboot(sim_clock *c, int64_t at_us)
{
    c->booted_us = at_us;
    virtual_env_make_boot_id(&c->random, c->boot_id);
}
