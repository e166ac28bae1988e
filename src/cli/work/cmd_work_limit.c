/* cmd_work_limit.c - tidemark work limit: how many items of a type run at once. */
#include "cli/work/cmd_work.h"

#include <inttypes.h>
#include <stdio.h>

#include <tidemark/work.h>

#include "base/cleanup.h"
#include "cli/work/work_output.h"

static void print_number(char out[32], int64_t number)
{
    if (number > 0)
        (void)snprintf(out, 32, "%" PRId64, number);
    else
        (void)snprintf(out, 32, "no limit");
}

static tide_status print_limit(tide_cli *cli, tide_store *store, tide_error *err)
{
    tide_work_limit limit = {TIDE_WORK_LIMIT_INIT};
    WORK(GetLimitRequest) request = WORK_INIT(GET_LIMIT_REQUEST);
    request.work_type = tide_rpc_borrow(cli->args[0]);
    if (cli->out.is_json)
        return tide_cli_print_method(&cli->out, store, tide_rpc_get_limit, &request.base,
                                     &tidemark__work__v1__limit__descriptor, err);
    TIDE_TRY(tide_work_limit_get(store, cli->args[0], &limit, err));
    char of_type[32];
    char of_key[32];
    print_number(of_type, limit.running);
    print_number(of_key, limit.running_per_key);
    tide_cli_print(cli->out.file, "%s: running at once: %s; per limit key: %s", cli->args[0],
                   of_type, of_key);
    if (limit.running > 0 || limit.running_per_key > 0)
        tide_cli_print(cli->out.file, "; in progress: %" PRId64, limit.in_progress);
    tide_cli_print(cli->out.file, "\n");
    return TIDE_OK;
}

tide_status tide_cli_work_limit(tide_cli *cli, tide_error *err)
{
    const bool has_running = tide_cli_is_given(cli, TIDE_CLI_RUNNING);
    const bool is_per_key = tide_cli_is_given(cli, TIDE_CLI_PER_KEY);
    const bool is_reset = tide_cli_is_given(cli, TIDE_CLI_RESET);
    if (is_reset && has_running)
        return tide_fail(err, TIDE_E_INVALID,
                         "--reset removes the limit: give it without --running");
    if (is_per_key && !has_running && !is_reset)
        return tide_fail(err, TIDE_E_INVALID, "--per-key needs --running N or --reset");
    const int64_t running = is_reset ? 0 : tide_cli_number(cli, TIDE_CLI_RUNNING);
    const tide_work_limit limit = {TIDE_WORK_LIMIT_INIT, .work_type = cli->args[0],
                                   .running = is_per_key ? -1 : running,
                                   .running_per_key = is_per_key || is_reset ? running : -1};
    TIDE_CLEANUP(tide_store_closep) tide_store *store = NULL;
    const bool is_change = has_running || is_reset;
    TIDE_TRY(
        tide_cli_open_store(cli, &store, is_change ? TIDE_STORE_EXISTING : TIDE_STORE_AS_IS, err));
    if (is_change)
        TIDE_TRY(tide_work_limit_set(store, &limit, err));
    return print_limit(cli, store, err);
}
