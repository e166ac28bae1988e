/* maintenance.h - background steps of a store with work: sweep, and clean-up of keys, items and checkpoints.
 *
 * `serve`, `up`, `colony` and `work run` bind these steps to their tickers (runtime/ticker.h).
 *
 * sweep sleeps until the earliest lease end, due item or schedule of the store, and at most sweep_us. A new one that is due
 * earlier wakes it (TIDE_WORK_DUE_TOPIC). That is a hint, and plain SQL on PostgreSQL gives none: with the default it looks
 * every second, so that a lease is taken over and a schedule fires within a second of its time in any case.
 *
 * Threads: as runtime/ticker.h. */
#pragma once

#include <tidemark/store.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "runtime/ticker.h"

extern const tide_step tide_step_sweep;
extern const tide_step tide_step_clean_keys;
extern const tide_step tide_step_clean_items;
extern const tide_step tide_step_clean_checkpoints;

#define TIDE_WORK_STEPS                                                                            \
    &tide_step_sweep, &tide_step_clean_keys, &tide_step_clean_items, &tide_step_clean_checkpoints

/* Of `tidemark work run`. */
extern const tide_step *const tidemark_work_run_steps[];

#define TIDE_SWEEP_DEFAULT_US INT64_C(1000000)

/* Zero means the default everywhere. */
typedef struct tide_work_maintenance_options {
    int64_t sweep_us;      /* at most so long between two looks */
    int64_t crash_limit;   /* attempts that end by a crash before an item is quarantined */
    int64_t keep_keys_us;  /* completed idempotency keys without an expiry of their own; 7 days */
    int64_t keep_items_us; /* ended work items; 30 days */
    int64_t keep_checkpoints; /* newest of each task; 0: all */
    tide_log *log;            /* of the daemon; NULL: none */
} tide_work_maintenance_options;

typedef struct tide_work_maintenance tide_work_maintenance;

/* The store must outlive it. metrics NULL: none. */
TIDE_MUST_CHECK tide_status tide_work_maintenance_new(tide_work_maintenance **out,
                                                      tide_store *store,
                                                      const tide_work_maintenance_options *options,
                                                      tide_metrics *metrics, tide_error *err);
/* After the ticker has stopped. Takes NULL. */
void tide_work_maintenance_free(tide_work_maintenance *maintenance);
TIDE_CLEANUP_FN(tide_work_maintenance_freep, tide_work_maintenance, tide_work_maintenance_free)

/* Bind TIDE_WORK_STEPS; clean_checkpoints is skipped where keep_checkpoints is 0. */
TIDE_MUST_CHECK tide_status tide_work_maintenance_bind(tide_work_maintenance *maintenance,
                                                       tide_ticker *ticker, tide_error *err);
/* Bind tide_step_sweep alone. */
TIDE_MUST_CHECK tide_status tide_work_maintenance_bind_sweep(tide_work_maintenance *maintenance,
                                                             tide_ticker *ticker, tide_error *err);
