/* fold.h - what applications wrote becomes events (node.h, Fold); shared with apply, which folds first.
 *
 * One turn is one part of a transaction of its caller: at most TIDE_FOLD_CHANGES_MAX changes. A cut that is larger takes several turns; all its
 * events carry the cut's number, and nobody is given any of them before the last is there (tide_node_read of a node's own log). Changes
 * that come meanwhile belong to the next cut. Turns before the last write clocks alone: an application has written to the tables since, and only the last
 * turn knows all of it. Which cut is under way is kept in tide_replica_state, so a crash between turns changes nothing.
 *
 * Threads: as the transaction. */
#pragma once

#include "replica/node.h"

enum { TIDE_FOLD_CHANGES_MAX = 10000, TIDE_FOLD_RETRY_MAX = 1000 };

TIDE_MUST_CHECK tide_status tide_fold_turn(tide_node *node, tide_foreign_tx *tx, int64_t *events,
                                           bool *more, tide_error *err);
