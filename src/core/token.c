/* token.c - see include/tidemark/token.h. */
#include <tidemark/token.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/digest.h"
#include "base/interface/caller.h"
#include "base/interface/sized.h"
#include "base/text/base64.h"
#include "store/statement.h"
#include "tidemark_sql.h"

enum {
    SECRET_LEN = 32,
    SECRET_DIGITS = 43, /* of base64url, without padding */
    PAGE = 100,
};

static const char PREFIX[] = "tide_";

_Static_assert(sizeof PREFIX + SECRET_DIGITS == (int)TIDE_TOKEN_TEXT_SIZE, "one size");

static const char *const role_names[] = {
    [TIDE_TOKEN_READ] = "read",
    [TIDE_TOKEN_WRITE] = "write",
    [TIDE_TOKEN_ADMIN] = "admin",
    [TIDE_TOKEN_INGEST] = "ingest",
};

const char *tide_token_role_name(tide_token_role role)
{
    return TIDE_NAME_AT(role_names, role);
}

static tide_status find_role(tide_token_role *out, tide_view name)
{
    for (int role = TIDE_TOKEN_READ; role <= TIDE_TOKEN_INGEST; role++) {
        if (!tide_view_equal(name, tide_view_of(role_names[role])))
            continue;
        *out = (tide_token_role)role;
        return TIDE_OK;
    }
    return TIDE_NONE;
}

tide_status tide_token_role_find(tide_token_role *out, const char *name, tide_error *err)
{
    TIDE_NEED(out, err);
    return find_role(out, tide_view_of(name)) == TIDE_OK
               ? TIDE_OK
               : tide_fail(err, TIDE_E_INVALID, "role '%s' is none of ingest, read, write, admin",
                           name);
}

static tide_status check_word(const char *word, const char *what, tide_error *err)
{
    const size_t len = word ? strlen(word) : 0;
    if (len < 1 || len > TIDE_TOKEN_NAME_MAX)
        return tide_fail(err, TIDE_E_INVALID, "%s has 1 to %d bytes, this one has %zu", what,
                         TIDE_TOKEN_NAME_MAX, len);
    for (const char *at = word; *at; at++)
        if (*at <= ' ' || *at > '~')
            return tide_fail(err, TIDE_E_INVALID,
                             "%s is visible ASCII, without spaces: it appears in logs and metrics",
                             what);
    return TIDE_OK;
}

tide_status tide_token_check_name(const char *name, tide_error *err)
{
    return check_word(name, "the name of a token", err);
}

/* ---- create ---- */

static void make_text(char text[TIDE_TOKEN_TEXT_SIZE], tide_env *env)
{
    uint8_t secret[SECRET_LEN];
    env->random(env, secret, sizeof secret);
    memcpy(text, PREFIX, sizeof PREFIX - 1);
    char *digits = text + sizeof PREFIX - 1;
    digits[tide_base64_encode_to(digits, tide_view_bytes((const char *)secret, SECRET_LEN),
                                 false)] = '\0';
    for (char *at = digits; *at; at++) /* base64url */
        *at = *at == '+' ? '-' : *at == '/' ? '_' : *at;
    explicit_bzero(secret, sizeof secret);
}

typedef struct create_request {
    const tide_token_new *wanted;
    uint8_t digest[TIDE_SHA256_LEN];
    tide_token made;
} create_request;

static tide_status add_token(tide_tx *tx, void *arg, tide_error *err)
{
    create_request *request = arg;
    const tide_token_new *wanted = request->wanted;
    int64_t now_us = 0;
    TIDE_TRY(tide_tx_now(tx, &now_us, err));
    tide_token *made = &request->made;
    *made = (tide_token){.role = wanted->role, .created_at_us = now_us, .expires_at_us = INT64_MAX};
    (void)snprintf(made->name, sizeof made->name, "%s", wanted->name);
    (void)snprintf(made->agent, sizeof made->agent, "%s", wanted->agent ? wanted->agent : "");
    if (wanted->lifetime_us > 0)
        made->expires_at_us = now_us + wanted->lifetime_us;
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    const tide_status status = tide_tx_one(
        &query, tx, TIDE_SQL_TOKEN_ADD, err,
        tide_bind_blob("digest", tide_view_bytes(request->digest, sizeof request->digest)),
        tide_bind_text("name", wanted->name), tide_bind_text("role", role_names[wanted->role]),
        TIDE_BIND_IF(wanted->agent, tide_bind_text("agent", wanted->agent)),
        tide_bind_time("now", now_us),
        TIDE_BIND_IF(wanted->lifetime_us > 0, tide_bind_time("expires", made->expires_at_us)));
    if (status == TIDE_NONE)
        return tide_fail(err, TIDE_E_EXISTS, "there is a token '%s' already", wanted->name);
    return status;
}

tide_status tide_token_create(tide_store *store, const tide_token_new *given,
                              char text[TIDE_TOKEN_TEXT_SIZE], tide_token *made, tide_error *err)
{
    TIDE_NEED(store, err);
    tide_token_new own;
    TIDE_TRY(TIDE_SIZED_COPY(&own, given, tide_token_new, err));
    const tide_token_new *wanted = &own;
    TIDE_TRY(tide_token_check_name(wanted->name, err));
    if (wanted->agent)
        TIDE_TRY(check_word(wanted->agent, "the name of an agent", err));
    if (wanted->role < TIDE_TOKEN_READ || wanted->role > TIDE_TOKEN_INGEST)
        return tide_fail(err, TIDE_E_INVALID, "there is no role %d", (int)wanted->role);
    if (wanted->lifetime_us < 0 || wanted->lifetime_us > TIDE_TOKEN_LIFETIME_MAX_US)
        return tide_fail(err, TIDE_E_INVALID, "a token lives at most 3650 days");
    char secret[TIDE_TOKEN_TEXT_SIZE];
    create_request request = {.wanted = wanted};
    make_text(secret, tide_store_env(store));
    tide_status status = tide_sha256_of(tide_view_of(secret), request.digest, err);
    if (status >= TIDE_OK)
        status = tide_store_write(store, add_token, &request, err);
    if (status >= TIDE_OK) {
        memcpy(text, secret, sizeof secret);
        if (made)
            *made = request.made;
    }
    explicit_bzero(secret, sizeof secret);
    return status;
}

/* ---- rows ---- */

typedef struct token_row {
    uint8_t digest[TIDE_SHA256_LEN];
    tide_token token;
} token_row;

static tide_status copy_text(char out[TIDE_TOKEN_NAME_MAX + 1], tide_view text, tide_error *err)
{
    if (text.len > TIDE_TOKEN_NAME_MAX)
        return tide_fail(err, TIDE_E_DAMAGED, "a stored token has a name of %zu bytes", text.len);
    (void)snprintf(out, TIDE_TOKEN_NAME_MAX + 1, "%.*s", (int)text.len, text.len ? text.ptr : "");
    return TIDE_OK;
}

static tide_status read_time(int64_t *us, tide_query *query, int64_t missing_us, tide_error *err)
{
    const bool is_null = tide_query_col_is_null(query);
    const int64_t stored_us = tide_query_col_time(query);
    if (!is_null && stored_us == INT64_MIN)
        return tide_fail(err, TIDE_E_DAMAGED, "a stored token has a time that is none");
    *us = is_null ? missing_us : stored_us;
    return TIDE_OK;
}

static tide_status read_row(token_row *row, tide_query *query, tide_error *err)
{
    tide_token *token = &row->token;
    const tide_view digest = tide_query_col_blob(query);
    if (digest.len != sizeof row->digest)
        return tide_fail(err, TIDE_E_DAMAGED, "a stored token has a digest of %zu bytes",
                         digest.len);
    memcpy(row->digest, digest.ptr, sizeof row->digest);
    TIDE_TRY(copy_text(token->name, tide_query_col_text(query), err));
    if (find_role(&token->role, tide_query_col_text(query)) != TIDE_OK)
        return tide_fail(err, TIDE_E_DAMAGED, "the stored token '%s' has no valid role",
                         token->name);
    TIDE_TRY(copy_text(token->agent, tide_query_col_text(query), err));
    TIDE_TRY(read_time(&token->created_at_us, query, 0, err));
    TIDE_TRY(read_time(&token->expires_at_us, query, INT64_MAX, err));
    TIDE_TRY(read_time(&token->last_used_at_us, query, 0, err));
    return read_time(&token->revoked_at_us, query, 0, err);
}

/* ---- check ---- */

typedef struct check_request {
    uint8_t digest[TIDE_SHA256_LEN];
    int64_t now_us;
    bool is_found;
    token_row row;
} check_request;

static tide_status find_token(tide_tx *tx, void *arg, tide_error *err)
{
    check_request *request = arg;
    request->is_found = false;
    TIDE_TRY(tide_tx_now(tx, &request->now_us, err));
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    TIDE_OK_IF_NONE(tide_tx_one(
        &query, tx, TIDE_SQL_TOKEN_FIND, err,
        tide_bind_blob("digest", tide_view_bytes(request->digest, sizeof request->digest))));
    TIDE_TRY(read_row(&request->row, query, err));
    request->is_found =
        tide_digest_equal(request->digest, request->row.digest, sizeof request->digest);
    return TIDE_OK;
}

tide_status tide_token_check(tide_store *store, tide_view text, tide_token *out, tide_error *err)
{
    TIDE_NEED(store && out && (text.ptr || text.len == 0), err);
    check_request request = {.is_found = false};
    TIDE_TRY(tide_sha256_of(text, request.digest, err));
    TIDE_TRY(tide_store_read(store, find_token, &request, err));
    const tide_token *token = &request.row.token;
    if (!request.is_found)
        return tide_fail(err, TIDE_E_UNAUTHENTICATED, "no such token");
    if (token->revoked_at_us != 0)
        return tide_fail(err, TIDE_E_UNAUTHENTICATED, "the token '%s' was revoked", token->name);
    if (token->expires_at_us <= request.now_us)
        return tide_fail(err, TIDE_E_UNAUTHENTICATED, "the token '%s' has expired", token->name);
    *out = *token;
    return TIDE_OK;
}

/* ---- use, revoke ---- */

tide_status tide_token_use(tide_store *store, const char *name, tide_error *err)
{
    TIDE_NEED(store, err);
    TIDE_TRY(tide_token_check_name(name, err));
    return tide_store_exec(store, TIDE_SQL_TOKEN_USE, NULL, err, tide_bind_text("name", name),
                           tide_bind_now("now"),
                           tide_bind_now_plus("before", -TIDE_TOKEN_USE_EVERY_US));
}

tide_status tide_token_revoke(tide_store *store, const char *name, tide_error *err)
{
    TIDE_NEED(store, err);
    int64_t changed = 0;
    TIDE_TRY(tide_token_check_name(name, err));
    TIDE_TRY(tide_store_exec(store, TIDE_SQL_TOKEN_REVOKE, &changed, err,
                             tide_bind_text("name", name), tide_bind_now("now")));
    return changed > 0 ? TIDE_OK
                       : tide_fail(err, TIDE_E_NOT_FOUND, "there is no token '%s' in %s", name,
                                   tide_store_name(store));
}

/* ---- list ---- */

typedef struct page {
    bool has_revoked;
    token_row after;
    int count;
    token_row rows[PAGE];
} page;

static tide_status read_page(tide_tx *tx, void *arg, tide_error *err)
{
    page *p = arg;
    p->count = 0;
    TIDE_QUERY(
        query, tx, TIDE_SQL_TOKEN_LIST, err, tide_bind_text("after_name", p->after.token.name),
        tide_bind_blob("after_digest", tide_view_bytes(p->after.digest, sizeof p->after.digest)),
        tide_bind_bool("all", p->has_revoked), tide_bind_i64("limit", PAGE));
    TIDE_EACH(tide_query_step(query, err))
        TIDE_TRY(read_row(&p->rows[p->count++], query, err));
    return TIDE_OK;
}

tide_status tide_token_list(tide_store *store, bool has_revoked, tide_token_fn *fn, void *arg,
                            tide_error *err)
{
    TIDE_NEED(store && fn, err);
    TIDE_CLEANUP(tide_freep) TIDE_NEW(page, p, err);
    p->has_revoked = has_revoked;
    do {
        TIDE_TRY(tide_store_read(store, read_page, p, err));
        for (int i = 0; i < p->count; i++)
            TIDE_TRY(tide_callback_check(fn(arg, &p->rows[i].token, err), err));
        if (p->count > 0)
            p->after = p->rows[p->count - 1];
    } while (p->count == PAGE);
    return TIDE_OK;
}
