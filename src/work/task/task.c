/* task.c - tasks: what items and checkpoints belong to. */
#include <tidemark/work.h>

#include <stdio.h>

#include "base/cleanup.h"
#include "base/interface/caller.h"
#include "base/interface/sized.h"
#include "base/text/uuid.h"
#include "store/statement.h"
#include "tidemark_sql.h"
#include "work/item.h"
#include "work/task/task_end.h"

enum { PAGE = 200 };

/* ---- making ---- */

typedef struct create_request {
    const tide_task_new *task;
    const char *task_id;
    bool was_made; /* by the run before */
} create_request;

static tide_status create_task(tide_tx *tx, void *arg, tide_error *err)
{
    create_request *request = arg;
    int64_t changed = 0;
    TIDE_TRY(tide_tx_exec(
        tx, TIDE_SQL_TASK_CREATE, &changed, err, tide_bind_text("task_id", request->task_id),
        tide_bind_text("title", request->task->title ? request->task->title : ""),
        tide_bind_text("metadata", request->task->metadata), tide_bind_now("now")));
    if (changed == 0 && !(request->was_made && tide_tx_has_lost_run(tx)))
        return tide_fail(err, TIDE_E_EXISTS, "there is a task %s already", request->task_id);
    request->was_made = true;
    return TIDE_OK;
}

tide_status tide_task_create(tide_store *store, const tide_task_new *given,
                             char out_task_id[TIDE_WORK_ID_MAX + 1], tide_error *err)
{
    TIDE_NEED(store && out_task_id, err);
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

tide_status tide_task_count_items(tide_tx *tx, const char *task_id, tide_task *out, tide_error *err)
{
    TIDE_QUERY(query, tx, TIDE_SQL_TASK_ITEMS, err, tide_bind_text("task_id", task_id));
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
    TIDE_QUERY_ONE(query, tx, TIDE_SQL_TASK_FIND, err, tide_bind_text("task_id", request->task_id));
    TIDE_TRY(read_task(query, &request->arena, &request->found, err));
    return tide_task_count_items(tx, request->task_id, &request->found, err);
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
    TIDE_QUERY(query, tx, TIDE_SQL_TASK_LIST, err, tide_bind_text("status", request->status));
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
    TIDE_CLEANUP(tide_freep) TIDE_NEW(list_request, request, err);
    request->status = status;
    request->limit = limit > 0 ? limit : 100;
    tide_arena_init(&request->arena, TIDE_ITEM_PAGE_MAX + TIDE_ITEM_ROW_MAX);
    const tide_status listed = list_pages(store, request, fn, arg, err);
    tide_arena_done(&request->arena);
    return listed;
}
