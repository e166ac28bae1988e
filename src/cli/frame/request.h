/* request.h - the verb that the arguments name, and whether they fit it.
 *
 *     find     the noun and the verb, by name: cli->args is what follows them
 *     check    options and arguments against the verb's table: cli->command is what follows `--`
 *     suggest  after a command line that cannot be parsed: what was probably meant
 *
 * A failure stores in cli->hint what to do next.
 *
 * Threads: one. */
#pragma once

#include "cli/frame/cli.h"

typedef struct tide_cli_request {
    const tide_cli_command *command; /* NULL: none was named */
    const tide_cli_verb *verb;       /* NULL: none was named */
    char name[64];                   /* "sequence next", for messages */
} tide_cli_request;

/* TIDE_E_INVALID: no such command or verb. None at all is not a failure. */
TIDE_MUST_CHECK tide_status tide_cli_request_find(tide_cli *cli, tide_cli_request *asked,
                                                  tide_error *err);

/* TIDE_E_INVALID: the words do not fit. asked->verb must be known. */
TIDE_MUST_CHECK tide_status tide_cli_request_check(tide_cli *cli, const tide_cli_request *asked,
                                                   tide_error *err);

void tide_cli_request_suggest(tide_cli *cli, tide_cli_request *asked);
