/* codes.h - the codes and reasons that the program prints, as one list: code_table.h and the statuses.
 *
 * A code may be there several times, for several kinds of things (`expired` is a hole, an item's status, an attempt's outcome).
 *
 * Threads: constant data. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include <tidemark/status.h>

#include "cli/help/code_table.h"

typedef enum tide_cli_code_kind {
#define TIDE_CLI_CODE_KIND(kind, ...) TIDE_CLI_CODE_##kind,
    TIDE_CLI_CODE_KINDS(TIDE_CLI_CODE_KIND)
#undef TIDE_CLI_CODE_KIND
        TIDE_CLI_CODE_KIND_COUNT
} tide_cli_code_kind;

typedef struct tide_cli_code_kind_row {
    const char *name;
    const char *where; /* it is met */
} tide_cli_code_kind_row;
extern const tide_cli_code_kind_row tide_cli_code_kinds[TIDE_CLI_CODE_KIND_COUNT];

typedef struct tide_cli_code {
    tide_cli_code_kind kind;
    const char *code;
    const char *meaning;
    const char *next;   /* what to do; "": nothing to say */
    tide_status status; /* of a status */
} tide_cli_code;

/* All of them, kind by kind; *count is how many. */
const tide_cli_code *tide_cli_codes(size_t *count);

/* Is it meant by these words? "E_LIMIT", "TIDE_E_LIMIT", "limit exceeded"; "7", "exit 7"; small and capital letters are the same. */
bool tide_cli_code_is(const tide_cli_code *code, const char *words);
