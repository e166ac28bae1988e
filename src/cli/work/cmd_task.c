/* cmd_task.c - tidemark task create|show|ls|cancel|finish|resume|renew|release|delete. */
#include "cli/frame/cli.h"

#include <inttypes.h>
#include <stdio.h>

#include <tidemark/work.h>

#include "base/cleanup.h"
#include "cli/frame/input.h"
#include "cli/work/work_output.h"

/* ---- create ---- */

static tide_status create(tide_cli *cli, tide_error *err)
{
    char task_id[TIDE_WORK_ID_MAX + 1];
    TIDE_CLEANUP(tide_buffer_done) tide_buffer metadata;
    tide_buffer_init(&metadata, TIDE_JOURNAL_METADATA_MAX);
    if (tide_cli_text(cli, TIDE_CLI_METADATA))
        TIDE_TRY(tide_cli_input_json(&metadata, tide_cli_text(cli, TIDE_CLI_METADATA), "--metadata",
                                     err));
    const tide_task_new task = {
        .task_id = tide_cli_text(cli, TIDE_CLI_TASK),
        .title = cli->args[0],
        .metadata = metadata.len > 0 ? tide_buffer_text(&metadata) : NULL,
    };
    TIDE_CLEANUP(tide_store_closep) tide_store *store = NULL;
    TIDE_TRY(tide_cli_open_store(cli, &store, TIDE_STORE_CREATE, err));
    TIDE_TRY(tide_task_create(store, &task, task_id, err));
    return tide_cli_print_id(&cli->out, "task_id", task_id, err);
}

/* ---- show, ls ---- */

static tide_status print_task(tide_cli_output *out, const tide_task *task, bool with_counts,
                              tide_error *err)
{
    tide_cli_json_begin(out);
    tide_cli_json_text(out, "task_id", task->task_id);
    tide_cli_json_text(out, "title", task->title);
    tide_cli_json_text(out, "status", task->status);
    tide_cli_json_data(out, "metadata", task->metadata);
    tide_cli_json_time(out, "created_at", task->created_at_us);
    tide_cli_json_time(out, "updated_at", task->updated_at_us);
    tide_cli_json_moment(out, "completed_at", task->completed_at_us);
    tide_cli_json_text(out, "forked_from", task->forked_from);
    if (task->forked_from)
        tide_cli_json_i64(out, "forked_at", task->forked_at);
    tide_cli_json_i64(out, "last_sequence", task->last_sequence);
    if (with_counts) {
        tide_cli_json_object_begin(out, "items");
        tide_cli_json_i64(out, "pending", task->pending);
        tide_cli_json_i64(out, "in_progress", task->in_progress);
        tide_cli_json_i64(out, "completed", task->completed);
        tide_cli_json_i64(out, "failed", task->failed);
        tide_cli_json_i64(out, "expired", task->expired);
        tide_cli_json_object_end(out);
    }
    return tide_cli_json_end(out, err);
}

static tide_status show_one(void *arg, const tide_task *task, tide_error *err)
{
    tide_cli *cli = arg;
    if (cli->out.is_json)
        return print_task(&cli->out, task, true, err);
    char created[TIDE_CLI_TIME_SIZE];
    tide_cli_time_text(created, task->created_at_us);
    tide_cli_print(cli->out.file, "%s  %s  (%s)\n", task->task_id, task->title, task->status);
    tide_cli_print(cli->out.file, "created      %s\n", created);
    if (task->forked_from)
        tide_cli_print(cli->out.file, "fork of      %s at %" PRId64 "\n", task->forked_from,
                       task->forked_at);
    tide_cli_print(cli->out.file, "checkpoints  %" PRId64 "\n", task->last_sequence);
    tide_cli_print(cli->out.file,
                   "items        %" PRId64 " pending, %" PRId64 " in progress, %" PRId64
                   " completed, %" PRId64 " failed, %" PRId64 " expired\n",
                   task->pending, task->in_progress, task->completed, task->failed, task->expired);
    return TIDE_OK;
}

static tide_status show(tide_cli *cli, tide_error *err)
{
    TIDE_CLEANUP(tide_store_closep) tide_store *store = NULL;
    TIDE_TRY(tide_cli_open_store(cli, &store, TIDE_STORE_AS_IS, err));
    return tide_cli_found(tide_task_find(store, cli->args[0], show_one, cli, err), "task",
                          cli->args[0], store, err);
}

typedef struct listing {
    tide_cli *cli;
    tide_cli_table table;
} listing;

static tide_status list_one(void *arg, const tide_task *task, tide_error *err)
{
    listing *list = arg;
    if (list->cli->out.is_json)
        return print_task(&list->cli->out, task, false, err);
    tide_cli_table_cell(&list->table, task->task_id);
    tide_cli_table_cell(&list->table, task->status);
    tide_cli_table_time(&list->table, task->created_at_us);
    tide_cli_table_number(&list->table, task->last_sequence);
    tide_cli_table_cell(&list->table, task->title);
    return TIDE_OK;
}

static tide_status list_all(tide_cli *cli, tide_error *err)
{
    static const char *const statuses[] = {"pending", "running",   "succeeded",
                                           "failed",  "cancelled", NULL};
    TIDE_TRY(tide_cli_check_status(cli, statuses, err));
    static const tide_cli_column columns[] = {{.title = "TASK"},
                                              {.title = "STATUS"},
                                              {.title = "CREATED"},
                                              {.title = "CHECKPOINTS", .is_number = true},
                                              {.title = "TITLE"}};
    TIDE_CLEANUP(tide_store_closep) tide_store *store = NULL;
    TIDE_TRY(tide_cli_open_store(cli, &store, TIDE_STORE_AS_IS, err));
    listing list = {.cli = cli};
    tide_cli_table_init(&list.table, &cli->out, columns, sizeof columns / sizeof columns[0]);
    const tide_status status =
        tide_task_list(store, tide_cli_text(cli, TIDE_CLI_STATUS),
                       tide_cli_number(cli, TIDE_CLI_LIMIT), list_one, &list, err);
    const tide_status printed = tide_cli_table_done(&list.table, status < TIDE_OK ? NULL : err);
    return status < TIDE_OK ? status : printed;
}

/* ---- cancel, finish, delete ---- */

static tide_status cancel(tide_cli *cli, tide_error *err)
{
    TIDE_CLEANUP(tide_store_closep) tide_store *store = NULL;
    TIDE_TRY(tide_cli_open_store(cli, &store, TIDE_STORE_EXISTING, err));
    TIDE_TRY(tide_task_cancel(store, cli->args[0], err));
    return tide_cli_print_done(&cli->out, "task_id", cli->args[0], "cancelled", err);
}

static tide_status finish(tide_cli *cli, tide_error *err)
{
    const char *word = tide_cli_text(cli, TIDE_CLI_STATUS);
    const bool is_failed = word && strcmp(word, "failed") == 0;
    if (word && !is_failed && strcmp(word, "succeeded") != 0)
        return tide_fail(err, TIDE_E_INVALID, "a task finishes as succeeded or failed, not '%s'",
                         word);
    TIDE_CLEANUP(tide_store_closep) tide_store *store = NULL;
    TIDE_TRY(tide_cli_open_store(cli, &store, TIDE_STORE_EXISTING, err));
    TIDE_TRY(tide_task_finish(store, cli->args[0], is_failed,
                              tide_cli_is_given(cli, TIDE_CLI_CANCEL_REST), err));
    return tide_cli_print_done(&cli->out, "task_id", cli->args[0],
                               is_failed ? "failed" : "succeeded", err);
}

static tide_status delete (tide_cli *cli, tide_error *err)
{
    TIDE_CLEANUP(tide_store_closep) tide_store *store = NULL;
    TIDE_TRY(tide_cli_open_store(cli, &store, TIDE_STORE_EXISTING, err));
    TIDE_TRY(tide_task_delete(store, cli->args[0], tide_cli_is_given(cli, TIDE_CLI_FORCE), err));
    return tide_cli_print_done(&cli->out, "task_id", cli->args[0], "deleted", err);
}

/* ---- resume, renew, release ---- */

/* One document whose arrays are collected first: the callbacks come in the order of the arrays. */
typedef struct resumption {
    tide_cli *cli;
    int section; /* 0 items, 1 iteration, 2 later, 3 responses */
    int64_t items;
    int64_t later;
    int64_t responses;
    int64_t next_iteration;
} resumption;

static const char *const section_keys[] = {"items", NULL, "checkpoints", "responses"};

/* Close what is open and open the next, up to `section`. */
static void enter(resumption *r, int section)
{
    if (!r->cli->out.is_json)
        return;
    while (r->section < section) {
        if (section_keys[r->section])
            tide_cli_json_array_end(&r->cli->out);
        r->section++;
        if (section_keys[r->section])
            tide_cli_json_array_begin(&r->cli->out, section_keys[r->section]);
    }
}

static tide_status resume_item(void *arg, const tide_work_item *item, tide_error *err)
{
    (void)err;
    resumption *r = arg;
    r->items++;
    if (r->cli->out.is_json) {
        tide_cli_json_object_begin(&r->cli->out, NULL);
        tide_cli_json_item(&r->cli->out, item);
        tide_cli_json_object_end(&r->cli->out);
    }
    return TIDE_OK;
}

static tide_status resume_iteration(void *arg, const tide_checkpoint *newest_end,
                                    int64_t next_iteration, tide_error *err)
{
    (void)err;
    resumption *r = arg;
    enter(r, 1);
    r->next_iteration = next_iteration;
    if (!r->cli->out.is_json)
        return TIDE_OK;
    if (newest_end) {
        tide_cli_json_object_begin(&r->cli->out, "iteration_end");
        tide_cli_json_checkpoint(&r->cli->out, newest_end);
        tide_cli_json_object_end(&r->cli->out);
    } else {
        tide_cli_json_null(&r->cli->out, "iteration_end");
    }
    if (next_iteration > 0)
        tide_cli_json_i64(&r->cli->out, "next_iteration", next_iteration);
    else
        tide_cli_json_null(&r->cli->out,
                           "next_iteration"); /* checkpoints that would tell were removed */
    return TIDE_OK;
}

static tide_status resume_later(void *arg, const tide_checkpoint *checkpoint, tide_error *err)
{
    (void)err;
    resumption *r = arg;
    enter(r, 2);
    r->later++;
    if (r->cli->out.is_json) {
        tide_cli_json_object_begin(&r->cli->out, NULL);
        tide_cli_json_checkpoint(&r->cli->out, checkpoint);
        tide_cli_json_object_end(&r->cli->out);
    }
    return TIDE_OK;
}

static tide_status resume_response(void *arg, const tide_idempotency_key *key, tide_error *err)
{
    (void)err;
    resumption *r = arg;
    enter(r, 3);
    r->responses++;
    if (r->cli->out.is_json) {
        tide_cli_json_object_begin(&r->cli->out, NULL);
        tide_cli_json_text(&r->cli->out, "idempotency_key", key->name);
        tide_cli_json_text(&r->cli->out, "work_item_id", key->work_item_id);
        tide_cli_json_data_view(&r->cli->out, "response_data",
                                key->has_response ? key->response : (tide_view){NULL, 0});
        tide_cli_json_object_end(&r->cli->out);
    }
    return TIDE_OK;
}

static tide_status resume(tide_cli *cli, tide_error *err)
{
    static const tide_task_resume_fns fns = {.item = resume_item,
                                             .iteration = resume_iteration,
                                             .later = resume_later,
                                             .response = resume_response};
    char name[TIDE_CLI_WORKER_SIZE];
    tide_cli_worker_name(cli, TIDE_CLI_HOLDER, name);
    resumption r = {.cli = cli};
    int64_t token = 0;
    int64_t expires_at_us = 0;
    TIDE_CLEANUP(tide_store_closep) tide_store *store = NULL;
    TIDE_TRY(tide_cli_open_store(cli, &store, TIDE_STORE_EXISTING, err));
    if (cli->out.is_json) {
        tide_cli_json_begin(&cli->out);
        tide_cli_json_text(&cli->out, "task_id", cli->args[0]);
        tide_cli_json_array_begin(&cli->out, "items");
    }
    TIDE_TRY(tide_task_resume(store, cli->args[0], name, tide_cli_number(cli, TIDE_CLI_LEASE),
                              &token, &expires_at_us, &fns, &r, err));
    enter(&r, 3);
    if (!cli->out.is_json) {
        tide_cli_print(cli->out.file,
                       "resumed under token %" PRId64 "\nnext iteration   %" PRId64
                       "\nunfinished items %" PRId64 "\nlater results    %" PRId64
                       "\nstored responses %" PRId64 "\n",
                       token, r.next_iteration, r.items, r.later, r.responses);
        return TIDE_OK;
    }
    tide_cli_json_array_end(&cli->out);
    tide_cli_json_text(&cli->out, "holder", name);
    tide_cli_json_i64(&cli->out, "lease_token", token);
    tide_cli_json_time(&cli->out, "lease_expires_at", expires_at_us);
    tide_identity identity;
    tide_store_identity(store, &identity);
    tide_cli_json_identity(&cli->out, &identity);
    return tide_cli_json_end(&cli->out, err);
}

static tide_status renew(tide_cli *cli, tide_error *err)
{
    TIDE_CLEANUP(tide_store_closep) tide_store *store = NULL;
    TIDE_TRY(tide_cli_open_store(cli, &store, TIDE_STORE_EXISTING, err));
    TIDE_TRY(tide_task_renew(store, cli->args[0], tide_cli_number(cli, TIDE_CLI_TOKEN),
                             tide_cli_number(cli, TIDE_CLI_LEASE), err));
    return tide_cli_print_done(&cli->out, "task_id", cli->args[0], "renewed", err);
}

static tide_status release(tide_cli *cli, tide_error *err)
{
    TIDE_CLEANUP(tide_store_closep) tide_store *store = NULL;
    TIDE_TRY(tide_cli_open_store(cli, &store, TIDE_STORE_EXISTING, err));
    TIDE_TRY(tide_task_release(store, cli->args[0], tide_cli_number(cli, TIDE_CLI_TOKEN), err));
    return tide_cli_print_done(&cli->out, "task_id", cli->args[0], "released", err);
}

static const tide_cli_verb verbs[] = {
    {.name = "create",
     .arguments = "TITLE",
     .takes = TIDE_CLI_LIST(TASK, METADATA),
     .overrides =
         TIDE_CLI_OVERRIDES({.id = TIDE_CLI_TASK, .help = "its id; a new UUID if left out"}),
     .summary = "make a task; prints its id",
     .run = create},
    {.name = "show", .arguments = "ID", .summary = "what a task is and how far it is", .run = show},
    {.name = "ls",
     .arguments = "",
     .takes = TIDE_CLI_LIST(STATUS, LIMIT),
     .summary = "list tasks, newest first",
     .run = list_all},
    {.name = "cancel",
     .arguments = "ID",
     .summary = "end a task and its unfinished items",
     .details = "Items in progress are fenced off: whoever works on them is refused from now on.",
     .run = cancel},
    {.name = "finish",
     .arguments = "ID",
     .takes = TIDE_CLI_LIST(STATUS, CANCEL_REST),
     .overrides = TIDE_CLI_OVERRIDES({.id = TIDE_CLI_STATUS,
                                      .fallback = "succeeded",
                                      .help = "how it ended: succeeded or failed"}),
     .summary = "say that a task has ended",
     .details = "Refused while items are unfinished, unless --cancel-rest cancels them.",
     .run = finish},
    {.name = "resume",
     .arguments = "ID",
     .takes = TIDE_CLI_LIST(HOLDER, LEASE),
     .summary = "everything needed to go on with a task, under a lease on it",
     .details =
         "Prints the unfinished items, the newest iteration_end and the next iteration, the\n"
         "tool_executed and llm_response checkpoints after it (not to be run again), and the "
         "stored\n"
         "responses. A second resumer is refused while the lease lasts: renew it, release it.",
     .run = resume},
    {.name = "renew",
     .arguments = "ID",
     .takes = TIDE_CLI_LIST(TOKEN, LEASE),
     .needs = TIDE_CLI_LIST(TOKEN),
     .summary = "keep the lease that resume gave",
     .run = renew},
    {.name = "release",
     .arguments = "ID",
     .takes = TIDE_CLI_LIST(TOKEN),
     .needs = TIDE_CLI_LIST(TOKEN),
     .summary = "give that lease back",
     .run = release},
    {.name = "delete",
     .arguments = "ID",
     .takes = TIDE_CLI_LIST(FORCE),
     .overrides =
         TIDE_CLI_OVERRIDES({.id = TIDE_CLI_FORCE, .help = "also while items are in progress"}),
     .summary = "remove a task with its items and checkpoints",
     .run = delete},
    {.name = NULL},
};

const tide_cli_command tide_cli_task = {
    .name = "task",
    .summary = "Tasks: what work items and checkpoints belong to.",
    .verbs = verbs,
};
