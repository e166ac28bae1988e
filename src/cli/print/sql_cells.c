#include "cli/print/sql_cells.h"

#include <stdlib.h>

#include "store/sqlite/sqlite_statement.h"

tide_status tide_cli_sql_cells_init(tide_cli_sql_cells *out, sqlite3_stmt *statement,
                                    tide_error *err)
{
    const int count = sqlite3_column_count(statement);
    *out = (tide_cli_sql_cells){.statement = statement, .count = count};
    out->names = calloc((size_t)count + 1, sizeof *out->names);
    out->cells = calloc((size_t)count + 1, sizeof *out->cells);
    bool is_whole = out->names && out->cells;
    for (int i = 0; is_whole && i < count; i++) {
        out->names[i] = sqlite3_column_name(statement, i);
        is_whole = out->names[i] != NULL;
    }
    return is_whole ? TIDE_OK : tide_no_memory(err);
}

void tide_cli_sql_cells_done(tide_cli_sql_cells *row)
{
    free(row->names);
    free(row->cells);
    *row = (tide_cli_sql_cells){.statement = NULL};
}

const tide_sql_value *tide_cli_sql_cells_read(tide_cli_sql_cells *row)
{
    for (int i = 0; i < row->count; i++)
        row->cells[i] = tide_sqlite_value(row->statement, i);
    return row->cells;
}
