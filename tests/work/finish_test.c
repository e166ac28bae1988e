/* Finishing: one commit of everything, or nothing; repeated calls; many at once. */
#include "work/work_fixture.h"

#include <stdio.h>
#include <string.h>

static const char *const job[] = {"job"};

static tide_status begin_key(store_test *t, const char *key, tide_idempotency_state *state)
{
    const tide_idempotency_request request = {TIDE_IDEMPOTENCY_REQUEST_INIT, .key = key,
                                              .request_hash = "sha256:x", .task_id = "t"};
    return tide_idempotency_begin(t->store, &request, state, &t->err);
}

static void finishing_ends_the_item_and_its_attempt(void **state)
{
    store_test *t = *state;
    make_task(t, "t");
    add_item(t, "a");
    const held h = claim(t, "w");
    virtual_env_advance(&t->clock, SECOND_US);
    assert_ok_err(finish(t, &h, "{\"files\": 42}"), &t->err);
    const item_copy c = look(t, "a");
    assert_string_equal("completed", c.status);
    assert_string_equal("{\"files\": 42}", c.output);
    assert_string_equal("", c.holder);
    assert_true(c.expires_at_us == 0);
    assert_true(c.completed_at_us == VIRTUAL_ENV_WALL_US + SECOND_US);
    assert_string_equal("completed", outcomes_of(t, "a"));
    assert_string_equal("ended", reasons_of(t, "a", NULL));
}

/* Token, output, last checkpoint, idempotent response, follow-up items: one commit. */
static void finish_does_everything_at_once(void **state)
{
    store_test *t = *state;
    tide_idempotency_state key = {0};
    make_task(t, "t");
    add_item(t, "a");
    const held h = claim(t, "w");
    assert_ok_err(begin_key(t, "work-a", &key), &t->err);
    const tide_checkpoint_new checkpoint = {TIDE_CHECKPOINT_NEW_INIT, .type = "tool_executed",
                                            .snapshot = tide_view_of("{\"done\":true}")};
    const tide_work_spec next[] = {
        {TIDE_WORK_SPEC_INIT, .work_item_id = "next", .work_type = "job", .max_retries = -1},
        {TIDE_WORK_SPEC_INIT, .work_item_id = "other", .task_id = "t", .work_type = "later",
         .max_retries = -1}};
    tide_work_result result = {TIDE_WORK_RESULT_INIT,
                               .work_item_id = "a",
                               .token = h.token,
                               .output = "1",
                               .checkpoint = &checkpoint,
                               .idempotency_name = "work-a",
                               .idempotency_token = key.token,
                               .response = tide_view_of("\"answer\""),
                               .follow_ups = next,
                               .follow_up_count = 2};
    assert_ok_err(tide_work_finish(t->store, &result, &t->err), &t->err);
    assert_int_equal(1, result.numbers.sequence_number);
    assert_int_equal(1, count_checkpoints(t, "t"));
    assert_item(t, "next", "pending");
    assert_item(t, "other", "pending");
    tide_idempotency_state again = {0};
    assert_ok(begin_key(t, "work-a", &again));
    assert_int_equal(TIDE_IDEMPOTENCY_REPLAY, again.outcome);
    assert_string_equal("\"answer\"", again.response);
    tide_idempotency_state_done(&again);

    /* The caller never learnt the outcome and calls again: the same answer, and nothing is done twice. */
    const tide_checkpoint_numbers first = result.numbers;
    assert_ok_err(tide_work_finish(t->store, &result, &t->err), &t->err);
    assert_false(result.is_lost);
    assert_string_equal(first.checkpoint_id, result.numbers.checkpoint_id);
    assert_true(result.numbers.is_existing);
    assert_int_equal(1, count_checkpoints(t, "t"));
    tide_idempotency_state_done(&key);
}

/* Whatever part is refused, nothing of it happens. */
static void one_refused_part_undoes_all(void **state)
{
    store_test *t = *state;
    make_task(t, "t");
    add_item(t, "a");
    const held h = claim(t, "w");
    const tide_checkpoint_new good = {TIDE_CHECKPOINT_NEW_INIT, .type = "tool_executed",
                                      .snapshot = tide_view_of("{}")};
    const tide_checkpoint_new bad_type = {TIDE_CHECKPOINT_NEW_INIT, .type = "no such type",
                                          .snapshot = tide_view_of("{}")};
    const tide_work_spec next = {TIDE_WORK_SPEC_INIT, .work_item_id = "next", .work_type = "job",
                                 .max_retries = -1};
    const tide_work_spec lost = {TIDE_WORK_SPEC_INIT, .task_id = "missing", .work_type = "job"};
    const tide_work_result whole = {TIDE_WORK_RESULT_INIT, .work_item_id = "a",
                                    .token = h.token,      .checkpoint = &good,
                                    .follow_ups = &next,   .follow_up_count = 1};
    tide_work_result bad[4] = {whole, whole, whole, whole};
    const tide_status expected[4] = {TIDE_E_INVALID, TIDE_E_NOT_FOUND, TIDE_E_LEASE_LOST,
                                     TIDE_E_LEASE_LOST};
    bad[0].checkpoint = &bad_type;
    bad[1].follow_ups = &lost;
    bad[2].idempotency_name = "no-such-key";
    bad[2].idempotency_token = 1;
    bad[3].token++;
    for (int i = 0; i < 4; i++) {
        const tide_status status = tide_work_finish(t->store, &bad[i], &t->err);
        if (i == 2)
            assert_true(status < TIDE_OK);
        else
            assert_status_err(expected[i], status, &t->err);
        assert_item(t, "a", "in_progress");
        assert_false(look(t, "next").is_there);
        assert_int_equal(0, count_checkpoints(t, "t"));
    }
    tide_work_result right = whole;
    assert_ok_err(tide_work_finish(t->store, &right, &t->err), &t->err);
    assert_item(t, "next", "pending");
}

static void a_repeated_finish_with_another_output_is_a_loss(void **state)
{
    store_test *t = *state;
    make_task(t, "t");
    add_item(t, "a");
    const held h = claim(t, "w");
    assert_ok(finish(t, &h, "{\"n\": 1}"));
    assert_ok(finish(t, &h, "{\"n\": 1}"));
    assert_status(TIDE_E_LEASE_LOST, finish(t, &h, "{\"n\": 2}"));
    assert_status(TIDE_E_LEASE_LOST, finish(t, &h, NULL));
    held other = h;
    other.token++;
    assert_status(TIDE_E_LEASE_LOST, finish(t, &other, "{\"n\": 1}"));
    assert_string_equal("{\"n\": 1}", look(t, "a").output);
}

/* A job that schedules itself anew under its own unique key. */
static void a_follow_up_may_take_over_the_unique_key(void **state)
{
    store_test *t = *state;
    make_task(t, "t");
    add_new(t, (tide_work_spec){TIDE_WORK_SPEC_INIT, .work_item_id = "a", .unique_key = "self"});
    const held h = claim(t, "w");
    const char *const on_a[] = {"a"};
    const tide_work_spec next = {TIDE_WORK_SPEC_INIT,  .work_item_id = "b", .work_type = "job",
                                 .unique_key = "self", .max_retries = -1,   .depends_on = on_a,
                                 .depends_on_count = 1};
    tide_work_result result = {TIDE_WORK_RESULT_INIT, .work_item_id = "a", .token = h.token,
                               .follow_ups = &next, .follow_up_count = 1};
    assert_ok_err(tide_work_finish(t->store, &result, &t->err), &t->err);
    assert_string_equal("b", claim(t, "w").id);
}

static void many_are_finished_in_one_commit(void **state)
{
    store_test *t = *state;
    make_task(t, "t");
    tide_work_spec items[5];
    tide_work_added added[5];
    char ids[5][4];
    for (int i = 0; i < 5; i++) {
        (void)snprintf(ids[i], sizeof ids[i], "i%d", i);
        items[i] = (tide_work_spec){TIDE_WORK_SPEC_INIT, .work_item_id = ids[i], .task_id = "t",
                                    .work_type = "job", .max_retries = -1};
    }
    assert_ok(try_add(t, items, 5, added));
    tide_work_claims claims;
    const tide_work_claim_request request = {TIDE_WORK_CLAIM_REQUEST_INIT, .worker = "w",
                                             .types = job, .type_count = 1, .limit = 5};
    assert_ok(tide_work_claim(t->store, &request, &claims, &t->err));
    tide_work_result results[5];
    for (int i = 0; i < 5; i++)
        results[i] = (tide_work_result){
            TIDE_WORK_RESULT_INIT, .work_item_id = claims.items[4 - i].work_item_id,
            .token = claims.items[4 - i].lease_token, .output = i % 2 ? "\"odd \\u00e4\"" : NULL};
    results[2].token--;
    assert_status_err(TIDE_E_PARTIAL, tide_work_finish_many(t->store, results, 5, &t->err),
                      &t->err);
    for (int i = 0; i < 5; i++)
        assert_true(results[i].is_lost == (i == 2));
    assert_item(t, "i2", "in_progress");
    assert_string_equal("\"odd \\u00e4\"", look(t, "i1").output);
    assert_string_equal("", look(t, "i0").output);
    assert_string_equal("completed", outcomes_of(t, "i4"));
    results[2].token++;
    assert_ok_err(tide_work_finish_many(t->store, results, 5, &t->err), &t->err);
    assert_item(t, "i2", "completed");
    tide_work_claims_done(&claims);
}

static void bad_results_are_refused(void **state)
{
    store_test *t = *state;
    make_task(t, "t");
    add_item(t, "a");
    const held h = claim(t, "w");
    assert_status(TIDE_E_INVALID, finish(t, &h, "not json"));
    assert_status(TIDE_E_INVALID, finish(t, &h, "\"\xc3\""));
    tide_work_result twice[2] = {{TIDE_WORK_RESULT_INIT, .work_item_id = "a", .token = h.token},
                                 {TIDE_WORK_RESULT_INIT, .work_item_id = "a", .token = h.token}};
    assert_status(TIDE_E_INVALID, tide_work_finish_many(t->store, twice, 2, &t->err));
    const tide_checkpoint_new checkpoint = {TIDE_CHECKPOINT_NEW_INIT, .type = "tool_executed",
                                            .snapshot = tide_view_of("{}")};
    twice[0].checkpoint = &checkpoint;
    assert_status(TIDE_E_INVALID, tide_work_finish_many(t->store, twice, 1, &t->err));
    assert_status(TIDE_E_INVALID, tide_work_finish_many(t->store, twice, 0, &t->err));
    assert_item(t, "a", "in_progress");
}

/* Two workers that append to one task get distinct, rising numbers. */
static void checkpoints_of_one_task_are_numbered_without_gaps(void **state)
{
    store_test *t = *state;
    make_task(t, "t");
    int64_t last = 0;
    for (int i = 0; i < 4; i++) {
        char id[4];
        (void)snprintf(id, sizeof id, "i%d", i);
        add_item(t, id);
        const held h = claim(t, "w");
        const tide_checkpoint_new checkpoint = {TIDE_CHECKPOINT_NEW_INIT, .type = "iteration_end",
                                                .snapshot = tide_view_of("{}")};
        tide_work_result result = {TIDE_WORK_RESULT_INIT, .work_item_id = h.id, .token = h.token,
                                   .checkpoint = &checkpoint};
        assert_ok_err(tide_work_finish(t->store, &result, &t->err), &t->err);
        assert_int_equal(last + 1, result.numbers.sequence_number);
        last = result.numbers.sequence_number;
    }
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        STORE_CASE(finishing_ends_the_item_and_its_attempt),
        STORE_CASE(finish_does_everything_at_once),
        STORE_CASE(one_refused_part_undoes_all),
        STORE_CASE(a_repeated_finish_with_another_output_is_a_loss),
        STORE_CASE(a_follow_up_may_take_over_the_unique_key),
        STORE_CASE(many_are_finished_in_one_commit),
        STORE_CASE(bad_results_are_refused),
        STORE_CASE(checkpoints_of_one_task_are_numbered_without_gaps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
