/* scheduler_maintenance.c - background steps of a colony: leases of agents, recovery of gaps, retention, lag history; see
 * scheduler_internal.h. */
#include <stdlib.h>
#include <string.h>

#include <tidemark/watch.h>

#include "base/cleanup.h"
#include "base/lock.h"
#include "runtime/store_watch.h"
#include "services/colony/scheduler_internal.h"

#define RETRY_US INT64_C(1000000)
#define CLAIMING_US INT64_C(100000)  /* a turn that comes again so soon has not claimed all yet */
#define RECOVER_US INT64_C(30000000) /* work that was put off may be due */
#define REGISTRY_REST_US                                                                           \
    INT64_C(100000) /* SQLite reports every commit, our own too: most are not the registry's */

static bool is_stopping(tide_scheduler *scheduler)
{
    TIDE_HOLD(&scheduler->lock);
    return scheduler->is_stopping;
}

/* ---- agents ---- */

static int compare_agent(const void *key, const void *element)
{
    return strcmp(key, ((const tide_held_agent *)element)->agent_id);
}

static tide_held_agent *find_held(const tide_holding *holding, const char *agent_id)
{
    if (holding->count == 0)
        return NULL;
    return bsearch(agent_id, holding->agents, (size_t)holding->count, sizeof *holding->agents,
                   compare_agent);
}

/* Those that are not ours any more leave; *has_slot says of each that is ours whether it has one. */
static void let_go(tide_scheduler *scheduler, const tide_holding *holding, bool *has_slot)
{
    TIDE_HOLD(&scheduler->lock);
    for (tide_poll_job *job = scheduler->jobs; job; job = job->next) {
        if (!job->poller)
            continue;
        const tide_held_agent *held = holding ? find_held(holding, job->agent_id) : NULL;
        if (held)
            has_slot[held - holding->agents] = true; /* or it is still leaving: when it has left */
        const bool is_ours =
            held && held->token == job->token && strcmp(held->address, job->registered) == 0;
        if (!is_ours && !job->is_leaving)
            tide_scheduler_leave(job);
    }
}

static bool is_done(tide_scheduler *scheduler, const char *agent_id)
{
    TIDE_HOLD(&scheduler->lock);
    for (int i = 0; i < scheduler->done_count; i++)
        if (strcmp(scheduler->done[i], agent_id) == 0)
            return true;
    return false;
}

/* The failure of the first that cannot be polled; the others are. */
static tide_status add_slots(tide_scheduler *scheduler, const bool *has_slot, tide_error *err)
{
    const char *only = scheduler->options.only_agent;
    tide_status first = TIDE_OK;
    bool is_new = false;
    for (int i = 0; i < scheduler->holding.count; i++) {
        const tide_held_agent *agent = &scheduler->holding.agents[i];
        tide_error job_err = {0};
        tide_poll_job *job = NULL;
        if (has_slot[i] || (only && strcmp(only, agent->agent_id) != 0) ||
            is_done(scheduler, agent->agent_id))
            continue;
        tide_status status = tide_agent_slot_new(scheduler, agent, &job, &job_err);
        if (status >= TIDE_OK)
            status = tide_scheduler_add(scheduler, job);
        is_new = is_new || status >= TIDE_OK;
        if (status < TIDE_OK) {
            tide_poll_job_free(job);
            if (first >= TIDE_OK)
                first = tide_fail(err, status, "agent %s cannot be polled: %s", agent->agent_id,
                                  job_err.text);
        }
    }
    if (is_new) /* the store has another holder for them */
        tide_ticker_wake(scheduler->options.ticker, tide_step_fleet_view.name);
    return first;
}

static tide_status sync_slots(tide_scheduler *scheduler, tide_error *err)
{
    bool *has_slot = calloc((size_t)scheduler->holding.count + 1, sizeof *has_slot);
    TIDE_NEED_MEMORY(has_slot, err);
    let_go(scheduler, &scheduler->holding, has_slot);
    const tide_status status = add_slots(scheduler, has_slot, err);
    free(has_slot);
    return status;
}

typedef struct counting {
    const char *only;
    int agents;
} counting;

static tide_status count_agent(void *arg, const tide_agent_row *agent, tide_error *err)
{
    (void)err;
    counting *c = arg;
    c->agents += !c->only || strcmp(c->only, agent->agent_id) == 0;
    return TIDE_OK;
}

/* Once: who is there, and who is somebody else's. */
static void begin_result(tide_scheduler *scheduler)
{
    counting c = {.only = scheduler->options.only_agent};
    int held = 0;
    TIDE_IGNORE(tide_registry_list(scheduler->options.sink->store, false, count_agent, &c, NULL));
    for (int i = 0; i < scheduler->holding.count; i++)
        held += !c.only || strcmp(c.only, scheduler->holding.agents[i].agent_id) == 0;
    TIDE_HOLD(&scheduler->lock);
    scheduler->has_held = true;
    scheduler->result.agents = c.agents;
    scheduler->result.elsewhere = c.agents > held ? c.agents - held : 0;
    pthread_cond_broadcast(&scheduler->news);
}

static tide_status renew_leases(void *arg, int64_t *next_us, tide_error *err)
{
    tide_scheduler *scheduler = arg;
    const int64_t now_us = tide_scheduler_now(scheduler);
    if (is_stopping(scheduler)) {
        *next_us = INT64_MAX;
        return TIDE_NONE;
    }
    tide_store_watch *watch = scheduler->options.store_watch;
    if (watch)
        tide_store_watch_begin(watch, TIDE_STORE_LEASES);
    tide_status status =
        tide_holding_step(&scheduler->holding, scheduler->options.sink->store, next_us, err);
    if (watch)
        tide_store_watch_end(watch, TIDE_STORE_LEASES, status);
    if (status >= TIDE_OK) {
        scheduler->held_until_us = now_us + scheduler->options.lease_us;
        status = sync_slots(scheduler, err);
    } else {
        *next_us = RETRY_US;
        /* The attempt itself may have taken long. */
        if (tide_scheduler_now(scheduler) >= scheduler->held_until_us)
            let_go(scheduler, NULL, NULL);
    }
    /* Once: when all that can be had are there, nothing but renewing is left to do. */
    if (scheduler->options.is_once && *next_us > CLAIMING_US) {
        if (!scheduler->has_held)
            begin_result(scheduler);
        *next_us = scheduler->options.lease_us / 3;
    }
    return status;
}

const tide_step tide_step_agent_leases = {
    .name = "agent_leases",
    .summary = "claim agents and renew their leases",
    .run = renew_leases,
    .lane = TIDE_LANE_LEASES,
};

/* ---- the registry ---- */

/* A hint, never needed: the leases step looks every few seconds all the same. */
static tide_status watch_registry(void *arg, int64_t *next_us, tide_error *err)
{
    tide_scheduler *scheduler = arg;
    tide_store *store = scheduler->options.sink->store;
    int64_t mark = 0;
    *next_us = INT64_MAX;
    TIDE_IGNORE(tide_watch_wait(scheduler->registry_watch, 0, NULL));
    TIDE_TRY(tide_registry_mark(store, &mark, err));
    if (mark == scheduler->registry_mark)
        return TIDE_NONE;
    scheduler->registry_mark = mark;
    tide_scheduler_check_registry(scheduler);
    return TIDE_OK;
}

static int get_registry_fd(void *arg)
{
    const tide_scheduler *scheduler = arg;
    return tide_watch_fd(scheduler->registry_watch);
}

const tide_step tide_step_registry_watch = {
    .name = "registry_watch",
    .summary = "notice agents that another process has registered",
    .run = watch_registry,
    .watch_fd = get_registry_fd,
    .rest_us = REGISTRY_REST_US,
};

/* ---- gaps ---- */

static void add_recoveries(tide_scheduler *scheduler, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        pthread_mutex_lock(&scheduler->lock);
        const bool is_room =
            scheduler->recovery_count < TIDE_SCHEDULER_RECOVERIES && !scheduler->is_stopping;
        scheduler->recovery_count += is_room ? 1 : 0;
        pthread_mutex_unlock(&scheduler->lock);
        if (!is_room)
            return;
        tide_poll_job *job = tide_poll_job_new(scheduler);
        if (job && tide_scheduler_add(scheduler, job) >= TIDE_OK)
            continue;
        tide_poll_job_free(job);
        pthread_mutex_lock(&scheduler->lock);
        scheduler->recovery_count--;
        pthread_mutex_unlock(&scheduler->lock);
        return;
    }
}

static tide_status recover_gaps(void *arg, int64_t *next_us, tide_error *err)
{
    tide_scheduler *scheduler = arg;
    int64_t added = 0;
    *next_us = INT64_MAX;
    pthread_mutex_lock(&scheduler->lock);
    const bool is_stopping = scheduler->is_stopping;
    const uint64_t wanted = scheduler->plans_wanted;
    pthread_mutex_unlock(&scheduler->lock);
    if (is_stopping)
        return TIDE_NONE;
    const tide_status status = tide_recover_plan(&scheduler->recover_options, &added, next_us, err);
    if (status < TIDE_OK || *next_us < RETRY_US)
        *next_us = RETRY_US;
    /* What was added, and what was put off. */
    add_recoveries(scheduler, TIDE_SCHEDULER_RECOVERIES);
    pthread_mutex_lock(&scheduler->lock);
    scheduler->plans_done = wanted;
    pthread_cond_broadcast(&scheduler->news);
    pthread_mutex_unlock(&scheduler->lock);
    *next_us = *next_us < RECOVER_US ? *next_us : RECOVER_US;
    return status;
}

const tide_step tide_step_gap_recovery = {
    .name = "gap_recovery",
    .summary = "plan the recovery of gaps and start what is due",
    .run = recover_gaps,
};

/* ---- retention ---- */

static tide_status retain(void *arg, int64_t *next_us, tide_error *err)
{
    const tide_scheduler *scheduler = arg;
    tide_sink *sink = scheduler->options.sink;
    tide_retained retained = {.next_us = RETRY_US};
    TIDE_TRY(sink->ops->retain(sink, TIDE_SCHEDULER_GAP_KEEP_US, &retained, err));
    *next_us = retained.next_us;
    return TIDE_OK;
}

const tide_step tide_step_colony_retention = {
    .name = "colony_retention",
    .summary = "delete rows that are older than their stream keeps them",
    .run = retain,
};

/* ---- lag history ---- */

static tide_status note_lags(void *arg, int64_t *next_us, tide_error *err)
{
    (void)err;
    tide_lag_history_sample(arg);
    *next_us = TIDE_LAG_HISTORY_US;
    return TIDE_OK;
}

const tide_step tide_step_lag_history = {
    .name = "lag_history",
    .summary = "note how far each stream is behind its agent",
    .run = note_lags,
};

/* ---- binding ---- */

const tide_step *const tide_scheduler_once_steps[] = {
    &tide_step_agent_leases, &tide_step_gap_recovery, &tide_step_sweep, NULL};

tide_status tide_scheduler_bind(tide_scheduler *scheduler, tide_error *err)
{
    tide_ticker *ticker = scheduler->options.ticker;
    const tide_step_binding now = {.arg = scheduler};
    const tide_step_binding later = {.arg = scheduler, .delay_us = RETRY_US};
    if (scheduler->sweeping)
        TIDE_TRY(tide_work_maintenance_bind_sweep(scheduler->sweeping, ticker, err));
    TIDE_TRY(tide_ticker_bind(ticker, &tide_step_agent_leases, &now, err));
    TIDE_TRY(tide_ticker_bind(ticker, &tide_step_gap_recovery, &now, err));
    if (scheduler->options.is_once)
        return TIDE_OK;
    TIDE_TRY(tide_ticker_bind(ticker, &tide_step_registry_watch, &now, err));
    TIDE_TRY(tide_ticker_bind(ticker, &tide_step_lag_history, &now, err));
    return tide_ticker_bind(ticker, &tide_step_colony_retention, &later, err);
}
