/* work_metrics.h - the figures of `work stats` for /metrics: items and their mean age by type and status, leases, and the tasks with the
 * most checkpoints.
 *
 * A scrape wakes the step that reads them, and writes the last ones where the store does not answer
 * (runtime/refresh.h), or where reading them took more than a fiftieth of the time since: then they
 * are as old as tidemark_work_figures_age_seconds. Types beyond TIDE_WORK_METRICS_MAX rows are left out. */
#pragma once

#include <tidemark/store.h>

#include "runtime/metrics.h"
#include "runtime/ticker.h"

enum { TIDE_WORK_METRICS_MAX = 1000 };

extern const tide_step tide_step_work_figures;

typedef struct tide_work_metrics tide_work_metrics;

/* Joins the metrics and the ticker, which must outlive it, as the store must. */
TIDE_MUST_CHECK tide_status tide_work_metrics_new(tide_work_metrics **out, tide_store *store,
                                                  tide_metrics *metrics, tide_ticker *ticker,
                                                  tide_error *err);
/* After the ticker has stopped and the last text was written. Takes NULL. */
void tide_work_metrics_free(tide_work_metrics *metrics);

/* Its families, for the reference. */
const tide_metric_row *tide_work_metric_rows(size_t *count);
