/* cmd_status.c - tidemark status: how everything stands, in one look. */
#include <stdio.h>

#include "base/cleanup.h"
#include "cli/colony/colony_store.h"
#include "cli/print/message_output.h"

static void print_seconds(tide_cli_table *table, int64_t ms)
{
    char text[32];
    (void)snprintf(text, sizeof text, "%.1f s", (double)ms / 1000);
    tide_cli_table_cell(table, ms > 0 ? text : NULL);
}

static tide_status print_table(tide_cli *cli, const COLONY(FleetResponse) * fleet, tide_error *err)
{
    tide_cli_table table;
    tide_cli_print(cli->out.file,
                   "%llu numbers unexplained, %llu pending, %llu in open gaps, %llu lost with a "
                   "reason; %zu agents\n",
                   (unsigned long long)fleet->unexplained, (unsigned long long)fleet->pending,
                   (unsigned long long)fleet->open_gaps, (unsigned long long)fleet->lost,
                   fleet->n_agents);
    tide_cli_table_begin(&table, &cli->out,
                         "AGENT,HEALTH,BEHIND#,LAG#,LOSS IN#,GAPS#,HELD BY,TROUBLE");
    for (size_t i = 0; i < fleet->n_agents; i++) {
        const COLONY(FleetLine) *line = fleet->agents[i];
        const tide_cli_standing standing = tide_cli_fleet_standing(line);
        tide_cli_table_cell(&table, line->agent_id);
        tide_cli_table_cell(&table, line->health);
        tide_cli_table_number(&table, standing.lag_records);
        print_seconds(&table, standing.lag_ms);
        print_seconds(&table, standing.until_loss_ms);
        tide_cli_table_number(&table, standing.open_gaps);
        tide_cli_table_cell(&table, *line->holder ? line->holder : NULL);
        tide_cli_table_cell(&table, *standing.hold ? standing.hold
                                    : *line->error ? line->error
                                                   : NULL);
    }
    return tide_cli_table_done(&table, err);
}

static tide_status run(tide_cli *cli, tide_error *err)
{
    TIDE_CLEANUP(tide_cli_fleet_done) tide_cli_fleet fleet = {.answer = NULL};
    TIDE_TRY(tide_cli_fleet_ask(cli, &fleet, err));
    TIDE_TRY(cli->out.is_json ? tide_cli_print_message(&cli->out, &fleet.answer->base, err)
                              : print_table(cli, fleet.answer, err));
    if (fleet.answer->unexplained > 0)
        return tide_fail(err, TIDE_E_DAMAGED,
                         "%llu numbers are unexplained: look with 'tidemark colony audit'",
                         (unsigned long long)fleet.answer->unexplained);
    return TIDE_OK;
}

static const tide_cli_verb verbs[] = {
    {.name = "",
     .takes = TIDE_CLI_LIST(TIDE_CLI_COLONY_OPTIONS),
     .overrides = TIDE_CLI_OVERRIDES(TIDE_CLI_COLONY_TOKEN),
     .summary = "tell how every agent stands, and whether every number is explained",
     .details = "Exit code 8 where a number is unexplained.",
     .run = run},
    {.name = NULL},
};

const tide_cli_command tide_cli_status = {
    .name = "status",
    .summary = "How everything stands, in one look.",
    .verbs = verbs,
};
