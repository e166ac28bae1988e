/* auth.h - who is calling, and what may they do: from token, certificate and address to a name and
 * a role.
 *
 *     shown                          is
 *     a token                        whoever the token file or the lookup says; else nobody,
 *                                    whatever else is shown
 *     a token of an agent            the token's name, at the daemon of that agent, and beside a
 *                                    certificate of its name; else refused
 *     a certificate (checked by TLS) its name, with the role that the options give certificates
 *     nothing, from this machine     the daemon's own user and root: the options' local_role; other
 *                                    users, and those that the kernel does not tell: other_role
 *                                    (peer_owner.h). But not a web page
 *     nothing, from elsewhere        nobody in particular, with the options' role for strangers
 *
 * A role that is TIDE_ROLE_NONE opens nothing: the call is refused with TIDE_E_UNAUTHENTICATED.
 *
 * The lookup is the daemon's (it asks the store); this folder knows no stores. What it says of a
 * good token counts for fresh_us without being asked again, and for stale_us more while it cannot
 * tell (the store is away). Bad tokens are never kept; who sends more than TIDE_AUTH_BAD_MAX of
 * them from one address within TIDE_AUTH_BAD_WINDOW_US is refused without a look (TIDE_E_BUSY)
 * until the window is over; tokens that were good a moment ago pass all the same. tide_auth_forget
 * empties the cache: after a revocation, on SIGHUP.
 *
 * Web pages: a browser on this machine calls from this machine, whoever wrote the page it shows,
 * and a page can be at any name that its author lets point here (DNS rebinding). So who is trusted
 * for its address alone must call us by an address, as localhost, or by a name of the options, and
 * if a page calls (Origin), it must be one of ours. Otherwise it is refused with TIDE_E_DENIED.
 * Callers with a token or a certificate call us what they like, and so do those on local sockets,
 * which no browser can reach.
 *
 * Tokens are compared by their SHA-256, in a time that does not depend on where they differ; the
 * cache holds digests, never tokens.
 *
 * Survives: nothing is kept.
 * Threads: every function may be called from any thread. A check takes a mutex for moments, and
 * waits for nothing but the lookup, which runs without it.
 * Limits: TIDE_AUTH_CACHE tokens are remembered; TIDE_AUTH_PEERS addresses are watched (several may
 * share a place). */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <tidemark/env.h>
#include <tidemark/error.h>

#include "base/cleanup.h"
#include "net/server/auth_file.h"
#include "net/server/server_context.h"

enum {
    TIDE_AUTH_CACHE = 1024,
    TIDE_AUTH_PEERS = 1024,
    TIDE_AUTH_BAD_MAX = 50,
    TIDE_AUTH_HOST_MAX = 253, /* bytes of a name of this machine */
};

#define TIDE_AUTH_FRESH_US INT64_C(5000000)
#define TIDE_AUTH_STALE_US INT64_C(60000000)
#define TIDE_AUTH_BAD_WINDOW_US INT64_C(10000000)

typedef struct tide_auth tide_auth;

/* What a lookup says about a token. */
typedef struct tide_auth_result {
    char name[TIDE_AUTH_NAME_MAX + 1];
    char agent[TIDE_AUTH_NAME_MAX + 1]; /* "": any */
    tide_call_role role;
    int64_t expires_at_us; /* of the wall clock; INT64_MAX: never */
} tide_auth_result;

/* TIDE_OK: *out says whose it is. TIDE_E_UNAUTHENTICATED: nobody's. Any other failure: it cannot be
 * told now. */
typedef tide_status tide_auth_lookup_fn(void *arg, tide_view token, tide_auth_result *out,
                                        tide_error *err);

typedef struct tide_auth_options {
    tide_env *env;               /* NULL: tide_env_system() */
    tide_auth_lookup_fn *lookup; /* NULL: the token file alone */
    void *lookup_arg;
    /* Called once when a token that was good is refused: it was revoked, has expired or is gone
     * from the store. From any thread, and it must not wait. NULL: none. */
    void (*ended)(void *arg, const char *name, const char *why);
    void *ended_arg;
    const char *token_file;          /* NULL: none */
    tide_call_role certificate_role; /* of who shows a certificate and no token */
    tide_call_role local_role;       /* of own_uid and root on this machine, who show nothing */
    tide_call_role other_role;       /* of its other users */
    uint32_t own_uid;                /* whom the daemon runs as */
    const char *agent;               /* the agent that the daemon is; NULL: none; must outlive it */
    /* of who shows nothing, from elsewhere: NONE, unless somebody insists */
    tide_call_role stranger_role;
    /* further names of this machine, for who shows nothing; must outlive it */
    const char *const *hosts;
    size_t host_count;
    int64_t fresh_us; /* 0: TIDE_AUTH_FRESH_US */
    int64_t stale_us; /* 0: TIDE_AUTH_STALE_US */
} tide_auth_options;

/* TIDE_E_INVALID and the statuses of tide_file_read: the token file. TIDE_E_NOMEM. */
TIDE_MUST_CHECK tide_status tide_auth_open(tide_auth **out, const tide_auth_options *options,
                                           tide_error *err);
void tide_auth_close(tide_auth *auth); /* takes NULL */
TIDE_CLEANUP_FN(tide_auth_closep, tide_auth, tide_auth_close)

/* Read the token file again and forget what was cached. A file that is bad now leaves the old rows
 * in force. */
TIDE_MUST_CHECK tide_status tide_auth_reload(tide_auth *auth, tide_error *err);

/* Ask again about every token. */
void tide_auth_forget(tide_auth *auth);

/* The server's hook: auth is a tide_auth. TIDE_E_UNAUTHENTICATED: credentials are missing or not
 * good. TIDE_E_BUSY: too many bad ones. TIDE_E_DENIED: nothing was shown, and it may be a web
 * page's doing. Any other failure: the lookup cannot tell. */
TIDE_MUST_CHECK tide_status tide_auth_check(void *auth, const tide_credentials *given,
                                            tide_caller *out, tide_error *err);

/* ---- addresses ---- */

/* Is this address ("127.0.0.1:80", "[::1]:80", "unix:...", with or without a port) of this
 * machine? */
bool tide_auth_is_local(const char *address);

/* May this be one of the names below? "agent.example.com" or "agent", at most TIDE_AUTH_HOST_MAX
 * bytes. TIDE_E_INVALID: anything else, which would never be met. */
TIDE_MUST_CHECK tide_status tide_auth_check_name(const char *name, tide_error *err);

/* Was this machine meant by the request, and not a name that somebody else lets point to it? host
 * is Host or :authority (NULL: none, no browser leaves it out), origin is Origin (NULL: no web page
 * calls). TIDE_E_DENIED: the words say what to do. */
TIDE_MUST_CHECK tide_status tide_auth_check_host(const char *host, const char *origin,
                                                 const char *const *names, size_t name_count,
                                                 tide_error *err);

/* May a server listen here? Loopback always; elsewhere only with TLS and with credentials, or when
 * somebody insists. TIDE_E_INVALID otherwise; the words say what to do. */
TIDE_MUST_CHECK tide_status tide_auth_check_listen(const char *address, bool has_tls,
                                                   bool has_credentials, bool is_insecure,
                                                   tide_error *err);
