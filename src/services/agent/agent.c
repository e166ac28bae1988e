#include "services/agent/agent.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "runtime/listener.h"
#include "services/agent/maintenance.h"
#include "services/agent/services.h"

enum { RESERVE_LEN = 16 << 20 }; /* not shorter than the log between two checkpoints */

struct tide_agent {
    const tide_agent_options *options;
    tide_feed *feed;
    tide_long_poll *waiter;
    tide_feed_writer *writer;
    tide_otlp_pool *otlp;
    tide_streams_board *board;
    tide_listener *listener;
    tide_agent_maintenance *maintenance;
    tide_agent_services services;
};

/* ---- figures ---- */

/* Asked for when somebody looks: heads and floors are in the store anyway. */
typedef struct stream_figures {
    tide_metrics_writer *writer;
    tide_metric metric;
} stream_figures;

static tide_status write_stream(void *arg, const tide_feed_stream *stream, tide_error *err)
{
    (void)err;
    const stream_figures *figures = arg;
    tide_metrics_sample(figures->writer, (const char *const[]){stream->name},
                        figures->metric == TIDE_METRIC_FEED_HEAD ? stream->head_seq
                                                                 : stream->oldest_seq);
    return TIDE_OK;
}

static void write_streams(void *arg, tide_metrics_writer *writer)
{
    static const tide_metric metrics[] = {TIDE_METRIC_FEED_HEAD, TIDE_METRIC_FEED_OLDEST};
    const tide_agent *a = arg;
    for (size_t i = 0; i < sizeof metrics / sizeof metrics[0]; i++) {
        tide_error ignored = {0};
        stream_figures figures = {.writer = writer, .metric = metrics[i]};
        tide_metrics_family(writer, &tide_metric_rows[metrics[i]]);
        TIDE_IGNORE(tide_feed_list(a->feed, write_stream, &figures, &ignored));
    }
}

/* Retention and reads tell what was given up; they begin when the figures are there (open_components). */
static void count_lost(void *arg, const char *stream, const char *reason, int64_t records)
{
    const tide_agent *a = arg;
    if (a->listener)
        tide_series_add(tide_metrics_series(tide_listener_metrics(a->listener),
                                            TIDE_METRIC_FEED_LOST, stream, reason),
                        records);
}

/* ---- wiring ---- */

static void tell_raised(const tide_agent *a)
{
    tide_feed_counters counters;
    char count[24];
    tide_feed_count(a->feed, &counters);
    (void)snprintf(count, sizeof count, "%" PRId64, counters.raised);
    if (counters.raised > 0)
        tide_log_write(a->options->listener.log, TIDE_LOG_ERROR,
                       "counters stood below stored records and were raised: look with feed verify",
                       TIDE_F("streams", count), TIDE_F_END);
}

static tide_status open_components(tide_agent *a, tide_error *err)
{
    const tide_agent_options *options = a->options;
    tide_store *store = options->listener.store;
    tide_metrics *metrics = tide_listener_metrics(a->listener);
    TIDE_TRY(tide_long_poll_open(&a->waiter, store, TIDE_FEED_TOPIC, err));
    TIDE_TRY(tide_feed_writer_open(
        &a->writer, a->feed, options->listener.env,
        &(tide_feed_writer_options){.queue_max = options->queue_max,
                                    .metrics = metrics,
                                    .watch = tide_listener_store_watch(a->listener)},
        err));
    TIDE_TRY(tide_otlp_pool_new(&a->otlp, options->listener.env, a->feed, options->sample_fraction,
                                err));
    TIDE_TRY(tide_streams_board_new(&a->board, err));
    a->services = (tide_agent_services){.board = a->board,
                                        .env = options->listener.env,
                                        .feed = a->feed,
                                        .writer = a->writer,
                                        .waiter = a->waiter,
                                        .otlp = a->otlp,
                                        .metrics = metrics,
                                        .name = options->name,
                                        .retention_us = tide_feed_get_options(a->feed)->keep_us,
                                        .is_declaring = options->is_declaring};
    tide_metrics_add_source(metrics, write_streams, a);
    TIDE_TRY(
        tide_listener_add(a->listener, tide_agent_otlp, tide_agent_otlp_routes, &a->services, err));
    TIDE_TRY(tide_listener_add(a->listener, tide_agent_queries, NULL, &a->services, err));
    TIDE_TRY(tide_listener_add(a->listener, tide_agent_streams, NULL, &a->services, err));
    return tide_listener_add(a->listener, tide_agent_ingest, NULL, &a->services, err);
}

const tide_step *const tidemark_agent_steps[] = {TIDE_LISTENER_STEPS, TIDE_AGENT_STEPS, NULL};

static tide_status start(void *arg, tide_error *err)
{
    tide_agent *a = arg;
    tide_ticker *ticker = tide_listener_ticker(a->listener);
    const tide_agent_maintenance_options options = {.feed = a->feed,
                                                    .writer = a->writer,
                                                    .env = a->options->listener.env,
                                                    .collect_us = a->options->collect_us};
    TIDE_TRY(tide_agent_maintenance_open(&a->maintenance, &options, err));
    return tide_agent_maintenance_bind(a->maintenance, ticker, err);
}

static bool is_healthy(void *arg, tide_error *why)
{
    tide_agent *a = arg;
    return !a->writer || tide_feed_writer_is_healthy(a->writer, why);
}

static void leave(void *arg)
{
    const tide_agent *a = arg;
    tide_long_poll_end(a->waiter);
}

/* Whoever may still be told something is ended before what he is told of: those who wait, those who write. */
void tide_agent_close(tide_agent *a)
{
    if (!a)
        return;
    tide_agent_maintenance_close(a->maintenance);
    tide_long_poll_close(a->waiter);
    tide_feed_writer_close(a->writer);
    tide_otlp_pool_free(a->otlp);
    tide_streams_board_free(a->board);
    tide_feed_close(a->feed);
    free(a);
}

static tide_status open_feed(tide_agent *a, tide_error *err)
{
    tide_feed_options feed = a->options->feed;
    feed.size = sizeof feed;
    if (feed.reserve_bytes == 0)
        feed.reserve_bytes = RESERVE_LEN;
    feed.on_loss = count_lost;
    feed.on_loss_arg = a;
    TIDE_TRY(tide_feed_open(&a->feed, a->options->listener.store, &feed, err));
    tell_raised(a);
    return TIDE_OK;
}

tide_status tide_agent_open(tide_agent **out, tide_listener *listener,
                            const tide_agent_options *options, tide_error *err)
{
    TIDE_NEW(tide_agent, a, err);
    a->options = options;
    a->listener = listener;
    const tide_listener_component component = {
        .start = start, .leave = leave, .is_healthy = is_healthy, .arg = a};
    tide_status status = open_feed(a, err);
    if (status >= TIDE_OK)
        status = open_components(a, err);
    if (status >= TIDE_OK)
        status = tide_listener_join(listener, &component, err);
    if (status < TIDE_OK) {
        tide_agent_close(a);
        return status;
    }
    *out = a;
    return TIDE_OK;
}

static void close_component(void *component)
{
    tide_agent_close(component);
}

tide_status tide_agent_run(const tide_agent_options *options, tide_error *err)
{
    TIDE_CLEANUP(tide_single_service_done) tide_single_service single = {.close = close_component};
    tide_agent *agent = NULL;
    tide_listener_options listener = options->listener;
    listener.steps = tidemark_agent_steps;
    TIDE_TRY(tide_listener_open(&single.listener, &listener, err));
    TIDE_TRY(tide_agent_open(&agent, single.listener, options, err));
    single.component = agent;
    return tide_single_service_serve(&single, err);
}
