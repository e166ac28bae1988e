/* cmd_work_next.c - tidemark work next: finish items and claim the next ones in one commit. */
#include "cli/work/cmd_work.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "cli/frame/input.h"
#include "cli/work/work_output.h"

/* The '=' before the token. An id may contain one, too: a token is digits up to the end or the next '='. */
static char *find_token(char *text)
{
    for (char *equals = strchr(text, '='); equals; equals = strchr(equals + 1, '=')) {
        const size_t digits = strspn(equals + 1, "0123456789");
        const char end = equals[1 + digits];
        if (equals > text && digits > 0 && (end == '\0' || end == '='))
            return equals;
    }
    return NULL;
}

/* Cuts text, ID=TOKEN[=JSON], into its parts. */
static tide_status parse_result(tide_work_result *out, char *text, tide_error *err)
{
    char *token = find_token(text);
    if (!token)
        return tide_fail(err, TIDE_E_INVALID, "'%s' is not ID=TOKEN or ID=TOKEN=JSON", text);
    *out = (tide_work_result){TIDE_WORK_RESULT_INIT, .work_item_id = text};
    *token++ = '\0';
    char *output = strchr(token, '=');
    if (output) {
        *output++ = '\0';
        out->output = output;
    }
    return tide_cli_parse_number(&out->token, token, "the token of --finish", 1, INT64_MAX, err);
}

static tide_status print_finished(tide_cli *cli, const tide_work_result *results, int count,
                                  tide_error *err)
{
    for (int i = 0; i < count; i++) {
        const char *result = results[i].is_lost ? "lost" : "completed";
        if (!cli->out.is_json) {
            tide_cli_print(cli->out.file, "%s %s\n", results[i].work_item_id, result);
            continue;
        }
        tide_cli_json_begin(&cli->out);
        tide_cli_json_text(&cli->out, "work_item_id", results[i].work_item_id);
        tide_cli_json_i64(&cli->out, "lease_token", results[i].token);
        tide_cli_json_text(&cli->out, "result", result);
        TIDE_TRY(tide_cli_json_end(&cli->out, err));
    }
    return TIDE_OK;
}

static tide_status run_next(tide_cli *cli, tide_work_result *results, int count, tide_error *err)
{
    char worker[TIDE_CLI_WORKER_SIZE];
    tide_cli_worker_name(cli, TIDE_CLI_WORKER, worker);
    const tide_cli_values types = tide_cli_list(cli, TIDE_CLI_TYPE);
    const tide_work_claim_request request = {
        TIDE_WORK_CLAIM_REQUEST_INIT,
        .worker = worker,
        .types = types.items,
        .type_count = types.count,
        .task_id = tide_cli_text(cli, TIDE_CLI_TASK),
        .limit = (int)tide_cli_number(cli, TIDE_CLI_LIMIT),
        .lease_us = tide_cli_number(cli, TIDE_CLI_LEASE),
    };
    TIDE_CLI_STORE(store, cli, TIDE_STORE_EXISTING, err);
    TIDE_CLEANUP(tide_work_claims_done) tide_work_claims claims = {.count = 0};
    const tide_status status = tide_work_next(store, results, count, &request, &claims, err);
    if (status < TIDE_OK && status != TIDE_E_LEASE_LOST)
        return status;
    tide_error *print_err = status < TIDE_OK ? NULL : err; /* the refusal is what is reported */
    tide_status printed = print_finished(cli, results, count, print_err);
    if (printed >= TIDE_OK && claims.count > 0)
        printed = tide_cli_print_claimed(cli, &claims, print_err);
    return status == TIDE_OK && printed < TIDE_OK ? printed : status;
}

tide_status tide_cli_work_next(tide_cli *cli, tide_error *err)
{
    const tide_cli_values given = tide_cli_list(cli, TIDE_CLI_FINISH);
    const size_t count = (size_t)given.count;
    TIDE_CLEANUP(tide_freep) tide_work_result *results = calloc(count + 1, sizeof *results);
    TIDE_CLEANUP(tide_freep) char **texts = calloc(count + 1, sizeof *texts);
    TIDE_NEED_MEMORY(results && texts, err);
    tide_status status = TIDE_OK;
    for (size_t i = 0; i < count && status >= TIDE_OK; i++) {
        texts[i] = strdup(given.items[i]);
        status = texts[i] ? parse_result(&results[i], texts[i], err) : tide_no_memory(err);
    }
    if (status >= TIDE_OK)
        status = run_next(cli, results, given.count, err);
    for (size_t i = 0; i < count; i++)
        free(texts[i]);
    return status;
}
