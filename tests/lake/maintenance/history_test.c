/* The history checker: says nothing of histories made by the book, and names the rule of each that is not. */
#include <string.h>

#include "lake/maintenance/hand.h"

/* Two catalogs with a table each: 301 with files and a delete file, 302 without. */
static void make_history(hand *h)
{
    hand_catalog(h, 1, "one", 1);
    hand_table(h, 1, 2, 101, 301, "t");
    hand_commit(h, 1, 2, 0, "created_table:\"main\".\"t\"");
    hand_catalog(h, 2, "two", 3);
    hand_file(h, 1, 4, 301, 1);
    hand_file(h, 1, 4, 301, 2);
    hand_commit(h, 1, 4, 0, "inserted_into_table:301");
    hand_table(h, 2, 5, 201, 302, "t");
    hand_commit(h, 2, 5, 0, "created_table:\"main\".\"t\"");
    hand_delete_file(h, 1, 6, 301, 1, 3);
    hand_commit(h, 1, 6, 0, "deleted_from_table:301");
    hand_file(h, 1, 7, 301, 4);
    hand_commit(h, 1, 7, 6, "inserted_into_table:301");
}

static void with_history(void **state, void (*then)(hand *h))
{
    hand *h = *state;
    make_history(h);
    then(h);
}

static void is_sound(hand *h)
{
    hand_expect_sound(h);
    hand_findings found;
    assert_ok(hand_check(h, &found));
    assert_int_equal(2, found.checked.catalogs);
    assert_int_equal(7, found.checked.snapshots);
}

static void a_history_made_by_the_book_is_sound(void **state)
{
    with_history(state, is_sound);
}

static void fork_and_go_on(hand *h)
{
    hand_fork(h, 1, 6, 3, "fork", 8);
    hand_drop_table(h, 1, 9, 301); /* the parent's, not the fork's */
    hand_commit(h, 1, 9, 0, "dropped_table:301");
    hand_file(h, 3, 10, 301, 10);
    hand_commit(h, 3, 10, 0, "inserted_into_table:301");
    hand_fork(h, 3, 10, 4, "fork of the fork", 11);
    hand_end(h, 4, 12, 5, 2, 0); /* the grandparent's file, in the fork of the fork alone */
    hand_commit(h, 4, 12, 0, "deleted_from_table:301");
    hand_drop_table(h, 3, 13, 301);
    hand_commit(h, 3, 13, 0, "dropped_table:301");
    hand_file(h, 4, 14, 301, 14);
    hand_commit(h, 4, 14, 0, "inserted_into_table:301");
    hand_expect_sound(h);
}

static void forks_of_forks_are_sound(void **state)
{
    with_history(state, fork_and_go_on);
}

/* ---- allocators that are not ours ---- */

/* Both read 7 as the latest; the second found its number taken and took the next, without looking. */
static void two_from_one_parent(hand *h)
{
    hand_file(h, 1, 8, 301, 20);
    hand_commit(h, 1, 8, 0, "inserted_into_table:301");
    hand_file(h, 1, 9, 301, 21);
    hand_commit_behind(h, 1, 9, 7, 7, "inserted_into_table:301");
    hand_expect_broken(h, "linear");
}

static void latest_plus_one_after_a_retry_is_found(void **state)
{
    with_history(state, two_from_one_parent);
}

/* The second put its snapshot over the first's: a commit is lost, its rows are still there. */
static void overwritten(hand *h)
{
    hand_file(h, 1, 8, 301, 20);
    hand_sql(h, "CREATE TABLE parked AS SELECT * FROM ducklake_data_file WHERE data_file_id = 20;"
                "DELETE FROM ducklake_data_file WHERE data_file_id = 20");
    hand_file(h, 1, 8, 301, 21);
    hand_commit(h, 1, 8, 0, "inserted_into_table:301");
    hand_sql(h, "INSERT INTO ducklake_data_file SELECT * FROM parked");
    hand_expect_broken(h, "immutable");
}

static void latest_plus_one_that_overwrote_a_commit_is_found(void **state)
{
    with_history(state, overwritten);
}

/* A took 8, B took 9 and committed first; a reader saw 9, then 8 came in below it. */
static void nextval_out_of_order(hand *h)
{
    hand_file(h, 1, 9, 301, 21);
    hand_commit(h, 1, 9, 0, "inserted_into_table:301");
    hand_file(h, 1, 8, 301, 20);
    hand_commit_behind(h, 1, 8, 9, 7, "inserted_into_table:301");
    hand_expect_among(h, "order");
    hand_expect_among(h, "immutable");
}

static void bare_nextval_out_of_commit_order_is_found(void **state)
{
    with_history(state, nextval_out_of_order);
}

/* The fork took its number before its parent stood still. */
static void fork_before_its_point(hand *h)
{
    hand_file(h, 1, 9, 301, 21);
    hand_commit(h, 1, 9, 0, "inserted_into_table:301");
    hand_fork(h, 1, 9, 3, "fork", 8);
    hand_expect_among(h, "order");
}

static void a_fork_numbered_before_its_point_is_found(void **state)
{
    with_history(state, fork_before_its_point);
}

/* ---- each rule, broken once ---- */

static void time_goes_back(hand *h)
{
    hand_sql(h, "UPDATE ducklake_snapshot SET snapshot_time = '2025-01-01 00:00:00.000000' "
                "WHERE snapshot_id = 6");
    hand_expect_broken(h, "order");
}

static void a_time_that_goes_back_breaks_order(void **state)
{
    with_history(state, time_goes_back);
}

static void snapshot_is_gone(hand *h)
{
    hand_sql(h, "DELETE FROM ducklake_snapshot WHERE snapshot_id = 6");
    hand_expect_broken(h, "linear");
}

static void a_snapshot_that_vanished_breaks_linear(void **state)
{
    with_history(state, snapshot_is_gone);
}

static void changes_are_gone(hand *h)
{
    hand_sql(h, "DELETE FROM ducklake_snapshot_changes WHERE snapshot_id = 6");
    hand_expect_broken(h, "linear");
}

static void changes_that_vanished_break_linear(void **state)
{
    with_history(state, changes_are_gone);
}

static void snapshot_from_nowhere(hand *h)
{
    hand_sql(h, "INSERT INTO ducklake_snapshot VALUES (8, '2026-01-02 00:00:00.000000', 1, 100000, "
                "100000, 1)");
    hand_sql(h, h->t->engine == TIDE_ENGINE_SQLITE
                    ? "UPDATE lake_sequence SET last = 8 WHERE name = 'snapshot'"
                    : "SELECT setval('ducklake_snapshot_id_seq', 8)");
    hand_expect_broken(h, "linear");
}

static void a_snapshot_without_a_commit_breaks_linear(void **state)
{
    with_history(state, snapshot_from_nowhere);
}

static void row_of_no_commit(hand *h)
{
    hand_file(h, 1, 5, 301, 20); /* 5 is the other catalog's */
    hand_expect_among(h, "linear");
    hand_expect_among(h, "immutable");
}

static void a_row_that_no_commit_made_is_a_phantom(void **state)
{
    with_history(state, row_of_no_commit);
}

static void head_is_behind(hand *h)
{
    hand_sql(h,
             "UPDATE lake_head SET snapshot_id = 6, parent_snapshot_id = 4 WHERE catalog_id = 1");
    hand_expect_broken(h, "linear");
}

static void a_head_behind_its_history_breaks_linear(void **state)
{
    with_history(state, head_is_behind);
}

static void row_changed(hand *h)
{
    hand_sql(h, "UPDATE ducklake_data_file SET record_count = 11 WHERE data_file_id = 2");
    hand_expect_broken(h, "immutable");
}

static void a_row_that_was_changed_breaks_immutable(void **state)
{
    with_history(state, row_changed);
}

static void row_lost(hand *h)
{
    hand_sql(h, "DELETE FROM ducklake_data_file WHERE data_file_id = 2");
    hand_expect_broken(h, "immutable");
}

static void a_row_that_was_lost_breaks_immutable(void **state)
{
    with_history(state, row_lost);
}

/* Made from 7, the insert did not see what 8 did to its table. */
static void insert_into_altered(hand *h)
{
    hand_end(h, 1, 8, 4, 301, 3010);
    hand_commit(h, 1, 8, 0, "altered_table:301");
    hand_file(h, 1, 9, 301, 30);
    hand_commit(h, 1, 9, 7, "inserted_into_table:301");
    hand_expect_broken(h, "conflict");
}

static void an_insert_that_did_not_see_an_alter_breaks_conflict(void **state)
{
    with_history(state, insert_into_altered);
}

static void same_name_twice(hand *h)
{
    hand_table(h, 1, 8, 101, 310, "fresh");
    hand_commit(h, 1, 8, 0, "created_table:\"main\".\"fresh\"");
    hand_drop_table(h, 1, 9, 310);
    hand_commit(h, 1, 9, 0, "dropped_table:310");
    hand_table(h, 1, 10, 101, 311, "FRESH");
    hand_commit(h, 1, 10, 7, "created_table:\"main\".\"FRESH\"");
    hand_expect_broken(h, "conflict");
}

static void a_name_taken_twice_without_seeing_it_breaks_conflict(void **state)
{
    with_history(state, same_name_twice);
}

static void same_file_deleted_twice(hand *h)
{
    hand_end(h, 1, 8, 6, 3, 0);
    hand_delete_file(h, 1, 8, 301, 1, 40);
    hand_commit(h, 1, 8, 0, "deleted_from_table:301");
    hand_end(h, 1, 9, 6, 40, 0);
    hand_delete_file(h, 1, 9, 301, 1, 41);
    hand_commit(h, 1, 9, 7, "deleted_from_table:301");
    hand_expect_broken(h, "conflict");
}

static void two_deletes_of_one_file_break_conflict(void **state)
{
    with_history(state, same_file_deleted_twice);
}

static void foreign_token(hand *h)
{
    hand_sql(h, "UPDATE ducklake_snapshot_changes SET changes_made = 'forked_from:1' "
                "WHERE snapshot_id = 7");
    hand_expect_broken(h, "conflict");
}

static void a_token_that_ducklake_does_not_have_is_found(void **state)
{
    with_history(state, foreign_token);
}

static void one_id_two_files(hand *h)
{
    hand_delete_file(h, 1, 8, 301, 2, 60);
    hand_file(h, 1, 8, 301, 61);
    hand_sql(h, "UPDATE ducklake_delete_file SET delete_file_id = 61 WHERE delete_file_id = 60");
    hand_commit(h, 1, 8, 0, "deleted_from_table:301,inserted_into_table:301");
    hand_expect_broken(h, "files");
}

static void a_file_id_of_two_files_breaks_files(void **state)
{
    with_history(state, one_id_two_files);
}

static void one_path_two_files(hand *h)
{
    hand_file(h, 1, 8, 301, 61);
    hand_delete_file(h, 1, 8, 301, 2, 60);
    hand_sql(h, "UPDATE ducklake_delete_file SET path = 'f61.parquet' WHERE delete_file_id = 60");
    hand_commit(h, 1, 8, 0, "deleted_from_table:301,inserted_into_table:301");
    hand_expect_broken(h, "files");
}

static void a_path_of_two_files_breaks_files(void **state)
{
    with_history(state, one_path_two_files);
}

static void delete_file_alone(hand *h)
{
    hand_end(h, 1, 8, 5, 1, 0); /* its delete file 3 lives on */
    hand_commit(h, 1, 8, 0, "deleted_from_table:301");
    hand_expect_broken(h, "files");
}

static void a_delete_file_that_outlives_its_data_file_breaks_files(void **state)
{
    with_history(state, delete_file_alone);
}

static void file_without_table(hand *h)
{
    hand_end(h, 1, 8, 4, 301, 3010);
    hand_end(h, 1, 8, 2, 301, 0);
    hand_commit(h, 1, 8, 0, "dropped_table:301");
    hand_expect_broken(h, "files");
}

static void files_that_outlive_their_table_break_files(void **state)
{
    with_history(state, file_without_table);
}

static void scheduled_and_needed(hand *h)
{
    hand_sql(h, "INSERT INTO ducklake_files_scheduled_for_deletion VALUES "
                "(2, 's101/t301/f2.parquet', TRUE, '2026-01-01 00:00:00.000000', 1)");
    hand_expect_broken(h, "files");
}

static void a_file_scheduled_while_a_row_names_it_breaks_files(void **state)
{
    with_history(state, scheduled_and_needed);
}

static void two_of_a_name(hand *h)
{
    hand_sql(h, "INSERT INTO ducklake_view VALUES (320, '00000000-0000-0000-0003-000000000001', 8, "
                "NULL, 101, 'T', 'duckdb', 'SELECT 1', NULL, 1)");
    hand_sql(h, h->t->engine == TIDE_ENGINE_SQLITE
                    ? "UPDATE lake_sequence SET last = 320 WHERE name = 'object'"
                    : "SELECT setval('ducklake_object_id_seq', 320)");
    hand_commit(h, 1, 8, 0, "created_view:\"main\".\"T\"");
    hand_expect_broken(h, "names");
}

static void a_view_with_a_tables_name_breaks_names(void **state)
{
    with_history(state, two_of_a_name);
}

static void inherited_name_again(hand *h)
{
    hand_fork(h, 1, 7, 3, "fork", 8);
    hand_table(h, 3, 9, 101, 330, "t");
    hand_commit(h, 3, 9, 0, "created_table:\"main\".\"t\"");
    hand_expect_broken(h, "names");
}

static void an_inherited_name_given_again_breaks_names(void **state)
{
    with_history(state, inherited_name_again);
}

static void counter_goes_back(hand *h)
{
    hand_sql(h, "UPDATE ducklake_snapshot SET next_file_id = 90000 WHERE snapshot_id = 7");
    hand_expect_broken(h, "counters");
}

static void next_file_id_that_goes_back_breaks_counters(void **state)
{
    with_history(state, counter_goes_back);
}

static void counter_below_ids(hand *h)
{
    hand_sql(h, "UPDATE ducklake_snapshot SET next_catalog_id = 301 WHERE catalog_id = 1");
    hand_expect_broken(h, "counters");
}

static void next_catalog_id_at_an_issued_id_breaks_counters(void **state)
{
    with_history(state, counter_below_ids);
}

static void sequence_behind(hand *h)
{
    hand_sql(h, h->t->engine == TIDE_ENGINE_SQLITE
                    ? "UPDATE lake_sequence SET last = 3 WHERE name = 'snapshot'"
                    : "SELECT setval('ducklake_snapshot_id_seq', 3)");
    hand_expect_broken(h, "counters");
}

static void a_sequence_behind_its_rows_breaks_counters(void **state)
{
    with_history(state, sequence_behind);
}

/* What a counter makes that was put back: tables of one id, whose files are each other's. */
static void one_id_two_tables(hand *h)
{
    hand_table(h, 1, 8, 101, 350, "twin");
    hand_commit(h, 1, 8, 0, "created_table:\"main\".\"twin\"");
    hand_expect_sound(h);
    hand_sql(h, "UPDATE ducklake_table SET table_id = 301 WHERE table_id = 350");
    hand_expect_among(h, "names");
}

static void an_id_of_two_tables_breaks_names(void **state)
{
    with_history(state, one_id_two_tables);
}

/* ---- what was seen ---- */

typedef struct look_ask {
    int64_t snapshot;
    tide_lake_sight sight;
} look_ask;

static tide_status look_at(tide_tx *tx, void *arg, tide_error *err)
{
    look_ask *ask = arg;
    return tide_lake_look(tx, 1, ask->snapshot, &ask->sight, err);
}

static void seen_and_changed(hand *h)
{
    look_ask ask = {.snapshot = 6};
    tide_lake_checked checked;
    hand_flush(h);
    assert_ok_err(tide_store_read(h->t->store, look_at, &ask, &h->t->err), &h->t->err);
    assert_ok_err(tide_lake_check_sights(h->lake, &ask.sight, 1, NULL, NULL, &checked, &h->t->err),
                  &h->t->err);
    assert_int_equal(1, checked.snapshots);
    ask.sight.digest.sums[1]++;
    assert_status(TIDE_E_DAMAGED,
                  tide_lake_check_sights(h->lake, &ask.sight, 1, NULL, NULL, &checked, &h->t->err));
    ask.sight.digest.sums[1]--;
    ask.sight.snapshot_id = 99;
    assert_status(TIDE_E_DAMAGED,
                  tide_lake_check_sights(h->lake, &ask.sight, 1, NULL, NULL, &checked, &h->t->err));
}

static void what_was_seen_is_what_is_there(void **state)
{
    with_history(state, seen_and_changed);
}

static void no_such_catalog(hand *h)
{
    tide_lake_checked checked;
    hand_flush(h);
    assert_status(TIDE_E_NOT_FOUND,
                  tide_lake_check_history(h->lake, "nine", NULL, NULL, &checked, &h->t->err));
    assert_ok_err(tide_lake_check_history(h->lake, "TWO", NULL, NULL, &checked, &h->t->err),
                  &h->t->err);
    assert_int_equal(1, checked.catalogs);
    assert_int_equal(2, checked.snapshots);
}

static void one_catalog_can_be_checked_alone(void **state)
{
    with_history(state, no_such_catalog);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        HAND_CASE(a_history_made_by_the_book_is_sound),
        HAND_CASE(forks_of_forks_are_sound),
        HAND_CASE(latest_plus_one_after_a_retry_is_found),
        HAND_CASE(latest_plus_one_that_overwrote_a_commit_is_found),
        HAND_CASE(bare_nextval_out_of_commit_order_is_found),
        HAND_CASE(a_fork_numbered_before_its_point_is_found),
        HAND_CASE(a_time_that_goes_back_breaks_order),
        HAND_CASE(a_snapshot_that_vanished_breaks_linear),
        HAND_CASE(changes_that_vanished_break_linear),
        HAND_CASE(a_snapshot_without_a_commit_breaks_linear),
        HAND_CASE(a_row_that_no_commit_made_is_a_phantom),
        HAND_CASE(a_head_behind_its_history_breaks_linear),
        HAND_CASE(a_row_that_was_changed_breaks_immutable),
        HAND_CASE(a_row_that_was_lost_breaks_immutable),
        HAND_CASE(an_insert_that_did_not_see_an_alter_breaks_conflict),
        HAND_CASE(a_name_taken_twice_without_seeing_it_breaks_conflict),
        HAND_CASE(two_deletes_of_one_file_break_conflict),
        HAND_CASE(a_token_that_ducklake_does_not_have_is_found),
        HAND_CASE(a_file_id_of_two_files_breaks_files),
        HAND_CASE(a_path_of_two_files_breaks_files),
        HAND_CASE(a_delete_file_that_outlives_its_data_file_breaks_files),
        HAND_CASE(files_that_outlive_their_table_break_files),
        HAND_CASE(a_file_scheduled_while_a_row_names_it_breaks_files),
        HAND_CASE(a_view_with_a_tables_name_breaks_names),
        HAND_CASE(an_inherited_name_given_again_breaks_names),
        HAND_CASE(an_id_of_two_tables_breaks_names),
        HAND_CASE(next_file_id_that_goes_back_breaks_counters),
        HAND_CASE(next_catalog_id_at_an_issued_id_breaks_counters),
        HAND_CASE(a_sequence_behind_its_rows_breaks_counters),
        HAND_CASE(what_was_seen_is_what_is_there),
        HAND_CASE(one_catalog_can_be_checked_alone),
    };
    return cmocka_run_group_tests(tests, NULL, hand_group_teardown);
}
