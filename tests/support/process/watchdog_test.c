/* scripts/check/test-watchdog ends as its program does, or ends its program. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/check.h"
#include "support/process/proc.h"
#include "support/tempdir.h"

enum { TIMEOUT_MS = 60000 };

static proc_result watch(const char *script, const char *limit)
{
    char path[PATH_MAX];
    (void)snprintf(path, sizeof path, "%s/scripts/check/test-watchdog",
                   getenv("TIDEMARK_SOURCE_DIR"));
    const char *const argv[] = {path, "sh", "-c", script, NULL};
    const char *const env[] = {limit, "TIDEMARK_TEST_SLOWER=1", NULL};
    proc_result result;
    tide_error err;
    assert_ok_err(proc_run(&result, &(proc_options){.argv = argv, .env = env}, TIMEOUT_MS, &err),
                  &err);
    return result;
}

static void it_ends_as_its_program_ended(void **state)
{
    (void)state;
    proc_result result = watch("echo said; echo told >&2; exit 7", "TIDEMARK_TEST_LIMIT_S=60");
    assert_int_equal(7, result.exit_code);
    assert_string_equal("said\n", result.out);
    assert_string_equal("told\n", result.err);
    proc_result_done(&result);
    result = watch("kill -KILL $$", "TIDEMARK_TEST_LIMIT_S=60");
    assert_int_equal(SIGKILL, result.signal);
    proc_result_done(&result);
}

static pid_t printed_pid(const proc_result *result)
{
    const pid_t pid = (pid_t)strtol(result->out, NULL, 10);
    assert_true(pid > 1);
    return pid;
}

/* In a session of its own, where signals to the group do not reach it. */
static void out_of_time_everything_is_killed(void **state)
{
    (void)state;
    proc_result result =
        watch("setsid sleep 1000 & echo $!; sleep 1000", "TIDEMARK_TEST_LIMIT_S=0.2");
    assert_int_equal(124, result.exit_code);
    assert_contains(result.err, "out of time");
    assert_contains(result.err, "sleep");
    assert_true(proc_is_gone(printed_pid(&result)));
    proc_result_done(&result);
}

static void what_a_program_leaves_behind_is_killed(void **state)
{
    (void)state;
    proc_result result =
        watch("setsid sleep 1000 >/dev/null 2>&1 & echo $!; exit 0", "TIDEMARK_TEST_LIMIT_S=60");
    assert_int_equal(0, result.exit_code);
    assert_true(proc_is_gone(printed_pid(&result)));
    proc_result_done(&result);
}

/* As a cluster's supervisor: it begins when the program and all it started have ended. */
static void what_removes_its_files_is_waited_for(void **state)
{
    (void)state;
    tempdir dir;
    tide_error err;
    assert_ok_err(tempdir_make(&dir, &err), &err);
    /* The program ends when its supervisor runs: before that it cannot be recognised. */
    char script[3 * TEMPDIR_PATH_MAX + 300];
    (void)snprintf(
        script, sizeof script,
        "mkfifo '%s/begun' && { sleep 1000 | setsid sh -c 'echo >\"$1/begun\"; "
        "while read -r line; do :; done; sleep 0.5; rm -rf -- \"$1\"' "
        "tidemark-test-supervisor '%s' >/dev/null 2>&1 & } && read -r line <'%s/begun'; exit 3",
        dir.path, dir.path, dir.path);
    proc_result result = watch(script, "TIDEMARK_TEST_LIMIT_S=60");
    assert_int_equal(3, result.exit_code);
    assert_int_equal(-1, access(dir.path, F_OK));
    proc_result_done(&result);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_ends_as_its_program_ended),
        cmocka_unit_test(out_of_time_everything_is_killed),
        cmocka_unit_test(what_a_program_leaves_behind_is_killed),
        cmocka_unit_test(what_removes_its_files_is_waited_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
