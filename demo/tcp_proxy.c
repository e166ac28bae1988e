#include "demo/tcp_proxy.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/thread.h"

enum { PIPE_LEN = 64 << 10, IDLE_MS = 1000 };

/* One direction: what was read and not yet written. */
typedef struct half {
    char bytes[PIPE_LEN];
    size_t at;
    size_t end;
    bool is_over; /* its reader has seen the end */
} half;

typedef struct pair {
    int fds[2]; /* of the caller, of the target; -1: not in use */
    half halves[2];
} pair;

struct tide_tcp_proxy {
    tide_env *env;
    char address[32];
    int listener;
    int waker;
    pthread_t thread;
    bool has_thread;
    atomic_bool is_over;
    atomic_int port;
    atomic_llong cut_until_us;
    pair *pairs[TIDE_TCP_PROXY_CONNECTIONS]; /* the thread's */
};

/* ---- connections ---- */

static void close_pair(pair **slot)
{
    if (!*slot)
        return;
    (void)close((*slot)->fds[0]);
    (void)close((*slot)->fds[1]);
    free(*slot);
    *slot = NULL;
}

static int call(int port)
{
    const struct sockaddr_in to = {.sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)port),
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int one = 1;
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (connect(fd, (const struct sockaddr *)&to, sizeof to) == 0 || errno == EINPROGRESS)
        return fd;
    (void)close(fd);
    return -1;
}

static bool is_cut(const tide_tcp_proxy *proxy)
{
    return proxy->env->mono_us(proxy->env) < atomic_load(&proxy->cut_until_us);
}

static void pick_one(tide_tcp_proxy *proxy)
{
    const int one = 1;
    const int fd = accept4(proxy->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    const int port = atomic_load(&proxy->port);
    if (fd < 0)
        return;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    pair **slot = proxy->pairs;
    while (slot < proxy->pairs + TIDE_TCP_PROXY_CONNECTIONS && *slot)
        slot++;
    const bool is_refused =
        slot == proxy->pairs + TIDE_TCP_PROXY_CONNECTIONS || port == 0 || is_cut(proxy);
    const int other = is_refused ? -1 : call(port);
    if (other >= 0)
        *slot = calloc(1, sizeof **slot);
    if (other < 0 || !*slot) {
        (void)close(fd);
        if (other >= 0)
            (void)close(other);
        return;
    }
    (*slot)->fds[0] = fd;
    (*slot)->fds[1] = other;
}

/* ---- bytes ---- */

static short wants(const pair *p, int side)
{
    const half *in = &p->halves[side];
    const half *out = &p->halves[1 - side];
    short events = 0;
    if (!in->is_over && in->end < PIPE_LEN)
        events |= POLLIN;
    if (out->at < out->end)
        events |= POLLOUT;
    return events;
}

/* false: the connection is broken. */
static bool read_side(pair *p, int side)
{
    half *h = &p->halves[side];
    if (h->is_over || h->end == PIPE_LEN)
        return true;
    const ssize_t got = read(p->fds[side], h->bytes + h->end, PIPE_LEN - h->end);
    if (got > 0)
        h->end += (size_t)got;
    else if (got == 0)
        h->is_over = true;
    return got >= 0 || errno == EAGAIN || errno == EINTR;
}

static bool write_side(pair *p, int side)
{
    half *h = &p->halves[1 - side];
    if (h->at < h->end) {
        const ssize_t sent = send(p->fds[side], h->bytes + h->at, h->end - h->at, MSG_NOSIGNAL);
        if (sent < 0)
            return errno == EAGAIN || errno == EINTR || errno == ENOTCONN;
        h->at += (size_t)sent;
    }
    if (h->at == h->end) {
        h->at = h->end = 0;
        if (h->is_over)
            (void)shutdown(p->fds[side], SHUT_WR);
    }
    return true;
}

static bool move(pair *p, const struct pollfd *polled)
{
    for (int side = 0; side < 2; side++) {
        if (polled[side].revents & POLLERR)
            return false;
        if ((polled[side].revents & (POLLIN | POLLHUP)) && !read_side(p, side))
            return false;
    }
    for (int side = 0; side < 2; side++)
        if (!write_side(p, side))
            return false;
    const half *h = p->halves;
    return !(h[0].is_over && h[1].is_over && h[0].at == h[0].end && h[1].at == h[1].end);
}

static void cut_all(tide_tcp_proxy *proxy)
{
    for (int i = 0; i < TIDE_TCP_PROXY_CONNECTIONS; i++)
        close_pair(&proxy->pairs[i]);
}

static void turn(tide_tcp_proxy *proxy)
{
    struct pollfd fds[2 + 2 * TIDE_TCP_PROXY_CONNECTIONS];
    pair **slots[TIDE_TCP_PROXY_CONNECTIONS];
    int count = 0;
    fds[0] = (struct pollfd){.fd = proxy->listener, .events = POLLIN};
    fds[1] = (struct pollfd){.fd = proxy->waker, .events = POLLIN};
    for (int i = 0; i < TIDE_TCP_PROXY_CONNECTIONS; i++) {
        if (!proxy->pairs[i])
            continue;
        for (int side = 0; side < 2; side++)
            fds[2 + 2 * count + side] = (struct pollfd){.fd = proxy->pairs[i]->fds[side],
                                                        .events = wants(proxy->pairs[i], side)};
        slots[count++] = &proxy->pairs[i];
    }
    (void)poll(fds, 2 + 2 * (nfds_t)count, IDLE_MS);
    eventfd_t ignored = 0;
    if (fds[1].revents & POLLIN)
        (void)eventfd_read(proxy->waker, &ignored);
    if (is_cut(proxy))
        cut_all(proxy);
    else
        for (int i = 0; i < count; i++)
            if (!move(*slots[i], &fds[2 + 2 * i]))
                close_pair(slots[i]);
    if (fds[0].revents & POLLIN)
        pick_one(proxy);
}

static void *run(void *arg)
{
    tide_tcp_proxy *proxy = arg;
    while (!atomic_load(&proxy->is_over))
        turn(proxy);
    return NULL;
}

/* ---- life ---- */

static tide_status listen_somewhere(tide_tcp_proxy *proxy, tide_error *err)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    proxy->waker = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    proxy->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (proxy->waker < 0 || proxy->listener < 0 ||
        bind(proxy->listener, (struct sockaddr *)&at, sizeof at) != 0 ||
        listen(proxy->listener, TIDE_TCP_PROXY_CONNECTIONS) != 0 ||
        getsockname(proxy->listener, (struct sockaddr *)&at, &len) != 0)
        return tide_fail(err, TIDE_E_IO, "no port for a proxy: %s", strerror(errno));
    (void)snprintf(proxy->address, sizeof proxy->address, "127.0.0.1:%d", ntohs(at.sin_port));
    TIDE_TRY(tide_thread_start(&proxy->thread, run, proxy, err));
    proxy->has_thread = true;
    return TIDE_OK;
}

tide_status tide_tcp_proxy_open(tide_tcp_proxy **out, tide_env *env, tide_error *err)
{
    TIDE_NEW(tide_tcp_proxy, proxy, err);
    proxy->env = env;
    proxy->listener = proxy->waker = -1;
    const tide_status status = listen_somewhere(proxy, err);
    if (status < TIDE_OK) {
        tide_tcp_proxy_close(proxy);
        return status;
    }
    *out = proxy;
    return TIDE_OK;
}

void tide_tcp_proxy_close(tide_tcp_proxy *proxy)
{
    if (!proxy)
        return;
    atomic_store(&proxy->is_over, true);
    if (proxy->waker >= 0)
        (void)eventfd_write(proxy->waker, 1);
    if (proxy->has_thread)
        (void)pthread_join(proxy->thread, NULL);
    cut_all(proxy);
    if (proxy->listener >= 0)
        (void)close(proxy->listener);
    if (proxy->waker >= 0)
        (void)close(proxy->waker);
    free(proxy);
}

const char *tide_tcp_proxy_address(const tide_tcp_proxy *proxy)
{
    return proxy->address;
}

void tide_tcp_proxy_aim(tide_tcp_proxy *proxy, int port)
{
    atomic_store(&proxy->port, port);
}

void tide_tcp_proxy_cut(tide_tcp_proxy *proxy, int64_t for_us)
{
    atomic_store(&proxy->cut_until_us, proxy->env->mono_us(proxy->env) + for_us);
    (void)eventfd_write(proxy->waker, 1);
}
