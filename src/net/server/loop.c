#include "net/server/loop.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/lock.h"
#include "base/thread.h"

static void lock_loop(tide_loop *loop)
{
    const int failed = pthread_mutex_lock(&loop->lock);
    assert(failed == 0);
    (void)failed;
}

static void unlock_loop(tide_loop *loop)
{
    const int failed = pthread_mutex_unlock(&loop->lock);
    assert(failed == 0);
    (void)failed;
}

static void ring(const tide_loop *loop)
{
    const uint64_t one = 1;
    const ssize_t written = write(loop->bell_fd, &one, sizeof one);
    (void)written; /* a full counter has rung already */
}

void tide_loop_give_back(tide_loop_shared *shared, const tide_peer_key *key, bool has_key)
{
    if (has_key)
        tide_peers_leave(&shared->peers, key);
    tide_count(&shared->context->counters.connections_open, -1);
    TIDE_HOLD(&shared->lock);
    shared->link_count--;
    (void)pthread_cond_broadcast(&shared->emptied);
}

void tide_link_wake(void *woken)
{
    tide_link *link = woken;
    tide_loop *loop = link->loop;
    if (pthread_equal(loop->thread, pthread_self()) && loop->pumping == link) {
        link->has_news = true;
        return;
    }
    lock_loop(loop);
    const bool is_first = !loop->woken;
    if (!link->is_woken) {
        link->is_woken = true;
        link->next_woken = loop->woken;
        loop->woken = link;
    }
    unlock_loop(loop);
    if (is_first)
        ring(loop);
}

/* What others left in the inbox. A link that is freed takes itself out of the list of the woken. */
static tide_link *next_woken(tide_loop *loop)
{
    lock_loop(loop);
    tide_link *link = loop->woken;
    if (link) {
        loop->woken = link->next_woken;
        link->is_woken = false;
    }
    unlock_loop(loop);
    return link;
}

static void drain_links(tide_loop *loop)
{
    if (loop->on_drain)
        loop->on_drain(loop->on_drain_arg);
    for (tide_link *link = loop->links, *next; link; link = next) {
        next = link->next;
        if (link->conn) {
            link->conn->class->drain(link->conn);
            tide_link_pump(link);
        } else if (!link->is_lingering) {
            tide_link_free(link);
        }
    }
}

static void on_bell(evutil_socket_t fd, short what, void *arg)
{
    (void)what;
    tide_loop *loop = arg;
    uint64_t rung;
    const ssize_t got = read(fd, &rung, sizeof rung);
    (void)got;
    lock_loop(loop);
    tide_arrival *arrivals = loop->arrivals;
    loop->arrivals = NULL;
    const bool is_draining = loop->is_draining;
    const bool is_stopping = loop->is_stopping;
    const bool wants_room = loop->wants_room;
    loop->wants_room = false;
    unlock_loop(loop);

    if (wants_room)
        tide_link_make_room(loop);
    while (arrivals) {
        tide_arrival *arrival = arrivals;
        arrivals = arrival->next;
        tide_link_open(loop, arrival);
        free(arrival);
    }
    /* Bounded: links that are woken again while we are at it wait for the next ring. */
    size_t turns = 4096;
    tide_link *link = NULL;
    while (turns-- > 0 && (link = next_woken(loop)))
        tide_link_pump(link);
    if (link)
        ring(loop);
    if (is_draining)
        drain_links(loop);
    if (is_stopping)
        (void)event_base_loopbreak(loop->base);
}

static void *run_loop(void *arg)
{
    tide_loop *loop = arg;
    (void)event_base_loop(loop->base, EVLOOP_NO_EXIT_ON_EMPTY);
    while (loop->links)
        tide_link_free(loop->links);
    /* A TLS connection that has just written has put a callback off, which holds it: libevent frees
     * the connection, and closes its socket, once that has run. Without the bell, which would break
     * the loop again. */
    (void)event_del(loop->bell);
    (void)event_base_loop(loop->base, EVLOOP_NONBLOCK);
    return NULL;
}

tide_status tide_loop_new(tide_loop **out, tide_loop_shared *shared, tide_error *err)
{
    tide_loop *loop = calloc(1, sizeof *loop);
    if (!loop)
        return tide_no_memory(err);
    loop->shared = shared;
    (void)pthread_mutex_init(&loop->lock, NULL);
    loop->bell_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    struct event_config *config = event_config_new();
    if (config) {
        (void)event_config_set_flag(config, EVENT_BASE_FLAG_NOLOCK);
        loop->base = event_base_new_with_config(config);
        event_config_free(config);
    }
    if (loop->base && loop->bell_fd >= 0)
        loop->bell = event_new(loop->base, loop->bell_fd, EV_READ | EV_PERSIST, on_bell, loop);
    if (!loop->bell || event_add(loop->bell, NULL) != 0) {
        tide_loop_free(loop);
        return tide_fail(err, TIDE_E_FAILED, "cannot make an event loop: %s", strerror(errno));
    }
    *out = loop;
    return TIDE_OK;
}

tide_status tide_loop_start(tide_loop *loop, tide_error *err)
{
    TIDE_TRY(tide_thread_start(&loop->thread, run_loop, loop, err));
    loop->is_started = true;
    return TIDE_OK;
}

void tide_loop_free(tide_loop *loop)
{
    if (!loop)
        return;
    if (loop->is_started) {
        lock_loop(loop);
        loop->is_stopping = true;
        unlock_loop(loop);
        ring(loop);
        (void)pthread_join(loop->thread, NULL);
    }
    while (loop->arrivals) {
        tide_arrival *arrival = loop->arrivals;
        loop->arrivals = arrival->next;
        tide_peer_key key;
        const bool has_key = tide_peer_key_of(&key, (const struct sockaddr *)&arrival->address);
        (void)close(arrival->fd);
        tide_loop_give_back(loop->shared, &key, has_key);
        free(arrival);
    }
    if (loop->bell)
        event_free(loop->bell);
    if (loop->base)
        event_base_free(loop->base);
    if (loop->bell_fd >= 0)
        (void)close(loop->bell_fd);
    (void)pthread_mutex_destroy(&loop->lock);
    free(loop);
}

void tide_loop_hand_over(tide_loop *loop, int fd, const struct sockaddr *address, socklen_t len,
                         tide_room room)
{
    tide_arrival *arrival = calloc(1, sizeof *arrival);
    if (!arrival) {
        tide_peer_key key;
        const bool has_key = tide_peer_key_of(&key, address);
        (void)close(fd);
        tide_loop_give_back(loop->shared, &key, has_key);
        return;
    }
    arrival->fd = fd;
    arrival->room = room;
    memcpy(&arrival->address, address,
           len < sizeof arrival->address ? len : sizeof arrival->address);
    lock_loop(loop);
    arrival->next = loop->arrivals;
    loop->arrivals = arrival;
    unlock_loop(loop);
    ring(loop);
}

void tide_loop_make_room(tide_loop *loop)
{
    lock_loop(loop);
    loop->wants_room = true;
    unlock_loop(loop);
    ring(loop);
}

void tide_loop_drain(tide_loop *loop)
{
    lock_loop(loop);
    loop->is_draining = true;
    unlock_loop(loop);
    ring(loop);
}

bool tide_loop_is_draining(tide_loop *loop)
{
    lock_loop(loop);
    const bool is_draining = loop->is_draining;
    unlock_loop(loop);
    return is_draining;
}
