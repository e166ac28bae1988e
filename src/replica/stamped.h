/* stamped.h - the event that made a stamp, as far as the log still has it.
 *
 * Within an epoch of an origin stamps rise with numbers, so it is found by halving: the log has no index by stamp, and one for this would cost every
 * event something.
 *
 * Threads: as the transaction. */
#pragma once

#include "replica/event.h"
#include "replica/node.h"

typedef struct tide_stamped {
    int64_t epoch;
    int64_t seq;
    bool is_processed;
    uint64_t schema; /* of the event (event.h) */
} tide_stamped;

/* TIDE_NONE: it is not there; collected, or never came. */
TIDE_MUST_CHECK tide_status tide_stamped_find(tide_stamped *out, tide_foreign_tx *tx,
                                              const tide_stamp *stamp, tide_error *err);
