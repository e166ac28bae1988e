/* Which steps each daemon has, and what the steps of a store with work do over virtual time. */
#include "work/work_fixture.h"

#include <stdio.h>
#include <string.h>

#include <tidemark/journal.h>

#include "allinone/up.h"
#include "base/cleanup.h"
#include "services/agent/agent.h"
#include "services/colony/daemon.h"
#include "services/journal/number_check.h"
#include "services/lake/laked.h"
#include "services/replica/daemon.h"
#include "services/work/services.h"
#include "services/work/work_metrics.h"

#define DAY_US (24 * 3600 * SECOND_US)

/* ---- lists ---- */

typedef struct daemon_row {
    const char *name;
    const tide_step *const *steps;
    const char *must_have; /* names, parted by spaces, in this order */
} daemon_row;

/* A daemon that loses a step fails here, and one that gets a step says so here. */
static const daemon_row daemons[] = {
    {"agent", tidemark_agent_steps,
     "token_uses health store_probe store_verify feed_retention feed_writes collect"},
    {"colony", tidemark_colony_steps,
     "token_uses health store_probe store_verify agent_leases registry_watch gap_recovery "
     "colony_retention "
     "lag_history agent_status fleet_view sweep"},
    {"replica", tidemark_replica_steps,
     "token_uses health store_probe store_verify replica_sync replica_collect replica_compare "
     "replica_snapshot"},
    {"lake", tidemark_lake_steps, "token_uses health store_probe store_verify lake_figures"},
    {"serve", tidemark_serve_steps,
     "token_uses health store_probe store_verify sweep clean_keys clean_items clean_checkpoints "
     "work_figures journal_numbers"},
    {"work run", tidemark_work_run_steps, "sweep clean_keys clean_items clean_checkpoints"},
    {"up", tidemark_up_steps,
     "token_uses health store_probe store_verify feed_retention feed_writes collect agent_leases "
     "registry_watch gap_recovery colony_retention lag_history agent_status fleet_view sweep "
     "clean_keys clean_items clean_checkpoints "
     "replica_sync replica_collect replica_compare replica_snapshot work_figures journal_numbers "
     "lake_figures"},
};

static void each_daemon_has_the_steps_that_it_must_have(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof daemons / sizeof daemons[0]; i++) {
        char names[1024] = "";
        for (const tide_step *const *step = daemons[i].steps; *step; step++) {
            assert_non_null((*step)->run);
            assert_non_null((*step)->summary);
            (void)snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s",
                           names[0] ? " " : "", (*step)->name);
        }
        print_message("%s: %s\n", daemons[i].name, names);
        assert_string_equal(daemons[i].must_have, names);
    }
}

static bool has_step(const tide_step *const *steps, const tide_step *step)
{
    for (; *steps; steps++)
        if (*steps == step)
            return true;
    return false;
}

static void up_has_all_steps_of_its_daemons(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof daemons / sizeof daemons[0]; i++)
        for (const tide_step *const *step = daemons[i].steps; *step; step++)
            assert_true(has_step(tidemark_up_steps, *step));
}

/* Names are labels of metrics, and what wakes go by. */
static void no_two_steps_have_one_name(void **state)
{
    (void)state;
    for (const tide_step *const *a = tidemark_up_steps; *a; a++)
        for (const tide_step *const *b = a + 1; *b; b++)
            assert_string_not_equal((*a)->name, (*b)->name);
}

static void only_leases_have_the_lane_of_leases(void **state)
{
    (void)state;
    for (const tide_step *const *step = tidemark_up_steps; *step; step++)
        assert_int_equal(*step == &tide_step_agent_leases, (*step)->lane == TIDE_LANE_LEASES);
}

/* ---- the steps of `serve`, over virtual time ---- */

/* A simulated `serve`: its list, without its listener. */
typedef struct sim {
    store_test *t;
    tide_ticker *ticker;
    tide_work_maintenance *maintenance;
    int rounds;
} sim;

static void sim_open(sim *s, store_test *t, const tide_work_maintenance_options *options)
{
    const tide_ticker_options ticker = {.steps = tidemark_serve_steps, .env = &t->clock.env};
    *s = (sim){.t = t};
    assert_ok_err(tide_ticker_new(&s->ticker, &ticker, &t->err), &t->err);
    assert_ok_err(tide_work_maintenance_new(&s->maintenance, t->store, options, NULL, &t->err),
                  &t->err);
    tide_ticker_skip(s->ticker, &tide_step_token_uses);
    tide_ticker_skip(s->ticker, &tide_step_work_figures);
    tide_ticker_skip(s->ticker, &tide_step_journal_numbers);
    tide_ticker_skip(s->ticker, &tide_step_health);
    tide_ticker_skip(s->ticker, &tide_step_store_probe);
    tide_ticker_skip(s->ticker, &tide_step_store_verify);
    assert_ok_err(tide_work_maintenance_bind(s->maintenance, s->ticker, &t->err), &t->err);
}

static void sim_close(sim *s)
{
    tide_ticker_free(s->ticker);
    tide_work_maintenance_free(s->maintenance);
}

/* As the threads of the ticker would: sleep until the next step is due, and run what is. */
static void sim_run(sim *s, int64_t us)
{
    const int64_t until_us = s->t->clock.mono_us + us;
    for (;;) {
        int64_t due_us = 0;
        s->rounds++;
        assert_ok_err(tide_ticker_step(s->ticker, &due_us, &s->t->err), &s->t->err);
        if (due_us > until_us)
            break;
        if (due_us > s->t->clock.mono_us)
            virtual_env_advance(&s->t->clock, due_us - s->t->clock.mono_us);
    }
    if (until_us > s->t->clock.mono_us)
        virtual_env_advance(&s->t->clock, until_us - s->t->clock.mono_us);
}

static const tide_work_maintenance_options defaults = {.sweep_us = 0};

/* The lease of a worker that died ends, and its item is claimable that moment. */
static void a_lease_is_taken_over_when_it_ends(void **state)
{
    sim s;
    store_test *t = *state;
    make_task(t, "t");
    add_item(t, "i");
    sim_open(&s, t, &defaults);
    sim_run(&s, 10 * SECOND_US);
    assert_true(claim(t, "dead").token > 0);
    sim_run(&s, LEASE_US - 1000);
    assert_item(t, "i", "in_progress");
    sim_run(&s, 2000);
    assert_item(t, "i", "pending");
    sim_close(&s);
}

static tide_status count_item(void *arg, const tide_work_item *item, tide_error *err)
{
    (void)item;
    (void)err;
    ++*(int *)arg;
    return TIDE_OK;
}

static int count_items(store_test *t)
{
    int count = 0;
    const tide_work_filter filter = {TIDE_WORK_FILTER_INIT, .limit = 1000};
    assert_ok_err(tide_work_list(t->store, &filter, count_item, &count, &t->err), &t->err);
    return count;
}

static void a_schedule_fires_each_time(void **state)
{
    sim s;
    store_test *t = *state;
    make_task(t, "t");
    sim_open(&s, t, &defaults);
    sim_run(&s, 10 * SECOND_US + 300000);
    const tide_schedule_new every = {
        TIDE_SCHEDULE_NEW_INIT, .name = "often",           .task_id = "t",
        .work_type = "job",     .every_us = 2 * SECOND_US, .max_retries = -1};
    assert_ok_err(tide_schedule_add(t->store, &every, NULL, &t->err), &t->err);
    sim_run(&s, 21 * SECOND_US);
    assert_int_equal(10, count_items(t));
    sim_close(&s);
}

/* With nothing written meanwhile it sleeps until the next time, however far that is below --sweep. */
static void the_sweep_sleeps_until_something_is_due(void **state)
{
    sim s;
    store_test *t = *state;
    make_task(t, "t");
    add_item(t, "i");
    assert_true(claim(t, "dead").token > 0);
    sim_open(&s, t, &(tide_work_maintenance_options){.sweep_us = MINUTE_US});
    sim_run(&s, 5 * SECOND_US);
    s.rounds = 0;
    sim_run(&s, LEASE_US - 6 * SECOND_US);
    assert_true(s.rounds <= 4); /* of all steps */
    assert_item(t, "i", "in_progress");
    sim_run(&s, 2 * SECOND_US);
    assert_item(t, "i", "pending");
    sim_close(&s);
}

static void complete_key(store_test *t, const char *key, int64_t expiry_us)
{
    TIDE_CLEANUP(tide_idempotency_state_done) tide_idempotency_state begun = {0};
    char hash[TIDE_IDEMPOTENCY_HASH_SIZE];
    assert_ok(tide_idempotency_hash(hash, tide_view_of("{}"), &t->err));
    const tide_idempotency_request request = {TIDE_IDEMPOTENCY_REQUEST_INIT, .key = key,
                                              .request_hash = hash, .expiry_us = expiry_us};
    assert_ok_err(tide_idempotency_begin(t->store, &request, &begun, &t->err), &t->err);
    assert_ok_err(tide_idempotency_complete(t->store, key, begun.token, tide_view_of("1"), &t->err),
                  &t->err);
}

static tide_status ignore_key(void *arg, const tide_idempotency_key *key, tide_error *err)
{
    (void)arg;
    (void)key;
    (void)err;
    return TIDE_OK;
}

static bool has_key(store_test *t, const char *key)
{
    return tide_idempotency_find(t->store, key, ignore_key, NULL, &t->err) == TIDE_OK;
}

/* Days pass at once; then the steps find what has become old. */
static void sim_leap(sim *s, int64_t us)
{
    virtual_env_advance(&s->t->clock, us);
    sim_run(s, 2 * MINUTE_US);
}

static void keys_are_deleted_when_they_expire(void **state)
{
    sim s;
    store_test *t = *state;
    complete_key(t, "short", 3600 * SECOND_US);
    complete_key(t, "long", 100 * DAY_US);
    sim_open(&s, t, &(tide_work_maintenance_options){.sweep_us = MINUTE_US});
    sim_leap(&s, 2 * 3600 * SECOND_US);
    assert_false(has_key(t, "short"));
    assert_true(has_key(t, "long"));
    sim_leap(&s, 50 * DAY_US); /* it has an expiry of its own, which is not the default's */
    assert_true(has_key(t, "long"));
    sim_leap(&s, 50 * DAY_US);
    assert_false(has_key(t, "long"));
    sim_close(&s);
}

static void ended_items_are_deleted_after_the_time_of_the_option(void **state)
{
    sim s;
    store_test *t = *state;
    make_task(t, "t");
    add_item(t, "i");
    add_item(t, "waits");
    const held h = claim(t, "w");
    assert_ok(finish(t, &h, NULL));
    sim_open(&s, t,
             &(tide_work_maintenance_options){.sweep_us = MINUTE_US, .keep_items_us = 2 * DAY_US});
    sim_leap(&s, DAY_US);
    assert_int_equal(2, count_items(t));
    sim_leap(&s, DAY_US);
    assert_int_equal(1, count_items(t));
    sim_close(&s);
}

static void add_checkpoints(store_test *t, int count)
{
    for (int i = 0; i < count; i++) {
        const tide_checkpoint_new checkpoint = {TIDE_CHECKPOINT_NEW_INIT, .task_id = "t",
                                                .type = "iteration_end",
                                                .snapshot = tide_view_of("{\"iteration\":1}")};
        assert_ok_err(tide_journal_append(t->store, &checkpoint, NULL, &t->err), &t->err);
    }
}

static void checkpoints_are_deleted_only_where_an_option_asks(void **state)
{
    sim s;
    store_test *t = *state;
    make_task(t, "t");
    add_checkpoints(t, 20);
    sim_open(&s, t, &(tide_work_maintenance_options){.sweep_us = MINUTE_US});
    sim_leap(&s, DAY_US);
    sim_close(&s);
    assert_int_equal(20, count_checkpoints(t, "t"));
    sim_open(&s, t, &(tide_work_maintenance_options){.sweep_us = MINUTE_US, .keep_checkpoints = 5});
    sim_leap(&s, DAY_US);
    sim_close(&s);
    assert_int_equal(5, count_checkpoints(t, "t"));
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_daemon_has_the_steps_that_it_must_have),
        cmocka_unit_test(up_has_all_steps_of_its_daemons),
        cmocka_unit_test(no_two_steps_have_one_name),
        cmocka_unit_test(only_leases_have_the_lane_of_leases),
        STORE_CASE(a_lease_is_taken_over_when_it_ends),
        STORE_CASE(a_schedule_fires_each_time),
        STORE_CASE(the_sweep_sleeps_until_something_is_due),
        STORE_CASE(keys_are_deleted_when_they_expire),
        STORE_CASE(ended_items_are_deleted_after_the_time_of_the_option),
        STORE_CASE(checkpoints_are_deleted_only_where_an_option_asks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
