/* cmd_lake.h - verbs of `tidemark lake` that have files of their own. */
#ifndef TIDE_CLI_CMD_LAKE_H
#define TIDE_CLI_CMD_LAKE_H

#include "cli/cli.h"
#include "lake/lake.h"

/* The store that --store names, and the metabase in it. */
typedef struct tide_cli_metabase {
    tide_store *store;
    tide_lake *lake;
} tide_cli_metabase;
TIDE_MUST_CHECK tide_status tide_cli_open_lake(tide_cli *cli, tide_cli_metabase *out,
                                               int64_t closure_us, tide_error *err);
void tide_cli_close_lake(tide_cli_metabase *metabase); /* fits TIDE_CLEANUP on {0} */

/* cmd_lake_stress.c */
tide_status tide_cli_lake_stress(tide_cli *cli, tide_error *err);
tide_status tide_cli_lake_stress_writer(tide_cli *cli, tide_error *err);

#endif
