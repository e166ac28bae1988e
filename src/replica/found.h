/* found.h - keys of rows that a statement finds, kept while what is done with them changes the table.
 *
 * Threads: as the transaction. */
#pragma once

#include "replica/desk.h"

typedef struct tide_found {
    tide_view *keys; /* memory of the desk */
    int count;
} tide_found;

void tide_found_done(tide_found *found); /* fits TIDE_CLEANUP on {0} */
TIDE_MUST_CHECK tide_status tide_found_keep(tide_found *found, tide_desk *desk, tide_view key,
                                            tide_error *err);
/* Rows of (key columns...) become encoded keys. */
TIDE_MUST_CHECK tide_status tide_found_collect(tide_found *found, tide_desk *desk,
                                               const tide_table *table, tide_foreign_query *query,
                                               tide_error *err);
