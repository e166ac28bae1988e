/* chain.h - a task's hash chain as it stood at one of its numbers.
 *
 * A fork goes on with the chain of what it was forked from, so the chain at its first own number begins where that of the
 * parent stood at the fork point. Rows of plain SQL have no part in the chain; removed rows have left theirs in a cut. */
#pragma once

#include <tidemark/journal.h>

#include "base/digest.h"

typedef struct tide_chain {
    uint8_t bytes[TIDE_SHA256_LEN];
    size_t len; /* 0: nothing was sealed yet */
} tide_chain;

tide_view tide_chain_view(const tide_chain *chain);
/* What is no chain (another length) becomes one that nothing equals. */
void tide_chain_set(tide_chain *chain, tide_view bytes);

/* Behind `number` of the task, along what it was forked from. */
TIDE_MUST_CHECK tide_status tide_chain_at(tide_chain *out, tide_tx *tx, const char *task_id,
                                          int64_t number, tide_error *err);
