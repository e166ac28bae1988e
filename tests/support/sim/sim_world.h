/* sim_world.h - the insides of a simulated world, for the files that make it up.
 *
 *     sim.c           builds the world and runs it, event by event
 *     sim_queue.c     the events to come
 *     sim_clock.c     each actor's clocks and randomness
 *     sim_actor.c     steps, crashes and restarts of one actor
 *     sim_net.c       messages and cut links
 *     sim_trouble.c   what goes wrong by chance
 *     sim_trace.c     what happened, and the report of a failure
 *     sim_seeds.c     many runs
 *
 * Threads: none. */
#pragma once

#include "support/prng.h"
#include "support/sim/sim.h"
#include "support/sim/sim_clock.h"
#include "support/sim/sim_queue.h"

typedef struct sim_body { /* an actor with what the world does to it */
    sim_actor does;
    sim_clock clock;
    bool is_up;
    uint64_t life;      /* rises with each crash */
    uint64_t wake;      /* rises with each new wake time */
    int64_t wake_at_us; /* true time of the wake that counts */
} sim_body;

typedef struct sim_rule {
    const char *name;
    sim_invariant_fn holds;
    void *arg;
} sim_rule;

struct sim {
    const char *name;
    uint64_t seed;
    int64_t now_us;
    sim_faults faults;
    bool has_begun;
    sim_body actors[SIM_ACTORS_MAX];
    int actors_len;
    sim_rule invariants[SIM_INVARIANTS_MAX];
    int invariants_len;
    int64_t cut_until_us[SIM_ACTORS_MAX][SIM_ACTORS_MAX];
    int64_t last_arrival_us[SIM_ACTORS_MAX][SIM_ACTORS_MAX];
    prng network; /* one generator per purpose: a change in one does not stir up the others */
    prng trouble;
    prng chance;
    sim_queue queue;
    uint64_t event_count;
    uint64_t crash_count;
    char trace[SIM_TRACE_KEPT][SIM_TRACE_LINE_MAX];
    uint64_t trace_len;
    uint64_t trace_hash;
    char failure[SIM_WHY_MAX + 128];
    FILE *report;
};

/* sim.c */
const char *sim_name(const sim *world, sim_id id);
void sim_schedule(sim *world, sim_event e); /* takes over the bytes; not before now */

/* sim_trace.c */
void sim_hash(sim *world, const void *bytes, size_t len);
void sim_report_failure(const sim *world);

/* sim_actor.c */
void sim_set_wake(sim *world, sim_id id, int64_t true_us); /* INT64_MAX: never */
void sim_step(sim *world, sim_id id);
void sim_restart(sim *world, sim_id id);

/* sim_net.c */
void sim_deliver(sim *world, const sim_event *e);

/* sim_trouble.c */
void sim_begin_trouble(sim *world); /* schedule the first of each kind */
bool sim_is_calm(const sim *world);
int64_t sim_draw_up_to(prng *random, int64_t max_us);
/* A timed crash hardly ever falls between two events of the same moment; this one does. */
void sim_maybe_crash_after(sim *world, sim_id id);
void sim_crash_somebody(sim *world);
void sim_cut_somebody(sim *world);
void sim_calm_down(sim *world);
