/* sql_output.h - rows of any statement of any store: a table, JSON objects, or CSV.
 *
 *     table   columns side by side; a result with more than TIDE_CLI_TABLE_COLUMNS columns is printed row by row, a line per column
 *     JSON    an object per row: whole numbers and reals as numbers, truths as true and false, text as text, a BLOB in base64, NULL as
 *             null, and so a real that JSON cannot say (NaN). Of columns with equal names all but the first get a number behind
 *             theirs: id, id_2
 *     CSV     RFC 4180 with a title line and \n: NULL is nothing, an empty text is "", a BLOB is base64. Behind the first result
 *             each further one begins with an empty line
 *
 * A statement that returns no columns has changed rows: their number is told ("3 rows changed", {"changed":3}; nothing in CSV).
 *
 * Memory: what a table's block needs (output.h) and one row. Threads: one. */
#pragma once

#include "base/sql_value.h"
#include "cli/print/output.h"

typedef enum tide_cli_sql_form {
    TIDE_CLI_SQL_TABLE,
    TIDE_CLI_SQL_JSON,
    TIDE_CLI_SQL_CSV,
} tide_cli_sql_form;

typedef struct tide_cli_sql_output {
    tide_cli_output *out;
    tide_cli_sql_form form;
    int result_count; /* with columns, so far */

    /* the result under way */
    int column_count;
    char **names; /* unique where it is JSON */
    int64_t row_count;
    bool is_table_open;
    tide_cli_column columns[TIDE_CLI_TABLE_COLUMNS];
    tide_cli_table table;
    tide_buffer text; /* of one value */
} tide_cli_sql_output;

void tide_cli_sql_output_init(tide_cli_sql_output *sql, tide_cli_output *out,
                              tide_cli_sql_form form);
/* Fits TIDE_CLEANUP. */
void tide_cli_sql_output_done(tide_cli_sql_output *sql);

/* A result: its columns, its rows, each with a cell per column, its end, also after a failure. changed: rows that were changed, where
 * there are no columns. */
TIDE_MUST_CHECK tide_status tide_cli_sql_output_begin(tide_cli_sql_output *sql,
                                                      const char *const *names, int count,
                                                      tide_error *err);
TIDE_MUST_CHECK tide_status tide_cli_sql_output_row(tide_cli_sql_output *sql,
                                                    const tide_sql_value *cells, tide_error *err);
TIDE_MUST_CHECK tide_status tide_cli_sql_output_end(tide_cli_sql_output *sql, int64_t changed,
                                                    tide_error *err);
