/* rig_agent.c - the agents of the rig: what they hold, and how they answer. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "colony/rig.h"
#include "feed/record.h"
#include "net/client/client.h"
#include "services/agent/query.h"

/* ---- what they hold ---- */

tide_status rig_agent_try_open(rig_agent *agent, tide_error *err)
{
    const tide_store_options options = {TIDE_STORE_OPTIONS_INIT, .env = agent->env,
                                        .is_inline = true, .sqlite_vfs = agent->vfs,
                                        .state_dir = agent->state_dir};
    TIDE_TRY(tide_store_open(&agent->store, agent->path, &options, err));
    agent->feed_options.size = sizeof agent->feed_options;
    const tide_status status =
        tide_feed_open(&agent->feed, agent->store, &agent->feed_options, err);
    if (status < TIDE_OK)
        tide_store_closep(&agent->store);
    return status;
}

void rig_agent_open(rig_agent *agent)
{
    tide_error err;
    assert_ok_err(rig_agent_try_open(agent, &err), &err);
}

void rig_agent_close(rig_agent *agent)
{
    tide_feed_close(agent->feed);
    tide_store_close(agent->store);
    agent->feed = NULL;
    agent->store = NULL;
}

void rig_agent_restart(rig_agent *agent)
{
    rig_agent_close(agent);
    rig_agent_open(agent);
}

static void remove_beside(const rig_agent *agent, const char *suffix)
{
    char path[TEMPDIR_PATH_MAX + 16];
    (void)snprintf(path, sizeof path, "%s%s", agent->path, suffix);
    if (unlink(path) != 0)
        assert_int_equal(ENOENT, errno);
}

void rig_agent_wipe(rig_agent *agent)
{
    rig_agent_close(agent);
    remove_beside(agent, "");
    remove_beside(agent, "-wal");
    remove_beside(agent, "-shm");
    rig_agent_open(agent);
}

static void copy_bytes(const char *from, const char *to, int flags)
{
    char bytes[65536];
    const int in = open(from, O_RDONLY | O_CLOEXEC);
    const int out = open(to, O_WRONLY | O_CREAT | O_CLOEXEC | flags, 0600);
    assert_true(in >= 0 && out >= 0);
    for (ssize_t len; (len = read(in, bytes, sizeof bytes)) > 0;)
        assert_int_equal(len, write(out, bytes, (size_t)len));
    (void)close(in);
    (void)close(out);
}

void rig_agent_backup(rig_agent *agent)
{
    char path[TEMPDIR_PATH_MAX];
    tempdir_join(&agent->dir, "backup.db", path);
    rig_agent_close(agent); /* a store that nobody uses is one file */
    copy_bytes(agent->path, path, O_TRUNC);
    rig_agent_open(agent);
}

void rig_agent_restore(rig_agent *agent, bool with_evidence)
{
    char path[TEMPDIR_PATH_MAX];
    tempdir_join(&agent->dir, "backup.db", path);
    rig_agent_close(agent);
    remove_beside(agent, "-wal");
    remove_beside(agent, "-shm");
    if (with_evidence)
        remove_beside(agent, "");
    else
        agent->state_dir[0] = '\0';
    copy_bytes(path, agent->path, O_TRUNC);
    rig_agent_open(agent);
}

void rig_agent_retain(rig_agent *agent)
{
    tide_error err;
    int64_t next_us = 0;
    for (int i = 0; i < 1000 && next_us == 0; i++)
        assert_ok_err(tide_feed_step(agent->feed, &next_us, &err), &err);
}

int64_t rig_agent_head(rig_agent *agent, const char *stream)
{
    tide_error err;
    tide_feed_stream out;
    assert_ok_err(tide_feed_show(agent->feed, stream, &out, &err), &err);
    return out.head_seq;
}

static void add_record(tide_record_batch *batch, rig_agent *agent, int64_t time_ms)
{
    char id[TIDE_AGENT_ID_MAX + 32];
    (void)snprintf(id, sizeof id, "%s-%lld", agent->name, (long long)++agent->put);
    tide_record_begin(batch);
    const tide_stream_kind kind = batch->type->kind;
    if (kind == TIDE_STREAM_TELEMETRY) {
        tide_record_i64(batch, TIDE_SPAN_TIMESTAMP, time_ms);
        tide_record_text(batch, TIDE_SPAN_TRACE_ID, tide_view_of(id));
        tide_record_text(batch, TIDE_SPAN_SPAN_ID, tide_view_of("s"));
        tide_record_text(batch, TIDE_SPAN_SERVICE_NAME, tide_view_of("shop"));
        tide_record_f64(batch, TIDE_SPAN_DURATION_MS, 1.5);
    } else if (kind == TIDE_STREAM_SYSTEM_METRICS) {
        tide_record_i64(batch, TIDE_SYSTEM_METRIC_TIMESTAMP, time_ms);
        tide_record_text(batch, TIDE_SYSTEM_METRIC_METRIC_NAME, tide_view_of(id));
        tide_record_f64(batch, TIDE_SYSTEM_METRIC_VALUE, 1);
    } else if (kind == TIDE_STREAM_LOGS) {
        tide_record_i64(batch, TIDE_LOG_TIMESTAMP, time_ms);
        tide_record_text(batch, TIDE_LOG_BODY, tide_view_of(id));
    } else {
        assert_int_equal(TIDE_STREAM_OPAQUE, kind);
        tide_record_i64(batch, TIDE_OPAQUE_TIMESTAMP, time_ms);
        tide_record_blob(batch, TIDE_OPAQUE_DATA, tide_view_of(id));
    }
    assert_ok(tide_record_end(batch));
}

tide_status rig_try_put(rig_agent *agent, const char *stream, int count, int64_t *first_seq,
                        tide_error *err)
{
    const tide_stream_type *type = tide_stream_type_find(stream);
    if (!type) {
        TIDE_TRY(tide_feed_declare(agent->feed, stream, err));
        type = tide_stream_type_of(TIDE_STREAM_OPAQUE);
    }
    TIDE_CLEANUP(tide_record_batch_done) tide_record_batch batch;
    tide_record_batch_init(&batch, type, 0);
    const int64_t time_ms = agent->env->wall_us(agent->env) / 1000;
    for (int i = 0; i < count; i++)
        add_record(&batch, agent, time_ms);
    tide_feed_records records = tide_record_batch_feed(&batch, stream);
    TIDE_TRY(tide_feed_commit(agent->feed, &records, 1, err));
    *first_seq = records.first_seq;
    return TIDE_OK;
}

int64_t rig_put(rig_agent *agent, const char *stream, int count)
{
    tide_error err;
    int64_t first_seq = 0;
    assert_ok_err(rig_try_put(agent, stream, count, &first_seq, &err), &err);
    return first_seq;
}

/* ---- how they answer: our own ---- */

static tide_agent_services services_of(rig_agent *agent)
{
    return (tide_agent_services){
        .env = agent->env,
        .feed = agent->feed,
        .name = agent->name,
        .retention_us = tide_feed_get_options(agent->feed)->keep_us,
    };
}

/* A request as the parts of a query; what is borrowed lives in *message. */
typedef struct request_parts {
    tide_query_part part;
    uint32_t max_seq_field, session_field, state_field;
} request_parts;

#define READ_ONE(type_, lower_, stream_)                                                           \
    do {                                                                                           \
        const AGENT(type_) *q = (const AGENT(type_) *)message;                                     \
        *out = (request_parts){.part = {.stream = (stream_),                                       \
                                        .start_seq_id = q->start_seq_id,                           \
                                        .start_time = q->start_time,                               \
                                        .end_time = q->end_time,                                   \
                                        .max_records = q->max_records,                             \
                                        .position = q->position},                                  \
                               .max_seq_field = 3,                                                 \
                               .session_field = 4,                                                 \
                               .state_field = 20};                                                 \
    } while (0)

static void read_ebpf(request_parts *out, const AGENT(QueryEbpfMetricsRequest) * q)
{
    static const char *const streams[] = {"beyla_http", "beyla_grpc", "beyla_sql", "beyla_traces"};
    const AGENT(Position) *
        positions[] = {q->http_position, q->grpc_position, q->sql_position, q->traces_position};
    const uint64_t starts[] = {q->http_start_seq_id, q->grpc_start_seq_id, q->sql_start_seq_id,
                               q->traces_start_seq_id};
    unsigned which = 3;
    if (q->n_metric_types > 0 && !q->traces_position)
        which = (unsigned)q->metric_types[0] - 1;
    assert_true(which < 4);
    *out = (request_parts){.part = {.stream = streams[which],
                                    .start_seq_id = starts[which],
                                    .max_records = which == 3 ? q->max_traces : q->max_records,
                                    .position = positions[which]},
                           .max_seq_field = 6 + which,
                           .session_field = 10,
                           .state_field = 20 + which};
}

typedef struct call {
    const char *name;
    const ProtobufCMessageDescriptor *descriptor;
} call;

#define CALL(name_, lower_)                                                                        \
    {                                                                                              \
        name_, &tidemark__agent__v1__##lower_##__descriptor                                        \
    }
static const call calls[] = {
    CALL("AgentService/QueryTelemetry", query_telemetry_request),
    CALL("AgentService/QuerySystemMetrics", query_system_metrics_request),
    CALL("AgentService/QueryLogs", query_logs_request),
    CALL("AgentService/QueryLossReceipts", query_loss_receipts_request),
    CALL("AgentDebugService/QueryCPUProfileSamples", query_cpuprofile_samples_request),
    CALL("AgentDebugService/QueryMemoryProfileSamples", query_memory_profile_samples_request),
    CALL("AgentService/QueryRecords", query_records_request),
    CALL("AgentService/QueryEbpfMetrics", query_ebpf_metrics_request),
};

static void read_request(request_parts *out, size_t which, const ProtobufCMessage *message)
{
    switch (which) {
    case 0:
        READ_ONE(QueryTelemetryRequest, query_telemetry_request, "telemetry");
        break;
    case 1:
        READ_ONE(QuerySystemMetricsRequest, query_system_metrics_request, "system_metrics");
        break;
    case 2:
        READ_ONE(QueryLogsRequest, query_logs_request, "logs");
        break;
    case 3:
        READ_ONE(QueryLossReceiptsRequest, query_loss_receipts_request, "loss_receipts");
        break;
    case 4:
        READ_ONE(QueryCPUProfileSamplesRequest, x, "cpu_profile");
        break;
    case 5:
        READ_ONE(QueryMemoryProfileSamplesRequest, x, "memory_profile");
        break;
    case 6:
        READ_ONE(QueryRecordsRequest, x, ((const AGENT(QueryRecordsRequest) *)message)->stream);
        break;
    default:
        read_ebpf(out, (const AGENT(QueryEbpfMetricsRequest) *)message);
        break;
    }
}

static void put_number(tide_buffer *out, uint32_t field, uint64_t number)
{
    if (number == 0)
        return;
    assert_ok(tide_buffer_append_varint(out, (uint64_t)field << 3));
    assert_ok(tide_buffer_append_varint(out, number));
}

static void put_bytes(tide_buffer *out, uint32_t field, tide_view bytes)
{
    assert_ok(tide_buffer_append_varint(out, (uint64_t)field << 3 | 2));
    assert_ok(tide_buffer_append_varint(out, bytes.len));
    assert_ok(tide_buffer_append_view(out, bytes));
}

/* One question and one answer, as the query service does it. */
static tide_status answer_page(rig_agent *agent, size_t which, const ProtobufCMessage *message,
                               tide_buffer *out, tide_error *err)
{
    request_parts parts;
    read_request(&parts, which, message);
    agent->pages++;
    agent->last_start = (int64_t)parts.part.start_seq_id;
    agent->last_max = parts.part.max_records;
    agent->last_token = parts.part.position ? (int64_t)parts.part.position->lease_token : 0;
    const tide_agent_services services = services_of(agent);
    tide_feed_answer answer = {0};
    TIDE_TRY(tide_query_read(&services, &parts.part, &answer, err));
    assert_ok(tide_buffer_append(out, answer.bytes, answer.len));
    put_number(out, parts.max_seq_field, (uint64_t)answer.max_seq);
    put_bytes(out, parts.session_field, tide_view_of(answer.session));
    const tide_status status =
        tide_query_put_state(&services, out, parts.state_field, parts.part.stream, &answer, err);
    tide_feed_answer_done(&answer);
    return status;
}

/* ---- the watch, without its waiting ---- */

typedef struct listing {
    rig_agent *agent;
    const AGENT(WatchStreamsRequest) * request;
    tide_buffer *out;
    bool is_news;
} listing;

static tide_status list_stream(void *arg, const tide_feed_stream *stream, tide_error *err)
{
    listing *l = arg;
    const tide_agent_services services = services_of(l->agent);
    const tide_feed_request request = {TIDE_FEED_REQUEST_INIT, .stream = stream->name,
                                       .start_seq = stream->head_seq, .max_records = 1};
    bool is_seen = false;
    for (size_t i = 0; i < l->request->n_seen; i++)
        is_seen = is_seen || (strcmp(l->request->seen[i]->stream, stream->name) == 0 &&
                              l->request->seen[i]->head_seq_id == (uint64_t)stream->head_seq);
    l->is_news = l->is_news || !is_seen;
    tide_feed_answer state = {0};
    TIDE_TRY(tide_feed_read(l->agent->feed, &request, &state, err));
    const tide_status status =
        tide_query_put_state(&services, l->out, 1, stream->name, &state, err);
    tide_feed_answer_done(&state);
    return status;
}

/* TIDE_NONE: nothing is new, *wait_us is how long it would wait. */
static tide_status answer_watch(rig_agent *agent, tide_view bytes, tide_buffer *out,
                                int64_t *wait_us, tide_error *err)
{
    AGENT(WatchStreamsRequest) *request = tidemark__agent__v1__watch_streams_request__unpack(
        NULL, bytes.len, (const uint8_t *)bytes.ptr);
    assert_non_null(request);
    tide_identity identity;
    tide_store_identity(agent->store, &identity);
    listing l = {.agent = agent,
                 .request = request,
                 .out = out,
                 .is_news =
                     *request->session_id && strcmp(request->session_id, identity.session_id) != 0};
    const tide_status status = tide_feed_list(agent->feed, list_stream, &l, err);
    put_bytes(out, 2, tide_view_of(identity.session_id));
    *wait_us = l.is_news ? 0 : (int64_t)request->wait_ms * 1000;
    tidemark__agent__v1__watch_streams_request__free_unpacked(request, NULL);
    return status < TIDE_OK || *wait_us == 0 ? status : TIDE_NONE;
}

/* ---- how they answer: others ---- */

static void put_span(tide_buffer *out, const rig_agent *agent, const rig_row *row)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer span = {0};
    tide_buffer_init(&span, 1024);
    char id[TIDE_AGENT_ID_MAX + 32];
    (void)snprintf(id, sizeof id, "%s-%llu", agent->name, (unsigned long long)row->seq);
    put_number(&span, 1, UINT64_C(1700000000000) + row->seq);
    if (row->version > 0)
        put_number(&span, 8, (uint64_t)row->version); /* http_status */
    if (row->is_broken)                               /* a number where a text belongs */
        put_number(&span, 2, 77);
    else
        put_bytes(&span, 2, tide_view_of(id));
    put_bytes(&span, 4, tide_view_of("legacy"));
    put_number(&span, 12, row->seq);
    put_bytes(out, 1, tide_buffer_view(&span));
}

static tide_status answer_script(rig *r, rig_agent *agent, const tide_question *question,
                                 tide_buffer *out, tide_error *err)
{
    if (!strstr(question->path, "/QueryTelemetry"))
        return tide_fail(err, TIDE_E_UNSUPPORTED, "unknown method %s", question->path);
    AGENT(QueryTelemetryRequest) *request = tidemark__agent__v1__query_telemetry_request__unpack(
        NULL, question->request.len, (const uint8_t *)question->request.ptr);
    assert_non_null(request);
    agent->pages++;
    agent->last_start = (int64_t)request->start_seq_id;
    agent->last_max = request->max_records;
    uint64_t max_seq = 0;
    int given = 0;
    const int page_max =
        agent->script->page_max > 0 && agent->script->page_max < request->max_records
            ? agent->script->page_max
            : (int)request->max_records;
    for (int i = 0; i < agent->script->count && given < page_max; i++) {
        const rig_row *row = &agent->script->rows[i];
        if (row->is_gone || row->from_us > r->t->clock.mono_us ||
            (row->seq <= request->start_seq_id && row->seq != 0))
            continue;
        put_span(out, agent, row);
        max_seq = row->seq > max_seq ? row->seq : max_seq;
        given++;
    }
    put_number(out, 2, (uint64_t)given);
    put_number(out, 3, max_seq);
    if (*agent->script->session_id)
        put_bytes(out, 4, tide_view_of(agent->script->session_id));
    tidemark__agent__v1__query_telemetry_request__free_unpacked(request, NULL);
    return TIDE_OK;
}

void rig_agent_script(rig_agent *agent, rig_script *script)
{
    agent->script = script;
    if (!*script->session_id)
        (void)snprintf(script->session_id, sizeof script->session_id, "legacy-session-%s",
                       strcmp(agent->name, "a0") == 0 ? "1" : "2");
}

void rig_script_fill(rig_script *script, int count, const uint64_t *but)
{
    script->count = 0;
    for (uint64_t seq = 1; seq <= (uint64_t)count; seq++) {
        bool is_left_out = false;
        for (const uint64_t *b = but; b && *b; b++)
            is_left_out = is_left_out || *b == seq;
        if (!is_left_out)
            script->rows[script->count++] = (rig_row){.seq = seq};
    }
}

void rig_script_add(rig_script *script, uint64_t seq)
{
    int at = script->count++;
    assert_true(script->count <= RIG_SCRIPT_ROWS);
    for (; at > 0 && script->rows[at - 1].seq > seq; at--)
        script->rows[at] = script->rows[at - 1];
    script->rows[at] = (rig_row){.seq = seq};
}

/* ---- what goes wrong ---- */

static bool is_spoilt(rig_agent *agent)
{
    if (agent->fault == RIG_FINE || agent->fault_count == 0)
        return false;
    if (agent->fault_count > 0)
        agent->fault_count--;
    return true;
}

static tide_status before_work(rig *r, const rig_agent *agent, const tide_question *question,
                               tide_error *err)
{
    if (agent->fault == RIG_AWAY)
        return tide_fail(err, TIDE_E_UNAVAILABLE, "connection refused");
    if (agent->fault == RIG_REFUSES)
        return tide_fail(err, TIDE_E_DENIED, "permission denied");
    if (agent->fault != RIG_SILENT)
        return TIDE_OK;
    rig_advance(r, question->timeout_us);
    return tide_fail(err, TIDE_E_TIMEOUT, "no answer in time");
}

/* The session of an answer, wherever it stands, becomes another one, or is gone: field 4 of pages, 2 of the watch. */
static void change_session(tide_buffer *answer, uint32_t field, const char *session)
{
    tide_reader reader = tide_reader_of(tide_buffer_view(answer));
    TIDE_CLEANUP(tide_buffer_done) tide_buffer out = {0};
    tide_buffer_init(&out, TIDE_REPLY_BYTES_MAX);
    uint64_t tag;
    while (tide_reader_left(&reader) > 0) {
        const size_t from = reader.offset;
        uint64_t number;
        tide_view bytes;
        assert_ok(tide_reader_varint(&reader, &tag));
        assert_ok(tide_reader_varint(&reader, &number));
        if ((tag & 7) == 2)
            assert_ok(tide_reader_bytes(&reader, (size_t)number, &bytes));
        if (tag >> 3 != field)
            assert_ok(tide_buffer_append(&out, answer->ptr + from, reader.offset - from));
    }
    if (session)
        put_bytes(&out, field, tide_view_of(session));
    tide_buffer_clear(answer);
    assert_ok(tide_buffer_append_view(answer, tide_buffer_view(&out)));
}

static tide_status after_work(rig *r, rig_agent *agent, const tide_question *question,
                              tide_buffer *answer, tide_error *err)
{
    char session[64];
    if (agent->fault == RIG_LOST)
        return tide_fail(err, TIDE_E_UNAVAILABLE, "connection reset by peer");
    if (agent->fault == RIG_HUGE)
        return tide_fail(err, TIDE_E_LIMIT, "the answer is larger than the limit");
    if (agent->fault == RIG_LATE) {
        rig_advance(r, question->timeout_us);
        return tide_fail(err, TIDE_E_TIMEOUT, "no answer in time");
    }
    if (agent->fault == RIG_GARBAGE) {
        tide_buffer_clear(answer);
        return tide_buffer_append(answer, "\xff\xff\xff not protobuf at all", 23);
    }
    if (agent->fault == RIG_CUT)
        tide_buffer_truncate(answer, answer->len / 2);
    if (agent->fault == RIG_NO_SESSION || agent->fault == RIG_OTHER_SESSION) {
        (void)snprintf(session, sizeof session, "other-session-%lld", (long long)agent->asked);
        change_session(answer, question->is_watch ? 2 : 4,
                       agent->fault == RIG_OTHER_SESSION ? session : NULL);
    }
    return TIDE_OK;
}

tide_status rig_answer(rig_agent *agent, const char *path, tide_view request, tide_buffer *out,
                       int64_t *wait_us, tide_error *err)
{
    if (strstr(path, "/WatchStreams"))
        return answer_watch(agent, request, out, wait_us, err);
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        if (strstr(path, calls[i].name)) {
            ProtobufCMessage *message = protobuf_c_message_unpack(
                calls[i].descriptor, NULL, request.len, (const uint8_t *)request.ptr);
            assert_non_null(message);
            const tide_status status = answer_page(agent, i, message, out, err);
            protobuf_c_message_free_unpacked(message, NULL);
            return status;
        }
    return tide_fail(err, TIDE_E_UNSUPPORTED, "unknown method %s", path);
}

static tide_status answer_question(rig *r, rig_agent *agent, const tide_question *question,
                                   tide_buffer *out, tide_error *err)
{
    if (agent->script || (agent->has_no_watch && question->is_watch))
        return question->is_watch ? tide_fail(err, TIDE_E_UNSUPPORTED, "unknown method")
                                  : answer_script(r, agent, question, out, err);
    int64_t wait_us = 0;
    const tide_status status =
        rig_answer(agent, question->path, question->request, out, &wait_us, err);
    if (status != TIDE_NONE)
        return status;
    rig_advance(r, wait_us);
    return TIDE_OK;
}

/* As it arrives: gRPC has fewer codes than we have statuses. */
static tide_status carry(tide_status status, tide_error *err)
{
    if (status >= TIDE_OK)
        return status;
    err->status = tide_client_status_of(tide_status_get(status)->grpc_code);
    return err->status;
}

tide_status rig_ask(rig *r, rig_agent *agent, const tide_question *question, tide_buffer *answer,
                    tide_error *err)
{
    const bool spoilt = is_spoilt(agent);
    if (spoilt)
        TIDE_TRY(before_work(r, agent, question, err));
    agent->asked++;
    if (agent->slow_us > 0)
        rig_advance(r, agent->slow_us);
    TIDE_TRY(carry(answer_question(r, agent, question, answer, err), err));
    if (spoilt)
        TIDE_TRY(after_work(r, agent, question, answer, err));
    const int64_t max = agent->answer_max > 0 && agent->answer_max < question->message_max
                            ? agent->answer_max
                            : question->message_max;
    if ((int64_t)answer->len > max)
        return tide_fail(err, TIDE_E_LIMIT, "the answer has %zu bytes", answer->len);
    return TIDE_OK;
}
