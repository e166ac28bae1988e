#include "services/colony/daemon.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "runtime/listener.h"
#include "runtime/store_watch.h"
#include "services/colony/service.h"
#include "store/readonly_query.h"

struct tide_colonyd {
    const tide_colony_options *options;
    tide_listener *listener;
    tide_board *board;
    tide_scheduler *scheduler;
    tide_colony colony;
};

/* ---- metrics: of the board and of the newest view, never of the store itself ---- */

typedef struct lag_metrics {
    tide_metrics_writer *writer;
    tide_metric metric;
} lag_metrics;

static void write_lag(void *arg, const char *agent_id, const tide_poller_lag *lag)
{
    const lag_metrics *m = arg;
    const char *const labels[] = {agent_id, lag->data_type, lag->hold};
    if (m->metric == TIDE_METRIC_CHECKPOINT_LAG)
        tide_metrics_sample(m->writer, labels, lag->lag_us);
    else if (m->metric == TIDE_METRIC_COLONY_LAG)
        tide_metrics_sample(m->writer, labels, lag->records);
    else if (m->metric == TIDE_METRIC_COLONY_LAG_BYTES)
        tide_metrics_sample(m->writer, labels, lag->bytes);
    else if (m->metric == TIDE_METRIC_COLONY_UNTIL_LOSS && lag->loss_us != INT64_MAX)
        tide_metrics_sample(m->writer, labels, lag->loss_us);
    else if (m->metric == TIDE_METRIC_COLONY_HOLD && lag->hold[0])
        tide_metrics_sample(m->writer, labels, 1);
}

static void write_lags(const tide_colonyd *r, tide_metrics_writer *writer)
{
    static const tide_metric metrics[] = {TIDE_METRIC_CHECKPOINT_LAG, TIDE_METRIC_COLONY_LAG,
                                          TIDE_METRIC_COLONY_LAG_BYTES,
                                          TIDE_METRIC_COLONY_UNTIL_LOSS, TIDE_METRIC_COLONY_HOLD};
    for (size_t i = 0; i < sizeof metrics / sizeof metrics[0]; i++) {
        lag_metrics m = {.writer = writer, .metric = metrics[i]};
        tide_metrics_family(writer, &tide_metric_rows[metrics[i]]);
        tide_board_lags(r->board, write_lag, &m);
    }
}

static void write_agent(void *arg, const tide_board_state *state)
{
    const lag_metrics *m = arg;
    const char *const labels[] = {state->agent_id};
    tide_metrics_sample(m->writer, labels,
                        m->metric == TIDE_METRIC_COLONY_AGENT_UP
                            ? state->is_polled && !state->is_bad && state->good_us != 0
                            : state->age_us);
}

static void write_agents(const tide_colonyd *r, tide_metrics_writer *writer)
{
    static const tide_metric metrics[] = {TIDE_METRIC_COLONY_AGENT_UP,
                                          TIDE_METRIC_COLONY_AGENT_AGE};
    for (size_t i = 0; i < sizeof metrics / sizeof metrics[0]; i++) {
        lag_metrics m = {.writer = writer, .metric = metrics[i]};
        tide_metrics_family(writer, &tide_metric_rows[metrics[i]]);
        tide_board_agents(r->board, write_agent, &m);
    }
}

static void write_one(tide_metrics_writer *writer, tide_metric metric, int64_t value)
{
    tide_metrics_family(writer, &tide_metric_rows[metric]);
    tide_metrics_sample(writer, NULL, value);
}

static void write_health(const tide_colonyd *r, const tide_fleet_view *view,
                         tide_metrics_writer *writer)
{
    int64_t counts[TIDE_AGENT_AWAY + 1] = {0};
    for (size_t i = 0; i < view->agent_count; i++) {
        tide_agent_row row = view->agents[i];
        tide_board_judge(r->board, &row);
        counts[row.health] += row.is_removed ? 0 : 1;
    }
    tide_metrics_family(writer, &tide_metric_rows[TIDE_METRIC_COLONY_AGENTS]);
    for (int i = 0; i <= TIDE_AGENT_AWAY; i++)
        tide_metrics_sample(
            writer, (const char *const[]){tide_agent_health_name((tide_agent_health)i)}, counts[i]);
}

static void write_lost(const tide_fleet_view *view, tide_metrics_writer *writer)
{
    tide_metrics_family(writer, &tide_metric_rows[TIDE_METRIC_COLONY_LOST]);
    for (size_t i = 0; i < view->stream_count; i++) {
        const tide_fleet_stream *stream = &view->streams[i];
        const char *const labels[] = {stream->agent_id, view->types[stream->type]};
        tide_metrics_sample(writer, labels, stream->lost);
    }
}

static void write_view(const tide_colonyd *r, tide_metrics_writer *writer)
{
    const tide_env *env = r->options->listener.env;
    TIDE_CLEANUP(tide_fleet_view_releasep)
    tide_fleet_view *view =
        r->colony.collector ? tide_collector_get(r->colony.collector, INT64_MAX) : NULL;
    if (!view)
        return;
    write_one(writer, TIDE_METRIC_COLONY_VIEW_AGE,
              env->mono_us((tide_env *)env) - view->collected_us);
    write_one(writer, TIDE_METRIC_COLONY_UNEXPLAINED, view->unexplained);
    write_one(writer, TIDE_METRIC_COLONY_PENDING, view->pending);
    write_lost(view, writer);
    write_health(r, view, writer);
}

static void write_clock(const tide_colonyd *r, tide_metrics_writer *writer)
{
    int64_t offset_us = 0;
    const bool is_known = tide_board_clock(r->board, &offset_us);
    if (is_known)
        write_one(writer, TIDE_METRIC_COLONY_CLOCK_OFFSET, offset_us);
    write_one(writer, TIDE_METRIC_COLONY_CLOCK_SUSPECT, llabs(offset_us) > TIDE_BOARD_CLOCK_US);
}

static void write_metrics(void *arg, tide_metrics_writer *writer)
{
    const tide_colonyd *r = arg;
    tide_store_state store;
    tide_store_watch_state(r->colony.store_watch, &store);
    write_one(writer, TIDE_METRIC_COLONY_STORE_UP, store.is_up);
    write_one(writer, TIDE_METRIC_COLONY_STORE_AGE, store.age_us);
    write_clock(r, writer);
    write_lags(r, writer);
    write_agents(r, writer);
    write_view(r, writer);
}

/* ---- steps ---- */

#define STATUS_US INT64_C(1000000)

static tide_status log_status(void *arg, int64_t *next_us, tide_error *err)
{
    (void)err;
    *next_us = STATUS_US;
    tide_board_log(arg);
    return TIDE_OK;
}

const tide_step tide_step_agent_status = {
    .name = "agent_status",
    .summary = "log agents that begin or cease to fail",
    .run = log_status,
    .lane = TIDE_LANE_OWN,
};

static bool is_elsewhere(const tide_colonyd *r, const tide_agent_row *row)
{
    return row->is_removed ||
           (row->holder[0] && strcmp(row->holder, r->options->scheduler.colony_id) != 0);
}

/* Agents that another colony held a moment ago. Beyond a few it is one line: a colony that ends
 * leaves all of its agents at once. */
static void log_takeovers(const tide_colonyd *r, const tide_fleet_view *view,
                          const tide_fleet_view *before)
{
    const char *own = r->options->scheduler.colony_id;
    int count = 0;
    for (size_t i = 0; before && i < view->agent_count; i++) {
        const tide_agent_row *row = &view->agents[i];
        const tide_agent_row *old =
            strcmp(row->holder, own) == 0 ? tide_fleet_view_agent(before, row->agent_id) : NULL;
        if (!old || !old->last_holder[0] || strcmp(old->last_holder, own) == 0)
            continue;
        if (++count <= TIDE_BOARD_LINES)
            tide_log_write(r->options->scheduler.log, TIDE_LOG_WARN, "agent taken over",
                           TIDE_F("agent", row->agent_id), TIDE_F("from", old->last_holder),
                           TIDE_F_END);
    }
    if (count > TIDE_BOARD_LINES)
        tide_log_write(r->options->scheduler.log, TIDE_LOG_WARN, "further agents taken over",
                       TIDE_FI("agents", count - TIDE_BOARD_LINES), TIDE_F_END);
}

/* Agents of another colony leave the board; streams of ours that have not answered yet join it. */
static void handle_view(void *arg, const tide_fleet_view *view, const tide_fleet_view *before)
{
    const tide_colonyd *r = arg;
    log_takeovers(r, view, before);
    for (size_t i = 0; i < view->agent_count; i++)
        if (is_elsewhere(r, &view->agents[i]))
            tide_board_drop(r->board, view->agents[i].agent_id);
    for (size_t i = 0; i < view->stream_count; i++) {
        const tide_fleet_stream *stream = &view->streams[i];
        if (stream->is_open)
            tide_board_put_stream(r->board, stream->agent_id, view->types[stream->type],
                                  stream->checkpoint, stream->head, stream->unread);
    }
}

/* ---- wiring ---- */

/* Wildcards are for listening; whoever reads the file stands on this machine. */
static void name_address(char *out, size_t size, const char *address, bool is_tls)
{
    static const char *const wildcards[] = {"0.0.0.0:", "[::]:", "*:"};
    const char *scheme = is_tls ? "https://" : "http://";
    for (size_t i = 0; i < sizeof wildcards / sizeof wildcards[0]; i++) {
        const size_t len = strlen(wildcards[i]);
        if (strncmp(address, wildcards[i], len) == 0) {
            (void)snprintf(out, size, "%s127.0.0.1:%s", scheme, address + len);
            return;
        }
    }
    (void)snprintf(out, size, "%s%s", strncmp(address, "unix:", 5) == 0 ? "" : scheme, address);
}

/* How to reach us, and whom to trust: see cli/colony/colony_store.h. */
static tide_status tell_address(const tide_colonyd *r, tide_error *err)
{
    char address[512];
    char path[PATH_MAX] = "";
    char lines[sizeof address + sizeof path + 8];
    const char *cert = r->options->listener.tls_cert;
    if (!r->options->address_file)
        return TIDE_OK;
    name_address(address, sizeof address, tide_listener_address(r->listener, 0), cert);
    if (cert && !realpath(cert, path))
        path[0] = '\0';
    (void)snprintf(lines, sizeof lines, "%s\n%s%s%s", address, *path ? "ca " : "", path,
                   *path ? "\n" : "");
    return tide_file_replace(r->options->address_file, tide_view_of(lines), err);
}

const tide_step *const tidemark_colony_steps[] = {TIDE_LISTENER_STEPS, TIDE_COLONY_STEPS,
                                                  &tide_step_sweep, NULL};

static tide_status open_status(tide_colonyd *r, tide_error *err)
{
    tide_ticker *ticker = tide_listener_ticker(r->listener);
    const tide_collector_options options = {.sink = r->options->scheduler.sink,
                                            .env = r->options->listener.env,
                                            .watch = r->colony.store_watch,
                                            .ticker = ticker,
                                            .on_view = handle_view,
                                            .arg = r};
    TIDE_TRY(tide_collector_open(&r->colony.collector, &options, err));
    tide_collector_begin(r->colony.collector);
    return tide_ticker_bind(ticker, &tide_step_agent_status, &(tide_step_binding){.arg = r->board},
                            err);
}

static tide_status start(void *arg, tide_error *err)
{
    tide_colonyd *r = arg;
    tide_scheduler_options options = r->options->scheduler;
    options.ticker = tide_listener_ticker(r->listener);
    options.metrics = tide_listener_metrics(r->listener);
    options.board = r->board;
    options.store_watch = r->colony.store_watch;
    TIDE_TRY(open_status(r, err));
    TIDE_TRY(tide_scheduler_open(&r->scheduler, &options, err));
    r->colony.scheduler = r->scheduler;
    r->colony.links = tide_scheduler_clients(r->scheduler);
    return tell_address(r, err);
}

static void leave(void *arg)
{
    const tide_colonyd *r = arg;
    if (r->board)
        tide_board_end_log(r->board);
    if (r->scheduler)
        tide_scheduler_stop(r->scheduler);
}

void tide_colonyd_close(tide_colonyd *colonyd)
{
    if (!colonyd)
        return;
    tide_scheduler_close(colonyd->scheduler);
    tide_fleet_free(colonyd->colony.fleet);
    tide_collector_close(colonyd->colony.collector);
    tide_board_free(colonyd->board);
    if (colonyd->options->address_file)
        (void)unlink(colonyd->options->address_file);
    free(colonyd);
}

uint64_t tide_colonyd_version(const tide_colonyd *colonyd)
{
    return colonyd->scheduler ? tide_scheduler_version(colonyd->scheduler) : 0;
}

static tide_status join(tide_colonyd *r, tide_error *err)
{
    const tide_listener_component component = {.start = start, .leave = leave, .arg = r};
    TIDE_TRY(tide_board_new(&r->board, r->options->listener.env, r->options->scheduler.log, err));
    r->colony.board = r->board;
    r->colony.store_watch = tide_listener_store_watch(r->listener);
    tide_metrics_add_source(tide_listener_metrics(r->listener), write_metrics, r);
    TIDE_TRY(tide_listener_queries(r->listener, &r->colony.queries, err));
    TIDE_TRY(tide_listener_add(r->listener, tide_colony_methods, NULL, &r->colony, err));
    return tide_listener_join(r->listener, &component, err);
}

tide_status tide_colonyd_open(tide_colonyd **out, tide_listener *listener,
                              const tide_colony_options *options, tide_error *err)
{
    TIDE_NEW(tide_colonyd, r, err);
    *r = (tide_colonyd){.options = options,
                        .listener = listener,
                        .colony = {.sink = options->scheduler.sink,
                                   .env = options->listener.env,
                                   .duckdb_library = options->duckdb_library,
                                   .export_dir = options->export_dir,
                                   .is_sql_trusted = options->is_sql_trusted,
                                   .fleet = tide_fleet_new()}};
    const tide_sink *sink = options->scheduler.sink;
    if (sink && strcmp(sink->ops->name, "sqlite") == 0)
        r->colony.query_target = (tide_query_target){.kind = TIDE_QUERY_SQLITE,
                                                     .path = tide_readonly_query_file(sink->store)};
    const tide_status status = join(r, err);
    if (status < TIDE_OK) {
        tide_colonyd_close(r);
        return status;
    }
    *out = r;
    return TIDE_OK;
}

static void close_component(void *component)
{
    tide_colonyd_close(component);
}

tide_status tide_colony_run(const tide_colony_options *options, tide_error *err)
{
    TIDE_CLEANUP(tide_single_service_done) tide_single_service single = {.close = close_component};
    tide_colonyd *colonyd = NULL;
    tide_listener_options listener = options->listener;
    listener.steps = tidemark_colony_steps;
    TIDE_TRY(tide_listener_open(&single.listener, &listener, err));
    if (options->scheduler.sink && options->scheduler.sink->store)
        tide_listener_watch_store(single.listener, options->scheduler.sink->store);
    TIDE_TRY(tide_colonyd_open(&colonyd, single.listener, options, err));
    single.component = colonyd;
    return tide_single_service_serve(&single, err);
}
