/* End-to-end test of the replication document: restarts, and history that is replayed; nothing is there twice, and all is counted right. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sqlite3.h>

#include "cli/replica/replica_calls.h"
#include "crash/copying.h"
#include "support/json.h"

enum { ROUNDS = 4, ROWS = 300 };

#define SCHEMA "CREATE TABLE items(id TEXT PRIMARY KEY NOT NULL, n INTEGER, note TEXT);"

static int64_t count(const cli_fixture *t, const char *db, const char *query)
{
    char path[TEMPDIR_PATH_MAX];
    sqlite3 *file = NULL;
    sqlite3_stmt *row = NULL;
    cli_path(t, db, path);
    assert_int_equal(SQLITE_OK, sqlite3_open_v2(path, &file, SQLITE_OPEN_READWRITE, NULL));
    assert_int_equal(SQLITE_OK, sqlite3_busy_timeout(file, REPLICA_WAIT_MS));
    if (sqlite3_prepare_v2(file, query, -1, &row, NULL) != SQLITE_OK)
        fail_msg("%s: %s", query, sqlite3_errmsg(file));
    assert_int_equal(SQLITE_ROW, sqlite3_step(row));
    const int64_t number = sqlite3_column_int64(row, 0);
    (void)sqlite3_finalize(row);
    (void)sqlite3_close(file);
    return number;
}

/* So many rows more, of which every third is changed and every tenth deleted. */
static void write_rows(const cli_fixture *t, const char *db, int round)
{
    char sql[600];
    (void)snprintf(sql, sizeof sql,
                   "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < %d) "
                   "INSERT INTO items SELECT '%s-%d-' || i, i, 'new' FROM c;"
                   "UPDATE items SET note = 'changed' WHERE n %% 3 = 0 AND id LIKE '%s-%d-%%';"
                   "DELETE FROM items WHERE n %% 10 = 0 AND id LIKE '%s-%d-%%';",
                   ROWS, db, round, db, round, db, round);
    cli_sql(t, db, sql);
}

/* Each event is in the log once, each row in the table once, and as many as were written. */
static void assert_counts(const cli_fixture *t, const char *db, int64_t batches)
{
    const int64_t events = batches * (ROWS + ROWS / 3 + ROWS / 10);
    assert_int_equal(batches * (ROWS - ROWS / 10), count(t, db, "SELECT count(*) FROM items"));
    assert_int_equal(events, count(t, db, "SELECT count(*) FROM items_Events"));
    assert_int_equal(events, count(t, db, "SELECT count(DISTINCT id) FROM items_Events"));
    assert_int_equal(events, count(t, db,
                                   "SELECT count(*) FROM (SELECT DISTINCT origin, epoch, seq FROM "
                                   "tide_replica_events)"));
    assert_int_equal(batches * (ROWS / 3 - ROWS / 30),
                     count(t, db, "SELECT count(*) FROM items WHERE note = 'changed'"));
    assert_int_equal(0, count(t, db, "SELECT count(*) FROM tide_replica_conflicts"));
    assert_int_equal(0, count(t, db, "SELECT count(*) FROM items_Events WHERE NOT processed"));
}

/* A sync that is cut off by kill -9 of either side at any moment. */
static void break_sync(cli_fixture *t, const char *address, proc *server, int round)
{
    char path[TEMPDIR_PATH_MAX];
    tide_error err = {.status = TIDE_OK};
    cli_path(t, "b.db", path);
    const char *const argv[] = {t->program, "replica", "sync", path, address, NULL};
    proc child;
    proc_options options = cli_options(t, argv);
    options.in = PROC_NULL;
    options.out = PROC_NULL;
    options.err = PROC_NULL;
    assert_ok_err(proc_start(&child, &options, &err), &err);
    (void)usleep((useconds_t)(15000 * (round + 1)));
    if (round % 2 == 0)
        (void)proc_kill(&child, SIGKILL, NULL);
    replica_end(server, SIGKILL);
    proc_done(&child);
}

/* The history is asked for again after every crash, by processes that remember nothing but their files. */
static void restarts_replay_history_without_duplicates_and_with_correct_counts(void **state)
{
    cli_fixture *t = *state;
    char address[REPLICA_LINE_MAX];
    cli_sql(t, "a.db", SCHEMA);
    replica_ok(t, "track", "a.db", "items");
    proc *server = replica_serve(t, "a.db", NULL, address);
    replica_ok(t, "sync", "b.db", address);
    for (int round = 0; round < ROUNDS; round++) {
        write_rows(t, "a.db", round);
        write_rows(t, "b.db", round);
        break_sync(t, address, server, round);
        server = replica_serve(t, "a.db", NULL, address);
        replica_ok(t, "sync", "b.db", address);
        const cli_result again = replica_call(t, "sync", "b.db", address, NULL);
        tide_json_node *line = cli_json(&again);
        assert_int_equal(0, json_number(line, "pulled"));
        assert_int_equal(0, json_number(line, "pushed"));
        tide_json_tree_free(line);
        assert_counts(t, "a.db", 2 * (round + 1));
        assert_counts(t, "b.db", 2 * (round + 1));
    }
    replica_assert_same_digest(t, "a.db", "b.db");
    replica_end(server, SIGTERM);
}

/* A file that was restored gets its own old events from others, once, and goes on under a new epoch. */
static void history_comes_back_into_a_file_that_was_put_back(void **state)
{
    cli_fixture *t = *state;
    char address[REPLICA_LINE_MAX];
    char file[TEMPDIR_PATH_MAX];
    char saved[TEMPDIR_PATH_MAX];
    char log[TEMPDIR_PATH_MAX];
    cli_path(t, "b.db", file);
    cli_path(t, "saved.db", saved);
    cli_sql(t, "a.db", SCHEMA);
    replica_ok(t, "track", "a.db", "items");
    proc *server = replica_serve(t, "a.db", NULL, address);
    replica_ok(t, "sync", "b.db", address);
    write_rows(t, "b.db", 0);
    replica_ok(t, "sync", "b.db", address);
    cli_sql(t, "b.db", "PRAGMA wal_checkpoint(TRUNCATE)");
    copy_file(file, saved);
    write_rows(t, "b.db", 1);
    write_rows(t, "a.db", 0);
    replica_ok(t, "sync", "b.db", address);
    cli_sql(t, "b.db", "PRAGMA wal_checkpoint(TRUNCATE)");
    copy_file(saved, file);
    (void)snprintf(log, sizeof log, "%.500s-wal", file);
    (void)unlink(log);
    assert_int_equal(ROWS - ROWS / 10, count(t, "b.db", "SELECT count(*) FROM items"));
    replica_ok(t, "sync", "b.db", address);
    assert_counts(t, "b.db", 3);
    write_rows(t, "b.db", 2);
    replica_ok(t, "sync", "b.db", address);
    assert_counts(t, "a.db", 4);
    assert_counts(t, "b.db", 4);
    assert_int_equal(2, count(t, "a.db", "SELECT count(DISTINCT epoch) FROM tide_replica_events"));
    replica_assert_same_digest(t, "a.db", "b.db");
    replica_end(server, SIGTERM);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        REPLICA_CASE(restarts_replay_history_without_duplicates_and_with_correct_counts),
        REPLICA_CASE(history_comes_back_into_a_file_that_was_put_back),
    };
    return cmocka_run_group_tests_name("crash-replica-restart", tests, NULL, NULL);
}
