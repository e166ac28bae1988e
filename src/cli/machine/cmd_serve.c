/* cmd_serve.c - tidemark serve: tasks, work, checkpoints and idempotency keys over the network. */
#include <stdio.h>
#include <stdlib.h>

#include <tidemark/work.h>

#include "base/cleanup.h"
#include "cli/frame/cli.h"
#include "cli/frame/listener_options.h"
#include "runtime/listener.h"
#include "services/work/services.h"
#include "web/web.h"

/* What the daemon serves. On the heap: after a second signal its threads run until exit. */
typedef struct served {
    tide_services *services;
    tide_web *web;
    char about[128];
} served;

static void close_component(void *component)
{
    served *s = component;
    if (!s)
        return;
    tide_web_close(s->web);
    tide_services_close(s->services);
    free(s);
}

static tide_status open_web(served *s, tide_listener *listener, const char *version,
                            tide_store *store, tide_error *err)
{
    static char work_topic[64];
    tide_work_topic(work_topic, NULL);
    const tide_web_source sources[] = {{.topic = "work", .store_topic = work_topic},
                                       {.topic = "journal", .store_topic = TIDE_JOURNAL_TOPIC}};
    (void)snprintf(s->about, sizeof s->about,
                   "{\"version\":\"%s\",\"views\":[\"work\",\"checkpoints\"]}", version);
    const tide_web_options options = {.store = store,
                                      .sources = sources,
                                      .source_count = sizeof sources / sizeof sources[0],
                                      .about = s->about,
                                      .place = "{}"};
    return tide_web_open(&s->web, listener, &options, err);
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
    TIDE_CLI_STORE(store, cli, TIDE_STORE_CREATE, err);
    options.store = store;
    TIDE_CLEANUP(tide_single_service_done) tide_single_service single = {.close = close_component};
    TIDE_TRY(tide_listener_open(&single.listener, &options, err));
    const tide_work_maintenance_options maintenance = tide_cli_work_maintenance(cli);
    TIDE_NEW(served, s, err);
    single.component = s;
    TIDE_TRY(tide_services_open(&s->services, single.listener, store, &maintenance, err));
    TIDE_TRY(open_web(s, single.listener, options.version, store, err));
    return tide_cli_after_serving(tide_single_service_serve(&single, err));
}

static const tide_cli_verb verbs[] = {
    {.name = "",
     .takes = TIDE_CLI_LIST(LISTEN, TIDE_CLI_MAINTENANCE_OPTIONS, TIDE_CLI_LISTENER_OPTIONS),
     .overrides = TIDE_CLI_OVERRIDES({.id = TIDE_CLI_LISTEN, .fallback = "127.0.0.1:4319"},
                                     {.id = TIDE_CLI_DRAIN, .fallback = "30s"}),
     .summary = "serve tasks, work, checkpoints and idempotency keys",
     .details =
         "tidemark.work.v1 and tidemark.journal.v1 as gRPC (with reflection and health) and as "
         "JSON or\n"
         "protobuf by POST to /package.Service/Method, and the dashboard, on one port. Prints "
         "`ready\n"
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
