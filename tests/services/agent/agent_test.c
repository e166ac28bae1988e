/* The agent and `serve` as processes: they end when they are told to, and what was sent before a restart is served after it. */
#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "services/agent/running_agent.h"
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

static void send_sample(agent_case *c, int64_t count)
{
    AGENT(CPUProfileSample) sample = TIDEMARK__AGENT__V1__CPUPROFILE_SAMPLE__INIT;
    AGENT(CPUProfileSample) * samples[] = {&sample};
    AGENT(IngestCPUProfileSamplesRequest)
    request = TIDEMARK__AGENT__V1__INGEST_CPUPROFILE_SAMPLES_REQUEST__INIT;
    sample.timestamp = 1700000000000;
    sample.service_id = (char *)"api";
    sample.stack_hash = 7;
    sample.sample_count = count;
    request.samples = samples;
    request.n_samples = 1;
    ProtobufCMessage *response = NULL;
    assert_ok_err(
        running_agent_call(c->client, "AgentService/IngestCPUProfileSamples", &request.base,
                           &tidemark__agent__v1__ingest_response__descriptor, &response, &c->err),
        &c->err);
    protobuf_c_message_free_unpacked(response, NULL);
}

/* More samples of a stack that was numbered already, and perhaps read, are a record of their own; what has a number
 * stays as it was. */
static void more_samples_of_a_stack_are_a_new_record(void **state)
{
    agent_case *c = *state;
    start(c);
    for (size_t round = 1; round <= 2; round++) {
        AGENT(QueryCPUProfileSamplesRequest)
        request = TIDEMARK__AGENT__V1__QUERY_CPUPROFILE_SAMPLES_REQUEST__INIT;
        ProtobufCMessage *response = NULL;
        send_sample(c, (int64_t)(10 * round));
        assert_ok_err(
            running_agent_call(c->client, "AgentDebugService/QueryCPUProfileSamples", &request.base,
                               &tidemark__agent__v1__query_cpuprofile_samples_response__descriptor,
                               &response, &c->err),
            &c->err);
        const AGENT(QueryCPUProfileSamplesResponse) *answer =
            (const AGENT(QueryCPUProfileSamplesResponse) *)response;
        assert_int_equal(round, answer->n_samples);
        assert_int_equal(10, answer->samples[0]->sample_count);
        assert_int_equal(1, answer->samples[0]->seq_id);
        assert_int_equal(10 * round, answer->samples[round - 1]->sample_count);
        protobuf_c_message_free_unpacked(response, NULL);
    }
    stop(c);
}

static AGENT(ListStreamsResponse) *
    watch(agent_case *c, const AGENT(ListStreamsResponse) * seen, uint32_t wait_ms)
{
    enum { STREAMS_MAX = 32 };
    AGENT(StreamHead) heads[STREAMS_MAX];
    AGENT(StreamHead) * list[STREAMS_MAX];
    AGENT(WatchStreamsRequest) request = TIDEMARK__AGENT__V1__WATCH_STREAMS_REQUEST__INIT;
    request.wait_ms = wait_ms;
    for (size_t i = 0; seen && i < seen->n_streams; i++) {
        const AGENT(StreamHead) head = TIDEMARK__AGENT__V1__STREAM_HEAD__INIT;
        heads[i] = head;
        heads[i].stream = seen->streams[i]->stream;
        heads[i].head_seq_id = seen->streams[i]->head_seq_id;
        list[i] = &heads[i];
    }
    request.n_seen = seen ? seen->n_streams : 0;
    request.seen = list;
    ProtobufCMessage *response = NULL;
    assert_ok_err(running_agent_call(c->client, "AgentService/WatchStreams", &request.base,
                                     &tidemark__agent__v1__list_streams_response__descriptor,
                                     &response, &c->err),
                  &c->err);
    return (AGENT(ListStreamsResponse) *)response;
}

static void *send_later(void *arg)
{
    (void)send_one(arg, "news");
    return NULL;
}

/* One call waits for all streams: what is new is told, whether it came before the call or while it waits; a stream that was not
 * there before counts as new. */
static void one_call_waits_for_all_streams(void **state)
{
    agent_case *c = *state;
    start(c);
    AGENT(ListStreamsResponse) *all = watch(c, NULL, 60000);
    const size_t built_in = all->n_streams;
    pthread_t thread;
    assert_int_equal(0, pthread_create(&thread, NULL, send_later, c));
    AGENT(ListStreamsResponse) *news = watch(c, all, 60000);
    while (news->n_streams == built_in) { /* the machine's own metrics came first */
        protobuf_c_message_free_unpacked(&all->base, NULL);
        all = news;
        news = watch(c, all, 60000);
    }
    assert_int_equal(0, pthread_join(thread, NULL));
    assert_int_equal(built_in + 1, news->n_streams);
    assert_string_equal("orders", news->streams[built_in]->stream);
    protobuf_c_message_free_unpacked(&all->base, NULL);
    all = watch(c, news, 1); /* nothing: the same again, when the time is over */
    assert_int_equal(1, all->streams[built_in]->head_seq_id);
    (void)send_one(c, "more");
    protobuf_c_message_free_unpacked(&news->base, NULL);
    news = watch(c, all, 60000); /* it is there already: answered at once */
    assert_int_equal(2, news->streams[built_in]->head_seq_id);
    protobuf_c_message_free_unpacked(&news->base, NULL);
    protobuf_c_message_free_unpacked(&all->base, NULL);
    stop(c);
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

/* ---- by time ---- */

static void send_metrics(agent_case *c, int count, int64_t time_ms)
{
    AGENT(SystemMetric) metrics[16];
    AGENT(SystemMetric) * list[16];
    for (int i = 0; i < count; i++) {
        metrics[i] = (AGENT(SystemMetric))TIDEMARK__AGENT__V1__SYSTEM_METRIC__INIT;
        metrics[i].metric_name = (char *)"m";
        metrics[i].timestamp = time_ms + i;
        list[i] = &metrics[i];
    }
    AGENT(IngestSystemMetricsRequest)
    request = TIDEMARK__AGENT__V1__INGEST_SYSTEM_METRICS_REQUEST__INIT;
    request.metrics = list;
    request.n_metrics = (size_t)count;
    ProtobufCMessage *response = NULL;
    assert_ok_err(running_agent_call(c->client, "AgentService/IngestSystemMetrics", &request.base,
                                     &tidemark__agent__v1__ingest_response__descriptor, &response,
                                     &c->err),
                  &c->err);
    protobuf_c_message_free_unpacked(response, NULL);
}

/* A request by time is gone on with: its pages together have everything in between, once, and nothing else. */
static void a_request_by_time_has_pages(void **state)
{
    agent_case *c = *state;
    static const char *const alone[] = {"--log-level", "error", "--collect", "0s", NULL};
    assert_ok_err(running_agent_start(&c->agent, "agent", c->store, alone, &c->err), &c->err);
    assert_ok_err(running_agent_client(&c->agent, &c->client, &c->err), &c->err);
    for (int i = 0; i < 4; i++) {
        send_metrics(c, 5, 1000000);
        send_metrics(c, 5, 5000000);
    }
    AGENT(Position) position = TIDEMARK__AGENT__V1__POSITION__INIT;
    AGENT(QuerySystemMetricsRequest)
    request = TIDEMARK__AGENT__V1__QUERY_SYSTEM_METRICS_REQUEST__INIT;
    request.start_time = 5000;
    request.end_time = 5001;
    request.max_records = 3;
    request.position = &position;
    size_t count = 0;
    uint64_t last = 0;
    bool has_more = true;
    while (has_more) {
        ProtobufCMessage *response = NULL;
        assert_ok_err(
            running_agent_call(c->client, "AgentService/QuerySystemMetrics", &request.base,
                               &tidemark__agent__v1__query_system_metrics_response__descriptor,
                               &response, &c->err),
            &c->err);
        const AGENT(QuerySystemMetricsResponse) *answer =
            (const AGENT(QuerySystemMetricsResponse) *)response;
        for (size_t i = 0; i < answer->n_metrics; i++) {
            assert_in_range(answer->metrics[i]->timestamp, 5000000, 5000999);
            assert_true(answer->metrics[i]->seq_id > last);
            last = answer->metrics[i]->seq_id;
            count++;
        }
        has_more = answer->state->more;
        assert_true(!has_more || answer->state->scanned_through_seq_id > position.after_seq_id);
        position.after_seq_id = answer->state->scanned_through_seq_id;
        protobuf_c_message_free_unpacked(response, NULL);
    }
    assert_int_equal(20, count);
    request.start_seq_id = 1;
    ProtobufCMessage *response = NULL;
    assert_status(
        TIDE_E_INVALID,
        running_agent_call(c->client, "AgentService/QuerySystemMetrics", &request.base,
                           &tidemark__agent__v1__query_system_metrics_response__descriptor,
                           &response, &c->err));
    stop(c);
}

/* ---- OTLP ---- */

/* More records than one batch takes, in one request. */
static void a_large_export_is_stored_as_a_whole(void **state)
{
    agent_case *c = *state;
    start(c);
    enum { COUNT = 70000 };
    static const char head[] = "{\"resourceLogs\":[{\"scopeLogs\":[{\"logRecords\":[{}";
    char *body = malloc(sizeof head + (size_t)3 * COUNT + 16);
    assert_non_null(body);
    size_t len = (size_t)sprintf(body, "%s", head);
    for (int i = 1; i < COUNT; i++)
        len += (size_t)sprintf(body + len, ",{}");
    (void)sprintf(body + len, "]}]}]}");
    assert_int_equal(200, running_agent_http(&c->agent, "/v1/logs", body));
    free(body);
    AGENT(QueryLogsRequest) request = TIDEMARK__AGENT__V1__QUERY_LOGS_REQUEST__INIT;
    request.start_seq_id = COUNT - 1;
    ProtobufCMessage *response = NULL;
    assert_ok_err(running_agent_call(c->client, "AgentService/QueryLogs", &request.base,
                                     &tidemark__agent__v1__query_logs_response__descriptor,
                                     &response, &c->err),
                  &c->err);
    const AGENT(QueryLogsResponse) *answer = (const AGENT(QueryLogsResponse) *)response;
    assert_int_equal(COUNT, answer->max_seq_id);
    assert_int_equal(COUNT, answer->state->head_seq_id);
    protobuf_c_message_free_unpacked(response, NULL);
    stop(c);
}

/* ---- damage ---- */

static void overwrite_page_with(const char *path, const char *text)
{
    static char page[16384];
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    int hits = 0;
    for (long at = 0; fread(page, 1, sizeof page, file) == sizeof page; at += (long)sizeof page) {
        if (!memmem(page, sizeof page, text, strlen(text)))
            continue;
        memset(page, 0xff, sizeof page);
        assert_int_equal(0, fseek(file, at, SEEK_SET));
        assert_int_equal(sizeof page, fwrite(page, 1, sizeof page, file));
        assert_int_equal(0, fflush(file));
        hits++;
    }
    assert_int_equal(0, fclose(file));
    assert_int_equal(1, hits);
}

/* grpc.health.v1 says NOT_SERVING (2), of the program and of a service. */
static void assert_unwell(agent_case *c)
{
    static const char service[] = "\x0a\x1etidemark.agent.v1.AgentService";
    const tide_view requests[] = {tide_view_of(""), tide_view_of(service)};
    TIDE_CLEANUP(tide_client_closep) tide_client *client = NULL;
    assert_ok_err(running_agent_client(&c->agent, &client, &c->err), &c->err);
    for (int i = 0; i < 2; i++) {
        TIDE_CLEANUP(tide_client_response_done) tide_client_response reply = {0};
        const tide_client_request request = {.path = "/grpc.health.v1.Health/Check",
                                             .message = requests[i]};
        assert_ok_err(tide_client_call(client, &request, &reply, &c->err), &c->err);
        assert_int_equal(2, reply.message.len);
        assert_int_equal(2, reply.message.ptr[1]);
    }
}

/* Where nothing can be added any more, clients keep what they have, and whoever asks is told that it is not ready. */
static void a_store_that_takes_nothing_is_not_ready(void **state)
{
    agent_case *c = *state;
    static const char *const alone[] = {"--log-level", "error", "--collect", "0s",
                                        "--codec",     "none",  NULL};
    assert_ok_err(running_agent_start(&c->agent, "agent", c->store, alone, &c->err), &c->err);
    assert_ok_err(running_agent_client(&c->agent, &c->client, &c->err), &c->err);
    char text[2000];
    for (int i = 0; i < 30; i++) {
        (void)snprintf(text, sizeof text, "part-%02d-%1900d", i, 0);
        (void)send_one(c, text);
    }
    stop(c);
    overwrite_page_with(c->store, "part-29-");
    assert_ok_err(running_agent_start(&c->agent, "agent", c->store, alone, &c->err), &c->err);
    /* Retention meets the page, too. It is ready again with the next call of the store that succeeds. */
    for (int64_t until_ms = proc_now_ms() + 30000;
         running_agent_http(&c->agent, "/readyz", NULL) != 200;)
        assert_true(proc_now_ms() < until_ms);
    static const char span[] =
        "{\"resourceSpans\":[{\"scopeSpans\":[{\"spans\":[{\"traceId\":"
        "\"0123456789abcdef0123456789abcdef\",\"spanId\":\"0123456789abcdef\"}]}]}]}";
    static const char record[] = "{\"stream\":\"orders\",\"records\":[{\"data\":\"AAAA\"}]}";
    static const char query[] = "{\"stream\":\"orders\"}";
    for (int i = 0; i < 3; i++) {
        assert_int_equal(503, running_agent_http(&c->agent, "/v1/traces", span));
        assert_int_equal(
            503,
            running_agent_http(&c->agent, "/tidemark.agent.v1.AgentService/IngestRecords", record));
    }
    assert_int_equal(503, running_agent_http(&c->agent, "/readyz", NULL));
    assert_unwell(c);
    assert_int_equal(
        200, running_agent_http(&c->agent, "/tidemark.agent.v1.AgentService/QueryRecords", query));
    assert_ok_err(running_agent_stop(&c->agent, &c->err), &c->err);
}

/* No room now is no fault of the request, however it comes: sent again, it is taken. */
static void a_full_store_asks_to_come_again(void **state)
{
    agent_case *c = *state;
    static const char *const small[] = {
        "--log-level",  "error", "--collect",    "0s",   "--codec", "none",
        "--keep-bytes", "1MiB",  "--hard-bytes", "1MiB", NULL};
    static const char head[] = "{\"stream\":\"orders\",\"records\":[{\"data\":\"";
    enum { LEN = 400000 };
    assert_ok_err(running_agent_start(&c->agent, "agent", c->store, small, &c->err), &c->err);
    char *body = malloc(sizeof head + LEN + 8);
    assert_non_null(body);
    (void)sprintf(body, "%s", head);
    memset(body + sizeof head - 1, 'A', LEN);
    (void)sprintf(body + sizeof head - 1 + LEN, "\"}]}");
    int code = 200;
    for (int i = 0; i < 100 && code == 200; i++)
        code = running_agent_http(&c->agent, "/tidemark.agent.v1.AgentService/IngestRecords", body);
    assert_int_equal(503, code);
    const int64_t until_ms = proc_now_ms() + 30000;
    while (code != 200 && proc_now_ms() < until_ms)
        code = running_agent_http(&c->agent, "/tidemark.agent.v1.AgentService/IngestRecords", body);
    assert_int_equal(200, code);
    free(body);
    assert_ok_err(running_agent_stop(&c->agent, &c->err), &c->err);
}

/* ---- profiles ---- */

static int64_t ask_store(const agent_case *c, const char *sql)
{
    sqlite3 *db = NULL;
    sqlite3_stmt *statement = NULL;
    assert_int_equal(SQLITE_OK, sqlite3_open_v2(c->store, &db, SQLITE_OPEN_READWRITE, NULL));
    assert_int_equal(SQLITE_OK, sqlite3_prepare_v2(db, sql, -1, &statement, NULL));
    assert_int_equal(SQLITE_ROW, sqlite3_step(statement));
    const int64_t number = sqlite3_column_int64(statement, 0);
    (void)sqlite3_finalize(statement);
    (void)sqlite3_close(db);
    return number;
}

/* Of a request that is refused nothing is kept, and a frame has one name. */
static void a_refused_profile_leaves_no_frames(void **state)
{
    agent_case *c = *state;
    static const char path[] = "/tidemark.agent.v1.AgentService/IngestCPUProfileSamples";
    static const struct {
        const char *body;
        int code;
    } cases[] = {
        {"{\"frames\":[{\"frame_id\":1,\"frame_name\":\"main\"}],"
         "\"samples\":[{\"stack_frame_ids\":[1,2]}]}",
         400},
        {"{\"frames\":[{\"frame_id\":1,\"frame_name\":\"main\"},"
         "{\"frame_id\":1,\"frame_name\":\"read\"}],\"samples\":[{\"stack_frame_ids\":[1]}]}",
         400},
        {"{\"frames\":[{\"frame_id\":7,\"frame_name\":\"main\"},"
         "{\"frame_id\":7,\"frame_name\":\"main\"}],\"samples\":[{\"stack_frame_ids\":[7]}]}",
         200},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        start(c);
        assert_int_equal(cases[i].code, running_agent_http(&c->agent, path, cases[i].body));
        stop(c);
        assert_int_equal(cases[i].code == 200,
                         ask_store(c, "SELECT count(*) FROM profile_frame_dictionary"));
    }
}

/* Two samples, each of the same 170 frames with names of 60,000 bytes: 10 MB of names. */
static void write_long_names(tide_buffer *body)
{
    enum { FRAMES = 170, LEN = 60000 };
    static char name[LEN + 1];
    memset(name, 'x', LEN);
    assert_ok(tide_buffer_append_text(body, "{\"frames\":["));
    for (int i = 1; i <= FRAMES; i++)
        assert_ok(tide_buffer_printf(body, "%s{\"frame_id\":%d,\"frame_name\":\"%d%s\"}",
                                     i == 1 ? "" : ",", i, i, name));
    assert_ok(tide_buffer_append_text(body, "],\"samples\":["));
    for (int sample = 0; sample < 2; sample++) {
        assert_ok(tide_buffer_printf(body, "%s{\"stack_frame_ids\":[", sample == 0 ? "" : ","));
        for (int i = 1; i <= FRAMES; i++)
            assert_ok(tide_buffer_printf(body, "%s%d", i == 1 ? "" : ",", i));
        assert_ok(tide_buffer_append_text(body, "]}"));
    }
    assert_ok(tide_buffer_append_text(body, "]}"));
}

/* What was taken can be read: fewer records have fewer names, and a record alone comes with as many of them as fit. */
static void long_names_of_frames_never_stop_a_reader(void **state)
{
    agent_case *c = *state;
    static const char put[] = "/tidemark.agent.v1.AgentService/IngestCPUProfileSamples";
    static const char get[] = "/tidemark.agent.v1.AgentDebugService/QueryCPUProfileSamples";
    TIDE_CLEANUP(tide_buffer_done) tide_buffer body;
    tide_buffer_init(&body, 64 << 20);
    write_long_names(&body);
    start(c);
    assert_int_equal(200, running_agent_http(&c->agent, put, tide_buffer_text(&body)));
    assert_int_not_equal(200, running_agent_http(&c->agent, get, "{\"max_records\":2}"));
    assert_int_equal(200, running_agent_http(&c->agent, get, "{\"max_records\":1}"));
    assert_int_equal(
        200, running_agent_http(&c->agent, get, "{\"max_records\":1,\"start_seq_id\":\"1\"}"));
    stop(c);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_signal_right_behind_ready_ends_it_in_good_order, begin,
                                        end),
        cmocka_unit_test_setup_teardown(numbers_and_session_outlive_a_restart, begin, end),
        cmocka_unit_test_setup_teardown(more_samples_of_a_stack_are_a_new_record, begin, end),
        cmocka_unit_test_setup_teardown(one_call_waits_for_all_streams, begin, end),
        cmocka_unit_test_setup_teardown(streams_that_were_not_asked_for_have_no_state, begin, end),
        cmocka_unit_test_setup_teardown(a_stream_is_asked_for_by_its_own_call, begin, end),
        cmocka_unit_test_setup_teardown(a_request_by_time_has_pages, begin, end),
        cmocka_unit_test_setup_teardown(a_large_export_is_stored_as_a_whole, begin, end),
        cmocka_unit_test_setup_teardown(a_store_that_takes_nothing_is_not_ready, begin, end),
        cmocka_unit_test_setup_teardown(a_full_store_asks_to_come_again, begin, end),
        cmocka_unit_test_setup_teardown(a_refused_profile_leaves_no_frames, begin, end),
        cmocka_unit_test_setup_teardown(long_names_of_frames_never_stop_a_reader, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
