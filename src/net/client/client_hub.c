/* client_hub.c - the thread that drives libcurl for its clients: see client_hub.h and
 * client_internal.h.
 *
 * libcurl names the sockets and the time it waits for, libevent reports their events. Streams that
 * are new, resumed or cancelled and clients that stop come in by two lists under the hub's lock; an
 * eventfd wakes the thread for them.
 *
 * libcurl 7.88 walks through all connections that a multi handle keeps whenever a transfer leaves
 * it: a hub for many clients has many multi handles (rooms), and each client is in one of them. */
#include "net/client/client_hub.h"

#include <assert.h>
#include <event2/event.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/lock.h"
#include "base/thread.h"
#include "net/client/client_internal.h"

enum {
    IDLE_CONNECTIONS = 32,
    /* more than one frame: it may still be under way when the answer comes */
    LONG_BODY_LEN = 16384,
    /* bytes that HTTP/2 lets a new stream send before the server has said anything */
    CORKED_LEN = 60000,
    NUDGE_US = 2000,
    LOOKS = 4,
    ROOMS = 32,
    ROOMS_FROM = 512, /* idle connections; a hub for fewer has one room */
    PORTS = 65536,    /* memory of the table is used for those that are */
};

typedef struct room {
    tide_client_hub *hub;
    CURLM *multi;
    struct event *timer;
} room;

struct tide_client_hub {
    struct event_base *base;
    room rooms[ROOMS];
    int room_count;
    struct event *nudge;
    struct event *bell;
    int bell_fd;
    pthread_t thread;
    bool has_thread;

    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t gone;  /* a client was let go of */
    bool is_closing;
    int next_room;               /* of the next client */
    tide_client_stream *pending; /* to be looked at by the thread */
    tide_client_stream **pending_end;
    tide_client *stopping; /* clients whose calls are to be ended */

    /* the thread's alone */
    tide_client *stepping;        /* clients whose waiting streams may start */
    tide_client_stream *sending;  /* streams with long bodies */
    tide_client_stream *corked;   /* streams whose requests are being written */
    tide_client_sockets *orphans; /* counts of closed clients */
    int *sockets;                 /* by port: one more than the descriptor; 0: not known */
};

/* ---- one stream after the other ---- */

static void unlink_running(tide_client_stream *stream)
{
    *stream->running_link = stream->next_running;
    if (stream->next_running)
        stream->next_running->running_link = stream->running_link;
}

/* libcurl 7.88 does not look at a socket again for what it has read already while a transfer was
 * sending (it loses the end of an answer that comes before the end of a request): those that send
 * much are asked to look, every moment. */
static void nudge(evutil_socket_t fd, short what, void *arg);

static void begin_sending(tide_client_stream *stream)
{
    tide_client_hub *hub = stream->client->hub;
    static const struct timeval moment = {.tv_usec = NUDGE_US};
    stream->is_sending = stream->body_len < 0 || stream->body_len > LONG_BODY_LEN;
    if (!stream->is_sending)
        return;
    if (!hub->sending)
        (void)event_add(hub->nudge, &moment);
    stream->next_sending = hub->sending;
    hub->sending = stream;
}

static void end_sending(tide_client_stream *stream)
{
    tide_client_hub *hub = stream->client->hub;
    tide_client_stream **link = &hub->sending;
    if (!stream->is_sending)
        return;
    while (*link != stream)
        link = &(*link)->next_sending;
    *link = stream->next_sending;
    if (!hub->sending)
        (void)event_del(hub->nudge);
}

static void link_running(tide_client_stream *stream)
{
    tide_client *client = stream->client;
    stream->next_running = client->running;
    stream->running_link = &client->running;
    if (client->running)
        client->running->running_link = &stream->next_running;
    client->running = stream;
}

/* Longer than a frame: libcurl writes it in several turns (see nudge), and is not through yet. What
 * does not fit into the server's first window has to go as it comes. */
static bool is_half_written(const tide_client_stream *stream)
{
    curl_off_t written = 0;
    if (!stream->is_sending || stream->body_len < 0 || stream->body_len > CORKED_LEN)
        return false;
    (void)curl_easy_getinfo(stream->easy, CURLINFO_SIZE_UPLOAD_T, &written);
    return written < stream->body_len;
}

/* Streams share connections: the last one that has written lets go. */
static void let_go(const tide_client_hub *hub, tide_client_stream *stream)
{
    for (const tide_client_stream *other = hub->corked; other; other = other->next_corked)
        if (other->corked_fd == stream->corked_fd) {
            stream->corked_fd = -1;
            return;
        }
    tide_client_connect_uncork(stream);
}

/* libcurl is through: what it has written may go. */
static void uncork(tide_client_hub *hub)
{
    for (tide_client_stream **link = &hub->corked; *link;) {
        tide_client_stream *stream = *link;
        if (is_half_written(stream)) {
            link = &stream->next_corked;
            continue;
        }
        *link = stream->next_corked;
        let_go(hub, stream);
    }
}

static void end_cork(tide_client_stream *stream)
{
    tide_client_stream **link = &stream->client->hub->corked;
    if (stream->corked_fd < 0)
        return;
    while (*link != stream)
        link = &(*link)->next_corked;
    *link = stream->next_corked;
    let_go(stream->client->hub, stream);
}

/* The thread is through with it. */
static void drop(tide_client_stream *stream, CURLcode result)
{
    end_cork(stream);
    (void)curl_multi_remove_handle(stream->client->multi, stream->easy);
    unlink_running(stream);
    end_sending(stream);
    tide_client_connect_end(stream);
    tide_client_finish(stream, result);
    tide_client_release(stream);
}

static bool is_given_up(tide_client_stream *stream)
{
    const bool is_stopping = tide_client_is_stopping(stream->client);
    TIDE_HOLD(&stream->lock);
    if (is_stopping)
        stream->is_cancelled = true;
    return stream->is_cancelled;
}

/* New, resumed or cancelled; the reference of the list of pending ones is ours now. */
static void check_transfer(tide_client_stream *stream)
{
    const bool is_new = !stream->is_added;
    if (is_new) {
        stream->is_added = true;
        link_running(stream);
        begin_sending(stream);
        atomic_fetch_add(&stream->refs, 1);
        tide_client_connect_start(stream);
    }
    pthread_mutex_lock(&stream->lock);
    const bool is_over = stream->is_over;
    pthread_mutex_unlock(&stream->lock);
    if (!is_over && is_given_up(stream))
        drop(stream, CURLE_ABORTED_BY_CALLBACK);
    else if (!is_over && !is_new)
        (void)curl_easy_pause(stream->easy, CURLPAUSE_CONT);
    tide_client_release(stream);
}

/* One at a time: a stream that was taken may be put into the list again at any moment, by others or
 * by what is done here, and its link is the list's then. What comes in meanwhile has rung the bell
 * and is taken next time. */
static tide_client_stream *pop_one(tide_client_hub *hub)
{
    tide_client_stream *stream = hub->pending;
    hub->pending = stream->next_pending;
    if (!hub->pending)
        hub->pending_end = &hub->pending;
    stream->next_pending = NULL;
    stream->is_pending = false;
    return stream;
}

static void move_pending(tide_client_hub *hub)
{
    pthread_mutex_lock(&hub->lock);
    int count = 0;
    for (const tide_client_stream *stream = hub->pending; stream; stream = stream->next_pending)
        count++;
    for (; count > 0; count--) {
        tide_client_stream *stream = pop_one(hub);
        pthread_mutex_unlock(&hub->lock);
        check_transfer(stream);
        pthread_mutex_lock(&hub->lock);
    }
    pthread_mutex_unlock(&hub->lock);
}

static void read_results(const room *r)
{
    int left = 0;
    const CURLMsg *message = NULL;
    while ((message = curl_multi_info_read(r->multi, &left))) {
        if (message->msg != CURLMSG_DONE)
            continue;
        char *of = NULL;
        const CURLcode result = message->data.result;
        (void)curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &of);
        tide_client_stream *stream = (tide_client_stream *)(void *)of;
        end_cork(stream);
        if (!tide_client_connect_again(stream, result))
            drop(stream, result);
    }
}

static void client_hub_unstep(tide_client *client)
{
    tide_client **link = &client->hub->stepping;
    while (*link && *link != client)
        link = &(*link)->next_stepping;
    if (*link)
        *link = client->next_stepping;
    client->is_stepping = false;
}

/* Clients that stop: their calls end. Those that close are let go of. */
static void move_stopping(tide_client_hub *hub)
{
    pthread_mutex_lock(&hub->lock);
    while (hub->stopping) {
        tide_client *client = hub->stopping;
        hub->stopping = client->next_stopping;
        client->is_told = false;
        const bool is_closing = client->is_closing;
        pthread_mutex_unlock(&hub->lock);
        while (client->running) {
            tide_client_stream *stream = client->running;
            (void)is_given_up(stream);
            drop(stream, CURLE_ABORTED_BY_CALLBACK);
        }
        if (is_closing) {
            client_hub_unstep(client);
            tide_client_sockets_leave(client->sockets);
        }
        pthread_mutex_lock(&hub->lock);
        if (is_closing) {
            client->is_gone = true;
            pthread_cond_broadcast(&hub->gone);
        }
    }
    pthread_mutex_unlock(&hub->lock);
}

/* ---- clients whose streams wait for a connection ---- */

void tide_client_hub_step(tide_client *client)
{
    if (client->is_stepping)
        return;
    client->is_stepping = true;
    client->next_stepping = client->hub->stepping;
    client->hub->stepping = client;
}

static void step_clients(tide_client_hub *hub)
{
    while (hub->stepping) {
        tide_client *client = hub->stepping;
        hub->stepping = client->next_stepping;
        client->is_stepping = false;
        tide_client_connect_step(client);
    }
}

/* ---- requests that leave as a whole ---- */

void tide_client_hub_cork(tide_client_stream *stream)
{
    tide_client_hub *hub = stream->client->hub;
    stream->next_corked = hub->corked;
    hub->corked = stream;
}

static bool is_port(int port)
{
    return port > 0 && port < PORTS;
}

void tide_client_hub_know(tide_client_hub *hub, int port, int fd)
{
    if (is_port(port))
        hub->sockets[port] = fd + 1;
}

void tide_client_hub_forget(tide_client_hub *hub, int port, int fd)
{
    if (is_port(port) && hub->sockets[port] == fd + 1)
        hub->sockets[port] = 0;
}

int tide_client_hub_find(const tide_client_hub *hub, int port)
{
    return is_port(port) ? hub->sockets[port] - 1 : -1;
}

static void go_on(const room *r)
{
    uncork(r->hub);
    read_results(r);
    step_clients(r->hub);
}

static void go_on_everywhere(tide_client_hub *hub)
{
    uncork(hub);
    for (int i = 0; i < hub->room_count; i++)
        read_results(&hub->rooms[i]);
    step_clients(hub);
}

/* ---- what libcurl waits for ---- */

/* A socket that libcurl watches. libcurl 7.88 may leave bytes of an answer that it has read from
 * the socket in a buffer of its own, and wait for more on the socket before it looks at them, which
 * never comes: so it is asked to look again, a few times, after each time that something came. */
typedef struct watched {
    const room *room;
    evutil_socket_t fd;
    struct event *io;
    struct event *again;
    int left; /* looks that are due */
} watched;

static void watched_free(watched *w)
{
    if (!w)
        return;
    if (w->io)
        event_free(w->io);
    if (w->again)
        event_free(w->again);
    free(w);
}

static void check_later(watched *w)
{
    static const suseconds_t waits_us[LOOKS] = {32000, 8000, 2000, 500};
    const struct timeval after = {.tv_usec = waits_us[w->left - 1]};
    (void)event_add(w->again, &after);
}

static void on_socket(evutil_socket_t fd, short what, void *arg)
{
    watched *w = arg;
    const room *r = w->room;
    int running_count = 0;
    const int events = ((what & EV_READ) != 0 ? CURL_CSELECT_IN : 0) |
                       ((what & EV_WRITE) != 0 ? CURL_CSELECT_OUT : 0);
    w->left = LOOKS;
    check_later(w);
    (void)curl_multi_socket_action(r->multi, fd, events, &running_count); /* w may be gone now */
    go_on(r);
}

static void on_again(evutil_socket_t unused, short what, void *arg)
{
    (void)unused;
    (void)what;
    watched *w = arg;
    const room *r = w->room;
    int running_count = 0;
    w->left--;
    if (w->left > 0)
        check_later(w);
    (void)curl_multi_socket_action(r->multi, w->fd, CURL_CSELECT_IN, &running_count);
    go_on(r);
}

static void nudge(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    tide_client_hub *hub = arg;
    int running_count = 0;
    for (const tide_client_stream *stream = hub->sending; stream; stream = stream->next_sending) {
        curl_socket_t socket = CURL_SOCKET_BAD;
        (void)curl_easy_getinfo(stream->easy, CURLINFO_ACTIVESOCKET, &socket);
        if (socket != CURL_SOCKET_BAD)
            (void)curl_multi_socket_action(stream->client->multi, socket,
                                           CURL_CSELECT_IN | CURL_CSELECT_OUT, &running_count);
    }
    go_on_everywhere(hub);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    const room *r = arg;
    int running_count = 0;
    (void)curl_multi_socket_action(r->multi, CURL_SOCKET_TIMEOUT, 0, &running_count);
    go_on(r);
}

static watched *watched_new(const room *r, evutil_socket_t fd)
{
    watched *w = calloc(1, sizeof *w);
    if (!w)
        return NULL;
    *w = (watched){.room = r, .fd = fd};
    w->again = evtimer_new(r->hub->base, on_again, w);
    return w;
}

static int watch_socket(CURL *easy, curl_socket_t fd, int what, void *arg, void *of_socket)
{
    (void)easy;
    const room *r = arg;
    watched *w = of_socket;
    if (what == CURL_POLL_REMOVE) {
        watched_free(w);
        (void)curl_multi_assign(r->multi, fd, NULL);
        return 0;
    }
    if (!w)
        w = watched_new(r, fd);
    if (!w)
        return -1; /* libcurl gives up what it does on it */
    if (w->io)
        event_free(w->io);
    const short events = (short)(EV_PERSIST | ((what & CURL_POLL_IN) != 0 ? EV_READ : 0) |
                                 ((what & CURL_POLL_OUT) != 0 ? EV_WRITE : 0));
    w->io = event_new(r->hub->base, fd, events, on_socket, w);
    if (w->io)
        (void)event_add(w->io, NULL);
    (void)curl_multi_assign(r->multi, fd, w);
    return 0;
}

static int set_timer(CURLM *multi, long timeout_ms, void *arg)
{
    (void)multi;
    const room *r = arg;
    if (timeout_ms < 0) {
        (void)event_del(r->timer);
        return 0;
    }
    const struct timeval after = {.tv_sec = timeout_ms / 1000,
                                  .tv_usec = (timeout_ms % 1000) * 1000};
    (void)event_add(r->timer, &after);
    return 0;
}

/* ---- the thread ---- */

static void on_bell(evutil_socket_t fd, short what, void *arg)
{
    (void)what;
    tide_client_hub *hub = arg;
    uint64_t count = 0;
    (void)!read(fd, &count, sizeof count);
    move_pending(hub);
    move_stopping(hub);
    go_on_everywhere(hub);
    pthread_mutex_lock(&hub->lock);
    const bool is_closing = hub->is_closing;
    pthread_mutex_unlock(&hub->lock);
    if (is_closing)
        (void)event_base_loopbreak(hub->base);
}

static void *move_bytes(void *arg)
{
    const tide_client_hub *hub = arg;
    (void)event_base_dispatch(hub->base);
    return NULL;
}

static void ring(const tide_client_hub *hub)
{
    const uint64_t one = 1;
    (void)!write(hub->bell_fd, &one, sizeof one);
}

void tide_client_wake(tide_client_stream *stream)
{
    tide_client_hub *hub = stream->client->hub;
    pthread_mutex_lock(&hub->lock);
    if (!stream->is_pending) {
        stream->is_pending = true;
        stream->next_pending = NULL;
        atomic_fetch_add(&stream->refs, 1);
        *hub->pending_end = stream;
        hub->pending_end = &stream->next_pending;
    }
    pthread_mutex_unlock(&hub->lock);
    ring(hub);
}

/* ---- clients come and go ---- */

void tide_client_hub_adopt(tide_client_hub *hub, tide_client_sockets *sockets)
{
    sockets->is_orphan = true;
    sockets->next = hub->orphans;
    hub->orphans = sockets;
}

void tide_client_hub_bury(tide_client_hub *hub, tide_client_sockets *sockets)
{
    tide_client_sockets **at = &hub->orphans;
    while (*at != sockets)
        at = &(*at)->next;
    *at = sockets->next;
    free(sockets);
}

void tide_client_hub_join(tide_client_hub *hub, tide_client *client)
{
    client->hub = hub;
    TIDE_HOLD(&hub->lock);
    client->multi = hub->rooms[hub->next_room].multi;
    hub->next_room = (hub->next_room + 1) % hub->room_count;
}

static void notify(tide_client *client, bool is_closing)
{
    tide_client_hub *hub = client->hub;
    pthread_mutex_lock(&hub->lock);
    client->is_closing = client->is_closing || is_closing;
    if (!client->is_told) {
        client->is_told = true;
        client->next_stopping = hub->stopping;
        hub->stopping = client;
    }
    pthread_mutex_unlock(&hub->lock);
    ring(hub);
}

void tide_client_hub_stop(tide_client *client)
{
    notify(client, false);
}

void tide_client_hub_leave(tide_client *client)
{
    tide_client_hub *hub = client->hub;
    assert(!pthread_equal(pthread_self(), hub->thread));
    notify(client, true);
    TIDE_HOLD(&hub->lock);
    while (!client->is_gone)
        pthread_cond_wait(&hub->gone, &hub->lock);
}

/* ---- open, close ---- */

static void init_curl(void)
{
    (void)curl_global_init(CURL_GLOBAL_DEFAULT);
}

static tide_status open_events(tide_client_hub *hub, tide_error *err)
{
    hub->bell_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    hub->base = event_base_new();
    if (hub->base && hub->bell_fd >= 0) {
        hub->nudge = event_new(hub->base, -1, EV_PERSIST, nudge, hub);
        hub->bell = event_new(hub->base, hub->bell_fd, EV_READ | EV_PERSIST, on_bell, hub);
    }
    if (!hub->nudge || !hub->bell || event_add(hub->bell, NULL) != 0)
        return tide_no_memory(err);
    return TIDE_OK;
}

static tide_status open_room(tide_client_hub *hub, room *r, int connection_max, int idle_max,
                             tide_error *err)
{
    r->hub = hub;
    r->multi = curl_multi_init();
    r->timer = evtimer_new(hub->base, on_timer, r);
    hub->room_count++;
    TIDE_NEED_MEMORY(r->multi && r->timer, err);
    (void)curl_multi_setopt(r->multi, CURLMOPT_PIPELINING, (long)CURLPIPE_MULTIPLEX);
    (void)curl_multi_setopt(r->multi, CURLMOPT_MAX_HOST_CONNECTIONS, (long)connection_max);
    (void)curl_multi_setopt(r->multi, CURLMOPT_MAXCONNECTS, (long)idle_max);
    (void)curl_multi_setopt(r->multi, CURLMOPT_SOCKETFUNCTION, watch_socket);
    (void)curl_multi_setopt(r->multi, CURLMOPT_SOCKETDATA, r);
    (void)curl_multi_setopt(r->multi, CURLMOPT_TIMERFUNCTION, set_timer);
    (void)curl_multi_setopt(r->multi, CURLMOPT_TIMERDATA, r);
    return TIDE_OK;
}

static tide_status open_rooms(tide_client_hub *hub, const tide_client_hub_options *options,
                              tide_error *err)
{
    const int connection_max =
        options && options->connection_max > 0 ? options->connection_max : TIDE_CLIENT_CONNECTIONS;
    const int idle_max = options && options->idle_max > 0 ? options->idle_max : IDLE_CONNECTIONS;
    const int count = idle_max > ROOMS_FROM ? ROOMS : 1;
    for (int i = 0; i < count; i++)
        TIDE_TRY(open_room(hub, &hub->rooms[i], connection_max, idle_max / count, err));
    return TIDE_OK;
}

static void close_room(room *r)
{
    if (r->multi)
        (void)curl_multi_cleanup(r->multi); /* closes what is idle: watch_socket is called */
    if (r->timer)
        event_free(r->timer);
}

tide_status tide_client_hub_open(tide_client_hub **out, const tide_client_hub_options *options,
                                 tide_error *err)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, init_curl);
    TIDE_CLEANUP(tide_client_hub_closep) TIDE_NEW(tide_client_hub, hub, err);
    hub->sockets = calloc(PORTS, sizeof *hub->sockets);
    hub->bell_fd = -1;
    (void)pthread_mutex_init(&hub->lock, NULL);
    (void)pthread_cond_init(&hub->gone, NULL);
    hub->pending_end = &hub->pending;
    TIDE_NEED_MEMORY(hub->sockets, err);
    TIDE_TRY(open_events(hub, err));
    TIDE_TRY(open_rooms(hub, options, err));
    TIDE_TRY(tide_thread_start(&hub->thread, move_bytes, hub, err));
    hub->has_thread = true;
    *out = TIDE_TAKE(hub);
    return TIDE_OK;
}

void tide_client_hub_close(tide_client_hub *hub)
{
    if (!hub)
        return;
    if (hub->has_thread) {
        pthread_mutex_lock(&hub->lock);
        hub->is_closing = true;
        pthread_mutex_unlock(&hub->lock);
        ring(hub);
        (void)pthread_join(hub->thread, NULL);
    }
    assert(!hub->pending && !hub->stopping && !hub->stepping && !hub->sending);
    for (int i = 0; i < hub->room_count; i++)
        close_room(&hub->rooms[i]);
    if (hub->bell)
        event_free(hub->bell);
    if (hub->nudge)
        event_free(hub->nudge);
    if (hub->base)
        event_base_free(hub->base);
    if (hub->bell_fd >= 0)
        (void)close(hub->bell_fd);
    (void)pthread_cond_destroy(&hub->gone);
    (void)pthread_mutex_destroy(&hub->lock);
    /* libcurl 7.88 does not report every socket that it closes: not one whose call is cancelled
     * while it connects. */
    while (hub->orphans)
        tide_client_hub_bury(hub, hub->orphans);
    free(hub->sockets); /* after the last socket */
    free(hub);
}
