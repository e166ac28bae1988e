/* statement.h - one statement of a store in one call: begin, bind, run.
 *
 * store.h has the steps. Most statements need no more than one call of these, and many closures are
 * one statement. The values come last (bind.h); TIDE_NO_BIND where there are none.
 *
 * Survives: as the transaction. Threads: as the transaction, or the store. */
#pragma once

#include <tidemark/store.h>

#include "base/cleanup.h"
#include "base/combiner.h"
#include "store/bind.h"

/* A query of this scope: declared, begun and bound, and ended with the scope. A failure is
 * returned. _ONE: as tide_tx_one, and TIDE_NONE is returned too. _BY: begun by a call that gets its
 * address. */
#define TIDE_QUERY(query, tx, sql, err, ...)                                                       \
    TIDE_QUERY_BY(query, tide_query_start_binds, (tx), (sql), TIDE_BINDS(__VA_ARGS__), (err))
#define TIDE_QUERY_ONE(query, tx, sql, err, ...)                                                   \
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;                                        \
    TIDE_TRY_FOUND(tide_tx_one_binds(&query, (tx), (sql), TIDE_BINDS(__VA_ARGS__), (err)))
#define TIDE_QUERY_BY(query, begin, ...)                                                           \
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;                                        \
    TIDE_TRY(begin(&query, __VA_ARGS__))

/* Begin and bind. The caller steps, runs or defers it, and ends it. */
#define tide_query_start(out, tx, sql, err, ...)                                                   \
    tide_query_start_binds((out), (tx), (sql), TIDE_BINDS(__VA_ARGS__), (err))

/* Run to the end; *changed (may be NULL) is the number of rows inserted, updated or deleted. */
#define tide_tx_exec(tx, sql, changed, err, ...)                                                   \
    tide_tx_exec_binds((tx), (sql), (changed), TIDE_BINDS(__VA_ARGS__), (err))

/* Exactly one row (TIDE_OK) or none (TIDE_NONE), as tide_query_one. *out is ended by the caller. */
#define tide_tx_one(out, tx, sql, err, ...)                                                        \
    tide_tx_one_binds((out), (tx), (sql), TIDE_BINDS(__VA_ARGS__), (err))

/* The number that a statement returns; 0 where it returns no row, or NULL. */
#define tide_tx_number(out, tx, sql, err, ...)                                                     \
    tide_tx_number_binds((out), (tx), (sql), TIDE_BINDS(__VA_ARGS__), (err))

/* As tide_query_defer. */
#define tide_tx_defer(tx, sql, err, ...)                                                           \
    tide_tx_defer_binds((tx), (sql), TIDE_BINDS(__VA_ARGS__), (err))

/* The same in transactions of their own, the last of which reads. */
#define tide_store_exec(store, sql, changed, err, ...)                                             \
    tide_store_exec_binds((store), (sql), (changed), TIDE_BINDS(__VA_ARGS__), (err))
#define tide_store_number(out, store, sql, err, ...)                                               \
    tide_store_number_binds((out), (store), (sql), TIDE_BINDS(__VA_ARGS__), (err))

/* The transaction writes for sure, and no other caller of this process writes: on PostgreSQL the
 * flush follows its COMMIT in the same pipeline, which saves a round trip through the connection
 * that callers share. A hint. */
void tide_tx_flush_alone(tide_tx *tx);

/* No other caller of this process writes, and nothing that the transaction locks is wanted by
 * others: on PostgreSQL its COMMIT itself waits for the disk, and no flush follows. A hint. */
void tide_tx_flush_by_commit(tide_tx *tx);

/* tide_store_write_by_id runs the closure again because the response to an earlier commit of it was
 * lost: what it finds under its id is its own, if that run was to write it. */
bool tide_tx_has_lost_run(const tide_tx *tx);

/* Callers of this process that want the same kind of write at the same time share a transaction: fn
 * runs it for all that are queued (combiner.h). Large calls (is_large) queue apart: two
 * transactions of a few of them run side by side, where small calls make one of all that wait.
 * Returns when fn was called with `what`.
 * TIDE_E_INVALID: as tide_store_write refuses a call; fn was not called. */
TIDE_MUST_CHECK tide_status tide_store_combine(tide_store *store, bool is_large, void *what,
                                               tide_combiner_fn *fn, tide_error *err);

TIDE_MUST_CHECK tide_status tide_query_start_binds(tide_query **out, tide_tx *tx,
                                                   const tide_sql *sql, const tide_bind *binds,
                                                   tide_error *err);
TIDE_MUST_CHECK tide_status tide_tx_exec_binds(tide_tx *tx, const tide_sql *sql, int64_t *changed,
                                               const tide_bind *binds, tide_error *err);
TIDE_MUST_CHECK tide_status tide_tx_one_binds(tide_query **out, tide_tx *tx, const tide_sql *sql,
                                              const tide_bind *binds, tide_error *err);
TIDE_MUST_CHECK tide_status tide_tx_number_binds(int64_t *out, tide_tx *tx, const tide_sql *sql,
                                                 const tide_bind *binds, tide_error *err);
TIDE_MUST_CHECK tide_status tide_tx_defer_binds(tide_tx *tx, const tide_sql *sql,
                                                const tide_bind *binds, tide_error *err);
TIDE_MUST_CHECK tide_status tide_store_exec_binds(tide_store *store, const tide_sql *sql,
                                                  int64_t *changed, const tide_bind *binds,
                                                  tide_error *err);
TIDE_MUST_CHECK tide_status tide_store_number_binds(int64_t *out, tide_store *store,
                                                    const tide_sql *sql, const tide_bind *binds,
                                                    tide_error *err);
