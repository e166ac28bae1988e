#include "store/watch.h"

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
#include "base/interface/caller.h"
#include "base/lock.h"
#include "base/thread.h"
#include "store/engine.h"

struct tide_watch {
    tide_store *store;
    int fd; /* an eventfd: holds the sign until it is waited for */
    char topic[TIDE_TOPIC_MAX + 1];
    tide_watch *next;
};

/* ---- topics ---- */

static tide_status check_topic(const char *topic, tide_error *err)
{
    const size_t len = topic ? strlen(topic) : 0;
    if (len < 1 || len > TIDE_TOPIC_MAX)
        return tide_fail(err, TIDE_E_INVALID, "a topic has 1 to %d bytes, this one has %zu",
                         TIDE_TOPIC_MAX, len);
    return TIDE_OK;
}

bool tide_topics_add(tide_topics *topics, const char *topic)
{
    for (int i = 0; i < topics->count; i++)
        if (strcmp(topics->names[i], topic) == 0)
            return true;
    if (topics->count == TIDE_TX_TOPIC_MAX)
        return false;
    (void)snprintf(topics->names[topics->count++], TIDE_TOPIC_MAX + 1, "%s", topic);
    return true;
}

tide_status tide_tx_notify(tide_tx *tx, const char *topic, tide_error *err)
{
    TIDE_NEED(tx, err);
    TIDE_TRY(check_topic(topic, err));
    if (!tx->is_write)
        return tide_fail(err, TIDE_E_INVALID, "%s: only a write notifies", topic);
    if (!tide_topics_add(&tx->topics, topic))
        return tide_fail(err, TIDE_E_LIMIT, "more than %d topics in one transaction",
                         TIDE_TX_TOPIC_MAX);
    return TIDE_OK;
}

/* ---- watches ---- */

static void make_ready(const tide_watch *watch)
{
    const uint64_t one = 1;
    const ssize_t written = write(watch->fd, &one, sizeof one);
    (void)written; /* a full counter is as ready as can be */
}

void tide_watch_signal(tide_store *store, const char *topic)
{
    TIDE_HOLD(&store->watch_lock);
    for (const tide_watch *watch = store->watches; watch; watch = watch->next)
        if (!topic || strcmp(watch->topic, topic) == 0)
            make_ready(watch);
}

void tide_watch_signal_topics(tide_store *store, const tide_topics *topics)
{
    for (int i = 0; i < topics->count; i++)
        tide_watch_signal(store, topics->names[i]);
}

tide_status tide_watch_open(tide_watch **out, tide_store *store, const char *topic, tide_error *err)
{
    TIDE_NEED(out && store, err);
    TIDE_TRY(check_topic(topic, err));
    TIDE_NEW(tide_watch, watch, err);
    watch->store = store;
    (void)snprintf(watch->topic, sizeof watch->topic, "%s", topic);
    watch->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (watch->fd < 0) {
        free(watch);
        return tide_fail(err, TIDE_E_LIMIT, "cannot make a watch: %s", strerror(errno));
    }
    (void)pthread_mutex_lock(&store->watch_lock);
    watch->next = store->watches;
    store->watches = watch;
    const tide_status status = store->ops->watch(store, err);
    (void)pthread_mutex_unlock(&store->watch_lock);
    if (status < TIDE_OK) {
        tide_watch_close(watch);
        return status;
    }
    *out = watch;
    return TIDE_OK;
}

void tide_watch_close(tide_watch *watch)
{
    if (!watch)
        return;
    (void)pthread_mutex_lock(&watch->store->watch_lock);
    for (tide_watch **at = &watch->store->watches; *at; at = &(*at)->next) {
        if (*at == watch) {
            *at = watch->next;
            break;
        }
    }
    (void)pthread_mutex_unlock(&watch->store->watch_lock);
    (void)close(watch->fd);
    free(watch);
}

TIDE_CLOSE_FN(tide_watch_closep, tide_watch, tide_watch_close)

int tide_watch_fd(const tide_watch *watch)
{
    return watch ? watch->fd : -1;
}

tide_status tide_watch_wait(tide_watch *watch, int64_t timeout_us, tide_error *err)
{
    TIDE_NEED(watch, err);
    struct pollfd ready = {.fd = watch->fd, .events = POLLIN};
    const int64_t timeout_ms = timeout_us <= 0 ? 0 : (timeout_us + 999) / 1000;
    const int found = poll(&ready, 1, timeout_ms > INT32_MAX ? INT32_MAX : (int)timeout_ms);
    if (found < 0 && errno != EINTR)
        return tide_fail(err, TIDE_E_IO, "cannot wait: %s", strerror(errno));
    uint64_t signs = 0;
    return found > 0 && read(watch->fd, &signs, sizeof signs) == (ssize_t)sizeof signs ? TIDE_OK
                                                                                       : TIDE_NONE;
}

/* ---- the engine's thread ---- */

tide_status tide_watcher_start(tide_watcher *watcher, tide_store *store,
                               void *(*run)(void *watcher), tide_error *err)
{
    if (watcher->is_running)
        return TIDE_OK;
    watcher->store = store;
    watcher->stop_fd = eventfd(0, EFD_CLOEXEC);
    if (watcher->stop_fd < 0)
        return tide_fail(err, TIDE_E_LIMIT, "cannot start watching: %s", strerror(errno));
    const tide_status status = tide_thread_start(&watcher->thread, run, watcher, err);
    if (status < TIDE_OK) {
        (void)close(watcher->stop_fd);
        return status;
    }
    watcher->is_running = true;
    return TIDE_OK;
}

void tide_watcher_stop(tide_watcher *watcher)
{
    if (!watcher->is_running)
        return;
    const uint64_t one = 1;
    const ssize_t written = write(watcher->stop_fd, &one, sizeof one);
    assert(written == (ssize_t)sizeof one);
    (void)pthread_join(watcher->thread, NULL);
    (void)close(watcher->stop_fd);
    watcher->is_running = false;
}

int tide_watcher_poll(const tide_watcher *watcher, int fd, int timeout_ms)
{
    struct pollfd fds[] = {{.fd = watcher->stop_fd, .events = POLLIN},
                           {.fd = fd, .events = POLLIN}};
    const int found = poll(fds, fd >= 0 ? 2 : 1, timeout_ms);
    if (found > 0 && fds[0].revents)
        return -1;
    return found > 0;
}
