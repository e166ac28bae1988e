/* cmd_lake_query.c - tidemark lake query SQL: one statement over tables of catalogs, now or as they were. */

#include "base/cleanup.h"
#include "cli/frame/input.h"
#include "cli/lake/cmd_lake.h"
#include "cli/print/sql_output.h"

enum { SQL_MAX = 1 << 20 }; /* bytes of the statement */

#define ANSWER_MAX (INT64_C(1) << 40)

typedef struct answer {
    tide_cli_sql_output output;
    int count;
    bool is_begun;
} answer;

static tide_status begin_answer(void *arg, const char *const *names, int count, tide_error *err)
{
    answer *a = arg;
    a->count = count;
    a->is_begun = true;
    return tide_cli_sql_output_begin(&a->output, names, count, err);
}

static tide_status print_row(void *arg, const tide_sql_value *cells, int count, tide_error *err)
{
    answer *a = arg;
    if (count != a->count)
        return tide_fail(err, TIDE_E_DAMAGED, "a row has %d values, and there are %d columns",
                         count, a->count);
    return tide_cli_sql_output_row(&a->output, cells, err);
}

static void answer_done(answer *a)
{
    tide_cli_sql_output_done(&a->output);
}

static tide_status ask(tide_cli *cli, const char *sql, answer *a, tide_error *err)
{
    TIDE_CLEANUP(tide_cli_close_lake) tide_cli_metabase metabase = {0};
    TIDE_CLEANUP(tide_lake_data_closep) tide_lake_data *data = NULL;
    const char *at = tide_cli_text(cli, TIDE_CLI_AT);
    const char *catalog = tide_cli_text(cli, TIDE_CLI_CATALOG);
    tide_lake_name name;
    if (catalog)
        TIDE_TRY(tide_lake_name_parse(&name, catalog, 1, err));
    TIDE_TRY(tide_cli_open_lake(cli, &metabase, 0, err));
    TIDE_TRY(tide_cli_open_lake_data(cli, metabase.lake, &data, err));
    const tide_lake_ask question = {.text = sql,
                                    .at = at ? at : "",
                                    .default_catalog = catalog ? name.catalog : NULL,
                                    .row_max = tide_cli_number(cli, TIDE_CLI_LIMIT),
                                    .bytes_max = ANSWER_MAX,
                                    .timeout_us = tide_cli_number(cli, TIDE_CLI_TIMEOUT),
                                    .columns = begin_answer,
                                    .row = print_row,
                                    .arg = a};
    return tide_lake_query(data, metabase.lake, &question, err);
}

tide_status tide_cli_lake_query(tide_cli *cli, tide_error *err)
{
    const bool is_csv = tide_cli_is_given(cli, TIDE_CLI_CSV);
    if (cli->out.is_json && is_csv)
        return tide_fail(err, TIDE_E_INVALID, "--csv and --json: choose one");
    TIDE_CLEANUP(tide_buffer_done) tide_buffer sql = tide_buffer_of(SQL_MAX);
    TIDE_TRY(tide_cli_input_read(&sql, cli->args[0], "SQL", err));
    if (tide_view_of(tide_buffer_text(&sql)).len != sql.len)
        return tide_fail(err, TIDE_E_INVALID, "the statement has a NUL in it");
    TIDE_CLEANUP(answer_done) answer a = {.count = 0};
    tide_cli_sql_output_init(&a.output, &cli->out,
                             cli->out.is_json ? TIDE_CLI_SQL_JSON
                             : is_csv         ? TIDE_CLI_SQL_CSV
                                              : TIDE_CLI_SQL_TABLE);
    const tide_status status = ask(cli, tide_buffer_text(&sql), &a, err);
    tide_error ignored;
    const tide_status ended =
        a.is_begun ? tide_cli_sql_output_end(&a.output, 0, status < TIDE_OK ? &ignored : err)
                   : TIDE_OK;
    if (status == TIDE_E_LIMIT)
        (void)snprintf(cli->hint, sizeof cli->hint, "--limit N lets more rows through");
    return status < TIDE_OK ? status : ended;
}
