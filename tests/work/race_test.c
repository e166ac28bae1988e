/* Two transactions at once on PostgreSQL, in forced orders. (SQLite has one writer: there is no "at once".) */
#include "support/interleave.h"
#include "work/work_fixture.h"

#include <string.h>

#include "store/engine.h"

/* One who does something in a transaction and waits at step 1 before it ends. */
typedef struct actor {
    tide_store *store;
    interleave *x;
    int index;
    const char *script;         /* NULL: add */
    const tide_work_spec *item; /* NULL: none */
    bool is_failing;            /* rolls back in the end */
    tide_work_added added;
    tide_status status;
    tide_error err;
} actor;

static tide_status act(tide_tx *tx, void *arg, tide_error *err)
{
    actor *a = arg;
    if (a->script)
        TIDE_TRY(tx->store->ops->script(tx, a->script, err));
    if (a->item)
        TIDE_TRY(tide_work_add_in(tx, a->item, 1, &a->added, err));
    interleave_step(a->x, a->index, 1);
    return a->is_failing ? tide_fail(err, TIDE_E_MISMATCH, "as asked") : TIDE_OK;
}

static void run_actor(interleave *x, int index, void *arg)
{
    actor *a = arg;
    a->x = x;
    a->index = index;
    a->status = tide_store_write(a->store, act, a, &a->err);
}

/* One whole call. */
typedef struct call {
    tide_store *store;
    const held *finished;       /* finish it */
    const tide_work_spec *item; /* add it */
    const char *cancelled;      /* cancel this task */
    tide_work_added added;
    tide_status status;
    tide_error err;
} call;

static void run_call(interleave *x, int index, void *arg)
{
    (void)x;
    (void)index;
    call *c = arg;
    if (c->finished) {
        tide_work_result result = {TIDE_WORK_RESULT_INIT, .work_item_id = c->finished->id,
                                   .token = c->finished->token};
        c->status = tide_work_finish(c->store, &result, &c->err);
    } else if (c->item) {
        c->status = tide_work_add(c->store, c->item, 1, &c->added, &c->err);
    } else {
        c->status = tide_task_cancel(c->store, c->cancelled, &c->err);
    }
}

static void start(interleave *x, store_test *t, actor *a, call *c)
{
    interleave_init(x, t);
    a->store = store_test_open(t);
    (void)interleave_add(x, run_actor, a);
    if (!c)
        return;
    c->store = store_test_open(t);
    (void)interleave_add(x, run_call, c);
}

/* A waits at its step, the other is seen to wait for it; then both end. */
static void run_both(interleave *x)
{
    interleave_until(x, 0, 1);
    interleave_blocked(x, 1);
    interleave_finish(x, 0);
    interleave_finish(x, 1);
    interleave_done(x);
}

/* Never the same item. What one claimer has in hand, another passes by without waiting. */
static void a_claimer_passes_by_what_another_has_in_hand(void **state)
{
    store_test *t = *state;
    interleave x;
    const char *const two[] = {"job", "none"};
    actor a = {.script =
                   "SELECT 1 FROM work_items WHERE work_item_id IN ('a', 'b') FOR NO KEY UPDATE"};
    make_task(t, "t");
    const char *const ids[] = {"a", "b", "c", "d", "e"};
    for (int i = 0; i < 5; i++) {
        add_item(t, ids[i]);
        virtual_env_advance(&t->clock, 1);
    }
    start(&x, t, &a, NULL);
    interleave_until(&x, 0, 1);
    assert_string_equal("c", claim(t, "w").id);
    assert_string_equal(
        "d", claim_with(t->store, (tide_work_claim_request){TIDE_WORK_CLAIM_REQUEST_INIT,
                                                            .types = two, .type_count = 2})
                 .id);
    assert_string_equal(
        "e", claim_with(t->store,
                        (tide_work_claim_request){TIDE_WORK_CLAIM_REQUEST_INIT, .task_id = "t"})
                 .id);
    assert_true(claim(t, "w").token == 0);
    interleave_finish(&x, 0);
    interleave_done(&x);
    assert_string_equal("a", claim(t, "w").id);
}

/* The sweep meets a renewal that is under way, and leaves it alone. */
static void the_sweep_passes_by_a_renewal_under_way(void **state)
{
    store_test *t = *state;
    interleave x;
    actor a = {.script =
                   "UPDATE work_items SET lease_expires_at = lease_expires_at + interval '1 hour', "
                   "revision = revision + 1 WHERE work_item_id = 'a'"};
    make_task(t, "t");
    add_item(t, "a");
    add_item(t, "b");
    const held h = claim(t, "w");
    (void)claim(t, "w");
    virtual_env_advance(&t->clock, LEASE_US);
    start(&x, t, &a, NULL);
    interleave_until(&x, 0, 1);
    assert_int_equal(1, sweep(t).requeued);
    interleave_finish(&x, 0);
    interleave_done(&x);
    assert_int_equal(0, sweep(t).requeued);
    assert_item(t, "b", "pending");
    assert_ok_err(finish(t, &h, NULL), &t->err);
}

/* Two sweepers: each takes what the other has not in hand, and each item is taken once. */
static void two_sweepers_do_not_take_the_same_item(void **state)
{
    store_test *t = *state;
    interleave x;
    actor a = {.script = "SELECT 1 FROM work_items WHERE work_item_id = 'a' FOR NO KEY UPDATE"};
    make_task(t, "t");
    add_item(t, "a");
    add_item(t, "b");
    (void)claim(t, "w");
    (void)claim(t, "w");
    virtual_env_advance(&t->clock, LEASE_US);
    start(&x, t, &a, NULL);
    interleave_until(&x, 0, 1);
    assert_int_equal(1, sweep(t).requeued);
    interleave_finish(&x, 0);
    interleave_done(&x);
    assert_int_equal(1, sweep(t).requeued);
    assert_int_equal(1, look(t, "a").retry_count);
    assert_int_equal(1, look(t, "b").retry_count);
    assert_int_equal(2, count_checkpoints(t, "t"));
}

static const char *const on_a[] = {"a"};
static const tide_work_spec dependent = {
    TIDE_WORK_SPEC_INIT, .work_item_id = "d", .task_id = "t",       .work_type = "job",
    .max_retries = -1,   .depends_on = on_a,  .depends_on_count = 1};

/* The dependency completes while its dependent is being added: it waits for nothing that has happened already. */
static void a_dependent_waits_for_a_completion_under_way(void **state)
{
    store_test *t = *state;
    interleave x;
    actor a = {.script =
                   "UPDATE work_items SET status = 'completed', attempt_outcome = 'completed', "
                   "lease_holder = NULL, lease_expires_at = NULL, completed_at = now(), "
                   "updated_at = now(), revision = revision + 1 WHERE work_item_id = 'a'"};
    call c = {.item = &dependent};
    make_task(t, "t");
    add_item(t, "a");
    (void)claim(t, "w");
    start(&x, t, &a, &c);
    run_both(&x);
    assert_ok_err(a.status, &a.err);
    assert_ok_err(c.status, &c.err);
    assert_int_equal(0, look(t, "d").waits_for);
    assert_string_equal("d", claim(t, "w").id);
}

/* The other way round: who completes a dependency sees the dependent that was being added. */
static void a_completion_waits_for_a_dependent_being_added(void **state)
{
    store_test *t = *state;
    interleave x;
    actor a = {.item = &dependent};
    make_task(t, "t");
    add_item(t, "a");
    const held h = claim(t, "w");
    call c = {.finished = &h};
    start(&x, t, &a, &c);
    run_both(&x);
    assert_ok_err(a.status, &a.err);
    assert_ok_err(c.status, &c.err);
    assert_int_equal(0, look(t, "d").waits_for);
    assert_string_equal("d", claim(t, "w").id);
}

static const tide_work_spec unique = {TIDE_WORK_SPEC_INIT, .task_id = "t", .work_type = "job",
                                      .max_retries = -1, .unique_key = "only"};

/* Two who add the same unique key: the second gets the first one's item, or its own if the first gives up. */
static void one_of_two_makes_the_unique_item(void **state)
{
    store_test *t = *state;
    for (int is_failing = 0; is_failing < 2; is_failing++) {
        interleave x;
        char key[16] = "k0";
        key[1] = (char)('0' + is_failing);
        tide_work_spec item = unique;
        item.unique_key = key;
        actor a = {.item = &item, .is_failing = is_failing == 1};
        call c = {.item = &item};
        if (is_failing == 0)
            make_task(t, "t");
        start(&x, t, &a, &c);
        run_both(&x);
        assert_ok_err(c.status, &c.err);
        assert_true(c.added.is_existing == !is_failing);
        if (!is_failing)
            assert_string_equal(a.added.work_item_id, c.added.work_item_id);
    }
}

/* A task that is being cancelled while an item is added: the item does not survive it. */
static void cancelling_a_task_waits_for_items_being_added(void **state)
{
    store_test *t = *state;
    interleave x;
    const tide_work_spec item = {TIDE_WORK_SPEC_INIT, .work_item_id = "late", .task_id = "t",
                                 .work_type = "job", .max_retries = -1};
    actor a = {.item = &item};
    call c = {.cancelled = "t"};
    make_task(t, "t");
    start(&x, t, &a, &c);
    run_both(&x);
    assert_ok_err(c.status, &c.err);
    assert_string_equal("cancelled", look(t, "late").kind);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        STORE_CASE_POSTGRES(a_claimer_passes_by_what_another_has_in_hand),
        STORE_CASE_POSTGRES(the_sweep_passes_by_a_renewal_under_way),
        STORE_CASE_POSTGRES(two_sweepers_do_not_take_the_same_item),
        STORE_CASE_POSTGRES(a_dependent_waits_for_a_completion_under_way),
        STORE_CASE_POSTGRES(a_completion_waits_for_a_dependent_being_added),
        STORE_CASE_POSTGRES(one_of_two_makes_the_unique_item),
        STORE_CASE_POSTGRES(cancelling_a_task_waits_for_items_being_added),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
