/* otlp_decode.c - how fast OTLP requests become records: protobuf and JSON of the same spans, and
 * histograms.
 *
 * One thread, no store: from the bytes of a request to encoded records that tide_feed_commit takes.
 * Beside them memcpy of the same bytes, which is the least that could be done with them. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "bench.h"
#include "otlp/otlp.h"

enum { SPANS = 1000, POINTS = 200, REQUEST_MAX = 16 << 20 };

/* ---- requests ---- */

static void must(tide_status status)
{
    if (status != TIDE_OK)
        bench_die("a request could not be written: %s", tide_status_get(status)->text);
}

static void put_bytes(tide_buffer *out, unsigned field, tide_view bytes)
{
    must(tide_buffer_append_varint(out, field << 3 | 2));
    must(tide_buffer_append_varint(out, bytes.len));
    must(tide_buffer_append_view(out, bytes));
}

static void put_fixed(tide_buffer *out, unsigned field, uint64_t number)
{
    must(tide_buffer_append_varint(out, field << 3 | 1));
    must(tide_buffer_append_u64(out, number));
}

static void put_number(tide_buffer *out, unsigned field, uint64_t number)
{
    must(tide_buffer_append_varint(out, field << 3));
    must(tide_buffer_append_varint(out, number));
}

/* An attribute; a value of digits alone is a number. */
static void put_attribute(tide_buffer *out, unsigned field, const char *key, const char *value)
{
    tide_buffer any;
    tide_buffer pair;
    tide_buffer_init(&any, 4096);
    tide_buffer_init(&pair, 4096);
    if (value[strspn(value, "0123456789")] == '\0')
        put_number(&any, 3, strtoull(value, NULL, 10));
    else
        put_bytes(&any, 1, tide_view_of(value));
    put_bytes(&pair, 1, tide_view_of(key));
    put_bytes(&pair, 2, tide_buffer_view(&any));
    put_bytes(out, field, tide_buffer_view(&pair));
    tide_buffer_done(&any);
    tide_buffer_done(&pair);
}

static const char *const resource_attributes[][2] = {
    {"service.name", "checkout"},
    {"service.version", "1.42.0"},
    {"service.instance.id", "7f9c0a1"},
    {"host.name", "node-17.example"},
    {"process.pid", "4711"},
    {"telemetry.sdk.language", "nodejs"},
};
static const char *const span_attributes[][2] = {
    {"http.request.method", "GET"},
    {"http.route", "/api/v1/orders/:id"},
    {"http.response.status_code", "200"},
    {"url.path", "/api/v1/orders/93821"},
    {"url.scheme", "https"},
    {"server.address", "orders.example"},
    {"server.port", "443"},
    {"user_agent.original", "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36"},
    {"network.protocol.version", "1.1"},
    {"client.address", "10.12.44.7"},
};
enum {
    RESOURCE_ATTRIBUTES = sizeof resource_attributes / sizeof resource_attributes[0],
    SPAN_ATTRIBUTES = sizeof span_attributes / sizeof span_attributes[0],
};

static void put_resource(tide_buffer *out)
{
    tide_buffer resource;
    tide_buffer_init(&resource, 4096);
    for (int i = 0; i < RESOURCE_ATTRIBUTES; i++)
        put_attribute(&resource, 1, resource_attributes[i][0], resource_attributes[i][1]);
    put_bytes(out, 1, tide_buffer_view(&resource));
    tide_buffer_done(&resource);
}

static void put_span(tide_buffer *out, int n)
{
    char ids[24];
    memset(ids, 0x5a, sizeof ids);
    memcpy(ids, &n, sizeof n);
    memcpy(ids + 16, &n, sizeof n);
    tide_buffer span;
    tide_buffer_init(&span, 1 << 16);
    put_bytes(&span, 1, tide_view_bytes(ids, 16));
    put_bytes(&span, 2, tide_view_bytes(ids + 16, 8));
    put_bytes(&span, 5, tide_view_of("GET /api/v1/orders/:id"));
    put_number(&span, 6, 2);
    put_fixed(&span, 7, UINT64_C(1700000000000000000));
    put_fixed(&span, 8, UINT64_C(1700000000012345678));
    for (int i = 0; i < SPAN_ATTRIBUTES; i++)
        put_attribute(&span, 9, span_attributes[i][0], span_attributes[i][1]);
    put_bytes(out, 2, tide_buffer_view(&span));
    tide_buffer_done(&span);
}

/* A resource and a scope around the members that are in scope. */
static void put_request(tide_buffer *out, const tide_buffer *scope)
{
    tide_buffer group;
    tide_buffer_init(&group, REQUEST_MAX);
    put_resource(&group);
    put_bytes(&group, 2, tide_buffer_view(scope));
    put_bytes(out, 1, tide_buffer_view(&group));
    tide_buffer_done(&group);
}

static void write_traces(tide_buffer *out)
{
    tide_buffer scope;
    tide_buffer_init(&scope, REQUEST_MAX);
    for (int n = 1; n <= SPANS; n++)
        put_span(&scope, n);
    put_request(out, &scope);
    tide_buffer_done(&scope);
}

static void put_json_attributes(tide_buffer *out, const char *const (*pairs)[2], int count)
{
    for (int i = 0; i < count; i++) {
        const char *value = pairs[i][1];
        const bool is_number = value[strspn(value, "0123456789")] == '\0';
        must(tide_buffer_printf(out, "%s{\"key\":\"%s\",\"value\":{\"%s\":%s%s%s}}", i ? "," : "",
                                pairs[i][0], is_number ? "intValue" : "stringValue",
                                is_number ? "" : "\"", value, is_number ? "" : "\""));
    }
}

static void write_traces_json(tide_buffer *out)
{
    must(tide_buffer_append_text(out, "{\"resourceSpans\":[{\"resource\":{\"attributes\":["));
    put_json_attributes(out, resource_attributes, RESOURCE_ATTRIBUTES);
    must(tide_buffer_append_text(out, "]},\"scopeSpans\":[{\"spans\":["));
    for (int n = 1; n <= SPANS; n++) {
        must(tide_buffer_printf(
            out,
            "%s{\"traceId\":\"5a5a5a5a5a5a5a5a5a5a5a5a%08x\",\"spanId\":\"5a5a5a5a%08x\","
            "\"name\":\"GET /api/v1/orders/:id\",\"kind\":2,\"startTimeUnixNano\":"
            "\"1700000000000000000\",\"endTimeUnixNano\":\"1700000000012345678\",\"attributes\":[",
            n > 1 ? "," : "", (unsigned)n, (unsigned)n));
        put_json_attributes(out, span_attributes, SPAN_ATTRIBUTES);
        must(tide_buffer_append_text(out, "],\"status\":{\"code\":0}}"));
    }
    must(tide_buffer_append_text(out, "]}]}]}"));
}

static void put_point(tide_buffer *out, int n)
{
    tide_buffer point;
    tide_buffer_init(&point, 1 << 16);
    put_fixed(&point, 2, UINT64_C(1699999990000000000));
    put_fixed(&point, 3, UINT64_C(1700000000000000000));
    must(tide_buffer_append_varint(&point, 6 << 3 | 2));
    must(tide_buffer_append_varint(&point, 15 * 8));
    for (uint64_t i = 0; i < 15; i++)
        must(tide_buffer_append_u64(&point, i % 3)); /* ten of fifteen are not empty */
    must(tide_buffer_append_varint(&point, 7 << 3 | 2));
    must(tide_buffer_append_varint(&point, 14 * 8));
    for (int i = 0; i < 14; i++) {
        const double bound = 0.005 * (double)(1 << i);
        uint64_t bits;
        memcpy(&bits, &bound, sizeof bits);
        must(tide_buffer_append_u64(&point, bits));
    }
    char route[32];
    (void)snprintf(route, sizeof route, "/api/v1/%d", n);
    put_attribute(&point, 9, "http.request.method", "GET");
    put_attribute(&point, 9, "http.route", route);
    put_attribute(&point, 9, "http.response.status_code", "200");
    put_bytes(out, 1, tide_buffer_view(&point));
    tide_buffer_done(&point);
}

static void write_metrics(tide_buffer *out)
{
    tide_buffer data;
    tide_buffer metric;
    tide_buffer scope;
    tide_buffer_init(&data, REQUEST_MAX);
    tide_buffer_init(&metric, REQUEST_MAX);
    tide_buffer_init(&scope, REQUEST_MAX);
    for (int n = 0; n < POINTS; n++)
        put_point(&data, n);
    put_number(&data, 2, 1);
    put_bytes(&metric, 1, tide_view_of("http.server.request.duration"));
    put_bytes(&metric, 3, tide_view_of("s"));
    put_bytes(&metric, 9, tide_buffer_view(&data));
    put_bytes(&scope, 2, tide_buffer_view(&metric));
    put_request(out, &scope);
    tide_buffer_done(&data);
    tide_buffer_done(&metric);
    tide_buffer_done(&scope);
}

/* ---- contestants ---- */

typedef struct contestant {
    const char *name;
    tide_otlp_signal signal;
    tide_otlp_format format;
    tide_buffer request;
    tide_otlp *otlp;
    tide_otlp_output output;
    int records; /* of one request */
    char *copy;
    bench_series per_second;
} contestant;

static void decode(void *context, int thread, int64_t n)
{
    (void)thread;
    contestant *c = context;
    tide_error err;
    bench_must(tide_otlp_decode(c->otlp, c->signal, c->format, tide_buffer_view(&c->request), n,
                                &c->output, &err),
               &err, "decoding");
}

static void copy(void *context, int thread, int64_t n)
{
    (void)thread;
    contestant *c = context;
    memcpy(c->copy, c->request.ptr, c->request.len);
    c->copy[(size_t)n % c->request.len] ^= 1; /* somebody looks at it */
}

static void prepare(contestant *c, void (*write)(tide_buffer *out))
{
    tide_error err;
    const tide_otlp_options options = {.sample_fraction = 1};
    tide_buffer_init(&c->request, REQUEST_MAX);
    write(&c->request);
    bench_must(tide_otlp_new(&c->otlp, &options, &err), &err, "a decoder");
    tide_otlp_output_init(&c->output);
    decode(c, 0, 1);
    for (int kind = 0; kind < TIDE_STREAM_BUILT_IN_COUNT; kind++)
        c->records += c->output.batches[kind].count;
    if (c->output.rejected > 0)
        bench_die("%s: %" PRId64 " were rejected", c->name, c->output.rejected);
    c->copy = malloc(c->request.len);
    if (!c->copy)
        bench_die("no memory");
    c->per_second.name = c->name;
}

static void finish(contestant *c)
{
    (void)printf("%-32s %8.0f MB/s of requests, %9.0f records/s (%zu bytes and %d records each)\n",
                 c->name, bench_median(&c->per_second) * (double)c->request.len / 1e6,
                 bench_median(&c->per_second) * c->records, c->request.len, c->records);
    tide_otlp_free(c->otlp);
    tide_otlp_output_done(&c->output);
    tide_buffer_done(&c->request);
    free(c->copy);
}

int main(int argc, char **argv)
{
    const bench_options options = bench_read_options(argc, argv, 1);
    contestant traces = {.name = "spans, protobuf", .signal = TIDE_OTLP_TRACES};
    contestant json = {.name = "spans, JSON", .signal = TIDE_OTLP_TRACES, .format = TIDE_OTLP_JSON};
    contestant metrics = {.name = "histograms, protobuf", .signal = TIDE_OTLP_METRICS};
    prepare(&traces, write_traces);
    prepare(&json, write_traces_json);
    prepare(&metrics, write_metrics);
    bench_series copied = {.name = "memcpy of the protobuf spans"};
    for (int round = 0; round < options.rounds; round++) {
        bench_add(&traces.per_second, bench_run(1, options.seconds, decode, &traces));
        bench_add(&json.per_second, bench_run(1, options.seconds, decode, &json));
        bench_add(&metrics.per_second, bench_run(1, options.seconds, decode, &metrics));
        bench_add(&copied, bench_run(1, options.seconds, copy, &traces));
    }
    bench_print_heading("OTLP requests decoded by one thread", "requests/s");
    bench_print_series(&traces.per_second);
    bench_print_series(&json.per_second);
    bench_print_series(&metrics.per_second);
    bench_print_series(&copied);
    (void)printf("\n");
    finish(&traces);
    finish(&json);
    finish(&metrics);
    return EXIT_SUCCESS;
}
