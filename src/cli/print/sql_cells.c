#include "cli/print/sql_cells.h"

#include <stdlib.h>

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

/* The pointer is asked for before the length: that order is SQLite's rule. */
static tide_view bytes_of(sqlite3_stmt *statement, int column, bool is_blob)
{
    const void *bytes = is_blob ? sqlite3_column_blob(statement, column)
                                : (const void *)sqlite3_column_text(statement, column);
    const size_t len = (size_t)sqlite3_column_bytes(statement, column);
    return tide_view_bytes(bytes ? bytes : "", len);
}

static tide_sql_value read_cell(sqlite3_stmt *statement, int column)
{
    switch (sqlite3_column_type(statement, column)) {
    case SQLITE_INTEGER:
        return (tide_sql_value){.kind = TIDE_SQL_VALUE_I64,
                                .i64 = sqlite3_column_int64(statement, column)};
    case SQLITE_FLOAT:
        return (tide_sql_value){.kind = TIDE_SQL_VALUE_F64,
                                .f64 = sqlite3_column_double(statement, column)};
    case SQLITE_TEXT:
        return (tide_sql_value){.kind = TIDE_SQL_VALUE_TEXT,
                                .bytes = bytes_of(statement, column, false)};
    case SQLITE_BLOB:
        return (tide_sql_value){.kind = TIDE_SQL_VALUE_BLOB,
                                .bytes = bytes_of(statement, column, true)};
    default:
        return (tide_sql_value){.kind = TIDE_SQL_VALUE_NULL};
    }
}

const tide_sql_value *tide_cli_sql_cells_read(tide_cli_sql_cells *row)
{
    for (int i = 0; i < row->count; i++)
        row->cells[i] = read_cell(row->statement, i);
    return row->cells;
}
