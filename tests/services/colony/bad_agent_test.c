/* Agents that others made, on real sockets (bad_agent.py): what they do wrong is contained, visible, and costs nobody else anything.
 *
 * One pass polls them all, beside one another; each case looks at what became of one. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/colony/colony_calls.h"
#include "support/json.h"

#define PYTHON "/usr/bin/python3" /* Debian's, which has Debian's python3-grpcio */

/* ---- the agents ---- */

static proc agents;
static char ports[1024]; /* the ready line */

static int start_agents(void)
{
    char script[PATH_MAX];
    tide_error err = {.status = TIDE_OK};
    (void)snprintf(script, sizeof script, "%s/tests/services/colony/bad_agent.py",
                   getenv("TIDEMARK_SOURCE_DIR"));
    const char *argv[] = {PYTHON, script, NULL};
    const proc_options options = {.argv = argv, .in = PROC_PIPE, .out = PROC_PIPE};
    assert_ok_err(proc_start(&agents, &options, &err), &err);
    for (size_t len = 0; len + 1 < sizeof ports && !strchr(ports, '\n'); len++)
        assert_int_equal(1, read(agents.out_fd, ports + len, 1));
    return 0;
}

static void stop_agents(void)
{
    tide_error err = {.status = TIDE_OK};
    TIDE_IGNORE(proc_kill(&agents, SIGKILL, &err));
    TIDE_IGNORE(proc_wait(&agents, CLI_TIMEOUT_MS, &err));
    proc_done(&agents);
}

/* HOST:PORT of the agent that does this; lives until the next call. */
static const char *find_agent(const char *mode)
{
    static char address[32];
    char key[32];
    (void)snprintf(key, sizeof key, " %s=", mode);
    const char *at = strstr(ports, key);
    assert_non_null(at);
    (void)snprintf(address, sizeof address, "127.0.0.1:%ld", strtol(at + strlen(key), NULL, 10));
    return address;
}

/* ---- one pass over all of them ---- */

static cli_fixture *shared;
static cli_result polled;

static const char *const modes[] = {"fine",  "garbage",    "sessions", "nosession", "huge",
                                    "large", "largefirst", "double",   "backwards", "above",
                                    "zero",  "future",     "unasked",  "several",   "busy"};

static int poll_all(void **state)
{
    char list[2048] = "";
    void *fixture = (void *)"sqlite";
    assert_int_equal(0, start_agents());
    assert_int_equal(0, cli_setup(&fixture));
    shared = fixture;
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++)
        (void)snprintf(list + strlen(list), sizeof list - strlen(list), "%s %s\n", modes[i],
                       find_agent(modes[i]));
    cli_write_file(shared, "agents", list, strlen(list));
    polled =
        cli_run(shared, "colony", "poll", "--once", "--grace", "100ms", "--agents", "agents", NULL);
    *state = shared;
    return 0;
}

static int stop_all(void **state)
{
    (void)state;
    void *fixture = shared;
    stop_agents();
    return cli_teardown(&fixture);
}

static int64_t number(const char *what, const char *table, const char *agent)
{
    char sql[256];
    (void)snprintf(sql, sizeof sql, "SELECT %s AS n FROM %s WHERE agent_id = '%s'", what, table,
                   agent);
    return query_number(shared, sql);
}

static void assert_spans(const char *agent, int64_t count)
{
    assert_int_equal(count, number("count(*)", "spans", agent));
    assert_int_equal(count, number("count(DISTINCT seq_id || session_id)", "spans", agent));
}

/* It is on record why nothing came of it; nothing was stored, skipped or moved. */
static void assert_refused(const char *agent, const char *why)
{
    char sql[256];
    (void)snprintf(sql, sizeof sql, "SELECT error FROM colony_agents WHERE agent_id = '%s'", agent);
    const cli_result result = cli_run(shared, "query", sql, "--csv", NULL);
    assert_contains(result.out, why);
    assert_spans(agent, 0);
    assert_int_equal(0, number("count(*)", "sequence_gaps", agent));
    assert_int_equal(0, number("coalesce(max(last_seq_id), 0)", "polling_checkpoints", agent));
    proc_result_done(&shared->results[--shared->result_count]);
}

/* ---- what became of them ---- */

/* UNIMPLEMENTED is an answer, also when it comes with the headers and a reset: the agent is not away, it is asked for what it has. */
static void an_agent_that_knows_one_call_is_polled(void **state)
{
    (void)state;
    assert_spans("fine", 2000);
}

static void bad_agents_are_told_and_the_ledger_balances(void **state)
{
    (void)state;
    assert_int_equal(6, polled.exit_code);
    const cli_result audit = cli_run(shared, "colony", "audit", "--offline", NULL);
    if (audit.exit_code != 0)
        fail_msg("%s%s", audit.out, audit.err);
}

static void garbage_is_refused(void **state)
{
    (void)state;
    assert_refused("garbage", "telemetry");
}

static void an_answer_without_a_session_is_refused(void **state)
{
    (void)state;
    assert_refused("nosession", "session");
}

static void a_number_above_the_last_one_is_refused(void **state)
{
    (void)state;
    assert_spans("above", 0);
    assert_int_equal(0, number("coalesce(max(last_seq_id), 0)", "polling_checkpoints", "above"));
}

static void a_record_with_number_0_is_kept_as_a_dead_letter(void **state)
{
    (void)state;
    assert_spans("zero", 0);
    assert_true(number("count(*)", "dead_letters", "zero") > 0);
}

/* Every answer is too large: whose fault it is cannot be known, and nothing is given up. */
static void answers_that_are_all_too_large_are_refused_and_nothing_is_skipped(void **state)
{
    (void)state;
    assert_refused("huge", "64 MiB");
}

static void an_agent_that_has_too_much_to_do_loses_nothing(void **state)
{
    (void)state;
    assert_refused("busy", "too much to do");
}

/* What each session has is stored under its own name, and the agent is not asked in a loop. */
static void another_session_each_time_is_kept_apart(void **state)
{
    (void)state;
    assert_int_equal(0, number("count(*) - count(DISTINCT session_id)", "spans", "sessions"));
    assert_true(number("count(*)", "spans", "sessions") < 100);
}

static void numbers_that_come_twice_are_stored_once(void **state)
{
    (void)state;
    assert_int_equal(0, number("count(*) - count(DISTINCT seq_id)", "spans", "double"));
}

static void numbers_out_of_order_are_all_stored(void **state)
{
    (void)state;
    assert_spans("backwards", 300);
}

static void numbers_that_were_not_asked_for_are_recognised(void **state)
{
    (void)state;
    assert_spans("unasked", 20);
    assert_spans("several", 40);
}

static void records_from_the_future_are_stored_and_the_stated_number_is_not_believed(void **state)
{
    (void)state;
    assert_spans("future", 5);
    assert_int_equal(5, number("max(last_seq_id)", "polling_checkpoints", "future"));
}

/* ---- a record that no answer can carry ---- */

static void assert_skipped(const char *agent, int seq)
{
    assert_spans(agent, 5);
    const cli_result gaps = cli_run(shared, "gaps", "ls", "--agent", agent, "--json", NULL);
    tide_json_node *gap = cli_json(&gaps);
    assert_int_equal(seq, json_number(gap, "start_seq_id"));
    assert_int_equal(seq, json_number(gap, "end_seq_id"));
    assert_string_equal("permanent", json_text(gap, "status"));
    assert_string_equal("too large", json_text(gap, "reason"));
    tide_json_tree_free(gap);
}

static void a_record_that_is_too_large_is_told_and_passed_by(void **state)
{
    (void)state;
    assert_skipped("large", 3);
    assert_contains(polled.err, "a record is too large");
    assert_contains(polled.err, "PERMANENT DATA LOSS");
}

static void a_first_record_that_is_too_large_is_told_and_passed_by(void **state)
{
    (void)state;
    assert_skipped("largefirst", 1);
}

/* ---- nothing, for ever ---- */

static int setup_daemon(void **state)
{
    *state = (void *)"sqlite";
    return cli_setup(state);
}

static int teardown_daemon(void **state)
{
    kill_all(*state);
    return cli_teardown(state);
}

static void assert_hold(const running_agent *colony)
{
    char *text = running_agent_get(colony, "/metrics");
    assert_non_null(text);
    assert_contains(text, "tidemark_colony_hold{agent_id=\"huge\",data_type=\"telemetry\",reason="
                          "\"record too large\"} 1\n");
    free(text);
}

/* More agents than the budget has room for begin an answer and do not go on. One that is well is polled at once all the same. Those that do not
 * answer, and the one whose answers are too large, are shown by name and reason. */
static void agents_that_hang_delay_nobody_and_are_visible(void **state)
{
    enum { HANGING = 40, SOON_MS = 6000 }; /* a question is given ten seconds */
    cli_fixture *t = *state;
    char list[HANGING * 64] = "";
    char path[TEMPDIR_PATH_MAX];
    for (int i = 0; i < HANGING; i++)
        (void)snprintf(list + strlen(list), sizeof list - strlen(list), "hanging-%d %s\n", i,
                       find_agent("byte"));
    (void)snprintf(list + strlen(list), sizeof list - strlen(list), "silent %s\n",
                   find_agent("silent"));
    (void)snprintf(list + strlen(list), sizeof list - strlen(list), "huge %s\n",
                   find_agent("huge"));
    cli_write_file(t, "agents", list, strlen(list));
    cli_path(t, "agents", path);
    running_agent *colony =
        start_colony(t, (const char *const[]){"--agents", path, "--budget", "4MiB", NULL});
    const int64_t begin_ms = proc_now_ms();
    const cli_result added = cli_run(t, "colony", "agent", "add", "well", find_agent("fine"), NULL);
    assert_int_equal(0, added.exit_code);
    wait_for_number(t, "SELECT count(*) AS n FROM spans", 2000);
    const int64_t took_ms = proc_now_ms() - begin_ms;
    if (took_ms > SOON_MS)
        fail_msg("it took %lld ms", (long long)took_ms);
    wait_for_number(t,
                    "SELECT count(*) AS n FROM colony_agents WHERE error LIKE '%deadline%' AND "
                    "agent_id IN ('silent', 'hanging-0')",
                    2);
    assert_hold(colony);
    stop_colony(t, colony);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_agent_that_knows_one_call_is_polled),
        cmocka_unit_test(bad_agents_are_told_and_the_ledger_balances),
        cmocka_unit_test(garbage_is_refused),
        cmocka_unit_test(an_answer_without_a_session_is_refused),
        cmocka_unit_test(a_number_above_the_last_one_is_refused),
        cmocka_unit_test(a_record_with_number_0_is_kept_as_a_dead_letter),
        cmocka_unit_test(answers_that_are_all_too_large_are_refused_and_nothing_is_skipped),
        cmocka_unit_test(an_agent_that_has_too_much_to_do_loses_nothing),
        cmocka_unit_test(another_session_each_time_is_kept_apart),
        cmocka_unit_test(numbers_that_come_twice_are_stored_once),
        cmocka_unit_test(numbers_out_of_order_are_all_stored),
        cmocka_unit_test(numbers_that_were_not_asked_for_are_recognised),
        cmocka_unit_test(records_from_the_future_are_stored_and_the_stated_number_is_not_believed),
        cmocka_unit_test(a_record_that_is_too_large_is_told_and_passed_by),
        cmocka_unit_test(a_first_record_that_is_too_large_is_told_and_passed_by),
        cmocka_unit_test_setup_teardown(agents_that_hang_delay_nobody_and_are_visible, setup_daemon,
                                        teardown_daemon),
    };
    return cmocka_run_group_tests(tests, poll_all, stop_all);
}
