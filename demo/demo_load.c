#include "demo/demo_load.h"

#include <assert.h>
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

/* ---- profiles: a dictionary of texts, functions, locations and stacks, and samples that refer to it ---- */

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

/* Leaf first, as profilers tell stacks. */
static json_t *make_stack(int index)
{
    json_t *locations = json_array();
    for (int i = 4; i >= 0; i--)
        if (stacks[index][i] != 0)
            (void)json_array_append_new(locations, json_integer(stacks[index][i]));
    return json_pack("{s:o}", "locationIndices", locations);
}

/* The first entry of every table stands for nothing. */
static json_t *make_dictionary(void)
{
    json_t *texts = json_array();
    json_t *functions = json_array();
    json_t *locations = json_array();
    json_t *all_stacks = json_pack("[{}]");
    for (int i = 0; i < TEXTS; i++)
        (void)json_array_append_new(texts, json_string(i < FRAMES ? frames[i] : words[i - FRAMES]));
    for (int i = 0; i < FRAMES; i++) {
        (void)json_array_append_new(functions, json_pack("{s:i}", "nameStrindex", i));
        (void)json_array_append_new(locations, i == 0
                                                   ? json_object()
                                                   : json_pack("{s:i, s:[{s:i}]}", "mappingIndex",
                                                               1, "lines", "functionIndex", i));
    }
    for (int i = 0; i < STACKS; i++)
        (void)json_array_append_new(all_stacks, make_stack(i));
    return json_pack("{s:o, s:o, s:o, s:o, s:[{}, {s:[i]}], s:[{}, {s:i, s:{s:s}}]}", "stringTable",
                     texts, "functionTable", functions, "locationTable", locations, "stackTable",
                     all_stacks, "mappingTable", "attributeIndices", 1, "attributeTable",
                     "keyStrindex", BUILD_ID, "value", "stringValue", "demo");
}

static json_t *make_profile(int type, int unit, const char *time, const int weights[STACKS],
                            int factor)
{
    json_t *samples = json_array();
    for (int i = 0; i < STACKS; i++)
        (void)json_array_append_new(
            samples, json_pack("{s:i, s:[i]}", "stackIndex", i + 1, "values", weights[i] * factor));
    return json_pack("{s:{s:i, s:i}, s:o, s:s}", "sampleType", "typeStrindex", type, "unitStrindex",
                     unit, "samples", samples, "timeUnixNano", time);
}

static json_t *make_profiles(tide_env *env, bool is_memory)
{
    enum { OBJECT = 4096 };
    char time[24];
    int weights[STACKS];
    (void)snprintf(time, sizeof time, "%" PRId64, env->wall_us(env) * 1000);
    for (int i = 0; i < STACKS; i++)
        weights[i] = 1 + below(env, 20) * (STACKS - i);
    json_t *profiles =
        is_memory ? json_pack("[o,o]", make_profile(ALLOC_SPACE, BYTES, time, weights, OBJECT),
                              make_profile(ALLOC_OBJECTS, COUNT, time, weights, 1))
                  : json_pack("[o]", make_profile(SAMPLES, COUNT, time, weights, 1));
    return json_pack("{s:[{s:{s:[{s:s, s:{s:s}}, {s:s, s:{s:i}}]}, s:[{s:o}]}], s:o}",
                     "resourceProfiles", "resource", "attributes", "key", "service.name", "value",
                     "stringValue", "storefront", "key", "process.pid", "value", "intValue", 1,
                     "scopeProfiles", "profiles", profiles, "dictionary", make_dictionary());
}

/* ---- eBPF: what an instrumentation that sees the network tells ---- */

static json_t *make_owner(const char *service)
{
    return json_pack("{s:[{s:s, s:{s:s}}, {s:s, s:{s:s}}]}", "attributes", "key", "service.name",
                     "value", "stringValue", service, "key", "telemetry.sdk.name", "value",
                     "stringValue", "beyla");
}

/* One bucket of durations that something fell into. */
static json_t *make_durations(const char *name, const char *time, double bound_s, int count,
                              json_t *attributes)
{
    return json_pack("{s:s, s:s, s:{s:i, s:[{s:s, s:i, s:[i,i], s:[f], s:o}]}}", "name", name,
                     "unit", "s", "histogram", "aggregationTemporality", 1, "dataPoints",
                     "timeUnixNano", time, "count", count, "bucketCounts", count, 0,
                     "explicitBounds", bound_s, "attributes", attributes);
}

static json_t *make_ebpf(tide_env *env)
{
    char time[24];
    (void)snprintf(time, sizeof time, "%" PRId64, env->wall_us(env) * 1000);
    json_t *http = json_pack(
        "[{s:s, s:{s:s}}, {s:s, s:{s:s}}, {s:s, s:{s:i}}]", "key", "http.request.method", "value",
        "stringValue", "GET", "key", "http.route", "value", "stringValue", "/checkout", "key",
        "http.response.status_code", "value", "intValue", below(env, 30) ? 200 : 500);
    json_t *grpc =
        json_pack("[{s:s, s:{s:s}}, {s:s, s:{s:s}}, {s:s, s:{s:i}}]", "key", "rpc.service", "value",
                  "stringValue", "shop.Cart", "key", "rpc.method", "value", "stringValue",
                  "GetCart", "key", "rpc.grpc.status_code", "value", "intValue", 0);
    json_t *sql = json_pack("[{s:s, s:{s:s}}, {s:s, s:{s:s}}]", "key", "db.operation.name", "value",
                            "stringValue", "INSERT", "key", "db.collection.name", "value",
                            "stringValue", "orders");
    return json_pack("{s:[{s:o, s:[{s:[o,o]}]}, {s:o, s:[{s:[o]}]}]}", "resourceMetrics",
                     "resource", make_owner("storefront"), "scopeMetrics", "metrics",
                     make_durations("http.server.request.duration", time,
                                    0.01 * (1 << below(env, 5)), 1 + below(env, 50), http),
                     make_durations("rpc.client.duration", time, 0.005 * (1 << below(env, 4)),
                                    1 + below(env, 30), grpc),
                     "resource", make_owner("payment"), "scopeMetrics", "metrics",
                     make_durations("db.client.operation.duration", time,
                                    0.005 * (1 << below(env, 4)), 1 + below(env, 20), sql));
}

static json_t *make_ebpf_traces(tide_env *env)
{
    static const hop seen = {"storefront", "GET /checkout", -1, 180};
    char trace[33];
    char id[17];
    make_id(trace, 32, env);
    make_id(id, 16, env);
    json_t *span = make_span(env, &seen, trace, id, "", env->wall_us(env) * 1000 - 200000000,
                             (int64_t)(1 + below(env, 200)) * 1000000, false);
    return json_pack("{s:[{s:o, s:[{s:[o]}]}]}", "resourceSpans", "resource",
                     make_owner("storefront"), "scopeSpans", "spans", span);
}

static json_t *make_body(tide_env *env, tide_demo_kind kind, int agent, int64_t turn)
{
    switch (kind) {
    case TIDE_DEMO_METRICS:
        return make_metrics(env, agent, turn);
    case TIDE_DEMO_PROFILES:
        return make_profiles(env, turn / 2 % 2 == 1);
    case TIDE_DEMO_EBPF:
        return make_ebpf(env);
    case TIDE_DEMO_EBPF_TRACES:
        return make_ebpf_traces(env);
    case TIDE_DEMO_TRACES:
    case TIDE_DEMO_KINDS:
        break;
    }
    return make_traces(env);
}

tide_demo_request tide_demo_load(tide_env *env, tide_demo_kind kind, int agent, int64_t turn)
{
    static const char *const paths[TIDE_DEMO_KINDS] = {
        [TIDE_DEMO_TRACES] = "/v1/traces",
        [TIDE_DEMO_METRICS] = "/v1/metrics",
        [TIDE_DEMO_PROFILES] = "/v1development/profiles",
        [TIDE_DEMO_EBPF] = "/v1/metrics",
        [TIDE_DEMO_EBPF_TRACES] = "/v1/traces",
    };
    assert(kind < TIDE_DEMO_KINDS);
    json_t *body = make_body(env, kind, agent, turn);
    const tide_demo_request request = {.path = paths[kind],
                                       .body = body ? json_dumps(body, JSON_COMPACT) : NULL};
    json_decref(body);
    return request;
}
