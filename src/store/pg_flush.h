/* pg_flush.h - carrying commits to disk: one flusher connection for the whole process.
 *
 * Ordered transactions commit with synchronous_commit=off: their counters are free as soon as the commit record
 * is in the WAL buffer. Before anybody is answered, the WAL must be on disk up to there. One tiny transaction
 * with a synchronous commit does it for everybody who waits: WAL is written in order, so when its commit
 * record is durable, every earlier one is.
 *
 *     tickets      1 2 3 4 | 5 6 7 8 9 | ...        a leader flushes for all who came before it began
 *
 * The caller whose ticket is not covered yet and finds nobody flushing becomes the leader; there is no thread.
 * Readers who saw rows that may not be durable wait here too. A loop over WAL positions would not do: a
 * commit that ends on a page boundary leaves the flush position behind the insert position for seconds.
 *
 * The connection is a witness as well: while it lives, the server has not crashed since it was opened, and
 * what it says about a transaction id is final.
 *
 * Threads: any. */
#ifndef TIDE_STORE_PG_FLUSH_H
#define TIDE_STORE_PG_FLUSH_H

#include "store/pg_connection.h"

typedef struct tide_pg_flusher {
    tide_store *store;
    const char *url;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    tide_pg_connection *connection; /* used by the leader, or under the lock when nobody leads */
    bool is_led;
    uint64_t requested; /* tickets handed out */
    uint64_t finished;  /* tickets answered, well or badly */
    uint64_t failed;    /* tickets up to here, above failed_from, were answered badly */
    uint64_t failed_from;
    uint64_t rounds; /* flushes made, for the curious */
} tide_pg_flusher;

void tide_pg_flusher_init(tide_pg_flusher *flusher, tide_store *store, const char *url);
void tide_pg_flusher_done(tide_pg_flusher *flusher);

/* Open the connection early, so that it can be a witness. */
TIDE_MUST_CHECK tide_status tide_pg_flusher_connect(tide_pg_flusher *flusher, tide_error *err);

/* Return when everything committed before the call is durable. TIDE_E_UNAVAILABLE: could not be done here. */
TIDE_MUST_CHECK tide_status tide_pg_flush(tide_pg_flusher *flusher, tide_error *err);

/* The same on the committer's own connection: it is still alive, so its commit is not lost. */
TIDE_MUST_CHECK tide_status tide_pg_flush_on(tide_pg_connection *connection, tide_error *err);

typedef enum tide_pg_outcome {
    TIDE_PG_COMMITTED,
    TIDE_PG_ABORTED,
    TIDE_PG_UNKNOWN, /* the witness is gone too */
} tide_pg_outcome;

/* What became of a transaction whose connection was lost? Waits while it is still running. */
tide_pg_outcome tide_pg_flusher_ask(tide_pg_flusher *flusher, const char *xid);

#endif
