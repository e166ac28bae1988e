/* cmd_lake_maintenance.c - housekeeping: expire, cleanup, compact. */
#include <inttypes.h>

#include <tidemark/env.h>

#include "base/cleanup.h"
#include "cli/lake/cmd_lake.h"
#include "lake/compact.h"
#include "lake/expire.h"

/* ---- expire ---- */

static tide_status print_expired(tide_cli *cli, const tide_lake_expired *expired, tide_error *err)
{
    const bool is_dry = tide_cli_is_given(cli, TIDE_CLI_DRY_RUN);
    if (!cli->out.is_json) {
        (void)fprintf(cli->out.file,
                      "%s %" PRId64 " snapshots, %" PRId64 " rows; %" PRId64
                      " files to clean up, %" PRId64 " dropped catalogs at an end\n",
                      is_dry ? "would go:" : "gone:", expired->snapshots, expired->rows,
                      expired->files, expired->catalogs);
        return TIDE_OK;
    }
    LAKE(ExpireResponse) row = LAKE_INIT(EXPIRE_RESPONSE);
    row.snapshots = expired->snapshots;
    row.rows = expired->rows;
    row.files = expired->files;
    row.catalogs = expired->catalogs;
    return tide_cli_print_message(&cli->out, &row.base, err);
}

/* Turn by turn, until there is nothing more; a dry run counts one turn's worth at a time and would count it for ever. */
static tide_status expire_all(tide_cli *cli, tide_lake *lake,
                              const tide_lake_expire_options *options, tide_lake_expired *sum,
                              tide_error *err)
{
    tide_lake_name name;
    if (cli->arg_count > 0)
        TIDE_TRY(tide_lake_name_parse(&name, cli->args[0], 1, err));
    bool more = true;
    while (more) {
        tide_lake_expired turn = {0};
        TIDE_TRY(
            tide_lake_expire(lake, cli->arg_count > 0 ? name.catalog : NULL, options, &turn, err));
        sum->snapshots += turn.snapshots;
        sum->rows += turn.rows;
        sum->files += turn.files;
        sum->catalogs += turn.catalogs;
        more = turn.more && !options->is_dry_run && turn.snapshots + turn.rows > 0;
    }
    return TIDE_OK;
}

tide_status tide_cli_lake_expire(tide_cli *cli, tide_error *err)
{
    tide_env *env = tide_env_system();
    tide_lake_expire_options options = {.keep_last = tide_cli_number(cli, TIDE_CLI_KEEP),
                                        .is_dry_run = tide_cli_is_given(cli, TIDE_CLI_DRY_RUN)};
    if (tide_cli_text(cli, TIDE_CLI_OLDER_THAN))
        options.older_than_us = env->wall_us(env) - tide_cli_number(cli, TIDE_CLI_OLDER_THAN);
    if (tide_cli_is_given(cli, TIDE_CLI_CONFLICT_RETENTION)) {
        const int64_t retention_us = tide_cli_number(cli, TIDE_CLI_CONFLICT_RETENTION);
        options.conflict_retention_us = retention_us > 0 ? retention_us : -1;
    }
    if (cli->arg_count > 0 && !options.older_than_us && !options.keep_last)
        return tide_fail(err, TIDE_E_INVALID,
                         "say which snapshots: --older-than DURATION, --keep N, or both");
    TIDE_CLEANUP(tide_cli_close_lake) tide_cli_metabase metabase = {0};
    TIDE_TRY(tide_cli_open_lake(cli, &metabase, 0, err));
    tide_lake_expired sum = {0};
    TIDE_TRY(expire_all(cli, metabase.lake, &options, &sum, err));
    return print_expired(cli, &sum, err);
}

/* ---- cleanup ---- */

static tide_status print_cleaned(tide_cli *cli, const tide_lake_cleaned *sum, tide_error *err)
{
    const bool is_dry = tide_cli_is_given(cli, TIDE_CLI_DRY_RUN);
    if (!cli->out.is_json) {
        (void)fprintf(cli->out.file,
                      "%s %" PRId64 " files, %" PRId64 " orphans, %" PRId64 " bytes; %" PRId64
                      " were missing, %" PRId64 " lie elsewhere\n",
                      is_dry ? "would go:" : "gone:", sum->files, sum->orphans, sum->bytes,
                      sum->missing, sum->foreign);
        return TIDE_OK;
    }
    LAKE(CleanupResponse) row = LAKE_INIT(CLEANUP_RESPONSE);
    row.files = sum->files;
    row.orphans = sum->orphans;
    row.bytes = sum->bytes;
    row.missing = sum->missing;
    row.foreign = sum->foreign;
    return tide_cli_print_message(&cli->out, &row.base, err);
}

tide_status tide_cli_lake_cleanup(tide_cli *cli, tide_error *err)
{
    const int64_t grace_us = tide_cli_number(cli, TIDE_CLI_GRACE);
    tide_lake_cleanup_options options = {.with_orphans = tide_cli_is_given(cli, TIDE_CLI_ORPHANS),
                                         .is_dry_run = tide_cli_is_given(cli, TIDE_CLI_DRY_RUN)};
    if (tide_cli_text(cli, TIDE_CLI_GRACE))
        options.grace_us = grace_us > 0 ? grace_us : -1;
    TIDE_CLEANUP(tide_cli_close_lake) tide_cli_metabase metabase = {0};
    TIDE_TRY(tide_cli_open_lake(cli, &metabase, 0, err));
    tide_lake_cleaned sum = {0};
    bool more = true;
    while (more) {
        tide_lake_cleaned turn = {0};
        TIDE_TRY(tide_lake_cleanup(metabase.lake, &options, &turn, err));
        sum.files += turn.files;
        sum.orphans += turn.orphans;
        sum.bytes += turn.bytes;
        sum.missing += turn.missing;
        sum.foreign += turn.foreign;
        more = turn.more && !options.is_dry_run;
    }
    return print_cleaned(cli, &sum, err);
}

/* ---- compact ---- */

tide_status tide_cli_lake_compact(tide_cli *cli, tide_error *err)
{
    tide_lake_name name;
    TIDE_TRY(tide_lake_name_parse(&name, cli->args[0], 1, err));
    TIDE_CLEANUP(tide_cli_close_lake) tide_cli_metabase metabase = {0};
    TIDE_CLEANUP(tide_lake_data_closep) tide_lake_data *data = NULL;
    TIDE_TRY(tide_cli_open_lake(cli, &metabase, 0, err));
    TIDE_TRY(tide_cli_open_lake_data(cli, metabase.lake, &data, err));
    const tide_lake_compact_options options = {.holder = tide_cli_text(cli, TIDE_CLI_AUTHOR)};
    tide_lake_compacted sum = {0};
    TIDE_TRY(tide_lake_compact(metabase.lake, data, name.catalog, &options, &sum, err));
    if (!cli->out.is_json) {
        (void)fprintf(cli->out.file,
                      "%" PRId64 " snapshots: %" PRId64 " files became %" PRId64 ", %" PRId64
                      " rows; %" PRId64 " times somebody was faster, %" PRId64 " tables are busy\n",
                      sum.steps, sum.files_before, sum.files_after, sum.rows, sum.conflicts,
                      sum.busy);
        return TIDE_OK;
    }
    LAKE(CompactResponse) row;
    tide_lake_message_compacted(&row, &sum);
    return tide_cli_print_message(&cli->out, &row.base, err);
}
