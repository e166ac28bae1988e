/* identity.h - which history a store's numbers belong to.
 *
 * A store has a session id (a UUID, made in the transaction that created its schema) and an epoch:
 * a number that rises, and a random id, whenever history may have been cut. A position is (source,
 * session, epoch, sequence). Numbers keep rising across epochs; an epoch owns the numbers from its
 * start to the next one's.
 *
 * How a cut is noticed, in three layers:
 *
 *   1. inside    The file's inode and birth time are kept in the file itself. A copy or a restored
 *                backup has others. On PostgreSQL: cluster, timeline, database, table, and the
 *                starts of the server, each of which gets a random id before anything else is
 *                written. Every transaction proves on the server that it runs in the epoch, on the
 *                timeline and on the start that its process knows.
 *   2. beside    An *identity marker* in a directory of this host repeats what each commit raised:
 *                sequences, or a mark. It moves after the sync and before the answer. Marker ahead
 *                of the file: the file was put back to an earlier state ("restored"), or its
 *                write-ahead log lost its end ("lost_tail"), and the epoch rises. Missing, or
 *                behind: no evidence. On PostgreSQL it repeats the newest epoch, the newest start
 *                of the server and the last position in the WAL that were seen. Known epochs never
 *                shrink: a server that lacks one (a primary that returned, an older copy) is
 *                refused with TIDE_E_MISMATCH. Where the start or the position is missing, an older
 *                copy of the data was put back ("restored"), and the epoch rises.
 *   3. outside   A reader presents a point (session, epoch, number, digest) that this history does
 *                not have. Only this sees a whole volume rolled back; who finds it calls
 *                tide_identity_raise.
 *
 * Survives: the epoch rises in one transaction, before the process that noticed the cut reads or
 * writes anything else. Others that have the store open see it in their next transaction
 * (tide_identity_read). */
#ifndef TIDEMARK_IDENTITY_H
#define TIDEMARK_IDENTITY_H

#include <stdint.h>

#include <tidemark/store.h>

TIDE_BEGIN_DECLS

enum {
    TIDE_SESSION_ID_SIZE = 37, /* with the terminator */
    TIDE_EPOCH_MAX = (1 << 23) - 1,
    TIDE_EPOCH_TOKEN_BITS = 40, /* a lease token is epoch * 2^40 + n */
};

typedef struct tide_identity {
    char session_id[TIDE_SESSION_ID_SIZE];
    int64_t epoch;
    char epoch_id[TIDE_SESSION_ID_SIZE];
} tide_identity;

typedef struct tide_epoch {
    int64_t epoch;
    char epoch_id[TIDE_SESSION_ID_SIZE];
    int64_t started_at_us;
    char reason[16]; /* created, restored, copied, failover, diverged, operator, lost_tail */
    char evidence[320];
} tide_epoch;

/* The identity as this process last saw it: when the store was opened, reconnected, or raised
 * here. */
TIDE_API void tide_store_identity(tide_store *store, tide_identity *out);

/* Called when this process learns of a new epoch, on the thread that learned it; one per store,
 * NULL: none. It must not call the store. */
typedef void tide_store_epoch_fn(void *arg, const tide_identity *before, const tide_identity *now);
TIDE_API void tide_store_on_epoch(tide_store *store, tide_store_epoch_fn *fn, void *arg);

/* Called when a call failed because of the store itself and not because of what was asked (it is
 * away, busy, full, damaged, another one), and with TIDE_OK when a call succeeds after that, on the
 * thread of the call. A write that failed is followed by TIDE_OK only when a write succeeds. The
 * same rules. */
typedef void tide_store_failure_fn(void *arg, tide_status status, const char *text);
TIDE_API void tide_store_on_failure(tide_store *store, tide_store_failure_fn *fn, void *arg);

/* Epoch changes that this process has noticed since the store was opened. */
TIDE_API int64_t tide_store_epoch_changes(tide_store *store);

/* The identity in force in this transaction, to label positions with. Another process may have
 * begun a new epoch meanwhile. */
TIDE_API TIDE_MUST_CHECK tide_status tide_identity_read(tide_tx *tx, tide_identity *out,
                                                        tide_error *err);

/* The same without a query where the engine guards each transaction by the epoch that the process
 * knows (PostgreSQL): for labels of what this transaction writes or reads. */
TIDE_API TIDE_MUST_CHECK tide_status tide_tx_identity(tide_tx *tx, tide_identity *out,
                                                      tide_error *err);

/* Begin a new epoch. reason as above. The new identity is in *out (may be NULL). */
TIDE_API TIDE_MUST_CHECK tide_status tide_identity_raise(tide_store *store, const char *reason,
                                                         const char *evidence, tide_identity *out,
                                                         tide_error *err);

/* The same, above an epoch that a reader has seen of another history: its number is not used
 * again. */
TIDE_API TIDE_MUST_CHECK tide_status tide_identity_raise_above(tide_store *store, int64_t above,
                                                               const char *reason,
                                                               const char *evidence,
                                                               tide_identity *out, tide_error *err);

/* Every epoch, oldest first; fn returns a failure to stop. */
typedef tide_status tide_epoch_fn(void *arg, const tide_epoch *epoch, tide_error *err);
TIDE_API TIDE_MUST_CHECK tide_status tide_identity_history(tide_store *store, tide_epoch_fn *fn,
                                                           void *arg, tide_error *err);

TIDE_END_DECLS

#endif
