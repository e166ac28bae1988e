/* link.c - a connection: socket and TLS on one side, a protocol core on the other. */
#include <event2/buffer.h>
#include <event2/bufferevent_ssl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "net/server/loop.h"

enum {
    INPUT_MAX = 256 * 1024,   /* bytes read ahead of the protocol */
    OUTPUT_HIGH = 256 * 1024, /* bytes given to the socket at a time */
    OUTPUT_LOW = 64 * 1024,   /* more is pulled when so little is left */
    /* bytes that a reader must take within write_us, however long it waited */
    PROGRESS_LEN = 64 * 1024,
    PREFACE_LEN = 24,
    KEEP_ALIVE_S = 60, /* of silence, before TCP asks whether the peer still lives */
};

#define LINGER_US (5 * TIDE_NET_SECOND)
#define LINGER_DRAIN_US                                                                            \
    (1 * TIDE_NET_SECOND) /* a server that stops does not wait as long for who stays connected */

static int64_t now_of(const tide_link *link)
{
    tide_env *env = link->loop->shared->context->env;
    return env->mono_us(env);
}

static const tide_net_limits *limits_of(const tide_link *link)
{
    return &link->loop->shared->context->limits;
}

static tide_net_counters *counters_of(const tide_link *link)
{
    return &link->loop->shared->context->counters;
}

void tide_link_free(tide_link *link)
{
    tide_loop *loop = link->loop;
    if (link->conn)
        link->conn->class->free(link->conn); /* from here on nobody wakes us */
    (void)pthread_mutex_lock(&loop->lock);
    for (tide_link **at = &loop->woken; link->is_woken && *at; at = &(*at)->next_woken) {
        if (*at == link) {
            *at = link->next_woken;
            break;
        }
    }
    (void)pthread_mutex_unlock(&loop->lock);
    *link->at = link->next;
    if (link->next)
        link->next->at = link->at;
    if (link->timer)
        event_free(link->timer);
    if (link->bev)
        bufferevent_free(link->bev);
    tide_loop_give_back(loop->shared, &link->key, link->has_key);
    free(link);
}

static void set_timer(tide_link *link, int64_t now_us, int64_t next_us)
{
    if (next_us == link->timer_us)
        return;
    link->timer_us = next_us;
    if (next_us == INT64_MAX) {
        (void)event_del(link->timer);
        return;
    }
    const int64_t wait_us = next_us > now_us ? next_us - now_us : 0;
    const struct timeval wait = {.tv_sec = (time_t)(wait_us / 1000000),
                                 .tv_usec = (suseconds_t)(wait_us % 1000000)};
    (void)event_add(link->timer, &wait);
}

/* Say that we have finished and wait a little for the peer to stop: a socket that is closed while
 * bytes come in is reset, and the answer might be lost with it. What comes until then is thrown
 * away, LINGER_US long and no more than a request may have. */
static void begin_linger(tide_link *link, int64_t now_us)
{
    if (link->conn) {
        link->conn->class->free(link->conn);
        link->conn = NULL;
    }
    link->is_lingering = true;
    link->linger_until_us =
        now_us + (tide_loop_is_draining(link->loop) ? LINGER_DRAIN_US : LINGER_US);
    SSL *ssl = bufferevent_openssl_get_ssl(link->bev);
    if (ssl && link->is_secured)
        (void)SSL_shutdown(ssl);
    (void)shutdown(bufferevent_getfd(link->bev), SHUT_WR);
}

static int64_t earlier(int64_t a_us, int64_t b_us)
{
    return a_us < b_us ? a_us : b_us;
}

/* Returns when to look again; -1: the reader is given up. */
static int64_t check_stall(tide_link *link, int64_t now_us)
{
    const size_t waiting = evbuffer_get_length(bufferevent_get_output(link->bev));
    const uint64_t moved = link->added_len - waiting;
    if (waiting == 0) {
        link->stalled_us = link->busy_us = INT64_MAX;
        return INT64_MAX;
    }
    if (link->busy_us == INT64_MAX) {
        link->busy_us = now_us;
        link->busy_mark = moved;
    }
    if (link->stalled_us == INT64_MAX || moved - link->moved_mark >= PROGRESS_LEN) {
        link->stalled_us = now_us;
        link->moved_mark = moved;
    }
    const int64_t patience_us =
        tide_net_limits_patience_us(limits_of(link), moved - link->busy_mark, 1);
    const int64_t until_us =
        earlier(link->stalled_us + limits_of(link)->write_us, link->busy_us + patience_us);
    return now_us >= until_us ? -1 : until_us;
}

/* Who agreed on HTTP/2 in the handshake speaks it, or nothing. */
static bool is_h2_agreed(tide_link *link)
{
    SSL *ssl = bufferevent_openssl_get_ssl(link->bev);
    const unsigned char *name = NULL;
    unsigned int len = 0;
    if (ssl)
        SSL_get0_alpn_selected(ssl, &name, &len);
    return len == 2 && memcmp(name, "h2", 2) == 0;
}

static bool choose_protocol(tide_link *link, int64_t now_us)
{
    struct evbuffer *input = bufferevent_get_input(link->bev);
    char first[PREFACE_LEN];
    const ev_ssize_t len = evbuffer_copyout(input, first, sizeof first);
    if (len <= 0 || !link->is_secured)
        return false;
    const tide_preface preface = is_h2_agreed(link)
                                     ? TIDE_PREFACE_H2
                                     : tide_preface_find(tide_view_bytes(first, (size_t)len));
    if (preface == TIDE_PREFACE_UNDECIDED)
        return false;
    const tide_conn_setup setup = {
        .context = link->loop->shared->context,
        .peer = link->peer,
        .owner = link->owner,
        .certificate = link->certificate[0] ? link->certificate : NULL,
        .wake = tide_link_wake,
        .wake_arg = link,
    };
    link->conn =
        preface == TIDE_PREFACE_H2 ? tide_h2_new(&setup, now_us) : tide_http1_new(&setup, now_us);
    if (link->conn && tide_loop_is_draining(link->loop))
        link->conn->class->drain(link->conn);
    return link->conn != NULL;
}

static bool feed_input(tide_link *link, int64_t now_us)
{
    struct evbuffer *input = bufferevent_get_input(link->bev);
    bool has_moved = false;
    struct evbuffer_iovec piece;
    while (evbuffer_peek(input, -1, NULL, &piece, 1) > 0 && piece.iov_len > 0) {
        const size_t taken = link->conn->class->feed(
            link->conn, tide_view_bytes(piece.iov_base, piece.iov_len), now_us);
        if (taken == 0)
            break;
        (void)evbuffer_drain(input, taken);
        tide_count(&counters_of(link)->bytes_received, (int64_t)taken);
        has_moved = true;
    }
    return has_moved;
}

static bool pull_output(tide_link *link)
{
    struct evbuffer *output = bufferevent_get_output(link->bev);
    bool has_moved = false;
    while (evbuffer_get_length(output) < OUTPUT_HIGH) {
        const tide_view bytes = link->conn->class->pull(link->conn);
        if (bytes.len == 0)
            break;
        if (evbuffer_add(output, bytes.ptr, bytes.len) != 0) {
            link->has_failed = true; /* bytes are lost: nothing that follows would make sense */
            break;
        }
        link->added_len += bytes.len;
        tide_count(&counters_of(link)->bytes_sent, (int64_t)bytes.len);
        has_moved = true;
    }
    return has_moved;
}

/* Let the protocol work until nothing moves any more. Returns when it wants to be called again. */
static int64_t turn_protocol(tide_link *link, int64_t now_us)
{
    int64_t next_us = INT64_MAX;
    bool is_moving = true;
    link->loop->pumping = link;
    while (is_moving) {
        link->has_news = false;
        is_moving = feed_input(link, now_us);
        next_us = link->conn->class->step(link->conn, now_us);
        is_moving = pull_output(link) || is_moving || link->has_news;
    }
    link->loop->pumping = NULL;
    return next_us;
}

/* Before there is a protocol: the handshake and the first bytes must come in time. */
static int64_t wait_for_start(tide_link *link, int64_t now_us)
{
    const int64_t until_us = link->opened_us + limits_of(link)->header_us;
    if (now_us < until_us)
        return until_us;
    tide_count(&counters_of(link)->timeouts_header, 1);
    return -1;
}

void tide_link_pump(tide_link *link)
{
    const int64_t now_us = now_of(link);
    struct evbuffer *output = bufferevent_get_output(link->bev);
    if (link->is_lingering) {
        struct evbuffer *input = bufferevent_get_input(link->bev);
        link->linger_len += evbuffer_get_length(input);
        (void)evbuffer_drain(input, SIZE_MAX);
        if (now_us >= link->linger_until_us ||
            link->linger_len > (uint64_t)limits_of(link)->message_len)
            tide_link_free(link);
        else
            set_timer(link, now_us, link->linger_until_us);
        return;
    }
    int64_t next_us = INT64_MAX;
    if (!link->is_ending) {
        if (link->conn || choose_protocol(link, now_us))
            next_us = turn_protocol(link, now_us);
        else
            next_us = wait_for_start(link, now_us);
    }
    if (link->has_failed) {
        tide_link_free(link);
        return;
    }
    const bool is_over = link->is_ending || (link->conn && link->conn->class->is_over(link->conn));
    if (is_over && evbuffer_get_length(output) == 0) {
        if (link->is_ending || link->conn->is_hostile) {
            tide_link_free(link);
            return;
        }
        begin_linger(link, now_us);
        set_timer(link, now_us, link->linger_until_us);
        return;
    }
    bufferevent_setwatermark(link->bev, EV_WRITE, is_over ? 0 : OUTPUT_LOW, 0);
    const int64_t stall_us = check_stall(link, now_us);
    if (stall_us < 0)
        tide_count(&counters_of(link)->timeouts_write, 1);
    if (stall_us < 0 || next_us < 0) {
        tide_link_free(link);
        return;
    }
    set_timer(link, now_us, earlier(next_us, stall_us));
}

static void on_moved(struct bufferevent *bev, void *arg)
{
    (void)bev;
    tide_link_pump(arg);
}

static void on_time(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    tide_link *link = arg;
    link->timer_us = INT64_MAX;
    tide_link_pump(link);
}

static void on_event(struct bufferevent *bev, short what, void *arg)
{
    tide_link *link = arg;
    if (what & BEV_EVENT_CONNECTED) {
        link->is_secured = true;
        if (tide_tls_peer_name(bufferevent_openssl_get_ssl(bev), link->certificate, NULL) !=
            TIDE_OK)
            link->certificate[0] = '\0';
        tide_link_pump(link);
        return;
    }
    /* The peer is gone, or has said everything: what was answered is still sent, what runs is
     * cancelled. */
    const bool can_send = (what & BEV_EVENT_EOF) && !link->is_lingering &&
                          evbuffer_get_length(bufferevent_get_output(bev)) > 0;
    if (!can_send) {
        tide_link_free(link);
        return;
    }
    if (link->conn) {
        link->conn->class->free(link->conn);
        link->conn = NULL;
    }
    link->is_ending = true;
    tide_link_pump(link);
}

/* Peers that vanished without a word are noticed by TCP. */
static void set_socket(const tide_link *link, int fd, int family)
{
    if (family != AF_INET && family != AF_INET6)
        return;
    const int yes = 1;
    const int idle_s = KEEP_ALIVE_S;
    const int64_t write_ms = limits_of(link)->write_us / 1000;
    const unsigned int unsent_ms = (unsigned int)(write_ms > 0 ? write_ms : 1);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof yes);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &unsent_ms, sizeof unsent_ms);
}

/* NULL: no memory; the socket is closed then. */
static struct bufferevent *make_bufferevent(tide_link *link, int fd)
{
    struct event_base *base = link->loop->base;
    tide_tls *tls = link->loop->shared->tls;
    struct bufferevent *bev = NULL;
    if (!tls) {
        link->is_secured = true;
        bev = bufferevent_socket_new(base, fd, BEV_OPT_CLOSE_ON_FREE);
    } else {
        SSL *ssl = NULL;
        if (tide_tls_connection(&ssl, tls, NULL, NULL) == TIDE_OK)
            bev = bufferevent_openssl_socket_new(base, fd, ssl, BUFFEREVENT_SSL_ACCEPTING,
                                                 BEV_OPT_CLOSE_ON_FREE);
        if (bev)
            bufferevent_openssl_set_allow_dirty_shutdown(bev, 1);
        else
            SSL_free(ssl);
    }
    if (!bev)
        (void)close(fd);
    return bev;
}

static int64_t get_idle_since(const tide_link *link)
{
    if (link->is_lingering || link->is_ending)
        return INT64_MAX;
    return link->conn ? link->conn->class->idle_since_us(link->conn) : link->opened_us;
}

/* Close the connection that has been idle longest, and long enough. false: there is none. */
static bool make_room(tide_loop *loop, tide_room room, const tide_peer_key *key)
{
    tide_link *oldest = NULL;
    int64_t oldest_us = INT64_MAX;
    for (tide_link *link = loop->links; link; link = link->next) {
        if (room == TIDE_ROOM_OF_PEER &&
            (!link->has_key || memcmp(&link->key, key, sizeof *key) != 0))
            continue;
        const int64_t since_us = get_idle_since(link);
        if (since_us < oldest_us) {
            oldest = link;
            oldest_us = since_us;
        }
    }
    if (!oldest || now_of(oldest) - oldest_us < limits_of(oldest)->spare_us)
        return false;
    tide_count(&counters_of(oldest)->closed_for_others, 1);
    tide_link_free(oldest);
    return true;
}

void tide_link_make_room(tide_loop *loop)
{
    (void)make_room(loop, TIDE_ROOM_OF_ANYBODY, NULL);
}

static void refuse_arrival(tide_loop *loop, const tide_arrival *arrival, const tide_peer_key *key,
                           bool has_key)
{
    tide_net_counters *counters = &loop->shared->context->counters;
    tide_count(arrival->room == TIDE_ROOM_OF_PEER ? &counters->refused_peer_connections
                                                  : &counters->refused_connections,
               1);
    (void)close(arrival->fd);
    tide_loop_give_back(loop->shared, key, has_key);
}

void tide_link_open(tide_loop *loop, const tide_arrival *arrival)
{
    const struct sockaddr *address = (const struct sockaddr *)&arrival->address;
    tide_peer_key key;
    const bool has_key = tide_peer_key_of(&key, address);
    if (arrival->room != TIDE_ROOM_THERE && !make_room(loop, arrival->room, &key)) {
        refuse_arrival(loop, arrival, &key, has_key);
        return;
    }
    tide_link *link = calloc(1, sizeof *link);
    if (!link) {
        (void)close(arrival->fd);
        tide_loop_give_back(loop->shared, &key, has_key);
        return;
    }
    link->loop = loop;
    link->key = key;
    link->has_key = has_key;
    link->next = loop->links;
    link->at = &loop->links;
    if (link->next)
        link->next->at = &link->next;
    loop->links = link;
    link->timer_us = link->stalled_us = link->busy_us = INT64_MAX;
    link->opened_us = now_of(link);
    tide_address_text(link->peer, address);
    link->owner = tide_peer_owner_find(arrival->fd, address);
    set_socket(link, arrival->fd, address->sa_family);
    link->timer = evtimer_new(loop->base, on_time, link);
    link->bev = make_bufferevent(link, arrival->fd);
    if (!link->timer || !link->bev) {
        tide_link_free(link);
        return;
    }
    bufferevent_setcb(link->bev, on_moved, on_moved, on_event, link);
    bufferevent_setwatermark(link->bev, EV_READ, 0, INPUT_MAX);
    (void)bufferevent_set_max_single_read(link->bev, OUTPUT_LOW);
    (void)bufferevent_set_max_single_write(link->bev, OUTPUT_LOW);
    if (bufferevent_enable(link->bev, EV_READ | EV_WRITE) != 0) {
        tide_link_free(link);
        return;
    }
    tide_link_pump(link);
}
