/* cmd_work_policy.c - tidemark work policy: how often, how soon and after what not an item is retried. */
#include "cli/work/cmd_work.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <tidemark/work.h>

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
