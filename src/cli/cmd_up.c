/* cmd_up.c - tidemark up: an agent, a colony, the work service and the dashboard in one process. */
#include "cli/cli.h"
#include "cli/front_options.h"
#include "up/demo.h"

#include <unistd.h>

#include "base/cleanup.h"

static void close_demo(tide_demo **demo)
{
    tide_demo_close(*demo);
}

/* This program, for the processes that the demonstration starts. */
static tide_status find_program(char out[4096], tide_error *err)
{
    const ssize_t len = readlink("/proc/self/exe", out, 4095);
    if (len <= 0)
        return tide_fail(err, TIDE_E_IO, "this program's own path cannot be read");
    out[len] = '\0';
    return TIDE_OK;
}

/* For people: what they can look at and try. */
static void tell_newcomer(const char *address, const char *data_dir)
{
    tide_cli_print(stderr,
                   "\n  Dashboard   http://%s/\n"
                   "  Try         tidemark status --store %s/colony.db\n"
                   "              tidemark gaps ls --store %s/colony.db\n"
                   "              tidemark work ls --store %s/colony.db\n"
                   "  Break something with the buttons at the bottom of the page. Ctrl-C stops; a "
                   "second start goes on.\n\n",
                   address, data_dir, data_dir, data_dir);
}

static tide_status run(tide_cli *cli, tide_error *err)
{
    tide_log log;
    char free_port[32];
    tide_up_options options = {.data_dir = tide_cli_text(cli, TIDE_CLI_DATA),
                               .http = tide_cli_text(cli, TIDE_CLI_HTTP),
                               .collect_us = tide_cli_number(cli, TIDE_CLI_COLLECT)};
    TIDE_TRY(tide_cli_front_options(cli, &log, &options.front, err));
    if (!options.http) {
        TIDE_TRY(tide_up_free_port(free_port, TIDE_UP_PORT, err));
        options.http = free_port;
    }
    tide_cli_keep_signals_back();
    char program[4096];
    TIDE_CLEANUP(close_demo) tide_demo *demo = NULL;
    if (tide_cli_is_given(cli, TIDE_CLI_DEMO)) {
        TIDE_TRY(find_program(program, err));
        TIDE_TRY(tide_demo_open(
            &demo,
            &(tide_demo_options){.program = program,
                                 .data_dir = options.data_dir,
                                 .agent_count = (int)tide_cli_number(cli, TIDE_CLI_DEMO_AGENTS),
                                 .env = options.front.env,
                                 .log = &log},
            err));
        options.extra = tide_demo_extra(demo);
        tell_newcomer(options.http, options.data_dir);
    }
    return tide_cli_after_serving(tide_up_run(&options, err));
}

static const tide_cli_verb verbs[] = {
    {.name = "",
     .arguments = "",
     .takes = TIDE_CLI_LIST(DATA, HTTP, DEMO, DEMO_AGENTS, COLLECT, TIDE_CLI_FRONT_OPTIONS),
     .overrides =
         TIDE_CLI_OVERRIDES({.id = TIDE_CLI_DATA,
                             .value = "DIR",
                             .fallback = "./tidemark-data",
                             .help = "where everything is kept; made if it is missing"},
                            {.id = TIDE_CLI_HTTP,
                             .is_bare = true,
                             .help = "where to serve: HOST:PORT; the first free port from 8340 on"},
                            {.id = TIDE_CLI_DRAIN, .fallback = "30s"}),
     .summary = "start everything on this machine, with a dashboard",
     .details = "One process over a directory: an agent for OTLP, a colony that polls it, tasks "
                "and work items, and a\n"
                "dashboard, all on one port. Prints `ready http=HOST:PORT`. A second start goes on "
                "where it\n"
                "stopped; Ctrl-C stops cleanly.",
     .run = run},
    {.name = NULL},
};

const tide_cli_command tide_cli_up = {
    .name = "up",
    .summary = "Everything on one machine, with a dashboard.",
    .verbs = verbs,
    .is_placeless = true,
};
