/* sql_value.h - one value of a statement: a parameter or a column, of whatever store.
 *
 * Threads: plain data. */
#pragma once

#include <stdint.h>

#include <tidemark/view.h>

/* The numbers up to BLOB are stored: replica/value.h encodes values with them. */
typedef enum tide_sql_value_kind {
    TIDE_SQL_VALUE_NULL,
    TIDE_SQL_VALUE_I64,
    TIDE_SQL_VALUE_F64,
    TIDE_SQL_VALUE_TEXT, /* as a column: also what has a type of its own that is not listed here */
    TIDE_SQL_VALUE_BLOB,
    TIDE_SQL_VALUE_BOOL,
    TIDE_SQL_VALUE_TIME,
} tide_sql_value_kind;

typedef struct tide_sql_value {
    tide_sql_value_kind kind;
    int64_t i64; /* I64, BOOL, TIME (microseconds); 0 of other kinds, as the members below */
    double f64;
    tide_view bytes; /* TEXT, BLOB: borrowed */
} tide_sql_value;
