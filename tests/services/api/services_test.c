/* Reflection and health of the real program, asked by a client of others (python3-grpcio). */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "support/check.h"
#include "support/process/proc.h"
#include "support/tempdir.h"

#define PYTHON "/usr/bin/python3" /* Debian's, which has Debian's python3-grpcio */
#define READY "ready listen="

enum { TIMEOUT_MS = 120 * 1000 };

static bool has_client(void)
{
    TIDE_CLEANUP(proc_result_done) proc_result result = {0};
    const char *const argv[] = {PYTHON, "-c", "import grpc, google.protobuf", NULL};
    const proc_options options = {.argv = argv};
    return proc_run(&result, &options, TIMEOUT_MS, NULL) == TIDE_OK && result.exit_code == 0;
}

/* The program's first line, without its newline. */
static void read_line(int fd, char *out, size_t size)
{
    size_t len = 0;
    while (len + 1 < size && read(fd, out + len, 1) == 1 && out[len] != '\n')
        len++;
    out[len] = '\0';
}

static void reflection_and_health_serve_a_foreign_client(void **state)
{
    (void)state;
    if (!has_client()) {
        assert_false(check_is_ci());
        skip();
    }
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

    char script[1024];
    char pid[32];
    (void)snprintf(script, sizeof script, "%s/tests/services/api/services_client.py",
                   getenv("TIDEMARK_SOURCE_DIR"));
    (void)snprintf(pid, sizeof pid, "%ld", (long)server.pid);
    const char *const client[] = {PYTHON, script, line + strlen(READY), pid, NULL};
    const proc_options client_options = {.argv = client};
    TIDE_CLEANUP(proc_result_done) proc_result result = {0};
    assert_ok_err(proc_run(&result, &client_options, TIMEOUT_MS, &err), &err);
    if (result.exit_code != 0)
        fail_msg("%s", result.err);
    assert_ok_err(proc_wait(&server, TIMEOUT_MS, &err), &err);
    assert_int_equal(0, server.exit_code);
    assert_ok(tempdir_remove(&dir, NULL));
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reflection_and_health_serve_a_foreign_client),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
