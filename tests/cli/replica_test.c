/* Replication as scripts see it: real processes, foreign writers, tables that are equal in the end. */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli_run.h"

enum { SERVERS_MAX = 8, LINE_MAX_LEN = 512, WAIT_MS = 60000 };

#define SCHEMA                                                                                     \
    "CREATE TABLE todos(id TEXT PRIMARY KEY NOT NULL, title TEXT, n INTEGER DEFAULT 0);"           \
    "CREATE INDEX todos_by_n ON todos(n);"

/* ---- servers ---- */

static proc servers[SERVERS_MAX];
static int server_count;

static void read_line(proc *process, char line[LINE_MAX_LEN])
{
    const int64_t until_ms = proc_now_ms() + WAIT_MS;
    for (size_t len = 0; len + 1 < LINE_MAX_LEN; len++) {
        struct pollfd fd = {.fd = process->out_fd, .events = POLLIN};
        const int64_t left_ms = until_ms - proc_now_ms();
        assert_true(left_ms > 0 && poll(&fd, 1, (int)left_ms) > 0);
        assert_int_equal(1, read(process->out_fd, line + len, 1));
        if (line[len] == '\n') {
            line[len] = '\0';
            return;
        }
    }
    fail_msg("a very long line");
}

/* Serve a file of the case's directory; the address it tells. */
static proc *serve(const cli_fixture *t, const char *db, const char *peer,
                   char address[LINE_MAX_LEN])
{
    char path[TEMPDIR_PATH_MAX];
    char line[LINE_MAX_LEN];
    tide_error err = {.status = TIDE_OK};
    cli_path(t, db, path);
    const char *argv[] = {t->program,
                          "replica",
                          peer ? "run" : "serve",
                          path,
                          "--listen",
                          "127.0.0.1:0",
                          peer ? "--peer" : NULL,
                          peer,
                          "--every",
                          "500ms",
                          NULL};
    assert_true(server_count < SERVERS_MAX);
    proc *server = &servers[server_count++];
    proc_options options = cli_options(t, argv);
    options.out = PROC_PIPE;
    assert_ok_err(proc_start(server, &options, &err), &err);
    read_line(server, line);
    const char *at = strstr(line, "ready grpc=");
    assert_non_null(at);
    (void)snprintf(address, LINE_MAX_LEN, "%s", at + strlen("ready grpc="));
    return server;
}

static void end(proc *server, int signal)
{
    tide_error err = {.status = TIDE_OK};
    assert_ok_err(proc_kill(server, signal, &err), &err);
    assert_ok_err(proc_wait(server, WAIT_MS, &err), &err);
    if (signal == SIGTERM)
        assert_int_equal(0, server->exit_code);
    proc_done(server);
}

static int replica_setup(void **state)
{
    server_count = 0;
    return cli_setup(state);
}

static int replica_teardown(void **state)
{
    for (int i = 0; i < server_count; i++)
        if (servers[i].pid > 0 && !proc_poll(&servers[i]))
            (void)proc_kill(&servers[i], SIGKILL, NULL);
    return cli_teardown(state);
}

/* ---- calls ---- */

static cli_result replica(cli_fixture *t, const char *verb, const char *db, const char *word,
                          const char *option)
{
    char path[TEMPDIR_PATH_MAX];
    cli_path(t, db, path);
    if (!word)
        return cli_run(t, "replica", verb, path, "--json", NULL);
    return cli_run(t, "replica", verb, path, word, "--json", option, NULL);
}

static void replica_ok(cli_fixture *t, const char *verb, const char *db, const char *word)
{
    const cli_result result = replica(t, verb, db, word, NULL);
    if (result.exit_code != 0)
        print_error("%s %s: %s\n", verb, db, result.err);
    assert_int_equal(0, result.exit_code);
}

static void assert_same_digest(cli_fixture *t, const char *a, const char *b)
{
    const cli_result x = replica(t, "digest", a, NULL, NULL);
    const cli_result y = replica(t, "digest", b, NULL, NULL);
    assert_int_equal(0, x.exit_code);
    assert_true(strlen(x.out) > 10);
    assert_string_equal(x.out, y.out);
}

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
    assert_ok_err(proc_run(&result, &options, WAIT_MS, &err), &err);
    assert_int_equal(0, result.exit_code);
    proc_result_done(&result);
}

/* ---- cases ---- */

/* sync makes file and table, brings rows and indexes, and ends with 0 at a proven cut; a second one has nothing to do. */
static void a_sync_into_nothing_makes_the_table(void **state)
{
    cli_fixture *t = *state;
    char address[LINE_MAX_LEN];
    cli_sql(t, "a.db", SCHEMA "INSERT INTO todos VALUES('1','one',1),('2','two',2)");
    replica_ok(t, "track", "a.db", "todos");
    proc *a = serve(t, "a.db", NULL, address);
    for (int pass = 0; pass < 2; pass++) {
        const cli_result result = replica(t, "sync", "b.db", address, NULL);
        json_t *line = cli_json(&result);
        assert_true(json_is_true(json_object_get(line, "proven")));
        assert_int_equal(pass == 0 ? 2 : 0, json_number(line, "pulled"));
        assert_int_equal(pass == 0 ? 1 : 0, json_number(line, "tables_created"));
        json_decref(line);
    }
    assert_same_digest(t, "a.db", "b.db");
    cli_sql(t, "b.db",
            "INSERT INTO todos SELECT '3', name, 3 FROM sqlite_schema WHERE name = 'todos_by_n'");
    replica_ok(t, "sync", "b.db", address);
    assert_same_digest(t, "a.db", "b.db");
    replica_ok(t, "verify", "b.db", address);
    const cli_result status = replica(t, "status", "a.db", NULL, NULL);
    json_t *line = cli_json(&status);
    assert_int_equal(36, strlen(json_text(line, "node")));
    assert_int_equal(2, json_array_size(json_object_get(line, "origins")));
    assert_int_equal(2, json_array_size(json_object_get(line, "cursors")));
    assert_int_equal(1, json_array_size(json_object_get(line, "peers")));
    json_decref(line);
    end(a, SIGTERM);
}

/* Three nodes, written by foreign programs between and during syncs, one of them killed under way: the same in the end. */
static void three_nodes_converge_through_one_that_is_killed(void **state)
{
    cli_fixture *t = *state;
    char address[LINE_MAX_LEN];
    cli_sql(t, "a.db", SCHEMA);
    replica_ok(t, "track", "a.db", "todos");
    proc *a = serve(t, "a.db", NULL, address);
    replica_ok(t, "sync", "b.db", address);
    replica_ok(t, "sync", "c.db", address);
    for (int round = 0; round < 3; round++) {
        write_by_python(t, "a.db", 10 + round);
        write_by_python(t, "b.db", 20 + round);
        write_by_python(t, "c.db", 30 + round);
        replica_ok(t, "sync", "b.db", address);
        replica_ok(t, "sync", "c.db", address);
        end(a, SIGKILL);
        const cli_result failed = replica(t, "sync", "b.db", address, NULL);
        assert_int_not_equal(0, failed.exit_code);
        a = serve(t, "a.db", NULL, address);
        replica_ok(t, "sync", "b.db", address);
    }
    assert_same_digest(t, "a.db", "b.db");
    assert_same_digest(t, "a.db", "c.db");
    end(a, SIGTERM);
}

/* --pull and --push move one way only. */
static void one_direction_leaves_the_other_alone(void **state)
{
    cli_fixture *t = *state;
    char address[LINE_MAX_LEN];
    cli_sql(t, "a.db", SCHEMA "INSERT INTO todos VALUES('1','one',1)");
    replica_ok(t, "track", "a.db", "todos");
    proc *a = serve(t, "a.db", NULL, address);
    assert_int_equal(0, replica(t, "sync", "b.db", address, "--pull").exit_code);
    cli_sql(t, "b.db", "INSERT INTO todos VALUES('2','two',2)");
    assert_int_equal(0, replica(t, "sync", "b.db", address, "--pull").exit_code);
    assert_int_not_equal(0, replica(t, "verify", "b.db", address, NULL).exit_code);
    assert_int_equal(0, replica(t, "sync", "b.db", address, "--push").exit_code);
    assert_same_digest(t, "a.db", "b.db");
    end(a, SIGTERM);
}

/* A daemon ships a change when it is made, in both directions. */
static void a_daemon_stays_in_sync(void **state)
{
    cli_fixture *t = *state;
    char first[LINE_MAX_LEN];
    char second[LINE_MAX_LEN];
    cli_sql(t, "a.db", SCHEMA "INSERT INTO todos VALUES('1','one',1)");
    replica_ok(t, "track", "a.db", "todos");
    proc *a = serve(t, "a.db", NULL, first);
    proc *b = serve(t, "b.db", first, second);
    cli_sql(t, "a.db", "INSERT INTO todos VALUES('2','two',2)");
    const int64_t until_ms = proc_now_ms() + WAIT_MS;
    while (replica(t, "verify", "a.db", second, NULL).exit_code != 0) {
        assert_true(proc_now_ms() < until_ms && t->result_count < CLI_RESULTS_MAX - 8);
        (void)poll(NULL, 0, 200);
    }
    assert_same_digest(t, "a.db", "b.db");
    end(b, SIGTERM);
    end(a, SIGTERM);
}

/* R8: what was collected is not silently missing: the sync fails, says what is required, and what is new here was pushed. A copy of the file is a
 * node of its own, which has everything. */
static void below_the_floor_a_sync_says_what_is_required(void **state)
{
    cli_fixture *t = *state;
    char address[LINE_MAX_LEN];
    cli_sql(t, "a.db",
            SCHEMA
            "INSERT INTO todos WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n"
            " WHERE i < 1500) SELECT i, 'row', i FROM n");
    assert_int_equal(0, replica(t, "track", "a.db", "todos", "--retain=0s").exit_code);
    const cli_result gone = replica(t, "gc", "a.db", NULL, NULL);
    json_t *line = cli_json(&gone);
    assert_int_equal(500, json_number(line, "events")); /* 1,000 are kept for safety */
    json_decref(line);
    cli_sql(t, "b.db", SCHEMA "INSERT INTO todos VALUES('b','new',1)");
    replica_ok(t, "track", "b.db", "todos");
    proc *a = serve(t, "a.db", NULL, address);
    const cli_result failed = replica(t, "sync", "b.db", address, NULL);
    assert_int_equal(3, failed.exit_code);
    assert_contains(failed.err, "a snapshot is required");
    assert_contains(failed.err, "above 500");
    assert_contains(failed.out, "\"proven\":false");
    end(a, SIGTERM);
    char copy[TEMPDIR_PATH_MAX];
    char sql[TEMPDIR_PATH_MAX + 32];
    cli_path(t, "c.db", copy);
    (void)snprintf(sql, sizeof sql, "VACUUM INTO '%s'", copy);
    cli_sql(t, "a.db", sql);
    a = serve(t, "a.db", NULL, address);
    replica_ok(t, "sync", "c.db", address);
    assert_same_digest(t, "a.db", "c.db");
    end(a, SIGTERM);
}

/* What cannot be replicated is refused with words, and nothing has changed. */
static void bad_requests_are_refused(void **state)
{
    cli_fixture *t = *state;
    cli_sql(t, "a.db", "CREATE TABLE heap(a, b)");
    cli_result result = replica(t, "track", "a.db", "heap", NULL);
    assert_int_not_equal(0, result.exit_code);
    assert_contains(result.err, "heap");
    result = replica(t, "track", "a.db", "nothing", NULL);
    assert_int_not_equal(0, result.exit_code);
    result = replica(t, "track", "absent.db", "todos", NULL);
    assert_int_not_equal(0, result.exit_code);
    result = replica(t, "untrack", "a.db", "heap", NULL);
    assert_int_not_equal(0, result.exit_code);
    result = replica(t, "sync", "b.db", "127.0.0.1:1", NULL);
    assert_int_not_equal(0, result.exit_code);
}

#define CASE(function)                                                                             \
    {                                                                                              \
#function, function, replica_setup, replica_teardown, (void *)"sqlite"                     \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_sync_into_nothing_makes_the_table),
        CASE(three_nodes_converge_through_one_that_is_killed),
        CASE(one_direction_leaves_the_other_alone),
        CASE(a_daemon_stays_in_sync),
        CASE(below_the_floor_a_sync_says_what_is_required),
        CASE(bad_requests_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
