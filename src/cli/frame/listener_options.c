#include "cli/frame/listener_options.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/frame/value.h"
#include "cli/version.h"
#include "net/server/auth.h"

/* SIGTERM ends a daemon within --drain and two seconds, whatever runs. */
#define END_AFTER_US INT64_C(1800000)

static const tide_net_limit_row *find_limit(const char *name, size_t len)
{
    size_t count = 0;
    const tide_net_limit_row *rows = tide_net_limit_rows(&count);
    for (size_t i = 0; i < count; i++)
        if (strlen(rows[i].name) == len && strncmp(rows[i].name, name, len) == 0)
            return &rows[i];
    return NULL;
}

static tide_status fail_name(const char *text, tide_error *err)
{
    char names[1024] = "";
    size_t len = 0;
    size_t count = 0;
    const tide_net_limit_row *rows = tide_net_limit_rows(&count);
    for (size_t i = 0; i < count && len < sizeof names; i++)
        len += (size_t)snprintf(names + len, sizeof names - len, "%s%s", i > 0 ? ", " : "",
                                rows[i].name);
    return tide_fail(err, TIDE_E_INVALID, "--net-limit %s: want NAME=N; names are %s", text, names);
}

/* A value is written as an option of that kind is. */
static tide_status read_value(const tide_net_limit_row *row, const char *text, int64_t *value,
                              tide_error *err)
{
    static const tide_cli_type types[] = {[TIDE_NET_BYTES] = TIDE_CLI_SIZE,
                                          [TIDE_NET_COUNT] = TIDE_CLI_NUMBER,
                                          [TIDE_NET_PER_SECOND] = TIDE_CLI_NUMBER,
                                          [TIDE_NET_MICROSECONDS] = TIDE_CLI_DURATION};
    const tide_cli_option option = {.name = "net-limit",
                                    .value = row->name,
                                    .min = row->minimum,
                                    .max = row->maximum,
                                    .type = types[row->unit]};
    return tide_cli_value_check(value, &option, text, "--net-limit", err);
}

static tide_status set_limit(tide_net_limits *limits, const char *text, tide_error *err)
{
    const char *equals = strchr(text, '=');
    const tide_net_limit_row *row = equals ? find_limit(text, (size_t)(equals - text)) : NULL;
    if (!row)
        return fail_name(text, err);
    int64_t value = 0;
    const tide_status status = read_value(row, equals + 1, &value, err);
    if (status < TIDE_OK)
        return tide_fail_context(err, status, "%s", row->name);
    memcpy((char *)limits + row->offset, &value, sizeof value);
    return TIDE_OK;
}

tide_status tide_cli_listener_options(tide_cli *cli, tide_log *log, tide_listener_options *out,
                                      tide_error *err)
{
    static const tide_log_level levels[] = {TIDE_LOG_ERROR, TIDE_LOG_WARN, TIDE_LOG_INFO,
                                            TIDE_LOG_DEBUG};
    static const tide_tls_verify verify[] = {TIDE_TLS_VERIFY_NONE, TIDE_TLS_VERIFY_OPTIONAL,
                                             TIDE_TLS_VERIFY_REQUIRED};
    static const tide_call_role roles[] = {TIDE_ROLE_NONE, TIDE_ROLE_INGEST, TIDE_ROLE_READ,
                                           TIDE_ROLE_WRITE, TIDE_ROLE_ADMIN};
    tide_env *env = tide_env_system();
    tide_log_init(log, stderr, env,
                  tide_cli_number(cli, TIDE_CLI_LOG_FORMAT) == 1 ? TIDE_LOG_JSON : TIDE_LOG_LOGFMT,
                  levels[tide_cli_number(cli, TIDE_CLI_LOG_LEVEL)]);
    *out = (tide_listener_options){
        .log = log,
        .env = env,
        .version = TIDE_CLI_VERSION,
        .tls_cert = tide_cli_text(cli, TIDE_CLI_TLS_CERT),
        .tls_key = tide_cli_text(cli, TIDE_CLI_TLS_KEY),
        .tls_ca = tide_cli_text(cli, TIDE_CLI_TLS_CA),
        .verify = verify[tide_cli_number(cli, TIDE_CLI_CLIENT_CERTS)],
        .token_file = tide_cli_text(cli, TIDE_CLI_TOKEN_FILE),
        .wants_tokens = tide_cli_is_given(cli, TIDE_CLI_REQUIRE_TOKEN),
        .local_role = roles[tide_cli_number(cli, TIDE_CLI_LOCAL_ROLE)],
        .is_insecure = tide_cli_is_given(cli, TIDE_CLI_INSECURE),
        .drain_us = tide_cli_number(cli, TIDE_CLI_DRAIN),
        .end_us = END_AFTER_US,
    };
    const tide_cli_values hosts = tide_cli_list(cli, TIDE_CLI_ALLOW_HOST);
    out->hosts = (const char *const *)hosts.items;
    out->host_count = (size_t)hosts.count;
    for (int i = 0; i < hosts.count; i++) {
        const tide_status status = tide_auth_check_name(hosts.items[i], err);
        if (status < TIDE_OK)
            return tide_fail_context(err, status, "--allow-host");
    }
    tide_net_limits_init(&out->limits);
    const tide_cli_values given = tide_cli_list(cli, TIDE_CLI_NET_LIMIT);
    for (int i = 0; i < given.count; i++)
        TIDE_TRY(set_limit(&out->limits, given.items[i], err));
    return tide_net_limits_check(&out->limits, err);
}

tide_status tide_cli_export_dir(const tide_cli *cli, char out[PATH_MAX], tide_error *err)
{
    const char *given = tide_cli_text(cli, TIDE_CLI_EXPORT_DIR);
    struct stat info;
    *out = '\0';
    if (!given)
        return TIDE_OK;
    if (!realpath(given, out) || stat(out, &info) != 0)
        return tide_fail(err, TIDE_E_INVALID, "--export-dir %s: %s", given, strerror(errno));
    return S_ISDIR(info.st_mode)
               ? TIDE_OK
               : tide_fail(err, TIDE_E_INVALID, "--export-dir %s: not a directory", given);
}

void tide_cli_host_name(char *out, size_t size)
{
    if (gethostname(out, size) != 0)
        (void)snprintf(out, size, "localhost");
    out[size - 1] = '\0';
}

void tide_cli_block_signals(void)
{
    sigset_t ours;
    (void)sigemptyset(&ours);
    (void)sigaddset(&ours, SIGTERM);
    (void)sigaddset(&ours, SIGINT);
    (void)sigaddset(&ours, SIGHUP);
    (void)pthread_sigmask(SIG_BLOCK, &ours, NULL);
}

tide_status tide_cli_after_serving(tide_status status)
{
    if (status == TIDE_E_INTERRUPTED) {
        (void)fflush(NULL);
        _exit((int)tide_status_get(status)->exit_code);
    }
    return status;
}

tide_work_maintenance_options tide_cli_work_maintenance(const tide_cli *cli)
{
    return (tide_work_maintenance_options){
        .sweep_us = tide_cli_number(cli, TIDE_CLI_SWEEP),
        .keep_keys_us = tide_cli_number(cli, TIDE_CLI_KEEP_KEYS),
        .keep_items_us = tide_cli_number(cli, TIDE_CLI_KEEP_ITEMS),
        .keep_checkpoints = tide_cli_number(cli, TIDE_CLI_KEEP_CHECKPOINTS)};
}
