/* cmd_colony.h - verbs of `tidemark colony` and `tidemark gaps` that stand in files of their own. */
#pragma once

#include "cli/frame/cli.h"

/* cmd_colony_agent.c */
tide_cli_run tide_cli_colony_agent_add;
tide_cli_run tide_cli_colony_agent_list;
tide_cli_run tide_cli_colony_agent_remove;
/* cmd_colony_checkpoint.c */
tide_cli_run tide_cli_colony_checkpoint_list;
tide_cli_run tide_cli_colony_checkpoint_show;
tide_cli_run tide_cli_colony_checkpoint_reset;
tide_cli_run tide_cli_colony_checkpoint_set;
tide_cli_run tide_cli_colony_audit;
