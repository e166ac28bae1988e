/* A colony's rows in tables of a lake: each row once, also late ones, also when the export is killed at any moment. */
#include "cli/colony/colony_calls.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "colony/duckdb/duckdb_place.h"

/* A colony with an agent, and a lake in the colony's own store. */
static const running_agent *begin(cli_fixture *t)
{
    const running_agent *agent = start_agent(t, "web-1");
    const cli_result made = cli_run(t, "lake", "init", "--data", "lake", NULL);
    assert_int_equal(0, made.exit_code);
    return agent;
}

/* The agent has so many spans more, and the colony too. */
static void collect(cli_fixture *t, const running_agent *agent, int spans)
{
    send_spans(agent, spans);
    poll_once(t, agent, "web-1");
}

static cli_result export_rows(cli_fixture *t)
{
    return cli_run(t, "export", "--lake", t->url, "--catalog", "colony", "--schema", "telemetry",
                   "--create", "--json", NULL);
}

static void export_all(cli_fixture *t)
{
    const cli_result result = export_rows(t);
    if (result.exit_code != 0)
        fail_msg("export: %d: %s%s", result.exit_code, result.out, result.err);
}

static int64_t lake_number(cli_fixture *t, const char *sql)
{
    const cli_result result = cli_run(t, "lake", "query", sql, "--json", NULL);
    tide_json_node *row = cli_json(&result);
    const int64_t number = json_number(row, "n");
    tide_json_tree_free(row);
    proc_result_done(&t->results[--t->result_count]);
    return number;
}

static void assert_spans(cli_fixture *t, int64_t count)
{
    assert_int_equal(count, lake_number(t, "SELECT count(*) AS n FROM colony.telemetry.spans"));
    assert_int_equal(
        count, lake_number(t, "SELECT count(DISTINCT seq_id) AS n FROM colony.telemetry.spans"));
    assert_int_equal(count, lake_number(t, "SELECT max(seq_id) AS n FROM colony.telemetry.spans"));
}

static void assert_sound(cli_fixture *t)
{
    const cli_result verified = cli_run(t, "lake", "verify", NULL);
    if (verified.exit_code != 0)
        fail_msg("lake verify: %d: %s%s", verified.exit_code, verified.out, verified.err);
}

static void every_row_comes_once(void **state)
{
    cli_fixture *t = *state;
    const running_agent *agent = begin(t);
    collect(t, agent, 3);
    const cli_result first = export_rows(t);
    tide_json_node *range = cli_json(&first);
    assert_string_equal("spans", json_text(range, "table"));
    assert_int_equal(3, json_number(range, "rows"));
    assert_true(json_number(range, "snapshot_id") > 0);
    tide_json_tree_free(range);
    const cli_result nothing = export_rows(t);
    assert_int_equal(0, nothing.exit_code);
    assert_string_equal("", nothing.out);
    collect(t, agent, 2);
    export_all(t);
    assert_spans(t, 5);
    assert_sound(t);
}

/* The hint is gone, the files are gone: the keys know. */
static void what_was_forgotten_is_found_by_its_key(void **state)
{
    cli_fixture *t = *state;
    const running_agent *agent = begin(t);
    collect(t, agent, 2);
    export_all(t);
    char hint[TEMPDIR_PATH_MAX];
    cli_path(t, "lake/.exports", hint);
    char command[2 * TEMPDIR_PATH_MAX];
    (void)snprintf(command, sizeof command, "rm %s/*/lake.*", hint);
    assert_int_equal(0, system(command)); /* NOLINT(cert-env33-c): a path of our own */
    const cli_result again = export_rows(t);
    tide_json_node *range = cli_json(&again);
    assert_true(json_is_true(tide_json_node_find(range, "replayed")));
    tide_json_tree_free(range);
    assert_spans(t, 2);
}

/* A directory that knows of nothing cannot write rows a second time. */
static void another_directory_is_refused(void **state)
{
    cli_fixture *t = *state;
    const running_agent *agent = begin(t);
    collect(t, agent, 2);
    export_all(t);
    collect(t, agent, 1);
    const cli_result other = cli_run(t, "export", "--lake", t->url, "--catalog", "colony",
                                     "--schema", "telemetry", "--parquet", "elsewhere", NULL);
    assert_int_not_equal(0, other.exit_code);
    assert_non_null(strstr(other.err, "another request"));
    export_all(t);
    assert_spans(t, 3);
}

static void every_data_type_has_its_table(void **state)
{
    cli_fixture *t = *state;
    const running_agent *agent = begin(t);
    send_everything(agent);
    poll_once(t, agent, "web-1");
    export_all(t);
    static const char *const tables[] = {"spans", "system_metrics", "cpu_profile_samples",
                                         "memory_profile_samples", "ebpf_traces"};
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++) {
        char sql[128];
        (void)snprintf(sql, sizeof sql, "SELECT count(*) AS n FROM colony.telemetry.%s", tables[i]);
        assert_int_equal(1, lake_number(t, sql));
    }
    assert_sound(t);
}

/* Numbers that were given up, and came after all, come to the lake too. */
static void late_rows_come_too(void **state)
{
    cli_fixture *t = *state;
    const running_agent *agent = begin(t);
    collect(t, agent, 2);
    /* As if the agent had said, in its last answer, that it has more. */
    cli_sql(t, "store.db",
            "UPDATE polling_checkpoints SET head_seq_id = 5, version = version + 1 "
            "WHERE data_type = 'telemetry'");
    const cli_result set =
        cli_run(t, "colony", "checkpoint", "set", "web-1", "telemetry", "4", NULL);
    assert_int_equal(0, set.exit_code);
    export_all(t);
    assert_int_equal(2, lake_number(t, "SELECT count(*) AS n FROM colony.telemetry.spans"));
    send_spans(agent, 3);
    const cli_result again = cli_run(t, "gaps", "retry", "1", NULL);
    assert_int_equal(0, again.exit_code);
    poll_once(t, agent, "web-1");
    export_all(t);
    assert_spans(t, 5);
    assert_sound(t);
}

/* Killed a little later each time, with new rows each time. */
static void killed_at_any_moment_each_row_comes_once(void **state)
{
    enum { KILLS = 14, STEP_MS = 40 };
    cli_fixture *t = *state;
    const running_agent *agent = begin(t);
    for (int i = 0; i < KILLS; i++) {
        collect(t, agent, 1);
        proc_result_done(&t->results[--t->result_count]);
        const char *const argv[] = {t->program,  "export", "--lake",   t->url,
                                    "--catalog", "colony", "--schema", "telemetry",
                                    "--create",  "--json", NULL};
        const proc_options options = cli_options(t, argv);
        proc child;
        assert_ok_err(proc_start(&child, &options, &t->err), &t->err);
        TIDE_IGNORE(proc_wait(&child, (i + 1) * STEP_MS, &t->err));
        proc_done(&child);
    }
    export_all(t);
    assert_spans(t, KILLS);
    assert_sound(t);
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
        ON(every_row_comes_once, "sqlite"),
        ON(every_row_comes_once, "postgres"),
        ON(what_was_forgotten_is_found_by_its_key, "sqlite"),
        ON(another_directory_is_refused, "sqlite"),
        ON(every_data_type_has_its_table, "sqlite"),
        ON(late_rows_come_too, "sqlite"),
        ON(killed_at_any_moment_each_row_comes_once, "sqlite"),
        ON(killed_at_any_moment_each_row_comes_once, "postgres"),
    };
    duckdb_place();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
