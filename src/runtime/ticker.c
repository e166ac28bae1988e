#include "runtime/ticker.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/lock.h"
#include "base/thread.h"

#define STOP_US INT64_C(200000)    /* a step's own wait notices a stop or a wake after this time */
#define POLL_MAX_MS INT64_C(60000) /* poll takes an int */

enum { LABEL_SIZE = 128 };

typedef struct lane lane;

/* A step with its argument. */
typedef struct bound_step {
    const tide_step *step;
    void *arg;
    char label[LABEL_SIZE]; /* NAME or NAME/INSTANCE */
    lane *lane;
    struct bound_step *next; /* of the ticker */
    tide_series *last_success;
    tide_series *duration;
    tide_series *failures;

    /* of the lane's thread */
    int64_t due_us;
    int64_t rested_us;    /* wakes and the watch count from then on */
    uint64_t round;       /* the last one in which it ran */
    int64_t failed_count; /* attempts since the last success */
    int64_t failed_us;    /* the first of them */

    bool is_woken; /* under the lock */
} bound_step;

struct lane {
    tide_ticker *ticker;
    tide_step_lane kind;
    const void *arg; /* of OWN: what it is for */
    lane *next;
    int wake_fd;
    pthread_t thread;
    bool has_thread;
    uint64_t round;
};

struct tide_ticker {
    tide_ticker_options options;
    bound_step *steps;
    bound_step **steps_end;
    lane *lanes;
    bool *is_skipped;     /* by position in the list */
    pthread_mutex_t lock; /* of additions to steps, of is_woken and is_stopping */
    bool is_stopping;
};

static int64_t now_of(const tide_ticker *ticker)
{
    return ticker->options.env->mono_us(ticker->options.env);
}

/* ---- one step ---- */

static void log_failure(const tide_ticker *ticker, const bound_step *b, tide_status status,
                        const tide_error *err)
{
    if (ticker->options.log)
        tide_log_write(ticker->options.log, TIDE_LOG_ERROR, "step failed", TIDE_F("step", b->label),
                       TIDE_F("status", tide_status_get(status)->name), TIDE_F("error", err->text),
                       TIDE_F_END);
}

static void log_recovery(const tide_ticker *ticker, const bound_step *b, int64_t now_us)
{
    if (ticker->options.log)
        tide_log_write(ticker->options.log, TIDE_LOG_INFO, "step recovered",
                       TIDE_F("step", b->label), TIDE_FI("failures", b->failed_count),
                       TIDE_FI("ms", (now_us - b->failed_us) / 1000), TIDE_F_END);
}

static bool is_stopping(tide_ticker *ticker)
{
    TIDE_HOLD(&ticker->lock);
    return ticker->is_stopping;
}

static void note_failure(tide_ticker *ticker, bound_step *b, tide_status status,
                         const tide_error *err, int64_t now_us)
{
    if (b->failures)
        tide_series_add(b->failures, 1);
    if (b->failed_count++ > 0)
        return;
    b->failed_us = now_us;
    log_failure(ticker, b, status, err);
}

static void note_success(tide_ticker *ticker, bound_step *b, tide_status status, int64_t begun_us,
                         int64_t now_us)
{
    tide_env *env = ticker->options.env;
    if (b->last_success)
        tide_series_set(b->last_success, env->wall_us(env));
    if (b->duration && status == TIDE_OK)
        tide_series_observe(b->duration, now_us - begun_us);
    if (b->failed_count > 0)
        log_recovery(ticker, b, now_us);
    b->failed_count = 0;
}

static void run_step(tide_ticker *ticker, bound_step *b)
{
    tide_error err = {.status = TIDE_OK};
    int64_t next_us = TIDE_TICKER_RETRY_US;
    (void)pthread_mutex_lock(&ticker->lock);
    b->is_woken = false;
    (void)pthread_mutex_unlock(&ticker->lock);
    const int64_t begun_us = now_of(ticker);
    const tide_status status = b->step->run(b->arg, &next_us, &err);
    const int64_t now_us = now_of(ticker);
    assert(next_us >= 0);
    b->rested_us = now_us + b->step->rest_us;
    b->due_us = next_us > INT64_MAX - now_us ? INT64_MAX : now_us + next_us;
    if (status >= TIDE_OK)
        note_success(ticker, b, status, begun_us, now_us);
    else if (!is_stopping(ticker)) /* a step that was asked to stop did not fail */
        note_failure(ticker, b, status, &err, now_us);
}

/* ---- lanes ---- */

static int64_t due_of(tide_ticker *ticker, const bound_step *b)
{
    (void)pthread_mutex_lock(&ticker->lock);
    const bool is_woken = b->is_woken;
    (void)pthread_mutex_unlock(&ticker->lock);
    return is_woken && b->rested_us < b->due_us ? b->rested_us : b->due_us;
}

/* The one that is due for the longest time, of those that have not run in this round. NULL: none is
 * due. */
static bound_step *find_due(lane *l)
{
    tide_ticker *ticker = l->ticker;
    int64_t first_us = now_of(ticker);
    bound_step *first = NULL;
    for (bound_step *b = ticker->steps; b; b = b->next) {
        if (b->lane != l || b->round == l->round)
            continue;
        const int64_t due_us = due_of(ticker, b);
        if (due_us > first_us || (first && due_us == first_us))
            continue;
        first_us = due_us;
        first = b;
    }
    return first;
}

/* Every step that is due runs once. */
static void run_round(lane *l)
{
    l->round++;
    for (bound_step *b = NULL; !is_stopping(l->ticker) && (b = find_due(l)) != NULL;) {
        b->round = l->round;
        run_step(l->ticker, b);
    }
}

static int64_t find_next_due(const lane *l)
{
    int64_t first_us = INT64_MAX;
    for (const bound_step *b = l->ticker->steps; b; b = b->next) {
        const int64_t due_us = b->lane == l ? due_of(l->ticker, b) : INT64_MAX;
        first_us = due_us < first_us ? due_us : first_us;
    }
    return first_us;
}

static bound_step *find_waiter(const lane *l)
{
    for (bound_step *b = l->ticker->steps; b; b = b->next)
        if (b->lane == l && b->step->wait)
            return b;
    return NULL;
}

static void mark_woken(tide_ticker *ticker, bound_step *b)
{
    TIDE_HOLD(&ticker->lock);
    b->is_woken = true;
}

/* The watches of steps that may be woken by now. A watch that is ready stays so until its step
 * reads it. Returns how many; *rested_us: when the next one may be asked. */
static int add_watches(const lane *l, struct pollfd *fds, bound_step **of, int max,
                       int64_t *rested_us)
{
    const int64_t now_us = now_of(l->ticker);
    int count = 0;
    for (bound_step *b = l->ticker->steps; b; b = b->next) {
        if (b->lane != l || !b->step->watch_fd)
            continue;
        const int fd = b->step->watch_fd(b->arg);
        if (fd < 0)
            continue;
        if (b->rested_us > now_us) {
            *rested_us = b->rested_us < *rested_us ? b->rested_us : *rested_us;
        } else if (count < max) {
            of[count] = b;
            fds[count++] = (struct pollfd){.fd = fd, .events = POLLIN};
        }
    }
    return count;
}

static int timeout_ms(int64_t left_us)
{
    if (left_us <= 0)
        return 0;
    const int64_t ms = left_us / 1000 + 1;
    return (int)(ms < POLL_MAX_MS ? ms : POLL_MAX_MS);
}

static void poll_until(lane *l, int64_t due_us)
{
    enum { WATCHES_MAX = 32 };
    struct pollfd fds[WATCHES_MAX + 1] = {{.fd = l->wake_fd, .events = POLLIN}};
    bound_step *of[WATCHES_MAX];
    uint64_t count = 0;
    const int watches = add_watches(l, fds + 1, of, WATCHES_MAX, &due_us);
    const int64_t left_us = due_us == INT64_MAX ? INT64_MAX : due_us - now_of(l->ticker);
    if (poll(fds, (nfds_t)watches + 1, timeout_ms(left_us)) <= 0)
        return;
    if (fds[0].revents)
        (void)!read(l->wake_fd, &count, sizeof count);
    for (int i = 0; i < watches; i++)
        if (fds[i + 1].revents)
            mark_woken(l->ticker, of[i]);
}

static void wait_for_due(lane *l)
{
    const int64_t due_us = find_next_due(l);
    bound_step *waiter = find_waiter(l);
    const int64_t left_us = due_us == INT64_MAX ? INT64_MAX : due_us - now_of(l->ticker);
    if (!waiter)
        poll_until(l, due_us);
    else if (left_us > 0 &&
             waiter->step->wait(waiter->arg, left_us < STOP_US ? left_us : STOP_US) == TIDE_OK)
        mark_woken(l->ticker, waiter);
}

static void *run_lane(void *arg)
{
    lane *l = arg;
    while (!is_stopping(l->ticker)) {
        run_round(l);
        if (!is_stopping(l->ticker))
            wait_for_due(l);
    }
    return NULL;
}

/* The lane of a step, made at its first one. */
static tide_status find_lane(tide_ticker *ticker, const tide_step *step, const void *arg,
                             lane **out, tide_error *err)
{
    const void *key = step->lane == TIDE_LANE_OWN ? arg : NULL;
    for (*out = ticker->lanes; *out; *out = (*out)->next)
        if ((*out)->kind == step->lane && (*out)->arg == key)
            return TIDE_OK;
    TIDE_NEW(lane, l, err);
    *l = (lane){.ticker = ticker, .kind = step->lane, .arg = key, .next = ticker->lanes};
    l->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (l->wake_fd < 0) {
        free(l);
        return tide_fail(err, TIDE_E_LIMIT, "cannot create a descriptor for step %s: %s",
                         step->name, strerror(errno));
    }
    ticker->lanes = l;
    *out = l;
    return TIDE_OK;
}

/* ---- the list ---- */

/* -1: the step is not in the list. */
static int find_position(const tide_ticker *ticker, const tide_step *step)
{
    for (int i = 0; ticker->options.steps[i]; i++)
        if (ticker->options.steps[i] == step)
            return i;
    return -1;
}

static bool is_bound(const tide_ticker *ticker, const tide_step *step, const char *label)
{
    for (const bound_step *b = ticker->steps; b; b = b->next)
        if (b->step == step && (!label || strcmp(b->label, label) == 0))
            return true;
    return false;
}

static void find_series(const tide_ticker *ticker, bound_step *b)
{
    tide_metrics *metrics = ticker->options.metrics;
    if (!metrics)
        return;
    b->last_success = tide_metrics_series(metrics, TIDE_METRIC_STEP_LAST_SUCCESS, b->label);
    b->duration = tide_metrics_series(metrics, TIDE_METRIC_STEP_DURATION, b->label);
    b->failures = tide_metrics_series(metrics, TIDE_METRIC_STEP_FAILURES, b->label);
    tide_series_add(b->failures, 0); /* shown before the first failure */
}

tide_status tide_ticker_bind(tide_ticker *ticker, const tide_step *step,
                             const tide_step_binding *binding, tide_error *err)
{
    if (find_position(ticker, step) < 0)
        return tide_fail(err, TIDE_E_FAILED, "step %s is not in the list of this daemon",
                         step->name);
    TIDE_NEW(bound_step, b, err);
    *b = (bound_step){.step = step, .arg = binding->arg};
    b->due_us = now_of(ticker) + binding->delay_us;
    (void)snprintf(b->label, sizeof b->label, "%s%s%s", step->name, binding->instance ? "/" : "",
                   binding->instance ? binding->instance : "");
    const tide_status status =
        is_bound(ticker, step, b->label)
            ? tide_fail(err, TIDE_E_FAILED, "step %s was bound twice", b->label)
            : find_lane(ticker, step, binding->arg, &b->lane, err);
    if (status < TIDE_OK) {
        free(b);
        return status;
    }
    find_series(ticker, b);
    (void)pthread_mutex_lock(&ticker->lock); /* components that have started may wake steps */
    *ticker->steps_end = b;
    ticker->steps_end = &b->next;
    (void)pthread_mutex_unlock(&ticker->lock);
    return TIDE_OK;
}

void tide_ticker_skip(tide_ticker *ticker, const tide_step *step)
{
    const int position = find_position(ticker, step);
    assert(position >= 0);
    ticker->is_skipped[position] = true;
}

static tide_status check_list(const tide_ticker *ticker, tide_error *err)
{
    for (int i = 0; ticker->options.steps[i]; i++)
        if (!ticker->is_skipped[i] && !is_bound(ticker, ticker->options.steps[i], NULL))
            return tide_fail(err, TIDE_E_FAILED,
                             "step %s of this daemon's list was not bound to a component",
                             ticker->options.steps[i]->name);
    return TIDE_OK;
}

/* ---- life ---- */

tide_status tide_ticker_new(tide_ticker **out, const tide_ticker_options *options, tide_error *err)
{
    size_t count = 0;
    while (options->steps[count])
        count++;
    TIDE_CLEANUP(tide_ticker_freep) TIDE_NEW(tide_ticker, ticker, err);
    ticker->options = *options;
    ticker->steps_end = &ticker->steps;
    (void)pthread_mutex_init(&ticker->lock, NULL);
    TIDE_ALLOC(ticker->is_skipped, count + 1, err);
    *out = TIDE_TAKE(ticker);
    return TIDE_OK;
}

tide_status tide_ticker_start(tide_ticker *ticker, tide_error *err)
{
    TIDE_TRY(check_list(ticker, err));
    for (lane *l = ticker->lanes; l; l = l->next) {
        TIDE_TRY(tide_thread_start(&l->thread, run_lane, l, err));
        l->has_thread = true;
    }
    return TIDE_OK;
}

static void wake_lane(const lane *l)
{
    const uint64_t one = 1;
    (void)!write(l->wake_fd, &one, sizeof one);
}

void tide_ticker_wake(tide_ticker *ticker, const char *name)
{
    if (!ticker)
        return;
    TIDE_HOLD(&ticker->lock);
    for (bound_step *b = ticker->steps; b; b = b->next)
        if (strcmp(b->step->name, name) == 0) {
            b->is_woken = true;
            wake_lane(b->lane);
        }
}

void tide_ticker_stop(tide_ticker *ticker)
{
    if (!ticker)
        return;
    (void)pthread_mutex_lock(&ticker->lock);
    ticker->is_stopping = true;
    (void)pthread_mutex_unlock(&ticker->lock);
    for (lane *l = ticker->lanes; l; l = l->next)
        wake_lane(l);
    for (lane *l = ticker->lanes; l; l = l->next) {
        if (l->has_thread)
            (void)pthread_join(l->thread, NULL);
        l->has_thread = false;
    }
}

void tide_ticker_free(tide_ticker *ticker)
{
    if (!ticker)
        return;
    tide_ticker_stop(ticker);
    for (lane *l = ticker->lanes, *next = NULL; l; l = next) {
        next = l->next;
        (void)close(l->wake_fd);
        free(l);
    }
    for (bound_step *b = ticker->steps, *next = NULL; b; b = next) {
        next = b->next;
        free(b);
    }
    free(ticker->is_skipped);
    (void)pthread_mutex_destroy(&ticker->lock);
    free(ticker);
}

tide_status tide_ticker_step(tide_ticker *ticker, int64_t *due_us, tide_error *err)
{
    TIDE_TRY(check_list(ticker, err));
    *due_us = INT64_MAX;
    for (lane *l = ticker->lanes; l; l = l->next)
        run_round(l);
    for (lane *l = ticker->lanes; l; l = l->next) {
        const int64_t lane_due_us = find_next_due(l);
        *due_us = lane_due_us < *due_us ? lane_due_us : *due_us;
    }
    return TIDE_OK;
}
