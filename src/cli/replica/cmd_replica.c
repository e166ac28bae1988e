/* cmd_replica.c - tidemark replica: tables of any SQLite application, replicated between peers. */
#include "cli/replica/cmd_replica.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/text/uuid.h"
#include "cli/frame/listener_options.h"

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
     .run = tide_cli_replica_migrate},
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
     .run = tide_cli_replica_serve},
    {.name = "sync",
     .arguments = "DB PEER...",
     .takes = TIDE_CLI_LIST(PULL, PUSH, TIDE_CLI_PEER_SECURITY),
     .summary = "exchange changes with peers (HOST:PORT), once",
     .details = "Exit code 0: everything that either side had at the beginning is at both. Tables "
                "that are not here\n"
                "are created; the file too.",
     .run = tide_cli_replica_sync},
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
     .run = tide_cli_replica_run},
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
