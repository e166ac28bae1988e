/* load_spans.c - spans of an instrumented HTTP server, as OTLP encodes them. See load.h. */
#include <stdio.h>
#include <string.h>

#include "bench.h"
#include "load.h"
#include "support/prng.h"

enum { SPANS_MAX = 1 << 20, SPAN_MAX = 4096, REQUEST_MAX = 4 << 20 };

static void put_bytes(tide_buffer *out, unsigned field, tide_view bytes)
{
    load_must(tide_buffer_append_varint(out, field << 3 | 2));
    load_must(tide_buffer_append_varint(out, bytes.len));
    load_must(tide_buffer_append_view(out, bytes));
}

static void put_fixed(tide_buffer *out, unsigned field, uint64_t number)
{
    load_must(tide_buffer_append_varint(out, field << 3 | 1));
    load_must(tide_buffer_append_u64(out, number));
}

static void put_attribute(tide_buffer *out, unsigned field, const char *key, const char *value)
{
    tide_buffer any;
    tide_buffer pair;
    tide_buffer_init(&any, SPAN_MAX);
    tide_buffer_init(&pair, SPAN_MAX);
    put_bytes(&any, 1, tide_view_of(value));
    put_bytes(&pair, 1, tide_view_of(key));
    put_bytes(&pair, 2, tide_buffer_view(&any));
    put_bytes(out, field, tide_buffer_view(&pair));
    tide_buffer_done(&any);
    tide_buffer_done(&pair);
}

static void put_span(tide_buffer *out, uint64_t n, prng *p)
{
    const uint64_t ids[3] = {prng_u64(p), prng_u64(p), prng_u64(p)};
    const uint64_t begin_ns = UINT64_C(1700000000000000000) + n * 1000;
    char client[32];
    (void)snprintf(client, sizeof client, "10.0.%d.%d", (int)prng_below(p, 256),
                   (int)prng_below(p, 256));
    put_bytes(out, 1, tide_view_bytes(ids, 16));
    put_bytes(out, 2, tide_view_bytes(&ids[2], 8));
    put_bytes(out, 5, tide_view_of("GET /api/v1/items/{id}"));
    load_must(tide_buffer_append_varint(out, 6 << 3));
    load_must(tide_buffer_append_varint(out, 2)); /* a server's */
    put_fixed(out, 7, begin_ns);
    put_fixed(out, 8, begin_ns + prng_below(p, 1000000000));
    put_attribute(out, 9, "http.request.method", "GET");
    put_attribute(out, 9, "http.route", "/api/v1/items/{id}");
    put_attribute(out, 9, "client.address", client);
}

void load_spans_init(load_spans *spans)
{
    size_t at[LOAD_SPANS + 1];
    prng p;
    prng_init(&p, 1);
    tide_buffer_init(&spans->bytes, SPANS_MAX);
    for (int i = 0; i < LOAD_SPANS; i++) {
        at[i] = spans->bytes.len;
        put_span(&spans->bytes, (uint64_t)i, &p);
    }
    at[LOAD_SPANS] = spans->bytes.len;
    for (int i = 0; i < LOAD_SPANS; i++)
        spans->spans[i] = tide_view_bytes(spans->bytes.ptr + at[i], at[i + 1] - at[i]);
}

void load_spans_done(load_spans *spans)
{
    tide_buffer_done(&spans->bytes);
}

void load_spans_request(const load_spans *spans, int count, tide_buffer *out)
{
    tide_buffer resource;
    tide_buffer scope;
    tide_buffer group;
    tide_buffer_init(&resource, SPAN_MAX);
    tide_buffer_init(&scope, REQUEST_MAX);
    tide_buffer_init(&group, REQUEST_MAX);
    put_attribute(&resource, 1, "service.name", "checkout");
    for (int i = 0; i < count; i++)
        put_bytes(&scope, 2, spans->spans[i]);
    put_bytes(&group, 1, tide_buffer_view(&resource));
    put_bytes(&group, 2, tide_buffer_view(&scope));
    put_bytes(out, 1, tide_buffer_view(&group));
    tide_buffer_done(&resource);
    tide_buffer_done(&scope);
    tide_buffer_done(&group);
}
