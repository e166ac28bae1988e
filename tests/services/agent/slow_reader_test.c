/* What an agent holds for readers that do not read: bounded, and others are served. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "services/agent/running_agent.h"
#include "support/check.h"
#include "support/process/proc.h"
#include "support/program/sanitized.h"
#include "support/tempdir.h"

enum { READERS = 60, RUN_MS = 120000 };

static long read_peak_mib(pid_t pid)
{
    char path[64];
    char line[256];
    long kib = -1;
    (void)snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *in = fopen(path, "re");
    assert_non_null(in);
    while (fgets(line, sizeof line, in)) {
        if (strncmp(line, "VmHWM:", 6) == 0)
            kib = strtol(line + 6, NULL, 10);
    }
    (void)fclose(in);
    return kib / 1024;
}

/* Under load under 200 MB: 60 connections and 128 streams ask for 9 MB each (13 MB as JSON) and take nothing. They get
 * shorter pages, not errors; a reader of another address gets a page as well. */
static void readers_that_take_nothing_do_not_fill_the_memory(void **state)
{
    (void)state;
    tempdir dir;
    tide_error err = {0};
    char store[TEMPDIR_PATH_MAX];
    char script[PATH_MAX];
    char count[16];
    running_agent agent = {.process = {.in_fd = -1, .out_fd = -1, .err_fd = -1}};
    assert_ok_err(tempdir_make(&dir, &err), &err);
    tempdir_join(&dir, "agent.db", store);
    assert_ok_err(running_agent_start(&agent, "agent", store,
                                      (const char *[]){"--collect", "0s", NULL}, &err),
                  &err);
    (void)snprintf(script, sizeof script, "%s/tests/services/agent/agent_pages.py",
                   getenv("TIDEMARK_SOURCE_DIR"));
    (void)snprintf(count, sizeof count, "%d", READERS);
    proc_result result = {0};
    const proc_options options = {
        .argv = (const char *[]){"/usr/bin/python3", script, agent.http, count, NULL}};
    assert_ok_err(proc_run(&result, &options, RUN_MS, &err), &err);
    print_message("%s%s", result.out, result.err);
    const char *served = strstr(result.out, "served ");
    const long served_count = served ? strtol(served + strlen("served "), NULL, 10) : -1;
    const char *other = strstr(result.out, "other 200 ");
    const long record_count = other ? strtol(other + strlen("other 200 "), NULL, 10) : -1;
    proc_result_done(&result);
    const long peak_mib = read_peak_mib(agent.process.pid);
    print_message("peak %ld MiB\n", peak_mib);
    assert_ok_err(running_agent_stop(&agent, &err), &err);
    assert_ok_err(tempdir_remove(&dir, &err), &err);
    assert_true(served_count >= READERS / 2);
    assert_true(record_count > 0);
    if (!IS_SANITIZED)
        assert_true(peak_mib < 200);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(readers_that_take_nothing_do_not_fill_the_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
