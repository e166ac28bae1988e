/* clean.c - retention: ended items go after a while; their checkpoints stay. */
#include <tidemark/work.h>

#include "base/interface/caller.h"
#include "store/statement.h"
#include "tidemark_sql.h"
#include "work/clean.h"
#include "work/item.h"

enum { STEP = 500 }; /* items removed by one transaction */

tide_status tide_work_clean_step(tide_store *store, int64_t keep_us, int64_t *removed,
                                 bool *has_more, tide_error *err)
{
    TIDE_NEED(store, err);
    TIDE_TRY(tide_item_check_range("keep", keep_us, 0, TIDE_ITEM_DELAY_MAX_US, err));
    const int64_t window_us = keep_us ? keep_us : TIDE_WORK_KEEP_US;
    TIDE_TRY(tide_store_exec(store, TIDE_SQL_WORK_CLEAN, removed, err,
                             tide_bind_now_plus("before", -window_us),
                             tide_bind_i64("limit", STEP)));
    *has_more = *removed == STEP;
    return *removed > 0 && tide_store_engine(store) == TIDE_ENGINE_SQLITE
               ? tide_store_exec(store, TIDE_SQL_WORK_VACUUM, NULL, err, TIDE_NO_BIND)
               : TIDE_OK;
}

tide_status tide_work_clean(tide_store *store, int64_t keep_us, int64_t *removed, tide_error *err)
{
    int64_t total = 0;
    bool has_more = true;
    while (has_more) {
        int64_t count = 0;
        TIDE_TRY(tide_work_clean_step(store, keep_us, &count, &has_more, err));
        total += count;
    }
    if (removed)
        *removed = total;
    return TIDE_OK;
}
