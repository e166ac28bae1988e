/* explain.c - "why is my item not running?": every reason there is, in words that say what to do. */
#include <tidemark/work.h>

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/interface/caller.h"
#include "base/text/timefmt.h"
#include "store/statement.h"
#include "tidemark_sql.h"
#include "work/item.h"
#include "work/limit/limit.h"
#include "work/policy/policy.h"

enum {
    AHEAD_MAX = 10000, /* items counted that come first */
    NAMED_MAX = 5,     /* dependencies named */
    REASONS_MAX = 8,
    WORDS_MAX = 1024,
};

typedef struct reason {
    const char *code;
    char words[WORDS_MAX];
} reason;

typedef struct explanation {
    const char *id;
    tide_arena arena;
    /* the row */
    const char *status, *work_type, *holder, *failure_kind, *error, *task_id, *task_status;
    const char *pause_reason;
    int64_t claim_key, expires_at_us, run_after_us, waits_for, retry_count, max_retries;
    bool is_paused;
    /* around it */
    tide_item_clock clock;
    int64_t ahead;
    reason reasons[REASONS_MAX];
    int count;
} explanation;

__attribute__((format(printf, 3, 4))) static void say(explanation *e, const char *code,
                                                      const char *format, ...)
{
    if (e->count == REASONS_MAX)
        return;
    reason *r = &e->reasons[e->count++];
    r->code = code;
    va_list args;
    va_start(args, format);
    (void)vsnprintf(r->words, sizeof r->words, format, args);
    va_end(args);
}

static bool is(const char *a, const char *b)
{
    return a && strcmp(a, b) == 0;
}

static double seconds(int64_t us)
{
    return (double)us / 1e6;
}

static tide_status read_row(tide_tx *tx, explanation *e, tide_error *err)
{
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    const tide_status status =
        tide_tx_one(&query, tx, TIDE_SQL_WORK_EXPLAIN, err, tide_bind_text("id", e->id));
    if (status != TIDE_OK)
        return status;
    tide_row row = {.query = query, .arena = &e->arena};
    e->status = tide_row_text(&row);
    e->work_type = tide_row_text(&row);
    e->claim_key = tide_query_col_i64(query);
    e->holder = tide_row_text(&row);
    e->expires_at_us = tide_row_time(&row);
    e->run_after_us = tide_row_time(&row);
    e->waits_for = tide_query_col_i64(query);
    e->failure_kind = tide_row_text(&row);
    e->error = tide_row_text(&row);
    e->retry_count = tide_query_col_i64(query);
    e->max_retries = tide_query_col_i64(query);
    e->task_id = tide_row_text(&row);
    e->task_status = tide_row_text(&row);
    e->is_paused = tide_query_col_bool(query);
    e->pause_reason = tide_row_text(&row);
    return tide_row_end(&row, err);
}

static void explain_end(explanation *e)
{
    if (is(e->status, "completed"))
        say(e, "ended", "It is completed.");
    else
        say(e, "ended", "It has failed (%s): %.600s. 'work retry' makes a new one like it.",
            e->failure_kind ? e->failure_kind : "error", e->error ? e->error : "no reason given");
}

static void explain_lease(explanation *e)
{
    const char *holder = e->holder ? e->holder : "somebody";
    if (is(e->status, "expired"))
        say(e, "lease_over", "Its lease was marked as expired; the next sweep takes it up.");
    else if (e->expires_at_us <= e->clock.lease_now_us)
        say(e, "lease_over",
            "The lease of %s ran out %.1f s ago; the next sweep takes it up ('work sweep').",
            holder, seconds(e->clock.lease_now_us - e->expires_at_us));
    else
        say(e, "running", "%s works on it (attempt %" PRId64 "); the lease lasts %.1f s more.",
            holder, e->retry_count + 1, seconds(e->expires_at_us - e->clock.lease_now_us));
}

static tide_status explain_waiting(tide_tx *tx, explanation *e, tide_error *err)
{
    char named[512] = "";
    size_t len = 0;
    bool is_any_failed = false;
    TIDE_QUERY(query, tx, TIDE_SQL_WORK_WAITS_ON, err, tide_bind_text("id", e->id),
               tide_bind_i64("limit", NAMED_MAX));
    TIDE_EACH(tide_query_step(query, err)) {
        const tide_view id = tide_query_col_text(query);
        const tide_view state = tide_query_col_text(query);
        is_any_failed = is_any_failed || tide_view_equal(state, tide_view_of("failed"));
        const int put =
            snprintf(named + len, sizeof named - len, "%s%.*s (%.*s)", len ? ", " : "", (int)id.len,
                     id.ptr, state.len ? (int)state.len : 4, state.len ? state.ptr : "gone");
        if (put < 0 || (size_t)put >= sizeof named - len)
            break;
        len += (size_t)put;
    }
    if (len == 0)
        say(e, "waiting",
            "It is marked as waiting for %" PRId64 " items but depends on none: plain SQL has set "
            "waits_for. Set it to 0, or cancel the item.",
            e->waits_for);
    else
        say(e, "waiting", "It waits for %" PRId64 " items to complete: %s.%s", e->waits_for, named,
            is_any_failed ? " One of them has failed: the next sweep ends this one, too." : "");
    return TIDE_OK;
}

static tide_status count_ahead(tide_tx *tx, explanation *e, tide_error *err)
{
    return tide_tx_number(
        &e->ahead, tx, TIDE_SQL_WORK_AHEAD, err, tide_bind_text("type", e->work_type),
        tide_bind_i64("claim_key", e->claim_key), tide_bind_i64("limit", AHEAD_MAX));
}

static tide_status explain_limit(tide_tx *tx, explanation *e, tide_error *err)
{
    tide_limit_state limit;
    TIDE_OK_IF_NONE(tide_limit_explain(&limit, tx, e->id, err));
    if (limit.running > 0 && limit.used >= limit.running)
        say(e, "limited",
            "%" PRId64 " items of %s are in progress, and its limit is %" PRId64
            ": it can run when one of them ends. 'work limit %s' shows and changes the limit.",
            limit.used, e->work_type, limit.running, e->work_type);
    else if (limit.running_per_key > 0 && limit.key[0] &&
             limit.used_of_key >= limit.running_per_key)
        say(e, "limited",
            "%" PRId64 " items of %s with the limit key %.200s are in progress, and the limit per "
            "key is %" PRId64 ": it can run when one of them ends. 'work limit %s' shows and "
            "changes the limit.",
            limit.used_of_key, e->work_type, limit.key, limit.running_per_key, e->work_type);
    return TIDE_OK;
}

static tide_status explain_pending(tide_tx *tx, explanation *e, tide_error *err)
{
    if (!is(e->task_status, "pending") && !is(e->task_status, "running"))
        say(e, "task_ended", "Its task %s has ended (%s): nothing of it is claimed any more.",
            e->task_id, e->task_status ? e->task_status : "gone");
    if (e->is_paused)
        say(e, "paused", "The type %s is paused%s%.400s. 'work resume %s' lets it go on.",
            e->work_type, e->pause_reason ? ": " : "", e->pause_reason ? e->pause_reason : "",
            e->work_type);
    if (e->run_after_us > e->clock.now_us) {
        char at[TIDE_TIME_TEXT_SIZE];
        TIDE_IGNORE(tide_time_format(e->run_after_us, at));
        say(e, "delayed", "It may not run before %s UTC, in %.1f s%s%.400s.", at,
            seconds(e->run_after_us - e->clock.now_us), e->retry_count > 0 ? "; last error: " : "",
            e->retry_count > 0 && e->error ? e->error : "");
    }
    if (e->waits_for > 0)
        TIDE_TRY(explain_waiting(tx, e, err));
    TIDE_TRY(explain_limit(tx, e, err));
    if (e->count > 0)
        return TIDE_OK;
    TIDE_TRY(count_ahead(tx, e, err));
    if (e->ahead > 0)
        say(e, "behind",
            "It can be claimed; %s%" PRId64 " items of its type come first. More "
            "workers for %s, or a higher priority, would bring it forward.",
            e->ahead == AHEAD_MAX ? "at least " : "", e->ahead, e->work_type);
    else
        say(e, "ready", "It is the next of its type: a worker that claims %s gets it.",
            e->work_type);
    return TIDE_OK;
}

static void explain_policy(explanation *e, const tide_work_policy *policy)
{
    char not_after[TIDE_WORK_NO_RETRY_SIZE];
    char retries[32] = "";
    char waits[96] = "";
    tide_work_no_retry_text(not_after, policy->no_retry);
    if (policy->max_retries >= 0)
        (void)snprintf(retries, sizeof retries, " %" PRId64 " retries;", policy->max_retries);
    if (policy->backoff_us > 0)
        (void)snprintf(waits, sizeof waits, " waits of %.3g s to %.3g s;",
                       seconds(policy->backoff_us),
                       seconds(policy->backoff_max_us > 0 ? policy->backoff_max_us
                                                          : TIDE_WORK_BACKOFF_MAX_US));
    say(e, "policy", "The retry policy of %s:%s%s%s%s 'work policy %s' shows and changes it.",
        e->work_type, retries, waits, not_after[0] ? " none after " : "", not_after, e->work_type);
}

static tide_status add_policy(tide_tx *tx, explanation *e, tide_error *err)
{
    tide_work_policy policy;
    TIDE_TRY(tide_policy_get(tx, e->work_type, &policy, err));
    if (policy.max_retries >= 0 || policy.backoff_us > 0 || policy.no_retry != 0)
        explain_policy(e, &policy);
    return TIDE_OK;
}

static tide_status explain_item(tide_tx *tx, void *arg, tide_error *err)
{
    explanation *e = arg;
    e->count = 0;
    tide_arena_reset(&e->arena);
    const tide_status status = read_row(tx, e, err);
    if (status != TIDE_OK)
        return status;
    TIDE_TRY(tide_item_clock_get(tx, &e->clock, err));
    if (is(e->status, "completed") || is(e->status, "failed"))
        explain_end(e);
    else if (is(e->status, "pending"))
        TIDE_TRY(explain_pending(tx, e, err));
    else
        explain_lease(e);
    return add_policy(tx, e, err);
}

tide_status tide_work_explain(tide_store *store, const char *work_item_id, tide_work_reason_fn *fn,
                              void *arg, tide_error *err)
{
    TIDE_NEED(store, err);
    TIDE_TRY(tide_item_check_id("a work item's id", work_item_id, err));
    TIDE_CLEANUP(tide_freep) TIDE_NEW(explanation, e, err);
    e->id = work_item_id;
    tide_arena_init(&e->arena, TIDE_ITEM_PAGE_MAX);
    const tide_status status = tide_store_read(store, explain_item, e, err);
    for (int i = 0; fn && i < e->count && status == TIDE_OK; i++)
        fn(arg, e->reasons[i].code, e->reasons[i].words);
    tide_arena_done(&e->arena);
    return status;
}
