/* identity.h - the store's side of <tidemark/identity.h>. */
#pragma once

#include "store/engine.h"

/* A caller cannot use up the epochs of a store. */
enum { TIDE_IDENTITY_PRESENTED_MAX = 1000 };

/* Give a store its session and first epoch, in the transaction that creates its schema. */
TIDE_MUST_CHECK tide_status tide_identity_create(tide_tx *tx, tide_error *err);

/* After opening: read the identity, and begin a new epoch if history was cut. */
TIDE_MUST_CHECK tide_status tide_identity_establish(tide_store *store, tide_error *err);

/* The server is not what the process believes: read the identity again through runners that use the
 * connection which found it, before anything else does, and begin a new epoch if history was cut.
 * TIDE_E_MISMATCH: another store, or one that lacks an epoch which was seen before. TIDE_E_DENIED,
 * for a write: the role may not record what was found; reads go on. */
typedef tide_status tide_identity_run_fn(void *arg, tide_tx_fn *fn, void *fn_arg, tide_error *err);
typedef struct tide_identity_runner {
    tide_identity_run_fn *write; /* returns when the commit is durable */
    tide_identity_run_fn *read;
    void *arg;
} tide_identity_runner;
TIDE_MUST_CHECK tide_status tide_identity_recheck(tide_store *store,
                                                  const tide_identity_runner *runner, bool is_write,
                                                  tide_error *err);

/* A caller that may write presents a position of this session in an epoch above all that were seen,
 * which this history lacks: proof that there is a newer one. On PostgreSQL it counts as seen, on
 * this host, and calls are refused with TIDE_E_MISMATCH until a server that has it answers, or an
 * operator begins an epoch above. Otherwise nothing. */
void tide_identity_presented(tide_store *store, const tide_identity *seen);

/* The newest epoch that was seen, if this history lacks it. */
bool tide_identity_missing(tide_store *store, tide_identity *out);

/* The session of the store that was at this path before, if opening found another one; "": none.
 * Known where there is a state directory, and only on SQLite. */
const char *tide_identity_replaced(const tide_store *store);

/* Do two hosts of PostgreSQL stores agree in all parts that both know? */
bool tide_identity_same_host(const char *a, const char *b);
