/* token.h - bearer tokens: who may call a store's services, and to do what.
 *
 * A token is 256 random bits as text: "tide_" and 43 characters of base64url. Whoever presents it
 * is who it was made for. The store keeps the SHA-256 of the text and never the text itself; it is
 * shown once, when it is made.
 *
 *     create ---- live ---- [expires] ---- gone by itself
 *                   \------ revoke ------- gone at once; the row stays, the name is free again
 *
 * A token has a name (unique among those not revoked), a role, and may belong to one agent. Then it
 * counts at the daemon of that agent, and elsewhere beside the agent's client certificate. admin
 * may what write may, write may what read and ingest may; ingest sends records and telemetry, and
 * reads nothing but metrics.
 *
 * The time of the last use is kept coarsely: whoever serves notes it (tide_token_use), and it is
 * written at most once in TIDE_TOKEN_USE_EVERY_US per token. Checking alone writes nothing.
 *
 * Survives: a created token is on disk before its text is handed out; a revoked one is revoked on
 * disk before revoke returns. Whoever caches a check (net/server/auth.h) sees a revocation when its
 * cache has forgotten.
 * Threads: as safe as the store. Limits: below. */
#ifndef TIDEMARK_TOKEN_H
#define TIDEMARK_TOKEN_H

#include <stdbool.h>
#include <stdint.h>

#include <tidemark/store.h>

TIDE_BEGIN_DECLS

enum {
    TIDE_TOKEN_NAME_MAX = 128, /* bytes, without the terminator; of an agent, too */
    TIDE_TOKEN_TEXT_SIZE = 49, /* of a token, with the terminator */
};

#define TIDE_TOKEN_USE_EVERY_US INT64_C(60000000)
#define TIDE_TOKEN_LIFETIME_MAX_US INT64_C(315360000000000) /* 3650 days */

typedef enum tide_token_role {
    TIDE_TOKEN_READ = 1,
    TIDE_TOKEN_WRITE = 2,
    TIDE_TOKEN_ADMIN = 3,
    TIDE_TOKEN_INGEST = 4,
} tide_token_role;

typedef struct tide_token {
    char name[TIDE_TOKEN_NAME_MAX + 1];
    char agent[TIDE_TOKEN_NAME_MAX + 1]; /* "": any */
    tide_token_role role;
    int64_t created_at_us;
    int64_t expires_at_us;   /* INT64_MAX: never */
    int64_t last_used_at_us; /* 0: never */
    int64_t revoked_at_us;   /* 0: not */
} tide_token;

typedef struct tide_token_new {
    size_t size; /* TIDE_TOKEN_NEW_INIT */
    const char *name;
    const char *agent; /* NULL: any */
    tide_token_role role;
    int64_t lifetime_us; /* 0: until it is revoked */
} tide_token_new;
#define TIDE_TOKEN_NEW_INIT .size = sizeof(tide_token_new)

/* "ingest", "read", "write", "admin". */
TIDE_API const char *tide_token_role_name(tide_token_role role);
/* TIDE_E_INVALID: none of them. */
TIDE_API TIDE_MUST_CHECK tide_status tide_token_role_find(tide_token_role *out, const char *name,
                                                          tide_error *err);

/* Names are 1 to 128 bytes of visible ASCII (they appear in logs and metrics). TIDE_E_INVALID
 * otherwise. */
TIDE_API TIDE_MUST_CHECK tide_status tide_token_check_name(const char *name, tide_error *err);

/* Make a token. text is what its holder presents; nobody can learn it again. made (may be NULL) is
 * what is stored.
 * TIDE_E_EXISTS: a live token has this name. TIDE_E_INVALID: a bad name, role or lifetime. */
TIDE_API TIDE_MUST_CHECK tide_status tide_token_create(tide_store *store,
                                                       const tide_token_new *wanted,
                                                       char text[TIDE_TOKEN_TEXT_SIZE],
                                                       tide_token *made, tide_error *err);

/* Whose token is this? Takes the same time whether it was nearly right or not.
 * TIDE_E_UNAUTHENTICATED: nobody's, or it has expired or was revoked. Other failures: the store
 * could not tell. */
TIDE_API TIDE_MUST_CHECK tide_status tide_token_check(tide_store *store, tide_view text,
                                                      tide_token *out, tide_error *err);

/* The live token of this name was used now. Nothing happens where that was noted a moment ago, or
 * there is none. */
TIDE_API TIDE_MUST_CHECK tide_status tide_token_use(tide_store *store, const char *name,
                                                    tide_error *err);

/* TIDE_E_NOT_FOUND: no live token has this name. */
TIDE_API TIDE_MUST_CHECK tide_status tide_token_revoke(tide_store *store, const char *name,
                                                       tide_error *err);

/* Tokens by name; has_revoked: also those that were revoked. fn returns a failure to stop. */
typedef tide_status tide_token_fn(void *arg, const tide_token *token, tide_error *err);
TIDE_API TIDE_MUST_CHECK tide_status tide_token_list(tide_store *store, bool has_revoked,
                                                     tide_token_fn *fn, void *arg, tide_error *err);

TIDE_END_DECLS

#endif
