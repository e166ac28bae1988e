/* driver_poll.c - one pass over everything, while the driver goes on: who asks for it waits until each agent is caught up with what it has now. See
 * driver.h. */
#include <stdio.h>
#include <string.h>

#include "base/cond_wait.h"
#include "services/colony/scheduler_internal.h"

#define SEAT_US INT64_C(5000000) /* agents that are nobody's yet get a seat within this time */

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

static int count_seats(const tide_scheduler *driver)
{
    int count = 0;
    for (const tide_poll_job *job = driver->jobs; job; job = job->next)
        count += job->poller != NULL;
    return count;
}

static bool wait_for_news(tide_scheduler *driver, int64_t until)
{
    return tide_cond_wait(&driver->news, &driver->lock, until);
}

/* Under the lock. */
static void wait_for_seats(tide_scheduler *driver, int wanted, int64_t wait_us)
{
    const int64_t until = tide_cond_until(wait_us < SEAT_US ? wait_us : SEAT_US);
    while (!driver->is_stopping && count_seats(driver) < wanted && wait_for_news(driver, until)) {
    }
}

static bool is_pending(const tide_scheduler *driver, uint64_t round)
{
    for (const tide_poll_job *job = driver->jobs; job; job = job->next)
        if (job->poller && job->poll_wanted >= round && job->poll_done < round)
            return true;
    return false;
}

static void sum_up(const tide_scheduler *driver, uint64_t round, tide_scheduler_result *out)
{
    for (const tide_poll_job *job = driver->jobs; job; job = job->next) {
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

tide_status tide_scheduler_poll(tide_scheduler *driver, int64_t wait_us, tide_scheduler_result *out,
                                tide_error *err)
{
    shares s = {.colony_id = driver->colony_id};
    TIDE_TRY(tide_registry_list(driver->options.sink->store, false, count_share, &s, err));
    const int64_t until = tide_cond_until(wait_us);
    tide_scheduler_look(driver);
    pthread_mutex_lock(&driver->lock);
    wait_for_seats(driver, s.total - s.elsewhere, wait_us);
    const uint64_t round = ++driver->poll_round;
    for (tide_poll_job *job = driver->jobs; job; job = job->next)
        job->poll_wanted = round;
    pthread_mutex_unlock(&driver->lock);
    tide_scheduler_touch(driver, NULL);
    pthread_mutex_lock(&driver->lock);
    while (!driver->is_stopping && is_pending(driver, round) && wait_for_news(driver, until)) {
    }
    *out = (tide_scheduler_result){.agents = s.total};
    sum_up(driver, round, out);
    pthread_mutex_unlock(&driver->lock);
    out->elsewhere = s.total - out->caught_up - out->failed;
    return TIDE_OK;
}

void tide_agent_slot_poll_begin(tide_poll_job *job)
{
    pthread_mutex_lock(&job->driver->lock);
    const uint64_t wanted = job->poll_wanted;
    pthread_mutex_unlock(&job->driver->lock);
    if (wanted == job->poll_taken)
        return;
    job->poll_taken = wanted;
    tide_poller_refresh(job->poller);
}

void tide_agent_slot_poll_end(tide_poll_job *job)
{
    tide_scheduler *driver = job->driver;
    const bool is_caught_up = tide_poller_is_caught_up(job->poller);
    if (job->poll_taken == job->poll_done ||
        (!is_caught_up && !tide_poller_is_failing(job->poller)))
        return;
    pthread_mutex_lock(&driver->lock);
    job->poll_done = job->poll_taken;
    job->has_poll_failed = !is_caught_up;
    (void)snprintf(job->poll_failure, sizeof job->poll_failure, "%.200s", job->failure);
    pthread_cond_broadcast(&driver->news);
    pthread_mutex_unlock(&driver->lock);
}
