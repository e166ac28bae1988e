/* What every daemon shows the world, on the real program: metrics that are fed, web pages that are kept out, options whose
 * mistakes are named, background steps that run. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "net/http/limits.h"
#include "support/check.h"
#include "support/clock/fair_clock.h"
#include "support/process/proc.h"
#include "support/tempdir.h"

enum { WORDS_MAX = 32, WORD_MAX = 1024, READY_MS = 60000, RUN_MS = 30000 };

typedef struct front_test {
    tempdir dir;
    char store[TEMPDIR_PATH_MAX];
    char program[PATH_MAX];
    proc daemon;
    char url[256];
    tide_error err;
} front_test;

static int setup(void **state)
{
    front_test *t = calloc(1, sizeof *t);
    assert_non_null(t);
    t->daemon = (proc){.in_fd = -1, .out_fd = -1, .err_fd = -1};
    assert_ok_err(tempdir_make(&t->dir, &t->err), &t->err);
    tempdir_join(&t->dir, "store.db", t->store);
    assert_ok_err(proc_find("tidemark", t->program, &t->err), &t->err);
    *state = t;
    return 0;
}

static int teardown(void **state)
{
    front_test *t = *state;
    if (t->daemon.pid > 0) {
        (void)proc_kill(&t->daemon, SIGTERM, &t->err);
        assert_ok_err(proc_wait(&t->daemon, RUN_MS, &t->err), &t->err);
        assert_int_equal(0, t->daemon.exit_code);
    }
    proc_done(&t->daemon);
    assert_ok_err(tempdir_remove(&t->dir, &t->err), &t->err);
    free(t);
    return 0;
}

static void fill_words(const front_test *t, const char *out[WORDS_MAX], const char *const *more)
{
    const char *const first[] = {t->program, "serve",    "--store",
                                 t->store,   "--listen", "127.0.0.1:0"};
    size_t count = 0;
    for (size_t i = 0; i < sizeof first / sizeof first[0]; i++)
        out[count++] = first[i];
    for (; more && *more; more++) {
        assert_true(count + 1 < WORDS_MAX);
        out[count++] = *more;
    }
    out[count] = NULL;
}

/* `tidemark serve`; log_path NULL: its log is the test's. */
static void start(front_test *t, const char *const *more, const char *log_path)
{
    const char *argv[WORDS_MAX];
    fill_words(t, argv, more);
    const proc_options options = {.argv = argv,
                                  .out = PROC_PIPE,
                                  .err = log_path ? PROC_FILE : PROC_INHERIT,
                                  .err_path = log_path};
    assert_ok_err(proc_start(&t->daemon, &options, &t->err), &t->err);
    char line[512] = "";
    for (size_t len = 0; len + 1 < sizeof line && !strchr(line, '\n'); len++) {
        assert_true(fair_wait_fd(t->daemon.out_fd, fair_clock_ms() + READY_MS));
        assert_int_equal(1, read(t->daemon.out_fd, line + len, 1));
    }
    const char *address = strchr(line, '=');
    assert_non_null(address);
    (void)snprintf(t->url, sizeof t->url, "http://%.*s", (int)strcspn(address + 1, " \n"),
                   address + 1);
}

/* It does not start: what it says. To be freed. */
static char *fail_to_start(front_test *t, const char *const *more, int *exit_code)
{
    const char *argv[WORDS_MAX];
    fill_words(t, argv, more);
    proc_result result = {0};
    assert_ok_err(proc_run(&result, &(proc_options){.argv = argv}, RUN_MS, &t->err), &t->err);
    *exit_code = result.exit_code;
    char *said = TIDE_TAKE(result.err);
    proc_result_done(&result);
    return said;
}

/* curl with these words in front of the url: what it prints. To be freed. */
static char *ask(front_test *t, const char *path, const char *const *more)
{
    char url[WORD_MAX];
    (void)snprintf(url, sizeof url, "%s%s", t->url, path);
    const char *argv[WORDS_MAX] = {"curl", "-sS", "-m", "20"};
    size_t count = 4;
    for (; more && *more; more++) {
        assert_true(count + 2 < WORDS_MAX);
        argv[count++] = *more;
    }
    argv[count++] = url;
    argv[count] = NULL;
    proc_result result = {0};
    assert_ok_err(proc_run(&result, &(proc_options){.argv = argv}, RUN_MS, &t->err), &t->err);
    assert_int_equal(0, result.exit_code);
    char *said = TIDE_TAKE(result.out);
    proc_result_done(&result);
    return said;
}

static void assert_code(front_test *t, const char *code, const char *path, const char *field)
{
    char *said =
        ask(t, path, (const char *[]){"-o", "/dev/null", "-w", "%{http_code}", "-H", field, NULL});
    assert_string_equal(code, said);
    free(said);
}

static void calls_and_refusals_are_in_the_figures(void **state)
{
    front_test *t = *state;
    start(t, NULL, NULL);
    assert_code(t, "401", "/metrics", "authorization: Bearer tide_nobody");
    assert_code(t, "403", "/metrics", "host: evil.example");
    assert_code(t, "403", "/metrics", "origin: http://evil.example");
    assert_code(t, "200", "/healthz", "x: y");
    char *text = ask(t, "/metrics", NULL);
    assert_contains(text, "tidemark_auth_failures_total{reason=\"unauthenticated\"} 1\n");
    assert_contains(text, "tidemark_auth_failures_total{reason=\"denied\"} 2\n");
    assert_contains(text, "tidemark_auth_failures_total{reason=\"guessing\"} 0\n");
    assert_contains(text, "tidemark_auth_failures_total{reason=\"unchecked\"} 0\n");
    assert_contains(text, "tidemark_rpc_duration_seconds_count{method=\"/healthz\"} 1\n");
    assert_contains(text, "tidemark_rpc_duration_seconds_count{method=\"/metrics\"} 3\n");
    assert_contains(text, "tidemark_log_lost_lines_total 0\n");
    free(text);
}

static void lines_that_the_log_lost_are_in_the_figures(void **state)
{
    front_test *t = *state;
    start(t, NULL, "/dev/full");
    for (int i = 0; i < 2; i++) { /* counted once, however often somebody looks */
        char *text = ask(t, "/metrics", NULL);
        assert_contains(text, "tidemark_log_lost_lines_total 1\n");
        free(text);
    }
}

/* Who shows no token calls us by an address, as localhost, or by a name that an option gives. */
static void a_name_has_to_be_known_to_be_this_machine(void **state)
{
    front_test *t = *state;
    start(t, (const char *[]){"--allow-host", "tide.internal", "--allow-host", "other", NULL},
          NULL);
    assert_code(t, "200", "/metrics", "host: localhost:1234");
    assert_code(t, "200", "/metrics", "host: tide.internal");
    assert_code(t, "200", "/metrics", "host: OTHER:80");
    assert_code(t, "403", "/metrics", "host: tide.internal.example");
    char *said = ask(t, "/metrics", (const char *[]){"-H", "host: evil.example", NULL});
    assert_contains(said, "'evil.example' is not known to be this machine");
    assert_contains(said, "--allow-host");
    free(said);
    said = ask(t, "/metrics",
               (const char *[]){"-H", "host: other", "-H", "origin: http://other", "-H",
                                "origin: http://evil.example", NULL});
    assert_contains(said, "several origins");
    free(said);
}

static void a_name_that_cannot_be_a_hosts_is_the_options_fault(void **state)
{
    front_test *t = *state;
    int exit_code;
    char *said = fail_to_start(t, (const char *[]){"--allow-host", "http://x", NULL}, &exit_code);
    assert_int_equal(TIDE_EXIT_USAGE, exit_code);
    assert_contains(said, "--allow-host");
    assert_contains(said, "'http://x' is not the name of a host");
    free(said);
}

static void a_file_that_is_not_there_is_the_options_fault(void **state)
{
    front_test *t = *state;
    static const char *const rows[][3] = {{"--tls-cert", "/none/cert.pem", NULL},
                                          {"--token-file", "/none/tokens", NULL}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int exit_code;
        char *said = fail_to_start(t, rows[i], &exit_code);
        assert_int_equal(TIDE_EXIT_USAGE, exit_code);
        assert_contains(said, rows[i][0]);
        assert_contains(said, rows[i][1]);
        assert_null(strstr(said, "--store")); /* it has nothing to do with the store */
        free(said);
    }
}

/* Every limit can be set: a wrong name lists them all, each takes its own standard value. */
static void every_limit_of_the_network_is_an_option(void **state)
{
    front_test *t = *state;
    int exit_code;
    char *said = fail_to_start(t, (const char *[]){"--net-limit", "nothing=1", NULL}, &exit_code);
    assert_int_equal(TIDE_EXIT_USAGE, exit_code);
    size_t count;
    const tide_net_limit_row *rows = tide_net_limit_rows(&count);
    for (size_t i = 0; i < count; i++) {
        assert_contains(said, rows[i].name);
        char word[128];
        char *wrong;
        (void)snprintf(word, sizeof word, "%s=-1", rows[i].name);
        wrong = fail_to_start(t, (const char *[]){"--net-limit", word, NULL}, &exit_code);
        assert_int_equal(TIDE_EXIT_USAGE, exit_code);
        assert_contains(wrong, rows[i].name);
        free(wrong);
    }
    free(said);
}

/* ---- steps ---- */

/* A command on the store of the daemon: what it prints, without the end of the line. To be freed. */
static char *run_command(front_test *t, const char *const *more, int *exit_code)
{
    const char *argv[WORDS_MAX] = {t->program};
    size_t count = 1;
    for (; *more; more++)
        argv[count++] = *more;
    argv[count++] = "--store";
    argv[count++] = t->store;
    argv[count] = NULL;
    proc_result result = {0};
    assert_ok_err(proc_run(&result, &(proc_options){.argv = argv}, RUN_MS, &t->err), &t->err);
    *exit_code = result.exit_code;
    char *said = TIDE_TAKE(result.out);
    proc_result_done(&result);
    said[strcspn(said, "\n")] = '\0';
    return said;
}

static char *run_well(front_test *t, const char *const *more)
{
    int exit_code = 0;
    char *said = run_command(t, more, &exit_code);
    assert_int_equal(0, exit_code);
    return said;
}

static int64_t read_swept(front_test *t, const char *result)
{
    char name[128];
    char *text = ask(t, "/metrics", NULL);
    (void)snprintf(name, sizeof name, "\ntidemark_swept_items_total{result=\"%s\"} ", result);
    const char *at = strstr(text, name);
    const int64_t value = at ? strtoll(at + strlen(name), NULL, 10) : 0;
    free(text);
    return value;
}

static void await_swept(front_test *t, const char *result, int64_t count)
{
    const int64_t until_ms = fair_clock_ms() + RUN_MS;
    while (read_swept(t, result) < count && fair_clock_ms() < until_ms)
        (void)usleep(20000);
    assert_true(read_swept(t, result) >= count);
}

/* No worker and no command sweeps here: the daemon has to. */
static void check_sweep(front_test *t, const char *const *options)
{
    start(t, options, NULL);
    char *task = run_well(t, (const char *[]){"task", "create", "a", NULL});
    free(run_well(t, (const char *[]){"work", "add", "--task", task, "--type", "x", NULL}));
    free(run_well(t, (const char *[]){"work", "claim", "--type", "x", "--worker", "dead", "--lease",
                                      "1s", NULL}));
    await_swept(t, "requeued", 1);
    free(run_well(t, (const char *[]){"work", "claim", "--type", "x", "--worker", "next", NULL}));
    free(run_well(t, (const char *[]){"schedule", "add", "often", "--task", task, "--type", "y",
                                      "--every", "1s", NULL}));
    await_swept(t, "scheduled", 3);
    free(task);
    char *text = ask(t, "/metrics", NULL);
    assert_contains(text, "tidemark_step_last_success_timestamp_seconds{step=\"sweep\"} ");
    assert_contains(text, "tidemark_step_failures_total{step=\"sweep\"} 0\n");
    assert_contains(text, "tidemark_step_failures_total{step=\"clean_items\"} 0\n");
    free(text);
}

static void serve_takes_over_an_item_and_fires_a_schedule_by_itself(void **state)
{
    check_sweep(*state, NULL);
}

/* It would sleep for a minute: what is due earlier wakes it. */
static void what_is_due_earlier_wakes_the_sweep(void **state)
{
    check_sweep(*state, (const char *[]){"--sweep", "60s", NULL});
}

#define FRONT_CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        FRONT_CASE(calls_and_refusals_are_in_the_figures),
        FRONT_CASE(lines_that_the_log_lost_are_in_the_figures),
        FRONT_CASE(a_name_has_to_be_known_to_be_this_machine),
        FRONT_CASE(a_name_that_cannot_be_a_hosts_is_the_options_fault),
        FRONT_CASE(a_file_that_is_not_there_is_the_options_fault),
        FRONT_CASE(every_limit_of_the_network_is_an_option),
        FRONT_CASE(serve_takes_over_an_item_and_fires_a_schedule_by_itself),
        FRONT_CASE(what_is_due_earlier_wakes_the_sweep),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
