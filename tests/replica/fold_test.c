/* What any program writes becomes events: once, in order, in whole cuts. */
#include <stdio.h>
#include <string.h>

#include "replica/event.h"
#include "replica/fold.h"
#include "world.h"

static const char schema[] = "CREATE TABLE t (id INTEGER PRIMARY KEY, a TEXT, b, u TEXT UNIQUE);"
                             "CREATE TABLE other (k TEXT NOT NULL PRIMARY KEY, v);";
static const char *const tables[] = {"t", "other", NULL};
#define WEEK_US INT64_C(604800000000)

static int setup(void **state)
{
    static world w;
    world_init(&w, 2, 7, schema, tables, WEEK_US);
    *state = &w;
    return 0;
}

static int teardown(void **state)
{
    world_done(*state);
    return 0;
}

static tide_origin_mark own_mark(world *w, int node)
{
    tide_origin_mark found[WORLD_MARKS_MAX];
    const tide_node_id id = tide_node_get_id(w->nodes[node].node);
    const int count = world_marks(w, node, found);
    for (int i = 0; i < count; i++)
        if (memcmp(&found[i].origin, &id, sizeof id) == 0)
            return found[i];
    fail_msg("node %d has no log of its own", node);
    return found[0];
}

/* Change, number and log are one transaction of the program that wrote; the fold loses and doubles nothing. */
static void changes_become_events_once_and_in_order(void **state)
{
    world *w = *state;
    world_run(w, 0, "INSERT INTO t VALUES (1, 'x', 2.5, 'u1')");
    world_run(
        w, 0,
        "BEGIN; UPDATE t SET a = 'y' WHERE id = 1; INSERT INTO other VALUES ('k', NULL); COMMIT");
    world_run(w, 0, "DELETE FROM t WHERE id = 1");
    assert_int_not_equal(
        SQLITE_OK, world_try(w, 0, "BEGIN; INSERT INTO t VALUES (9, 'x', 1, 'u9'); nonsense"));
    int64_t events = 0;
    bool more = true;
    assert_ok_err(tide_node_fold(w->nodes[0].node, &events, &more, &w->err), &w->err);
    assert_int_equal(4, events);
    assert_false(more);
    assert_ok_err(tide_node_fold(w->nodes[0].node, &events, &more, &w->err), &w->err);
    assert_int_equal(0, events);
    char *shown = world_dump(w, 0,
                             "SELECT operation_type, record_id, origin_seq, processed FROM "
                             "t_Events ORDER BY origin_seq");
    assert_string_equal("3:create|3:1|1:1|1:1|\n3:update|3:1|1:2|1:1|\n3:delete|3:1|1:4|1:1|\n",
                        shown);
    sqlite3_free(shown);
    const tide_origin_mark mark = own_mark(w, 0);
    assert_int_equal(4, mark.prefix);
    assert_int_equal(1, world_number(w, 0, "SELECT count(*) FROM tide_replica_seq"));
    assert_int_equal(
        4, world_number(w, 0,
                        "SELECT value FROM replication_meta WHERE key = 'origin_seq::node0.db'"));
    assert_int_equal(
        4, world_number(w, 0,
                        "SELECT origin_seq FROM replication_checkpoints WHERE table_name = 't'"));
}

/* Events name what they replaced, the number before theirs in their table, and the cut that they belong to. */
static void events_say_what_they_follow(void **state)
{
    world *w = *state;
    static world_page page;
    tide_event event[3] = {{.columns = NULL}};
    world_run(w, 0,
              "INSERT INTO t VALUES (1, 'x', 2, 'u1'); INSERT INTO other VALUES ('k', 1); UPDATE t "
              "SET b = 3 WHERE id = 1");
    world_fold(w, 0);
    const tide_origin_mark mark = own_mark(w, 0);
    assert_ok_err(world_read(w, 0, &mark, 0, 100, &page), &w->err);
    assert_int_equal(3, page.count);
    for (int i = 0; i < 3; i++) {
        assert_ok_err(tide_event_decode(&event[i], page.events[i], &w->err), &w->err);
        assert_int_equal(3, event[i].cut_seq);
        assert_int_equal(i + 1, event[i].seq);
    }
    assert_int_equal(1, event[2].prev_seq);
    assert_int_equal(0, event[1].prev_seq);
    assert_int_equal(1, event[2].column_count);
    assert_int_equal(2, event[2].columns[0].column);
    assert_int_equal(0, tide_stamp_compare(&event[0].stamp, &event[2].columns[0].base));
    for (int i = 0; i < 3; i++)
        tide_event_done(&event[i]);
    world_page_done(&page);
}

/* Changes of a key are a delete and a create; what REPLACE removes unseen is deleted too. */
static void key_changes_and_replaced_rows_are_deletes(void **state)
{
    world *w = *state;
    world_run(w, 0, "INSERT INTO t VALUES (1, 'x', 1, 'u1'), (2, 'y', 2, 'u2')");
    world_run(w, 0, "UPDATE t SET id = 5 WHERE id = 1");
    world_run(w, 0, "REPLACE INTO t VALUES (9, 'z', 3, 'u2')");
    world_settle(w);
    world_assert_same(w, tables, true);
    assert_int_equal(0, world_number(w, 1, "SELECT count(*) FROM t WHERE id IN (1, 2)"));
    assert_int_equal(2, world_number(w, 1, "SELECT count(*) FROM t"));
}

/* A crash between turns changes nothing: a cut that is larger than a turn is folded in several, and given to nobody before the last. */
static void a_large_cut_is_given_out_whole(void **state)
{
    world *w = *state;
    static world_page page;
    int64_t events = 0;
    bool more = false;
    world_run(w, 0,
              "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d) "
              "INSERT INTO other SELECT 'k' || i, i FROM n",
              TIDE_FOLD_CHANGES_MAX + 10);
    assert_ok_err(tide_node_fold(w->nodes[0].node, &events, &more, &w->err), &w->err);
    assert_true(more);
    assert_int_equal(TIDE_FOLD_CHANGES_MAX, events);
    tide_origin_mark mark = own_mark(w, 0);
    assert_ok_err(world_read(w, 0, &mark, 0, 100, &page), &w->err);
    assert_int_equal(0, page.count);
    world_run(w, 0, "INSERT INTO other VALUES ('later', 1)"); /* of the next cut */
    world_reopen(w, 0);
    assert_ok_err(tide_node_fold(w->nodes[0].node, &events, &more, &w->err), &w->err);
    assert_true(more); /* the next cut */
    assert_int_equal(10, events);
    assert_ok_err(world_read(w, 0, &mark, 0, 100, &page), &w->err);
    assert_int_equal(100, page.count);
    world_page_done(&page);
    world_settle(w);
    world_assert_same(w, tables, true);
    assert_int_equal(TIDE_FOLD_CHANGES_MAX + 11, world_number(w, 1, "SELECT count(*) FROM other"));
}

static int64_t held(world *w, const char *reason)
{
    return world_number(w, 0, "SELECT count(*) FROM tide_replica_quarantine WHERE reason = '%s'",
                        reason);
}

/* Oversized: it stays here alone, visibly, and is in nobody's way; what fits goes out. */
static void a_value_that_no_event_carries_is_told_and_left(void **state)
{
    world *w = *state;
    world_run(w, 0, "INSERT INTO t VALUES (1, 'a', zeroblob(34000000), 'u1')");
    world_run(w, 0, "INSERT INTO t VALUES (2, 'b', 2, 'u2'); INSERT INTO other VALUES ('k', 1)");
    world_run(w, 1, "INSERT INTO other VALUES ('l', 1)");
    world_settle(w);
    assert_int_equal(1, held(w, "size"));
    assert_int_equal(2, world_number(w, 0, "SELECT count(*) FROM other"));
    assert_int_equal(2, world_number(w, 1, "SELECT count(*) FROM other"));
    assert_int_equal(2, world_number(w, 1, "SELECT count(*) FROM t"));
    assert_int_equal(1, world_number(w, 1, "SELECT a = 'a' AND b IS NULL FROM t WHERE id = 1"));
    world_run(w, 0, "UPDATE t SET a = 'c' WHERE id = 1");
    world_settle(w);
    assert_int_equal(1, held(w, "size"));
    assert_int_equal(34000000, world_number(w, 0, "SELECT length(b) FROM t WHERE id = 1"));
    world_run(w, 0, "UPDATE t SET b = 'small' WHERE id = 1");
    world_settle(w);
    assert_int_equal(0, held(w, "size"));
    world_assert_same(w, tables, true);
}

static void a_row_that_no_event_carries_may_go_again(void **state)
{
    world *w = *state;
    world_run(w, 0, "INSERT INTO t VALUES (1, 'a', zeroblob(34000000), 'u1')");
    world_fold(w, 0);
    world_run(w, 0, "DELETE FROM t WHERE id = 1");
    world_run(w, 0, "INSERT INTO t VALUES (2, 'a', zeroblob(34000000), 'u2')");
    world_run(w, 0, "DELETE FROM t WHERE id = 2");
    world_run(w, 0, "INSERT INTO t VALUES (3, 'a', 1, 'u3')");
    world_settle(w);
    assert_int_equal(0, held(w, "size"));
    world_assert_same(w, tables, true);
}

static void a_key_that_no_event_carries_is_told_and_left(void **state)
{
    world *w = *state;
    world_run(w, 0, "INSERT INTO other VALUES (hex(zeroblob(600000)), 1), ('k', 2)");
    world_settle(w);
    assert_int_equal(1, held(w, "size"));
    assert_int_equal(1, world_number(w, 1, "SELECT count(*) FROM other"));
}

/* What stands in a later turn is in the table already: an earlier one must not undo it, and what it makes room for comes back. */
static void turns_of_a_fold_do_not_undo_what_later_ones_bring(void **state)
{
    world *w = *state;
    enum { ROWS = 12000 };
    world_run(w, 0,
              "CREATE TABLE turn(id TEXT PRIMARY KEY NOT NULL, u INT UNIQUE, v);"
              "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < %d) "
              "INSERT INTO turn SELECT printf('k%%05d', i), i, 'v' FROM n",
              ROWS);
    tide_tracked tracked;
    assert_ok_err(tide_node_track(w->nodes[0].node, "turn", WEEK_US, &tracked, &w->err), &w->err);
    world_run(w, 0, "UPDATE OR REPLACE turn SET u = 4198 WHERE id = 'k01058'");
    world_run(w, 0, "INSERT OR REPLACE INTO turn VALUES('new', 77, 'w')");
    world_run(w, 0,
              "BEGIN; UPDATE turn SET u = -1 WHERE id = 'k00001';"
              "UPDATE turn SET u = 1 WHERE id = 'k00002'; COMMIT");
    world_run(w, 0, "CREATE TABLE wanted AS SELECT * FROM turn ORDER BY id");
    world_fold(w, 0);
    assert_int_equal(0, world_number(w, 0,
                                     "SELECT count(*) FROM (SELECT * FROM turn EXCEPT SELECT * "
                                     "FROM wanted)"));
    assert_int_equal(ROWS - 1, world_number(w, 0, "SELECT count(*) FROM turn"));
    assert_int_equal(0, world_number(w, 0, "SELECT count(*) FROM tide_replica_clocks WHERE aside"));
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(changes_become_events_once_and_in_order, setup, teardown),
        cmocka_unit_test_setup_teardown(events_say_what_they_follow, setup, teardown),
        cmocka_unit_test_setup_teardown(key_changes_and_replaced_rows_are_deletes, setup, teardown),
        cmocka_unit_test_setup_teardown(a_large_cut_is_given_out_whole, setup, teardown),
        cmocka_unit_test_setup_teardown(turns_of_a_fold_do_not_undo_what_later_ones_bring, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_value_that_no_event_carries_is_told_and_left, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_row_that_no_event_carries_may_go_again, setup, teardown),
        cmocka_unit_test_setup_teardown(a_key_that_no_event_carries_is_told_and_left, setup,
                                        teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
