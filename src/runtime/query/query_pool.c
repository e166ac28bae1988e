#include "runtime/query/query_pool.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/lock.h"
#include "base/thread.h"

enum { CALLER_SIZE = 128 };

#define RETRY_S 1.0 /* advice to a caller who found the queue full */

typedef struct job {
    struct job *next;
    tide_call *call;
    char *message;
    size_t len;
    tide_query_fn *fn;
    void *arg;
    char caller[CALLER_SIZE];
} job;

struct tide_query_slot {
    tide_query_pool *pool;
    pthread_t thread;
    bool is_running;
    int cancel_fd;
    struct {
        const tide_query_target *target;
        tide_query_process *process;
    } processes[TIDE_QUERY_TARGETS_MAX];
};

struct tide_query_pool {
    tide_net_limits limits;
    const char *program;
    tide_metrics *metrics;
    pthread_mutex_t lock;
    pthread_cond_t has_work;
    /* under the lock */
    job *first;
    job **last;
    int64_t count;
    bool is_closing;
    int slot_count;
    tide_query_slot slots[TIDE_QUERY_PROCESSES_MAX];
};

/* ---- leaving ---- */

/* Lives as long as the call, which may end when its slot serves another one. */
typedef struct hook {
    pthread_mutex_t lock;
    int fd; /* -1: it is not served any more */
} hook;

static void signal_fd(int fd)
{
    const uint64_t one = 1;
    const ssize_t written = write(fd, &one, sizeof one);
    (void)written; /* full: it is readable already */
}

static void stop_query(tide_call *call, void *arg)
{
    (void)call;
    hook *h = arg;
    TIDE_HOLD(&h->lock);
    if (h->fd >= 0)
        signal_fd(h->fd);
}

static hook *hook_on(const tide_query_slot *slot, tide_call *call)
{
    hook *h = tide_call_memory(call, sizeof *h);
    if (!h)
        return NULL;
    (void)pthread_mutex_init(&h->lock, NULL);
    h->fd = slot->cancel_fd;
    tide_call_on_cancel(call, stop_query, h);
    return h;
}

static void unhook(hook *h)
{
    TIDE_HOLD(&h->lock);
    h->fd = -1;
}

/* ---- work ---- */

static void job_free(job *j)
{
    tide_call_release(j->call);
    free(j->message);
    free(j);
}

static bool is_closing(tide_query_pool *pool)
{
    TIDE_HOLD(&pool->lock);
    return pool->is_closing;
}

static void serve(tide_query_slot *slot, job *j)
{
    uint64_t ignored = 0;
    const ssize_t n = read(slot->cancel_fd, &ignored, sizeof ignored); /* of the query before */
    (void)n;
    hook *h = tide_call_is_cancelled(j->call) ? NULL : hook_on(slot, j->call);
    if (h && !is_closing(slot->pool)) /* closing signals the slot, and this may have cleared it */
        j->fn(slot, j->call, tide_view_bytes(j->message, j->len), j->arg);
    else
        tide_call_end(j->call, TIDE_E_UNAVAILABLE,
                      &(tide_error){.status = TIDE_E_UNAVAILABLE, .text = "the daemon stops"});
    if (h)
        unhook(h);
    job_free(j);
}

/* NULL: the pool closes. */
static job *next_job(tide_query_pool *pool)
{
    TIDE_HOLD(&pool->lock);
    while (!pool->first && !pool->is_closing)
        (void)pthread_cond_wait(&pool->has_work, &pool->lock);
    job *j = pool->is_closing ? NULL : pool->first;
    if (j) {
        pool->first = j->next;
        if (!pool->first)
            pool->last = &pool->first;
        pool->count--;
    }
    return j;
}

static void *run_slot(void *arg)
{
    tide_query_slot *slot = arg;
    for (job *j = next_job(slot->pool); j; j = next_job(slot->pool))
        serve(slot, j);
    /* The processes end with the thread that started them: close them before. */
    for (int i = 0; i < TIDE_QUERY_TARGETS_MAX; i++)
        tide_query_process_close(slot->processes[i].process);
    return NULL;
}

/* ---- put ---- */

/* Who a query is counted for: a name, or an address without its port. */
static void name_caller(char out[CALLER_SIZE], const tide_call *call)
{
    const char *identity = tide_call_identity(call);
    const char *peer = tide_call_peer(call);
    const char *colon = peer ? strrchr(peer, ':') : NULL;
    if (identity)
        (void)snprintf(out, CALLER_SIZE, "name %s", identity);
    else
        (void)snprintf(out, CALLER_SIZE, "peer %.*s",
                       peer ? colon ? (int)(colon - peer) : (int)strlen(peer) : 0,
                       peer ? peer : "");
}

static int64_t count_caller(const tide_query_pool *pool, const char *caller)
{
    int64_t count = 0;
    for (const job *j = pool->first; j; j = j->next)
        count += strcmp(j->caller, caller) == 0;
    return count;
}

/* NULL: it is in the queue. Else why not. */
static const char *enqueue(tide_query_pool *pool, job *j)
{
    const int64_t max = pool->limits.query_queue;
    const char *why = NULL;
    TIDE_HOLD(&pool->lock);
    if (pool->is_closing)
        why = "the daemon stops";
    else if (pool->count >= max)
        why = "query queue full; retry";
    else if (count_caller(pool, j->caller) >= (max + 1) / 2)
        why = "query queue: half of it is of this caller; retry";
    if (!why) {
        *pool->last = j;
        pool->last = &j->next;
        pool->count++;
        (void)pthread_cond_signal(&pool->has_work);
    }
    return why;
}

static void refuse(tide_call *call, const char *why)
{
    tide_call_end_with(
        call, &(tide_call_status){
                  .grpc_code = 8, .http_code = 503, .message = why, .retry_after_s = RETRY_S});
}

void tide_query_pool_put(tide_query_pool *pool, tide_call *call, tide_query_fn *fn, void *arg)
{
    job *j = calloc(1, sizeof *j);
    if (!j) {
        refuse(call, tide_status_get(TIDE_E_NOMEM)->text);
        return;
    }
    tide_call_hold(call);
    j->call = call;
    j->message = tide_call_move_message(call, &j->len);
    j->fn = fn;
    j->arg = arg;
    name_caller(j->caller, call);
    const char *why = enqueue(pool, j);
    if (why) {
        refuse(call, why);
        job_free(j);
    }
}

/* ---- for queries that run ---- */

tide_status tide_query_slot_timeout(const tide_query_slot *slot, const tide_call *call,
                                    int64_t given_ms, int64_t *timeout_us, tide_error *err)
{
    const int64_t max_us = slot->pool->limits.query_us;
    tide_env *env = tide_env_system();
    if (given_ms < 0 || given_ms > max_us / 1000)
        return tide_fail(err, TIDE_E_INVALID, "timeout_ms is %lld, want 1 to %lld (limit query_us)",
                         (long long)given_ms, (long long)(max_us / 1000));
    *timeout_us = given_ms > 0 ? given_ms * 1000 : max_us;
    const int64_t left_us = tide_call_deadline_us(call) == INT64_MAX
                                ? INT64_MAX
                                : tide_call_deadline_us(call) - env->mono_us(env);
    if (left_us < *timeout_us)
        *timeout_us = left_us;
    return *timeout_us > 0 ? TIDE_OK
                           : tide_fail(err, TIDE_E_TIMEOUT, "the call's deadline has passed");
}

tide_status tide_query_slot_process(tide_query_slot *slot, const tide_query_target *target,
                                    tide_query_process **out, tide_error *err)
{
    for (int i = 0; i < TIDE_QUERY_TARGETS_MAX; i++) {
        if (!slot->processes[i].process) {
            const tide_query_process_options options = {.target = *target,
                                                        .program = slot->pool->program,
                                                        .memory_len =
                                                            slot->pool->limits.query_memory_len,
                                                        .cancel_fd = slot->cancel_fd,
                                                        .metrics = slot->pool->metrics};
            TIDE_TRY(tide_query_process_open(&slot->processes[i].process, &options, err));
            slot->processes[i].target = target;
        }
        if (slot->processes[i].target == target) {
            *out = slot->processes[i].process;
            return TIDE_OK;
        }
    }
    return tide_fail(err, TIDE_E_LIMIT, "more than %d targets of queries", TIDE_QUERY_TARGETS_MAX);
}

int tide_query_slot_cancel_fd(const tide_query_slot *slot)
{
    return slot->cancel_fd;
}

void tide_query_slot_count(const tide_query_slot *slot, tide_status status)
{
    const char *reason = status == TIDE_E_TIMEOUT       ? "time"
                         : status == TIDE_E_INTERRUPTED ? "caller"
                                                        : NULL;
    if (reason && slot->pool->metrics)
        tide_series_add(
            tide_metrics_series(slot->pool->metrics, TIDE_METRIC_QUERIES_KILLED, reason), 1);
}

/* ---- life ---- */

static tide_status start(tide_query_pool *pool, tide_error *err)
{
    for (int i = 0; i < pool->slot_count; i++)
        pool->slots[i].cancel_fd = -1;
    for (int i = 0; i < pool->slot_count; i++) {
        tide_query_slot *slot = &pool->slots[i];
        slot->pool = pool;
        slot->cancel_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (slot->cancel_fd < 0)
            return tide_fail(err, TIDE_E_IO, "no descriptor for the pool of queries");
        TIDE_TRY(tide_thread_start(&slot->thread, run_slot, slot, err));
        slot->is_running = true;
    }
    return TIDE_OK;
}

tide_status tide_query_pool_open(tide_query_pool **out, const tide_query_pool_options *options,
                                 tide_error *err)
{
    TIDE_NEW(tide_query_pool, pool, err);
    pool->limits = *options->limits;
    pool->program = options->program;
    pool->metrics = options->metrics;
    pool->slot_count = pool->limits.query_processes < TIDE_QUERY_PROCESSES_MAX
                           ? (int)pool->limits.query_processes
                           : TIDE_QUERY_PROCESSES_MAX;
    pool->last = &pool->first;
    (void)pthread_mutex_init(&pool->lock, NULL);
    (void)pthread_cond_init(&pool->has_work, NULL);
    const tide_status status = start(pool, err);
    if (status < TIDE_OK) {
        tide_query_pool_close(pool);
        return status;
    }
    *out = pool;
    return TIDE_OK;
}

void tide_query_pool_close(tide_query_pool *pool)
{
    if (!pool)
        return;
    (void)pthread_mutex_lock(&pool->lock);
    pool->is_closing = true;
    (void)pthread_cond_broadcast(&pool->has_work);
    (void)pthread_mutex_unlock(&pool->lock);
    for (int i = 0; i < pool->slot_count; i++) {
        if (pool->slots[i].is_running) {
            signal_fd(pool->slots[i].cancel_fd);
            (void)pthread_join(pool->slots[i].thread, NULL);
        }
        tide_file_closep(&pool->slots[i].cancel_fd);
    }
    while (pool->first) {
        job *j = pool->first;
        pool->first = j->next;
        refuse(j->call, "the daemon stops");
        job_free(j);
    }
    (void)pthread_cond_destroy(&pool->has_work);
    (void)pthread_mutex_destroy(&pool->lock);
    free(pool);
}
