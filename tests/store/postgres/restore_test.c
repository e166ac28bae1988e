/* Data directories of a server that are put back to an earlier state: same cluster, same timeline, same
 * epoch. What was issued in between is issued again, so an epoch must begin. */
#include "support/store_fixture.h"

#include <libpq-fe.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "store/engine.h"
#include "store/identity_marker.h"

typedef struct server {
    pg_cluster cluster;
    tempdir state; /* of the host under test */
    tempdir other; /* of another host */
    tide_error err;
} server;

static server s;

static int start_server(void **state)
{
    (void)state;
    assert_ok_err(pg_cluster_start(&s.cluster, &(pg_cluster_options){.is_copy = true}, &s.err),
                  &s.err);
    assert_ok(tempdir_make(&s.state, &s.err));
    assert_ok(tempdir_make(&s.other, &s.err));
    return 0;
}

static int stop_server(void **state)
{
    (void)state;
    pg_cluster_stop(&s.cluster);
    TIDE_IGNORE(tempdir_remove(&s.state, &s.err));
    TIDE_IGNORE(tempdir_remove(&s.other, &s.err));
    return 0;
}

static void run_shell(const char *format)
{
    char command[8 * TEMPDIR_PATH_MAX];
    (void)snprintf(command, sizeof command, "cd %s && %s", s.cluster.dir.path, format);
    const char *const argv[] = {"/bin/sh", "-c", command, NULL};
    TIDE_CLEANUP(proc_result_done) proc_result result = {0};
    assert_ok(proc_run(&result, &(proc_options){.argv = argv}, PG_CLUSTER_DEADLINE_MS, &s.err));
    assert_int_equal(0, result.exit_code);
}

static void stop_and_start(const char *between)
{
    assert_ok_err(pg_cluster_shutdown(&s.cluster, &s.err), &s.err);
    run_shell(between);
    assert_ok_err(pg_cluster_restart(&s.cluster, &s.err), &s.err);
}

static const char copy_files[] = "cp -a data copy";
static const char restore_files[] = "rm -rf data && mv copy data";

/* As a snapshot of a volume does it: the server goes on. */
static void copy_while_it_runs(void)
{
    run_shell("pid=$(head -n 1 data/postmaster.pid) && all=\"$pid $(pgrep -P $pid)\" && "
              "{ kill -STOP $all; cp -a data copy; kill -CONT $all; } 2>/dev/null; rm "
              "copy/postmaster.pid");
}

static void write_other_wal(void)
{
    assert_ok_err(pg_cluster_query(&s.cluster,
                                   "CREATE TABLE IF NOT EXISTS other AS SELECT n, repeat('x', 500) "
                                   "AS x FROM generate_series(1, 10000) n",
                                   NULL, 0, &s.err),
                  &s.err);
}

static tide_store *open_with(const char *user, const char *database,
                             const tide_store_options *options)
{
    char url[PG_CLUSTER_URL_MAX];
    (void)snprintf(url, sizeof url, "postgres://%s@/%s?host=%s&port=%d", user, database,
                   s.cluster.dir.path, s.cluster.port);
    tide_store *store = NULL;
    assert_ok_err(tide_store_open(&store, url, options, &s.err), &s.err);
    return store;
}

static tide_store *open_as(const char *user, const tempdir *state)
{
    return open_with(user, "postgres",
                     &(tide_store_options){TIDE_STORE_OPTIONS_INIT, .state_dir = state->path});
}

static tide_store *open_here(void)
{
    return open_as("postgres", &s.state);
}

/* What a command does that only reads. */
static void read_as_is(const tempdir *state)
{
    tide_store_close(
        open_with("postgres", "postgres",
                  &(tide_store_options){TIDE_STORE_OPTIONS_INIT, .state_dir = state->path,
                                        .mode = TIDE_STORE_AS_IS}));
}

static void query(const char *sql)
{
    assert_ok_err(pg_cluster_query(&s.cluster, sql, NULL, 0, &s.err), &s.err);
}

static void assert_queried(const char *expected, const char *sql)
{
    char found[64] = "";
    assert_ok_err(pg_cluster_query(&s.cluster, sql, found, sizeof found, &s.err), &s.err);
    assert_string_equal(expected, found);
}

static int64_t take(tide_store *store)
{
    tide_sequence_range range = {0};
    assert_ok_err(tide_sequence_next(store, "orders", 1, &range, NULL, &s.err), &s.err);
    return range.first;
}

static int64_t epoch_of(tide_store *store)
{
    tide_identity identity;
    tide_store_identity(store, &identity);
    return identity.epoch;
}

/* What a command does: open, take a number, close. Returns the epoch that the number is of. */
static int64_t run_command(int64_t expected)
{
    tide_store *store = open_here();
    assert_int_equal(expected, take(store));
    const int64_t epoch = epoch_of(store);
    tide_store_close(store);
    return epoch;
}

static void a_restart_begins_no_epoch(void **state)
{
    (void)state;
    tide_store *store = open_here();
    assert_int_equal(1, run_command(1));
    stop_and_start("true");
    assert_int_equal(1, run_command(2));
    assert_int_equal(3, take(store));
    assert_int_equal(1, epoch_of(store));
    assert_ok_err(pg_cluster_crash(&s.cluster, &s.err), &s.err);
    assert_ok_err(pg_cluster_restart(&s.cluster, &s.err), &s.err);
    assert_int_equal(4, take(store));
    assert_int_equal(1, epoch_of(store));
    assert_int_equal(1, run_command(5));
    tide_store_close(store);
}

/* No process is open across the restore: what is remembered is beside the store. */
static void commands_notice_a_restored_copy(void **state)
{
    (void)state;
    assert_int_equal(1, run_command(1));
    stop_and_start(copy_files);
    assert_int_equal(1, run_command(2));
    stop_and_start(restore_files);
    assert_int_equal(2, run_command(2));
    assert_int_equal(2, run_command(3));
}

/* The position in the WAL does not show it any more. */
static void a_restored_copy_that_wrote_on_is_noticed(void **state)
{
    (void)state;
    tide_store *store = open_here();
    take(store);
    stop_and_start(copy_files);
    assert_int_equal(2, take(store));
    stop_and_start(restore_files);
    write_other_wal();
    assert_int_equal(2, take(store));
    assert_int_equal(2, epoch_of(store));
    tide_store_close(store);
    assert_int_equal(2, run_command(3));
}

/* Another host, which has not seen what was lost, was first. */
static void a_restored_copy_that_another_host_used_is_noticed(void **state)
{
    (void)state;
    assert_int_equal(1, run_command(1));
    stop_and_start(copy_files);
    assert_int_equal(1, run_command(2));
    stop_and_start(restore_files);
    tide_store *other = open_as("postgres", &s.other);
    for (int i = 0; i < 5; i++)
        take(other);
    assert_int_equal(1, epoch_of(other));
    assert_int_equal(2, run_command(7));
    take(other);
    assert_int_equal(2, epoch_of(other));
    tide_store_close(other);
    assert_int_equal(2, run_command(9));
}

/* The same start of the server before and behind the copy: the WAL shows it. */
static void a_copy_of_a_running_server_is_noticed(void **state)
{
    (void)state;
    assert_int_equal(1, run_command(1));
    copy_while_it_runs();
    assert_int_equal(1, run_command(2));
    stop_and_start(restore_files);
    assert_int_equal(2, run_command(2));
}

/* ... also where another host has written since, because its first write noted where the WAL ended. */
static void a_copy_of_a_running_server_that_another_host_used_is_noticed(void **state)
{
    (void)state;
    assert_int_equal(1, run_command(1));
    copy_while_it_runs();
    tide_store *store = open_here();
    for (int i = 2; i < 100; i++)
        assert_int_equal(i, take(store));
    stop_and_start(restore_files);
    tide_store *other = open_as("postgres", &s.other);
    take(other);
    write_other_wal();
    take(store);
    assert_int_equal(2, epoch_of(store));
    tide_store_close(other);
    tide_store_close(store);
}

/* Each commit is synchronous, so no flush behind it has a position. */
static void a_copy_of_a_running_server_is_noticed_behind_a_pooler(void **state)
{
    (void)state;
    const tide_store_options options = {TIDE_STORE_OPTIONS_INIT, .state_dir = s.state.path,
                                        .pg_pooler = TIDE_PG_POOLER_TRANSACTION};
    tide_store *store = open_with("postgres", "postgres", &options);
    take(store);
    tide_store_close(store);
    copy_while_it_runs();
    store = open_with("postgres", "postgres", &options);
    assert_int_equal(2, take(store));
    tide_store_close(store);
    stop_and_start(restore_files);
    store = open_with("postgres", "postgres", &options);
    assert_int_equal(2, take(store));
    assert_int_equal(2, epoch_of(store));
    tide_store_close(store);
}

/* What a later process would not find any more: a WAL checkpoint hides where the copy ended. */
static void a_command_that_reads_begins_the_epoch(void **state)
{
    (void)state;
    assert_int_equal(1, run_command(1));
    copy_while_it_runs();
    assert_int_equal(1, run_command(2));
    stop_and_start(restore_files);
    read_as_is(&s.state);
    write_other_wal();
    query("CHECKPOINT");
    assert_int_equal(2, run_command(2));
}

/* A reader of this host is first on a history that another host has gone on with. */
static void a_command_that_reads_keeps_the_evidence(void **state)
{
    (void)state;
    assert_int_equal(1, run_command(1));
    stop_and_start(copy_files);
    assert_int_equal(1, run_command(2));
    stop_and_start(restore_files);
    tide_store *other = open_as("postgres", &s.other);
    assert_int_equal(2, take(other));
    stop_and_start("true");
    assert_int_equal(3, take(other));
    tide_store_close(other);
    read_as_is(&s.state);
    assert_int_equal(2, run_command(4));
}

static void append(tide_store *store, const char *task_id)
{
    const tide_checkpoint_new checkpoint = {TIDE_CHECKPOINT_NEW_INIT, .task_id = task_id,
                                            .type = "tool_executed",
                                            .snapshot = tide_view_of("{}")};
    tide_checkpoint_numbers numbers;
    assert_ok_err(tide_journal_append(store, &checkpoint, &numbers, &s.err), &s.err);
}

/* Others went on in the old epoch, so what is in common ends where the copy was put back. */
static void what_is_in_common_ends_at_the_restore(void **state)
{
    (void)state;
    tide_store *store = open_here();
    const tide_task_new task = {TIDE_TASK_NEW_INIT, .task_id = "t", .title = "t"};
    char id[TIDE_WORK_ID_MAX + 1];
    assert_ok_err(tide_task_create(store, &task, id, &s.err), &s.err);
    append(store, "t");
    stop_and_start(copy_files);
    append(store, "t");
    stop_and_start(restore_files);
    tide_store *other = open_as("postgres", &s.other);
    append(other, "t");
    append(other, "t");
    append(store, "t");
    assert_int_equal(2, epoch_of(store));
    assert_queried("1", "SELECT journal_head FROM epoch_heads WHERE epoch = 2");
    tide_store_close(other);
    tide_store_close(store);
}

/* Others started the restored server, and wrote, before a process came that knows later starts of the
 * first history. */
static void what_is_in_common_ends_behind_the_last_common_start(void **state)
{
    (void)state;
    tide_store *store = open_here();
    const tide_task_new task = {TIDE_TASK_NEW_INIT, .task_id = "t", .title = "t"};
    char id[TIDE_WORK_ID_MAX + 1];
    assert_ok_err(tide_task_create(store, &task, id, &s.err), &s.err);
    append(store, "t");
    stop_and_start(copy_files);
    for (int i = 0; i < 4; i++) {
        append(store, "t");
        stop_and_start("true");
    }
    append(store, "t");
    tide_store_close(store);
    stop_and_start(restore_files);
    tide_store *other = open_as("postgres", &s.other);
    append(other, "t");
    append(other, "t");
    stop_and_start("true");
    append(other, "t");
    tide_store_close(other);
    store = open_here();
    assert_int_equal(2, epoch_of(store));
    assert_queried("1", "SELECT journal_head FROM epoch_heads WHERE epoch = 2");
    tide_store_close(store);
}

/* An operator goes on with the older copy instead of the epoch that it lacks. */
static void what_is_in_common_with_a_missing_epoch_ends_at_the_restore(void **state)
{
    (void)state;
    tide_store *store = open_here();
    const tide_task_new task = {TIDE_TASK_NEW_INIT, .task_id = "t", .title = "t"};
    char id[TIDE_WORK_ID_MAX + 1];
    assert_ok_err(tide_task_create(store, &task, id, &s.err), &s.err);
    append(store, "t");
    stop_and_start(copy_files);
    append(store, "t");
    assert_ok_err(tide_identity_raise(store, "operator", "a test", NULL, &s.err), &s.err);
    append(store, "t");
    tide_store_close(store);
    stop_and_start(restore_files);
    tide_store *other = open_as("postgres", &s.other);
    append(other, "t");
    append(other, "t");
    tide_store_close(other);
    store = open_with("postgres", "postgres",
                      &(tide_store_options){TIDE_STORE_OPTIONS_INIT, .state_dir = s.state.path,
                                            .is_mismatch_allowed = true});
    assert_ok_err(tide_identity_raise(store, "operator", "the copy is kept", NULL, &s.err), &s.err);
    assert_queried("1", "SELECT min(journal_head) FROM epoch_heads WHERE epoch > 1");
    tide_store_close(store);
    run_command(1);
}

/* The same copy of a database twice: the second does not use the epoch of the first. */
static void copies_of_a_database_get_epochs_of_their_own(void **state)
{
    (void)state;
    const tide_store_options options = {TIDE_STORE_OPTIONS_INIT, .state_dir = s.state.path};
    query("CREATE DATABASE original");
    tide_store *store = open_with("postgres", "original", &options);
    take(store);
    tide_store_close(store);
    for (int i = 2; i < 4; i++) {
        query("DROP DATABASE IF EXISTS copy");
        query("CREATE DATABASE copy TEMPLATE original");
        store = open_with("postgres", "copy", &options);
        assert_int_equal(2, take(store));
        assert_int_equal(i, epoch_of(store));
        tide_store_close(store);
    }
}

/* The server was a managed one when the store was made, and shows its timeline later. */
static void a_timeline_that_is_shown_later_is_recorded(void **state)
{
    (void)state;
    query("CREATE ROLE ordinary LOGIN; GRANT CREATE ON SCHEMA public TO ordinary; "
          "REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC");
    tide_store *store = open_as("ordinary", &s.state);
    take(store);
    tide_store_close(store);
    assert_queried("t", "SELECT value LIKE '-/-/%' FROM db_metadata WHERE key = 'host'");
    query("GRANT EXECUTE ON FUNCTION pg_control_system() TO PUBLIC");
    store = open_as("ordinary", &s.state);
    assert_int_equal(2, take(store));
    assert_int_equal(1, epoch_of(store));
    tide_store_close(store);
    assert_queried("f", "SELECT value LIKE '%-%' FROM db_metadata WHERE key = 'host'");
}

/* Two processes of this host begin one epoch, not two. */
static void a_restore_begins_one_epoch(void **state)
{
    (void)state;
    tide_store *first = open_here();
    tide_store *second = open_here();
    take(first);
    take(second);
    stop_and_start(copy_files);
    take(first);
    take(second);
    stop_and_start(restore_files);
    take(first);
    take(second);
    assert_int_equal(2, epoch_of(first));
    assert_int_equal(2, epoch_of(second));
    tide_store_close(first);
    tide_store_close(second);
    stop_and_start("true");
    assert_int_equal(2, run_command(5));
}

/* A role that may only read opens the store behind a restart, and reads. */
static void a_reader_without_rights_opens_a_restarted_server(void **state)
{
    (void)state;
    assert_int_equal(1, run_command(1));
    assert_ok_err(pg_cluster_query(&s.cluster,
                                   "CREATE ROLE reader LOGIN; GRANT USAGE ON SCHEMA public TO "
                                   "reader; GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader",
                                   NULL, 0, &s.err),
                  &s.err);
    stop_and_start("true");
    tide_store *reader = open_as("reader", &s.other);
    tide_sequence shown;
    assert_ok_err(tide_sequence_show(reader, "orders", &shown, &s.err), &s.err);
    assert_int_equal(1, shown.last);
    tide_store_close(reader);
}

/* What proves the cut would be gone with the numbers that such a role issues. */
static void a_role_that_may_not_record_a_restore_writes_nothing(void **state)
{
    (void)state;
    assert_int_equal(1, run_command(1));
    query("CREATE ROLE worker LOGIN; GRANT USAGE ON SCHEMA public TO worker; "
          "GRANT ALL ON ALL TABLES IN SCHEMA public TO worker; "
          "REVOKE INSERT, UPDATE ON epochs, db_metadata, server_starts FROM worker");
    stop_and_start(copy_files);
    assert_int_equal(1, run_command(2));
    tide_store *worker = open_as("worker", &s.state);
    assert_int_equal(3, take(worker));
    stop_and_start(restore_files);
    tide_sequence_range range = {0};
    for (int i = 0; i < 2; i++) {
        assert_status(TIDE_E_DENIED, tide_sequence_next(worker, "orders", 1, &range, NULL, &s.err));
        assert_contains(s.err.text, "store migrate");
        tide_sequence shown;
        assert_ok_err(tide_sequence_show(worker, "orders", &shown, &s.err), &s.err);
        assert_int_equal(1, shown.last);
    }
    assert_int_equal(2, run_command(2));
    assert_int_equal(3, take(worker));
    assert_int_equal(2, epoch_of(worker));
    tide_store_close(worker);
}

/* Root runs a command first, say to look at the store; the daemon has a user of its own. */
static void evidence_that_root_writes_belongs_to_the_owner_of_the_directory(void **state)
{
    (void)state;
    enum { USER = 65534 };
    if (geteuid() != 0)
        skip();
    char refused[TIDE_IDENTITY_MARKER_PATH_SIZE];
    char find[2 * TEMPDIR_PATH_MAX];
    assert_int_equal(0, chown(s.state.path, USER, USER));
    assert_int_equal(1, run_command(1));
    (void)snprintf(find, sizeof find, "cd %s/identity-markers && test -z \"$(find . -user root)\"",
                   s.state.path);
    run_shell(find);
    assert_int_equal(0, seteuid(USER));
    assert_false(tide_identity_marker_find_refused(s.state.path, refused));
    assert_int_equal(0, seteuid(0));
    (void)snprintf(find, sizeof find, "chown root %s/identity-markers/*.lock", s.state.path);
    run_shell(find);
    assert_int_equal(0, seteuid(USER));
    assert_true(tide_identity_marker_find_refused(s.state.path, refused));
    assert_int_equal(0, seteuid(0));
    assert_contains(refused, ".lock");
}

/* Such a server shows no timeline, so a start may be a failover that lost commits: each begins an epoch. */
static void a_start_of_a_server_without_wal_functions_begins_an_epoch(void **state)
{
    (void)state;
    assert_ok_err(pg_cluster_query(&s.cluster,
                                   "CREATE ROLE ordinary LOGIN; GRANT CREATE ON SCHEMA public TO "
                                   "ordinary; REVOKE EXECUTE ON FUNCTION pg_current_wal_lsn() "
                                   "FROM PUBLIC; REVOKE EXECUTE ON FUNCTION pg_control_system() "
                                   "FROM PUBLIC",
                                   NULL, 0, &s.err),
                  &s.err);
    tide_store *store = open_as("ordinary", &s.state);
    assert_int_equal(1, take(store));
    assert_int_equal(1, epoch_of(store));
    stop_and_start("true");
    assert_int_equal(2, take(store));
    assert_int_equal(2, epoch_of(store));
    tide_store_close(store);
    store = open_as("ordinary", &s.state);
    assert_int_equal(3, take(store));
    assert_int_equal(2, epoch_of(store));
    tide_store_close(store);
}

#define SERVER_CASE(f) cmocka_unit_test_setup_teardown(f, start_server, stop_server)

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        SERVER_CASE(a_restart_begins_no_epoch),
        SERVER_CASE(commands_notice_a_restored_copy),
        SERVER_CASE(a_restored_copy_that_wrote_on_is_noticed),
        SERVER_CASE(a_restored_copy_that_another_host_used_is_noticed),
        SERVER_CASE(a_copy_of_a_running_server_is_noticed),
        SERVER_CASE(a_copy_of_a_running_server_that_another_host_used_is_noticed),
        SERVER_CASE(a_copy_of_a_running_server_is_noticed_behind_a_pooler),
        SERVER_CASE(a_command_that_reads_begins_the_epoch),
        SERVER_CASE(a_command_that_reads_keeps_the_evidence),
        SERVER_CASE(what_is_in_common_ends_at_the_restore),
        SERVER_CASE(what_is_in_common_ends_behind_the_last_common_start),
        SERVER_CASE(what_is_in_common_with_a_missing_epoch_ends_at_the_restore),
        SERVER_CASE(copies_of_a_database_get_epochs_of_their_own),
        SERVER_CASE(a_timeline_that_is_shown_later_is_recorded),
        SERVER_CASE(a_restore_begins_one_epoch),
        SERVER_CASE(a_reader_without_rights_opens_a_restarted_server),
        SERVER_CASE(a_role_that_may_not_record_a_restore_writes_nothing),
        SERVER_CASE(evidence_that_root_writes_belongs_to_the_owner_of_the_directory),
        SERVER_CASE(a_start_of_a_server_without_wal_functions_begins_an_epoch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
