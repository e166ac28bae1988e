#include "up/demo_load.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <jansson.h>

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

static json_t *make_span(tide_env *env, const hop *h, const char *trace, const char *id,
                         const char *parent, int64_t start_ns, int64_t length_ns, bool is_error)
{
    char start[24];
    char end[24];
    (void)env;
    (void)snprintf(start, sizeof start, "%" PRId64, start_ns);
    (void)snprintf(end, sizeof end, "%" PRId64, start_ns + length_ns);
    return json_pack("{s:s, s:s, s:s, s:s, s:i, s:s, s:s, s:{s:i}}", "traceId", trace, "spanId", id,
                     "parentSpanId", parent, "name", h->name, "kind", 2, "startTimeUnixNano", start,
                     "endTimeUnixNano", end, "status", "code", is_error ? 2 : 0);
}

static json_t *make_resource(const char *service, json_t *span)
{
    return json_pack("{s:{s:[{s:s, s:{s:s}}]}, s:[{s:[o]}]}", "resource", "attributes", "key",
                     "service.name", "value", "stringValue", service, "scopeSpans", "spans", span);
}

static json_t *make_traces(tide_env *env)
{
    char trace[33];
    char ids[HOPS][17];
    int64_t starts_ns[HOPS] = {0};
    json_t *resources = json_array();
    const int64_t now_ns = env->wall_us(env) * 1000;
    const bool is_error = below(env, 40) == 0;
    make_id(trace, 32, env);
    for (int i = 0; i < HOPS; i++) {
        const int parent = hops[i].parent;
        const int64_t length_ns =
            (int64_t)hops[i].ms * (500000 + below(env, 1000000)); /* half to one and a half */
        make_id(ids[i], 16, env);
        starts_ns[i] = parent < 0 ? now_ns - INT64_C(300000000)
                                  : starts_ns[parent] + (int64_t)below(env, 20) * 1000000;
        json_t *span = make_span(env, &hops[i], trace, ids[i], parent < 0 ? "" : ids[parent],
                                 starts_ns[i], length_ns, is_error && i == 3);
        (void)json_array_append_new(resources, make_resource(hops[i].service, span));
    }
    return json_pack("{s:o}", "resourceSpans", resources);
}

/* ---- metrics: waves, so that something is seen ---- */

static json_t *make_gauge(const char *name, const char *time, double value)
{
    return json_pack("{s:s, s:{s:[{s:s, s:f}]}}", "name", name, "gauge", "dataPoints",
                     "timeUnixNano", time, "asDouble", value);
}

static json_t *make_metrics(tide_env *env, int agent, int64_t turn)
{
    char time[24];
    const double phase = (double)turn / 20 + agent;
    (void)snprintf(time, sizeof time, "%" PRId64, env->wall_us(env) * 1000);
    return json_pack("{s:[{s:{s:[{s:s, s:{s:s}}]}, s:[{s:[o,o,o]}]}]}", "resourceMetrics",
                     "resource", "attributes", "key", "service.name", "value", "stringValue",
                     "storefront", "scopeMetrics", "metrics",
                     make_gauge("shop.requests_per_second", time, 120 + 60 * sin(phase)),
                     make_gauge("shop.queue_length", time, 8 + 6 * sin(phase / 3) + below(env, 3)),
                     make_gauge("shop.cache_hit_ratio", time, 0.9 + 0.08 * cos(phase / 2)));
}

/* ---- profiles ---- */

static const char *const frames[] = {"main",        "serve",    "handle_request", "render_page",
                                     "json_encode", "db_query", "tls_write",      "gzip_deflate",
                                     "malloc",      "memcpy"};
static const uint64_t stacks[][5] = {
    {1, 2, 3, 4, 5}, {1, 2, 3, 6, 10}, {1, 2, 3, 4, 8}, {1, 2, 7, 10, 0}, {1, 2, 3, 4, 9}};
enum { FRAMES = sizeof frames / sizeof frames[0], STACKS = sizeof stacks / sizeof stacks[0] };

/* Leaf first, as profilers tell stacks. */
static json_t *make_stack(int index)
{
    json_t *ids = json_array();
    for (int i = 4; i >= 0; i--)
        if (stacks[index][i] != 0)
            (void)json_array_append_new(ids, json_integer((json_int_t)stacks[index][i]));
    return ids;
}

static json_t *make_frames(void)
{
    json_t *all = json_array();
    for (int i = 0; i < FRAMES; i++)
        (void)json_array_append_new(
            all, json_pack("{s:i, s:s}", "frameId", i + 1, "frameName", frames[i]));
    return all;
}

static json_t *make_profiles(tide_env *env, bool is_memory)
{
    json_t *samples = json_array();
    const json_int_t now_ms = env->wall_us(env) / 1000;
    for (int i = 0; i < STACKS; i++) {
        const int weight = 1 + below(env, 20) * (STACKS - i);
        json_t *sample =
            is_memory
                ? json_pack("{s:I, s:s, s:s, s:i, s:o, s:i, s:i}", "timestamp", now_ms, "serviceId",
                            "storefront", "buildId", "demo", "stackHash", i + 1, "stackFrameIds",
                            make_stack(i), "allocBytes", weight * 4096, "allocObjects", weight)
                : json_pack("{s:I, s:s, s:s, s:i, s:i, s:o, s:i}", "timestamp", now_ms, "serviceId",
                            "storefront", "buildId", "demo", "tgid", 1, "stackHash", i + 1,
                            "stackFrameIds", make_stack(i), "sampleCount", weight);
        (void)json_array_append_new(samples, sample);
    }
    return json_pack("{s:o, s:o}", "samples", samples, "frames", make_frames());
}

/* ---- eBPF ---- */

static json_t *make_ebpf(tide_env *env)
{
    const json_int_t now_ms = env->wall_us(env) / 1000;
    return json_pack(
        "{s:[{s:I, s:s, s:s, s:s, s:i, s:i, s:i}], s:[{s:I, s:s, s:s, s:s, s:i, s:i}]}",
        "httpMetrics", "timestamp", now_ms, "serviceName", "storefront", "httpMethod", "GET",
        "httpRoute", "/checkout", "httpStatusCode", below(env, 30) ? 200 : 500, "latencyBucketMs",
        10 << below(env, 5), "count", 1 + below(env, 50), "sqlMetrics", "timestamp", now_ms,
        "serviceName", "payment", "sqlOperation", "INSERT", "tableName", "orders",
        "latencyBucketMs", 5 << below(env, 4), "count", 1 + below(env, 20));
}

tide_demo_request tide_demo_load(tide_env *env, int kind, int agent, int64_t turn)
{
#define AGENT "/tidemark.agent.v1.AgentService/"
    const bool is_memory = turn / 2 % 2 == 1;
    const char *const paths[TIDE_DEMO_KINDS] = {"/v1/traces", "/v1/metrics",
                                                is_memory ? AGENT "IngestMemoryProfileSamples"
                                                          : AGENT "IngestCPUProfileSamples",
                                                AGENT "IngestEbpfMetrics"};
    json_t *body = kind == 0   ? make_traces(env)
                   : kind == 1 ? make_metrics(env, agent, turn)
                   : kind == 2 ? make_profiles(env, is_memory)
                               : make_ebpf(env);
    const tide_demo_request request = {.path = paths[kind],
                                       .body = body ? json_dumps(body, JSON_COMPACT) : NULL};
    json_decref(body);
    return request;
}
