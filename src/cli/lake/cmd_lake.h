/* cmd_lake.h - verbs of `tidemark lake` that have files of their own, and what they share.
 *
 *     begin ---- operations (JSON objects, one per line of `lake commit`; other verbs make one each) ---- finish: one snapshot
 *
 * A pin of the base is taken before the first file is written and kept until the commit; files of a change that is refused are removed. Ctrl-C before the commit leaves at most
 * files that nobody names (`lake cleanup --orphans`) and a pin that runs out; nothing that was acknowledged. */
#pragma once

#include "base/digest.h"
#include "base/text/json_tree.h"
#include "cli/frame/cli.h"
#include "cli/print/message_output.h"
#include "lake/work.h"
#include "services/lake/messages.h"

/* The store that --store names, and the metabase in it. */
typedef struct tide_cli_metabase {
    tide_store *store;
    tide_lake *lake;
} tide_cli_metabase;
TIDE_MUST_CHECK tide_status tide_cli_open_lake(tide_cli *cli, tide_cli_metabase *out,
                                               int64_t closure_us, tide_error *err);
void tide_cli_close_lake(tide_cli_metabase *metabase); /* fits TIDE_CLEANUP on {0} */
/* DuckDB for its files; --duckdb-library. */
TIDE_MUST_CHECK tide_status tide_cli_open_lake_data(tide_cli *cli, tide_lake *lake,
                                                    tide_lake_data **out, tide_error *err);
/* --request-key, --author, --message. hash is of what is asked. */
tide_lake_commit_options tide_cli_lake_options(const tide_cli *cli, tide_view hash);

/* ---- cmd_lake_work.c: a change of one catalog ---- */

/* What the snapshot's rows are called in the answer. */
typedef enum tide_cli_lake_counts {
    TIDE_CLI_COUNT_NOTHING,
    TIDE_CLI_COUNT_ADDED,
    TIDE_CLI_COUNT_DELETED,
    TIDE_CLI_COUNT_BOTH,
} tide_cli_lake_counts;

typedef struct tide_cli_lake_work {
    tide_cli *cli;
    tide_cli_metabase metabase;
    tide_lake_data *data; /* NULL: nobody needed it yet */
    tide_lake_work work;
    uint8_t hash[TIDE_SHA256_LEN];
    bool reads_stdin; /* the operations came from there */
} tide_cli_lake_work;

/* request: what is asked, for its key. With --create a catalog that is not there is made. */
TIDE_MUST_CHECK tide_status tide_cli_lake_begin(tide_cli_lake_work *work, const char *catalog,
                                                tide_view request, tide_error *err);
TIDE_MUST_CHECK tide_status tide_cli_lake_append(tide_cli_lake_work *work, const char *schema,
                                                 const char *table, const char *source,
                                                 tide_lake_format format, tide_error *err);
/* Commit and print. */
TIDE_MUST_CHECK tide_status tide_cli_lake_finish(tide_cli_lake_work *work,
                                                 tide_cli_lake_counts counts, tide_error *err);
void tide_cli_lake_work_done(tide_cli_lake_work *work); /* fits TIDE_CLEANUP on {.cli = cli} */

/* ---- verbs ---- */

/* cmd_lake_change.c */
tide_status tide_cli_lake_schema_create(tide_cli *cli, tide_error *err);
tide_status tide_cli_lake_schema_drop(tide_cli *cli, tide_error *err);
tide_status tide_cli_lake_table_create(tide_cli *cli, tide_error *err);
tide_status tide_cli_lake_table_alter(tide_cli *cli, tide_error *err);
tide_status tide_cli_lake_table_drop(tide_cli *cli, tide_error *err);
tide_status tide_cli_lake_table_append(tide_cli *cli, tide_error *err);
tide_status tide_cli_lake_table_delete(tide_cli *cli, tide_error *err);
tide_status tide_cli_lake_view_create(tide_cli *cli, tide_error *err);
tide_status tide_cli_lake_view_drop(tide_cli *cli, tide_error *err);
tide_status tide_cli_lake_commit(tide_cli *cli, tide_error *err);

/* cmd_lake_list.c */
tide_status tide_cli_lake_schema_ls(tide_cli *cli, tide_error *err);
tide_status tide_cli_lake_table_ls(tide_cli *cli, tide_error *err);
tide_status tide_cli_lake_snapshots(tide_cli *cli, tide_error *err);
/* Run fn, which prints to cli->out, in a read; what it printed comes out once, when it has succeeded, however often it ran. */
TIDE_MUST_CHECK tide_status tide_cli_lake_print(tide_cli *cli, tide_store *store, tide_tx_fn *fn,
                                                void *arg, tide_error *err);
/* cmd_lake_diff.c */
tide_status tide_cli_lake_diff(tide_cli *cli, tide_error *err);

/* cmd_lake_maintenance.c */
tide_status tide_cli_lake_expire(tide_cli *cli, tide_error *err);
tide_status tide_cli_lake_cleanup(tide_cli *cli, tide_error *err);
tide_status tide_cli_lake_compact(tide_cli *cli, tide_error *err);

/* cmd_lake_stress.c */
tide_status tide_cli_lake_stress(tide_cli *cli, tide_error *err);
tide_status tide_cli_lake_stress_writer(tide_cli *cli, tide_error *err);
