/* lease_clock.h - what leases of every kind share: the clock is tide_lease_now (lease.h), tokens begin here. */
#pragma once

#include <tidemark/store.h>

/* The lowest token of this epoch: epoch * 2^40 + 1, and a number below 2^32 that is the store's own.
 * So a token that was given by another store, for a key or lease of the same name, does not hold. */
int64_t tide_lease_token_floor(tide_tx *tx);
