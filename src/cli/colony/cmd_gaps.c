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

static tide_status print_page(tide_cli *cli, const ProtobufCMessage *response, tide_error *err)
{
    const COLONY(ListGapsResponse) *answer = (const COLONY(ListGapsResponse) *)response;
    TIDE_TRY(print_gaps(cli, answer->gaps, answer->n_gaps, err));
    if (answer->more && !cli->out.is_json)
        tide_cli_print(stderr, "there are more: --limit N\n");
    return TIDE_OK;
}

static tide_status list_gaps(tide_cli *cli, tide_error *err)
{
    COLONY(ListGapsRequest) request = COLONY_INIT(LIST_GAPS_REQUEST);
    char *status_name = (char *)tide_cli_text(cli, TIDE_CLI_STATUS);
    request.agent_id = tide_cli_colony_text(tide_cli_text(cli, TIDE_CLI_AGENT));
    request.data_type = tide_cli_colony_text(tide_cli_text(cli, TIDE_CLI_DATA_TYPE));
    request.statuses = &status_name;
    request.n_statuses = status_name ? 1 : 0;
    request.limit = (int32_t)tide_cli_number(cli, TIDE_CLI_LIMIT);
    return tide_cli_colony_ask(cli, "ListGaps", &request.base,
                               &tidemark__colony__v1__list_gaps_response__descriptor, print_page,
                               err);
}

static tide_status print_one(tide_cli *cli, const ProtobufCMessage *response, tide_error *err)
{
    COLONY(Gap) *gap = (COLONY(Gap) *)response;
    return print_gaps(cli, &gap, 1, err);
}

static tide_status act(tide_cli *cli, const char *method, const ProtobufCMessage *request,
                       tide_error *err)
{
    return tide_cli_colony_ask(cli, method, request, &tidemark__colony__v1__gap__descriptor,
                               print_one, err);
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
    TIDE_TRY(tide_cli_parse_number(&request.id, cli->args[0], "ID", 1, INT64_MAX, err));
    request.note = tide_cli_colony_text(tide_cli_text(cli, TIDE_CLI_WHY));
    return act(cli, "AcceptGap", &request.base, err);
}

/* ---- incidents ---- */

static tide_status print_incidents(tide_cli *cli, const ProtobufCMessage *response, tide_error *err)
{
    const COLONY(ListIncidentsResponse) *answer = (const COLONY(ListIncidentsResponse) *)response;
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
    COLONY(ListIncidentsRequest) request = COLONY_INIT(LIST_INCIDENTS_REQUEST);
    tide_env *env = tide_env_system();
    TIDE_TRY(tide_cli_time(cli, TIDE_CLI_SINCE, env->wall_us(env), &request.since, err));
    return tide_cli_colony_ask(cli, "ListIncidents", &request.base,
                               &tidemark__colony__v1__list_incidents_response__descriptor,
                               print_incidents, err);
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
