#include "support/sim/sim.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

#include "support/sim/sim_world.h"

/* ---- the run ---- */

void sim_schedule(sim *world, sim_event e)
{
    if (e.at_us < world->now_us)
        e.at_us = world->now_us;
    if (sim_queue_put(&world->queue, e))
        return;
    free(e.bytes);
    sim_fail(world, "more than %d events are waiting", SIM_EVENTS_MAX);
}

static void begin(sim *world)
{
    world->has_begun = true;
    for (sim_id id = 0; id < world->actors_len; id++)
        sim_set_wake(world, id, 0);
    sim_begin_trouble(world);
}

static void happen(sim *world, const sim_event *e)
{
    sim_body *a = &world->actors[e->to];
    switch (e->kind) {
    case SIM_EVENT_WAKE:
        if (a->is_up && e->generation == a->wake)
            sim_step(world, e->to);
        sim_maybe_crash_after(world, e->to);
        break;
    case SIM_EVENT_DELIVER:
        sim_deliver(world, e);
        sim_maybe_crash_after(world, e->to);
        break;
    case SIM_EVENT_CRASH_SOMEBODY:
        if (!sim_is_calm(world))
            sim_crash_somebody(world);
        break;
    case SIM_EVENT_RESTART:
        if (!a->is_up && e->generation == a->life)
            sim_restart(world, e->to);
        break;
    case SIM_EVENT_CUT_SOMEBODY:
        if (!sim_is_calm(world))
            sim_cut_somebody(world);
        break;
    case SIM_EVENT_CALM:
        sim_calm_down(world);
        break;
    }
}

/* What concerns an actor that is still asleep inside its step waits for it. */
static bool has_to_wait(const sim *world, const sim_event *e)
{
    const bool is_for_actor = e->kind == SIM_EVENT_WAKE || e->kind == SIM_EVENT_DELIVER;
    return is_for_actor && world->actors[e->to].clock.busy_until_us > world->now_us;
}

static void check_invariants(sim *world)
{
    for (int i = 0; i < world->invariants_len && world->failure[0] == '\0'; i++) {
        char why[SIM_WHY_MAX] = "";
        if (!world->invariants[i].holds(world->invariants[i].arg, world, why))
            sim_fail(world, "invariant \"%s\" is broken: %s", world->invariants[i].name, why);
    }
}

static bool is_due(const sim *world, int64_t until_us)
{
    const sim_event *next = sim_queue_peek(&world->queue);
    return next != NULL && next->at_us <= until_us;
}

bool sim_run(sim *world, int64_t until_us, uint64_t max_events)
{
    if (!world->has_begun)
        begin(world);
    uint64_t done = 0;
    while (world->failure[0] == '\0' && is_due(world, until_us)) {
        if (done++ == max_events) {
            sim_fail(world, "more than %" PRIu64 " events", max_events);
            break;
        }
        sim_event e = sim_queue_take(&world->queue);
        world->now_us = e.at_us;
        if (has_to_wait(world, &e)) {
            e.at_us = world->actors[e.to].clock.busy_until_us;
            sim_schedule(world, e);
            continue;
        }
        world->event_count++;
        happen(world, &e);
        free(e.bytes);
        check_invariants(world);
    }
    if (world->failure[0] != '\0') {
        sim_report_failure(world);
        return false;
    }
    if (until_us != INT64_MAX && world->now_us < until_us)
        world->now_us = until_us;
    return true;
}

/* ---- building and asking ---- */

sim *sim_new(const char *name, uint64_t seed)
{
    sim *world = calloc(1, sizeof(*world));
    assert(world != NULL);
    world->name = name;
    world->seed = seed;
    world->report = stderr;
    world->trace_hash = UINT64_C(0xcbf29ce484222325);
    prng_init(&world->network, seed);
    prng_init(&world->trouble, prng_u64(&world->network));
    prng_init(&world->chance, prng_u64(&world->network));
    return world;
}

void sim_free(sim *world)
{
    if (world == NULL)
        return;
    sim_queue_done(&world->queue);
    free(world);
}

void sim_set_faults(sim *world, const sim_faults *faults)
{
    assert(!world->has_begun);
    assert(faults->delay_min_us >= 0 && faults->cut_every_us >= 0 && faults->crash_every_us >= 0);
    world->faults = *faults;
}

sim_id sim_add(sim *world, const sim_actor *actor)
{
    assert(!world->has_begun && world->actors_len < SIM_ACTORS_MAX && actor->step != NULL);
    const sim_id id = world->actors_len++;
    sim_body *a = &world->actors[id];
    *a = (sim_body){.does = *actor, .is_up = true, .wake_at_us = SIM_IDLE};
    sim_clock_init(&a->clock, &world->now_us,
                   world->seed ^ (UINT64_C(0x9e3779b97f4a7c15) * (uint64_t)(id + 1)));
    return id;
}

void sim_invariant(sim *world, const char *name, sim_invariant_fn holds, void *arg)
{
    assert(world->invariants_len < SIM_INVARIANTS_MAX);
    world->invariants[world->invariants_len++] = (sim_rule){name, holds, arg};
}

void sim_set_clock(sim *world, sim_id id, int64_t wall_offset_us, int32_t drift_ppm)
{
    assert(!world->has_begun && id >= 0 && id < world->actors_len);
    assert(drift_ppm > -SIM_PPM / 2 && drift_ppm < SIM_PPM / 2);
    world->actors[id].clock.wall_offset_us = wall_offset_us;
    world->actors[id].clock.drift_ppm = drift_ppm;
}

void sim_set_report(sim *world, FILE *report)
{
    world->report = report;
}

tide_env *sim_env(sim *world, sim_id id)
{
    assert(id >= 0 && id < world->actors_len);
    return &world->actors[id].clock.env;
}

prng *sim_chance(sim *world)
{
    return &world->chance;
}

int64_t sim_now_us(const sim *world)
{
    return world->now_us;
}

bool sim_is_up(const sim *world, sim_id id)
{
    assert(id >= 0 && id < world->actors_len);
    return world->actors[id].is_up;
}

const char *sim_failure(const sim *world)
{
    return world->failure[0] != '\0' ? world->failure : NULL;
}

uint64_t sim_event_count(const sim *world)
{
    return world->event_count;
}

uint64_t sim_crash_count(const sim *world)
{
    return world->crash_count;
}

uint64_t sim_trace_hash(const sim *world)
{
    return world->trace_hash;
}

const char *sim_name(const sim *world, sim_id id)
{
    assert(id >= 0 && id < world->actors_len);
    return world->actors[id].does.name;
}
