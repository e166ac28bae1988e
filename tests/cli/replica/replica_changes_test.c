/* What happened to a table, and what peers change: replica events, replica watch, exit codes of sync. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "cli/replica/replica_calls.h"

#define SCHEMA "CREATE TABLE todos(id TEXT PRIMARY KEY NOT NULL, title TEXT);"

/* Lines of a command, one JSON object each. */
static int count_lines(const cli_result *result)
{
    int count = 0;
    for (const char *at = result->out; (at = strchr(at, '\n')); at++)
        count++;
    return count;
}

static void the_history_of_a_table_is_printed(void **state)
{
    cli_fixture *t = *state;
    cli_sql(t, "a.db", SCHEMA);
    replica_ok(t, "track", "a.db", "todos");
    cli_sql(t, "a.db", "INSERT INTO todos VALUES('1','one'); UPDATE todos SET title='uno'");
    cli_sql(t, "a.db", "DELETE FROM todos");
    const cli_result result = replica_call(t, "events", "a.db", "todos", NULL);
    assert_int_equal(0, result.exit_code);
    assert_int_equal(3, count_lines(&result));
    assert_non_null(strstr(result.out, "\"operation_type\":\"delete\",\"record_id\":\"1\""));
    assert_int_equal(3, replica_call(t, "events", "a.db", "nothing", NULL).exit_code);
}

/* The next line of a watch whose event is this one. */
static void assert_next(cli_fixture *t, const char *db, const char *from, const char *event,
                        const char *part)
{
    char path[TEMPDIR_PATH_MAX];
    char line[REPLICA_LINE_MAX];
    cli_path(t, db, path);
    const char *argv[] = {t->program, "replica", "watch", path, "--json", "--from", from, NULL};
    proc *watch = replica_start(t, argv, line);
    char wanted[64];
    (void)snprintf(wanted, sizeof wanted, "{\"event\":\"%s\"", event);
    if (strncmp(line, wanted, strlen(wanted)) != 0 || !strstr(line, part))
        fail_msg("watch printed %s, not %s with %s", line, event, part);
    replica_end(watch, SIGKILL);
}

static void a_watch_prints_what_peers_changed(void **state)
{
    cli_fixture *t = *state;
    char address[REPLICA_LINE_MAX];
    cli_sql(t, "a.db", SCHEMA);
    replica_ok(t, "track", "a.db", "todos");
    proc *a = replica_serve(t, "a.db", NULL, address);
    replica_ok(t, "sync", "b.db", address);
    cli_sql(t, "b.db", "INSERT INTO todos VALUES('own','own')");
    replica_ok(t, "sync", "b.db", address); /* our own write is no change of a peer */
    cli_sql(t, "a.db", "INSERT INTO todos VALUES('1','one')");
    cli_sql(t, "a.db", "UPDATE todos SET title='uno' WHERE id='1'");
    replica_ok(t, "sync", "b.db", address);
    assert_next(t, "b.db", "1", "change", "\"operation_type\":\"create\",\"record_id\":\"1\"");
    assert_next(t, "b.db", "3", "change", "\"operation_type\":\"update\",\"record_id\":\"1\"");
    replica_end(a, SIGTERM);
}

/* Rows that came with a snapshot have no events: a watch that began before says so. */
static void a_watch_reports_what_a_snapshot_brought(void **state)
{
    cli_fixture *t = *state;
    char snapshot[TEMPDIR_PATH_MAX];
    char path[TEMPDIR_PATH_MAX];
    cli_sql(t, "a.db", SCHEMA);
    replica_ok(t, "track", "a.db", "todos");
    cli_sql(t, "a.db", "INSERT INTO todos VALUES('1','one')");
    cli_path(t, "a.snapshot", snapshot);
    replica_ok(t, "snapshot create", "a.db", snapshot);
    cli_path(t, "b.db", path);
    const cli_result restored = cli_run(t, "replica", "snapshot", "restore", snapshot, path, NULL);
    assert_int_equal(0, restored.exit_code);
    assert_next(t, "b.db", "0", "gap", "\"last_origin_seq\":1");
}

/* A proven cut of which events are in no table is not the same as one that is there. */
static void a_sync_that_leaves_events_waiting_ends_with_7(void **state)
{
    cli_fixture *t = *state;
    char address[REPLICA_LINE_MAX];
    cli_sql(t, "a.db", SCHEMA);
    replica_ok(t, "track", "a.db", "todos");
    proc *a = replica_serve(t, "a.db", NULL, address);
    replica_ok(t, "sync", "b.db", address);
    cli_sql(t, "a.db", "ALTER TABLE todos ADD COLUMN due TEXT");
    cli_sql(t, "a.db", "INSERT INTO todos VALUES('1','one','today')");
    assert_int_equal(7, replica_call(t, "sync", "b.db", address, NULL).exit_code);
    const cli_result waiting = replica_call(t, "status", "b.db", NULL, NULL);
    assert_non_null(strstr(waiting.out, "\"events\":1,\"reason\":\"column\""));
    cli_sql(t, "b.db", "ALTER TABLE todos ADD COLUMN due TEXT");
    assert_int_equal(0, replica_call(t, "sync", "b.db", address, NULL).exit_code);
    replica_assert_same_digest(t, "a.db", "b.db");
    replica_end(a, SIGTERM);
}

/* What nobody has acknowledged would be lost with the file. */
static void status_counts_what_was_not_sent(void **state)
{
    cli_fixture *t = *state;
    char address[REPLICA_LINE_MAX];
    cli_sql(t, "a.db", SCHEMA);
    replica_ok(t, "track", "a.db", "todos");
    cli_sql(t, "a.db", "INSERT INTO todos VALUES('1','one'),('2','two')");
    const cli_result before = replica_call(t, "status", "a.db", NULL, NULL);
    assert_non_null(strstr(before.out, "\"unsent\":2"));
    assert_non_null(strstr(before.out, "\"clock_ahead_us\":0"));
    assert_non_null(strstr(before.out, "\"waiting\":[]"));
    assert_non_null(strstr(before.out, "\"divergence\":[]"));
    assert_non_null(strstr(before.out, "\"orphans\":0"));
    proc *a = replica_serve(t, "a.db", NULL, address);
    replica_ok(t, "sync", "b.db", address);
    replica_ok(t, "sync", "b.db", address);
    const cli_result after = replica_call(t, "status", "a.db", NULL, NULL);
    assert_non_null(strstr(after.out, "\"unsent\":0"));
    replica_end(a, SIGTERM);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        REPLICA_CASE(the_history_of_a_table_is_printed),
        REPLICA_CASE(a_watch_prints_what_peers_changed),
        REPLICA_CASE(a_watch_reports_what_a_snapshot_brought),
        REPLICA_CASE(status_counts_what_was_not_sent),
        REPLICA_CASE(a_sync_that_leaves_events_waiting_ends_with_7),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
