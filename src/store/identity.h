/* identity.h - the store's side of <tidemark/identity.h>. */
#ifndef TIDE_STORE_IDENTITY_H
#define TIDE_STORE_IDENTITY_H

#include "store/engine.h"

/* Give a store its session and first epoch, in the transaction that creates its schema. */
TIDE_MUST_CHECK tide_status tide_identity_create(tide_tx *tx, tide_error *err);

/* After opening: read the identity, and begin a new epoch if history was cut. */
TIDE_MUST_CHECK tide_status tide_identity_establish(tide_store *store, tide_error *err);

/* A new connection found another host than the store was opened on: begin a new epoch, through a runner that
 * uses this very connection, before anything else does. */
typedef tide_status tide_identity_runner(void *arg, tide_tx_fn *fn, void *fn_arg, tide_error *err);
TIDE_MUST_CHECK tide_status tide_identity_recheck(tide_store *store, tide_identity_runner *run,
                                                  void *arg, tide_error *err);

#endif
