/* feed_load.h - spans for the benchmarks of the feed: about 160 bytes each, encoded once and numbered again by every commit. */
#pragma once

#include "feed/record.h"

#define FEED_LOAD_START_MS INT64_C(1700000000000)

typedef struct feed_load_span {
    int64_t timestamp;
    char trace_id[33];
    char span_id[17];
    char service[16];
    double duration_ms;
    char attributes[64];
    char attributes_json[96]; /* the same, for tables */
} feed_load_span;

typedef struct feed_load {
    feed_load_span *spans;
    int count;
    tide_record_batch batch;
} feed_load;

/* count spans of so many services, in turn, from service-FIRST on; ids from the seed. */
void feed_load_init(feed_load *load, int count, int services, int first_service, uint64_t seed);
/* The same, one per millisecond from start_ms on; feed_load_init begins at FEED_LOAD_START_MS. */
void feed_load_init_at(feed_load *load, int count, int services, int first_service, uint64_t seed,
                       int64_t start_ms);
void feed_load_done(feed_load *load);
