/* metrics_internal.h - state shared by counting (metrics.c) and writing (metrics_text.c); see
 * metrics.h. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "runtime/metrics.h"

struct tide_series {
    const tide_metric_row *row;
    const char *values[TIDE_METRICS_LABEL_MAX]; /* of the labels */
    char *owned[TIDE_METRICS_LABEL_MAX];
    atomic_int_fast64_t value; /* of a histogram: the sum */
    atomic_int_fast64_t buckets[TIDE_METRICS_BUCKET_MAX + 1];
    atomic_bool is_set;     /* gauges */
    tide_series *next;      /* of the family, in the order in which they were made */
    tide_series *next_slot; /* with the same place in the table */
    uint64_t hash;
};

typedef struct tide_metric_family {
    const tide_metric_row *row;
    int series_max;   /* with the one called "other" */
    int series_count; /* of those that were made; they are never removed */
    bool has_other;
    tide_series *first; /* so the first series_count of the list can be read without the lock */
    tide_series *last;
    tide_series **slots; /* slot_count of them, a power of two; NULL: none yet */
    size_t slot_count;
    tide_series other;
} tide_metric_family;

typedef struct tide_metrics_source {
    tide_metrics_source_fn *fn;
    void *arg;
} tide_metrics_source;

struct tide_metrics {
    tide_env *env;
    pthread_mutex_t lock;    /* of the lists of series; held for moments */
    pthread_mutex_t writing; /* one text at a time: sources need not be safe against themselves */
    tide_metric_family families[TIDE_METRIC_COUNT];
    tide_metrics_source sources[TIDE_METRICS_SOURCE_MAX];
    int source_count;
};
