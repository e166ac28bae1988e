#include "runtime/store_verify.h"

#include <tidemark/idempotency.h>
#include <tidemark/work.h>

#include "base/cleanup.h"

static tide_status pick_worse(tide_status before, tide_status status)
{
    return status == TIDE_OK || (status == TIDE_E_DAMAGED && before < TIDE_OK) ? before : status;
}

tide_status tide_store_verify_all(tide_store *store, tide_store_finding_fn *fn, void *arg,
                                  tide_values_checked *out, tide_error *err)
{
    *out = (tide_values_checked){0};
    tide_status status = tide_store_verify(store, fn, arg, err);
    if (status < TIDE_OK && status != TIDE_E_DAMAGED)
        return status;
    status = pick_worse(status, tide_idempotency_verify(store, fn, arg, out, err));
    if (status < TIDE_OK && status != TIDE_E_DAMAGED)
        return status;
    return pick_worse(status, tide_work_verify(store, fn, arg, out, err));
}

static void report_finding(void *arg, const char *finding)
{
    const tide_store_watch *watch = arg;
    const char *name = tide_store_name(watch->store);
    tide_log_write(watch->log, TIDE_LOG_ERROR, "verification found damage", TIDE_F("store", name),
                   TIDE_F("finding", finding), TIDE_F_END);
    tide_series_add(tide_metrics_series(watch->metrics, TIDE_METRIC_STORE_DAMAGED, name), 1);
}

static tide_status verify(void *arg, int64_t *next_us, tide_error *err)
{
    tide_store_watch *watch = arg;
    const char *name = tide_store_name(watch->store);
    tide_values_checked values = {0};
    *next_us = TIDE_VERIFY_EVERY_US;
    const tide_status status =
        tide_store_verify_all(watch->store, report_finding, watch, &values, err);
    if (status < TIDE_OK && status != TIDE_E_DAMAGED)
        *next_us = TIDE_VERIFY_FIRST_US;
    if (status < TIDE_OK)
        return status;
    tide_series_set(tide_metrics_series(watch->metrics, TIDE_METRIC_STORE_VERIFIED, name),
                    watch->env->wall_us(watch->env));
    tide_log_write(watch->log, TIDE_LOG_INFO, "store verified", TIDE_F("store", name),
                   TIDE_FI("checked", values.checked), TIDE_FI("unchecked", values.unchecked),
                   TIDE_F_END);
    return TIDE_OK;
}

const tide_step tide_step_store_verify = {.name = "store_verify",
                                          .summary = "verify the whole store, once a week",
                                          .run = verify,
                                          .lane = TIDE_LANE_OWN};
