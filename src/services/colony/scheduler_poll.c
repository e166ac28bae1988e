/* scheduler_poll.c - one pass over everything, while the scheduler goes on: who asks for it waits until each agent is caught up with what it has now. See
 * scheduler.h. */
#include <stdio.h>
#include <string.h>

#include "base/cond_wait.h"
#include "base/lock.h"
#include "services/colony/scheduler_internal.h"

#define SLOT_US INT64_C(5000000) /* agents that are nobody's yet get a slot within this time */

typedef struct shares {
    const char *colony_id;
    int total;
    int elsewhere;
} shares;

static tide_status count_share(void *arg, const tide_agent_row *row, tide_error *err)
{
    (void)err;
    shares *s = arg;
    s->total++;
    s->elsewhere += row->holder[0] && strcmp(row->holder, s->colony_id) != 0;
    return TIDE_OK;
}

static int count_slots(const tide_scheduler *scheduler)
{
    int count = 0;
    for (const tide_poll_job *job = scheduler->jobs; job; job = job->next)
        count += job->poller != NULL;
    return count;
}

static bool wait_for_news(tide_scheduler *scheduler, int64_t until)
{
    return tide_cond_wait(&scheduler->news, &scheduler->lock, until);
}

/* Under the lock. */
static void wait_for_slots(tide_scheduler *scheduler, int wanted, int64_t wait_us)
{
    const int64_t until = tide_cond_until(wait_us < SLOT_US ? wait_us : SLOT_US);
    while (!scheduler->is_stopping && count_slots(scheduler) < wanted &&
           wait_for_news(scheduler, until)) {
    }
}

static bool is_pending(const tide_scheduler *scheduler, uint64_t round)
{
    for (const tide_poll_job *job = scheduler->jobs; job; job = job->next)
        if (job->poller && job->poll_wanted >= round && job->poll_done < round)
            return true;
    return false;
}

static void sum_up(const tide_scheduler *scheduler, uint64_t round, tide_scheduler_result *out)
{
    for (const tide_poll_job *job = scheduler->jobs; job; job = job->next) {
        if (!job->poller || job->poll_wanted < round)
            continue;
        const bool is_done = job->poll_done >= round;
        out->caught_up += is_done && !job->has_poll_failed;
        if (is_done && !job->has_poll_failed)
            continue;
        out->failed++;
        (void)snprintf(out->failure, sizeof out->failure, "%s: %.200s", job->agent_id,
                       is_done ? job->poll_failure : "not caught up in time");
    }
}

tide_status tide_scheduler_poll(tide_scheduler *scheduler, int64_t wait_us,
                                tide_scheduler_result *out, tide_error *err)
{
    shares s = {.colony_id = scheduler->colony_id};
    TIDE_TRY(tide_registry_list(scheduler->options.sink->store, false, count_share, &s, err));
    const int64_t until = tide_cond_until(wait_us);
    tide_scheduler_check_registry(scheduler);
    pthread_mutex_lock(&scheduler->lock);
    wait_for_slots(scheduler, s.total - s.elsewhere, wait_us);
    const uint64_t round = ++scheduler->poll_round;
    for (tide_poll_job *job = scheduler->jobs; job; job = job->next)
        job->poll_wanted = round;
    pthread_mutex_unlock(&scheduler->lock);
    tide_scheduler_touch(scheduler, NULL);
    pthread_mutex_lock(&scheduler->lock);
    while (!scheduler->is_stopping && is_pending(scheduler, round) &&
           wait_for_news(scheduler, until)) {
    }
    *out = (tide_scheduler_result){.agents = s.total};
    sum_up(scheduler, round, out);
    pthread_mutex_unlock(&scheduler->lock);
    out->elsewhere = s.total - out->caught_up - out->failed;
    return TIDE_OK;
}

void tide_agent_slot_poll_begin(tide_poll_job *job)
{
    pthread_mutex_lock(&job->scheduler->lock);
    const uint64_t wanted = job->poll_wanted;
    pthread_mutex_unlock(&job->scheduler->lock);
    if (wanted == job->poll_taken)
        return;
    job->poll_taken = wanted;
    tide_poller_refresh(job->poller);
}

void tide_agent_slot_poll_end(tide_poll_job *job)
{
    tide_scheduler *scheduler = job->scheduler;
    const bool is_caught_up = tide_poller_is_caught_up(job->poller);
    if (job->poll_taken == job->poll_done ||
        (!is_caught_up && !tide_poller_is_failing(job->poller)))
        return;
    TIDE_HOLD(&scheduler->lock);
    job->poll_done = job->poll_taken;
    job->has_poll_failed = !is_caught_up;
    (void)snprintf(job->poll_failure, sizeof job->poll_failure, "%.200s", job->failure);
    pthread_cond_broadcast(&scheduler->news);
}
