/* fold_left.h - captured changes that no event can carry as they are (fold.c): what is left out, and what stands in for it.
 *
 *     a value that is too large    the event goes without it; told in status (quarantine.h)
 *     a key that is too large      the delete of a row that nobody has takes its number: numbers of a cut have no holes
 *     a key that is NULL           the same: SQLite allows it in a PRIMARY KEY, and no other node could find the row. As many as there are stand in status; such
 *                                  rows cannot be told apart, so they are counted
 *     a key that SQLite has bent   Where a child's column is numeric and its parent's key is a text, SQLite applies the child's affinity to OLD before AFTER triggers of
 *                                  the parent read it: '01' is captured as 1. If that text is a row that is gone, it is meant; else a stand-in takes the
 *                                  number, and a scan finds what is gone (rescan.c)
 *
 * Threads: as the transaction. */
#pragma once

#include "replica/desk.h"

typedef struct tide_fold_left {
    const char *column; /* NULL: none */
    size_t len;
    bool is_bent;          /* a key that is not known for sure: nothing stays here alone */
    bool is_null;          /* there is no key */
    tide_change_kind kind; /* of the change, where there is no key */
} tide_fold_left;

/* The row of a change; the event's key and kind may be replaced. */
TIDE_MUST_CHECK tide_status tide_fold_find_row(tide_desk_row **out, tide_event *event,
                                               tide_fold_left *left_out, tide_desk *desk,
                                               const tide_table *table, tide_error *err);
/* Without its largest values, if need be. */
TIDE_MUST_CHECK tide_status tide_fold_encode(tide_buffer *out, tide_fold_left *left_out,
                                             tide_event *event, const tide_table *table,
                                             tide_error *err);
/* Said in status: what stays here alone, and what does so no more. */
TIDE_MUST_CHECK tide_status tide_fold_tell_left(tide_desk *desk, const tide_event *event,
                                                const tide_table *table,
                                                const tide_fold_left *left_out, tide_error *err);
