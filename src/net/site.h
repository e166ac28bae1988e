/* site.h - what all connections of a server share: limits, budget, counters, routes, who may come in.
 *
 * A site is kept by references: the server has one, every call another, so a call that is answered late finds
 * everything it needs.
 *
 * Authorisation happens once per request, when its headers are in and before any byte of its body is read. The hook is
 * called on a connection's loop: it must not wait. Without a hook everybody may do everything (a server that listens on
 * loopback alone).
 *
 * Threads: safe; the fields are constant once the site is in use, except for the atomics. */
#ifndef TIDE_NET_SITE_H
#define TIDE_NET_SITE_H

#include <stdatomic.h>
#include <stdbool.h>

#include <tidemark/env.h>
#include <tidemark/error.h>

#include "net/budget.h"
#include "net/call.h"
#include "net/counters.h"
#include "net/limits.h"
#include "net/route.h"

enum { TIDE_IDENTITY_NAME_MAX = 255 }; /* bytes, without the terminator */

/* What a request shows. */
typedef struct tide_credentials {
    const char *token;       /* of "Authorization: Bearer"; NULL: none */
    const char *certificate; /* the checked name of the peer's certificate; NULL: none */
    const char *peer;        /* address:port */
} tide_credentials;

typedef struct tide_peer {
    char name[TIDE_IDENTITY_NAME_MAX + 1];
    tide_call_role role;
} tide_peer;

/* TIDE_OK: *out is who it is. TIDE_E_UNAUTHENTICATED: no or bad credentials. Anything else: the request is refused with
 * that status. */
typedef tide_status tide_authorise_fn(void *arg, const tide_credentials *given, tide_peer *out,
                                      tide_error *err);

typedef struct tide_site {
    atomic_int refs;
    tide_env *env;
    tide_net_limits limits;
    tide_budget budget;
    tide_net_counters counters;
    const tide_routes *routes; /* borrowed, must outlive the server's close */
    tide_authorise_fn *authorise;
    void *authorise_arg;
    /* Have tide_call_run called for this call on a thread that may wait. false: no room. */
    bool (*run_blocking)(void *arg, tide_call *call);
    void *run_blocking_arg;
} tide_site;

/* limits NULL: the standard ones. TIDE_E_INVALID, TIDE_E_NOMEM. */
TIDE_MUST_CHECK tide_status tide_site_new(tide_site **out, tide_env *env,
                                          const tide_net_limits *limits, const tide_routes *routes,
                                          tide_error *err);
void tide_site_hold(tide_site *site);
void tide_site_release(tide_site *site); /* takes NULL */

#endif
