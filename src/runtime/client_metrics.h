/* client_metrics.h - metrics of the calls that a daemon makes itself.
 *
 *     tide_client_options: .count = tide_client_metrics_count, .count_arg = metrics
 *
 * Threads: safe. */
#pragma once

#include "net/client/client.h"
#include "runtime/metrics.h"

/* A tide_client_count_fn; metrics is a tide_metrics. */
void tide_client_metrics_count(void *metrics, const tide_client_counted *counted);
