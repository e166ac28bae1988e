/* lag_history.c - how checkpoints and heads of the agents polled here have gone: a look every TIDE_LAG_HISTORY_US; see scheduler.h.
 *
 * Each slot keeps a ring per stream, indexed by the number of the look. A look that a stream was not there for leaves a place without numbers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/lock.h"
#include "services/colony/scheduler_internal.h"

static const tide_lag_point nothing = {.checkpoint = -1, .head = -1};

/* NULL: there is no room, and its history is not kept. */
static tide_lag_history *find_course(tide_poll_job *job, const char *data_type)
{
    tide_scheduler *scheduler = job->scheduler;
    for (tide_lag_history *history = job->histories; history; history = history->next)
        if (strcmp(history->data_type, data_type) == 0)
            return history;
    if (atomic_load(&scheduler->history_count) >= TIDE_LAG_HISTORIES_MAX)
        return NULL;
    tide_lag_history *history = calloc(1, sizeof *history);
    if (!history)
        return NULL;
    (void)snprintf(history->data_type, sizeof history->data_type, "%s", data_type);
    for (int i = 0; i < TIDE_LAG_HISTORY_POINTS; i++)
        history->points[i] = nothing;
    history->next = job->histories;
    job->histories = history;
    atomic_fetch_add(&scheduler->history_count, 1);
    return history;
}

void tide_lag_history_sample(tide_scheduler *scheduler)
{
    TIDE_HOLD(&scheduler->lock);
    const int64_t look = scheduler->history_round++;
    scheduler->history_wall_ms = scheduler->env->wall_us(scheduler->env) / 1000;
    for (tide_poll_job *job = scheduler->jobs; job; job = job->next) {
        for (tide_lag_history *history = job->histories; history; history = history->next)
            history->points[look % TIDE_LAG_HISTORY_POINTS] = nothing;
        for (int i = 0; i < job->lag_count; i++) {
            const tide_agent_slot_lag *lag = &job->lags[i];
            tide_lag_history *history = find_course(job, lag->data_type);
            if (history)
                history->points[look % TIDE_LAG_HISTORY_POINTS] =
                    (tide_lag_point){.checkpoint = lag->lag.checkpoint, .head = lag->lag.head};
        }
    }
}

void tide_lag_history_free(tide_poll_job *job)
{
    while (job->histories) {
        tide_lag_history *history = job->histories;
        job->histories = history->next;
        atomic_fetch_sub(&job->scheduler->history_count, 1);
        free(history);
    }
}

static void tell_course(const tide_scheduler *scheduler, const tide_lag_history *history,
                        tide_lag_history_fn *fn, void *arg)
{
    const int64_t last = scheduler->history_round - 1;
    int64_t look = last - TIDE_LAG_HISTORY_POINTS + 1;
    for (look = look < 0 ? 0 : look; look <= last; look++) {
        const tide_lag_point *point = &history->points[look % TIDE_LAG_HISTORY_POINTS];
        if (point->head >= 0)
            fn(arg, history->data_type,
               scheduler->history_wall_ms - (last - look) * (TIDE_LAG_HISTORY_US / 1000), point);
    }
}

void tide_scheduler_lag_history(tide_scheduler *scheduler, const char *agent_id,
                                const char *data_type, tide_lag_history_fn *fn, void *arg)
{
    TIDE_HOLD(&scheduler->lock);
    for (const tide_poll_job *job = scheduler->jobs; job; job = job->next) {
        if (!job->poller || strcmp(job->agent_id, agent_id) != 0)
            continue;
        for (const tide_lag_history *history = job->histories; history; history = history->next)
            if (!data_type || strcmp(history->data_type, data_type) == 0)
                tell_course(scheduler, history, fn, arg);
    }
}
