/* pg_proxy.h - TCP proxy in front of a PostgreSQL server that cuts at a chosen message.
 *
 * Bytes are forwarded message by message, in both directions. The messages of all connections upon
 * which one side acts are counted in the order in which they arrive at the proxy. Before the
 * message with the armed number is forwarded its connection breaks, or all of them do; later
 * connections are served. So a request that is cut never reaches the server, and a response that is
 * cut was sent by a server that has done its work.
 *
 * Clients connect without TLS and without GSS encryption (sslmode=disable, gssencmode=disable).
 *
 * Threads: two per connection and one that accepts; every function may be called from any thread.
 * Limits: PG_PROXY_CONNECTIONS over the proxy's life. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { PG_PROXY_CONNECTIONS = 8192 };

typedef struct pg_proxy pg_proxy;

/* In front of 127.0.0.1:target. Fails the test where it cannot. */
pg_proxy *pg_proxy_open(int target);
void pg_proxy_close(pg_proxy *proxy); /* takes NULL; breaks what is open */
int pg_proxy_port(const pg_proxy *proxy);

/* Cut before the message number `at`, counted from 1 and from now on. is_all: every connection. */
void pg_proxy_arm(pg_proxy *proxy, int64_t at, bool is_all);
/* Stop counting. True: it has cut since it was armed. */
bool pg_proxy_disarm(pg_proxy *proxy);
/* Messages since it was armed. */
int64_t pg_proxy_messages(pg_proxy *proxy);
