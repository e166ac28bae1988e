/* cmd_serve.c - tidemark serve: tasks, work, checkpoints and idempotency keys over the network. */
#include "base/cleanup.h"
#include "cli/frame/cli.h"
#include "cli/frame/listener_options.h"
#include "runtime/listener.h"
#include "services/work/services.h"

static void close_component(void *component)
{
    tide_services_close(component);
}

static tide_status run(tide_cli *cli, tide_error *err)
{
    tide_log log;
    tide_listener_options options;
    TIDE_TRY(tide_cli_listener_options(cli, &log, &options, err));
    options.ports[0] =
        (tide_listener_port){.name = "listen", .address = tide_cli_text(cli, TIDE_CLI_LISTEN)};
    options.port_count = 1;
    options.steps = tidemark_serve_steps;
    TIDE_CLEANUP(tide_store_closep) tide_store *store = NULL;
    TIDE_TRY(tide_cli_open_store(cli, &store, TIDE_STORE_CREATE, err));
    options.store = store;
    TIDE_CLEANUP(tide_single_service_done) tide_single_service single = {.close = close_component};
    tide_services *services = NULL;
    TIDE_TRY(tide_listener_open(&single.listener, &options, err));
    const tide_work_maintenance_options maintenance = tide_cli_work_maintenance(cli);
    TIDE_TRY(tide_services_open(&services, single.listener, store, &maintenance, err));
    single.component = services;
    return tide_cli_after_serving(tide_single_service_serve(&single, err));
}

static const tide_cli_verb verbs[] = {
    {.name = "",
     .arguments = "",
     .takes = TIDE_CLI_LIST(LISTEN, TIDE_CLI_MAINTENANCE_OPTIONS, TIDE_CLI_LISTENER_OPTIONS),
     .overrides = TIDE_CLI_OVERRIDES({.id = TIDE_CLI_LISTEN, .fallback = "127.0.0.1:4319"},
                                     {.id = TIDE_CLI_DRAIN, .fallback = "30s"}),
     .summary = "serve tasks, work, checkpoints and idempotency keys",
     .details =
         "tidemark.work.v1 and tidemark.journal.v1 as gRPC (with reflection and health) and as "
         "JSON or\n"
         "protobuf by POST to /package.Service/Method, on one port. Prints `ready "
         "listen=HOST:PORT`.\n"
         "Requeues items whose lease ended, fires schedules, and deletes what is older than the "
         "--keep options.",
     .run = run},
    {.name = NULL},
};

const tide_cli_command tide_cli_serve = {
    .name = "serve",
    .summary = "Work and checkpoints over the network.",
    .verbs = verbs,
};
