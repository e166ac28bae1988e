#include <tidemark/identity.h>

#include "public.h"

tide_status check(tide_store *store, sqlite3 *db, const char *dir, tide_error *err)
{
    tide_identity identity;
    (void)db;
    (void)dir;
    tide_store_identity(store, &identity);
    WANT(identity.epoch > 0 && identity.session_id[0]);
    (void)err;
    return TIDE_OK;
}
