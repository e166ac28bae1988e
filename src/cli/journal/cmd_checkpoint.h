/* cmd_checkpoint.h - the verbs of `tidemark checkpoint`, one file per group; the table is in cmd_checkpoint.c. */
#pragma once

#include "cli/frame/cli.h"

/* cmd_checkpoint_list.c */
tide_status tide_cli_checkpoint_show(tide_cli *cli, tide_error *err);
tide_status tide_cli_checkpoint_list(tide_cli *cli, tide_error *err);
tide_status tide_cli_checkpoint_range(tide_cli *cli, tide_error *err);
tide_status tide_cli_checkpoint_head(tide_cli *cli, tide_error *err);
tide_status tide_cli_checkpoint_tail(tide_cli *cli, tide_error *err);
tide_status tide_cli_checkpoint_diff(tide_cli *cli, tide_error *err);
tide_status tide_cli_checkpoint_verify(tide_cli *cli, tide_error *err);
