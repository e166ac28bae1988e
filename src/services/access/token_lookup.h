/* token_lookup.h - token checks against a store, on a thread of their own and with a limit.
 *
 * Calls are authorised on network threads, each of which serves many connections. A store that hangs
 * must not hold them up: a check waits for at most TIDE_TOKEN_LOOKUP_US. While the thread itself is
 * later than that, new checks fail at once.
 *
 *     network thread -- token --> queue --> thread: tide_token_check --> network thread, if it waits
 *
 * Survives: nothing is stored here.
 * Threads: checks from any. Limits: TIDE_TOKEN_LOOKUPS checks wait; more fail at once. */
#pragma once

#include <tidemark/store.h>
#include <tidemark/token.h>

#include "base/cleanup.h"

enum { TIDE_TOKEN_LOOKUPS = 64 };
#define TIDE_TOKEN_LOOKUP_US INT64_C(1000000)

typedef struct tide_token_lookup tide_token_lookup;

/* The store must outlive it. */
TIDE_MUST_CHECK tide_status tide_token_lookup_open(tide_token_lookup **out, tide_store *store,
                                                   tide_error *err);
/* Waits for the check that runs, which the store ends at its own deadline. No other call may be
 * under way. Takes NULL. */
void tide_token_lookup_close(tide_token_lookup *lookup);
TIDE_CLEANUP_FN(tide_token_lookup_closep, tide_token_lookup, tide_token_lookup_close)

/* Statuses of tide_token_check. TIDE_E_UNAVAILABLE also if the store has not answered within the limit:
 * nothing was done, and the call can be repeated. */
TIDE_MUST_CHECK tide_status tide_token_lookup_check(tide_token_lookup *lookup, tide_view token,
                                                    tide_token *out, tide_error *err);
