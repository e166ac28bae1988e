#include "runtime/client_metrics.h"

#include <stdio.h>

void tide_client_metrics_count(void *metrics, const tide_client_counted *counted)
{
    char code[16];
    (void)snprintf(code, sizeof code, "%d", counted->grpc_code);
    tide_series_add(tide_metrics_series(metrics, TIDE_METRIC_CLIENT_CALLS, counted->path, code), 1);
    if (counted->try_count > 1)
        tide_series_add(tide_metrics_series(metrics, TIDE_METRIC_CLIENT_RETRIES, counted->path),
                        counted->try_count - 1);
}
