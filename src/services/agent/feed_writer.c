#include "services/agent/feed_writer.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/lock.h"
#include "base/thread.h"
#include "runtime/store_watch.h"

enum {
    GROUP_STREAMS_MAX = TIDE_FEED_COMMIT_STREAMS_MAX,
    DAMAGED_MAX = 3, /* commits that meet damage, one after the other, until somebody should look */
};

struct tide_feed_writer {
    tide_feed *feed;
    tide_env *env;
    tide_metrics *metrics;
    int64_t queue_max;
    tide_store_watch *watch; /* NULL: none */
    atomic_int_fast64_t failures;
    atomic_int damaged; /* commits that have met damage since the last one that was stored */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    /* under the lock */
    tide_feed_put *first;
    tide_feed_put **last;
    tide_error failure; /* the last one */
    int64_t small_len;  /* of what is not done yet */
    int64_t large_len;
    int queued;
    bool is_closing;
};

/* What a group holds of one stream. */
typedef struct portion {
    const char *stream;
    tide_buffer joined; /* only where several puts have records of the stream */
    tide_buffer services;
    bool has_services;
    tide_feed_records records;
    int puts;
} portion;

typedef struct group {
    tide_feed_put *first; /* a list */
    int count;
    portion portions[GROUP_STREAMS_MAX];
    int portion_count;
    int64_t records;
} group;

/* ---- gathering ---- */

static portion *find_portion(group *g, const char *stream)
{
    for (int i = 0; i < g->portion_count; i++)
        if (strcmp(g->portions[i].stream, stream) == 0)
            return &g->portions[i];
    return NULL;
}

static bool fits_stream(const portion *p, const tide_feed_records *more)
{
    return p->records.len + more->len <= TIDE_FEED_BATCH_BYTES_MAX &&
           p->records.count + more->count <= TIDE_FEED_BATCH_RECORDS_MAX;
}

static bool fits(group *g, const tide_feed_put *put)
{
    int fresh = 0;
    for (int i = 0; i < put->count; i++) {
        const portion *p = find_portion(g, put->records[i].stream);
        if (p && !fits_stream(p, &put->records[i]))
            return false;
        fresh += p == NULL;
    }
    return g->portion_count + fresh <= GROUP_STREAMS_MAX;
}

static void widen(tide_feed_records *all, const tide_feed_records *more)
{
    all->len += more->len;
    all->count += more->count;
    if (more->min_time_ms < all->min_time_ms)
        all->min_time_ms = more->min_time_ms;
    if (more->max_time_ms > all->max_time_ms)
        all->max_time_ms = more->max_time_ms;
}

static void reckon(group *g, const tide_feed_records *records)
{
    portion *p = find_portion(g, records->stream);
    if (p) {
        widen(&p->records, records);
    } else {
        p = &g->portions[g->portion_count++];
        *p = (portion){.stream = records->stream, .records = *records};
    }
    p->puts++;
    g->records += records->count;
}

/* Everything that is there, as far as one commit takes it; at least one put. */
static void take_group(tide_feed_writer *writer, group *g)
{
    tide_feed_put **end = &g->first;
    while (writer->first && fits(g, writer->first)) {
        tide_feed_put *put = writer->first;
        writer->first = put->next;
        put->next = NULL;
        *end = put;
        end = &put->next;
        g->count++;
        for (int i = 0; i < put->count; i++)
            reckon(g, &put->records[i]);
        writer->queued--;
    }
    if (!writer->first)
        writer->last = &writer->first;
}

/* ---- joining ---- */

/* The set of both; one that is not known makes the whole not known. */
static tide_status join_services(portion *p, const tide_feed_records *from)
{
    if (p->has_services && from->services.len == 0) {
        p->has_services = false;
        tide_buffer_clear(&p->services);
    }
    for (tide_view rest = from->services; p->has_services && rest.len > 0;) {
        const size_t len = strnlen(rest.ptr, rest.len - 1) + 1;
        const char *const names[] = {rest.ptr};
        if (p->services.len == 0 ||
            !tide_record_services_may_hold(tide_buffer_view(&p->services), names, 1))
            TIDE_TRY(tide_buffer_append(&p->services, rest.ptr, len));
        p->has_services = p->services.len <= TIDE_RECORD_SERVICES_LEN_MAX;
        rest = tide_view_bytes(rest.ptr + len, rest.len - len);
    }
    return TIDE_OK;
}

static tide_status join_records(portion *p, const tide_feed_records *from)
{
    if (p->puts == 1) {
        p->records = *from;
        return TIDE_OK;
    }
    if (p->joined.max == 0) {
        tide_buffer_init(&p->joined, TIDE_FEED_BATCH_BYTES_MAX);
        tide_buffer_init(&p->services, TIDE_FEED_BATCH_BYTES_MAX);
        p->has_services = true;
        TIDE_TRY(tide_buffer_reserve(&p->joined, p->records.len));
    }
    TIDE_TRY(tide_buffer_append(&p->joined, from->bytes, from->len));
    TIDE_TRY(join_services(p, from));
    p->records.bytes = p->joined.ptr;
    p->records.services =
        p->has_services ? tide_buffer_view(&p->services) : tide_view_bytes(NULL, 0);
    return TIDE_OK;
}

static tide_status join_all(group *g, tide_error *err)
{
    for (tide_feed_put *put = g->first; put; put = put->next)
        for (int i = 0; i < put->count; i++) {
            portion *p = find_portion(g, put->records[i].stream);
            assert(p);
            if (join_records(p, &put->records[i]) < TIDE_OK)
                return tide_no_memory(err);
        }
    return TIDE_OK;
}

static void group_done(group *g)
{
    for (int i = 0; i < g->portion_count; i++) {
        tide_buffer_done(&g->portions[i].joined);
        tide_buffer_done(&g->portions[i].services);
    }
}

/* ---- storing ---- */

/* Puts got their numbers in the order in which they were joined. */
static void hand_out_numbers(group *g)
{
    int64_t next[GROUP_STREAMS_MAX];
    for (int i = 0; i < g->portion_count; i++)
        next[i] = g->portions[i].records.first_seq;
    for (tide_feed_put *put = g->first; put; put = put->next)
        for (int i = 0; i < put->count; i++) {
            const portion *p = find_portion(g, put->records[i].stream);
            int64_t *number = &next[p - g->portions];
            put->records[i].first_seq = *number;
            *number += put->records[i].count;
            put->records[i].last_seq = *number - 1;
        }
}

static void count_stored(tide_feed_writer *writer, const group *g, int64_t took_us)
{
    if (!writer->metrics)
        return;
    tide_metrics_observe(writer->metrics, TIDE_METRIC_FEED_COMMIT, took_us);
    tide_metrics_observe(writer->metrics, TIDE_METRIC_FEED_GROUP, g->records);
    for (int i = 0; i < g->portion_count; i++) {
        const portion *p = &g->portions[i];
        tide_series_add(tide_metrics_series(writer->metrics, TIDE_METRIC_FEED_RECORDS, p->stream),
                        p->records.count);
        tide_series_add(tide_metrics_series(writer->metrics, TIDE_METRIC_FEED_STORED, p->stream),
                        (int64_t)p->records.len);
    }
}

static void note_failure(tide_feed_writer *writer, const tide_error *err)
{
    (void)pthread_mutex_lock(&writer->lock);
    writer->failure = *err;
    (void)pthread_mutex_unlock(&writer->lock);
    (void)atomic_fetch_add(&writer->failures, 1);
}

static tide_status commit_group(tide_feed_writer *writer, group *g, tide_error *err)
{
    TIDE_TRY(join_all(g, err));
    tide_feed_records records[GROUP_STREAMS_MAX];
    for (int i = 0; i < g->portion_count; i++)
        records[i] = g->portions[i].records;
    const int64_t before_us = writer->env->mono_us(writer->env);
    if (writer->watch)
        tide_store_watch_begin(writer->watch, TIDE_STORE_APPEND);
    const tide_status status = tide_feed_commit(writer->feed, records, g->portion_count, err);
    if (writer->watch)
        tide_store_watch_end(writer->watch, TIDE_STORE_APPEND, status);
    if (status < TIDE_OK)
        note_failure(writer, err);
    if (status >= TIDE_OK)
        atomic_store(&writer->damaged, 0);
    else if (status == TIDE_E_DAMAGED && atomic_load(&writer->damaged) < DAMAGED_MAX)
        (void)atomic_fetch_add(&writer->damaged, 1);
    TIDE_TRY(status);
    for (int i = 0; i < g->portion_count; i++)
        g->portions[i].records = records[i];
    hand_out_numbers(g);
    count_stored(writer, g, writer->env->mono_us(writer->env) - before_us);
    return TIDE_OK;
}

static void tell(tide_feed_writer *writer, tide_feed_put *put, tide_status status,
                 const tide_error *err)
{
    tide_feed_writer_unreserve(writer, put);
    put->done(put, status, err);
}

static void tell_all(tide_feed_writer *writer, tide_feed_put *first, tide_status status,
                     const tide_error *err)
{
    while (first) {
        tide_feed_put *put = first;
        first = put->next; /* done may free it */
        tell(writer, put, status, err);
    }
}

static void store_alone(tide_feed_writer *writer, tide_feed_put *put)
{
    tide_error err = {0};
    group *g = calloc(1, sizeof *g);
    if (!g) {
        tell(writer, put, tide_no_memory(&err), &err);
        return;
    }
    g->first = put;
    g->count = 1;
    for (int i = 0; i < put->count; i++)
        reckon(g, &put->records[i]);
    const tide_status status = commit_group(writer, g, &err);
    group_done(g);
    free(g);
    tell(writer, put, status, &err);
}

/* The store is full, locked or away: that is no fault of one, and to find out again takes as long for each. */
static bool is_of_all(tide_status status)
{
    return status == TIDE_E_FULL || status == TIDE_E_BUSY || status == TIDE_E_TIMEOUT ||
           status == TIDE_E_UNAVAILABLE;
}

static void store_group(tide_feed_writer *writer, group *g)
{
    tide_error err = {0};
    const tide_status status = commit_group(writer, g, &err);
    tide_feed_put *first = g->first;
    const bool is_worth_more =
        status < TIDE_OK && g->count > 1 && status != TIDE_E_OUTCOME_UNKNOWN && !is_of_all(status);
    group_done(g);
    if (!is_worth_more) {
        tell_all(writer, first, status, &err);
        return;
    }
    while (first) {
        tide_feed_put *put = first;
        first = put->next;
        put->next = NULL;
        store_alone(writer, put);
    }
}

static void *run_writer(void *arg)
{
    tide_feed_writer *writer = arg;
    group *g = calloc(1, sizeof *g);
    assert(g); /* the first allocation of a thread that has just begun */
    for (;;) {
        memset(g, 0, sizeof *g);
        (void)pthread_mutex_lock(&writer->lock);
        while (!writer->first && !writer->is_closing)
            (void)pthread_cond_wait(&writer->changed, &writer->lock);
        take_group(writer, g);
        (void)pthread_mutex_unlock(&writer->lock);
        if (g->count == 0)
            break;
        store_group(writer, g);
    }
    free(g);
    return NULL;
}

/* ---- outside ---- */

bool tide_feed_writer_is_healthy(tide_feed_writer *writer, tide_error *why)
{
    if (atomic_load(&writer->damaged) < DAMAGED_MAX)
        return true;
    TIDE_HOLD(&writer->lock);
    *why = writer->failure;
    return false;
}

int64_t tide_feed_writer_failures(tide_feed_writer *writer, tide_error *last)
{
    (void)pthread_mutex_lock(&writer->lock);
    *last = writer->failure;
    (void)pthread_mutex_unlock(&writer->lock);
    return atomic_load(&writer->failures);
}

tide_status tide_feed_writer_open(tide_feed_writer **out, tide_feed *feed, tide_env *env,
                                  const tide_feed_writer_options *options, tide_error *err)
{
    TIDE_NEW(tide_feed_writer, writer, err);
    writer->feed = feed;
    writer->env = env;
    writer->metrics = options ? options->metrics : NULL;
    writer->watch = options ? options->watch : NULL;
    writer->queue_max =
        options && options->queue_max > 0 ? options->queue_max : TIDE_FEED_WRITER_QUEUE_MAX;
    writer->last = &writer->first;
    (void)pthread_mutex_init(&writer->lock, NULL);
    (void)pthread_cond_init(&writer->changed, NULL);
    const tide_status status = tide_thread_start(&writer->thread, run_writer, writer, err);
    if (status < TIDE_OK) {
        free(writer);
        return status;
    }
    *out = writer;
    return TIDE_OK;
}

void tide_feed_writer_close(tide_feed_writer *writer)
{
    if (!writer)
        return;
    (void)pthread_mutex_lock(&writer->lock);
    writer->is_closing = true;
    (void)pthread_cond_signal(&writer->changed);
    (void)pthread_mutex_unlock(&writer->lock);
    (void)pthread_join(writer->thread, NULL);
    (void)pthread_cond_destroy(&writer->changed);
    (void)pthread_mutex_destroy(&writer->lock);
    free(writer);
}

/* ---- room ---- */

/* Under the lock. */
static bool has_room(const tide_feed_writer *writer, const tide_feed_put *put, int64_t len)
{
    const int64_t large_max = writer->queue_max - writer->queue_max / 4;
    if (put->is_large)
        return writer->large_len == 0 || writer->large_len + len <= large_max;
    const int64_t large_len = writer->large_len < large_max ? writer->large_len : large_max;
    return writer->small_len + large_len + len <= writer->queue_max ||
           (writer->small_len == 0 && writer->large_len == 0);
}

/* Under the lock. */
static void count_room(tide_feed_writer *writer, const tide_feed_put *put, int64_t more)
{
    *(put->is_large ? &writer->large_len : &writer->small_len) += more;
}

tide_status tide_feed_writer_reserve(tide_feed_writer *writer, tide_feed_put *put, size_t len,
                                     tide_error *err)
{
    put->is_large = len > TIDE_FEED_WRITER_SMALL_LEN;
    (void)pthread_mutex_lock(&writer->lock);
    const bool is_taken = !writer->is_closing && has_room(writer, put, (int64_t)len);
    if (is_taken)
        count_room(writer, put, (int64_t)len);
    (void)pthread_mutex_unlock(&writer->lock);
    put->len = is_taken ? len : 0;
    if (!is_taken)
        return tide_fail(err, TIDE_E_BUSY,
                         "%lld MiB are for records that wait to be stored, and they are in use: "
                         "come again in a moment",
                         (long long)(writer->queue_max >> 20));
    return TIDE_OK;
}

void tide_feed_writer_unreserve(tide_feed_writer *writer, tide_feed_put *put)
{
    TIDE_HOLD(&writer->lock);
    count_room(writer, put, -(int64_t)put->len);
    put->len = 0;
}

/* What was reserved becomes what is there. */
static bool enqueue(tide_feed_writer *writer, tide_feed_put *put, size_t len)
{
    TIDE_HOLD(&writer->lock);
    const bool is_taken = !writer->is_closing && writer->queued < TIDE_FEED_WRITER_PUTS_MAX;
    if (is_taken) {
        count_room(writer, put, (int64_t)len - (int64_t)put->len);
        put->len = len;
        *writer->last = put;
        writer->last = &put->next;
        writer->queued++;
        (void)pthread_cond_signal(&writer->changed);
    }
    return is_taken;
}

tide_status tide_feed_writer_put(tide_feed_writer *writer, tide_feed_put *put, tide_error *err)
{
    size_t len = 0;
    put->next = NULL;
    assert(put->count <= TIDE_FEED_PUT_STREAMS_MAX);
    for (int i = 0; i < put->count; i++)
        len += put->records[i].len;
    if (len == 0) {
        tell(writer, put, TIDE_OK, NULL);
        return TIDE_OK;
    }
    if (put->len == 0)
        TIDE_TRY(tide_feed_writer_reserve(writer, put, len, err));
    if (enqueue(writer, put, len))
        return TIDE_OK;
    tide_feed_writer_unreserve(writer, put);
    return tide_fail(err, TIDE_E_BUSY, "%d requests wait to be stored: come again in a moment",
                     TIDE_FEED_WRITER_PUTS_MAX);
}
