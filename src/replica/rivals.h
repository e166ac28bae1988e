/* rivals.h - which rows have the unique values of a row that its table refuses for that.
 *
 * Where unique keys are of stored columns, they are asked for by the row's values. Expressions, generated columns and conditions of partial indexes are SQLite's to
 * compute: the row is put into its table by force, what it has become is read, and all of it is undone.
 *
 * Threads: as the transaction. */
#pragma once

#include "replica/found.h"

/* Rows that stand in the table, are another than this one, and share values of a unique key with it: exactly those. */
TIDE_MUST_CHECK tide_status tide_rivals_find(tide_found *out, tide_desk *desk,
                                             const tide_desk_row *row, tide_error *err);

/* The columns of a row whose values are known; their count. out: room for all of the table's. */
int tide_rivals_columns(const tide_desk_row *row, bool with_key, int *out);
