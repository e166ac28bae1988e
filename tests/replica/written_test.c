/* A write has the time of its transaction, not that of the ingest that found it: what was written
 * later wins, whichever node was looked at first. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "replica/peer.h"
#include "replica/world.h"

#define WEEK_US INT64_C(604800000000)
#define HOUR_US INT64_C(3600000000)

static const char *const tables[] = {"t", NULL};

static int64_t machine_us(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/* Triggers ask the machine: the nodes' clocks are an hour ahead of it, so that no write is cut to
 * the time of its ingest. */
static void begin(world *w, const char *schema)
{
    world_init(w, 2, 5, schema, tables, WEEK_US);
    for (int i = 0; i < w->count; i++)
        virtual_env_set_wall(&w->nodes[i].env, machine_us() + HOUR_US);
}

/* SQLite's clock has milliseconds. */
static void let_the_clock_tick(void)
{
    const int64_t before = machine_us() / 1000;
    while (machine_us() / 1000 <= before + 1) {
    }
}

/* Node 0 writes before node 1, and is looked at an hour after it. */
static void write_and_settle(world *w, const char *early, const char *late)
{
    world_run(w, 0, "%s", early);
    let_the_clock_tick();
    world_run(w, 1, "%s", late);
    world_fold(w, 1);
    world_advance(w, HOUR_US);
    tide_capture_found found;
    assert_ok_err(tide_peer_look(w->nodes[0].node, &found, &w->err), &w->err);
    world_fold(w, 0);
    world_settle(w);
}

static void assert_shown(world *w, const char *query)
{
    for (int i = 0; i < w->count; i++)
        if (world_number(w, i, "%s", query) != 1)
            fail_msg("node %d: not %s", i, query);
}

static void the_later_write_wins_though_it_was_ingested_first(void **state)
{
    (void)state;
    world w;
    begin(&w, "CREATE TABLE t(k TEXT NOT NULL PRIMARY KEY, v)");
    world_run(&w, 0, "INSERT INTO t VALUES('a', 0)");
    world_settle(&w);
    write_and_settle(&w, "UPDATE t SET v = 'early'", "UPDATE t SET v = 'late'");
    assert_shown(&w, "SELECT v = 'late' FROM t");
    world_done(&w);
}

static void the_same_of_a_table_with_many_columns(void **state)
{
    (void)state;
    world w;
    char schema[1024] = "CREATE TABLE t(k TEXT NOT NULL PRIMARY KEY, v";
    for (int i = 0; i < 40; i++)
        (void)snprintf(schema + strlen(schema), sizeof schema - strlen(schema), ", c%d", i);
    (void)snprintf(schema + strlen(schema), sizeof schema - strlen(schema), ")");
    begin(&w, schema);
    world_run(&w, 0, "INSERT INTO t(k, v) VALUES('a', 0)");
    world_settle(&w);
    write_and_settle(&w, "UPDATE t SET v = 'early'", "UPDATE t SET v = 'late'");
    assert_shown(&w, "SELECT v = 'late' FROM t");
    world_done(&w);
}

static void a_row_that_was_replaced_unseen_was_so_at_the_time_of_the_write(void **state)
{
    (void)state;
    world w;
    begin(&w, "CREATE TABLE t(k TEXT NOT NULL PRIMARY KEY, v UNIQUE)");
    world_run(&w, 0, "INSERT INTO t VALUES('a', 1)");
    world_settle(&w);
    write_and_settle(&w, "INSERT OR REPLACE INTO t VALUES('b', 1)", "UPDATE t SET v = 5");
    assert_shown(&w, "SELECT group_concat(k || v) = 'a5,b1' FROM (SELECT * FROM t ORDER BY k)");
    world_done(&w);
}

static void captured_times_survive_a_column_that_is_dropped(void **state)
{
    (void)state;
    world w;
    begin(&w, "CREATE TABLE t(k TEXT NOT NULL PRIMARY KEY, x, v)");
    world_run(&w, 0, "INSERT INTO t VALUES('a', 0, 0)");
    world_settle(&w);
    write_and_settle(&w,
                     "UPDATE t SET v = 'early'; CREATE TABLE u(k TEXT NOT NULL PRIMARY KEY, v);"
                     "INSERT INTO u SELECT k, v FROM t; DROP TABLE t; ALTER TABLE u RENAME TO t",
                     "UPDATE t SET v = 'late'");
    assert_shown(&w, "SELECT v = 'late' FROM t");
    world_done(&w);
}

/* The node's clock was set back, or the application's machine is ahead. */
static void no_write_is_later_than_its_ingest(void **state)
{
    (void)state;
    world w;
    begin(&w, "CREATE TABLE t(k TEXT NOT NULL PRIMARY KEY, v)");
    const int64_t now_us = machine_us() - HOUR_US;
    virtual_env_set_wall(&w.nodes[0].env, now_us);
    world_run(&w, 0, "INSERT INTO t VALUES('a', 1)");
    world_fold(&w, 0);
    assert_int_equal(now_us / 1000, world_number(&w, 0, "SELECT max(timestamp) FROM t_Events"));
    world_done(&w);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_later_write_wins_though_it_was_ingested_first),
        cmocka_unit_test(the_same_of_a_table_with_many_columns),
        cmocka_unit_test(a_row_that_was_replaced_unseen_was_so_at_the_time_of_the_write),
        cmocka_unit_test(captured_times_survive_a_column_that_is_dropped),
        cmocka_unit_test(no_write_is_later_than_its_ingest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
