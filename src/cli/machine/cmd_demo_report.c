/* cmd_demo_report.c - tidemark demo-report: what the demonstration's workers run for each item.
 * Hidden: no list or page names it. */
#include <stdlib.h>

#include "cli/frame/cli.h"
#include "demo/demo_report.h"

static tide_status run(tide_cli *cli, tide_error *err)
{
    const tide_status status = tide_demo_report(cli->out.file, tide_env_system(), err);
    if (status != TIDE_E_FAILED)
        return status;
    tide_cli_print(stderr, "%s\n", err->text); /* on purpose, so it comes without advice */
    cli->exit_code = EXIT_FAILURE;
    return TIDE_OK;
}

static const tide_cli_verb verbs[] = {
    {.name = "", .arguments = "", .summary = "one item of the demonstration's work", .run = run},
    {.name = NULL},
};

const tide_cli_command tide_cli_demo_report = {
    .name = "demo-report",
    .summary = "One item of the demonstration's work.",
    .verbs = verbs,
    .is_placeless = true,
};
