/* metrics.h - what /metrics tells of a lake: what was done here (counters of runtime/metrics.h), and what the metabase holds.
 *
 * What it holds is read by a step when somebody looks, at most once in TIDE_LAKE_FIGURES_US. While the
 * store does not answer, the last figures stay (runtime/refresh.h).
 *
 * Threads: any. */
#pragma once

#include "lake/work.h"
#include "runtime/metrics.h"
#include "runtime/ticker.h"

#define TIDE_LAKE_FIGURES_US INT64_C(30000000)

typedef struct tide_lake_metrics tide_lake_metrics;

extern const tide_step tide_step_lake_figures;

/* Joins the metrics and the ticker. The store must outlive it, and it the metrics' last text and the
 * ticker's last step. */
TIDE_MUST_CHECK tide_status tide_lake_metrics_new(tide_lake_metrics **out, tide_metrics *metrics,
                                                  tide_ticker *ticker, tide_store *store,
                                                  tide_error *err);
void tide_lake_metrics_free(tide_lake_metrics *metrics); /* takes NULL */

/* Its families, for the reference. */
const tide_metric_row *tide_lake_metric_rows(size_t *count);

/* A commit has ended so. */
void tide_lake_metrics_committed(tide_lake_metrics *f, const tide_lake_work *work,
                                 tide_status status, int64_t took_us);
/* A catalog was made or forked, or not. */
void tide_lake_metrics_made(tide_lake_metrics *f, tide_status status, bool was_there);
