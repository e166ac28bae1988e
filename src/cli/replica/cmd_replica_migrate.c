/* cmd_replica_migrate.c - tidemark replica migrate DB -- COMMAND: a migration that capture does not stand in the way of. */
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cli/idempotency/idempotency_signals.h"
#include "cli/replica/cmd_replica.h"
#include "runtime/child.h"
#include "store/foreign/migration_lock.h"

/* Signals are the command's; whatever it makes of them, the triggers are put back. */
static void pass_signals(void *arg, tide_child *child, tide_child_watch *watch)
{
    unsigned char byte = 0;
    (void)arg;
    while (read(watch->fd, &byte, 1) == 1) {
        const int number = byte & 0x7f;
        const bool has_heard = (byte & 0x80) && tide_child_is_in_our_group(child);
        if (number == SIGTSTP) {
            if (!tide_child_is_in_our_group(child))
                tide_child_signal(child, SIGSTOP);
            (void)kill(getpid(), SIGSTOP);
            tide_child_signal(child, SIGCONT);
        } else if (!has_heard) {
            tide_child_signal(child, number);
        }
    }
}

static tide_status run_command(tide_cli *cli, int signals, int *exit_code, tide_error *err)
{
    TIDE_CLEANUP(tide_child_result_done) tide_child_result result = {.pid = 0};
    tide_child_watch watch = {.fd = signals, .fn = pass_signals};
    const tide_child_spec spec = {.argv = cli->command,
                                  .stdin_kind = TIDE_CHILD_STDIN_INHERIT,
                                  .watches = &watch,
                                  .watch_count = 1};
    TIDE_TRY(tide_child_run(&spec, &result, err));
    *exit_code = result.signal != 0 ? 128 + result.signal : result.exit_code;
    return TIDE_OK;
}

static tide_status print_found(tide_cli *cli, const tide_capture_found *found, int exit_code,
                               tide_error *err)
{
    if (!cli->out.is_json) {
        tide_cli_print(stderr, "captured again: %lld rows had changed%s%s\n",
                       (long long)found->rescanned, found->report[0] ? "; " : "", found->report);
        return TIDE_OK;
    }
    tide_cli_json_begin(&cli->out);
    tide_cli_json_i64(&cli->out, "exit_code", exit_code);
    tide_cli_json_i64(&cli->out, "tables", found->lost_tables);
    tide_cli_json_i64(&cli->out, "rows", found->rescanned);
    tide_cli_json_text(&cli->out, "report", found->report);
    return tide_cli_json_end(&cli->out, err);
}

/* The lock is let go first: whoever looks at the file from then on repairs it as well. */
static tide_status hook_again(tide_cli *cli, tide_node *node, tide_foreign_pause *pause,
                              int exit_code, tide_error *err)
{
    tide_capture_found found = {.lost_tables = 0};
    tide_foreign_pause_end(pause);
    tide_node_on_report(node, NULL, NULL); /* it is part of the answer */
    const tide_status status = tide_peer_look(node, &found, err);
    if (status < TIDE_OK) {
        (void)snprintf(cli->hint, sizeof cli->hint,
                       "changes are not captured until the next 'tidemark replica sync', 'run' or "
                       "'track' succeeds");
        return status;
    }
    return print_found(cli, &found, exit_code, err);
}

static tide_status migrate(tide_cli *cli, int signals, tide_error *err)
{
    tide_error why = {.status = TIDE_OK};
    int exit_code = 0;
    TIDE_CLEANUP(tide_foreign_pause_end) tide_foreign_pause pause = {.fd = -1};
    TIDE_CLEANUP(tide_node_closep) tide_node *node = NULL;
    TIDE_TRY(tide_cli_replica_open(cli, false, &node, err));
    if (tide_node_epoch(node) == 0)
        return tide_fail(err, TIDE_E_NOT_FOUND, "no table of %s is tracked", cli->args[0]);
    TIDE_TRY(tide_peer_look(node, NULL, err)); /* what was captured so far */
    TIDE_TRY(tide_foreign_pause_begin(&pause, tide_foreign_path(tide_node_file(node)), err));
    TIDE_TRY(tide_node_unhook(node, err));
    const tide_status ran = run_command(cli, signals, &exit_code, &why);
    TIDE_TRY(hook_again(cli, node, &pause, exit_code, err));
    if (ran < TIDE_OK)
        return tide_fail(err, ran, "%s", why.text);
    cli->exit_code = exit_code;
    return TIDE_OK;
}

tide_status tide_cli_replica_migrate(tide_cli *cli, tide_error *err)
{
    int signals = -1;
    if (!cli->command || !cli->command[0])
        return tide_fail(err, TIDE_E_INVALID, "behind -- stands the command that migrates");
    TIDE_TRY(tide_cli_signals_catch(&signals, err));
    const tide_status status = migrate(cli, signals, err);
    tide_cli_signals_release();
    return status;
}
