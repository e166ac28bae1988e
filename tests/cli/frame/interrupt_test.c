/* Ctrl-C: exit code 130, nothing half done. */
#include <fcntl.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli_run.h"
#include "support/postgres/pg_cluster.h"

enum { BACKUP_TRIES = 20 };

static void wait_a_little(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
}

/* Does somebody hold the door of the store? */
static bool is_door_held(const cli_fixture *t)
{
    char path[TEMPDIR_PATH_MAX];
    cli_path(t, "store.db-door", path);
    const int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return false;
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1};
    const int code = fcntl(fd, F_OFD_GETLK, &lock);
    (void)close(fd);
    return code == 0 && lock.l_type != F_UNLCK;
}

/* Another program holds the write lock; whoever waits for a number gives up, and the number is not taken. */
static void waiting_for_the_lock_can_be_interrupted(void **state)
{
    cli_fixture *t = *state;
    cli_run(t, "sequence", "next", "orders", NULL);
    sqlite3 *db = NULL;
    assert_int_equal(SQLITE_OK, sqlite3_open(t->url, &db));
    assert_int_equal(SQLITE_OK, sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL));
    const char *argv[] = {t->program, "sequence", "next", "orders", NULL};
    proc child;
    const proc_options options = cli_options(t, argv);
    assert_ok_err(proc_start(&child, &options, &t->err), &t->err);
    const int64_t deadline_ms = proc_now_ms() + CLI_TIMEOUT_MS;
    while (!is_door_held(t) && proc_now_ms() < deadline_ms)
        wait_a_little();
    assert_ok_err(proc_kill(&child, SIGINT, &t->err), &t->err);
    assert_ok_err(proc_wait(&child, CLI_TIMEOUT_MS, &t->err), &t->err);
    assert_int_equal(TIDE_EXIT_INTERRUPTED, child.exit_code);
    proc_done(&child);
    assert_int_equal(SQLITE_OK, sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL));
    assert_int_equal(SQLITE_OK, sqlite3_close(db));
    const cli_result result = cli_run(t, "sequence", "next", "orders", NULL);
    assert_string_equal("2\n", result.out);
}

static bool has_file(const cli_fixture *t, const char *part)
{
    char *files = cli_list_files(t);
    const bool is_there = strstr(files, part) != NULL;
    free(files);
    return is_there;
}

/* Interrupt a backup as soon as its file is seen; true: it was still under way. */
static bool interrupt_backup(cli_fixture *t, int signal_number)
{
    const char *argv[] = {t->program, "store", "backup", "copy.db", NULL};
    proc child;
    proc_options options = cli_options(t, argv);
    options.out = PROC_NULL;
    assert_ok_err(proc_start(&child, &options, &t->err), &t->err);
    while (!has_file(t, "copy.db") && !proc_poll(&child))
        wait_a_little();
    assert_ok_err(proc_kill(&child, signal_number, &t->err), &t->err);
    if (child.pid)
        assert_ok_err(proc_wait(&child, CLI_TIMEOUT_MS, &t->err), &t->err);
    const bool is_finished = child.exit_code == 0;
    if (!is_finished && signal_number == SIGINT)
        assert_int_equal(TIDE_EXIT_INTERRUPTED, child.exit_code);
    if (!is_finished && signal_number == SIGTERM)
        assert_int_equal(SIGTERM, child.signal);
    proc_done(&child);
    return !is_finished;
}

static void interrupt_until_hit(cli_fixture *t, int signal_number)
{
    for (int i = 0; i < BACKUP_TRIES; i++) {
        const bool is_hit = interrupt_backup(t, signal_number);
        assert_false(has_file(t, "copy.db.part"));
        if (is_hit && !has_file(t, "copy.db"))
            return;
        /* It was faster than the signal: then the copy is whole. */
        const cli_result result = cli_run(t, "store", "verify", "--store", "copy.db", NULL);
        assert_int_equal(0, result.exit_code);
        char path[TEMPDIR_PATH_MAX];
        cli_path(t, "copy.db", path);
        assert_int_equal(0, unlink(path));
    }
    fail_msg("no backup out of %d could be interrupted", BACKUP_TRIES);
}

/* Large enough to be met in the middle. */
static void an_interrupted_backup_leaves_no_file(void **state)
{
    cli_fixture *t = *state;
    cli_run(t, "sequence", "next", "orders", NULL);
    cli_sql(t, "store.db",
            "CREATE TABLE ballast (bytes);"
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 4000)"
            "INSERT INTO ballast SELECT zeroblob(15000) FROM n");
    interrupt_until_hit(t, SIGINT);
    interrupt_until_hit(t, SIGTERM);
    const cli_result result = cli_run(t, "store", "verify", NULL);
    assert_int_equal(0, result.exit_code);
}

static const char waiting_backends[] =
    "SELECT count(*) FROM pg_stat_activity "
    "WHERE application_name = 'tidemark' AND wait_event = 'SyncRep'";

static void wait_backends(const pg_cluster *cluster, const char *sql, const char *count)
{
    char found[32] = "";
    tide_error err;
    const int64_t deadline_ms = proc_now_ms() + CLI_TIMEOUT_MS;
    while (strcmp(found, count) != 0 && proc_now_ms() < deadline_ms) {
        assert_ok_err(pg_cluster_query(cluster, sql, found, sizeof found, &err), &err);
        wait_a_little();
    }
    assert_string_equal(count, found);
}

/* A backend that waits for a standby does not notice that its client has gone. */
static void no_session_is_left_that_waits_for_a_standby(void **state)
{
    cli_fixture *t = *state;
    static pg_cluster own;
    static const int numbers[] = {SIGINT, SIGTERM};
    char url[PG_CLUSTER_URL_MAX];
    assert_ok_err(pg_cluster_start(&own, NULL, &t->err), &t->err);
    pg_cluster_url(&own, "postgres", url);
    const char *argv[] = {t->program, "sequence", "next", "orders", "--store", url, NULL};
    const proc_options options = cli_options(t, argv);
    proc child;
    assert_ok_err(proc_start(&child, &options, &t->err), &t->err);
    assert_ok_err(proc_wait(&child, CLI_TIMEOUT_MS, &t->err), &t->err);
    assert_int_equal(0, child.exit_code);
    proc_done(&child);
    assert_ok_err(pg_cluster_require_standby(&own, "away", &t->err), &t->err);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        assert_ok_err(proc_start(&child, &options, &t->err), &t->err);
        wait_backends(&own, waiting_backends, "1");
        assert_ok_err(proc_kill(&child, numbers[i], &t->err), &t->err);
        assert_ok_err(proc_wait(&child, CLI_TIMEOUT_MS, &t->err), &t->err);
        proc_done(&child);
        wait_backends(
            &own, "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'tidemark'", "0");
    }
    pg_cluster_stop(&own);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        CLI_TEST_SQLITE(waiting_for_the_lock_can_be_interrupted),
        CLI_TEST_SQLITE(an_interrupted_backup_leaves_no_file),
        CLI_TEST_SQLITE(no_session_is_left_that_waits_for_a_standby),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
