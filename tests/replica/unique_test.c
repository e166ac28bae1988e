/* Unique keys that only SQLite can compute: of expressions, of generated columns, partial ones. Who stands is decided by stamps, the same everywhere. */
#include <stdio.h>
#include <time.h>

#include "replica/world.h"

#define WEEK_US INT64_C(604800000000)
#define SCHEMA                                                                                     \
    "CREATE TABLE made(id INTEGER PRIMARY KEY, a INT, b TEXT, s INT GENERATED ALWAYS AS (a * 2) "  \
    "STORED UNIQUE, h TEXT GENERATED ALWAYS AS (b || 'x') VIRTUAL UNIQUE);"                        \
    "CREATE TABLE lower(id INTEGER PRIMARY KEY, a TEXT, b);"                                       \
    "CREATE UNIQUE INDEX lower_1 ON lower(lower(a), b) WHERE b > 0;"                               \
    "CREATE TABLE part(id INTEGER PRIMARY KEY, u UNIQUE, a, is_on INT);"                           \
    "CREATE UNIQUE INDEX part_1 ON part(a) WHERE is_on;"                                           \
    "CREATE TABLE self(id INTEGER PRIMARY KEY, u UNIQUE ON CONFLICT REPLACE, v);"                  \
    "CREATE TABLE deaf(id INTEGER PRIMARY KEY, u UNIQUE ON CONFLICT IGNORE, v)"
static const char *const tables[] = {"made", "lower", "part", "self", "deaf", NULL};

static int setup(void **state)
{
    static world w;
    world_init(&w, 3, 77, SCHEMA, tables, WEEK_US);
    *state = &w;
    return 0;
}

static int teardown(void **state)
{
    world_done(*state);
    return 0;
}

/* Two nodes write what goes together on neither, node 1 later; node 2 gets node 1's first, the others node 0's. */
static void write_both(world *w, const char *first, const char *second)
{
    world_run(w, 0, "%s", first);
    world_fold(w, 0);
    world_advance(w, 1000000);
    world_run(w, 1, "%s", second);
    world_fold(w, 1);
    (void)world_pull(w, 2, 1, 50);
    world_settle(w);
    world_assert_same(w, tables, true);
}

static void assert_stands(world *w, const char *query)
{
    for (int i = 0; i < w->count; i++)
        assert_int_equal(1, world_number(w, i, "%s", query));
}

static void the_later_row_stands_by_a_stored_generated_column(void **state)
{
    world *w = *state;
    write_both(w, "INSERT INTO made(id, a, b) VALUES(1, 5, 'p')",
               "INSERT INTO made(id, a, b) VALUES(2, 5, 'q')");
    assert_stands(w, "SELECT count(*) = 1 AND max(id) = 2 FROM made");
    world_run(w, 2, "DELETE FROM made");
    world_settle(w);
    assert_stands(w, "SELECT count(*) = 1 AND max(id) = 1 FROM made"); /* the other comes back */
    world_assert_same(w, tables, true);
}

static void the_later_row_stands_by_a_virtual_generated_column(void **state)
{
    world *w = *state;
    write_both(w, "INSERT INTO made(id, a, b) VALUES(1, 5, 'p')",
               "INSERT INTO made(id, a, b) VALUES(2, 6, 'p')");
    assert_stands(w, "SELECT count(*) = 1 AND max(id) = 2 FROM made");
}

static void one_row_displaces_two(void **state)
{
    world *w = *state;
    write_both(
        w, "INSERT INTO made(id, a, b) VALUES(1, 5, 'p'), (3, 6, 'q'), (4, 7, 'r'), (5, 8, 's')",
        "INSERT INTO made(id, a, b) VALUES(2, 5, 'q')");
    assert_stands(w, "SELECT group_concat(id) = '2,4,5' FROM (SELECT id FROM made ORDER BY id)");
    world_run(w, 0, "INSERT OR REPLACE INTO made(id, a, b) VALUES(6, 7, 's')");
    world_settle(w);
    world_assert_same(w, tables, true);
}

static void the_later_row_stands_by_an_expression(void **state)
{
    world *w = *state;
    write_both(w, "INSERT INTO lower VALUES(1, 'A', 1), (3, 'C', 0)",
               "INSERT INTO lower VALUES(2, 'a', 1), (4, 'c', 0)");
    assert_stands(w, "SELECT group_concat(id) = '2,3,4' FROM (SELECT id FROM lower ORDER BY id)");
}

/* It is not in the partial index: who is has nothing to do with it. */
static void a_row_outside_a_partial_index_displaces_nobody_by_it(void **state)
{
    world *w = *state;
    world_run(w, 0, "INSERT INTO part VALUES(2, 'y', 5, 1)");
    world_settle(w);
    write_both(w, "INSERT INTO part VALUES(1, 'x', 1, 0)", "INSERT INTO part VALUES(3, 'x', 5, 0)");
    assert_stands(w, "SELECT group_concat(id) = '2,3' FROM (SELECT id FROM part ORDER BY id)");
}

/* A table that replaces or ignores by itself is asked like any other. */
static void conflict_clauses_of_the_table_decide_nothing(void **state)
{
    world *w = *state;
    write_both(w, "INSERT INTO self VALUES(1, 'u', 'first')",
               "INSERT INTO self VALUES(2, 'u', 'second')");
    assert_stands(w, "SELECT count(*) = 1 AND max(id) = 2 FROM self");
    world_run(w, 0, "DELETE FROM self");
    world_settle(w);
    assert_stands(w, "SELECT count(*) = 1 AND max(id) = 1 FROM self");
    write_both(w, "INSERT INTO deaf VALUES(1, 'u', 'first')",
               "INSERT INTO deaf VALUES(2, 'u', 'second')");
    assert_stands(w, "SELECT count(*) = 1 AND max(id) = 2 FROM deaf");
    world_assert_same(w, tables, true);
}

/* What one row aside costs the others: nothing that grows with them. */
static void a_row_aside_does_not_make_the_others_slow(void **state)
{
    world *w = *state;
    enum { ROWS = 30000, SECONDS_MAX = 8 };
    write_both(w, "INSERT INTO part VALUES(-1, 'x', 1, 0)",
               "INSERT INTO part VALUES(-2, 'x', 2, 0)");
    assert_stands(w, "SELECT count(*) = 1 AND max(id) = -2 FROM part");
    world_run(w, 0,
              "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d) "
              "INSERT INTO part SELECT i, 'u' || i, i, 0 FROM n",
              ROWS);
    const clock_t before = clock();
    world_fold(w, 0);
    (void)world_pull(w, 1, 0, 1000);
    assert_true((clock() - before) / CLOCKS_PER_SEC < SECONDS_MAX);
    assert_int_equal(ROWS + 1, world_number(w, 1, "SELECT count(*) FROM part"));
}

typedef struct listed {
    int count;
    char record_id[64];
    char data[256];
} listed;

static tide_status keep_listed(void *arg, const tide_conflict *conflict, tide_error *err)
{
    listed *out = arg;
    (void)err;
    out->count++;
    (void)snprintf(out->record_id, sizeof out->record_id, "%.*s", (int)conflict->record_id.len,
                   conflict->record_id.ptr);
    (void)snprintf(out->data, sizeof out->data, "%.*s", (int)conflict->data.len,
                   conflict->data.ptr);
    return TIDE_OK;
}

/* What was acknowledged is shown or listed: a row that does not stand is listed with what was written to it. */
static void a_row_that_is_kept_out_is_listed_with_its_values(void **state)
{
    world *w = *state;
    write_both(w, "INSERT INTO part(id, u, a) VALUES(1, 'u', x'00ff')",
               "INSERT INTO part(id, u, a) VALUES(2, 'u', 2.5)");
    for (int i = 0; i < w->count; i++) {
        listed found = {.count = 0};
        assert_ok_err(tide_node_conflicts(w->nodes[i].node, keep_listed, &found, &w->err), &w->err);
        assert_int_equal(1, found.count);
        assert_string_equal("1", found.record_id);
        assert_string_equal("{\"id\":1,\"u\":\"u\",\"a\":\"00ff\",\"is_on\":null}", found.data);
    }
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_later_row_stands_by_a_stored_generated_column, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(the_later_row_stands_by_a_virtual_generated_column, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(one_row_displaces_two, setup, teardown),
        cmocka_unit_test_setup_teardown(the_later_row_stands_by_an_expression, setup, teardown),
        cmocka_unit_test_setup_teardown(a_row_outside_a_partial_index_displaces_nobody_by_it, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(conflict_clauses_of_the_table_decide_nothing, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_row_that_is_kept_out_is_listed_with_its_values, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_row_aside_does_not_make_the_others_slow, setup, teardown),
    };
    return cmocka_run_group_tests_name("replica unique keys", tests, NULL, NULL);
}
