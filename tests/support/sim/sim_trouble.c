#include "support/sim/sim_world.h"

#include <string.h>

/* Evenly between 1 and twice the mean, so the mean is what was asked for. */
static int64_t draw_interval(sim *world, int64_t mean_us)
{
    return 1 + (int64_t)prng_below(&world->trouble, (uint64_t)mean_us * 2);
}

int64_t sim_draw_up_to(prng *random, int64_t max_us)
{
    return max_us <= 0 ? 0 : (int64_t)prng_below(random, (uint64_t)max_us + 1);
}

bool sim_is_calm(const sim *world)
{
    return world->faults.calm_from_us > 0 && world->now_us >= world->faults.calm_from_us;
}

static void crash_by_chance(sim *world, sim_id id)
{
    const bool is_power = prng_chance(&world->trouble, world->faults.power_ppm, SIM_PPM);
    const int64_t down_us = sim_draw_up_to(&world->trouble, world->faults.down_max_us);
    sim_crash_now(world, id, is_power ? SIM_CRASH_POWER : SIM_CRASH_PROCESS, down_us);
}

void sim_maybe_crash_after(sim *world, sim_id id)
{
    if (world->actors[id].does.crash != NULL && world->actors[id].is_up && !sim_is_calm(world) &&
        prng_chance(&world->trouble, world->faults.crash_after_ppm, SIM_PPM))
        crash_by_chance(world, id);
}

void sim_crash_somebody(sim *world)
{
    sim_id candidates[SIM_ACTORS_MAX];
    uint64_t len = 0;
    for (sim_id id = 0; id < world->actors_len; id++)
        if (world->actors[id].is_up && world->actors[id].does.crash != NULL)
            candidates[len++] = id;
    if (len > 0)
        crash_by_chance(world, candidates[prng_below(&world->trouble, len)]);
    sim_schedule(world, (sim_event){.at_us = world->now_us +
                                             draw_interval(world, world->faults.crash_every_us),
                                    .kind = SIM_EVENT_CRASH_SOMEBODY});
}

void sim_cut_somebody(sim *world)
{
    if (world->actors_len >= 2) {
        const uint64_t len = (uint64_t)world->actors_len;
        const sim_id a = (sim_id)prng_below(&world->trouble, len);
        const sim_id b = (sim_id)(((uint64_t)a + 1 + prng_below(&world->trouble, len - 1)) % len);
        const int64_t until_us =
            world->now_us + sim_draw_up_to(&world->trouble, world->faults.cut_max_us);
        sim_cut(world, a, b, until_us);
        if (!prng_chance(&world->trouble, world->faults.cut_one_way_ppm, SIM_PPM))
            sim_cut(world, b, a, until_us);
    }
    sim_schedule(world, (sim_event){.at_us = world->now_us +
                                             draw_interval(world, world->faults.cut_every_us),
                                    .kind = SIM_EVENT_CUT_SOMEBODY});
}

void sim_calm_down(sim *world)
{
    sim_trace(world, "calm from here on");
    memset(world->cut_until_us, 0, sizeof(world->cut_until_us));
    for (sim_id id = 0; id < world->actors_len; id++)
        if (!world->actors[id].is_up) {
            world->actors[id].life++; /* the restart on its way is stale */
            if (world->actors[id].clock.booted_us > world->now_us)
                world->actors[id].clock.booted_us = world->now_us;
            sim_restart(world, id);
        }
}

void sim_begin_trouble(sim *world)
{
    if (world->faults.crash_every_us > 0)
        sim_schedule(world, (sim_event){.at_us = draw_interval(world, world->faults.crash_every_us),
                                        .kind = SIM_EVENT_CRASH_SOMEBODY});
    if (world->faults.cut_every_us > 0)
        sim_schedule(world, (sim_event){.at_us = draw_interval(world, world->faults.cut_every_us),
                                        .kind = SIM_EVENT_CUT_SOMEBODY});
    if (world->faults.calm_from_us > 0)
        sim_schedule(world,
                     (sim_event){.at_us = world->faults.calm_from_us, .kind = SIM_EVENT_CALM});
}
