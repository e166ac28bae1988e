#include "cli/colony/colony_calls.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

enum { PROCESSES_MAX = 16 };

/* Of the case under way: a case that fails does not come to its end. */
static running_agent processes[PROCESSES_MAX];
static int process_count;

static running_agent *start(cli_fixture *t, const char *verb, const char *store,
                            const char *const *words)
{
    assert_true(process_count < PROCESSES_MAX);
    running_agent *process = &processes[process_count++];
    assert_ok_err(running_agent_start(process, verb, store, words, &t->err), &t->err);
    return process;
}

void kill_all(cli_fixture *t)
{
    (void)t;
    while (process_count > 0)
        running_agent_kill(&processes[--process_count]);
}

const running_agent *start_agent(cli_fixture *t, const char *name)
{
    static const char *const quietly[] = {"--log-level", "error", "--collect", "0s", NULL};
    char file[64];
    char path[TEMPDIR_PATH_MAX];
    (void)snprintf(file, sizeof file, "%s.db", name);
    cli_path(t, file, path);
    return start(t, "agent", path, quietly);
}

const char *agent_option(const running_agent *agent, const char *name)
{
    static char text[160];
    (void)snprintf(text, sizeof text, "%s=%s", name, agent->grpc);
    return text;
}

void send_spans(const running_agent *agent, int count)
{
    static const char body[] =
        "{\"resourceSpans\":[{\"resource\":{\"attributes\":[{\"key\":\"service.name\",\"value\":"
        "{\"stringValue\":\"web\"}}]},\"scopeSpans\":[{\"spans\":[{\"traceId\":"
        "\"5b8efff798038103d269b633813fc60c\",\"spanId\":\"eee19b7ec3c1b174\",\"name\":\"GET /\","
        "\"kind\":2,\"startTimeUnixNano\":\"1700000000000000000\",\"endTimeUnixNano\":"
        "\"1700000000250000000\"}]}]}]}";
    for (int i = 0; i < count; i++)
        assert_int_equal(200, running_agent_http(agent, "/v1/traces", body));
}

static void ingest(const running_agent *agent, const char *method, const char *body)
{
    char path[128];
    (void)snprintf(path, sizeof path, "/tidemark.agent.v1.AgentService/%s", method);
    assert_int_equal(200, running_agent_http(agent, path, body));
}

void send_everything(const running_agent *agent)
{
    send_spans(agent, 1);
    ingest(
        agent, "IngestSystemMetrics",
        "{\"metrics\":[{\"timestamp\":\"1700000000000\",\"metricName\":\"load\",\"value\":0.5}]}");
    ingest(agent, "IngestEbpfMetrics",
           "{\"httpMetrics\":[{\"timestamp\":\"1700000000000\",\"serviceName\":\"web\"}],"
           "\"grpcMetrics\":[{\"timestamp\":\"1700000000000\",\"serviceName\":\"web\"}],"
           "\"sqlMetrics\":[{\"timestamp\":\"1700000000000\",\"serviceName\":\"web\"}],"
           "\"traceSpans\":[{\"startTime\":\"1700000000000\",\"serviceName\":\"web\"}]}");
    ingest(agent, "IngestCPUProfileSamples",
           "{\"samples\":[{\"timestamp\":\"1700000000000\",\"serviceId\":\"web\",\"stackFrameIds\":"
           "[1],\"sampleCount\":3}],\"frames\":[{\"frameId\":1,\"frameName\":\"main\"}]}");
    ingest(agent, "IngestMemoryProfileSamples",
           "{\"samples\":[{\"timestamp\":\"1700000000000\",\"serviceId\":\"web\",\"stackFrameIds\":"
           "[1],\"allocBytes\":4096}],\"frames\":[{\"frameId\":1,\"frameName\":\"main\"}]}");
}

running_agent *start_colony(cli_fixture *t, const char *const *more)
{
    const char *words[RUNNING_AGENT_ARGS] = {"--log-level", "error"};
    int count = 2;
    if (strncmp(t->url, "duckdb:", 7) == 0) /* query asks the daemon, which alone has the file */
        words[count++] = "--trusted-sql";
    for (; more && *more; more++)
        words[count++] = *more;
    return start(t, "colony", t->url, words);
}

void stop_colony(cli_fixture *t, running_agent *colony)
{
    assert_ok_err(running_agent_stop(colony, &t->err), &t->err);
}

void poll_once(cli_fixture *t, const running_agent *agent, const char *name)
{
    const cli_result result =
        cli_run(t, "colony", "poll", "--once", "--agent", agent_option(agent, name), NULL);
    if (result.exit_code != 0)
        fail_msg("poll --once: %d: %s%s", result.exit_code, result.out, result.err);
}

int64_t query_number(cli_fixture *t, const char *sql)
{
    const cli_result result = cli_run(t, "query", sql, "--json", NULL);
    tide_json_node *row = cli_json(&result);
    const int64_t number = json_number(row, "n");
    tide_json_tree_free(row);
    proc_result_done(&t->results[--t->result_count]);
    return number;
}

void wait_for_number(cli_fixture *t, const char *sql, int64_t want)
{
    const int64_t until_ms = proc_now_ms() + COLONY_WAIT_MS;
    int64_t got = query_number(t, sql);
    while (got != want && proc_now_ms() < until_ms) {
        (void)nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
        got = query_number(t, sql);
    }
    if (got != want)
        fail_msg("%s: still %lld, want %lld", sql, (long long)got, (long long)want);
}

const tide_json_node *find_line(const tide_json_node *lines, const char *key, const char *value)
{
    for (size_t i = 0; i < tide_json_node_count(lines); i++)
        if (strcmp(json_text(tide_json_node_at(lines, i), key), value) == 0)
            return tide_json_node_at(lines, i);
    return NULL;
}
