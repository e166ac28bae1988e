/* worker_job.c - running one job: what the function sees, how its end is written, when it must stop. */
#include "daemon/worker.h"

#include <assert.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/backoff.h"
#include "base/patience.h"

void tide_worker_tell(tide_worker *worker, tide_worker_event event, const tide_work_claimed *item,
                      const tide_error *err)
{
    if (worker->options.event)
        worker->options.event(worker->options.event_arg, event, item, err);
}

void tide_worker_wake(tide_worker *worker)
{
    const uint64_t one = 1;
    /* A full eventfd is readable already. */
    const ssize_t written = write(worker->wake_fd, &one, sizeof one);
    (void)written;
}

void tide_worker_batch_drop(tide_worker_batch *batch)
{
    if (--batch->users > 0)
        return;
    tide_work_claims_done(&batch->claims);
    free(batch);
}

void tide_worker_job_free(tide_job *job)
{
    tide_worker_batch_drop(job->batch);
    job->state = TIDE_JOB_FREE;
    job->batch = NULL;
    job->item = NULL;
    job->worker->held--;
}

int64_t tide_worker_margin_us(const tide_worker *worker)
{
    const int64_t sixth_us = worker->options.claim.lease_us / 6;
    const int64_t most_us = 10 * INT64_C(1000000);
    return sixth_us < most_us ? sixth_us : most_us;
}

/* The callback runs under the lock: it must not call back into the worker, and it must be quick (raise a flag, send a
 * signal). In exchange the job cannot end while it is being told. */
void tide_worker_job_stop(tide_job *job)
{
    atomic_store(&job->is_stopping, true);
    if (job->state != TIDE_JOB_RUNNING || job->is_told)
        return;
    job->is_told = true;
    if (job->worker->options.stop)
        job->worker->options.stop(job->worker->options.run_arg, job);
}

/* ---- what the function sees ---- */

const tide_work_claimed *tide_job_item(const tide_job *job)
{
    return job->item;
}

tide_store *tide_job_store(const tide_job *job)
{
    return job->worker->store;
}

bool tide_job_is_stopping(const tide_job *job)
{
    return atomic_load(&job->is_stopping);
}

int64_t tide_job_lease_left_us(const tide_job *job)
{
    tide_worker *worker = job->worker;
    (void)pthread_mutex_lock(&worker->lock);
    const int64_t left_us = job->lease_until_us - worker->env->boot_us(worker->env);
    const bool is_lost = job->is_lost;
    (void)pthread_mutex_unlock(&worker->lock);
    return is_lost || left_us < 0 ? 0 : left_us;
}

tide_status tide_job_last_checkpoint(tide_job *job, tide_checkpoint_fn *fn, void *arg,
                                     tide_error *err)
{
    const tide_journal_filter newest = {.work_item_id = job->item->work_item_id,
                                        .limit = 1,
                                        .order = TIDE_JOURNAL_NEWEST_FIRST,
                                        .with_snapshot = true};
    return tide_journal_list(job->worker->store, &newest, fn, arg, err);
}

/* What the store answered tells whether the lease is still ours. */
static tide_status notice_loss(tide_job *job, tide_status status)
{
    if (status == TIDE_E_LEASE_LOST) {
        (void)pthread_mutex_lock(&job->worker->lock);
        job->is_lost = true;
        atomic_store(&job->is_stopping, true);
        (void)pthread_mutex_unlock(&job->worker->lock);
    }
    return status;
}

tide_status tide_job_checkpoint(tide_job *job, const tide_checkpoint_new *checkpoint,
                                tide_checkpoint_numbers *out, tide_error *err)
{
    return notice_loss(job, tide_work_checkpoint(job->worker->store, job->item->work_item_id,
                                                 job->item->lease_token, checkpoint, out, err));
}

tide_status tide_job_progress(tide_job *job, const char *progress, tide_error *err)
{
    return notice_loss(job, tide_work_progress(job->worker->store, job->item->work_item_id,
                                               job->item->lease_token, progress, err));
}

/* ---- how it ends ---- */

typedef struct settlement {
    tide_worker_event event; /* what it is, once written */
    tide_work_result *result;
    const char *error;
    bool is_final;
    int64_t delay_us;
} settlement;

static tide_status write_end(tide_job *job, const settlement *end, tide_error *err)
{
    const tide_work_claimed *item = job->item;
    tide_store *store = job->worker->store;
    if (end->event == TIDE_WORKER_FINISHED) {
        end->result->work_item_id = item->work_item_id;
        end->result->token = item->lease_token;
        return tide_work_finish(store, end->result, err);
    }
    if (end->event == TIDE_WORKER_RELEASED)
        return tide_work_release(store, item->work_item_id, item->lease_token, end->delay_us, err);
    tide_work_failed failed = {.is_final = false};
    return tide_work_fail(store, item->work_item_id, item->lease_token, end->error, end->is_final,
                          end->delay_us, &failed, err);
}

static void count_end(tide_worker *worker, tide_worker_event event)
{
    (void)pthread_mutex_lock(&worker->lock);
    tide_worker_totals *totals = &worker->totals;
    if (event == TIDE_WORKER_FINISHED)
        totals->finished++;
    else if (event == TIDE_WORKER_FAILED)
        totals->failed++;
    else if (event == TIDE_WORKER_RELEASED)
        totals->released++;
    else
        totals->lost++;
    (void)pthread_mutex_unlock(&worker->lock);
}

static void wait_a_little(tide_worker *worker, int attempt)
{
    const tide_backoff backoff = {.base_us = 20000, .cap_us = 1000000};
    worker->env->sleep_us(worker->env, tide_backoff_next(&backoff, attempt, worker->env));
}

/* The same end may be written again after an unknown outcome: the store knows the token. So whatever may pass is tried
 * until the lease is over; then the sweep decides. */
static tide_status settle(tide_job *job, const settlement *end, tide_error *err)
{
    tide_worker *worker = job->worker;
    assert(!job->is_ended && "a job ends once");
    (void)pthread_mutex_lock(&worker->lock);
    job->is_settling = true;
    (void)pthread_mutex_unlock(&worker->lock);
    tide_status status = TIDE_OK;
    for (int attempt = 0;; attempt++) {
        status = write_end(job, end, err);
        const bool may_pass = status == TIDE_E_OUTCOME_UNKNOWN ||
                              (status < TIDE_OK && tide_status_get(status)->is_retryable);
        if (!may_pass || tide_job_lease_left_us(job) == 0)
            break;
        tide_worker_tell(worker, TIDE_WORKER_TROUBLE, job->item, err);
        wait_a_little(worker, attempt);
    }
    if (status == TIDE_E_INVALID || status == TIDE_E_LIMIT || status == TIDE_E_NOT_FOUND ||
        status == TIDE_E_CONFLICT) {
        /* The end itself is not acceptable: it is still the caller's to choose another one. */
        (void)pthread_mutex_lock(&worker->lock);
        job->is_settling = false;
        (void)pthread_mutex_unlock(&worker->lock);
        return status;
    }
    job->is_ended = true;
    const tide_worker_event event = status < TIDE_OK ? TIDE_WORKER_LOST : end->event;
    count_end(worker, event);
    tide_worker_tell(worker, event, job->item, status < TIDE_OK ? err : NULL);
    return notice_loss(job, status);
}

tide_status tide_job_finish(tide_job *job, tide_work_result *result, tide_error *err)
{
    const settlement end = {.event = TIDE_WORKER_FINISHED, .result = result};
    return settle(job, &end, err);
}

tide_status tide_job_fail(tide_job *job, const char *error, bool is_final, int64_t retry_after_us,
                          tide_error *err)
{
    const settlement end = {.event = TIDE_WORKER_FAILED,
                            .error = error,
                            .is_final = is_final,
                            .delay_us = retry_after_us};
    return settle(job, &end, err);
}

tide_status tide_job_release(tide_job *job, int64_t delay_us, tide_error *err)
{
    const settlement end = {.event = TIDE_WORKER_RELEASED, .delay_us = delay_us};
    return settle(job, &end, err);
}

/* The function has returned without an end of its own, or with one that the store did not accept. */
static void end_for(tide_job *job, tide_status ran, const tide_error *why)
{
    tide_error err = {0};
    tide_status status = TIDE_OK;
    if (ran >= TIDE_OK) {
        tide_work_result result = {.output = NULL};
        status = tide_job_finish(job, &result, &err);
    } else if (ran == TIDE_E_INTERRUPTED || job->is_lost) {
        status = tide_job_release(job, 0, &err);
    } else {
        status = tide_job_fail(job, why->text[0] ? why->text : tide_status_get(ran)->text, false,
                               -1, &err);
    }
    TIDE_IGNORE(status); /* told by settle; the sweep takes what could not be written */
}

static void run_job(tide_job *job)
{
    tide_worker *worker = job->worker;
    tide_error err = {0};
    const tide_status ran = tide_job_is_stopping(job)
                                ? TIDE_E_INTERRUPTED
                                : worker->options.run(worker->options.run_arg, job, &err);
    if (!job->is_ended)
        end_for(job, ran, &err);
}

static tide_job *take_oldest(tide_worker *worker)
{
    tide_job *oldest = NULL;
    for (int i = 0; i < worker->job_count; i++) {
        tide_job *job = &worker->jobs[i];
        if (job->state == TIDE_JOB_QUEUED && (!oldest || job->order < oldest->order))
            oldest = job;
    }
    if (oldest)
        oldest->state = TIDE_JOB_RUNNING;
    return oldest;
}

void *tide_worker_runner(void *arg)
{
    tide_worker *worker = arg;
    (void)pthread_mutex_lock(&worker->lock);
    for (;;) {
        tide_job *job = take_oldest(worker);
        if (!job && worker->is_closing)
            break;
        if (!job) {
            (void)pthread_cond_wait(&worker->has_queued, &worker->lock);
            continue;
        }
        (void)pthread_cond_signal(&worker->has_moved);
        (void)pthread_mutex_unlock(&worker->lock);
        run_job(job);
        (void)pthread_mutex_lock(&worker->lock);
        tide_worker_job_free(job);
        tide_worker_wake(worker);
    }
    (void)pthread_mutex_unlock(&worker->lock);
    return NULL;
}

/* ---- the warden ---- */

void *tide_worker_warden(void *arg)
{
    tide_worker *worker = arg;
    const int64_t margin_us = tide_worker_margin_us(worker);
    (void)pthread_mutex_lock(&worker->lock);
    while (!worker->is_closing) {
        const int64_t now_us = worker->env->boot_us(worker->env);
        int64_t next_us = now_us + 60 * INT64_C(1000000);
        for (int i = 0; i < worker->job_count; i++) {
            tide_job *job = &worker->jobs[i];
            if (job->state != TIDE_JOB_RUNNING || job->is_told || job->is_settling)
                continue;
            const int64_t stop_us = job->lease_until_us - margin_us;
            if (stop_us <= now_us || job->is_lost)
                tide_worker_job_stop(job);
            else if (stop_us < next_us)
                next_us = stop_us;
        }
        TIDE_IGNORE(tide_patience_wait(&worker->has_moved, &worker->lock,
                                       tide_patience_until(next_us - now_us)));
    }
    (void)pthread_mutex_unlock(&worker->lock);
    return NULL;
}
