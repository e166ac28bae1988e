/* access.h - who may call a daemon: the tokens of its store behind the server's authorisation hook.
 *
 *     tide_access_open(&access, store, &(tide_access_options){...}, err)
 *     server options: .authorise = tide_auth_check, .authorise_arg = tide_access_auth(access)
 *
 * net/server/auth.h decides and remembers. What it does not know is read from the store (tidemark/token.h) within a limit
 * (token_lookup.h), since calls are authorised on network threads. Uses of tokens are stored, about once a minute each, by
 * a step of the daemon (tide_access_write_uses): no call waits for that.
 *
 * On this machine the kernel says who calls (net/server/peer_owner.h). The daemon's own user and root may do everything
 * without a token, other users what local_role allows; a token that is shown must be good all the same. With is_required
 * everybody needs a credential. Callers from elsewhere always do.
 *
 * Survives: nothing is kept here. Uses of the last second before a crash may be forgotten.
 * Threads: safe. Limits: at most TIDE_ACCESS_USES uses wait to be written down; more are forgotten until they come again. */
#pragma once

#include <stdbool.h>

#include <tidemark/store.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "net/server/auth.h"

enum { TIDE_ACCESS_USES = 256 };

typedef struct tide_access tide_access;

typedef struct tide_access_options {
    const char *token_file;          /* besides the store's tokens; NULL: none */
    tide_call_role certificate_role; /* of who shows a certificate alone; NONE: it opens nothing */
    tide_call_role local_role;       /* of other users of this machine, who show nothing */
    const char *agent;               /* the agent that this daemon is; NULL: none */
    bool is_required;                /* a token or a certificate, from everybody */
    const char *const *hosts;        /* names by which callers without credentials may call it */
    size_t host_count;
    tide_env *env; /* NULL: tide_env_system() */
    tide_log *log; /* of tokens that were good and are refused now; NULL: none */
} tide_access_options;

/* The store must outlive it; NULL: there are the tokens of the file alone. Statuses as of tide_auth_open. */
TIDE_MUST_CHECK tide_status tide_access_open(tide_access **out, tide_store *store,
                                             const tide_access_options *options, tide_error *err);
/* Writes down what is left. The server must be closed already. Takes NULL. */
void tide_access_close(tide_access *access);
TIDE_CLEANUP_FN(tide_access_closep, tide_access, tide_access_close)

tide_auth *tide_access_auth(tide_access *access);

/* Store the uses since the last call. TIDE_NONE: there were none. A failure drops what could not be stored. */
TIDE_MUST_CHECK tide_status tide_access_write_uses(tide_access *access, tide_error *err);

/* SIGHUP: the token file is read again, the store asked again. */
TIDE_MUST_CHECK tide_status tide_access_reload(tide_access *access, tide_error *err);
