/* add_dedupe.c - of a batch of items: what is there already, and do the tasks take more? */
#include "work/add.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "tidemark_sql.h"

/* ---- by id ---- */

static bool is_same_text(const char *a, tide_view b, bool is_b_null)
{
    return a ? !is_b_null && tide_view_equal(tide_view_of(a), b) : is_b_null;
}

static bool is_same_id(const tide_item_plan *a, const tide_item_plan *b)
{
    return strcmp(a->item->work_item_id, b->item->work_item_id) == 0;
}

static tide_status fail_taken(const tide_item_plan *plan, tide_error *err)
{
    return tide_fail(err, TIDE_E_EXISTS,
                     "there is a work item %s already, with another task, type or input",
                     plan->item->work_item_id);
}

/* An id given twice in one batch must say the same twice. */
static tide_status check_repeated(const tide_item_batch *b, tide_error *err)
{
    for (int i = 1; i < b->id_count; i++) {
        const tide_item_plan *first = b->by_id[i - 1];
        const tide_item_plan *plan = b->by_id[i];
        if (is_same_id(first, plan) &&
            (strcmp(first->task_id, plan->task_id) != 0 ||
             strcmp(first->item->work_type, plan->item->work_type) != 0 ||
             !is_same_text(plan->item->input, tide_view_of(first->item->input),
                           !first->item->input)))
            return fail_taken(plan, err);
    }
    return TIDE_OK;
}

static tide_status mark_seen_row(tide_item_batch *b, tide_query *query, tide_error *err)
{
    tide_item_plan *plan = tide_item_batch_find(b, tide_query_col_text(query));
    if (!plan)
        return tide_fail(err, TIDE_E_DAMAGED, "a work item was found under an id of another");
    const bool is_same_task =
        tide_view_equal(tide_query_col_text(query), tide_view_of(plan->task_id));
    const bool is_same_type =
        tide_view_equal(tide_query_col_text(query), tide_view_of(plan->item->work_type));
    const bool has_no_input = tide_query_col_is_null(query);
    const bool is_same_input =
        is_same_text(plan->item->input, tide_query_col_text(query), has_no_input);
    if (!is_same_task || !is_same_type || !is_same_input)
        return fail_taken(plan, err);
    plan->added->is_existing = true;
    return TIDE_OK;
}

static tide_status mark_seen(tide_item_batch *b, tide_error *err)
{
    const char **ids = tide_arena_alloc(&b->arena, (size_t)b->id_count * sizeof *ids);
    if (!ids)
        return tide_no_memory(err);
    for (int i = 0; i < b->id_count; i++)
        ids[i] = b->by_id[i]->item->work_item_id;
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    TIDE_TRY(tide_query_begin(&query, b->tx, TIDE_SQL_WORK_SEEN, err));
    TIDE_TRY(tide_item_bind_texts(query, "ids", ids, b->id_count, false, err));
    TIDE_EACH(tide_query_step(query, err))
        TIDE_TRY(mark_seen_row(b, query, err));
    return TIDE_OK;
}

/* ---- by unique key ---- */

static void become(tide_item_plan *plan, const char *id)
{
    (void)snprintf(plan->added->work_item_id, sizeof plan->added->work_item_id, "%s", id);
    plan->added->is_existing = true;
}

static bool has_key(const tide_item_plan *plan, const char *type, const char *key)
{
    return strcmp(plan->item->work_type, type) == 0 && strcmp(plan->item->unique_key, key) == 0;
}

static tide_status mark_live_row(tide_item_batch *b, tide_query *query, tide_error *err)
{
    tide_row row = {.query = query, .arena = &b->arena};
    const char *type = tide_row_text(&row);
    const char *key = tide_row_text(&row);
    const char *id = tide_row_text(&row);
    TIDE_TRY(tide_row_end(&row, err));
    for (int i = 0; i < b->key_count; i++)
        if (!b->by_key[i]->added->is_existing && has_key(b->by_key[i], type, key))
            become(b->by_key[i], id);
    return TIDE_OK;
}

/* A live item of the same type and key stands for the new one. */
static tide_status mark_live(tide_item_batch *b, tide_error *err)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer list = tide_buffer_of(TIDE_ITEM_LIST_MAX);
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    tide_json json;
    tide_json_init(&json, &list);
    tide_json_array_begin(&json);
    for (int i = 0; i < b->key_count; i++) {
        tide_json_array_begin(&json);
        tide_json_text(&json, b->by_key[i]->item->work_type);
        tide_json_text(&json, b->by_key[i]->item->unique_key);
        tide_json_array_end(&json);
    }
    tide_json_array_end(&json);
    TIDE_TRY(tide_query_begin(&query, b->tx, TIDE_SQL_WORK_LIVE_KEYS, err));
    TIDE_TRY(tide_item_bind_list(query, "keys", &json, err));
    TIDE_EACH(tide_query_step(query, err))
        TIDE_TRY(mark_live_row(b, query, err));
    return TIDE_OK;
}

/* A key given twice in one batch: the second stands for the first new one. (What is live already was found by then. An
 * earlier one that was found by its id may have ended: it keeps nobody from running.) An id given twice stands for
 * the first, wherever that has ended up. */
static void mark_repeated(tide_item_batch *b)
{
    const tide_item_plan *fresh = NULL;
    for (int i = 1; i < b->id_count; i++)
        if (is_same_id(b->by_id[i - 1], b->by_id[i]))
            b->by_id[i]->added->is_existing = true;
    for (int i = 0; i < b->key_count; i++) {
        tide_item_plan *plan = b->by_key[i];
        if (plan->added->is_existing)
            continue;
        if (fresh && has_key(plan, fresh->item->work_type, fresh->item->unique_key))
            become(plan, fresh->added->work_item_id);
        else
            fresh = plan;
    }
    for (int i = 1; i < b->id_count; i++)
        if (is_same_id(b->by_id[i - 1], b->by_id[i]))
            become(b->by_id[i], b->by_id[i - 1]->added->work_item_id);
}

tide_status tide_item_batch_mark_existing(tide_item_batch *b, tide_error *err)
{
    if (b->id_count > 0) {
        TIDE_TRY(check_repeated(b, err));
        TIDE_TRY(mark_seen(b, err));
    }
    if (b->key_count > 0)
        TIDE_TRY(mark_live(b, err));
    mark_repeated(b);
    return TIDE_OK;
}

/* ---- tasks ---- */

static tide_status check_task(tide_query *query, tide_error *err)
{
    const tide_view task_id = tide_query_col_text(query);
    const tide_view status = tide_query_col_text(query);
    if (tide_view_equal(status, tide_view_of("pending")) ||
        tide_view_equal(status, tide_view_of("running")))
        return TIDE_OK;
    return tide_fail(err, TIDE_E_CONFLICT, "task %.*s has ended (%.*s): it takes no more items",
                     (int)task_id.len, task_id.ptr, (int)status.len, status.ptr);
}

static tide_status fail_missing(tide_tx *tx, const char *const *ids, int count, tide_error *err)
{
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    TIDE_TRY(tide_query_begin(&query, tx, TIDE_SQL_TASK_FIND, err));
    for (int i = 0; i < count; i++) {
        tide_query_reset(query);
        tide_query_bind_text(query, "task_id", ids[i]);
        const tide_status status = tide_query_one(query, err);
        TIDE_TRY(status);
        if (status == TIDE_NONE)
            return tide_fail(err, TIDE_E_NOT_FOUND, "there is no task %s", ids[i]);
    }
    return tide_fail(err, TIDE_E_SERIALIZATION, "a task was made or removed meanwhile");
}

static int compare_texts(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The distinct tasks of the new items. */
static int list_tasks(const tide_item_batch *b, const char **ids)
{
    int count = 0;
    for (int i = 0; i < b->count; i++)
        if (!b->plans[i].added->is_existing)
            ids[count++] = b->plans[i].task_id;
    qsort(ids, (size_t)count, sizeof *ids, compare_texts);
    int distinct = 0;
    for (int i = 0; i < count; i++)
        if (distinct == 0 || strcmp(ids[distinct - 1], ids[i]) != 0)
            ids[distinct++] = ids[i];
    return distinct;
}

tide_status tide_item_batch_check_tasks(tide_item_batch *b, tide_error *err)
{
    const char **ids = tide_arena_alloc(&b->arena, (size_t)b->count * sizeof *ids);
    if (!ids)
        return tide_no_memory(err);
    const int count = list_tasks(b, ids);
    if (count == 0)
        return TIDE_OK;
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    TIDE_TRY(tide_query_begin(&query, b->tx, TIDE_SQL_WORK_TASKS, err));
    TIDE_TRY(tide_item_bind_texts(query, "ids", ids, count, false, err));
    int found = 0;
    tide_status status = TIDE_OK;
    for (; (status = tide_query_step(query, err)) == TIDE_OK; found++)
        TIDE_TRY(check_task(query, err));
    TIDE_TRY(status);
    return found == count ? TIDE_OK : fail_missing(b->tx, ids, count, err);
}
