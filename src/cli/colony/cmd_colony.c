/* cmd_colony.c - tidemark colony: the daemon, one pass without it, and what they know. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/cleanup.h"
#include "base/file.h"
#include "base/list.h"
#include "cli/colony/colony_store.h"
#include "cli/frame/cli.h"
#include "cli/frame/listener_options.h"
#include "cli/print/message_output.h"
#include "colony/registry.h"
#include "services/colony/daemon.h"
#include "services/colony/store_wait.h"
#include "store/url.h"

/* ---- lists of agents ----
 *
 * --agent NAME=ADDRESS, and --agents FILE with NAME ADDRESS (or NAME=ADDRESS) per line, # for
 * comments. All are read and checked before the first is stored: one that is wrong, or two of one
 * name, and nothing has changed. */

typedef struct tide_cli_agents {
    tide_arena texts;
    tide_agent_given *items;
    int count;
} tide_cli_agents;

enum { FILE_MAX = 8 << 20, TEXTS_MAX = 64 << 20 };

static void cli_agents_done(tide_cli_agents *agents)
{
    tide_arena_done(&agents->texts);
    free(agents->items);
    agents->items = NULL;
}

/* ---- one agent ---- */

static tide_status add(tide_cli_agents *agents, tide_view name, tide_view address,
                       const char *origin, tide_error *err)
{
    TIDE_TRY(
        tide_list_room(&agents->items, agents->count, sizeof *agents->items, TIDE_LIST_MAX, err));
    const tide_agent_given agent = {.agent_id = tide_arena_text(&agents->texts, name),
                                    .address = tide_arena_text(&agents->texts, address),
                                    .origin = origin};
    TIDE_NEED_MEMORY(agent.agent_id && agent.address, err);
    TIDE_TRY(tide_registry_check(agent.agent_id, agent.address, err));
    agents->items[agents->count++] = agent;
    return TIDE_OK;
}

static tide_status add_option(tide_cli_agents *agents, const char *text, tide_error *err)
{
    const char *equals = strchr(text, '=');
    if (!equals || equals == text || !equals[1])
        return tide_fail(err, TIDE_E_INVALID, "--agent wants NAME=HOST:PORT, not '%s'", text);
    return add(agents, tide_view_bytes(text, (size_t)(equals - text)), tide_view_of(equals + 1),
               "option", err);
}

/* ---- a file of them ---- */

static tide_status add_line(tide_cli_agents *agents, tide_view line, tide_error *err)
{
    static const char blanks[] = " \t\r";
    const char *at = line.ptr;
    const char *end = memchr(at, '#', line.len);
    end = end ? end : at + line.len;
    while (at < end && strchr(blanks, *at))
        at++;
    while (at < end && strchr(blanks, end[-1]))
        end--;
    if (at == end)
        return TIDE_OK;
    const char *name_end = at;
    while (name_end < end && *name_end != '=' && !strchr(blanks, *name_end))
        name_end++;
    const char *address = name_end;
    while (address < end && strchr(blanks, *address))
        address++;
    if (address < end && *address == '=')
        address++;
    while (address < end && strchr(blanks, *address))
        address++;
    if (address == end)
        return tide_fail(err, TIDE_E_INVALID, "'%.*s' has no address: NAME HOST:PORT",
                         (int)(name_end - at), at);
    return add(agents, tide_view_bytes(at, (size_t)(name_end - at)),
               tide_view_bytes(address, (size_t)(end - address)), "file", err);
}

static tide_status add_file(tide_cli_agents *agents, const char *path, tide_error *err)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer text = tide_buffer_of(FILE_MAX);
    TIDE_TRY(tide_file_read(&text, path, err));
    const char *at = tide_buffer_text(&text);
    const char *end = at + text.len;
    if (memchr(at, '\0', text.len))
        return tide_fail(err, TIDE_E_INVALID, "%s has a NUL in it", path);
    for (int number = 1; at < end; number++) {
        const char *line_end = memchr(at, '\n', (size_t)(end - at));
        line_end = line_end ? line_end : end;
        const tide_status status =
            add_line(agents, tide_view_bytes(at, (size_t)(line_end - at)), err);
        if (status < TIDE_OK)
            return tide_fail_context(err, status, "%s:%d", path, number);
        at = line_end + 1;
    }
    return TIDE_OK;
}

/* ---- all ---- */

static int compare_names(const void *a, const void *b)
{
    return strcmp(((const tide_agent_given *)a)->agent_id, ((const tide_agent_given *)b)->agent_id);
}

static tide_status check_names(tide_cli_agents *agents, tide_error *err)
{
    if (agents->count > 1)
        qsort(agents->items, (size_t)agents->count, sizeof *agents->items, compare_names);
    for (int i = 1; i < agents->count; i++)
        if (strcmp(agents->items[i - 1].agent_id, agents->items[i].agent_id) == 0)
            return tide_fail(err, TIDE_E_INVALID, "the agent '%s' is given twice",
                             agents->items[i].agent_id);
    return TIDE_OK;
}

/* To be given back also after a failure. TIDE_E_INVALID, in words. */
static tide_status cli_agents_read(tide_cli_agents *out, const tide_cli *cli, tide_error *err)
{
    const tide_cli_values given = tide_cli_list(cli, TIDE_CLI_AGENT);
    const char *file = tide_cli_text(cli, TIDE_CLI_AGENTS);
    *out = (tide_cli_agents){.count = 0};
    tide_arena_init(&out->texts, TEXTS_MAX);
    for (int i = 0; i < given.count; i++)
        TIDE_TRY(add_option(out, given.items[i], err));
    if (file)
        TIDE_TRY(add_file(out, file, err));
    return check_names(out, err);
}

/* Into the registry, where they stay. */
static tide_status cli_agents_put(const tide_cli_agents *agents, tide_store *store, tide_error *err)
{
    return tide_registry_put_all(store, agents->items, agents->count, err);
}

/* ---- agents ---- */

static tide_status print_agent(tide_cli *cli, const ProtobufCMessage *response, const char *result,
                               tide_error *err)
{
    if (cli->out.is_json)
        return tide_cli_print_message(&cli->out, response, err);
    tide_cli_print(cli->out.file, "%s: %s\n", ((const COLONY(Agent) *)response)->agent_id, result);
    return TIDE_OK;
}

static tide_status print_added(tide_cli *cli, const ProtobufCMessage *response, tide_error *err)
{
    return print_agent(cli, response, "is polled", err);
}

static tide_status cli_colony_agent_add(tide_cli *cli, tide_error *err)
{
    COLONY(PutAgentRequest) request = COLONY_INIT(PUT_AGENT_REQUEST);
    request.agent_id = (char *)cli->args[0];
    request.address = (char *)cli->args[1];
    return tide_cli_colony_ask_with(cli, TIDE_STORE_CREATE, false, "PutAgent", &request.base,
                                    &tidemark__colony__v1__agent__descriptor, print_added, err);
}

static tide_status print_removed(tide_cli *cli, const ProtobufCMessage *response, tide_error *err)
{
    return print_agent(cli, response, "is polled no more", err);
}

static tide_status cli_colony_agent_remove(tide_cli *cli, tide_error *err)
{
    COLONY(RemoveAgentRequest) request = COLONY_INIT(REMOVE_AGENT_REQUEST);
    request.agent_id = (char *)cli->args[0];
    return tide_cli_colony_ask(cli, "RemoveAgent", &request.base,
                               &tidemark__colony__v1__agent__descriptor, print_removed, err);
}

static tide_status print_all(tide_cli *cli, const ProtobufCMessage *response, tide_error *err)
{
    const COLONY(ListAgentsResponse) *list = (const COLONY(ListAgentsResponse) *)response;
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

static tide_status cli_colony_agent_list(tide_cli *cli, tide_error *err)
{
    COLONY(ListAgentsRequest) request = COLONY_INIT(LIST_AGENTS_REQUEST);
    request.with_removed = tide_cli_is_given(cli, TIDE_CLI_ALL);
    return tide_cli_colony_ask(cli, "ListAgents", &request.base,
                               &tidemark__colony__v1__list_agents_response__descriptor, print_all,
                               err);
}

/* ---- positions ---- */

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
                         "AGENT,TYPE,SESSION,EPOCH#,AT#,HEAD#,PENDING#,LOST#,POLLED,CLOSED");
    for (size_t i = 0; i < count; i++) {
        const COLONY(Checkpoint) *row = rows[i];
        tide_cli_table_cell(&table, row->agent_id);
        tide_cli_table_cell(&table, row->data_type);
        tide_cli_table_view(&table, tide_view_bytes(row->session_id, strnlen(row->session_id, 8)));
        tide_cli_table_number(&table, (int64_t)row->epoch);
        tide_cli_table_number(&table, (int64_t)row->last_seq_id);
        tide_cli_table_number(&table, (int64_t)row->ledger->head);
        tide_cli_table_number(&table, (int64_t)row->ledger->pending);
        tide_cli_table_number(&table, (int64_t)row->ledger->lost);
        tide_cli_table_time(&table, row->last_poll_time ? row->last_poll_time : INT64_MAX);
        tide_cli_table_cell(&table, *row->closed_reason ? row->closed_reason : NULL);
    }
    return tide_cli_table_done(&table, err);
}

/* ---- looking ---- */

static tide_status print_found(tide_cli *cli, const ProtobufCMessage *response, tide_error *err)
{
    const COLONY(ListCheckpointsResponse) *answer =
        (const COLONY(ListCheckpointsResponse) *)response;
    return print_list(cli, answer->checkpoints, answer->n_checkpoints, err);
}

static tide_status print_one(tide_cli *cli, const ProtobufCMessage *response, tide_error *err)
{
    if (((const COLONY(ListCheckpointsResponse) *)response)->n_checkpoints > 0)
        return print_found(cli, response, err);
    return tide_fail(err, TIDE_NONE, "there is no checkpoint of '%s' and '%s'", cli->args[0],
                     cli->args[1]);
}

static tide_status look(tide_cli *cli, tide_cli_colony_fn *fn, tide_error *err)
{
    COLONY(ListCheckpointsRequest) request = COLONY_INIT(LIST_CHECKPOINTS_REQUEST);
    request.agent_id = tide_cli_colony_text(cli->arg_count > 0 ? cli->args[0] : NULL);
    request.data_type = tide_cli_colony_text(cli->arg_count > 1 ? cli->args[1] : NULL);
    request.with_closed = tide_cli_is_given(cli, TIDE_CLI_CLOSED);
    return tide_cli_colony_ask(cli, "ListCheckpoints", &request.base,
                               &tidemark__colony__v1__list_checkpoints_response__descriptor, fn,
                               err);
}

static tide_status cli_colony_checkpoint_list(tide_cli *cli, tide_error *err)
{
    return look(cli, print_found, err);
}

static tide_status cli_colony_checkpoint_show(tide_cli *cli, tide_error *err)
{
    return look(cli, print_one, err);
}

/* ---- changing ---- */

static tide_status print_changed(tide_cli *cli, const ProtobufCMessage *response, tide_error *err)
{
    const COLONY(ChangeCheckpointsResponse) *answer =
        (const COLONY(ChangeCheckpointsResponse) *)response;
    return print_list(cli, answer->checkpoints, answer->n_checkpoints, err);
}

static tide_status change_checkpoint(tide_cli *cli, const char *method,
                                     const ProtobufCMessage *request, bool asks_agent,
                                     tide_error *err)
{
    return tide_cli_colony_ask_with(cli, TIDE_STORE_EXISTING, asks_agent, method, request,
                                    &tidemark__colony__v1__change_checkpoints_response__descriptor,
                                    print_changed, err);
}

static tide_status cli_colony_checkpoint_reset(tide_cli *cli, tide_error *err)
{
    COLONY(ResetCheckpointsRequest) request = COLONY_INIT(RESET_CHECKPOINTS_REQUEST);
    request.agent_id = tide_cli_colony_text(cli->arg_count > 0 ? cli->args[0] : NULL);
    request.data_type = tide_cli_colony_text(cli->arg_count > 1 ? cli->args[1] : NULL);
    request.all = tide_cli_is_given(cli, TIDE_CLI_ALL);
    if (cli->arg_count == 0 && !request.all)
        return tide_fail(err, TIDE_E_INVALID, "which checkpoints? name an agent, or say --all");
    return change_checkpoint(cli, "ResetCheckpoints", &request.base, true, err);
}

static tide_status cli_colony_checkpoint_set(tide_cli *cli, tide_error *err)
{
    int64_t number = 0;
    COLONY(MoveCheckpointRequest) request = COLONY_INIT(MOVE_CHECKPOINT_REQUEST);
    TIDE_TRY(tide_cli_parse_number(&number, cli->args[2], "NUMBER", 0, INT64_MAX, err));
    request.agent_id = (char *)cli->args[0];
    request.data_type = (char *)cli->args[1];
    request.seq_id = (uint64_t)number;
    return change_checkpoint(cli, "MoveCheckpoint", &request.base, true, err);
}

/* ---- audit ---- */

static tide_status print_audit(tide_cli *cli, const ProtobufCMessage *response, tide_error *err)
{
    const COLONY(AuditResponse) *answer = (const COLONY(AuditResponse) *)response;
    tide_cli_table table;
    for (size_t i = 0; i < answer->n_lines && cli->out.is_json; i++)
        TIDE_TRY(tide_cli_print_message(&cli->out, &answer->lines[i]->base, err));
    tide_cli_table_begin(&table, &cli->out,
                         "AGENT,TYPE,SESSION,EPOCH#,FIRST#,HEAD#,STORED#,DEAD#,FILTERED#,VOID#,"
                         "LOST#,PENDING#,DIGEST,BALANCED,FINDING");
    for (size_t i = 0; i < answer->n_lines && !cli->out.is_json; i++) {
        const COLONY(AuditLine) *line = answer->lines[i];
        const COLONY(Ledger) *ledger = line->ledger;
        const uint64_t numbers[] = {line->epoch,    ledger->first, ledger->head,
                                    ledger->stored, ledger->dead,  ledger->filtered,
                                    ledger->void_,  ledger->lost,  ledger->pending};
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
    TIDE_TRY(tide_cli_table_done(&table, err));
    return answer->balanced ? TIDE_OK
                            : tide_fail(err, TIDE_E_DAMAGED, "the ledger does not balance");
}

static tide_status cli_colony_audit(tide_cli *cli, tide_error *err)
{
    COLONY(AuditRequest) request = COLONY_INIT(AUDIT_REQUEST);
    request.agent_id = tide_cli_colony_text(tide_cli_text(cli, TIDE_CLI_AGENT));
    request.data_type = tide_cli_colony_text(tide_cli_text(cli, TIDE_CLI_DATA_TYPE));
    request.without_agents = tide_cli_is_given(cli, TIDE_CLI_OFFLINE);
    return tide_cli_colony_ask_with(
        cli, TIDE_STORE_EXISTING, !request.without_agents, "Audit", &request.base,
        &tidemark__colony__v1__audit_response__descriptor, print_audit, err);
}

/* ---- repair ---- */

static tide_status print_repaired(tide_cli *cli, const ProtobufCMessage *response, tide_error *err)
{
    const COLONY(RepairResponse) *answer = (const COLONY(RepairResponse) *)response;
    tide_cli_table table;
    for (size_t i = 0; i < answer->n_lines && cli->out.is_json; i++)
        TIDE_TRY(tide_cli_print_message(&cli->out, &answer->lines[i]->base, err));
    tide_cli_table_begin(&table, &cli->out, "AGENT,TYPE,RESTORED#,MISSING#,REASON");
    for (size_t i = 0; i < answer->n_lines && !cli->out.is_json; i++) {
        const COLONY(RepairLine) *line = answer->lines[i];
        tide_cli_table_cell(&table, line->agent_id);
        tide_cli_table_cell(&table, line->data_type);
        tide_cli_table_number(&table, (int64_t)line->restored);
        tide_cli_table_number(&table, (int64_t)line->missing);
        tide_cli_table_cell(&table, *line->reason ? line->reason : NULL);
    }
    TIDE_TRY(tide_cli_table_done(&table, err));
    return answer->whole
               ? TIDE_OK
               : tide_fail(err, TIDE_E_DAMAGED, "rows are missing, and no agent has them");
}

static tide_status cli_colony_repair(tide_cli *cli, tide_error *err)
{
    COLONY(RepairRequest) request = COLONY_INIT(REPAIR_REQUEST);
    request.agent_id = tide_cli_colony_text(tide_cli_text(cli, TIDE_CLI_AGENT));
    return tide_cli_colony_ask_with(cli, TIDE_STORE_EXISTING, true, "Repair", &request.base,
                                    &tidemark__colony__v1__repair_response__descriptor,
                                    print_repaired, err);
}

/* ---- the daemon ---- */

static tide_scheduler_options get_scheduler(tide_cli *cli, const tide_cli_colony *colony,
                                            const char *colony_id)
{
    return (tide_scheduler_options){.sink = colony->sink,
                                    .colony_id = colony_id,
                                    .security = tide_cli_colony_security(cli),
                                    .worker_count = (int)tide_cli_number(cli, TIDE_CLI_WORKERS),
                                    .budget_bytes = tide_cli_number(cli, TIDE_CLI_BUDGET),
                                    .lease_us = tide_cli_number(cli, TIDE_CLI_LEASE),
                                    .grace_us = tide_cli_number(cli, TIDE_CLI_GRACE),
                                    .recover_us = tide_cli_number(cli, TIDE_CLI_RECOVER_EVERY),
                                    .attempt_max = (int)tide_cli_number(cli, TIDE_CLI_ATTEMPTS)};
}

/* Two colonies of one machine are two: HOST-PID where nobody says. */
static void name_colony(tide_cli *cli, char out[TIDE_COLONY_ID_MAX + 1])
{
    char host[64];
    const char *given = tide_cli_text(cli, TIDE_CLI_NAME);
    tide_cli_host_name(host, sizeof host);
    if (given)
        (void)snprintf(out, TIDE_COLONY_ID_MAX + 1, "%s", given);
    else
        (void)snprintf(out, TIDE_COLONY_ID_MAX + 1, "%s-%d", host, (int)getpid());
}

typedef struct opening {
    tide_cli *cli;
    tide_cli_colony *colony;
    const tide_cli_agents *agents;
} opening;

static tide_status open_colony(void *arg, tide_error *err)
{
    const opening *o = arg;
    tide_cli_colony_done(o->colony); /* of an attempt that failed half-way */
    *o->colony = (tide_cli_colony){.store = NULL};
    TIDE_TRY(tide_cli_colony_open(o->cli, o->colony, TIDE_STORE_CREATE, true, err));
    return cli_agents_put(o->agents, o->colony->store, err);
}

/* A store that is away is waited for, with the status served. *is_open false: a signal ended it. */
static tide_status open_or_wait(opening *o, tide_listener_options *listener, bool *is_open,
                                tide_error *err)
{
    const tide_status status = open_colony(o, err);
    *is_open = status >= TIDE_OK;
    if (*is_open || !tide_store_wait_is_away(status))
        return status;
    tide_error away = *err;
    *err = (tide_error){.status = TIDE_OK};
    TIDE_CLEANUP(tide_freep)
    char *name = tide_store_url_redact(tide_cli_text(o->cli, TIDE_CLI_STORE));
    TIDE_NEED_MEMORY(name, err);
    TIDE_TRY(tide_store_wait_run(&(tide_store_wait){.listener = listener,
                                                    .open_store = open_colony,
                                                    .arg = o,
                                                    .store = name,
                                                    .reason = away.text},
                                 is_open, err));
    listener->is_resumed = true;
    return TIDE_OK;
}

static tide_status run(tide_cli *cli, tide_error *err)
{
    tide_log log;
    char colony_id[TIDE_COLONY_ID_MAX + 1];
    char export_dir[PATH_MAX];
    tide_colony_options options = {.address_file = NULL};
    TIDE_TRY(tide_cli_listener_options(cli, &log, &options.listener, err));
    options.listener.ports[0] =
        (tide_listener_port){.name = "http", .address = tide_cli_text(cli, TIDE_CLI_HTTP)};
    options.listener.port_count = 1;
    if (tide_cli_text(cli, TIDE_CLI_GRPC))
        options.listener.ports[options.listener.port_count++] =
            (tide_listener_port){.name = "grpc", .address = tide_cli_text(cli, TIDE_CLI_GRPC)};
    TIDE_CLEANUP(cli_agents_done) tide_cli_agents agents;
    TIDE_CLEANUP(tide_cli_colony_done) tide_cli_colony colony = {.store = NULL};
    TIDE_TRY(cli_agents_read(&agents, cli, err));
    TIDE_TRY(tide_cli_export_dir(cli, export_dir, err));
    tide_cli_block_signals();
    opening o = {.cli = cli, .colony = &colony, .agents = &agents};
    bool is_open = false;
    const tide_status opened = open_or_wait(&o, &options.listener, &is_open, err);
    if (opened < TIDE_OK || !is_open)
        return tide_cli_after_serving(opened);
    name_colony(cli, colony_id);
    options.listener.store = colony.store;
    options.scheduler = get_scheduler(cli, &colony, colony_id);
    options.scheduler.env = options.listener.env;
    options.scheduler.log = &log;
    options.duckdb_library = tide_cli_text(cli, TIDE_CLI_DUCKDB_LIBRARY);
    options.export_dir = *export_dir ? export_dir : NULL;
    options.is_sql_trusted = tide_cli_is_given(cli, TIDE_CLI_TRUSTED_SQL);
    options.address_file = colony.address_file[0] ? colony.address_file : NULL;
    return tide_cli_after_serving(tide_colony_run(&options, err));
}

/* ---- once ---- */

enum { POLL_WAIT_MS = 300000 }; /* for a daemon's pass */

static tide_status print_result(tide_cli *cli, const tide_scheduler_result *result, tide_error *err)
{
    if (!cli->out.is_json) {
        tide_cli_print(cli->out.file, "%d of %d agents caught up", result->caught_up,
                       result->agents);
        if (result->failed > 0)
            tide_cli_print(cli->out.file, ", %d failed (%s)", result->failed, result->failure);
        if (result->elsewhere > 0)
            tide_cli_print(cli->out.file, ", %d polled by another colony", result->elsewhere);
        tide_cli_print(cli->out.file, "\n");
        return TIDE_OK;
    }
    tide_cli_json_begin(&cli->out);
    tide_cli_json_i64(&cli->out, "agents", result->agents);
    tide_cli_json_i64(&cli->out, "caught_up", result->caught_up);
    tide_cli_json_i64(&cli->out, "failed", result->failed);
    tide_cli_json_i64(&cli->out, "elsewhere", result->elsewhere);
    tide_cli_json_text(&cli->out, "failure", result->failure[0] ? result->failure : NULL);
    return tide_cli_json_end(&cli->out, err);
}

/* By a scheduler of our own, for as long as it takes. */
static tide_status poll_here(tide_cli *cli, tide_cli_colony *colony, tide_scheduler_result *result,
                             tide_error *err)
{
    char colony_id[TIDE_COLONY_ID_MAX + 1];
    tide_log log;
    tide_log_init(&log, stderr, tide_env_system(), TIDE_LOG_LOGFMT, TIDE_LOG_WARN);
    name_colony(cli, colony_id);
    tide_scheduler_options options = get_scheduler(cli, colony, colony_id);
    options.log = &log;
    options.is_once = true;
    TIDE_CLEANUP(tide_ticker_freep) tide_ticker *ticker = NULL;
    TIDE_CLEANUP(tide_scheduler_closep) tide_scheduler *scheduler = NULL;
    const tide_ticker_options steps = {
        .steps = tide_scheduler_once_steps, .env = tide_env_system(), .log = &log};
    TIDE_TRY(tide_ticker_new(&ticker, &steps, err));
    options.ticker = ticker;
    TIDE_TRY(tide_scheduler_open(&scheduler, &options, err));
    const tide_status status = tide_ticker_start(ticker, err);
    if (status >= TIDE_OK)
        tide_scheduler_wait(scheduler, result);
    tide_ticker_stop(ticker);
    return status;
}

/* By the daemon that has the agents. */
static tide_status poll_there(tide_cli_colony *colony, tide_scheduler_result *result,
                              tide_error *err)
{
    ProtobufCMessage *response = NULL;
    COLONY(PollRequest) request = COLONY_INIT(POLL_REQUEST);
    request.wait_ms = POLL_WAIT_MS;
    TIDE_TRY(tide_cli_colony_call(colony, "Poll", &request.base,
                                  &tidemark__colony__v1__poll_response__descriptor, &response,
                                  err));
    const COLONY(PollResponse) *answer = (const COLONY(PollResponse) *)response;
    *result = (tide_scheduler_result){.agents = (int)answer->agents,
                                      .caught_up = (int)answer->caught_up,
                                      .failed = (int)answer->failed,
                                      .elsewhere = (int)answer->elsewhere};
    (void)snprintf(result->failure, sizeof result->failure, "%s", answer->failure);
    protobuf_c_message_free_unpacked(response, NULL);
    return TIDE_OK;
}

/* Whoever has the agents polls them: a daemon that says where it is, otherwise we. */
static tide_status poll_all(tide_cli *cli, tide_scheduler_result *result, tide_error *err)
{
    TIDE_CLEANUP(cli_agents_done) tide_cli_agents agents;
    TIDE_CLEANUP(tide_cli_colony_done) tide_cli_colony colony = {.store = NULL};
    TIDE_CLEANUP(tide_cli_colony_done) tide_cli_colony daemon = {.store = NULL};
    TIDE_TRY(cli_agents_read(&agents, cli, err));
    if (tide_cli_text(cli, TIDE_CLI_ADDRESS)) {
        TIDE_TRY(tide_cli_colony_open(cli, &daemon, TIDE_STORE_EXISTING, false, err));
        return agents.count > 0 ? tide_fail(err, TIDE_E_INVALID,
                                            "--agent is for a store; 'tidemark colony agent add' "
                                            "tells a service of an agent")
                                : poll_there(&daemon, result, err);
    }
    const tide_status opened = tide_cli_colony_open(cli, &colony, TIDE_STORE_CREATE, true, err);
    if (opened == TIDE_E_BUSY && colony.store) {
        TIDE_TRY(cli_agents_put(&agents, colony.store, err));
        TIDE_TRY(tide_cli_colony_open(cli, &daemon, TIDE_STORE_EXISTING, false, err));
        return daemon.remote ? poll_there(&daemon, result, err)
                             : poll_here(cli, &daemon, result, err);
    }
    TIDE_TRY(opened);
    TIDE_TRY(cli_agents_put(&agents, colony.store, err));
    TIDE_TRY(poll_here(cli, &colony, result, err));
    if (result->elsewhere == 0 || tide_cli_colony_reach(cli, &daemon, err) != TIDE_OK)
        return TIDE_OK;
    return poll_there(&daemon, result, err);
}

static tide_status poll(tide_cli *cli, tide_error *err)
{
    if (!tide_cli_is_given(cli, TIDE_CLI_ONCE))
        return tide_fail(err, TIDE_E_INVALID,
                         "poll is for --once; 'tidemark colony' goes on polling");
    tide_scheduler_result result = {.agents = 0};
    TIDE_TRY(poll_all(cli, &result, err));
    TIDE_TRY(print_result(cli, &result, err));
    if (result.failed > 0)
        return tide_fail(err, TIDE_E_UNAVAILABLE, "%d of %d agents were not polled to the end: %s",
                         result.failed, result.agents, result.failure);
    if (result.elsewhere > 0)
        return tide_fail(
            err, TIDE_E_UNAVAILABLE,
            "%d of %d agents are polled by another colony, which follows them by itself: "
            "'tidemark colony agent ls' names it, 'tidemark colony checkpoint ls' "
            "shows how far it is, --address asks it",
            result.elsewhere, result.agents);
    return TIDE_OK;
}

/* ---- the table ---- */

#define SCHEDULER_OPTIONS WORKERS, BUDGET, LEASE, GRACE, RECOVER_EVERY, ATTEMPTS

static const tide_cli_verb verbs[] = {
    {.name = "",
     .takes = TIDE_CLI_LIST(AGENT, AGENTS, HTTP, GRPC, NAME, TRUSTED_SQL, EXPORT_DIR,
                            SCHEDULER_OPTIONS, TIDE_CLI_AGENT_SECURITY, TIDE_CLI_LISTENER_OPTIONS),
     .overrides = TIDE_CLI_OVERRIDES(
         {.id = TIDE_CLI_AGENT,
          .value = "NAME=HOST:PORT",
          .help = "poll this agent's gRPC port; remembered in the store"},
         {.id = TIDE_CLI_HTTP, .fallback = "127.0.0.1:4320"},
         {.id = TIDE_CLI_GRPC, .is_bare = true}, {.id = TIDE_CLI_LEASE, .fallback = "15s"},
         {.id = TIDE_CLI_NAME, .help = "what this colony is called; HOST-PID"},
         {.id = TIDE_CLI_DRAIN, .fallback = "30s"}),
     .summary = "pull records from agents, store them with their checkpoints",
     .details =
         "Rows and checkpoints are written in one transaction; what is missing is a gap, and "
         "is asked for\n"
         "again. Prints `ready http=HOST:PORT` when it serves tidemark.colony.v1, /metrics, "
         "/healthz and\n"
         "/readyz. A store that is away is waited for; /readyz tells the reason. Several colonies "
         "on one PostgreSQL share the agents.",
     .run = run},
    {.name = "poll",
     .takes = TIDE_CLI_LIST(ONCE, AGENT, AGENTS, NAME, SCHEDULER_OPTIONS, TIDE_CLI_AGENT_SECURITY,
                            TIDE_CLI_SERVICE_OPTIONS),
     .overrides = TIDE_CLI_OVERRIDES(TIDE_CLI_COLONY_TOKEN,
                                     {.id = TIDE_CLI_AGENT, .value = "NAME=HOST:PORT"},
                                     {.id = TIDE_CLI_LEASE, .fallback = "15s"}),
     .summary = "poll every agent until all are caught up, then end (--once)",
     .run = poll},
    {.name = "audit",
     .takes = TIDE_CLI_LIST(AGENT, DATA_TYPE, OFFLINE, TIDE_CLI_AGENT_SECURITY,
                            TIDE_CLI_SERVICE_OPTIONS),
     .overrides = TIDE_CLI_OVERRIDES(TIDE_CLI_COLONY_TOKEN, {.id = TIDE_CLI_AGENT, .max = 1}),
     .summary = "prove that every number is accounted for; exit code 8 where one is not",
     .details = "head - first + 1 = stored + dead + filtered + void + lost + pending, for every "
                "agent, data type,\n"
                "session and epoch; rows are counted again, and digests are compared with the "
                "agents.",
     .run = cli_colony_audit},
    {.name = "repair",
     .arguments = "",
     .takes = TIDE_CLI_LIST(AGENT, TIDE_CLI_AGENT_SECURITY, TIDE_CLI_SERVICE_OPTIONS),
     .overrides = TIDE_CLI_OVERRIDES(
         TIDE_CLI_COLONY_TOKEN,
         {.id = TIDE_CLI_AGENT, .max = 1, .value = "NAME", .help = "only this agent's rows"}),
     .summary = "store rows again that are gone and that the agents still have; exit code 8 where "
                "some cannot be had",
     .details =
         "A stream is short where fewer rows are left than were stored and have not expired. "
         "Prints the\n"
         "streams that were short: how many rows were restored, how many are missing, and "
         "why.",
     .run = cli_colony_repair},
    {.name = "agent add",
     .arguments = "NAME ADDRESS",
     .takes = TIDE_CLI_LIST(TIDE_CLI_COLONY_OPTIONS),
     .overrides = TIDE_CLI_OVERRIDES(TIDE_CLI_COLONY_TOKEN),
     .summary = "poll this agent, or poll it at another address",
     .run = cli_colony_agent_add},
    {.name = "agent ls",
     .takes = TIDE_CLI_LIST(ALL, TIDE_CLI_COLONY_OPTIONS),
     .overrides = TIDE_CLI_OVERRIDES(TIDE_CLI_COLONY_TOKEN,
                                     {.id = TIDE_CLI_ALL, .help = "also those that were removed"}),
     .summary = "list agents: where, how they are, who polls them",
     .run = cli_colony_agent_list},
    {.name = "agent remove",
     .arguments = "NAME",
     .takes = TIDE_CLI_LIST(TIDE_CLI_COLONY_OPTIONS),
     .overrides = TIDE_CLI_OVERRIDES(TIDE_CLI_COLONY_TOKEN),
     .summary = "poll it no more; what was stored stays",
     .run = cli_colony_agent_remove},
    {.name = "checkpoint ls",
     .arguments = "[AGENT] [TYPE]",
     .takes = TIDE_CLI_LIST(CLOSED, TIDE_CLI_COLONY_OPTIONS),
     .overrides = TIDE_CLI_OVERRIDES(TIDE_CLI_COLONY_TOKEN),
     .summary = "list how far each data type of each agent has come",
     .run = cli_colony_checkpoint_list},
    {.name = "checkpoint show",
     .arguments = "AGENT TYPE",
     .takes = TIDE_CLI_LIST(CLOSED, TIDE_CLI_COLONY_OPTIONS),
     .overrides = TIDE_CLI_OVERRIDES(TIDE_CLI_COLONY_TOKEN),
     .summary = "tell everything about one checkpoint",
     .run = cli_colony_checkpoint_show},
    {.name = "checkpoint reset",
     .arguments = "[AGENT] [TYPE]",
     .takes = TIDE_CLI_LIST(ALL, TIDE_CLI_AGENT_SECURITY, TIDE_CLI_SERVICE_OPTIONS),
     .overrides = TIDE_CLI_OVERRIDES(TIDE_CLI_COLONY_TOKEN),
     .summary = "read again from the start; what was deleted is restored, nothing is stored twice",
     .run = cli_colony_checkpoint_reset},
    {.name = "checkpoint set",
     .arguments = "AGENT TYPE NUMBER",
     .takes = TIDE_CLI_LIST(TIDE_CLI_AGENT_SECURITY, TIDE_CLI_SERVICE_OPTIONS),
     .overrides = TIDE_CLI_OVERRIDES(TIDE_CLI_COLONY_TOKEN),
     .summary = "go on behind this number; what is skipped is recorded as lost",
     .run = cli_colony_checkpoint_set},
    {.name = NULL},
};

const tide_cli_command tide_cli_colony_command = {
    .name = "colony",
    .summary = "The colony: records pulled from agents, every missing number explained.",
    .verbs = verbs,
};
