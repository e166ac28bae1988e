/* What an operator does about tables that differ: verify, verify --repair, conflicts, the figures; and peers that cannot state cursors. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "cli/replica/replica_calls.h"

#define SCHEMA                                                                                     \
    "CREATE TABLE todos(id INTEGER PRIMARY KEY, title TEXT, n INTEGER);"                           \
    "CREATE TABLE notes(a TEXT, b INTEGER, body BLOB, PRIMARY KEY(a, b)) WITHOUT ROWID;"
#define ROWS                                                                                       \
    "INSERT INTO todos WITH RECURSIVE i(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM i WHERE x < "  \
    "2000) SELECT x, 'title ' || x, x % 7 FROM i;"                                                 \
    "INSERT INTO notes SELECT 'n' || (id % 10), id, randomblob(8) FROM todos WHERE id <= 500;"

static const char *const both[] = {"a.db", "b.db", NULL};

/* Debian's shell with triggers off: what nobody captures. */
static void write_unseen(const cli_fixture *t, const char *db, const char *sql)
{
    char path[TEMPDIR_PATH_MAX];
    cli_path(t, db, path);
    const char *const argv[] = {
        "/usr/bin/sqlite3", "-batch", "-cmd", ".dbconfig enable_trigger off", path, sql, NULL};
    free(replica_run_other(t, argv));
}

/* Somebody who waits for his turn, as an application would. */
static void write_beside(const cli_fixture *t, const char *db, const char *sql)
{
    char path[TEMPDIR_PATH_MAX];
    cli_path(t, db, path);
    const char *const argv[] = {
        "/usr/bin/sqlite3", "-batch", "-cmd", ".timeout 60000", path, sql, NULL};
    free(replica_run_other(t, argv));
}

static proc *begin(cli_fixture *t, char address[REPLICA_LINE_MAX])
{
    cli_sql(t, "a.db", SCHEMA ROWS);
    replica_ok(t, "track", "a.db", "todos");
    replica_ok(t, "track", "a.db", "notes");
    proc *a = replica_serve(t, "a.db", NULL, address);
    replica_ok(t, "sync", "b.db", address);
    return a;
}

/* Reported with 8 and the rows' keys, nothing changed; repaired with 0, at both; what was overwritten is in conflicts. */
static void what_differs_is_reported_and_repaired(void **state)
{
    cli_fixture *t = *state;
    char address[REPLICA_LINE_MAX];
    proc *a = begin(t, address);
    replica_ok(t, "verify", "b.db", address);
    write_unseen(t, "b.db", "UPDATE todos SET title = 'bit rot' WHERE id = 1234");
    write_unseen(t, "b.db", "DELETE FROM notes WHERE b BETWEEN 100 AND 120");
    write_unseen(t, "a.db", "INSERT INTO todos VALUES(9999, 'nobody saw', 1)");
    const cli_result found = replica_call(t, "verify", "b.db", address, NULL);
    assert_int_equal(8, found.exit_code);
    assert_contains(found.out, "\"1234\"");
    assert_contains(found.out, "\"9999\"");
    assert_contains(found.out, "\"n0, 100\"");
    assert_contains(found.err, "--repair");
    assert_int_equal(8, replica_call(t, "verify", "b.db", address, NULL).exit_code);
    const cli_result done = replica_call(t, "verify", "b.db", address, "--repair");
    if (done.exit_code != 0)
        fail_msg("%s%s", done.out, done.err);
    assert_contains(done.out, "\"restored\":21");
    assert_contains(done.out, "\"captured\":1");
    assert_contains(done.out, "\"chosen\":1");
    replica_assert_identical(t, both);
    for (int i = 0; i < 2; i++) {
        const cli_result conflicts = replica_call(t, "conflicts", both[i], NULL, NULL);
        assert_contains(conflicts.out, "bit rot");
    }
    replica_ok(t, "verify", "b.db", address);
    replica_end(a, SIGTERM);
}

static char *fetch_metrics(const cli_fixture *t, const char *address)
{
    static const char script[] = "import sys, urllib.request\n"
                                 "print(urllib.request.urlopen('http://%s/metrics' % "
                                 "sys.argv[1]).read().decode())\n";
    const char *const argv[] = {"/usr/bin/python3", "-c", script, address, NULL};
    return replica_run_other(t, argv);
}

/* A daemon tells what it did, how large everything is, who lags, and what keeps its floor down. */
static void figures_tell_how_a_node_is(void **state)
{
    cli_fixture *t = *state;
    char first[REPLICA_LINE_MAX];
    char second[REPLICA_LINE_MAX];
    proc *a = begin(t, first);
    proc *b = replica_serve(t, "b.db", first, second);
    write_beside(t, "b.db", "UPDATE todos SET n = 0 WHERE id < 5; DELETE FROM todos WHERE id = 6");
    const int64_t until_ms = proc_now_ms() + REPLICA_WAIT_MS;
    while (replica_call(t, "verify", "a.db", second, NULL).exit_code != 0)
        assert_true(proc_now_ms() < until_ms && t->result_count < CLI_RESULTS_MAX - 8);
    TIDE_CLEANUP(tide_freep) char *text = fetch_metrics(t, second);
    char line[REPLICA_LINE_MAX * 2];
    (void)snprintf(line, sizeof line, "tidemark_replica_syncs_total{peer=\"%s\",result=\"proven\"}",
                   first);
    assert_contains(text, line);
    (void)snprintf(line, sizeof line, "tidemark_replica_pushed_events_total{peer=\"%s\"} 5", first);
    assert_contains(text, line);
    assert_contains(text, "tidemark_replica_table_rows{table=\"todos\"} 1999\n");
    assert_contains(text, "tidemark_replica_table_events{table=\"notes\"} 500\n");
    assert_contains(text, "tidemark_replica_tombstones 1\n");
    assert_contains(text, "tidemark_replica_conflicts 0\n");
    assert_contains(text, "tidemark_replica_quarantined_events 0\n");
    assert_contains(text, "tidemark_replica_lag_events{origin=");
    assert_contains(text, "tidemark_replica_floor_pin{origin=");
    assert_contains(text, "tidemark_replica_clock_ahead_seconds ");
    assert_contains(text, "tidemark_replica_peer_lag_events{peer=");
    replica_end(b, SIGTERM);
    replica_end(a, SIGTERM);
}

/* Mixed versions: a peer that answers TableEvents alone is pulled by time, again and again, and everything settles; nothing is called proven. */
static void a_peer_without_cursors_is_pulled(void **state)
{
    cli_fixture *t = *state;
    char address[REPLICA_LINE_MAX];
    char old[REPLICA_LINE_MAX] = "";
    char script[PATH_MAX];
    cli_sql(t, "a.db", SCHEMA ROWS);
    cli_sql(t, "b.db", SCHEMA);
    for (int i = 0; i < 2; i++) {
        replica_ok(t, "track", both[i], "todos");
        replica_ok(t, "track", both[i], "notes");
    }
    proc *a = replica_serve(t, "a.db", NULL, address);
    (void)snprintf(script, sizeof script, "%s/tests/cli/replica/replica_old_peer.mjs",
                   getenv("TIDEMARK_SOURCE_DIR"));
    const char *const argv[] = {"/usr/bin/node", script, address, NULL};
    proc *peer = replica_start(t, argv, old);
    assert_memory_equal("ready ", old, 6);
    for (int pass = 0; pass < 3; pass++) {
        const cli_result result = replica_call(t, "sync", "b.db", old + 6, NULL);
        assert_int_not_equal(0, result.exit_code);
        assert_contains(result.err, "by time");
        assert_contains(result.out, "\"proven\":false");
        replica_assert_identical(t, both);
        write_beside(t, "a.db",
                     "UPDATE todos SET n = n + 1 WHERE id < 50; DELETE FROM notes WHERE b % 50 = 3;"
                     "REPLACE INTO todos VALUES(1, 'again', 1)");
        assert_int_not_equal(0, replica_call(t, "sync", "b.db", old + 6, NULL).exit_code);
        replica_assert_identical(t, both);
    }
    replica_end(peer, SIGKILL);
    replica_ok(t, "sync", "b.db", address);
    replica_assert_identical(t, both);
    replica_end(a, SIGTERM);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        REPLICA_CASE(what_differs_is_reported_and_repaired),
        REPLICA_CASE(figures_tell_how_a_node_is),
        REPLICA_CASE(a_peer_without_cursors_is_pulled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
