/* idempotency_end.c - what the holder of a token may do: renew, complete, fail. */
#include <tidemark/idempotency.h>

#include <inttypes.h>
#include <string.h>

#include <tidemark/lease.h>

#include "base/cleanup.h"
#include "base/interface/caller.h"
#include "base/text/timefmt.h"
#include "base/text/utf8.h"
#include "core/idempotency_row.h"
#include "core/value_digest.h"
#include "store/statement.h"
#include "tidemark_sql.h"

/* How often a row may change between looking and acting before we say "busy". */
enum { TRIES = 16 };

static tide_status fail_lost(const char *name, int64_t token, tide_error *err)
{
    return tide_fail(err, TIDE_E_LEASE_LOST, "token %" PRId64 " no longer holds the key %s", token,
                     name);
}

typedef struct token_call {
    const char *name;
    int64_t token;
    int64_t lock_us;    /* renew */
    const char *status; /* what it becomes; NULL: the lock is given back */
    tide_view response; /* without ptr: null */
} token_call;

static tide_status renew_lock(tide_tx *tx, void *arg, tide_error *err)
{
    const token_call *call = arg;
    int64_t now_us = 0;
    int64_t changed = 0;
    TIDE_TRY(tide_lease_now(tx, &now_us, err));
    TIDE_TRY(tide_tx_exec(tx, TIDE_SQL_IDEMPOTENCY_RENEW, &changed, err,
                          tide_bind_text("name", call->name), tide_bind_i64("token", call->token),
                          tide_bind_time("now", now_us),
                          tide_bind_time("lock_expires", now_us + call->lock_us)));
    return changed == 1 ? TIDE_OK : fail_lost(call->name, call->token, err);
}

tide_status tide_idempotency_renew(tide_store *store, const char *name, int64_t token,
                                   int64_t lock_us, tide_error *err)
{
    TIDE_NEED(store, err);
    token_call call = {.name = name, .token = token};
    TIDE_TRY(tide_idempotency_check_name(name, err));
    TIDE_TRY(tide_idempotency_lock_time(lock_us, &call.lock_us, err));
    return tide_store_write_by_id(store, renew_lock, &call, true, err);
}

static tide_status check_response(tide_view response, tide_error *err)
{
    if (response.ptr && response.len > TIDE_IDEMPOTENCY_RESPONSE_MAX)
        return tide_fail(err, TIDE_E_LIMIT, "an answer of %zu bytes; at most %d are kept",
                         response.len, TIDE_IDEMPOTENCY_RESPONSE_MAX);
    if (response.ptr && !tide_utf8_valid(response))
        return tide_fail(err, TIDE_E_INVALID, "an answer is UTF-8 text without NUL");
    return TIDE_OK;
}

/* As long as the key was to live from its making, the answer lives from its giving. */
static int64_t find_expiry(const tide_idempotency_row *row, int64_t now_us)
{
    const int64_t window_us = row->expires_at_us - row->created_at_us;
    if (row->created_at_us == 0 || window_us < 0 || window_us > TIDE_TIME_MAX_US - now_us)
        return row->expires_at_us;
    return now_us + window_us;
}

static tide_status store_answer(tide_tx *tx, const token_call *call,
                                const tide_idempotency_row *row, int64_t now_us, int64_t *changed,
                                tide_error *err)
{
    const int64_t digest =
        tide_value_digest(TIDE_IDEMPOTENCY_VALUE, tide_view_of(call->name), call->response);
    return tide_tx_exec(
        tx, TIDE_SQL_IDEMPOTENCY_FINISH, changed, err, tide_bind_text("name", call->name),
        TIDE_BIND_IF(call->response.ptr, tide_bind_i64("digest", digest)),
        tide_bind_i64("token", call->token), tide_bind_text("status", call->status),
        tide_bind_time("now", now_us),
        TIDE_BIND_IF(row->expires_at_us != 0, tide_bind_time("expires", find_expiry(row, now_us))),
        TIDE_BIND_IF(call->response.ptr, tide_bind_view("response", call->response)));
}

static tide_status give_back(tide_tx *tx, const token_call *call, int64_t *changed, tide_error *err)
{
    return tide_tx_exec(tx, TIDE_SQL_IDEMPOTENCY_GIVE_BACK, changed, err,
                        tide_bind_text("name", call->name), tide_bind_i64("token", call->token));
}

/* This token has ended its work already: was it the same? A caller that lost our answer asks again. */
static tide_status compare_ends(tide_tx *tx, const token_call *call,
                                const tide_idempotency_row *row, tide_error *err)
{
    TIDE_CLEANUP(tide_freep) char *answer = NULL;
    size_t answer_len = 0;
    bool has_response = false;
    const tide_status status = tide_idempotency_row_answer(tx, call->name, call->token, &answer,
                                                           &answer_len, &has_response, err);
    TIDE_TRY(status);
    if (status == TIDE_NONE)
        return fail_lost(call->name, call->token, err);
    const bool is_same =
        call->status && strcmp(call->status, row->is_failed ? "failed" : "completed") == 0 &&
        has_response == (call->response.ptr != NULL) &&
        (!has_response || tide_view_equal(call->response, tide_view_bytes(answer, answer_len)));
    if (!is_same)
        return tide_fail(err, TIDE_E_MISMATCH, "the key %s has another answer already", call->name);
    return TIDE_OK;
}

static tide_status end_key(tide_tx *tx, void *arg, tide_error *err)
{
    const token_call *call = arg;
    tide_idempotency_times times;
    tide_idempotency_row row = {.token = 0};
    TIDE_TRY(tide_idempotency_times_get(tx, &times, err));
    for (int i = 0; i < TRIES; i++) {
        const tide_status status = tide_idempotency_row_look(tx, call->name, &times, &row, err);
        TIDE_TRY(status);
        if (status == TIDE_NONE || row.token != call->token)
            return fail_lost(call->name, call->token, err);
        if (!row.is_pending)
            return row.is_ours ? compare_ends(tx, call, &row, err)
                               : fail_lost(call->name, call->token, err);
        if (!row.is_ours) /* given back by this token, or in the hands of plain SQL */
            return !call->status && !row.has_lock_via ? TIDE_OK
                                                      : fail_lost(call->name, call->token, err);
        int64_t changed = 0;
        if (call->status)
            TIDE_TRY(store_answer(tx, call, &row, times.now_us, &changed, err));
        else
            TIDE_TRY(give_back(tx, call, &changed, err));
        if (changed == 1)
            return TIDE_OK;
    }
    return tide_fail(err, TIDE_E_BUSY, "the key %s changes all the time", call->name);
}

static tide_status check_end(const token_call *call, tide_error *err)
{
    TIDE_TRY(tide_idempotency_check_name(call->name, err));
    return check_response(call->response, err);
}

tide_status tide_idempotency_complete_in(tide_tx *tx, const char *name, int64_t token,
                                         tide_view response, tide_error *err)
{
    TIDE_NEED(tx, err);
    token_call call = {.name = name, .token = token, .status = "completed", .response = response};
    TIDE_TRY(check_end(&call, err));
    return end_key(tx, &call, err);
}

tide_status tide_idempotency_complete(tide_store *store, const char *name, int64_t token,
                                      tide_view response, tide_error *err)
{
    TIDE_NEED(store, err);
    token_call call = {.name = name, .token = token, .status = "completed", .response = response};
    TIDE_TRY(check_end(&call, err));
    return tide_store_write_by_id(store, end_key, &call, true, err);
}

tide_status tide_idempotency_fail_in(tide_tx *tx, const char *name, int64_t token, bool is_final,
                                     tide_view response, tide_error *err)
{
    TIDE_NEED(tx, err);
    token_call call = {
        .name = name, .token = token, .status = is_final ? "failed" : NULL, .response = response};
    TIDE_TRY(check_end(&call, err));
    return end_key(tx, &call, err);
}

tide_status tide_idempotency_fail(tide_store *store, const char *name, int64_t token, bool is_final,
                                  tide_view response, tide_error *err)
{
    TIDE_NEED(store, err);
    token_call call = {
        .name = name, .token = token, .status = is_final ? "failed" : NULL, .response = response};
    TIDE_TRY(check_end(&call, err));
    return tide_store_write_by_id(store, end_key, &call, true, err);
}
