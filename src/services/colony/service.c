#include "services/colony/service.h"

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "services/api/rpc.h"

#define SERVICE "/tidemark.colony.v1.ColonyService"

/* X(method, role, request, response, function). Fleet and Query are served in ways of their own. */
#define METHODS(X)                                                                                 \
    PLAIN_METHODS(X)                                                                               \
    X("Fleet", READ, fleet_request, fleet_response, fleet)                                         \
    X("Query", READ, query_request, query_response, query)
#define PLAIN_METHODS(X)                                                                           \
    X("ListAgents", READ, list_agents_request, list_agents_response, list_agents)                  \
    X("PutAgent", ADMIN, put_agent_request, agent, put_agent)                                      \
    X("RemoveAgent", ADMIN, remove_agent_request, agent, remove_agent)                             \
    X("Poll", ADMIN, poll_request, poll_response, poll)                                            \
    X("ListCheckpoints", READ, list_checkpoints_request, list_checkpoints_response,                \
      list_checkpoints)                                                                            \
    X("CheckpointHistory", READ, checkpoint_history_request, checkpoint_history_response,          \
      checkpoint_history)                                                                          \
    X("ResetCheckpoints", ADMIN, reset_checkpoints_request, change_checkpoints_response,           \
      reset_checkpoints)                                                                           \
    X("MoveCheckpoint", ADMIN, move_checkpoint_request, change_checkpoints_response,               \
      move_checkpoint)                                                                             \
    X("ListGaps", READ, list_gaps_request, list_gaps_response, list_gaps)                          \
    X("GetGap", READ, get_gap_request, gap, get_gap)                                               \
    X("RetryGap", ADMIN, retry_gap_request, gap, retry_gap)                                        \
    X("AcceptGap", ADMIN, accept_gap_request, gap, accept_gap)                                     \
    X("ListIncidents", READ, list_incidents_request, list_incidents_response, list_incidents)      \
    X("Audit", READ, audit_request, audit_response, audit)                                         \
    X("Repair", ADMIN, repair_request, repair_response, repair)                                    \
    X("GetTrace", READ, get_trace_request, get_trace_response, get_trace)                          \
    X("Export", ADMIN, export_request, export_response, export)

/* ---- by the network ---- */

static void run(tide_call *call, tide_view message, void *arg, tide_colony_fn *fn)
{
    tide_error err = {0};
    ProtobufCMessage *request = NULL;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer out = tide_buffer_of(TIDE_RPC_RESPONSE_MAX);
    tide_status status = tide_call_decode(call, message, &request, &err);
    if (status >= TIDE_OK)
        status = fn(arg, request, &out, &err);
    if (status >= TIDE_OK)
        tide_call_respond(call, tide_buffer_view(&out));
    else
        tide_call_end(call, status, &err);
}

#define RUN(method_, role_, request_, response_, fn_)                                              \
    static void run_##fn_(tide_call *call, tide_view message, void *arg)                           \
    {                                                                                              \
        run(call, message, arg, tide_colony_##fn_);                                                \
    }
PLAIN_METHODS(RUN)
#define run_fleet tide_colony_run_fleet
#define run_query tide_colony_run_query

#define ROW(method_, role_, request_, response_, fn_)                                              \
    {.path = SERVICE "/" method_,                                                                  \
     .kind = TIDE_CALL_UNARY,                                                                      \
     .role = TIDE_ROLE_##role_,                                                                    \
     .is_blocking = true,                                                                          \
     .request = &tidemark__colony__v1__##request_##__descriptor,                                   \
     .response = &tidemark__colony__v1__##response_##__descriptor,                                 \
     .run = run_##fn_},
const tide_method tide_colony_methods[] = {METHODS(ROW){.path = NULL}};

/* ---- in this process ---- */

tide_status tide_colony_call(tide_colony *colony, const char *method,
                             const ProtobufCMessage *request, tide_buffer *out, tide_error *err)
{
    static const struct {
        const char *name;
        tide_colony_fn *fn;
    } functions[] = {
#define FUNCTION(method_, role_, request_, response_, fn_) {method_, tide_colony_##fn_},
        METHODS(FUNCTION)};
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++)
        if (strcmp(functions[i].name, method) == 0)
            return functions[i].fn(colony, request, out, err);
    return tide_fail(err, TIDE_E_UNSUPPORTED, "there is no method '%s'", method);
}

/* ---- what the methods share ---- */

tide_status tide_colony_number(int64_t *out, uint64_t number, const char *what, tide_error *err)
{
    if (number > INT64_MAX)
        return tide_fail(err, TIDE_E_INVALID, "%s is above 2^63-1, where numbers end", what);
    *out = (int64_t)number;
    return TIDE_OK;
}

static tide_status note_position(void *arg, const tide_position *position,
                                 const tide_gap_sums *gaps, tide_error *err)
{
    (void)position;
    (void)gaps;
    (void)err;
    *(bool *)arg = true;
    return TIDE_OK;
}

/* A user's stream is known by its positions. */
static tide_status check_type(tide_colony *colony, const char *data_type, tide_error *err)
{
    char names[256] = "";
    bool is_known = tide_colony_type_find(data_type)->stream->kind != TIDE_STREAM_OPAQUE;
    if (!is_known)
        TIDE_TRY(colony->sink->ops->positions(colony->sink, NULL, data_type, true, note_position,
                                              &is_known, err));
    if (is_known)
        return TIDE_OK;
    for (int kind = 0; kind < TIDE_STREAM_OPAQUE; kind++) {
        const size_t len = strlen(names);
        (void)snprintf(names + len, sizeof names - len, "%s%s", kind > 0 ? ", " : "",
                       tide_stream_type_of((tide_stream_kind)kind)->name);
    }
    return tide_fail(err, TIDE_E_INVALID,
                     "there is no data type '%.60s': %s, or a stream that an agent has declared",
                     data_type, names);
}

tide_status tide_colony_check_names(tide_colony *colony, const char *agent_id,
                                    const char *data_type, tide_error *err)
{
    if (agent_id && *agent_id) {
        tide_agent_row row;
        const tide_status status = tide_registry_find(colony->sink->store, agent_id, &row, err);
        TIDE_TRY(status);
        if (status == TIDE_NONE)
            return tide_fail(err, TIDE_E_NOT_FOUND,
                             "there is no agent '%s': see tidemark colony agent ls --all",
                             agent_id);
    }
    return data_type && *data_type ? check_type(colony, data_type, err) : TIDE_OK;
}

void tide_colony_ledger(COLONY(Ledger) * out, const tide_ledger *ledger)
{
    out->head = (uint64_t)ledger->head;
    out->first = (uint64_t)ledger->first;
    out->before = (uint64_t)ledger->before;
    out->stored = (uint64_t)ledger->stored;
    out->dead = (uint64_t)ledger->dead;
    out->filtered = (uint64_t)ledger->filtered;
    out->void_ = (uint64_t)ledger->voided;
    out->lost = (uint64_t)ledger->lost;
    out->pending = (uint64_t)ledger->pending;
    out->held = (uint64_t)ledger->held;
    out->open_gaps = (uint64_t)ledger->open_gaps;
    out->unread = (uint64_t)ledger->unread;
    out->unexplained = ledger->unexplained;
}
