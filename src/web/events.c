#include "web/events.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <tidemark/watch.h>

#include "base/cleanup.h"
#include "base/lock.h"
#include "base/thread.h"

enum {
    GATHER_MS = 500,
    BEATS = 4, /* gatherings without news before a heartbeat is sent: every 2 s */
    LINE_MAX_LEN = 64 + TIDE_TOPIC_MAX,
};

struct tide_events {
    tide_store *store;
    tide_web_source sources[TIDE_WEB_SOURCES_MAX];
    tide_watch *watches[TIDE_WEB_SOURCES_MAX]; /* NULL: a number */
    uint64_t versions[TIDE_WEB_SOURCES_MAX];
    int count;
    int waker;
    pthread_t thread;
    bool has_thread;
    atomic_bool is_over;
    pthread_mutex_t lock; /* of what follows */
    tide_call *pages[TIDE_WEB_LISTENERS];
    int page_count;
    bool is_closed;
};

/* ---- pages ---- */

static bool add_page(tide_events *events, tide_call *call)
{
    TIDE_HOLD(&events->lock);
    const bool has_room = !events->is_closed && events->page_count < TIDE_WEB_LISTENERS;
    if (has_room) {
        tide_call_hold(call);
        events->pages[events->page_count++] = call;
    }
    return has_room;
}

/* To every page; those that left or do not read are let go. */
static void notify_pages(tide_events *events, tide_view text)
{
    TIDE_HOLD(&events->lock);
    int kept = 0;
    for (int i = 0; i < events->page_count; i++) {
        tide_call *call = events->pages[i];
        if (!tide_call_is_full(call) && tide_call_send(call, text)) {
            events->pages[kept++] = call;
            continue;
        }
        tide_call_end(call, TIDE_OK, NULL);
        tide_call_release(call);
    }
    events->page_count = kept;
}

static void end_pages(tide_events *events)
{
    TIDE_HOLD(&events->lock);
    events->is_closed = true;
    for (int i = 0; i < events->page_count; i++) {
        tide_call_end(events->pages[i], TIDE_OK, NULL);
        tide_call_release(events->pages[i]);
    }
    events->page_count = 0;
}

static void serve_events(tide_call *call, tide_view body, void *arg)
{
    (void)body;
    tide_events *events = arg;
    tide_error err;
    tide_call_add_header(call, "content-type", "text/event-stream");
    tide_call_add_header(call, "cache-control", "no-store");
    tide_call_compress(call, false);
    if (!tide_call_send(call, tide_view_of("data: all\n\n")))
        return;
    if (!add_page(events, call))
        tide_call_end(call, tide_fail(&err, TIDE_E_BUSY, "too many pages are open"), &err);
}

const tide_route tide_events_routes[] = {
    {.method = "GET", .path = "/events", .role = TIDE_ROLE_READ, .run = serve_events},
    {.method = NULL},
};

/* ---- news ---- */

static bool has_changed(tide_events *events, int index)
{
    const tide_web_source *source = &events->sources[index];
    if (events->watches[index])
        return tide_watch_wait(events->watches[index], 0, NULL) == TIDE_OK;
    const uint64_t version = source->version(source->arg);
    const bool is_new = version != events->versions[index];
    events->versions[index] = version;
    return is_new;
}

static size_t gather(tide_events *events, char *out, size_t size)
{
    size_t len = 0;
    for (int i = 0; i < events->count && size - len > LINE_MAX_LEN; i++)
        if (has_changed(events, i))
            len +=
                (size_t)snprintf(out + len, size - len, "data: %s\n\n", events->sources[i].topic);
    return len;
}

static void *watch(void *arg)
{
    tide_events *events = arg;
    char text[TIDE_WEB_SOURCES_MAX * LINE_MAX_LEN + 1];
    int quiet = 0;
    while (!atomic_load(&events->is_over)) {
        struct pollfd waker = {.fd = events->waker, .events = POLLIN};
        (void)poll(&waker, 1, GATHER_MS);
        const size_t len = gather(events, text, sizeof text);
        quiet = len > 0 ? 0 : quiet + 1;
        if (len > 0)
            notify_pages(events, (tide_view){.ptr = text, .len = len});
        else if (quiet >= BEATS) {
            quiet = 0;
            notify_pages(events, tide_view_of(": still here\n\n"));
        }
    }
    return NULL;
}

/* ---- life ---- */

static tide_status open_watches(tide_events *events, tide_error *err)
{
    for (int i = 0; i < events->count; i++)
        if (events->sources[i].store_topic)
            TIDE_TRY(tide_watch_open(&events->watches[i], events->store,
                                     events->sources[i].store_topic, err));
    return TIDE_OK;
}

tide_status tide_events_open(tide_events **out, tide_store *store, const tide_web_source *sources,
                             int count, tide_error *err)
{
    if (count > TIDE_WEB_SOURCES_MAX)
        return tide_fail(err, TIDE_E_LIMIT, "the dashboard has at most %d topics",
                         TIDE_WEB_SOURCES_MAX);
    TIDE_NEW(tide_events, events, err);
    events->store = store;
    events->count = count;
    memcpy(events->sources, sources, (size_t)count * sizeof *sources);
    (void)pthread_mutex_init(&events->lock, NULL);
    events->waker = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    tide_status status = open_watches(events, err);
    if (status >= TIDE_OK && events->waker < 0)
        status = tide_fail(err, TIDE_E_IO, "the system gives no descriptor");
    if (status < TIDE_OK) {
        tide_events_close(events);
        return status;
    }
    *out = events;
    return TIDE_OK;
}

tide_status tide_events_start(tide_events *events, tide_error *err)
{
    TIDE_TRY(tide_thread_start(&events->thread, watch, events, err));
    events->has_thread = true;
    return TIDE_OK;
}

void tide_events_end(tide_events *events)
{
    atomic_store(&events->is_over, true);
    (void)eventfd_write(events->waker, 1);
    end_pages(events);
}

void tide_events_close(tide_events *events)
{
    if (!events)
        return;
    if (events->waker >= 0)
        tide_events_end(events);
    if (events->has_thread)
        (void)pthread_join(events->thread, NULL);
    for (int i = 0; i < events->count; i++)
        tide_watch_close(events->watches[i]);
    if (events->waker >= 0)
        (void)close(events->waker);
    (void)pthread_mutex_destroy(&events->lock);
    free(events);
}
