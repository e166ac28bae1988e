#include "services/access/access.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tidemark/token.h>

#include "base/cleanup.h"
#include "base/lock.h"
#include "services/access/token_lookup.h"

_Static_assert((int)TIDE_ROLE_READ == (int)TIDE_TOKEN_READ &&
                   (int)TIDE_ROLE_WRITE == (int)TIDE_TOKEN_WRITE &&
                   (int)TIDE_ROLE_ADMIN == (int)TIDE_TOKEN_ADMIN &&
                   (int)TIDE_ROLE_INGEST == (int)TIDE_TOKEN_INGEST,
               "roles of calls and of tokens are the same");
_Static_assert((int)TIDE_AUTH_NAME_MAX == (int)TIDE_TOKEN_NAME_MAX, "one length");

struct tide_access {
    tide_store *store;
    tide_env *env;
    tide_auth *auth;
    tide_token_lookup *lookup; /* NULL: no store */
    tide_log *log;             /* NULL: none */
    pthread_mutex_t lock;      /* of what follows */
    int use_count;
    char uses[TIDE_ACCESS_USES][TIDE_TOKEN_NAME_MAX + 1];
};

/* ---- uses ---- */

static void note_use(tide_access *access, const char *name)
{
    TIDE_HOLD(&access->lock);
    bool is_known = access->use_count == TIDE_ACCESS_USES;
    for (int i = 0; !is_known && i < access->use_count; i++)
        is_known = strcmp(access->uses[i], name) == 0;
    if (!is_known)
        memcpy(access->uses[access->use_count++], name, strlen(name) + 1);
}

/* The newest; false: there is none. */
static bool take_use(tide_access *access, char name[TIDE_TOKEN_NAME_MAX + 1])
{
    TIDE_HOLD(&access->lock);
    const bool is_there = access->use_count > 0;
    if (is_there)
        memcpy(name, access->uses[--access->use_count], TIDE_TOKEN_NAME_MAX + 1);
    return is_there;
}

/* A full disk refuses no caller: that a token works is worth more than when it was used. So uses that cannot be
 * stored are dropped. */
tide_status tide_access_write_uses(tide_access *access, tide_error *err)
{
    char name[TIDE_TOKEN_NAME_MAX + 1];
    tide_status first = TIDE_NONE;
    while (take_use(access, name)) {
        const tide_status status =
            tide_token_use(access->store, name, first < TIDE_OK ? NULL : err);
        first = first < TIDE_OK ? first : status;
    }
    return first;
}

/* ---- questions ---- */

static tide_status look_up(void *arg, tide_view token, tide_auth_result *out, tide_error *err)
{
    tide_access *access = arg;
    tide_token found;
    TIDE_TRY(tide_token_lookup_check(access->lookup, token, &found, err));
    *out = (tide_auth_result){.role = (tide_call_role)found.role,
                              .expires_at_us = found.expires_at_us};
    memcpy(out->name, found.name, sizeof out->name);
    memcpy(out->agent, found.agent, sizeof out->agent);
    if (access->env->wall_us(access->env) - found.last_used_at_us > TIDE_TOKEN_USE_EVERY_US)
        note_use(access, found.name);
    return TIDE_OK;
}

static void log_end(void *arg, const char *name, const char *why)
{
    const tide_access *access = arg;
    if (access->log)
        tide_log_write(access->log, TIDE_LOG_WARN, "token refused", TIDE_F("name", name),
                       TIDE_F("why", why), TIDE_F_END);
}

/* ---- open, close ---- */

tide_status tide_access_open(tide_access **out, tide_store *store,
                             const tide_access_options *options, tide_error *err)
{
    TIDE_CLEANUP(tide_access_closep) tide_access *access = calloc(1, sizeof *access);
    if (!access)
        return tide_no_memory(err);
    access->store = store;
    access->env = options->env ? options->env : tide_env_system();
    access->log = options->log;
    (void)pthread_mutex_init(&access->lock, NULL);
    if (store)
        TIDE_TRY(tide_token_lookup_open(&access->lookup, store, err));
    const tide_auth_options auth = {
        .env = access->env,
        .lookup = store ? look_up : NULL,
        .lookup_arg = access,
        .ended = log_end,
        .ended_arg = access,
        .token_file = options->token_file,
        .certificate_role = options->certificate_role,
        .local_role = options->is_required ? TIDE_ROLE_NONE : TIDE_ROLE_ADMIN,
        .other_role = options->is_required ? TIDE_ROLE_NONE : options->local_role,
        .own_uid = geteuid(),
        .agent = options->agent,
        .hosts = options->hosts,
        .host_count = options->host_count,
    };
    TIDE_TRY(tide_auth_open(&access->auth, &auth, err));
    *out = TIDE_TAKE(access);
    return TIDE_OK;
}

void tide_access_close(tide_access *access)
{
    if (!access)
        return;
    tide_token_lookup_close(access->lookup);
    if (access->store)
        TIDE_IGNORE(tide_access_write_uses(access, NULL));
    tide_auth_close(access->auth);
    (void)pthread_mutex_destroy(&access->lock);
    free(access);
}

tide_auth *tide_access_auth(tide_access *access)
{
    return access->auth;
}

tide_status tide_access_reload(tide_access *access, tide_error *err)
{
    return tide_auth_reload(access->auth, err);
}
