/* Idempotency keys: what begin says in every state, and what a token may do. */
#include "core/idempotency_calls.h"

#include <inttypes.h>

#include "base/text/timefmt.h"

static void a_key_runs_once_and_is_answered_from_then_on(void **state)
{
    store_test *t = *state;
    const int64_t token = begin_as(t, TIDE_IDEMPOTENCY_NEW);
    assert_ok_err(complete(t, token, "{\"n\":1}"), &t->err);
    assert_replay(t, "{\"n\":1}", false);
    assert_replay(t, "{\"n\":1}", false);
    assert_int_equal(1, find(t, "job").key.attempts);
}

/* The second caller is told who works on it, and until when. */
static void a_second_caller_is_told_who_works_on_it(void **state)
{
    store_test *t = *state;
    const tide_idempotency_state first = begin_job(t, HASH_A);
    const tide_idempotency_state second = begin_job(t, HASH_A);
    assert_int_equal(TIDE_IDEMPOTENCY_IN_PROGRESS, second.outcome);
    assert_string_equal("tester", second.holder);
    assert_true(second.lock_expires_at_us == first.lock_expires_at_us);
    assert_int_equal(0, second.token);
}

/* Another request under the same key is refused: while pending, given back, completed, failed, over. */
static void another_request_is_a_mismatch_in_every_state(void **state)
{
    store_test *t = *state;
    int64_t token = begin_as(t, TIDE_IDEMPOTENCY_NEW);
    assert_int_equal(TIDE_IDEMPOTENCY_MISMATCH, begin_job(t, HASH_B).outcome);
    assert_ok(fail_job(t, token, false, NULL));
    assert_int_equal(TIDE_IDEMPOTENCY_MISMATCH, begin_job(t, HASH_B).outcome);
    token = begin_as(t, TIDE_IDEMPOTENCY_NEW);
    virtual_env_advance(&t->clock, LOCK_US);
    assert_int_equal(TIDE_IDEMPOTENCY_MISMATCH, begin_job(t, HASH_B).outcome);
    assert_ok_err(complete(t, token, "1"), &t->err);
    assert_int_equal(TIDE_IDEMPOTENCY_MISMATCH, begin_job(t, HASH_B).outcome);
    assert_replay(t, "1", false);
}

/* Null is an answer like any other. */
static void null_results_are_answers_too(void **state)
{
    store_test *t = *state;
    assert_ok(complete(t, begin_as(t, TIDE_IDEMPOTENCY_NEW), NULL));
    assert_replay(t, NULL, false);
    const seen_key seen = find(t, "job");
    assert_false(seen.key.has_response);
    assert_string_equal("completed", seen.status);
}

static void an_empty_answer_is_not_null(void **state)
{
    store_test *t = *state;
    assert_ok(complete(t, begin_as(t, TIDE_IDEMPOTENCY_NEW), ""));
    assert_replay(t, "", false);
}

/* An expired key is born again, for another request too, and its token goes on. */
static void an_expired_key_is_born_again_with_a_higher_token(void **state)
{
    store_test *t = *state;
    const int64_t first = begin_as(t, TIDE_IDEMPOTENCY_NEW);
    assert_ok(complete(t, first, "old"));
    virtual_env_advance(&t->clock, EXPIRY_US - 1);
    assert_replay(t, "old", false);
    virtual_env_advance(&t->clock, 1);
    const tide_idempotency_state again = begin_job(t, HASH_B);
    assert_int_equal(TIDE_IDEMPOTENCY_NEW, again.outcome);
    assert_true(again.token > first);
    const seen_key seen = find(t, "job");
    assert_string_equal("pending", seen.status);
    assert_false(seen.key.has_response);
    assert_int_equal(1, seen.key.attempts);
    assert_status(TIDE_E_LEASE_LOST, complete(t, first, "old"));
    assert_ok_err(complete(t, again.token, "new"), &t->err);
}

/* As long as somebody works on it, a key does not expire. */
static void a_key_in_use_does_not_expire(void **state)
{
    store_test *t = *state;
    const int64_t token = begin_as(t, TIDE_IDEMPOTENCY_NEW);
    for (int i = 0; i < 200; i++) {
        virtual_env_advance(&t->clock, LOCK_US - SECOND_US);
        assert_ok_err(tide_idempotency_renew(t->store, "job", token, LOCK_US, &t->err), &t->err);
    }
    assert_true(200 * (LOCK_US - SECOND_US) > EXPIRY_US);
    (void)begin_as(t, TIDE_IDEMPOTENCY_IN_PROGRESS);
    assert_int_equal(TIDE_IDEMPOTENCY_MISMATCH, begin_job(t, HASH_B).outcome);
    assert_int_equal(1, find(t, "job").count);
    assert_ok(complete(t, token, "late"));
    assert_replay(t, "late", false);
}

/* The answer is kept for its time counted from when it was given, however long the work took. */
static void the_expiry_counts_from_the_answer(void **state)
{
    store_test *t = *state;
    const int64_t token = begin_as(t, TIDE_IDEMPOTENCY_NEW);
    virtual_env_advance(&t->clock, EXPIRY_US + SECOND_US);
    assert_ok_err(complete(t, token, "late"), &t->err);
    virtual_env_advance(&t->clock, EXPIRY_US - 1);
    assert_replay(t, "late", false);
    virtual_env_advance(&t->clock, 1);
    (void)begin_as(t, TIDE_IDEMPOTENCY_NEW);
}

/* A failure that may pass: the lock goes back, nothing is stored, the next one runs it. */
static void a_failure_that_may_pass_gives_the_lock_back(void **state)
{
    store_test *t = *state;
    const int64_t first = begin_as(t, TIDE_IDEMPOTENCY_NEW);
    assert_ok_err(fail_job(t, first, false, "\"try later\""), &t->err);
    const seen_key seen = find(t, "job");
    assert_false(seen.key.is_locked);
    assert_false(seen.key.has_response);
    const int64_t second = begin_as(t, TIDE_IDEMPOTENCY_NEW);
    assert_true(second > first);
    assert_int_equal(2, find(t, "job").key.attempts);
    assert_status(TIDE_E_LEASE_LOST, complete(t, first, "x"));
    assert_status(TIDE_E_LEASE_LOST, fail_job(t, first, false, NULL));
}

static void a_final_failure_is_the_answer(void **state)
{
    store_test *t = *state;
    const int64_t token = begin_as(t, TIDE_IDEMPOTENCY_NEW);
    assert_ok(fail_job(t, token, true, "{\"error\":\"no\"}"));
    assert_replay(t, "{\"error\":\"no\"}", true);
    assert_string_equal("failed", find(t, "job").status);
}

/* A holder that stalls past its lock is taken over, and refused when it comes back. */
static void a_stalled_holder_is_taken_over_and_then_refused(void **state)
{
    store_test *t = *state;
    const int64_t slow = begin_as(t, TIDE_IDEMPOTENCY_NEW);
    virtual_env_advance(&t->clock, LOCK_US - 1);
    (void)begin_as(t, TIDE_IDEMPOTENCY_IN_PROGRESS);
    virtual_env_advance(&t->clock, 1);
    const int64_t fast = begin_as(t, TIDE_IDEMPOTENCY_TAKEOVER);
    assert_true(fast > slow);
    assert_status(TIDE_E_LEASE_LOST, complete(t, slow, "slow"));
    assert_status(TIDE_E_LEASE_LOST, fail_job(t, slow, true, "slow"));
    assert_status(TIDE_E_LEASE_LOST, fail_job(t, slow, false, NULL));
    assert_status(TIDE_E_LEASE_LOST, tide_idempotency_renew(t->store, "job", slow, 0, &t->err));
    assert_ok_err(complete(t, fast, "fast"), &t->err);
    assert_status(TIDE_E_LEASE_LOST, complete(t, slow, "fast"));
    assert_replay(t, "fast", false);
}

/* What was done is the truth, as long as nobody else has begun: late is not too late. */
static void a_stalled_holder_that_nobody_followed_may_still_answer(void **state)
{
    store_test *t = *state;
    const int64_t token = begin_as(t, TIDE_IDEMPOTENCY_NEW);
    virtual_env_advance(&t->clock, 10 * LOCK_US);
    assert_status(TIDE_E_LEASE_LOST, tide_idempotency_renew(t->store, "job", token, 0, &t->err));
    assert_ok_err(complete(t, token, "late"), &t->err);
    assert_replay(t, "late", false);
}

static void renewing_counts_from_now(void **state)
{
    store_test *t = *state;
    const int64_t token = begin_as(t, TIDE_IDEMPOTENCY_NEW);
    for (int i = 0; i < 4; i++) {
        virtual_env_advance(&t->clock, LOCK_US - 1);
        assert_ok_err(tide_idempotency_renew(t->store, "job", token, LOCK_US, &t->err), &t->err);
    }
    virtual_env_advance(&t->clock, LOCK_US - 1);
    (void)begin_as(t, TIDE_IDEMPOTENCY_IN_PROGRESS);
    virtual_env_advance(&t->clock, 1);
    (void)begin_as(t, TIDE_IDEMPOTENCY_TAKEOVER);
}

/* The policy is the key's own, whatever the one who takes over says. */
static void the_policy_is_fixed_when_the_key_is_made(void **state)
{
    store_test *t = *state;
    tide_idempotency_request r = request_of("job", HASH_A);
    r.policy = TIDE_IDEMPOTENCY_RESUME;
    assert_int_equal(TIDE_IDEMPOTENCY_NEW, begin_with(t, &r).outcome);
    virtual_env_advance(&t->clock, LOCK_US);
    r.policy = TIDE_IDEMPOTENCY_FAIL;
    const tide_idempotency_state over = begin_with(t, &r);
    assert_int_equal(TIDE_IDEMPOTENCY_TAKEOVER, over.outcome);
    assert_int_equal(TIDE_IDEMPOTENCY_RESUME, over.policy);
}

/* "outcome unknown", as the caller chose; the holder may still say what happened. */
static void under_the_policy_fail_nobody_takes_over(void **state)
{
    store_test *t = *state;
    tide_idempotency_request r = request_of("job", HASH_A);
    r.policy = TIDE_IDEMPOTENCY_FAIL;
    const int64_t token = begin_with(t, &r).token;
    virtual_env_advance(&t->clock, LOCK_US);
    tide_idempotency_state out = {.token = 0};
    assert_status(TIDE_E_OUTCOME_UNKNOWN, tide_idempotency_begin(t->store, &r, &out, &t->err));
    assert_status(TIDE_E_OUTCOME_UNKNOWN, tide_idempotency_begin(t->store, &r, &out, &t->err));
    assert_contains(t->err.text, "job");
    assert_int_equal(0, out.token);
    assert_true(find(t, "job").key.lock_token == token);
    assert_ok_err(complete(t, token, "it did"), &t->err);
    assert_replay(t, "it did", false);
}

/* ... or give it back, or the key expires, like any other. */
static void an_unknown_outcome_ends_with_the_key(void **state)
{
    store_test *t = *state;
    tide_idempotency_request r = request_of("job", HASH_A);
    r.policy = TIDE_IDEMPOTENCY_FAIL;
    const int64_t token = begin_with(t, &r).token;
    virtual_env_advance(&t->clock, LOCK_US);
    assert_ok(fail_job(t, token, false, NULL));
    assert_int_equal(TIDE_IDEMPOTENCY_NEW, begin_with(t, &r).outcome);
    virtual_env_advance(&t->clock, EXPIRY_US);
    assert_int_equal(TIDE_IDEMPOTENCY_NEW, begin_with(t, &r).outcome);
}

/* A caller that does not know whether its call was stored calls again. */
static void the_same_answer_twice_is_one_answer(void **state)
{
    store_test *t = *state;
    const int64_t token = begin_as(t, TIDE_IDEMPOTENCY_NEW);
    assert_ok(complete(t, token, "{\"n\":1}"));
    assert_ok_err(complete(t, token, "{\"n\":1}"), &t->err);
    assert_status(TIDE_E_MISMATCH, complete(t, token, "{\"n\":2}"));
    assert_status(TIDE_E_MISMATCH, complete(t, token, NULL));
    assert_status(TIDE_E_MISMATCH, fail_job(t, token, true, "{\"n\":1}"));
    assert_status(TIDE_E_MISMATCH, fail_job(t, token, false, NULL));
    assert_status(TIDE_E_LEASE_LOST, tide_idempotency_renew(t->store, "job", token, 0, &t->err));
    assert_replay(t, "{\"n\":1}", false);
}

static void the_same_failure_twice_is_one_failure(void **state)
{
    store_test *t = *state;
    int64_t token = begin_as(t, TIDE_IDEMPOTENCY_NEW);
    assert_ok(fail_job(t, token, false, NULL));
    assert_ok_err(fail_job(t, token, false, NULL), &t->err);
    assert_status(TIDE_E_LEASE_LOST, complete(t, token, "x"));
    token = begin_as(t, TIDE_IDEMPOTENCY_NEW);
    assert_ok(fail_job(t, token, true, NULL));
    assert_ok_err(fail_job(t, token, true, NULL), &t->err);
    assert_status(TIDE_E_MISMATCH, fail_job(t, token, true, "x"));
    assert_status(TIDE_E_MISMATCH, complete(t, token, NULL));
    assert_replay(t, NULL, true);
}

/* Effect and answer are one commit: a closure that fails after completing has completed nothing. */
typedef struct effect {
    int64_t token;
    bool is_failing;
    numbered_row row; /* its number is taken behind the closure */
} effect;

static tide_status do_and_answer(tide_tx *tx, void *arg, tide_error *err)
{
    effect *e = arg;
    e->row = (numbered_row){.writer = "effect", .n = e->token};
    TIDE_TRY(add_numbered(tx, &e->row, err));
    TIDE_TRY(tide_idempotency_complete_in(tx, "job", e->token, tide_view_of("done"), err));
    return e->is_failing ? tide_fail(err, TIDE_E_FAILED, "as asked") : TIDE_OK;
}

static int64_t count_effects(store_test *t)
{
    int64_t count = 0;
    int64_t highest = 0;
    count_numbered(t->store, &count, &highest);
    return count;
}

static void effect_and_answer_are_one_commit(void **state)
{
    store_test *t = *state;
    effect e = {.token = begin_as(t, TIDE_IDEMPOTENCY_NEW), .is_failing = true};
    assert_status(TIDE_E_FAILED, tide_store_write(t->store, do_and_answer, &e, &t->err));
    (void)begin_as(t, TIDE_IDEMPOTENCY_IN_PROGRESS);
    assert_int_equal(0, count_effects(t));
    e.is_failing = false;
    assert_ok_err(tide_store_write(t->store, do_and_answer, &e, &t->err), &t->err);
    assert_replay(t, "done", false);
    assert_int_equal(1, count_effects(t));
}

/* Who was taken over leaves no effect behind. */
static void an_effect_under_a_lost_token_is_rolled_back(void **state)
{
    store_test *t = *state;
    effect slow = {.token = begin_as(t, TIDE_IDEMPOTENCY_NEW)};
    virtual_env_advance(&t->clock, LOCK_US);
    (void)begin_as(t, TIDE_IDEMPOTENCY_TAKEOVER);
    assert_status(TIDE_E_LEASE_LOST, tide_store_write(t->store, do_and_answer, &slow, &t->err));
    assert_int_equal(0, count_effects(t));
}

/* On SQLite a reboot ends every lock: nobody who held one is still running. */
static void a_reboot_ends_every_lock(void **state)
{
    store_test *t = *state;
    const int64_t before = begin_as(t, TIDE_IDEMPOTENCY_NEW);
    virtual_env_reboot(&t->clock);
    assert_false(find(t, "job").key.is_locked);
    const int64_t after = begin_as(t, TIDE_IDEMPOTENCY_TAKEOVER);
    assert_true(after > before);
    assert_status(TIDE_E_LEASE_LOST, complete(t, before, "x"));
    assert_ok_err(complete(t, after, "y"), &t->err);
}

/* Setting the wall clock neither ends nor prolongs a lock. */
static void setting_the_wall_clock_changes_no_lock(void **state)
{
    store_test *t = *state;
    (void)begin_as(t, TIDE_IDEMPOTENCY_NEW);
    virtual_env_set_wall(&t->clock, VIRTUAL_ENV_WALL_US + 1800 * SECOND_US);
    (void)begin_as(t, TIDE_IDEMPOTENCY_IN_PROGRESS);
    virtual_env_set_wall(&t->clock, VIRTUAL_ENV_WALL_US - 1800 * SECOND_US);
    (void)begin_as(t, TIDE_IDEMPOTENCY_IN_PROGRESS);
    virtual_env_advance(&t->clock, LOCK_US);
    (void)begin_as(t, TIDE_IDEMPOTENCY_TAKEOVER);
}

static void a_new_epoch_raises_every_later_token(void **state)
{
    store_test *t = *state;
    assert_ok(fail_job(t, begin_as(t, TIDE_IDEMPOTENCY_NEW), false, NULL));
    tide_identity identity;
    assert_ok(tide_identity_raise(t->store, "operator", "test", &identity, &t->err));
    const int64_t token = begin_as(t, TIDE_IDEMPOTENCY_NEW);
    assert_true(token >> TIDE_EPOCH_TOKEN_BITS == identity.epoch);
}

static void scope_and_key_make_the_name(void **state)
{
    (void)state;
    char name[TIDE_IDEMPOTENCY_KEY_MAX + 1];
    tide_error err;
    assert_ok_err(tide_idempotency_name(name, "billing", "a/b", &err), &err);
    assert_string_equal("billing/a/b", name);
    assert_ok(tide_idempotency_name(name, "", "k", &err));
    assert_string_equal("k", name);
    assert_ok(tide_idempotency_name(name, NULL, "k", &err));
    assert_string_equal("k", name);
    assert_status(TIDE_E_INVALID, tide_idempotency_name(name, "a/b", "k", &err));
    assert_status(TIDE_E_INVALID, tide_idempotency_name(name, "a", "", &err));
    assert_status(TIDE_E_INVALID, tide_idempotency_name(name, "a", NULL, &err));
    assert_status(TIDE_E_INVALID, tide_idempotency_name(name, NULL, "a\nb", &err));
    assert_status(TIDE_E_INVALID, tide_idempotency_name(name, NULL, "\xff", &err));
    char longest[TIDE_IDEMPOTENCY_KEY_MAX + 1];
    memset(longest, 'k', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    assert_ok(tide_idempotency_name(name, NULL, longest, &err));
    assert_string_equal(longest, name);
    assert_status(TIDE_E_INVALID, tide_idempotency_name(name, "s", longest, &err));
}

/* The hash is of what the request says, not of how it is written. */
static void equal_json_has_equal_hashes(void **state)
{
    (void)state;
    tide_error err;
    char a[TIDE_IDEMPOTENCY_HASH_SIZE];
    char b[TIDE_IDEMPOTENCY_HASH_SIZE];
    assert_ok(tide_idempotency_hash(a, tide_view_of("{\"x\":1,\"y\":[2]}"), &err));
    assert_ok(tide_idempotency_hash(b, tide_view_of(" {\"y\": [2], \"x\": 1}\n"), &err));
    assert_string_equal(a, b);
    assert_int_equal(71, strlen(a));
    assert_memory_equal("sha256:", a, 7);
    assert_ok(tide_idempotency_hash(a, tide_view_of("abc"), &err));
    assert_string_equal("sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
                        a);
}

static void expect_invalid(store_test *t, const tide_idempotency_request *r)
{
    tide_idempotency_state out = {.token = 0};
    assert_status(TIDE_E_INVALID, tide_idempotency_begin(t->store, r, &out, &t->err));
}

static void bad_input_is_refused_and_changes_nothing(void **state)
{
    store_test *t = *state;
    const tide_idempotency_request good = request_of("job", HASH_A);
    tide_idempotency_request r = good;
    r.request_hash = NULL;
    expect_invalid(t, &r);
    r.request_hash = "";
    expect_invalid(t, &r);
    r = good;
    r.lock_us = -1;
    expect_invalid(t, &r);
    r.lock_us = INT64_MAX;
    expect_invalid(t, &r);
    r = good;
    r.expiry_us = -1;
    expect_invalid(t, &r);
    r.expiry_us = INT64_MAX;
    expect_invalid(t, &r);
    r = good;
    r.holder = "\xc3";
    expect_invalid(t, &r);
    r = good;
    r.policy = (tide_idempotency_policy)7;
    expect_invalid(t, &r);
    tide_idempotency_state out = {.token = 0};
    r = good;
    r.task_id = "nobody";
    assert_status(TIDE_E_NOT_FOUND, tide_idempotency_begin(t->store, &r, &out, &t->err));
    r = good;
    r.work_item_id = "nothing";
    assert_status(TIDE_E_NOT_FOUND, tide_idempotency_begin(t->store, &r, &out, &t->err));
    seen_key seen = {.count = 0};
    assert_ok(tide_idempotency_list(t->store,
                                    &(tide_idempotency_filter){TIDE_IDEMPOTENCY_FILTER_INIT},
                                    note_key, &seen, &t->err));
    assert_int_equal(0, seen.count);
}

static void bad_answers_are_refused_and_change_nothing(void **state)
{
    store_test *t = *state;
    const int64_t token = begin_as(t, TIDE_IDEMPOTENCY_NEW);
    assert_status(TIDE_E_INVALID, complete(t, token, "\xff"));
    assert_status(TIDE_E_INVALID, tide_idempotency_complete(t->store, "job", token,
                                                            tide_view_bytes("a\0b", 3), &t->err));
    const tide_view huge = {.ptr = "", .len = TIDE_IDEMPOTENCY_RESPONSE_MAX + 1};
    assert_status(TIDE_E_LIMIT, tide_idempotency_complete(t->store, "job", token, huge, &t->err));
    assert_status(TIDE_E_LEASE_LOST,
                  tide_idempotency_complete(t->store, "other", token, tide_view_of("x"), &t->err));
    assert_status(TIDE_E_LEASE_LOST, complete(t, token + 1, "x"));
    assert_status(TIDE_E_LEASE_LOST, complete(t, 0, "x"));
    assert_status(TIDE_E_INVALID, tide_idempotency_renew(t->store, "job", token, -5, &t->err));
    (void)begin_as(t, TIDE_IDEMPOTENCY_IN_PROGRESS);
}

/* The largest answer there is comes back whole. */
static void the_largest_answer_comes_back_whole(void **state)
{
    store_test *t = *state;
    const size_t len = TIDE_IDEMPOTENCY_RESPONSE_MAX;
    TIDE_CLEANUP(tide_freep) char *answer = malloc(len);
    assert_non_null(answer);
    for (size_t i = 0; i < len; i++)
        answer[i] = (char)('a' + i % 23);
    const int64_t token = begin_as(t, TIDE_IDEMPOTENCY_NEW);
    assert_ok_err(
        tide_idempotency_complete(t->store, "job", token, tide_view_bytes(answer, len), &t->err),
        &t->err);
    const tide_idempotency_request r = request_of("job", HASH_A);
    TIDE_CLEANUP(tide_idempotency_state_done) tide_idempotency_state got = {.token = 0};
    assert_ok_err(tide_idempotency_begin(t->store, &r, &got, &t->err), &t->err);
    assert_int_equal(len, got.response_len);
    assert_memory_equal(answer, got.response, len);
}

static tide_status lock_plainly(tide_tx *tx, void *arg, tide_error *err)
{
    const store_test *t = arg;
    char at[TIDE_TIME_TEXT_SIZE];
    char text[512];
    TIDE_TRY(tide_time_format(t->clock.wall_us + 300 * SECOND_US, at));
    /* The trigger goes by the machine's clock; this case by its own. */
    (void)snprintf(
        text, sizeof text,
        "INSERT INTO idempotency_keys (idempotency_key, request_hash) VALUES ('job', '%s'); "
        "UPDATE idempotency_keys SET lock_expires_at = '%s' "
        "WHERE idempotency_key = 'job'",
        HASH_A, at);
    return tx->store->ops->script(tx, text, err);
}

/* A lock that plain SQL took since the machine came up is not one from before: the next begin leaves it alone. */
static void a_reboot_leaves_the_locks_of_plain_sql(void **state)
{
    store_test *t = *state;
    const tide_idempotency_request other = request_of("other", HASH_A);
    (void)begin_with(t, &other);
    virtual_env_reboot(&t->clock);
    assert_ok_err(tide_store_write(t->store, lock_plainly, t, &t->err), &t->err);
    const int64_t token = find(t, "job").key.lock_token;
    (void)begin_as(t, TIDE_IDEMPOTENCY_IN_PROGRESS);
    assert_int_equal(token, find(t, "job").key.lock_token);
    virtual_env_advance(&t->clock, 301 * SECOND_US);
    (void)begin_as(t, TIDE_IDEMPOTENCY_TAKEOVER);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        STORE_CASE(a_key_runs_once_and_is_answered_from_then_on),
        STORE_CASE(a_second_caller_is_told_who_works_on_it),
        STORE_CASE(another_request_is_a_mismatch_in_every_state),
        STORE_CASE(null_results_are_answers_too),
        STORE_CASE(an_empty_answer_is_not_null),
        STORE_CASE(an_expired_key_is_born_again_with_a_higher_token),
        STORE_CASE(a_key_in_use_does_not_expire),
        STORE_CASE(the_expiry_counts_from_the_answer),
        STORE_CASE(a_failure_that_may_pass_gives_the_lock_back),
        STORE_CASE(a_final_failure_is_the_answer),
        STORE_CASE(a_stalled_holder_is_taken_over_and_then_refused),
        STORE_CASE(a_stalled_holder_that_nobody_followed_may_still_answer),
        STORE_CASE(renewing_counts_from_now),
        STORE_CASE(the_policy_is_fixed_when_the_key_is_made),
        STORE_CASE(under_the_policy_fail_nobody_takes_over),
        STORE_CASE(an_unknown_outcome_ends_with_the_key),
        STORE_CASE(the_same_answer_twice_is_one_answer),
        STORE_CASE(the_same_failure_twice_is_one_failure),
        STORE_CASE(effect_and_answer_are_one_commit),
        STORE_CASE(an_effect_under_a_lost_token_is_rolled_back),
        STORE_CASE_SQLITE(a_reboot_ends_every_lock),
        STORE_CASE_SQLITE(setting_the_wall_clock_changes_no_lock),
        STORE_CASE(a_new_epoch_raises_every_later_token),
        cmocka_unit_test(scope_and_key_make_the_name),
        cmocka_unit_test(equal_json_has_equal_hashes),
        STORE_CASE(bad_input_is_refused_and_changes_nothing),
        STORE_CASE(bad_answers_are_refused_and_change_nothing),
        STORE_CASE(the_largest_answer_comes_back_whole),
        STORE_CASE_SQLITE(a_reboot_leaves_the_locks_of_plain_sql),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
