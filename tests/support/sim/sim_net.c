#include "support/sim/sim_world.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

void sim_cut(sim *world, sim_id from, sim_id to, int64_t until_us)
{
    sim_trace(world, "link %s -> %s is cut until %" PRId64 " us", sim_name(world, from),
              sim_name(world, to), until_us);
    world->cut_until_us[from][to] = until_us;
}

static void put_on_wire(sim *world, sim_id from, sim_id to, tide_view message)
{
    const sim_faults *f = &world->faults;
    int64_t at_us = world->now_us + f->delay_min_us;
    at_us += sim_draw_up_to(&world->network, f->delay_max_us - f->delay_min_us);
    const bool overtakes =
        !sim_is_calm(world) && prng_chance(&world->network, f->reorder_ppm, SIM_PPM);
    if (!overtakes && at_us < world->last_arrival_us[from][to])
        at_us = world->last_arrival_us[from][to];
    if (at_us > world->last_arrival_us[from][to])
        world->last_arrival_us[from][to] = at_us;

    char *copy = malloc(message.len + 1);
    assert(copy != NULL);
    if (message.len > 0)
        memcpy(copy, message.ptr, message.len);
    sim_schedule(world, (sim_event){.at_us = at_us,
                                    .kind = SIM_EVENT_DELIVER,
                                    .to = to,
                                    .from = from,
                                    .bytes = copy,
                                    .len = message.len});
}

void sim_send(sim *world, sim_id from, sim_id to, tide_view message)
{
    const char *const sender = sim_name(world, from);
    const char *const receiver = sim_name(world, to);
    sim_hash(world, message.ptr, message.len);
    if (world->cut_until_us[from][to] > world->now_us) {
        sim_trace(world, "%s -> %s sends %zu bytes into a cut", sender, receiver, message.len);
        return;
    }
    if (!sim_is_calm(world) && prng_chance(&world->network, world->faults.loss_ppm, SIM_PPM)) {
        sim_trace(world, "%s -> %s sends %zu bytes, lost", sender, receiver, message.len);
        return;
    }
    sim_trace(world, "%s -> %s sends %zu bytes", sender, receiver, message.len);
    put_on_wire(world, from, to, message);
    if (!sim_is_calm(world) && prng_chance(&world->network, world->faults.duplicate_ppm, SIM_PPM)) {
        sim_trace(world, "%s -> %s the same again", sender, receiver);
        put_on_wire(world, from, to, message);
    }
}

void sim_deliver(sim *world, const sim_event *e)
{
    const sim_body *a = &world->actors[e->to];
    const bool is_cut = world->cut_until_us[e->from][e->to] > world->now_us;
    if (is_cut || !a->is_up || a->does.receive == NULL) {
        sim_trace(world, "%s -> %s %zu bytes do not arrive: %s", sim_name(world, e->from),
                  a->does.name, e->len, is_cut ? "cut" : "unreachable");
        return;
    }
    sim_trace(world, "%s -> %s %zu bytes arrive", sim_name(world, e->from), a->does.name, e->len);
    a->does.receive(a->does.self, world, e->from, tide_view_bytes(e->bytes, e->len));
    sim_wake(world, e->to); /* an event of its own, so that a crash can come between */
}
