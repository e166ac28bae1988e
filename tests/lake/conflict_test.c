/* Two changes from one base: which of them may both be, and what the second is told. Every scenario of docs/decisions/0024-conflict-matrix.md, on both engines. */
#include "lake_fixture.h"

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "lake/change_parts.h"
#include "support/interleave.h"

/* ---- deeds: schema s with table t (one file) and view v; t2 beside it (two files) ---- */

typedef void deed(lake_case *l, tide_lake_change *change);

static void create_x(lake_case *l, tide_lake_change *change)
{
    lake_op_table(l, change, "s", "x");
}
static void create_y(lake_case *l, tide_lake_change *change)
{
    lake_op_table(l, change, "s", "y");
}
static void create_x_in_main(lake_case *l, tide_lake_change *change)
{
    lake_op_table(l, change, "main", "x");
}
static void create_view_x(lake_case *l, tide_lake_change *change)
{
    assert_ok_err(tide_lake_create_view(change, "s", "X", "SELECT 1", &l->err), &l->err);
}
static void alter_v(lake_case *l, tide_lake_change *change)
{
    assert_ok_err(tide_lake_alter_view(change, "s", "v", "SELECT 2", &l->err), &l->err);
}
static void drop_v(lake_case *l, tide_lake_change *change)
{
    assert_ok_err(tide_lake_drop_view(change, "s", "v", &l->err), &l->err);
}
static void create_n(lake_case *l, tide_lake_change *change)
{
    assert_ok_err(tide_lake_create_schema(change, "n", &l->err), &l->err);
}
static void drop_s(lake_case *l, tide_lake_change *change)
{
    assert_ok_err(tide_lake_drop_schema(change, "s", true, &l->err), &l->err);
}
static void insert_t(lake_case *l, tide_lake_change *change)
{
    lake_op_insert(l, change, "s", "t", 3);
}
static void drop_t(lake_case *l, tide_lake_change *change)
{
    assert_ok_err(tide_lake_drop_table(change, "s", "t", &l->err), &l->err);
}
static void rename_t_to_x(lake_case *l, tide_lake_change *change)
{
    assert_ok_err(tide_lake_rename_table(change, "s", "t", "x", &l->err), &l->err);
}
static void partition_t(lake_case *l, tide_lake_change *change)
{
    const char *const columns[] = {"id"};
    const char *const transforms[] = {"identity"};
    assert_ok_err(tide_lake_partition_table(change, "s", "t", columns, transforms, 1, &l->err),
                  &l->err);
}
static void add_column_t(lake_case *l, tide_lake_change *change)
{
    const tide_lake_column_def column = {.name = "more", .type = "int32"};
    assert_ok_err(tide_lake_add_column(change, "s", "t", &column, &l->err), &l->err);
}
static void rename_column_t(lake_case *l, tide_lake_change *change)
{
    assert_ok_err(tide_lake_rename_column(change, "s", "t", "name", "label", &l->err), &l->err);
}
static void delete_t(lake_case *l, tide_lake_change *change)
{
    lake_op_delete(l, change, "s", "t", false);
}
static void delete_all_t(lake_case *l, tide_lake_change *change)
{
    lake_op_delete(l, change, "s", "t", true);
}
static void compact_t(lake_case *l, tide_lake_change *change)
{
    lake_op_compact(l, change, "s", "t");
}
static void insert_u(lake_case *l, tide_lake_change *change)
{
    lake_op_insert(l, change, "s", "u", 1);
}
static void drop_u(lake_case *l, tide_lake_change *change)
{
    assert_ok_err(tide_lake_drop_table(change, "s", "u", &l->err), &l->err);
}

static const struct {
    const char *name;
    deed *first;
    deed *second;
    bool collide;
} scenarios[] = {
    {"create tables of different names", create_x, create_y, false},
    {"create tables of one name", create_x, create_x, true},
    {"one table's name in two schemas", create_x, create_x_in_main, false},
    {"insert twice", insert_t, insert_t, false},
    {"insert into two tables", insert_t, insert_u, false},
    {"drop a table twice", drop_t, drop_t, true},
    {"drop two tables", drop_t, drop_u, false},
    {"create a schema twice", create_n, create_n, true},
    {"drop a schema twice", drop_s, drop_s, true},
    {"create in a dropped schema", drop_s, create_x, true},
    {"drop a schema that got a new table", create_x, drop_s, true},
    {"insert into a dropped table", drop_t, insert_t, true},
    {"insert into a table of a dropped schema", drop_s, insert_t, true},
    {"drop what was inserted into", insert_t, drop_t, false},
    {"drop the schema of what was inserted into", insert_t, drop_s, false},
    {"drop what was renamed", rename_t_to_x, drop_t, false},
    {"drop what was altered", add_column_t, drop_t, false},
    {"set the partition key twice", partition_t, partition_t, true},
    {"insert after a new partition key", partition_t, insert_t, true},
    {"a new partition key after an insert", insert_t, partition_t, false},
    {"partition a dropped table", drop_t, partition_t, true},
    {"alter twice", add_column_t, rename_column_t, true},
    {"alter a dropped table", drop_t, add_column_t, true},
    {"insert into an altered table", add_column_t, insert_t, true},
    {"alter after an insert", insert_t, add_column_t, false},
    {"rename to a name that was taken", create_x, rename_t_to_x, true},
    {"create what was renamed to", rename_t_to_x, create_x, true},
    {"delete the same rows", delete_t, delete_t, true},
    {"delete everything twice", delete_all_t, delete_all_t, true},
    {"delete rows of a file that is gone", delete_all_t, delete_t, true},
    {"delete from a dropped table", drop_t, delete_t, true},
    {"delete from an altered table", add_column_t, delete_t, true},
    {"delete after an insert", insert_t, delete_t, true},
    {"insert after a delete", delete_t, insert_t, false},
    {"compact after a delete", delete_t, compact_t, true},
    {"delete after a compaction", compact_t, delete_t, true},
    {"compact twice", compact_t, compact_t, true},
    {"compact after an insert", insert_t, compact_t, false},
    {"insert after a compaction", compact_t, insert_t, false},
    {"compact a dropped table", drop_t, compact_t, true},
    {"create a view twice", create_view_x, create_view_x, true},
    {"create a view, then a table of its name", create_view_x, create_x, true},
    {"create a table, then a view of its name", create_x, create_view_x, true},
    {"drop a view twice", drop_v, drop_v, true},
    {"alter a view twice", alter_v, alter_v, true},
    {"alter a dropped view", drop_v, alter_v, true},
    {"drop an altered view", alter_v, drop_v, false},
};

static void furnish(lake_case *l, const char *catalog)
{
    lake_catalog(l, catalog);
    tide_lake_change *change = lake_begin(l, catalog);
    assert_ok_err(tide_lake_create_schema(change, "s", &l->err), &l->err);
    lake_op_table(l, change, "s", "t");
    lake_op_table(l, change, "s", "u");
    lake_op_insert(l, change, "s", "t", 10);
    assert_ok_err(tide_lake_create_view(change, "s", "v", "SELECT 1", &l->err), &l->err);
    lake_commit(l, change);
}

static void play(lake_case *l, size_t i, const char *catalog)
{
    tide_lake_change *first = lake_begin(l, catalog);
    tide_lake_change *second = lake_begin(l, catalog);
    scenarios[i].first(l, first);
    scenarios[i].second(l, second);
    const tide_lake_commit_options options = {.author = "first"};
    tide_lake_committed done;
    assert_ok_err(tide_lake_commit(first, &options, &done, &l->err), &l->err);
    tide_lake_drop_change(first);
    const int64_t head = lake_head(l, catalog);
    const tide_status status = lake_try_commit(l, second);
    if (status != (scenarios[i].collide ? TIDE_E_CONFLICT : TIDE_OK))
        fail_msg("%s: %s (%s)", scenarios[i].name, tide_status_get(status)->name, l->err.text);
    if (!scenarios[i].collide)
        return;
    assert_contains(l->err.text, "by 'first'");
    assert_contains(l->err.text, "try again");
    assert_int_equal(lake_head(l, catalog), head);
}

static void every_scenario_has_its_outcome(void **state)
{
    lake_case l = lake_case_open(state);
    for (size_t i = 0; i < sizeof scenarios / sizeof scenarios[0]; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "c%zu", i);
        furnish(&l, name);
        play(&l, i, name);
    }
    lake_case_done(&l);
}

/* The same in a fork, where everything that ends is an ancestor's. */
static void every_scenario_has_its_outcome_in_a_fork(void **state)
{
    lake_case l = lake_case_open(state);
    furnish(&l, "parent");
    TIDE_CLEANUP(tide_freep) char *was = lake_state(&l, "parent", "");
    for (size_t i = 0; i < sizeof scenarios / sizeof scenarios[0]; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "c%zu", i);
        lake_fork_of(&l, "parent", name, "");
        play(&l, i, name);
    }
    TIDE_CLEANUP(tide_freep) char *is = lake_state(&l, "parent", "");
    assert_string_equal(was, is);
    lake_case_done(&l);
}

static void the_same_names_in_two_catalogs_do_not_collide(void **state)
{
    static deed *const deeds[] = {create_n, create_x, drop_v, partition_t, delete_t, drop_u};
    lake_case l = lake_case_open(state);
    furnish(&l, "a");
    furnish(&l, "b");
    tide_lake_change *first = lake_begin(&l, "a");
    tide_lake_change *second = lake_begin(&l, "b");
    for (size_t i = 0; i < sizeof deeds / sizeof deeds[0]; i++) {
        deeds[i](&l, first);
        deeds[i](&l, second);
    }
    lake_commit(&l, first);
    lake_commit(&l, second);
    lake_case_done(&l);
}

static void two_may_delete_from_different_files_of_a_table(void **state)
{
    lake_case l = lake_case_open(state);
    furnish(&l, "work");
    lake_insert(&l, "work", "s", "t", 5);
    tide_lake_change *first = lake_begin(&l, "work");
    tide_lake_change *second = lake_begin(&l, "work");
    tide_lake_change *third = lake_begin(&l, "work");
    lake_op_delete_of(&l, first, "s", "t", 0, true);
    lake_op_delete_of(&l, second, "s", "t", 1, false);
    lake_op_delete_of(&l, third, "s", "t", 1, false);
    lake_commit(&l, first);
    lake_commit(&l, second);
    assert_status(TIDE_E_CONFLICT, lake_try_commit(&l, third));
    assert_contains(l.err.text, "rows of the same file");
    assert_int_equal(lake_rows(&l, "work", "", "s", "t"), 4);
    lake_case_done(&l);
}

/* ---- under the lock ---- */

typedef struct actor {
    lake_case *l;
    interleave *x;
    int64_t catalog_id;
    tide_lake_change *change;
    tide_status status;
    tide_error err;
    int64_t snapshot;
    int64_t parent;
} actor;

/* A commit by hand, which stops while it holds the head. */
static tide_status drop_slowly(tide_tx *tx, void *arg, tide_error *err)
{
    actor *a = arg;
    const uint64_t nothing[2] = {0, 0};
    TIDE_TRY(tide_lake_next_snapshot(tx, a->catalog_id, 0, nothing, &a->snapshot, err));
    TIDE_TRY(tide_tx_take_counters(tx, err));
    interleave_step(a->x, 0, 1);
    const lake_publication what = {.catalog_id = a->catalog_id,
                                   .changes = "",
                                   .marks = "[\"name 7 zz\",\"insert 99\",\"name-schema n\"]",
                                   .key = "by hand",
                                   .parent = &a->parent};
    return lake_publish(tx, &what, err);
}

static void run_slow(interleave *x, int index, void *arg)
{
    (void)index;
    actor *a = arg;
    a->x = x;
    a->status = tide_store_write(a->l->t->store, drop_slowly, a, &a->err);
}

static void run_commit(interleave *x, int index, void *arg)
{
    (void)x;
    (void)index;
    actor *a = arg;
    tide_lake_committed done;
    a->status = tide_lake_commit(a->change, NULL, &done, &a->err);
    a->snapshot = done.snapshot_id;
}

/* The second began to commit before the first was there, and is checked against it all the same. */
static void the_check_runs_under_the_lock(void **state)
{
    lake_case l = lake_case_open(state);
    store_test *t = *state;
    furnish(&l, "work");
    actor slow = {.l = &l, .catalog_id = lake_find(&l, "work").catalog_id};
    actor quick = {.l = &l};
    tide_lake *other = NULL;
    assert_ok_err(tide_lake_open(&other, store_test_open_real(t), &l.err), &l.err);
    assert_ok_err(tide_lake_begin(&quick.change, other, "work", 0, &l.err), &l.err);
    assert_ok_err(tide_lake_create_schema(quick.change, "n", &l.err), &l.err);
    interleave x;
    interleave_init(&x, t);
    const int a = interleave_add(&x, run_slow, &slow);
    const int b = interleave_add(&x, run_commit, &quick);
    interleave_until(&x, a, 1);
    interleave_blocked(&x, b);
    interleave_finish(&x, a);
    interleave_finish(&x, b);
    interleave_done(&x);
    assert_ok_err(slow.status, &slow.err);
    assert_status_err(TIDE_E_CONFLICT, quick.status, &quick.err);
    assert_contains(quick.err.text, "created a schema of this name");
    tide_lake_drop_change(quick.change);
    tide_lake_close(other);
    lake_case_done(&l);
}

/* A catalog whose head is held does not hold up another. */
static void another_catalog_neither_waits_nor_hides_a_conflict(void **state)
{
    lake_case l = lake_case_open(state);
    store_test *t = *state;
    furnish(&l, "work");
    furnish(&l, "other");
    actor slow = {.l = &l, .catalog_id = lake_find(&l, "work").catalog_id};
    tide_lake *second = NULL;
    assert_ok_err(tide_lake_open(&second, store_test_open_real(t), &l.err), &l.err);
    actor quick = {.l = &l};
    assert_ok_err(tide_lake_begin(&quick.change, second, "other", 0, &l.err), &l.err);
    assert_ok_err(tide_lake_create_schema(quick.change, "n", &l.err), &l.err);
    interleave x;
    interleave_init(&x, t);
    const int a = interleave_add(&x, run_slow, &slow);
    const int b = interleave_add(&x, run_commit, &quick);
    interleave_until(&x, a, 1);
    interleave_finish(&x, b); /* while the first still holds its head */
    interleave_finish(&x, a);
    interleave_done(&x);
    assert_ok_err(quick.status, &quick.err);
    assert_ok_err(slow.status, &slow.err);
    tide_lake_drop_change(quick.change);
    tide_lake_change *change = NULL;
    assert_ok_err(tide_lake_begin(&change, second, "work", 0, &l.err), &l.err);
    tide_lake_drop_change(change);
    tide_lake_close(second);
    lake_case_done(&l);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        STORE_CASE(every_scenario_has_its_outcome),
        STORE_CASE(every_scenario_has_its_outcome_in_a_fork),
        STORE_CASE(the_same_names_in_two_catalogs_do_not_collide),
        STORE_CASE(two_may_delete_from_different_files_of_a_table),
        STORE_CASE(the_check_runs_under_the_lock),
        STORE_CASE_POSTGRES(another_catalog_neither_waits_nor_hides_a_conflict),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
