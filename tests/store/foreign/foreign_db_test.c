/* An application's file beside the application: many writers at once, crashes, and what a failed statement undoes. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "replica/capture/app_fixture.h"
#include "store/foreign/foreign_db.h"
#include "support/check.h"
#include "support/process/proc.h"

static tide_foreign_db *open_file(app_fixture *t, int64_t wait_us)
{
    tide_foreign_db *app = NULL;
    const tide_foreign_options options = {.state_dir = t->state_dir, .wait_us = wait_us};
    assert_ok_err(tide_foreign_open(&app, t->path, &options, &t->err), &t->err);
    return app;
}

static tide_status run(tide_foreign_tx *tx, const char *text, tide_error *err)
{
    TIDE_CLEANUP(tide_foreign_endp) tide_foreign_query *query = NULL;
    TIDE_TRY(tide_foreign_begin(&query, tx, text, err));
    return tide_foreign_run(query, NULL, err);
}

static tide_status add_one(tide_foreign_tx *tx, void *arg, tide_error *err)
{
    (void)arg;
    return run(tx, "INSERT INTO a (who) VALUES ('ours')", err);
}

static void files_that_are_none_are_refused(void **state)
{
    app_fixture *t = *state;
    tide_foreign_db *app = NULL;
    assert_status(TIDE_E_NOT_FOUND, tide_foreign_open(&app, t->path, NULL, &t->err));
    FILE *out = fopen(t->path, "w");
    assert_non_null(out);
    (void)fprintf(out, "%2000s", "this is no database");
    (void)fclose(out);
    assert_status(TIDE_E_FOREIGN, tide_foreign_open(&app, t->path, NULL, &t->err));
    assert_status(TIDE_E_INVALID, tide_foreign_open(&app, t->dir.path, NULL, &t->err));
    (void)unlink(t->path);
    app_write_sql(t, APP_SHELL, "PRAGMA application_id = 0x54494445; CREATE TABLE a (b);");
    assert_status(TIDE_E_FOREIGN, tide_foreign_open(&app, t->path, NULL, &t->err));
}

static tide_status add_reals(tide_foreign_tx *tx, void *arg, tide_error *err)
{
    (void)arg;
    return run(tx, "INSERT INTO r (v) VALUES (0.1), (-9.223372036854775807e18), (1e300), (1.0 / 3)",
               err);
}

/* An index may hold a REAL as a text: the application's SQLite finds the same one there. */
static void reals_in_indexes_are_what_an_older_sqlite_makes_of_them(void **state)
{
    app_fixture *t = *state;
    app_write_sql(t, APP_SHELL,
                  "CREATE TABLE r (v REAL, g AS (v || '!') STORED UNIQUE);"
                  "CREATE UNIQUE INDEX r1 ON r (v || '?');");
    tide_foreign_db *app = open_file(t, 0);
    assert_ok_err(tide_foreign_write(app, add_reals, NULL, &t->err), &t->err);
    tide_foreign_close(app);
    assert_app(t, "SELECT integrity_check FROM pragma_integrity_check", "ok");
    app_write_sql(t, APP_SHELL, "DELETE FROM r;");
}

static tide_status collide(tide_foreign_tx *tx, void *arg, tide_error *err)
{
    tide_status *found = arg;
    TIDE_TRY(run(tx, "INSERT INTO a (id, who) VALUES (1, 'x')", err));
    found[0] = run(tx, "INSERT INTO a (id, who) VALUES (2, 'y'), (1, 'z')", err);
    found[1] = run(tx, "INSERT INTO a (id, who) VALUES (3, NULL)", err);
    return TIDE_OK;
}

/* A constraint undoes its statement, not the transaction. Triggers and foreign keys of the application rest while we write. */
static void a_failed_statement_is_undone_alone(void **state)
{
    app_fixture *t = *state;
    app_write_sql(
        t, APP_SHELL,
        "CREATE TABLE a (id INTEGER PRIMARY KEY, who TEXT NOT NULL, p REFERENCES a DEFAULT 99);"
        "CREATE TRIGGER g AFTER INSERT ON a BEGIN SELECT RAISE(ABORT, 'fired'); END;");
    tide_foreign_db *app = open_file(t, 0);
    tide_status found[2];
    assert_ok_err(tide_foreign_write(app, collide, found, &t->err), &t->err);
    assert_int_equal(found[0], TIDE_E_EXISTS);
    assert_int_equal(found[1], TIDE_E_INVALID);
    assert_app(t, "SELECT group_concat(id) FROM a", "1");
    tide_foreign_close(app);
}

static tide_status write_guarded(tide_foreign_tx *tx, void *arg, tide_error *err)
{
    static const char *const denied[] = {
        "INSERT INTO a (id) VALUES (2)",  "UPDATE a SET v = 2",         "DELETE FROM a",
        "REPLACE INTO a (id) VALUES (1)", "ALTER TABLE a ADD COLUMN w", "DROP TABLE a"};
    int64_t *rows = arg;
    /* Prepared without the guard, and cached: the guard counts all the same. */
    TIDE_TRY(run(tx, "UPDATE a SET v = 2", err));
    tide_foreign_guard(tx, true);
    for (size_t i = 0; i < sizeof denied / sizeof *denied; i++)
        assert_status(TIDE_E_DENIED, run(tx, denied[i], err));
    TIDE_TRY(run(tx, "CREATE TABLE tide_own (v)", err));
    TIDE_TRY(run(tx, "INSERT INTO tide_own SELECT id FROM a", err));
    TIDE_TRY(tide_foreign_number(rows, tx, "SELECT count(*) FROM tide_own", err, TIDE_NO_BIND));
    tide_foreign_guard(tx, false);
    return run(tx, "INSERT INTO a (id) VALUES (3)", err);
}

/* Under the guard tables of the application are read and ours are written. It ends with its
 * transaction. */
static void a_guarded_transaction_writes_no_table_of_the_application(void **state)
{
    app_fixture *t = *state;
    int64_t rows = 0;
    app_write_sql(t, APP_SHELL,
                  "CREATE TABLE a (id INTEGER PRIMARY KEY, v);"
                  "INSERT INTO a VALUES (1, 1);");
    tide_foreign_db *app = open_file(t, 0);
    assert_ok_err(tide_foreign_write(app, write_guarded, &rows, &t->err), &t->err);
    assert_int_equal(1, rows);
    tide_foreign_close(app);
    assert_app(t, "SELECT group_concat(id || '=' || ifnull(v, '')) FROM a", "1=2,3=");
}

/* The shell, Python and we write the same file at the same time: nobody's row is lost. */
static void several_programs_write_at_once(void **state)
{
    app_fixture *t = *state;
    app_write_sql(t, APP_SHELL, "CREATE TABLE a (id INTEGER PRIMARY KEY, who TEXT);");
    tide_foreign_db *app = open_file(t, 0);
    const char *python[] = {
        "python3", "-c",
        ("import sqlite3, sys\ndb = sqlite3.connect(sys.argv[1], timeout=30)\n"
         "for i in range(200):\n    with db: db.execute(\"INSERT INTO a (who) VALUES ('py')\")\n"),
        t->path, NULL};
    const char *shell[] = {
        "sh", "-c",
        ("i=0; while [ $i -lt 200 ]; do echo \"INSERT INTO a (who) VALUES ('sh');\"; i=$((i+1)); "
         "done | sqlite3 -bail -cmd '.timeout 30000' \"$0\""),
        t->path, NULL};
    proc writers[2];
    const proc_options options[2] = {{.argv = python}, {.argv = shell}};
    for (int i = 0; i < 2; i++)
        assert_ok_err(proc_start(&writers[i], &options[i], &t->err), &t->err);
    for (int i = 0; i < 200; i++)
        assert_ok_err(tide_foreign_write(app, add_one, NULL, &t->err), &t->err);
    for (int i = 0; i < 2; i++) {
        assert_ok_err(proc_wait(&writers[i], 30000, &t->err), &t->err);
        assert_int_equal(writers[i].exit_code, 0);
        proc_done(&writers[i]);
    }
    assert_app(t,
               "SELECT group_concat(who || n) FROM (SELECT who, count(*) n FROM a GROUP BY who "
               "ORDER BY who)",
               "ours200,py200,sh200");
    assert_app(t, "PRAGMA integrity_check", "ok");
    tide_foreign_close(app);
}

/* While somebody else holds the write lock we wait as long as we were told, and say so. */
static void a_locked_file_is_busy_at_the_deadline(void **state)
{
    app_fixture *t = *state;
    app_write_sql(t, APP_SHELL, "CREATE TABLE a (id INTEGER PRIMARY KEY, who TEXT);");
    tide_foreign_db *app = open_file(t, 50000);
    const char *holder[] = {
        "python3", "-c",
        ("import sqlite3, sys\ndb = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
         "db.execute('BEGIN IMMEDIATE')\nprint('held', flush=True)\nsys.stdin.read()\n"),
        t->path, NULL};
    const proc_options options = {.argv = holder, .in = PROC_PIPE, .out = PROC_PIPE};
    proc child;
    char word[8];
    assert_ok_err(proc_start(&child, &options, &t->err), &t->err);
    assert_true(read(child.out_fd, word, sizeof word) > 0);
    assert_status_err(TIDE_E_BUSY, tide_foreign_write(app, add_one, NULL, &t->err), &t->err);
    proc_done(&child);
    assert_ok_err(tide_foreign_write(app, add_one, NULL, &t->err), &t->err);
    tide_foreign_close(app);
}

/* A writer that is killed in the middle leaves whole transactions, each change with its number and its log row. */
static void a_killed_writer_leaves_changes_with_their_events(void **state)
{
    app_fixture *t = *state;
    app_write_sql(t, APP_SHELL, "CREATE TABLE a (id INTEGER PRIMARY KEY, who TEXT);");
    app_track(t, "a");
    const char *writer[] = {
        "python3", "-c",
        ("import sqlite3, sys\ndb = sqlite3.connect(sys.argv[1], timeout=30, "
         "isolation_level=None)\n"
         "print('go', flush=True)\n"
         "while True:\n    db.execute('BEGIN')\n    for i in range(5): db.execute(\"INSERT INTO a "
         "(who) VALUES ('py')\")\n    db.execute('COMMIT')\n"),
        t->path, NULL};
    for (int round = 0; round < 3; round++) {
        const proc_options options = {.argv = writer, .out = PROC_PIPE};
        proc child;
        char word[8];
        assert_ok_err(proc_start(&child, &options, &t->err), &t->err);
        assert_true(read(child.out_fd, word, sizeof word) > 0);
        for (int i = 0; i < 20; i++) /* until it has committed something: an event, no sleep */
            TIDE_IGNORE(tide_foreign_wait(tide_node_file(t->node), 20000, &t->err));
        assert_ok_err(proc_kill(&child, SIGKILL, &t->err), &t->err);
        proc_done(&child);
        assert_app(t, "SELECT count(*) % 5 FROM a", "0");
        assert_app(t, "SELECT (SELECT count(*) FROM a) = (SELECT count(*) FROM tide_log_1)", "1");
        assert_app(
            t,
            "SELECT count(*) - (SELECT count(*) FROM a) FROM a JOIN tide_log_1 l ON l.c1 = id "
            "JOIN tide_replica_seq USING (seq)",
            "0");
    }
}

TEST_FILE()
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test_setup_teardown(reals_in_indexes_are_what_an_older_sqlite_makes_of_them,
                                        app_setup, app_teardown),
        cmocka_unit_test_setup_teardown(files_that_are_none_are_refused, app_setup, app_teardown),
        cmocka_unit_test_setup_teardown(a_failed_statement_is_undone_alone, app_setup,
                                        app_teardown),
        cmocka_unit_test_setup_teardown(a_guarded_transaction_writes_no_table_of_the_application,
                                        app_setup, app_teardown),
        cmocka_unit_test_setup_teardown(several_programs_write_at_once, app_setup, app_teardown),
        cmocka_unit_test_setup_teardown(a_locked_file_is_busy_at_the_deadline, app_setup,
                                        app_teardown),
        cmocka_unit_test_setup_teardown(a_killed_writer_leaves_changes_with_their_events, app_setup,
                                        app_teardown),
    };
    return cmocka_run_group_tests(cases, NULL, NULL);
}
