/* scheduler_metrics.c - what happened, as metrics; and how agents are, in the registry: see scheduler_internal.h. */

#include "runtime/store_watch.h"
#include "services/colony/scheduler_internal.h"

#define NOTE_US INT64_C(5000000) /* an agent that goes on as before is noted so often */

static void count(tide_scheduler *scheduler, tide_metric metric, const char *first,
                  const char *second, int64_t by)
{
    if (scheduler->options.metrics && by > 0)
        tide_series_add(tide_metrics_series(scheduler->options.metrics, metric, first, second), by);
}

/* A counter that is not there cannot be told from one that stands still: what alerts look at begins at 0. In a large fleet most of them would stay
 * there, and take the places of those that do not. */
void tide_scheduler_begin_metrics(tide_scheduler *scheduler, const char *agent_id,
                                  const char *data_type)
{
    static const tide_metric counters[] = {TIDE_METRIC_GAPS_DETECTED, TIDE_METRIC_GAPS_RECOVERED,
                                           TIDE_METRIC_GAPS_PERMANENT, TIDE_METRIC_GAPS_VOID};
    if (!scheduler->options.metrics)
        return;
    for (size_t i = 0; i < sizeof counters / sizeof counters[0]; i++)
        tide_series_add(
            tide_metrics_series(scheduler->options.metrics, counters[i], agent_id, data_type), 0);
}

uint64_t tide_scheduler_version(const tide_scheduler *scheduler)
{
    return atomic_load(&scheduler->version);
}

static void on_polled(void *arg, const char *agent_id, const char *data_type, int64_t elapsed_us,
                      int64_t records, int64_t bytes)
{
    tide_scheduler *scheduler = arg;
    if (!scheduler->options.metrics)
        return;
    tide_series_observe(tide_metrics_series(scheduler->options.metrics, TIDE_METRIC_POLL_QUERY,
                                            data_type, agent_id),
                        elapsed_us);
    count(scheduler, TIDE_METRIC_COLONY_RECEIVED, data_type, NULL, records);
    count(scheduler, TIDE_METRIC_COLONY_RECEIVED_BYTES, data_type, NULL, bytes);
}

static void on_applied(void *arg, const tide_change *change)
{
    tide_scheduler *scheduler = arg;
    const char *agent_id = change->from.agent_id;
    atomic_fetch_add(&scheduler->version, 1);
    if (scheduler->options.store_watch)
        tide_store_watch_sink(scheduler->options.store_watch, TIDE_OK, "");
    const char *data_type = change->from.data_type;
    count(scheduler, TIDE_METRIC_COLONY_STORED, data_type, NULL, change->stored);
    count(scheduler, TIDE_METRIC_COLONY_REPEATED, data_type, NULL, change->repeated);
    count(scheduler, TIDE_METRIC_COLONY_DEAD, data_type, NULL, change->dead_count);
    count(scheduler, TIDE_METRIC_GAPS_DETECTED, agent_id, data_type, change->detected);
    count(scheduler, TIDE_METRIC_GAPS_RECOVERED, agent_id, data_type, change->recovered);
    count(scheduler, TIDE_METRIC_GAPS_PERMANENT, agent_id, data_type, change->permanent);
    count(scheduler, TIDE_METRIC_GAPS_VOID, agent_id, data_type, change->voided);
    if (change->is_closing)
        count(scheduler, TIDE_METRIC_COLONY_CLOSED, agent_id, change->closed.closed_reason, 1);
    if (change->detected > 0)
        tide_scheduler_recover(scheduler);
}

static void on_failed(void *arg, const char *agent_id, const char *data_type, tide_status status,
                      const char *text)
{
    (void)text;
    (void)data_type;
    count(arg, TIDE_METRIC_COLONY_FAILURES, agent_id, tide_status_get(status)->name, 1);
}

static void on_not_stored(void *arg, const char *agent_id, const char *data_type,
                          tide_status status, const char *text)
{
    const tide_scheduler *scheduler = arg;
    if (scheduler->options.store_watch)
        tide_store_watch_sink(scheduler->options.store_watch, status, text);
    count(arg, TIDE_METRIC_CHECKPOINT_FAILURES, data_type, agent_id, 1);
}

tide_poller_events tide_scheduler_events(tide_scheduler *scheduler)
{
    return (tide_poller_events){.arg = scheduler,
                                .polled = on_polled,
                                .applied = on_applied,
                                .failed = on_failed,
                                .not_stored = on_not_stored};
}

static bool is_failure(tide_status status)
{
    return status < TIDE_OK && status != TIDE_E_UNSUPPORTED && status != TIDE_E_NOT_FOUND &&
           status != TIDE_E_LIMIT;
}

/* An agent that answers watches and refuses pages is failing until a page succeeds. */
static bool is_success(const tide_poll_job *job, bool is_failing)
{
    return !tide_poller_has_failures(job->poller) &&
           (!is_failing || !job->is_watching || tide_poller_is_caught_up(job->poller));
}

/* What could not be stored because the store is down is no failure of the agent. */
static bool is_for_store(const tide_scheduler *scheduler, const tide_poll_job *job)
{
    tide_store_state store = {.is_up = true};
    if (scheduler->options.store_watch)
        tide_store_watch_state(scheduler->options.store_watch, &store);
    return !store.is_up && tide_poller_is_sink_trouble(job->poller);
}

/* The registry is written to when the agent's state turns, and every now and then while it stays. */
void tide_scheduler_note(tide_poll_job *job, tide_status status, const char *text)
{
    tide_scheduler *scheduler = job->scheduler;
    tide_board *board = scheduler->options.board;
    const int64_t now_us = tide_scheduler_now(scheduler);
    if (status == TIDE_E_INTERRUPTED)
        return;
    const bool is_bad = is_failure(status);
    if (is_bad && is_for_store(scheduler, job))
        return;
    if (is_bad)
        tide_board_failed(board, job->entry, text);
    else if (is_success(job, tide_board_is_failing(board, job->entry)))
        tide_board_succeeded(board, job->entry);
    else
        return;
    if (job->noted_us != 0 && is_bad == job->was_bad && now_us - job->noted_us < NOTE_US)
        return;
    if (job->noted_us == 0 || is_bad != job->was_bad)
        atomic_fetch_add(&scheduler->version, 1);
    job->noted_us = now_us;
    job->was_bad = is_bad;
    TIDE_IGNORE(tide_registry_note(scheduler->options.sink->store, job->agent_id,
                                   is_bad ? text : NULL, NULL));
}
