/* task_end.c - the end of a task, of any size: cancel, finish, delete.
 *
 *     first transaction    checks, the new status, a row in task_endings, the first step
 *     next transactions    TIDE_TASK_END_STEP items each: ended as cancelled, or deleted
 *     last transaction     deletes the row; of a delete: the task with what is left of it
 *
 * A small task needs only the first. From it on no item of the task is claimed or added, because its
 * status says that it has ended. The row in task_endings is what survives a crash: the next sweep of
 * any process continues there. It also keeps the trigger of `tasks` from ending all items at once, as
 * it does for plain SQL.
 *
 * Items in progress are ended first, so that their workers are refused soon.
 *
 * Many checkpoints of a deleted task are removed by compaction, which leaves a journal that verifies
 * after each step. A fork that was made meanwhile keeps what it needs, and the task then stays. */
#include <tidemark/work.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/interface/caller.h"
#include "core/lease_clock.h"
#include "journal/events.h"
#include "store/statement.h"
#include "tidemark_sql.h"
#include "work/item.h"
#include "work/task/task_end.h"

typedef enum end_action { END_ITEMS, END_DELETE } end_action;

static const char *const action_names[] = {[END_ITEMS] = "end", [END_DELETE] = "delete"};

typedef struct end_request {
    const char *task_id;
    const char *status; /* that the task gets */
    bool is_finish;
    bool cancel_rest;
    bool is_forced;
    end_action action;
    const char *message;       /* of items that are ended */
    tide_sequence_range event; /* of a delete */
    int64_t changed;           /* by the last transaction */
    bool is_done;
} end_request;

static tide_status fail_missing(const char *task_id, tide_error *err)
{
    return tide_fail(err, TIDE_E_NOT_FOUND, "there is no task %s", task_id);
}

/* ---- steps ---- */

static tide_status delete_ending(tide_tx *tx, const char *task_id, tide_error *err)
{
    return tide_tx_exec(tx, TIDE_SQL_TASK_ENDING_DELETE, NULL, err,
                        tide_bind_text("task_id", task_id));
}

/* Attempts were ended from outside: the locks of their idempotency keys end with them. */
static tide_status end_items(tide_tx *tx, end_request *request, const char *status, int64_t now_us,
                             tide_error *err)
{
    const char *ids[TIDE_TASK_END_STEP];
    int count = 0;
    TIDE_CLEANUP(tide_arena_done) tide_arena arena = tide_arena_of(TIDE_ITEM_PAGE_MAX);
    TIDE_QUERY(query, tx, TIDE_SQL_TASK_END_ITEMS, err, tide_bind_text("task_id", request->task_id),
               tide_bind_text("status", status), tide_bind_text("message", request->message),
               tide_bind_time("now", now_us), tide_bind_i64("floor", tide_lease_token_floor(tx)),
               tide_bind_i64("limit", TIDE_TASK_END_STEP - request->changed));
    TIDE_EACH(tide_query_step(query, err)) {
        tide_row row = {.query = query, .arena = &arena};
        if (count < TIDE_TASK_END_STEP)
            ids[count++] = tide_row_text(&row);
        TIDE_TRY(tide_row_end(&row, err));
    }
    tide_query_endp(&query);
    request->changed += count;
    return count > 0 && strcmp(status, "in_progress") == 0 ? tide_item_end_keys(tx, ids, count, err)
                                                           : TIDE_OK;
}

static tide_status end_some(tide_tx *tx, void *arg, tide_error *err)
{
    static const char *const statuses[] = {"in_progress", "expired", "pending"};
    end_request *request = arg;
    int64_t now_us = 0;
    request->changed = 0;
    request->is_done = false;
    TIDE_TRY(tide_tx_now(tx, &now_us, err));
    for (size_t i = 0; i < sizeof statuses / sizeof statuses[0]; i++)
        if (request->changed < TIDE_TASK_END_STEP)
            TIDE_TRY(end_items(tx, request, statuses[i], now_us, err));
    if (request->changed == TIDE_TASK_END_STEP)
        return TIDE_OK;
    TIDE_QUERY_BY(query, tide_tx_one, tx, TIDE_SQL_TASK_HAS_LIVE, err,
                  tide_bind_text("task_id", request->task_id));
    request->is_done = !tide_query_col_bool(query);
    tide_query_endp(&query);
    return request->is_done ? delete_ending(tx, request->task_id, err) : TIDE_OK;
}

static tide_status delete_some(tide_tx *tx, void *arg, tide_error *err)
{
    end_request *request = arg;
    TIDE_TRY(tide_tx_exec(tx, TIDE_SQL_TASK_DELETE_ITEMS, &request->changed, err,
                          tide_bind_text("task_id", request->task_id),
                          tide_bind_i64("limit", TIDE_TASK_END_STEP)));
    if (request->changed == 0)
        TIDE_TRY(tide_tx_exec(tx, TIDE_SQL_TASK_LEAVE_KEYS, &request->changed, err,
                              tide_bind_text("task_id", request->task_id),
                              tide_bind_i64("limit", TIDE_TASK_END_STEP)));
    return TIDE_OK;
}

/* ---- cancel, finish ---- */

/* TIDE_OK: it is locked and has not ended. TIDE_NONE: it had ended as wanted. */
static tide_status lock_live(tide_tx *tx, const char *task_id, const char *wanted, tide_error *err)
{
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    const tide_status status =
        tide_tx_one(&query, tx, TIDE_SQL_TASK_LOCK, err, tide_bind_text("task_id", task_id));
    TIDE_TRY(status);
    if (status == TIDE_NONE)
        return fail_missing(task_id, err);
    const tide_view state = tide_query_col_text(query);
    if (tide_view_equal(state, tide_view_of("pending")) ||
        tide_view_equal(state, tide_view_of("running")))
        return TIDE_OK;
    if (tide_view_equal(state, tide_view_of(wanted)))
        return TIDE_NONE;
    return tide_fail(err, TIDE_E_CONFLICT, "task %s has ended already: it is %.*s", task_id,
                     (int)state.len, state.ptr);
}

static tide_status put_ending(tide_tx *tx, const end_request *request, tide_error *err)
{
    return tide_tx_exec(tx, TIDE_SQL_TASK_ENDING_PUT, NULL, err,
                        tide_bind_text("task_id", request->task_id),
                        tide_bind_text("action", action_names[request->action]),
                        tide_bind_text("message", request->message), tide_bind_now("now"));
}

static tide_status set_status(tide_tx *tx, const end_request *request, tide_error *err)
{
    return tide_tx_exec(tx, TIDE_SQL_TASK_END, NULL, err,
                        tide_bind_text("task_id", request->task_id),
                        tide_bind_text("status", request->status), tide_bind_now("now"));
}

static tide_status check_finished(tide_tx *tx, const end_request *request, tide_error *err)
{
    tide_task items = {.task_id = request->task_id};
    TIDE_TRY(tide_task_count_items(tx, request->task_id, &items, err));
    const int64_t unfinished = items.pending + items.in_progress + items.expired;
    if (unfinished == 0 || request->cancel_rest)
        return TIDE_OK;
    return tide_fail(err, TIDE_E_CONFLICT,
                     "task %s has %" PRId64 " unfinished items: finish or cancel them first",
                     request->task_id, unfinished);
}

/* What an earlier call left, if it did. */
static tide_status continue_end(tide_tx *tx, end_request *request, tide_error *err)
{
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    const tide_status status = tide_tx_one(&query, tx, TIDE_SQL_TASK_ENDING_FIND, err,
                                           tide_bind_text("task_id", request->task_id));
    TIDE_TRY(status);
    tide_query_endp(&query);
    request->is_done = status == TIDE_NONE;
    return request->is_done ? TIDE_OK : end_some(tx, request, err);
}

static tide_status begin_end(tide_tx *tx, void *arg, tide_error *err)
{
    end_request *request = arg;
    request->is_done = false;
    const tide_status locked = lock_live(tx, request->task_id, request->status, err);
    TIDE_TRY(locked);
    if (locked == TIDE_NONE)
        return continue_end(tx, request, err);
    if (request->is_finish)
        TIDE_TRY(check_finished(tx, request, err));
    TIDE_TRY(put_ending(tx, request, err));
    TIDE_TRY(set_status(tx, request, err));
    return end_some(tx, request, err);
}

static tide_status end_task(tide_store *store, end_request *request, tide_error *err)
{
    TIDE_TRY(tide_item_check_id("a task's id", request->task_id, err));
    TIDE_TRY(tide_store_write(store, begin_end, request, err));
    while (!request->is_done)
        TIDE_TRY(tide_store_write(store, end_some, request, err));
    return TIDE_OK;
}

tide_status tide_task_cancel(tide_store *store, const char *task_id, tide_error *err)
{
    TIDE_NEED(store, err);
    end_request request = {
        .task_id = task_id, .status = "cancelled", .message = "The task was cancelled"};
    return end_task(store, &request, err);
}

tide_status tide_task_finish(tide_store *store, const char *task_id, bool is_failed,
                             bool cancel_rest, tide_error *err)
{
    TIDE_NEED(store, err);
    end_request request = {.task_id = task_id,
                           .status = is_failed ? "failed" : "succeeded",
                           .is_finish = true,
                           .cancel_rest = cancel_rest,
                           .message = "The task was ended"};
    return end_task(store, &request, err);
}

/* ---- delete ---- */

static tide_status check_forks(tide_tx *tx, const char *task_id, tide_error *err)
{
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    TIDE_OK_IF_NONE(
        tide_tx_one(&query, tx, TIDE_SQL_TASK_FORK, err, tide_bind_text("task_id", task_id)));
    const tide_view fork = tide_query_col_text(query);
    return tide_fail(err, TIDE_E_CONFLICT,
                     "task %.*s is a fork of %s and shares its history: delete the fork first",
                     (int)fork.len, fork.ptr, task_id);
}

/* From here on no transaction adds to the task. SQLite has one writer anyhow. */
static tide_status lock_everything(tide_tx *tx, const char *task_id, tide_error *err)
{
    if (tide_store_engine(tide_tx_store(tx)) != TIDE_ENGINE_POSTGRES)
        return TIDE_OK;
    TIDE_TRY(
        tide_tx_exec(tx, TIDE_SQL_TASK_HOLD_ITEMS, NULL, err, tide_bind_text("task_id", task_id)));
    return tide_tx_exec(tx, TIDE_SQL_TASK_HOLD_HEAD, NULL, err, tide_bind_text("task_id", task_id));
}

/* Its checkpoints are deleted with it: record that for readers that follow the journal. */
static tide_status add_event(tide_tx *tx, end_request *request, tide_error *err)
{
    TIDE_TRY(lock_everything(tx, request->task_id, err));
    TIDE_QUERY_BY(query, tide_tx_one, tx, TIDE_SQL_TASK_CHECKPOINTS, err,
                  tide_bind_text("task_id", request->task_id));
    tide_journal_event event = {.kind = TIDE_JOURNAL_DELETED, .task_id = request->task_id};
    event.count = tide_query_col_i64(query);
    event.first_global = tide_query_col_i64(query);
    event.last_global = tide_query_col_i64(query);
    return event.count == 0 ? TIDE_OK : tide_journal_event_add(tx, &event, &request->event, err);
}

static tide_status check_delete(tide_tx *tx, const end_request *request, tide_error *err)
{
    TIDE_CLEANUP(tide_query_endp) tide_query *lock = NULL;
    const tide_status status = tide_tx_one(&lock, tx, TIDE_SQL_TASK_LOCK, err,
                                           tide_bind_text("task_id", request->task_id));
    TIDE_TRY(status);
    if (status == TIDE_NONE)
        return fail_missing(request->task_id, err);
    TIDE_TRY(check_forks(tx, request->task_id, err));
    if (request->is_forced)
        return TIDE_OK;
    tide_task items = {.task_id = request->task_id};
    TIDE_TRY(tide_task_count_items(tx, request->task_id, &items, err));
    return items.in_progress == 0
               ? TIDE_OK
               : tide_fail(err, TIDE_E_CONFLICT,
                           "%" PRId64
                           " items of task %s are in progress: cancel it first, or force",
                           items.in_progress, request->task_id);
}

static tide_status delete_rest(tide_tx *tx, void *arg, tide_error *err)
{
    end_request *request = arg;
    TIDE_TRY(check_delete(tx, request, err));
    TIDE_TRY(add_event(tx, request, err));
    return tide_tx_exec(tx, TIDE_SQL_TASK_DELETE, NULL, err,
                        tide_bind_text("task_id", request->task_id));
}

/* *is_large: it has more than TIDE_TASK_END_STEP items, keys or checkpoints. */
static tide_status measure(tide_tx *tx, const char *task_id, bool *is_large, bool *is_long,
                           tide_error *err)
{
    TIDE_QUERY_BY(query, tide_tx_one, tx, TIDE_SQL_TASK_SIZE, err,
                  tide_bind_text("task_id", task_id),
                  tide_bind_i64("limit", TIDE_TASK_END_STEP + 1));
    const int64_t items = tide_query_col_i64(query);
    const int64_t keys = tide_query_col_i64(query);
    *is_long = tide_query_col_i64(query) > TIDE_TASK_END_STEP;
    *is_large = items > TIDE_TASK_END_STEP || keys > TIDE_TASK_END_STEP || *is_long;
    return TIDE_OK;
}

static tide_status begin_delete(tide_tx *tx, void *arg, tide_error *err)
{
    end_request *request = arg;
    bool is_large = false;
    bool is_long = false;
    TIDE_TRY(check_delete(tx, request, err));
    TIDE_TRY(measure(tx, request->task_id, &is_large, &is_long, err));
    request->is_done = !is_large;
    if (!is_large)
        return delete_rest(tx, request, err);
    TIDE_TRY(put_ending(tx, request, err));
    return set_status(tx, request, err);
}

typedef struct length {
    const char *task_id;
    bool is_long;
} length;

static tide_status read_length(tide_tx *tx, void *arg, tide_error *err)
{
    length *l = arg;
    bool is_large = false;
    return measure(tx, l->task_id, &is_large, &l->is_long, err);
}

static tide_status shorten_journal(tide_store *store, const char *task_id, tide_error *err)
{
    length l = {.task_id = task_id};
    TIDE_TRY(tide_store_read(store, read_length, &l, err));
    const tide_compaction policy = {TIDE_COMPACTION_INIT, .task_id = task_id, .keep = -1};
    return l.is_long ? tide_journal_compact(store, &policy, NULL, err) : TIDE_OK;
}

static tide_status give_up(tide_tx *tx, void *arg, tide_error *err)
{
    return delete_ending(tx, ((const end_request *)arg)->task_id, err);
}

/* The items are gone. TIDE_OK also where another process was faster. */
static tide_status end_delete(tide_store *store, end_request *request, tide_error *err)
{
    tide_status status = shorten_journal(store, request->task_id, err);
    if (status >= TIDE_OK) {
        request->is_forced = true; /* it was checked before the first step */
        status = tide_store_write(store, delete_rest, request, err);
    }
    if (status == TIDE_E_CONFLICT) /* a fork, made meanwhile */
        TIDE_IGNORE(tide_store_write(store, give_up, request, NULL));
    request->is_done = true;
    return status == TIDE_E_NOT_FOUND ? TIDE_OK : status;
}

tide_status tide_task_delete(tide_store *store, const char *task_id, bool is_forced,
                             tide_error *err)
{
    TIDE_NEED(store, err);
    TIDE_TRY(tide_item_check_id("a task's id", task_id, err));
    end_request request = {.task_id = task_id,
                           .status = "cancelled",
                           .action = END_DELETE,
                           .message = "The task was deleted",
                           .is_forced = is_forced};
    TIDE_TRY(tide_store_write(store, begin_delete, &request, err));
    if (request.is_done)
        return TIDE_OK;
    do {
        TIDE_TRY(tide_store_write(store, delete_some, &request, err));
        if (tide_store_engine(store) == TIDE_ENGINE_SQLITE)
            TIDE_TRY(tide_store_exec(store, TIDE_SQL_WORK_VACUUM, NULL, err, TIDE_NO_BIND));
    } while (request.changed > 0);
    return end_delete(store, &request, err);
}

/* ---- what a process that died has begun ---- */

typedef struct ending {
    char task_id[TIDE_WORK_ID_MAX + 1];
    char message[64];
    bool is_delete;
} ending;

static tide_status find_ending(tide_tx *tx, void *arg, tide_error *err)
{
    ending *found = arg;
    found->task_id[0] = '\0';
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    TIDE_OK_IF_NONE(tide_tx_one(&query, tx, TIDE_SQL_TASK_ENDING_FIRST, err, TIDE_NO_BIND));
    tide_view_copy(found->task_id, sizeof found->task_id, tide_query_col_text(query));
    found->is_delete =
        tide_view_equal(tide_query_col_text(query), tide_view_of(action_names[END_DELETE]));
    tide_view_copy(found->message, sizeof found->message, tide_query_col_text(query));
    return TIDE_OK;
}

tide_status tide_task_end_continue(tide_store *store, int64_t limit, int64_t *done, bool *has_more,
                                   tide_error *err)
{
    ending found;
    *done = 0;
    *has_more = false;
    TIDE_TRY(tide_store_read_local(store, find_ending, &found, err));
    if (!found.task_id[0])
        return TIDE_OK;
    end_request request = {.task_id = found.task_id, .message = found.message};
    *has_more = true;
    do {
        TIDE_TRY(tide_store_write(store, found.is_delete ? delete_some : end_some, &request, err));
        *done += request.changed;
        if (found.is_delete && request.changed == 0) {
            const tide_status status = end_delete(store, &request, err);
            return status == TIDE_E_CONFLICT ? TIDE_OK : status; /* the task stays, with a fork */
        }
    } while (!request.is_done && *done < limit);
    return TIDE_OK;
}
