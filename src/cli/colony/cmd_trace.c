/* cmd_trace.c - tidemark trace show ID: the spans, eBPF spans and logs of one trace. */
#include "cli/colony/colony_store.h"
#include "cli/print/message_output.h"

static tide_status print_trace(tide_cli *cli, const ProtobufCMessage *response, tide_error *err)
{
    const COLONY(GetTraceResponse) *answer = (const COLONY(GetTraceResponse) *)response;
    tide_cli_table table;
    for (size_t i = 0; i < answer->n_rows && cli->out.is_json; i++)
        TIDE_TRY(tide_cli_print_message(&cli->out, &answer->rows[i]->base, err));
    tide_cli_table_begin(&table, &cli->out,
                         "TIME,SOURCE,AGENT,SERVICE,NAME,KIND,MICROSECONDS#,ERROR,SPAN,PARENT");
    for (size_t i = 0; i < answer->n_rows && !cli->out.is_json; i++) {
        const COLONY(TraceRow) *row = answer->rows[i];
        tide_cli_table_time(&table, row->timestamp);
        tide_cli_table_cell(&table, row->source);
        tide_cli_table_cell(&table, row->agent_id);
        tide_cli_table_cell(&table, *row->service_name ? row->service_name : NULL);
        tide_cli_table_cell(&table, *row->name ? row->name : NULL);
        tide_cli_table_cell(&table, *row->kind ? row->kind : NULL);
        tide_cli_table_number(&table, row->duration_us);
        tide_cli_table_cell(&table, row->error ? "yes" : NULL);
        tide_cli_table_cell(&table, *row->span_id ? row->span_id : NULL);
        tide_cli_table_cell(&table, *row->parent_span_id ? row->parent_span_id : NULL);
    }
    return tide_cli_table_done(&table, err);
}

static tide_status show_trace(tide_cli *cli, tide_error *err)
{
    COLONY(GetTraceRequest) request = COLONY_INIT(GET_TRACE_REQUEST);
    request.trace_id = (char *)cli->args[0];
    return tide_cli_colony_ask_with(cli, TIDE_STORE_EXISTING, false, "GetTrace", &request.base,
                                    &tidemark__colony__v1__get_trace_response__descriptor,
                                    print_trace, err);
}

static const tide_cli_verb verbs[] = {
    {.name = "show",
     .arguments = "ID",
     .takes = TIDE_CLI_LIST(TIDE_CLI_COLONY_OPTIONS),
     .overrides = TIDE_CLI_OVERRIDES(TIDE_CLI_COLONY_TOKEN),
     .summary = "print the spans, eBPF spans and logs of one trace, by time",
     .details =
         "ID is the trace id as it was stored. At most 10,000 rows are printed. Exit code 3: "
         "no row has it.",
     .run = show_trace},
    {.name = NULL},
};

const tide_cli_command tide_cli_trace = {
    .name = "trace",
    .summary = "Traces that a colony has collected.",
    .verbs = verbs,
};
