#include "services/work/work_metrics.h"

#include <stdlib.h>
#include <string.h>

#include <tidemark/work.h>

#include "base/cleanup.h"
#include "base/lock.h"
#include "runtime/refresh.h"

enum { NAME = 129, TASKS = 10 };

typedef struct item_row {
    char work_type[NAME];
    char status[16];
    int64_t count;
    int64_t age_us;
} item_row;

typedef struct task_row {
    char task_id[NAME];
    int64_t checkpoints;
} task_row;

typedef struct figures {
    item_row items[TIDE_WORK_METRICS_MAX];
    int item_count;
    task_row tasks[TASKS];
    int task_count;
    tide_work_lease_stat leases;
} figures;

static void copy_text(char *out, size_t size, const char *text)
{
    const size_t len = strnlen(text, size - 1);
    memcpy(out, text, len);
    out[len] = '\0';
}

static tide_status keep_item(void *arg, const tide_work_stat *stat, tide_error *err)
{
    (void)err;
    figures *f = arg;
    if (f->item_count == TIDE_WORK_METRICS_MAX)
        return TIDE_OK;
    item_row *row = &f->items[f->item_count++];
    copy_text(row->work_type, sizeof row->work_type, stat->work_type);
    copy_text(row->status, sizeof row->status, stat->status);
    row->count = stat->count;
    row->age_us = (int64_t)(stat->mean_age_s * 1e6);
    return TIDE_OK;
}

static tide_status keep_leases(void *arg, const tide_work_lease_stat *stat, tide_error *err)
{
    (void)err;
    ((figures *)arg)->leases = *stat;
    return TIDE_OK;
}

static tide_status keep_task(void *arg, const tide_work_task_stat *stat, tide_error *err)
{
    (void)err;
    figures *f = arg;
    if (f->task_count == TASKS)
        return TIDE_OK;
    task_row *row = &f->tasks[f->task_count++];
    copy_text(row->task_id, sizeof row->task_id, stat->task_id);
    row->checkpoints = stat->checkpoint_count;
    return TIDE_OK;
}

/* ---- families ---- */

enum { ITEMS, AGE, LEASES, HEARTBEAT, CHECKPOINTS, FIGURES_AGE, ROWS };

static const tide_metric_row rows[ROWS] = {
    [ITEMS] = {.name = "tidemark_work_items",
               .type = TIDE_METRIC_GAUGE,
               .unit = "",
               .labels = "work_type,status",
               .help = "work items by type and status"},
    [AGE] = {.name = "tidemark_work_item_age_seconds",
             .type = TIDE_METRIC_GAUGE,
             .unit = "seconds",
             .labels = "work_type,status",
             .help = "mean age of work items by type and status"},
    [LEASES] = {.name = "tidemark_work_leases",
                .type = TIDE_METRIC_GAUGE,
                .unit = "",
                .labels = "state",
                .help = "leases that are held; stale ones had no heartbeat for two minutes"},
    [HEARTBEAT] = {.name = "tidemark_work_heartbeat_age_seconds",
                   .type = TIDE_METRIC_GAUGE,
                   .unit = "seconds",
                   .labels = "",
                   .help = "mean age of the held leases' heartbeats"},
    [CHECKPOINTS] = {.name = "tidemark_task_checkpoints",
                     .type = TIDE_METRIC_GAUGE,
                     .unit = "",
                     .labels = "task_id",
                     .help = "checkpoints of the ten tasks with the most"},
    [FIGURES_AGE] = {.name = "tidemark_work_figures_age_seconds",
                     .type = TIDE_METRIC_GAUGE,
                     .unit = "seconds",
                     .labels = "",
                     .help = "age of the figures of work items, leases and tasks beside it"},
};

const tide_metric_row *tide_work_metric_rows(size_t *count)
{
    *count = ROWS;
    return rows;
}

static void write_items(const figures *f, tide_metrics_writer *writer)
{
    tide_metrics_family(writer, &rows[ITEMS]);
    for (int i = 0; i < f->item_count; i++)
        tide_metrics_sample(writer,
                            (const char *const[]){f->items[i].work_type, f->items[i].status},
                            f->items[i].count);
    tide_metrics_family(writer, &rows[AGE]);
    for (int i = 0; i < f->item_count; i++)
        tide_metrics_sample(writer,
                            (const char *const[]){f->items[i].work_type, f->items[i].status},
                            f->items[i].age_us);
}

static void write_leases(const figures *f, tide_metrics_writer *writer)
{
    tide_metrics_family(writer, &rows[LEASES]);
    tide_metrics_sample(writer, (const char *const[]){"active"}, f->leases.active);
    tide_metrics_sample(writer, (const char *const[]){"stale"}, f->leases.stale);
    tide_metrics_family(writer, &rows[HEARTBEAT]);
    tide_metrics_sample(writer, NULL, (int64_t)(f->leases.mean_heartbeat_age_s * 1e6));
    tide_metrics_family(writer, &rows[CHECKPOINTS]);
    for (int i = 0; i < f->task_count; i++)
        tide_metrics_sample(writer, (const char *const[]){f->tasks[i].task_id},
                            f->tasks[i].checkpoints);
}

/* ---- life ---- */

/* Reading counts every item: it may take one fiftieth of the time, and a scrape that comes sooner
 * gets the last figures, with their age. */
enum { REST = 50 };

struct tide_work_metrics {
    tide_store *store;
    tide_env *env;
    tide_refresh refresh;
    pthread_mutex_t lock; /* of what follows */
    figures *figures;     /* NULL: never read */
    int64_t read_us;      /* when they were read, monotonic */
    int64_t took_us;
};

static int64_t find_age(tide_work_metrics *m, bool *is_due)
{
    TIDE_HOLD(&m->lock);
    const int64_t age_us = m->env->mono_us(m->env) - m->read_us;
    *is_due = !m->figures || age_us >= REST * m->took_us;
    return age_us;
}

static void write_figures(void *arg, tide_metrics_writer *writer)
{
    tide_work_metrics *m = arg;
    bool is_due = false;
    (void)find_age(m, &is_due);
    if (is_due)
        tide_refresh_request(&m->refresh);
    const int64_t age_us = find_age(m, &is_due);
    TIDE_HOLD(&m->lock);
    if (m->figures) {
        tide_metrics_family(writer, &rows[FIGURES_AGE]);
        tide_metrics_sample(writer, NULL, age_us);
        write_items(m->figures, writer);
        write_leases(m->figures, writer);
    }
}

static tide_status read_figures(tide_work_metrics *m, tide_error *err)
{
    static const tide_work_stats_fns fns = {TIDE_WORK_STATS_FNS_INIT, .item = keep_item,
                                            .lease = keep_leases, .task = keep_task};
    TIDE_CLEANUP(tide_freep) TIDE_NEW(figures, fresh, err);
    const int64_t begun_us = m->env->mono_us(m->env);
    TIDE_TRY(tide_work_stats(m->store, &fns, fresh, err));
    (void)pthread_mutex_lock(&m->lock);
    figures *old = m->figures;
    m->figures = TIDE_TAKE(fresh);
    m->read_us = m->env->mono_us(m->env);
    m->took_us = m->read_us - begun_us;
    (void)pthread_mutex_unlock(&m->lock);
    free(old);
    return TIDE_OK;
}

static tide_status run_figures(void *arg, int64_t *next_us, tide_error *err)
{
    tide_work_metrics *m = arg;
    const uint64_t turn = tide_refresh_begin(&m->refresh);
    const tide_status status = read_figures(m, err);
    if (status >= TIDE_OK)
        *next_us = INT64_MAX;
    tide_refresh_end(&m->refresh, turn);
    return status;
}

const tide_step tide_step_work_figures = {
    .name = "work_figures",
    .summary = "read the figures of work items and tasks for /metrics",
    .run = run_figures,
    .lane = TIDE_LANE_OWN,
};

tide_status tide_work_metrics_new(tide_work_metrics **out, tide_store *store, tide_metrics *metrics,
                                  tide_ticker *ticker, tide_error *err)
{
    TIDE_NEW(tide_work_metrics, m, err);
    m->store = store;
    m->env = tide_store_env(store);
    (void)pthread_mutex_init(&m->lock, NULL);
    tide_refresh_init(&m->refresh, ticker, tide_step_work_figures.name);
    const tide_status status =
        tide_ticker_bind(ticker, &tide_step_work_figures, &(tide_step_binding){.arg = m}, err);
    if (status < TIDE_OK) {
        tide_work_metrics_free(m);
        return status;
    }
    tide_metrics_add_source(metrics, write_figures, m);
    *out = m;
    return TIDE_OK;
}

void tide_work_metrics_free(tide_work_metrics *metrics)
{
    if (!metrics)
        return;
    tide_refresh_done(&metrics->refresh);
    (void)pthread_mutex_destroy(&metrics->lock);
    free(metrics->figures);
    free(metrics);
}
