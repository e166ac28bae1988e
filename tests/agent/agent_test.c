/* The agent and `serve` as processes: they end when they are told to, and what was sent before a restart is served after it. */
#include <stdio.h>
#include <string.h>

#include "agent/running_agent.h"
#include "support/check.h"
#include "support/tempdir.h"

#define AGENT(type_) Tidemark__Agent__V1__##type_

typedef struct agent_case {
    tempdir dir;
    char store[TEMPDIR_PATH_MAX];
    running_agent agent;
    tide_client *client;
    tide_error err;
} agent_case;

static int begin(void **state)
{
    static agent_case c;
    c = (agent_case){.client = NULL};
    assert_ok_err(tempdir_make(&c.dir, &c.err), &c.err);
    (void)snprintf(c.store, sizeof c.store, "%.200s/agent.db", c.dir.path);
    *state = &c;
    return 0;
}

static int end(void **state)
{
    agent_case *c = *state;
    tide_client_close(c->client);
    c->client = NULL;
    assert_ok_err(tempdir_remove(&c->dir, &c->err), &c->err);
    return 0;
}

static void start(agent_case *c)
{
    static const char *const quietly[] = {"--log-level", "error", NULL};
    assert_ok_err(running_agent_start(&c->agent, "agent", c->store, quietly, &c->err), &c->err);
    assert_ok_err(running_agent_client(&c->agent, &c->client, &c->err), &c->err);
}

static void stop(agent_case *c)
{
    tide_client_close(c->client);
    c->client = NULL;
    assert_ok_err(running_agent_stop(&c->agent, &c->err), &c->err);
}

/* The first look at the machine is being stored just then. */
static void a_signal_right_behind_ready_ends_it_in_good_order(void **state)
{
    agent_case *c = *state;
    static const char *const quietly[] = {"--log-level", "error", NULL};
    static const char *const verbs[] = {"agent", "serve"};
    for (int i = 0; i < 10; i++) {
        assert_ok_err(running_agent_start(&c->agent, verbs[i % 2], c->store, quietly, &c->err),
                      &c->err);
        assert_ok_err(running_agent_stop(&c->agent, &c->err), &c->err);
    }
}

static uint64_t send_one(agent_case *c, const char *text)
{
    AGENT(Record) record = TIDEMARK__AGENT__V1__RECORD__INIT;
    AGENT(Record) * records[] = {&record};
    AGENT(IngestRecordsRequest) request = TIDEMARK__AGENT__V1__INGEST_RECORDS_REQUEST__INIT;
    record.data.data = (uint8_t *)text;
    record.data.len = strlen(text);
    request.stream = (char *)"orders";
    request.records = records;
    request.n_records = 1;
    ProtobufCMessage *response = NULL;
    assert_ok_err(running_agent_call(c->client, "AgentService/IngestRecords", &request.base,
                                     &tidemark__agent__v1__ingest_response__descriptor, &response,
                                     &c->err),
                  &c->err);
    const uint64_t seq = ((const AGENT(IngestResponse) *)response)->first_seq_id;
    protobuf_c_message_free_unpacked(response, NULL);
    return seq;
}

static void numbers_and_session_outlive_a_restart(void **state)
{
    agent_case *c = *state;
    char session[64] = "";
    for (uint64_t round = 1; round <= 3; round++) {
        start(c);
        assert_int_equal(round, send_one(c, "hello"));
        AGENT(QueryRecordsRequest) request = TIDEMARK__AGENT__V1__QUERY_RECORDS_REQUEST__INIT;
        request.stream = (char *)"orders";
        ProtobufCMessage *response = NULL;
        assert_ok_err(running_agent_call(c->client, "AgentService/QueryRecords", &request.base,
                                         &tidemark__agent__v1__query_records_response__descriptor,
                                         &response, &c->err),
                      &c->err);
        const AGENT(QueryRecordsResponse) *answer = (const AGENT(QueryRecordsResponse) *)response;
        assert_int_equal(round, answer->n_records);
        assert_int_equal(round, answer->max_seq_id);
        if (round > 1)
            assert_string_equal(session, answer->session_id);
        (void)snprintf(session, sizeof session, "%.60s", answer->session_id);
        protobuf_c_message_free_unpacked(response, NULL);
        stop(c);
    }
}

/* What nobody asked for is not said to have been read. */
static void streams_that_were_not_asked_for_have_no_state(void **state)
{
    agent_case *c = *state;
    start(c);
    AGENT(EbpfMetricType) types[] = {TIDEMARK__AGENT__V1__EBPF_METRIC_TYPE__EBPF_METRIC_TYPE_HTTP};
    AGENT(QueryEbpfMetricsRequest) request = TIDEMARK__AGENT__V1__QUERY_EBPF_METRICS_REQUEST__INIT;
    request.metric_types = types;
    request.n_metric_types = 1;
    ProtobufCMessage *response = NULL;
    assert_ok_err(running_agent_call(c->client, "AgentService/QueryEbpfMetrics", &request.base,
                                     &tidemark__agent__v1__query_ebpf_metrics_response__descriptor,
                                     &response, &c->err),
                  &c->err);
    const AGENT(QueryEbpfMetricsResponse) *answer =
        (const AGENT(QueryEbpfMetricsResponse) *)response;
    assert_non_null(answer->http_state);
    assert_null(answer->grpc_state);
    assert_null(answer->sql_state);
    assert_null(answer->traces_state);
    assert_int_equal(36, strlen(answer->session_id));
    protobuf_c_message_free_unpacked(response, NULL);
    stop(c);
}

static void a_stream_is_asked_for_by_its_own_call(void **state)
{
    agent_case *c = *state;
    start(c);
    AGENT(QueryRecordsRequest) request = TIDEMARK__AGENT__V1__QUERY_RECORDS_REQUEST__INIT;
    request.stream = (char *)"telemetry";
    ProtobufCMessage *response = NULL;
    assert_status(TIDE_E_INVALID,
                  running_agent_call(c->client, "AgentService/QueryRecords", &request.base,
                                     &tidemark__agent__v1__query_records_response__descriptor,
                                     &response, &c->err));
    assert_contains(c->err.text, "built in");
    stop(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_signal_right_behind_ready_ends_it_in_good_order, begin,
                                        end),
        cmocka_unit_test_setup_teardown(numbers_and_session_outlive_a_restart, begin, end),
        cmocka_unit_test_setup_teardown(streams_that_were_not_asked_for_have_no_state, begin, end),
        cmocka_unit_test_setup_teardown(a_stream_is_asked_for_by_its_own_call, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
