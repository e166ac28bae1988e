/* worker_unfinished.c - the items that a worker has begun and that have not ended.
 *
 * An attempt that failed with retries left, was given back or lost its lease leaves an item behind
 * that this or another worker continues. A worker with until_empty stays until it has ended. Also a
 * claim of unknown outcome may have begun items: they are found by the worker's name. */
#include <string.h>

#include "base/list.h"
#include "base/lock.h"
#include "worker/worker.h"

void tide_worker_note_unfinished(tide_worker *worker, const char *work_item_id)
{
    if (!worker->options.until_empty)
        return;
    TIDE_HOLD(&worker->lock);
    tide_worker_unfinished *list = &worker->unfinished;
    bool is_known = false;
    for (int i = 0; i < list->count && !is_known; i++)
        is_known = strcmp(list->ids[i], work_item_id) == 0;
    /* Without memory the item is forgotten here, never in the store. */
    if (!is_known &&
        tide_list_room(&list->ids, list->count, sizeof *list->ids, TIDE_LIST_MAX, NULL) >= TIDE_OK)
        (void)strcpy(list->ids[list->count++], work_item_id);
}

static bool copy_last(tide_worker *worker, char out[TIDE_WORK_ID_MAX + 1])
{
    TIDE_HOLD(&worker->lock);
    const tide_worker_unfinished *list = &worker->unfinished;
    const bool is_some = list->count > 0;
    if (is_some)
        (void)strcpy(out, list->ids[list->count - 1]);
    return is_some;
}

static void drop_last(tide_worker *worker)
{
    TIDE_HOLD(&worker->lock);
    worker->unfinished.count--;
}

static tide_status note_status(void *arg, const tide_work_item *item, tide_error *err)
{
    (void)err;
    bool *is_open = arg;
    *is_open = strcmp(item->status, "pending") == 0 || strcmp(item->status, "in_progress") == 0;
    return TIDE_OK;
}

/* Only while no job is held, so that no other thread adds to the list. */
tide_status tide_worker_find_unfinished(tide_worker *worker, bool *is_some, tide_error *err)
{
    char id[TIDE_WORK_ID_MAX + 1];
    *is_some = false;
    while (!*is_some && copy_last(worker, id)) {
        TIDE_TRY(tide_work_find(worker->store, id, note_status, is_some, err));
        if (!*is_some)
            drop_last(worker);
    }
    if (*is_some || !worker->has_unknown_claim)
        return TIDE_OK;
    const tide_work_filter own = {TIDE_WORK_FILTER_INIT, .worker = worker->options.worker,
                                  .status = "in_progress", .limit = 1};
    TIDE_TRY(tide_work_list(worker->store, &own, note_status, is_some, err));
    worker->has_unknown_claim = *is_some;
    return TIDE_OK;
}
