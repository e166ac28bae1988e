/* Failing, cancelling, deleting, retrying. */
#include "work/work_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

/* max_retries = 3 means one first run and at most three more; failures are counted as failures. */
static void a_failing_item_runs_four_times_with_growing_waits(void **state)
{
    store_test *t = *state;
    make_task(t, "t");
    add_item(t, "a");
    const int64_t least[] = {SECOND_US / 2, SECOND_US / 2, SECOND_US / 2};
    const int64_t most[] = {SECOND_US, 2 * SECOND_US, 4 * SECOND_US};
    for (int i = 0; i < 4; i++) {
        const held h = claim(t, "w");
        assert_int_equal(i + 1, h.attempt);
        tide_work_failed failed;
        assert_ok_err(tide_work_fail(t->store,
                                     &(tide_work_failure){TIDE_WORK_FAILURE_INIT,
                                                          .work_item_id = h.id, .token = h.token,
                                                          .error = "boom", .retry_after_us = -1},
                                     &failed, &t->err),
                      &t->err);
        assert_true(failed.is_final == (i == 3));
        if (failed.is_final)
            break;
        assert_in_range(failed.retry_after_us, least[i], most[i]);
        assert_true(claim(t, "w").next_due_us == failed.retry_after_us);
        virtual_env_advance(&t->clock, failed.retry_after_us);
    }
    const item_copy c = look(t, "a");
    assert_string_equal("failed", c.status);
    assert_string_equal("exhausted", c.kind);
    assert_string_equal("boom", c.error);
    assert_int_equal(3, c.retry_count);
    assert_int_equal(4, c.failure_count);
    assert_int_equal(0, c.crash_count);
    assert_string_equal("failed failed failed failed", outcomes_of(t, "a"));
    assert_true(claim(t, "w").token == 0);
}

static void a_final_failure_is_not_retried(void **state)
{
    store_test *t = *state;
    make_task(t, "t");
    add_item(t, "a");
    const held h = claim(t, "w");
    assert_ok(fail_it(t, &h, "bad input", true));
    const item_copy c = look(t, "a");
    assert_string_equal("failed", c.status);
    assert_string_equal("error", c.kind);
    assert_string_equal("bad input", c.error);
    assert_int_equal(0, c.retry_count);
    assert_status(TIDE_E_LEASE_LOST, fail_it(t, &h, "again", true));
}

static void the_worker_may_say_when_to_retry(void **state)
{
    store_test *t = *state;
    make_task(t, "t");
    add_item(t, "a");
    held h = claim(t, "w");
    assert_ok(tide_work_fail(t->store,
                             &(tide_work_failure){TIDE_WORK_FAILURE_INIT, .work_item_id = h.id,
                                                  .token = h.token, .error = "later",
                                                  .retry_after_us = 90 * SECOND_US},
                             NULL, &t->err));
    assert_true(claim(t, "w").next_due_us == 90 * SECOND_US);
    virtual_env_advance(&t->clock, 90 * SECOND_US);
    h = claim(t, "w");
    assert_ok(tide_work_fail(t->store,
                             &(tide_work_failure){TIDE_WORK_FAILURE_INIT, .work_item_id = h.id,
                                                  .token = h.token, .error = "now"},
                             NULL, &t->err));
    assert_int_equal(3, claim(t, "w").attempt);
}

static void an_item_without_retries_fails_at_once(void **state)
{
    store_test *t = *state;
    make_task(t, "t");
    const tide_work_spec item = {TIDE_WORK_SPEC_INIT, .work_item_id = "a", .task_id = "t",
                                 .work_type = "job"};
    tide_work_added added;
    assert_ok(try_add(t, &item, 1, &added));
    const held h = claim(t, "w");
    assert_ok(fail_it(t, &h, "once", false));
    assert_string_equal("exhausted", look(t, "a").kind);
}

/* What a program says about its end may be long, and not even text. */
static void error_texts_are_cut_and_cleaned(void **state)
{
    store_test *t = *state;
    make_task(t, "t");
    add_item(t, "a");
    add_item(t, "b");
    TIDE_CLEANUP(tide_freep) char *text = malloc(3 * TIDE_WORK_ERROR_MAX);
    assert_non_null(text);
    memset(text, 'x', 3 * TIDE_WORK_ERROR_MAX);
    text[3 * TIDE_WORK_ERROR_MAX - 1] = '\0';
    memcpy(text, "bad \xff\xfe bytes", 12);
    const held a = claim(t, "w");
    assert_ok_err(fail_it(t, &a, text, true), &t->err);
    assert_contains(look(t, "a").error, "bad \xef\xbf\xbd");
    const held b = claim(t, "w");
    assert_ok(fail_it(t, &b, NULL, true));
    assert_contains(look(t, "b").error, "no reason");
}

/* A cancelled item is not claimed; whoever held it is fenced off. */
static void cancelling_ends_an_item_and_fences_its_holder(void **state)
{
    store_test *t = *state;
    make_task(t, "t");
    add_item(t, "held");
    add_new(
        t, (tide_work_spec){TIDE_WORK_SPEC_INIT, .work_item_id = "waiting", .delay_us = MINUTE_US});
    const held h = claim(t, "w");
    assert_ok_err(tide_work_cancel(t->store, "held", "not needed", &t->err), &t->err);
    assert_ok(tide_work_cancel(t->store, "waiting", NULL, &t->err));
    const item_copy c = look(t, "held");
    assert_string_equal("failed", c.status);
    assert_string_equal("cancelled", c.kind);
    assert_string_equal("not needed", c.error);
    assert_true(c.token > h.token);
    assert_string_equal("cancelled", outcomes_of(t, "held"));
    assert_status(TIDE_E_LEASE_LOST, finish(t, &h, "1"));
    assert_ok(tide_work_cancel(t->store, "held", NULL, &t->err));
    assert_true(claim(t, "w").next_due_us == -1);
    assert_status(TIDE_E_NOT_FOUND, tide_work_cancel(t->store, "none", NULL, &t->err));
    add_item(t, "done");
    const held d = claim(t, "w");
    assert_ok(finish(t, &d, NULL));
    assert_status(TIDE_E_CONFLICT, tide_work_cancel(t->store, "done", NULL, &t->err));
}

static void deleting_needs_force_while_it_runs(void **state)
{
    store_test *t = *state;
    make_task(t, "t");
    add_item(t, "a");
    const held h = claim(t, "w");
    const tide_checkpoint_new checkpoint = {TIDE_CHECKPOINT_NEW_INIT, .type = "tool_executed",
                                            .snapshot = tide_view_of("{}")};
    tide_checkpoint_numbers numbers;
    assert_ok(tide_work_checkpoint(t->store, h.id, h.token, &checkpoint, &numbers, &t->err));
    assert_status(TIDE_E_CONFLICT, tide_work_delete(t->store, "a", false, &t->err));
    assert_ok_err(tide_work_delete(t->store, "a", true, &t->err), &t->err);
    assert_false(look(t, "a").is_there);
    assert_string_equal("", outcomes_of(t, "a"));
    assert_status(TIDE_E_NOT_FOUND, finish(t, &h, NULL));
    assert_status(TIDE_E_NOT_FOUND, tide_work_delete(t->store, "a", true, &t->err));
    /* Its checkpoints stay as evidence. */
    assert_int_equal(1, count_checkpoints(t, "t"));
}

static void a_retry_is_a_new_item_like_the_old_one(void **state)
{
    store_test *t = *state;
    make_task(t, "t");
    add_new(t, (tide_work_spec){TIDE_WORK_SPEC_INIT, .work_item_id = "a", .input = "{\"x\":1}",
                                .priority = 4, .max_retries = 7, .timeout_us = MINUTE_US,
                                .unique_key = "k"});
    tide_work_added added;
    assert_status(TIDE_E_CONFLICT, tide_work_retry(t->store, "a", &added, &t->err));
    const held h = claim(t, "w");
    assert_ok(fail_it(t, &h, "no", true));
    assert_ok_err(tide_work_retry(t->store, "a", &added, &t->err), &t->err);
    assert_false(added.is_existing);
    const item_copy c = look(t, added.work_item_id);
    assert_string_equal("a", c.retried_from);
    assert_int_equal(4, c.priority);
    assert_int_equal(7, c.max_retries);
    assert_true(c.timeout_us == MINUTE_US);
    const held again = claim(t, "w");
    assert_string_equal("{\"x\":1}", again.input);
    assert_int_equal(1, again.attempt);
    assert_item(t, "a", "failed");
    assert_status(TIDE_E_NOT_FOUND, tide_work_retry(t->store, "none", &added, &t->err));
    /* Its unique key is taken by the retry. */
    assert_ok(tide_work_retry(t->store, "a", &added, &t->err));
    assert_true(added.is_existing);
}

/* A worker whose answer was lost says it again: the same token, the same words, the same end. */
static void a_failure_that_is_told_twice_is_one_failure(void **state)
{
    store_test *t = *state;
    make_task(t, "t");
    add_item(t, "a");
    const held h = claim(t, "w");
    tide_work_failed first;
    tide_work_failed second;
    assert_ok(tide_work_fail(t->store,
                             &(tide_work_failure){TIDE_WORK_FAILURE_INIT, .work_item_id = h.id,
                                                  .token = h.token, .error = "boom",
                                                  .retry_after_us = -1},
                             &first, &t->err));
    virtual_env_advance(&t->clock, first.retry_after_us / 2);
    assert_ok_err(tide_work_fail(t->store,
                                 &(tide_work_failure){TIDE_WORK_FAILURE_INIT, .work_item_id = h.id,
                                                      .token = h.token, .error = "boom",
                                                      .retry_after_us = -1},
                                 &second, &t->err),
                  &t->err);
    assert_false(second.is_final);
    assert_int_equal(first.retry_after_us - first.retry_after_us / 2, second.retry_after_us);
    assert_int_equal(1, look(t, "a").failure_count);
    assert_string_equal("failed", outcomes_of(t, "a"));
    /* Other words, or another end, are not the same call. */
    assert_status(TIDE_E_LEASE_LOST, fail_it(t, &h, "bang", false));
    assert_status(TIDE_E_LEASE_LOST, fail_it(t, &h, "boom", true));
    /* Also when another has claimed it since. */
    virtual_env_advance(&t->clock, first.retry_after_us);
    const held next = claim(t, "v");
    assert_string_equal("a", next.id);
    assert_ok(tide_work_fail(t->store,
                             &(tide_work_failure){TIDE_WORK_FAILURE_INIT, .work_item_id = h.id,
                                                  .token = h.token, .error = "boom",
                                                  .retry_after_us = -1},
                             &second, &t->err));
    assert_int_equal(0, second.retry_after_us);
    assert_ok_err(fail_it(t, &next, "bad input", true), &t->err);
    assert_ok_err(tide_work_fail(t->store,
                                 &(tide_work_failure){TIDE_WORK_FAILURE_INIT, .work_item_id = h.id,
                                                      .token = next.token, .error = "bad input",
                                                      .is_final = true, .retry_after_us = -1},
                                 &second, &t->err),
                  &t->err);
    assert_true(second.is_final);
    assert_status(TIDE_E_LEASE_LOST, fail_it(t, &next, "bad input", false));
    assert_int_equal(2, look(t, "a").failure_count);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        STORE_CASE(a_failing_item_runs_four_times_with_growing_waits),
        STORE_CASE(a_final_failure_is_not_retried),
        STORE_CASE(the_worker_may_say_when_to_retry),
        STORE_CASE(an_item_without_retries_fails_at_once),
        STORE_CASE(error_texts_are_cut_and_cleaned),
        STORE_CASE(cancelling_ends_an_item_and_fences_its_holder),
        STORE_CASE(deleting_needs_force_while_it_runs),
        STORE_CASE(a_retry_is_a_new_item_like_the_old_one),
        STORE_CASE(a_failure_that_is_told_twice_is_one_failure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
