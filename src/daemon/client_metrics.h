/* client_metrics.h - what a daemon's own calls to others come to, in its metrics.
 *
 *     tide_client_options: .count = tide_client_metrics_count, .count_arg = metrics
 *
 * Threads: safe. */
#ifndef TIDE_DAEMON_CLIENT_METRICS_H
#define TIDE_DAEMON_CLIENT_METRICS_H

#include "daemon/metrics.h"
#include "net/client.h"

/* A tide_client_count_fn; metrics is a tide_metrics. */
void tide_client_metrics_count(void *metrics, const tide_client_counted *counted);

#endif
