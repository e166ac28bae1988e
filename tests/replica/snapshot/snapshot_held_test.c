/* Snapshots of a node that has events which it has not merged: it holds them in quarantine, or does not track their table. Its marks have their numbers, its rows do
 * not have them. */
#include <string.h>
#include <unistd.h>

#include "replica/snapshot/snapshots.h"

#define AHEAD_US INT64_C(1200000000) /* beyond the bound of clocks that differ */

static void set_ahead(snapshots *t, int node)
{
    virtual_env *env = &t->w.nodes[node].env;
    virtual_env_set_wall(env, env->wall_us + AHEAD_US);
}

/* What others of this clock have written is no longer ahead. */
static void catch_up(snapshots *t)
{
    world_advance(&t->w, AHEAD_US);
    for (int i = 0; i < t->w.count; i++)
        world_fold(&t->w, i);
}

static int64_t count_held(snapshots *t, int node)
{
    return world_number(&t->w, node, "SELECT count(*) FROM tide_replica_quarantine");
}

/* The maker has nothing of the row: not because it was deleted there, but because its creation waits. */
static void a_row_whose_creation_the_maker_holds_stays(void **state)
{
    (void)state;
    snapshots t;
    snapshots_begin(&t, 2, 1);
    set_ahead(&t, 1);
    world_run(&t.w, 1, "INSERT INTO todos VALUES('ahead', 'mine', 1, NULL)");
    (void)world_pull(&t.w, 0, 1, 50);
    assert_int_equal(1, count_held(&t, 0));
    snapshots_make(&t, 0);
    (void)snapshots_restore(&t, 1);
    assert_int_equal(1, world_number(&t.w, 1, "SELECT count(*) FROM todos WHERE title = 'mine'"));
    catch_up(&t);
    world_settle(&t.w);
    assert_int_equal(1, world_number(&t.w, 0, "SELECT count(*) FROM todos WHERE title = 'mine'"));
    world_assert_same(&t.w, snapshots_tables, true);
    world_done(&t.w);
}

/* The maker shows what the write replaced, and the write knew it: nothing is lost, nothing is listed. */
static void a_write_that_the_maker_holds_stays_and_still_knows_what_it_replaced(void **state)
{
    (void)state;
    snapshots t;
    snapshots_begin(&t, 2, 2);
    world_run(&t.w, 0, "INSERT INTO todos VALUES('a', 'old', 1, NULL), ('b', 'old', 1, NULL)");
    world_settle(&t.w);
    set_ahead(&t, 1);
    world_run(&t.w, 1, "UPDATE todos SET title = 'newer' WHERE id = 'a'");
    world_fold(&t.w, 1);
    world_run(&t.w, 1, "UPDATE todos SET title = 'new' WHERE id = 'a'");
    world_run(&t.w, 1, "DELETE FROM todos WHERE id = 'b'");
    (void)world_pull(&t.w, 0, 1, 50);
    assert_int_equal(3, count_held(&t, 0));
    snapshots_make(&t, 0);
    (void)snapshots_restore(&t, 1);
    assert_int_equal(1, world_number(&t.w, 1, "SELECT count(*) FROM todos WHERE title = 'new'"));
    assert_int_equal(1, world_number(&t.w, 1, "SELECT count(*) FROM todos"));
    assert_int_equal(0, world_number(&t.w, 1, "SELECT count(*) FROM tide_replica_conflicts"));
    catch_up(&t);
    world_settle(&t.w);
    assert_int_equal(0, world_number(&t.w, 0, "SELECT count(*) FROM tide_replica_conflicts"));
    world_assert_same(&t.w, snapshots_tables, true);
    world_done(&t.w);
}

/* One event of a node's own log. */
static void carry(snapshots *t, int to, int from, int64_t after)
{
    world_page page;
    const tide_origin_mark log = {.origin = tide_node_get_id(t->w.nodes[from].node), .epoch = 1};
    world_fold(&t->w, from);
    assert_ok_err(world_read(&t->w, from, &log, after, 1, &page), &t->w.err);
    assert_int_equal(1, page.count);
    (void)world_apply(&t->w, to, &page);
    world_page_done(&page);
}

/* Half of a batch waits here for its rest. The maker has all of it, and holds it: here it waits on, with the rest that the snapshot brings. */
static void half_a_batch_that_the_maker_holds_waits_on(void **state)
{
    (void)state;
    snapshots t;
    snapshots_begin(&t, 3, 3);
    set_ahead(&t, 0);
    world_run(&t.w, 0, "INSERT INTO todos VALUES('a', 'ahead', 1, NULL), ('b', 'ahead', 2, NULL)");
    (void)world_pull(&t.w, 1, 0, 50);
    assert_int_equal(2, count_held(&t, 1));
    carry(&t, 2, 0, 0);
    assert_int_equal(1, world_number(&t.w, 2, "SELECT count(*) FROM tide_replica_spool"));
    snapshots_make(&t, 1);
    (void)snapshots_restore(&t, 2);
    assert_int_equal(2, count_held(&t, 2));
    catch_up(&t);
    assert_int_equal(2, world_number(&t.w, 2, "SELECT count(*) FROM todos"));
    world_settle(&t.w);
    world_assert_same(&t.w, snapshots_tables, true);
    world_done(&t.w);
}

/* The same, of a table that the maker does not track any more: its rows are not in the snapshot. */
static void half_a_batch_of_a_table_that_the_maker_does_not_track_is_merged(void **state)
{
    (void)state;
    snapshots t;
    snapshots_begin(&t, 3, 4);
    world_run(&t.w, 0, "INSERT INTO todos VALUES('a', 'x', 1, NULL), ('b', 'x', 2, NULL)");
    (void)world_pull(&t.w, 1, 0, 50);
    assert_ok_err(tide_node_untrack(t.w.nodes[1].node, "todos", &t.w.err), &t.w.err);
    carry(&t, 2, 0, 0);
    assert_int_equal(1, world_number(&t.w, 2, "SELECT count(*) FROM tide_replica_spool"));
    snapshots_make(&t, 1);
    (void)snapshots_restore(&t, 2);
    world_fold(&t.w, 2);
    assert_int_equal(2, world_number(&t.w, 2, "SELECT count(*) FROM todos"));
    assert_int_equal(0, count_held(&t, 2));
    world_done(&t.w);
}

/* What it has collected of a table that it does not track any more would never come. */
static void a_snapshot_that_lacks_a_table_of_ours_and_its_events_is_refused(void **state)
{
    (void)state;
    snapshots t;
    tide_snapshot_restored out;
    tide_collected done = {.more = true};
    tide_tracked tracked;
    const tide_collect_options all = {.safety = -1};
    snapshots_begin(&t, 2, 6);
    world_run(&t.w, 0, "INSERT INTO todos VALUES('a', 'x', 1, NULL)");
    world_fold(&t.w, 0);
    assert_ok_err(tide_node_untrack(t.w.nodes[0].node, "todos", &t.w.err), &t.w.err);
    world_advance(&t.w, 9 * DAY_US);
    while (done.more)
        assert_ok_err(tide_node_collect(t.w.nodes[0].node, &all, &done, &t.w.err), &t.w.err);
    snapshots_make(&t, 0);
    assert_int_equal(TIDE_E_CONFLICT,
                     tide_snapshot_restore(t.w.nodes[1].node, t.path, NULL, &out, &t.w.err));
    assert_non_null(strstr(t.w.err.text, "todos"));
    assert_ok_err(tide_node_track(t.w.nodes[0].node, "todos", DAY_US, &tracked, &t.w.err),
                  &t.w.err);
    (void)unlink(t.path);
    snapshots_make(&t, 0);
    (void)snapshots_restore(&t, 1);
    assert_int_equal(1, world_number(&t.w, 1, "SELECT count(*) FROM todos"));
    world_done(&t.w);
}

/* The row stays as it is here: what the maker wrote to it, and nobody here has heard of, is lost, and listed. */
static void a_write_of_the_maker_that_loses_to_ours_is_listed(void **state)
{
    (void)state;
    snapshots t;
    snapshots_begin(&t, 2, 7);
    world_run(&t.w, 1, "INSERT INTO todos VALUES('a', 'older', 1, NULL), ('b', 'older', 1, NULL)");
    world_fold(&t.w, 1);
    world_advance(&t.w, 1000000);
    world_run(&t.w, 0, "INSERT INTO todos VALUES('a', 'newer', 2, NULL), ('b', 'newer', 2, NULL)");
    world_run(&t.w, 0, "DELETE FROM todos WHERE id = 'b'");
    world_fold(&t.w, 0);
    snapshots_make(&t, 1);
    (void)snapshots_restore(&t, 0);
    assert_int_equal(1, world_number(&t.w, 0, "SELECT count(*) FROM todos WHERE title = 'newer'"));
    assert_int_equal(6, world_number(&t.w, 0, "SELECT count(*) FROM tide_replica_conflicts"));
    (void)snapshots_restore(&t, 0); /* again: nothing */
    assert_int_equal(6, world_number(&t.w, 0, "SELECT count(*) FROM tide_replica_conflicts"));
    world_settle(&t.w);
    world_assert_same(&t.w, snapshots_tables, true);
    world_done(&t.w);
}

/* Somebody has set the maker's clock back: its own stamps lie ahead, and its snapshot is as good as before. */
static void a_clock_that_was_set_back_is_in_no_snapshots_way(void **state)
{
    (void)state;
    snapshots t;
    snapshots_begin(&t, 2, 5);
    set_ahead(&t, 0);
    world_run(&t.w, 0, "INSERT INTO todos VALUES('a', 'ahead', 1, NULL)");
    world_fold(&t.w, 0);
    virtual_env *env = &t.w.nodes[0].env;
    virtual_env_set_wall(env, env->wall_us - AHEAD_US);
    snapshots_make(&t, 0);
    catch_up(&t);
    (void)snapshots_restore(&t, 1);
    world_assert_same(&t.w, snapshots_tables, true);
    world_done(&t.w);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_row_whose_creation_the_maker_holds_stays),
        cmocka_unit_test(a_write_that_the_maker_holds_stays_and_still_knows_what_it_replaced),
        cmocka_unit_test(half_a_batch_that_the_maker_holds_waits_on),
        cmocka_unit_test(a_snapshot_that_lacks_a_table_of_ours_and_its_events_is_refused),
        cmocka_unit_test(a_write_of_the_maker_that_loses_to_ours_is_listed),
        cmocka_unit_test(a_clock_that_was_set_back_is_in_no_snapshots_way),
        cmocka_unit_test(half_a_batch_of_a_table_that_the_maker_does_not_track_is_merged),
    };
    return cmocka_run_group_tests_name("replica snapshots, held events", tests, NULL, NULL);
}
