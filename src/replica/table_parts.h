/* table_parts.h - what table.c and table_index.c share. */
#pragma once

#include "replica/table.h"

/* The column of that name, as SQLite compares names; -1: none is stored. */
int tide_table_find_column(const tide_table *table, const char *name);

/* Read the unique keys that the table has in the file. */
TIDE_MUST_CHECK tide_status tide_table_read_uniques(tide_table *table, tide_foreign_tx *tx,
                                                    tide_error *err);
/* Read the foreign keys that the table has in the file. */
TIDE_MUST_CHECK tide_status tide_table_read_foreign(tide_table *table, tide_foreign_tx *tx,
                                                    tide_error *err);
/* Of names, order and key of the stored columns. */
TIDE_MUST_CHECK tide_status tide_table_digest_schema(tide_table *table, tide_error *err);
void tide_table_uniques_done(tide_table *table);

/* A copy of a text column. NULL: no memory, or the column is NULL. */
char *tide_table_copy(tide_view text);
