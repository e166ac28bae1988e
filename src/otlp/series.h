/* series.h - the last point of every histogram whose counts only grow, so that the next tells what
 * is new.
 *
 * An exporter with cumulative temporality sends, each time, everything since its start. What is
 * stored is the difference to the point before:
 *
 *     the same start, a later time   the difference, bucket by bucket; a count that fell means a
 *                                    start anew
 *     a later start                  all of it
 *     not a later time               nothing: sent again, or overtaken
 *     the first of a series          all of it, when the series began after us, or when an earlier
 *                                    request had the metric and resource without it; otherwise
 *                                    nothing: how much was stored before a restart is not known
 *
 * An exponential histogram whose scale has become coarser is compared at the coarser scale.
 *
 * Every change is noted in an undo log, which belongs to the request's output: a request that
 * fails, or whose records could not be stored, is taken back, except where a later request went on
 * from it.
 *
 * Survives: nothing. Threads: a table belongs to one thread at a time.
 * Limits: TIDE_OTLP_SERIES_MAX series, TIDE_OTLP_SERIES_BYTES_MAX bytes of counts; the longest
 * unseen is forgotten, and from then on nothing is taken for new that was merely forgotten. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <tidemark/error.h>

#include "base/buffer.h"
#include "base/digest.h"
#include "otlp/histogram.h"

struct tide_otlp_series_entry;

typedef struct tide_otlp_series {
    struct tide_otlp_series_entry *entries; /* NULL until the first is needed */
    int32_t *heads;
    int32_t used;   /* entries that were ever taken */
    int32_t free;   /* a list of those given back; -1: none */
    int32_t newest; /* by use */
    int32_t oldest;
    size_t bytes_len;
    int64_t started_ms;
    uint64_t request; /* counts requests */
    uint64_t version; /* counts changes */
    bool has_forgotten;
    uint64_t forgotten_start_ns; /* the latest start of those that were forgotten */
} tide_otlp_series;

/* Allocates nothing yet. */
void tide_otlp_series_init(tide_otlp_series *series, int64_t started_ms);
void tide_otlp_series_done(tide_otlp_series *series);

/* Another request begins. */
void tide_otlp_series_begin(tide_otlp_series *series);

/* The series' next point, whose counts become what is new in them; *is_news: anything at all. key
 * is the series, group its metric and resource. On failure (TIDE_E_NOMEM; TIDE_E_LIMIT: the undo
 * log is full) counts and table may be half changed: the request must be undone. */
TIDE_MUST_CHECK tide_status tide_otlp_series_advance(tide_otlp_series *series, tide_digest128 key,
                                                     tide_digest128 group,
                                                     tide_otlp_histogram *point, bool *is_news,
                                                     tide_buffer *undo, size_t *undo_last);

/* Take back what the log says, newest first, and empty it. */
void tide_otlp_series_undo(tide_otlp_series *series, tide_buffer *undo, size_t *undo_last);
