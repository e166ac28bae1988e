/* cmd_query_process.c - tidemark query-process: runs SQL of callers for a daemon.
 * Hidden: a daemon starts it (runtime/query/query_process.h). */
#include "cli/frame/cli.h"
#include "runtime/query/query_child.h"

static tide_status run(tide_cli *cli, tide_error *err)
{
    (void)cli;
    return tide_query_child_run(err);
}

static const tide_cli_verb verbs[] = {
    {.name = "", .summary = "run SQL of callers for a daemon", .run = run},
    {.name = NULL},
};

const tide_cli_command tide_cli_query_process = {
    .name = "query-process",
    .summary = "Run SQL of callers for a daemon.",
    .verbs = verbs,
    .is_placeless = true,
};
