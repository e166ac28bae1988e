/* cmd_serve.c - tidemark serve: tasks, work, checkpoints and idempotency keys over the network. */
#include <tidemark/work.h>

#include "base/cleanup.h"
#include "cli/cli.h"
#include "cli/front_options.h"
#include "rpc/rpc.h"
#include "rpc/work_metrics.h"

typedef struct serving {
    tide_rpc_context context;
    tide_front *front;
} serving;

static void leave(void *arg)
{
    const serving *s = arg;
    tide_waiter_end(s->context.work);
    tide_waiter_end(s->context.journal);
}

static void serving_done(serving *s)
{
    tide_front_stop(s->front); /* no calls from here on */
    tide_waiter_close(s->context.work);
    tide_waiter_close(s->context.journal);
    tide_front_close(s->front);
}

static tide_status add_services(serving *s, tide_error *err)
{
    static const tide_method *const tables[] = {
        tide_rpc_tasks,       tide_rpc_work,    tide_rpc_work_look,      tide_rpc_schedules,
        tide_rpc_idempotency, tide_rpc_journal, tide_rpc_journal_streams};
    char topic[64];
    tide_work_topic(topic, NULL);
    tide_metrics_add_source(tide_front_metrics(s->front), tide_work_metrics, s->context.store);
    TIDE_TRY(tide_waiter_open(&s->context.work, s->context.store, topic, err));
    TIDE_TRY(tide_waiter_open(&s->context.journal, s->context.store, TIDE_JOURNAL_TOPIC, err));
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++)
        TIDE_TRY(tide_front_add(s->front, tables[i], NULL, &s->context, err));
    return TIDE_OK;
}

static tide_status run(tide_cli *cli, tide_error *err)
{
    tide_log log;
    tide_front_options options;
    TIDE_TRY(tide_cli_front_options(cli, &log, &options, err));
    options.ports[0] =
        (tide_front_port){.name = "listen", .address = tide_cli_text(cli, TIDE_CLI_LISTEN)};
    options.port_count = 1;
    TIDE_CLEANUP(tide_store_closep) tide_store *store = NULL;
    TIDE_TRY(tide_cli_open_store(cli, &store, TIDE_STORE_CREATE, err));
    TIDE_CLEANUP(serving_done) serving s = {.context = {.store = store}};
    options.store = store;
    options.leave = leave;
    options.arg = &s;
    TIDE_TRY(tide_front_open(&s.front, &options, err));
    TIDE_TRY(add_services(&s, err));
    return tide_cli_after_serving(tide_front_serve(s.front, err));
}

static const tide_cli_verb verbs[] = {
    {.name = "",
     .arguments = "",
     .takes = TIDE_CLI_LIST(LISTEN, TIDE_CLI_FRONT_OPTIONS),
     .overrides = TIDE_CLI_OVERRIDES({.id = TIDE_CLI_LISTEN, .fallback = "127.0.0.1:4319"},
                                     {.id = TIDE_CLI_DRAIN, .fallback = "30s"}),
     .summary = "serve tasks, work, checkpoints and idempotency keys",
     .details =
         "tidemark.work.v1 and tidemark.journal.v1 as gRPC (with reflection and health) and as "
         "JSON or\n"
         "protobuf by POST to /package.Service/Method, on one port. Prints `ready "
         "listen=HOST:PORT`.",
     .run = run},
    {.name = NULL},
};

const tide_cli_command tide_cli_serve = {
    .name = "serve",
    .summary = "Work and checkpoints over the network.",
    .verbs = verbs,
};
