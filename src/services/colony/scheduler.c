#include "services/colony/scheduler.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tidemark/identity.h>

#include "base/cleanup.h"
#include "base/cond_wait.h"
#include "base/lock.h"
#include "base/thread.h"
#include "services/colony/report_log.h"
#include "services/colony/scheduler_internal.h"

int64_t tide_scheduler_now(const tide_scheduler *scheduler)
{
    return scheduler->env->mono_us(scheduler->env);
}

/* ---- jobs ---- */

tide_poll_job *tide_poll_job_new(tide_scheduler *scheduler)
{
    tide_poll_job *job = calloc(1, sizeof *job);
    if (!job)
        return NULL;
    job->scheduler = scheduler;
    tide_buffer_init(&job->answer, TIDE_REPLY_BYTES_MAX);
    return job;
}

void tide_poll_job_free(tide_poll_job *job)
{
    if (!job)
        return;
    tide_client_end(job->stream);
    tide_client_close(job->client);
    tide_poller_free(job->poller);
    tide_recovery_free(job->recovery);
    tide_buffer_done(&job->answer);
    tide_lag_history_free(job);
    tide_board_end(job->scheduler->options.board, job->entry);
    free(job->lags);
    free(job);
}

/* A job is in one heap at a time; each has room for all of them. */
static tide_status make_room(tide_scheduler *scheduler)
{
    const size_t count = (size_t)scheduler->job_count + 1;
    TIDE_TRY(tide_poll_job_heap_reserve(&scheduler->idle, count));
    TIDE_TRY(tide_poll_job_heap_reserve(&scheduler->answered, count));
    return tide_poll_job_heap_reserve(&scheduler->questions, count);
}

tide_status tide_scheduler_add(tide_scheduler *scheduler, tide_poll_job *job)
{
    TIDE_HOLD(&scheduler->lock);
    const tide_status status = make_room(scheduler);
    if (status >= TIDE_OK) {
        job->next = scheduler->jobs;
        job->link = &scheduler->jobs;
        if (scheduler->jobs)
            scheduler->jobs->link = &job->next;
        scheduler->jobs = job;
        scheduler->job_count++;
        job->is_leaving = scheduler->is_stopping;
        tide_scheduler_ready(job);
    }
    return status;
}

static void forget(tide_poll_job *job)
{
    tide_scheduler *scheduler = job->scheduler;
    *job->link = job->next;
    if (job->next)
        job->next->link = job->link;
    scheduler->job_count--;
    scheduler->recovery_count -= job->poller ? 0 : 1;
    /* Its agent may be ours again, under another token or at another address. */
    if (job->poller && job->is_leaving)
        tide_ticker_wake(scheduler->options.ticker, tide_step_agent_leases.name);
    pthread_cond_broadcast(&scheduler->news);
}

void tide_scheduler_ready(tide_poll_job *job)
{
    tide_scheduler *scheduler = job->scheduler;
    const int64_t urgency_us = job->poller ? tide_poller_loss_us(job->poller) : INT64_MAX;
    /* An answer that has come is always taken; questions wait while too much is under way. */
    const bool is_first = job->has_answer || job->is_leaving;
    tide_poll_job_heap_add(is_first ? &scheduler->answered : &scheduler->questions, job,
                           urgency_us);
    pthread_cond_signal(&scheduler->ready);
}

void tide_scheduler_idle(tide_poll_job *job, int64_t wake_us)
{
    tide_scheduler *scheduler = job->scheduler;
    int64_t first_us = INT64_MAX;
    (void)tide_poll_job_heap_first(&scheduler->idle, &first_us);
    tide_poll_job_heap_add(&scheduler->idle, job, wake_us);
    if (wake_us < first_us)
        pthread_cond_signal(&scheduler->ready); /* whoever waits would sleep too long */
}

void tide_scheduler_leave(tide_poll_job *job)
{
    job->is_leaving = true;
    if (job->heap) {
        tide_poll_job_heap_remove(job);
        tide_scheduler_ready(job);
    } else if (job->is_asking && job->stream) {
        tide_client_cancel(job->stream);
    }
}

/* ---- the budget ---- */

static void unlink_reserved(tide_poll_job *job)
{
    tide_scheduler *scheduler = job->scheduler;
    if (!job->reserved_link)
        return;
    *job->reserved_link = job->next_reserved;
    if (job->next_reserved)
        job->next_reserved->reserved_link = job->reserved_link;
    else
        scheduler->reserved_end = job->reserved_link;
    job->reserved_link = NULL;
}

void tide_scheduler_reserve(tide_poll_job *job, int64_t bytes)
{
    tide_scheduler *scheduler = job->scheduler;
    job->budgeted = bytes;
    scheduler->budget_used += bytes;
    if (bytes == 0)
        return;
    job->reserved_until_us = tide_scheduler_now(scheduler) + TIDE_SCHEDULER_RESERVE_US;
    job->next_reserved = NULL;
    job->reserved_link = scheduler->reserved_end;
    *scheduler->reserved_end = job;
    scheduler->reserved_end = &job->next_reserved;
}

void tide_scheduler_receive(tide_poll_job *job, int64_t bytes)
{
    unlink_reserved(job);
    job->scheduler->budget_used += bytes - job->budgeted;
    job->budgeted = bytes;
}

void tide_scheduler_release(tide_poll_job *job)
{
    tide_scheduler_receive(job, 0);
}

/* What was expected and has not come is not waited for any longer. Returns when the next one's time is over. */
static int64_t release_late(tide_scheduler *scheduler)
{
    const int64_t now_us = scheduler->reserved ? tide_scheduler_now(scheduler) : 0;
    while (scheduler->reserved && scheduler->reserved->reserved_until_us <= now_us)
        tide_scheduler_release(scheduler->reserved);
    return scheduler->reserved ? scheduler->reserved->reserved_until_us : INT64_MAX;
}

/* ---- workers ---- */

/* *wake_us: when to look again, at the latest. */
static tide_poll_job *find_ready(tide_scheduler *scheduler, int64_t *wake_us)
{
    int64_t urgency_us = 0;
    tide_poll_job *job = tide_poll_job_heap_first(&scheduler->answered, &urgency_us);
    tide_poll_job *question =
        job ? NULL : tide_poll_job_heap_first(&scheduler->questions, &urgency_us);
    if (!question)
        return job;
    const int64_t late_us = release_late(scheduler);
    if (scheduler->budget_used + tide_agent_clients_held(scheduler->links) <
        scheduler->options.budget_bytes)
        return question;
    *wake_us = late_us < *wake_us ? late_us : *wake_us;
    return NULL;
}

/* Those whose time has come are ready. Returns when the next one's comes; INT64_MAX: there is none. */
static int64_t wake_idle(tide_scheduler *scheduler)
{
    int64_t wake_us = INT64_MAX;
    tide_poll_job *job = tide_poll_job_heap_first(&scheduler->idle, &wake_us);
    if (!job)
        return INT64_MAX;
    const int64_t now_us = tide_scheduler_now(scheduler);
    for (; job && wake_us <= now_us; job = tide_poll_job_heap_first(&scheduler->idle, &wake_us)) {
        tide_poll_job_heap_remove(job);
        tide_scheduler_ready(job);
    }
    return job ? wake_us : INT64_MAX;
}

static void wait_for_ready(tide_scheduler *scheduler, int64_t wake_us)
{
    if (wake_us == INT64_MAX)
        pthread_cond_wait(&scheduler->ready, &scheduler->lock);
    else
        (void)!tide_cond_wait(&scheduler->ready, &scheduler->lock,
                              tide_cond_until(wake_us - tide_scheduler_now(scheduler)));
}

/* Workers look after the time themselves: a step may wait for the store. */
static void *work(void *arg)
{
    tide_scheduler *scheduler = arg;
    pthread_mutex_lock(&scheduler->lock);
    while (!scheduler->is_closing) {
        int64_t wake_us = wake_idle(scheduler);
        tide_poll_job *job = find_ready(scheduler, &wake_us);
        if (!job) {
            wait_for_ready(scheduler, wake_us);
            continue;
        }
        tide_poll_job_heap_remove(job);
        pthread_mutex_unlock(&scheduler->lock);
        const bool is_over = tide_poll_job_turn(job);
        pthread_mutex_lock(&scheduler->lock);
        if (is_over) {
            forget(job);
            pthread_mutex_unlock(&scheduler->lock);
            tide_poll_job_free(job);
            pthread_mutex_lock(&scheduler->lock);
        }
    }
    pthread_mutex_unlock(&scheduler->lock);
    return NULL;
}

/* ---- open, close ---- */

static void set_defaults(tide_scheduler *scheduler, const tide_scheduler_options *options)
{
    tide_scheduler_options *own = &scheduler->options;
    *own = *options;
    scheduler->env = options->env ? options->env : tide_env_system();
    own->worker_count = own->worker_count > 0 ? own->worker_count : TIDE_SCHEDULER_WORKERS;
    own->budget_bytes = own->budget_bytes > 0 ? own->budget_bytes : TIDE_SCHEDULER_BUDGET;
    own->lease_us = own->lease_us > 0 ? own->lease_us : TIDE_SCHEDULER_LEASE_US;
    (void)snprintf(scheduler->colony_id, sizeof scheduler->colony_id, "%s", options->colony_id);
    tide_identity identity;
    tide_store_identity(options->sink->store, &identity);
    (void)snprintf(scheduler->reader, sizeof scheduler->reader, "colony-%s", identity.session_id);
    const tide_poller_events events = tide_scheduler_events(scheduler);
    scheduler->poller_options = (tide_poller_options){.sink = options->sink,
                                                      .env = scheduler->env,
                                                      .reporter = tide_report_logger(options->log),
                                                      .reader = scheduler->reader,
                                                      .grace_us = options->grace_us,
                                                      .is_once = options->is_once,
                                                      .events = events};
    scheduler->recover_options =
        (tide_recover_options){.sink = options->sink,
                               .env = scheduler->env,
                               .reporter = tide_report_logger(options->log),
                               .interval_us = options->recover_us,
                               .attempt_max = options->attempt_max,
                               .events = events};
    tide_holding_init(&scheduler->holding, scheduler->colony_id, own->lease_us);
    scheduler->holding.is_guest = own->is_once;
    scheduler->plans_wanted = 1;
}

static tide_status start_threads(tide_scheduler *scheduler, tide_error *err)
{
    TIDE_ALLOC(scheduler->workers, (size_t)scheduler->options.worker_count, err);
    for (int i = 0; i < scheduler->options.worker_count; i++) {
        TIDE_TRY(tide_thread_start(&scheduler->workers[i], work, scheduler, err));
        scheduler->worker_count++;
    }
    return TIDE_OK;
}

static tide_status open_steps(tide_scheduler *scheduler, tide_error *err)
{
    tide_store *store = scheduler->options.sink->store;
    if (!scheduler->options.is_swept)
        TIDE_TRY(tide_work_maintenance_new(
            &scheduler->sweeping, store,
            &(tide_work_maintenance_options){.crash_limit = TIDE_COLONY_CRASH_LIMIT},
            scheduler->options.metrics, err));
    scheduler->registry_mark = -1;
    if (!scheduler->options.is_once)
        TIDE_TRY(tide_watch_open(&scheduler->registry_watch, store, TIDE_REGISTRY_TOPIC, err));
    return tide_scheduler_bind(scheduler, err);
}

tide_status tide_scheduler_open(tide_scheduler **out, const tide_scheduler_options *options,
                                tide_error *err)
{
    TIDE_CLEANUP(tide_scheduler_closep) TIDE_NEW(tide_scheduler, scheduler, err);
    scheduler->reserved_end = &scheduler->reserved;
    (void)pthread_mutex_init(&scheduler->lock, NULL);
    (void)pthread_cond_init(&scheduler->ready, NULL);
    (void)pthread_cond_init(&scheduler->news, NULL);
    set_defaults(scheduler, options);
    TIDE_TRY(tide_agent_clients_open(&scheduler->links, &options->security, options->metrics,
                                     scheduler->env, err));
    TIDE_TRY(start_threads(scheduler, err));
    TIDE_TRY(open_steps(scheduler, err));
    *out = TIDE_TAKE(scheduler);
    return TIDE_OK;
}

void tide_scheduler_stop(tide_scheduler *scheduler)
{
    TIDE_HOLD(&scheduler->lock);
    scheduler->is_stopping = true;
    for (tide_poll_job *job = scheduler->jobs; job; job = job->next)
        tide_scheduler_leave(job);
    pthread_cond_broadcast(&scheduler->news);
    pthread_cond_broadcast(&scheduler->ready);
}

void tide_scheduler_wait(tide_scheduler *scheduler, tide_scheduler_result *out)
{
    TIDE_HOLD(&scheduler->lock);
    while (!scheduler->is_stopping && (!scheduler->has_held || scheduler->job_count > 0 ||
                                       scheduler->plans_done < scheduler->plans_wanted))
        pthread_cond_wait(&scheduler->news, &scheduler->lock);
    *out = scheduler->result;
}

void tide_scheduler_check_registry(tide_scheduler *scheduler)
{
    tide_ticker_wake(scheduler->options.ticker, tide_step_agent_leases.name);
}

void tide_scheduler_touch(tide_scheduler *scheduler, const char *agent_id)
{
    TIDE_HOLD(&scheduler->lock);
    for (tide_poll_job *job = scheduler->jobs; job; job = job->next) {
        if (!job->poller || (agent_id && strcmp(agent_id, job->agent_id) != 0))
            continue;
        job->is_reload_due = true;
        if (job->heap == &scheduler->idle) {
            tide_poll_job_heap_remove(job);
            tide_scheduler_ready(job);
        } else if (job->is_asking && job->is_watching && job->stream) {
            tide_client_cancel(job->stream);
        }
    }
}

void tide_scheduler_recover(tide_scheduler *scheduler)
{
    pthread_mutex_lock(&scheduler->lock);
    scheduler->plans_wanted++;
    pthread_mutex_unlock(&scheduler->lock);
    tide_ticker_wake(scheduler->options.ticker, tide_step_gap_recovery.name);
}

tide_agent_clients *tide_scheduler_clients(tide_scheduler *scheduler)
{
    return scheduler->links;
}

static void wait_for_jobs(tide_scheduler *scheduler)
{
    TIDE_HOLD(&scheduler->lock);
    while (scheduler->job_count > 0)
        pthread_cond_wait(&scheduler->news, &scheduler->lock);
    scheduler->is_closing = true;
    pthread_cond_broadcast(&scheduler->news);
    pthread_cond_broadcast(&scheduler->ready);
}

void tide_scheduler_close(tide_scheduler *scheduler)
{
    if (!scheduler)
        return;
    tide_scheduler_stop(scheduler);
    if (scheduler->worker_count > 0)
        wait_for_jobs(scheduler);
    for (int i = 0; i < scheduler->worker_count; i++)
        (void)pthread_join(scheduler->workers[i], NULL);
    tide_watch_close(scheduler->registry_watch);
    tide_work_maintenance_free(scheduler->sweeping);
    free(scheduler->workers);
    free(scheduler->done);
    tide_poll_job_heap_done(&scheduler->idle);
    tide_poll_job_heap_done(&scheduler->answered);
    tide_poll_job_heap_done(&scheduler->questions);
    TIDE_IGNORE(tide_holding_release(&scheduler->holding, scheduler->options.sink->store, NULL));
    tide_holding_done(&scheduler->holding);
    tide_agent_clients_close(scheduler->links);
    (void)pthread_cond_destroy(&scheduler->news);
    (void)pthread_cond_destroy(&scheduler->ready);
    (void)pthread_mutex_destroy(&scheduler->lock);
    free(scheduler);
}
