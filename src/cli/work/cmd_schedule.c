/* cmd_schedule.c - tidemark schedule add|update|ls|pause|resume|delete. */
#include "cli/frame/cli.h"

#include <tidemark/work.h>

#include "base/cleanup.h"
#include "cli/frame/input.h"
#include "cli/work/cmd_work.h"
#include "cli/work/work_output.h"

static tide_status print_next(tide_cli *cli, int64_t next_us, const char *what, tide_error *err)
{
    if (!cli->out.is_json) {
        char next[TIDE_CLI_TIME_SIZE];
        tide_cli_time_text(next, next_us);
        tide_cli_print(cli->out.file, "%s: %s item at %s\n", cli->args[0], what, next);
        return TIDE_OK;
    }
    WORK(AddScheduleResponse) response = WORK_INIT(ADD_SCHEDULE_RESPONSE);
    response.name = tide_rpc_borrow(cli->args[0]);
    response.next_run_at = next_us;
    return tide_cli_print_message(&cli->out, &response.base, err);
}

static tide_status add(tide_cli *cli, tide_error *err)
{
    const char *input = tide_cli_text(cli, TIDE_CLI_INPUT);
    const char *cron = tide_cli_text(cli, TIDE_CLI_CRON);
    const int64_t every_us = tide_cli_number(cli, TIDE_CLI_EVERY);
    if ((cron != NULL) == (every_us > 0))
        return tide_fail(err, TIDE_E_INVALID, "when? give either --cron or --every");
    tide_cli_note_attempt_timeout(cli);
    TIDE_CLEANUP(tide_buffer_done) tide_buffer data = tide_buffer_of(TIDE_WORK_DATA_MAX);
    if (input)
        TIDE_TRY(tide_cli_input_json(&data, input, "--input", err));
    const tide_schedule_new schedule = {
        TIDE_SCHEDULE_NEW_INIT,
        .name = cli->args[0],
        .task_id = tide_cli_text(cli, TIDE_CLI_TASK),
        .work_type = tide_cli_text(cli, TIDE_CLI_TYPE),
        .cron = cron,
        .every_us = every_us,
        .time_zone = tide_cli_text(cli, TIDE_CLI_TIME_ZONE),
        .input = input ? tide_buffer_text(&data) : NULL,
        .priority = tide_cli_number(cli, TIDE_CLI_PRIORITY),
        .max_retries = tide_cli_number(cli, TIDE_CLI_MAX_RETRIES),
        .timeout_us = tide_cli_number(cli, TIDE_CLI_ATTEMPT_TIMEOUT),
    };
    int64_t next_us = 0;
    TIDE_CLI_STORE(store, cli, TIDE_STORE_EXISTING, err);
    TIDE_TRY(tide_schedule_add(store, &schedule, &next_us, err));
    return print_next(cli, next_us, "first", err);
}

static tide_status update(tide_cli *cli, tide_error *err)
{
    const char *input = tide_cli_text(cli, TIDE_CLI_INPUT);
    const char *cron = tide_cli_text(cli, TIDE_CLI_CRON);
    const int64_t every_us = tide_cli_number(cli, TIDE_CLI_EVERY);
    if (cron && every_us > 0)
        return tide_fail(err, TIDE_E_INVALID, "when? give either --cron or --every");
    tide_cli_note_attempt_timeout(cli);
    TIDE_CLEANUP(tide_buffer_done) tide_buffer data = tide_buffer_of(TIDE_WORK_DATA_MAX);
    if (input)
        TIDE_TRY(tide_cli_input_json(&data, input, "--input", err));
    const tide_schedule_change change = {
        TIDE_SCHEDULE_CHANGE_INIT,
        .name = cli->args[0],
        .work_type = tide_cli_text(cli, TIDE_CLI_TYPE),
        .cron = cron,
        .every_us = every_us,
        .time_zone = tide_cli_text(cli, TIDE_CLI_TIME_ZONE),
        .input = input ? tide_buffer_text(&data) : NULL,
        .has_priority = tide_cli_is_given(cli, TIDE_CLI_PRIORITY),
        .priority = tide_cli_number(cli, TIDE_CLI_PRIORITY),
        .has_max_retries = tide_cli_is_given(cli, TIDE_CLI_MAX_RETRIES),
        .max_retries = tide_cli_number(cli, TIDE_CLI_MAX_RETRIES),
        .has_timeout = tide_cli_is_given(cli, TIDE_CLI_ATTEMPT_TIMEOUT),
        .timeout_us = tide_cli_number(cli, TIDE_CLI_ATTEMPT_TIMEOUT),
    };
    int64_t next_us = 0;
    TIDE_CLI_STORE(store, cli, TIDE_STORE_EXISTING, err);
    TIDE_TRY(tide_schedule_update(store, &change, &next_us, err));
    return print_next(cli, next_us, "next", err);
}

static tide_status list_one(void *arg, const tide_schedule *schedule, tide_error *err)
{
    tide_cli_table *table = arg;
    tide_cli_output *out = table->out;
    char every[TIDE_CLI_DURATION_SIZE] = "";
    if (schedule->every_us > 0)
        tide_cli_duration_text(every, schedule->every_us);
    if (!out->is_json) {
        tide_cli_table_cell(table, schedule->name);
        tide_cli_table_cell(table, schedule->work_type);
        tide_cli_table_cell(table, schedule->cron ? schedule->cron : every);
        tide_cli_table_cell(table, schedule->time_zone ? schedule->time_zone : "UTC");
        tide_cli_table_cell(table, schedule->is_paused ? "paused" : "active");
        tide_cli_table_time(table, schedule->next_run_at_us);
        tide_cli_table_number(table, schedule->run_count);
        return TIDE_OK;
    }
    WORK(Schedule) row;
    tide_rpc_schedule(&row, schedule);
    return tide_cli_print_message(out, &row.base, err);
}

static tide_status list_all(tide_cli *cli, tide_error *err)
{
    TIDE_CLI_STORE(store, cli, TIDE_STORE_AS_IS, err);
    tide_cli_table table;
    tide_cli_table_begin(&table, &cli->out, "NAME,TYPE,WHEN,ZONE,STATE,NEXT,RUNS#");
    const tide_status status = tide_schedule_list(store, list_one, &table, err);
    return tide_cli_table_end(&table, status, err);
}

static tide_status set_paused(tide_cli *cli, bool is_paused, tide_error *err)
{
    TIDE_CLI_STORE(store, cli, TIDE_STORE_EXISTING, err);
    TIDE_TRY(tide_schedule_pause(store, cli->args[0], is_paused, err));
    return tide_cli_print_done(&cli->out, "name", cli->args[0], is_paused ? "paused" : "resumed",
                               err);
}

static tide_status pause(tide_cli *cli, tide_error *err)
{
    return set_paused(cli, true, err);
}

static tide_status resume(tide_cli *cli, tide_error *err)
{
    return set_paused(cli, false, err);
}

static tide_status delete (tide_cli *cli, tide_error *err)
{
    TIDE_CLI_STORE(store, cli, TIDE_STORE_EXISTING, err);
    TIDE_TRY(tide_schedule_remove(store, cli->args[0], err));
    return tide_cli_print_done(&cli->out, "name", cli->args[0], "deleted", err);
}

static const tide_cli_verb verbs[] = {
    {.name = "add",
     .arguments = "NAME",
     .takes = TIDE_CLI_LIST(TASK, TYPE, CRON, TIME_ZONE, EVERY, INPUT, PRIORITY, MAX_RETRIES,
                            ATTEMPT_TIMEOUT),
     .needs = TIDE_CLI_LIST(TASK, TYPE),
     .overrides = TIDE_CLI_OVERRIDES({.id = TIDE_CLI_TYPE, .max = 1}),
     .summary = "make an item again and again: by cron expression or interval",
     .details =
         "'serve', 'up', 'colony', 'work run' and 'work sweep' make the items when they are "
         "due. Times\n"
         "that were missed are made up by one item. With --time-zone a local time that clocks "
         "skip runs\n"
         "once, when they are set ahead, and one that comes twice runs the first time.",
     .run = add},
    {.name = "update",
     .arguments = "NAME",
     .takes =
         TIDE_CLI_LIST(TYPE, CRON, TIME_ZONE, EVERY, INPUT, PRIORITY, MAX_RETRIES, ATTEMPT_TIMEOUT),
     .overrides = TIDE_CLI_OVERRIDES({.id = TIDE_CLI_TYPE, .max = 1}),
     .summary = "change a schedule",
     .details = "What is not given stays as it is. With --cron, --every or --time-zone the next "
                "time is computed\n"
                "anew.",
     .run = update},
    {.name = "ls", .summary = "list schedules", .run = list_all},
    {.name = "pause", .arguments = "NAME", .summary = "make no items for now", .run = pause},
    {.name = "resume", .arguments = "NAME", .summary = "go on", .run = resume},
    {.name = "delete", .arguments = "NAME", .summary = "remove a schedule", .run = delete},
    {.name = NULL},
};

const tide_cli_command tide_cli_schedule = {
    .name = "schedule",
    .summary = "Work that comes again: cron expressions and intervals.",
    .verbs = verbs,
};
