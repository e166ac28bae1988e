/* cmd_lake_work.c - a change of one catalog: files written under a pin, one commit, and its answer. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "cli/cmd_lake.h"

/* Renewed before the commit. Who dies leaves it behind for so long. */
#define PIN_US INT64_C(3600000000)

/* Files that one operation wrote. */
typedef struct tide_cli_lake_batch {
    struct tide_cli_lake_batch *next;
    tide_lake_table_seen table;
    tide_lake_files files; /* of which rows are deleted */
    tide_lake_written written;
} tide_cli_lake_batch;

tide_lake_commit_options tide_cli_lake_options(const tide_cli *cli, tide_view hash)
{
    return (tide_lake_commit_options){.request_key = tide_cli_text(cli, TIDE_CLI_REQUEST_KEY),
                                      .request_hash = hash,
                                      .author = tide_cli_text(cli, TIDE_CLI_AUTHOR),
                                      .message = tide_cli_text(cli, TIDE_CLI_MESSAGE)};
}

static tide_lake_commit_options options_of(const tide_cli_lake_work *work)
{
    return tide_cli_lake_options(work->cli,
                                 tide_view_bytes((const char *)work->hash, sizeof work->hash));
}

/* ---- begin ---- */

static tide_status begin_change(tide_cli_lake_work *work, const char *catalog, tide_error *err)
{
    const tide_lake_commit_options options = options_of(work);
    const tide_status status =
        tide_lake_find_request(work->metabase.lake, catalog, &options, &work->done, err);
    work->is_answered = status == TIDE_OK;
    if (status != TIDE_NONE)
        return status;
    return tide_lake_begin(&work->change, work->metabase.lake, catalog, 0, err);
}

tide_status tide_cli_lake_begin(tide_cli_lake_work *work, const char *catalog, tide_view request,
                                tide_error *err)
{
    tide_cli *cli = work->cli;
    TIDE_TRY(tide_sha256_of(request, work->hash, err));
    TIDE_TRY(tide_cli_open_lake(cli, &work->metabase, 0, err));
    const tide_status status = begin_change(work, catalog, err);
    if (status != TIDE_E_NOT_FOUND)
        return status;
    if (!tide_cli_is_given(cli, TIDE_CLI_CREATE))
        return status;
    const tide_lake_commit_options made_by = {.author = tide_cli_text(cli, TIDE_CLI_AUTHOR)};
    tide_lake_created created;
    TIDE_TRY(tide_lake_create_catalog(work->metabase.lake, catalog, true, &made_by, &created, err));
    return begin_change(work, catalog, err);
}

/* ---- files ---- */

static tide_status need_files(tide_cli_lake_work *work, tide_error *err)
{
    if (!work->data)
        TIDE_TRY(tide_cli_open_lake_data(work->cli, work->metabase.lake, &work->data, err));
    if (work->has_pin)
        return TIDE_OK;
    const char *author = tide_cli_text(work->cli, TIDE_CLI_AUTHOR);
    TIDE_TRY(tide_lake_pin_take(work->metabase.lake,
                                tide_lake_change_catalog(work->change)->catalog_id,
                                tide_lake_change_base(work->change), author ? author : "tidemark",
                                PIN_US, &work->pin, err));
    work->has_pin = true;
    return TIDE_OK;
}

/* NULL: no memory. */
static tide_cli_lake_batch *add_batch(tide_cli_lake_work *work)
{
    tide_cli_lake_batch *batch = calloc(1, sizeof *batch);
    if (batch) {
        batch->next = work->batches;
        work->batches = batch;
    }
    return batch;
}

tide_status tide_cli_lake_append(tide_cli_lake_work *work, const char *schema, const char *table,
                                 const char *source, tide_lake_format format, tide_error *err)
{
    tide_cli_lake_batch *batch = add_batch(work);
    if (!batch)
        return tide_fail(err, TIDE_E_NOMEM, "no memory for an operation");
    TIDE_TRY(tide_lake_change_table(work->change, schema, table, &batch->table, err));
    TIDE_TRY(need_files(work, err));
    const tide_status status =
        tide_lake_write_rows(work->data, &batch->table, source, format, &batch->written, err);
    if (status == TIDE_E_NOT_FOUND)
        (void)snprintf(work->cli->hint, sizeof work->cli->hint, "check the name of the file");
    TIDE_TRY(status);
    for (int i = 0; i < batch->written.count; i++)
        TIDE_TRY(
            tide_lake_add_file(work->change, batch->table.table.id, &batch->written.files[i], err));
    return TIDE_OK;
}

/* ---- delete ---- */

typedef struct file_look {
    tide_cli_lake_work *work;
    tide_cli_lake_batch *batch;
} file_look;

static tide_status read_files(tide_tx *tx, void *arg, tide_error *err)
{
    const file_look *look = arg;
    tide_lake_files_done(&look->batch->files);
    look->batch->files = (tide_lake_files){0};
    return tide_lake_files_read(tx, tide_lake_change_catalog(look->work->change)->catalog_id,
                                tide_lake_change_base(look->work->change),
                                look->batch->table.table.id, &look->batch->files, err);
}

/* A condition is met by what stands at the base: rows of the same change would escape it. */
static tide_status check_untouched(const tide_cli_lake_work *work, const tide_cli_lake_batch *batch,
                                   const char *table, tide_error *err)
{
    for (const tide_cli_lake_batch *other = batch->next; other; other = other->next)
        if (other->table.table.id == batch->table.table.id)
            return tide_fail(err, TIDE_E_INVALID,
                             "rows of '%s' were appended or deleted in the same change already: "
                             "delete first and once, or in a change of its own (the base is "
                             "snapshot %" PRId64 ")",
                             table, tide_lake_change_base(work->change));
    return TIDE_OK;
}

tide_status tide_cli_lake_delete(tide_cli_lake_work *work, const char *schema, const char *table,
                                 const char *condition, tide_error *err)
{
    tide_cli_lake_batch *batch = add_batch(work);
    if (!batch)
        return tide_fail(err, TIDE_E_NOMEM, "no memory for an operation");
    TIDE_TRY(tide_lake_change_table(work->change, schema, table, &batch->table, err));
    TIDE_TRY(check_untouched(work, batch, table, err));
    TIDE_TRY(need_files(work, err));
    file_look look = {work, batch};
    TIDE_TRY(tide_read(work->metabase.store, read_files, &look, err));
    TIDE_CLEANUP(tide_freep) int *which = calloc((size_t)batch->files.count + 1, sizeof *which);
    if (!which)
        return tide_fail(err, TIDE_E_NOMEM, "no memory for %d files", batch->files.count);
    int64_t rows = 0;
    TIDE_TRY(tide_lake_find_deletes(work->data, &batch->table, &batch->files, condition,
                                    &batch->written, which, &rows, err));
    for (int i = 0; i < batch->written.count; i++) {
        const tide_lake_new_file *file = &batch->written.files[i];
        const bool is_empty = !file->path || !file->path[0];
        TIDE_TRY(tide_lake_delete_rows(work->change, batch->table.table.id,
                                       &batch->files.all[which[i]], is_empty ? NULL : file, err));
    }
    work->deleted += rows;
    return TIDE_OK;
}

/* ---- finish ---- */

static tide_status print_words(const tide_cli_lake_work *work, tide_cli_lake_counts counts)
{
    FILE *file = work->cli->out.file;
    (void)fprintf(file, "snapshot %" PRId64, work->done.snapshot_id);
    if (counts == TIDE_CLI_COUNT_ADDED || counts == TIDE_CLI_COUNT_BOTH)
        (void)fprintf(file, ", %" PRId64 " rows added", work->done.rows_added);
    if ((counts == TIDE_CLI_COUNT_DELETED || counts == TIDE_CLI_COUNT_BOTH) &&
        !work->done.is_replay)
        (void)fprintf(file, ", %" PRId64 " rows deleted", work->deleted);
    (void)fputs(work->done.is_replay ? " (done earlier under this key)\n" : "\n", file);
    return TIDE_OK;
}

/* How many rows an earlier request deleted is not kept. */
static void print_deleted(const tide_cli_lake_work *work, const char *key)
{
    if (work->done.is_replay)
        tide_cli_json_null(&work->cli->out, key);
    else
        tide_cli_json_i64(&work->cli->out, key, work->deleted);
}

static tide_status print_answer(const tide_cli_lake_work *work, tide_cli_lake_counts counts,
                                tide_error *err)
{
    tide_cli_output *out = &work->cli->out;
    if (!out->is_json)
        return print_words(work, counts);
    tide_cli_json_begin(out);
    tide_cli_json_i64(out, "snapshot_id", work->done.snapshot_id);
    if (counts == TIDE_CLI_COUNT_ADDED || counts == TIDE_CLI_COUNT_BOTH)
        tide_cli_json_i64(out, "rows", work->done.rows_added);
    if (counts == TIDE_CLI_COUNT_DELETED)
        print_deleted(work, "rows");
    if (counts == TIDE_CLI_COUNT_BOTH)
        print_deleted(work, "deleted");
    if (work->done.is_replay)
        tide_cli_json_bool(out, "replayed", true);
    return tide_cli_json_end(out, err);
}

tide_status tide_cli_lake_finish(tide_cli_lake_work *work, tide_cli_lake_counts counts,
                                 tide_error *err)
{
    if (!work->is_answered) {
        const tide_lake_commit_options options = options_of(work);
        if (work->has_pin)
            TIDE_TRY(tide_lake_pin_renew(work->metabase.lake, &work->pin, PIN_US, err));
        const tide_status status = tide_lake_commit(work->change, &options, &work->done, err);
        /* Files of a commit that may be there are not ours to remove; if it is not, cleanup finds them. */
        work->is_committed =
            (status == TIDE_OK && !work->done.is_replay) || status == TIDE_E_OUTCOME_UNKNOWN;
        TIDE_TRY(status);
        if (status == TIDE_NONE) /* nothing has changed: the base is the answer */
            work->done = (tide_lake_committed){.snapshot_id = tide_lake_change_base(work->change)};
    }
    return print_answer(work, counts, err);
}

void tide_cli_lake_work_done(tide_cli_lake_work *work)
{
    tide_error ignored;
    while (work->batches) {
        tide_cli_lake_batch *batch = work->batches;
        work->batches = batch->next;
        if (work->data && !work->is_committed)
            tide_lake_written_discard(work->data, &batch->table.table, &batch->written);
        tide_lake_written_done(&batch->written);
        tide_lake_files_done(&batch->files);
        tide_lake_table_done(&batch->table);
        free(batch);
    }
    if (work->has_pin)
        TIDE_IGNORE(tide_lake_pin_release(work->metabase.lake, &work->pin, &ignored));
    tide_lake_drop_change(work->change);
    tide_lake_data_close(work->data);
    tide_cli_close_lake(&work->metabase);
}
