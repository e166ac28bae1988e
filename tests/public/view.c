#include <tidemark/view.h>

#include "public.h"

tide_status check(tide_store *store, sqlite3 *db, const char *dir, tide_error *err)
{
    (void)store;
    (void)db;
    (void)dir;
    WANT(tide_view_equal(tide_view_of("abc"), tide_view_bytes("abcd", 3)));
    WANT(!tide_view_equal(tide_view_of("abc"), tide_view_of("abd")));
    WANT(tide_view_of(NULL).len == 0);
    return TIDE_OK;
}
