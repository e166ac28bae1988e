/* cmd_replica.h - verbs of `tidemark replica` that stand in files of their own, and what they share. */
#pragma once

#include "cli/frame/cli.h"
#include "remote/replica_peer.h"
#include "replica/peer.h"

/* cmd_replica_list.c, cmd_replica_conflicts.c */
tide_cli_run tide_cli_replica_status;
tide_cli_run tide_cli_replica_digest;
tide_cli_run tide_cli_replica_conflicts;
tide_cli_run tide_cli_replica_conflicts_show;
tide_cli_run tide_cli_replica_conflicts_take;
tide_cli_run tide_cli_replica_conflicts_dismiss;
/* cmd_replica_changes.c */
tide_cli_run tide_cli_replica_events;
tide_cli_run tide_cli_replica_watch;
/* cmd_replica_verify.c */
tide_cli_run tide_cli_replica_verify;
/* cmd_replica_snapshot.c */
tide_cli_run tide_cli_replica_snapshot_create;
tide_cli_run tide_cli_replica_snapshot_restore;
tide_cli_run tide_cli_replica_snapshot_ls;
tide_cli_run tide_cli_replica_snapshot_verify;

/* For .takes: how peers are spoken to. */
#define TIDE_CLI_PEER_SECURITY PEER_CA, PEER_CERT, PEER_KEY, PEER_TOKEN_FILE, PEER_INSECURE

tide_remote_options tide_cli_replica_remote(const tide_cli *cli, const char *address);

/* The file that the first argument names. is_new: made if it is not there. */
TIDE_MUST_CHECK tide_status tide_cli_replica_open(const tide_cli *cli, bool is_new, tide_node **out,
                                                  tide_error *err);

/* A node's id as text. */
enum { TIDE_CLI_NODE_SIZE = 37 };
void tide_cli_replica_node(char out[TIDE_CLI_NODE_SIZE], const tide_node_id *id);
