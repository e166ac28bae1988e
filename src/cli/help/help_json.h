/* help_json.h - the program's tables for programs: what docs/reference is made from.
 *
 *     tidemark help --json              an object per row: verbs, limits of the network, metrics
 *
 * Each has "table" (verb, limit, metric). Threads: one. */
#pragma once

#include "cli/frame/cli.h"

/* command NULL: everything. */
TIDE_MUST_CHECK tide_status tide_cli_help_json(tide_cli *cli, const tide_cli_command *command,
                                               tide_error *err);
