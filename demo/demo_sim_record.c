/* demo_sim_record.c - records of simulated agents: contents that follow from agent, stream
 * and number. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "demo/demo_sim.h"
#include "services/api/messages.h"
#include "services/api/rpc.h"
#include "tidemark_agent_v1_debug.pb-c.h"

/* splitmix64: the same number for the same agent, stream and number. */
static uint64_t mix(const tide_sim *sim, int kind, int64_t seq, int salt)
{
    uint64_t z = (uint64_t)seq * UINT64_C(0x9E3779B97F4A7C15) + (uint64_t)sim->number * 1000003u +
                 (uint64_t)kind * 7919u + (uint64_t)salt * 104729u;
    for (const char *at = sim->session; *at; at += 9)
        z = z * 31 + (unsigned char)*at;
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

static int below(const tide_sim *sim, int kind, int64_t seq, int salt, int limit)
{
    return (int)(mix(sim, kind, seq, salt) % (uint64_t)limit);
}

static void put_id(tide_record_batch *batch, int column, uint64_t high, uint64_t low, bool is_long)
{
    char text[33];
    (void)snprintf(text, sizeof text, "%016" PRIx64 "%016" PRIx64, high | 1, low | 1);
    text[is_long ? 32 : 16] = '\0';
    tide_record_text(batch, column, tide_view_of(text));
}

/* ---- spans: five of a tick are one trace ---- */

static const char *const services[] = {"storefront", "cart", "pricing", "payment", "postgres"};
static const char *const names[] = {"GET /checkout", "GetCart", "Quote", "Charge", "INSERT orders"};
enum { HOPS = sizeof services / sizeof services[0] };

static void put_span(tide_record_batch *batch, const tide_sim *sim, int64_t seq, int64_t at_ms)
{
    const int hop = (int)((seq - 1) % HOPS);
    const int64_t root = seq - hop;
    const int kind = TIDE_STREAM_TELEMETRY;
    tide_record_i64(batch, TIDE_SPAN_TIMESTAMP, at_ms + hop * 7);
    put_id(batch, TIDE_SPAN_TRACE_ID, mix(sim, kind, root, 1), mix(sim, kind, root, 2), true);
    put_id(batch, TIDE_SPAN_SPAN_ID, mix(sim, kind, seq, 3), 0, false);
    if (hop > 0)
        put_id(batch, TIDE_SPAN_PARENT_SPAN_ID, mix(sim, kind, seq - 1, 3), 0, false);
    tide_record_text(batch, TIDE_SPAN_SERVICE_NAME, tide_view_of(services[hop]));
    tide_record_text(batch, TIDE_SPAN_SPAN_KIND, tide_view_of("server"));
    tide_record_f64(batch, TIDE_SPAN_DURATION_MS,
                    (HOPS - hop) * 24 + below(sim, kind, seq, 4, 200) / 10.0);
    tide_record_bool(batch, TIDE_SPAN_IS_ERROR, below(sim, kind, root, 5, 60) == 0 && hop == 3);
    tide_record_text(batch, TIDE_SPAN_SPAN_NAME, tide_view_of(names[hop]));
}

/* ---- metrics ---- */

static void put_metric(tide_record_batch *batch, const tide_sim *sim, int64_t seq, int64_t at_ms)
{
    static const char *const metrics[] = {"shop.requests_per_second", "shop.queue_length",
                                          "shop.cache_hit_ratio"};
    const int which = (int)((seq - 1) % 3);
    const int64_t round = seq / 3; /* of all three */
    const double phase = (double)round / 20 + sim->number;
    const double values[] = {120 + 60 * sin(phase), 8 + 6 * sin(phase / 3),
                             0.9 + 0.08 * cos(phase / 2)};
    tide_record_i64(batch, TIDE_SYSTEM_METRIC_TIMESTAMP, at_ms);
    tide_record_text(batch, TIDE_SYSTEM_METRIC_METRIC_NAME, tide_view_of(metrics[which]));
    tide_record_f64(batch, TIDE_SYSTEM_METRIC_VALUE, values[which]);
    tide_record_text(batch, TIDE_SYSTEM_METRIC_METRIC_TYPE, tide_view_of("gauge"));
}

/* ---- eBPF ---- */

static double bucket_of(const tide_sim *sim, int kind, int64_t seq)
{
    return 10 << below(sim, kind, seq, 1, 5);
}

static void put_http(tide_record_batch *batch, const tide_sim *sim, int64_t seq, int64_t at_ms)
{
    const int kind = TIDE_STREAM_BEYLA_HTTP;
    tide_record_i64(batch, TIDE_HTTP_METRIC_TIMESTAMP, at_ms);
    tide_record_text(batch, TIDE_HTTP_METRIC_SERVICE_NAME, tide_view_of("storefront"));
    tide_record_text(batch, TIDE_HTTP_METRIC_HTTP_METHOD, tide_view_of("GET"));
    tide_record_text(batch, TIDE_HTTP_METRIC_HTTP_ROUTE, tide_view_of("/checkout"));
    tide_record_i64(batch, TIDE_HTTP_METRIC_HTTP_STATUS_CODE,
                    below(sim, kind, seq, 2, 30) ? 200 : 500);
    tide_record_f64(batch, TIDE_HTTP_METRIC_LATENCY_BUCKET_MS, bucket_of(sim, kind, seq));
    tide_record_i64(batch, TIDE_HTTP_METRIC_COUNT, 1 + below(sim, kind, seq, 3, 50));
}

static void put_grpc(tide_record_batch *batch, const tide_sim *sim, int64_t seq, int64_t at_ms)
{
    const int kind = TIDE_STREAM_BEYLA_GRPC;
    tide_record_i64(batch, TIDE_GRPC_METRIC_TIMESTAMP, at_ms);
    tide_record_text(batch, TIDE_GRPC_METRIC_SERVICE_NAME, tide_view_of("pricing"));
    tide_record_text(batch, TIDE_GRPC_METRIC_GRPC_METHOD, tide_view_of("Quote"));
    tide_record_f64(batch, TIDE_GRPC_METRIC_LATENCY_BUCKET_MS, bucket_of(sim, kind, seq));
    tide_record_i64(batch, TIDE_GRPC_METRIC_COUNT, 1 + below(sim, kind, seq, 3, 50));
}

static void put_sql(tide_record_batch *batch, const tide_sim *sim, int64_t seq, int64_t at_ms)
{
    const int kind = TIDE_STREAM_BEYLA_SQL;
    tide_record_i64(batch, TIDE_SQL_METRIC_TIMESTAMP, at_ms);
    tide_record_text(batch, TIDE_SQL_METRIC_SERVICE_NAME, tide_view_of("payment"));
    tide_record_text(batch, TIDE_SQL_METRIC_SQL_OPERATION, tide_view_of("insert"));
    tide_record_text(batch, TIDE_SQL_METRIC_TABLE_NAME, tide_view_of("orders"));
    tide_record_f64(batch, TIDE_SQL_METRIC_LATENCY_BUCKET_MS, bucket_of(sim, kind, seq));
    tide_record_i64(batch, TIDE_SQL_METRIC_COUNT, 1 + below(sim, kind, seq, 3, 20));
}

static void put_trace(tide_record_batch *batch, const tide_sim *sim, int64_t seq, int64_t at_ms)
{
    const int kind = TIDE_STREAM_BEYLA_TRACES;
    const int hop = (int)((seq - 1) % 2);
    put_id(batch, TIDE_TRACE_TRACE_ID, mix(sim, kind, seq - hop, 1), mix(sim, kind, seq - hop, 2),
           true);
    put_id(batch, TIDE_TRACE_SPAN_ID, mix(sim, kind, seq, 3), 0, false);
    if (hop > 0)
        put_id(batch, TIDE_TRACE_PARENT_SPAN_ID, mix(sim, kind, seq - 1, 3), 0, false);
    tide_record_text(batch, TIDE_TRACE_SERVICE_NAME, tide_view_of(services[hop]));
    tide_record_text(batch, TIDE_TRACE_SPAN_NAME, tide_view_of(names[hop]));
    tide_record_text(batch, TIDE_TRACE_SPAN_KIND, tide_view_of("server"));
    tide_record_i64(batch, TIDE_TRACE_START_TIME, at_ms + hop * 5);
    tide_record_i64(batch, TIDE_TRACE_DURATION_US, 2000 + below(sim, kind, seq, 4, 90000));
}

/* ---- profiles ---- */

static void put_cpu(tide_record_batch *batch, const tide_sim *sim, int64_t seq, int64_t at_ms)
{
    static const uint64_t stack[] = {3, 2, 1};
    tide_record_i64(batch, TIDE_CPU_PROFILE_TIMESTAMP, at_ms);
    tide_record_text(batch, TIDE_CPU_PROFILE_SERVICE_ID, tide_view_of("storefront"));
    tide_record_text(batch, TIDE_CPU_PROFILE_BUILD_ID, tide_view_of("simulated"));
    tide_record_i64(batch, TIDE_CPU_PROFILE_TGID, 1);
    tide_record_u64(batch, TIDE_CPU_PROFILE_STACK_HASH, 1 + (uint64_t)(seq % 2));
    tide_record_ids(batch, TIDE_CPU_PROFILE_STACK_FRAME_IDS, stack + seq % 2, 3 - (int)(seq % 2));
    tide_record_i64(batch, TIDE_CPU_PROFILE_SAMPLE_COUNT,
                    1 + below(sim, TIDE_STREAM_CPU_PROFILE, seq, 1, 40));
}

static void put_memory(tide_record_batch *batch, const tide_sim *sim, int64_t seq, int64_t at_ms)
{
    static const uint64_t stack[] = {3, 2, 1};
    const int objects = 1 + below(sim, TIDE_STREAM_MEMORY_PROFILE, seq, 1, 40);
    tide_record_i64(batch, TIDE_MEMORY_PROFILE_TIMESTAMP, at_ms);
    tide_record_text(batch, TIDE_MEMORY_PROFILE_SERVICE_ID, tide_view_of("storefront"));
    tide_record_text(batch, TIDE_MEMORY_PROFILE_BUILD_ID, tide_view_of("simulated"));
    tide_record_u64(batch, TIDE_MEMORY_PROFILE_STACK_HASH, 1);
    tide_record_ids(batch, TIDE_MEMORY_PROFILE_STACK_FRAME_IDS, stack, 3);
    tide_record_i64(batch, TIDE_MEMORY_PROFILE_ALLOC_BYTES, objects * 4096);
    tide_record_i64(batch, TIDE_MEMORY_PROFILE_ALLOC_OBJECTS, objects);
}

tide_status tide_sim_put_frames(tide_stream_kind kind, tide_buffer *out, tide_error *err)
{
    static const char *const frames[] = {"main", "handle_request", "render_page"};
    enum { FRAMES_FIELD = 21, FRAME_MAX = 256 };
    if (kind != TIDE_STREAM_CPU_PROFILE && kind != TIDE_STREAM_MEMORY_PROFILE)
        return TIDE_OK;
    for (size_t i = 0; i < sizeof frames / sizeof frames[0]; i++) {
        TIDE_CLEANUP(tide_buffer_done) tide_buffer bytes = tide_buffer_of(FRAME_MAX);
        Tidemark__Agent__V1__ProfileFrame frame = TIDEMARK__AGENT__V1__PROFILE_FRAME__INIT;
        frame.frame_id = i + 1;
        frame.frame_name = tide_rpc_borrow(frames[i]);
        TIDE_TRY(tide_rpc_pack(&bytes, &frame.base, err));
        TIDE_TRY(tide_rpc_put_bytes(out, FRAMES_FIELD, tide_buffer_view(&bytes), err));
    }
    return TIDE_OK;
}

tide_status tide_sim_put_record(tide_record_batch *batch, const tide_sim *sim, int64_t seq,
                                int64_t at_ms)
{
    typedef void put_fn(tide_record_batch *, const tide_sim *, int64_t, int64_t);
    static put_fn *const put[TIDE_SIM_STREAMS] = {put_span, put_metric, put_http, put_grpc,
                                                  put_sql,  put_trace,  put_cpu,  put_memory};
    tide_record_begin(batch);
    put[batch->type->kind](batch, sim, seq, at_ms);
    return tide_record_end(batch);
}
