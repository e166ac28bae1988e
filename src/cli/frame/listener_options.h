/* listener_options.h - the options that every program that serves has in common, as
 * runtime/listener.h needs them. */
#pragma once

#include <limits.h>

#include "cli/frame/cli.h"
#include "runtime/listener.h"
#include "services/work/maintenance.h"

/* For .takes of such a verb: what is read below. */
#define TIDE_CLI_LISTENER_OPTIONS                                                                  \
    CONFIG, TLS_CERT, TLS_KEY, TLS_CA, CLIENT_CERTS, TOKEN_FILE, REQUIRE_TOKEN, LOCAL_ROLE,        \
        INSECURE, ALLOW_HOST, NET_LIMIT, LOG_LEVEL, LOG_FORMAT, DRAIN

/* Everything but ports and store. The log is the caller's memory. TIDE_E_INVALID: a limit. */
TIDE_MUST_CHECK tide_status tide_cli_listener_options(tide_cli *cli, tide_log *log,
                                                      tide_listener_options *out, tide_error *err);

/* --export-dir, absolute and without links; out is "" where it is not given. TIDE_E_INVALID: it is
 * no directory. */
TIDE_MUST_CHECK tide_status tide_cli_export_dir(const tide_cli *cli, char out[PATH_MAX],
                                                tide_error *err);

/* For .takes of a verb that runs TIDE_WORK_STEPS: what tide_cli_work_maintenance reads. */
#define TIDE_CLI_MAINTENANCE_OPTIONS SWEEP, KEEP_KEYS, KEEP_ITEMS, KEEP_CHECKPOINTS
tide_work_maintenance_options tide_cli_work_maintenance(const tide_cli *cli);

/* The host name, where none was given. */
void tide_cli_host_name(char *out, size_t size);

/* Block the signals that the listener's main loop handles, before a store that is opened first
 * starts threads. */
void tide_cli_block_signals(void);

/* After serving. TIDE_E_INTERRUPTED ends the process as it is. Returns other statuses. */
tide_status tide_cli_after_serving(tide_status status);
