/* What happens to a file behind our back: schema changes, rebuilt tables, copies, restores, tables of other implementations. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "replica/capture/app_fixture.h"
#include "support/check.h"
#include "support/process/proc.h"

static tide_capture_found check(app_fixture *t)
{
    tide_capture_found found;
    assert_ok_err(tide_node_check(t->node, &found, &t->err), &t->err);
    return found;
}

static void fold(app_fixture *t)
{
    int64_t events = 0;
    for (bool more = true; more;)
        assert_ok_err(tide_node_fold(t->node, &events, &more, &t->err), &t->err);
}

static void copy_file(app_fixture *t, const char *from, const char *to)
{
    const char *argv[] = {"cp", from, to, NULL};
    const proc_options options = {.argv = argv};
    proc_result result = {0};
    assert_ok_err(proc_run(&result, &options, 10000, &t->err), &t->err);
    assert_int_equal(result.exit_code, 0);
    proc_result_done(&result);
}

static void assert_node(app_fixture *t, const tide_node_id *expected)
{
    const tide_node_id found = tide_node_get_id(t->node);
    assert_memory_equal(expected, &found, sizeof found);
}

/* A column that was added is captured from then on, and what was written to it before we looked is found. */
static void an_added_column_is_captured(void **state)
{
    app_fixture *t = *state;
    app_write_sql(
        t, APP_SHELL,
        "CREATE TABLE a (id INTEGER PRIMARY KEY, v); INSERT INTO a VALUES (1, 1), (2, 2);");
    app_track(t, "a");
    app_write_sql(
        t, APP_SHELL,
        "ALTER TABLE a ADD COLUMN w TEXT DEFAULT 'd'; UPDATE a SET w = 'x' WHERE id = 2;");
    const tide_capture_found found = check(t);
    assert_int_equal(found.changed, 1);
    assert_int_equal(found.lost_tables, 0);
    assert_int_equal(found.rescanned, 1);
    assert_contains(found.report, "table a");
    assert_log(t, "a", "update (2) w='x'\n");
    app_write_sql(t, APP_SHELL, "UPDATE a SET w = 'y' WHERE id = 1;");
    assert_log(t, "a", "update (1) w='y'\n");
    assert_int_equal(check(t).changed, 0);
}

static void renamed_columns_and_tables_stay_captured(void **state)
{
    app_fixture *t = *state;
    app_write_sql(t, APP_SHELL, "CREATE TABLE a (id INTEGER PRIMARY KEY, v, w);");
    app_track(t, "a");
    app_write_sql(t, APP_SHELL, "ALTER TABLE a RENAME COLUMN v TO value;");
    assert_int_equal(check(t).changed, 1);
    app_write_sql(t, APP_SHELL, "INSERT INTO a VALUES (1, 2, 3);");
    assert_log(t, "a", "create (1) value=2 w=3\n");
    app_write_sql(t, APP_SHELL, "ALTER TABLE a RENAME TO b; INSERT INTO b VALUES (2, 2, 2);");
    fold(t); /* before anybody has looked at the schema: nothing is left out */
    assert_contains(check(t).report, "called b now");
    assert_int_equal(0, check(t).changed);
    app_write_sql(t, APP_SHELL, "INSERT INTO b VALUES (3, 3, 3);");
    assert_log(t, "b", "create (3) value=3 w=3\n");
    assert_app(t, "SELECT group_concat(record_id) FROM b_Events WHERE operation_type = 'create'",
               "2");
}

/* Copy, drop, rename, as object-relational mappers do it: triggers are gone, nobody says so. */
static void a_rebuilt_table_is_captured_again_and_compared(void **state)
{
    app_fixture *t = *state;
    app_write_sql(
        t, APP_SHELL,
        "CREATE TABLE a (id INTEGER PRIMARY KEY, v); INSERT INTO a VALUES (1, 1), (2, 2), (3, 3);");
    app_track(t, "a");
    (void)check(t);
    int64_t events = 0;
    bool more = false;
    assert_ok_err(tide_node_fold(t->node, &events, &more, &t->err), &t->err);
    assert_int_equal(events, 3);
    app_write_sql(
        t, APP_SHELL,
        "CREATE TABLE fresh (id INTEGER PRIMARY KEY, v); INSERT INTO fresh SELECT * FROM a;"
        "DROP TABLE a; ALTER TABLE fresh RENAME TO a;"
        "UPDATE a SET v = 20 WHERE id = 2; DELETE FROM a WHERE id = 3; INSERT INTO a VALUES (4, "
        "4);");
    const tide_capture_found found = check(t);
    assert_int_equal(found.lost_tables, 1);
    assert_int_equal(found.rescanned, 3);
    assert_log(t, "a", "update (2) v=20\ncreate (4) v=4\ndelete (3)\n");
    assert_int_equal(check(t).lost_tables, 0);
    app_write_sql(t, APP_SHELL, "DELETE FROM a WHERE id = 1;");
    assert_log(t, "a", "delete (1)\n");
}

static void a_dropped_table_or_key_is_told(void **state)
{
    app_fixture *t = *state;
    app_write_sql(
        t, APP_SHELL,
        "CREATE TABLE a (id INTEGER PRIMARY KEY, v); CREATE TABLE b (id INTEGER PRIMARY KEY);");
    app_track(t, "a");
    app_track(t, "b");
    app_write_sql(t, APP_SHELL, "DROP TABLE a; DROP TABLE b; CREATE TABLE b (x);");
    const tide_capture_found found = check(t);
    assert_int_equal(found.changed, 2);
    assert_contains(found.report, "a is gone");
    assert_contains(found.report, "not captured any more");
}

static void untrack_leaves_the_table_alone(void **state)
{
    app_fixture *t = *state;
    app_write_sql(t, APP_SHELL,
                  "CREATE TABLE a (id INTEGER PRIMARY KEY, v); INSERT INTO a VALUES (1, 1);");
    app_track(t, "a");
    assert_ok_err(tide_node_untrack(t->node, "a", &t->err), &t->err);
    assert_status(TIDE_NONE, tide_node_untrack(t->node, "a", &t->err));
    assert_app(t, "SELECT count(*) FROM sqlite_master WHERE type = 'trigger'", "0");
    assert_app(t, "SELECT count(*) FROM a_Events", "1"); /* history stays for peers */
    app_write_sql(t, APP_SHELL, "UPDATE a SET v = 2;");
    tide_tracked tracked;
    assert_ok_err(tide_node_track(t->node, "a", 1, &tracked, &t->err), &t->err);
    assert_log(t, "a", "update (1) v=2\n");
}

/* Tracking again repairs triggers, and changes the retention only if it is told to. */
static void tracking_again_keeps_the_retention(void **state)
{
    app_fixture *t = *state;
    tide_tracked tracked;
    app_write_sql(t, APP_SHELL,
                  "CREATE TABLE a (id INTEGER PRIMARY KEY, v);"
                  "CREATE TABLE b (id INTEGER PRIMARY KEY, v);");
    app_open(t);
    assert_ok_err(tide_node_track(t->node, "a", 5, &tracked, &t->err), &t->err);
    for (int again = 0; again < 2; again++)
        for (const char *table = "a"; *table <= 'b'; table = *table == 'a' ? "b" : "c")
            assert_ok_err(
                tide_node_track(t->node, table, TIDE_NODE_RETAIN_AS_IS, &tracked, &t->err),
                &t->err);
    assert_app(t, "SELECT group_concat(retain_us) FROM tide_replica_tables", "5,604800000000");
    assert_ok_err(tide_node_track(t->node, "b", 0, &tracked, &t->err), &t->err);
    assert_app(t, "SELECT group_concat(retain_us) FROM tide_replica_tables", "5,0");
}

/* A copy is another node; a file that was put back is the same one in a new epoch. */
static void copies_and_restores_are_noticed(void **state)
{
    app_fixture *t = *state;
    char backup[TEMPDIR_PATH_MAX];
    tempdir_join(&t->dir, "backup.db", backup);
    app_write_sql(t, APP_SHELL, "CREATE TABLE a (id INTEGER PRIMARY KEY, v);");
    app_track(t, "a");
    const tide_node_id first = tide_node_get_id(t->node);
    assert_int_equal(tide_node_epoch(t->node), 1);
    app_open(t);
    assert_node(t, &first);
    assert_int_equal(tide_node_epoch(t->node), 1);
    tide_node_close(t->node);
    t->node = NULL;
    copy_file(t, t->path, backup);
    app_open(t);
    app_write_sql(t, APP_SHELL, "INSERT INTO a VALUES (1, 1);");
    app_forget(t, "a"); /* a write of ours: the mark rises */
    tide_node_close(t->node);
    t->node = NULL;
    copy_file(t, backup, t->path);
    for (int again = 0; again < 2; again++) { /* put back twice: two epochs */
        app_open(t);
        assert_node(t, &first);
        assert_int_equal(tide_node_epoch(t->node), 2 + again);
        tide_node_close(t->node);
        t->node = NULL;
        copy_file(t, backup, t->path);
    }
    tide_node *copy = NULL;
    const tide_node_options options = {.state_dir = t->state_dir};
    assert_ok_err(tide_node_open(&copy, backup, &options, &t->err), &t->err);
    const tide_node_id other = tide_node_get_id(copy);
    assert_memory_not_equal(&first, &other, sizeof first);
    assert_int_equal(tide_node_epoch(copy), 1);
    tide_node_close(copy);
}

/* The shell's .restore is a transaction like any other, under a node that is open. */
static void a_restore_into_an_open_file_begins_an_epoch(void **state)
{
    app_fixture *t = *state;
    char backup[TEMPDIR_PATH_MAX];
    char command[TEMPDIR_PATH_MAX + 16];
    tempdir_join(&t->dir, "backup.db", backup);
    app_write_sql(t, APP_SHELL, "CREATE TABLE a (id INTEGER PRIMARY KEY, v);");
    app_track(t, "a");
    const tide_node_id first = tide_node_get_id(t->node);
    (void)snprintf(command, sizeof command, ".backup %s", backup);
    app_write_sql(t, APP_SHELL, command);
    for (int again = 0; again < 2; again++) {
        app_write_sql(t, APP_SHELL, "INSERT INTO a VALUES (1, 1), (2, 2);");
        fold(t);
        assert_int_equal(tide_node_epoch(t->node), 1 + again);
        (void)snprintf(command, sizeof command, ".restore %s", backup);
        app_write_sql(t, APP_SHELL, command);
        app_write_sql(t, APP_SHELL, "INSERT INTO a VALUES (3, 3);");
        fold(t);
        assert_node(t, &first);
        assert_int_equal(tide_node_epoch(t->node), 2 + again);
        assert_app(t, "SELECT group_concat(record_id) FROM a_Events", "3");
    }
    app_open(t);
    assert_int_equal(tide_node_epoch(t->node), 3);
}

/* What is written to an open file that has no name any more is nowhere. */
static void a_file_that_was_replaced_is_not_written(void **state)
{
    app_fixture *t = *state;
    char other[TEMPDIR_PATH_MAX];
    int64_t events = 0;
    bool more = false;
    tempdir_join(&t->dir, "other.db", other);
    app_write_sql(t, APP_SHELL, "CREATE TABLE a (id INTEGER PRIMARY KEY, v);");
    app_track(t, "a");
    copy_file(t, t->path, other);
    assert_int_equal(0, rename(other, t->path));
    assert_status_err(TIDE_E_CONFLICT, tide_node_fold(t->node, &events, &more, &t->err), &t->err);
    assert_contains(t->err.text, "start again");
}

/* A table of the replication document's own kind is kept under another name and shown as history, in order of (timestamp, id). */
static void events_of_another_implementation_are_imported(void **state)
{
    app_fixture *t = *state;
    app_write_sql(
        t, APP_SHELL,
        "CREATE TABLE todos (id TEXT PRIMARY KEY NOT NULL, v);"
        "CREATE TABLE todos_Events (id TEXT PRIMARY KEY, table_name TEXT NOT NULL, operation_type "
        "TEXT NOT "
        "NULL, record_id TEXT NOT NULL, data TEXT, timestamp INTEGER NOT NULL, source_node_id TEXT "
        "NOT NULL,"
        " processed BOOLEAN DEFAULT FALSE);"
        "INSERT INTO todos_Events VALUES ('e2', 'todos', 'update', 'r', '{}', 20, 'n1', 1),"
        "('e1', 'todos', 'create', 'r', '{\"v\":1}', 10, 'n1', 1), ('e3', 'todos', 'delete', 'r', "
        "NULL, 20, 'n2', 0);");
    app_open(t);
    tide_tracked tracked;
    assert_ok_err(tide_node_track(t->node, "todos", 1, &tracked, &t->err), &t->err);
    assert_int_equal(tracked.imported, 3);
    assert_app(t,
               "SELECT group_concat(id || ':' || operation_type || ':' || origin_seq || ':' || "
               "processed, ' ') "
               "FROM (SELECT * FROM todos_Events ORDER BY timestamp, id)",
               "e1:create:1:1 e2:update:2:1 e3:delete:1:0");
    assert_app(t,
               "SELECT group_concat(origin_node_id) FROM (SELECT * FROM todos_Events ORDER BY id)",
               "n1,n1,n2");
    assert_app(t, "SELECT count(*) FROM todos_Events_imported", "3");
    assert_app(t, "SELECT group_concat(name) FROM pragma_table_info('todos_Events')",
               "id,table_name,operation_type,record_id,data,timestamp,origin_node_id,origin_seq,"
               "processed");
    assert_ok_err(tide_node_track(t->node, "todos", 1, &tracked, &t->err), &t->err);
    assert_int_equal(tracked.imported, 0);
}

/* A large one comes in steps; a step that was the last before a crash is gone on from by whoever looks next, and nothing comes twice. */
static void an_import_that_broke_off_is_gone_on_with(void **state)
{
    app_fixture *t = *state;
    app_write_sql(
        t, APP_SHELL,
        "CREATE TABLE todos (id TEXT PRIMARY KEY NOT NULL, v);"
        "CREATE TABLE todos_Events (id TEXT PRIMARY KEY, table_name TEXT, operation_type TEXT, "
        "record_id TEXT, data TEXT, timestamp INTEGER, origin_node_id TEXT, processed BOOLEAN);"
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 12000)"
        "INSERT INTO todos_Events SELECT printf('e%05d', i), 'todos', 'update', 'r', '{}', i / 3, "
        "'n1', "
        "1 FROM n;"
        "INSERT INTO todos_Events VALUES (NULL, 'todos', NULL, NULL, NULL, NULL, NULL, NULL)");
    app_open(t);
    tide_tracked tracked;
    assert_ok_err(tide_node_track(t->node, "todos", 1, &tracked, &t->err), &t->err);
    assert_int_equal(tracked.imported, 12001);
    assert_app(t, "SELECT count(*) FROM todos_Events", "12001");
    assert_app(
        t, "SELECT count(*) FROM tide_replica_state WHERE key GLOB 'seed/*' OR key GLOB 'import/*'",
        "0");
    /* As it was after the second step, which ended with e10000 of time 3333: class and value of both. */
    app_write_sql(t, APP_SHELL,
                  "DELETE FROM tide_replica_events WHERE id > 'e10000';"
                  "INSERT INTO tide_replica_state VALUES ('seed/1', 'todos_Events_imported'),"
                  "('import/1', x'018a34' || x'0306653130303030')");
    assert_contains(check(t).report, "2000 events of table todos were imported");
    assert_app(t,
               "SELECT count(DISTINCT id) || ' ' || count(*) || ' ' || max(origin_seq) FROM "
               "todos_Events WHERE id <> ''",
               "12000 12000 12000");
    assert_int_equal(0, check(t).changed);
}

/* Tables of the application that have our names are not touched. */
static void names_that_are_taken_are_refused(void **state)
{
    app_fixture *t = *state;
    app_write_sql(
        t, APP_SHELL,
        "CREATE TABLE a (id INTEGER PRIMARY KEY); CREATE TABLE replication_meta (other);");
    app_open(t);
    tide_tracked tracked;
    assert_status_err(TIDE_E_CONFLICT, tide_node_track(t->node, "a", 1, &tracked, &t->err),
                      &t->err);
    assert_contains(t->err.text, "replication_meta");
    assert_app(t, "SELECT count(*) FROM sqlite_master WHERE name LIKE 'tide%'", "0");
    app_write_sql(t, APP_SHELL, "DROP TABLE replication_meta; CREATE TABLE a_Events (x);");
    assert_status_err(TIDE_E_CONFLICT, tide_node_track(t->node, "a", 1, &tracked, &t->err),
                      &t->err);
    assert_contains(t->err.text, "a_Events");
    app_write_sql(t, APP_SHELL, "DROP TABLE a_Events; CREATE TABLE tide_replica_seq (x);");
    assert_status_err(TIDE_E_CONFLICT, tide_node_track(t->node, "a", 1, &tracked, &t->err),
                      &t->err);
    assert_contains(t->err.text, "tide_replica_seq");
}

/* The column takes them for equal, the key does not: at the end of a step (4,000 rows) none is left out. */
static void a_scan_goes_by_the_collation_of_the_key(void **state)
{
    app_fixture *t = *state;
    tide_tracked tracked;
    app_write_sql(t, APP_SHELL,
                  "CREATE TABLE c (id TEXT COLLATE NOCASE NOT NULL, v, PRIMARY KEY (id COLLATE "
                  "BINARY)); INSERT INTO c VALUES ('0', 0);"
                  "WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 2000) "
                  "INSERT INTO c SELECT printf('k%05d', i), 1 FROM n UNION ALL SELECT "
                  "printf('K%05d', i), 2 FROM n;");
    app_open(t);
    assert_ok_err(tide_node_track(t->node, "c", INT64_C(604800000000), &tracked, &t->err), &t->err);
    assert_int_equal(4003, tracked.rows);
}

/* Tables are compared when the file's schema has changed, or when something is noted; a file that is as it was costs no look at each of its tables. */
static void a_schema_that_was_looked_at_is_not_read_again(void **state)
{
    app_fixture *t = *state;
    app_write_sql(
        t, APP_SHELL,
        "CREATE TABLE a (id INTEGER PRIMARY KEY, v); CREATE TABLE b (id TEXT NOT NULL PRIMARY "
        "KEY); INSERT INTO a VALUES (1, 1);");
    app_track(t, "a");
    app_track(t, "b");
    assert_int_equal(2, check(t).looked);
    assert_int_equal(0, check(t).looked);
    app_write_sql(t, APP_SHELL, "UPDATE a SET v = 2;");
    assert_int_equal(0, check(t).looked);
    app_write_sql(t, APP_SHELL, "DROP TRIGGER tide_capture_1_update; UPDATE a SET v = 3;");
    tide_capture_found found = check(t);
    assert_int_equal(2, found.looked);
    assert_int_equal(1, found.lost_tables);
    assert_int_equal(2, check(t).looked); /* what was put right is looked at once more */
    assert_int_equal(0, check(t).looked);
    app_write_sql(t, APP_SHELL, "INSERT INTO tide_replica_state VALUES ('scan/1', 1);");
    assert_int_equal(2, check(t).looked);
    assert_int_equal(0, check(t).looked);
    app_write_sql(t, APP_SHELL, "ALTER TABLE b RENAME TO c;");
    found = check(t);
    assert_int_equal(2, found.looked);
    assert_int_equal(1, found.changed);
}

TEST_FILE()
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test_setup_teardown(a_schema_that_was_looked_at_is_not_read_again, app_setup,
                                        app_teardown),
        cmocka_unit_test_setup_teardown(an_added_column_is_captured, app_setup, app_teardown),
        cmocka_unit_test_setup_teardown(renamed_columns_and_tables_stay_captured, app_setup,
                                        app_teardown),
        cmocka_unit_test_setup_teardown(a_rebuilt_table_is_captured_again_and_compared, app_setup,
                                        app_teardown),
        cmocka_unit_test_setup_teardown(a_scan_goes_by_the_collation_of_the_key, app_setup,
                                        app_teardown),
        cmocka_unit_test_setup_teardown(a_dropped_table_or_key_is_told, app_setup, app_teardown),
        cmocka_unit_test_setup_teardown(untrack_leaves_the_table_alone, app_setup, app_teardown),
        cmocka_unit_test_setup_teardown(tracking_again_keeps_the_retention, app_setup,
                                        app_teardown),
        cmocka_unit_test_setup_teardown(copies_and_restores_are_noticed, app_setup, app_teardown),
        cmocka_unit_test_setup_teardown(a_restore_into_an_open_file_begins_an_epoch, app_setup,
                                        app_teardown),
        cmocka_unit_test_setup_teardown(a_file_that_was_replaced_is_not_written, app_setup,
                                        app_teardown),
        cmocka_unit_test_setup_teardown(events_of_another_implementation_are_imported, app_setup,
                                        app_teardown),
        cmocka_unit_test_setup_teardown(an_import_that_broke_off_is_gone_on_with, app_setup,
                                        app_teardown),
        cmocka_unit_test_setup_teardown(names_that_are_taken_are_refused, app_setup, app_teardown),
    };
    return cmocka_run_group_tests(cases, NULL, NULL);
}
