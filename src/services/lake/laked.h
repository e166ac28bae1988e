/* laked.h - tidemark.lake.v1 over a metabase, as a part of a listener: `tidemark lake serve`, `tidemark up`.
 *
 *     calls that look or only change names  ---- the listener's threads
 *     calls that need DuckDB, or long       ---- a queue, and a few desks: a thread each, with a DuckDB of its own (duckdb_pool.h)
 *     AppendStream                          ---- a file, while it comes in; then a desk
 *     Watch, ListSnapshots that waits       ---- a waiter, on TIDE_LAKE_TOPIC
 *
 * A caller who leaves, or whose deadline passes, stops what is done for him, up to the commit; nothing of it stays. From there on it is done, and its request key
 * says so (change.h).
 *
 * Who may what: reading wants the role read, changes write; dropping a catalog, expiring, cleaning up and compacting admin.
 *
 * Survives: what was answered is in the metabase. Killed between commit and answer: the same request key gets the same snapshot.
 * Threads: open and close from the main thread, as listener.h says.
 * Limits: service.h and duckdb_pool.h. */
#pragma once

#include "runtime/listener.h"

/* Of `tidemark lake serve`: deleting snapshots and files is left to its commands. */
extern const tide_step *const tidemark_lake_steps[];

typedef struct tide_laked tide_laked;

typedef struct tide_laked_options {
    tide_store *store; /* of the metabase; must outlive it */
    const char *
        store_url; /* for Verify, whose one read may take long; NULL: it has the store's own time. Must outlive it */
    const char *data_dir; /* a metabase is made where there is none; NULL: there has to be one */
    const char *duckdb_library; /* NULL: where it usually is; must outlive it */
    int desks;                  /* 0: TIDE_DESKS_DEFAULT */
    int64_t memory_max;         /* of one DuckDB; 0: TIDE_DESK_MEMORY_DEFAULT */
} tide_laked_options;

/* Add it to a listener that is not serving yet. TIDE_E_NOT_FOUND: no metabase. TIDE_E_CONFLICT: one with another directory. */
TIDE_MUST_CHECK tide_status tide_laked_open(tide_laked **out, tide_listener *listener,
                                            const tide_laked_options *options, tide_error *err);
/* After tide_listener_stop, before tide_listener_close. Takes NULL. */
void tide_laked_close(tide_laked *laked);
