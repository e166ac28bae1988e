/* clean.c - retention: ended items go after a while; their checkpoints stay. */
#include <tidemark/work.h>

#include "base/cleanup.h"
#include "base/interface/caller.h"
#include "store/statement.h"
#include "tidemark_sql.h"
#include "work/clean.h"
#include "work/item.h"

enum {
    STEP = 500,  /* items removed by one transaction */
    WALK = 5000, /* items that it looks at (PostgreSQL) */
};

typedef struct clean_request {
    int64_t window_us;
    int64_t from, position;
    int64_t removed;
    bool is_over;
} clean_request;

/* No index of PostgreSQL contains the time at which an item ended: the finish would have to write to it. */
static tide_status walk(tide_tx *tx, void *arg, tide_error *err)
{
    clean_request *request = arg;
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    TIDE_TRY(tide_tx_one(&query, tx, TIDE_SQL_WORK_CLEAN, err,
                         tide_bind_now_plus("before", -request->window_us),
                         tide_bind_i64("after", request->from), tide_bind_i64("walk", WALK),
                         tide_bind_i64("limit", STEP)));
    request->removed = tide_query_col_i64(query);
    request->position = tide_query_col_i64(query);
    request->is_over = tide_query_col_bool(query);
    return TIDE_OK;
}

static tide_status clean_postgres(tide_store *store, int64_t window_us, int64_t *position,
                                  int64_t *removed, bool *has_more, tide_error *err)
{
    clean_request request = {.window_us = window_us, .from = *position};
    TIDE_TRY(tide_store_write(store, walk, &request, err));
    *removed = request.removed;
    *has_more = !request.is_over;
    *position = request.is_over ? 0 : request.position;
    return TIDE_OK;
}

static tide_status clean_sqlite(tide_store *store, int64_t window_us, int64_t *removed,
                                bool *has_more, tide_error *err)
{
    TIDE_TRY(tide_store_exec(store, TIDE_SQL_WORK_CLEAN, removed, err,
                             tide_bind_now_plus("before", -window_us),
                             tide_bind_i64("limit", STEP)));
    *has_more = *removed == STEP;
    return *removed > 0 ? tide_store_exec(store, TIDE_SQL_WORK_VACUUM, NULL, err, TIDE_NO_BIND)
                        : TIDE_OK;
}

tide_status tide_work_clean_step(tide_store *store, int64_t keep_us, int64_t *position,
                                 int64_t *removed, bool *has_more, tide_error *err)
{
    TIDE_NEED(store, err);
    TIDE_TRY(tide_item_check_range("keep", keep_us, 0, TIDE_ITEM_DELAY_MAX_US, err));
    const int64_t window_us = keep_us ? keep_us : TIDE_WORK_KEEP_US;
    return tide_store_engine(store) == TIDE_ENGINE_POSTGRES
               ? clean_postgres(store, window_us, position, removed, has_more, err)
               : clean_sqlite(store, window_us, removed, has_more, err);
}

tide_status tide_work_clean(tide_store *store, int64_t keep_us, int64_t *removed, tide_error *err)
{
    int64_t total = 0;
    int64_t position = 0;
    bool has_more = true;
    while (has_more) {
        int64_t count = 0;
        TIDE_TRY(tide_work_clean_step(store, keep_us, &position, &count, &has_more, err));
        total += count;
    }
    if (removed)
        *removed = total;
    return TIDE_OK;
}
