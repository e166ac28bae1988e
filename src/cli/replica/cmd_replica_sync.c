/* cmd_replica_sync.c - tidemark replica sync|serve|run. */
#include <signal.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "cli/frame/listener_options.h"
#include "cli/print/progress.h"
#include "cli/replica/cmd_replica.h"
#include "remote/legacy_pull.h"
#include "remote/replica_bootstrap.h"
#include "services/replica/daemon.h"

/* ---- sync ---- */

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
    if (result.unlike[0])
        tide_cli_print(stderr,
                       "tidemark: %s has tables of other types: values may differ for good: %s\n",
                       address, result.unlike);
    return status;
}

tide_status tide_cli_replica_sync(tide_cli *cli, tide_error *err)
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

tide_status tide_cli_replica_serve(tide_cli *cli, tide_error *err)
{
    tide_replicad_options options = {.snapshot_dir = tide_cli_text(cli, TIDE_CLI_SNAPSHOT_DIR)};
    return serve(cli, &options, err);
}

tide_status tide_cli_replica_run(tide_cli *cli, tide_error *err)
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
