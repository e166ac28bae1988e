/* Child processes: started, read, killed, found. */
#include "support/process/proc.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "support/check.h"

enum { TIMEOUT_MS = 20000 };

static proc_options shell(const char *argv[4], const char *script)
{
    argv[0] = "sh";
    argv[1] = "-c";
    argv[2] = script;
    argv[3] = NULL;
    return (proc_options){.argv = argv};
}

static void run_shell(proc_result *result, const char *script, const char *const *env)
{
    const char *argv[4];
    tide_error err;
    proc_options options = shell(argv, script);
    options.env = env;
    assert_ok_err(proc_run(result, &options, TIMEOUT_MS, &err), &err);
}

/* Both streams arrive apart and whole, with the exit code. */
static void a_run_collects_output_and_exit_code(void **state)
{
    (void)state;
    TIDE_CLEANUP(proc_result_done) proc_result result = {0};
    run_shell(&result, "echo out; echo err >&2; exit 7", NULL);
    assert_int_equal(7, result.exit_code);
    assert_int_equal(0, result.signal);
    assert_string_equal("out\n", result.out);
    assert_string_equal("err\n", result.err);
}

/* More than a pipe holds, on both streams at once, must not block either side. */
static void large_output_on_both_streams_does_not_block(void **state)
{
    (void)state;
    TIDE_CLEANUP(proc_result_done) proc_result result = {0};
    run_shell(&result, "head -c 500000 /dev/zero >&2; head -c 700000 /dev/zero", NULL);
    assert_int_equal(700000, result.out_len);
    assert_int_equal(500000, result.err_len);
}

static void a_signal_is_told_from_an_exit(void **state)
{
    (void)state;
    TIDE_CLEANUP(proc_result_done) proc_result result = {0};
    run_shell(&result, "kill -9 $$", NULL);
    assert_int_equal(-1, result.exit_code);
    assert_int_equal(SIGKILL, result.signal);
}

/* The failure is the start's, with its reason: no caller has to interpret exit code 127. */
static void a_program_that_is_not_there_fails_the_start(void **state)
{
    (void)state;
    const char *const argv[] = {"/nowhere/at-all", NULL};
    tide_error err;
    TIDE_CLEANUP(proc_result_done) proc_result result = {0};
    assert_status_err(TIDE_E_NOT_FOUND,
                      proc_run(&result, &(proc_options){.argv = argv}, TIMEOUT_MS, &err), &err);
    assert_contains(err.text, "/nowhere/at-all");

    const char *const directory[] = {"/tmp", NULL};
    assert_status_err(TIDE_E_DENIED,
                      proc_run(&result, &(proc_options){.argv = directory}, TIMEOUT_MS, &err),
                      &err);
}

static void the_environment_is_changed_for_the_child_only(void **state)
{
    (void)state;
    setenv("TIDEMARK_PROC_A", "old", 1);
    setenv("TIDEMARK_PROC_B", "kept", 1);
    const char *const env[] = {"TIDEMARK_PROC_A=new", "TIDEMARK_PROC_C=more", "HOME", NULL};
    TIDE_CLEANUP(proc_result_done) proc_result result = {0};
    run_shell(&result, "echo $TIDEMARK_PROC_A $TIDEMARK_PROC_B $TIDEMARK_PROC_C ${HOME-none}", env);
    assert_string_equal("new kept more none\n", result.out);
    assert_string_equal("old", getenv("TIDEMARK_PROC_A"));
}

/* A wait ends at its deadline, the process lives on; a run kills what it started. */
static void a_deadline_ends_the_wait_not_the_process(void **state)
{
    (void)state;
    const char *argv[4];
    tide_error err;
    proc_options options = shell(argv, "echo $$; exec sleep 1000");
    options.out = PROC_NULL;
    TIDE_CLEANUP(proc_done) proc child;
    assert_ok_err(proc_start(&child, &options, &err), &err);
    assert_status(TIDE_E_TIMEOUT, proc_wait(&child, 20, &err));
    assert_false(proc_poll(&child));
    assert_ok_err(proc_kill(&child, SIGTERM, &err), &err);
    assert_ok_err(proc_wait(&child, TIMEOUT_MS, &err), &err);
    assert_int_equal(SIGTERM, child.signal);
    assert_ok_err(proc_kill(&child, SIGTERM, &err), &err); /* gone already: fine */

    TIDE_CLEANUP(proc_result_done) proc_result result = {0};
    assert_status(TIDE_E_TIMEOUT, proc_run(&result, &options, 300, &err));
    assert_non_null(result.out);
    const pid_t pid = (pid_t)assert_number(result.out);
    assert_true(pid > 0);
    assert_true(proc_is_gone(pid));
}

/* The pipes of one child are not held open by another. */
static void a_pipe_ends_with_its_child(void **state)
{
    (void)state;
    const char *argv[2][4];
    tide_error err;
    proc_options reading = shell(argv[0], "cat; echo end");
    reading.in = PROC_PIPE;
    reading.out = PROC_PIPE;
    const proc_options lasting = shell(argv[1], "exec sleep 1000");
    TIDE_CLEANUP(proc_done) proc first;
    TIDE_CLEANUP(proc_done) proc second;
    assert_ok_err(proc_start(&first, &reading, &err), &err);
    assert_ok_err(proc_start(&second, &lasting, &err), &err);
    assert_int_equal(3, write(first.in_fd, "hi\n", 3));
    close(first.in_fd);
    first.in_fd = -1;
    assert_ok_err(proc_wait(&first, TIMEOUT_MS, &err), &err);
    char text[16] = "";
    assert_int_equal(7, read(first.out_fd, text, sizeof(text)));
    assert_memory_equal("hi\nend\n", text, 7);
}

/* None of a family gets to see another's end: this parent would start a new child for each that
 * dies. */
static void a_family_dies_as_one(void **state)
{
    (void)state;
    const char *argv[4];
    tide_error err;
    proc_options options =
        shell(argv, "sleep 1000 & echo $!; sleep 1000 & echo $!; "
                    "while :; do wait -n 2>/dev/null || wait; sleep 1000 & done");
    options.out = PROC_PIPE;
    TIDE_CLEANUP(proc_done) proc parent;
    assert_ok_err(proc_start(&parent, &options, &err), &err);
    FILE *out = fdopen(dup(parent.out_fd), "r");
    pid_t pids[2];
    for (int i = 0; i < 2; i++) {
        char line[32];
        assert_non_null(fgets(line, sizeof(line), out));
        pids[i] = (pid_t)assert_number(line);
    }
    fclose(out);
    assert_false(proc_is_gone(pids[0]));
    assert_false(proc_is_gone(pids[1]));
    assert_ok_err(proc_kill_family(&parent, TIMEOUT_MS, &err), &err);
    assert_int_equal(SIGKILL, parent.signal);
    assert_true(proc_is_gone(pids[0]));
    assert_true(proc_is_gone(pids[1]));
}

/* Programs beside the test or above it are found; TIDEMARK_BIN decides for the program under
 * test. */
static void programs_are_found_beside_the_test(void **state)
{
    (void)state;
    char self[PATH_MAX];
    char found[PATH_MAX];
    tide_error err;
    proc_self_path(self);
    assert_ok_err(proc_find(strrchr(self, '/') + 1, found, &err), &err);
    assert_string_equal(self, found);
    assert_status(TIDE_E_NOT_FOUND, proc_find("no-such-program", found, &err));

    const char *given = getenv("TIDEMARK_BIN");
    TIDE_CLEANUP(tide_freep) char *kept = given != NULL ? strdup(given) : NULL;
    setenv("TIDEMARK_BIN", "/bin/sh", 1);
    assert_ok_err(proc_find("tidemark", found, &err), &err);
    assert_string_equal("/bin/sh", found);
    setenv("TIDEMARK_BIN", "/nowhere", 1);
    assert_status(TIDE_E_NOT_FOUND, proc_find("tidemark", found, &err));
    if (kept != NULL)
        setenv("TIDEMARK_BIN", kept, 1);
    else
        unsetenv("TIDEMARK_BIN");
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_collects_output_and_exit_code),
        cmocka_unit_test(large_output_on_both_streams_does_not_block),
        cmocka_unit_test(a_signal_is_told_from_an_exit),
        cmocka_unit_test(a_program_that_is_not_there_fails_the_start),
        cmocka_unit_test(the_environment_is_changed_for_the_child_only),
        cmocka_unit_test(a_deadline_ends_the_wait_not_the_process),
        cmocka_unit_test(a_pipe_ends_with_its_child),
        cmocka_unit_test(a_family_dies_as_one),
        cmocka_unit_test(programs_are_found_beside_the_test),
    };
    return cmocka_run_group_tests_name("proc", tests, NULL, NULL);
}
