#include "net/server/auth.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/lock.h"

enum { CACHE_WAYS = 4 }; /* places in which one token may lie */

_Static_assert(TIDE_AUTH_CACHE % CACHE_WAYS == 0, "whole sets");
_Static_assert((int)TIDE_AUTH_NAME_MAX <= (int)TIDE_IDENTITY_NAME_MAX, "a name fits");

typedef struct cached_token {
    bool is_used;
    uint8_t digest[TIDE_SHA256_LEN];
    tide_auth_result answer;
    int64_t asked_at_us; /* of the monotonic clock */
} cached_token;

typedef struct watched_peer {
    uint64_t hash;
    int64_t since_us;
    int bad_count;
} watched_peer;

struct tide_auth {
    tide_auth_options options;
    tide_env *env;
    char *token_file;
    uint64_t salt; /* of the hashes of peers */
    pthread_mutex_t lock;
    tide_auth_rows rows;
    /* rises when the cache is emptied: answers on their way are not kept then */
    uint64_t generation;
    cached_token cache[TIDE_AUTH_CACHE];
    watched_peer peers[TIDE_AUTH_PEERS];
};

/* ---- open, close, reload ---- */

void tide_auth_close(tide_auth *auth)
{
    if (!auth)
        return;
    tide_auth_rows_done(&auth->rows);
    free(auth->token_file);
    (void)pthread_mutex_destroy(&auth->lock);
    free(auth);
}

void tide_auth_forget(tide_auth *auth)
{
    TIDE_HOLD(&auth->lock);
    auth->generation++;
    memset(auth->cache, 0, sizeof auth->cache);
}

static void wipe(tide_buffer *text)
{
    if (text->ptr)
        explicit_bzero(text->ptr, text->capacity);
    tide_buffer_done(text);
}

tide_status tide_auth_reload(tide_auth *auth, tide_error *err)
{
    tide_auth_forget(auth);
    if (!auth->token_file)
        return TIDE_OK;
    TIDE_CLEANUP(wipe) tide_buffer text;
    tide_buffer_init(&text, TIDE_AUTH_FILE_MAX);
    TIDE_CLEANUP(tide_auth_rows_done) tide_auth_rows rows = {.items = NULL};
    TIDE_TRY(tide_file_read_private(&text, auth->token_file, err));
    TIDE_TRY(tide_auth_rows_parse(&rows, tide_buffer_view(&text), auth->token_file, err));
    pthread_mutex_lock(&auth->lock);
    const tide_auth_rows old = auth->rows;
    auth->rows = rows;
    pthread_mutex_unlock(&auth->lock);
    rows = old; /* given back */
    return TIDE_OK;
}

tide_status tide_auth_open(tide_auth **out, const tide_auth_options *options, tide_error *err)
{
    TIDE_CLEANUP(tide_auth_closep) tide_auth *auth = calloc(1, sizeof *auth);
    if (!auth)
        return tide_no_memory(err);
    (void)pthread_mutex_init(&auth->lock, NULL);
    auth->options = *options;
    auth->env = options->env ? options->env : tide_env_system();
    if (!auth->options.fresh_us)
        auth->options.fresh_us = TIDE_AUTH_FRESH_US;
    if (!auth->options.stale_us)
        auth->options.stale_us = TIDE_AUTH_STALE_US;
    auth->env->random(auth->env, &auth->salt, sizeof auth->salt);
    if (options->token_file) {
        auth->token_file = strdup(options->token_file);
        if (!auth->token_file)
            return tide_no_memory(err);
    }
    TIDE_TRY(tide_auth_reload(auth, err));
    *out = TIDE_TAKE(auth);
    return TIDE_OK;
}

/* ---- who sends bad tokens ---- */

/* The place of an address, without its port; FNV-1a, salted so that nobody can choose whom to share
 * a place with. */
static watched_peer *get_peer(tide_auth *auth, const char *peer)
{
    const char *port = strrchr(peer, ':');
    const size_t len = port ? (size_t)(port - peer) : strlen(peer);
    uint64_t hash = auth->salt ^ UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < len; i++)
        hash = (hash ^ (uint8_t)peer[i]) * UINT64_C(0x100000001b3);
    hash ^= hash >> 29;
    watched_peer *place = &auth->peers[hash % TIDE_AUTH_PEERS];
    const int64_t now_us = auth->env->mono_us(auth->env);
    if (place->hash != hash || now_us - place->since_us >= TIDE_AUTH_BAD_WINDOW_US)
        *place = (watched_peer){.hash = hash, .since_us = now_us};
    return place;
}

static bool is_guessing(tide_auth *auth, const char *peer)
{
    TIDE_HOLD(&auth->lock);
    return get_peer(auth, peer)->bad_count >= TIDE_AUTH_BAD_MAX;
}

static void note_bad(tide_auth *auth, const char *peer)
{
    TIDE_HOLD(&auth->lock);
    get_peer(auth, peer)->bad_count++;
}

/* ---- tokens ---- */

/* Every row is compared, whether one fits or not. */
static bool find_in_file(const tide_auth *auth, const uint8_t digest[TIDE_SHA256_LEN],
                         tide_auth_result *out)
{
    const tide_auth_row *found = NULL;
    for (size_t i = 0; i < auth->rows.count; i++)
        if (tide_digest_equal(auth->rows.items[i].digest, digest, TIDE_SHA256_LEN))
            found = &auth->rows.items[i];
    if (!found)
        return false;
    *out = (tide_auth_result){.role = found->role, .expires_at_us = INT64_MAX};
    memcpy(out->name, found->name, sizeof out->name);
    return true;
}

/* The places in which a token may lie begin here. */
static cached_token *get_set(tide_auth *auth, const uint8_t digest[TIDE_SHA256_LEN])
{
    uint32_t bits;
    memcpy(&bits, digest, sizeof bits);
    return &auth->cache[bits % (TIDE_AUTH_CACHE / CACHE_WAYS) * CACHE_WAYS];
}

static cached_token *find_cached(tide_auth *auth, const uint8_t digest[TIDE_SHA256_LEN])
{
    cached_token *set = get_set(auth, digest);
    cached_token *found = NULL;
    for (int i = 0; i < CACHE_WAYS; i++)
        if (tide_digest_equal(set[i].digest, digest, TIDE_SHA256_LEN) && set[i].is_used)
            found = &set[i];
    return found;
}

static void keep_cached(tide_auth *auth, const uint8_t digest[TIDE_SHA256_LEN],
                        const tide_auth_result *answer, int64_t asked_at_us)
{
    cached_token *set = get_set(auth, digest);
    cached_token *place = find_cached(auth, digest);
    for (int i = 0; !place && i < CACHE_WAYS; i++)
        if (!set[i].is_used)
            place = &set[i];
    if (!place) {
        place = set;
        for (int i = 1; i < CACHE_WAYS; i++)
            if (set[i].asked_at_us < place->asked_at_us)
                place = &set[i];
    }
    *place = (cached_token){.is_used = true, .answer = *answer, .asked_at_us = asked_at_us};
    memcpy(place->digest, digest, sizeof place->digest);
}

/* Under the lock. Whose it was goes to name; "": it was not known. */
static void drop_cached(tide_auth *auth, const uint8_t digest[TIDE_SHA256_LEN],
                        char name[TIDE_AUTH_NAME_MAX + 1])
{
    cached_token *place = find_cached(auth, digest);
    name[0] = '\0';
    if (!place)
        return;
    memcpy(name, place->answer.name, TIDE_AUTH_NAME_MAX + 1);
    place->is_used = false;
}

static void report_end(tide_auth *auth, const uint8_t digest[TIDE_SHA256_LEN], const char *why)
{
    char name[TIDE_AUTH_NAME_MAX + 1];
    (void)pthread_mutex_lock(&auth->lock);
    drop_cached(auth, digest, name);
    (void)pthread_mutex_unlock(&auth->lock);
    if (name[0] && auth->options.ended)
        auth->options.ended(auth->options.ended_arg, name, why);
}

/* What is known without asking. *age_us is how old it is; INT64_MAX: nothing is known. */
static tide_auth_result get_known(tide_auth *auth, const uint8_t digest[TIDE_SHA256_LEN],
                                  int64_t now_us, int64_t *age_us, uint64_t *generation)
{
    tide_auth_result answer = {.role = TIDE_ROLE_NONE};
    *age_us = INT64_MAX;
    TIDE_HOLD(&auth->lock);
    *generation = auth->generation;
    const cached_token *cached = find_cached(auth, digest);
    if (find_in_file(auth, digest, &answer)) {
        *age_us = 0;
    } else if (cached) {
        answer = cached->answer;
        *age_us = now_us - cached->asked_at_us;
    }
    return answer;
}

static void learn(tide_auth *auth, const uint8_t digest[TIDE_SHA256_LEN],
                  const tide_auth_result *answer, int64_t asked_at_us, uint64_t generation)
{
    TIDE_HOLD(&auth->lock);
    if (auth->generation == generation)
        keep_cached(auth, digest, answer, asked_at_us);
}

/* Who guesses is not answered; who is known to be good at the same address is. */
static tide_status ask(tide_auth *auth, tide_view token, const uint8_t digest[TIDE_SHA256_LEN],
                       bool is_guessed, tide_auth_result *out, tide_error *err)
{
    const int64_t now_us = auth->env->mono_us(auth->env);
    int64_t age_us = INT64_MAX;
    uint64_t generation = 0;
    *out = get_known(auth, digest, now_us, &age_us, &generation);
    if (age_us < auth->options.fresh_us)
        return TIDE_OK;
    if (is_guessed && age_us >= auth->options.fresh_us + auth->options.stale_us)
        return tide_fail(err, TIDE_E_BUSY, "too many bad tokens from this address; wait a while");
    if (!auth->options.lookup)
        return tide_fail(err, TIDE_E_UNAUTHENTICATED, "no such token");
    tide_auth_result answer = {.role = TIDE_ROLE_NONE};
    const tide_status status = auth->options.lookup(auth->options.lookup_arg, token, &answer, err);
    if (status == TIDE_OK) {
        learn(auth, digest, &answer, now_us, generation);
        *out = answer;
    }
    if (status == TIDE_E_UNAUTHENTICATED)
        report_end(auth, digest, "it is not in the store any more, or was revoked or has expired");
    const bool cannot_tell = status < TIDE_OK && status != TIDE_E_UNAUTHENTICATED;
    return cannot_tell && age_us < auth->options.stale_us ? TIDE_OK : status;
}

static tide_status check_token(tide_auth *auth, const tide_credentials *given,
                               tide_auth_result *out, tide_error *err)
{
    const tide_view token = tide_view_of(given->token);
    uint8_t digest[TIDE_SHA256_LEN];
    if (token.len > TIDE_AUTH_SECRET_MAX)
        return tide_fail(err, TIDE_E_UNAUTHENTICATED, "no such token");
    TIDE_TRY(tide_sha256_of(token, digest, err));
    const char *peer = given->peer ? given->peer : "";
    TIDE_TRY(ask(auth, token, digest, is_guessing(auth, peer), out, err));
    if (out->expires_at_us <= auth->env->wall_us(auth->env)) {
        report_end(auth, digest, "it has expired");
        return tide_fail(err, TIDE_E_UNAUTHENTICATED, "the token has expired");
    }
    const char *agent = given->certificate ? given->certificate : auth->options.agent;
    if (out->agent[0] && (!agent || strcmp(out->agent, agent) != 0))
        return tide_fail(err, TIDE_E_UNAUTHENTICATED,
                         "the token is of agent '%s', and %s is not; make one for this service "
                         "(tidemark token create)",
                         out->agent, given->certificate ? "the certificate" : "this daemon");
    return TIDE_OK;
}

/* ---- the hook ---- */

static tide_status name_peer(tide_caller *out, const char *name, tide_call_role role,
                             tide_error *err)
{
    if (role == TIDE_ROLE_NONE)
        return tide_fail(err, TIDE_E_UNAUTHENTICATED,
                         "no credentials: show a token (tidemark token create)");
    *out = (tide_caller){.role = role};
    (void)snprintf(out->name, sizeof out->name, "%s", name);
    return TIDE_OK;
}

/* Nothing was shown: where does it come from, and who runs it there? */
static tide_status name_nobody(const tide_auth *auth, const tide_credentials *given,
                               const char *peer, tide_caller *out, tide_error *err)
{
    const tide_auth_options *options = &auth->options;
    const tide_peer_owner owner = given->owner;
    if (!tide_auth_is_local(peer))
        return name_peer(out, "", options->stranger_role, err);
    const bool is_own = owner.is_known && (owner.uid == 0 || owner.uid == options->own_uid);
    const tide_call_role role = is_own ? options->local_role : options->other_role;
    char name[32] = "";
    if (!is_own && owner.is_known)
        (void)snprintf(name, sizeof name, "user %u", owner.uid);
    else if (!is_own)
        (void)snprintf(name, sizeof name, "unknown user");
    TIDE_TRY(name_peer(out, name, role, err));
    /* Where strangers may do as much it is not for the address. No browser gets at a local
     * socket. */
    if (role == options->stranger_role || strncmp(peer, "unix:", 5) == 0)
        return TIDE_OK;
    return tide_auth_check_host(given->host, given->origin, options->hosts, options->host_count,
                                err);
}

tide_status tide_auth_check(void *auth_arg, const tide_credentials *given, tide_caller *out,
                            tide_error *err)
{
    tide_auth *auth = auth_arg;
    const char *peer = given->peer ? given->peer : "";
    if (!given->token && given->certificate)
        return name_peer(out, given->certificate, auth->options.certificate_role, err);
    if (!given->token)
        return name_nobody(auth, given, peer, out, err);
    tide_auth_result answer = {.role = TIDE_ROLE_NONE};
    const tide_status status = check_token(auth, given, &answer, err);
    if (status == TIDE_E_UNAUTHENTICATED)
        note_bad(auth, peer);
    TIDE_TRY(status);
    return name_peer(out, answer.name, answer.role, err);
}
