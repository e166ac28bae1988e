/* pool.h - threads for calls that may wait, and a bounded queue in front of them.
 *
 * Threads: safe. A call whose turn comes after it was cancelled is passed over. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include <tidemark/error.h>
#include <tidemark/export.h>

#include "net/call/call.h"

typedef struct tide_pool tide_pool;

TIDE_MUST_CHECK tide_status tide_pool_new(tide_pool **out, size_t threads, size_t queue_max,
                                          tide_error *err);

/* The calls that wait are run, then the threads end; takes NULL. */
void tide_pool_free(tide_pool *pool);

/* Have tide_call_run called on a thread, and the caller's reference released. false: no room; it
 * stays the caller's. Fits tide_server_context.run_blocking. */
bool tide_pool_run(void *pool, tide_call *call);
