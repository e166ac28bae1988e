/* tidemark check: one line, figures and the exit codes of Nagios. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "cli/colony/colony_calls.h"
#include "net/certificates.h"

static void assert_line(const cli_result *result, int exit_code, const char *words)
{
    if (result->exit_code != exit_code)
        fail_msg("want exit code %d, got %d: %s%s", exit_code, result->exit_code, result->out,
                 result->err);
    assert_contains(result->out, words);
    assert_ptr_equal(strchr(result->out, '\n'), result->out + strlen(result->out) - 1);
}

static int teardown(void **state)
{
    kill_all(*state);
    return cli_teardown(state);
}

#define CHECK_TEST(function)                                                                       \
    {                                                                                              \
#function, function, cli_setup, teardown, (void *)"sqlite"                                 \
    }

/* Three records, all of them read. */
static void a_colony_that_is_caught_up_is_fine(void **state)
{
    cli_fixture *t = *state;
    const running_agent *agent = start_agent(t, "web-1");
    send_spans(agent, 3);
    poll_once(t, agent, "web-1");
    cli_result result = cli_run(t, "check", "lag", NULL);
    assert_line(&result, 0, "TIDEMARK LAG OK - web-1 is 0.0 s behind; 1 agents | lag=0s;60;300;0 ");
    result = cli_run(t, "check", "lag", "--warning", "0s", NULL);
    assert_line(&result, 1, "TIDEMARK LAG WARNING");
    result = cli_run(t, "check", "lag", "--warning", "0s", "--critical", "0s", NULL);
    assert_line(&result, 2, "TIDEMARK LAG CRITICAL");
    result = cli_run(t, "check", "ledger", NULL);
    assert_line(&result, 0,
                "LEDGER OK - 0 numbers unexplained, 0 pending, 0 lost | unexplained=0;1;1;0");
    result = cli_run(t, "check", "gaps", NULL);
    assert_line(&result, 0,
                "GAPS OK - 0 numbers in open gaps, 0 lost since 24h | open=0;1;;0 lost=0;;1;0");
    result = cli_run(t, "check", "lag", "--json", NULL);
    tide_json_node *object = cli_json(&result);
    assert_string_equal("OK", json_text(object, "state"));
    assert_int_equal(0, json_number(object, "exit_code"));
    tide_json_tree_free(object);
}

/* Behind gaps of its own making stands an operator: what was given up by hand alarms nobody. */
static void lost_numbers_are_critical_unless_somebody_accepted_them(void **state)
{
    cli_fixture *t = *state;
    const running_agent *agent = start_agent(t, "web-1");
    send_spans(agent, 4);
    assert_int_equal(0, cli_run(t, "colony", "agent", "add", "web-1", agent->grpc, NULL).exit_code);
    poll_once(t, agent, "web-1");
    cli_sql(t, "store.db",
            "INSERT INTO sequence_gaps (agent_id, data_type, session_id, epoch, start_seq_id, "
            "end_seq_id, detected_at, status, recovery_attempts, reason, settled_at) SELECT "
            "agent_id, data_type, session_id, epoch, 1, 2, strftime('%Y-%m-%d %H:%M:%f000', "
            "'now'), 'permanent', 3, 'retention', strftime('%Y-%m-%d %H:%M:%f000', 'now') FROM "
            "polling_checkpoints WHERE data_type = 'telemetry'");
    cli_result result = cli_run(t, "check", "gaps", NULL);
    assert_line(&result, 2, "2 lost since 24h");
    result = cli_run(t, "check", "gaps", "--critical", "3", NULL);
    assert_line(&result, 0, "lost=2;;3;0");
    result = cli_run(t, "check", "gaps", "--since", "2030-01-01", NULL);
    assert_line(&result, 0, "0 lost since 2030-01-01");
    cli_sql(t, "store.db", "UPDATE sequence_gaps SET reason = 'operator'");
    result = cli_run(t, "check", "gaps", NULL);
    assert_line(&result, 0, "GAPS OK");
}

/* An agent that has not answered for long may have anything. */
static void what_an_absent_agent_has_is_not_fine(void **state)
{
    cli_fixture *t = *state;
    const running_agent *agent = start_agent(t, "web-1");
    send_spans(agent, 1);
    poll_once(t, agent, "web-1");
    cli_sql(t, "store.db", "UPDATE colony_agents SET seen_at = '2020-01-01 00:00:00.000000'");
    cli_result result = cli_run(t, "check", "lag", NULL);
    assert_line(&result, 2, "1 of 1 agents away (web-1)");
    cli_sql(t, "store.db", "UPDATE colony_agents SET seen_at = NULL");
    result = cli_run(t, "check", "lag", NULL);
    assert_line(&result, 1, "WARNING - 1 of 1 agents doubtful (web-1 is unseen)");
}

static void what_cannot_be_found_out_is_unknown(void **state)
{
    cli_fixture *t = *state;
    cli_result result = cli_run(t, "check", "lag", NULL);
    assert_line(&result, 3, "TIDEMARK LAG UNKNOWN - ");
    assert_int_equal(0, cli_run(t, "sequence", "next", "a", NULL).exit_code);
    result = cli_run(t, "check", "lag", NULL);
    assert_line(&result, 3, "no agent is known there");
    result = cli_run(t, "check", "ledger", "--address", "127.0.0.1:1", NULL);
    assert_line(&result, 3, "LEDGER UNKNOWN - http://127.0.0.1:1");
    result = cli_run(t, "check", "lag", "--warning", "soon", NULL);
    assert_line(&result, 3, "'soon' is not a duration");
    result = cli_run(t, "check", "lag", "--warning", "10m", "--critical", "1m", NULL);
    assert_line(&result, 3, "--critical must not be less than --warning");
    result = cli_run(t, "check", "lag", "--bogus", NULL);
    cli_assert_fails(&result, 3);
    result = cli_run(t, "check", "tides", NULL);
    cli_assert_fails(&result, 3);
}

static void free_space_is_looked_at_where_the_store_is(void **state)
{
    cli_fixture *t = *state;
    assert_int_equal(0, cli_run(t, "sequence", "next", "a", NULL).exit_code);
    cli_result result = cli_run(t, "check", "disk", "--warning", "1", "--critical", "1", NULL);
    assert_line(&result, 0, "store.db | free=");
    result = cli_run(t, "check", "disk", "--warning", "900TiB", "--critical", "1", NULL);
    assert_line(&result, 1, "DISK WARNING");
    result = cli_run(t, "check", "disk", "/", "--warning", "900TiB", "--critical", "800TiB", NULL);
    assert_line(&result, 2, ": / | free=");
    result = cli_run(t, "check", "disk", "--warning", "101%", NULL);
    assert_line(&result, 3, "out of range");
    result = cli_run(t, "check", "disk", "/no/such/place", NULL);
    assert_line(&result, 3, "No such file");
    result = cli_run(t, "check", "disk", "--store", "postgres://db/x", NULL);
    assert_line(&result, 3, "PostgreSQL");
}

static void certificates_are_told_before_they_end(void **state)
{
    cli_fixture *t = *state;
    certificates c;
    certificates_init(&c, &t->dir);
    certificates_make(&c, "long",
                      &(certificate_spec){.common_name = "web", .to_s = 86400 * 60 + 60});
    certificates_make(&c, "short",
                      &(certificate_spec){.common_name = "web", .to_s = 86400 * 20 + 60});
    certificates_make(
        &c, "over",
        &(certificate_spec){.common_name = "web", .from_s = -86400 * 9, .to_s = -86400 * 2});
    certificates_make(
        &c, "early",
        &(certificate_spec){.common_name = "web", .from_s = 86400 * 3 + 60, .to_s = 86400 * 90});
    cli_result result = cli_run(t, "check", "cert", "long.pem", NULL);
    assert_line(&result, 0, "CERT OK - web ends in 60 days | left=");
    result = cli_run(t, "check", "cert", "short.pem", NULL);
    assert_line(&result, 1, "web ends in 20 days");
    result =
        cli_run(t, "check", "cert", "short.pem", "--warning", "40d", "--critical", "30d", NULL);
    assert_line(&result, 2, ";3456000:;2592000:;0");
    result = cli_run(t, "check", "cert", "over.pem", NULL);
    assert_line(&result, 2, "web ended 2 days ago");
    result = cli_run(t, "check", "cert", "early.pem", NULL);
    assert_line(&result, 2, "not valid before 3 days from now");
    result = cli_run(t, "check", "cert", "long.key", NULL);
    assert_line(&result, 3, "no certificate");
    result = cli_run(t, "check", "cert", "missing.pem", NULL);
    assert_line(&result, 3, "missing.pem");
    certificates_done(&c);
}

/* Asked over the network: the certificate that the service shows, and its figures. */
static void a_service_is_checked_at_its_address(void **state)
{
    cli_fixture *t = *state;
    char cert[TEMPDIR_PATH_MAX];
    char key[TEMPDIR_PATH_MAX];
    char ca[TEMPDIR_PATH_MAX];
    char address[160];
    certificates c;
    certificates_init(&c, &t->dir);
    certificates_make(
        &c, "server",
        &(certificate_spec){.common_name = "colony", .ip = "127.0.0.1", .to_s = 86400 * 10 + 60});
    cli_path(t, "server.pem", cert);
    cli_path(t, "server.key", key);
    cli_path(t, "ca.pem", ca);
    const running_agent *agent = start_agent(t, "web-1");
    send_spans(agent, 1);
    poll_once(t, agent, "web-1");
    const char *const more[] = {"--tls-cert", cert, "--tls-key", key, NULL};
    running_agent *colony = start_colony(t, more);
    snprintf(address, sizeof address, "%s", colony->http);
    cli_result result = cli_run(t, "check", "cert", address, NULL);
    assert_line(&result, 1, "colony ends in 10 days");
    result = cli_run(t, "check", "cert", "--address", address, "--critical", "10d", NULL);
    assert_line(&result, 1, "colony ends in 10 days");
    result = cli_run(t, "check", "ledger", "--address", address, "--service-ca", ca, NULL);
    assert_line(&result, 0, "LEDGER OK");
    result = cli_run(t, "check", "ledger", "--address", address, NULL); /* no TLS */
    assert_int_equal(3, result.exit_code);
    result = cli_run(t, "check", "ready", "--address", address, "--service-ca", ca, NULL);
    assert_line(&result, 0, "is ready");
    char url[200];
    snprintf(url, sizeof url, "https://%s", address);
    result = cli_run(t, "check", "ready", url, NULL);
    assert_line(&result, 0, "READY OK");
    result = cli_run(t, "check", "ready", address, NULL); /* no TLS */
    assert_line(&result, 2, "READY CRITICAL");
    result = cli_run(t, "status", "--address", address, "--service-ca", ca, NULL);
    assert_int_equal(0, result.exit_code);
    assert_contains(result.out, "web-1");
    stop_colony(t, colony);
    certificates_done(&c);
}

static void a_service_that_is_gone_is_not_ready(void **state)
{
    cli_fixture *t = *state;
    const running_agent *agent = start_agent(t, "web-1");
    char address[160];
    snprintf(address, sizeof address, "%s", agent->http);
    cli_result result = cli_run(t, "check", "ready", address, NULL);
    assert_line(&result, 0, "READY OK");
    kill_all(t);
    result = cli_run(t, "check", "ready", address, NULL);
    assert_line(&result, 2, "READY CRITICAL");
    result = cli_run(t, "check", "ready", NULL);
    assert_line(&result, 3, "READY UNKNOWN");
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(a_colony_that_is_caught_up_is_fine),
        CHECK_TEST(lost_numbers_are_critical_unless_somebody_accepted_them),
        CHECK_TEST(what_an_absent_agent_has_is_not_fine),
        CHECK_TEST(what_cannot_be_found_out_is_unknown),
        CHECK_TEST(free_space_is_looked_at_where_the_store_is),
        CHECK_TEST(certificates_are_told_before_they_end),
        CHECK_TEST(a_service_is_checked_at_its_address),
        CHECK_TEST(a_service_that_is_gone_is_not_ready),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
