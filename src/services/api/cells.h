/* cells.h - rows of a query's answer as messages: Row {repeated Cell cells = 1} with Cell {oneof
 * {is_null = 1, truth = 2, whole = 3, number = 4, text = 5, data = 6}}, as colony.v1 and lake.v1
 * have them.
 *
 * Threads: pure. */
#pragma once

#include <tidemark/error.h>

#include "base/buffer.h"
#include "base/sql_value.h"

/* Append a row as one occurrence of a field, if rest_len bytes are left behind it; otherwise
 * TIDE_E_LIMIT, and out is as before. */
TIDE_MUST_CHECK tide_status tide_rpc_put_cells(tide_buffer *out, uint32_t field,
                                               const tide_sql_value *cells, int count,
                                               size_t rest_len, tide_error *err);
