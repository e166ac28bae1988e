/* A simulated world of work: 20 workers stall, crash, lose the network and come back under the same name; watchdogs
 * sweep; the wall clock is set forward and back, the machine is rebooted; a stranger works by plain SQL. Behind every
 * request: at most one effective holder of an item, every write under a lost lease refused, every item finished once
 * and by the token that held it, attempts within 1 + max_retries, tokens that only rise, checkpoints without gaps,
 * dependents after what they depend on; and in the end nothing rests unclaimed. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim/work/actors.h"
#include "support/check.h"

enum {
    SEEDS = 300,
    SOAK_SEEDS = 2500,
    POSTGRES_SEEDS = 8,
    SOAK_POSTGRES_SEEDS = 60,
    EVENTS_MAX = 400000,
};

/* Everything must have ended so long after the calm: the longest lease, the longest back-off, as far as the wall
 * clock was set wrong, and some rounds of each. */
#define CALM_US (INT64_C(110) * SIM_SECOND_US)
#define CALM_POSTGRES_US (INT64_C(80) * SIM_SECOND_US)
#define END_US (3 * WORK_JUMP_MAX_US)
#define SLICE_US (INT64_C(10) * SIM_SECOND_US)

typedef struct tally {
    tide_engine engine;
    uint64_t runs;
    uint64_t crashes;
    uint64_t hash;
    int64_t longest_us; /* from the calm to the end */
    work_tally total;
    char failure[SIM_WHY_MAX]; /* of the last run; "" */
} tally;

static void build(work_world *w, uint64_t seed, bool is_quiet, tide_engine engine)
{
    const sim_faults faults = {
        .delay_min_us = 500,
        .delay_max_us = 300000,
        .loss_ppm = 50000,
        .duplicate_ppm = 30000,
        .reorder_ppm = 100000,
        .crash_every_us = 4 * SIM_SECOND_US,
        .crash_after_ppm = 4000,
        .down_max_us = 15 * SIM_SECOND_US,
        .calm_from_us = w->calm_from_us,
    };
    w->sim = sim_new("work", seed);
    if (is_quiet)
        sim_set_report(w->sim, NULL);
    sim_set_faults(w->sim, &faults);
    work_plan_draw(&w->plan, sim_chance(w->sim));
    work_machine_init(&w->machine, w->sim, engine, &w->plan);
    work_actors_init(w);
}

/* Until nothing is left to do, or for too long. */
static void run_to_the_end(work_world *w, tally *t)
{
    int item = 0;
    int64_t until_us = w->calm_from_us;
    const int64_t last_us = until_us + END_US;
    bool is_running = sim_run(w->sim, until_us, EVENTS_MAX);
    bool is_done = false;
    while (is_running && !is_done && until_us < last_us) {
        until_us += SLICE_US;
        is_running = sim_run(w->sim, until_us, EVENTS_MAX);
        is_done = work_model_is_done(&w->machine.model, &item);
        for (int i = 0; i < WORK_ROOTS; i++)
            is_done = is_done && w->boss.is_settled[i];
    }
    if (!is_running)
        return;
    (void)sim_expect(w->sim, is_done, "i%03d is %s, %" PRId64 " s after the calm began", item,
                     work_status_name(w->machine.model.items[item].status),
                     (until_us - w->calm_from_us) / SIM_SECOND_US);
    if (until_us - w->calm_from_us > t->longest_us)
        t->longest_us = until_us - w->calm_from_us;
    work_machine_verify(&w->machine);
    (void)sim_expect(w->sim, sim_failure(w->sim) == NULL, "the journal is sound");
}

static void add_up(work_tally *total, const work_tally *one)
{
    int64_t *to = (int64_t *)total;
    const int64_t *from = (const int64_t *)one;
    for (size_t i = 0; i < sizeof *total / sizeof *to; i++)
        to[i] += from[i];
}

static bool run_world(uint64_t seed, bool is_quiet, void *arg)
{
    tally *t = arg;
    work_world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    w->calm_from_us = t->engine == TIDE_ENGINE_SQLITE ? CALM_US : CALM_POSTGRES_US;
    build(w, seed, is_quiet, t->engine);
    run_to_the_end(w, t);
    const bool is_held = sim_failure(w->sim) == NULL;
    t->runs++;
    t->crashes += sim_crash_count(w->sim);
    t->hash = sim_trace_hash(w->sim);
    add_up(&t->total, &w->machine.model.tally);
    (void)snprintf(t->failure, sizeof t->failure, "%s", is_held ? "" : sim_failure(w->sim));
    work_machine_done(&w->machine);
    sim_free(w->sim);
    free(w);
    return is_held;
}

static void print_tally(const tally *t)
{
    const work_tally *all = &t->total;
    print_message("%" PRIu64 " worlds, %" PRId64 " requests, %" PRIu64 " crashes, %" PRId64
                  " reboots, %" PRId64 " clock jumps; all was done %" PRId64
                  " s after the calm at the latest\n",
                  t->runs, all->requests, t->crashes, all->reboots, all->jumps,
                  t->longest_us / SIM_SECOND_US);
    print_message("%" PRId64 " claims, %" PRId64 " finishes (%" PRId64 " said twice), %" PRId64
                  " refused (%" PRId64 " stale, %" PRId64 " late), %" PRId64 " swept, %" PRId64
                  " exhausted, %" PRId64 " quarantined, %" PRId64 " blocked\n",
                  all->claims, all->finishes, all->repeats, all->refused, all->refused_stale,
                  all->refused_late, all->swept, all->exhausted, all->quarantined, all->blocked);
    print_message("%" PRId64 " claims by plain SQL, %" PRId64 " of its statements refused, %" PRId64
                  " unique keys met, %" PRId64 " checkpoints\n",
                  all->sql_claims, all->sql_refused, all->unique_hits, all->checkpoints);
}

/* A world in which nothing goes wrong proves nothing: each kind of trouble must have been met. */
static void check_variety(const tally *t)
{
    const work_tally *all = &t->total;
    assert_true(all->finishes > 0 && all->repeats > 0 && all->swept > 0 && all->exhausted > 0);
    assert_true(all->refused_stale > 0 && all->refused_late > 0 && all->blocked > 0);
    assert_true(all->sql_claims > 0 && all->sql_refused > 0 && all->unique_hits > 0);
    assert_true(all->reboots > 0 && all->jumps > 0 && t->crashes > 0);
}

static uint64_t pick(uint64_t usual, uint64_t soak)
{
    return is_soak() ? soak : usual;
}

/* ---- cases ---- */

static void every_item_is_finished_once_by_who_holds_it(void **state)
{
    (void)state;
    tally t = {.engine = TIDE_ENGINE_SQLITE};
    assert_true(sim_seeds("work", pick(SEEDS, SOAK_SEEDS), run_world, &t));
    print_tally(&t);
    if (t.runs >= SEEDS)
        check_variety(&t);
}

/* The same rules on PostgreSQL, whose own clock is set forward and back here. */
static void every_item_is_finished_once_on_postgres(void **state)
{
    (void)state;
    tally t = {.engine = TIDE_ENGINE_POSTGRES};
    assert_true(sim_seeds("work", pick(POSTGRES_SEEDS, SOAK_POSTGRES_SEEDS), run_world, &t));
    print_tally(&t);
}

/* One seed, one history: a failure can be repeated. */
static void a_seed_repeats_its_history(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 3; seed++) {
        tally first = {.engine = TIDE_ENGINE_SQLITE};
        tally second = {.engine = TIDE_ENGINE_SQLITE};
        (void)run_world(seed, true, &first);
        (void)run_world(seed, true, &second);
        assert_true(first.hash == second.hash);
    }
}

TEST_FILE()
{
    /* What a crash leaves of a file is not the question here; files that cost nothing make it quick. */
    if (access("/dev/shm", W_OK) == 0)
        (void)setenv("TMPDIR", "/dev/shm", 0);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_item_is_finished_once_by_who_holds_it),
        cmocka_unit_test(every_item_is_finished_once_on_postgres),
        cmocka_unit_test(a_seed_repeats_its_history),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
