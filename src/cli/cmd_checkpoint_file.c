/* cmd_checkpoint_file.c - tidemark checkpoint export|import|archive|restore: what goes to and comes from files.
 *
 * A file is written beside its name and takes the name when it is complete and on disk: an interrupted export leaves
 * nothing behind. "-" is stdout or stdin. */
#include "cli/cmd_checkpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tidemark/journal.h>

#include "base/cleanup.h"
#include "cli/interrupt.h"
#include "cli/progress.h"
#include "cli/work_output.h"

/* ---- a file that appears when it is whole ---- */

typedef struct whole_file {
    const char *path; /* "-": stdout */
    char partial[4200];
    int fd;
} whole_file;

static void drop_file(whole_file *file)
{
    if (file->fd > STDERR_FILENO)
        (void)close(file->fd);
    if (file->partial[0])
        (void)unlink(file->partial);
    tide_cli_interrupt_partial(NULL);
}

static tide_status open_file(whole_file *file, const char *path, tide_error *err)
{
    *file = (whole_file){.path = path, .fd = STDOUT_FILENO};
    if (strcmp(path, "-") == 0)
        return TIDE_OK;
    struct stat found;
    if (lstat(path, &found) == 0)
        return tide_fail(err, TIDE_E_EXISTS, "%s exists already", path);
    if (snprintf(file->partial, sizeof file->partial, "%s.partial-%ld", path, (long)getpid()) >=
        (int)sizeof file->partial)
        return tide_fail(err, TIDE_E_INVALID, "the file name is too long");
    file->fd = open(file->partial, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (file->fd < 0) {
        const int code = errno;
        file->partial[0] = '\0';
        return tide_fail(err, code == EACCES ? TIDE_E_DENIED : TIDE_E_IO, "cannot create %s: %s",
                         path, strerror(code));
    }
    tide_cli_interrupt_partial(file->partial);
    return TIDE_OK;
}

static tide_status sync_parent(const char *path, tide_error *err)
{
    TIDE_CLEANUP(tide_freep) char *parent = strdup(path);
    if (!parent)
        return tide_fail(err, TIDE_E_NOMEM, "no memory for a path");
    char *slash = strrchr(parent, '/');
    if (slash)
        slash[slash == parent ? 1 : 0] = '\0';
    const int fd = open(slash ? parent : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || fsync(fd) != 0) {
        const int code = errno;
        if (fd >= 0)
            (void)close(fd);
        return tide_fail(err, TIDE_E_IO, "cannot sync the directory of %s: %s", path,
                         strerror(code));
    }
    (void)close(fd);
    return TIDE_OK;
}

/* link, not rename: a file that appeared under the name meanwhile is not overwritten. */
static tide_status publish_file(whole_file *file, tide_error *err)
{
    if (!file->partial[0])
        return TIDE_OK;
    if (fsync(file->fd) != 0)
        return tide_fail(err, errno == ENOSPC ? TIDE_E_FULL : TIDE_E_IO, "cannot sync %s: %s",
                         file->path, strerror(errno));
    if (link(file->partial, file->path) != 0)
        return tide_fail(err, errno == EEXIST ? TIDE_E_EXISTS : TIDE_E_IO, "cannot create %s: %s",
                         file->path, strerror(errno));
    return sync_parent(file->path, err);
}

static tide_status write_bytes(void *arg, tide_view bytes, tide_error *err)
{
    const whole_file *file = arg;
    while (bytes.len > 0) {
        const ssize_t written = write(file->fd, bytes.ptr, bytes.len);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return tide_fail(err, errno == ENOSPC || errno == EDQUOT ? TIDE_E_FULL : TIDE_E_IO,
                             "cannot write %s: %s", file->path, strerror(errno));
        bytes.ptr += written;
        bytes.len -= (size_t)written;
    }
    return TIDE_OK;
}

/* One argument serves the bytes and the progress. */
typedef struct export_job {
    whole_file file;
    tide_cli_progress progress;
} export_job;

static void end_export(export_job *job)
{
    tide_cli_progress_end(&job->progress);
    drop_file(&job->file);
}

static tide_status write_export(void *arg, tide_view bytes, tide_error *err)
{
    export_job *job = arg;
    return write_bytes(&job->file, bytes, err);
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
    TIDE_TRY(open_file(&job.file, cli->args[0], err));
    TIDE_TRY(tide_journal_export(store, tide_cli_text(cli, TIDE_CLI_TASK), write_export, &job,
                                 show_export, moved, err));
    return publish_file(&job.file, err);
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
    TIDE_TRY(tide_cli_open_store(cli, &store, TIDE_STORE_CREATE, err));
    TIDE_TRY(tide_journal_import(store, read_bytes, &job, show_import, &moved, err));
    tide_cli_progress_end(&job.progress);
    if (!cli->out.is_json) {
        tide_cli_print(cli->out.file,
                       "%" PRId64 " checkpoints imported (%" PRId64 " with new numbers), %" PRId64
                       " were there already, %" PRId64 " had been removed here before\n",
                       moved.checkpoints, moved.renumbered, moved.skipped - moved.removed,
                       moved.removed);
        return TIDE_OK;
    }
    tide_cli_json_begin(&cli->out);
    tide_cli_json_i64(&cli->out, "tasks", moved.tasks);
    tide_cli_json_i64(&cli->out, "checkpoints", moved.checkpoints);
    tide_cli_json_i64(&cli->out, "skipped", moved.skipped);
    tide_cli_json_i64(&cli->out, "removed", moved.removed);
    tide_cli_json_i64(&cli->out, "renumbered", moved.renumbered);
    tide_cli_json_i64(&cli->out, "global_sequence", moved.head);
    return tide_cli_json_end(&cli->out, err);
}

/* ---- restore ---- */

typedef struct restoration {
    tide_cli_output *out;
    whole_file file;
} restoration;

static void end_restoration(restoration *r)
{
    drop_file(&r->file);
}

static tide_status put_snapshot(void *arg, const tide_checkpoint *checkpoint, tide_error *err)
{
    restoration *r = arg;
    if (r->file.path)
        return write_bytes(&r->file, checkpoint->snapshot, err);
    if (!r->out->is_json) {
        (void)fwrite(checkpoint->snapshot.ptr, 1, checkpoint->snapshot.len, r->out->file);
        (void)fputc('\n', r->out->file);
        return TIDE_OK;
    }
    tide_cli_json_begin(r->out);
    tide_cli_json_checkpoint(r->out, checkpoint);
    return tide_cli_json_end(r->out, err);
}

/* That it was restored is recorded; so a file that cannot be written is found out before. */
tide_status tide_cli_checkpoint_restore(tide_cli *cli, tide_error *err)
{
    TIDE_CLEANUP(end_restoration) restoration r = {.out = &cli->out, .file = {.fd = -1}};
    TIDE_CLEANUP(tide_store_closep) tide_store *store = NULL;
    TIDE_TRY(tide_cli_open_store(cli, &store, TIDE_STORE_EXISTING, err));
    if (tide_cli_text(cli, TIDE_CLI_OUT))
        TIDE_TRY(open_file(&r.file, tide_cli_text(cli, TIDE_CLI_OUT), err));
    TIDE_TRY(tide_cli_found(tide_journal_restore(store, cli->args[0], put_snapshot, &r, err),
                            "checkpoint", cli->args[0], store, err));
    return r.file.path ? publish_file(&r.file, err) : TIDE_OK;
}
