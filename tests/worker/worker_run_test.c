/* The worker runtime: what it claims, runs and records, what it tells, when it ends, what wakes it. Real threads and clocks. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker/worker_rig.h"

static tide_worker_totals totals_of(const rig *r)
{
    tide_worker_totals totals;
    tide_worker_totals_get(r->worker, &totals);
    return totals;
}

/* ---- ends ---- */

static void what_the_function_returns_decides(void **state)
{
    static const struct {
        tide_status returned;
        const char *id, *status, *event;
    } cases[] = {{TIDE_OK, "a", "completed", "finished"},
                 {TIDE_E_INTERRUPTED, "b", "pending", "released"},
                 {TIDE_E_DAMAGED, "c", "pending", "failed"}};
    rig *r = *state;
    rig_let(r);
    r->options.item_max = 1;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        r->result = cases[i].returned;
        rig_add_new(r, (tide_work_spec){TIDE_WORK_SPEC_INIT, .work_item_id = cases[i].id,
                                        .priority = (int64_t)i, .max_retries = 1});
        rig_start(r);
        rig_join(r);
        assert_string_equal(cases[i].status, rig_look(r, cases[i].id).status);
        assert_int_equal(1, rig_count(r, cases[i].event));
        tide_worker_closep(&r->worker);
        r->worker = NULL;
    }
    /* A release spends nothing; a failure spends a retry, waits, and says why. */
    assert_int_equal(0, rig_look(r, "b").retry_count);
    const rig_item failed = rig_look(r, "c");
    assert_int_equal(1, failed.retry_count);
    assert_int_equal(1, failed.failure_count);
    assert_true(failed.run_after_us > 0);
    assert_string_equal("damaged data", failed.error);
}

static tide_status finish_twice(rig *r, tide_job *job, tide_error *err)
{
    (void)r;
    tide_work_result broken = {TIDE_WORK_RESULT_INIT, .output = "{\"unfinished\":"};
    if (tide_job_finish(job, &broken, err) != TIDE_E_INVALID)
        return TIDE_E_FAILED;
    tide_work_result result = {TIDE_WORK_RESULT_INIT, .output = "{\"rows\":42}"};
    return tide_job_finish(job, &result, err);
}

/* An end that the store does not accept is still the function's to choose again. */
static void an_output_that_is_refused_can_be_replaced(void **state)
{
    rig *r = *state;
    r->act = finish_twice;
    r->options.until_empty = true;
    rig_let(r);
    rig_add(r, "a");
    rig_start(r);
    rig_join(r);
    assert_string_equal("completed", rig_look(r, "a").status);
    assert_string_equal("{\"rows\":42}", rig_look(r, "a").output);
    assert_int_equal(1, totals_of(r).finished);
}

static tide_status read_state(void *arg, const tide_checkpoint *checkpoint, tide_error *err)
{
    (void)err;
    snprintf(arg, 64, "%.*s", (int)checkpoint->snapshot.len, checkpoint->snapshot.ptr);
    return TIDE_OK;
}

/* Fails after a checkpoint at first; later it finishes with what the checkpoint said. */
static tide_status go_on_from_the_checkpoint(rig *r, tide_job *job, tide_error *err)
{
    (void)r;
    char text[64] = "";
    const tide_status found = tide_job_last_checkpoint(job, read_state, text, err);
    if (found == TIDE_NONE) {
        tide_checkpoint_numbers numbers;
        const tide_checkpoint_new checkpoint = {TIDE_CHECKPOINT_NEW_INIT,
                                                .type = "manual_checkpoint",
                                                .snapshot = tide_view_of("{\"page\":7}")};
        TIDE_TRY(tide_job_checkpoint(job, &checkpoint, &numbers, err));
        TIDE_TRY(tide_job_progress(job, "{\"percent\":70}", err));
        return tide_job_fail(job, "once more", false, 0, err);
    }
    TIDE_TRY(found);
    tide_work_result result = {TIDE_WORK_RESULT_INIT, .output = text};
    return tide_job_finish(job, &result, err);
}

static void the_next_attempt_is_given_the_last_checkpoint(void **state)
{
    rig *r = *state;
    r->act = go_on_from_the_checkpoint;
    r->options.until_empty = true;
    rig_let(r);
    rig_add(r, "a");
    rig_start(r);
    rig_join(r);
    assert_string_equal("{\"page\":7}", rig_look(r, "a").output);
    assert_string_equal("claimed a, failed a, claimed a, finished a", r->log);
}

/* Somebody removed the item while it was worked on: told as lost, and the worker goes on. */
static void an_item_that_is_gone_counts_as_lost(void **state)
{
    rig *r = *state;
    r->options.item_max = 2;
    rig_add(r, "a");
    rig_start(r);
    rig_wait(r, "started", 1);
    assert_ok_err(tide_work_delete(r->mine, "a", true, &r->t->err), &r->t->err);
    rig_let(r);
    rig_wait(r, "lost", 1);
    rig_add(r, "b");
    rig_join(r);
    assert_string_equal("claimed a, lost a, claimed b, finished b", r->log);
    assert_int_equal(1, totals_of(r).lost);
}

/* ---- how much ---- */

static void a_worker_ends_after_item_max_items(void **state)
{
    char id[8];
    rig *r = *state;
    r->options.item_max = 3;
    r->options.threads = 2;
    r->options.prefetch = 4;
    rig_let(r);
    for (int i = 0; i < 5; i++) {
        snprintf(id, sizeof id, "i%d", i);
        rig_add(r, id);
    }
    rig_start(r);
    rig_join(r);
    assert_int_equal(3, totals_of(r).claimed);
    assert_int_equal(3, totals_of(r).finished);
    assert_string_equal("completed", rig_look(r, "i2").status);
    assert_string_equal("pending", rig_look(r, "i3").status);
}

static tide_status fail_at_first(rig *r, tide_job *job, tide_error *err)
{
    (void)r;
    if (tide_job_item(job)->attempt == 1)
        return tide_job_fail(job, "not yet", false, 200000, err);
    return TIDE_OK;
}

/* Empty means: nothing is waiting for its time either: an item in back-off is not forgotten. */
static void until_empty_waits_for_items_in_back_off(void **state)
{
    rig *r = *state;
    r->act = fail_at_first;
    r->options.until_empty = true;
    rig_let(r);
    rig_add(r, "a");
    rig_add(r, "b");
    rig_start(r);
    rig_join(r);
    assert_int_equal(2, totals_of(r).failed);
    assert_int_equal(2, totals_of(r).finished);
    assert_string_equal("completed", rig_look(r, "b").status);
}

static void until_empty_ends_at_once_where_there_is_nothing(void **state)
{
    rig *r = *state;
    r->options.until_empty = true;
    rig_start(r);
    rig_join(r);
    assert_int_equal(0, totals_of(r).claimed);
}

/* What this worker can never claim does not keep it waiting. */
static void until_empty_does_not_wait_for_what_others_do(void **state)
{
    rig *r = *state;
    r->options.until_empty = true;
    rig_let(r);
    rig_add_new(r, (tide_work_spec){TIDE_WORK_SPEC_INIT, .work_item_id = "later",
                                    .work_type = "other", .delay_us = 3600 * SECOND_US});
    rig_add(r, "a");
    rig_start(r);
    rig_join(r);
    assert_string_equal("claimed a, finished a", r->log);
}

/* Another worker took over what this one began, and died: the item is not left behind. */
static void until_empty_waits_for_what_it_lost(void **state)
{
    rig *r = *state;
    r->options.until_empty = true;
    r->options.poll_us = 50000;
    r->options.sweep_us = 50000;
    rig_add(r, "a");
    rig_start(r);
    rig_wait(r, "started", 1);
    const tide_work_claim_request request = {TIDE_WORK_CLAIM_REQUEST_INIT, .worker = "other",
                                             .lease_us = 500000};
    tide_work_claims claims;
    assert_ok_err(tide_work_release(r->mine, "a", rig_look(r, "a").token, 0, &r->t->err),
                  &r->t->err);
    assert_ok_err(tide_work_claim(r->mine, &request, &claims, &r->t->err), &r->t->err);
    tide_work_claims_done(&claims);
    rig_let(r);
    rig_join(r);
    assert_string_equal("completed", rig_look(r, "a").status);
    assert_int_equal(1, totals_of(r).lost);
    assert_int_equal(1, totals_of(r).finished);
    assert_int_equal(0, totals_of(r).failed_items);
}

static tide_status fail_for_good(rig *r, tide_job *job, tide_error *err)
{
    (void)r;
    return tide_job_fail(job, "never", true, -1, err);
}

static void items_that_failed_for_good_are_counted(void **state)
{
    rig *r = *state;
    r->act = fail_for_good;
    r->options.until_empty = true;
    rig_let(r);
    rig_add(r, "a");
    rig_start(r);
    rig_join(r);
    assert_int_equal(1, totals_of(r).failed);
    assert_int_equal(1, totals_of(r).failed_items);
}

/* As many at once as there are threads, and every item once. */
static void two_workers_share_items_and_each_runs_once(void **state)
{
    enum { ITEMS = 40 };
    rig *a = *state;
    a->options.threads = 4;
    a->options.prefetch = 3;
    a->options.until_empty = true;
    for (int i = 0; i < ITEMS; i++) {
        char id[8];
        snprintf(id, sizeof id, "i%d", i);
        rig_add(a, id);
    }
    rig *b = rig_second(a);
    rig_start(a);
    rig_start(b);
    rig_wait(a, "started", 4);
    rig_wait(b, "started", 4);
    rig_let(a);
    rig_let(b);
    rig_join(a);
    rig_join(b);
    assert_int_equal(ITEMS, totals_of(a).finished + totals_of(b).finished);
    assert_int_equal(ITEMS, rig_count(a, "started") + rig_count(b, "started"));
    assert_int_equal(0, totals_of(a).lost + totals_of(b).lost);
}

/* ---- waking ---- */

/* An idle worker, and then an item. Sweeps tell that the worker has been round its loop, and do not make it look. */
static void add_and_wait(rig *r, const char *id, const char *type)
{
    const int before = rig_count(r, "finished");
    rig_wait(r, "swept", rig_count(r, "swept") + 3);
    rig_add_new(r, (tide_work_spec){TIDE_WORK_SPEC_INIT, .work_item_id = id, .work_type = type,
                                    .max_retries = -1});
    rig_wait(r, "finished", before + 1);
}

/* Nobody polls here for an hour: an item that somebody else adds wakes the worker. */
static void an_item_added_elsewhere_starts_without_polling(void **state)
{
    rig *r = *state;
    rig_let(r);
    r->options.sweep_us = 30000;
    rig_start(r);
    add_and_wait(r, "a", NULL);
    add_and_wait(r, "b", NULL);
    tide_worker_stop(r->worker);
    rig_join(r);
}

static void a_worker_of_every_type_is_woken_too(void **state)
{
    rig *r = *state;
    rig_let(r);
    r->options.sweep_us = 30000;
    r->options.type_count = 0;
    rig_start(r);
    add_and_wait(r, "a", "one");
    add_and_wait(r, "b", "one");
    add_and_wait(r, "c", "two");
    tide_worker_stop(r->worker);
    rig_join(r);
}

/* A pause that ends, a delay that is over, a dependency that is done. */
static void whatever_becomes_claimable_wakes_the_worker(void **state)
{
    rig *r = *state;
    rig_let(r);
    r->options.sweep_us = 30000;
    assert_ok_err(tide_work_pause(r->mine, "job", "for now", &r->t->err), &r->t->err);
    rig_add(r, "paused");
    rig_start(r);
    rig_wait(r, "swept", 3);
    assert_ok_err(tide_work_resume(r->mine, "job", &r->t->err), &r->t->err);
    rig_wait(r, "finished", 1);
    rig_add_new(
        r, (tide_work_spec){TIDE_WORK_SPEC_INIT, .work_item_id = "delayed", .delay_us = 100000});
    rig_wait(r, "finished", 2);
    static const char *const needs[] = {"first"};
    rig_add_new(r,
                (tide_work_spec){TIDE_WORK_SPEC_INIT, .work_item_id = "first", .delay_us = 50000});
    rig_add_new(r, (tide_work_spec){TIDE_WORK_SPEC_INIT, .work_item_id = "second",
                                    .depends_on = needs, .depends_on_count = 1});
    rig_wait(r, "finished", 4);
    tide_worker_stop(r->worker);
    rig_join(r);
}

/* Every running worker is a watchdog too: what another one left behind is requeued and done. */
static void a_worker_sweeps_what_another_left_behind(void **state)
{
    rig *r = *state;
    rig_let(r);
    r->options.sweep_us = 20000;
    r->options.item_max = 1;
    rig_add(r, "a");
    tide_work_claims claims = {.count = 0};
    const tide_work_claim_request request = {TIDE_WORK_CLAIM_REQUEST_INIT, .worker = "gone",
                                             .lease_us = 50000};
    assert_ok_err(tide_work_claim(r->mine, &request, &claims, &r->t->err), &r->t->err);
    tide_work_claims_done(&claims);
    rig_start(r);
    rig_join(r);
    assert_string_equal("completed", rig_look(r, "a").status);
    assert_int_equal(1, rig_look(r, "a").crash_count);
}

/* ---- refusals ---- */

static void bad_options_are_refused(void **state)
{
    rig *r = *state;
    const tide_worker_options good = r->options;
    tide_worker_options bad[] = {good, good, good, good, good};
    bad[0].threads = -1;
    bad[1].threads = TIDE_WORKER_THREADS_MAX + 1;
    bad[2].prefetch = TIDE_WORKER_PREFETCH_MAX; /* with the one that runs that is one too many */
    bad[3].prefetch = -1;
    bad[4].worker = "";
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        tide_worker *worker = NULL;
        assert_status(TIDE_E_INVALID, tide_worker_open(&worker, r->store, &bad[i], &r->t->err));
        assert_null(worker);
    }
}

/* What trying again cannot mend ends the worker, with the reason. */
static void a_claim_that_can_never_succeed_ends_the_worker(void **state)
{
    rig *r = *state;
    r->options.lease_us = 1;
    rig_start(r);
    assert_int_equal(0, pthread_join(r->thread, NULL));
    r->is_running = false;
    assert_status(TIDE_E_INVALID, r->ended_with);
    assert_contains(r->err.text, "lease");
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        RIG_CASE(what_the_function_returns_decides),
        RIG_CASE(an_output_that_is_refused_can_be_replaced),
        RIG_CASE(the_next_attempt_is_given_the_last_checkpoint),
        RIG_CASE(an_item_that_is_gone_counts_as_lost),
        RIG_CASE(a_worker_ends_after_item_max_items),
        RIG_CASE(until_empty_waits_for_items_in_back_off),
        RIG_CASE(until_empty_ends_at_once_where_there_is_nothing),
        RIG_CASE(until_empty_does_not_wait_for_what_others_do),
        RIG_CASE(until_empty_waits_for_what_it_lost),
        RIG_CASE(items_that_failed_for_good_are_counted),
        RIG_CASE(two_workers_share_items_and_each_runs_once),
        RIG_CASE(an_item_added_elsewhere_starts_without_polling),
        RIG_CASE(a_worker_of_every_type_is_woken_too),
        RIG_CASE(whatever_becomes_claimable_wakes_the_worker),
        RIG_CASE(a_worker_sweeps_what_another_left_behind),
        RIG_CASE(bad_options_are_refused),
        RIG_CASE(a_claim_that_can_never_succeed_ends_the_worker),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
