/* Resuming a task, and retention. */
#include "work/work_fixture.h"

#include <stdio.h>
#include <string.h>

typedef struct told {
    char items[256];
    char end[128]; /* its snapshot; "-" when there is none */
    int64_t next;
    char later[512];
    char responses[256];
    tide_task_lease lease;
} told;

static void join(char *out, size_t size, tide_view text)
{
    const size_t len = strlen(out);
    (void)snprintf(out + len, size - len, "%s%.*s", len ? " " : "", (int)text.len, text.ptr);
}

static tide_status tell_item(void *arg, const tide_work_item *item, tide_error *err)
{
    (void)err;
    told *r = arg;
    join(r->items, sizeof r->items, tide_view_of(item->work_item_id));
    return TIDE_OK;
}

static tide_status tell_iteration(void *arg, const tide_checkpoint *end, int64_t next,
                                  tide_error *err)
{
    (void)err;
    told *r = arg;
    r->next = next;
    join(r->end, sizeof r->end, end ? end->snapshot : tide_view_of("-"));
    return TIDE_OK;
}

static tide_status tell_later(void *arg, const tide_checkpoint *checkpoint, tide_error *err)
{
    (void)err;
    told *r = arg;
    join(r->later, sizeof r->later, checkpoint->snapshot);
    return TIDE_OK;
}

static tide_status tell_response(void *arg, const tide_idempotency_key *key, tide_error *err)
{
    (void)err;
    told *r = arg;
    join(r->responses, sizeof r->responses, tide_view_of(key->name));
    join(r->responses, sizeof r->responses,
         key->has_response ? key->response : tide_view_of("null"));
    return TIDE_OK;
}

static const tide_task_resume_fns fns = {TIDE_TASK_RESUME_FNS_INIT, .item = tell_item,
                                         .iteration = tell_iteration, .later = tell_later,
                                         .response = tell_response};

static tide_status try_resume(store_test *t, const char *task_id, const char *who, told *r)
{
    *r = (told){.next = -1};
    return tide_task_resume(t->store,
                            &(tide_task_resume_request){TIDE_TASK_RESUME_REQUEST_INIT,
                                                        .task_id = task_id, .holder = who,
                                                        .lease_us = LEASE_US},
                            &fns, r, &r->lease, &t->err);
}

static void append(store_test *t, const char *task_id, const char *type, const char *json)
{
    const tide_checkpoint_new checkpoint = {TIDE_CHECKPOINT_NEW_INIT, .task_id = task_id,
                                            .type = type, .snapshot = tide_view_of(json)};
    tide_checkpoint_numbers numbers;
    assert_ok_err(tide_journal_append(t->store, &checkpoint, &numbers, &t->err), &t->err);
}

static void answer(store_test *t, const char *key, const char *response)
{
    const tide_idempotency_request request = {TIDE_IDEMPOTENCY_REQUEST_INIT, .key = key,
                                              .request_hash = "sha256:x", .task_id = "t"};
    tide_idempotency_state state = {0};
    assert_ok_err(tide_idempotency_begin(t->store, &request, &state, &t->err), &t->err);
    if (response)
        assert_ok(
            tide_idempotency_complete(t->store, key, state.token, tide_view_of(response), &t->err));
    tide_idempotency_state_done(&state);
}

/* What was done after the last iteration_end is handed over, not run again. */
static void a_resumer_is_told_everything_it_needs(void **state)
{
    store_test *t = *state;
    told r;
    make_task(t, "t");
    add_item(t, "pending");
    virtual_env_advance(&t->clock, 1);
    add_item(t, "over");
    virtual_env_advance(&t->clock, 1);
    add_new(t, (tide_work_spec){TIDE_WORK_SPEC_INIT, .work_item_id = "held", .priority = -1});
    add_new(t, (tide_work_spec){TIDE_WORK_SPEC_INIT, .work_item_id = "done", .priority = -2});
    const tide_work_claim_request one = {TIDE_WORK_CLAIM_REQUEST_INIT, .limit = 1};
    held h[4];
    for (int i = 0; i < 4; i++)
        h[i] = claim_with(t->store, one);
    assert_ok(tide_work_release(t->store, h[0].id, h[0].token, 0, &t->err));
    assert_ok(finish(t, &h[3], NULL));
    append(t, "t", "iteration_end", "{\"iteration\":1}");
    append(t, "t", "tool_executed", "\"old tool\"");
    append(t, "t", "iteration_end", "{\"state\":{\"iteration\":99},\"iteration\":7}");
    append(t, "t", "tool_executed", "\"tool\"");
    append(t, "t", "manual_checkpoint", "\"not told\"");
    append(t, "t", "llm_response", "\"words\"");
    answer(t, "asked", "{\"x\":1}");
    answer(t, "open", NULL);
    virtual_env_advance(&t->clock, LEASE_US - SECOND_US);
    tide_work_ref ref = {TIDE_WORK_REF_INIT, .work_item_id = h[2].id, .token = h[2].token};
    assert_ok(tide_work_renew(t->store, &ref, 1, LEASE_US, &t->err));
    virtual_env_advance(&t->clock, SECOND_US);
    assert_ok_err(try_resume(t, "t", "resumer", &r), &t->err);
    assert_string_equal("pending over", r.items);
    assert_string_equal("{\"state\":{\"iteration\":99},\"iteration\":7}", r.end);
    assert_int_equal(8, r.next);
    assert_string_equal("\"tool\" \"words\"", r.later);
    assert_string_equal("asked {\"x\":1}", r.responses);
    assert_true(r.lease.token > 0);
    assert_true(r.lease.expires_at_us == VIRTUAL_ENV_WALL_US + 2 + 2 * LEASE_US);
}

/* A task lease keeps the second resumer out; the token fences like any other. */
static void the_second_resumer_is_kept_out(void **state)
{
    store_test *t = *state;
    told first;
    told second;
    make_task(t, "t");
    assert_ok(try_resume(t, "t", "one", &first));
    assert_status(TIDE_E_CONFLICT, try_resume(t, "t", "two", &second));
    assert_contains(t->err.text, "held by one");
    assert_int_equal(-1, second.next);
    virtual_env_advance(&t->clock, LEASE_US - SECOND_US);
    assert_ok_err(tide_task_renew(t->store, "t", first.lease.token, LEASE_US, &t->err), &t->err);
    virtual_env_advance(&t->clock, LEASE_US);
    assert_status(TIDE_E_LEASE_LOST,
                  tide_task_renew(t->store, "t", first.lease.token, LEASE_US, &t->err));
    assert_ok(try_resume(t, "t", "two", &second));
    assert_true(second.lease.token > first.lease.token);
    assert_status(TIDE_E_LEASE_LOST,
                  tide_task_release(t->store, "t", first.lease.token, false, &t->err));
    assert_ok(tide_task_release(t->store, "t", second.lease.token, false, &t->err));
    assert_ok(try_resume(t, "t", "three", &first));
}

static void without_an_iteration_it_begins_at_one(void **state)
{
    store_test *t = *state;
    told r;
    make_task(t, "t");
    append(t, "t", "tool_executed", "\"early\"");
    assert_ok(try_resume(t, "t", "r", &r));
    assert_string_equal("-", r.end);
    assert_int_equal(1, r.next);
    assert_string_equal("\"early\"", r.later);
    assert_ok(tide_task_release(t->store, "t", r.lease.token, false, &t->err));
    /* States that do not say their number are counted. */
    append(t, "t", "iteration_end", "[1]");
    append(t, "t", "iteration_end", "{\"iteration\":\"two\"}");
    append(t, "t", "iteration_end", "{\"iteration\":99999999999999999999}"); /* no int64_t */
    assert_ok(try_resume(t, "t", "r", &r));
    assert_int_equal(4, r.next);
    assert_string_equal("", r.later);
}

/* A fork goes on where its history leads. */
static void a_fork_resumes_from_what_it_shares(void **state)
{
    store_test *t = *state;
    told r;
    char fork[TIDE_JOURNAL_ID_MAX + 1];
    make_task(t, "t");
    append(t, "t", "iteration_end", "{\"iteration\":4}");
    append(t, "t", "tool_executed", "\"shared\"");
    const tide_checkpoint_new point = {TIDE_CHECKPOINT_NEW_INIT, .task_id = "t",
                                       .type = "manual_checkpoint", .snapshot = tide_view_of("{}")};
    tide_checkpoint_numbers numbers;
    assert_ok(tide_journal_append(t->store, &point, &numbers, &t->err));
    append(t, "t", "tool_executed", "\"not shared\"");
    assert_ok_err(tide_journal_fork(t->store, numbers.checkpoint_id, "f", NULL, fork, &t->err),
                  &t->err);
    append(t, "f", "llm_response", "\"own\"");
    assert_ok_err(try_resume(t, "f", "r", &r), &t->err);
    assert_int_equal(5, r.next);
    assert_string_equal("\"shared\" \"own\"", r.later);
}

static void more_than_a_page_is_handed_over(void **state)
{
    store_test *t = *state;
    told r;
    make_task(t, "t");
    append(t, "t", "iteration_end", "{\"iteration\":1}");
    for (int i = 0; i < 300; i++)
        append(t, "t", "tool_executed", "1");
    tide_task_lease lease = {0};
    const tide_task_resume_fns only_later = {TIDE_TASK_RESUME_FNS_INIT, .later = tell_later};
    r = (told){.next = 0};
    assert_ok_err(
        tide_task_resume(t->store,
                         &(tide_task_resume_request){TIDE_TASK_RESUME_REQUEST_INIT, .task_id = "t",
                                                     .holder = "r", .lease_us = LEASE_US},
                         &only_later, &r, &lease, &t->err),
        &t->err);
    assert_true(strlen(r.later) >= sizeof r.later - 2);
}

static void what_cannot_be_resumed_is_refused(void **state)
{
    store_test *t = *state;
    told r;
    make_task(t, "t");
    assert_status(TIDE_E_NOT_FOUND, try_resume(t, "none", "r", &r));
    assert_status(TIDE_E_INVALID, try_resume(t, "t", "", &r));
    assert_status(TIDE_E_INVALID, try_resume(t, "", "r", &r));
    assert_ok(tide_task_cancel(t->store, "t", &t->err));
    assert_status(TIDE_E_CONFLICT, try_resume(t, "t", "r", &r));
    assert_contains(t->err.text, "nothing to resume");
}

/* ---- retention ---- */

/* Ended items go after a while, live ones stay, checkpoints stay. */
static void ended_items_are_cleaned_in_steps(void **state)
{
    store_test *t = *state;
    enum { MANY = 1200 };
    make_task(t, "t");
    tide_work_spec items[600];
    tide_work_added added[600];
    for (int i = 0; i < 600; i++)
        items[i] = (tide_work_spec){TIDE_WORK_SPEC_INIT, .task_id = "t", .work_type = "job",
                                    .max_retries = -1};
    for (int n = 0; n < MANY; n += 600) {
        assert_ok(try_add(t, items, 600, added));
        tide_work_claims claims;
        const tide_work_claim_request request = {TIDE_WORK_CLAIM_REQUEST_INIT, .worker = "w",
                                                 .limit = 600};
        assert_ok(tide_work_claim(t->store, &request, &claims, &t->err));
        tide_work_result results[600];
        for (int i = 0; i < 600; i++)
            results[i] = (tide_work_result){TIDE_WORK_RESULT_INIT,
                                            .work_item_id = claims.items[i].work_item_id,
                                            .token = claims.items[i].lease_token};
        assert_ok_err(tide_work_finish_many(t->store, results, 600, &t->err), &t->err);
        tide_work_claims_done(&claims);
    }
    append(t, "t", "iteration_end", "{}");
    virtual_env_advance(&t->clock, 24 * 3600 * SECOND_US);
    add_item(t, "live");
    add_item(t, "young");
    const held live = claim(t, "w");
    const held young = claim(t, "w");
    assert_string_equal("live", live.id);
    assert_ok(fail_it(t, &young, "x", true));
    int64_t removed = -1;
    assert_ok_err(tide_work_clean(t->store, 0, &removed, &t->err), &t->err);
    assert_int_equal(0, removed);
    assert_ok_err(tide_work_clean(t->store, 3600 * SECOND_US, &removed, &t->err), &t->err);
    assert_int_equal(MANY, removed);
    assert_item(t, "live", "in_progress");
    assert_item(t, "young", "failed");
    assert_int_equal(1, count_checkpoints(t, "t"));
    assert_ok(finish(t, &live, NULL));
    assert_status(TIDE_E_INVALID, tide_work_clean(t->store, -1, &removed, &t->err));
}

/* A failed item is kept until those who depend on it have been told. */
static void a_failure_that_was_not_followed_up_is_kept(void **state)
{
    store_test *t = *state;
    int64_t removed = 0;
    make_task(t, "t");
    add_item(t, "a");
    const char *const on_a[] = {"a"};
    add_new(t, (tide_work_spec){TIDE_WORK_SPEC_INIT, .work_item_id = "b", .depends_on = on_a,
                                .depends_on_count = 1});
    const held a = claim(t, "w");
    assert_ok(fail_it(t, &a, "x", true));
    virtual_env_advance(&t->clock, 3600 * SECOND_US);
    assert_ok(tide_work_clean(t->store, SECOND_US, &removed, &t->err));
    assert_int_equal(0, removed);
    assert_int_equal(1, sweep(t).blocked);
    assert_item(t, "b", "failed");
    virtual_env_advance(&t->clock, 3600 * SECOND_US);
    assert_ok(tide_work_clean(t->store, SECOND_US, &removed, &t->err));
    assert_int_equal(2, removed);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        STORE_CASE(a_resumer_is_told_everything_it_needs),
        STORE_CASE(the_second_resumer_is_kept_out),
        STORE_CASE(without_an_iteration_it_begins_at_one),
        STORE_CASE(a_fork_resumes_from_what_it_shares),
        STORE_CASE(more_than_a_page_is_handed_over),
        STORE_CASE(what_cannot_be_resumed_is_refused),
        STORE_CASE(ended_items_are_cleaned_in_steps),
        STORE_CASE(a_failure_that_was_not_followed_up_is_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
