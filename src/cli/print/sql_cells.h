/* sql_cells.h - the columns of a SQLite statement as names and cells (base/sql_value.h).
 *
 * Threads: one. */
#pragma once

#include <sqlite3.h>

#include <tidemark/error.h>
#include <tidemark/export.h>

#include "base/sql_value.h"

typedef struct tide_cli_sql_cells {
    sqlite3_stmt *statement; /* borrowed */
    int count;
    const char **names;    /* of the statement, which owns them */
    tide_sql_value *cells; /* of the row under way */
} tide_cli_sql_cells;

/* Before the first step. */
TIDE_MUST_CHECK tide_status tide_cli_sql_cells_init(tide_cli_sql_cells *out,
                                                    sqlite3_stmt *statement, tide_error *err);
void tide_cli_sql_cells_done(tide_cli_sql_cells *row); /* fits TIDE_CLEANUP on {0} */

/* Behind a step: the row; texts and bytes live until the next one. */
const tide_sql_value *tide_cli_sql_cells_read(tide_cli_sql_cells *row);
