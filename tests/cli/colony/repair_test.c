/* colony repair, checkpoint reset and trace show as scripts see them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/colony/colony_calls.h"
#include "colony/duckdb/duckdb_place.h"

#define TRACE "5b8efff798038103d269b633813fc60c" /* of send_spans */

static void deleted_rows_are_restored(void **state)
{
    cli_fixture *t = *state;
    const running_agent *agent = start_agent(t, "web-1");
    send_spans(agent, 5);
    poll_once(t, agent, "web-1");
    const cli_result whole = cli_run(t, "colony", "repair", "--json", NULL);
    assert_int_equal(0, whole.exit_code);
    assert_string_equal("", whole.out);
    cli_sql(t, "store.db", "DELETE FROM spans_rows WHERE seq_id IN (2, 5)");
    const cli_result result = cli_run(t, "colony", "repair", "--agent", "web-1", "--json", NULL);
    assert_int_equal(0, result.exit_code);
    tide_json_node *line = cli_json(&result);
    assert_string_equal("web-1", json_text(line, "agent_id"));
    assert_string_equal("telemetry", json_text(line, "data_type"));
    assert_int_equal(2, json_number(line, "restored"));
    assert_int_equal(0, json_number(line, "missing"));
    tide_json_tree_free(line);
    assert_int_equal(5, query_number(t, "SELECT count(*) AS n FROM spans"));
    assert_int_equal(0, cli_run(t, "colony", "audit", NULL).exit_code);
}

static void a_reset_restores_deleted_rows(void **state)
{
    cli_fixture *t = *state;
    const running_agent *agent = start_agent(t, "web-1");
    send_spans(agent, 5);
    poll_once(t, agent, "web-1");
    const int64_t counted = query_number(t, "SELECT sum(count) AS n FROM spans_1m");
    cli_sql(t, "store.db", "DELETE FROM spans_rows");
    assert_int_equal(0, cli_run(t, "colony", "checkpoint", "reset", "web-1", NULL).exit_code);
    poll_once(t, agent, "web-1");
    assert_int_equal(5, query_number(t, "SELECT count(*) AS n FROM spans"));
    assert_int_equal(counted, query_number(t, "SELECT sum(count) AS n FROM spans_1m"));
    assert_int_equal(0, cli_run(t, "colony", "audit", NULL).exit_code);
}

static void what_cannot_be_had_is_8(void **state)
{
    cli_fixture *t = *state;
    const running_agent *agent = start_agent(t, "web-1");
    send_spans(agent, 5);
    poll_once(t, agent, "web-1");
    kill_all(t);
    cli_sql(t, "store.db", "DELETE FROM spans_rows WHERE seq_id = 2");
    const cli_result result = cli_run(t, "colony", "repair", "--json", NULL);
    assert_int_equal(8, result.exit_code);
    tide_json_node *lines = json_lines(result.out);
    assert_int_equal(1, tide_json_node_count(lines));
    const tide_json_node *line = tide_json_node_at(lines, 0);
    assert_int_equal(0, json_number(line, "restored"));
    assert_int_equal(1, json_number(line, "missing"));
    assert_true(strlen(json_text(line, "reason")) > 0);
    tide_json_tree_free(lines);
}

static void a_trace_is_shown_and_an_unknown_one_is_3(void **state)
{
    cli_fixture *t = *state;
    const running_agent *agent = start_agent(t, "web-1");
    send_spans(agent, 2);
    poll_once(t, agent, "web-1");
    const cli_result result = cli_run(t, "trace", "show", TRACE, "--json", NULL);
    assert_int_equal(0, result.exit_code);
    tide_json_node *rows = json_lines(result.out);
    assert_int_equal(2, tide_json_node_count(rows));
    const tide_json_node *row = tide_json_node_at(rows, 1);
    assert_string_equal("spans", json_text(row, "source"));
    assert_string_equal("web", json_text(row, "service_name"));
    assert_string_equal("GET /", json_text(row, "name"));
    assert_string_equal("eee19b7ec3c1b174", json_text(row, "span_id"));
    assert_int_equal(2, json_number(row, "seq_id"));
    assert_int_equal(250000, json_number(row, "duration_us"));
    tide_json_tree_free(rows);
    assert_contains(cli_run(t, "trace", "show", TRACE, NULL).out, "GET /");
    assert_int_equal(3, cli_run(t, "trace", "show", "none", NULL).exit_code);
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

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        ON(deleted_rows_are_restored, "sqlite"),
        ON(a_reset_restores_deleted_rows, "sqlite"),
        ON(what_cannot_be_had_is_8, "sqlite"),
        ON(a_trace_is_shown_and_an_unknown_one_is_3, "sqlite"),
        ON(a_trace_is_shown_and_an_unknown_one_is_3, "postgres"),
        ON(a_trace_is_shown_and_an_unknown_one_is_3, "duckdb"),
    };
    duckdb_place();
    return cmocka_run_group_tests_name("cli-colony-repair", tests, NULL, NULL);
}
