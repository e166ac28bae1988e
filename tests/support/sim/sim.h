/* sim.h - a small world that is decided by one number.
 *
 * Actors exchange messages over a bad network, on clocks that disagree, and crash. Everything
 * left to chance is drawn from the seed, nothing runs in parallel and no real time passes: the
 * same seed gives the same run, event by event, so a failure found among thousands of seeds is
 * repeated by naming its seed.
 *
 *     sim *world = sim_new("stop-and-wait", seed);
 *     sim_set_faults(world, &faults);
 *     sim_id a = sim_add(world, &(sim_actor){.name = "sender", .self = &sender, .step = ...});
 *     sim_invariant(world, "delivered exactly once", each_number_once, &receiver);
 *     bool held = sim_run(world, 60 * SIM_SECOND_US, 100000);
 *     sim_free(world);
 *
 * Time. The world has one true time in microseconds; it jumps from event to event. An actor
 * never sees it: it gets a tide_env whose clocks may be off (sim_set_clock) and whose wake times
 * the simulator translates.
 *
 * An actor is a step function: bounded work, then the time, on its own monotonic clock, at which
 * it wants to run again. It steps at the start, when that time has come, after each message and
 * after a restart. Sleeping inside a step (a back-off deep in the code under test) does not stop
 * the world: the actor's own clock moves on, and what comes for it meanwhile waits until the
 * others have caught up.
 *
 * Network. A message is copied, then lost, doubled or delayed as in sim_faults. Messages of
 * one link arrive in order unless the seed reorders them. A cut link loses what is sent over it
 * and what is under way.
 *
 * Crash. SIM_CRASH_PROCESS is kill -9: memory is gone, files are as written. SIM_CRASH_POWER
 * also takes what was not synced, and the machine comes back with a new boot id and clocks at 0.
 * The crash callback makes it true: it frees the actor's memory and cuts the power of its fault
 * VFS. While down an actor does not step and messages to it are lost. Who has no crash callback
 * never crashes.
 *
 * Invariants are checked after every event. The first that does not hold ends the run: the
 * report has the seed, the last SIM_TRACE_KEPT events, and the line that replays it.
 *
 * Threads: none. Limits: SIM_ACTORS_MAX, SIM_INVARIANTS_MAX, SIM_EVENTS_MAX events waiting, and
 * the number of events given to sim_run; reaching one of the last two is a failure of the run (a
 * storm, a livelock). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <tidemark/env.h>
#include <tidemark/export.h>
#include <tidemark/view.h>

#include "support/prng.h"

enum {
    SIM_ACTORS_MAX = 64,
    SIM_INVARIANTS_MAX = 32,
    SIM_EVENTS_MAX = 1 << 18,
    SIM_TRACE_KEPT = 60,
    SIM_TRACE_LINE_MAX = 160, /* bytes; longer lines are cut */
    SIM_WHY_MAX = 256,        /* bytes of an invariant's explanation */
    SIM_SECOND_US = 1000000,
    SIM_PPM = 1000000, /* rates are parts per million: this is "always" */
};

#define SIM_IDLE INT64_MAX /* wake me only for a message */

typedef struct sim sim;
typedef int sim_id; /* 0, 1, ... in the order of sim_add */

typedef enum sim_crash {
    SIM_CRASH_PROCESS,
    SIM_CRASH_POWER,
} sim_crash;

typedef struct sim_actor {
    const char *name; /* borrowed, as long as the world */
    void *self;
    int64_t (*step)(void *self, sim *world);
    void (*receive)(void *self, sim *world, sim_id from,
                    tide_view message); /* message: until return */
    void (*crash)(void *self, sim *world, sim_crash how);
    void (*restart)(void *self, sim *world); /* read back what the disk has */
} sim_actor;

/* What may go wrong, and how often. All zero is a kind world: no delay, no loss, no crash. */
typedef struct sim_faults {
    int64_t delay_min_us; /* of each message: evenly between the two */
    int64_t delay_max_us;
    uint32_t loss_ppm;
    uint32_t duplicate_ppm;   /* the copy has a delay of its own */
    uint32_t reorder_ppm;     /* may overtake what was sent before it */
    int64_t cut_every_us;     /* on average a pair of actors is cut this often; 0: never */
    int64_t cut_max_us;       /* for at most so long */
    uint32_t cut_one_way_ppm; /* this share of the cuts stops one direction only */
    int64_t crash_every_us;   /* on average an actor crashes this often; 0: never */
    uint32_t crash_after_ppm; /* an actor crashes right after receiving or stepping */
    int64_t down_max_us;      /* a crashed actor is back after at most so long */
    uint32_t power_ppm;       /* this share of the crashes is SIM_CRASH_POWER */

    /* From here on nothing goes wrong any more, links are whole, all actors are restarted: so that
     * a test can ask whether all has settled. 0: never. */
    int64_t calm_from_us;
} sim_faults;

/* True while it holds; else writes the reason. Reads the test's state, changes nothing. */
typedef bool (*sim_invariant_fn)(void *arg, const sim *world, char why[SIM_WHY_MAX]);

/* The name and the seed are what a report begins with. The name is borrowed. */
TIDE_MUST_CHECK sim *sim_new(const char *name, uint64_t seed);
void sim_free(sim *world);

/* Build the world: before sim_run. */
void sim_set_faults(sim *world, const sim_faults *faults);
sim_id sim_add(sim *world, const sim_actor *actor);
void sim_invariant(sim *world, const char *name, sim_invariant_fn holds, void *arg);

/* The actor's wall clock is off by offset_us, all its clocks run drift_ppm too fast (below 0:
 * too slow). */
void sim_set_clock(sim *world, sim_id id, int64_t wall_offset_us, int32_t drift_ppm);

/* Reports go to this file: stderr unless set; NULL keeps quiet. */
void sim_set_report(sim *world, FILE *report);

/* Run until the time or until nothing is left to happen; more than max_events is a failure. May
 * be called again with a later time. True when every invariant held and sim_fail was not called. */
TIDE_MUST_CHECK bool sim_run(sim *world, int64_t until_us, uint64_t max_events);

/* What must be true at the end, when all has settled: reported as a broken invariant is. Returns
 * whether it holds and nothing had failed before. */
bool sim_expect(sim *world, bool holds, const char *format, ...) TIDE_PRINTF(3, 4);

/* For actors, and for tests that direct a scene instead of leaving it to the seed. */
void sim_send(sim *world, sim_id from, sim_id to, tide_view message);
tide_env *sim_env(sim *world, sim_id id); /* the actor's clocks and randomness; borrowed */
prng *sim_chance(sim *world);             /* the test's own decisions */
void sim_cut(sim *world, sim_id from, sim_id to, int64_t until_us); /* one direction */
void sim_crash_now(sim *world, sim_id id, sim_crash how, int64_t down_us);
void sim_wake(sim *world, sim_id id); /* step soon: the state was changed from outside */
void sim_trace(sim *world, const char *format, ...) TIDE_PRINTF(2, 3);
void sim_fail(sim *world, const char *format, ...) TIDE_PRINTF(2, 3); /* the first one counts */

/* What happened. */
int64_t sim_now_us(const sim *world);
bool sim_is_up(const sim *world, sim_id id);
const char *sim_failure(const sim *world); /* the reason; NULL: none */
uint64_t sim_event_count(const sim *world);
uint64_t sim_trace_hash(const sim *world); /* of every event and every byte sent */
uint64_t sim_crash_count(const sim *world);
void sim_print_trace(const sim *world, FILE *out);

/* One run: build a world from the seed, run it, free it. True when all held. A quiet run reports
 * nothing. */
typedef bool (*sim_run_fn)(uint64_t seed, bool is_quiet, void *arg);

/* Run the seeds of tests/sim/<world>/seeds.txt (seeds.h; NULL: none), which are those that ever
 * failed, and then count others. Stops at the first that fails, whose run has reported itself, and
 * returns false. TIDEMARK_SEED in the environment runs that one only; TIDEMARK_SIM_SEEDS replaces
 * count. */
TIDE_MUST_CHECK bool sim_seeds(const char *world, uint64_t count, sim_run_fn run, void *arg);

/* The same, quiet and deaf to the environment, for tests that want a failure: true when one was
 * found. */
TIDE_MUST_CHECK bool sim_find_failure(uint64_t first, uint64_t count, sim_run_fn run, void *arg,
                                      uint64_t *failing_seed);
