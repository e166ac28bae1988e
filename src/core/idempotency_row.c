#include "core/idempotency_row.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tidemark/lease.h>

#include "base/cleanup.h"
#include "base/interface/caller.h"
#include "base/text/json_canon.h"
#include "base/text/utf8.h"
#include "core/value_digest.h"
#include "store/statement.h"
#include "tidemark_sql.h"

_Static_assert((int)TIDE_IDEMPOTENCY_HASH_SIZE == (int)TIDE_JSON_REQUEST_HASH_SIZE, "one size");

static const char *const outcome_names[] = {
    [TIDE_IDEMPOTENCY_NEW] = "NEW",
    [TIDE_IDEMPOTENCY_REPLAY] = "REPLAY",
    [TIDE_IDEMPOTENCY_IN_PROGRESS] = "IN_PROGRESS",
    [TIDE_IDEMPOTENCY_MISMATCH] = "MISMATCH",
    [TIDE_IDEMPOTENCY_TAKEOVER] = "TAKEOVER",
};

static const char *const policy_names[] = {
    [TIDE_IDEMPOTENCY_RERUN] = "rerun",
    [TIDE_IDEMPOTENCY_RESUME] = "resume",
    [TIDE_IDEMPOTENCY_FAIL] = "fail",
};

const char *tide_idempotency_outcome_name(tide_idempotency_outcome outcome)
{
    return TIDE_NAME_AT(outcome_names, outcome);
}

const char *tide_idempotency_policy_name(tide_idempotency_policy policy)
{
    return TIDE_NAME_AT(policy_names, policy);
}

tide_status tide_idempotency_hash(char out[TIDE_IDEMPOTENCY_HASH_SIZE], tide_view request,
                                  tide_error *err)
{
    TIDE_NEED(out && (request.ptr || request.len == 0), err);
    const tide_status status = tide_json_request_hash(out, request);
    return status < TIDE_OK ? tide_fail(err, status, "the request cannot be hashed") : TIDE_OK;
}

tide_status tide_idempotency_check_name(const char *name, tide_error *err)
{
    const size_t len = name ? strlen(name) : 0;
    if (len < 1 || len > TIDE_IDEMPOTENCY_KEY_MAX)
        return tide_fail(err, TIDE_E_INVALID,
                         "an idempotency key has 1 to %d bytes with its scope, this one has %zu",
                         TIDE_IDEMPOTENCY_KEY_MAX, len);
    if (!tide_utf8_valid(tide_view_of(name)))
        return tide_fail(err, TIDE_E_INVALID, "an idempotency key is UTF-8 text");
    return TIDE_OK;
}

tide_status tide_idempotency_name(char out[TIDE_IDEMPOTENCY_KEY_MAX + 1], const char *scope,
                                  const char *key, tide_error *err)
{
    TIDE_NEED(out, err);
    out[0] = '\0';
    if (!key || !*key)
        return tide_fail(err, TIDE_E_INVALID, "an idempotency key is not empty");
    if (scope && strchr(scope, '/'))
        return tide_fail(err, TIDE_E_INVALID, "a scope has no '/': it ends there");
    const bool has_scope = scope && *scope;
    const size_t len = (has_scope ? strlen(scope) + 1 : 0) + strlen(key);
    if (len > TIDE_IDEMPOTENCY_KEY_MAX)
        return tide_fail(err, TIDE_E_INVALID,
                         "an idempotency key has 1 to %d bytes with its scope, this one has %zu",
                         TIDE_IDEMPOTENCY_KEY_MAX, len);
    char name[TIDE_IDEMPOTENCY_KEY_MAX + 1];
    (void)snprintf(name, sizeof name, "%s%s%s", has_scope ? scope : "", has_scope ? "/" : "", key);
    TIDE_TRY(tide_idempotency_check_name(name, err));
    for (const char *at = name; *at; at++)
        if ((unsigned char)*at < 0x20 || *at == 0x7f)
            return tide_fail(err, TIDE_E_INVALID, "an idempotency key has no control characters");
    memcpy(out, name, len + 1);
    return TIDE_OK;
}

tide_status tide_idempotency_lock_time(int64_t lock_us, int64_t *out, tide_error *err)
{
    *out = lock_us ? lock_us : TIDE_IDEMPOTENCY_LOCK_US;
    if (*out < TIDE_LEASE_MIN_US || *out > TIDE_LEASE_MAX_US)
        return tide_fail(err, TIDE_E_INVALID,
                         "a lock lasts from 1 ms to 365 days, not %" PRId64 " us", lock_us);
    return TIDE_OK;
}

tide_status tide_idempotency_times_get(tide_tx *tx, tide_idempotency_times *out, tide_error *err)
{
    TIDE_TRY(tide_lease_now(tx, &out->lock_now_us, err));
    return tide_tx_now(tx, &out->now_us, err);
}

tide_status tide_idempotency_row_lock(tide_tx *tx, const char *name, tide_error *err)
{
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    return tide_tx_one(&query, tx, TIDE_SQL_IDEMPOTENCY_LOCK, err, tide_bind_text("name", name));
}

int64_t tide_idempotency_col_time(tide_query *query)
{
    const int64_t us = tide_query_col_time(query);
    return us == INT64_MIN ? 0 : us;
}

/* What does not fit is not ours, and equals none of ours. */
static void copy_short(char *out, size_t size, tide_view text)
{
    const bool is_fitting = text.len < size && !memchr(text.ptr, '\0', text.len);
    (void)snprintf(out, size, "%.*s", is_fitting ? (int)text.len : 0, text.ptr);
}

static tide_idempotency_policy find_policy(tide_view name)
{
    for (size_t i = 0; i < sizeof policy_names / sizeof policy_names[0]; i++)
        if (tide_view_equal(name, tide_view_of(policy_names[i])))
            return (tide_idempotency_policy)i;
    return TIDE_IDEMPOTENCY_FAIL; /* unknown: let a person decide */
}

static void read_row(tide_query *query, tide_idempotency_row *out)
{
    *out = (tide_idempotency_row){.token = 0};
    copy_short(out->request_hash, sizeof out->request_hash, tide_query_col_text(query));
    const tide_view status = tide_query_col_text(query);
    out->is_pending = tide_view_equal(status, tide_view_of("pending"));
    out->is_failed = tide_view_equal(status, tide_view_of("failed"));
    copy_short(out->holder, sizeof out->holder, tide_query_col_text(query));
    out->token = tide_query_col_i64(query);
    out->lock_expires_at_us = tide_idempotency_col_time(query);
    const tide_view via = tide_query_col_text(query);
    out->has_lock_via = via.len > 0;
    out->is_ours = tide_view_equal(via, tide_view_of("api"));
    out->policy = find_policy(tide_query_col_text(query));
    out->has_response = tide_query_col_bool(query);
    out->created_at_us = tide_idempotency_col_time(query);
    out->completed_at_us = tide_idempotency_col_time(query);
    out->expires_at_us = tide_idempotency_col_time(query);
}

tide_status tide_idempotency_row_look(tide_tx *tx, const char *name,
                                      const tide_idempotency_times *times,
                                      tide_idempotency_row *out, tide_error *err)
{
    TIDE_QUERY_ONE(query, tx, TIDE_SQL_IDEMPOTENCY_LOOK, err, tide_bind_text("name", name));
    read_row(query, out);
    out->is_locked = out->is_pending && out->lock_expires_at_us > times->lock_now_us;
    out->is_expired =
        out->expires_at_us != 0 && out->expires_at_us <= times->now_us && !out->is_locked;
    return TIDE_OK;
}

tide_status tide_idempotency_row_check(int64_t digest, const char *name, tide_view response,
                                       tide_error *err)
{
    const tide_view key = tide_view_of(name);
    return tide_value_digest_check(digest, tide_value_digest(TIDE_IDEMPOTENCY_VALUE, key, response),
                                   TIDE_IDEMPOTENCY_WHAT, key, err);
}

tide_status tide_idempotency_row_answer(tide_tx *tx, const char *name, int64_t token, char **out,
                                        size_t *out_len, bool *has_response, tide_error *err)
{
    TIDE_QUERY_ONE(query, tx, TIDE_SQL_IDEMPOTENCY_ANSWER, err, tide_bind_text("name", name),
                   tide_bind_i64("token", token));
    *has_response = !tide_query_col_is_null(query);
    if (!*has_response)
        return TIDE_OK;
    const tide_view answer = tide_query_col_text(query);
    if (!tide_query_col_is_null(query))
        TIDE_TRY(tide_idempotency_row_check(tide_query_col_i64(query), name, answer, err));
    char *copy = malloc(answer.len + 1);
    TIDE_NEED_MEMORY(copy, err);
    memcpy(copy, answer.ptr, answer.len);
    copy[answer.len] = '\0';
    *out = copy;
    *out_len = answer.len;
    return TIDE_OK;
}
