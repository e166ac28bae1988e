/* cmd_idempotency.c - tidemark idempotency run|show|ls|delete|clean. */
#include "cli/idempotency/cmd_idempotency.h"

#include <inttypes.h>

#include <tidemark/idempotency.h>

#include "base/cleanup.h"
#include "cli/work/work_output.h"

static tide_status name_of(const tide_cli *cli, char out[TIDE_IDEMPOTENCY_KEY_MAX + 1],
                           tide_error *err)
{
    return tide_idempotency_name(out, tide_cli_text(cli, TIDE_CLI_SCOPE), cli->args[0], err);
}

/* ---- show, ls ---- */

static tide_status print_json(tide_cli_output *out, const tide_idempotency_key *key,
                              tide_error *err)
{
    WORK(IdempotencyKey) row;
    tide_rpc_key(&row, key);
    return tide_cli_print_message(out, &row.base, err);
}

static void print_time(tide_cli *cli, const char *what, int64_t us)
{
    char text[TIDE_CLI_TIME_SIZE];
    tide_cli_time_text(text, us);
    if (us != 0)
        tide_cli_print(cli->out.file, "%-11s  %s\n", what, text);
}

static void print_text(tide_cli *cli, const char *what, const char *text)
{
    if (text)
        tide_cli_print(cli->out.file, "%-11s  %s\n", what, text);
}

static tide_status show_one(void *arg, const tide_idempotency_key *key, tide_error *err)
{
    tide_cli *cli = arg;
    if (cli->out.is_json)
        return print_json(&cli->out, key, err);
    tide_cli_print(cli->out.file, "%s  (%s%s)\n", key->name, key->status,
                   key->is_locked ? ", locked" : "");
    print_text(cli, "request", key->request_hash);
    print_text(cli, "task", key->task_id);
    print_text(cli, "work item", key->work_item_id);
    print_text(cli, "holder", key->lock_holder);
    if (key->is_locked)
        print_time(cli, "locked until", key->lock_expires_at_us);
    print_text(cli, "takeover", key->policy);
    tide_cli_print(cli->out.file, "%-11s  %" PRId64 "\n", "attempts", key->attempts);
    print_time(cli, "created", key->created_at_us);
    print_time(cli, "completed", key->completed_at_us);
    print_time(cli, "expires", key->expires_at_us);
    if (key->has_response)
        tide_cli_print(cli->out.file, "%-11s  %s\n", "answer", key->response.ptr);
    return TIDE_OK;
}

static tide_status show(tide_cli *cli, tide_error *err)
{
    char name[TIDE_IDEMPOTENCY_KEY_MAX + 1];
    TIDE_TRY(name_of(cli, name, err));
    TIDE_CLEANUP(tide_store_closep) tide_store *store = NULL;
    TIDE_TRY(tide_cli_open_store(cli, &store, TIDE_STORE_AS_IS, err));
    return tide_cli_found(tide_idempotency_find(store, name, show_one, cli, err), "key", name,
                          store, err);
}

static tide_status list_one(void *arg, const tide_idempotency_key *key, tide_error *err)
{
    tide_cli_table *table = arg;
    if (table->out->is_json)
        return print_json(table->out, key, err);
    tide_cli_table_cell(table, key->name);
    tide_cli_table_cell(table, key->is_locked ? "running" : key->status);
    tide_cli_table_cell(table, key->is_locked ? key->lock_holder : NULL);
    tide_cli_table_number(table, key->attempts);
    tide_cli_table_time(table, key->created_at_us);
    tide_cli_table_time(table, key->expires_at_us);
    return TIDE_OK;
}

static tide_status list_all(tide_cli *cli, tide_error *err)
{
    TIDE_CLEANUP(tide_store_closep) tide_store *store = NULL;
    TIDE_TRY(tide_cli_open_store(cli, &store, TIDE_STORE_AS_IS, err));
    tide_cli_table table;
    tide_cli_table_begin(&table, &cli->out, "KEY,STATUS,HOLDER,ATTEMPTS#,CREATED,EXPIRES");
    const tide_status status = tide_idempotency_list(
        store,
        &(tide_idempotency_filter){
            TIDE_IDEMPOTENCY_FILTER_INIT, .status = tide_cli_text(cli, TIDE_CLI_STATUS),
            .task_id = tide_cli_text(cli, TIDE_CLI_TASK),
            .limit =
                tide_cli_is_given(cli, TIDE_CLI_ALL) ? 0 : tide_cli_number(cli, TIDE_CLI_LIMIT)},
        list_one, &table, err);
    return tide_cli_table_end(&table, status, err);
}

/* ---- delete, clean ---- */

static tide_status delete_one(tide_cli *cli, tide_error *err)
{
    char name[TIDE_IDEMPOTENCY_KEY_MAX + 1];
    TIDE_TRY(name_of(cli, name, err));
    TIDE_CLEANUP(tide_store_closep) tide_store *store = NULL;
    TIDE_TRY(tide_cli_open_store(cli, &store, TIDE_STORE_EXISTING, err));
    const tide_status status =
        tide_idempotency_delete(store, name, tide_cli_is_given(cli, TIDE_CLI_FORCE), err);
    if (status == TIDE_E_CONFLICT)
        (void)snprintf(cli->hint, sizeof cli->hint,
                       "wait until it is done; --force deletes it all the same, and then it can "
                       "run twice");
    TIDE_TRY(status);
    return tide_cli_print_done(&cli->out, "idempotency_key", name, "deleted", err);
}

static tide_status clean(tide_cli *cli, tide_error *err)
{
    int64_t keep_us = 0;
    if (tide_cli_is_given(cli, TIDE_CLI_OLDER_THAN)) {
        keep_us = tide_cli_number(cli, TIDE_CLI_OLDER_THAN);
        keep_us = keep_us > 0 ? keep_us : 1; /* 0 would be the default */
    }
    int64_t removed = 0;
    TIDE_CLEANUP(tide_store_closep) tide_store *store = NULL;
    TIDE_TRY(tide_cli_open_store(cli, &store, TIDE_STORE_EXISTING, err));
    TIDE_TRY(tide_idempotency_clean(store, keep_us, &removed, err));
    if (!cli->out.is_json) {
        (void)fprintf(cli->out.file, "%" PRId64 " removed\n", removed);
        return TIDE_OK;
    }
    tide_cli_json_begin(&cli->out);
    tide_cli_json_i64(&cli->out, "removed", removed);
    return tide_cli_json_end(&cli->out, err);
}

static const tide_cli_verb verbs[] = {
    {.name = "run",
     .arguments = "-- CMD...",
     .takes = TIDE_CLI_LIST(KEY, SCOPE, REQUEST, POLICY, LOCK, EXPIRY, TASK, WORK_ITEM),
     .needs = TIDE_CLI_LIST(KEY),
     .overrides = TIDE_CLI_OVERRIDES(
         {.id = TIDE_CLI_POLICY, .fallback = "rerun"}, {.id = TIDE_CLI_LOCK, .fallback = "5m"},
         {.id = TIDE_CLI_TASK, .help = "the task it belongs to"},
         {.id = TIDE_CLI_WORK_ITEM, .help = "the work item it belongs to"}),
     .summary = "run a command once; answer from the store for 24 hours, or as --expiry says",
     .details =
         "The command's stdout and exit code are stored and replayed. Without --request the "
         "request "
         "is the\n"
         "command with its words and stdin. Exit 75 (try later), death by a signal and a command "
         "that cannot\n"
         "be started (126, 127) are not answers: the next run tries again. Ends with 4 when the "
         "key "
         "was used\n"
         "with another request, 6 while somebody else runs it, 7 when a run was broken off and "
         "--policy is\n"
         "fail. With --json the outcome (NEW, REPLAY, IN_PROGRESS, MISMATCH, TAKEOVER) is written "
         "to stderr.",
     .run = tide_cli_idempotency_run},
    {.name = "show",
     .arguments = "KEY",
     .takes = TIDE_CLI_LIST(SCOPE),
     .summary = "print a key and its answer; changes nothing",
     .run = show},
    {.name = "ls",
     .arguments = "",
     .takes = TIDE_CLI_LIST(STATUS, TASK, LIMIT, ALL),
     .overrides = TIDE_CLI_OVERRIDES(
         {.id = TIDE_CLI_STATUS, .help = "only pending, completed or failed ones"}),
     .summary = "list keys by name",
     .run = list_all},
    {.name = "delete",
     .arguments = "KEY",
     .takes = TIDE_CLI_LIST(SCOPE, FORCE),
     .summary = "forget a key: the next run is the first again",
     .run = delete_one},
    {.name = "clean",
     .arguments = "",
     .takes = TIDE_CLI_LIST(OLDER_THAN),
     .overrides = TIDE_CLI_OVERRIDES(
         {.id = TIDE_CLI_OLDER_THAN, .help = "completed keys, too, that are older than this"}),
     .summary = "remove expired keys",
     .details = "Completed keys without an expiry of their own go after 7 days. Keys that somebody "
                "works on stay.",
     .run = clean},
    {.name = NULL},
};

const tide_cli_command tide_cli_idempotency = {
    .name = "idempotency",
    .summary = "Do it once, answer it always.",
    .verbs = verbs,
};
