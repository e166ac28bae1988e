#include "work/limit/limit.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/interface/caller.h"
#include "base/interface/sized.h"
#include "store/statement.h"
#include "tidemark_sql.h"

static int64_t read_number(tide_query *query)
{
    const bool is_null = tide_query_col_is_null(query);
    const int64_t value = tide_query_col_i64(query);
    return is_null ? 0 : value;
}

/* ---- for claims ---- */

void tide_limits_init(tide_limits *limits)
{
    *limits = (tide_limits){.count = 0};
    tide_buffer_init(&limits->locked, TIDE_ITEM_PAGE_MAX);
}

void tide_limits_done(tide_limits *limits)
{
    tide_buffer_done(&limits->locked);
}

/* Items that ran when the limit was set have no entries yet (PostgreSQL). */
static tide_status settle(tide_tx *tx, const char *work_type, tide_error *err)
{
    return tide_tx_exec(tx, TIDE_SQL_LIMIT_SETTLE, NULL, err, tide_bind_text("type", work_type));
}

static tide_status settle_all(tide_tx *tx, const char *const *types, int count, tide_error *err)
{
    for (int i = 0; i < count; i++)
        TIDE_TRY(settle(tx, types[i], err));
    return TIDE_OK;
}

tide_status tide_limits_lock(tide_limits *limits, tide_tx *tx,
                             const tide_work_claim_request *request, tide_error *err)
{
    const char *unsettled[TIDE_WORK_TYPES_MAX];
    int unsettled_count = 0;
    TIDE_CLEANUP(tide_arena_done) tide_arena arena = tide_arena_of(TIDE_ITEM_PAGE_MAX);
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    TIDE_TRY(tide_query_begin(&query, tx, TIDE_SQL_LIMITS_LOCK, err));
    TIDE_TRY(tide_item_bind_texts(query, "types", request->types, request->type_count, true, err));
    tide_json json;
    limits->count = 0;
    limits->has_keys = false;
    tide_buffer_clear(&limits->locked);
    tide_json_init(&json, &limits->locked);
    tide_json_array_begin(&json);
    tide_status status = TIDE_OK;
    while ((status = tide_query_step(query, err)) == TIDE_OK) {
        tide_row row = {.query = query, .arena = &arena};
        const char *work_type = tide_row_text(&row);
        (void)read_number(query);
        limits->has_keys = read_number(query) > 0 || limits->has_keys;
        const bool is_settled = tide_query_col_bool(query);
        TIDE_TRY(tide_row_end(&row, err));
        if (!is_settled && unsettled_count == TIDE_WORK_TYPES_MAX)
            continue; /* the next claim settles it */
        if (!is_settled)
            unsettled[unsettled_count++] = work_type;
        limits->count++;
        tide_json_text(&json, work_type);
    }
    TIDE_TRY(status);
    tide_json_array_end(&json);
    tide_query_endp(&query);
    TIDE_TRY(tide_item_check_list(tide_json_finish(&json), err));
    return settle_all(tx, unsettled, unsettled_count, err);
}

tide_status tide_limits_prune(const tide_limits *limits, tide_tx *tx, int64_t *count,
                              tide_error *err)
{
    int64_t freed = 0;
    TIDE_TRY(tide_tx_exec(tx, TIDE_SQL_RUNNING_PRUNE, &freed, err,
                          tide_bind_view("types", tide_buffer_view(&limits->locked))));
    *count += freed;
    return TIDE_OK;
}

tide_status tide_limits_occupy(tide_tx *tx, const tide_work_claims *claims, tide_error *err)
{
    if (claims->count == 0)
        return TIDE_OK;
    TIDE_CLEANUP(tide_freep) const char **ids = calloc((size_t)claims->count, sizeof *ids);
    if (!ids)
        return tide_no_memory(err);
    for (int i = 0; i < claims->count; i++)
        ids[i] = claims->items[i].work_item_id;
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    TIDE_TRY(tide_query_begin(&query, tx, TIDE_SQL_RUNNING_ADD, err));
    TIDE_TRY(tide_item_bind_texts(query, "ids", ids, claims->count, false, err));
    return tide_query_run(query, NULL, err);
}

/* ---- explain ---- */

tide_status tide_limit_explain(tide_limit_state *out, tide_tx *tx, const char *id, tide_error *err)
{
    *out = (tide_limit_state){.running = 0};
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    const tide_status status =
        tide_tx_one(&query, tx, TIDE_SQL_LIMIT_EXPLAIN, err, tide_bind_text("id", id));
    if (status != TIDE_OK)
        return status;
    out->running = read_number(query);
    out->running_per_key = read_number(query);
    out->used = tide_query_col_i64(query);
    out->used_of_key = tide_query_col_i64(query);
    const tide_view key = tide_query_col_text(query);
    if (key.len > 0 && key.len < sizeof out->key)
        memcpy(out->key, key.ptr, key.len);
    return TIDE_OK;
}

/* ---- for people ---- */

typedef struct limit_request {
    tide_work_limit limit; /* as given, then as it is */
    bool is_unsettled;
} limit_request;

static tide_status find_limit(tide_tx *tx, void *arg, tide_error *err)
{
    limit_request *request = arg;
    const char *work_type = request->limit.work_type;
    request->limit = (tide_work_limit){TIDE_WORK_LIMIT_INIT, .work_type = work_type};
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    const tide_status status =
        tide_tx_one(&query, tx, TIDE_SQL_LIMIT_FIND, err, tide_bind_text("type", work_type));
    if (status != TIDE_OK)
        return status;
    request->limit.running = read_number(query);
    request->limit.running_per_key = read_number(query);
    request->limit.in_progress = tide_query_col_i64(query);
    return TIDE_OK;
}

tide_status tide_work_limit_get(tide_store *store, const char *work_type, tide_work_limit *out,
                                tide_error *err)
{
    TIDE_NEED(store && out, err);
    TIDE_TRY(tide_sized_check(out, sizeof *out, "tide_work_limit", err));
    TIDE_TRY(tide_item_check_name("a work type", work_type, TIDE_WORK_TYPE_MAX, err));
    limit_request request = {.limit = {TIDE_WORK_LIMIT_INIT, .work_type = work_type}};
    const tide_status status = tide_store_read(store, find_limit, &request, err);
    if (status >= TIDE_OK)
        *out = request.limit;
    return status;
}

/* What the limit is now, locked until the transaction ends. TIDE_NONE: there is none. */
static tide_status lock_limit(tide_tx *tx, tide_work_limit *out, bool *is_settled, tide_error *err)
{
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    TIDE_TRY(tide_query_begin(&query, tx, TIDE_SQL_LIMITS_LOCK, err));
    TIDE_TRY(tide_item_bind_texts(query, "types", &out->work_type, 1, false, err));
    const tide_status status = tide_query_one(query, err);
    if (status != TIDE_OK)
        return status;
    (void)tide_query_col_text(query);
    out->running = read_number(query);
    out->running_per_key = read_number(query);
    *is_settled = tide_query_col_bool(query);
    return TIDE_OK;
}

static tide_status set_limit(tide_tx *tx, void *arg, tide_error *err)
{
    limit_request *request = arg;
    const tide_work_limit *given = &request->limit;
    tide_work_limit now = {TIDE_WORK_LIMIT_INIT, .work_type = given->work_type};
    bool is_settled = false;
    const tide_status found = lock_limit(tx, &now, &is_settled, err);
    TIDE_TRY(found);
    const int64_t running = given->running < 0 ? now.running : given->running;
    const int64_t per_key =
        given->running_per_key < 0 ? now.running_per_key : given->running_per_key;
    const bool is_none = running == 0 && per_key == 0;
    request->is_unsettled = !is_none && !is_settled;
    tide_item_wakes wakes = {.is_broadcast = true};
    tide_item_notify(&wakes, tx);
    if (is_none)
        return tide_tx_exec(tx, TIDE_SQL_LIMIT_DELETE, NULL, err,
                            tide_bind_text("type", given->work_type));
    return tide_tx_exec(tx, found == TIDE_NONE ? TIDE_SQL_LIMIT_INSERT : TIDE_SQL_LIMIT_UPDATE,
                        NULL, err, tide_bind_text("type", given->work_type),
                        TIDE_BIND_IF(running > 0, tide_bind_i64("running", running)),
                        TIDE_BIND_IF(per_key > 0, tide_bind_i64("running_per_key", per_key)));
}

static tide_status settle_limit(tide_tx *tx, void *arg, tide_error *err)
{
    const limit_request *request = arg;
    const tide_work_claim_request types = {TIDE_WORK_CLAIM_REQUEST_INIT,
                                           .types = &request->limit.work_type, .type_count = 1};
    TIDE_CLEANUP(tide_limits_done) tide_limits limits;
    tide_limits_init(&limits);
    return tide_limits_lock(&limits, tx, &types, err);
}

tide_status tide_work_limit_set(tide_store *store, const tide_work_limit *given, tide_error *err)
{
    TIDE_NEED(store, err);
    limit_request request = {.is_unsettled = false};
    TIDE_TRY(TIDE_SIZED_COPY(&request.limit, given, tide_work_limit, err));
    TIDE_TRY(tide_item_check_name("a work type", request.limit.work_type, TIDE_WORK_TYPE_MAX, err));
    TIDE_TRY(tide_item_check_range("running", request.limit.running, INT64_MIN, TIDE_WORK_LIMIT_MAX,
                                   err));
    TIDE_TRY(tide_item_check_range("running per key", request.limit.running_per_key, INT64_MIN,
                                   TIDE_WORK_LIMIT_MAX, err));
    const tide_work_limit limit = request.limit;
    TIDE_TRY(tide_store_write(store, set_limit, &request, err));
    if (!request.is_unsettled || tide_store_engine(store) != TIDE_ENGINE_POSTGRES)
        return TIDE_OK;
    /* A failure here is made good by the next claim of the type. */
    tide_error ignored;
    request.limit = limit;
    TIDE_IGNORE(tide_store_write(store, settle_limit, &request, &ignored));
    return TIDE_OK;
}
