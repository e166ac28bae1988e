/* idempotency_keys.h - bounded part of tide_idempotency_clean (idempotency.h), for callers that have other work in
 * between. */
#pragma once

#include <tidemark/idempotency.h>

/* Two transactions: some expired keys, some completed ones older than keep_us (0: TIDE_IDEMPOTENCY_KEEP_US). is_any:
 * also completed keys that have an expiry of their own. */
TIDE_MUST_CHECK tide_status tide_idempotency_clean_step(tide_store *store, int64_t keep_us,
                                                        bool is_any, int64_t *removed,
                                                        bool *has_more, tide_error *err);
