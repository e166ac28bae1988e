/* The harness's PostgreSQL. The program starts itself again as a test program of its own:
 * pg_cluster_test hold (start a cluster, print it, wait), case (one case on the shared server). */
#include "support/postgres/pg_cluster.h"

#include <libpq-fe.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "support/check.h"

enum {
    TIMEOUT_MS = 60000,
    LEFT_MS = 30000, /* less than the minute after which a server misses its own files */
};

static void conn_finishp(PGconn **conn)
{
    PQfinish(*conn);
}

static void result_clearp(PGresult **result)
{
    PQclear(*result);
}

/* Run one statement on a database and copy its first value, if there is one. */
static void query(const char *url, const char *sql, char out[64])
{
    TIDE_CLEANUP(conn_finishp) PGconn *conn = PQconnectdb(url);
    if (PQstatus(conn) != CONNECTION_OK)
        fail_msg("%s: %s", url, PQerrorMessage(conn));
    TIDE_CLEANUP(result_clearp) PGresult *result = PQexec(conn, sql);
    const ExecStatusType status = PQresultStatus(result);
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
        fail_msg("%s: %s", sql, PQresultErrorMessage(result));
    snprintf(out, 64, "%s", PQntuples(result) > 0 ? PQgetvalue(result, 0, 0) : "");
}

static void query_database(const pg_cluster *c, const char *database, const char *sql, char out[64])
{
    char url[PG_CLUSTER_URL_MAX];
    pg_cluster_url(c, database, url);
    query(url, sql, out);
}

static bool is_server_left(pid_t pid, const char *path)
{
    return !proc_is_gone(pid) || access(path, F_OK) == 0;
}

static void wait_until_nothing_is_left(pid_t pid, const char *path)
{
    const int64_t deadline_ms = proc_now_ms() + LEFT_MS;
    while (is_server_left(pid, path) && proc_now_ms() < deadline_ms)
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    assert_false(is_server_left(pid, path));
}

/* What the server acknowledges is worth testing only with fsync; no other machine can reach it. */
static void the_server_is_durable_and_private(void **state)
{
    (void)state;
    const pg_cluster *c = pg_cluster_for_test();
    char value[64];
    query_database(c, "postgres", "SHOW fsync", value);
    assert_string_equal("on", value);
    query_database(c, "postgres", "SHOW synchronous_commit", value);
    assert_string_equal("on", value);
    if (c->dir.path[0] != '\0') { /* not for a server of the test runner */
        query_database(c, "postgres", "SHOW listen_addresses", value);
        assert_string_equal("", value);
    }
}

/* Cases must not see each other: each has a database of its own, empty or a copy of a prepared
 * one. */
static void each_case_has_a_database_of_its_own(void **state)
{
    (void)state;
    const pg_cluster *c = pg_cluster_for_test();
    tide_error err;
    char value[64];
    char first[PG_CLUSTER_NAME_MAX];
    char copy[PG_CLUSTER_NAME_MAX];
    char other[PG_CLUSTER_NAME_MAX];
    assert_ok_err(pg_cluster_fresh_database(c, NULL, first, &err), &err);
    query_database(c, first, "CREATE TABLE t AS SELECT 42 AS x", value);
    assert_ok_err(pg_cluster_fresh_database(c, first, copy, &err), &err);
    assert_ok_err(pg_cluster_fresh_database(c, NULL, other, &err), &err);
    query_database(c, copy, "UPDATE t SET x = 43 RETURNING x", value);
    assert_string_equal("43", value);
    query_database(c, first, "SELECT x FROM t", value);
    assert_string_equal("42", value);
    query_database(c, other, "SELECT count(*) FROM pg_tables WHERE tablename = 't'", value);
    assert_string_equal("0", value);
    assert_ok_err(pg_cluster_drop_database(c, other, &err), &err);
    assert_status(TIDE_E_FAILED, pg_cluster_drop_database(c, other, &err));
    assert_contains(err.text, "does not exist");
    assert_status(TIDE_E_INVALID, pg_cluster_create_database(c, "a\"b", NULL, &err));
}

/* kill -9 of everything, in the middle of an open transaction: committed rows are back, the
 * others are not. */
static void a_crash_keeps_what_was_committed(void **state)
{
    (void)state;
    pg_cluster_for_test(); /* skips where there is no PostgreSQL */
    TIDE_CLEANUP(pg_cluster_stop) pg_cluster c;
    tide_error err;
    char value[64];
    char url[PG_CLUSTER_URL_MAX];
    assert_ok_err(pg_cluster_start(&c, NULL, &err), &err);
    pg_cluster_url(&c, "postgres", url);
    query(url, "CREATE TABLE t AS SELECT 1 AS x", value);
    TIDE_CLEANUP(conn_finishp) PGconn *open = PQconnectdb(url);
    PQclear(PQexec(open, "BEGIN"));
    PQclear(PQexec(open, "INSERT INTO t VALUES (2)"));
    const pid_t backend = PQbackendPID(open);

    for (int i = 0; i < 2; i++) {
        assert_ok_err(pg_cluster_crash(&c, &err), &err);
        assert_int_equal(PQPING_NO_RESPONSE, PQping(url));
        assert_true(proc_is_gone(backend));
        assert_ok_err(pg_cluster_restart(&c, &err), &err);
        query(url, "SELECT string_agg(x::text, ',') FROM t", value);
        assert_string_equal("1", value);
    }
}

/* A server that is away, and comes back on the same address. */
static void a_shut_down_server_comes_back_at_its_place(void **state)
{
    (void)state;
    pg_cluster_for_test();
    TIDE_CLEANUP(pg_cluster_stop) pg_cluster c;
    tide_error err;
    char value[64];
    char url[PG_CLUSTER_URL_MAX];
    const char *const settings[] = {"work_mem=1MB", NULL};
    assert_ok_err(
        pg_cluster_start(&c, &(pg_cluster_options){.has_tcp = true, .settings = settings}, &err),
        &err);
    pg_cluster_tcp_url(&c, "postgres", url);
    query(url, "CREATE TABLE t AS SELECT 1 AS x", value);
    assert_ok_err(pg_cluster_shutdown(&c, &err), &err);
    assert_int_equal(PQPING_NO_RESPONSE, PQping(url));
    assert_ok_err(pg_cluster_restart(&c, &err), &err);
    query(url, "SELECT count(*) FROM t", value);
    assert_string_equal("1", value);
    query(url, "SHOW work_mem", value);
    assert_string_equal("1MB", value);

    const tempdir dir = c.dir;
    const pid_t server = c.server.pid;
    pg_cluster_stop(&c);
    assert_true(proc_is_gone(server));
    wait_until_nothing_is_left(server, dir.path);
}

/* A failed start reports the server's message, and leaves nothing. */
static void a_server_that_cannot_start_says_why(void **state)
{
    (void)state;
    pg_cluster_for_test();
    TIDE_CLEANUP(pg_cluster_stop) pg_cluster c;
    tide_error err;
    const char *const settings[] = {"no_such_setting=1", NULL};
    assert_status_err(TIDE_E_FAILED,
                      pg_cluster_start(&c, &(pg_cluster_options){.settings = settings}, &err),
                      &err);
    assert_contains(err.text, "no_such_setting");
    assert_string_equal("", c.dir.path);
}

/* A test program that is killed cannot clean up: its supervisor does. */
static void a_killed_test_leaves_no_server_behind(void **state)
{
    (void)state;
    pg_cluster_for_test();
    char self[PATH_MAX];
    tide_error err;
    proc_self_path(self);
    const char *const argv[] = {self, test_file_name(), "--", "hold", NULL};
    TIDE_CLEANUP(proc_done) proc child;
    assert_ok_err(proc_start(&child, &(proc_options){.argv = argv, .out = PROC_PIPE}, &err), &err);
    FILE *out = fdopen(dup(child.out_fd), "r");
    char number[32];
    char path[TEMPDIR_PATH_MAX];
    assert_non_null(fgets(number, sizeof(number), out));
    assert_non_null(fgets(path, sizeof(path), out));
    fclose(out);
    path[strcspn(path, "\n")] = '\0';
    const pid_t pid = (pid_t)assert_number(number);
    assert_true(pid > 0);
    assert_true(is_server_left(pid, path));

    assert_ok_err(proc_kill(&child, SIGKILL, &err), &err);
    wait_until_nothing_is_left(pid, path);
}

static void run_case(proc_result *result, const char *const *env)
{
    char self[PATH_MAX];
    tide_error err;
    proc_self_path(self);
    const char *const argv[] = {self, test_file_name(), "--", "case", NULL};
    assert_ok_err(proc_run(result, &(proc_options){.argv = argv, .env = env}, TIMEOUT_MS, &err),
                  &err);
}

/* Not installed: a loud skip for a person, a failure in CI. */
static void a_missing_postgresql_is_loud_and_fails_in_ci(void **state)
{
    (void)state;
    TIDE_CLEANUP(proc_result_done) proc_result person = {0};
    const char *const alone[] = {"TIDEMARK_TEST_PG_BIN=/nowhere", "TIDEMARK_TEST_PG_URL",
                                 "TIDEMARK_TEST_PG_DIR", "CI", NULL};
    run_case(&person, alone);
    assert_int_equal(0, person.exit_code);
    assert_contains(person.err, "SKIPPED, NOT TESTED ON POSTGRESQL");

    TIDE_CLEANUP(proc_result_done) proc_result ci = {0};
    const char *const in_ci[] = {"TIDEMARK_TEST_PG_BIN=/nowhere", "TIDEMARK_TEST_PG_URL",
                                 "TIDEMARK_TEST_PG_DIR", "CI=true", NULL};
    run_case(&ci, in_ci);
    assert_int_equal(1, ci.exit_code);
}

/* The test runner may have one server for all programs; they then use it and leave it alone. */
static void a_server_of_the_test_runner_is_used(void **state)
{
    (void)state;
    const pg_cluster *c = pg_cluster_for_test();
    char url[PG_CLUSTER_URL_MAX + 32] = "TIDEMARK_TEST_PG_URL=";
    pg_cluster_url(c, "postgres", url + strlen(url));
    const char *const env[] = {url, "TIDEMARK_TEST_PG_BIN=/nowhere", NULL};
    char before[64];
    char after[64];
    query_database(c, "postgres", "SELECT count(*) FROM pg_database", before);
    TIDE_CLEANUP(proc_result_done) proc_result result = {0};
    run_case(&result, env);
    assert_int_equal(0, result.exit_code);
    query_database(c, "postgres", "SELECT count(*) FROM pg_database", after);
    assert_int_equal(assert_number(before) + 1, assert_number(after));
}

static int hold_cluster(void)
{
    pg_cluster *c = NULL;
    tide_error err;
    unsetenv("TIDEMARK_TEST_PG_URL");
    unsetenv("TIDEMARK_TEST_PG_DIR");
    if (pg_cluster_shared(&c, &err) != TIDE_OK) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    printf("%d\n%s\n", (int)c->server.pid, c->dir.path);
    fflush(stdout);
    for (;;)
        pause();
}

static void make_one_database(void **state)
{
    (void)state;
    tide_error err;
    char name[PG_CLUSTER_NAME_MAX];
    assert_ok_err(pg_cluster_fresh_database(pg_cluster_for_test(), NULL, name, &err), &err);
}

TEST_FILE()
{
    const char *only = test_file_argument(0);
    if (only != NULL && strcmp(only, "hold") == 0)
        return hold_cluster();
    if (only != NULL && strcmp(only, "case") == 0) {
        const struct CMUnitTest one[] = {cmocka_unit_test(make_one_database)};
        return cmocka_run_group_tests_name("case", one, NULL, NULL);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_server_is_durable_and_private),
        cmocka_unit_test(each_case_has_a_database_of_its_own),
        cmocka_unit_test(a_crash_keeps_what_was_committed),
        cmocka_unit_test(a_shut_down_server_comes_back_at_its_place),
        cmocka_unit_test(a_server_that_cannot_start_says_why),
        cmocka_unit_test(a_killed_test_leaves_no_server_behind),
        cmocka_unit_test(a_missing_postgresql_is_loud_and_fails_in_ci),
        cmocka_unit_test(a_server_of_the_test_runner_is_used),
    };
    return cmocka_run_group_tests_name("pg_cluster", tests, NULL, NULL);
}
