/* Dependencies between items of a task: who waits, who is released, who fails with them. */
#include "work/work_fixture.h"

#include <stdio.h>
#include <string.h>

static const char *const job[] = {"job"};
static const tide_work_claim_request all_jobs = {TIDE_WORK_CLAIM_REQUEST_INIT, .types = job,
                                                 .type_count = 1, .limit = 100};

static tide_work_spec item_on(const char *id, const char *const *on, int count)
{
    return (tide_work_spec){TIDE_WORK_SPEC_INIT,      .work_item_id = id, .task_id = "t",
                            .work_type = "job",       .max_retries = -1,  .depends_on = on,
                            .depends_on_count = count};
}

static const char *const on_a[] = {"a"};
static const char *const on_b[] = {"b"};
static const char *const on_c[] = {"c"};
static const char *const on_ab[] = {"a", "b"};

static void add_on(store_test *t, const char *id, const char *const *on, int count)
{
    const tide_work_spec item = item_on(id, on, count);
    tide_work_added added;
    assert_ok_err(try_add(t, &item, 1, &added), &t->err);
}

static void an_item_waits_for_everything_it_depends_on(void **state)
{
    store_test *t = *state;
    char words[512];
    make_task(t, "t");
    add_item(t, "a");
    add_item(t, "b");
    add_on(t, "c", on_ab, 2);
    assert_int_equal(2, look(t, "c").waits_for);
    assert_true(look(t, "a").has_dependents);
    const held a = claim(t, "w");
    const held b = claim(t, "w");
    assert_true(claim(t, "w").token == 0);
    assert_string_equal("waiting", reasons_of(t, "c", words));
    assert_contains(words, "a (in_progress), b (in_progress)");
    assert_ok(finish(t, &a, NULL));
    assert_int_equal(1, look(t, "c").waits_for);
    assert_true(claim(t, "w").token == 0);
    assert_ok(finish(t, &b, NULL));
    assert_int_equal(0, look(t, "c").waits_for);
    assert_string_equal("c", claim(t, "w").id);
}

/* In one batch, in any order: earlier or later ones. */
static void a_whole_graph_goes_in_at_once(void **state)
{
    store_test *t = *state;
    make_task(t, "t");
    const tide_work_spec items[] = {item_on("d", on_c, 1), item_on("c", on_ab, 2),
                                    item_on("b", on_a, 1), item_on("a", NULL, 0)};
    tide_work_added added[4];
    assert_ok_err(try_add(t, items, 4, added), &t->err);
    const char *const order[] = {"a", "b", "c", "d"};
    for (int i = 0; i < 4; i++) {
        assert_string_equal(order[i], claim_ids(t->store, all_jobs));
        const held h = {.token = look(t, order[i]).token};
        tide_work_result result = {TIDE_WORK_RESULT_INIT, .work_item_id = order[i],
                                   .token = h.token};
        assert_ok_err(tide_work_finish_many(t->store, &result, 1, &t->err), &t->err);
    }
    assert_string_equal("", claim_ids(t->store, all_jobs));
}

static void a_completed_dependency_does_not_count(void **state)
{
    store_test *t = *state;
    make_task(t, "t");
    add_item(t, "a");
    const held a = claim(t, "w");
    assert_ok(finish(t, &a, NULL));
    add_on(t, "c", on_a, 1);
    assert_int_equal(0, look(t, "c").waits_for);
    assert_string_equal("c", claim(t, "w").id);
}

static void circles_are_refused_by_name(void **state)
{
    store_test *t = *state;
    make_task(t, "t");
    tide_work_added added[4];
    const tide_work_spec self = item_on("a", on_a, 1);
    assert_status(TIDE_E_CONFLICT, try_add(t, &self, 1, added));
    assert_contains(t->err.text, "circle");
    const tide_work_spec ring[] = {item_on("a", on_c, 1), item_on("b", on_a, 1),
                                   item_on("c", on_b, 1), item_on("outside", on_a, 1)};
    assert_status(TIDE_E_CONFLICT, try_add(t, ring, 4, added));
    assert_contains(t->err.text, "circle");
    assert_null(strstr(t->err.text, "outside"));
    for (int i = 0; i < 4; i++)
        assert_false(look(t, ring[i].work_item_id).is_there);
}

static void bad_dependencies_are_refused(void **state)
{
    store_test *t = *state;
    make_task(t, "t");
    make_task(t, "u");
    add_new(t, (tide_work_spec){TIDE_WORK_SPEC_INIT, .work_item_id = "a", .task_id = "u"});
    tide_work_added added[2];
    const tide_work_spec missing = item_on("c", on_b, 1);
    assert_status(TIDE_E_NOT_FOUND, try_add(t, &missing, 1, added));
    assert_contains(t->err.text, "no work item b");
    const tide_work_spec foreign = item_on("c", on_a, 1);
    assert_status(TIDE_E_INVALID, try_add(t, &foreign, 1, added));
    assert_contains(t->err.text, "another task");
    tide_work_spec pair[2] = {item_on("x", NULL, 0), item_on("c", on_b, 1)};
    pair[0].work_item_id = "b";
    pair[0].task_id = "u";
    assert_status(TIDE_E_INVALID, try_add(t, pair, 2, added));
    add_item(t, "b");
    const held b = claim_with(
        t->store, (tide_work_claim_request){TIDE_WORK_CLAIM_REQUEST_INIT, .task_id = "t"});
    assert_ok(fail_it(t, &b, "no", true));
    assert_status(TIDE_E_CONFLICT, try_add(t, &missing, 1, added));
    assert_contains(t->err.text, "has failed");
    assert_false(look(t, "c").is_there);
}

/* A failed dependency fails its dependents, and theirs: by the sweep, whoever failed it. */
static void a_failure_spreads_to_all_who_wait(void **state)
{
    store_test *t = *state;
    make_task(t, "t");
    add_item(t, "a");
    add_on(t, "b", on_a, 1);
    add_on(t, "c", on_b, 1);
    add_on(t, "d", on_c, 1);
    add_item(t, "free");
    const held a = claim(t, "w");
    assert_ok(fail_it(t, &a, "broken", true));
    const tide_work_swept swept = sweep(t);
    assert_int_equal(3, swept.blocked);
    const item_copy b = look(t, "b");
    assert_string_equal("failed", b.status);
    assert_string_equal("dependency", b.kind);
    assert_contains(b.error, "a, which failed");
    assert_contains(look(t, "d").error, "c, which failed");
    assert_item(t, "free", "pending");
    assert_int_equal(0, sweep(t).blocked);
    assert_false(look(t, "a").has_dependents);
}

static void a_cancelled_dependency_spreads_too_and_in_bounded_steps(void **state)
{
    store_test *t = *state;
    make_task(t, "t");
    add_item(t, "a");
    for (int i = 0; i < 25; i++) {
        char id[8];
        (void)snprintf(id, sizeof id, "d%02d", i);
        add_on(t, id, on_a, 1);
    }
    assert_ok(tide_work_cancel(t->store, "a", NULL, &t->err));
    tide_work_swept swept;
    int64_t blocked = 0;
    int turns = 0;
    do {
        assert_ok_err(tide_work_sweep(t->store, 10, 0, &swept, &t->err), &t->err);
        assert_true(swept.blocked <= 10);
        blocked += swept.blocked;
    } while (swept.has_more && ++turns < 10);
    assert_int_equal(25, blocked);
    assert_item(t, "d24", "failed");
}

static void what_others_wait_for_cannot_be_deleted(void **state)
{
    store_test *t = *state;
    make_task(t, "t");
    add_item(t, "a");
    add_on(t, "b", on_a, 1);
    assert_status(TIDE_E_CONFLICT, tide_work_delete(t->store, "a", true, &t->err));
    assert_contains(t->err.text, "b depends on a");
    assert_ok(tide_work_cancel(t->store, "b", NULL, &t->err));
    assert_ok_err(tide_work_delete(t->store, "a", false, &t->err), &t->err);
}

/* Whoever sleeps is woken when the last dependency is completed. */
static void completing_a_dependency_wakes_the_dependents_type(void **state)
{
    store_test *t = *state;
    make_task(t, "t");
    add_item(t, "a");
    tide_work_spec late = item_on("z", on_a, 1);
    tide_work_added added;
    late.work_type = "late";
    assert_ok(try_add(t, &late, 1, &added));
    char topic[64];
    tide_watch *watch = NULL;
    tide_work_topic(topic, "late");
    const held a = claim(t, "w");
    assert_ok(tide_watch_open(&watch, t->store, topic, &t->err));
    assert_ok(finish(t, &a, NULL));
    assert_ok(tide_watch_wait(watch, 10 * SECOND_US, &t->err));
    tide_watch_close(watch);
}

/* An item that is marked as waiting for nothing is explained, not left as a riddle. */
static void waiting_for_nothing_is_explained(void **state)
{
    store_test *t = *state;
    char words[512];
    make_task(t, "t");
    add_item(t, "a");
    run_sql(
        t, "UPDATE work_items SET waits_for = 3, revision = revision + 1 WHERE work_item_id = 'a'");
    assert_string_equal("waiting", reasons_of(t, "a", words));
    assert_contains(words, "depends on none");
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        STORE_CASE(an_item_waits_for_everything_it_depends_on),
        STORE_CASE(a_whole_graph_goes_in_at_once),
        STORE_CASE(a_completed_dependency_does_not_count),
        STORE_CASE(circles_are_refused_by_name),
        STORE_CASE(bad_dependencies_are_refused),
        STORE_CASE(a_failure_spreads_to_all_who_wait),
        STORE_CASE(a_cancelled_dependency_spreads_too_and_in_bounded_steps),
        STORE_CASE(what_others_wait_for_cannot_be_deleted),
        STORE_CASE(completing_a_dependency_wakes_the_dependents_type),
        STORE_CASE(waiting_for_nothing_is_explained),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
