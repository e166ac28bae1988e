/* cmd_replica_list.c - tidemark replica status|digest. */

#include "base/cleanup.h"
#include "base/digest.h"
#include "cli/replica/cmd_replica.h"

/* ---- status ---- */

typedef struct showing {
    tide_cli_output *out;
    bool is_in_peer;
} showing;

static tide_status show_mark(void *arg, const tide_origin_mark *mark, tide_error *err)
{
    tide_cli_output *out = ((showing *)arg)->out;
    char node[TIDE_CLI_NODE_SIZE];
    (void)err;
    tide_cli_replica_node(node, &mark->origin);
    if (!out->is_json) {
        tide_cli_print(out->file, "log %s epoch %lld: through %lld, highest %lld, floor %lld\n",
                       node, (long long)mark->epoch, (long long)mark->prefix,
                       (long long)mark->highest, (long long)mark->floor);
        return TIDE_OK;
    }
    tide_cli_json_object_begin(out, NULL);
    tide_cli_json_text(out, "origin", node);
    tide_cli_json_i64(out, "epoch", mark->epoch);
    tide_cli_json_i64(out, "start", mark->start);
    tide_cli_json_i64(out, "floor", mark->floor);
    tide_cli_json_i64(out, "prefix", mark->prefix);
    tide_cli_json_i64(out, "highest", mark->highest);
    tide_cli_json_object_end(out);
    return TIDE_OK;
}

static tide_status show_cursor(void *arg, const char *table, const tide_node_id *origin,
                               int64_t epoch, const tide_cursor *cursor, tide_error *err)
{
    tide_cli_output *out = ((showing *)arg)->out;
    char node[TIDE_CLI_NODE_SIZE];
    size_t count = 0;
    const tide_interval *holes = tide_cursor_holes(cursor, &count);
    (void)err;
    tide_cli_replica_node(node, origin);
    tide_cli_json_object_begin(out, NULL);
    tide_cli_json_text(out, "table", table);
    tide_cli_json_text(out, "origin", node);
    tide_cli_json_i64(out, "epoch", epoch);
    tide_cli_json_i64(out, "prefix", tide_cursor_contiguous(cursor));
    tide_cli_json_array_begin(out, "holes");
    for (size_t i = 0; i < count; i++) {
        tide_cli_json_array_begin(out, NULL);
        tide_cli_json_i64(out, NULL, holes[i].first);
        tide_cli_json_i64(out, NULL, holes[i].last);
        tide_cli_json_array_end(out);
    }
    tide_cli_json_array_end(out);
    tide_cli_json_object_end(out);
    return TIDE_OK;
}

static void end_peer(showing *s)
{
    if (!s->is_in_peer || !s->out->is_json)
        return;
    tide_cli_json_array_end(s->out);
    tide_cli_json_object_end(s->out);
    s->is_in_peer = false;
}

static tide_status show_peer(void *arg, const tide_peer_seen *peer, tide_error *err)
{
    showing *s = arg;
    char node[TIDE_CLI_NODE_SIZE];
    char seen[TIDE_CLI_TIME_SIZE];
    (void)err;
    tide_cli_replica_node(node, &peer->node);
    tide_cli_time_text(seen, peer->seen_at_us);
    if (!s->out->is_json) {
        tide_cli_print(s->out->file, "peer %s: seen %s%s%s\n", node, seen,
                       peer->unlike[0] ? "; other types: " : "", peer->unlike);
        return TIDE_OK;
    }
    end_peer(s);
    tide_cli_json_object_begin(s->out, NULL);
    tide_cli_json_text(s->out, "node", node);
    tide_cli_json_time(s->out, "seen_at", peer->seen_at_us);
    tide_cli_json_time(s->out, "expires_at", peer->expires_at_us);
    tide_cli_json_text(s->out, "unlike", peer->unlike[0] ? peer->unlike : NULL);
    tide_cli_json_array_begin(s->out, "marks");
    s->is_in_peer = true;
    return TIDE_OK;
}

static tide_status show_peer_mark(void *arg, const tide_node_id *peer, const tide_node_id *origin,
                                  int64_t epoch, int64_t mark, tide_error *err)
{
    const showing *s = arg;
    char node[TIDE_CLI_NODE_SIZE];
    (void)peer;
    (void)err;
    if (!s->out->is_json)
        return TIDE_OK;
    tide_cli_replica_node(node, origin);
    tide_cli_json_object_begin(s->out, NULL);
    tide_cli_json_text(s->out, "origin", node);
    tide_cli_json_i64(s->out, "epoch", epoch);
    tide_cli_json_i64(s->out, "mark", mark);
    tide_cli_json_object_end(s->out);
    return TIDE_OK;
}

static tide_status show_all(tide_cli *cli, tide_node *node, tide_error *err)
{
    tide_cli_output *out = &cli->out;
    showing s = {.out = out};
    tide_node_counts counts = {.conflicts = 0};
    TIDE_CLEANUP(tide_peer_marks_done) tide_peer_marks marks = {.origin_count = 0};
    char id[TIDE_CLI_NODE_SIZE];
    const tide_node_id node_id = tide_node_get_id(node);
    tide_cli_replica_node(id, &node_id);
    TIDE_TRY(tide_node_count(node, &counts, err));
    TIDE_TRY(tide_peer_tables(node, &marks, err));
    if (out->is_json) {
        tide_cli_json_text(out, "node", id);
        tide_cli_json_i64(out, "epoch", tide_node_epoch(node));
        tide_cli_json_i64(out, "conflicts", counts.conflicts);
        tide_cli_json_i64(out, "aside", counts.aside);
        tide_cli_json_i64(out, "quarantined", counts.quarantined);
        tide_cli_json_i64(out, "waiting", counts.waiting);
        tide_cli_json_array_begin(out, "tables");
        for (int i = 0; i < marks.table_count; i++)
            tide_cli_json_text(out, NULL, marks.tables[i].name);
        tide_cli_json_array_end(out);
        tide_cli_json_array_begin(out, "origins");
    } else {
        tide_cli_print(out->file,
                       "node %s epoch %lld: %d tables, %lld conflicts, %lld rows aside, %lld "
                       "quarantined\n",
                       id, (long long)tide_node_epoch(node), marks.table_count,
                       (long long)counts.conflicts, (long long)counts.aside,
                       (long long)counts.quarantined);
    }
    TIDE_TRY(tide_node_marks(node, show_mark, &s, err));
    if (out->is_json) {
        tide_cli_json_array_end(out);
        tide_cli_json_array_begin(out, "cursors");
        TIDE_TRY(tide_peer_cursors(node, show_cursor, &s, err));
        tide_cli_json_array_end(out);
        tide_cli_json_array_begin(out, "peers");
    }
    TIDE_TRY(tide_peer_list(node, show_peer, show_peer_mark, &s, err));
    end_peer(&s);
    if (out->is_json)
        tide_cli_json_array_end(out);
    return TIDE_OK;
}

tide_status tide_cli_replica_status(tide_cli *cli, tide_error *err)
{
    TIDE_CLEANUP(tide_node_closep) tide_node *node = NULL;
    TIDE_TRY(tide_cli_replica_open(cli, false, &node, err));
    if (tide_node_epoch(node) == 0)
        return tide_fail(err, TIDE_E_NOT_FOUND, "no table of %s is tracked", cli->args[0]);
    TIDE_TRY(tide_peer_look(node, NULL, err));
    if (!cli->out.is_json)
        return show_all(cli, node, err);
    tide_cli_json_begin(&cli->out);
    TIDE_TRY(show_all(cli, node, err));
    return tide_cli_json_end(&cli->out, err);
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
