#include "services/api/long_poll.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <tidemark/watch.h>

#include "base/cleanup.h"
#include "base/lock.h"
#include "base/thread.h"

#define LOOK_US INT64_C(1000000) /* a hint may get lost */

typedef struct parked {
    struct parked *next;
    tide_call *call;
    tide_long_poll_step *step;
    void *arg;
    int64_t due_us; /* monotonic */
    int64_t deadline_us;
} parked;

struct tide_long_poll {
    tide_store *store;
    tide_watch *watch;
    pthread_t thread;
    pthread_mutex_t lock;
    int wake_fd;
    uint64_t round; /* the thread's alone */
    /* under the lock */
    parked *arrived;
    size_t count;
    bool is_closing;
};

static int64_t now_of(const tide_long_poll *waiter)
{
    tide_env *env = tide_store_env(waiter->store);
    return env->mono_us(env);
}

static void wake(const tide_long_poll *waiter)
{
    const uint64_t one = 1;
    while (write(waiter->wake_fd, &one, sizeof one) < 0 && errno == EINTR) {
    }
}

static void forget(tide_long_poll *waiter, parked *p)
{
    tide_call_release(p->call);
    free(p->arg);
    free(p);
    TIDE_HOLD(&waiter->lock);
    waiter->count--;
}

/* false: it is done. */
static bool step_one(const tide_long_poll *waiter, parked *p, bool is_closing)
{
    const int64_t now_us = now_of(waiter);
    const bool is_over = is_closing || now_us >= p->deadline_us || tide_call_is_cancelled(p->call);
    const int64_t again_us = p->step(p->call, waiter->store, p->arg, is_over);
    if (again_us < 0 || is_over)
        return false;
    /* Those who only look to be sure do so together. */
    p->due_us = again_us < LOOK_US ? now_us + again_us : (now_us / LOOK_US + 1) * LOOK_US;
    return true;
}

/* Step all waiters that are due, or all; returns the time until the next one is. */
static int64_t step_due(tide_long_poll *waiter, parked **list, bool is_all, bool is_closing)
{
    int64_t wait_us = LOOK_US;
    for (parked **at = list; *at;) {
        parked *p = *at;
        const int64_t now_us = now_of(waiter);
        const bool is_due = is_all || now_us >= p->due_us || now_us >= p->deadline_us;
        if (is_due && !step_one(waiter, p, is_closing)) {
            *at = p->next;
            forget(waiter, p);
            continue;
        }
        const int64_t next_us = p->due_us < p->deadline_us ? p->due_us : p->deadline_us;
        if (next_us - now_us < wait_us)
            wait_us = next_us > now_us ? next_us - now_us : 0;
        at = &p->next;
    }
    return wait_us;
}

/* Returns whether something may have changed. */
static bool wait_for_news(const tide_long_poll *waiter, int64_t wait_us)
{
    struct pollfd fds[2] = {{.fd = waiter->wake_fd, .events = POLLIN},
                            {.fd = tide_watch_fd(waiter->watch), .events = POLLIN}};
    const struct timespec timeout = {.tv_sec = wait_us / 1000000,
                                     .tv_nsec = wait_us % 1000000 * 1000};
    (void)ppoll(fds, 2, &timeout, NULL);
    uint64_t count;
    if (fds[0].revents != 0 && read(waiter->wake_fd, &count, sizeof count) < 0)
        return false;
    return tide_watch_wait(waiter->watch, 0, NULL) == TIDE_OK;
}

static bool move_arrived(tide_long_poll *waiter, parked **list)
{
    TIDE_HOLD(&waiter->lock);
    while (waiter->arrived) {
        parked *p = waiter->arrived;
        waiter->arrived = p->next;
        p->next = *list;
        *list = p;
    }
    return waiter->is_closing;
}

static void *run_waiter(void *arg)
{
    tide_long_poll *waiter = arg;
    parked *list = NULL;
    bool has_news = false;
    for (;;) {
        const bool is_closing = move_arrived(waiter, &list);
        waiter->round++;
        const int64_t wait_us = step_due(waiter, &list, has_news || is_closing, is_closing);
        if (is_closing)
            return NULL;
        has_news = wait_for_news(waiter, wait_us);
    }
}

tide_status tide_long_poll_open(tide_long_poll **out, tide_store *store, const char *topic,
                                tide_error *err)
{
    TIDE_NEW(tide_long_poll, waiter, err);
    waiter->store = store;
    waiter->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    (void)pthread_mutex_init(&waiter->lock, NULL);
    tide_status status = waiter->wake_fd < 0
                             ? tide_fail(err, TIDE_E_FAILED, "eventfd: %s", strerror(errno))
                             : tide_watch_open(&waiter->watch, store, topic, err);
    if (status >= TIDE_OK)
        status = tide_thread_start(&waiter->thread, run_waiter, waiter, err);
    if (status < TIDE_OK) {
        tide_watch_close(waiter->watch);
        if (waiter->wake_fd >= 0)
            (void)close(waiter->wake_fd);
        (void)pthread_mutex_destroy(&waiter->lock);
        free(waiter);
        return status;
    }
    *out = waiter;
    return TIDE_OK;
}

void tide_long_poll_end(tide_long_poll *waiter)
{
    (void)pthread_mutex_lock(&waiter->lock);
    waiter->is_closing = true;
    (void)pthread_mutex_unlock(&waiter->lock);
    wake(waiter);
}

void tide_long_poll_close(tide_long_poll *waiter)
{
    if (!waiter)
        return;
    tide_long_poll_end(waiter);
    (void)pthread_join(waiter->thread, NULL);
    tide_watch_close(waiter->watch);
    (void)close(waiter->wake_fd);
    (void)pthread_mutex_destroy(&waiter->lock);
    free(waiter);
}

uint64_t tide_long_poll_round(const tide_long_poll *waiter)
{
    return waiter->round;
}

tide_status tide_long_poll_park(tide_long_poll *waiter, tide_call *call, tide_long_poll_step *step,
                                void *arg, int64_t wait_us, tide_error *err)
{
    parked *p = calloc(1, sizeof *p);
    if (!p) {
        free(arg);
        return tide_no_memory(err);
    }
    const int64_t now_us = now_of(waiter);
    *p = (parked){.call = call,
                  .step = step,
                  .arg = arg,
                  .due_us = now_us,
                  .deadline_us = wait_us > INT64_MAX - now_us ? INT64_MAX : now_us + wait_us};
    (void)pthread_mutex_lock(&waiter->lock);
    const bool is_taken = !waiter->is_closing && waiter->count < TIDE_LONG_POLL_MAX;
    if (is_taken) {
        tide_call_hold(call);
        p->next = waiter->arrived;
        waiter->arrived = p;
        waiter->count++;
    }
    (void)pthread_mutex_unlock(&waiter->lock);
    if (is_taken) {
        wake(waiter);
        return TIDE_OK;
    }
    free(arg);
    free(p);
    return tide_fail(err, TIDE_E_BUSY, "%d calls wait already, or the service ends",
                     TIDE_LONG_POLL_MAX);
}
