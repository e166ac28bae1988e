/* cmd_agent.c - tidemark agent: runs the agent daemon. */
#include "cli/frame/cli.h"
#include "cli/frame/listener_options.h"
#include "services/agent/agent.h"

static const char *const codecs[] = {"lz4", "zstd", "none"};

static tide_status run(tide_cli *cli, tide_error *err)
{
    char host[256];
    tide_log log;
    tide_agent_options options = {
        .name = tide_cli_text(cli, TIDE_CLI_NAME),
        .feed = {TIDE_FEED_OPTIONS_INIT, .keep_us = tide_cli_number(cli, TIDE_CLI_KEEP_FOR),
                 .keep_bytes = tide_cli_number(cli, TIDE_CLI_KEEP_BYTES),
                 .hard_us = tide_cli_number(cli, TIDE_CLI_HARD_FOR),
                 .hard_bytes = tide_cli_number(cli, TIDE_CLI_HARD_BYTES),
                 .reader_idle_us = tide_cli_number(cli, TIDE_CLI_READER_IDLE),
                 .codec = codecs[tide_cli_number(cli, TIDE_CLI_CODEC)]},
        .collect_us = tide_cli_number(cli, TIDE_CLI_COLLECT),
        .sample_fraction = (double)tide_cli_number(cli, TIDE_CLI_SAMPLE) / 100,
        .queue_max = tide_cli_number(cli, TIDE_CLI_QUEUE),
        .is_declaring = !tide_cli_is_given(cli, TIDE_CLI_NO_DECLARE),
    };
    tide_cli_host_name(host, sizeof host);
    if (!options.name)
        options.name = host;
    TIDE_TRY(tide_cli_listener_options(cli, &log, &options.listener, err));
    options.listener.agent = options.name;
    options.listener.ports[0] =
        (tide_listener_port){.name = "grpc", .address = tide_cli_text(cli, TIDE_CLI_GRPC)};
    options.listener.ports[1] =
        (tide_listener_port){.name = "http", .address = tide_cli_text(cli, TIDE_CLI_HTTP)};
    options.listener.port_count = 2;
    TIDE_CLI_STORE(store, cli, TIDE_STORE_CREATE, err);
    options.listener.store = store;
    return tide_cli_after_serving(tide_agent_run(&options, err));
}

static const tide_cli_verb verbs[] = {
    {.name = "",
     .takes =
         TIDE_CLI_LIST(GRPC, HTTP, NAME, KEEP_FOR, KEEP_BYTES, HARD_FOR, HARD_BYTES, READER_IDLE,
                       COLLECT, SAMPLE, CODEC, QUEUE, NO_DECLARE, TIDE_CLI_LISTENER_OPTIONS),
     .overrides = TIDE_CLI_OVERRIDES({.id = TIDE_CLI_DRAIN, .fallback = "30s"}),
     .summary = "take telemetry in, number it, keep it until it was read",
     .details =
         "Serves OTLP (gRPC and HTTP), ingest and queries on both ports, /metrics, /healthz and\n"
         "/readyz. Prints `ready grpc=HOST:PORT http=HOST:PORT` when it serves. What is answered "
         "with\n"
         "success is on disk. SIGTERM drains, SIGHUP reads certificates and tokens again.",
     .run = run},
    {.name = NULL},
};

const tide_cli_command tide_cli_agent = {
    .name = "agent",
    .summary = "The agent: telemetry in, numbered records out.",
    .verbs = verbs,
};
