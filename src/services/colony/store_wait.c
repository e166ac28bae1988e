#include "services/colony/store_wait.h"

#include <pthread.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "base/lock.h"

#define RETRY_US INT64_C(1000000)

enum { ADDRESS_MAX = 256 };

/* The addresses outlive the listener: the colony gets them. */
static char addresses[TIDE_LISTENER_PORTS_MAX][ADDRESS_MAX];

typedef struct waiting {
    const tide_store_wait *wait;
    tide_listener *listener;
    int64_t begun_us;
    pthread_mutex_t lock; /* of what follows */
    tide_error failure;   /* of the last attempt */
    bool is_open;
    bool is_refused;
} waiting;

bool tide_store_wait_is_away(tide_status status)
{
    return status == TIDE_E_UNAVAILABLE || status == TIDE_E_TIMEOUT;
}

static tide_status open_store(void *arg, int64_t *next_us, tide_error *err)
{
    waiting *w = arg;
    *next_us = RETRY_US;
    const tide_status status = w->wait->open_store(w->wait->arg, err);
    (void)pthread_mutex_lock(&w->lock);
    w->is_open = status >= TIDE_OK;
    w->is_refused = status < TIDE_OK && !tide_store_wait_is_away(status);
    if (status < TIDE_OK)
        w->failure = *err;
    const bool is_over = w->is_open || w->is_refused;
    (void)pthread_mutex_unlock(&w->lock);
    if (!is_over)
        return TIDE_NONE; /* logged once, when the wait began */
    *next_us = INT64_MAX;
    tide_listener_finish(w->listener);
    return TIDE_OK;
}

const tide_step tide_step_store_open = {.name = "store_open",
                                        .summary = "open the store as soon as it answers",
                                        .run = open_store,
                                        .lane = TIDE_LANE_OWN};

static bool is_healthy(void *arg, tide_error *why)
{
    waiting *w = arg;
    TIDE_HOLD(&w->lock);
    TIDE_IGNORE(tide_fail(why, TIDE_E_UNAVAILABLE, "store is down: %s", w->failure.text));
    return false;
}

static void write_metrics(void *arg, tide_metrics_writer *writer)
{
    const waiting *w = arg;
    tide_env *env = w->wait->listener->env;
    const int64_t age_us = env->mono_us(env) - w->begun_us;
    const char *const labels[] = {w->wait->store};
    tide_metrics_family(writer, &tide_metric_rows[TIDE_METRIC_COLONY_STORE_UP]);
    tide_metrics_sample(writer, NULL, 0);
    tide_metrics_family(writer, &tide_metric_rows[TIDE_METRIC_COLONY_STORE_AGE]);
    tide_metrics_sample(writer, NULL, age_us);
    tide_metrics_family(writer, &tide_metric_rows[TIDE_METRIC_STORE_UP]);
    tide_metrics_sample(writer, labels, 0);
    tide_metrics_family(writer, &tide_metric_rows[TIDE_METRIC_STORE_AGE]);
    tide_metrics_sample(writer, labels, age_us);
}

static tide_status start(void *arg, tide_error *err)
{
    waiting *w = arg;
    tide_listener_options *options = w->wait->listener;
    for (int i = 0; i < options->port_count; i++) {
        (void)snprintf(addresses[i], ADDRESS_MAX, "%s", tide_listener_address(w->listener, i));
        options->ports[i].address = addresses[i];
    }
    return tide_ticker_bind(tide_listener_ticker(w->listener), &tide_step_store_open,
                            &(tide_step_binding){.arg = w, .delay_us = RETRY_US}, err);
}

static void waiting_done(waiting *w)
{
    tide_listener_close(w->listener);
    (void)pthread_mutex_destroy(&w->lock);
}

tide_status tide_store_wait_run(const tide_store_wait *wait, bool *is_open, tide_error *err)
{
    static const tide_step *const steps[] = {TIDE_LISTENER_STEPS, &tide_step_store_open, NULL};
    TIDE_CLEANUP(waiting_done)
    waiting w = {.wait = wait, .begun_us = wait->listener->env->mono_us(wait->listener->env)};
    (void)pthread_mutex_init(&w.lock, NULL);
    TIDE_IGNORE(tide_fail(&w.failure, TIDE_E_UNAVAILABLE, "%s", wait->reason));
    tide_listener_options options = *wait->listener;
    options.store = NULL;
    options.steps = steps;
    tide_log_write(options.log, TIDE_LOG_ERROR, "store is down, waiting for it",
                   TIDE_F("reason", wait->reason), TIDE_F_END);
    TIDE_TRY(tide_listener_open(&w.listener, &options, err));
    tide_metrics_add_source(tide_listener_metrics(w.listener), write_metrics, &w);
    const tide_listener_component component = {.start = start, .is_healthy = is_healthy, .arg = &w};
    TIDE_TRY(tide_listener_join(w.listener, &component, err));
    TIDE_TRY(tide_listener_serve(w.listener, err));
    if (w.is_refused)
        return tide_fail(err, w.failure.status, "%s", w.failure.text);
    *is_open = w.is_open;
    return TIDE_OK;
}
