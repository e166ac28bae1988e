/* peer_owner.h - the user at the other end of a connection on this machine, as the kernel says.
 *
 * Local sockets: SO_PEERCRED. TCP on loopback: the socket of the peer is looked up by its addresses
 * and ports (NETLINK_SOCK_DIAG, or /proc/net/tcp where that is not allowed), which needs no
 * privileges. A socket that its process has closed already, or that is still connecting, has no
 * owner: the kernel shows the former as root's. Nor has a connection that was reset, whose
 * addresses and ports another user's socket may have by now.
 *
 * Threads: safe. A lookup takes some 20 microseconds, and is made once per connection. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

typedef struct tide_peer_owner {
    bool is_known; /* false: of another machine, or the kernel cannot tell */
    uint32_t uid;
} tide_peer_owner;

/* The owner of the other end of a connected socket; peer is its address. */
tide_peer_owner tide_peer_owner_find(int fd, const struct sockaddr *peer);

/* The two ways for TCP, for tests. local is our end's address. */
tide_peer_owner tide_peer_owner_by_netlink(const struct sockaddr *local,
                                           const struct sockaddr *peer);
tide_peer_owner tide_peer_owner_by_proc(const struct sockaddr *local, const struct sockaddr *peer);
