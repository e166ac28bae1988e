/* The end of an attempt frees the idempotency keys that it began. */
#include "work/work_fixture.h"

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

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        STORE_CASE(a_failed_attempt_gives_its_key_back),
        STORE_CASE(a_released_item_gives_its_key_back),
        STORE_CASE(the_end_of_a_lease_ends_the_lock_of_its_key),
        STORE_CASE(cancelling_an_item_ends_the_lock_of_its_key),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
