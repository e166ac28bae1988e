#include "services/agent/maintenance.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/cond_wait.h"
#include "base/thread.h"
#include "services/agent/collector.h"

#define RETRY_US INT64_C(1000000)
#define LOOK_US INT64_C(1000000)    /* for what came in */
#define REPEAT_US INT64_C(60000000) /* the same trouble is not told more often */

struct tide_keeper {
    tide_keeper_options options;
    tide_collector *collector; /* NULL: none */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool is_closing;
    int64_t commits; /* of the feed, and failures of its writer, at the last step */
    int64_t failures;
    int64_t told_us; /* when a failure was logged last; 0: never */
};

static int64_t now_of(const tide_keeper *keeper)
{
    return keeper->options.env->mono_us(keeper->options.env);
}

static void tell(tide_keeper *keeper, const char *what, tide_status status, const tide_error *err)
{
    const int64_t now_us = now_of(keeper);
    if (keeper->told_us != 0 && now_us - keeper->told_us < REPEAT_US)
        return;
    keeper->told_us = now_us;
    tide_log_write(keeper->options.log, TIDE_LOG_ERROR, what,
                   TIDE_F("status", tide_status_get(status)->name), TIDE_F("error", err->text),
                   TIDE_F_END);
}

/* ---- retention ---- */

/* What came in, or could not, may be more than there is room for: that is not known when a step says when it wants to
 * run again. */
static bool has_news(tide_keeper *keeper)
{
    tide_feed_counters counters;
    tide_error last;
    tide_feed_count(keeper->options.feed, &counters);
    const int64_t failures = tide_feed_writer_failures(keeper->options.writer, &last);
    const bool has = counters.commits != keeper->commits || failures != keeper->failures;
    if (failures != keeper->failures)
        tell(keeper, "records could not be stored", last.status, &last);
    keeper->commits = counters.commits;
    keeper->failures = failures;
    return has;
}

static int64_t step_feed(tide_keeper *keeper)
{
    tide_error err = {0};
    int64_t next_us = RETRY_US;
    const tide_status status = tide_feed_step(keeper->options.feed, &next_us, &err);
    if (status >= TIDE_OK)
        return next_us;
    tell(keeper, "retention failed", status, &err);
    return RETRY_US;
}

/* ---- the machine ---- */

typedef struct look {
    tide_feed_put put; /* first: the writer hands it back */
    tide_record_batch batch;
    tide_log *log; /* of the program: the keeper may be gone by then */
} look;

static void note_stored(tide_feed_put *put, tide_status status, const tide_error *err)
{
    look *l = (look *)put;
    if (status < TIDE_OK)
        tide_log_write(l->log, TIDE_LOG_ERROR, "system metrics were not stored",
                       TIDE_F("status", tide_status_get(status)->name), TIDE_F("error", err->text),
                       TIDE_F_END);
    tide_record_batch_done(&l->batch);
    free(l);
}

static void look_at_machine(tide_keeper *keeper)
{
    tide_error err = {0};
    look *l = calloc(1, sizeof *l);
    if (!l)
        return; /* the next look may find memory */
    l->log = keeper->options.log;
    tide_record_batch_init(&l->batch, tide_stream_type_of(TIDE_STREAM_SYSTEM_METRICS), 0);
    tide_status status = tide_collector_step(keeper->collector, &l->batch, &err);
    if (status >= TIDE_OK) {
        l->put.done = note_stored;
        l->put.records[0] = tide_record_batch_feed(&l->batch, NULL);
        l->put.count = l->batch.count > 0 ? 1 : 0;
        status = tide_feed_writer_put(keeper->options.writer, &l->put, &err);
        if (status >= TIDE_OK)
            return; /* it is the writer's, or gone */
    }
    tell(keeper, "system metrics were not stored", status, &err);
    tide_record_batch_done(&l->batch);
    free(l);
}

/* ---- the thread ---- */

/* false: it is over. */
static bool wait_until(tide_keeper *keeper, int64_t until_us)
{
    (void)pthread_mutex_lock(&keeper->lock);
    for (;;) {
        const int64_t left_us = until_us - now_of(keeper);
        if (keeper->is_closing || left_us <= 0)
            break;
        (void)!tide_cond_wait(&keeper->changed, &keeper->lock, tide_cond_until(left_us));
    }
    const bool is_closing = keeper->is_closing;
    (void)pthread_mutex_unlock(&keeper->lock);
    return !is_closing;
}

static int64_t next_of(const tide_keeper *keeper, int64_t feed_due_us, int64_t look_due_us)
{
    int64_t next_us = now_of(keeper) + LOOK_US;
    next_us = feed_due_us < next_us ? feed_due_us : next_us;
    return look_due_us < next_us ? look_due_us : next_us;
}

static void *run_keeper(void *arg)
{
    tide_keeper *keeper = arg;
    int64_t feed_due_us = now_of(keeper);
    int64_t look_due_us = keeper->collector ? feed_due_us : INT64_MAX;
    while (wait_until(keeper, next_of(keeper, feed_due_us, look_due_us))) {
        tide_listener_look(keeper->options.front);
        const bool is_due = now_of(keeper) >= feed_due_us;
        if (has_news(keeper) || is_due)
            feed_due_us = now_of(keeper) + step_feed(keeper);
        if (now_of(keeper) >= look_due_us) {
            look_at_machine(keeper);
            look_due_us += keeper->options.collect_us;
            if (look_due_us < now_of(keeper)) /* asleep for long: not all at once */
                look_due_us = now_of(keeper) + keeper->options.collect_us;
        }
    }
    return NULL;
}

static tide_status start(tide_keeper *keeper, tide_error *err)
{
    if (keeper->options.collect_us > 0)
        TIDE_TRY(tide_collector_new(&keeper->collector, NULL, keeper->options.env, err));
    return tide_thread_start(&keeper->thread, run_keeper, keeper, err);
}

tide_status tide_keeper_open(tide_keeper **out, const tide_keeper_options *options, tide_error *err)
{
    tide_keeper *keeper = calloc(1, sizeof *keeper);
    if (!keeper)
        return tide_no_memory(err);
    keeper->options = *options;
    (void)pthread_mutex_init(&keeper->lock, NULL);
    (void)pthread_cond_init(&keeper->changed, NULL);
    const tide_status status = start(keeper, err);
    if (status < TIDE_OK) {
        tide_collector_free(keeper->collector);
        free(keeper);
        return status;
    }
    *out = keeper;
    return TIDE_OK;
}

void tide_keeper_close(tide_keeper *keeper)
{
    if (!keeper)
        return;
    (void)pthread_mutex_lock(&keeper->lock);
    keeper->is_closing = true;
    (void)pthread_cond_signal(&keeper->changed);
    (void)pthread_mutex_unlock(&keeper->lock);
    (void)pthread_join(keeper->thread, NULL);
    tide_collector_free(keeper->collector);
    (void)pthread_cond_destroy(&keeper->changed);
    (void)pthread_mutex_destroy(&keeper->lock);
    free(keeper);
}
