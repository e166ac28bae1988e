/* pg_flush.h - shared flush: one connection makes the commits of all threads durable.
 *
 * Ordered transactions commit with synchronous_commit=off: their counters are free as soon as the
 * commit record is in the WAL buffer. Before a caller is answered, the WAL must be on disk up to
 * there. One tiny transaction with a synchronous commit does it for all waiting callers: WAL is
 * written in order, so when its commit record is durable, every earlier one is.
 *
 *     waiting      a b c d | e f g h i | ...   a leader flushes for all that waited when it began
 *
 * A caller that finds no flush under way becomes the leader and answers the whole list; there is no
 * thread. Readers that saw rows that may not be durable wait here too. A loop over WAL positions
 * would not do: a commit that ends on a page boundary leaves the flush position behind the insert
 * position for seconds.
 *
 * The connection is a witness as well: while it lives, the server has not crashed since it was
 * opened, and what it reports about a transaction id is final. A flush proves nothing about a
 * commit that is older than the connection: a server that crashed and restarted flushes what it
 * still has. So each connect begins a new *generation*; a transaction notes the generation before
 * it begins, and is answered only by a flush of the same one. A URL may lead to several servers:
 * the witness counts only for transactions on its own. Otherwise the committer's own connection, if
 * that is still alive, is as good a witness.
 *
 * A caller waits until its own deadline. A leader whose deadline passes cancels the flush on the
 * server; the next caller leads then.
 *
 * Behind a pooler there is no flusher: no connection outlives a transaction there, so each commit
 * is synchronous in its own (pg_transaction.c).
 *
 * Threads: any. */
#pragma once

#include "store/postgres/pg_connection.h"

typedef struct tide_pg_flusher {
    tide_store *store;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    tide_pg_connection *connection; /* used by the leader, or under the lock without a leader */
    bool is_led;
    uint64_t generation;                /* raised by each connect */
    char server[TIDE_PG_SERVER_SIZE];   /* of the witness */
    struct tide_pg_flush_wait *waiting; /* callers, on their own stacks */
    struct tide_pg_flush_wait *served;  /* of the flush under way */
} tide_pg_flusher;

void tide_pg_flusher_init(tide_pg_flusher *flusher, tide_store *store);
void tide_pg_flusher_done(tide_pg_flusher *flusher);

/* Open the connection early, so that it can be a witness. */
TIDE_MUST_CHECK tide_status tide_pg_flusher_connect(tide_pg_flusher *flusher, int64_t until_us,
                                                    tide_error *err);

/* The generation in force, to be noted before a transaction begins on this server; 0, which is
 * never answered, when the witness is connected to another one. */
uint64_t tide_pg_flusher_generation(tide_pg_flusher *flusher, const char *server);

/* Return when everything committed since `generation` was noted, and before the call, is durable.
 * *wal is then a durable position behind all of it.
 * TIDE_E_UNAVAILABLE: could not be proved here. TIDE_E_TIMEOUT: not by until_us. *is_standby_away
 * is set when the flush was given up waiting for a synchronous standby. */
TIDE_MUST_CHECK tide_status tide_pg_flush(tide_pg_flusher *flusher, uint64_t generation,
                                          int64_t until_us, uint64_t *wal, bool *is_standby_away,
                                          tide_error *err);

/* The same on the committer's own connection: it is still alive, so its commit is not lost. Ends at
 * the connection's answer_by_us. */
TIDE_MUST_CHECK tide_status tide_pg_flush_on(tide_pg_connection *connection, tide_error *err);

typedef enum tide_pg_outcome {
    TIDE_PG_COMMITTED,
    TIDE_PG_ABORTED,
    TIDE_PG_UNKNOWN, /* the witness is lost, too */
} tide_pg_outcome;

/* The outcome of a transaction, begun under this generation, whose connection was lost. Waits while
 * it is still running. */
tide_pg_outcome tide_pg_flusher_outcome(tide_pg_flusher *flusher, uint64_t generation,
                                        const char *xid, int64_t until_us);
