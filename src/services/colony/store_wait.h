/* store_wait.h - a colony whose store is away: it serves its status and waits for the store.
 *
 *     /healthz   200: the process lives
 *     /readyz    503 with the reason
 *     /metrics   tidemark_colony_store_up and tidemark_store_up 0, and the time since the start
 *
 * It listens where the colony will listen. As soon as the store can be opened it ends, and the
 * caller starts the colony at the same addresses.
 *
 * Threads: one call from the main thread; open_store runs on a thread of its own. */
#pragma once

#include "runtime/listener.h"

extern const tide_step tide_step_store_open;

typedef struct tide_store_wait {
    /* Ports, log, env, security; store and steps are not used. Addresses get the numbers that were
     * chosen, for the colony. */
    tide_listener_options *listener;
    /* Opens the store. */
    tide_status (*open_store)(void *arg, tide_error *err);
    void *arg;
    const char *store;  /* its name in metrics: a URL without a password */
    const char *reason; /* why it could not be opened */
} tide_store_wait;

/* May the colony wait for a store that could not be opened with this status? One that refuses the
 * login, is another one, or belongs to another process (DuckDB) is not away. */
bool tide_store_wait_is_away(tide_status status);

/* TIDE_OK: *is_open, and the store is; otherwise a signal ended it. Failures: of the listener, and
 * of a store that refuses. */
TIDE_MUST_CHECK tide_status tide_store_wait_run(const tide_store_wait *wait, bool *is_open,
                                                tide_error *err);
