/* policy.h - retry policies inside a transaction: how often, how soon, and after what not at all.
 *
 * A type without a policy has the defaults of work.h. Retries are given to an item when it is added
 * (work_insert); waits and exceptions count from the next attempt that ends, also of older items.
 *
 * Threads: as safe as the tide_tx. */
#pragma once

#include <tidemark/work.h>

#include "base/arena.h"

/* Policies of a store, read at once. */
typedef struct tide_policies {
    tide_work_policy *items;
    int count;
} tide_policies;

/* The policy of a type, or the defaults. *out has no texts. */
TIDE_MUST_CHECK tide_status tide_policy_get(tide_tx *tx, const char *work_type,
                                            tide_work_policy *out, tide_error *err);

/* All; texts live in the arena. Ends with tide_policies_done. */
TIDE_MUST_CHECK tide_status tide_policies_read(tide_tx *tx, tide_policies *out, tide_arena *arena,
                                               tide_error *err);
void tide_policies_done(tide_policies *policies);
/* That of a type, or the defaults. */
const tide_work_policy *tide_policies_find(const tide_policies *policies, const char *work_type);

/* How long to wait before the retry with this number, from 0. */
int64_t tide_policy_backoff_us(const tide_work_policy *policy, tide_tx *tx, int64_t retry);
