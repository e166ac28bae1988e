#include <tidemark/sequence.h>

#include "public.h"

tide_status check(tide_store *store, sqlite3 *db, const char *dir, tide_error *err)
{
    tide_sequence_range range;
    (void)db;
    (void)dir;
    DO(tide_sequence_next(store, "orders", 3, &range, NULL, err));
    DO(tide_sequence_next(store, "orders", 1, &range, NULL, err));
    WANT(range.first == 4);
    return TIDE_OK;
}
