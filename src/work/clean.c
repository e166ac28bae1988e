/* clean.c - retention: ended items go after a while; their checkpoints stay. */
#include <tidemark/work.h>

#include "base/cleanup.h"
#include "tidemark_sql.h"
#include "work/clean.h"
#include "work/item.h"

enum { STEP = 500 }; /* items removed by one transaction */

typedef struct clean_step {
    int64_t keep_us;
    int64_t removed;
} clean_step;

static tide_status remove_some(tide_tx *tx, void *arg, tide_error *err)
{
    clean_step *step = arg;
    int64_t now_us = 0;
    TIDE_TRY(tide_tx_now(tx, &now_us, err));
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    TIDE_TRY(tide_query_begin(&query, tx, TIDE_SQL_WORK_CLEAN, err));
    tide_query_bind_time(query, "before", now_us - step->keep_us);
    tide_query_bind_i64(query, "limit", STEP);
    return tide_query_run(query, &step->removed, err);
}

static tide_status give_pages_back(tide_tx *tx, void *arg, tide_error *err)
{
    (void)arg;
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    TIDE_TRY(tide_query_begin(&query, tx, TIDE_SQL_WORK_VACUUM, err));
    return tide_query_run(query, NULL, err);
}

tide_status tide_work_clean_step(tide_store *store, int64_t keep_us, int64_t *removed,
                                 bool *has_more, tide_error *err)
{
    TIDE_TRY(tide_item_check_range("keep", keep_us, 0, TIDE_ITEM_DELAY_MAX_US, err));
    clean_step step = {.keep_us = keep_us ? keep_us : TIDE_WORK_KEEP_US};
    TIDE_TRY(tide_store_write(store, remove_some, &step, err));
    *removed = step.removed;
    *has_more = step.removed == STEP;
    return step.removed > 0 && tide_store_engine(store) == TIDE_ENGINE_SQLITE
               ? tide_store_write(store, give_pages_back, NULL, err)
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
