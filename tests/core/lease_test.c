/* Leases: at most one effective holder, on every engine. */
#include "support/store_fixture.h"

#include <string.h>

#include "base/cleanup.h"

typedef enum lease_verb { CLAIM, RENEW, RELEASE, CHECK, EXPIRE, FIND } lease_verb;

/* One call on a lease, as a closure. */
typedef struct lease_call {
    lease_verb what;
    const char *holder;
    int64_t token;
    int64_t duration_us;
    tide_lease lease;
    int64_t ended;
} lease_call;

static tide_status call_lease(tide_tx *tx, void *arg, tide_error *err)
{
    lease_call *c = arg;
    const int64_t duration_us = c->duration_us ? c->duration_us : 30 * SECOND_US;
    switch (c->what) {
    case CLAIM:
        return tide_lease_claim(tx, "job", c->holder, duration_us, &c->lease, err);
    case RENEW:
        return tide_lease_renew(tx, "job", c->token, duration_us, err);
    case RELEASE:
        return tide_lease_release(tx, "job", c->token, err);
    case CHECK:
        return tide_lease_check(tx, "job", c->token, err);
    case EXPIRE:
        return tide_lease_expire(tx, 100, &c->ended, err);
    case FIND:
        return tide_lease_find(tx, "job", &c->lease, err);
    }
    return TIDE_E_FAILED;
}

static tide_status do_call(store_test *t, lease_call *c)
{
    return c->what == FIND ? tide_store_read(t->store, call_lease, c, &t->err)
                           : tide_store_write(t->store, call_lease, c, &t->err);
}

static int64_t claim(store_test *t, const char *holder)
{
    lease_call c = {.what = CLAIM, .holder = holder};
    assert_ok_err(do_call(t, &c), &t->err);
    return c.lease.token;
}

static tide_status with_token(store_test *t, lease_verb what, int64_t token)
{
    lease_call c = {.what = what, .token = token};
    return do_call(t, &c);
}

static tide_lease find(store_test *t)
{
    lease_call c = {.what = FIND};
    assert_ok_err(do_call(t, &c), &t->err);
    return c.lease;
}

static void a_held_lease_is_refused_to_everybody_also_under_the_same_name(void **state)
{
    store_test *t = *state;
    (void)claim(t, "a");
    lease_call again = {.what = CLAIM, .holder = "a"};
    assert_status(TIDE_E_CONFLICT, do_call(t, &again));
    lease_call other = {.what = CLAIM, .holder = "b"};
    assert_status(TIDE_E_CONFLICT, do_call(t, &other));
    assert_contains(t->err.text, "held by a");
}

/* A worker that stalls past its lease is refused by its token, even under the same name. */
static void a_stalled_holder_is_refused_after_another_claimed(void **state)
{
    store_test *t = *state;
    const int64_t slow = claim(t, "worker");
    virtual_env_advance(&t->clock, 31 * SECOND_US);
    const int64_t fast = claim(t, "worker");
    assert_true(fast > slow);
    assert_status(TIDE_E_LEASE_LOST, with_token(t, CHECK, slow));
    assert_status(TIDE_E_LEASE_LOST, with_token(t, RENEW, slow));
    assert_status(TIDE_E_LEASE_LOST, with_token(t, RELEASE, slow));
    assert_ok(with_token(t, CHECK, fast));
}

/* Renewing an expired lease fails, also when nobody has taken it yet. */
static void an_expired_lease_is_not_renewed(void **state)
{
    store_test *t = *state;
    const int64_t token = claim(t, "a");
    virtual_env_advance(&t->clock, 30 * SECOND_US);
    assert_status(TIDE_E_LEASE_LOST, with_token(t, CHECK, token));
    assert_status(TIDE_E_LEASE_LOST, with_token(t, RENEW, token));
    assert_false(find(t).is_live);
}

static void renewing_counts_from_now(void **state)
{
    store_test *t = *state;
    const int64_t token = claim(t, "a");
    for (int i = 0; i < 5; i++) {
        virtual_env_advance(&t->clock, 29 * SECOND_US);
        assert_ok_err(with_token(t, RENEW, token), &t->err);
    }
    assert_true(find(t).is_live);
    assert_true(find(t).token == token);
}

static void a_released_lease_can_be_claimed_at_once_with_a_higher_token(void **state)
{
    store_test *t = *state;
    const int64_t first = claim(t, "a");
    assert_ok(with_token(t, RELEASE, first));
    assert_status(TIDE_E_LEASE_LOST, with_token(t, CHECK, first));
    assert_true(claim(t, "b") > first);
}

/* The token rises on expiry too, and the sweep leaves a lease renewed a moment ago alone. */
static void the_sweep_ends_what_is_over_and_nothing_else(void **state)
{
    store_test *t = *state;
    const int64_t token = claim(t, "a");
    lease_call sweep = {.what = EXPIRE};
    virtual_env_advance(&t->clock, 29 * SECOND_US);
    assert_ok(with_token(t, RENEW, token));
    virtual_env_advance(&t->clock, 29 * SECOND_US);
    assert_ok_err(do_call(t, &sweep), &t->err);
    assert_int_equal(0, sweep.ended);
    virtual_env_advance(&t->clock, 2 * SECOND_US);
    assert_ok(do_call(t, &sweep));
    assert_int_equal(1, sweep.ended);
    const tide_lease ended = find(t);
    assert_true(ended.token > token);
    assert_string_equal("", ended.holder);
    assert_ok(do_call(t, &sweep));
    assert_int_equal(0, sweep.ended);
    assert_true(claim(t, "b") > ended.token);
}

/* Setting the wall clock neither expires nor prolongs anything. (On PostgreSQL the server's clock
 * counts, which a client cannot set; the virtual clock stands for it there.) */
static void setting_the_wall_clock_changes_no_lease(void **state)
{
    store_test *t = *state;
    const int64_t token = claim(t, "a");
    virtual_env_set_wall(&t->clock, VIRTUAL_ENV_WALL_US + 3600 * SECOND_US);
    assert_ok_err(with_token(t, CHECK, token), &t->err);
    virtual_env_set_wall(&t->clock, VIRTUAL_ENV_WALL_US - 3600 * SECOND_US);
    assert_ok(with_token(t, CHECK, token));
    virtual_env_advance(&t->clock, 31 * SECOND_US);
    assert_status(TIDE_E_LEASE_LOST, with_token(t, CHECK, token));
}

static void a_reboot_ends_all_leases(void **state)
{
    store_test *t = *state;
    const int64_t token = claim(t, "a");
    virtual_env_reboot(&t->clock);
    assert_false(find(t).is_live);
    assert_status(TIDE_E_LEASE_LOST, with_token(t, CHECK, token));
    assert_status(TIDE_E_LEASE_LOST, with_token(t, RENEW, token));
    assert_true(claim(t, "b") > token);
    assert_ok(with_token(t, CHECK, find(t).token));
}

/* A token is epoch x 2^40 + n, so a new epoch cannot reissue one. */
static void a_new_epoch_raises_every_later_token(void **state)
{
    store_test *t = *state;
    const int64_t token = claim(t, "a");
    assert_true(token >> TIDE_EPOCH_TOKEN_BITS == 1 || token >> TIDE_EPOCH_TOKEN_BITS == 2);
    assert_ok(with_token(t, RELEASE, token));
    tide_identity identity;
    assert_ok(tide_identity_raise(t->store, "operator", "test", &identity, &t->err));
    assert_true(claim(t, "a") >> TIDE_EPOCH_TOKEN_BITS == identity.epoch);
}

static void bad_input_is_refused(void **state)
{
    store_test *t = *state;
    lease_call no_holder = {.what = CLAIM, .holder = ""};
    assert_status(TIDE_E_INVALID, do_call(t, &no_holder));
    lease_call bad_text = {.what = CLAIM, .holder = "\xff"};
    assert_status(TIDE_E_INVALID, do_call(t, &bad_text));
    lease_call too_short = {.what = CLAIM, .holder = "a", .duration_us = 1};
    assert_status(TIDE_E_INVALID, do_call(t, &too_short));
    lease_call negative = {.what = CLAIM, .holder = "a", .duration_us = -SECOND_US};
    assert_status(TIDE_E_INVALID, do_call(t, &negative));
    lease_call endless = {.what = CLAIM, .holder = "a", .duration_us = INT64_MAX};
    assert_status(TIDE_E_INVALID, do_call(t, &endless));
    lease_call missing = {.what = FIND};
    assert_status(TIDE_NONE, do_call(t, &missing));
    assert_status(TIDE_E_LEASE_LOST, with_token(t, CHECK, 1));
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        STORE_CASE(a_held_lease_is_refused_to_everybody_also_under_the_same_name),
        STORE_CASE(a_stalled_holder_is_refused_after_another_claimed),
        STORE_CASE(an_expired_lease_is_not_renewed),
        STORE_CASE(renewing_counts_from_now),
        STORE_CASE(a_released_lease_can_be_claimed_at_once_with_a_higher_token),
        STORE_CASE(the_sweep_ends_what_is_over_and_nothing_else),
        STORE_CASE_SQLITE(setting_the_wall_clock_changes_no_lease),
        STORE_CASE_SQLITE(a_reboot_ends_all_leases),
        STORE_CASE(a_new_epoch_raises_every_later_token),
        STORE_CASE(bad_input_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
