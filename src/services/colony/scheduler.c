#include "services/colony/scheduler.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tidemark/identity.h>

#include "base/cleanup.h"
#include "base/cond_wait.h"
#include "base/thread.h"
#include "services/colony/scheduler_internal.h"

int64_t tide_scheduler_now(const tide_scheduler *driver)
{
    return driver->env->mono_us(driver->env);
}

/* ---- jobs ---- */

tide_poll_job *tide_poll_job_new(tide_scheduler *driver)
{
    tide_poll_job *job = calloc(1, sizeof *job);
    if (!job)
        return NULL;
    job->driver = driver;
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
    tide_scheduler_course_forget(job);
    free(job->lags);
    free(job);
}

/* A job is in one heap at a time; each has room for all of them. */
static tide_status make_room(tide_scheduler *driver)
{
    const size_t count = (size_t)driver->job_count + 1;
    TIDE_TRY(tide_poll_job_heap_reserve(&driver->idle, count));
    TIDE_TRY(tide_poll_job_heap_reserve(&driver->answered, count));
    return tide_poll_job_heap_reserve(&driver->questions, count);
}

tide_status tide_scheduler_add(tide_scheduler *driver, tide_poll_job *job)
{
    pthread_mutex_lock(&driver->lock);
    const tide_status status = make_room(driver);
    if (status >= TIDE_OK) {
        job->next = driver->jobs;
        job->link = &driver->jobs;
        if (driver->jobs)
            driver->jobs->link = &job->next;
        driver->jobs = job;
        driver->job_count++;
        job->is_leaving = driver->is_stopping;
        tide_scheduler_ready(job);
    }
    pthread_mutex_unlock(&driver->lock);
    return status;
}

static void forget(tide_poll_job *job)
{
    tide_scheduler *driver = job->driver;
    *job->link = job->next;
    if (job->next)
        job->next->link = job->link;
    driver->job_count--;
    driver->recovery_count -= job->poller ? 0 : 1;
    /* Its agent may be ours again, under another token or at another address. */
    if (job->poller && job->is_leaving)
        tide_ticker_wake(driver->options.ticker, tide_step_agent_leases.name);
    pthread_cond_broadcast(&driver->news);
}

void tide_scheduler_ready(tide_poll_job *job)
{
    tide_scheduler *driver = job->driver;
    const int64_t urgency_us = job->poller ? tide_poller_loss_us(job->poller) : INT64_MAX;
    /* An answer that has come is always taken; questions wait while too much is under way. */
    const bool is_first = job->has_answer || job->is_leaving;
    tide_poll_job_heap_add(is_first ? &driver->answered : &driver->questions, job, urgency_us);
    pthread_cond_signal(&driver->ready);
}

void tide_scheduler_idle(tide_poll_job *job, int64_t wake_us)
{
    tide_scheduler *driver = job->driver;
    int64_t first_us = INT64_MAX;
    (void)tide_poll_job_heap_first(&driver->idle, &first_us);
    tide_poll_job_heap_add(&driver->idle, job, wake_us);
    if (wake_us < first_us)
        pthread_cond_signal(&driver->ready); /* whoever waits would sleep too long */
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
    tide_scheduler *driver = job->driver;
    if (!job->reserved_link)
        return;
    *job->reserved_link = job->next_reserved;
    if (job->next_reserved)
        job->next_reserved->reserved_link = job->reserved_link;
    else
        driver->reserved_end = job->reserved_link;
    job->reserved_link = NULL;
}

void tide_scheduler_reserve(tide_poll_job *job, int64_t bytes)
{
    tide_scheduler *driver = job->driver;
    job->budgeted = bytes;
    driver->budget_used += bytes;
    if (bytes == 0)
        return;
    job->reserved_until_us = tide_scheduler_now(driver) + TIDE_SCHEDULER_RESERVE_US;
    job->next_reserved = NULL;
    job->reserved_link = driver->reserved_end;
    *driver->reserved_end = job;
    driver->reserved_end = &job->next_reserved;
}

void tide_scheduler_receive(tide_poll_job *job, int64_t bytes)
{
    unlink_reserved(job);
    job->driver->budget_used += bytes - job->budgeted;
    job->budgeted = bytes;
}

void tide_scheduler_release(tide_poll_job *job)
{
    tide_scheduler_receive(job, 0);
}

/* What was expected and has not come is not waited for any longer. Returns when the next one's time is over. */
static int64_t release_late(tide_scheduler *driver)
{
    const int64_t now_us = driver->reserved ? tide_scheduler_now(driver) : 0;
    while (driver->reserved && driver->reserved->reserved_until_us <= now_us)
        tide_scheduler_release(driver->reserved);
    return driver->reserved ? driver->reserved->reserved_until_us : INT64_MAX;
}

/* ---- workers ---- */

/* *wake_us: when to look again, at the latest. */
static tide_poll_job *find_ready(tide_scheduler *driver, int64_t *wake_us)
{
    int64_t urgency_us = 0;
    tide_poll_job *job = tide_poll_job_heap_first(&driver->answered, &urgency_us);
    tide_poll_job *question =
        job ? NULL : tide_poll_job_heap_first(&driver->questions, &urgency_us);
    if (!question)
        return job;
    const int64_t late_us = release_late(driver);
    if (driver->budget_used + tide_agent_clients_held(driver->links) < driver->options.budget_bytes)
        return question;
    *wake_us = late_us < *wake_us ? late_us : *wake_us;
    return NULL;
}

/* Those whose time has come are ready. Returns when the next one's comes; INT64_MAX: there is none. */
static int64_t wake_idle(tide_scheduler *driver)
{
    int64_t wake_us = INT64_MAX;
    tide_poll_job *job = tide_poll_job_heap_first(&driver->idle, &wake_us);
    if (!job)
        return INT64_MAX;
    const int64_t now_us = tide_scheduler_now(driver);
    for (; job && wake_us <= now_us; job = tide_poll_job_heap_first(&driver->idle, &wake_us)) {
        tide_poll_job_heap_remove(job);
        tide_scheduler_ready(job);
    }
    return job ? wake_us : INT64_MAX;
}

static void wait_for_ready(tide_scheduler *driver, int64_t wake_us)
{
    if (wake_us == INT64_MAX)
        pthread_cond_wait(&driver->ready, &driver->lock);
    else
        (void)!tide_cond_wait(&driver->ready, &driver->lock,
                              tide_cond_until(wake_us - tide_scheduler_now(driver)));
}

/* Workers look after the time themselves: a step may wait for the store. */
static void *work(void *arg)
{
    tide_scheduler *driver = arg;
    pthread_mutex_lock(&driver->lock);
    while (!driver->is_closing) {
        int64_t wake_us = wake_idle(driver);
        tide_poll_job *job = find_ready(driver, &wake_us);
        if (!job) {
            wait_for_ready(driver, wake_us);
            continue;
        }
        tide_poll_job_heap_remove(job);
        pthread_mutex_unlock(&driver->lock);
        const bool is_over = tide_poll_job_turn(job);
        pthread_mutex_lock(&driver->lock);
        if (is_over) {
            forget(job);
            pthread_mutex_unlock(&driver->lock);
            tide_poll_job_free(job);
            pthread_mutex_lock(&driver->lock);
        }
    }
    pthread_mutex_unlock(&driver->lock);
    return NULL;
}

/* ---- open, close ---- */

static void set_defaults(tide_scheduler *driver, const tide_scheduler_options *options)
{
    tide_scheduler_options *own = &driver->options;
    *own = *options;
    driver->env = options->env ? options->env : tide_env_system();
    own->worker_count = own->worker_count > 0 ? own->worker_count : TIDE_SCHEDULER_WORKERS;
    own->budget_bytes = own->budget_bytes > 0 ? own->budget_bytes : TIDE_SCHEDULER_BUDGET;
    own->lease_us = own->lease_us > 0 ? own->lease_us : TIDE_SCHEDULER_LEASE_US;
    (void)snprintf(driver->colony_id, sizeof driver->colony_id, "%s", options->colony_id);
    tide_identity identity;
    tide_store_identity(options->sink->store, &identity);
    (void)snprintf(driver->reader, sizeof driver->reader, "colony-%s", identity.session_id);
    const tide_poller_events events = tide_scheduler_events(driver);
    driver->poller_options = (tide_poller_options){.sink = options->sink,
                                                   .env = driver->env,
                                                   .log = options->log,
                                                   .reader = driver->reader,
                                                   .grace_us = options->grace_us,
                                                   .is_once = options->is_once,
                                                   .events = events};
    driver->recover_options = (tide_recover_options){.sink = options->sink,
                                                     .env = driver->env,
                                                     .log = options->log,
                                                     .interval_us = options->recover_us,
                                                     .attempt_max = options->attempt_max,
                                                     .events = events};
    tide_holding_init(&driver->holding, driver->colony_id, own->lease_us);
    driver->holding.is_guest = own->is_once;
}

static tide_status start_threads(tide_scheduler *driver, tide_error *err)
{
    driver->workers = calloc((size_t)driver->options.worker_count, sizeof *driver->workers);
    if (!driver->workers)
        return tide_no_memory(err);
    for (int i = 0; i < driver->options.worker_count; i++) {
        TIDE_TRY(tide_thread_start(&driver->workers[i], work, driver, err));
        driver->worker_count++;
    }
    return TIDE_OK;
}

static tide_status open_steps(tide_scheduler *driver, tide_error *err)
{
    tide_store *store = driver->options.sink->store;
    if (!driver->options.is_swept)
        TIDE_TRY(tide_work_maintenance_new(
            &driver->sweeping, store,
            &(tide_work_maintenance_options){.crash_limit = TIDE_COLONY_CRASH_LIMIT},
            driver->options.metrics, err));
    driver->registry_mark = -1;
    if (!driver->options.is_once)
        TIDE_TRY(tide_watch_open(&driver->registry_watch, store, TIDE_REGISTRY_TOPIC, err));
    return tide_scheduler_bind(driver, err);
}

tide_status tide_scheduler_open(tide_scheduler **out, const tide_scheduler_options *options,
                                tide_error *err)
{
    TIDE_CLEANUP(tide_scheduler_closep) tide_scheduler *driver = calloc(1, sizeof *driver);
    if (!driver)
        return tide_no_memory(err);
    driver->reserved_end = &driver->reserved;
    (void)pthread_mutex_init(&driver->lock, NULL);
    (void)pthread_cond_init(&driver->ready, NULL);
    (void)pthread_cond_init(&driver->news, NULL);
    set_defaults(driver, options);
    TIDE_TRY(tide_agent_clients_open(&driver->links, &options->security, options->metrics,
                                     driver->env, err));
    TIDE_TRY(start_threads(driver, err));
    TIDE_TRY(open_steps(driver, err));
    *out = TIDE_TAKE(driver);
    return TIDE_OK;
}

void tide_scheduler_stop(tide_scheduler *driver)
{
    pthread_mutex_lock(&driver->lock);
    driver->is_stopping = true;
    for (tide_poll_job *job = driver->jobs; job; job = job->next)
        tide_scheduler_leave(job);
    pthread_cond_broadcast(&driver->news);
    pthread_cond_broadcast(&driver->ready);
    pthread_mutex_unlock(&driver->lock);
}

void tide_scheduler_wait(tide_scheduler *driver, tide_scheduler_result *out)
{
    pthread_mutex_lock(&driver->lock);
    while (!driver->is_stopping && (!driver->has_held || driver->job_count > 0))
        pthread_cond_wait(&driver->news, &driver->lock);
    *out = driver->result;
    pthread_mutex_unlock(&driver->lock);
}

void tide_scheduler_look(tide_scheduler *driver)
{
    tide_ticker_wake(driver->options.ticker, tide_step_agent_leases.name);
}

void tide_scheduler_touch(tide_scheduler *driver, const char *agent_id)
{
    pthread_mutex_lock(&driver->lock);
    for (tide_poll_job *job = driver->jobs; job; job = job->next) {
        if (!job->poller || (agent_id && strcmp(agent_id, job->agent_id) != 0))
            continue;
        job->is_reload_due = true;
        if (job->heap == &driver->idle) {
            tide_poll_job_heap_remove(job);
            tide_scheduler_ready(job);
        } else if (job->is_asking && job->is_watching && job->stream) {
            tide_client_cancel(job->stream);
        }
    }
    pthread_mutex_unlock(&driver->lock);
}

void tide_scheduler_recover(tide_scheduler *driver)
{
    tide_ticker_wake(driver->options.ticker, tide_step_gap_recovery.name);
}

tide_agent_clients *tide_scheduler_links(tide_scheduler *driver)
{
    return driver->links;
}

static void wait_for_jobs(tide_scheduler *driver)
{
    pthread_mutex_lock(&driver->lock);
    while (driver->job_count > 0)
        pthread_cond_wait(&driver->news, &driver->lock);
    driver->is_closing = true;
    pthread_cond_broadcast(&driver->news);
    pthread_cond_broadcast(&driver->ready);
    pthread_mutex_unlock(&driver->lock);
}

void tide_scheduler_close(tide_scheduler *driver)
{
    if (!driver)
        return;
    tide_scheduler_stop(driver);
    if (driver->worker_count > 0)
        wait_for_jobs(driver);
    for (int i = 0; i < driver->worker_count; i++)
        (void)pthread_join(driver->workers[i], NULL);
    tide_watch_close(driver->registry_watch);
    tide_work_maintenance_free(driver->sweeping);
    free(driver->workers);
    free(driver->done);
    tide_poll_job_heap_done(&driver->idle);
    tide_poll_job_heap_done(&driver->answered);
    tide_poll_job_heap_done(&driver->questions);
    TIDE_IGNORE(tide_holding_release(&driver->holding, driver->options.sink->store, NULL));
    tide_holding_done(&driver->holding);
    tide_agent_clients_close(driver->links);
    (void)pthread_cond_destroy(&driver->news);
    (void)pthread_cond_destroy(&driver->ready);
    (void)pthread_mutex_destroy(&driver->lock);
    free(driver);
}

void tide_scheduler_closep(tide_scheduler **driver)
{
    tide_scheduler_close(*driver);
}

/* ---- looks ---- */

/* What is unread grows older while its seat waits. */
void tide_scheduler_lags(tide_scheduler *driver, tide_scheduler_lag_fn *fn, void *arg)
{
    const int64_t now_us = tide_scheduler_now(driver);
    pthread_mutex_lock(&driver->lock);
    for (const tide_poll_job *job = driver->jobs; job; job = job->next) {
        const int64_t since_us = now_us > job->lags_us ? now_us - job->lags_us : 0;
        for (int i = 0; i < job->lag_count; i++) {
            const tide_agent_slot_lag *kept = &job->lags[i];
            const bool has_loss = kept->loss_us != INT64_MAX;
            const tide_poller_lag lag = {
                .data_type = kept->data_type,
                .records = kept->records,
                .checkpoint = kept->checkpoint,
                .head = kept->head,
                .bytes = kept->bytes,
                .lag_us = kept->records > 0 ? kept->lag_us + since_us : kept->lag_us,
                .loss_us = has_loss && kept->loss_us > since_us ? kept->loss_us - since_us
                           : has_loss                           ? 0
                                                                : INT64_MAX,
                .hold = kept->hold};
            fn(arg, job->agent_id, &lag);
        }
    }
    pthread_mutex_unlock(&driver->lock);
}
