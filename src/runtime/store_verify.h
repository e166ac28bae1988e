/* store_verify.h - verification of a daemon's store in the background: one pass a week.
 *
 * What `tidemark store verify` does: every page and index, the schema, and stored values against
 * their digests. Reads check the values that they return; this also finds damage in what is not
 * read. The first pass begins TIDE_VERIFY_FIRST_US after the start, so a daemon that is restarted
 * every day verifies every day, and one that only starts does not.
 *
 * A finding is logged as an error and counted (tidemark_store_damaged_values_total). A pass without
 * one sets tidemark_store_verified_timestamp_seconds.
 *
 * Threads: the step has one of its own. */
#pragma once

#include "runtime/store_watch.h"
#include "runtime/ticker.h"

#define TIDE_VERIFY_FIRST_US INT64_C(3600000000)
#define TIDE_VERIFY_EVERY_US INT64_C(604800000000)

/* Pages, indexes, schema and values. fn is called per finding. TIDE_E_DAMAGED: there were
 * findings. */
TIDE_MUST_CHECK tide_status tide_store_verify_all(tide_store *store, tide_store_finding_fn *fn,
                                                  void *arg, tide_values_checked *out,
                                                  tide_error *err);

/* The argument is a tide_store_watch with a store. */
extern const tide_step tide_step_store_verify;
