/* lease.h - the question every write under a lease begins with: does this token hold the item?
 *
 * Threads: as safe as the tide_tx. */
#pragma once

#include "work/item.h"

enum { TIDE_HOLD_BYTES_MAX = 4096 };

/* What is known of a held item. */
typedef struct tide_hold {
    const char *task_id; /* in the arena */
    const char *work_type;
    int64_t retry_count;
    int64_t max_retries;
    int64_t failure_count;
    int64_t crash_count;
} tide_hold;

/* TIDE_OK: the token holds the item until this transaction ends. TIDE_E_LEASE_LOST, TIDE_E_NOT_FOUND. */
TIDE_MUST_CHECK tide_status tide_item_hold(tide_tx *tx, const char *id, int64_t token,
                                           tide_arena *arena, tide_hold *out, tide_error *err);
