/* One pass of a colony's scheduler (poll --once): what it waits for. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "services/colony/scheduler.h"
#include "support/store_fixture.h"

typedef struct planner {
    tide_scheduler *scheduler;
    atomic_bool is_planned;
} planner;

/* The recovery step, on a thread of the ticker that comes late. */
static void *plan_late(void *arg)
{
    planner *p = arg;
    tide_error err = {0};
    int64_t next_us = 0;
    tide_env *env = tide_env_system();
    const int64_t until_us = env->mono_us(env) + SECOND_US / 5;
    while (env->mono_us(env) < until_us)
        sched_yield();
    atomic_store(&p->is_planned, true);
    if (tide_step_gap_recovery.run(p->scheduler, &next_us, &err) < TIDE_OK)
        tide_scheduler_stop(p->scheduler);
    return NULL;
}

/* A gap that an operator wants back is requested in this pass, however early the agents are done. */
static void a_pass_does_not_end_before_recovery_was_planned(void **state)
{
    store_test *t = *state;
    tide_sink *sink = NULL;
    assert_ok_err(tide_sink_open_sql(&sink, t->store, &t->err), &t->err);
    TIDE_CLEANUP(tide_ticker_freep) tide_ticker *ticker = NULL;
    const tide_ticker_options steps = {.steps = tide_scheduler_once_steps,
                                       .env = tide_env_system()};
    assert_ok_err(tide_ticker_new(&ticker, &steps, &t->err), &t->err);
    tide_log log;
    tide_log_init(&log, stderr, tide_env_system(), TIDE_LOG_LOGFMT, TIDE_LOG_ERROR);
    const tide_scheduler_options options = {
        .sink = sink, .log = &log, .ticker = ticker, .colony_id = "once", .is_once = true};
    planner p = {.scheduler = NULL};
    assert_ok_err(tide_scheduler_open(&p.scheduler, &options, &t->err), &t->err);
    int64_t next_us = 0;
    assert_ok_err(tide_step_agent_leases.run(p.scheduler, &next_us, &t->err), &t->err);

    pthread_t thread;
    assert_int_equal(0, pthread_create(&thread, NULL, plan_late, &p));
    tide_scheduler_result result;
    tide_scheduler_wait(p.scheduler, &result);
    const bool is_planned = atomic_load(&p.is_planned);
    (void)pthread_join(thread, NULL);
    assert_true(is_planned);
    assert_int_equal(0, result.agents);

    tide_scheduler_close(p.scheduler);
    tide_sink_close(sink);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        STORE_CASE_SQLITE(a_pass_does_not_end_before_recovery_was_planned),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
