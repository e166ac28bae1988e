/* Tasks: made, found, ended, removed with everything that is theirs. */
#include "work/work_fixture.h"

#include <stdio.h>
#include <string.h>

typedef struct task_copy {
    char id[TIDE_WORK_ID_MAX + 1];
    char title[64];
    char status[16];
    char metadata[64];
    int64_t pending, in_progress, completed, failed;
    int64_t last_sequence, created_at_us, completed_at_us;
} task_copy;

static tide_status copy_task(void *arg, const tide_task *task, tide_error *err)
{
    (void)err;
    task_copy *c = arg;
    (void)snprintf(c->id, sizeof c->id, "%s", task->task_id);
    (void)snprintf(c->title, sizeof c->title, "%s", task->title);
    (void)snprintf(c->status, sizeof c->status, "%s", task->status);
    (void)snprintf(c->metadata, sizeof c->metadata, "%s", task->metadata ? task->metadata : "");
    c->pending = task->pending;
    c->in_progress = task->in_progress;
    c->completed = task->completed;
    c->failed = task->failed;
    c->last_sequence = task->last_sequence;
    c->created_at_us = task->created_at_us;
    c->completed_at_us = task->completed_at_us;
    return TIDE_OK;
}

static task_copy find(store_test *t, const char *id)
{
    task_copy c = {.id = ""};
    const tide_status status = tide_task_find(t->store, id, copy_task, &c, &t->err);
    if (status != TIDE_NONE)
        assert_ok_err(status, &t->err);
    return c;
}

static tide_status join_id(void *arg, const tide_task *task, tide_error *err)
{
    (void)err;
    char *out = arg;
    const size_t len = strlen(out);
    (void)snprintf(out + len, 1024 - len, "%s%s", len ? " " : "", task->task_id);
    return TIDE_OK;
}

static void a_task_is_made_and_found(void **state)
{
    store_test *t = *state;
    char id[TIDE_WORK_ID_MAX + 1];
    const tide_task_new task = {TIDE_TASK_NEW_INIT, .title = "Process documents \xc3\xa4",
                                .metadata = "{\"a\":1}"};
    assert_ok_err(tide_task_create(t->store, &task, id, &t->err), &t->err);
    assert_int_equal(36, strlen(id));
    const task_copy c = find(t, id);
    assert_string_equal("Process documents \xc3\xa4", c.title);
    assert_string_equal("pending", c.status);
    assert_string_equal("{\"a\":1}", c.metadata);
    assert_true(c.created_at_us == VIRTUAL_ENV_WALL_US);
    assert_true(c.completed_at_us == 0);
    assert_string_equal("", find(t, "none").id);
}

static void an_id_is_taken_once(void **state)
{
    store_test *t = *state;
    char id[TIDE_WORK_ID_MAX + 1];
    make_task(t, "t");
    const tide_task_new again = {TIDE_TASK_NEW_INIT, .task_id = "t", .title = "other"};
    assert_status(TIDE_E_EXISTS, tide_task_create(t->store, &again, id, &t->err));
    assert_string_equal("A task", find(t, "t").title);
    const tide_task_new bad[] = {{TIDE_TASK_NEW_INIT, .task_id = ""},
                                 {TIDE_TASK_NEW_INIT, .task_id = "a\x01"},
                                 {TIDE_TASK_NEW_INIT, .title = "\xff"},
                                 {TIDE_TASK_NEW_INIT, .metadata = "{"}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_status(TIDE_E_INVALID, tide_task_create(t->store, &bad[i], id, &t->err));
}

static void tasks_are_listed_newest_first(void **state)
{
    store_test *t = *state;
    char ids[1024] = "";
    for (int i = 0; i < 5; i++) {
        char id[4];
        (void)snprintf(id, sizeof id, "t%d", i);
        make_task(t, id);
        virtual_env_advance(&t->clock, SECOND_US);
    }
    assert_ok(tide_task_cancel(t->store, "t3", &t->err));
    assert_ok(tide_task_list(t->store, NULL, 0, join_id, ids, &t->err));
    assert_string_equal("t4 t3 t2 t1 t0", ids);
    ids[0] = '\0';
    assert_ok(tide_task_list(t->store, NULL, 2, join_id, ids, &t->err));
    assert_string_equal("t4 t3", ids);
    ids[0] = '\0';
    assert_ok(tide_task_list(t->store, "pending", 9, join_id, ids, &t->err));
    assert_string_equal("t4 t2 t1 t0", ids);
    assert_status(TIDE_E_INVALID, tide_task_list(t->store, NULL, -1, join_id, ids, &t->err));
}

static tide_status count_task(void *arg, const tide_task *task, tide_error *err)
{
    (void)task;
    (void)err;
    ++*(int *)arg;
    return TIDE_OK;
}

/* More than one page, all made in the same moment. */
static void long_lists_are_complete(void **state)
{
    store_test *t = *state;
    enum { MANY = 450 };
    for (int i = 0; i < MANY; i++) {
        char id[8];
        (void)snprintf(id, sizeof id, "t%03d", i);
        make_task(t, id);
    }
    int count = 0;
    assert_ok(tide_task_list(t->store, NULL, 10000, count_task, &count, &t->err));
    assert_int_equal(MANY, count);
    count = 0;
    assert_ok(tide_task_list(t->store, NULL, 401, count_task, &count, &t->err));
    assert_int_equal(401, count);
}

static void items_are_counted_by_status(void **state)
{
    store_test *t = *state;
    make_task(t, "t");
    for (int i = 0; i < 4; i++) {
        char id[4];
        (void)snprintf(id, sizeof id, "i%d", i);
        add_item(t, id);
    }
    const held a = claim(t, "w");
    const held b = claim(t, "w");
    (void)claim(t, "w");
    assert_ok(finish(t, &a, NULL));
    assert_ok(fail_it(t, &b, "x", true));
    const task_copy c = find(t, "t");
    assert_int_equal(1, c.pending);
    assert_int_equal(1, c.in_progress);
    assert_int_equal(1, c.completed);
    assert_int_equal(1, c.failed);
    assert_string_equal("running", c.status);
}

/* Items of a cancelled task end with it; who holds one is fenced off. */
static void cancelling_a_task_ends_its_items(void **state)
{
    store_test *t = *state;
    make_task(t, "t");
    add_item(t, "held");
    add_item(t, "waiting");
    add_new(t,
            (tide_work_spec){TIDE_WORK_SPEC_INIT, .work_item_id = "late", .delay_us = MINUTE_US});
    const held h = claim(t, "w");
    assert_ok_err(tide_task_cancel(t->store, "t", &t->err), &t->err);
    assert_string_equal("cancelled", find(t, "t").status);
    const char *const ids[] = {"held", "waiting", "late"};
    for (int i = 0; i < 3; i++)
        assert_string_equal("cancelled", look(t, ids[i]).kind);
    assert_status(TIDE_E_LEASE_LOST, finish(t, &h, NULL));
    assert_string_equal("cancelled", outcomes_of(t, "held"));
    assert_ok(tide_task_cancel(t->store, "t", &t->err));
    assert_status(TIDE_E_CONFLICT, tide_task_finish(t->store, "t", false, false, &t->err));
    assert_status(TIDE_E_NOT_FOUND, tide_task_cancel(t->store, "none", &t->err));
    const tide_work_spec item = {TIDE_WORK_SPEC_INIT, .task_id = "t", .work_type = "job"};
    tide_work_added added;
    assert_status(TIDE_E_CONFLICT, try_add(t, &item, 1, &added));
}

static void a_task_is_finished_when_its_items_are(void **state)
{
    store_test *t = *state;
    make_task(t, "t");
    add_item(t, "a");
    add_item(t, "b");
    const held a = claim(t, "w");
    assert_status(TIDE_E_CONFLICT, tide_task_finish(t->store, "t", false, false, &t->err));
    assert_contains(t->err.text, "2 unfinished");
    assert_ok(finish(t, &a, NULL));
    assert_ok_err(tide_task_finish(t->store, "t", false, true, &t->err), &t->err);
    const task_copy c = find(t, "t");
    assert_string_equal("succeeded", c.status);
    assert_true(c.completed_at_us > 0);
    assert_string_equal("cancelled", look(t, "b").kind);
    assert_item(t, "a", "completed");
    assert_ok(tide_task_finish(t->store, "t", false, false, &t->err));
    assert_status(TIDE_E_CONFLICT, tide_task_finish(t->store, "t", true, false, &t->err));
    make_task(t, "u");
    assert_ok(tide_task_finish(t->store, "u", true, false, &t->err));
    assert_string_equal("failed", find(t, "u").status);
}

static void deleting_a_task_removes_everything_of_it(void **state)
{
    store_test *t = *state;
    make_task(t, "t");
    make_task(t, "u");
    add_item(t, "a");
    add_new(t, (tide_work_spec){TIDE_WORK_SPEC_INIT, .work_item_id = "other", .task_id = "u"});
    const held h = claim(t, "w");
    const tide_checkpoint_new checkpoint = {TIDE_CHECKPOINT_NEW_INIT, .type = "iteration_end",
                                            .snapshot = tide_view_of("{}")};
    tide_checkpoint_numbers numbers;
    assert_ok(tide_work_checkpoint(t->store, h.id, h.token, &checkpoint, &numbers, &t->err));
    assert_status(TIDE_E_CONFLICT, tide_task_delete(t->store, "t", false, &t->err));
    assert_contains(t->err.text, "in progress");
    assert_ok_err(tide_task_delete(t->store, "t", true, &t->err), &t->err);
    assert_string_equal("", find(t, "t").id);
    assert_false(look(t, "a").is_there);
    assert_string_equal("", outcomes_of(t, "a"));
    assert_item(t, "other", "pending");
    assert_status(TIDE_E_NOT_FOUND, tide_task_delete(t->store, "t", true, &t->err));
    /* The id may come again; tokens of its items do not. */
    make_task(t, "t");
    add_item(t, "a");
    const tide_work_claim_request of_t = {TIDE_WORK_CLAIM_REQUEST_INIT, .task_id = "t"};
    assert_true(claim_with(t->store, of_t).token > h.token);
    assert_status(TIDE_E_LEASE_LOST, finish(t, &h, NULL));
}

static void a_task_with_forks_stays(void **state)
{
    store_test *t = *state;
    make_task(t, "t");
    const tide_checkpoint_new checkpoint = {TIDE_CHECKPOINT_NEW_INIT, .task_id = "t",
                                            .type = "iteration_end",
                                            .snapshot = tide_view_of("{}")};
    tide_checkpoint_numbers numbers;
    assert_ok_err(tide_journal_append(t->store, &checkpoint, &numbers, &t->err), &t->err);
    char fork[TIDE_JOURNAL_ID_MAX + 1];
    assert_ok_err(tide_journal_fork(t->store, numbers.checkpoint_id, "f", NULL, fork, &t->err),
                  &t->err);
    assert_status(TIDE_E_CONFLICT, tide_task_delete(t->store, "t", true, &t->err));
    assert_contains(t->err.text, "fork");
    assert_ok_err(tide_task_delete(t->store, "f", false, &t->err), &t->err);
    assert_ok_err(tide_task_delete(t->store, "t", false, &t->err), &t->err);
}

static tide_status keep_event(void *arg, const tide_journal_event *event, tide_error *err)
{
    (void)err;
    tide_journal_event *last = arg;
    if (event->kind == TIDE_JOURNAL_CREATED)
        return TIDE_OK;
    assert_string_equal("t", event->task_id);
    *last = *event;
    last->task_id = NULL;
    return TIDE_OK;
}

/* Checkpoints that go with their task are deleted ones to whoever follows the journal. */
static void a_deleted_task_tells_the_followers_of_the_journal(void **state)
{
    store_test *t = *state;
    make_task(t, "none");
    make_task(t, "t");
    make_task(t, "other");
    const char *const tasks[] = {"other", "t", "other", "t", "t", "other"};
    for (int i = 0; i < 6; i++) {
        const tide_checkpoint_new row = {TIDE_CHECKPOINT_NEW_INIT, .task_id = tasks[i],
                                         .type = "manual_checkpoint",
                                         .snapshot = tide_view_of("{}")};
        tide_checkpoint_numbers numbers;
        assert_ok_err(tide_journal_append(t->store, &row, &numbers, &t->err), &t->err);
    }
    assert_ok_err(tide_task_delete(t->store, "none", false, &t->err), &t->err);
    assert_ok_err(tide_task_delete(t->store, "t", false, &t->err), &t->err);
    tide_journal_event event = {.count = 0};
    tide_journal_position position = {0};
    assert_ok_err(tide_journal_tail(
                      t->store, &position,
                      &(tide_journal_tail_options){TIDE_JOURNAL_TAIL_OPTIONS_INIT, .limit = 100},
                      keep_event, &event, &t->err),
                  &t->err);
    assert_int_equal(1, position.event_id);
    assert_int_equal(TIDE_JOURNAL_DELETED, event.kind);
    assert_int_equal(3, event.count);
    assert_int_equal(2, event.first_global);
    assert_int_equal(5, event.last_global);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        STORE_CASE(a_task_is_made_and_found),
        STORE_CASE(an_id_is_taken_once),
        STORE_CASE(tasks_are_listed_newest_first),
        STORE_CASE(long_lists_are_complete),
        STORE_CASE(items_are_counted_by_status),
        STORE_CASE(cancelling_a_task_ends_its_items),
        STORE_CASE(a_task_is_finished_when_its_items_are),
        STORE_CASE(deleting_a_task_removes_everything_of_it),
        STORE_CASE(a_task_with_forks_stays),
        STORE_CASE(a_deleted_task_tells_the_followers_of_the_journal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
