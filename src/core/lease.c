#include <tidemark/lease.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/interface/caller.h"
#include "base/text/utf8.h"
#include "core/lease_clock.h"
#include "core/lease_end.h"
#include "store/statement.h"
#include "tidemark_sql.h"

static tide_status check_word(const char *what, const char *word, size_t max, tide_error *err)
{
    const size_t len = word ? strlen(word) : 0;
    if (len < 1 || len > max)
        return tide_fail(err, TIDE_E_INVALID, "a lease's %s has 1 to %zu bytes, this one has %zu",
                         what, max, len);
    if (!tide_utf8_valid(tide_view_of(word)))
        return tide_fail(err, TIDE_E_INVALID, "a lease's %s is UTF-8 text", what);
    return TIDE_OK;
}

static tide_status check_duration(int64_t duration_us, tide_error *err)
{
    if (duration_us < TIDE_LEASE_MIN_US || duration_us > TIDE_LEASE_MAX_US)
        return tide_fail(err, TIDE_E_INVALID,
                         "a lease lasts from 1 ms to 365 days, not %" PRId64 " us", duration_us);
    return TIDE_OK;
}

static tide_status fail_lost(const char *name, int64_t token, tide_error *err)
{
    return tide_fail(err, TIDE_E_LEASE_LOST, "token %" PRId64 " no longer holds the lease %s",
                     token, name);
}

static tide_status fail_held(tide_tx *tx, const char *name, int64_t now_us, tide_error *err)
{
    tide_lease held = {.name = ""};
    TIDE_TRY(tide_lease_find(tx, name, &held, err));
    return tide_fail(err, TIDE_E_CONFLICT, "the lease %s is held by %s for another %.1f s", name,
                     held.holder, (double)(held.expires_at_us - now_us) / 1e6);
}

tide_status tide_lease_claim(tide_tx *tx, const char *name, const char *holder, int64_t duration_us,
                             tide_lease *out, tide_error *err)
{
    TIDE_NEED(tx && out, err);
    TIDE_TRY(check_word("name", name, TIDE_LEASE_NAME_MAX, err));
    TIDE_TRY(check_word("holder", holder, TIDE_LEASE_HOLDER_MAX, err));
    TIDE_TRY(check_duration(duration_us, err));
    int64_t now_us = 0;
    TIDE_TRY(tide_lease_now(tx, &now_us, err));
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    const tide_status status = tide_tx_one(
        &query, tx, TIDE_SQL_LEASE_CLAIM, err, tide_bind_text("name", name),
        tide_bind_text("holder", holder), tide_bind_i64("floor", tide_lease_token_floor(tx)),
        tide_bind_time("now", now_us), tide_bind_time("expires", now_us + duration_us));
    TIDE_TRY(status);
    if (status == TIDE_NONE)
        return fail_held(tx, name, now_us, err);
    *out = (tide_lease){.token = tide_query_col_i64(query),
                        .claimed_at_us = now_us,
                        .expires_at_us = now_us + duration_us,
                        .is_live = true};
    (void)snprintf(out->name, sizeof out->name, "%s", name);
    (void)snprintf(out->holder, sizeof out->holder, "%s", holder);
    return TIDE_OK;
}

/* Begin one of the statements that act under a token. */
static tide_status begin_under_token(tide_query **out, tide_tx *tx, const tide_sql *sql,
                                     const char *name, int64_t token, int64_t *now_us,
                                     tide_error *err)
{
    TIDE_TRY(check_word("name", name, TIDE_LEASE_NAME_MAX, err));
    TIDE_TRY(tide_lease_now(tx, now_us, err));
    return tide_query_start(out, tx, sql, err, tide_bind_text("name", name),
                            tide_bind_i64("token", token), tide_bind_time("now", *now_us));
}

tide_status tide_lease_renew(tide_tx *tx, const char *name, int64_t token, int64_t duration_us,
                             tide_error *err)
{
    TIDE_NEED(tx, err);
    TIDE_TRY(check_duration(duration_us, err));
    int64_t now_us = 0;
    int64_t changed = 0;
    TIDE_QUERY_BY(query, begin_under_token, tx, TIDE_SQL_LEASE_RENEW, name, token, &now_us, err);
    tide_query_bind_time(query, "expires", now_us + duration_us);
    TIDE_TRY(tide_query_run(query, &changed, err));
    return changed == 1 ? TIDE_OK : fail_lost(name, token, err);
}

tide_status tide_lease_release(tide_tx *tx, const char *name, int64_t token, tide_error *err)
{
    TIDE_NEED(tx, err);
    int64_t now_us = 0;
    int64_t changed = 0;
    TIDE_QUERY_BY(query, begin_under_token, tx, TIDE_SQL_LEASE_RELEASE, name, token, &now_us, err);
    TIDE_TRY(tide_query_run(query, &changed, err));
    return changed == 1 ? TIDE_OK : fail_lost(name, token, err);
}

tide_status tide_lease_end(tide_tx *tx, const char *name, tide_error *err)
{
    TIDE_TRY(check_word("name", name, TIDE_LEASE_NAME_MAX, err));
    return tide_tx_exec(tx, TIDE_SQL_LEASE_END, NULL, err, tide_bind_text("name", name),
                        tide_bind_i64("floor", tide_lease_token_floor(tx)));
}

tide_status tide_lease_check(tide_tx *tx, const char *name, int64_t token, tide_error *err)
{
    TIDE_NEED(tx, err);
    int64_t now_us = 0;
    TIDE_QUERY_BY(query, begin_under_token, tx, TIDE_SQL_LEASE_CHECK, name, token, &now_us, err);
    const tide_status status = tide_query_one(query, err);
    return status == TIDE_NONE ? fail_lost(name, token, err) : status;
}

tide_status tide_lease_expire(tide_tx *tx, int64_t limit, int64_t *ended, tide_error *err)
{
    TIDE_NEED(tx, err);
    if (limit < 1 || limit > TIDE_LEASE_EXPIRE_MAX)
        return tide_fail(err, TIDE_E_INVALID, "limit %" PRId64 ", want 1 to %d", limit,
                         TIDE_LEASE_EXPIRE_MAX);
    int64_t now_us = 0;
    TIDE_TRY(tide_lease_now(tx, &now_us, err));
    return tide_tx_exec(tx, TIDE_SQL_LEASE_EXPIRE, ended, err, tide_bind_time("now", now_us),
                        tide_bind_i64("limit", limit),
                        tide_bind_i64("floor", tide_lease_token_floor(tx)));
}

tide_status tide_lease_find(tide_tx *tx, const char *name, tide_lease *out, tide_error *err)
{
    TIDE_NEED(tx && out, err);
    TIDE_TRY(check_word("name", name, TIDE_LEASE_NAME_MAX, err));
    int64_t now_us = 0;
    TIDE_TRY(tide_lease_now(tx, &now_us, err));
    TIDE_QUERY_ONE(query, tx, TIDE_SQL_LEASE_FIND, err, tide_bind_text("name", name));
    *out = (tide_lease){.token = 0};
    (void)snprintf(out->name, sizeof out->name, "%s", name);
    const bool is_held = !tide_query_col_is_null(query);
    tide_view_copy(out->holder, sizeof out->holder, tide_query_col_text(query));
    out->token = tide_query_col_i64(query);
    const int64_t claimed_at_us = tide_query_col_time(query);
    const int64_t expires_at_us = tide_query_col_time(query);
    out->claimed_at_us = is_held ? claimed_at_us : 0;
    out->expires_at_us = is_held ? expires_at_us : 0;
    out->is_live = is_held && out->expires_at_us > now_us;
    return TIDE_OK;
}
