/* cmd_replica_changes.c - tidemark replica events|watch. */
#include <inttypes.h>
#include <string.h>

#include "base/cleanup.h"
#include "cli/replica/cmd_replica.h"
#include "replica/changes.h"

static void print_line(const tide_cli_output *out, const tide_change *change, const char *node)
{
    char at[TIDE_CLI_TIME_SIZE];
    tide_cli_time_text(at, change->timestamp_ms * 1000);
    tide_cli_print(out->file, "%10" PRId64 "  %s  %-6.*s  %.*s %.*s  %.*s  of %s\n",
                   change->position, at, (int)change->operation_type.len,
                   change->operation_type.ptr, (int)change->table_name.len, change->table_name.ptr,
                   (int)change->record_id.len, change->record_id.ptr, (int)change->data.len,
                   change->data.len > 0 ? change->data.ptr : "", node);
}

/* Members of the replication document's table of events, the epoch and the position. */
static void put_members(tide_cli_output *out, const tide_change *change, const char *node)
{
    tide_cli_json_i64(out, "position", change->position);
    tide_cli_json_view(out, "id", change->id);
    tide_cli_json_view(out, "table_name", change->table_name);
    tide_cli_json_view(out, "operation_type", change->operation_type);
    tide_cli_json_view(out, "record_id", change->record_id);
    if (change->data.len > 0)
        tide_cli_json_raw(out, "data", change->data);
    else
        tide_cli_json_null(out, "data");
    tide_cli_json_time(out, "timestamp", change->timestamp_ms * 1000);
    tide_cli_json_text(out, "origin_node_id", node);
    tide_cli_json_i64(out, "origin_seq", change->seq);
    tide_cli_json_bool(out, "processed", change->is_processed);
    tide_cli_json_i64(out, "epoch", change->epoch);
}

/* ---- events ---- */

static tide_status print_event(void *arg, const tide_change *change, tide_error *err)
{
    tide_cli_output *out = arg;
    char node[TIDE_CLI_NODE_SIZE];
    tide_cli_replica_node(node, &change->origin);
    if (!out->is_json) {
        print_line(out, change, node);
        return TIDE_OK;
    }
    tide_cli_json_begin(out);
    put_members(out, change, node);
    return tide_cli_json_end(out, err);
}

/* --from N begins with N. */
static int64_t position_before(const tide_cli *cli)
{
    const int64_t from = tide_cli_number(cli, TIDE_CLI_FROM);
    return from > 0 ? from - 1 : 0;
}

tide_status tide_cli_replica_events(tide_cli *cli, tide_error *err)
{
    TIDE_CLEANUP(tide_node_closep) tide_node *node = NULL;
    TIDE_TRY(tide_cli_replica_open(cli, false, &node, err));
    if (tide_node_epoch(node) > 0)
        TIDE_TRY(tide_peer_look(node, NULL, err));
    return tide_node_events(node, cli->args[1], position_before(cli),
                            tide_cli_number(cli, TIDE_CLI_LIMIT), print_event, &cli->out, err);
}

/* ---- watch ---- */

typedef struct watching {
    tide_cli *cli;
    int64_t resume; /* of the turn before: what is safe to print beside a change */
} watching;

static bool is_watched(const tide_cli *cli, tide_view table)
{
    for (int i = 1; i < cli->arg_count; i++)
        if (strlen(cli->args[i]) == table.len && memcmp(cli->args[i], table.ptr, table.len) == 0)
            return true;
    return cli->arg_count <= 1;
}

static tide_status print_change(void *arg, const tide_change *change, tide_error *err)
{
    const watching *w = arg;
    tide_cli_output *out = &w->cli->out;
    char node[TIDE_CLI_NODE_SIZE];
    if (!is_watched(w->cli, change->table_name))
        return TIDE_OK;
    tide_cli_replica_node(node, &change->origin);
    if (!out->is_json) {
        print_line(out, change, node);
        return TIDE_OK;
    }
    tide_cli_json_begin(out);
    tide_cli_json_text(out, "event", "change");
    put_members(out, change, node);
    tide_cli_json_i64(out, "resume", w->resume);
    return tide_cli_json_end(out, err);
}

static tide_status print_gap(void *arg, const tide_change_gap *gap, tide_error *err)
{
    const watching *w = arg;
    tide_cli_output *out = &w->cli->out;
    char node[TIDE_CLI_NODE_SIZE];
    tide_cli_replica_node(node, &gap->origin);
    if (!out->is_json) {
        tide_cli_print(out->file,
                       "changes of %s, epoch %" PRId64 ", up to %" PRId64
                       " came with a snapshot or were collected unread: read the tables\n",
                       node, gap->epoch, gap->last_seq);
        return TIDE_OK;
    }
    tide_cli_json_begin(out);
    tide_cli_json_text(out, "event", "gap");
    tide_cli_json_text(out, "origin_node_id", node);
    tide_cli_json_i64(out, "epoch", gap->epoch);
    tide_cli_json_i64(out, "last_origin_seq", gap->last_seq);
    tide_cli_json_i64(out, "resume", w->resume);
    return tide_cli_json_end(out, err);
}

tide_status tide_cli_replica_watch(tide_cli *cli, tide_error *err)
{
    const int64_t wait_us = 1000000;
    TIDE_CLEANUP(tide_node_closep) tide_node *node = NULL;
    TIDE_TRY(tide_cli_replica_open(cli, false, &node, err));
    if (tide_node_epoch(node) == 0)
        return tide_fail(err, TIDE_E_NOT_FOUND, "no table of %s is tracked", cli->args[0]);
    watching w = {.cli = cli, .resume = position_before(cli)};
    if (!tide_cli_is_given(cli, TIDE_CLI_FROM))
        TIDE_TRY(tide_node_last_position(node, &w.resume, err));
    TIDE_CLEANUP(tide_node_watch_done) tide_node_watch watch;
    tide_node_watch_init(&watch, w.resume);
    for (;;) {
        int64_t resume = 0;
        const tide_status status =
            tide_node_changes(node, &watch, &resume, print_change, print_gap, &w, err);
        TIDE_TRY(status);
        w.resume = resume;
        TIDE_TRY(tide_cli_output_flush(&cli->out, err));
        if (status == TIDE_NONE)
            TIDE_TRY(tide_foreign_wait(tide_node_file(node), wait_us, err));
    }
}
