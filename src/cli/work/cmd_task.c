/* cmd_task.c - tidemark task: create, read, end, resume under a lease, steps. */
#include "cli/frame/cli.h"

#include <inttypes.h>

#include <tidemark/work.h>

#include "base/cleanup.h"
#include "cli/frame/input.h"
#include "cli/work/work_output.h"

/* ---- create ---- */

static tide_status create(tide_cli *cli, tide_error *err)
{
    char task_id[TIDE_WORK_ID_MAX + 1];
    TIDE_CLEANUP(tide_buffer_done) tide_buffer metadata = tide_buffer_of(TIDE_JOURNAL_METADATA_MAX);
    if (tide_cli_text(cli, TIDE_CLI_METADATA))
        TIDE_TRY(tide_cli_input_json(&metadata, tide_cli_text(cli, TIDE_CLI_METADATA), "--metadata",
                                     err));
    const tide_task_new task = {
        TIDE_TASK_NEW_INIT,
        .task_id = tide_cli_text(cli, TIDE_CLI_TASK),
        .title = cli->args[0],
        .metadata = metadata.len > 0 ? tide_buffer_text(&metadata) : NULL,
    };
    TIDE_CLI_STORE(store, cli, TIDE_STORE_CREATE, err);
    TIDE_TRY(tide_task_create(store, &task, task_id, err));
    return tide_cli_print_id(&cli->out, "task_id", task_id, err);
}

/* ---- show, ls ---- */

static tide_status show_one(void *arg, const tide_task *task, tide_error *err)
{
    (void)err;
    const tide_cli *cli = arg;
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
    TIDE_CLI_STORE(store, cli, TIDE_STORE_AS_IS, err);
    WORK(GetTaskRequest) request = WORK_INIT(GET_TASK_REQUEST);
    request.task_id = tide_rpc_borrow(cli->args[0]);
    if (cli->out.is_json)
        return tide_cli_print_method(&cli->out, store, tide_rpc_get_task, &request.base,
                                     &tidemark__work__v1__task__descriptor, err);
    return tide_cli_found(tide_task_find(store, cli->args[0], show_one, cli, err), "task",
                          cli->args[0], store, err);
}

static tide_status list_one(void *arg, const tide_task *task, tide_error *err)
{
    tide_cli_table *table = arg;
    if (table->out->is_json) {
        WORK(Task) row;
        tide_rpc_task(&row, task);
        return tide_cli_print_message(table->out, &row.base, err);
    }
    tide_cli_table_cell(table, task->task_id);
    tide_cli_table_cell(table, task->status);
    tide_cli_table_time(table, task->created_at_us);
    tide_cli_table_number(table, task->last_sequence);
    tide_cli_table_cell(table, task->title);
    return TIDE_OK;
}

static tide_status list_all(tide_cli *cli, tide_error *err)
{
    TIDE_CLI_STORE(store, cli, TIDE_STORE_AS_IS, err);
    tide_cli_table table;
    tide_cli_table_begin(&table, &cli->out, "TASK,STATUS,CREATED,CHECKPOINTS#,TITLE");
    const tide_status status =
        tide_task_list(store, tide_cli_text(cli, TIDE_CLI_STATUS),
                       tide_cli_number(cli, TIDE_CLI_LIMIT), list_one, &table, err);
    return tide_cli_table_end(&table, status, err);
}

/* ---- cancel, finish, delete ---- */

static tide_status cancel(tide_cli *cli, tide_error *err)
{
    TIDE_CLI_STORE(store, cli, TIDE_STORE_EXISTING, err);
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
    TIDE_CLI_STORE(store, cli, TIDE_STORE_EXISTING, err);
    TIDE_TRY(tide_task_finish(store, cli->args[0], is_failed,
                              tide_cli_is_given(cli, TIDE_CLI_CANCEL_REST), err));
    return tide_cli_print_done(&cli->out, "task_id", cli->args[0],
                               is_failed ? "failed" : "succeeded", err);
}

static tide_status delete (tide_cli *cli, tide_error *err)
{
    TIDE_CLI_STORE(store, cli, TIDE_STORE_EXISTING, err);
    TIDE_TRY(tide_task_delete(store, cli->args[0], tide_cli_is_given(cli, TIDE_CLI_FORCE), err));
    return tide_cli_print_done(&cli->out, "task_id", cli->args[0], "deleted", err);
}

/* ---- resume, renew, release ---- */

typedef struct resumption {
    int64_t items;
    int64_t later;
    int64_t responses;
    int64_t next_iteration;
} resumption;

static tide_status resume_item(void *arg, const tide_work_item *item, tide_error *err)
{
    (void)item;
    (void)err;
    ((resumption *)arg)->items++;
    return TIDE_OK;
}

static tide_status resume_iteration(void *arg, const tide_checkpoint *newest_end,
                                    int64_t next_iteration, tide_error *err)
{
    (void)newest_end;
    (void)err;
    ((resumption *)arg)->next_iteration = next_iteration;
    return TIDE_OK;
}

static tide_status resume_later(void *arg, const tide_checkpoint *checkpoint, tide_error *err)
{
    (void)checkpoint;
    (void)err;
    ((resumption *)arg)->later++;
    return TIDE_OK;
}

static tide_status resume_response(void *arg, const tide_idempotency_key *key, tide_error *err)
{
    (void)key;
    (void)err;
    ((resumption *)arg)->responses++;
    return TIDE_OK;
}

static tide_status resume(tide_cli *cli, tide_error *err)
{
    static const tide_task_resume_fns fns = {TIDE_TASK_RESUME_FNS_INIT, .item = resume_item,
                                             .iteration = resume_iteration, .later = resume_later,
                                             .response = resume_response};
    char name[TIDE_CLI_WORKER_SIZE];
    tide_cli_worker_name(cli, TIDE_CLI_HOLDER, name);
    resumption r = {.items = 0};
    tide_task_lease lease = {0};
    TIDE_CLI_STORE(store, cli, TIDE_STORE_EXISTING, err);
    if (cli->out.is_json) {
        WORK(ResumeTaskRequest) request = WORK_INIT(RESUME_TASK_REQUEST);
        request.task_id = tide_rpc_borrow(cli->args[0]);
        request.holder = name;
        request.lease_ms = tide_cli_number(cli, TIDE_CLI_LEASE) / 1000;
        return tide_cli_print_method(&cli->out, store, tide_rpc_resume_task, &request.base,
                                     &tidemark__work__v1__resume_task_response__descriptor, err);
    }
    TIDE_TRY(tide_task_resume(store,
                              &(tide_task_resume_request){
                                  TIDE_TASK_RESUME_REQUEST_INIT, .task_id = cli->args[0],
                                  .holder = name, .lease_us = tide_cli_number(cli, TIDE_CLI_LEASE)},
                              &fns, &r, &lease, err));
    tide_cli_print(cli->out.file,
                   "resumed under token %" PRId64 "\nnext iteration   %" PRId64
                   "\nunfinished items %" PRId64 "\nlater results    %" PRId64
                   "\nstored responses %" PRId64 "\n",
                   lease.token, r.next_iteration, r.items, r.later, r.responses);
    return TIDE_OK;
}

static tide_status renew(tide_cli *cli, tide_error *err)
{
    TIDE_CLI_STORE(store, cli, TIDE_STORE_EXISTING, err);
    TIDE_TRY(tide_task_renew(store, cli->args[0], tide_cli_number(cli, TIDE_CLI_TOKEN),
                             tide_cli_number(cli, TIDE_CLI_LEASE), err));
    return tide_cli_print_done(&cli->out, "task_id", cli->args[0], "renewed", err);
}

static tide_status release(tide_cli *cli, tide_error *err)
{
    const bool is_forced = tide_cli_is_given(cli, TIDE_CLI_FORCE);
    if (is_forced == tide_cli_is_given(cli, TIDE_CLI_TOKEN))
        return tide_fail(err, TIDE_E_INVALID, "give --token N, or --force to end any lease");
    TIDE_CLI_STORE(store, cli, TIDE_STORE_EXISTING, err);
    TIDE_TRY(tide_task_release(store, cli->args[0], tide_cli_number(cli, TIDE_CLI_TOKEN), is_forced,
                               err));
    return tide_cli_print_done(&cli->out, "task_id", cli->args[0], "released", err);
}

/* ---- steps ---- */

static tide_status begin_step(tide_cli *cli, tide_error *err)
{
    TIDE_CLI_STORE(store, cli, TIDE_STORE_EXISTING, err);
    if (cli->out.is_json) {
        JOURNAL(BeginStepRequest) request = JOURNAL_INIT(BEGIN_STEP_REQUEST);
        request.task_id = tide_rpc_borrow(cli->args[0]);
        request.name = tide_rpc_borrow(cli->args[1]);
        request.token = tide_cli_number(cli, TIDE_CLI_TOKEN);
        return tide_cli_print_method(&cli->out, store, tide_rpc_begin_step, &request.base,
                                     &tidemark__journal__v1__begin_step_response__descriptor, err);
    }
    const tide_task_step step = {TIDE_TASK_STEP_INIT, .task_id = cli->args[0], .name = cli->args[1],
                                 .token = tide_cli_number(cli, TIDE_CLI_TOKEN)};
    TIDE_CLEANUP(tide_task_step_state_done) tide_task_step_state state = {.is_done = false};
    TIDE_TRY(tide_task_step_begin(store, &step, &state, err));
    if (state.is_done)
        tide_cli_print(cli->out.file, "done: %s\n", state.result ? state.result : "null");
    else
        tide_cli_print(cli->out.file, "run it under step token %" PRId64 ", key %s\n",
                       state.step_token, state.key);
    return TIDE_OK;
}

static tide_status complete_step(tide_cli *cli, tide_error *err)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer data = tide_buffer_of(TIDE_JOURNAL_SNAPSHOT_MAX);
    TIDE_TRY(tide_cli_input_json(&data, tide_cli_text(cli, TIDE_CLI_DATA), "--data", err));
    const tide_task_step step = {TIDE_TASK_STEP_INIT,
                                 .task_id = cli->args[0],
                                 .name = cli->args[1],
                                 .token = tide_cli_number(cli, TIDE_CLI_TOKEN),
                                 .step_token = tide_cli_number(cli, TIDE_CLI_STEP_TOKEN),
                                 .result = tide_buffer_view(&data)};
    tide_checkpoint_numbers numbers;
    TIDE_CLI_STORE(store, cli, TIDE_STORE_EXISTING, err);
    TIDE_TRY(tide_task_step_complete(store, &step, &numbers, err));
    return tide_cli_print_numbers(&cli->out, &numbers, err);
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
         "responses. While the lease is held, a second resumer is refused, and so is every\n"
         "'checkpoint add' without its token. Renew it, release it.\n"
         "Example: tidemark task resume T --holder me --lease 5m --json",
     .run = resume},
    {.name = "begin-step",
     .arguments = "ID NAME",
     .takes = TIDE_CLI_LIST(TOKEN),
     .needs = TIDE_CLI_LIST(TOKEN),
     .summary = "the recorded result of a step, or permission to run it",
     .details =
         "--token is the token of the task's lease (task resume); ends with 4 when it lost the "
         "lease.\n"
         "A step that was begun and not completed may be begun again. A crash between the effect "
         "of a\n"
         "step and complete-step repeats the effect: hand the printed key, which is the same in "
         "every\n"
         "run, to the outside.\n"
         "Example: tidemark task begin-step T charge --token 1099511627777 --json",
     .run = begin_step},
    {.name = "complete-step",
     .arguments = "ID NAME",
     .takes = TIDE_CLI_LIST(TOKEN, STEP_TOKEN, DATA),
     .needs = TIDE_CLI_LIST(TOKEN, STEP_TOKEN, DATA),
     .overrides = TIDE_CLI_OVERRIDES(
         {.id = TIDE_CLI_DATA, .help = "the result as JSON, @FILE, or - for stdin"}),
     .summary = "record the result of a step with a checkpoint, in one commit",
     .details = "The same call again records nothing. Ends with 4 when a token lost its lease or "
                "the step\n"
                "has another result.\n"
                "Example: tidemark task complete-step T charge --token 1099511627777 --step-token "
                "1099511627778 --data '{\"paid\":true}'",
     .run = complete_step},
    {.name = "renew",
     .arguments = "ID",
     .takes = TIDE_CLI_LIST(TOKEN, LEASE),
     .needs = TIDE_CLI_LIST(TOKEN),
     .summary = "keep the lease that resume gave",
     .run = renew},
    {.name = "release",
     .arguments = "ID",
     .takes = TIDE_CLI_LIST(TOKEN, FORCE),
     .overrides = TIDE_CLI_OVERRIDES(
         {.id = TIDE_CLI_FORCE, .help = "end the lease whatever its token; its holder is refused"}),
     .summary = "give that lease back, or end it with --force",
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
