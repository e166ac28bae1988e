/* Compaction, deletion, the collector of chunks: what goes, what stays, and what is remembered of it. */
#include "journal/journal_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

static tide_compacted compact(store_test *t, tide_compaction policy)
{
    tide_compacted counts = {0};
    assert_ok_err(tide_journal_compact(t->store, &policy, &counts, &t->err), &t->err);
    return counts;
}

/* Test 75: ten kept to three; the next number is 11. */
static void test_75_sequence_survives_compaction(void **state)
{
    store_test *t = *state;
    make_task(t, "a");
    for (int i = 1; i <= 10; i++)
        (void)append_n(t, "a", i);
    const tide_compacted counts =
        compact(t, (tide_compaction){TIDE_COMPACTION_INIT, .task_id = "a", .keep = 3});
    assert_int_equal(7, counts.removed);
    assert_int_equal(3, counts.kept);
    assert_int_equal(0, counts.kept_for_resume);
    assert_int_equal(7 * 7, counts.bytes_removed);
    const tide_checkpoint_numbers next = append_n(t, "a", 11);
    assert_int_equal(11, next.global_sequence);
    assert_int_equal(11, next.sequence_number);
    assert_int_equal(4, list_all(t->store)->count);
    assert_int_equal(1, ASK(t->store, "SELECT count(*) FROM checkpoint_gaps"));
    assert_int_equal(1, ASK(t->store, "SELECT count(*) FROM checkpoint_cuts WHERE first_number = 1 "
                                      "AND last_number = 7 AND chain IS NOT NULL"));
    assert_sound(t->store);
}

/* The newest is deleted, the store is opened again: no number comes twice, nothing comes back. */
static void deleting_the_newest_gives_no_number_again(void **state)
{
    store_test *t = *state;
    make_task(t, "a");
    for (int i = 1; i <= 3; i++)
        (void)append_n(t, "a", i);
    assert_status(TIDE_E_CONFLICT, tide_journal_delete(t->store, "3", false, &t->err));
    assert_contains(t->err.text, "resuming");
    assert_ok_err(tide_journal_delete(t->store, "3", true, &t->err), &t->err);
    tide_store_closep(&t->store);
    t->store = store_test_open(t);
    t->others[t->other_count - 1] = NULL;
    assert_int_equal(3, head_of(t->store));
    assert_int_equal(2, list_all(t->store)->count);
    const tide_checkpoint_numbers next = append_n(t, "a", 4);
    assert_int_equal(4, next.global_sequence);
    assert_int_equal(4, next.sequence_number);
    run_sql(t->store,
            "INSERT INTO checkpoints (checkpoint_id, task_id, checkpoint_type, "
            "sequence_number, snapshot_data) VALUES ('p', 'a', 'iteration_end', 5, '{}')");
    assert_int_equal(5, head_of(t->store));
    assert_sound(t->store);
    assert_ok(tide_journal_delete(t->store, "5", true, &t->err));
    assert_ok(tide_journal_delete(t->store, "4", true, &t->err));
    assert_int_equal(1, ASK(t->store, "SELECT count(*) FROM checkpoint_gaps WHERE first_global = 3 "
                                      "AND last_global = 5"));
    assert_status(TIDE_E_NOT_FOUND, tide_journal_delete(t->store, "4", true, &t->err));
    assert_sound(t->store);
}

/* The newest of each resumable type, whatever the count; tools run since the last iteration_end. */
static void compaction_keeps_what_resuming_needs(void **state)
{
    store_test *t = *state;
    make_task(t, "a");
    const char *const types[] = {
        "state_transition",  /*  1: newest of its type */
        "iteration_start",   /*  2 */
        "tool_executed",     /*  3: before the last iteration_end */
        "iteration_end",     /*  4 */
        "iteration_start",   /*  5: newest of its type */
        "iteration_end",     /*  6: newest of its type */
        "tool_executed",     /*  7: since the last iteration_end */
        "llm_response",      /*  8: since */
        "tool_executed",     /*  9: since */
        "manual_checkpoint", /* 10 */
        "manual_checkpoint", /* 11: among the newest two */
        "manual_checkpoint", /* 12: among the newest two */
    };
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        (void)append_json(t, "a", types[i], "{}");
    const tide_compacted dry =
        compact(t, (tide_compaction){TIDE_COMPACTION_INIT, .keep = 2, .is_dry_run = true});
    assert_int_equal(12, list_all(t->store)->count);
    const tide_compacted counts = compact(t, (tide_compaction){TIDE_COMPACTION_INIT, .keep = 2});
    assert_int_equal(4, counts.removed);
    assert_int_equal(8, counts.kept);
    assert_int_equal(6, counts.kept_for_resume);
    assert_memory_equal(&dry, &counts, sizeof dry);
    const int64_t want[] = {1, 5, 6, 7, 8, 9, 11, 12};
    const seen_list *list = list_all(t->store);
    assert_int_equal(8, list->count);
    for (int i = 0; i < 8; i++)
        assert_int_equal(want[i], list->rows[i].global_sequence);
    assert_sound(t->store);
}

static void compaction_keeps_the_last_checkpoint_of_each_live_item(void **state)
{
    store_test *t = *state;
    make_task(t, "a");
    run_sql(t->store, "INSERT INTO work_items (work_item_id, task_id, work_type) VALUES "
                      "('live', 'a', 't'), ('dead', 'a', 't')");
    run_sql(t->store, "UPDATE work_items SET status = 'failed' WHERE work_item_id = 'dead'");
    const char *const items[] = {"live", "live", "dead", NULL, NULL, NULL};
    for (int i = 0; i < 6; i++)
        (void)append_new(t, (tide_checkpoint_new){
                                TIDE_CHECKPOINT_NEW_INIT, .task_id = "a", .work_item_id = items[i],
                                .type = "manual_checkpoint", .snapshot = tide_view_of("{}")});
    const tide_compacted counts = compact(t, (tide_compaction){TIDE_COMPACTION_INIT, .keep = 1});
    assert_int_equal(4, counts.removed);
    assert_int_equal(1, counts.kept_for_resume);
    const seen_list *list = list_all(t->store);
    assert_int_equal(2, list->rows[0].global_sequence);
    assert_int_equal(6, list->rows[1].global_sequence);
    assert_sound(t->store);
}

static void compaction_goes_by_tags_and_by_age(void **state)
{
    store_test *t = *state;
    make_task(t, "a");
    make_task(t, "b");
    const char *const tags[] = {"keep"};
    for (int i = 1; i <= 10; i++) {
        (void)append_new(
            t, (tide_checkpoint_new){TIDE_CHECKPOINT_NEW_INIT, .task_id = i % 2 ? "a" : "b",
                                     .type = "manual_checkpoint", .snapshot = tide_view_of("{}"),
                                     .tags = tags, .tag_count = i <= 2});
        virtual_env_advance(&t->clock, 60 * SECOND_US);
    }
    /* Now it is minute 10; number n was made in minute n - 1. */
    tide_compacted counts =
        compact(t, (tide_compaction){TIDE_COMPACTION_INIT, .keep = 1, .keep_tagged = true,
                                     .older_than_us = 6 * 60 * SECOND_US});
    assert_int_equal(2, counts.removed); /* 3 and 4: older than minute 4, not tagged */
    assert_int_equal(8, counts.kept);
    counts = compact(t, (tide_compaction){TIDE_COMPACTION_INIT, .keep = 2, .keep_tagged = true});
    assert_int_equal(2, counts.removed); /* 5 and 6 */
    counts = compact(t, (tide_compaction){TIDE_COMPACTION_INIT, .task_id = "b", .keep = 2});
    assert_int_equal(1, counts.removed); /* the tagged one of b */
    const int64_t want[] = {1, 7, 8, 9, 10};
    const seen_list *list = list_all(t->store);
    assert_int_equal(5, list->count);
    for (int i = 0; i < 5; i++)
        assert_int_equal(want[i], list->rows[i].global_sequence);
    assert_int_equal(1, ASK(t->store, "SELECT count(*) FROM checkpoint_tags"));
    assert_sound(t->store);
    tide_compaction bad = {TIDE_COMPACTION_INIT, .older_than_us = -1};
    assert_status(TIDE_E_INVALID, tide_journal_compact(t->store, &bad, NULL, &t->err));
    bad = (tide_compaction){TIDE_COMPACTION_INIT, .task_id = "nobody"};
    assert_status(TIDE_E_NOT_FOUND, tide_journal_compact(t->store, &bad, NULL, &t->err));
}

/* Steps are bounded, and a range stays a range: 1,300 rows leave one gap and one cut. */
static void many_rows_go_in_steps_and_leave_one_gap(void **state)
{
    store_test *t = *state;
    make_task(t, "a");
    make_task(t, "b");
    (void)append_n(t, "b", 0);
    tide_checkpoint_new row = {TIDE_CHECKPOINT_NEW_INIT, .task_id = "a",
                               .type = "manual_checkpoint", .snapshot = tide_view_of("{}")};
    for (int i = 0; i < 1303; i++)
        assert_ok_err(tide_journal_append(t->store, &row, NULL, &t->err), &t->err);
    const tide_compacted counts = compact(t, (tide_compaction){TIDE_COMPACTION_INIT, .keep = 3});
    assert_int_equal(1300, counts.removed);
    assert_int_equal(4, counts.kept);
    assert_int_equal(1, ASK(t->store, "SELECT count(*) FROM checkpoint_gaps WHERE first_global = 2 "
                                      "AND last_global = 1301"));
    assert_int_equal(1, ASK(t->store, "SELECT count(*) FROM checkpoint_gaps"));
    assert_int_equal(1, ASK(t->store, "SELECT count(*) FROM checkpoint_cuts"));
    assert_int_equal(3, ASK(t->store, "SELECT count(*) FROM journal_events"));
    assert_int_equal(
        1300, ASK(t->store, "SELECT CAST(sum(checkpoint_count) AS BIGINT) FROM journal_events"));
    assert_sound(t->store);
}

/* Holes are made and joined in any order, and every one is explained. */
static void gaps_and_cuts_grow_together_from_all_sides(void **state)
{
    store_test *t = *state;
    make_task(t, "a");
    for (int i = 1; i <= 9; i++)
        (void)append_n(t, "a", i);
    const char *const order[] = {"2", "6", "4", "3", "7", "5", "1"};
    const int gaps[] = {1, 2, 3, 2, 2, 1, 1};
    for (int i = 0; i < 7; i++) {
        assert_ok_err(tide_journal_delete(t->store, order[i], false, &t->err), &t->err);
        assert_int_equal(gaps[i], ASK(t->store, "SELECT count(*) FROM checkpoint_gaps"));
        assert_int_equal(gaps[i], ASK(t->store, "SELECT count(*) FROM checkpoint_cuts"));
        assert_sound(t->store);
    }
    assert_int_equal(1, ASK(t->store, "SELECT count(*) FROM checkpoint_cuts WHERE first_number = 1 "
                                      "AND last_number = 7"));
}

/* ---- chunks ---- */

static int64_t chunk_count(store_test *t)
{
    return ASK(t->store, "SELECT count(*) FROM snapshot_chunks");
}

/* What states share is stored once: 300 growing states of about 130 kB take a tenth at most. */
static void growing_states_cost_what_has_changed(void **state)
{
    store_test *t = *state;
    make_task(t, "a");
    int64_t raw = 0;
    for (int i = 0; i < 300; i++) {
        TIDE_CLEANUP(tide_freep) char *text = make_state(i, 100000 + (size_t)i * 200);
        raw += (int64_t)strlen(text);
        const tide_checkpoint_new row = {TIDE_CHECKPOINT_NEW_INIT, .task_id = "a",
                                         .type = "manual_checkpoint",
                                         .snapshot = tide_view_of(text)};
        assert_ok_err(tide_journal_append(t->store, &row, NULL, &t->err), &t->err);
    }
    const int64_t bodies = ASK(
        t->store, "SELECT CAST(sum(length(body)) + count(*) * 48 AS BIGINT) FROM snapshot_chunks");
    const int64_t references =
        ASK(t->store, "SELECT CAST(count(*) * 24 * 2 AS BIGINT) FROM checkpoint_chunks");
    const int64_t rows =
        ASK(t->store, "SELECT CAST(sum(length(snapshot_data)) AS BIGINT) FROM checkpoints");
    const int64_t stored = bodies + references + rows;
    print_message(
        "%lld bytes raw, %lld stored (chunks %lld, references %lld, rows %lld): %.1f times "
        "smaller\n",
        (long long)raw, (long long)stored, (long long)bodies, (long long)references,
        (long long)rows, (double)raw / (double)stored);
    assert_true(raw >= 10 * stored);
    static seen_list list;
    list.count = 0;
    assert_ok_err(tide_journal_find(t->store, "300", true, see, &list, &t->err), &t->err);
    TIDE_CLEANUP(tide_freep) char *last = make_state(299, 100000 + 299 * 200);
    assert_int_equal(strlen(last), list.rows[0].snapshot_len);
    assert_memory_equal(last, list.rows[0].snapshot, 200);
}

static void chunks_go_with_the_last_checkpoint_that_uses_them(void **state)
{
    store_test *t = *state;
    make_task(t, "a");
    TIDE_CLEANUP(tide_freep) char *large = make_state(1, 60000);
    TIDE_CLEANUP(tide_freep) char *larger = make_state(1, 90000);
    (void)append_json(t, "a", "manual_checkpoint", large);
    const int64_t first = chunk_count(t);
    assert_true(first > 5);
    (void)append_json(t, "a", "manual_checkpoint", large);
    assert_int_equal(first, chunk_count(t));
    (void)append_json(t, "a", "manual_checkpoint", larger);
    const int64_t all = chunk_count(t);
    assert_true(all < 2 * first);
    (void)append_n(t, "a", 4);
    assert_ok(tide_journal_delete(t->store, "1", false, &t->err));
    assert_int_equal(all, chunk_count(t));
    assert_ok(tide_journal_delete(t->store, "2", false, &t->err));
    assert_true(chunk_count(t) < all);
    assert_sound(t->store);
    const tide_compacted counts = compact(t, (tide_compaction){TIDE_COMPACTION_INIT, .keep = 1});
    assert_true(counts.chunks_removed > 5);
    assert_true(counts.bytes_removed > 5000);
    assert_int_equal(0, chunk_count(t));
    assert_int_equal(0, ASK(t->store, "SELECT count(*) FROM chunk_candidates"));
    assert_sound(t->store);
}

/* The cascade of a task's deletion leaves chunks to the collector too, and all its numbers explained. */
static void a_deleted_task_leaves_gaps_and_no_chunks(void **state)
{
    store_test *t = *state;
    make_task(t, "a");
    make_task(t, "b");
    TIDE_CLEANUP(tide_freep) char *large = make_state(1, 60000);
    for (int i = 0; i < 3; i++) {
        (void)append_json(t, "a", "manual_checkpoint", large);
        (void)append_n(t, "b", i);
    }
    run_sql(t->store, "DELETE FROM tasks WHERE task_id = 'a'");
    assert_sound(t->store);
    assert_int_equal(0, ASK(t->store, "SELECT count(*) FROM checkpoint_chunks"));
    assert_true(chunk_count(t) > 0);
    (void)compact(t, (tide_compaction){TIDE_COMPACTION_INIT, .keep = 100});
    assert_int_equal(0, chunk_count(t));
    assert_int_equal(7, append_n(t, "b", 9).global_sequence);
}

/* A SQLite file gives back what was removed. */
static void the_file_shrinks_after_compaction(void **state)
{
    store_test *t = *state;
    make_task(t, "a");
    for (int i = 0; i < 40; i++) {
        TIDE_CLEANUP(tide_freep) char *text = make_state(i, 8000);
        text[30 + i] = '0';
        const tide_checkpoint_new row = {TIDE_CHECKPOINT_NEW_INIT, .task_id = "a",
                                         .type = "manual_checkpoint",
                                         .snapshot = tide_view_of(text), .is_text = true};
        assert_ok_err(tide_journal_append(t->store, &row, NULL, &t->err), &t->err);
    }
    const int64_t before = ASK(t->store, "SELECT page_count FROM pragma_page_count()");
    assert_int_equal(2, ASK(t->store, "SELECT auto_vacuum FROM pragma_auto_vacuum()"));
    (void)compact(t, (tide_compaction){TIDE_COMPACTION_INIT, .keep = 1});
    assert_int_equal(0, ASK(t->store, "SELECT freelist_count FROM pragma_freelist_count()"));
    assert_true(ASK(t->store, "SELECT page_count FROM pragma_page_count()") < before - 10);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        STORE_CASE(test_75_sequence_survives_compaction),
        STORE_CASE(deleting_the_newest_gives_no_number_again),
        STORE_CASE(compaction_keeps_what_resuming_needs),
        STORE_CASE(compaction_keeps_the_last_checkpoint_of_each_live_item),
        STORE_CASE(compaction_goes_by_tags_and_by_age),
        STORE_CASE(many_rows_go_in_steps_and_leave_one_gap),
        STORE_CASE(gaps_and_cuts_grow_together_from_all_sides),
        STORE_CASE(growing_states_cost_what_has_changed),
        STORE_CASE(chunks_go_with_the_last_checkpoint_that_uses_them),
        STORE_CASE(a_deleted_task_leaves_gaps_and_no_chunks),
        STORE_CASE_SQLITE(the_file_shrinks_after_compaction),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
