#include "services/lake/metrics.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/lock.h"
#include "net/codec/status_details.h"
#include "runtime/refresh.h"
#include "store/statement.h"
#include "tidemark_lake_sql.h"

/* X(id, name, unit, labels, help), in the order of lake_figures */
#define HELD(X)                                                                                    \
    X(CATALOGS, "tidemark_lake_catalogs", "", "catalogs that are there")                           \
    X(SNAPSHOTS, "tidemark_lake_snapshots", "", "snapshots that are not expired, of all catalogs") \
    X(FILES, "tidemark_lake_data_files", "files", "data files that a snapshot needs")              \
    X(BYTES, "tidemark_lake_data_bytes", "bytes", "bytes of them")                                 \
    X(DELETE_FILES, "tidemark_lake_delete_files", "files",                                         \
      "files of deleted positions that a snapshot needs")                                          \
    X(DELETE_BYTES, "tidemark_lake_delete_bytes", "bytes", "bytes of them")                        \
    X(SCHEDULED, "tidemark_lake_scheduled_files", "files", "files that wait for cleanup")          \
    X(PINS, "tidemark_lake_pins", "", "readers and writers that hold a snapshot")

enum {
#define ID(id, ...) HELD_##id,
    HELD(ID)
#undef ID
        HELD_COUNT
};

static const tide_metric_row rows[HELD_COUNT] = {
#define ROW(id_, name_, unit_, help_)                                                              \
    [HELD_##id_] = {.name = (name_),                                                               \
                    .type = TIDE_METRIC_GAUGE,                                                     \
                    .unit = (unit_),                                                               \
                    .labels = "",                                                                  \
                    .help = (help_)},
    HELD(ROW)
#undef ROW
};

const tide_metric_row *tide_lake_metric_rows(size_t *count)
{
    *count = HELD_COUNT;
    return rows;
}

struct tide_lake_metrics {
    tide_metrics *metrics;
    tide_store *store;
    tide_env *env;
    tide_refresh refresh;
    pthread_mutex_t lock;
    int64_t held[HELD_COUNT];
    int64_t looked_us; /* 0: never */
};

/* ---- what was done ---- */

static void count_result(tide_lake_metrics *f, const char *result)
{
    tide_series_add(tide_metrics_series(f->metrics, TIDE_METRIC_LAKE_COMMITS, result), 1);
}

static void count_failure(tide_lake_metrics *f, tide_status status)
{
    char word[64];
    (void)snprintf(word, sizeof word, "%s", tide_status_reason(status));
    for (char *at = word; *at; at++)
        *at = (char)(*at >= 'A' && *at <= 'Z' ? *at + 32 : *at);
    count_result(f, word);
}

/* The kind of a mark: its first word. */
static void count_conflict(tide_lake_metrics *f, const tide_lake_change *change)
{
    char kind[64];
    const tide_lake_collision *with = tide_lake_change_collision(change);
    if (with->snapshot_id == 0)
        return;
    (void)snprintf(kind, sizeof kind, "%.*s", (int)strcspn(with->mark, " "), with->mark);
    tide_series_add(tide_metrics_series(f->metrics, TIDE_METRIC_LAKE_CONFLICTS, kind), 1);
}

static void count_retries(tide_lake_metrics *f, const tide_lake_change *change)
{
    int count = 0;
    const tide_status *retries = tide_lake_change_retries(change, &count);
    for (int i = 0; i < count; i++)
        tide_series_add(tide_metrics_series(f->metrics, TIDE_METRIC_LAKE_RETRIES,
                                            tide_status_reason(retries[i])),
                        1);
}

static void count_rows(tide_lake_metrics *f, const tide_lake_work *work)
{
    tide_series_add(tide_metrics_series(f->metrics, TIDE_METRIC_LAKE_ROWS, "added"),
                    work->result.rows_added);
    tide_series_add(tide_metrics_series(f->metrics, TIDE_METRIC_LAKE_ROWS, "deleted"),
                    work->deleted);
    tide_metrics_add(f->metrics, TIDE_METRIC_LAKE_WRITTEN_FILES, work->files);
    tide_metrics_add(f->metrics, TIDE_METRIC_LAKE_WRITTEN_BYTES, work->bytes);
}

void tide_lake_metrics_committed(tide_lake_metrics *f, const tide_lake_work *work,
                                 tide_status status, int64_t took_us)
{
    if (work->change) {
        count_conflict(f, work->change);
        count_retries(f, work->change);
    }
    if (status < TIDE_OK) {
        count_failure(f, status);
        return;
    }
    if (work->result.is_replay || work->is_unchanged) {
        count_result(f, work->is_unchanged ? "unchanged" : "replayed");
        return;
    }
    count_result(f, "committed");
    count_rows(f, work);
    tide_metrics_observe(f->metrics, TIDE_METRIC_LAKE_COMMIT, took_us);
}

void tide_lake_metrics_made(tide_lake_metrics *f, tide_status status, bool was_there)
{
    if (status < TIDE_OK)
        count_failure(f, status);
    else
        count_result(f, was_there ? "unchanged" : "committed");
}

/* ---- what is there ---- */

static tide_status look(tide_tx *tx, void *arg, tide_error *err)
{
    int64_t *held = arg;
    TIDE_QUERY_BY(query, tide_tx_one, tx, TIDE_LAKE_SQL_LAKE_FIGURES, err, TIDE_NO_BIND);
    for (int i = 0; i < HELD_COUNT; i++)
        held[i] = tide_query_col_i64(query);
    return TIDE_OK;
}

static bool is_fresh(tide_lake_metrics *f)
{
    TIDE_HOLD(&f->lock);
    return f->looked_us != 0 && f->env->mono_us(f->env) - f->looked_us < TIDE_LAKE_FIGURES_US;
}

static void write_figures(void *arg, tide_metrics_writer *writer)
{
    tide_lake_metrics *f = arg;
    if (!is_fresh(f))
        tide_refresh_request(&f->refresh);
    TIDE_HOLD(&f->lock);
    for (int i = 0; f->looked_us != 0 && i < HELD_COUNT; i++) {
        tide_metrics_family(writer, &rows[i]);
        tide_metrics_sample(writer, NULL, f->held[i]);
    }
}

static tide_status run_figures(void *arg, int64_t *next_us, tide_error *err)
{
    tide_lake_metrics *f = arg;
    int64_t held[HELD_COUNT];
    const uint64_t turn = tide_refresh_begin(&f->refresh);
    const tide_status status = tide_store_read(f->store, look, held, err);
    if (status >= TIDE_OK) {
        *next_us = INT64_MAX;
        (void)pthread_mutex_lock(&f->lock);
        memcpy(f->held, held, sizeof held);
        f->looked_us = f->env->mono_us(f->env);
        (void)pthread_mutex_unlock(&f->lock);
    }
    tide_refresh_end(&f->refresh, turn);
    return status;
}

const tide_step tide_step_lake_figures = {
    .name = "lake_figures",
    .summary = "read the figures of catalogs and files for /metrics",
    .run = run_figures,
    .lane = TIDE_LANE_OWN,
};

/* ---- life ---- */

tide_status tide_lake_metrics_new(tide_lake_metrics **out, tide_metrics *metrics,
                                  tide_ticker *ticker, tide_store *store, tide_error *err)
{
    TIDE_NEW(tide_lake_metrics, f, err);
    f->metrics = metrics;
    f->store = store;
    f->env = tide_store_env(store);
    (void)pthread_mutex_init(&f->lock, NULL);
    tide_refresh_init(&f->refresh, ticker, tide_step_lake_figures.name);
    const tide_status status =
        tide_ticker_bind(ticker, &tide_step_lake_figures, &(tide_step_binding){.arg = f}, err);
    if (status < TIDE_OK) {
        tide_lake_metrics_free(f);
        return status;
    }
    tide_metrics_add_source(metrics, write_figures, f);
    *out = f;
    return TIDE_OK;
}

void tide_lake_metrics_free(tide_lake_metrics *metrics)
{
    if (!metrics)
        return;
    tide_refresh_done(&metrics->refresh);
    (void)pthread_mutex_destroy(&metrics->lock);
    free(metrics);
}
