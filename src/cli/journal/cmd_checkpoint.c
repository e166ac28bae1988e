/* cmd_checkpoint.c - tidemark checkpoint: the table of its verbs, and those that are a line or two. */
#include "cli/journal/cmd_checkpoint.h"

#include <inttypes.h>

#include <tidemark/journal.h>

#include "base/cleanup.h"
#include "cli/work/work_output.h"

static tide_status annotate(tide_cli *cli, tide_error *err)
{
    JOURNAL(AnnotateResponse) response = JOURNAL_INIT(ANNOTATE_RESPONSE);
    TIDE_CLEANUP(tide_store_closep) tide_store *store = NULL;
    TIDE_TRY(tide_cli_open_store(cli, &store, TIDE_STORE_EXISTING, err));
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
    TIDE_CLEANUP(tide_store_closep) tide_store *store = NULL;
    TIDE_TRY(tide_cli_open_store(cli, &store, TIDE_STORE_EXISTING, err));
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
    TIDE_CLEANUP(tide_store_closep) tide_store *store = NULL;
    TIDE_TRY(tide_cli_open_store(cli, &store, TIDE_STORE_EXISTING, err));
    TIDE_TRY(tide_journal_delete(store, cli->args[0], tide_cli_is_given(cli, TIDE_CLI_FORCE), err));
    return tide_cli_print_done(&cli->out, "checkpoint", cli->args[0], "deleted", err);
}

static tide_status fork_at(tide_cli *cli, tide_error *err)
{
    char task_id[TIDE_JOURNAL_ID_MAX + 1];
    TIDE_CLEANUP(tide_store_closep) tide_store *store = NULL;
    TIDE_TRY(tide_cli_open_store(cli, &store, TIDE_STORE_EXISTING, err));
    TIDE_TRY(tide_journal_fork(store, cli->args[0], tide_cli_text(cli, TIDE_CLI_TASK),
                               tide_cli_text(cli, TIDE_CLI_TITLE), task_id, err));
    return tide_cli_print_id(&cli->out, "task_id", task_id, err);
}

static tide_status add_type(tide_cli *cli, tide_error *err)
{
    TIDE_CLEANUP(tide_store_closep) tide_store *store = NULL;
    TIDE_TRY(tide_cli_open_store(cli, &store, TIDE_STORE_EXISTING, err));
    const char *words = tide_cli_text(cli, TIDE_CLI_MESSAGE);
    TIDE_TRY(tide_journal_add_type(store, cli->args[0], tide_cli_is_given(cli, TIDE_CLI_RESUMABLE),
                                   words ? words : "", err));
    return tide_cli_print_done(&cli->out, "checkpoint_type", cli->args[0], "known", err);
}

static const tide_cli_verb verbs[] = {
    {.name = "add",
     .arguments = "",
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
     .run = tide_cli_checkpoint_add},
    {.name = "show",
     .arguments = "ID",
     .summary = "one checkpoint, by id or global number, with its state",
     .run = tide_cli_checkpoint_show},
    {.name = "ls",
     .arguments = "",
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
     .arguments = "",
     .summary = "the last global number that was issued",
     .run = tide_cli_checkpoint_head},
    {.name = "tail",
     .arguments = "",
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
     .arguments = "",
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
     .run = tide_cli_checkpoint_archive},
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
     .run = tide_cli_checkpoint_restore},
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
     .arguments = "",
     .takes = TIDE_CLI_LIST(TASK),
     .summary = "check contents, hash chains and numbers",
     .details = "Ends with 8 when something is damaged or missing; each finding is printed.",
     .run = tide_cli_checkpoint_verify},
    {.name = "export",
     .arguments = "FILE",
     .takes = TIDE_CLI_LIST(TASK),
     .summary = "write everything, or one task, to a file that can be imported",
     .run = tide_cli_checkpoint_export},
    {.name = "import",
     .arguments = "FILE",
     .summary = "add what a file holds: all or nothing, once",
     .details =
         "Numbers are kept if all of them lie above those of this store, otherwise everything in "
         "the\n"
         "file gets new ones, in the same order. Importing again changes nothing. - is stdin.",
     .run = tide_cli_checkpoint_import},
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
