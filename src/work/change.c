/* change.c - changes of many items from outside, by filter: cancel, another priority.
 *
 * Each status that an unfinished item can have is listed page by page, and a page is changed by one
 * transaction, which leaves out what has ended since. Items in progress come first: what is released
 * meanwhile is found again among those that wait. */
#include <tidemark/work.h>

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/interface/caller.h"
#include "base/interface/sized.h"
#include "core/lease_clock.h"
#include "store/statement.h"
#include "tidemark_sql.h"
#include "work/item.h"

enum { STEP = 500 }; /* items that one transaction changes */

typedef char item_id[TIDE_WORK_ID_MAX + 1];

typedef struct change_run {
    tide_store *store;
    const tide_work_change *request;
    bool is_cancel;
    tide_work_changed_fn *fn;
    void *arg;
    int64_t left; /* of the filter's limit */
    /* The page under way: */
    item_id listed[STEP];
    int listed_count;
    item_id changed[STEP];
    int changed_count;
} change_run;

/* ---- one transaction ---- */

static tide_status begin_change(tide_query **query, tide_tx *tx, const change_run *c,
                                tide_error *err)
{
    const char *ids[STEP];
    for (int i = 0; i < c->listed_count; i++)
        ids[i] = c->listed[i];
    TIDE_TRY(tide_query_begin(
        query, tx, c->is_cancel ? TIDE_SQL_WORK_CANCEL_MANY : TIDE_SQL_WORK_REPRIORITISE, err));
    TIDE_TRY(tide_item_bind_texts(*query, "ids", ids, c->listed_count, false, err));
    if (c->is_cancel) {
        const char *reason = c->request->reason;
        tide_query_bind_text(*query, "reason", reason && *reason ? reason : "Cancelled");
        tide_query_bind_i64(*query, "floor", tide_lease_token_floor(tx));
    } else {
        tide_query_bind_i64(*query, "priority", c->request->priority);
    }
    return TIDE_OK;
}

static tide_status change_page(tide_tx *tx, void *arg, tide_error *err)
{
    change_run *c = arg;
    int64_t now_us = 0;
    c->changed_count = 0;
    TIDE_TRY(tide_tx_now(tx, &now_us, err));
    TIDE_QUERY_BY(query, begin_change, tx, c, err);
    tide_query_bind_time(query, "now", now_us);
    TIDE_EACH(tide_query_step(query, err))
        tide_view_copy(c->changed[c->changed_count++], sizeof(item_id), tide_query_col_text(query));
    tide_query_endp(&query);
    if (!c->is_cancel || c->changed_count == 0)
        return TIDE_OK;
    const char *ids[STEP];
    for (int i = 0; i < c->changed_count; i++)
        ids[i] = c->changed[i];
    return tide_item_end_keys(tx, ids, c->changed_count, err);
}

static tide_status run_page(change_run *c, tide_error *err)
{
    if (c->request->is_dry_run) {
        memcpy(c->changed, c->listed, sizeof c->changed);
        c->changed_count = c->listed_count;
    } else {
        TIDE_TRY(tide_store_write(c->store, change_page, c, err));
    }
    c->left -= c->changed_count;
    for (int i = 0; c->fn && i < c->changed_count; i++)
        TIDE_TRY(tide_callback_check(c->fn(c->arg, c->changed[i], err), err));
    return TIDE_OK;
}

/* ---- which ---- */

static tide_status add_listed(void *arg, const tide_work_item *item, tide_error *err)
{
    change_run *c = arg;
    (void)err;
    tide_view_copy(c->listed[c->listed_count++], sizeof(item_id), tide_view_of(item->work_item_id));
    return TIDE_OK;
}

static tide_status change_status(change_run *c, const char *status, tide_error *err)
{
    item_id last = "";
    do {
        tide_work_filter filter = *c->request->filter;
        filter.status = status;
        filter.limit = c->left < STEP ? c->left : STEP;
        filter.before_id = last[0] ? last : filter.before_id;
        c->listed_count = 0;
        TIDE_TRY(tide_work_list(c->store, &filter, add_listed, c, err));
        if (c->listed_count == 0)
            return TIDE_OK;
        memcpy(last, c->listed[c->listed_count - 1], sizeof last);
        TIDE_TRY(run_page(c, err));
    } while (c->left > 0);
    return TIDE_OK;
}

static tide_status change_filtered(change_run *c, tide_error *err)
{
    static const char *const statuses[] = {"in_progress", "expired", "pending", NULL};
    const char *wanted = c->request->filter->status;
    TIDE_TRY(tide_item_check_word("the status of an unfinished item", wanted, statuses, err));
    for (int i = 0; statuses[i] && c->left > 0; i++)
        if (!wanted || strcmp(wanted, statuses[i]) == 0)
            TIDE_TRY(change_status(c, statuses[i], err));
    return TIDE_OK;
}

/* ---- one ---- */

typedef struct state {
    bool is_live;
    bool is_cancelled;
    char text[16];
} state;

static tide_status keep_state(void *arg, const tide_work_item *item, tide_error *err)
{
    (void)err;
    state *found = arg;
    tide_view_copy(found->text, sizeof found->text, tide_view_of(item->status));
    found->is_live = strcmp(item->status, "completed") != 0 && strcmp(item->status, "failed") != 0;
    found->is_cancelled = item->failure_kind && strcmp(item->failure_kind, "cancelled") == 0;
    return TIDE_OK;
}

static tide_status change_one(change_run *c, tide_error *err)
{
    const char *id = c->request->work_item_id;
    state found = {.is_live = false};
    tide_view_copy(c->listed[0], sizeof(item_id), tide_view_of(id));
    c->listed_count = 1;
    if (!c->request->is_dry_run)
        TIDE_TRY(run_page(c, err));
    if (c->changed_count > 0)
        return TIDE_OK;
    const tide_status status = tide_work_find(c->store, id, keep_state, &found, err);
    TIDE_TRY(status);
    if (status == TIDE_NONE)
        return tide_item_fail_missing(id, err);
    if (found.is_live)
        return run_page(c, err);
    if (c->is_cancel && found.is_cancelled)
        return TIDE_OK;
    return tide_fail(err, TIDE_E_CONFLICT, "work item %s has ended already: it is %s", id,
                     found.text);
}

/* ---- calls ---- */

static tide_status run(tide_store *store, const tide_work_change *given, bool is_cancel,
                       tide_work_changed_fn *fn, void *arg, tide_error *err)
{
    tide_work_change request;
    tide_work_filter filter;
    TIDE_TRY(TIDE_SIZED_COPY(&request, given, tide_work_change, err));
    if ((request.work_item_id == NULL) == (request.filter == NULL))
        return tide_fail(err, TIDE_E_INVALID, "a change takes the id of an item, or a filter");
    TIDE_TRY(tide_item_check_text("a reason", request.reason, TIDE_ITEM_REASON_MAX, err));
    TIDE_TRY(tide_item_check_range("priority", request.priority, -TIDE_ITEM_PRIORITY_MAX,
                                   TIDE_ITEM_PRIORITY_MAX, err));
    TIDE_CLEANUP(tide_freep) TIDE_NEW(change_run, c, err);
    c->store = store;
    c->request = &request;
    c->is_cancel = is_cancel;
    c->fn = fn;
    c->arg = arg;
    if (request.work_item_id) {
        TIDE_TRY(tide_item_check_id("a work item's id", request.work_item_id, err));
        return change_one(c, err);
    }
    TIDE_TRY(TIDE_SIZED_COPY(&filter, request.filter, tide_work_filter, err));
    TIDE_TRY(tide_item_check_range("limit", filter.limit, 0, INT64_MAX, err));
    if (!filter.task_id && !filter.work_type && !filter.status && !filter.worker)
        return tide_fail(err, TIDE_E_INVALID,
                         "the filter names no task, type, status or worker: it would change every "
                         "unfinished item");
    request.filter = &filter;
    c->left = filter.limit ? filter.limit : INT64_MAX;
    return change_filtered(c, err);
}

tide_status tide_work_cancel_many(tide_store *store, const tide_work_change *change,
                                  tide_work_changed_fn *fn, void *arg, tide_error *err)
{
    TIDE_NEED(store, err);
    return run(store, change, true, fn, arg, err);
}

tide_status tide_work_reprioritise(tide_store *store, const tide_work_change *change,
                                   tide_work_changed_fn *fn, void *arg, tide_error *err)
{
    TIDE_NEED(store, err);
    return run(store, change, false, fn, arg, err);
}
