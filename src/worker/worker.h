/* worker.h - the inside of a worker: who holds what, and which thread may touch it.
 *
 *     keeper    the caller of tide_worker_run: claims, renews, sweeps, gives back what is queued when it stops; the only
 *               one that waits for the store on behalf of all
 *     warden    tells jobs to stop before their lease ends and when the drain is over; never speaks to the store and
 *               never tells events, so that a store or a reader of events that hangs cannot keep it from doing so
 *     runners   one per thread: take the oldest queued job, run it, settle it
 *
 * Everything below is guarded by `lock`, except what is atomic or constant after open. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include <tidemark/watch.h>
#include <tidemark/worker.h>

enum { TIDE_WORKER_WATCHES_MAX = 16 };

/* The memory of one claim, shared by the jobs that came with it. */
typedef struct tide_worker_batch {
    tide_work_claims claims;
    int users;
} tide_worker_batch;

typedef enum tide_job_state {
    TIDE_JOB_FREE,
    TIDE_JOB_QUEUED,
    TIDE_JOB_RUNNING,
} tide_job_state;

struct tide_job {
    tide_worker *worker;
    const tide_work_claimed *item; /* in the batch */
    tide_worker_batch *batch;
    tide_job_state state;
    int64_t order;          /* of its claim; tells jobs that used the same slot apart */
    int64_t lease_until_us; /* boot clock */
    int64_t deadline_us;    /* of the attempt, boot clock: leases are not prolonged beyond it */
    int64_t margin_us;      /* so long before the lease ends the job is told to stop */
    atomic_int stop;        /* tide_job_stop */
    bool is_told;           /* the stop callback was called */
    /* Its end is being written: whether the lease still lasts is the store's to decide. */
    bool is_settling;
    bool is_stop_reported; /* the function's thread only */
    bool is_ended;         /* its end is written, or refused for good; the function's thread only */
    bool has_item_ended;   /* that end was final: no attempt follows; the function's thread only */
    bool is_lost;
};

/* Items that were begun and have not ended (until_empty). */
typedef struct tide_worker_unfinished {
    char (*ids)[TIDE_WORK_ID_MAX + 1];
    int count;
} tide_worker_unfinished;

struct tide_worker {
    tide_store *store;
    tide_env *env;
    tide_worker_options options; /* defaults filled in */

    pthread_mutex_t lock;
    pthread_cond_t has_queued; /* runners wait here */
    tide_job *jobs;
    int job_count; /* slots */
    int held;      /* queued or running */
    int64_t order;
    bool is_closing;        /* runners and warden go home */
    bool is_draining;       /* nothing is claimed any more; from the first stop on, or by itself */
    int64_t drain_until_us; /* boot clock; 0: the warden has not seen yet that it drains */
    tide_worker_totals totals;
    tide_worker_unfinished unfinished;

    atomic_int stops; /* calls of tide_worker_stop */
    int wake_fd;      /* an eventfd: something for the keeper */
    int warden_fd;    /* an eventfd: something for the warden */
    tide_watch *watches[TIDE_WORKER_WATCHES_MAX];
    int watch_count;

    /* The keeper's own. */
    int64_t renew_at_us;
    int64_t sweep_at_us;
    int64_t claim_at_us;
    int trouble_count; /* in a row */
    bool has_unknown_claim;
};

static inline int64_t tide_worker_least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* The boot clock. */
static inline int64_t tide_worker_now(const tide_worker *worker)
{
    return worker->env->boot_us(worker->env);
}

/* worker.c: nothing new is begun any more? */
bool tide_worker_is_stopping(tide_worker *worker);

/* worker_job.c */
void *tide_worker_runner(void *arg);
void tide_worker_tell(tide_worker *worker, tide_worker_event event, const tide_work_claimed *item,
                      const tide_error *err);
/* Give the oldest queued job back. False: there is none, or the store would not take it just now. */
bool tide_worker_release_queued(tide_worker *worker);
/* With the lock held. */
void tide_worker_batch_drop(tide_worker_batch *batch);
void tide_worker_job_free(tide_job *job);

/* worker_job.c: an attempt of this item is over, and the item may not be. */
void tide_worker_note_unfinished(tide_worker *worker, const char *work_item_id);
/* Has an item that this worker began not ended? For the keeper, while no job is held. */
TIDE_MUST_CHECK tide_status tide_worker_find_unfinished(tide_worker *worker, bool *is_some,
                                                        tide_error *err);

/* worker.c */
void *tide_worker_warden(void *arg);
/* With the lock held: the job must stop, for the first reason given. */
void tide_worker_job_stop(tide_job *job, tide_job_stop why);

/* Async-signal-safe: there is something to see to. */
void tide_worker_wake(tide_worker *worker);
void tide_worker_wake_warden(tide_worker *worker);
