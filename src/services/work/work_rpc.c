/* work_rpc.c - the methods of WorkService that change items: add, claim, and everything under a lease. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "services/api/messages.h"
#include "services/api/rpc.h"
#include "services/work/attempt_times.h"

#define SERVICE "/tidemark.work.v1.WorkService"

enum { CLAIM_WAIT_MAX_MS = 60000 };

static tide_status check_count(size_t count, const char *what, tide_error *err)
{
    if (count < 1 || count > TIDE_WORK_BATCH_MAX)
        return tide_fail(err, TIDE_E_INVALID, "%zu %s, want 1 to %d", count, what,
                         TIDE_WORK_BATCH_MAX);
    return TIDE_OK;
}

static tide_status need_lease(const WORK(Lease) * lease, tide_error *err)
{
    return lease ? TIDE_OK
                 : tide_fail(err, TIDE_E_INVALID, "lease is missing: work_item_id and lease_token");
}

/* ---- adding ---- */

static tide_status read_item(tide_work_spec *out, const WORK(NewItem) * given, tide_error *err)
{
    const bool has_retries = given->_max_retries_case != 0;
    if (has_retries && given->max_retries < 0)
        return tide_fail(err, TIDE_E_INVALID, "max_retries is below 0");
    if (given->n_depends_on > TIDE_WORK_BATCH_MAX)
        return tide_fail(err, TIDE_E_INVALID, "%zu dependencies, at most %d", given->n_depends_on,
                         TIDE_WORK_BATCH_MAX);
    *out = (tide_work_spec){TIDE_WORK_SPEC_INIT,
                            .work_item_id = tide_rpc_text(given->work_item_id),
                            .task_id = tide_rpc_text(given->task_id),
                            .work_type = given->work_type,
                            .input = tide_rpc_text(given->input_data),
                            .priority = given->priority,
                            .max_retries = has_retries ? given->max_retries : -1,
                            .run_after_us = given->run_after,
                            .unique_key = tide_rpc_text(given->unique_key),
                            .title = tide_rpc_text(given->title),
                            .limit_key = tide_rpc_text(given->limit_key),
                            .depends_on = (const char *const *)given->depends_on,
                            .depends_on_count = (int)given->n_depends_on};
    TIDE_TRY(tide_rpc_duration(&out->delay_us, given->delay_ms, "delay_ms", err));
    return tide_rpc_duration(&out->timeout_us, given->timeout_ms, "timeout_ms", err);
}

static tide_status read_items(tide_work_spec **out, WORK(NewItem) * *given, size_t count,
                              tide_error *err)
{
    *out = calloc(count, sizeof **out);
    if (!*out)
        return tide_no_memory(err);
    for (size_t i = 0; i < count; i++)
        TIDE_TRY(read_item(&(*out)[i], given[i], err));
    return TIDE_OK;
}

static void describe_added(WORK(AddedItem) * row, const tide_work_added *added)
{
    *row = (WORK(AddedItem))WORK_INIT(ADDED_ITEM);
    row->work_item_id = tide_rpc_borrow(added->work_item_id);
    row->is_existing = added->is_existing;
}

TIDE_RPC(add_items, WORK(AddItemsRequest))
{
    TIDE_TRY(check_count(request->n_items, "items", err));
    TIDE_CLEANUP(tide_freep) tide_work_spec *items = NULL;
    TIDE_TRY(read_items(&items, request->items, request->n_items, err));
    tide_work_added *added = calloc(request->n_items, sizeof *added);
    if (!added)
        return tide_no_memory(err);
    tide_status status = tide_work_add(rpc->store, items, (int)request->n_items, added, err);
    for (size_t i = 0; i < request->n_items && status >= TIDE_OK; i++) {
        WORK(AddedItem) row;
        describe_added(&row, &added[i]);
        status = tide_rpc_put(rpc, 1, &row.base, err);
    }
    free(added);
    return status;
}

/* ---- claiming ---- */

/* A claim that may wait: the request stays with the call that is held. */
typedef struct waiting_claim {
    const WORK(ClaimRequest) * request;
    const tide_rpc_context *context;
    int64_t lease_us;
} waiting_claim;

static tide_status put_claimed(tide_rpc *rpc, const tide_work_claimed *item,
                               const tide_identity *identity, tide_error *err)
{
    WORK(ClaimedItem) row;
    tide_rpc_claimed(&row, item, identity);
    return tide_rpc_put(rpc, 1, &row.base, err);
}

static tide_status put_identity(tide_rpc *rpc, const tide_identity *identity, tide_error *err)
{
    WORK(ClaimResponse) response = WORK_INIT(CLAIM_RESPONSE);
    TIDE_RPC_PUT_IDENTITY(&response, identity);
    return tide_rpc_respond(rpc, &response.base, err);
}

/* An answer that does not fit, or has no memory, must not swallow what was claimed. */
static void give_back(tide_store *store, const tide_work_claims *claims)
{
    tide_error ignored;
    for (int i = 0; i < claims->count; i++)
        TIDE_IGNORE(tide_work_release(store, claims->items[i].work_item_id,
                                      claims->items[i].lease_token, 0, &ignored));
}

static tide_work_claim_request read_claim(const waiting_claim *w)
{
    const WORK(ClaimRequest) *request = w->request;
    return (tide_work_claim_request){TIDE_WORK_CLAIM_REQUEST_INIT,
                                     .worker = request->worker,
                                     .types = (const char *const *)request->work_types,
                                     .type_count = (int)request->n_work_types,
                                     .task_id = tide_rpc_text(request->task_id),
                                     .limit = request->limit,
                                     .lease_us = w->lease_us};
}

static tide_attempt_times *times_of(const tide_rpc *rpc)
{
    return rpc->context ? rpc->context->times : NULL;
}

static tide_status put_claims(tide_rpc *rpc, const tide_work_claims *claims, tide_error *err)
{
    tide_status status = TIDE_OK;
    for (int i = 0; i < claims->count && status >= TIDE_OK; i++)
        status = put_claimed(rpc, &claims->items[i], &claims->identity, err);
    if (status >= TIDE_OK)
        status = put_identity(rpc, &claims->identity, err);
    if (status < TIDE_OK)
        give_back(rpc->store, claims);
    else
        tide_attempt_times_claimed(times_of(rpc), claims);
    return status;
}

/* TIDE_NONE: there is nothing; *next_due_us says when a delayed item is due. */
static tide_status claim_once(tide_rpc *rpc, const waiting_claim *w, int64_t *next_due_us,
                              tide_error *err)
{
    const tide_work_claim_request claim = read_claim(w);
    TIDE_CLEANUP(tide_work_claims_done) tide_work_claims claims = {0};
    const tide_status found = tide_work_claim(rpc->store, &claim, &claims, err);
    *next_due_us = claims.next_due_us;
    return found == TIDE_OK ? put_claims(rpc, &claims, err) : found;
}

static tide_status answer_nothing(tide_rpc *rpc, int64_t next_due_us, tide_error *err)
{
    WORK(ClaimResponse) response = WORK_INIT(CLAIM_RESPONSE);
    response.next_due_ms = next_due_us < 0 ? -1 : (next_due_us + 999) / 1000;
    tide_identity identity;
    tide_store_identity(rpc->store, &identity);
    TIDE_RPC_PUT_IDENTITY(&response, &identity);
    return tide_rpc_respond(rpc, &response.base, err);
}

static int64_t step_claim(tide_call *call, tide_store *store, void *arg, bool is_over)
{
    if (tide_call_is_cancelled(call)) {
        tide_call_end(call, TIDE_E_INTERRUPTED, NULL);
        return -1;
    }
    tide_error err = {0};
    const waiting_claim *w = arg;
    tide_rpc rpc = {.call = call, .store = store, .context = w->context};
    tide_buffer_init(&rpc.answer, TIDE_RPC_RESPONSE_MAX);
    int64_t next_due_us = -1;
    tide_status status = claim_once(&rpc, w, &next_due_us, &err);
    if (status == TIDE_NONE && is_over)
        status = answer_nothing(&rpc, next_due_us, &err);
    int64_t again_us = -1;
    if (status == TIDE_NONE)
        again_us = next_due_us < 0 ? INT64_MAX : next_due_us;
    else if (status >= TIDE_OK)
        tide_call_respond(call, tide_buffer_view(&rpc.answer));
    else
        tide_call_end(call, status, &err);
    tide_buffer_done(&rpc.answer);
    return again_us;
}

static tide_status park_claim(tide_rpc *rpc, const waiting_claim *w, tide_error *err)
{
    waiting_claim *kept = malloc(sizeof *kept);
    if (!kept)
        return tide_no_memory(err);
    *kept = *w;
    kept->context = rpc->context;
    int64_t wait_us = w->request->wait_ms * 1000;
    TIDE_TRY(tide_long_poll_park(rpc->context->work, rpc->call, step_claim, kept, wait_us, err));
    rpc->is_parked = true;
    return TIDE_OK;
}

static tide_status check_claim(waiting_claim *w, const WORK(ClaimRequest) * request,
                               tide_error *err)
{
    *w = (waiting_claim){.request = request};
    if (request->n_work_types > TIDE_WORK_TYPES_MAX)
        return tide_fail(err, TIDE_E_INVALID, "%zu types, at most %d", request->n_work_types,
                         TIDE_WORK_TYPES_MAX);
    if (request->wait_ms < 0 || request->wait_ms > CLAIM_WAIT_MAX_MS)
        return tide_fail(err, TIDE_E_INVALID, "wait_ms is %lld, want 0 to %d",
                         (long long)request->wait_ms, CLAIM_WAIT_MAX_MS);
    return tide_rpc_duration(&w->lease_us, request->lease_ms, "lease_ms", err);
}

/* Nothing was found: wait for it, if that is wanted. */
static tide_status wait_for_claim(tide_rpc *rpc, const waiting_claim *w, int64_t next_due_us,
                                  tide_error *err)
{
    return w->request->wait_ms > 0 && rpc->context->work ? park_claim(rpc, w, err)
                                                         : answer_nothing(rpc, next_due_us, err);
}

static tide_status claim(tide_rpc *rpc, const ProtobufCMessage *message, tide_error *err)
{
    waiting_claim w;
    TIDE_TRY(check_claim(&w, (const WORK(ClaimRequest) *)message, err));
    int64_t next_due_us = -1;
    const tide_status status = claim_once(rpc, &w, &next_due_us, err);
    return status == TIDE_NONE ? wait_for_claim(rpc, &w, next_due_us, err) : status;
}
TIDE_RPC_RUN(claim)

/* ---- under leases ---- */

static void count_attempts(const tide_rpc *rpc, const char *outcome, int64_t count)
{
    if (rpc->context->refusals && count > 0)
        tide_series_add(tide_metrics_series(rpc->context->refusals->metrics,
                                            TIDE_METRIC_WORK_ATTEMPTS, outcome),
                        count);
}

static void count_finished(const tide_rpc *rpc, const tide_work_result *results, size_t count)
{
    int64_t finished = 0;
    for (size_t i = 0; i < count; i++) {
        finished += !results[i].is_lost;
        if (!results[i].is_lost)
            tide_attempt_times_ended(times_of(rpc), results[i].work_item_id, results[i].token);
    }
    count_attempts(rpc, "completed", finished);
}

static tide_status put_lost(tide_rpc *rpc, uint32_t field, const char *work_item_id, int64_t token,
                            tide_error *err)
{
    WORK(Lease) row = WORK_INIT(LEASE);
    row.work_item_id = tide_rpc_borrow(work_item_id);
    row.lease_token = token;
    tide_error refusal;
    (void)tide_fail(&refusal, TIDE_E_LEASE_LOST, "token %" PRId64 " does not hold work item %s",
                    token, work_item_id);
    tide_refusal_log_write(rpc->context->refusals, tide_call_path(rpc->call), refusal.text);
    return tide_rpc_put(rpc, field, &row.base, err);
}

static bool is_answer(tide_status status)
{
    return status == TIDE_OK || status == TIDE_E_PARTIAL || status == TIDE_E_LEASE_LOST;
}

static tide_status renew_refs(tide_rpc *rpc, const WORK(RenewRequest) * request,
                              tide_work_ref *refs, tide_error *err)
{
    int64_t lease_us = 0;
    TIDE_TRY(tide_rpc_duration(&lease_us, request->lease_ms, "lease_ms", err));
    for (size_t i = 0; i < request->n_leases; i++)
        refs[i] =
            (tide_work_ref){TIDE_WORK_REF_INIT, .work_item_id = request->leases[i]->work_item_id,
                            .token = request->leases[i]->lease_token};
    const tide_status status =
        tide_work_renew(rpc->store, refs, (int)request->n_leases, lease_us, err);
    if (!is_answer(status))
        return status;
    for (size_t i = 0; i < request->n_leases; i++)
        if (refs[i].is_lost)
            TIDE_TRY(put_lost(rpc, 1, refs[i].work_item_id, refs[i].token, err));
    return TIDE_OK;
}

TIDE_RPC(renew, WORK(RenewRequest))
{
    TIDE_TRY(check_count(request->n_leases, "leases", err));
    tide_work_ref *refs = calloc(request->n_leases, sizeof *refs);
    if (!refs)
        return tide_no_memory(err);
    const tide_status status = renew_refs(rpc, request, refs, err);
    free(refs);
    return status;
}

TIDE_RPC(checkpoint, WORK(CheckpointItemRequest))
{
    TIDE_TRY(need_lease(request->lease, err));
    if (!request->checkpoint)
        return tide_fail(err, TIDE_E_INVALID, "checkpoint is missing");
    tide_checkpoint_new given;
    tide_checkpoint_numbers numbers;
    tide_rpc_new_checkpoint(&given, request->checkpoint);
    TIDE_TRY(tide_work_checkpoint(rpc->store, request->lease->work_item_id,
                                  request->lease->lease_token, &given, &numbers, err));
    JOURNAL(Numbers) response;
    tide_rpc_numbers(&response, &numbers);
    return tide_rpc_respond(rpc, &response.base, err);
}

TIDE_RPC(progress, WORK(ProgressRequest))
{
    TIDE_TRY(need_lease(request->lease, err));
    return tide_work_progress(rpc->store, request->lease->work_item_id, request->lease->lease_token,
                              request->progress, err);
}

TIDE_RPC(finish, WORK(FinishRequest))
{
    TIDE_TRY(need_lease(request->lease, err));
    if (request->n_follow_ups > TIDE_WORK_BATCH_MAX)
        return tide_fail(err, TIDE_E_INVALID, "%zu follow-ups, at most %d", request->n_follow_ups,
                         TIDE_WORK_BATCH_MAX);
    tide_checkpoint_new given;
    if (request->checkpoint)
        tide_rpc_new_checkpoint(&given, request->checkpoint);
    TIDE_CLEANUP(tide_freep) tide_work_spec *follow_ups = NULL;
    if (request->n_follow_ups > 0)
        TIDE_TRY(read_items(&follow_ups, request->follow_ups, request->n_follow_ups, err));
    tide_work_result result = {TIDE_WORK_RESULT_INIT,
                               .work_item_id = request->lease->work_item_id,
                               .token = request->lease->lease_token,
                               .output = tide_rpc_text(request->output_data),
                               .checkpoint = request->checkpoint ? &given : NULL,
                               .idempotency_name = tide_rpc_text(request->idempotency_key),
                               .idempotency_token = request->idempotency_token,
                               .response = tide_view_of(tide_rpc_text(request->response)),
                               .follow_ups = follow_ups,
                               .follow_up_count = (int)request->n_follow_ups};
    TIDE_TRY(tide_work_finish(rpc->store, &result, err));
    count_finished(rpc, &result, 1);
    if (!request->checkpoint)
        return TIDE_OK;
    JOURNAL(Numbers) numbers;
    tide_rpc_numbers(&numbers, &result.numbers);
    return tide_rpc_put(rpc, 1, &numbers.base, err);
}

static tide_status read_results(tide_work_result *results, WORK(FinishRequest) * *list,
                                size_t count, tide_error *err)
{
    for (size_t i = 0; i < count; i++) {
        const WORK(FinishRequest) *given = list[i];
        TIDE_TRY(need_lease(given->lease, err));
        if (given->checkpoint || given->n_follow_ups > 0 || *given->idempotency_key)
            return tide_fail(err, TIDE_E_INVALID,
                             "result %zu has more than an output: use Finish for it", i + 1);
        results[i] = (tide_work_result){
            TIDE_WORK_RESULT_INIT, .work_item_id = given->lease->work_item_id,
            .token = given->lease->lease_token, .output = tide_rpc_text(given->output_data)};
    }
    return TIDE_OK;
}

static tide_status finish_results(tide_rpc *rpc, const WORK(FinishManyRequest) * request,
                                  tide_work_result *results, tide_error *err)
{
    TIDE_TRY(read_results(results, request->results, request->n_results, err));
    const tide_status status =
        tide_work_finish_many(rpc->store, results, (int)request->n_results, err);
    if (!is_answer(status))
        return status;
    count_finished(rpc, results, request->n_results);
    for (size_t i = 0; i < request->n_results; i++)
        if (results[i].is_lost)
            TIDE_TRY(put_lost(rpc, 1, results[i].work_item_id, results[i].token, err));
    return TIDE_OK;
}

TIDE_RPC(finish_many, WORK(FinishManyRequest))
{
    TIDE_TRY(check_count(request->n_results, "results", err));
    tide_work_result *results = calloc(request->n_results, sizeof *results);
    if (!results)
        return tide_no_memory(err);
    const tide_status status = finish_results(rpc, request, results, err);
    free(results);
    return status;
}

/* ---- finishing and claiming in one commit ---- */

static tide_status next_claims(tide_rpc *rpc, const waiting_claim *w, tide_work_result *results,
                               size_t count, tide_error *err)
{
    const tide_work_claim_request claim = read_claim(w);
    TIDE_CLEANUP(tide_work_claims_done) tide_work_claims claims = {0};
    const tide_status found = tide_work_next(rpc->store, results, (int)count, &claim, &claims, err);
    if (found < TIDE_OK && found != TIDE_E_LEASE_LOST)
        return found;
    count_finished(rpc, results, count);
    if (found == TIDE_NONE)
        return wait_for_claim(rpc, w, claims.next_due_us, err);
    TIDE_TRY(claims.count > 0 ? put_claims(rpc, &claims, err)
                              : answer_nothing(rpc, claims.next_due_us, err));
    for (size_t i = 0; i < count; i++)
        if (results[i].is_lost)
            TIDE_TRY(put_lost(rpc, 6, results[i].work_item_id, results[i].token, err));
    return TIDE_OK;
}

TIDE_RPC(next, WORK(NextRequest))
{
    waiting_claim w;
    if (!request->claim)
        return tide_fail(err, TIDE_E_INVALID, "claim is missing: use FinishMany to finish alone");
    TIDE_TRY(check_claim(&w, request->claim, err));
    if (request->n_results > 0)
        TIDE_TRY(check_count(request->n_results, "results", err));
    TIDE_CLEANUP(tide_freep)
    tide_work_result *results = calloc(request->n_results + 1, sizeof *results);
    if (!results)
        return tide_no_memory(err);
    TIDE_TRY(read_results(results, request->results, request->n_results, err));
    return next_claims(rpc, &w, results, request->n_results, err);
}

TIDE_RPC(fail, WORK(FailRequest))
{
    TIDE_TRY(need_lease(request->lease, err));
    int64_t retry_after_us = -1;
    if (request->_retry_after_ms_case != 0)
        TIDE_TRY(
            tide_rpc_duration(&retry_after_us, request->retry_after_ms, "retry_after_ms", err));
    tide_work_failed failed = {0};
    TIDE_TRY(tide_work_fail(
        rpc->store,
        &(tide_work_failure){TIDE_WORK_FAILURE_INIT, .work_item_id = request->lease->work_item_id,
                             .token = request->lease->lease_token, .error = request->error,
                             .is_final = request->final, .retry_after_us = retry_after_us},
        &failed, err));
    count_attempts(rpc, failed.is_final ? "failed" : "retried", 1);
    tide_attempt_times_ended(times_of(rpc), request->lease->work_item_id,
                             request->lease->lease_token);
    WORK(FailResponse) response = WORK_INIT(FAIL_RESPONSE);
    response.is_final = failed.is_final;
    response.retry_after_ms = failed.retry_after_us / 1000;
    response.work_item_id = request->lease->work_item_id;
    return tide_rpc_respond(rpc, &response.base, err);
}

TIDE_RPC(release, WORK(ReleaseRequest))
{
    int64_t delay_us = 0;
    TIDE_TRY(need_lease(request->lease, err));
    TIDE_TRY(tide_rpc_duration(&delay_us, request->delay_ms, "delay_ms", err));
    TIDE_TRY(tide_work_release(rpc->store, request->lease->work_item_id,
                               request->lease->lease_token, delay_us, err));
    count_attempts(rpc, "released", 1);
    tide_attempt_times_ended(times_of(rpc), request->lease->work_item_id,
                             request->lease->lease_token);
    return TIDE_OK;
}

/* ---- without a lease ---- */

static tide_status answer_retried(void *arg, const tide_work_retried *retried, tide_error *err)
{
    WORK(AddedItem) response = WORK_INIT(ADDED_ITEM);
    response.work_item_id = tide_rpc_borrow(retried->new_id);
    response.is_existing = retried->is_existing;
    return tide_rpc_respond(arg, &response.base, err);
}

TIDE_RPC(retry, WORK(RetryRequest))
{
    const tide_work_retry_request wanted = {TIDE_WORK_RETRY_REQUEST_INIT,
                                            .work_item_id = request->work_item_id,
                                            .from_scratch = request->from_scratch};
    return tide_work_retry_many(rpc->store, &wanted, answer_retried, rpc, err);
}

static tide_status put_retried(void *arg, const tide_work_retried *retried, tide_error *err)
{
    WORK(RetriedItem) row;
    tide_rpc_retried(&row, retried);
    return tide_rpc_put(arg, 1, &row.base, err);
}

TIDE_RPC(retry_many, WORK(RetryManyRequest))
{
    const tide_work_filter filter = {TIDE_WORK_FILTER_INIT,
                                     .task_id = tide_rpc_text(request->task_id),
                                     .work_type = tide_rpc_text(request->work_type),
                                     .failure_kind = tide_rpc_text(request->failure_kind),
                                     .limit = request->limit,
                                     .ended_since_us = request->since};
    const char *id = tide_rpc_text(request->work_item_id);
    const tide_work_retry_request wanted = {TIDE_WORK_RETRY_REQUEST_INIT,
                                            .work_item_id = id,
                                            .filter = id ? NULL : &filter,
                                            .from_scratch = request->from_scratch,
                                            .with_dependents = request->with_dependents,
                                            .is_dry_run = request->dry_run};
    return tide_work_retry_many(rpc->store, &wanted, put_retried, rpc, err);
}

static tide_status put_changed(void *arg, const char *work_item_id, tide_error *err)
{
    WORK(ChangedItem) row = WORK_INIT(CHANGED_ITEM);
    row.work_item_id = tide_rpc_borrow(work_item_id);
    return tide_rpc_put(arg, 1, &row.base, err);
}

TIDE_RPC(cancel_many, WORK(CancelManyRequest))
{
    const tide_work_filter filter = {TIDE_WORK_FILTER_INIT,
                                     .task_id = tide_rpc_text(request->task_id),
                                     .work_type = tide_rpc_text(request->work_type),
                                     .status = tide_rpc_text(request->status),
                                     .worker = tide_rpc_text(request->worker),
                                     .limit =
                                         request->limit ? request->limit : TIDE_WORK_BATCH_MAX};
    const tide_work_change change = {TIDE_WORK_CHANGE_INIT, .filter = &filter,
                                     .reason = tide_rpc_text(request->reason),
                                     .is_dry_run = request->dry_run};
    return tide_work_cancel_many(rpc->store, &change, put_changed, rpc, err);
}

TIDE_RPC(reprioritise, WORK(ReprioritiseRequest))
{
    const char *id = tide_rpc_text(request->work_item_id);
    const tide_work_filter filter = {TIDE_WORK_FILTER_INIT,
                                     .task_id = tide_rpc_text(request->task_id),
                                     .work_type = tide_rpc_text(request->work_type),
                                     .status = tide_rpc_text(request->status),
                                     .worker = tide_rpc_text(request->worker),
                                     .limit =
                                         request->limit ? request->limit : TIDE_WORK_BATCH_MAX};
    const tide_work_change change = {TIDE_WORK_CHANGE_INIT, .work_item_id = id,
                                     .filter = id ? NULL : &filter, .priority = request->priority,
                                     .is_dry_run = request->dry_run};
    return tide_work_reprioritise(rpc->store, &change, put_changed, rpc, err);
}

TIDE_RPC(cancel, WORK(CancelRequest))
{
    return tide_work_cancel(rpc->store, request->work_item_id, tide_rpc_text(request->reason), err);
}

TIDE_RPC(delete_item, WORK(DeleteItemRequest))
{
    return tide_work_delete(rpc->store, request->work_item_id, request->force, err);
}

TIDE_RPC(pause_type, WORK(PauseRequest))
{
    return tide_work_pause(rpc->store, request->work_type, tide_rpc_text(request->reason), err);
}

TIDE_RPC(resume_type, WORK(ResumeRequest))
{
    return tide_work_resume(rpc->store, request->work_type, err);
}

TIDE_RPC(set_policy, WORK(Policy))
{
    const bool has_retries = request->_max_retries_case != 0;
    tide_work_policy policy = {TIDE_WORK_POLICY_INIT, .work_type = request->work_type,
                               .max_retries = has_retries ? request->max_retries : -1};
    if (has_retries && request->max_retries < 0)
        return tide_fail(err, TIDE_E_INVALID, "max_retries is below 0");
    TIDE_TRY(tide_rpc_duration(&policy.backoff_us, request->backoff_ms, "backoff_ms", err));
    TIDE_TRY(
        tide_rpc_duration(&policy.backoff_max_us, request->backoff_max_ms, "backoff_max_ms", err));
    for (size_t i = 0; i < request->n_no_retry; i++) {
        unsigned flag = 0;
        TIDE_TRY(tide_work_no_retry_parse(&flag, request->no_retry[i], err));
        policy.no_retry |= flag;
    }
    return tide_work_policy_set(rpc->store, &policy, err);
}

tide_status tide_rpc_get_policy(tide_rpc *rpc, const ProtobufCMessage *message, tide_error *err)
{
    static const struct {
        unsigned flag;
        const char *word;
    } kinds[] = {{TIDE_WORK_NO_RETRY_ERROR, "error"},
                 {TIDE_WORK_NO_RETRY_CRASH, "crash"},
                 {TIDE_WORK_NO_RETRY_TIMEOUT, "timeout"}};
    const WORK(GetPolicyRequest) *request = (const WORK(GetPolicyRequest) *)message;
    tide_work_policy policy = {TIDE_WORK_POLICY_INIT};
    const tide_status found = tide_work_policy_get(rpc->store, request->work_type, &policy, err);
    TIDE_TRY(found); /* TIDE_NONE: all of it is default */
    WORK(Policy) row = WORK_INIT(POLICY);
    char *words[sizeof kinds / sizeof kinds[0]];
    row.work_type = request->work_type;
    if (policy.max_retries >= 0) {
        row._max_retries_case = TIDEMARK__WORK__V1__POLICY___MAX_RETRIES_MAX_RETRIES;
        row.max_retries = policy.max_retries;
    }
    row.backoff_ms = policy.backoff_us / 1000;
    row.backoff_max_ms = policy.backoff_max_us / 1000;
    row.no_retry = words;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (policy.no_retry & kinds[i].flag)
            words[row.n_no_retry++] = tide_rpc_borrow(kinds[i].word);
    return tide_rpc_respond(rpc, &row.base, err);
}
TIDE_RPC_RUN(tide_rpc_get_policy)

TIDE_RPC(set_limit, WORK(SetLimitRequest))
{
    const bool has_running = request->_running_case != 0;
    const bool has_per_key = request->_running_per_key_case != 0;
    if ((has_running && request->running < 0) || (has_per_key && request->running_per_key < 0))
        return tide_fail(err, TIDE_E_INVALID, "a limit is below 0");
    const tide_work_limit limit = {TIDE_WORK_LIMIT_INIT, .work_type = request->work_type,
                                   .running = has_running ? request->running : -1,
                                   .running_per_key = has_per_key ? request->running_per_key : -1};
    return tide_work_limit_set(rpc->store, &limit, err);
}

tide_status tide_rpc_get_limit(tide_rpc *rpc, const ProtobufCMessage *message, tide_error *err)
{
    const WORK(GetLimitRequest) *request = (const WORK(GetLimitRequest) *)message;
    tide_work_limit limit = {TIDE_WORK_LIMIT_INIT};
    TIDE_TRY(tide_work_limit_get(rpc->store, request->work_type, &limit, err));
    WORK(Limit) row = WORK_INIT(LIMIT);
    row.work_type = request->work_type;
    row.running = limit.running;
    row.running_per_key = limit.running_per_key;
    row.in_progress = limit.in_progress;
    return tide_rpc_respond(rpc, &row.base, err);
}
TIDE_RPC_RUN(tide_rpc_get_limit)

/* clang-format off */
const tide_method tide_rpc_work[] = {
    TIDE_RPC_ROW(SERVICE, "AddItems", WRITE, work__v1__add_items_request, work__v1__add_items_response, add_items),
    TIDE_RPC_ROW(SERVICE, "Claim", WRITE, work__v1__claim_request, work__v1__claim_response, claim),
    TIDE_RPC_ROW(SERVICE, "Renew", WRITE, work__v1__renew_request, work__v1__renew_response, renew),
    TIDE_RPC_ROW(SERVICE, "Checkpoint", WRITE, work__v1__checkpoint_item_request, journal__v1__numbers, checkpoint),
    TIDE_RPC_ROW(SERVICE, "Progress", WRITE, work__v1__progress_request, work__v1__empty, progress),
    TIDE_RPC_ROW(SERVICE, "Finish", WRITE, work__v1__finish_request, work__v1__finish_response, finish),
    TIDE_RPC_ROW(SERVICE, "FinishMany", WRITE, work__v1__finish_many_request, work__v1__finish_many_response, finish_many),
    TIDE_RPC_ROW(SERVICE, "Next", WRITE, work__v1__next_request, work__v1__next_response, next),
    TIDE_RPC_ROW(SERVICE, "Fail", WRITE, work__v1__fail_request, work__v1__fail_response, fail),
    TIDE_RPC_ROW(SERVICE, "Release", WRITE, work__v1__release_request, work__v1__empty, release),
    TIDE_RPC_ROW(SERVICE, "Retry", WRITE, work__v1__retry_request, work__v1__added_item, retry),
    TIDE_RPC_ROW(SERVICE, "RetryMany", WRITE, work__v1__retry_many_request, work__v1__retry_many_response, retry_many),
    TIDE_RPC_ROW(SERVICE, "Cancel", WRITE, work__v1__cancel_request, work__v1__empty, cancel),
    TIDE_RPC_ROW(SERVICE, "CancelMany", WRITE, work__v1__cancel_many_request, work__v1__changed_items_response, cancel_many),
    TIDE_RPC_ROW(SERVICE, "Reprioritise", WRITE, work__v1__reprioritise_request, work__v1__changed_items_response, reprioritise),
    TIDE_RPC_ROW(SERVICE, "DeleteItem", WRITE, work__v1__delete_item_request, work__v1__empty, delete_item),
    TIDE_RPC_ROW(SERVICE, "Pause", WRITE, work__v1__pause_request, work__v1__empty, pause_type),
    TIDE_RPC_ROW(SERVICE, "SetPolicy", WRITE, work__v1__policy, work__v1__empty, set_policy),
    TIDE_RPC_ROW(SERVICE, "GetPolicy", READ, work__v1__get_policy_request, work__v1__policy, tide_rpc_get_policy),
    TIDE_RPC_ROW(SERVICE, "SetLimit", WRITE, work__v1__set_limit_request, work__v1__empty, set_limit),
    TIDE_RPC_ROW(SERVICE, "GetLimit", READ, work__v1__get_limit_request, work__v1__limit, tide_rpc_get_limit),
    TIDE_RPC_ROW(SERVICE, "Resume", WRITE, work__v1__resume_request, work__v1__empty, resume_type),
    {.path = NULL},
};
/* clang-format on */
