#include <tidemark/error.h>

#include "public.h"

tide_status check(tide_store *store, sqlite3 *db, const char *dir, tide_error *err)
{
    tide_error own = {0};
    (void)store;
    (void)db;
    (void)dir;
    WANT(tide_fail(&own, TIDE_E_LIMIT, "%d items", 7) == TIDE_E_LIMIT);
    WANT(tide_fail_context(&own, TIDE_E_LIMIT, "batch %s", "a") == TIDE_E_LIMIT);
    WANT(strcmp(own.text, "batch a: 7 items") == 0);
    WANT(tide_no_memory(NULL) == TIDE_E_NOMEM);
    return TIDE_OK;
}
