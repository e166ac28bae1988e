/* worker.c - the keeper: claims, renews, sweeps and drains, one bounded turn after the other. */
#include "worker/worker.h"

#include <assert.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/backoff.h"
#include "base/cleanup.h"
#include "base/interface/caller.h"
#include "base/interface/sized.h"
#include "base/lock.h"
#include "base/thread.h"

/* ---- leases ---- */

/* The leases of all that is queued or running are renewed by one statement. */

/* After a third of the lease, at most 60 s apart. */
static int64_t renewal_gap_us(const tide_worker *worker)
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
    TIDE_HOLD(&worker->lock);
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
    TIDE_HOLD(&worker->lock);
    for (int i = 0; i < count; i++)
        tide_worker_batch_drop(list[i].batch);
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

static void step_renewal(tide_worker *worker)
{
    if (tide_worker_now(worker) < worker->renew_at_us)
        return;
    worker->renew_at_us = tide_worker_now(worker) + renewal_gap_us(worker);
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
        worker->renew_at_us =
            tide_worker_now(worker) + tide_worker_least(renewal_gap_us(worker) / 4, 1000000);
    }
    drop_batches(worker, list, count);
}

/* ---- claims ---- */

/* A job is told to stop so long before its lease ends. The lease may be shorter than what was asked for: an attempt's
 * timeout bounds it. */
static int64_t find_margin_us(const tide_work_claimed *item)
{
    return tide_worker_least(item->lease_us / 6, 10 * INT64_C(1000000));
}

static void enqueue(tide_worker *worker, tide_worker_batch *batch, int64_t before_us)
{
    for (int i = 0; i < batch->claims.count; i++)
        tide_worker_tell(worker, TIDE_WORKER_CLAIMED, &batch->claims.items[i], NULL);
    TIDE_HOLD(&worker->lock);
    int slot = 0;
    for (int i = 0; i < batch->claims.count; i++) {
        while (worker->jobs[slot].state != TIDE_JOB_FREE)
            slot++;
        assert(slot < worker->job_count);
        tide_job *job = &worker->jobs[slot];
        const tide_work_claimed *item = &batch->claims.items[i];
        job->worker = worker;
        job->item = item;
        job->batch = batch;
        job->state = TIDE_JOB_QUEUED;
        job->order = ++worker->order;
        job->lease_until_us = before_us + item->lease_us;
        job->deadline_us =
            item->deadline_at_us > 0
                ? job->lease_until_us + (item->deadline_at_us - item->lease_expires_at_us)
                : INT64_MAX;
        job->margin_us = find_margin_us(item);
        atomic_store(&job->stop, TIDE_JOB_GOES_ON);
        job->is_told = false;
        job->is_settling = false;
        job->is_stop_reported = false;
        job->is_ended = false;
        job->has_item_ended = false;
        job->is_lost = false;
        batch->users++;
        worker->held++;
        worker->totals.claimed++;
    }
    (void)pthread_cond_broadcast(&worker->has_queued);
}

static int count_free(tide_worker *worker, int64_t *claimed)
{
    TIDE_HOLD(&worker->lock);
    const int free_count = worker->job_count - worker->held;
    *claimed = worker->totals.claimed;
    return free_count;
}

static int count_wanted(tide_worker *worker)
{
    int64_t claimed = 0;
    int64_t wanted = count_free(worker, &claimed);
    if (worker->options.item_max > 0)
        wanted = tide_worker_least(wanted, worker->options.item_max - claimed);
    return (int)tide_worker_least(wanted, TIDE_WORK_BATCH_MAX);
}

/* Claim nothing any more. */
static void begin_drain(tide_worker *worker)
{
    (void)pthread_mutex_lock(&worker->lock);
    worker->is_draining = true;
    (void)pthread_mutex_unlock(&worker->lock);
    tide_worker_wake_warden(worker);
}

/* TIDE_OK: got some. TIDE_NONE: there was nothing; the next look is planned. */
static tide_status claim_some(tide_worker *worker, int wanted, tide_error *err)
{
    tide_worker_batch *batch = calloc(1, sizeof *batch);
    if (!batch)
        return tide_no_memory(err);
    batch->users = 1;
    const tide_worker_options *options = &worker->options;
    const tide_work_claim_request request = {
        TIDE_WORK_CLAIM_REQUEST_INIT,      .worker = options->worker,   .types = options->types,
        .type_count = options->type_count, .task_id = options->task_id, .limit = wanted,
        .lease_us = options->lease_us};
    const int64_t before_us = tide_worker_now(worker);
    const tide_status status = tide_work_claim(worker->store, &request, &batch->claims, err);
    if (status == TIDE_OK)
        enqueue(worker, batch, before_us);
    else if (status == TIDE_NONE)
        worker->claim_at_us =
            tide_worker_now(worker) +
            (batch->claims.next_due_us < 0
                 ? worker->options.poll_us
                 : tide_worker_least(worker->options.poll_us, batch->claims.next_due_us));
    const bool is_waiting = status == TIDE_NONE && batch->claims.next_due_us >= 0;
    (void)pthread_mutex_lock(&worker->lock);
    tide_worker_batch_drop(batch);
    const bool is_idle = worker->held == 0;
    (void)pthread_mutex_unlock(&worker->lock);
    if (status != TIDE_NONE || !worker->options.until_empty || is_waiting || !is_idle)
        return status;
    bool is_some = false;
    TIDE_TRY(tide_worker_find_unfinished(worker, &is_some, err));
    if (!is_some)
        begin_drain(worker);
    return status;
}

static void plan_after_trouble(tide_worker *worker)
{
    const tide_backoff backoff = {.base_us = 50000, .cap_us = 5000000};
    worker->claim_at_us =
        tide_worker_now(worker) + tide_backoff_next(&backoff, worker->trouble_count++, worker->env);
}

/* A failure that trying again cannot mend ends the worker. */
static tide_status step_claim(tide_worker *worker, tide_error *err)
{
    if (tide_worker_now(worker) < worker->claim_at_us)
        return TIDE_OK;
    const int wanted = count_wanted(worker);
    if (wanted < 1) {
        int64_t claimed = 0;
        const bool is_idle = count_free(worker, &claimed) == worker->job_count;
        if (is_idle && worker->options.item_max > 0 && claimed >= worker->options.item_max)
            begin_drain(worker);
        return TIDE_OK;
    }
    const tide_status status = claim_some(worker, wanted, err);
    if (status >= TIDE_OK) {
        worker->trouble_count = 0;
        return TIDE_OK;
    }
    /* A claim of unknown outcome leaves leases that nobody keeps: they run out. */
    if (!tide_status_get(status)->is_retryable && status != TIDE_E_OUTCOME_UNKNOWN)
        return status;
    worker->has_unknown_claim = worker->has_unknown_claim || status == TIDE_E_OUTCOME_UNKNOWN;
    tide_worker_tell(worker, TIDE_WORKER_TROUBLE, NULL, err);
    plan_after_trouble(worker);
    return TIDE_OK;
}

/* ---- sweeps ---- */

static void step_sweep(tide_worker *worker)
{
    if (worker->options.sweep_us < 0 || tide_worker_now(worker) < worker->sweep_at_us)
        return;
    tide_error err = {0};
    tide_work_swept swept = {.has_more = false};
    const tide_status status = tide_work_sweep(worker->store, 0, 0, &swept, &err);
    if (status < TIDE_OK)
        tide_worker_tell(worker, TIDE_WORKER_TROUBLE, NULL, &err);
    else
        tide_worker_tell(worker, TIDE_WORKER_SWEPT, NULL, NULL);
    const bool is_again = status >= TIDE_OK && swept.has_more;
    worker->sweep_at_us = tide_worker_now(worker) + (is_again ? 0 : worker->options.sweep_us);
}

/* ---- the end ---- */

bool tide_worker_is_stopping(tide_worker *worker)
{
    if (atomic_load(&worker->stops) > 0)
        return true;
    TIDE_HOLD(&worker->lock);
    return worker->is_draining;
}

/* What is queued goes back, running ones are the warden's. How many are held after that. */
static int step_drain(tide_worker *worker)
{
    while (tide_worker_release_queued(worker))
        ;
    TIDE_HOLD(&worker->lock);
    return worker->held;
}

/* ---- waiting ---- */

static bool has_queued(tide_worker *worker)
{
    TIDE_HOLD(&worker->lock);
    for (int i = 0; i < worker->job_count; i++)
        if (worker->jobs[i].state == TIDE_JOB_QUEUED)
            return true;
    return false;
}

static int64_t plan_next(tide_worker *worker, bool is_draining)
{
    /* A release that the store did not take is tried again soon; a job that ends wakes us. */
    if (is_draining)
        return has_queued(worker)
                   ? tide_worker_least(worker->renew_at_us, tide_worker_now(worker) + 100000)
                   : worker->renew_at_us;
    const int64_t next_us = tide_worker_least(worker->renew_at_us, worker->claim_at_us);
    return worker->options.sweep_us < 0 ? next_us : tide_worker_least(next_us, worker->sweep_at_us);
}

/* Woken by the store: look at once. */
static void take_signs(tide_worker *worker, const struct pollfd *fds)
{
    uint64_t count = 0;
    if (fds[0].revents) {
        const ssize_t got = read(worker->wake_fd, &count, sizeof count);
        (void)got;
        worker->claim_at_us = worker->trouble_count > 0 ? worker->claim_at_us : 0;
    }
    for (int i = 0; i < worker->watch_count; i++) {
        if (!fds[i + 1].revents)
            continue;
        TIDE_IGNORE(tide_watch_wait(worker->watches[i], 0, NULL));
        worker->claim_at_us = worker->trouble_count > 0 ? worker->claim_at_us : 0;
    }
}

static void wait_until(tide_worker *worker, int64_t until_us)
{
    struct pollfd fds[TIDE_WORKER_WATCHES_MAX + 1] = {{.fd = worker->wake_fd, .events = POLLIN}};
    for (int i = 0; i < worker->watch_count; i++)
        fds[i + 1] = (struct pollfd){.fd = tide_watch_fd(worker->watches[i]), .events = POLLIN};
    const int64_t left_us = until_us - tide_worker_now(worker);
    const int timeout_ms = left_us <= 0 ? 0 : (int)tide_worker_least((left_us + 999) / 1000, 60000);
    if (poll(fds, (nfds_t)worker->watch_count + 1, timeout_ms) > 0)
        take_signs(worker, fds);
}

/* ---- run ---- */

static tide_status keep(tide_worker *worker, tide_error *err)
{
    tide_status failure = TIDE_OK;
    for (;;) {
        step_renewal(worker);
        const bool is_draining = tide_worker_is_stopping(worker);
        if (is_draining && step_drain(worker) == 0)
            return failure;
        if (!is_draining) {
            step_sweep(worker);
            failure = step_claim(worker, err);
            if (failure < TIDE_OK)
                begin_drain(worker);
            if (tide_worker_is_stopping(worker))
                continue;
            if (count_wanted(worker) < 1)
                worker->claim_at_us = INT64_MAX; /* a job that ends wakes the keeper */
        }
        wait_until(worker, plan_next(worker, is_draining));
    }
}

static int start_threads(tide_worker *worker, pthread_t *threads, tide_error *err)
{
    int started = 0;
    for (; started < worker->options.threads + 1; started++) {
        void *(*body)(void *) = started == 0 ? tide_worker_warden : tide_worker_runner;
        /* unmasked: a handler may start a program */
        if (tide_thread_start_unmasked(&threads[started], body, worker, err) < TIDE_OK)
            break;
    }
    return started;
}

tide_status tide_worker_run(tide_worker *worker, tide_error *err)
{
    TIDE_NEED(worker, err);
    pthread_t threads[TIDE_WORKER_THREADS_MAX + 1];
    worker->is_draining = false;
    worker->drain_until_us = 0;
    const int started = start_threads(worker, threads, err);
    const tide_status status =
        started == worker->options.threads + 1 ? keep(worker, err) : TIDE_E_NOMEM;
    (void)pthread_mutex_lock(&worker->lock);
    worker->is_closing = true;
    (void)pthread_cond_broadcast(&worker->has_queued);
    (void)pthread_mutex_unlock(&worker->lock);
    tide_worker_wake_warden(worker);
    for (int i = 0; i < started; i++)
        (void)pthread_join(threads[i], NULL);
    worker->is_closing = false;
    return status;
}

void tide_worker_stop(tide_worker *worker)
{
    if (!worker)
        return;
    (void)atomic_fetch_add(&worker->stops, 1);
    tide_worker_wake(worker);
    tide_worker_wake_warden(worker);
}

void tide_worker_totals_get(const tide_worker *worker, tide_worker_totals *out)
{
    if (!worker || !out)
        return;
    tide_worker *w = (tide_worker *)worker; /* the lock is not part of what is promised const */
    TIDE_HOLD(&w->lock);
    *out = w->totals;
}

/* ---- open, close ---- */

static tide_status check_options(const tide_worker_options *options, tide_error *err)
{
    if (options->threads < 0 || options->threads > TIDE_WORKER_THREADS_MAX)
        return tide_fail(err, TIDE_E_INVALID, "a worker has 1 to %d threads, not %d",
                         TIDE_WORKER_THREADS_MAX, options->threads);
    const int threads = options->threads ? options->threads : 1;
    if (options->prefetch < 0 || options->prefetch > TIDE_WORKER_PREFETCH_MAX - threads)
        return tide_fail(err, TIDE_E_INVALID, "a worker holds up to %d items",
                         TIDE_WORKER_PREFETCH_MAX);
    if (!options->worker || !options->worker[0])
        return tide_fail(err, TIDE_E_INVALID, "a worker needs a name");
    if (!options->run)
        return tide_fail(err, TIDE_E_INVALID, "a worker needs a function to run");
    return TIDE_OK;
}

static void fill_defaults(tide_worker_options *options)
{
    options->threads = options->threads ? options->threads : 1;
    options->poll_us = options->poll_us > 0 ? options->poll_us : TIDE_WORKER_POLL_US;
    options->sweep_us = options->sweep_us ? options->sweep_us : TIDE_WORK_SWEEP_US;
    options->drain_us = options->drain_us ? options->drain_us : TIDE_WORKER_DRAIN_US;
    options->lease_us = options->lease_us > 0 ? options->lease_us : TIDE_WORK_LEASE_US;
}

static tide_status open_watch(tide_worker *worker, const char *topic, tide_error *err)
{
    TIDE_TRY(tide_watch_open(&worker->watches[worker->watch_count], worker->store, topic, err));
    worker->watch_count++;
    return TIDE_OK;
}

/* The common topic tells of what has no single type. Who takes every type, or very many, watches the topic of all. */
static tide_status open_watches(tide_worker *worker, tide_error *err)
{
    const tide_worker_options *options = &worker->options;
    TIDE_TRY(open_watch(worker, TIDE_WORK_TOPIC, err));
    const bool is_all = options->type_count < 1 || options->type_count >= TIDE_WORKER_WATCHES_MAX;
    for (int i = 0; i < (is_all ? 1 : options->type_count); i++) {
        char topic[64];
        tide_work_topic(topic, is_all ? NULL : options->types[i]);
        TIDE_TRY(open_watch(worker, topic, err));
    }
    return TIDE_OK;
}

tide_status tide_worker_open(tide_worker **out, tide_store *store, const tide_worker_options *given,
                             tide_error *err)
{
    TIDE_NEED(out && store, err);
    tide_worker_options options;
    TIDE_TRY(TIDE_SIZED_COPY(&options, given, tide_worker_options, err));
    TIDE_TRY(check_options(&options, err));
    TIDE_CLEANUP(tide_worker_closep) tide_worker *worker = calloc(1, sizeof *worker);
    if (!worker)
        return tide_no_memory(err);
    worker->wake_fd = worker->warden_fd = -1;
    worker->store = store;
    worker->env = tide_store_env(store);
    worker->options = options;
    fill_defaults(&worker->options);
    (void)pthread_mutex_init(&worker->lock, NULL);
    (void)pthread_cond_init(&worker->has_queued, NULL);
    worker->job_count = worker->options.threads + worker->options.prefetch;
    worker->jobs = calloc((size_t)worker->job_count, sizeof *worker->jobs);
    worker->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    worker->warden_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (!worker->jobs || worker->wake_fd < 0 || worker->warden_fd < 0)
        return tide_no_memory(err);
    worker->renew_at_us = tide_worker_now(worker) + renewal_gap_us(worker);
    TIDE_TRY(open_watches(worker, err));
    *out = TIDE_TAKE(worker);
    return TIDE_OK;
}

void tide_worker_close(tide_worker *worker)
{
    if (!worker)
        return;
    for (int i = 0; i < worker->watch_count; i++)
        tide_watch_close(worker->watches[i]);
    if (worker->wake_fd >= 0)
        (void)close(worker->wake_fd);
    if (worker->warden_fd >= 0)
        (void)close(worker->warden_fd);
    (void)pthread_cond_destroy(&worker->has_queued);
    (void)pthread_mutex_destroy(&worker->lock);
    free(worker->unfinished.ids);
    free(worker->jobs);
    free(worker);
}

TIDE_CLOSE_FN(tide_worker_closep, tide_worker, tide_worker_close)

/* Who must stop, and when: before the lease ends, at the timeout, when the drain is over.
 *
 * Nothing here waits for the store, for a job or for a reader of events. */

enum {
    LOOK_EVERY_MS = 1000, /* while jobs run: the machine may have slept, and poll's clock with it */
    LOOK_SELDOM_MS = 60000,
};

static void write_one(int fd)
{
    const uint64_t one = 1;
    /* A full eventfd is readable already. */
    const ssize_t written = write(fd, &one, sizeof one);
    (void)written;
}

void tide_worker_wake(tide_worker *worker)
{
    write_one(worker->wake_fd);
}

void tide_worker_wake_warden(tide_worker *worker)
{
    write_one(worker->warden_fd);
}

/* The callback runs under the lock: it must not call back into the worker, and it must be quick (raise a flag, send a
 * signal). In exchange the job cannot end while it is being told. */
void tide_worker_job_stop(tide_job *job, tide_job_stop why)
{
    int expected = TIDE_JOB_GOES_ON;
    (void)atomic_compare_exchange_strong(&job->stop, &expected, (int)why);
    if (job->state != TIDE_JOB_RUNNING || job->is_told)
        return;
    job->is_told = true;
    if (job->worker->options.stop)
        job->worker->options.stop(job->worker->options.run_arg, job);
}

/* When the drain is over; INT64_MAX: it does not drain. */
static int64_t find_drain_end(tide_worker *worker, int64_t now_us)
{
    if (atomic_load(&worker->stops) > 1)
        return now_us;
    if (atomic_load(&worker->stops) == 0 && !worker->is_draining)
        return INT64_MAX;
    if (worker->drain_until_us == 0)
        worker->drain_until_us =
            now_us + (worker->options.drain_us < 0 ? 0 : worker->options.drain_us);
    return worker->drain_until_us;
}

/* When it wants to be looked at again. */
static int64_t look_at(tide_job *job, int64_t now_us, int64_t drain_end_us)
{
    const int64_t stop_us = job->lease_until_us - job->margin_us;
    if (job->is_lost)
        tide_worker_job_stop(job, TIDE_JOB_LEASE_OVER);
    else if (stop_us <= now_us)
        tide_worker_job_stop(job, job->lease_until_us >= job->deadline_us ? TIDE_JOB_TIMED_OUT
                                                                          : TIDE_JOB_LEASE_OVER);
    else if (drain_end_us <= now_us)
        tide_worker_job_stop(job, TIDE_JOB_WORKER_ENDS);
    return stop_us < drain_end_us ? stop_us : drain_end_us;
}

/* One turn, with the lock held: how many milliseconds until the next. */
static int watch_jobs(tide_worker *worker)
{
    const int64_t now_us = worker->env->boot_us(worker->env);
    const int64_t drain_end_us = find_drain_end(worker, now_us);
    int64_t next_us = INT64_MAX;
    for (int i = 0; i < worker->job_count; i++) {
        tide_job *job = &worker->jobs[i];
        if (job->state != TIDE_JOB_RUNNING || job->is_told || job->is_settling)
            continue;
        const int64_t again_us = look_at(job, now_us, drain_end_us);
        next_us = again_us < next_us ? again_us : next_us;
    }
    if (next_us == INT64_MAX)
        return LOOK_SELDOM_MS;
    const int64_t left_ms = next_us <= now_us ? 0 : (next_us - now_us) / 1000 + 1;
    return (int)(left_ms < LOOK_EVERY_MS ? left_ms : LOOK_EVERY_MS);
}

void *tide_worker_warden(void *arg)
{
    tide_worker *worker = arg;
    for (;;) {
        (void)pthread_mutex_lock(&worker->lock);
        const bool is_closing = worker->is_closing;
        const int wait_ms = watch_jobs(worker);
        (void)pthread_mutex_unlock(&worker->lock);
        if (is_closing)
            return NULL;
        struct pollfd sign = {.fd = worker->warden_fd, .events = POLLIN};
        uint64_t count = 0;
        if (poll(&sign, 1, wait_ms) > 0) {
            const ssize_t got = read(worker->warden_fd, &count, sizeof count);
            (void)got;
        }
    }
}
