/* A task's lease fences the checkpoints of the task. */
#include "work/work_fixture.h"

#include <string.h>

static tide_status no_iteration(void *arg, const tide_checkpoint *newest_end,
                                int64_t next_iteration, tide_error *err)
{
    (void)arg;
    (void)newest_end;
    (void)next_iteration;
    (void)err;
    return TIDE_OK;
}

static int64_t resume(store_test *t, const char *holder)
{
    const tide_task_resume_fns fns = {TIDE_TASK_RESUME_FNS_INIT, .iteration = no_iteration};
    const tide_task_resume_request request = {TIDE_TASK_RESUME_REQUEST_INIT, .task_id = "t",
                                              .holder = holder, .lease_us = LEASE_US};
    tide_task_lease lease = {0};
    assert_ok_err(tide_task_resume(t->store, &request, &fns, NULL, &lease, &t->err), &t->err);
    return lease.token;
}

static tide_checkpoint_new checkpoint_of(const char *task_id, int64_t token)
{
    return (tide_checkpoint_new){TIDE_CHECKPOINT_NEW_INIT, .task_id = task_id,
                                 .type = "tool_executed", .snapshot = tide_view_of("{}"),
                                 .token = token};
}

static tide_status append_with(store_test *t, tide_checkpoint_new checkpoint)
{
    tide_checkpoint_numbers numbers;
    return tide_journal_append(t->store, &checkpoint, &numbers, &t->err);
}

static tide_status append(store_test *t, int64_t token)
{
    return append_with(t, checkpoint_of("t", token));
}

static tide_status append_all(tide_tx *tx, void *arg, tide_error *err)
{
    tide_checkpoint_numbers numbers[2];
    return tide_journal_append_in(tx, arg, 2, numbers, err);
}

/* The first of two is of another task, which is free. */
static tide_status append_two(store_test *t, int64_t token)
{
    tide_checkpoint_new both[] = {checkpoint_of("other", 0), checkpoint_of("t", token)};
    return tide_store_write(t->store, append_all, both, &t->err);
}

static void a_stale_token_writes_nothing(void **state)
{
    store_test *t = *state;
    make_task(t, "t");
    const int64_t stalled = resume(t, "stalled");
    assert_ok_err(append(t, stalled), &t->err);
    virtual_env_advance(&t->clock, LEASE_US);
    assert_status(TIDE_E_LEASE_LOST, append(t, stalled)); /* also before the next resumer */
    const int64_t next = resume(t, "next");
    assert_status(TIDE_E_LEASE_LOST, append(t, stalled));
    assert_contains(t->err.text, "does not hold task t");
    assert_int_equal(1, count_checkpoints(t, "t"));
    assert_ok_err(append(t, next), &t->err);
    assert_int_equal(2, count_checkpoints(t, "t"));
}

static void without_a_token_appends_wait_for_the_end_of_the_lease(void **state)
{
    store_test *t = *state;
    make_task(t, "t");
    assert_ok_err(append(t, 0), &t->err);
    const int64_t token = resume(t, "resumer");
    assert_status(TIDE_E_CONFLICT, append(t, 0));
    assert_contains(t->err.text, "held by resumer");
    assert_ok(tide_task_release(t->store, "t", token, false, &t->err));
    assert_ok_err(append(t, 0), &t->err);
    (void)resume(t, "resumer");
    assert_status(TIDE_E_CONFLICT, append(t, 0));
    virtual_env_advance(&t->clock, LEASE_US);
    assert_ok_err(append(t, 0), &t->err);
    assert_int_equal(3, count_checkpoints(t, "t"));
}

/* Tags, ids and large snapshots take another way through the store. */
static void every_form_of_append_is_fenced(void **state)
{
    store_test *t = *state;
    static char large[TIDE_JOURNAL_INLINE_MAX + 100];
    memset(large, '1', sizeof large - 1);
    make_task(t, "t");
    make_task(t, "other");
    const char *const tags[] = {"tag"};
    tide_checkpoint_new forms[] = {checkpoint_of("t", 0), checkpoint_of("t", 0),
                                   checkpoint_of("t", 0)};
    forms[0].tags = tags, forms[0].tag_count = 1;
    forms[1].checkpoint_id = "named";
    forms[2].snapshot = tide_view_of(large), forms[2].is_text = true;
    const int64_t token = resume(t, "resumer");
    for (int i = 0; i < 3; i++) {
        forms[i].token = 0;
        assert_status(TIDE_E_CONFLICT, append_with(t, forms[i]));
        forms[i].token = token - 1;
        assert_status(TIDE_E_LEASE_LOST, append_with(t, forms[i]));
        forms[i].token = token;
        assert_ok_err(append_with(t, forms[i]), &t->err);
    }
    assert_status(TIDE_E_CONFLICT, append_two(t, 0));
    assert_status(TIDE_E_LEASE_LOST, append_two(t, token - 1));
    assert_int_equal(0, count_checkpoints(t, "other"));
    assert_ok_err(append_two(t, token), &t->err);
    assert_int_equal(4, count_checkpoints(t, "t"));
    assert_status(TIDE_E_INVALID, append(t, -1));
}

/* Work on the task's items continues while the task is resumed. */
static void the_token_of_an_item_is_enough(void **state)
{
    store_test *t = *state;
    make_task(t, "t");
    add_item(t, "item");
    const held h = claim(t, "worker");
    (void)resume(t, "resumer");
    tide_checkpoint_new checkpoint = checkpoint_of("t", 0);
    checkpoint.item_token = h.token;
    assert_status(TIDE_E_INVALID, append_with(t, checkpoint)); /* of which item? */
    checkpoint.work_item_id = "item";
    assert_ok_err(append_with(t, checkpoint), &t->err);
    tide_checkpoint_numbers numbers;
    assert_ok_err(tide_work_checkpoint(t->store, h.id, h.token, &checkpoint, &numbers, &t->err),
                  &t->err);
    checkpoint.item_token = h.token + 1;
    assert_status(TIDE_E_LEASE_LOST, append_with(t, checkpoint));
    assert_ok(finish(t, &h, NULL));
    checkpoint.item_token = h.token; /* the number of the task's token, too */
    assert_status(TIDE_E_LEASE_LOST, append_with(t, checkpoint));
    assert_int_equal(2, count_checkpoints(t, "t"));
}

static void an_item_of_another_task_is_refused(void **state)
{
    store_test *t = *state;
    make_task(t, "t");
    make_task(t, "other");
    add_item(t, "item");
    tide_checkpoint_new checkpoint = checkpoint_of("other", 0);
    checkpoint.work_item_id = "item";
    assert_status(TIDE_E_INVALID, append_with(t, checkpoint));
    assert_contains(t->err.text, "belongs to task t");
    checkpoint.work_item_id = "none";
    assert_status(TIDE_E_NOT_FOUND, append_with(t, checkpoint));
    assert_int_equal(0, count_checkpoints(t, "other"));
}

static void a_forced_release_ends_any_lease(void **state)
{
    store_test *t = *state;
    make_task(t, "t");
    assert_ok_err(tide_task_release(t->store, "t", 0, true, &t->err), &t->err); /* none is held */
    const int64_t token = resume(t, "gone");
    assert_ok_err(tide_task_release(t->store, "t", 0, true, &t->err), &t->err);
    assert_status(TIDE_E_LEASE_LOST, append(t, token));
    assert_status(TIDE_E_LEASE_LOST, tide_task_renew(t->store, "t", token, LEASE_US, &t->err));
    assert_ok_err(append(t, 0), &t->err);
    assert_true(resume(t, "next") > token);
    assert_status(TIDE_E_NOT_FOUND, tide_task_release(t->store, "none", 0, true, &t->err));
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        STORE_CASE(a_stale_token_writes_nothing),
        STORE_CASE(without_a_token_appends_wait_for_the_end_of_the_lease),
        STORE_CASE(every_form_of_append_is_fenced),
        STORE_CASE(the_token_of_an_item_is_enough),
        STORE_CASE(an_item_of_another_task_is_refused),
        STORE_CASE(a_forced_release_ends_any_lease),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
