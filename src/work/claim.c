/* claim.c - who gets which item.
 *
 * One statement picks the first claimable items and takes their leases. There is one for a single type, one for several
 * or all, one for a task: each walks an index in the order of claims and stops at the limit, so that its cost does not
 * depend on how many items there are.
 *
 * Delayed items that are due come first into the order. The statement picks nothing while something is due; only
 * then is there a second one.
 *
 * Types with a limit have a statement of their own, behind a lock of their limits (limit/limit.h).
 *
 * A claim in vain leaves no trace: on SQLite it is found out in a read transaction, on PostgreSQL the transaction is rolled
 * back, so that nothing is flushed. */
#include <tidemark/work.h>

#include <assert.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/interface/caller.h"
#include "base/interface/sized.h"
#include "core/lease_clock.h"
#include "store/engine.h"
#include "store/statement.h"
#include "tidemark_sql.h"
#include "work/item.h"
#include "work/limit/limit.h"
#include "work/turn/turn.h"

enum {
    PROMOTE_MAX = 500, /* delayed items that one claim lets run */
    REACH_FIRST = 64,  /* heads looked at beyond the limit ... */
    REACH_FACTOR = 16, /* ... and more of them when all were in other hands */
    REACH_TRIES = 4,
    DUE_WALK = 10000,   /* delayed items of others that are passed by to find the next of ours */
    TIDY_EVERY = 4096,  /* claimed items between two steps that raise the bounds, about */
    LIMIT_REACH = 1024, /* first items of a type with a limit that are looked at ... */
    LIMIT_REACH_FAR = 65536, /* ... and of a task, or by chance where all of those have no slot */
    LIMIT_FAR_EVERY = 16,
};

/* Until a claim that a limit held back is worth another try. */
#define HELD_BACK_US INT64_C(1000000)

#define CLAIM_BYTES_MAX ((size_t)1 << 30) /* inputs of one claim (SQLite) */
#define ITEM_BYTES_MAX ((size_t)TIDE_WORK_DATA_MAX + 4096)

/* ---- what callers give ---- */

static tide_status check_request(tide_claim *c, tide_error *err)
{
    const tide_work_claim_request *r = c->request;
    TIDE_TRY(tide_item_check_name("a worker's name", r->worker, TIDE_WORK_WORKER_MAX, err));
    TIDE_TRY(
        tide_item_check_range("the number of types", r->type_count, 0, TIDE_WORK_TYPES_MAX, err));
    TIDE_NEED(r->types || r->type_count == 0, err);
    for (int i = 0; i < r->type_count; i++)
        TIDE_TRY(tide_item_check_name("a work type", r->types[i], TIDE_WORK_TYPE_MAX, err));
    if (r->task_id)
        TIDE_TRY(tide_item_check_id("a task's id", r->task_id, err));
    c->limit = r->limit ? r->limit : 1;
    TIDE_TRY(tide_item_check_range("limit", c->limit, 1, TIDE_WORK_BATCH_MAX, err));
    return tide_item_check_lease(r->lease_us, &c->lease_us, err);
}

/* ---- looking ---- */

typedef struct look {
    const tide_work_claim_request *request;
    bool is_ready;   /* something can be claimed */
    bool is_due;     /* something of anybody's can be promoted */
    bool has_limits; /* of any type */
    int64_t
        next_due_us; /* -1: nothing of ours is delayed; only asked when nothing is ready or due */
} look;

static tide_status look_around(tide_tx *tx, look *l, tide_error *err)
{
    const tide_work_claim_request *r = l->request;
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    TIDE_TRY(tide_query_start(&query, tx,
                              r->task_id ? TIDE_SQL_WORK_LOOK_TASK : TIDE_SQL_WORK_LOOK_TYPES, err,
                              TIDE_BIND_IF(r->task_id, tide_bind_text("task_id", r->task_id))));
    TIDE_TRY(tide_item_bind_texts(query, "types", r->types, r->type_count, true, err));
    TIDE_TRY(tide_query_one(query, err));
    const bool is_any_delayed = !tide_query_col_is_null(query);
    const int64_t due_us = tide_query_col_time(query);
    l->is_ready = tide_query_col_bool(query);
    l->has_limits = tide_query_col_bool(query);
    l->is_due = false;
    if (is_any_delayed) {
        int64_t now_us = 0;
        TIDE_TRY(tide_tx_now(tx, &now_us, err));
        l->is_due = due_us <= now_us;
    }
    return TIDE_OK;
}

/* When is the next delayed item due that this claim could take? Items of others are passed by, thousands of them at
 * most: behind those the answer is a time at which to look again. */
static tide_status find_next_due(tide_tx *tx, const tide_work_claim_request *r, int64_t *out,
                                 tide_error *err)
{
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    TIDE_TRY(tide_query_start(&query, tx, TIDE_SQL_WORK_NEXT_DUE, err,
                              tide_bind_text("task_id", r->task_id)));
    TIDE_TRY(tide_item_bind_texts(query, "types", r->types, r->type_count, true, err));
    tide_query_bind_i64(query, "limit", DUE_WALK);
    TIDE_TRY(tide_query_one(query, err));
    *out = -1;
    if (tide_query_col_is_null(query))
        return TIDE_OK;
    int64_t now_us = 0;
    TIDE_TRY(tide_tx_now(tx, &now_us, err));
    const int64_t due_us = tide_query_col_time(query);
    *out = due_us > now_us ? due_us - now_us : 0;
    return TIDE_OK;
}

static tide_status look_in_a_read(tide_tx *tx, void *arg, tide_error *err)
{
    look *l = arg;
    TIDE_TRY(look_around(tx, l, err));
    if (l->is_ready || l->is_due)
        return TIDE_OK;
    return find_next_due(tx, l->request, &l->next_due_us, err);
}

/* ---- taking ---- */

tide_status tide_item_promote(tide_tx *tx, int64_t limit, int64_t *count, tide_item_wakes *wakes,
                              tide_error *err)
{
    int64_t promoted = 0;
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    TIDE_TRY(tide_query_start(&query, tx, TIDE_SQL_WORK_PROMOTE, err, tide_bind_now("now"),
                              tide_bind_i64("limit", limit)));
    TIDE_CLEANUP(tide_arena_done) tide_arena arena = tide_arena_of(TIDE_ITEM_PAGE_MAX);
    tide_status status = TIDE_OK;
    for (; (status = tide_query_step(query, err)) == TIDE_OK; promoted++) {
        tide_row row = {.query = query, .arena = &arena};
        const char *type = tide_row_text(&row);
        if (type)
            tide_item_wake(wakes, type);
    }
    if (count)
        *count = promoted;
    return status < TIDE_OK ? status : TIDE_OK;
}

/* The key of an item has the time at which it was added. */
static void measure_wait(tide_work_claimed *item, int64_t claim_key, int64_t now_us)
{
    const int64_t added_at_us = claim_key + item->priority * TIDE_ITEM_PRIORITY_STEP_US;
    item->waited_us = now_us > added_at_us ? now_us - added_at_us : 0;
}

/* On SQLite leases have a clock of their own. */
static tide_status measure_waits(tide_tx *tx, const tide_claim *c, tide_error *err)
{
    int64_t now_us = 0;
    if (c->out->count == 0 || tide_store_engine(tide_tx_store(tx)) != TIDE_ENGINE_SQLITE)
        return TIDE_OK;
    TIDE_TRY(tide_tx_now(tx, &now_us, err));
    for (int i = 0; i < c->out->count; i++)
        measure_wait(&c->out->items[i], c->keys[i], now_us);
    return TIDE_OK;
}

/* It is claimed all the same, so that nobody else is given it meanwhile. */
static tide_status note_damaged(tide_claim *c, const tide_work_claimed *item, const tide_error *why,
                                tide_error *err)
{
    tide_claim_damaged *damaged = tide_arena_alloc(c->out->memory, sizeof *damaged);
    if (!damaged)
        return tide_no_memory(err);
    *damaged = (tide_claim_damaged){
        .id = item->work_item_id, .token = item->lease_token, .why = *why, .next = c->damaged};
    c->damaged = damaged;
    return TIDE_OK;
}

tide_status tide_claim_read(tide_query *query, tide_claim *c, tide_error *err)
{
    tide_work_claims *out = c->out;
    assert(out->count < c->limit);
    tide_row row = {.query = query, .arena = out->memory};
    tide_work_claimed *item = &out->items[out->count];
    *item = (tide_work_claimed){.work_item_id = tide_row_text(&row)};
    item->task_id = tide_row_text(&row);
    item->work_type = tide_row_text(&row);
    item->input = tide_row_text(&row);
    item->worker = c->request->worker;
    item->lease_token = tide_query_col_i64(query);
    item->attempt = tide_query_col_i64(query);
    item->max_retries = tide_query_col_i64(query);
    item->priority = tide_query_col_i64(query);
    item->lease_expires_at_us = tide_row_time(&row);
    item->deadline_at_us = tide_row_time(&row);
    const int64_t acquired_at_us = tide_row_time(&row);
    item->lease_us = item->lease_expires_at_us - acquired_at_us;
    c->keys[out->count] = tide_query_col_i64(query);
    measure_wait(item, c->keys[out->count], acquired_at_us);
    TIDE_TRY(tide_row_end(&row, err));
    tide_error why = {0};
    const tide_status status = tide_item_check_digest(
        query, item->work_item_id, tide_item_input_digest(item->work_item_id, item->input), &why);
    c->is_first = tide_query_col_bool(query) || c->is_first;
    if (status == TIDE_E_DAMAGED)
        return note_damaged(c, item, &why, err);
    out->count++;
    return TIDE_OK;
}

/* RETURNING keeps no order. The keys are few and mostly sorted: insertion keeps what is equal as it came. */
void tide_claim_sort(tide_claim *c)
{
    for (int i = 1; i < c->out->count; i++) {
        const tide_work_claimed item = c->out->items[i];
        const int64_t key = c->keys[i];
        int at = i;
        for (; at > 0 && c->keys[at - 1] > key; at--) {
            c->out->items[at] = c->out->items[at - 1];
            c->keys[at] = c->keys[at - 1];
        }
        c->out->items[at] = item;
        c->keys[at] = key;
    }
}

static const tide_sql *choose_statement(const tide_claim *c, tide_engine engine)
{
    if (c->request->task_id)
        return TIDE_SQL_WORK_CLAIM_TASK;
    if (c->request->type_count != 1)
        return TIDE_SQL_WORK_CLAIM_TYPES;
    return engine == TIDE_ENGINE_SQLITE && c->limit == 1 ? TIDE_SQL_WORK_CLAIM_ONE
                                                         : TIDE_SQL_WORK_CLAIM_TYPE;
}

/* What every claim has. */
static tide_status bind_lease(tide_query *query, tide_tx *tx, const tide_claim *c, tide_error *err)
{
    tide_item_clock clock = {0};
    const tide_engine engine = tide_store_engine(tide_tx_store(tx));
    TIDE_TRY(tide_item_bind_clock(query, tx, &clock, err));
    if (engine == TIDE_ENGINE_SQLITE) {
        tide_query_bind_i64(query, "lease_now_us", clock.lease_now_us);
        tide_query_bind_time(query, "expires", clock.lease_now_us + c->lease_us);
    }
    tide_query_bind_text(query, "worker", c->request->worker);
    tide_query_bind_i64(query, "lease_us", c->lease_us);
    tide_query_bind_i64(query, "floor", tide_lease_token_floor(tx));
    return TIDE_OK;
}

static tide_status bind_claim(tide_query *query, tide_tx *tx, const tide_claim *c, tide_error *err)
{
    const tide_work_claim_request *r = c->request;
    TIDE_TRY(bind_lease(query, tx, c, err));
    if (choose_statement(c, tide_store_engine(tide_tx_store(tx))) != TIDE_SQL_WORK_CLAIM_ONE)
        tide_query_bind_i64(query, "limit", c->limit);
    if (r->task_id)
        tide_query_bind_text(query, "task_id", r->task_id);
    if (r->task_id || r->type_count != 1)
        return tide_item_bind_texts(query, "types", r->types, r->type_count, true, err);
    tide_query_bind_text(query, "type", r->types[0]);
    return TIDE_OK;
}

/* Does anybody wait for the first claim of his task? */
static tide_status run_tasks(tide_tx *tx, const tide_claim *c, tide_error *err)
{
    int64_t now_us = 0;
    TIDE_TRY(tide_tx_now(tx, &now_us, err));
    TIDE_CLEANUP(tide_freep) const char **ids = calloc((size_t)c->out->count, sizeof *ids);
    if (!ids)
        return tide_no_memory(err);
    for (int i = 0; i < c->out->count; i++)
        ids[i] = c->out->items[i].task_id;
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    TIDE_TRY(tide_query_begin(&query, tx, TIDE_SQL_WORK_RUN_TASKS, err));
    TIDE_TRY(tide_item_bind_texts(query, "ids", ids, c->out->count, false, err));
    tide_query_bind_time(query, "now", now_us);
    return tide_query_run(query, NULL, err);
}

static tide_status begin_claim(tide_query **query, tide_tx *tx, const tide_claim *c,
                               bool is_promoted, int64_t reach, tide_error *err)
{
    const tide_engine engine = tide_store_engine(tide_tx_store(tx));
    const tide_sql *sql = choose_statement(c, engine);
    TIDE_TRY(tide_query_begin(query, tx, sql, err));
    TIDE_TRY(bind_claim(*query, tx, c, err));
    tide_query_bind_bool(*query, "is_promoted", is_promoted);
    if (engine == TIDE_ENGINE_POSTGRES && sql == TIDE_SQL_WORK_CLAIM_TYPES)
        tide_query_bind_i64(*query, "reach", c->limit + reach);
    return TIDE_OK;
}

static tide_status read_items(tide_query *query, tide_claim *c, tide_error *err)
{
    c->is_first = false;
    TIDE_EACH(tide_query_step(query, err))
        TIDE_TRY(tide_claim_read(query, c, err));
    tide_claim_sort(c);
    return TIDE_OK;
}

static tide_status take_items(tide_tx *tx, tide_claim *c, bool is_promoted, int64_t reach,
                              tide_error *err)
{
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    TIDE_TRY(begin_claim(&query, tx, c, is_promoted, reach, err));
    TIDE_TRY(read_items(query, c, err));
    tide_query_endp(&query);
    return c->is_first ? run_tasks(tx, c, err) : TIDE_OK;
}

/* ---- taking what has a limit ---- */

static tide_status take_slots(tide_tx *tx, tide_claim *c, const tide_limits *limits, int64_t reach,
                              bool is_by_key, tide_error *err)
{
    const tide_work_claim_request *r = c->request;
    TIDE_CLEANUP(tide_query_endp) tide_query *query = NULL;
    TIDE_TRY(tide_query_begin(&query, tx, TIDE_SQL_WORK_CLAIM_LIMITED, err));
    TIDE_TRY(bind_lease(query, tx, c, err));
    TIDE_TRY(tide_item_bind_texts(query, "types", r->types, r->type_count, true, err));
    tide_query_bind_text(query, "task_id", r->task_id);
    tide_query_bind_i64(query, "limit", c->limit);
    tide_query_bind_i64(query, "reach", c->limit + reach);
    tide_query_bind_bool(query, "is_by_key", is_by_key);
    if (tide_store_engine(tide_tx_store(tx)) == TIDE_ENGINE_POSTGRES)
        tide_query_bind_text_view(query, "locked", tide_buffer_view(&limits->locked));
    TIDE_TRY(read_items(query, c, err));
    tide_query_endp(&query);
    TIDE_TRY(tide_limits_occupy(tx, c->out, err));
    return c->is_first ? run_tasks(tx, c, err) : TIDE_OK;
}

/* Items without a key behind very many of keys that have no slot: not each claim can walk so far. */
static bool is_far_chance(tide_tx *tx)
{
    uint8_t drawn = 0;
    tide_env *env = tide_store_env(tide_tx_store(tx));
    env->random(env, &drawn, sizeof drawn);
    return drawn % LIMIT_FAR_EVERY == 0;
}

/* Adds slots that became free to *changed. */
static tide_status take_limited(tide_tx *tx, tide_claim *c, const tide_limits *limits,
                                int64_t *changed, tide_error *err)
{
    int64_t freed = 0;
    const bool is_of_task = c->request->task_id;
    const int64_t reach = is_of_task ? LIMIT_REACH_FAR : LIMIT_REACH;
    TIDE_TRY(take_slots(tx, c, limits, reach, false, err));
    if (c->out->count == 0)
        TIDE_TRY(tide_limits_prune(limits, tx, &freed, err));
    if (freed > 0)
        TIDE_TRY(take_slots(tx, c, limits, reach, false, err));
    if (c->out->count == 0 && limits->has_keys && !is_of_task)
        TIDE_TRY(take_slots(tx, c, limits, reach, true, err));
    if (c->out->count == 0 && limits->has_keys && !is_of_task && is_far_chance(tx))
        TIDE_TRY(take_slots(tx, c, limits, LIMIT_REACH_FAR, false, err));
    *changed += freed;
    return TIDE_OK;
}

/* What is due is promoted before anything is picked. An empty answer tells that something may be.
 * *changed: items promoted, and slots that became free. */
static tide_status try_claim(tide_tx *tx, tide_claim *c, tide_limits *limits, int64_t *changed,
                             tide_item_wakes *wakes, tide_error *err)
{
    const bool is_sqlite = tide_store_engine(tide_tx_store(tx)) == TIDE_ENGINE_SQLITE;
    const bool is_by_heads = !c->request->task_id && c->request->type_count != 1;
    int64_t reach = REACH_FIRST;
    TIDE_TRY(take_items(tx, c, false, reach, err));
    for (int try = 0; c->out->count == 0 && try < REACH_TRIES; try++) {
        look l = {.request = c->request};
        int64_t count = 0;
        TIDE_TRY(look_around(tx, &l, err));
        if (l.is_due)
            TIDE_TRY(tide_item_promote(tx, PROMOTE_MAX, &count, wakes, err));
        *changed += count;
        if (!l.is_ready && count == 0)
            break;
        if (l.has_limits && limits->count == 0)
            TIDE_TRY(tide_limits_lock(limits, tx, c->request, err));
        if (limits->count > 0)
            TIDE_TRY(take_limited(tx, c, limits, changed, err));
        else
            TIDE_TRY(take_items(tx, c, true, reach, err));
        /* One writer, or a walk over the index that passes what others have locked: once is enough. */
        if ((is_sqlite || !is_by_heads || limits->count > 0) && count == 0)
            break;
        reach *= REACH_FACTOR;
    }
    return TIDE_OK;
}

tide_status tide_claim_reset(tide_claim *c, tide_tx *tx, tide_error *err)
{
    c->out->count = 0;
    c->out->next_due_us = -1;
    c->failure = TIDE_OK;
    c->damaged = NULL;
    tide_arena_reset(c->out->memory);
    return tide_tx_identity(tx, &c->out->identity, err);
}

tide_status tide_claim_take(tide_tx *tx, tide_claim *c, tide_error *err)
{
    tide_item_wakes wakes = {.count = 0};
    int64_t changed = 0;
    TIDE_CLEANUP(tide_limits_done) tide_limits limits;
    tide_limits_init(&limits);
    TIDE_TRY(tide_claim_reset(c, tx, err));
    TIDE_TRY(try_claim(tx, c, &limits, &changed, &wakes, err));
    TIDE_TRY(measure_waits(tx, c, err));
    if (c->out->count == 0)
        TIDE_TRY(find_next_due(tx, c->request, &c->out->next_due_us, err));
    /* Plain SQL that ends an item notifies no worker. */
    if (c->out->count == 0 && limits.count > 0 &&
        (c->out->next_due_us < 0 || c->out->next_due_us > HELD_BACK_US))
        c->out->next_due_us = HELD_BACK_US;
    tide_item_notify(&wakes, tx);
    if (c->out->count > 0)
        tide_item_notify_due(tx, c->lease_us);
    c->is_vain = c->out->count == 0 && !c->damaged && changed == 0;
    return c->out->count > 0 ? TIDE_OK : TIDE_NONE;
}

static tide_status claim_items(tide_tx *tx, void *arg, tide_error *err)
{
    tide_claim *c = arg;
    const tide_status status = tide_claim_take(tx, c, err);
    TIDE_TRY(status);
    if (c->is_vain && tide_store_engine(tide_tx_store(tx)) == TIDE_ENGINE_POSTGRES)
        return tide_fail(err, TIDE_E_NOT_FOUND, "nothing to do");
    return status;
}

tide_status tide_claim_begin(tide_query **query, tide_tx *tx, const tide_claim *c, tide_error *err)
{
    return begin_claim(query, tx, c, false, REACH_FIRST, err);
}

/* ---- the low-water bounds ---- */

/* Now and then, by chance: nobody has to count, whoever claims. A bound left low costs time and nothing else. */
static void tidy(tide_store *store, const tide_work_claims *claims)
{
    uint16_t drawn = 0;
    tide_env *env = tide_store_env(store);
    if (tide_store_engine(store) != TIDE_ENGINE_POSTGRES || claims->count == 0)
        return;
    env->random(env, &drawn, sizeof drawn);
    if (drawn % TIDY_EVERY >= claims->count)
        return;
    tide_error ignored;
    TIDE_IGNORE(
        tide_item_raise_bounds(store, claims->items[drawn % claims->count].work_type, &ignored));
}

/* ---- the call ---- */

tide_status tide_claim_init(tide_claim *c, tide_store *store,
                            const tide_work_claim_request *request, tide_work_claims *out,
                            tide_error *err)
{
    *c = (tide_claim){.request = request, .out = out};
    *out = (tide_work_claims){.next_due_us = -1};
    TIDE_TRY(check_request(c, err));
    tide_arena *arena = malloc(sizeof *arena);
    out->items = calloc((size_t)c->limit, sizeof *out->items);
    c->keys = calloc((size_t)c->limit, sizeof *c->keys);
    /* Claimed at once means committed before it is read: then there is room for all of it. */
    const bool is_at_once = tide_store_engine(store) == TIDE_ENGINE_POSTGRES;
    if (arena)
        tide_arena_init(arena, is_at_once ? (size_t)c->limit * ITEM_BYTES_MAX : CLAIM_BYTES_MAX);
    out->memory = arena;
    return arena && out->items && c->keys ? TIDE_OK : tide_no_memory(err);
}

void tide_claim_done(tide_claim *c)
{
    free(c->keys);
    c->keys = NULL;
}

/* Where this fails, their leases run out, and the next claim finds them. */
static void end_damaged(tide_store *store, tide_claim *c)
{
    for (const tide_claim_damaged *at = c->damaged; at; at = at->next) {
        tide_error ignored;
        const tide_work_failure failure = {TIDE_WORK_FAILURE_INIT, .work_item_id = at->id,
                                           .token = at->token, .error = at->why.text,
                                           .is_final = true};
        tide_store_report_call(store, TIDE_E_DAMAGED, false, &at->why);
        TIDE_IGNORE(tide_work_fail(store, &failure, NULL, &ignored));
    }
    c->damaged = NULL;
}

tide_status tide_claim_rest(tide_store *store, tide_claim *c, tide_error *err)
{
    tide_status status = TIDE_OK;
    bool was_damaged = false;
    end_damaged(store, c);
    do {
        if (c->out->count == 0)
            status = tide_store_write(store, claim_items, c, err);
        if (status == TIDE_E_NOT_FOUND && c->is_vain)
            status = TIDE_NONE;
        was_damaged = status >= TIDE_OK && c->damaged;
        if (was_damaged)
            end_damaged(store, c);
    } while (status == TIDE_NONE && was_damaged); /* all that it found: others may be sound */
    return tide_claim_end(store, c, status);
}

tide_status tide_claim_end(tide_store *store, tide_claim *c, tide_status status)
{
    if (status != TIDE_OK)
        c->out->count = 0;
    else
        tidy(store, c->out);
    return status;
}

static tide_status claim_found(tide_store *store, tide_claim *c, tide_error *err)
{
    if (tide_store_engine(store) == TIDE_ENGINE_SQLITE) {
        look l = {.request = c->request};
        TIDE_TRY(tide_store_read(store, look_in_a_read, &l, err));
        c->out->next_due_us = l.next_due_us;
        if (!l.is_ready && !l.is_due)
            return TIDE_NONE;
    } else {
        tide_work_turn turn = {.claim = c};
        TIDE_TRY(tide_work_turn_run(store, &turn, err));
    }
    return tide_claim_rest(store, c, err);
}

tide_status tide_work_claim(tide_store *store, const tide_work_claim_request *given,
                            tide_work_claims *out, tide_error *err)
{
    TIDE_NEED(store && out, err);
    *out = (tide_work_claims){.next_due_us = -1};
    tide_work_claim_request request;
    TIDE_TRY(TIDE_SIZED_COPY(&request, given, tide_work_claim_request, err));
    TIDE_CLEANUP(tide_claim_done) tide_claim c;
    TIDE_TRY(tide_claim_init(&c, store, &request, out, err));
    const tide_status status = claim_found(store, &c, err);
    if (status != TIDE_OK)
        out->count = 0;
    return status;
}

void tide_work_claims_done(tide_work_claims *claims)
{
    if (!claims)
        return;
    if (claims->memory)
        tide_arena_done(claims->memory);
    free(claims->memory);
    free(claims->items);
    *claims = (tide_work_claims){.next_due_us = -1};
}
