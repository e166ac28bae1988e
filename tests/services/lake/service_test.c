/* tidemark.lake.v1 of the real program, on SQLite and PostgreSQL, asked by a client of others (python3-grpcio; lake_client.py has the questions). Every case ends with the
 * history checker. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cli/cli_run.h"
#include "support/clock/fair_clock.h"
#include "support/json.h"

#define PYTHON "/usr/bin/python3" /* Debian's, which has Debian's python3-grpcio */
#define READY "ready listen="

enum { LINE_MAX_LEN = 256, WAIT_MS = 60000, CLIENT_MS = 240000 };

typedef struct server {
    proc process;
    char address[LINE_MAX_LEN];
} server;

/* Those of the case: ended with it, however it ends. */
static server servers[2];
static int server_count;

static int teardown(void **state)
{
    while (server_count > 0)
        proc_done(&servers[--server_count].process);
    return cli_teardown(state);
}

/* ---- processes ---- */

static bool has_client(void)
{
    TIDE_CLEANUP(proc_result_done) proc_result result = {0};
    const char *const argv[] = {PYTHON, "-c", "import grpc, google.protobuf", NULL};
    const proc_options options = {.argv = argv};
    return proc_run(&result, &options, WAIT_MS, NULL) == TIDE_OK && result.exit_code == 0;
}

static void need_client(void)
{
    if (has_client())
        return;
    assert_false(check_is_ci());
    skip();
}

static void read_line(const proc *process, char line[LINE_MAX_LEN])
{
    const int64_t until_ms = proc_now_ms() + WAIT_MS;
    for (size_t len = 0; len + 1 < LINE_MAX_LEN; len++) {
        assert_true(fair_wait_fd(process->out_fd, until_ms));
        assert_int_equal(1, read(process->out_fd, line + len, 1));
        if (line[len] == '\n') {
            line[len] = '\0';
            return;
        }
    }
    fail_msg("a very long line");
}

static server *start(cli_fixture *t, const char *const *argv)
{
    char line[LINE_MAX_LEN];
    assert_true((size_t)server_count < sizeof servers / sizeof servers[0]);
    server *s = &servers[server_count++];
    *s = (server){0};
    proc_options options = cli_options(t, argv);
    options.out = PROC_PIPE;
    assert_ok_err(proc_start(&s->process, &options, &t->err), &t->err);
    read_line(&s->process, line);
    assert_int_equal(0, strncmp(line, READY, strlen(READY)));
    (void)snprintf(s->address, sizeof s->address, "%s", line + strlen(READY));
    return s;
}

static server *serve(cli_fixture *t, const char *option, const char *value)
{
    const char *const argv[] = {t->program, "lake",        "serve", "--data", "data",
                                "--listen", "127.0.0.1:0", option,  value,    NULL};
    return start(t, argv);
}

/* The program ends in good order. */
static void stop(cli_fixture *t, server *s)
{
    (void)kill(s->process.pid, SIGTERM);
    assert_ok_err(proc_wait(&s->process, WAIT_MS, &t->err), &t->err);
    assert_int_equal(0, s->process.exit_code);
}

static void ask(cli_fixture *t, const server *s, const char *what, const char *more,
                const char *even_more)
{
    char script[1024];
    (void)snprintf(script, sizeof script, "%s/tests/services/lake/lake_client.py",
                   getenv("TIDEMARK_SOURCE_DIR"));
    const char *const argv[] = {PYTHON, script, s->address, what, more, even_more, NULL};
    const proc_options options = {.argv = argv};
    TIDE_CLEANUP(proc_result_done) proc_result result = {0};
    assert_ok_err(proc_run(&result, &options, CLIENT_MS, &t->err), &t->err);
    const size_t len = strlen(result.err);
    if (result.exit_code != 0) /* the end of a traceback says what it was */
        fail_msg("%s%s", result.out, result.err + (len > 600 ? len - 600 : 0));
}

static void assert_sound(cli_fixture *t)
{
    const cli_result verdict = cli_run(t, "lake", "verify", NULL);
    if (verdict.exit_code != 0)
        fail_msg("%s%s", verdict.out, verdict.err);
}

/* ---- cases ---- */

/* Changes, looks, conflicts with what collided and who, request keys, streams, watches, bad input, JSON: each as it is described. At last the server is told to end while
 * somebody watches: he is sent away. */
static void every_method_serves_a_foreign_client(void **state)
{
    cli_fixture *t = *state;
    char data[TEMPDIR_PATH_MAX];
    char pid[32];
    need_client();
    server *s = serve(t, NULL, NULL);
    cli_path(t, "data", data);
    (void)snprintf(pid, sizeof pid, "%ld", (long)s->process.pid);
    ask(t, s, "all", data, pid);
    stop(t, s);
    assert_sound(t);
}

/* With one DuckDB for all: a query, and a delete, whose caller leaves or whose deadline passes, are stopped, and change nothing. */
static void a_caller_who_leaves_makes_room(void **state)
{
    cli_fixture *t = *state;
    need_client();
    server *s = serve(t, "--desks", "1");
    ask(t, s, "leaving", NULL, NULL);
    stop(t, s);
    assert_sound(t);
}

/* The server is killed when the commit is there and nobody knows: the same key is answered with that snapshot, and there is no second one. */
static void a_lost_answer_is_found_by_its_key(void **state)
{
    cli_fixture *t = *state;
    char helper[PATH_MAX];
    char data[TEMPDIR_PATH_MAX];
    need_client();
    assert_ok_err(proc_find("lake-dying-server", helper, &t->err), &t->err);
    cli_path(t, "data", data);
    const char *const argv[] = {helper, t->url, data, NULL};
    server *dying = start(t, argv);
    ask(t, dying, "lost", NULL, NULL);
    assert_ok_err(proc_wait(&dying->process, WAIT_MS, &t->err), &t->err);
    assert_int_not_equal(0, dying->process.exit_code);
    server *other = serve(t, NULL, NULL);
    ask(t, other, "found", NULL, NULL);
    stop(t, other);
    assert_sound(t);
}

static void make_token(cli_fixture *t, const char *name, const char *role, char out[LINE_MAX_LEN])
{
    const cli_result made = cli_run(t, "token", "create", name, "--role", role, "--json", NULL);
    tide_json_node *object = cli_json(&made);
    (void)snprintf(out, LINE_MAX_LEN, "%s", json_text(object, "token"));
    tide_json_tree_free(object);
}

static void a_reader_may_only_read(void **state)
{
    cli_fixture *t = *state;
    char reader[LINE_MAX_LEN];
    char writer[LINE_MAX_LEN];
    char admin[LINE_MAX_LEN];
    need_client();
    make_token(t, "guest", "read", reader);
    make_token(t, "scribe", "write", writer);
    make_token(t, "keeper", "admin", admin);
    server *s = serve(t, "--require-token", NULL);
    assert_int_equal(0, setenv("LAKE_TOKEN", reader, 1));
    ask(t, s, "roles", writer, admin);
    assert_int_equal(0, unsetenv("LAKE_TOKEN"));
    stop(t, s);
    assert_sound(t);
}

/* Without a metabase there is nothing to serve, and the words say how to make one. */
static void a_store_without_a_metabase_is_refused(void **state)
{
    cli_fixture *t = *state;
    assert_int_equal(0, cli_run(t, "sequence", "next", "n", NULL).exit_code);
    const cli_result result = cli_run(t, "lake", "serve", "--listen", "127.0.0.1:0", NULL);
    cli_assert_fails(&result, 3);
    assert_contains(result.err, "lake init");
}

#define CASE(function, engine)                                                                     \
    {                                                                                              \
#function " (" engine ")", function, cli_setup, teardown, (void *)(engine)                 \
    }
#define CASE_EVERY_ENGINE(function) CASE(function, "sqlite"), CASE(function, "postgres")

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        CASE_EVERY_ENGINE(every_method_serves_a_foreign_client),
        CASE_EVERY_ENGINE(a_lost_answer_is_found_by_its_key),
        CASE(a_caller_who_leaves_makes_room, "sqlite"),
        CASE(a_reader_may_only_read, "sqlite"),
        CASE(a_store_without_a_metabase_is_refused, "sqlite"),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
