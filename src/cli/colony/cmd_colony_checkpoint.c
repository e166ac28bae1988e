/* cmd_colony_checkpoint.c - tidemark colony checkpoint ls|show|reset|set, and audit. */
#include <string.h>

#include "base/cleanup.h"
#include "cli/colony/cmd_colony.h"
#include "cli/colony/colony_store.h"
#include "cli/frame/value.h"
#include "cli/print/message_output.h"

/* ---- printing ---- */

static tide_status print_list(tide_cli *cli, COLONY(Checkpoint) * *rows, size_t count,
                              tide_error *err)
{
    tide_cli_table table;
    if (cli->out.is_json) {
        for (size_t i = 0; i < count; i++)
            TIDE_TRY(tide_cli_print_message(&cli->out, &rows[i]->base, err));
        return TIDE_OK;
    }
    tide_cli_table_begin(&table, &cli->out,
                         "AGENT,TYPE,SESSION,EPOCH#,FIRST#,HEAD#,STORED#,DEAD#,FILTERED#,VOID#,"
                         "LOST#,PENDING#,DIGEST,BALANCED,FINDING");
    for (size_t i = 0; i < count; i++) {
        const COLONY(Checkpoint) *row = rows[i];
        tide_cli_table_cell(&table, row->agent_id);
        tide_cli_table_cell(&table, row->data_type);
        tide_cli_table_view(&table, tide_view_bytes(row->session_id, strnlen(row->session_id, 8)));
        tide_cli_table_number(&table, (int64_t)row->epoch);
        tide_cli_table_number(&table, (int64_t)row->last_seq_id);
        tide_cli_table_number(&table, (int64_t)row->books->head);
        tide_cli_table_number(&table, (int64_t)row->books->pending);
        tide_cli_table_number(&table, (int64_t)row->books->lost);
        tide_cli_table_time(&table, row->last_poll_time ? row->last_poll_time : INT64_MAX);
        tide_cli_table_cell(&table, *row->closed_reason ? row->closed_reason : NULL);
    }
    return tide_cli_table_done(&table, err);
}

/* ---- looking ---- */

static tide_status list(tide_cli *cli, const char *agent_id, const char *data_type, bool needs_one,
                        tide_error *err)
{
    TIDE_CLEANUP(tide_cli_colony_done) tide_cli_colony colony = {.store = NULL};
    ProtobufCMessage *response = NULL;
    COLONY(ListCheckpointsRequest) request = COLONY_INIT(LIST_CHECKPOINTS_REQUEST);
    if (agent_id)
        request.agent_id = (char *)agent_id;
    if (data_type)
        request.data_type = (char *)data_type;
    request.with_closed = tide_cli_is_given(cli, TIDE_CLI_CLOSED);
    TIDE_TRY(tide_cli_colony_open(cli, &colony, TIDE_STORE_EXISTING, false, err));
    TIDE_TRY(tide_cli_colony_call(&colony, "ListCheckpoints", &request.base,
                                  &tidemark__colony__v1__list_checkpoints_response__descriptor,
                                  &response, err));
    const COLONY(ListCheckpointsResponse) *answer =
        (const COLONY(ListCheckpointsResponse) *)response;
    tide_status status = print_list(cli, answer->checkpoints, answer->n_checkpoints, err);
    if (status >= TIDE_OK && needs_one && answer->n_checkpoints == 0)
        status = tide_fail(err, TIDE_NONE, "there is no checkpoint of '%s' and '%s'", agent_id,
                           data_type);
    protobuf_c_message_free_unpacked(response, NULL);
    return status;
}

tide_status tide_cli_colony_checkpoint_list(tide_cli *cli, tide_error *err)
{
    return list(cli, cli->arg_count > 0 ? cli->args[0] : NULL,
                cli->arg_count > 1 ? cli->args[1] : NULL, false, err);
}

tide_status tide_cli_colony_checkpoint_show(tide_cli *cli, tide_error *err)
{
    return list(cli, cli->args[0], cli->args[1], true, err);
}

/* ---- changing ---- */

static tide_status open_links(tide_cli *cli, tide_cli_colony *colony, tide_error *err)
{
    const tide_scheduler_security security = tide_cli_colony_security(cli);
    TIDE_TRY(tide_agent_clients_open(&colony->links, &security, NULL, tide_env_system(), err));
    colony->colony.links = colony->links;
    return TIDE_OK;
}

static tide_status change(tide_cli *cli, const char *method, const ProtobufCMessage *request,
                          bool asks_agent, tide_error *err)
{
    TIDE_CLEANUP(tide_cli_colony_done) tide_cli_colony colony = {.store = NULL};
    ProtobufCMessage *response = NULL;
    TIDE_TRY(tide_cli_colony_open(cli, &colony, TIDE_STORE_EXISTING, false, err));
    if (asks_agent && !colony.remote)
        TIDE_TRY(open_links(cli, &colony, err));
    TIDE_TRY(tide_cli_colony_call(&colony, method, request,
                                  &tidemark__colony__v1__change_checkpoints_response__descriptor,
                                  &response, err));
    const COLONY(ChangeCheckpointsResponse) *answer =
        (const COLONY(ChangeCheckpointsResponse) *)response;
    const tide_status status = print_list(cli, answer->checkpoints, answer->n_checkpoints, err);
    protobuf_c_message_free_unpacked(response, NULL);
    return status;
}

tide_status tide_cli_colony_checkpoint_reset(tide_cli *cli, tide_error *err)
{
    COLONY(ResetCheckpointsRequest) request = COLONY_INIT(RESET_CHECKPOINTS_REQUEST);
    if (cli->arg_count > 0)
        request.agent_id = (char *)cli->args[0];
    if (cli->arg_count > 1)
        request.data_type = (char *)cli->args[1];
    request.all = tide_cli_is_given(cli, TIDE_CLI_ALL);
    if (cli->arg_count == 0 && !request.all)
        return tide_fail(err, TIDE_E_INVALID, "which checkpoints? name an agent, or say --all");
    return change(cli, "ResetCheckpoints", &request.base, false, err);
}

tide_status tide_cli_colony_checkpoint_set(tide_cli *cli, tide_error *err)
{
    int64_t number = 0;
    COLONY(MoveCheckpointRequest) request = COLONY_INIT(MOVE_CHECKPOINT_REQUEST);
    TIDE_TRY(tide_cli_parse_number(&number, cli->args[2], "NUMBER", 0, INT64_MAX, err));
    request.agent_id = (char *)cli->args[0];
    request.data_type = (char *)cli->args[1];
    request.seq_id = (uint64_t)number;
    return change(cli, "MoveCheckpoint", &request.base, true, err);
}

/* ---- audit ---- */

static tide_status print_audit(tide_cli *cli, const COLONY(AuditResponse) * answer, tide_error *err)
{
    tide_cli_table table;
    if (cli->out.is_json) {
        for (size_t i = 0; i < answer->n_lines; i++)
            TIDE_TRY(tide_cli_print_message(&cli->out, &answer->lines[i]->base, err));
        return TIDE_OK;
    }
    tide_cli_table_begin(&table, &cli->out,
                         "AGENT,TYPE,SESSION,EPOCH#,FIRST#,HEAD#,STORED#,DEAD#,FILTERED#,VOID#,"
                         "LOST#,PENDING#,DIGEST,BALANCED,FINDING");
    for (size_t i = 0; i < answer->n_lines; i++) {
        const COLONY(AuditLine) *line = answer->lines[i];
        const COLONY(Books) *books = line->books;
        const uint64_t numbers[] = {line->epoch,   books->first, books->head,
                                    books->stored, books->dead,  books->filtered,
                                    books->void_,  books->lost,  books->pending};
        tide_cli_table_cell(&table, line->agent_id);
        tide_cli_table_cell(&table, line->data_type);
        tide_cli_table_view(&table,
                            tide_view_bytes(line->session_id, strnlen(line->session_id, 8)));
        for (size_t j = 0; j < sizeof numbers / sizeof numbers[0]; j++)
            tide_cli_table_number(&table, (int64_t)numbers[j]);
        tide_cli_table_cell(&table, line->digest);
        tide_cli_table_cell(&table, line->balanced ? "yes" : "NO");
        tide_cli_table_cell(&table, *line->finding ? line->finding : NULL);
    }
    return tide_cli_table_done(&table, err);
}

tide_status tide_cli_colony_audit(tide_cli *cli, tide_error *err)
{
    TIDE_CLEANUP(tide_cli_colony_done) tide_cli_colony colony = {.store = NULL};
    ProtobufCMessage *response = NULL;
    COLONY(AuditRequest) request = COLONY_INIT(AUDIT_REQUEST);
    const char *agent_id = tide_cli_text(cli, TIDE_CLI_AGENT);
    const char *data_type = tide_cli_text(cli, TIDE_CLI_DATA_TYPE);
    if (agent_id)
        request.agent_id = (char *)agent_id;
    if (data_type)
        request.data_type = (char *)data_type;
    request.without_agents = tide_cli_is_given(cli, TIDE_CLI_OFFLINE);
    TIDE_TRY(tide_cli_colony_open(cli, &colony, TIDE_STORE_EXISTING, false, err));
    if (!request.without_agents && !colony.remote)
        TIDE_TRY(open_links(cli, &colony, err));
    TIDE_TRY(tide_cli_colony_call(&colony, "Audit", &request.base,
                                  &tidemark__colony__v1__audit_response__descriptor, &response,
                                  err));
    const COLONY(AuditResponse) *answer = (const COLONY(AuditResponse) *)response;
    tide_status status = print_audit(cli, answer, err);
    if (status >= TIDE_OK && !answer->balanced)
        status = tide_fail(err, TIDE_E_DAMAGED, "the books do not close");
    protobuf_c_message_free_unpacked(response, NULL);
    return status;
}
