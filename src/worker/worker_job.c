/* worker_job.c - running one job: what the function sees, how its end is written. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/backoff.h"
#include "base/interface/caller.h"
#include "base/list.h"
#include "base/lock.h"
#include "journal/tasks.h"
#include "worker/worker.h"

void tide_worker_tell(tide_worker *worker, tide_worker_event event, const tide_work_claimed *item,
                      const tide_error *err)
{
    if (worker->options.event)
        worker->options.event(worker->options.event_arg, event, item, err);
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

/* ---- what the function sees ---- */

const tide_work_claimed *tide_job_item(const tide_job *job)
{
    return job ? job->item : NULL;
}

tide_store *tide_job_store(const tide_job *job)
{
    return job ? job->worker->store : NULL;
}

tide_job_stop tide_job_stop_get(const tide_job *job)
{
    return job ? (tide_job_stop)atomic_load(&job->stop) : TIDE_JOB_GOES_ON;
}

bool tide_job_is_stopping(const tide_job *job)
{
    return tide_job_stop_get(job) != TIDE_JOB_GOES_ON;
}

int64_t tide_job_lease_left_us(const tide_job *job)
{
    if (!job)
        return 0;
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
    TIDE_NEED(job && fn, err);
    return tide_journal_last_checkpoint(job->worker->store, job->item->work_item_id, fn, arg, err);
}

/* What the store answered tells whether the lease is still ours. The warden then tells the job. */
static tide_status notice_loss(tide_job *job, tide_status status)
{
    if (status == TIDE_E_LEASE_LOST) {
        int expected = TIDE_JOB_GOES_ON;
        (void)pthread_mutex_lock(&job->worker->lock);
        job->is_lost = true;
        (void)pthread_mutex_unlock(&job->worker->lock);
        (void)atomic_compare_exchange_strong(&job->stop, &expected, (int)TIDE_JOB_LEASE_OVER);
        tide_worker_wake_warden(job->worker);
    }
    return status;
}

tide_status tide_job_checkpoint(tide_job *job, const tide_checkpoint_new *checkpoint,
                                tide_checkpoint_numbers *out, tide_error *err)
{
    TIDE_NEED(job && out, err);
    return notice_loss(job, tide_work_checkpoint(job->worker->store, job->item->work_item_id,
                                                 job->item->lease_token, checkpoint, out, err));
}

tide_status tide_job_progress(tide_job *job, const char *progress, tide_error *err)
{
    TIDE_NEED(job, err);
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
    job->has_item_ended = end->event == TIDE_WORKER_FINISHED;
    if (end->event == TIDE_WORKER_FINISHED) {
        end->result->work_item_id = item->work_item_id;
        end->result->token = item->lease_token;
        return tide_work_finish(store, end->result, err);
    }
    if (end->event == TIDE_WORKER_RELEASED)
        return tide_work_release(store, item->work_item_id, item->lease_token, end->delay_us, err);
    tide_work_failed failed = {.is_final = false};
    const tide_status status = tide_work_fail(
        store,
        &(tide_work_failure){TIDE_WORK_FAILURE_INIT, .work_item_id = item->work_item_id,
                             .token = item->lease_token, .error = end->error,
                             .is_final = end->is_final, .retry_after_us = end->delay_us,
                             .is_timeout = tide_job_stop_get(job) == TIDE_JOB_TIMED_OUT},
        &failed, err);
    job->has_item_ended = failed.is_final;
    return status;
}

static void count_end(tide_worker *worker, tide_worker_event event, bool has_item_ended)
{
    TIDE_HOLD(&worker->lock);
    tide_worker_totals *totals = &worker->totals;
    if (event == TIDE_WORKER_FINISHED)
        totals->finished++;
    else if (event == TIDE_WORKER_RELEASED)
        totals->released++;
    else if (event == TIDE_WORKER_LOST)
        totals->lost++;
    else
        totals->failed++;
    totals->failed_items += event == TIDE_WORKER_FAILED && has_item_ended;
}

static void wait_a_little(tide_worker *worker, int attempt)
{
    const tide_backoff backoff = {.base_us = 20000, .cap_us = 1000000};
    worker->env->sleep_us(worker->env, tide_backoff_next(&backoff, attempt, worker->env));
}

static void set_settling(tide_job *job, bool is_settling)
{
    TIDE_HOLD(&job->worker->lock);
    job->is_settling = is_settling;
}

/* The same end may be written again after an unknown outcome: the store knows the token. */
static bool may_pass(tide_status status)
{
    return status == TIDE_E_OUTCOME_UNKNOWN ||
           (status < TIDE_OK && tide_status_get(status)->is_retryable);
}

static void note_end(tide_job *job, tide_worker_event event, const tide_error *err)
{
    job->is_ended = true;
    if (event == TIDE_WORKER_LOST || !job->has_item_ended)
        tide_worker_note_unfinished(job->worker, job->item->work_item_id);
    count_end(job->worker, event, job->has_item_ended);
    tide_worker_tell(job->worker, event, job->item, err);
}

/* A run that was ended because its lease was not renewed in time is reported with the reason before the store is asked, which
 * may not answer for long; but not before its command has ended, since a report may block. Once. */
static void report_stop(tide_job *job)
{
    if (tide_job_stop_get(job) != TIDE_JOB_LEASE_OVER || job->is_stop_reported)
        return;
    job->is_stop_reported = true;
    tide_error why;
    (void)tide_fail(&why, TIDE_E_LEASE_LOST,
                    "the lease of work item %s was not renewed in time; its run is ended",
                    job->item->work_item_id);
    tide_worker_tell(job->worker, TIDE_WORKER_TROUBLE, job->item, &why);
}

/* Whatever may pass is tried until the lease is over; then the sweep decides. */
static tide_status settle(tide_job *job, const settlement *end, tide_error *err)
{
    tide_worker *worker = job->worker;
    if (job->is_ended)
        return tide_fail(err, TIDE_E_INVALID, "work item %s has ended already",
                         job->item->work_item_id);
    set_settling(job, true);
    report_stop(job);
    tide_status status = TIDE_OK;
    for (int attempt = 0;; attempt++) {
        status = write_end(job, end, err);
        if (!may_pass(status) || tide_job_lease_left_us(job) == 0)
            break;
        tide_worker_tell(worker, TIDE_WORKER_TROUBLE, job->item, err);
        wait_a_little(worker, attempt);
    }
    if (status == TIDE_E_INVALID || status == TIDE_E_LIMIT || status == TIDE_E_NOT_FOUND ||
        status == TIDE_E_CONFLICT) {
        /* The end itself is not acceptable: it is still the caller's to choose another one. */
        set_settling(job, false);
        return status;
    }
    note_end(job, status < TIDE_OK ? TIDE_WORKER_LOST : end->event, status < TIDE_OK ? err : NULL);
    return notice_loss(job, status);
}

tide_status tide_job_finish(tide_job *job, tide_work_result *result, tide_error *err)
{
    TIDE_NEED(job, err);
    const settlement end = {.event = TIDE_WORKER_FINISHED, .result = result};
    return settle(job, &end, err);
}

tide_status tide_job_fail(tide_job *job, const char *error, bool is_final, int64_t retry_after_us,
                          tide_error *err)
{
    TIDE_NEED(job, err);
    const settlement end = {.event = TIDE_WORKER_FAILED,
                            .error = error,
                            .is_final = is_final,
                            .delay_us = retry_after_us};
    return settle(job, &end, err);
}

tide_status tide_job_release(tide_job *job, int64_t delay_us, tide_error *err)
{
    TIDE_NEED(job, err);
    const settlement end = {.event = TIDE_WORKER_RELEASED, .delay_us = delay_us};
    return settle(job, &end, err);
}

/* The function has returned without an end of its own, or with one that the store did not accept. */
static void end_for(tide_job *job, tide_status ran, const tide_error *why)
{
    tide_error err = {0};
    tide_status status = TIDE_OK;
    const tide_job_stop stop = tide_job_stop_get(job);
    if (ran >= TIDE_OK) {
        tide_work_result result = {TIDE_WORK_RESULT_INIT, .output = NULL};
        status = tide_job_finish(job, &result, &err);
    } else if (ran == TIDE_E_INTERRUPTED && stop == TIDE_JOB_TIMED_OUT) {
        status = tide_job_fail(job, "the attempt took longer than its timeout", false, -1, &err);
    } else if (ran == TIDE_E_INTERRUPTED || stop == TIDE_JOB_LEASE_OVER) {
        status = tide_job_release(job, 0, &err);
    } else {
        status = tide_job_fail(job, why->text[0] ? why->text : tide_status_get(ran)->text, false,
                               -1, &err);
    }
    /* Not even that was accepted: the item is gone. Whatever else could not be written the sweep takes up. */
    if (status < TIDE_OK && !job->is_ended)
        note_end(job, TIDE_WORKER_LOST, &err);
}

static void run_job(tide_job *job)
{
    tide_worker *worker = job->worker;
    tide_error err = {0};
    const tide_status ran =
        tide_job_is_stopping(job) || tide_worker_is_stopping(worker)
            ? TIDE_E_INTERRUPTED
            : tide_callback_check(worker->options.run(worker->options.run_arg, job, &err), &err);
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

/* One try: the keeper has other duties, and comes again. */
bool tide_worker_release_queued(tide_worker *worker)
{
    tide_error err = {0};
    (void)pthread_mutex_lock(&worker->lock);
    tide_job *job = take_oldest(worker);
    if (job)
        job->is_settling = true;
    (void)pthread_mutex_unlock(&worker->lock);
    if (!job)
        return false;
    const settlement end = {.event = TIDE_WORKER_RELEASED};
    const tide_status status = write_end(job, &end, &err);
    if (may_pass(status) && tide_job_lease_left_us(job) > 0) {
        tide_worker_tell(worker, TIDE_WORKER_TROUBLE, job->item, &err);
        (void)pthread_mutex_lock(&worker->lock);
        job->is_settling = false;
        job->state = TIDE_JOB_QUEUED;
        (void)pthread_mutex_unlock(&worker->lock);
        return false;
    }
    note_end(job, status < TIDE_OK ? TIDE_WORKER_LOST : TIDE_WORKER_RELEASED,
             status < TIDE_OK ? &err : NULL);
    (void)pthread_mutex_lock(&worker->lock);
    tide_worker_job_free(job);
    (void)pthread_mutex_unlock(&worker->lock);
    return true;
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
        (void)pthread_mutex_unlock(&worker->lock);
        tide_worker_wake_warden(worker);
        run_job(job);
        (void)pthread_mutex_lock(&worker->lock);
        tide_worker_job_free(job);
        tide_worker_wake(worker);
    }
    (void)pthread_mutex_unlock(&worker->lock);
    return NULL;
}

/* The items that a worker has begun and that have not ended.
 *
 * An attempt that failed with retries left, was given back or lost its lease leaves an item behind
 * that this or another worker continues. A worker with until_empty stays until it has ended. Also a
 * claim of unknown outcome may have begun items: they are found by the worker's name. */

void tide_worker_note_unfinished(tide_worker *worker, const char *work_item_id)
{
    if (!worker->options.until_empty)
        return;
    TIDE_HOLD(&worker->lock);
    tide_worker_unfinished *list = &worker->unfinished;
    bool is_known = false;
    for (int i = 0; i < list->count && !is_known; i++)
        is_known = strcmp(list->ids[i], work_item_id) == 0;
    /* Without memory the item is forgotten here, never in the store. */
    if (!is_known &&
        tide_list_room(&list->ids, list->count, sizeof *list->ids, TIDE_LIST_MAX, NULL) >= TIDE_OK)
        (void)snprintf(list->ids[list->count++], sizeof *list->ids, "%s", work_item_id);
}

static bool copy_last(tide_worker *worker, char out[TIDE_WORK_ID_MAX + 1])
{
    TIDE_HOLD(&worker->lock);
    const tide_worker_unfinished *list = &worker->unfinished;
    const bool is_some = list->count > 0;
    if (is_some)
        memcpy(out, list->ids[list->count - 1], sizeof *list->ids);
    return is_some;
}

static void drop_last(tide_worker *worker)
{
    TIDE_HOLD(&worker->lock);
    worker->unfinished.count--;
}

static tide_status note_status(void *arg, const tide_work_item *item, tide_error *err)
{
    (void)err;
    bool *is_open = arg;
    *is_open = strcmp(item->status, "pending") == 0 || strcmp(item->status, "in_progress") == 0;
    return TIDE_OK;
}

/* Only while no job is held, so that no other thread adds to the list. */
tide_status tide_worker_find_unfinished(tide_worker *worker, bool *is_some, tide_error *err)
{
    char id[TIDE_WORK_ID_MAX + 1];
    *is_some = false;
    while (!*is_some && copy_last(worker, id)) {
        TIDE_TRY(tide_work_find(worker->store, id, note_status, is_some, err));
        if (!*is_some)
            drop_last(worker);
    }
    if (*is_some || !worker->has_unknown_claim)
        return TIDE_OK;
    const tide_work_filter own = {TIDE_WORK_FILTER_INIT, .worker = worker->options.worker,
                                  .status = "in_progress", .limit = 1};
    TIDE_TRY(tide_work_list(worker->store, &own, note_status, is_some, err));
    worker->has_unknown_claim = *is_some;
    return TIDE_OK;
}
