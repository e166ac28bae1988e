/* The end of an attempt frees the idempotency keys that it began. */
#include "work/work_fixture.h"

#include "work/turn/turn.h"

static tide_idempotency_outcome begin(store_test *t, tide_idempotency_policy policy)
{
    const tide_idempotency_request request = {TIDE_IDEMPOTENCY_REQUEST_INIT, .key = "charge",
                                              .request_hash = "sha256:x",    .work_item_id = "a",
                                              .lock_us = 3600 * SECOND_US,   .policy = policy};
    tide_idempotency_state state = {0};
    assert_ok_err(tide_idempotency_begin(t->store, &request, &state, &t->err), &t->err);
    const tide_idempotency_outcome outcome = state.outcome;
    tide_idempotency_state_done(&state);
    return outcome;
}

/* An attempt that has begun its key. */
static held begin_attempt(store_test *t)
{
    make_task(t, "t");
    add_item(t, "a");
    const held h = claim(t, "w");
    assert_int_equal(TIDE_IDEMPOTENCY_NEW, begin(t, TIDE_IDEMPOTENCY_RERUN));
    assert_int_equal(TIDE_IDEMPOTENCY_IN_PROGRESS, begin(t, TIDE_IDEMPOTENCY_RERUN));
    return h;
}

static void a_failed_attempt_gives_its_key_back(void **state)
{
    store_test *t = *state;
    const held h = begin_attempt(t);
    assert_ok(fail_it(t, &h, "boom", false));
    assert_int_equal(TIDE_IDEMPOTENCY_NEW, begin(t, TIDE_IDEMPOTENCY_RERUN));
}

static void a_released_item_gives_its_key_back(void **state)
{
    store_test *t = *state;
    const held h = begin_attempt(t);
    assert_ok(tide_work_release(t->store, h.id, h.token, 0, &t->err));
    assert_int_equal(TIDE_IDEMPOTENCY_NEW, begin(t, TIDE_IDEMPOTENCY_RERUN));
}

/* What a crashed worker did is unknown: the next attempt takes the key over, as its policy says. */
static void the_end_of_a_lease_ends_the_lock_of_its_key(void **state)
{
    store_test *t = *state;
    (void)begin_attempt(t);
    virtual_env_advance(&t->clock, LEASE_US);
    assert_int_equal(TIDE_IDEMPOTENCY_IN_PROGRESS, begin(t, TIDE_IDEMPOTENCY_RERUN));
    assert_int_equal(1, sweep(t).requeued);
    assert_int_equal(TIDE_IDEMPOTENCY_TAKEOVER, begin(t, TIDE_IDEMPOTENCY_RERUN));
}

static void cancelling_an_item_ends_the_lock_of_its_key(void **state)
{
    store_test *t = *state;
    (void)begin_attempt(t);
    assert_ok(tide_work_cancel(t->store, "a", NULL, &t->err));
    assert_int_equal(TIDE_IDEMPOTENCY_TAKEOVER, begin(t, TIDE_IDEMPOTENCY_RERUN));
}

static void cancelling_a_task_ends_the_locks_of_its_keys(void **state)
{
    store_test *t = *state;
    (void)begin_attempt(t);
    assert_ok_err(tide_task_cancel(t->store, "t", &t->err), &t->err);
    assert_int_equal(TIDE_IDEMPOTENCY_TAKEOVER, begin(t, TIDE_IDEMPOTENCY_RERUN));
}

static void a_finished_item_gives_its_key_back(void **state)
{
    store_test *t = *state;
    const held h = begin_attempt(t);
    assert_ok(finish(t, &h, "{}"));
    assert_int_equal(TIDE_IDEMPOTENCY_NEW, begin(t, TIDE_IDEMPOTENCY_FAIL));
    assert_int_equal(TIDE_IDEMPOTENCY_IN_PROGRESS, begin(t, TIDE_IDEMPOTENCY_FAIL));
}

static void items_finished_together_give_their_keys_back(void **state)
{
    store_test *t = *state;
    const held h = begin_attempt(t);
    add_item(t, "b");
    const held other = claim(t, "w");
    tide_work_result results[] = {
        {TIDE_WORK_RESULT_INIT, .work_item_id = h.id, .token = h.token},
        {TIDE_WORK_RESULT_INIT, .work_item_id = other.id, .token = other.token}};
    assert_ok_err(tide_work_finish_many(t->store, results, 2, &t->err), &t->err);
    assert_int_equal(TIDE_IDEMPOTENCY_NEW, begin(t, TIDE_IDEMPOTENCY_RERUN));
}

static void next_gives_the_keys_of_what_it_finishes_back(void **state)
{
    store_test *t = *state;
    const held h = begin_attempt(t);
    tide_work_result result = {TIDE_WORK_RESULT_INIT, .work_item_id = h.id, .token = h.token};
    const tide_work_claim_request request = {TIDE_WORK_CLAIM_REQUEST_INIT, .worker = "w"};
    tide_work_claims claims = {0};
    assert_status(TIDE_NONE, tide_work_next(t->store, &result, 1, &request, &claims, &t->err));
    assert_int_equal(TIDE_IDEMPOTENCY_NEW, begin(t, TIDE_IDEMPOTENCY_RERUN));
    tide_work_claims_done(&claims);
}

/* The key that a finish answers itself is answered, not given back. */
/* The process dies behind the commit of the finish: nothing is left for a second one to do. */
static void a_finish_frees_its_key_in_its_own_commit(void **state)
{
    store_test *t = *state;
    const held h = begin_attempt(t);
    bool is_lost = true;
    bool is_needed = false;
    const tide_lease_list one = {
        .id = h.id, .token = h.token, .output = "{}", .is_lost = &is_lost, .is_needed = &is_needed};
    const tide_finish_list list = {.held = &one, .count = 1};
    tide_work_turn turn = {.finish = &list};
    assert_ok_err(tide_work_turn_run(t->store, &turn, &t->err), &t->err);
    assert_false(is_lost);
    assert_int_equal(TIDE_IDEMPOTENCY_NEW, begin(t, TIDE_IDEMPOTENCY_FAIL));
}

static void many_finishes_free_their_keys_in_their_own_commit(void **state)
{
    store_test *t = *state;
    const held h = begin_attempt(t);
    add_item(t, "b");
    const held other = claim(t, "w");
    bool is_lost[2] = {true, true};
    bool is_needed[2] = {false, false};
    const tide_lease_list both[] = {
        {.id = h.id, .token = h.token, .is_lost = &is_lost[0], .is_needed = &is_needed[0]},
        {.id = other.id, .token = other.token, .is_lost = &is_lost[1], .is_needed = &is_needed[1]}};
    const tide_finish_list list = {.held = both, .count = 2};
    tide_work_turn turn = {.finish = &list};
    assert_ok_err(tide_work_turn_run(t->store, &turn, &t->err), &t->err);
    assert_false(is_lost[0] || is_lost[1]);
    assert_int_equal(TIDE_IDEMPOTENCY_NEW, begin(t, TIDE_IDEMPOTENCY_FAIL));
}

/* A finish that is refused ends nothing, and its key stays locked. */
static void a_refused_finish_frees_no_key(void **state)
{
    store_test *t = *state;
    held h = begin_attempt(t);
    h.token--;
    assert_status(TIDE_E_LEASE_LOST, finish(t, &h, "{}"));
    assert_int_equal(TIDE_IDEMPOTENCY_IN_PROGRESS, begin(t, TIDE_IDEMPOTENCY_RERUN));
}

static void a_finish_with_a_response_keeps_its_key(void **state)
{
    store_test *t = *state;
    make_task(t, "t");
    add_item(t, "a");
    const held h = claim(t, "w");
    const tide_idempotency_request request = {TIDE_IDEMPOTENCY_REQUEST_INIT, .key = "charge",
                                              .request_hash = "sha256:x", .work_item_id = "a"};
    tide_idempotency_state key = {0};
    assert_ok_err(tide_idempotency_begin(t->store, &request, &key, &t->err), &t->err);
    tide_work_result result = {TIDE_WORK_RESULT_INIT,
                               .work_item_id = h.id,
                               .token = h.token,
                               .idempotency_name = "charge",
                               .idempotency_token = key.token,
                               .response = tide_view_of("1")};
    assert_ok_err(tide_work_finish(t->store, &result, &t->err), &t->err);
    assert_int_equal(TIDE_IDEMPOTENCY_REPLAY, begin(t, TIDE_IDEMPOTENCY_RERUN));
}

/* A key goes with the item that holds it now, not with the one that made it. */
static void a_key_is_freed_by_the_attempt_that_holds_it(void **state)
{
    store_test *t = *state;
    const held first = begin_attempt(t);
    assert_ok(fail_it(t, &first, "boom", true));
    add_item(t, "b");
    const held second = claim(t, "w");
    const tide_idempotency_request request = {TIDE_IDEMPOTENCY_REQUEST_INIT, .key = "charge",
                                              .request_hash = "sha256:x", .work_item_id = "b",
                                              .lock_us = 3600 * SECOND_US};
    tide_idempotency_state key = {0};
    assert_ok_err(tide_idempotency_begin(t->store, &request, &key, &t->err), &t->err);
    assert_int_equal(TIDE_IDEMPOTENCY_NEW, key.outcome);
    assert_ok(fail_it(t, &second, "boom", true));
    assert_ok_err(tide_idempotency_begin(t->store, &request, &key, &t->err), &t->err);
    assert_int_equal(TIDE_IDEMPOTENCY_NEW, key.outcome);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        STORE_CASE(a_failed_attempt_gives_its_key_back),
        STORE_CASE(a_released_item_gives_its_key_back),
        STORE_CASE(the_end_of_a_lease_ends_the_lock_of_its_key),
        STORE_CASE(cancelling_an_item_ends_the_lock_of_its_key),
        STORE_CASE(cancelling_a_task_ends_the_locks_of_its_keys),
        STORE_CASE(a_finished_item_gives_its_key_back),
        STORE_CASE(items_finished_together_give_their_keys_back),
        STORE_CASE(next_gives_the_keys_of_what_it_finishes_back),
        STORE_CASE(a_finish_frees_its_key_in_its_own_commit),
        STORE_CASE(many_finishes_free_their_keys_in_their_own_commit),
        STORE_CASE(a_refused_finish_frees_no_key),
        STORE_CASE(a_finish_with_a_response_keeps_its_key),
        STORE_CASE(a_key_is_freed_by_the_attempt_that_holds_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
