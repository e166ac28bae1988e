/* client_connect.c - which transfer makes a connection, which waits, which shares one; see
 * client_internal.h.
 *
 * Over TLS libcurl decides this by ALPN. Without TLS it must know that the
 * server speaks HTTP/2 ("prior knowledge"), and libcurl 7.88 then spoils every connection that it
 * uses a second time (fixed in 8.0: it put another layer of HTTP/2 on top). So a plain gRPC
 * transfer is started in one of two ways:
 *
 *     fresh     with prior knowledge, on a new connection, never on an existing one
 *     shared    without, on an existing connection, never on a new one: making a socket is refused
 *
 * The first transfer is fresh, those that come while it connects wait for it, all later ones are
 * shared. A shared one that finds no connection (closed meanwhile, or full) has sent nothing, and
 * is started again as a fresh one.
 *
 * A server that has no such method, or does not like a token, answers at the headers of a request,
 * and resets the stream when its body is still to come. libcurl 7.88 loses an answer that it reads
 * together with a reset. So headers and body of a short request leave the machine as one: the
 * socket is corked while libcurl writes both. What is lost all the same (a long body, a socket that
 * cannot be corked) is asked for again, where that is safe. */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cond_wait.h"
#include "net/client/client_internal.h"

enum {
    START_MAX = 4,
    LOST_MAX = 3, /* answers that libcurl has lost, of one call */
};

static bool needs_care(const tide_client_stream *stream)
{
    return stream->is_grpc && !stream->client->is_https;
}

static curl_socket_t open_socket(void *arg, curlsocktype purpose, struct curl_sockaddr *address)
{
    tide_client_stream *stream = arg;
    (void)purpose;
    if (needs_care(stream) && !stream->is_fresh) {
        stream->is_refused = true;
        return CURL_SOCKET_BAD;
    }
    const int fd = socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
    if (fd < 0)
        return CURL_SOCKET_BAD;
    stream->client->sockets->count++;
    stream->made_fd = fd;
    return fd;
}

/* The port of ours that a socket has; < 0: none. */
static int get_port(int fd)
{
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } address = {.any = {.sa_family = AF_UNSPEC}};
    socklen_t len = sizeof address;
    if (getsockname(fd, &address.any, &len) != 0)
        return -1;
    if (address.any.sa_family == AF_INET)
        return ntohs(address.v4.sin_port);
    return address.any.sa_family == AF_INET6 ? ntohs(address.v6.sin6_port) : -1;
}

static int close_socket(void *arg, curl_socket_t fd)
{
    tide_client_sockets *sockets = arg;
    tide_client_hub_forget(sockets->hub, get_port(fd), fd);
    sockets->count--;
    if (sockets->count == 0 && sockets->is_orphan)
        tide_client_hub_bury(sockets->hub, sockets);
    return close(fd);
}

void tide_client_sockets_leave(tide_client_sockets *sockets)
{
    if (sockets && sockets->count == 0)
        free(sockets);
    else if (sockets)
        tide_client_hub_adopt(sockets->hub, sockets);
}

void tide_client_connect_set(tide_client_stream *stream)
{
    CURL *easy = stream->easy;
    if (!needs_care(stream))
        (void)curl_easy_setopt(easy, CURLOPT_HTTP_VERSION,
                               stream->client->is_https ? (long)CURL_HTTP_VERSION_2TLS
                                                        : (long)CURL_HTTP_VERSION_1_1);
    (void)curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, open_socket);
    (void)curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, stream);
    (void)curl_easy_setopt(easy, CURLOPT_CLOSESOCKETFUNCTION, close_socket);
    (void)curl_easy_setopt(easy, CURLOPT_CLOSESOCKETDATA, stream->client->sockets);
}

/* What libcurl does not take is over at once: the thread finds it given up. */
static void add(tide_client_stream *stream)
{
    if (curl_multi_add_handle(stream->client->multi, stream->easy) == CURLM_OK)
        return;
    pthread_mutex_lock(&stream->lock);
    stream->is_cancelled = true;
    stream->failure = TIDE_E_NOMEM;
    (void)snprintf(stream->failure_text, sizeof stream->failure_text, "%s",
                   tide_status_get(TIDE_E_NOMEM)->text);
    pthread_mutex_unlock(&stream->lock);
    tide_client_wake(stream);
}

static void start(tide_client_stream *stream, bool is_fresh)
{
    tide_client *client = stream->client;
    stream->is_fresh = is_fresh;
    stream->is_refused = false;
    stream->start_count++;
    if (is_fresh)
        client->connecting = stream;
    /* HTTP/2 over TLS alone: on a plain connection it means to share HTTP/2, and to begin
     * nothing. */
    (void)curl_easy_setopt(stream->easy, CURLOPT_HTTP_VERSION,
                           is_fresh ? (long)CURL_HTTP_VERSION_2_PRIOR_KNOWLEDGE
                                    : (long)CURL_HTTP_VERSION_2TLS);
    (void)curl_easy_setopt(stream->easy, CURLOPT_FRESH_CONNECT, is_fresh ? 1L : 0L);
    add(stream);
}

static void wait_for_connection(tide_client_stream *stream)
{
    tide_client *client = stream->client;
    stream->next_waiting = NULL;
    *client->waiting_end = stream;
    client->waiting_end = &stream->next_waiting;
}

void tide_client_connect_start(tide_client_stream *stream)
{
    tide_client *client = stream->client;
    if (!needs_care(stream))
        add(stream);
    else if (client->connecting)
        wait_for_connection(stream);
    else
        start(stream, client->sockets->count == 0);
}

/* Those that waited: all share the new connection, or the first of them tries to make one. */
void tide_client_connect_step(tide_client *client)
{
    if (client->connecting)
        return;
    tide_client_stream *list = client->waiting;
    client->waiting = NULL;
    client->waiting_end = &client->waiting;
    while (list) {
        tide_client_stream *stream = list;
        list = stream->next_waiting;
        tide_client_connect_start(stream);
    }
}

void tide_client_connect_made(tide_client_stream *stream)
{
    tide_client *client = stream->client;
    if (client->connecting != stream)
        return;
    client->connecting = NULL;
    tide_client_hub_step(client);
}

/* ---- whole requests ---- */

/* libcurl reports the socket of a transfer only when that is over, but its port earlier. Two
 * sockets may have one port, towards different machines: then the wrong one is corked for a
 * moment. */
void tide_client_connect_cork(tide_client_stream *stream, int port)
{
    const int on = 1;
    tide_client_hub *hub = stream->client->hub;
    if (stream->made_fd >= 0 && get_port(stream->made_fd) == port)
        tide_client_hub_know(hub, port, stream->made_fd);
    stream->made_fd = -1;
    const int fd = stream->corked_fd < 0 ? tide_client_hub_find(hub, port) : -1;
    if (fd < 0 || setsockopt(fd, IPPROTO_TCP, TCP_CORK, &on, sizeof on) != 0)
        return;
    stream->corked_fd = fd;
    tide_client_hub_cork(stream);
}

void tide_client_connect_uncork(tide_client_stream *stream)
{
    const int off = 0;
    (void)setsockopt(stream->corked_fd, IPPROTO_TCP, TCP_CORK, &off, sizeof off);
    stream->corked_fd = -1;
}

/* ---- once more ---- */

/* The server has ended the stream, and how is not known; or it takes its leave of the connection
 * (GOAWAY), which libcurl 7.88 calls an error of the framing layer, also where the stream was not
 * begun at all. */
static bool has_lost_response(const tide_client_stream *stream, CURLcode result)
{
    return stream->is_grpc && stream->is_idempotent &&
           (result == CURLE_HTTP2_STREAM || result == CURLE_HTTP2) && stream->body_len >= 0 &&
           stream->reply.head.count == 0 && stream->lost_count < LOST_MAX;
}

/* The deadline is of all starts together. */
static void set_time_left(const tide_client_stream *stream)
{
    if (stream->until_us == INT64_MAX)
        return;
    const int64_t left_us = stream->until_us - tide_cond_until(0);
    (void)curl_easy_setopt(stream->easy, CURLOPT_TIMEOUT_MS,
                           left_us > 1000 ? (long)(left_us / 1000) : 1L);
}

/* It found no connection, and has sent nothing. */
static bool was_refused(const tide_client_stream *stream, CURLcode result)
{
    return needs_care(stream) && result != CURLE_OK && stream->is_refused &&
           stream->start_count < START_MAX && stream->request_count == 0;
}

bool tide_client_connect_again(tide_client_stream *stream, CURLcode result)
{
    tide_client *client = stream->client;
    if (has_lost_response(stream, result)) {
        stream->lost_count++;
        stream->start_count = 0;
        stream->request_count = 0;
        (void)curl_multi_remove_handle(client->multi, stream->easy);
        set_time_left(stream);
        tide_client_connect_start(stream);
        return true;
    }
    if (!was_refused(stream, result))
        return false;
    (void)curl_multi_remove_handle(client->multi, stream->easy);
    if (client->connecting)
        wait_for_connection(stream);
    else
        start(stream, true);
    return true;
}

static void leave_waiting(tide_client *client, const tide_client_stream *stream)
{
    tide_client_stream **link = &client->waiting;
    while (*link && *link != stream)
        link = &(*link)->next_waiting;
    if (!*link)
        return;
    *link = stream->next_waiting;
    if (!*link)
        client->waiting_end = link;
}

void tide_client_connect_end(tide_client_stream *stream)
{
    tide_client *client = stream->client;
    leave_waiting(client, stream);
    tide_client_connect_made(stream);
}
