#include "feed_load.h"

#include <stdio.h>
#include <stdlib.h>

#include "bench.h"
#include "support/prng.h"

static void make_span(feed_load_span *span, int64_t timestamp, int service, prng *p)
{
    span->timestamp = timestamp;
    (void)snprintf(span->trace_id, sizeof span->trace_id, "%016llx%016llx",
                   (unsigned long long)prng_u64(p), (unsigned long long)prng_u64(p));
    (void)snprintf(span->span_id, sizeof span->span_id, "%016llx", (unsigned long long)prng_u64(p));
    (void)snprintf(span->service, sizeof span->service, "service-%d", service);
    span->duration_ms = (double)prng_below(p, 100000) / 100;
    (void)snprintf(span->attributes, sizeof span->attributes, "10.0.%d.%d", (int)prng_below(p, 256),
                   (int)prng_below(p, 256));
    (void)snprintf(span->attributes_json, sizeof span->attributes_json, "{\"net.peer.ip\":\"%s\"}",
                   span->attributes);
}

static void add_span(tide_record_batch *batch, const feed_load_span *span)
{
    tide_record_begin(batch);
    tide_record_i64(batch, TIDE_SPAN_TIMESTAMP, span->timestamp);
    tide_record_text(batch, TIDE_SPAN_TRACE_ID, tide_view_of(span->trace_id));
    tide_record_text(batch, TIDE_SPAN_SPAN_ID, tide_view_of(span->span_id));
    tide_record_text(batch, TIDE_SPAN_SERVICE_NAME, tide_view_of(span->service));
    tide_record_text(batch, TIDE_SPAN_SPAN_KIND, tide_view_of("SERVER"));
    tide_record_f64(batch, TIDE_SPAN_DURATION_MS, span->duration_ms);
    tide_record_i64(batch, TIDE_SPAN_HTTP_STATUS, 200);
    tide_record_text(batch, TIDE_SPAN_HTTP_METHOD, tide_view_of("GET"));
    tide_record_text(batch, TIDE_SPAN_HTTP_ROUTE, tide_view_of("/api/v1/items/{id}"));
    tide_record_pair(batch, TIDE_SPAN_ATTRIBUTES, tide_view_of("net.peer.ip"),
                     tide_view_of(span->attributes));
    if (tide_record_end(batch) != TIDE_OK)
        bench_die("a span does not fit");
}

void feed_load_init(feed_load *load, int count, int services, int first_service, uint64_t seed)
{
    feed_load_init_at(load, count, services, first_service, seed, FEED_LOAD_START_MS);
}

void feed_load_init_at(feed_load *load, int count, int services, int first_service, uint64_t seed,
                       int64_t start_ms)
{
    prng p;
    prng_init(&p, seed);
    load->count = count;
    load->spans = calloc((size_t)count, sizeof load->spans[0]);
    if (!load->spans)
        bench_die("no memory");
    tide_record_batch_init(&load->batch, tide_stream_type_of(TIDE_STREAM_TELEMETRY), 0);
    for (int i = 0; i < count; i++) {
        make_span(&load->spans[i], start_ms + i, first_service + i % services, &p);
        add_span(&load->batch, &load->spans[i]);
    }
}

void feed_load_done(feed_load *load)
{
    free(load->spans);
    tide_record_batch_done(&load->batch);
}
