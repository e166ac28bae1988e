/* type_order.h - values of statistics, compared as their column's type compares them.
 *
 * Statistics are texts (as DuckDB prints values). What cannot be compared for certain is said to be so: pruning then keeps the file.
 * Threads: pure. */
#pragma once

#include <stdbool.h>

#include <tidemark/view.h>

typedef enum tide_lake_order {
    TIDE_LAKE_ORDER_NONE,    /* not compared */
    TIDE_LAKE_ORDER_TEXT,    /* by bytes */
    TIDE_LAKE_ORDER_DECIMAL, /* whole numbers and decimals of any length */
    TIDE_LAKE_ORDER_DOUBLE,
    TIDE_LAKE_ORDER_TIME, /* YYYY-MM-DD and behind it, or HH:MM:SS */
} tide_lake_order;

/* How values of one of DuckLake's types compare. */
tide_lake_order tide_lake_type_order(const char *type);

/* *sign is below, at or above 0 as a is to b. False: not known. */
bool tide_lake_compare(tide_lake_order order, tide_view a, tide_view b, int *sign);
