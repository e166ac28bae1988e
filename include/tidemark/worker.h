/* worker.h - a worker: claims items, keeps their leases, runs a function on each, records how it
 * ended.
 *
 *     claim (prefetch) ---> queue ---> n threads run the function ---> finish | fail | release
 *                             ^ leases of all held items are renewed by one statement
 *
 * Leases are renewed after a third of their time, at most 60 s apart. A lease counts from before
 * the claim or renewal was sent, on this machine's boot clock: so this side always believes it ends
 * earlier than the store does. A worker that cannot renew tells the function to stop
 * (tide_job_is_stopping, the stop callback) before the lease ends, by a sixth of the lease, at most
 * 10 s; what it returns after that is thrown away, and would be refused by the store anyway. An
 * attempt that takes as long as its timeout is told in the same way, and has failed.
 *
 * Stopping is graceful: no new claims, queued items are released at once, running ones may end
 * within drain_us, then they are told to stop and released. Nothing is lost either way: what was
 * not finished is claimed again.
 *
 * A worker sleeps when there is nothing to do: it is woken by the store (watch.h), looks again
 * after poll_us, and when a delayed item becomes due. Between its other duties it sweeps (work.h).
 *
 * Survives: kill -9 at any point; leases run out and the sweep of another worker requeues the
 * items.
 * Threads: tide_worker_run blocks its caller; tide_worker_stop may be called from any thread or
 * signal handler. */
#ifndef TIDEMARK_WORKER_H
#define TIDEMARK_WORKER_H

#include <tidemark/work.h>

TIDE_BEGIN_DECLS

enum {
    TIDE_WORKER_THREADS_MAX = 256,
    TIDE_WORKER_PREFETCH_MAX = 1000,
};

#define TIDE_WORKER_POLL_US INT64_C(1000000)   /* look again, also without a wake-up */
#define TIDE_WORKER_DRAIN_US INT64_C(30000000) /* for running items when stopping */

typedef struct tide_worker tide_worker;
typedef struct tide_job tide_job;

/* What is being worked on; valid until the function returns. */
TIDE_API const tide_work_claimed *tide_job_item(const tide_job *job);
TIDE_API tide_store *tide_job_store(const tide_job *job);

/* Must the function stop soon, and why? */
typedef enum tide_job_stop {
    TIDE_JOB_GOES_ON,
    /* lost (also: cancelled), or about to end because it could not be renewed */
    TIDE_JOB_LEASE_OVER,
    TIDE_JOB_TIMED_OUT,   /* the attempt has taken as long as it may */
    TIDE_JOB_WORKER_ENDS, /* the drain is over, or the worker was stopped twice */
} tide_job_stop;
TIDE_API tide_job_stop tide_job_stop_get(const tide_job *job);
TIDE_API bool tide_job_is_stopping(const tide_job *job);

/* How long until the lease ends, as this side knows it; 0: it is over. */
TIDE_API int64_t tide_job_lease_left_us(const tide_job *job);

/* The newest checkpoint of the item that says how far it came (not iteration_start, not
 * error_boundary), handed to fn with its state: what the last attempt has reached. TIDE_NONE:
 * none. */
TIDE_API TIDE_MUST_CHECK tide_status tide_job_last_checkpoint(tide_job *job, tide_checkpoint_fn *fn,
                                                              void *arg, tide_error *err);
TIDE_API TIDE_MUST_CHECK tide_status tide_job_checkpoint(tide_job *job,
                                                         const tide_checkpoint_new *checkpoint,
                                                         tide_checkpoint_numbers *out,
                                                         tide_error *err);
TIDE_API TIDE_MUST_CHECK tide_status tide_job_progress(tide_job *job, const char *progress,
                                                       tide_error *err);

/* Record how it ended; at most one of these is called, by the function or a thread of it. Without
 * any of them the runtime finishes the item without output (TIDE_OK), releases it
 * (TIDE_E_INTERRUPTED, unless it was its timeout that interrupted it) or fails it (else). */
TIDE_API TIDE_MUST_CHECK tide_status tide_job_finish(tide_job *job, tide_work_result *result,
                                                     tide_error *err);
TIDE_API TIDE_MUST_CHECK tide_status tide_job_fail(tide_job *job, const char *error, bool is_final,
                                                   int64_t retry_after_us, tide_error *err);
TIDE_API TIDE_MUST_CHECK tide_status tide_job_release(tide_job *job, int64_t delay_us,
                                                      tide_error *err);

typedef tide_status tide_job_fn(void *arg, tide_job *job, tide_error *err);

/* What happened, for logs and metrics; called from any of the worker's threads, several at once,
 * and must not call the worker. An item is claimed before anything else happens to it. */
typedef enum tide_worker_event {
    TIDE_WORKER_CLAIMED,
    TIDE_WORKER_FINISHED,
    TIDE_WORKER_FAILED,
    TIDE_WORKER_RELEASED,
    TIDE_WORKER_LOST, /* the lease was lost, or given up before its end */
    TIDE_WORKER_SWEPT,
    TIDE_WORKER_TROUBLE, /* the store could not be reached or refused; it is tried again */
} tide_worker_event;
typedef void tide_worker_event_fn(void *arg, tide_worker_event event, const tide_work_claimed *item,
                                  const tide_error *err);

/* Zero means the default everywhere. */
typedef struct tide_worker_options {
    size_t size;        /* TIDE_WORKER_OPTIONS_INIT */
    const char *worker; /* for people */
    const char *const *types;
    int type_count;      /* 0: any type */
    const char *task_id; /* NULL: any task */
    int64_t lease_us;    /* 0: TIDE_WORK_LEASE_US */
    int threads;         /* 1 */
    int prefetch;        /* items held beyond those running; 0: none */
    int64_t poll_us;
    int64_t sweep_us; /* < 0: never */
    int64_t drain_us; /* < 0: stop running items at once */
    int64_t item_max; /* stop after this many items; 0: go on */
    /* Stop when nothing is left that could be claimed, now or after a delay, and every item that
     * this worker began has ended, whichever worker ended it. */
    bool until_empty;
    tide_job_fn *run;
    void *run_arg;
    /* May be NULL; called with run_arg, once when a job must stop, from another thread. It raises a
     * flag or sends a signal: it must not wait, nor call the worker. */
    void (*stop)(void *arg, tide_job *job);
    tide_worker_event_fn *event; /* may be NULL */
    void *event_arg;
} tide_worker_options;
#define TIDE_WORKER_OPTIONS_INIT .size = sizeof(tide_worker_options)

typedef struct tide_worker_totals {
    int64_t claimed, finished, failed, released, lost; /* attempts */
    int64_t failed_items; /* of the failed attempts: no further one follows */
} tide_worker_totals;

/* Texts and types of the options must outlive the worker. */
TIDE_API TIDE_MUST_CHECK tide_status tide_worker_open(tide_worker **out, tide_store *store,
                                                      const tide_worker_options *options,
                                                      tide_error *err);
/* Until stopped, empty, or item_max. TIDE_OK in each of these cases. */
TIDE_API TIDE_MUST_CHECK tide_status tide_worker_run(tide_worker *worker, tide_error *err);
/* Async-signal-safe. A second call ends the drain at once. */
TIDE_API void tide_worker_stop(tide_worker *worker);
TIDE_API void tide_worker_totals_get(const tide_worker *worker, tide_worker_totals *out);
TIDE_API void tide_worker_close(tide_worker *worker); /* after run has returned; takes NULL */
TIDE_API void tide_worker_closep(tide_worker **worker);

TIDE_END_DECLS

#endif
