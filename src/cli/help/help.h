/* help.h - the program's help pages, made from the command and option tables.
 *
 *     tidemark help                     the overview: every command with its verbs
 *     tidemark help sequence            one noun: verbs, options
 *     tidemark help sequence next       one verb: usage, details, options
 *
 * Threads: one. */
#pragma once

#include <stdio.h>

#include "cli/frame/cli.h"

void tide_cli_help_overview(FILE *file);
void tide_cli_help_command(FILE *file, const tide_cli_command *command);
void tide_cli_help_verb(FILE *file, const tide_cli_command *command, const tide_cli_verb *verb);

/* "tidemark sequence next NAME", as far as it fits. */
void tide_cli_help_usage(char *out, size_t size, const tide_cli_command *command,
                         const tide_cli_verb *verb);

/* tidemark help --json: the program's tables for programs, from which docs/reference is made. An
 * object per row with "table" (verb, limit, metric). command NULL: everything. */
TIDE_MUST_CHECK tide_status tide_cli_help_json(tide_cli *cli, const tide_cli_command *command,
                                               tide_error *err);
