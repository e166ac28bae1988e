/* server_context.h - what all connections of a server share: limits, budgets, counters, routes, who
 * may come in.
 *
 * A context is kept by references: the server has one, every call another, so a call that is
 * answered late finds everything it needs.
 *
 * Authorisation happens once per request, when its headers are in and before any byte of its body
 * is read. The hook is called on a connection's loop: it must not wait. Without a hook everybody
 * may do everything (a server that listens on loopback alone).
 *
 * Memory: bodies are charged to budget, answers to answers, each with a share per address
 * (peer_quota.h). What was freed of large ones is given back to the system when little is held any
 * more (tide_server_context_trim, at the end of a call): the allocator would keep it.
 *
 * Threads: safe; the fields are constant once the context is in use, except for the atomics. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>

#include <tidemark/env.h>
#include <tidemark/error.h>

#include "net/call/call.h"
#include "net/call/route.h"
#include "net/http/counters.h"
#include "net/http/limits.h"
#include "net/server/peer_owner.h"
#include "net/server/peer_quota.h"

enum { TIDE_IDENTITY_NAME_MAX = 255 }; /* bytes, without the terminator */

/* What a request shows. */
typedef struct tide_credentials {
    const char *token;       /* of "Authorization: Bearer"; NULL: none */
    const char *certificate; /* the checked name of the peer's certificate; NULL: none */
    const char *peer;        /* address:port */
    tide_peer_owner owner;   /* the user at the other end, on this machine */
    const char *host;        /* of Host or :authority, as it came; NULL: none */
    const char *origin;      /* of Origin: the web page that calls; NULL: none */
} tide_credentials;

typedef struct tide_caller {
    char name[TIDE_IDENTITY_NAME_MAX + 1];
    tide_call_role role;
} tide_caller;

/* TIDE_OK: *out is who it is. TIDE_E_UNAUTHENTICATED: no or bad credentials. Anything else: the
 * request is refused with that status. */
typedef tide_status tide_authorise_fn(void *arg, const tide_credentials *given, tide_caller *out,
                                      tide_error *err);

/* A call of this entry has ended, took_us after its headers were in. Called on any thread, with the
 * call locked: it counts, and does nothing else. */
typedef void tide_ended_fn(void *arg, const tide_route_entry *entry, int grpc_code,
                           int64_t took_us);

typedef struct tide_server_context {
    atomic_int refs;
    tide_env *env;
    tide_net_limits limits;
    tide_budget budget;  /* of requests */
    tide_budget answers; /* that are made, or wait for their readers */
    tide_peer_quotas quotas;
    atomic_size_t freed_len;     /* of large requests and answers, since memory was given back */
    atomic_int_fast64_t trim_us; /* when that is due; 0: nothing to give */
    tide_net_counters counters;
    const tide_routes *routes; /* borrowed, must outlive the server's close */
    tide_authorise_fn *authorise;
    void *authorise_arg;
    tide_ended_fn *on_ended; /* NULL: nobody wants to know */
    void *on_ended_arg;
    /* Have tide_call_run called for this call on a thread that may wait. false: no room. */
    bool (*run_blocking)(void *arg, tide_call *call);
    void *run_blocking_arg;
} tide_server_context;

/* limits NULL: the standard ones. TIDE_E_INVALID, TIDE_E_NOMEM. */
TIDE_MUST_CHECK tide_status tide_server_context_new(tide_server_context **out, tide_env *env,
                                                    const tide_net_limits *limits,
                                                    const tide_routes *routes, tide_error *err);
void tide_server_context_hold(tide_server_context *context);
void tide_server_context_release(tide_server_context *context); /* takes NULL */

/* So much was freed of one request or answer. */
void tide_server_context_note_freed(tide_server_context *context, size_t len);

/* Give memory back to the system, if that is worth it now. */
void tide_server_context_trim(tide_server_context *context);
