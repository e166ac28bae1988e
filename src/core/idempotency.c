#include <tidemark/idempotency.h>

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/interface/caller.h"
#include "base/interface/sized.h"
#include "base/text/utf8.h"
#include "core/idempotency_row.h"
#include "core/lease_clock.h"
#include "store/statement.h"
#include "tidemark_sql.h"

/* How often a row may change or vanish between looking and acting before we say "busy". */
enum { TRIES = 16 };

void tide_idempotency_state_done(tide_idempotency_state *state)
{
    if (!state)
        return;
    free(state->response);
    *state = (tide_idempotency_state){.token = 0};
}

/* ---- begin ---- */

typedef struct begin_call {
    const tide_idempotency_request *request;
    char name[TIDE_IDEMPOTENCY_KEY_MAX + 1];
    int64_t lock_us;
    int64_t expiry_us;
    tide_idempotency_times times;
    tide_idempotency_row row;
    bool is_unknown; /* the policy is FAIL and the lock is over */
    tide_idempotency_state state;
    /* The lock that an earlier run of this call took; token 0: none. Its commit may have succeeded. */
    tide_idempotency_state earlier;
} begin_call;

static tide_status check_word(const char *what, const char *word, size_t max, tide_error *err)
{
    if (word && (strlen(word) < 1 || strlen(word) > max))
        return tide_fail(err, TIDE_E_INVALID, "%s has 1 to %zu bytes, this one has %zu", what, max,
                         strlen(word));
    if (word && !tide_utf8_valid(tide_view_of(word)))
        return tide_fail(err, TIDE_E_INVALID, "%s is UTF-8 text", what);
    return TIDE_OK;
}

static tide_status check_request(begin_call *call, tide_error *err)
{
    const tide_idempotency_request *request = call->request;
    TIDE_TRY(tide_idempotency_name(call->name, request->scope, request->key, err));
    if (!request->request_hash)
        return tide_fail(err, TIDE_E_INVALID, "a request hash is missing");
    TIDE_TRY(
        check_word("a request hash", request->request_hash, TIDE_IDEMPOTENCY_HASH_SIZE - 1, err));
    TIDE_TRY(check_word("a holder", request->holder, TIDE_IDEMPOTENCY_HOLDER_MAX, err));
    TIDE_TRY(check_word("a task id", request->task_id, 128, err));
    TIDE_TRY(check_word("a work item id", request->work_item_id, 128, err));
    TIDE_TRY(tide_idempotency_lock_time(request->lock_us, &call->lock_us, err));
    call->expiry_us = request->expiry_us ? request->expiry_us : TIDE_IDEMPOTENCY_EXPIRY_US;
    if (call->expiry_us < 0 || call->expiry_us > TIDE_IDEMPOTENCY_EXPIRY_MAX_US)
        return tide_fail(err, TIDE_E_INVALID,
                         "a key expires after 1 us to 100 years, not %" PRId64 " us",
                         request->expiry_us);
    if (request->policy < TIDE_IDEMPOTENCY_RERUN || request->policy > TIDE_IDEMPOTENCY_FAIL)
        return tide_fail(err, TIDE_E_INVALID, "no such policy: %d", (int)request->policy);
    return TIDE_OK;
}

static tide_status check_parents(tide_tx *tx, const tide_idempotency_request *request,
                                 tide_error *err)
{
    if (!request->task_id && !request->work_item_id)
        return TIDE_OK;
    TIDE_QUERY_BY(query, tide_tx_one, tx, TIDE_SQL_IDEMPOTENCY_PARENTS, err,
                  tide_bind_text("task_id", request->task_id),
                  tide_bind_text("work_item_id", request->work_item_id));
    if (!tide_query_col_bool(query))
        return tide_fail(err, TIDE_E_NOT_FOUND, "there is no task %s", request->task_id);
    if (!tide_query_col_bool(query))
        return tide_fail(err, TIDE_E_NOT_FOUND, "there is no work item %s", request->work_item_id);
    return TIDE_OK;
}

/* A fresh row, or an expired one as good as fresh. *changed 0: another was faster. */
static tide_status make_row(tide_tx *tx, const begin_call *call, const tide_sql *sql,
                            int64_t *changed, tide_error *err)
{
    const tide_idempotency_request *request = call->request;
    TIDE_TRY(check_parents(tx, request, err));
    return tide_tx_exec(tx, sql, changed, err, tide_bind_text("name", call->name),
                        tide_bind_text("task_id", request->task_id),
                        tide_bind_text("work_item_id", request->work_item_id),
                        tide_bind_text("request_hash", request->request_hash),
                        tide_bind_text("takeover", tide_idempotency_policy_name(request->policy)),
                        tide_bind_time("now", call->times.now_us),
                        tide_bind_time("expires", call->times.now_us + call->expiry_us));
}

static tide_status take_row(tide_tx *tx, begin_call *call, tide_idempotency_outcome outcome,
                            tide_idempotency_policy policy, tide_error *err)
{
    const int64_t lock_expires_at_us = call->times.lock_now_us + call->lock_us;
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    const tide_status status =
        tide_tx_one(&query, tx, TIDE_SQL_IDEMPOTENCY_TAKE, err, tide_bind_text("name", call->name),
                    tide_bind_text("holder", call->request->holder),
                    tide_bind_text("work_item_id", call->request->work_item_id),
                    tide_bind_time("lock_expires", lock_expires_at_us),
                    tide_bind_i64("floor", tide_lease_token_floor(tx)));
    TIDE_TRY(status);
    assert(status == TIDE_OK && "the row is locked by this transaction");
    call->state.outcome = outcome;
    call->state.policy = policy;
    call->state.token = tide_query_col_i64(query);
    call->state.lock_expires_at_us = lock_expires_at_us;
    return TIDE_OK;
}

typedef enum verdict { ANSWERED, MAY_TAKE, MAY_TAKE_OVER, MAY_REVIVE } verdict;

/* The lock is the one that this call took when it ran before, and the answer to its commit was lost. */
static bool is_own_lock(const begin_call *call)
{
    const tide_idempotency_row *row = &call->row;
    const char *holder = call->request->holder ? call->request->holder : "";
    return call->earlier.token != 0 && row->token == call->earlier.token &&
           row->lock_expires_at_us == call->earlier.lock_expires_at_us &&
           strcmp(row->holder, holder) == 0;
}

/* The picture at the top of idempotency.h, from its last line to its first. */
static verdict judge(begin_call *call)
{
    const tide_idempotency_row *row = &call->row;
    tide_idempotency_state *state = &call->state;
    state->policy = row->policy;
    if (row->is_expired)
        return MAY_REVIVE;
    if (strcmp(row->request_hash, call->request->request_hash) != 0) {
        state->outcome = TIDE_IDEMPOTENCY_MISMATCH;
        return ANSWERED;
    }
    if (!row->is_pending) {
        state->outcome = TIDE_IDEMPOTENCY_REPLAY;
        state->completed_at_us = row->completed_at_us;
        state->is_failed = row->is_failed;
        return ANSWERED;
    }
    if (row->is_locked && is_own_lock(call)) {
        *state = call->earlier;
        return ANSWERED;
    }
    if (row->is_locked) {
        state->outcome = TIDE_IDEMPOTENCY_IN_PROGRESS;
        state->lock_expires_at_us = row->lock_expires_at_us;
        memcpy(state->holder, row->holder, sizeof state->holder);
        return ANSWERED;
    }
    if (!row->has_lock_via)
        return MAY_TAKE;
    call->is_unknown = row->policy == TIDE_IDEMPOTENCY_FAIL;
    return call->is_unknown ? ANSWERED : MAY_TAKE_OVER;
}

/* With the row locked and looked at since. */
static tide_status act(tide_tx *tx, begin_call *call, verdict found, tide_error *err)
{
    if (found == MAY_REVIVE) {
        TIDE_TRY(make_row(tx, call, TIDE_SQL_IDEMPOTENCY_REVIVE, NULL, err));
        return take_row(tx, call, TIDE_IDEMPOTENCY_NEW, call->request->policy, err);
    }
    TIDE_TRY(check_parents(tx, call->request, err));
    const bool is_takeover = found == MAY_TAKE_OVER;
    return take_row(tx, call, is_takeover ? TIDE_IDEMPOTENCY_TAKEOVER : TIDE_IDEMPOTENCY_NEW,
                    call->row.policy, err);
}

/* TIDE_NONE: the row changed meanwhile. */
static tide_status answer(tide_tx *tx, begin_call *call, tide_error *err)
{
    tide_idempotency_state *state = &call->state;
    if (call->is_unknown || state->outcome != TIDE_IDEMPOTENCY_REPLAY)
        return TIDE_OK;
    return tide_idempotency_row_answer(tx, call->name, call->row.token, &state->response,
                                       &state->response_len, &state->has_response, err);
}

/* One look at the key, and what follows from it. TIDE_NONE: look again. */
static tide_status try_once(tide_tx *tx, begin_call *call, bool *is_locked, tide_error *err)
{
    tide_status status = tide_idempotency_row_look(tx, call->name, &call->times, &call->row, err);
    TIDE_TRY(status);
    if (status == TIDE_NONE) {
        int64_t made = 0;
        TIDE_TRY(make_row(tx, call, TIDE_SQL_IDEMPOTENCY_MAKE, &made, err));
        return made == 1 ? take_row(tx, call, TIDE_IDEMPOTENCY_NEW, call->request->policy, err)
                         : TIDE_NONE;
    }
    const verdict found = judge(call);
    if (found == ANSWERED)
        return answer(tx, call, err);
    if (*is_locked)
        return act(tx, call, found, err);
    status = tide_idempotency_row_lock(tx, call->name, err);
    *is_locked = status == TIDE_OK;
    return status < TIDE_OK ? status : TIDE_NONE;
}

/* Who only gets an answer takes no lock. Who is to act locks the row and looks once more. */
static tide_status begin_key(tide_tx *tx, void *arg, tide_error *err)
{
    begin_call *call = arg;
    if (call->state.token != 0)
        call->earlier = call->state; /* who took a lock was given no response */
    tide_idempotency_state_done(&call->state);
    call->is_unknown = false;
    TIDE_TRY(tide_idempotency_times_get(tx, &call->times, err));
    bool is_locked = false;
    for (int i = 0; i < TRIES; i++) {
        const tide_status status = try_once(tx, call, &is_locked, err);
        if (status != TIDE_NONE)
            return status;
    }
    return tide_fail(err, TIDE_E_BUSY, "the key %s is made and deleted all the time", call->name);
}

static tide_status fail_unknown(const begin_call *call, tide_error *err)
{
    return tide_fail(err, TIDE_E_OUTCOME_UNKNOWN,
                     "somebody began %s and did not end it; its policy is to ask a person",
                     call->name);
}

static tide_status hand_over(begin_call *call, tide_status status, tide_idempotency_state *out,
                             tide_error *err)
{
    if (status == TIDE_OK && call->is_unknown)
        status = fail_unknown(call, err);
    if (status != TIDE_OK)
        tide_idempotency_state_done(&call->state);
    *out = call->state;
    return status;
}

tide_status tide_idempotency_begin(tide_store *store, const tide_idempotency_request *given,
                                   tide_idempotency_state *out, tide_error *err)
{
    TIDE_NEED(store && out, err);
    tide_idempotency_request request;
    begin_call call = {.request = &request};
    TIDE_TRY(TIDE_SIZED_COPY(&request, given, tide_idempotency_request, err));
    tide_idempotency_state_done(out);
    TIDE_TRY(check_request(&call, err));
    return hand_over(&call, tide_store_write_by_id(store, begin_key, &call, true, err), out, err);
}

tide_status tide_idempotency_begin_in(tide_tx *tx, const tide_idempotency_request *given,
                                      tide_idempotency_state *out, tide_error *err)
{
    TIDE_NEED(tx && out, err);
    tide_idempotency_request request;
    begin_call call = {.request = &request};
    TIDE_TRY(TIDE_SIZED_COPY(&request, given, tide_idempotency_request, err));
    tide_idempotency_state_done(out);
    TIDE_TRY(check_request(&call, err));
    return hand_over(&call, begin_key(tx, &call, err), out, err);
}
