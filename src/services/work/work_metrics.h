/* work_metrics.h - the figures of `work stats` for /metrics: items and their mean age by type and status, leases, and the tasks with the
 * most checkpoints.
 *
 * Asked for when somebody looks: one read of the store per scrape. Types beyond TIDE_WORK_METRICS_MAX rows are left out. */
#ifndef TIDE_SERVICES_WORK_WORK_METRICS_H
#define TIDE_SERVICES_WORK_WORK_METRICS_H

#include <tidemark/store.h>

#include "runtime/metrics.h"

enum { TIDE_WORK_METRICS_MAX = 1000 };

/* A source (tide_metrics_add_source) whose argument is a tide_store. */
void tide_work_metrics(void *store, tide_metrics_writer *writer);

/* Its families, for the reference. */
const tide_metric_row *tide_work_metric_rows(size_t *count);

#endif
