/* cmd_work_lease.c - tidemark work claim|renew|checkpoint|progress|finish|fail|release: what goes by a token. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <tidemark/work.h>

#include "base/cleanup.h"
#include "cli/frame/input.h"
#include "cli/work/cmd_work.h"
#include "cli/work/work_output.h"

/* ---- claim ---- */

static tide_status print_claimed(tide_cli *cli, const tide_work_claims *claims, tide_error *err)
{
    tide_cli_table table;
    tide_cli_table_begin(&table, &cli->out, "ITEM,TYPE,ATTEMPT#,TOKEN,LEASE UNTIL,INPUT");
    for (int i = 0; i < claims->count; i++) {
        const tide_work_claimed *item = &claims->items[i];
        if (!cli->out.is_json) {
            tide_cli_table_cell(&table, item->work_item_id);
            tide_cli_table_cell(&table, item->work_type);
            tide_cli_table_number(&table, item->attempt);
            tide_cli_table_number(&table, item->lease_token);
            tide_cli_table_time(&table, item->lease_expires_at_us);
            tide_cli_table_cell(&table, item->input);
            continue;
        }
        WORK(ClaimedItem) row;
        tide_rpc_claimed(&row, item, &claims->identity);
        TIDE_TRY(tide_cli_print_message(&cli->out, &row.base, err));
    }
    return tide_cli_table_done(&table, err);
}

static tide_work_claim_request read_claim(tide_cli *cli, char worker[TIDE_CLI_WORKER_SIZE])
{
    tide_cli_worker_name(cli, TIDE_CLI_WORKER, worker);
    const tide_cli_values types = tide_cli_list(cli, TIDE_CLI_TYPE);
    return (tide_work_claim_request){
        TIDE_WORK_CLAIM_REQUEST_INIT,
        .worker = worker,
        .types = types.items,
        .type_count = types.count,
        .task_id = tide_cli_text(cli, TIDE_CLI_TASK),
        .limit = (int)tide_cli_number(cli, TIDE_CLI_LIMIT),
        .lease_us = tide_cli_number(cli, TIDE_CLI_LEASE),
    };
}

tide_status tide_cli_work_claim(tide_cli *cli, tide_error *err)
{
    char worker[TIDE_CLI_WORKER_SIZE];
    const tide_work_claim_request request = read_claim(cli, worker);
    TIDE_CLI_STORE(store, cli, TIDE_STORE_EXISTING, err);
    TIDE_CLEANUP(tide_work_claims_done) tide_work_claims claims = {.count = 0};
    const tide_status status = tide_work_claim(store, &request, &claims, err);
    TIDE_TRY(status);
    if (status == TIDE_NONE) {
        if (claims.next_due_us >= 0 && !cli->out.is_json)
            (void)tide_fail(err, TIDE_NONE,
                            "nothing to claim; the next delayed item is due in %.1f s",
                            (double)claims.next_due_us / 1e6);
        return TIDE_NONE;
    }
    return print_claimed(cli, &claims, err);
}

/* ---- renew ---- */

static tide_status parse_refs(const tide_cli *cli, tide_work_ref *refs, char **texts,
                              tide_error *err)
{
    for (int i = 0; i < cli->arg_count; i++) {
        const char *equals = strrchr(cli->args[i], '=');
        if (!equals || equals == cli->args[i])
            return tide_fail(err, TIDE_E_INVALID, "'%s' is not ID=TOKEN", cli->args[i]);
        TIDE_TRY(
            tide_cli_parse_number(&refs[i].token, equals + 1, "the token of", 1, INT64_MAX, err));
        texts[i] = strndup(cli->args[i], (size_t)(equals - cli->args[i]));
        TIDE_NEED_MEMORY(texts[i], err);
        refs[i].size = sizeof refs[i];
        refs[i].work_item_id = texts[i];
    }
    return TIDE_OK;
}

/* What became of an item: a line, or an object. */
static tide_status print_result(tide_cli *cli, const char *work_item_id, int64_t token,
                                const char *result, tide_error *err)
{
    if (!cli->out.is_json) {
        tide_cli_print(cli->out.file, "%s %s\n", work_item_id, result);
        return TIDE_OK;
    }
    tide_cli_json_begin(&cli->out);
    tide_cli_json_text(&cli->out, "work_item_id", work_item_id);
    tide_cli_json_i64(&cli->out, "lease_token", token);
    tide_cli_json_text(&cli->out, "result", result);
    return tide_cli_json_end(&cli->out, err);
}

static tide_status print_renewed(tide_cli *cli, const tide_work_ref *refs, tide_error *err)
{
    for (int i = 0; i < cli->arg_count; i++)
        TIDE_TRY(print_result(cli, refs[i].work_item_id, refs[i].token,
                              refs[i].is_lost ? "lost" : "renewed", err));
    return TIDE_OK;
}

static tide_status renew_parsed(tide_cli *cli, tide_work_ref *refs, char **texts, tide_error *err)
{
    if (cli->arg_count > TIDE_WORK_BATCH_MAX)
        return tide_fail(err, TIDE_E_INVALID, "at most %d items at once", TIDE_WORK_BATCH_MAX);
    TIDE_TRY(parse_refs(cli, refs, texts, err));
    TIDE_CLI_STORE(store, cli, TIDE_STORE_EXISTING, err);
    const tide_status status =
        tide_work_renew(store, refs, cli->arg_count, tide_cli_number(cli, TIDE_CLI_LEASE), err);
    if (status >= TIDE_OK || status == TIDE_E_PARTIAL || status == TIDE_E_LEASE_LOST) {
        const tide_status printed = print_renewed(cli, refs, status < TIDE_OK ? NULL : err);
        if (status >= TIDE_OK)
            return printed;
    }
    return status;
}

tide_status tide_cli_work_renew(tide_cli *cli, tide_error *err)
{
    const size_t count = (size_t)cli->arg_count;
    TIDE_CLEANUP(tide_freep) tide_work_ref *refs = calloc(count, sizeof *refs);
    TIDE_CLEANUP(tide_freep) char **texts = calloc(count, sizeof *texts);
    TIDE_NEED_MEMORY(refs && texts, err);
    const tide_status status = renew_parsed(cli, refs, texts, err);
    for (size_t i = 0; i < count; i++)
        free(texts[i]);
    return status;
}

/* ---- what one holder does ---- */

/* Inside `work run` the command finds its item and token in the environment. */
static tide_status find_holder(const tide_cli *cli, const char **id, int64_t *token,
                               tide_error *err)
{
    *id = cli->arg_count > 0 ? cli->args[0] : getenv("TIDEMARK_WORK_ITEM_ID");
    if (!*id || !**id)
        return tide_fail(err, TIDE_E_INVALID,
                         "which item? give its ID, or run this inside 'tidemark work run'");
    *token = tide_cli_number(cli, TIDE_CLI_TOKEN);
    const char *text = getenv("TIDEMARK_LEASE_TOKEN");
    if (*token == 0 && cli->arg_count == 0 && text && *text)
        TIDE_TRY(tide_cli_parse_number(token, text, "TIDEMARK_LEASE_TOKEN", 1, INT64_MAX, err));
    if (*token == 0)
        return tide_fail(err, TIDE_E_INVALID,
                         "--token N is needed: the lease_token that claim printed");
    return TIDE_OK;
}

tide_status tide_cli_work_checkpoint(tide_cli *cli, tide_error *err)
{
    const char *id = NULL;
    int64_t token = 0;
    TIDE_TRY(find_holder(cli, &id, &token, err));
    TIDE_CLEANUP(tide_buffer_done) tide_buffer data = tide_buffer_of(TIDE_JOURNAL_SNAPSHOT_MAX);
    TIDE_TRY(tide_cli_input_json(&data, tide_cli_text(cli, TIDE_CLI_DATA), "--data", err));
    const tide_cli_values tags = tide_cli_list(cli, TIDE_CLI_TAG);
    const tide_checkpoint_new checkpoint = {
        TIDE_CHECKPOINT_NEW_INIT,
        .type = tide_cli_text(cli, TIDE_CLI_TYPE),
        .snapshot = tide_buffer_view(&data),
        .message = tide_cli_text(cli, TIDE_CLI_MESSAGE),
        .tags = tags.items,
        .tag_count = tags.count,
    };
    tide_checkpoint_numbers numbers = {.global_sequence = 0};
    TIDE_CLI_STORE(store, cli, TIDE_STORE_EXISTING, err);
    TIDE_TRY(tide_work_checkpoint(store, id, token, &checkpoint, &numbers, err));
    return tide_cli_print_numbers(&cli->out, &numbers, err);
}

tide_status tide_cli_work_progress(tide_cli *cli, tide_error *err)
{
    const char *id = NULL;
    int64_t token = 0;
    TIDE_TRY(find_holder(cli, &id, &token, err));
    TIDE_CLEANUP(tide_buffer_done) tide_buffer progress = tide_buffer_of(TIDE_JOURNAL_METADATA_MAX);
    if (tide_cli_text(cli, TIDE_CLI_DATA))
        TIDE_TRY(tide_cli_input_json(&progress, tide_cli_text(cli, TIDE_CLI_DATA), "--data", err));
    else if (tide_cli_text(cli, TIDE_CLI_PROGRESS))
        TIDE_TRY(tide_buffer_printf(&progress, "{\"percent\":%" PRId64 "}",
                                    tide_cli_number(cli, TIDE_CLI_PROGRESS)));
    else
        return tide_fail(err, TIDE_E_INVALID, "how far? give --progress N or --data JSON");
    TIDE_CLI_STORE(store, cli, TIDE_STORE_EXISTING, err);
    TIDE_TRY(tide_work_progress(store, id, token, tide_buffer_text(&progress), err));
    return tide_cli_print_done(&cli->out, "work_item_id", id, "noted", err);
}

tide_status tide_cli_work_finish(tide_cli *cli, tide_error *err)
{
    tide_work_result result = {TIDE_WORK_RESULT_INIT, .work_item_id = NULL};
    TIDE_TRY(find_holder(cli, &result.work_item_id, &result.token, err));
    TIDE_CLEANUP(tide_buffer_done) tide_buffer output = tide_buffer_of(TIDE_WORK_DATA_MAX);
    TIDE_CLEANUP(tide_buffer_done) tide_buffer data = tide_buffer_of(TIDE_JOURNAL_SNAPSHOT_MAX);
    TIDE_CLEANUP(tide_cli_items_freep) tide_cli_items *items = NULL;
    tide_checkpoint_new checkpoint = {TIDE_CHECKPOINT_NEW_INIT,
                                      .type = tide_cli_text(cli, TIDE_CLI_TYPE)};
    if (tide_cli_text(cli, TIDE_CLI_OUTPUT)) {
        TIDE_TRY(
            tide_cli_input_json(&output, tide_cli_text(cli, TIDE_CLI_OUTPUT), "--output", err));
        result.output = tide_buffer_text(&output);
    }
    if (tide_cli_text(cli, TIDE_CLI_DATA)) {
        TIDE_TRY(tide_cli_input_json(&data, tide_cli_text(cli, TIDE_CLI_DATA), "--data", err));
        checkpoint.snapshot = tide_buffer_view(&data);
        result.checkpoint = &checkpoint;
    }
    if (tide_cli_text(cli, TIDE_CLI_BATCH)) {
        TIDE_TRY(tide_cli_items_read(&items, tide_cli_text(cli, TIDE_CLI_BATCH), NULL, err));
        result.follow_ups = tide_cli_items_get(items, &result.follow_up_count);
    }
    TIDE_CLI_STORE(store, cli, TIDE_STORE_EXISTING, err);
    TIDE_TRY(tide_work_finish(store, &result, err));
    return tide_cli_print_done(&cli->out, "work_item_id", result.work_item_id, "completed", err);
}

tide_status tide_cli_work_fail(tide_cli *cli, tide_error *err)
{
    const char *id = NULL;
    int64_t token = 0;
    TIDE_TRY(find_holder(cli, &id, &token, err));
    const int64_t retry_after_us =
        tide_cli_text(cli, TIDE_CLI_RETRY_AFTER) ? tide_cli_number(cli, TIDE_CLI_RETRY_AFTER) : -1;
    tide_work_failed failed = {.is_final = false};
    TIDE_CLI_STORE(store, cli, TIDE_STORE_EXISTING, err);
    TIDE_TRY(tide_work_fail(store,
                            &(tide_work_failure){TIDE_WORK_FAILURE_INIT, .work_item_id = id,
                                                 .token = token,
                                                 .error = tide_cli_text(cli, TIDE_CLI_ERROR),
                                                 .is_final = tide_cli_is_given(cli, TIDE_CLI_FINAL),
                                                 .retry_after_us = retry_after_us},
                            &failed, err));
    if (!cli->out.is_json) {
        if (failed.is_final)
            tide_cli_print(cli->out.file, "%s failed for good\n", id);
        else
            tide_cli_print(cli->out.file, "%s runs again in %.1f s\n", id,
                           (double)failed.retry_after_us / 1e6);
        return TIDE_OK;
    }
    WORK(FailResponse) response = WORK_INIT(FAIL_RESPONSE);
    response.work_item_id = tide_rpc_borrow(id);
    response.is_final = failed.is_final;
    response.retry_after_ms = failed.retry_after_us / 1000;
    return tide_cli_print_message(&cli->out, &response.base, err);
}

tide_status tide_cli_work_release(tide_cli *cli, tide_error *err)
{
    const char *id = NULL;
    int64_t token = 0;
    TIDE_TRY(find_holder(cli, &id, &token, err));
    TIDE_CLI_STORE(store, cli, TIDE_STORE_EXISTING, err);
    TIDE_TRY(tide_work_release(store, id, token, tide_cli_number(cli, TIDE_CLI_RETRY_AFTER), err));
    return tide_cli_print_done(&cli->out, "work_item_id", id, "released", err);
}

/* Tidemark work next: finish items and claim the next ones in one commit. */

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
    for (int i = 0; i < count; i++)
        TIDE_TRY(print_result(cli, results[i].work_item_id, results[i].token,
                              results[i].is_lost ? "lost" : "completed", err));
    return TIDE_OK;
}

static tide_status run_next(tide_cli *cli, tide_work_result *results, int count, tide_error *err)
{
    char worker[TIDE_CLI_WORKER_SIZE];
    const tide_work_claim_request request = read_claim(cli, worker);
    TIDE_CLI_STORE(store, cli, TIDE_STORE_EXISTING, err);
    TIDE_CLEANUP(tide_work_claims_done) tide_work_claims claims = {.count = 0};
    const tide_status status = tide_work_next(store, results, count, &request, &claims, err);
    if (status < TIDE_OK && status != TIDE_E_LEASE_LOST)
        return status;
    tide_error *print_err = status < TIDE_OK ? NULL : err; /* the refusal is what is reported */
    tide_status printed = print_finished(cli, results, count, print_err);
    if (printed >= TIDE_OK && claims.count > 0)
        printed = print_claimed(cli, &claims, print_err);
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
