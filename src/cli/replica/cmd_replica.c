/* cmd_replica.c - tidemark replica: tables of any SQLite application, replicated between peers. */
#include "cli/replica/cmd_replica.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/text/uuid.h"
#include "cli/frame/listener_options.h"
#include "cli/idempotency/idempotency_lock.h"
#include "cli/print/progress.h"
#include "remote/legacy_pull.h"
#include "remote/replica_bootstrap.h"
#include "runtime/child.h"
#include "services/replica/daemon.h"
#include "store/foreign/migration_lock.h"

/* ---- migrate ---- */

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

static tide_status cli_replica_migrate(tide_cli *cli, tide_error *err)
{
    int signals = -1;
    if (!cli->command || !cli->command[0])
        return tide_fail(err, TIDE_E_INVALID, "behind -- stands the command that migrates");
    TIDE_TRY(tide_cli_signals_catch(&signals, err));
    const tide_status status = migrate(cli, signals, err);
    tide_cli_signals_release();
    return status;
}

/* ---- sync ---- */

enum { EXIT_WAITING = 7 };

/* Below the peer's floor: its snapshot first. */
typedef struct beginning {
    tide_cli *cli;
    tide_node *node;
    tide_remote *remote;
    tide_cli_progress progress;
    tide_bootstrap done;
} beginning;

/* In the logs, and so in sync; not in the tables. */
static void print_held(tide_cli *cli, const char *where, int64_t quarantined, int64_t waiting)
{
    if (waiting > 0)
        tide_cli_print(cli->out.file, "; %lld events wait %s for their time (a clock was ahead)",
                       (long long)waiting, where);
    if (quarantined > waiting)
        tide_cli_print(cli->out.file, "; %lld events are quarantined %s",
                       (long long)(quarantined - waiting), where);
}

static tide_status print_result(tide_cli *cli, const char *peer, const tide_sync_result *result,
                                const tide_bootstrap *bootstrap, tide_error *err)
{
    char node[TIDE_CLI_NODE_SIZE];
    tide_cli_replica_node(node, &result->node);
    if (!cli->out.is_json) {
        tide_cli_print(cli->out.file, "%s: %lld events pulled, %lld pushed%s", peer,
                       (long long)result->pulled.events, (long long)result->pushed.events,
                       result->is_proven ? ", in sync" : "");
        print_held(cli, "here", result->quarantined, result->waiting);
        print_held(cli, "there", result->peer_quarantined, result->peer_waiting);
        tide_cli_print(cli->out.file, "\n");
        return TIDE_OK;
    }
    tide_cli_json_begin(&cli->out);
    tide_cli_json_text(&cli->out, "peer", peer);
    tide_cli_json_text(&cli->out, "node", node);
    tide_cli_json_i64(&cli->out, "pulled", result->pulled.events);
    tide_cli_json_i64(&cli->out, "pushed", result->pushed.events);
    tide_cli_json_i64(&cli->out, "rows", result->pulled.rows);
    tide_cli_json_i64(&cli->out, "conflicts", result->pulled.conflicts);
    tide_cli_json_i64(&cli->out, "quarantined", result->quarantined);
    tide_cli_json_i64(&cli->out, "waiting", result->waiting);
    tide_cli_json_i64(&cli->out, "peer_quarantined", result->peer_quarantined);
    tide_cli_json_i64(&cli->out, "peer_waiting", result->peer_waiting);
    tide_cli_json_text(&cli->out, "unlike", result->unlike[0] ? result->unlike : NULL);
    tide_cli_json_i64(&cli->out, "tables_created", result->tables_created);
    tide_cli_json_bool(&cli->out, "bootstrapped", result->has_bootstrapped);
    if (result->has_bootstrapped) {
        tide_cli_json_i64(&cli->out, "snapshot_bytes", bootstrap->bytes);
        tide_cli_json_i64(&cli->out, "snapshot_resumed_at", bootstrap->resumed_at);
        tide_cli_json_i64(&cli->out, "snapshot_rows", bootstrap->restored.rows);
    }
    tide_cli_json_bool(&cli->out, "proven", result->is_proven);
    return tide_cli_json_end(&cli->out, err);
}

static void show_progress(void *arg, const char *what, int64_t done, int64_t total)
{
    beginning *b = arg;
    b->progress.what = what;
    tide_cli_progress_update(&b->progress, done, total);
}

static tide_status bring_snapshot(void *arg, tide_error *err)
{
    beginning *b = arg;
    const tide_snapshot_watch watch = {.arg = b, .progress = show_progress};
    tide_bootstrap bootstrap = {.node = b->node, .remote = b->remote, .watch = &watch};
    tide_cli_progress_begin(&b->progress, &b->cli->out, "beginning with a snapshot");
    const tide_status status = tide_bootstrap_run(&bootstrap, err);
    tide_cli_progress_end(&b->progress);
    b->done = bootstrap;
    return status;
}

/* The cut is proven, and events of it are in no table yet, here or there. */
static bool is_held(const tide_sync_result *result)
{
    return result->quarantined > 0 || result->peer_quarantined > 0;
}

static tide_status sync_with(tide_cli *cli, tide_node *node, const char *address, tide_error *err)
{
    TIDE_CLEANUP(tide_remote_closep) tide_remote *remote = NULL;
    const tide_remote_options security = tide_cli_replica_remote(cli, address);
    beginning begin = {.cli = cli, .node = node};
    const tide_sync_options options = {.is_pull_only = tide_cli_is_given(cli, TIDE_CLI_PULL),
                                       .is_push_only = tide_cli_is_given(cli, TIDE_CLI_PUSH),
                                       .bootstrap = bring_snapshot,
                                       .arg = &begin};
    tide_peer here = tide_peer_of_node(node, cli->args[0]);
    tide_sync_result result;
    tide_error print_err;
    TIDE_TRY(tide_remote_open(&remote, &security, err));
    begin.remote = remote;
    const tide_status status = tide_remote_sync(node, &here, remote, &options, &result, err);
    TIDE_IGNORE(print_result(cli, address, &result, &begin.done, &print_err));
    if (status == TIDE_OK && is_held(&result) && cli->exit_code == 0)
        cli->exit_code = EXIT_WAITING;
    if (result.unlike[0])
        tide_cli_print(stderr,
                       "tidemark: %s has tables of other types: values may differ for good: %s\n",
                       address, result.unlike);
    return status;
}

static tide_status cli_replica_sync(tide_cli *cli, tide_error *err)
{
    TIDE_CLEANUP(tide_node_closep) tide_node *node = NULL;
    tide_status first = TIDE_OK;
    if (tide_cli_is_given(cli, TIDE_CLI_PULL) && tide_cli_is_given(cli, TIDE_CLI_PUSH))
        return tide_fail(err, TIDE_E_INVALID, "--pull and --push exclude each other");
    TIDE_TRY(tide_cli_replica_open(cli, true, &node, err));
    TIDE_TRY(tide_node_establish(node, err));
    for (int i = 1; i < cli->arg_count; i++) {
        tide_error peer_err = {.status = TIDE_OK};
        const tide_status status = sync_with(cli, node, cli->args[i], &peer_err);
        if (status < TIDE_OK && first == TIDE_OK) {
            first = status; /* the others are synced with all the same */
            *err = peer_err;
        }
    }
    if (first == TIDE_E_NOT_FOUND)
        (void)snprintf(
            cli->hint, sizeof cli->hint,
            "'tidemark replica snapshot create' at the node that has it only above, 'snapshot "
            "restore' at the other; or let the other 'sync' with it, which does the same");
    return first;
}

/* ---- serve, run ---- */

/* Signals are for the listener's main loop: threads that are started before there is one shall not take them. */
static void keep_signals_back(void)
{
    sigset_t ours;
    (void)sigemptyset(&ours);
    (void)sigaddset(&ours, SIGTERM);
    (void)sigaddset(&ours, SIGINT);
    (void)sigaddset(&ours, SIGHUP);
    (void)pthread_sigmask(SIG_BLOCK, &ours, NULL);
}

static tide_status serve(tide_cli *cli, tide_replicad_options *options, tide_error *err)
{
    tide_log log;
    TIDE_CLEANUP(tide_store_closep) tide_store *tokens = NULL;
    TIDE_CLEANUP(tide_node_closep) tide_node *node = NULL;
    TIDE_TRY(tide_cli_listener_options(cli, &log, &options->listener, err));
    options->listener.ports[0] =
        (tide_listener_port){.name = "grpc", .address = tide_cli_text(cli, TIDE_CLI_LISTEN)};
    options->listener.port_count = 1;
    keep_signals_back();
    TIDE_TRY(tide_cli_replica_open(cli, true, &node, err));
    TIDE_TRY(tide_node_establish(node, err));
    if (tide_cli_is_given(cli,
                          TIDE_CLI_STORE)) /* otherwise there are those of --token-file alone */
        TIDE_TRY(tide_cli_open_store(cli, &tokens, TIDE_STORE_CREATE, err));
    options->listener.store = tokens;
    options->node = node;
    return tide_cli_after_serving(tide_replica_run(options, err));
}

static tide_status cli_replica_serve(tide_cli *cli, tide_error *err)
{
    tide_replicad_options options = {.snapshot_dir = tide_cli_text(cli, TIDE_CLI_SNAPSHOT_DIR)};
    return serve(cli, &options, err);
}

static tide_status cli_replica_run(tide_cli *cli, tide_error *err)
{
    const tide_cli_values peers = tide_cli_list(cli, TIDE_CLI_PEER);
    tide_replicad_options options = {.every_us = tide_cli_number(cli, TIDE_CLI_EVERY),
                                     .collect_us = INT64_C(3600000000),
                                     .snapshot_every_us =
                                         tide_cli_number(cli, TIDE_CLI_SNAPSHOT_EVERY),
                                     .snapshot_dir = tide_cli_text(cli, TIDE_CLI_SNAPSHOT_DIR)};
    for (int i = 0; i < peers.count && i < TIDE_REPLICA_PEERS_MAX; i++)
        options.remotes[options.remote_count++] = tide_cli_replica_remote(cli, peers.items[i]);
    return serve(cli, &options, err);
}

/* ---- what the verbs share ---- */

static void print_report(void *arg, const char *text)
{
    (void)arg;
    tide_cli_print(stderr, "tidemark: %s\n", text);
}

tide_status tide_cli_replica_open(const tide_cli *cli, bool is_new, tide_node **out,
                                  tide_error *err)
{
    const tide_node_options options = {.is_new = is_new};
    TIDE_TRY(tide_node_open(out, cli->args[0], &options, err));
    tide_node_on_report(*out, print_report, NULL);
    return TIDE_OK;
}

void tide_cli_replica_node(char out[TIDE_CLI_NODE_SIZE], const tide_node_id *id)
{
    tide_uuid uuid;
    memcpy(uuid.bytes, id->bytes, sizeof uuid.bytes);
    tide_uuid_format(&uuid, out);
}

tide_remote_options tide_cli_replica_remote(const tide_cli *cli, const char *address)
{
    return (tide_remote_options){.address = address,
                                 .ca_file = tide_cli_text(cli, TIDE_CLI_PEER_CA),
                                 .cert_file = tide_cli_text(cli, TIDE_CLI_PEER_CERT),
                                 .key_file = tide_cli_text(cli, TIDE_CLI_PEER_KEY),
                                 .token_file = tide_cli_text(cli, TIDE_CLI_PEER_TOKEN_FILE),
                                 .is_insecure = tide_cli_is_given(cli, TIDE_CLI_PEER_INSECURE)};
}

/* ---- track, untrack ---- */

static tide_status print_tracked(tide_cli *cli, const char *table, const tide_tracked *tracked,
                                 tide_error *err)
{
    if (cli->out.is_json) {
        tide_cli_json_begin(&cli->out);
        tide_cli_json_text(&cli->out, "table", table);
        tide_cli_json_i64(&cli->out, "rows", tracked->rows);
        tide_cli_json_i64(&cli->out, "imported", tracked->imported);
        tide_cli_json_bool(&cli->out, "was_tracked", tracked->was_tracked);
        tide_cli_json_text(&cli->out, "advice", tracked->advice[0] ? tracked->advice : NULL);
        return tide_cli_json_end(&cli->out, err);
    }
    tide_cli_print(cli->out.file, "%s: %s, %lld rows", table,
                   tracked->was_tracked ? "was tracked already" : "is tracked",
                   (long long)tracked->rows);
    if (tracked->imported > 0)
        tide_cli_print(cli->out.file, ", %lld events imported", (long long)tracked->imported);
    tide_cli_print(cli->out.file, "\n");
    if (tracked->advice[0])
        tide_cli_print(stderr, "  %s\n", tracked->advice);
    return TIDE_OK;
}

static tide_status track(tide_cli *cli, tide_error *err)
{
    TIDE_CLEANUP(tide_node_closep) tide_node *node = NULL;
    TIDE_TRY(tide_cli_replica_open(cli, false, &node, err));
    const int64_t retain_us = tide_cli_is_given(cli, TIDE_CLI_RETAIN)
                                  ? tide_cli_number(cli, TIDE_CLI_RETAIN)
                                  : TIDE_NODE_RETAIN_AS_IS;
    for (int i = 1; i < cli->arg_count; i++) {
        tide_tracked tracked = {.rows = 0};
        TIDE_TRY(tide_node_track(node, cli->args[i], retain_us, &tracked, err));
        if (tracked.was_tracked && tide_cli_is_given(cli, TIDE_CLI_RESCAN)) {
            int64_t found = 0;
            TIDE_TRY(tide_node_rescan(node, cli->args[i], &found, err));
            tracked.rows += found;
        }
        TIDE_TRY(print_tracked(cli, cli->args[i], &tracked, err));
    }
    return TIDE_OK;
}

static tide_status untrack(tide_cli *cli, tide_error *err)
{
    TIDE_CLEANUP(tide_node_closep) tide_node *node = NULL;
    TIDE_TRY(tide_cli_replica_open(cli, false, &node, err));
    TIDE_TRY(tide_peer_look(node, NULL, err)); /* what was captured is not to be lost */
    for (int i = 1; i < cli->arg_count; i++) {
        const tide_status status = tide_node_untrack(node, cli->args[i], err);
        TIDE_TRY(status);
        if (status == TIDE_NONE)
            return tide_fail(err, TIDE_E_NOT_FOUND, "'%s' is not tracked", cli->args[i]);
        if (!cli->out.is_json)
            tide_cli_print(cli->out.file, "%s: is tracked no more\n", cli->args[i]);
    }
    return TIDE_OK;
}

/* ---- gc ---- */

static tide_status collect(tide_cli *cli, tide_error *err)
{
    TIDE_CLEANUP(tide_node_closep) tide_node *node = NULL;
    const tide_collect_options options = {.batch = 0};
    tide_collected sum = {.more = true};
    TIDE_TRY(tide_cli_replica_open(cli, false, &node, err));
    TIDE_TRY(tide_peer_look(node, NULL, err));
    while (sum.more) {
        tide_collected turn = {.more = false};
        TIDE_TRY(tide_node_collect(node, &options, &turn, err));
        sum.events += turn.events;
        sum.tombstones += turn.tombstones;
        sum.more = turn.more;
    }
    if (!cli->out.is_json) {
        tide_cli_print(cli->out.file, "%lld events and %lld tombstones collected\n",
                       (long long)sum.events, (long long)sum.tombstones);
        return TIDE_OK;
    }
    tide_cli_json_begin(&cli->out);
    tide_cli_json_i64(&cli->out, "events", sum.events);
    tide_cli_json_i64(&cli->out, "tombstones", sum.tombstones);
    return tide_cli_json_end(&cli->out, err);
}

/* ---- the table ---- */

static const tide_cli_verb verbs[] = {
    {.name = "track",
     .arguments = "DB TABLE...",
     .takes = TIDE_CLI_LIST(RETAIN, RESCAN),
     .summary = "capture changes of these tables, whichever program makes them",
     .details =
         "Triggers append every change to a log, in the transaction that makes it. Rows that "
         "are there\n"
         "already become events, too.",
     .run = track},
    {.name = "untrack",
     .arguments = "DB TABLE...",
     .summary = "capture no more; what was captured stays for peers",
     .run = untrack},
    {.name = "migrate",
     .arguments = "DB -- CMD...",
     .summary = "run a command that changes the schema, with capture out of its way",
     .details =
         "Triggers are taken off (SQLite drops no column that a trigger names), the command runs, "
         "triggers are put\n"
         "back, and what the command wrote becomes events. Ends with the command's exit code; "
         "Ctrl-C, too, puts the\n"
         "triggers back. A daemon on the same file waits with its looks at the schema until "
         "then.",
     .run = cli_replica_migrate},
    {.name = "status",
     .arguments = "DB",
     .summary = "tell the node, its logs, its peers, conflicts and what waits",
     .run = tide_cli_replica_status},
    {.name = "serve",
     .arguments = "DB",
     .takes = TIDE_CLI_LIST(LISTEN, SNAPSHOT_DIR, TIDE_CLI_LISTENER_OPTIONS),
     .overrides = TIDE_CLI_OVERRIDES({.id = TIDE_CLI_LISTEN, .fallback = "127.0.0.1:4321"},
                                     {.id = TIDE_CLI_DRAIN, .fallback = "30s"}),
     .summary = "let peers sync with this file",
     .details = "Serves tidemark.replica.v1, /metrics, /healthz and /readyz. Prints `ready "
                "grpc=HOST:PORT`.",
     .run = cli_replica_serve},
    {.name = "sync",
     .arguments = "DB PEER...",
     .takes = TIDE_CLI_LIST(PULL, PUSH, TIDE_CLI_PEER_SECURITY),
     .summary = "exchange changes with peers (HOST:PORT), once",
     .details =
         "Exit code 0: everything that either side had at the beginning is at both; 7: so it "
         "is, and events wait\n"
         "(for a clock that was ahead, a table or a column); 3: a snapshot is required, and the "
         "peer has none.\n"
         "Tables that are not here are created; the file too.",
     .run = cli_replica_sync},
    {.name = "run",
     .arguments = "DB",
     .takes = TIDE_CLI_LIST(PEER, EVERY, SNAPSHOT_EVERY, SNAPSHOT_DIR, LISTEN,
                            TIDE_CLI_PEER_SECURITY, TIDE_CLI_LISTENER_OPTIONS),
     .overrides = TIDE_CLI_OVERRIDES(
         {.id = TIDE_CLI_LISTEN, .fallback = "127.0.0.1:4321"},
         {.id = TIDE_CLI_EVERY, .fallback = "5s", .help = "between syncs when nothing changes"},
         {.id = TIDE_CLI_DRAIN, .fallback = "30s"}),
     .summary = "serve, and stay in sync with peers: at every change, and now and then",
     .details = "Collects what no peer needs any more once an hour. /readyz is 200 when every peer "
                "was synced\n"
                "with. Prints `ready grpc=HOST:PORT`.",
     .run = cli_replica_run},
    {.name = "digest",
     .arguments = "DB",
     .summary = "print a digest per tracked table, equal on nodes with the same rows",
     .run = tide_cli_replica_digest},
    {.name = "verify",
     .arguments = "DB PEER",
     .takes = TIDE_CLI_LIST(REPAIR, TIDE_CLI_PEER_SECURITY),
     .summary = "compare tables with a peer, and repair what differs; exit code 8 where they do",
     .details =
         "Tables are compared by ranges of keys, down to rows. --repair syncs, puts right "
         "what differs although\n"
         "the logs are equal, at both nodes, and compares again; values that were overwritten "
         "are in `conflicts`.",
     .run = tide_cli_replica_verify},
    {.name = "conflicts",
     .arguments = "DB",
     .summary =
         "list writes that were lost to concurrent ones, and rows that a constraint keeps out",
     .run = tide_cli_replica_conflicts},
    {.name = "conflicts show",
     .arguments = "DB ID",
     .summary = "print one of them: what the table shows, and what was lost",
     .run = tide_cli_replica_conflicts_show},
    {.name = "conflicts take",
     .arguments = "DB ID",
     .takes = TIDE_CLI_LIST(OURS, THEIRS, VALUE),
     .summary = "decide a conflict: the entry leaves every node with the next sync",
     .details = "--ours keeps what the table shows, --theirs writes what was lost again, --value "
                "writes another value.\n"
                "Of a delete that a later write outlived, --theirs deletes the row.",
     .run = tide_cli_replica_conflicts_take},
    {.name = "conflicts dismiss",
     .arguments = "DB [ID]",
     .takes = TIDE_CLI_LIST(OLDER_THAN),
     .overrides = TIDE_CLI_OVERRIDES(
         {.id = TIDE_CLI_OLDER_THAN, .help = "all that were found longer ago than this"}),
     .summary = "keep what the table shows, and list a conflict no more, on any node",
     .run = tide_cli_replica_conflicts_dismiss},
    {.name = "events",
     .arguments = "DB TABLE",
     .takes = TIDE_CLI_LIST(FROM, LIMIT),
     .overrides = TIDE_CLI_OVERRIDES({.id = TIDE_CLI_LIMIT, .fallback = "1000000"}),
     .summary = "print the history of a table, in the order in which it arrived here",
     .details = "What was collected is no longer in it. --from continues at a position.",
     .run = tide_cli_replica_events},
    {.name = "watch",
     .arguments = "DB [TABLE...]",
     .takes = TIDE_CLI_LIST(FROM),
     .summary = "print what peers change, as it is merged, until it is interrupted",
     .details =
         "Begins with the next change, or with what arrived at --from. To continue later, pass "
         "the last `resume`\n"
         "plus 1 to --from: nothing is missed, and a change may be printed again. What a "
         "snapshot brought, or\n"
         "was collected unread, is printed as an event `gap`.",
     .run = tide_cli_replica_watch},
    {.name = "gc",
     .arguments = "DB",
     .summary = "remove events that are old enough and that every peer has",
     .run = collect},
    {.name = "snapshot create",
     .arguments = "DB FILE",
     .summary = "write the tracked tables, at one cut, to a file that others can begin with",
     .details = "While others write. Restored and compared before it gets its name; Ctrl-C leaves "
                "nothing behind.",
     .run = tide_cli_replica_snapshot_create},
    {.name = "snapshot restore",
     .arguments = "FILE DB",
     .summary = "begin with a snapshot: a new database, or one that has data of its own",
     .details = "Rows are merged column by column, as their changes would have been. Changes made "
                "here that no peer has yet\n"
                "stay, and go out with the next sync.",
     .run = tide_cli_replica_snapshot_restore},
    {.name = "snapshot ls",
     .arguments = "DB",
     .summary = "list the snapshots that were made of this file and are still there",
     .run = tide_cli_replica_snapshot_ls},
    {.name = "snapshot verify",
     .arguments = "FILE",
     .summary = "read a snapshot to its end, and restore it into a database that is thrown away",
     .run = tide_cli_replica_snapshot_verify},
    {.name = NULL},
};

const tide_cli_command tide_cli_replica = {
    .name = "replica",
    .summary = "Replication: tables of any SQLite application, converging between peers.",
    .verbs = verbs,
    .is_placeless = true,
};
