/* WorkService/Next of the real program, called over HTTP. */
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "support/check.h"
#include "support/process/proc.h"
#include "support/tempdir.h"

#define READY "ready listen="

enum { TIMEOUT_MS = 240 * 1000 };

/* The program's first line, without its newline. */
static void read_line(int fd, char *out, size_t size)
{
    size_t len = 0;
    while (len + 1 < size && read(fd, out + len, 1) == 1 && out[len] != '\n')
        len++;
    out[len] = '\0';
}

static void next_finishes_claims_and_waits(void **state)
{
    (void)state;
    tempdir dir;
    assert_ok(tempdir_make(&dir, NULL));
    char program[PATH_MAX];
    char store[TEMPDIR_PATH_MAX];
    tide_error err = {0};
    assert_ok_err(proc_find("tidemark", program, &err), &err);
    tempdir_join(&dir, "store.db", store);
    const char *const argv[] = {program,    "serve",       "--store", store,
                                "--listen", "127.0.0.1:0", NULL};
    const proc_options options = {.argv = argv, .out = PROC_PIPE};
    TIDE_CLEANUP(proc_done) proc server = {0};
    assert_ok_err(proc_start(&server, &options, &err), &err);
    char line[256];
    read_line(server.out_fd, line, sizeof line);
    assert_int_equal(0, strncmp(line, READY, strlen(READY)));

    char script[PATH_MAX];
    (void)snprintf(script, sizeof script, "%s/tests/services/work/next_client.py",
                   getenv("TIDEMARK_SOURCE_DIR"));
    const char *const client[] = {"/usr/bin/python3", script, line + strlen(READY), NULL};
    const proc_options client_options = {.argv = client};
    TIDE_CLEANUP(proc_result_done) proc_result result = {0};
    assert_ok_err(proc_run(&result, &client_options, TIMEOUT_MS, &err), &err);
    if (result.exit_code != 0)
        fail_msg("%s", result.err);
    assert_ok_err(proc_kill(&server, SIGTERM, &err), &err);
    assert_ok_err(proc_wait(&server, TIMEOUT_MS, &err), &err);
    assert_int_equal(0, server.exit_code);
    assert_ok(tempdir_remove(&dir, NULL));
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(next_finishes_claims_and_waits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
