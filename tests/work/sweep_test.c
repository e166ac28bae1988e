/* The watchdog: leases that ran out, timeouts, poison, rows left behind; bounded and repeatable. */
#include "work/work_fixture.h"

#include <stdio.h>
#include <string.h>

#include <tidemark/watch.h>

#include "base/cleanup.h"

/* Expired is an outcome of the attempt; the item goes back to pending, with a checkpoint. */
static void a_lease_that_ran_out_is_requeued_at_once_and_recorded(void **state)
{
    store_test *t = *state;
    make_task(t, "t");
    add_item(t, "a");
    const held h = claim(t, "lost");
    virtual_env_advance(&t->clock, LEASE_US);
    const tide_work_swept swept = sweep(t);
    assert_int_equal(1, swept.requeued);
    assert_int_equal(0, swept.failed);
    const item_copy c = look(t, "a");
    assert_string_equal("pending", c.status);
    assert_int_equal(1, c.retry_count);
    assert_int_equal(1, c.crash_count);
    assert_int_equal(0, c.failure_count);
    assert_true(c.run_after_us == 0);
    assert_true(c.token > h.token);
    assert_string_equal("expired", c.outcome);
    assert_string_equal("expired", outcomes_of(t, "a"));
    const char *boundary = boundaries_of(t, "t");
    assert_contains(boundary, "\"error\":\"Lease expired\"");
    assert_contains(boundary, "\"retry\":1");
    assert_contains(boundary, "\"worker\":\"lost\"");
    assert_int_equal(1, count_checkpoints(t, "t"));
    assert_int_equal(0, sweep(t).requeued);
    assert_int_equal(2, claim(t, "w").attempt);
}

/* One first run and three retries, then failed; an item that kept killing its workers is quarantined. */
static void an_item_that_kills_its_workers_is_quarantined(void **state)
{
    store_test *t = *state;
    make_task(t, "t");
    add_item(t, "a");
    for (int i = 0; i < 4; i++) {
        const held h = claim(t, "victim");
        assert_int_equal(i + 1, h.attempt);
        virtual_env_advance(&t->clock, LEASE_US);
        const tide_work_swept swept = sweep(t);
        assert_int_equal(i < 3, swept.requeued);
        assert_int_equal(i == 3, swept.failed);
        assert_int_equal(i == 3, swept.quarantined);
        const int64_t run_after_us = look(t, "a").run_after_us;
        /* The first one is nobody's fault; later ones back off. */
        assert_true((run_after_us == 0) == (i == 0 || i == 3));
        if (run_after_us > 0)
            virtual_env_advance(&t->clock, 10 * SECOND_US);
    }
    const item_copy c = look(t, "a");
    assert_string_equal("failed", c.status);
    assert_string_equal("quarantined", c.kind);
    assert_string_equal("Max retries exceeded", c.error);
    assert_int_equal(3, c.retry_count);
    assert_int_equal(4, c.crash_count);
    assert_string_equal("expired expired expired expired", outcomes_of(t, "a"));
    assert_int_equal(4, count_checkpoints(t, "t"));
    assert_contains(boundaries_of(t, "t"), "\"error\":\"Max retries exceeded\"");
    assert_true(claim(t, "w").token == 0);
}

/* Crashes and failures are counted apart: one crash among failures is no poison. */
static void mixed_ends_are_exhausted_not_quarantined(void **state)
{
    store_test *t = *state;
    make_task(t, "t");
    add_item(t, "a");
    for (int i = 0; i < 3; i++) {
        const held h = claim(t, "w");
        assert_ok(tide_work_fail(t->store,
                                 &(tide_work_failure){TIDE_WORK_FAILURE_INIT, .work_item_id = h.id,
                                                      .token = h.token, .error = "x"},
                                 NULL, &t->err));
    }
    (void)claim(t, "w");
    virtual_env_advance(&t->clock, LEASE_US);
    assert_int_equal(1, sweep(t).failed);
    const item_copy c = look(t, "a");
    assert_string_equal("exhausted", c.kind);
    assert_int_equal(3, c.failure_count);
    assert_int_equal(1, c.crash_count);
    assert_int_equal(3, c.retry_count);
}

static void the_crash_limit_is_the_callers(void **state)
{
    store_test *t = *state;
    make_task(t, "t");
    const tide_work_spec item = {TIDE_WORK_SPEC_INIT, .work_item_id = "a", .task_id = "t",
                                 .work_type = "job"};
    tide_work_added added;
    tide_work_swept swept;
    assert_ok(try_add(t, &item, 1, &added));
    (void)claim(t, "w");
    virtual_env_advance(&t->clock, LEASE_US);
    assert_ok(tide_work_sweep(t->store, 0, 1, &swept, &t->err));
    assert_int_equal(1, swept.quarantined);
    assert_status(TIDE_E_INVALID, tide_work_sweep(t->store, -1, 0, &swept, &t->err));
    assert_status(TIDE_E_INVALID,
                  tide_work_sweep(t->store, TIDE_WORK_SWEEP_MAX + 1, 0, &swept, &t->err));
}

/* An attempt that took too long is a failure, not a crash, and backs off. */
static void a_timeout_counts_as_a_failure(void **state)
{
    store_test *t = *state;
    make_task(t, "t");
    add_new(
        t, (tide_work_spec){TIDE_WORK_SPEC_INIT, .work_item_id = "a", .timeout_us = 5 * SECOND_US});
    (void)claim(t, "w");
    virtual_env_advance(&t->clock, 5 * SECOND_US);
    assert_int_equal(1, sweep(t).requeued);
    const item_copy c = look(t, "a");
    assert_int_equal(1, c.failure_count);
    assert_int_equal(0, c.crash_count);
    assert_string_equal("timed_out", c.outcome);
    assert_string_equal("Timed out", c.error);
    assert_true(c.run_after_us > 0);
    assert_true(c.deadline_at_us == 0);
    assert_string_equal("timed_out", outcomes_of(t, "a"));
    assert_contains(boundaries_of(t, "t"), "\"error\":\"Timed out\"");
}

/* A lease renewed a moment ago is left alone. */
static void the_sweep_takes_what_is_over_and_nothing_else(void **state)
{
    store_test *t = *state;
    make_task(t, "t");
    add_item(t, "over");
    add_item(t, "kept");
    const held over = claim(t, "w");
    const held kept = claim(t, "w");
    virtual_env_advance(&t->clock, LEASE_US - SECOND_US);
    tide_work_ref ref = {TIDE_WORK_REF_INIT, .work_item_id = kept.id, .token = kept.token};
    assert_ok(tide_work_renew(t->store, &ref, 1, LEASE_US, &t->err));
    virtual_env_advance(&t->clock, SECOND_US);
    assert_int_equal(1, sweep(t).requeued);
    assert_item(t, over.id, "pending");
    assert_item(t, kept.id, "in_progress");
    assert_ok(finish(t, &kept, NULL));
}

/* Rows that plain SQL left in 'expired' are taken up; nothing rests in a state no one claims. */
static void rows_left_expired_are_taken_up(void **state)
{
    store_test *t = *state;
    make_task(t, "t");
    add_item(t, "a");
    run_sql(t, "UPDATE work_items SET status = 'in_progress', lease_holder = 'psql' WHERE "
               "work_item_id = 'a'");
    run_sql(t, "UPDATE work_items SET status = 'expired' WHERE work_item_id = 'a'");
    assert_string_equal("lease_over", reasons_of(t, "a", NULL));
    const int64_t crashes = look(t, "a").crash_count;
    assert_int_equal(1, sweep(t).requeued);
    const item_copy c = look(t, "a");
    assert_string_equal("pending", c.status);
    assert_int_equal(1, c.retry_count);
    assert_int_equal(crashes, c.crash_count);
    assert_string_equal("expired", outcomes_of(t, "a"));
    assert_contains(boundaries_of(t, "t"), "Lease expired");
}

static void delayed_items_that_are_due_are_promoted(void **state)
{
    store_test *t = *state;
    make_task(t, "t");
    add_new(t, (tide_work_spec){TIDE_WORK_SPEC_INIT, .work_item_id = "a", .delay_us = SECOND_US});
    add_new(t, (tide_work_spec){TIDE_WORK_SPEC_INIT, .work_item_id = "b", .delay_us = MINUTE_US});
    assert_int_equal(0, sweep(t).promoted);
    virtual_env_advance(&t->clock, SECOND_US);
    assert_int_equal(1, sweep(t).promoted);
    assert_true(look(t, "a").run_after_us == 0);
    assert_true(look(t, "b").run_after_us > 0);
}

/* Many items of many tasks: in bounded transactions, one checkpoint each; has_more says to come again. */
static void a_great_crash_is_cleared_in_bounded_turns(void **state)
{
    store_test *t = *state;
    enum { TASKS = 70, EACH = 2 };
    for (int i = 0; i < TASKS; i++) {
        char task[16];
        (void)snprintf(task, sizeof task, "task%02d", i);
        make_task(t, task);
        tide_work_spec items[EACH];
        tide_work_added added[EACH];
        for (int n = 0; n < EACH; n++)
            items[n] = (tide_work_spec){TIDE_WORK_SPEC_INIT, .task_id = task, .work_type = "job",
                                        .max_retries = -1};
        assert_ok(try_add(t, items, EACH, added));
    }
    (void)claim_ids(t->store, (tide_work_claim_request){TIDE_WORK_CLAIM_REQUEST_INIT, .limit = 200,
                                                        .lease_us = LEASE_US});
    virtual_env_advance(&t->clock, LEASE_US);
    tide_work_swept swept;
    assert_ok_err(tide_work_sweep(t->store, 30, 0, &swept, &t->err), &t->err);
    assert_int_equal(30, swept.requeued);
    assert_true(swept.has_more);
    assert_ok_err(tide_work_sweep(t->store, 0, 0, &swept, &t->err), &t->err);
    assert_int_equal(TASKS * EACH - 30, swept.requeued);
    assert_false(swept.has_more);
    for (int i = 0; i < TASKS; i += 23) {
        char task[16];
        (void)snprintf(task, sizeof task, "task%02d", i);
        assert_int_equal(EACH, count_checkpoints(t, task));
    }
    assert_ok(tide_work_sweep(t->store, 0, 0, &swept, &t->err));
    assert_int_equal(0, swept.requeued + swept.failed + swept.promoted);
}

/* A sweep wakes those who wait for what became claimable. */
static void a_requeued_item_wakes_its_type(void **state)
{
    store_test *t = *state;
    char topic[64];
    tide_watch *watch = NULL;
    make_task(t, "t");
    add_item(t, "a");
    (void)claim(t, "w");
    tide_work_topic(topic, "job");
    assert_ok(tide_watch_open(&watch, t->store, topic, &t->err));
    virtual_env_advance(&t->clock, LEASE_US);
    (void)sweep(t);
    assert_ok(tide_watch_wait(watch, 10 * SECOND_US, &t->err));
    tide_watch_close(watch);
}

/* An attempt failed while the wall clock was ten days ahead. Once it is right again its back-off is over within a sweep, and
 * not ten days later; what waits for a time that somebody named waits on. */
static void a_back_off_does_not_outlast_a_clock_that_was_ahead(void **state)
{
    store_test *t = *state;
    make_task(t, "t");
    add_item(t, "a");
    virtual_env_set_wall(&t->clock, VIRTUAL_ENV_WALL_US + 10 * 86400 * SECOND_US);
    add_new(t,
            (tide_work_spec){TIDE_WORK_SPEC_INIT, .work_item_id = "named", .delay_us = MINUTE_US});
    const held h = claim(t, "w");
    assert_string_equal("a", h.id);
    assert_ok_err(fail_it(t, &h, "boom", false), &t->err);
    virtual_env_set_wall(&t->clock, VIRTUAL_ENV_WALL_US);
    assert_true(claim(t, "w").token == 0);
    const tide_work_swept swept = sweep(t);
    assert_int_equal(1, swept.promoted);
    assert_int_equal(0, sweep(t).promoted);
    const held again = claim(t, "w");
    assert_string_equal("a", again.id);
    assert_int_equal(2, again.attempt);
    assert_true(claim(t, "w").token == 0);
}

/* Has something been written since the last call that a sleeping sweeper has to know of? */
static bool is_woken(store_test *t, tide_watch *watch)
{
    return tide_watch_wait(watch, 0, &t->err) == TIDE_OK;
}

static void what_is_due_soon_wakes_sweepers(void **state)
{
    store_test *t = *state;
    TIDE_CLEANUP(tide_watch_closep) tide_watch *watch = NULL;
    make_task(t, "t");
    assert_ok_err(tide_watch_open(&watch, t->store, TIDE_WORK_DUE_TOPIC, &t->err), &t->err);
    add_item(t, "a");
    (void)is_woken(t, watch); /* one that was just opened may be ready */
    const char *const types[] = {"job"};
    const tide_work_claim_request request = {TIDE_WORK_CLAIM_REQUEST_INIT, .worker = "w",
                                             .types = types, .type_count = 1,
                                             .lease_us = SECOND_US};
    const held h = claim_with(t->store, request);
    assert_true(h.token > 0);
    assert_true(is_woken(t, watch));
    assert_ok(fail_it(t, &h, "x", false));
    assert_true(is_woken(t, watch));
    add_new(t, (tide_work_spec){TIDE_WORK_SPEC_INIT, .work_item_id = "late",
                                .delay_us = 10 * SECOND_US});
    assert_true(is_woken(t, watch));
    const tide_schedule_new hourly = {TIDE_SCHEDULE_NEW_INIT, .name = "hourly", .task_id = "t",
                                      .work_type = "job", .cron = "0 * * * *"};
    assert_ok_err(tide_schedule_add(t->store, &hourly, NULL, &t->err), &t->err);
    assert_true(is_woken(t, watch));
}

static int64_t find_next_sweep(store_test *t)
{
    int64_t wait_us = -1;
    assert_ok_err(tide_work_next_sweep(t->store, &wait_us, &t->err), &t->err);
    return wait_us;
}

static void each_kind_alone_decides_the_next_sweep(void **state)
{
    store_test *t = *state;
    make_task(t, "t");
    const tide_schedule_new often = {
        TIDE_SCHEDULE_NEW_INIT,     .name = "often",  .task_id = "t", .work_type = "job",
        .every_us = 10 * SECOND_US, .max_retries = -1};
    assert_ok_err(tide_schedule_add(t->store, &often, NULL, &t->err), &t->err);
    assert_true(find_next_sweep(t) == 10 * SECOND_US);
    assert_ok(tide_schedule_remove(t->store, "often", &t->err));
    add_new(t, (tide_work_spec){TIDE_WORK_SPEC_INIT, .work_item_id = "late",
                                .delay_us = 20 * SECOND_US});
    assert_true(find_next_sweep(t) == 20 * SECOND_US);
    assert_ok(tide_work_delete(t->store, "late", false, &t->err));
    assert_true(find_next_sweep(t) == INT64_MAX);
    add_item(t, "a");
    assert_true(claim(t, "w").token > 0);
    assert_true(find_next_sweep(t) == LEASE_US);
}

/* The answer is the earliest of the three kinds, and 0 once it has come. */
static void the_next_sweep_is_the_earliest_end_or_start(void **state)
{
    store_test *t = *state;
    make_task(t, "t");
    assert_true(find_next_sweep(t) == INT64_MAX);
    add_item(t, "a");
    assert_true(claim(t, "w").token > 0);
    assert_true(find_next_sweep(t) == LEASE_US);
    add_new(t, (tide_work_spec){TIDE_WORK_SPEC_INIT, .work_item_id = "late",
                                .delay_us = 20 * SECOND_US});
    assert_true(find_next_sweep(t) == 20 * SECOND_US);
    const tide_schedule_new often = {
        TIDE_SCHEDULE_NEW_INIT,     .name = "often",  .task_id = "t", .work_type = "job",
        .every_us = 10 * SECOND_US, .max_retries = -1};
    assert_ok(tide_schedule_add(t->store, &often, NULL, &t->err));
    assert_true(find_next_sweep(t) == 10 * SECOND_US);
    virtual_env_advance(&t->clock, 10 * SECOND_US);
    assert_true(find_next_sweep(t) == 0);
    assert_int_equal(1, sweep(t).scheduled);
    assert_true(find_next_sweep(t) == 10 * SECOND_US);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        STORE_CASE(a_lease_that_ran_out_is_requeued_at_once_and_recorded),
        STORE_CASE(an_item_that_kills_its_workers_is_quarantined),
        STORE_CASE(mixed_ends_are_exhausted_not_quarantined),
        STORE_CASE(the_crash_limit_is_the_callers),
        STORE_CASE(a_timeout_counts_as_a_failure),
        STORE_CASE(the_sweep_takes_what_is_over_and_nothing_else),
        STORE_CASE(rows_left_expired_are_taken_up),
        STORE_CASE(delayed_items_that_are_due_are_promoted),
        STORE_CASE(a_great_crash_is_cleared_in_bounded_turns),
        STORE_CASE(a_requeued_item_wakes_its_type),
        STORE_CASE(a_back_off_does_not_outlast_a_clock_that_was_ahead),
        STORE_CASE(what_is_due_soon_wakes_sweepers),
        STORE_CASE(each_kind_alone_decides_the_next_sweep),
        STORE_CASE(the_next_sweep_is_the_earliest_end_or_start),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
