/* add.c - new items: all of a batch or none.
 *
 * The order of steps (add.h) is the order of locks on PostgreSQL: tasks before items. One statement inserts them all.
 * If somebody else was faster with an id or a unique key in between, fewer rows are inserted, and the whole
 * transaction is run again: it then finds the other's item. */
#include "work/add.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tidemark/lease.h>

#include "base/cleanup.h"
#include "base/interface/caller.h"
#include "base/interface/sized.h"
#include "base/text/timefmt.h"
#include "base/text/uuid.h"
#include "store/statement.h"
#include "tidemark_sql.h"

/* ---- what callers give ---- */

static tide_status check_times(const tide_work_spec *item, tide_error *err)
{
    if (item->run_after_us != 0 && item->delay_us != 0)
        return tide_fail(err, TIDE_E_INVALID,
                         "an item has a time (run_after) or a delay, not both");
    TIDE_TRY(tide_item_check_range("run_after", item->run_after_us, 0, TIDE_TIME_MAX_US, err));
    TIDE_TRY(tide_item_check_range("delay", item->delay_us, 0, TIDE_ITEM_DELAY_MAX_US, err));
    if (item->timeout_us == 0)
        return TIDE_OK;
    return tide_item_check_range("timeout", item->timeout_us, TIDE_LEASE_MIN_US, TIDE_LEASE_MAX_US,
                                 err);
}

static tide_status check_item(const tide_work_spec *item, const char *task_id, tide_error *err)
{
    if (item->work_item_id)
        TIDE_TRY(tide_item_check_id("a work item's id", item->work_item_id, err));
    TIDE_TRY(tide_item_check_id("a task's id", task_id, err));
    TIDE_TRY(tide_item_check_name("a work type", item->work_type, TIDE_WORK_TYPE_MAX, err));
    TIDE_TRY(tide_item_check_json("input", item->input, err));
    if (item->title)
        TIDE_TRY(tide_item_check_name("a title", item->title, TIDE_WORK_TITLE_MAX, err));
    if (item->limit_key)
        TIDE_TRY(
            tide_item_check_name("a limit key", item->limit_key, TIDE_WORK_LIMIT_KEY_MAX, err));
    TIDE_TRY(tide_item_check_range("priority", item->priority, -TIDE_ITEM_PRIORITY_MAX,
                                   TIDE_ITEM_PRIORITY_MAX, err));
    if (item->max_retries > 0)
        TIDE_TRY(
            tide_item_check_range("max_retries", item->max_retries, 0, TIDE_ITEM_RETRIES_MAX, err));
    if (item->unique_key)
        TIDE_TRY(tide_item_check_name("a unique key", item->unique_key, TIDE_ITEM_KEY_MAX, err));
    TIDE_TRY(tide_item_check_range("the number of dependencies", item->depends_on_count, 0,
                                   TIDE_WORK_BATCH_MAX, err));
    TIDE_NEED(item->depends_on || item->depends_on_count == 0, err);
    for (int i = 0; i < item->depends_on_count; i++)
        TIDE_TRY(tide_item_check_id("a dependency's id", item->depends_on[i], err));
    return check_times(item, err);
}

/* ---- planning ---- */

static void give_id(tide_item_plan *plan, tide_tx *tx)
{
    tide_work_added *added = plan->added;
    added->is_existing = false;
    if (plan->item->work_item_id) {
        (void)snprintf(added->work_item_id, sizeof added->work_item_id, "%s",
                       plan->item->work_item_id);
        return;
    }
    tide_uuid uuid;
    tide_uuid_v7(tide_store_env(tide_tx_store(tx)), &uuid);
    tide_uuid_format(&uuid, added->work_item_id);
}

static int compare_ids(const void *a, const void *b)
{
    const tide_item_plan *x = *(tide_item_plan *const *)a;
    const tide_item_plan *y = *(tide_item_plan *const *)b;
    const int order = strcmp(x->item->work_item_id, y->item->work_item_id);
    return order ? order : x->position - y->position;
}

static int compare_keys(const void *a, const void *b)
{
    const tide_item_plan *x = *(tide_item_plan *const *)a;
    const tide_item_plan *y = *(tide_item_plan *const *)b;
    int order = strcmp(x->item->work_type, y->item->work_type);
    if (!order)
        order = strcmp(x->item->unique_key, y->item->unique_key);
    return order ? order : x->position - y->position;
}

static tide_status plan_items(tide_item_batch *b, const tide_work_spec *items, tide_work_added *out,
                              tide_error *err)
{
    const size_t count = (size_t)b->count;
    b->plans = tide_arena_alloc(&b->arena, count * sizeof *b->plans);
    b->by_id = tide_arena_alloc(&b->arena, count * sizeof(tide_item_plan *));
    b->by_key = tide_arena_alloc(&b->arena, count * sizeof(tide_item_plan *));
    if (!b->plans || !b->by_id || !b->by_key)
        return tide_no_memory(err);
    for (int i = 0; i < b->count; i++) {
        tide_item_plan *plan = &b->plans[i];
        const char *task_id = items[i].task_id;
        if (!task_id && b->origin)
            task_id = b->origin->task_id;
        /* What is in the store already was checked, or came from plain SQL, whose inputs may be no JSON. */
        if (!b->origin || (!b->origin->retried_from && !b->origin->schedule_name))
            TIDE_TRY(check_item(&items[i], task_id, err));
        *plan = (tide_item_plan){
            .item = &items[i], .task_id = task_id, .added = &out[i], .position = i};
        give_id(plan, b->tx);
        if (items[i].work_item_id)
            b->by_id[b->id_count++] = plan;
        if (items[i].unique_key)
            b->by_key[b->key_count++] = plan;
    }
    qsort(b->by_id, (size_t)b->id_count, sizeof(tide_item_plan *), compare_ids);
    qsort(b->by_key, (size_t)b->key_count, sizeof(tide_item_plan *), compare_keys);
    return TIDE_OK;
}

tide_item_plan *tide_item_batch_find(const tide_item_batch *b, tide_view id)
{
    int low = 0;
    int high = b->id_count;
    while (low < high) {
        const int middle = low + (high - low) / 2;
        const tide_view at = tide_view_of(b->by_id[middle]->item->work_item_id);
        int order = memcmp(at.ptr, id.ptr, at.len < id.len ? at.len : id.len);
        if (order == 0)
            order = (at.len > id.len) - (at.len < id.len);
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == b->id_count || !tide_view_equal(tide_view_of(b->by_id[low]->item->work_item_id), id))
        return NULL;
    return b->by_id[low];
}

/* ---- inserting ---- */

/* 0: at once. */
static int64_t start_of(const tide_work_spec *item, int64_t now_us)
{
    if (item->delay_us > 0)
        return now_us + item->delay_us;
    return item->run_after_us > now_us ? item->run_after_us : 0;
}

static void put_text(tide_json *json, const char *key, const char *text)
{
    if (!text)
        return; /* what is not there is NULL */
    tide_json_key(json, key);
    tide_json_text(json, text);
}

static void put_number(tide_json *json, const char *key, int64_t number)
{
    tide_json_key(json, key);
    tide_json_i64(json, number);
}

/* Items of one batch are made a microsecond apart: so they are claimed in the order in which they were given. */
static void put_item(tide_json *json, const tide_item_batch *b, const tide_item_plan *plan,
                     int64_t now_us)
{
    const tide_work_spec *item = plan->item;
    const int64_t start_us = start_of(item, now_us);
    tide_json_object_begin(json);
    put_text(json, "id", plan->added->work_item_id);
    put_text(json, "task", plan->task_id);
    put_text(json, "type", item->work_type);
    put_number(json, "priority", item->priority);
    if (item->max_retries >= 0) /* else the policy of the type, or the default */
        put_number(json, "retries", item->max_retries);
    put_text(json, "title", item->title);
    put_text(json, "limit_key", item->limit_key);
    put_text(json, "input", item->input);
    put_number(json, "digest", tide_item_input_digest(plan->added->work_item_id, item->input));
    tide_json_key(json, "at");
    tide_item_json_time(json, b->tx, now_us + plan->position);
    if (tide_store_engine(tide_tx_store(b->tx)) == TIDE_ENGINE_POSTGRES) /* SQLite computes it */
        put_number(json, "claim",
                   now_us + plan->position - item->priority * TIDE_ITEM_PRIORITY_STEP_US);
    if (start_us > 0) {
        tide_json_key(json, "after");
        tide_item_json_time(json, b->tx, start_us);
    }
    put_text(json, "key", item->unique_key);
    if (item->timeout_us > 0)
        put_number(json, "timeout", item->timeout_us);
    put_text(json, "from", b->origin ? b->origin->retried_from : NULL);
    put_text(json, "schedule", b->origin ? b->origin->schedule_name : NULL);
    put_number(json, "waits", plan->waits_for);
    put_number(json, "needed", plan->is_needed);
    tide_json_object_end(json);
}

static tide_status insert_items(const tide_item_batch *b, int64_t now_us, int64_t *inserted,
                                tide_error *err)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer list = tide_buffer_of(TIDE_ITEM_LIST_MAX);
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    tide_json json;
    tide_json_init(&json, &list);
    tide_json_array_begin(&json);
    for (int i = 0; i < b->count; i++)
        if (!b->plans[i].added->is_existing)
            put_item(&json, b, &b->plans[i], now_us);
    tide_json_array_end(&json);
    TIDE_TRY(tide_query_begin(&query, b->tx, TIDE_SQL_WORK_INSERT, err));
    TIDE_TRY(tide_item_bind_list(query, "items", &json, err));
    return tide_query_run(query, inserted, err);
}

static tide_status insert_pairs(tide_tx *tx, tide_json *pairs, tide_error *err)
{
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    TIDE_TRY(tide_query_begin(&query, tx, TIDE_SQL_WORK_DEPEND, err));
    TIDE_TRY(tide_item_bind_list(query, "pairs", pairs, err));
    return tide_query_run(query, NULL, err);
}

static tide_status add_new(tide_item_batch *b, int new_count, tide_error *err)
{
    TIDE_CLEANUP(tide_buffer_done) tide_buffer list = tide_buffer_of(TIDE_ITEM_LIST_MAX);
    tide_json pairs;
    int pair_count = 0;
    tide_json_init(&pairs, &list);
    tide_json_array_begin(&pairs);
    TIDE_TRY(tide_item_batch_depend(b, &pairs, &pair_count, err));
    tide_json_array_end(&pairs);
    int64_t now_us = 0;
    int64_t inserted = 0;
    TIDE_TRY(tide_tx_now(b->tx, &now_us, err));
    TIDE_TRY(insert_items(b, now_us, &inserted, err));
    for (int i = 0; i < b->count; i++) {
        const int64_t start_us =
            b->plans[i].added->is_existing ? 0 : start_of(b->plans[i].item, now_us);
        if (start_us > 0)
            tide_item_notify_due(b->tx, start_us - now_us);
    }
    if (inserted != new_count)
        return tide_fail(err, TIDE_E_SERIALIZATION,
                         "an item of the same id or unique key was added at the same time");
    return pair_count > 0 ? insert_pairs(b->tx, &pairs, err) : TIDE_OK;
}

static tide_status add_batch(tide_item_batch *b, tide_item_wakes *wakes, tide_error *err)
{
    TIDE_TRY(tide_item_batch_mark_existing(b, err));
    TIDE_TRY(tide_item_batch_check_tasks(b, err));
    int new_count = 0;
    for (int i = 0; i < b->count; i++)
        new_count += !b->plans[i].added->is_existing;
    if (new_count == 0)
        return TIDE_OK;
    TIDE_TRY(add_new(b, new_count, err));
    /* Delayed ones, too: whoever sleeps until the next one is due has to look again. */
    for (int i = 0; i < b->count; i++)
        if (!b->plans[i].added->is_existing && b->plans[i].waits_for == 0)
            tide_item_wake(wakes, b->plans[i].item->work_type);
    return TIDE_OK;
}

tide_status tide_item_add(tide_tx *tx, const tide_work_spec *items, int count,
                          const tide_item_origin *origin, tide_work_added *out,
                          tide_item_wakes *wakes, tide_error *err)
{
    TIDE_TRY(tide_item_check_range("the number of items", count, 1, TIDE_WORK_BATCH_MAX, err));
    tide_item_batch batch = {.tx = tx, .origin = origin, .count = count};
    tide_arena_init(&batch.arena, TIDE_ITEM_PAGE_MAX);
    tide_status status = plan_items(&batch, items, out, err);
    if (status >= TIDE_OK)
        status = add_batch(&batch, wakes, err);
    tide_arena_done(&batch.arena);
    return status;
}

tide_status tide_work_add_in(tide_tx *tx, const tide_work_spec *items, int count,
                             tide_work_added *out, tide_error *err)
{
    TIDE_NEED(tx && out, err);
    tide_item_wakes wakes = {.count = 0};
    TIDE_CLEANUP(tide_sized_list_done) tide_sized_list list = {0};
    TIDE_TRY(tide_item_check_range("the number of items", count, 1, TIDE_WORK_BATCH_MAX, err));
    TIDE_TRY(TIDE_SIZED_LIST(&list, items, count, tide_work_spec, err));
    TIDE_TRY(tide_item_add(tx, list.items, count, NULL, out, &wakes, err));
    tide_item_notify(&wakes, tx);
    return TIDE_OK;
}

typedef struct add_request {
    const tide_work_spec *items;
    int count;
    tide_work_added *out;
    bool is_reported;       /* out has what the run before reported */
    tide_work_added *known; /* what the last run that ended reported; NULL: none did */
    tide_work_spec *named;  /* the items, with the ids that it made */
} add_request;

static void add_request_done(add_request *request)
{
    free(request->known);
    free(request->named);
}

/* A repeated run uses the ids that the one before made, so that it recognises what that one committed. */
static tide_status name_items(add_request *request, tide_error *err)
{
    const size_t count = (size_t)request->count;
    if (!request->known)
        TIDE_ALLOC(request->known, count, err);
    if (!request->named)
        TIDE_ALLOC(request->named, count, err);
    memcpy(request->known, request->out, count * sizeof *request->known);
    for (size_t i = 0; i < count; i++) {
        request->named[i] = request->items[i];
        if (!request->items[i].work_item_id && !request->known[i].is_existing)
            request->named[i].work_item_id = request->known[i].work_item_id;
    }
    return TIDE_OK;
}

/* An item that this call made itself, in a run whose response was lost, is new. */
static void recognise_own(const add_request *request, const tide_tx *tx)
{
    for (int i = 0; i < request->count; i++) {
        const tide_work_added *known = &request->known[i];
        const bool is_made_here = !request->items[i].work_item_id;
        if (!known->is_existing && (is_made_here || tide_tx_has_lost_run(tx)) &&
            strcmp(known->work_item_id, request->out[i].work_item_id) == 0)
            request->out[i].is_existing = false;
    }
}

static tide_status add_items(tide_tx *tx, void *arg, tide_error *err)
{
    add_request *request = arg;
    if (request->is_reported)
        TIDE_TRY(name_items(request, err));
    request->is_reported = false;
    TIDE_TRY(tide_work_add_in(tx, request->known ? request->named : request->items, request->count,
                              request->out, err));
    if (request->known)
        recognise_own(request, tx);
    request->is_reported = true;
    return TIDE_OK;
}

static bool has_all_ids(const tide_work_spec *items, int count)
{
    for (int i = 0; i < count; i++)
        if (!items[i].work_item_id)
            return false;
    return true;
}

tide_status tide_work_add(tide_store *store, const tide_work_spec *items, int count,
                          tide_work_added *out, tide_error *err)
{
    TIDE_NEED(store && out, err);
    TIDE_CLEANUP(tide_sized_list_done) tide_sized_list list = {0};
    TIDE_TRY(tide_item_check_range("the number of items", count, 1, TIDE_WORK_BATCH_MAX, err));
    TIDE_TRY(TIDE_SIZED_LIST(&list, items, count, tide_work_spec, err));
    TIDE_CLEANUP(add_request_done)
    add_request request = {.items = list.items, .count = count, .out = out};
    return tide_store_write_by_id(store, add_items, &request, has_all_ids(list.items, count), err);
}
