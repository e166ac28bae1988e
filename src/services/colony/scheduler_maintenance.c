/* driver_keeper.c - the keeper's thread: which agents are ours, gaps to recover, retention; see driver_parts.h. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/cond_wait.h"
#include "services/colony/scheduler_internal.h"

#define RETRY_US INT64_C(1000000)
#define CLAIMING_US INT64_C(100000) /* a turn that comes again so soon has not taken all yet */
#define SWEEP_US INT64_C(10000000)
#define RECOVER_LOOK_US INT64_C(30000000) /* work that was put off may be due */
#define REPEAT_US INT64_C(60000000)       /* the same trouble is not told more often */

enum { SWEEP_MAX = 100, CRASH_MAX = 10 };

typedef struct keeper {
    tide_scheduler *driver;
    int64_t hold_due_us;
    int64_t held_until_us; /* by our own clock: from then on others may have what was ours */
    int64_t plan_due_us;
    int64_t recover_due_us;
    int64_t sweep_due_us;
    int64_t retain_due_us;
    int64_t course_due_us;
    int64_t told_us;
} keeper;

static void tell(keeper *k, const char *what, tide_status status, const tide_error *err)
{
    const int64_t now_us = tide_scheduler_now(k->driver);
    if (k->told_us != 0 && now_us - k->told_us < REPEAT_US)
        return;
    k->told_us = now_us;
    if (k->driver->options.log)
        tide_log_write(k->driver->options.log, TIDE_LOG_ERROR, what,
                       TIDE_F("status", tide_status_get(status)->name), TIDE_F("error", err->text),
                       TIDE_F_END);
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

/* Those that are not ours any more leave; *has_seat says of each that is ours whether it has one. */
static void let_go(tide_scheduler *driver, const tide_holding *holding, bool *has_seat)
{
    pthread_mutex_lock(&driver->lock);
    for (tide_poll_job *job = driver->jobs; job; job = job->next) {
        if (!job->poller)
            continue;
        const tide_held_agent *held = holding ? find_held(holding, job->agent_id) : NULL;
        if (held)
            has_seat[held - holding->agents] = true; /* or it is still leaving: when it has left */
        const bool is_ours =
            held && held->token == job->token && strcmp(held->address, job->registered) == 0;
        if (!is_ours && !job->is_leaving)
            tide_scheduler_leave(job);
    }
    pthread_mutex_unlock(&driver->lock);
}

static bool is_done(tide_scheduler *driver, const char *agent_id)
{
    bool is = false;
    pthread_mutex_lock(&driver->lock);
    for (int i = 0; !is && i < driver->done_count; i++)
        is = strcmp(driver->done[i], agent_id) == 0;
    pthread_mutex_unlock(&driver->lock);
    return is;
}

static void take_seats(keeper *k, const bool *has_seat)
{
    tide_scheduler *driver = k->driver;
    const char *only = driver->options.only_agent;
    for (int i = 0; i < driver->holding.count; i++) {
        const tide_held_agent *agent = &driver->holding.agents[i];
        tide_error err = {0};
        tide_poll_job *job = NULL;
        if (has_seat[i] || (only && strcmp(only, agent->agent_id) != 0) ||
            is_done(driver, agent->agent_id))
            continue;
        tide_status status = tide_agent_slot_new(driver, agent, &job, &err);
        if (status >= TIDE_OK)
            status = tide_scheduler_add(driver, job);
        if (status < TIDE_OK) {
            tide_poll_job_free(job);
            tell(k, "an agent cannot be polled", status, &err);
        }
    }
}

static void sync_seats(keeper *k)
{
    tide_scheduler *driver = k->driver;
    bool *has_seat = calloc((size_t)driver->holding.count + 1, sizeof *has_seat);
    if (!has_seat)
        return; /* the next look may find memory */
    let_go(driver, &driver->holding, has_seat);
    take_seats(k, has_seat);
    free(has_seat);
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
static void begin_result(keeper *k)
{
    tide_scheduler *driver = k->driver;
    counting c = {.only = driver->options.only_agent};
    int held = 0;
    TIDE_IGNORE(tide_registry_list(driver->options.sink->store, false, count_agent, &c, NULL));
    for (int i = 0; i < driver->holding.count; i++)
        held += !c.only || strcmp(c.only, driver->holding.agents[i].agent_id) == 0;
    pthread_mutex_lock(&driver->lock);
    driver->has_held = true;
    driver->result.agents = c.agents;
    driver->result.elsewhere = c.agents > held ? c.agents - held : 0;
    pthread_cond_broadcast(&driver->news);
    pthread_mutex_unlock(&driver->lock);
}

static void hold(keeper *k, int64_t now_us)
{
    tide_scheduler *driver = k->driver;
    tide_error err = {0};
    int64_t next_us = RETRY_US;
    const tide_status status =
        tide_holding_step(&driver->holding, driver->options.sink->store, &next_us, &err);
    if (status >= TIDE_OK) {
        k->held_until_us = now_us + driver->options.lease_us;
        sync_seats(k);
    } else {
        tell(k, "the agents' leases cannot be renewed", status, &err);
        next_us = RETRY_US;
        if (tide_scheduler_now(driver) >=
            k->held_until_us) /* the attempt itself may have taken long */
            let_go(driver, NULL, NULL);
    }
    /* Once: when all that can be had are there, nothing but renewing is left to do. */
    if (driver->options.is_once && next_us > CLAIMING_US) {
        if (!driver->has_held)
            begin_result(k);
        next_us = driver->options.lease_us / 3;
    }
    k->hold_due_us = now_us + next_us;
}

/* ---- gaps ---- */

static void add_recoveries(keeper *k, int64_t count)
{
    tide_scheduler *driver = k->driver;
    for (int64_t i = 0; i < count; i++) {
        pthread_mutex_lock(&driver->lock);
        const bool is_room =
            driver->recovery_count < TIDE_SCHEDULER_RECOVERIES && !driver->is_stopping;
        driver->recovery_count += is_room ? 1 : 0;
        pthread_mutex_unlock(&driver->lock);
        if (!is_room)
            return;
        tide_poll_job *job = tide_poll_job_new(driver);
        if (job && tide_scheduler_add(driver, job) >= TIDE_OK)
            continue;
        tide_poll_job_free(job);
        pthread_mutex_lock(&driver->lock);
        driver->recovery_count--;
        pthread_mutex_unlock(&driver->lock);
        return;
    }
}

static void plan(keeper *k, int64_t now_us)
{
    tide_error err = {0};
    int64_t added = 0;
    int64_t next_us = RETRY_US;
    const tide_status status =
        tide_recover_plan(&k->driver->recover_options, &added, &next_us, &err);
    if (status < TIDE_OK) {
        tell(k, "the recovery of gaps cannot be planned", status, &err);
        next_us = RETRY_US;
    }
    if (status >= TIDE_OK)
        k->recover_due_us = now_us; /* what was added, and what was put off */
    k->plan_due_us = now_us + (next_us < RETRY_US ? RETRY_US : next_us);
}

static void sweep(keeper *k, int64_t now_us)
{
    tide_error err = {0};
    tide_work_swept swept = {0};
    const tide_status status =
        tide_work_sweep(k->driver->options.sink->store, SWEEP_MAX, CRASH_MAX, &swept, &err);
    if (status < TIDE_OK)
        tell(k, "work whose worker is gone cannot be taken back", status, &err);
    k->sweep_due_us = now_us + SWEEP_US;
}

/* ---- retention ---- */

static void retain(keeper *k, int64_t now_us)
{
    tide_sink *sink = k->driver->options.sink;
    tide_error err = {0};
    tide_retained retained = {.next_us = RETRY_US};
    const tide_status status = sink->ops->retain(sink, TIDE_SCHEDULER_GAP_KEEP_US, &retained, &err);
    if (status < TIDE_OK) {
        tell(k, "rows cannot be expired", status, &err);
        retained.next_us = RETRY_US;
    }
    k->retain_due_us = now_us + retained.next_us;
}

/* ---- the thread ---- */

static void step(keeper *k)
{
    tide_scheduler *driver = k->driver;
    const int64_t now_us = tide_scheduler_now(driver);
    pthread_mutex_lock(&driver->lock);
    const bool is_look_due = driver->is_look_due;
    const bool is_plan_due = driver->is_plan_due;
    driver->is_look_due = false;
    driver->is_plan_due = false;
    const bool is_stopping = driver->is_stopping;
    pthread_mutex_unlock(&driver->lock);
    if (is_stopping)
        return;
    if (is_look_due || now_us >= k->hold_due_us)
        hold(k, now_us);
    if (now_us >= k->sweep_due_us)
        sweep(k, now_us);
    if (is_plan_due || now_us >= k->plan_due_us)
        plan(k, now_us);
    if (now_us >= k->recover_due_us) {
        add_recoveries(k, TIDE_SCHEDULER_RECOVERIES);
        k->recover_due_us = now_us + RECOVER_LOOK_US;
    }
    if (!driver->options.is_once && now_us >= k->retain_due_us)
        retain(k, now_us);
    if (!driver->options.is_once && now_us >= k->course_due_us) {
        tide_scheduler_course_look(driver);
        k->course_due_us = now_us + TIDE_SCHEDULER_COURSE_US;
    }
}

static int64_t min_of(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Sleep until something is due; false: it is over. */
static bool wait_for_due(keeper *k)
{
    tide_scheduler *driver = k->driver;
    int64_t due_us = min_of(k->hold_due_us, min_of(k->plan_due_us, k->sweep_due_us));
    due_us = min_of(due_us, k->recover_due_us);
    if (!driver->options.is_once)
        due_us = min_of(due_us, min_of(k->retain_due_us, k->course_due_us));
    pthread_mutex_lock(&driver->lock);
    const int64_t left_us = due_us - tide_scheduler_now(driver);
    const bool is_now = (driver->is_look_due || driver->is_plan_due) && !driver->is_stopping;
    if (!driver->is_closing && !is_now && left_us > 0)
        (void)!tide_cond_wait(&driver->news, &driver->lock, tide_cond_until(left_us));
    const bool is_closing = driver->is_closing;
    pthread_mutex_unlock(&driver->lock);
    return !is_closing;
}

void *tide_scheduler_keep(void *arg)
{
    tide_scheduler *driver = arg;
    keeper k = {.driver = driver};
    k.retain_due_us = tide_scheduler_now(driver) + RETRY_US;
    do
        step(&k);
    while (wait_for_due(&k));
    return NULL;
}
