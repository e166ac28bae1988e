/* ticker.h - runner of a daemon's background steps: named, bounded, measured.
 *
 *     extern const tide_step *const tidemark_serve_steps[];     the list of a daemon: data
 *
 *     tide_ticker_new      with the list of the daemon
 *     tide_ticker_bind     a component gives a step of the list its argument
 *     tide_ticker_skip     the daemon is configured to run without a step
 *     tide_ticker_start    fails unless each step of the list was bound or skipped
 *     tide_ticker_stop     ends the threads after the steps that are running
 *
 * A step does a bounded amount of work and returns when it wants to run again. It runs earlier if
 * it is woken by name, or if its watch becomes ready. A daemon cannot lose a step unnoticed: the
 * list is what tests read, binding a step that is not in the list fails, and starting without a
 * step of the list fails.
 *
 * Steps run in lanes. A lane is a thread that runs its steps one after the other, the longest due
 * first:
 *
 *     MAIN     short work on the daemon's own store; one thread for all of these
 *     LEASES   renewal of leases; its own thread, so that a renewal never waits for another step
 *     OWN      work that waits for other machines or takes minutes; a thread for each argument
 *
 * A failure is logged when it begins and when it ends, not at each attempt. A step that failed runs
 * again after the time that it set, or TIDE_TICKER_RETRY_US. Metrics of each step: last success,
 * duration, failures.
 *
 * Simulators do not start the ticker. They call tide_ticker_step in a loop over virtual time.
 *
 * Survives: nothing of its own. A step reads what is due from its store.
 * Threads: wake from any thread, also while the caller holds a lock that a step takes. The other
 * functions from the main thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <tidemark/env.h>
#include <tidemark/error.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "runtime/metrics.h"

#define TIDE_TICKER_RETRY_US INT64_C(1000000)

typedef enum tide_step_lane {
    TIDE_LANE_MAIN,
    TIDE_LANE_LEASES,
    TIDE_LANE_OWN,
} tide_step_lane;

typedef struct tide_step {
    const char *name;    /* "sweep": label of its metrics, name for tide_ticker_wake */
    const char *summary; /* what it does, in a phrase */

    /* One bounded turn. *next_us: microseconds until the next one, from the end of this one; 0: at
     * once, after the other due steps; INT64_MAX: only when woken. It is TIDE_TICKER_RETRY_US
     * unless the step sets it.
     * TIDE_OK: done. TIDE_NONE: nothing was due; counted as success, but not as a duration. */
    tide_status (*run)(void *arg, int64_t *next_us, tide_error *err);

    /* A descriptor that is readable when the step should run; the step reads it. Below 0: none.
     * NULL: none. */
    int (*watch_fd)(void *arg);

    /* For OWN, at most one step of a lane: waits up to wait_us for a reason to run. TIDE_OK: there
     * is one. */
    tide_status (*wait)(void *arg, int64_t wait_us);

    int64_t rest_us; /* at least so long between two runs that wakes or the watch cause */
    tide_step_lane lane;
} tide_step;

typedef struct tide_ticker tide_ticker;

typedef struct tide_ticker_options {
    const tide_step *const *steps; /* ends with NULL; must outlive the ticker */
    tide_env *env;
    tide_log *log;         /* NULL: no log lines */
    tide_metrics *metrics; /* NULL: no metrics; must outlive the ticker */
} tide_ticker_options;

TIDE_MUST_CHECK tide_status tide_ticker_new(tide_ticker **out, const tide_ticker_options *options,
                                            tide_error *err);
/* Stops it. Takes NULL. */
void tide_ticker_free(tide_ticker *ticker);
TIDE_CLEANUP_FN(tide_ticker_freep, tide_ticker, tide_ticker_free)

typedef struct tide_step_binding {
    void *arg; /* for the functions of the step; must live until the ticker has stopped */
    /* Where a daemon runs a step for several things: "orders"; NULL: it is the only one. */
    const char *instance;
    int64_t delay_us; /* before the first run */
} tide_step_binding;

/* Before start. TIDE_E_FAILED: the step is not in the list, or was bound for this instance
 * already. */
TIDE_MUST_CHECK tide_status tide_ticker_bind(tide_ticker *ticker, const tide_step *step,
                                             const tide_step_binding *binding, tide_error *err);
/* The configuration of the daemon does without this step. */
void tide_ticker_skip(tide_ticker *ticker, const tide_step *step);

/* TIDE_E_FAILED: a step of the list was neither bound nor skipped. */
TIDE_MUST_CHECK tide_status tide_ticker_start(tide_ticker *ticker, tide_error *err);
/* Returns when no step runs any more. Takes NULL and a ticker that was not started. */
void tide_ticker_stop(tide_ticker *ticker);

/* Run the steps of this name soon. A name that is not bound is ignored: the daemon does without it.
 * NULL is fine. */
void tide_ticker_wake(tide_ticker *ticker, const char *name);

/* Without threads: run each step that is due once, on this thread. *due_us is when the next one is
 * due, on the monotonic clock of the env; INT64_MAX: never. Fails as start. */
TIDE_MUST_CHECK tide_status tide_ticker_step(tide_ticker *ticker, int64_t *due_us, tide_error *err);
