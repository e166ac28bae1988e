#include "work/turn/turn.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "core/lease_clock.h"
#include "store/statement.h"
#include "tidemark_sql.h"

enum { CLAIMS_BYTES_MAX = 1 << 20 };

/* Calls that share a transaction. */
typedef struct group {
    tide_work_turn **turns;
    int count;
    tide_lease_list *held; /* the finishes of all, sorted */
    int held_count;
    tide_combiner_turn *lead;
} group;

/* ---- finishes ---- */

static tide_status gather_finishes(group *g, tide_error *err)
{
    for (int i = 0; i < g->count; i++)
        g->held_count += g->turns[i]->finish ? g->turns[i]->finish->count : 0;
    if (g->held_count == 0)
        return TIDE_OK;
    g->held = calloc((size_t)g->held_count, sizeof *g->held);
    if (!g->held)
        return tide_no_memory(err);
    int at = 0;
    for (int i = 0; i < g->count; i++) {
        const tide_finish_list *list = g->turns[i]->finish;
        if (!list)
            continue;
        memcpy(g->held + at, list->held, (size_t)list->count * sizeof *g->held);
        at += list->count;
    }
    tide_lease_list_sort(g->held, g->held_count);
    /* Two callers with one item: which output counts is for their own transactions to decide. */
    if (g->count > 1 && tide_lease_list_has_twins(g->held, g->held_count))
        return tide_fail(err, TIDE_E_INVALID, "two callers finish one item");
    return TIDE_OK;
}

static void note_one(tide_query *query, void *arg)
{
    const group *g = arg;
    tide_combiner_pass(g->lead);
    (void)tide_query_col_text(query); /* its task */
    *g->held[0].is_lost = false;
    *g->held[0].is_needed = tide_query_col_bool(query);
}

static void note_finished(tide_query *query, void *arg)
{
    const group *g = arg;
    tide_combiner_pass(g->lead); /* committed: the next group need not wait for the disk */
    const tide_view id = tide_query_col_text(query);
    const int64_t token = tide_query_col_i64(query);
    const tide_lease_list *held = tide_lease_list_mark(g->held, g->held_count, id, token);
    if (held)
        *held->is_needed = tide_query_col_bool(query);
}

/* Keys that the attempts left unanswered are given back in the same commit. On PostgreSQL the
 * finishing statements do it. */
static tide_status defer_free_keys(tide_tx *tx, const group *g, tide_error *err)
{
    if (tide_store_engine(tide_tx_store(tx)) == TIDE_ENGINE_POSTGRES)
        return TIDE_OK;
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    TIDE_TRY(tide_query_begin(&query, tx, TIDE_SQL_WORK_KEYS_FREE_FINISHED, err));
    TIDE_TRY(tide_lease_list_bind(query, "items", g->held, g->held_count, err));
    return tide_query_defer(&query, err);
}

static tide_status defer_finishes(tide_tx *tx, group *g, tide_error *err)
{
    if (g->held_count == 0)
        return TIDE_OK;
    tide_item_clock clock = {0};
    const bool is_one = g->held_count == 1;
    tide_lease_list_reset(g->held, g->held_count);
    for (int i = 0; i < g->held_count; i++)
        *g->held[i].is_needed = false;
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    TIDE_TRY(tide_query_begin(&query, tx,
                              is_one ? TIDE_SQL_WORK_FINISH_ONE : TIDE_SQL_WORK_FINISH_MANY, err));
    TIDE_TRY(tide_item_bind_clock(query, tx, &clock, err));
    if (is_one) {
        tide_query_bind_text(query, "id", g->held[0].id);
        tide_query_bind_i64(query, "token", g->held[0].token);
        tide_query_bind_text(query, "output", g->held[0].output);
        tide_query_bind_i64(query, "digest",
                            tide_item_output_digest(g->held[0].id, g->held[0].output));
        if (tide_store_engine(tide_tx_store(tx)) == TIDE_ENGINE_POSTGRES)
            tide_query_bind_bool(query, "is_plain", true);
        TIDE_TRY(tide_query_defer_rows(&query, note_one, g, err));
    } else {
        TIDE_TRY(tide_store_engine(tide_tx_store(tx)) == TIDE_ENGINE_POSTGRES
                     ? tide_lease_list_bind_arrays(query, g->held, g->held_count, err)
                     : tide_lease_list_bind(query, "items", g->held, g->held_count, err));
        TIDE_TRY(tide_query_defer_rows(&query, note_finished, g, err));
    }
    return defer_free_keys(tx, g, err);
}

/* ---- claims ---- */

static void take_row(const group *g, tide_claim *claim, tide_query *query)
{
    tide_combiner_pass(g->lead);
    if (claim->failure >= TIDE_OK)
        claim->failure = tide_claim_read(query, claim, NULL);
}

static void read_shared(tide_query *query, void *arg)
{
    const group *g = arg;
    const int64_t place = tide_query_col_i64(query) - 1;
    assert(place >= 0 && place < g->count && g->turns[place]->claim);
    take_row(g, g->turns[place]->claim, query);
}

static void read_own(tide_query *query, void *arg)
{
    const group *g = arg;
    for (int i = 0; i < g->count; i++)
        if (g->turns[i]->claim) {
            take_row(g, g->turns[i]->claim, query);
            return;
        }
}

static bool is_of_one_type(const tide_claim *c)
{
    return !c->request->task_id && c->request->type_count == 1;
}

/* Claimers of many items of a type take turns: each would pass, row by row, what the others have locked. */
static tide_status defer_turn(tide_tx *tx, const tide_claim *c, tide_error *err)
{
    return tide_tx_defer(tx, TIDE_SQL_WORK_CLAIM_TURN, err,
                         tide_bind_text("type", c->request->types[0]));
}

/* Both statements return a row if they did anything: without one a claim in vain is known to have written nothing. */
static void ignore_row(tide_query *query, void *arg)
{
    (void)query;
    (void)arg;
}

/* Now and then, by chance, behind the claim: the type's low-water bound rises above what is gone, so that the
 * next claims do not read it. Callers that add items of the type wait for it, so it comes last. */
static tide_status defer_bound(tide_tx *tx, const tide_claim *c, int wanted, tide_error *err)
{
    uint16_t drawn = 0;
    tide_env *env = tide_store_env(tide_tx_store(tx));
    if (!is_of_one_type(c) || tide_store_engine(tide_tx_store(tx)) != TIDE_ENGINE_POSTGRES)
        return TIDE_OK;
    env->random(env, &drawn, sizeof drawn);
    if (drawn % TIDE_TURN_BOUND_EVERY >= wanted)
        return TIDE_OK;
    static const tide_sql *const steps[] = {TIDE_SQL_WORK_BOUND_HOLD, TIDE_SQL_WORK_BOUND_RAISE};
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
        TIDE_TRY(tide_query_start(&query, tx, steps[i], err,
                                  tide_bind_text("type", c->request->types[0])));
        TIDE_TRY(tide_query_defer_rows(&query, ignore_row, NULL, err));
    }
    return TIDE_OK;
}

static tide_status defer_own(tide_tx *tx, group *g, const tide_claim *c, tide_error *err)
{
    if (c->limit >= TIDE_TURN_LIMIT && is_of_one_type(c) &&
        tide_store_engine(tide_tx_store(tx)) == TIDE_ENGINE_POSTGRES)
        TIDE_TRY(defer_turn(tx, c, err));
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    TIDE_TRY(tide_claim_begin(&query, tx, c, err));
    TIDE_TRY(tide_query_defer_rows(&query, read_own, g, err));
    return defer_bound(tx, c, c->limit, err);
}

/* What the claimers of one type want, as arrays. */
typedef struct places {
    tide_buffer
        numbers; /* of the claimer of each item, from 1: the first items go to the first of each */
    tide_buffer workers; /* of all calls of the group */
    tide_buffer leases;
    int wanted; /* items of all claimers */
} places;

static void done_places(places *p)
{
    tide_buffer_done(&p->numbers);
    tide_buffer_done(&p->workers);
    tide_buffer_done(&p->leases);
}

static const tide_claim *claim_of_type(const group *g, int at, const char *type)
{
    const tide_claim *c = g->turns[at]->claim;
    return c && strcmp(c->request->types[0], type) == 0 ? c : NULL;
}

static tide_status put_numbers(places *p, const group *g, const char *type)
{
    int before = -1;
    TIDE_TRY(tide_buffer_append_byte(&p->numbers, '{'));
    for (int turn = 0; p->wanted > before; turn++) {
        before = p->wanted;
        for (int i = 0; i < g->count; i++) {
            const tide_claim *c = claim_of_type(g, i, type);
            if (!c || c->limit <= turn)
                continue;
            if (p->wanted++ > 0)
                TIDE_TRY(tide_buffer_append_byte(&p->numbers, ','));
            TIDE_TRY(tide_buffer_append_decimal(&p->numbers, i + 1));
        }
    }
    return tide_buffer_append_byte(&p->numbers, '}');
}

static tide_status put_claimers(places *p, const group *g, const char *type)
{
    for (int i = 0; i < g->count; i++) {
        const tide_claim *c = claim_of_type(g, i, type);
        TIDE_TRY(tide_buffer_append_byte(&p->workers, i > 0 ? ',' : '{'));
        TIDE_TRY(tide_lease_list_put_element(&p->workers, c ? c->request->worker : NULL));
        TIDE_TRY(tide_buffer_append_byte(&p->leases, i > 0 ? ',' : '{'));
        TIDE_TRY(tide_buffer_append_decimal(&p->leases, c ? c->lease_us : 0));
    }
    TIDE_TRY(tide_buffer_append_byte(&p->workers, '}'));
    TIDE_TRY(tide_buffer_append_byte(&p->leases, '}'));
    return put_numbers(p, g, type);
}

static tide_status defer_shared(tide_tx *tx, group *g, const tide_claim *first, tide_error *err)
{
    const char *type = first->request->types[0];
    tide_item_clock clock = {0};
    TIDE_CLEANUP(done_places)
    places p = {.numbers = tide_buffer_of(CLAIMS_BYTES_MAX),
                .workers = tide_buffer_of(CLAIMS_BYTES_MAX),
                .leases = tide_buffer_of(CLAIMS_BYTES_MAX)};
    const tide_status status = put_claimers(&p, g, type);
    TIDE_TRY(tide_item_check_list(status, err));
    TIDE_TRY(defer_turn(tx, first, err));
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    TIDE_TRY(tide_query_start(&query, tx, TIDE_SQL_WORK_CLAIM_SHARED, err,
                              tide_bind_text("type", type), tide_bind_i64("limit", p.wanted),
                              tide_bind_i64("floor", tide_lease_token_floor(tx)),
                              tide_bind_view("places", tide_buffer_view(&p.numbers)),
                              tide_bind_view("workers", tide_buffer_view(&p.workers)),
                              tide_bind_view("leases", tide_buffer_view(&p.leases))));
    TIDE_TRY(tide_item_bind_clock(query, tx, &clock, err));
    TIDE_TRY(tide_query_defer_rows(&query, read_shared, g, err));
    return defer_bound(tx, first, p.wanted, err);
}

/* Is this the first of its type in the group? */
static bool is_first_of_type(const group *g, int at)
{
    for (int i = 0; i < at; i++) {
        const tide_claim *c = g->turns[i]->claim;
        if (c && strcmp(c->request->types[0], g->turns[at]->claim->request->types[0]) == 0)
            return false;
    }
    return true;
}

static tide_status defer_claims(tide_tx *tx, group *g, tide_error *err)
{
    int claims = 0;
    int64_t lease_us = INT64_MAX;
    for (int i = 0; i < g->count; i++) {
        tide_claim *c = g->turns[i]->claim;
        if (!c)
            continue;
        TIDE_TRY(tide_claim_reset(c, tx, err));
        claims++;
        lease_us = c->lease_us < lease_us ? c->lease_us : lease_us;
    }
    if (claims == 0)
        return TIDE_OK;
    tide_item_notify_due(tx, lease_us);
    for (int i = 0; i < g->count; i++) {
        const tide_claim *c = g->turns[i]->claim;
        if (c && claims == 1)
            return defer_own(tx, g, c, err);
        if (c && is_first_of_type(g, i))
            TIDE_TRY(defer_shared(tx, g, c, err));
    }
    return TIDE_OK;
}

/* ---- the transaction ---- */

static tide_status write_turns(tide_tx *tx, void *arg, tide_error *err)
{
    group *g = arg;
    TIDE_TRY(defer_finishes(tx, g, err));
    const tide_claim *claim = g->turns[0]->claim;
    /* Who has a type's turn does not wait for the disk before others get it. */
    if (g->count == 1 && (!claim || claim->limit < TIDE_TURN_LIMIT))
        tide_tx_flush_by_commit(tx);
    else if (g->count == 1 && g->held_count > 0)
        tide_tx_flush_alone(tx);
    return defer_claims(tx, g, err);
}

static tide_status end_turn(tide_work_turn *turn, tide_error *err)
{
    if (!turn->claim)
        return TIDE_OK;
    if (turn->claim->failure < TIDE_OK)
        return tide_fail(err, turn->claim->failure,
                         "the inputs of the claimed items do not fit into memory; claim fewer");
    tide_claim_sort(turn->claim);
    return TIDE_OK;
}

static tide_status run_group(tide_store *store, group *g, tide_error *err)
{
    tide_status status = gather_finishes(g, err);
    if (status >= TIDE_OK)
        status = tide_store_write(store, write_turns, g, err);
    free(g->held);
    return status < TIDE_OK ? status : TIDE_OK;
}

/* A failure of the store is everybody's. After any other, a timeout included, it may be one of them that the others wait
 * for no longer. */
static bool is_of_store(tide_status status)
{
    return status == TIDE_E_UNAVAILABLE || status == TIDE_E_OUTCOME_UNKNOWN ||
           status == TIDE_E_MISMATCH || status == TIDE_E_DENIED || status == TIDE_E_FULL;
}

static void run_shared(tide_combiner_turn *lead, tide_work_turn **turns, int count)
{
    group g = {.turns = turns, .count = count, .lead = lead};
    tide_error err = {0};
    const tide_status status = run_group(turns[0]->store, &g, &err);
    for (int i = 0; i < count; i++) {
        turns[i]->status = status;
        turns[i]->err = err;
        turns[i]->is_alone = status < TIDE_OK && count > 1 && !is_of_store(status);
    }
}

static int count_items(const tide_work_turn *turn)
{
    const int finished = turn->finish ? turn->finish->count : 0;
    const int claimed = turn->claim ? turn->claim->limit : 0;
    return finished > claimed ? finished : claimed;
}

/* As many as fit into one transaction, then the next ones. The last one passes the lead on. */
static void run_together(tide_combiner_turn *lead, void **whats, int count)
{
    tide_work_turn *turns[TIDE_COMBINER_BATCH_MAX] = {NULL};
    assert(count > 0 && count <= TIDE_COMBINER_BATCH_MAX);
    for (int i = 0; i < count; i++)
        turns[i] = whats[i];
    for (int from = 0, to = 0; from < count; from = to) {
        int items = 0;
        for (; to < count && (to == from || items + count_items(turns[to]) <= TIDE_TURN_ITEMS_MAX);
             to++)
            items += count_items(turns[to]);
        run_shared(to == count ? lead : NULL, turns + from, to - from);
    }
}

static bool is_shared(const tide_store *store, const tide_work_turn *turn)
{
    const tide_finish_list *list = turn->finish;
    if (tide_store_engine(store) != TIDE_ENGINE_POSTGRES ||
        (turn->claim &&
         (turn->claim->limit > TIDE_TURN_SHARED_MAX || !is_of_one_type(turn->claim))) ||
        (list && list->count > TIDE_TURN_SHARED_MAX))
        return false;
    size_t bytes = 0;
    for (int i = 0; list && i < list->count; i++)
        bytes += list->held[i].output ? strlen(list->held[i].output) : 0;
    return bytes <= TIDE_TURN_SHARED_BYTES;
}

tide_status tide_work_turn_run(tide_store *store, tide_work_turn *turn, tide_error *err)
{
    turn->store = store;
    turn->is_alone = !is_shared(store, turn);
    if (!turn->is_alone) {
        const bool is_large = count_items(turn) >= TIDE_TURN_LARGE;
        TIDE_TRY(tide_store_combine(store, is_large, turn, run_together, err));
        if (!turn->is_alone && turn->status < TIDE_OK && err)
            *err = turn->err;
    }
    if (turn->is_alone) {
        group g = {.turns = &turn, .count = 1};
        turn->status = run_group(store, &g, err);
    }
    TIDE_TRY(turn->status);
    return end_turn(turn, err);
}
