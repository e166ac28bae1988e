/* retry.c - new items like ended ones.
 *
 *     which items        by id or filter, with what failed because of them
 *     in which order     an item behind those of the others that it depends on
 *     in steps           STEP_MAX items and STEP_BYTES of checkpoints per transaction
 *
 * A new item depends on what the ended one depended on; where that is retried with it, on the new
 * one. The last checkpoint of an item that failed is written again for the new one, in the same
 * transaction. A filter leaves out what was retried before, so a call that was interrupted continues
 * when it is made again. */
#include <tidemark/work.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/interface/caller.h"
#include "base/interface/sized.h"
#include "base/list.h"
#include "journal/append.h"
#include "journal/tasks.h"
#include "store/statement.h"
#include "tidemark_sql.h"
#include "work/item.h"

enum { STEP_MAX = 50, STEP_BYTES = 16 << 20 };

typedef char item_id[TIDE_WORK_ID_MAX + 1];

typedef struct retried_item {
    item_id id;
    bool is_retried;
    bool is_ordered;
    item_id *depends_on;
    int depends_on_count;
    tide_work_added added;
    /* The checkpoint that is handed over; type "": none. */
    char type[TIDE_JOURNAL_TYPE_MAX + 1];
    bool is_text;
    char *snapshot;
    size_t snapshot_len;
} retried_item;

typedef struct retry {
    tide_store *store;
    const tide_work_retry_request *request;
    retried_item *items;
    int count;
    int *order; /* positions */
    int ordered;
    /* The step under way: a part of the order. */
    int first;
    int last;
    tide_arena arena;
} retry;

static void retry_done(retry *r)
{
    for (int i = 0; i < r->count; i++) {
        free(r->items[i].depends_on);
        free(r->items[i].snapshot);
    }
    free(r->items);
    free(r->order);
    tide_arena_done(&r->arena);
}

/* ---- which ---- */

static retried_item *find(const retry *r, const char *id)
{
    for (int i = 0; i < r->count; i++)
        if (strcmp(r->items[i].id, id) == 0)
            return &r->items[i];
    return NULL;
}

static tide_status add(retry *r, const char *id, tide_error *err)
{
    if (find(r, id))
        return TIDE_OK;
    if (r->count == TIDE_WORK_BATCH_MAX)
        return tide_fail(err, TIDE_E_LIMIT, "more than %d items to retry: narrow the filter",
                         TIDE_WORK_BATCH_MAX);
    TIDE_TRY(tide_list_room(&r->items, r->count, sizeof *r->items, TIDE_WORK_BATCH_MAX + 1, err));
    r->items[r->count] = (retried_item){.is_ordered = false};
    (void)snprintf(r->items[r->count++].id, sizeof(item_id), "%s", id);
    return TIDE_OK;
}

static tide_status add_listed(void *arg, const tide_work_item *item, tide_error *err)
{
    return add(arg, item->work_item_id, err);
}

static tide_status mark_retried(tide_tx *tx, void *arg, tide_error *err)
{
    retry *r = arg;
    const char *ids[TIDE_WORK_BATCH_MAX];
    for (int i = 0; i < r->count; i++)
        ids[i] = r->items[i].id;
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    TIDE_TRY(tide_query_begin(&query, tx, TIDE_SQL_WORK_RETRIED, err));
    TIDE_TRY(tide_item_bind_texts(query, "ids", ids, r->count, false, err));
    TIDE_EACH(tide_query_step(query, err)) {
        item_id id;
        tide_view_copy(id, sizeof id, tide_query_col_text(query));
        retried_item *item = find(r, id);
        if (item)
            item->is_retried = true;
    }
    return TIDE_OK;
}

static tide_status drop_retried(retry *r, tide_error *err)
{
    int left = 0;
    if (r->count > 0)
        TIDE_TRY(tide_store_read(r->store, mark_retried, r, err));
    for (int i = 0; i < r->count; i++)
        if (!r->items[i].is_retried)
            r->items[left++] = r->items[i];
    r->count = left;
    return TIDE_OK;
}

static tide_status add_dependents(tide_tx *tx, void *arg, tide_error *err)
{
    retry *r = arg;
    for (int i = 0; i < r->count; i++) {
        item_id id;
        memcpy(id, r->items[i].id, sizeof id);
        TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
        TIDE_TRY(tide_query_start(&query, tx, TIDE_SQL_WORK_FAILED_DEPENDENTS, err,
                                  tide_bind_text("id", id)));
        TIDE_EACH(tide_query_step(query, err)) {
            tide_view_copy(id, sizeof id, tide_query_col_text(query));
            TIDE_TRY(add(r, id, err));
        }
    }
    return TIDE_OK;
}

static tide_status choose(retry *r, tide_error *err)
{
    const tide_work_retry_request *request = r->request;
    if (request->work_item_id) {
        TIDE_TRY(add(r, request->work_item_id, err));
    } else {
        tide_work_filter filter = *request->filter;
        filter.status = "failed";
        filter.limit = filter.limit ? filter.limit : TIDE_WORK_BATCH_MAX;
        const tide_status status = tide_work_list(r->store, &filter, add_listed, r, err);
        TIDE_TRY(status);
        TIDE_TRY(drop_retried(r, err));
    }
    return request->with_dependents ? tide_store_read(r->store, add_dependents, r, err) : TIDE_OK;
}

/* ---- in which order ---- */

static tide_status read_dependencies(tide_tx *tx, void *arg, tide_error *err)
{
    retry *r = arg;
    for (int i = 0; i < r->count; i++) {
        retried_item *item = &r->items[i];
        item->depends_on_count = 0;
        TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
        TIDE_TRY(tide_query_start(&query, tx, TIDE_SQL_WORK_DEPENDENCIES_OF, err,
                                  tide_bind_text("id", item->id)));
        TIDE_EACH(tide_query_step(query, err)) {
            TIDE_TRY(tide_list_room(&item->depends_on, item->depends_on_count, sizeof(item_id),
                                    TIDE_WORK_BATCH_MAX, err));
            tide_view_copy(item->depends_on[item->depends_on_count++], sizeof(item_id),
                           tide_query_col_text(query));
        }
    }
    return TIDE_OK;
}

static bool is_next(const retry *r, const retried_item *item)
{
    for (int i = 0; i < item->depends_on_count; i++) {
        const retried_item *other = find(r, item->depends_on[i]);
        if (other && !other->is_ordered)
            return false;
    }
    return !item->is_ordered;
}

static tide_status order_items(retry *r, tide_error *err)
{
    TIDE_TRY(tide_store_read(r->store, read_dependencies, r, err));
    r->order = calloc((size_t)r->count + 1, sizeof *r->order);
    if (!r->order)
        return tide_no_memory(err);
    for (int before = -1; r->ordered < r->count && r->ordered > before;) {
        before = r->ordered;
        for (int i = 0; i < r->count; i++) {
            if (!is_next(r, &r->items[i]))
                continue;
            r->items[i].is_ordered = true;
            r->order[r->ordered++] = i;
        }
    }
    if (r->ordered < r->count)
        return tide_fail(err, TIDE_E_DAMAGED, "work items depend on each other in a circle");
    return TIDE_OK;
}

/* ---- what is handed over ---- */

static tide_status copy_checkpoint(void *arg, const tide_checkpoint *checkpoint, tide_error *err)
{
    retried_item *item = arg;
    free(item->snapshot);
    item->snapshot = malloc(checkpoint->snapshot.len + 1);
    if (!item->snapshot)
        return tide_no_memory(err);
    if (checkpoint->snapshot.len > 0)
        memcpy(item->snapshot, checkpoint->snapshot.ptr, checkpoint->snapshot.len);
    item->snapshot_len = checkpoint->snapshot.len;
    (void)snprintf(item->type, sizeof item->type, "%s", checkpoint->type);
    return TIDE_OK;
}

/* Of the items of the next step, whose end this decides. */
static tide_status read_checkpoints(retry *r, tide_error *err)
{
    size_t bytes = 0;
    for (r->last = r->first; r->last < r->count && r->last - r->first < STEP_MAX; r->last++) {
        retried_item *item = &r->items[r->order[r->last]];
        if (r->request->from_scratch)
            continue;
        TIDE_TRY(tide_journal_last_checkpoint(r->store, item->id, copy_checkpoint, item, err));
        bytes += item->snapshot_len;
        if (bytes > STEP_BYTES) {
            r->last++;
            break;
        }
    }
    return TIDE_OK;
}

static void drop_checkpoints(retry *r)
{
    for (int i = r->first; i < r->last; i++) {
        retried_item *item = &r->items[r->order[i]];
        free(item->snapshot);
        item->snapshot = NULL;
    }
}

/* ---- one step ---- */

static tide_status read_spec(tide_tx *tx, retry *r, const char *id, tide_work_spec *out,
                             bool *has_failed, tide_error *err)
{
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    const tide_status status =
        tide_tx_one(&query, tx, TIDE_SQL_WORK_COPY, err, tide_bind_text("id", id));
    TIDE_TRY(status);
    if (status == TIDE_NONE)
        return tide_item_fail_missing(id, err);
    tide_row row = {.query = query, .arena = &r->arena};
    const char *state = tide_row_text(&row);
    *out = (tide_work_spec){TIDE_WORK_SPEC_INIT, .task_id = tide_row_text(&row)};
    out->work_type = tide_row_text(&row);
    out->input = tide_row_text(&row);
    const char *output = tide_row_text(&row);
    TIDE_TRY(tide_row_end(&row, err));
    TIDE_TRY(tide_item_check_digest(
        query, id, tide_item_input_digest(id, out->input) ^ tide_item_output_digest(id, output),
        err));
    out->priority = tide_query_col_i64(query);
    out->max_retries = tide_query_col_i64(query);
    out->timeout_us = tide_query_col_i64(query);
    out->unique_key = tide_row_text(&row);
    out->title = tide_row_text(&row);
    out->limit_key = tide_row_text(&row);
    TIDE_TRY(tide_row_end(&row, err));
    *has_failed = strcmp(state, "failed") == 0;
    if (!*has_failed && strcmp(state, "completed") != 0)
        return tide_fail(err, TIDE_E_CONFLICT, "work item %s has not ended: it is %s", id, state);
    return TIDE_OK;
}

static void map_dependencies(const retry *r, const retried_item *item, const char **ids,
                             tide_work_spec *spec)
{
    for (int i = 0; i < item->depends_on_count; i++) {
        const retried_item *other = find(r, item->depends_on[i]);
        ids[i] = other ? other->added.work_item_id : item->depends_on[i];
    }
    spec->depends_on = ids;
    spec->depends_on_count = item->depends_on_count;
}

/* The texts of the row live in the arena until the step ends. */
static tide_status retry_one(tide_tx *tx, retry *r, retried_item *item, tide_item_wakes *wakes,
                             tide_checkpoint_new *handed, int *handed_count, tide_error *err)
{
    tide_work_spec spec;
    bool has_failed = false;
    const char *ids[TIDE_WORK_BATCH_MAX];
    TIDE_TRY(read_spec(tx, r, item->id, &spec, &has_failed, err));
    map_dependencies(r, item, ids, &spec);
    const tide_item_origin origin = {.retried_from = item->id};
    const tide_status status = tide_item_add(tx, &spec, 1, &origin, &item->added, wakes, err);
    if (status < TIDE_OK)
        return tide_fail_context(err, status, "retry of work item %s", item->id);
    if (has_failed && item->snapshot && !item->added.is_existing)
        handed[(*handed_count)++] =
            (tide_checkpoint_new){TIDE_CHECKPOINT_NEW_INIT,
                                  .task_id = spec.task_id,
                                  .work_item_id = item->added.work_item_id,
                                  .type = item->type,
                                  .snapshot = tide_view_bytes(item->snapshot, item->snapshot_len),
                                  .is_text = true,
                                  .message = "handed over by a retry"};
    return TIDE_OK;
}

static tide_status retry_step(tide_tx *tx, void *arg, tide_error *err)
{
    retry *r = arg;
    tide_arena_reset(&r->arena);
    tide_item_wakes wakes = {.count = 0};
    tide_checkpoint_new handed[STEP_MAX];
    int handed_count = 0;
    for (int i = r->first; i < r->last; i++)
        TIDE_TRY(retry_one(tx, r, &r->items[r->order[i]], &wakes, handed, &handed_count, err));
    tide_item_notify(&wakes, tx);
    if (handed_count == 0)
        return TIDE_OK;
    return tide_journal_append_known_in(tx, handed, handed_count, NULL, err);
}

/* Would a step be accepted? */
static tide_status check_items(tide_tx *tx, void *arg, tide_error *err)
{
    retry *r = arg;
    for (int i = 0; i < r->count; i++) {
        tide_work_spec spec;
        bool has_failed = false;
        tide_arena_reset(&r->arena);
        TIDE_TRY(read_spec(tx, r, r->items[i].id, &spec, &has_failed, err));
    }
    return TIDE_OK;
}

/* ---- the call ---- */

static tide_status report(const retry *r, tide_work_retried_fn *fn, void *arg, tide_error *err)
{
    for (int i = r->first; fn && i < r->last; i++) {
        const retried_item *item = &r->items[r->order[i]];
        const tide_work_retried retried = {
            .work_item_id = item->id,
            .new_id = r->request->is_dry_run ? NULL : item->added.work_item_id,
            .is_existing = item->added.is_existing};
        TIDE_TRY(tide_callback_check(fn(arg, &retried, err), err));
    }
    return TIDE_OK;
}

static tide_status run(retry *r, tide_work_retried_fn *fn, void *arg, tide_error *err)
{
    TIDE_TRY(choose(r, err));
    TIDE_TRY(order_items(r, err));
    if (r->request->is_dry_run) {
        r->last = r->count;
        TIDE_TRY(tide_store_read(r->store, check_items, r, err));
        return report(r, fn, arg, err);
    }
    for (; r->first < r->count; r->first = r->last) {
        TIDE_TRY(read_checkpoints(r, err));
        TIDE_TRY(tide_store_write(r->store, retry_step, r, err));
        drop_checkpoints(r);
        TIDE_TRY(report(r, fn, arg, err));
    }
    return TIDE_OK;
}

tide_status tide_work_retry_many(tide_store *store, const tide_work_retry_request *given,
                                 tide_work_retried_fn *fn, void *arg, tide_error *err)
{
    TIDE_NEED(store, err);
    tide_work_retry_request request;
    tide_work_filter filter;
    TIDE_TRY(TIDE_SIZED_COPY(&request, given, tide_work_retry_request, err));
    if ((request.work_item_id == NULL) == (request.filter == NULL))
        return tide_fail(err, TIDE_E_INVALID, "a retry takes the id of an item, or a filter");
    if (request.work_item_id)
        TIDE_TRY(tide_item_check_id("a work item's id", request.work_item_id, err));
    if (request.filter) {
        TIDE_TRY(TIDE_SIZED_COPY(&filter, request.filter, tide_work_filter, err));
        TIDE_TRY(tide_item_check_range("limit", filter.limit, 0, TIDE_WORK_BATCH_MAX, err));
        request.filter = &filter;
    }
    TIDE_CLEANUP(retry_done) retry r = {.store = store, .request = &request};
    tide_arena_init(&r.arena, (size_t)STEP_MAX * TIDE_ITEM_ROW_MAX);
    return run(&r, fn, arg, err);
}

static tide_status keep_added(void *arg, const tide_work_retried *retried, tide_error *err)
{
    (void)err;
    tide_work_added *out = arg;
    out->is_existing = retried->is_existing;
    (void)snprintf(out->work_item_id, sizeof out->work_item_id, "%s", retried->new_id);
    return TIDE_OK;
}

tide_status tide_work_retry(tide_store *store, const char *work_item_id, tide_work_added *out,
                            tide_error *err)
{
    TIDE_NEED(store && out, err);
    TIDE_TRY(tide_item_check_id("a work item's id", work_item_id, err));
    const tide_work_retry_request request = {TIDE_WORK_RETRY_REQUEST_INIT,
                                             .work_item_id = work_item_id};
    return tide_work_retry_many(store, &request, keep_added, out, err);
}
