/* type.c - types of work: paused and resumed. */
#include <tidemark/work.h>

#include <stdlib.h>

#include "base/cleanup.h"
#include "base/interface/caller.h"
#include "base/list.h"
#include "store/statement.h"
#include "tidemark_sql.h"
#include "work/item.h"

tide_status tide_work_pause(tide_store *store, const char *work_type, const char *reason,
                            tide_error *err)
{
    TIDE_NEED(store, err);
    TIDE_TRY(tide_item_check_name("a work type", work_type, TIDE_WORK_TYPE_MAX, err));
    TIDE_TRY(tide_item_check_text("a reason", reason, TIDE_ITEM_REASON_MAX, err));
    return tide_store_exec(store, TIDE_SQL_WORK_PAUSE, NULL, err, tide_bind_text("type", work_type),
                           tide_bind_text("reason", reason), tide_bind_now("now"));
}

static tide_status resume_type(tide_tx *tx, void *arg, tide_error *err)
{
    const char *const *work_type = arg;
    TIDE_TRY(tide_tx_exec(tx, TIDE_SQL_WORK_RESUME, NULL, err, tide_bind_text("type", *work_type)));
    tide_item_wakes wakes = {.is_broadcast = true};
    tide_item_notify(&wakes, tx);
    return TIDE_OK;
}

tide_status tide_work_resume(tide_store *store, const char *work_type, tide_error *err)
{
    TIDE_NEED(store, err);
    TIDE_TRY(tide_item_check_name("a work type", work_type, TIDE_WORK_TYPE_MAX, err));
    return tide_store_write(store, resume_type, (void *)&work_type, err);
}

typedef struct list_request {
    tide_arena arena;
    tide_work_type *types;
    int count;
} list_request;

static tide_status add_type(list_request *request, tide_query *query, tide_error *err)
{
    TIDE_TRY(tide_list_room(&request->types, request->count, sizeof *request->types, TIDE_LIST_MAX,
                            err));
    tide_row row = {.query = query, .arena = &request->arena};
    tide_work_type *type = &request->types[request->count++];
    type->work_type = tide_row_text(&row);
    type->is_paused = tide_query_col_bool(query);
    type->pause_reason = tide_row_text(&row);
    type->paused_at_us = tide_row_time(&row);
    return tide_row_end(&row, err);
}

static tide_status read_types(tide_tx *tx, void *arg, tide_error *err)
{
    list_request *request = arg;
    request->count = 0;
    tide_arena_reset(&request->arena);
    TIDE_QUERY_BY(query, tide_query_begin, tx, TIDE_SQL_WORK_TYPES_LIST, err);
    TIDE_EACH(tide_query_step(query, err))
        TIDE_TRY(add_type(request, query, err));
    return TIDE_OK;
}

tide_status tide_work_types(tide_store *store, tide_work_type_fn *fn, void *arg, tide_error *err)
{
    TIDE_NEED(store && fn, err);
    list_request request = {.count = 0};
    tide_arena_init(&request.arena, TIDE_ITEM_ROW_MAX);
    tide_status status = tide_store_read(store, read_types, &request, err);
    for (int i = 0; i < request.count && status == TIDE_OK; i++)
        status = tide_callback_check(fn(arg, &request.types[i], err), err);
    tide_arena_done(&request.arena);
    free(request.types);
    return status;
}
