/* Forks begin as their parent is at one snapshot, share its files, and are isolated from then on. */
#include "lake_fixture.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"

static const char *at(int64_t snapshot)
{
    static _Thread_local char text[8][24];
    static _Thread_local int next;
    next = (next + 1) % 8;
    (void)snprintf(text[next], sizeof text[next], "%" PRId64, snapshot);
    return text[next];
}

static void assert_same_state(lake_case *l, const char *a, const char *a_at, const char *b,
                              const char *b_at)
{
    TIDE_CLEANUP(tide_freep) char *x = lake_state(l, a, a_at);
    TIDE_CLEANUP(tide_freep) char *y = lake_state(l, b, b_at);
    assert_string_equal(x, y);
}

static lake_case open_work(void **state)
{
    lake_case l = lake_case_open(state);
    lake_catalog(&l, "work");
    lake_table(&l, "work", "main", "t");
    lake_insert(&l, "work", "main", "t", 10);
    lake_insert(&l, "work", "main", "t", 20);
    return l;
}

static void a_fork_equals_its_parent_at_its_point(void **state)
{
    lake_case l = open_work(state);
    const int64_t old = lake_head(&l, "work");
    lake_insert(&l, "work", "main", "t", 5);
    tide_lake_created made;
    assert_ok_err(tide_lake_fork(l.lake, "work", "now", "", NULL, &made, &l.err), &l.err);
    assert_int_equal(made.parent_snapshot_id, lake_head(&l, "work"));
    assert_true(made.snapshot_id > made.parent_snapshot_id);
    assert_same_state(&l, "work", "", "now", "");
    assert_ok_err(tide_lake_fork(l.lake, "work", "then", at(old), NULL, &made, &l.err), &l.err);
    assert_int_equal(made.parent_snapshot_id, old);
    assert_same_state(&l, "work", at(old), "then", "");
    const tide_lake_catalog fork = lake_find(&l, "then");
    assert_string_equal(fork.parent_name, "work");
    assert_int_equal(fork.fork_snapshot, old);
    lake_case_done(&l);
}

static void a_point_that_is_not_there_is_told(void **state)
{
    lake_case l = open_work(state);
    tide_lake_created made;
    lake_catalog(&l, "other");
    assert_status(TIDE_E_NOT_FOUND,
                  tide_lake_fork(l.lake, "work", "f", "9999", NULL, &made, &l.err));
    assert_contains(l.err.text, "its newest");
    assert_status(TIDE_E_NOT_FOUND, tide_lake_fork(l.lake, "work", "f", at(lake_head(&l, "other")),
                                                   NULL, &made, &l.err));
    assert_status(TIDE_E_INVALID, tide_lake_fork(l.lake, "work", "f", "soon", NULL, &made, &l.err));
    assert_status(TIDE_E_NOT_FOUND, tide_lake_fork(l.lake, "nobody", "f", "", NULL, &made, &l.err));
    assert_status(TIDE_E_NOT_FOUND,
                  tide_lake_fork(l.lake, "work", "f", "1999-01-01", NULL, &made, &l.err));
    lake_case_done(&l);
}

/* Everything that can be done to what is inherited. */
static void change_everything(lake_case *l, const char *catalog)
{
    tide_lake_change *change = lake_begin(l, catalog);
    lake_op_delete_of(l, change, "main", "t", 0, false);
    lake_op_delete_of(l, change, "main", "t", 1, true);
    lake_commit(l, change);
    change = lake_begin(l, catalog);
    const tide_lake_column_def column = {.name = "extra", .type = "int32", .default_value = "7"};
    assert_ok_err(tide_lake_add_column(change, "main", "t", &column, &l->err), &l->err);
    assert_ok_err(tide_lake_rename_column(change, "main", "t", "name", "label", &l->err), &l->err);
    assert_ok_err(tide_lake_rename_table(change, "main", "t", "renamed", &l->err), &l->err);
    lake_commit(l, change);
    lake_insert(l, catalog, "main", "renamed", 3);
    change = lake_begin(l, catalog);
    lake_op_compact(l, change, "main", "renamed");
    lake_commit(l, change);
    assert_int_equal(lake_rows(l, catalog, "", "main", "renamed"), 12);
    change = lake_begin(l, catalog);
    assert_ok_err(tide_lake_create_schema(change, "more", &l->err), &l->err);
    lake_op_table(l, change, "more", "t");
    lake_commit(l, change);
}

static void a_fork_changes_nothing_in_its_parent(void **state)
{
    lake_case l = open_work(state);
    const int64_t point = lake_head(&l, "work");
    TIDE_CLEANUP(tide_freep) char *was = lake_state(&l, "work", "");
    const int64_t first = lake_fork_of(&l, "work", "fork", "");
    change_everything(&l, "fork");
    TIDE_CLEANUP(tide_freep) char *is = lake_state(&l, "work", "");
    assert_string_equal(was, is);
    assert_int_equal(lake_head(&l, "work"), point);
    assert_same_state(&l, "work", at(point), "fork", at(first));
    lake_drop(&l, "fork", "main", "renamed");
    assert_int_equal(lake_rows(&l, "work", "", "main", "t"), 30);
    lake_case_done(&l);
}

static void a_parent_changes_nothing_in_its_fork(void **state)
{
    lake_case l = open_work(state);
    lake_fork_of(&l, "work", "fork", "");
    TIDE_CLEANUP(tide_freep) char *was = lake_state(&l, "fork", "");
    change_everything(&l, "work");
    lake_drop(&l, "work", "main", "renamed");
    TIDE_CLEANUP(tide_freep) char *is = lake_state(&l, "fork", "");
    assert_string_equal(was, is);
    change_everything(&l, "fork");
    lake_case_done(&l);
}

static void a_fork_of_a_fork_sees_what_its_line_had_done_by_then(void **state)
{
    lake_case l = open_work(state);
    const int64_t oldest = lake_head(&l, "work");
    lake_fork_of(&l, "work", "child", "");
    tide_lake_change *change = lake_begin(&l, "child");
    lake_op_delete_of(&l, change, "main", "t", 1,
                      true); /* the grandparent's file, ended by the child */
    const int64_t middle = lake_commit(&l, change);
    lake_fork_of(&l, "child", "grandchild", "");
    lake_drop(&l, "child", "main", "t"); /* after the point: not the grandchild's business */
    assert_same_state(&l, "child", at(middle), "grandchild", "");
    assert_int_equal(lake_rows(&l, "grandchild", "", "main", "t"), 10);
    lake_fork_of(&l, "grandchild", "early", at(oldest)); /* a snapshot of the grandparent's */
    assert_same_state(&l, "work", at(oldest), "early", "");
    lake_insert(&l, "grandchild", "main", "t", 1);
    lake_insert(&l, "early", "main", "t", 2);
    assert_int_equal(lake_rows(&l, "grandchild", "", "main", "t"), 11);
    assert_int_equal(lake_rows(&l, "early", "", "main", "t"), 32);
    lake_case_done(&l);
}

static void a_change_begins_at_a_snapshot_of_its_own_catalog(void **state)
{
    lake_case l = open_work(state);
    tide_lake_change *change = NULL;
    const int64_t point = lake_head(&l, "work");
    const int64_t first = lake_fork_of(&l, "work", "fork", "");
    lake_insert(&l, "fork", "main", "t", 1);
    assert_status(TIDE_E_INVALID, tide_lake_begin(&change, l.lake, "fork", point, &l.err));
    assert_contains(l.err.text, "before the fork");
    assert_status(TIDE_E_NOT_FOUND, tide_lake_begin(&change, l.lake, "fork", 12345, &l.err));
    assert_ok_err(tide_lake_begin(&change, l.lake, "fork", first, &l.err), &l.err);
    assert_int_equal(tide_lake_change_base(change), first);
    lake_op_insert(&l, change, "main", "t", 2); /* an insert since then is no conflict */
    lake_commit(&l, change);
    assert_ok_err(tide_lake_begin(&change, l.lake, "fork", first, &l.err), &l.err);
    lake_op_delete(&l, change, "main", "t", false);
    assert_status(TIDE_E_CONFLICT, lake_try_commit(&l, change));
    lake_case_done(&l);
}

static void a_long_line_of_forks_reads_as_one(void **state)
{
    enum { DEPTH = 24 };
    lake_case l = open_work(state);
    char parent[32] = "work";
    for (int i = 1; i <= DEPTH; i++) {
        char child[32];
        (void)snprintf(child, sizeof child, "f%d", i);
        lake_fork_of(&l, parent, child, "");
        if (i % 2 == 0) {
            lake_insert(&l, child, "main", "t", 1);
        } else if (i % 3 == 0) {
            tide_lake_change *change = lake_begin(&l, child);
            lake_op_compact(&l, change, "main", "t");
            lake_commit(&l, change);
        }
        (void)snprintf(parent, sizeof parent, "%s", child);
    }
    assert_int_equal(lake_rows(&l, parent, "", "main", "t"), 30 + DEPTH / 2);
    assert_int_equal(lake_rows(&l, "work", "", "main", "t"), 30);
    lake_case_done(&l);
}

static void a_dropped_parent_is_hidden_and_its_forks_go_on(void **state)
{
    lake_case l = open_work(state);
    tide_lake_change *late = lake_begin(&l, "work");
    lake_op_insert(&l, late, "main", "t", 1);
    lake_fork_of(&l, "work", "fork", "");
    TIDE_CLEANUP(tide_freep) char *was = lake_state(&l, "fork", "");
    assert_ok_err(tide_lake_drop_catalog(l.lake, "WORK", &l.err), &l.err);
    assert_status(TIDE_E_NOT_FOUND, lake_try_commit(&l, late));
    assert_contains(l.err.text, "dropped meanwhile");
    tide_lake_change *change = NULL;
    assert_status(TIDE_E_NOT_FOUND, tide_lake_begin(&change, l.lake, "work", 0, &l.err));
    assert_contains(l.err.text, "fork");
    TIDE_CLEANUP(tide_freep) char *is = lake_state(&l, "fork", "");
    assert_string_equal(was, is);
    lake_insert(&l, "fork", "main", "t", 4);
    assert_int_equal(lake_rows(&l, "fork", "", "main", "t"), 34);
    lake_catalog(&l, "work"); /* the name is free again */
    assert_status(TIDE_E_NOT_FOUND, tide_lake_drop_catalog(l.lake, "nobody", &l.err));
    lake_case_done(&l);
}

/* ---- while the parent commits ---- */

typedef struct writer {
    tide_store *store;
    tide_lake *lake;
    atomic_bool is_over;
    tide_status status;
    tide_error err;
    int commits;
} writer;

static tide_status add_one(writer *w)
{
    TIDE_CLEANUP(tide_lake_drop_changep) tide_lake_change *change = NULL;
    TIDE_CLEANUP(tide_lake_table_done) tide_lake_table_seen seen = {0};
    char path[32];
    (void)snprintf(path, sizeof path, "w-%d.parquet", w->commits);
    const tide_lake_new_file file = {.path = path, .record_count = 1, .file_size_bytes = 1};
    tide_lake_committed done;
    TIDE_TRY(tide_lake_begin(&change, w->lake, "work", 0, &w->err));
    TIDE_TRY(tide_lake_change_table(change, "main", "t", &seen, &w->err));
    TIDE_TRY(tide_lake_add_file(change, seen.table.id, &file, &w->err));
    TIDE_TRY(tide_lake_commit(change, NULL, &done, &w->err));
    w->commits++;
    return TIDE_OK;
}

static void *write_on(void *arg)
{
    writer *w = arg;
    while (!atomic_load(&w->is_over) && w->status >= TIDE_OK)
        w->status = add_one(w);
    return NULL;
}

static void a_fork_taken_while_the_parent_commits_is_exactly_one_snapshot(void **state)
{
    enum { FORKS = 8 };
    lake_case l = open_work(state);
    writer w = {.store = store_test_open_real(l.t)};
    tide_lake_created made[FORKS];
    pthread_t thread;
    assert_ok_err(tide_lake_open(&w.lake, w.store, &l.err), &l.err);
    assert_int_equal(pthread_create(&thread, NULL, write_on, &w), 0);
    for (int i = 0; i < FORKS; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "f%d", i);
        assert_ok_err(tide_lake_fork(l.lake, "work", name, "", NULL, &made[i], &l.err), &l.err);
    }
    atomic_store(&w.is_over, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_ok_err(w.status, &w.err);
    for (int i = 0; i < FORKS; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "f%d", i);
        assert_same_state(&l, "work", at(made[i].parent_snapshot_id), name, "");
    }
    tide_lake_close(w.lake);
    lake_case_done(&l);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        STORE_CASE(a_fork_equals_its_parent_at_its_point),
        STORE_CASE(a_point_that_is_not_there_is_told),
        STORE_CASE(a_fork_changes_nothing_in_its_parent),
        STORE_CASE(a_parent_changes_nothing_in_its_fork),
        STORE_CASE(a_fork_of_a_fork_sees_what_its_line_had_done_by_then),
        STORE_CASE(a_change_begins_at_a_snapshot_of_its_own_catalog),
        STORE_CASE(a_long_line_of_forks_reads_as_one),
        STORE_CASE(a_dropped_parent_is_hidden_and_its_forks_go_on),
        STORE_CASE(a_fork_taken_while_the_parent_commits_is_exactly_one_snapshot),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
