/* rollup.h - durations of a minute as a histogram, so that summaries can be added up in any order.
 *
 * A bucket has an upper bound: 0.001 ms, and each next one 2 % above the one before (1501 of them, up to 92 days). A duration lies in the lowest
 * bucket whose bound it does not exceed; what is no number, or not above the first bound, in bucket 0, and what lies beyond the last,
 * in the last. A percentile is told as the bound of the bucket in which it lies: at most 2 % above the true one.
 *
 * What is counted, per (minute, service):
 *
 *     telemetry     one per span, its duration_ms; errors: is_error
 *     beyla_http    count at latency_bucket_ms; errors: http_status_code of 500 and above
 *     beyla_grpc    count at latency_bucket_ms; errors: grpc_status_code other than 0
 *     beyla_sql     count at latency_bucket_ms; no errors
 *
 * Adding is all there is: a change adds what it stores, in the transaction that stores it, so rows that come late or are recovered are in
 * their minute, once. Retention of rows does not take anything back.
 *
 * Threads: a rollup belongs to one thread at a time. Memory: 64 bytes per (minute, service, bucket) of a page.
 * Limits: service names are cut at 256 bytes; counts stop at 2^50. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "feed/record.h"

enum {
    TIDE_ROLLUP_BUCKETS = 1501,
    TIDE_ROLLUP_SERVICE_MAX = 256, /* bytes: an index of PostgreSQL takes no long keys */
};

#define TIDE_ROLLUP_COUNT_MAX (INT64_C(1) << 50)
#define TIDE_ROLLUP_MINUTE_US INT64_C(60000000)
#define TIDE_ROLLUP_KEEP_US INT64_C(7776000000000) /* 90 days, by the minute itself */

/* In which bucket a duration lies, and a bucket's upper bound. */
int tide_rollup_bucket(double ms);
double tide_rollup_bound(int bucket);

/* Are there rollups of this type? */
bool tide_rollup_has(tide_stream_kind kind);

typedef struct tide_rollup_entry {
    int64_t minute_us;
    tide_view service; /* borrowed from the rows; UTF-8 without NUL */
    int bucket;
    int64_t count;
    int64_t errors;
} tide_rollup_entry;

typedef struct tide_rollup {
    const tide_stream_type *type;
    tide_rollup_entry *entries;
    int count;
    int capacity;
    int *slots; /* open addressing: index of the entry + 1 */
    int slot_count;
} tide_rollup;

void tide_rollup_init(tide_rollup *rollup, const tide_stream_type *type);
void tide_rollup_done(tide_rollup *rollup); /* fits TIDE_CLEANUP */

/* Add one row; of a type without rollups nothing. service: the row's, valid UTF-8 without NUL, which must outlive the rollup; time_us: the
 * row's, within the calendar. TIDE_E_NOMEM. */
TIDE_MUST_CHECK tide_status tide_rollup_add(tide_rollup *rollup, const tide_record_row *row,
                                            tide_view service, int64_t time_us, tide_error *err);

/* Bring the entries into the order of (minute, service, bucket). Nothing can be added afterwards. */
void tide_rollup_sort(tide_rollup *rollup);
