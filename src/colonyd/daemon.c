#include "colonyd/daemon.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "colonyd/service.h"

typedef struct running {
    const tide_colony_options *options;
    tide_front *front;
    tide_driver *driver;
    tide_colony colony;
} running;

/* ---- figures that are asked for when somebody looks ---- */

typedef struct lag_figures {
    tide_metrics_writer *writer;
    tide_metric metric;
} lag_figures;

static void write_lag(void *arg, const char *agent_id, const tide_poller_lag *lag)
{
    const lag_figures *figures = arg;
    const char *const labels[] = {agent_id, lag->data_type, lag->hold};
    if (figures->metric == TIDE_METRIC_CHECKPOINT_LAG)
        tide_metrics_sample(figures->writer, labels, lag->lag_us);
    else if (figures->metric == TIDE_METRIC_COLONY_LAG)
        tide_metrics_sample(figures->writer, labels, lag->records);
    else if (figures->metric == TIDE_METRIC_COLONY_UNTIL_LOSS && lag->loss_us != INT64_MAX)
        tide_metrics_sample(figures->writer, labels, lag->loss_us);
    else if (figures->metric == TIDE_METRIC_COLONY_HOLD && lag->hold[0])
        tide_metrics_sample(figures->writer, labels, 1);
}

static void write_lags(void *arg, tide_metrics_writer *writer)
{
    static const tide_metric metrics[] = {TIDE_METRIC_CHECKPOINT_LAG, TIDE_METRIC_COLONY_LAG,
                                          TIDE_METRIC_COLONY_UNTIL_LOSS, TIDE_METRIC_COLONY_HOLD};
    const running *r = arg;
    for (size_t i = 0; r->driver && i < sizeof metrics / sizeof metrics[0]; i++) {
        lag_figures figures = {.writer = writer, .metric = metrics[i]};
        tide_metrics_family(writer, &tide_metric_rows[metrics[i]]);
        tide_driver_lags(r->driver, write_lag, &figures);
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
    const running *r = arg;
    tide_sink *sink = r->options->driver.sink;
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

static tide_status tell_address(const running *r, tide_error *err)
{
    char line[300];
    if (!r->options->address_file)
        return TIDE_OK;
    (void)snprintf(line, sizeof line, "%s\n", tide_front_address(r->front, 0));
    return tide_file_replace(r->options->address_file, tide_view_of(line), err);
}

static tide_status start(void *arg, tide_error *err)
{
    running *r = arg;
    tide_driver_options options = r->options->driver;
    options.metrics = tide_front_metrics(r->front);
    TIDE_TRY(tide_driver_open(&r->driver, &options, err));
    r->colony.driver = r->driver;
    r->colony.links = tide_driver_links(r->driver);
    return tell_address(r, err);
}

static void leave(void *arg)
{
    const running *r = arg;
    if (r->driver)
        tide_driver_stop(r->driver);
}

static void running_done(running *r)
{
    tide_front_stop(r->front); /* no calls from here on */
    tide_driver_close(r->driver);
    tide_front_close(r->front);
    if (r->options->address_file)
        (void)unlink(r->options->address_file);
}

tide_status tide_colony_run(const tide_colony_options *options, tide_error *err)
{
    TIDE_CLEANUP(running_done) running r = {.options = options};
    r.colony = (tide_colony){.sink = options->driver.sink,
                             .env = options->front.env,
                             .duckdb_library = options->duckdb_library};
    tide_front_options front = options->front;
    front.start = start;
    front.leave = leave;
    front.arg = &r;
    TIDE_TRY(tide_front_open(&r.front, &front, err));
    tide_metrics_add_source(tide_front_metrics(r.front), write_lags, &r);
    tide_metrics_add_source(tide_front_metrics(r.front), write_books, &r);
    TIDE_TRY(tide_front_add(r.front, tide_colony_methods, NULL, &r.colony, err));
    return tide_front_serve(r.front, err);
}
