/* tx.c - the engine-independent half of a transaction: doom, counters, deferred rows. */
#include <tidemark/store.h>

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/interface/caller.h"
#include "store/engine.h"
#include "store/statement.h"

void tide_tx_init(tide_tx *tx, tide_store *store, void *connection, tide_query_pool *pool,
                  bool is_write)
{
    tx->store = store;
    tx->connection = connection;
    tx->pool = pool;
    tx->is_write = is_write;
    tx->has_counters = false;
    tx->is_now_known = false;
    tx->now_us = 0;
    tx->doom = TIDE_OK;
    tx->take_count = 0;
    tx->topics.count = 0;
    tx->raised_count = 0;
    tx->open = NULL;
    tx->deferred_first = NULL;
    tx->deferred_last = NULL;
    tx->deferred_len = 0;
    tx->is_told = false;
    tx->has_own_flush = false;
    tx->is_synchronous = false;
    tx->has_lost_run = false;
    tx->has_told = false;
}

void tide_tx_flush_alone(tide_tx *tx)
{
    tx->has_own_flush = true;
}

void tide_tx_flush_by_commit(tide_tx *tx)
{
    tx->is_synchronous = true;
}

bool tide_tx_has_lost_run(const tide_tx *tx)
{
    return tx->has_lost_run;
}

void tide_tx_done(tide_tx *tx)
{
    for (int i = 0; i < tx->take_count; i++)
        tide_query_end(tx->takes[i].query);
    tx->take_count = 0;
    while (tx->deferred_first) {
        tide_query *query = tx->deferred_first;
        tx->deferred_first = query->next;
        tide_query_end(query);
    }
    tx->deferred_last = NULL;
    while (tx->open)
        tide_query_end(tx->open);
}

tide_store *tide_tx_store(tide_tx *tx)
{
    return tx ? tx->store : NULL;
}

bool tide_tx_is_write(const tide_tx *tx)
{
    return tx && tx->is_write;
}

tide_status tide_tx_doom(tide_tx *tx, tide_status status, const tide_error *err)
{
    if (tx->doom < TIDE_OK)
        return status;
    tx->doom = status;
    if (err)
        tx->doom_error = *err;
    else
        (void)tide_fail(&tx->doom_error, status, "%s", tide_status_get(status)->text);
    return status;
}

tide_status tide_tx_check_doom(const tide_tx *tx, tide_error *err)
{
    if (tx->doom < TIDE_OK && err)
        *err = tx->doom_error;
    return tx->doom;
}

tide_status tide_tx_now(tide_tx *tx, int64_t *now_us, tide_error *err)
{
    TIDE_NEED(tx && now_us, err);
    TIDE_TRY(tide_tx_check_doom(tx, err));
    if (!tx->is_now_known) {
        const tide_status status = tx->store->ops->now(tx, err);
        if (status < TIDE_OK)
            return tide_tx_doom(tx, status, err);
        tx->is_now_known = true;
    }
    *now_us = tx->now_us;
    return TIDE_OK;
}

tide_status tide_tx_script(tide_tx *tx, const char *text, tide_error *err)
{
    TIDE_TRY(tide_tx_check_doom(tx, err));
    assert(tx->is_write && !tx->has_counters);
    const tide_status status = tx->store->ops->script(tx, text, err);
    return status < TIDE_OK ? tide_tx_doom(tx, status, err) : TIDE_OK;
}

tide_status tide_tx_declare_counter(tide_tx *tx, const char *key, tide_query **query,
                                    int64_t *value, tide_error *err)
{
    TIDE_NEED(tx && query, err);
    TIDE_TRY(tide_tx_check_doom(tx, err));
    if (!tx->is_write || tx->has_counters)
        return tide_fail(err, TIDE_E_INVALID,
                         "counter %s: declare it in a write, before tide_tx_take_counters",
                         key ? key : "NULL");
    if (!key || strlen(key) > TIDE_TX_KEY_MAX || !*query)
        return tide_fail(err, TIDE_E_INVALID,
                         "a counter needs a query and a key of at most %d bytes", TIDE_TX_KEY_MAX);
    for (int i = 0; i < tx->take_count; i++)
        if (strcmp(tx->takes[i].key, key) == 0)
            return tide_fail(err, TIDE_E_INVALID, "%s is taken twice in one transaction", key);
    if (tx->take_count == TIDE_TX_TAKE_MAX)
        return tide_fail(err, TIDE_E_LIMIT, "more than %d counters in one transaction",
                         TIDE_TX_TAKE_MAX);
    tide_take *take = &tx->takes[tx->take_count++];
    (void)snprintf(take->key, sizeof take->key, "%s", key);
    take->value = value;
    take->numbers = 0;
    take->query = *query;
    /* The query leaves the list of open ones: the transaction owns it now. */
    for (tide_query **at = &tx->open; *at; at = &(*at)->next) {
        if (*at == take->query) {
            *at = take->query->next;
            break;
        }
    }
    *query = NULL;
    return TIDE_OK;
}

void tide_tx_raises_declared(tide_tx *tx, int64_t numbers)
{
    tx->takes[tx->take_count - 1].numbers = numbers;
}

void tide_tx_raised(tide_tx *tx, const char *sequence, int64_t last)
{
    if (tx->raised_count == TIDE_TX_RAISED_MAX)
        return;
    tide_raised *raised = &tx->raised[tx->raised_count++];
    (void)snprintf(raised->name, sizeof raised->name, "%s", sequence);
    raised->last = last;
}

static int compare_takes(const void *a, const void *b)
{
    return strcmp(((const tide_take *)a)->key, ((const tide_take *)b)->key);
}

void tide_tx_sort_takes(tide_tx *tx)
{
    qsort(tx->takes, (size_t)tx->take_count, sizeof tx->takes[0], compare_takes);
}

tide_status tide_tx_take_counters(tide_tx *tx, tide_error *err)
{
    TIDE_NEED(tx, err);
    TIDE_TRY(tide_tx_check_doom(tx, err));
    if (!tx->is_write || tx->has_counters)
        return tide_fail(err, TIDE_E_INVALID, "counters are taken once, in a write");
    tide_tx_sort_takes(tx);
    const tide_status status = tx->store->ops->take_counters(tx, err);
    tx->has_counters = true;
    return status < TIDE_OK ? tide_tx_doom(tx, status, err) : TIDE_OK;
}

tide_status tide_tx_take_counters_plainly(tide_tx *tx, tide_error *err)
{
    for (int i = 0; i < tx->take_count; i++) {
        tide_query *query = tx->takes[i].query;
        const tide_status status = tide_query_one(query, err);
        TIDE_TRY(status);
        if (status == TIDE_NONE)
            return tide_fail(err, TIDE_E_DAMAGED,
                             "a counter gave no number: is there a foreign trigger?");
        *tx->takes[i].value = tide_query_col_i64(query);
        if (tx->takes[i].numbers > 0)
            tide_tx_raised(tx, strchr(tx->takes[i].key, '/') + 1,
                           *tx->takes[i].value + (tx->takes[i].numbers - 1));
    }
    return TIDE_OK;
}

tide_status tide_tx_complete_plainly(tide_tx *tx, tide_error *err)
{
    if (tx->is_write && !tx->has_counters)
        TIDE_TRY(tide_tx_take_counters(tx, err));
    for (tide_query *query = tx->deferred_first; query; query = query->next) {
        TIDE_EACH(tide_query_step(query, err))
            if (query->on_row)
                query->on_row(query, query->on_row_arg);
    }
    return TIDE_OK;
}

/* The stores whose closures run on this thread, the innermost first. */
typedef struct frame {
    const tide_store *store;
    const struct frame *outer;
} frame;

static _Thread_local const frame *inside;

bool tide_tx_is_inside(const tide_store *store)
{
    const frame *at = inside;
    while (at && at->store != store)
        at = at->outer;
    return at;
}

tide_status tide_tx_run(tide_tx *tx, tide_tx_fn *fn, void *arg, tide_error *err)
{
    const frame here = {.store = tx->store, .outer = inside};
    inside = &here;
    const tide_status status = tide_callback_check(fn(tx, arg, err), err);
    inside = here.outer;
    if (status < TIDE_OK)
        return status;
    TIDE_TRY(tide_tx_check_doom(tx, err));
    return status;
}
