/* list.c - items and their attempts as they are: one, or many, newest first. */
#include <tidemark/work.h>

#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/interface/caller.h"
#include "base/interface/sized.h"
#include "base/list.h"
#include "base/text/timefmt.h"
#include "store/statement.h"
#include "tidemark_sql.h"
#include "work/item.h"

enum { PAGE = 100, ATTEMPTS_PAGE = 64 };

/* ---- one ---- */

typedef struct find_request {
    const char *id;
    tide_work_item found;
    tide_arena arena;
} find_request;

static tide_status find_item(tide_tx *tx, void *arg, tide_error *err)
{
    find_request *request = arg;
    tide_arena_reset(&request->arena);
    TIDE_QUERY_ONE(query, tx, TIDE_SQL_WORK_FIND, err, tide_bind_text("id", request->id));
    return tide_item_read(query, &request->arena, &request->found, NULL, err);
}

tide_status tide_work_find(tide_store *store, const char *work_item_id, tide_work_item_fn *fn,
                           void *arg, tide_error *err)
{
    TIDE_NEED(store && fn, err);
    TIDE_TRY(tide_item_check_id("a work item's id", work_item_id, err));
    find_request request = {.id = work_item_id};
    tide_arena_init(&request.arena, TIDE_ITEM_ROW_MAX);
    tide_status status = tide_store_read(store, find_item, &request, err);
    if (status == TIDE_OK)
        status = tide_callback_check(fn(arg, &request.found, err), err);
    tide_arena_done(&request.arena);
    return status;
}

/* ---- many ---- */

typedef struct list_request {
    const tide_work_filter *filter;
    int64_t left;
    char before_id[TIDE_WORK_ID_MAX + 1]; /* "": from the newest */
    int64_t before_at_us;
    int64_t before_row;
    bool is_last;
    int count;
    int64_t last_row;
    tide_work_item rows[PAGE];
    tide_arena arena;
} list_request;

static tide_status begin_page(tide_query **out, tide_tx *tx, const list_request *request,
                              tide_error *err)
{
    const tide_work_filter *filter = request->filter;
    TIDE_TRY(tide_query_begin(out, tx,
                              filter->task_id ? TIDE_SQL_WORK_LIST_TASK : TIDE_SQL_WORK_LIST, err));
    tide_query *query = *out;
    if (filter->task_id)
        tide_query_bind_text(query, "task_id", filter->task_id);
    tide_query_bind_text(query, "type", filter->work_type);
    tide_query_bind_text(query, "status", filter->status);
    tide_query_bind_text(query, "failure_kind", filter->failure_kind);
    tide_query_bind_text(query, "worker", filter->worker);
    if (filter->ended_since_us > 0)
        tide_query_bind_time(query, "ended_since", filter->ended_since_us);
    tide_query_bind_i64(query, "before_row", request->before_row);
    if (request->before_id[0]) {
        tide_query_bind_text(query, "before_id", request->before_id);
        tide_query_bind_time(query, "before_at", request->before_at_us);
    }
    tide_query_bind_i64(query, "limit", request->left < PAGE ? request->left : PAGE);
    return TIDE_OK;
}

static tide_status read_page(tide_tx *tx, void *arg, tide_error *err)
{
    list_request *request = arg;
    request->count = 0;
    tide_arena_reset(&request->arena);
    TIDE_QUERY_BY(query, begin_page, tx, request, err);
    tide_status status = TIDE_OK;
    while (request->arena.used_len < TIDE_ITEM_PAGE_MAX &&
           (status = tide_query_step(query, err)) == TIDE_OK) {
        TIDE_TRY(tide_item_read(query, &request->arena, &request->rows[request->count],
                                &request->last_row, err));
        request->count++;
    }
    request->is_last = status == TIDE_NONE && request->count < PAGE;
    return status < TIDE_OK ? status : TIDE_OK;
}

/* Where the page behind this item begins. */
static tide_status find_position(tide_tx *tx, void *arg, tide_error *err)
{
    list_request *request = arg;
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    const tide_status status = tide_tx_one(&query, tx, TIDE_SQL_WORK_POSITION, err,
                                           tide_bind_text("id", request->before_id));
    TIDE_TRY(status);
    if (status == TIDE_NONE)
        return tide_item_fail_missing(request->before_id, err);
    request->before_row = tide_query_col_i64(query);
    request->before_at_us = tide_query_col_time(query);
    return TIDE_OK;
}

static tide_status list_pages(tide_store *store, list_request *request, tide_work_item_fn *fn,
                              void *arg, tide_error *err)
{
    if (request->before_id[0])
        TIDE_TRY(tide_store_read(store, find_position, request, err));
    while (request->left > 0) {
        TIDE_TRY(tide_store_read(store, read_page, request, err));
        for (int i = 0; i < request->count; i++)
            TIDE_TRY(tide_callback_check(fn(arg, &request->rows[i], err), err));
        if (request->is_last || request->count == 0)
            break;
        const tide_work_item *last = &request->rows[request->count - 1];
        (void)snprintf(request->before_id, sizeof request->before_id, "%s", last->work_item_id);
        request->before_at_us = last->created_at_us;
        request->before_row = request->last_row;
        request->left -= request->count;
    }
    return TIDE_OK;
}

static tide_status check_filter(const tide_work_filter *filter, tide_error *err)
{
    static const char *const statuses[] = {"pending", "in_progress", "completed",
                                           "failed",  "expired",     NULL};
    static const char *const kinds[] = {"error",     "exhausted",  "quarantined",
                                        "cancelled", "dependency", NULL};
    TIDE_TRY(tide_item_check_word("a status", filter->status, statuses, err));
    TIDE_TRY(tide_item_check_word("a failure kind", filter->failure_kind, kinds, err));
    return tide_item_check_range("ended_since", filter->ended_since_us, 0, TIDE_TIME_MAX_US, err);
}

tide_status tide_work_list(tide_store *store, const tide_work_filter *given, tide_work_item_fn *fn,
                           void *arg, tide_error *err)
{
    TIDE_NEED(store && fn, err);
    tide_work_filter own;
    TIDE_TRY(TIDE_SIZED_COPY(&own, given, tide_work_filter, err));
    const tide_work_filter *filter = &own;
    TIDE_TRY(tide_item_check_range("limit", filter->limit, 0, INT64_MAX, err));
    TIDE_TRY(check_filter(filter, err));
    TIDE_CLEANUP(tide_freep) TIDE_NEW(list_request, request, err);
    request->filter = filter;
    request->left = filter->limit > 0 ? filter->limit : 100;
    request->before_row = INT64_MAX;
    if (filter->before_id) {
        TIDE_TRY(tide_item_check_id("a work item's id", filter->before_id, err));
        (void)snprintf(request->before_id, sizeof request->before_id, "%s", filter->before_id);
    }
    tide_arena_init(&request->arena, TIDE_ITEM_PAGE_MAX + TIDE_ITEM_ROW_MAX);
    const tide_status status = list_pages(store, request, fn, arg, err);
    tide_arena_done(&request->arena);
    return status;
}

/* ---- dependencies ---- */

typedef struct dependencies_request {
    const char *id;
    char (*ids)[TIDE_WORK_ID_MAX + 1];
    int count;
} dependencies_request;

static tide_status read_dependencies(tide_tx *tx, void *arg, tide_error *err)
{
    dependencies_request *request = arg;
    request->count = 0;
    TIDE_QUERY(query, tx, TIDE_SQL_WORK_DEPENDENCIES_OF, err, tide_bind_text("id", request->id));
    TIDE_EACH(tide_query_step(query, err)) {
        TIDE_TRY(tide_list_room(&request->ids, request->count, sizeof *request->ids, TIDE_LIST_MAX,
                                err));
        tide_view_copy(request->ids[request->count++], sizeof *request->ids,
                       tide_query_col_text(query));
    }
    return TIDE_OK;
}

tide_status tide_work_dependencies(tide_store *store, const char *work_item_id,
                                   tide_work_dependency_fn *fn, void *arg, tide_error *err)
{
    TIDE_NEED(store && fn, err);
    TIDE_TRY(tide_item_check_id("a work item's id", work_item_id, err));
    dependencies_request request = {.id = work_item_id};
    tide_status status = tide_store_read(store, read_dependencies, &request, err);
    for (int i = 0; i < request.count && status >= TIDE_OK; i++)
        status = tide_callback_check(fn(arg, request.ids[i], err), err);
    free(request.ids);
    return status;
}

/* ---- attempts ---- */

typedef struct attempts_request {
    const char *id;
    int64_t after_token;
    int count;
    tide_work_attempt rows[ATTEMPTS_PAGE];
    tide_arena arena;
} attempts_request;

static tide_status read_attempts(tide_tx *tx, void *arg, tide_error *err)
{
    attempts_request *request = arg;
    request->count = 0;
    tide_arena_reset(&request->arena);
    TIDE_QUERY(query, tx, TIDE_SQL_WORK_ATTEMPTS_LIST, err, tide_bind_text("id", request->id),
               tide_bind_i64("after", request->after_token), tide_bind_i64("limit", ATTEMPTS_PAGE));
    TIDE_EACH(tide_query_step(query, err)) {
        tide_row row = {.query = query, .arena = &request->arena};
        tide_work_attempt *attempt = &request->rows[request->count++];
        attempt->attempt = tide_query_col_i64(query);
        attempt->lease_token = tide_query_col_i64(query);
        attempt->worker = tide_row_text(&row);
        attempt->via = tide_row_text(&row);
        attempt->outcome = tide_row_text(&row);
        attempt->error_message = tide_row_text(&row);
        attempt->started_at_us = tide_row_time(&row);
        attempt->ended_at_us = tide_row_time(&row);
        TIDE_TRY(tide_row_end(&row, err));
    }
    return TIDE_OK;
}

static tide_status list_attempts(tide_store *store, attempts_request *request,
                                 tide_work_attempt_fn *fn, void *arg, tide_error *err)
{
    do {
        TIDE_TRY(tide_store_read(store, read_attempts, request, err));
        for (int i = 0; i < request->count; i++)
            TIDE_TRY(tide_callback_check(fn(arg, &request->rows[i], err), err));
        if (request->count > 0)
            request->after_token = request->rows[request->count - 1].lease_token;
    } while (request->count == ATTEMPTS_PAGE);
    return TIDE_OK;
}

tide_status tide_work_attempts(tide_store *store, const char *work_item_id,
                               tide_work_attempt_fn *fn, void *arg, tide_error *err)
{
    TIDE_NEED(store && fn, err);
    TIDE_TRY(tide_item_check_id("a work item's id", work_item_id, err));
    TIDE_CLEANUP(tide_freep) TIDE_NEW(attempts_request, request, err);
    request->id = work_item_id;
    request->after_token = -1;
    tide_arena_init(&request->arena, TIDE_ITEM_ROW_MAX);
    const tide_status status = list_attempts(store, request, fn, arg, err);
    tide_arena_done(&request->arena);
    return status;
}
