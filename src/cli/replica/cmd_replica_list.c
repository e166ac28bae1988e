/* cmd_replica_list.c - tidemark replica status|digest. */

#include "base/cleanup.h"
#include "base/digest.h"
#include "cli/print/message_output.h"
#include "cli/replica/cmd_replica.h"
#include "services/replica/status_service.h"

/* ---- status ---- */

static tide_status print_mark(void *arg, const tide_origin_mark *mark, tide_error *err)
{
    char node[TIDE_CLI_NODE_SIZE];
    (void)err;
    tide_cli_replica_node(node, &mark->origin);
    tide_cli_print(arg, "log %s epoch %lld: through %lld, highest %lld, floor %lld\n", node,
                   (long long)mark->epoch, (long long)mark->prefix, (long long)mark->highest,
                   (long long)mark->floor);
    return TIDE_OK;
}

static tide_status print_peer(void *arg, const tide_peer_seen *peer, tide_error *err)
{
    char node[TIDE_CLI_NODE_SIZE];
    char seen[TIDE_CLI_TIME_SIZE];
    (void)err;
    tide_cli_replica_node(node, &peer->node);
    tide_cli_time_text(seen, peer->seen_at_us);
    tide_cli_print(arg, "peer %s: seen %s%s%s\n", node, seen,
                   peer->unlike[0] ? "; other types: " : "", peer->unlike);
    return TIDE_OK;
}

static tide_status skip_peer_mark(void *arg, const tide_node_id *peer, const tide_node_id *origin,
                                  int64_t epoch, int64_t mark, tide_error *err)
{
    (void)arg;
    (void)peer;
    (void)origin;
    (void)epoch;
    (void)mark;
    (void)err;
    return TIDE_OK;
}

static tide_status print_status(FILE *file, tide_node *node, tide_error *err)
{
    tide_node_counts counts = {.conflicts = 0};
    TIDE_CLEANUP(tide_peer_marks_done) tide_peer_marks marks = {.origin_count = 0};
    char id[TIDE_CLI_NODE_SIZE];
    const tide_node_id node_id = tide_node_get_id(node);
    tide_cli_replica_node(id, &node_id);
    TIDE_TRY(tide_node_count(node, &counts, err));
    TIDE_TRY(tide_peer_tables(node, &marks, err));
    tide_cli_print(
        file, "node %s epoch %lld: %d tables, %lld conflicts, %lld rows aside, %lld quarantined\n",
        id, (long long)tide_node_epoch(node), marks.table_count, (long long)counts.conflicts,
        (long long)counts.aside, (long long)counts.quarantined);
    TIDE_TRY(tide_node_marks(node, print_mark, file, err));
    return tide_peer_list(node, print_peer, skip_peer_mark, file, err);
}

tide_status tide_cli_replica_status(tide_cli *cli, tide_error *err)
{
    TIDE_CLEANUP(tide_node_closep) tide_node *node = NULL;
    TIDE_TRY(tide_cli_replica_open(cli, false, &node, err));
    if (tide_node_epoch(node) == 0)
        return tide_fail(err, TIDE_E_NOT_FOUND, "no table of %s is tracked", cli->args[0]);
    TIDE_TRY(tide_peer_look(node, NULL, err));
    if (!cli->out.is_json)
        return print_status(cli->out.file, node, err);
    TIDE_CLEANUP(tide_buffer_done) tide_buffer bytes = tide_buffer_of(TIDE_RPC_RESPONSE_MAX);
    TIDE_TRY(tide_look_status(node, &bytes, err));
    return tide_cli_print_encoded(&cli->out,
                                  &tidemark__replica__v1__get_status_response__descriptor,
                                  tide_buffer_view(&bytes), err);
}

/* ---- digest ---- */

static tide_status print_digest(void *arg, const tide_table_digest *digest, tide_error *err)
{
    tide_cli *cli = arg;
    char hex[2 * sizeof digest->digest + 1];
    tide_hex_encode(hex, digest->digest, sizeof digest->digest);
    if (!cli->out.is_json) {
        tide_cli_print(cli->out.file, "%s  %s (%lld rows)\n", hex, digest->table,
                       (long long)digest->rows);
        return TIDE_OK;
    }
    tide_cli_json_begin(&cli->out);
    tide_cli_json_text(&cli->out, "table", digest->table);
    tide_cli_json_i64(&cli->out, "rows", digest->rows);
    tide_cli_json_text(&cli->out, "digest", hex);
    return tide_cli_json_end(&cli->out, err);
}

tide_status tide_cli_replica_digest(tide_cli *cli, tide_error *err)
{
    TIDE_CLEANUP(tide_node_closep) tide_node *node = NULL;
    TIDE_TRY(tide_cli_replica_open(cli, false, &node, err));
    TIDE_TRY(tide_peer_look(node, NULL, err));
    return tide_node_digests(node, print_digest, cli, err);
}
