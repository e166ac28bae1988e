/* cmd_query.c - tidemark query SQL: one statement over the rows that a colony has collected. */
#include <stdlib.h>

#include "base/cleanup.h"
#include "cli/colony/colony_store.h"
#include "cli/frame/input.h"
#include "cli/print/sql_output.h"

enum { SQL_MAX = 1 << 20 }; /* bytes of the statement */

/* Borrowed from the message. */
static tide_sql_value read_cell(const COLONY(Cell) * cell)
{
    const int kind = (int)cell->value_case;
    if (kind == TIDEMARK__COLONY__V1__CELL__VALUE_TRUTH)
        return (tide_sql_value){.kind = TIDE_SQL_VALUE_BOOL, .i64 = cell->truth};
    if (kind == TIDEMARK__COLONY__V1__CELL__VALUE_WHOLE)
        return (tide_sql_value){.kind = TIDE_SQL_VALUE_I64, .i64 = cell->whole};
    if (kind == TIDEMARK__COLONY__V1__CELL__VALUE_NUMBER)
        return (tide_sql_value){.kind = TIDE_SQL_VALUE_F64, .f64 = cell->number};
    if (kind == TIDEMARK__COLONY__V1__CELL__VALUE_TEXT)
        return (tide_sql_value){.kind = TIDE_SQL_VALUE_TEXT, .bytes = tide_view_of(cell->text)};
    if (kind == TIDEMARK__COLONY__V1__CELL__VALUE_DATA)
        return (tide_sql_value){
            .kind = TIDE_SQL_VALUE_BLOB,
            .bytes = tide_view_bytes(cell->data.data ? (const char *)cell->data.data : "",
                                     cell->data.len)};
    return (tide_sql_value){.kind = TIDE_SQL_VALUE_NULL};
}

static tide_status print_rows(tide_cli_sql_output *output, const COLONY(QueryResponse) * answer,
                              tide_error *err)
{
    const size_t count = answer->n_columns;
    TIDE_CLEANUP(tide_freep) tide_sql_value *cells = calloc(count + 1, sizeof *cells);
    TIDE_NEED_MEMORY(cells, err);
    TIDE_TRY(
        tide_cli_sql_output_begin(output, (const char *const *)answer->columns, (int)count, err));
    for (size_t i = 0; i < answer->n_rows; i++) {
        if (answer->rows[i]->n_cells != count)
            return tide_fail(err, TIDE_E_DAMAGED,
                             "row %zu has %zu values, and there are %zu columns", i + 1,
                             answer->rows[i]->n_cells, count);
        for (size_t at = 0; at < count; at++)
            cells[at] = read_cell(answer->rows[i]->cells[at]);
        TIDE_TRY(tide_cli_sql_output_row(output, cells, err));
    }
    return tide_cli_sql_output_end(output, 0, err);
}

static tide_status print_answer(tide_cli *cli, const ProtobufCMessage *response, tide_error *err)
{
    const COLONY(QueryResponse) *answer = (const COLONY(QueryResponse) *)response;
    TIDE_CLEANUP(tide_cli_sql_output_done) tide_cli_sql_output output;
    tide_cli_sql_output_init(&output, &cli->out,
                             cli->out.is_json                       ? TIDE_CLI_SQL_JSON
                             : tide_cli_is_given(cli, TIDE_CLI_CSV) ? TIDE_CLI_SQL_CSV
                                                                    : TIDE_CLI_SQL_TABLE);
    TIDE_TRY(print_rows(&output, answer, err));
    if (answer->cut && (int64_t)answer->n_rows < tide_cli_number(cli, TIDE_CLI_LIMIT))
        tide_cli_print(
            stderr,
            "tidemark: query: the answer ends after %zu rows: with the next one it would "
            "be too large\n",
            answer->n_rows);
    else if (answer->cut)
        tide_cli_print(stderr, "tidemark: query: there are more than these %zu rows: --limit N\n",
                       answer->n_rows);
    return TIDE_OK;
}

static tide_status run_query(tide_cli *cli, tide_error *err)
{
    if (cli->out.is_json && tide_cli_is_given(cli, TIDE_CLI_CSV))
        return tide_fail(err, TIDE_E_INVALID, "--csv and --json: choose one");
    TIDE_CLEANUP(tide_buffer_done) tide_buffer sql = tide_buffer_of(SQL_MAX);
    TIDE_TRY(tide_cli_input_read(&sql, cli->args[0], "SQL", err));
    if (tide_view_of(tide_buffer_text(&sql)).len != sql.len)
        return tide_fail(err, TIDE_E_INVALID, "the statement has a NUL in it");
    COLONY(QueryRequest) request = COLONY_INIT(QUERY_REQUEST);
    request.sql = (char *)tide_buffer_text(&sql);
    request.max_rows = tide_cli_number(cli, TIDE_CLI_LIMIT);
    request.timeout_ms = (tide_cli_number(cli, TIDE_CLI_TIMEOUT) + 999) / 1000;
    return tide_cli_colony_ask(cli, "Query", &request.base,
                               &tidemark__colony__v1__query_response__descriptor, print_answer,
                               err);
}

static const tide_cli_verb verbs[] = {
    {.name = "",
     .arguments = "SQL",
     .takes = TIDE_CLI_LIST(CSV, LIMIT, TIMEOUT, TIDE_CLI_COLONY_OPTIONS),
     .overrides = TIDE_CLI_OVERRIDES(
         TIDE_CLI_COLONY_TOKEN,
         {.id = TIDE_CLI_LIMIT, .fallback = "10000", .help = "print at most so many rows"},
         {.id = TIDE_CLI_TIMEOUT, .fallback = "30s", .help = "stop after this long"}),
     .summary = "run a query over what a colony has collected",
     .details =
         "SQL is one statement that reads, @FILE, or - for stdin, in the language of the store "
         "(SQLite,\n"
         "PostgreSQL, DuckDB). Tables: spans, system_metrics, ebpf_http_metrics, "
         "ebpf_grpc_metrics,\n"
         "ebpf_sql_metrics, ebpf_traces, cpu_profile_samples, memory_profile_samples, each with "
         "agent_id,\n"
         "session_id, epoch and seq_id. An answer that was cut is told on stderr.",
     .run = run_query},
    {.name = NULL},
};

const tide_cli_command tide_cli_query = {
    .name = "query",
    .summary = "run a query over what a colony has collected",
    .verbs = verbs,
};
