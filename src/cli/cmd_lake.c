/* cmd_lake.c - tidemark lake init|verify|stress. */
#include "cli/cmd_lake.h"

#include <inttypes.h>

#include "base/cleanup.h"
#include "lake/history.h"

/* The checker reads everything in one closure. */
#define VERIFY_US INT64_C(86400000000)

tide_status tide_cli_open_lake(tide_cli *cli, tide_cli_metabase *out, int64_t closure_us,
                               tide_error *err)
{
    const tide_store_options options = {
        .mode = TIDE_STORE_EXISTING, .is_inline = true, .closure_us = closure_us};
    TIDE_TRY(tide_store_open(&out->store, tide_cli_text(cli, TIDE_CLI_STORE), &options, err));
    return tide_lake_open(&out->lake, out->store, err);
}

void tide_cli_close_lake(tide_cli_metabase *metabase)
{
    tide_lake_close(metabase->lake);
    tide_store_close(metabase->store);
}

/* ---- init ---- */

static tide_status init(tide_cli *cli, tide_error *err)
{
    TIDE_CLEANUP(tide_store_closep) tide_store *store = NULL;
    TIDE_TRY(tide_cli_open_store(cli, &store, TIDE_STORE_CREATE, err));
    bool was_there = false;
    TIDE_TRY(tide_lake_init(store, tide_cli_text(cli, TIDE_CLI_DATA), &was_there, err));
    if (!cli->out.is_json) {
        (void)fprintf(cli->out.file, "%s\n", was_there ? "there already" : "made");
        return TIDE_OK;
    }
    tide_cli_json_begin(&cli->out);
    tide_cli_json_bool(&cli->out, "was_there", was_there);
    return tide_cli_json_end(&cli->out, err);
}

/* ---- verify ---- */

static void print_finding(void *arg, const tide_lake_finding *finding)
{
    tide_cli *cli = arg;
    if (!cli->out.is_json) {
        tide_cli_print(cli->out.file, "%s: catalog %" PRId64 ", snapshot %" PRId64 ": %s\n",
                       finding->rule, finding->catalog_id, finding->snapshot_id, finding->words);
        return;
    }
    tide_error ignored;
    tide_cli_json_begin(&cli->out);
    tide_cli_json_text(&cli->out, "rule", finding->rule);
    tide_cli_json_i64(&cli->out, "catalog_id", finding->catalog_id);
    tide_cli_json_i64(&cli->out, "snapshot_id", finding->snapshot_id);
    tide_cli_json_text(&cli->out, "finding", finding->words);
    TIDE_IGNORE(tide_cli_json_end(&cli->out, &ignored));
}

static tide_status verify(tide_cli *cli, tide_error *err)
{
    TIDE_CLEANUP(tide_cli_close_lake) tide_cli_metabase metabase = {0};
    TIDE_TRY(tide_cli_open_lake(cli, &metabase, VERIFY_US, err));
    tide_lake_checked checked = {0};
    const tide_status status = tide_lake_check_history(
        metabase.lake, cli->arg_count > 0 ? cli->args[0] : NULL, print_finding, cli, &checked, err);
    if (status < TIDE_OK && status != TIDE_E_DAMAGED)
        return status;
    if (cli->out.is_json) {
        tide_error print_err;
        tide_cli_json_begin(&cli->out);
        tide_cli_json_i64(&cli->out, "catalogs", checked.catalogs);
        tide_cli_json_i64(&cli->out, "snapshots", checked.snapshots);
        tide_cli_json_i64(&cli->out, "rows", checked.rows);
        tide_cli_json_i64(&cli->out, "findings", checked.findings);
        TIDE_TRY(tide_cli_json_end(&cli->out, status < TIDE_OK ? &print_err : err));
    } else if (status == TIDE_OK) {
        (void)fprintf(cli->out.file,
                      "sound: %" PRId64 " catalogs, %" PRId64 " snapshots, %" PRId64 " rows\n",
                      checked.catalogs, checked.snapshots, checked.rows);
    }
    return status;
}

static const tide_cli_verb verbs[] = {
    {.name = "init",
     .arguments = "",
     .takes = TIDE_CLI_LIST(DATA),
     .needs = TIDE_CLI_LIST(DATA),
     .overrides = TIDE_CLI_OVERRIDES({.id = TIDE_CLI_DATA,
                                      .value = "DIR",
                                      .help = "where data files lie, below this directory"}),
     .summary = "make a metabase in the store; fine when it is there",
     .run = init},
    {.name = "verify",
     .arguments = "[CATALOG]",
     .summary = "prove the history: nothing lost, doubled or changed; exit code 8 where it is",
     .details = "Recomputes every snapshot from its rows, and checks order, names, files, counters "
                "and that no two\n"
                "commits collide. Prints one line per finding.",
     .run = verify},
    {.name = "stress",
     .arguments = "",
     .takes = TIDE_CLI_LIST(CATALOGS, WRITERS, SECONDS, KILL),
     .summary = "many processes write at once; then prove that nothing was lost",
     .details =
         "Makes catalogs of its own and leaves them there. Prints commits, conflicts, retries "
         "and errors;\n"
         "ends with 8 when a commit is lost, one is there that nobody asked for, or the "
         "history breaks a rule.",
     .run = tide_cli_lake_stress},
    {.name = "stress-writer",
     .arguments = "PREFIX CATALOGS WRITER TURN SECONDS DIR",
     .summary = "one writer of a stress run; started by `lake stress`",
     .run = tide_cli_lake_stress_writer},
    {.name = NULL},
};

const tide_cli_command tide_cli_lake = {
    .name = "lake",
    .summary = "Lake: catalogs of tables whose commits never collide and never rewrite history.",
    .verbs = verbs,
};
