/* tcp_proxy.h - TCP proxy that can be cut: connections to one address are relayed to another.
 *
 * While it is cut, open connections break and new ones are closed at once. The demonstration shows
 * by it what a network failure does.
 *
 * Threads: one of its own moves the bytes; every function may be called from any thread.
 * Limits: TIDE_TCP_PROXY_CONNECTIONS at a time; further ones are closed. */
#pragma once

#include <tidemark/env.h>
#include <tidemark/error.h>

enum { TIDE_TCP_PROXY_CONNECTIONS = 64 };

typedef struct tide_tcp_proxy tide_tcp_proxy;

TIDE_MUST_CHECK tide_status tide_tcp_proxy_open(tide_tcp_proxy **out, tide_env *env,
                                                tide_error *err);
void tide_tcp_proxy_close(tide_tcp_proxy *proxy); /* takes NULL */

/* 127.0.0.1:PORT, for ever the same. Borrowed. */
const char *tide_tcp_proxy_address(const tide_tcp_proxy *proxy);
/* Where new connections go: a port of 127.0.0.1; 0: nowhere. */
void tide_tcp_proxy_aim(tide_tcp_proxy *proxy, int port);
void tide_tcp_proxy_cut(tide_tcp_proxy *proxy, int64_t for_us);
