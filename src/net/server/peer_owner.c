#include "net/server/peer_owner.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { RESPONSE_LEN = 8192, LINE_SIZE = 512 };

/* One end of a connection. IPv4 in IPv6 is IPv4: the kernel keeps both in one table. */
typedef struct endpoint {
    bool is_v6;
    uint32_t address[4]; /* as in packets */
    uint16_t port;       /* as in packets */
} endpoint;

static bool read_endpoint(endpoint *out, const struct sockaddr *address)
{
    *out = (endpoint){.is_v6 = false};
    if (address->sa_family == AF_INET) {
        struct sockaddr_in v4;
        memcpy(&v4, address, sizeof v4);
        out->address[0] = v4.sin_addr.s_addr;
        out->port = v4.sin_port;
        return true;
    }
    if (address->sa_family != AF_INET6)
        return false;
    struct sockaddr_in6 v6;
    memcpy(&v6, address, sizeof v6);
    out->port = v6.sin6_port;
    out->is_v6 = !IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr);
    memcpy(out->address, v6.sin6_addr.s6_addr + (out->is_v6 ? 0 : 12), out->is_v6 ? 16 : 4);
    return true;
}

static bool is_loopback(const endpoint *end)
{
    static const uint8_t v6_loopback[16] = {[15] = 1};
    if (end->is_v6)
        return memcmp(end->address, v6_loopback, sizeof v6_loopback) == 0;
    return ntohl(end->address[0]) >> 24 == 127;
}

/* A socket without an inode has been closed by its process: its uid would be 0. */
static tide_peer_owner owner_of(unsigned int state, uint32_t uid, uint64_t inode)
{
    const bool is_open = state == TCP_ESTABLISHED || state == TCP_FIN_WAIT1 ||
                         state == TCP_FIN_WAIT2 || state == TCP_CLOSE_WAIT;
    return (tide_peer_owner){.is_known = is_open && inode != 0, .uid = uid};
}

/* ---- netlink ---- */

typedef struct diag_request {
    struct nlmsghdr head;
    struct inet_diag_req_v2 body;
} diag_request;

/* The peer's socket has the peer's address as its own. */
static diag_request make_request(const endpoint *local, const endpoint *peer)
{
    diag_request request = {
        .head = {.nlmsg_len = sizeof request,
                 .nlmsg_type = SOCK_DIAG_BY_FAMILY,
                 .nlmsg_flags = NLM_F_REQUEST},
        .body = {.sdiag_family = peer->is_v6 ? AF_INET6 : AF_INET,
                 .sdiag_protocol = IPPROTO_TCP,
                 .idiag_states = ~0U},
    };
    request.body.id.idiag_sport = peer->port;
    request.body.id.idiag_dport = local->port;
    memcpy(request.body.id.idiag_src, peer->address, sizeof peer->address);
    memcpy(request.body.id.idiag_dst, local->address, sizeof local->address);
    request.body.id.idiag_cookie[0] = INET_DIAG_NOCOOKIE;
    request.body.id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
    return request;
}

/* false: netlink cannot be asked here. */
static bool ask_netlink(tide_peer_owner *out, const endpoint *local, const endpoint *peer)
{
    const diag_request request = make_request(local, peer);
    _Alignas(struct nlmsghdr) char answer[RESPONSE_LEN];
    *out = (tide_peer_owner){.is_known = false};
    const int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
    if (fd < 0)
        return false;
    ssize_t len = send(fd, &request, sizeof request, 0);
    if (len == (ssize_t)sizeof request)
        len = recv(fd, answer, sizeof answer, 0); /* the kernel has answered when send returns */
    (void)close(fd);
    struct nlmsghdr head;
    struct inet_diag_msg body;
    if (len < (ssize_t)sizeof head)
        return false;
    memcpy(&head, answer, sizeof head);
    if (head.nlmsg_type == NLMSG_ERROR) {
        struct nlmsgerr failed;
        if (len < (ssize_t)NLMSG_LENGTH(sizeof failed))
            return false;
        memcpy(&failed, answer + NLMSG_HDRLEN, sizeof failed);
        return failed.error == -ENOENT; /* no such socket; otherwise it cannot be asked */
    }
    if (head.nlmsg_type != SOCK_DIAG_BY_FAMILY || len < (ssize_t)NLMSG_LENGTH(sizeof body))
        return false;
    memcpy(&body, answer + NLMSG_HDRLEN, sizeof body);
    if (body.id.idiag_sport == peer->port && body.id.idiag_dport == local->port)
        *out = owner_of(body.idiag_state, body.idiag_uid, body.idiag_inode);
    return true;
}

/* ---- /proc ---- */

/* "0100007F:1F90": words of the address in the machine's order, then the port. */
static void write_proc_endpoint(char out[64], const endpoint *end)
{
    if (end->is_v6)
        (void)snprintf(out, 64, "%08X%08X%08X%08X:%04X", end->address[0], end->address[1],
                       end->address[2], end->address[3], ntohs(end->port));
    else
        (void)snprintf(out, 64, "%08X:%04X", end->address[0], ntohs(end->port));
}

/* What is behind this many fields, which blanks separate. */
static const char *skip_fields(const char *at, int count)
{
    for (; count > 0; count--) {
        at += strspn(at, " ");
        at += strcspn(at, " ");
    }
    return at;
}

static tide_peer_owner find_in(const char *path, const char *want)
{
    tide_peer_owner owner = {.is_known = false};
    FILE *in = fopen(path, "re");
    char line[LINE_SIZE];
    while (in && fgets(line, sizeof line, in)) {
        const char *at = strstr(line, want);
        if (!at)
            continue;
        /* state tx:rx timer:when retransmits uid timeout inode */
        const char *state = at + strlen(want);
        const char *uid = skip_fields(state, 4);
        const char *inode = skip_fields(uid, 2);
        char *end = NULL;
        const unsigned long long number = strtoull(inode, &end, 10);
        if (end == inode)
            continue;
        owner =
            owner_of((unsigned)strtoul(state, NULL, 16), (unsigned)strtoul(uid, NULL, 10), number);
        break;
    }
    if (in)
        (void)fclose(in);
    return owner;
}

static tide_peer_owner ask_proc(const endpoint *local, const endpoint *peer)
{
    char from[64];
    char to[64];
    char want[200];
    write_proc_endpoint(from, peer);
    write_proc_endpoint(to, local);
    (void)snprintf(want, sizeof want, ": %s %s ", from, to);
    if (peer->is_v6)
        return find_in("/proc/net/tcp6", want);
    const tide_peer_owner owner = find_in("/proc/net/tcp", want);
    if (owner.is_known)
        return owner;
    /* IPv4 on a socket of IPv6 */
    (void)snprintf(want, sizeof want, ": 0000000000000000FFFF0000%s 0000000000000000FFFF0000%s ",
                   from, to);
    return find_in("/proc/net/tcp6", want);
}

/* ---- both ---- */

tide_peer_owner tide_peer_owner_by_netlink(const struct sockaddr *local,
                                           const struct sockaddr *peer)
{
    endpoint ours;
    endpoint theirs;
    tide_peer_owner owner = {.is_known = false};
    if (read_endpoint(&ours, local) && read_endpoint(&theirs, peer))
        (void)ask_netlink(&owner, &ours, &theirs);
    return owner;
}

tide_peer_owner tide_peer_owner_by_proc(const struct sockaddr *local, const struct sockaddr *peer)
{
    endpoint ours;
    endpoint theirs;
    if (!read_endpoint(&ours, local) || !read_endpoint(&theirs, peer))
        return (tide_peer_owner){.is_known = false};
    return ask_proc(&ours, &theirs);
}

/* While it is, no other socket has its addresses and ports. After a reset another user's may have
 * them, and what the first one sent can still be read. */
static bool is_connected(int fd)
{
    struct tcp_info info = {0};
    socklen_t len = sizeof info;
    return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) == 0 &&
           (info.tcpi_state == TCP_ESTABLISHED || info.tcpi_state == TCP_CLOSE_WAIT);
}

tide_peer_owner tide_peer_owner_find(int fd, const struct sockaddr *peer)
{
    tide_peer_owner owner = {.is_known = false};
    if (peer->sa_family == AF_UNIX) {
        struct ucred credentials;
        socklen_t len = sizeof credentials;
        if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &len) == 0 &&
            credentials.uid != (uid_t)-1)
            owner = (tide_peer_owner){.is_known = true, .uid = credentials.uid};
        return owner;
    }
    struct sockaddr_storage local = {0};
    socklen_t len = sizeof local;
    endpoint ours;
    endpoint theirs;
    if (!read_endpoint(&theirs, peer) || !is_loopback(&theirs) ||
        getsockname(fd, (struct sockaddr *)&local, &len) != 0 ||
        !read_endpoint(&ours, (const struct sockaddr *)&local))
        return owner;
    if (!ask_netlink(&owner, &ours, &theirs))
        owner = ask_proc(&ours, &theirs);
    owner.is_known = owner.is_known && is_connected(fd); /* afterwards: so it was all the time */
    return owner;
}
