/* service_agents.c - the registry: see service.h. */
#include "base/cleanup.h"
#include "services/api/messages.h"
#include "services/api/rpc.h"
#include "services/colony/service.h"

static void fill(COLONY(Agent) * out, const tide_agent_row *row)
{
    out->agent_id = tide_rpc_borrow(row->agent_id);
    out->address = tide_rpc_borrow(row->address);
    out->origin = tide_rpc_borrow(row->origin);
    out->removed = row->is_removed;
    out->added_at = row->added_at_us;
    out->seen_at = row->seen_at_us;
    out->failed_at = row->failed_at_us;
    out->error = tide_rpc_borrow(row->error);
    out->health = tide_rpc_borrow(tide_agent_health_name(row->health));
    out->holder = tide_rpc_borrow(row->holder);
    out->lease_token = (uint64_t)row->lease_token;
}

static tide_status put_row(void *arg, const tide_agent_row *row, tide_error *err)
{
    COLONY(Agent) message = COLONY_INIT(AGENT);
    fill(&message, row);
    return tide_rpc_put_message(arg, 1, &message.base, err);
}

tide_status tide_colony_list_agents(tide_colony *colony, const ProtobufCMessage *request,
                                    tide_buffer *out, tide_error *err)
{
    const COLONY(ListAgentsRequest) *given = (const COLONY(ListAgentsRequest) *)request;
    if (!colony->collector)
        return tide_registry_list(colony->sink->store, given->with_removed, put_row, out, err);
    TIDE_CLEANUP(tide_fleet_view_releasep) tide_fleet_view *view = NULL;
    TIDE_TRY(tide_colony_view(colony, 0, &view, err));
    for (size_t i = 0; i < view->agent_count; i++) {
        tide_agent_row row = view->agents[i];
        if (row.is_removed && !given->with_removed)
            continue;
        tide_board_judge(colony->board, &row);
        TIDE_TRY(put_row(out, &row, err));
    }
    return TIDE_OK;
}

static tide_status answer_agent(tide_colony *colony, const char *agent_id, tide_buffer *out,
                                tide_error *err)
{
    tide_agent_row row;
    const tide_status status = tide_registry_find(colony->sink->store, agent_id, &row, err);
    TIDE_TRY(status);
    if (status == TIDE_NONE)
        return tide_fail(err, TIDE_E_NOT_FOUND, "there is no agent '%s'", agent_id);
    COLONY(Agent) message = COLONY_INIT(AGENT);
    fill(&message, &row);
    return tide_rpc_pack(out, &message.base, err);
}

static void look(tide_colony *colony)
{
    if (colony->scheduler)
        tide_scheduler_check_registry(colony->scheduler);
}

tide_status tide_colony_put_agent(tide_colony *colony, const ProtobufCMessage *request,
                                  tide_buffer *out, tide_error *err)
{
    const COLONY(PutAgentRequest) *given = (const COLONY(PutAgentRequest) *)request;
    TIDE_TRY(
        tide_registry_put(colony->sink->store, given->agent_id, given->address, "operator", err));
    look(colony);
    return answer_agent(colony, given->agent_id, out, err);
}

tide_status tide_colony_remove_agent(tide_colony *colony, const ProtobufCMessage *request,
                                     tide_buffer *out, tide_error *err)
{
    const COLONY(RemoveAgentRequest) *given = (const COLONY(RemoveAgentRequest) *)request;
    const tide_status status = tide_registry_remove(colony->sink->store, given->agent_id, err);
    TIDE_TRY(status);
    if (status == TIDE_NONE)
        return tide_fail(err, TIDE_E_NOT_FOUND, "there is no agent '%s'", given->agent_id);
    look(colony);
    return answer_agent(colony, given->agent_id, out, err);
}

tide_status tide_colony_poll(tide_colony *colony, const ProtobufCMessage *request, tide_buffer *out,
                             tide_error *err)
{
    enum { WAIT_USUAL_US = 60000000 };
    const COLONY(PollRequest) *given = (const COLONY(PollRequest) *)request;
    int64_t wait_us = WAIT_USUAL_US;
    tide_scheduler_result result;
    if (given->wait_ms != 0)
        TIDE_TRY(tide_rpc_duration(&wait_us, given->wait_ms, "wait_ms", err));
    if (!colony->scheduler)
        return tide_fail(err, TIDE_E_UNSUPPORTED, "nobody polls here");
    TIDE_TRY(tide_scheduler_poll(colony->scheduler, wait_us, &result, err));
    COLONY(PollResponse) answer = COLONY_INIT(POLL_RESPONSE);
    answer.agents = (uint64_t)result.agents;
    answer.caught_up = (uint64_t)result.caught_up;
    answer.failed = (uint64_t)result.failed;
    answer.elsewhere = (uint64_t)result.elsewhere;
    answer.failure = tide_rpc_borrow(result.failure);
    return tide_rpc_pack(out, &answer.base, err);
}
