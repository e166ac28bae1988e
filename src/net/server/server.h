/* server.h - methods and routes served on sockets: gRPC and HTTP on every port, with TLS or
 * without.
 *
 *     listener -- loop 0..n-1, each connection belongs to one -- protocol core -- calls
 *                                                                     is_blocking: pool of threads
 *
 * What a connection speaks is told by its first bytes; with TLS, ALPN offers h2 and http/1.1. Every
 * connection has a peer (address:port) and, with mutual TLS, the name of its certificate, which the
 * authorisation hook is given.
 *
 * Where it may listen: loopback and unix sockets always. Any other address only with TLS and an
 * authorisation hook, or when is_insecure says that somebody else takes care of it.
 *
 * Stopping: tide_server_drain stops accepting, says GOAWAY and Connection: close, and lets running
 * calls end; tide_server_close waits for that at most drain_us, then cancels what is left.
 *
 * Memory: as limits.h bounds it; what was freed is the system's again. For that the bounds of the
 * process's allocator are set when a server opens.
 *
 * Threads: limits.loops for bytes, limits.workers for calls that wait; all signals are blocked in
 * them. The functions here may be called from any thread, open and close once.
 * Limits: limits.h. No more connections are taken than the process may have files, less a reserve;
 * more of them wait in the kernel's queue, and take the places of idle ones. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include <tidemark/env.h>
#include <tidemark/error.h>
#include <tidemark/export.h>

#include "base/cleanup.h"
#include "net/call/route.h"
#include "net/http/counters.h"
#include "net/http/limits.h"
#include "net/server/server_context.h"
#include "net/server/tls.h"

enum {
    TIDE_SERVER_LISTEN_MAX = 16,   /* addresses */
    TIDE_SERVER_FILE_RESERVE = 64, /* files that connections leave to others */
};

typedef struct tide_server tide_server;

typedef struct tide_server_options {
    const char *const *listen;     /* NULL at the end; see address.h */
    const tide_routes *routes;     /* must outlive the server */
    const tide_net_limits *limits; /* NULL: the standard ones; copied */
    tide_env *env;                 /* NULL: tide_env_system() */
    tide_authorise_fn *authorise;  /* NULL: everybody may do everything */
    void *authorise_arg;
    tide_ended_fn *on_ended; /* told of every call that has a route; NULL: nobody */
    void *on_ended_arg;
    tide_tls *tls; /* NULL: plain; must outlive the server */
    bool is_insecure;
} tide_server_options;

/* TIDE_E_INVALID: an address, a limit, or an address that needs TLS and authorisation. Otherwise as
 * of tide_address_listen. */
TIDE_MUST_CHECK tide_status tide_server_open(tide_server **out, const tide_server_options *options,
                                             tide_error *err);

void tide_server_drain(tide_server *server);
void tide_server_close(tide_server *server); /* takes NULL */
TIDE_CLEANUP_FN(tide_server_closep, tide_server, tide_server_close)

/* Where it listens, in the order of the options, with the port that was picked for 0. NULL: no such
 * index. */
const char *tide_server_address(const tide_server *server, size_t index);

const tide_net_counters *tide_server_counters(const tide_server *server);

/* Bytes of unfinished requests that are held now. */
size_t tide_server_held_len(const tide_server *server);
/* Bytes of answers that are made or wait for their readers now. */
size_t tide_server_responses_len(const tide_server *server);
