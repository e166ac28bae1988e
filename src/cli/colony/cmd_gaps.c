/* cmd_gaps.c - tidemark gaps: which numbers are missing, and why. */
#include <stdio.h>

#include "base/cleanup.h"
#include "cli/colony/colony_store.h"
#include "cli/print/message_output.h"

static tide_status print_gaps(tide_cli *cli, COLONY(Gap) * *gaps, size_t count, tide_error *err)
{
    tide_cli_table table;
    if (cli->out.is_json) {
        for (size_t i = 0; i < count; i++)
            TIDE_TRY(tide_cli_print_message(&cli->out, &gaps[i]->base, err));
        return TIDE_OK;
    }
    tide_cli_table_begin(&table, &cli->out,
                         "ID#,AGENT,TYPE,EPOCH#,FROM#,TO#,STATUS,REASON,ATTEMPTS#,DETECTED");
    for (size_t i = 0; i < count; i++) {
        const COLONY(Gap) *gap = gaps[i];
        tide_cli_table_number(&table, gap->id);
        tide_cli_table_cell(&table, gap->agent_id);
        tide_cli_table_cell(&table, gap->data_type);
        tide_cli_table_number(&table, (int64_t)gap->epoch);
        tide_cli_table_number(&table, (int64_t)gap->start_seq_id);
        tide_cli_table_number(&table, (int64_t)gap->end_seq_id);
        tide_cli_table_cell(&table, gap->status);
        tide_cli_table_cell(&table, *gap->reason ? gap->reason : NULL);
        tide_cli_table_number(&table, gap->recovery_attempts);
        tide_cli_table_time(&table, gap->detected_at);
    }
    return tide_cli_table_done(&table, err);
}

static tide_status list_gaps(tide_cli *cli, tide_error *err)
{
    TIDE_CLEANUP(tide_cli_colony_done) tide_cli_colony colony = {.store = NULL};
    ProtobufCMessage *response = NULL;
    COLONY(ListGapsRequest) request = COLONY_INIT(LIST_GAPS_REQUEST);
    char *status_name = (char *)tide_cli_text(cli, TIDE_CLI_STATUS);
    const char *agent_id = tide_cli_text(cli, TIDE_CLI_AGENT);
    const char *data_type = tide_cli_text(cli, TIDE_CLI_DATA_TYPE);
    if (agent_id)
        request.agent_id = (char *)agent_id;
    if (data_type)
        request.data_type = (char *)data_type;
    request.statuses = &status_name;
    request.n_statuses = status_name ? 1 : 0;
    request.limit = (int32_t)tide_cli_number(cli, TIDE_CLI_LIMIT);
    TIDE_TRY(tide_cli_colony_open(cli, &colony, TIDE_STORE_EXISTING, false, err));
    TIDE_TRY(tide_cli_colony_call(&colony, "ListGaps", &request.base,
                                  &tidemark__colony__v1__list_gaps_response__descriptor, &response,
                                  err));
    const COLONY(ListGapsResponse) *answer = (const COLONY(ListGapsResponse) *)response;
    const tide_status status = print_gaps(cli, answer->gaps, answer->n_gaps, err);
    if (status >= TIDE_OK && answer->more && !cli->out.is_json)
        tide_cli_print(stderr, "there are more: --limit N\n");
    protobuf_c_message_free_unpacked(response, NULL);
    return status;
}

static tide_status act(tide_cli *cli, const char *method, const ProtobufCMessage *request,
                       tide_error *err)
{
    TIDE_CLEANUP(tide_cli_colony_done) tide_cli_colony colony = {.store = NULL};
    ProtobufCMessage *response = NULL;
    TIDE_TRY(tide_cli_colony_open(cli, &colony, TIDE_STORE_EXISTING, false, err));
    TIDE_TRY(tide_cli_colony_call(&colony, method, request, &tidemark__colony__v1__gap__descriptor,
                                  &response, err));
    COLONY(Gap) *gap = (COLONY(Gap) *)response;
    const tide_status status = print_gaps(cli, &gap, 1, err);
    protobuf_c_message_free_unpacked(response, NULL);
    return status;
}

static tide_status show_gap(tide_cli *cli, tide_error *err)
{
    COLONY(GetGapRequest) request = COLONY_INIT(GET_GAP_REQUEST);
    TIDE_TRY(tide_cli_parse_number(&request.id, cli->args[0], "ID", 1, INT64_MAX, err));
    return act(cli, "GetGap", &request.base, err);
}

static tide_status retry_gap(tide_cli *cli, tide_error *err)
{
    COLONY(RetryGapRequest) request = COLONY_INIT(RETRY_GAP_REQUEST);
    TIDE_TRY(tide_cli_parse_number(&request.id, cli->args[0], "ID", 1, INT64_MAX, err));
    return act(cli, "RetryGap", &request.base, err);
}

static tide_status accept_gap(tide_cli *cli, tide_error *err)
{
    COLONY(AcceptGapRequest) request = COLONY_INIT(ACCEPT_GAP_REQUEST);
    const char *why = tide_cli_text(cli, TIDE_CLI_WHY);
    TIDE_TRY(tide_cli_parse_number(&request.id, cli->args[0], "ID", 1, INT64_MAX, err));
    if (why)
        request.note = (char *)why;
    return act(cli, "AcceptGap", &request.base, err);
}

/* ---- incidents ---- */

static tide_status print_incidents(tide_cli *cli, const COLONY(ListIncidentsResponse) * answer,
                                   tide_error *err)
{
    tide_cli_table table;
    tide_cli_table_begin(&table, &cli->out, "BEGAN,ENDED,AGENTS#,GAPS#,NUMBERS#,LOST#");
    for (size_t i = 0; i < answer->n_incidents; i++) {
        const COLONY(Incident) *row = answer->incidents[i];
        if (cli->out.is_json) {
            TIDE_TRY(tide_cli_print_message(&cli->out, &row->base, err));
            continue;
        }
        tide_cli_table_time(&table, row->began_at);
        tide_cli_table_time(&table, row->ended_at);
        tide_cli_table_number(&table, (int64_t)row->n_agents);
        tide_cli_table_number(&table, row->gaps);
        tide_cli_table_number(&table, (int64_t)row->numbers);
        tide_cli_table_number(&table, (int64_t)row->lost);
    }
    return tide_cli_table_done(&table, err);
}

static tide_status list_incidents(tide_cli *cli, tide_error *err)
{
    TIDE_CLEANUP(tide_cli_colony_done) tide_cli_colony colony = {.store = NULL};
    ProtobufCMessage *response = NULL;
    COLONY(ListIncidentsRequest) request = COLONY_INIT(LIST_INCIDENTS_REQUEST);
    tide_env *env = tide_env_system();
    TIDE_TRY(tide_cli_time(cli, TIDE_CLI_SINCE, env->wall_us(env), &request.since, err));
    TIDE_TRY(tide_cli_colony_open(cli, &colony, TIDE_STORE_EXISTING, false, err));
    TIDE_TRY(tide_cli_colony_call(&colony, "ListIncidents", &request.base,
                                  &tidemark__colony__v1__list_incidents_response__descriptor,
                                  &response, err));
    const tide_status status =
        print_incidents(cli, (const COLONY(ListIncidentsResponse) *)response, err);
    protobuf_c_message_free_unpacked(response, NULL);
    return status;
}

static const tide_cli_verb verbs[] = {
    {.name = "ls",
     .takes = TIDE_CLI_LIST(AGENT, DATA_TYPE, STATUS, LIMIT, TIDE_CLI_COLONY_OPTIONS),
     .overrides = TIDE_CLI_OVERRIDES(TIDE_CLI_COLONY_TOKEN, {.id = TIDE_CLI_AGENT, .max = 1},
                                     {.id = TIDE_CLI_LIMIT, .fallback = "1000", .max = 9999}),
     .summary = "list gaps: which numbers, since when, what became of them",
     .run = list_gaps},
    {.name = "show",
     .arguments = "ID",
     .takes = TIDE_CLI_LIST(TIDE_CLI_COLONY_OPTIONS),
     .overrides = TIDE_CLI_OVERRIDES(TIDE_CLI_COLONY_TOKEN),
     .summary = "tell everything about one gap",
     .run = show_gap},
    {.name = "retry",
     .arguments = "ID",
     .takes = TIDE_CLI_LIST(TIDE_CLI_COLONY_OPTIONS),
     .overrides = TIDE_CLI_OVERRIDES(TIDE_CLI_COLONY_TOKEN),
     .summary = "ask the agent for it again",
     .run = retry_gap},
    {.name = "accept",
     .arguments = "ID",
     .takes = TIDE_CLI_LIST(WHY, TIDE_CLI_COLONY_OPTIONS),
     .overrides = TIDE_CLI_OVERRIDES(TIDE_CLI_COLONY_TOKEN),
     .summary = "give it up: the numbers are lost, and the reason is an operator's",
     .run = accept_gap},
    {.name = "incidents",
     .takes = TIDE_CLI_LIST(SINCE, TIDE_CLI_COLONY_OPTIONS),
     .overrides = TIDE_CLI_OVERRIDES(TIDE_CLI_COLONY_TOKEN),
     .summary = "list what happened to several agents within a minute",
     .run = list_incidents},
    {.name = NULL},
};

const tide_cli_command tide_cli_gaps = {
    .name = "gaps",
    .summary = "Gaps: numbers that are missing, and why.",
    .verbs = verbs,
};
