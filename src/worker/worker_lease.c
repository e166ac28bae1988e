/* worker_lease.c - keeping the leases of all that is held, queued or running, by one statement. */
#include "worker/worker.h"

#include <stdlib.h>

#include "base/cleanup.h"

/* After a third of the lease, at most 60 s apart. */
int64_t tide_worker_renewal_gap_us(const tide_worker *worker)
{
    return tide_worker_least(worker->options.lease_us / 3, TIDE_WORK_RENEW_MAX_US);
}

typedef struct renewal {
    tide_work_ref ref;
    tide_job *job;
    int64_t order;
    const tide_work_claimed *item; /* in the batch, which stays until the renewal is over */
    tide_worker_batch *batch;
    bool is_dropped; /* was queued, and is lost */
} renewal;

/* The batches stay while the store is asked: a job may end meanwhile. */
static int list_held(tide_worker *worker, renewal *list)
{
    int count = 0;
    (void)pthread_mutex_lock(&worker->lock);
    for (int i = 0; i < worker->job_count && count < TIDE_WORK_BATCH_MAX; i++) {
        tide_job *job = &worker->jobs[i];
        if (job->state == TIDE_JOB_FREE || job->is_lost)
            continue;
        job->batch->users++;
        list[count++] =
            (renewal){.ref = {TIDE_WORK_REF_INIT, .work_item_id = job->item->work_item_id,
                              .token = job->item->lease_token},
                      .job = job,
                      .order = job->order,
                      .item = job->item,
                      .batch = job->batch};
    }
    (void)pthread_mutex_unlock(&worker->lock);
    return count;
}

static void apply_renewal(tide_worker *worker, renewal *held, bool is_lost, int64_t until_us)
{
    tide_job *job = held->job;
    if (job->state == TIDE_JOB_FREE || job->order != held->order)
        return; /* it has ended meanwhile */
    if (!is_lost) {
        job->lease_until_us = tide_worker_least(until_us, job->deadline_us);
        return;
    }
    if (job->is_settling)
        return; /* perhaps because its end was written just now */
    job->is_lost = true;
    if (job->state == TIDE_JOB_RUNNING)
        return; /* the warden tells it */
    worker->totals.lost++;
    tide_worker_job_free(job);
    held->is_dropped = true;
}

static void drop_batches(tide_worker *worker, const renewal *list, int count)
{
    (void)pthread_mutex_lock(&worker->lock);
    for (int i = 0; i < count; i++)
        tide_worker_batch_drop(list[i].batch);
    (void)pthread_mutex_unlock(&worker->lock);
}

static void apply_renewals(tide_worker *worker, renewal *list, const tide_work_ref *refs, int count,
                           int64_t until_us)
{
    (void)pthread_mutex_lock(&worker->lock);
    for (int i = 0; i < count; i++)
        apply_renewal(worker, &list[i], refs[i].is_lost, until_us);
    (void)pthread_mutex_unlock(&worker->lock);
    tide_worker_wake_warden(worker);
    for (int i = 0; i < count; i++)
        if (list[i].is_dropped)
            tide_worker_tell(worker, TIDE_WORKER_LOST, list[i].item, NULL);
}

void tide_worker_step_renewal(tide_worker *worker)
{
    if (tide_worker_now(worker) < worker->renew_at_us)
        return;
    worker->renew_at_us = tide_worker_now(worker) + tide_worker_renewal_gap_us(worker);
    TIDE_CLEANUP(tide_freep)
    renewal *list = calloc((size_t)worker->job_count, sizeof *list);
    TIDE_CLEANUP(tide_freep)
    tide_work_ref *refs = calloc((size_t)worker->job_count, sizeof *refs);
    tide_error err = {0};
    if (!list || !refs) {
        (void)tide_no_memory(&err);
        tide_worker_tell(worker, TIDE_WORKER_TROUBLE, NULL, &err);
        return;
    }
    const int count = list_held(worker, list);
    if (count == 0)
        return;
    for (int i = 0; i < count; i++)
        refs[i] = list[i].ref;
    const int64_t before_us = tide_worker_now(worker);
    const tide_status status =
        tide_work_renew(worker->store, refs, count, worker->options.lease_us, &err);
    const bool is_answered =
        status == TIDE_OK || status == TIDE_E_PARTIAL || status == TIDE_E_LEASE_LOST;
    if (is_answered) {
        apply_renewals(worker, list, refs, count, before_us + worker->options.lease_us);
    } else {
        tide_worker_tell(worker, TIDE_WORKER_TROUBLE, NULL, &err);
        worker->renew_at_us = tide_worker_now(worker) +
                              tide_worker_least(tide_worker_renewal_gap_us(worker) / 4, 1000000);
    }
    drop_batches(worker, list, count);
}
