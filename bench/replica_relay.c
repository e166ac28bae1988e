#include "replica_relay.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bench.h"

typedef struct pipe_end {
    replica_relay *r;
    int fds[2];
} pipe_end;

static bool forward(replica_relay *r, int from, int to)
{
    char bytes[65536];
    const ssize_t len = recv(from, bytes, sizeof bytes, 0);
    if (len <= 0)
        return false;
    atomic_fetch_add(&r->bytes, len);
    for (ssize_t sent = 0; sent < len;) {
        const ssize_t n = send(to, bytes + sent, (size_t)(len - sent), MSG_NOSIGNAL);
        if (n <= 0)
            return false;
        sent += n;
    }
    return true;
}

static void *carry(void *arg)
{
    pipe_end *p = arg;
    for (bool is_open = true; is_open;) {
        struct pollfd fds[2] = {{.fd = p->fds[0], .events = POLLIN},
                                {.fd = p->fds[1], .events = POLLIN}};
        if (poll(fds, 2, 200) < 0 || atomic_load(&p->r->is_over))
            break;
        for (int i = 0; i < 2 && is_open; i++)
            if (fds[i].revents != 0)
                is_open = forward(p->r, p->fds[i], p->fds[1 - i]);
    }
    (void)close(p->fds[0]);
    (void)close(p->fds[1]);
    free(p);
    return NULL;
}

static struct sockaddr_in local_address(int port)
{
    return (struct sockaddr_in){.sin_family = AF_INET,
                                .sin_port = htons((uint16_t)port),
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

static void *listen_on(void *arg)
{
    replica_relay *r = arg;
    while (!atomic_load(&r->is_over)) {
        struct pollfd fd = {.fd = r->listener, .events = POLLIN};
        if (poll(&fd, 1, 200) <= 0)
            continue;
        pipe_end *p = bench_alloc(sizeof *p);
        const struct sockaddr_in to = local_address(r->target_port);
        pthread_t thread;
        p->r = r;
        p->fds[0] = accept(r->listener, NULL, NULL);
        p->fds[1] = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(p->fds[1], (const struct sockaddr *)&to, sizeof to) != 0)
            bench_die("the relay cannot connect");
        if (pthread_create(&thread, NULL, carry, p) != 0)
            bench_die("no thread");
        (void)pthread_detach(thread);
    }
    return NULL;
}

void replica_relay_start(replica_relay *r, int target_port)
{
    struct sockaddr_in address = local_address(0);
    socklen_t len = sizeof address;
    *r = (replica_relay){.target_port = target_port, .listener = socket(AF_INET, SOCK_STREAM, 0)};
    if (bind(r->listener, (const struct sockaddr *)&address, sizeof address) != 0 ||
        listen(r->listener, 8) != 0 ||
        getsockname(r->listener, (struct sockaddr *)&address, &len) != 0)
        bench_die("no port for the relay");
    r->port = ntohs(address.sin_port);
    if (pthread_create(&r->thread, NULL, listen_on, r) != 0)
        bench_die("no thread");
}

void replica_relay_stop(replica_relay *r)
{
    atomic_store(&r->is_over, true);
    (void)pthread_join(r->thread, NULL);
    (void)close(r->listener);
}
