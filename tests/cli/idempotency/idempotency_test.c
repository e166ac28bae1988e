/* tidemark idempotency, on every engine: a command runs once and is answered ever after. */
#include <fcntl.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tidemark/idempotency.h>

#include "cli/cli_run.h"
#include "support/clock/fair_clock.h"

static int setup(void **state)
{
    const int code = cli_setup(state);
    cli_fixture *t = *state;
    static char program_env[PATH_MAX + 8];
    snprintf(program_env, sizeof program_env, "T=%s", t->program);
    t->env[3] = program_env;
    t->env[4] = "R=idempotency run";
    return code;
}

#define CASE(function, engine)                                                                     \
    {                                                                                              \
#function " (" engine ")", function, setup, cli_teardown, (void *)(engine)                 \
    }
#define EVERY_ENGINE(function) CASE(function, "sqlite"), CASE(function, "postgres")

/* The script in the case's directory, with $T the program and $R its noun and verb. */
static const proc_result *shell(cli_fixture *t, const char *script)
{
    const char *argv[] = {"/bin/sh", "-c", script, NULL};
    assert_true(t->result_count < CLI_RESULTS_MAX);
    proc_result *result = &t->results[t->result_count++];
    proc_options options = cli_options(t, argv);
    options.in = PROC_NULL;
    assert_ok_err(proc_run(result, &options, CLI_TIMEOUT_MS, &t->err), &t->err);
    return result;
}

static void expect(cli_fixture *t, const char *script, int exit_code, const char *out)
{
    const proc_result *result = shell(t, script);
    if (result->exit_code != exit_code || strcmp(result->out, out) != 0)
        fail_msg("%s: want %d '%s', got %d '%s': %s", script, exit_code, out, result->exit_code,
                 result->out, result->err);
}

/* ... and what --json says about it on stderr. */
static void expect_outcome(cli_fixture *t, const char *script, int exit_code, const char *outcome)
{
    const proc_result *result = shell(t, script);
    tide_json_node *object = json_read(tide_view_of(result->err));
    if (result->exit_code != exit_code || !object ||
        strcmp(json_text(object, "outcome"), outcome) != 0)
        fail_msg("%s: want %d %s, got %d: %s", script, exit_code, outcome, result->exit_code,
                 result->err);
    tide_json_tree_free(object);
}

/* A run in the background that is to be met while it runs. */
static void start(cli_fixture *t, proc *child, const char *script)
{
    const char *argv[] = {"/bin/sh", "-c", script, NULL};
    proc_options options = cli_options(t, argv);
    options.in = PROC_NULL;
    options.out = PROC_PIPE;
    options.err = PROC_NULL;
    assert_ok_err(proc_start(child, &options, &t->err), &t->err);
}

/* The next line of its output; by it the command says that it runs. */
static void wait_for_line(const proc *child, const char *want)
{
    char line[64] = "";
    for (size_t i = 0; i < sizeof line - 1; i++)
        if (read(child->out_fd, line + i, 1) != 1 || line[i] == '\n')
            break;
    assert_int_equal(0, strncmp(line, want, strlen(want)));
}

/* Everything that holds its stdout has ended: the program, the command and what that has started. */
static void wait_for_silence(const proc *child)
{
    char bytes[256];
    while (read(child->out_fd, bytes, sizeof bytes) > 0)
        ;
}

static void finish(cli_fixture *t, proc *child, int exit_code)
{
    assert_ok_err(proc_wait(child, CLI_TIMEOUT_MS, &t->err), &t->err);
    assert_int_equal(exit_code, child->exit_code);
    proc_done(child);
}

/* Again and again until it ends otherwise than with 6: a lock runs out by itself. */
static void expect_after_the_lock(cli_fixture *t, const char *script, int exit_code,
                                  const char *outcome)
{
    const int64_t deadline_ms = proc_now_ms() + CLI_TIMEOUT_MS;
    while (shell(t, script)->exit_code == TIDE_EXIT_UNAVAILABLE && proc_now_ms() < deadline_ms)
        proc_result_done(&t->results[--t->result_count]);
    const proc_result *result = &t->results[t->result_count - 1];
    assert_int_equal(exit_code, result->exit_code);
    if (outcome)
        assert_contains(result->err, outcome);
}

/* ---- once, and then the answer ---- */

static void a_command_runs_once_and_is_replayed(void **state)
{
    cli_fixture *t = *state;
    for (int i = 0; i < 3; i++)
        expect(t, "$T $R --key k -- sh -c 'echo ran >> log; echo out; echo err >&2; exit 7'", 7,
               "out\n");
    char *log = cli_read_file(t, "log", NULL);
    assert_string_equal("ran\n", log);
    free(log);
    expect_outcome(t, "$T $R --key other --json -- true", 0, "NEW");
    expect_outcome(t, "$T $R --key other --json -- true", 0, "REPLAY");
}

/* Every byte there is, and none at all. */
static void output_is_replayed_byte_for_byte(void **state)
{
    cli_fixture *t = *state;
    char bytes[1024];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (char)(i * 7 % 256);
    cli_write_file(t, "bytes", bytes, sizeof bytes);
    for (int i = 0; i < 2; i++) {
        const proc_result *result = shell(t, "$T $R --key bytes -- cat bytes");
        assert_int_equal(sizeof bytes, result->out_len);
        assert_memory_equal(bytes, result->out, sizeof bytes);
        expect(t, "$T $R --key none -- true", 0, "");
        expect(t, "$T $R --key text -- printf '\"quoted\" \\134 t\\303\\244xt\\n\\n'", 0,
               "\"quoted\" \\ t\303\244xt\n\n");
    }
    cli_result result = cli_run(t, "idempotency", "show", "bytes", "--json", NULL);
    tide_json_node *object = cli_json(&result);
    const tide_json_node *answer = tide_json_node_find(object, "response");
    assert_int_equal(0, json_number(answer, "exit_code"));
    assert_int_equal((sizeof bytes + 2) / 3 * 4, strlen(json_text(answer, "stdout_base64")));
    tide_json_tree_free(object);
}

/* What is too long to keep still ran only once. */
static void output_that_is_too_long_is_not_kept_but_not_made_again(void **state)
{
    cli_fixture *t = *state;
    const char *script = "$T $R --key big --request r -- "
                         "sh -c 'echo ran >> log; head -c 40000000 /dev/zero; exit 3' | wc -c";
    expect(t, script, 0, "40000000\n");
    expect(t, script, 0, "0\n");
    const proc_result *result = shell(t, "$T $R --key big --request r -- true");
    assert_int_equal(TIDE_EXIT_FAILED, result->exit_code);
    assert_contains(result->err, "ended with 3");
    assert_contains(result->err, "40000000 bytes");
    char *log = cli_read_file(t, "log", NULL);
    assert_string_equal("ran\n", log);
    free(log);
}

/* ---- the request ---- */

/* Without --request it is the command, its words and its stdin. */
static void another_command_or_stdin_is_another_request(void **state)
{
    cli_fixture *t = *state;
    expect(t, "printf a | $T $R --key k -- cat", 0, "a");
    expect(t, "printf a | $T $R --key k -- cat", 0, "a");
    const proc_result *result = shell(t, "printf b | $T $R --key k -- cat");
    assert_int_equal(TIDE_EXIT_CONFLICT, result->exit_code);
    assert_string_equal("", result->out);
    assert_contains(result->err, "another request");
    expect(t, "printf a | $T $R --key k -- cat -", 4, "");
    expect(t, "$T $R --key words -- echo 'a b'", 0, "a b\n");
    expect(t, "$T $R --key words -- echo a b", 4, "");
    expect_outcome(t, "$T $R --key words --json -- echo a b", 4, "MISMATCH");
    expect(t, "$T $R --key words -- echo 'a b'", 0, "a b\n");
}

/* With --request the command may change; JSON counts by what it says. stdin is then the command's own. */
static void the_request_can_be_said(void **state)
{
    cli_fixture *t = *state;
    expect(t, "echo in | $T $R --key k --request '{\"a\":1,\"b\":2}' -- cat", 0, "in\n");
    expect(t, "$T $R --key k --request ' { \"b\": 2, \"a\": 1 }' -- echo changed", 0, "in\n");
    expect(t, "$T $R --key k --request '{\"a\":1}' -- cat", 4, "");
    cli_result result = cli_run(t, "idempotency", "show", "k", "--json", NULL);
    tide_json_node *object = cli_json(&result);
    const char *hash = json_text(object, "request_hash");
    assert_int_equal(0, strncmp(hash, "sha256:", 7));
    assert_int_equal(71, strlen(hash));
    tide_json_tree_free(object);
}

static void scopes_keep_keys_apart(void **state)
{
    cli_fixture *t = *state;
    expect(t, "$T $R --key k --scope one -- echo 1", 0, "1\n");
    expect(t, "$T $R --key k --scope two -- echo 2", 0, "2\n");
    expect(t, "$T $R --key k -- echo 3", 0, "3\n");
    expect(t, "$T $R --key two/k -- echo 2", 0, "2\n");
    expect(t, "$T idempotency ls --json | wc -l", 0, "3\n");
    cli_result result = cli_run(t, "idempotency", "show", "k", "--scope", "two", "--json", NULL);
    tide_json_node *object = cli_json(&result);
    assert_string_equal("two/k", json_text(object, "key"));
    assert_string_equal("completed", json_text(object, "status"));
    tide_json_tree_free(object);
}

static void the_command_knows_its_key(void **state)
{
    cli_fixture *t = *state;
    expect(t,
           "$T $R --key k --scope s -- sh -c 'echo $TIDEMARK_IDEMPOTENCY_KEY "
           "$TIDEMARK_IDEMPOTENCY_OUTCOME; test $TIDEMARK_IDEMPOTENCY_TOKEN -gt 0'",
           0, "s/k NEW\n");
}

/* ---- what is no answer ---- */

static void what_may_pass_is_not_stored(void **state)
{
    cli_fixture *t = *state;
    expect(t, "$T $R --key k --request r -- sh -c 'echo no; exit 75'", 75, "no\n");
    expect(t, "$T $R --key k --request r -- sh -c 'kill -9 $$'", 137, "");
    expect(t, "$T $R --key k --request r -- /nonexistent", 127, "");
    expect(t, "$T $R --key k --request r -- /etc", 126, "");
    expect_outcome(t, "$T $R --key k --request r --json -- true", 0, "NEW");
    expect_outcome(t, "$T $R --key k --request r --json -- false", 0, "REPLAY");
    cli_result result = cli_run(t, "idempotency", "show", "k", "--json", NULL);
    tide_json_node *object = cli_json(&result);
    assert_int_equal(5, json_number(object, "attempts"));
    tide_json_tree_free(object);
}

/* ---- while it runs ---- */

static const char run_until_told[] =
    "exec $T $R --key k --request r -- sh -c 'echo ran >> log; echo running; read line < go; echo "
    "$line'";

/* The second caller is told, and what it is told is true. */
static void a_second_caller_is_refused_while_it_runs(void **state)
{
    cli_fixture *t = *state;
    expect(t, "mkfifo go", 0, "");
    proc child;
    start(t, &child, run_until_told);
    wait_for_line(&child, "running");
    expect(t, "$T $R --key k --request r -- true", 6, "");
    expect_outcome(t, "$T $R --key k --request r --json -- true", 6, "IN_PROGRESS");
    expect_outcome(t, "$T $R --key k --request other --json -- true", 4, "MISMATCH");
    expect(t, "$T idempotency delete k 2> /dev/null", 4, "");
    expect(t, "$T idempotency clean --older-than 0s", 0, "0 removed\n");
    expect(t, "echo told > go", 0, "");
    wait_for_line(&child, "told");
    finish(t, &child, 0);
    expect(t, "$T $R --key k --request r -- true", 0, "running\ntold\n");
    char *log = cli_read_file(t, "log", NULL);
    assert_string_equal("ran\n", log);
    free(log);
}

/* Its lock is renewed as long as it runs, however short it is. */
static void a_long_run_keeps_its_lock(void **state)
{
    cli_fixture *t = *state;
    expect(t, "mkfifo go", 0, "");
    proc child;
    start(t, &child,
          "exec $T $R --key k --request r --lock 2s -- sh -c 'echo running; read line < go'");
    wait_for_line(&child, "running");
    const int64_t until_ms = wall_clock_ms() + 3000; /* longer than its lock */
    while (wall_clock_ms() < until_ms) {
        expect(t, "$T $R --key k --request r -- true", 6, "");
        proc_result_done(&t->results[--t->result_count]);
    }
    expect(t, "echo > go", 0, "");
    wait_for_silence(&child);
    finish(t, &child, 0);
    expect(t, "$T $R --key k --request r -- true", 0, "running\n");
}

/* kill -9 of the program: the command dies with it, and after the lock another takes over. */
static void a_killed_run_is_taken_over(void **state)
{
    cli_fixture *t = *state;
    proc child;
    start(t, &child,
          "exec $T $R --key k --request r --lock 1s -- sh -c 'echo running; exec sleep 1000'");
    wait_for_line(&child, "running");
    assert_ok_err(proc_kill(&child, SIGKILL, &t->err), &t->err);
    wait_for_silence(&child);
    proc_done(&child);
    expect_after_the_lock(t,
                          "$T $R --key k --request r --json -- sh -c 'echo "
                          "$TIDEMARK_IDEMPOTENCY_OUTCOME'",
                          0, "TAKEOVER");
    expect(t, "$T $R --key k --request r -- true", 0, "TAKEOVER\n");
}

/* ... or a person is asked, as was chosen when the key was made. */
static void under_the_policy_fail_a_killed_run_is_unknown(void **state)
{
    cli_fixture *t = *state;
    proc child;
    start(t, &child,
          "exec $T $R --key k --request r --lock 1s --policy fail -- sh -c 'echo running; exec "
          "sleep 1000'");
    wait_for_line(&child, "running");
    assert_ok_err(proc_kill(&child, SIGKILL, &t->err), &t->err);
    wait_for_silence(&child);
    proc_done(&child);
    expect_after_the_lock(t, "$T $R --key k --request r -- true", TIDE_EXIT_PARTIAL, NULL);
    expect(t, "$T idempotency delete k", 0, "k deleted\n");
    expect_outcome(t, "$T $R --key k --request r --json -- true", 0, "NEW");
}

/* A signal to us is the command's: one that it dies of gives the key back ... */
static void a_signal_is_passed_on_and_the_key_given_back(void **state)
{
    cli_fixture *t = *state;
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        proc child;
        start(t, &child, "exec $T $R --key k --request r -- sh -c 'echo running; exec sleep 1000'");
        wait_for_line(&child, "running");
        assert_ok_err(proc_kill(&child, numbers[i], &t->err), &t->err);
        wait_for_silence(&child);
        finish(t, &child, 128 + numbers[i]);
    }
    expect_outcome(t, "$T $R --key k --request r --json -- true", 0, "NEW");
}

/* ... and one that it takes otherwise leads to an answer like any other. */
static void a_command_that_takes_a_signal_well_gives_an_answer(void **state)
{
    cli_fixture *t = *state;
    proc child;
    start(t, &child,
          "exec $T $R --key k --request r -- sh -c 'trap \"echo bye; exit 5\" TERM; echo running; "
          "while :; do sleep 0.01; done'");
    wait_for_line(&child, "running");
    assert_ok_err(proc_kill(&child, SIGTERM, &t->err), &t->err);
    wait_for_line(&child, "bye");
    finish(t, &child, 5);
    expect(t, "$T $R --key k --request r -- true", 5, "running\nbye\n");
}

/* Who cannot renew stops the command before the lock is over. Another program holds the write lock. */
static void a_command_is_stopped_before_a_lock_that_cannot_be_renewed(void **state)
{
    cli_fixture *t = *state;
    expect(t, "mkfifo alive", 0, "");
    char path[TEMPDIR_PATH_MAX];
    cli_path(t, "alive", path);
    const int alive_fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    assert_true(alive_fd >= 0);
    proc child;
    start(t, &child,
          "exec $T $R --key k --request r --lock 4s -- sh -c 'exec 9> alive; echo running; sleep "
          "1000'");
    wait_for_line(&child, "running");
    const int64_t running_ms = proc_now_ms();
    sqlite3 *db = NULL;
    assert_int_equal(SQLITE_OK, sqlite3_open(t->url, &db));
    assert_int_equal(SQLITE_OK, sqlite3_busy_timeout(db, 1000));
    assert_int_equal(SQLITE_OK, sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL));
    assert_int_equal(0, fcntl(alive_fd, F_SETFL, 0));
    char byte;
    assert_int_equal(0, read(alive_fd, &byte, 1)); /* the command and its sleep are gone */
    assert_true(proc_now_ms() - running_ms < 4000);
    assert_int_equal(SQLITE_OK, sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL));
    assert_int_equal(SQLITE_OK, sqlite3_close(db));
    (void)close(alive_fd);
    wait_for_silence(&child);
    finish(t, &child, TIDE_EXIT_CONFLICT);
}

/* A key deleted by force is no longer its holder's: the command is killed when that is noticed. */
static void a_command_whose_key_is_gone_is_killed(void **state)
{
    cli_fixture *t = *state;
    proc child;
    start(t, &child,
          "exec $T $R --key k --request r --lock 1s -- sh -c 'trap \"\" TERM; echo running; sleep "
          "1000'");
    wait_for_line(&child, "running");
    expect(t, "$T idempotency delete k --force", 0, "k deleted\n");
    expect(t, "$T $R --key k --request r -- echo mine", 0, "mine\n");
    wait_for_silence(&child);
    finish(t, &child, TIDE_EXIT_CONFLICT);
    expect(t, "$T $R --key k --request r -- true", 0, "mine\n");
}

/* Nothing of the store leaks into the command: 0, 1, 2, and the directory that ls opens. */
static void no_descriptor_of_the_store_leaks(void **state)
{
    cli_fixture *t = *state;
    expect(t, "$T $R --key k -- ls /proc/self/fd", 0, "0\n1\n2\n3\n");
}

/* A reader that leaves early costs the answer nothing. */
static void a_reader_that_leaves_costs_nothing(void **state)
{
    cli_fixture *t = *state;
    expect(t, "$T $R --key k --request r -- seq 1 100000 | head -n 1", 0, "1\n");
    expect(t, "$T $R --key k --request r -- true | tail -n 1", 0, "100000\n");
}

/* ---- looking after keys ---- */

static void keys_are_shown_listed_and_deleted(void **state)
{
    cli_fixture *t = *state;
    cli_result result = cli_run(t, "idempotency", "ls", NULL);
    cli_assert_fails(&result, TIDE_EXIT_NOT_FOUND); /* no store yet: looking makes none */
    expect(t, "$T $R --key good -- echo yes", 0, "yes\n");
    expect(t, "$T $R --key bad -- false", 1, "");
    result = cli_run(t, "idempotency", "show", "good", NULL);
    assert_int_equal(0, result.exit_code);
    assert_contains(result.out, "good  (completed)");
    result = cli_run(t, "idempotency", "show", "none", "--json", NULL);
    cli_assert_fails(&result, TIDE_EXIT_NOT_FOUND);
    result = cli_run(t, "idempotency", "ls", "--json", "--status", "failed", NULL);
    tide_json_node *object = cli_json(&result);
    assert_string_equal("bad", json_text(object, "key"));
    tide_json_tree_free(object);
    result = cli_run(t, "idempotency", "ls", NULL);
    assert_contains(result.out, "KEY ");
    result = cli_run(t, "idempotency", "delete", "good", "--json", NULL);
    tide_json_tree_free(cli_json(&result));
    result = cli_run(t, "idempotency", "delete", "good", NULL);
    cli_assert_fails(&result, TIDE_EXIT_NOT_FOUND);
    expect(t, "$T $R --key old --expiry 1us -- true", 0, "");
    result = cli_run(t, "idempotency", "clean", "--json", NULL);
    assert_string_equal("{\"removed\":1}\n", result.out);
}

/* An answer is kept for 24 hours unless the call says otherwise. */
static void an_answer_may_be_kept_forever(void **state)
{
    cli_fixture *t = *state;
    expect(t, "$T $R --key day -- echo x", 0, "x\n");
    expect(t, "$T $R --key ever --expiry forever -- echo x", 0, "x\n");
    expect(t,
           "for key in day ever; do $T idempotency show $key --json | "
           "jq '(.expires_at[0:4] | tonumber) - (.completed_at[0:4] | tonumber) >= 99'; done",
           0, "false\ntrue\n");
    const cli_result result = cli_run(t, "idempotency", "clean", "--json", NULL);
    assert_string_equal("{\"removed\":0}\n", result.out);
    expect(t, "$T $R --key ever --expiry forever -- echo x", 0, "x\n");
}

static void bad_input_runs_nothing(void **state)
{
    cli_fixture *t = *state;
    static const char *const scripts[] = {
        "$T $R -- touch ran",
        "$T $R --key k",
        "$T $R --key k --",
        "$T $R --key '' -- touch ran",
        "$T $R --key k --scope a/b -- touch ran",
        "$T $R --key k --lock never -- touch ran",
        "$T $R --key k --lock 1us -- touch ran",
        "$T $R --key k --policy maybe -- touch ran",
        "$T $R --key k --expiry -5s -- touch ran",
        "$T $R --key \"$(printf '\\377')\" -- touch ran",
    };
    for (size_t i = 0; i < sizeof scripts / sizeof scripts[0]; i++)
        if (shell(t, scripts[i])->exit_code != TIDE_EXIT_USAGE)
            fail_msg("%s was not refused", scripts[i]);
    expect(t, "$T $R --key k --task nobody -- touch ran 2> /dev/null", 3, "");
    expect(t, "test ! -e ran", 0, "");
}

/* The command has run and its answer is stored, but nobody got it: that is not success. */
static void an_output_that_cannot_be_written_is_said(void **state)
{
    cli_fixture *t = *state;
    for (int i = 0; i < 2; i++) { /* as it runs, and as it is replayed */
        const proc_result *result =
            shell(t, "$T $R --key k -- sh -c 'echo ran >> log; echo out' > /dev/full");
        assert_int_equal(TIDE_EXIT_PARTIAL, result->exit_code);
        assert_contains(result->err, "could not be written");
    }
    expect(t, "$T $R --key k -- sh -c 'echo ran >> log; echo out'", 0, "out\n");
    expect(t, "cat log", 0, "ran\n");
    /* A reader that leaves has heard enough. */
    expect(t, "$T $R --key l -- sh -c 'yes | head -c 1000000; exit 3' | head -n 1; true", 0, "y\n");
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        EVERY_ENGINE(a_command_runs_once_and_is_replayed),
        EVERY_ENGINE(output_is_replayed_byte_for_byte),
        EVERY_ENGINE(output_that_is_too_long_is_not_kept_but_not_made_again),
        EVERY_ENGINE(another_command_or_stdin_is_another_request),
        EVERY_ENGINE(the_request_can_be_said),
        EVERY_ENGINE(scopes_keep_keys_apart),
        CASE(the_command_knows_its_key, "sqlite"),
        EVERY_ENGINE(what_may_pass_is_not_stored),
        EVERY_ENGINE(a_second_caller_is_refused_while_it_runs),
        EVERY_ENGINE(a_long_run_keeps_its_lock),
        EVERY_ENGINE(a_killed_run_is_taken_over),
        EVERY_ENGINE(under_the_policy_fail_a_killed_run_is_unknown),
        CASE(a_signal_is_passed_on_and_the_key_given_back, "sqlite"),
        CASE(a_command_that_takes_a_signal_well_gives_an_answer, "sqlite"),
        CASE(a_command_is_stopped_before_a_lock_that_cannot_be_renewed, "sqlite"),
        EVERY_ENGINE(a_command_whose_key_is_gone_is_killed),
        EVERY_ENGINE(no_descriptor_of_the_store_leaks),
        CASE(a_reader_that_leaves_costs_nothing, "sqlite"),
        EVERY_ENGINE(keys_are_shown_listed_and_deleted),
        CASE(an_answer_may_be_kept_forever, "sqlite"),
        CASE(bad_input_runs_nothing, "sqlite"),
        EVERY_ENGINE(an_output_that_cannot_be_written_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
