/* tcp_proxy.h - a cable that can be cut: what comes in at one address of this machine goes on to another.
 *
 * While it is cut, connections that are there break off in the middle, and new ones are closed at once. For demonstrations: networks fail like this,
 * and what is told over them must not depend on it.
 *
 * Threads: one of its own moves the bytes; everything here may be called from any thread.
 * Limits: TIDE_TCP_PROXY_CONNECTIONS at a time; further ones are closed. */
#ifndef TIDE_DEMO_TCP_PROXY_H
#define TIDE_DEMO_TCP_PROXY_H

#include <tidemark/env.h>
#include <tidemark/error.h>

enum { TIDE_TCP_PROXY_CONNECTIONS = 64 };

typedef struct tide_tcp_proxy tide_tcp_proxy;

TIDE_MUST_CHECK tide_status tide_tcp_proxy_open(tide_tcp_proxy **out, tide_env *env,
                                                tide_error *err);
void tide_tcp_proxy_close(tide_tcp_proxy *relay); /* takes NULL */

/* 127.0.0.1:PORT, for ever the same. Borrowed. */
const char *tide_tcp_proxy_address(const tide_tcp_proxy *relay);
/* Where new connections go: a port of 127.0.0.1; 0: nowhere. */
void tide_tcp_proxy_aim(tide_tcp_proxy *relay, int port);
void tide_tcp_proxy_cut(tide_tcp_proxy *relay, int64_t for_us);

#endif
