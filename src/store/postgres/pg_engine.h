/* pg_engine.h - state and parts of the engine of PostgreSQL stores.
 *
 *     pg_store.c         the engine's operations; the loop that runs a closure again
 *     pg_pool.c          connections: opening, lending, identity of the server
 *     pg_transaction.c   one closure in one transaction on one connection
 *     pg_group.c         closures of several threads in one transaction
 *     pg_outcome.c       outcome of a commit: flushed, or looked up after a lost connection
 *     pg_hosts.c         hosts of the URL
 *     server_starts.c    starts of the server, of which one that is missing shows an older copy
 *     pg_flush.c         one flush for all waiting commits
 *     pg_listen.c        NOTIFY and LISTEN
 *
 * Threads: any; the pool's lock covers idle and connection_count. */
#pragma once

#include <stdatomic.h>

#include "base/combiner.h"
#include "store/postgres/pg_connection.h"
#include "store/postgres/pg_flush.h"
#include "store/postgres/pg_hosts.h"
#include "store/postgres/pg_listen.h"

typedef struct tide_pg_engine {
    char *url;
    tide_pg_hosts hosts;
    pthread_mutex_t lock;
    pthread_cond_t has_idle;
    tide_pg_connection *idle;
    int connection_count;
    /* Of the last connection that was made. */
    bool is_pooled;
    bool is_reduced;
    _Atomic uint64_t silent_hosts; /* by their bits: they did not answer in time */
    tide_combiner *groups;
    tide_pg_flusher flusher;
    tide_pg_listener listener;
} tide_pg_engine;

static inline tide_pg_engine *tide_pg_engine_of(const tide_store *store)
{
    return store->engine;
}

/* ---- pg_pool.c ---- */

/* When a call that begins now has to end (tide_cond_until). */
int64_t tide_pg_call_until(const tide_store *store);

/* An idle connection or a new one; for a write to a primary, if one of the hosts is. TIDE_E_BUSY:
 * all are in use. TIDE_E_UNAVAILABLE, TIDE_E_TIMEOUT: there is no server until then. A server that
 * refuses us is not tried again. */
TIDE_MUST_CHECK tide_status tide_pg_acquire(tide_pg_connection **out, tide_store *store,
                                            bool is_write, int64_t until_us, tide_error *err);

/* The URL has several hosts, and a write that met a standby may find the primary among the
 * others. */
static inline bool tide_pg_has_choice(const tide_store *store)
{
    const tide_pg_hosts *hosts = &tide_pg_engine_of(store)->hosts;
    return hosts->count > 1 && hosts->wanted != TIDE_PG_WANTED_STANDBY;
}
void tide_pg_release(tide_pg_connection *connection);

/* The host of this connection does not answer: others are tried first, and its idle connections are
 * closed. */
void tide_pg_note_silent(const tide_pg_connection *connection);

/* The same for the first connection of a store: one that is starting up is waited for, one that is
 * not there is reported at once. */
TIDE_MUST_CHECK tide_status tide_pg_connect_first(tide_store *store, int64_t until_us,
                                                  tide_error *err);
void tide_pg_pool_done(tide_pg_engine *engine);

/* The guard refused, or another host answers than the identity was checked against: read identity
 * again on this connection, and begin an epoch if history was cut.
 * TIDE_OK: known now, run the transaction again. TIDE_E_MISMATCH: not the server for this store.
 * TIDE_E_DENIED, for a write: the role may not record it. */
TIDE_MUST_CHECK tide_status tide_pg_identify_again(tide_pg_connection *connection, bool is_write,
                                                   tide_error *err);

/* ---- pg_transaction.c ---- */

/* Only for bench/pg_ordered, which measures what the guard costs: connections that are made from
 * now on set their session once, and transactions prove nothing. */
extern bool tide_pg_is_unguarded;

/* Run a closure on this connection up to its COMMIT, or roll it back. connection->is_stale: the
 * guard refused, and nothing was done. */
TIDE_MUST_CHECK tide_status tide_pg_run_write(tide_pg_connection *connection, tide_tx_fn *fn,
                                              void *arg, bool is_guarded, tide_error *err);

/* *is_durable: what the closure saw is on disk. */
TIDE_MUST_CHECK tide_status tide_pg_run_read(tide_pg_connection *connection, tide_tx_fn *fn,
                                             void *arg, bool is_local, bool is_guarded,
                                             bool *is_durable, tide_error *err);

/* BEGIN, settings and guard, once per transaction. with_id: also read the id of the transaction. */
TIDE_MUST_CHECK tide_status tide_pg_begin(tide_pg_connection *connection, bool with_id,
                                          tide_error *err);
tide_status tide_pg_now(tide_tx *tx, tide_error *err);
tide_status tide_pg_take_counters(tide_tx *tx, tide_error *err);
tide_status tide_pg_script(tide_tx *tx, const char *text, tide_error *err);
tide_status tide_pg_host(tide_tx *tx, tide_host *out, tide_error *err);

/* Of a shared transaction, on one of its members' connections: begin it, take every member's
 * counters and write its rows, one member after the other, and commit. */
TIDE_MUST_CHECK tide_status tide_pg_send_group(tide_pg_connection *connection,
                                               tide_pg_connection *const *members, int count,
                                               tide_error *err);
void tide_pg_roll_back(tide_pg_connection *connection);

/* After the commit: give the closure the rows of its deferred statements. */
void tide_pg_report_rows(tide_pg_connection *connection);

/* ---- pg_group.c ---- */

/* The closure on this connection has run, needs no answer before its counters are taken, and may
 * share its transaction with others. */
bool tide_pg_can_share(const tide_pg_connection *connection);

/* Commit it, with those of other threads that wait at the same time. TIDE_OK: it is durable.
 * connection->is_split: the shared transaction failed, and the closure is to run again, alone. */
TIDE_MUST_CHECK tide_status tide_pg_complete_shared(tide_pg_connection *connection,
                                                    tide_error *err);

/* ---- pg_outcome.c ---- */

/* The COMMIT was answered. TIDE_OK: it is durable. */
TIDE_MUST_CHECK tide_status tide_pg_make_durable(tide_pg_connection *connection, tide_error *err);

/* A read saw what may not be on disk yet. */
TIDE_MUST_CHECK tide_status tide_pg_flush_read(tide_pg_connection *connection, tide_error *err);

/* The connection broke. TIDE_OK: it had committed after all, and is durable. TIDE_E_SERIALIZATION:
 * it had not; run it again. */
TIDE_MUST_CHECK tide_status tide_pg_resolve_lost(tide_pg_connection *connection, tide_error *err);
