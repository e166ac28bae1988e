/* cmd_work.c - tidemark work: the table of its verbs, and those that are a line or two. */
#include "cli/work/cmd_work.h"

#include <inttypes.h>

#include <tidemark/work.h>

#include "cli/frame/listener_options.h"
#include "cli/work/work_output.h"

static tide_status print_retried(void *arg, const tide_work_retried *retried, tide_error *err)
{
    tide_cli *cli = arg;
    if (!cli->out.is_json) {
        tide_cli_print(cli->out.file, "%s%s\n",
                       retried->new_id ? retried->new_id : retried->work_item_id,
                       retried->is_existing ? "  (was there already)" : "");
        return TIDE_OK;
    }
    WORK(RetriedItem) row;
    tide_rpc_retried(&row, retried);
    return tide_cli_print_message(&cli->out, &row.base, err);
}

static tide_status retry(tide_cli *cli, tide_error *err)
{
    const bool has_filter =
        tide_cli_text(cli, TIDE_CLI_TASK) || tide_cli_text(cli, TIDE_CLI_TYPE) ||
        tide_cli_text(cli, TIDE_CLI_FAILURE_KIND) || tide_cli_text(cli, TIDE_CLI_SINCE);
    if ((cli->arg_count > 0) == has_filter)
        return tide_fail(err, TIDE_E_INVALID,
                         "give the ID of an item, or --type, --failure-kind, --since or --task");
    tide_work_filter filter = {TIDE_WORK_FILTER_INIT, .task_id = tide_cli_text(cli, TIDE_CLI_TASK),
                               .work_type = tide_cli_text(cli, TIDE_CLI_TYPE),
                               .failure_kind = tide_cli_text(cli, TIDE_CLI_FAILURE_KIND),
                               .limit = tide_cli_number(cli, TIDE_CLI_LIMIT)};
    tide_env *env = tide_env_system();
    TIDE_TRY(tide_cli_time(cli, TIDE_CLI_SINCE, env->wall_us(env), &filter.ended_since_us, err));
    const tide_work_retry_request request = {
        TIDE_WORK_RETRY_REQUEST_INIT,
        .work_item_id = has_filter ? NULL : cli->args[0],
        .filter = has_filter ? &filter : NULL,
        .from_scratch = tide_cli_is_given(cli, TIDE_CLI_FROM_SCRATCH),
        .with_dependents = tide_cli_is_given(cli, TIDE_CLI_WITH_DEPENDENTS),
        .is_dry_run = tide_cli_is_given(cli, TIDE_CLI_DRY_RUN)};
    TIDE_CLI_STORE(store, cli, TIDE_STORE_EXISTING, err);
    return tide_work_retry_many(store, &request, print_retried, cli, err);
}

typedef tide_status change_fn(tide_store *store, const tide_work_change *change,
                              tide_work_changed_fn *fn, void *arg, tide_error *err);

static tide_status print_changed(void *arg, const char *work_item_id, tide_error *err)
{
    tide_cli *cli = arg;
    const char *result = tide_cli_is_given(cli, TIDE_CLI_DRY_RUN) ? "matches" : "changed";
    if (!cli->out.is_json) {
        tide_cli_print(cli->out.file, "%s\n", work_item_id);
        return TIDE_OK;
    }
    return tide_cli_print_done(&cli->out, "work_item_id", work_item_id, result, err);
}

/* One item by its id, or those of the filter. */
static tide_status change_items(tide_cli *cli, change_fn *run, const char *result, tide_error *err)
{
    const tide_work_filter filter = {TIDE_WORK_FILTER_INIT,
                                     .task_id = tide_cli_text(cli, TIDE_CLI_TASK),
                                     .work_type = tide_cli_text(cli, TIDE_CLI_TYPE),
                                     .status = tide_cli_text(cli, TIDE_CLI_STATUS),
                                     .worker = tide_cli_text(cli, TIDE_CLI_HOLDER),
                                     .limit = tide_cli_number(cli, TIDE_CLI_LIMIT)};
    const bool has_filter = filter.task_id || filter.work_type || filter.status || filter.worker;
    if ((cli->arg_count > 0) == has_filter)
        return tide_fail(err, TIDE_E_INVALID,
                         "give the ID of an item, or --task, --type, --status or --holder");
    const tide_work_change change = {TIDE_WORK_CHANGE_INIT,
                                     .work_item_id = has_filter ? NULL : cli->args[0],
                                     .filter = has_filter ? &filter : NULL,
                                     .reason = tide_cli_text(cli, TIDE_CLI_REASON),
                                     .priority = tide_cli_number(cli, TIDE_CLI_PRIORITY),
                                     .is_dry_run = tide_cli_is_given(cli, TIDE_CLI_DRY_RUN)};
    TIDE_CLI_STORE(store, cli, TIDE_STORE_EXISTING, err);
    if (has_filter || change.is_dry_run)
        return run(store, &change, print_changed, cli, err);
    TIDE_TRY(run(store, &change, NULL, NULL, err));
    return tide_cli_print_done(&cli->out, "work_item_id", cli->args[0], result, err);
}

static tide_status cancel(tide_cli *cli, tide_error *err)
{
    return change_items(cli, tide_work_cancel_many, "cancelled", err);
}

static tide_status reprioritise(tide_cli *cli, tide_error *err)
{
    if (!tide_cli_is_given(cli, TIDE_CLI_PRIORITY))
        return tide_fail(err, TIDE_E_INVALID, "--priority is missing");
    return change_items(cli, tide_work_reprioritise, "reprioritised", err);
}

static tide_status delete (tide_cli *cli, tide_error *err)
{
    TIDE_CLI_STORE(store, cli, TIDE_STORE_EXISTING, err);
    TIDE_TRY(tide_work_delete(store, cli->args[0], tide_cli_is_given(cli, TIDE_CLI_FORCE), err));
    return tide_cli_print_done(&cli->out, "work_item_id", cli->args[0], "deleted", err);
}

static tide_status pause(tide_cli *cli, tide_error *err)
{
    TIDE_CLI_STORE(store, cli, TIDE_STORE_EXISTING, err);
    TIDE_TRY(tide_work_pause(store, cli->args[0], tide_cli_text(cli, TIDE_CLI_REASON), err));
    return tide_cli_print_done(&cli->out, "work_type", cli->args[0], "paused", err);
}

static tide_status resume(tide_cli *cli, tide_error *err)
{
    TIDE_CLI_STORE(store, cli, TIDE_STORE_EXISTING, err);
    TIDE_TRY(tide_work_resume(store, cli->args[0], err));
    return tide_cli_print_done(&cli->out, "work_type", cli->args[0], "resumed", err);
}

static void add_up(tide_work_swept *sum, const tide_work_swept *turn)
{
    sum->requeued += turn->requeued;
    sum->failed += turn->failed;
    sum->quarantined += turn->quarantined;
    sum->promoted += turn->promoted;
    sum->blocked += turn->blocked;
    sum->scheduled += turn->scheduled;
    sum->ended += turn->ended;
    sum->skipped = turn->skipped;
    memcpy(sum->skipped_name, turn->skipped_name, sizeof sum->skipped_name);
}

static tide_status sweep(tide_cli *cli, tide_error *err)
{
    TIDE_CLI_STORE(store, cli, TIDE_STORE_EXISTING, err);
    tide_work_swept sum = {.requeued = 0};
    tide_work_swept turn = {.has_more = true};
    while (turn.has_more) {
        turn = (tide_work_swept){.has_more = false};
        TIDE_TRY(tide_work_sweep(store, 0, tide_cli_number(cli, TIDE_CLI_CRASH_LIMIT), &turn, err));
        add_up(&sum, &turn);
    }
    if (!cli->out.is_json) {
        tide_cli_print(cli->out.file,
                       "%" PRId64 " requeued, %" PRId64 " failed (%" PRId64
                       " quarantined), %" PRId64 " became due, %" PRId64
                       " blocked for good, %" PRId64 " scheduled, %" PRId64
                       " ended with their task\n",
                       sum.requeued, sum.failed, sum.quarantined, sum.promoted, sum.blocked,
                       sum.scheduled, sum.ended);
        if (sum.skipped > 0)
            tide_cli_print(cli->out.file,
                           "%" PRId64 " schedules not run, %s among them: this machine does not "
                           "know their time zone; install tzdata\n",
                           sum.skipped, sum.skipped_name);
        return TIDE_OK;
    }
    WORK(SweepResponse) row;
    tide_rpc_swept(&row, &sum);
    return tide_cli_print_message(&cli->out, &row.base, err);
}

static tide_status clean(tide_cli *cli, tide_error *err)
{
    WORK(CleanResponse) response = WORK_INIT(CLEAN_RESPONSE);
    const int64_t older_us = tide_cli_number(cli, TIDE_CLI_OLDER_THAN);
    TIDE_CLI_STORE(store, cli, TIDE_STORE_EXISTING, err);
    /* To the library 0 means its default; here it means everything that has ended. */
    TIDE_TRY(tide_work_clean(store, older_us > 0 ? older_us : 1, &response.removed, err));
    if (cli->out.is_json)
        return tide_cli_print_message(&cli->out, &response.base, err);
    tide_cli_print(cli->out.file, "%" PRId64 " ended items removed\n", response.removed);
    return TIDE_OK;
}

static const tide_cli_verb verbs[] = {
    {.name = "add",
     .takes = TIDE_CLI_LIST(TASK, TYPE, TITLE, INPUT, PRIORITY, MAX_RETRIES, RUN_AFTER, UNIQUE_KEY,
                            LIMIT_KEY, DEPENDS_ON, ATTEMPT_TIMEOUT, WORK_ITEM, BATCH),
     .overrides =
         TIDE_CLI_OVERRIDES({.id = TIDE_CLI_TYPE, .max = 1},
                            {.id = TIDE_CLI_WORK_ITEM, .help = "its id; a new UUID if left out"}),
     .summary = "add an item, or many from JSON lines (--batch)",
     .details =
         "A line of a batch has type and, if wanted, task, input, priority, max_retries, delay "
         "(\"5m\"),\n"
         "run_after, timeout, unique_key, limit_key, depends_on (a list of ids), title and "
         "work_item_id.\n"
         "Everything is read and checked first; up to a thousand lines are stored all or none.\n"
         "With --unique-key the item that is already there is printed instead of a second one.",
     .run = tide_cli_work_add},
    {.name = "claim",
     .takes = TIDE_CLI_LIST(WORKER, TYPE, TASK, LIMIT, LEASE),
     .overrides = TIDE_CLI_OVERRIDES(
         {.id = TIDE_CLI_LIMIT, .fallback = "1", .max = TIDE_WORK_BATCH_MAX},
         {.id = TIDE_CLI_TYPE, .max = TIDE_WORK_TYPES_MAX, .help = "only this type"}),
     .summary = "take the next items under a lease; ends with 3 when there is nothing",
     .details =
         "By priority, then age. Keep the lease_token: renew, finish and fail need it, and are\n"
         "refused with 4 once the lease has run out or somebody else has claimed the item.",
     .run = tide_cli_work_claim},
    {.name = "renew",
     .arguments = "ID=TOKEN...",
     .takes = TIDE_CLI_LIST(LEASE),
     .summary = "keep leases for longer, all in one statement",
     .details = "Ends with 0 when all were kept, 7 when some were lost, 4 when all were lost.",
     .run = tide_cli_work_renew},
    {.name = "checkpoint",
     .arguments = "[ID]",
     .takes = TIDE_CLI_LIST(TOKEN, TYPE, DATA, MESSAGE, TAG),
     .needs = TIDE_CLI_LIST(DATA),
     .overrides = TIDE_CLI_OVERRIDES({.id = TIDE_CLI_TYPE,
                                      .fallback = "manual_checkpoint",
                                      .max = 1,
                                      .help = "the checkpoint's type"}),
     .summary = "record how far an item is, under its lease",
     .details = "Inside 'tidemark work run' neither ID nor --token is needed.",
     .run = tide_cli_work_checkpoint},
    {.name = "progress",
     .arguments = "[ID]",
     .takes = TIDE_CLI_LIST(TOKEN, PROGRESS, DATA),
     .overrides = TIDE_CLI_OVERRIDES(
         {.id = TIDE_CLI_DATA, .help = "progress as JSON, @FILE, or - for stdin"}),
     .summary = "note the progress of an item, under its lease",
     .run = tide_cli_work_progress},
    {.name = "finish",
     .arguments = "[ID]",
     .takes = TIDE_CLI_LIST(TOKEN, OUTPUT, DATA, TYPE, BATCH),
     .overrides = TIDE_CLI_OVERRIDES(
         {.id = TIDE_CLI_DATA, .help = "a last checkpoint: JSON, @FILE, or - for stdin"},
         {.id = TIDE_CLI_TYPE,
          .fallback = "tool_executed",
          .max = 1,
          .help = "the type of that checkpoint"},
         {.id = TIDE_CLI_BATCH, .help = "follow-up items as JSON lines, as for add"}),
     .summary = "end an item with its output, in one commit with what follows",
     .run = tide_cli_work_finish},
    {.name = "next",
     .takes = TIDE_CLI_LIST(WORKER, TYPE, TASK, LIMIT, LEASE, FINISH),
     .overrides = TIDE_CLI_OVERRIDES(
         {.id = TIDE_CLI_LIMIT, .fallback = "1", .max = TIDE_WORK_BATCH_MAX},
         {.id = TIDE_CLI_TYPE, .max = TIDE_WORK_TYPES_MAX, .help = "only this type"}),
     .summary = "finish items and claim the next ones, in one commit",
     .details =
         "Prints the finished items, then the claimed ones as claim does. Ends with 4 when a\n"
         "finish was refused (the other finishes and the claims are committed), otherwise with 3\n"
         "when there was nothing to claim.\n"
         "Example: tidemark work next --type resize --finish \"$ID=$TOKEN={\\\"ok\\\":true}\" "
         "--json",
     .run = tide_cli_work_next},
    {.name = "fail",
     .arguments = "[ID]",
     .takes = TIDE_CLI_LIST(TOKEN, ERROR, FINAL, RETRY_AFTER),
     .needs = TIDE_CLI_LIST(ERROR),
     .summary = "say that an attempt failed; it runs again while retries are left",
     .run = tide_cli_work_fail},
    {.name = "release",
     .arguments = "[ID]",
     .takes = TIDE_CLI_LIST(TOKEN, RETRY_AFTER),
     .overrides =
         TIDE_CLI_OVERRIDES({.id = TIDE_CLI_RETRY_AFTER, .help = "not before this has passed"}),
     .summary = "give an item back without spending an attempt",
     .run = tide_cli_work_release},
    {.name = "run",
     .arguments = "-- CMD...",
     .takes = TIDE_CLI_LIST(TYPE, TASK, WORKER, LEASE, PARALLEL, PREFETCH, DRAIN, UNTIL_EMPTY,
                            LIMIT, ENV, TIDE_CLI_MAINTENANCE_OPTIONS),
     .overrides = TIDE_CLI_OVERRIDES(
         {.id = TIDE_CLI_TYPE, .max = TIDE_WORK_TYPES_MAX, .help = "only this type"},
         {.id = TIDE_CLI_DRAIN, .fallback = "30s"},
         {.id = TIDE_CLI_LIMIT, .is_bare = true, .help = "end after so many items"}),
     .summary = "run a command for every item: any program becomes a resumable worker",
     .details =
         "The command gets the input on stdin and TIDEMARK_WORK_ITEM_ID, TIDEMARK_TASK_ID,\n"
         "TIDEMARK_WORK_TYPE, TIDEMARK_LEASE_TOKEN, TIDEMARK_ATTEMPT, TIDEMARK_STORE in its "
         "environment; after a\n"
         "crash also TIDEMARK_CHECKPOINT_FILE with the last checkpoint. It may write JSON lines to "
         "the\n"
         "descriptor TIDEMARK_FD: {\"checkpoint\":{...}}, {\"progress\":...}, {\"output\":{...}}; "
         "each is answered\n"
         "once it is on disk. Exit status: 0 finishes the item with stdout as its output, 75 gives "
         "it\n"
         "back, 65 fails it for good, everything else fails it and it runs again. The command is\n"
         "killed before its lease ends. --until-empty ends when nothing is left to claim and "
         "every\n"
         "item that was begun has ended: with 7 when an item failed or a lease was lost, else 0.\n"
         "While it runs it also sweeps the store and deletes what --keep-* says is too old.\n"
         "Example: tidemark work run --type mail --until-empty -- ./send-mail\n"
         "See docs/reference/work.md.",
     .run = tide_cli_work_run},
    {.name = "retry",
     .arguments = "[ID]",
     .takes = TIDE_CLI_LIST(TASK, TYPE, FAILURE_KIND, SINCE, LIMIT, FROM_SCRATCH, WITH_DEPENDENTS,
                            DRY_RUN),
     .overrides = TIDE_CLI_OVERRIDES(
         {.id = TIDE_CLI_TYPE, .max = 1, .help = "failed items of this type"},
         {.id = TIDE_CLI_TASK, .help = "failed items of this task"},
         {.id = TIDE_CLI_SINCE, .help = "failed items that ended at this time or later"},
         {.id = TIDE_CLI_LIMIT, .fallback = "1000", .max = TIDE_WORK_BATCH_MAX}),
     .summary = "add a new item like one that has ended, or like failed ones by filter",
     .details =
         "The new item has the dependencies of the ended one; where these are retried with it, it\n"
         "depends on the new ones. It also gets the last checkpoint of an item that failed. A "
         "filter\n"
         "leaves out what was retried before. Prints the id of each new item, with --dry-run of "
         "each\n"
         "item that would be retried.\n"
         "Example: tidemark work retry --type mail --failure-kind exhausted --since 1h "
         "--with-dependents",
     .run = retry},
    {.name = "cancel",
     .arguments = "[ID]",
     .takes = TIDE_CLI_LIST(REASON, TASK, TYPE, STATUS, HOLDER, LIMIT, DRY_RUN),
     .overrides = TIDE_CLI_OVERRIDES(
         {.id = TIDE_CLI_TYPE, .max = 1, .help = "unfinished items of this type"},
         {.id = TIDE_CLI_TASK, .help = "unfinished items of this task"},
         {.id = TIDE_CLI_STATUS, .help = "only pending, in_progress or expired ones"},
         {.id = TIDE_CLI_LIMIT, .is_bare = true, .help = "end at most so many"}),
     .summary = "end an item that is not finished, or many by filter; holders are fenced off",
     .details =
         "A filter ends items in transactions of 500 and prints the id of each; with "
         "--dry-run it\n"
         "prints the ids and ends nothing.\n"
         "Example: tidemark work cancel --type mail --status pending --reason 'sent by hand'",
     .run = cancel},
    {.name = "reprioritise",
     .arguments = "[ID]",
     .takes = TIDE_CLI_LIST(PRIORITY, TASK, TYPE, STATUS, HOLDER, LIMIT, DRY_RUN),
     .overrides = TIDE_CLI_OVERRIDES(
         {.id = TIDE_CLI_PRIORITY, .is_bare = true, .help = "the new priority; higher comes first"},
         {.id = TIDE_CLI_TYPE, .max = 1, .help = "unfinished items of this type"},
         {.id = TIDE_CLI_TASK, .help = "unfinished items of this task"},
         {.id = TIDE_CLI_STATUS, .help = "only pending, in_progress or expired ones"},
         {.id = TIDE_CLI_LIMIT, .is_bare = true, .help = "change at most so many"}),
     .summary = "give an item that is not finished another priority, or many by filter",
     .details = "It is then claimed as if it had been added with that priority. A filter changes "
                "items in\n"
                "transactions of 500 and prints the id of each; with --dry-run it prints the ids "
                "and\n"
                "changes nothing.\n"
                "Example: tidemark work reprioritise --task nightly --priority 10",
     .run = reprioritise},
    {.name = "delete",
     .arguments = "ID",
     .takes = TIDE_CLI_LIST(FORCE),
     .overrides =
         TIDE_CLI_OVERRIDES({.id = TIDE_CLI_FORCE, .help = "also while it is in progress"}),
     .summary = "remove an item; its checkpoints stay",
     .run = delete},
    {.name = "pause",
     .arguments = "TYPE",
     .takes = TIDE_CLI_LIST(REASON),
     .summary = "let nobody claim items of a type",
     .run = pause},
    {.name = "resume", .arguments = "TYPE", .summary = "end the pause of a type", .run = resume},
    {.name = "limit",
     .arguments = "TYPE",
     .takes = TIDE_CLI_LIST(RUNNING, PER_KEY, RESET),
     .overrides = TIDE_CLI_OVERRIDES({.id = TIDE_CLI_RESET, .help = "remove the limit"}),
     .summary = "show or change how many items of a type run at once",
     .details =
         "The limit holds across processes. A worker that crashed has its slot until its lease "
         "ends. With\n"
         "--per-key it counts the items of each key (work add --limit-key) by themselves; both "
         "limits may be\n"
         "set. What runs when a limit is set runs on. Plain SQL that claims items is counted and "
         "not limited.\n"
         "Example: tidemark work limit mail --running 1 --per-key",
     .run = tide_cli_work_limit},
    {.name = "policy",
     .arguments = "TYPE",
     .takes = TIDE_CLI_LIST(RETRIES, BACKOFF, NO_RETRY, RESET),
     .summary = "show or replace the retry policy of a type",
     .details =
         "What is not given has its default. Retries count for items that are added from "
         "now on without\n"
         "--max-retries, waits and --no-retry for every attempt that ends from now on.\n"
         "Example: tidemark work policy mail --retries 10 --backoff 1s..1h --no-retry timeout",
     .run = tide_cli_work_policy},
    {.name = "types", .summary = "list the types and which are paused", .run = tide_cli_work_types},
    {.name = "ls",
     .takes = TIDE_CLI_LIST(TASK, TYPE, STATUS, FAILURE_KIND, SINCE, HOLDER, LIMIT),
     .overrides = TIDE_CLI_OVERRIDES(
         {.id = TIDE_CLI_TYPE, .max = 1},
         {.id = TIDE_CLI_SINCE, .help = "only what ended at this time or later"}),
     .summary = "list items, newest first",
     .run = tide_cli_work_list},
    {.name = "show",
     .arguments = "ID",
     .summary = "everything about an item and its attempts",
     .run = tide_cli_work_show},
    {.name = "explain",
     .arguments = "ID",
     .summary = "why is it not running?",
     .run = tide_cli_work_explain},
    {.name = "stats",
     .summary = "items by type and status, leases, tasks with most checkpoints",
     .run = tide_cli_work_stats},
    {.name = "sweep",
     .takes = TIDE_CLI_LIST(CRASH_LIMIT),
     .summary = "requeue what lost its worker and start what is due",
     .details = "Workers do this by themselves, once a minute. Prints how many items of each kind.",
     .run = sweep},
    {.name = "clean",
     .takes = TIDE_CLI_LIST(OLDER_THAN),
     .overrides = TIDE_CLI_OVERRIDES({.id = TIDE_CLI_OLDER_THAN, .fallback = "30d"}),
     .summary = "remove items that ended long ago",
     .run = clean},
    {.name = NULL},
};

const tide_cli_command tide_cli_work = {
    .name = "work",
    .summary = "Work items: claimed under fenced leases, retried, watched.",
    .verbs = verbs,
};
