/* The colony as scripts see it: real agents, a real daemon, and the commands beside it, on every store. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/colony/colony_calls.h"
#include "colony/duckdb/duckdb_place.h"

/* ---- rows and proof ---- */

/* One row of each of the 8 tables, by one query. */
static void assert_tables(cli_fixture *t)
{
    static const char *const tables[] = {"spans",
                                         "system_metrics",
                                         "ebpf_http_metrics",
                                         "ebpf_grpc_metrics",
                                         "ebpf_sql_metrics",
                                         "ebpf_traces",
                                         "cpu_profile_samples",
                                         "memory_profile_samples"};
    enum { COUNT = sizeof tables / sizeof tables[0] };
    char sql[2048] = "";
    for (size_t i = 0; i < COUNT; i++) {
        const size_t len = strlen(sql);
        (void)snprintf(sql + len, sizeof sql - len,
                       "%sSELECT '%s' AS name, agent_id, session_id, epoch, seq_id FROM %s",
                       i > 0 ? " UNION ALL " : "", tables[i], tables[i]);
    }
    const cli_result result = cli_run(t, "query", sql, "--json", NULL);
    assert_int_equal(0, result.exit_code);
    tide_json_node *rows = json_lines(result.out);
    assert_int_equal(COUNT, tide_json_node_count(rows));
    for (size_t i = 0; i < COUNT; i++) {
        const tide_json_node *row = find_line(rows, "name", tables[i]);
        assert_non_null(row);
        assert_string_equal("web-1", json_text(row, "agent_id"));
        assert_int_equal(36, strlen(json_text(row, "session_id")));
        assert_int_equal(1, json_number(row, "epoch"));
        assert_int_equal(1, json_number(row, "seq_id"));
    }
    tide_json_tree_free(rows);
}

static void assert_ledger(const tide_json_node *line)
{
    static const char *const names[] = {"before", "dead", "filtered", "void", "lost", "pending"};
    const tide_json_node *ledger = tide_json_node_find(line, "ledger");
    assert_int_equal(1, json_number(ledger, "first"));
    assert_int_equal(json_number(ledger, "head"), json_number(ledger, "stored"));
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        assert_int_equal(0, json_number(ledger, names[i]));
    assert_true(json_is_true(tide_json_node_find(line, "balanced")));
    assert_int_equal(1, json_number(line, "epoch"));
    assert_string_equal("web-1", json_text(line, "agent_id"));
}

/* One pass stores everything that an agent has, and says so by 0; the tables of all 8 types have their columns; the ledger balances, and the agent's
 * digests are the same. A second pass changes nothing. */
static void one_pass_brings_everything_and_the_ledger_balances(void **state)
{
    cli_fixture *t = *state;
    const running_agent *agent = start_agent(t, "web-1");
    send_everything(agent);
    for (int pass = 0; pass < 2; pass++) {
        poll_once(t, agent, "web-1");
        assert_tables(t);
        const cli_result audit = cli_run(t, "colony", "audit", "--json", NULL);
        assert_int_equal(0, audit.exit_code);
        tide_json_node *lines = json_lines(audit.out);
        assert_true(tide_json_node_count(lines) >= 8);
        for (size_t i = 0; i < tide_json_node_count(lines); i++)
            assert_ledger(tide_json_node_at(lines, i));
        assert_string_equal("equal",
                            json_text(find_line(lines, "data_type", "telemetry"), "digest"));
        tide_json_tree_free(lines);
    }
    /* Without asking the agent it is the same proof, less the digests. */
    kill_all(t);
    const cli_result alone = cli_run(t, "colony", "audit", "--offline", "--json", NULL);
    assert_int_equal(0, alone.exit_code);
}

/* A row that is gone, though the ledger counts it: found, named, and told by 8. */
static void a_row_that_somebody_removed_is_found(void **state)
{
    cli_fixture *t = *state;
    const running_agent *agent = start_agent(t, "web-1");
    send_spans(agent, 3);
    poll_once(t, agent, "web-1");
    cli_sql(t, "store.db", "DELETE FROM spans_rows WHERE seq_id = 2");
    const cli_result audit = cli_run(t, "colony", "audit", "--json", NULL);
    assert_int_equal(8, audit.exit_code);
    tide_json_node *lines = json_lines(audit.out);
    const tide_json_node *line = find_line(lines, "data_type", "telemetry");
    assert_true(json_is_false(tide_json_node_find(line, "balanced")));
    assert_int_equal(2, json_number(line, "rows"));
    assert_true(strlen(json_text(line, "finding")) > 0);
    tide_json_tree_free(lines);
}

/* An agent that is away is told, by name and by the exit code, and costs the others nothing. */
static void an_agent_that_is_away_is_told_and_the_others_are_polled(void **state)
{
    cli_fixture *t = *state;
    const running_agent *agent = start_agent(t, "web-1");
    send_spans(agent, 2);
    const cli_result result =
        cli_run(t, "colony", "poll", "--once", "--json", "--agent", agent_option(agent, "web-1"),
                "--agent", "gone=127.0.0.1:1", NULL);
    assert_int_equal(6, result.exit_code);
    assert_contains(result.err, "gone");
    tide_json_node *lines = json_lines(result.out);
    assert_int_equal(2, json_number(tide_json_node_at(lines, 0), "agents"));
    assert_int_equal(1, json_number(tide_json_node_at(lines, 0), "caught_up"));
    assert_int_equal(1, json_number(tide_json_node_at(lines, 0), "failed"));
    tide_json_tree_free(lines);
    assert_int_equal(2, query_number(t, "SELECT count(*) AS n FROM spans"));
}

/* ---- the daemon ---- */

/* What an agent has acknowledged comes into the store by itself, soon; a daemon that was stopped goes on where it was. While a DuckDB store is
 * the daemon's, the same commands ask the daemon. */
static void the_daemon_follows_and_goes_on_after_a_restart(void **state)
{
    cli_fixture *t = *state;
    const running_agent *agent = start_agent(t, "web-1");
    send_spans(agent, 3);
    running_agent *colony =
        start_colony(t, (const char *const[]){"--agent", agent_option(agent, "web-1"), NULL});
    assert_int_equal(200, running_agent_http(colony, "/readyz", NULL));
    assert_int_equal(200, running_agent_http(colony, "/healthz", NULL));
    wait_for_number(t, "SELECT count(*) AS n FROM spans", 3);
    send_spans(agent, 2);
    wait_for_number(t, "SELECT count(*) AS n FROM spans", 5);
    const cli_result audit = cli_run(t, "colony", "audit", "--json", "--offline", NULL);
    assert_int_equal(0, audit.exit_code);
    const cli_result gaps = cli_run(t, "gaps", "ls", "--json", NULL);
    assert_int_equal(0, gaps.exit_code);
    assert_string_equal("", gaps.out);
    stop_colony(t, colony);
    send_spans(agent, 2);
    colony = start_colony(t, NULL); /* the agent is remembered */
    wait_for_number(t, "SELECT count(*) AS n FROM spans", 7);
    assert_int_equal(7, query_number(t, "SELECT max(seq_id) AS n FROM spans"));
    stop_colony(t, colony);
}

/* It waits for nobody's long answer: SIGTERM ends it at once, with 0. */
static void a_signal_ends_it_at_once(void **state)
{
    enum { SOON_MS = 5000 }; /* an agent is asked to hold its answer for longer */
    cli_fixture *t = *state;
    const running_agent *agent = start_agent(t, "web-1");
    send_spans(agent, 1);
    running_agent *colony =
        start_colony(t, (const char *const[]){"--agent", agent_option(agent, "web-1"), NULL});
    wait_for_number(t, "SELECT count(*) AS n FROM spans", 1);
    const int64_t begin_ms = proc_now_ms();
    stop_colony(t, colony);
    assert_true(proc_now_ms() - begin_ms < SOON_MS);
}

/* Agents come and go while the daemon runs; what was stored stays. */
static void agents_come_and_go_while_it_runs(void **state)
{
    cli_fixture *t = *state;
    const running_agent *agent = start_agent(t, "late");
    send_spans(agent, 2);
    running_agent *colony = start_colony(t, NULL);
    const cli_result added = cli_run(t, "colony", "agent", "add", "late", agent->grpc, NULL);
    assert_int_equal(0, added.exit_code);
    wait_for_number(t, "SELECT count(*) AS n FROM spans", 2);
    const cli_result list = cli_run(t, "colony", "agent", "ls", "--json", NULL);
    tide_json_node *row = cli_json(&list);
    assert_string_equal("late", json_text(row, "agent_id"));
    assert_string_equal("operator", json_text(row, "origin"));
    tide_json_tree_free(row);
    const cli_result removed = cli_run(t, "colony", "agent", "remove", "late", NULL);
    assert_int_equal(0, removed.exit_code);
    const cli_result none = cli_run(t, "colony", "agent", "ls", "--json", NULL);
    assert_string_equal("", none.out);
    const cli_result all = cli_run(t, "colony", "agent", "ls", "--all", "--json", NULL);
    row = cli_json(&all);
    assert_true(json_is_true(tide_json_node_find(row, "removed")));
    tide_json_tree_free(row);
    assert_int_equal(2, query_number(t, "SELECT count(*) AS n FROM spans"));
    const cli_result again = cli_run(t, "colony", "agent", "add", "late", agent->grpc, NULL);
    assert_int_equal(0, again.exit_code);
    send_spans(agent, 1);
    wait_for_number(t, "SELECT count(*) AS n FROM spans", 3);
    stop_colony(t, colony);
}

/* ---- what operators do ---- */

/* Read again from the start: nothing is there twice, and it is on record. */
static void a_reset_stores_nothing_twice(void **state)
{
    cli_fixture *t = *state;
    const running_agent *agent = start_agent(t, "web-1");
    send_spans(agent, 4);
    poll_once(t, agent, "web-1");
    const cli_result reset =
        cli_run(t, "colony", "checkpoint", "reset", "web-1", "telemetry", NULL);
    assert_int_equal(0, reset.exit_code);
    assert_int_equal(0, query_number(t, "SELECT last_seq_id AS n FROM polling_checkpoints WHERE "
                                        "data_type = 'telemetry'"));
    poll_once(t, agent, "web-1");
    assert_int_equal(4, query_number(t, "SELECT count(*) AS n FROM spans"));
    assert_int_equal(4, query_number(t, "SELECT last_seq_id AS n FROM polling_checkpoints WHERE "
                                        "data_type = 'telemetry'"));
    const cli_result audit = cli_run(t, "colony", "audit", "--json", NULL);
    assert_int_equal(0, audit.exit_code);
}

static tide_json_node *one_gap(cli_fixture *t)
{
    const cli_result result = cli_run(t, "gaps", "ls", "--json", NULL);
    return cli_json(&result);
}

/* Going forward by hand: what is skipped is a gap for good, an operator's; asked for again, it comes after all. */
static void a_skipped_range_is_a_gap_that_can_be_asked_for_again(void **state)
{
    static const char *const columns[] = {
        "id",          "agent_id",     "data_type", "start_seq_id",      "end_seq_id",
        "detected_at", "recovered_at", "status",    "recovery_attempts", "last_recovery_attempt",
        "session_id",  "epoch",        "reason"};
    cli_fixture *t = *state;
    const running_agent *agent = start_agent(t, "web-1");
    send_spans(agent, 2);
    poll_once(t, agent, "web-1");
    /* As if the agent had said, in its last answer, that it has more. */
    cli_sql(t, "store.db",
            "UPDATE polling_checkpoints SET head_seq_id = 5, version = version + 1 "
            "WHERE data_type = 'telemetry'");
    const cli_result set =
        cli_run(t, "colony", "checkpoint", "set", "web-1", "telemetry", "4", NULL);
    assert_int_equal(0, set.exit_code);
    tide_json_node *gap = one_gap(t);
    for (size_t i = 0; i < sizeof columns / sizeof columns[0]; i++)
        assert_non_null(tide_json_node_find(gap, columns[i]));
    assert_int_equal(3, json_number(gap, "start_seq_id"));
    assert_int_equal(4, json_number(gap, "end_seq_id"));
    assert_string_equal("permanent", json_text(gap, "status"));
    assert_string_equal("operator", json_text(gap, "reason"));
    tide_json_tree_free(gap);
    const cli_result retry = cli_run(t, "gaps", "retry", "1", "--json", NULL);
    gap = cli_json(&retry);
    assert_string_equal("detected", json_text(gap, "status"));
    tide_json_tree_free(gap);
    const cli_result accept = cli_run(t, "gaps", "accept", "1", "--why", "known", "--json", NULL);
    gap = cli_json(&accept);
    assert_string_equal("permanent", json_text(gap, "status"));
    tide_json_tree_free(gap);
    send_spans(agent, 3);
    const cli_result again = cli_run(t, "gaps", "retry", "1", NULL);
    assert_int_equal(0, again.exit_code);
    poll_once(t, agent, "web-1");
    gap = one_gap(t);
    assert_string_equal("recovered", json_text(gap, "status"));
    tide_json_tree_free(gap);
    assert_int_equal(5, query_number(t, "SELECT count(*) AS n FROM spans"));
    const cli_result audit = cli_run(t, "colony", "audit", NULL);
    assert_int_equal(0, audit.exit_code);
    const cli_result incidents = cli_run(t, "gaps", "incidents", NULL);
    assert_int_equal(0, incidents.exit_code);
}

/* How many words a line of a table has, of which none contains a space. */
static int count_words(const char *line)
{
    int count = 0;
    for (const char *at = line + strspn(line, " "); *at && *at != '\n'; count++) {
        at += strcspn(at, " \n");
        at += strspn(at, " ");
    }
    return count;
}

static void assert_table(const char *titles, const cli_result *result)
{
    char *flat = strdup(result->out);
    assert_non_null(flat);
    char *rows = strchr(flat, '\n');
    assert_non_null(rows);
    *rows++ = '\0';
    size_t len = 0;
    for (const char *at = flat; *at; at += strspn(at, " ")) { /* one space between titles */
        const size_t word = strcspn(at, " ");
        assert_int_equal(0, strncmp(titles + len, at, word));
        len += word + (titles[len + word] == ' ');
        at += word;
    }
    assert_int_equal(strlen(titles), len);
    for (const char *line = rows; *line; line = strchr(line, '\n') + 1)
        assert_int_equal(count_words(titles), count_words(line));
    free(flat);
}

/* Each cell is below its title: gaps, positions and incidents as people read them. */
static void tables_have_the_titles_of_their_cells(void **state)
{
    cli_fixture *t = *state;
    const running_agent *agent = start_agent(t, "web-1");
    send_spans(agent, 2);
    poll_once(t, agent, "web-1");
    cli_sql(t, "store.db",
            "UPDATE polling_checkpoints SET head_seq_id = 5, version = version + 1 "
            "WHERE data_type = 'telemetry'");
    const cli_result set =
        cli_run(t, "colony", "checkpoint", "set", "web-1", "telemetry", "4", NULL);
    assert_int_equal(0, set.exit_code);
    const char *gap = "ID AGENT TYPE EPOCH FROM TO STATUS REASON ATTEMPTS DETECTED";
    const cli_result gaps = cli_run(t, "gaps", "ls", NULL);
    assert_table(gap, &gaps);
    const cli_result shown = cli_run(t, "gaps", "show", "1", NULL);
    assert_table(gap, &shown);
    const cli_result positions =
        cli_run(t, "colony", "checkpoint", "ls", "web-1", "telemetry", NULL);
    assert_table("AGENT TYPE SESSION EPOCH AT HEAD PENDING LOST POLLED CLOSED", &positions);
    assert_non_null(strstr(positions.out, "web-1  telemetry"));
}

/* ---- figures ---- */

static void assert_metric(const char *text, const char *start)
{
    const char *at = strstr(text, start);
    if (!at || (at > text && at[-1] != '\n'))
        fail_msg("no line begins with %s in\n%s", start, text);
}

static void assert_promtool_agrees(const cli_fixture *t, const char *text)
{
    static const char *const argv[] = {"sh", "-c", "promtool check metrics < metrics.txt", NULL};
    proc_result result;
    tide_error err;
    cli_write_file(t, "metrics.txt", text, strlen(text));
    assert_ok_err(proc_run(&result, &(proc_options){.argv = argv, .directory = t->dir.path},
                           CLI_TIMEOUT_MS, &err),
                  &err);
    if (result.exit_code != 0)
        fail_msg("promtool: %s%s", result.out, result.err);
    proc_result_done(&result);
}

/* The metrics of the telemetry document, by its names and labels. */
static void the_metrics_have_their_names_and_labels(void **state)
{
    cli_fixture *t = *state;
    const running_agent *agent = start_agent(t, "web-1");
    send_spans(agent, 2);
    poll_once(t, agent, "web-1");
    running_agent *colony = start_colony(t, NULL);
    send_spans(agent, 1);
    wait_for_number(t, "SELECT count(*) AS n FROM spans", 3);
    char *text = running_agent_get(colony, "/metrics");
    assert_non_null(text);
    assert_metric(text, "checkpoint_lag_seconds{agent_id=\"web-1\",data_type=\"telemetry\"} ");
    assert_metric(
        text, "poll_query_duration_seconds_count{poller_type=\"telemetry\",agent_id=\"web-1\"} ");
    assert_metric(text, "tidemark_colony_lag_records{agent_id=\"web-1\",data_type=\"telemetry\"} ");
    assert_metric(text, "tidemark_colony_lag_bytes{agent_id=\"web-1\",data_type=\"telemetry\"} ");
    assert_metric(text, "tidemark_colony_unexplained_numbers 0\n");
    assert_metric(text, "tidemark_colony_agents{health=\"healthy\"} 1\n");
    assert_promtool_agrees(t, text);
    free(text);
    stop_colony(t, colony);
}

/* ---- what is refused ---- */

/* Nothing is kept of a command line that is wrong somewhere, not even the store. */
static void bad_words_are_told_and_change_nothing(void **state)
{
    cli_fixture *t = *state;
    static const char *const bad[] = {"web",      "=127.0.0.1:1", "web=",       "web=127.0.0.1",
                                      "web=:123", "web=host:0",   "web=host:x", "web=host:70000"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const cli_result result = cli_run(t, "colony", "poll", "--once", "--agent",
                                          "good=127.0.0.1:1", "--agent", bad[i], NULL);
        cli_assert_fails(&result, 2);
    }
    const cli_result twice = cli_run(t, "colony", "poll", "--once", "--agent", "a=127.0.0.1:1",
                                     "--agent", "a=127.0.0.1:2", NULL);
    cli_assert_fails(&twice, 2);
    assert_contains(twice.err, "twice");
    cli_write_file(t, "agents", "a 127.0.0.1:1\n\nb\n", 17);
    const cli_result file = cli_run(t, "colony", "poll", "--once", "--agents", "agents", NULL);
    cli_assert_fails(&file, 2);
    assert_contains(file.err, "agents:3");
    char *files = cli_list_files(t);
    assert_null(strstr(files, "store.db"));
    free(files);
    const cli_result unknown = cli_run(t, "query", "SELECT 1", NULL);
    cli_assert_fails(&unknown, 3);
    const cli_result gaps = cli_run(t, "gaps", "ls", NULL);
    cli_assert_fails(&gaps, 3);
}

static void what_is_not_there_is_told(void **state)
{
    cli_fixture *t = *state;
    const running_agent *agent = start_agent(t, "web-1");
    send_spans(agent, 1);
    poll_once(t, agent, "web-1");
    cli_result result = cli_run(t, "colony", "agent", "remove", "nobody", NULL);
    cli_assert_fails(&result, 3);
    result = cli_run(t, "gaps", "show", "77", NULL);
    cli_assert_fails(&result, 3);
    result = cli_run(t, "gaps", "accept", "one", NULL);
    cli_assert_fails(&result, 2);
    result = cli_run(t, "colony", "checkpoint", "set", "web-1", "telemetry", "99", NULL);
    cli_assert_fails(&result, 2);
    result = cli_run(t, "colony", "checkpoint", "set", "web-1", "telemetry", "-1", NULL);
    cli_assert_fails(&result, 2);
    result = cli_run(t, "colony", "checkpoint", "reset", NULL);
    cli_assert_fails(&result, 2);
    result = cli_run(t, "query", "DELETE FROM spans", NULL);
    assert_int_not_equal(0, result.exit_code);
    result = cli_run(t, "query", "SELECT 1; SELECT 2", NULL);
    cli_assert_fails(&result, 2);
    result = cli_run(t, "query", "SELECT FROM WHERE", NULL);
    cli_assert_fails(&result, 2);
    assert_int_equal(1, query_number(t, "SELECT count(*) AS n FROM spans"));
}

/* An answer that was cut says so, on stderr, and is no failure. */
static void a_cut_answer_is_told(void **state)
{
    cli_fixture *t = *state;
    const running_agent *agent = start_agent(t, "web-1");
    send_spans(agent, 3);
    poll_once(t, agent, "web-1");
    const cli_result cut =
        cli_run(t, "query", "SELECT seq_id FROM spans ORDER BY 1", "--csv", "--limit", "2", NULL);
    assert_int_equal(0, cut.exit_code);
    assert_string_equal("seq_id\n1\n2\n", cut.out);
    assert_contains(cut.err, "more than these 2 rows");
    const cli_result whole =
        cli_run(t, "query", "SELECT seq_id FROM spans ORDER BY 1", "--csv", "--limit", "3", NULL);
    assert_string_equal("", whole.err);
}

/* Agents from a file, with comments and both ways of writing. */
static void agents_from_a_file(void **state)
{
    cli_fixture *t = *state;
    char text[256];
    const running_agent *agent = start_agent(t, "web-1");
    send_spans(agent, 1);
    (void)snprintf(text, sizeof text, "# ours\n\n  web-1 \t %s  # here\r\n", agent->grpc);
    cli_write_file(t, "agents", text, strlen(text));
    const cli_result result = cli_run(t, "colony", "poll", "--once", "--agents", "agents", NULL);
    assert_int_equal(0, result.exit_code);
    const cli_result list = cli_run(t, "colony", "agent", "ls", "--json", NULL);
    tide_json_node *row = cli_json(&list);
    assert_string_equal("file", json_text(row, "origin"));
    tide_json_tree_free(row);
}

/* ---- files ---- */

/* Each row goes into one file, once. */
static void an_export_writes_every_row_once(void **state)
{
    cli_fixture *t = *state;
    const running_agent *agent = start_agent(t, "web-1");
    send_spans(agent, 3);
    poll_once(t, agent, "web-1");
    const cli_result first = cli_run(t, "export", "--parquet", "out", "--json", NULL);
    tide_json_node *file = cli_json(&first);
    assert_int_equal(3, json_number(file, "rows"));
    assert_string_equal("telemetry", json_text(file, "data_type"));
    tide_json_tree_free(file);
    const cli_result nothing = cli_run(t, "export", "--parquet", "out", "--json", NULL);
    assert_int_equal(0, nothing.exit_code);
    assert_string_equal("", nothing.out);
    send_spans(agent, 2);
    poll_once(t, agent, "web-1");
    const cli_result more = cli_run(t, "export", "--parquet", "out", "--json", NULL);
    file = cli_json(&more);
    assert_int_equal(4, json_number(file, "first_seq_id"));
    assert_int_equal(2, json_number(file, "rows"));
    tide_json_tree_free(file);
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
        ON_EVERY_STORE(one_pass_brings_everything_and_the_ledger_balances),
        ON(a_row_that_somebody_removed_is_found, "sqlite"),
        ON(an_agent_that_is_away_is_told_and_the_others_are_polled, "sqlite"),
        ON_EVERY_STORE(the_daemon_follows_and_goes_on_after_a_restart),
        ON(a_signal_ends_it_at_once, "sqlite"),
        ON_EVERY_STORE(agents_come_and_go_while_it_runs),
        ON_EVERY_STORE(a_reset_stores_nothing_twice),
        ON(a_skipped_range_is_a_gap_that_can_be_asked_for_again, "sqlite"),
        ON(tables_have_the_titles_of_their_cells, "sqlite"),
        ON(the_metrics_have_their_names_and_labels, "sqlite"),
        ON(bad_words_are_told_and_change_nothing, "sqlite"),
        ON_EVERY_STORE(what_is_not_there_is_told),
        ON_EVERY_STORE(a_cut_answer_is_told),
        ON(agents_from_a_file, "sqlite"),
        ON(an_export_writes_every_row_once, "sqlite"),
        ON(an_export_writes_every_row_once, "duckdb"),
    };
    duckdb_place();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
