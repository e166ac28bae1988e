/* The worker runtime: leases that are kept, lost and given up in time; timeouts; stopping. Real threads and clocks, short
 * leases: a stalled worker does no harm. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "worker/worker_rig.h"

static tide_worker_totals totals_of(const rig *r)
{
    tide_worker_totals totals;
    tide_worker_totals_get(r->worker, &totals);
    return totals;
}

/* ---- kept ---- */

static tide_status outlive_the_first_lease(rig *r, tide_job *job, tide_error *err)
{
    (void)err;
    tide_env *env = tide_store_env(tide_job_store(job));
    const int64_t until_us = r->started_us + r->options.lease_us * 5 / 4;
    while (rig_now_us() < until_us && !tide_job_is_stopping(job))
        env->sleep_us(env, 5000); /* this is the work */
    return tide_job_is_stopping(job) ? TIDE_E_INTERRUPTED : TIDE_OK;
}

/* Longer than the lease, and nobody else could have had it meanwhile: queued ones are kept as well. */
static void renewal_keeps_items_beyond_their_first_lease(void **state)
{
    tide_work_swept swept;
    rig *r = *state;
    rig_let(r);
    r->act = outlive_the_first_lease;
    r->options.lease_us = 900000;
    r->options.prefetch = 1;
    r->options.item_max = 2;
    rig_add(r, "a");
    rig_add(r, "b");
    rig_start(r);
    while (rig_count(r, "finished") < 2 && rig_count(r, "lost") == 0) {
        assert_ok_err(tide_work_sweep(r->mine, 0, 0, &swept, &r->t->err), &r->t->err);
        assert_int_equal(0, swept.requeued);
    }
    rig_join(r);
    assert_string_equal("claimed a, claimed b, finished a, finished b", r->log);
    assert_int_equal(0, rig_look(r, "b").crash_count);
}

/* ---- lost ---- */

/* Cancelled by somebody: the next renewal tells. What the function returns then is thrown away. */
static void a_lost_lease_is_told_and_the_result_is_refused(void **state)
{
    rig *r = *state;
    r->act = NULL;
    r->is_deaf = true; /* it goes on to its end, and believes that all went well */
    r->options.lease_us = 1500000;
    r->options.item_max = 1;
    rig_add(r, "a");
    rig_start(r);
    rig_wait(r, "started", 1);
    assert_ok_err(tide_work_cancel(r->mine, "a", "not wanted", &r->t->err), &r->t->err);
    rig_wait(r, "told", 1);
    rig_let(r);
    rig_join(r);
    assert_int_equal(TIDE_JOB_LEASE_OVER, r->stop_reason);
    assert_int_equal(0, r->lease_left_us);
    assert_int_equal(1, rig_count(r, "told"));
    assert_int_equal(1, totals_of(r).lost);
    assert_int_equal(0, totals_of(r).finished);
    assert_string_equal("failed", rig_look(r, "a").status);
    assert_string_equal("cancelled", rig_look(r, "a").kind);
}

static tide_status checkpoint_and_wait(rig *r, tide_job *job, tide_error *err)
{
    const tide_checkpoint_new checkpoint = {TIDE_CHECKPOINT_NEW_INIT, .type = "manual_checkpoint",
                                            .snapshot = tide_view_of("{}")};
    tide_checkpoint_numbers numbers;
    const tide_status status = tide_job_checkpoint(job, &checkpoint, &numbers, err);
    if (status != TIDE_E_LEASE_LOST || !tide_job_is_stopping(job))
        return TIDE_OK;
    rig_wait(r, "told", 1);
    return status;
}

/* The lease lasts an hour, so no renewal comes soon; but the function itself asks the store, and learns it. */
static void a_refused_checkpoint_tells_the_job_to_stop(void **state)
{
    rig *r = *state;
    r->act = checkpoint_and_wait;
    r->options.item_max = 1;
    rig_add(r, "a");
    rig_start(r);
    rig_wait(r, "started", 1);
    assert_ok_err(tide_work_cancel(r->mine, "a", NULL, &r->t->err), &r->t->err);
    rig_let(r);
    rig_join(r);
    assert_int_equal(1, rig_count(r, "told"));
    assert_int_equal(1, totals_of(r).lost);
}

/* Items that only wait for a thread can be lost, too: they are not run. */
static void a_queued_item_that_is_lost_does_not_run(void **state)
{
    rig *r = *state;
    r->options.lease_us = 1500000;
    r->options.prefetch = 1;
    r->options.item_max = 2;
    rig_add(r, "a");
    rig_add(r, "b");
    rig_start(r);
    rig_wait(r, "started", 1);
    rig_wait(r, "claimed", 2);
    assert_ok_err(tide_work_cancel(r->mine, "b", NULL, &r->t->err), &r->t->err);
    rig_wait(r, "lost", 1);
    rig_let(r);
    rig_join(r);
    assert_int_equal(1, rig_count(r, "started"));
    assert_string_equal("claimed a, claimed b, lost b, finished a", r->log);
}

/* A store that cannot be written: the job is told before the lease ends, though the renewal itself hangs. */
static void a_lease_that_cannot_be_renewed_is_given_up_before_its_end(void **state)
{
    rig_hang hang;
    rig *r = *state;
    r->options.lease_us = 1200000;
    r->options.item_max = 1;
    rig_add(r, "a");
    rig_start(r);
    rig_wait(r, "started", 1);
    rig_hang_begin(&hang, r, "a", rig_look(r, "a").token);
    rig_wait(r, "told", 1);
    rig_wait(r, "ended", 1);
    assert_int_equal(TIDE_JOB_LEASE_OVER, r->stop_reason);
    assert_true(r->lease_left_us > 0);
    assert_true(r->lease_left_us <= r->options.lease_us / 6);
    /* ... and not long before: the last lease was used. */
    assert_true(r->stop_seen_us - r->started_us > r->options.lease_us / 2);
    rig_wait(r, "trouble", 0);
    rig_hang_end(&hang);
    rig_join(r);
    assert_int_equal(0, totals_of(r).finished);
    assert_int_equal(1, totals_of(r).lost + totals_of(r).released);
}

/* ---- timeout ---- */

/* The attempt may take a moment, whatever the lease: then it is told, and the attempt has failed. It is not told
 * much earlier, and not given back for nothing, or it would begin again for ever. */
static void an_attempt_that_takes_too_long_has_failed(void **state)
{
    rig *r = *state;
    r->options.item_max = 1;
    rig_add_new(r, (tide_work_spec){TIDE_WORK_SPEC_INIT, .work_item_id = "a", .timeout_us = 1500000,
                                    .max_retries = 1});
    rig_start(r);
    rig_join(r);
    assert_int_equal(TIDE_JOB_TIMED_OUT, r->stop_reason);
    assert_true(r->stop_seen_us - r->started_us > 500000);
    assert_true(r->lease_left_us > 0);
    assert_int_equal(1, totals_of(r).failed);
    const rig_item item = rig_look(r, "a");
    assert_string_equal("pending", item.status);
    assert_int_equal(1, item.retry_count);
    assert_int_equal(1, item.failure_count);
    assert_contains(item.error, "timeout");
}

/* ---- stopping ---- */

/* What only waits goes back at once, what runs may end. */
static void stopping_gives_queued_items_back_while_others_run(void **state)
{
    rig *r = *state;
    r->options.prefetch = 3;
    rig_add(r, "a");
    rig_add(r, "b");
    rig_add(r, "c");
    rig_add(r, "d");
    rig_add(r, "e");
    rig_start(r);
    rig_wait(r, "started", 1);
    rig_wait(r, "claimed", 4);
    assert_string_equal("in_progress", rig_look(r, "d").status);
    assert_string_equal("pending", rig_look(r, "e").status);
    tide_worker_stop(r->worker);
    rig_wait(r, "released", 3);
    assert_int_equal(0, rig_count(r, "ended"));
    assert_string_equal("in_progress", rig_look(r, "a").status);
    assert_string_equal("pending", rig_look(r, "b").status);
    assert_string_equal("pending", rig_look(r, "d").status);
    assert_int_equal(0, rig_look(r, "b").retry_count);
    rig_let(r);
    rig_join(r);
    assert_int_equal(1, totals_of(r).finished);
    assert_int_equal(3, totals_of(r).released);
    assert_int_equal(0, rig_count(r, "told"));
    assert_int_equal(1, rig_count(r, "started"));
}

static tide_worker *signalled;
static void stop_it(int number)
{
    (void)number;
    tide_worker_stop(signalled);
}

/* The first signal lets running items end, the second one tells them to stop. */
static void a_signal_handler_may_stop_it_and_a_second_signal_ends_the_drain(void **state)
{
    struct sigaction before;
    const struct sigaction action = {.sa_handler = stop_it};
    rig *r = *state;
    r->options.drain_us = 3600 * SECOND_US;
    rig_add(r, "a");
    rig_add(r, "b");
    rig_start(r);
    signalled = r->worker;
    assert_int_equal(0, sigaction(SIGUSR1, &action, &before));
    rig_wait(r, "started", 1);
    assert_int_equal(0, raise(SIGUSR1));
    rig_wait_status(r, "b", "pending"); /* it hears of no more items */
    assert_int_equal(0, rig_count(r, "told"));
    assert_int_equal(0, pthread_kill(r->thread, SIGUSR1));
    rig_wait(r, "told", 1);
    rig_join(r);
    assert_int_equal(0, sigaction(SIGUSR1, &before, NULL));
    assert_int_equal(TIDE_JOB_WORKER_ENDS, r->stop_reason);
    assert_string_equal("claimed a, released a", r->log);
    assert_string_equal("pending", rig_look(r, "a").status);
    assert_int_equal(0, rig_look(r, "a").retry_count);
}

static void what_outlasts_the_drain_is_told_to_stop(void **state)
{
    rig *r = *state;
    r->options.drain_us = 50000;
    rig_add(r, "a");
    rig_start(r);
    rig_wait(r, "started", 1);
    tide_worker_stop(r->worker);
    rig_join(r);
    assert_int_equal(TIDE_JOB_WORKER_ENDS, r->stop_reason);
    assert_int_equal(1, rig_count(r, "told"));
    assert_int_equal(1, totals_of(r).released);
}

static void without_a_drain_running_items_are_told_at_once(void **state)
{
    rig *r = *state;
    r->options.drain_us = -1;
    r->options.threads = 3;
    rig_add(r, "a");
    rig_add(r, "b");
    rig_add(r, "c");
    rig_start(r);
    rig_wait(r, "started", 3);
    tide_worker_stop(r->worker);
    rig_join(r);
    assert_int_equal(3, rig_count(r, "told"));
    assert_int_equal(3, totals_of(r).released);
}

/* The keeper may be waiting for a store that hangs; who stops the worker twice is heard all the same. */
static void a_store_that_hangs_does_not_keep_a_stop_from_being_heard(void **state)
{
    rig_hang hang;
    rig *r = *state;
    r->options.lease_us = 30 * SECOND_US;
    r->options.drain_us = 3600 * SECOND_US;
    r->options.prefetch = 1;
    rig_add(r, "a");
    rig_add(r, "b");
    rig_start(r);
    rig_wait(r, "claimed", 2);
    rig_wait(r, "started", 1);
    rig_hang_begin(&hang, r, "b", rig_look(r, "b").token);
    const int64_t stopped_us = rig_now_us();
    tide_worker_stop(r->worker); /* the keeper gives b back, and waits for whoever holds it */
    tide_worker_stop(r->worker);
    rig_wait(r, "told", 1);
    rig_wait(r, "ended", 1);
    assert_true(r->stop_seen_us - stopped_us < 5 * SECOND_US);
    rig_hang_end(&hang);
    rig_join(r);
    assert_int_equal(2, totals_of(r).released);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        RIG_CASE(renewal_keeps_items_beyond_their_first_lease),
        RIG_CASE(a_lost_lease_is_told_and_the_result_is_refused),
        RIG_CASE(a_refused_checkpoint_tells_the_job_to_stop),
        RIG_CASE(a_queued_item_that_is_lost_does_not_run),
        RIG_CASE(a_lease_that_cannot_be_renewed_is_given_up_before_its_end),
        RIG_CASE(an_attempt_that_takes_too_long_has_failed),
        RIG_CASE(stopping_gives_queued_items_back_while_others_run),
        RIG_CASE(a_signal_handler_may_stop_it_and_a_second_signal_ends_the_drain),
        RIG_CASE(what_outlasts_the_drain_is_told_to_stop),
        RIG_CASE(without_a_drain_running_items_are_told_at_once),
        RIG_CASE(a_store_that_hangs_does_not_keep_a_stop_from_being_heard),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
