#include "demo/demo_load.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>

#include "demo/demo_json.h"

/* ---- chance ---- */

static uint64_t chance(tide_env *env)
{
    uint64_t bits = 0;
    env->random(env, &bits, sizeof bits);
    return bits;
}

static int below(tide_env *env, int limit)
{
    return (int)(chance(env) % (uint64_t)limit);
}

/* ---- traces: a request through several services ---- */

typedef struct hop {
    const char *service;
    const char *name;
    int parent; /* index; -1: the root */
    int ms;
} hop;

static const hop hops[] = {
    {"storefront", "GET /checkout", -1, 180},
    {"cart", "GetCart", 0, 30},
    {"pricing", "Quote", 1, 18},
    {"payment", "Charge", 0, 90},
    {"postgres", "INSERT orders", 3, 22},
    {"shipping", "Schedule", 0, 25},
    {"mail", "SendReceipt", 5, 12},
};
enum { HOPS = sizeof hops / sizeof hops[0] };

static void make_id(char *out, size_t digits, tide_env *env)
{
    for (size_t at = 0; at < digits; at += 16)
        (void)snprintf(out + at, 17, "%016" PRIx64, chance(env) | 1);
}

static void put_span(tide_buffer *out, const hop *h, const char *trace, const char *id,
                     const char *parent, int64_t start_ns, int64_t length_ns, bool is_error)
{
    tide_demo_json(out,
                   "{'traceId':'%s','spanId':'%s','parentSpanId':'%s','name':'%s','kind':2,"
                   "'startTimeUnixNano':'%" PRId64 "','endTimeUnixNano':'%" PRId64
                   "','status':{'code':%d}}",
                   trace, id, parent, h->name, start_ns, start_ns + length_ns, is_error ? 2 : 0);
}

static void put_traces(tide_buffer *out, tide_env *env)
{
    char trace[33];
    char ids[HOPS][17];
    int64_t starts_ns[HOPS] = {0};
    const int64_t now_ns = env->wall_us(env) * 1000;
    const bool is_error = below(env, 40) == 0;
    make_id(trace, 32, env);
    tide_demo_json(out, "{'resourceSpans':[");
    for (int i = 0; i < HOPS; i++) {
        const int parent = hops[i].parent;
        const int64_t length_ns =
            (int64_t)hops[i].ms * (500000 + below(env, 1000000)); /* half to one and a half */
        make_id(ids[i], 16, env);
        starts_ns[i] = parent < 0 ? now_ns - INT64_C(300000000)
                                  : starts_ns[parent] + (int64_t)below(env, 20) * 1000000;
        tide_demo_json(out,
                       "%s{'resource':{'attributes':[{'key':'service.name','value':"
                       "{'stringValue':'%s'}}]},'scopeSpans':[{'spans':[",
                       i > 0 ? "," : "", hops[i].service);
        put_span(out, &hops[i], trace, ids[i], parent < 0 ? "" : ids[parent], starts_ns[i],
                 length_ns, is_error && i == 3);
        tide_demo_json(out, "]}]}");
    }
    tide_demo_json(out, "]}");
}

/* ---- metrics: waves, so that something is seen ---- */

static void put_gauge(tide_buffer *out, const char *name, int64_t time_ns, double value)
{
    tide_demo_json(out,
                   "{'name':'%s','gauge':{'dataPoints':[{'timeUnixNano':'%" PRId64
                   "','asDouble':%.6f}]}}",
                   name, time_ns, value);
}

static void put_metrics(tide_buffer *out, tide_env *env, int agent, int64_t turn)
{
    const int64_t now_ns = env->wall_us(env) * 1000;
    const double phase = (double)turn / 20 + agent;
    tide_demo_json(out, "{'resourceMetrics':[{'resource':{'attributes':[{'key':'service.name',"
                        "'value':{'stringValue':'storefront'}}]},'scopeMetrics':[{'metrics':[");
    put_gauge(out, "shop.requests_per_second", now_ns, 120 + 60 * sin(phase));
    tide_demo_json(out, ",");
    put_gauge(out, "shop.queue_length", now_ns, 8 + 6 * sin(phase / 3) + below(env, 3));
    tide_demo_json(out, ",");
    put_gauge(out, "shop.cache_hit_ratio", now_ns, 0.9 + 0.08 * cos(phase / 2));
    tide_demo_json(out, "]}]}]}");
}

/* ---- profiles: a dictionary of texts, functions, locations and stacks, and samples that refer to
 * it ---- */

static const char *const frames[] = {
    "",         "main",      "serve",        "handle_request", "render_page", "json_encode",
    "db_query", "tls_write", "gzip_deflate", "malloc",         "memcpy"};
static const int stacks[][5] = {
    {1, 2, 3, 4, 5}, {1, 2, 3, 6, 10}, {1, 2, 3, 4, 8}, {1, 2, 7, 10, 0}, {1, 2, 3, 4, 9}};
enum { FRAMES = sizeof frames / sizeof frames[0], STACKS = sizeof stacks / sizeof stacks[0] };

/* What profiles count, behind the names of frames in the table of texts. */
static const char *const words[] = {"samples", "count",         "alloc_space",
                                    "bytes",   "alloc_objects", "process.executable.build_id.gnu"};
enum { SAMPLES = FRAMES, COUNT, ALLOC_SPACE, BYTES, ALLOC_OBJECTS, BUILD_ID, TEXTS };

/* Leaf first, as profilers list stacks. */
static void put_stack(tide_buffer *out, int index)
{
    const char *comma = "";
    tide_demo_json(out, ",{'locationIndices':[");
    for (int i = 4; i >= 0; i--) {
        if (stacks[index][i] == 0)
            continue;
        tide_demo_json(out, "%s%d", comma, stacks[index][i]);
        comma = ",";
    }
    tide_demo_json(out, "]}");
}

/* The first entry of every table stands for nothing. */
static void put_dictionary(tide_buffer *out)
{
    tide_demo_json(out, "{'stringTable':[");
    for (int i = 0; i < TEXTS; i++)
        tide_demo_json(out, "%s'%s'", i > 0 ? "," : "", i < FRAMES ? frames[i] : words[i - FRAMES]);
    tide_demo_json(out, "],'functionTable':[");
    for (int i = 0; i < FRAMES; i++)
        tide_demo_json(out, "%s{'nameStrindex':%d}", i > 0 ? "," : "", i);
    tide_demo_json(out, "],'locationTable':[{}");
    for (int i = 1; i < FRAMES; i++)
        tide_demo_json(out, ",{'mappingIndex':1,'lines':[{'functionIndex':%d}]}", i);
    tide_demo_json(out, "],'stackTable':[{}");
    for (int i = 0; i < STACKS; i++)
        put_stack(out, i);
    tide_demo_json(out,
                   "],'mappingTable':[{},{'attributeIndices':[1]}],'attributeTable':[{},"
                   "{'keyStrindex':%d,'value':{'stringValue':'demo'}}]}",
                   BUILD_ID);
}

static void put_profile(tide_buffer *out, int type, int unit, int64_t time_ns,
                        const int weights[STACKS], int factor)
{
    tide_demo_json(out, "{'sampleType':{'typeStrindex':%d,'unitStrindex':%d},'samples':[", type,
                   unit);
    for (int i = 0; i < STACKS; i++)
        tide_demo_json(out, "%s{'stackIndex':%d,'values':[%d]}", i > 0 ? "," : "", i + 1,
                       weights[i] * factor);
    tide_demo_json(out, "],'timeUnixNano':'%" PRId64 "'}", time_ns);
}

static void put_profiles(tide_buffer *out, tide_env *env, bool is_memory)
{
    enum { OBJECT = 4096 };
    const int64_t now_ns = env->wall_us(env) * 1000;
    int weights[STACKS];
    for (int i = 0; i < STACKS; i++)
        weights[i] = 1 + below(env, 20) * (STACKS - i);
    tide_demo_json(out,
                   "{'resourceProfiles':[{'resource':{'attributes':[{'key':'service.name','value':"
                   "{'stringValue':'storefront'}},{'key':'process.pid','value':{'intValue':1}}]},"
                   "'scopeProfiles':[{'profiles':[");
    if (is_memory) {
        put_profile(out, ALLOC_SPACE, BYTES, now_ns, weights, OBJECT);
        tide_demo_json(out, ",");
        put_profile(out, ALLOC_OBJECTS, COUNT, now_ns, weights, 1);
    } else {
        put_profile(out, SAMPLES, COUNT, now_ns, weights, 1);
    }
    tide_demo_json(out, "]}]}],'dictionary':");
    put_dictionary(out);
    tide_demo_json(out, "}");
}

/* ---- eBPF: what an instrumentation that sees the network reports ---- */

static void put_owner(tide_buffer *out, const char *service)
{
    tide_demo_json(out,
                   "{'resource':{'attributes':[{'key':'service.name','value':{'stringValue':'%s'}},"
                   "{'key':'telemetry.sdk.name','value':{'stringValue':'beyla'}}]}",
                   service);
}

/* One bucket of durations that something fell into. */
static void put_durations(tide_buffer *out, const char *name, double bound_s, int count,
                          int64_t time_ns)
{
    tide_demo_json(out,
                   "{'name':'%s','unit':'s','histogram':{'aggregationTemporality':1,'dataPoints':["
                   "{'timeUnixNano':'%" PRId64
                   "','count':%d,'bucketCounts':[%d,0],'explicitBounds':[%.6f],'attributes':[",
                   name, time_ns, count, count, bound_s);
}

static void put_ebpf(tide_buffer *out, tide_env *env)
{
    const int64_t now_ns = env->wall_us(env) * 1000;
    tide_demo_json(out, "{'resourceMetrics':[");
    put_owner(out, "storefront");
    tide_demo_json(out, ",'scopeMetrics':[{'metrics':[");
    put_durations(out, "http.server.request.duration", 0.01 * (1 << below(env, 5)),
                  1 + below(env, 50), now_ns);
    tide_demo_json(out,
                   "{'key':'http.request.method','value':{'stringValue':'GET'}},"
                   "{'key':'http.route','value':{'stringValue':'/checkout'}},"
                   "{'key':'http.response.status_code','value':{'intValue':%d}}]}]}},",
                   below(env, 30) ? 200 : 500);
    put_durations(out, "rpc.client.duration", 0.005 * (1 << below(env, 4)), 1 + below(env, 30),
                  now_ns);
    tide_demo_json(out, "{'key':'rpc.service','value':{'stringValue':'shop.Cart'}},"
                        "{'key':'rpc.method','value':{'stringValue':'GetCart'}},"
                        "{'key':'rpc.grpc.status_code','value':{'intValue':0}}]}]}}]}]},");
    put_owner(out, "payment");
    tide_demo_json(out, ",'scopeMetrics':[{'metrics':[");
    put_durations(out, "db.client.operation.duration", 0.005 * (1 << below(env, 4)),
                  1 + below(env, 20), now_ns);
    tide_demo_json(out, "{'key':'db.operation.name','value':{'stringValue':'INSERT'}},"
                        "{'key':'db.collection.name','value':{'stringValue':'orders'}}"
                        "]}]}}]}]}]}");
}

static void put_ebpf_traces(tide_buffer *out, tide_env *env)
{
    static const hop seen = {"storefront", "GET /checkout", -1, 180};
    char trace[33];
    char id[17];
    make_id(trace, 32, env);
    make_id(id, 16, env);
    tide_demo_json(out, "{'resourceSpans':[");
    put_owner(out, "storefront");
    tide_demo_json(out, ",'scopeSpans':[{'spans':[");
    put_span(out, &seen, trace, id, "", env->wall_us(env) * 1000 - 200000000,
             (int64_t)(1 + below(env, 200)) * 1000000, false);
    tide_demo_json(out, "]}]}]}");
}

static void put_body(tide_buffer *out, tide_env *env, tide_demo_kind kind, int agent, int64_t turn)
{
    switch (kind) {
    case TIDE_DEMO_METRICS:
        put_metrics(out, env, agent, turn);
        return;
    case TIDE_DEMO_PROFILES:
        put_profiles(out, env, turn / 2 % 2 == 1);
        return;
    case TIDE_DEMO_EBPF:
        put_ebpf(out, env);
        return;
    case TIDE_DEMO_EBPF_TRACES:
        put_ebpf_traces(out, env);
        return;
    case TIDE_DEMO_TRACES:
    case TIDE_DEMO_KINDS:
        break;
    }
    put_traces(out, env);
}

tide_demo_request tide_demo_load(tide_env *env, tide_demo_kind kind, int agent, int64_t turn)
{
    enum { BODY_MAX = 1 << 20 };
    static const char *const paths[TIDE_DEMO_KINDS] = {
        [TIDE_DEMO_TRACES] = "/v1/traces",
        [TIDE_DEMO_METRICS] = "/v1/metrics",
        [TIDE_DEMO_PROFILES] = "/v1development/profiles",
        [TIDE_DEMO_EBPF] = "/v1/metrics",
        [TIDE_DEMO_EBPF_TRACES] = "/v1/traces",
    };
    assert(kind < TIDE_DEMO_KINDS);
    tide_buffer body;
    tide_buffer_init(&body, BODY_MAX);
    put_body(&body, env, kind, agent, turn);
    return (tide_demo_request){.path = paths[kind], .body = body.ptr};
}
