/* sql_value.h - one value of a query's answer, of whatever store.
 *
 * Threads: plain data. */
#ifndef TIDE_BASE_SQL_VALUE_H
#define TIDE_BASE_SQL_VALUE_H

#include <stdint.h>

#include <tidemark/view.h>

typedef enum tide_cell_kind {
    TIDE_CELL_NULL,
    TIDE_CELL_BOOL,
    TIDE_CELL_I64,
    TIDE_CELL_F64,
    TIDE_CELL_TEXT, /* also times and whatever else has a text */
    TIDE_CELL_BLOB,
} tide_cell_kind;

typedef struct tide_cell {
    tide_cell_kind kind;
    int64_t i64; /* also BOOL */
    double f64;
    tide_view bytes; /* TEXT and BLOB: borrowed */
} tide_cell;

#endif
