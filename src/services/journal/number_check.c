#include "services/journal/number_check.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "journal/check/verify.h"

struct tide_number_check {
    tide_store *store;
    tide_metrics *metrics;
    tide_log *log;
    tide_number_scan *scan;
    int64_t missing; /* in the last whole pass */
};

static void report(tide_number_check *c, int64_t found, bool is_first)
{
    const char *name = tide_store_name(c->store);
    const int64_t missing = found > c->missing ? found : c->missing;
    tide_series_set(tide_metrics_series(c->metrics, TIDE_METRIC_MISSING_NUMBERS, name), missing);
    if (c->log && is_first)
        tide_log_write(c->log, TIDE_LOG_ERROR,
                       "checkpoints are missing without a record of their removal: tidemark "
                       "checkpoint verify",
                       TIDE_F("store", name), TIDE_FI("missing", found), TIDE_F_END);
}

static tide_status check_page(void *arg, int64_t *next_us, tide_error *err)
{
    tide_number_check *c = arg;
    tide_number_page page = {0};
    TIDE_TRY(tide_number_scan_step(c->scan, c->store, &page, err));
    if (page.is_last)
        c->missing = page.missing;
    report(c, page.missing, page.missing > 0 && page.missing == page.found);
    *next_us = page.is_last ? TIDE_NUMBER_CHECK_US : TIDE_NUMBER_CHECK_PAGE_US;
    return TIDE_OK;
}

const tide_step tide_step_journal_numbers = {
    .name = "journal_numbers",
    .summary = "compare the numbers of checkpoints with their rows and recorded removals",
    .run = check_page,
    .lane = TIDE_LANE_OWN,
};

tide_status tide_number_check_new(tide_number_check **out, tide_store *store, tide_metrics *metrics,
                                  tide_ticker *ticker, tide_log *log, tide_error *err)
{
    tide_number_check *c = calloc(1, sizeof *c);
    if (!c)
        return tide_no_memory(err);
    *c = (tide_number_check){.store = store, .metrics = metrics, .log = log};
    tide_status status = tide_number_scan_new(&c->scan, err);
    if (status >= TIDE_OK)
        status = tide_ticker_bind(ticker, &tide_step_journal_numbers,
                                  &(tide_step_binding){.arg = c}, err);
    if (status < TIDE_OK) {
        tide_number_check_free(c);
        return status;
    }
    *out = c;
    return TIDE_OK;
}

void tide_number_check_free(tide_number_check *check)
{
    if (!check)
        return;
    tide_number_scan_free(check->scan);
    free(check);
}
