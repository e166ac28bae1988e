/* work_list_rpc.c - the methods of WorkService that look at items, and those that look after them. */
#include "services/api/messages.h"
#include "services/api/rpc.h"

#define SERVICE "/tidemark.work.v1.WorkService"

static tide_status or_not_found(tide_status status, const char *work_item_id, tide_error *err)
{
    if (status != TIDE_NONE)
        return status;
    return tide_fail(err, TIDE_E_NOT_FOUND, "there is no work item %s", work_item_id);
}

static tide_status put_attempt_as(tide_rpc *rpc, uint32_t field, const tide_work_attempt *attempt,
                                  tide_error *err)
{
    WORK(Attempt) row;
    tide_rpc_attempt(&row, attempt);
    return tide_rpc_put(rpc, field, &row.base, err);
}

static tide_status put_attempt(void *arg, const tide_work_attempt *attempt, tide_error *err)
{
    return put_attempt_as(arg, 1, attempt, err);
}

static tide_status put_item_attempt(void *arg, const tide_work_attempt *attempt, tide_error *err)
{
    enum { ATTEMPTS_FIELD = 36 };
    return put_attempt_as(arg, ATTEMPTS_FIELD, attempt, err);
}

static tide_status put_dependency(void *arg, const char *work_item_id, tide_error *err)
{
    enum { DEPENDS_ON_FIELD = 37 };
    tide_rpc *rpc = arg;
    return tide_rpc_put_bytes(&rpc->answer, DEPENDS_ON_FIELD, tide_view_of(work_item_id), err);
}

static tide_status answer_item(void *arg, const tide_work_item *item, tide_error *err)
{
    WORK(WorkItem) response;
    tide_rpc_item(&response, item);
    return tide_rpc_respond(arg, &response.base, err);
}

tide_status tide_rpc_get_item(tide_rpc *rpc, const ProtobufCMessage *message, tide_error *err)
{
    const WORK(GetItemRequest) *request = (const WORK(GetItemRequest) *)message;
    TIDE_TRY(or_not_found(tide_work_find(rpc->store, request->work_item_id, answer_item, rpc, err),
                          request->work_item_id, err));
    TIDE_TRY(tide_work_attempts(rpc->store, request->work_item_id, put_item_attempt, rpc, err));
    /* An item that was never claimed has no attempts. */
    return tide_work_dependencies(rpc->store, request->work_item_id, put_dependency, rpc, err);
}
TIDE_RPC_RUN(tide_rpc_get_item)

static tide_status put_item(void *arg, const tide_work_item *item, tide_error *err)
{
    WORK(WorkItem) row;
    tide_rpc_item(&row, item);
    return tide_rpc_put(arg, 1, &row.base, err);
}

TIDE_RPC(list_items, WORK(ListItemsRequest))
{
    const tide_work_filter filter = {TIDE_WORK_FILTER_INIT,
                                     .task_id = tide_rpc_text(request->task_id),
                                     .work_type = tide_rpc_text(request->work_type),
                                     .status = tide_rpc_text(request->status),
                                     .failure_kind = tide_rpc_text(request->failure_kind),
                                     .worker = tide_rpc_text(request->worker),
                                     .limit = request->limit,
                                     .before_id = tide_rpc_text(request->before_id),
                                     .ended_since_us = request->since};
    const tide_status status = tide_work_list(rpc->store, &filter, put_item, rpc, err);
    return status == TIDE_NONE ? TIDE_OK : status;
}

TIDE_RPC(list_attempts, WORK(GetItemRequest))
{
    const tide_status status =
        tide_work_attempts(rpc->store, request->work_item_id, put_attempt, rpc, err);
    return status == TIDE_NONE ? TIDE_OK : status;
}

/* ---- why is it not running ---- */

typedef struct reasons {
    tide_rpc *rpc;
    tide_status status;
    tide_error *err;
} reasons;

static void put_reason(void *arg, const char *code, const char *text)
{
    reasons *r = arg;
    WORK(Reason) row = WORK_INIT(REASON);
    row.code = tide_rpc_borrow(code);
    row.text = tide_rpc_borrow(text);
    if (r->status >= TIDE_OK)
        r->status = tide_rpc_put(r->rpc, 1, &row.base, r->err);
}

static tide_status put_title(void *arg, const tide_work_item *item, tide_error *err)
{
    WORK(ExplainResponse) part = WORK_INIT(EXPLAIN_RESPONSE);
    part.title = tide_rpc_borrow(item->title);
    return tide_rpc_respond(arg, &part.base, err);
}

tide_status tide_rpc_explain(tide_rpc *rpc, const ProtobufCMessage *message, tide_error *err)
{
    const WORK(GetItemRequest) *request = (const WORK(GetItemRequest) *)message;
    reasons r = {.rpc = rpc, .status = TIDE_OK, .err = err};
    TIDE_TRY(or_not_found(tide_work_explain(rpc->store, request->work_item_id, put_reason, &r, err),
                          request->work_item_id, err));
    TIDE_TRY(r.status);
    WORK(ExplainResponse) part = WORK_INIT(EXPLAIN_RESPONSE);
    part.work_item_id = request->work_item_id;
    TIDE_TRY(tide_rpc_respond(rpc, &part.base, err));
    return tide_work_find(rpc->store, request->work_item_id, put_title, rpc, err);
}
TIDE_RPC_RUN(tide_rpc_explain)

/* ---- types and figures ---- */

static tide_status put_type(void *arg, const tide_work_type *type, tide_error *err)
{
    WORK(TypeState) row;
    tide_rpc_type(&row, type);
    return tide_rpc_put(arg, 1, &row.base, err);
}

static tide_status list_types(tide_rpc *rpc, const ProtobufCMessage *message, tide_error *err)
{
    (void)message;
    const tide_status status = tide_work_types(rpc->store, put_type, rpc, err);
    return status == TIDE_NONE ? TIDE_OK : status;
}
TIDE_RPC_RUN(list_types)

static tide_status put_item_stat(void *arg, const tide_work_stat *stat, tide_error *err)
{
    WORK(ItemStat) row = WORK_INIT(ITEM_STAT);
    row.work_type = tide_rpc_borrow(stat->work_type);
    row.status = tide_rpc_borrow(stat->status);
    row.count = stat->count;
    row.mean_age_s = stat->mean_age_s;
    return tide_rpc_put(arg, 1, &row.base, err);
}

static tide_status put_lease_stat(void *arg, const tide_work_lease_stat *stat, tide_error *err)
{
    WORK(LeaseStat) row = WORK_INIT(LEASE_STAT);
    row.active = stat->active;
    row.stale = stat->stale;
    row.mean_heartbeat_age_s = stat->mean_heartbeat_age_s;
    return tide_rpc_put(arg, 2, &row.base, err);
}

static tide_status put_task_stat(void *arg, const tide_work_task_stat *stat, tide_error *err)
{
    WORK(TaskStat) row = WORK_INIT(TASK_STAT);
    row.task_id = tide_rpc_borrow(stat->task_id);
    row.checkpoint_count = stat->checkpoint_count;
    row.max_sequence = stat->max_sequence;
    row.first_at = stat->first_at_us;
    row.last_at = stat->last_at_us;
    return tide_rpc_put(arg, 3, &row.base, err);
}

tide_status tide_rpc_stats(tide_rpc *rpc, const ProtobufCMessage *message, tide_error *err)
{
    static const tide_work_stats_fns fns = {TIDE_WORK_STATS_FNS_INIT, .item = put_item_stat,
                                            .lease = put_lease_stat, .task = put_task_stat};
    (void)message;
    return tide_work_stats(rpc->store, &fns, rpc, err);
}
TIDE_RPC_RUN(tide_rpc_stats)

/* ---- looking after ---- */

TIDE_RPC(sweep, WORK(SweepRequest))
{
    tide_work_swept swept;
    TIDE_TRY(tide_work_sweep(rpc->store, request->limit, 0, &swept, err));
    WORK(SweepResponse) response;
    tide_rpc_swept(&response, &swept);
    return tide_rpc_respond(rpc, &response.base, err);
}

TIDE_RPC(clean, WORK(CleanRequest))
{
    int64_t keep_us = 0;
    TIDE_TRY(tide_rpc_duration(&keep_us, request->keep_ms, "keep_ms", err));
    WORK(CleanResponse) response = WORK_INIT(CLEAN_RESPONSE);
    TIDE_TRY(tide_work_clean(rpc->store, keep_us, &response.removed, err));
    return tide_rpc_respond(rpc, &response.base, err);
}

/* clang-format off */
const tide_method tide_rpc_work_look[] = {
    TIDE_RPC_ROW(SERVICE, "GetItem", READ, work__v1__get_item_request, work__v1__work_item, tide_rpc_get_item),
    TIDE_RPC_ROW(SERVICE, "ListItems", READ, work__v1__list_items_request, work__v1__list_items_response, list_items),
    TIDE_RPC_ROW(SERVICE, "ListAttempts", READ, work__v1__get_item_request, work__v1__list_attempts_response, list_attempts),
    TIDE_RPC_ROW(SERVICE, "Explain", READ, work__v1__get_item_request, work__v1__explain_response, tide_rpc_explain),
    TIDE_RPC_ROW(SERVICE, "ListTypes", READ, work__v1__empty, work__v1__list_types_response, list_types),
    TIDE_RPC_ROW(SERVICE, "Stats", READ, work__v1__empty, work__v1__stats_response, tide_rpc_stats),
    TIDE_RPC_ROW(SERVICE, "Sweep", WRITE, work__v1__sweep_request, work__v1__sweep_response, sweep),
    TIDE_RPC_ROW(SERVICE, "Clean", ADMIN, work__v1__clean_request, work__v1__clean_response, clean),
    {.path = NULL},
};
/* clang-format on */
