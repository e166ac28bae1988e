/* tidemark work run, on every engine: any program is a worker. Real processes, real leases, short ones where one has to run
 * out. */
#include <libpq-fe.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cli/work/work_calls.h"

/* One item, run by a script until nothing is left; how `work run` ended. */
static cli_result run_one(cli_fixture *t, const char *script)
{
    cli_write_file(t, "job.sh", script, strlen(script));
    return work_run(t, "$T work run --type x --until-empty --json -- sh ./job.sh");
}

static const char *read_text(cli_fixture *t, const char *name)
{
    char *bytes = cli_read_file(t, name, NULL);
    const char *text = work_text(t, "%s", bytes);
    free(bytes);
    return text;
}

/* ---- what the command is given ---- */

static void the_command_gets_input_and_environment(void **state)
{
    cli_fixture *t = *state;
    work_add(t, "--type x --work-item a --input '{\"n\": 1}' --max-retries 2");
    work_ok(t,
            "$T work run --type x --until-empty --worker me --env MINE=yes --env EMPTY= -- "
            "sh -c 'cat > input; env | grep -E \"^(TIDEMARK_|MINE|EMPTY)\" | sort > environment'");
    assert_string_equal("{\"n\": 1}", read_text(t, "input"));
    const char *environment = read_text(t, "environment");
    static const char *const wants[] = {"TIDEMARK_WORK_ITEM_ID=a\n",
                                        "TIDEMARK_TASK_ID=t\n",
                                        "TIDEMARK_WORK_TYPE=x\n",
                                        "TIDEMARK_WORKER=me\n",
                                        "TIDEMARK_ATTEMPT=1\n",
                                        "TIDEMARK_MAX_RETRIES=2\n",
                                        "TIDEMARK_IDEMPOTENCY_KEY=work-a\n",
                                        "TIDEMARK_FD=3\n",
                                        "MINE=yes\n",
                                        "EMPTY=\n"};
    for (size_t i = 0; i < sizeof wants / sizeof wants[0]; i++)
        assert_contains(environment, wants[i]);
    assert_contains(environment,
                    work_text(t, "TIDEMARK_LEASE_TOKEN=%s\n", work_member(t, "a", "lease_token")));
    assert_contains(environment, work_text(t, "TIDEMARK_STORE=%s\n", t->url));
    assert_null(strstr(environment, "TIDEMARK_CHECKPOINT_FILE"));
    /* An item without input: stdin is empty. */
    work_add(t, "--type x");
    work_ok(t, "$T work run --type x --until-empty -- sh -c 'cat > input'");
    assert_string_equal("", read_text(t, "input"));
}

/* ---- how it ended ---- */

/* 0 done, 75 not now, 65 never, everything else and signals: again while retries are left. */
static void the_exit_status_decides(void **state)
{
    cli_fixture *t = *state;
    static const struct {
        const char *script, *status, *kind, *retries, *error;
    } ends[] = {
        {"exit 0", "completed", "null", "0", "null"},
        {"echo bad data >&2; exit 65", "failed", "error", "0", "exit status 65: bad data"},
        {"echo first >&2; echo no network >&2; exit 7", "pending", "null", "1",
         "exit status 7: first\nno network"},
        {"kill -9 $$", "pending", "null", "1", "ended by signal 9"},
        {"exit 75", "pending", "null", "0", "null"},
    };
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        const char *id = work_add(t, work_text(t, "--type x%zu --max-retries 1", i));
        work_ok(t, "$T work run --type x%zu --limit 1 -- sh -c '%s'", i, ends[i].script);
        assert_member(t, id, "status", ends[i].status);
        assert_member(t, id, "failure_kind", ends[i].kind);
        assert_member(t, id, "retry_count", ends[i].retries);
        assert_member(t, id, "error_message", ends[i].error);
    }
    /* What is given back waits a little. It is the last: a later claim would see that its time has come. */
    assert_string_equal(
        "1",
        work_query(
            t, "SELECT count(*) FROM work_items WHERE work_type = 'x4' AND run_after IS NOT NULL"));
    /* Its retries used up. */
    const char *id = work_add(t, "--type last --max-retries 0");
    assert_int_equal(7, work_run(t, "$T work run --type last --until-empty -- false").exit_code);
    assert_member(t, id, "failure_kind", "exhausted");
}

/* Scripts see by the exit code that something is left to be looked at. */
static void until_empty_ends_with_7_when_an_item_failed(void **state)
{
    cli_fixture *t = *state;
    work_add(t, "--type y --max-retries 2");
    const cli_result again = work_run(
        t, "$T work run --type y --until-empty --json -- sh -c '[ $TIDEMARK_ATTEMPT = 2 ]'");
    assert_int_equal(0, again.exit_code);
    assert_contains(again.out,
                    "\"finished\":1,\"failed\":1,\"released\":0,\"lost\":0,\"failed_items\":0");
    work_add(t, "--type x --work-item bad");
    work_add(t, "--type x --work-item good");
    const cli_result result = run_one(t, "[ $TIDEMARK_WORK_ITEM_ID = good ] || exit 65");
    assert_int_equal(7, result.exit_code);
    assert_contains(result.out,
                    "\"finished\":1,\"failed\":1,\"released\":0,\"lost\":0,\"failed_items\":1");
    assert_member(t, "good", "status", "completed");
}

/* stderr is passed on, and its very end is what is kept: whole characters, no bytes that are no text. */
static void the_end_of_stderr_is_the_error_text(void **state)
{
    cli_fixture *t = *state;
    const char *id = work_add(t, "--type x --max-retries 0");
    const cli_result result = run_one(t, "i=0; while [ $i -lt 3000 ]; do echo \"line $i äöü\" >&2; "
                                         "i=$((i+1)); done; printf 'the\\0end\\377' >&2; exit 3");
    assert_int_equal(7, result.exit_code);
    assert_contains(result.err, "line 0 äöü\n");
    assert_contains(result.err, "line 2999 äöü\n");
    const char *error = work_member(t, id, "error_message");
    assert_contains(error, "exit status 3: ");
    assert_contains(error, "line 2999 äöü\nthe end");
    assert_null(strstr(error, "line 1000"));
    assert_true(strlen(error) < 2100);
    /* It begins with a whole character. */
    const unsigned char first = (unsigned char)error[strlen("exit status 3: ")];
    assert_true(first < 0x80 || first >= 0xc0);
    assert_string_equal(
        "error_boundary",
        work_query(
            t, "SELECT checkpoint_type FROM checkpoints ORDER BY global_sequence DESC LIMIT 1"));
}

static void stdout_becomes_the_output(void **state)
{
    cli_fixture *t = *state;
    static const struct {
        const char *script, *output;
    } prints[] = {
        {"echo '{\"rows\": 42}'", "{\"rows\": 42}"},
        {"printf '{\\n  \"big\": 12345678901234567890123\\n}\\n'",
         "{   \"big\": 12345678901234567890123 }"},
        {"echo done; echo twice", "{\"stdout\":\"done\\ntwice\\n\"}"},
        {"true", "null"},
        {"printf 'a\\0b\\377\\tc'", "{\"stdout\":\"a\\u0000b\xEF\xBF\xBD\\tc\"}"},
        {"echo ignored; echo '{\"output\":[1]}' >&3; echo '{\"output\":{\"last\":1}}' >&3",
         "{\"last\":1}"},
    };
    for (size_t i = 0; i < sizeof prints / sizeof prints[0]; i++) {
        const char *id = work_add(t, "--type x");
        const cli_result result = run_one(t, prints[i].script);
        assert_int_equal(0, result.exit_code);
        assert_contains(work_ok(t, "$T work show %s --json", id),
                        work_text(t, "\"output_data\":%s,", prints[i].output));
    }
    /* Too much is refused, for good: it would be too much again. */
    const char *id = work_add(t, "--type x --max-retries 3");
    run_one(t, "head -c 17000000 /dev/zero");
    assert_member(t, id, "status", "failed");
    assert_contains(work_member(t, id, "error_message"), "printed more than");
}

/* iteration_start before, tool_executed after, the answer under the key work-<id>: with the end, in one commit. */
static void checkpoints_and_key_frame_the_command(void **state)
{
    cli_fixture *t = *state;
    work_add(t, "--type x --work-item a");
    run_one(
        t, "$T checkpoint ls --json > before; $T idempotency show work-a --json > key; echo '[7]'");
    assert_contains(read_text(t, "before"), "\"checkpoint_type\":\"iteration_start\"");
    assert_contains(read_text(t, "key"), "\"status\":\"pending\"");
    assert_string_equal(
        "iteration_start|a\ntool_executed|a\n",
        work_rows(
            t, "SELECT checkpoint_type, work_item_id FROM checkpoints ORDER BY global_sequence"));
    tide_json_node *object = work_object(t, "$T checkpoint show 2 --json");
    const tide_json_node *executed = tide_json_node_find(object, "snapshot_data");
    assert_string_equal("[7]", work_value(t, executed, "result"));
    assert_int_equal(0, json_number(tide_json_node_find(executed, "run"), "exit_code"));
    tide_json_tree_free(object);
    assert_string_equal(
        "completed|[7]",
        work_query(
            t,
            "SELECT status, response_data FROM idempotency_keys WHERE idempotency_key = 'work-a'"));
}

/* ---- messages ---- */

static void messages_are_answered_when_they_are_on_disk(void **state)
{
    cli_fixture *t = *state;
    const char *id = work_add(t, "--type x");
    const cli_result result = run_one(
        t, "say() { printf '%s\\n' \"$1\" >&3; read -r answer <&3; echo \"$answer\"; }\n"
           "exec > answers\n"
           "say '{\"checkpoint\":{\"page\": "
           "7},\"type\":\"state_transition\",\"message\":\"half\",\"tags\":[\"a\",\"b\"]}'\n"
           "$T checkpoint head\n"
           "say '{\"progress\":{\"percent\":40}}'\n"
           "$T work show $TIDEMARK_WORK_ITEM_ID --json | grep -c '\"percent\":40'\n"
           "say '{\"output\":{\"a\":1}}'\n"
           "say '{\"checkpoint\":'\n"
           "say 'hello'\n"
           "say ''\n"
           "say '[1]'\n"
           "say '{\"nothing\":1}'\n"
           "say '{\"checkpoint\":1,\"type\":\"nonsense\"}'\n"
           "say '{\"checkpoint\":1,\"type\":5}'\n"
           "say '{\"checkpoint\":1,\"message\":[]}'\n"
           "say '{\"checkpoint\":1,\"tags\":\"a\"}'\n"
           "printf '{\"checkpoint\":\"\\377\"}\\n' >&3; read -r answer <&3; echo \"$answer\"\n"
           "$T work checkpoint --data '{\"page\":8}'\n");
    assert_int_equal(0, result.exit_code);
    const char *answers = read_text(t, "answers");
    char *copy = strdup(answers);
    char *at = copy;
    assert_contains(strsep(&at, "\n"), "{\"ok\":true,\"checkpoint_id\":\"");
    assert_string_equal("2", strsep(&at, "\n"));
    assert_string_equal("{\"ok\":true}", strsep(&at, "\n"));
    assert_string_equal("1", strsep(&at, "\n"));
    assert_string_equal("{\"ok\":true}", strsep(&at, "\n"));
    for (int i = 0; i < 10; i++)
        assert_contains(strsep(&at, "\n"), "{\"ok\":false,\"error\":\"");
    assert_string_equal("3", strsep(&at, "\n")); /* by the command line, without any option */
    free(copy);
    assert_member(t, id, "output_data", "{\"a\":1}");
    tide_json_node *object = work_object(t, "$T checkpoint show 2 --json");
    assert_string_equal("half", json_text(object, "message"));
    assert_string_equal("[\"a\",\"b\"]", work_value(t, object, "tags"));
    assert_string_equal("{\"page\":7}", work_value(t, object, "snapshot_data"));
    assert_string_equal(id, json_text(object, "work_item_id"));
    tide_json_tree_free(object);
    assert_string_equal("4", work_query(t, "SELECT count(*) FROM checkpoints"));
}

/* Written and gone: without a line break at the end, without anybody who reads the answers. */
static void the_last_message_needs_no_line_break_and_no_reader(void **state)
{
    cli_fixture *t = *state;
    const char *id = work_add(t, "--type x");
    const cli_result result =
        run_one(t, "i=0; while [ $i -lt 3000 ]; do echo '{\"output\":0}'; i=$((i+1)); done >&3; "
                   "echo '{\"checkpoint\":1}' >&3; printf '{\"output\":\"last\"}' >&3");
    assert_int_equal(0, result.exit_code);
    assert_member(t, id, "output_data", "last");
    assert_string_equal("3", work_query(t, "SELECT count(*) FROM checkpoints"));
}

/* A line that is longer than any message may be: one answer, and the next line is heard. */
static void a_line_that_is_too_long_is_refused_alone(void **state)
{
    cli_fixture *t = *state;
    const char *id = work_add(t, "--type x");
    const cli_result result =
        run_one(t, "{ printf '{\"checkpoint\":\"'; head -c 54000000 /dev/zero | tr '\\0' x; printf "
                   "'\"}\\n{\"output\":\"heard\"}\\n'; } >&3\n"
                   "read -r a <&3; read -r b <&3; echo \"$a$b\" > answers");
    assert_int_equal(0, result.exit_code);
    assert_string_equal("{\"ok\":false,\"error\":\"the message is too long\"}{\"ok\":true}\n",
                        read_text(t, "answers"));
    assert_member(t, id, "output_data", "heard");
}

/* ---- how much ---- */

static void limit_until_empty_and_parallel(void **state)
{
    cli_fixture *t = *state;
    for (int i = 0; i < 5; i++)
        work_add(t, "--type x");
    tide_json_node *list = work_objects(t, "$T work run --type x --limit 2 --json -- true");
    const tide_json_node *end = tide_json_node_at(list, tide_json_node_count(list) - 1);
    assert_string_equal("stopped", json_text(end, "event"));
    assert_int_equal(2, json_number(end, "finished"));
    assert_string_equal("claimed", json_text(tide_json_node_at(list, 0), "event"));
    tide_json_tree_free(list);
    /* Three at once: each waits until it has seen the others. */
    assert_contains(
        work_ok(t, "$T work run --type x --parallel 3 --prefetch 2 --until-empty -- sh -c "
                   "'touch here.$$; while [ $(ls here.* | wc -l) -lt 3 ]; do sleep 0.01; done'"),
        "3 finished, 0 failed, 0 released, 0 lost");
    assert_contains(work_ok(t, "$T work run --type x --until-empty -- true"), "0 finished");
    /* Another type's items are not touched. */
    work_add(t, "--type y");
    assert_contains(work_ok(t, "$T work run --type x --type z --until-empty -- true"),
                    "0 finished");
    assert_contains(work_ok(t, "$T work run --task t --until-empty -- true"), "1 finished");
}

/* An attempt that takes too long is stopped and has failed, so that it does not begin again for ever; and it is not stopped
 * before its time. (On a machine that is too busy the sweep has to write it down.) */
static void a_timeout_ends_the_attempt_as_failed(void **state)
{
    cli_fixture *t = *state;
    const char *id = work_add(t, "--type x --attempt-timeout 1200ms --max-retries 0");
    const cli_result result =
        run_one(t, "echo began >&2; sleep 0.3; echo went on >&2; exec sleep 60");
    assert_int_equal(7, result.exit_code);
    assert_contains(result.err, "went on");
    assert_contains(result.out, "\"claimed\":1,");
    work_ok(t, "$T work sweep");
    assert_member(t, id, "failure_kind", "exhausted");
    if (!strstr(result.out, "\"lost\":1"))
        assert_contains(work_member(t, id, "error_message"), "took longer than its timeout: began");
}

/* ---- stopping ---- */

static void wait_for_file(cli_fixture *t, const char *name)
{
    char path[TEMPDIR_PATH_MAX];
    struct stat info;
    cli_path(t, name, path);
    const int64_t deadline_ms = proc_now_ms() + CLI_TIMEOUT_MS;
    while (stat(path, &info) != 0 || info.st_size == 0) {
        if (proc_now_ms() > deadline_ms)
            fail_msg("%s never came: %s", name, read_text(t, "err"));
        usleep(5000);
    }
}

static pid_t read_pid(cli_fixture *t, const char *name)
{
    wait_for_file(t, name);
    return (pid_t)strtol(read_text(t, name), NULL, 10);
}

static void wait_until_gone(pid_t pid)
{
    const int64_t deadline_ms = proc_now_ms() + CLI_TIMEOUT_MS;
    while (!proc_is_gone(pid)) {
        if (proc_now_ms() > deadline_ms)
            fail_msg("process %ld goes on", (long)pid);
        usleep(2000);
    }
}

/* The first signal: no more items, queued ones go back at once, the running command may end. */
static void a_signal_drains_and_releases(void **state)
{
    cli_fixture *t = *state;
    proc child;
    const char *a = work_add(t, "--type x --work-item a");
    const char *b = work_add(t, "--type x --work-item b");
    work_start(t, &child,
               "exec $T work run --type x --prefetch 1 --json -- sh -c 'echo $$ > pid; while [ ! "
               "-e go ]; do sleep 0.01; done'");
    read_pid(t, "pid");
    assert_contains(work_read_line(t, &child), "\"claimed\"");
    assert_contains(work_read_line(t, &child), "\"claimed\"");
    assert_ok_err(proc_kill(&child, SIGTERM, &t->err), &t->err);
    assert_contains(work_read_line(t, &child), "{\"event\":\"released\",\"work_item_id\":\"b\"");
    assert_member(t, b, "status", "pending");
    assert_member(t, a, "status", "in_progress");
    cli_write_file(t, "go", "", 0);
    assert_contains(work_finish(t, &child, 0),
                    "\"finished\":1,\"failed\":0,\"released\":1,\"lost\":0");
    assert_member(t, a, "status", "completed");
    assert_member(t, b, "retry_count", "0");
}

/* The second one: the command is told to stop, and its item goes back without spending an attempt. */
static void a_second_signal_stops_the_command_at_once(void **state)
{
    cli_fixture *t = *state;
    proc child;
    const char *id = work_add(t, "--type x");
    work_start(t, &child,
               "exec $T work run --type x --drain 1h -- sh -c 'echo $$ > pid; exec sleep 600'");
    const pid_t pid = read_pid(t, "pid");
    assert_ok_err(proc_kill(&child, SIGINT, &t->err), &t->err);
    assert_ok_err(proc_kill(&child, SIGTERM, &t->err), &t->err);
    assert_contains(work_finish(t, &child, 0), "0 finished, 0 failed, 1 released, 0 lost");
    assert_true(proc_is_gone(pid));
    assert_member(t, id, "status", "pending");
    assert_member(t, id, "retry_count", "0");
    /* The key was given back with it: the next run need not wait. */
    assert_contains(work_ok(t, "$T work run --type x --until-empty -- true"), "1 finished");
}

/* What a command wrote when it was told to stop counts; so does its exit status. */
static void a_command_may_end_well_when_told_to_stop(void **state)
{
    cli_fixture *t = *state;
    proc child;
    const char *id = work_add(t, "--type x");
    work_start(t, &child,
               "exec $T work run --type x --drain 0s -- sh -c 'trap \"echo "
               "{\\\\\\\"checkpoint\\\\\\\":9} >&3; echo [1]; exit 0\" TERM; "
               "echo $$ > pid; while :; do sleep 0.01; done'");
    read_pid(t, "pid");
    assert_ok_err(proc_kill(&child, SIGTERM, &t->err), &t->err);
    assert_contains(work_finish(t, &child, 0), "1 finished");
    assert_member(t, id, "output_data", "[1]");
    assert_string_equal(
        "9",
        work_query(
            t,
            "SELECT snapshot_data FROM checkpoints WHERE checkpoint_type = 'manual_checkpoint'"));
}

/* ---- crashes ---- */

/* kill -9 of the worker: its command dies with it, the lease runs out, and the next worker goes on from the checkpoint. */
static void a_killed_worker_is_resumed_from_its_checkpoint(void **state)
{
    cli_fixture *t = *state;
    proc child;
    const char *id = work_add(t, "--type x");
    work_start(t, &child,
               "exec $T work run --type x --lease 1s -- sh -c '"
               "echo \"{\\\"checkpoint\\\":{\\\"page\\\":7}}\" >&3; read -r answer <&3; echo $$ > "
               "pid; exec sleep 600'");
    const pid_t pid = read_pid(t, "pid");
    assert_ok_err(proc_kill(&child, SIGKILL, &t->err), &t->err);
    assert_ok_err(proc_wait(&child, CLI_TIMEOUT_MS, &t->err), &t->err);
    proc_done(&child);
    wait_until_gone(pid);
    /* Sweep until the lease is over; nobody else does. */
    const int64_t deadline_ms = proc_now_ms() + CLI_TIMEOUT_MS;
    while (!strstr(work_ok(t, "$T work sweep"), "1 requeued"))
        assert_true(proc_now_ms() < deadline_ms);
    work_ok(t, "mkdir tmp; TMPDIR=$PWD/tmp $T work run --type x --until-empty -- sh -c "
               "'echo $TIDEMARK_CHECKPOINT_FILE > where; cat $TIDEMARK_CHECKPOINT_FILE; echo "
               "$TIDEMARK_ATTEMPT > attempt'");
    assert_member(t, id, "status", "completed");
    assert_member(t, id, "output_data", "{\"page\":7}");
    assert_string_equal("2\n", read_text(t, "attempt"));
    assert_contains(read_text(t, "where"), work_text(t, "%s/tmp/", t->dir.path));
    assert_string_equal("", work_ok(t, "ls tmp")); /* the file is gone */
    assert_string_equal(
        "iteration_start\nmanual_checkpoint\nerror_boundary\niteration_start\ntool_executed\n",
        work_rows(t, "SELECT checkpoint_type FROM checkpoints ORDER BY global_sequence"));
}

/* However many began and broke since: the last checkpoint that says how far it came is found. */
static void the_last_real_checkpoint_is_handed_over(void **state)
{
    cli_fixture *t = *state;
    work_add(t, "--type x --work-item a");
    const work_held held = work_claim(t, "");
    work_ok(t, "$T work checkpoint a --token %lld --data '{\"page\":7}'", held.token);
    work_sql(t,
             cli_is_postgres(t)
                 ? "INSERT INTO checkpoints (checkpoint_id, task_id, work_item_id, "
                   "checkpoint_type, sequence_number, snapshot_data) "
                   "SELECT 'i' || n, 't', 'a', 'iteration_start', n + 1, '{}' FROM "
                   "generate_series(1, 150) n"
                 : "WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < 150) "
                   "INSERT INTO checkpoints (checkpoint_id, task_id, work_item_id, "
                   "checkpoint_type, sequence_number, snapshot_data) "
                   "SELECT 'i' || n, 't', 'a', 'iteration_start', n + 1, '{}' FROM s");
    work_ok(t, "$T work release a --token %lld", held.token);
    work_ok(t, "$T work run --type x --until-empty -- sh -c 'cat $TIDEMARK_CHECKPOINT_FILE'");
    assert_member(t, "a", "output_data", "{\"page\":7}");
}

/* ---- leases that cannot be kept ---- */

/* Somebody holds the store, so that nobody can write to it. */
typedef struct store_lock {
    sqlite3 *sqlite;
    PGconn *pg;
} store_lock;

static double ask_number(store_lock *lock, const char *sql)
{
    if (lock->pg) {
        PGresult *result = PQexec(lock->pg, sql);
        assert_int_equal(PGRES_TUPLES_OK, PQresultStatus(result));
        const double number = strtod(PQgetvalue(result, 0, 0), NULL);
        PQclear(result);
        return number;
    }
    sqlite3_stmt *statement = NULL;
    assert_int_equal(SQLITE_OK, sqlite3_prepare_v2(lock->sqlite, sql, -1, &statement, NULL));
    assert_int_equal(SQLITE_ROW, sqlite3_step(statement));
    const double number = sqlite3_column_double(statement, 0);
    assert_int_equal(SQLITE_OK, sqlite3_finalize(statement));
    return number;
}

static double read_clock(clockid_t id)
{
    struct timespec now;
    assert_int_equal(0, clock_gettime(id, &now));
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* When the one lease ends that there is, on the boot clock: behind the lock nobody can prolong it any more. */
static double lock_store(cli_fixture *t, store_lock *lock)
{
    double expires = 0;
    *lock = (store_lock){.sqlite = NULL};
    if (cli_is_postgres(t)) {
        lock->pg = PQconnectdb(t->url);
        PQclear(PQexec(lock->pg, "BEGIN; LOCK TABLE work_items IN ACCESS EXCLUSIVE MODE"));
        expires = ask_number(lock, "SELECT extract(epoch FROM lease_expires_at) FROM work_items");
    } else {
        assert_int_equal(SQLITE_OK, sqlite3_open(t->url, &lock->sqlite));
        assert_int_equal(SQLITE_OK, sqlite3_busy_timeout(lock->sqlite, CLI_TIMEOUT_MS));
        assert_int_equal(SQLITE_OK,
                         sqlite3_exec(lock->sqlite, "BEGIN IMMEDIATE", NULL, NULL, NULL));
        expires = ask_number(
            lock, "SELECT (julianday(lease_expires_at) - 2440587.5) * 86400.0 FROM work_items");
    }
    return expires - read_clock(CLOCK_REALTIME) + read_clock(CLOCK_BOOTTIME);
}

static void unlock_store(store_lock *lock)
{
    PQfinish(lock->pg);
    (void)sqlite3_close(lock->sqlite);
}

/* When the command was last seen alive, by itself: the last whole line of what it wrote. */
static double read_last_sign(cli_fixture *t)
{
    const char *text = read_text(t, "alive");
    const char *end = strrchr(text, '\n');
    assert_non_null(end);
    while (end > text && end[-1] != '\n')
        end--;
    return strtod(end, NULL);
}

/* The store cannot be written: the command is dead before its lease ends, not a moment later, though it ignores SIGTERM; by
 * the boot clock, which is the lease's. */
static void a_command_is_killed_before_its_lease_ends(void **state)
{
    static const char script[] = "trap '' TERM; echo $$ > pid; while :; do read -r up rest < "
                                 "/proc/uptime; echo $up >> alive; done";
    const double lease = 1.5;
    cli_fixture *t = *state;
    proc child;
    store_lock lock;
    work_add(t, "--type x --work-item a");
    cli_write_file(t, "job.sh", script, strlen(script));
    work_start(t, &child, "exec $T work run --type x --lease 1500ms -- sh ./job.sh");
    const pid_t pid = read_pid(t, "pid");
    wait_for_file(t, "alive");
    const double expires = lock_store(t, &lock);
    wait_until_gone(pid);
    const double last = read_last_sign(t);
    while (read_clock(CLOCK_BOOTTIME) <= expires)
        usleep(5000); /* the lock outlasts the lease */
    unlock_store(&lock);
    if (last >= expires || last < expires - lease / 2)
        fail_msg("last seen at %.3f; its lease ended at %.3f", last, expires);
    assert_ok_err(proc_kill(&child, SIGTERM, &t->err), &t->err);
    assert_contains(work_finish(t, &child, 0), "0 finished, 0 failed, 0 released, 1 lost");
    work_ok(t, "$T work sweep");
    assert_member(t, "a", "crash_count", "1");
}

/* Where nothing else serves the store, its workers delete what is too old. */
static void a_worker_deletes_items_that_ended_long_ago(void **state)
{
    cli_fixture *t = *state;
    proc child;
    work_add(t, "--type x --work-item a");
    work_ok(t, "$T work run --type x --until-empty -- true");
    work_start(t, &child, "exec $T work run --type x --keep-items 1ms -- true");
    while (strcmp(work_query(t, "SELECT count(*) FROM work_items"), "0") != 0)
        usleep(20000);
    assert_ok_err(proc_kill(&child, SIGTERM, &t->err), &t->err);
    work_finish(t, &child, 0);
}

/* A worker that is stalled while it waits for its store, until its lease is over: what its command said meanwhile is heard. */
static void what_a_command_said_while_its_worker_was_stalled_is_heard(void **state)
{
    const double lease = 3;
    cli_fixture *t = *state;
    proc child;
    store_lock lock;
    work_add(t, "--type x --work-item a");
    work_start(t, &child,
               "exec $T work run --type x --lease 3s --limit 1 -- sh -c 'echo $$ > pid; "
               "while [ ! -e go ]; do sleep 0.01; done; echo last words >&2; echo > said; "
               "exec sleep 600'");
    const pid_t pid = read_pid(t, "pid");
    const double expires = lock_store(t, &lock);
    while (read_clock(CLOCK_BOOTTIME) <= expires - lease * 0.6)
        usleep(5000); /* what it renews after a third of the lease waits for the lock now */
    assert_ok_err(proc_kill(&child, SIGSTOP, &t->err), &t->err);
    cli_write_file(t, "go", "", 0);
    wait_for_file(t, "said");
    while (read_clock(CLOCK_BOOTTIME) <= expires)
        usleep(5000);
    assert_ok_err(proc_kill(&child, SIGCONT, &t->err), &t->err);
    wait_until_gone(pid);
    unlock_store(&lock);
    assert_contains(work_finish(t, &child, 0), "0 finished, 0 failed, 0 released, 1 lost");
    assert_contains(read_text(t, "err"), "last words");
}

/* Nobody reads our stderr, and the command fills it: it is ended in time all the same. */
static void a_stderr_that_nobody_reads_does_not_keep_a_command_alive(void **state)
{
    cli_fixture *t = *state;
    proc child;
    const char *id = work_add(t, "--type x");
    work_start(t, &child,
               "mkfifo fifo; exec 9<>fifo; exec $T work run --type x --lease 600ms 2>&9 -- "
               "sh -c 'echo $$ > pid; exec head -c 1000000 /dev/zero >&2'");
    const pid_t pid = read_pid(t, "pid");
    work_ok(t, "$T work cancel %s", id);
    wait_until_gone(pid);
    proc_done(&child);
}

/* Somebody has cancelled the item: the command hears of it by its next checkpoint, and is stopped. */
static void a_cancelled_item_stops_its_command(void **state)
{
    cli_fixture *t = *state;
    proc child;
    const char *id = work_add(t, "--type x");
    work_start(
        t, &child,
        "exec $T work run --type x --limit 1 -- sh -c 'echo $$ > pid; "
        "while [ ! -e go ]; do sleep 0.01; done; echo {\\\"checkpoint\\\":1} >&3; exec sleep 600'");
    read_pid(t, "pid");
    work_ok(t, "$T work cancel %s --reason 'not wanted'; echo > go", id);
    assert_contains(work_finish(t, &child, 0), "0 finished, 0 failed, 0 released, 1 lost");
    assert_member(t, id, "failure_kind", "cancelled");
    assert_member(t, id, "error_message", "not wanted");
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        WORK_EVERY_ENGINE(until_empty_ends_with_7_when_an_item_failed),
        WORK_EVERY_ENGINE(the_command_gets_input_and_environment),
        WORK_EVERY_ENGINE(a_worker_deletes_items_that_ended_long_ago),
        WORK_EVERY_ENGINE(the_exit_status_decides),
        WORK_EVERY_ENGINE(the_end_of_stderr_is_the_error_text),
        WORK_EVERY_ENGINE(stdout_becomes_the_output),
        WORK_EVERY_ENGINE(checkpoints_and_key_frame_the_command),
        WORK_EVERY_ENGINE(messages_are_answered_when_they_are_on_disk),
        WORK_EVERY_ENGINE(the_last_message_needs_no_line_break_and_no_reader),
        WORK_TEST_SQLITE(a_line_that_is_too_long_is_refused_alone),
        WORK_EVERY_ENGINE(limit_until_empty_and_parallel),
        WORK_EVERY_ENGINE(a_timeout_ends_the_attempt_as_failed),
        WORK_EVERY_ENGINE(a_signal_drains_and_releases),
        WORK_EVERY_ENGINE(a_second_signal_stops_the_command_at_once),
        WORK_EVERY_ENGINE(a_command_may_end_well_when_told_to_stop),
        WORK_EVERY_ENGINE(a_killed_worker_is_resumed_from_its_checkpoint),
        WORK_EVERY_ENGINE(the_last_real_checkpoint_is_handed_over),
        WORK_EVERY_ENGINE(a_command_is_killed_before_its_lease_ends),
        WORK_TEST_SQLITE(what_a_command_said_while_its_worker_was_stalled_is_heard),
        WORK_EVERY_ENGINE(a_stderr_that_nobody_reads_does_not_keep_a_command_alive),
        WORK_EVERY_ENGINE(a_cancelled_item_stops_its_command),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
