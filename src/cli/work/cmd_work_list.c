/* cmd_work_list.c - tidemark work show|ls|explain|stats|types: nothing here changes anything. */
#include "cli/work/cmd_work.h"

#include <inttypes.h>
#include <stdio.h>

#include <tidemark/work.h>

#include "cli/work/work_output.h"

/* ---- show ---- */

static void print_moment(tide_cli_output *out, const char *what, int64_t us)
{
    char text[TIDE_CLI_TIME_SIZE];
    if (us == 0)
        return;
    tide_cli_time_text(text, us);
    tide_cli_print(out->file, "%-12s %s\n", what, text);
}

static void print_word(tide_cli_output *out, const char *what, const char *text)
{
    if (text)
        tide_cli_print(out->file, "%-12s %s\n", what, text);
}

static void print_item(tide_cli_output *out, const tide_work_item *item)
{
    tide_cli_print(out->file, "%s%s%s  %s  (%s%s%s)\n", item->title ? item->title : "",
                   item->title ? "  " : "", item->work_item_id, item->work_type, item->status,
                   item->failure_kind ? ": " : "", item->failure_kind ? item->failure_kind : "");
    print_word(out, "task", item->task_id);
    print_word(out, "limit key", item->limit_key);
    tide_cli_print(out->file,
                   "%-12s %" PRId64 " of %" PRId64 " retries, %" PRId64 " failures, %" PRId64
                   " crashes; priority %" PRId64 "\n",
                   "tries", item->retry_count, item->max_retries, item->failure_count,
                   item->crash_count, item->priority);
    print_moment(out, "created", item->created_at_us);
    print_moment(out, "started", item->started_at_us);
    print_moment(out, "ended", item->completed_at_us);
    print_moment(out, "not before", item->run_after_us);
    print_word(out, "held by", item->lease_holder);
    print_moment(out, "lease until", item->lease_expires_at_us);
    print_word(out, "progress", item->progress);
    print_word(out, "error", item->error_message);
    print_word(out, "input", item->input);
    print_word(out, "output", item->output);
    print_word(out, "retry of", item->retried_from);
}

static tide_status show_attempt(void *arg, const tide_work_attempt *attempt, tide_error *err)
{
    (void)err;
    tide_cli_output *out = arg;
    char started[TIDE_CLI_TIME_SIZE];
    tide_cli_time_text(started, attempt->started_at_us);
    tide_cli_print(
        out->file, "attempt %-4" PRId64 " %s  %s  %s%s%s\n", attempt->attempt, started,
        attempt->worker ? attempt->worker : "-", attempt->outcome ? attempt->outcome : "running",
        attempt->error_message ? ": " : "", attempt->error_message ? attempt->error_message : "");
    return TIDE_OK;
}

static tide_status show_item(void *arg, const tide_work_item *item, tide_error *err)
{
    (void)err;
    print_item(arg, item);
    return TIDE_OK;
}

tide_status tide_cli_work_show(tide_cli *cli, tide_error *err)
{
    tide_cli_output *out = &cli->out;
    WORK(GetItemRequest) request = WORK_INIT(GET_ITEM_REQUEST);
    request.work_item_id = tide_rpc_borrow(cli->args[0]);
    TIDE_CLI_STORE(store, cli, TIDE_STORE_AS_IS, err);
    if (out->is_json)
        return tide_cli_print_method(out, store, tide_rpc_get_item, &request.base,
                                     &tidemark__work__v1__work_item__descriptor, err);
    TIDE_TRY(tide_cli_found(tide_work_find(store, cli->args[0], show_item, out, err), "work item",
                            cli->args[0], store, err));
    return tide_work_attempts(store, cli->args[0], show_attempt, out, err);
}

/* ---- ls ---- */

static tide_status list_one(void *arg, const tide_work_item *item, tide_error *err)
{
    tide_cli_table *table = arg;
    tide_cli_output *out = table->out;
    if (out->is_json)
        return tide_cli_print_item(out, item, err);
    char tries[48];
    (void)snprintf(tries, sizeof tries, "%" PRId64 "/%" PRId64, item->retry_count,
                   item->max_retries);
    tide_cli_table_cell(table, item->title);
    tide_cli_table_cell(table, item->work_item_id);
    tide_cli_table_cell(table, item->work_type);
    tide_cli_table_cell(table, item->failure_kind ? item->failure_kind : item->status);
    tide_cli_table_number(table, item->priority);
    tide_cli_table_cell(table, tries);
    tide_cli_table_time(table, item->created_at_us);
    tide_cli_table_cell(table, item->lease_holder);
    return TIDE_OK;
}

tide_status tide_cli_work_list(tide_cli *cli, tide_error *err)
{
    tide_work_filter filter = {
        TIDE_WORK_FILTER_INIT,
        .task_id = tide_cli_text(cli, TIDE_CLI_TASK),
        .work_type = tide_cli_text(cli, TIDE_CLI_TYPE),
        .status = tide_cli_text(cli, TIDE_CLI_STATUS),
        .failure_kind = tide_cli_text(cli, TIDE_CLI_FAILURE_KIND),
        .worker = tide_cli_text(cli, TIDE_CLI_HOLDER),
        .limit = tide_cli_number(cli, TIDE_CLI_LIMIT),
    };
    tide_env *env = tide_env_system();
    TIDE_TRY(tide_cli_time(cli, TIDE_CLI_SINCE, env->wall_us(env), &filter.ended_since_us, err));
    TIDE_CLI_STORE(store, cli, TIDE_STORE_AS_IS, err);
    tide_cli_table table;
    tide_cli_table_begin(&table, &cli->out,
                         "TITLE,ITEM,TYPE,STATUS,PRIORITY#,RETRIES,CREATED,HELD BY");
    const tide_status status = tide_work_list(store, &filter, list_one, &table, err);
    return tide_cli_table_end(&table, status, err);
}

/* ---- explain ---- */

static tide_status explain_title(void *arg, const tide_work_item *item, tide_error *err)
{
    (void)err;
    const tide_cli_output *out = arg;
    if (item->title)
        tide_cli_print(out->file, "%s  %s\n", item->title, item->work_item_id);
    return TIDE_OK;
}

static void explain_one(void *arg, const char *code, const char *text)
{
    tide_cli_output *out = arg;
    tide_cli_print(out->file, "%s: %s\n", code, text);
}

tide_status tide_cli_work_explain(tide_cli *cli, tide_error *err)
{
    WORK(GetItemRequest) request = WORK_INIT(GET_ITEM_REQUEST);
    request.work_item_id = tide_rpc_borrow(cli->args[0]);
    TIDE_CLI_STORE(store, cli, TIDE_STORE_AS_IS, err);
    if (cli->out.is_json)
        return tide_cli_print_method(&cli->out, store, tide_rpc_explain, &request.base,
                                     &tidemark__work__v1__explain_response__descriptor, err);
    TIDE_TRY(tide_cli_found(tide_work_find(store, cli->args[0], explain_title, &cli->out, err),
                            "work item", cli->args[0], store, err));
    return tide_cli_found(tide_work_explain(store, cli->args[0], explain_one, &cli->out, err),
                          "work item", cli->args[0], store, err);
}

/* ---- stats ---- */

static tide_status stat_item(void *arg, const tide_work_stat *stat, tide_error *err)
{
    (void)err;
    tide_cli_output *out = arg;
    tide_cli_print(out->file, "%-24s %-12s %10" PRId64 "  mean age %.1f h\n", stat->work_type,
                   stat->status, stat->count, stat->mean_age_s / 3600);
    return TIDE_OK;
}

static tide_status stat_lease(void *arg, const tide_work_lease_stat *stat, tide_error *err)
{
    (void)err;
    tide_cli_output *out = arg;
    tide_cli_print(out->file,
                   "leases: %" PRId64 " active, %" PRId64
                   " stale, last heartbeat %.1f min ago on average\n",
                   stat->active, stat->stale, stat->mean_heartbeat_age_s / 60);
    return TIDE_OK;
}

static tide_status stat_task(void *arg, const tide_work_task_stat *stat, tide_error *err)
{
    (void)err;
    tide_cli_output *out = arg;
    tide_cli_print(out->file, "%-40s %10" PRId64 " checkpoints\n", stat->task_id,
                   stat->checkpoint_count);
    return TIDE_OK;
}

tide_status tide_cli_work_stats(tide_cli *cli, tide_error *err)
{
    static const tide_work_stats_fns fns = {TIDE_WORK_STATS_FNS_INIT, .item = stat_item,
                                            .lease = stat_lease, .task = stat_task};
    const WORK(Empty) request = WORK_INIT(EMPTY);
    TIDE_CLI_STORE(store, cli, TIDE_STORE_AS_IS, err);
    return cli->out.is_json
               ? tide_cli_print_method(&cli->out, store, tide_rpc_stats, &request.base,
                                       &tidemark__work__v1__stats_response__descriptor, err)
               : tide_work_stats(store, &fns, &cli->out, err);
}

/* ---- types ---- */

static tide_status list_type(void *arg, const tide_work_type *type, tide_error *err)
{
    tide_cli_output *out = arg;
    if (!out->is_json) {
        tide_cli_print(out->file, "%s%s%s%s\n", type->work_type, type->is_paused ? "  paused" : "",
                       type->pause_reason ? ": " : "",
                       type->pause_reason ? type->pause_reason : "");
        return TIDE_OK;
    }
    WORK(TypeState) row;
    tide_rpc_type(&row, type);
    return tide_cli_print_message(out, &row.base, err);
}

tide_status tide_cli_work_types(tide_cli *cli, tide_error *err)
{
    TIDE_CLI_STORE(store, cli, TIDE_STORE_AS_IS, err);
    return tide_work_types(store, list_type, &cli->out, err);
}
