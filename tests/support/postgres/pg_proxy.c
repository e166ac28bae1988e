#include "support/postgres/pg_proxy.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "support/check.h"

enum { HEAD_MAX = 5, CHUNK = 16384 };

typedef struct link link_pair;

/* One direction of a connection. */
typedef struct flow {
    link_pair *of;
    int from;
    int to;
    bool is_untyped; /* the first message of a client has no type */
    pthread_t thread;
} flow;

struct link {
    pg_proxy *proxy;
    int client;
    int server;
    flow up;
    flow down;
};

struct pg_proxy {
    int target;
    int listener;
    int port;
    pthread_t acceptor;
    pthread_mutex_t lock;
    bool is_closing;
    bool is_armed;
    bool is_all;
    bool has_cut;
    int64_t at;
    int64_t seen;
    link_pair *links[PG_PROXY_CONNECTIONS];
    int count;
};

/* The descriptors stay open until the proxy is closed: no thread uses another's number. */
static void break_link(const link_pair *of)
{
    (void)shutdown(of->client, SHUT_RDWR);
    (void)shutdown(of->server, SHUT_RDWR);
}

/* A message is about to be forwarded. False: its connection is broken. */
static bool pass(link_pair *of)
{
    pg_proxy *proxy = of->proxy;
    bool is_cut = false;
    (void)pthread_mutex_lock(&proxy->lock);
    if (proxy->is_armed && ++proxy->seen == proxy->at) {
        is_cut = true;
        proxy->has_cut = true;
        for (int i = 0; proxy->is_all && i < proxy->count; i++)
            break_link(proxy->links[i]);
        break_link(of);
    }
    (void)pthread_mutex_unlock(&proxy->lock);
    return !is_cut;
}

static bool read_all(int fd, unsigned char *out, size_t len)
{
    while (len > 0) {
        const ssize_t got = recv(fd, out, len, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        out += got;
        len -= (size_t)got;
    }
    return true;
}

static bool write_all(int fd, const unsigned char *bytes, size_t len)
{
    while (len > 0) {
        const ssize_t put = send(fd, bytes, len, MSG_NOSIGNAL);
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return false;
        bytes += put;
        len -= (size_t)put;
    }
    return true;
}

/* Requests: the start of a session, Execute, Query, Sync. Responses: CommandComplete, errors, the
 * end of a pipeline. A cut beside any other message is one beside the nearest of these: neither
 * side acts upon the messages between them. */
static bool is_counted(const flow *f, const unsigned char *head)
{
    return f->is_untyped || strchr(f == &f->of->up ? "EQS" : "CEZ", head[0]) != NULL;
}

static bool forward_one(flow *f)
{
    unsigned char head[HEAD_MAX];
    unsigned char chunk[CHUNK];
    const size_t head_len = f->is_untyped ? 4 : HEAD_MAX;
    if (!read_all(f->from, head, head_len))
        return false;
    uint32_t net = 0;
    memcpy(&net, head + head_len - 4, sizeof net);
    size_t left = ntohl(net);
    left = left >= 4 ? left - 4 : 0;
    const bool is_passed = !is_counted(f, head) || pass(f->of);
    f->is_untyped = false;
    if (!is_passed || !write_all(f->to, head, head_len))
        return false;
    while (left > 0) {
        const size_t part = left < sizeof chunk ? left : sizeof chunk;
        if (!read_all(f->from, chunk, part) || !write_all(f->to, chunk, part))
            return false;
        left -= part;
    }
    return true;
}

static void *run_flow(void *arg)
{
    flow *f = arg;
    while (forward_one(f)) {
    }
    break_link(f->of);
    return NULL;
}

static int connect_to(int port)
{
    const struct sockaddr_in address = {.sin_family = AF_INET,
                                        .sin_port = htons((uint16_t)port),
                                        .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (const struct sockaddr *)&address, sizeof address) != 0) {
        (void)close(fd);
        return -1;
    }
    return fd;
}

static void serve(pg_proxy *proxy, int client)
{
    const int server = connect_to(proxy->target);
    link_pair *of = server >= 0 ? calloc(1, sizeof *of) : NULL;
    (void)pthread_mutex_lock(&proxy->lock);
    if (!of || proxy->is_closing || proxy->count == PG_PROXY_CONNECTIONS) {
        (void)pthread_mutex_unlock(&proxy->lock);
        (void)close(client);
        if (server >= 0)
            (void)close(server);
        free(of);
        return;
    }
    const int on = 1;
    (void)setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    (void)setsockopt(server, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    *of = (link_pair){.proxy = proxy, .client = client, .server = server};
    of->up = (flow){.of = of, .from = client, .to = server, .is_untyped = true};
    of->down = (flow){.of = of, .from = server, .to = client};
    assert_int_equal(pthread_create(&of->up.thread, NULL, run_flow, &of->up), 0);
    assert_int_equal(pthread_create(&of->down.thread, NULL, run_flow, &of->down), 0);
    proxy->links[proxy->count++] = of;
    (void)pthread_mutex_unlock(&proxy->lock);
}

static void *run_acceptor(void *arg)
{
    pg_proxy *proxy = arg;
    for (;;) {
        const int client = accept4(proxy->listener, NULL, NULL, SOCK_CLOEXEC);
        if (client < 0 && errno == EINTR)
            continue;
        if (client < 0)
            return NULL;
        serve(proxy, client);
    }
}

pg_proxy *pg_proxy_open(int target)
{
    pg_proxy *proxy = calloc(1, sizeof *proxy);
    assert_non_null(proxy);
    proxy->target = target;
    assert_int_equal(pthread_mutex_init(&proxy->lock, NULL), 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof address;
    proxy->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(proxy->listener >= 0);
    assert_int_equal(bind(proxy->listener, (const struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(proxy->listener, 64), 0);
    assert_int_equal(getsockname(proxy->listener, (struct sockaddr *)&address, &len), 0);
    proxy->port = ntohs(address.sin_port);
    assert_int_equal(pthread_create(&proxy->acceptor, NULL, run_acceptor, proxy), 0);
    return proxy;
}

void pg_proxy_close(pg_proxy *proxy)
{
    if (!proxy)
        return;
    (void)pthread_mutex_lock(&proxy->lock);
    proxy->is_closing = true;
    (void)pthread_mutex_unlock(&proxy->lock);
    (void)shutdown(proxy->listener, SHUT_RDWR);
    (void)pthread_join(proxy->acceptor, NULL);
    (void)close(proxy->listener);
    for (int i = 0; i < proxy->count; i++) {
        link_pair *of = proxy->links[i];
        break_link(of);
        (void)pthread_join(of->up.thread, NULL);
        (void)pthread_join(of->down.thread, NULL);
        (void)close(of->client);
        (void)close(of->server);
        free(of);
    }
    (void)pthread_mutex_destroy(&proxy->lock);
    free(proxy);
}

int pg_proxy_port(const pg_proxy *proxy)
{
    return proxy->port;
}

void pg_proxy_arm(pg_proxy *proxy, int64_t at, bool is_all)
{
    (void)pthread_mutex_lock(&proxy->lock);
    proxy->is_armed = true;
    proxy->has_cut = false;
    proxy->is_all = is_all;
    proxy->at = at;
    proxy->seen = 0;
    (void)pthread_mutex_unlock(&proxy->lock);
}

bool pg_proxy_disarm(pg_proxy *proxy)
{
    (void)pthread_mutex_lock(&proxy->lock);
    proxy->is_armed = false;
    const bool has_cut = proxy->has_cut;
    (void)pthread_mutex_unlock(&proxy->lock);
    return has_cut;
}

int64_t pg_proxy_messages(pg_proxy *proxy)
{
    (void)pthread_mutex_lock(&proxy->lock);
    const int64_t seen = proxy->seen;
    (void)pthread_mutex_unlock(&proxy->lock);
    return seen;
}
