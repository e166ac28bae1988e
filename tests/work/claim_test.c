/* Claims: who gets what, in which order, and who gets nothing. */
#include "work/work_fixture.h"

#include <stdio.h>
#include <string.h>

static const char *const job[] = {"job"};
static const tide_work_claim_request all_jobs = {TIDE_WORK_CLAIM_REQUEST_INIT, .types = job,
                                                 .type_count = 1, .limit = 100};

/* Items younger than ten minutes: strictly by priority, then by age. */
static void higher_priority_comes_first_then_the_older_one(void **state)
{
    store_test *t = *state;
    make_task(t, "t");
    add_new(t, (tide_work_spec){TIDE_WORK_SPEC_INIT, .work_item_id = "low", .priority = -1});
    add_new(t, (tide_work_spec){TIDE_WORK_SPEC_INIT, .work_item_id = "old"});
    virtual_env_advance(&t->clock, SECOND_US);
    add_new(t, (tide_work_spec){TIDE_WORK_SPEC_INIT, .work_item_id = "new"});
    add_new(t, (tide_work_spec){TIDE_WORK_SPEC_INIT, .work_item_id = "high", .priority = 5});
    assert_string_equal("high old new low", claim_ids(t->store, all_jobs));
}

/* Age raises: ten minutes weigh as much as one step of priority. */
static void a_low_priority_does_not_starve(void **state)
{
    store_test *t = *state;
    make_task(t, "t");
    add_new(t, (tide_work_spec){TIDE_WORK_SPEC_INIT, .work_item_id = "low", .priority = 0});
    virtual_env_advance(&t->clock, 10 * MINUTE_US - SECOND_US);
    add_new(t, (tide_work_spec){TIDE_WORK_SPEC_INIT, .work_item_id = "high", .priority = 1});
    assert_string_equal(
        "high", claim_ids(t->store, (tide_work_claim_request){TIDE_WORK_CLAIM_REQUEST_INIT,
                                                              .types = job, .type_count = 1}));
    virtual_env_advance(&t->clock, 2 * SECOND_US);
    add_new(t, (tide_work_spec){TIDE_WORK_SPEC_INIT, .work_item_id = "high-2", .priority = 1});
    assert_string_equal("low high-2", claim_ids(t->store, all_jobs));
}

static void a_batch_is_claimed_in_the_order_it_was_given(void **state)
{
    store_test *t = *state;
    make_task(t, "t");
    tide_work_spec items[40];
    tide_work_added added[40];
    char ids[40][8];
    char expected[400] = "";
    for (int i = 0; i < 40; i++) {
        (void)snprintf(ids[i], sizeof ids[i], "i%02d", (i * 7) % 40);
        items[i] = (tide_work_spec){TIDE_WORK_SPEC_INIT, .work_item_id = ids[i], .task_id = "t",
                                    .work_type = "job", .max_retries = -1};
        const size_t len = strlen(expected);
        (void)snprintf(expected + len, sizeof expected - len, "%s%s", i ? " " : "", ids[i]);
    }
    assert_ok_err(try_add(t, items, 40, added), &t->err);
    assert_string_equal(expected, claim_ids(t->store, all_jobs));
}

static void a_claim_takes_at_most_its_limit_and_only_once(void **state)
{
    store_test *t = *state;
    make_task(t, "t");
    for (int i = 0; i < 5; i++) {
        char id[8];
        (void)snprintf(id, sizeof id, "i%d", i);
        add_item(t, id);
        virtual_env_advance(&t->clock, 1);
    }
    const tide_work_claim_request two = {TIDE_WORK_CLAIM_REQUEST_INIT, .types = job,
                                         .type_count = 1, .limit = 2};
    assert_string_equal("i0 i1", claim_ids(t->store, two));
    assert_string_equal("i2 i3", claim_ids(t->store, two));
    assert_string_equal("i4", claim_ids(t->store, two));
    assert_string_equal("", claim_ids(t->store, two));
}

static void a_claim_hands_over_what_is_needed(void **state)
{
    store_test *t = *state;
    make_task(t, "t");
    add_new(t, (tide_work_spec){TIDE_WORK_SPEC_INIT, .work_item_id = "a",
                                .input = "{\"x\": \"\xc3\xa4\"}", .priority = 3});
    const char *const types[] = {"job"};
    const tide_work_claim_request request = {TIDE_WORK_CLAIM_REQUEST_INIT, .worker = "w1",
                                             .types = types, .type_count = 1,
                                             .lease_us = 10 * SECOND_US};
    tide_work_claims claims;
    assert_ok_err(tide_work_claim(t->store, &request, &claims, &t->err), &t->err);
    assert_int_equal(1, claims.count);
    const tide_work_claimed *item = &claims.items[0];
    assert_string_equal("a", item->work_item_id);
    assert_string_equal("t", item->task_id);
    assert_string_equal("job", item->work_type);
    assert_string_equal("{\"x\": \"\xc3\xa4\"}", item->input);
    assert_string_equal("w1", item->worker);
    assert_int_equal(1, item->attempt);
    assert_int_equal(3, item->max_retries);
    assert_int_equal(3, item->priority);
    assert_true(item->lease_us == 10 * SECOND_US);
    assert_true(item->lease_expires_at_us == VIRTUAL_ENV_WALL_US + 10 * SECOND_US);
    assert_true(item->deadline_at_us == 0);
    assert_true(item->lease_token >> TIDE_EPOCH_TOKEN_BITS >= 1);
    tide_work_claims_done(&claims);
    const item_copy c = look(t, "a");
    assert_string_equal("in_progress", c.status);
    assert_string_equal("w1", c.holder);
    assert_string_equal("api", c.via);
    assert_true(c.started_at_us == VIRTUAL_ENV_WALL_US);
}

static void claims_by_several_types_merge_their_order(void **state)
{
    store_test *t = *state;
    make_task(t, "t");
    const char *const order[] = {"a", "b", "c", "a", "b", "c"};
    for (int i = 0; i < 6; i++) {
        char id[8];
        (void)snprintf(id, sizeof id, "%s%d", order[i], i);
        add_new(t,
                (tide_work_spec){TIDE_WORK_SPEC_INIT, .work_item_id = id, .work_type = order[i]});
        virtual_env_advance(&t->clock, 1);
    }
    const char *const ab[] = {"a", "b"};
    assert_string_equal(
        "a0 b1 a3",
        claim_ids(t->store, (tide_work_claim_request){TIDE_WORK_CLAIM_REQUEST_INIT, .types = ab,
                                                      .type_count = 2, .limit = 3}));
    assert_string_equal(
        "c2 b4 c5",
        claim_ids(t->store, (tide_work_claim_request){TIDE_WORK_CLAIM_REQUEST_INIT, .limit = 10}));
}

static void a_claim_by_task_keeps_to_it(void **state)
{
    store_test *t = *state;
    make_task(t, "t");
    make_task(t, "u");
    add_new(t, (tide_work_spec){TIDE_WORK_SPEC_INIT, .work_item_id = "t1"});
    add_new(t, (tide_work_spec){TIDE_WORK_SPEC_INIT, .work_item_id = "u1", .task_id = "u"});
    add_new(t, (tide_work_spec){TIDE_WORK_SPEC_INIT, .work_item_id = "u2", .task_id = "u",
                                .work_type = "other"});
    assert_string_equal("u1", claim_ids(t->store, (tide_work_claim_request){
                                                      TIDE_WORK_CLAIM_REQUEST_INIT, .task_id = "u",
                                                      .types = job, .type_count = 1, .limit = 9}));
    assert_string_equal("u2",
                        claim_ids(t->store, (tide_work_claim_request){TIDE_WORK_CLAIM_REQUEST_INIT,
                                                                      .task_id = "u", .limit = 9}));
    assert_string_equal("",
                        claim_ids(t->store, (tide_work_claim_request){TIDE_WORK_CLAIM_REQUEST_INIT,
                                                                      .task_id = "u", .limit = 9}));
}

/* A paused type is not claimed, in any of the three ways; resumed, it is. */
static void a_paused_type_is_not_claimed(void **state)
{
    store_test *t = *state;
    const char *const two[] = {"job", "other"};
    const tide_work_claim_request requests[] = {
        {TIDE_WORK_CLAIM_REQUEST_INIT, .types = job, .type_count = 1},
        {TIDE_WORK_CLAIM_REQUEST_INIT, .types = two, .type_count = 2},
        {TIDE_WORK_CLAIM_REQUEST_INIT, .limit = 5},
        {TIDE_WORK_CLAIM_REQUEST_INIT, .task_id = "t"},
    };
    make_task(t, "t");
    add_item(t, "a");
    assert_ok_err(tide_work_pause(t->store, "job", "maintenance", &t->err), &t->err);
    for (size_t i = 0; i < sizeof requests / sizeof requests[0]; i++)
        assert_string_equal("", claim_ids(t->store, requests[i]));
    char words[512];
    assert_string_equal("paused", reasons_of(t, "a", words));
    assert_contains(words, "maintenance");
    assert_ok(tide_work_resume(t->store, "job", &t->err));
    assert_string_equal("a", claim_ids(t->store, requests[0]));
}

/* Items of a task that has ended are not claimed, not even when plain SQL ended it: they end with it. */
static void items_of_an_ended_task_are_not_claimed(void **state)
{
    store_test *t = *state;
    make_task(t, "t");
    make_task(t, "u");
    add_item(t, "a");
    add_new(t, (tide_work_spec){TIDE_WORK_SPEC_INIT, .work_item_id = "b", .task_id = "u"});
    run_sql(t, "UPDATE tasks SET status = 'succeeded' WHERE task_id = 't'");
    assert_string_equal("b", claim_ids(t->store, all_jobs));
    assert_string_equal("", claim_ids(t->store, (tide_work_claim_request){
                                                    TIDE_WORK_CLAIM_REQUEST_INIT, .limit = 5}));
    assert_string_equal("", claim_ids(t->store, (tide_work_claim_request){
                                                    TIDE_WORK_CLAIM_REQUEST_INIT, .task_id = "t"}));
    assert_string_equal("ended", reasons_of(t, "a", NULL));
}

static tide_status copy_status(void *arg, const tide_task *task, tide_error *err)
{
    (void)err;
    (void)snprintf(arg, 16, "%s", task->status);
    return TIDE_OK;
}

static void the_first_claim_starts_the_task(void **state)
{
    store_test *t = *state;
    char status[16];
    make_task(t, "t");
    add_item(t, "a");
    assert_ok(tide_task_find(t->store, "t", copy_status, status, &t->err));
    assert_string_equal("pending", status);
    (void)claim(t, "w");
    assert_ok(tide_task_find(t->store, "t", copy_status, status, &t->err));
    assert_string_equal("running", status);
}

static void a_delayed_item_waits_for_its_time_and_then_comes_in_order(void **state)
{
    store_test *t = *state;
    make_task(t, "t");
    add_new(t, (tide_work_spec){TIDE_WORK_SPEC_INIT, .work_item_id = "late", .priority = 9,
                                .delay_us = 10 * SECOND_US});
    add_new(t, (tide_work_spec){TIDE_WORK_SPEC_INIT, .work_item_id = "at",
                                .run_after_us = VIRTUAL_ENV_WALL_US + 20 * SECOND_US});
    add_new(t, (tide_work_spec){TIDE_WORK_SPEC_INIT, .work_item_id = "past",
                                .run_after_us = VIRTUAL_ENV_WALL_US - 20 * SECOND_US});
    assert_string_equal("past", claim_ids(t->store, all_jobs));
    const held nothing = claim(t, "w");
    assert_true(nothing.token == 0);
    assert_true(nothing.next_due_us == 10 * SECOND_US);
    assert_string_equal("delayed", reasons_of(t, "late", NULL));
    add_item(t, "plain");
    virtual_env_advance(&t->clock, 10 * SECOND_US);
    assert_string_equal("late plain", claim_ids(t->store, all_jobs));
    assert_true(claim(t, "w").next_due_us == 10 * SECOND_US);
    virtual_env_advance(&t->clock, 10 * SECOND_US);
    assert_string_equal("at", claim_ids(t->store, all_jobs));
    assert_true(claim(t, "w").next_due_us == -1);
}

/* How long to sleep depends on what this claim could take, not on others' items. */
static void the_next_due_time_is_that_of_ones_own_items(void **state)
{
    store_test *t = *state;
    make_task(t, "t");
    make_task(t, "u");
    add_new(t, (tide_work_spec){TIDE_WORK_SPEC_INIT, .work_item_id = "o", .work_type = "other",
                                .delay_us = SECOND_US});
    assert_true(claim(t, "w").next_due_us == -1);
    add_new(t, (tide_work_spec){TIDE_WORK_SPEC_INIT, .work_item_id = "u", .task_id = "u",
                                .delay_us = 20 * SECOND_US});
    assert_true(claim(t, "w").next_due_us == 20 * SECOND_US);
    assert_true(
        claim_with(t->store, (tide_work_claim_request){TIDE_WORK_CLAIM_REQUEST_INIT, .limit = 1})
            .next_due_us == SECOND_US);
    assert_true(claim_with(t->store,
                           (tide_work_claim_request){TIDE_WORK_CLAIM_REQUEST_INIT, .task_id = "t"})
                    .next_due_us == SECOND_US);
    assert_true(claim_with(t->store,
                           (tide_work_claim_request){TIDE_WORK_CLAIM_REQUEST_INIT, .task_id = "u"})
                    .next_due_us == 20 * SECOND_US);
    assert_ok(tide_work_pause(t->store, "other", NULL, &t->err));
    assert_true(claim_with(t->store,
                           (tide_work_claim_request){TIDE_WORK_CLAIM_REQUEST_INIT, .task_id = "t"})
                    .next_due_us == -1);
    assert_ok(tide_task_cancel(t->store, "u", &t->err));
    assert_true(claim(t, "w").next_due_us == -1);
}

/* What is due is let run whoever asks: also when it is of another type. */
static void due_items_of_other_types_are_promoted_too(void **state)
{
    store_test *t = *state;
    make_task(t, "t");
    add_new(t, (tide_work_spec){TIDE_WORK_SPEC_INIT, .work_item_id = "o", .work_type = "other",
                                .delay_us = SECOND_US});
    virtual_env_advance(&t->clock, SECOND_US);
    assert_true(claim(t, "w").token == 0);
    assert_true(look(t, "o").run_after_us == 0);
    assert_string_equal("o", claim_ids(t->store, (tide_work_claim_request){
                                                     TIDE_WORK_CLAIM_REQUEST_INIT, .limit = 1}));
}

/* The lease does not outlast the time that one attempt may take. */
static void a_timeout_shortens_the_lease(void **state)
{
    store_test *t = *state;
    make_task(t, "t");
    add_new(t, (tide_work_spec){TIDE_WORK_SPEC_INIT, .work_item_id = "short",
                                .timeout_us = 5 * SECOND_US + 7});
    add_new(t, (tide_work_spec){TIDE_WORK_SPEC_INIT, .work_item_id = "long",
                                .timeout_us = 60 * SECOND_US});
    const held a = claim(t, "w");
    assert_string_equal("short", a.id);
    assert_true(a.lease_us == 5 * SECOND_US + 7);
    assert_true(a.deadline_at_us == VIRTUAL_ENV_WALL_US + 5 * SECOND_US + 7);
    const held b = claim(t, "w");
    assert_true(b.lease_us == LEASE_US);
    assert_true(b.deadline_at_us == VIRTUAL_ENV_WALL_US + 60 * SECOND_US);
    tide_work_ref ref = {TIDE_WORK_REF_INIT, .work_item_id = b.id, .token = b.token};
    for (int i = 0; i < 2; i++) {
        virtual_env_advance(&t->clock, 20 * SECOND_US);
        assert_ok_err(tide_work_renew(t->store, &ref, 1, LEASE_US, &t->err), &t->err);
    }
    assert_true(look(t, "long").expires_at_us == VIRTUAL_ENV_WALL_US + 60 * SECOND_US);
    virtual_env_advance(&t->clock, 20 * SECOND_US);
    assert_status(TIDE_E_LEASE_LOST, tide_work_renew(t->store, &ref, 1, LEASE_US, &t->err));
}

static void a_claim_in_vain_changes_nothing(void **state)
{
    store_test *t = *state;
    make_task(t, "t");
    add_new(t, (tide_work_spec){TIDE_WORK_SPEC_INIT, .work_item_id = "a", .delay_us = MINUTE_US});
    const int64_t revision = look(t, "a").revision;
    assert_true(claim(t, "w").token == 0);
    assert_string_equal("", claim_ids(t->store, (tide_work_claim_request){
                                                    TIDE_WORK_CLAIM_REQUEST_INIT, .limit = 5}));
    assert_string_equal("", claim_ids(t->store, (tide_work_claim_request){
                                                    TIDE_WORK_CLAIM_REQUEST_INIT, .task_id = "t"}));
    assert_string_equal(
        "", claim_ids(t->store,
                      (tide_work_claim_request){TIDE_WORK_CLAIM_REQUEST_INIT, .task_id = "none"}));
    assert_true(look(t, "a").revision == revision);
}

static void bad_requests_are_refused(void **state)
{
    store_test *t = *state;
    const char *const bad_type[] = {""};
    const char *const not_text[] = {"\xff\xfe"};
    const tide_work_claim_request bad[] = {
        {TIDE_WORK_CLAIM_REQUEST_INIT, .worker = NULL},
        {TIDE_WORK_CLAIM_REQUEST_INIT, .worker = ""},
        {TIDE_WORK_CLAIM_REQUEST_INIT, .worker = "a\nb"},
        {TIDE_WORK_CLAIM_REQUEST_INIT, .worker = "w", .limit = -1},
        {TIDE_WORK_CLAIM_REQUEST_INIT, .worker = "w", .limit = TIDE_WORK_BATCH_MAX + 1},
        {TIDE_WORK_CLAIM_REQUEST_INIT, .worker = "w", .lease_us = 1},
        {TIDE_WORK_CLAIM_REQUEST_INIT, .worker = "w", .lease_us = -SECOND_US},
        {TIDE_WORK_CLAIM_REQUEST_INIT, .worker = "w", .types = bad_type, .type_count = 1},
        {TIDE_WORK_CLAIM_REQUEST_INIT, .worker = "w", .types = not_text, .type_count = 1},
        {TIDE_WORK_CLAIM_REQUEST_INIT, .worker = "w", .type_count = TIDE_WORK_TYPES_MAX + 1},
        {TIDE_WORK_CLAIM_REQUEST_INIT, .worker = "w", .task_id = ""},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        tide_work_claims claims;
        assert_status(TIDE_E_INVALID, tide_work_claim(t->store, &bad[i], &claims, &t->err));
        tide_work_claims_done(&claims);
    }
}

/* DESIGN Leases: tokens rise with every claim, over all items and epochs of an item's life. */
static void tokens_rise_with_every_claim(void **state)
{
    store_test *t = *state;
    make_task(t, "t");
    add_item(t, "a");
    int64_t last = 0;
    for (int i = 0; i < 4; i++) {
        const held h = claim(t, "w");
        assert_true(h.token > last);
        last = h.token;
        assert_ok_err(tide_work_release(t->store, h.id, h.token, 0, &t->err), &t->err);
    }
    assert_string_equal("released released released released", outcomes_of(t, "a"));
    assert_int_equal(1, claim(t, "w").attempt);
}

/* An item that is deleted and comes again under its id must not give out a token twice. */
static void an_id_that_comes_again_does_not_repeat_tokens(void **state)
{
    store_test *t = *state;
    make_task(t, "t");
    add_item(t, "a");
    const held stalled = claim(t, "w");
    assert_ok_err(tide_work_delete(t->store, "a", true, &t->err), &t->err);
    add_item(t, "a");
    const held h = claim(t, "w");
    assert_true(h.token > stalled.token);
    assert_status(TIDE_E_LEASE_LOST, finish(t, &stalled, "\"late\""));
    assert_ok(finish(t, &h, "\"right\""));
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        STORE_CASE(higher_priority_comes_first_then_the_older_one),
        STORE_CASE(a_low_priority_does_not_starve),
        STORE_CASE(a_batch_is_claimed_in_the_order_it_was_given),
        STORE_CASE(a_claim_takes_at_most_its_limit_and_only_once),
        STORE_CASE(a_claim_hands_over_what_is_needed),
        STORE_CASE(claims_by_several_types_merge_their_order),
        STORE_CASE(a_claim_by_task_keeps_to_it),
        STORE_CASE(a_paused_type_is_not_claimed),
        STORE_CASE(items_of_an_ended_task_are_not_claimed),
        STORE_CASE(the_first_claim_starts_the_task),
        STORE_CASE(a_delayed_item_waits_for_its_time_and_then_comes_in_order),
        STORE_CASE(the_next_due_time_is_that_of_ones_own_items),
        STORE_CASE(due_items_of_other_types_are_promoted_too),
        STORE_CASE(a_timeout_shortens_the_lease),
        STORE_CASE(a_claim_in_vain_changes_nothing),
        STORE_CASE(bad_requests_are_refused),
        STORE_CASE(tokens_rise_with_every_claim),
        STORE_CASE(an_id_that_comes_again_does_not_repeat_tokens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
