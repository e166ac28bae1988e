/* cmd_checkpoint.h - the verbs of `tidemark checkpoint`, one file per group; the table is in cmd_checkpoint.c. */
#pragma once

#include "cli/frame/cli.h"

/* cmd_checkpoint_add.c */
tide_status tide_cli_checkpoint_add(tide_cli *cli, tide_error *err);

/* cmd_checkpoint_look.c */
tide_status tide_cli_checkpoint_show(tide_cli *cli, tide_error *err);
tide_status tide_cli_checkpoint_list(tide_cli *cli, tide_error *err);
tide_status tide_cli_checkpoint_range(tide_cli *cli, tide_error *err);
tide_status tide_cli_checkpoint_head(tide_cli *cli, tide_error *err);
tide_status tide_cli_checkpoint_tail(tide_cli *cli, tide_error *err);
tide_status tide_cli_checkpoint_diff(tide_cli *cli, tide_error *err);
tide_status tide_cli_checkpoint_verify(tide_cli *cli, tide_error *err);

/* cmd_checkpoint_file.c */
tide_status tide_cli_checkpoint_export(tide_cli *cli, tide_error *err);
tide_status tide_cli_checkpoint_import(tide_cli *cli, tide_error *err);
tide_status tide_cli_checkpoint_archive(tide_cli *cli, tide_error *err);
tide_status tide_cli_checkpoint_restore(tide_cli *cli, tide_error *err);
