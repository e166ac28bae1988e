#include "net/client/echo.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/check.h"

enum { ARGS_MAX = 6 };

#define PYTHON "/usr/bin/python3" /* Debian's, which has Debian's python3-grpcio */

void echo_start(echo *e, const char *cert, const char *key, const char *ca)
{
    char script[1024];
    char line[512] = "";
    size_t len = 0;
    tide_error err = {.status = TIDE_OK};
    (void)snprintf(script, sizeof script, "%s/tests/net/client/echo_server.py",
                   getenv("TIDEMARK_SOURCE_DIR"));
    const char *argv[ARGS_MAX] = {PYTHON, script, cert, key, ca, NULL};
    const proc_options options = {.argv = argv, .in = PROC_PIPE, .out = PROC_PIPE};
    assert_ok_err(proc_start(&e->process, &options, &err), &err);
    while (len + 1 < sizeof line && !strchr(line, '\n')) {
        const ssize_t got = read(e->process.out_fd, line + len, 1);
        assert_true(got == 1);
        len += (size_t)got;
        line[len] = '\0';
    }
    static const char ready[] = "ready ";
    assert_memory_equal(line, ready, sizeof ready - 1);
    char *at = line + sizeof ready - 1;
    int *const ports[] = {&e->grpc_port, &e->http_port, &e->broken_port};
    for (size_t i = 0; i < sizeof ports / sizeof ports[0]; i++) {
        *ports[i] = (int)strtol(at, &at, 10);
        assert_true(*ports[i] > 0);
    }
    assert_int_equal(1, sscanf(at, " %255s", e->socket_path));
}

void echo_stop(echo *e)
{
    tide_error err = {.status = TIDE_OK};
    (void)close(e->process.in_fd);
    e->process.in_fd = -1;
    assert_ok_err(proc_wait(&e->process, 30000, &err), &err);
    proc_done(&e->process);
}
