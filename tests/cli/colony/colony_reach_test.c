/* The commands beside a daemon: who is reached and how, what is told when a name is wrong, and how soon a change is noticed. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/colony/colony_calls.h"
#include "colony/duckdb/duckdb_place.h"
#include "net/certificates.h"

/* ---- names ---- */

static void assert_told(cli_fixture *t, const cli_result *result, int exit_code, const char *word)
{
    cli_assert_fails(result, exit_code);
    assert_contains(result->err, word);
    proc_result_done(&t->results[--t->result_count]);
}

/* A type or an agent that there is not is a mistake, and no empty answer. */
static void names_that_are_not_there_are_told(void **state)
{
    cli_fixture *t = *state;
    const running_agent *agent = start_agent(t, "web-1");
    send_spans(agent, 1);
    poll_once(t, agent, "web-1");
    cli_result r = cli_run(t, "colony", "audit", "--data-type", "nosuch", NULL);
    assert_told(t, &r, 2, "telemetry, system_metrics");
    r = cli_run(t, "colony", "audit", "--agent", "nobody", NULL);
    assert_told(t, &r, 3, "nobody");
    r = cli_run(t, "gaps", "ls", "--agent", "nobody", NULL);
    assert_told(t, &r, 3, "nobody");
    r = cli_run(t, "gaps", "ls", "--data-type", "nosuch", NULL);
    assert_told(t, &r, 2, "beyla_http");
    r = cli_run(t, "colony", "checkpoint", "ls", "nobody", NULL);
    assert_told(t, &r, 3, "nobody");
    r = cli_run(t, "colony", "checkpoint", "show", "web-1", "nosuch", NULL);
    assert_told(t, &r, 2, "nosuch");
    r = cli_run(t, "colony", "checkpoint", "reset", "nobody", NULL);
    assert_told(t, &r, 3, "nobody");
    r = cli_run(t, "colony", "checkpoint", "set", "web-1", "nosuch", "1", NULL);
    assert_told(t, &r, 2, "nosuch");
    r = cli_run(t, "export", "--parquet", "out", "--data-type", "nosuch", NULL);
    assert_told(t, &r, 2, "nosuch");
    r = cli_run(t, "gaps", "ls", "--agent", "web-1", "--data-type", "telemetry", NULL);
    assert_int_equal(0, r.exit_code);
}

/* What is no SQL is the asker's mistake on every store; what would do more than read is refused on every store. */
static void bad_queries_have_the_same_codes_everywhere(void **state)
{
    cli_fixture *t = *state;
    const running_agent *agent = start_agent(t, "web-1");
    send_spans(agent, 1);
    poll_once(t, agent, "web-1");
    static const char *const mistakes[] = {
        "SELEC 1", "SELECT 1; SELECT 2", "SELECT FROM WHERE", "SELECT * FROM nowhere",
        "",        "-- nothing"};
    static const char *const refused[] = {"CREATE TABLE mine (x INTEGER)",
                                          "CREATE VIEW mine AS SELECT 1", "BEGIN",
                                          "DELETE FROM spans"};
    for (size_t i = 0; i < sizeof mistakes / sizeof mistakes[0]; i++) {
        const cli_result r = cli_run(t, "query", mistakes[i], NULL);
        cli_assert_fails(&r, 2);
    }
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        const cli_result r = cli_run(t, "query", refused[i], NULL);
        cli_assert_fails(&r, 2);
    }
}

/* ---- beside a daemon ---- */

/* An agent that another process has registered is polled at once, not when the leases are next looked at (five seconds). */
static void an_agent_added_by_another_process_is_polled_at_once(void **state)
{
    enum { AT_ONCE_MS = 3000, TRIES = 3 };
    cli_fixture *t = *state;
    running_agent *colony = start_colony(t, NULL);
    int64_t best_ms = INT64_MAX;
    for (int i = 0; i < TRIES && best_ms > AT_ONCE_MS; i++) { /* a busy machine may be late once */
        char name[16];
        char sql[96];
        (void)snprintf(name, sizeof name, "late-%d", i);
        const running_agent *agent = start_agent(t, name);
        send_spans(agent, 1);
        const int64_t begin_ms = proc_now_ms();
        const cli_result added = cli_run(t, "colony", "agent", "add", name, agent->grpc, NULL);
        assert_int_equal(0, added.exit_code);
        (void)snprintf(sql, sizeof sql, "SELECT count(*) AS n FROM spans WHERE agent_id = '%s'",
                       name);
        wait_for_number(t, sql, 1);
        const int64_t took_ms = proc_now_ms() - begin_ms;
        best_ms = took_ms < best_ms ? took_ms : best_ms;
    }
    if (best_ms > AT_ONCE_MS)
        fail_msg("it took %lld ms", (long long)best_ms);
    stop_colony(t, colony);
}

/* One pass beside a daemon that has the agents is the daemon's, where it can be reached: by --address, or by the address beside a file. Otherwise it says
 * who polls, and what to do, and does not claim to have polled them. */
static void one_pass_beside_a_daemon_is_the_daemons(void **state)
{
    cli_fixture *t = *state;
    const running_agent *agent = start_agent(t, "web-1");
    send_spans(agent, 1);
    running_agent *colony =
        start_colony(t, (const char *const[]){"--agent", agent_option(agent, "web-1"), NULL});
    wait_for_number(t, "SELECT count(*) AS n FROM spans", 1);
    send_spans(agent, 2);
    const cli_result there =
        cli_run(t, "colony", "poll", "--once", "--address", colony->http, "--json", NULL);
    assert_int_equal(0, there.exit_code);
    assert_contains(there.out, "\"caught_up\":1");
    assert_int_equal(3, query_number(t, "SELECT count(*) AS n FROM spans"));
    const cli_result beside = cli_run(t, "colony", "poll", "--once", NULL);
    if (strncmp(t->url, "postgres", 8) == 0) {
        assert_int_equal(6, beside.exit_code);
        assert_contains(beside.err, "another colony");
        assert_contains(beside.err, "tidemark colony agent ls");
    } else {
        assert_int_equal(0, beside.exit_code);
    }
    stop_colony(t, colony);
    const cli_result alone = cli_run(t, "colony", "poll", "--once", NULL);
    assert_int_equal(0, alone.exit_code);
}

/* Alerts on gaps have something to look at before there is a gap. */
static void gap_counters_begin_at_zero(void **state)
{
    static const char *const names[] = {"detected", "recovered", "permanent", "void"};
    cli_fixture *t = *state;
    const running_agent *agent = start_agent(t, "web-1");
    send_spans(agent, 1);
    running_agent *colony =
        start_colony(t, (const char *const[]){"--agent", agent_option(agent, "web-1"), NULL});
    wait_for_number(t, "SELECT count(*) AS n FROM spans", 1);
    char *text = running_agent_get(colony, "/metrics");
    assert_non_null(text);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char line[128];
        (void)snprintf(line, sizeof line,
                       "sequence_gaps_%s_total{agent_id=\"web-1\",data_type=\"telemetry\"} 0\n",
                       names[i]);
        assert_contains(text, line);
    }
    free(text);
    stop_colony(t, colony);
}

/* ---- a DuckDB store, which only its daemon can open ---- */

static void assert_reached(cli_fixture *t)
{
    const cli_result r = cli_run(t, "colony", "agent", "ls", "--json", NULL);
    if (r.exit_code != 0)
        fail_msg("%d: %s", r.exit_code, r.err);
    assert_contains(r.out, "somebody");
}

/* The daemon speaks TLS and demands tokens from everybody: the file beside the store says how and whom to trust, the token comes from a
 * file or the environment, and without it the words say that it is missing. */
static void a_daemon_with_tls_and_tokens_is_reached(void **state)
{
    cli_fixture *t = *state;
    certificates c;
    char cert[TEMPDIR_PATH_MAX];
    char key[TEMPDIR_PATH_MAX];
    char tokens[TEMPDIR_PATH_MAX];
    certificates_init(&c, &t->dir);
    certificates_make(&c, "server", &(certificate_spec){.dns = "localhost", .ip = "127.0.0.1"});
    cli_path(t, "server.pem", cert);
    cli_path(t, "server.key", key);
    cli_path(t, "tokens", tokens);
    cli_write_file(t, "tokens", "boss admin 0123456789abcdef0123456789abcdef\n", 44);
    cli_write_file(t, "mine", "0123456789abcdef0123456789abcdef\n", 33);
    running_agent *colony = start_colony(
        t, (const char *const[]){"--agent", "somebody=127.0.0.1:1", "--tls-cert", cert, "--tls-key",
                                 key, "--token-file", tokens, "--require-token", NULL});
    cli_result r = cli_run(t, "colony", "agent", "ls", NULL);
    assert_told(t, &r, 5, "token");
    r = cli_run(t, "colony", "agent", "ls", "--json", "--token-file", "mine", NULL);
    assert_int_equal(0, r.exit_code);
    assert_contains(r.out, "somebody");
    t->env[3] = "TIDEMARK_TOKEN=0123456789abcdef0123456789abcdef";
    assert_reached(t);
    assert_int_equal(0, query_number(t, "SELECT count(*) AS n FROM spans"));
    stop_colony(t, colony);
    certificates_done(&c);
}

/* By a socket of the file system. */
static void a_daemon_on_a_unix_socket_is_reached(void **state)
{
    cli_fixture *t = *state;
    char option[TEMPDIR_PATH_MAX + 8];
    char path[TEMPDIR_PATH_MAX];
    cli_path(t, "colony.sock", path);
    (void)snprintf(option, sizeof option, "unix:%s", path);
    proc process;
    char line[256] = "";
    const char *argv[] = {t->program,    "colony", "--store", t->url,
                          "--http",      option,   "--agent", "somebody=127.0.0.1:1",
                          "--log-level", "error",  NULL};
    proc_options options = cli_options(t, argv);
    options.out = PROC_PIPE;
    assert_ok_err(proc_start(&process, &options, &t->err), &t->err);
    assert_true(read(process.out_fd, line, sizeof line - 1) > 0);
    assert_contains(line, "ready http=unix:");
    assert_reached(t);
    assert_ok_err(proc_kill(&process, SIGTERM, &t->err), &t->err);
    assert_ok_err(proc_wait(&process, CLI_TIMEOUT_MS, &t->err), &t->err);
    proc_done(&process);
}

static int teardown(void **state)
{
    kill_all(*state);
    return cli_teardown(state);
}

#define ON(function, engine)                                                                       \
    {                                                                                              \
#function " (" engine ")", function, cli_setup, teardown, (void *)(engine)                 \
    }
#define ON_EVERY_STORE(function)                                                                   \
    ON(function, "sqlite"), ON(function, "postgres"), ON(function, "duckdb")

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        ON_EVERY_STORE(names_that_are_not_there_are_told),
        ON_EVERY_STORE(bad_queries_have_the_same_codes_everywhere),
        ON(an_agent_added_by_another_process_is_polled_at_once, "sqlite"),
        ON(an_agent_added_by_another_process_is_polled_at_once, "postgres"),
        ON(one_pass_beside_a_daemon_is_the_daemons, "sqlite"),
        ON(one_pass_beside_a_daemon_is_the_daemons, "postgres"),
        ON(one_pass_beside_a_daemon_is_the_daemons, "duckdb"),
        ON(gap_counters_begin_at_zero, "sqlite"),
        ON(a_daemon_with_tls_and_tokens_is_reached, "duckdb"),
        ON(a_daemon_on_a_unix_socket_is_reached, "duckdb"),
    };
    duckdb_place();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
