/* fail.c - the other ends: failed, cancelled, deleted. */
#include <tidemark/work.h>

#include <string.h>

#include "base/cleanup.h"
#include "base/interface/caller.h"
#include "base/interface/sized.h"
#include "base/text/utf8.h"
#include "core/lease_clock.h"
#include "store/statement.h"
#include "tidemark_sql.h"
#include "work/lease.h"
#include "work/policy/policy.h"

/* ---- fail ---- */

typedef struct fail_request {
    const char *id;
    int64_t token;
    const char *error;
    bool is_final;
    bool is_timeout;
    int64_t retry_after_us;
    tide_work_failed out;
} fail_request;

static const char *kind_of_end(const fail_request *request, const tide_hold *hold)
{
    if (request->is_final)
        return "error";
    return hold->crash_count >= TIDE_WORK_CRASH_LIMIT ? "quarantined" : "exhausted";
}

/* A caller that lost our answer asks again: this token has failed already, with the same words. TIDE_NONE: it has not. */
static tide_status find_failed(tide_tx *tx, fail_request *request, int64_t now_us, tide_error *err)
{
    TIDE_QUERY_ONE(query, tx, TIDE_SQL_WORK_FAILED, err, tide_bind_text("id", request->id),
                   tide_bind_i64("token", request->token), tide_bind_text("error", request->error));
    const bool has_ended = tide_query_col_bool(query);
    const bool was_final = tide_query_col_bool(query) && has_ended;
    if (was_final != request->is_final)
        return TIDE_NONE;
    const int64_t run_after_us =
        tide_query_col_is_null(query) ? now_us : tide_query_col_time(query);
    request->out = (tide_work_failed){
        .is_final = has_ended, .retry_after_us = run_after_us > now_us ? run_after_us - now_us : 0};
    return TIDE_OK;
}

static tide_status fail_item(tide_tx *tx, void *arg, tide_error *err)
{
    fail_request *request = arg;
    TIDE_CLEANUP(tide_arena_done) tide_arena arena = tide_arena_of(TIDE_HOLD_BYTES_MAX);
    tide_hold hold = {0};
    int64_t now_us = 0;
    TIDE_TRY(tide_tx_now(tx, &now_us, err));
    const tide_status held = tide_item_hold(tx, request->id, request->token, &arena, &hold, err);
    if (held == TIDE_E_LEASE_LOST) {
        const tide_status failed = find_failed(tx, request, now_us, err);
        return failed == TIDE_NONE ? held : failed;
    }
    TIDE_TRY(held);
    tide_work_policy policy;
    TIDE_TRY(tide_policy_get(tx, hold.work_type, &policy, err));
    const unsigned why =
        request->is_timeout ? TIDE_WORK_NO_RETRY_TIMEOUT : TIDE_WORK_NO_RETRY_ERROR;
    const bool is_over =
        request->is_final || (policy.no_retry & why) != 0 || hold.retry_count >= hold.max_retries;
    int64_t delay_us = request->retry_after_us;
    if (delay_us < 0)
        delay_us = tide_policy_backoff_us(&policy, tx, hold.retry_count);
    request->out =
        (tide_work_failed){.is_final = is_over, .retry_after_us = is_over ? 0 : delay_us};
    TIDE_QUERY(query, tx, TIDE_SQL_WORK_FAIL, err, tide_bind_text("id", request->id),
               tide_bind_i64("token", request->token),
               tide_bind_text("status", is_over ? "failed" : "pending"),
               tide_bind_text("failure_kind", is_over ? kind_of_end(request, &hold) : NULL),
               tide_bind_i64("retry_count", hold.retry_count + !is_over),
               tide_bind_text("error", request->error), tide_bind_time("now", now_us));
    if (is_over)
        tide_query_bind_time(query, "completed_at", now_us);
    else if (delay_us > 0)
        tide_query_bind_time(query, "run_after", now_us + delay_us);
    int64_t changed = 0;
    TIDE_TRY(tide_query_run(query, &changed, err));
    if (changed != 1)
        return tide_item_fail_lost(tx, request->id, request->token, err);
    TIDE_TRY(tide_item_free_keys(tx, &request->id, 1, err));
    tide_item_wakes wakes = {.count = 0};
    tide_item_wake(&wakes, hold.work_type); /* a slot is free, whether it runs again or not */
    tide_item_notify(&wakes, tx);
    if (!is_over && delay_us > 0)
        tide_item_notify_due(tx, delay_us);
    return TIDE_OK;
}

/* What a program said about its end may be long, and not even text. */
static tide_status clean_text(tide_buffer *out, const char *text, const char *otherwise, size_t max,
                              tide_error *err)
{
    size_t replaced = 0;
    const tide_view words = tide_view_of(text && *text ? text : otherwise);
    tide_buffer_init(out, 4 * (size_t)TIDE_WORK_ERROR_MAX);
    const tide_status status = tide_utf8_clean(
        out, tide_view_bytes(words.ptr, words.len < max ? words.len : max), &replaced);
    TIDE_TRY(tide_buffer_check(status, err));
    tide_buffer_truncate(out, tide_utf8_cut(tide_buffer_view(out), max).len);
    return TIDE_OK;
}

tide_status tide_work_fail(tide_store *store, const tide_work_failure *given, tide_work_failed *out,
                           tide_error *err)
{
    TIDE_NEED(store, err);
    tide_work_failure failure;
    TIDE_TRY(TIDE_SIZED_COPY(&failure, given, tide_work_failure, err));
    TIDE_TRY(tide_item_check_id("a work item's id", failure.work_item_id, err));
    TIDE_TRY(tide_item_check_range("retry_after", failure.retry_after_us, INT64_MIN,
                                   TIDE_ITEM_DELAY_MAX_US, err));
    TIDE_CLEANUP(tide_buffer_done) tide_buffer text;
    TIDE_TRY(
        clean_text(&text, failure.error, "The worker gave no reason", TIDE_WORK_ERROR_MAX, err));
    fail_request request = {.id = failure.work_item_id,
                            .token = failure.token,
                            .error = tide_buffer_text(&text),
                            .is_final = failure.is_final,
                            .is_timeout = failure.is_timeout,
                            .retry_after_us = failure.retry_after_us};
    TIDE_TRY(tide_store_write(store, fail_item, &request, err));
    if (out)
        *out = request.out;
    return TIDE_OK;
}

/* ---- cancel ---- */

tide_status tide_work_cancel(tide_store *store, const char *work_item_id, const char *reason,
                             tide_error *err)
{
    TIDE_TRY(tide_item_check_id("a work item's id", work_item_id, err));
    const tide_work_change change = {TIDE_WORK_CHANGE_INIT, .work_item_id = work_item_id,
                                     .reason = reason};
    return tide_work_cancel_many(store, &change, NULL, NULL, err);
}

/* ---- delete ---- */

typedef struct delete_request {
    const char *id;
    bool is_forced;
} delete_request;

static tide_status check_dependents(tide_tx *tx, const char *id, tide_error *err)
{
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    TIDE_OK_IF_NONE(
        tide_tx_one(&query, tx, TIDE_SQL_WORK_LIVE_DEPENDENT, err, tide_bind_text("id", id)));
    const tide_view dependent = tide_query_col_text(query);
    return tide_fail(err, TIDE_E_CONFLICT,
                     "work item %.*s depends on %s: cancel or delete it first", (int)dependent.len,
                     dependent.ptr, id);
}

static tide_status delete_item(tide_tx *tx, void *arg, tide_error *err)
{
    const delete_request *request = arg;
    TIDE_CLEANUP(tide_query_endp) tide_query *lock = NULL;
    const tide_status status =
        tide_tx_one(&lock, tx, TIDE_SQL_WORK_LOCK, err, tide_bind_text("id", request->id));
    TIDE_TRY(status);
    if (status == TIDE_NONE)
        return tide_item_fail_missing(request->id, err);
    const bool is_held = tide_view_equal(tide_query_col_text(lock), tide_view_of("in_progress"));
    if (is_held && !request->is_forced)
        return tide_fail(err, TIDE_E_CONFLICT,
                         "work item %s is in progress: cancel it first, or force", request->id);
    TIDE_TRY(check_dependents(tx, request->id, err));
    return tide_tx_exec(tx, TIDE_SQL_WORK_DELETE, NULL, err, tide_bind_text("id", request->id));
}

tide_status tide_work_delete(tide_store *store, const char *work_item_id, bool is_forced,
                             tide_error *err)
{
    TIDE_NEED(store, err);
    TIDE_TRY(tide_item_check_id("a work item's id", work_item_id, err));
    delete_request request = {.id = work_item_id, .is_forced = is_forced};
    return tide_store_write(store, delete_item, &request, err);
}
