#include "services/agent/maintenance.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "services/agent/collector.h"

#define NEWS_US INT64_C(1000000)    /* between looks for new commits */
#define FAILED_US INT64_C(10000000) /* the same, while writes fail */

struct tide_agent_maintenance {
    tide_agent_maintenance_options options;
    tide_collector *collector; /* NULL: none */

    /* retention */
    int64_t retained_commits; /* of the feed, at the last run */
    int64_t retained_failures;
    int64_t retention_due_us;

    /* writes */
    int64_t commits;
    int64_t failures;
    bool is_failing;

    int64_t collect_due_us;
};

static int64_t now_of(const tide_agent_maintenance *m)
{
    return m->options.env->mono_us(m->options.env);
}

/* ---- retention ---- */

/* What was stored, or could not be, may exceed the limits: a run cannot know that when it sets the time of the
 * next one. */
static bool has_news(tide_agent_maintenance *m)
{
    tide_feed_counters counters;
    tide_error last;
    tide_feed_count(m->options.feed, &counters);
    const int64_t failures = tide_feed_writer_failures(m->options.writer, &last);
    const bool has = counters.commits != m->retained_commits || failures != m->retained_failures;
    m->retained_commits = counters.commits;
    m->retained_failures = failures;
    return has;
}

static tide_status retain(void *arg, int64_t *next_us, tide_error *err)
{
    tide_agent_maintenance *m = arg;
    const int64_t now_us = now_of(m);
    int64_t due_us = 0;
    *next_us = NEWS_US;
    if (!has_news(m) && now_us < m->retention_due_us) {
        due_us = m->retention_due_us - now_us;
        *next_us = due_us < NEWS_US ? due_us : NEWS_US;
        return TIDE_NONE;
    }
    TIDE_TRY(tide_feed_step(m->options.feed, &due_us, err));
    m->retention_due_us = now_of(m) + due_us;
    *next_us = due_us < NEWS_US ? due_us : NEWS_US;
    return TIDE_OK;
}

const tide_step tide_step_feed_retention = {
    .name = "feed_retention",
    .summary = "delete records beyond the limits of age and size",
    .run = retain,
};

/* ---- writes ---- */

/* Writes fail from the first record that could not be stored until one was stored without another failure. */
static tide_status check_writes(void *arg, int64_t *next_us, tide_error *err)
{
    tide_agent_maintenance *m = arg;
    tide_feed_counters counters;
    tide_error last;
    tide_feed_count(m->options.feed, &counters);
    const int64_t failures = tide_feed_writer_failures(m->options.writer, &last);
    const bool has_failed = failures != m->failures;
    const bool has_stored = counters.commits != m->commits;
    m->failures = failures;
    m->commits = counters.commits;
    m->is_failing = has_failed || (m->is_failing && !has_stored);
    *next_us = m->is_failing ? FAILED_US : NEWS_US;
    if (!m->is_failing)
        return TIDE_NONE;
    return tide_fail(err, last.status, "records could not be stored: %s", last.text);
}

const tide_step tide_step_feed_writes = {
    .name = "feed_writes",
    .summary = "report records that could not be stored",
    .run = check_writes,
};

/* ---- metrics of the machine ---- */

typedef struct sample {
    tide_feed_put put; /* first: the writer returns it */
    tide_record_batch batch;
} sample;

static void free_sample(sample *s)
{
    tide_record_batch_done(&s->batch);
    free(s);
}

/* A failure to store it is counted by the writer (feed_writes). */
static void end_sample(tide_feed_put *put, tide_status status, const tide_error *err)
{
    (void)status;
    (void)err;
    free_sample((sample *)put);
}

static tide_status put_sample(tide_agent_maintenance *m, tide_error *err)
{
    TIDE_NEW(sample, s, err);
    tide_record_batch_init(&s->batch, tide_stream_type_of(TIDE_STREAM_SYSTEM_METRICS), 0);
    tide_status status = tide_collector_step(m->collector, &s->batch, err);
    if (status >= TIDE_OK) {
        s->put.done = end_sample;
        s->put.records[0] = tide_record_batch_feed(&s->batch, NULL);
        s->put.count = s->batch.count > 0 ? 1 : 0;
        status = tide_feed_writer_put(m->options.writer, &s->put, err);
        if (status >= TIDE_OK)
            return TIDE_OK; /* the writer's, which may have freed it */
    }
    free_sample(s);
    return status;
}

/* At a steady rate; samples that a sleep of the machine has left out are not made up for. */
static tide_status collect(void *arg, int64_t *next_us, tide_error *err)
{
    tide_agent_maintenance *m = arg;
    const int64_t now_us = now_of(m);
    m->collect_due_us += m->options.collect_us;
    if (m->collect_due_us <= now_us)
        m->collect_due_us = now_us + m->options.collect_us;
    const tide_status status = put_sample(m, err);
    const int64_t left_us = m->collect_due_us - now_of(m);
    *next_us = left_us > 0 ? left_us : 0;
    return status;
}

const tide_step tide_step_collect = {
    .name = "collect",
    .summary = "store metrics of the machine",
    .run = collect,
};

/* ---- life ---- */

tide_status tide_agent_maintenance_open(tide_agent_maintenance **out,
                                        const tide_agent_maintenance_options *options,
                                        tide_error *err)
{
    TIDE_NEW(tide_agent_maintenance, m, err);
    m->options = *options;
    const tide_status status = options->collect_us > 0
                                   ? tide_collector_new(&m->collector, NULL, options->env, err)
                                   : TIDE_OK;
    if (status < TIDE_OK) {
        tide_agent_maintenance_close(m);
        return status;
    }
    *out = m;
    return TIDE_OK;
}

void tide_agent_maintenance_close(tide_agent_maintenance *m)
{
    if (!m)
        return;
    tide_collector_free(m->collector);
    free(m);
}

tide_status tide_agent_maintenance_bind(tide_agent_maintenance *m, tide_ticker *ticker,
                                        tide_error *err)
{
    const tide_step_binding binding = {.arg = m};
    m->collect_due_us = now_of(m);
    TIDE_TRY(tide_ticker_bind(ticker, &tide_step_feed_retention, &binding, err));
    TIDE_TRY(tide_ticker_bind(ticker, &tide_step_feed_writes, &binding, err));
    if (m->collector)
        return tide_ticker_bind(ticker, &tide_step_collect, &binding, err);
    tide_ticker_skip(ticker, &tide_step_collect);
    return TIDE_OK;
}
