#include <tidemark/lease.h>

#include "public.h"

static tide_status claim(tide_tx *tx, void *arg, tide_error *err)
{
    return tide_lease_claim(tx, "leader", "me", 60000000, arg, err);
}

static tide_status check_token(tide_tx *tx, void *arg, tide_error *err)
{
    const tide_lease *lease = arg;
    return tide_lease_check(tx, "leader", lease->token, err);
}

tide_status check(tide_store *store, sqlite3 *db, const char *dir, tide_error *err)
{
    tide_lease first;
    tide_lease second;
    (void)db;
    (void)dir;
    DO(tide_store_write(store, claim, &first, err));
    WANT(first.is_live && strcmp(first.holder, "me") == 0);
    WANT(tide_store_write(store, claim, &second, NULL) == TIDE_E_CONFLICT);
    DO(tide_store_write(store, check_token, &first, err));
    first.token--;
    WANT(tide_store_write(store, check_token, &first, NULL) == TIDE_E_LEASE_LOST);
    return TIDE_OK;
}
