/* number_check.h - background step that compares the journal's numbers with its rows.
 *
 * Every checkpoint number that was issued has a row or a record of its removal; `checkpoint verify`
 * proves it by hand. This step does it all the time, one page of a few thousand numbers a turn, and
 * begins anew TIDE_NUMBER_CHECK_US after the end. tidemark_journal_missing_numbers is what the last
 * whole pass found, or the pass under way if that is more. The first finding of a pass is logged.
 *
 * Threads: as runtime/ticker.h. */
#pragma once

#include <tidemark/store.h>

#include "base/log.h"
#include "runtime/metrics.h"
#include "runtime/ticker.h"

#define TIDE_NUMBER_CHECK_US INT64_C(600000000)   /* between two passes */
#define TIDE_NUMBER_CHECK_PAGE_US INT64_C(100000) /* between two pages */

extern const tide_step tide_step_journal_numbers;

typedef struct tide_number_check tide_number_check;

/* Joins the ticker, which must outlive it, as the store must. log NULL: none. */
TIDE_MUST_CHECK tide_status tide_number_check_new(tide_number_check **out, tide_store *store,
                                                  tide_metrics *metrics, tide_ticker *ticker,
                                                  tide_log *log, tide_error *err);
/* After the ticker has stopped. Takes NULL. */
void tide_number_check_free(tide_number_check *check);
