/* cmd_checkpoint_file.c - tidemark checkpoint export|import|archive|restore: what goes to and comes from files.
 *
 * "-" is stdout or stdin. */
#include "cli/journal/cmd_checkpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <tidemark/journal.h>

#include "base/cleanup.h"
#include "cli/print/atomic_file.h"
#include "cli/print/progress.h"
#include "cli/work/work_output.h"

#define PUBLISH_MAX_US INT64_C(3600000000) /* of an import: an hour */

/* One argument serves the bytes and the progress. */
typedef struct export_job {
    tide_cli_whole_file file;
    tide_cli_progress progress;
} export_job;

static void end_export(export_job *job)
{
    tide_cli_progress_end(&job->progress);
    tide_cli_whole_file_drop(&job->file);
}

static tide_status write_export(void *arg, tide_view bytes, tide_error *err)
{
    export_job *job = arg;
    return tide_cli_whole_file_write(&job->file, bytes, err);
}

static void show_export(void *arg, int64_t done, int64_t total)
{
    export_job *job = arg;
    tide_cli_progress_update(&job->progress, done, total);
}

/* ---- export, archive ---- */

/* With "-" the result goes to stderr: stdout is the export. */
static tide_status print_exported(tide_cli *cli, const tide_journal_transfer *moved,
                                  int64_t removed, tide_error *err)
{
    const bool is_stdout = strcmp(cli->args[0], "-") == 0;
    if (!cli->out.is_json || is_stdout) {
        tide_cli_print(is_stdout ? stderr : cli->out.file,
                       "%" PRId64 " checkpoints of %" PRId64 " tasks exported%s",
                       moved->checkpoints, moved->tasks, removed >= 0 ? ", " : "\n");
        if (removed >= 0)
            tide_cli_print(is_stdout ? stderr : cli->out.file, "%" PRId64 " removed\n", removed);
        return TIDE_OK;
    }
    tide_cli_json_begin(&cli->out);
    tide_cli_json_text(&cli->out, "file", cli->args[0]);
    tide_cli_json_i64(&cli->out, "tasks", moved->tasks);
    tide_cli_json_i64(&cli->out, "checkpoints", moved->checkpoints);
    tide_cli_json_i64(&cli->out, "global_sequence", moved->head);
    if (removed >= 0)
        tide_cli_json_i64(&cli->out, "removed", removed);
    return tide_cli_json_end(&cli->out, err);
}

static tide_status export_to(tide_cli *cli, tide_store *store, tide_journal_transfer *moved,
                             tide_error *err)
{
    TIDE_CLEANUP(end_export) export_job job = {.file = {.fd = -1}};
    tide_cli_progress_begin(&job.progress, &cli->out, "exporting");
    TIDE_TRY(tide_cli_whole_file_open(&job.file, cli->args[0], err));
    TIDE_TRY(tide_journal_export(
        store,
        &(tide_journal_export_request){TIDE_JOURNAL_EXPORT_REQUEST_INIT,
                                       .task_id = tide_cli_text(cli, TIDE_CLI_TASK),
                                       .write = write_export, .progress = show_export, .arg = &job},
        moved, err));
    return tide_cli_whole_file_publish(&job.file, err);
}

tide_status tide_cli_checkpoint_export(tide_cli *cli, tide_error *err)
{
    tide_journal_transfer moved = {.tasks = 0};
    TIDE_CLEANUP(tide_store_closep) tide_store *store = NULL;
    TIDE_TRY(tide_cli_open_store(cli, &store, TIDE_STORE_AS_IS, err));
    TIDE_TRY(export_to(cli, store, &moved, err));
    return print_exported(cli, &moved, -1, err);
}

/* Nothing is removed before the file is on disk, and nothing that came after it was written. */
tide_status tide_cli_checkpoint_archive(tide_cli *cli, tide_error *err)
{
    if (strcmp(cli->args[0], "-") == 0)
        return tide_fail(err, TIDE_E_INVALID,
                         "an archive needs a file: what is removed must be on disk");
    tide_journal_transfer moved = {.tasks = 0};
    tide_compacted compacted = {.removed = 0};
    TIDE_CLEANUP(tide_store_closep) tide_store *store = NULL;
    TIDE_TRY(tide_cli_open_store(cli, &store, TIDE_STORE_EXISTING, err));
    TIDE_TRY(export_to(cli, store, &moved, err));
    const tide_compaction policy = {
        TIDE_COMPACTION_INIT,
        .task_id = tide_cli_text(cli, TIDE_CLI_TASK),
        .keep = tide_cli_number(cli, TIDE_CLI_KEEP) > 0 ? tide_cli_number(cli, TIDE_CLI_KEEP) : -1,
        .keep_tagged = tide_cli_is_given(cli, TIDE_CLI_KEEP_TAGGED),
        .older_than_us = tide_cli_number(cli, TIDE_CLI_OLDER_THAN),
        .up_to_global = moved.head,
    };
    if (moved.head > 0)
        TIDE_TRY(tide_journal_compact(store, &policy, &compacted, err));
    return print_exported(cli, &moved, compacted.removed, err);
}

/* ---- import ---- */

typedef struct import_job {
    int fd;
    tide_cli_progress progress;
} import_job;

static void end_import(import_job *job)
{
    tide_cli_progress_end(&job->progress);
    if (job->fd > STDERR_FILENO)
        (void)close(job->fd);
}

static void show_import(void *arg, int64_t done, int64_t total)
{
    import_job *job = arg;
    tide_cli_progress_update(&job->progress, done, total);
}

static tide_status read_bytes(void *arg, void *bytes, size_t len, size_t *got, tide_error *err)
{
    const import_job *job = arg;
    ssize_t count = 0;
    do
        count = read(job->fd, bytes, len);
    while (count < 0 && errno == EINTR);
    if (count < 0)
        return tide_fail(err, TIDE_E_IO, "cannot read the file: %s", strerror(errno));
    *got = (size_t)count;
    return TIDE_OK;
}

/* All of a file is published by one transaction, however large it is. */
static tide_status open_for_import(const tide_cli *cli, tide_store **out, tide_error *err)
{
    tide_store_options options = {TIDE_STORE_OPTIONS_INIT, .mode = TIDE_STORE_CREATE,
                                  .is_inline = true, .closure_us = PUBLISH_MAX_US};
    tide_cli_store_options(cli, &options);
    return tide_store_open(out, tide_cli_text(cli, TIDE_CLI_STORE), &options, err);
}

tide_status tide_cli_checkpoint_import(tide_cli *cli, tide_error *err)
{
    const char *path = cli->args[0];
    TIDE_CLEANUP(end_import) import_job job = {.fd = -1};
    tide_cli_progress_begin(&job.progress, &cli->out, "importing");
    job.fd = strcmp(path, "-") == 0 ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    if (job.fd < 0)
        return tide_fail(err, errno == ENOENT ? TIDE_E_NOT_FOUND : TIDE_E_IO, "cannot open %s: %s",
                         path, strerror(errno));
    tide_journal_transfer moved = {.tasks = 0};
    TIDE_CLEANUP(tide_store_closep) tide_store *store = NULL;
    TIDE_TRY(open_for_import(cli, &store, err));
    TIDE_TRY(tide_journal_import(store, read_bytes, &job, show_import, &moved, err));
    tide_cli_progress_end(&job.progress);
    if (!cli->out.is_json) {
        tide_cli_print(cli->out.file,
                       "%" PRId64 " checkpoints imported (%" PRId64 " with new numbers), %" PRId64
                       " were there already, %" PRId64
                       " had been removed here before; the head is %" PRId64 "\n",
                       moved.checkpoints, moved.renumbered, moved.skipped - moved.removed,
                       moved.removed, moved.store_head);
        return TIDE_OK;
    }
    JOURNAL(ImportResponse) response = JOURNAL_INIT(IMPORT_RESPONSE);
    response.tasks = moved.tasks;
    response.checkpoints = moved.checkpoints;
    response.skipped = moved.skipped;
    response.removed = moved.removed;
    response.renumbered = moved.renumbered;
    response.head = moved.head;
    response.store_head = moved.store_head;
    return tide_cli_print_message(&cli->out, &response.base, err);
}

/* ---- restore ---- */

typedef struct restoration {
    tide_cli_output *out;
    tide_cli_whole_file file;
} restoration;

static void end_restoration(restoration *r)
{
    tide_cli_whole_file_drop(&r->file);
}

static tide_status put_snapshot(void *arg, const tide_checkpoint *checkpoint, tide_error *err)
{
    restoration *r = arg;
    if (r->file.path)
        return tide_cli_whole_file_write(&r->file, checkpoint->snapshot, err);
    if (!r->out->is_json) {
        (void)fwrite(checkpoint->snapshot.ptr, 1, checkpoint->snapshot.len, r->out->file);
        (void)fputc('\n', r->out->file);
        return TIDE_OK;
    }
    return tide_cli_print_checkpoint(r->out, checkpoint, err);
}

/* That it was restored is recorded; so a file that cannot be written is found out before. */
tide_status tide_cli_checkpoint_restore(tide_cli *cli, tide_error *err)
{
    TIDE_CLEANUP(end_restoration) restoration r = {.out = &cli->out, .file = {.fd = -1}};
    TIDE_CLEANUP(tide_store_closep) tide_store *store = NULL;
    TIDE_TRY(tide_cli_open_store(cli, &store, TIDE_STORE_EXISTING, err));
    if (tide_cli_text(cli, TIDE_CLI_OUT))
        TIDE_TRY(tide_cli_whole_file_open(&r.file, tide_cli_text(cli, TIDE_CLI_OUT), err));
    TIDE_TRY(tide_cli_found(tide_journal_restore(store, cli->args[0], put_snapshot, &r, err),
                            "checkpoint", cli->args[0], store, err));
    return r.file.path ? tide_cli_whole_file_publish(&r.file, err) : TIDE_OK;
}
