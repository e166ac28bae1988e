/* cmd_explain.c - tidemark explain [CODE]: what a code or a reason means, and what to do. */
#include <stdio.h>
#include <string.h>

#include "cli/frame/cli.h"
#include "cli/help/codes.h"
#include "cli/help/suggest.h"

static tide_status print_json(tide_cli *cli, const tide_cli_code *code, tide_error *err)
{
    tide_cli_json_begin(&cli->out);
    tide_cli_json_text(&cli->out, "kind", tide_cli_code_kinds[code->kind].name);
    tide_cli_json_text(&cli->out, "code", code->code);
    tide_cli_json_text(&cli->out, "meaning", code->meaning);
    tide_cli_json_text(&cli->out, "next", *code->next ? code->next : NULL);
    if (code->kind == TIDE_CLI_CODE_STATUS) {
        const tide_status_row *row = tide_status_get(code->status);
        tide_cli_json_bool(&cli->out, "retryable", row->is_retryable);
        tide_cli_json_i64(&cli->out, "exit_code", (int64_t)row->exit_code);
        tide_cli_json_i64(&cli->out, "grpc_code", row->grpc_code);
        tide_cli_json_i64(&cli->out, "http_code", row->http_code);
    }
    return tide_cli_json_end(&cli->out, err);
}

/* Statuses that end a command with this code. */
static void print_statuses(FILE *file, const char *exit_code)
{
    size_t count = 0;
    const tide_cli_code *codes = tide_cli_codes(&count);
    bool is_any = false;
    for (size_t i = 0; i < count; i++) {
        char text[8];
        if (codes[i].kind != TIDE_CLI_CODE_STATUS)
            continue;
        (void)snprintf(text, sizeof text, "%d", (int)tide_status_get(codes[i].status)->exit_code);
        if (strcmp(text, exit_code) != 0)
            continue;
        tide_cli_print(file, "%s%s", is_any ? ", " : "  statuses: ", codes[i].code);
        is_any = true;
    }
    if (is_any)
        tide_cli_print(file, "\n");
}

static void print_page(tide_cli *cli, const tide_cli_code *code)
{
    FILE *file = cli->out.file;
    const bool is_exit = code->kind == TIDE_CLI_CODE_EXIT;
    tide_cli_print_styled(&cli->out, TIDE_CLI_BOLD, is_exit ? "exit code" : code->code);
    tide_cli_print(file, is_exit ? " %s: %s\n" : " (%s): %s\n",
                   is_exit ? code->code : tide_cli_code_kinds[code->kind].name, code->meaning);
    if (code->kind == TIDE_CLI_CODE_STATUS) {
        const tide_status_row *row = tide_status_get(code->status);
        tide_cli_print(file, "  exit code %d, gRPC %d, HTTP %d; %s\n", (int)row->exit_code,
                       row->grpc_code, row->http_code,
                       row->is_retryable ? "the same call may be tried again"
                                         : "trying the same again does not help");
    } else if (is_exit) {
        print_statuses(file, code->code);
    } else {
        tide_cli_print(file, "  met as: %s\n", tide_cli_code_kinds[code->kind].where);
    }
    if (*code->next)
        tide_cli_print(file, "  do: %s\n", code->next);
}

static tide_status list_all(tide_cli *cli, tide_error *err)
{
    size_t count = 0;
    const tide_cli_code *codes = tide_cli_codes(&count);
    tide_cli_table table;
    if (cli->out.is_json) {
        for (size_t i = 0; i < count; i++)
            TIDE_TRY(print_json(cli, &codes[i], err));
        return TIDE_OK;
    }
    tide_cli_table_begin(&table, &cli->out, "KIND,CODE,MEANING");
    for (size_t i = 0; i < count; i++) {
        tide_cli_table_cell(&table, tide_cli_code_kinds[codes[i].kind].name);
        tide_cli_table_cell(&table, codes[i].code);
        tide_cli_table_cell(&table, codes[i].meaning);
    }
    return tide_cli_table_done(&table, err);
}

static tide_status fail_unknown(tide_cli *cli, const char *words, tide_error *err)
{
    size_t count = 0;
    const tide_cli_code *codes = tide_cli_codes(&count);
    tide_cli_suggestion nearest = tide_cli_suggest_begin(words, strlen(words));
    for (size_t i = 0; i < count; i++)
        if (codes[i].kind != TIDE_CLI_CODE_EXIT)
            tide_cli_suggest_offer(&nearest, codes[i].code);
    if (nearest.best)
        (void)snprintf(cli->hint, sizeof cli->hint, "did you mean 'tidemark explain %s'?",
                       nearest.best);
    else
        (void)snprintf(cli->hint, sizeof cli->hint, "'tidemark explain' lists all of them");
    return tide_fail(err, TIDE_E_NOT_FOUND, "no code and no reason is called '%s'", words);
}

static tide_status explain(tide_cli *cli, tide_error *err)
{
    char words[256] = "";
    size_t len = 0;
    size_t count = 0;
    int found = 0;
    const tide_cli_code *codes = tide_cli_codes(&count);
    if (cli->arg_count == 0)
        return list_all(cli, err);
    for (int i = 0; i < cli->arg_count && len < sizeof words; i++)
        len += (size_t)snprintf(words + len, sizeof words - len, "%s%s", i > 0 ? " " : "",
                                cli->args[i]);
    for (size_t i = 0; i < count; i++) {
        if (!tide_cli_code_is(&codes[i], words))
            continue;
        found++;
        if (cli->out.is_json)
            TIDE_TRY(print_json(cli, &codes[i], err));
        else
            print_page(cli, &codes[i]);
    }
    return found > 0 ? TIDE_OK : fail_unknown(cli, words, err);
}

static const tide_cli_verb verbs[] = {
    {.name = "",
     .arguments = "[CODE...]",
     .summary = "tell what a code or reason means, and what to do",
     .details = "A status (E_LIMIT), an exit code (7, exit 7), a gap's reason (session changed), a "
                "hold, a hole, an item's\n"
                "status, ... Without one: the list of all.",
     .run = explain},
    {.name = NULL},
};

const tide_cli_command tide_cli_explain = {
    .name = "explain",
    .summary = "What a code or reason means, and what to do.",
    .verbs = verbs,
    .is_placeless = true,
};
