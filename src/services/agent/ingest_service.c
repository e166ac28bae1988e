/* ingest_service.c - the ingest methods of AgentService: records that others made, answered when they are durable.
 *
 * A request is decoded whole (bounded by the server), encoded as records, handed to the writer. A record that cannot be taken
 * refuses the request, and nothing of it is stored: unlike OTLP these calls have no partial success. */
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <tidemark/identity.h>

#include "base/cleanup.h"
#include "base/list.h"
#include "net/http/grpc.h"
#include "services/agent/query.h"
#include "services/agent/services.h"

#define SERVICE "/tidemark.agent.v1.AgentService"

enum { BATCHES_MAX = 4 };

typedef struct ingest ingest;

/* Encode the request's records into the batches; the request lives until the call ends. */
typedef tide_status ingest_read_fn(ingest *in, const ProtobufCMessage *request, tide_error *err);
typedef void ingest_answer_fn(ingest *in);

struct ingest {
    tide_feed_put put; /* first: the writer hands it back */
    tide_call *call;
    const tide_agent_services *services;
    tide_record_batch batches[BATCHES_MAX];
    int batch_count;
    const char *stream; /* of opaque records; borrowed from the request */
    ingest_answer_fn *answer;
};

static tide_view text(const char *given)
{
    return tide_view_of(given);
}

static tide_record_batch *add_batch(ingest *in, tide_stream_kind kind)
{
    assert(in->batch_count < BATCHES_MAX);
    tide_record_batch *batch = &in->batches[in->batch_count++];
    tide_record_batch_init(batch, tide_stream_type_of(kind), 0);
    return batch;
}

/* Records without a time have come now. */
static int64_t time_of(const ingest *in, int64_t given_ms)
{
    return given_ms != 0 ? given_ms : in->services->env->wall_us(in->services->env) / 1000;
}

static tide_status end_record(tide_record_batch *batch, size_t index, tide_error *err)
{
    const tide_status status = tide_record_end(batch);
    if (status >= TIDE_OK)
        return status;
    return tide_fail(err, status,
                     "record %zu is too long, or there are too many at once (at most %d records "
                     "and %d MiB): send fewer",
                     index + 1, TIDE_FEED_BATCH_RECORDS_MAX, TIDE_FEED_BATCH_BYTES_MAX >> 20);
}

static tide_status check_finite(double value, const char *what, size_t index, tide_error *err)
{
    if (isfinite(value))
        return TIDE_OK;
    return tide_fail(err, TIDE_E_INVALID, "record %zu: %s is not a finite number", index + 1, what);
}

/* Generated map entries all look alike. */
#define PUT_PAIRS(batch_, column_, given_)                                                         \
    for (size_t pair = 0; pair < (given_)->n_attributes; pair++)                                   \
    tide_record_pair(batch_, column_, text((given_)->attributes[pair]->key),                       \
                     text((given_)->attributes[pair]->value))

/* ---- eBPF ---- */

static tide_status read_http(ingest *in, const AGENT(IngestEbpfMetricsRequest) * given,
                             tide_error *err)
{
    tide_record_batch *batch = add_batch(in, TIDE_STREAM_BEYLA_HTTP);
    for (size_t i = 0; i < given->n_http_metrics; i++) {
        const AGENT(EbpfHttpMetric) *m = given->http_metrics[i];
        tide_record_begin(batch);
        tide_record_i64(batch, TIDE_HTTP_METRIC_TIMESTAMP, time_of(in, m->timestamp));
        tide_record_text(batch, TIDE_HTTP_METRIC_SERVICE_NAME, text(m->service_name));
        tide_record_text(batch, TIDE_HTTP_METRIC_HTTP_METHOD, text(m->http_method));
        tide_record_text(batch, TIDE_HTTP_METRIC_HTTP_ROUTE, text(m->http_route));
        tide_record_i64(batch, TIDE_HTTP_METRIC_HTTP_STATUS_CODE, m->http_status_code);
        tide_record_f64(batch, TIDE_HTTP_METRIC_LATENCY_BUCKET_MS, m->latency_bucket_ms);
        tide_record_i64(batch, TIDE_HTTP_METRIC_COUNT, m->count);
        PUT_PAIRS(batch, TIDE_HTTP_METRIC_ATTRIBUTES, m);
        TIDE_TRY(end_record(batch, i, err));
    }
    return TIDE_OK;
}

static tide_status read_grpc(ingest *in, const AGENT(IngestEbpfMetricsRequest) * given,
                             tide_error *err)
{
    tide_record_batch *batch = add_batch(in, TIDE_STREAM_BEYLA_GRPC);
    for (size_t i = 0; i < given->n_grpc_metrics; i++) {
        const AGENT(EbpfGrpcMetric) *m = given->grpc_metrics[i];
        tide_record_begin(batch);
        tide_record_i64(batch, TIDE_GRPC_METRIC_TIMESTAMP, time_of(in, m->timestamp));
        tide_record_text(batch, TIDE_GRPC_METRIC_SERVICE_NAME, text(m->service_name));
        tide_record_text(batch, TIDE_GRPC_METRIC_GRPC_METHOD, text(m->grpc_method));
        tide_record_i64(batch, TIDE_GRPC_METRIC_GRPC_STATUS_CODE, m->grpc_status_code);
        tide_record_f64(batch, TIDE_GRPC_METRIC_LATENCY_BUCKET_MS, m->latency_bucket_ms);
        tide_record_i64(batch, TIDE_GRPC_METRIC_COUNT, m->count);
        PUT_PAIRS(batch, TIDE_GRPC_METRIC_ATTRIBUTES, m);
        TIDE_TRY(end_record(batch, i, err));
    }
    return TIDE_OK;
}

static tide_status read_sql(ingest *in, const AGENT(IngestEbpfMetricsRequest) * given,
                            tide_error *err)
{
    tide_record_batch *batch = add_batch(in, TIDE_STREAM_BEYLA_SQL);
    for (size_t i = 0; i < given->n_sql_metrics; i++) {
        const AGENT(EbpfSqlMetric) *m = given->sql_metrics[i];
        tide_record_begin(batch);
        tide_record_i64(batch, TIDE_SQL_METRIC_TIMESTAMP, time_of(in, m->timestamp));
        tide_record_text(batch, TIDE_SQL_METRIC_SERVICE_NAME, text(m->service_name));
        tide_record_text(batch, TIDE_SQL_METRIC_SQL_OPERATION, text(m->sql_operation));
        tide_record_text(batch, TIDE_SQL_METRIC_TABLE_NAME, text(m->table_name));
        tide_record_f64(batch, TIDE_SQL_METRIC_LATENCY_BUCKET_MS, m->latency_bucket_ms);
        tide_record_i64(batch, TIDE_SQL_METRIC_COUNT, m->count);
        PUT_PAIRS(batch, TIDE_SQL_METRIC_ATTRIBUTES, m);
        TIDE_TRY(end_record(batch, i, err));
    }
    return TIDE_OK;
}

static tide_status read_traces(ingest *in, const AGENT(IngestEbpfMetricsRequest) * given,
                               tide_error *err)
{
    tide_record_batch *batch = add_batch(in, TIDE_STREAM_BEYLA_TRACES);
    for (size_t i = 0; i < given->n_trace_spans; i++) {
        const AGENT(EbpfTraceSpan) *s = given->trace_spans[i];
        tide_record_begin(batch);
        tide_record_text(batch, TIDE_TRACE_TRACE_ID, text(s->trace_id));
        tide_record_text(batch, TIDE_TRACE_SPAN_ID, text(s->span_id));
        tide_record_text(batch, TIDE_TRACE_PARENT_SPAN_ID, text(s->parent_span_id));
        tide_record_text(batch, TIDE_TRACE_SERVICE_NAME, text(s->service_name));
        tide_record_text(batch, TIDE_TRACE_SPAN_NAME, text(s->span_name));
        tide_record_text(batch, TIDE_TRACE_SPAN_KIND, text(s->span_kind));
        tide_record_i64(batch, TIDE_TRACE_START_TIME, time_of(in, s->start_time));
        tide_record_i64(batch, TIDE_TRACE_DURATION_US, s->duration_us);
        tide_record_i64(batch, TIDE_TRACE_STATUS_CODE, s->status_code);
        tide_record_i64(batch, TIDE_TRACE_PROCESS_PID, s->process_pid);
        PUT_PAIRS(batch, TIDE_TRACE_ATTRIBUTES, s);
        TIDE_TRY(end_record(batch, i, err));
    }
    return TIDE_OK;
}

static tide_status read_ebpf(ingest *in, const ProtobufCMessage *request, tide_error *err)
{
    const AGENT(IngestEbpfMetricsRequest) *given = (const AGENT(IngestEbpfMetricsRequest) *)request;
    TIDE_TRY(read_http(in, given, err));
    TIDE_TRY(read_grpc(in, given, err));
    TIDE_TRY(read_sql(in, given, err));
    return read_traces(in, given, err);
}

/* ---- system metrics ---- */

static bool is_metric_type(const char *type)
{
    return strcmp(type, "gauge") == 0 || strcmp(type, "counter") == 0 || strcmp(type, "delta") == 0;
}

static tide_status read_system(ingest *in, const ProtobufCMessage *request, tide_error *err)
{
    const AGENT(IngestSystemMetricsRequest) *given =
        (const AGENT(IngestSystemMetricsRequest) *)request;
    tide_record_batch *batch = add_batch(in, TIDE_STREAM_SYSTEM_METRICS);
    for (size_t i = 0; i < given->n_metrics; i++) {
        const AGENT(SystemMetric) *m = given->metrics[i];
        const char *type = *m->metric_type ? m->metric_type : "gauge";
        if (!*m->metric_name)
            return tide_fail(err, TIDE_E_INVALID, "record %zu has no metric_name", i + 1);
        if (!is_metric_type(type))
            return tide_fail(err, TIDE_E_INVALID,
                             "record %zu: metric_type '%.40s', want gauge, counter or delta", i + 1,
                             type);
        TIDE_TRY(check_finite(m->value, "value", i, err));
        tide_record_begin(batch);
        tide_record_i64(batch, TIDE_SYSTEM_METRIC_TIMESTAMP, time_of(in, m->timestamp));
        tide_record_text(batch, TIDE_SYSTEM_METRIC_METRIC_NAME, text(m->metric_name));
        tide_record_f64(batch, TIDE_SYSTEM_METRIC_VALUE, m->value);
        tide_record_text(batch, TIDE_SYSTEM_METRIC_UNIT, text(m->unit));
        tide_record_text(batch, TIDE_SYSTEM_METRIC_METRIC_TYPE, text(type));
        PUT_PAIRS(batch, TIDE_SYSTEM_METRIC_ATTRIBUTES, m);
        TIDE_TRY(end_record(batch, i, err));
    }
    return TIDE_OK;
}

/* ---- profiles ---- */

/* The request's own number of a frame, and ours; sorted by theirs. */
typedef struct frame_pair {
    uint64_t theirs;
    uint64_t ours;
} frame_pair;

typedef struct frame_map {
    frame_pair *pairs;
    size_t count;
    uint64_t *stack; /* of the sample under way, with our numbers */
    size_t stack_capacity;
    bool is_numbered; /* false: every frame has the longest number there is */
} frame_map;

static void frame_map_done(frame_map *map)
{
    free(map->pairs);
    free(map->stack);
}

static int compare_pairs(const void *a, const void *b)
{
    const frame_pair *x = a;
    const frame_pair *y = b;
    return (x->theirs > y->theirs) - (x->theirs < y->theirs);
}

/* Two names for one number: nobody could tell which one a stack means. */
static tide_status check_pairs(const frame_map *map, AGENT(ProfileFrame) * *frames, tide_error *err)
{
    for (size_t i = 1; i < map->count; i++) {
        const frame_pair *a = &map->pairs[i - 1];
        const frame_pair *b = &map->pairs[i];
        if (a->theirs == b->theirs &&
            strcmp(frames[a->ours]->frame_name, frames[b->ours]->frame_name) != 0)
            return tide_fail(err, TIDE_E_INVALID, "frame %llu has two names",
                             (unsigned long long)a->theirs);
    }
    return TIDE_OK;
}

/* With places in the request for our numbers: they are given when everything else is right, and are not longer. */
static tide_status list_frames(frame_map *map, AGENT(ProfileFrame) * *frames, size_t count,
                               tide_error *err)
{
    if (count > TIDE_FEED_FRAMES_MAX)
        return tide_fail(err, TIDE_E_LIMIT, "%zu frames, at most %d", count, TIDE_FEED_FRAMES_MAX);
    if (count == 0)
        return TIDE_OK;
    TIDE_ALLOC(map->pairs, count, err);
    map->count = count;
    for (size_t i = 0; i < count; i++) {
        if (!*frames[i]->frame_name)
            return tide_fail(err, TIDE_E_INVALID, "frame %zu has no name", i + 1);
        map->pairs[i] = (frame_pair){.theirs = frames[i]->frame_id, .ours = i};
    }
    qsort(map->pairs, count, sizeof *map->pairs, compare_pairs);
    return check_pairs(map, frames, err);
}

static tide_status number_frames(frame_map *map, const tide_agent_services *services,
                                 AGENT(ProfileFrame) * *frames, tide_error *err)
{
    if (map->count == 0)
        return TIDE_OK;
    TIDE_CLEANUP(tide_freep) tide_view *names = calloc(map->count, sizeof *names);
    TIDE_CLEANUP(tide_freep) uint64_t *ids = calloc(map->count, sizeof *ids);
    TIDE_NEED_MEMORY(names && ids, err);
    for (size_t i = 0; i < map->count; i++)
        names[i] = text(frames[i]->frame_name);
    TIDE_TRY(tide_feed_frames_put(services->feed, names, ids, (int)map->count, err));
    for (size_t i = 0; i < map->count; i++)
        map->pairs[i].ours = ids[map->pairs[i].ours];
    return TIDE_OK;
}

static tide_status map_stack(frame_map *map, const uint64_t *given, size_t count, size_t index,
                             tide_error *err)
{
    if (count > map->stack_capacity) {
        TIDE_TRY(tide_list_resize(&map->stack, count, sizeof *map->stack, err));
        map->stack_capacity = count;
    }
    for (size_t i = 0; i < count; i++) {
        const frame_pair key = {.theirs = given[i]};
        const frame_pair *found =
            map->count == 0 ? NULL
                            : bsearch(&key, map->pairs, map->count, sizeof key, compare_pairs);
        if (!found)
            return tide_fail(err, TIDE_E_INVALID,
                             "record %zu names frame %llu, which the request does not have",
                             index + 1, (unsigned long long)given[i]);
        map->stack[i] = map->is_numbered ? found->ours : TIDE_FEED_FRAMES_MAX;
    }
    return TIDE_OK;
}

static uint64_t hash_of(uint64_t given, const frame_map *map, size_t count)
{
    return given != 0 ? given : tide_record_stack_hash(map->stack, (int)count);
}

static tide_status check_binaries(size_t count, tide_error *err)
{
    if (count > TIDE_FEED_BINARIES_MAX)
        return tide_fail(err, TIDE_E_LIMIT, "%zu binaries, at most %d", count,
                         TIDE_FEED_BINARIES_MAX);
    return TIDE_OK;
}

static tide_status keep_binaries(const tide_agent_services *services,
                                 AGENT(BinaryMetadata) * *given, size_t count, tide_error *err)
{
    if (count == 0)
        return TIDE_OK;
    tide_feed_binary *binaries = calloc(count, sizeof *binaries);
    TIDE_NEED_MEMORY(binaries, err);
    for (size_t i = 0; i < count; i++)
        binaries[i] = (tide_feed_binary){.build_id = text(given[i]->build_id),
                                         .service_id = text(given[i]->service_id),
                                         .binary_path = text(given[i]->binary_path),
                                         .first_seen_us = given[i]->first_seen * 1000,
                                         .last_seen_us = given[i]->last_seen * 1000,
                                         .has_debug_info = given[i]->has_debug_info};
    const tide_status status = tide_feed_binaries_put(services->feed, binaries, (int)count, err);
    free(binaries);
    return status;
}

static tide_status put_cpu(const ingest *in, const AGENT(IngestCPUProfileSamplesRequest) * given,
                           frame_map *map, tide_record_batch *batch, tide_error *err)
{
    for (size_t i = 0; i < given->n_samples; i++) {
        const AGENT(CPUProfileSample) *s = given->samples[i];
        TIDE_TRY(map_stack(map, s->stack_frame_ids, s->n_stack_frame_ids, i, err));
        tide_record_begin(batch);
        tide_record_i64(batch, TIDE_CPU_PROFILE_TIMESTAMP, time_of(in, s->timestamp));
        tide_record_text(batch, TIDE_CPU_PROFILE_SERVICE_ID, text(s->service_id));
        tide_record_text(batch, TIDE_CPU_PROFILE_BUILD_ID, text(s->build_id));
        tide_record_i64(batch, TIDE_CPU_PROFILE_TGID, s->tgid);
        tide_record_u64(batch, TIDE_CPU_PROFILE_STACK_HASH,
                        hash_of(s->stack_hash, map, s->n_stack_frame_ids));
        tide_record_ids(batch, TIDE_CPU_PROFILE_STACK_FRAME_IDS, map->stack,
                        (int)s->n_stack_frame_ids);
        tide_record_i64(batch, TIDE_CPU_PROFILE_SAMPLE_COUNT, s->sample_count);
        TIDE_TRY(end_record(batch, i, err));
    }
    return TIDE_OK;
}

/* Twice: numbers of frames are given when everything has been found right, so that a request that is refused leaves nothing. */
static tide_status read_cpu(ingest *in, const ProtobufCMessage *request, tide_error *err)
{
    const AGENT(IngestCPUProfileSamplesRequest) *given =
        (const AGENT(IngestCPUProfileSamplesRequest) *)request;
    TIDE_CLEANUP(frame_map_done) frame_map map = {0};
    tide_record_batch *batch = add_batch(in, TIDE_STREAM_CPU_PROFILE);
    TIDE_TRY(list_frames(&map, given->frames, given->n_frames, err));
    TIDE_TRY(check_binaries(given->n_binaries, err));
    TIDE_TRY(put_cpu(in, given, &map, batch, err));
    TIDE_TRY(number_frames(&map, in->services, given->frames, err));
    TIDE_TRY(keep_binaries(in->services, given->binaries, given->n_binaries, err));
    tide_record_batch_clear(batch);
    map.is_numbered = true;
    return put_cpu(in, given, &map, batch, err);
}

static tide_status put_memory(const ingest *in,
                              const AGENT(IngestMemoryProfileSamplesRequest) * given,
                              frame_map *map, tide_record_batch *batch, tide_error *err)
{
    for (size_t i = 0; i < given->n_samples; i++) {
        const AGENT(MemoryProfileSample) *s = given->samples[i];
        TIDE_TRY(map_stack(map, s->stack_frame_ids, s->n_stack_frame_ids, i, err));
        tide_record_begin(batch);
        tide_record_i64(batch, TIDE_MEMORY_PROFILE_TIMESTAMP, time_of(in, s->timestamp));
        tide_record_text(batch, TIDE_MEMORY_PROFILE_SERVICE_ID, text(s->service_id));
        tide_record_text(batch, TIDE_MEMORY_PROFILE_BUILD_ID, text(s->build_id));
        tide_record_u64(batch, TIDE_MEMORY_PROFILE_STACK_HASH,
                        hash_of(s->stack_hash, map, s->n_stack_frame_ids));
        tide_record_ids(batch, TIDE_MEMORY_PROFILE_STACK_FRAME_IDS, map->stack,
                        (int)s->n_stack_frame_ids);
        tide_record_i64(batch, TIDE_MEMORY_PROFILE_ALLOC_BYTES, s->alloc_bytes);
        tide_record_i64(batch, TIDE_MEMORY_PROFILE_ALLOC_OBJECTS, s->alloc_objects);
        TIDE_TRY(end_record(batch, i, err));
    }
    return TIDE_OK;
}

/* Twice: numbers of frames are given when everything has been found right, so that a request that is refused leaves nothing. */
static tide_status read_memory(ingest *in, const ProtobufCMessage *request, tide_error *err)
{
    const AGENT(IngestMemoryProfileSamplesRequest) *given =
        (const AGENT(IngestMemoryProfileSamplesRequest) *)request;
    TIDE_CLEANUP(frame_map_done) frame_map map = {0};
    tide_record_batch *batch = add_batch(in, TIDE_STREAM_MEMORY_PROFILE);
    TIDE_TRY(list_frames(&map, given->frames, given->n_frames, err));
    TIDE_TRY(check_binaries(given->n_binaries, err));
    TIDE_TRY(put_memory(in, given, &map, batch, err));
    TIDE_TRY(number_frames(&map, in->services, given->frames, err));
    TIDE_TRY(keep_binaries(in->services, given->binaries, given->n_binaries, err));
    tide_record_batch_clear(batch);
    map.is_numbered = true;
    return put_memory(in, given, &map, batch, err);
}

/* ---- records of streams that users declare ---- */

static tide_status read_records(ingest *in, const ProtobufCMessage *request, tide_error *err)
{
    const AGENT(IngestRecordsRequest) *given = (const AGENT(IngestRecordsRequest) *)request;
    in->stream = given->stream;
    if (tide_stream_type_find(given->stream))
        return tide_fail(err, TIDE_E_INVALID,
                         "stream '%s' is built in: its records have a call of their own",
                         given->stream);
    /* What was committed to by this process is there. */
    if (in->services->is_declaring && given->n_records > 0 &&
        tide_feed_head(in->services->feed, given->stream) < 0)
        TIDE_TRY(tide_feed_declare(in->services->feed, given->stream, err));
    tide_record_batch *batch = add_batch(in, TIDE_STREAM_OPAQUE);
    for (size_t i = 0; i < given->n_records; i++) {
        const AGENT(Record) *r = given->records[i];
        tide_record_begin(batch);
        tide_record_i64(batch, TIDE_OPAQUE_TIMESTAMP, time_of(in, r->timestamp));
        tide_record_blob(batch, TIDE_OPAQUE_DATA, tide_view_bytes(r->data.data, r->data.len));
        PUT_PAIRS(batch, TIDE_OPAQUE_ATTRIBUTES, r);
        TIDE_TRY(end_record(batch, i, err));
    }
    return TIDE_OK;
}

/* ---- answers ---- */

static AGENT(IngestResponse)
    numbers_of(const ingest *in, const tide_record_batch *batch, tide_identity *identity)
{
    AGENT(IngestResponse) out = AGENT_INIT(INGEST_RESPONSE);
    out.session_id = identity->session_id;
    out.epoch = (uint64_t)identity->epoch;
    for (int i = 0; i < in->put.count; i++)
        if (in->put.records[i].bytes == batch->bytes.ptr) {
            out.first_seq_id = (uint64_t)in->put.records[i].first_seq;
            out.last_seq_id = (uint64_t)in->put.records[i].last_seq;
            out.accepted = (uint32_t)batch->count;
        }
    return out;
}

static void answer_one(ingest *in)
{
    tide_identity identity;
    tide_store_identity(tide_feed_store(in->services->feed), &identity);
    AGENT(IngestResponse) response = numbers_of(in, &in->batches[0], &identity);
    tide_call_respond_message(in->call, &response.base);
}

static void answer_ebpf(ingest *in)
{
    tide_identity identity;
    tide_store_identity(tide_feed_store(in->services->feed), &identity);
    AGENT(IngestResponse) parts[BATCHES_MAX];
    for (int i = 0; i < BATCHES_MAX; i++)
        parts[i] = numbers_of(in, &in->batches[i], &identity);
    AGENT(IngestEbpfMetricsResponse) response = AGENT_INIT(INGEST_EBPF_METRICS_RESPONSE);
    response.http = &parts[0];
    response.grpc = &parts[1];
    response.sql = &parts[2];
    response.traces = &parts[3];
    tide_call_respond_message(in->call, &response.base);
}

/* ---- the way of a request ---- */

static void ingest_free(ingest *in)
{
    for (int i = 0; i < in->batch_count; i++)
        tide_record_batch_done(&in->batches[i]);
    tide_call_release(in->call);
    free(in);
}

static void end_with(tide_call *call, tide_status status, const tide_error *err)
{
    const tide_status_row *row = tide_status_get(status);
    if (!row->is_retryable) {
        tide_call_end(call, status, err);
        return;
    }
    /* A full disk passes, and the request is not too large: as with OTLP, come again. */
    tide_call_end_with(call, &(tide_call_status){.grpc_code = status == TIDE_E_FULL
                                                                  ? TIDE_GRPC_UNAVAILABLE
                                                                  : row->grpc_code,
                                                 .message = err->text,
                                                 .retry_after_s = 1.0});
}

/* A damaged store is replaced or salvaged one day; nothing was stored, and the request is not at fault. */
static void end_unstored(tide_call *call, tide_status status, const tide_error *err)
{
    if (status != TIDE_E_DAMAGED) {
        end_with(call, status, err);
        return;
    }
    tide_call_end_with(call, &(tide_call_status){.grpc_code = TIDE_GRPC_UNAVAILABLE,
                                                 .message = err->text,
                                                 .retry_after_s = 1.0});
}

static void note_stored(tide_feed_put *put, tide_status status, const tide_error *err)
{
    ingest *in = (ingest *)put;
    if (status >= TIDE_OK)
        in->answer(in);
    else
        end_unstored(in->call, status, err);
    ingest_free(in);
}

static tide_status store(ingest *in, const ProtobufCMessage *request, ingest_read_fn *read,
                         tide_error *err)
{
    TIDE_TRY(read(in, request, err));
    in->put.done = note_stored;
    for (int i = 0; i < in->batch_count; i++)
        if (in->batches[i].count > 0)
            in->put.records[in->put.count++] = tide_record_batch_feed(&in->batches[i], in->stream);
    return tide_feed_writer_put(in->services->writer, &in->put, err);
}

static void receive(tide_call *call, tide_view message, const tide_agent_services *services,
                    ingest_read_fn *read, ingest_answer_fn *answer)
{
    tide_error err = {0};
    ProtobufCMessage *request = NULL;
    tide_status status = tide_call_decode(call, message, &request, &err);
    ingest *in = status >= TIDE_OK ? calloc(1, sizeof *in) : NULL;
    if (!in) {
        if (status >= TIDE_OK)
            status = tide_no_memory(&err);
        end_with(call, status, &err);
        return;
    }
    tide_call_hold(call);
    *in = (ingest){.call = call, .services = services, .answer = answer};
    status = store(in, request, read, &err);
    if (status >= TIDE_OK)
        return; /* it is the writer's, or gone */
    end_unstored(call, status, &err);
    ingest_free(in);
}

/* clang-format off */
#define RUN(name_, answer_)                                                                        \
    static void run_##name_(tide_call *call, tide_view message, void *arg)                         \
    {                                                                                              \
        receive(call, message, arg, read_##name_, answer_);                                        \
    }
RUN(ebpf, answer_ebpf)
RUN(system, answer_one)
RUN(cpu, answer_one)
RUN(memory, answer_one)
RUN(records, answer_one)

#define ROW(method_, request_, response_, fn_)                                                     \
    {                                                                                              \
        .path = SERVICE "/" method_, .kind = TIDE_CALL_UNARY, .role = TIDE_ROLE_INGEST,             \
        .is_blocking = true, .request = &tidemark__agent__v1__##request_##__descriptor,            \
        .response = &tidemark__agent__v1__##response_##__descriptor, .run = run_##fn_              \
    }

const tide_method tide_agent_ingest[] = {
    ROW("IngestEbpfMetrics", ingest_ebpf_metrics_request, ingest_ebpf_metrics_response, ebpf),
    ROW("IngestSystemMetrics", ingest_system_metrics_request, ingest_response, system),
    ROW("IngestCPUProfileSamples", ingest_cpuprofile_samples_request, ingest_response, cpu),
    ROW("IngestMemoryProfileSamples", ingest_memory_profile_samples_request, ingest_response, memory),
    ROW("IngestRecords", ingest_records_request, ingest_response, records),
    {.path = NULL},
};
/* clang-format on */
