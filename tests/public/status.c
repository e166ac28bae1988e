#include <tidemark/status.h>

#include "public.h"

tide_status check(tide_store *store, sqlite3 *db, const char *dir, tide_error *err)
{
    (void)store;
    (void)db;
    (void)dir;
    WANT(strcmp(tide_status_get(TIDE_E_BUSY)->name, "E_BUSY") == 0);
    WANT(tide_status_get(TIDE_E_BUSY)->is_retryable);
    WANT(tide_status_get((tide_status)-99)->status == TIDE_E_FAILED);
    return TIDE_OK;
}
