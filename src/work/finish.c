/* finish.c - the end of an item that went well: one commit, or nothing.
 *
 *     token check + output  ->  last checkpoint  ->  idempotent response  ->  follow-up items
 *
 * A finish whose outcome the caller never learnt may be repeated: an item that was completed by the same token with the same
 * output is an answer, not a loss. Ended rows keep their token, so that this can be told. */
#include <tidemark/work.h>

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/interface/caller.h"
#include "base/interface/sized.h"
#include "journal/append.h"
#include "store/statement.h"
#include "tidemark_sql.h"
#include "work/lease.h"
#include "work/lease_list.h"
#include "work/turn/turn.h"

/* ---- shared ---- */

/* Whose dependencies these were, and who may run now, is to be told. */
static tide_status wake_dependents(tide_tx *tx, const char *const *ids, int count,
                                   tide_item_wakes *wakes, tide_error *err)
{
    TIDE_CLEANUP(tide_arena_done) tide_arena arena = tide_arena_of(TIDE_ITEM_PAGE_MAX);
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    TIDE_TRY(tide_query_begin(&query, tx, TIDE_SQL_WORK_READY_DEPENDENTS, err));
    TIDE_TRY(tide_item_bind_texts(query, "ids", ids, count, false, err));
    TIDE_EACH(tide_query_step(query, err)) {
        tide_row row = {.query = query, .arena = &arena};
        const char *type = tide_row_text(&row);
        if (type)
            tide_item_wake(wakes, type);
    }
    return TIDE_OK;
}

/* Of those still marked as lost: which were completed before, by this very token and with this very output? */
static tide_status mark_repeated(tide_tx *tx, const tide_lease_list *held, int count,
                                 tide_error *err)
{
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    TIDE_TRY(tide_query_begin(&query, tx, TIDE_SQL_WORK_FINISHED, err));
    TIDE_TRY(tide_lease_list_bind(query, "items", held, count, err));
    TIDE_EACH(tide_query_step(query, err)) {
        const tide_view id = tide_query_col_text(query);
        (void)tide_lease_list_mark(held, count, id, tide_query_col_i64(query));
    }
    return TIDE_OK;
}

/* ---- one, with everything that belongs to it ---- */

typedef struct finish_request {
    tide_work_result *result;
    tide_work_added *added; /* of the follow-ups; nobody asks for it */
    tide_arena arena;
} finish_request;

static tide_status check_result(const tide_work_result *result, tide_error *err)
{
    TIDE_TRY(tide_item_check_id("a work item's id", result->work_item_id, err));
    TIDE_TRY(tide_item_check_json("output", result->output, err));
    return tide_item_check_range("the number of follow-up items", result->follow_up_count, 0,
                                 TIDE_WORK_BATCH_MAX, err);
}

static tide_status lock_tasks(tide_tx *tx, const finish_request *request, tide_error *err)
{
    const tide_work_result *result = request->result;
    if (tide_store_engine(tide_tx_store(tx)) != TIDE_ENGINE_POSTGRES)
        return TIDE_OK;
    TIDE_CLEANUP(tide_freep)
    const char **ids = calloc((size_t)result->follow_up_count, sizeof *ids);
    if (!ids)
        return tide_no_memory(err);
    int count = 0;
    for (int i = 0; i < result->follow_up_count; i++)
        if (result->follow_ups[i].task_id)
            ids[count++] = result->follow_ups[i].task_id;
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    TIDE_TRY(tide_query_begin(&query, tx, TIDE_SQL_WORK_TASKS_OF_FINISH, err));
    TIDE_TRY(tide_item_bind_texts(query, "ids", ids, count, false, err));
    tide_query_bind_text(query, "id", result->work_item_id);
    return tide_query_run(query, NULL, err);
}

static tide_status begin_finish(tide_query **query, tide_tx *tx, const tide_work_result *result,
                                tide_error *err)
{
    tide_item_clock clock = {0};
    TIDE_TRY(tide_query_begin(query, tx, TIDE_SQL_WORK_FINISH_ONE, err));
    TIDE_TRY(tide_item_bind_clock(*query, tx, &clock, err));
    tide_query_bind_text(*query, "id", result->work_item_id);
    tide_query_bind_i64(*query, "token", result->token);
    tide_query_bind_text(*query, "output", result->output);
    tide_query_bind_i64(*query, "digest",
                        tide_item_output_digest(result->work_item_id, result->output));
    if (tide_store_engine(tide_tx_store(tx)) == TIDE_ENGINE_POSTGRES)
        tide_query_bind_bool(*query, "is_plain", false);
    return TIDE_OK;
}

/* TIDE_OK: completed now. TIDE_NONE: it was, before. */
static tide_status complete_item(tide_tx *tx, finish_request *request, const char **task_id,
                                 bool *has_more, tide_error *err)
{
    tide_work_result *result = request->result;
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    TIDE_TRY(begin_finish(&query, tx, result, err));
    const tide_status status = tide_query_one(query, err);
    TIDE_TRY(status);
    if (status == TIDE_OK) {
        tide_row row = {.query = query, .arena = &request->arena};
        *task_id = tide_row_text(&row);
        *has_more = tide_query_col_bool(query);
        result->is_lost = false;
        return tide_row_end(&row, err);
    }
    const tide_lease_list held = {.id = result->work_item_id,
                                  .token = result->token,
                                  .output = result->output,
                                  .is_lost = &result->is_lost};
    TIDE_TRY(mark_repeated(tx, &held, 1, err));
    return result->is_lost ? tide_item_fail_lost(tx, held.id, held.token, err) : TIDE_NONE;
}

/* The numbers that the first call was given. */
static tide_status find_numbers(tide_tx *tx, tide_work_result *result, tide_error *err)
{
    if (!result->checkpoint)
        return TIDE_OK;
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    const tide_status status = tide_tx_one(&query, tx, TIDE_SQL_WORK_LAST_CHECKPOINT, err,
                                           tide_bind_text("id", result->work_item_id));
    if (status != TIDE_OK)
        return status < TIDE_OK ? status : TIDE_OK; /* cleaned up since */
    const tide_view id = tide_query_col_text(query);
    if (id.len < sizeof result->numbers.checkpoint_id)
        memcpy(result->numbers.checkpoint_id, id.ptr, id.len);
    result->numbers.sequence_number = tide_query_col_i64(query);
    result->numbers.global_sequence = tide_query_col_i64(query);
    result->numbers.is_existing = true;
    return TIDE_OK;
}

static tide_status append_checkpoint(tide_tx *tx, tide_work_result *result, const char *task_id,
                                     tide_error *err)
{
    tide_checkpoint_new checkpoint = *result->checkpoint;
    checkpoint.task_id = task_id;
    checkpoint.work_item_id = result->work_item_id;
    return tide_journal_append_known_in(tx, &checkpoint, 1, &result->numbers, err);
}

static tide_status finish_item(tide_tx *tx, void *arg, tide_error *err)
{
    finish_request *request = arg;
    tide_work_result *result = request->result;
    tide_item_wakes wakes = {.count = 0};
    const char *task_id = NULL;
    bool has_more = false;
    result->is_lost = true;
    result->numbers = (tide_checkpoint_numbers){.sequence_number = 0};
    tide_arena_reset(&request->arena);
    if (result->follow_up_count > 0)
        TIDE_TRY(lock_tasks(tx, request, err));
    const tide_status status = complete_item(tx, request, &task_id, &has_more, err);
    TIDE_TRY(status);
    if (status == TIDE_NONE)
        return find_numbers(tx, result, err);
    if (has_more)
        TIDE_TRY(wake_dependents(tx, &result->work_item_id, 1, &wakes, err));
    if (result->checkpoint)
        TIDE_TRY(append_checkpoint(tx, result, task_id, err));
    if (result->idempotency_name)
        TIDE_TRY(tide_idempotency_complete_in(tx, result->idempotency_name,
                                              result->idempotency_token, result->response, err));
    if (has_more)
        TIDE_TRY(tide_item_free_keys(tx, &result->work_item_id, 1, err));
    if (result->follow_up_count > 0) {
        const tide_item_origin origin = {.task_id = task_id};
        TIDE_TRY(tide_item_add(tx, result->follow_ups, result->follow_up_count, &origin,
                               request->added, &wakes, err));
    }
    tide_item_notify(&wakes, tx);
    return TIDE_OK;
}

/* Output alone: the statement travels with its COMMIT. Without a row the token was refused, or this was done before. */
static tide_status finish_at_once(tide_store *store, tide_work_result *result, tide_error *err)
{
    bool is_needed = false;
    const tide_lease_list held = {.id = result->work_item_id,
                                  .token = result->token,
                                  .output = result->output,
                                  .is_lost = &result->is_lost,
                                  .is_needed = &is_needed};
    const tide_finish_list list = {.held = &held, .count = 1};
    tide_work_turn turn = {.finish = &list};
    result->numbers = (tide_checkpoint_numbers){.sequence_number = 0};
    TIDE_TRY(tide_work_turn_run(store, &turn, err));
    return result->is_lost ? TIDE_NONE : tide_finish_rest(store, &list, err);
}

static tide_status finish_by_parts(tide_store *store, finish_request *request, tide_error *err)
{
    tide_work_result *result = request->result;
    const bool is_plain =
        !result->checkpoint && !result->idempotency_name && result->follow_up_count == 0;
    if (!is_plain)
        return tide_store_write(store, finish_item, request, err);
    const tide_status status = finish_at_once(store, result, err);
    if (status == TIDE_E_OUTCOME_UNKNOWN) { /* asking again may tell */
        tide_error ignored;
        const tide_status again = tide_store_write(store, finish_item, request, &ignored);
        return again >= TIDE_OK || again == TIDE_E_LEASE_LOST ? again : status;
    }
    TIDE_TRY(status);
    return status == TIDE_NONE ? tide_store_write(store, finish_item, request, err) : TIDE_OK;
}

tide_status tide_work_finish(tide_store *store, tide_work_result *given, tide_error *err)
{
    TIDE_NEED(store, err);
    tide_work_result own;
    tide_checkpoint_new checkpoint;
    TIDE_CLEANUP(tide_sized_list_done) tide_sized_list follow_ups = {0};
    TIDE_TRY(TIDE_SIZED_COPY(&own, given, tide_work_result, err));
    TIDE_TRY(check_result(&own, err));
    if (own.checkpoint) {
        TIDE_TRY(TIDE_SIZED_COPY(&checkpoint, own.checkpoint, tide_checkpoint_new, err));
        own.checkpoint = &checkpoint;
    }
    TIDE_TRY(
        TIDE_SIZED_LIST(&follow_ups, own.follow_ups, own.follow_up_count, tide_work_spec, err));
    own.follow_ups = follow_ups.items;
    tide_work_result *result = &own;
    finish_request request = {.result = result};
    TIDE_CLEANUP(tide_freep) tide_work_added *added = NULL;
    if (result->follow_up_count > 0) {
        added = calloc((size_t)result->follow_up_count, sizeof *added);
        if (!added)
            return tide_no_memory(err);
    }
    request.added = added;
    tide_arena_init(&request.arena, TIDE_HOLD_BYTES_MAX);
    const tide_status status = finish_by_parts(store, &request, err);
    tide_arena_done(&request.arena);
    given->numbers = own.numbers;
    given->is_lost = status == TIDE_E_LEASE_LOST || status == TIDE_E_NOT_FOUND;
    return status;
}

/* ---- many, output only ---- */

tide_status tide_finish_follow_up(tide_tx *tx, const tide_finish_list *list, tide_error *err)
{
    TIDE_CLEANUP(tide_freep) const char **needed = calloc((size_t)list->count, sizeof *needed);
    if (!needed)
        return tide_no_memory(err);
    int count = 0;
    for (int i = 0; i < list->count; i++)
        if (!*list->held[i].is_lost && *list->held[i].is_needed)
            needed[count++] = list->held[i].id;
    if (tide_lease_list_count_lost(list->held, list->count) > 0) {
        /* The process may have died between the first finish and its follow-up. */
        TIDE_TRY(mark_repeated(tx, list->held, list->count, err));
        count = 0;
        for (int i = 0; i < list->count; i++)
            if (!*list->held[i].is_lost)
                needed[count++] = list->held[i].id;
    }
    if (count == 0)
        return TIDE_OK;
    tide_item_wakes wakes = {.count = 0};
    TIDE_TRY(tide_item_free_keys(tx, needed, count, err));
    TIDE_TRY(wake_dependents(tx, needed, count, &wakes, err));
    tide_item_notify(&wakes, tx);
    return TIDE_OK;
}

static tide_status follow_up_items(tide_tx *tx, void *arg, tide_error *err)
{
    return tide_finish_follow_up(tx, arg, err);
}

tide_status tide_finish_rest(tide_store *store, const tide_finish_list *list, tide_error *err)
{
    bool is_rest = false;
    for (int i = 0; i < list->count; i++)
        is_rest = is_rest || *list->held[i].is_lost || *list->held[i].is_needed;
    return is_rest ? tide_store_write(store, follow_up_items, (void *)list, err) : TIDE_OK;
}

static tide_status finish_all(tide_store *store, const tide_finish_list *list, tide_error *err)
{
    tide_work_turn turn = {.finish = list};
    const tide_status status = tide_work_turn_run(store, &turn, err);
    tide_error ignored; /* asking again may tell */
    if (status < TIDE_OK &&
        (status != TIDE_E_OUTCOME_UNKNOWN || tide_work_turn_run(store, &turn, &ignored) < TIDE_OK))
        return status;
    return tide_finish_rest(store, list, err);
}

static tide_status check_plain(const tide_work_result *result, tide_error *err)
{
    TIDE_TRY(check_result(result, err));
    if (result->checkpoint || result->idempotency_name || result->follow_up_count > 0)
        return tide_fail(err, TIDE_E_INVALID,
                         "many items are finished with their output only: finish %s by itself",
                         result->work_item_id);
    return TIDE_OK;
}

tide_status tide_finish_init(tide_finish_list *list, tide_work_result *results, int count,
                             tide_error *err)
{
    tide_lease_list *held = calloc((size_t)count, sizeof *held);
    bool *needed = calloc((size_t)count, sizeof *needed);
    *list = (tide_finish_list){.held = held, .needed = needed, .count = count};
    if (!held || !needed)
        return tide_no_memory(err);
    for (int i = 0; i < count; i++) {
        TIDE_TRY(check_plain(&results[i], err));
        held[i] = (tide_lease_list){.id = results[i].work_item_id,
                                    .token = results[i].token,
                                    .output = results[i].output,
                                    .is_lost = &results[i].is_lost,
                                    .is_needed = &needed[i]};
    }
    tide_lease_list_sort(held, count);
    if (tide_lease_list_has_twins(held, count))
        return tide_fail(err, TIDE_E_INVALID, "a work item is named twice");
    return TIDE_OK;
}

void tide_finish_done(tide_finish_list *list)
{
    free((void *)list->held);
    free(list->needed);
    *list = (tide_finish_list){.count = 0};
}

static tide_status finish_listed(tide_store *store, tide_work_result *results, int count,
                                 tide_error *err)
{
    TIDE_CLEANUP(tide_finish_done) tide_finish_list list;
    TIDE_TRY(tide_finish_init(&list, results, count, err));
    TIDE_TRY(finish_all(store, &list, err));
    return tide_item_fail_some(tide_lease_list_count_lost(list.held, count), count, err);
}

tide_status tide_work_finish_many(tide_store *store, tide_work_result *results, int count,
                                  tide_error *err)
{
    TIDE_NEED(store, err);
    TIDE_CLEANUP(tide_sized_list_done) tide_sized_list list = {0};
    TIDE_TRY(tide_item_check_range("the number of items", count, 1, TIDE_WORK_BATCH_MAX, err));
    TIDE_TRY(TIDE_SIZED_LIST(&list, results, count, tide_work_result, err));
    const tide_status status = finish_listed(store, list.items, count, err);
    tide_sized_list_return(&list);
    return status;
}
