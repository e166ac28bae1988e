#include <tidemark/watch.h>

#include "public.h"

tide_status check(tide_store *store, sqlite3 *db, const char *dir, tide_error *err)
{
    tide_watch *watch = NULL;
    (void)db;
    (void)dir;
    DO(tide_watch_open(&watch, store, "news", err));
    tide_watch_close(watch);
    return TIDE_OK;
}
