/* backoff.h - how long to wait before the next try.
 *
 * Full jitter over a doubling ceiling: try k (from 0) waits a random time between base / 2 and
 * min(cap, base * 2^k). Clients that failed together do not come back together, and the mean wait
 * still doubles. The lower bound keeps a lucky draw from turning into a busy loop.
 *
 * This only computes; the caller that retries (transaction runner, transport) waits.
 *
 * Threads: pure, apart from the env that is given. */
#pragma once

#include <stdint.h>

#include <tidemark/env.h>

typedef struct tide_backoff {
    int64_t base_us; /* 1 or more */
    int64_t cap_us;  /* base_us or more */
} tide_backoff;

/* The wait before try number attempt + 1, in base_us / 2 .. cap_us. Any attempt is allowed; below 0
 * counts as 0. */
int64_t tide_backoff_next(const tide_backoff *policy, int attempt, tide_env *env);
