#include "cli/help/codes.h"

#include <string.h>

const tide_cli_code_kind_row tide_cli_code_kinds[TIDE_CLI_CODE_KIND_COUNT] = {
#define KIND_ROW(kind_, name_, where_)                                                             \
    [TIDE_CLI_CODE_##kind_] = {.name = (name_), .where = (where_)},
    TIDE_CLI_CODE_KINDS(KIND_ROW)
#undef KIND_ROW
};

#define CODE_ROW(kind_, code_, meaning_, next_)                                                    \
    {.kind = TIDE_CLI_CODE_##kind_, .code = (code_), .meaning = (meaning_), .next = (next_)},
#define STATUS_ROW(name_, value_, retryable_, grpc_, http_, exit_, text_, next_)                   \
    {.kind = TIDE_CLI_CODE_STATUS,                                                                 \
     .code = #name_,                                                                               \
     .meaning = (text_),                                                                           \
     .next = (next_),                                                                              \
     .status = TIDE_##name_},

static const tide_cli_code codes[] = {TIDE_STATUS_TABLE(STATUS_ROW) TIDE_CLI_CODES(CODE_ROW)};

const tide_cli_code *tide_cli_codes(size_t *count)
{
    *count = sizeof codes / sizeof codes[0];
    return codes;
}

bool tide_cli_code_is(const tide_cli_code *code, const char *words)
{
    static const char exit_word[] = "exit ";
    static const char prefix[] = "TIDE_";
    if (strcasecmp(code->code, words) == 0)
        return true;
    if (code->kind == TIDE_CLI_CODE_EXIT)
        return strncasecmp(words, exit_word, sizeof exit_word - 1) == 0 &&
               strcmp(words + sizeof exit_word - 1, code->code) == 0;
    return code->kind == TIDE_CLI_CODE_STATUS &&
           (strcasecmp(code->meaning, words) == 0 ||
            (strncasecmp(words, prefix, sizeof prefix - 1) == 0 &&
             strcasecmp(words + sizeof prefix - 1, code->code) == 0));
}
