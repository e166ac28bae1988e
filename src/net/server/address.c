#include "net/server/address.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "net/server/port_holder.h"

enum { UNPRIVILEGED_PORT = 1024 }; /* unless net.ipv4.ip_unprivileged_port_start differs */

/* The descriptor leaves the scope that would close it. */
static int take_fd(int *fd)
{
    const int taken = *fd;
    *fd = -1;
    return taken;
}

static void free_addresses(struct addrinfo **list)
{
    if (*list)
        freeaddrinfo(*list);
}

void tide_address_text(char out[TIDE_ADDRESS_TEXT_MAX], const struct sockaddr *address)
{
    char host[NI_MAXHOST];
    char port[NI_MAXSERV];
    const bool is_v6 = address->sa_family == AF_INET6;
    const socklen_t len = is_v6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
    if ((!is_v6 && address->sa_family != AF_INET) ||
        getnameinfo(address, len, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
        (void)snprintf(out, TIDE_ADDRESS_TEXT_MAX, "unix:");
        return;
    }
    (void)snprintf(out, TIDE_ADDRESS_TEXT_MAX, is_v6 ? "[%.64s]:%.8s" : "%.64s:%.8s", host, port);
}

static tide_status fail_listen(const char *text, tide_error *err)
{
    const int reason = errno;
    const tide_status status = reason == EADDRINUSE                  ? TIDE_E_EXISTS
                               : reason == EACCES || reason == EPERM ? TIDE_E_DENIED
                                                                     : TIDE_E_IO;
    char holder[TIDE_PORT_HOLDER_MAX] = "";
    const char *colon = strncmp(text, "unix:", 5) == 0 ? NULL : strrchr(text, ':');
    if (reason == EADDRINUSE && colon)
        tide_port_holder(holder, (uint16_t)strtoul(colon + 1, NULL, 10));
    if (*holder)
        return tide_fail_advised(
            err, status, "cannot listen on %s: %s holds the port; stop it or choose another port",
            text, holder);
    if (reason == EADDRINUSE)
        return tide_fail_advised(err, status, "cannot listen on %s: %s; choose another %s", text,
                                 strerror(reason), colon ? "port" : "path");
    if (status == TIDE_E_DENIED && colon && strtoul(colon + 1, NULL, 10) < UNPRIVILEGED_PORT)
        return tide_fail_advised(err, status,
                                 "cannot listen on %s: %s; choose a port from %d on, or grant "
                                 "CAP_NET_BIND_SERVICE",
                                 text, strerror(reason), UNPRIVILEGED_PORT);
    if (reason == EADDRNOTAVAIL)
        return tide_fail_advised(err, status,
                                 "cannot listen on %s: %s; choose an address of this "
                                 "machine",
                                 text, strerror(reason));
    return tide_fail(err, status, "cannot listen on %s: %s", text, strerror(reason));
}

static bool is_port(const char *text)
{
    const size_t len = strspn(text, "0123456789");
    return len > 0 && len <= 5 && text[len] == '\0' && strtol(text, NULL, 10) <= 65535;
}

/* "host:port" or "[host]:port" into its parts. */
static tide_status split_text(const char *text, char host[TIDE_ADDRESS_TEXT_MAX], const char **port,
                              tide_error *err)
{
    const char *colon = strrchr(text, ':');
    size_t len = colon ? (size_t)(colon - text) : 0;
    const char *from = text;
    if (len >= 2 && text[0] == '[' && text[len - 1] == ']') {
        from = text + 1;
        len -= 2;
    } else if (colon && memchr(text, ':', len)) {
        return tide_fail(err, TIDE_E_INVALID, "address '%s': an IPv6 address goes in brackets",
                         text);
    }
    char *end = NULL;
    const long number = colon ? strtol(colon + 1, &end, 10) : -1;
    if (!colon || end == colon + 1 || *end != '\0' || number < 0 || number > 65535 ||
        len >= TIDE_ADDRESS_TEXT_MAX)
        return tide_fail_advised(err, TIDE_E_INVALID,
                                 "address '%s': want HOST:PORT, [IPv6]:PORT or unix:PATH; for "
                                 "example 127.0.0.1:%s",
                                 text, is_port(text) ? text : "8340");
    memcpy(host, from, len);
    host[len] = '\0';
    *port = colon + 1;
    return TIDE_OK;
}

static tide_status listen_tcp(int *out, const char *text, char bound[TIDE_ADDRESS_TEXT_MAX],
                              tide_error *err)
{
    char host[TIDE_ADDRESS_TEXT_MAX] = "";
    const char *port = "";
    TIDE_TRY(split_text(text, host, &port, err));
    const struct addrinfo hints = {.ai_flags = AI_PASSIVE | AI_NUMERICSERV,
                                   .ai_socktype = SOCK_STREAM};
    TIDE_CLEANUP(free_addresses) struct addrinfo *list = NULL;
    const int failed = getaddrinfo(host[0] ? host : NULL, port, &hints, &list);
    if (failed)
        return tide_fail(err, TIDE_E_INVALID, "address '%s': %s", text, gai_strerror(failed));
    TIDE_CLEANUP(tide_file_closep)
    int fd = socket(list->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    const int yes = 1;
    struct sockaddr_storage name = {0};
    socklen_t len = sizeof name;
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) != 0 ||
        bind(fd, list->ai_addr, list->ai_addrlen) != 0 || listen(fd, TIDE_ADDRESS_BACKLOG) != 0 ||
        getsockname(fd, (struct sockaddr *)&name, &len) != 0)
        return fail_listen(text, err);
    tide_address_text(bound, (const struct sockaddr *)&name);
    *out = take_fd(&fd);
    return TIDE_OK;
}

/* A socket file whose server is gone refuses connections. */
static bool is_abandoned(const struct sockaddr_un *name)
{
    TIDE_CLEANUP(tide_file_closep)
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    struct stat info;
    return fd >= 0 && lstat(name->sun_path, &info) == 0 && S_ISSOCK(info.st_mode) &&
           connect(fd, (const struct sockaddr *)name, sizeof *name) != 0 && errno == ECONNREFUSED;
}

static tide_status listen_unix(int *out, const char *text, char bound[TIDE_ADDRESS_TEXT_MAX],
                               tide_error *err)
{
    const char *path = text + strlen("unix:");
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    if (path[0] == '\0' || strlen(path) >= sizeof name.sun_path ||
        strlen(text) >= TIDE_ADDRESS_TEXT_MAX)
        return tide_fail(err, TIDE_E_INVALID, "address '%s': a path of 1..%zu bytes", text,
                         sizeof name.sun_path - 1);
    memcpy(name.sun_path, path, strlen(path) + 1);
    TIDE_CLEANUP(tide_file_closep)
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return fail_listen(text, err);
    if (is_abandoned(&name))
        (void)unlink(path);
    if (bind(fd, (const struct sockaddr *)&name, sizeof name) != 0 ||
        listen(fd, TIDE_ADDRESS_BACKLOG) != 0)
        return fail_listen(text, err);
    memcpy(bound, text, strlen(text) + 1);
    *out = take_fd(&fd);
    return TIDE_OK;
}

static bool is_unix(const char *text)
{
    return strncmp(text, "unix:", strlen("unix:")) == 0;
}

tide_status tide_address_check(const char *text, tide_error *err)
{
    char host[TIDE_ADDRESS_TEXT_MAX];
    const char *port = NULL;
    return is_unix(text) ? TIDE_OK : split_text(text, host, &port, err);
}

tide_status tide_address_listen(int *fd, const char *text, char bound[TIDE_ADDRESS_TEXT_MAX],
                                tide_error *err)
{
    return is_unix(text) ? listen_unix(fd, text, bound, err) : listen_tcp(fd, text, bound, err);
}
