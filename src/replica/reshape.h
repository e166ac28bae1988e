/* reshape.h - a table has lost columns, or has them in another order: what is kept of its rows is made to fit.
 *
 * Columns are known by their positions: in clocks and images, in prints, in conflicts, in the log of captured changes. When an application drops one
 * (ALTER TABLE ... DROP COLUMN, or a rebuild without it), those behind it move up, here as in the table, and what was known of it goes; in a rebuild
 * they may change places, and do so here: nodes whose tables are alike have their columns under the same numbers. All of it in
 * the transaction that records the new columns; it takes as long as SQLite's own DROP COLUMN, which writes every row anew, too.
 *
 * What stays of a dropped column is the stamp of its last write (TIDE_ROW_CLOCK_LOST): a row that it has kept from being deleted stays.
 *
 * Threads: as the transaction. */
#pragma once

#include "replica/table.h"

/* before: the table as it was recorded; after: with the columns that are left, and perhaps others, under the names of today. map: for each column of
 * before its place in after; below 0: dropped. The triggers go; the log keeps what it has (it must be empty where after has others). */
TIDE_MUST_CHECK tide_status tide_reshape(tide_foreign_tx *tx, const tide_table *before,
                                         const tide_table *after, const int *map, tide_error *err);
