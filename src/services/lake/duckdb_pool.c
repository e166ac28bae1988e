#include "services/lake/duckdb_pool.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/lock.h"
#include "base/thread.h"
#include "runtime/query/query_process.h"

typedef struct job {
    struct job *next;
    tide_call *call;
    char *message;
    size_t len;
    tide_duckdb_thread_fn *fn;
    tide_duckdb_thread_drop_fn *drop;
    void *arg;
} job;

struct tide_duckdb_thread {
    tide_duckdb_pool *desks;
    tide_lake_data *data; /* NULL: not opened */
    tide_duck_cancel *cancel;
    tide_query_process *queries; /* of conditions; NULL: not opened */
    int cancel_fd;               /* of it */
    pthread_t thread;
    bool is_running;
};

struct tide_duckdb_pool {
    tide_duckdb_pool_options options;
    pthread_mutex_t lock;
    pthread_cond_t work;
    /* under the lock */
    job *first;
    job **last;
    size_t count;
    size_t len;
    bool is_closing;
    int desk_count;
    tide_duckdb_thread desks[TIDE_DESKS_MAX];
};

/* ---- leaving ---- */

/* Lives as long as the call, which may end when its desk serves another one. */
typedef struct hook {
    pthread_mutex_t lock;
    tide_duckdb_thread *desk; /* NULL: it is served no more */
} hook;

static void stop_desk(tide_duckdb_thread *desk)
{
    const uint64_t one = 1;
    tide_duck_cancel_raise(desk->cancel);
    const ssize_t written = write(desk->cancel_fd, &one, sizeof one);
    (void)written; /* full: it is readable already */
}

static void stop_work(tide_call *call, void *arg)
{
    (void)call;
    hook *h = arg;
    TIDE_HOLD(&h->lock);
    if (h->desk)
        stop_desk(h->desk);
}

static hook *hang_on(tide_duckdb_thread *desk, tide_call *call)
{
    hook *h = tide_call_memory(call, sizeof *h);
    if (!h)
        return NULL;
    (void)pthread_mutex_init(&h->lock, NULL);
    h->desk = desk;
    tide_call_on_cancel(call, stop_work, h);
    return h;
}

static void let_go(hook *h)
{
    if (!h)
        return;
    TIDE_HOLD(&h->lock);
    h->desk = NULL;
}

/* What was stopped in its midst is not used again. */
static void clear(tide_duckdb_thread *desk)
{
    if (!tide_duck_cancel_is_raised(desk->cancel))
        return;
    tide_lake_data_close(desk->data);
    desk->data = NULL;
    tide_duck_cancel_clear(desk->cancel);
    uint64_t ignored = 0;
    const ssize_t n = read(desk->cancel_fd, &ignored, sizeof ignored);
    (void)n;
}

/* ---- work ---- */

static void free_job(job *j)
{
    tide_call_release(j->call);
    free(j->message);
    free(j);
}

static void serve(tide_duckdb_thread *desk, job *j)
{
    if (!tide_call_is_cancelled(j->call)) {
        hook *h = hang_on(desk, j->call);
        j->fn(desk, j->call, tide_view_bytes(j->message, j->len), j->arg);
        let_go(h);
    }
    free_job(j);
}

/* NULL: it is over. */
static job *next_job(tide_duckdb_pool *desks)
{
    TIDE_HOLD(&desks->lock);
    while (!desks->first && !desks->is_closing)
        (void)pthread_cond_wait(&desks->work, &desks->lock);
    job *j = desks->is_closing ? NULL : desks->first;
    if (j) {
        desks->first = j->next;
        if (!desks->first)
            desks->last = &desks->first;
        desks->count--;
        desks->len -= j->len;
    }
    return j;
}

static void *run_desk(void *arg)
{
    tide_duckdb_thread *desk = arg;
    job *j = NULL;
    while ((j = next_job(desk->desks))) {
        serve(desk, j);
        clear(desk);
    }
    tide_query_process_close(desk->queries); /* it ends with the thread that started it */
    return NULL;
}

/* false: there is no room, or it is over. With the lock held. */
static bool enqueue(tide_duckdb_pool *desks, job *j)
{
    if (desks->is_closing || desks->count == TIDE_DESK_QUEUE_MAX ||
        (desks->count > 0 && desks->len + j->len > TIDE_DESK_QUEUE_LEN))
        return false;
    *desks->last = j;
    desks->last = &j->next;
    desks->count++;
    desks->len += j->len;
    (void)pthread_cond_signal(&desks->work);
    return true;
}

tide_status tide_duckdb_pool_put(tide_duckdb_pool *desks, tide_call *call, char *message,
                                 size_t len, tide_duckdb_thread_fn *fn,
                                 tide_duckdb_thread_drop_fn *drop, void *arg, tide_error *err)
{
    job *j = calloc(1, sizeof *j);
    if (!j) {
        free(message);
        return tide_no_memory(err);
    }
    *j = (job){.call = call, .message = message, .len = len, .fn = fn, .drop = drop, .arg = arg};
    tide_call_hold(call);
    (void)pthread_mutex_lock(&desks->lock);
    const bool has_room = enqueue(desks, j);
    (void)pthread_mutex_unlock(&desks->lock);
    if (has_room)
        return TIDE_OK;
    free_job(j);
    return tide_fail(
        err, TIDE_E_BUSY,
        "too many calls wait for a DuckDB, or the service ends: try again in a moment");
}

tide_status tide_duckdb_thread_data(tide_duckdb_thread *desk, tide_lake_data **out, tide_error *err)
{
    const tide_duckdb_pool_options *options = &desk->desks->options;
    const tide_query_process_options conditions = {
        .target = {.kind = TIDE_QUERY_LAKE, .path = options->data_dir, .library = options->library},
        .program = options->query_program,
        .memory_len = options->memory_max,
        .cancel_fd = desk->cancel_fd,
        .metrics = options->metrics};
    if (!desk->queries)
        TIDE_TRY(tide_query_process_open(&desk->queries, &conditions, err));
    const tide_lake_data_options wanted = {.library = options->library,
                                           .memory_max = options->memory_max,
                                           .env = options->env,
                                           .seen = options->seen,
                                           .cancel = desk->cancel,
                                           .runner = tide_query_process_runner(desk->queries)};
    if (!desk->data)
        TIDE_TRY(tide_lake_data_open(&desk->data, options->data_dir, &wanted, err));
    *out = desk->data;
    return TIDE_OK;
}

/* ---- life ---- */

static tide_status start(tide_duckdb_pool *desks, tide_error *err)
{
    for (int i = 0; i < desks->desk_count; i++) {
        tide_duckdb_thread *desk = &desks->desks[i];
        desk->desks = desks;
        desk->cancel_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (desk->cancel_fd < 0)
            return tide_fail(err, TIDE_E_IO, "no descriptor for the pool of DuckDB");
        TIDE_TRY(tide_duck_cancel_new(&desk->cancel, err));
        TIDE_TRY(tide_thread_start(&desk->thread, run_desk, desk, err));
        desk->is_running = true;
    }
    return TIDE_OK;
}

tide_status tide_duckdb_pool_open(tide_duckdb_pool **out, const tide_duckdb_pool_options *options,
                                  tide_error *err)
{
    TIDE_NEW(tide_duckdb_pool, desks, err);
    desks->options = *options;
    if (desks->options.memory_max <= 0)
        desks->options.memory_max = TIDE_DESK_MEMORY_DEFAULT;
    desks->desk_count = options->count > 0 ? options->count : TIDE_DESKS_DEFAULT;
    if (desks->desk_count > TIDE_DESKS_MAX)
        desks->desk_count = TIDE_DESKS_MAX;
    for (int i = 0; i < desks->desk_count; i++)
        desks->desks[i].cancel_fd = -1;
    desks->last = &desks->first;
    (void)pthread_mutex_init(&desks->lock, NULL);
    (void)pthread_cond_init(&desks->work, NULL);
    const tide_status status = start(desks, err);
    if (status < TIDE_OK) {
        tide_duckdb_pool_close(desks);
        return status;
    }
    *out = desks;
    return TIDE_OK;
}

static void refuse_rest(tide_duckdb_pool *desks)
{
    const tide_error err = {.status = TIDE_E_UNAVAILABLE, .text = "the service ends"};
    while (desks->first) {
        job *j = desks->first;
        desks->first = j->next;
        tide_call_end(j->call, TIDE_E_UNAVAILABLE, &err);
        if (j->drop)
            j->drop(j->call, j->arg);
        free_job(j);
    }
}

void tide_duckdb_pool_close(tide_duckdb_pool *desks)
{
    if (!desks)
        return;
    (void)pthread_mutex_lock(&desks->lock);
    desks->is_closing = true;
    for (int i = 0; i < desks->desk_count; i++)
        if (desks->desks[i].cancel)
            stop_desk(&desks->desks[i]);
    (void)pthread_cond_broadcast(&desks->work);
    (void)pthread_mutex_unlock(&desks->lock);
    for (int i = 0; i < desks->desk_count; i++) {
        if (desks->desks[i].is_running)
            (void)pthread_join(desks->desks[i].thread, NULL);
        tide_lake_data_close(desks->desks[i].data);
        tide_duck_cancel_free(desks->desks[i].cancel);
        tide_file_closep(&desks->desks[i].cancel_fd);
    }
    refuse_rest(desks);
    (void)pthread_cond_destroy(&desks->work);
    (void)pthread_mutex_destroy(&desks->lock);
    free(desks);
}
