/* cmd_colony.c - tidemark colony: the daemon, one pass without it, and what they know. */
#include "cli/colony/cmd_colony.h"

#include <stdio.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cli/colony/colony_agents.h"
#include "cli/colony/colony_store.h"
#include "cli/frame/listener_options.h"
#include "services/colony/daemon.h"
#include "services/colony/store_wait.h"
#include "store/url.h"

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
    return tide_cli_agents_put(o->agents, o->colony->store, err);
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
    tide_colony_options options = {.address_file = NULL};
    TIDE_TRY(tide_cli_listener_options(cli, &log, &options.listener, err));
    options.listener.ports[0] =
        (tide_listener_port){.name = "http", .address = tide_cli_text(cli, TIDE_CLI_HTTP)};
    options.listener.port_count = 1;
    if (tide_cli_text(cli, TIDE_CLI_GRPC))
        options.listener.ports[options.listener.port_count++] =
            (tide_listener_port){.name = "grpc", .address = tide_cli_text(cli, TIDE_CLI_GRPC)};
    TIDE_CLEANUP(tide_cli_agents_done) tide_cli_agents agents;
    TIDE_CLEANUP(tide_cli_colony_done) tide_cli_colony colony = {.store = NULL};
    TIDE_TRY(tide_cli_agents_read(&agents, cli, err));
    tide_cli_keep_signals_back();
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
    TIDE_CLEANUP(tide_cli_agents_done) tide_cli_agents agents;
    TIDE_CLEANUP(tide_cli_colony_done) tide_cli_colony colony = {.store = NULL};
    TIDE_CLEANUP(tide_cli_colony_done) tide_cli_colony daemon = {.store = NULL};
    TIDE_TRY(tide_cli_agents_read(&agents, cli, err));
    if (tide_cli_text(cli, TIDE_CLI_ADDRESS)) {
        TIDE_TRY(tide_cli_colony_open(cli, &daemon, TIDE_STORE_EXISTING, false, err));
        return agents.count > 0 ? tide_fail(err, TIDE_E_INVALID,
                                            "--agent is for a store; 'tidemark colony agent add' "
                                            "tells a service of an agent")
                                : poll_there(&daemon, result, err);
    }
    const tide_status opened = tide_cli_colony_open(cli, &colony, TIDE_STORE_CREATE, true, err);
    if (opened == TIDE_E_BUSY && colony.store) {
        TIDE_TRY(tide_cli_agents_put(&agents, colony.store, err));
        TIDE_TRY(tide_cli_colony_open(cli, &daemon, TIDE_STORE_EXISTING, false, err));
        return daemon.remote ? poll_there(&daemon, result, err)
                             : poll_here(cli, &daemon, result, err);
    }
    TIDE_TRY(opened);
    TIDE_TRY(tide_cli_agents_put(&agents, colony.store, err));
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
     .arguments = "",
     .takes = TIDE_CLI_LIST(AGENT, AGENTS, HTTP, GRPC, NAME, TRUSTED_SQL, SCHEDULER_OPTIONS,
                            TIDE_CLI_AGENT_SECURITY, TIDE_CLI_LISTENER_OPTIONS),
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
     .arguments = "",
     .takes = TIDE_CLI_LIST(ONCE, AGENT, AGENTS, NAME, SCHEDULER_OPTIONS, TIDE_CLI_AGENT_SECURITY,
                            TIDE_CLI_SERVICE_OPTIONS),
     .overrides = TIDE_CLI_OVERRIDES(TIDE_CLI_COLONY_TOKEN,
                                     {.id = TIDE_CLI_AGENT, .value = "NAME=HOST:PORT"},
                                     {.id = TIDE_CLI_LEASE, .fallback = "15s"}),
     .summary = "poll every agent until all are caught up, then end (--once)",
     .run = poll},
    {.name = "audit",
     .arguments = "",
     .takes = TIDE_CLI_LIST(AGENT, DATA_TYPE, OFFLINE, TIDE_CLI_AGENT_SECURITY,
                            TIDE_CLI_SERVICE_OPTIONS),
     .overrides = TIDE_CLI_OVERRIDES(TIDE_CLI_COLONY_TOKEN, {.id = TIDE_CLI_AGENT, .max = 1}),
     .summary = "prove that every number is accounted for; exit code 8 where one is not",
     .details = "head - first + 1 = stored + dead + filtered + void + lost + pending, for every "
                "agent, data type,\n"
                "session and epoch; rows are counted again, and digests are compared with the "
                "agents.",
     .run = tide_cli_colony_audit},
    {.name = "agent add",
     .arguments = "NAME ADDRESS",
     .takes = TIDE_CLI_LIST(TIDE_CLI_COLONY_OPTIONS),
     .overrides = TIDE_CLI_OVERRIDES(TIDE_CLI_COLONY_TOKEN),
     .summary = "poll this agent, or poll it at another address",
     .run = tide_cli_colony_agent_add},
    {.name = "agent ls",
     .arguments = "",
     .takes = TIDE_CLI_LIST(ALL, TIDE_CLI_COLONY_OPTIONS),
     .overrides = TIDE_CLI_OVERRIDES(TIDE_CLI_COLONY_TOKEN,
                                     {.id = TIDE_CLI_ALL, .help = "also those that were removed"}),
     .summary = "list agents: where, how they are, who polls them",
     .run = tide_cli_colony_agent_list},
    {.name = "agent remove",
     .arguments = "NAME",
     .takes = TIDE_CLI_LIST(TIDE_CLI_COLONY_OPTIONS),
     .overrides = TIDE_CLI_OVERRIDES(TIDE_CLI_COLONY_TOKEN),
     .summary = "poll it no more; what was stored stays",
     .run = tide_cli_colony_agent_remove},
    {.name = "checkpoint ls",
     .arguments = "[AGENT] [TYPE]",
     .takes = TIDE_CLI_LIST(CLOSED, TIDE_CLI_COLONY_OPTIONS),
     .overrides = TIDE_CLI_OVERRIDES(TIDE_CLI_COLONY_TOKEN),
     .summary = "list how far each data type of each agent has come",
     .run = tide_cli_colony_checkpoint_list},
    {.name = "checkpoint show",
     .arguments = "AGENT TYPE",
     .takes = TIDE_CLI_LIST(CLOSED, TIDE_CLI_COLONY_OPTIONS),
     .overrides = TIDE_CLI_OVERRIDES(TIDE_CLI_COLONY_TOKEN),
     .summary = "tell everything about one checkpoint",
     .run = tide_cli_colony_checkpoint_show},
    {.name = "checkpoint reset",
     .arguments = "[AGENT] [TYPE]",
     .takes = TIDE_CLI_LIST(ALL, TIDE_CLI_COLONY_OPTIONS),
     .overrides = TIDE_CLI_OVERRIDES(TIDE_CLI_COLONY_TOKEN),
     .summary = "read again from the start; rows that are stored are not stored twice",
     .run = tide_cli_colony_checkpoint_reset},
    {.name = "checkpoint set",
     .arguments = "AGENT TYPE NUMBER",
     .takes = TIDE_CLI_LIST(TIDE_CLI_AGENT_SECURITY, TIDE_CLI_SERVICE_OPTIONS),
     .overrides = TIDE_CLI_OVERRIDES(TIDE_CLI_COLONY_TOKEN),
     .summary = "go on behind this number; what is skipped is recorded as lost",
     .run = tide_cli_colony_checkpoint_set},
    {.name = NULL},
};

const tide_cli_command tide_cli_colony_command = {
    .name = "colony",
    .summary = "The colony: records pulled from agents, every missing number explained.",
    .verbs = verbs,
};
