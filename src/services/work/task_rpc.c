/* task_rpc.c - the methods of WorkService about tasks. */
#include "services/api/messages.h"
#include "services/api/rpc.h"

#define SERVICE "/tidemark.work.v1.WorkService"

TIDE_RPC(create_task, WORK(CreateTaskRequest))
{
    const tide_task_new task = {TIDE_TASK_NEW_INIT, .task_id = tide_rpc_text(request->task_id),
                                .title = request->title,
                                .metadata = tide_rpc_text(request->metadata)};
    char task_id[TIDE_WORK_ID_MAX + 1];
    TIDE_TRY(tide_task_create(rpc->store, &task, task_id, err));
    WORK(CreateTaskResponse) response = WORK_INIT(CREATE_TASK_RESPONSE);
    response.task_id = task_id;
    return tide_rpc_respond(rpc, &response.base, err);
}

static tide_status answer_task(void *arg, const tide_task *task, tide_error *err)
{
    WORK(Task) response;
    WORK(ItemCounts) counts;
    tide_rpc_task(&response, task);
    tide_rpc_counts(&counts, task);
    response.items = &counts;
    return tide_rpc_respond(arg, &response.base, err);
}

tide_status tide_rpc_get_task(tide_rpc *rpc, const ProtobufCMessage *message, tide_error *err)
{
    const WORK(GetTaskRequest) *request = (const WORK(GetTaskRequest) *)message;
    const tide_status status = tide_task_find(rpc->store, request->task_id, answer_task, rpc, err);
    if (status == TIDE_NONE)
        return tide_fail(err, TIDE_E_NOT_FOUND, "there is no task %s", request->task_id);
    return status;
}
TIDE_RPC_RUN(tide_rpc_get_task)

static tide_status put_task(void *arg, const tide_task *task, tide_error *err)
{
    WORK(Task) row;
    tide_rpc_task(&row, task);
    return tide_rpc_put(arg, 1, &row.base, err);
}

TIDE_RPC(list_tasks, WORK(ListTasksRequest))
{
    const tide_status status = tide_task_list(
        rpc->store, tide_rpc_text(request->status),
        request->limit == 0 ? TIDE_RPC_LIST_DEFAULT : request->limit, put_task, rpc, err);
    return status == TIDE_NONE ? TIDE_OK : status;
}

TIDE_RPC(cancel_task, WORK(CancelTaskRequest))
{
    return tide_task_cancel(rpc->store, request->task_id, err);
}

TIDE_RPC(finish_task, WORK(FinishTaskRequest))
{
    return tide_task_finish(rpc->store, request->task_id, request->failed, request->cancel_rest,
                            err);
}

TIDE_RPC(delete_task, WORK(DeleteTaskRequest))
{
    return tide_task_delete(rpc->store, request->task_id, request->force, err);
}

/* ---- resuming ---- */

static tide_status put_resumed_item(void *arg, const tide_work_item *item, tide_error *err)
{
    WORK(WorkItem) row;
    tide_rpc_item(&row, item);
    return tide_rpc_put(arg, 3, &row.base, err);
}

static tide_status put_checkpoint(tide_rpc *rpc, uint32_t field, const tide_checkpoint *checkpoint,
                                  tide_error *err)
{
    tide_buffer bytes;
    tide_buffer_init(&bytes, TIDE_RPC_RESPONSE_MAX);
    tide_status status = tide_rpc_encode_checkpoint(&bytes, checkpoint, err);
    if (status >= TIDE_OK)
        status = tide_rpc_put_bytes(&rpc->answer, field, tide_buffer_view(&bytes), err);
    tide_buffer_done(&bytes);
    return status;
}

static tide_status answer_iteration(void *arg, const tide_checkpoint *newest_end,
                                    int64_t next_iteration, tide_error *err)
{
    WORK(ResumeTaskResponse) part = WORK_INIT(RESUME_TASK_RESPONSE);
    part.next_iteration = next_iteration;
    TIDE_TRY(tide_rpc_respond(arg, &part.base, err));
    return newest_end ? put_checkpoint(arg, 4, newest_end, err) : TIDE_OK;
}

static tide_status put_later(void *arg, const tide_checkpoint *checkpoint, tide_error *err)
{
    return put_checkpoint(arg, 6, checkpoint, err);
}

static tide_status put_response(void *arg, const tide_idempotency_key *key, tide_error *err)
{
    WORK(IdempotencyKey) row;
    tide_rpc_key(&row, key);
    return tide_rpc_put(arg, 7, &row.base, err);
}

tide_status tide_rpc_resume_task(tide_rpc *rpc, const ProtobufCMessage *message, tide_error *err)
{
    static const tide_task_resume_fns fns = {TIDE_TASK_RESUME_FNS_INIT, .item = put_resumed_item,
                                             .iteration = answer_iteration, .later = put_later,
                                             .response = put_response};
    const WORK(ResumeTaskRequest) *request = (const WORK(ResumeTaskRequest) *)message;
    int64_t lease_us = 0;
    tide_task_lease lease = {0};
    TIDE_TRY(tide_rpc_duration(&lease_us, request->lease_ms, "lease_ms", err));
    WORK(ResumeTaskResponse) part = WORK_INIT(RESUME_TASK_RESPONSE);
    part.task_id = request->task_id;
    part.holder = request->holder;
    TIDE_TRY(tide_task_resume(
        rpc->store,
        &(tide_task_resume_request){TIDE_TASK_RESUME_REQUEST_INIT, .task_id = request->task_id,
                                    .holder = request->holder, .lease_us = lease_us},
        &fns, rpc, &lease, err));
    part.lease_token = lease.token;
    part.lease_expires_at = lease.expires_at_us;
    tide_identity identity;
    tide_store_identity(rpc->store, &identity);
    TIDE_RPC_PUT_IDENTITY(&part, &identity);
    return tide_rpc_respond(rpc, &part.base, err);
}
TIDE_RPC_RUN(tide_rpc_resume_task)

TIDE_RPC(renew_task, WORK(RenewTaskRequest))
{
    int64_t lease_us = 0;
    TIDE_TRY(tide_rpc_duration(&lease_us, request->lease_ms, "lease_ms", err));
    return tide_task_renew(rpc->store, request->task_id, request->lease_token, lease_us, err);
}

TIDE_RPC(release_task, WORK(ReleaseTaskRequest))
{
    return tide_task_release(rpc->store, request->task_id, request->lease_token, request->force,
                             err);
}

/* clang-format off */
const tide_method tide_rpc_tasks[] = {
    TIDE_RPC_ROW(SERVICE, "CreateTask", WRITE, work__v1__create_task_request, work__v1__create_task_response, create_task),
    TIDE_RPC_ROW(SERVICE, "GetTask", READ, work__v1__get_task_request, work__v1__task, tide_rpc_get_task),
    TIDE_RPC_ROW(SERVICE, "ListTasks", READ, work__v1__list_tasks_request, work__v1__list_tasks_response, list_tasks),
    TIDE_RPC_ROW(SERVICE, "CancelTask", WRITE, work__v1__cancel_task_request, work__v1__empty, cancel_task),
    TIDE_RPC_ROW(SERVICE, "FinishTask", WRITE, work__v1__finish_task_request, work__v1__empty, finish_task),
    TIDE_RPC_ROW(SERVICE, "DeleteTask", WRITE, work__v1__delete_task_request, work__v1__empty, delete_task),
    TIDE_RPC_ROW(SERVICE, "ResumeTask", WRITE, work__v1__resume_task_request, work__v1__resume_task_response, tide_rpc_resume_task),
    TIDE_RPC_ROW(SERVICE, "RenewTask", WRITE, work__v1__renew_task_request, work__v1__empty, renew_task),
    TIDE_RPC_ROW(SERVICE, "ReleaseTask", WRITE, work__v1__release_task_request, work__v1__empty, release_task),
    {.path = NULL},
};
/* clang-format on */
