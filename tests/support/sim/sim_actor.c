#include "support/sim/sim_world.h"

#include <assert.h>
#include <inttypes.h>

void sim_set_wake(sim *world, sim_id id, int64_t true_us)
{
    sim_body *a = &world->actors[id];
    a->wake++;
    a->wake_at_us = true_us;
    if (true_us == INT64_MAX)
        return;
    sim_schedule(
        world,
        (sim_event){.at_us = true_us, .kind = SIM_EVENT_WAKE, .to = id, .generation = a->wake});
}

void sim_wake(sim *world, sim_id id)
{
    assert(id >= 0 && id < world->actors_len);
    if (world->actors[id].is_up && world->actors[id].wake_at_us > world->now_us)
        sim_set_wake(world, id, world->now_us);
}

void sim_step(sim *world, sim_id id)
{
    sim_body *a = &world->actors[id];
    const uint64_t life = a->life;
    sim_trace(world, "%s steps", a->does.name);
    a->wake_at_us = SIM_IDLE;
    const int64_t next_us = a->does.step(a->does.self, world);
    if (!a->is_up || a->life != life) /* it brought about its own crash */
        return;
    const int64_t at_us = next_us == SIM_IDLE ? SIM_IDLE : sim_clock_true_us(&a->clock, next_us);
    if (at_us < a->wake_at_us)
        sim_set_wake(world, id, at_us);
}

void sim_restart(sim *world, sim_id id)
{
    sim_body *a = &world->actors[id];
    sim_trace(world, "%s restarts", a->does.name);
    a->is_up = true;
    if (a->does.restart != NULL)
        a->does.restart(a->does.self, world);
    if (a->is_up)
        sim_set_wake(world, id, world->now_us);
}

void sim_crash_now(sim *world, sim_id id, sim_crash how, int64_t down_us)
{
    assert(id >= 0 && id < world->actors_len);
    sim_body *a = &world->actors[id];
    assert(a->does.crash != NULL);
    if (!a->is_up)
        return;
    sim_trace(world, "%s crashes (%s) for %" PRId64 " us", a->does.name,
              how == SIM_CRASH_POWER ? "power" : "process", down_us);
    world->crash_count++;
    a->is_up = false;
    a->life++;
    a->wake++; /* its wakes are stale */
    a->wake_at_us = SIM_IDLE;
    a->clock.busy_until_us = 0;
    a->does.crash(a->does.self, world, how);
    const int64_t back_us = world->now_us + (down_us > 0 ? down_us : 0);
    if (how == SIM_CRASH_POWER)
        sim_clock_reboot(&a->clock, back_us);
    sim_schedule(
        world,
        (sim_event){.at_us = back_us, .kind = SIM_EVENT_RESTART, .to = id, .generation = a->life});
}
