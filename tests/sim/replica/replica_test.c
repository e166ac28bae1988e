/* Simulated worlds of replicas (world.h). */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim/replica/world.h"

enum {
    SEEDS = 300,
    SOAK_SEEDS = 2500,
    WRONG_SEEDS = 40,
    EVENTS_MAX = 400000,
};

/* Trouble lasts as long as fits; in every fifth world longer. */
static int64_t calm_from_us(uint64_t seed)
{
    return seed % 5 == 0 ? 4 * INT64_C(1000000) : INT64_C(1600000);
}

typedef struct tally {
    replica_planted_fault planted;
    uint64_t runs;
    uint64_t crashes;
    uint64_t hash;
    world_tally sum;
    char failure[SIM_WHY_MAX];
} tally;

static void build(world *w, uint64_t seed, bool is_quiet, replica_planted_fault planted)
{
    const sim_faults faults = {
        .delay_min_us = 1000,
        .delay_max_us = 400000,
        .loss_ppm = 60000,
        .duplicate_ppm = 120000,
        .reorder_ppm = 300000,
        .cut_every_us = 3000000,
        .cut_max_us = 1500000,
        .cut_one_way_ppm = 500000,
        .crash_every_us = 900000,
        .crash_after_ppm = 1500,
        .down_max_us = 600000,
        .power_ppm = 500000,
        .calm_from_us = calm_from_us(seed),
    };
    static const int64_t off_us[] = {0, INT64_C(240000000), -INT64_C(240000000),
                                     INT64_C(900000000)};
    w->sim = sim_new("replica", seed);
    if (is_quiet)
        sim_set_report(w->sim, NULL);
    sim_set_faults(w->sim, &faults);
    w->planted = planted;
    w->count = 3 + (int)(seed % 7 == 0) + 2 * (int)(seed % 20 == 0);
    w->with_collecting = seed % 3 == 1;
    w->with_altering = seed % 4 == 2;
    w->with_untracking = seed % 5 == 3;
    w->with_skew = seed % 2 == 1;
    w->with_disasters = seed % 3 != 0;
    w->with_untracked_parents = true;
    /* Two or three tables: parents and children, or others. */
    w->has_table[seed % 2 ? 0 : 3] = true;
    w->has_table[seed % 2 ? 1 : 2 + 2 * (seed % 4 == 0)] = true;
    w->has_table[2 + seed % 5 % 4] = true;
    (void)sqlite3_test_control(SQLITE_TESTCTRL_PRNG_SEED, (int)prng_u64(sim_chance(w->sim)), NULL);
    for (int i = 0; i < w->count; i++) {
        world_node_init(&w->nodes[i], w, i);
        if (w->with_skew)
            sim_set_clock(w->sim, w->nodes[i].id, off_us[world_below(w, 4)],
                          (int32_t)world_below(w, 200) - 100);
    }
    w->calm_from_us = calm_from_us(seed);
}

static void add_up(world_tally *sum, const world_tally *one)
{
    const int64_t *from = (const int64_t *)one;
    int64_t *to = (int64_t *)sum;
    for (size_t i = 0; i < sizeof *sum / sizeof *to; i++)
        to[i] += from[i];
}

static bool run_world(uint64_t seed, bool is_quiet, void *arg)
{
    tally *t = arg;
    world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    build(w, seed, is_quiet, t->planted);
    if (sim_run(w->sim, calm_from_us(seed) + SIM_SECOND_US, EVENTS_MAX))
        world_expect_end(w);
    const bool is_held = sim_failure(w->sim) == NULL;
    t->runs++;
    t->crashes += sim_crash_count(w->sim);
    t->hash = sim_trace_hash(w->sim);
    add_up(&t->sum, &w->tally);
    (void)snprintf(t->failure, sizeof t->failure, "%s", is_held ? "" : sim_failure(w->sim));
    for (int i = 0; i < w->count; i++)
        world_node_done(&w->nodes[i]);
    model_done(&w->model);
    sim_free(w->sim);
    free(w);
    return is_held;
}

static uint64_t pick(uint64_t usual, uint64_t soak)
{
    return is_soak() ? soak : usual;
}

static void replicas_converge_in_every_world(void **state)
{
    (void)state;
    tally t = {.planted = REPLICA_NO_FAULT};
    assert_true(sim_seeds("replica", pick(SEEDS, SOAK_SEEDS), run_world, &t));
    const world_tally *s = &t.sum;
    print_message("%" PRIu64 " worlds, %" PRIu64 " crashes (%" PRId64
                  " in the middle of a write), %" PRId64 " wipes, %" PRId64 " restored, %" PRId64
                  " copies; %" PRId64 " transactions, %" PRId64 " refused, %" PRId64
                  " gone with their disk; %" PRId64 " syncs (%" PRId64 " proven), %" PRId64
                  " late pages, %" PRId64 " events collected, %" PRId64 " columns added, %" PRId64
                  " times untracked; %" PRId64 " conflicts, %" PRId64 " values kept aside\n",
                  t.runs, t.crashes, s->cut, s->wipes, s->restores, s->copies, s->transactions,
                  s->refused, s->gone, s->syncs, s->proven, s->late, s->collected, s->alters,
                  s->untracks, s->conflicts, s->asides);
}

/* One seed, one history: a failure can be repeated. */
static void a_seed_repeats_its_history(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 3; seed++) {
        tally first = {.planted = REPLICA_NO_FAULT};
        tally second = {.planted = REPLICA_NO_FAULT};
        (void)run_world(seed, true, &first);
        (void)run_world(seed, true, &second);
        assert_true(first.hash == second.hash);
    }
}

/* The judges can see. */
static void expect_found_out(replica_planted_fault planted, const char *words)
{
    uint64_t seed = 0;
    tally t = {.planted = planted};
    assert_true(sim_find_failure(2, WRONG_SEEDS, run_world, &t, &seed));
    print_message("seed %" PRIu64 ": %s\n", seed, t.failure);
    assert_contains(t.failure, words);
}

static void a_value_that_differs_is_found_out(void **state)
{
    (void)state;
    expect_found_out(REPLICA_CHANGING, "tree differ between");
}

static void a_write_that_is_gone_is_found_out(void **state)
{
    (void)state;
    expect_found_out(REPLICA_LOSING, "has lost a write");
}

static void a_conflict_that_is_not_listed_is_found_out(void **state)
{
    (void)state;
    expect_found_out(REPLICA_FORGETTING, "has lost a write");
}

static void a_conflict_that_is_none_is_found_out(void **state)
{
    (void)state;
    expect_found_out(REPLICA_INVENTING, "lists a conflict that is none");
}

static void an_event_that_is_held_for_no_reason_is_found_out(void **state)
{
    (void)state;
    expect_found_out(REPLICA_HOLDING, "are held though nothing stands in their way");
}

static void a_mark_that_goes_back_is_found_out(void **state)
{
    (void)state;
    expect_found_out(REPLICA_SINKING, "a mark");
}

TEST_FILE()
{
    /* The disk is a model that syncs nothing; files that cost nothing make it quick. */
    if (access("/dev/shm", W_OK) == 0)
        (void)setenv("TMPDIR", "/dev/shm", 0);
    const struct CMUnitTest worlds[] = {
        cmocka_unit_test(replicas_converge_in_every_world),
    };
    const struct CMUnitTest judges[] = {
        cmocka_unit_test(a_seed_repeats_its_history),
        cmocka_unit_test(a_value_that_differs_is_found_out),
        cmocka_unit_test(a_write_that_is_gone_is_found_out),
        cmocka_unit_test(a_conflict_that_is_not_listed_is_found_out),
        cmocka_unit_test(a_conflict_that_is_none_is_found_out),
        cmocka_unit_test(an_event_that_is_held_for_no_reason_is_found_out),
        cmocka_unit_test(a_mark_that_goes_back_is_found_out),
    };
    const int failed = cmocka_run_group_tests_name("sim-replica", worlds, NULL, NULL);
    if (getenv("TIDEMARK_SEED")) /* that world alone */
        return failed;
    return failed + cmocka_run_group_tests_name("sim-replica-judges", judges, NULL, NULL);
}
