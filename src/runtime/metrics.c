#include "runtime/metrics.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/lock.h"
#include "base/text/utf8.h"
#include "runtime/metrics_internal.h"

/* Microseconds, from a response of a cache to a wait that a person gives up. */
static const int64_t latency_bounds[] = {100,     250,     500,     1000,    2500,   5000,
                                         10000,   25000,   50000,   100000,  250000, 500000,
                                         1000000, 2500000, 5000000, 10000000};
/* Of work: a millisecond to a day. */
static const int64_t work_bounds[] = {1000,      10000,      100000,     500000,      1000000,
                                      5000000,   10000000,   30000000,   60000000,    300000000,
                                      600000000, 1800000000, 3600000000, 21600000000, 86400000000};
static const int64_t count_bounds[] = {1, 10, 100, 1000, 10000, 100000};

#define BOUNDS_NONE NULL
#define BOUNDS_LATENCY latency_bounds
#define BOUNDS_COUNT count_bounds
#define BOUNDS_WORK work_bounds
#define BOUND_COUNT_NONE 0
#define BOUND_COUNT_LATENCY ((int)(sizeof latency_bounds / sizeof latency_bounds[0]))
#define BOUND_COUNT_COUNT ((int)(sizeof count_bounds / sizeof count_bounds[0]))
#define BOUND_COUNT_WORK ((int)(sizeof work_bounds / sizeof work_bounds[0]))

_Static_assert(BOUND_COUNT_LATENCY <= TIDE_METRICS_BUCKET_MAX &&
                   BOUND_COUNT_WORK <= TIDE_METRICS_BUCKET_MAX,
               "room for the bounds");

const tide_metric_row tide_metric_rows[TIDE_METRIC_COUNT] = {
#define METRIC_ROW(id, name_, type_, unit_, labels_, buckets_, help_)                              \
    [TIDE_METRIC_##id] = {                                                                         \
        .name = (name_),                                                                           \
        .type = TIDE_METRIC_##type_,                                                               \
        .unit = (unit_),                                                                           \
        .labels = (labels_),                                                                       \
        .help = (help_),                                                                           \
        .bounds = BOUNDS_##buckets_,                                                               \
        .bound_count = BOUND_COUNT_##buckets_,                                                     \
    },
    TIDE_METRICS_TABLE(METRIC_ROW)
#undef METRIC_ROW
};

static int metric_label_count(const tide_metric_row *row)
{
    int count = row->labels[0] ? 1 : 0;
    for (const char *at = row->labels; *at; at++)
        count += *at == ',';
    assert(count <= TIDE_METRICS_LABEL_MAX);
    return count;
}

/* ---- making them ---- */

static int get_series_max(const tide_metric_row *row)
{
    return strstr(row->labels, "agent_id") ? TIDE_METRICS_AGENT_SERIES_MAX
                                           : TIDE_METRICS_SERIES_MAX;
}

static tide_series **find_slot(const tide_metric_family *family, uint64_t hash)
{
    return &family->slots[hash & (family->slot_count - 1)];
}

/* Room for one more: at most as many series as slots. False: no memory. */
static bool grow(tide_metric_family *family)
{
    enum { SLOTS_MIN = 16 };
    if ((size_t)family->series_count < family->slot_count)
        return true;
    const size_t count = family->slot_count ? family->slot_count * 2 : SLOTS_MIN;
    tide_series **slots = calloc(count, sizeof(tide_series *));
    if (!slots)
        return false;
    free(family->slots);
    family->slots = slots;
    family->slot_count = count;
    for (tide_series *series = family->first; series; series = series->next) {
        tide_series **slot = find_slot(family, series->hash);
        series->next_slot = *slot;
        *slot = series;
    }
    return true;
}

/* Owns the values from here on. NULL: too many series, or no memory. */
static tide_series *add_series(tide_metric_family *family, char *values[], int count, uint64_t hash)
{
    if (family->series_count == family->series_max - 1 || !grow(family))
        return NULL;
    tide_series *series = calloc(1, sizeof *series);
    if (!series)
        return NULL;
    series->row = family->row;
    series->hash = hash;
    for (int i = 0; i < count; i++) {
        series->owned[i] = values[i];
        series->values[i] = values[i];
        values[i] = NULL;
    }
    tide_series **slot = find_slot(family, hash);
    series->next_slot = *slot;
    *slot = series;
    if (family->last)
        family->last->next = series;
    else
        family->first = series;
    family->last = series;
    family->series_count++;
    return series;
}

static tide_status add_plain_series(tide_metrics *metrics, tide_error *err)
{
    for (int id = 0; id < TIDE_METRIC_COUNT; id++) {
        tide_metric_family *family = &metrics->families[id];
        family->row = &tide_metric_rows[id];
        family->other.row = family->row;
        family->series_max = get_series_max(family->row);
        for (int i = 0; i < metric_label_count(family->row); i++)
            family->other.values[i] = "other";
        if (!family->row->labels[0] && !add_series(family, NULL, 0, 0))
            return tide_no_memory(err);
    }
    return TIDE_OK;
}

tide_status tide_metrics_new(tide_metrics **out, const char *version, tide_env *env,
                             tide_error *err)
{
    TIDE_CLEANUP(tide_metrics_freep) TIDE_NEW(tide_metrics, metrics, err);
    (void)pthread_mutex_init(&metrics->lock, NULL);
    (void)pthread_mutex_init(&metrics->writing, NULL);
    metrics->env = env;
    TIDE_TRY(add_plain_series(metrics, err));
    tide_series_set(tide_metrics_series(metrics, TIDE_METRIC_BUILD, version), 1);
    tide_metrics_set(metrics, TIDE_METRIC_START_TIME, env->wall_us(env));
    *out = TIDE_TAKE(metrics);
    return TIDE_OK;
}

static void free_series(tide_series *series)
{
    if (!series)
        return;
    for (int i = 0; i < TIDE_METRICS_LABEL_MAX; i++)
        free(series->owned[i]);
    free(series);
}

static void end_family(tide_metric_family *family)
{
    while (family->first) {
        tide_series *series = family->first;
        family->first = series->next;
        free_series(series);
    }
    free(family->slots);
}

void tide_metrics_free(tide_metrics *metrics)
{
    if (!metrics)
        return;
    for (int id = 0; id < TIDE_METRIC_COUNT; id++)
        end_family(&metrics->families[id]);
    (void)pthread_mutex_destroy(&metrics->lock);
    (void)pthread_mutex_destroy(&metrics->writing);
    free(metrics);
}

/* ---- finding a series ---- */

static bool has_values(const tide_series *series, char *const values[], int count)
{
    for (int i = 0; i < count; i++)
        if (strcmp(series->values[i], values[i]) != 0)
            return false;
    return true;
}

/* FNV-1a over the values with their ends. A caller that chooses values can make them collide; the
 * number of series is bounded. */
static uint64_t hash_values(char *const values[], int count)
{
    uint64_t hash = UINT64_C(14695981039346656037);
    for (int i = 0; i < count; i++)
        for (const char *at = values[i];; at++) {
            hash = (hash ^ (unsigned char)*at) * UINT64_C(1099511628211);
            if (!*at)
                break;
        }
    return hash ^ hash >> 32;
}

/* A label's value as it is kept: valid, and not longer than its maximum. NULL: no memory. */
static char *clean_value(const char *value)
{
    size_t replaced = 0;
    TIDE_BUFFER(text, (size_t)TIDE_METRICS_VALUE_MAX * 3);
    const tide_view cut = tide_utf8_cut(tide_view_of(value ? value : ""), TIDE_METRICS_VALUE_MAX);
    if (tide_utf8_clean(&text, cut, &replaced) < TIDE_OK)
        return NULL;
    return strdup(tide_buffer_text(&text));
}

static tide_series *find_or_add(tide_metrics *metrics, tide_metric_family *family, char *values[],
                                int count, bool *is_other)
{
    const uint64_t hash = hash_values(values, count);
    tide_series *found = NULL;
    *is_other = false;
    TIDE_HOLD(&metrics->lock);
    if (family->slots)
        found = *find_slot(family, hash);
    while (found && !(found->hash == hash && has_values(found, values, count)))
        found = found->next_slot;
    if (!found)
        found = add_series(family, values, count, hash);
    if (!found) {
        found = &family->other;
        family->has_other = true;
        *is_other = true;
    }
    return found;
}

tide_series *tide_metrics_series_of(tide_metrics *metrics, tide_metric id,
                                    const char *const values[TIDE_METRICS_LABEL_MAX])
{
    tide_metric_family *family = &metrics->families[id];
    const int count = metric_label_count(family->row);
    assert(count > 0);
    char *clean[TIDE_METRICS_LABEL_MAX] = {NULL};
    bool is_clean = true;
    bool is_other = true;
    for (int i = 0; i < count; i++) {
        clean[i] = clean_value(values[i]);
        is_clean = is_clean && clean[i];
    }
    tide_series *found = &family->other;
    if (is_clean)
        found = find_or_add(metrics, family, clean, count, &is_other);
    for (int i = 0; i < count; i++)
        free(clean[i]);
    if (is_other && id != TIDE_METRIC_OVERFLOWS)
        tide_series_add(tide_metrics_series(metrics, TIDE_METRIC_OVERFLOWS, family->row->name), 1);
    return found;
}

/* ---- counting ---- */

void tide_series_add(tide_series *series, int64_t by)
{
    assert(series->row->type != TIDE_METRIC_HISTOGRAM);
    assert(by >= 0 || series->row->type == TIDE_METRIC_GAUGE);
    atomic_store_explicit(&series->is_set, true, memory_order_relaxed);
    (void)atomic_fetch_add_explicit(&series->value, by, memory_order_relaxed);
}

void tide_series_set(tide_series *series, int64_t value)
{
    assert(series->row->type != TIDE_METRIC_HISTOGRAM);
    atomic_store_explicit(&series->is_set, true, memory_order_relaxed);
    atomic_store_explicit(&series->value, value, memory_order_relaxed);
}

void tide_series_observe(tide_series *series, int64_t value)
{
    const tide_metric_row *row = series->row;
    assert(row->type == TIDE_METRIC_HISTOGRAM);
    int at = 0;
    while (at < row->bound_count && value > row->bounds[at])
        at++;
    (void)atomic_fetch_add_explicit(&series->buckets[at], 1, memory_order_relaxed);
    (void)atomic_fetch_add_explicit(&series->value, value, memory_order_relaxed);
}

int64_t tide_series_value(const tide_series *series)
{
    if (series->row->type != TIDE_METRIC_HISTOGRAM)
        return atomic_load_explicit((atomic_int_fast64_t *)&series->value, memory_order_relaxed);
    int64_t count = 0;
    for (int i = 0; i <= series->row->bound_count; i++)
        count +=
            atomic_load_explicit((atomic_int_fast64_t *)&series->buckets[i], memory_order_relaxed);
    return count;
}

static tide_series *get_plain(tide_metrics *metrics, tide_metric id)
{
    assert(!metrics->families[id].row->labels[0]);
    return metrics->families[id].first;
}

void tide_metrics_add(tide_metrics *metrics, tide_metric id, int64_t by)
{
    tide_series_add(get_plain(metrics, id), by);
}

void tide_metrics_set(tide_metrics *metrics, tide_metric id, int64_t value)
{
    tide_series_set(get_plain(metrics, id), value);
}

void tide_metrics_observe(tide_metrics *metrics, tide_metric id, int64_t value)
{
    tide_series_observe(get_plain(metrics, id), value);
}

void tide_metrics_add_source(tide_metrics *metrics, tide_metrics_source_fn *fn, void *arg)
{
    assert(metrics->source_count < TIDE_METRICS_SOURCE_MAX);
    metrics->sources[metrics->source_count++] = (tide_metrics_source){.fn = fn, .arg = arg};
}
