/* next.c - what a worker does between two items: finish what is done and claim what is next, in one commit. */
#include <tidemark/work.h>

#include "base/cleanup.h"
#include "base/interface/caller.h"
#include "base/interface/sized.h"
#include "tidemark_sql.h"
#include "work/turn/turn.h"

/* SQLite: everything in the one transaction, what is due and what was finished before included. */
static tide_status finish_one_in(tide_tx *tx, const tide_lease_list *held, tide_error *err)
{
    tide_item_clock clock = {0};
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    TIDE_TRY(tide_query_begin(&query, tx, TIDE_SQL_WORK_FINISH_ONE, err));
    TIDE_TRY(tide_item_bind_clock(query, tx, &clock, err));
    tide_query_bind_text(query, "id", held->id);
    tide_query_bind_i64(query, "token", held->token);
    tide_query_bind_text(query, "output", held->output);
    tide_query_bind_i64(query, "digest", tide_item_output_digest(held->id, held->output));
    const tide_status status = tide_query_one(query, err);
    if (status != TIDE_OK)
        return status < TIDE_OK ? status : TIDE_OK;
    (void)tide_query_col_text(query); /* its task */
    *held->is_lost = false;
    *held->is_needed = tide_query_col_bool(query);
    return TIDE_OK;
}

/* Many in one statement: each statement has a journal of its own, which costs more than a row of a list. */
static tide_status finish_many_in(tide_tx *tx, const tide_finish_list *list, tide_error *err)
{
    tide_item_clock clock = {0};
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    TIDE_TRY(tide_query_begin(&query, tx, TIDE_SQL_WORK_FINISH_MANY, err));
    TIDE_TRY(tide_item_bind_clock(query, tx, &clock, err));
    TIDE_TRY(tide_lease_list_bind(query, "items", list->held, list->count, err));
    TIDE_EACH(tide_query_step(query, err)) {
        const tide_view id = tide_query_col_text(query);
        const int64_t token = tide_query_col_i64(query);
        const tide_lease_list *held = tide_lease_list_mark(list->held, list->count, id, token);
        if (held)
            *held->is_needed = tide_query_col_bool(query);
    }
    return TIDE_OK;
}

static tide_status finish_in(tide_tx *tx, const tide_finish_list *list, tide_error *err)
{
    tide_lease_list_reset(list->held, list->count);
    for (int i = 0; i < list->count; i++)
        *list->held[i].is_needed = false;
    return list->count == 1 ? finish_one_in(tx, list->held, err) : finish_many_in(tx, list, err);
}

static tide_status next_in_a_write(tide_tx *tx, void *arg, tide_error *err)
{
    const tide_work_turn *turn = arg;
    TIDE_TRY(finish_in(tx, turn->finish, err));
    TIDE_TRY(tide_finish_follow_up(tx, turn->finish, err));
    const tide_status status = tide_claim_take(tx, turn->claim, err);
    return status < TIDE_OK ? status : TIDE_OK;
}

static tide_status run_next(tide_store *store, tide_work_turn *turn, tide_error *err)
{
    if (tide_store_engine(store) == TIDE_ENGINE_SQLITE) {
        TIDE_TRY(tide_store_write(store, next_in_a_write, turn, err));
        if (turn->claim->damaged)
            return tide_claim_rest(store, turn->claim, err);
        return tide_claim_end(store, turn->claim,
                              turn->claim->out->count > 0 ? TIDE_OK : TIDE_NONE);
    }
    TIDE_TRY(tide_work_turn_run(store, turn, err));
    TIDE_TRY(tide_finish_rest(store, turn->finish, err));
    return tide_claim_rest(store, turn->claim, err);
}

static tide_status next_listed(tide_store *store, tide_work_result *results, int count,
                               const tide_work_claim_request *request, tide_work_claims *out,
                               tide_error *err)
{
    TIDE_CLEANUP(tide_claim_done) tide_claim c = {0};
    TIDE_CLEANUP(tide_finish_done) tide_finish_list list = {.count = 0};
    TIDE_TRY(tide_claim_init(&c, store, request, out, err));
    TIDE_TRY(tide_finish_init(&list, results, count, err));
    tide_work_turn turn = {.claim = &c, .finish = &list};
    const tide_status status = run_next(store, &turn, err);
    TIDE_TRY(status);
    const int lost = tide_lease_list_count_lost(list.held, list.count);
    if (lost > 0)
        return tide_fail(err, TIDE_E_LEASE_LOST,
                         "%d of %d items were not finished: their leases are lost; the others are "
                         "finished, and %d were claimed",
                         lost, count, out->count);
    return status;
}

tide_status tide_work_next(tide_store *store, tide_work_result *results, int count,
                           const tide_work_claim_request *given, tide_work_claims *out,
                           tide_error *err)
{
    TIDE_NEED(store && out, err);
    *out = (tide_work_claims){.next_due_us = -1};
    TIDE_TRY(tide_item_check_range("the number of items", count, 0, TIDE_WORK_BATCH_MAX, err));
    if (count == 0)
        return tide_work_claim(store, given, out, err);
    tide_work_claim_request request;
    TIDE_TRY(TIDE_SIZED_COPY(&request, given, tide_work_claim_request, err));
    TIDE_CLEANUP(tide_sized_list_done) tide_sized_list list = {0};
    TIDE_TRY(TIDE_SIZED_LIST(&list, results, count, tide_work_result, err));
    const tide_status status = next_listed(store, list.items, count, &request, out, err);
    tide_sized_list_return(&list);
    if (status != TIDE_OK && status != TIDE_E_LEASE_LOST)
        out->count = 0;
    return status;
}
