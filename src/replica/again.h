/* again.h - what a row is by now, said again by an event of this node: where others cannot come to know it by the events that made it so.
 *
 *     a late origin     Deletions are forgotten when all known peers have them (gc.c). An origin that was not known by then, and whose clock was behind, may
 *                       write to such a row: where the deletion is forgotten it stands, where it is not, it does not. Whoever shows such a row has
 *                       forgotten something that others may remember, so he says it again, with a stamp of now: it stands everywhere
 *     a lost beginning  A node that was put back below what its peers have collected (self.h) has numbers that nobody can compare any more. What it wrote since the last
 *                       acknowledgement may be in no log but its own: it is said again in the new epoch
 *     one number,       Where numbers were given twice (self.h) some nodes have the one event and some the other, and none asks for what it takes for known. What
 *     two events        two of them find out by comparing rows reaches the others as new events
 *
 * It is logged like a change that no trigger saw, and folded with the next look.
 *
 * Survives: it is part of the transaction that finds it.
 * Threads: as the transaction. */
#pragma once

#include "replica/desk.h"

/* When the desk is settled. A row that is aside then is not said again: it would drive out the one that keeps it there. */
void tide_again_mark(tide_desk *desk, tide_desk_row *row);
/* The desk's part of it. */
TIDE_MUST_CHECK tide_status tide_again_log(tide_desk *desk, tide_error *err);

/* An origin's epoch is met for the first time: stamps up to the newest deletion that was forgotten are late. */
TIDE_MUST_CHECK tide_status tide_again_meet(tide_foreign_tx *tx, const tide_node_id *origin,
                                            int64_t epoch, tide_error *err);
/* An event was merged into a row: mark it if the row stands by late writes alone. */
TIDE_MUST_CHECK tide_status tide_again_judge(tide_desk *desk, tide_desk_row *row,
                                             const tide_event *event, tide_error *err);

/* The rows of this node's own events of an epoch above a number. */
TIDE_MUST_CHECK tide_status tide_again_own(tide_node *node, tide_foreign_tx *tx, int64_t epoch,
                                           int64_t after, tide_error *err);
