/* metrics.h - what the data points of one metric have in common. See decode.h. */
#pragma once

#include "otlp/decode.h"

/* Which stream a metric's histograms belong to: a class of durations, or none of them. */
typedef enum tide_otlp_class {
    TIDE_OTLP_CLASS_OTHER,
    TIDE_OTLP_CLASS_HTTP,
    TIDE_OTLP_CLASS_GRPC,
    TIDE_OTLP_CLASS_SQL,
} tide_otlp_class;

typedef struct tide_otlp_metric {
    tide_view name;
    tide_view unit;
    bool has_name;
    bool has_unit;
    bool is_overfull; /* its texts do not fit into any record */
    tide_otlp_class class;
    double to_ms; /* of a duration: how many ms is 1 */
    uint64_t temporality;
    bool is_monotonic;
    const char *type; /* metric_type of its numbers; NULL: there is no temporality */
} tide_otlp_metric;

/* One system_metrics record: name and suffix, with the attributes that are there. */
TIDE_MUST_CHECK tide_status tide_otlp_write_number(tide_otlp *otlp, const tide_otlp_metric *metric,
                                                   const char *suffix, const char *type,
                                                   tide_view unit, uint64_t time_ns, double value);

/* A point of a histogram (histogram.c). */
TIDE_MUST_CHECK tide_status tide_otlp_read_histogram(tide_otlp *otlp,
                                                     const tide_otlp_metric *metric,
                                                     tide_otlp_message *point, bool is_exponential);
