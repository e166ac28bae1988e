/* histogram.h - one data point of a histogram, with explicit or exponential buckets, in one form.
 *
 *     zero | counts[0] | counts[1] | ...
 *
 *     explicit        bounds between them, the last reaches to infinity
 *     exponential     bucket i reaches to 2^((offset + i + 1) * 2^-scale)
 *
 * Observations below zero, which durations do not have, are counted with zero.
 *
 * Limits: TIDE_OTLP_BUCKETS_MAX buckets. Threads: belongs to its decoder. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "otlp/otlp.h"

typedef struct tide_otlp_histogram {
    uint64_t start_ns;
    uint64_t time_ns;
    uint64_t flags;
    uint64_t count;
    double sum;
    double min;
    double max;
    bool has_sum;
    bool has_min;
    bool has_max;
    bool is_exponential;
    int32_t scale;
    int64_t offset;
    uint64_t zero_count;
    double zero_threshold;
    int bucket_count;
    int bound_count;
    uint64_t counts[TIDE_OTLP_BUCKETS_MAX];
    double bounds[TIDE_OTLP_BUCKETS_MAX];
} tide_otlp_histogram;
