/* Changes become snapshots: what is committed is there, at its snapshot and from then on, and nothing else is. */
#include "lake_fixture.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

static const char *at(int64_t snapshot)
{
    static char text[8][24];
    static int next;
    next = (next + 1) % 8;
    (void)snprintf(text[next], sizeof text[next], "%" PRId64, snapshot);
    return text[next];
}

static void init_again_finds_the_same_metabase_and_refuses_another_directory(void **state)
{
    lake_case l = lake_case_open(state);
    char data[TEMPDIR_PATH_MAX];
    bool was_there = false;
    lake_data_dir(l.t, data);
    assert_ok_err(tide_lake_init(l.t->store, data, &was_there, &l.err), &l.err);
    assert_true(was_there);
    tempdir_join(&l.t->dir, "elsewhere", data);
    assert_status(TIDE_E_CONFLICT, tide_lake_init(l.t->store, data, NULL, &l.err));
    assert_contains(l.err.text, "use that directory");
    lake_case_done(&l);
}

static void a_store_without_a_lake_says_how_to_make_one(void **state)
{
    store_test *t = *state;
    tide_lake *lake = NULL;
    assert_status(TIDE_E_NOT_FOUND, tide_lake_open(&lake, t->store, &t->err));
    assert_contains(t->err.text, "tidemark lake init");
}

static void tables_of_another_program_are_left_alone(void **state)
{
    store_test *t = *state;
    char data[TEMPDIR_PATH_MAX];
    lake_case l = {.t = t};
    lake_sql(&l, "CREATE TABLE ducklake_snapshot (snapshot_id BIGINT)");
    lake_data_dir(t, data);
    assert_status(TIDE_E_FOREIGN, tide_lake_init(t->store, data, NULL, &t->err));
}

static void the_first_snapshot_is_1_and_holds_the_schema_main(void **state)
{
    lake_case l = lake_case_open(state);
    tide_lake_created made;
    assert_ok_err(tide_lake_create_catalog(l.lake, "work", false, NULL, &made, &l.err), &l.err);
    assert_int_equal(made.snapshot_id, 1);
    assert_int_equal(made.parent_snapshot_id, 0);
    TIDE_CLEANUP(tide_freep) char *text = lake_state(&l, "work", "");
    assert_contains(text, " main ");
    lake_case_done(&l);
}

static void a_catalog_is_named_and_creating_is_explicit(void **state)
{
    lake_case l = lake_case_open(state);
    tide_lake_change *change = NULL;
    tide_lake_created made;
    assert_status(TIDE_E_NOT_FOUND, tide_lake_begin(&change, l.lake, "work", 0, &l.err));
    assert_contains(l.err.text, "catalog create");
    const int64_t id = lake_catalog(&l, "work");
    assert_status(TIDE_E_EXISTS,
                  tide_lake_create_catalog(l.lake, "WORK", false, NULL, &made, &l.err));
    assert_ok_err(tide_lake_create_catalog(l.lake, "Work", true, NULL, &made, &l.err), &l.err);
    assert_int_equal(made.catalog_id, id);
    assert_true(made.was_there);
    lake_case_done(&l);
}

static void what_is_committed_is_there_from_its_snapshot_on(void **state)
{
    lake_case l = lake_case_open(state);
    lake_catalog(&l, "work");
    const int64_t made = lake_table(&l, "work", "main", "t");
    const int64_t first = lake_insert(&l, "work", "main", "t", 10);
    const int64_t second = lake_insert(&l, "work", "main", "t", 5);
    assert_true(made < first && first < second);
    assert_int_equal(lake_files(&l, "work", at(made), "main", "t"), 0);
    assert_int_equal(lake_rows(&l, "work", at(first), "main", "t"), 10);
    assert_int_equal(lake_rows(&l, "work", at(second), "main", "t"), 15);
    assert_int_equal(lake_rows(&l, "work", "", "MAIN", "T"), 15);
    assert_int_equal(lake_files(&l, "work", at(made - 1), "main", "t"), -1);
    lake_case_done(&l);
}

static void a_change_of_several_operations_is_one_snapshot(void **state)
{
    lake_case l = lake_case_open(state);
    lake_catalog(&l, "work");
    tide_lake_change *change = lake_begin(&l, "work");
    const int64_t base = tide_lake_change_base(change);
    assert_ok_err(tide_lake_create_schema(change, "s", &l.err), &l.err);
    lake_op_table(&l, change, "s", "t");
    lake_op_insert(&l, change, "s", "t", 3);
    assert_ok_err(tide_lake_create_view(change, "s", "v", "SELECT * FROM t", &l.err), &l.err);
    const int64_t snapshot = lake_commit(&l, change);
    assert_int_equal(lake_head(&l, "work"), snapshot);
    assert_int_equal(lake_rows(&l, "work", "", "s", "t"), 3);
    assert_int_equal(lake_files(&l, "work", at(base), "s", "t"), -1);
    lake_case_done(&l);
}

static void what_a_change_undoes_itself_leaves_nothing(void **state)
{
    lake_case l = lake_case_open(state);
    tide_lake_committed done;
    lake_catalog(&l, "work");
    const int64_t head = lake_head(&l, "work");
    tide_lake_change *change = lake_begin(&l, "work");
    lake_op_table(&l, change, "main", "t");
    assert_ok_err(tide_lake_drop_table(change, "main", "t", &l.err), &l.err);
    assert_status(TIDE_NONE, tide_lake_commit(change, NULL, &done, &l.err));
    tide_lake_drop_change(change);
    assert_int_equal(lake_head(&l, "work"), head);
    lake_case_done(&l);
}

static void a_name_may_change_hands_within_a_change(void **state)
{
    lake_case l = lake_case_open(state);
    lake_catalog(&l, "work");
    lake_table(&l, "work", "main", "t");
    lake_insert(&l, "work", "main", "t", 4);
    tide_lake_change *change = lake_begin(&l, "work");
    assert_ok_err(tide_lake_drop_table(change, "main", "t", &l.err), &l.err);
    lake_op_table(&l, change, "main", "t");
    lake_commit(&l, change);
    assert_int_equal(lake_rows(&l, "work", "", "main", "t"), 0);
    lake_table(&l, "work", "main", "a");
    lake_table(&l, "work", "main", "b");
    lake_insert(&l, "work", "main", "a", 7);
    change = lake_begin(&l, "work");
    assert_ok_err(tide_lake_rename_table(change, "main", "a", "c", &l.err), &l.err);
    assert_ok_err(tide_lake_rename_table(change, "main", "b", "a", &l.err), &l.err);
    assert_ok_err(tide_lake_rename_table(change, "main", "c", "b", &l.err), &l.err);
    lake_commit(&l, change);
    assert_int_equal(lake_rows(&l, "work", "", "main", "b"), 7);
    assert_int_equal(lake_rows(&l, "work", "", "main", "a"), 0);
    lake_case_done(&l);
}

static void rows_and_whole_files_are_deleted_and_older_snapshots_keep_them(void **state)
{
    lake_case l = lake_case_open(state);
    lake_catalog(&l, "work");
    lake_table(&l, "work", "main", "t");
    const int64_t full = lake_insert(&l, "work", "main", "t", 10);
    for (int i = 1; i <= 2; i++) { /* the second delete file replaces the first */
        tide_lake_change *change = lake_begin(&l, "work");
        lake_op_delete(&l, change, "main", "t", false);
        lake_commit(&l, change);
        assert_int_equal(lake_rows(&l, "work", "", "main", "t"), 10 - i);
    }
    tide_lake_change *change = lake_begin(&l, "work");
    lake_op_delete(&l, change, "main", "t", true);
    lake_commit(&l, change);
    assert_int_equal(lake_files(&l, "work", "", "main", "t"), 0);
    assert_int_equal(lake_rows(&l, "work", at(full), "main", "t"), 10);
    lake_case_done(&l);
}

static void compaction_keeps_rows_and_refuses_to_lose_any(void **state)
{
    lake_case l = lake_case_open(state);
    lake_catalog(&l, "work");
    lake_table(&l, "work", "main", "t");
    for (int i = 0; i < 4; i++)
        lake_insert(&l, "work", "main", "t", 5);
    tide_lake_change *change = lake_begin(&l, "work");
    lake_op_delete(&l, change, "main", "t", false);
    lake_commit(&l, change);
    change = lake_begin(&l, "work");
    lake_op_compact(&l, change, "main", "t");
    lake_commit(&l, change);
    assert_int_equal(lake_files(&l, "work", "", "main", "t"), 1);
    assert_int_equal(lake_rows(&l, "work", "", "main", "t"), 19);
    change = lake_begin(&l, "work");
    TIDE_CLEANUP(tide_lake_table_done) tide_lake_table_seen seen = {0};
    assert_ok_err(tide_lake_change_table(change, "main", "t", &seen, &l.err), &l.err);
    const tide_lake_new_file file = {.path = "x.parquet", .record_count = 3};
    assert_status(TIDE_E_INVALID,
                  tide_lake_compact_files(change, seen.table.id, NULL, 0, &file, 1, &l.err));
    tide_lake_drop_change(change);
    lake_case_done(&l);
}

static void a_dropped_table_takes_everything_along_and_the_past_keeps_it(void **state)
{
    lake_case l = lake_case_open(state);
    lake_catalog(&l, "work");
    lake_table(&l, "work", "main", "t");
    lake_insert(&l, "work", "main", "t", 10);
    tide_lake_change *change = lake_begin(&l, "work");
    lake_op_delete(&l, change, "main", "t", false);
    const int64_t before = lake_commit(&l, change);
    TIDE_CLEANUP(tide_freep) char *was = lake_state(&l, "work", at(before));
    lake_drop(&l, "work", "main", "t");
    assert_int_equal(lake_files(&l, "work", "", "main", "t"), -1);
    TIDE_CLEANUP(tide_freep) char *is = lake_state(&l, "work", at(before));
    assert_string_equal(was, is);
    lake_case_done(&l);
}

static void a_schema_with_tables_is_dropped_only_with_cascade(void **state)
{
    lake_case l = lake_case_open(state);
    lake_catalog(&l, "work");
    tide_lake_change *change = lake_begin(&l, "work");
    assert_ok_err(tide_lake_create_schema(change, "s", &l.err), &l.err);
    lake_op_table(&l, change, "s", "t");
    assert_ok_err(tide_lake_create_view(change, "s", "v", "SELECT 1", &l.err), &l.err);
    lake_commit(&l, change);
    lake_insert(&l, "work", "s", "t", 2);
    change = lake_begin(&l, "work");
    assert_status(TIDE_E_CONFLICT, tide_lake_drop_schema(change, "s", false, &l.err));
    assert_contains(l.err.text, "--cascade");
    assert_ok_err(tide_lake_drop_schema(change, "s", true, &l.err), &l.err);
    lake_commit(&l, change);
    assert_int_equal(lake_files(&l, "work", "", "s", "t"), -1);
    lake_case_done(&l);
}

static void wrong_operations_are_told_at_once(void **state)
{
    lake_case l = lake_case_open(state);
    lake_catalog(&l, "work");
    lake_table(&l, "work", "main", "t");
    tide_lake_change *change = lake_begin(&l, "work");
    const tide_lake_column_def column = {.name = "a", .type = "int64"};
    const tide_lake_new_file outside = {.path = "../x.parquet"};
    assert_status(TIDE_E_EXISTS, tide_lake_create_schema(change, "Main", &l.err));
    assert_status(TIDE_E_EXISTS, tide_lake_create_table(change, "main", "T", &column, 1, &l.err));
    assert_status(TIDE_E_NOT_FOUND, tide_lake_create_table(change, "no", "u", &column, 1, &l.err));
    assert_contains(l.err.text, "schema create");
    assert_status(TIDE_E_NOT_FOUND, tide_lake_drop_table(change, "main", "u", &l.err));
    assert_status(TIDE_E_INVALID, tide_lake_drop_view(change, "main", "t", &l.err));
    assert_status(TIDE_E_INVALID, tide_lake_create_table(change, "main", "", &column, 1, &l.err));
    assert_status(TIDE_E_INVALID, tide_lake_create_table(change, "main", "u", &column, 0, &l.err));
    assert_status(TIDE_E_NOT_FOUND, tide_lake_add_file(change, 12345, &outside, &l.err));
    TIDE_CLEANUP(tide_lake_table_done) tide_lake_table_seen seen = {0};
    assert_ok_err(tide_lake_change_table(change, "main", "t", &seen, &l.err), &l.err);
    assert_status(TIDE_E_INVALID, tide_lake_add_file(change, seen.table.id, &outside, &l.err));
    tide_lake_drop_change(change);
    lake_case_done(&l);
}

static void a_committed_change_is_closed(void **state)
{
    lake_case l = lake_case_open(state);
    tide_lake_committed done;
    lake_catalog(&l, "work");
    tide_lake_change *change = lake_begin(&l, "work");
    lake_op_table(&l, change, "main", "t");
    assert_ok_err(tide_lake_commit(change, NULL, &done, &l.err), &l.err);
    assert_status(TIDE_E_INVALID, tide_lake_create_schema(change, "s", &l.err));
    assert_status(TIDE_E_INVALID, tide_lake_commit(change, NULL, &done, &l.err));
    tide_lake_drop_change(change);
    lake_case_done(&l);
}

typedef struct listed {
    int64_t catalog_id;
    int count;
    char last[256];
} listed;

static tide_status keep_snapshot(void *arg, const tide_lake_snapshot *snapshot, tide_error *err)
{
    (void)err;
    listed *l = arg;
    l->count++;
    (void)snprintf(l->last, sizeof l->last, "%.*s by %.*s: %.*s", (int)snapshot->changes_made.len,
                   snapshot->changes_made.ptr, (int)snapshot->author.len, snapshot->author.ptr,
                   (int)snapshot->message.len, snapshot->message.ptr);
    return TIDE_OK;
}

static tide_status list_snapshots(tide_tx *tx, void *arg, tide_error *err)
{
    listed *l = arg;
    l->count = 0;
    return tide_lake_each_snapshot(tx, l->catalog_id, 0, 100, keep_snapshot, l, err);
}

static void author_and_message_stand_beside_the_tokens(void **state)
{
    lake_case l = lake_case_open(state);
    tide_lake_committed done;
    listed seen = {.catalog_id = lake_catalog(&l, "work")};
    tide_lake_change *change = lake_begin(&l, "work");
    lake_op_table(&l, change, "main", "a \"b\"");
    const tide_lake_commit_options options = {.author = "ann", .message = "first"};
    assert_ok_err(tide_lake_commit(change, &options, &done, &l.err), &l.err);
    tide_lake_drop_change(change);
    assert_ok_err(tide_store_read(l.t->store, list_snapshots, &seen, &l.err), &l.err);
    assert_int_equal(seen.count, 2);
    assert_string_equal(seen.last, "created_table:\"main\".\"a \"\"b\"\"\" by ann: first");
    lake_case_done(&l);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        STORE_CASE(init_again_finds_the_same_metabase_and_refuses_another_directory),
        STORE_CASE(a_store_without_a_lake_says_how_to_make_one),
        STORE_CASE(tables_of_another_program_are_left_alone),
        STORE_CASE(the_first_snapshot_is_1_and_holds_the_schema_main),
        STORE_CASE(a_catalog_is_named_and_creating_is_explicit),
        STORE_CASE(what_is_committed_is_there_from_its_snapshot_on),
        STORE_CASE(a_change_of_several_operations_is_one_snapshot),
        STORE_CASE(what_a_change_undoes_itself_leaves_nothing),
        STORE_CASE(a_name_may_change_hands_within_a_change),
        STORE_CASE(rows_and_whole_files_are_deleted_and_older_snapshots_keep_them),
        STORE_CASE(compaction_keeps_rows_and_refuses_to_lose_any),
        STORE_CASE(a_dropped_table_takes_everything_along_and_the_past_keeps_it),
        STORE_CASE(a_schema_with_tables_is_dropped_only_with_cascade),
        STORE_CASE(wrong_operations_are_told_at_once),
        STORE_CASE(a_committed_change_is_closed),
        STORE_CASE(author_and_message_stand_beside_the_tokens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
