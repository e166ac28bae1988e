#include "services/colony/daemon.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "runtime/listener.h"
#include "services/colony/service.h"

struct tide_colonyd {
    const tide_colony_options *options;
    tide_listener *listener;
    tide_scheduler *scheduler;
    tide_colony colony;
};

/* ---- figures that are asked for when somebody looks ---- */

typedef struct lag_metrics {
    tide_metrics_writer *writer;
    tide_metric metric;
} lag_metrics;

static void write_lag(void *arg, const char *agent_id, const tide_poller_lag *lag)
{
    const lag_metrics *figures = arg;
    const char *const labels[] = {agent_id, lag->data_type, lag->hold};
    if (figures->metric == TIDE_METRIC_CHECKPOINT_LAG)
        tide_metrics_sample(figures->writer, labels, lag->lag_us);
    else if (figures->metric == TIDE_METRIC_COLONY_LAG)
        tide_metrics_sample(figures->writer, labels, lag->records);
    else if (figures->metric == TIDE_METRIC_COLONY_LAG_BYTES)
        tide_metrics_sample(figures->writer, labels, lag->bytes);
    else if (figures->metric == TIDE_METRIC_COLONY_UNTIL_LOSS && lag->loss_us != INT64_MAX)
        tide_metrics_sample(figures->writer, labels, lag->loss_us);
    else if (figures->metric == TIDE_METRIC_COLONY_HOLD && lag->hold[0])
        tide_metrics_sample(figures->writer, labels, 1);
}

static void write_lags(void *arg, tide_metrics_writer *writer)
{
    static const tide_metric metrics[] = {TIDE_METRIC_CHECKPOINT_LAG, TIDE_METRIC_COLONY_LAG,
                                          TIDE_METRIC_COLONY_LAG_BYTES,
                                          TIDE_METRIC_COLONY_UNTIL_LOSS, TIDE_METRIC_COLONY_HOLD};
    const tide_colonyd *r = arg;
    for (size_t i = 0; r->scheduler && i < sizeof metrics / sizeof metrics[0]; i++) {
        lag_metrics figures = {.writer = writer, .metric = metrics[i]};
        tide_metrics_family(writer, &tide_metric_rows[metrics[i]]);
        tide_scheduler_lags(r->scheduler, write_lag, &figures);
    }
}

typedef struct book_sums {
    int64_t unexplained;
    int64_t pending;
} book_sums;

static tide_status add_books(void *arg, const tide_position *position, const tide_gap_sums *gaps,
                             tide_error *err)
{
    (void)err;
    book_sums *sums = arg;
    tide_books books;
    tide_position_books(position, gaps, &books);
    sums->unexplained += books.unexplained < 0 ? -books.unexplained : books.unexplained;
    sums->pending += books.pending;
    return TIDE_OK;
}

typedef struct health_counts {
    int64_t counts[TIDE_AGENT_AWAY + 1];
} health_counts;

static tide_status count_health(void *arg, const tide_agent_row *agent, tide_error *err)
{
    (void)err;
    ((health_counts *)arg)->counts[agent->health]++;
    return TIDE_OK;
}

static void write_one(tide_metrics_writer *writer, tide_metric metric, int64_t value)
{
    tide_metrics_family(writer, &tide_metric_rows[metric]);
    tide_metrics_sample(writer, NULL, value);
}

static void write_books(void *arg, tide_metrics_writer *writer)
{
    const tide_colonyd *r = arg;
    tide_sink *sink = r->options->scheduler.sink;
    book_sums sums = {.pending = 0};
    health_counts health = {.counts = {0}};
    if (sink->ops->positions(sink, NULL, NULL, true, add_books, &sums, NULL) >= TIDE_OK) {
        write_one(writer, TIDE_METRIC_COLONY_UNEXPLAINED, sums.unexplained);
        write_one(writer, TIDE_METRIC_COLONY_PENDING, sums.pending);
    }
    if (tide_registry_list(sink->store, false, count_health, &health, NULL) < TIDE_OK)
        return;
    tide_metrics_family(writer, &tide_metric_rows[TIDE_METRIC_COLONY_AGENTS]);
    for (int i = 0; i <= TIDE_AGENT_AWAY; i++)
        tide_metrics_sample(writer,
                            (const char *const[]){tide_agent_health_name((tide_agent_health)i)},
                            health.counts[i]);
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

static tide_status start(void *arg, tide_error *err)
{
    tide_colonyd *r = arg;
    tide_scheduler_options options = r->options->scheduler;
    options.ticker = tide_listener_ticker(r->listener);
    options.metrics = tide_listener_metrics(r->listener);
    TIDE_TRY(tide_scheduler_open(&r->scheduler, &options, err));
    r->colony.scheduler = r->scheduler;
    r->colony.links = tide_scheduler_clients(r->scheduler);
    return tell_address(r, err);
}

static void leave(void *arg)
{
    const tide_colonyd *r = arg;
    if (r->scheduler)
        tide_scheduler_stop(r->scheduler);
}

void tide_colonyd_close(tide_colonyd *colonyd)
{
    if (!colonyd)
        return;
    tide_scheduler_close(colonyd->scheduler);
    tide_fleet_free(colonyd->colony.fleet);
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
    tide_metrics_add_source(tide_listener_metrics(r->listener), write_lags, r);
    tide_metrics_add_source(tide_listener_metrics(r->listener), write_books, r);
    TIDE_TRY(tide_listener_add(r->listener, tide_colony_methods, NULL, &r->colony, err));
    return tide_listener_join(r->listener, &component, err);
}

tide_status tide_colonyd_open(tide_colonyd **out, tide_listener *listener,
                              const tide_colony_options *options, tide_error *err)
{
    tide_colonyd *r = calloc(1, sizeof *r);
    if (!r)
        return tide_no_memory(err);
    *r = (tide_colonyd){.options = options,
                        .listener = listener,
                        .colony = {.sink = options->scheduler.sink,
                                   .env = options->listener.env,
                                   .duckdb_library = options->duckdb_library,
                                   .fleet = tide_fleet_new()}};
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
