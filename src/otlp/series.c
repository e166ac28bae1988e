#include "otlp/series.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/list.h"

enum { NONE = -1, HEADS = 2 * TIDE_OTLP_SERIES_MAX };

/* What is remembered of a point. */
typedef struct state {
    uint64_t start_ns;
    uint64_t time_ns;
    uint64_t request;
    uint64_t version;
    uint64_t layout; /* of explicit bounds; 0: exponential */
    uint64_t zero_count;
    int64_t offset;
    int32_t scale;
    int32_t bucket_count;
} state;

typedef struct tide_otlp_series_entry {
    tide_digest128 key;
    state state;
    uint64_t *counts; /* state.bucket_count of them */
    int32_t capacity;
    int32_t next; /* in the chain, or in the list of free ones */
    int32_t newer;
    int32_t older;
} entry;

/* In front of the counts that an entry had. */
typedef struct undo_head {
    size_t previous; /* where the head before it stands, plus 1; 0: it is the first */
    tide_digest128 key;
    uint64_t version_after;
    bool was_there;
    state state;
} undo_head;

void tide_otlp_series_init(tide_otlp_series *series, int64_t started_ms)
{
    *series = (tide_otlp_series){
        .free = NONE,
        .newest = NONE,
        .oldest = NONE,
        .started_ms = started_ms,
    };
}

void tide_otlp_series_done(tide_otlp_series *series)
{
    for (int32_t i = 0; i < series->used; i++)
        free(series->entries[i].counts);
    free(series->entries);
    free(series->heads);
    tide_otlp_series_init(series, series->started_ms);
}

void tide_otlp_series_begin(tide_otlp_series *series)
{
    series->request++;
}

/* ---- the table ---- */

static int32_t *head_of(const tide_otlp_series *series, const tide_digest128 *key)
{
    uint64_t word;
    memcpy(&word, key->bytes, sizeof word);
    return &series->heads[word % HEADS];
}

static int32_t find_entry(const tide_otlp_series *series, const tide_digest128 *key)
{
    if (!series->entries)
        return NONE;
    int32_t at = *head_of(series, key);
    while (at != NONE && !tide_digest128_equal(&series->entries[at].key, key))
        at = series->entries[at].next;
    return at;
}

static void unlink_use(tide_otlp_series *series, int32_t at)
{
    const entry *e = &series->entries[at];
    if (e->newer != NONE)
        series->entries[e->newer].older = e->older;
    else
        series->newest = e->older;
    if (e->older != NONE)
        series->entries[e->older].newer = e->newer;
    else
        series->oldest = e->newer;
}

static void link_newest(tide_otlp_series *series, int32_t at)
{
    entry *e = &series->entries[at];
    e->newer = NONE;
    e->older = series->newest;
    if (series->newest != NONE)
        series->entries[series->newest].newer = at;
    else
        series->oldest = at;
    series->newest = at;
}

static void remove_entry(tide_otlp_series *series, int32_t at)
{
    entry *e = &series->entries[at];
    int32_t *link = head_of(series, &e->key);
    while (*link != at)
        link = &series->entries[*link].next;
    *link = e->next;
    unlink_use(series, at);
    series->bytes_len -= (size_t)e->capacity * sizeof *e->counts;
    free(e->counts);
    *e = (entry){.next = series->free};
    series->free = at;
}

static void forget_oldest(tide_otlp_series *series)
{
    const uint64_t start_ns = series->entries[series->oldest].state.start_ns;
    series->has_forgotten = true;
    if (start_ns > series->forgotten_start_ns)
        series->forgotten_start_ns = start_ns;
    remove_entry(series, series->oldest);
}

static tide_status make_table(tide_otlp_series *series)
{
    if (series->entries)
        return TIDE_OK;
    entry *entries = calloc(TIDE_OTLP_SERIES_MAX, sizeof *entries);
    int32_t *heads = malloc(HEADS * sizeof *heads);
    if (!entries || !heads) {
        free(entries);
        free(heads);
        return TIDE_E_NOMEM;
    }
    for (int i = 0; i < HEADS; i++)
        heads[i] = NONE;
    series->entries = entries;
    series->heads = heads;
    return TIDE_OK;
}

static tide_status add_entry(tide_otlp_series *series, const tide_digest128 *key, int32_t *out)
{
    TIDE_TRY(make_table(series));
    if (series->free == NONE && series->used == TIDE_OTLP_SERIES_MAX)
        forget_oldest(series);
    int32_t at = series->free;
    if (at != NONE)
        series->free = series->entries[at].next;
    else
        at = series->used++;
    int32_t *head = head_of(series, key);
    series->entries[at] = (entry){.key = *key, .next = *head};
    *head = at;
    link_newest(series, at);
    *out = at;
    return TIDE_OK;
}

/* Room for an entry's counts. The entry is the newest: others go first. */
static tide_status reserve_counts(tide_otlp_series *series, int32_t at, int32_t count)
{
    entry *e = &series->entries[at];
    if (count <= e->capacity)
        return TIDE_OK;
    TIDE_TRY(tide_list_resize(&e->counts, (size_t)count, sizeof *e->counts, NULL));
    series->bytes_len += (size_t)(count - e->capacity) * sizeof *e->counts;
    e->capacity = count;
    while (series->bytes_len > TIDE_OTLP_SERIES_BYTES_MAX && series->oldest != at)
        forget_oldest(series);
    return TIDE_OK;
}

/* ---- undoing ---- */

/* Note what an entry is (NONE: not there) before it becomes a later version. */
static tide_status note_undo(const tide_otlp_series *series, const tide_digest128 *key, int32_t at,
                             tide_buffer *undo, size_t *undo_last)
{
    undo_head head;
    memset(&head, 0, sizeof head); /* also what lies between the fields: it is copied */
    head.previous = *undo_last;
    head.key = *key;
    head.version_after = series->version;
    const uint64_t *counts = NULL;
    if (at != NONE) {
        head.was_there = true;
        head.state = series->entries[at].state;
        counts = series->entries[at].counts;
    }
    const size_t start = undo->len;
    const size_t counts_len = (size_t)head.state.bucket_count * sizeof *counts;
    TIDE_TRY(tide_buffer_reserve(undo, sizeof head + counts_len));
    TIDE_TRY(tide_buffer_append(undo, &head, sizeof head));
    TIDE_TRY(tide_buffer_append(undo, counts, counts_len));
    *undo_last = start + 1;
    return TIDE_OK;
}

static void undo_one(tide_otlp_series *series, const undo_head *head, const char *counts)
{
    const int32_t at = find_entry(series, &head->key);
    if (at == NONE || series->entries[at].state.version != head->version_after)
        return;
    entry *e = &series->entries[at];
    if (!head->was_there) {
        remove_entry(series, at);
        return;
    }
    assert(head->state.bucket_count <= e->capacity); /* entries do not shrink */
    e->state = head->state;
    if (head->state.bucket_count > 0)
        memcpy(e->counts, counts, (size_t)head->state.bucket_count * sizeof *e->counts);
}

void tide_otlp_series_undo(tide_otlp_series *series, tide_buffer *undo, size_t *undo_last)
{
    while (*undo_last > 0) {
        const char *at = undo->ptr + (*undo_last - 1);
        undo_head head;
        memcpy(&head, at, sizeof head);
        undo_one(series, &head, at + sizeof head);
        *undo_last = head.previous;
    }
    tide_buffer_clear(undo);
}

/* ---- comparing ---- */

static uint64_t layout_of(const tide_otlp_histogram *point)
{
    if (point->is_exponential)
        return 0;
    const uint64_t hash =
        XXH3_64bits(point->bounds, (size_t)point->bound_count * sizeof point->bounds[0]);
    return hash | 1; /* never that of an exponential one */
}

static bool is_comparable(const state *before, const tide_otlp_histogram *point)
{
    if (before->layout != layout_of(point))
        return false;
    return point->is_exponential ? before->scale >= point->scale
                                 : before->bucket_count == point->bucket_count;
}

/* Where a bucket of the point before lies in this one. */
static int64_t move_bucket(const state *before, const tide_otlp_histogram *point, int32_t bucket)
{
    if (!point->is_exponential)
        return bucket;
    int64_t shift = (int64_t)before->scale - point->scale;
    if (shift > 62)
        shift = 62;
    /* Rounds down, also below zero. */
    const int64_t index = before->offset + bucket;
    const int64_t width = INT64_C(1) << shift;
    const int64_t coarse = index / width - (index % width < 0 ? 1 : 0);
    return coarse - point->offset;
}

/* What came to the counts before. False: a count fell, and news means nothing. */
static bool subtract(const tide_otlp_histogram *point, const entry *before, uint64_t *news,
                     uint64_t *news_zero)
{
    if (before->state.zero_count > point->zero_count)
        return false;
    *news_zero = point->zero_count - before->state.zero_count;
    memcpy(news, point->counts, (size_t)point->bucket_count * sizeof *news);
    for (int32_t i = 0; i < before->state.bucket_count; i++) {
        const uint64_t count = before->counts[i];
        if (count == 0)
            continue;
        const int64_t at = move_bucket(&before->state, point, i);
        if (at < 0 || at >= point->bucket_count || news[at] < count)
            return false;
        news[at] -= count;
    }
    return true;
}

/* ---- advancing ---- */

/* The state that a point becomes; counts are the caller's. */
static state state_of(const tide_otlp_series *series, const tide_otlp_histogram *point)
{
    return (state){
        .start_ns = point->start_ns,
        .time_ns = point->time_ns,
        .request = series->request,
        .version = series->version,
        .layout = layout_of(point),
        .zero_count = point->zero_count,
        .offset = point->offset,
        .scale = point->scale,
        .bucket_count = point->bucket_count,
    };
}

static void mark_newest(tide_otlp_series *series, int32_t at)
{
    unlink_use(series, at);
    link_newest(series, at);
}

/* Was the group there in an earlier request? Then a series that is not known is new. */
static tide_status visit_group(tide_otlp_series *series, const tide_digest128 *group,
                               const tide_otlp_histogram *point, bool *was_seen, tide_buffer *undo,
                               size_t *undo_last)
{
    int32_t at = find_entry(series, group);
    *was_seen = false;
    if (at != NONE) {
        const state *first = &series->entries[at].state;
        *was_seen = !series->has_forgotten && first->request < series->request &&
                    first->time_ns < point->time_ns;
        mark_newest(series, at);
        return TIDE_OK;
    }
    series->version++;
    TIDE_TRY(note_undo(series, group, NONE, undo, undo_last));
    TIDE_TRY(add_entry(series, group, &at));
    series->entries[at].state = (state){
        .time_ns = point->time_ns,
        .request = series->request,
        .version = series->version,
    };
    return TIDE_OK;
}

/* The point is the entry's last from now on. */
static tide_status remember(tide_otlp_series *series, int32_t at, const tide_otlp_histogram *point)
{
    TIDE_TRY(reserve_counts(series, at, point->bucket_count));
    entry *e = &series->entries[at];
    e->state = state_of(series, point);
    if (point->bucket_count > 0)
        memcpy(e->counts, point->counts, (size_t)point->bucket_count * sizeof point->counts[0]);
    return TIDE_OK;
}

static tide_status advance_new(tide_otlp_series *series, const tide_digest128 *key, bool is_new,
                               const tide_otlp_histogram *point, bool *is_news, tide_buffer *undo,
                               size_t *undo_last)
{
    int32_t at;
    series->version++;
    TIDE_TRY(note_undo(series, key, NONE, undo, undo_last));
    TIDE_TRY(add_entry(series, key, &at));
    series->entries[at].state.version = series->version; /* found by undo, whatever follows */
    TIDE_TRY(remember(series, at, point));
    const bool began_after_us =
        series->started_ms > 0 && point->start_ns / 1000000 >= (uint64_t)series->started_ms;
    /* One that began no later than one that was forgotten may be that one: what it counts may be stored already. */
    const bool may_be_forgotten =
        series->has_forgotten && point->start_ns <= series->forgotten_start_ns;
    *is_news = is_new || (began_after_us && !may_be_forgotten);
    return TIDE_OK;
}

static tide_status advance_known(tide_otlp_series *series, int32_t at, tide_otlp_histogram *point,
                                 bool *is_news, tide_buffer *undo, size_t *undo_last)
{
    const entry *e = &series->entries[at];
    const bool is_later_start = point->start_ns > e->state.start_ns;
    if (!is_later_start && point->time_ns <= e->state.time_ns)
        return TIDE_OK;
    series->version++;
    TIDE_TRY(note_undo(series, &e->key, at, undo, undo_last));
    if (is_later_start || !is_comparable(&e->state, point)) {
        /* Other buckets of the same start: what is new in them is not known. The next point is
         * compared with them. */
        *is_news = is_later_start;
        return remember(series, at, point);
    }
    uint64_t news[TIDE_OTLP_BUCKETS_MAX];
    uint64_t news_zero;
    const bool has_grown = subtract(point, e, news, &news_zero);
    TIDE_TRY(remember(series, at, point));
    if (has_grown) {
        memcpy(point->counts, news, (size_t)point->bucket_count * sizeof news[0]);
        point->zero_count = news_zero;
    }
    *is_news = true;
    return TIDE_OK;
}

tide_status tide_otlp_series_advance(tide_otlp_series *series, tide_digest128 key,
                                     tide_digest128 group, tide_otlp_histogram *point,
                                     bool *is_news, tide_buffer *undo, size_t *undo_last)
{
    *is_news = false;
    bool is_new_in_group;
    TIDE_TRY(visit_group(series, &group, point, &is_new_in_group, undo, undo_last));
    const int32_t at = find_entry(series, &key);
    if (at == NONE)
        return advance_new(series, &key, is_new_in_group, point, is_news, undo, undo_last);
    mark_newest(series, at);
    return advance_known(series, at, point, is_news, undo, undo_last);
}
