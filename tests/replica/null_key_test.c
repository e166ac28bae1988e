/* SQLite allows NULL in a PRIMARY KEY: rows that have one are replicated, rows that have none stay where they are, and are told. */
#include <stdlib.h>
#include <string.h>

#include "replica/world.h"

#define WEEK_US INT64_C(604800000000)
static const char schema[] =
    "CREATE TABLE t (id TEXT PRIMARY KEY, v);"
    "CREATE TABLE pair (a TEXT, b INT, v, u TEXT UNIQUE, PRIMARY KEY (a, b));";
static const char *const tables[] = {"t", "pair", NULL};

static int setup(void **state)
{
    static world w;
    world_init(&w, 2, 31, schema, tables, WEEK_US);
    *state = &w;
    return 0;
}

static int teardown(void **state)
{
    world_done(*state);
    return 0;
}

static int64_t count_held(world *w, int node)
{
    tide_node_counts counts = {.quarantined = 0};
    world_fold(w, node);
    assert_ok_err(tide_node_count(w->nodes[node].node, &counts, &w->err), &w->err);
    return counts.quarantined;
}

static tide_status keep_digest(void *arg, const tide_table_digest *digest, tide_error *err)
{
    (void)err;
    tide_table_digest *out = arg;
    out[strcmp(digest->table, "t") == 0] = *digest;
    return TIDE_OK;
}

/* Tables as peers see them: digests, which rows without a key are not in. */
static void assert_equal_digests(world *w)
{
    tide_table_digest here[2] = {{.rows = 0}};
    tide_table_digest there[2] = {{.rows = 0}};
    assert_ok_err(tide_node_digests(w->nodes[0].node, keep_digest, here, &w->err), &w->err);
    assert_ok_err(tide_node_digests(w->nodes[1].node, keep_digest, there, &w->err), &w->err);
    assert_memory_equal(here, there, sizeof here);
}

static void rows_with_a_key_travel_and_others_stay(void **state)
{
    world *w = *state;
    world_run(w, 0, "INSERT INTO t VALUES ('x', 1), (NULL, 2), (NULL, 3)");
    world_run(w, 0, "INSERT INTO pair VALUES ('a', 1, 1, 'u'), ('a', NULL, 2, NULL)");
    world_run(w, 0, "UPDATE t SET v = v + 10");
    assert_int_equal(3, count_held(w, 0));
    world_settle(w);
    assert_int_equal(1, world_number(w, 1, "SELECT count(*) FROM t"));
    assert_int_equal(11, world_number(w, 1, "SELECT v FROM t WHERE id = 'x'"));
    assert_int_equal(1, world_number(w, 1, "SELECT count(*) FROM pair"));
    assert_int_equal(3, world_number(w, 0, "SELECT count(*) FROM t")); /* nothing is taken away */
    assert_int_equal(0, count_held(w, 1));
    assert_equal_digests(w);
}

static void a_row_that_gets_a_key_travels(void **state)
{
    world *w = *state;
    world_run(w, 0, "INSERT INTO t VALUES (NULL, 1), (NULL, 2)");
    world_settle(w);
    world_run(w, 0, "UPDATE t SET id = 'k' WHERE v = 1");
    world_settle(w);
    assert_int_equal(1, world_number(w, 1, "SELECT v FROM t WHERE id = 'k'"));
    assert_int_equal(1, count_held(w, 0));
    world_run(w, 0, "DELETE FROM t WHERE id IS NULL");
    assert_int_equal(0, count_held(w, 0));
    world_run(w, 0, "UPDATE t SET id = NULL");
    world_settle(w);
    assert_int_equal(0, world_number(w, 1, "SELECT count(*) FROM t"));
    assert_int_equal(1, count_held(w, 0));
}

/* What was there before is told once, and no scan finds it news. */
static void rows_without_a_key_are_told_by_track(void **state)
{
    world *w = *state;
    tide_tracked tracked;
    int64_t found = 0;
    world_run(w, 0, "CREATE TABLE old (id INT PRIMARY KEY, v)");
    world_run(w, 0, "INSERT INTO old VALUES (1, 1), (NULL, 2), (NULL, 3)");
    assert_ok_err(tide_node_track(w->nodes[0].node, "old", WEEK_US, &tracked, &w->err), &w->err);
    assert_int_equal(1, tracked.rows);
    assert_contains(tracked.advice, "2 rows of old have NULL");
    assert_ok_err(tide_node_rescan(w->nodes[0].node, "old", &found, &w->err), &w->err);
    assert_int_equal(0, found);
}

/* A unique value that only this node knows of keeps a peer's row out, until it goes. */
static void a_row_that_one_without_a_key_kept_out_comes_back(void **state)
{
    world *w = *state;
    world_run(w, 1, "INSERT INTO pair VALUES (NULL, 1, 1, 'u')");
    world_run(w, 0, "INSERT INTO pair VALUES ('a', 1, 2, 'u')");
    world_settle(w);
    assert_int_equal(0, world_number(w, 1, "SELECT count(*) FROM pair WHERE a = 'a'"));
    world_run(w, 1, "DELETE FROM pair WHERE a IS NULL");
    world_settle(w);
    world_fold(w, 1);
    assert_int_equal(1, world_number(w, 1, "SELECT count(*) FROM pair WHERE a = 'a'"));
    assert_equal_digests(w);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(rows_with_a_key_travel_and_others_stay, setup, teardown),
        cmocka_unit_test_setup_teardown(a_row_that_gets_a_key_travels, setup, teardown),
        cmocka_unit_test_setup_teardown(rows_without_a_key_are_told_by_track, setup, teardown),
        cmocka_unit_test_setup_teardown(a_row_that_one_without_a_key_kept_out_comes_back, setup,
                                        teardown),
    };
    return cmocka_run_group_tests_name("replica-null-key", tests, NULL, NULL);
}
