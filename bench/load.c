#include "load.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bench.h"

enum {
    OUT_MAX = 64 << 20,
    IN_LEN = 1 << 18,
    CONNECT_TRIES = 500,
    CONNECT_PAUSE_US = 20000,
    ANSWER_MS = 30000,
};

void load_must(tide_status status)
{
    if (status != TIDE_OK)
        bench_die("a load client has no room: %s", tide_status_get(status)->text);
}

/* ---- sockets ---- */

/* Servers that were just started take a moment to listen. */
static int connect_to(int port)
{
    const struct sockaddr_in address = {.sin_family = AF_INET,
                                        .sin_port = htons((uint16_t)port),
                                        .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    for (int i = 0; i < CONNECT_TRIES; i++) {
        const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        const int on = 1;
        if (fd < 0)
            bench_die("no socket: %s", strerror(errno));
        if (connect(fd, (const struct sockaddr *)&address, sizeof address) == 0) {
            (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
            return fd;
        }
        (void)close(fd);
        (void)usleep(CONNECT_PAUSE_US);
    }
    bench_die("nobody listens on port %d", port);
}

static void set_waiting(const load_connection *c, bool is_waiting)
{
    const int flags = fcntl(c->fd, F_GETFL);
    (void)fcntl(c->fd, F_SETFL, is_waiting ? flags & ~O_NONBLOCK : flags | O_NONBLOCK);
}

void load_send(load_connection *c, tide_view bytes)
{
    while (bytes.len > 0) {
        const ssize_t sent = send(c->fd, bytes.ptr, bytes.len, MSG_NOSIGNAL);
        if (sent < 0)
            bench_die("cannot send: %s", strerror(errno));
        bytes = tide_view_bytes(bytes.ptr + sent, bytes.len - (size_t)sent);
    }
}

size_t load_receive(load_connection *c, char *bytes, size_t size)
{
    const ssize_t got = recv(c->fd, bytes, size, 0);
    if (got <= 0)
        bench_die("the server ended a connection: %s", got < 0 ? strerror(errno) : "no more");
    return (size_t)got;
}

/* ---- connections ---- */

void load_open(load_connection *connections, int count, int port)
{
    for (int i = 0; i < count; i++) {
        load_connection *c = &connections[i];
        c->fd = connect_to(port);
        tide_buffer_init(&c->out, OUT_MAX);
        c->protocol->begin(c);
        set_waiting(c, false);
    }
}

void load_close(load_connection *connections, int count)
{
    for (int i = 0; i < count; i++) {
        connections[i].protocol->end(&connections[i]);
        (void)close(connections[i].fd);
        tide_buffer_done(&connections[i].out);
    }
}

static bool has_output(const load_connection *c)
{
    return c->sent_len < c->out.len;
}

static void send_some(load_connection *c)
{
    while (has_output(c)) {
        const ssize_t sent =
            send(c->fd, c->out.ptr + c->sent_len, c->out.len - c->sent_len, MSG_NOSIGNAL);
        if (sent < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (sent < 0)
            bench_die("cannot send: %s", strerror(errno));
        c->sent_len += (size_t)sent;
    }
    tide_buffer_clear(&c->out);
    c->sent_len = 0;
}

static void take_some(load_connection *c)
{
    static char bytes[IN_LEN];
    const ssize_t got = recv(c->fd, bytes, sizeof bytes, 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got <= 0)
        bench_die("the server ended a connection: %s", got < 0 ? strerror(errno) : "no more");
    c->protocol->take(c, bytes, (size_t)got);
}

/* One turn; true while something is under way. */
static bool turn(load_connection *connections, int count, bool is_filling)
{
    struct pollfd fds[LOAD_CONNECTIONS_MAX];
    bool is_busy = false;
    for (int i = 0; i < count; i++) {
        load_connection *c = &connections[i];
        if (is_filling && !has_output(c))
            c->protocol->fill(c);
        send_some(c);
        fds[i] =
            (struct pollfd){.fd = c->fd, .events = (short)(POLLIN | (has_output(c) ? POLLOUT : 0))};
        is_busy = is_busy || c->in_flight > 0;
    }
    if (!is_busy)
        return false;
    if (poll(fds, (nfds_t)count, ANSWER_MS) == 0)
        bench_die("no answer for %d ms", ANSWER_MS);
    for (int i = 0; i < count; i++)
        if (fds[i].revents & ~POLLOUT)
            take_some(&connections[i]);
    return true;
}

static int64_t count_acked(const load_connection *connections, int count)
{
    int64_t acked = 0;
    for (int i = 0; i < count; i++)
        acked += connections[i].acked;
    return acked;
}

double load_run(load_connection *connections, int count, double seconds)
{
    load_connection *first = &connections[0];
    if (first->protocol->clear) {
        set_waiting(first, true);
        first->protocol->clear(first);
        set_waiting(first, false);
    }
    const int64_t before = count_acked(connections, count);
    const int64_t begin_us = bench_now_us();
    int64_t now_us = begin_us;
    while ((double)(now_us - begin_us) < seconds * 1e6) {
        (void)turn(connections, count, true);
        now_us = bench_now_us();
    }
    const double rate =
        (double)(count_acked(connections, count) - before) * 1e6 / (double)(now_us - begin_us);
    while (turn(connections, count, false)) {
        /* what is under way is answered, and not counted */
    }
    return rate;
}
