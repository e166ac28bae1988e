#include "cli/replica/replica_calls.h"
#include "support/clock/fair_clock.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SERVERS_MAX = 8, ARGUMENTS_MAX = 16 };

/* ---- servers ---- */

static proc servers[SERVERS_MAX];
static int server_count;

static void read_line(proc *process, char line[REPLICA_LINE_MAX])
{
    const int64_t until_ms = proc_now_ms() + REPLICA_WAIT_MS;
    for (size_t len = 0; len + 1 < REPLICA_LINE_MAX; len++) {
        assert_true(fair_wait_fd(process->out_fd, until_ms));
        assert_int_equal(1, read(process->out_fd, line + len, 1));
        if (line[len] == '\n') {
            line[len] = '\0';
            return;
        }
    }
    fail_msg("a very long line");
}

proc *replica_start(const cli_fixture *t, const char *const *argv, char line[REPLICA_LINE_MAX])
{
    tide_error err = {.status = TIDE_OK};
    assert_true(server_count < SERVERS_MAX);
    proc *server = &servers[server_count++];
    proc_options options = cli_options(t, argv);
    options.out = PROC_PIPE;
    assert_ok_err(proc_start(server, &options, &err), &err);
    read_line(server, line);
    return server;
}

/* Serve a file of the case's directory; the address it tells. */
proc *replica_serve(const cli_fixture *t, const char *db, const char *peer,
                    char address[REPLICA_LINE_MAX])
{
    char path[TEMPDIR_PATH_MAX];
    char line[REPLICA_LINE_MAX];
    cli_path(t, db, path);
    const char *argv[] = {t->program,
                          "replica",
                          peer ? "run" : "serve",
                          path,
                          "--listen",
                          "127.0.0.1:0",
                          peer ? "--peer" : NULL,
                          peer,
                          "--every",
                          "500ms",
                          NULL};
    proc *server = replica_start(t, argv, line);
    const char *at = strstr(line, "ready grpc=");
    assert_non_null(at);
    (void)snprintf(address, REPLICA_LINE_MAX, "%s", at + strlen("ready grpc="));
    return server;
}

void replica_end(proc *server, int signal)
{
    tide_error err = {.status = TIDE_OK};
    assert_ok_err(proc_kill(server, signal, &err), &err);
    assert_ok_err(proc_wait(server, REPLICA_WAIT_MS, &err), &err);
    if (signal == SIGTERM)
        assert_int_equal(0, server->exit_code);
    proc_done(server);
}

int replica_setup(void **state)
{
    server_count = 0;
    return cli_setup(state);
}

int replica_teardown(void **state)
{
    for (int i = 0; i < server_count; i++)
        if (servers[i].pid > 0 && !proc_poll(&servers[i]))
            (void)proc_kill(&servers[i], SIGKILL, NULL);
    return cli_teardown(state);
}

/* ---- calls ---- */

cli_result replica_call(cli_fixture *t, const char *verb, const char *db, const char *word,
                        const char *option)
{
    char path[TEMPDIR_PATH_MAX];
    cli_path(t, db, path);
    if (!word)
        return cli_run(t, "replica", verb, path, "--json", NULL);
    return cli_run(t, "replica", verb, path, word, "--json", option, NULL);
}

void replica_ok(cli_fixture *t, const char *verb, const char *db, const char *word)
{
    const cli_result result = replica_call(t, verb, db, word, NULL);
    if (result.exit_code != 0)
        print_error("%s %s: %s\n", verb, db, result.err);
    assert_int_equal(0, result.exit_code);
}

void replica_assert_same_digest(cli_fixture *t, const char *a, const char *b)
{
    const cli_result x = replica_call(t, "digest", a, NULL, NULL);
    const cli_result y = replica_call(t, "digest", b, NULL, NULL);
    assert_int_equal(0, x.exit_code);
    assert_true(strlen(x.out) > 10);
    assert_string_equal(x.out, y.out);
}

/* ---- programs of others ---- */

char *replica_run_other(const cli_fixture *t, const char *const *argv)
{
    proc_result result;
    tide_error err = {.status = TIDE_OK};
    const proc_options options = cli_options(t, argv);
    assert_ok_err(proc_run(&result, &options, REPLICA_WAIT_MS, &err), &err);
    if (result.exit_code != 0)
        fail_msg("%s %s: %s%s", argv[0], argv[1], result.out, result.err);
    char *out = strdup(result.out);
    assert_non_null(out);
    proc_result_done(&result);
    return out;
}

char *replica_python(const cli_fixture *t, const char *script, const char *const *arguments)
{
    char path[PATH_MAX];
    const char *argv[ARGUMENTS_MAX] = {"/usr/bin/python3", path};
    int count = 2;
    (void)snprintf(path, sizeof path, "%s/tests/cli/replica/%s", getenv("TIDEMARK_SOURCE_DIR"),
                   script);
    for (; arguments[count - 2]; count++) {
        assert_true(count + 1 < ARGUMENTS_MAX);
        argv[count] = arguments[count - 2];
    }
    return replica_run_other(t, argv);
}

void replica_assert_identical(const cli_fixture *t, const char *const *files)
{
    char paths[SERVERS_MAX][TEMPDIR_PATH_MAX];
    const char *arguments[SERVERS_MAX + 1] = {NULL};
    for (int i = 0; files[i]; i++) {
        cli_path(t, files[i], paths[i]);
        arguments[i] = paths[i];
    }
    free(replica_python(t, "replica_check.py", arguments));
}
