/* What compaction may take and what it must leave: bounds, live items, and what a resumer is told afterwards. */
#include "journal/journal_fixture.h"

#include <tidemark/work.h>

#include "base/cleanup.h"

static tide_compacted compact(store_test *t, tide_compaction policy)
{
    tide_compacted counts = {0};
    assert_ok_err(tide_journal_compact(t->store, &policy, &counts, &t->err), &t->err);
    return counts;
}

static void assert_left(store_test *t, const int64_t *want, int count)
{
    const seen_list *list = list_all(t->store);
    assert_int_equal(count, list->count);
    for (int i = 0; i < count; i++)
        assert_int_equal(want[i], list->rows[i].global_sequence);
}

/* An archive removes what is in its file, and nothing that was appended since. */
static void nothing_above_the_bound_is_removed(void **state)
{
    store_test *t = *state;
    make_task(t, "a");
    for (int i = 1; i <= 5; i++)
        (void)append_n(t, "a", i);
    TIDE_CLEANUP(memory_done) memory_file file = {0};
    tide_journal_transfer moved;
    assert_ok_err(tide_journal_export(t->store,
                                      &(tide_journal_export_request){
                                          TIDE_JOURNAL_EXPORT_REQUEST_INIT, .task_id = "a",
                                          .write = memory_write, .arg = &file},
                                      &moved, &t->err),
                  &t->err);
    assert_int_equal(5, moved.head);
    for (int i = 6; i <= 9; i++)
        (void)append_n(t, "a", i);
    tide_compaction policy = {TIDE_COMPACTION_INIT, .task_id = "a", .keep = 1,
                              .up_to_global = moved.head, .is_dry_run = true};
    const tide_compacted dry = compact(t, policy);
    policy.is_dry_run = false;
    const tide_compacted counts = compact(t, policy);
    assert_int_equal(5, counts.removed);
    assert_int_equal(4, counts.kept);
    assert_int_equal(0, counts.kept_for_resume);
    assert_memory_equal(&dry, &counts, sizeof dry);
    const int64_t want[] = {6, 7, 8, 9};
    assert_left(t, want, 4);
    assert_sound(t->store);
    policy.up_to_global = -1;
    assert_status(TIDE_E_INVALID, tide_journal_compact(t->store, &policy, NULL, &t->err));
}

/* The policy "tagged ones only": no number of newest ones, but still what resuming needs. */
static void a_negative_keep_leaves_what_must_stay(void **state)
{
    store_test *t = *state;
    make_task(t, "a");
    const char *const tags[] = {"good"};
    const char *const types[] = {
        "error_boundary",    /* 1 */
        "error_boundary",    /* 2: tagged */
        "manual_checkpoint", /* 3 */
        "manual_checkpoint", /* 4: newest of a resumable type */
        "error_boundary",    /* 5 */
        "error_boundary",    /* 6: newest of a resumable type */
    };
    for (int i = 0; i < 6; i++)
        (void)append_new(t, (tide_checkpoint_new){TIDE_CHECKPOINT_NEW_INIT, .task_id = "a",
                                                  .type = types[i], .snapshot = tide_view_of("{}"),
                                                  .tags = tags, .tag_count = i == 1});
    assert_int_equal(0, compact(t, (tide_compaction){TIDE_COMPACTION_INIT, .keep = 0}).removed);
    const tide_compacted counts = compact(t, (tide_compaction){TIDE_COMPACTION_INIT, .task_id = "a",
                                                               .keep = -1, .keep_tagged = true});
    assert_int_equal(3, counts.removed);
    assert_int_equal(3, counts.kept);
    assert_int_equal(2, counts.kept_for_resume);
    const int64_t want[] = {2, 4, 6};
    assert_left(t, want, 3);
    assert_int_equal(1, compact(t, (tide_compaction){TIDE_COMPACTION_INIT, .keep = -1}).removed);
    make_task(t, "empty");
    assert_int_equal(2, compact(t, (tide_compaction){TIDE_COMPACTION_INIT, .keep = -1}).kept);
    assert_sound(t->store);
}

/* A worker is handed its newest checkpoint that is neither iteration_start nor error_boundary, so
 * the newest of each type stays. */
static void the_newest_of_each_type_of_a_live_item_stays(void **state)
{
    store_test *t = *state;
    make_task(t, "a");
    run_sql(t->store,
            "INSERT INTO work_items (work_item_id, task_id, work_type) VALUES ('live', 'a', 't')");
    const struct {
        const char *type;
        const char *item;
    } rows[] = {
        {"tool_executed", "live"},  /* 1 */
        {"tool_executed", "live"},  /* 2: the item's newest of this type */
        {"error_boundary", "live"}, /* 3 */
        {"error_boundary", "live"}, /* 4: the item's newest of this type */
        {"tool_executed", NULL},    /* 5: the task's newest of this type */
        {"iteration_end", NULL},    /* 6: the task's newest of this type */
        {"error_boundary", NULL},   /* 7: the newest */
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        (void)append_new(t,
                         (tide_checkpoint_new){TIDE_CHECKPOINT_NEW_INIT, .task_id = "a",
                                               .work_item_id = rows[i].item, .type = rows[i].type,
                                               .snapshot = tide_view_of("{}")});
    (void)compact(t, (tide_compaction){TIDE_COMPACTION_INIT, .keep = 1});
    const int64_t want[] = {2, 4, 5, 6, 7};
    assert_left(t, want, 5);
    assert_status(TIDE_E_CONFLICT, tide_journal_delete(t->store, "2", false, &t->err));
    assert_sound(t->store);
}

/* ---- resuming afterwards ---- */

static tide_status take_iteration(void *arg, const tide_checkpoint *newest_end,
                                  int64_t next_iteration, tide_error *err)
{
    (void)err;
    assert_non_null(newest_end);
    *(int64_t *)arg = next_iteration;
    return TIDE_OK;
}

static int64_t next_iteration_of(store_test *t, const char *task_id)
{
    const tide_task_resume_fns fns = {TIDE_TASK_RESUME_FNS_INIT, .iteration = take_iteration};
    int64_t next = -1;
    tide_task_lease lease = {0};
    assert_ok_err(tide_task_resume(t->store,
                                   &(tide_task_resume_request){TIDE_TASK_RESUME_REQUEST_INIT,
                                                               .task_id = task_id, .holder = "me",
                                                               .lease_us = 60 * SECOND_US},
                                   &fns, &next, &lease, &t->err),
                  &t->err);
    assert_ok_err(tide_task_release(t->store, task_id, lease.token, false, &t->err), &t->err);
    return next;
}

/* States that do not count are counted by rows; once rows were removed the count is unknown, not wrong. */
static void the_next_iteration_is_unknown_once_ends_were_removed(void **state)
{
    store_test *t = *state;
    make_task(t, "a");
    for (int i = 0; i < 5; i++)
        (void)append_json(t, "a", "iteration_end", "{\"x\":1}");
    char fork[TIDE_JOURNAL_ID_MAX + 1];
    assert_ok_err(tide_journal_fork(t->store, "5", "f", NULL, fork, &t->err), &t->err);
    (void)append_json(t, "f", "iteration_end", "{\"x\":1}");
    assert_int_equal(6, next_iteration_of(t, "a"));
    assert_int_equal(7, next_iteration_of(t, "f"));
    (void)compact(t, (tide_compaction){TIDE_COMPACTION_INIT, .task_id = "a", .keep = 1});
    assert_int_equal(0, next_iteration_of(t, "a"));
    assert_int_equal(0, next_iteration_of(t, "f")); /* it shares what was removed */
    (void)append_json(t, "a", "iteration_end", "{\"iteration\":8}");
    assert_int_equal(9, next_iteration_of(t, "a"));
    assert_int_equal(0, next_iteration_of(t, "f"));
    /* What was removed behind the fork point is no part of the fork's history. */
    make_task(t, "b");
    const tide_checkpoint_numbers point = append_json(t, "b", "iteration_end", "{}");
    for (int i = 0; i < 3; i++)
        (void)append_json(t, "b", "iteration_end", "{}");
    assert_ok_err(tide_journal_fork(t->store, point.checkpoint_id, "g", NULL, fork, &t->err),
                  &t->err);
    (void)compact(t, (tide_compaction){TIDE_COMPACTION_INIT, .task_id = "b", .keep = 1});
    assert_int_equal(0, next_iteration_of(t, "b"));
    assert_int_equal(2, next_iteration_of(t, "g"));
}

static tide_status take_it(void *arg, const tide_checkpoint *checkpoint, tide_error *err)
{
    (void)arg;
    (void)checkpoint;
    (void)err;
    return TIDE_OK;
}

static void restore_times(store_test *t, int count)
{
    for (int i = 0; i < count; i++)
        assert_ok_err(tide_journal_restore(t->store, "1", take_it, NULL, &t->err), &t->err);
}

/* Events are for who follows: compaction removes those that are older than 30 days, in steps; the newest stays, and
 * numbers go on behind it. */
static void old_events_go_with_compaction(void **state)
{
    store_test *t = *state;
    make_task(t, "a");
    (void)append_n(t, "a", 1);
    restore_times(t, 5);
    virtual_env_advance(&t->clock, TIDE_JOURNAL_EVENTS_KEEP_US / 2);
    restore_times(t, 2);
    virtual_env_advance(&t->clock, TIDE_JOURNAL_EVENTS_KEEP_US / 2 + SECOND_US);
    (void)compact(t, (tide_compaction){TIDE_COMPACTION_INIT, .is_dry_run = true});
    assert_int_equal(7, ASK(t->store, "SELECT count(*) FROM journal_events"));
    (void)compact(t, (tide_compaction){TIDE_COMPACTION_INIT, .keep = 0});
    assert_int_equal(2, ASK(t->store, "SELECT count(*) FROM journal_events"));
    assert_int_equal(6, ASK(t->store, "SELECT min(event_id) FROM journal_events"));
    virtual_env_advance(&t->clock, 2 * TIDE_JOURNAL_EVENTS_KEEP_US);
    (void)compact(t, (tide_compaction){TIDE_COMPACTION_INIT, .keep = 0});
    (void)compact(t, (tide_compaction){TIDE_COMPACTION_INIT, .keep = 0});
    assert_int_equal(7, ASK(t->store, "SELECT min(event_id) FROM journal_events"));
    restore_times(t, 1);
    assert_int_equal(8, ASK(t->store, "SELECT max(event_id) FROM journal_events"));
    refuse_sql(t->store, "DELETE FROM journal_events", &t->err);
}

/* More of them than one step takes. */
static void old_events_go_in_steps(void **state)
{
    store_test *t = *state;
    make_task(t, "a");
    (void)append_n(t, "a", 1);
    restore_times(t, 1);
    run_sql(
        t->store,
        t->engine == TIDE_ENGINE_SQLITE
            ? "DROP TRIGGER journal_events_once; " /* nobody else could */
              "INSERT INTO journal_events SELECT 1 + value, kind, head, first_global, last_global, "
              "checkpoint_count, task_id, at FROM journal_events, "
              "(WITH RECURSIVE n (value) AS (SELECT 1 UNION ALL SELECT value + 1 FROM n WHERE "
              "value < 2500) SELECT value FROM n) ORDER BY value; "
              "UPDATE sequences SET last = 2501 WHERE name = 'journal/events'"
            : "DROP TRIGGER journal_events_once ON journal_events; "
              "INSERT INTO journal_events SELECT 1 + value, kind, head, first_global, last_global, "
              "checkpoint_count, task_id, at FROM journal_events, generate_series(1, 2500) value; "
              "UPDATE sequences SET last = 2501 WHERE name = 'journal/events'");
    virtual_env_advance(&t->clock, TIDE_JOURNAL_EVENTS_KEEP_US + SECOND_US);
    restore_times(t, 1);
    (void)compact(t, (tide_compaction){TIDE_COMPACTION_INIT, .keep = 0});
    assert_int_equal(1, ASK(t->store, "SELECT count(*) FROM journal_events"));
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        STORE_CASE(nothing_above_the_bound_is_removed),
        STORE_CASE(a_negative_keep_leaves_what_must_stay),
        STORE_CASE(the_newest_of_each_type_of_a_live_item_stays),
        STORE_CASE(the_next_iteration_is_unknown_once_ends_were_removed),
        STORE_CASE(old_events_go_with_compaction),
        STORE_CASE(old_events_go_in_steps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
