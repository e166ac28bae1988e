/* cmd_work_policy.c - tidemark work policy: how often, how soon and after what not an item is retried. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <tidemark/work.h>

#include "base/cleanup.h"
#include "cli/work/cmd_work.h"
#include "cli/work/work_output.h"

/* "1s..1h", or "1s" for waits that do not grow. */
static tide_status read_backoff(const char *text, tide_work_policy *policy, tide_error *err)
{
    char first[64];
    if (!text)
        return TIDE_OK;
    const char *dots = strstr(text, "..");
    const size_t len = dots ? (size_t)(dots - text) : strlen(text);
    if (len >= sizeof first)
        return tide_fail(err, TIDE_E_INVALID, "--backoff %s: want SHORTEST..LONGEST, like 1s..1h",
                         text);
    (void)snprintf(first, sizeof first, "%.*s", (int)len, text);
    TIDE_TRY(tide_cli_parse_duration(&policy->backoff_us, first, "--backoff", 1,
                                     TIDE_CLI_DURATION_MAX, err));
    return tide_cli_parse_duration(&policy->backoff_max_us, dots ? dots + 2 : first, "--backoff",
                                   policy->backoff_us, TIDE_CLI_DURATION_MAX, err);
}

static tide_status print_policy(tide_cli *cli, tide_store *store, tide_error *err)
{
    tide_work_policy policy = {TIDE_WORK_POLICY_INIT};
    WORK(GetPolicyRequest) request = WORK_INIT(GET_POLICY_REQUEST);
    request.work_type = tide_rpc_borrow(cli->args[0]);
    if (cli->out.is_json)
        return tide_cli_print_method(&cli->out, store, tide_rpc_get_policy, &request.base,
                                     &tidemark__work__v1__policy__descriptor, err);
    TIDE_TRY(tide_work_policy_get(store, cli->args[0], &policy, err));
    const bool has_waits = policy.backoff_us > 0;
    char shortest[TIDE_CLI_DURATION_SIZE];
    char longest[TIDE_CLI_DURATION_SIZE];
    char not_after[TIDE_WORK_NO_RETRY_SIZE];
    tide_cli_duration_text(shortest, has_waits ? policy.backoff_us : TIDE_WORK_BACKOFF_US);
    tide_cli_duration_text(longest, policy.backoff_max_us > 0 ? policy.backoff_max_us
                                                              : TIDE_WORK_BACKOFF_MAX_US);
    tide_work_no_retry_text(not_after, policy.no_retry);
    tide_cli_print(cli->out.file, "%s: %" PRId64 " retries%s, after %s to %s%s; none after: %s\n",
                   cli->args[0],
                   policy.max_retries < 0 ? TIDE_WORK_RETRIES_DEFAULT : policy.max_retries,
                   policy.max_retries < 0 ? " (default)" : "", shortest, longest,
                   has_waits ? "" : " (default)", not_after[0] ? not_after : "-");
    return TIDE_OK;
}

tide_status tide_cli_work_policy(tide_cli *cli, tide_error *err)
{
    const char *backoff = tide_cli_text(cli, TIDE_CLI_BACKOFF);
    const tide_cli_values kinds = tide_cli_list(cli, TIDE_CLI_NO_RETRY);
    const bool has_retries = tide_cli_is_given(cli, TIDE_CLI_RETRIES);
    const bool is_reset = tide_cli_is_given(cli, TIDE_CLI_RESET);
    const bool is_change = has_retries || backoff || kinds.count > 0;
    if (is_reset && is_change)
        return tide_fail(err, TIDE_E_INVALID, "--reset removes the policy: give it alone");
    tide_work_policy policy = {TIDE_WORK_POLICY_INIT, .work_type = cli->args[0],
                               .max_retries =
                                   has_retries ? tide_cli_number(cli, TIDE_CLI_RETRIES) : -1};
    TIDE_TRY(read_backoff(backoff, &policy, err));
    for (int i = 0; i < kinds.count; i++) {
        unsigned flag = 0;
        TIDE_TRY(tide_work_no_retry_parse(&flag, kinds.items[i], err));
        policy.no_retry |= flag;
    }
    TIDE_CLI_STORE(store, cli, is_change || is_reset ? TIDE_STORE_EXISTING : TIDE_STORE_AS_IS, err);
    if (is_change || is_reset)
        TIDE_TRY(tide_work_policy_set(store, &policy, err));
    return print_policy(cli, store, err);
}

/* Tidemark work limit: how many items of a type run at once. */

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
