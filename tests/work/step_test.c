/* Steps of a task: each has one result, whatever crashes in between. */
#include "work/work_fixture.h"

#include <stdio.h>
#include <string.h>

static int64_t resume(store_test *t)
{
    const tide_task_resume_fns fns = {TIDE_TASK_RESUME_FNS_INIT};
    const tide_task_resume_request request = {TIDE_TASK_RESUME_REQUEST_INIT, .task_id = "t",
                                              .holder = "resumer", .lease_us = LEASE_US};
    tide_task_lease lease = {0};
    assert_ok_err(tide_task_resume(t->store, &request, &fns, NULL, &lease, &t->err), &t->err);
    return lease.token;
}

static tide_task_step step_of(const char *name, int64_t token)
{
    return (tide_task_step){TIDE_TASK_STEP_INIT, .task_id = "t", .name = name, .token = token};
}

/* The step token; 0 when it is done, and then its result is in `result`. */
static int64_t begin(store_test *t, const char *name, int64_t token, char result[64])
{
    const tide_task_step step = step_of(name, token);
    tide_task_step_state state = {.is_done = false};
    assert_ok_err(tide_task_step_begin(t->store, &step, &state, &t->err), &t->err);
    char key[128];
    (void)snprintf(key, sizeof key, "step/t/%s", name);
    assert_string_equal(key, state.key);
    assert_true(state.is_done == (state.step_token == 0));
    (void)snprintf(result, 64, "%s", state.result ? state.result : "");
    const int64_t step_token = state.step_token;
    tide_task_step_state_done(&state);
    return step_token;
}

static tide_status complete(store_test *t, const char *name, int64_t token, int64_t step_token,
                            const char *result, tide_checkpoint_numbers *numbers)
{
    tide_task_step step = step_of(name, token);
    step.step_token = step_token;
    step.result = tide_view_of(result);
    return tide_task_step_complete(t->store, &step, numbers, &t->err);
}

static void a_completed_step_answers_with_its_result(void **state)
{
    store_test *t = *state;
    char result[64];
    tide_checkpoint_numbers first;
    tide_checkpoint_numbers again;
    make_task(t, "t");
    const int64_t token = resume(t);
    const int64_t step_token = begin(t, "charge", token, result);
    assert_true(step_token > 0);
    assert_ok_err(complete(t, "charge", token, step_token, "{\"paid\":1}", &first), &t->err);
    assert_int_equal(1, count_checkpoints(t, "t"));
    assert_int_equal(0, begin(t, "charge", token, result));
    assert_string_equal("{\"paid\":1}", result);
    /* An answer that was lost: the same call records nothing. */
    assert_ok_err(complete(t, "charge", token, step_token, "{\"paid\":1}", &again), &t->err);
    assert_true(again.is_existing);
    assert_int_equal(first.global_sequence, again.global_sequence);
    assert_status(TIDE_E_MISMATCH,
                  complete(t, "charge", token, step_token, "{\"paid\":2}", &again));
    assert_true(begin(t, "other", token, result) > 0);
    assert_int_equal(1, count_checkpoints(t, "t"));
}

/* The resumer died between begin and complete: the next one runs it, and the dead one can record nothing. */
static void the_next_resumer_runs_what_was_not_completed(void **state)
{
    store_test *t = *state;
    char result[64];
    tide_checkpoint_numbers numbers;
    make_task(t, "t");
    const int64_t stalled = resume(t);
    const int64_t old = begin(t, "charge", stalled, result);
    virtual_env_advance(&t->clock, LEASE_US);
    const int64_t token = resume(t);
    const tide_task_step step = step_of("charge", stalled);
    tide_task_step_state refused = {.is_done = false};
    assert_status(TIDE_E_LEASE_LOST, tide_task_step_begin(t->store, &step, &refused, &t->err));
    const int64_t step_token = begin(t, "charge", token, result);
    assert_true(step_token > old);
    assert_status(TIDE_E_LEASE_LOST, complete(t, "charge", stalled, old, "1", &numbers));
    assert_status(TIDE_E_LEASE_LOST, complete(t, "charge", token, old, "1", &numbers));
    assert_int_equal(0, count_checkpoints(t, "t"));
    assert_ok_err(complete(t, "charge", token, step_token, "2", &numbers), &t->err);
    assert_int_equal(0, begin(t, "charge", token, result));
    assert_string_equal("2", result);
    assert_int_equal(1, count_checkpoints(t, "t"));
}

static void a_task_made_again_begins_its_steps_again(void **state)
{
    store_test *t = *state;
    char result[64];
    tide_checkpoint_numbers numbers;
    make_task(t, "t");
    int64_t token = resume(t);
    const int64_t step_token = begin(t, "charge", token, result);
    assert_ok_err(complete(t, "charge", token, step_token, "1", &numbers), &t->err);
    (void)begin(t, "open", token, result);
    assert_ok(tide_task_release(t->store, "t", token, false, &t->err));
    assert_ok_err(tide_task_delete(t->store, "t", true, &t->err), &t->err);
    make_task(t, "t");
    token = resume(t);
    assert_true(begin(t, "charge", token, result) > 0);
    assert_true(begin(t, "open", token, result) > 0);
}

static void bad_steps_are_refused(void **state)
{
    store_test *t = *state;
    char result[64];
    tide_checkpoint_numbers numbers;
    tide_task_step_state out = {.is_done = false};
    make_task(t, "t");
    const int64_t token = resume(t);
    tide_task_step bad[] = {step_of("", token), step_of("a/b", token), step_of("a\nb", token),
                            step_of("a", 0)};
    for (int i = 0; i < 4; i++)
        assert_status(TIDE_E_INVALID, tide_task_step_begin(t->store, &bad[i], &out, &t->err));
    tide_task_step nowhere = step_of("a", token);
    nowhere.task_id = "none";
    assert_status(TIDE_E_NOT_FOUND, tide_task_step_begin(t->store, &nowhere, &out, &t->err));
    const int64_t step_token = begin(t, "a", token, result);
    assert_status(TIDE_E_INVALID, complete(t, "a", token, step_token, "not json", &numbers));
    assert_status(TIDE_E_LEASE_LOST, complete(t, "never begun", token, 1, "1", &numbers));
    assert_int_equal(0, count_checkpoints(t, "t"));
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        STORE_CASE(a_completed_step_answers_with_its_result),
        STORE_CASE(the_next_resumer_runs_what_was_not_completed),
        STORE_CASE(a_task_made_again_begins_its_steps_again),
        STORE_CASE(bad_steps_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
