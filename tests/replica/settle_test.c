/* Conflicts that a person decides: the entry leaves every node, and nothing else becomes one. */
#include <stdio.h>
#include <string.h>

#include "replica/world.h"

#define WEEK_US INT64_C(604800000000)
#define SECOND_US INT64_C(1000000)

static const char *const tables[] = {"t", NULL};

static int setup(void **state)
{
    static world w;
    world_init(&w, 3, 9, "CREATE TABLE t(k TEXT NOT NULL PRIMARY KEY, v, u UNIQUE)", tables,
               WEEK_US);
    world_run(&w, 0, "INSERT INTO t VALUES('a', 0, NULL), ('b', 0, NULL)");
    world_settle(&w);
    *state = &w;
    return 0;
}

static int teardown(void **state)
{
    world_done(*state);
    return 0;
}

typedef struct first {
    char id[TIDE_CONFLICT_ID_SIZE];
    char reason[32];
    char ours[128];
    int count;
} first;

static tide_status take_first(void *arg, const tide_conflict *conflict, tide_error *err)
{
    first *out = arg;
    (void)err;
    if (out->count++ > 0)
        return TIDE_OK;
    (void)snprintf(out->id, sizeof out->id, "%s", conflict->id);
    (void)snprintf(out->reason, sizeof out->reason, "%s", conflict->reason);
    (void)snprintf(out->ours, sizeof out->ours, "%.*s", (int)conflict->ours.len,
                   conflict->ours.len > 0 ? conflict->ours.ptr : "");
    return TIDE_OK;
}

static first find(world *w, int node)
{
    first out = {.count = 0};
    assert_ok_err(tide_node_conflicts(w->nodes[node].node, take_first, &out, &w->err), &w->err);
    return out;
}

static void assert_conflicts(world *w, int expected)
{
    for (int i = 0; i < w->count; i++)
        assert_int_equal(expected, find(w, i).count);
}

static void assert_shown(world *w, const char *query)
{
    for (int i = 0; i < w->count; i++)
        if (world_number(w, i, "%s", query) != 1)
            fail_msg("node %d: not %s", i, query);
    world_assert_same(w, tables, true);
}

/* Nodes 0 and 1 write, node 1 later. */
static void write_both(world *w, const char *lower, const char *higher)
{
    world_run(w, 0, "%s", lower);
    world_fold(w, 0);
    world_advance(w, SECOND_US);
    world_run(w, 1, "%s", higher);
    world_fold(w, 1);
    world_settle(w);
    world_advance(w, SECOND_US);
}

static tide_status settle(world *w, int node, const char *id, tide_conflict_choice choice,
                          int64_t value)
{
    const tide_sql_value given = {.kind = TIDE_SQL_VALUE_I64, .i64 = value};
    return tide_node_settle_conflict(w->nodes[node].node, id, choice, &given, &w->err);
}

static void a_dismissed_write_is_listed_nowhere(void **state)
{
    world *w = *state;
    write_both(w, "UPDATE t SET v = 1 WHERE k = 'a'", "UPDATE t SET v = 2 WHERE k = 'a'");
    assert_conflicts(w, 1);
    assert_string_equal(find(w, 0).id, find(w, 2).id);
    assert_string_equal("2", find(w, 2).ours);
    assert_ok_err(settle(w, 2, find(w, 2).id, TIDE_CONFLICT_OURS, 0), &w->err);
    assert_int_equal(0, find(w, 2).count);
    world_settle(w);
    assert_conflicts(w, 0);
    assert_shown(w, "SELECT v = 2 FROM t WHERE k = 'a'");
}

static void the_lost_write_is_taken(void **state)
{
    world *w = *state;
    write_both(w, "UPDATE t SET v = 1 WHERE k = 'a'", "UPDATE t SET v = 2 WHERE k = 'a'");
    assert_ok_err(settle(w, 2, find(w, 2).id, TIDE_CONFLICT_THEIRS, 0), &w->err);
    world_settle(w);
    assert_conflicts(w, 0);
    assert_shown(w, "SELECT v = 1 FROM t WHERE k = 'a'");
}

static void another_value_is_taken(void **state)
{
    world *w = *state;
    write_both(w, "UPDATE t SET v = 1 WHERE k = 'a'", "UPDATE t SET v = 2 WHERE k = 'a'");
    assert_ok_err(settle(w, 0, find(w, 0).id, TIDE_CONFLICT_VALUE, 12), &w->err);
    world_settle(w);
    assert_conflicts(w, 0);
    assert_shown(w, "SELECT v = 12 FROM t WHERE k = 'a'");
}

/* The table refuses it: nothing has happened. */
static void a_value_that_the_table_refuses_settles_nothing(void **state)
{
    world *w = *state;
    world_run(w, 0, "UPDATE t SET u = 7 WHERE k = 'b'");
    world_settle(w);
    write_both(w, "UPDATE t SET u = 1 WHERE k = 'a'", "UPDATE t SET u = 2 WHERE k = 'a'");
    assert_status(TIDE_E_EXISTS, settle(w, 0, find(w, 0).id, TIDE_CONFLICT_VALUE, 7));
    world_settle(w);
    assert_conflicts(w, 1);
    assert_shown(w, "SELECT u = 2 FROM t WHERE k = 'a'");
}

static void a_delete_that_was_outlived_has_its_way_or_not(void **state)
{
    world *w = *state;
    write_both(w, "DELETE FROM t", "UPDATE t SET v = 2");
    assert_conflicts(w, 2);
    assert_string_equal("delete", find(w, 2).reason);
    assert_ok_err(settle(w, 2, find(w, 2).id, TIDE_CONFLICT_OURS, 0), &w->err);
    assert_ok_err(settle(w, 2, find(w, 2).id, TIDE_CONFLICT_THEIRS, 0), &w->err);
    world_settle(w);
    assert_conflicts(w, 0);
    assert_shown(w, "SELECT group_concat(k || v) = 'a2' FROM t");
}

/* Node 2 hears of the decision before it hears of the write that was lost. */
static void a_dismissal_may_come_before_the_write(void **state)
{
    world *w = *state;
    world_run(w, 0, "UPDATE t SET v = 1 WHERE k = 'a'");
    world_fold(w, 0);
    world_advance(w, SECOND_US);
    world_run(w, 1, "UPDATE t SET v = 2 WHERE k = 'a'");
    world_fold(w, 1);
    (void)world_pull(w, 1, 0, 50);
    assert_ok_err(settle(w, 1, find(w, 1).id, TIDE_CONFLICT_OURS, 0), &w->err);
    tide_origin_mark marks[WORLD_MARKS_MAX];
    const int count = world_marks(w, 1, marks);
    const tide_node_id one = tide_node_get_id(w->nodes[1].node);
    for (int i = 0; i < count; i++)
        if (memcmp(&marks[i].origin, &one, sizeof one) == 0) {
            world_page page = {.count = 0};
            assert_ok_err(world_read(w, 1, &marks[i], 0, 50, &page), &w->err);
            (void)world_apply(w, 2, &page);
            world_page_done(&page);
        }
    world_settle(w);
    assert_conflicts(w, 0);
    assert_shown(w, "SELECT v = 2 FROM t WHERE k = 'a'");
}

static void old_conflicts_are_dismissed_together(void **state)
{
    world *w = *state;
    int64_t count = 0;
    write_both(w, "UPDATE t SET v = 1", "UPDATE t SET v = 2");
    assert_conflicts(w, 2);
    const int64_t found_us = w->nodes[0].env.wall_us;
    assert_ok_err(
        tide_node_dismiss_conflicts(w->nodes[0].node, found_us - WEEK_US, &count, &w->err),
        &w->err);
    assert_int_equal(0, count);
    assert_ok_err(tide_node_dismiss_conflicts(w->nodes[0].node, found_us + 1, &count, &w->err),
                  &w->err);
    assert_int_equal(2, count);
    world_settle(w);
    assert_conflicts(w, 0);
}

static void what_cannot_be_settled_is_refused(void **state)
{
    world *w = *state;
    assert_status(TIDE_E_NOT_FOUND, settle(w, 0, "0123456789abcdef", TIDE_CONFLICT_OURS, 0));
    write_both(w, "UPDATE t SET u = 5 WHERE k = 'a'", "UPDATE t SET u = 5 WHERE k = 'b'");
    assert_string_equal("unique", find(w, 0).reason);
    assert_status(TIDE_E_UNSUPPORTED, settle(w, 0, find(w, 0).id, TIDE_CONFLICT_THEIRS, 0));
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_dismissed_write_is_listed_nowhere, setup, teardown),
        cmocka_unit_test_setup_teardown(the_lost_write_is_taken, setup, teardown),
        cmocka_unit_test_setup_teardown(another_value_is_taken, setup, teardown),
        cmocka_unit_test_setup_teardown(a_value_that_the_table_refuses_settles_nothing, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_delete_that_was_outlived_has_its_way_or_not, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_dismissal_may_come_before_the_write, setup, teardown),
        cmocka_unit_test_setup_teardown(old_conflicts_are_dismissed_together, setup, teardown),
        cmocka_unit_test_setup_teardown(what_cannot_be_settled_is_refused, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
