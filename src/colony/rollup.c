#include "colony/rollup.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/list.h"
#include "base/text/utf8.h"

/* ---- buckets ---- */

/* The same additions in the same order as those that fill rollup_bounds: bounds are equal to the last bit. */
static double bound_of[TIDE_ROLLUP_BUCKETS];

__attribute__((constructor)) static void fill_bounds(void)
{
    bound_of[0] = 0.001;
    for (int i = 1; i < TIDE_ROLLUP_BUCKETS; i++)
        bound_of[i] = bound_of[i - 1] * 1.02;
}

double tide_rollup_bound(int bucket)
{
    return bound_of[bucket];
}

int tide_rollup_bucket(double ms)
{
    if (!(ms > bound_of[0])) /* NaN, too */
        return 0;
    int low = 0; /* ms lies above its bound */
    int high = TIDE_ROLLUP_BUCKETS - 1;
    while (high - low > 1) {
        const int middle = (low + high) / 2;
        if (ms > bound_of[middle])
            low = middle;
        else
            high = middle;
    }
    return high;
}

/* ---- what is counted ---- */

bool tide_rollup_has(tide_stream_kind kind)
{
    return kind == TIDE_STREAM_TELEMETRY || kind == TIDE_STREAM_BEYLA_HTTP ||
           kind == TIDE_STREAM_BEYLA_GRPC || kind == TIDE_STREAM_BEYLA_SQL;
}

typedef struct sample {
    double ms;
    int64_t count;
    bool is_error;
} sample;

static sample sample_of(tide_stream_kind kind, const tide_record_row *row)
{
    const tide_record_value *v = row->values;
    if (kind == TIDE_STREAM_TELEMETRY)
        return (sample){v[TIDE_SPAN_DURATION_MS].f64, 1, v[TIDE_SPAN_IS_ERROR].i64 != 0};
    if (kind == TIDE_STREAM_BEYLA_HTTP)
        return (sample){v[TIDE_HTTP_METRIC_LATENCY_BUCKET_MS].f64, v[TIDE_HTTP_METRIC_COUNT].i64,
                        v[TIDE_HTTP_METRIC_HTTP_STATUS_CODE].i64 >= 500};
    if (kind == TIDE_STREAM_BEYLA_GRPC)
        return (sample){v[TIDE_GRPC_METRIC_LATENCY_BUCKET_MS].f64, v[TIDE_GRPC_METRIC_COUNT].i64,
                        v[TIDE_GRPC_METRIC_GRPC_STATUS_CODE].i64 != 0};
    return (sample){v[TIDE_SQL_METRIC_LATENCY_BUCKET_MS].f64, v[TIDE_SQL_METRIC_COUNT].i64, false};
}

static int64_t minute_of(int64_t time_us)
{
    const int64_t rest = time_us % TIDE_ROLLUP_MINUTE_US;
    return time_us - (rest < 0 ? rest + TIDE_ROLLUP_MINUTE_US : rest);
}

/* ---- entries ---- */

void tide_rollup_init(tide_rollup *rollup, const tide_stream_type *type)
{
    memset(rollup, 0, sizeof *rollup);
    rollup->type = type;
}

void tide_rollup_done(tide_rollup *rollup)
{
    free(rollup->entries);
    free(rollup->slots);
    tide_rollup_init(rollup, rollup->type);
}

static uint64_t hash_of(const tide_rollup_entry *entry)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325) ^ (uint64_t)entry->minute_us;
    for (size_t i = 0; i < entry->service.len; i++)
        hash = (hash ^ (uint8_t)entry->service.ptr[i]) * UINT64_C(0x100000001b3);
    hash = (hash ^ (uint64_t)entry->bucket) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 29;
}

static bool is_same(const tide_rollup_entry *a, const tide_rollup_entry *b)
{
    return a->bucket == b->bucket && a->minute_us == b->minute_us &&
           tide_view_equal(a->service, b->service);
}

/* The slot of an equal entry, or a free one. */
static int *find_slot(const tide_rollup *rollup, const tide_rollup_entry *entry)
{
    const int mask = rollup->slot_count - 1;
    int at = (int)(hash_of(entry) & (uint64_t)mask);
    while (rollup->slots[at] > 0 && !is_same(&rollup->entries[rollup->slots[at] - 1], entry))
        at = (at + 1) & mask;
    return &rollup->slots[at];
}

/* At most half of the slots are in use. */
static tide_status grow(tide_rollup *rollup, tide_error *err)
{
    if (rollup->count < rollup->capacity)
        return TIDE_OK;
    const int capacity = rollup->capacity ? rollup->capacity * 2 : 256;
    TIDE_TRY(tide_list_resize(&rollup->entries, (size_t)capacity, sizeof *rollup->entries, err));
    int *slots = calloc((size_t)capacity * 2, sizeof *slots);
    TIDE_NEED_MEMORY(slots, err);
    free(rollup->slots);
    rollup->slots = slots;
    rollup->slot_count = capacity * 2;
    rollup->capacity = capacity;
    for (int i = 0; i < rollup->count; i++)
        *find_slot(rollup, &rollup->entries[i]) = i + 1;
    return TIDE_OK;
}

static int64_t add_up(int64_t a, int64_t b)
{
    return a + b < TIDE_ROLLUP_COUNT_MAX ? a + b : TIDE_ROLLUP_COUNT_MAX;
}

tide_status tide_rollup_add(tide_rollup *rollup, const tide_record_row *row, tide_view service,
                            int64_t time_us, tide_error *err)
{
    if (!tide_rollup_has(rollup->type->kind))
        return TIDE_OK;
    const sample s = sample_of(rollup->type->kind, row);
    if (s.count <= 0)
        return TIDE_OK;
    const int64_t count = s.count < TIDE_ROLLUP_COUNT_MAX ? s.count : TIDE_ROLLUP_COUNT_MAX;
    const tide_rollup_entry fresh = {.minute_us = minute_of(time_us),
                                     .service = tide_utf8_cut(service, TIDE_ROLLUP_SERVICE_MAX),
                                     .bucket = tide_rollup_bucket(s.ms)};
    TIDE_TRY(grow(rollup, err));
    int *slot = find_slot(rollup, &fresh);
    if (*slot == 0) {
        rollup->entries[rollup->count++] = fresh;
        *slot = rollup->count;
    }
    tide_rollup_entry *entry = &rollup->entries[*slot - 1];
    entry->count = add_up(entry->count, count);
    entry->errors = add_up(entry->errors, s.is_error ? count : 0);
    return TIDE_OK;
}

static int compare_entries(const void *left, const void *right)
{
    const tide_rollup_entry *a = left;
    const tide_rollup_entry *b = right;
    if (a->minute_us != b->minute_us)
        return a->minute_us < b->minute_us ? -1 : 1;
    const size_t len = a->service.len < b->service.len ? a->service.len : b->service.len;
    const int order = len > 0 ? memcmp(a->service.ptr, b->service.ptr, len) : 0;
    if (order != 0)
        return order;
    if (a->service.len != b->service.len)
        return a->service.len < b->service.len ? -1 : 1;
    return a->bucket - b->bucket;
}

void tide_rollup_sort(tide_rollup *rollup)
{
    if (rollup->count > 1)
        qsort(rollup->entries, (size_t)rollup->count, sizeof *rollup->entries, compare_entries);
}
