/* sql_value.h - one value of a query's answer, of whatever store.
 *
 * Threads: plain data. */
#ifndef TIDE_BASE_SQL_VALUE_H
#define TIDE_BASE_SQL_VALUE_H

#include <stdint.h>

#include <tidemark/view.h>

typedef enum tide_sql_value_kind {
    TIDE_SQL_VALUE_NULL,
    TIDE_SQL_VALUE_BOOL,
    TIDE_SQL_VALUE_I64,
    TIDE_SQL_VALUE_F64,
    TIDE_SQL_VALUE_TEXT, /* also times and whatever else has a text */
    TIDE_SQL_VALUE_BLOB,
} tide_sql_value_kind;

typedef struct tide_sql_value {
    tide_sql_value_kind kind;
    int64_t i64; /* also BOOL */
    double f64;
    tide_view bytes; /* TEXT and BLOB: borrowed */
} tide_sql_value;

#endif
