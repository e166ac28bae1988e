/* Retry policies of types: how often, how soon, and after what not at all. Titles of items. */
#include "work/work_fixture.h"

#include <stdio.h>
#include <string.h>

static void set_policy(store_test *t, tide_work_policy policy)
{
    policy.work_type = "job";
    assert_ok_err(tide_work_policy_set(t->store, &policy, &t->err), &t->err);
}

static void a_policy_gives_new_items_their_retries(void **state)
{
    store_test *t = *state;
    make_task(t, "t");
    add_new(t, (tide_work_spec){TIDE_WORK_SPEC_INIT, .work_item_id = "before", .task_id = "t",
                                .work_type = "job", .max_retries = -1});
    set_policy(t, (tide_work_policy){TIDE_WORK_POLICY_INIT, .max_retries = 7});
    add_new(t, (tide_work_spec){TIDE_WORK_SPEC_INIT, .work_item_id = "a", .task_id = "t",
                                .work_type = "job", .max_retries = -1});
    add_new(t, (tide_work_spec){TIDE_WORK_SPEC_INIT, .work_item_id = "own", .task_id = "t",
                                .work_type = "job", .max_retries = 1});
    add_new(t, (tide_work_spec){TIDE_WORK_SPEC_INIT, .work_item_id = "other", .task_id = "t",
                                .work_type = "else", .max_retries = -1});
    assert_int_equal(3, look(t, "before").max_retries);
    assert_int_equal(7, look(t, "a").max_retries);
    assert_int_equal(1, look(t, "own").max_retries);
    assert_int_equal(3, look(t, "other").max_retries);
}

static void a_policy_sets_the_waits_between_retries(void **state)
{
    store_test *t = *state;
    make_task(t, "t");
    set_policy(t, (tide_work_policy){TIDE_WORK_POLICY_INIT, .max_retries = -1,
                                     .backoff_us = 100 * SECOND_US,
                                     .backoff_max_us = 150 * SECOND_US});
    add_item(t, "a");
    for (int i = 0; i < 2; i++) {
        const held h = claim(t, "w");
        assert_ok(fail_it(t, &h, "boom", false));
        const int64_t wait_us = look(t, "a").run_after_us - t->clock.wall_us;
        assert_in_range(wait_us, 100 * SECOND_US, 150 * SECOND_US);
        virtual_env_advance(&t->clock, 150 * SECOND_US);
        assert_int_equal(1, sweep(t).promoted);
    }
}

static void an_error_that_is_not_retried_ends_the_item(void **state)
{
    store_test *t = *state;
    make_task(t, "t");
    set_policy(t, (tide_work_policy){TIDE_WORK_POLICY_INIT, .max_retries = -1,
                                     .no_retry = TIDE_WORK_NO_RETRY_ERROR});
    add_item(t, "a");
    const held h = claim(t, "w");
    assert_ok(fail_it(t, &h, "boom", false));
    assert_item(t, "a", "failed");
    assert_string_equal("exhausted", look(t, "a").kind);
    assert_string_equal("boom", look(t, "a").error);
    assert_ok(fail_it(t, &h, "boom", false)); /* said again, after a lost answer */
}

static void a_crash_that_is_not_retried_ends_the_item(void **state)
{
    store_test *t = *state;
    make_task(t, "t");
    set_policy(t, (tide_work_policy){TIDE_WORK_POLICY_INIT, .max_retries = -1,
                                     .no_retry = TIDE_WORK_NO_RETRY_CRASH});
    add_item(t, "a");
    (void)claim(t, "w");
    virtual_env_advance(&t->clock, LEASE_US + SECOND_US);
    assert_int_equal(1, sweep(t).failed);
    assert_item(t, "a", "failed");
    assert_string_equal("exhausted", look(t, "a").kind);
    assert_string_equal("Lease expired", look(t, "a").error);
}

static void a_timeout_that_is_not_retried_ends_the_item(void **state)
{
    store_test *t = *state;
    make_task(t, "t");
    set_policy(t, (tide_work_policy){TIDE_WORK_POLICY_INIT, .max_retries = -1,
                                     .no_retry = TIDE_WORK_NO_RETRY_TIMEOUT});
    for (int i = 0; i < 2; i++)
        add_new(t, (tide_work_spec){TIDE_WORK_SPEC_INIT, .work_item_id = i ? "b" : "a",
                                    .task_id = "t", .work_type = "job", .max_retries = -1,
                                    .timeout_us = 10 * SECOND_US});
    (void)claim(t, "w");
    const held h = claim(t, "w");
    const tide_work_failure late = {TIDE_WORK_FAILURE_INIT, .work_item_id = h.id,
                                    .token = h.token,       .error = "late",
                                    .retry_after_us = -1,   .is_timeout = true};
    assert_ok_err(tide_work_fail(t->store, &late, NULL, &t->err), &t->err);
    assert_item(t, "b", "failed");
    virtual_env_advance(&t->clock, 11 * SECOND_US);
    assert_int_equal(1, sweep(t).failed);
    assert_item(t, "a", "failed");
}

static void an_error_is_still_retried_where_only_timeouts_are_not(void **state)
{
    store_test *t = *state;
    make_task(t, "t");
    set_policy(t, (tide_work_policy){TIDE_WORK_POLICY_INIT, .max_retries = -1,
                                     .no_retry = TIDE_WORK_NO_RETRY_TIMEOUT});
    add_item(t, "a");
    const held h = claim(t, "w");
    assert_ok(fail_it(t, &h, "boom", false));
    assert_item(t, "a", "pending");
}

static void a_policy_is_explained_and_can_be_removed(void **state)
{
    store_test *t = *state;
    make_task(t, "t");
    add_item(t, "a");
    char words[512];
    assert_string_equal("ready", reasons_of(t, "a", words));
    set_policy(t, (tide_work_policy){TIDE_WORK_POLICY_INIT, .max_retries = 2,
                                     .no_retry = TIDE_WORK_NO_RETRY_CRASH});
    assert_string_equal("ready policy", reasons_of(t, "a", words));
    assert_non_null(strstr(words, "2 retries"));
    assert_non_null(strstr(words, "none after crash"));
    tide_work_policy found = {TIDE_WORK_POLICY_INIT};
    assert_ok(tide_work_policy_get(t->store, "job", &found, &t->err));
    assert_int_equal(2, found.max_retries);
    set_policy(t, (tide_work_policy){TIDE_WORK_POLICY_INIT, .max_retries = -1});
    assert_status(TIDE_NONE, tide_work_policy_get(t->store, "job", &found, &t->err));
    assert_string_equal("ready", reasons_of(t, "a", words));
}

static void bad_policies_are_refused(void **state)
{
    store_test *t = *state;
    const tide_work_policy bad[] = {
        {TIDE_WORK_POLICY_INIT, .work_type = "", .max_retries = 1},
        {TIDE_WORK_POLICY_INIT, .work_type = "x", .max_retries = INT64_MAX},
        {TIDE_WORK_POLICY_INIT, .work_type = "x", .max_retries = -1, .backoff_us = -1},
        {TIDE_WORK_POLICY_INIT, .work_type = "x", .max_retries = -1, .backoff_us = 2,
         .backoff_max_us = 1},
        {TIDE_WORK_POLICY_INIT, .work_type = "x", .max_retries = -1, .backoff_max_us = 1},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_status(TIDE_E_INVALID, tide_work_policy_set(t->store, &bad[i], &t->err));
    unsigned flag = 0;
    assert_status(TIDE_E_INVALID, tide_work_no_retry_parse(&flag, "boredom", &t->err));
}

/* ---- titles ---- */

static tide_status copy_title(void *arg, const tide_work_item *item, tide_error *err)
{
    (void)err;
    (void)snprintf(arg, 64, "%s", item->title ? item->title : "-");
    return TIDE_OK;
}

static void a_title_stays_with_its_item_and_its_retry(void **state)
{
    store_test *t = *state;
    char title[64];
    make_task(t, "t");
    add_item(t, "plain");
    add_new(t, (tide_work_spec){TIDE_WORK_SPEC_INIT, .work_item_id = "a", .task_id = "t",
                                .work_type = "else", .title = "Bill of M\xc3\xa4rz"});
    assert_ok(tide_work_find(t->store, "plain", copy_title, title, &t->err));
    assert_string_equal("-", title);
    assert_ok(tide_work_find(t->store, "a", copy_title, title, &t->err));
    assert_string_equal("Bill of M\xc3\xa4rz", title);
    assert_ok(tide_work_cancel(t->store, "a", NULL, &t->err));
    tide_work_added added;
    assert_ok_err(tide_work_retry(t->store, "a", &added, &t->err), &t->err);
    assert_ok(tide_work_find(t->store, added.work_item_id, copy_title, title, &t->err));
    assert_string_equal("Bill of M\xc3\xa4rz", title);
    const tide_work_spec bad = {TIDE_WORK_SPEC_INIT, .task_id = "t", .work_type = "x",
                                .title = "two\nlines"};
    assert_status(TIDE_E_INVALID, try_add(t, &bad, 1, &added));
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        STORE_CASE(a_policy_gives_new_items_their_retries),
        STORE_CASE(a_policy_sets_the_waits_between_retries),
        STORE_CASE(an_error_that_is_not_retried_ends_the_item),
        STORE_CASE(a_crash_that_is_not_retried_ends_the_item),
        STORE_CASE(a_timeout_that_is_not_retried_ends_the_item),
        STORE_CASE(an_error_is_still_retried_where_only_timeouts_are_not),
        STORE_CASE(a_policy_is_explained_and_can_be_removed),
        STORE_CASE(bad_policies_are_refused),
        STORE_CASE(a_title_stays_with_its_item_and_its_retry),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
