/* Who is at the other end: sockets of this process, seen from their other ends. */
#include "net/server/peer_owner.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <unistd.h>

#include "support/check.h"

typedef struct pair {
    int client;
    int server;
    struct sockaddr_storage local; /* the server's end */
    struct sockaddr_storage peer;
} pair;

static void open_pair(pair *p, int family, const char *address, int client_family,
                      const char *client_address)
{
    struct sockaddr_storage at = {0};
    socklen_t len = family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
    at.ss_family = (sa_family_t)family;
    void *host = family == AF_INET ? (void *)&((struct sockaddr_in *)&at)->sin_addr
                                   : (void *)&((struct sockaddr_in6 *)&at)->sin6_addr;
    assert_int_equal(1, inet_pton(family, address, host));
    const int listener = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(0, bind(listener, (struct sockaddr *)&at, len));
    assert_int_equal(0, listen(listener, 1));
    assert_int_equal(0, getsockname(listener, (struct sockaddr *)&at, &len));
    const in_port_t port = family == AF_INET ? ((struct sockaddr_in *)&at)->sin_port
                                             : ((struct sockaddr_in6 *)&at)->sin6_port;
    struct sockaddr_storage to = {.ss_family = (sa_family_t)client_family};
    socklen_t to_len;
    if (client_family == AF_INET) {
        struct sockaddr_in *v4 = (struct sockaddr_in *)&to;
        assert_int_equal(1, inet_pton(AF_INET, client_address, &v4->sin_addr));
        v4->sin_port = port;
        to_len = sizeof *v4;
    } else {
        struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&to;
        assert_int_equal(1, inet_pton(AF_INET6, client_address, &v6->sin6_addr));
        v6->sin6_port = port;
        to_len = sizeof *v6;
    }
    p->client = socket(client_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(0, connect(p->client, (struct sockaddr *)&to, to_len));
    len = sizeof p->peer;
    p->server = accept(listener, (struct sockaddr *)&p->peer, &len);
    assert_true(p->server >= 0);
    len = sizeof p->local;
    assert_int_equal(0, getsockname(p->server, (struct sockaddr *)&p->local, &len));
    (void)close(listener);
}

static void close_pair(const pair *p)
{
    (void)close(p->client);
    (void)close(p->server);
}

static void assert_own(tide_peer_owner owner)
{
    assert_true(owner.is_known);
    assert_int_equal(geteuid(), owner.uid);
}

static void both_ways_know_the_user_of_a_connection(void **state)
{
    (void)state;
    static const struct {
        int family;
        const char *address;
        int client_family;
        const char *client_address;
    } rows[] = {
        {AF_INET, "127.0.0.1", AF_INET, "127.0.0.1"},
        {AF_INET6, "::1", AF_INET6, "::1"},
        {AF_INET6, "::", AF_INET, "127.0.0.1"},
        {AF_INET, "127.0.0.1", AF_INET6, "::ffff:127.0.0.1"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        pair p;
        open_pair(&p, rows[i].family, rows[i].address, rows[i].client_family,
                  rows[i].client_address);
        const struct sockaddr *local = (const struct sockaddr *)&p.local;
        const struct sockaddr *peer = (const struct sockaddr *)&p.peer;
        assert_own(tide_peer_owner_by_netlink(local, peer));
        assert_own(tide_peer_owner_by_proc(local, peer));
        assert_own(tide_peer_owner_find(p.server, peer));
        /* a client that sends no more still has an owner */
        assert_int_equal(0, shutdown(p.client, SHUT_WR));
        assert_own(tide_peer_owner_find(p.server, peer));
        close_pair(&p);
    }
}

/* The kernel shows sockets that nobody holds as root's. */
static void a_peer_that_has_closed_its_socket_is_nobody(void **state)
{
    (void)state;
    pair p;
    open_pair(&p, AF_INET, "127.0.0.1", AF_INET, "127.0.0.1");
    (void)close(p.client);
    p.client = -1;
    const struct sockaddr *local = (const struct sockaddr *)&p.local;
    const struct sockaddr *peer = (const struct sockaddr *)&p.peer;
    assert_false(tide_peer_owner_by_netlink(local, peer).is_known);
    assert_false(tide_peer_owner_by_proc(local, peer).is_known);
    assert_false(tide_peer_owner_find(p.server, peer).is_known);
    close_pair(&p);
}

/* Two connections of the same addresses and ports, one after the other: the first was reset before it
 * was accepted, and its bytes can still be read. The second may be another user's. */
static void a_connection_that_was_reset_has_no_user(void **state)
{
    (void)state;
    const int on = 1;
    const struct linger at_once = {.l_onoff = 1};
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_in from = at;
    socklen_t len = sizeof at;
    const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(0, bind(listener, (struct sockaddr *)&at, len));
    assert_int_equal(0, listen(listener, 2));
    assert_int_equal(0, getsockname(listener, (struct sockaddr *)&at, &len));
    int clients[2];
    for (int i = 0; i < 2; i++) {
        clients[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_int_equal(0, setsockopt(clients[i], SOL_SOCKET, SO_REUSEADDR, &on, sizeof on));
        assert_int_equal(0, bind(clients[i], (struct sockaddr *)&from, sizeof from));
        assert_int_equal(0, connect(clients[i], (struct sockaddr *)&at, sizeof at));
        assert_int_equal(0, getsockname(clients[i], (struct sockaddr *)&from, &len));
        if (i == 0) {
            assert_int_equal(1, send(clients[i], "x", 1, 0));
            assert_int_equal(
                0, setsockopt(clients[i], SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once));
            (void)close(clients[i]);
        }
    }
    const int first = accept(listener, NULL, NULL);
    const int second = accept(listener, NULL, NULL);
    const struct sockaddr *peer = (const struct sockaddr *)&from;
    assert_false(tide_peer_owner_find(first, peer).is_known);
    assert_own(tide_peer_owner_find(second, peer));
    (void)close(first);
    (void)close(second);
    (void)close(clients[1]);
    (void)close(listener);
}

static void a_local_socket_has_the_user_that_connected(void **state)
{
    (void)state;
    int ends[2];
    assert_int_equal(0, socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends));
    const struct sockaddr peer = {.sa_family = AF_UNIX};
    assert_own(tide_peer_owner_find(ends[0], &peer));
    (void)close(ends[0]);
    (void)close(ends[1]);
}

TEST_FILE()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_ways_know_the_user_of_a_connection),
        cmocka_unit_test(a_peer_that_has_closed_its_socket_is_nobody),
        cmocka_unit_test(a_connection_that_was_reset_has_no_user),
        cmocka_unit_test(a_local_socket_has_the_user_that_connected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
