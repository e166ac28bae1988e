/* task.c - tasks: what items and checkpoints belong to. */
#include <tidemark/work.h>

#include <inttypes.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "base/interface/caller.h"
#include "base/interface/sized.h"
#include "base/text/uuid.h"
#include "core/lease_clock.h"
#include "journal/events.h"
#include "store/statement.h"
#include "tidemark_sql.h"
#include "work/item.h"

enum { PAGE = 200 };

/* ---- making ---- */

typedef struct create_request {
    const tide_task_new *task;
    const char *task_id;
    bool was_made; /* by an earlier run, whose commit may have happened */
} create_request;

static tide_status create_task(tide_tx *tx, void *arg, tide_error *err)
{
    create_request *request = arg;
    int64_t changed = 0;
    TIDE_TRY(tide_tx_exec(
        tx, TIDE_SQL_TASK_CREATE, &changed, err, tide_bind_text("task_id", request->task_id),
        tide_bind_text("title", request->task->title ? request->task->title : ""),
        tide_bind_text("metadata", request->task->metadata), tide_bind_now("now")));
    if (changed == 0 && !request->was_made)
        return tide_fail(err, TIDE_E_EXISTS, "there is a task %s already", request->task_id);
    request->was_made = true;
    return TIDE_OK;
}

tide_status tide_task_create(tide_store *store, const tide_task_new *given,
                             char out_task_id[TIDE_WORK_ID_MAX + 1], tide_error *err)
{
    TIDE_NEED(store, err);
    tide_task_new own;
    TIDE_TRY(TIDE_SIZED_COPY(&own, given, tide_task_new, err));
    const tide_task_new *task = &own;
    if (task->task_id)
        TIDE_TRY(tide_item_check_id("a task's id", task->task_id, err));
    TIDE_TRY(tide_item_check_text("a title", task->title, TIDE_ITEM_TITLE_MAX, err));
    TIDE_TRY(tide_item_check_json("metadata", task->metadata, err));
    char made[TIDE_UUID_TEXT_SIZE] = "";
    if (!task->task_id) {
        tide_uuid uuid;
        tide_uuid_v7(tide_store_env(store), &uuid);
        tide_uuid_format(&uuid, made);
    }
    create_request request = {.task = task, .task_id = task->task_id ? task->task_id : made};
    TIDE_TRY(tide_store_write_by_id(store, create_task, &request, task->task_id != NULL, err));
    (void)snprintf(out_task_id, TIDE_WORK_ID_MAX + 1, "%s", request.task_id);
    return TIDE_OK;
}

/* ---- looking ---- */

static tide_status read_task(tide_query *query, tide_arena *arena, tide_task *out, tide_error *err)
{
    tide_row row = {.query = query, .arena = arena};
    *out = (tide_task){.task_id = tide_row_text(&row)};
    out->title = tide_row_text(&row);
    out->status = tide_row_text(&row);
    out->metadata = tide_row_text(&row);
    out->forked_from = tide_row_text(&row);
    out->forked_at = tide_query_col_i64(query);
    out->last_sequence = tide_query_col_i64(query);
    out->created_at_us = tide_row_time(&row);
    out->updated_at_us = tide_row_time(&row);
    out->completed_at_us = tide_row_time(&row);
    return tide_row_end(&row, err);
}

static int64_t *find_count(tide_task *task, tide_view status)
{
    const struct {
        const char *name;
        int64_t *count;
    } counts[] = {
        {"pending", &task->pending},     {"in_progress", &task->in_progress},
        {"completed", &task->completed}, {"failed", &task->failed},
        {"expired", &task->expired},
    };
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        if (tide_view_equal(status, tide_view_of(counts[i].name)))
            return counts[i].count;
    return NULL;
}

/* How many items it has, by status. */
static tide_status count_items(tide_tx *tx, const char *task_id, tide_task *out, tide_error *err)
{
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    TIDE_TRY(
        tide_query_start(&query, tx, TIDE_SQL_TASK_ITEMS, err, tide_bind_text("task_id", task_id)));
    TIDE_EACH(tide_query_step(query, err)) {
        int64_t *count = find_count(out, tide_query_col_text(query));
        const int64_t found = tide_query_col_i64(query);
        if (count)
            *count = found;
    }
    return TIDE_OK;
}

typedef struct find_request {
    const char *task_id;
    tide_task found;
    tide_arena arena;
} find_request;

static tide_status find_task(tide_tx *tx, void *arg, tide_error *err)
{
    find_request *request = arg;
    tide_arena_reset(&request->arena);
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    const tide_status status = tide_tx_one(&query, tx, TIDE_SQL_TASK_FIND, err,
                                           tide_bind_text("task_id", request->task_id));
    if (status != TIDE_OK)
        return status;
    TIDE_TRY(read_task(query, &request->arena, &request->found, err));
    return count_items(tx, request->task_id, &request->found, err);
}

tide_status tide_task_find(tide_store *store, const char *task_id, tide_task_fn *fn, void *arg,
                           tide_error *err)
{
    TIDE_NEED(store && fn, err);
    TIDE_TRY(tide_item_check_id("a task's id", task_id, err));
    find_request request = {.task_id = task_id};
    tide_arena_init(&request.arena, TIDE_ITEM_ROW_MAX);
    tide_status status = tide_store_read(store, find_task, &request, err);
    if (status == TIDE_OK)
        status = tide_callback_check(fn(arg, &request.found, err), err);
    tide_arena_done(&request.arena);
    return status;
}

typedef struct list_request {
    const char *status;
    int64_t limit;
    char before_id[TIDE_WORK_ID_MAX + 1]; /* "": from the newest */
    int64_t before_at_us;
    bool is_last;
    int count;
    tide_task rows[PAGE];
    tide_arena arena;
} list_request;

static tide_status read_page(tide_tx *tx, void *arg, tide_error *err)
{
    list_request *request = arg;
    request->count = 0;
    tide_arena_reset(&request->arena);
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    TIDE_TRY(tide_query_start(&query, tx, TIDE_SQL_TASK_LIST, err,
                              tide_bind_text("status", request->status)));
    if (request->before_id[0]) {
        tide_query_bind_text(query, "before_id", request->before_id);
        tide_query_bind_time(query, "before_at", request->before_at_us);
    }
    tide_query_bind_i64(query, "limit", request->limit < PAGE ? request->limit : PAGE);
    tide_status status = TIDE_OK;
    while (request->arena.used_len < TIDE_ITEM_PAGE_MAX &&
           (status = tide_query_step(query, err)) == TIDE_OK)
        TIDE_TRY(read_task(query, &request->arena, &request->rows[request->count++], err));
    request->is_last = status == TIDE_NONE && request->count < PAGE;
    return status < TIDE_OK ? status : TIDE_OK;
}

static tide_status list_pages(tide_store *store, list_request *request, tide_task_fn *fn, void *arg,
                              tide_error *err)
{
    while (request->limit > 0) {
        TIDE_TRY(tide_store_read(store, read_page, request, err));
        for (int i = 0; i < request->count; i++)
            TIDE_TRY(tide_callback_check(fn(arg, &request->rows[i], err), err));
        if (request->is_last || request->count == 0)
            break;
        const tide_task *last = &request->rows[request->count - 1];
        (void)snprintf(request->before_id, sizeof request->before_id, "%s", last->task_id);
        request->before_at_us = last->created_at_us;
        request->limit -= request->count;
    }
    return TIDE_OK;
}

tide_status tide_task_list(tide_store *store, const char *status, int64_t limit, tide_task_fn *fn,
                           void *arg, tide_error *err)
{
    TIDE_NEED(store && fn, err);
    static const char *const statuses[] = {"pending", "running",   "succeeded",
                                           "failed",  "cancelled", NULL};
    TIDE_TRY(tide_item_check_range("limit", limit, 0, INT64_MAX, err));
    TIDE_TRY(tide_item_check_word("a status of a task", status, statuses, err));
    TIDE_CLEANUP(tide_freep) list_request *request = calloc(1, sizeof *request);
    if (!request)
        return tide_no_memory(err);
    request->status = status;
    request->limit = limit > 0 ? limit : 100;
    tide_arena_init(&request->arena, TIDE_ITEM_PAGE_MAX + TIDE_ITEM_ROW_MAX);
    const tide_status listed = list_pages(store, request, fn, arg, err);
    tide_arena_done(&request->arena);
    return listed;
}

/* ---- ending ---- */

typedef struct end_request {
    const char *task_id;
    bool is_failed;
    bool cancel_rest;
    bool is_forced;
    tide_sequence_range event; /* of a delete */
} end_request;

static tide_status fail_missing(const char *task_id, tide_error *err)
{
    return tide_fail(err, TIDE_E_NOT_FOUND, "there is no task %s", task_id);
}

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

static tide_status cancel_task(tide_tx *tx, void *arg, tide_error *err)
{
    const end_request *request = arg;
    const tide_status locked = lock_live(tx, request->task_id, "cancelled", err);
    if (locked != TIDE_OK)
        return locked < TIDE_OK ? locked : TIDE_OK;
    return tide_tx_exec(tx, TIDE_SQL_TASK_CANCEL, NULL, err,
                        tide_bind_text("task_id", request->task_id), tide_bind_now("now"));
}

tide_status tide_task_cancel(tide_store *store, const char *task_id, tide_error *err)
{
    TIDE_NEED(store, err);
    TIDE_TRY(tide_item_check_id("a task's id", task_id, err));
    end_request request = {.task_id = task_id};
    return tide_store_write(store, cancel_task, &request, err);
}

static tide_status cancel_items(tide_tx *tx, const char *task_id, int64_t now_us, tide_error *err)
{
    return tide_tx_exec(tx, TIDE_SQL_TASK_CANCEL_ITEMS, NULL, err,
                        tide_bind_text("task_id", task_id), tide_bind_time("now", now_us),
                        tide_bind_i64("floor", tide_lease_token_floor(tx)));
}

static tide_status finish_task(tide_tx *tx, void *arg, tide_error *err)
{
    const end_request *request = arg;
    const char *wanted = request->is_failed ? "failed" : "succeeded";
    const tide_status locked = lock_live(tx, request->task_id, wanted, err);
    if (locked != TIDE_OK)
        return locked < TIDE_OK ? locked : TIDE_OK;
    tide_task items = {.task_id = request->task_id};
    TIDE_TRY(count_items(tx, request->task_id, &items, err));
    const int64_t unfinished = items.pending + items.in_progress + items.expired;
    if (unfinished > 0 && !request->cancel_rest)
        return tide_fail(err, TIDE_E_CONFLICT,
                         "task %s has %" PRId64 " unfinished items: finish or cancel them first",
                         request->task_id, unfinished);
    int64_t now_us = 0;
    TIDE_TRY(tide_tx_now(tx, &now_us, err));
    if (unfinished > 0)
        TIDE_TRY(cancel_items(tx, request->task_id, now_us, err));
    return tide_tx_exec(tx, TIDE_SQL_TASK_END, NULL, err,
                        tide_bind_text("task_id", request->task_id),
                        tide_bind_text("status", wanted), tide_bind_time("now", now_us));
}

tide_status tide_task_finish(tide_store *store, const char *task_id, bool is_failed,
                             bool cancel_rest, tide_error *err)
{
    TIDE_NEED(store, err);
    TIDE_TRY(tide_item_check_id("a task's id", task_id, err));
    end_request request = {.task_id = task_id, .is_failed = is_failed, .cancel_rest = cancel_rest};
    return tide_store_write(store, finish_task, &request, err);
}

/* ---- removing ---- */

static tide_status check_forks(tide_tx *tx, const char *task_id, tide_error *err)
{
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    const tide_status status =
        tide_tx_one(&query, tx, TIDE_SQL_TASK_FORK, err, tide_bind_text("task_id", task_id));
    if (status != TIDE_OK)
        return status < TIDE_OK ? status : TIDE_OK;
    const tide_view fork = tide_query_col_text(query);
    return tide_fail(err, TIDE_E_CONFLICT,
                     "task %.*s is a fork of %s and shares its history: delete the fork first",
                     (int)fork.len, fork.ptr, task_id);
}

/* Nobody adds to the task from here on. SQLite has one writer anyhow. */
static tide_status hold_everything(tide_tx *tx, const char *task_id, tide_error *err)
{
    if (tide_store_engine(tide_tx_store(tx)) != TIDE_ENGINE_POSTGRES)
        return TIDE_OK;
    TIDE_TRY(
        tide_tx_exec(tx, TIDE_SQL_TASK_HOLD_ITEMS, NULL, err, tide_bind_text("task_id", task_id)));
    return tide_tx_exec(tx, TIDE_SQL_TASK_HOLD_HEAD, NULL, err, tide_bind_text("task_id", task_id));
}

/* Its checkpoints go with it: whoever follows the journal is told. */
static tide_status tell_followers(tide_tx *tx, end_request *request, tide_error *err)
{
    TIDE_TRY(hold_everything(tx, request->task_id, err));
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    TIDE_TRY(tide_tx_one(&query, tx, TIDE_SQL_TASK_CHECKPOINTS, err,
                         tide_bind_text("task_id", request->task_id)));
    tide_journal_event event = {.kind = TIDE_JOURNAL_DELETED, .task_id = request->task_id};
    event.count = tide_query_col_i64(query);
    event.first_global = tide_query_col_i64(query);
    event.last_global = tide_query_col_i64(query);
    return event.count == 0 ? TIDE_OK : tide_journal_event_add(tx, &event, &request->event, err);
}

static tide_status delete_task(tide_tx *tx, void *arg, tide_error *err)
{
    end_request *request = arg;
    TIDE_CLEANUP(tide_query_endp) tide_query *lock = NULL;
    const tide_status status = tide_tx_one(&lock, tx, TIDE_SQL_TASK_LOCK, err,
                                           tide_bind_text("task_id", request->task_id));
    TIDE_TRY(status);
    if (status == TIDE_NONE)
        return fail_missing(request->task_id, err);
    TIDE_TRY(check_forks(tx, request->task_id, err));
    tide_task items = {.task_id = request->task_id};
    TIDE_TRY(count_items(tx, request->task_id, &items, err));
    if (items.in_progress > 0 && !request->is_forced)
        return tide_fail(err, TIDE_E_CONFLICT,
                         "%" PRId64 " items of task %s are in progress: cancel it first, or force",
                         items.in_progress, request->task_id);
    TIDE_TRY(tell_followers(tx, request, err));
    return tide_tx_exec(tx, TIDE_SQL_TASK_DELETE, NULL, err,
                        tide_bind_text("task_id", request->task_id));
}

tide_status tide_task_delete(tide_store *store, const char *task_id, bool is_forced,
                             tide_error *err)
{
    TIDE_NEED(store, err);
    TIDE_TRY(tide_item_check_id("a task's id", task_id, err));
    end_request request = {.task_id = task_id, .is_forced = is_forced};
    return tide_store_write(store, delete_task, &request, err);
}
