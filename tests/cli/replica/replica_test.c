/* Replication as scripts see it: real processes, foreign writers, tables that are equal in the end. */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/replica/replica_calls.h"

#define SCHEMA                                                                                     \
    "CREATE TABLE todos(id TEXT PRIMARY KEY NOT NULL, title TEXT, n INTEGER DEFAULT 0);"           \
    "CREATE INDEX todos_by_n ON todos(n);"

/* A program that knows nothing of us: Python's own SQLite. */
static void write_by_python(cli_fixture *t, const char *db, int seed)
{
    static const char script[] =
        "import random, sqlite3, sys\n"
        "r = random.Random(int(sys.argv[2])); c = sqlite3.connect(sys.argv[1], timeout=60)\n"
        "for i in range(60):\n"
        "    k = str(r.randrange(40)); op = r.randrange(4)\n"
        "    with c:\n"
        "        if op == 0: c.execute('insert or replace into todos values(?,?,?)', (k, 'r%d' % "
        "i, i))\n"
        "        if op == 1: c.execute('update todos set title=? where id=?', (sys.argv[2] + "
        "str(i), k))\n"
        "        if op == 2: c.execute('update todos set n=n+1 where id=?', (k,))\n"
        "        if op == 3: c.execute('delete from todos where id=?', (k,))\n";
    char path[TEMPDIR_PATH_MAX];
    char number[16];
    proc_result result;
    tide_error err = {.status = TIDE_OK};
    cli_path(t, db, path);
    (void)snprintf(number, sizeof number, "%d", seed);
    const char *argv[] = {"/usr/bin/python3", "-c", script, path, number, NULL};
    const proc_options options = cli_options(t, argv);
    assert_ok_err(proc_run(&result, &options, REPLICA_WAIT_MS, &err), &err);
    assert_int_equal(0, result.exit_code);
    proc_result_done(&result);
}

/* ---- cases ---- */

/* sync makes file and table, brings rows and indexes, and ends with 0 at a proven cut; a second one has nothing to do. */
static void a_sync_into_nothing_makes_the_table(void **state)
{
    cli_fixture *t = *state;
    char address[REPLICA_LINE_MAX];
    cli_sql(t, "a.db", SCHEMA "INSERT INTO todos VALUES('1','one',1),('2','two',2)");
    replica_ok(t, "track", "a.db", "todos");
    proc *a = replica_serve(t, "a.db", NULL, address);
    for (int pass = 0; pass < 2; pass++) {
        const cli_result result = replica_call(t, "sync", "b.db", address, NULL);
        tide_json_node *line = cli_json(&result);
        assert_true(json_is_true(tide_json_node_find(line, "proven")));
        assert_int_equal(pass == 0 ? 2 : 0, json_number(line, "pulled"));
        assert_int_equal(pass == 0 ? 1 : 0, json_number(line, "tables_created"));
        tide_json_tree_free(line);
    }
    replica_assert_same_digest(t, "a.db", "b.db");
    cli_sql(t, "b.db",
            "INSERT INTO todos SELECT '3', name, 3 FROM sqlite_schema WHERE name = 'todos_by_n'");
    replica_ok(t, "sync", "b.db", address);
    replica_assert_same_digest(t, "a.db", "b.db");
    replica_ok(t, "verify", "b.db", address);
    const cli_result status = replica_call(t, "status", "a.db", NULL, NULL);
    tide_json_node *line = cli_json(&status);
    assert_int_equal(36, strlen(json_text(line, "node")));
    assert_int_equal(2, tide_json_node_count(tide_json_node_find(line, "logs")));
    assert_int_equal(2, tide_json_node_count(tide_json_node_find(line, "cursors")));
    assert_int_equal(1, tide_json_node_count(tide_json_node_find(line, "peers")));
    tide_json_tree_free(line);
    replica_end(a, SIGTERM);
}

/* Three nodes, written by foreign programs between and during syncs, one of them killed under way: the same in the end. */
static void three_nodes_converge_through_one_that_is_killed(void **state)
{
    cli_fixture *t = *state;
    char address[REPLICA_LINE_MAX];
    cli_sql(t, "a.db", SCHEMA);
    replica_ok(t, "track", "a.db", "todos");
    proc *a = replica_serve(t, "a.db", NULL, address);
    replica_ok(t, "sync", "b.db", address);
    replica_ok(t, "sync", "c.db", address);
    for (int round = 0; round < 3; round++) {
        write_by_python(t, "a.db", 10 + round);
        write_by_python(t, "b.db", 20 + round);
        write_by_python(t, "c.db", 30 + round);
        replica_ok(t, "sync", "b.db", address);
        replica_ok(t, "sync", "c.db", address);
        replica_end(a, SIGKILL);
        const cli_result failed = replica_call(t, "sync", "b.db", address, NULL);
        assert_int_not_equal(0, failed.exit_code);
        a = replica_serve(t, "a.db", NULL, address);
        replica_ok(t, "sync", "b.db", address);
    }
    replica_assert_same_digest(t, "a.db", "b.db");
    replica_assert_same_digest(t, "a.db", "c.db");
    replica_end(a, SIGTERM);
}

/* --pull and --push move one way only. */
static void one_direction_leaves_the_other_alone(void **state)
{
    cli_fixture *t = *state;
    char address[REPLICA_LINE_MAX];
    cli_sql(t, "a.db", SCHEMA "INSERT INTO todos VALUES('1','one',1)");
    replica_ok(t, "track", "a.db", "todos");
    proc *a = replica_serve(t, "a.db", NULL, address);
    assert_int_equal(0, replica_call(t, "sync", "b.db", address, "--pull").exit_code);
    cli_sql(t, "b.db", "INSERT INTO todos VALUES('2','two',2)");
    assert_int_equal(0, replica_call(t, "sync", "b.db", address, "--pull").exit_code);
    assert_int_not_equal(0, replica_call(t, "verify", "b.db", address, NULL).exit_code);
    assert_int_equal(0, replica_call(t, "sync", "b.db", address, "--push").exit_code);
    replica_assert_same_digest(t, "a.db", "b.db");
    replica_end(a, SIGTERM);
}

/* What was lost is to be read, by people and programs, also after its table is tracked no more. */
static void a_lost_value_is_shown(void **state)
{
    cli_fixture *t = *state;
    char address[REPLICA_LINE_MAX];
    char path[TEMPDIR_PATH_MAX];
    cli_path(t, "b.db", path);
    cli_sql(t, "a.db", SCHEMA "INSERT INTO todos VALUES('1','one',1)");
    replica_ok(t, "track", "a.db", "todos");
    proc *a = replica_serve(t, "a.db", NULL, address);
    replica_ok(t, "sync", "b.db", address);
    cli_sql(t, "a.db", "UPDATE todos SET title = 'by a'");
    cli_sql(t, "b.db", "UPDATE todos SET title = 'by b'");
    replica_ok(t, "sync", "b.db", address);
    replica_end(a, SIGTERM);
    const cli_result lines = cli_run(t, "replica", "conflicts", path, NULL);
    assert_contains(lines.out, "todos 1: write title \"by ");
    replica_ok(t, "untrack", "b.db", "todos");
    const cli_result found = replica_call(t, "conflicts", "b.db", NULL, NULL);
    assert_contains(found.out, "\"column\":\"title\"");
    assert_contains(found.out, "\"value\":\"by ");
}

/* A person decides: the entry leaves both nodes. */
static void a_conflict_is_shown_and_taken(void **state)
{
    cli_fixture *t = *state;
    char address[REPLICA_LINE_MAX];
    char path[TEMPDIR_PATH_MAX];
    char id[17] = "";
    cli_path(t, "b.db", path);
    cli_sql(t, "a.db", SCHEMA "INSERT INTO todos VALUES('1','one',1)");
    replica_ok(t, "track", "a.db", "todos");
    proc *a = replica_serve(t, "a.db", NULL, address);
    replica_ok(t, "sync", "b.db", address);
    cli_sql(t, "a.db", "UPDATE todos SET title = 'by a'");
    cli_sql(t, "b.db", "UPDATE todos SET title = 'by b'");
    replica_ok(t, "sync", "b.db", address);
    const cli_result found = replica_call(t, "conflicts", "b.db", NULL, NULL);
    const char *at = strstr(found.out, "\"id\":\"");
    assert_non_null(at);
    (void)snprintf(id, sizeof id, "%.16s", at + strlen("\"id\":\""));
    assert_contains(found.out, "\"kind\":\"write\"");
    assert_contains(found.out, "\"ours\":\"by ");
    assert_contains(found.out, "\"theirs\":\"by ");
    assert_contains(cli_run(t, "replica", "conflicts", "show", path, id, NULL).out,
                    "the table shows \"by ");
    assert_int_equal(
        3, cli_run(t, "replica", "conflicts", "show", path, "0123456789abcdef", NULL).exit_code);
    assert_int_equal(2, cli_run(t, "replica", "conflicts", "take", path, id, NULL).exit_code);
    assert_int_equal(2, cli_run(t, "replica", "conflicts", "dismiss", path, NULL).exit_code);
    assert_int_equal(
        0, cli_run(t, "replica", "conflicts", "take", path, id, "--value", "\"by both\"", NULL)
               .exit_code);
    assert_int_equal(3, cli_run(t, "replica", "conflicts", "dismiss", path, id, NULL).exit_code);
    replica_ok(t, "sync", "b.db", address);
    replica_end(a, SIGTERM);
    assert_string_equal("", replica_call(t, "conflicts", "a.db", NULL, NULL).out);
    assert_string_equal("", replica_call(t, "conflicts", "b.db", NULL, NULL).out);
    replica_assert_same_digest(t, "a.db", "b.db");
    assert_contains(
        cli_run(t, "replica", "conflicts", "dismiss", path, "--older-than", "0s", NULL).out,
        "0 conflicts dismissed");
}

/* A daemon ships a change when it is made, in both directions. */
static void a_daemon_stays_in_sync(void **state)
{
    cli_fixture *t = *state;
    char first[REPLICA_LINE_MAX];
    char second[REPLICA_LINE_MAX];
    cli_sql(t, "a.db", SCHEMA "INSERT INTO todos VALUES('1','one',1)");
    replica_ok(t, "track", "a.db", "todos");
    proc *a = replica_serve(t, "a.db", NULL, first);
    proc *b = replica_serve(t, "b.db", first, second);
    cli_sql(t, "a.db", "INSERT INTO todos VALUES('2','two',2)");
    const int64_t until_ms = proc_now_ms() + REPLICA_WAIT_MS;
    while (replica_call(t, "verify", "a.db", second, NULL).exit_code != 0) {
        assert_true(proc_now_ms() < until_ms && t->result_count < CLI_RESULTS_MAX - 8);
        (void)poll(NULL, 0, 200);
    }
    replica_assert_same_digest(t, "a.db", "b.db");
    replica_end(b, SIGTERM);
    replica_end(a, SIGTERM);
}

/* What was collected is not silently missing: the sync brings a snapshot and what follows it; what is new here was pushed. A copy of the file is
 * a node of its own, which has everything. */
static void below_the_floor_a_sync_begins_with_a_snapshot(void **state)
{
    cli_fixture *t = *state;
    char address[REPLICA_LINE_MAX];
    cli_sql(t, "a.db",
            SCHEMA
            "INSERT INTO todos WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n"
            " WHERE i < 1500) SELECT i, 'row', i FROM n");
    assert_int_equal(0, replica_call(t, "track", "a.db", "todos", "--retain=0s").exit_code);
    const cli_result gone = replica_call(t, "gc", "a.db", NULL, NULL);
    tide_json_node *line = cli_json(&gone);
    assert_int_equal(500, json_number(line, "events")); /* 1,000 are kept for safety */
    tide_json_tree_free(line);
    cli_sql(t, "b.db", SCHEMA "INSERT INTO todos VALUES('b','new',1)");
    replica_ok(t, "track", "b.db", "todos");
    proc *a = replica_serve(t, "a.db", NULL, address);
    const cli_result done = replica_call(t, "sync", "b.db", address, NULL);
    line = cli_json(&done);
    assert_true(json_is_true(tide_json_node_find(line, "proven")));
    assert_true(json_is_true(tide_json_node_find(line, "bootstrapped")));
    tide_json_tree_free(line);
    replica_assert_same_digest(t, "a.db", "b.db");
    replica_end(a, SIGTERM);
    char copy[TEMPDIR_PATH_MAX];
    char sql[TEMPDIR_PATH_MAX + 32];
    cli_path(t, "c.db", copy);
    (void)snprintf(sql, sizeof sql, "VACUUM INTO '%s'", copy);
    cli_sql(t, "a.db", sql);
    a = replica_serve(t, "a.db", NULL, address);
    replica_ok(t, "sync", "c.db", address);
    replica_assert_same_digest(t, "a.db", "c.db");
    replica_end(a, SIGTERM);
}

/* What cannot be replicated is refused with words, and nothing has changed. */
static void bad_requests_are_refused(void **state)
{
    cli_fixture *t = *state;
    cli_sql(t, "a.db", "CREATE TABLE heap(a, b)");
    cli_result result = replica_call(t, "track", "a.db", "heap", NULL);
    assert_int_not_equal(0, result.exit_code);
    assert_contains(result.err, "heap");
    result = replica_call(t, "track", "a.db", "nothing", NULL);
    assert_int_not_equal(0, result.exit_code);
    result = replica_call(t, "track", "absent.db", "todos", NULL);
    assert_int_not_equal(0, result.exit_code);
    result = replica_call(t, "untrack", "a.db", "heap", NULL);
    assert_int_not_equal(0, result.exit_code);
    result = replica_call(t, "sync", "b.db", "127.0.0.1:1", NULL);
    assert_int_not_equal(0, result.exit_code);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        REPLICA_CASE(a_sync_into_nothing_makes_the_table),
        REPLICA_CASE(three_nodes_converge_through_one_that_is_killed),
        REPLICA_CASE(one_direction_leaves_the_other_alone),
        REPLICA_CASE(a_lost_value_is_shown),
        REPLICA_CASE(a_conflict_is_shown_and_taken),
        REPLICA_CASE(a_daemon_stays_in_sync),
        REPLICA_CASE(below_the_floor_a_sync_begins_with_a_snapshot),
        REPLICA_CASE(bad_requests_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
