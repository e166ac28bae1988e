/* Idempotency keys: find, list, delete, clean, and keys that plain SQL wrote. */
#include "core/idempotency_calls.h"

#include <inttypes.h>

#include "support/alloc_fault.h"

static void a_key_is_shown_with_everything_it_has(void **state)
{
    store_test *t = *state;
    assert_ok_err(
        plain_sql(t, t->store, "INSERT INTO tasks (task_id, title) VALUES ('task-1', 'a task');"),
        &t->err);
    tide_idempotency_request r = request_of("k", HASH_A);
    r.scope = "billing";
    r.task_id = "task-1";
    r.policy = TIDE_IDEMPOTENCY_RESUME;
    const int64_t token = begin_with(t, &r).token;
    seen_key seen = find(t, "billing/k");
    assert_string_equal("billing/k", seen.name);
    assert_string_equal("pending", seen.status);
    assert_string_equal("resume", seen.policy);
    assert_string_equal("task-1", seen.task_id);
    assert_true(seen.key.is_locked);
    assert_true(seen.key.lock_token == token);
    assert_true(seen.key.created_at_us == VIRTUAL_ENV_WALL_US);
    assert_true(seen.key.expires_at_us == VIRTUAL_ENV_WALL_US + EXPIRY_US);
    assert_true(seen.key.lock_expires_at_us == VIRTUAL_ENV_WALL_US + LOCK_US);
    virtual_env_advance(&t->clock, SECOND_US);
    assert_ok(tide_idempotency_complete(t->store, "billing/k", token, tide_view_of("42"), &t->err));
    seen = find(t, "billing/k");
    assert_string_equal("completed", seen.status);
    assert_string_equal("42", seen.response);
    assert_false(seen.key.is_locked);
    assert_true(seen.key.completed_at_us == VIRTUAL_ENV_WALL_US + SECOND_US);
    assert_true(seen.key.expires_at_us == VIRTUAL_ENV_WALL_US + SECOND_US + EXPIRY_US);
}

static void what_is_not_there_or_expired_is_not_found(void **state)
{
    store_test *t = *state;
    seen_key seen = {.count = 0};
    assert_status(TIDE_NONE, tide_idempotency_find(t->store, "job", note_key, &seen, &t->err));
    assert_ok(complete(t, begin_as(t, TIDE_IDEMPOTENCY_NEW), "1"));
    assert_int_equal(1, find(t, "job").count);
    virtual_env_advance(&t->clock, EXPIRY_US);
    assert_status(TIDE_NONE, tide_idempotency_find(t->store, "job", note_key, &seen, &t->err));
    assert_int_equal(0, seen.count);
}

typedef struct roll {
    int count;
    char last[TIDE_IDEMPOTENCY_KEY_MAX + 1];
    bool is_sorted;
} roll;

static tide_status call_roll(void *arg, const tide_idempotency_key *key, tide_error *err)
{
    (void)err;
    roll *r = arg;
    r->is_sorted = r->is_sorted && strcmp(r->last, key->name) < 0;
    snprintf(r->last, sizeof r->last, "%s", key->name);
    r->count++;
    return TIDE_OK;
}

static roll list(store_test *t, const char *status, const char *task_id, int64_t limit)
{
    roll r = {.is_sorted = true};
    assert_ok_err(tide_idempotency_list(
                      t->store,
                      &(tide_idempotency_filter){TIDE_IDEMPOTENCY_FILTER_INIT, .status = status,
                                                 .task_id = task_id, .limit = limit},
                      call_roll, &r, &t->err),
                  &t->err);
    assert_true(r.is_sorted);
    return r;
}

/* More keys than a page, by name, each once. */
static void the_list_is_sorted_and_whole(void **state)
{
    store_test *t = *state;
    assert_ok(plain_sql(t, t->store, "INSERT INTO tasks (task_id) VALUES ('t');"));
    enum { KEYS = 250 };
    for (int i = 0; i < KEYS; i++) {
        char key[32];
        snprintf(key, sizeof key, "key-%d", i * 7919 % KEYS);
        tide_idempotency_request r = request_of(key, HASH_A);
        r.task_id = i % 10 == 0 ? "t" : NULL;
        const int64_t token = begin_with(t, &r).token;
        if (i % 5 == 0)
            assert_ok(tide_idempotency_complete(t->store, key, token, tide_view_of(NULL), &t->err));
        else if (i % 5 == 1)
            assert_ok(
                tide_idempotency_fail(t->store, key, token, true, tide_view_of("x"), &t->err));
    }
    assert_int_equal(KEYS, list(t, NULL, NULL, 0).count);
    assert_int_equal(130, list(t, NULL, NULL, 130).count);
    assert_int_equal(KEYS / 5, list(t, "completed", NULL, 0).count);
    assert_int_equal(KEYS / 5, list(t, "failed", NULL, 0).count);
    assert_int_equal(KEYS * 3 / 5, list(t, "pending", NULL, 1000).count);
    assert_int_equal(KEYS / 10, list(t, NULL, "t", 0).count);
    assert_int_equal(0, list(t, "pending", "t", 0).count);
    roll r = {.is_sorted = true};
    assert_status(TIDE_E_INVALID,
                  tide_idempotency_list(
                      t->store,
                      &(tide_idempotency_filter){TIDE_IDEMPOTENCY_FILTER_INIT, .status = "done"},
                      call_roll, &r, &t->err));
    assert_status(
        TIDE_E_INVALID,
        tide_idempotency_list(t->store,
                              &(tide_idempotency_filter){TIDE_IDEMPOTENCY_FILTER_INIT, .limit = -1},
                              call_roll, &r, &t->err));
}

static void a_locked_key_is_deleted_only_by_force(void **state)
{
    store_test *t = *state;
    const int64_t first = begin_as(t, TIDE_IDEMPOTENCY_NEW);
    assert_status(TIDE_E_CONFLICT, tide_idempotency_delete(t->store, "job", false, &t->err));
    assert_contains(t->err.text, "tester");
    assert_ok_err(tide_idempotency_delete(t->store, "job", true, &t->err), &t->err);
    assert_status(TIDE_E_NOT_FOUND, tide_idempotency_delete(t->store, "job", true, &t->err));
    assert_status(TIDE_E_LEASE_LOST, complete(t, first, "x"));
}

static void a_key_that_nobody_holds_is_deleted(void **state)
{
    store_test *t = *state;
    assert_ok(complete(t, begin_as(t, TIDE_IDEMPOTENCY_NEW), "1"));
    assert_ok_err(tide_idempotency_delete(t->store, "job", false, &t->err), &t->err);
    (void)begin_as(t, TIDE_IDEMPOTENCY_NEW);
    virtual_env_advance(&t->clock, LOCK_US);
    assert_ok_err(tide_idempotency_delete(t->store, "job", false, &t->err), &t->err);
}

/* A stalled holder must not pass for the holder of a later key of the same name: tokens rise over removals. */
static void a_key_made_again_has_a_higher_token(void **state)
{
    store_test *t = *state;
    const int64_t first = begin_as(t, TIDE_IDEMPOTENCY_NEW);
    assert_ok_err(tide_idempotency_delete(t->store, "job", true, &t->err), &t->err);
    const int64_t second = begin_as(t, TIDE_IDEMPOTENCY_NEW);
    assert_true(second > first);
    assert_status(TIDE_E_LEASE_LOST, complete(t, first, "stale"));
    virtual_env_advance(&t->clock, EXPIRY_US + LOCK_US);
    int64_t removed = 0;
    assert_ok_err(tide_idempotency_clean(t->store, 0, &removed, &t->err), &t->err);
    assert_int_equal(1, removed);
    const int64_t third = begin_as(t, TIDE_IDEMPOTENCY_NEW);
    assert_true(third > second);
    assert_status(TIDE_E_LEASE_LOST, complete(t, second, "stale"));
    assert_status(TIDE_E_LEASE_LOST, tide_idempotency_renew(t->store, "job", second, 0, &t->err));
    assert_ok(complete(t, third, "fresh"));
    assert_ok(plain_sql(t, t->store, "DELETE FROM idempotency_keys;"));
    assert_true(begin_as(t, TIDE_IDEMPOTENCY_NEW) > third);
}

static int64_t clean(store_test *t, int64_t keep_us)
{
    int64_t removed = -1;
    assert_ok_err(tide_idempotency_clean(t->store, keep_us, &removed, &t->err), &t->err);
    return removed;
}

/* Cleaning never touches a key in use, however long it has been expired. */
static void cleaning_leaves_a_live_lock_alone(void **state)
{
    store_test *t = *state;
    tide_idempotency_request r = request_of("job", HASH_A);
    r.lock_us = 3 * EXPIRY_US;
    const int64_t token = begin_with(t, &r).token;
    virtual_env_advance(&t->clock, 2 * EXPIRY_US);
    assert_int_equal(0, clean(t, 0));
    assert_int_equal(0, clean(t, 1));
    assert_true(find(t, "job").key.is_locked);
    virtual_env_advance(&t->clock, EXPIRY_US);
    assert_int_equal(1, clean(t, 0));
    assert_status(TIDE_E_LEASE_LOST, complete(t, token, "x"));
}

/* In steps of bounded size, to the end. */
static void cleaning_goes_on_until_nothing_is_left(void **state)
{
    store_test *t = *state;
    assert_ok_err(
        plain_sql(t, t->store,
                  t->engine == TIDE_ENGINE_SQLITE
                      ? "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < "
                        "1203) INSERT INTO idempotency_keys (idempotency_key, request_hash, "
                        "status, expires_at) SELECT 'k' || i, 'h', 'completed', '2024-06-01 "
                        "00:00:00' FROM n;"
                      : "INSERT INTO idempotency_keys (idempotency_key, request_hash, status, "
                        "expires_at) SELECT 'k' || i, 'h', 'completed', '2024-06-01 00:00:00+00' "
                        "FROM generate_series(1, 1203) i;"),
        &t->err);
    assert_ok(complete(t, begin_as(t, TIDE_IDEMPOTENCY_NEW), "1"));
    assert_int_equal(1203, clean(t, 0));
    assert_int_equal(0, clean(t, 0));
    assert_int_equal(1, list(t, NULL, NULL, 0).count);
}

/* By default an answer stays as long as its key says; who says otherwise is obeyed. */
static void completed_keys_go_when_they_are_old_enough(void **state)
{
    store_test *t = *state;
    tide_idempotency_request r = request_of("job", HASH_A);
    r.expiry_us = 30 * TIDE_IDEMPOTENCY_EXPIRY_US;
    assert_ok(complete(t, begin_with(t, &r).token, "1"));
    assert_ok_err(plain_sql(t, t->store,
                            "INSERT INTO idempotency_keys (idempotency_key, request_hash, status, "
                            "created_at, completed_at) VALUES ('plain', 'h', 'completed', "
                            "'2025-01-01 00:00:00', '2025-01-01 00:00:00');"),
                  &t->err);
    virtual_env_advance(&t->clock, TIDE_IDEMPOTENCY_KEEP_US - SECOND_US);
    assert_int_equal(0, clean(t, 0));
    virtual_env_advance(&t->clock, SECOND_US);
    assert_int_equal(1, clean(t, 0));
    assert_replay(t, "1", false);
    assert_int_equal(0, clean(t, 8 * TIDE_IDEMPOTENCY_EXPIRY_US));
    assert_int_equal(1, clean(t, 6 * TIDE_IDEMPOTENCY_EXPIRY_US));
    assert_status(TIDE_E_INVALID, tide_idempotency_clean(t->store, -1, NULL, &t->err));
}

/* ---- memory that runs out ---- */

typedef struct shortage {
    tide_store *store;
    int runs;
} shortage;

static void check_shortage(tide_status status)
{
    if (status < TIDE_OK && status != TIDE_E_NOMEM && status != TIDE_E_OUTCOME_UNKNOWN)
        fail_msg("memory ran out, and it was called %s", tide_status_get(status)->name);
}

/* Whatever fails says so, and what does not fail is right; the sanitizer looks for what is left behind. */
static void live_through(void *arg)
{
    shortage *s = arg;
    char key[32];
    snprintf(key, sizeof key, "key-%d", s->runs++);
    const tide_idempotency_request r = request_of(key, HASH_A);
    tide_idempotency_state state = {.token = 0};
    tide_status status = tide_idempotency_begin(s->store, &r, &state, NULL);
    check_shortage(status);
    if (status != TIDE_OK)
        return;
    assert_int_equal(TIDE_IDEMPOTENCY_NEW, state.outcome);
    status = tide_idempotency_complete(s->store, key, state.token, tide_view_of("answer"), NULL);
    check_shortage(status);
    const bool is_stored = status == TIDE_OK;
    status = tide_idempotency_begin(s->store, &r, &state, NULL);
    check_shortage(status);
    if (status == TIDE_OK && is_stored)
        assert_string_equal("answer", state.response);
    tide_idempotency_state_done(&state);
    seen_key seen = {.count = 0};
    check_shortage(tide_idempotency_find(s->store, key, note_key, &seen, NULL));
    check_shortage(tide_idempotency_list(
        s->store, &(tide_idempotency_filter){TIDE_IDEMPOTENCY_FILTER_INIT, .limit = 3}, note_key,
        &seen, NULL));
}

static void a_shortage_of_memory_is_said_and_does_no_harm(void **state)
{
    store_test *t = *state;
    tide_store_options options = store_test_options(t);
    options.is_inline = true;
    shortage s = {.store = store_test_open_with(t, options)};
    live_through(&s); /* statements are prepared once */
    ALLOC_FAULT_SWEEP(live_through, &s, 5000);
    alloc_fault_off();
    assert_ok(complete(t, begin_as(t, TIDE_IDEMPOTENCY_NEW), "1"));
    assert_replay(t, "1", false);
}

/* ---- plain SQL; its triggers go by the real clock, so these stores do too ---- */

static const char insert_pending[] =
    "INSERT INTO idempotency_keys (idempotency_key, request_hash, status) VALUES ('job', '" HASH_A
    "', 'pending');";

static void use_real_clock(store_test *t)
{
    tide_store *real = store_test_open_real(t);
    tide_store *virtual = t->store;
    t->store = real;
    for (int i = 0; i < t->other_count; i++)
        if (t->others[i] == real)
            t->others[i] = virtual;
}

static void a_key_of_plain_sql_is_in_progress_and_then_answered(void **state)
{
    store_test *t = *state;
    use_real_clock(t);
    assert_ok_err(plain_sql(t, t->store, insert_pending), &t->err);
    const tide_idempotency_state busy = begin_job(t, HASH_A);
    assert_int_equal(TIDE_IDEMPOTENCY_IN_PROGRESS, busy.outcome);
    assert_string_equal("", busy.holder);
    assert_int_equal(TIDE_IDEMPOTENCY_MISMATCH, begin_job(t, HASH_B).outcome);
    assert_ok_err(plain_sql(t, t->store,
                            "UPDATE idempotency_keys SET status = 'completed', response_data = "
                            "'{\"result\":\"ok\"}', completed_at = CURRENT_TIMESTAMP WHERE "
                            "idempotency_key = 'job';"),
                  &t->err);
    assert_replay(t, "{\"result\":\"ok\"}", false);
}

/* A token of ours never ends a lock that plain SQL holds. */
static void no_token_completes_a_key_that_plain_sql_holds(void **state)
{
    store_test *t = *state;
    use_real_clock(t);
    assert_ok(plain_sql(t, t->store, insert_pending));
    const int64_t token = find(t, "job").key.lock_token;
    assert_true(token > 0);
    assert_status(TIDE_E_LEASE_LOST, complete(t, token, "x"));
    assert_status(TIDE_E_LEASE_LOST, fail_job(t, token, false, NULL));
    assert_status(TIDE_E_LEASE_LOST, tide_idempotency_renew(t->store, "job", token, 0, &t->err));
}

/* After five minutes the library takes over, and plain SQL is refused from then on. */
static void a_key_of_plain_sql_is_taken_over_after_its_lock(void **state)
{
    store_test *t = *state;
    use_real_clock(t);
    assert_ok(plain_sql(t, t->store, insert_pending));
    const int64_t before = find(t, "job").key.lock_token;
    assert_ok_err(plain_sql(t, t->store,
                            "UPDATE idempotency_keys SET lock_expires_at = '2025-01-01 00:00:00' "
                            "WHERE idempotency_key = 'job';"),
                  &t->err);
    const int64_t token = begin_as(t, TIDE_IDEMPOTENCY_TAKEOVER);
    assert_true(token > before);
    assert_true(plain_sql(t, t->store,
                          "UPDATE idempotency_keys SET status = 'completed' WHERE idempotency_key "
                          "= 'job';") < TIDE_OK);
    assert_contains(t->err.text, "token");
    assert_ok(complete(t, token, "ours"));
    assert_true(plain_sql(t, t->store,
                          "UPDATE idempotency_keys SET response_data = 'theirs' WHERE "
                          "idempotency_key = 'job';") < TIDE_OK);
    assert_replay(t, "ours", false);
}

/* The recovery document's own clean-up statement spares a key in use. */
static void plain_sql_does_not_clean_a_key_in_use(void **state)
{
    store_test *t = *state;
    use_real_clock(t);
    tide_idempotency_request r = request_of("job", HASH_A);
    r.expiry_us = 1;
    const int64_t token = begin_with(t, &r).token;
    assert_ok_err(plain_sql(t, t->store,
                            "DELETE FROM idempotency_keys WHERE expires_at <= CURRENT_TIMESTAMP;"),
                  &t->err);
    assert_ok_err(complete(t, token, "x"), &t->err);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        STORE_CASE(a_key_is_shown_with_everything_it_has),
        STORE_CASE(what_is_not_there_or_expired_is_not_found),
        STORE_CASE(the_list_is_sorted_and_whole),
        STORE_CASE(a_locked_key_is_deleted_only_by_force),
        STORE_CASE(a_key_that_nobody_holds_is_deleted),
        STORE_CASE(a_key_made_again_has_a_higher_token),
        STORE_CASE(cleaning_leaves_a_live_lock_alone),
        STORE_CASE(cleaning_goes_on_until_nothing_is_left),
        STORE_CASE(completed_keys_go_when_they_are_old_enough),
        STORE_CASE_SQLITE(a_shortage_of_memory_is_said_and_does_no_harm),
        STORE_CASE(a_key_of_plain_sql_is_in_progress_and_then_answered),
        STORE_CASE(no_token_completes_a_key_that_plain_sql_holds),
        STORE_CASE(a_key_of_plain_sql_is_taken_over_after_its_lock),
        STORE_CASE(plain_sql_does_not_clean_a_key_in_use),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
