/* cmd_demo.c - tidemark demo: break something in `tidemark up --demo`, and see who takes part. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "cli/colony/colony_store.h"
#include "cli/frame/cli.h"
#include "demo/demo_report.h"
#include "services/api/rpc.h"
#include "tidemark_up_v1_up.pb-c.h"

/* ---- report ---- */

/* Hidden: no list or page names it. */
static tide_status run(tide_cli *cli, tide_error *err)
{
    const tide_status status = tide_demo_report(cli->out.file, tide_env_system(), err);
    if (status != TIDE_E_FAILED)
        return status;
    tide_cli_print(stderr, "%s\n", err->text); /* on purpose, so it comes without advice */
    cli->exit_code = EXIT_FAILURE;
    return TIDE_OK;
}

static const tide_cli_verb verbs_report[] = {
    {.name = "", .summary = "one item of the demonstration's work", .run = run},
    {.name = NULL},
};

const tide_cli_command tide_cli_demo_report = {
    .name = "demo-report",
    .summary = "One item of the demonstration's work.",
    .verbs = verbs_report,
    .is_placeless = true,
};

#define UP(type_) Tidemark__Up__V1__##type_
#define UP_INIT(type_) TIDEMARK__UP__V1__##type_##__INIT
#define CALL_US INT64_C(30000000)

/* ---- asking ---- */

/* Where nobody demonstrates anything there is nothing to break. */
static void hint_at_start(tide_cli *cli, tide_status status)
{
    if (status == TIDE_E_UNSUPPORTED || status == TIDE_E_UNAVAILABLE)
        (void)snprintf(cli->hint, sizeof cli->hint,
                       "start the demonstration with 'tidemark up --demo', and name the address "
                       "that it prints with --address");
}

static tide_status ask(tide_cli *cli, const char *method, const ProtobufCMessage *request,
                       const ProtobufCMessageDescriptor *answers, ProtobufCMessage **response,
                       tide_error *err)
{
    char path[64];
    TIDE_CLEANUP(tide_client_closep) tide_client *client = NULL;
    TIDE_CLEANUP(tide_buffer_done) tide_buffer bytes = tide_buffer_of(TIDE_RPC_RESPONSE_MAX);
    TIDE_CLEANUP(tide_client_response_done) tide_client_response reply;
    tide_client_response_init(&reply);
    (void)snprintf(path, sizeof path, "/tidemark.up.v1.DemoService/%s", method);
    TIDE_TRY(tide_cli_service_open(&client, cli, tide_cli_text(cli, TIDE_CLI_ADDRESS), err));
    TIDE_TRY(tide_rpc_pack(&bytes, request, err));
    const tide_client_request call = {.path = path,
                                      .message =
                                          tide_view_bytes(tide_buffer_text(&bytes), bytes.len),
                                      .timeout_us = CALL_US};
    const tide_status status = tide_client_call(client, &call, &reply, err);
    hint_at_start(cli, status);
    if (status == TIDE_E_UNSUPPORTED)
        return tide_fail(err, status, "%s demonstrates nothing",
                         tide_cli_text(cli, TIDE_CLI_ADDRESS));
    TIDE_TRY(status);
    *response = protobuf_c_message_unpack(answers, NULL, reply.message.len,
                                          (const uint8_t *)reply.message.ptr);
    return *response ? TIDE_OK
                     : tide_fail(err, TIDE_E_DAMAGED, "the answer to %s cannot be read", method);
}

/* ---- faults ---- */

static tide_status disturb(tide_cli *cli, const char *fault, tide_error *err)
{
    ProtobufCMessage *response = NULL;
    UP(DisturbRequest) request = UP_INIT(DISTURB_REQUEST);
    request.fault = (char *)fault;
    if (cli->arg_count > 0)
        request.agent = (char *)cli->args[0];
    TIDE_TRY(ask(cli, "Disturb", &request.base, &tidemark__up__v1__disturb_response__descriptor,
                 &response, err));
    assert(response);
    const UP(DisturbResponse) *answer = (const UP(DisturbResponse) *)response;
    tide_status status = TIDE_OK;
    if (cli->out.is_json) {
        tide_cli_json_begin(&cli->out);
        tide_cli_json_text(&cli->out, "fault", fault);
        tide_cli_json_text(&cli->out, "agent_id", *answer->agent ? answer->agent : NULL);
        tide_cli_json_text(&cli->out, "words", answer->text);
        status = tide_cli_json_end(&cli->out, err);
    } else {
        tide_cli_print(cli->out.file, "%s\n", answer->text);
    }
    protobuf_c_message_free_unpacked(response, NULL);
    return status;
}

#define FAULT(name_)                                                                               \
    static tide_status run_##name_(tide_cli *cli, tide_error *err)                                 \
    {                                                                                              \
        return disturb(cli, #name_, err);                                                          \
    }
FAULT(pause)
FAULT(resume)
FAULT(drop)
FAULT(late)
FAULT(wipe)
FAULT(kill)
#undef FAULT

/* ---- who takes part ---- */

typedef struct line {
    const char *name;
    const char *kind;
    const char *state;
    int64_t for_ms; /* 0: nothing */
    int64_t pid;    /* 0: none */
} line;

static tide_status print_line(tide_cli *cli, tide_cli_table *table, const line *l, tide_error *err)
{
    if (cli->out.is_json) {
        tide_cli_json_begin(&cli->out);
        tide_cli_json_text(&cli->out, "name", l->name);
        tide_cli_json_text(&cli->out, "kind", l->kind);
        tide_cli_json_text(&cli->out, "state", l->state);
        tide_cli_json_i64(&cli->out, "for_ms", l->for_ms);
        if (l->pid > 0)
            tide_cli_json_i64(&cli->out, "pid", l->pid);
        return tide_cli_json_end(&cli->out, err);
    }
    char seconds[24] = "";
    if (l->for_ms > 0)
        (void)snprintf(seconds, sizeof seconds, "%lld s", (long long)(l->for_ms + 999) / 1000);
    tide_cli_table_cell(table, l->name);
    tide_cli_table_cell(table, l->kind);
    tide_cli_table_cell(table, l->state);
    tide_cli_table_cell(table, *seconds ? seconds : NULL);
    return TIDE_OK;
}

static tide_status print_all(tide_cli *cli, const UP(GetDemoResponse) * demo, tide_error *err)
{
    assert(demo);
    tide_cli_table table;
    tide_cli_table_begin(&table, &cli->out, "NAME,KIND,STATE,FOR");
    for (size_t i = 0; i < demo->n_members; i++) {
        const UP(DemoAgent) *agent = demo->members[i];
        const line l = {.name = agent->name,
                        .kind = agent->kind,
                        .state = agent->state,
                        .for_ms = agent->for_ms};
        TIDE_TRY(print_line(cli, &table, &l, err));
    }
    for (size_t i = 0; i < demo->n_workers; i++) {
        const UP(DemoWorker) *worker = demo->workers[i];
        const line l = {.name = worker->name,
                        .kind = "worker",
                        .state = worker->pid > 0 ? "well" : "down",
                        .pid = worker->pid};
        TIDE_TRY(print_line(cli, &table, &l, err));
    }
    return tide_cli_table_done(&table, err);
}

static tide_status run_ls(tide_cli *cli, tide_error *err)
{
    ProtobufCMessage *response = NULL;
    UP(GetDemoRequest) request = UP_INIT(GET_DEMO_REQUEST);
    TIDE_TRY(ask(cli, "GetDemo", &request.base, &tidemark__up__v1__get_demo_response__descriptor,
                 &response, err));
    const tide_status status = print_all(cli, (const UP(GetDemoResponse) *)response, err);
    protobuf_c_message_free_unpacked(response, NULL);
    return status;
}

/* ---- the table ---- */

#define TAKES TIDE_CLI_LIST(TIDE_CLI_SERVICE_OPTIONS)
#define OVERRIDES                                                                                  \
    TIDE_CLI_OVERRIDES(TIDE_CLI_COLONY_TOKEN,                                                      \
                       {.id = TIDE_CLI_ADDRESS,                                                    \
                        .fallback = "127.0.0.1:8340",                                              \
                        .help = "where the demonstration runs, as it printed"})
#define ANY "Without an agent's name one is chosen. "

static const tide_cli_verb verbs[] = {
    {.name = "ls",
     .takes = TAKES,
     .overrides = OVERRIDES,
     .summary = "agents and workers of the demonstration, and how they are",
     .run = run_ls},
    {.name = "pause",
     .arguments = "[AGENT]",
     .takes = TAKES,
     .overrides = OVERRIDES,
     .summary = "an agent does not answer for 45 s",
     .details = ANY "It catches up afterwards, and nothing is lost: 'tidemark status'.",
     .run = run_pause},
    {.name = "resume",
     .arguments = "[AGENT]",
     .takes = TAKES,
     .overrides = OVERRIDES,
     .summary = "end a pause, or a cut",
     .details = "Without an agent's name one that is paused or cut off is chosen.",
     .run = run_resume},
    {.name = "drop",
     .arguments = "[AGENT]",
     .takes = TAKES,
     .overrides = OVERRIDES,
     .summary = "an agent's connections break off for 10 s",
     .details = ANY "Pages are asked for again; nothing is stored twice.",
     .run = run_drop},
    {.name = "late",
     .arguments = "[AGENT]",
     .takes = TAKES,
     .overrides = OVERRIDES,
     .summary = "a simulated agent cannot read some spans for 6 s: a gap that is recovered",
     .details = ANY "'tidemark gaps ls' shows it detected, asked for again, and recovered.",
     .run = run_late},
    {.name = "wipe",
     .arguments = "[AGENT]",
     .takes = TAKES,
     .overrides = OVERRIDES,
     .summary = "an agent loses its store: a new session, a gap that is permanent and explained",
     .details = ANY "'tidemark gaps ls' shows the gap and its reason.",
     .run = run_wipe},
    {.name = "kill",
     .takes = TAKES,
     .overrides = OVERRIDES,
     .summary = "kill -9 a worker in the middle of its item",
     .details = "Its lease runs out, and another worker goes on from its last checkpoint: "
                "'tidemark work ls'.",
     .run = run_kill},
    {.name = NULL},
};

const tide_cli_command tide_cli_demo = {
    .name = "demo",
    .summary = "Break something in `tidemark up --demo`, and see it heal.",
    .verbs = verbs,
};
