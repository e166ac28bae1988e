/* schedule_rpc.c - the methods of WorkService about schedules. */
#include "services/api/messages.h"
#include "services/api/rpc.h"

#define SERVICE "/tidemark.work.v1.WorkService"

TIDE_RPC(add_schedule, WORK(Schedule))
{
    const bool has_retries = request->_max_retries_case != 0;
    tide_schedule_new schedule = {TIDE_SCHEDULE_NEW_INIT,
                                  .name = request->name,
                                  .task_id = request->task_id,
                                  .work_type = request->work_type,
                                  .cron = tide_rpc_text(request->cron),
                                  .time_zone = tide_rpc_text(request->time_zone),
                                  .input = tide_rpc_text(request->input_data),
                                  .priority = request->priority,
                                  .max_retries = has_retries ? request->max_retries : -1};
    if (has_retries && request->max_retries < 0)
        return tide_fail(err, TIDE_E_INVALID, "max_retries is below 0");
    TIDE_TRY(tide_rpc_duration(&schedule.every_us, request->every_ms, "every_ms", err));
    TIDE_TRY(tide_rpc_duration(&schedule.timeout_us, request->timeout_ms, "timeout_ms", err));
    WORK(AddScheduleResponse) response = WORK_INIT(ADD_SCHEDULE_RESPONSE);
    response.name = request->name;
    TIDE_TRY(tide_schedule_add(rpc->store, &schedule, &response.next_run_at, err));
    return tide_rpc_respond(rpc, &response.base, err);
}

TIDE_RPC(update_schedule, WORK(UpdateScheduleRequest))
{
    tide_schedule_change change = {TIDE_SCHEDULE_CHANGE_INIT,
                                   .name = request->name,
                                   .work_type = tide_rpc_text(request->work_type),
                                   .cron = tide_rpc_text(request->cron),
                                   .time_zone = tide_rpc_text(request->time_zone),
                                   .input = tide_rpc_text(request->input_data),
                                   .has_priority = request->_priority_case != 0,
                                   .priority = request->priority,
                                   .has_max_retries = request->_max_retries_case != 0,
                                   .max_retries = request->max_retries,
                                   .has_timeout = request->_timeout_ms_case != 0};
    if (change.has_max_retries && request->max_retries < 0)
        return tide_fail(err, TIDE_E_INVALID, "max_retries is below 0");
    TIDE_TRY(tide_rpc_duration(&change.every_us, request->every_ms, "every_ms", err));
    TIDE_TRY(tide_rpc_duration(&change.timeout_us, request->timeout_ms, "timeout_ms", err));
    WORK(AddScheduleResponse) response = WORK_INIT(ADD_SCHEDULE_RESPONSE);
    response.name = request->name;
    TIDE_TRY(tide_schedule_update(rpc->store, &change, &response.next_run_at, err));
    return tide_rpc_respond(rpc, &response.base, err);
}

static tide_status put_schedule(void *arg, const tide_schedule *schedule, tide_error *err)
{
    WORK(Schedule) row;
    tide_rpc_schedule(&row, schedule);
    return tide_rpc_put(arg, 1, &row.base, err);
}

static tide_status list_schedules(tide_rpc *rpc, const ProtobufCMessage *message, tide_error *err)
{
    (void)message;
    const tide_status status = tide_schedule_list(rpc->store, put_schedule, rpc, err);
    return status == TIDE_NONE ? TIDE_OK : status;
}
TIDE_RPC_RUN(list_schedules)

TIDE_RPC(pause_schedule, WORK(PauseScheduleRequest))
{
    return tide_schedule_pause(rpc->store, request->name, request->is_paused, err);
}

TIDE_RPC(remove_schedule, WORK(RemoveScheduleRequest))
{
    return tide_schedule_remove(rpc->store, request->name, err);
}

/* clang-format off */
const tide_method tide_rpc_schedules[] = {
    TIDE_RPC_ROW(SERVICE, "AddSchedule", WRITE, work__v1__schedule, work__v1__add_schedule_response, add_schedule),
    TIDE_RPC_ROW(SERVICE, "UpdateSchedule", WRITE, work__v1__update_schedule_request, work__v1__add_schedule_response, update_schedule),
    TIDE_RPC_ROW(SERVICE, "ListSchedules", READ, work__v1__empty, work__v1__list_schedules_response, list_schedules),
    TIDE_RPC_ROW(SERVICE, "PauseSchedule", WRITE, work__v1__pause_schedule_request, work__v1__empty, pause_schedule),
    TIDE_RPC_ROW(SERVICE, "RemoveSchedule", WRITE, work__v1__remove_schedule_request, work__v1__empty, remove_schedule),
    {.path = NULL},
};
/* clang-format on */
