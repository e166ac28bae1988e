/* cmd_lake_work.c - a change of one catalog: files written under a pin, one commit, and its answer. */
#include <inttypes.h>

#include "cli/lake/cmd_lake.h"

tide_lake_commit_options tide_cli_lake_options(const tide_cli *cli, tide_view hash)
{
    return (tide_lake_commit_options){.request_key = tide_cli_text(cli, TIDE_CLI_REQUEST_KEY),
                                      .request_hash = hash,
                                      .author = tide_cli_text(cli, TIDE_CLI_AUTHOR),
                                      .message = tide_cli_text(cli, TIDE_CLI_MESSAGE)};
}

/* ---- begin ---- */

static tide_status open_data(void *arg, tide_lake_data **out, tide_error *err)
{
    tide_cli_lake_work *work = arg;
    TIDE_TRY(tide_cli_open_lake_data(work->cli, work->metabase.lake, &work->data, err));
    *out = work->data;
    return TIDE_OK;
}

tide_status tide_cli_lake_begin(tide_cli_lake_work *work, const char *catalog, tide_view request,
                                tide_error *err)
{
    tide_cli *cli = work->cli;
    const char *author = tide_cli_text(cli, TIDE_CLI_AUTHOR);
    TIDE_TRY(tide_sha256_of(request, work->hash, err));
    TIDE_TRY(tide_cli_open_lake(cli, &work->metabase, 0, err));
    work->work =
        (tide_lake_work){.lake = work->metabase.lake,
                         .open_data = open_data,
                         .arg = work,
                         .holder = author ? author : "tidemark",
                         .commit = tide_cli_lake_options(
                             cli, tide_view_bytes((const char *)work->hash, sizeof work->hash))};
    const tide_status status = tide_lake_work_begin(&work->work, catalog, err);
    if (status != TIDE_E_NOT_FOUND || !tide_cli_is_given(cli, TIDE_CLI_CREATE))
        return status;
    const tide_lake_commit_options made_by = {.author = author};
    tide_lake_created created;
    TIDE_TRY(tide_lake_create_catalog(work->metabase.lake, catalog, true, &made_by, &created, err));
    return tide_lake_work_begin(&work->work, catalog, err);
}

tide_status tide_cli_lake_append(tide_cli_lake_work *work, const char *schema, const char *table,
                                 const char *source, tide_lake_format format, tide_error *err)
{
    /* The table is found first: what is not there afterwards is the file. */
    tide_lake_table_seen seen = {0};
    TIDE_TRY(tide_lake_change_table(work->work.change, schema, table, &seen, err));
    tide_lake_table_done(&seen);
    const tide_status status =
        tide_lake_work_append(&work->work, schema, table, source, format, err);
    if (status == TIDE_E_NOT_FOUND)
        (void)snprintf(work->cli->hint, sizeof work->cli->hint, "check the name of the file");
    return status;
}

/* ---- finish ---- */

static tide_status print_words(const tide_cli_lake_work *work, tide_cli_lake_counts counts)
{
    FILE *file = work->cli->out.file;
    (void)fprintf(file, "snapshot %" PRId64, work->work.result.snapshot_id);
    if (counts == TIDE_CLI_COUNT_ADDED || counts == TIDE_CLI_COUNT_BOTH)
        (void)fprintf(file, ", %" PRId64 " rows added", work->work.result.rows_added);
    if ((counts == TIDE_CLI_COUNT_DELETED || counts == TIDE_CLI_COUNT_BOTH) &&
        !work->work.result.is_replay)
        (void)fprintf(file, ", %" PRId64 " rows deleted", work->work.deleted);
    (void)fputs(work->work.result.is_replay ? " (done earlier under this key)\n" : "\n", file);
    return TIDE_OK;
}

static tide_status print_answer(const tide_cli_lake_work *work, tide_cli_lake_counts counts,
                                tide_error *err)
{
    tide_cli_output *out = &work->cli->out;
    if (!out->is_json)
        return print_words(work, counts);
    LAKE(Committed) row;
    tide_lake_message_committed(&row, &work->work);
    return tide_cli_print_message(out, &row.base, err);
}

tide_status tide_cli_lake_finish(tide_cli_lake_work *work, tide_cli_lake_counts counts,
                                 tide_error *err)
{
    TIDE_TRY(tide_lake_work_commit(&work->work, err));
    return print_answer(work, counts, err);
}

void tide_cli_lake_work_done(tide_cli_lake_work *work)
{
    tide_lake_work_done(&work->work);
    tide_lake_data_close(work->data);
    tide_cli_close_lake(&work->metabase);
}
