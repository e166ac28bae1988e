/* `tidemark replica migrate`: schemas change under capture, by any program, and nothing is left behind by servers that are killed. */
#include <dirent.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "cli/replica/replica_calls.h"

static void track(cli_fixture *t)
{
    cli_sql(t, "a.db",
            "CREATE TABLE t(id TEXT PRIMARY KEY, a, b) WITHOUT ROWID; INSERT INTO t VALUES ('1', "
            "1, 1), ('2', 2, 2)");
    replica_ok(t, "track", "a.db", "t");
}

static int64_t count_triggers(const cli_fixture *t)
{
    char path[TEMPDIR_PATH_MAX];
    cli_path(t, "a.db", path);
    char *out = replica_run_other(
        t, (const char *const[]){
               "sqlite3", path, "SELECT count(*) FROM sqlite_schema WHERE type = 'trigger'", NULL});
    const int64_t count = strtoll(out, NULL, 10);
    free(out);
    return count;
}

static cli_result migrate(cli_fixture *t, const char *script)
{
    char path[TEMPDIR_PATH_MAX];
    cli_path(t, "a.db", path);
    return cli_run(t, "replica", "migrate", path, "--", "sh", "-c", script, path, NULL);
}

/* SQLite drops no column that a trigger names: so the triggers go, and what is written meanwhile is found. */
static void a_column_is_dropped_and_the_peer_follows(void **state)
{
    cli_fixture *t = *state;
    char address[REPLICA_LINE_MAX];
    track(t);
    cli_sql(t, "b.db", "CREATE TABLE t(id TEXT PRIMARY KEY, a, b) WITHOUT ROWID");
    replica_ok(t, "track", "b.db", "t");
    proc *server = replica_serve(t, "a.db", NULL, address);
    replica_ok(t, "sync", "b.db", address);
    const cli_result done =
        migrate(t, "sqlite3 \"$0\" \"ALTER TABLE t DROP COLUMN a; INSERT INTO t VALUES ('3', 3)\"");
    assert_int_equal(0, done.exit_code);
    assert_contains(done.err, "lost its column a");
    assert_int_equal(4, count_triggers(t));
    replica_ok(t, "sync", "b.db", address);
    cli_sql(t, "b.db",
            "DROP TRIGGER tide_capture_1_insert; DROP TRIGGER tide_capture_1_update;"
            "DROP TRIGGER tide_capture_1_delete; DROP TRIGGER tide_capture_1_move;"
            "ALTER TABLE t DROP COLUMN a");
    replica_ok(t, "sync", "b.db", address);
    replica_assert_same_digest(t, "a.db", "b.db");
    replica_end(server, SIGTERM);
}

static void the_commands_exit_code_is_ours(void **state)
{
    cli_fixture *t = *state;
    track(t);
    assert_int_equal(7, migrate(t, "exit 7").exit_code);
    assert_int_equal(4, count_triggers(t));
    char path[TEMPDIR_PATH_MAX];
    cli_path(t, "a.db", path);
    const cli_result missing =
        cli_run(t, "replica", "migrate", path, "--", "/nowhere/at/all", NULL);
    assert_int_not_equal(0, missing.exit_code);
    assert_contains(missing.err, "/nowhere/at/all");
    assert_int_equal(4, count_triggers(t));
    assert_int_not_equal(0, cli_run(t, "replica", "migrate", path, NULL).exit_code);
}

/* Ctrl-C, kill: the command gets it; the triggers come back. */
static void a_signal_ends_the_command_and_the_triggers_come_back(void **state)
{
    cli_fixture *t = *state;
    track(t);
    const cli_result interrupted =
        migrate(t, "sqlite3 \"$0\" \"UPDATE t SET a = 9\"; kill -INT $PPID; exec sleep 30");
    assert_int_equal(128 + SIGINT, interrupted.exit_code);
    assert_int_equal(4, count_triggers(t));
    assert_contains(interrupted.err, "2 rows had changed");
    assert_int_equal(128 + SIGTERM, migrate(t, "kill -TERM $PPID; exec sleep 30").exit_code);
    assert_int_equal(4, count_triggers(t));
}

/* Whoever looks at the file meanwhile leaves it alone: a trigger that came back would stop the migration. */
static void others_wait_until_the_migration_has_ended(void **state)
{
    cli_fixture *t = *state;
    track(t);
    (void)setenv("TIDEMARK_PROGRAM", t->program, 1);
    const cli_result done = migrate(t, "\"$TIDEMARK_PROGRAM\" replica digest \"$0\" > /dev/null && "
                                       "\"$TIDEMARK_PROGRAM\" replica gc \"$0\" > /dev/null && "
                                       "sqlite3 \"$0\" \"ALTER TABLE t DROP COLUMN a\"");
    if (done.exit_code != 0)
        fail_msg("%s", done.err);
    assert_int_equal(4, count_triggers(t));
}

/* Killed in the middle: the next look puts the triggers back. */
static void a_killed_migration_is_repaired_by_the_next_look(void **state)
{
    cli_fixture *t = *state;
    track(t);
    (void)migrate(t, "kill -KILL $PPID");
    assert_int_equal(0, count_triggers(t));
    cli_sql(t, "a.db", "UPDATE t SET b = 'unseen' WHERE id = '1'");
    replica_ok(t, "gc", "a.db", NULL);
    assert_int_equal(4, count_triggers(t));
    char path[TEMPDIR_PATH_MAX];
    cli_path(t, "a.db", path);
    char *data = replica_run_other(
        t, (const char *const[]){
               "sqlite3", path, "SELECT data FROM t_Events WHERE operation_type = 'update'", NULL});
    assert_string_equal("{\"id\":\"1\",\"b\":\"unseen\"}\n", data);
    free(data);
}

static int count_left(const char *dir)
{
    int count = 0;
    DIR *open_dir = opendir(dir);
    assert_non_null(open_dir);
    for (const struct dirent *entry; (entry = readdir(open_dir));)
        count += entry->d_name[0] != '.';
    (void)closedir(open_dir);
    return count;
}

static void a_server_that_is_killed_leaves_nothing_in_the_temporary_directory(void **state)
{
    cli_fixture *t = *state;
    char tmp[TEMPDIR_PATH_MAX];
    char address[REPLICA_LINE_MAX];
    cli_path(t, "tmp", tmp);
    free(replica_run_other(t, (const char *const[]){"mkdir", tmp, NULL}));
    const char *given = getenv("TMPDIR");
    TIDE_CLEANUP(tide_freep) char *before = given ? strdup(given) : NULL;
    (void)setenv("TMPDIR", tmp, 1);
    track(t);
    proc *server = replica_serve(t, "a.db", NULL, address);
    replica_end(server, SIGKILL);
    if (before)
        (void)setenv("TMPDIR", before, 1);
    else
        (void)unsetenv("TMPDIR");
    assert_int_equal(0, count_left(tmp));
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        REPLICA_CASE(a_column_is_dropped_and_the_peer_follows),
        REPLICA_CASE(the_commands_exit_code_is_ours),
        REPLICA_CASE(a_signal_ends_the_command_and_the_triggers_come_back),
        REPLICA_CASE(others_wait_until_the_migration_has_ended),
        REPLICA_CASE(a_killed_migration_is_repaired_by_the_next_look),
        REPLICA_CASE(a_server_that_is_killed_leaves_nothing_in_the_temporary_directory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
