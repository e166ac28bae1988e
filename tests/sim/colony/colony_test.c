/* Simulated worlds of agents and colonies (world.h). */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sqlite3.h>

#include "sim/colony/world.h"

enum {
    SEEDS = 300,
    SOAK_SEEDS = 2500,
    WRONG_SEEDS = 60,
    LARGE_EVERY = 50, /* every so many worlds one has ten agents and three colonies */
    EVENTS_MAX = 400000,
};

#define CALM_FROM_US (INT64_C(12) * SIM_SECOND_US)
#define KEEP_US (INT64_C(3) * SIM_SECOND_US)
#define END_US (INT64_C(80) * SIM_SECOND_US)

typedef struct tally {
    colony_planted_fault planted;
    uint64_t runs;
    uint64_t crashes;
    uint64_t hash;
    world_tally sum;
    char failure[SIM_WHY_MAX];
} tally;

static void build(world *w, uint64_t seed, bool is_quiet, colony_planted_fault planted)
{
    static const sim_faults faults = {
        .delay_min_us = 1000,
        .delay_max_us = 120000,
        .loss_ppm = 60000,
        .duplicate_ppm = 60000,
        .reorder_ppm = 150000,
        .cut_every_us = 4000000,
        .cut_max_us = 3000000,
        .cut_one_way_ppm = 500000,
        .crash_every_us = 1100000,
        .crash_after_ppm = 1500,
        .down_max_us = 2000000,
        .power_ppm = 500000,
        .calm_from_us = CALM_FROM_US,
    };
    w->sim = sim_new("colony", seed);
    if (is_quiet)
        sim_set_report(w->sim, NULL);
    sim_set_faults(w->sim, &faults);
    w->planted = planted;
    w->calm_from_us = CALM_FROM_US;
    w->answer_max = seed % 3 == 0 ? 900 : 0;
    w->keep_us = seed % 4 == 1 ? KEEP_US : 0;
    const bool is_large = seed % LARGE_EVERY == 0;
    w->agent_count = is_large ? WORLD_AGENTS_MAX : 2 + (int)(seed % 2);
    w->colony_count = is_large ? WORLD_COLONIES_MAX : 2;
    (void)sqlite3_test_control(SQLITE_TESTCTRL_PRNG_SEED, (int)prng_u64(sim_chance(w->sim)), NULL);
    world_depot_init(&w->depot, w);
    for (int i = 0; i < w->agent_count; i++) {
        world_agent_init(&w->agents[i], w, i);
        /* clocks that are off, and run too fast or too slow */
        static const int64_t off_us[] = {0, INT64_C(3600000000), -INT64_C(3600000000)};
        sim_set_clock(w->sim, w->agents[i].id, off_us[prng_below(sim_chance(w->sim), 3)],
                      (int32_t)prng_below(sim_chance(w->sim), 200) - 100);
    }
    for (int i = 0; i < w->colony_count; i++)
        world_colony_init(&w->colonies[i], w, i);
    sim_invariant(w->sim, "the ledger balances", world_ledger_balances, w);
}

static void add_up(world_tally *sum, const world_tally *one)
{
    sum->applied += one->applied;
    sum->stored += one->stored;
    sum->repeated += one->repeated;
    sum->permanent += one->permanent;
    sum->closed += one->closed;
    sum->cut += one->cut;
    sum->wipes += one->wipes;
    sum->restores += one->restores;
    sum->unnoticed += one->unnoticed;
    sum->lost_leases += one->lost_leases;
}

static bool run_world(uint64_t seed, bool is_quiet, void *arg)
{
    tally *t = arg;
    world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    build(w, seed, is_quiet, t->planted);
    if (sim_run(w->sim, END_US, EVENTS_MAX))
        world_expect_end(w);
    const bool is_held = sim_failure(w->sim) == NULL;
    t->runs++;
    t->crashes += sim_crash_count(w->sim);
    t->hash = sim_trace_hash(w->sim);
    add_up(&t->sum, &w->tally);
    (void)snprintf(t->failure, sizeof t->failure, "%s", is_held ? "" : sim_failure(w->sim));
    for (int i = 0; i < w->colony_count; i++)
        world_colony_drop(&w->colonies[i]);
    for (int i = 0; i < w->agent_count; i++)
        world_agent_done(&w->agents[i]);
    world_depot_done(&w->depot);
    sim_free(w->sim);
    free(w);
    return is_held;
}

static uint64_t pick(uint64_t usual, uint64_t soak)
{
    return is_soak() ? soak : usual;
}

static void ledgers_balance_in_every_world(void **state)
{
    (void)state;
    tally t = {.planted = COLONY_NO_FAULT};
    assert_true(sim_seeds("colony", pick(SEEDS, SOAK_SEEDS), run_world, &t));
    const world_tally *s = &t.sum;
    print_message("%" PRIu64 " worlds, %" PRIu64 " crashes (%" PRId64 " in the middle of a write), "
                  "%" PRId64 " wipes, %" PRId64 " restores (%" PRId64 " unnoticed), %" PRId64
                  " leases lost; %" PRId64 " changes, %" PRId64 " rows, %" PRId64
                  " read again, %" PRId64 " positions closed, %" PRId64 " gaps lost\n",
                  t.runs, t.crashes, s->cut, s->wipes, s->restores, s->unnoticed, s->lost_leases,
                  s->applied, s->stored, s->repeated, s->closed, s->permanent);
}

/* One seed, one history: a failure can be repeated. */
static void a_seed_repeats_its_history(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 3; seed++) {
        tally first = {.planted = COLONY_NO_FAULT};
        tally second = {.planted = COLONY_NO_FAULT};
        (void)run_world(seed, true, &first);
        (void)run_world(seed, true, &second);
        assert_true(first.hash == second.hash);
    }
}

/* The invariants can see: a row that is counted and not stored. */
static void a_row_that_was_not_stored_is_found_out(void **state)
{
    (void)state;
    uint64_t seed = 0;
    tally t = {.planted = COLONY_LOSING};
    assert_true(sim_find_failure(1, WRONG_SEEDS, run_world, &t, &seed));
    print_message("seed %" PRIu64 ": %s\n", seed, t.failure);
    assert_contains(t.failure, "are counted as stored");
}

/* Numbers that were passed over without a word. */
static void a_page_that_was_skipped_is_found_out(void **state)
{
    (void)state;
    uint64_t seed = 0;
    tally t = {.planted = COLONY_SKIPPING};
    assert_true(sim_find_failure(1, WRONG_SEEDS, run_world, &t, &seed));
    print_message("seed %" PRIu64 ": %s\n", seed, t.failure);
    assert_contains(t.failure, "unexplained");
}

TEST_FILE()
{
    /* The disk is a model that syncs nothing; files that cost nothing make it quick. */
    if (access("/dev/shm", W_OK) == 0)
        (void)setenv("TMPDIR", "/dev/shm", 0);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ledgers_balance_in_every_world),
        cmocka_unit_test(a_seed_repeats_its_history),
        cmocka_unit_test(a_row_that_was_not_stored_is_found_out),
        cmocka_unit_test(a_page_that_was_skipped_is_found_out),
    };
    world_templates_make();
    const int failed = cmocka_run_group_tests_name("sim-colony", tests, NULL, NULL);
    world_templates_remove();
    return failed;
}
