/* man.h - manual pages in man(7), made from the command and option tables.
 *
 *     tidemark help --man               tidemark(1): the overview
 *     tidemark help --man COMMAND       tidemark-COMMAND(1)
 *
 * Threads: one. */
#pragma once

#include <stdio.h>

#include "cli/frame/cli.h"

void tide_cli_man_overview(FILE *file);
void tide_cli_man_command(FILE *file, const tide_cli_command *command);
