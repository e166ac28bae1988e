/* lease.c - what a worker does while it holds an item: renew, check, checkpoint, progress, release. */
#include <tidemark/work.h>

#include <stdlib.h>

#include "base/cleanup.h"
#include "base/interface/caller.h"
#include "base/interface/sized.h"
#include "journal/append.h"
#include "store/statement.h"
#include "tidemark_sql.h"
#include "work/lease.h"
#include "work/lease_list.h"

/* ---- renew ---- */

typedef struct renewal {
    const tide_lease_list *held;
    int count;
    int64_t lease_us;
} renewal;

static tide_status renew_leases(tide_tx *tx, void *arg, tide_error *err)
{
    const renewal *r = arg;
    tide_item_clock clock = {0};
    tide_lease_list_reset(r->held, r->count);
    TIDE_QUERY_BY(query, tide_query_begin, tx, TIDE_SQL_WORK_RENEW, err);
    TIDE_TRY(tide_item_bind_clock(query, tx, &clock, err));
    TIDE_TRY(tide_lease_list_bind(query, "items", r->held, r->count, err));
    if (tide_store_engine(tide_tx_store(tx)) == TIDE_ENGINE_SQLITE)
        tide_query_bind_time(query, "expires", clock.lease_now_us + r->lease_us);
    else
        tide_query_bind_i64(query, "lease_us", r->lease_us);
    TIDE_EACH(tide_query_step(query, err)) {
        const tide_view id = tide_query_col_text(query);
        (void)tide_lease_list_mark(r->held, r->count, id, tide_query_col_i64(query));
    }
    return TIDE_OK;
}

static tide_status renew_listed(tide_store *store, tide_work_ref *items, int count,
                                int64_t lease_us, tide_error *err)
{
    renewal r = {.count = count};
    TIDE_TRY(tide_item_check_lease(lease_us, &r.lease_us, err));
    TIDE_CLEANUP(tide_freep) tide_lease_list *held = calloc((size_t)count, sizeof *held);
    TIDE_NEED_MEMORY(held, err);
    for (int i = 0; i < count; i++)
        held[i] = (tide_lease_list){
            .id = items[i].work_item_id, .token = items[i].token, .is_lost = &items[i].is_lost};
    TIDE_TRY(tide_lease_list_check(held, count, err));
    tide_lease_list_sort(held, count);
    r.held = held;
    TIDE_TRY(tide_store_write_by_id(store, renew_leases, &r, true, err));
    return tide_item_fail_some(tide_lease_list_count_lost(held, count), count, err);
}

tide_status tide_work_renew(tide_store *store, tide_work_ref *items, int count, int64_t lease_us,
                            tide_error *err)
{
    TIDE_NEED(store, err);
    TIDE_CLEANUP(tide_sized_list_done) tide_sized_list list = {0};
    TIDE_TRY(tide_item_check_range("the number of items", count, 1, TIDE_WORK_BATCH_MAX, err));
    TIDE_TRY(TIDE_SIZED_LIST(&list, items, count, tide_work_ref, err));
    const tide_status status = renew_listed(store, list.items, count, lease_us, err);
    tide_sized_list_return(&list);
    return status;
}

/* ---- one item, one token ---- */

static tide_status begin_under_token(tide_query **out, tide_tx *tx, const tide_sql *sql,
                                     const char *id, int64_t token, tide_item_clock *clock,
                                     tide_error *err)
{
    TIDE_TRY(tide_query_begin(out, tx, sql, err));
    TIDE_TRY(tide_item_bind_clock(*out, tx, clock, err));
    tide_query_bind_text(*out, "id", id);
    tide_query_bind_i64(*out, "token", token);
    return TIDE_OK;
}

tide_status tide_item_hold(tide_tx *tx, const char *id, int64_t token, tide_arena *arena,
                           tide_hold *out, tide_error *err)
{
    tide_item_clock clock = {0};
    TIDE_QUERY_BY(query, tide_query_begin, tx, TIDE_SQL_WORK_HOLD, err);
    TIDE_TRY(tide_item_bind_lease_clock(query, tx, &clock, err));
    tide_query_bind_text(query, "id", id);
    tide_query_bind_i64(query, "token", token);
    const tide_status status = tide_query_one(query, err);
    TIDE_TRY(status);
    if (status == TIDE_NONE)
        return tide_item_fail_lost(tx, id, token, err);
    tide_row row = {.query = query, .arena = arena};
    out->task_id = tide_row_text(&row);
    out->work_type = tide_row_text(&row);
    out->retry_count = tide_query_col_i64(query);
    out->max_retries = tide_query_col_i64(query);
    out->failure_count = tide_query_col_i64(query);
    out->crash_count = tide_query_col_i64(query);
    return tide_row_end(&row, err);
}

tide_status tide_work_check(tide_tx *tx, const char *work_item_id, int64_t token, tide_error *err)
{
    TIDE_NEED(tx, err);
    TIDE_TRY(tide_item_check_id("a work item's id", work_item_id, err));
    TIDE_CLEANUP(tide_arena_done) tide_arena arena = tide_arena_of(TIDE_HOLD_BYTES_MAX);
    tide_hold hold = {0};
    return tide_item_hold(tx, work_item_id, token, &arena, &hold, err);
}

/* ---- checkpoint ---- */

typedef struct checkpoint_request {
    const char *id;
    int64_t token;
    tide_checkpoint_new checkpoint;
    tide_checkpoint_numbers numbers;
} checkpoint_request;

static tide_status put_checkpoint(tide_tx *tx, void *arg, tide_error *err)
{
    checkpoint_request *request = arg;
    TIDE_CLEANUP(tide_arena_done) tide_arena arena = tide_arena_of(TIDE_HOLD_BYTES_MAX);
    tide_hold hold = {0};
    TIDE_TRY(tide_item_hold(tx, request->id, request->token, &arena, &hold, err));
    request->checkpoint.task_id = hold.task_id;
    return tide_journal_append_known_in(tx, &request->checkpoint, 1, &request->numbers, err);
}

tide_status tide_work_checkpoint(tide_store *store, const char *work_item_id, int64_t token,
                                 const tide_checkpoint_new *checkpoint,
                                 tide_checkpoint_numbers *out, tide_error *err)
{
    TIDE_NEED(store && out, err);
    TIDE_TRY(tide_item_check_id("a work item's id", work_item_id, err));
    checkpoint_request request = {.id = work_item_id, .token = token};
    TIDE_TRY(TIDE_SIZED_COPY(&request.checkpoint, checkpoint, tide_checkpoint_new, err));
    request.checkpoint.work_item_id = work_item_id;
    TIDE_TRY(tide_store_write(store, put_checkpoint, &request, err));
    *out = request.numbers;
    return TIDE_OK;
}

/* ---- progress ---- */

typedef struct change_request {
    const char *id;
    int64_t token;
    const char *progress;
    int64_t delay_us;
} change_request;

static tide_status put_progress(tide_tx *tx, void *arg, tide_error *err)
{
    const change_request *request = arg;
    tide_item_clock clock = {0};
    int64_t changed = 0;
    TIDE_QUERY_BY(query, begin_under_token, tx, TIDE_SQL_WORK_PROGRESS, request->id, request->token,
                  &clock, err);
    tide_query_bind_text(query, "progress", request->progress);
    TIDE_TRY(tide_query_run(query, &changed, err));
    return changed == 1 ? TIDE_OK : tide_item_fail_lost(tx, request->id, request->token, err);
}

tide_status tide_work_progress(tide_store *store, const char *work_item_id, int64_t token,
                               const char *progress, tide_error *err)
{
    TIDE_NEED(store, err);
    TIDE_TRY(tide_item_check_id("a work item's id", work_item_id, err));
    TIDE_TRY(tide_item_check_json("progress", progress, err));
    change_request request = {.id = work_item_id, .token = token, .progress = progress};
    return tide_store_write(store, put_progress, &request, err);
}

/* ---- release ---- */

static tide_status release_item(tide_tx *tx, void *arg, tide_error *err)
{
    const change_request *request = arg;
    tide_item_clock clock = {0};
    TIDE_QUERY_BY(query, begin_under_token, tx, TIDE_SQL_WORK_RELEASE, request->id, request->token,
                  &clock, err);
    if (tide_store_engine(tide_tx_store(tx)) == TIDE_ENGINE_POSTGRES)
        tide_query_bind_i64(query, "delay_us", request->delay_us);
    else if (request->delay_us > 0)
        tide_query_bind_time(query, "run_after", clock.now_us + request->delay_us);
    const tide_status status = tide_query_one(query, err);
    TIDE_TRY(status);
    if (status == TIDE_NONE)
        return tide_item_fail_lost(tx, request->id, request->token, err);
    tide_item_wake_column(tx, query);
    if (request->delay_us > 0)
        tide_item_notify_due(tx, request->delay_us);
    tide_query_endp(&query);
    return tide_item_free_keys(tx, &request->id, 1, err);
}

tide_status tide_work_release(tide_store *store, const char *work_item_id, int64_t token,
                              int64_t delay_us, tide_error *err)
{
    TIDE_NEED(store, err);
    TIDE_TRY(tide_item_check_id("a work item's id", work_item_id, err));
    TIDE_TRY(tide_item_check_range("delay", delay_us, 0, TIDE_ITEM_DELAY_MAX_US, err));
    change_request request = {.id = work_item_id, .token = token, .delay_us = delay_us};
    return tide_store_write(store, release_item, &request, err);
}
