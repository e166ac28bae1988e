/* low_water.c - the low-water bounds of types (PostgreSQL): no ready item of a type has a claim_key below its low_key.
 *
 * A claim starts there instead of wading through index entries of rows that are gone. Making an item ready lowers the
 * bound, by trigger; only this raises it. A bound left low costs time and nothing else.
 *
 * Entries that do not match their rows, and those of leases whose items were finished, are deleted on the way
 * (docs/internals/work-layout.md). */
#include "base/cleanup.h"
#include "store/statement.h"
#include "tidemark_sql.h"
#include "work/item.h"

enum { TIDY_MAX = 100 }; /* entries per type, and of leases */

typedef struct bound_request {
    const char *work_type; /* NULL: all */
    tide_buffer locked;    /* a JSON list */
} bound_request;

/* Types that are just getting items are passed over: another time. */
static tide_status lock_bounds(tide_tx *tx, bound_request *request, int *count, tide_error *err)
{
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    TIDE_TRY(tide_query_start(&query, tx, TIDE_SQL_WORK_BOUNDS_LOCK, err,
                              tide_bind_text("type", request->work_type)));
    tide_json json;
    tide_json_init(&json, &request->locked);
    tide_json_array_begin(&json);
    tide_status status = TIDE_OK;
    for (; (status = tide_query_step(query, err)) == TIDE_OK; (*count)++)
        tide_json_view(&json, tide_query_col_text(query));
    TIDE_TRY(status);
    tide_json_array_end(&json);
    status = tide_json_finish(&json);
    return status < TIDE_OK ? tide_fail(err, status, "too many work types") : TIDE_OK;
}

static tide_status raise_bounds(tide_tx *tx, void *arg, tide_error *err)
{
    bound_request *request = arg;
    int count = 0;
    int64_t now_us = 0;
    int64_t tidied = 0;
    tide_buffer_clear(&request->locked);
    TIDE_TRY(tide_tx_exec(tx, TIDE_SQL_WORK_READY_TIDY, NULL, err,
                          tide_bind_text("type", request->work_type),
                          tide_bind_i64("limit", TIDY_MAX)));
    TIDE_TRY(tide_item_tidy_leases(tx, TIDY_MAX, &tidied, err));
    TIDE_TRY(lock_bounds(tx, request, &count, err));
    if (count == 0)
        return TIDE_OK;
    TIDE_TRY(tide_tx_now(tx, &now_us, err));
    return tide_tx_exec(tx, TIDE_SQL_WORK_BOUNDS_RAISE, NULL, err,
                        tide_bind_view("types", tide_buffer_view(&request->locked)),
                        tide_bind_i64("now_us", now_us));
}

tide_status tide_item_raise_bounds(tide_store *store, const char *work_type, tide_error *err)
{
    if (tide_store_engine(store) != TIDE_ENGINE_POSTGRES)
        return TIDE_OK;
    bound_request request = {.work_type = work_type};
    tide_buffer_init(&request.locked, TIDE_ITEM_PAGE_MAX);
    const tide_status status = tide_store_write(store, raise_bounds, &request, err);
    tide_buffer_done(&request.locked);
    return status < TIDE_OK ? status : TIDE_OK;
}
