#include "journal/fence.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <tidemark/lease.h>

#include "base/cleanup.h"
#include "store/statement.h"
#include "tidemark_sql.h"

void tide_fence_name(char out[TIDE_FENCE_NAME_SIZE], const char *task_id)
{
    (void)snprintf(out, TIDE_FENCE_NAME_SIZE, "task/%s", task_id);
}

static bool is_postgres(tide_tx *tx)
{
    return tide_store_engine(tide_tx_store(tx)) == TIDE_ENGINE_POSTGRES;
}

tide_status tide_fence_lock(tide_tx *tx, const char *task_id, tide_error *err)
{
    if (!is_postgres(tx))
        return TIDE_OK;
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    const tide_status status = tide_tx_one(&query, tx, TIDE_SQL_JOURNAL_TASK_LOCK, err,
                                           tide_bind_text("task_id", task_id));
    return status < TIDE_OK ? status : TIDE_OK;
}

/* ---- the work item ---- */

static tide_status hold_item(tide_tx *tx, const tide_checkpoint_new *given, tide_error *err)
{
    int64_t now_us = 0;
    TIDE_TRY(tide_lease_now(tx, &now_us, err));
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    const tide_status status =
        tide_tx_one(&query, tx, TIDE_SQL_JOURNAL_ITEM_HOLD, err,
                    tide_bind_text("work_item_id", given->work_item_id),
                    tide_bind_i64("token", given->item_token), tide_bind_time("now", now_us));
    if (status == TIDE_NONE)
        return tide_fail(err, TIDE_E_LEASE_LOST, "token %" PRId64 " does not hold work item %s",
                         given->item_token, given->work_item_id);
    return status;
}

tide_status tide_fence_check_item(tide_tx *tx, const tide_checkpoint_new *given, bool *is_held,
                                  tide_error *err)
{
    *is_held = false;
    if (!given->work_item_id)
        return TIDE_OK;
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    const tide_status status = tide_tx_one(&query, tx, TIDE_SQL_JOURNAL_ITEM_TASK, err,
                                           tide_bind_text("work_item_id", given->work_item_id));
    if (status == TIDE_NONE)
        return tide_fail(err, TIDE_E_NOT_FOUND, "there is no work item %s", given->work_item_id);
    TIDE_TRY(status);
    const tide_view task = tide_query_col_text(query);
    if (!tide_view_equal(task, tide_view_of(given->task_id)))
        return tide_fail(err, TIDE_E_INVALID, "work item %s belongs to task %.*s, not to task %s",
                         given->work_item_id, (int)task.len, task.ptr, given->task_id);
    if (given->item_token > 0)
        TIDE_TRY(hold_item(tx, given, err));
    *is_held = given->item_token > 0 && given->token == 0;
    return TIDE_OK;
}

/* ---- the task ---- */

tide_status tide_fence_check_task(tide_tx *tx, const tide_checkpoint_new *given, tide_error *err)
{
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    const tide_status status = tide_tx_one(&query, tx, TIDE_SQL_JOURNAL_TASK_LEASE, err,
                                           tide_bind_text("task_id", given->task_id));
    if (status == TIDE_NONE)
        return tide_fail(err, TIDE_E_NOT_FOUND, "there is no task %s", given->task_id);
    TIDE_TRY(status);
    const bool is_free = tide_query_col_is_null(query);
    const tide_view holder = tide_query_col_text(query);
    const int64_t token = tide_query_col_i64(query);
    const int64_t expires_us = tide_query_col_time(query);
    if (is_free && given->token == 0)
        return TIDE_OK;
    int64_t now_us = 0;
    if (!is_free)
        TIDE_TRY(tide_lease_now(tx, &now_us, err));
    const bool is_live = !is_free && expires_us > now_us;
    if (given->token > 0 && !(is_live && token == given->token))
        return tide_fail(err, TIDE_E_LEASE_LOST, "token %" PRId64 " does not hold task %s",
                         given->token, given->task_id);
    if (given->token == 0 && is_live)
        return tide_fail(err, TIDE_E_CONFLICT,
                         "task %s is held by %.*s for another %.1f s: present the token of its "
                         "lease (--token)",
                         given->task_id, (int)holder.len, holder.ptr,
                         (double)(expires_us - now_us) / 1e6);
    return TIDE_OK;
}

tide_status tide_fence_defer(tide_tx *tx, const tide_checkpoint_new *given, tide_error *err)
{
    char name[TIDE_FENCE_NAME_SIZE];
    tide_fence_name(name, given->task_id);
    return tide_tx_defer(tx, TIDE_SQL_JOURNAL_FENCE, err, tide_bind_text("name", name),
                         tide_bind_i64("token", given->token), tide_bind_clock("clock"));
}

/* The statement fails like an expected number that is not next, which this checkpoint has not. */
bool tide_fence_is_cause(const tide_checkpoint_new *given, const tide_error *failure)
{
    return failure->status == TIDE_E_CONFLICT && given->expect_global == 0 &&
           strstr(failure->text, "the next global sequence is another one") != NULL;
}
