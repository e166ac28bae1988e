/* cmd_colony_agent.c - tidemark colony agent add|ls|remove. */
#include "base/cleanup.h"
#include "cli/colony/cmd_colony.h"
#include "cli/colony/colony_store.h"
#include "cli/print/message_output.h"

static tide_status change(tide_cli *cli, const char *method, const ProtobufCMessage *request,
                          tide_store_mode mode, const char *result, tide_error *err)
{
    TIDE_CLEANUP(tide_cli_colony_done) tide_cli_colony colony = {.store = NULL};
    ProtobufCMessage *response = NULL;
    TIDE_TRY(tide_cli_colony_open(cli, &colony, mode, false, err));
    TIDE_TRY(tide_cli_colony_call(&colony, method, request,
                                  &tidemark__colony__v1__agent__descriptor, &response, err));
    tide_status status = TIDE_OK;
    if (cli->out.is_json)
        status = tide_cli_print_message(&cli->out, response, err);
    else
        tide_cli_print(cli->out.file, "%s: %s\n", ((const COLONY(Agent) *)response)->agent_id,
                       result);
    protobuf_c_message_free_unpacked(response, NULL);
    return status;
}

tide_status tide_cli_colony_agent_add(tide_cli *cli, tide_error *err)
{
    COLONY(PutAgentRequest) request = COLONY_INIT(PUT_AGENT_REQUEST);
    request.agent_id = (char *)cli->args[0];
    request.address = (char *)cli->args[1];
    return change(cli, "PutAgent", &request.base, TIDE_STORE_CREATE, "is polled", err);
}

tide_status tide_cli_colony_agent_remove(tide_cli *cli, tide_error *err)
{
    COLONY(RemoveAgentRequest) request = COLONY_INIT(REMOVE_AGENT_REQUEST);
    request.agent_id = (char *)cli->args[0];
    return change(cli, "RemoveAgent", &request.base, TIDE_STORE_EXISTING, "is polled no more", err);
}

static tide_status print_all(tide_cli *cli, const COLONY(ListAgentsResponse) * list,
                             tide_error *err)
{
    tide_cli_table table;
    if (cli->out.is_json) {
        for (size_t i = 0; i < list->n_agents; i++)
            TIDE_TRY(tide_cli_print_message(&cli->out, &list->agents[i]->base, err));
        return TIDE_OK;
    }
    tide_cli_table_begin(&table, &cli->out, "AGENT,ADDRESS,HEALTH,SEEN,COLONY,ERROR");
    for (size_t i = 0; i < list->n_agents; i++) {
        const COLONY(Agent) *agent = list->agents[i];
        tide_cli_table_cell(&table, agent->agent_id);
        tide_cli_table_cell(&table, agent->address);
        tide_cli_table_cell(&table, agent->removed ? "removed" : agent->health);
        tide_cli_table_time(&table, agent->seen_at ? agent->seen_at : INT64_MAX);
        tide_cli_table_cell(&table, *agent->holder ? agent->holder : NULL);
        tide_cli_table_cell(&table, *agent->error ? agent->error : NULL);
    }
    return tide_cli_table_done(&table, err);
}

tide_status tide_cli_colony_agent_list(tide_cli *cli, tide_error *err)
{
    TIDE_CLEANUP(tide_cli_colony_done) tide_cli_colony colony = {.store = NULL};
    ProtobufCMessage *response = NULL;
    COLONY(ListAgentsRequest) request = COLONY_INIT(LIST_AGENTS_REQUEST);
    request.with_removed = tide_cli_is_given(cli, TIDE_CLI_ALL);
    TIDE_TRY(tide_cli_colony_open(cli, &colony, TIDE_STORE_EXISTING, false, err));
    TIDE_TRY(tide_cli_colony_call(&colony, "ListAgents", &request.base,
                                  &tidemark__colony__v1__list_agents_response__descriptor,
                                  &response, err));
    const tide_status status = print_all(cli, (const COLONY(ListAgentsResponse) *)response, err);
    protobuf_c_message_free_unpacked(response, NULL);
    return status;
}
