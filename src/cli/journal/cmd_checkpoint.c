/* cmd_checkpoint.c - tidemark checkpoint: the table of its verbs, and those that are a line or two. */
#include "cli/journal/cmd_checkpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tidemark/journal.h>
#include <tidemark/work.h>

#include "base/cleanup.h"
#include "base/text/json.h"
#include "base/text/json_tree.h"
#include "base/text/utf8.h"
#include "cli/frame/input.h"
#include "cli/print/atomic_file.h"
#include "cli/print/progress.h"
#include "cli/work/work_output.h"

/* ---- add ---- */

/* Variables of the environment end up in backups and exports. So only names on a list are kept
 * with their value; of all others it is recorded that they were set. */
static const char *const harmless[] = {
    "LC_ALL", "LC_COLLATE", "LC_CTYPE", "LC_MESSAGES", "LC_MONETARY", "LC_NUMERIC", "LC_TIME",
    "HOME",   "HOSTNAME",   "LANG",     "LANGUAGE",    "LOGNAME",     "PATH",       "PWD",
    "SHELL",  "TERM",       "TMPDIR",   "TZ",          "USER",        "COLUMNS",    "LINES"};

static bool is_harmless(const char *name)
{
    for (size_t i = 0; i < sizeof harmless / sizeof harmless[0]; i++)
        if (strcmp(harmless[i], name) == 0)
            return true;
    return false;
}

/* What is not UTF-8 cannot be kept as it is: an unlisted name is left out, a value is redacted. value NULL: it is not
 * set. */
static void put_variable(tide_json *env, const char *name, const char *value)
{
    if (!tide_utf8_valid(tide_view_of(name)))
        return;
    const bool is_kept = !value || (is_harmless(name) && tide_utf8_valid(tide_view_of(value)));
    tide_json_key(env, name);
    tide_json_text(env, is_kept ? value : "[redacted]");
}

/* "*": every variable that is set. */
static void put_all(tide_json *env)
{
    for (char **at = environ; *at; at++) {
        const char *equals = strchr(*at, '=');
        char name[256];
        if (!equals || (size_t)(equals - *at) >= sizeof name)
            continue;
        memcpy(name, *at, (size_t)(equals - *at));
        name[equals - *at] = '\0';
        put_variable(env, name, equals + 1);
    }
}

static bool has_name(tide_cli_values names, int count, const char *name)
{
    for (int i = 0; i < count; i++)
        if (strcmp(names.items[i], name) == 0)
            return true;
    return false;
}

/* {"env":{...},"working_dir":"..."} */
static tide_status write_surroundings(tide_buffer *out, tide_cli_values names)
{
    const bool has_all = has_name(names, names.count, "*");
    char directory[4096];
    tide_json json;
    tide_json_init(&json, out);
    tide_json_object_begin(&json);
    tide_json_key(&json, "env");
    tide_json_object_begin(&json);
    if (has_all)
        put_all(&json);
    for (int i = 0; i < names.count; i++) {
        const char *value = getenv(names.items[i]);
        const bool is_there = has_all && (value || strcmp(names.items[i], "*") == 0);
        if (!is_there && !has_name(names, i, names.items[i]))
            put_variable(&json, names.items[i], value);
    }
    tide_json_object_end(&json);
    if (getcwd(directory, sizeof directory)) {
        tide_json_key(&json, "working_dir");
        tide_json_text(&json, directory);
    }
    tide_json_object_end(&json);
    return tide_json_finish(&json);
}

/* The members of an object as they were written, but those that are added; each followed by a comma. */
static tide_status copy_members(tide_buffer *out, const tide_json_node *object, tide_view text)
{
    for (const tide_json_node *member = object->first; member; member = member->next) {
        const char *key = member->key.ptr;
        const bool is_last = tide_json_node_find(object, key) == member;
        if (!is_last || strcmp(key, "env") == 0 || strcmp(key, "working_dir") == 0)
            continue;
        TIDE_TRY(tide_json_append_string(out, member->key));
        TIDE_TRY(tide_buffer_append_byte(out, ':'));
        TIDE_TRY(tide_buffer_append_view(out, tide_cli_json_member(text, key)));
        TIDE_TRY(tide_buffer_append_byte(out, ','));
    }
    return TIDE_OK;
}

static tide_status add_surroundings(tide_buffer *out, const tide_json_node *object, tide_view text,
                                    tide_cli_values names)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer added = tide_buffer_of(out->max);
    TIDE_TRY(write_surroundings(&added, names));
    TIDE_TRY(tide_buffer_append_byte(out, '{'));
    if (object)
        TIDE_TRY(copy_members(out, object, text));
    return tide_buffer_append_text(out, added.ptr + 1); /* without its brace */
}

/* Add working_dir and env to the metadata. */
static tide_status capture(const tide_cli *cli, tide_buffer *metadata, tide_error *err)
{
    const tide_cli_values names = tide_cli_list(cli, TIDE_CLI_ENV);
    if (names.count == 0)
        return TIDE_OK;
    for (int i = 0; i < names.count; i++)
        if (strchr(names.items[i], '='))
            return tide_fail(err, TIDE_E_INVALID,
                             "--env takes the name of a variable, without '='");
    TIDE_CLEANUP(tide_json_tree_freep) tide_json_node *given = NULL;
    if (metadata->len > 0)
        TIDE_TRY(tide_json_tree_read(&given, tide_buffer_view(metadata), err));
    if (given && !tide_json_node_is(given, TIDE_JSON_TYPE_OBJECT))
        return tide_fail(err, TIDE_E_INVALID, "with --env, --metadata must be a JSON object");
    TIDE_CLEANUP(tide_buffer_done) tide_buffer whole = tide_buffer_of(metadata->max);
    tide_status status = add_surroundings(&whole, given, tide_buffer_view(metadata), names);
    tide_buffer_clear(metadata);
    if (status >= TIDE_OK)
        status = tide_buffer_append_view(metadata, tide_buffer_view(&whole));
    return status < TIDE_OK ? tide_fail(err, status, "the environment is too long for metadata")
                            : TIDE_OK;
}

static tide_status cli_checkpoint_add(tide_cli *cli, tide_error *err)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer data = tide_buffer_of(TIDE_JOURNAL_SNAPSHOT_MAX);
    TIDE_CLEANUP(tide_buffer_done) tide_buffer metadata = tide_buffer_of(TIDE_JOURNAL_METADATA_MAX);
    TIDE_TRY(tide_cli_input_json(&data, tide_cli_text(cli, TIDE_CLI_DATA), "--data", err));
    if (tide_cli_text(cli, TIDE_CLI_METADATA))
        TIDE_TRY(tide_cli_input_json(&metadata, tide_cli_text(cli, TIDE_CLI_METADATA), "--metadata",
                                     err));
    TIDE_TRY(capture(cli, &metadata, err));
    const tide_cli_values tags = tide_cli_list(cli, TIDE_CLI_TAG);
    const tide_checkpoint_new checkpoint = {
        TIDE_CHECKPOINT_NEW_INIT,
        .checkpoint_id = tide_cli_text(cli, TIDE_CLI_KEY),
        .task_id = tide_cli_text(cli, TIDE_CLI_TASK),
        .work_item_id = tide_cli_text(cli, TIDE_CLI_WORK_ITEM),
        .type = tide_cli_text(cli, TIDE_CLI_TYPE),
        .snapshot = tide_buffer_view(&data),
        .metadata = metadata.len > 0 ? tide_buffer_text(&metadata) : NULL,
        .message = tide_cli_text(cli, TIDE_CLI_MESSAGE),
        .trigger = tide_cli_text(cli, TIDE_CLI_TRIGGER),
        .tags = tags.items,
        .tag_count = tags.count,
        .expect_global = tide_cli_number(cli, TIDE_CLI_EXPECT),
        .token = tide_cli_number(cli, TIDE_CLI_TOKEN),
        .item_token = tide_cli_number(cli, TIDE_CLI_ITEM_TOKEN),
    };
    tide_checkpoint_numbers numbers = {.global_sequence = 0};
    TIDE_CLI_STORE(store, cli, TIDE_STORE_EXISTING, err);
    TIDE_TRY(tide_journal_append(store, &checkpoint, &numbers, err));
    return tide_cli_print_numbers(&cli->out, &numbers, err);
}

/* ---- files ---- */

/* "-" is stdout or stdin. */
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

static tide_status cli_checkpoint_export(tide_cli *cli, tide_error *err)
{
    tide_journal_transfer moved = {.tasks = 0};
    TIDE_CLI_STORE(store, cli, TIDE_STORE_AS_IS, err);
    TIDE_TRY(export_to(cli, store, &moved, err));
    return print_exported(cli, &moved, -1, err);
}

/* Nothing is removed before the file is on disk, and nothing that came after it was written. */
static tide_status cli_checkpoint_archive(tide_cli *cli, tide_error *err)
{
    if (strcmp(cli->args[0], "-") == 0)
        return tide_fail(err, TIDE_E_INVALID,
                         "an archive needs a file: what is removed must be on disk");
    tide_journal_transfer moved = {.tasks = 0};
    tide_compacted compacted = {.removed = 0};
    TIDE_CLI_STORE(store, cli, TIDE_STORE_EXISTING, err);
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

static tide_status cli_checkpoint_import(tide_cli *cli, tide_error *err)
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
static tide_status cli_checkpoint_restore(tide_cli *cli, tide_error *err)
{
    TIDE_CLEANUP(end_restoration) restoration r = {.out = &cli->out, .file = {.fd = -1}};
    TIDE_CLI_STORE(store, cli, TIDE_STORE_EXISTING, err);
    if (tide_cli_text(cli, TIDE_CLI_OUT))
        TIDE_TRY(tide_cli_whole_file_open(&r.file, tide_cli_text(cli, TIDE_CLI_OUT), err));
    TIDE_TRY(tide_cli_found(tide_journal_restore(store, cli->args[0], put_snapshot, &r, err),
                            "checkpoint", cli->args[0], store, err));
    return r.file.path ? tide_cli_whole_file_publish(&r.file, err) : TIDE_OK;
}

static tide_status annotate(tide_cli *cli, tide_error *err)
{
    JOURNAL(AnnotateResponse) response = JOURNAL_INIT(ANNOTATE_RESPONSE);
    TIDE_CLI_STORE(store, cli, TIDE_STORE_EXISTING, err);
    TIDE_TRY(tide_journal_annotate(store, cli->args[0], tide_cli_text(cli, TIDE_CLI_SEVERITY),
                                   tide_cli_text(cli, TIDE_CLI_NOTE), &response.annotation_id,
                                   err));
    if (cli->out.is_json)
        return tide_cli_print_message(&cli->out, &response.base, err);
    tide_cli_print(cli->out.file, "%" PRId64 "\n", response.annotation_id);
    return TIDE_OK;
}

static tide_status compact(tide_cli *cli, tide_error *err)
{
    const tide_compaction policy = {
        TIDE_COMPACTION_INIT,
        .task_id = tide_cli_text(cli, TIDE_CLI_TASK),
        .keep = tide_cli_number(cli, TIDE_CLI_KEEP) > 0 ? tide_cli_number(cli, TIDE_CLI_KEEP) : -1,
        .keep_tagged = tide_cli_is_given(cli, TIDE_CLI_KEEP_TAGGED),
        .older_than_us = tide_cli_number(cli, TIDE_CLI_OLDER_THAN),
        .is_dry_run = tide_cli_is_given(cli, TIDE_CLI_DRY_RUN),
    };
    tide_compacted done = {.removed = 0};
    TIDE_CLI_STORE(store, cli, TIDE_STORE_EXISTING, err);
    TIDE_TRY(tide_journal_compact(store, &policy, &done, err));
    if (!cli->out.is_json) {
        tide_cli_print(cli->out.file,
                       "%" PRId64 "%s, %" PRId64 " kept (%" PRId64
                       " of them because resuming needs them), %" PRId64 " bytes freed\n",
                       done.removed, policy.is_dry_run ? " would be removed" : " removed",
                       done.kept, done.kept_for_resume, done.bytes_removed);
        return TIDE_OK;
    }
    JOURNAL(CompactResponse) response;
    tide_rpc_compacted(&response, &done);
    return tide_cli_print_message(&cli->out, &response.base, err);
}

static tide_status delete (tide_cli *cli, tide_error *err)
{
    TIDE_CLI_STORE(store, cli, TIDE_STORE_EXISTING, err);
    TIDE_TRY(tide_journal_delete(store, cli->args[0], tide_cli_is_given(cli, TIDE_CLI_FORCE), err));
    return tide_cli_print_done(&cli->out, "checkpoint", cli->args[0], "deleted", err);
}

static tide_status fork_at(tide_cli *cli, tide_error *err)
{
    char task_id[TIDE_JOURNAL_ID_MAX + 1];
    TIDE_CLI_STORE(store, cli, TIDE_STORE_EXISTING, err);
    TIDE_TRY(tide_journal_fork(store, cli->args[0], tide_cli_text(cli, TIDE_CLI_TASK),
                               tide_cli_text(cli, TIDE_CLI_TITLE), task_id, err));
    return tide_cli_print_id(&cli->out, "task_id", task_id, err);
}

static tide_status add_type(tide_cli *cli, tide_error *err)
{
    TIDE_CLI_STORE(store, cli, TIDE_STORE_EXISTING, err);
    const char *words = tide_cli_text(cli, TIDE_CLI_MESSAGE);
    TIDE_TRY(tide_journal_add_type(store, cli->args[0], tide_cli_is_given(cli, TIDE_CLI_RESUMABLE),
                                   words ? words : "", err));
    return tide_cli_print_done(&cli->out, "checkpoint_type", cli->args[0], "known", err);
}

static const tide_cli_verb verbs[] = {
    {.name = "add",
     .takes = TIDE_CLI_LIST(TASK, TYPE, DATA, MESSAGE, TAG, METADATA, TRIGGER, WORK_ITEM, EXPECT,
                            ENV, KEY, TOKEN, ITEM_TOKEN),
     .needs = TIDE_CLI_LIST(TASK, DATA),
     .overrides = TIDE_CLI_OVERRIDES(
         {.id = TIDE_CLI_TYPE,
          .fallback = "manual_checkpoint",
          .max = 1,
          .help =
              "iteration_start, iteration_end, tool_executed, llm_response, approval_point, "
              "state_transition, manual_checkpoint, error_boundary, or one made known by add-type"},
         {.id = TIDE_CLI_KEY, .help = "its id; a new UUID if left out"},
         {.id = TIDE_CLI_TOKEN, .help = "token of the task's lease, from 'task resume'"},
         {.id = TIDE_CLI_ENV,
          .value = "NAME",
          .help =
              "record this variable (* for all) and the directory; unlisted values are redacted"}),
     .summary = "append a checkpoint; prints its numbers",
     .details =
         "What is printed is on disk and is never given again. With --expect N it is "
         "written only if\n"
         "N is the next global number; otherwise it ends with 4 and nothing is written. The "
         "same\n"
         "holds for a --token that lost its lease, and without --token while 'task resume' "
         "holds\n"
         "the task.\n"
         "Example: tidemark checkpoint add --task T --data '{\"n\":1}' --token 1099511627777",
     .run = cli_checkpoint_add},
    {.name = "show",
     .arguments = "ID",
     .summary = "one checkpoint, by id or global number, with its state",
     .run = tide_cli_checkpoint_show},
    {.name = "ls",
     .takes = TIDE_CLI_LIST(TASK, WORK_ITEM, TYPE, TAG, FROM, TO, SINCE, UNTIL, LIMIT),
     .overrides = TIDE_CLI_OVERRIDES({.id = TIDE_CLI_TYPE, .max = 1},
                                     {.id = TIDE_CLI_TAG, .max = 1, .help = "only with this tag"}),
     .summary = "list checkpoints, newest first",
     .run = tide_cli_checkpoint_list},
    {.name = "range",
     .arguments = "A B",
     .takes = TIDE_CLI_LIST(TASK),
     .summary = "checkpoints from global number A to B, both included, of all tasks",
     .run = tide_cli_checkpoint_range},
    {.name = "head",
     .summary = "the last global number that was issued",
     .run = tide_cli_checkpoint_head},
    {.name = "tail",
     .takes = TIDE_CLI_LIST(FROM, EPOCH_ID, FOLLOW),
     .summary = "what happened in order, and with --follow what happens",
     .details = "A reader that goes on later keeps the epoch_id beside the last number. If the "
                "store was restored or\n"
                "failed over since, the first line is the event epoch_changed: what was read above "
                "its last_common no\n"
                "longer exists, and what follows begins behind it. An epoch that the store does "
                "not have ends with 4.",
     .run = tide_cli_checkpoint_tail},
    {.name = "annotate",
     .arguments = "ID",
     .takes = TIDE_CLI_LIST(NOTE, SEVERITY),
     .needs = TIDE_CLI_LIST(NOTE),
     .overrides = TIDE_CLI_OVERRIDES(
         {.id = TIDE_CLI_SEVERITY, .fallback = "info", .help = "info, warning or critical"}),
     .summary = "write a note to a checkpoint",
     .run = annotate},
    {.name = "compact",
     .takes = TIDE_CLI_LIST(TASK, KEEP, KEEP_TAGGED, OLDER_THAN, DRY_RUN),
     .overrides = TIDE_CLI_OVERRIDES({.id = TIDE_CLI_KEEP, .fallback = "100"}),
     .summary = "remove old checkpoints, never what resuming needs",
     .details = "Keeps the newest N of each task (--keep), with --keep-tagged also those with a "
                "tag, and always\n"
                "what resuming or a fork needs. Numbers are never used again.",
     .run = compact},
    {.name = "archive",
     .arguments = "FILE",
     .takes = TIDE_CLI_LIST(TASK, KEEP, KEEP_TAGGED, OLDER_THAN),
     .overrides = TIDE_CLI_OVERRIDES({.id = TIDE_CLI_KEEP, .fallback = "100"}),
     .summary = "export to FILE, then compact",
     .run = cli_checkpoint_archive},
    {.name = "delete",
     .arguments = "ID",
     .takes = TIDE_CLI_LIST(FORCE),
     .overrides = TIDE_CLI_OVERRIDES({.id = TIDE_CLI_FORCE, .help = "also if resuming needs it"}),
     .summary = "remove one checkpoint",
     .run = delete},
    {.name = "restore",
     .arguments = "ID",
     .takes = TIDE_CLI_LIST(OUT),
     .summary = "hand out a checkpoint's state, verified",
     .run = cli_checkpoint_restore},
    {.name = "fork",
     .arguments = "ID",
     .takes = TIDE_CLI_LIST(TASK, TITLE),
     .overrides = TIDE_CLI_OVERRIDES(
         {.id = TIDE_CLI_TASK, .help = "the new task's id; a new UUID if left out"}),
     .summary = "a new task that shares the history up to a checkpoint; prints its id",
     .run = fork_at},
    {.name = "diff",
     .arguments = "A B",
     .summary = "what differs between two states, by JSON path",
     .run = tide_cli_checkpoint_diff},
    {.name = "verify",
     .takes = TIDE_CLI_LIST(TASK),
     .summary = "check contents, hash chains and numbers",
     .details = "Ends with 8 when something is damaged or missing; each finding is printed.",
     .run = tide_cli_checkpoint_verify},
    {.name = "export",
     .arguments = "FILE",
     .takes = TIDE_CLI_LIST(TASK),
     .summary = "write everything, or one task, to a file that can be imported",
     .run = cli_checkpoint_export},
    {.name = "import",
     .arguments = "FILE",
     .summary = "add what a file holds: all or nothing, once",
     .details =
         "Numbers are kept if all of them lie above those of this store, otherwise everything in "
         "the\n"
         "file gets new ones, in the same order. Importing again changes nothing. - is stdin.",
     .run = cli_checkpoint_import},
    {.name = "add-type",
     .arguments = "TYPE",
     .takes = TIDE_CLI_LIST(RESUMABLE, MESSAGE),
     .overrides = TIDE_CLI_OVERRIDES(
         {.id = TIDE_CLI_RESUMABLE, .help = "compaction keeps the newest of it"}),
     .summary = "make a checkpoint type of your own known",
     .run = add_type},
    {.name = NULL},
};

const tide_cli_command tide_cli_checkpoint = {
    .name = "checkpoint",
    .summary = "Checkpoints: an append-only record, numbered across all tasks.",
    .verbs = verbs,
};
