/* Under a lease: what the holder of the token may do, and nobody else. */
#include "work/work_fixture.h"

#include <stdio.h>
#include <string.h>

static tide_status renew(store_test *t, const held *h)
{
    tide_work_ref ref = {TIDE_WORK_REF_INIT, .work_item_id = h->id, .token = h->token};
    return tide_work_renew(t->store, &ref, 1, LEASE_US, &t->err);
}

typedef struct check_call {
    const held *h;
} check_call;

static tide_status check_in(tide_tx *tx, void *arg, tide_error *err)
{
    const check_call *c = arg;
    return tide_work_check(tx, c->h->id, c->h->token, err);
}

static tide_status check(store_test *t, const held *h)
{
    check_call c = {.h = h};
    return tide_store_write(t->store, check_in, &c, &t->err);
}

static tide_status checkpoint(store_test *t, const held *h, tide_checkpoint_numbers *numbers)
{
    const tide_checkpoint_new checkpoint = {TIDE_CHECKPOINT_NEW_INIT, .type = "tool_executed",
                                            .snapshot = tide_view_of("{\"step\":1}")};
    return tide_work_checkpoint(t->store, h->id, h->token, &checkpoint, numbers, &t->err);
}

/* Every call that presents a token. */
static void assert_all_lost(store_test *t, const held *h)
{
    tide_checkpoint_numbers numbers;
    assert_status_err(TIDE_E_LEASE_LOST, renew(t, h), &t->err);
    assert_status(TIDE_E_LEASE_LOST, check(t, h));
    assert_status(TIDE_E_LEASE_LOST, checkpoint(t, h, &numbers));
    assert_status(TIDE_E_LEASE_LOST, tide_work_progress(t->store, h->id, h->token, "1", &t->err));
    assert_status(TIDE_E_LEASE_LOST, finish(t, h, "\"stale\""));
    assert_status(TIDE_E_LEASE_LOST, fail_it(t, h, "stale", false));
    assert_status(TIDE_E_LEASE_LOST, tide_work_release(t->store, h->id, h->token, 0, &t->err));
}

/* A worker that stalls past its lease must not do anything to what another now holds. */
static void a_stalled_worker_is_refused_after_another_took_over(void **state)
{
    store_test *t = *state;
    make_task(t, "t");
    add_item(t, "a");
    const held slow = claim(t, "slow");
    virtual_env_advance(&t->clock, LEASE_US + SECOND_US);
    assert_int_equal(1, sweep(t).requeued);
    const held fast = claim(t, "fast");
    assert_true(fast.token > slow.token);
    assert_int_equal(2, fast.attempt);
    const item_copy before = look(t, "a");
    assert_all_lost(t, &slow);
    assert_contains(t->err.text, "fast");
    assert_true(look(t, "a").revision == before.revision);
    assert_ok(finish(t, &fast, "\"right\""));
    assert_string_equal("\"right\"", look(t, "a").output);
    assert_string_equal("expired completed", outcomes_of(t, "a"));
}

/* The same under the same worker name. */
static void the_same_name_does_not_help(void **state)
{
    store_test *t = *state;
    make_task(t, "t");
    add_item(t, "a");
    const held slow = claim(t, "worker");
    virtual_env_advance(&t->clock, LEASE_US + SECOND_US);
    (void)sweep(t);
    const held fast = claim(t, "worker");
    assert_all_lost(t, &slow);
    assert_ok(check(t, &fast));
    assert_ok(finish(t, &fast, NULL));
}

/* A lease that has run out is not renewed, also when nobody has noticed yet. */
static void an_expired_lease_is_lost_before_anybody_sweeps(void **state)
{
    store_test *t = *state;
    make_task(t, "t");
    add_item(t, "a");
    const held h = claim(t, "w");
    virtual_env_advance(&t->clock, LEASE_US);
    assert_all_lost(t, &h);
    assert_contains(t->err.text, "run out");
    assert_string_equal("lease_over", reasons_of(t, "a", NULL));
}

static void renewing_counts_from_now(void **state)
{
    store_test *t = *state;
    make_task(t, "t");
    add_item(t, "a");
    const held h = claim(t, "w");
    for (int i = 0; i < 5; i++) {
        virtual_env_advance(&t->clock, LEASE_US - SECOND_US);
        assert_ok_err(renew(t, &h), &t->err);
        assert_int_equal(0, sweep(t).requeued);
    }
    const item_copy c = look(t, "a");
    assert_true(c.expires_at_us == VIRTUAL_ENV_WALL_US + 5 * (LEASE_US - SECOND_US) + LEASE_US);
    assert_true(c.heartbeat_at_us == VIRTUAL_ENV_WALL_US + 5 * (LEASE_US - SECOND_US));
    assert_ok(finish(t, &h, NULL));
}

/* All leases of a worker in one statement: all, some, none. */
static void many_are_renewed_at_once_and_the_lost_ones_are_named(void **state)
{
    store_test *t = *state;
    make_task(t, "t");
    add_item(t, "a");
    add_item(t, "b");
    add_item(t, "c");
    const held a = claim(t, "w");
    const held b = claim(t, "w");
    const held c = claim(t, "w");
    tide_work_ref refs[] = {{TIDE_WORK_REF_INIT, .work_item_id = c.id, .token = c.token},
                            {TIDE_WORK_REF_INIT, .work_item_id = a.id, .token = a.token},
                            {TIDE_WORK_REF_INIT, .work_item_id = b.id, .token = b.token}};
    assert_ok_err(tide_work_renew(t->store, refs, 3, LEASE_US, &t->err), &t->err);
    assert_false(refs[0].is_lost || refs[1].is_lost || refs[2].is_lost);
    assert_ok(finish(t, &b, NULL));
    refs[1].token++;
    assert_status(TIDE_E_PARTIAL, tide_work_renew(t->store, refs, 3, LEASE_US, &t->err));
    assert_false(refs[0].is_lost);
    assert_true(refs[1].is_lost && refs[2].is_lost);
    tide_work_ref twice[] = {{TIDE_WORK_REF_INIT, .work_item_id = a.id, .token = a.token},
                             {TIDE_WORK_REF_INIT, .work_item_id = a.id, .token = a.token - 1}};
    assert_status(TIDE_E_PARTIAL, tide_work_renew(t->store, twice, 2, LEASE_US, &t->err));
    assert_false(twice[0].is_lost);
    assert_true(twice[1].is_lost);
    tide_work_ref none[] = {{TIDE_WORK_REF_INIT, .work_item_id = "x", .token = 1},
                            {TIDE_WORK_REF_INIT, .work_item_id = "y", .token = 1}};
    assert_status(TIDE_E_LEASE_LOST, tide_work_renew(t->store, none, 2, LEASE_US, &t->err));
    assert_true(none[0].is_lost && none[1].is_lost);
    assert_status(TIDE_E_INVALID, tide_work_renew(t->store, none, 0, LEASE_US, &t->err));
    assert_status(TIDE_E_INVALID, tide_work_renew(t->store, none, 2, 1, &t->err));
}

static void an_unknown_item_is_not_found(void **state)
{
    store_test *t = *state;
    const held h = {.id = "nothing", .token = 7};
    tide_checkpoint_numbers numbers;
    assert_status(TIDE_E_NOT_FOUND, check(t, &h));
    assert_status(TIDE_E_NOT_FOUND, checkpoint(t, &h, &numbers));
    assert_status(TIDE_E_NOT_FOUND, finish(t, &h, NULL));
    assert_status(TIDE_E_NOT_FOUND, fail_it(t, &h, "x", false));
    assert_status(TIDE_E_NOT_FOUND, tide_work_release(t->store, h.id, h.token, 0, &t->err));
    assert_status(TIDE_E_NOT_FOUND, tide_work_progress(t->store, h.id, h.token, "1", &t->err));
    assert_contains(t->err.text, "nothing");
}

static void progress_and_checkpoints_are_kept(void **state)
{
    store_test *t = *state;
    tide_checkpoint_numbers first;
    tide_checkpoint_numbers second;
    make_task(t, "t");
    add_item(t, "a");
    const held h = claim(t, "w");
    assert_ok_err(tide_work_progress(t->store, h.id, h.token, "{\"percent\":50}", &t->err),
                  &t->err);
    assert_string_equal("{\"percent\":50}", look(t, "a").progress);
    assert_status(TIDE_E_INVALID, tide_work_progress(t->store, h.id, h.token, "half", &t->err));
    assert_ok_err(checkpoint(t, &h, &first), &t->err);
    assert_ok_err(checkpoint(t, &h, &second), &t->err);
    assert_int_equal(1, first.sequence_number);
    assert_int_equal(2, second.sequence_number);
    assert_true(second.global_sequence > first.global_sequence);
    assert_int_equal(2, count_checkpoints(t, "t"));
}

/* Back to pending without spending an attempt. */
static void a_released_item_keeps_its_attempts(void **state)
{
    store_test *t = *state;
    make_task(t, "t");
    add_item(t, "a");
    const held h = claim(t, "w");
    assert_ok_err(tide_work_release(t->store, h.id, h.token, 0, &t->err), &t->err);
    item_copy c = look(t, "a");
    assert_string_equal("pending", c.status);
    assert_int_equal(0, c.retry_count);
    assert_int_equal(0, c.failure_count + c.crash_count);
    assert_string_equal("", c.holder);
    const held again = claim(t, "w");
    assert_int_equal(1, again.attempt);
    assert_ok(tide_work_release(t->store, again.id, again.token, 10 * SECOND_US, &t->err));
    assert_true(claim(t, "w").next_due_us == 10 * SECOND_US);
    virtual_env_advance(&t->clock, 10 * SECOND_US);
    assert_string_equal("a", claim(t, "w").id);
    assert_string_equal("released released -", outcomes_of(t, "a"));
    assert_status(TIDE_E_INVALID, tide_work_release(t->store, "a", 1, -1, &t->err));
}

/* A reboot ends the leases of everybody who ran before it. */
static void a_reboot_ends_all_leases(void **state)
{
    store_test *t = *state;
    make_task(t, "t");
    add_item(t, "a");
    const held h = claim(t, "w");
    virtual_env_reboot(&t->clock);
    assert_string_equal("lease_over", reasons_of(t, "a", NULL));
    assert_status(TIDE_E_LEASE_LOST, finish(t, &h, NULL));
    assert_int_equal(1, sweep(t).requeued);
    assert_string_equal("a", claim(t, "w").id);
}

/* Setting the wall clock neither ends nor prolongs a lease. */
static void setting_the_wall_clock_changes_no_lease(void **state)
{
    store_test *t = *state;
    make_task(t, "t");
    add_item(t, "a");
    const held h = claim(t, "w");
    virtual_env_set_wall(&t->clock, VIRTUAL_ENV_WALL_US + 3600 * SECOND_US);
    assert_int_equal(0, sweep(t).requeued);
    assert_ok_err(renew(t, &h), &t->err);
    virtual_env_set_wall(&t->clock, VIRTUAL_ENV_WALL_US - 3600 * SECOND_US);
    virtual_env_advance(&t->clock, LEASE_US);
    assert_status(TIDE_E_LEASE_LOST, renew(t, &h));
}

/* A claim by plain SQL is fenced like any other. */
static void a_plain_claim_is_fenced_too(void **state)
{
    store_test *t = *state;
    make_task(t, "t");
    add_item(t, "a");
    run_sql(t, "UPDATE work_items SET status = 'in_progress', lease_holder = 'psql' WHERE "
               "work_item_id = 'a'");
    const item_copy c = look(t, "a");
    assert_string_equal("sql", c.via);
    assert_true(c.token > 0);
    assert_true(claim(t, "w").token == 0);
    run_sql(
        t,
        "UPDATE work_items SET status = 'completed', output_data = '1' WHERE work_item_id = 'a'");
    assert_string_equal("completed", outcomes_of(t, "a"));
    add_item(t, "b");
    const held h = claim(t, "w");
    assert_status(
        TIDE_E_CONFLICT,
        try_sql(t, "UPDATE work_items SET status = 'completed' WHERE work_item_id = 'b'"));
    assert_ok(finish(t, &h, NULL));
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        STORE_CASE(a_stalled_worker_is_refused_after_another_took_over),
        STORE_CASE(the_same_name_does_not_help),
        STORE_CASE(an_expired_lease_is_lost_before_anybody_sweeps),
        STORE_CASE(renewing_counts_from_now),
        STORE_CASE(many_are_renewed_at_once_and_the_lost_ones_are_named),
        STORE_CASE(an_unknown_item_is_not_found),
        STORE_CASE(progress_and_checkpoints_are_kept),
        STORE_CASE(a_released_item_keeps_its_attempts),
        STORE_CASE_SQLITE(a_reboot_ends_all_leases),
        STORE_CASE_SQLITE(setting_the_wall_clock_changes_no_lease),
        STORE_CASE(a_plain_claim_is_fenced_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
