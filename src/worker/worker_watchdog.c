/* worker_watchdog.c - who must stop, and when: before the lease ends, at the timeout, when the drain is over.
 *
 * Nothing here waits for the store, for a job or for a reader of events. */
#include "worker/worker.h"

#include <poll.h>
#include <unistd.h>

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
