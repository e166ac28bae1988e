#include <tidemark/cursor.h>

#include "public.h"

tide_status check(tide_store *store, sqlite3 *db, const char *dir, tide_error *err)
{
    int64_t added = 0;
    tide_cursor cursor;
    (void)store;
    (void)db;
    (void)dir;
    tide_cursor_init(&cursor, 0, 8);
    DO(tide_cursor_add(&cursor, 1, 3, &added, err));
    DO(tide_cursor_add(&cursor, 5, 5, &added, err));
    WANT(tide_cursor_contiguous(&cursor) == 3 && tide_cursor_highest(&cursor) == 5);
    tide_cursor_done(&cursor);
    return TIDE_OK;
}
