/* query_service.c - the query methods of AgentService and AgentDebugService.
 *
 * Each method is a description: where in its request the position and the filters stand, which streams it reads, and which
 * fields of its response take the numbers. One function answers them all, and again when a call that waits is looked at. */
#include <assert.h>
#include <stdlib.h>

#include <tidemark/identity.h>

#include "base/cleanup.h"
#include "base/list.h"
#include "services/agent/query.h"

#define SERVICE "/tidemark.agent.v1.AgentService"
#define DEBUG_SERVICE "/tidemark.agent.v1.AgentDebugService"

enum {
    PARTS_MAX = 4,
    STATE_FIELD = 20,
    FRAMES_FIELD = 21,
    ANSWER_REST = 4096,  /* bytes of an answer besides its records, about */
    NAMES_MAX = 8 << 20, /* bytes of the frames of an answer */
};

typedef struct question {
    tide_query_part parts[PARTS_MAX];
    int part_count;
    bool wants_frames;
} question;

typedef struct query_kind query_kind;
struct query_kind {
    void (*read)(question *out, const ProtobufCMessage *request);
    int frames_column; /* of the stream, that names frames; -1: none */
    /* numbers of the response: total, the session, and of each part its highest number and its state */
    uint32_t total_field;
    uint32_t session_field;
    uint32_t max_seq_fields[PARTS_MAX];
    uint32_t state_fields[PARTS_MAX];
};

static void read_records(question *out, const ProtobufCMessage *request);

/* ---- answers ---- */

typedef struct answers {
    tide_feed_answer parts[PARTS_MAX];
    int count;
} answers;

static void answers_done(answers *a)
{
    for (int i = 0; i < a->count; i++)
        tide_feed_answer_done(&a->parts[i]);
}

static tide_status put_number(tide_buffer *out, uint32_t field, uint64_t number, tide_error *err)
{
    if (number == 0)
        return TIDE_OK;
    if (tide_buffer_append_varint(out, (uint64_t)field << 3) < TIDE_OK ||
        tide_buffer_append_varint(out, number) < TIDE_OK)
        return tide_no_memory(err);
    return TIDE_OK;
}

/* ---- frames ---- */

typedef struct frame_ids {
    uint64_t *ids;
    size_t count;
} frame_ids;

static tide_status keep_id(frame_ids *set, uint64_t id, tide_error *err)
{
    TIDE_TRY(tide_list_room(&set->ids, (int64_t)set->count, sizeof *set->ids, TIDE_LIST_MAX, err));
    set->ids[set->count++] = id;
    return TIDE_OK;
}

static int compare_ids(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a;
    const uint64_t y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void sort_once(frame_ids *set)
{
    if (set->count == 0)
        return;
    qsort(set->ids, set->count, sizeof *set->ids, compare_ids);
    size_t kept = 1;
    for (size_t i = 1; i < set->count; i++)
        if (set->ids[i] != set->ids[kept - 1])
            set->ids[kept++] = set->ids[i];
    set->count = kept;
}

static tide_status gather_ids(frame_ids *set, const char *stream, int column,
                              const tide_feed_answer *answer, tide_error *err)
{
    const tide_stream_type *type = tide_stream_type_find(stream);
    assert(type);
    tide_view rest = tide_view_bytes(answer->bytes, answer->len);
    tide_record record;
    while (tide_record_next(type, &rest, &record) == TIDE_OK) {
        tide_record_value value;
        uint64_t id;
        if (tide_record_find(type, record.message, column, &value) < TIDE_OK)
            continue; /* the feed has checked it: not reached */
        tide_record_cursor cursor = tide_record_cursor_of(type, column, &value);
        while (tide_record_next_id(&cursor, &id))
            TIDE_TRY(keep_id(set, id, err));
    }
    sort_once(set);
    return TIDE_OK;
}

typedef struct frames_out {
    tide_buffer *out;
    size_t end;     /* where frames have to end */
    bool is_single; /* records cannot be fewer: what does not fit costs names, not the sample */
} frames_out;

static tide_status put_frame(void *arg, uint64_t id, tide_view name, tide_error *err)
{
    enum { NAME_FIELD = 2 };
    const frames_out *to = arg;
    AGENT(ProfileFrame) row = AGENT_INIT(PROFILE_FRAME);
    row.frame_id = id;
    TIDE_BUFFER(bytes, TIDE_RPC_RESPONSE_MAX);
    TIDE_TRY(tide_rpc_pack(&bytes, &row.base, err));
    TIDE_TRY(tide_rpc_put_bytes(&bytes, NAME_FIELD, name, err));
    if (to->out->len + bytes.len > to->end)
        return to->is_single ? TIDE_OK
                             : tide_fail(err, TIDE_E_LIMIT,
                                         "more than %d bytes of names of frames: ask for fewer "
                                         "records",
                                         NAMES_MAX);
    return tide_rpc_put_bytes(to->out, FRAMES_FIELD, tide_buffer_view(&bytes), err);
}

static void free_ids(frame_ids *set)
{
    free(set->ids);
}

static tide_status put_frames(const tide_agent_services *services, const query_kind *kind,
                              const question *q, const answers *a, tide_buffer *out,
                              tide_error *err)
{
    if (!q->wants_frames || kind->frames_column < 0)
        return TIDE_OK;
    TIDE_CLEANUP(free_ids) frame_ids set = {0};
    TIDE_TRY(gather_ids(&set, q->parts[0].stream, kind->frames_column, &a->parts[0], err));
    frames_out to = {.out = out, .end = out->len + NAMES_MAX, .is_single = a->parts[0].count == 1};
    return tide_feed_frames_get(services->feed, set.ids, (int)set.count, put_frame, &to, err);
}

/* ---- one look ---- */

/* Memory for the answer, before anything is read: while readers are slow there is less of it, and pages are shorter.
 * What is set aside is the call's until it is answered. */
static tide_status find_room(tide_call *call, question *q, tide_error *err)
{
    int64_t wanted = 0;
    for (int i = 0; i < q->part_count; i++)
        wanted += q->parts[i].is_left_out ? 0 : tide_query_page_len(&q->parts[i]);
    const size_t room = tide_call_reserve(call, (size_t)wanted + ANSWER_REST);
    if (room == 0)
        return tide_fail(err, TIDE_E_NOMEM,
                         "too much waits for its readers: there is no room for an answer now");
    const double share = (double)room / ((double)wanted + ANSWER_REST);
    for (int i = 0; i < q->part_count; i++)
        q->parts[i].room_len = 1 + (int64_t)((double)tide_query_page_len(&q->parts[i]) * share);
    return TIDE_OK;
}

static tide_status read_parts(const tide_agent_services *services, const question *q, answers *a,
                              tide_error *err)
{
    for (int i = 0; i < q->part_count; i++) {
        const tide_query_part *part = &q->parts[i];
        a->count = i + 1;
        if (part->is_left_out)
            continue;
        const tide_status status = tide_query_read(services, part, &a->parts[i], err);
        if (status < TIDE_OK)
            return q->part_count == 1 ? status : tide_fail_context(err, status, "%s", part->stream);
    }
    return TIDE_OK;
}

static tide_status encode(const tide_agent_services *services, const query_kind *kind,
                          const question *q, const answers *a, tide_buffer *out, tide_error *err)
{
    int64_t total = 0;
    size_t len = ANSWER_REST;
    for (int i = 0; i < a->count; i++)
        len += a->parts[i].len;
    if (tide_buffer_reserve(out, len) < TIDE_OK) /* as much as it takes, not twice as much */
        return tide_no_memory(err);
    for (int i = 0; i < a->count; i++) {
        const tide_feed_answer *answer = &a->parts[i];
        if (q->parts[i].is_left_out) /* nothing is said of it: a reader must not take it for read */
            continue;
        total += answer->count;
        if (tide_buffer_append(out, answer->bytes, answer->len) < TIDE_OK)
            return tide_fail(err, TIDE_E_LIMIT, "the answer is too long: ask for fewer records");
        TIDE_TRY(put_number(out, kind->max_seq_fields[i], (uint64_t)answer->max_seq, err));
        TIDE_TRY(tide_query_put_state(services, out, kind->state_fields[i], q->parts[i].stream,
                                      answer, err));
    }
    TIDE_TRY(put_number(out, kind->total_field, (uint64_t)total, err));
    TIDE_TRY(put_frames(services, kind, q, a, out, err));
    tide_identity identity;
    tide_store_identity(tide_feed_store(services->feed), &identity);
    return tide_rpc_put_bytes(out, kind->session_field, tide_view_of(identity.session_id), err);
}

static bool has_news(const answers *a)
{
    for (int i = 0; i < a->count; i++)
        if (a->parts[i].count > 0 || a->parts[i].hole_count > 0 || a->parts[i].has_more ||
            a->parts[i].standing == TIDE_FEED_STANDING_DIVERGED ||
            a->parts[i].standing == TIDE_FEED_STANDING_AHEAD)
            return true;
    return false;
}

/* Records of a built-in stream are of another message than QueryRecords answers with. */
static tide_status check_stream(const query_kind *kind, const question *q, tide_error *err)
{
    if (kind->read != read_records || !tide_stream_type_find(q->parts[0].stream))
        return TIDE_OK;
    return tide_fail(err, TIDE_E_INVALID,
                     "stream '%s' is built in: its records have a call of their own",
                     q->parts[0].stream);
}

/* TIDE_NONE: there is nothing yet, and somebody may wait. */
static tide_status look(tide_call *call, const tide_agent_services *services,
                        const query_kind *kind, question *q, bool is_last, tide_buffer *out,
                        tide_error *err)
{
    TIDE_CLEANUP(answers_done) answers a = {.count = 0};
    TIDE_TRY(find_room(call, q, err));
    TIDE_TRY(read_parts(services, q, &a, err));
    if (!is_last && !has_news(&a)) {
        (void)tide_call_reserve(call, 0);
        return TIDE_NONE;
    }
    return encode(services, kind, q, &a, out, err);
}

static void reply(tide_call *call, tide_buffer *out)
{
    const size_t len = out->len;
    char *bytes = TIDE_TAKE(out->ptr);
    tide_buffer_init(out, 0);
    tide_call_respond_owned(call, bytes, len);
}

/* ---- waiting ---- */

typedef struct waiting {
    const tide_agent_services *services;
    const query_kind *kind;
    question q;
} waiting;

static int64_t step_query(tide_call *call, tide_store *store, void *arg, bool is_over)
{
    (void)store;
    waiting *w = arg;
    tide_error err = {0};
    TIDE_BUFFER(out, TIDE_RPC_RESPONSE_MAX);
    const tide_status status = look(call, w->services, w->kind, &w->q, is_over, &out, &err);
    if (status == TIDE_NONE)
        return INT64_MAX;
    if (status >= TIDE_OK)
        reply(call, &out);
    else
        tide_call_end(call, status, &err);
    return -1;
}

static tide_status wait_for(tide_call *call, const tide_agent_services *services,
                            const query_kind *kind, const question *q, int64_t wait_us,
                            tide_error *err)
{
    waiting *w = malloc(sizeof *w);
    TIDE_NEED_MEMORY(w, err);
    *w = (waiting){.services = services, .kind = kind, .q = *q};
    return tide_long_poll_park(services->waiter, call, step_query, w, wait_us, err);
}

static tide_status find_wait(const question *q, int64_t *wait_us, tide_error *err)
{
    *wait_us = 0;
    for (int i = 0; i < q->part_count; i++) {
        int64_t part_us = 0;
        TIDE_TRY(tide_query_wait(&q->parts[i], &part_us, err));
        if (part_us > *wait_us && !q->parts[i].is_left_out)
            *wait_us = part_us;
    }
    return TIDE_OK;
}

static tide_status answer_query(tide_call *call, tide_view message,
                                const tide_agent_services *services, const query_kind *kind,
                                tide_error *err)
{
    ProtobufCMessage *request = NULL;
    question q = {.part_count = 0};
    int64_t wait_us = 0;
    TIDE_TRY(tide_call_decode(call, message, &request, err));
    kind->read(&q, request);
    TIDE_TRY(check_stream(kind, &q, err));
    TIDE_TRY(find_wait(&q, &wait_us, err));
    TIDE_BUFFER(out, TIDE_RPC_RESPONSE_MAX);
    const tide_status status = look(call, services, kind, &q, wait_us == 0, &out, err);
    if (status == TIDE_NONE)
        return wait_for(call, services, kind, &q, wait_us, err);
    TIDE_TRY(status);
    reply(call, &out);
    return TIDE_OK;
}

static void run_query(tide_call *call, tide_view message, void *arg, const query_kind *kind)
{
    tide_error err = {0};
    const tide_status status = answer_query(call, message, arg, kind, &err);
    if (status < TIDE_OK)
        tide_call_end(call, status, &err);
}

/* ---- the kinds ---- */

/* Requests with one stream have the same members under the same names. */
#define READ_ONE(type_, stream_, services_)                                                        \
    const AGENT(type_) *given = (const AGENT(type_) *)request;                                     \
    out->part_count = 1;                                                                           \
    out->parts[0] = (tide_query_part)                                                              \
    {                                                                                              \
        .stream = (stream_), .start_seq_id = given->start_seq_id, .start_time = given->start_time, \
        .end_time = given->end_time, .max_records = given->max_records,                            \
        .services = given->services_, .service_count = given->n_##services_,                       \
        .position = given->position                                                                \
    }

#define KIND_ONE(read_, frames_)                                                                   \
    {                                                                                              \
        .read = (read_), .frames_column = (frames_), .total_field = 2, .max_seq_fields = {3},      \
        .session_field = 4, .state_fields = {                                                      \
            STATE_FIELD                                                                            \
        }                                                                                          \
    }

static void read_telemetry(question *out, const ProtobufCMessage *request)
{
    READ_ONE(QueryTelemetryRequest, "telemetry", service_names);
}

static void read_system_metrics(question *out, const ProtobufCMessage *request)
{
    READ_ONE(QuerySystemMetricsRequest, "system_metrics", metric_names);
}

static void read_logs(question *out, const ProtobufCMessage *request)
{
    READ_ONE(QueryLogsRequest, "logs", service_names);
}

static void read_cpu(question *out, const ProtobufCMessage *request)
{
    READ_ONE(QueryCPUProfileSamplesRequest, "cpu_profile", service_ids);
    out->wants_frames = !given->without_frames;
}

static void read_memory(question *out, const ProtobufCMessage *request)
{
    READ_ONE(QueryMemoryProfileSamplesRequest, "memory_profile", service_ids);
    out->wants_frames = !given->without_frames;
}

static void read_records(question *out, const ProtobufCMessage *request)
{
    const AGENT(QueryRecordsRequest) *given = (const AGENT(QueryRecordsRequest) *)request;
    out->part_count = 1;
    out->parts[0] = (tide_query_part){.stream = given->stream,
                                      .start_seq_id = given->start_seq_id,
                                      .start_time = given->start_time,
                                      .end_time = given->end_time,
                                      .max_records = given->max_records,
                                      .position = given->position};
}

static void read_receipts(question *out, const ProtobufCMessage *request)
{
    const AGENT(QueryLossReceiptsRequest) *given = (const AGENT(QueryLossReceiptsRequest) *)request;
    out->part_count = 1;
    out->parts[0] = (tide_query_part){.stream = "loss_receipts",
                                      .start_seq_id = given->start_seq_id,
                                      .start_time = given->start_time,
                                      .end_time = given->end_time,
                                      .max_records = given->max_records,
                                      .position = given->position};
}

static bool wants_type(const AGENT(QueryEbpfMetricsRequest) * given, AGENT(EbpfMetricType) type)
{
    for (size_t i = 0; i < given->n_metric_types; i++)
        if (given->metric_types[i] == type)
            return true;
    return given->n_metric_types == 0;
}

static tide_query_part ebpf_part(const AGENT(QueryEbpfMetricsRequest) * given, const char *stream,
                                 uint64_t start_seq_id, const AGENT(Position) * position,
                                 bool is_wanted)
{
    return (tide_query_part){.stream = stream,
                             .start_seq_id = start_seq_id,
                             .start_time = given->start_time,
                             .end_time = given->end_time,
                             .max_records = given->max_records,
                             .services = given->service_names,
                             .service_count = given->n_service_names,
                             .position = position,
                             .is_left_out = !is_wanted};
}

static void read_ebpf(question *out, const ProtobufCMessage *request)
{
    const AGENT(QueryEbpfMetricsRequest) *given = (const AGENT(QueryEbpfMetricsRequest) *)request;
    out->part_count = PARTS_MAX;
    out->parts[0] =
        ebpf_part(given, "beyla_http", given->http_start_seq_id, given->http_position,
                  wants_type(given, TIDEMARK__AGENT__V1__EBPF_METRIC_TYPE__EBPF_METRIC_TYPE_HTTP));
    out->parts[1] =
        ebpf_part(given, "beyla_grpc", given->grpc_start_seq_id, given->grpc_position,
                  wants_type(given, TIDEMARK__AGENT__V1__EBPF_METRIC_TYPE__EBPF_METRIC_TYPE_GRPC));
    out->parts[2] =
        ebpf_part(given, "beyla_sql", given->sql_start_seq_id, given->sql_position,
                  wants_type(given, TIDEMARK__AGENT__V1__EBPF_METRIC_TYPE__EBPF_METRIC_TYPE_SQL));
    out->parts[3] =
        ebpf_part(given, "beyla_traces", given->traces_start_seq_id, given->traces_position,
                  given->include_traces || given->traces_start_seq_id > 0 ||
                      given->traces_position || *given->trace_id);
    out->parts[3].max_records = given->max_traces;
    out->parts[3].trace_id = tide_rpc_text(given->trace_id);
}

static const query_kind telemetry_kind = KIND_ONE(read_telemetry, -1);
static const query_kind system_metrics_kind = KIND_ONE(read_system_metrics, -1);
static const query_kind logs_kind = KIND_ONE(read_logs, -1);
static const query_kind records_kind = KIND_ONE(read_records, -1);
static const query_kind receipts_kind = KIND_ONE(read_receipts, -1);
static const query_kind cpu_kind = KIND_ONE(read_cpu, TIDE_CPU_PROFILE_STACK_FRAME_IDS);
static const query_kind memory_kind = KIND_ONE(read_memory, TIDE_MEMORY_PROFILE_STACK_FRAME_IDS);
static const query_kind ebpf_kind = {.read = read_ebpf,
                                     .frames_column = -1,
                                     .total_field = 5,
                                     .max_seq_fields = {6, 7, 8, 9},
                                     .session_field = 10,
                                     .state_fields = {20, 21, 22, 23}};

#define RUN(name_)                                                                                 \
    static void run_##name_(tide_call *call, tide_view message, void *arg)                         \
    {                                                                                              \
        run_query(call, message, arg, &name_##_kind);                                              \
    }

RUN(telemetry)
RUN(system_metrics)
RUN(logs)
RUN(records)
RUN(receipts)
RUN(cpu)
RUN(memory)
RUN(ebpf)

/* ---- binaries ---- */

static tide_status put_binary(void *arg, const tide_feed_binary *binary, tide_error *err)
{
    AGENT(BinaryMetadata) row = AGENT_INIT(BINARY_METADATA);
    row.first_seen = binary->first_seen_us / 1000;
    row.last_seen = binary->last_seen_us / 1000;
    row.has_debug_info = binary->has_debug_info;
    TIDE_BUFFER(bytes, TIDE_RPC_RESPONSE_MAX);
    TIDE_TRY(tide_rpc_pack(&bytes, &row.base, err));
    TIDE_TRY(tide_rpc_put_bytes(&bytes, 1, binary->build_id, err));
    TIDE_TRY(tide_rpc_put_bytes(&bytes, 2, binary->service_id, err));
    TIDE_TRY(tide_rpc_put_bytes(&bytes, 3, binary->binary_path, err));
    return tide_rpc_put_bytes(arg, 1, tide_buffer_view(&bytes), err);
}

static void run_binaries(tide_call *call, tide_view message, void *arg)
{
    (void)message;
    const tide_agent_services *services = arg;
    tide_error err = {0};
    tide_buffer out;
    tide_buffer_init(&out, TIDE_RPC_RESPONSE_MAX);
    const tide_status status = tide_feed_binaries_get(services->feed, put_binary, &out, &err);
    if (status >= TIDE_OK)
        tide_call_respond(call, tide_buffer_view(&out));
    else
        tide_call_end(call, status, &err);
    tide_buffer_done(&out);
}

/* ---- tables ---- */

#define ROW(service_, method_, request_, response_, fn_)                                           \
    {                                                                                              \
        .path = service_ "/" method_, .kind = TIDE_CALL_UNARY, .role = TIDE_ROLE_READ,             \
        .is_blocking = true, .request = &tidemark__agent__v1__##request_##__descriptor,            \
        .response = &tidemark__agent__v1__##response_##__descriptor, .run = run_##fn_              \
    }

/* clang-format off */
const tide_method tide_agent_queries[] = {
    ROW(SERVICE, "QueryTelemetry", query_telemetry_request, query_telemetry_response, telemetry),
    ROW(SERVICE, "QueryEbpfMetrics", query_ebpf_metrics_request, query_ebpf_metrics_response, ebpf),
    ROW(SERVICE, "QuerySystemMetrics", query_system_metrics_request, query_system_metrics_response, system_metrics),
    ROW(SERVICE, "QueryLogs", query_logs_request, query_logs_response, logs),
    ROW(SERVICE, "QueryRecords", query_records_request, query_records_response, records),
    ROW(SERVICE, "QueryLossReceipts", query_loss_receipts_request, query_loss_receipts_response, receipts),
    ROW(DEBUG_SERVICE, "QueryCPUProfileSamples", query_cpuprofile_samples_request, query_cpuprofile_samples_response, cpu),
    ROW(DEBUG_SERVICE, "QueryMemoryProfileSamples", query_memory_profile_samples_request, query_memory_profile_samples_response, memory),
    ROW(DEBUG_SERVICE, "ListBinaries", list_binaries_request, list_binaries_response, binaries),
    {.path = NULL},
};
/* clang-format on */
