/* form.h - what a table makes of the values that are written to it: types, STRICT, NOT NULL, defaults, the key's collation.
 *
 * Events name columns, not types: a table of the same columns takes them, whatever it makes of their values. '05' is 5 in an INTEGER column; 'a' and 'A'
 * are one key where the key's collation says so. Such tables never become equal, though their logs are. Nothing is held up for it (a migration changes
 * types on one node after the other), but both nodes can say so: each tells the form of its tables (sync.h), who syncs compares.
 *
 *     form    pairs of a column's name and its form, each with a NUL behind: "id" "INTEGER KEY", "v" "TEXT DEFAULT 'x'"
 *
 * UNIQUE, CHECK and foreign keys are not compared: they may differ between nodes, rows that they do not allow are kept aside.
 *
 * Threads: pure, but for tide_form_note. */
#pragma once

#include "replica/sync.h"
#include "replica/table.h"

TIDE_MUST_CHECK tide_status tide_form_put(tide_buffer *out, const tide_table *table,
                                          tide_error *err);

/* Where tables of two nodes differ, in words; "": nowhere, or one of them does not tell. */
void tide_form_compare(char out[TIDE_SYNC_UNLIKE_MAX], const tide_peer_marks *ours,
                       const tide_peer_marks *theirs);

/* Keep what was found with a peer for whoever asks (tide_peer_list), until something else is. */
TIDE_MUST_CHECK tide_status tide_form_note(tide_node *node, const tide_node_id *peer,
                                           const char *unlike, tide_error *err);
