/* conflict.h - writes that were lost unseen, kept for people.
 *
 * A write of a column is known if another write of that column, or a delete of its row, names its stamp as the one that it replaced.
 * What is kept is exactly this, whatever the order of arrival:
 *
 *     written, not known by anybody, and not what the row shows now
 *
 * So the last promise holds: every write is in the state, was replaced by somebody who had seen it, or is listed here, on every
 * node. Somebody's knowledge may come before the write itself: it waits in tide_replica_known. A delete that was outlived by a write that
 * did not know it is listed as a delete. A row that exists but breaks a constraint is kept aside (desk.h) and listed too. A default that a row has in a
 * column that its creator's table did not have is no write, and never listed.
 *
 * A person settles an entry (conflict_settle.c): a dismissal is an event that knows the lost write, so the entry leaves every node.
 *
 * Threads: as the transaction. */
#pragma once

#include "replica/desk.h"

enum {
    TIDE_CONFLICT_DELETE = -1, /* in place of a column: the row's deletion */
    TIDE_CONFLICT_ROW = -2,    /* in tide_replica_known: every column */
};

/* Before the row changes: what this event, merged as `merge`, means for the writes that it meets. */
TIDE_MUST_CHECK tide_status tide_conflict_note(tide_desk *desk, const tide_desk_row *row,
                                               const tide_event *event, const tide_merge *merge,
                                               tide_error *err);

/* Somebody has dismissed writes that were lost: they are listed nowhere any more. */
TIDE_MUST_CHECK tide_status tide_conflict_dismiss(tide_desk *desk, const tide_desk_row *row,
                                                  const tide_event *event, tide_error *err);

/* The id of an entry: of its table, row, column ("": of a delete or a row) and lost write. */
void tide_conflict_id(char out[TIDE_CONFLICT_ID_SIZE], const char *table, tide_view key,
                      const char *column, const tide_stamp *stamp);

/* Has a row with this clock its column from a creation that did not name it? Where the log does not have the creation any more: no. */
TIDE_MUST_CHECK tide_status tide_conflict_is_made_up(bool *out, tide_desk *desk,
                                                     const tide_table *table,
                                                     const tide_row_clock *clock, int column,
                                                     tide_error *err);
